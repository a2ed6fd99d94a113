// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NetTLP header before each TLP (NSDI'20 §4.1).
//!
//! ```text
//!  0          2                     6
//! +----------+---------------------+----------
//! | sequence |      timestamp      | TLP ...     all big endian
//! +----------+---------------------+----------
//! ```

pub use capture::encap::{NETTLP_LEN, NettlpHeader, TICK_PS};

use tlp::Time;

/// Writes the header.
pub fn emit(header: NettlpHeader, out: &mut [u8; NETTLP_LEN]) {
    out[..2].copy_from_slice(&header.sequence.to_be_bytes());
    out[2..].copy_from_slice(&header.timestamp.to_be_bytes());
}

/// Returns the timestamp of a time: ticks of 6.4 ns, modulo 2^32 (27.5 s).
pub const fn ticks(now: Time) -> u32 {
    (now.as_ps() / TICK_PS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_sequence_and_timestamp_big_endian() {
        let header = NettlpHeader { sequence: 0x0102, timestamp: 0x0a0b_0c0d };
        let mut out = [0; NETTLP_LEN];
        emit(header, &mut out);
        assert_eq!(out, [0x01, 0x02, 0x0a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(NettlpHeader::parse(&out).unwrap(), (header, &[][..]));
    }

    #[test]
    fn tick_is_6_4_ns_and_timestamp_wraps() {
        for (ps, count) in [(0, 0), (6_399, 0), (6_400, 1), (64_000_000, 10_000), (6_400 << 32, 0)] {
            assert_eq!(ticks(Time::from_ps(ps)), count, "{ps}");
        }
    }
}
