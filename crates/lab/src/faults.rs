// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the fault tables of a lab to the rules of a fabric.

use crate::schema::{Fault, FaultDirection, FaultFrames, FaultKind, Lab};
use fabric::{Direction, FaultAction, FaultRule, FrameKind, LinkId};
use tlp::Class;

/// The rules of `lab`. A fault of an unknown slot was refused when the lab was read.
pub(crate) fn rules(lab: &Lab) -> Vec<FaultRule> {
    let slot = |fault: &Fault| lab.slot.iter().position(|s| s.name.get_ref() == fault.slot.get_ref());
    lab.fault.iter().filter_map(|fault| Some(rule(fault, LinkId(slot(fault)? as u32)))).collect()
}

fn rule(fault: &Fault, link: LinkId) -> FaultRule {
    FaultRule {
        link,
        direction: match fault.direction {
            FaultDirection::Upstream => Direction::Upstream,
            FaultDirection::Downstream => Direction::Downstream,
        },
        kind: kind(fault.frames),
        nth: *fault.nth.get_ref(),
        every: fault.every,
        action: match fault.action {
            FaultKind::Corrupt => FaultAction::Corrupt,
            FaultKind::Drop => FaultAction::Drop,
        },
    }
}

fn kind(frames: FaultFrames) -> FrameKind {
    match frames {
        FaultFrames::Any => FrameKind::Any,
        FaultFrames::Tlp => FrameKind::Tlp,
        FaultFrames::Posted => FrameKind::Class(Class::Posted),
        FaultFrames::NonPosted => FrameKind::Class(Class::NonPosted),
        FaultFrames::Completion => FrameKind::Class(Class::Completion),
        FaultFrames::Config => FrameKind::Config,
        FaultFrames::Dllp => FrameKind::Dllp,
        FaultFrames::Ack => FrameKind::Ack,
        FaultFrames::UpdateFc => FrameKind::UpdateFc,
    }
}
