// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host of a simple NIC as a station on its network: answers ARP (RFC 826) and ICMP echo (RFC 792) for as long as it
//! runs, and pings. Bears a NIC whose transfers may be lost, and NetTLP's own (NSDI'20, section 6.2), which holds one receive buffer,
//! and does nothing else while it waits for room for a second one. So a buffer is posted once the NIC has shown that it is there, by the
//! interrupt of a first frame: an announcement of the station's addresses (RFC 5227 §3).
//!
//! It takes no order for granted: a receive descriptor is done when its length is no longer zero, whichever it is; a frame to
//! send stands in the descriptor before the index that the doorbell says and in that of the index, since devices differ on
//! which of them is meant, and one frame is under way at a time.

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

/// Receive buffers that may be posted, which is also how many the station looks at in a turn.
pub const RX_BUFFERS: std::ops::RangeInclusive<u32> = 1..=64;
/// Frames that wait to be sent; further ones are lost, and counted.
const MAX_QUEUED: usize = 64;
/// How long a frame may take until its interrupt comes; then the next goes all the same, in the buffer of this one.
const TX_PATIENCE: Duration = Duration::from_ms(100);
/// Time after which a NIC that has not interrupted is set up once more: it may have come later than was said.
const OPEN_AGAIN: Duration = Duration::from_ms(500);
/// How often the station looks at its descriptors without an interrupt, which may be lost.
const LOOK: Duration = Duration::from_ms(10);
/// ICMP identifier of its pings.
const IDENT: u16 = 0x5249;
/// Echo requests whose reply may still come; of more, the first is given up.
const MAX_UNANSWERED: usize = 64;
/// Round trips that are kept.
const MAX_ROUND_TRIPS: usize = 100_000;

/// What a station is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationSettings {
    /// The BAR with the registers.
    pub bar: BarIndex,
    /// Who it is.
    pub local: Station,
    /// Whom it pings.
    pub peer: Ipv4Addr,
    /// Echo requests that it sends.
    pub pings: u32,
    /// Data bytes of each, 0 to 1472.
    pub ping_bytes: u16,
    /// From one to the next.
    pub interval: Duration,
    /// Receive buffers that it posts, [`RX_BUFFERS`]; NetTLP's own NIC holds one.
    pub rx_buffers: u32,
}

/// What a station has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// Times that it has set the NIC up.
    pub opened: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// ARP requests answered.
    pub arp_answered: u64,
    /// Echo requests of others answered.
    pub echo_answered: u64,
    /// Echo requests sent.
    pub pings_sent: u64,
    /// From each echo request to its reply.
    pub round_trips: Vec<Duration>,
    /// Frames that did not have the right form, or answered nothing that was asked.
    pub not_understood: u64,
    /// Frames lost because too many waited to be sent.
    pub lost: u64,
    /// Frames whose TX interrupt did not come in time.
    pub tx_timeouts: u64,
}

/// A handle on what a station has done.
pub type StationReport = Shared<StationCounters>;

/// Sets the NIC up, and serves for ever; sets it up anew whenever `arrivals` has changed: then other device software is
/// there, which knows nothing of the rings.
///
/// # Errors
/// A line that says which register or memory access failed.
pub async fn station(
    cpu: Cpu,
    function: FoundFunction,
    settings: StationSettings,
    arrivals: impl Fn() -> u32,
    report: StationReport,
) -> Result<(), DriverError> {
    let said = |e: DriverError| e.at(function);
    if settings.ping_bytes > MAX_PING_BYTES {
        let bytes = settings.ping_bytes;
        return Err(said(format!("pings of {bytes} bytes: legal are 0 to {MAX_PING_BYTES}").into()));
    }
    if !RX_BUFFERS.contains(&settings.rx_buffers) {
        let (buffers, least, most) = (settings.rx_buffers, RX_BUFFERS.start(), RX_BUFFERS.end());
        return Err(said(format!("{buffers} receive buffers: legal are {least} to {most}").into()));
    }
    let mut host = Host::new(cpu, function, settings, report).map_err(said)?;
    loop {
        let life = arrivals();
        host.open().await.map_err(said)?;
        while arrivals() == life && !host.is_unheard() {
            host.turn().await.map_err(said)?;
        }
    }
}

struct Host {
    rings: Rings,
    settings: StationSettings,
    report: StationReport,
    tx_index: u32,
    queue: VecDeque<Vec<u8>>,
    /// When the frame under way is given up.
    sending: Option<Time>,
    /// Until when the NIC has to show that it is there, by an interrupt. `None` once it has.
    unheard: Option<Time>,
    peer: Option<Station>,
    next_ping: Time,
    sent_pings: u32,
    /// Echo requests without a reply: when each was sent.
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
            unheard: None,
            peer: None,
            next_ping,
            sent_pings: 0,
            unanswered: BTreeMap::new(),
        })
    }

    fn now(&self) -> Time {
        self.rings.cpu.now()
    }

    /// Tells the NIC of the rings, and gives it a first frame to send.
    async fn open(&mut self) -> Result<(), DriverError> {
        self.report.change(|c| c.opened += 1);
        (self.tx_index, self.sending, self.peer) = (0, None, None);
        self.unheard = Some(self.now() + OPEN_AGAIN);
        self.queue.clear();
        self.rings.write(register::ENABLED, 0).await?;
        self.rings.enable().await?;
        let nobody = Station { mac: [0; 6], ip: self.settings.local.ip };
        self.queue_frame(Arp { kind: Kind::Request, from: self.settings.local, to: nobody }.emit());
        // Of an earlier life nothing is left in the ring.
        for index in 0..self.settings.rx_buffers {
            self.rings.describe_rx(index, 0, 0)?;
        }
        Ok(())
    }

    /// The NIC is there: it gets all buffers, where it has none yet. Length zero says that nothing has come.
    async fn heard(&mut self) -> Result<(), DriverError> {
        if self.unheard.take().is_some() {
            for index in 0..self.settings.rx_buffers {
                self.rings.post(index, 0).await?;
            }
        }
        Ok(())
    }

    /// Waits for something to do, and does it.
    async fn turn(&mut self) -> Result<(), DriverError> {
        let Rings { cpu, function, .. } = &self.rings;
        let interrupt = |vector| cpu.interrupt(function.vector(vector));
        let (rx, tx) = (interrupt(RX_VECTOR), interrupt(TX_VECTOR));
        let wake = cpu.sleep_until(self.wake_at());
        match select(select(rx, tx), wake).await {
            Either::Left(Either::Left(())) => self.heard().await?,
            Either::Left(Either::Right(())) => {
                self.sending = None;
                self.heard().await?;
            }
            Either::Right(()) => {}
        }
        for index in 0..self.settings.rx_buffers {
            self.receive(index).await?;
        }
        self.ping();
        self.send().await
    }

    /// True if the NIC has not interrupted in time, so that it may have missed what was written to it.
    fn is_unheard(&self) -> bool {
        self.unheard.is_some_and(|until| self.now() >= until)
    }

    fn wake_at(&self) -> Time {
        let now = self.now();
        let ping = if self.sent_pings < self.settings.pings { self.next_ping } else { Time::MAX };
        let sent = self.sending.unwrap_or(Time::MAX);
        // Never in the past: time would stand still.
        (now + LOOK).min(ping.max(now)).min(sent.max(now))
    }

    /// Takes the frame of buffer `index`, where one has come, and gives the buffer back.
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
            // What a network says to all, and what this station has no use for.
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

    /// Asks who the peer is, or pings it, where it is time.
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

    /// Sends the next frame, where none is under way.
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
        (self.tx_index, self.sending) = (next, Some(now + TX_PATIENCE));
        self.report.change(|c| c.tx_frames += 1);
        self.rings.send(&frame, &[at, next], next).await
    }
}
