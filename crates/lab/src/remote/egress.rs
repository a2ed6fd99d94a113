// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What waits to leave for peers: answers to their reads, and requests of the host. An answer may not pass a request that is
//! older (`PCIe 5.0 §2.4.1`), so all of one way leave in one order. Never sends; never looks at a socket.

use nettlp::adapter::Way;
use nettlp::completer::completion_piece;
use std::collections::VecDeque;
use tlp::{Attributes, Bdf, Body, Completion, Data, Mps, Rcb, Repr, Status, Tag, Time, Tlp, TrafficClass};

/// Requests of the host that wait to leave, in TLPs. While there are as many, further ones stay in the endpoint, and their
/// credits with them: so posted writes that overrun the device software hold the host up, and none is dropped.
pub const MAX_EGRESS_REQUESTS: usize = 64;

/// What is needed to answer a request of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(crate) way: Way,
    pub(crate) requester: Bdf,
    pub(crate) tag: Tag,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    /// Of a memory read the first byte asked for; of others 0.
    pub(crate) first_byte: u64,
    /// Bytes asked for, which a status other than success is told with.
    pub(crate) byte_count: u32,
    /// MRdLk.
    pub(crate) locked: bool,
}

/// The most data of a completion, and the boundaries at which those of one read end (`PCIe 5.0 §2.3.1.1`).
pub(crate) type Cuts = (Mps, Rcb);

/// An answer to a peer: data, or a status other than success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    question: Question,
    result: Result<Data, Status>,
    /// Bytes already sent.
    sent: u32,
    done: bool,
}

impl Answer {
    pub(crate) fn new(question: Question, result: Result<Data, Status>) -> Answer {
        Answer { question, result, sent: 0, done: false }
    }

    /// Its next TLP, as the peer asked for it: with its requester ID and tag, its Byte Count and Lower Address.
    fn next(&self, (mps, rcb): Cuts) -> (Tlp, u32) {
        let Question { requester, tag, tc, attr, first_byte, byte_count, locked, .. } = self.question;
        let address = first_byte + u64::from(self.sent);
        let (status, total) = match &self.result {
            Ok(data) => (Status::Success, data.len() as u32),
            Err(status) => (*status, byte_count),
        };
        let remaining = total - self.sent;
        let mut body = Completion {
            locked,
            completer: Bdf::default(),
            requester,
            tag,
            status,
            bcm: false,
            byte_count: remaining as u16,
            lower_address: (address & 0x7f) as u8,
            length_dw: None,
        };
        let (mut data, mut piece) = (Data::NONE, 0);
        if let Ok(bytes) = &self.result
            && !bytes.is_empty()
        {
            piece = completion_piece(address, remaining, mps, rcb);
            body.length_dw = Some(((address & 3) as u32 + piece).div_ceil(4) as u16);
            data = bytes.slice(self.sent as usize, piece as usize);
        }
        let repr = Repr { tc, attr, ..Repr::new(Body::Completion(body)) };
        (Tlp::new(repr, data), piece)
    }
}

/// What leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Completions for a peer.
    Answer(Answer),
    /// A request of the host, for the device software.
    Request(Tlp),
}

/// An entry's next TLP, and where it goes.
pub(crate) enum Next {
    /// To the peer that asked.
    To(Way, Tlp),
    /// To whoever serves the host's requests.
    ToDevice(Tag, Tlp),
}

/// The queue. Its answers are bounded by the requests of peers that are under way, its requests by
/// [`MAX_EGRESS_REQUESTS`].
#[derive(Default)]
pub(crate) struct Egress {
    entries: VecDeque<(Time, Entry)>,
    requests: usize,
}

impl Egress {
    pub(crate) fn has_room_for_request(&self) -> bool {
        self.requests < MAX_EGRESS_REQUESTS
    }

    pub(crate) fn push(&mut self, now: Time, entry: Entry) {
        self.requests += usize::from(matches!(entry, Entry::Request(_)));
        self.entries.push_back((now, entry));
    }

    /// Since when entry `index` waits.
    pub(crate) fn since(&self, index: usize) -> Option<Time> {
        self.entries.get(index).map(|(since, _)| *since)
    }

    /// What entry `index` has to send next; [`sent`](Self::sent) when it has gone.
    pub(crate) fn next(&self, index: usize, cuts: Cuts) -> Option<Next> {
        match &self.entries.get(index)?.1 {
            Entry::Answer(answer) => Some(Next::To(answer.question.way, answer.next(cuts).0)),
            Entry::Request(tlp) => Some(Next::ToDevice(tlp.repr.transaction().1, tlp.clone())),
        }
    }

    /// The TLP that [`next`](Self::next) showed has gone. True where that was the entry's last.
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

    /// Takes entry `index` out: it has left, or it is given up.
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
