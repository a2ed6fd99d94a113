// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ports joined by two wires with a time of flight, driven by a minimal event loop that picks the earliest of a few
//! times. For tests and benches only.
use riser_link::{Damage, Frame, Port, PortConfig};
use std::collections::VecDeque;
use tlp::{
    Access, Attributes, Bdf, Body, Class, Completion, ConfigRequest, Data, Duration, MemoryOp, MemoryRequest,
    Message, MessageRouting, Repr, Span, Tag, TcSet, Time, Tlp, TrafficClass,
};

/// The effect of the wire on a frame.
pub(crate) enum Fate {
    Intact,
    Lost,
    Damaged(Damage),
}

/// Source and sink of TLPs, and the effect of the wires on frames. Sides are 0 and 1.
pub(crate) trait World {
    /// Returns a TLP of `class` that `side` wants to send; polled while there is room.
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp>;
    /// A TLP has arrived at `side`.
    fn delivered(&mut self, side: usize, now: Time, tlp: Tlp);
    /// Time for which `side` keeps a TLP in its buffer.
    fn drain(&mut self, _side: usize) -> Duration {
        Duration::ZERO
    }
    /// `side` sends `frame`, the `nth` of its frames from zero.
    fn fate(&mut self, _side: usize, _nth: u64, _frame: &Frame) -> Fate {
        Fate::Intact
    }
}

struct Side {
    port: Port,
    inbound: VecDeque<(Time, Frame, Damage)>,
    drains: VecDeque<(Time, TrafficClass, Class, u32)>,
    /// TLPs whose channel has no room.
    held: [Option<Tlp>; 3],
    sent: u64,
    /// TLPs sent for the first time, and their total wait for credits.
    tlps: u64,
    credit_wait: Duration,
}

/// A link of two ports.
pub(crate) struct Joined {
    pub(crate) now: Time,
    propagation: Duration,
    sides: [Side; 2],
}

#[derive(Clone, Copy)]
enum Next {
    Arrive,
    Drain,
    Timer,
    Transmit,
}

impl Joined {
    pub(crate) fn new(configs: [PortConfig; 2], propagation: Duration) -> Joined {
        let sides = configs.map(|config| {
            assert_eq!(config.validate(), Ok(()));
            let mut port = Port::new(config);
            port.start(Time::ZERO);
            Side {
                port,
                inbound: VecDeque::with_capacity(4096),
                drains: VecDeque::with_capacity(4096),
                held: Default::default(),
                sent: 0,
                tlps: 0,
                credit_wait: Duration::ZERO,
            }
        });
        Joined { now: Time::ZERO, propagation, sides }
    }

    pub(crate) fn port(&self, side: usize) -> &Port {
        &self.sides[side].port
    }

    pub(crate) fn port_mut(&mut self, side: usize) -> &mut Port {
        &mut self.sides[side].port
    }

    /// Total wait for credits of the TLPs that `side` has sent.
    pub(crate) fn credit_wait(&self, side: usize) -> Duration {
        self.sides[side].credit_wait
    }

    #[allow(dead_code, reason = "for the benchmark")]
    pub(crate) fn into_ports(self) -> [Port; 2] {
        self.sides.map(|side| side.port)
    }

    /// Takes the link down. Each side hands back TLPs, their sequence numbers, and whether the other side has them.
    pub(crate) fn cut(&mut self, surprise: bool) -> [Vec<(Tlp, Option<u16>, bool)>; 2] {
        let now = self.now;
        let received: [Vec<u16>; 2] = [0, 1].map(|side| {
            let peer = &self.sides[1 - side].port;
            (0..4096).filter(|n| peer.has_received(*n)).collect()
        });
        let mut received = received.into_iter();
        std::array::from_fn(|side| {
            let received = received.next().unwrap_or_default();
            self.sides[side].inbound.clear();
            let lost = self.sides[side].port.take_down(now, surprise);
            lost.into_iter()
                .map(|l| (l.tlp, l.sequence, l.sequence.is_some_and(|n| received.contains(&n))))
                .collect()
        })
    }

    /// Brings the link up again.
    pub(crate) fn restore(&mut self) {
        for side in &mut self.sides {
            side.port.bring_up(self.now);
        }
    }

    /// Whether all TLPs that arrived have left the buffers.
    pub(crate) fn is_drained(&self) -> bool {
        self.sides.iter().all(|side| side.drains.is_empty())
    }

    pub(crate) fn states(&self) -> String {
        format!("at {}: {} | {}", self.now, self.sides[0].port.state_line(), self.sides[1].port.state_line())
    }

    /// Steps until `until`, or until no event is left. False if neither is reached in `steps` steps.
    pub(crate) fn run(&mut self, world: &mut impl World, until: Time, steps: u64) -> bool {
        for _ in 0..steps {
            if !self.step(world, until) {
                return true;
            }
        }
        false
    }

    /// Runs the next event if it is due by `until`.
    pub(crate) fn step(&mut self, world: &mut impl World, until: Time) -> bool {
        let mut best: Option<(Time, usize, Next)> = None;
        for side in 0..2 {
            self.refill(world, side);
            let s = &self.sides[side];
            let candidates = [
                (s.inbound.front().map(|f| f.0), Next::Arrive),
                (s.drains.front().map(|d| d.0), Next::Drain),
                (s.port.poll_timeout(), Next::Timer),
                (s.port.transmit_ready_at(), Next::Transmit),
            ];
            for (time, next) in candidates {
                let Some(time) = time.map(|t| t.max(self.now)) else { continue };
                if best.is_none_or(|b| time < b.0) {
                    best = Some((time, side, next));
                }
            }
        }
        match best {
            Some((time, side, next)) if time <= until => {
                self.now = time;
                self.happen(world, side, next);
                true
            }
            _ => {
                self.now = self.now.max(until);
                false
            }
        }
    }

    fn refill(&mut self, world: &mut impl World, side: usize) {
        let Side { port, held, .. } = &mut self.sides[side];
        let mut added = false;
        for class in Class::ALL {
            loop {
                // A TLP may not pass a waiting posted TLP that was issued before it.
                let before = held[0].as_ref().filter(|_| class != Class::Posted);
                let bound = before.map_or(TcSet::NONE, |tlp| port.channel_classes(tlp.repr.tc));
                let room = port.room(class).and(bound.complement());
                if room.is_empty() {
                    break;
                }
                let held = &mut held[class.index()];
                let Some(tlp) = held.take().or_else(|| world.next(side, class)) else { break };
                if !room.contains(tlp.repr.tc) {
                    *held = Some(tlp);
                    break;
                }
                let account = tlp.account;
                port.enqueue(self.now, tlp, account);
                added = true;
            }
        }
        if added {
            self.transmit(world, side);
        }
    }

    fn happen(&mut self, world: &mut impl World, side: usize, next: Next) {
        let now = self.now;
        match next {
            Next::Arrive => self.arrive(world, side),
            Next::Drain => {
                let s = &mut self.sides[side];
                if let Some((_, tc, class, data)) = s.drains.pop_front() {
                    s.port.return_credits(now, tc, class, data);
                }
            }
            Next::Timer => self.sides[side].port.handle_timeout(now),
            Next::Transmit => assert!(self.transmit(world, side), "promised, but not sent"),
        }
    }

    fn arrive(&mut self, world: &mut impl World, side: usize) {
        let now = self.now;
        let s = &mut self.sides[side];
        let Some((_, frame, damage)) = s.inbound.pop_front() else { return };
        if !s.port.handle_damaged(now, frame.as_ref(), &damage) {
            return;
        }
        let Some(tlp) = frame.tlp() else { return };
        let (tc, class, data) = (tlp.repr.tc, tlp.class(), tlp.data_credits());
        // Buffers drain in order, independent of the requested times.
        let earliest = s.drains.back().map_or(now, |d| d.0);
        let at = (now + world.drain(side)).max(earliest);
        if at == now {
            s.port.return_credits(now, tc, class, data);
        } else {
            s.drains.push_back((at, tc, class, data));
        }
        world.delivered(side, now, tlp);
    }

    fn transmit(&mut self, world: &mut impl World, side: usize) -> bool {
        let now = self.now;
        let s = &mut self.sides[side];
        let Some(sent) = s.port.poll_transmit(now) else { return false };
        assert!(sent.start >= now && sent.end > sent.start);
        assert_eq!(sent.wait.is_some(), s.port.counters().tlps > s.tlps, "first transmissions");
        s.tlps = s.port.counters().tlps;
        if let Some(wait) = sent.wait {
            assert!(wait.queued_at + wait.credit_wait <= sent.start, "{wait:?}, {}", sent.start);
            s.credit_wait += wait.credit_wait;
        }
        let nth = s.sent;
        s.sent += 1;
        let frame = s.port.lend(sent.frame).expect("a TLP that was just sent").cloned();
        let damage = match world.fate(side, nth, &frame) {
            Fate::Intact => Damage::none(),
            Fate::Damaged(damage) => damage,
            Fate::Lost => return true,
        };
        let at = sent.end + self.propagation;
        self.sides[1 - side].inbound.push_back((at, frame, damage));
        true
    }
}

/// A small random number generator with one seed (xorshift64*), for draws that proptest need not shrink.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

pub(crate) fn write(id: u16, requester: u16, len: u32, attr: Attributes) -> Tlp {
    memory(MemoryOp::Write, id, requester, len, attr)
}

pub(crate) fn memory(op: MemoryOp, id: u16, requester: u16, len: u32, attr: Attributes) -> Tlp {
    let span = Span::covering(0x1_0000_0000 + u64::from(id) * 4096, len).unwrap();
    let body = MemoryRequest { op, requester: Bdf::from_bits(requester), tag: Tag::from_bits(id), span };
    let data = if op == MemoryOp::Write { Data::Counted(len) } else { Data::NONE };
    tlp(Body::Memory(body), attr, data)
}

fn tlp(body: Body, attr: Attributes, data: Data) -> Tlp {
    Tlp::new(Repr { attr, ..Repr::new(body) }, data)
}

/// A TLP of any type that bears `id`, with data of up to `mps` bytes.
pub(crate) fn random_tlp(rng: &mut Rng, id: u16, mps: u32) -> Tlp {
    let attr = Attributes::from_bits_truncate(rng.below(8) as u8);
    let requester = 0x100 + rng.below(3) as u16;
    let len = 1 + rng.below(u64::from(mps)) as u32;
    let dw = len.div_ceil(4) as u16;
    let mut made = match rng.below(6) {
        0 | 1 => write(id, requester, len, attr),
        2 => memory(MemoryOp::Read, id, requester, len, attr),
        3 => completion(id, requester, dw, attr),
        4 => message(id, requester, dw, attr),
        _ => config(rng, id, requester, attr),
    };
    made.repr.td = rng.below(4) == 0;
    made
}

fn completion(id: u16, completer: u16, dw: u16, attr: Attributes) -> Tlp {
    let body = Completion {
        byte_count: dw * 4,
        length_dw: Some(dw),
        ..Completion::new(Bdf::from_bits(completer), Bdf::from_bits(id), Tag::default())
    };
    tlp(Body::Completion(body), attr, Data::Counted(u32::from(dw) * 4))
}

fn message(id: u16, requester: u16, dw: u16, attr: Attributes) -> Tlp {
    let [high, low] = id.to_be_bytes();
    let body = Message {
        routing: MessageRouting::Local,
        requester: Bdf::from_bits(requester),
        tag: Tag::default(),
        code: 0x7f,
        header: [high, low, 0, 0, 0, 0, 0, 0],
        length_dw: Some(dw),
    };
    tlp(Body::Message(body), attr, Data::Counted(u32::from(dw) * 4))
}

fn config(rng: &mut Rng, id: u16, requester: u16, attr: Attributes) -> Tlp {
    let op = if rng.below(2) == 0 { Access::Read } else { Access::Write };
    let body = ConfigRequest::new(op, Bdf::from_bits(requester), Tag::default(), Bdf::from_bits(id), 4);
    let data = if op == Access::Write { Data::Counted(4) } else { Data::NONE };
    tlp(Body::Config(body), attr, data)
}

/// The id that a TLP of this module carries.
pub(crate) fn id_of(tlp: &Tlp) -> u16 {
    match &tlp.repr.body {
        Body::Memory(m) => ((m.span.address() - 0x1_0000_0000) / 4096) as u16,
        Body::Completion(c) => c.requester.bits(),
        Body::Config(c) => c.completer.bits(),
        Body::Message(m) => u16::from_be_bytes([m.header[0], m.header[1]]),
        other => panic!("not made here: {other:?}"),
    }
}

/// Checks that classes of bytes and times add up.
pub(crate) fn assert_counters_add_up(port: &Port, config: &PortConfig) {
    let c = port.counters();
    assert_eq!(c.classified_bytes(), c.wire_bytes, "{c:?}");
    assert_eq!(c.dllp_bytes, c.dllps.total() * 8);
    let symbol = config.rate.symbol_time_ps();
    let den = u128::from(symbol.den) * u128::from(config.width.lanes());
    let busy = u128::from(c.wire_bytes) * u128::from(symbol.num) / den;
    assert!(busy.abs_diff(u128::from(c.busy_ps)) <= 1, "{busy} ps by bytes, {} by time", c.busy_ps);
}
