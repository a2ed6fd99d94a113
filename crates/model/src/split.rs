// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the TLPs of a transfer, split as [`tlp::split`] does for every requester and completer: each as long as MPS,
//! MRRS, RCB and the 4 KiB boundary allow. The split does not depend on time.

use crate::{Params, Transfer};
use tlp::split::{completion_piece, request_pieces};

/// Number of TLPs of one type, and their data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlpCount {
    /// Number of TLPs.
    pub tlps: u64,
    /// Their data in DW, with unaligned ends padded to whole DWs. Zero for MRd.
    pub data_dw: u64,
}

/// A range of bytes that `cut` splits. `cut` maps an address and the number of remaining bytes to the number of bytes
/// of the next piece.
struct Pieces<F> {
    address: u64,
    remaining: u32,
    cut: F,
}

impl<F: Fn(u64, u32) -> u32> Iterator for Pieces<F> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        if self.remaining == 0 {
            return None;
        }
        let piece = (self.address, (self.cut)(self.address, self.remaining));
        self.address += u64::from(piece.1);
        self.remaining -= piece.1;
        Some(piece)
    }
}

impl TlpCount {
    /// Counts the TLPs with these addresses and bytes.
    pub fn of(pieces: impl Iterator<Item = (u64, u32)>) -> TlpCount {
        let mut count = TlpCount::default();
        pieces.for_each(|piece| count.add(piece));
        count
    }

    fn add(&mut self, (address, bytes): (u64, u32)) {
        self.tlps += 1;
        self.data_dw += (address % 4 + u64::from(bytes)).div_ceil(4);
    }
}

/// Returns address and bytes of the requests of a transfer, with at most `max_bytes` each.
fn requests(transfer: Transfer, max_bytes: u32) -> impl Iterator<Item = (u64, u32)> {
    request_pieces(transfer.offset_bytes.into(), transfer.size_bytes, max_bytes)
}

/// Counts the MWr TLPs of a transfer.
pub fn writes(params: &Params, transfer: Transfer) -> TlpCount {
    TlpCount::of(requests(transfer, params.mps.bytes()))
}

/// Counts the MRd TLPs of a transfer.
pub fn reads(params: &Params, transfer: Transfer) -> TlpCount {
    TlpCount { tlps: requests(transfer, params.mrrs.bytes()).count() as u64, data_dw: 0 }
}

/// Counts the CplD TLPs for the [`reads`] of a transfer, from a completer that sends the smallest number that is
/// allowed.
pub fn completions(params: &Params, transfer: Transfer) -> TlpCount {
    let mut count = TlpCount::default();
    for (address, remaining) in requests(transfer, params.mrrs.bytes()) {
        let cut = |address, remaining| completion_piece(address, remaining, params.mps, params.rcb);
        Pieces { address, remaining, cut }.for_each(|piece| count.add(piece));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gen3(mps: u32, mrrs: u32, rcb: u32) -> Params {
        Params::new(3, 8, mps, mrrs, rcb).unwrap()
    }

    /// (MPS, MRRS, RCB, offset, size) to (MWr, their DW, MRd, CplD, their DW), split by hand according to the rules.
    #[test]
    fn splits_transfers_as_calculated_by_hand() {
        type Row = ((u32, u32, u32, u32, u32), (u64, u64, u64, u64, u64));
        let rows: [Row; 12] = [
            // Aligned: the ceilings of pcie-bench's equations.
            ((256, 512, 64, 0, 8), (1, 2, 1, 1, 2)),
            ((256, 512, 64, 0, 256), (1, 64, 1, 1, 64)),
            ((256, 512, 64, 0, 257), (2, 65, 1, 2, 65)),
            ((256, 512, 64, 0, 2048), (8, 512, 4, 8, 512)),
            // One byte takes one DW; two bytes across a DW boundary take two.
            ((256, 512, 64, 3, 1), (1, 1, 1, 1, 1)),
            ((256, 512, 64, 3, 2), (1, 2, 1, 1, 2)),
            // Offset of one byte: 255 B fill the first MWr's 64 DW, and the CplD also ends at 256.
            ((256, 512, 64, 1, 256), (2, 65, 1, 2, 65)),
            // Offset of 4: MWr 4..260..516; CplD 4..256 (RCB), 256..512, 512..516.
            ((256, 512, 64, 4, 512), (2, 128, 1, 3, 128)),
            // RCB decides: CplD 64..320..576 at RCB 64, 64..256..512..576 at RCB 128.
            ((256, 512, 64, 64, 512), (2, 128, 1, 2, 128)),
            ((256, 512, 128, 64, 512), (2, 128, 1, 3, 128)),
            // Across a page boundary: 4092..4096 and 4096..4352.
            ((256, 512, 64, 4092, 260), (2, 65, 2, 2, 65)),
            // MRRS below MPS: reads of 128 B, with completions of 128 B.
            ((512, 128, 64, 0, 512), (1, 128, 4, 4, 128)),
        ];
        for ((mps, mrrs, rcb, offset_bytes, size_bytes), want) in rows {
            let (params, transfer) = (gen3(mps, mrrs, rcb), Transfer { size_bytes, offset_bytes });
            let (w, c) = (writes(&params, transfer), completions(&params, transfer));
            let got = (w.tlps, w.data_dw, reads(&params, transfer).tlps, c.tlps, c.data_dw);
            assert_eq!(got, want, "MPS {mps} MRRS {mrrs} RCB {rcb}: {size_bytes} B at {offset_bytes}");
        }
    }

    proptest! {
        /// Aligned transfers take as many TLPs as equations 1 to 3 of pcie-bench say (if MPS does not exceed MRRS).
        #[test]
        fn aligned_transfers_match_the_equations(size_bytes in 1u32..20_000, mps in 0u32..3, more in 0u32..3) {
            let params = gen3(128 << mps, 128 << (mps + more), 64);
            let transfer = Transfer::of(size_bytes);
            let by_mps = u64::from(size_bytes.div_ceil(params.mps.bytes()));
            prop_assert_eq!(writes(&params, transfer).tlps, by_mps);
            prop_assert_eq!(completions(&params, transfer).tlps, by_mps);
            prop_assert_eq!(reads(&params, transfer).tlps, u64::from(size_bytes.div_ceil(params.mrrs.bytes())));
        }
    }
}
