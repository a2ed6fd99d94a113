// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of the model as plain records, for JSON.

use crate::{Basis, Params, Transfer};
use serde::Serialize;

/// Form of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Counts wire bytes.
    Exact,
    /// The equations of pcie-bench §3, exactly as printed.
    Published,
}

impl Form {
    /// Returns the basis of answers of this form.
    #[must_use]
    pub const fn basis(self, params: &Params) -> Basis {
        match self {
            Form::Exact => params.basis(),
            Form::Published => Basis::Published,
        }
    }

    /// Returns `exact` or `published`.
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

/// Bandwidth of one transfer size over one link, with the inputs repeated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bandwidth {
    /// Form of the model.
    pub form: Form,
    /// Basis of the answer.
    pub basis: Basis,
    /// Generation: 1 to 5, in the exact form to 7.
    #[serde(rename = "gen")]
    pub generation: u8,
    /// Lanes.
    pub lanes: u8,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
    /// Read Completion Boundary in bytes; no effect in the published form.
    pub rcb_bytes: u32,
    /// Address width of requests: 32 or 64.
    pub addr_bits: u8,
    /// Whether TLPs carry an ECRC.
    pub ecrc: bool,
    /// Size of a transfer in bytes.
    pub size_bytes: u32,
    /// Start of a transfer after a 4 KiB boundary, in bytes.
    pub offset_bytes: u32,
    /// Rate of the lanes in one direction, without encoding.
    pub raw_gbps: f64,
    /// Rate that is left for TLPs with their framing, in one direction. In the exact form, this is the rate for a
    /// direction without DLLPs: the raw rate without SKP, or in FLIT mode 236 of 256 B. Published: raw without the
    /// paper's estimate for DLLPs and SKP.
    pub tlp_gbps: f64,
    /// Payload rate of memory writes only.
    pub write_gbps: f64,
    /// Payload rate of memory reads only.
    pub read_gbps: f64,
    /// Payload rate of one direction if reads and writes of this size alternate.
    pub read_write_gbps: f64,
    /// The equations; only in the published form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equations: Option<Equations>,
    /// Use of the wire; only in the exact form.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
}

/// Equations 1 to 3 of pcie-bench §3 as printed, in bytes per transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Equations {
    /// Equation 1, `Btx` of a write: `ceil(sz/MPS) * MWr_Hdr + sz`.
    pub btx_write_bytes: u64,
    /// Equation 2, `Btx` of a read: `ceil(sz/MRRS) * MRd_Hdr + sz`. The `+ sz` is a mistake of the paper, because a MRd
    /// carries no data. The value is only shown; bandwidths use the headers alone.
    pub btx_read_bytes: u64,
    /// Equation 3, `Brx` of a read: `ceil(sz/MPS) * CplD_Hdr + sz`.
    pub brx_read_bytes: u64,
}

/// The three kinds of traffic, with their use of the wire.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Flows {
    /// Writes only.
    pub write: Flow,
    /// Reads only.
    pub read: Flow,
    /// Alternating reads and writes.
    pub read_write: Flow,
}

/// Rate of one kind of traffic, and its bottleneck. A transfer of [`Flows::read_write`] is a pair: a write and a read
/// of the given size.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Flow {
    /// Payload rate of one direction.
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

/// Load of one direction for each transfer (pair).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DirectionLoad {
    /// TLPs.
    pub tlps: u64,
    /// Framing, sequence numbers, headers, ECRC and LCRC of the TLPs.
    pub overhead_bytes: u64,
    /// Data of the TLPs in whole DWs, including the padding of unaligned ends.
    pub data_bytes: u64,
    /// DLLPs, on average.
    pub dllps: f64,
    /// Sum of these bytes, with 8 B for each DLLP. Excludes SKP, and the bytes of a flit that do not carry TLPs.
    pub wire_bytes: f64,
    /// Share of the direction's capacity without SKP, or in FLIT mode without DLP, CRC and FEC: 1 at the bottleneck.
    pub utilization: f64,
}

impl Bandwidth {
    /// Returns the record with the inputs and without bandwidths.
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
