// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A raw-TLP device with a source of writes for each of several Traffic Classes, which do not wait for each other.
// Each user of this module uses a part of it.
use endpoint::{CreditReturn, TlpPort};
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, Repr, Span, Tag, TcSet, Time, Tlp,
    TrafficClass,
};

/// Writes of one Traffic Class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) tc: u8,
    pub(crate) size: u32,
    pub(crate) left: u64,
    /// The first is sent at this time.
    pub(crate) from: Time,
    /// Time between further ones; zero: as soon as there is room.
    pub(crate) every: Duration,
}

impl Source {
    /// Writes at full speed.
    pub(crate) fn flood(tc: u8, size: u32) -> Source {
        Source { tc, size, left: u64::MAX, from: Time::ZERO, every: Duration::ZERO }
    }
}

/// The device with its sources.
pub(crate) struct Sources {
    sources: Vec<Source>,
    turn: usize,
    now: Time,
    credits: VecDeque<CreditReturn>,
}

impl Sources {
    pub(crate) fn new(sources: Vec<Source>) -> Sources {
        Sources { sources, turn: 0, now: Time::ZERO, credits: VecDeque::new() }
    }
}

pub(crate) fn write(tc: u8, size: u32) -> Tlp {
    let span = Span::covering(0x1_0000_0000 + u64::from(tc) * 4096, size).unwrap();
    let (requester, tag) = (Bdf::from_bits(0x100), Tag::default());
    let body = Body::Memory(MemoryRequest { op: MemoryOp::Write, requester, tag, span });
    let repr = Repr { tc: TrafficClass::from_bits(tc), ..Repr::new(body) };
    Tlp::new(repr, Data::Counted(size))
}

impl TlpPort for Sources {
    fn handle_tlp(&mut self, _now: Time, tlp: &Tlp) {
        self.credits.push_back(CreditReturn::of(tlp));
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.now = self.now.max(now);
        if class != Class::Posted {
            return None;
        }
        let count = self.sources.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            let source = &mut self.sources[index];
            if source.left > 0 && source.from <= now && room.contains(TrafficClass::from_bits(source.tc)) {
                source.left -= 1;
                source.from += source.every;
                self.turn = (index + 1) % count;
                return Some(write(source.tc, source.size));
            }
        }
        None
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sources.iter().filter(|s| s.left > 0 && s.from > self.now).map(|s| s.from).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
