// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI capability (`PCIe 5.0 §7.7.1`), 64-bit, without per-vector masking.
//!
//! ```text
//! +0   Message Control                   Next           ID 05h
//!      23 64-bit, 22:20 Multiple Message Enable, 19:17 Multiple Message Capable, 16 Enable
//! +4   Message Address 31:2
//! +8   Message Upper Address
//! +c   -                                 Message Data
//! ```

use super::rw;
use crate::register::Register;

/// Capability ID.
pub const ID: u8 = 0x05;

/// MSI Enable.
pub const ENABLE: u32 = 1 << 16;
/// Multiple Message Capable, a shift: the logarithm of the vectors asked for.
pub const CAPABLE_SHIFT: u32 = 17;
/// Multiple Message Enable, a shift: the logarithm of the vectors granted.
pub const ENABLE_SHIFT: u32 = 20;
/// Multiple Message Enable.
pub const MULTIPLE_ENABLE: u32 = 0b111 << ENABLE_SHIFT;
/// 64-bit Address Capable: Message Data stands behind an Upper Address.
pub const CAPABLE_64_BIT: u32 = 1 << 23;

/// MSI as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiLayout {
    /// Vectors asked for: 1, 2, 4, 8, 16 or 32.
    pub vectors: u8,
}

/// MSI as software has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiConfig {
    /// Where the interrupt write goes.
    pub address: u64,
    /// Its data; the low bits are replaced by the vector.
    pub data: u16,
    /// Vectors granted, a power of two from 1 to 32.
    pub vectors: u8,
}

impl MsiLayout {
    pub(crate) fn registers(self) -> [Register; 4] {
        let capable = self.vectors.trailing_zeros() << CAPABLE_SHIFT;
        [rw(CAPABLE_64_BIT | capable, ENABLE | MULTIPLE_ENABLE), rw(0, !0b11), rw(0, !0), rw(0, 0xffff)]
    }

    pub(crate) const fn is_legal(self) -> bool {
        self.vectors.is_power_of_two() && self.vectors <= 32
    }
}

/// What the four registers say, where they say that MSI is enabled. Software that enables more vectors than are
/// capable, or the reserved encodings, gets as many as are capable.
pub(crate) fn config(registers: [u32; 4]) -> Option<MsiConfig> {
    let control = registers[0];
    if control & ENABLE == 0 {
        return None;
    }
    let capable = control >> CAPABLE_SHIFT & 0b111;
    let enabled = control >> ENABLE_SHIFT & 0b111;
    Some(MsiConfig {
        address: u64::from(registers[1]) | u64::from(registers[2]) << 32,
        data: registers[3] as u16,
        vectors: 1 << enabled.min(capable),
    })
}
