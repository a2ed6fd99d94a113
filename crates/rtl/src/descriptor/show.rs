// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts packets for the design to beats of CQ and RC, straddling or not, with their user signals (PG213: "Completer
//! Request Interface", "Requester Completion Interface"; PG023 and PG156 have the same up to 256 bits). Parity is zero.
//! Independent of descriptors.

use super::pack::Packet;
use crate::block::descriptor::{Driven, Stream};
use crate::signals::Outputs;
use device::seam::Token;
use std::collections::VecDeque;

/// Maximum number of words of a beat, and of its user signals.
const MOST_LANES: usize = 16;
const USER_WORDS: usize = 6;
/// Maximum number of packets that begin or end in a beat.
const MOST_PACKETS: usize = 4;

/// The beat that is presented until the design accepts it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Beat {
    pub(super) lanes: [u32; MOST_LANES],
    pub(super) keep: u32,
    pub(super) is_last: bool,
    pub(super) user: [u32; USER_WORDS],
    /// Tokens of the packets that end in this beat.
    tokens: [Option<Token>; MOST_PACKETS],
}

impl Beat {
    /// Sets bits of the user signals.
    fn mark(&mut self, at: usize, value: u32) {
        let both = u64::from(value) << (at % 32);
        self.user[at / 32] |= both as u32;
        if let Some(next) = self.user.get_mut(at / 32 + 1) {
            *next |= (both >> 32) as u32;
        }
    }
}

/// Positions of a stream's user signals: of CQ or RC, in beats of up to 256 bits or of 512.
#[derive(Clone, Copy)]
struct Marks {
    byte_enables: usize,
    begins: usize,
    /// Position of the lane in which a packet begins, in units of four lanes; `None` in narrow beats.
    begin_lanes: Option<usize>,
    /// Positions of the first packet's end bit and of its lane, and the distances to the next packet's.
    ends: Option<(usize, usize, [usize; 2])>,
    /// first_be, last_be.
    enables: Option<[usize; 2]>,
}

impl Marks {
    fn of(stream: Stream, lanes: usize) -> Marks {
        match (stream, lanes) {
            (Stream::Cq, 16) => Marks {
                byte_enables: 16,
                begins: 80,
                begin_lanes: Some(82),
                ends: Some((86, 88, [1, 4])),
                enables: Some([0, 8]),
            },
            (Stream::Cq, _) => {
                Marks { byte_enables: 8, begins: 40, begin_lanes: None, ends: None, enables: Some([0, 4]) }
            }
            (_, 16) => Marks {
                byte_enables: 0,
                begins: 64,
                begin_lanes: Some(68),
                ends: Some((76, 80, [1, 4])),
                enables: None,
            },
            _ => Marks {
                byte_enables: 0,
                begins: 32,
                begin_lanes: None,
                ends: Some((34, 35, [4, 4])),
                enables: None,
            },
        }
    }
}

/// A stream toward the design.
pub(super) struct Show {
    lanes: usize,
    /// Distance in lanes between positions where packets may begin in a beat.
    every: usize,
    marks: Marks,
    waiting: VecDeque<Packet>,
    current: Option<(Packet, usize)>,
    beat: Option<Beat>,
    taken: VecDeque<Token>,
    /// Packets that were sent. They are kept so that their buffers can be reused.
    spare: Vec<Packet>,
    pub(super) packets: u64,
}

/// Driven ports of a stream.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) valid: Driven,
    pub(super) data: Driven,
    pub(super) keep: Driven,
    pub(super) last: Driven,
    pub(super) user: Driven,
}

impl Show {
    /// Creates a stream with this number of lanes. Up to `packets` packets may begin in each beat.
    pub(super) fn new(stream: Stream, lanes: usize, packets: usize) -> Show {
        Show {
            lanes,
            every: lanes / packets,
            marks: Marks::of(stream, lanes),
            waiting: VecDeque::new(),
            current: None,
            beat: None,
            taken: VecDeque::new(),
            spare: Vec::new(),
            packets: 0,
        }
    }

    /// Returns an empty packet to fill, for [`push`](Self::push).
    pub(super) fn empty(&mut self) -> Packet {
        let words = self.spare.pop().map(|packet| packet.words).unwrap_or_default();
        Packet { words, ..Packet::default() }
    }

    pub(super) fn push(&mut self, packet: Packet) {
        self.waiting.push_back(packet);
    }

    /// Drops a packet without showing it.
    pub(super) fn give_up(&mut self, packet: Packet) {
        self.taken.extend(packet.token);
        self.spare.push(packet);
    }

    /// Drops everything; tokens that were not returned become invalid.
    pub(super) fn reset(&mut self) {
        (self.current, self.beat) = (None, None);
        self.waiting.clear();
        self.taken.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none() && self.beat.is_none()
    }

    pub(super) fn next_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    pub(super) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Records that the design has accepted the beat, if one is presented.
    pub(super) fn take(&mut self) {
        if let Some(beat) = self.beat.take() {
            self.taken.extend(beat.tokens.into_iter().flatten());
        }
    }

    /// Drives the beat that is presented from this cycle on, or none if `cycle` is `None`, because the link is down. `is_taken`: the design has
    /// accepted the last beat. `non_posted`: see [`next`](Self::next).
    pub(super) fn drive(
        &mut self,
        cycle: Option<u64>,
        is_taken: bool,
        non_posted: &mut u32,
        outputs: &mut Outputs<'_>,
        ports: Ports,
    ) {
        if cycle.is_some() && is_taken {
            self.take();
        }
        let beat = cycle.and_then(|cycle| self.next(cycle, non_posted));
        outputs.set(ports.valid, beat.is_some().into());
        let Some((beat, true)) = beat else { return };
        outputs.set_lanes(ports.data, &beat.lanes);
        outputs.set(ports.keep, beat.keep);
        outputs.set(ports.last, beat.is_last.into());
        outputs.set_wide(ports.user, &beat.user);
    }

    /// Returns the beat for the next cycle, and whether it is new. `non_posted`: how many non-posted requests may begin.
    pub(super) fn next(&mut self, cycle: u64, non_posted: &mut u32) -> Option<(&Beat, bool)> {
        let is_new = self.beat.is_none();
        if is_new {
            self.beat = self.beat_of(cycle, non_posted);
        }
        self.beat.as_ref().map(|beat| (beat, is_new))
    }

    fn beat_of(&mut self, cycle: u64, non_posted: &mut u32) -> Option<Beat> {
        let mut beat = Beat::default();
        let (mut lane, mut begun, mut ended) = (0, 0, 0);
        while lane < self.lanes {
            if self.current.is_none() {
                lane = lane.next_multiple_of(self.every);
                if lane >= self.lanes {
                    break;
                }
                let Some(packet) = self.next_packet(cycle, non_posted) else { break };
                self.begin(&mut beat, &packet, lane, begun);
                begun += 1;
                self.current = Some((packet, 0));
            }
            let Some((packet, at)) = &mut self.current else { break };
            let count = (packet.words.len() - *at).min(self.lanes - lane);
            beat.lanes[lane..lane + count].copy_from_slice(&packet.words[*at..*at + count]);
            for n in 0..count {
                beat.mark(self.marks.byte_enables + 4 * (lane + n), packet.enables_of(*at + n));
            }
            beat.keep |= ((1 << count) - 1) << lane;
            *at += count;
            lane += count;
            if *at == packet.words.len() {
                self.end(&mut beat, lane - 1, ended);
                ended += 1;
            }
        }
        if begun == 0 && lane == 0 {
            return None;
        }
        if self.every < self.lanes {
            // If packets straddle, only the user signals mark their positions.
            (beat.keep, beat.is_last) = ((1 << self.lanes) - 1, false);
        }
        Some(beat)
    }

    fn begin(&self, beat: &mut Beat, packet: &Packet, lane: usize, nth: usize) {
        beat.mark(self.marks.begins + nth, 1);
        if let Some(at) = self.marks.begin_lanes {
            beat.mark(at + 2 * nth, lane as u32 / 4);
        }
        if let Some(at) = self.marks.enables {
            for (at, enables) in at.into_iter().zip(packet.request_enables) {
                beat.mark(at + 4 * nth, enables.into());
            }
        }
    }

    fn end(&mut self, beat: &mut Beat, lane: usize, nth: usize) {
        if let Some((bit, at, [next_bit, next])) = self.marks.ends {
            beat.mark(bit + next_bit * nth, 1);
            beat.mark(at + next * nth, lane as u32);
        }
        beat.is_last = true;
        let Some((packet, _)) = self.current.take() else { return };
        beat.tokens[nth] = packet.token;
        self.packets += 1;
        self.spare.push(packet);
    }

    /// Returns the first packet that may be presented: posted requests may pass non-posted requests.
    fn next_packet(&mut self, cycle: u64, non_posted: &mut u32) -> Option<Packet> {
        let may = |packet: &Packet| *non_posted > 0 || !packet.is_non_posted;
        let at = self.waiting.iter().position(may)?;
        if self.waiting[at].from > cycle {
            return None;
        }
        let packet = self.waiting.remove(at)?;
        *non_posted -= u32::from(packet.is_non_posted);
        Some(packet)
    }
}
