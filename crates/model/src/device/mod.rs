// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that move packets, described by their transactions per packet, and the rate that a link allows.
//!
//! A [`Description`] lists the transactions of a device and its driver for each packet sent (TX) and received (RX): DMA of
//! the packet and of descriptors, register accesses and interrupts. Each occurs a given number of times per number of
//! packets. The model adds up the resulting TLPs in both directions, and calculates how many packets per second fit on the
//! link (pcie-bench, SIGCOMM'18, §3).
//!
//! - The exact form splits each transaction into TLPs as requesters and completers must, and adds DLLPs for the traffic of
//!   the other direction ([`crate::exact()`] has the same rule).
//! - The published form uses equations 1 to 3 of the paper, charges a fixed share for DLLPs, and keeps a mistake of the
//!   public NIC models: it omits the header of a read request if the description says so.
//!
//! Sizes of packets include the FCS (IEEE 802.3 §3.2.8). The exact form moves packets without the FCS, like NICs. The
//! published form also moves the FCS.
//!
//! The model does not cover latency, or the number of transactions that must be in flight to reach the result.

mod file;
mod shipped;

pub use file::DescriptionError;
pub use shipped::{SHIPPED, Shipped};

use crate::bandwidth::Direction;
use crate::ethernet::{self, ethernet_gbps};
use crate::wire::{self, Fit, Packets, Traffic};
use crate::{Addressing, Basis, Form, ModelError, Params, Transfer, published, split};
use serde::Serialize;

/// Requester and direction of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The device reads host memory: MRd up, CplD down.
    DmaRead,
    /// The device writes host memory: MWr up.
    DmaWrite,
    /// The host reads a register: MRd down, CplD up.
    MmioRead,
    /// The host writes a register: MWr down.
    MmioWrite,
    /// A message-signalled interrupt: a MWr of 4 B up.
    Interrupt,
}

/// The packets that a transaction serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Packets sent.
    Tx,
    /// Packets received.
    Rx,
}

/// Length of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// This many bytes, for any packet.
    Bytes(u32),
    /// The packet in the form in which it crosses PCI Express: without its FCS, except in the published form.
    Packet,
}

/// A repeated action of a device or its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its purpose, in words.
    pub what: String,
    /// The packets that the transaction serves.
    pub side: Side,
    /// Requester and direction.
    pub kind: Kind,
    /// Its length.
    pub length: Length,
    /// Its start after a 4 KiB boundary, in bytes.
    pub offset_bytes: u32,
    /// Address width of the transaction's requests. The default is the address width of the link. Message-signalled interrupts have 32 bits
    /// in the exact form, because x86 has them at 0xfee0_0000.
    pub addressing: Option<Addressing>,
    /// This many of them ...
    pub count: u32,
    /// ... per this many packets.
    pub per: u32,
    /// In the published form, omit the header of the read request, a mistake of the public NIC models.
    pub published_omits_header: bool,
    /// Source: section of the paper, data sheet, or assumption.
    pub source: String,
}

/// A device with its driver, described by transactions per packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Description in one line.
    pub description: String,
    /// The device's transactions; at least one.
    pub transactions: Vec<Transaction>,
}

/// Directions of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packeting {
    /// One packet is received for each packet sent.
    Both,
    /// Packets are only sent.
    Tx,
    /// Packets are only received.
    Rx,
}

/// Rate of packets of one size that a link allows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// Basis of the answer.
    pub basis: Basis,
    /// Bytes of a packet, including the FCS.
    pub size_bytes: u32,
    /// Rate of packets in one direction multiplied by their size, in Gb/s.
    pub throughput_gbps: f64,
    /// Packets per second in each direction with packets.
    pub packets_per_s: f64,
    /// The direction of the link that is full.
    pub bottleneck: Direction,
    /// Device to host.
    pub up: PacketLoad,
    /// Host to device.
    pub down: PacketLoad,
}

/// Load of one direction of the link per packet (with both directions: per pair of a sent and a received packet).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PacketLoad {
    /// TLPs.
    pub tlps: f64,
    /// Framing, headers and digests of the TLPs.
    pub overhead_bytes: f64,
    /// Data of the TLPs; exact form: in whole DWs.
    pub data_bytes: f64,
    /// DLLPs; 0 in the published form, which charges them as a share of the link.
    pub dllps: f64,
    /// Share of the direction's capacity: 1 at the bottleneck.
    pub utilization: f64,
}

impl Packeting {
    const fn has(self, side: Side) -> bool {
        matches!((self, side), (Packeting::Both, _) | (Packeting::Tx, Side::Tx) | (Packeting::Rx, Side::Rx))
    }
}

impl Description {
    /// Parses a description from the text of its TOML file. `docs/reference/model.md` lists the keys.
    ///
    /// # Errors
    /// The text is not TOML, or a key or value is invalid. The error names the fault and its place in the text.
    pub fn parse(text: &str) -> Result<Description, DescriptionError> {
        file::parse(text)
    }

    /// Returns the rate of packets of `size_bytes`, including the FCS, that the link allows.
    ///
    /// # Errors
    /// The size is invalid, or no transaction serves these packets. In the published form also: a transaction has an
    /// offset, or the link is in FLIT mode.
    pub fn throughput(
        &self,
        params: &Params,
        form: Form,
        packeting: Packeting,
        size_bytes: u32,
    ) -> Result<Throughput, ModelError> {
        let mut traffic = Traffic::default();
        let moved_bytes = ethernet::moved_bytes(form, size_bytes)?;
        for transaction in self.transactions.iter().filter(|t| packeting.has(t.side)) {
            transaction.add_to(&mut traffic, params, form, moved_bytes)?;
        }
        let fit = match form {
            Form::Exact => wire::fit(params, &traffic, None),
            Form::Published => published_fit(params, &traffic)?,
        };
        // If there are no TLPs, there is no limit.
        if !fit.units_per_s.is_finite() {
            return Err(ModelError::NoTransactions);
        }
        Ok(Throughput {
            basis: form.basis(params),
            size_bytes,
            throughput_gbps: fit.units_per_s * f64::from(size_bytes) * 8.0 / 1e9,
            packets_per_s: fit.units_per_s,
            bottleneck: fit.bottleneck,
            up: PacketLoad::of(&traffic.up, fit.up),
            down: PacketLoad::of(&traffic.down, fit.down),
        })
    }

    /// Returns the smallest of `sizes`, which must rise, such that this size and all larger sizes reach the rate of an
    /// Ethernet of `gbps`.
    ///
    /// # Errors
    /// As [`Description::throughput`].
    pub fn holds_ethernet_from(
        &self,
        params: &Params,
        form: Form,
        packeting: Packeting,
        gbps: f64,
        sizes: impl DoubleEndedIterator<Item = u32>,
    ) -> Result<Option<u32>, ModelError> {
        let mut from = None;
        for size in sizes.rev() {
            let reached = self.throughput(params, form, packeting, size)?.throughput_gbps;
            if reached < ethernet_gbps(gbps, size) {
                break;
            }
            from = Some(size);
        }
        Ok(from)
    }
}

impl Transaction {
    fn add_to(
        &self,
        traffic: &mut Traffic,
        params: &Params,
        form: Form,
        moved_bytes: u32,
    ) -> Result<(), ModelError> {
        let size_bytes = match self.length {
            Length::Bytes(bytes) => bytes,
            Length::Packet => moved_bytes,
        };
        let transfer = Transfer { size_bytes, offset_bytes: self.offset_bytes };
        let addressing = self.addressing.unwrap_or(match (form, self.kind) {
            (Form::Exact, Kind::Interrupt) => Addressing::A32,
            _ => params.addressing,
        });
        let params = &Params { addressing, ..*params };
        let pieces = match form {
            Form::Exact => Pieces::exact(params, transfer)?,
            Form::Published => Pieces::published(params, transfer, self.published_omits_header)?,
        };
        let often = f64::from(self.count) / f64::from(self.per);
        let (up, down) = (&mut traffic.up, &mut traffic.down);
        match self.kind {
            Kind::DmaRead => pieces.read(params, often, up, down),
            Kind::MmioRead => pieces.read(params, often, down, up),
            Kind::DmaWrite | Kind::Interrupt => pieces.write(params, often, up),
            Kind::MmioWrite => pieces.write(params, often, down),
        }
        Ok(())
    }
}

/// The TLPs of one transaction.
struct Pieces {
    writes: u64,
    write_bytes: u64,
    reads: u64,
    /// Reads whose headers are charged.
    read_headers: u64,
    completions: u64,
    completion_bytes: u64,
}

impl Pieces {
    fn exact(params: &Params, transfer: Transfer) -> Result<Pieces, ModelError> {
        transfer.check()?;
        let (writes, completions) = (split::writes(params, transfer), split::completions(params, transfer));
        let reads = split::reads(params, transfer).tlps;
        Ok(Pieces {
            writes: writes.tlps,
            write_bytes: writes.data_dw * 4,
            reads,
            read_headers: reads,
            completions: completions.tlps,
            completion_bytes: completions.data_dw * 4,
        })
    }

    /// Counts TLPs by the ceilings of equations 1 to 3.
    fn published(params: &Params, transfer: Transfer, omits_header: bool) -> Result<Pieces, ModelError> {
        published::check(transfer)?;
        let size = u64::from(transfer.size_bytes);
        let by_mps = size.div_ceil(u64::from(params.mps.bytes()));
        let reads = size.div_ceil(u64::from(params.mrrs.bytes()));
        Ok(Pieces {
            writes: by_mps,
            write_bytes: size,
            reads,
            read_headers: if omits_header { 0 } else { reads },
            completions: by_mps,
            completion_bytes: size,
        })
    }

    fn write(&self, params: &Params, often: f64, way: &mut Packets) {
        way.posted += often * self.writes as f64;
        way.overhead_bytes += often * self.writes as f64 * f64::from(params.request_overhead_bytes());
        way.data_bytes += often * self.write_bytes as f64;
    }

    /// Adds a read whose request travels in direction `request` and whose completions travel in direction `answer`.
    fn read(&self, params: &Params, often: f64, request: &mut Packets, answer: &mut Packets) {
        request.non_posted += often * self.reads as f64;
        request.overhead_bytes +=
            often * self.read_headers as f64 * f64::from(params.request_overhead_bytes());
        answer.completions += often * self.completions as f64;
        answer.overhead_bytes +=
            often * self.completions as f64 * f64::from(params.completion_overhead_bytes());
        answer.data_bytes += often * self.completion_bytes as f64;
    }
}

/// Returns the rate at which the fuller direction uses the published TLP bandwidth.
fn published_fit(params: &Params, traffic: &Traffic) -> Result<Fit, ModelError> {
    let (up, down) = (traffic.up.tlp_bytes(), traffic.down.tlp_bytes());
    let full = up.max(down);
    let load = |bytes: f64| wire::Load { dllps: 0.0, wire_bytes: bytes, utilization: bytes / full };
    Ok(Fit {
        units_per_s: published::tlp_gbps(params)? * 1e9 / (8.0 * full),
        bottleneck: if up >= down { Direction::Up } else { Direction::Down },
        up: load(up),
        down: load(down),
    })
}

impl PacketLoad {
    fn of(packets: &Packets, load: wire::Load) -> PacketLoad {
        PacketLoad {
            tlps: packets.tlps(),
            overhead_bytes: packets.overhead_bytes,
            data_bytes: packets.data_bytes,
            dllps: load.dllps,
            utilization: load.utilization,
        }
    }
}

#[cfg(test)]
mod tests;
