// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the data link layer does with each TLP of a capture: taken, seen before, out of order, or lost on the way
//! (`PCIe 5.0 §3.6.3.1`). Sequence numbers are not on NetTLP's wire; captures of riser that hold DLLPs tell a TLP's
//! [place](crate::Mark::place). Where there is none, every TLP counts as taken, and nothing is ever guessed.

use crate::decode::{Bad, Kind, Record};
use crate::reader::{Direction, Mark};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use tlp::{Dllp, FlowControlKind, Vc};

/// Most TLPs of a direction that wait for an Ack, and most that are remembered of those that came too early: twice what
/// sequence numbers allow (`PCIe 5.0 §3.6.2.1`).
pub const MAX_UNACKED: usize = 4096;

/// What happens to a TLP where it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It is taken; as far as the capture tells.
    Taken {
        /// When it was first seen: before, where it did not arrive then.
        first_seen: Timestamp,
        /// How often it was seen before without arriving.
        retries: u32,
    },
    /// It was taken before: a replay.
    Again,
    /// A TLP before it is missing: the receiver discards it, and it will come again.
    OutOfOrder,
    /// Damaged or dropped on the way.
    Lost,
}

/// A direction of a link; `None` where the capture names no direction.
pub type Way = (u16, Option<Direction>);

/// The receiver of one direction.
#[derive(Clone, Debug, Default)]
struct Receiver {
    /// Place of the next TLP that is taken; `None` before the first, and behind a hole in the file.
    next: Option<u64>,
    /// One behind the highest place seen.
    end: u64,
    /// Those that were seen and not taken: when first, and how often.
    early: BTreeMap<u64, (Timestamp, u32)>,
}

/// The receivers of a capture.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    receivers: BTreeMap<Way, Receiver>,
}

/// The way that a record goes.
pub fn way(record: &Record<'_>) -> Way {
    (record.interface.map_or(0, |interface| interface.link), record.direction)
}

/// The other way on the same link.
pub fn opposite((link, direction): Way) -> Way {
    let other = direction.map(|direction| match direction {
        Direction::Downstream => Direction::Upstream,
        Direction::Upstream => Direction::Downstream,
    });
    (link, other)
}

impl Sequences {
    /// Nothing seen yet.
    pub fn new() -> Sequences {
        Sequences::default()
    }

    /// Sees a TLP.
    pub fn tlp(&mut self, record: &Record<'_>) -> Arrival {
        let (mark, time) = (record.mark, record.timestamp);
        match mark.place {
            None if mark.is_lost() => Arrival::Lost,
            None => Arrival::Taken { first_seen: time, retries: 0 },
            Some(place) => self.receivers.entry(way(record)).or_default().see(place, mark, time),
        }
    }

    /// Passes over a record that nobody counts: what comes behind it is as if it had been seen.
    pub fn pass(&mut self, record: &Record<'_>) {
        match &record.kind {
            Kind::Dllp(dllp) => _ = self.link_came_up(record, dllp),
            Kind::Bad(Bad::File(_)) => self.hole(),
            // The data link layer takes a malformed TLP as any other.
            Kind::Tlp(_) | Kind::Bad(_) => _ = self.tlp(record),
            Kind::Other(_) => {}
        }
    }

    /// Returns the two directions of the link if `dllp` begins flow-control initialization of VC0. A link does this only when it
    /// comes up, and numbers its TLPs from 0 then (`PCIe 5.0 §3.4.2, §3.6.2.1`). The state of both directions is then dropped.
    pub fn link_came_up(&mut self, record: &Record<'_>, dllp: &Dllp) -> Option<[Way; 2]> {
        let Dllp::FlowControl(fc) = dllp else { return None };
        if fc.kind != FlowControlKind::InitFc1 || fc.vc != Vc::VC0 || record.mark.is_lost() {
            return None;
        }
        let ways = [way(record), opposite(way(record))];
        let known = ways.iter().filter(|way| self.receivers.remove(way).is_some()).count();
        (known > 0).then_some(ways)
    }

    /// True where it is the first time that this TLP is seen on its way, taken or not; called before
    /// [`tlp`](Self::tlp). `None` where the capture does not tell.
    pub fn is_new(&self, record: &Record<'_>) -> Option<bool> {
        let place = record.mark.place?;
        Some(self.receivers.get(&way(record)).is_none_or(|receiver| place >= receiver.end))
    }

    /// The place up to which an Ack or Nak acknowledges the TLPs of the other way; `None` for other DLLPs, for one that
    /// was lost, and where the places of those TLPs are not known.
    pub fn acknowledged(&mut self, record: &Record<'_>, dllp: &Dllp) -> Option<(Way, u64)> {
        let (Dllp::Ack { sequence } | Dllp::Nak { sequence }) = dllp else { return None };
        if record.mark.is_lost() {
            return None;
        }
        let way = opposite(way(record));
        let receiver = self.receivers.get_mut(&way)?;
        let latest = receiver.end.checked_sub(1)?;
        // The nearest place not beyond the latest seen.
        let behind = latest.wrapping_sub(u64::from(*sequence)) & 0xfff;
        let place = latest.checked_sub(behind)?;
        // What is acknowledged has arrived, even where the capture has lost it.
        receiver.next = receiver.next.map(|next| next.max(place + 1));
        Some((way, place))
    }

    /// Forgets where each direction was: a part of the file could not be read.
    pub fn hole(&mut self) {
        for receiver in self.receivers.values_mut() {
            receiver.next = None;
            receiver.early.clear();
        }
    }
}

impl Receiver {
    fn see(&mut self, place: u64, mark: Mark, time: Timestamp) -> Arrival {
        self.end = self.end.max(place.saturating_add(1));
        let next = *self.next.get_or_insert(place);
        if place < next {
            return Arrival::Again;
        }
        if mark.is_lost() || place > next {
            self.note_early(place, time);
            return if mark.is_lost() { Arrival::Lost } else { Arrival::OutOfOrder };
        }
        self.next = Some(place.saturating_add(1));
        let (first_seen, retries) = self.early.remove(&place).unwrap_or((time, 0));
        Arrival::Taken { first_seen, retries }
    }

    fn note_early(&mut self, place: u64, time: Timestamp) {
        if self.early.len() >= MAX_UNACKED && !self.early.contains_key(&place) {
            self.early.pop_first();
        }
        self.early.entry(place).or_insert((time, 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places with their fate, and what becomes of each; time is the position in the row.
    #[test]
    fn a_receiver_takes_what_is_next() {
        use Arrival::{Again, Lost, OutOfOrder};
        let taken = |first: u128, retries| Arrival::Taken { first_seen: Timestamp::from_ps(first), retries };
        let damaged = Mark { damaged: true, ..Mark::default() };
        let sound = Mark::default();
        type Row<'a> = (&'a [(u64, Mark)], &'a [Arrival]);
        let rows: [Row<'_>; 4] = [
            (&[(0, sound), (1, sound), (2, sound)], &[taken(0, 0), taken(1, 0), taken(2, 0)]),
            // PCIe 5.0 §3.6.3.1: what follows a damaged TLP is discarded until it comes again.
            (
                &[(0, sound), (1, damaged), (2, sound), (1, sound), (2, sound)],
                &[taken(0, 0), Lost, OutOfOrder, taken(1, 1), taken(2, 1)],
            ),
            // A replay whose Ack was lost.
            (
                &[(7, sound), (8, sound), (7, sound), (8, sound), (9, sound)],
                &[taken(0, 0), taken(1, 0), Again, Again, taken(4, 0)],
            ),
            (&[(5, damaged), (5, damaged), (5, sound)], &[Lost, Lost, taken(0, 2)]),
        ];
        for (tlps, arrivals) in rows {
            let mut receiver = Receiver::default();
            let seen = tlps.iter().zip(0u32..);
            let seen: Vec<Arrival> = seen
                .map(|((place, mark), n)| receiver.see(*place, *mark, Timestamp::from_ps(n.into())))
                .collect();
            assert_eq!(seen, arrivals);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut receiver = Receiver::default();
        receiver.see(0, Mark::default(), Timestamp::ZERO);
        for place in 2..20_000 {
            assert_eq!(receiver.see(place, Mark::default(), Timestamp::ZERO), Arrival::OutOfOrder);
        }
        assert_eq!(receiver.early.len(), MAX_UNACKED);
    }
}
