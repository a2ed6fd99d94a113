// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of the simple NIC: sets up the rings, resolves the peer's address, and pings it.

use super::rings::Rings;
use super::{BUFFER_BYTES, RING_ENTRIES, RX_VECTOR, TX_VECTOR};
use crate::ethernet::{Arp, BROADCAST, Echo, Frame, Kind, MacAddress, Station};
use device::BarIndex;
use host::DriverError;
use host::cpu::{Cpu, Either, select};
use host::firmware::FoundFunction;
use plug::Shared;
use std::net::Ipv4Addr;
use tlp::{Duration, Time};

/// Number of receive buffers that the driver posts, in the first descriptors of the ring, used round robin.
const RX_BUFFERS: u32 = 8;
/// Data bytes of the longest echo request that fits in a frame: 1500 B minus the headers of IPv4 and ICMP.
pub(super) const MAX_PING_BYTES: u16 = 1500 - 20 - 8;
/// ICMP identifier of the driver's pings.
const IDENT: u16 = 0x5249;

/// Settings of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PingSettings {
    /// BAR with the registers.
    pub bar: BarIndex,
    /// Addresses of the driver's host.
    pub local: Station,
    /// Address to ping.
    pub peer: Ipv4Addr,
    /// Number of echo requests.
    pub count: u32,
    /// Data bytes of each, 0 to 1472.
    pub bytes: u16,
    /// How long to wait for an interrupt.
    pub timeout: Duration,
}

/// Results of the pings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pings {
    /// The peer's Ethernet address, once it is known.
    pub peer_mac: Option<MacAddress>,
    /// Times from the doorbell of each echo request to the interrupt of its reply.
    pub round_trips: Vec<Duration>,
}

/// A handle to the results of the pings.
pub type PingReport = Shared<Pings>;

/// Sets up the rings, resolves the peer by ARP, and sends echo requests one after another. Each reply must arrive and
/// match to the last byte.
///
/// # Errors
/// The error, or the answer that did not arrive in time.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    settings: PingSettings,
    report: PingReport,
) -> Result<(), DriverError> {
    let at_function = |e: DriverError| e.at(function);
    if settings.bytes > MAX_PING_BYTES {
        return Err(at_function(
            format!("pings of {} bytes, expected 0 to {MAX_PING_BYTES}", settings.bytes).into(),
        ));
    }
    let mut nic = Nic::open(cpu, function, settings).await.map_err(at_function)?;
    let peer = nic
        .resolve()
        .await
        .map_err(|e| at_function(e.at(format_args!("ARP request for {}", settings.peer))))?;
    report.change(|r| r.peer_mac = Some(peer.mac));
    for n in 0..settings.count {
        let round_trip =
            nic.ping(peer, n as u16).await.map_err(|e| at_function(e.at(format_args!("ping {n}"))))?;
        report.change(|r| r.round_trips.push(round_trip));
    }
    Ok(())
}

/// The NIC from the driver's view.
struct Nic {
    rings: Rings,
    settings: PingSettings,
    tx_tail: u32,
    rx_head: u32,
}

impl Nic {
    async fn open(cpu: Cpu, function: FoundFunction, settings: PingSettings) -> Result<Nic, DriverError> {
        let rings = Rings::alloc(cpu, function, settings.bar, RX_BUFFERS)?;
        rings.enable().await?;
        for index in 0..RX_BUFFERS {
            rings.post(index, BUFFER_BYTES).await?;
        }
        Ok(Nic { rings, settings, tx_tail: 0, rx_head: 0 })
    }

    /// Sends `frame` and waits until the device has read it. Returns the time of the doorbell.
    async fn send(&mut self, frame: &[u8]) -> Result<Time, DriverError> {
        let (rang, at) = (self.rings.cpu.now(), self.tx_tail);
        self.tx_tail = (at + 1) % RING_ENTRIES;
        self.rings.send(frame, &[at], self.tx_tail).await?;
        self.interrupt(TX_VECTOR, "TX").await?;
        Ok(rang)
    }

    /// Waits for a frame and posts its buffer again. Returns the time of its interrupt, and the frame.
    async fn receive(&mut self) -> Result<(Time, Vec<u8>), DriverError> {
        self.interrupt(RX_VECTOR, "RX").await?;
        let (came, at) = (self.rings.cpu.now(), self.rx_head);
        let (address, length) = self.rings.rx_descriptor(at)?;
        if length > BUFFER_BYTES {
            return Err(format!(
                "RX descriptor {at}: {length} bytes, expected at most the buffer's {BUFFER_BYTES}"
            )
            .into());
        }
        let mut frame = vec![0; length as usize];
        self.rings.cpu.memory().read(address, &mut frame)?;
        self.rings.post(at, BUFFER_BYTES).await?;
        self.rx_head = (at + 1) % RX_BUFFERS;
        Ok((came, frame))
    }

    async fn interrupt(&self, vector: u16, name: &str) -> Result<(), DriverError> {
        let (timeout, Rings { cpu, function, .. }) = (self.settings.timeout, &self.rings);
        match select(cpu.interrupt(function.vector(vector)), cpu.sleep(timeout)).await {
            Either::Left(()) => Ok(()),
            Either::Right(()) => Err(format!("no {name} interrupt within {timeout}").into()),
        }
    }

    async fn resolve(&mut self) -> Result<Station, DriverError> {
        let PingSettings { local, peer, .. } = self.settings;
        let wanted = Station { mac: BROADCAST, ip: peer };
        self.send(&Arp { kind: Kind::Request, from: local, to: wanted }.emit()).await?;
        let (_, frame) = self.receive().await?;
        match Frame::parse(&frame).map_err(|e| format!("bad answer: {e}"))? {
            Frame::Arp(Arp { kind: Kind::Reply, from, to }) if from.ip == peer && to == local => Ok(from),
            other => Err(format!("not an answer: {other:?}").into()),
        }
    }

    async fn ping(&mut self, peer: Station, sequence: u16) -> Result<Duration, DriverError> {
        let data = (0..self.settings.bytes).map(|n| (n ^ sequence) as u8).collect();
        let local = self.settings.local;
        let request = Echo { kind: Kind::Request, from: local, to: peer, ident: IDENT, sequence, data };
        let rang = self.send(&request.emit()).await?;
        let (came, frame) = self.receive().await?;
        let round_trip = came.since(rang);
        let reply = Frame::parse(&frame).map_err(|e| format!("bad reply: {e}"))?;
        let expected = Echo { kind: Kind::Reply, from: peer, to: local, ..request };
        if reply == Frame::Echo(expected) {
            Ok(round_trip)
        } else {
            Err(format!("not its reply: {reply:?}").into())
        }
    }
}
