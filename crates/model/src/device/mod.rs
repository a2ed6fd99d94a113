// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that move packets, as their transactions per packet: what a link lets them reach.
//!
//! A [`Description`] lists what a device and its driver do for each packet sent (TX) and received (RX): DMA of the
//! packet and of descriptors, accesses to registers, interrupts; each so often per so many packets. The model adds up
//! the TLPs that this makes in both directions, and says how many packets per second fit on the link
//! (pcie-bench, SIGCOMM'18, §3).
//!
//! - The exact form cuts each transaction into TLPs as requesters and completers must, and charges DLLPs by what the
//!   other direction carries ([`crate::exact()`] has the same rule).
//! - The published form counts with equations 1 to 3 of the paper, charges DLLPs a fixed share, and keeps the slip of the
//!   public NIC models: where a description says so, the header of a read request is left out.
//!
//! Sizes of packets include the FCS (IEEE 802.3 §3.2.8). The exact form moves packets without it, as NICs do; the published
//! form moves it too.
//!
//! Never models latency, nor how many transactions must be under way to reach the answer.

mod file;
mod shipped;

pub use file::DescriptionError;
pub use shipped::{SHIPPED, Shipped};

use crate::bandwidth::Direction;
use crate::ethernet::{self, ethernet_gbps};
use crate::wire::{self, Fit, Packets, Traffic};
use crate::{Addressing, Basis, Form, ModelError, Params, Transfer, published, split};
use serde::Serialize;

/// Who asks whom for what.
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

/// The side of a device that a transaction belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Packets sent.
    Tx,
    /// Packets received.
    Rx,
}

/// How long a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So many bytes, whatever the packet.
    Bytes(u32),
    /// As the packet crosses PCI Express: without its FCS, but in the published form.
    Packet,
}

/// What a device or its driver does again and again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// What it is for, in words.
    pub what: String,
    /// Whose packets it serves.
    pub side: Side,
    /// Who asks whom for what.
    pub kind: Kind,
    /// Its length.
    pub length: Length,
    /// Where it starts behind a 4 KiB boundary, in bytes.
    pub offset_bytes: u32,
    /// Width of the addresses of its requests, where it is not that of the link's others: message-signalled interrupts of x86
    /// go to 0xfee0_0000.
    pub addressing: Option<Addressing>,
    /// So many of them ...
    pub count: u32,
    /// ... per so many packets.
    pub per: u32,
    /// Published form: the header of the read request is left out, a slip of the public NIC models.
    pub published_omits_header: bool,
    /// Paper section, data sheet or assumption that says so.
    pub source: String,
}

/// A device with its driver, as its transactions per packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// What it is, in a line.
    pub description: String,
    /// All it does; at least one transaction.
    pub transactions: Vec<Transaction>,
}

/// Which packets are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packeting {
    /// Each packet sent goes with one received.
    Both,
    /// Packets sent alone.
    Tx,
    /// Packets received alone.
    Rx,
}

/// How many packets of one size a link lets through.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// What the answer rests on.
    pub basis: Basis,
    /// Bytes of a packet, FCS included.
    pub size_bytes: u32,
    /// Packets of one direction, times their size, in Gb/s.
    pub throughput_gbps: f64,
    /// Packets per second, in each direction that has any.
    pub packets_per_s: f64,
    /// The direction of the link that is full.
    pub bottleneck: Direction,
    /// Device to host.
    pub up: PacketLoad,
    /// Host to device.
    pub down: PacketLoad,
}

/// What one direction of the link carries per packet (both ways: per packet sent and packet received).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PacketLoad {
    /// TLPs.
    pub tlps: f64,
    /// Framing, headers and digests of the TLPs.
    pub overhead_bytes: f64,
    /// Data of the TLPs; exact form: in whole DWs.
    pub data_bytes: f64,
    /// DLLPs; published form: none, since they are a share of the link.
    pub dllps: f64,
    /// Share of what the direction can carry: 1 at the bottleneck.
    pub utilization: f64,
}

impl Packeting {
    const fn has(self, side: Side) -> bool {
        matches!((self, side), (Packeting::Both, _) | (Packeting::Tx, Side::Tx) | (Packeting::Rx, Side::Rx))
    }
}

impl Description {
    /// Reads a description from the text of its TOML file; `docs/reference/model.md` lists the keys.
    ///
    /// # Errors
    /// Where the text is not TOML, or a key or value is not legal: what, and where in the text.
    pub fn parse(text: &str) -> Result<Description, DescriptionError> {
        file::parse(text)
    }

    /// How many packets of `size_bytes`, FCS included, the link lets through.
    ///
    /// # Errors
    /// Where the size is not legal, where no transaction serves these packets, and in the published form where a
    /// transaction has an offset or the link is in FLIT mode.
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
        // Without a TLP there is no limit to speak of.
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

    /// The smallest size of `sizes`, which rise, from which on all of them reach the rate of an Ethernet of `gbps`.
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
        let params = &Params { addressing: self.addressing.unwrap_or(params.addressing), ..*params };
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

/// Into what a transaction falls, once.
struct Pieces {
    writes: u64,
    write_bytes: u64,
    reads: u64,
    /// Reads whose headers count.
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

    /// The ceilings of equations 1 to 3.
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

    /// A read asked for by `request`'s direction, and answered by the other.
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

/// The fuller direction, at the published TLP bandwidth.
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
