// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Preparation of a simulated host's caches, for programs that measure. No real host offers it, so it is no part of
//! the seam: such a program asks for it by [`HostOutput::Extension`](crate::HostOutput::Extension).

use tlp::Bdf;

/// How caches and translation caches are prepared; the names are those of pcie-bench (SIGCOMM'18, section 4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachePreparation {
    /// The host writes over much more memory than its caches hold: nothing of a benchmark's buffer is left in them.
    ThrashByHost,
    /// The host's program writes these bytes, line by line.
    WriteByHost {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The device writes these bytes by full lines, in order.
    WriteByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// Number of passes over them.
        passes: u32,
    },
    /// The device writes full lines at random places of these bytes, as many as they have lines.
    ThrashByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// Seed of the random places.
        seed: u64,
    },
    /// The device reads and writes at these places, in order.
    TransfersOfDevice {
        /// The function that reads and writes.
        requester: Bdf,
        /// Bytes of each transfer.
        bytes: u32,
        /// The address of each, and whether it writes.
        places: Vec<(u64, bool)>,
    },
}
