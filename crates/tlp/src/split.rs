// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits transfers into TLPs, for completers and requesters.

use crate::{Mps, Rcb};

/// Address and length in bytes of each request of a transfer, split by [`request_piece`].
pub fn request_pieces(address: u64, bytes: u32, limit: u32) -> impl Iterator<Item = (u64, u32)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (start, left) = (address + u64::from(at), bytes - at);
        let piece = request_piece(start, left, limit).min(left);
        at += piece;
        (piece > 0).then_some((start, piece))
    })
}

/// Number of bytes in the next request of a transfer, which continues at `address` with `remaining` bytes. The DWs
/// of the request have at most `limit` bytes: Max_Payload_Size for a write, Max_Read_Request_Size for a read. The
/// request ends at the next 4 KiB boundary at the latest (`PCIe 5.0 §2.2.7`). At least 1 if `remaining` is at least
/// 1.
#[inline]
pub fn request_piece(address: u64, remaining: u32, limit: u32) -> u32 {
    let lead = (address & 3) as u32;
    let to_boundary = 4096 - (address & 4095) as u32;
    remaining.min(limit - lead).min(to_boundary)
}

/// Number of bytes in the next completion of a memory read, which continues at `address` with `remaining` bytes.
/// All of them if they fit into one TLP. Otherwise the completion ends at the last Read Completion Boundary that it
/// can reach (`PCIe 5.0 §2.3.1.1`).
#[inline]
pub fn completion_piece(address: u64, remaining: u32, mps: Mps, rcb: Rcb) -> u32 {
    let lead = (address & 3) as u32;
    if lead + remaining <= mps.bytes() {
        return remaining;
    }
    let reach = (address & !3) + u64::from(mps.bytes());
    let cut = reach & !u64::from(rcb.bytes() - 1);
    (cut - address) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn pieces(mut address: u64, mut remaining: u32, next: impl Fn(u64, u32) -> u32) -> Vec<u32> {
        let mut out = Vec::new();
        while remaining > 0 {
            let n = next(address, remaining);
            out.push(n);
            address += u64::from(n);
            remaining -= n;
        }
        out
    }

    #[test]
    fn completions_end_at_read_completion_boundary() {
        let mps = Mps::new(256).unwrap();
        let rcb = Rcb::new(64).unwrap();
        let cut = |a, n| pieces(a, n, |a, n| completion_piece(a, n, mps, rcb));
        assert_eq!(cut(0x1000, 512), [256, 256]);
        assert_eq!(cut(0x1020, 512), [224, 256, 32]);
        assert_eq!(cut(0x1001, 256), [255, 1]);
        assert_eq!(cut(0x1001, 253), [253]);
        assert_eq!(cut(0x103c, 512), [196, 256, 60]);
    }

    #[test]
    fn requests_stay_within_limit_and_4_kib_block() {
        let cut = |a, n, max| pieces(a, n, |a, n| request_piece(a, n, max));
        assert_eq!(cut(0x1000, 1024, 512), [512, 512]);
        assert_eq!(cut(0x1fff, 4, 128), [1, 3]);
        assert_eq!(cut(0x1003, 300, 128), [125, 128, 47]);
    }
}
