// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where transfers are cut into TLPs, for completers and requesters alike.

use crate::{Mps, Rcb};

/// The requests of a transfer of `bytes` at `address`, cut as [`request_piece`] says: address and bytes of each.
pub fn request_pieces(address: u64, bytes: u32, limit: u32) -> impl Iterator<Item = (u64, u32)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (start, left) = (address + u64::from(at), bytes - at);
        let piece = request_piece(start, left, limit).min(left);
        at += piece;
        (piece > 0).then_some((start, piece))
    })
}

/// Bytes of the next request of a transfer at `address` with `remaining` bytes to go: no more than `limit` bytes of
/// whole DWs (Max_Payload_Size of a write, Max_Read_Request_Size of a read), and not beyond the next 4 KiB boundary
/// (`PCIe 5.0 §2.2.7`). At least 1 where `remaining` is.
pub fn request_piece(address: u64, remaining: u32, limit: u32) -> u32 {
    let lead = (address & 3) as u32;
    let to_boundary = 4096 - (address & 4095) as u32;
    remaining.min(limit - lead).min(to_boundary)
}

/// Bytes of the next completion of a memory read at `address` with `remaining` bytes to go: all of them where one
/// TLP can hold them, else up to the last Read Completion Boundary that it reaches (`PCIe 5.0 §2.3.1.1`).
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
    fn completions_end_at_the_boundary() {
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
    fn requests_stay_within_limit_and_page() {
        let cut = |a, n, max| pieces(a, n, |a, n| request_piece(a, n, max));
        assert_eq!(cut(0x1000, 1024, 512), [512, 512]);
        assert_eq!(cut(0x1fff, 4, 128), [1, 3]);
        assert_eq!(cut(0x1003, 300, 128), [125, 128, 47]);
    }
}
