// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The upkeep of a link on which nothing happens: UpdateFCs that repeat, in every [`REFRESH`] interval, what the other end
//! knows (`PCIe 5.0 §2.6.1.2`). A driver may let the port reckon many intervals at once, to the same end.

use super::Port;
use crate::counters::Counters;
use crate::frame::DLLP_WIRE_BYTES;
use crate::update::REFRESH;
use tlp::{Class, Duration, Time};

impl Port {
    /// The interval in which credits are told again (`PCIe 5.0 §2.6.1.2`).
    pub const REFRESH: Duration = REFRESH;

    /// True if this port does nothing but repeat what `other`, the other end of its link, knows, while nobody calls it but
    /// for its timer, and no frame is on its way to either. So does a port whose link is down: it does nothing at all.
    pub fn only_refreshes(&self, other: &Port) -> bool {
        let timers = self.receiver.deadline().min(self.replay.deadline()).min(self.init_at);
        let at_rest = self.pending == 0 && self.notices.is_empty() && self.retrains_until.is_none();
        let idle = self.down || self.is_idle() && self.is_settled() && self.stalls.none();
        idle && at_rest
            && timers == Time::MAX
            && self.updates.only_refreshes()
            && self.updates.refreshed().all(|kind| self.is_known(kind, other))
    }

    /// Whether `other` learns nothing from an UpdateFC of `kind`.
    fn is_known(&self, kind: usize, other: &Port) -> bool {
        let (index, class) = (kind / Class::ALL.len(), kind % Class::ALL.len());
        other.channels.get(index).is_some_and(|channel| {
            channel.is_active() && channel.tx[class].agrees(&self.channels[index].rx[class])
        })
    }

    /// How many intervals pass from now, `most` at most, in which each UpdateFC goes onto the wire when it is due: none
    /// waits for an SKP ordered set or another UpdateFC. Ask a port that [only refreshes](Self::only_refreshes).
    pub fn refreshes_ahead(&self, most: u64) -> u64 {
        let (mut wire, mut counters) = (self.wire.clone(), Counters::default());
        wire.repeat(&self.updates.refreshes(), REFRESH, most, DLLP_WIRE_BYTES, &mut counters)
    }

    /// Has the effect of `intervals` to come, of which [`refreshes_ahead`](Self::refreshes_ahead) has told: afterwards the port
    /// is as it will be then. Returns the number of UpdateFCs that are thus sent; they change nothing at the other end.
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
