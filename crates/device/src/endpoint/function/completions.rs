// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a function answers: completions with data, and refusals with the log of why. Never sends them out of the order
//! that its posted TLPs ask for.

use super::{Answering, Function, MAX_REFUSED_PER_POLL};
use crate::endpoint::Shared;
use crate::endpoint::answers::{Answer, without_data};
use crate::endpoint::errors::Refused;
use crate::endpoint::requests::{Question, Reply};
use crate::seam::{CompletionError, Output, Token};
use config::Uncorrectable;
use tlp::{Class, Data, Status, TcSet, Time, Tlp, TrafficClass};

impl Function {
    #[inline(never)]
    pub(crate) fn poll_completion(&mut self, now: Time, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        let mut refused = 0;
        while refused < MAX_REFUSED_PER_POLL {
            if self.select_answer(room) {
                return self.next_answer(now, shared);
            }
            if self.waits_for_posted(shared) {
                return None;
            }
            match self.device.poll_output(now, Class::Completion) {
                Some(Output::Complete { token, result }) => {
                    refused += u32::from(!self.begin_answer(shared, token, result, room));
                }
                Some(Output::Abandon { token }) => {
                    self.abandon(now, shared, token);
                    refused += 1;
                }
                None => return None,
                Some(_) => {
                    let _: Option<Tlp> = shared.bad_output();
                    refused += 1;
                }
            }
        }
        shared.pause(now);
        None
    }

    #[inline]
    fn select_answer(&mut self, room: TcSet) -> bool {
        let posted = &self.posted;
        let found = self.answers.select(room, |tc, stamp| posted.oldest(tc).is_none_or(|p| stamp < p));
        self.held_by_posted |= !found && !posted.is_empty();
        found
    }

    /// False where nobody asked.
    fn begin_answer(
        &mut self,
        shared: &mut Shared,
        token: Token,
        result: Result<Data, CompletionError>,
        room: TcSet,
    ) -> bool {
        let Some(question) = shared.requests.answer(self.number, token) else {
            shared.counters.stale_tokens += 1;
            return false;
        };
        let answer = match result {
            Ok(data) if data.len() == question.answer_len() as usize || question.span.is_zero_length() => {
                self.good_answer(shared, question, data)
            }
            Ok(_) => {
                shared.counters.bad_answers += 1;
                let error = CompletionError::CompleterAbort;
                Answering::Tlp(self.refusal(shared, &question, error, question.refused()))
            }
            Err(error) => Answering::Tlp(self.refusal(shared, &question, error, question.refused())),
        };
        let at_once = self.goes_at_once(question.tc, room) && !self.answers.holds(question.tc);
        self.answers.accept(shared.stamp(), question.tc, answer, at_once);
        true
    }

    /// No completion will leave for this request.
    fn abandon(&mut self, now: Time, shared: &mut Shared, token: Token) {
        match shared.requests.answer(self.number, token) {
            Some(question) => answer_left(now, shared, question.tc),
            None => shared.counters.stale_tokens += 1,
        }
    }

    fn good_answer(&mut self, shared: &Shared, question: Question, data: Data) -> Answering {
        let data = match question.reply {
            Reply::Nothing | Reply::NothingOrRetry => {
                return Answering::Tlp(without_data(self.completer(shared), &question, Status::Success));
            }
            Reply::Dw => shared.whole_dw(question.span, &data),
            _ if question.span.is_zero_length() => shared.one_byte(question.carry),
            _ => data,
        };
        Answering::Data(Answer::new(question, data))
    }

    fn next_answer(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        let completer = self.completer(shared);
        if let Answering::Data(answer) = self.answers.current()? {
            let tlp = answer.next(completer, self.settings.mps, shared.limits.rcb);
            if answer.is_done() {
                self.answers.finish();
                answer_left(now, shared, tlp.repr.tc);
            }
            return Some(tlp);
        }
        match self.answers.finish()? {
            Answering::Tlp(tlp) => {
                answer_left(now, shared, tlp.repr.tc);
                Some(tlp)
            }
            Answering::Data(_) => None,
        }
    }

    /// A completion without data, and the log of why.
    pub(in crate::endpoint) fn refusal(
        &mut self,
        shared: &mut Shared,
        question: &Question,
        error: CompletionError,
        refused: Refused,
    ) -> Tlp {
        let Refused { tlp, advisory } = refused;
        match error {
            CompletionError::Retry if question.reply == Reply::NothingOrRetry => {
                shared.counters.deferred_writes += 1;
                without_data(self.completer(shared), question, Status::ConfigRetry)
            }
            CompletionError::UnsupportedRequest => {
                shared.counters.unsupported_requests += 1;
                self.log(shared, Uncorrectable::UnsupportedRequest, advisory, tlp);
                without_data(self.completer(shared), question, Status::UnsupportedRequest)
            }
            CompletionError::CompleterAbort | CompletionError::Retry => {
                shared.counters.completer_aborts += 1;
                self.config.set_status(config::header::status::SIGNALED_TARGET_ABORT);
                self.log(shared, Uncorrectable::CompleterAbort, advisory, tlp);
                without_data(self.completer(shared), question, Status::CompleterAbort)
            }
        }
    }
}

/// The last completion of a request of `tc` has left.
#[inline]
fn answer_left(now: Time, shared: &mut Shared, tc: TrafficClass) {
    if shared.requests.answered(tc) {
        shared.wake_at(now); // the credits were perhaps polled before
    }
}
