// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extracts packets of the design from beats of RQ and CC, straddling or not, and checks them (PG213: "Requester
//! Request Interface", "Completer Completion Interface"; PG023 and PG156 have the same up to 256 bits). Parity is
//! ignored. Independent of descriptors.

use crate::block::descriptor::{Read, Stream};
use crate::findings::Rule;
use crate::kept::PresentedBeat;
use crate::signals::Inputs;
use std::collections::VecDeque;

/// Words of the longest packet: descriptor, alignment padding, data.
const MAX_WORDS: usize = 4 + 20 + 1024;

/// A packet of the design.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) words: Vec<u32>,
    /// first_be and last_be.
    pub(super) enables: [u8; 2],
    /// First lane of the data, in address-aligned mode.
    pub(super) offset: u8,
    pub(super) sequence: u8,
    /// True if the design discontinued the packet.
    pub(super) is_discontinued: bool,
}

/// Ports of a stream.
#[derive(Clone, Copy)]
struct Ports {
    data: Read,
    keep: Read,
    last: Read,
    valid: Read,
    user: Read,
}

/// Positions of the user signals that mark where packets begin and end, each with its lane, and of the discontinue signal.
#[derive(Clone, Copy)]
struct Marks {
    begins: [u16; 2],
    ends: [u16; 2],
    discontinue: u16,
}

/// A stream of the design.
pub(super) struct Take {
    stream: Stream,
    lanes: usize,
    straddles: bool,
    ports: Ports,
    marks: Marks,
    kept: PresentedBeat,
    current: Option<Packet>,
    /// True while the rest of an invalid packet is skipped.
    is_lost: bool,
    done: VecDeque<Packet>,
    spare: Vec<Packet>,
    pub(super) packets: u64,
}

impl Take {
    /// Creates a stream with this number of lanes.
    pub(super) fn new(stream: Stream, lanes: usize, straddles: bool) -> Take {
        let is_rq = stream == Stream::Rq;
        let ports = match is_rq {
            true => Ports {
                data: Read::RqData,
                keep: Read::RqKeep,
                last: Read::RqLast,
                valid: Read::RqValid,
                user: Read::RqUser,
            },
            false => Ports {
                data: Read::CcData,
                keep: Read::CcKeep,
                last: Read::CcLast,
                valid: Read::CcValid,
                user: Read::CcUser,
            },
        };
        let marks = match (is_rq, lanes) {
            (true, 16) => Marks { begins: [20, 22], ends: [26, 28], discontinue: 36 },
            (false, 16) => Marks { begins: [0, 2], ends: [6, 8], discontinue: 16 },
            (true, _) => Marks { begins: [0; 2], ends: [0; 2], discontinue: 11 },
            (false, _) => Marks { begins: [0; 2], ends: [0; 2], discontinue: 0 },
        };
        Take {
            stream,
            lanes,
            straddles,
            ports,
            marks,
            kept: PresentedBeat::default(),
            current: None,
            is_lost: false,
            done: VecDeque::new(),
            spare: Vec::new(),
            packets: 0,
        }
    }

    /// Returns its name in the port names.
    pub(super) fn name(&self) -> &'static str {
        if self.stream == Stream::Rq { "s_axis_rq" } else { "s_axis_cc" }
    }

    pub(super) fn reset(&mut self) {
        (self.current, self.is_lost) = (None, false);
        self.kept.reset();
        self.done.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.done.is_empty() && !self.kept.is_shown()
    }

    /// Returns the next complete packet. Give it back with [`give_back`](Self::give_back) after use.
    pub(super) fn next(&mut self) -> Option<Packet> {
        self.done.pop_front()
    }

    pub(super) fn give_back(&mut self, packet: Packet) {
        self.spare.push(packet);
    }

    /// Returns true if the stream keeps its rule: a shown beat stays until it is accepted.
    pub(super) fn is_kept(&mut self, inputs: Inputs<'_>, is_ready: bool) -> bool {
        let Ports { data, keep, last, valid, user } = self.ports;
        let control = move || {
            let user = (0..5).map(move |n| inputs.field(user, 32 * n, 32));
            [inputs.get(keep), inputs.get(last)].into_iter().chain(user)
        };
        let beat = || inputs.lanes(data).iter().copied().chain(control());
        self.kept.check(inputs.is(valid), is_ready, beat)
    }

    /// Takes a beat, if one is presented. The error has the broken rule and the words of the packet so far.
    pub(super) fn take(&mut self, inputs: Inputs<'_>) -> Result<(), (Rule, Vec<u32>)> {
        if !inputs.is(self.ports.valid) {
            return Ok(());
        }
        let taken = if self.straddles { self.take_straddling(inputs) } else { self.take_one(inputs) };
        taken.map_err(|rule| {
            self.is_lost = self.straddles || !inputs.is(self.ports.last);
            (rule, self.current.take().map(|packet| packet.words).unwrap_or_default())
        })
    }

    /// Takes a beat with one packet.
    fn take_one(&mut self, inputs: Inputs<'_>) -> Result<(), Rule> {
        let (keep, is_last) = (inputs.get(self.ports.keep), inputs.is(self.ports.last));
        if self.is_lost {
            self.is_lost = !is_last;
            return Ok(());
        }
        if self.current.is_none() {
            self.begin(inputs, 0);
        }
        let count = keep.trailing_ones() as usize;
        if keep.count_ones() as usize != count || count == 0 || (!is_last && count != self.lanes) {
            return Err(Rule::Keep(self.name(), keep.into()));
        }
        self.add(inputs, 0, count)?;
        if is_last {
            self.end();
        }
        Ok(())
    }

    /// Takes a beat of 512 bits. It may contain the end of one packet and another packet, or two packets.
    fn take_straddling(&mut self, inputs: Inputs<'_>) -> Result<(), Rule> {
        let (name, user, marks) = (self.name(), self.ports.user, self.marks);
        let field = |at, bits| inputs.field(user, at, bits);
        let (begins, ends) = (field(marks.begins[0], 2), field(marks.ends[0], 2));
        let begin_lane = |n: u16| 4 * field(marks.begins[1] + 2 * n, 2) as usize;
        let end_lane = |n: u16| field(marks.ends[1] + 4 * n, 4) as usize + 1;
        let wrong = |why| Err(Rule::Straddle(name, why));
        let (mut lane, mut begun, mut ended) = (0, 0, 0);
        let has = |bits: u32, n: u16| n < 2 && bits >> n & 1 == 1;
        if begins == 0b10 || ends == 0b10 {
            return wrong(
                "is_sop and is_eop: the second bit is set without the first; expected the first bit to be set too",
            );
        }
        if has(begins, 0) {
            self.is_lost = false;
        }
        loop {
            if self.current.is_none() && !self.is_lost {
                if !has(begins, begun) {
                    break;
                }
                let at = begin_lane(begun);
                if ![0, 8].contains(&at) || at < lane {
                    return wrong(
                        "is_sop_ptr: invalid lane; expected lane 0 or lane 8, after the end of the previous packet",
                    );
                }
                lane = at;
                self.begin(inputs, begun);
                begun += 1;
            }
            let is_end = has(ends, ended);
            let end = if is_end { end_lane(ended) } else { self.lanes };
            if end <= lane {
                return wrong("is_eop_ptr: invalid lane; expected a lane of the packet that ends");
            }
            if !self.is_lost {
                self.add(inputs, lane, end)?;
            }
            if !is_end {
                break;
            }
            (lane, ended) = (end, ended + 1);
            if !std::mem::take(&mut self.is_lost) {
                self.end();
            }
        }
        if has(begins, begun) || has(ends, ended) {
            return wrong("is_sop without is_eop of the previous packet, or is_eop without a packet");
        }
        if begun == 0 && ended == 0 && self.current.is_none() && !self.is_lost {
            return wrong("a beat without is_sop outside a packet");
        }
        Ok(())
    }

    /// Begins the nth packet that begins in a beat.
    fn begin(&mut self, inputs: Inputs<'_>, nth: u16) {
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.words.clear();
        packet.is_discontinued = false;
        if self.stream == Stream::Rq {
            let field = |at, bits| inputs.field(self.ports.user, at, bits) as u8;
            if self.lanes == 16 {
                packet.enables = [field(4 * nth, 4), field(8 + 4 * nth, 4)];
                packet.offset = field(16 + 2 * nth, 2);
                packet.sequence = field(61 + 6 * nth, 6);
            } else {
                packet.enables = [field(0, 4), field(4, 4)];
                packet.offset = field(8, 3);
                packet.sequence = field(24, 4) | field(60, 2) << 4;
            }
        }
        self.current = Some(packet);
    }

    /// Adds lanes to the packet.
    fn add(&mut self, inputs: Inputs<'_>, from: usize, to: usize) -> Result<(), Rule> {
        let name = self.name();
        let Some(packet) = &mut self.current else { return Ok(()) };
        packet.words.extend_from_slice(&inputs.lanes(self.ports.data)[from..to]);
        packet.is_discontinued |= inputs.field(self.ports.user, self.marks.discontinue, 1) == 1;
        if packet.words.len() > MAX_WORDS { Err(Rule::TooLong(name)) } else { Ok(()) }
    }

    fn end(&mut self) {
        self.packets += 1;
        self.done.extend(self.current.take());
    }
}
