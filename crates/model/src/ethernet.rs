// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes of Ethernet frames. They include the FCS (IEEE 802.3 §3.2.8). A NIC adds and removes the FCS, so host memory
//! has [`FCS_BYTES`] less.

use crate::params::FRAME_BYTES;
use crate::{Form, ModelError};

/// Bytes of the frame check sequence (IEEE 802.3 §3.2.9).
pub const FCS_BYTES: u32 = 4;

/// Bytes on the wire in addition to a frame: preamble and start delimiter 8 (IEEE 802.3 §3.2.1, §3.2.2), gap between
/// packets 12 (§4.4.2). With them a frame of 128 B takes the 29.6 ns of SIGCOMM'18, §7.
const GAP_BYTES: u32 = 20;

/// Returns the rate of frames on an Ethernet of `gbps`, in Gb/s. A frame has `frame_bytes` with FCS.
pub fn ethernet_gbps(gbps: f64, frame_bytes: u32) -> f64 {
    gbps * f64::from(frame_bytes) / (f64::from(frame_bytes) + f64::from(GAP_BYTES))
}

/// Returns the time from packet to packet on an Ethernet of `gbps`, in ns. A frame has `frame_bytes` with FCS.
///
/// # Errors
/// An invalid size or rate.
pub fn packet_ns(frame_bytes: u32, gbps: f64) -> Result<f64, ModelError> {
    check_frame(frame_bytes)?;
    if !gbps.is_finite() || gbps <= 0.0 {
        return Err(ModelError::Positive("Ethernet rate in Gb/s", gbps));
    }
    Ok(f64::from(frame_bytes + GAP_BYTES) * 8.0 / gbps)
}

/// Returns the bytes of a frame that cross PCI Express: without the FCS. The published form moves the whole frame,
/// because pcie-bench does not mention the FCS.
pub(crate) fn moved_bytes(form: Form, frame_bytes: u32) -> Result<u32, ModelError> {
    check_frame(frame_bytes)?;
    match form {
        Form::Published => Ok(frame_bytes),
        Form::Exact => Ok(frame_bytes - FCS_BYTES),
    }
}

fn check_frame(bytes: u32) -> Result<(), ModelError> {
    if FRAME_BYTES.contains(&bytes) { Ok(()) } else { Err(ModelError::FrameSize(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIGCOMM'18, §7: 29.6 ns for 128 B at 40 Gb/s. 64 B at 10 Gb/s: the 67.2 ns of IEEE 802.3.
    #[test]
    fn packet_times_match_the_standards() {
        for (bytes, gbps, ns) in [(128, 40.0, 29.6), (64, 10.0, 67.2), (1518, 100.0, 123.04)] {
            assert!((packet_ns(bytes, gbps).unwrap() - ns).abs() < 1e-9, "{bytes} B at {gbps} Gb/s");
            let by_time = f64::from(bytes) * 8.0 / ns;
            assert!((ethernet_gbps(gbps, bytes) - by_time).abs() < 1e-9, "{bytes} B at {gbps} Gb/s");
        }
    }

    #[test]
    fn rejects_invalid_frames_and_rates() {
        for bytes in [0, 4, 63, 9217] {
            let error = moved_bytes(Form::Exact, bytes).unwrap_err().to_string();
            assert_eq!(error, format!("frame of {bytes} B: expected 64 to 9216, FCS included"));
            assert!(
                moved_bytes(Form::Published, bytes).is_err() && packet_ns(bytes, 40.0).is_err(),
                "{bytes}"
            );
        }
        assert_eq!([64, 9216].map(|bytes| moved_bytes(Form::Exact, bytes)), [Ok(60), Ok(9212)]);
        assert_eq!(moved_bytes(Form::Published, 64), Ok(64));
        assert!(packet_ns(64, f64::NAN).is_err());
    }
}
