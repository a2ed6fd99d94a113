// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of LibTLP's read for any completions. The fuzz target and the tests of `riser-libtlp` call them on every
//! seed and on random bytes. A failed check panics. This file needs the module `gather` next to it.

use crate::gather::{Gather, Read, Taken};
use tlp::split::completion_piece;
use tlp::{Bdf, Body, Completion, Mps, Rcb, Repr, Span, Status, Tag};

const REQUESTER: Bdf = Bdf::from_bits(0x1b00);

/// A read, its buffer, and a mask of the bytes that have arrived.
struct Run {
    read: Read,
    gather: Gather,
    out: Vec<u8>,
    seen: Vec<bool>,
    /// True if no spoiled or foreign bytes were accepted, so that the bytes must equal those in memory.
    is_true: bool,
    has_failed: bool,
}

/// Runs a script: a read (address 2 bytes, length 2, tag), then steps. A step delivers foreign bytes, or a
/// completion of the read, which may be spoiled. Only data changes the buffer, and each byte of the read is written
/// at most once. The read is complete when all bytes have arrived. Returns true if it completed without an error.
pub(crate) fn gather(script: &[u8]) -> bool {
    let [a0, a1, l0, l1, tag, steps @ ..] = script else { return false };
    let address = 0x7fff_0000 | u64::from(u16::from_le_bytes([*a0, *a1]));
    let most = 4096 - (address & 0xfff) as u32;
    let len = 1 + u32::from(u16::from_le_bytes([*l0, *l1])) % most;
    let span = Span::covering(address, len).expect("within 4 KiB");
    let read = Read { requester: REQUESTER, tag: Tag::from_bits(u16::from(*tag)), span };
    let (out, seen) = (vec![0; len as usize], vec![false; len as usize]);
    let gather = Gather::new(read);
    let mut run = Run { read, gather, out, seen, is_true: true, has_failed: false };
    let mut rest = steps;
    while let [step, at, by, behind @ ..] = rest {
        rest = behind;
        if step & 1 == 0 {
            let (foreign, behind) = behind.split_at(usize::from(*at).min(behind.len()));
            rest = behind;
            run.take(foreign, false);
        } else {
            run.completion(*step, *at, *by);
        }
    }
    if run.gather.is_whole() && !run.has_failed {
        assert!(run.seen.iter().all(|seen| *seen), "a read is complete before all bytes arrived");
        assert!(
            !run.is_true || run.out.iter().enumerate().all(|(n, byte)| *byte == memory(address + n as u64))
        );
        return true;
    }
    false
}

/// Returns the byte of memory at `address`, a hash of the address.
fn memory(address: u64) -> u8 {
    (address as u8).wrapping_mul(31) ^ (address >> 8) as u8
}

impl Run {
    /// Delivers completion number `at` of the read, cut at 64 bytes, from a completer whose Max_Payload_Size is in `step`. If bit 1
    /// of `step` is set, spoils a byte of its header that `by` selects.
    fn completion(&mut self, step: u8, at: u8, by: u8) {
        let mps = Mps::new(128 << (step >> 2 & 3)).unwrap_or_default();
        let (total, first) = (self.read.span.byte_count(), self.read.span.first_byte());
        let (mut offset, mut piece) = (0, completion_piece(first, total, mps, Rcb::default()));
        for _ in 0..at {
            if offset + piece == total {
                break;
            }
            offset += piece;
            piece = completion_piece(first + u64::from(offset), total - offset, mps, Rcb::default());
        }
        let address = first + u64::from(offset);
        let status = Status::from_bits(if step & 0x80 == 0 { 0 } else { step >> 4 & 7 });
        let is_data = status == Status::Success;
        let repr = Repr::new(Body::Completion(Completion {
            status,
            byte_count: (total - offset) as u16,
            lower_address: (address & 0x7f) as u8,
            length_dw: is_data.then_some(((address & 3) as u32 + piece).div_ceil(4) as u16),
            ..Completion::new(Bdf::from_bits(0), self.read.requester, self.read.tag)
        }));
        let mut tlp = vec![0; repr.tlp_len()];
        let header = repr.emit(&mut tlp);
        for (n, byte) in tlp[header..].iter_mut().enumerate() {
            *byte = memory((address & !3) + n as u64);
        }
        let is_spoiled = step & 2 != 0;
        if is_spoiled {
            tlp[usize::from(by) % 12] ^= 1 << (by >> 5);
        }
        self.take(&tlp, !is_spoiled);
    }

    fn take(&mut self, tlp: &[u8], is_own: bool) {
        // Runs it twice, on complementary buffers: bytes that are equal afterwards were written.
        let was_whole = self.gather.is_whole();
        let (mut other, mut inverse) = (self.gather, self.out.iter().map(|byte| !byte).collect::<Vec<_>>());
        let mut out = self.out.clone();
        let taken = self.gather.take(tlp, Some(&mut out));
        assert_eq!(other.take(tlp, Some(&mut inverse)), taken);
        let written: Vec<bool> = out.iter().zip(&inverse).map(|(a, b)| a == b).collect();
        let count = written.iter().filter(|written| **written).count();
        assert_eq!(count > 0, taken == Taken::Data, "only data writes bytes");
        for (seen, written) in self.seen.iter_mut().zip(&written) {
            assert!(!(*seen && *written), "byte written twice");
            *seen |= written;
        }
        assert!(!was_whole || taken != Taken::Data, "data accepted for a whole read");
        self.has_failed |= matches!(taken, Taken::Failed(_));
        self.is_true &= is_own || count == 0;
        self.out = out;
    }
}
