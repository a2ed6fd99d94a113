// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identify data of controllers and namespaces (NVMe 1.4 §5.15). Data only.

use super::media::Namespace;
use super::settings::Block;
use super::{ERROR_LOG_ENTRIES, MAX_TRANSFER_SHIFT};
use crate::VENDOR;

/// Size of each structure in bytes.
pub(super) const BYTES: usize = 4096;
const MODEL: &[u8] = b"riser NVMe controller";
const SUBSYSTEM: &str = "nqn.2026-01.riser:nvme:";
/// NVMe 1.4.
pub(super) const VERSION: u32 = 0x0001_0400;
/// The normal temperature, followed by the warning and critical ones, in kelvin.
pub(super) const TEMPERATURE: u16 = 313;
pub(super) const WARNING_TEMPERATURE: u16 = 343;
const CRITICAL_TEMPERATURE: u16 = 353;
/// Maximum number of waiting Asynchronous Event Requests.
pub(super) const ASYNC_EVENTS: usize = 4;

/// Fields at their offsets.
pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn new(bytes: usize) -> Fields {
        Fields(vec![0; bytes])
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Fields {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Text, padded with blanks.
    fn text(&mut self, at: usize, len: usize, text: &[u8]) -> &mut Fields {
        self.0[at..at + len].fill(b' ');
        self.put(at, text)
    }
}

/// Values that differ between controllers.
pub(super) struct Subject<'a> {
    pub(super) serial: &'a str,
    pub(super) controller: u16,
    pub(super) are_several: bool,
    pub(super) has_cache: bool,
    pub(super) namespaces: u32,
}

/// Identify Controller.
pub(super) fn controller(subject: &Subject<'_>) -> Vec<u8> {
    let mut fields = Fields::new(BYTES);
    let subsystem = format!("{SUBSYSTEM}{}", subject.serial);
    fields
        .put(0, &VENDOR.to_le_bytes())
        .put(2, &VENDOR.to_le_bytes())
        .text(4, 20, subject.serial.as_bytes())
        .text(24, 40, MODEL)
        .text(64, 8, env!("CARGO_PKG_VERSION").as_bytes())
        // CMIC: multiple controllers, and whether this one belongs to a virtual function.
        .put(76, &[u8::from(subject.are_several) << 1 | u8::from(subject.controller > 0) << 2])
        .put(77, &[MAX_TRANSFER_SHIFT])
        .put(78, &subject.controller.to_le_bytes())
        .put(80, &VERSION.to_le_bytes())
        // CNTRLTYPE: an I/O controller.
        .put(111, &[1])
        // OACS: Format NVM.
        .put(256, &(1u16 << 1).to_le_bytes())
        // ACL and AERL, minus one; FRMW: one read-only slot; LPA: effects, extended data; ELPE and NPSS, minus one.
        .put(258, &[3, ASYNC_EVENTS as u8 - 1, 0b11, 0b110, ERROR_LOG_ENTRIES as u8 - 1, 0])
        .put(266, &WARNING_TEMPERATURE.to_le_bytes())
        .put(268, &CRITICAL_TEMPERATURE.to_le_bytes())
        // SQES, CQES: only 64 and 16 B.
        .put(512, &[0x66, 0x44])
        .put(514, &(super::MAX_UNDER_WAY as u16).to_le_bytes())
        .put(516, &subject.namespaces.to_le_bytes())
        // ONCS: Compare, Write Uncorrectable, Dataset Management, Write Zeroes.
        .put(520, &0b1111u16.to_le_bytes())
        // VWC: whether there is one. Flush covers all namespaces.
        .put(525, &[0b110 | u8::from(subject.has_cache)])
        // SGLS: without alignment, with bit buckets, and may be longer than the data.
        .put(536, &(1u32 | 1 << 16 | 1 << 18).to_le_bytes())
        .put(768, subsystem.as_bytes())
        // Power state 0: 25 W.
        .put(2048, &2500u16.to_le_bytes());
    fields.0
}

/// Identify Namespace.
pub(super) fn namespace(namespace: &Namespace, is_shared: bool, eui64: u64) -> Vec<u8> {
    let mut fields = Fields::new(BYTES);
    let (blocks, block) = (namespace.blocks(), u64::from(namespace.block_bytes()));
    let format = Block::SHIFTS.iter().position(|shift| 1 << shift == block).unwrap_or_default();
    fields
        .put(0, &blocks.to_le_bytes())
        .put(8, &blocks.to_le_bytes())
        .put(16, &(namespace.used_bytes() / block).to_le_bytes())
        .put(25, &[Block::SHIFTS.len() as u8 - 1, format as u8])
        .put(30, &[u8::from(is_shared)])
        // DLFEAT: deallocated blocks read as zeros; Write Zeroes may deallocate.
        .put(33, &[0b1001])
        .put(48, &u128::from(namespace.size_bytes).to_le_bytes())
        .put(120, &eui64.to_be_bytes());
    for (n, shift) in Block::SHIFTS.into_iter().enumerate() {
        fields.put(128 + 4 * n, &[0, 0, shift, 0]);
    }
    fields.0
}

/// An EUI-64, made of our vendor ID and the numbers of subsystem and namespace.
pub(super) fn eui64(serial: u32, nsid: u32) -> u64 {
    u64::from(VENDOR) << 48 | u64::from(serial) << 16 | u64::from(nsid)
}

/// Namespace Identification Descriptors: the EUI-64.
pub(super) fn descriptors(eui64: u64) -> Vec<u8> {
    let mut fields = Fields::new(BYTES);
    fields.put(0, &[1, 8]).put(4, &eui64.to_be_bytes());
    fields.0
}

/// A list of numbers, such as namespaces. A list of controllers starts with their count.
pub(super) fn list(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut fields = Fields::new(BYTES);
    for (n, number) in numbers.take(BYTES / 4).enumerate() {
        fields.put(4 * n, &number.to_le_bytes());
    }
    fields.0
}
