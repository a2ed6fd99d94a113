// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI capability (`PCIe 5.0 §7.7.1`): 1 to 32 vectors, 32- or 64-bit address, with or without per-vector masking.

use crate::register::{Register, get, put, structure, those};

// In the order of the 64-bit form. The 32-bit form lacks Message Upper Address.
structure! {
    capability 0x05, "MSI", "PCIe 5.0 §7.7.1";

    0x00 CONTROL "Message Control" {
        16    rw     ENABLE "MSI Enable", "interrupts are memory writes" => MSI;
        19:17 hwinit MULTIPLE_CAPABLE "Multiple Message Capable";
        22:20 rw     MULTIPLE_ENABLE "Multiple Message Enable", "number of vectors in use" => MSI;
        23    hwinit CAPABLE_64_BIT "64-bit Address Capable";
        24    hwinit PER_VECTOR_MASKING "Per-Vector Masking Capable";
        26:25 ro     EXTENDED_DATA "Extended Message Data";
    }
    0x04 _ "Message Address" {
        31:2 rw ADDRESS "Message Address", "address of the interrupt's memory write" => MSI;
    }
    0x08 UPPER_ADDRESS "Message Upper Address (64-bit only)" {
        31:0 rw UPPER "Message Upper Address", "address of the interrupt's memory write" => MSI;
    }
    0x0c _ "Message Data" {
        15:0 rw DATA "Message Data", "data of the interrupt's memory write; the low bits are the vector" => MSI;
    }
    0x10 _ "Mask Bits (per-vector masking only)" {
        31:0 rw MASK "Mask Bits", "masks the vector" => MSI;
    }
    0x14 _ "Pending Bits (per-vector masking only)" {
        31:0 ro PENDING "Pending Bits";
    }
}

/// Declaration of a function's MSI capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiLayout {
    /// Requested vectors: 1, 2, 4, 8, 16 or 32.
    pub vectors: u8,
}

/// Optional parts of an MSI capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsiOptions {
    /// Per-vector Mask Bits and Pending Bits.
    pub masking: bool,
    /// 32-bit message address only.
    pub address_32: bool,
}

/// Settings of MSI by software.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiConfig {
    /// Address of the interrupt write.
    pub address: u64,
    /// Data of the interrupt write; the vector replaces the low bits.
    pub data: u16,
    /// Vectors granted, a power of two from 1 to 32.
    pub vectors: u8,
}

impl MsiLayout {
    pub(crate) fn registers(self, options: MsiOptions) -> Vec<Register> {
        let MsiOptions { masking, address_32 } = options;
        let capable = put(MULTIPLE_CAPABLE, self.vectors.trailing_zeros());
        let forms = those([(!address_32, CAPABLE_64_BIT), (masking, PER_VECTOR_MASKING)]);
        let mut all = TABLE.registers(&[(CONTROL, capable | forms)]);
        all[4] = all[4].without(if self.vectors < 32 { !0 << self.vectors } else { 0 });
        if !masking {
            all.truncate(4);
        }
        if address_32 {
            all.remove(2);
        }
        all
    }

    pub(crate) const fn is_legal(self) -> bool {
        self.vectors.is_power_of_two() && self.vectors <= 32
    }
}

/// DW of Message Data in a capability with this Message Control; Mask Bits and Pending Bits follow.
pub const fn data_dw(control: u32) -> u16 {
    if control & CAPABLE_64_BIT == 0 { 2 } else { 3 }
}

/// Number of vectors that this Message Control requests.
pub(crate) const fn capable(control: u32) -> u16 {
    1 << get(control, MULTIPLE_CAPABLE)
}

/// Decodes the MSI registers, where `word` returns each by its DW. `None` if MSI is disabled. If software enables more vectors than the function requests, or a
/// reserved encoding, the function uses as many as it requested.
pub fn config(word: impl Fn(u16) -> u32) -> Option<MsiConfig> {
    let control = word(0);
    if control & ENABLE == 0 {
        return None;
    }
    let capable = get(control, MULTIPLE_CAPABLE);
    let enabled = get(control, MULTIPLE_ENABLE);
    let upper = if control & CAPABLE_64_BIT == 0 { 0 } else { u64::from(word(2)) << 32 };
    Some(MsiConfig {
        address: u64::from(word(1)) | upper,
        data: word(data_dw(control)) as u16,
        vectors: 1 << enabled.min(capable),
    })
}
