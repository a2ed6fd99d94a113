// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the completions of a function: answers with data, and refusals. Logs the reason of a refusal. A completion
//! never passes a posted TLP that must precede it.

use super::function::{Answering, Work};
use crate::front::answers::{Answer, without_data};
use crate::front::refusals::of_answer;
use crate::front::requests::{Question, Reply};
use crate::front::{Function, MAX_REFUSED_PER_POLL, Shared};
use device::seam::{CompletionError, Output, Token};
use tlp::{Class, Data, RuleId, Status, TcSet, Time, Tlp, Violation};

impl Function<Work> {
    #[inline(never)]
    pub(crate) fn poll_completion(&mut self, now: Time, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        let mut refused = 0;
        while refused < MAX_REFUSED_PER_POLL {
            let Work { answers, posted, held_by_posted, .. } = &mut self.behind;
            if answers.select_behind(room, posted, held_by_posted) {
                return self.next_answer(now, shared);
            }
            if self.waits_for_posted(shared) {
                return None;
            }
            match self.behind.device.poll_output(now, Class::Completion) {
                Some(Output::Complete { token, result }) => {
                    refused += u32::from(!self.begin_answer(shared, token, result, room));
                }
                Some(Output::Abandon { token }) => {
                    self.abandon(now, shared, token);
                    refused += 1;
                }
                None => return None,
                Some(_) => {
                    shared.counters.bad_outputs += 1;
                    refused += 1;
                }
            }
        }
        shared.pause(now);
        None
    }

    /// Begins to answer a request; returns false if no such request is outstanding.
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
            Ok(data) if question.takes(data.len()) => self.good_answer(shared, question, data),
            Ok(data) => {
                shared.counters.bad_answers += 1;
                let (found, expected) = (data.len() as u64, question.span.byte_count().into());
                let why = Violation::expecting(RuleId::AnswerLength, found, expected);
                Answering::Tlp(self.refused(shared, &question, CompletionError::CompleterAbort, why))
            }
            Err(error) => Answering::Tlp(self.refused(shared, &question, error, of_answer(error))),
        };
        let at_once = self.goes_at_once(question.tc, room) && !self.behind.answers.holds(question.tc);
        self.behind.answers.accept(shared.stamp(), question.tc, answer, at_once);
        true
    }

    fn refused(
        &mut self,
        shared: &mut Shared,
        question: &Question,
        error: CompletionError,
        why: Violation,
    ) -> Tlp {
        let refused = question.refused(self.id(shared), shared, why);
        self.refusal(shared, question, error, refused)
    }

    /// Abandons a request: no completion will be sent for it.
    fn abandon(&mut self, now: Time, shared: &mut Shared, token: Token) {
        match shared.requests.answer(self.number, token) {
            Some(question) => shared.answer_left(now, question.tc),
            None => shared.counters.stale_tokens += 1,
        }
    }

    fn good_answer(&mut self, shared: &Shared, question: Question, data: Data) -> Answering {
        let data = match question.reply {
            reply if !reply.has_data() => {
                return Answering::Tlp(without_data(self.completer(shared), &question, Status::Success));
            }
            Reply::Dw => shared.whole_dw(question.span, &data),
            Reply::Register(_) => data,
            _ if question.span.is_zero_length() => shared.one_byte(question.carry),
            _ => data,
        };
        Answering::Data(Answer::new(question, data))
    }

    fn next_answer(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        let completer = self.completer(shared);
        if let Answering::Data(answer) = self.behind.answers.current()? {
            let tlp = answer.next(completer, self.settings.mps, shared.limits.rcb);
            if answer.is_done() {
                self.behind.answers.finish();
                shared.answer_left(now, tlp.repr.tc);
            }
            return Some(tlp);
        }
        match self.behind.answers.finish()? {
            Answering::Tlp(tlp) => {
                shared.answer_left(now, tlp.repr.tc);
                Some(tlp)
            }
            Answering::Data(_) => None,
        }
    }
}
