// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of versions 1 to 3, which know one adapter and give no lengths of inputs. riser reads these versions, but
//! does not write them.
//!
//! ```text
//! u8 kind, u64 time in ps, and
//!   1 a TLP of a peer      way, u32 length, its bytes
//!   2 configuration write  7 bytes     3 adapter register  5 bytes     4 egress entry taken  5 bytes
//!   5 device software has come     6 the end
//! a way: 2 bytes, u8 4 or 6 (bytes of an address: 4 or 16), 6 bytes
//! ```
//!
//! An input of version 4 is the kind with the bytes after the time. Versions 1 and 2 held no overriding keys, and version 1 no
//! files.

use super::bytes::Cursor;

/// The first lines of the versions, in order.
pub(super) const MAGICS: [&[u8]; 3] =
    [b"riser nettlp record 1\n", b"riser nettlp record 2\n", b"riser nettlp record 3\n"];
pub(super) const END: u8 = 6;

/// The bytes of an entry after its kind and time.
pub(super) fn body<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let mut ahead = cursor.clone();
    let len = match kind {
        1 => {
            ahead.take(2)?;
            let address = if ahead.u8()? == 4 { 4 } else { 16 };
            ahead.take(address + 6)?;
            ahead.counted()?;
            ahead.at - cursor.at
        }
        2 => 7,
        3 | 4 => 5,
        _ => 0,
    };
    cursor.take(len)
}
