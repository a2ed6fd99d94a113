// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data of writes, and answers to reads.

use super::ReadRequest;
use crate::seam::CompletionError;
use tlp::{Data, Payload, PayloadPool};

/// Data for DMA or MMIO writes: bytes (copied once), payloads and data (not copied), and integers (little-endian).
pub trait IntoData {
    /// Converts the value to data; `None` if it is longer than 2^32 - 1 bytes.
    fn into_data(self, pool: &PayloadPool) -> Option<Data>;
}

impl IntoData for Data {
    fn into_data(self, _: &PayloadPool) -> Option<Data> {
        Some(self)
    }
}

impl IntoData for Payload {
    fn into_data(self, _: &PayloadPool) -> Option<Data> {
        Some(Data::Carried(self))
    }
}

impl IntoData for &[u8] {
    fn into_data(self, pool: &PayloadPool) -> Option<Data> {
        u32::try_from(self.len()).ok().map(|_| Data::Carried(pool.copy(self)))
    }
}

/// An answer to a read request. The answer is always adapted to the requested length:
///
/// - An integer is a little-endian, naturally aligned register that contains the first requested byte. The answer
///   starts at that byte, so a read of a part of a register returns that part. Bytes after the register are zero.
/// - Bytes, payloads and carried data are cut at the end, or padded with zeros.
/// - Counted data answers without bytes; its length is ignored.
/// - An `Err` rejects the request.
pub trait Answer {
    /// Returns the answer to `request`.
    ///
    /// # Errors
    /// If the request is rejected.
    fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError>;
}

fn fit(bytes: &[u8], len: usize, pool: &PayloadPool) -> Data {
    match bytes.get(..len) {
        Some(bytes) => Data::Carried(pool.copy(bytes)),
        None => Data::Carried(pool.fill(len, |to| to[..bytes.len()].copy_from_slice(bytes))),
    }
}

impl Answer for &[u8] {
    fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
        Ok(fit(self, request.len(), pool))
    }
}

impl Answer for Payload {
    fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
        let len = request.len();
        Ok(if len <= self.len() { Data::Carried(self.slice(0..len)) } else { fit(&self, len, pool) })
    }
}

impl Answer for Data {
    fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
        match self {
            Data::Counted(_) => Ok(Data::Counted(request.len() as u32)),
            Data::Carried(payload) => payload.answer(request, pool),
        }
    }
}

impl<T: Answer> Answer for Result<T, CompletionError> {
    fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
        self?.answer(request, pool)
    }
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl IntoData for $int {
            fn into_data(self, pool: &PayloadPool) -> Option<Data> {
                self.to_le_bytes().as_slice().into_data(pool)
            }
        }

        impl Answer for $int {
            fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
                let first = request.offset() as usize % size_of::<$int>();
                Ok(fit(&self.to_le_bytes()[first..], request.len(), pool))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64);

macro_rules! like_slices {
    ($([$($n:ident)?] $bytes:ty),*) => {$(
        impl<$(const $n: usize)?> IntoData for $bytes {
            fn into_data(self, pool: &PayloadPool) -> Option<Data> {
                self[..].into_data(pool)
            }
        }

        impl<$(const $n: usize)?> Answer for $bytes {
            fn answer(self, request: &ReadRequest, pool: &PayloadPool) -> Result<Data, CompletionError> {
                self[..].answer(request, pool)
            }
        }
    )*};
}

like_slices!([N] [u8; N], [N] &[u8; N], [] Vec<u8>, [] &Vec<u8>);
