// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines for the user about running machines and designs. The caller prints them.

use super::VmEvent;
use files::Note;
use session::external::Driver;
use session::report::{RefusalReport, SeenRefusals};

/// Maximum number of reported errors. The limit is needed because a machine can cause errors without end.
const MAX_REPORTED: u32 = 1000;

/// Reports events of machines, design findings and refused TLPs.
pub struct Watch {
    /// Takes the lines.
    note: Note,
    /// Reports only errors of machines.
    quiet: bool,
    /// Number of reported events.
    events: u32,
    /// Number of reported findings, by slot.
    findings: Vec<usize>,
    /// Kinds of refused TLPs that were reported.
    refusals: SeenRefusals,
}

impl Watch {
    /// Starts without reports. With `quiet`, only errors of machines are reported.
    pub fn new(note: Note, quiet: bool) -> Watch {
        Watch { note, quiet, events: 0, findings: Vec::new(), refusals: SeenRefusals::default() }
    }

    /// Reports an event of a machine's device.
    pub fn event(&mut self, device: &str, event: &VmEvent) {
        let is_unserved = matches!(event, VmEvent::Connected(peer) if !peer.is_served);
        let is_routine = matches!(event, VmEvent::Connected(_) | VmEvent::Joined | VmEvent::Gone(_));
        if !self.quiet || !is_routine {
            self.events = self.events.saturating_add(1);
            match self.events - 1 {
                MAX_REPORTED => {
                    return (self.note)(&"no more errors of machines are reported; --json counts them");
                }
                more if more > MAX_REPORTED => return,
                _ => {}
            }
        }
        if !self.quiet || !is_routine || is_unserved {
            (self.note)(&event.line(device));
        }
    }

    /// Reports new findings, and the first refused TLP of each kind.
    pub fn observe(&mut self, lab: &Driver) {
        let session = lab.session();
        session.new_findings(&mut self.findings).iter().for_each(|finding| (self.note)(finding));
        let new = self.refusals.new_kinds(session.fabric.refusal_kinds(), || session.refusals());
        new.iter().for_each(|refusal| (self.note)(refusal));
    }

    /// Reports the remaining findings, the total of each slot, and the count of each kind of refused TLP that occurred several times.
    pub fn end(mut self, lab: &Driver) {
        self.observe(lab);
        lab.session().wrong().iter().for_each(|wrong| (self.note)(wrong));
        let several = |refusal: &&RefusalReport| refusal.count > 1 && !refusal.routine;
        lab.session().refusals().iter().filter(several).for_each(|refusal| (self.note)(refusal));
    }
}
