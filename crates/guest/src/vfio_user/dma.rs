// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA by messages: requests that the server sends, and the client's replies.
//!
//! For clients whose memory cannot be mapped. A reply may arrive after the reply to an access that the client waits
//! for: the two are not ordered. So do not wait for DMA before an access is answered.
//!
//! The protocol has a count of 64 bits, followed by the data. QEMU 10.1 uses 32 bits for the count and takes the rest
//! as data; 11.1 follows the protocol. If the data of a read do not begin with zeros, the reply shows the client's
//! version; later writes use the format of this version.

use super::refusal::HangUp;
use super::wire::command::{DMA_READ, DMA_WRITE};
use super::wire::{ERROR, Header, u64_at};
use rustix::io::Errno;
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum number of outstanding DMA requests by message.
pub const MAX_DMA: usize = 64;
/// Bytes of the fields before the data of a DMA message.
const DMA_BYTES: usize = 16;
/// The same with a count of 32 bits.
const NARROW_BYTES: usize = 12;

/// Identifies a DMA request by message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dma(pub(super) u64);

/// Why DMA by message is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DmaError {
    /// The range is not fully within one map that allows the access.
    #[error("{bytes:#x} bytes at {address:#x} are not in one map that allows the access")]
    NotMapped {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Empty, or too long for one message.
    #[error("{bytes:#x} bytes, expected 1 to {most:#x}")]
    Length {
        /// Number of bytes.
        bytes: u64,
        /// Maximum number of bytes.
        most: u64,
    },
    /// Too many outstanding requests.
    #[error("{MAX_DMA} DMA messages are outstanding already")]
    TooMany,
    /// There is no connection, or the version has not been negotiated yet.
    #[error("no connection")]
    NotOpen,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
struct OutstandingRequest {
    dma: Dma,
    address: u64,
    /// Bytes to read; zero for a write.
    reads: usize,
    /// Bytes to read or write.
    count: usize,
}

/// Outstanding requests, by message ID.
#[derive(Debug, Default)]
pub(super) struct Requests {
    asked: BTreeMap<u16, OutstandingRequest>,
    next_id: u16,
    next: u64,
    /// Whether the client's counts have 32 bits.
    is_narrow: bool,
}

impl Requests {
    /// Registers a request. Returns its identifier and its message ID.
    pub(super) fn ask(&mut self, address: u64, reads: usize, count: usize) -> Result<(Dma, u16), DmaError> {
        if self.asked.len() >= MAX_DMA {
            return Err(DmaError::TooMany);
        }
        while self.asked.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let (dma, id) = (Dma(self.next), self.next_id);
        self.asked.insert(id, OutstandingRequest { dma, address, reads, count });
        (self.next, self.next_id) = (self.next + 1, id.wrapping_add(1));
        Ok((dma, id))
    }

    /// Handles a reply.
    pub(super) fn answer(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<(Dma, Result<Vec<u8>, Errno>), HangUp> {
        let Header { id, command, flags, error, .. } = header;
        let asked = self.asked.get(&id).copied();
        let asked = asked.filter(|asked| command == if asked.reads > 0 { DMA_READ } else { DMA_WRITE });
        let asked = asked.ok_or(HangUp::Reply { command, id })?;
        self.asked.remove(&id);
        if flags & ERROR != 0 {
            // The peer chooses the error number, which may be invalid.
            let errno = i32::try_from(error).ok().filter(|errno| (1..4096).contains(errno));
            return Ok((asked.dma, Err(errno.map_or(Errno::IO, Errno::from_raw_os_error))));
        }
        let data = if asked.reads > 0 { self.read_data(asked, payload) } else { written(asked, payload) };
        let OutstandingRequest { dma, address, count, .. } = asked;
        let data = data.ok_or(HangUp::Misfit { command, bytes: payload.len(), asked: count, address })?;
        Ok((dma, Ok(data.to_vec())))
    }

    /// Returns the data of a reply to DMA_READ if its address and count match the request.
    fn read_data<'p>(&mut self, asked: OutstandingRequest, payload: &'p [u8]) -> Option<&'p [u8]> {
        let count = u64_at(payload, 8)?;
        if u64_at(payload, 0)? != asked.address
            || count as u32 as usize != asked.reads
            || payload.len() != DMA_BYTES + asked.reads
        {
            return None;
        }
        self.is_narrow |= count != asked.reads as u64;
        payload.get(if self.is_narrow { NARROW_BYTES } else { DMA_BYTES }..)?.get(..asked.reads)
    }

    /// Appends the fields of a request, and its data.
    pub(super) fn write(&self, address: u64, count: u64, data: &[u8], out: &mut Vec<u8>) {
        out.reserve(DMA_BYTES + data.len());
        out.extend_from_slice(&address.to_ne_bytes());
        if self.is_narrow {
            out.extend_from_slice(&(count as u32).to_ne_bytes());
            out.extend_from_slice(data);
            // This client includes these bytes in the length.
            out.extend_from_slice(&[0; DMA_BYTES - NARROW_BYTES]);
        } else {
            out.extend_from_slice(&count.to_ne_bytes());
            out.extend_from_slice(data);
        }
    }
}

/// Checks a reply to DMA_WRITE: address and count, in 32 or 64 bits, or nothing (QEMU).
fn written(asked: OutstandingRequest, payload: &[u8]) -> Option<&[u8]> {
    let fits = match payload.len() {
        0 => true,
        12 => super::wire::u32_at(payload, 8)? as usize == asked.count,
        16 => u64_at(payload, 8)? == asked.count as u64,
        _ => false,
    };
    let fits = fits && (payload.is_empty() || u64_at(payload, 0)? == asked.address);
    fits.then_some(&[])
}
