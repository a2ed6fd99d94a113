// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The egress queue: answers to peers' reads, and requests of the host. An answer may not pass an older request
//! (`PCIe 5.0 §2.4.1`), so all entries for one peer leave in order. The queue never sends.

use nettlp::adapter::PeerPath;
use nettlp::completer::completion_piece;
use std::collections::VecDeque;
use tlp::{Bdf, CompletedRequest, Data, Mps, Rcb, Status, Tag, Time, Tlp};

/// Maximum number of the host's requests in the queue, in TLPs. Further requests stay in the endpoint with their
/// credits. Posted writes that are too fast for the device software therefore stall the host; no write is dropped.
pub const MAX_EGRESS_REQUESTS: usize = 64;

/// Maximum data of a completion, and the boundaries at which completions of one read end (`PCIe 5.0 §2.3.1.1`).
pub(crate) type Cuts = (Mps, Rcb);

/// An answer to a peer: data, or a status other than success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    way: PeerPath,
    asked: CompletedRequest,
    result: Result<Data, Status>,
    /// Bytes already sent.
    sent: u32,
    done: bool,
}

impl Answer {
    pub(crate) fn new(way: PeerPath, asked: CompletedRequest, result: Result<Data, Status>) -> Answer {
        Answer { way, asked, result, sent: 0, done: false }
    }

    /// Returns its next TLP, in the form that the peer requested, and the number of its bytes.
    pub(crate) fn next(&self, (mps, rcb): Cuts) -> (Tlp, u32) {
        let data = match &self.result {
            Ok(data) => data,
            Err(status) => {
                return (Tlp::new(self.asked.without_data(Bdf::default(), *status), Data::NONE), 0);
            }
        };
        let rest = self.asked.bytes.behind(self.sent);
        let piece = completion_piece(rest.first_byte, rest.byte_count, mps, rcb);
        let repr = self.asked.with_data(Bdf::default(), self.sent, piece);
        (Tlp::new(repr, data.slice(self.sent as usize, piece as usize)), piece)
    }
}

/// An entry of the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Completions for a peer.
    Answer(Answer),
    /// A request of the host, for the device software.
    Request(Tlp),
}

/// An entry's next TLP and its destination.
pub(crate) enum Next {
    /// To the peer that sent the request.
    To(PeerPath, Tlp),
    /// To the device software that serves the host's requests.
    ToDevice(Tag, Tlp),
}

/// The queue. The requests of peers in progress limit its answers, and [`MAX_EGRESS_REQUESTS`] limits its requests.
#[derive(Default)]
pub(crate) struct Egress {
    entries: VecDeque<(Time, Entry)>,
    requests: usize,
}

impl Egress {
    pub(crate) fn has_room_for_request(&self) -> bool {
        self.requests < MAX_EGRESS_REQUESTS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn push(&mut self, now: Time, entry: Entry) {
        self.requests += usize::from(matches!(entry, Entry::Request(_)));
        self.entries.push_back((now, entry));
    }

    /// Returns the time at which entry `index` joined the queue.
    pub(crate) fn since(&self, index: usize) -> Option<Time> {
        self.entries.get(index).map(|(since, _)| *since)
    }

    /// Returns the next TLP of entry `index`. Call [`sent`](Self::sent) after sending it.
    pub(crate) fn next(&self, index: usize, cuts: Cuts) -> Option<Next> {
        match &self.entries.get(index)?.1 {
            Entry::Answer(answer) => Some(Next::To(answer.way, answer.next(cuts).0)),
            Entry::Request(tlp) => Some(Next::ToDevice(tlp.repr.transaction().1, tlp.clone())),
        }
    }

    /// Counts the TLP of [`next`](Self::next) as sent. Returns whether it was the last TLP of the entry.
    pub(crate) fn sent(&mut self, index: usize, cuts: Cuts) -> bool {
        match self.entries.get_mut(index).map(|(_, entry)| entry) {
            Some(Entry::Answer(answer)) => {
                answer.sent += answer.next(cuts).1;
                answer.done = answer.result.as_ref().map_or(true, |data| answer.sent as usize >= data.len());
                answer.done
            }
            Some(Entry::Request(_)) => true,
            None => false,
        }
    }

    /// Removes entry `index`, which was sent or is lost.
    pub(crate) fn take(&mut self, index: usize) -> Option<Entry> {
        let (_, entry) = self.entries.remove(index)?;
        self.requests -= usize::from(matches!(entry, Entry::Request(_)));
        Some(entry)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.requests = 0;
    }
}
