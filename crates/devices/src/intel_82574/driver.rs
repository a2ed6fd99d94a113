// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated host's program for an 82574L: brings the link up and pings the peer, with legacy descriptors and masked interrupts.

use super::registers::{self as r, ctrl, rctl, status, tctl};
use crate::ethernet::{Arp, BROADCAST, Echo, Frame, Kind, MacAddress, PEER, Station};
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::Shared;
use plug::transfers::{EndedTransfer, Transfers};
use std::net::Ipv4Addr;
use tlp::{Duration, Time};

/// Descriptors per ring: the minimum, which fills 128 bytes.
const ENTRIES: u32 = 8;
const BUFFER_BYTES: u64 = 2048;
/// Polling interval.
const LOOK: Duration = Duration::from_ns(500);
/// Polling interval of a measurement.
const LOOK_CLOSELY: Duration = Duration::from_ns(1);
/// Pause between two round trips, so that no work of the previous one is left.
const PAUSE: Duration = Duration::from_us(10);
/// For experiments (IEEE 802, §9.2.3).
const ETHERTYPE: u16 = 0x88b5;
/// Bytes of the receive buffers and the send buffer.
pub(super) const WINDOW_BYTES: u64 = BUFFER_BYTES * (ENTRIES as u64 + 1);
const IDENT: u16 = 0x5249;
/// Commands of a legacy descriptor: EOP, IFCS, RS.
const SEND: u32 = 0b1011 << 24;

/// Settings of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PingSettings {
    /// Number of echo requests.
    pub count: u32,
    /// Data bytes of each, 0 to 1472.
    pub bytes: u16,
    /// How long to wait for the link and for answers.
    pub timeout: Duration,
}

/// Results of the pings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pings {
    /// Times from the doorbell of each echo request until its reply was seen.
    pub round_trips: Vec<Duration>,
}

/// A handle to the results of the pings.
pub type PingReport = Shared<Pings>;

/// Brings the NIC up, resolves the peer by ARP, and pings it. Each reply must match to the last byte.
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
    let mut nic = Host::open(cpu, function, settings).await.map_err(at_function)?;
    if settings.count == 0 {
        return Ok(());
    }
    let peer = nic.resolve().await.map_err(at_function)?;
    for n in 0..settings.count {
        let trip = nic.ping(peer, n as u16).await.map_err(|e| at_function(e.at(format_args!("ping {n}"))))?;
        report.change(|r| r.round_trips.push(trip));
    }
    Ok(())
}

/// Frames that a looped-back cable returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopSettings {
    /// Bytes of a frame without FCS, at least 14.
    pub bytes: u32,
    /// Frames before the measured ones.
    pub warm_up: u64,
    /// Measured frames.
    pub frames: u64,
    /// Time of a frame on the cable.
    pub on_wire: Duration,
}

/// Brings the NIC up, sends one frame after another, and waits for each. Each one must come back to the last byte. The
/// round trips are the transfers of `results`, from the write of the descriptor until the driver has seen the frame.
///
/// # Errors
/// The error, or the frame that did not come back in time.
pub async fn loop_back(
    cpu: Cpu,
    function: FoundFunction,
    settings: PingSettings,
    frames: LoopSettings,
    results: Shared<Transfers>,
) -> Result<(), DriverError> {
    let at_function = |e: DriverError| e.at(function);
    let mut nic = Host::open(cpu, function, settings).await.map_err(at_function)?;
    nic.look = LOOK_CLOSELY;
    results.change(|r| r.start(nic.cpu.now()));
    for n in 0..frames.warm_up + frames.frames {
        let trip = nic.round_trip(&frames, n).await;
        let trip = trip.map_err(|e| at_function(e.at(format_args!("frame {n}"))))?;
        results.change(|r| r.end(nic.cpu.now(), trip));
    }
    Ok(())
}

struct Host {
    cpu: Cpu,
    /// Polling interval.
    look: Duration,
    function: FoundFunction,
    settings: PingSettings,
    local: Station,
    tx: u64,
    rx: u64,
    buffers: u64,
    tx_tail: u32,
    rx_head: u32,
}

impl Host {
    async fn open(cpu: Cpu, function: FoundFunction, settings: PingSettings) -> Result<Host, DriverError> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096);
        let ring = u64::from(ENTRIES) * 16;
        let (tx, rx, buffers) = (alloc(ring)?, alloc(ring)?, alloc(BUFFER_BYTES * u64::from(ENTRIES + 1))?);
        let local = Station { mac: [0; 6], ip: Ipv4Addr::new(192, 0, 2, 1) };
        let (look, tx_tail, rx_head) = (LOOK, 0, 0);
        let mut host = Host { cpu, look, function, settings, local, tx, rx, buffers, tx_tail, rx_head };
        host.write(r::IMC, u32::MAX).await?;
        host.write(r::CTRL, ctrl::RST).await?;
        host.local.mac = host.mac().await?;
        host.write(r::CTRL, ctrl::SLU).await?;
        let until = host.cpu.now() + settings.timeout;
        while host.read(r::STATUS).await? & status::LU == 0 {
            host.look_again(until, "link").await?;
        }
        host.open_rings().await?;
        Ok(host)
    }

    async fn open_rings(&self) -> Result<(), DriverError> {
        for index in 0..ENTRIES {
            self.describe(self.rx, index, self.rx_buffer(index), 0)?;
        }
        for (base, low, high, length) in
            [(self.tx, r::TDBAL, r::TDBAH, r::TDLEN), (self.rx, r::RDBAL, r::RDBAH, r::RDLEN)]
        {
            self.write(low, base as u32).await?;
            self.write(high, (base >> 32) as u32).await?;
            self.write(length, ENTRIES * 16).await?;
        }
        self.write(r::TCTL, tctl::EN | tctl::PSP).await?;
        self.write(r::RCTL, rctl::EN | rctl::BAM | rctl::SECRC).await?;
        self.write(r::RDT, ENTRIES - 1).await
    }

    async fn mac(&self) -> Result<MacAddress, DriverError> {
        let (low, high) = (self.read(r::RAL).await?.to_le_bytes(), self.read(r::RAH).await?.to_le_bytes());
        Ok([low[0], low[1], low[2], low[3], high[0], high[1]])
    }

    async fn read(&self, register: u64) -> Result<u32, DriverError> {
        Ok(self.cpu.read_u32(self.function.address(0, register)?).await?)
    }

    async fn write(&self, register: u64, value: u32) -> Result<(), DriverError> {
        Ok(self.cpu.write_u32(self.function.address(0, register)?, value).await?)
    }

    /// Returns the address of a receive buffer. The buffer after the last receive buffer is the send buffer.
    fn rx_buffer(&self, index: u32) -> u64 {
        self.buffers + BUFFER_BYTES * u64::from(index)
    }

    fn describe(&self, ring: u64, index: u32, address: u64, command: u32) -> Result<(), DriverError> {
        let at = ring + 16 * u64::from(index);
        self.cpu.memory().write_u64(at, address)?;
        Ok(self.cpu.memory().write_u64(at + 8, command.into())?)
    }

    async fn look_again(&self, until: Time, what: &str) -> Result<(), DriverError> {
        if self.cpu.now() >= until {
            return Err(format!("no {what} within {}", self.settings.timeout).into());
        }
        self.cpu.sleep(self.look).await;
        Ok(())
    }

    /// Sends frame `n` to the NIC itself, and returns its round trip.
    async fn round_trip(&mut self, frames: &LoopSettings, n: u64) -> Result<EndedTransfer, DriverError> {
        let mut frame = [self.local.mac, self.local.mac].concat();
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend((frame.len() as u64..frames.bytes.into()).map(|at| (at ^ n) as u8));
        let begun = self.send(&frame).await?;
        let seen = self.wait().await?;
        let latency_ps = self.cpu.now().since(begun).as_ps();
        if self.take(seen).await? != frame {
            return Err("it came back with other bytes".into());
        }
        self.cpu.sleep(PAUSE).await;
        let outside_ps = frames.on_wire.as_ps();
        let (bytes_read, bytes_written) = (frames.bytes, frames.bytes);
        Ok(EndedTransfer { latency_ps, outside_ps, bytes_read, bytes_written })
    }

    /// Sends `frame`. Returns the time of the doorbell.
    async fn send(&mut self, frame: &[u8]) -> Result<Time, DriverError> {
        let (buffer, at) = (self.rx_buffer(ENTRIES), self.tx_tail);
        self.cpu.memory().write(buffer, frame)?;
        self.describe(self.tx, at, buffer, SEND | frame.len() as u32)?;
        self.tx_tail = (at + 1) % ENTRIES;
        let rang = self.cpu.now();
        self.write(r::TDT, self.tx_tail).await?;
        Ok(rang)
    }

    async fn receive(&mut self) -> Result<Vec<u8>, DriverError> {
        let seen = self.wait().await?;
        self.take(seen).await
    }

    /// Polls the next receive descriptor until the NIC has written it back and the write is visible. Returns its second
    /// half.
    async fn wait(&self) -> Result<u64, DriverError> {
        let (at, until) = (self.rx_head, self.cpu.now() + self.settings.timeout);
        loop {
            let state = self.cpu.memory().read_u64(self.rx + 16 * u64::from(at) + 8)?;
            if state >> 32 & 1 == 1 {
                self.cpu.sleep_until(self.cpu.memory().visible_at()).await;
                return Ok(state);
            }
            self.look_again(until, "frame").await?;
        }
    }

    /// Takes the frame of a descriptor that was written back as `state`, and gives the buffer back.
    async fn take(&mut self, state: u64) -> Result<Vec<u8>, DriverError> {
        let at = self.rx_head;
        let mut frame = vec![0; (state as usize & 0xffff).min(BUFFER_BYTES as usize)];
        self.cpu.memory().read(self.rx_buffer(at), &mut frame)?;
        self.describe(self.rx, at, self.rx_buffer(at), 0)?;
        self.write(r::RDT, at).await?;
        self.rx_head = (at + 1) % ENTRIES;
        Ok(frame)
    }

    async fn resolve(&mut self) -> Result<Station, DriverError> {
        let wanted = Station { mac: BROADCAST, ip: PEER.ip };
        self.send(&Arp { kind: Kind::Request, from: self.local, to: wanted }.emit()).await?;
        match Frame::parse(&self.receive().await?).map_err(|e| format!("bad answer: {e}"))? {
            Frame::Arp(Arp { kind: Kind::Reply, from, to }) if from.ip == PEER.ip && to == self.local => {
                Ok(from)
            }
            other => Err(format!("not an answer: {other:?}").into()),
        }
    }

    async fn ping(&mut self, peer: Station, sequence: u16) -> Result<Duration, DriverError> {
        let data = (0..self.settings.bytes).map(|n| (n ^ sequence) as u8).collect();
        let request = Echo { kind: Kind::Request, from: self.local, to: peer, ident: IDENT, sequence, data };
        let rang = self.send(&request.emit()).await?;
        let frame = self.receive().await?;
        let trip = self.cpu.now().since(rang);
        let reply = Frame::parse(&frame).map_err(|e| format!("bad reply: {e}"))?;
        let expected = Echo { kind: Kind::Reply, from: peer, to: self.local, ..request };
        if reply == Frame::Echo(expected) {
            Ok(trip)
        } else {
            Err(format!("not its reply: {reply:?}").into())
        }
    }
}
