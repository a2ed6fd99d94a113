// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records why a component refused, dropped or gave up TLPs: the first TLP of each kind, and their number. The
//! component itself decides what it refuses.

use super::{Rule, RuleId, Violation};
use crate::wire::Header;
use crate::{Class, Dllp, Duration, Prefixes, Repr, Time, Tlp};
use alloc::vec::Vec;
use core::fmt;

/// TLPs that a component refused for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The rule, and the values of the first TLP.
    pub violation: Violation,
    /// The port or function of the component; `None` if the component has only one, or if the refusal belongs to
    /// none.
    pub place: Option<u16>,
    /// True if the refusal is part of normal operation: a configuration read that probes for a function, or a TLP
    /// that the link retransmits.
    pub routine: bool,
    /// The refused TLP or DLLP, or the request that was not completed, of the first refusal.
    pub tlp: Head,
    /// Virtual time of the first refusal or timeout.
    pub at: Time,
    /// The number of refused TLPs.
    pub count: u64,
    /// How long the first request had waited until its timeout; `None` for other reasons.
    pub waited: Option<Duration>,
}

/// The reason why a TLP was refused or a request given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reason {
    violation: Violation,
    waited: Option<Duration>,
}

/// The prefixes and the header of a TLP, or a DLLP, as bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; Head::MAX],
    len: u8,
    is_dllp: bool,
}

/// The refusals of a component by rule and place, sorted by their first occurrence. Routine refusals are counted separately.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    kinds: Vec<Refusal>,
    total: u64,
}

impl Refusals {
    /// Maximum number of kinds. Refusals of further kinds only count in [`total`](Self::total).
    pub const MAX_KINDS: usize = 256;

    /// Counts a refusal at `now`. Keeps the TLP if it is the first of its kind.
    #[cold]
    pub fn record(&mut self, now: Time, place: Option<u16>, why: impl Into<Reason>, tlp: Head) {
        let Reason { violation, waited } = why.into();
        let routine = is_routine(violation.rule, &tlp);
        self.add(&Refusal { violation, place, routine, tlp, at: now, count: 1, waited });
    }

    /// Adds refusals of one kind by another component that has the same clock. Keeps the earlier TLP.
    #[cold]
    pub fn add(&mut self, other: &Refusal) {
        self.total += other.count;
        let kind = |kind: &Refusal| (kind.violation.rule, kind.place, kind.routine);
        if let Some(mine) = self.kinds.iter_mut().find(|mine| kind(mine) == kind(other)) {
            let count = mine.count + other.count;
            let first = if other.at < mine.at { *other } else { *mine };
            *mine = Refusal { count, ..first };
        } else if self.kinds.len() < Self::MAX_KINDS {
            self.kinds.push(*other);
        }
    }

    /// The kinds of refusals. Each holds the first TLP and the number of TLPs.
    #[must_use]
    pub fn kinds(&self) -> &[Refusal] {
        &self.kinds
    }

    /// The number of all refused TLPs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl<'a> Extend<&'a Refusal> for Refusals {
    fn extend<I: IntoIterator<Item = &'a Refusal>>(&mut self, kinds: I) {
        kinds.into_iter().for_each(|kind| self.add(kind));
    }
}

impl Reason {
    /// No completion came within `waited` (`PCIe 5.0 §2.8`).
    #[must_use]
    pub const fn timeout(waited: Duration) -> Reason {
        Reason { violation: Violation::new(RuleId::CompletionTimeout, 0), waited: Some(waited) }
    }
}

impl From<Violation> for Reason {
    fn from(violation: Violation) -> Reason {
        Reason { violation, waited: None }
    }
}

// Software probes for a function with a configuration read. Fmt and Type of CfgRd0 and CfgRd1 are 04h and 05h.
fn is_routine(rule: RuleId, tlp: &Head) -> bool {
    match rule {
        RuleId::Lcrc | RuleId::SequenceNumber => true,
        RuleId::UnclaimedId | RuleId::LinkUp => matches!(tlp.bytes().first(), Some(0x04 | 0x05)),
        _ => false,
    }
}

impl Head {
    const MAX: usize = Prefixes::MAX * 4 + 16;

    /// The prefixes and the header of `tlp`. Those of a [malformed](crate::Flaw::Malformed) TLP are taken from its
    /// bytes.
    #[cold]
    #[must_use]
    pub fn of(tlp: &Tlp) -> Head {
        match (tlp.is_malformed(), tlp.data.bytes()) {
            (true, Some(bytes)) => Head::of_bytes(&bytes[..tlp.repr.header_len().min(bytes.len())]),
            _ => Head::new(&tlp.prefixes, &tlp.repr),
        }
    }

    /// The header of `repr`, without prefixes.
    #[cold]
    #[must_use]
    pub fn of_header(repr: &Repr) -> Head {
        Head::new(&Prefixes::NONE, repr)
    }

    /// `prefixes`, and the header of `repr`.
    #[cold]
    #[must_use]
    pub fn new(prefixes: &Prefixes, repr: &Repr) -> Head {
        let mut head = Head::default();
        let (before, header) = head.bytes.split_at_mut(prefixes.wire_len());
        for (out, prefix) in before.chunks_exact_mut(4).zip(prefixes.as_slice()) {
            out.copy_from_slice(&prefix.0.to_be_bytes());
        }
        head.len = (before.len() + repr.emit(header)) as u8;
        head
    }

    /// The prefixes and the header at the start of `bytes`. Without a complete header, as many bytes as fit.
    #[cold]
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Head {
        let mut head = Head::default();
        let header_end = Header::new(bytes).map_or(bytes.len(), |h| h.prefix_bytes().len() + h.bytes().len());
        let len = header_end.min(Head::MAX);
        head.bytes[..len].copy_from_slice(&bytes[..len]);
        head.len = len as u8;
        head
    }

    /// A DLLP with its CRC.
    #[cold]
    #[must_use]
    pub fn of_dllp(dllp: &Dllp) -> Head {
        Head { is_dllp: true, ..Head::of_bytes(&dllp.emit()) }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn class(&self) -> Option<(Class, bool)> {
        if self.is_dllp {
            return None;
        }
        let repr = Repr::parse_header(self.bytes()).ok()?.repr;
        Some((repr.class(), matches!(repr.body, crate::Body::Message(_))))
    }
}

impl Default for Head {
    fn default() -> Head {
        Head { bytes: [0; Head::MAX], len: 0, is_dllp: false }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({self})")
    }
}

/// The TLP or DLLP in one line as in a trace, with prefixes: `CplD, len 16, ...`. DWs in hexadecimal if the header
/// cannot be parsed.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Ok(dllp)) = (self.is_dllp, Dllp::parse(self.bytes())) {
            return dllp.fmt(f);
        }
        if let Ok(parsed) = Repr::parse_header(self.bytes()) {
            return write!(f, "{}{}", parsed.repr, parsed.prefixes);
        }
        f.write_str(if self.len == 0 { "no header" } else { "TLP" })?;
        for (n, byte) in self.bytes().iter().enumerate() {
            f.write_str(if n % 4 == 0 { " " } else { "" })?;
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl Refusal {
    // The verb in the report: `received` or `refused`.
    fn outcome(&self, class: Option<Class>) -> &'static str {
        match (self.violation.rule, class) {
            (RuleId::UnsupportedRequest | RuleId::CompleterAbort, Some(Class::Completion)) => "received",
            _ => "refused",
        }
    }
}

// Picoseconds, printed as `12.300 us`.
struct Us(u64);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 / 1_000;
        write!(f, "{}.{:03} us", ns / 1_000, ns % 1_000)
    }
}

/// `4 completions refused: Lower Address 0x0, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address); first at 12.300 us:
/// CplD, len 16, ...`
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.tlp.class();
        let noun = match class {
            Some((_, true)) => "message",
            Some((Class::Completion, _)) => "completion",
            Some(_) => "request",
            None if self.tlp.is_dllp => "DLLP",
            None => "TLP",
        };
        let plural = if self.count == 1 { "" } else { "s" };
        let outcome = self.outcome(class.map(|(class, _)| class));
        write!(f, "{} {noun}{plural} ", self.count)?;
        match self.waited {
            Some(waited) => {
                let Rule { section, name, .. } = self.violation.rule();
                let specification = self.violation.rule().specification();
                write!(f, "timed out after {} ({specification} {section}, rule {name})", Us(waited.as_ps()))?;
            }
            None => write!(f, "{outcome}: {}", self.violation)?,
        }
        write!(f, "; first at {}: {}", Us(self.at.as_ps()), self.tlp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn timeout_report_has_waiting_time() {
        let mut refusals = Refusals::default();
        let read = [0, 0, 0, 1, 1, 0, 7, 0xf, 0, 0, 0x20, 0];
        let why = Reason::timeout(Duration::from_ms(50));
        refusals.record(Time::from_ps(51_000_000_000), None, why, Head::of_bytes(&read));
        assert_eq!(
            refusals.kinds()[0].to_string(),
            "1 request timed out after 50000.000 us (PCIe 5.0 §2.8, rule completion-timeout); first at 51000.000 us: MRd, \
             len 1, requester 01:00.0, tag 0x07, last 0x0, first 0xf, Addr 0x00002000"
        );
    }

    const COMPLETION: [u8; 12] = [0x4a, 0, 0, 0x10, 0, 0, 0, 0x40, 1, 0, 7, 0];

    #[test]
    fn keeps_first_tlp_of_each_rule_and_place() {
        let mut refusals = Refusals::default();
        let wrong = |found| Violation::expecting(RuleId::LowerAddress, found, 0x40);
        let head = Head::of_bytes(&COMPLETION);
        refusals.record(Time::from_ps(12_300_400), None, wrong(0), head);
        refusals.record(Time::from_ps(13_000_000), None, wrong(4), head);
        refusals.record(Time::from_ps(14_000_000), Some(1), wrong(8), head);
        refusals.record(
            Time::from_ps(15_000_000),
            None,
            Violation::new(RuleId::ReservedFmt, 7),
            Head::of_bytes(&[0xe0, 0, 0, 1]),
        );
        let lines: Vec<_> = refusals.kinds().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "2 completions refused: Lower Address 0x0, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address); first \
                 at 12.300 us: CplD, len 16, completer 00:00.0, success, bc 64, requester 01:00.0, tag 0x07, lowaddr 0x00",
                "1 completion refused: Lower Address 0x8, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address); first \
                 at 14.000 us: CplD, len 16, completer 00:00.0, success, bc 64, requester 01:00.0, tag 0x07, lowaddr 0x00",
                "1 TLP refused: Fmt 111b, expected 000b to 100b (PCIe 5.0 §2.2.1, rule reserved-fmt); first at 15.000 us: \
                 TLP e0000001",
            ]
        );
        assert_eq!(refusals.total(), 4);
    }

    #[test]
    fn probes_and_retransmitted_tlps_are_routine() {
        let read = [0x05, 0, 0, 1, 0, 0, 0, 0x0f, 3, 0, 0, 0];
        let write = [0x45, 0, 0, 1, 0, 0, 0, 0x0f, 3, 0, 0, 0];
        for (rule, header, routine) in [
            (RuleId::UnclaimedId, read, true),
            (RuleId::LinkUp, read, true),
            (RuleId::RequestType, read, false),
            (RuleId::UnclaimedId, write, false),
            (RuleId::Lcrc, write, true),
            (RuleId::SequenceNumber, COMPLETION, true),
            (RuleId::LinkUp, COMPLETION, false),
        ] {
            let mut refusals = Refusals::default();
            refusals.record(Time::ZERO, None, Violation::new(rule, 0), Head::of_bytes(&header));
            assert_eq!(refusals.kinds()[0].routine, routine, "{rule:?}");
        }
    }

    #[test]
    fn adds_kinds_and_keeps_the_earlier_tlp() {
        let why = |found| Violation::expecting(RuleId::LowerAddress, found, 0x40);
        let (mut one, mut other) = (Refusals::default(), Refusals::default());
        let record = |refusals: &mut Refusals, ps, found| {
            refusals.record(Time::from_ps(ps), None, why(found), Head::of_bytes(&COMPLETION));
        };
        record(&mut one, 5, 1);
        record(&mut other, 3, 2);
        record(&mut other, 9, 3);
        other.record(Time::ZERO, None, Violation::new(RuleId::ReservedFmt, 7), Head::of_bytes(&[0xe0; 4]));
        other.kinds().iter().for_each(|kind| one.add(kind));
        let found: Vec<_> = one.kinds().iter().map(|kind| (kind.violation.found, kind.count)).collect();
        assert_eq!((&found[..], one.total()), (&[(2, 3), (7, 1)][..], 4));
    }

    #[test]
    fn limits_number_of_kinds() {
        let mut refusals = Refusals::default();
        for place in 0..1_000 {
            let why = Violation::new(RuleId::ReservedFmt, 7);
            refusals.record(Time::ZERO, Some(place), why, Head::of_bytes(&[0xe0; 100]));
        }
        assert_eq!((refusals.kinds().len(), refusals.total()), (Refusals::MAX_KINDS, 1_000));
        assert_eq!(refusals.kinds()[0].tlp.bytes(), [0xe0; 48]);
    }
}
