// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the byte form of frames for any bytes. The fuzz target and the tests of `riser-link` call them. A failed
//! check panics.

use riser_link::{Ending, Frame, Integrity, WireFrame, WireKind, tlp_frame};
use riser_tlp::{PayloadPool, crc};

/// Checks a frame: the first byte selects its kind and ending, and whether its CRC is made right.
pub(crate) fn frame(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let kind = if choice & 1 == 0 { WireKind::Tlp } else { WireKind::Dllp };
    let ending =
        [Ending::Good, Ending::Nullified, Ending::Broken, Ending::Good][usize::from(choice >> 1 & 3)];
    let bytes = if choice & 8 == 0 { bytes.to_vec() } else { with_right_crc(kind, bytes) };
    check(&WireFrame { kind, bytes, ending });
}

fn with_right_crc(kind: WireKind, bytes: &[u8]) -> Vec<u8> {
    match (kind, bytes) {
        (WireKind::Tlp, [high, low, tlp @ ..]) => tlp_frame(u16::from_be_bytes([*high, *low]), tlp),
        (WireKind::Dllp, &[a, b, c, d, ..]) => {
            let [e, f] = crc::dllp([a, b, c, d]).to_be_bytes();
            vec![a, b, c, d, e, f]
        }
        _ => bytes.to_vec(),
    }
}

/// A frame that is read is the same after it is written and read again, and is decoded as good. A frame that is decoded
/// as good is read.
fn check(frame: &WireFrame) {
    let pool = PayloadPool::new();
    let read = Frame::read(frame.kind, &frame.bytes, &pool);
    let decoded = frame.decode(&pool);
    if let Ok(read) = &read {
        let written = WireFrame::of(read.as_ref());
        assert_eq!((written.kind, written.bytes.len()), (frame.kind, frame.bytes.len()));
        assert_eq!(Frame::read(written.kind, &written.bytes, &pool).as_ref(), Ok(read));
        assert_eq!(written.decode(&pool), Ok((read.clone(), Integrity::Good)));
        assert_eq!(written.wire_bytes(), read.as_ref().wire_bytes());
    }
    match decoded {
        Ok((decoded, Integrity::Good)) => assert_eq!((Ok(decoded), frame.ending), (read, Ending::Good)),
        Ok((_, Integrity::Malformed(_))) | Err(_) => assert!(read.is_err()),
        Ok((decoded, _)) => assert_eq!(decoded.as_ref().wire_kind(), frame.kind),
    }
}
