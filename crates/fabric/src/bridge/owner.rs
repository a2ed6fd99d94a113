// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of bridges: a root complex or a switch, as the links at its ports see it.

use config::SlotEvent;
use link::Notice;
use tlp::{Time, Tlp};

/// A root complex or a switch. Ports are numbered as its own. The caller takes the effects after each call.
pub trait BridgeOwner {
    /// Handles a notice of the link at `port`.
    fn handle_notice(&mut self, port: usize, now: Time, notice: Notice);

    /// Handles a TLP that was handed to the link of `port` and not sent before the link went down: a request is refused as
    /// if it had not been handed over (`PCIe 5.0 §2.9.1`).
    fn handle_lost(&mut self, port: usize, now: Time, tlp: &Tlp);

    /// Notes that the link at `port` goes through Recovery, or has come out of it: sets Link Status, and interrupts if
    /// that is enabled.
    fn handle_training(&mut self, port: usize, now: Time, trains: bool);

    /// Records an event at the slot below `port`, and interrupts if that is enabled.
    fn handle_slot(&mut self, port: usize, now: Time, event: SlotEvent);
}
