// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AtomicOp requests (`PCIe 5.0 §2.2.7`, §6.15): their fields, and the result of each operation. Accesses no memory.

use crate::{Bdf, Tag};

/// The operation of an AtomicOp. All are non-posted, and their completion returns the old value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// FetchAdd: adds the operand to the old value; the sum wraps around at the size of the operand.
    FetchAdd,
    /// Swap: stores the operand.
    Swap,
    /// CAS: stores the second operand if the first equals the old value.
    CompareSwap,
}

/// Size of an operand (`PCIe 5.0 §6.15.1`): 32 or 64 bits for all operations, 128 bits for CAS only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OperandSize {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
    /// 128 bits; CAS only.
    Bits128,
}

impl OperandSize {
    /// Bytes: 4, 8 or 16.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            OperandSize::Bits32 => 4,
            OperandSize::Bits64 => 8,
            OperandSize::Bits128 => 16,
        }
    }

    /// The size of an operand of `bytes` bytes: 4, 8 or 16. Any other number counts as 16.
    #[must_use]
    pub const fn of_bytes(bytes: u32) -> OperandSize {
        match bytes {
            4 => OperandSize::Bits32,
            8 => OperandSize::Bits64,
            _ => OperandSize::Bits128,
        }
    }
}

/// FetchAdd, Swap or CAS. The header has 4 DW for addresses from 4 GiB on, and 3 DW below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicRequest {
    /// The operation.
    pub op: AtomicOp,
    /// Size of an operand.
    pub operand: OperandSize,
    /// Requester ID.
    pub requester: Bdf,
    /// Tag.
    pub tag: Tag,
    /// Address, a multiple of the operand's size.
    pub address: u64,
}

impl AtomicOp {
    /// Number of operands in the request: 1, or 2 in a CAS (compare value, then swap value).
    #[must_use]
    pub const fn operands(self) -> u32 {
        match self {
            AtomicOp::FetchAdd | AtomicOp::Swap => 1,
            AtomicOp::CompareSwap => 2,
        }
    }

    /// The size of an operand in a request of `length_dw` DWs (`PCIe 5.0 Table 2-14`). `None` unless the length is
    /// 1 or 2 for FetchAdd and Swap, or 2, 4 or 8 for CAS.
    #[must_use]
    pub const fn operand_of_length(self, length_dw: u32) -> Option<OperandSize> {
        match (self, length_dw) {
            (AtomicOp::FetchAdd | AtomicOp::Swap, 1) | (AtomicOp::CompareSwap, 2) => {
                Some(OperandSize::Bits32)
            }
            (AtomicOp::FetchAdd | AtomicOp::Swap, 2) | (AtomicOp::CompareSwap, 4) => {
                Some(OperandSize::Bits64)
            }
            (AtomicOp::CompareSwap, 8) => Some(OperandSize::Bits128),
            _ => None,
        }
    }

    /// Computes the new value of memory in `new`, from the old value `old` and the `operands` in the request
    /// ([`AtomicRequest::length_dw`] DWs). Values are little endian, as in memory. `old` and `new` have the length
    /// of one operand, and `operands` has that length, or twice that length for a CAS. Bytes beyond these lengths
    /// are ignored, and missing bytes count as zero.
    pub fn apply(self, old: &[u8], operands: &[u8], new: &mut [u8]) {
        let size = new.len();
        let (first, second) = operands.split_at(size.min(operands.len()));
        let value = match self {
            AtomicOp::FetchAdd => little(old, size).wrapping_add(little(first, size)),
            AtomicOp::Swap => little(first, size),
            AtomicOp::CompareSwap if little(old, size) == little(first, size) => little(second, size),
            AtomicOp::CompareSwap => little(old, size),
        };
        let bytes = value.to_le_bytes();
        let whole = size.min(bytes.len());
        new[..whole].copy_from_slice(&bytes[..whole]);
    }
}

fn little(bytes: &[u8], size: usize) -> u128 {
    let mut value = [0; 16];
    let len = bytes.len().min(size).min(value.len());
    value[..len].copy_from_slice(&bytes[..len]);
    u128::from_le_bytes(value)
}

impl AtomicRequest {
    /// Length of the data in DW: 1, 2, 4 or 8.
    pub const fn length_dw(&self) -> u32 {
        self.op.operands() * self.operand.bytes() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: operation, old value, operands, new value (`PCIe 5.0 §6.15.1`).
    #[test]
    fn atomic_operation_computes_new_value() {
        type Row = (AtomicOp, &'static [u8], &'static [u8], &'static [u8]);
        let rows: [Row; 6] = [
            (AtomicOp::FetchAdd, &[0xff, 0, 0, 0], &[1, 0, 0, 0], &[0, 1, 0, 0]),
            (AtomicOp::FetchAdd, &[0xff; 4], &[2, 0, 0, 0], &[1, 0, 0, 0]),
            (
                AtomicOp::FetchAdd,
                &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
                &[1, 0, 0, 0, 0, 0, 0, 0],
                &[0, 0, 0, 0, 1, 0, 0, 0],
            ),
            (AtomicOp::Swap, &[1, 2, 3, 4], &[5, 6, 7, 8], &[5, 6, 7, 8]),
            (AtomicOp::CompareSwap, &[1, 2, 3, 4], &[1, 2, 3, 4, 9, 9, 9, 9], &[9, 9, 9, 9]),
            (AtomicOp::CompareSwap, &[1, 2, 3, 4], &[1, 2, 3, 5, 9, 9, 9, 9], &[1, 2, 3, 4]),
        ];
        for (op, old, operands, then) in rows {
            let new = &mut [0; 8][..old.len()];
            op.apply(old, operands, new);
            assert_eq!(new, then, "{op:?} of {old:x?} with {operands:x?}");
        }
    }

    #[test]
    fn length_determines_operand_size() {
        use AtomicOp::{CompareSwap, FetchAdd, Swap};
        for op in [FetchAdd, Swap, CompareSwap] {
            for length in 0..=1024 {
                let Some(operand) = op.operand_of_length(length) else { continue };
                let request =
                    AtomicRequest { op, operand, requester: Bdf::default(), tag: Tag::default(), address: 0 };
                assert_eq!(request.length_dw(), length);
            }
        }
        assert_eq!(FetchAdd.operand_of_length(4), None, "no FetchAdd of 128 bits");
        assert_eq!(CompareSwap.operand_of_length(1), None);
    }
}
