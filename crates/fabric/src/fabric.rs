// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop, which moves frames and TLPs between ports and their owners. [`arrive`] moves frames from the wires
//! to owners, and [`pump`] moves TLPs from [`owners`] onto the wires. A [`fast`] path does both if no rare feature is
//! in use. [`build`] puts a fabric together, [`hosts`] drive it, [`links`] go up and down, [`frames`] serves slots whose
//! data link layers are not riser's, [`designs`] root complexes and switches that are not, [`ends`] determines when a run is over, [`quiet`] skips time in which nothing happens.

mod arrive;
mod build;
mod designs;
mod ends;
mod fast;
mod frames;
mod hosts;
mod links;
mod owners;
mod pump;
mod quiet;

pub use build::{
    Above, FabricConfig, HostConfig, LinkName, MAX_HOSTS, SlotConfig, SwitchEnd, SwitchSlot, TopologyError,
};
pub use designs::RootDesign;
pub use ends::PlacedRefusal;
pub use hosts::NoHost;

use crate::breakdown::Breakdown;
use crate::bridge::Action;
use crate::flow::Flow;
use crate::ledger::{AccountTotals, Ledger};
use crate::progress::{Limits, Silence, Stop};
use crate::queue::{Event, SortedQueue};
use crate::root::RootComplex;
use crate::stages::{TransactionKind, TransactionTap};
use crate::switch::Switch;
use crate::tap::{Direction, Tap, TapRecord};
use crate::timer::TimerEvents;
use crate::topology::{HostId, LinkEvent, PortId, Side};
use crate::wire::{Odd, PortState};
use designs::{Design, DesignedSwitch};
use endpoint::{LinkCredits, TlpPort};
use frames::FrameEnd;
use hosts::Hosts;
use link::{Counters, Frame, Port, Rare};
use std::collections::VecDeque;
use tlp::{Class, Duration, TcSet, Time, Tlp};

/// Maximum time by which a device runs ahead, so that a lab without progress is still checked.
const MOST_AHEAD: Duration = Duration::from_us(30);

/// Sums over a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunTotals {
    /// Events handled or passed over.
    pub events: u64,
    /// Events skipped while links only refreshed credits; their effect was computed.
    pub passed_over: u64,
    /// TLPs that have crossed a link. One TLP over one link is one hop, and a replay does not count again.
    pub tlp_hops: u64,
}

struct FabricSlot {
    /// Index of the slot's port.
    port: usize,
    device: Box<dyn TlpPort>,
    /// Whether the device has a free-running clock, and may run ahead.
    is_clocked: bool,
    /// Whether the device has its own data link layer.
    has_frames: bool,
    /// Whether the device displays the credits of its link.
    shows_credits: bool,
    timer: TimerEvents,
    /// One TLP per class that the device has handed over but whose virtual channel has no room.
    held: [Option<Tlp>; 3],
    /// The classes of the held TLPs, bits by [`Class::index`].
    holds: u8,
    /// Whether its link leads to a root port, at which most writes end.
    is_below_root: bool,
}

impl FabricSlot {
    /// Returns whether the device will act by itself, other than at clock edges.
    fn is_to_act(&self) -> bool {
        self.device.poll_timeout().is_some_and(|at| at < Time::MAX) && !self.device.is_ticking()
    }

    /// Returns the Traffic Classes of `class` that may be polled from the device, or for which a held TLP may be sent.
    fn room(&self, class: Class, port: &Port) -> TcSet {
        let room = port.room(class);
        if self.holds == 0 { room } else { self.room_beside_held(class, room, port) }
    }

    fn holds(&self, class: Class) -> bool {
        self.holds & 1 << class.index() != 0
    }

    /// Stores a TLP whose channel has no room.
    #[cold]
    fn hold(&mut self, class: Class, tlp: Option<Tlp>) {
        self.held[class.index()] = tlp;
        self.holds |= 1 << class.index();
    }

    /// Returns the Traffic Classes of `room` whose channels have no held posted TLP. Later TLPs may not pass such a
    /// TLP.
    #[cold]
    fn room_beside_held(&self, class: Class, room: TcSet, port: &Port) -> TcSet {
        match &self.held[Class::Posted.index()] {
            Some(held) if class != Class::Posted => room.and(port.channel_classes(held.repr.tc).complement()),
            _ => room,
        }
    }

    /// Drops the TLPs that wait for room.
    #[cold]
    fn drop_held(&mut self) -> impl Iterator<Item = Tlp> {
        self.holds = 0;
        std::mem::take(&mut self.held).into_iter().flatten()
    }

    #[cold]
    fn next_held(&mut self, class: Class, room: TcSet) -> Option<Tlp> {
        let held = &mut self.held[class.index()];
        let tlp = held.take_if(|tlp| room.contains(tlp.repr.tc))?;
        self.holds &= !(1 << class.index());
        Some(tlp)
    }
}

/// A switch that riser models, and its place in the tree.
struct SwitchState {
    /// Its number among all switches.
    number: usize,
    switch: Switch,
    /// Indices of its ports, the upstream port first; `None` for downstream ports without a link.
    ports: Vec<Option<usize>>,
    timer: TimerEvents,
}

/// A running fabric.
pub struct Fabric {
    /// The links come up with the first run, so that a tap sees their first frames.
    started: bool,
    now: Time,
    queue: SortedQueue,
    ports: Vec<PortState>,
    /// The devices, then the root ports of [`designs`](Self::designs), then the ports of [`designed_switches`](Self::designed_switches).
    slots: Vec<FabricSlot>,
    /// Number of devices.
    devices: usize,
    /// Root complexes that are not riser's.
    designs: Vec<Design>,
    /// Switches that are not riser's.
    designed_switches: Vec<DesignedSwitch>,
    /// The ends of links whose data link layers are not riser's.
    frame_ends: Vec<FrameEnd>,
    /// Riser's switches.
    switches: Vec<SwitchState>,
    /// Reasons that keep each link down, by link.
    held: Vec<links::LinkDown>,
    /// At least one.
    hosts: Hosts,
    /// Requests of root complexes to links, each with the index of the root port's port.
    actions: VecDeque<(usize, Action)>,
    /// The accounts of where transactions spend their time.
    ledger: Ledger,
    tap: Option<Box<dyn Tap>>,
    totals: RunTotals,
    last_progress: Time,
    /// Time until which the fabric gets no input from outside.
    known_until: Time,
    silence: Silence,
    /// When to check again whether time may be passed over.
    look: quiet::Look,
    host_started: bool,
    /// Number of the next fault rule.
    next_fault: usize,
    /// End time of the last host program.
    ended_at: Time,
    /// The report of a TLP that can never get enough credits, which ends the run.
    never_sent: Option<String>,
    /// Whether such a TLP exists, or all host programs have ended.
    ends: bool,
    /// Changes of links, scheduled or past.
    link_events: Vec<LinkEvent>,
    /// By link.
    recoveries: Vec<links::Recovery>,
    /// Root ports to pump, kept to reuse the allocation.
    touched: Vec<usize>,
    /// Events handled at the time `now`.
    at_this_instant: u32,
    /// Names of slots, then of switches, for reports.
    names: Vec<String>,
}

impl Fabric {
    /// Sets the names of slots and switches, in order, for reports on waiting parts; without them reports use numbers.
    pub fn set_names(&mut self, slots: Vec<String>, switches: Vec<String>) {
        self.names = slots;
        self.names.resize(self.slots.len(), String::new());
        self.names.extend(switches);
    }

    /// Lets `tap` see every frame from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
        self.set_rare(Rare::TAPPED, true);
    }

    /// Takes the tap out.
    pub fn take_tap(&mut self) -> Option<Box<dyn Tap>> {
        self.set_rare(Rare::TAPPED, false);
        self.tap.take()
    }

    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sums of the run so far.
    pub fn totals(&self) -> RunTotals {
        self.totals
    }

    /// Counters of `port`: what it has sent, and errors that it has received.
    pub fn port_counters(&self, port: PortId) -> &Counters {
        self.ports[port.index()].port.counters()
    }

    /// Returns the data that `port` has sent, and the duration.
    pub fn flow(&self, port: PortId) -> Flow {
        self.ports[port.index()].flow
    }

    /// Counters of the device in slot `n`.
    pub fn slot_counts(&self, n: usize) -> Vec<(&'static str, u64)> {
        let mut counts = self.slots[n].device.counts();
        if let Some(end) = self.frame_end(self.slots[n].port) {
            counts.push(("unreadable_frames", end.unreadable()));
        }
        counts
    }

    /// Returns the time that finished transactions of `kind` on link `n` have spent in each stage; `None` if there are none.
    pub fn breakdown(&self, n: u32, kind: TransactionKind) -> Option<&Breakdown> {
        self.ledger.breakdown(n as usize, kind)
    }

    /// Restarts the breakdowns. They then count transactions that end from now on, including the ones that have begun
    /// already.
    pub fn clear_breakdowns(&mut self) {
        self.ledger.clear_breakdowns();
    }

    /// Sets whether accounts of transactions are kept; by default they are. Without accounts, transactions that begin
    /// from now on have no breakdowns and no totals, and a transaction tap does not see them. All else stays the same,
    /// and a hop costs less CPU time.
    pub fn keep_accounts(&mut self, keep: bool) {
        self.ledger.is_kept = keep;
    }

    /// Number of transactions, by outcome.
    pub fn account_totals(&self) -> AccountTotals {
        self.ledger.totals()
    }

    /// Lets `tap` see every transaction that ends from now on.
    pub fn set_transaction_tap(&mut self, tap: Box<dyn TransactionTap>) {
        self.ledger.set_tap(tap);
    }

    /// Returns whether a device has a free-running clock. Such a device needs much computation even when idle.
    pub fn is_clocked(&self) -> bool {
        self.slots.iter().any(|slot| slot.is_clocked)
    }

    /// Signals that the device in slot `n` got an input from outside the fabric. Calls the device now if it wants to be
    /// called ([`TlpPort::poll_timeout`]), and polls it for TLPs to send.
    pub fn wake_slot(&mut self, n: usize) {
        self.queue.push(self.now, Event::SlotTimer(n as u32));
    }

    /// Number of links.
    pub fn links(&self) -> usize {
        self.ports.len() / 2
    }

    /// Runs until everything is done, no progress is possible, or a limit is reached.
    pub fn run(&mut self, limits: Limits) -> Stop {
        let pause_at = self.totals.events.saturating_add(limits.events);
        // During a pause, an input from outside may arrive.
        let may_pause = limits.open_ended && limits.events < u64::MAX;
        self.known_until = if may_pause { Time::ZERO } else { limits.until };
        if !self.started {
            self.start_links();
        }
        loop {
            if let Some(stop) = self.check_end(&limits) {
                return self.end(stop);
            }
            if self.totals.events >= pause_at {
                return Stop::Paused;
            }
            let Some((time, event)) = self.queue.pop_until(limits.until) else {
                return self.stop_before_next(limits);
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

    /// Ends the run because no event is due by `limits.until`: stalled if the queue is empty and the run is not open-ended,
    /// otherwise at the time limit.
    #[cold]
    fn stop_before_next(&mut self, limits: Limits) -> Stop {
        if self.queue.is_empty() && !limits.open_ended {
            let stop = self.stalled();
            return self.end(stop);
        }
        if limits.until > self.now {
            (self.now, self.at_this_instant) = (limits.until, 0);
        }
        self.end(Stop::TimeLimit)
    }

    fn start_links(&mut self) {
        self.started = true;
        for n in 0..self.ports.len() {
            self.ports[n].port.start(Time::ZERO);
            self.pump(n);
        }
        self.await_settling();
        // Links without flow control are up at once.
        self.try_start_host();
    }

    // Inlined into the loop. A separate function would save, at each event, all registers that its largest arm needs.
    #[inline(always)]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(port) => self.arrive(port),
            Event::Head(port) => self.head_arrives(port),
            Event::Transmit(port) => {
                if self.ports[port.index()].transmit_due(self.now) {
                    self.pump_link(port.index());
                }
            }
            Event::PortTimer(port) => self.port_timer(port),
            Event::SlotTimer(slot) => self.slot_timer(slot as usize),
            Event::SwitchTimer(switch) => self.switch_timer(switch as usize),
            Event::ReadReady(job) => {
                self.progress_at_root(job.host(), |root, now| root.read_ready(job.number(), now));
            }
            Event::Drained(port) => self.progress_at_root(port.host(), |root, now| {
                root.drained(port.number() as usize, now);
                port.number() as usize
            }),
            Event::RootPort(port) => self.progress_at_root(port.host(), |_, _| port.number() as usize),
            Event::RootTimer(host) => {
                self.hosts[host].root.handle_timeout(self.now);
                self.apply_root_effects(host);
                self.step_host(host);
                self.apply_link_actions();
            }
            Event::Host(host) => self.step_host(host),
            Event::LinkChange(n) => self.change_link(n as usize),
            Event::LinkUp(link) => self.link_up(link),
            Event::Trained(link) => self.trained(link),
        }
    }

    /// Calls the root complex of `host`, which makes progress and returns the number of a root port. Then pumps that port.
    #[inline(always)]
    fn progress_at_root(&mut self, host: HostId, call: impl FnOnce(&mut RootComplex, Time) -> usize) {
        self.last_progress = self.now;
        let n = call(&mut self.hosts[host].root, self.now);
        self.apply_root_effects(host);
        self.pump_root(host, n);
    }

    fn port_timer(&mut self, id: PortId) {
        let now = self.now;
        let state = &mut self.ports[id.index()];
        if state.timer_due(now) {
            state.port.handle_timeout(now);
            self.tell_retrain(id);
        }
        self.pump_link(id.index());
    }

    fn slot_timer(&mut self, n: usize) {
        if self.slots[n].shows_credits {
            self.show_credits(n);
        }
        let slot = &mut self.slots[n];
        slot.timer.come(self.now);
        if slot.device.poll_timeout().is_some_and(|at| at <= self.now) {
            if !slot.device.is_ticking() {
                self.last_progress = self.now;
            }
            slot.device.handle_timeout(self.now);
        }
        let port = slot.port;
        if !slot.is_clocked && !slot.has_frames { self.pump(port) } else { self.pump_special(n, port) }
    }

    /// Pumps the port of a device with a clock, or with its own data link layer.
    fn pump_special(&mut self, n: usize, port: usize) {
        if self.slots[n].has_frames {
            self.offer_frames(port);
        }
        if self.slots[n].is_clocked {
            self.pump_ahead(n, port)
        } else {
            self.pump(port)
        }
        self.apply_link_actions();
    }

    /// Pumps the port of a device with a clock, which then runs ahead to the next event.
    fn pump_ahead(&mut self, n: usize, port: usize) {
        let slot = &mut self.slots[n];
        // The next edge of the design does not limit how far the design runs ahead.
        let timer = std::mem::replace(&mut slot.timer, TimerEvents::closed());
        self.pump(port);
        let slot = &mut self.slots[n];
        slot.timer = timer;
        if slot.shows_credits {
            self.show_credits(n);
        }
        let slot = &mut self.slots[n];
        let until = self.queue.next_time().min(self.known_until).min(self.now + MOST_AHEAD);
        if let Some(clock) = slot.device.clock() {
            clock.run_ahead(until);
        }
        self.arm_slot(n);
        self.arm_switch_of(n);
    }

    #[cold]
    fn show_credits(&mut self, n: usize) {
        let slot = &mut self.slots[n];
        let here = &self.ports[slot.port];
        let there = &self.ports[here.id.peer().index()];
        let [here, there] = [here, there].map(|end| end.port.unused_credits());
        if let Some(clock) = slot.device.clock() {
            clock.handle_credits(&LinkCredits { here, there });
        }
    }

    /// Requests the timer of a slot's device if it is earlier than the one requested.
    fn arm_slot(&mut self, n: usize) {
        self.arm_slot_at(n, self.slots[n].device.poll_timeout());
    }

    /// Like [`arm_slot`](Self::arm_slot), with the `timeout` that the device has just returned.
    fn arm_slot_at(&mut self, n: usize, timeout: Option<Time>) {
        if let Some(at) = timeout.map(|at| at.max(self.now))
            && self.slots[n].timer.request(at)
        {
            self.queue.push(at, Event::SlotTimer(n as u32));
        }
    }

    fn switch_timer(&mut self, n: usize) {
        let state = &mut self.switches[n];
        state.timer.come(self.now);
        if state.switch.poll_timeout().is_some_and(|at| at <= self.now) {
            self.last_progress = self.now;
            state.switch.handle_timeout(self.now);
        }
        self.pump_touched_ports(n);
    }

    fn try_start_host(&mut self) {
        let waits = |p: &PortState| {
            let link = p.id.link();
            (!p.port.is_active() || self.is_settling(link)) && self.is_awaited(link)
        };
        if !self.ports.iter().any(waits) {
            self.host_started = true;
            for n in 0..self.hosts.len() {
                self.queue.push(self.now, Event::Host(HostId(n as u32)));
            }
            for n in 0..self.ports.len() {
                self.pump(n);
            }
        }
    }
}

/// Shows a frame to a tap. Not inlined: taps are rare.
#[inline(never)]
fn show(tap: &mut dyn Tap, time: Time, from: PortId, at: Side, frame: Frame<&Tlp>, odd: Option<&Odd>) {
    if !tap.looks_at(at) {
        return;
    }
    let (link, direction) = (from.link(), Direction::of_sender(from.side()));
    let harm = odd.and_then(|odd| odd.harm.as_ref());
    let damaged = harm.is_some_and(|harm| harm.is_damage());
    let malformed = harm.and_then(|harm| harm.malformed());
    let dropped = odd.is_some_and(|odd| odd.dropped);
    tap.frame(&TapRecord { time, link, at, direction, frame, damaged, dropped, malformed });
}
