// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns a device's interrupts into the memory writes that the adapter's MSI-X table specifies (`PCIe 5.0 §6.1.4`). The device
//! decides when to raise an interrupt.

use crate::wire::messaging::{MSIX_ENTRIES, MsixEntry};
use device::shared::Notifier;
use device::{Device, DmaWrite, Input, Output, Ready, Token};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::{Class, Data, Mps, Mrrs, PayloadPool, Time};

/// The MSI-X table of the adapter's host, as returned by messaging. Clones share the same table.
#[derive(Clone, Debug)]
pub struct Vectors(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    entries: [MsixEntry; MSIX_ENTRIES],
    raised: u64,
    lost: u64,
}

impl Vectors {
    pub(super) fn new(entries: [MsixEntry; MSIX_ENTRIES]) -> Vectors {
        Vectors(Rc::new(RefCell::new(Table { entries, raised: 0, lost: 0 })))
    }

    /// Replaces the table.
    pub fn set(&self, entries: [MsixEntry; MSIX_ENTRIES]) {
        self.0.borrow_mut().entries = entries;
    }

    /// Returns the number of raised interrupts, and the number of lost interrupts. An interrupt is lost if the
    /// table has no such vector, or the host has not filled in the vector.
    pub fn counts(&self) -> (u64, u64) {
        let table = self.0.borrow();
        (table.raised, table.lost)
    }

    fn raise(&self, vector: u16) -> Option<MsixEntry> {
        let table = &mut *self.0.borrow_mut();
        let entry = table.entries.get(usize::from(vector)).copied().filter(|e| e.address != 0);
        match entry {
            Some(_) => table.raised += 1,
            None => table.lost += 1,
        }
        entry
    }
}

/// A device whose interrupts become writes.
pub(super) struct Interrupts {
    device: Box<dyn Device>,
    vectors: Vectors,
    pool: PayloadPool,
}

impl Interrupts {
    pub(super) fn new(mut device: Box<dyn Device>, vectors: Vectors, pool: PayloadPool) -> Interrupts {
        device.set_vectors(MSIX_ENTRIES as u16);
        Interrupts { device, vectors, pool }
    }
}

impl Device for Interrupts {
    fn handle(&mut self, now: Time, input: Input) {
        self.device.handle(now, input);
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        loop {
            match self.device.poll_output(now, class)? {
                Output::Interrupt { vector } => {
                    let Some(MsixEntry { address, data }) = self.vectors.raise(vector) else { continue };
                    let data = Data::Carried(self.pool.copy(&data.to_le_bytes()));
                    return Some(Output::Write(DmaWrite::new(address, data)));
                }
                output => return Some(output),
            }
        }
    }

    fn ready(&self) -> Ready {
        self.device.ready()
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.device.poll_taken()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.device.poll_timeout()
    }

    fn messages(&self) -> MessageCodes {
        self.device.messages()
    }

    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        self.device.set_notifier(notifier)
    }

    /// Ignores the vectors of the function's own configuration space, because the adapter's table defines the vectors.
    fn set_vectors(&mut self, _vectors: u16) {}

    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        self.device.set_sizes(mps, mrrs);
    }

    fn set_bus_master(&mut self, may_send: bool) {
        self.device.set_bus_master(may_send);
    }

    fn waits_for(&self) -> Option<String> {
        self.device.waits_for()
    }
}
