// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the endpoint itself sends: completions of requests that reach no device, error messages, PME_TO_Ack. None of
//! it passes a posted TLP of the same function and Traffic Class that was accepted before (`PCIe 5.0 §2.4.1`, entries
//! A2a and D2a). Never decides what is sent.

use super::function::Function;
use super::{Endpoint, Shared};
use crate::seam::Ready;
use config::ErrorMessage;
use std::collections::VecDeque;
use tlp::{Bdf, Body, Class, Data, Message, MessageRouting, Repr, Tag, TcSet, Time, Tlp, TrafficClass};

/// Error messages that may wait to be sent; further ones are counted as lost.
const MAX_ERROR_MESSAGES: usize = 16;

/// Message Code of PME_TO_Ack (`PCIe 5.0 §2.2.8.2`).
const PME_TO_ACK: u8 = 0x1b;

/// What waits to be sent; each with its place in the order in which all was accepted.
#[derive(Default)]
pub(super) struct Own {
    /// Bounded as requests are, see [`EndpointLimits::max_requests`](super::EndpointLimits::max_requests).
    completions: VecDeque<OwnCompletion>,
    errors: VecDeque<(u64, Bdf, ErrorMessage)>,
    /// PME_TO_Ack messages that are owed, and the place of the last one.
    acks: u32,
    ack_stamp: u64,
}

struct OwnCompletion {
    stamp: u64,
    tlp: Tlp,
    /// The last one of its request.
    last: bool,
}

impl Own {
    /// Which polls find something here.
    #[inline]
    pub(super) fn ready(&self) -> Ready {
        let posted = !self.errors.is_empty() || self.acks > 0;
        Ready::when(posted, Ready::output(Class::Posted))
            .or(Ready::when(!self.completions.is_empty(), Ready::output(Class::Completion)))
    }
}

impl Shared {
    /// Queues a completion; `last` says that it is the last one of its request.
    pub(super) fn queue_completion(&mut self, tlp: Tlp, last: bool) {
        let stamp = self.stamp();
        self.own.completions.push_back(OwnCompletion { stamp, tlp, last });
    }

    /// Queues the message of an error that was logged.
    pub(super) fn queue_error_message(&mut self, requester: Bdf, message: ErrorMessage) {
        if self.own.errors.len() < MAX_ERROR_MESSAGES {
            let stamp = self.stamp();
            self.own.errors.push_back((stamp, requester, message));
        } else {
            self.counters.error_messages_lost += 1;
        }
    }

    /// Queues a PME_TO_Ack.
    pub(super) fn queue_turn_off_ack(&mut self) {
        self.own.acks += 1;
        self.own.ack_stamp = self.stamp();
    }
}

impl Endpoint {
    /// The next TLP of `class` that the endpoint itself sends.
    #[cold]
    pub(super) fn next_own(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        match class {
            Class::Posted => self.next_own_message(room),
            Class::NonPosted => None,
            Class::Completion => self.next_own_completion(now, room),
        }
    }

    /// The next message, all of TC0. PME_TO_Ack speaks for all functions (`PCIe 5.0 §5.3.3.2.1`).
    fn next_own_message(&mut self, room: TcSet) -> Option<Tlp> {
        let (tc, functions, own) = (TrafficClass::default(), &self.functions, &mut self.shared.own);
        if !room.contains(tc) {
            return None;
        }
        if own.acks > 0 && functions.iter().all(|f| f.precedes_posted(tc, own.ack_stamp)) {
            own.acks -= 1;
            let endpoint = Bdf::from_bits(self.shared.bus_device);
            return Some(own_message(endpoint, MessageRouting::Gathered, PME_TO_ACK));
        }
        let may_go = |&(stamp, requester, _): &(u64, Bdf, ErrorMessage)| {
            function_of(functions, requester).is_none_or(|f| functions[f].precedes_posted(tc, stamp))
        };
        let at = own.errors.iter().position(may_go)?;
        let (_, requester, message) = own.errors.remove(at)?;
        self.shared.counters.error_messages += 1;
        Some(own_message(requester, MessageRouting::ToRootComplex, message as u8))
    }

    /// The first completion that may go: of each function and Traffic Class the oldest is tried.
    fn next_own_completion(&mut self, now: Time, room: TcSet) -> Option<Tlp> {
        let (functions, own) = (&mut self.functions, &mut self.shared.own);
        let mut held = [TcSet::NONE; 8];
        let at = own.completions.iter().position(|c| {
            let (tc, completer) = (c.tlp.repr.tc, completer(&c.tlp));
            if !room.contains(tc) {
                return false;
            }
            let Some(index) = function_of(functions, completer) else { return true };
            if held[index].contains(tc) {
                return false;
            }
            let may_go = functions[index].may_complete(tc, c.stamp);
            if !may_go {
                held[index] = held[index].or(TcSet::of(tc));
            }
            may_go
        })?;
        let OwnCompletion { tlp, last, .. } = own.completions.remove(at)?;
        if last && self.shared.requests.answered(tlp.repr.tc) {
            self.shared.wake_at(now);
        }
        Some(tlp)
    }
}

/// The function that `id` names; its bus and device number may have changed since. `None` where there is none.
fn function_of(functions: &[Function], id: Bdf) -> Option<usize> {
    let index = usize::from(id.function());
    (index < functions.len()).then_some(index)
}

fn completer(tlp: &Tlp) -> Bdf {
    match tlp.repr.body {
        Body::Completion(c) => c.completer,
        _ => Bdf::default(),
    }
}

/// A message without data.
fn own_message(requester: Bdf, routing: MessageRouting, code: u8) -> Tlp {
    let message = Message { routing, requester, tag: Tag::default(), code, header: [0; 8], length_dw: None };
    Tlp::new(Repr::new(Body::Message(message)), Data::NONE)
}
