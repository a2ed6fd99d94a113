// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers into and out of the caller's buffers, many at once. Never waits; the client waits.

use crate::requester::Buffers;

/// A read or a write of any length, with the caller's own buffer.
#[derive(PartialEq, Eq, Debug)]
pub enum Transfer<'a> {
    /// Reads into `data`. If the read fails, the content of `data` is undefined.
    Read {
        /// First address.
        address: u64,
        /// Destination of the bytes.
        data: &'a mut [u8],
    },
    /// Writes `data`.
    Write {
        /// First address.
        address: u64,
        /// The bytes.
        data: &'a [u8],
    },
}

impl Transfer<'_> {
    /// Returns the length of the transfer in bytes.
    pub fn len(&self) -> usize {
        match self {
            Transfer::Read { data, .. } => data.len(),
            Transfer::Write { data, .. } => data.len(),
        }
    }

    /// Returns true if the transfer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Buffers of a batch. The token of a request is the index of its transfer.
pub(super) struct Batch<'a, 'b>(pub(super) &'b mut [Transfer<'a>]);

impl Buffers for Batch<'_, '_> {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        match self.0.get_mut(token as usize)? {
            Transfer::Read { data, .. } => data.get_mut(offset as usize..)?.get_mut(..len),
            Transfer::Write { .. } => None,
        }
    }

    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]> {
        match self.0.get(token as usize)? {
            Transfer::Write { data, .. } => data.get(offset as usize..)?.get(..len),
            Transfer::Read { .. } => None,
        }
    }
}
