// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults by rule: a rule looks at a frame on a link and says what becomes of it. Never touches a register: what a fault
//! leads to, the parts that meet with it find out.

mod alter;

pub use alter::Alteration;

use crate::tap::Direction;
use crate::topology::LinkId;
use link::{Damage, Frame, Port, SentFrame};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Access, Bdf, Body, Class, Dllp, Duration, FlowControlKind, MemoryOp, Tag, Time, Tlp};

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
    /// A TLP that all of this is true of.
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

/// Types of TLPs, those that differ in their length of address or header as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlpType {
    /// MRd, MRdLk.
    MemoryRead,
    /// MWr, DMWr.
    MemoryWrite,
    /// IORd, IOWr.
    Io,
    /// CfgRd0, CfgRd1.
    ConfigRead,
    /// CfgWr0, CfgWr1.
    ConfigWrite,
    /// FetchAdd, Swap, CAS.
    Atomic,
    /// Msg, MsgD.
    Message,
    /// Cpl, CplLk.
    Completion,
    /// CplD, CplDLk.
    CompletionWithData,
}

/// What must be true of a TLP; `None` asks for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlpFilter {
    /// Its class.
    pub class: Option<Class>,
    /// Its type.
    pub ty: Option<TlpType>,
    /// First and last address: one of its DWs lies between. Of memory and I/O requests and AtomicOps alone.
    pub addresses: Option<(u64, u64)>,
    /// Requester ID.
    pub requester: Option<Bdf>,
    /// Tag.
    pub tag: Option<Tag>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultAction {
    /// A bit flips; its place is drawn from the seed. The receiver's CRC finds it.
    Corrupt,
    /// It never arrives.
    Drop,
    /// Its framing is broken: the receiver sees a Receiver Error (`PCIe 5.0 §4.2.1.4`, §4.2.2.3.3).
    BreakFraming,
    /// It arrives twice, one right behind the other.
    Double,
    /// It arrives so much later, and all that is behind it on the wire no earlier.
    Delay(Duration),
    /// Its content is another one before its CRC is made, so that the layers above see it.
    Alter(Alteration),
    /// The link is cut: this frame and all that are on their way are lost.
    Cut {
        /// After this it is restored.
        restore_after: Option<Duration>,
    },
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
    /// Of those, each suffers with this chance alone, as a multiple of 2^-64, drawn from the seed; `None`: always.
    pub chance: Option<u64>,
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
    /// The type of `tlp`.
    #[must_use]
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
    /// Whether all of it is true of `tlp`.
    #[must_use]
    pub fn matches(&self, tlp: &Tlp) -> bool {
        let (requester, tag) = tlp.repr.transaction();
        self.class.is_none_or(|class| class == tlp.class())
            && self.ty.is_none_or(|ty| ty == TlpType::of(tlp))
            && self.requester.is_none_or(|id| id == requester)
            && self.tag.is_none_or(|wanted| wanted == tag)
            && self.addresses.is_none_or(|range| touches(tlp, range))
    }
}

/// Whether a request names a DW of the range.
fn touches(tlp: &Tlp, (first, last): (u64, u64)) -> bool {
    let (address, dw) = match &tlp.repr.body {
        Body::Memory(m) => (m.span.address(), m.span.length_dw()),
        Body::Io(io) => (u64::from(io.address), 1),
        Body::Atomic(a) => (a.address & !3, a.length_dw()),
        Body::Config(_) | Body::Message(_) | Body::Completion(_) => return false,
    };
    address <= last && address + (u64::from(dw) * 4 - 1) >= first
}

/// What is wrong with a frame that arrives. Boxed: frames are many, and this is rare.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    damage: Damage,
    /// The TLP in place of the one that was sent.
    tlp: Option<Tlp>,
    /// The header of bytes that are no TLP.
    malformed: Option<[u32; 4]>,
    broken_framing: bool,
}

impl Harm {
    /// What a tap is to call damaged.
    pub(crate) fn is_damage(&self) -> bool {
        !self.damage.is_empty() || self.broken_framing || self.malformed.is_some()
    }

    /// The TLP that arrives where `sent` was sent.
    pub(crate) fn tlp<'a>(&'a self, sent: Option<&'a Tlp>) -> Option<&'a Tlp> {
        self.tlp.as_ref().or(sent)
    }

    /// The frame arrives at `port`, its TLP being `tlp`. True where that is to be handed on.
    #[cold]
    pub(crate) fn arrive(&self, port: &mut Port, now: Time, frame: SentFrame, tlp: Option<&Tlp>) -> bool {
        if self.broken_framing {
            port.receive_broken_frame(now, matches!(frame, SentFrame::Tlp { .. }));
            return false;
        }
        if let (Some(header), Some(tlp), SentFrame::Tlp { sequence }) = (self.malformed, tlp, frame) {
            let _ = port.receive_malformed(now, sequence, tlp, header);
            return false;
        }
        if self.damage.is_empty() {
            return port.accepts_sent(now, frame, tlp);
        }
        frame.whole(tlp).is_some_and(|frame| port.accepts_frame(now, &frame, &self.damage))
    }
}

/// What a direction of a link does to a frame.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) dropped: bool,
    pub(crate) doubled: bool,
    pub(crate) delay: Duration,
    /// The DLLP that arrives in place of the one that was sent.
    pub(crate) dllp: Option<Dllp>,
    pub(crate) harm: Option<Box<Harm>>,
    pub(crate) cut: Option<Cut>,
}

/// The link is cut, and restored after this, where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) restore_after: Option<Duration>,
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
    /// No frame arrives earlier: one before it was delayed.
    pub(crate) not_before: Time,
}

/// Flips in one frame at most: beyond it a frame is noise anyway, and a limit keeps the draw bounded.
const MAX_FLIPS: u32 = 16;

impl Faults {
    pub(crate) fn new(rules: Vec<FaultRule>, bit_error_rate: u64, seed: u64) -> Faults {
        let rules = rules.into_iter().map(|rule| RuleState { rule, seen: 0 }).collect();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Faults { rules, bit_error_rate, rng, not_before: Time::ZERO }
    }

    /// One rule more; it counts from the next frame on.
    pub(crate) fn push(&mut self, rule: FaultRule) {
        self.rules.push(RuleState { rule, seen: 0 });
    }

    /// True where no frame can ever suffer: lets the hot path pass.
    pub(crate) fn none(&self) -> bool {
        self.rules.is_empty() && self.bit_error_rate == 0
    }

    /// What becomes of `frame`. All rules see it as it was sent; alterations then follow each other.
    #[cold]
    pub(crate) fn judge(&mut self, frame: &Frame) -> Verdict {
        let mut verdict = Verdict::default();
        let mut flips = self.bit_errors(frame.bit_len());
        for at in 0..self.rules.len() {
            let Some((action, chance)) = self.rules[at].hit(frame) else { continue };
            if chance.is_none_or(|chance| self.rng.next_u64() < chance) {
                flips = flips.max(u32::from(action == FaultAction::Corrupt));
                verdict.add(action, frame);
            }
        }
        if flips != 0 {
            let bits = verdict.bit_len(frame);
            let damage = (0..flips).map(|_| self.bit(bits)).collect();
            verdict.harm().damage = damage;
        }
        verdict
    }

    /// A place in a frame of `bits` bits.
    fn bit(&mut self, bits: u32) -> u32 {
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

impl Verdict {
    fn harm(&mut self) -> &mut Harm {
        self.harm.get_or_insert_default()
    }

    /// Bits of what arrives in place of `frame`.
    fn bit_len(&self, frame: &Frame) -> u32 {
        match (&self.harm, frame) {
            (Some(harm), Frame::Tlp { sequence, .. }) => {
                let altered = |tlp: &Tlp| Frame::Tlp { sequence: *sequence, tlp: tlp.clone() }.bit_len();
                harm.tlp.as_ref().map_or_else(|| frame.bit_len(), altered)
            }
            _ => frame.bit_len(),
        }
    }

    fn add(&mut self, action: FaultAction, frame: &Frame) {
        match action {
            FaultAction::Corrupt => {}
            FaultAction::Drop => self.dropped = true,
            FaultAction::BreakFraming => self.harm().broken_framing = true,
            FaultAction::Double => self.doubled = true,
            FaultAction::Delay(delay) => self.delay += delay,
            FaultAction::Cut { restore_after } => self.cut = Some(Cut { restore_after }),
            FaultAction::Alter(alteration) => self.alter(alteration, frame),
        }
    }

    fn alter(&mut self, alteration: Alteration, frame: &Frame) {
        match frame {
            Frame::Dllp(sent) => self.dllp = alteration.dllp(self.dllp.unwrap_or(*sent)).or(self.dllp),
            Frame::Tlp { tlp: sent, .. } => {
                let now = self.harm.as_ref().and_then(|harm| harm.tlp.as_ref()).unwrap_or(sent);
                match alteration.tlp(now) {
                    Some(Ok(tlp)) => self.harm().tlp = Some(tlp),
                    Some(Err(header)) => self.harm().malformed = Some(header),
                    None => {}
                }
            }
        }
    }
}

impl RuleState {
    fn hit(&mut self, frame: &Frame) -> Option<(FaultAction, Option<u64>)> {
        if !self.rule.kind.matches(frame) {
            return None;
        }
        self.seen += 1;
        let FaultRule { nth, every, action, chance, .. } = self.rule;
        let repeats = every != 0 && self.seen > nth && (self.seen - nth).is_multiple_of(every);
        (self.seen == nth || repeats).then_some((action, chance))
    }
}
