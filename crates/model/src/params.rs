// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs of the model: a link, a transfer, and figures of the specification that follow from them.
//!
//! The types have only valid values. This module calculates no bandwidth.

use crate::rate::{Basis, FLIT_BYTES, FLIT_TLP_BYTES, LinkRate};
use std::ops::RangeInclusive;
use tlp::{Mps, Mrrs, Rcb, SizeError, Width};

/// Framing of a TLP on the wire in bytes, in addition to its header and data: STP, sequence number, LCRC and END at
/// 8b/10b (`PCIe 5.0 §4.2.1.2`), the STP token and LCRC at 128b/130b (§4.2.2.3). It has eight bytes in both encodings,
/// and zero in FLIT mode.
const FRAMING_BYTES: u32 = 8;

/// ECRC digest in bytes (`PCIe 5.0 §2.2.3`).
const ECRC_BYTES: u32 = 4;

/// Size of the page that requests do not cross, in bytes (`PCIe 5.0 §2.2.7`). Offsets count from its start.
const PAGE_BYTES: u32 = 4096;

/// Bytes of a frame with FCS: from the shortest (IEEE 802.3 §4.4.2) to the longest jumbo frame that NICs commonly accept.
pub const FRAME_BYTES: RangeInclusive<u32> = 64..=9216;

/// Longest transfer of the model: 16 MiB, so that an answer takes milliseconds.
pub(crate) const MAX_TRANSFER_BYTES: u32 = 16 << 20;

/// Reason why the model has no result. Each text has the value and the expected value.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ModelError {
    /// The model does not cover this generation.
    #[error("generation {0}: expected 1, 2, 3, 4, 5, 6, 7")]
    Generation(u8),
    /// The published form does not cover FLIT mode.
    #[error("generation {0}: expected 1 to 5 in the published form; only the exact form has 6 and 7")]
    GenerationPublished(u8),
    /// FLIT mode has no DLLPs to count.
    #[error(
        "counted DLLPs at generation {0}: expected generation 1 to 5, since flits carry Acks and credits themselves"
    )]
    DllpsInFlits(u8),
    /// Invalid link width.
    #[error("{0} lanes: expected 1, 2, 4, 8, 12, 16, 32")]
    Lanes(u8),
    /// Invalid size in the specification.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The size is 0, or too large.
    #[error("transfer of {0} bytes: expected 1 to {max}", max = MAX_TRANSFER_BYTES)]
    TransferSize(u32),
    /// Invalid size of an Ethernet frame.
    #[error("frame of {0} B: expected {min} to {max}, FCS included", min = FRAME_BYTES.start(), max = FRAME_BYTES.end())]
    FrameSize(u32),
    /// Invalid size of a TLP's data.
    #[error("TLP data of {0} B: expected 1 to 4096")]
    TlpData(u32),
    /// The offset is not within a page.
    #[error("offset of {0} bytes: expected 0 to {max}", max = PAGE_BYTES - 1)]
    Offset(u32),
    /// The published form does not cover offsets.
    #[error("offset of {0} bytes: expected 0 in the published form; only the exact form has offsets")]
    OffsetPublished(u32),
    /// No transaction of the device serves these packets.
    #[error("no transaction of the device serves these packets: expected at least one")]
    NoTransactions,
    /// Not a number of DLLPs.
    #[error("{0} DLLPs per transfer: expected a finite number from 0 on")]
    Dllps(f64),
    /// More transfers in flight than 2^32: latency and time from packet to packet in ns.
    #[error("a packet each {1} ns with a latency of {0} ns: expected at most 2^32 transfers in flight")]
    InFlight(f64, f64),
    /// The value is not a number above zero.
    #[error("{0} of {1}: expected a finite number above 0")]
    Positive(&'static str, f64),
}

/// Width of the addresses in memory requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Addressing {
    /// Below 4 GiB: headers of three DW.
    A32,
    /// From 4 GiB on: headers of four DW.
    #[default]
    A64,
}

impl Addressing {
    /// Bits of an address: 32 or 64.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Addressing::A32 => 32,
            Addressing::A64 => 64,
        }
    }

    pub(crate) const fn request_header_bytes(self) -> u32 {
        match self {
            Addressing::A32 => 12,
            Addressing::A64 => 16,
        }
    }
}

/// A link with its configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Signalling rate.
    pub rate: LinkRate,
    /// Number of lanes.
    pub width: Width,
    /// Max_Payload_Size.
    pub mps: Mps,
    /// Max_Read_Request_Size.
    pub mrrs: Mrrs,
    /// Read Completion Boundary.
    pub rcb: Rcb,
    /// Address width of memory requests.
    pub addressing: Addressing,
    /// Whether each TLP carries an ECRC.
    pub ecrc: bool,
}

/// A range of host memory that a device moves at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Size in bytes, 1 to 16 Mi.
    pub size_bytes: u32,
    /// Start after a 4 KiB boundary, in bytes.
    pub offset_bytes: u32,
}

impl Transfer {
    /// Returns a transfer of `size_bytes` from the start of a page.
    pub const fn of(size_bytes: u32) -> Transfer {
        Transfer { size_bytes, offset_bytes: 0 }
    }

    /// # Errors
    /// An invalid size or offset.
    pub(crate) fn check(self) -> Result<(), ModelError> {
        if !(1..=MAX_TRANSFER_BYTES).contains(&self.size_bytes) {
            return Err(ModelError::TransferSize(self.size_bytes));
        }
        if self.offset_bytes >= PAGE_BYTES {
            return Err(ModelError::Offset(self.offset_bytes));
        }
        Ok(())
    }
}

impl Params {
    /// Describes the link in one line: generation, lanes, sizes, addresses.
    pub fn describe(&self) -> String {
        format!(
            "Gen{} {}, MPS {}, MRRS {}, RCB {}, {}-bit addresses{}",
            self.rate.generation(),
            self.width,
            self.mps,
            self.mrrs,
            self.rcb,
            self.addressing.bits(),
            if self.ecrc { ", ECRC" } else { "" }
        )
    }

    /// Returns the note for generations 6 and 7, which belongs to each of their results; `None` for other generations.
    pub fn flit_note(&self) -> Option<String> {
        (self.basis() == Basis::Arithmetic).then(|| {
            format!(
                "Generation {}: {}. Flits of 256 B with 236 B of TLPs; headers of {} B for MRd and MWr, {} B for CplD; no \
                 DLLPs. Not counted: SKP ordered sets, OHC, NOPs, replay.",
                self.rate.generation(),
                self.basis().text(),
                self.request_overhead_bytes(),
                self.completion_overhead_bytes()
            )
        })
    }

    /// Returns a link with 64-bit addresses and no ECRC, from plain numbers; sizes in bytes.
    ///
    /// # Errors
    /// A value that the specification does not have.
    pub fn new(generation: u8, lanes: u8, mps: u32, mrrs: u32, rcb: u32) -> Result<Params, ModelError> {
        Ok(Params {
            rate: LinkRate::from_generation(generation).ok_or(ModelError::Generation(generation))?,
            width: Width::new(lanes).ok_or(ModelError::Lanes(lanes))?,
            mps: Mps::new(mps)?,
            mrrs: Mrrs::new(mrrs)?,
            rcb: Rcb::new(rcb)?,
            addressing: Addressing::A64,
            ecrc: false,
        })
    }

    /// Returns the rate of the lanes in one direction, without encoding, in Gb/s.
    pub fn raw_gbps(&self) -> f64 {
        self.bytes_per_symbol_time() * 8.0 / self.symbol_time_ns()
    }

    /// Returns the basis of answers of the exact form.
    pub const fn basis(&self) -> Basis {
        match self.rate {
            LinkRate::Framed(_) => Basis::ClosedForm,
            LinkRate::Flit(_) => Basis::Arithmetic,
        }
    }

    /// Returns a symbol time (one byte on one lane) in nanoseconds.
    pub(crate) fn symbol_time_ns(&self) -> f64 {
        self.rate.symbol_time_ns()
    }

    /// Returns the bytes that one direction carries in a symbol time: one per lane.
    pub(crate) fn bytes_per_symbol_time(&self) -> f64 {
        f64::from(self.width.lanes())
    }

    /// Returns the share of the wire that SKP Ordered Sets take at their longest interval: 4 symbols in 1538 symbol
    /// times at 8b/10b, one block in 375 at 128b/130b (`PCIe 5.0 §4.2.7`). Zero in FLIT mode, which does not count
    /// them.
    pub fn skp_share(&self) -> f64 {
        match self.rate {
            LinkRate::Framed(rate) if rate.is_8b10b() => SKP_SHARE_8B10B,
            LinkRate::Framed(_) => 1.0 / 375.0,
            LinkRate::Flit(_) => 0.0,
        }
    }

    /// Returns the share of the wire that is left for TLPs and DLLPs: all except SKP, or 236 of the 256 B of each flit.
    pub fn tlp_share(&self) -> f64 {
        match self.rate {
            LinkRate::Framed(_) => 1.0 - self.skp_share(),
            LinkRate::Flit(_) => f64::from(FLIT_TLP_BYTES) / f64::from(FLIT_BYTES),
        }
    }

    /// Returns the Ack Transmission Latency Limit, which is also the UpdateFC interval, in symbol times; `None` in FLIT
    /// mode.
    pub fn ack_latency_limit(&self) -> Option<u32> {
        self.rate.framed().map(|rate| tlp::ack_latency_limit(rate, self.width, self.mps))
    }

    /// Returns the bytes of a MWr or MRd on the wire without its data: 24 with 64-bit addresses, 16 in FLIT mode.
    pub const fn request_overhead_bytes(&self) -> u32 {
        self.framing_bytes() + self.addressing.request_header_bytes() + self.ecrc_bytes()
    }

    /// Returns the bytes of a CplD on the wire without its data: 20, or 12 in FLIT mode.
    pub const fn completion_overhead_bytes(&self) -> u32 {
        self.framing_bytes() + 12 + self.ecrc_bytes()
    }

    const fn framing_bytes(&self) -> u32 {
        match self.rate {
            LinkRate::Framed(_) => FRAMING_BYTES,
            LinkRate::Flit(_) => 0,
        }
    }

    const fn ecrc_bytes(&self) -> u32 {
        if self.ecrc { ECRC_BYTES } else { 0 }
    }
}

/// SKP at 8b/10b: four symbols in 1538 symbol times. The published form uses it at every rate.
pub(crate) const SKP_SHARE_8B10B: f64 = 4.0 / 1538.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits at other rates: (generation, lanes, MPS, limit). The first two are 2.5 GT/s plus the difference of
    /// InternalDelay. The other values follow `PCIe 3.0 §3.5.3.1`, calculated by hand.
    #[test]
    fn ack_limits_follow_the_specification() {
        for (generation, lanes, mps, limit) in
            [(2, 1, 128, 288), (2, 8, 256, 158), (3, 8, 256, 203), (3, 16, 512, 182), (5, 16, 512, 182)]
        {
            let params = Params::new(generation, lanes, mps, 512, 64).unwrap();
            assert_eq!(params.ack_latency_limit(), Some(limit), "gen {generation} x{lanes} MPS {mps}");
        }
    }

    #[test]
    fn raw_rates_exclude_the_encoding() {
        for (generation, lanes, gbps) in [
            (1, 1, 2.0),
            (2, 4, 16.0),
            (3, 8, 63.015_384_615),
            (4, 16, 252.061_538),
            (5, 16, 504.123_077),
            (6, 16, 1024.0),
            (7, 4, 512.0),
        ] {
            let raw = Params::new(generation, lanes, 128, 512, 64).unwrap().raw_gbps();
            assert!((raw - gbps).abs() < 1e-6, "gen {generation} x{lanes}: {raw}");
        }
    }

    /// 24 B and 20 B: pcie-bench §3.
    #[test]
    fn overheads_match_pcie_bench() {
        let mut params = Params::new(3, 8, 256, 512, 64).unwrap();
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (24, 20));
        params.addressing = Addressing::A32;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (20, 20));
        params.ecrc = true;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (24, 24));
    }

    /// FLIT mode: only base headers (figures of the module `rate`), and 236 of 256 B.
    #[test]
    fn flits_have_only_base_headers() {
        let mut params = Params::new(6, 8, 256, 512, 64).unwrap();
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (16, 12));
        params.addressing = Addressing::A32;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (12, 12));
        assert!((params.raw_gbps() * params.tlp_share() - 472.0).abs() < 1e-9, "512 * 236/256");
        assert_eq!((params.ack_latency_limit(), params.basis()), (None, Basis::Arithmetic));
    }

    #[test]
    fn errors_name_the_value_and_the_range() {
        let text = |p: Result<Params, ModelError>| p.unwrap_err().to_string();
        assert_eq!(text(Params::new(8, 8, 256, 512, 64)), "generation 8: expected 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(text(Params::new(3, 3, 256, 512, 64)), "3 lanes: expected 1, 2, 4, 8, 12, 16, 32");
        assert!(text(Params::new(3, 8, 100, 512, 64)).contains("128, 256, 512"));
        assert!(text(Params::new(3, 8, 256, 64, 64)).contains("128, 256, 512"));
        assert!(text(Params::new(3, 8, 256, 512, 256)).ends_with("expected 64, 128"));
        for (transfer, says) in [
            (Transfer::of(0), "transfer of 0 bytes: expected 1 to 16777216"),
            (Transfer { size_bytes: 8, offset_bytes: 4096 }, "offset of 4096 bytes: expected 0 to 4095"),
        ] {
            assert_eq!(transfer.check().unwrap_err().to_string(), says);
        }
    }
}
