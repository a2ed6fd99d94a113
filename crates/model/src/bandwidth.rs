// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers of the model as plain records, ready for JSON. Never computes one.

use crate::{Basis, Params, Transfer};
use serde::Serialize;

/// Which of the two forms answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Wire bytes, counted.
    Exact,
    /// pcie-bench §3, as printed.
    Published,
}

impl Form {
    /// What an answer of this form rests on.
    #[must_use]
    pub const fn basis(self, params: &Params) -> Basis {
        match self {
            Form::Exact => params.basis(),
            Form::Published => Basis::Published,
        }
    }

    /// `exact` or `published`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Exact => "exact",
            Form::Published => "published",
        }
    }
}

/// A direction of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device to host.
    Up,
    /// Host to device.
    Down,
}

/// The bandwidth of one transfer size over one link, with the question repeated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bandwidth {
    /// Which form answered.
    pub form: Form,
    /// What the answer rests on.
    pub basis: Basis,
    /// Generation, 1 to 5; exact form: to 7.
    #[serde(rename = "gen")]
    pub generation: u8,
    /// Lanes.
    pub lanes: u8,
    /// Max_Payload_Size.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size.
    pub mrrs_bytes: u32,
    /// Read Completion Boundary; without effect in the published form.
    pub rcb_bytes: u32,
    /// Address width of requests: 32 or 64.
    pub addr_bits: u8,
    /// Whether TLPs carry an ECRC.
    pub ecrc: bool,
    /// Size of a transfer.
    pub size_bytes: u32,
    /// Start of a transfer behind a 4 KiB boundary.
    pub offset_bytes: u32,
    /// What the lanes carry in one direction, encoding taken off.
    pub raw_gbps: f64,
    /// What is left for TLPs, their framing included, in one direction. Exact: of a direction that carries no DLLPs,
    /// so raw less SKP, or in FLIT mode 236 of 256 B. Published: raw less its estimate for DLLPs and SKP.
    pub tlp_gbps: f64,
    /// Payload of memory writes alone.
    pub write_gbps: f64,
    /// Payload of memory reads alone.
    pub read_gbps: f64,
    /// Payload of one direction, where reads and writes of this size alternate.
    pub read_write_gbps: f64,
    /// Published form: its equations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equations: Option<Equations>,
    /// Exact form: where the bytes go.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
}

/// Equations 1 to 3 of pcie-bench §3 as printed, in bytes per transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Equations {
    /// Equation 1, `Btx` of a write: `ceil(sz/MPS) * MWr_Hdr + sz`.
    pub btx_write_bytes: u64,
    /// Equation 2, `Btx` of a read: `ceil(sz/MRRS) * MRd_Hdr + sz`. The `+ sz` is a slip, as a MRd carries no data:
    /// kept here, and used nowhere; bandwidths rest on the headers alone.
    pub btx_read_bytes: u64,
    /// Equation 3, `Brx` of a read: `ceil(sz/MPS) * CplD_Hdr + sz`.
    pub brx_read_bytes: u64,
}

/// The three kinds of traffic, each with what it puts on the wire.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Flows {
    /// Writes alone.
    pub write: Flow,
    /// Reads alone.
    pub read: Flow,
    /// One read and one write in turn.
    pub read_write: Flow,
}

/// What one kind of traffic reaches, and why not more. A transfer of [`Flows::read_write`] is a pair: a write and a
/// read of the size asked for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Flow {
    /// Payload of one direction.
    pub payload_gbps: f64,
    /// Transfers (pairs) per second.
    pub transfers_per_s: f64,
    /// The direction that is full.
    pub bottleneck: Direction,
    /// Device to host.
    pub up: DirectionLoad,
    /// Host to device.
    pub down: DirectionLoad,
}

/// What one direction carries for each transfer (pair).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DirectionLoad {
    /// TLPs.
    pub tlps: u64,
    /// Framing, sequence numbers, headers, ECRC and LCRC of the TLPs.
    pub overhead_bytes: u64,
    /// Data of the TLPs in whole DWs, so with the padding of unaligned ends.
    pub data_bytes: u64,
    /// DLLPs, on average.
    pub dllps: f64,
    /// All of these together, at 8 B a DLLP. SKP is not counted here, nor what a flit has beside TLPs.
    pub wire_bytes: f64,
    /// Share of what the direction can carry beside SKP, or in FLIT mode beside DLP, CRC and FEC: 1 at the bottleneck.
    pub utilization: f64,
}

impl Bandwidth {
    /// The question, with no bandwidth in it yet.
    pub(crate) fn unanswered(form: Form, params: &Params, transfer: Transfer) -> Bandwidth {
        Bandwidth {
            form,
            basis: form.basis(params),
            generation: params.rate.generation(),
            lanes: params.width.lanes(),
            mps_bytes: params.mps.bytes(),
            mrrs_bytes: params.mrrs.bytes(),
            rcb_bytes: params.rcb.bytes(),
            addr_bits: params.addressing.bits(),
            ecrc: params.ecrc,
            size_bytes: transfer.size_bytes,
            offset_bytes: transfer.offset_bytes,
            raw_gbps: params.raw_gbps(),
            tlp_gbps: 0.0,
            write_gbps: 0.0,
            read_gbps: 0.0,
            read_write_gbps: 0.0,
            equations: None,
            flows: None,
        }
    }
}
