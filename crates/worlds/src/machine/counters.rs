// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a virtual machine.

use serde::Serialize;
use std::ops::Add;

/// Counts what a machine has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VmCounters {
    /// Clients that have joined.
    pub clients: u64,
    /// Reads of a region.
    pub reads: u64,
    /// Writes of a region.
    pub writes: u64,
    /// Resets of the VMD.
    pub resets: u64,
    /// Interrupts signalled.
    pub interrupts: u64,
    /// Interrupts to a vector without a descriptor, or masked.
    pub interrupts_lost: u64,
    /// INTx, which a VMD does not pass on, and messages to an address that its driver never uses.
    pub interrupts_foreign: u64,
    /// Messages of functions that no root port handles.
    pub messages: u64,
    /// Ranges of memory mapped.
    pub maps: u64,
    /// Ranges without a descriptor, which DMA reaches by messages.
    pub maps_without_descriptor: u64,
    /// Commands refused.
    pub refused: u64,
}

impl Add for VmCounters {
    type Output = VmCounters;

    fn add(self, other: VmCounters) -> VmCounters {
        VmCounters {
            clients: self.clients + other.clients,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            resets: self.resets + other.resets,
            interrupts: self.interrupts + other.interrupts,
            interrupts_lost: self.interrupts_lost + other.interrupts_lost,
            interrupts_foreign: self.interrupts_foreign + other.interrupts_foreign,
            messages: self.messages + other.messages,
            maps: self.maps + other.maps,
            maps_without_descriptor: self.maps_without_descriptor + other.maps_without_descriptor,
            refused: self.refused + other.refused,
        }
    }
}
