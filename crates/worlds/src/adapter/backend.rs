// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as the backend of a NetTLP adapter. The caller provides the clock.

use super::bridge::Delivery;
use super::egress::Next;
use super::input::Event;
use super::slot::AdapterSlot;
use host::DriverError;
use nettlp::adapter::{Backend, Full, Outbox, PeerPath, Received};
use nettlp::carrier::SendError;
use nettlp::dropped::Drops;
use nettlp::wire::messaging::{Question, Reply, Request};
use session::Session;
use session::external::{Clock, Driver, Handle, Lag, RecordSize, RecordedLab};
use std::io;
use std::net::IpAddr;
use std::ops::DerefMut;
use thiserror::Error;
use tlp::{Body, Duration, Mps, Time, Tlp};

/// Time after which an egress entry that cannot be sent is lost.
const EGRESS_LIFETIME: Duration = Duration::from_ms(1000);
/// Time between the first message of device software and the start of the driver. Device software opens its sockets in this time.
const ARRIVAL: Duration = Duration::from_ms(200);

/// How the fabric's time relates to the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// TLPs leave when the wall clock reaches their virtual time.
    On,
    /// The fabric computes all effects of an input immediately, ahead of the wall clock.
    Off,
    /// As `On`, but a fabric that is slower than the wall clock falls behind. The lag is dropped and counted.
    Lagging,
}

impl From<Timing> for Clock {
    fn from(timing: Timing) -> Clock {
        match timing {
            Timing::On => Clock::Wall,
            Timing::Off => Clock::Virtual,
            Timing::Lagging => Clock::Lagging,
        }
    }
}

/// Error: no slot of a lab has an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no slot of the lab has a NetTLP adapter; expected one with `device = \"nettlp-adapter\"`")]
pub struct NoAdapter;

/// The slot of the adapter, where peers join a lab.
pub struct AdapterPlace {
    handle: Handle<AdapterSlot>,
    /// Time at which device software that has sent a message counts as ready.
    arrival: Option<Time>,
    blocked: Vec<PeerPath>,
    /// Completions that arrived on another path than their requests used.
    drops: Drops,
}

impl AdapterPlace {
    /// Returns the adapter's slot in the lab of `driver`.
    ///
    /// # Errors
    /// No slot has an adapter.
    pub fn of(driver: &Driver) -> Result<AdapterPlace, NoAdapter> {
        driver.handle().map(AdapterPlace::at).ok_or(NoAdapter)
    }

    /// Returns the adapter in the place `name` of the lab of `driver`, such as `slot near`.
    ///
    /// # Errors
    /// The place has no adapter.
    pub fn named(driver: &Driver, name: &str) -> Result<AdapterPlace, NoAdapter> {
        driver.handle_named(name).map(AdapterPlace::at).ok_or(NoAdapter)
    }

    fn at(handle: Handle<AdapterSlot>) -> AdapterPlace {
        AdapterPlace { handle, arrival: None, blocked: Vec::new(), drops: Drops::default() }
    }

    /// Sends completions of up to `mps` bytes to peers, whatever the Max_Payload_Size of the slot's path, because they cross no
    /// link.
    pub fn answer_in(&self, mps: Mps) {
        self.handle.place.bridge.borrow_mut().mps = mps;
    }

    /// Returns whether TLPs wait to be sent to peers.
    pub fn has_egress(&self) -> bool {
        !self.handle.place.bridge.borrow().egress.is_empty()
    }

    /// Returns whether there is room for a TLP of a peer.
    pub fn has_room(&self) -> bool {
        self.handle.place.bridge.borrow().has_room()
    }
}

/// A lab as an adapter's backend. `D` is `&mut Driver` if other code drives the lab too.
pub struct LabBackend<D = Box<Driver>> {
    driver: D,
    place: AdapterPlace,
    /// The backend advances the lab.
    runs: bool,
}

impl<'d> LabBackend<&'d mut Driver> {
    /// Joins the lab of `driver`, which other code advances.
    pub fn joined(driver: &'d mut Driver, place: AdapterPlace) -> LabBackend<&'d mut Driver> {
        LabBackend { driver, place, runs: false }
    }

    /// Leaves the lab.
    pub fn part(self) -> AdapterPlace {
        self.place
    }
}

impl LabBackend {
    /// Drives the lab of `session`, which must not have run yet.
    ///
    /// # Errors
    /// No slot has an adapter.
    pub fn new(session: Session, timing: Timing) -> Result<LabBackend, NoAdapter> {
        LabBackend::of(Driver::new(session, timing.into()))
    }

    /// Drives the lab of `driver`.
    ///
    /// # Errors
    /// No slot has an adapter.
    pub fn of(driver: Driver) -> Result<LabBackend, NoAdapter> {
        let place = AdapterPlace::of(&driver)?;
        Ok(LabBackend { driver: Box::new(driver), place, runs: true })
    }

    /// Records every input in `out` from now on. Call this before the first input.
    pub fn record(&mut self, out: Box<dyn io::Write>, lab: &RecordedLab) {
        self.driver.record(out, lab, u64::MAX);
    }

    /// Sends completions of up to `mps` bytes to peers, whatever the Max_Payload_Size of the slot's path, because they cross no
    /// link.
    pub fn answer_in(&mut self, mps: Mps) {
        self.place.answer_in(mps);
    }

    /// Returns the driver of the lab.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Returns the driver of the lab, to change it.
    pub fn driver_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// Returns the lab.
    pub fn session(&self) -> &Session {
        self.driver.session()
    }

    /// Returns the lab, to add taps before it runs.
    pub fn session_mut(&mut self) -> &mut Session {
        self.driver.session_mut()
    }

    /// Returns why the run has failed; `None` if it has not failed.
    pub fn failure(&self) -> Option<&str> {
        self.driver.failure()
    }

    /// Returns the result of the host's programs, or `None` while they run.
    pub fn host_outcome(&self) -> Option<&Result<(), DriverError>> {
        self.session().fabric.host_outcome()
    }

    /// Returns the time that a lagging fabric has dropped so far.
    pub fn lag(&self) -> Lag {
        self.driver.lag()
    }

    /// Runs the lab until `now` and ends the record. No input may follow.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn finish(&mut self, now: Time) -> io::Result<Option<RecordSize>> {
        self.driver.finish(now)
    }
}

impl<D: DerefMut<Target = Driver>> LabBackend<D> {
    /// Returns the slot of the adapter.
    pub fn slot(&self) -> &AdapterSlot {
        &self.place.handle.place
    }

    fn lab(&self) -> &Driver {
        &self.driver
    }

    fn inject(&mut self, now: Time, event: Event<'_>) {
        self.driver.inject(now, &self.place.handle, event);
    }
}

/// Sends entries of the egress queue while the sockets have room. A peer without room does not delay another.
struct EgressSender<'a> {
    driver: &'a mut Driver,
    handle: &'a Handle<AdapterSlot>,
    blocked: &'a mut Vec<PeerPath>,
    out: &'a mut dyn Outbox,
}

/// Result of an attempt to send an entry of the egress queue.
enum SendResult {
    /// The entry has left the queue.
    Done(Delivery),
    /// One TLP was sent, and the entry has more.
    Partial,
    /// There was no room.
    Blocked,
}

impl EgressSender<'_> {
    fn run(mut self) {
        let mut index = 0;
        self.handle.place.follow_rcb();
        self.blocked.clear();
        loop {
            let next = self.handle.place.bridge.borrow().next_egress(index);
            let sent = match next {
                None => return,
                Some(Next::To(way, tlp)) => self.send(index, Some(way), &tlp),
                Some(Next::ToDevice(tag, tlp)) => {
                    let way = self.out.device(tag);
                    self.send(index, way, &tlp)
                }
            };
            match sent {
                SendResult::Partial => {}
                SendResult::Blocked => index += 1,
                SendResult::Done(delivery) => {
                    let now = self.driver.now();
                    self.driver.inject(now, self.handle, Event::Taken { index: index as u32, delivery });
                }
            }
        }
    }

    fn send(&mut self, index: usize, way: Option<PeerPath>, tlp: &Tlp) -> SendResult {
        let Some(way) = way else { return SendResult::Done(Delivery::NoDevice) };
        if self.blocked.contains(&way) {
            return self.not_sent(index);
        }
        let result = self.out.send(way, tlp.wire_len(), &mut |bytes| _ = tlp.emit(bytes));
        let is_last = || self.handle.place.bridge.borrow_mut().egress_sent(index);
        match result {
            Ok(()) if is_last() => SendResult::Done(Delivery::Sent),
            Ok(()) => SendResult::Partial,
            Err(SendError::NoRoom) => {
                self.blocked.push(way);
                self.not_sent(index)
            }
            Err(SendError::TooLong { .. } | SendError::Tag(_)) => SendResult::Done(Delivery::Lost),
        }
    }

    fn not_sent(&self, index: usize) -> SendResult {
        let since = self.handle.place.bridge.borrow().egress.since(index).unwrap_or_default();
        if self.driver.now().since(since) > EGRESS_LIFETIME {
            SendResult::Done(Delivery::Lost)
        } else {
            SendResult::Blocked
        }
    }
}

impl<D: DerefMut<Target = Driver>> Backend for LabBackend<D> {
    fn is_ready(&self) -> bool {
        self.lab().failure().is_none() && self.place.has_room()
    }

    fn reads_across_4k(&self) -> bool {
        true
    }

    fn device(&self) -> Option<IpAddr> {
        let slot = self.slot();
        slot.peer_by_register.then(|| slot.bridge.borrow().registers.peer_ip.into())
    }

    fn drops(&self) -> Drops {
        self.place.drops
    }

    fn handle(&mut self, now: Time, tlp: &Received<'_>, out: &mut dyn Outbox) -> Result<(), Full> {
        let mut bridge = self.slot().bridge.borrow_mut();
        if !bridge.has_room() {
            return Err(Full);
        }
        if let Body::Completion(c) = &tlp.repr.body {
            let expected = out.device(c.tag);
            if expected != Some(tlp.way) {
                bridge.counters.strays += 1;
                drop(bridge);
                self.place.drops.record_wrong_port(now, tlp.way, expected, tlp.head());
                return Ok(());
            }
        }
        drop(bridge);
        self.inject(now, Event::Tlp(tlp));
        Ok(())
    }

    fn advance(&mut self, now: Time, out: &mut dyn Outbox) {
        if self.place.arrival.take_if(|at| *at <= now).is_some() {
            self.inject(now, Event::Arrival);
        }
        let AdapterPlace { handle, blocked, .. } = &mut self.place;
        let mut leave = |driver: &mut Driver| EgressSender { driver, handle, blocked, out }.run();
        match (&mut *self.driver, self.runs) {
            (driver, true) => driver.drain(now, leave),
            (driver, false) => leave(driver),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = self.lab().poll_timeout()?;
        Some(self.place.arrival.map_or(due, |at| due.min(at)))
    }

    fn message(&mut self, now: Time, Question { request, function }: Question) -> Option<Reply> {
        if !self.slot().is_enabled() {
            return None;
        }
        let id = self.slot().id_of(function).filter(|id| self.slot().is_bus_master(*id))?;
        if request != Request::DeviceId && self.place.arrival.is_none() && !self.slot().starts_alone {
            self.place.arrival = Some(now + ARRIVAL);
        }
        let slot = self.slot();
        Some(match request {
            Request::Bar4Start => Reply::Bar4Start(slot.bar_address(function)),
            Request::DeviceId => Reply::DeviceId(id),
            Request::MsixTable => Reply::MsixTable(slot.msix_table(id)),
        })
    }

    fn config_read(&mut self, now: Time, register_dw: u16) -> u32 {
        self.driver.come_to(now);
        self.slot().config_read(register_dw)
    }

    fn config_write(&mut self, now: Time, register_dw: u16, byte_enables: u8, value: u32) {
        self.inject(now, Event::Config { register_dw, byte_enables, value });
    }

    fn register_read(&mut self, register_dw: u8) -> u32 {
        self.slot().bridge.borrow().registers.read(register_dw)
    }

    fn register_write(&mut self, register_dw: u8, value: u32) {
        self.inject(self.lab().now(), Event::Register { register_dw, value });
    }
}
