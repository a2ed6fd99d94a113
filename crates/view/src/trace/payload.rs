// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data bytes of TLPs in a page, in the order of the rows. They are deflated in blocks, which the page unpacks when
//! needed. At most [`MOST_BYTES`] and one block are kept: all data up to [`WHOLE_BYTES`], then only the first
//! [`PART_BYTES`] of each TLP, then no data.

use flate2::{Compression, write::ZlibEncoder};
use serde::Serialize;
use std::io::Write;

/// Number of packed bytes up to which all data of a TLP is kept.
pub const WHOLE_BYTES: usize = 4 << 20;
/// Number of packed bytes up to which the first bytes of a TLP's data are kept.
pub const MOST_BYTES: usize = 6 << 20;
/// Number of bytes that are kept of each TLP after [`WHOLE_BYTES`].
pub const PART_BYTES: u32 = 64;
/// Number of unpacked bytes from which a block is closed.
const BLOCK_BYTES: usize = 1 << 20;
/// Maximum number of data bytes of a TLP (`PCIe 5.0 §2.2.2`).
const TLP_BYTES: u32 = 4096;

/// The limit of data bytes per TLP, from a row on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Share {
    /// The first row, from 0.
    pub row: u64,
    /// Maximum number of bytes per TLP. A block belongs to this share unless it is 0.
    pub bytes: u32,
}

/// Data bytes in the order of the rows.
#[derive(Default)]
pub(super) struct Payloads {
    shares: Vec<Share>,
    block: Vec<u8>,
    packed: Vec<Vec<u8>>,
    packed_bytes: usize,
}

impl Payloads {
    /// Adds the data of the TLP in `row`.
    pub(super) fn push(&mut self, row: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let share = self.share(row);
        self.block.extend(&data[..data.len().min(share as usize)]);
        if self.block.len() >= BLOCK_BYTES {
            self.close();
        }
    }

    // Each block has a share, which starts with it. Once the space is used up, a share of 0 follows, without a block.
    fn share(&mut self, row: u64) -> u32 {
        if let Some(last) = self.shares.last().filter(|last| last.bytes == 0 || !self.block.is_empty()) {
            return last.bytes;
        }
        let bytes = match self.packed_bytes {
            taken if taken < WHOLE_BYTES => TLP_BYTES,
            taken if taken < MOST_BYTES => PART_BYTES,
            _ => 0,
        };
        self.shares.push(Share { row, bytes });
        bytes
    }

    fn close(&mut self) {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
        // Writing to memory cannot fail.
        let _ = encoder.write_all(&self.block);
        let packed = encoder.finish().unwrap_or_default();
        self.packed_bytes += packed.len();
        self.packed.push(packed);
        self.block.clear();
    }

    /// Returns the shares, and a packed block for each share that is not 0.
    pub(super) fn finish(mut self) -> (Vec<Share>, Vec<Vec<u8>>) {
        if !self.block.is_empty() {
            self.close();
        }
        (self.shares, self.packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Bytes that deflate cannot compress: a linear congruential generator (Knuth, TAOCP 2, 3.3.4).
    fn noise(bytes: usize, state: &mut u64) -> Vec<u8> {
        let next = |_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 56) as u8
        };
        (0..bytes).map(next).collect()
    }

    #[test]
    fn shares_limit_kept_data() {
        let (mut payloads, mut state) = (Payloads::default(), 1);
        let rows = 60_000;
        for row in 0..rows {
            payloads.push(row * 2, &noise(512, &mut state));
        }
        let (shares, blocks) = payloads.finish();
        let packed: usize = blocks.iter().map(Vec::len).sum();
        assert!((MOST_BYTES..MOST_BYTES + 2 * BLOCK_BYTES).contains(&packed), "{packed}");
        let kept: Vec<u32> = shares.iter().map(|share| share.bytes).collect();
        assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
        assert_eq!((kept[0], kept[kept.len() - 2], kept[kept.len() - 1]), (TLP_BYTES, PART_BYTES, 0));
        assert_eq!(blocks.len(), shares.len() - 1);
        // A block of complete data has 2,048 TLPs, which are in every second row.
        assert_eq!((shares[0].row, shares[1].row), (0, 4096));
    }

    #[test]
    fn writes_no_block_without_data() {
        let mut payloads = Payloads::default();
        payloads.push(7, &[]);
        payloads.push(8, &[1, 2]);
        let (shares, blocks) = payloads.finish();
        assert_eq!((shares.len(), blocks.len()), (1, 1), "{shares:?}");
        assert_eq!(Payloads::default().finish(), (Vec::new(), Vec::new()));
    }
}
