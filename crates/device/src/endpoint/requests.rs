// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests that devices have not yet done with, by token, and the credits that go back for them. Never calls a
//! device.
//!
//! A posted request is done when it is taken, a non-posted one when it is taken and answered. Credits return when it is
//! taken; but while more than `max_requests` non-posted requests wait for their answer, those of further ones are
//! withheld, so that what a device may take without answering is bounded.

use crate::port::CreditReturn;
use crate::seam::Token;
use tlp::{Attributes, Bdf, Class, Span, Tag, TrafficClass};

/// Tokens: an index in bits 15:0, a generation in 31:16, which tells a token from earlier ones of the same index.
const INDEX_BITS: u32 = 16;

/// What is needed to answer a memory read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) requester: Bdf,
    pub(crate) tag: Tag,
    pub(crate) span: Span,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    pub(crate) carry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    generation: u16,
    live: bool,
    taken: bool,
    function: u8,
    credit: CreditReturn,
    /// To be answered; posted requests are not.
    question: Option<Question>,
}

/// Requests by token, and credits on their way back.
#[derive(Debug)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u16>,
    max: usize,
    /// Taken, not answered; and answered by the endpoint itself, completion not yet sent.
    unanswered: usize,
    /// Header and data credits to return, by class.
    due: [(u32, u32); 3],
    /// The same, of non-posted requests, withheld for now.
    withheld: (u32, u32),
}

impl Requests {
    pub(crate) fn new(max: u16) -> Requests {
        let max = usize::from(max);
        Requests {
            entries: Vec::new(),
            free: Vec::new(),
            max,
            unanswered: 0,
            due: [(0, 0); 3],
            withheld: (0, 0),
        }
    }

    /// A token for a request to `function`; `None` where all 65536 are out.
    pub(crate) fn admit(
        &mut self,
        function: u8,
        credit: CreditReturn,
        question: Option<Question>,
    ) -> Option<Token> {
        let entry = Entry { generation: 0, live: true, taken: false, function, credit, question };
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.entries[usize::from(index)];
                *slot = Entry { generation: slot.generation, ..entry };
                index
            }
            None => {
                let index = u16::try_from(self.entries.len()).ok()?;
                self.entries.push(entry);
                index
            }
        };
        let generation = self.entries[usize::from(index)].generation;
        Some(Token(u32::from(generation) << INDEX_BITS | u32::from(index)))
    }

    fn find(&mut self, function: u8, token: Token) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(usize::from(token.0 as u16))?;
        let ours = entry.live && entry.function == function;
        (ours && u32::from(entry.generation) == token.0 >> INDEX_BITS).then_some(entry)
    }

    /// The device has taken the request; false where there is no such request, or it was taken before.
    pub(crate) fn take(&mut self, function: u8, token: Token) -> bool {
        let Some(entry) = self.find(function, token) else { return false };
        if std::mem::replace(&mut entry.taken, true) {
            return false;
        }
        let (credit, done) = (entry.credit, entry.question.is_none());
        if done {
            self.free(token.0 as u16);
        }
        match credit.class {
            Class::NonPosted => {
                self.unanswered += usize::from(!done);
                self.give_back_when_few(credit);
            }
            Class::Posted | Class::Completion => self.give_back(credit),
        }
        true
    }

    /// The device has answered the request: what to answer, once, and whether that released credits.
    pub(crate) fn answer(&mut self, function: u8, token: Token) -> Option<(Question, bool)> {
        let entry = self.find(function, token)?;
        let question = entry.question.take()?;
        if !entry.taken {
            return Some((question, false));
        }
        self.free(token.0 as u16);
        Some((question, self.answered()))
    }

    /// All requests to `function` are void: their credits return.
    pub(crate) fn void(&mut self, function: u8) {
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            if !entry.live || entry.function != function {
                continue;
            }
            self.free(index as u16);
            if entry.taken {
                self.answered();
            } else {
                self.give_back(entry.credit);
            }
        }
    }

    /// The link begins anew, with all credits: none are due. Tokens go on, so that old ones are never taken for new.
    pub(crate) fn forget_credits(&mut self) {
        (self.due, self.withheld, self.unanswered) = ([(0, 0); 3], (0, 0), 0);
    }

    fn free(&mut self, index: u16) {
        let entry = &mut self.entries[usize::from(index)];
        entry.live = false;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// The endpoint answers a non-posted request itself; [`answered`](Self::answered) when the completion leaves.
    pub(crate) fn answering(&mut self, credit: CreditReturn) {
        self.unanswered += 1;
        self.give_back_when_few(credit);
    }

    /// One request less waits for its answer. Returns true where that releases credits: all that are withheld, so that
    /// never more than `max_requests` and what the receive buffer holds can wait.
    pub(crate) fn answered(&mut self) -> bool {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.withheld.0 == 0 || self.unanswered > self.max {
            return false;
        }
        let (headers, data) = std::mem::take(&mut self.withheld);
        let due = &mut self.due[Class::NonPosted.index()];
        *due = (due.0 + headers, due.1 + data);
        true
    }

    fn give_back_when_few(&mut self, credit: CreditReturn) {
        if self.unanswered <= self.max {
            return self.give_back(credit);
        }
        self.withheld.0 += 1;
        self.withheld.1 += credit.data_credits;
    }

    /// Credits go back.
    pub(crate) fn give_back(&mut self, credit: CreditReturn) {
        let due = &mut self.due[credit.class.index()];
        due.0 += 1;
        due.1 += credit.data_credits;
    }

    /// True where [`next_credit`](Self::next_credit) finds something.
    pub(crate) fn has_credit(&self) -> bool {
        self.due.iter().any(|(headers, _)| *headers > 0)
    }

    /// The next credits that go back: those of data all with the first header of their class.
    pub(crate) fn next_credit(&mut self) -> Option<CreditReturn> {
        let class = Class::ALL.into_iter().find(|c| self.due[c.index()].0 > 0)?;
        let due = &mut self.due[class.index()];
        due.0 -= 1;
        Some(CreditReturn { class, data_credits: std::mem::take(&mut due.1) })
    }

    /// Requests of `function` that wait to be taken, and to be answered.
    pub(crate) fn waiting(&self, function: u8) -> (usize, usize) {
        let ours = || self.entries.iter().filter(|e| e.live && e.function == function);
        (ours().filter(|e| !e.taken).count(), ours().filter(|e| e.taken).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Option<Question> {
        Some(Question {
            requester: Bdf::default(),
            tag: Tag::default(),
            span: Span::zero_length(0),
            tc: TrafficClass::default(),
            attr: Attributes::empty(),
            carry: false,
        })
    }

    const READ: CreditReturn = CreditReturn { class: Class::NonPosted, data_credits: 0 };
    const WRITE: CreditReturn = CreditReturn { class: Class::Posted, data_credits: 4 };

    #[test]
    fn a_token_is_taken_once_and_answered_once() {
        let mut requests = Requests::new(4);
        let token = requests.admit(0, READ, question()).unwrap();
        assert!(!requests.take(1, token), "another function's");
        assert!(requests.take(0, token) && !requests.take(0, token));
        assert!(requests.answer(0, token).is_some() && requests.answer(0, token).is_none());
        let next = requests.admit(0, READ, question()).unwrap();
        assert_ne!(next, token);
    }

    #[test]
    fn credits_of_reads_beyond_the_limit_wait_for_an_answer() {
        let mut requests = Requests::new(2);
        let tokens: Vec<_> = (0..4).filter_map(|_| requests.admit(0, READ, question())).collect();
        assert!(tokens.iter().all(|&t| requests.take(0, t)));
        assert_eq!(std::iter::from_fn(|| requests.next_credit()).count(), 2);
        assert!(requests.answer(0, tokens[3]).is_some());
        assert_eq!(requests.next_credit(), None, "three are still unanswered");
        assert!(requests.answer(0, tokens[0]).is_some());
        assert_eq!(std::iter::from_fn(|| requests.next_credit()).count(), 2);
    }

    #[test]
    fn void_returns_what_was_not_taken() {
        let mut requests = Requests::new(2);
        let (a, b) = (requests.admit(0, WRITE, None).unwrap(), requests.admit(1, WRITE, None).unwrap());
        requests.void(0);
        assert_eq!((requests.next_credit(), requests.next_credit()), (Some(WRITE), None));
        assert!(!requests.take(0, a) && requests.take(1, b));
    }
}
