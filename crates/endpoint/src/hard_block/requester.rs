// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that a hard block keeps for each function: the requests that the design has issued, by tag. Never calls the design.

use crate::front::findings::Expected;
use crate::front::settings::FunctionSettings;
use crate::front::tag_pool::TagPool;
use crate::front::{FunctionBackend, Shared};
use device::seam::ResetKind;
use std::collections::VecDeque;
use tlp::message::MessageCodes;
use tlp::{Awaited, Bdf, CompletedRequest, Repr, Tag, TagState, TaggedRequests, Time, Tlp, TrafficClass};

/// Maximum number of tracked requests whose tag was already in use. Completions of further such requests are
/// unexpected.
const MOST_AGAIN: usize = 256;

/// A request of the design.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Issued {
    /// Number of bytes that have not been answered yet.
    pub(super) awaited: Awaited,
    /// Its header as sent; `None` if the answer is no longer needed.
    pub(super) sent: Option<Repr>,
    /// Requester ID and tag of the request in the design.
    pub(super) known_as: (Bdf, Tag),
}

impl Issued {
    /// Returns the fields that its completions must have.
    pub(super) fn expected(&self) -> Expected {
        Expected { awaited: self.awaited, repeated: self.sent.map(|sent| (sent.tc, sent.attr)) }
    }
}

/// See the [module](self).
pub(crate) struct Requester {
    messages: MessageCodes,
    pub(super) tags: TaggedRequests<Issued>,
    /// Requests that were sent while their tag was in use, oldest first: each with its function's ID and its deadline.
    again: VecDeque<(Repr, Bdf, Time)>,
    /// PM_PME messages to be sent.
    pub(super) parked: VecDeque<Tlp>,
    /// A reset that has not been reported to the design yet.
    pub(super) was_reset: Option<ResetKind>,
}

impl Requester {
    /// Records a request of function `id`, which is sent with this tag or with a free tag. Has no effect and returns
    /// false if the tag is not free.
    pub(super) fn issue(&mut self, id: Bdf, tag: Option<Tag>, deadline: Time, request: &mut Repr) -> bool {
        let known_as = request.transaction();
        let free = match tag {
            Some(tag) => self.tags.claim(tag, deadline).map(|issued| (tag, issued)),
            None => self.tags.take(deadline),
        };
        let Some((tag, issued)) = free else { return false };
        request.set_transaction(id, tag);
        let awaited = CompletedRequest::of(request).map(|asked| asked.bytes).unwrap_or_default();
        *issued = Issued { awaited, sent: Some(*request), known_as };
        true
    }

    /// Records a request that is sent although its tag is in use or quarantined. Completions belong to the older
    /// request until that request is complete. Returns false if software has not enabled the tag.
    pub(super) fn issue_again(&mut self, id: Bdf, deadline: Time, request: &mut Repr) -> bool {
        let (_, tag) = request.transaction();
        match self.tags.get(tag).map(|(state, _)| state) {
            Some(TagState::Waiting) => {
                if self.again.len() < MOST_AGAIN {
                    self.again.push_back((*request, id, deadline));
                }
                request.set_transaction(id, tag);
                true
            }
            Some(TagState::Resting) => {
                self.tags.release(tag);
                self.issue(id, Some(tag), deadline, request)
            }
            _ => false,
        }
    }

    /// Frees a tag, or tracks the next request that was sent with it.
    pub(super) fn release(&mut self, tag: Tag) {
        self.tags.release(tag);
        let next = self.again.iter().position(|(request, ..)| request.transaction().1 == tag);
        if let Some((mut request, id, deadline)) = next.and_then(|at| self.again.remove(at)) {
            self.issue(id, Some(tag), deadline, &mut request);
        }
    }

    /// Quarantines the tag of an abandoned request, unless another request was sent with it.
    pub(super) fn rest(&mut self, tag: Tag, until: Time) {
        match self.again.iter().any(|(request, ..)| request.transaction().1 == tag) {
            true => self.release(tag),
            false => self.tags.rest(tag, until),
        }
    }
}

impl FunctionBackend for Requester {
    /// The Message Codes that a function takes.
    type Device = MessageCodes;

    fn new(messages: Option<MessageCodes>) -> Requester {
        Requester {
            messages: messages.unwrap_or(MessageCodes::NONE),
            tags: TaggedRequests::default(),
            again: VecDeque::new(),
            parked: VecDeque::new(),
            was_reset: None,
        }
    }

    fn replace(&mut self, messages: Option<MessageCodes>) {
        self.messages = messages.unwrap_or(MessageCodes::NONE);
    }

    fn set_vectors(&mut self, _vectors: u16) {}

    fn messages(&self) -> MessageCodes {
        self.messages
    }

    fn is_pending(&self) -> bool {
        let pending =
            |(state, issued): (TagState, &Issued)| state == TagState::Waiting && issued.sent.is_some();
        self.tags.requests().any(pending)
    }

    fn holds_tags(&self) -> bool {
        self.tags.in_use() > 0
    }

    /// No stamp: TLPs of the design are sent immediately.
    fn oldest_posted(&self, _tc: TrafficClass) -> Option<u64> {
        None
    }

    fn hold(&mut self) {}

    fn park(&mut self, _stamp: u64, tlp: Tlp) {
        self.parked.push_back(tlp);
    }

    fn follow(&mut self, settings: &FunctionSettings) {
        settings.give_tags(&mut self.tags);
    }

    fn return_tags(&mut self, pool: &mut TagPool) {
        pool.reclaim(&mut self.tags);
    }

    /// After a reset of the link no completion is outstanding, and the design may choose any enabled tag.
    fn reset(&mut self, _now: Time, kind: ResetKind, until: Time, _shared: &mut Shared) {
        self.parked.clear();
        self.again.clear();
        match kind {
            ResetKind::FunctionLevel => self.tags.void(until, |issued| issued.sent = None),
            _ => self.tags.release_all(),
        }
        self.was_reset = Some(kind);
    }

    /// No action: the reset that follows does all the work.
    fn link_down(&mut self, _now: Time, _shared: &mut Shared) {}
}
