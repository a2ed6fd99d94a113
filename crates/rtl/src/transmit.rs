// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extracts packets of the design from beats of a transmit stream with plain TLPs, and checks them. Independent of ports and of the link.

use crate::findings::{Rule, hex};
use crate::kept::PresentedBeat;
use tlp::wire::Header;
use tlp::{PayloadPool, Tlp};

/// Name of the stream.
pub(crate) const STREAM: &str = "s_axis_tx";

/// Words of the longest packet: prefixes, header, data and digest.
const MAX_WORDS: usize = 4 + 4 + 1024 + 1;

/// A beat of the stream.
#[derive(Clone, Copy)]
pub(crate) struct Beat<'a> {
    pub(crate) lanes: &'a [u32],
    /// One bit per byte.
    pub(crate) keep: u64,
    pub(crate) is_last: bool,
    /// True if the packet is poisoned; true if it must be discarded.
    pub(crate) is_poisoned: bool,
    pub(crate) is_given_up: bool,
}

/// Result of one beat. Both fields are `None` in the middle of a packet, and at the end of a packet that the design
/// discontinued.
#[derive(Default)]
pub(crate) struct Came {
    /// A complete packet.
    pub(crate) tlp: Option<Tlp>,
    /// A rule that the packet breaks, whether or not a TLP is sent. Report the rule, then call `forget`.
    pub(crate) rule: Option<Rule>,
}

/// Size of the longest header in bytes, without prefixes.
const MAX_HEADER_BYTES: usize = 16;

#[derive(Default)]
pub(crate) struct Transmit {
    bytes: Vec<u8>,
    is_poisoned: bool,
    /// True while the rest of a packet that is too long is skipped.
    is_lost: bool,
    kept: PresentedBeat,
    pub(crate) packets: u64,
}

impl Transmit {
    pub(crate) fn reset(&mut self) {
        self.end();
        self.kept.reset();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.kept.is_shown()
    }

    /// Returns the packet's bytes so far, for a finding.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the stream keeps its rule: a shown beat stays until it is accepted.
    pub(crate) fn is_kept(&mut self, beat: &Beat<'_>, is_valid: bool, is_ready: bool) -> bool {
        let control = [beat.keep as u32, (beat.keep >> 32) as u32, beat.is_last.into()];
        self.kept.check(is_valid, is_ready, || beat.lanes.iter().copied().chain(control))
    }

    /// Takes a beat; `bytes_of` returns the bytes of a lane.
    pub(crate) fn take(&mut self, beat: &Beat<'_>, bytes_of: fn(u32) -> [u8; 4], pool: &PayloadPool) -> Came {
        let Beat { lanes, keep, is_last, .. } = *beat;
        let count = (keep.trailing_ones() / 4) as usize;
        let all = lanes.len();
        let is_legal = keep.count_ones() == 4 * count as u32 && count > 0 && (is_last || count == all);
        self.is_poisoned |= beat.is_poisoned;
        for word in &lanes[..count] {
            self.bytes.extend_from_slice(&bytes_of(*word));
        }
        if beat.is_given_up || self.is_lost {
            self.bytes.clear();
            if beat.is_given_up || is_last {
                self.end();
            }
            return Came::default();
        }
        let wrong = match () {
            () if !is_legal => Some(Rule::Keep(STREAM, keep)),
            () if self.bytes.len() > 4 * MAX_WORDS => Some(Rule::TooLong(STREAM)),
            () => None,
        };
        if wrong.is_some() {
            self.is_lost = !is_last;
            return Came { tlp: None, rule: wrong };
        }
        if !is_last {
            return Came::default();
        }
        self.packets += 1;
        let (tlp, rule) = match whole(&self.bytes, self.is_poisoned, pool) {
            Ok((tlp, odd)) => (Some(tlp), odd),
            Err(rule) => (None, Some(rule)),
        };
        if rule.is_none() {
            self.end();
        }
        Came { tlp, rule }
    }

    /// Drops the packet after its error was reported.
    pub(crate) fn forget(&mut self) {
        if !self.is_lost {
            self.reset();
        }
    }

    fn end(&mut self) {
        self.bytes.clear();
        (self.is_poisoned, self.is_lost) = (false, false);
    }
}

/// Returns the rule broken by a packet whose length does not match its header.
fn mislaid(bytes: &[u8]) -> Rule {
    let Ok(header) = Header::new(bytes) else { return Rule::Header };
    Rule::Length { sent: bytes.len(), said: header.tlp_len() }
}

/// Returns the rule broken by a packet whose header is sent differently.
fn altered(bytes: &[u8], tlp: &Tlp) -> Option<Rule> {
    let mut header = [0; MAX_HEADER_BYTES];
    let len = tlp.repr.emit(&mut header);
    let came = &bytes[tlp.prefixes.wire_len()..];
    (!came.starts_with(&header[..len])).then(|| Rule::Altered { leaves: hex(&header[..len]) })
}

/// Returns the TLP of these bytes, even if it is malformed, and a rule that it breaks although it is sent.
///
/// # Errors
/// If its length does not match its header.
pub(crate) fn whole(
    bytes: &[u8],
    is_poisoned: bool,
    pool: &PayloadPool,
) -> Result<(Tlp, Option<Rule>), Rule> {
    let Ok(mut tlp) = Tlp::parse(bytes, pool) else {
        // The receiver of the TLP finds the error.
        return Tlp::of_malformed(bytes, pool).map(|tlp| (tlp, None)).ok_or_else(|| mislaid(bytes));
    };
    let odd = if tlp.has_wrong_ecrc() { Some(Rule::Digest) } else { altered(bytes, &tlp) };
    tlp.repr.ep |= is_poisoned;
    Ok((tlp, odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the bytes of a packet, and the way in which it is sent.
    #[test]
    fn reports_packets_sent_with_other_bytes() {
        let altered = |leaves: &str| Some(Rule::Altered { leaves: leaves.to_owned() });
        let rows = [
            ("400000010100000f0000100061626364", None),
            ("600000010100000f000000010000100061626364", None),
            // A header of four double-words for an address that needs three.
            ("600000010100000f000000000000100061626364", altered("400000010100000f00001000")),
            ("200000010100000f0000000000001000", altered("000000010100000f00001000")),
            // Low address bits, which are not part of the address.
            ("400000010100000f0000100361626364", altered("400000010100000f00001000")),
            // A wrong digest.
            ("400080010100000f000010006162636400000000", Some(Rule::Digest)),
        ];
        for (sent, rule) in rows {
            let digits = sent.as_bytes().chunks(2);
            let bytes: Vec<u8> =
                digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect();
            let (_, odd) = whole(&bytes, false, &PayloadPool::new()).unwrap();
            assert_eq!(odd, rule, "{sent}");
        }
    }
}
