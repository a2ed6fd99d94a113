// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One transaction on several links. A switch or root complex forwards a request with its Requester ID and tag
//! (`PCIe 5.0 §2.2.6.2`), and its completions. The transaction belongs to the link that shows the request first. On
//! each further link it is a hop of this transaction.

use super::Transaction;
use crate::reader::Direction;
use crate::time::Timestamp;
use std::sync::Arc;
use tlp::FormatId;

/// The request's record on the link that showed the transaction first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Root {
    pub(crate) link: u16,
    /// Number of the request's record.
    pub(crate) number: u64,
}

/// A transaction on one of its links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Number of the link.
    pub link: u16,
    /// The slot or switch at the end of the link; empty if the capture does not name it.
    pub slot: Arc<str>,
    /// Direction of the request there.
    pub direction: Option<Direction>,
    /// Number of the request's record.
    pub request_number: u64,
    /// Time when the request was first seen on this link.
    pub start: Timestamp,
    /// Time of the last completion on this link; without completions, time of the request.
    pub end: Timestamp,
    /// Number of its TLPs on this link, without replays.
    pub packets: u32,
}

/// The part of a transaction between one of its links and the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leg {
    /// The transaction on the link where the leg begins.
    pub hop: Hop,
    /// Latency from this link to the next one, in picoseconds. For a completed transaction, it includes the way
    /// back. On the last link, it is the time from the request to the last completion. `None` if there is neither a
    /// completion nor a next link, or if the file has no times. The latencies of a completed transaction add up to
    /// its response time.
    pub latency_ps: Option<u128>,
}

impl Hop {
    /// The transaction on the link that showed it first.
    fn of(t: &Transaction) -> Hop {
        Hop {
            link: t.requester.link,
            slot: Arc::clone(&t.slot),
            direction: t.direction,
            request_number: t.request_number,
            start: t.start,
            end: t.end,
            packets: 1 + t.completions,
        }
    }
}

impl Transaction {
    /// The legs of the transaction, starting at the link that shows it first. A transaction on one link has one leg.
    pub fn legs(&self) -> Vec<Leg> {
        let first = Hop::of(self);
        let nexts = self.hops.iter().map(Some).chain([None]);
        let response = |hop: &Hop| hop.end.since_ps(hop.start);
        let leg = |(hop, next): (&Hop, Option<&Hop>)| {
            let latency_ps = match (self.completions, next) {
                _ if !self.has_times => None,
                (0, None) => None,
                (0, Some(next)) => Some(next.start.since_ps(hop.start)),
                (_, None) => Some(response(hop)),
                (_, Some(next)) => Some(response(hop).saturating_sub(response(next))),
            };
            Leg { hop: hop.clone(), latency_ps }
        };
        std::iter::once(&first).chain(&self.hops).zip(nexts).map(leg).collect()
    }

    /// Returns true if `request`, on another link, is this request after forwarding. Forwarding keeps a request
    /// unchanged, except that a bridge may turn a configuration request of Type 1 into Type 0. A request of Type 0
    /// is never forwarded (`PCIe 5.0 §7.3.3`). A request that goes downstream never turns upstream.
    pub(super) fn is_forwarded_as(&self, request: &Transaction) -> bool {
        let kept = |t: &Transaction| (t.target, t.bytes, t.tc);
        let goes_up_again =
            self.direction != Some(Direction::Upstream) && request.direction == Some(Direction::Upstream);
        self.hop_of.is_none()
            && self.requester.link != request.requester.link
            && kept(self) == kept(request)
            && !goes_up_again
            && match self.format {
                FormatId::CfgRd1 => matches!(request.format, FormatId::CfgRd0 | FormatId::CfgRd1),
                FormatId::CfgWr1 => matches!(request.format, FormatId::CfgWr0 | FormatId::CfgWr1),
                FormatId::CfgRd0 | FormatId::CfgWr0 => false,
                format => format == request.format,
            }
    }

    /// Adds this transaction's part on a further link.
    pub(crate) fn add_hop(&mut self, hop: &Transaction) {
        self.errors |= hop.errors;
        self.has_times &= hop.has_times;
        self.terms |= hop.terms;
        self.retries += hop.retries;
        let new = Hop::of(hop);
        // The requests on inner links come later, but their transactions end first.
        let at = self.hops.partition_point(|known| known.request_number < new.request_number);
        self.hops.insert(at, new);
    }
}
