// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a virtual machine that its user may want to know.

use super::error::VmCommandError;
use guest::memory::MemoryError;
use guest::net::Peer;
use guest::vfio_user::{HangUp, Refusal};
use host::DriverError;
use host::memory::DmaAccess;
use session::external::Driver;
use session::external::host::MapError;

/// An event of a virtual machine.
#[derive(Debug)]
pub enum VmEvent {
    /// A client has connected. [`Peer`] says whether the client is served.
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
    /// DMA to unmapped addresses, or a write to read-only addresses, was refused. Has the first such DMA since the last
    /// event, and the number of them.
    Unmapped(DmaAccess, u64),
    /// Number of DMA writes lost in memory that is reached by messages. The machine did not accept the DMA writes, or
    /// not in time.
    WritesLost(u64),
    /// A function or the hierarchy could not be placed again.
    Misplaced(DriverError),
    /// The machine has disconnected.
    Gone(HangUp),
    /// The machine continues without the device, and reads all ones.
    Lost(HangUp),
}

/// Callbacks of the caller while machines are served.
pub trait Supervisor {
    /// Takes an event of a device of host number `guest`.
    fn notify(&mut self, lab: &mut Driver, guest: usize, device: &str, what: VmEvent);

    /// Observes the lab, before each turn.
    fn observe(&mut self, _lab: &Driver) {}

    /// Returns whether to continue. Called after each turn, at least every 20 ms.
    fn goes_on(&mut self) -> bool;

    /// Executes a command that the lab does not have. Returns `None` if the supervisor does not know it either.
    ///
    /// # Errors
    /// The command is invalid.
    fn command(&mut self, _command: &str) -> Option<Result<String, VmCommandError>> {
        None
    }

    /// Returns the commands that [`command`](Self::command) knows, each with its arguments.
    fn commands(&self) -> &'static [&'static str] {
        &[]
    }
}
