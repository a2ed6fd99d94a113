// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults by rule: a rule matches frames on a link and determines what happens to them. This module never changes a
//! register. The parts that receive the frame handle the consequences.

mod alter;

pub use alter::Alteration;

use crate::tap::Direction;
use crate::topology::LinkId;
use link::{Damage, Ending, Frame, Integrity, Port, WireFrame, tlp_frame};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Access, Bdf, Body, Class, Dllp, Duration, FlowControlKind, MemoryOp, Tag, Time, Tlp};

/// The frames that a rule matches.
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
    /// A TLP that matches this filter.
    Where(TlpFilter),
    /// Any DLLP.
    Dllp,
    /// Ack DLLPs.
    Ack,
    /// Nak DLLPs.
    Nak,
    /// InitFC1 and InitFC2 DLLPs.
    InitFc,
    /// UpdateFC DLLPs.
    UpdateFc,
}

/// Types of TLPs. Types that differ only in the length of address or header count as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlpType {
    /// MRd and MRdLk.
    MemoryRead,
    /// MWr and DMWr.
    MemoryWrite,
    /// IORd and IOWr.
    Io,
    /// CfgRd0 and CfgRd1.
    ConfigRead,
    /// CfgWr0 and CfgWr1.
    ConfigWrite,
    /// FetchAdd, Swap and CAS.
    Atomic,
    /// Msg and MsgD.
    Message,
    /// Cpl and CplLk.
    Completion,
    /// CplD and CplDLk.
    CompletionWithData,
}

/// Conditions on a TLP; `None` matches any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlpFilter {
    /// Class of the TLP.
    pub class: Option<Class>,
    /// Type of the TLP.
    pub ty: Option<TlpType>,
    /// First and last address. At least one DW of the TLP must lie in this range. Matches only memory and I/O requests
    /// and AtomicOps.
    pub addresses: Option<(u64, u64)>,
    /// Requester ID of the TLP.
    pub requester: Option<Bdf>,
    /// Tag of the TLP.
    pub tag: Option<Tag>,
}

/// Effect on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultAction {
    /// One bit flips, drawn from the seed. The receiver detects this by the CRC.
    Corrupt,
    /// The frame never arrives.
    Drop,
    /// The framing is broken: the receiver sees a Receiver Error (`PCIe 5.0 §4.2.1.4`, §4.2.2.3.3).
    BreakFraming,
    /// The frame arrives twice, one copy directly after the other.
    Double,
    /// The frame arrives this much later, and delays all later frames until then.
    Delay(Duration),
    /// The content changes before the CRC is made, so that the layers above see it.
    Alter(Alteration),
    /// The frame arrives whole, in a buffer of the receiver that has an error (`PCIe 5.0 §6.2.9`).
    InternalError(InternalError),
    /// The link is cut: this frame and all others on their way are lost.
    Cut {
        /// Time after which the link is restored; `None`: it stays cut.
        restore_after: Option<Duration>,
    },
}

/// An internal error of the receiver of a frame, without effect on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InternalError {
    /// The receiver corrects the error, and the frame continues.
    Corrected,
    /// The receiver cannot correct the error, and the frame is lost.
    Uncorrectable,
}

/// A rule: the `nth` matching frame on `link` in `direction`, and then every `every`th, is subject to `action`.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The link that the rule watches.
    pub link: LinkId,
    /// The direction that the rule watches.
    pub direction: Direction,
    /// The frames that match.
    pub kind: FrameKind,
    /// Number of the first matching frame that is affected, from 1.
    pub nth: u64,
    /// Interval to the next affected frame, in matching frames. Zero: no further frame is affected.
    pub every: u64,
    /// Probability that such a frame is affected, as a multiple of 2^-64, drawn from the seed; `None`: always.
    pub chance: Option<u64>,
    /// Effect on the frame.
    pub action: FaultAction,
    /// When the rule ends.
    pub limit: FaultLimit,
}

/// Condition for the end of a rule. By default a rule never ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultLimit {
    /// Maximum number of affected frames.
    pub count: Option<u64>,
    /// Time from the start of the rule during which arriving frames are affected.
    pub duration: Option<Duration>,
}

impl FaultRule {
    /// Returns a rule that applies `action` to the `nth` matching frame only, always, and never ends.
    pub fn new(
        link: LinkId,
        direction: Direction,
        kind: FrameKind,
        nth: u64,
        action: FaultAction,
    ) -> FaultRule {
        FaultRule { link, direction, kind, nth, every: 0, chance: None, action, limit: FaultLimit::default() }
    }
}

impl FrameKind {
    fn matches(self, frame: Frame<&Tlp>) -> bool {
        match (self, frame) {
            (FrameKind::Any, _) | (FrameKind::Tlp, Frame::Tlp { .. }) | (FrameKind::Dllp, Frame::Dllp(_)) => {
                true
            }
            (FrameKind::Class(class), Frame::Tlp { tlp, .. }) => tlp.class() == class,
            (FrameKind::Config, Frame::Tlp { tlp, .. }) => matches!(tlp.repr.body, Body::Config(_)),
            (FrameKind::Where(filter), Frame::Tlp { tlp, .. }) => filter.matches(tlp),
            (FrameKind::Ack, Frame::Dllp(Dllp::Ack { .. })) => true,
            (FrameKind::Nak, Frame::Dllp(Dllp::Nak { .. })) => true,
            (FrameKind::InitFc, Frame::Dllp(Dllp::FlowControl(fc))) => fc.kind != FlowControlKind::UpdateFc,
            (FrameKind::UpdateFc, Frame::Dllp(Dllp::FlowControl(fc))) => fc.kind == FlowControlKind::UpdateFc,
            _ => false,
        }
    }
}

impl TlpType {
    /// Returns the type of `tlp` for rules.
    pub const fn of(tlp: &Tlp) -> TlpType {
        match &tlp.repr.body {
            Body::Memory(m) => match m.op {
                MemoryOp::Read | MemoryOp::ReadLocked => TlpType::MemoryRead,
                MemoryOp::Write | MemoryOp::WriteDeferrable => TlpType::MemoryWrite,
            },
            Body::Io(_) => TlpType::Io,
            Body::Config(c) => match c.op {
                Access::Read => TlpType::ConfigRead,
                Access::Write => TlpType::ConfigWrite,
            },
            Body::Atomic(_) => TlpType::Atomic,
            Body::Message(_) => TlpType::Message,
            Body::Completion(c) if c.length_dw.is_some() => TlpType::CompletionWithData,
            Body::Completion(_) => TlpType::Completion,
        }
    }
}

impl TlpFilter {
    /// Whether `tlp` meets all conditions.
    pub fn matches(&self, tlp: &Tlp) -> bool {
        let (requester, tag) = tlp.repr.transaction();
        self.class.is_none_or(|class| class == tlp.class())
            && self.ty.is_none_or(|ty| ty == TlpType::of(tlp))
            && self.requester.is_none_or(|id| id == requester)
            && self.tag.is_none_or(|wanted| wanted == tag)
            && self.addresses.is_none_or(|range| touches(tlp, range))
    }
}

/// Whether a request touches a DW of the range.
fn touches(tlp: &Tlp, (first, last): (u64, u64)) -> bool {
    let (address, dw) = match &tlp.repr.body {
        Body::Memory(m) => (m.span.address(), m.span.length_dw()),
        Body::Io(io) => (u64::from(io.address), 1),
        Body::Atomic(a) => (a.address & !3, a.length_dw()),
        Body::Config(_) | Body::Message(_) | Body::Completion(_) => return false,
    };
    address <= last && address + (u64::from(dw) * 4 - 1) >= first
}

/// The damage of a frame that arrives. Boxed, because damage is rare.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    damage: Damage,
    /// The TLP that arrives instead of the one sent.
    tlp: Option<Tlp>,
    /// The header of bytes that form no TLP.
    malformed: Option<[u32; 4]>,
    broken_framing: bool,
    internal: Option<InternalError>,
    /// Its sender has nullified it.
    nullified: bool,
}

/// A bit of every frame. A CRC detects each single flip.
const ANY_BIT: u32 = 0;

impl Harm {
    /// The damage with which a frame was sent; `None` if it was sent intact. A single flip stands for any wrong CRC.
    pub(crate) fn of(integrity: Integrity) -> Option<Harm> {
        match integrity {
            Integrity::Good => None,
            Integrity::BadCrc => Some(Harm { damage: [ANY_BIT].into_iter().collect(), ..Harm::default() }),
            Integrity::Nullified => Some(Harm { nullified: true, ..Harm::default() }),
            Integrity::Broken => Some(Harm { broken_framing: true, ..Harm::default() }),
            Integrity::Malformed(header) => Some(Harm { malformed: Some(header), ..Harm::default() }),
        }
    }

    /// The bytes that arrive for `frame`, which is [altered](Self::alter) already.
    #[cold]
    pub(crate) fn on_the_wire(&self, frame: Frame<&Tlp>) -> WireFrame {
        let mut wire = WireFrame::of(frame);
        if let (Some(header), Frame::Tlp { sequence, tlp }) = (self.malformed, frame) {
            wire.bytes = tlp_frame(sequence, &with_header(tlp, header));
        }
        self.damage.apply(&mut wire.bytes);
        if self.broken_framing {
            wire.ending = Ending::Broken;
        }
        wire
    }

    /// Whether a tap must call the frame damaged.
    pub(crate) fn is_damage(&self) -> bool {
        !self.damage.is_empty() || self.broken_framing || self.nullified
    }

    /// The header that arrives if it forms no TLP. The CRC of the frame is right.
    pub(crate) const fn malformed(&self) -> Option<[u32; 4]> {
        self.malformed
    }

    /// Returns the frame that arrives instead of `sent`.
    pub(crate) fn alter<'a>(&'a self, sent: Frame<&'a Tlp>) -> Frame<&'a Tlp> {
        match (sent, &self.tlp) {
            (Frame::Tlp { sequence, .. }, Some(tlp)) => Frame::Tlp { sequence, tlp },
            _ => sent,
        }
    }

    /// The frame arrives at `port`. True if its TLP must be handed on.
    #[cold]
    pub(crate) fn arrive(&self, port: &mut Port, now: Time, frame: Frame<&Tlp>) -> bool {
        if self.nullified {
            return false;
        }
        if self.broken_framing {
            port.receive_broken_frame(now, matches!(frame, Frame::Tlp { .. }));
            return false;
        }
        if let (Some(header), Frame::Tlp { sequence, tlp }) = (self.malformed, frame) {
            let _ = port.receive_malformed(now, sequence, tlp, header);
            return false;
        }
        if self.damage.is_empty() {
            match self.internal {
                Some(InternalError::Uncorrectable) => {
                    port.receive_into_broken_buffer(now, frame);
                    return false;
                }
                Some(InternalError::Corrected) => port.note_corrected_buffer(),
                None => {}
            }
        }
        port.handle_damaged(now, frame, &self.damage)
    }
}

/// The bytes of `tlp` with another header.
fn with_header(tlp: &Tlp, header: [u32; 4]) -> Vec<u8> {
    let mut bytes = vec![0; tlp.wire_len()];
    tlp.emit(&mut bytes);
    let dws = bytes[tlp.prefixes.wire_len()..].chunks_exact_mut(4).take(tlp.repr.header_len() / 4);
    dws.zip(header).for_each(|(dw, value)| dw.copy_from_slice(&value.to_be_bytes()));
    bytes
}

/// The effect of one direction of a link on one frame.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) dropped: bool,
    pub(crate) doubled: bool,
    pub(crate) delay: Duration,
    /// The DLLP that arrives instead of the one sent.
    pub(crate) dllp: Option<Dllp>,
    pub(crate) harm: Option<Box<Harm>>,
    pub(crate) cut: Option<Cut>,
}

/// Cuts the link and restores it after this time; `None`: it stays cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) restore_after: Option<Duration>,
}

/// Frames that a rule has matched and affected.
#[derive(Clone, Debug)]
pub struct FaultCounts {
    /// Number of the rule in the order in which the fabric received it, from 0.
    pub number: usize,
    /// The rule.
    pub rule: FaultRule,
    /// Number of frames that matched until the rule ended.
    pub matched: u64,
    /// Number of frames that were affected.
    pub affected: u64,
    /// Number of frames that the action met without effect, because they do not have the field that it changes.
    pub without_field: u64,
}

struct RuleState {
    rule: FaultRule,
    number: usize,
    seen: u64,
    suffered: u64,
    without_field: u64,
    /// Frames that arrive later are not affected.
    until: Time,
}

/// The faults of one direction of one link.
pub(crate) struct Faults {
    rules: Vec<RuleState>,
    ended: Vec<RuleState>,
    bit_error_rate: u64,
    rng: Xoshiro256PlusPlus,
    /// No frame arrives before this time, because an earlier one was delayed.
    pub(crate) not_before: Time,
}

/// Maximum number of flips in one frame, to bound the number of draws. With more flips a frame is noise anyway.
const MAX_FLIPS: u32 = 16;

impl Faults {
    /// Makes the faults of the rules, each with its number.
    pub(crate) fn new(
        rules: impl Iterator<Item = (usize, FaultRule)>,
        bit_error_rate: u64,
        seed: u64,
    ) -> Faults {
        let rules = rules.map(|(number, rule)| RuleState::new(number, rule, Time::ZERO)).collect();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Faults { rules, ended: Vec::new(), bit_error_rate, rng, not_before: Time::ZERO }
    }

    /// Adds a rule, which counts from the next frame on.
    pub(crate) fn push(&mut self, number: usize, rule: FaultRule, now: Time) {
        self.rules.push(RuleState::new(number, rule, now));
    }

    /// Ends all rules.
    pub(crate) fn clear(&mut self) {
        self.ended.append(&mut self.rules);
    }

    /// The counts of all rules, in no order.
    pub(crate) fn counts(&self) -> impl Iterator<Item = FaultCounts> {
        self.rules.iter().chain(&self.ended).map(RuleState::counts)
    }

    /// Returns true if no rule can affect a frame any more. This keeps the hot path short.
    pub(crate) fn none(&self) -> bool {
        self.rules.is_empty() && self.bit_error_rate == 0 && self.not_before == Time::ZERO
    }

    /// Returns the verdict on `frame`, which arrives at `arrival` if no rule delays it. All rules match the frame as
    /// sent. Then their alterations are applied one after the other.
    #[cold]
    pub(crate) fn judge(&mut self, frame: Frame<&Tlp>, arrival: Time) -> Verdict {
        let mut verdict = Verdict::default();
        let mut flips = self.bit_errors(frame.bit_len());
        for at in 0..self.rules.len() {
            let Some((action, chance)) = self.rules[at].hit(frame, arrival) else { continue };
            if chance.is_none_or(|chance| self.rng.next_u64() < chance) {
                self.rules[at].suffered += 1;
                flips = flips.max(u32::from(action == FaultAction::Corrupt));
                let has_field = verdict.add(action, frame);
                self.rules[at].without_field += u64::from(!has_field);
            }
        }
        self.ended.extend(self.rules.extract_if(.., |state| state.is_over(arrival)));
        if flips != 0 {
            let bits = verdict.bit_len(frame);
            let damage = (0..flips).map(|_| self.bit(bits)).collect();
            verdict.harm().damage = damage;
        }
        verdict
    }

    /// Draws a bit of a frame of `bits` bits.
    fn bit(&mut self, bits: u32) -> u32 {
        ((u128::from(self.rng.next_u64()) * u128::from(bits)) >> 64) as u32
    }

    /// Draws the number of flips in `bits` bits. Each draw adds one flip with the probability that any bit flips, and
    /// the first draw without a flip ends this.
    fn bit_errors(&mut self, bits: u32) -> u32 {
        if self.bit_error_rate == 0 {
            return 0;
        }
        let chance = self.bit_error_rate.saturating_mul(u64::from(bits));
        (0..MAX_FLIPS).take_while(|_| self.rng.next_u64() < chance).count() as u32
    }
}

impl Verdict {
    fn harm(&mut self) -> &mut Harm {
        self.harm.get_or_insert_default()
    }

    /// Bits of the frame that arrives instead of `frame`.
    fn bit_len(&self, frame: Frame<&Tlp>) -> u32 {
        self.harm.as_ref().map_or(frame, |harm| harm.alter(frame)).bit_len()
    }

    /// Adds the effect of an action. Returns false if the frame does not have the field that it changes.
    fn add(&mut self, action: FaultAction, frame: Frame<&Tlp>) -> bool {
        match action {
            FaultAction::Corrupt => {}
            FaultAction::Drop => self.dropped = true,
            FaultAction::BreakFraming => self.harm().broken_framing = true,
            FaultAction::Double => self.doubled = true,
            FaultAction::Delay(delay) => self.delay += delay,
            FaultAction::Cut { restore_after } => self.cut = Some(Cut { restore_after }),
            FaultAction::Alter(alteration) => return self.alter(alteration, frame),
            FaultAction::InternalError(error) => self.harm().internal = Some(error),
        }
        true
    }

    fn alter(&mut self, alteration: Alteration, frame: Frame<&Tlp>) -> bool {
        match frame {
            Frame::Dllp(sent) => {
                let Some(dllp) = alteration.dllp(self.dllp.unwrap_or(sent)) else { return false };
                self.dllp = Some(dllp);
            }
            Frame::Tlp { tlp: sent, .. } => {
                let now = self.harm.as_ref().and_then(|harm| harm.tlp.as_ref()).unwrap_or(sent);
                match alteration.tlp(now) {
                    Some(Ok(tlp)) => self.harm().tlp = Some(tlp),
                    Some(Err(header)) => self.harm().malformed = Some(header),
                    None => return false,
                }
            }
        }
        true
    }
}

impl RuleState {
    fn new(number: usize, rule: FaultRule, now: Time) -> RuleState {
        let until = rule.limit.duration.map_or(Time::MAX, |duration| now + duration);
        RuleState { rule, number, seen: 0, suffered: 0, without_field: 0, until }
    }

    fn counts(&self) -> FaultCounts {
        FaultCounts {
            number: self.number,
            rule: self.rule.clone(),
            matched: self.seen,
            affected: self.affected(),
            without_field: self.without_field,
        }
    }

    const fn affected(&self) -> u64 {
        self.suffered - self.without_field
    }

    fn is_over(&self, arrival: Time) -> bool {
        arrival > self.until || self.rule.limit.count.is_some_and(|count| self.affected() >= count)
    }

    fn hit(&mut self, frame: Frame<&Tlp>, arrival: Time) -> Option<(FaultAction, Option<u64>)> {
        if self.is_over(arrival) || !self.rule.kind.matches(frame) {
            return None;
        }
        self.seen += 1;
        let FaultRule { nth, every, action, chance, .. } = self.rule;
        let repeats = every != 0 && self.seen > nth && (self.seen - nth).is_multiple_of(every);
        (self.seen == nth || repeats).then_some((action, chance))
    }
}
