// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA by messages: requests that the server sends, and what the client answers.
//!
//! For clients whose memory cannot be mapped. Such an answer may come after that to an access that the client waits for, so it keeps
//! no order with that, and none is to be waited for while an access is answered.
//!
//! A count has 64 bits, and data stand behind them. QEMU 10.1 takes 32 bits for the count and what follows for data; 11.1 does as the
//! protocol says. A read whose data do not begin with zeros shows which of them it is, and writes then keep to that.

use super::refusal::HangUp;
use super::wire::command::{DMA_READ, DMA_WRITE};
use super::wire::{ERROR, Header, u64_at};
use rustix::io::Errno;
use std::collections::BTreeMap;
use thiserror::Error;

/// Most DMA requests by message at a time.
pub const MAX_DMA: usize = 64;
/// Fields before the data of a DMA message.
const DMA_BYTES: usize = 16;
/// Those with a count of 32 bits.
const NARROW_BYTES: usize = 12;

/// The name of a DMA request by message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dma(pub(super) u64);

/// Why DMA by message is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DmaError {
    /// Not, or not whole, within a map that allows it.
    #[error("{bytes:#x} bytes at {address:#x} are not in a map that allows this")]
    NotMapped {
        /// Address of the first byte.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Too long for one message.
    #[error("{bytes:#x} bytes: legal are 1 to {most:#x}")]
    Length {
        /// Bytes.
        bytes: u64,
        /// Most that are legal.
        most: u64,
    },
    /// Too many at a time.
    #[error("{MAX_DMA} DMA messages are under way")]
    TooMany,
    /// There is no connection, or not yet.
    #[error("there is no connection")]
    NotOpen,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    dma: Dma,
    address: u64,
    /// Bytes to read; zero for a write.
    reads: usize,
    /// Bytes read or written.
    count: usize,
}

/// Requests under way, by the ids of their messages.
#[derive(Debug, Default)]
pub(super) struct Requests {
    asked: BTreeMap<u16, Asked>,
    next_id: u16,
    next: u64,
    /// The client's counts have 32 bits.
    is_narrow: bool,
}

impl Requests {
    /// Names a request, and its message.
    pub(super) fn ask(&mut self, address: u64, reads: usize, count: usize) -> Result<(Dma, u16), DmaError> {
        if self.asked.len() >= MAX_DMA {
            return Err(DmaError::TooMany);
        }
        while self.asked.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let (dma, id) = (Dma(self.next), self.next_id);
        self.asked.insert(id, Asked { dma, address, reads, count });
        (self.next, self.next_id) = (self.next + 1, id.wrapping_add(1));
        Ok((dma, id))
    }

    /// What a reply says.
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
            // The number is the peer's own choice, and may be missing.
            let errno = i32::try_from(error).ok().filter(|errno| (1..4096).contains(errno));
            return Ok((asked.dma, Err(errno.map_or(Errno::IO, Errno::from_raw_os_error))));
        }
        let data = if asked.reads > 0 { self.read_data(asked, payload) } else { written(asked, payload) };
        let Asked { dma, address, count, .. } = asked;
        let data = data.ok_or(HangUp::Misfit { command, bytes: payload.len(), asked: count, address })?;
        Ok((dma, Ok(data.to_vec())))
    }

    /// The data of a reply to DMA_READ, if it has the address and count that were asked for.
    fn read_data<'p>(&mut self, asked: Asked, payload: &'p [u8]) -> Option<&'p [u8]> {
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
            // It counts them among the fields.
            out.extend_from_slice(&[0; DMA_BYTES - NARROW_BYTES]);
        } else {
            out.extend_from_slice(&count.to_ne_bytes());
            out.extend_from_slice(data);
        }
    }
}

/// A reply to DMA_WRITE has address and count, in 32 or 64 bits; QEMU leaves both out.
fn written(asked: Asked, payload: &[u8]) -> Option<&[u8]> {
    let fits = match payload.len() {
        0 => true,
        12 => super::wire::u32_at(payload, 8)? as usize == asked.count,
        16 => u64_at(payload, 8)? == asked.count as u64,
        _ => false,
    };
    let fits = fits && (payload.is_empty() || u64_at(payload, 0)? == asked.address);
    fits.then_some(&[])
}
