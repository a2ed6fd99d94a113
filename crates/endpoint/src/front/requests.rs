// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outstanding requests to devices, by token, and the credits that return for them. Never calls a device.
//!
//! A posted request is done when the device has accepted it. A non-posted request is done when it was accepted and
//! answered. Credits return when the device accepts a request. But while more than `max_requests` non-posted requests
//! of a Traffic Class wait for their last completion to be sent, the credits of further requests are withheld. This
//! bounds the requests that a device may take without answering, and the answers that cannot be sent. A Traffic Class
//! whose answers cannot be sent uses no credits of others (`PCIe 5.0 §2.5`).

use crate::port::CreditReturn;
use device::seam::Token;
use tlp::{
    Access, Account, AtomicOp, AtomicRequest, Attributes, Awaited, Bdf, Body, Class, CompletedRequest,
    ConfigRequest, IoRequest, MemoryOp, MemoryRequest, Span, Tag, Tlp, TrafficClass,
};

/// Tokens: an index in bits 15:0, a generation in 31:16, which distinguishes a token from earlier ones of the same index.
const INDEX_BITS: u32 = 16;
/// Maximum number of outstanding requests to the functions of a slot.
pub(crate) const MAX_UNDER_WAY: u64 = 1 << INDEX_BITS;
/// Number of entries of the credit tables: eight Traffic Classes of each class.
const KINDS: usize = 3 * 8;

/// The completer of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completer {
    /// Completer ID.
    pub(crate) id: Bdf,
    /// Attributes of a request that its completions may repeat.
    pub(crate) attributes: Attributes,
}

/// The information needed to answer a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) requester: Bdf,
    pub(crate) tag: Tag,
    pub(crate) span: Span,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    pub(crate) carry: bool,
    pub(crate) account: Account,
    pub(crate) reply: Reply,
}

/// The kind of completion that answers a request (`PCIe 5.0 §2.2.9`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// The bytes of a memory read.
    Bytes,
    /// Like `Bytes`, but answered by CplDLk, or by CplLk without data.
    Locked,
    /// The DW that an I/O read names.
    Dw,
    /// A register. The answer to a write has no data.
    Register(Access),
    /// The value before this AtomicOp.
    Value(AtomicOp),
    /// No data: of an I/O write.
    Nothing,
    /// A deferrable write, answered without data. The device may also request a retry.
    NothingOrRetry,
}

impl Reply {
    /// Returns whether the answer has data.
    pub(crate) fn has_data(self) -> bool {
        !matches!(self, Reply::Nothing | Reply::NothingOrRetry | Reply::Register(Access::Write))
    }
}

impl Question {
    /// Returns the question of `tlp` about the bytes of `span`.
    pub(crate) fn of(tlp: &Tlp, span: Span, reply: Reply) -> Question {
        let (requester, tag) = tlp.repr.transaction();
        let (tc, attr) = (tlp.repr.tc, tlp.repr.attr);
        Question { requester, tag, span, tc, attr, carry: tlp.carry, account: tlp.account, reply }
    }

    /// Returns the question of a configuration request; its span covers the enabled bytes of the register.
    pub(crate) fn of_config(tlp: &Tlp, request: &ConfigRequest) -> Question {
        let span = Span::in_dw(u64::from(request.register_dw) * 4, request.first_be);
        let (tc, attr) = (TrafficClass::default(), Attributes::empty());
        Question { tc, attr, carry: true, ..Question::of(tlp, span, Reply::Register(request.op)) }
    }

    /// Returns the question of an I/O request.
    pub(crate) fn of_io(tlp: &Tlp, request: &IoRequest) -> Question {
        let span = Span::in_dw(request.address.into(), request.first_be);
        let reply = if request.op == Access::Read { Reply::Dw } else { Reply::Nothing };
        Question::of(tlp, span, reply)
    }

    /// Returns the question of an AtomicOp.
    pub(crate) fn of_atomic(tlp: &Tlp, request: &AtomicRequest) -> Question {
        let span = Span::covering(request.address, request.operand.bytes());
        Question::of(tlp, span.unwrap_or(Span::zero_length(request.address)), Reply::Value(request.op))
    }

    /// Returns the question of any TLP; `None` if no completion answers it.
    #[cold]
    pub(crate) fn of_any(tlp: &Tlp) -> Option<Question> {
        let memory = |reply, m: &MemoryRequest| Some(Question::of(tlp, m.span, reply));
        match &tlp.repr.body {
            Body::Memory(m) => match m.op {
                MemoryOp::Read => memory(Reply::Bytes, m),
                MemoryOp::ReadLocked => memory(Reply::Locked, m),
                MemoryOp::WriteDeferrable => memory(Reply::NothingOrRetry, m),
                MemoryOp::Write => None,
            },
            Body::Io(request) => Some(Question::of_io(tlp, request)),
            Body::Atomic(request) => Some(Question::of_atomic(tlp, request)),
            Body::Config(request) => Some(Question::of_config(tlp, request)),
            Body::Completion(_) | Body::Message(_) => None,
        }
    }

    /// Returns whether a device may answer with `len` bytes. Always true for a zero-length request.
    pub(crate) fn takes(&self, len: usize) -> bool {
        match self.reply {
            Reply::Register(Access::Read) => len == 4,
            reply if !reply.has_data() => len == 0 || self.span.is_zero_length(),
            _ => len == self.span.byte_count() as usize || self.span.is_zero_length(),
        }
    }

    /// Returns the fields of its completions: Lower Address and Byte Count are set for memory reads. They are 0 and the
    /// operand's size for AtomicOps, 0 and 4 for all others (`PCIe 5.0 §2.2.9`).
    pub(crate) fn asked(&self, completer: Completer) -> CompletedRequest {
        let (first_byte, byte_count) = match self.reply {
            Reply::Bytes | Reply::Locked => (self.span.first_byte(), self.span.byte_count()),
            Reply::Value(_) => (0, self.span.byte_count()),
            Reply::Dw | Reply::Register(_) | Reply::Nothing | Reply::NothingOrRetry => (0, 4),
        };
        CompletedRequest {
            requester: self.requester,
            tag: self.tag,
            tc: self.tc,
            attr: self.attr & completer.attributes,
            locked: self.reply == Reply::Locked,
            bytes: Awaited { first_byte, byte_count },
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    generation: u16,
    live: bool,
    taken: bool,
    function: u16,
    credit: CreditReturn,
    /// The question to be answered; `None` for a posted request.
    question: Option<Question>,
}

/// Requests by token, and credits to return.
#[derive(Debug)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u16>,
    max: usize,
    /// Number of requests, by Traffic Class, that the device or the endpoint itself has accepted or answered, and whose
    /// last completion has not been sent.
    unanswered: [usize; 8],
    /// Header and data credits to return, by class and Traffic Class.
    due: [(u32, u32); KINDS],
    /// Which entries of `due` are not zero: a bit for each place.
    due_kinds: u32,
    /// Credits of non-posted requests that are withheld for now, by Traffic Class.
    withheld: [(u32, u32); 8],
}

impl Requests {
    pub(crate) fn new(max: u16) -> Requests {
        let max = usize::from(max);
        Requests {
            entries: Vec::new(),
            free: Vec::new(),
            max,
            unanswered: [0; 8],
            due: [(0, 0); KINDS],
            due_kinds: 0,
            withheld: [(0, 0); 8],
        }
    }

    /// Returns a token for a request to `function`; `None` if all 65536 are in use.
    pub(crate) fn admit(
        &mut self,
        function: u16,
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

    fn find(&mut self, function: u16, token: Token) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(usize::from(token.0 as u16))?;
        let ours = entry.live && entry.function == function;
        (ours && u32::from(entry.generation) == token.0 >> INDEX_BITS).then_some(entry)
    }

    /// Notes that the device has accepted the request. Returns false if there is no such request, or it was accepted
    /// before.
    pub(crate) fn take(&mut self, function: u16, token: Token) -> bool {
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
                self.unanswered[place(credit.tc)] += usize::from(!done);
                self.give_back_when_few(credit);
            }
            Class::Posted | Class::Completion => self.give_back(credit),
        }
        true
    }

    /// Returns the function that a request is for.
    pub(crate) fn function_of(&self, token: Token) -> Option<u16> {
        self.entries.get(usize::from(token.0 as u16)).map(|entry| entry.function)
    }

    /// Returns the question of the request; `None` if it is not outstanding.
    pub(crate) fn question(&mut self, function: u16, token: Token) -> Option<Question> {
        self.find(function, token)?.question
    }

    /// Takes the question of a request that the device answers, once. [`answered`](Self::answered) follows when the
    /// last completion is sent or void.
    pub(crate) fn answer(&mut self, function: u16, token: Token) -> Option<Question> {
        let entry = self.find(function, token)?;
        let question = entry.question.take()?;
        if entry.taken {
            self.free(token.0 as u16);
        } else {
            // An answer before acceptance counts from now on, and not again when the request is accepted.
            self.unanswered[place(question.tc)] += 1;
        }
        Some(question)
    }

    /// Voids all requests to `function`: their credits return.
    pub(crate) fn void(&mut self, function: u16) {
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            if !entry.live || entry.function != function {
                continue;
            }
            self.free(index as u16);
            if entry.taken {
                self.answered(entry.credit.tc);
            } else {
                self.give_back(entry.credit);
            }
        }
    }

    /// Drops the credits, because the link starts again with all of them. Generations of tokens continue, so that an
    /// old token never equals a new one.
    pub(crate) fn forget_credits(&mut self) {
        (self.due, self.due_kinds) = ([(0, 0); KINDS], 0);
        (self.withheld, self.unanswered) = ([(0, 0); 8], [0; 8]);
    }

    fn free(&mut self, index: u16) {
        let entry = &mut self.entries[usize::from(index)];
        entry.live = false;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Notes that the endpoint answers a non-posted request itself; [`answered`](Self::answered) follows when the
    /// completion is sent.
    pub(crate) fn answering(&mut self, credit: CreditReturn) {
        self.unanswered[place(credit.tc)] += 1;
        self.give_back_when_few(credit);
    }

    /// Notes that the last completion of a request of `tc` has been sent. Returns whether this releases all withheld
    /// credits of `tc`. Never more than `max_requests` and the content of the receive buffer can wait.
    pub(crate) fn answered(&mut self, tc: TrafficClass) -> bool {
        let unanswered = &mut self.unanswered[place(tc)];
        *unanswered = unanswered.saturating_sub(1);
        if *unanswered > self.max || self.withheld[place(tc)].0 == 0 {
            return false;
        }
        let (headers, data) = std::mem::take(&mut self.withheld[place(tc)]);
        self.add_due(Class::NonPosted, tc, headers, data);
        true
    }

    fn give_back_when_few(&mut self, credit: CreditReturn) {
        if self.unanswered[place(credit.tc)] <= self.max {
            return self.give_back(credit);
        }
        let withheld = &mut self.withheld[place(credit.tc)];
        *withheld = (withheld.0 + 1, withheld.1 + credit.data_credits);
    }

    /// Returns these credits to the sender.
    pub(crate) fn give_back(&mut self, credit: CreditReturn) {
        self.add_due(credit.class, credit.tc, 1, credit.data_credits);
    }

    fn add_due(&mut self, class: Class, tc: TrafficClass, headers: u32, data: u32) {
        if headers == 0 {
            return;
        }
        let kind = class.index() * 8 + place(tc);
        let due = &mut self.due[kind];
        *due = (due.0 + headers, due.1 + data);
        self.due_kinds |= 1 << kind;
    }

    /// Returns whether [`next_credit`](Self::next_credit) finds something.
    pub(crate) fn has_credit(&self) -> bool {
        self.due_kinds != 0
    }

    /// Returns the next credits to return: all data credits go with the first header of their class and Traffic Class.
    pub(crate) fn next_credit(&mut self) -> Option<CreditReturn> {
        let kind = self.due_kinds.trailing_zeros();
        let due = self.due.get_mut(kind as usize)?;
        due.0 -= 1;
        self.due_kinds &= !(u32::from(due.0 == 0) << kind);
        let (class, tc) = (Class::ALL[kind as usize / 8], TrafficClass::from_bits(kind as u8));
        Some(CreditReturn { tc, class, data_credits: std::mem::take(&mut due.1) })
    }

    /// Returns the numbers of requests of `function` that are not accepted yet, and not answered yet.
    pub(crate) fn waiting(&self, function: u16) -> (usize, usize) {
        let ours = || self.entries.iter().filter(|e| e.live && e.function == function);
        (ours().filter(|e| !e.taken).count(), ours().filter(|e| e.taken).count())
    }
}

/// Returns the index of a Traffic Class in tables.
fn place(tc: TrafficClass) -> usize {
    usize::from(tc.bits() & 7)
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
            account: Account::NONE,
            reply: Reply::Bytes,
        })
    }

    const READ: CreditReturn =
        CreditReturn { tc: TrafficClass::from_bits(0), class: Class::NonPosted, data_credits: 0 };
    const WRITE: CreditReturn =
        CreditReturn { tc: TrafficClass::from_bits(0), class: Class::Posted, data_credits: 4 };

    #[test]
    fn token_is_accepted_once_and_answered_once() {
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
        assert!(requests.answer(0, tokens[3]).is_some() && !requests.answered(READ.tc));
        assert_eq!(requests.next_credit(), None, "three are still unanswered");
        assert!(requests.answer(0, tokens[0]).is_some());
        assert_eq!(requests.next_credit(), None, "the answer has not been sent");
        assert!(requests.answered(READ.tc));
        assert_eq!(std::iter::from_fn(|| requests.next_credit()).count(), 2);
    }

    #[test]
    fn voiding_requests_returns_their_credits() {
        let mut requests = Requests::new(2);
        let (a, b) = (requests.admit(0, WRITE, None).unwrap(), requests.admit(1, WRITE, None).unwrap());
        requests.void(0);
        assert_eq!((requests.next_credit(), requests.next_credit()), (Some(WRITE), None));
        assert!(!requests.take(0, a) && requests.take(1, b));
    }
}
