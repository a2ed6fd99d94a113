// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a virtual machine that its user may want to know.

use guest::memory::MemoryError;
use guest::net::Peer;
use guest::vfio_user::{HangUp, Refusal};
use host::memory::DmaAccess;
use session::external::host::MapError;

/// An event of a virtual machine.
#[derive(Debug)]
pub enum VmEvent {
    /// A client has connected, and is served or not.
    Connected(Peer),
    /// The machine has joined.
    Joined,
    /// A command of the machine was refused.
    Refused(Refusal),
    /// The machine has mapped memory that cannot be reached.
    Unreachable(MemoryError),
    /// The machine has asked for a map that is not possible.
    Unmappable(MapError),
    /// The machine's memory is not shared: DMA changes a file that the machine does not see.
    Private,
    /// DMA to unmapped addresses, or a write to read-only ones, was refused: the first one since the last event, and their number.
    Unmapped(DmaAccess, u64),
    /// So many DMA writes to memory that is reached by messages were lost: the machine did not take them, or not in time.
    WritesLost(u64),
    /// A function or the hierarchy could not be placed again.
    Misplaced(String),
    /// The machine has gone.
    Gone(HangUp),
    /// The machine runs on without the device, and reads all ones.
    Lost(HangUp),
}
