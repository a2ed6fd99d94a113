// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes that a memory, I/O or configuration request accesses: address, Length and Byte Enables.

use core::fmt;

/// The bytes that a request accesses (`PCIe 5.0 §2.2.5`, §2.2.7): a DW-aligned address, Length in DW, and the Byte
/// Enables of the first and last DW. Holds only legal combinations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    address: u64,
    length_dw: u16,
    first_be: u8,
    last_be: u8,
}

/// Reason why an address, Length and Byte Enables are not a legal combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanError {
    /// Address bits 1:0 are not zero.
    Unaligned(u64),
    /// Length is not 1 to 1024 DW, or the number of bytes is not 1 to 4096.
    Length(u32),
    /// The request crosses a 4 KiB boundary (`PCIe 5.0 §2.2.7`).
    Crosses4K(u64),
    /// The request ends above address 2^64.
    Overflow(u64),
    /// First and Last Byte Enables, which `PCIe 5.0 §2.2.5` forbids for this length.
    ByteEnables(u8, u8),
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpanError::Unaligned(a) => write!(f, "address {a:#x} is not DW-aligned"),
            SpanError::Length(n) => write!(f, "length {n}: expected 1 to 1024 DW (4096 bytes)"),
            SpanError::Crosses4K(a) => write!(f, "request at {a:#x} crosses a 4 KiB boundary"),
            SpanError::Overflow(a) => write!(f, "request at {a:#x} passes the end of the address space"),
            SpanError::ByteEnables(first, last) => {
                write!(f, "byte enables first {first:#x}, last {last:#x} are not allowed at this length")
            }
        }
    }
}

impl core::error::Error for SpanError {}

const FULL: u8 = 0xf;

const fn ends_at_top(be: u8) -> bool {
    matches!(be, 0b1000 | 0b1100 | 0b1110 | 0b1111)
}

const fn starts_at_bottom(be: u8) -> bool {
    matches!(be, 0b0001 | 0b0011 | 0b0111 | 0b1111)
}

impl Span {
    /// The span with these header fields.
    ///
    /// # Errors
    /// If the specification forbids the combination.
    pub const fn from_fields(
        address: u64,
        length_dw: u32,
        first_be: u8,
        last_be: u8,
    ) -> Result<Span, SpanError> {
        if address & 3 != 0 {
            return Err(SpanError::Unaligned(address));
        }
        if length_dw == 0 || length_dw > 1024 {
            return Err(SpanError::Length(length_dw));
        }
        if (address & 0xfff) + length_dw as u64 * 4 > 0x1000 {
            return Err(SpanError::Crosses4K(address));
        }
        if !byte_enables_legal(address, length_dw, first_be, last_be) {
            return Err(SpanError::ByteEnables(first_be, last_be));
        }
        Ok(Span { address, length_dw: length_dw as u16, first_be, last_be })
    }

    /// The span of `len` bytes from `address` on.
    ///
    /// # Errors
    /// If `len` is not 1 to 4096, or the bytes cross a 4 KiB boundary.
    #[inline]
    pub const fn covering(address: u64, len: u32) -> Result<Span, SpanError> {
        if len == 0 || len > 4096 {
            return Err(SpanError::Length(len));
        }
        if (address & 0xfff) + len as u64 > 0x1000 {
            return Err(SpanError::Crosses4K(address));
        }
        let lead = (address & 3) as u32;
        let length_dw = (lead + len).div_ceil(4);
        let first = (FULL << lead) & FULL;
        let last = FULL >> ((4 - (lead + len) % 4) % 4);
        let (first_be, last_be) = if length_dw == 1 { (first & last, 0) } else { (first, last) };
        Ok(Span { address: address & !3, length_dw: length_dw as u16, first_be, last_be })
    }

    /// The span of a zero-length request ("flush"): one DW, no byte enabled (`PCIe 5.0 §2.2.5`).
    pub const fn zero_length(address: u64) -> Span {
        Span::in_dw(address, 0)
    }

    /// The span of one DW with these Byte Enables, bits 3:0. All values are legal.
    pub const fn in_dw(address: u64, first_be: u8) -> Span {
        Span { address: address & !3, length_dw: 1, first_be: first_be & FULL, last_be: 0 }
    }

    /// Address of the first DW.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Length in DW, 1 to 1024.
    #[must_use]
    pub const fn length_dw(self) -> u32 {
        self.length_dw as u32
    }

    /// Byte Enables of the first DW, bits 3:0.
    #[must_use]
    pub const fn first_be(self) -> u8 {
        self.first_be
    }

    /// Byte Enables of the last DW, bits 3:0; zero if Length is 1.
    #[must_use]
    pub const fn last_be(self) -> u8 {
        self.last_be
    }

    /// True for a zero-length request.
    #[must_use]
    pub const fn is_zero_length(self) -> bool {
        self.first_be == 0
    }

    /// Bytes in the first DW before the first enabled byte: 0 to 3.
    #[must_use]
    pub const fn lead(self) -> u32 {
        if self.first_be == 0 { 0 } else { self.first_be.trailing_zeros() }
    }

    /// Bytes in the last DW after the last enabled byte: 0 to 3.
    #[must_use]
    pub const fn trail(self) -> u32 {
        let be = if self.length_dw == 1 { self.first_be } else { self.last_be };
        if be == 0 { 3 } else { be.leading_zeros() - 4 }
    }

    /// Address of the first enabled byte, or of the first byte of the DW if none is enabled.
    #[must_use]
    pub const fn first_byte(self) -> u64 {
        self.address + self.lead() as u64
    }

    /// Number of bytes from the first to the last enabled byte. This is the Byte Count of the completion of such a
    /// read (`PCIe 5.0 §2.3.1.1`), and 1 for a zero-length read.
    #[must_use]
    pub const fn byte_count(self) -> u32 {
        self.length_dw as u32 * 4 - self.lead() - self.trail()
    }

    /// Returns true if the byte `index` bytes after [`first_byte`](Self::first_byte) is enabled.
    #[must_use]
    pub const fn is_enabled(self, index: u32) -> bool {
        let at = self.lead() + index;
        let dw = at / 4;
        let last = self.length_dw as u32 - 1;
        let be = if dw == 0 {
            self.first_be
        } else if dw == last {
            self.last_be
        } else if dw < last {
            FULL
        } else {
            0
        };
        be >> (at % 4) & 1 == 1
    }

    /// Returns true if at least one byte is enabled, and no byte between the first and the last enabled one is
    /// disabled.
    #[must_use]
    pub const fn is_contiguous(self) -> bool {
        if self.first_be == 0 {
            return false;
        }
        if self.length_dw == 1 {
            let run = self.first_be >> self.first_be.trailing_zeros();
            return run & (run + 1) == 0;
        }
        ends_at_top(self.first_be) && starts_at_bottom(self.last_be)
    }
}

/// The rules of `PCIe 5.0 §2.2.5`. For Length 1, the last field is zero and the first may have any value. For longer
/// requests, neither is zero. Gaps are legal only in one DW, or in two DWs that form an aligned QW.
pub(crate) const fn byte_enables_legal(address: u64, length_dw: u32, first: u8, last: u8) -> bool {
    if first > FULL || last > FULL {
        return false;
    }
    match length_dw {
        1 => last == 0,
        2 if address & 4 == 0 => first != 0 && last != 0,
        _ => ends_at_top(first) && starts_at_bottom(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_enables_cover_exactly_requested_bytes() {
        for lead in 0..8u64 {
            for len in 1..=64u32 {
                let span = Span::covering(0x1000 + lead, len).unwrap();
                assert_eq!(span.first_byte(), 0x1000 + lead);
                assert_eq!(span.byte_count(), len);
                assert!(span.is_contiguous());
                let again =
                    Span::from_fields(span.address(), span.length_dw(), span.first_be(), span.last_be());
                assert_eq!(again, Ok(span));
            }
        }
    }

    #[test]
    fn zero_length_counts_one_byte() {
        let span = Span::zero_length(0x1002);
        assert_eq!((span.byte_count(), span.lead(), span.is_enabled(0)), (1, 0, false));
    }

    /// Byte Count for Byte Enables, in rows of the table in `PCIe 5.0 §2.3.1.1`.
    #[test]
    fn byte_count_matches_table() {
        let rows = [
            (1, 0b1001, 0, 4),
            (1, 0b0101, 0, 3),
            (1, 0b1010, 0, 3),
            (1, 0b0011, 0, 2),
            (1, 0b1000, 0, 1),
            (1, 0b0000, 0, 1),
            (2, 0b0001, 0b1000, 8),
            (2, 0b0001, 0b0001, 5),
            (2, 0b1000, 0b0001, 2),
            (4, 0b1100, 0b0011, 12),
        ];
        for (dw, first, last, count) in rows {
            assert_eq!(Span::from_fields(0x2000, dw, first, last).unwrap().byte_count(), count);
        }
    }

    #[test]
    fn rejects_gaps_outside_one_dw_or_aligned_qw() {
        assert!(Span::from_fields(0x1000, 2, 0b0101, 0b1010).is_ok());
        assert!(Span::from_fields(0x1004, 2, 0b0101, 0b1010).is_err());
        assert!(Span::from_fields(0x1000, 3, 0b0101, 0b1111).is_err());
        assert!(Span::from_fields(0x1000, 1, 0b0101, 0b0001).is_err());
        assert!(Span::from_fields(0x1ffc, 2, 0xf, 0xf).is_err());
    }
}
