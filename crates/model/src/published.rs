// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model that pcie-bench (SIGCOMM'18, §3) prints, reproduced exactly.
//!
//! The known mistakes of the paper are kept, to reproduce its figures:
//!
//! - Acks and UpdateFCs are charged 8 *bytes* per Ack latency limit in symbol *times*, which carry a symbol on each lane, and
//!   also to a direction that carries none. This is 7.9 % at Gen3 x8, where in fact one Ack and one UpdateFC per interval take 1.0 %.
//! - SKP takes 4 in 1538 symbols at every rate, also with the encoding 128b/130b.
//! - Equation 2 adds the transfer's size to the direction of the MRd, which carries no data. The number is given as
//!   printed. The bandwidth of reads follows from equation 3, as in the paper's figures, or from the requests' headers
//!   if these take more: below 4 B with 64-bit addresses.
//! - Offsets and RCB are ignored, as the paper says.
//!
//! This form is never mixed with the [exact](crate::exact()) form.

use crate::params::SKP_SHARE_8B10B;
use crate::{Bandwidth, Equations, Form, ModelError, Params, Transfer};

/// A DLLP on the wire, in bytes.
const DLLP_BYTES: f64 = 8.0;

/// Returns the result of pcie-bench's model for a transfer size.
///
/// # Errors
/// The size is invalid, the transfer has an offset, or the link is in FLIT mode.
pub fn published(params: &Params, transfer: Transfer) -> Result<Bandwidth, ModelError> {
    check(transfer)?;
    let size = u64::from(transfer.size_bytes);
    let eq = equations(params, size);
    let tlp_gbps = tlp_gbps(params)?;
    let share = |bytes: u64| tlp_gbps * size as f64 / bytes as f64;
    let requests = read_request_bytes(params, size);
    // BW_RDWR (§4.2): the MRds compete with the MWrs for the up direction.
    let up_both = eq.btx_write_bytes + requests;
    Ok(Bandwidth {
        tlp_gbps,
        write_gbps: share(eq.btx_write_bytes),
        read_gbps: share(requests.max(eq.brx_read_bytes)),
        read_write_gbps: share(up_both.max(eq.brx_read_bytes)),
        equations: Some(eq),
        ..Bandwidth::unanswered(Form::Published, params, transfer)
    })
}

/// # Errors
/// The size is invalid, or the transfer has an offset.
pub(crate) fn check(transfer: Transfer) -> Result<(), ModelError> {
    transfer.check()?;
    match transfer.offset_bytes {
        0 => Ok(()),
        offset => Err(ModelError::OffsetPublished(offset)),
    }
}

/// Returns `raw * (1 - 8/AckLimit - 8/UpdateFCInterval - 4/1538)`, with two equal intervals.
///
/// # Errors
/// The link is in FLIT mode.
pub(crate) fn tlp_gbps(params: &Params) -> Result<f64, ModelError> {
    let limit = params.ack_latency_limit();
    let interval = f64::from(limit.ok_or(ModelError::GenerationPublished(params.rate.generation()))?);
    Ok(params.raw_gbps() * (1.0 - DLLP_BYTES / interval - DLLP_BYTES / interval - SKP_SHARE_8B10B))
}

fn equations(params: &Params, size: u64) -> Equations {
    let by_mps = size.div_ceil(u64::from(params.mps.bytes()));
    Equations {
        btx_write_bytes: by_mps * u64::from(params.request_overhead_bytes()) + size,
        btx_read_bytes: read_request_bytes(params, size) + size,
        brx_read_bytes: by_mps * u64::from(params.completion_overhead_bytes()) + size,
    }
}

/// Returns `ceil(sz/MRRS) * MRd_Hdr`.
fn read_request_bytes(params: &Params, size: u64) -> u64 {
    size.div_ceil(u64::from(params.mrrs.bytes())) * u64::from(params.request_overhead_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Addressing;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-6, "{got}, not {want}");
    }

    /// Gen3 x8 MPS 256: pcie-bench §3 prints 57.88. The other values follow from the same formula, calculated by hand.
    #[test]
    fn tlp_bandwidth_matches_the_paper() {
        for (generation, lanes, mps, raw, tlp) in [
            (3, 8, 256, 63.015_385, 57.884_766),
            (1, 1, 128, 2.0, 1.859_777),
            // 16 * (1 - 16/124 - 4/1538): limit 156 * 1.4 / 4 + 70 = 124.6.
            (2, 4, 128, 16.0, 13.893_871),
        ] {
            let params = Params::new(generation, lanes, mps, 512, 64).unwrap();
            let answer = published(&params, Transfer::of(64)).unwrap();
            close(answer.raw_gbps, raw);
            close(answer.tlp_gbps, tlp);
        }
    }

    /// Equations 1 to 3 with the headers of §3 (24, 24, 20 B), MPS 256, MRRS 512.
    #[test]
    fn equations_match_the_paper() {
        let params = Params::new(3, 8, 256, 512, 64).unwrap();
        for (size, btx_write, btx_read, brx_read) in [
            (8, 32, 32, 28),
            (64, 88, 88, 84),
            (256, 280, 280, 276),
            (257, 305, 281, 297),
            (512, 560, 536, 552),
            (2048, 2240, 2144, 2208),
        ] {
            let want =
                Equations { btx_write_bytes: btx_write, btx_read_bytes: btx_read, brx_read_bytes: brx_read };
            assert_eq!(published(&params, Transfer::of(size)).unwrap().equations, Some(want));
        }
    }

    /// Gen3 x8, MPS 256, MRRS 512: 57.884766 times sz divided by the bytes of the equations.
    #[test]
    fn payload_bandwidth_follows_the_equations() {
        let params = Params::new(3, 8, 256, 512, 64).unwrap();
        for (size, write, read, both) in [
            // 64/88, 64/84, 64/112.
            (64, 42.098_012, 44.102_679, 33.077_009),
            // 256/280, 256/276, 256/304.
            (256, 52.923_215, 53.690_218, 48.745_066),
            // 512/560, 512/552, 512/584.
            (512, 52.923_215, 53.690_218, 50.748_288),
        ] {
            let answer = published(&params, Transfer::of(size)).unwrap();
            close(answer.write_gbps, write);
            close(answer.read_gbps, read);
            close(answer.read_write_gbps, both);
        }
    }

    /// Reads below 4 B: a MRd of 24 B up is more than a CplD of 20 B plus the data down. With 32-bit addresses both
    /// have 20 B, and with a digest each has 4 B more. The rate is 57.884766 times sz divided by the bytes of the
    /// fuller direction.
    #[test]
    fn requests_limit_small_reads() {
        let answer = |addressing, ecrc, size| {
            let params = Params { addressing, ecrc, ..Params::new(3, 8, 256, 512, 64).unwrap() };
            published(&params, Transfer::of(size)).unwrap()
        };
        for (addressing, ecrc, size, read) in [
            // 1/24, 2/24, 3/24; 4/24 in both directions; 5/25.
            (Addressing::A64, false, 1, 2.411_865),
            (Addressing::A64, false, 2, 4.823_730),
            (Addressing::A64, false, 3, 7.235_596),
            (Addressing::A64, false, 4, 9.647_461),
            (Addressing::A64, false, 5, 11.576_953),
            // 1/28.
            (Addressing::A64, true, 1, 2.067_313),
            // 1/21, the completion.
            (Addressing::A32, false, 1, 2.756_417),
        ] {
            close(answer(addressing, ecrc, size).read_gbps, read);
        }
    }

    #[test]
    fn addresses_and_ecrc_change_the_headers() {
        let mut params = Params::new(3, 8, 256, 512, 64).unwrap();
        params.addressing = Addressing::A32;
        let bytes = |p: &Params| published(p, Transfer::of(256)).unwrap().equations.unwrap();
        assert_eq!(bytes(&params).btx_write_bytes, 276);
        params.ecrc = true;
        assert_eq!((bytes(&params).btx_write_bytes, bytes(&params).brx_read_bytes), (280, 280));
    }

    #[test]
    fn rejects_flits() {
        let params = Params::new(6, 8, 256, 512, 64).unwrap();
        assert_eq!(published(&params, Transfer::of(64)), Err(ModelError::GenerationPublished(6)));
    }

    #[test]
    fn rejects_offsets() {
        let params = Params::new(3, 8, 256, 512, 64).unwrap();
        let transfer = Transfer { size_bytes: 64, offset_bytes: 4 };
        assert_eq!(published(&params, transfer), Err(ModelError::OffsetPublished(4)));
    }
}
