// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of each TLP at its receiver's data link layer: taken, seen before, out of order, or lost on the way
//! (`PCIe 5.0 §3.6.3.1`). NetTLP datagrams have no sequence numbers. riser's captures with DLLPs have the
//! [place](crate::Mark::place) of each TLP in the sequence. Without it, every TLP counts as taken.

use crate::decode::{Bad, Kind, Record};
use crate::reader::{Direction, Mark};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use tlp::{Dllp, FlowControlKind, Vc};

/// Maximum number of unacknowledged TLPs per direction, and of remembered TLPs that arrived too early. It is twice
/// the limit that sequence numbers allow (`PCIe 5.0 §3.6.2.1`).
pub const MAX_UNACKED: usize = 4096;

/// Result of a TLP at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The receiver takes the TLP, as far as the capture shows.
    Taken {
        /// Time when it was first seen. Earlier than the arrival if the first TLP did not arrive.
        first_seen: Timestamp,
        /// How often it was seen before without arriving.
        retries: u32,
    },
    /// The receiver has taken the TLP before: a replay.
    Again,
    /// An earlier TLP is missing. The receiver discards this one, and it will be retransmitted.
    OutOfOrder,
    /// Damaged or dropped on the way.
    Lost,
}

/// A link and a direction on it; `None` if the capture has no direction.
pub type LinkDirection = (u16, Option<Direction>);

/// The receiver of one direction.
#[derive(Clone, Debug, Default)]
struct Receiver {
    /// Place of the next TLP to take; `None` before the first TLP, and after an unreadable part of the file.
    next: Option<u64>,
    /// Highest place seen, plus one.
    end: u64,
    /// TLPs that were seen but not taken, by place: time of the first one, and their number.
    early: BTreeMap<u64, (Timestamp, u32)>,
}

/// The receivers of a capture.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    receivers: BTreeMap<LinkDirection, Receiver>,
}

/// Returns the link and direction of a record.
pub fn way(record: &Record<'_>) -> LinkDirection {
    (record.interface.map_or(0, |interface| interface.link), record.direction)
}

/// Returns the other direction of the same link.
pub fn opposite((link, direction): LinkDirection) -> LinkDirection {
    let other = direction.map(|direction| match direction {
        Direction::Downstream => Direction::Upstream,
        Direction::Upstream => Direction::Downstream,
    });
    (link, other)
}

impl Sequences {
    /// Creates receivers without records.
    pub fn new() -> Sequences {
        Sequences::default()
    }

    /// Processes a TLP.
    pub fn tlp(&mut self, record: &Record<'_>) -> Arrival {
        let (mark, time) = (record.mark, record.timestamp);
        match mark.place {
            None if mark.is_lost() => Arrival::Lost,
            None => Arrival::Taken { first_seen: time, retries: 0 },
            Some(place) => self.receivers.entry(way(record)).or_default().see(place, mark, time),
        }
    }

    /// Processes a record that is not counted, to keep the state correct for later ones.
    pub fn pass(&mut self, record: &Record<'_>) {
        match &record.kind {
            Kind::Dllp(dllp) => _ = self.link_came_up(record, dllp),
            Kind::Bad(Bad::File(_)) => self.hole(),
            // The data link layer accepts a malformed TLP like any other TLP.
            Kind::Tlp(_) | Kind::Bad(_) => _ = self.tlp(record),
            Kind::Other(_) => {}
        }
    }

    /// Returns the two directions of the link if `dllp` starts flow-control initialization of VC0. A link does this
    /// only when it comes up, and then numbers its TLPs from 0 (`PCIe 5.0 §3.4.2, §3.6.2.1`). Drops the state of
    /// both directions.
    pub fn link_came_up(&mut self, record: &Record<'_>, dllp: &Dllp) -> Option<[LinkDirection; 2]> {
        let Dllp::FlowControl(fc) = dllp else { return None };
        if fc.kind != FlowControlKind::InitFc1 || fc.vc != Vc::VC0 || record.mark.is_lost() {
            return None;
        }
        let ways = [way(record), opposite(way(record))];
        let known = ways.iter().filter(|way| self.receivers.remove(way).is_some()).count();
        (known > 0).then_some(ways)
    }

    /// Returns true if this TLP is seen for the first time in its direction, whether or not it is taken. Must be
    /// called before [`tlp`](Self::tlp). `None` if the capture does not have the place of the TLP.
    pub fn is_new(&self, record: &Record<'_>) -> Option<bool> {
        let place = record.mark.place?;
        Some(self.receivers.get(&way(record)).is_none_or(|receiver| place >= receiver.end))
    }

    /// Returns the place up to which an Ack or Nak acknowledges the TLPs of the other direction. `None` for other
    /// DLLPs, for lost DLLPs, and if the places of those TLPs are unknown.
    pub fn acknowledged(&mut self, record: &Record<'_>, dllp: &Dllp) -> Option<(LinkDirection, u64)> {
        let (Dllp::Ack { sequence } | Dllp::Nak { sequence }) = dllp else { return None };
        if record.mark.is_lost() {
            return None;
        }
        let way = opposite(way(record));
        let receiver = self.receivers.get_mut(&way)?;
        let latest = receiver.end.checked_sub(1)?;
        // The nearest matching place that is not above the highest place seen.
        let behind = latest.wrapping_sub(u64::from(*sequence)) & 0xfff;
        let place = latest.checked_sub(behind)?;
        // Acknowledged TLPs have arrived, even if they are not in the capture.
        receiver.next = receiver.next.map(|next| next.max(place + 1));
        Some((way, place))
    }

    /// Drops the next place of each direction, after an unreadable part of the file.
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

    /// Rows: places with damage, and the result of each. The time of a TLP is its position in the row.
    #[test]
    fn receiver_accepts_only_next_tlp() {
        use Arrival::{Again, Lost, OutOfOrder};
        let taken = |first: u128, retries| Arrival::Taken { first_seen: Timestamp::from_ps(first), retries };
        let damaged = Mark { damaged: true, ..Mark::default() };
        let sound = Mark::default();
        type Row<'a> = (&'a [(u64, Mark)], &'a [Arrival]);
        let rows: [Row<'_>; 4] = [
            (&[(0, sound), (1, sound), (2, sound)], &[taken(0, 0), taken(1, 0), taken(2, 0)]),
            // PCIe 5.0 §3.6.3.1: TLPs after a damaged one are discarded until it arrives again.
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
    fn limits_number_of_remembered_early_tlps() {
        let mut receiver = Receiver::default();
        receiver.see(0, Mark::default(), Timestamp::ZERO);
        for place in 2..20_000 {
            assert_eq!(receiver.see(place, Mark::default(), Timestamp::ZERO), Arrival::OutOfOrder);
        }
        assert_eq!(receiver.early.len(), MAX_UNACKED);
    }
}
