// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults by rule: a rule looks at a frame on a link and says what becomes of it.

use crate::tap::Direction;
use crate::topology::LinkId;
use link::Frame;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Body, Class, Dllp, FlowControlKind};

/// What a rule looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Any frame.
    Any,
    /// Any TLP.
    Tlp,
    /// A TLP of this class.
    Class(Class),
    /// A configuration request.
    Config,
    /// Any DLLP.
    Dllp,
    /// Ack DLLPs.
    Ack,
    /// UpdateFC DLLPs.
    UpdateFc,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultAction {
    /// A bit flips; its place is drawn from the seed.
    Corrupt,
    /// It never arrives.
    Drop,
}

/// A rule: the `nth`, and then every `every`th, matching frame on `link` in `direction` suffers `action`.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The link.
    pub link: LinkId,
    /// The direction.
    pub direction: Direction,
    /// Which frames count.
    pub kind: FrameKind,
    /// The first to suffer, from 1.
    pub nth: u64,
    /// Then every this many; zero: no other.
    pub every: u64,
    /// What happens.
    pub action: FaultAction,
}

impl FrameKind {
    fn matches(self, frame: &Frame) -> bool {
        match (self, frame) {
            (FrameKind::Any, _) | (FrameKind::Tlp, Frame::Tlp { .. }) | (FrameKind::Dllp, Frame::Dllp(_)) => {
                true
            }
            (FrameKind::Class(class), Frame::Tlp { tlp, .. }) => tlp.class() == class,
            (FrameKind::Config, Frame::Tlp { tlp, .. }) => matches!(tlp.repr.body, Body::Config(_)),
            (FrameKind::Ack, Frame::Dllp(Dllp::Ack { .. })) => true,
            (FrameKind::UpdateFc, Frame::Dllp(Dllp::FlowControl(fc))) => fc.kind == FlowControlKind::UpdateFc,
            _ => false,
        }
    }
}

/// What a direction of a link does to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) dropped: bool,
    pub(crate) flips: u32,
}

struct RuleState {
    rule: FaultRule,
    seen: u64,
}

/// The faults of one direction of one link.
pub(crate) struct Faults {
    rules: Vec<RuleState>,
    bit_error_rate: u64,
    rng: Xoshiro256PlusPlus,
}

/// Flips in one frame at most: beyond it a frame is noise anyway, and a limit keeps the draw bounded.
const MAX_FLIPS: u32 = 16;

impl Faults {
    pub(crate) fn new(rules: Vec<FaultRule>, bit_error_rate: u64, seed: u64) -> Faults {
        let rules = rules.into_iter().map(|rule| RuleState { rule, seen: 0 }).collect();
        Faults { rules, bit_error_rate, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// True where no frame can ever suffer: lets the hot path pass.
    pub(crate) fn none(&self) -> bool {
        self.rules.is_empty() && self.bit_error_rate == 0
    }

    pub(crate) fn judge(&mut self, frame: &Frame) -> Verdict {
        let mut verdict = Verdict { dropped: false, flips: self.bit_errors(frame.bit_len()) };
        for state in &mut self.rules {
            match state.hit(frame) {
                Some(FaultAction::Corrupt) => verdict.flips = verdict.flips.max(1),
                Some(FaultAction::Drop) => verdict.dropped = true,
                None => {}
            }
        }
        verdict
    }

    /// A place in a frame of `bits` bits.
    pub(crate) fn bit(&mut self, bits: u32) -> u32 {
        ((u128::from(self.rng.next_u64()) * u128::from(bits)) >> 64) as u32
    }

    /// Flips in a frame of `bits` bits: one more with the chance that any of its bits flips, again and again.
    fn bit_errors(&mut self, bits: u32) -> u32 {
        if self.bit_error_rate == 0 {
            return 0;
        }
        let chance = self.bit_error_rate.saturating_mul(u64::from(bits));
        (0..MAX_FLIPS).take_while(|_| self.rng.next_u64() < chance).count() as u32
    }
}

impl RuleState {
    fn hit(&mut self, frame: &Frame) -> Option<FaultAction> {
        if !self.rule.kind.matches(frame) {
            return None;
        }
        self.seen += 1;
        let FaultRule { nth, every, action, .. } = self.rule;
        let repeats = every != 0 && self.seen > nth && (self.seen - nth).is_multiple_of(every);
        (self.seen == nth || repeats).then_some(action)
    }
}
