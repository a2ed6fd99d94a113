// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain registers of a BAR.

use super::{ReadRequest, WriteRequest};
use crate::seam::CompletionError;

/// The bytes of a BAR from offset zero, all readable and writable. Reads beyond the registers are answered with UR, and
/// writes there are dropped. A device handles registers with side effects itself, before or after.
#[derive(Clone, Debug)]
pub struct RegisterFile {
    bytes: Vec<u8>,
}

impl RegisterFile {
    /// Returns a register file of `len` bytes, all zero.
    pub fn new(len: usize) -> RegisterFile {
        RegisterFile { bytes: vec![0; len] }
    }

    /// Returns the bytes that `request` reads.
    ///
    /// # Errors
    /// UR if the access extends beyond the registers.
    pub fn read(&self, request: &ReadRequest) -> Result<&[u8], CompletionError> {
        self.bytes
            .get(place(request.offset())..)
            .and_then(|bytes| bytes.get(..request.len()))
            .ok_or(CompletionError::UnsupportedRequest)
    }

    /// Writes the enabled bytes of `request`; true if all of them are in the file.
    pub fn write(&mut self, request: &WriteRequest) -> bool {
        request.apply(&mut self.bytes)
    }

    /// Writes those bits of the enabled bytes that are set in `writable`; true if all bytes are in the file.
    pub fn write_bits(&mut self, request: &WriteRequest, writable: &[u8]) -> bool {
        request.apply_bits(&mut self.bytes, writable)
    }

    /// Returns the little-endian DW at `offset`; zero beyond the end.
    pub fn u32(&self, offset: u64) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    /// Returns the little-endian QW at `offset`; zero beyond the end.
    pub fn u64(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// Sets the little-endian DW at `offset`; has no effect beyond the end.
    pub fn set_u32(&mut self, offset: u64, value: u32) {
        self.set(offset, &value.to_le_bytes());
    }

    /// Sets the little-endian QW at `offset`; has no effect beyond the end.
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

/// Index of the byte at `offset`. If an index cannot represent the offset, returns an index beyond the end.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
