// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of the registers of a model's functions, for tools that show accesses to them.

pub use capture::DeviceRegister;

use crate::model::ModelError;

/// The registers of the function with these IDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionRegisters {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID; for virtual functions, VF Device ID of the SR-IOV capability.
    pub device: u16,
    /// The registers in the order of BAR and offset, without overlap.
    pub registers: &'static [DeviceRegister],
}

/// Returns a register of `bytes` bytes at `offset` of `bar`; without `bar`, of the function's only BAR.
pub const fn named(bar: Option<u8>, offset: u64, bytes: u64, name: &'static str) -> DeviceRegister {
    DeviceRegister { bar, offset, bytes, name }
}

impl FunctionRegisters {
    /// # Errors
    /// The first register of `model` that is out of order, is empty or lies in no BAR.
    pub(crate) fn check(&self, model: &'static str) -> Result<(), ModelError> {
        let mut end = (None, 0);
        for register in self.registers {
            let last = register.offset.checked_add(register.bytes);
            let is_behind = register.bar > end.0 || register.bar == end.0 && register.offset >= end.1;
            let is_there = register.bytes > 0 && register.bar.is_none_or(|bar| bar < 6);
            match last.filter(|_| is_behind && is_there) {
                Some(last) => end = (register.bar, last),
                None => return Err(ModelError::Register { model, register: register.name }),
            }
        }
        Ok(())
    }
}
