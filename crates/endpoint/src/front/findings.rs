// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving completions (`PCIe 5.0 §2.3.2`): the relation of each to the request of its tag, and the resulting counts
//! and logs. This module does not depend on the use of the data.

use super::errors::LoggedTlp;
use super::settings::FunctionSettings;
use super::{Front, FunctionBackend};
use crate::port::CreditReturn;
use config::Uncorrectable;
use config::header::status;
use tlp::completion::{not_repeated, repeats};
use tlp::rules::Head;
use tlp::rules::reasons::{aborted, beyond_mps, of_transaction, poisoned, unsupported, wrong_length};
use tlp::{
    Attributes, Awaited, Completion, Misfit, RuleId, Status, TagState, TaggedRequests, Tlp, TrafficClass,
    Violation,
};

/// Result of checking a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// The completion answers a read.
    Good,
    /// The completion answers a read that has already ended.
    Swallowed,
    /// The completion answers a request that timed out.
    Late,
    /// The completion answers no request.
    Unexpected,
    /// The completion breaks this rule, and does not match its request.
    Malformed(Violation),
    /// It is poisoned: EP is set.
    Poisoned,
    /// Its status is UR.
    Unsupported,
    /// Its status is CA.
    Aborted,
}

/// The fields that completions of a request must have.
pub(crate) struct Expected {
    /// Bytes still to arrive.
    pub(crate) awaited: Awaited,
    /// Traffic Class and attributes of the request; `None` if the transfer no longer needs the answer.
    pub(crate) repeated: Option<(TrafficClass, Attributes)>,
}

/// Checks a completion against the request of its tag, for which `expected` returns the fields. If that request was
/// given up, its last completion frees the tag.
pub(crate) fn judge<T>(
    tags: &mut TaggedRequests<T>,
    expected: impl Fn(&T) -> Expected,
    completion: &Completion,
    tlp: &Tlp,
    settings: &FunctionSettings,
) -> Finding {
    match tags.get(completion.tag) {
        None | Some((TagState::Free, _)) => Finding::Unexpected,
        Some((TagState::Resting, _)) => {
            if completion.is_last() {
                tags.release(completion.tag);
            }
            Finding::Late
        }
        Some((TagState::Waiting, request)) => {
            let Expected { awaited, repeated } = expected(request);
            let differs =
                |(tc, attr): &(_, _)| !repeats(&tlp.repr, *tc, *attr) && !settings.lenient_completions;
            if let Some((tc, attr)) = repeated.filter(differs)
                && let Some(why) = not_repeated(&tlp.repr, tc, attr)
            {
                return Finding::Malformed(why);
            }
            match completion.status {
                Status::Success => fit(completion, tlp, awaited, settings.mps.bytes()),
                Status::UnsupportedRequest => Finding::Unsupported,
                Status::CompleterAbort => Finding::Aborted,
                Status::ConfigRetry => Finding::Malformed(Violation::new(
                    RuleId::CompletionRetry,
                    Status::ConfigRetry.bits().into(),
                )),
            }
        }
    }
}

/// Returns whether a successful completion fits its request (`PCIe 5.0 §2.3.2`): Byte Count, Lower Address, Length, data.
#[inline]
fn fit(completion: &Completion, tlp: &Tlp, awaited: Awaited, mps: u32) -> Finding {
    let placed = awaited.place_next(completion);
    let is_whole = placed.is_ok_and(|bytes| tlp.data.len() == bytes as usize);
    match is_whole && tlp.repr.data_dw() * 4 <= mps {
        false => Finding::Malformed(misfit(completion, tlp, awaited, placed, mps)),
        true if tlp.repr.ep => Finding::Poisoned,
        true => Finding::Good,
    }
}

#[cold]
fn misfit(
    completion: &Completion,
    tlp: &Tlp,
    awaited: Awaited,
    placed: Result<u32, Misfit>,
    mps: u32,
) -> Violation {
    match placed {
        Err(why) => awaited.violation(completion, why),
        Ok(bytes) if tlp.data.len() != bytes as usize => wrong_length(tlp),
        Ok(_) => beyond_mps(tlp, mps),
    }
}

impl<B: FunctionBackend> Front<B> {
    /// Returns the function whose request a completion answers, and frees the credits of the completion.
    pub(crate) fn completed(&mut self, tlp: &Tlp, completion: &Completion) -> Option<usize> {
        self.shared.requests.give_back(CreditReturn::of(tlp));
        let index = self.function_of(completion.requester);
        index.or_else(|| self.former_function(completion.requester))
    }

    pub(crate) fn finding(&mut self, index: Option<usize>, finding: Finding, tlp: &Tlp) {
        match finding {
            Finding::Good => self.shared.counters.completions += 1,
            other => self.bad_finding(index, other, tlp),
        }
    }

    #[cold]
    fn bad_finding(&mut self, index: Option<usize>, finding: Finding, tlp: &Tlp) {
        let (shared, head) = (&mut self.shared, Head::of(tlp));
        let config = &mut self.functions[index.unwrap_or(0)].config;
        match finding {
            Finding::Good => {}
            Finding::Swallowed => shared.counters.swallowed_completions += 1,
            Finding::Unsupported => {
                shared.refused(|c| &mut c.received_unsupported, index, unsupported(), head);
                config.set_status(status::RECEIVED_MASTER_ABORT);
            }
            Finding::Aborted => {
                shared.refused(|c| &mut c.received_abort, index, aborted(), head);
                config.set_status(status::RECEIVED_TARGET_ABORT);
            }
            Finding::Poisoned => {
                shared.refused(|c| &mut c.poisoned_completions, index, poisoned(), head);
                // The error is advisory: as with UR or CA, only the transfer fails (`PCIe 5.0 §6.2.3.2.4.3`).
                self.log_completion(index, Uncorrectable::PoisonedTlp, true, tlp);
            }
            Finding::Malformed(why) => {
                shared.refused(|c| &mut c.malformed, index, why, head);
                self.log_completion(index, Uncorrectable::MalformedTlp, false, tlp);
            }
            Finding::Late => {
                shared.counters.late_completions += 1;
                self.unexpected(index, of_transaction(RuleId::LateCompletion, &tlp.repr), tlp);
            }
            Finding::Unexpected => {
                self.unexpected(index, of_transaction(RuleId::UnexpectedCompletion, &tlp.repr), tlp);
            }
        }
    }

    /// Counts and logs a completion that answers no request (`PCIe 5.0 §2.3.2`).
    #[cold]
    pub(super) fn unexpected(&mut self, index: Option<usize>, why: Violation, tlp: &Tlp) {
        self.shared.refused(|c| &mut c.unexpected_completions, index, why, Head::of(tlp));
        self.log_completion(index, Uncorrectable::UnexpectedCompletion, true, tlp);
    }

    #[cold]
    fn log_completion(&mut self, index: Option<usize>, error: Uncorrectable, advisory: bool, tlp: &Tlp) {
        let logged = LoggedTlp::of(tlp);
        match index {
            Some(index) => self.functions[index].log(&mut self.shared, error, advisory, logged),
            None => self.log_in_all(logged.report(error).advisory(advisory)),
        }
    }
}
