// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a hard block keeps for each function: the requests that the design has issued, by tag. Never calls the design.

use crate::front::settings::Settings;
use crate::front::tag_pool::TagPool;
use crate::front::{Behind, Shared};
use device::seam::ResetKind;
use std::collections::VecDeque;
use tlp::message::MessageCodes;
use tlp::{Asked, Awaited, Bdf, Repr, Tag, TaggedRequests, Time, Tlp, TrafficClass};

/// A request of the design.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Issued {
    /// Bytes that no completion has answered yet.
    pub(super) awaited: Awaited,
    /// Its header as it was sent; `None` once nobody wants the answer.
    pub(super) sent: Option<Repr>,
    /// Requester ID and tag that the design knows it by.
    pub(super) known_as: (Bdf, Tag),
}

/// See the [module](self).
pub(crate) struct Requester {
    messages: MessageCodes,
    pub(super) tags: TaggedRequests<Issued>,
    /// PM_PME messages to be sent.
    pub(super) parked: VecDeque<Tlp>,
    /// A reset of which the design has not been told yet.
    pub(super) was_reset: Option<ResetKind>,
}

impl Requester {
    /// Records a request of function `id`, which leaves with this tag, or with a free one. Does nothing and returns
    /// false where the tag is not free.
    pub(super) fn issue(&mut self, id: Bdf, tag: Option<Tag>, deadline: Time, request: &mut Repr) -> bool {
        let known_as = request.transaction();
        let free = match tag {
            Some(tag) => self.tags.claim(tag, deadline).map(|issued| (tag, issued)),
            None => self.tags.take(deadline),
        };
        let Some((tag, issued)) = free else { return false };
        request.set_transaction(id, tag);
        let awaited = Asked::of(request).map(|asked| asked.bytes).unwrap_or_default();
        *issued = Issued { awaited, sent: Some(*request), known_as };
        true
    }
}

impl Behind for Requester {
    /// The Message Codes that a function takes.
    type Device = MessageCodes;

    fn new(messages: Option<MessageCodes>) -> Requester {
        Requester {
            messages: messages.unwrap_or(MessageCodes::NONE),
            tags: TaggedRequests::default(),
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
        self.tags.in_use() > 0
    }

    /// None: TLPs of the design are sent at once.
    fn oldest_posted(&self, _tc: TrafficClass) -> Option<u64> {
        None
    }

    fn hold(&mut self) {}

    fn park(&mut self, _stamp: u64, tlp: Tlp) {
        self.parked.push_back(tlp);
    }

    fn follow(&mut self, settings: &Settings) {
        settings.give_tags(&mut self.tags);
    }

    fn return_tags(&mut self, pool: &mut TagPool) {
        pool.reclaim(&mut self.tags);
    }

    /// Behind a reset of the link no completion is under way, and the design begins with the tags that it likes.
    fn reset(&mut self, _now: Time, kind: ResetKind, until: Time, _shared: &mut Shared) {
        self.parked.clear();
        match kind {
            ResetKind::FunctionLevel => self.tags.void(until, |issued| issued.sent = None),
            _ => self.tags.release_all(),
        }
        self.was_reset = Some(kind);
    }

    /// Does nothing: the reset that follows does it all.
    fn link_down(&mut self, _now: Time, _shared: &mut Shared) {}
}
