// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of the simple NIC: sets its rings up, finds out who has the peer's address, and pings it.

use super::frames::{Arp, BROADCAST, Echo, Frame, Kind, MacAddress, Station};
use super::{BUFFER_BYTES, DESCRIPTOR_BYTES, RING_ENTRIES, RX_VECTOR, TX_VECTOR, register};
use device::BarIndex;
use host::cpu::{Cpu, Either, select};
use host::firmware::FoundFunction;
use plug::Shared;
use std::fmt::Display;
use std::net::Ipv4Addr;
use tlp::{Duration, Time};

/// Receive buffers that the driver posts: the first descriptors of the ring, used in turn.
const RX_BUFFERS: u32 = 8;
/// Data bytes of the longest echo request that fits a frame: 1500 B less the headers of IPv4 and ICMP.
pub(super) const MAX_PING_BYTES: u16 = 1500 - 20 - 8;
/// ICMP identifier of the driver's pings.
const IDENT: u16 = 0x5249;

/// What the driver is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PingSettings {
    /// The BAR with the registers.
    pub bar: BarIndex,
    /// Who the driver's host is.
    pub local: Station,
    /// Whom it pings.
    pub peer: Ipv4Addr,
    /// Echo requests.
    pub count: u32,
    /// Data bytes of each, 0 to 1472.
    pub bytes: u16,
    /// How long it waits for an interrupt.
    pub timeout: Duration,
}

/// What the pings have shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pings {
    /// The peer's Ethernet address, once it has said so.
    pub peer_mac: Option<MacAddress>,
    /// From the doorbell of each echo request to the interrupt of its reply.
    pub round_trips: Vec<Duration>,
}

/// A handle on what the pings have shown.
pub type PingReport = Shared<Pings>;

/// Sets up the rings, asks by ARP for the peer, and sends echo requests one after the other. Each reply must come, and be
/// the right one to the last byte.
///
/// # Errors
/// A line that says what was wrong, or what did not come in time.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    settings: PingSettings,
    report: PingReport,
) -> Result<(), String> {
    let said = |e: String| format!("{function}: {e}");
    if settings.bytes > MAX_PING_BYTES {
        return Err(said(format!("pings of {} bytes: legal are 0 to {MAX_PING_BYTES}", settings.bytes)));
    }
    let mut nic = Nic::open(cpu, function, settings).await.map_err(said)?;
    let peer = nic.resolve().await.map_err(|e| said(format!("ARP request for {}: {e}", settings.peer)))?;
    report.change(|r| r.peer_mac = Some(peer.mac));
    for n in 0..settings.count {
        let round_trip = nic.ping(peer, n as u16).await.map_err(|e| said(format!("ping {n}: {e}")))?;
        report.change(|r| r.round_trips.push(round_trip));
    }
    Ok(())
}

/// The driver's side of the rings.
struct Nic {
    cpu: Cpu,
    function: FoundFunction,
    settings: PingSettings,
    tx_ring: u64,
    rx_ring: u64,
    tx_buffer: u64,
    rx_buffers: u64,
    tx_tail: u32,
    rx_head: u32,
}

fn text(error: impl Display) -> String {
    error.to_string()
}

impl Nic {
    async fn open(cpu: Cpu, function: FoundFunction, settings: PingSettings) -> Result<Nic, String> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096).map_err(text);
        let ring_bytes = u64::from(RING_ENTRIES) * DESCRIPTOR_BYTES;
        let (tx_ring, rx_ring) = (alloc(ring_bytes)?, alloc(ring_bytes)?);
        let (tx_buffer, rx_buffers) = (alloc(BUFFER_BYTES)?, alloc(BUFFER_BYTES * u64::from(RX_BUFFERS))?);
        let nic =
            Nic { cpu, function, settings, tx_ring, rx_ring, tx_buffer, rx_buffers, tx_tail: 0, rx_head: 0 };
        nic.cpu.write_u64(nic.register(register::TX_RING)?, tx_ring).await.map_err(text)?;
        nic.cpu.write_u64(nic.register(register::RX_RING)?, rx_ring).await.map_err(text)?;
        nic.cpu.write_u32(nic.register(register::ENABLED)?, 1).await.map_err(text)?;
        for index in 0..RX_BUFFERS {
            nic.post(index).await?;
        }
        Ok(nic)
    }

    fn register(&self, offset: u64) -> Result<u64, String> {
        self.function.address(self.settings.bar, offset)
    }

    /// Gives receive buffer `index` to the device.
    async fn post(&self, index: u32) -> Result<(), String> {
        let buffer = self.rx_buffers + BUFFER_BYTES * u64::from(index);
        self.write_descriptor(self.rx_ring, index, buffer, BUFFER_BYTES)?;
        self.cpu.write_u32(self.register(register::RX_INDEX)?, index).await.map_err(text)
    }

    fn write_descriptor(&self, ring: u64, index: u32, address: u64, length: u64) -> Result<(), String> {
        let at = ring + DESCRIPTOR_BYTES * u64::from(index);
        self.cpu.memory().write_u64(at, address).map_err(text)?;
        self.cpu.memory().write_u64(at + 8, length).map_err(text)
    }

    /// Sends `frame`; ends when the device has fetched it. When its doorbell rang.
    async fn send(&mut self, frame: &[u8]) -> Result<Time, String> {
        self.cpu.memory().write(self.tx_buffer, frame).map_err(text)?;
        self.write_descriptor(self.tx_ring, self.tx_tail, self.tx_buffer, frame.len() as u64)?;
        self.tx_tail = (self.tx_tail + 1) % RING_ENTRIES;
        let rang = self.cpu.now();
        self.cpu.write_u32(self.register(register::TX_INDEX)?, self.tx_tail).await.map_err(text)?;
        self.interrupt(TX_VECTOR, "TX").await?;
        Ok(rang)
    }

    /// Waits for a frame, and gives its buffer back. Also when its interrupt came.
    async fn receive(&mut self) -> Result<(Time, Vec<u8>), String> {
        self.interrupt(RX_VECTOR, "RX").await?;
        let came = self.cpu.now();
        let at = self.rx_ring + DESCRIPTOR_BYTES * u64::from(self.rx_head);
        let memory = self.cpu.memory();
        let (address, length) = (memory.read_u64(at).map_err(text)?, memory.read_u64(at + 8).map_err(text)?);
        if length > BUFFER_BYTES {
            return Err(format!(
                "RX descriptor {}: {length} bytes in a buffer of {BUFFER_BYTES}",
                self.rx_head
            ));
        }
        let mut frame = vec![0; length as usize];
        memory.read(address, &mut frame).map_err(text)?;
        self.post(self.rx_head).await?;
        self.rx_head = (self.rx_head + 1) % RX_BUFFERS;
        Ok((came, frame))
    }

    async fn interrupt(&self, vector: u16, name: &str) -> Result<(), String> {
        let timeout = self.settings.timeout;
        match select(self.cpu.interrupt(self.function.vector(vector)), self.cpu.sleep(timeout)).await {
            Either::Left(()) => Ok(()),
            Either::Right(()) => Err(format!("no {name} interrupt within {timeout}")),
        }
    }

    async fn resolve(&mut self) -> Result<Station, String> {
        let PingSettings { local, peer, .. } = self.settings;
        let wanted = Station { mac: BROADCAST, ip: peer };
        self.send(&Arp { kind: Kind::Request, from: local, to: wanted }.emit()).await?;
        let (_, frame) = self.receive().await?;
        match Frame::parse(&frame).map_err(|e| format!("bad answer: {e}"))? {
            Frame::Arp(Arp { kind: Kind::Reply, from, to }) if from.ip == peer && to == local => Ok(from),
            other => Err(format!("not an answer: {other:?}")),
        }
    }

    async fn ping(&mut self, peer: Station, sequence: u16) -> Result<Duration, String> {
        let data = (0..self.settings.bytes).map(|n| (n ^ sequence) as u8).collect();
        let local = self.settings.local;
        let request = Echo { kind: Kind::Request, from: local, to: peer, ident: IDENT, sequence, data };
        let rang = self.send(&request.emit()).await?;
        let (came, frame) = self.receive().await?;
        let round_trip = came.since(rang);
        let reply = Frame::parse(&frame).map_err(|e| format!("bad reply: {e}"))?;
        let expected = Echo { kind: Kind::Reply, from: peer, to: local, ..request };
        if reply == Frame::Echo(expected) { Ok(round_trip) } else { Err(format!("not its reply: {reply:?}")) }
    }
}
