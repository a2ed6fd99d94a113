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

impl VmEvent {
    /// Returns the event of `device` as a line.
    pub fn line(&self, device: &str) -> String {
        match self {
            VmEvent::Connected(peer) if !peer.is_served => format!(
                "process {} of user {} is not served: the machine must run as the same user",
                peer.process, peer.user
            ),
            VmEvent::Connected(peer) => format!("{device}: process {} has connected", peer.process),
            VmEvent::Joined => format!("{device}: the machine has opened the device"),
            VmEvent::Refused(why) => format!("{device}: refused: {why}"),
            VmEvent::Unreachable(why) => format!("{device}: the machine's memory: {why}"),
            VmEvent::Unmappable(why) => format!("{device}: refused a map: {why}"),
            VmEvent::Private => {
                "the machine's memory is not shared, so the machine does not see DMA writes; start QEMU with `share=on` in its memory-backend".to_owned()
            }
            VmEvent::Unmapped(first, count) => format!(
                "DMA of {} was refused: the machine has not mapped {} bytes at {:#x} for a {}; {count} refused since the last report",
                first.requester,
                first.len,
                first.address,
                if first.writes { "write" } else { "read" }
            ),
            VmEvent::WritesLost(count) => format!(
                "{device}: {count} device writes are lost: the machine shares no memory and has not accepted them"
            ),
            VmEvent::Misplaced(why) => format!("{device}: {why}"),
            VmEvent::Gone(why) => format!("{device}: the machine has disconnected: {why}"),
            VmEvent::Lost(why) => {
                format!("{device}: the machine has lost the device, and reads of it return all ones: {why}")
            }
        }
    }
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
