// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel is recognised by, wherever it lies.

use crate::btf;
use crate::layout::COMM_BYTES;
use std::ops::Range;

/// `init_task.comm`: `INIT_TASK_COMM` "/0".
const SWAPPER: [u8; COMM_BYTES] = *b"swapper/0\0\0\0\0\0\0\0";
/// What must come with a place for it to be judged.
pub(crate) const MARK_BYTES: usize = COMM_BYTES;
/// A page without a mark.
const ZEROES: [u8; 4096] = [0; 4096];
/// Marks of a kind that are kept: what more there are is no kernel's doing.
const MAX_MARKS: usize = 64;

/// Places that may be a kernel's.
#[derive(Default)]
pub(crate) struct Marks {
    /// Where BTF may begin.
    pub(crate) btf: Vec<u64>,
    /// Where a task of this name may have its name.
    pub(crate) swapper: Vec<u64>,
}

impl Marks {
    /// Looks at bytes that lie at this address, all places from which [`MARK_BYTES`] are there.
    pub(crate) fn look(&mut self, address: u64, bytes: &[u8]) {
        let places = (bytes.len() + 1).saturating_sub(MARK_BYTES);
        for start in (0..places).step_by(ZEROES.len()) {
            let end = places.min(start + ZEROES.len());
            // Most memory is zero. Comparing is far faster than looking at each place.
            if bytes[start..end] != ZEROES[..end - start] {
                self.look_closely(address, bytes, start..end);
            }
        }
    }

    fn look_closely(&mut self, address: u64, bytes: &[u8], places: Range<usize>) {
        // Both are at a multiple of four, as all that the kernel's compilers lay out.
        for at in places.step_by(4) {
            let kept = match bytes[at] {
                b's' if bytes[at..].starts_with(&SWAPPER) => &mut self.swapper,
                0x9f if bytes[at..].starts_with(&btf::BEGIN) => &mut self.btf,
                _ => continue,
            };
            if kept.len() < MAX_MARKS {
                kept.push(address + at as u64);
            }
        }
    }
}

/// Whether a kernel's image may begin with these bytes: `startup_64` sets the stack up first, `lea disp32(%rip), %rsp`
/// (Linux, `arch/x86/kernel/head_64.S`, 4.9 to 6.12: as the first or the second instruction).
pub(crate) fn is_entry(bytes: &[u8]) -> bool {
    bytes[..MARK_BYTES].windows(3).any(|code| code == [0x48, 0x8d, 0x25])
}
