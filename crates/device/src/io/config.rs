// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration requests to a function's own registers, in the form in which an `async` device takes them.

use super::request::{Owed, Success};
use crate::seam::CompletionError;
use tlp::Data;

/// A read of a register. This request is answered like a [`ReadRequest`](super::ReadRequest).
#[derive(Debug)]
pub struct ConfigRead {
    pub(super) owed: Owed,
    pub(super) register_dw: u16,
    pub(super) byte_enables: u8,
}

impl ConfigRead {
    /// DW number of the register.
    pub fn register_dw(&self) -> u16 {
        self.register_dw
    }

    /// Byte Enables of the requested bytes, one bit each; the answer has all four bytes.
    pub fn byte_enables(&self) -> u8 {
        self.byte_enables
    }

    /// Answers the request with `value`.
    pub fn complete(self, value: u32) {
        let payload = self.owed.pool().copy(&value.to_le_bytes());
        self.owed.pay(Ok(Data::Carried(payload)));
    }

    /// Rejects it.
    pub fn fail(self, error: CompletionError) {
        self.owed.pay(Err(error));
    }
}

/// A write of a register. When this value is dropped, the request completes successfully, unless [`fail`](Self::fail)
/// was called.
#[derive(Debug)]
pub struct ConfigWrite {
    pub(super) owed: Success,
    pub(super) register_dw: u16,
    pub(super) byte_enables: u8,
    pub(super) value: u32,
}

impl ConfigWrite {
    /// DW number of the register.
    pub fn register_dw(&self) -> u16 {
        self.register_dw
    }

    /// Returns the register's value after this write, if its value was `old` before.
    pub fn apply(&self, old: u32) -> u32 {
        let mask = config::register::byte_mask(self.byte_enables);
        old & !mask | self.value & mask
    }

    /// Rejects it.
    pub fn fail(mut self, error: CompletionError) {
        self.owed.fail(error);
    }
}
