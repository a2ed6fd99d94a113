// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of a link, including FLIT mode, and the overhead that each adds to TLPs.
//!
//! riser simulates generations 1 to 5 ([`tlp::Rate`]). Generations 6 and 7 exist only in this crate: their results are
//! arithmetic on the figures below, which no simulation of riser has checked.
//!
//! ```text
//! one flit, 256 B:   236 B of TLPs | 6 B of DLP | 8 B of CRC | 6 B of FEC
//! ```
//!
//! In FLIT mode a TLP has no framing, sequence number or LCRC. Acks and credits travel in the DLP bytes of each flit,
//! whether needed or not. A base header is 3 DW for a CplD and a request with a 32-bit address, 4 DW with a 64-bit
//! address. Some overhead is *not* counted, because there is no figure that could be checked: SKP ordered sets, the DW
//! of orthogonal header content (OHC) that a TLP with a PASID, a TPH or partial DWs carries, flits that end in NOPs,
//! and replayed flits.
//!
//! This module simulates nothing.

use serde::Serialize;
use tlp::Rate;

/// Bytes of a flit.
pub(crate) const FLIT_BYTES: u32 = 256;

/// Bytes of TLPs in a flit.
pub(crate) const FLIT_TLP_BYTES: u32 = 236;

/// Signalling rates of the generations that have only FLIT mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FlitRate {
    /// 64 GT/s, generation 6.
    Gt64,
    /// 128 GT/s, generation 7.
    Gt128,
}

/// Signalling rate of a link, which decides the framing of TLPs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkRate {
    /// Each TLP has its own framing: generations 1 to 5.
    Framed(Rate),
    /// TLPs in flits: generations 6 and 7.
    Flit(FlitRate),
}

/// Basis of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Basis {
    /// A closed form that simulations of the same link agree with.
    #[serde(rename = "closed form")]
    ClosedForm,
    /// The published closed form of pcie-bench, including its mistakes.
    #[serde(rename = "closed form as published")]
    Published,
    /// FLIT mode, which riser does not simulate.
    #[serde(rename = "specification's arithmetic, not simulation")]
    Arithmetic,
}

impl Basis {
    /// Returns the words that all outputs use.
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
    /// Returns the rate of a generation, 1 to 7.
    pub fn from_generation(generation: u8) -> Option<LinkRate> {
        match generation {
            6 => Some(LinkRate::Flit(FlitRate::Gt64)),
            7 => Some(LinkRate::Flit(FlitRate::Gt128)),
            _ => Rate::from_generation(generation).map(LinkRate::Framed),
        }
    }

    /// Returns the generation that introduced this rate, 1 to 7.
    #[must_use]
    pub const fn generation(self) -> u8 {
        match self {
            LinkRate::Framed(rate) => rate.generation(),
            LinkRate::Flit(FlitRate::Gt64) => 6,
            LinkRate::Flit(FlitRate::Gt128) => 7,
        }
    }

    /// Returns the rate if each TLP has its own framing.
    #[must_use]
    pub const fn framed(self) -> Option<Rate> {
        match self {
            LinkRate::Framed(rate) => Some(rate),
            LinkRate::Flit(_) => None,
        }
    }

    /// Returns a symbol time (one byte on one lane) in nanoseconds, including the encoding. FLIT mode at 64 and 128 GT/s
    /// has no encoding: eight unit intervals.
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

    /// The parts of a flit add up, as in the module's documentation.
    #[test]
    fn parts_of_a_flit_add_up() {
        assert_eq!(FLIT_TLP_BYTES + 6 + 8 + 6, FLIT_BYTES);
    }

    #[test]
    fn converts_generations_to_rates_and_back() {
        for generation in 1..=7 {
            assert_eq!(LinkRate::from_generation(generation).unwrap().generation(), generation);
        }
        assert_eq!((LinkRate::from_generation(0), LinkRate::from_generation(8)), (None, None));
    }

    /// The displayed text is the same as in JSON.
    #[test]
    fn json_and_text_have_the_same_basis() {
        for basis in [Basis::ClosedForm, Basis::Published, Basis::Arithmetic] {
            assert_eq!(serde_json::to_value(basis).unwrap(), basis.text());
        }
    }
}
