// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration requests to registers that a function declares as its own, as an `async` device takes them. Never knows what a
//! register means.

use super::request::{Owed, Success};
use crate::seam::CompletionError;
use tlp::Data;

/// A read of a register, to be answered as a [`ReadRequest`](super::ReadRequest) is.
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

    /// The bytes that are wanted, a bit each; all four are answered.
    pub fn byte_enables(&self) -> u8 {
        self.byte_enables
    }

    /// Answers it.
    pub fn complete(self, value: u32) {
        let payload = self.owed.pool().copy(&value.to_le_bytes());
        self.owed.pay(Ok(Data::Carried(payload)));
    }

    /// Refuses it.
    pub fn fail(self, error: CompletionError) {
        self.owed.pay(Err(error));
    }
}

/// A write of a register. When dropped it completes successfully, unless it was [`fail`](Self::fail)ed.
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

    /// The value of the register after this write, if it held `old`.
    pub fn apply(&self, old: u32) -> u32 {
        let mask = config::register::byte_mask(self.byte_enables);
        old & !mask | self.value & mask
    }

    /// Refuses it.
    pub fn fail(mut self, error: CompletionError) {
        self.owed.fail(error);
    }
}
