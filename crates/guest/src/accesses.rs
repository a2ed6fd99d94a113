// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates accesses of a virtual machine into requests of a root complex. Splits an access into requests, issues
//! them in order, and assembles the results. This module does not depend on the source or the target of an access.

use host::{HostError, HostOutput, HostReadId};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;
use tlp::{Bdf, Data, PayloadPool};

/// No request crosses a multiple of this (`PCIe 5.0 §2.2.7`).
const PAGE: u64 = 4096;
const DW: u64 = 4;
/// The value of a CPU's read without an answer (`PCIe 5.0 §2.3.2`).
pub(crate) const ALL_ONES: u8 = 0xff;

/// Bytes of an access. Short results are stored without allocation.
pub type Bytes = SmallVec<[u8; 16]>;

/// The end of an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer<T> {
    /// The access.
    pub token: T,
    /// The bytes read; empty for a write.
    pub bytes: Bytes,
    /// Whether every request of the access succeeded.
    pub is_whole: bool,
}

impl<T> Answer<T> {
    /// Returns the answer to an access that needs no request.
    pub(crate) fn at_once(token: T, bytes: impl IntoIterator<Item = u8>) -> Answer<T> {
        Answer { token, bytes: bytes.into_iter().collect(), is_whole: true }
    }
}

/// Accesses in progress. Requests leave in the order of accesses. After a configuration write, no request leaves before
/// the write has ended, because a CPU waits for such a write.
pub struct Accesses<T> {
    payloads: PayloadPool,
    open: Slab<Access<T>>,
    parts: Slab<Part>,
    waiting: VecDeque<HostOutput>,
    /// The outstanding configuration write.
    write: Option<HostReadId>,
}

#[derive(Debug)]
struct Access<T> {
    token: Option<T>,
    bytes: Bytes,
    is_whole: bool,
    /// Number of parts that have not ended.
    left: usize,
}

/// An outstanding request, and where its data belong in the access.
#[derive(Debug)]
struct Part {
    access: usize,
    /// Offset of its data in the access.
    at: usize,
    /// Offset of its data in the answer.
    from: usize,
    len: usize,
}

impl<T> Accesses<T> {
    pub(crate) fn new(payloads: PayloadPool) -> Accesses<T> {
        let (open, parts) = (Slab::new(), Slab::new());
        Accesses { payloads, open, parts, waiting: VecDeque::new(), write: None }
    }

    /// Returns whether all requests were issued. If not, issue them before the next access.
    pub fn has_room(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the next request to issue.
    pub fn poll_request(&mut self) -> Option<HostOutput> {
        if self.write.is_some() {
            return None;
        }
        let request = self.waiting.pop_front()?;
        if let HostOutput::ConfigWrite { id, .. } = request {
            self.write = Some(id);
        }
        Some(request)
    }

    /// Handles the end of a request. Returns the access if that was its last request. Bytes that cannot be read are all ones.
    pub fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) -> Option<Answer<T>> {
        self.write.take_if(|write| *write == id);
        let Part { access, at, from, len } = self.parts.try_remove(id.0 as usize)?;
        let open = self.open.get_mut(access)?;
        let bytes =
            result.as_ref().ok().and_then(|data| data.bytes().unwrap_or_default().get(from..from + len));
        match (bytes, open.bytes.get_mut(at..at + len)) {
            (Some(bytes), Some(to)) => to.copy_from_slice(bytes),
            _ => open.is_whole = false,
        }
        open.left -= 1;
        self.close(access)
    }

    /// Drops all accesses in progress. Their unissued requests are dropped too, and no answer follows.
    pub fn abandon(&mut self) {
        let (open, parts) = (&mut self.open, &mut self.parts);
        for id in self.waiting.drain(..).filter_map(|mut request| request.id_mut().copied()) {
            if let Some(part) = parts.try_remove(id.0 as usize)
                && let Some(access) = open.get_mut(part.access)
            {
                access.left -= 1;
            }
        }
        open.iter_mut().for_each(|(_, access)| access.token = None);
        open.retain(|_, access| access.left > 0);
    }

    /// Reads configuration space; `at` is bus, device, function and register as in ECAM.
    pub(crate) fn read_config(&mut self, token: T, at: u64, len: u32) -> Option<Answer<T>> {
        let access = self.begin(token, len as usize);
        for (at, part) in pieces(at, u64::from(len), DW) {
            let byte_enables = ((1 << part.len()) - 1) << (at % DW);
            let id = self.part(access, part, (at % DW) as usize);
            let (function, register_dw) = ecam(at);
            self.waiting.push_back(HostOutput::ConfigRead { id, function, register_dw, byte_enables });
        }
        self.close(access)
    }

    /// Writes those bytes of configuration space whose offsets `takes` accepts.
    pub(crate) fn write_config(
        &mut self,
        token: T,
        at: u64,
        bytes: &[u8],
        takes: impl Fn(u64) -> bool,
    ) -> Option<Answer<T>> {
        let access = self.begin(token, 0);
        for (at, part) in pieces(at, bytes.len() as u64, DW) {
            let lanes = (at % DW..).zip(at..).zip(&bytes[part]).filter(|((_, at), _)| takes(*at));
            let (byte_enables, value) = lanes.fold((0, 0), |(enables, value), ((lane, _), byte)| {
                (enables | 1 << lane, value | u32::from(*byte) << (8 * lane))
            });
            if byte_enables != 0 {
                let (id, (function, register_dw)) = (self.part(access, 0..0, 0), ecam(at));
                let write = HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value };
                self.waiting.push_back(write);
            }
        }
        self.close(access)
    }

    pub(crate) fn read_memory(&mut self, token: T, at: u64, len: u32) -> Option<Answer<T>> {
        let access = self.begin(token, len as usize);
        for (address, part) in pieces(at, u64::from(len), PAGE) {
            let len = part.len() as u32;
            let id = self.part(access, part, 0);
            self.waiting.push_back(HostOutput::MmioRead { id, address, len, locked: false });
        }
        self.close(access)
    }

    /// Writes memory. Memory writes are posted: the access ends immediately.
    pub(crate) fn write_memory(&mut self, token: T, at: u64, bytes: &[u8]) -> Option<Answer<T>> {
        for (address, part) in pieces(at, bytes.len() as u64, PAGE) {
            let data = Data::Carried(self.payloads.copy(&bytes[part]));
            self.waiting.push_back(HostOutput::MmioWrite { address, data });
        }
        Some(Answer::at_once(token, []))
    }

    pub(crate) fn read_io(&mut self, token: T, at: u64, len: u32) -> Option<Answer<T>> {
        let access = self.begin(token, len as usize);
        for (address, part) in pieces(at, u64::from(len), DW) {
            let (address, len) = (address as u32, part.len() as u32);
            let id = self.part(access, part, 0);
            self.waiting.push_back(HostOutput::IoRead { id, address, len });
        }
        self.close(access)
    }

    pub(crate) fn write_io(&mut self, token: T, at: u64, bytes: &[u8]) -> Option<Answer<T>> {
        let access = self.begin(token, 0);
        for (address, part) in pieces(at, bytes.len() as u64, DW) {
            let (address, data) = (address as u32, Data::Carried(self.payloads.copy(&bytes[part])));
            let id = self.part(access, 0..0, 0);
            self.waiting.push_back(HostOutput::IoWrite { id, address, data });
        }
        self.close(access)
    }

    fn begin(&mut self, token: T, len: usize) -> usize {
        let bytes = SmallVec::from_elem(ALL_ONES, len);
        self.open.insert(Access { token: Some(token), bytes, is_whole: true, left: 0 })
    }

    fn part(&mut self, access: usize, part: std::ops::Range<usize>, from: usize) -> HostReadId {
        self.open[access].left += 1;
        HostReadId(self.parts.insert(Part { access, at: part.start, from, len: part.len() }) as u32)
    }

    /// Ends an access if it has no outstanding request.
    fn close(&mut self, access: usize) -> Option<Answer<T>> {
        if self.open[access].left > 0 {
            return None;
        }
        let Access { token, bytes, is_whole, .. } = self.open.remove(access);
        token.map(|token| Answer { token, bytes, is_whole })
    }
}

/// Splits `len` bytes at `at` at multiples of `unit`. Returns address and byte range of each piece.
fn pieces(at: u64, len: u64, unit: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = at.wrapping_add(done);
        let piece = (len - done).min(unit - from % unit);
        let part = done as usize..(done + piece) as usize;
        done += piece;
        (piece > 0).then_some((from, part))
    })
}

/// Returns function and register of an offset in an ECAM window (`PCIe 5.0 §7.2.2`).
fn ecam(at: u64) -> (Bdf, u16) {
    (Bdf::from_bits((at >> 12) as u16), (at % PAGE / DW) as u16)
}
