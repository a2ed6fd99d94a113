// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many transfers a NIC must have under way: a new packet comes while those before it still wait for host memory
//! (pcie-bench, SIGCOMM'18, §2 and §7).
//!
//! ```text
//! transfers under way = latency of one / time from packet to packet        (Little's law)
//! ```
//!
//! The paper states the number twice, and not by one arithmetic: in §7 it quotes 560 to 666 ns for 128 B and 29.6 ns from
//! packet to packet, which is 19 to 23, and says "at least 30", which is the 900 ns of §2 over "around every 30 ns".
//! [`Quoted`] has both as printed. Never measures a latency.

use crate::ModelError;
use serde::Serialize;

/// What a latency grows by where the IOMMU has no translation, as SIGCOMM'18, §7 has it: around 330 ns.
pub const IOMMU_MISS_NS: f64 = 330.0;

/// A latency that the paper prints for 128 B.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quoted {
    /// By which it is asked for.
    pub name: &'static str,
    /// From, in ns.
    pub least_ns: f64,
    /// To, in ns.
    pub most_ns: f64,
    /// Time from packet to packet that the paper divides by, in ns, at 128 B and 40 Gb/s.
    pub packet_ns: f64,
    /// What the paper says comes out.
    pub says: u32,
    /// Where, and what of.
    pub source: &'static str,
}

/// The latencies that the paper prints.
pub const QUOTED: [Quoted; 2] = [
    Quoted {
        name: "section-2",
        least_ns: 900.0,
        most_ns: 900.0,
        packet_ns: 30.0,
        says: 30,
        source: "SIGCOMM'18 §2: around 900 ns of PCIe in a loop-back of 128 B; a packet around every 30 ns",
    },
    Quoted {
        name: "section-7",
        least_ns: 560.0,
        most_ns: 666.0,
        packet_ns: 29.6,
        says: 30,
        source: "SIGCOMM'18 §7: 560 to 666 ns for a transfer of 128 B on NFP6000-HSW; a packet every 29.6 ns",
    },
];

impl Quoted {
    /// The one called `name`.
    pub fn find(name: &str) -> Option<&'static Quoted> {
        QUOTED.iter().find(|q| q.name == name)
    }
}

/// How many transfers must be under way for one latency.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct InFlight {
    /// From the request to the last byte, in ns.
    pub latency_ns: f64,
    /// From packet to packet, in ns.
    pub packet_ns: f64,
    /// Their quotient.
    pub exact: f64,
    /// Whole transfers: the quotient rounded up.
    pub needed: u32,
}

/// How many transfers of `latency_ns` must be under way where a packet comes every `packet_ns`.
///
/// # Errors
/// Where either is not a positive number, or the answer is beyond 2^32.
pub fn in_flight(latency_ns: f64, packet_ns: f64) -> Result<InFlight, ModelError> {
    for (name, value) in [("latency in ns", latency_ns), ("time from packet to packet in ns", packet_ns)] {
        if !value.is_finite() || value <= 0.0 {
            return Err(ModelError::Positive(name, value));
        }
    }
    let exact = latency_ns / packet_ns;
    // What is whole but for the last digit of a double is whole.
    let whole = (exact - 1e-9).ceil();
    if whole > f64::from(u32::MAX) {
        return Err(ModelError::Positive("time from packet to packet in ns", packet_ns));
    }
    Ok(InFlight { latency_ns, packet_ns, exact, needed: whole as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The paper's two latencies by its own times from packet to packet: 30, and 19 to 23.
    #[test]
    fn the_papers_numbers() {
        let needed =
            |q: &Quoted| [q.least_ns, q.most_ns].map(|ns| in_flight(ns, q.packet_ns).unwrap().needed);
        assert_eq!(needed(&QUOTED[0]), [30, 30]);
        assert_eq!(needed(&QUOTED[1]), [19, 23]);
        // Rounded less, §2 has 30.4.
        let exact = in_flight(900.0, 29.6).unwrap();
        assert_eq!(((exact.exact * 10.0).round() as u32, exact.needed), (304, 31));
    }

    #[test]
    fn what_is_not_legal() {
        let text = |r: Result<InFlight, ModelError>| r.unwrap_err().to_string();
        assert_eq!(text(in_flight(0.0, 1.0)), "latency in ns of 0: legal are finite numbers above 0");
        assert_eq!(
            text(in_flight(1e300, 1e-3)),
            "time from packet to packet in ns of 0.001: legal are finite numbers above 0"
        );
    }

    proptest! {
        /// No fewer would do, and one more is never asked for.
        #[test]
        fn needed_is_the_least_that_suffices(latency in 1.0f64..1e5, packet in 0.1f64..1e4) {
            let answer = in_flight(latency, packet).unwrap();
            let needed = f64::from(answer.needed);
            prop_assert!(needed * packet >= latency * (1.0 - 1e-6));
            prop_assert!((needed - 1.0) * packet < latency);
        }
    }
}
