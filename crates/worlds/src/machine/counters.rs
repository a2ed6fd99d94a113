// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a virtual machine.

device::counters! {
    /// Counts what a machine has done.
    #[derive(serde::Serialize)]
    pub struct VmCounters {
        /// Clients that have joined.
        clients,
        /// Reads of a region.
        reads,
        /// Writes of a region.
        writes,
        /// Resets of the VMD.
        resets,
        /// Interrupts signalled.
        interrupts,
        /// Interrupts to a vector without a descriptor, or masked.
        interrupts_lost,
        /// INTx, which a VMD does not forward, and messages to an address that its driver never uses.
        interrupts_foreign,
        /// Messages of functions that no root port handles.
        messages,
        /// Ranges of memory mapped.
        maps,
        /// Ranges without a descriptor, which DMA reaches by messages.
        maps_without_descriptor,
        /// Commands refused.
        refused,
    }
}

/// Returns the sum.
pub(super) fn sum(all: impl Iterator<Item = VmCounters>) -> VmCounters {
    all.fold(VmCounters::default(), |mut sum, one| {
        sum.add(&one);
        sum
    })
}
