// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in receive buffers that requests keep until they are answered, as in bridges that reserve room for the
//! response to every request (gem5's, IISWC'18, §V-A). By default a place is free as soon as its TLP has been sent, as
//! in the specification. A kept place becomes free at the [stage](PlaceUntil) of the completion that the switch is set
//! to, when the egress link of the request goes down, or after a completion timeout. This module does not select the
//! destination of a TLP.

use endpoint::CreditReturn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tlp::{Bdf, Body, Class, Duration, Tag, Time, Tlp};

/// The stage of the last completion at which its request gives up the place that it keeps in a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceUntil {
    /// The completion has arrived at the switch.
    #[default]
    Received,
    /// The completion has left the switch towards the requester, as in gem5's bridges (IISWC'18).
    Sent,
}

/// Requester ID and tag, which identify a request.
type Key = (Bdf, Tag);

/// A place in the receive buffer of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BufferPlace {
    pub(super) port: usize,
    pub(super) credit: CreditReturn,
}

struct KeptPlace {
    place: BufferPlace,
    /// The port through which its request was sent.
    egress: usize,
    /// Time at which the place is free without an answer.
    until: Time,
}

/// When a request gives up the place that it keeps.
#[derive(Clone, Copy)]
struct Rule {
    until: PlaceUntil,
    /// The longest time.
    timeout: Duration,
}

/// The places of requests that were sent and await an answer. Bounded by the receive buffers.
#[derive(Default)]
pub(super) struct Places {
    /// When requests give up their places; `None` if requests keep no places.
    rule: Option<Rule>,
    kept: BTreeMap<Key, KeptPlace>,
    /// When each is free without an answer.
    ends: BTreeSet<(Time, Key)>,
}

impl Places {
    /// From now on, requests keep their places until `until`, for at most `timeout`.
    pub(super) fn keep_all(&mut self, until: PlaceUntil, timeout: Duration) {
        self.rule = Some(Rule { until, timeout });
    }

    /// True if some requests keep their places.
    #[inline]
    pub(super) fn keep_some(&self) -> bool {
        self.rule.is_some()
    }

    /// `tlp` leaves `place` through `egress`: returns the place that is now free; a request that needs an answer keeps
    /// its own.
    pub(super) fn left(
        &mut self,
        tlp: &Tlp,
        place: BufferPlace,
        egress: usize,
        now: Time,
    ) -> Option<BufferPlace> {
        let Some(rule) = self.rule.filter(|_| tlp.class() == Class::NonPosted) else {
            return Some(place);
        };
        let (key, until) = (tlp.repr.transaction(), now + rule.timeout);
        // An earlier request of the same requester and tag was never answered.
        let earlier = self.free(key);
        self.kept.insert(key, KeptPlace { place, egress, until });
        self.ends.insert((until, key));
        earlier
    }

    /// Returns the place of the request, if `tlp` is its last completion, which is now at `stage`.
    pub(super) fn answered(&mut self, tlp: &Tlp, stage: PlaceUntil) -> Option<BufferPlace> {
        let Rule { until, .. } = self.rule?;
        match &tlp.repr.body {
            Body::Completion(c) if until == stage && c.is_last() => self.free((c.requester, c.tag)),
            _ => None,
        }
    }

    /// When the next place is free without an answer.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// The next place that is free by `now` without an answer.
    pub(super) fn timed_out(&mut self, now: Time) -> Option<BufferPlace> {
        let (until, key) = *self.ends.first()?;
        if until <= now { self.free(key) } else { None }
    }

    /// Handles a link of `port` that is down and starts again with all places free: returns the places of other ports
    /// that no answer through it will free.
    pub(super) fn link_down(&mut self, port: usize) -> Vec<BufferPlace> {
        let gone = |kept: &KeptPlace| kept.place.port == port || kept.egress == port;
        let keys: Vec<Key> = self.kept.iter().filter(|(_, kept)| gone(kept)).map(|(key, _)| *key).collect();
        let freed = keys.into_iter().filter_map(|key| self.free(key));
        freed.filter(|place| place.port != port).collect()
    }

    fn free(&mut self, key: Key) -> Option<BufferPlace> {
        let KeptPlace { place, until, .. } = self.kept.remove(&key)?;
        self.ends.remove(&(until, key));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::PlaceUntil::{Received, Sent};
    use super::*;
    use tlp::{Completion, Data, MemoryOp, MemoryRequest, Repr, Span, Status};

    fn read(tag: u16) -> Tlp {
        let (requester, span) = (Bdf::from_bits(0x0300), Span::zero_length(0x1000));
        let body = MemoryRequest { op: MemoryOp::Read, requester, tag: Tag::from_bits(tag), span };
        Tlp::new(Repr::new(Body::Memory(body)), Data::NONE)
    }

    fn answer(tag: u16) -> Tlp {
        let body = Completion {
            locked: false,
            completer: Bdf::default(),
            requester: Bdf::from_bits(0x0300),
            tag: Tag::from_bits(tag),
            status: Status::Success,
            bcm: false,
            byte_count: 4,
            lower_address: 0,
            length_dw: None,
        };
        Tlp::new(Repr::new(Body::Completion(body)), Data::NONE)
    }

    const TIMEOUT: Duration = Duration::from_us(50);

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// A place of a read in the receive buffer of `port`.
    fn place(port: usize) -> BufferPlace {
        BufferPlace { port, credit: CreditReturn::of(&read(1)) }
    }

    #[test]
    fn place_is_freed_when_request_leaves_or_is_answered() {
        let mut places = Places::default();
        assert_eq!(places.left(&read(1), place(2), 0, at(0)), Some(place(2)), "as in the specification");
        assert_eq!(places.answered(&answer(1), Received), None);
        places.keep_all(Received, TIMEOUT);
        assert_eq!(places.left(&read(1), place(2), 0, at(0)), None);
        assert_eq!(places.answered(&answer(7), Received), None, "another request's");
        assert_eq!(places.answered(&answer(1), Received), Some(place(2)));
        assert_eq!((places.answered(&answer(1), Received), places.next_timeout()), (None, None), "once");
        assert_eq!(
            places.left(&answer(1), place(2), 0, at(0)),
            Some(place(2)),
            "nothing answers a completion"
        );
    }

    /// gem5's bridges: the place is free when the completion has left, not when it has arrived.
    #[test]
    fn place_is_freed_at_the_set_stage_of_the_answer() {
        for (until, other) in [(Received, Sent), (Sent, Received)] {
            let mut places = Places::default();
            places.keep_all(until, TIMEOUT);
            assert_eq!(places.left(&read(1), place(2), 0, at(0)), None);
            assert_eq!(places.answered(&answer(1), other), None, "{until:?}");
            assert_eq!(places.answered(&answer(1), until), Some(place(2)), "{until:?}");
        }
    }

    #[test]
    fn unanswered_place_is_freed_by_the_timeout() {
        let mut places = Places::default();
        places.keep_all(Received, TIMEOUT);
        places.left(&read(1), place(2), 0, at(0));
        places.left(&read(2), place(3), 0, at(10));
        assert_eq!((places.next_timeout(), places.timed_out(at(49))), (Some(at(50)), None));
        assert_eq!((places.timed_out(at(50)), places.timed_out(at(50))), (Some(place(2)), None));
        assert_eq!(
            places.left(&read(2), place(4), 0, at(55)),
            Some(place(3)),
            "its requester has given it up"
        );
        assert_eq!((places.answered(&answer(2), Received), places.next_timeout()), (Some(place(4)), None));
    }

    #[test]
    fn link_down_frees_the_places_of_requests_sent_through_it() {
        let mut places = Places::default();
        places.keep_all(Received, TIMEOUT);
        places.left(&read(1), place(0), 4, at(0));
        places.left(&read(2), place(0), 3, at(0));
        places.left(&read(3), place(4), 0, at(0));
        assert_eq!(places.link_down(4), [place(0)]);
        assert_eq!(places.answered(&answer(1), Received), None, "free already");
        assert_eq!(places.answered(&answer(3), Received), None, "its link has restarted");
        assert_eq!((places.answered(&answer(2), Received), places.next_timeout()), (Some(place(0)), None));
    }
}
