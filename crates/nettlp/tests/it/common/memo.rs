// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A carrier in memory: it records sent TLPs, and delivers prepared TLPs. Opens no socket.

use riser_capture::encap::Origin;
use riser_nettlp::carrier::{Arrival, Carrier, SendError, Wait};
use riser_tlp::Tag;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::rc::Rc;

#[derive(Default)]
pub(crate) struct Memo {
    /// Issuer of the request, tag, and the TLP.
    pub(crate) sent: Vec<(Origin, u16, Vec<u8>)>,
    pub(crate) arriving: VecDeque<(Origin, Vec<u8>)>,
    /// Number of TLPs that the carrier still accepts; shared with its clones.
    pub(crate) room: Rc<Cell<usize>>,
}

impl Memo {
    /// Creates a carrier that accepts `room` TLPs.
    pub(crate) fn with_room(room: usize) -> Memo {
        Memo { room: Rc::new(Cell::new(room)), ..Memo::default() }
    }
}

impl Carrier for Memo {
    fn is_reliable(&self) -> bool {
        true
    }

    fn tags(&self) -> RangeInclusive<u16> {
        0..=255
    }

    fn room(&self) -> usize {
        self.room.get()
    }

    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        self.room.set(self.room.get().checked_sub(1).ok_or(SendError::NoRoom)?);
        // If `fill` leaves out bytes, the value 0xee shows them.
        let mut tlp = vec![0xee; len];
        fill(&mut tlp);
        self.sent.push((origin, tag.bits(), tlp));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let count = self.arriving.len();
        for (origin, tlp) in self.arriving.drain(..) {
            take(Arrival { origin, tlp: &tlp, sequence: 0, timestamp: 0 });
        }
        Ok(count)
    }

    fn is_idle(&self) -> bool {
        true
    }
}
