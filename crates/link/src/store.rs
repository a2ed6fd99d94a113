// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TLPs that a port holds, from the transmit queue to their acknowledgement. Each TLP is written once and stays in
//! its place. The place freed last is reused first. Other modules keep order and limits.

use tlp::{Account, Tlp};

/// Handle of a TLP in a [`TlpStore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Handle(u32);

/// TLPs by handle.
pub(crate) struct TlpStore {
    slots: Vec<Option<Tlp>>,
    free: Vec<Handle>,
}

impl TlpStore {
    /// Makes a store with room for `capacity` TLPs without allocation.
    pub(crate) fn new(capacity: usize) -> TlpStore {
        TlpStore {
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity as u32).rev().map(Handle).collect(),
        }
    }

    /// Stores a TLP, and sets its account to `account`.
    #[inline(always)]
    pub(crate) fn insert(&mut self, tlp: Tlp, account: Account) -> Handle {
        let handle = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[handle.0 as usize].insert(tlp).account = account;
        handle
    }

    #[cold]
    fn grow(&mut self) -> Handle {
        self.slots.push(None);
        Handle(self.slots.len() as u32 - 1)
    }

    #[inline(always)]
    pub(crate) fn get(&self, handle: Handle) -> Option<&Tlp> {
        self.slots[handle.0 as usize].as_ref()
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Tlp> {
        self.slots[handle.0 as usize].as_mut()
    }

    /// Takes a TLP out of the store.
    #[cold]
    pub(crate) fn take(&mut self, handle: Handle) -> Option<Tlp> {
        let tlp = self.slots[handle.0 as usize].take();
        self.free.push(handle);
        tlp
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        self.slots[handle.0 as usize] = None;
        self.free.push(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Body, Data, Message, MessageRouting, Repr};

    fn message(code: u8) -> Tlp {
        let (requester, tag) = Default::default();
        let routing = MessageRouting::Local;
        let body = Message { routing, requester, tag, code, header: [0; 8], length_dw: None };
        Tlp::new(Repr::new(Body::Message(body)), Data::NONE)
    }

    #[test]
    fn store_reuses_places_and_grows() {
        let mut store = TlpStore::new(2);
        let [a, b, c] = [1, 2, 3].map(|code| store.insert(message(code), Account::NONE));
        assert_eq!(store.get(c), Some(&message(3)));
        store.remove(b);
        assert_eq!(store.get(b), None);
        assert_eq!(store.insert(message(4), Account::NONE), b);
        assert_eq!(store.get(a), Some(&message(1)));
    }
}
