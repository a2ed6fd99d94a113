// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model asks about: a link, a transfer, and the figures of the specification that follow from them.
//!
//! Holds only legal values; never computes a bandwidth.

use crate::ethernet::FRAME_BYTES;
use crate::rate::{Basis, FLIT_BYTES, FLIT_TLP_BYTES, LinkRate};
use tlp::{Mps, Mrrs, Rcb, SizeError, Width};

/// Framing of a TLP on the wire, in bytes, beside its header and data: STP, sequence number, LCRC and END at
/// 8b/10b (`PCIe 5.0 §4.2.1.2`), the STP token and LCRC at 128b/130b (§4.2.2.3). Eight in both; none in FLIT mode.
const FRAMING_BYTES: u32 = 8;

/// ECRC digest in bytes (`PCIe 5.0 §2.2.3`).
const ECRC_BYTES: u32 = 4;

/// The page that no request crosses, in bytes (`PCIe 5.0 §2.2.7`): offsets count from its start.
const PAGE_BYTES: u32 = 4096;

/// The longest transfer the model counts: 16 MiB, so that an answer takes milliseconds.
pub(crate) const MAX_TRANSFER_BYTES: u32 = 16 << 20;

/// Why a question has no answer. Each text names the value and the legal ones.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ModelError {
    /// Not a generation that the model covers.
    #[error("generation {0}: legal are 1, 2, 3, 4, 5, 6, 7")]
    Generation(u8),
    /// The published form knows no FLIT mode.
    #[error("generation {0}: the published form knows 1, 2, 3, 4, 5, the exact form also 6, 7")]
    GenerationPublished(u8),
    /// FLIT mode has no DLLPs to count.
    #[error(
        "counted DLLPs at generation {0}: legal at 1, 2, 3, 4, 5, as flits carry Acks and credits themselves"
    )]
    DllpsInFlits(u8),
    /// Not a link width.
    #[error("{0} lanes: legal are 1, 2, 4, 8, 12, 16, 32")]
    Lanes(u8),
    /// Not a size that the specification knows.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// No bytes, or too many to count.
    #[error("transfer of {0} bytes: legal are 1 to {max}", max = MAX_TRANSFER_BYTES)]
    TransferSize(u32),
    /// Not a size of an Ethernet frame.
    #[error("frame of {0} B: legal are {min} to {max}, FCS included", min = FRAME_BYTES.start(), max = FRAME_BYTES.end())]
    FrameSize(u32),
    /// The offset is not one within a page.
    #[error("offset of {0} bytes: legal are 0 to {max}", max = PAGE_BYTES - 1)]
    Offset(u32),
    /// The published form knows no offsets.
    #[error("offset of {0} bytes: the published form knows only 0, the exact form takes others")]
    OffsetPublished(u32),
    /// A device that does nothing for such packets.
    #[error("no transaction of the device serves these packets: legal are packets that one does")]
    NoTransactions,
    /// Not a number of packets.
    #[error("{0} DLLPs per transfer: legal are finite numbers from 0 on")]
    Dllps(f64),
    /// Not a number above zero, or one that leads beyond all numbers.
    #[error("{0} of {1}: legal are finite numbers above 0")]
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

    const fn request_header_bytes(self) -> u32 {
        match self {
            Addressing::A32 => 12,
            Addressing::A64 => 16,
        }
    }
}

/// A link and what its two ends agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Signalling rate.
    pub rate: LinkRate,
    /// Number of lanes.
    pub width: Width,
    /// The longest data of one TLP.
    pub mps: Mps,
    /// The most that one memory read asks for.
    pub mrrs: Mrrs,
    /// Where completions of one read may be cut.
    pub rcb: Rcb,
    /// Addresses in memory requests.
    pub addressing: Addressing,
    /// Whether each TLP carries an ECRC.
    pub ecrc: bool,
}

/// A piece of host memory that a device moves in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Bytes, 1 to 16 Mi.
    pub size_bytes: u32,
    /// Where it starts behind a 4 KiB boundary, in bytes.
    pub offset_bytes: u32,
}

impl Transfer {
    /// `size_bytes` from a page's start on.
    pub const fn of(size_bytes: u32) -> Transfer {
        Transfer { size_bytes, offset_bytes: 0 }
    }

    /// # Errors
    /// Where size or offset are not legal.
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
    /// The link in a line: generation, lanes, sizes, addresses.
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

    /// What is to be said of generations 6 and 7 wherever a number of theirs stands; `None` of others.
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

    /// A link with 64-bit addresses and no ECRC, from plain numbers; sizes in bytes.
    ///
    /// # Errors
    /// Where the specification does not know one of them.
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

    /// What the lanes carry in one direction, encoding taken off, in Gb/s.
    pub fn raw_gbps(&self) -> f64 {
        self.bytes_per_symbol_time() * 8.0 / self.symbol_time_ns()
    }

    /// What an answer of the exact form rests on.
    pub const fn basis(&self) -> Basis {
        match self.rate {
            LinkRate::Framed(_) => Basis::ClosedForm,
            LinkRate::Flit(_) => Basis::Arithmetic,
        }
    }

    /// A symbol time (one byte on one lane) in nanoseconds.
    pub(crate) fn symbol_time_ns(&self) -> f64 {
        self.rate.symbol_time_ns()
    }

    /// Bytes that one direction carries in a symbol time: one per lane.
    pub(crate) fn bytes_per_symbol_time(&self) -> f64 {
        f64::from(self.width.lanes())
    }

    /// Share of the wire that SKP Ordered Sets take, at their longest interval: 4 symbols in 1538 symbol times at
    /// 8b/10b, one block in 375 at 128b/130b (`PCIe 5.0 §4.2.7`). Zero in FLIT mode, where they are not counted.
    pub fn skp_share(&self) -> f64 {
        match self.rate {
            LinkRate::Framed(rate) if rate.is_8b10b() => SKP_SHARE_8B10B,
            LinkRate::Framed(_) => 1.0 / 375.0,
            LinkRate::Flit(_) => 0.0,
        }
    }

    /// Share of the wire that is left for TLPs and DLLPs: all but SKP, or 236 of the 256 B of each flit.
    pub fn tlp_share(&self) -> f64 {
        match self.rate {
            LinkRate::Framed(_) => 1.0 - self.skp_share(),
            LinkRate::Flit(_) => f64::from(FLIT_TLP_BYTES) / f64::from(FLIT_BYTES),
        }
    }

    /// Ack Transmission Latency Limit, and UpdateFC interval, in symbol times; none in FLIT mode.
    pub fn ack_latency_limit(&self) -> Option<u32> {
        self.rate.framed().map(|rate| tlp::ack_latency_limit(rate, self.width, self.mps))
    }

    /// Bytes that a MWr or MRd takes on the wire beside its data: 24 with 64-bit addresses, 16 in FLIT mode.
    pub const fn request_overhead_bytes(&self) -> u32 {
        self.framing_bytes() + self.addressing.request_header_bytes() + self.ecrc_bytes()
    }

    /// Bytes that a CplD takes on the wire beside its data: 20, or 12 in FLIT mode.
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

/// SKP at 8b/10b: four symbols in 1538 symbol times. The published form takes it at every rate.
pub(crate) const SKP_SHARE_8B10B: f64 = 4.0 / 1538.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures at other rates: (generation, lanes, MPS, limit). The first two are 2.5 GT/s plus the difference of
    /// InternalDelay, the others are `PCIe 3.0 §3.5.3.1` worked by hand.
    #[test]
    fn ack_limits_at_other_rates() {
        for (generation, lanes, mps, limit) in
            [(2, 1, 128, 288), (2, 8, 256, 158), (3, 8, 256, 203), (3, 16, 512, 182), (5, 16, 512, 182)]
        {
            let params = Params::new(generation, lanes, mps, 512, 64).unwrap();
            assert_eq!(params.ack_latency_limit(), Some(limit), "gen {generation} x{lanes} MPS {mps}");
        }
    }

    #[test]
    fn raw_rates() {
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
    fn overheads() {
        let mut params = Params::new(3, 8, 256, 512, 64).unwrap();
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (24, 20));
        params.addressing = Addressing::A32;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (20, 20));
        params.ecrc = true;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (24, 24));
    }

    /// FLIT mode: base headers alone (facts of the module `rate`), and 236 of 256 B.
    #[test]
    fn flits() {
        let mut params = Params::new(6, 8, 256, 512, 64).unwrap();
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (16, 12));
        params.addressing = Addressing::A32;
        assert_eq!((params.request_overhead_bytes(), params.completion_overhead_bytes()), (12, 12));
        assert!((params.raw_gbps() * params.tlp_share() - 472.0).abs() < 1e-9, "512 * 236/256");
        assert_eq!((params.ack_latency_limit(), params.basis()), (None, Basis::Arithmetic));
    }

    #[test]
    fn errors_name_the_value_and_the_legal_ones() {
        let text = |p: Result<Params, ModelError>| p.unwrap_err().to_string();
        assert_eq!(text(Params::new(8, 8, 256, 512, 64)), "generation 8: legal are 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(text(Params::new(3, 3, 256, 512, 64)), "3 lanes: legal are 1, 2, 4, 8, 12, 16, 32");
        assert!(text(Params::new(3, 8, 100, 512, 64)).contains("128, 256, 512"));
        assert!(text(Params::new(3, 8, 256, 64, 64)).contains("128, 256, 512"));
        assert!(text(Params::new(3, 8, 256, 512, 256)).ends_with("legal are 64, 128"));
        for (transfer, says) in [
            (Transfer::of(0), "transfer of 0 bytes: legal are 1 to 16777216"),
            (Transfer { size_bytes: 8, offset_bytes: 4096 }, "offset of 4096 bytes: legal are 0 to 4095"),
        ] {
            assert_eq!(transfer.check().unwrap_err().to_string(), says);
        }
    }
}
