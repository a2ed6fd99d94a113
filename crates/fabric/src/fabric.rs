// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop, and what it moves between ports and their owners.

use crate::breakdown::Breakdown;
use crate::fault::{FaultRule, Faults};
use crate::host::HostSlot;
use crate::ledger::AccountTotals;
use crate::profile::HostProfile;
use crate::progress::{DRAIN_LIMIT, Limits, MAX_EVENTS_PER_INSTANT, STALL_LIMIT, Silence, Stop};
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::root::{RootComplex, RootCounters, RootPortConfig};
use crate::stages::{Stage, TransactionKind, TransactionTap};
use crate::tap::{Direction, Tap, TapRecord};
use crate::topology::{AddressMap, LinkConfig, LinkEvent, LinkId, PortId, Side};
use crate::wire::{InFlight, PortState};
use device::host::HostProgram;
use device::memory::HostMemory;
use device::{Ready, TlpPort};
use link::{Counters, Frame, Port, Sent, SentFrame};
use tlp::{Class, PayloadPool, TcSet, Time, Tlp};

/// What a fabric is made of. Link `n` joins root port `n` with slot `n`.
pub struct FabricConfig {
    /// Timing of the host.
    pub host: HostProfile,
    /// Host memory, shared with the host program.
    pub memory: HostMemory,
    /// Where the root complex takes its payload buffers from.
    pub payloads: PayloadPool,
    /// The links with what stands at their far ends.
    pub slots: Vec<(LinkConfig, Box<dyn TlpPort>)>,
    /// The program of the host, where it has one. It starts when all links are up.
    pub program: Option<Box<dyn HostProgram>>,
    /// Faults.
    pub faults: Vec<FaultRule>,
    /// Seed of all that is drawn.
    pub seed: u64,
}

/// Sums over a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunTotals {
    /// Events handled.
    pub events: u64,
    /// TLPs that have crossed a link: one TLP over one link is one hop; replays do not count again.
    pub tlp_hops: u64,
}

struct Slot {
    device: Box<dyn TlpPort>,
    timer_at: Time,
    /// A TLP of each class that the device has given though its virtual channel has no room.
    held: [Option<Tlp>; 3],
    /// The classes of those, bits by [`Class::index`].
    holds: u8,
}

impl Slot {
    /// The Traffic Classes of `class` that the device may be asked for, or that held one may go with.
    #[inline]
    fn room(&self, class: Class, port: &Port) -> TcSet {
        let room = port.room(class);
        if self.holds == 0 { room } else { self.room_beside_held(class, room, port) }
    }

    #[inline]
    fn holds(&self, class: Class) -> bool {
        self.holds & 1 << class.index() != 0
    }

    /// Keeps a TLP whose channel has no room.
    #[cold]
    fn hold(&mut self, class: Class, tlp: Tlp) {
        self.held[class.index()] = Some(tlp);
        self.holds |= 1 << class.index();
    }

    /// The part of `room` whose channels no posted TLP is held for: what was issued behind one may not pass it.
    #[cold]
    fn room_beside_held(&self, class: Class, room: TcSet, port: &Port) -> TcSet {
        match &self.held[Class::Posted.index()] {
            Some(held) if class != Class::Posted => room.and(port.channel_classes(held.repr.tc).complement()),
            _ => room,
        }
    }

    #[cold]
    fn next_held(&mut self, class: Class, room: TcSet) -> Option<Tlp> {
        let held = &mut self.held[class.index()];
        let tlp = held.take_if(|tlp| room.contains(tlp.repr.tc))?;
        self.holds &= !(1 << class.index());
        Some(tlp)
    }
}

/// A running fabric.
pub struct Fabric {
    /// The links come up with the first run, so that a tap sees their first frames.
    started: bool,
    now: Time,
    queue: SortedQueue,
    ports: Vec<PortState>,
    slots: Vec<Slot>,
    root: RootComplex,
    host: Option<HostSlot>,
    tap: Option<Box<dyn Tap>>,
    totals: RunTotals,
    last_progress: Time,
    silence: Silence,
    host_started: bool,
    /// How the host program has ended.
    outcome: Option<Result<(), String>>,
    /// When it did.
    ended_at: Time,
    /// Changes of links, scheduled or past.
    link_events: Vec<LinkEvent>,
    /// Root ports to pump; kept for its room.
    touched: Vec<usize>,
    /// Events handled at the time `now`.
    at_this_instant: u32,
}

impl Fabric {
    /// A fabric at time zero, its links about to come up.
    ///
    /// # Panics
    /// With more slots than [`AddressMap::MAX_ROOT_PORTS`]; whoever builds one checks that.
    #[must_use]
    pub fn new(config: FabricConfig) -> Fabric {
        assert!(config.slots.len() <= AddressMap::MAX_ROOT_PORTS, "more slots than root ports");
        let rcb = config.host.rcb;
        let root_port =
            |link: &LinkConfig| RootPortConfig { mps: link.root.mps, rcb: link.rcb.unwrap_or(rcb) };
        let root_ports: Vec<RootPortConfig> = config.slots.iter().map(|(link, _)| root_port(link)).collect();
        let mut ports = Vec::new();
        let mut slots = Vec::new();
        for (n, (link, device)) in config.slots.into_iter().enumerate() {
            let id = LinkId(n as u32);
            for (side, port) in [(Side::Root, &link.root), (Side::Device, &link.device)] {
                let faults = faults_into(&config.faults, id, side, link.bit_error_rate, config.seed);
                let port = Port::new(port.clone());
                ports.push(PortState::new(PortId::new(id, side), port, link.propagation, faults));
            }
            slots.push(Slot { device, timer_at: Time::MAX, held: [const { None }; 3], holds: 0 });
        }
        Fabric {
            started: false,
            now: Time::ZERO,
            queue: SortedQueue::default(),
            ports,
            slots,
            root: RootComplex::new(config.host, config.memory, config.payloads, &root_ports),
            host: config.program.map(HostSlot::new),
            tap: None,
            totals: RunTotals::default(),
            last_progress: Time::ZERO,
            silence: Silence::default(),
            host_started: false,
            outcome: None,
            ended_at: Time::ZERO,
            link_events: Vec::new(),
            touched: Vec::new(),
            at_this_instant: 0,
        }
    }

    /// Has a link change its rate or width while it runs.
    pub fn schedule(&mut self, event: LinkEvent) {
        self.queue.push(event.at.max(self.now), Event::LinkChange(self.link_events.len() as u32));
        self.link_events.push(event);
    }

    /// Lets `tap` see every frame from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// Takes the tap back.
    pub fn take_tap(&mut self) -> Option<Box<dyn Tap>> {
        self.tap.take()
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sums so far.
    #[must_use]
    pub fn totals(&self) -> RunTotals {
        self.totals
    }

    /// Counters of what `port` has sent, and of the errors it has received.
    #[must_use]
    pub fn port_counters(&self, port: PortId) -> &Counters {
        self.ports[port.index()].port.counters()
    }

    /// Counters of the root complex.
    #[must_use]
    pub fn root_counters(&self) -> &RootCounters {
        self.root.counters()
    }

    /// What the device in slot `n` has counted.
    #[must_use]
    pub fn slot_counts(&self, n: usize) -> Vec<(&'static str, u64)> {
        self.slots[n].device.counts()
    }

    /// Where the transactions of `kind` on link `n` that have ended have spent their time; `None` where there are none.
    #[must_use]
    pub fn breakdown(&self, n: u32, kind: TransactionKind) -> Option<&Breakdown> {
        self.root.ledger.breakdown(n as usize, kind)
    }

    /// Breakdowns begin anew: with the transactions that end from now on, whenever they began.
    pub fn clear_breakdowns(&mut self) {
        self.root.ledger.clear_breakdowns();
    }

    /// How many transactions there were, and what has become of them.
    #[must_use]
    pub fn account_totals(&self) -> AccountTotals {
        self.root.ledger.totals()
    }

    /// Lets `tap` see every transaction that ends from now on.
    pub fn set_transaction_tap(&mut self, tap: Box<dyn TransactionTap>) {
        self.root.ledger.set_tap(Some(tap));
    }

    /// Takes the tap of transactions back.
    pub fn take_transaction_tap(&mut self) -> Option<Box<dyn TransactionTap>> {
        self.root.ledger.set_tap(None)
    }

    /// Number of links.
    #[must_use]
    pub fn links(&self) -> usize {
        self.slots.len()
    }

    /// Runs until everything is done, nothing can go on, or a limit comes.
    pub fn run(&mut self, limits: Limits) -> Stop {
        let pause_at = self.totals.events.saturating_add(limits.events);
        if !self.started {
            self.start_links();
        }
        loop {
            if let Some(stop) = self.check_end() {
                return self.end(stop);
            }
            if self.totals.events >= pause_at {
                return Stop::Paused;
            }
            // Looked at before it is taken: put back, it would stand behind others of its time.
            if self.queue.next_time().is_some_and(|time| time > limits.until) {
                self.now = self.now.max(limits.until);
                return self.end(Stop::TimeLimit);
            }
            let Some((time, event)) = self.queue.pop() else {
                let stop = self.stalled();
                return self.end(stop);
            };
            if time > self.now {
                (self.now, self.at_this_instant) = (time, 0);
            }
            self.at_this_instant += 1;
            self.totals.events += 1;
            self.handle(event);
            if !self.host_started {
                self.try_start_host();
            }
        }
    }

    fn start_links(&mut self) {
        self.started = true;
        for n in 0..self.ports.len() {
            self.ports[n].port.start(Time::ZERO);
            self.pump(n);
        }
        // Links without flow control are up at once.
        self.try_start_host();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(port) => self.arrive(port),
            Event::Transmit(port) => {
                if self.ports[port.index()].transmit_due(self.now) {
                    self.pump(port.index());
                }
            }
            Event::PortTimer(port) => self.port_timer(port),
            Event::SlotTimer(slot) => self.slot_timer(slot as usize),
            Event::ReadReady(job) => {
                self.last_progress = self.now;
                let port = self.root.read_ready(job);
                self.pump_root(port);
            }
            Event::Drained(port) => {
                self.last_progress = self.now;
                self.root.drained(port as usize, self.now, &mut self.queue);
                self.pump_root(port as usize);
            }
            Event::RootPort(port) => {
                self.last_progress = self.now;
                self.pump_root(port as usize);
            }
            Event::RootTimer => {
                self.root.timeout(self.now, &mut self.queue);
                self.step_host();
            }
            Event::Host => self.step_host(),
            Event::LinkChange(n) => self.change_link(n as usize),
        }
    }

    /// The oldest frame on its way to `id` is there.
    fn arrive(&mut self, id: PortId) {
        let now = self.now;
        let ends = [id.index(), id.peer().index()];
        let Ok([state, sender]) = self.ports.get_disjoint_mut(ends) else { return };
        let Some(InFlight { frame, again, damage, dropped }) = state.inbound.pop_front() else { return };
        let tlp = again.as_deref().or_else(|| tlp_of(frame, &sender.port));
        if let Some(tap) = &mut self.tap
            && let Some(frame) = frame.whole(tlp)
        {
            let direction = Direction::of_sender(id.peer().side());
            tap.frame(&tap_record(now, id, direction, &frame, damage.is_some(), dropped));
        }
        if dropped {
            return;
        }
        let accepted = match damage {
            None => state.port.accepts_sent(now, frame, tlp),
            Some(damage) => frame.whole(tlp).is_some_and(|f| state.port.accepts_frame(now, &f, &damage)),
        };
        let Some(tlp) = tlp.filter(|_| accepted) else {
            // It is acknowledged, and comes to nothing. A duplicate may be of one that did not.
            if let Some(tlp) = tlp
                && state.port.poll_refused()
            {
                self.root.ledger.drop(tlp.account);
            }
            self.tell_retrain(id);
            return self.pump(id.index());
        };
        self.totals.tlp_hops += 1;
        self.last_progress = now;
        if again.is_some() {
            self.root.ledger.arrived_again(tlp.account, now);
        }
        // Handed to the owner of the port.
        let n = id.link().0 as usize;
        match id.side() {
            Side::Root => {
                self.root.handle_tlp(n, now, tlp, &mut self.queue);
                self.settle_root(n, id.index());
            }
            Side::Device => {
                if tlp.class() != Class::NonPosted {
                    self.root.ledger.close(tlp, Stage::Replay, now);
                }
                self.slots[n].device.handle_tlp(now, tlp.clone());
                self.pump(id.index());
            }
        }
    }

    /// Root port `n` has taken a TLP: a write that memory has taken leaves nothing but its credits.
    fn settle_root(&mut self, n: usize, index: usize) {
        if self.root.has_output(n) {
            self.pump(index);
        } else {
            self.return_root_credits(index, n);
            self.ports[index].arm(self.now, &mut self.queue);
        }
    }

    /// Where `id` has sent its link into retraining, the other end is silent as well.
    #[inline]
    fn tell_retrain(&mut self, id: PortId) {
        if let Some(until) = self.ports[id.index()].port.poll_retrain() {
            self.ports[id.peer().index()].port.hold(self.now, until);
            self.silence.note(self.now, until, self.last_progress);
        }
    }

    fn change_link(&mut self, n: usize) {
        let LinkEvent { link, rate, width, .. } = self.link_events[n];
        let ends = [Side::Root, Side::Device].map(|side| PortId::new(link, side).index());
        let [root, device] = ends.map(|n| self.ports[n].port.retrained_at(self.now));
        let until = root.max(device);
        self.silence.note(self.now, until, self.last_progress);
        for n in ends {
            self.ports[n].port.retrain(self.now, until, rate, width);
            self.pump(n);
        }
    }

    /// Returns credits of slot `n` and asks for its timer. Whenever a device is asked for output it may also take a
    /// request or set a timer, so this follows every such question.
    fn settle_slot(&mut self, n: usize, index: usize, ready: Ready) {
        let (slot, port) = (&mut self.slots[n], &mut self.ports[index].port);
        if ready.contains(Ready::TAKEN) {
            while let Some(credit) = slot.device.poll_credits() {
                port.return_credits(self.now, credit.tc, credit.class, credit.data_credits);
            }
        }
        let Some(at) = slot.device.poll_timeout() else { return };
        let at = at.max(self.now);
        if at < slot.timer_at {
            slot.timer_at = at;
            self.queue.push(at, Event::SlotTimer(n as u32));
        }
    }

    fn pump_root(&mut self, n: usize) {
        self.pump(PortId::new(LinkId(n as u32), Side::Root).index());
    }

    /// Fills the wire out of a port from its queues, and the queues from its owner. One frame makes the wire busy, so
    /// that a port sends one at most; the room that it leaves is filled at once.
    fn pump(&mut self, index: usize) {
        let sent = self.transmit(index);
        self.refill(index);
        if !sent && self.transmit(index) {
            self.refill(index);
        }
        self.ports[index].arm(self.now, &mut self.queue);
    }

    fn transmit(&mut self, index: usize) -> bool {
        let now = self.now;
        let id = self.ports[index].id;
        let Ok([state, peer]) = self.ports.get_disjoint_mut([index, id.peer().index()]) else { return false };
        let sent = state.port.poll_sent(now);
        let Some(Sent { frame, start, end, wait }) = &sent else { return false };
        // Read in the parts that were just written: read as a whole, they would be waited for.
        let (frame, tlp) = match frame {
            SentFrame::Tlp { sequence } => {
                (SentFrame::Tlp { sequence: *sequence }, state.port.unacknowledged(*sequence))
            }
            SentFrame::Dllp(dllp) => (SentFrame::Dllp(*dllp), None),
        };
        if let Some(tap) = &mut self.tap
            && let Some(frame) = frame.whole(tlp)
        {
            tap.frame(&tap_record(*end, id, Direction::of_sender(id.side()), &frame, false, false));
        }
        let arrival = *end + peer.propagation;
        if let (Some(tlp), Some(wait)) = (tlp, wait) {
            self.root.ledger.sent(tlp.account, *start, *end, arrival, wait.credit_wait);
        }
        let again = tlp.filter(|_| wait.is_none()).map(|tlp| Box::new(tlp.clone()));
        let (damage, dropped) = peer.judge(frame, tlp);
        peer.inbound.push_back(InFlight { frame, again, damage, dropped });
        self.queue.push(arrival, Event::Arrive(peer.id));
        true
    }

    fn refill(&mut self, index: usize) {
        let id = self.ports[index].id;
        let n = id.link().0 as usize;
        match id.side() {
            Side::Root => self.refill_root(index, n),
            Side::Device => self.refill_slot(index, n),
        }
    }

    fn refill_slot(&mut self, index: usize, n: usize) {
        let mut ready = self.slots[n].device.ready();
        for class in Class::ALL {
            while self.refill_from_slot(index, n, class, &mut ready) {}
        }
        self.settle_slot(n, index, ready);
    }

    /// Moves one TLP of `class` from the device in slot `n` to its port; false where there is none, or no room.
    #[inline]
    fn refill_from_slot(&mut self, index: usize, n: usize, class: Class, ready: &mut Ready) -> bool {
        let slot = &mut self.slots[n];
        let room = slot.room(class, &self.ports[index].port);
        if room.is_empty() {
            return false;
        }
        if slot.holds(class) {
            return self.refill_from_held(index, n, class, room);
        }
        if !ready.contains(Ready::output(class)) {
            return false;
        }
        let given = slot.device.poll_tlp(self.now, class, room);
        // What was accepted or refused may have let the device go on.
        *ready = slot.device.ready();
        // From here it moves once, into the port: each move of a TLP that was just written waits for its writes.
        let Some(tlp) = given else { return false };
        if !room.contains(tlp.repr.tc) {
            slot.hold(class, tlp);
            return false;
        }
        self.enqueue_from_slot(index, n, tlp);
        true
    }

    #[cold]
    fn refill_from_held(&mut self, index: usize, n: usize, class: Class, room: TcSet) -> bool {
        let Some(tlp) = self.slots[n].next_held(class, room) else { return false };
        self.enqueue_from_slot(index, n, tlp);
        true
    }

    #[inline]
    fn enqueue_from_slot(&mut self, index: usize, n: usize, tlp: Tlp) {
        let account = match tlp.class() {
            Class::Completion => self.root.ledger.answering(self.now, &tlp),
            Class::Posted | Class::NonPosted => self.root.ledger.open(self.now, n, Side::Device, &tlp),
        };
        self.ports[index].port.enqueue_for(self.now, tlp, account);
    }

    /// What one class gives up may let another go, and a read that leaves lets in one that waited with its credits; so
    /// it asks until none has anything; and then the host program, which may have waited for the room.
    fn refill_root(&mut self, index: usize, n: usize) {
        loop {
            self.return_root_credits(index, n);
            if !self.root.has_output(n) {
                return;
            }
            let mut moved = false;
            for class in Class::ALL {
                loop {
                    let room = self.ports[index].port.room(class);
                    if room.is_empty() {
                        break;
                    }
                    let Some(tlp) = self.root.poll_tlp(n, self.now, class, room, &mut self.queue) else {
                        break;
                    };
                    self.ports[index].port.enqueue(self.now, tlp);
                    moved = true;
                }
            }
            let stuck = self.host.as_ref().is_some_and(HostSlot::is_stuck);
            if moved && stuck {
                self.queue.push(self.now, Event::Host);
            }
            if !moved {
                return;
            }
        }
    }

    fn return_root_credits(&mut self, index: usize, n: usize) {
        while let Some(credit) = self.root.poll_credits(n) {
            self.ports[index].port.return_credits(self.now, credit.tc, credit.class, credit.data_credits);
        }
    }

    fn port_timer(&mut self, id: PortId) {
        let now = self.now;
        let state = &mut self.ports[id.index()];
        if state.timer_due(now) {
            state.port.handle_timeout(now);
            self.tell_retrain(id);
        }
        self.pump(id.index());
    }

    fn slot_timer(&mut self, n: usize) {
        let slot = &mut self.slots[n];
        if slot.timer_at == self.now {
            slot.timer_at = Time::MAX;
        }
        if slot.device.poll_timeout().is_some_and(|at| at <= self.now) {
            self.last_progress = self.now;
            slot.device.handle_timeout(self.now);
        }
        self.pump(PortId::new(LinkId(n as u32), Side::Device).index());
    }

    fn try_start_host(&mut self) {
        if self.ports.iter().all(|p| p.port.is_active()) {
            self.host_started = true;
            self.queue.push(self.now, Event::Host);
            for n in 0..self.ports.len() {
                self.pump(n);
            }
        }
    }

    fn step_host(&mut self) {
        if !self.host_started {
            return;
        }
        self.last_progress = self.now;
        let Some(host) = self.host.as_mut() else {
            // Nobody hears the interrupts.
            while self.root.poll_host_input(self.now).is_some() {}
            return;
        };
        let mut touched = std::mem::take(&mut self.touched);
        host.step(self.now, &mut self.root, &mut self.queue, &mut touched);
        if self.outcome.is_none() {
            self.outcome = host.outcome();
            self.ended_at = self.now;
        }
        for n in touched.drain(..) {
            self.pump_root(n);
        }
        self.touched = touched;
    }

    /// True where something other than the upkeep of the links is still to come.
    fn is_live(&self) -> bool {
        self.now.since(self.last_progress) < STALL_LIMIT + self.silence.since(self.last_progress)
            || self.slots.iter().any(|s| s.device.poll_timeout().is_some_and(|at| at < Time::MAX))
            || self.host_started && self.host.as_ref().is_some_and(|h| h.wakes_at().is_some())
            || self.root.is_waiting(self.now)
    }

    fn check_end(&self) -> Option<Stop> {
        match &self.outcome {
            Some(Err(why)) => Some(Stop::Failed(why.clone())),
            Some(Ok(())) => self.has_drained().then_some(Stop::Finished),
            None if self.now.since(self.last_progress) >= STALL_LIMIT && !self.is_live() => {
                Some(self.stalled())
            }
            None if self.at_this_instant >= MAX_EVENTS_PER_INSTANT => Some(self.standing_still()),
            None => None,
        }
    }

    /// True where nothing that the program left behind is on its way, or enough time was given to it.
    fn has_drained(&self) -> bool {
        let quiet = |state: &PortState| state.inbound.is_empty() && state.port.transmit_ready_at().is_none();
        self.now.since(self.ended_at) >= DRAIN_LIMIT || self.ports.iter().all(quiet)
    }

    /// Without anything to come: done, where no one waits.
    fn stalled(&self) -> Stop {
        let mut lines: Vec<String> = self.host.iter().filter_map(HostSlot::waits_for).collect();
        for (n, slot) in self.slots.iter().enumerate() {
            lines.extend(self.root.waits_for(n).map(|t| format!("root port {n}: {t}")));
            lines.extend(slot.device.waits_for().map(|t| format!("slot {n}: {t}")));
        }
        for state in &self.ports {
            let line = state.port.state_line();
            if line != "idle" {
                lines.push(format!("{}: {line}", state.id));
            }
        }
        if lines.is_empty() && self.host.is_none() { Stop::Finished } else { Stop::NoProgress(lines) }
    }

    /// Somebody wants to be called at once, whenever he was.
    fn standing_still(&self) -> Stop {
        let mut lines =
            vec![format!("time stands still at {}: {MAX_EVENTS_PER_INSTANT} events there", self.now)];
        for (n, slot) in self.slots.iter().enumerate() {
            if slot.device.poll_timeout().is_some_and(|at| at <= self.now) {
                let what = slot.device.waits_for().unwrap_or_default();
                lines.push(format!("slot {n}: wants to be called again at once: {what}"));
            }
        }
        if self.host.is_some() {
            lines.push("host program: hands on requests, or wants to be called, without waiting".into());
        }
        Stop::NoProgress(lines)
    }

    /// The counters of the ports are complete up to now; a run that has come to its time limit may go on.
    /// Brings the counters up to date: SKP ordered sets on idle wires are counted when asked for.
    fn end(&mut self, stop: Stop) -> Stop {
        for state in &mut self.ports {
            state.port.finish(self.now);
        }
        stop
    }
}

/// The TLP of a frame that `sender` has sent, where it is one and not acknowledged.
#[inline]
fn tlp_of(frame: SentFrame, sender: &Port) -> Option<&Tlp> {
    match frame {
        SentFrame::Tlp { sequence } => sender.unacknowledged(sequence),
        SentFrame::Dllp(_) => None,
    }
}

fn tap_record(
    time: Time,
    at: PortId,
    direction: Direction,
    frame: &Frame,
    damaged: bool,
    dropped: bool,
) -> TapRecord<'_> {
    TapRecord { time, link: at.link(), at: at.side(), direction, frame, damaged, dropped }
}

/// The faults of the direction into `side` of `link`, with a stream of draws of its own.
fn faults_into(rules: &[FaultRule], link: LinkId, side: Side, bit_error_rate: u64, seed: u64) -> Faults {
    let sender = PortId::new(link, side).peer().side();
    let direction = Direction::of_sender(sender);
    let own = rules.iter().filter(|r| r.link == link && r.direction == direction).cloned().collect();
    let stream = u64::from(link.0) * 2 + side as u64 + 1;
    Faults::new(own, bit_error_rate, seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
