// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes posted requests that another link showed before. A posted request has no completion, and its tag
//! identifies nothing, so headers are compared. Switches forward posted requests with equal headers in order (`PCIe
//! 5.0 §2.4.1`), so the next one on a link is the oldest that the link has not shown yet.
//!
//! Memory is bounded by [`MAX_POSTED`]. Headers are compared only if a capture has more than one link.

use super::{Packet, Root, Target, named_bytes};
use crate::reader::Direction;
use std::collections::{BTreeMap, VecDeque};
use tlp::{Bdf, Body, MessageRouting};

/// Maximum number of posted requests that may still appear on a further link. If there are more, the oldest is
/// dropped.
pub(crate) const MAX_POSTED: usize = 4096;

/// Fields of a posted request that forwarding keeps: requester, format, target, bytes and Traffic Class.
type Header = (Bdf, u8, Target, u32, u8);

/// A posted request, and the links that have shown it.
#[derive(Clone, Debug)]
struct Sight {
    root: Root,
    is_upstream: bool,
    further: Vec<u16>,
}

/// The latest posted requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Posted {
    /// In order of their first records.
    latest: VecDeque<(Header, Sight)>,
    /// The requests by header, in order; empty while the capture has one link.
    by_header: BTreeMap<Header, VecDeque<Sight>>,
}

impl Posted {
    /// Processes a posted request. Returns its first record if another link showed it before.
    pub(super) fn see(&mut self, packet: &Packet<'_>, has_links: bool) -> Option<Root> {
        // A local message is never forwarded (`PCIe 5.0 §2.2.8`).
        if matches!(&packet.repr.body, Body::Message(m) if m.routing == MessageRouting::Local) {
            return None;
        }
        let header = header_of(packet);
        if has_links {
            self.index();
            if let Some(root) = self.forwarded(&header, packet) {
                return Some(root);
            }
        }
        self.remember(header, packet, has_links);
        None
    }

    /// Indexes the requests by header when a second link appears.
    fn index(&mut self) {
        if self.by_header.is_empty() {
            for (header, sight) in &self.latest {
                self.by_header.entry(*header).or_default().push_back(sight.clone());
            }
        }
    }

    /// Returns the oldest request with this header that the packet's link may show now. A request that goes
    /// downstream never turns upstream.
    fn forwarded(&mut self, header: &Header, packet: &Packet<'_>) -> Option<Root> {
        let link = packet.link;
        let goes_up = packet.direction == Some(Direction::Upstream);
        let is_due = |sight: &&mut Sight| {
            sight.root.link != link && !sight.further.contains(&link) && (sight.is_upstream || !goes_up)
        };
        let sight = self.by_header.get_mut(header)?.iter_mut().find(is_due)?;
        sight.further.push(link);
        Some(sight.root)
    }

    fn remember(&mut self, header: Header, packet: &Packet<'_>, has_links: bool) {
        let root = Root { link: packet.link, number: packet.number };
        let is_upstream = packet.direction == Some(Direction::Upstream);
        let sight = Sight { root, is_upstream, further: Vec::new() };
        if has_links {
            self.by_header.entry(header).or_default().push_back(sight.clone());
        }
        self.latest.push_back((header, sight));
        if self.latest.len() > MAX_POSTED
            && let Some((oldest, ..)) = self.latest.pop_front()
            && let Some(sights) = self.by_header.get_mut(&oldest)
        {
            sights.pop_front();
            if sights.is_empty() {
                self.by_header.remove(&oldest);
            }
        }
    }
}

fn header_of(packet: &Packet<'_>) -> Header {
    let repr = packet.repr;
    let (requester, _) = repr.transaction();
    (requester, repr.format().id as u8, Target::of(repr), named_bytes(repr), repr.tc.bits())
}
