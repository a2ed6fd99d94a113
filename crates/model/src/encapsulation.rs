// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs in Ethernet packets, as NetTLP carries them (NSDI'20, §3.2).

use crate::{Addressing, ModelError};

/// Bytes of headers and FCS around a TLP: Ethernet 14 and 4, IPv4 20, UDP 8, NetTLP 6 (NSDI'20, §3.2).
const AROUND_BYTES: u32 = 14 + 4 + 20 + 8 + 6;
/// Preamble and gap between packets, in bytes.
const GAP_BYTES: u32 = 20;
/// Most data in a TLP, in bytes (`PCIe 5.0 §2.2.2`).
const MAX_DATA_BYTES: u32 = 4096;

/// Returns the rate of data in memory writes of `data_bytes` over an Ethernet of `ethernet_gbps`, in Gb/s, with one TLP in each packet.
///
/// # Errors
/// An invalid size or rate.
pub fn encapsulated_gbps(
    ethernet_gbps: f64,
    data_bytes: u32,
    addressing: Addressing,
) -> Result<f64, ModelError> {
    if !(1..=MAX_DATA_BYTES).contains(&data_bytes) {
        return Err(ModelError::TlpData(data_bytes));
    }
    if !ethernet_gbps.is_finite() || ethernet_gbps <= 0.0 {
        return Err(ModelError::Positive("Ethernet rate in Gb/s", ethernet_gbps));
    }
    // A TLP carries whole DWs (PCIe 5.0 §2.2.2); the byte enables mask the rest.
    let packet =
        addressing.request_header_bytes() + data_bytes.next_multiple_of(4) + AROUND_BYTES + GAP_BYTES;
    Ok(ethernet_gbps * f64::from(data_bytes) / f64::from(packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NSDI'20, §3.2: approximately 7.53 Gb/s for 256 B at 10 Gb/s, with a header of 3 DW.
    #[test]
    fn matches_the_paper() {
        let gbps = encapsulated_gbps(10.0, 256, Addressing::A32).unwrap();
        assert!((gbps - 2560.0 / 340.0).abs() < 1e-12 && (gbps - 7.53).abs() < 0.005, "{gbps}");
        assert!((encapsulated_gbps(40.0, 256, Addressing::A64).unwrap() - 10_240.0 / 344.0).abs() < 1e-12);
    }

    #[test]
    fn packets_carry_whole_dws() {
        for (bytes, packet) in [(1, 88.0), (3, 88.0), (4, 88.0), (5, 92.0), (4095, 4180.0)] {
            let gbps = encapsulated_gbps(10.0, bytes, Addressing::A32).unwrap();
            assert!((gbps - 10.0 * f64::from(bytes) / packet).abs() < 1e-12, "{bytes} B: {gbps}");
        }
    }

    #[test]
    fn rejects_invalid_sizes_and_rates() {
        for (gbps, bytes) in [(10.0, 0), (10.0, 4097), (0.0, 64), (f64::NAN, 64), (f64::INFINITY, 64)] {
            assert!(encapsulated_gbps(gbps, bytes, Addressing::A32).is_err(), "{gbps} {bytes}");
        }
    }
}
