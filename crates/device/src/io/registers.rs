// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plain registers of a BAR.

use super::{ReadRequest, WriteRequest};
use crate::seam::CompletionError;

/// The bytes of a BAR from offset zero on, all readable and writable. Reads beyond them answer UR, and writes there
/// are dropped. A device handles registers with effects itself, before or after.
#[derive(Clone, Debug)]
pub struct RegisterFile {
    bytes: Vec<u8>,
}

impl RegisterFile {
    /// A register file of `len` bytes, all zero.
    pub fn new(len: usize) -> RegisterFile {
        RegisterFile { bytes: vec![0; len] }
    }

    /// What answers `request`.
    ///
    /// # Errors
    /// UR where it reaches beyond the registers.
    pub fn read(&self, request: &ReadRequest) -> Result<&[u8], CompletionError> {
        self.bytes
            .get(place(request.offset())..)
            .and_then(|bytes| bytes.get(..request.len()))
            .ok_or(CompletionError::UnsupportedRequest)
    }

    /// Writes the enabled bytes of `request`; true where all of them lie within.
    pub fn write(&mut self, request: &WriteRequest) -> bool {
        request.apply(&mut self.bytes)
    }

    /// Writes of the enabled bytes the bits for which `writable` has ones; true where all of them lie within.
    pub fn write_bits(&mut self, request: &WriteRequest, writable: &[u8]) -> bool {
        request.apply_bits(&mut self.bytes, writable)
    }

    /// The little-endian DW at `offset`; zero beyond the end.
    pub fn u32(&self, offset: u64) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    /// The little-endian QW at `offset`; zero beyond the end.
    pub fn u64(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// Sets the little-endian DW at `offset`; beyond the end nothing happens.
    pub fn set_u32(&mut self, offset: u64, value: u32) {
        self.set(offset, &value.to_le_bytes());
    }

    /// Sets the little-endian QW at `offset`; beyond the end nothing happens.
    pub fn set_u64(&mut self, offset: u64, value: u64) {
        self.set(offset, &value.to_le_bytes());
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn array<const N: usize>(&self, offset: u64) -> [u8; N] {
        let bytes = self.bytes.get(place(offset)..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }

    fn set(&mut self, offset: u64, value: &[u8]) {
        if let Some(to) = self.bytes.get_mut(place(offset)..).and_then(|bytes| bytes.get_mut(..value.len())) {
            to.copy_from_slice(value);
        }
    }
}

/// Index in memory of the byte at `offset`; beyond the end where there can be no such index.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
