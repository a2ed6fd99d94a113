// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits, flow-control initialization and transmit queues of a [`DataLink`](super::DataLink) (`PCIe 5.0 §2.6`, §3.4),
//! for those that have none. Without scaled flow control. Shares no code with riser's own link.

use crate::port::CreditReturn;
use link::PortConfig;
use std::collections::VecDeque;
use tlp::{Class, FlowControl, FlowControlKind, TcSet, TcVcMap, Tlp, TrafficClass, Vc};

/// Bits of HdrFC and DataFC.
const MASKS: [u16; 2] = [0xff, 0xfff];

/// One kind of credits: of headers or of data.
#[derive(Clone, Copy, Default)]
struct Credit {
    /// CREDIT_LIMIT; `None` if credits are infinite.
    limit: Option<u16>,
    /// CREDITS_CONSUMED.
    consumed: u16,
    /// CREDITS_ALLOCATED; `None` if credits are infinite.
    allocated: Option<u16>,
    /// CREDITS_RECEIVED.
    received: u16,
}

impl Credit {
    /// Returns whether `need` more may be sent.
    fn covers(self, need: u16, mask: u16) -> bool {
        let left = |limit: u16| limit.wrapping_sub(self.consumed).wrapping_sub(need) & mask;
        self.limit.is_none_or(|limit| left(limit) <= mask / 2)
    }

    /// Returns whether there is room for `need` more that have arrived.
    fn fits(self, need: u16, mask: u16) -> bool {
        let left = |allocated: u16| allocated.wrapping_sub(self.received).wrapping_sub(need) & mask;
        self.allocated.is_none_or(|allocated| left(allocated) <= mask / 2)
    }
}

/// A class of one channel.
#[derive(Clone, Default)]
struct Queue {
    tlps: VecDeque<Tlp>,
    /// Credits of headers and data.
    credits: [Credit; 2],
    /// An UpdateFC must be sent.
    update: bool,
}

/// The flow-control initialization of a channel.
#[derive(Clone, Copy, Default)]
struct Init {
    /// The InitFC that it sends; `None` before DL_Init, and once the channel is active.
    kind: Option<FlowControlKind>,
    /// Classes whose credits have arrived, and those whose InitFC must be sent, bits by [`Class::index`].
    known: u8,
    due: u8,
}

const ALL_CLASSES: u8 = 0b111;

/// The credits of both directions, and TLPs that wait for them.
///
/// If the data link layer leaves initialization to them, it calls [`start`](Self::start), [`handle`](Self::handle),
/// [`repeat`](Self::repeat) and [`poll_dllp`](Self::poll_dllp). If it has its own, it calls [`learn`](Self::learn),
/// [`activate`](Self::activate), [`repeat`](Self::repeat) and [`poll_dllp`](Self::poll_dllp).
pub struct Credits {
    map: TcVcMap,
    /// By [`Vc::index`] and [`Class::index`].
    queues: Vec<[Queue; 3]>,
    inits: [Init; Vc::COUNT],
    active: [bool; Vc::COUNT],
    /// Maximum number of TLPs in a queue.
    depth: usize,
    /// The channel that sends first.
    turn: usize,
}

/// Credits that a TLP takes: of headers and data.
fn needs(tlp: &Tlp) -> [u16; 2] {
    [1, tlp.data_credits() as u16]
}

impl Credits {
    /// Credits of a receiver that advertises those of `config`, as far as they fit without scaling.
    pub fn new(config: &PortConfig) -> Credits {
        let queue = |vc: Vc, class: usize| {
            let limit = config.buffer(vc)[class];
            let advertised = [limit.header.map(|n| n.min(127)), limit.data.map(|n| n.min(2047))];
            Queue {
                credits: advertised.map(|allocated| Credit { allocated, ..Credit::default() }),
                ..Queue::default()
            }
        };
        let queues = Vc::all().map(|vc| std::array::from_fn(|class| queue(vc, class))).collect();
        let (map, depth) = (config.tc_vc, config.tx_queue_tlps);
        Credits { map, queues, inits: Default::default(), active: [false; Vc::COUNT], depth, turn: 0 }
    }

    /// The channels in use.
    pub fn channels(&self) -> impl Iterator<Item = Vc> + use<> {
        let map = self.map;
        Vc::all().filter(move |vc| map.channels().any(|used| used == *vc))
    }

    /// The channel of a Traffic Class.
    pub fn channel(&self, tc: TrafficClass) -> Vc {
        self.map.vc(tc).unwrap_or_default()
    }

    /// A flow-control DLLP with the credits allocated so far: in InitFC, those advertised.
    pub fn report(&self, kind: FlowControlKind, vc: Vc, class: Class) -> FlowControl {
        let [header, data] = self.queues[vc.index()][class.index()].credits.map(|credit| credit.allocated);
        let [header, data] = [header.unwrap_or(0) & MASKS[0], data.unwrap_or(0) & MASKS[1]];
        FlowControl::new(kind, class, vc, header as u8, data)
    }

    /// Takes the credits that an InitFC advertises, or the limit of an UpdateFC.
    pub fn learn(&mut self, fc: &FlowControl) {
        let credits = &mut self.queues[fc.vc.index()][fc.class.index()].credits;
        for (credit, value) in credits.iter_mut().zip([u16::from(fc.header), fc.data]) {
            match fc.kind {
                FlowControlKind::UpdateFc => credit.limit = credit.limit.map(|_| value),
                _ => credit.limit = Some(value).filter(|value| *value != 0),
            }
        }
    }

    /// Begins the initialization of VC0. The other channels follow.
    pub fn start(&mut self) {
        self.start_channel(Vc::VC0);
    }

    fn start_channel(&mut self, vc: Vc) {
        let init = &mut self.inits[vc.index()];
        (init.kind, init.due) = (Some(FlowControlKind::InitFc1), ALL_CLASSES);
    }

    /// Handles a flow-control DLLP.
    pub fn handle(&mut self, fc: &FlowControl) {
        let (init, bit) = (&mut self.inits[fc.vc.index()], 1 << fc.class.index());
        let is_init = fc.kind != FlowControlKind::UpdateFc;
        if is_init && self.active[fc.vc.index()] {
            // The other end has missed all InitFC2s (`PCIe 5.0 §3.4.1`).
            self.queues[fc.vc.index()][fc.class.index()].update = true;
        } else if !is_init || init.known & bit == 0 {
            init.known |= if is_init { bit } else { 0 };
            self.learn(fc);
        }
        let init = &mut self.inits[fc.vc.index()];
        if init.known == ALL_CLASSES && init.kind == Some(FlowControlKind::InitFc1) {
            (init.kind, init.due) = (Some(FlowControlKind::InitFc2), ALL_CLASSES);
        }
        if fc.kind != FlowControlKind::InitFc1 {
            self.confirm(fc.vc);
        }
    }

    /// Returns whether TLPs may arrive: FC_INIT1 of VC0 is complete.
    pub fn takes_tlps(&self) -> bool {
        self.active[0] || self.inits[0].kind == Some(FlowControlKind::InitFc2)
    }

    /// The other end has all credits of a channel (flag FI2). The channel is active if it is in FC_INIT2.
    fn confirm(&mut self, vc: Vc) {
        let init = &mut self.inits[vc.index()];
        if init.kind != Some(FlowControlKind::InitFc2) {
            return;
        }
        (init.kind, init.due) = (None, 0);
        self.activate(vc);
        if vc == Vc::VC0 {
            self.channels().skip(1).for_each(|vc| self.start_channel(vc));
        }
    }

    /// The TLPs of a channel may flow.
    pub fn activate(&mut self, vc: Vc) {
        self.active[vc.index()] = true;
    }

    /// Returns whether the TLPs of a channel may flow.
    pub fn is_active(&self, vc: Vc) -> bool {
        self.active[vc.index()]
    }

    /// The Traffic Classes of `class` whose queues have room. While posted TLPs of a channel wait, no other TLP of the
    /// channel is taken: so none passes them.
    pub fn room(&self, class: Class) -> TcSet {
        let has_room = |vc: &Vc| {
            let [posted, ..] = &self.queues[vc.index()];
            let queue = &self.queues[vc.index()][class.index()];
            queue.tlps.len() < self.depth && (class == Class::Posted || posted.tlps.is_empty())
        };
        let open = self.channels().filter(has_room);
        open.fold(TcSet::NONE, |room, vc| room.or(self.map.classes(vc)))
    }

    /// Takes a TLP to send.
    pub fn push(&mut self, tlp: Tlp) {
        let vc = self.channel(tlp.repr.tc);
        self.queues[vc.index()][tlp.class().index()].tlps.push_back(tlp);
    }

    /// Returns the next TLP that has its credits. The channels take turns. Within a channel, completions and non-posted
    /// requests go first, since they are older than the posted TLPs.
    pub fn pop(&mut self) -> Option<Tlp> {
        let first = self.turn;
        let turns = (0..Vc::COUNT).map(|n| (first + n) % Vc::COUNT);
        let (vc, tlp) = turns.filter(|vc| self.active[*vc]).find_map(|vc| {
            let order = [Class::Completion, Class::NonPosted, Class::Posted];
            let mut queues = order.into_iter().map(Class::index);
            Some((vc, queues.find_map(|class| self.queues[vc][class].pop())?))
        })?;
        self.turn = vc + 1;
        Some(tlp)
    }

    /// Counts a TLP that has arrived; returns whether it had its credits.
    pub fn receive(&mut self, tlp: &Tlp) -> bool {
        let vc = self.channel(tlp.repr.tc);
        self.confirm(vc);
        let queue = &mut self.queues[vc.index()][tlp.class().index()];
        let needs = needs(tlp);
        let mut parts = queue.credits.iter().zip(needs).zip(MASKS);
        let fits = parts.all(|((credit, need), mask)| credit.fits(need, mask));
        for (credit, need) in queue.credits.iter_mut().zip(needs).filter(|_| fits) {
            credit.received = credit.received.wrapping_add(need);
        }
        fits
    }

    /// Takes credits back, to be reported to the other end.
    pub fn free(&mut self, credit: CreditReturn) {
        let vc = self.channel(credit.tc);
        let queue = &mut self.queues[vc.index()][credit.class.index()];
        for (part, freed) in queue.credits.iter_mut().zip([1, credit.data_credits as u16]) {
            part.allocated = part.allocated.map(|allocated| allocated.wrapping_add(freed));
        }
        queue.update = queue.credits.iter().any(|credit| credit.allocated.is_some());
    }

    /// Requests each InitFC again, and each UpdateFC of active channels, in case one was lost. Infinite credits need no
    /// UpdateFC (`PCIe 5.0 §2.6.1.2`).
    pub fn repeat(&mut self) {
        for ((init, queues), is_active) in self.inits.iter_mut().zip(&mut self.queues).zip(self.active) {
            if init.kind.is_some() {
                init.due = ALL_CLASSES;
            }
            for queue in queues.iter_mut().filter(|_| is_active) {
                queue.update |= queue.credits.iter().any(|credit| credit.allocated.is_some());
            }
        }
    }

    /// Returns the next InitFC or UpdateFC to send.
    pub fn poll_dllp(&mut self) -> Option<FlowControl> {
        for vc in Vc::all() {
            let init = &mut self.inits[vc.index()];
            if let (Some(kind), Some(class)) = (init.kind, Class::ALL.get(init.due.trailing_zeros() as usize))
            {
                init.due &= init.due - 1;
                return Some(self.report(kind, vc, *class));
            }
            for class in Class::ALL.into_iter().filter(|_| self.active[vc.index()]) {
                if std::mem::take(&mut self.queues[vc.index()][class.index()].update) {
                    return Some(self.report(FlowControlKind::UpdateFc, vc, class));
                }
            }
        }
        None
    }

    /// Describes in one line which TLPs wait for credits, if any.
    pub fn waits_for(&self) -> Option<String> {
        let waiting: usize = self.queues.iter().flatten().map(|queue| queue.tlps.len()).sum();
        (waiting != 0).then(|| format!("data link layer: {waiting} TLPs wait for credits"))
    }
}

impl Queue {
    /// The next TLP if it has its credits.
    fn pop(&mut self) -> Option<Tlp> {
        let needs = needs(self.tlps.front()?);
        let mut parts = self.credits.iter().zip(needs).zip(MASKS);
        if !parts.all(|((credit, need), mask)| credit.covers(need, mask)) {
            return None;
        }
        for (credit, need) in self.credits.iter_mut().zip(needs) {
            credit.consumed = credit.consumed.wrapping_add(need);
        }
        self.tlps.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::CreditLimit;
    use tlp::{Bdf, Body, Data, MemoryOp, MemoryRequest, Mps, Rate, Repr, Span, Tag, Width};

    fn tlp(op: MemoryOp, len: u32) -> Tlp {
        let span = Span::covering(0x1000, len).unwrap();
        let body = Body::Memory(MemoryRequest { op, requester: Bdf::default(), tag: Tag::default(), span });
        let data = if op == MemoryOp::Write { Data::Counted(len) } else { Data::NONE };
        Tlp::new(Repr::new(body), data)
    }

    fn config() -> PortConfig {
        let mps = Mps::new(256).unwrap();
        let mut config = PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), mps);
        config.rx_buffer[0] = CreditLimit::finite(2, 16);
        config
    }

    /// Both counters wrap many times; exactly the advertised credits may be in use.
    #[test]
    fn sender_and_receiver_agree() {
        let (mut sender, mut receiver) = (Credits::new(&config()), Credits::new(&config()));
        let (p, vc) = (Class::Posted, Vc::VC0);
        sender.learn(&receiver.report(FlowControlKind::InitFc1, vc, p));
        assert!(sender.pop().is_none());
        sender.activate(vc);
        receiver.activate(vc);
        for _ in 0..3000 {
            assert!(sender.room(p).contains(TrafficClass::default()));
            // Two headers and 16 units of data.
            for len in [128, 128, 16] {
                sender.push(tlp(MemoryOp::Write, len));
            }
            let sent: Vec<Tlp> = std::iter::from_fn(|| sender.pop()).collect();
            assert_eq!(sent.len(), 2);
            for tlp in &sent {
                assert!(receiver.receive(tlp));
            }
            assert!(!receiver.receive(&sent[0]), "no credits are left");
            for tlp in &sent {
                receiver.free(CreditReturn::of(tlp));
            }
            while let Some(fc) = receiver.poll_dllp() {
                sender.learn(&fc);
            }
            let last = sender.pop().unwrap();
            assert!(receiver.receive(&last));
            receiver.free(CreditReturn::of(&last));
            sender.learn(&receiver.poll_dllp().unwrap());
        }
    }

    /// A posted TLP without credits stops those after it. Older ones go.
    #[test]
    fn no_tlp_passes_a_posted_tlp() {
        let mut sender = Credits::new(&config());
        sender.activate(Vc::VC0);
        let fc = |class, header| FlowControl::new(FlowControlKind::InitFc1, class, Vc::VC0, header, 1);
        sender.learn(&fc(Class::Posted, 1));
        sender.learn(&fc(Class::NonPosted, 9));
        sender.push(tlp(MemoryOp::Read, 4));
        sender.push(tlp(MemoryOp::Write, 64));
        assert!(sender.room(Class::NonPosted).is_empty() && !sender.room(Class::Posted).is_empty());
        assert_eq!(sender.pop().unwrap().class(), Class::NonPosted);
        assert!(sender.pop().is_none());
        assert!(sender.waits_for().is_some());
        sender.learn(&FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::VC0, 5, 4));
        assert_eq!(sender.pop().unwrap().class(), Class::Posted);
        assert!(!sender.room(Class::NonPosted).is_empty());
    }

    /// Two ends on two channels, of which the first InitFC2s of one are lost.
    #[test]
    fn channels_are_initialized_one_after_the_other() {
        let mut config = config();
        config.tc_vc = TcVcMap::one_to_one();
        let mut ends = [Credits::new(&config), Credits::new(&config)];
        ends.iter_mut().for_each(Credits::start);
        let mut lost = 3;
        for step in 0..200 {
            let [here, there] = &mut ends;
            let (from, to) = if step % 2 == 0 { (here, there) } else { (there, here) };
            match from.poll_dllp() {
                Some(fc) if fc.kind == FlowControlKind::InitFc2 && lost > 0 => lost -= 1,
                Some(fc) => to.handle(&fc),
                None => from.repeat(),
            }
        }
        assert!(lost == 0 && ends.iter().all(|end| end.channels().count() == 8));
        assert!(ends.iter().all(|end| end.channels().all(|vc| end.is_active(vc))));
    }

    #[test]
    fn infinite_credits_never_end_and_need_no_update() {
        let mut sender = Credits::new(&config());
        sender.activate(Vc::VC0);
        let fc = sender.report(FlowControlKind::InitFc1, Vc::VC0, Class::Completion);
        assert_eq!((fc.header, fc.data), (0, 0));
        sender.repeat();
        let updates: Vec<Class> = std::iter::from_fn(|| sender.poll_dllp()).map(|fc| fc.class).collect();
        assert_eq!(updates, [Class::Posted, Class::NonPosted]);
    }
}
