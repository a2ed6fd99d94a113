// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the functions of `tlp.h` on headers as bytes. Uses no socket.

use super::*;

/// Rows: address and count; First DW BE, Last DW BE and Length (`PCIe 5.0 §2.2.5`).
#[test]
fn byte_enables_and_length_follow_address_and_count() {
    let rows = [
        (0x1000, 4, (0xf, 0x0, 1)),
        (0x1000, 1, (0x1, 0x0, 1)),
        (0x1003, 1, (0x8, 0x0, 1)),
        (0x1001, 2, (0x6, 0x0, 1)),
        (0x1003, 2, (0x8, 0x1, 2)),
        (0x1002, 256, (0xc, 0x3, 65)),
        (0x1000, 4096, (0xf, 0xf, 1024)),
        (0x1001, 4095, (0xe, 0xf, 1024)),
        (0x1004, 0, (0x0, 0x0, 1)),
    ];
    for (address, count, expected) in rows {
        let found = (
            tlp_calculate_fstdw(address, count),
            tlp_calculate_lstdw(address, count),
            tlp_calculate_length(address, count),
        );
        assert_eq!(found, expected, "{count} at {address:#x}");
    }
}

/// Rows: header bytes; address, data length and start of the data.
#[test]
fn request_header_gives_address_and_position_of_data() {
    let mr = |dw0: u32, be: u8, address: &[u32]| {
        let mut bytes = dw0.to_be_bytes().to_vec();
        bytes.extend([0x1b, 0, 3, be]);
        address.iter().for_each(|dw| bytes.extend(dw.to_be_bytes()));
        bytes
    };
    let rows = [
        // MRd, 1 DW; 2 DW from byte 3; 1024 DW; zero length; holes.
        (mr(0x0000_0001, 0x0f, &[0x1000]), (0x1000, 4, 12)),
        (mr(0x0000_0002, 0x18, &[0x1000]), (0x1003, 2, 15)),
        (mr(0x0000_0000, 0xff, &[0x1000]), (0x1000, 4096, 12)),
        (mr(0x0000_0001, 0x00, &[0x1000]), (0x1000, 1, 12)),
        (mr(0x0000_0001, 0x05, &[0x1000]), (0x1000, 3, 12)),
        // MRd with 4 DW.
        (mr(0x2000_0001, 0x0f, &[1, 0xffff_fffc]), (0x1_ffff_fffc, 4, 16)),
        // MWr of one byte in lane 2; MWr of no byte. The bits of Processing Hints are not part of the
        // address.
        (mr(0x4000_0001, 0x04, &[0x2000]), (0x2002, 1, 14)),
        (mr(0x4000_0001, 0x00, &[0x2000]), (0x2000, 0, 12)),
        (mr(0x6000_0040, 0xff, &[0xff, 3]), (0xff_0000_0000, 256, 16)),
    ];
    for (mut bytes, expected) in rows {
        let header = bytes.as_mut_ptr().cast();
        // SAFETY: complete headers; the data is not read.
        let (address, length) = unsafe { (tlp_mr_addr(header), tlp_mr_data_length(header)) };
        // SAFETY: as above.
        let data = unsafe { tlp_mwr_data(header) } as usize - header as usize;
        assert_eq!((address, length, data), expected, "{bytes:02x?}");
    }
}

/// Rows: Length, Byte Count and Lower Address; number of data bytes, and start of the data.
#[test]
fn completion_header_gives_position_of_data() {
    for (length, count, lower, expected) in [
        (1, 4, 0x00, (4, 12)),
        (1, 2, 0x01, (2, 13)),
        (64, 512, 0x00, (256, 12)),
        (64, 511, 0x01, (255, 13)),
        (0, 0, 0x00, (4096, 12)),
        (1, 1, 0x7f, (1, 15)),
    ] {
        let mut bytes = [
            0x4a,
            0,
            (length >> 8) as u8,
            length as u8,
            0,
            0,
            (count >> 8) as u8,
            count as u8,
            0,
            0,
            0,
            lower,
        ];
        let header = bytes.as_mut_ptr().cast();
        // SAFETY: a complete header; the data is not read.
        let found =
            unsafe { (tlp_cpld_data_length(header), tlp_cpld_data(header) as usize - header as usize) };
        let length: u16 = length;
        let count: u16 = count;
        assert_eq!(found, expected, "{length} DW, {count} bytes at {lower:#x}");
    }
}

#[test]
fn no_header_causes_an_overflow() {
    for first in [0x00, 0x20, 0x40, 0x60] {
        for be in 0..=0xff {
            for length in [0_u16, 1, 2, 3, 1023] {
                let mut bytes = [0xff; 16];
                bytes[0] = first;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[7] = be;
                let header = bytes.as_mut_ptr().cast();
                // SAFETY: a complete header; the data is not read.
                let (_, count) = unsafe { (tlp_mr_addr(header), tlp_mr_data_length(header)) };
                // SAFETY: as above.
                let data = unsafe { tlp_mwr_data(header) } as usize - header as usize;
                let header_len = if first & 0x20 == 0 { 12 } else { 16 };
                let dws = if length == 0 { 1024 } else { usize::from(length) };
                assert!(data + count as usize <= header_len + dws * 4, "{bytes:02x?}");
            }
        }
    }
}
