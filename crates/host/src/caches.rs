// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Preparation of a simulated host's caches, for benchmark programs. A real host does not offer this preparation, so it
//! is not part of the seam: a program requests it by [`HostOutput::Extension`](crate::HostOutput::Extension).

use tlp::Bdf;

/// How caches and translation caches are prepared; the names are those of pcie-bench (SIGCOMM'18, section 4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachePreparation {
    /// The host writes much more memory than its caches hold, so that they contain no line of a benchmark's buffer.
    ThrashByHost,
    /// The host program writes these bytes, line by line.
    WriteByHost {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The device writes these bytes in full lines, in order.
    WriteByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// Number of passes over the bytes.
        passes: u32,
    },
    /// The device writes full lines at random positions in these bytes. The number of writes is the number of lines in
    /// these bytes.
    ThrashByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// Seed of the random positions.
        seed: u64,
    },
    /// The device reads and writes at these addresses, in order.
    TransfersOfDevice {
        /// The function that reads and writes.
        requester: Bdf,
        /// Bytes of each transfer.
        bytes: u32,
        /// Address of each transfer, and whether the transfer is a write.
        places: Vec<(u64, bool)>,
    },
}
