// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints events of running machines and designs to standard error.

use crate::commands::refused::Printed;
use crate::output;
use session::external::Driver;
use session::report::RefusalReport;
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use worlds::machine::VmEvent;

/// Message about a machine that continues without its device.
pub(super) fn lost(why: &impl Display) -> String {
    format!("the machine has lost the device, and reads of it return all ones: {why}")
}

/// Number of machine events that were reported, and its maximum. The limit is needed because a machine can cause errors without end.
static REPORTED: AtomicU32 = AtomicU32::new(0);
const MAX_REPORTED: u32 = 1000;

/// Prints an event of a machine's device to standard error. With `quiet`, only errors.
pub(super) fn print_event(device: &str, event: &VmEvent, quiet: bool) {
    if !quiet || !matches!(event, VmEvent::Connected(_) | VmEvent::Joined | VmEvent::Gone(_)) {
        match REPORTED.fetch_add(1, Ordering::Relaxed) {
            MAX_REPORTED => {
                return output::note("no more errors of machines are reported; --json counts them");
            }
            more if more > MAX_REPORTED => return,
            _ => {}
        }
    }
    match event {
        VmEvent::Connected(peer) if !peer.is_served => output::note(format_args!(
            "process {} of user {} is not served: the machine must run as the same user",
            peer.process, peer.user
        )),
        VmEvent::Refused(why) => output::note(format_args!("{device}: refused: {why}")),
        VmEvent::Unreachable(why) => output::note(format_args!("{device}: the machine's memory: {why}")),
        VmEvent::Unmappable(why) => output::note(format_args!("{device}: refused a map: {why}")),
        VmEvent::Private => output::note(
            "the machine's memory is not shared, so the machine does not see DMA writes; start QEMU with `share=on` in its memory-backend",
        ),
        VmEvent::Unmapped(first, count) => {
            let what = if first.writes { "write" } else { "read" };
            output::note(format_args!(
                "DMA of {} was refused: the machine has not mapped {} bytes at {:#x} for a {what}; {count} refused since the last report",
                first.requester, first.len, first.address
            ));
        }
        VmEvent::WritesLost(count) => output::note(format_args!(
            "{device}: {count} device writes are lost: the machine shares no memory and has not accepted them"
        )),
        VmEvent::Misplaced(why) => output::note(format_args!("{device}: {why}")),
        VmEvent::Lost(why) => output::note(format_args!("{device}: {}", lost(why))),
        VmEvent::Connected(_) | VmEvent::Joined | VmEvent::Gone(_) if quiet => {}
        VmEvent::Connected(peer) => {
            output::note(format_args!("{device}: process {} has connected", peer.process))
        }
        VmEvent::Joined => output::note(format_args!("{device}: the machine has opened the device")),
        VmEvent::Gone(why) => output::note(format_args!("{device}: the machine has disconnected: {why}")),
    }
}

/// Numbers of design findings and refused TLPs that were printed.
#[derive(Default)]
pub(super) struct Findings {
    /// Number of findings, by slot.
    told: Vec<usize>,
    /// Kinds of refused TLPs.
    refused: Printed,
}

impl Findings {
    /// Prints new findings, and the first refused TLP of each kind.
    pub(super) fn print(&mut self, lab: &Driver) {
        lab.session().new_findings(&mut self.told).iter().for_each(output::note);
        let kinds = lab.session().fabric.refusal_kinds();
        self.refused.print_new(kinds, || lab.session().refusals());
    }

    /// Prints the remaining findings, the total of each slot, and the count of each kind of refused TLP that occurred several times.
    pub(super) fn end(mut self, lab: &Driver) {
        self.print(lab);
        lab.session().wrong().iter().for_each(output::note);
        let several = |refusal: &&RefusalReport| refusal.count > 1 && !refusal.routine;
        lab.session().refusals().iter().filter(several).for_each(output::note);
    }
}
