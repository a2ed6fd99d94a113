// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of a link, those of FLIT mode included, and what each puts beside the TLPs.
//!
//! Generations 1 to 5 are those that riser simulates ([`tlp::Rate`]). Generations 6 and 7 exist in this crate only: what it
//! says of them is arithmetic on the figures below, which no simulation of riser's has checked.
//!
//! ```text
//! one flit, 256 B:   236 B of TLPs | 6 B of DLP | 8 B of CRC | 6 B of FEC
//! ```
//!
//! In FLIT mode a TLP has no framing, sequence number or LCRC of its own; Acks and credits travel in the DLP bytes of
//! each flit, whether needed or not. A base header is 3 DW for a CplD and a request with a 32-bit address, 4 DW with a
//! 64-bit address. What is *not* counted, for want of a figure that could be checked: SKP ordered sets, the DW of
//! orthogonal header content (OHC) that a TLP with a PASID, a TPH or partial DWs carries, flits that end in NOPs, and
//! replayed flits.
//!
//! Never simulates.

use serde::Serialize;
use tlp::Rate;

/// Bytes of a flit.
pub(crate) const FLIT_BYTES: u32 = 256;

/// Bytes of TLPs in a flit.
pub(crate) const FLIT_TLP_BYTES: u32 = 236;

/// Signalling rates of the generations that know only FLIT mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FlitRate {
    /// 64 GT/s, generation 6.
    Gt64,
    /// 128 GT/s, generation 7.
    Gt128,
}

/// The signalling rate of a link, and with it how TLPs travel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkRate {
    /// Each TLP framed by itself: generations 1 to 5.
    Framed(Rate),
    /// TLPs in flits: generations 6 and 7.
    Flit(FlitRate),
}

/// What an answer rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Basis {
    /// A closed form that simulations of the same link agree with.
    #[serde(rename = "closed form")]
    ClosedForm,
    /// The published closed form: pcie-bench's, its slips included.
    #[serde(rename = "closed form as published")]
    Published,
    /// FLIT mode, which nothing here simulates.
    #[serde(rename = "specification's arithmetic, not simulation")]
    Arithmetic,
}

impl Basis {
    /// The words that every output says.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Basis::ClosedForm => "closed form",
            Basis::Published => "closed form as published",
            Basis::Arithmetic => "specification's arithmetic, not simulation",
        }
    }
}

impl LinkRate {
    /// The rate of a generation, 1 to 7.
    pub fn from_generation(generation: u8) -> Option<LinkRate> {
        match generation {
            6 => Some(LinkRate::Flit(FlitRate::Gt64)),
            7 => Some(LinkRate::Flit(FlitRate::Gt128)),
            _ => Rate::from_generation(generation).map(LinkRate::Framed),
        }
    }

    /// The generation that brought this rate, 1 to 7.
    #[must_use]
    pub const fn generation(self) -> u8 {
        match self {
            LinkRate::Framed(rate) => rate.generation(),
            LinkRate::Flit(FlitRate::Gt64) => 6,
            LinkRate::Flit(FlitRate::Gt128) => 7,
        }
    }

    /// The rate, where TLPs are framed by themselves.
    #[must_use]
    pub const fn framed(self) -> Option<Rate> {
        match self {
            LinkRate::Framed(rate) => Some(rate),
            LinkRate::Flit(_) => None,
        }
    }

    /// A symbol time (one byte on one lane) in nanoseconds, encoding included. FLIT mode at 64 and 128 GT/s has no
    /// encoding: eight unit intervals.
    pub(crate) fn symbol_time_ns(self) -> f64 {
        match self {
            LinkRate::Framed(rate) => {
                let ps = rate.symbol_time_ps();
                ps.num as f64 / ps.den as f64 / 1e3
            }
            LinkRate::Flit(FlitRate::Gt64) => 8.0 / 64.0,
            LinkRate::Flit(FlitRate::Gt128) => 8.0 / 128.0,
        }
    }
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> LinkRate {
        LinkRate::Framed(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a flit add up (the picture in the module's head).
    #[test]
    fn a_flit_is_full() {
        assert_eq!(FLIT_TLP_BYTES + 6 + 8 + 6, FLIT_BYTES);
    }

    #[test]
    fn generations() {
        for generation in 1..=7 {
            assert_eq!(LinkRate::from_generation(generation).unwrap().generation(), generation);
        }
        assert_eq!((LinkRate::from_generation(0), LinkRate::from_generation(8)), (None, None));
    }

    /// The text that people read is the one that JSON has.
    #[test]
    fn a_basis_has_one_text() {
        for basis in [Basis::ClosedForm, Basis::Published, Basis::Arithmetic] {
            assert_eq!(serde_json::to_value(basis).unwrap(), basis.text());
        }
    }
}
