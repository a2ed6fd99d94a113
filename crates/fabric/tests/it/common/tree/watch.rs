// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observations of a tap on every link: whether every credit has returned, the TLPs of each requester on each link, and
//! a digest of all frames with their times. It knows the credits only from the frames.

use link::Frame;
use riser_fabric::{Direction, LinkId, Side, Tap, TapRecord};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::{Body, Class, Dllp, FlowControlKind, TcSet, Time, Tlp};

/// Credits of one class and channel in one direction, modulo 2^8 and 2^12 (`PCIe 5.0 §2.6.1`).
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// As in InitFC; zero is infinite.
    advertised: (u8, u16),
    consumed: (u8, u16),
    limit: (u8, u16),
}

/// One direction of a link, as its transmitter and the receiver's DLLPs show it.
#[derive(Clone, Debug, Default)]
struct Way {
    next_sequence: u16,
    accounts: BTreeMap<(u8, usize), Account>,
}

#[derive(Default)]
struct Seen {
    ways: BTreeMap<(u32, bool), Way>,
    /// TLPs that have arrived on a link, going up, by requester, from a time on.
    shares: BTreeMap<(u32, u16), u64>,
    count_from: Time,
    count_until: Option<Time>,
    digest: u64,
    frames: u64,
    /// TLPs of TC1 travel on VC1.
    two_channels: bool,
    arrivals: Vec<(LinkId, Direction, Time)>,
    keep_arrivals: bool,
}

/// The tap. Its clones share the observations.
#[derive(Clone, Default)]
pub(crate) struct Watch(Rc<RefCell<Seen>>);

impl Watch {
    pub(crate) fn new(two_channels: bool) -> Watch {
        let watch = Watch::default();
        watch.0.borrow_mut().two_channels = two_channels;
        watch
    }

    /// Counts shares of the TLPs that arrive from `from` until `until`.
    pub(crate) fn counting(from: Time, until: Time) -> Watch {
        let watch = Watch::new(false);
        watch.0.borrow_mut().count_from = from;
        watch.0.borrow_mut().count_until = Some(until);
        watch
    }

    /// Keeps the times at which TLPs arrive.
    pub(crate) fn keeping() -> Watch {
        let watch = Watch::new(false);
        watch.0.borrow_mut().keep_arrivals = true;
        watch
    }

    pub(crate) fn digest(&self) -> (u64, u64) {
        (self.0.borrow().digest, self.0.borrow().frames)
    }

    pub(crate) fn arrivals(&self) -> Vec<(LinkId, Direction, Time)> {
        self.0.borrow().arrivals.clone()
    }

    /// TLPs of `requester` that have arrived on `link` on their way up.
    pub(crate) fn share(&self, link: usize, requester: u16) -> u64 {
        self.0.borrow().shares.get(&(link as u32, requester)).copied().unwrap_or(0)
    }

    /// Returns a line for each kind of credit that has not returned. `alive`: whether a link is up at the end.
    pub(crate) fn missing_credits(&self, alive: impl Fn(u32) -> bool) -> Vec<String> {
        let seen = self.0.borrow();
        let ways = seen.ways.iter().filter(|((link, _), _)| alive(*link));
        let accounts = ways.flat_map(|(way, w)| w.accounts.iter().map(move |(kind, a)| (way, kind, a)));
        let lines = accounts.filter_map(|((link, down), (vc, class), a)| {
            let headers = a.limit.0.wrapping_sub(a.consumed.0);
            let data = a.limit.1.wrapping_sub(a.consumed.1) & 0xfff;
            let short = (a.advertised.0 != 0 && headers != a.advertised.0)
                || (a.advertised.1 != 0 && data != a.advertised.1);
            let way = if *down { "down" } else { "up" };
            let all = a.advertised;
            let class = Class::ALL[*class];
            short.then(|| format!("link {link} {way} VC{vc} {class:?}: {headers}/{data} of {all:?}"))
        });
        lines.collect()
    }
}

impl Seen {
    fn send(&mut self, link: u32, down: bool, frame: Frame<&Tlp>) {
        match frame {
            Frame::Tlp { sequence, tlp } => self.consume(link, down, sequence, tlp),
            // The values of a receiver are for the other direction; they count when they arrive.
            Frame::Dllp(Dllp::FlowControl(fc)) if fc.kind == FlowControlKind::InitFc1 => {
                let way = self.ways.entry((link, !down)).or_default();
                if fc.class == Class::Posted && fc.vc.id() == 0 {
                    *way = Way::default();
                }
                let credits = (fc.header, fc.data);
                let account = Account { advertised: credits, consumed: (0, 0), limit: credits };
                way.accounts.insert((fc.vc.id(), fc.class.index()), account);
            }
            Frame::Dllp(_) => {}
        }
    }

    fn consume(&mut self, link: u32, down: bool, sequence: u16, tlp: &Tlp) {
        let vc = u8::from(self.two_channels && tlp.repr.tc.bits() == 1);
        let way = self.ways.entry((link, down)).or_default();
        if sequence != way.next_sequence {
            return;
        }
        way.next_sequence = (sequence + 1) & 0xfff;
        if let Some(account) = way.accounts.get_mut(&(vc, tlp.class().index())) {
            account.consumed.0 = account.consumed.0.wrapping_add(1);
            account.consumed.1 = account.consumed.1.wrapping_add(tlp.data_credits() as u16) & 0xfff;
        }
    }

    fn receive(&mut self, record: &TapRecord<'_>) {
        let link = record.link.0;
        match record.frame {
            Frame::Dllp(Dllp::FlowControl(fc)) if fc.kind == FlowControlKind::UpdateFc => {
                let down = record.direction == Direction::Downstream;
                let way = self.ways.entry((link, !down)).or_default();
                if let Some(account) = way.accounts.get_mut(&(fc.vc.id(), fc.class.index())) {
                    account.limit = (fc.header, fc.data);
                }
            }
            Frame::Tlp { tlp, .. } => {
                if self.keep_arrivals {
                    self.arrivals.push((record.link, record.direction, record.time));
                }
                self.count(record, tlp);
            }
            Frame::Dllp(_) => {}
        }
    }

    fn count(&mut self, record: &TapRecord<'_>, tlp: &Tlp) {
        let in_time = record.time >= self.count_from && self.count_until.is_some_and(|t| record.time < t);
        if !in_time {
            return;
        }
        let (requester, counts) = match &tlp.repr.body {
            Body::Completion(c) => (c.requester, record.direction == Direction::Downstream),
            _ => (tlp.repr.transaction().0, record.direction == Direction::Upstream),
        };
        if counts {
            *self.shares.entry((record.link.0, requester.bits())).or_default() += 1;
        }
    }

    fn mix(&mut self, record: &TapRecord<'_>) {
        let mut mix = |value: u64| {
            self.digest = (self.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        };
        mix(record.time.as_ps());
        mix(u64::from(record.link.0) << 8 | u64::from(record.at == Side::Root) << 4);
        mix(u64::from(record.damaged) << 1 | u64::from(record.dropped));
        match record.frame {
            Frame::Tlp { sequence, tlp } => {
                let (requester, tag) = tlp.repr.transaction();
                mix(u64::from(sequence) << 32 | u64::from(requester.bits()) << 16 | u64::from(tag.bits()));
                mix(tlp.data.len() as u64);
                tlp.data.bytes().iter().flat_map(|bytes| bytes.iter()).for_each(|byte| mix(u64::from(*byte)));
            }
            Frame::Dllp(dllp) => dllp.emit().iter().for_each(|byte| mix(u64::from(*byte))),
        }
        self.frames += 1;
    }
}

impl Tap for Watch {
    fn frame(&mut self, record: &TapRecord<'_>) {
        let mut seen = self.0.borrow_mut();
        seen.mix(record);
        let down = record.direction == Direction::Downstream;
        if Direction::of_sender(record.at) == record.direction {
            seen.send(record.link.0, down, record.frame);
        } else if !record.damaged && !record.dropped {
            seen.receive(record);
        }
    }
}

/// The Traffic Classes of `room` that a TLP may have.
pub(crate) fn has(room: TcSet, tc: u8) -> bool {
    room.bits() >> tc & 1 == 1
}
