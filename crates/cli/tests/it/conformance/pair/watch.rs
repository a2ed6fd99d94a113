// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a device asks for, by engine: a tap on its link. Never looks at what the host asks it.

use fabric::{Direction, Side, Tap, TapRecord};
use host::firmware::MSI_ADDRESS;
use link::Frame;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tlp::{Body, MemoryOp, Time};

/// One request, or a part of one that says as much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A descriptor is fetched: its address.
    Fetch(u64),
    /// Data are read: address and bytes.
    Read(u64, u32),
    /// Data are written: address, bytes, and a hash of them.
    Write(u64, u32, u64),
    /// STATUS and MOVED of a descriptor: address, and a hash of what was written.
    Status(u64, u64),
    /// DONE and FAILED.
    WriteBack(u32, u32),
    Interrupt,
}

/// When it left the device, to the end.
pub(crate) type Seen = (Time, Act);

/// What of an engine is where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Data,
    Ring,
    WriteBack,
}

#[derive(Default)]
struct Watch {
    /// By its first address: bytes, what it is, and of whom.
    places: BTreeMap<u64, (u64, Place, usize)>,
    vectors: BTreeMap<u32, usize>,
    seen: Vec<Vec<Seen>>,
    strays: Vec<String>,
}

thread_local! {
    /// What the run on this thread sees.
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Begins anew.
pub(crate) fn forget() {
    WATCH.take();
}

/// Engine `who` has `bytes` there.
pub(crate) fn place(who: usize, place: Place, address: u64, bytes: u64) {
    WATCH.with_borrow_mut(|w| w.places.insert(address, (bytes, place, who)));
}

/// Engine `who` interrupts by that vector.
pub(crate) fn vector(who: usize, vector: u16) {
    WATCH.with_borrow_mut(|w| {
        w.vectors.insert(vector.into(), who);
        w.seen.resize_with(w.seen.len().max(who + 1), Vec::new);
    });
}

/// What engine `who` has asked for since it was last taken.
pub(crate) fn take(who: usize) -> Vec<Seen> {
    WATCH.with_borrow_mut(|w| std::mem::take(&mut w.seen[who]))
}

/// Requests that are nobody's.
pub(crate) fn strays() -> Vec<String> {
    WATCH.with_borrow(|w| w.strays.clone())
}

/// The tap, to be set on a fabric.
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

/// FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
