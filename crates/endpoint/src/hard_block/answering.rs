// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests that a design has to answer, by Requester ID and tag, and how much of each is answered. Never decides
//! the content of an answer.

use super::requester::Requester;
use super::{RefusedTlp, no_request};
use crate::front::refusals::of_answer;
use crate::front::requests::{Question, Reply};
use crate::front::{Function, Shared};
use device::seam::{CompletionError, Token};
use std::collections::BTreeMap;
use tlp::rules::reasons::{beyond_mps, wrong_length};
use tlp::{Bdf, Body, CompletedRequest, Completion, Repr, RuleId, Status, Tag, Time, Tlp, Violation};

/// A request that is not fully answered.
struct Open {
    function: u16,
    token: Token,
    /// The question; `None` before its first completion.
    begun: Option<Question>,
    sent: u32,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Answering(BTreeMap<(u16, u16), Open>);

fn key((requester, tag): (Bdf, Tag)) -> (u16, u16) {
    (requester.bits(), tag.bits())
}

impl Answering {
    /// Notes a request to be answered. It replaces an earlier request with the same Requester ID and tag, which its
    /// requester has abandoned.
    pub(super) fn asked(&mut self, function: u16, token: Token, transaction: (Bdf, Tag)) {
        self.0.insert(key(transaction), Open { function, token, begun: None, sent: 0 });
    }

    /// Forgets the requests to `function`, which are void.
    pub(super) fn forget(&mut self, function: u16) {
        self.0.retain(|_, open| open.function != function);
    }

    /// Sets the fields of a completion that the design may not choose; the last completion ends the request.
    pub(super) fn complete(
        &mut self,
        now: Time,
        functions: &mut [Function<Requester>],
        shared: &mut Shared,
        tlp: &mut Tlp,
    ) -> Result<bool, RefusedTlp> {
        let none = || no_request(&tlp.repr);
        let Body::Completion(completion) = tlp.repr.body else { return Err(none()) };
        let place = key((completion.requester, completion.tag));
        let open = self.0.get_mut(&place).ok_or_else(none)?;
        let function = functions.get_mut(usize::from(open.function)).ok_or_else(none)?;
        let peeked = open.begun.or_else(|| shared.requests.question(open.function, open.token));
        let question = peeked.ok_or_else(none)?;
        let asked = question.asked(function.completer(shared));
        let bytes = fit(&completion, tlp, &question, &asked, open.sent)?;
        let mps = function.settings.mps.bytes();
        if bytes > mps {
            return Err(RefusedTlp::Completion(beyond_mps(tlp, mps)));
        }
        if open.begun.is_none() {
            open.begun = shared.requests.answer(open.function, open.token);
        }
        let id = function.id(shared);
        match completion.status {
            Status::Success if bytes > 0 => {
                tlp.repr = Repr { ep: tlp.repr.ep, ..asked.with_data(id, open.sent, bytes) };
            }
            Status::Success => tlp.repr = asked.without_data(id, Status::Success),
            status => {
                let error = error_of(status);
                let refused = question.refused(id, shared, of_answer(error));
                *tlp = function.refusal(shared, &question, error, refused);
            }
        }
        tlp.account = question.account;
        open.sent += bytes;
        if bytes == 0 || open.sent == asked.bytes.byte_count {
            self.0.remove(&place);
            shared.answer_left(now, question.tc);
        }
        Ok(true)
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        let open = self.0.len();
        (open > 0).then(|| format!("{open} requests not answered by the design"))
    }
}

/// Returns the number of bytes that a completion answers; zero if it has no data.
fn fit(
    c: &Completion,
    tlp: &Tlp,
    question: &Question,
    asked: &CompletedRequest,
    sent: u32,
) -> Result<u32, RefusedTlp> {
    let broken = |why| Err(RefusedTlp::Completion(why));
    match c.status {
        Status::Success if question.reply.has_data() => {
            let awaited = asked.bytes.behind(sent);
            match awaited.place_next(c) {
                Ok(bytes) if tlp.data.len() == bytes as usize => Ok(bytes),
                Ok(_) => broken(wrong_length(tlp)),
                Err(misfit) => broken(awaited.violation(c, misfit)),
            }
        }
        // Fmt with data, and without.
        Status::Success if c.length_dw.is_some() => {
            broken(Violation::expecting(RuleId::CompletionType, 0b010, 0b000))
        }
        Status::ConfigRetry if question.reply != Reply::NothingOrRetry => {
            broken(Violation::new(RuleId::CompletionRetry, c.status.bits().into()))
        }
        _ => Ok(0),
    }
}

fn error_of(status: Status) -> CompletionError {
    match status {
        Status::UnsupportedRequest => CompletionError::UnsupportedRequest,
        Status::ConfigRetry => CompletionError::Retry,
        Status::Success | Status::CompleterAbort => CompletionError::CompleterAbort,
    }
}
