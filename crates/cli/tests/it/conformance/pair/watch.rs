// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the requests of a device by engine, with a tap on its link. Ignores requests of the host.

use fabric::{Direction, Side, Tap, TapRecord};
use host::firmware::MSI_ADDRESS;
use link::Frame;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tlp::{Body, MemoryOp, Time};

/// One request, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Fetch of a descriptor: its address.
    Fetch(u64),
    /// Read of data: address and bytes.
    Read(u64, u32),
    /// Write of data: address, bytes, and a hash of the data.
    Write(u64, u32, u64),
    /// Write of STATUS and MOVED of a descriptor: address, and a hash of the written data.
    Status(u64, u64),
    /// Write of DONE and FAILED.
    WriteBack(u32, u32),
    Interrupt,
}

/// A request, and the time at which its end left the device.
pub(crate) type Seen = (Time, Act);

/// Kinds of an engine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Data,
    Ring,
    WriteBack,
}

#[derive(Default)]
struct Watch {
    /// Memory ranges by their first address: bytes, kind, and engine.
    places: BTreeMap<u64, (u64, Place, usize)>,
    vectors: BTreeMap<u32, usize>,
    seen: Vec<Vec<Seen>>,
    strays: Vec<String>,
}

thread_local! {
    /// Records of the run on this thread.
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Starts again, without records.
pub(crate) fn forget() {
    WATCH.take();
}

/// Registers `bytes` at this address as memory of engine `who`.
pub(crate) fn place(who: usize, place: Place, address: u64, bytes: u64) {
    WATCH.with_borrow_mut(|w| w.places.insert(address, (bytes, place, who)));
}

/// Registers this vector for engine `who`.
pub(crate) fn vector(who: usize, vector: u16) {
    WATCH.with_borrow_mut(|w| {
        w.vectors.insert(vector.into(), who);
        w.seen.resize_with(w.seen.len().max(who + 1), Vec::new);
    });
}

/// Takes the requests of engine `who` since the last call.
pub(crate) fn take(who: usize) -> Vec<Seen> {
    WATCH.with_borrow_mut(|w| std::mem::take(&mut w.seen[who]))
}

/// Requests that belong to no engine.
pub(crate) fn strays() -> Vec<String> {
    WATCH.with_borrow(|w| w.strays.clone())
}

/// The tap, to be attached to a fabric.
pub(crate) struct Watcher;

impl Tap for Watcher {
    fn frame(&mut self, record: &TapRecord<'_>) {
        if record.at != Side::Device || record.direction != Direction::Upstream {
            return;
        }
        let Frame::Tlp { tlp, .. } = record.frame else { return };
        let Body::Memory(request) = &tlp.repr.body else { return };
        let (address, bytes) = (request.span.first_byte(), request.span.byte_count());
        let data = tlp.data.bytes().unwrap_or_default();
        WATCH.with_borrow_mut(|w| w.note(record.time, request.op, (address, bytes), data));
    }

    fn sees_refreshes(&self) -> bool {
        false
    }
}

impl Watch {
    fn note(&mut self, time: Time, op: MemoryOp, (address, bytes): (u64, u32), data: &[u8]) {
        let word = |at: usize| {
            u32::from_le_bytes(data.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default())
        };
        let found = self.places.range(..=address).next_back();
        let found =
            found.filter(|(first, (size, ..))| address + u64::from(bytes) <= **first + size).map(|(_, p)| *p);
        let acts = match (op, found) {
            (MemoryOp::Read, Some((_, Place::Ring, who))) if bytes % 32 == 0 && address % 32 == 0 => {
                let each = (0..u64::from(bytes / 32)).map(|n| (time, Act::Fetch(address + 32 * n)));
                return self.seen[who].extend(each);
            }
            (MemoryOp::Read, Some((_, Place::Data, who))) => Some((who, Act::Read(address, bytes))),
            (MemoryOp::Write, Some((_, Place::Data, who))) => {
                Some((who, Act::Write(address, bytes, hash(data))))
            }
            (MemoryOp::Write, Some((_, Place::Ring, who))) if bytes == 12 && address % 32 == 20 => {
                Some((who, Act::Status(address, hash(data))))
            }
            (MemoryOp::Write, Some((_, Place::WriteBack, who))) if bytes == 8 => {
                Some((who, Act::WriteBack(word(0), word(4))))
            }
            (MemoryOp::Write, None) if address == MSI_ADDRESS => {
                self.vectors.get(&word(0)).map(|who| (*who, Act::Interrupt))
            }
            _ => None,
        };
        match acts {
            Some((who, act)) => self.seen[who].push((time, act)),
            None => self.strays.push(format!("{time}: {op:?} of {bytes} B at {address:#x}")),
        }
    }
}

/// FNV-1a hash.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
