// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MSI-X table and Pending Bit Array of a function (`PCIe 5.0 §6.1.4`), which lie in its BARs. Never sends: returns
//! the message that is due.
//!
//! ```text
//! table entry, 16 B:  +0 address  +4 upper address  +8 data  +c vector control: 0 mask
//! ```

use config::{MsixControl, MsixLayout};
use tlp::{Data, PayloadPool};

const MASKED: u32 = 1;
const ENTRY_DW: usize = 4;

/// The address and data of a message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) address: u64,
    pub(crate) data: u32,
}

/// Result of raising an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raised {
    Send(Message),
    /// The vector is masked, so the interrupt is stored in the Pending Bit Array.
    Pending,
    OutOfRange,
}

/// The structures of one function.
pub(crate) struct Msix {
    layout: MsixLayout,
    table: Vec<u32>,
    pending: Vec<u32>,
    /// The number of pending vectors.
    pending_count: u32,
}

impl Msix {
    pub(crate) fn new(layout: MsixLayout) -> Msix {
        let mut msix = Msix { layout, table: Vec::new(), pending: Vec::new(), pending_count: 0 };
        msix.reset();
        msix
    }

    /// Masks all vectors and clears all pending bits.
    pub(crate) fn reset(&mut self) {
        let vectors = usize::from(self.layout.vectors);
        self.table.clear();
        self.table.extend((0..vectors).flat_map(|_| [0, 0, 0, MASKED]));
        self.pending.clear();
        self.pending.resize(self.layout.pending_bytes() as usize / 4, 0);
        self.pending_count = 0;
    }

    fn entry(&self, vector: usize) -> (Message, bool) {
        let e = &self.table[vector * ENTRY_DW..][..ENTRY_DW];
        let address = u64::from(e[0] & !3) | u64::from(e[1]) << 32;
        (Message { address, data: e[2] }, e[3] & MASKED != 0)
    }

    /// Returns the messages of all vectors, including masked ones.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> {
        (0..usize::from(self.layout.vectors)).map(|vector| self.entry(vector).0)
    }

    /// Raises `vector` for the device.
    pub(crate) fn raise(&mut self, vector: u16, control: MsixControl) -> Raised {
        if vector >= self.layout.vectors {
            return Raised::OutOfRange;
        }
        let (message, masked) = self.entry(usize::from(vector));
        if !masked && !control.function_mask {
            return Raised::Send(message);
        }
        let word = &mut self.pending[usize::from(vector) / 32];
        let bit = 1 << (vector % 32);
        self.pending_count += u32::from(*word & bit == 0);
        *word |= bit;
        Raised::Pending
    }

    /// Returns whether a vector is pending, masked or not.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending_count > 0
    }

    /// Returns a pending message whose vector is no longer masked, and clears its pending bit.
    pub(crate) fn next_unmasked(&mut self, control: MsixControl) -> Option<Message> {
        if self.pending_count == 0 || control.function_mask {
            return None;
        }
        let vectors = 0..usize::from(self.layout.vectors);
        let vector =
            vectors.filter(|v| self.pending[v / 32] >> (v % 32) & 1 == 1).find(|&v| !self.entry(v).1)?;
        self.pending[vector / 32] &= !(1 << (vector % 32));
        self.pending_count -= 1;
        Some(self.entry(vector).0)
    }

    /// Returns whether the front, not the device, implements these bytes of a BAR.
    pub(crate) fn holds(&self, bar: u8, offset: u64, len: u64) -> bool {
        let within = |(at, start): (u8, u32), size: u64| {
            at == bar && offset + len > u64::from(start) && offset < u64::from(start) + size
        };
        within(self.layout.table, self.layout.table_bytes())
            || within(self.layout.pending, self.layout.pending_bytes())
    }

    fn byte(&self, bar: u8, offset: u64) -> u8 {
        let find = |(at, start): (u8, u32), words: &[u32]| {
            let index = offset.checked_sub(u64::from(start)).filter(|_| at == bar)?;
            let word = words.get(usize::try_from(index / 4).ok()?)?;
            Some(word.to_le_bytes()[index as usize % 4])
        };
        let table = find(self.layout.table, &self.table);
        table.or_else(|| find(self.layout.pending, &self.pending)).unwrap_or(0)
    }

    /// Returns `len` bytes from `offset` on. Bytes outside the structures are zero.
    pub(crate) fn read(&self, bar: u8, offset: u64, len: u32, pool: &PayloadPool) -> Data {
        Data::Carried(pool.fill(len as usize, |out| {
            for (at, byte) in (offset..).zip(out) {
                *byte = self.byte(bar, at);
            }
        }))
    }

    /// Writes one byte of the table; the Pending Bit Array is read-only.
    pub(crate) fn write_byte(&mut self, bar: u8, offset: u64, value: u8) {
        let (at, start) = self.layout.table;
        let Some(index) = offset.checked_sub(u64::from(start)).filter(|_| at == bar) else { return };
        let Some(word) = usize::try_from(index / 4).ok().and_then(|i| self.table.get_mut(i)) else { return };
        let mut bytes = word.to_le_bytes();
        bytes[index as usize % 4] = value;
        *word = u32::from_le_bytes(bytes);
    }
}
