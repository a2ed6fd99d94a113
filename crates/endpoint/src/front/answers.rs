// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions of requests: split at Max_Payload_Size and the Read Completion Boundary (`PCIe 5.0 §2.3.1.1`). Never
//! decides the content of an answer.

use super::errors::Refused;
use super::requests::{Completer, Question, Reply};
use super::{Function, FunctionBackend, Shared};
use config::Uncorrectable;
use device::seam::CompletionError;
use tlp::{Data, Mps, Rcb, Status, Time, Tlp, TrafficClass};

/// An answer that is being split.
pub(crate) struct Answer {
    question: Question,
    data: Data,
    sent: u32,
}

impl Answer {
    /// Makes an answer from `data`, which must match the question and must not be empty. For a
    /// [`Reply::Dw`](super::requests::Reply) it is the complete DW.
    pub(crate) fn new(question: Question, data: Data) -> Answer {
        Answer { question, data, sent: 0 }
    }

    /// Returns whether everything has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sent as usize >= self.data.len()
    }

    /// Returns the next completion.
    pub(crate) fn next(&mut self, completer: Completer, mps: Mps, rcb: Rcb) -> Tlp {
        let asked = self.question.asked(completer);
        let piece = asked.bytes.behind(self.sent).next_piece(mps, rcb);
        let data = self.data.slice(self.sent as usize, piece as usize);
        let repr = asked.with_data(completer.id, self.sent, piece);
        self.sent += piece;
        Tlp { account: self.question.account, ..Tlp::new(repr, data) }
    }
}

/// Returns a Cpl without data, with Byte Count and Lower Address of the complete request.
pub(crate) fn without_data(completer: Completer, question: &Question, status: Status) -> Tlp {
    let repr = question.asked(completer).without_data(completer.id, status);
    Tlp { account: question.account, ..Tlp::new(repr, Data::NONE) }
}

impl<B: FunctionBackend> Function<B> {
    /// Returns a completion without data, and logs the reason.
    pub(crate) fn refusal(
        &mut self,
        shared: &mut Shared,
        question: &Question,
        error: CompletionError,
        refused: Refused,
    ) -> Tlp {
        let Refused { tlp, why, advisory } = refused;
        let place = Some(usize::from(self.number));
        match error {
            CompletionError::Retry if question.reply == Reply::NothingOrRetry => {
                shared.counters.deferred_writes += 1;
                without_data(self.completer(shared), question, Status::ConfigRetry)
            }
            CompletionError::UnsupportedRequest => {
                shared.refused(|c| &mut c.unsupported_requests, place, why, tlp.head());
                self.log(shared, Uncorrectable::UnsupportedRequest, advisory, tlp);
                without_data(self.completer(shared), question, Status::UnsupportedRequest)
            }
            // Any other error is a Completer Abort: the request was not carried out.
            _ => {
                shared.refused(|c| &mut c.completer_aborts, place, why, tlp.head());
                self.config.set_status(config::header::status::SIGNALED_TARGET_ABORT);
                self.log(shared, Uncorrectable::CompleterAbort, advisory, tlp);
                without_data(self.completer(shared), question, Status::CompleterAbort)
            }
        }
    }
}

impl Shared {
    /// Notes that the last completion of a request of `tc` has been sent.
    pub(crate) fn answer_left(&mut self, now: Time, tc: TrafficClass) {
        if self.requests.answered(tc) {
            self.wake_at(now); // the credits may have been polled before
        }
    }
}
