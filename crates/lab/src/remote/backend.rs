// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as what stands behind a NetTLP adapter: wall time is the master, the fabric advances to it, and every input is
//! noted with its virtual time. Reads no clock itself: whoever drives it says what time it is.

use super::bridge::Fate;
use super::egress::Next;
use super::record::{Event, RecordedLab, Recorder};
use super::slot::AdapterSlot;
use crate::build::Assembly;
use fabric::{Limits, Stop};
use nettlp::adapter::{Backend, Full, Outbox, Received, Way};
use nettlp::carrier::SendError;
use nettlp::completer::Incoming;
use nettlp::wire::messaging::{Reply, Request};
use std::io;
use tlp::{Body, Duration, Mps, Repr, Time, Tlp};

/// After an input the fabric is asked again at once for so long: it and the host's programs answer by then, or later
/// within [`TICK`].
const LIVELY: Duration = Duration::from_us(50);
/// How often the fabric advances while nothing comes in and its links do more than tell credits.
const TICK: Duration = Duration::from_ms(1);
/// How often at least it advances while they do nothing else: what happens then shows nowhere before it is looked for.
const QUIET: Duration = Duration::from_ms(20);
/// Events that the first input behind a quiet time may have to wait for, some 0.1 us each.
const QUIET_EVENTS: u64 = 1000;
/// With timing off: how far the fabric runs before it is looked at again for what leaves.
const STEP: Duration = Duration::from_ns(500);
/// With timing off: how long, in virtual time, an input may keep its peer waiting.
const PATIENCE: Duration = Duration::from_ms(20);
/// How long what cannot be sent is kept.
const KEPT: Duration = Duration::from_ms(1000);
/// From the question of device software to the start of the driver: it opens its sockets meanwhile.
const ARRIVAL: Duration = Duration::from_ms(200);

/// Whether the fabric's time is that of the wall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// What leaves, leaves when the wall clock has come to its virtual time.
    On,
    /// The fabric runs each input to its end at once, ahead of the wall clock.
    Off,
}

/// A lab with an adapter, and nothing that knows where its inputs come from.
pub(crate) struct Core {
    pub(crate) assembly: Assembly,
    pub(crate) slot: AdapterSlot,
    /// Its number.
    number: usize,
}

impl Core {
    /// # Errors
    /// Where the lab has no adapter.
    pub(crate) fn new(assembly: Assembly) -> Result<Core, String> {
        let (number, slot) = assembly.find_report::<AdapterSlot>().ok_or(
            "no slot of the lab has a `nettlp-adapter`: one with `device = \"nettlp-adapter\"` is needed",
        )?;
        let slot = slot.get().clone();
        Ok(Core { assembly, slot, number })
    }

    pub(crate) fn now(&self) -> Time {
        self.assembly.fabric.now()
    }

    /// Runs the fabric until `time`, where that lies ahead.
    ///
    /// # Errors
    /// Where the host program has failed, or time stands still.
    pub(crate) fn run_until(&mut self, time: Time) -> Result<(), String> {
        let limits = Limits { until: time, open_ended: true, ..Limits::default() };
        match self.assembly.fabric.run(limits) {
            Stop::TimeLimit | Stop::Paused | Stop::Finished => Ok(()),
            stop @ (Stop::Failed(_) | Stop::NoProgress(_)) => Err(stop.to_string()),
        }
    }

    /// Does what an input asks for, now.
    pub(crate) fn apply(&mut self, event: &Event) {
        let now = self.now();
        let bridge = &self.slot.bridge;
        match event {
            Event::Tlp { way, tlp } => {
                let mut scratch = [0; 4];
                let Ok(incoming) = Incoming::parse(tlp, &mut scratch) else { return };
                let Incoming { repr, prefixes, data, rest, .. } = &incoming;
                let behind_bytes = rest.map_or(0, |(span, _)| span.byte_count());
                let received = Received { way: *way, repr, prefixes, data, behind_bytes };
                bridge.borrow_mut().take_from_peer(now, &received);
            }
            Event::Config { register_dw, byte_enables, value } => {
                self.slot.config_write(now, *register_dw, *byte_enables, *value);
            }
            Event::Register { register_dw, value } => {
                return bridge.borrow_mut().registers.write(*register_dw, *value);
            }
            Event::Taken { index, fate } => {
                if !bridge.borrow_mut().take_egress(now, *index as usize, *fate) {
                    return;
                }
            }
            Event::Arrival => return self.slot.arrivals.set(self.slot.arrivals.get() + 1),
            Event::End => return,
        }
        self.assembly.fabric.wake_slot(self.number);
    }
}

/// A lab behind an adapter.
pub struct LabBackend {
    core: Core,
    timing: Timing,
    recorder: Option<Recorder>,
    /// Virtual time until which it is to be asked again at once.
    lively_until: Time,
    /// When device software that has asked counts as come.
    arrival: Option<Time>,
    failed: Option<String>,
    /// How long quiet fabrics are left alone: as long as there are no more than [`QUIET_EVENTS`] in it.
    nap: Duration,
    /// For the bytes of TLPs that are noted.
    scratch: Vec<u8>,
    blocked: Vec<Way>,
}

impl LabBackend {
    /// The lab of `assembly`, which has not run yet.
    ///
    /// # Errors
    /// Where no slot has an adapter.
    pub fn new(assembly: Assembly, timing: Timing) -> Result<LabBackend, String> {
        Ok(LabBackend {
            core: Core::new(assembly)?,
            timing,
            recorder: None,
            lively_until: Time::ZERO,
            arrival: None,
            failed: None,
            nap: TICK,
            scratch: Vec::new(),
            blocked: Vec::new(),
        })
    }

    /// Notes every input in `out` from now on: to be called before the first.
    pub fn record(&mut self, out: Box<dyn io::Write>, lab: &RecordedLab) {
        self.recorder = Some(Recorder::new(out, lab));
    }

    /// Completions to peers have up to `mps` bytes, whatever the Max_Payload_Size of the slot's path: no link is between.
    pub fn answer_in(&mut self, mps: Mps) {
        self.core.slot.bridge.borrow_mut().mps = mps;
    }

    /// The slot of the adapter.
    #[must_use]
    pub fn slot(&self) -> &AdapterSlot {
        &self.core.slot
    }

    /// The lab.
    #[must_use]
    pub fn assembly(&self) -> &Assembly {
        &self.core.assembly
    }

    /// The same, to put taps in before it runs.
    pub fn assembly_mut(&mut self) -> &mut Assembly {
        &mut self.core.assembly
    }

    /// Why the host's programs have ended, where they have failed: nothing goes on then.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// How the host's programs have ended; `None` while they run.
    #[must_use]
    pub fn host_outcome(&self) -> Option<&Result<(), String>> {
        self.core.assembly.fabric.host_outcome()
    }

    /// Runs to `now` once more, and ends the record; nothing more may come in.
    ///
    /// # Errors
    /// Those of the record.
    pub fn finish(&mut self, now: Time) -> io::Result<()> {
        self.run_until(now);
        let end = self.core.now();
        self.recorder.take().map_or(Ok(()), |recorder| recorder.finish(end))
    }

    fn run_until(&mut self, time: Time) {
        if time > self.core.now()
            && self.failed.is_none()
            && let Err(why) = self.core.run_until(time)
        {
            self.failed = Some(why);
        }
    }

    /// When something is to be done though nothing comes in. Links that only tell credits are left alone for a nap: the fabric
    /// makes up for it then, or when something comes in, event by event as ever.
    fn tick(&self) -> Time {
        let now = self.core.now();
        let sent = self.core.slot.bridge.borrow().next_egress(0).is_none();
        match self.core.assembly.fabric.quiet_until().filter(|_| sent) {
            Some(at) => at.min(now + self.nap),
            None => now + TICK,
        }
    }

    /// Runs to `now`, and learns from that how many events there are in a quiet time.
    fn run_and_learn(&mut self, now: Time) {
        let (from, before) = (self.core.now(), self.core.assembly.fabric.totals().events);
        self.run_until(now);
        let (passed, events) =
            (self.core.now().since(from), self.core.assembly.fabric.totals().events - before);
        if passed >= TICK {
            let nap = passed.as_ps() / events.max(1) * QUIET_EVENTS;
            self.nap = Duration::from_ps(nap).clamp(TICK, QUIET);
        }
    }

    fn input(&mut self, event: &Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(self.core.now(), event);
        }
        self.core.apply(event);
        self.lively_until = self.core.now() + LIVELY;
    }

    fn note_tlp(&mut self, tlp: &Received<'_>) {
        let repr = Repr { td: false, ..*tlp.repr };
        let (prefixes, header) = (tlp.prefixes.wire_len(), repr.header_len());
        self.scratch.clear();
        self.scratch.resize(prefixes + header, 0);
        let (front, rest) = self.scratch.split_at_mut(prefixes);
        for (out, prefix) in front.chunks_exact_mut(4).zip(tlp.prefixes.as_slice()) {
            out.copy_from_slice(&prefix.0.to_be_bytes());
        }
        repr.emit(rest);
        if tlp.behind_bytes > 0 {
            Incoming::join_at_4k(rest, tlp.behind_bytes);
        }
        self.scratch.extend_from_slice(tlp.data);
        let event = Event::Tlp { way: tlp.way, tlp: std::mem::take(&mut self.scratch) };
        self.input(&event);
        if let Event::Tlp { tlp, .. } = event {
            self.scratch = tlp;
        }
    }

    /// Requests of peers that the fabric has not answered yet.
    fn waits_for_fabric(&self) -> bool {
        self.core.slot.bridge.borrow().waits_for_fabric()
    }

    /// Runs what has come in to its end, ahead of the wall clock.
    fn settle(&mut self, out: &mut dyn Outbox) {
        let limit = self.core.now() + PATIENCE;
        while self.waits_for_fabric() && self.core.now() < limit && self.failed.is_none() {
            self.run_until(self.core.now() + STEP);
            self.drain(out);
        }
        // What is posted takes its way, and what the host's programs make of it.
        if self.core.now() < self.lively_until {
            self.run_until(self.core.now() + STEP + STEP);
        }
    }

    /// Sends what there is room for. What one peer cannot take holds up no other.
    fn drain(&mut self, out: &mut dyn Outbox) {
        let mut index = 0;
        self.core.slot.follow_rcb();
        self.blocked.clear();
        loop {
            let next = self.core.slot.bridge.borrow().next_egress(index);
            let sent = match next {
                None => return,
                Some(Next::To(way, tlp)) => self.send(out, index, Some(way), &tlp),
                Some(Next::ToDevice(tag, tlp)) => {
                    let way = out.device(tag);
                    self.send(out, index, way, &tlp)
                }
            };
            match sent {
                Sent::Part => {}
                Sent::Not => index += 1,
                Sent::Whole(fate) => self.input(&Event::Taken { index: index as u32, fate }),
            }
        }
    }

    fn send(&mut self, out: &mut dyn Outbox, index: usize, way: Option<Way>, tlp: &Tlp) -> Sent {
        let Some(way) = way else { return Sent::Whole(Fate::Nobody) };
        if self.blocked.contains(&way) {
            return self.not_sent(index);
        }
        let result = out.send(way, tlp.wire_len(), &mut |bytes| _ = tlp.emit(bytes));
        let mut bridge = self.core.slot.bridge.borrow_mut();
        match result {
            Ok(()) if bridge.egress_sent(index) => Sent::Whole(Fate::Left),
            Ok(()) => Sent::Part,
            Err(SendError::NoRoom) => {
                drop(bridge);
                self.blocked.push(way);
                self.not_sent(index)
            }
            Err(SendError::TooLong { .. } | SendError::Tag(_)) => Sent::Whole(Fate::Lost),
        }
    }

    fn not_sent(&self, index: usize) -> Sent {
        let since = self.core.slot.bridge.borrow().egress.since(index).unwrap_or_default();
        if self.core.now().since(since) > KEPT { Sent::Whole(Fate::Lost) } else { Sent::Not }
    }

    fn arrive(&mut self, now: Time) {
        if self.arrival.is_some_and(|at| at <= now) {
            self.arrival = None;
            self.input(&Event::Arrival);
        }
    }
}

/// What became of an entry of the egress queue.
enum Sent {
    Whole(Fate),
    /// There is more of it.
    Part,
    Not,
}

impl Backend for LabBackend {
    fn is_ready(&self) -> bool {
        self.failed.is_none() && self.core.slot.bridge.borrow().has_room()
    }

    fn reads_across_4k(&self) -> bool {
        true
    }

    fn handle(&mut self, now: Time, tlp: &Received<'_>, out: &mut dyn Outbox) -> Result<(), Full> {
        if !self.core.slot.bridge.borrow().has_room() {
            return Err(Full);
        }
        if let Body::Completion(c) = &tlp.repr.body
            && out.device(c.tag) != Some(tlp.way)
        {
            self.core.slot.bridge.borrow_mut().counters.strays += 1;
            return Ok(());
        }
        self.run_until(now);
        self.note_tlp(tlp);
        Ok(())
    }

    fn advance(&mut self, now: Time, out: &mut dyn Outbox) {
        self.run_and_learn(now);
        self.arrive(now);
        self.drain(out);
        if self.timing == Timing::Off {
            self.settle(out);
            self.drain(out);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let now = self.core.now();
        if self.failed.is_some() {
            return None;
        }
        let lively = now < self.lively_until || self.waits_for_fabric();
        let tick = if lively { now } else { self.tick() };
        Some(self.arrival.map_or(tick, |at| tick.min(at)))
    }

    fn message(&mut self, now: Time, request: Request) -> Option<Reply> {
        if !self.core.slot.is_enabled() {
            return None;
        }
        if request != Request::DeviceId && self.arrival.is_none() && !self.core.slot.starts_alone {
            self.arrival = Some(now + ARRIVAL);
        }
        let slot = &self.core.slot;
        Some(match request {
            Request::Bar4Start => Reply::Bar4Start(slot.bar_address()),
            Request::DeviceId => Reply::DeviceId(slot.id()),
            Request::MsixTable => Reply::MsixTable(slot.msix_table()),
        })
    }

    fn config_read(&mut self, now: Time, register_dw: u16) -> u32 {
        self.run_until(now);
        self.core.slot.config_read(register_dw)
    }

    fn config_write(&mut self, now: Time, register_dw: u16, byte_enables: u8, value: u32) {
        self.run_until(now);
        self.input(&Event::Config { register_dw, byte_enables, value });
    }

    fn register_read(&mut self, register_dw: u8) -> u32 {
        self.core.slot.bridge.borrow().registers.read(register_dw)
    }

    fn register_write(&mut self, register_dw: u8, value: u32) {
        self.input(&Event::Register { register_dw, value });
    }
}
