// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The three CRCs of PCI Express: LCRC and ECRC of TLPs, and the CRC-16 of DLLPs.
//!
//! Each starts with all ones and takes each byte from bit 0 to bit 7. The field holds the complement of the remainder,
//! with the bits of each byte mirrored (`PCIe 5.0 §2.7.1`, §3.5.1, §3.6.2.1). This is the usual reflected CRC, if the
//! low byte of the register is sent first. LCRC and ECRC use the CRC-32 of Ethernet.

use crate::Repr;

/// 0x04C11DB7 (`PCIe 5.0 §3.6.2.1`), mirrored.
const LCRC_POLYNOMIAL: u32 = 0x04C1_1DB7_u32.reverse_bits();
/// 0x100B (`PCIe 5.0 §3.5.1`), mirrored.
const DLLP_POLYNOMIAL: u16 = 0x100B_u16.reverse_bits();

/// Number of bytes that one step of the CRC-32 processes.
const STEP: usize = 8;

// Row 0 is the effect of the last byte of a step. Row n is the effect of a byte n places before it.
const fn tables_32() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut index = 0;
    while index < STEP * 256 {
        let (row, byte) = (index / 256, index % 256);
        let mut crc = if row == 0 { byte as u32 } else { tables[row - 1][byte] };
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { LCRC_POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[row][byte] = crc;
        index += 1;
    }
    tables
}

const fn table_16() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { DLLP_POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static TABLES_32: [[u32; 256]; STEP] = tables_32();
static TABLE_16: [u16; 256] = table_16();

/// Continues the CRC-32 of Ethernet over `bytes` from `crc`, which is `u32::MAX` at the start. The result is not
/// complemented, as in Linux's `crc32_le`.
pub fn crc32(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut steps = bytes.chunks_exact(STEP);
    for step in &mut steps {
        let head = crc.to_le_bytes();
        let fold = |crc, (at, &byte): (usize, &u8)| {
            let byte = byte ^ head.get(at).copied().unwrap_or(0);
            crc ^ TABLES_32[STEP - 1 - at][byte as usize]
        };
        crc = step.iter().enumerate().fold(0, fold);
    }
    let byte_step = |crc: u32, &byte: &u8| crc >> 8 ^ TABLES_32[0][(crc as u8 ^ byte) as usize];
    steps.remainder().iter().fold(crc, byte_step)
}

// The complement of the register, with the bytes in the order of the field: bit 31 is bit 7 of the first byte.
const fn field_32(crc: u32) -> u32 {
    (!crc).swap_bytes()
}

/// The LCRC of a TLP (`PCIe 5.0 §3.6.2.1`): covers four zero bits, the 12-bit `sequence` number and `tlp` (header, data
/// and digest). `to_be_bytes` of the result is the order on the wire. The LCRC is the same with 8b/10b and 128b/130b,
/// where the bits before the sequence number count as zero (`PCIe 5.0 §4.2.2.3`).
pub fn lcrc(sequence: u16, tlp: &[u8]) -> u32 {
    let crc = crc32(u32::MAX, &(sequence & 0xfff).to_be_bytes());
    field_32(crc32(crc, tlp))
}

/// The ECRC of a TLP (`PCIe 5.0 §2.7.1`): covers end-to-end prefixes, header and data. `tlp` ends before the
/// digest, and may begin with local prefixes, which are not covered. Bit 0 of the header's Type and EP may change
/// on the way, so both count as ones. `to_be_bytes` of the result is the order on the wire.
pub fn ecrc(tlp: &[u8]) -> u32 {
    // Prefixes have Fmt 100b. Then follows Type[4]: 0 in local prefixes, 1 in end-to-end prefixes, which never change.
    let prefixes = |bytes: &[u8], kind| bytes.chunks_exact(4).take_while(|dw| dw[0] >> 4 == kind).count() * 4;
    let covered = &tlp[prefixes(tlp, 0b1000)..];
    let (prefixes, header) = covered.split_at(prefixes(covered, 0b1001));
    let mut crc = crc32(u32::MAX, prefixes);
    let (head, rest) = header.split_at(header.len().min(3));
    for (index, byte) in head.iter().enumerate() {
        // Type[0] is bit 0 of byte 0, EP bit 6 of byte 2.
        let variant = [0x01, 0x00, 0x40][index];
        crc = crc32(crc, &[byte | variant]);
    }
    field_32(crc32(crc, rest))
}

/// Checks the ECRC of a complete TLP: `bytes` are prefixes, header, data and digest, as for [`Repr::parse`]. Returns
/// `None` if TD is clear or the bytes are not a complete TLP, because then there is no digest.
pub fn check_ecrc(bytes: &[u8]) -> Option<bool> {
    Repr::parse(bytes).ok()?.ecrc_fits(bytes)
}

/// The CRC of a DLLP (`PCIe 5.0 §3.5.1`), over its first four bytes. `to_be_bytes` of the result is the order on the
/// wire.
pub fn dllp(bytes: [u8; 4]) -> u16 {
    let crc = bytes.iter().fold(u16::MAX, |crc, &byte| crc >> 8 ^ TABLE_16[(crc as u8 ^ byte) as usize]);
    (!crc).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published check value of CRC-32.
    #[test]
    fn crc_32_has_published_check_value() {
        assert_eq!(!crc32(u32::MAX, b"123456789"), 0xCBF4_3926);
    }

    /// A receiver that computes the CRC over data and LCRC gets the residue of CRC-32, 0xDEBB20E3.
    #[test]
    fn lcrc_leaves_crc_32_residue() {
        let tlp = [0x00, 0x00, 0x00, 0x04, 0x1b, 0x00, 0x03, 0xff, 0x2f, 0x00, 0x10, 0x00];
        for sequence in [0, 1, 0x7ff, 0xfff] {
            let crc = crc32(crc32(u32::MAX, &u16::to_be_bytes(sequence)), &tlp);
            assert_eq!(crc32(crc, &lcrc(sequence, &tlp).to_be_bytes()), 0xDEBB_20E3);
        }
        assert_eq!(lcrc(0x1fff, &tlp), lcrc(0xfff, &tlp));
    }

    /// An MRd alone, and after an Extended TPH prefix. The values are zlib's CRC-32 of the bytes, with both variant
    /// bits set.
    #[test]
    fn ecrc_covers_all_bits_of_end_to_end_prefixes() {
        let mut tlp =
            [0x90, 0x11, 0, 0, 0x00, 0x00, 0x80, 0x04, 0x1b, 0x00, 0x03, 0xff, 0x2f, 0x00, 0x10, 0x00];
        assert_eq!((ecrc(&tlp[4..]), ecrc(&tlp)), (0xcbe0_911a, 0x3cfa_bcca));
        tlp[4] ^= 0x01;
        tlp[6] ^= 0x40;
        assert_eq!(ecrc(&tlp), 0x3cfa_bcca);
        tlp[2] ^= 0x40;
        assert_ne!(ecrc(&tlp), 0x3cfa_bcca);
    }

    #[test]
    fn ecrc_ignores_variant_bits() {
        let mut tlp = [0x05, 0x00, 0x80, 0x01, 0, 0, 0, 0x0f, 1, 0, 0, 0];
        let before = ecrc(&tlp);
        tlp[0] ^= 0x01;
        tlp[2] ^= 0x40;
        assert_eq!(ecrc(&tlp), before);
        tlp[2] ^= 0x10;
        assert_ne!(ecrc(&tlp), before);
    }
}
