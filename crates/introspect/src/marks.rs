// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte patterns that identify a kernel in memory.

use crate::btf;
use crate::layout::COMM_BYTES;
use std::ops::Range;

/// `init_task.comm`: `INIT_TASK_COMM` "/0".
const SWAPPER: [u8; COMM_BYTES] = *b"swapper/0\0\0\0\0\0\0\0";
/// Number of bytes at an address that are needed to test the address for a mark.
pub(crate) const MARK_BYTES: usize = COMM_BYTES;
/// A page without a mark.
const ZEROES: [u8; 4096] = [0; 4096];
/// Maximum number of marks of each kind to keep; a kernel does not have more.
const MAX_MARKS: usize = 64;

/// Addresses where parts of a kernel may be.
#[derive(Default)]
pub(crate) struct Marks {
    /// Possible starts of BTF.
    pub(crate) btf: Vec<u64>,
    /// Possible names of the first task.
    pub(crate) swapper: Vec<u64>,
}

impl Marks {
    /// Searches `bytes`, which are at `address`, for marks. Tests every offset with at least [`MARK_BYTES`] left.
    pub(crate) fn look(&mut self, address: u64, bytes: &[u8]) {
        let places = (bytes.len() + 1).saturating_sub(MARK_BYTES);
        for start in (0..places).step_by(ZEROES.len()) {
            let end = places.min(start + ZEROES.len());
            // Most memory is zero. To compare whole pages is much faster than to test each offset.
            if bytes[start..end] != ZEROES[..end - start] {
                self.look_closely(address, bytes, start..end);
            }
        }
    }

    fn look_closely(&mut self, address: u64, bytes: &[u8], places: Range<usize>) {
        // Compilers align both marks to four bytes.
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

/// Returns true if a kernel's image may start with these bytes. `startup_64` first sets up the stack, with `lea
/// disp32(%rip), %rsp` (Linux, `arch/x86/kernel/head_64.S`, 4.9 to 6.12: as the first or the second instruction).
pub(crate) fn is_entry(bytes: &[u8]) -> bool {
    bytes[..MARK_BYTES].windows(3).any(|code| code == [0x48, 0x8d, 0x25])
}
