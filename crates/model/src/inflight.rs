// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number of transfers that a NIC must have in flight: new packets arrive while earlier ones still wait for host
//! memory (pcie-bench, SIGCOMM'18, §2 and §7).
//!
//! ```text
//! !transfers in flight = latency of one / time from packet to packet        (Little's law)
//! ```
//!
//! The paper gives the number twice, with different arithmetic. In §7 it has 560 to 666 ns for 128 B and 29.6 ns from
//! packet to packet, which gives 19 to 23. The paper says "at least 30", which is the 900 ns of §2 divided by "around
//! every 30 ns". [`Quoted`] has both as printed. This module measures no latency.

use crate::ModelError;
use serde::Serialize;

/// Additional latency if the IOMMU has no translation: around 330 ns (SIGCOMM'18, §7).
pub const IOMMU_MISS_NS: f64 = 330.0;

/// A latency that the paper prints for 128 B.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quoted {
    /// Name by which it is selected.
    pub name: &'static str,
    /// Lower end of the latency, in ns.
    pub least_ns: f64,
    /// Upper end of the latency, in ns.
    pub most_ns: f64,
    /// Time from packet to packet in the paper's division, in ns, at 128 B and 40 Gb/s.
    pub packet_ns: f64,
    /// The result that the paper states.
    pub says: u32,
    /// Place in the paper, and the measured quantity.
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
    /// Returns the latency `name`.
    pub fn find(name: &str) -> Option<&'static Quoted> {
        QUOTED.iter().find(|q| q.name == name)
    }
}

/// The number of transfers that must be in flight for one latency.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct InFlight {
    /// Latency from the request to the last byte, in ns.
    pub latency_ns: f64,
    /// Time from packet to packet, in ns.
    pub packet_ns: f64,
    /// Their quotient.
    pub exact: f64,
    /// Whole transfers: the quotient rounded up.
    pub needed: u32,
}

/// Returns how many transfers of `latency_ns` must be in flight if a packet arrives every `packet_ns`.
///
/// # Errors
/// Either is not a positive number, or the answer exceeds 2^32.
pub fn in_flight(latency_ns: f64, packet_ns: f64) -> Result<InFlight, ModelError> {
    for (name, value) in [("latency in ns", latency_ns), ("time from packet to packet in ns", packet_ns)] {
        if !value.is_finite() || value <= 0.0 {
            return Err(ModelError::Positive(name, value));
        }
    }
    let exact = latency_ns / packet_ns;
    // Rounding errors of a double must not add a transfer.
    let whole = (exact - 1e-9).ceil();
    if whole > f64::from(u32::MAX) {
        return Err(ModelError::InFlight(latency_ns, packet_ns));
    }
    Ok(InFlight { latency_ns, packet_ns, exact, needed: whole as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The paper's two latencies by its own times from packet to packet: 30, and 19 to 23.
    #[test]
    fn gives_the_papers_numbers() {
        let needed =
            |q: &Quoted| [q.least_ns, q.most_ns].map(|ns| in_flight(ns, q.packet_ns).unwrap().needed);
        assert_eq!(needed(&QUOTED[0]), [30, 30]);
        assert_eq!(needed(&QUOTED[1]), [19, 23]);
        // With less rounding, §2 gives 30.4.
        let exact = in_flight(900.0, 29.6).unwrap();
        assert_eq!(((exact.exact * 10.0).round() as u32, exact.needed), (304, 31));
    }

    #[test]
    fn rejects_non_positive_values() {
        let text = |r: Result<InFlight, ModelError>| r.unwrap_err().to_string();
        assert_eq!(text(in_flight(0.0, 1.0)), "latency in ns of 0: expected a finite number above 0");
        assert_eq!(
            text(in_flight(1e15, 1e-3)),
            "a packet each 0.001 ns with a latency of 1000000000000000 ns: expected at most 2^32 transfers in flight"
        );
    }

    proptest! {
        /// The number is sufficient, and a smaller number is not.
        #[test]
        fn needed_is_the_smallest_sufficient_number(latency in 1.0f64..1e5, packet in 0.1f64..1e4) {
            let answer = in_flight(latency, packet).unwrap();
            let needed = f64::from(answer.needed);
            prop_assert!(needed * packet >= latency * (1.0 - 1e-6));
            prop_assert!((needed - 1.0) * packet < latency);
        }
    }
}
