// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The upkeep of an idle link: UpdateFCs that repeat, in every [`REFRESH`] interval, values that the other end knows
//! (`PCIe 5.0 §2.6.1.2`). A driver may let the port compute many intervals at once, with the same result.

use super::Port;
use crate::counters::Counters;
use crate::frame::DLLP_WIRE_BYTES;
use crate::update::REFRESH;
use tlp::{Class, Duration, Time};

impl Port {
    /// The interval in which credits are reported again (`PCIe 5.0 §2.6.1.2`).
    pub const REFRESH: Duration = REFRESH;

    /// Returns true if this port would only repeat values that `other`, the other end of its link, knows already. Valid
    /// while only its timer calls it, and no frame is in flight in either direction. Also true for a port whose link is
    /// down, which sends no frames.
    pub fn only_refreshes(&self, other: &Port) -> bool {
        let timers = self.receiver.deadline().min(self.replay.deadline()).min(self.init_at);
        let at_rest = self.pending == 0 && self.notices.is_empty() && self.retrains_until.is_none();
        let idle = self.down || self.is_idle() && self.is_settled() && self.stalls.none();
        idle && at_rest
            && timers == Time::MAX
            && self.updates.only_refreshes()
            && self.updates.refreshed().all(|kind| self.is_known(kind, other))
    }

    /// Returns whether `other` already knows the values of an UpdateFC of `kind`.
    fn is_known(&self, kind: usize, other: &Port) -> bool {
        let (index, class) = (kind / Class::ALL.len(), kind % Class::ALL.len());
        other.channels.get(index).is_some_and(|channel| {
            channel.is_active() && channel.tx[class].agrees(&self.channels[index].rx[class])
        })
    }

    /// Returns the number of intervals from now, `most` at most, in which each UpdateFC goes onto the wire when it is
    /// due, without waiting for an SKP ordered set or another UpdateFC. Call this only for a port that [only
    /// refreshes](Self::only_refreshes).
    pub fn refreshes_ahead(&self, most: u64) -> u64 {
        let (mut wire, mut counters) = (self.wire.clone(), Counters::default());
        wire.repeat(&self.updates.refreshes(), REFRESH, most, DLLP_WIRE_BYTES, &mut counters)
    }

    /// Skips `intervals`, a number returned by [`refreshes_ahead`](Self::refreshes_ahead): afterwards the port is in
    /// its state at their end. Returns the number of UpdateFCs sent in them, which have no effect at the other end.
    pub fn skip_refreshes(&mut self, intervals: u64) -> u64 {
        self.deadline_moved = true;
        let times = self.updates.refreshes();
        self.wire.repeat(&times, REFRESH, intervals, DLLP_WIRE_BYTES, &mut self.counters);
        self.updates.skip(Duration::from_ps(REFRESH.as_ps() * intervals));
        let sent = times.len() as u64 * intervals;
        self.counters.dllps.update_fc += sent;
        self.counters.dllp_bytes += sent * u64::from(DLLP_WIRE_BYTES);
        sent
    }
}
