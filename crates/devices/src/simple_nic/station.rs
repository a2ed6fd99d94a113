// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host of a simple NIC as a station on its network: answers ARP (RFC 826) and ICMP echo (RFC 792) for as long as
//! it runs, and pings. It tolerates a NIC whose transfers may be lost, and the NIC of NetTLP (NSDI'20, section 6.2).
//! NetTLP's NIC holds one receive buffer, and is blocked while it waits for room for a second one. So the station first
//! sends a frame that announces its addresses (RFC 5227 §3). It posts buffers only after the interrupt of this frame,
//! which proves that the NIC works.
//!
//! The station does not rely on any order. A receive descriptor is done when its length is no longer zero. A frame to send is in two
//! descriptors, the one at the doorbell's index and the one before it, because devices differ on which one to send. One frame is in
//! flight at a time.

use super::driver::MAX_PING_BYTES;
use super::rings::Rings;
use super::{BUFFER_BYTES, RING_ENTRIES, RX_VECTOR, TX_VECTOR, register};
use crate::ethernet::{Arp, BROADCAST, Echo, Frame, Kind, Station};
use device::BarIndex;
use host::DriverError;
use host::cpu::{Cpu, Either, select};
use host::firmware::FoundFunction;
use plug::Shared;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use tlp::{Duration, Time};

/// Allowed numbers of receive buffers. The station also checks this number in one pass.
pub const RX_BUFFERS: std::ops::RangeInclusive<u32> = 1..=64;
/// Maximum number of frames that wait to be sent. Further ones are lost and counted.
const MAX_QUEUED: usize = 64;
/// Maximum time until the interrupt of a frame. After that, the next frame is sent in the same buffer.
const TX_TIMEOUT: Duration = Duration::from_ms(100);
/// Time after which a NIC without an interrupt is set up again: it may have started later than reported.
const OPEN_AGAIN: Duration = Duration::from_ms(500);
/// Interval at which the station checks its descriptors without an interrupt, which may be lost.
const POLL_INTERVAL: Duration = Duration::from_ms(10);
/// ICMP identifier of its pings.
const IDENT: u16 = 0x5249;
/// Maximum number of echo requests that wait for a reply. Beyond this number, the oldest is dropped.
const MAX_UNANSWERED: usize = 64;
/// Maximum number of round trips to keep.
const MAX_ROUND_TRIPS: usize = 100_000;

/// Settings of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationSettings {
    /// BAR with the registers.
    pub bar: BarIndex,
    /// Its own addresses.
    pub local: Station,
    /// Address to ping.
    pub peer: Ipv4Addr,
    /// Number of echo requests to send.
    pub pings: u32,
    /// Data bytes of each, 0 to 1472.
    pub ping_bytes: u16,
    /// Interval between two announcements.
    pub interval: Duration,
    /// Number of receive buffers to post, [`RX_BUFFERS`]; NetTLP's own NIC holds one.
    pub rx_buffers: u32,
}

/// Counters of a station.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// Number of times that the station has set up the NIC.
    pub opened: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// ARP requests answered.
    pub arp_answered: u64,
    /// Answered echo requests of others.
    pub echo_answered: u64,
    /// Echo requests sent.
    pub pings_sent: u64,
    /// Times from each echo request to its reply.
    pub round_trips: Vec<Duration>,
    /// Frames of a wrong format, and replies without a request.
    pub not_understood: u64,
    /// Frames lost because too many waited to be sent.
    pub lost: u64,
    /// Frames whose TX interrupt did not come in time.
    pub tx_timeouts: u64,
}

/// A handle to the counters of a station.
pub type StationReport = Shared<StationCounters>;

/// Sets up the NIC and serves forever. Sets the NIC up again whenever `arrivals` changes, because new device software
/// does not know the rings.
///
/// # Errors
/// The register or memory access that failed.
pub async fn station(
    cpu: Cpu,
    function: FoundFunction,
    settings: StationSettings,
    arrivals: impl Fn() -> u32,
    report: StationReport,
) -> Result<(), DriverError> {
    let at_function = |e: DriverError| e.at(function);
    if settings.ping_bytes > MAX_PING_BYTES {
        let bytes = settings.ping_bytes;
        return Err(at_function(format!("pings of {bytes} bytes, expected 0 to {MAX_PING_BYTES}").into()));
    }
    if !RX_BUFFERS.contains(&settings.rx_buffers) {
        let (buffers, least, most) = (settings.rx_buffers, RX_BUFFERS.start(), RX_BUFFERS.end());
        return Err(at_function(format!("{buffers} receive buffers, expected {least} to {most}").into()));
    }
    let mut host = Host::new(cpu, function, settings, report).map_err(at_function)?;
    loop {
        let generation = arrivals();
        host.open().await.map_err(at_function)?;
        while arrivals() == generation && !host.setup_timed_out() {
            host.step().await.map_err(at_function)?;
        }
    }
}

struct Host {
    rings: Rings,
    settings: StationSettings,
    report: StationReport,
    tx_index: u32,
    queue: VecDeque<Vec<u8>>,
    /// Time at which the frame in flight is given up.
    sending: Option<Time>,
    /// Time until which the NIC must interrupt to prove that it works. `None` after that interrupt.
    setup_deadline: Option<Time>,
    peer: Option<Station>,
    next_ping: Time,
    sent_pings: u32,
    /// Send times of echo requests without a reply.
    unanswered: BTreeMap<u16, Time>,
}

impl Host {
    fn new(
        cpu: Cpu,
        function: FoundFunction,
        settings: StationSettings,
        report: StationReport,
    ) -> Result<Host, DriverError> {
        let next_ping = cpu.now();
        Ok(Host {
            rings: Rings::alloc(cpu, function, settings.bar, settings.rx_buffers)?,
            settings,
            report,
            tx_index: 0,
            queue: VecDeque::new(),
            sending: None,
            setup_deadline: None,
            peer: None,
            next_ping,
            sent_pings: 0,
            unanswered: BTreeMap::new(),
        })
    }

    fn now(&self) -> Time {
        self.rings.cpu.now()
    }

    /// Writes the rings' addresses to the NIC, and sends a first frame.
    async fn open(&mut self) -> Result<(), DriverError> {
        self.report.change(|c| c.opened += 1);
        (self.tx_index, self.sending, self.peer) = (0, None, None);
        self.setup_deadline = Some(self.now() + OPEN_AGAIN);
        self.queue.clear();
        self.rings.write(register::ENABLED, 0).await?;
        self.rings.enable().await?;
        let target = Station { mac: [0; 6], ip: self.settings.local.ip };
        self.queue_frame(Arp { kind: Kind::Request, from: self.settings.local, to: target }.emit());
        // Clear descriptors of an earlier setup.
        for index in 0..self.settings.rx_buffers {
            self.rings.describe_rx(index, 0, 0)?;
        }
        Ok(())
    }

    /// Handles an interrupt of the NIC: posts all buffers if they are not posted yet. Length zero means that no frame
    /// has arrived.
    async fn handle_interrupt(&mut self) -> Result<(), DriverError> {
        if self.setup_deadline.take().is_some() {
            for index in 0..self.settings.rx_buffers {
                self.rings.post(index, 0).await?;
            }
        }
        Ok(())
    }

    /// Waits for an event and handles it.
    async fn step(&mut self) -> Result<(), DriverError> {
        let Rings { cpu, function, .. } = &self.rings;
        let interrupt = |vector| cpu.interrupt(function.vector(vector));
        let (rx, tx) = (interrupt(RX_VECTOR), interrupt(TX_VECTOR));
        let wake = cpu.sleep_until(self.wake_at());
        match select(select(rx, tx), wake).await {
            Either::Left(Either::Left(())) => self.handle_interrupt().await?,
            Either::Left(Either::Right(())) => {
                self.sending = None;
                self.handle_interrupt().await?;
            }
            Either::Right(()) => {}
        }
        for index in 0..self.settings.rx_buffers {
            self.receive(index).await?;
        }
        self.ping();
        self.send().await
    }

    /// Returns whether the NIC has not interrupted in time, so that it may have missed the setup.
    fn setup_timed_out(&self) -> bool {
        self.setup_deadline.is_some_and(|until| self.now() >= until)
    }

    fn wake_at(&self) -> Time {
        let now = self.now();
        let ping = if self.sent_pings < self.settings.pings { self.next_ping } else { Time::MAX };
        let sent = self.sending.unwrap_or(Time::MAX);
        // Never in the past, or time would not advance.
        (now + POLL_INTERVAL).min(ping.max(now)).min(sent.max(now))
    }

    /// Handles a frame in buffer `index`, if one has arrived, and posts the buffer again.
    async fn receive(&mut self, index: u32) -> Result<(), DriverError> {
        let (_, length) = self.rings.rx_descriptor(index)?;
        if length == 0 {
            return Ok(());
        }
        let mut frame = vec![0; length.min(BUFFER_BYTES) as usize];
        let buffer = self.rings.rx_buffer(index);
        self.rings.cpu.memory().read(buffer, &mut frame)?;
        self.rings.post(index, 0).await?;
        self.report.change(|c| c.rx_frames += 1);
        self.answer(&frame);
        Ok(())
    }

    fn answer(&mut self, frame: &[u8]) {
        let local = self.settings.local;
        match Frame::parse(frame) {
            Ok(Frame::Arp(arp)) if arp.kind == Kind::Request && arp.to.ip == local.ip => {
                self.report.change(|c| c.arp_answered += 1);
                self.queue_frame(Arp { kind: Kind::Reply, from: local, to: arp.from }.emit());
            }
            Ok(Frame::Arp(arp)) if arp.kind == Kind::Reply && arp.from.ip == self.settings.peer => {
                self.peer = Some(arp.from);
                self.next_ping = self.next_ping.min(self.now());
            }
            Ok(Frame::Echo(echo)) if echo.kind == Kind::Request && echo.to == local => {
                self.report.change(|c| c.echo_answered += 1);
                self.queue_frame(Echo { kind: Kind::Reply, from: local, to: echo.from, ..echo }.emit());
            }
            Ok(Frame::Echo(echo)) if echo.kind == Kind::Reply && echo.ident == IDENT => self.replied(&echo),
            // Broadcasts, and other frames that are not for this station.
            _ => self.report.change(|c| c.not_understood += 1),
        }
    }

    fn replied(&mut self, echo: &Echo) {
        let Some(sent) = self.unanswered.remove(&echo.sequence) else {
            return self.report.change(|c| c.not_understood += 1);
        };
        let expected = self.echo(echo.from, echo.sequence);
        let right = expected.data == echo.data && echo.to == self.settings.local;
        let trip = self.now().since(sent);
        self.report.change(|c| match right {
            true if c.round_trips.len() < MAX_ROUND_TRIPS => c.round_trips.push(trip),
            true => {}
            false => c.not_understood += 1,
        });
    }

    /// Resolves the peer, or pings it, if this is due.
    fn ping(&mut self) {
        let now = self.now();
        if self.sent_pings >= self.settings.pings || now < self.next_ping {
            return;
        }
        self.next_ping = now + self.settings.interval;
        let Some(peer) = self.peer else {
            let wanted = Station { mac: BROADCAST, ip: self.settings.peer };
            return self
                .queue_frame(Arp { kind: Kind::Request, from: self.settings.local, to: wanted }.emit());
        };
        let sequence = self.sent_pings as u16;
        self.sent_pings += 1;
        if self.unanswered.len() >= MAX_UNANSWERED {
            self.unanswered.pop_first();
        }
        self.unanswered.insert(sequence, now);
        self.report.change(|c| c.pings_sent += 1);
        self.queue_frame(self.echo(peer, sequence).emit());
    }

    fn echo(&self, to: Station, sequence: u16) -> Echo {
        let data = (0..self.settings.ping_bytes).map(|n| (n ^ sequence) as u8).collect();
        Echo { kind: Kind::Request, from: self.settings.local, to, ident: IDENT, sequence, data }
    }

    fn queue_frame(&mut self, frame: Vec<u8>) {
        if self.queue.len() < MAX_QUEUED {
            self.queue.push_back(frame);
        } else {
            self.report.change(|c| c.lost += 1);
        }
    }

    /// Sends the next frame if no frame is in flight.
    async fn send(&mut self) -> Result<(), DriverError> {
        let now = self.now();
        if self.sending.is_some_and(|until| now >= until) {
            self.sending = None;
            self.report.change(|c| c.tx_timeouts += 1);
        }
        if self.sending.is_some() {
            return Ok(());
        }
        let Some(frame) = self.queue.pop_front() else { return Ok(()) };
        let (at, next) = (self.tx_index, (self.tx_index + 1) % RING_ENTRIES);
        (self.tx_index, self.sending) = (next, Some(now + TX_TIMEOUT));
        self.report.change(|c| c.tx_frames += 1);
        self.rings.send(&frame, &[at, next], next).await
    }
}
