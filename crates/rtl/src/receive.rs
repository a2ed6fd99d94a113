// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts packets for the design to beats of the 7-series block's receive stream (PG054): a double-word of the TLP per lane, its first
//! byte in bits 31:24. On a stream of 128 bits a packet may begin in the upper half. Independent of the link.

use crate::common::emit;
use device::seam::Token;
use std::collections::VecDeque;
use tlp::Tlp;

/// m_axis_rx_tuser.
const ERR_FWD: u32 = 1 << 1;
const BAR_HIT: u32 = 2;
const SOF: u32 = 10;
const EOF: u32 = 17;

/// A packet for the design.
#[derive(Debug)]
pub(crate) struct Packet {
    words: Vec<u32>,
    /// For a request: the token that is returned when the design has accepted it.
    token: Option<Token>,
    bar: Option<u8>,
    is_poisoned: bool,
    is_non_posted: bool,
    /// The first cycle in which the packet may be presented.
    from: u64,
}

/// The beat that is presented until the design accepts it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Beat {
    pub(crate) lanes: [u32; 4],
    pub(crate) keep: u32,
    pub(crate) is_last: bool,
    pub(crate) user: u32,
    /// Token of the packet that ends in this beat: at most one, because every packet has at least three words.
    token: Option<Token>,
}

#[derive(Default)]
pub(crate) struct Receive {
    waiting: VecDeque<Packet>,
    current: Option<(Packet, usize)>,
    beat: Option<Beat>,
    taken: VecDeque<Token>,
    bytes: Vec<u8>,
    /// Buffers of sent packets, for reuse.
    spare: Vec<Vec<u32>>,
    pub(crate) packets: u64,
}

impl Receive {
    pub(crate) fn push(&mut self, tlp: &Tlp, token: Option<Token>, bar: Option<u8>, from: u64) {
        emit(tlp, &mut self.bytes);
        let mut words = self.spare.pop().unwrap_or_default();
        words.clear();
        words.extend(self.bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)));
        let is_non_posted = tlp.class() == tlp::Class::NonPosted;
        self.waiting.push_back(Packet { words, token, bar, is_poisoned: tlp.repr.ep, is_non_posted, from });
    }

    /// Drops everything; tokens that were not returned become invalid.
    pub(crate) fn reset(&mut self) {
        (self.current, self.beat) = (None, None);
        self.waiting.clear();
        self.taken.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none() && self.beat.is_none()
    }

    pub(crate) fn next_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    pub(crate) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Returns the beat for the next cycle. `is_ready`: the design has accepted the shown beat; `non_posted`: it accepts non-posted
    /// requests.
    pub(crate) fn next(
        &mut self,
        cycle: u64,
        lanes: usize,
        is_ready: bool,
        non_posted: bool,
    ) -> Option<Beat> {
        if is_ready && let Some(beat) = self.beat.take() {
            self.taken.extend(beat.token);
        }
        if self.beat.is_none() {
            self.beat = self.beat_of(cycle, lanes, non_posted);
        }
        self.beat
    }

    fn beat_of(&mut self, cycle: u64, lanes: usize, non_posted: bool) -> Option<Beat> {
        let mut beat = Beat::default();
        let mut lane = 0;
        while lane < lanes {
            if self.current.is_none() {
                // A packet begins at the first lane, or in the middle of 128 bits.
                let may = lane == 0 || (lanes == 4 && lane <= 2);
                let Some(packet) = may.then(|| self.next_packet(cycle, non_posted)).flatten() else { break };
                lane = if lane == 0 { 0 } else { 2 };
                begin(&mut beat, &packet, lane);
                self.current = Some((packet, 0));
            }
            let Some((packet, at)) = &mut self.current else { break };
            if lane == 0 {
                mark(&mut beat, packet);
            }
            let rest = &packet.words[*at..];
            let count = rest.len().min(lanes - lane);
            beat.lanes[lane..lane + count].copy_from_slice(&rest[..count]);
            beat.keep |= ((1 << (4 * count)) - 1) << (4 * lane);
            *at += count;
            lane += count;
            if *at == packet.words.len() {
                beat.is_last = true;
                // Position of its last byte.
                beat.user |= (0x10 | (4 * lane as u32 - 1)) << EOF;
                self.end(&mut beat);
                if lanes < 4 {
                    break;
                }
            }
        }
        if lanes < 4 {
            beat.user &= (1 << SOF) - 1;
        }
        (lane > 0).then_some(beat)
    }

    fn end(&mut self, beat: &mut Beat) {
        let Some((packet, _)) = self.current.take() else { return };
        beat.token = packet.token;
        self.packets += 1;
        self.spare.push(packet.words);
    }

    /// Returns the first packet that may be presented: posted requests may pass non-posted requests.
    fn next_packet(&mut self, cycle: u64, non_posted: bool) -> Option<Packet> {
        let may = |packet: &Packet| non_posted || !packet.is_non_posted;
        let at = self.waiting.iter().position(may)?;
        if self.waiting[at].from > cycle { None } else { self.waiting.remove(at) }
    }
}

/// Sets the user signals of a packet in its beat. If two packets share a beat, the values of the packet that begins
/// apply.
fn mark(beat: &mut Beat, packet: &Packet) {
    let hit = packet.bar.map_or(0, |bar| 1 << (BAR_HIT + u32::from(bar)));
    let poisoned = if packet.is_poisoned { ERR_FWD } else { 0 };
    beat.user = beat.user & !(0xff << BAR_HIT | ERR_FWD) | hit | poisoned;
}

fn begin(beat: &mut Beat, packet: &Packet, lane: usize) {
    mark(beat, packet);
    beat.user |= (0x10 | (4 * lane as u32)) << SOF;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(words: &[u32]) -> Packet {
        Packet {
            words: words.to_vec(),
            token: None,
            bar: Some(1),
            is_poisoned: false,
            is_non_posted: false,
            from: 0,
        }
    }

    /// Packets arrive complete, at any width.
    #[test]
    fn beats_carry_the_packets() {
        let mut wide = Receive {
            waiting: [packet(&[1, 2, 3]), packet(&[4, 5, 6, 7, 8]), packet(&[9, 10, 11])].into(),
            ..Receive::default()
        };
        let beats: Vec<Beat> = (0..4).map_while(|n| wide.next(n, 4, true, true)).collect();
        let shown: Vec<([u32; 4], u32, u32, u32)> =
            beats.iter().map(|b| (b.lanes, b.keep, b.user >> SOF & 0x1f, b.user >> EOF & 0x1f)).collect();
        assert_eq!(
            shown,
            [
                ([1, 2, 3, 0], 0xfff, 0x10, 0x1b),
                ([4, 5, 6, 7], 0xffff, 0x10, 0),
                // One packet ends in lane 0, the next begins in lane 2.
                ([8, 0, 9, 10], 0xff0f, 0x18, 0x13),
                ([11, 0, 0, 0], 0xf, 0, 0x13),
            ]
        );
        let mut narrow =
            Receive { waiting: [packet(&[1, 2, 3]), packet(&[4, 5])].into(), ..Receive::default() };
        let beats: Vec<Beat> = (0..4).map_while(|n| narrow.next(n, 2, true, true)).collect();
        let shown: Vec<([u32; 2], u32, bool, u32)> =
            beats.iter().map(|b| ([b.lanes[0], b.lanes[1]], b.keep, b.is_last, b.user)).collect();
        assert_eq!(shown, [([1, 2], 0xff, false, 8), ([3, 0], 0xf, true, 8), ([4, 5], 0xff, true, 8)]);
    }
}
