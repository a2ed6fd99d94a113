// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One transaction on several links: a switch or root complex forwards a request, with its Requester ID and tag
//! (`PCIe 5.0 §2.2.6.2`), and the completions. The link that shows the request first has the transaction; each further one is
//! a hop of it.

use super::Transaction;
use crate::reader::Direction;
use crate::time::Timestamp;
use std::sync::Arc;
use tlp::FormatId;

/// Where a transaction was seen first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Root {
    pub(crate) link: u16,
    /// Number of the request's record.
    pub(crate) number: u64,
}

/// A transaction on a further link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Number of the link.
    pub link: u16,
    /// The slot or switch that the link leads to; empty where the capture does not tell.
    pub slot: Arc<str>,
    /// Which way the request went there.
    pub direction: Option<Direction>,
    /// Number of the request's record.
    pub request_number: u64,
    /// When the request was seen there first.
    pub start: Timestamp,
    /// When the last completion was seen there; without one, when the request was.
    pub end: Timestamp,
    /// Its TLPs there, each once.
    pub packets: u32,
}

/// What a transaction took from one of its links to the next and back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leg {
    /// Number of the link.
    pub link: u16,
    /// The slot or switch that the link leads to; empty where the capture does not tell.
    pub slot: Arc<str>,
    /// Which way the request went there.
    pub direction: Option<Direction>,
    /// Number of the request's record.
    pub request_number: u64,
    /// From the first request to the request here, in picoseconds.
    pub since_start_ps: u128,
    /// From here to the next link, both ways for a transaction that is answered; on the last link, until its answer. `None`
    /// where nothing answers, and where no next link follows. The legs of an answered transaction sum up to its response.
    pub latency_ps: Option<u128>,
}

impl Hop {
    /// What a transaction is on its own link.
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
    /// Its way, link by link, from the first that shows it; one leg where it was seen on one link.
    pub fn legs(&self) -> Vec<Leg> {
        let first = Hop::of(self);
        let links: Vec<&Hop> = std::iter::once(&first).chain(&self.hops).collect();
        let leg = |(at, hop): (usize, &&Hop)| {
            let response = |hop: &Hop| hop.end.since_ps(hop.start);
            let latency_ps = match (self.completions, links.get(at + 1)) {
                (0, None) => None,
                (0, Some(next)) => Some(next.start.since_ps(hop.start)),
                (_, None) => Some(response(hop)),
                (_, Some(next)) => Some(response(hop).saturating_sub(response(next))),
            };
            Leg {
                link: hop.link,
                slot: Arc::clone(&hop.slot),
                direction: hop.direction,
                request_number: hop.request_number,
                since_start_ps: hop.start.since_ps(self.start),
                latency_ps,
            }
        };
        links.iter().enumerate().map(leg).collect()
    }

    /// True where `request`, on another link, is this request, forwarded: the same but for what a bridge makes of a
    /// configuration request of Type 1. One of Type 0 is never forwarded (`PCIe 5.0 §7.3.3`), and nothing goes upstream again.
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

    /// Adds what was seen of it on a further link.
    pub(crate) fn add_hop(&mut self, hop: &Transaction) {
        self.errors |= hop.errors;
        self.terms |= hop.terms;
        self.retries += hop.retries;
        let new = Hop::of(hop);
        // Inner links end first, and stand last.
        let at = self.hops.partition_point(|known| known.request_number < new.request_number);
        self.hops.insert(at, new);
    }
}
