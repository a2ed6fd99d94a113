// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The accounts of outstanding transactions: opened with a request, charged when it moves to the next stage, closed
//! when it ends. No event depends on the accounts.
//!
//! An account holds the time until which it has been charged. The part that knows when the transaction leaves a stage
//! charges the time until then. So all time is counted once, and the parts add up to the whole. That time may be in the
//! future, because the arrival of a frame on the wire and the time when memory answers a read are known in advance.
//!
//! A TLP carries the name of its account ([`tlp::Account`]); completions carry the name of their request's account. A
//! name is an index and a generation, so that a late TLP does not find another transaction's account. There are at most
//! [`MAX_ACCOUNTS`]. If all are open, the oldest quarter is dropped and counted, because their transactions have most
//! likely been lost.

use crate::breakdown::Breakdown;
use crate::flow::Flow;
use crate::stages::{Parts, Stage, Transaction, TransactionKind, TransactionTap};
use crate::topology::{LinkId, Side};
use link::{Frame, Port, SentFrame, TransmitTimes};
use tlp::{Account, Bdf, Body, Class, Duration, MemoryOp, Span, Status, Tag, Time, Tlp};

/// Maximum number of accounts that are open at a time.
pub const MAX_ACCOUNTS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;
/// One less than the bits hold, so that no name equals the name of a [deferred](Account::DEFERRED) account.
const GENERATIONS: u32 = (1 << (32 - INDEX_BITS)) - 1;

/// The times at which memory serves a request of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The account of the transaction.
    pub account: Account,
    /// The job of the request.
    pub job: u32,
    /// The request waited for a place in the memory system until now.
    pub now: Time,
    /// Memory begins to serve the request.
    pub asked: Time,
    /// Memory answers.
    pub answered: Time,
    /// The answer is at the root port.
    pub ready: Time,
}

/// Number of accounts by state: `opened` is the sum of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountTotals {
    /// Accounts ever opened.
    pub opened: u64,
    /// Closed accounts: the transaction has ended.
    pub closed: u64,
    /// Dropped accounts. Either the posted request had no effect, for example because it was poisoned or no target
    /// claimed it. Or the receiver discarded a TLP of the transaction, because credits or a channel for its Traffic
    /// Class were missing.
    pub dropped: u64,
    /// Open accounts that were given up to make room.
    pub given_up: u64,
    /// Accounts that are open now.
    pub open: u64,
}

/// The account of an outstanding transaction.
#[derive(Clone, Copy)]
struct Entry {
    parts: Parts,
    start: Time,
    /// The time until which the account has been charged.
    last: Time,
    /// Generation of the name; zero if the entry is free.
    generation: u32,
    bytes: u32,
    requester: Bdf,
    tag: Tag,
    link: u16,
    asking: Side,
    kind: TransactionKind,
    /// True once a device has begun to answer.
    answering: bool,
}

/// An update of the ledger by another part.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// The transaction is in a stage until a time.
    Charge {
        /// The account of the transaction.
        account: Account,
        /// The stage.
        stage: Stage,
        /// End of the stage.
        until: Time,
    },
    /// The transaction has ended.
    Close {
        /// The account of the transaction.
        account: Account,
        /// Status of its completion.
        status: Status,
        /// The stage up to its end.
        stage: Stage,
        /// When it ended.
        end: Time,
    },
    /// The transaction is an interrupt.
    Interrupt {
        /// The account of the transaction.
        account: Account,
        /// When the interrupt reaches the host.
        end: Time,
    },
    /// The transaction has no effect.
    Drop {
        /// The account of the transaction.
        account: Account,
    },
}

/// A request of the host: its time of issue, and the time when it reached the root port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostIssue {
    pub(crate) at: Time,
    pub(crate) left_at: Time,
}

/// The request that opens an account.
struct Request {
    kind: TransactionKind,
    requester: Bdf,
    tag: Tag,
    /// Bytes that the request moves.
    bytes: u32,
}

/// All accounts, and the sums over closed ones.
pub(crate) struct Ledger {
    /// Whether accounts are opened. If not, the ledger counts nothing.
    pub(crate) is_kept: bool,
    entries: Vec<Entry>,
    free: Vec<u32>,
    next_generation: u32,
    /// Sums by link, then by kind.
    breakdowns: Vec<[Option<Box<Breakdown>>; TransactionKind::ALL.len()]>,
    tap: Option<Box<dyn TransactionTap>>,
    totals: AccountTotals,
}

impl Ledger {
    pub(crate) fn new(links: usize) -> Ledger {
        Ledger {
            is_kept: true,
            entries: Vec::with_capacity(MAX_ACCOUNTS),
            free: Vec::with_capacity(MAX_ACCOUNTS),
            next_generation: 1,
            breakdowns: (0..links).map(|_| std::array::from_fn(|_| None)).collect(),
            tap: None,
            totals: AccountTotals::default(),
        }
    }

    pub(crate) fn set_tap(&mut self, tap: Box<dyn TransactionTap>) {
        self.tap = Some(tap);
    }

    pub(crate) fn totals(&self) -> AccountTotals {
        let AccountTotals { opened, closed, dropped, given_up, .. } = self.totals;
        AccountTotals { open: opened - closed - dropped - given_up, ..self.totals }
    }

    /// The sums over the closed accounts of `kind` on `link`, if there are any.
    pub(crate) fn breakdown(&self, link: usize, kind: TransactionKind) -> Option<&Breakdown> {
        self.breakdowns.get(link)?[kind as usize].as_deref().filter(|b| b.count() > 0)
    }

    /// Clears the sums over closed accounts. Open accounts stay open.
    pub(crate) fn clear_breakdowns(&mut self) {
        self.breakdowns.iter_mut().flatten().flatten().for_each(|b| b.clear());
    }

    /// Opens the account of request `tlp`, which a device (`Side::Device`) or the host began at `now`. Returns the
    /// account's name.
    pub(crate) fn open(&mut self, now: Time, link: usize, asking: Side, tlp: &Tlp) -> Account {
        if !self.is_kept {
            return Account::NONE;
        }
        let Request { kind, requester, tag, bytes } = Request::of(asking, tlp);
        let generation = self.next_generation;
        self.next_generation = if generation + 1 == GENERATIONS { 1 } else { generation + 1 };
        let index = self.free.pop().unwrap_or_else(|| self.make_room());
        // Written field by field, because the compiler would build a complete entry elsewhere and copy it.
        let entry = &mut self.entries[index as usize];
        entry.parts = Parts::NONE;
        (entry.start, entry.last) = (now, now);
        (entry.generation, entry.bytes) = (generation, bytes);
        (entry.requester, entry.tag) = (requester, tag);
        (entry.link, entry.kind, entry.answering) = (link as u16, kind, false);
        entry.asking = asking;
        self.totals.opened += 1;
        Account(generation << INDEX_BITS | index)
    }

    /// Opens the account of the request `tlp` that the host has issued.
    pub(crate) fn open_asked(&mut self, asked: HostIssue, link: usize, tlp: &Tlp) -> Account {
        let account = self.open(asked.at, link, Side::Root, tlp);
        self.charge(account, Stage::RootComplex, asked.left_at);
        account
    }

    /// Enters the note of another part.
    pub(crate) fn take(&mut self, note: Note) {
        match note {
            Note::Charge { account, stage, until } => self.charge(account, stage, until),
            Note::Close { account, status, stage, end } => self.end(account, status, [(stage, end); 2]),
            Note::Interrupt { account, end } => {
                self.set_kind(account, TransactionKind::Interrupt);
                self.end(account, Status::Success, [(Stage::RootComplex, end); 2]);
            }
            Note::Drop { account } => self.drop(account),
        }
    }

    #[cold]
    fn make_room(&mut self) -> u32 {
        if self.entries.len() == MAX_ACCOUNTS {
            self.give_up_oldest();
            return self.free.pop().unwrap_or(0);
        }
        self.entries.push(Entry::FREE);
        self.entries.len() as u32 - 1
    }

    /// Drops the oldest quarter together, so that all of them share the cost of the search.
    fn give_up_oldest(&mut self) {
        let mut by_age: Vec<u32> = (0..self.entries.len() as u32).collect();
        by_age.sort_by_key(|&index| self.entries[index as usize].start);
        for &index in &by_age[..MAX_ACCOUNTS / 4] {
            self.entries[index as usize].generation = 0;
            self.free.push(index);
            self.totals.given_up += 1;
        }
    }

    fn entry(&mut self, account: Account) -> Option<&mut Entry> {
        let generation = account.0 >> INDEX_BITS;
        let entry = self.entries.get_mut(account.0 as usize % MAX_ACCOUNTS)?;
        (generation != 0 && entry.generation == generation).then_some(entry)
    }

    /// The transaction is in `stage` until `until`.
    pub(crate) fn charge(&mut self, account: Account, stage: Stage, until: Time) {
        if let Some(entry) = self.entry(account) {
            entry.charge(stage, until);
        }
    }

    /// `tlp` goes onto the wire for the first time, from `start` to `end`, and will arrive at `arrival`. Before `start` it
    /// waited for credits at the head of its queue for `credit_wait`. Its `data_bytes` count for `flow` if they are part of one.
    #[inline(always)]
    pub(crate) fn sent(
        &mut self,
        tlp: &Tlp,
        data_bytes: u32,
        [start, end, arrival]: [Time; 3],
        credit_wait: Duration,
        flow: &mut Flow,
    ) {
        if tlp.account != Account::DEFERRED {
            self.charge_wire(tlp.account, [start, end, arrival], credit_wait);
        }
        if self.is_flow(tlp, data_bytes) {
            flow.add(data_bytes, start, end);
        }
    }

    fn charge_wire(&mut self, account: Account, [start, end, arrival]: [Time; 3], credit_wait: Duration) {
        let Some(entry) = self.entry(account) else { return };
        let credit_wait = credit_wait.min(start.since(entry.last));
        entry.parts.add(Stage::CreditWait, credit_wait);
        entry.last += credit_wait;
        entry.charge(Stage::Queue, start);
        entry.charge(Stage::Serialization, end);
        entry.charge(Stage::Wire, arrival);
    }

    /// Returns whether the `data_bytes` of `tlp` are part of a [`Flow`]. For a completion of one DW, only its account
    /// shows whether it answers a configuration request.
    #[inline(always)]
    fn is_flow(&mut self, tlp: &Tlp, data_bytes: u32) -> bool {
        match &tlp.repr.body {
            _ if data_bytes == 0 => false,
            Body::Memory(_) | Body::Atomic(_) => true,
            Body::Completion(_) => data_bytes > 4 || self.answers_memory(tlp.account),
            _ => false,
        }
    }

    fn answers_memory(&mut self, account: Account) -> bool {
        use TransactionKind as K;
        let entry = self.entry(account);
        entry.is_some_and(|entry| !matches!(entry.kind, K::HostConfig | K::HostIo | K::DmaOther))
    }

    /// The other end accepts a replayed TLP of the transaction.
    #[cold]
    pub(crate) fn arrived_again(&mut self, account: Account, now: Time) {
        self.charge(account, Stage::Replay, now);
    }

    /// Memory serves a request at these times.
    pub(crate) fn served(&mut self, turn: &Turn) {
        let Some(entry) = self.entry(turn.account) else { return };
        entry.charge(Stage::Memory, turn.now);
        entry.charge(Stage::RootComplex, turn.asked);
        entry.charge(Stage::Memory, turn.answered);
        entry.charge(Stage::RootComplex, turn.ready);
    }

    /// Counts an account without an entry as opened: see [deferred](Account::DEFERRED).
    #[inline(always)]
    pub(crate) fn defer(&mut self) -> Account {
        if !self.is_kept {
            return Account::NONE;
        }
        self.totals.opened += 1;
        Account::DEFERRED
    }

    /// A frame that `sender` has sent, with its TLP. If the account of the TLP is [deferred](Account::DEFERRED), opens it, as if the
    /// TLP had had one from the beginning.
    #[inline(always)]
    pub(crate) fn lend<'a>(
        &mut self,
        sender: &'a mut Port,
        frame: SentFrame,
        link: LinkId,
        propagation: Duration,
    ) -> Option<Frame<&'a Tlp>> {
        match frame {
            Frame::Tlp { sequence, .. } => {
                let (tlp, times) = sender.lend_sent(sequence)?;
                if tlp.account == Account::DEFERRED {
                    tlp.account = self.open_sent(link, tlp, times, times.end + propagation);
                }
                Some(Frame::Tlp { sequence, tlp })
            }
            Frame::Dllp(dllp) => Some(Frame::Dllp(dllp)),
        }
    }

    /// Opens the account of a write that was already counted as opened, and arrives at `arrival`, in the past or future.
    #[cold]
    fn open_sent(&mut self, link: LinkId, tlp: &Tlp, times: &TransmitTimes, arrival: Time) -> Account {
        self.totals.opened -= 1;
        let account = self.open(times.queued_at, link.0 as usize, Side::Device, tlp);
        self.charge_wire(account, [times.start, times.end, arrival], times.credit_wait);
        account
    }

    /// A [deferred](Account::DEFERRED) write has arrived at `arrival`, reaches the memory system at `asked`, and is visible from `visible` on.
    #[inline(always)]
    pub(crate) fn written_deferred(
        &mut self,
        link: LinkId,
        tlp: &Tlp,
        times: &TransmitTimes,
        [arrival, asked, visible]: [Time; 3],
    ) {
        let TransmitTimes { queued_at, credit_wait, start, end } = *times;
        let waited = start.since(queued_at);
        let credit_wait = credit_wait.min(waited);
        let middle = arrival.max(asked);
        let last = middle.max(visible);
        let spent = [
            (Stage::Queue, waited - credit_wait),
            (Stage::CreditWait, credit_wait),
            (Stage::Serialization, end.since(start)),
            (Stage::Wire, arrival.since(end)),
            (Stage::RootComplex, middle.since(arrival)),
            (Stage::Memory, last.since(middle)),
        ];
        let sum = &mut self.breakdowns[link.0 as usize][TransactionKind::DmaWrite as usize];
        let is_usual = self.tap.is_none()
            && sum.as_mut().is_some_and(|sum| sum.add_usual(last.since(queued_at), &spent));
        if is_usual {
            self.totals.closed += 1;
        } else {
            let account = self.open_sent(link, tlp, times, arrival);
            self.written(account, asked, visible);
        }
    }

    /// Opens the account of a request `tlp` that a device hands over at `now`, or notes that the device answers if it is a
    /// completion.
    pub(crate) fn leaving(&mut self, now: Time, link: usize, class: Class, tlp: &Tlp) -> Account {
        match class {
            Class::Completion => self.answering(now, tlp),
            Class::Posted | Class::NonPosted => self.open(now, link, Side::Device, tlp),
        }
    }

    /// A device hands over a completion. Only the last completion keeps the account's name. Returns the name for this
    /// completion.
    pub(crate) fn answering(&mut self, now: Time, tlp: &Tlp) -> Account {
        if let Some(entry) = self.entry(tlp.account)
            && !entry.answering
        {
            entry.answering = true;
            entry.charge(Stage::Completer, now);
        }
        only_last(tlp)
    }

    /// Sets the kind of the transaction, now that it is known.
    fn set_kind(&mut self, account: Account, kind: TransactionKind) {
        if let Some(entry) = self.entry(account) {
            entry.kind = kind;
        }
    }

    /// `tlp` has reached the device in slot `slot`. A completion answers a request of that device.
    #[inline(always)]
    pub(crate) fn reached_slot(&mut self, tlp: &Tlp, slot: u32, now: Time) {
        match tlp.class() {
            Class::Posted => self.close_at(tlp, slot, Stage::Replay, now),
            Class::NonPosted => self.reached(tlp.account, slot),
            Class::Completion => self.close(tlp, Stage::Replay, now),
        }
    }

    /// Notes that a request has reached the device in slot `slot`: only now is the device known that the host addresses.
    fn reached(&mut self, account: Account, slot: u32) {
        if let Some(entry) = self.entry(account).filter(|e| e.asking == Side::Root) {
            entry.link = slot as u16;
        }
    }

    /// Like [`close`](Self::close), at the device in slot `slot`.
    pub(crate) fn close_at(&mut self, tlp: &Tlp, slot: u32, stage: Stage, end: Time) {
        self.reached(tlp.account, slot);
        self.close(tlp, stage, end);
    }

    /// A write reaches the memory system at `asked`, and is visible from `visible` on.
    pub(crate) fn written(&mut self, account: Account, asked: Time, visible: Time) {
        self.end(account, Status::Success, [(Stage::RootComplex, asked), (Stage::Memory, visible)]);
    }

    /// A completion has reached the requester, or a posted TLP its receiver, at `end`; until then it is in `stage`.
    pub(crate) fn close(&mut self, tlp: &Tlp, stage: Stage, end: Time) {
        self.end(tlp.account, ended_with(tlp), [(stage, end); 2]);
    }

    /// A posted TLP had no effect, or a receiver discarded a TLP of the transaction.
    pub(crate) fn drop(&mut self, account: Account) {
        self.totals.dropped += u64::from(account == Account::DEFERRED);
        let Some(entry) = self.entry(account) else { return };
        entry.generation = 0;
        self.free.push(account.0 % MAX_ACCOUNTS as u32);
        self.totals.dropped += 1;
    }

    /// Ends a transaction. The last two stages are added to the sums directly: reading parts one by one that were just written is
    /// slow.
    fn end(&mut self, account: Account, status: Status, last: [(Stage, Time); 2]) {
        let index = account.0 % MAX_ACCOUNTS as u32;
        let Some(entry) = self.entry(account) else { return };
        entry.generation = 0;
        self.free.push(index);
        self.totals.closed += 1;
        let entry = &self.entries[index as usize];
        let middle = entry.last.max(last[0].1);
        let spent = [(last[0].0, middle.since(entry.last)), (last[1].0, last[1].1.since(middle))];
        let latency = middle.max(last[1].1).since(entry.start);
        let whole = || entry.transaction(status, &spent);
        match &mut self.breakdowns[usize::from(entry.link)][entry.kind as usize] {
            Some(sum) => sum.add(latency, &entry.parts, &spent, whole),
            none => *none = Some(Box::new(Breakdown::new(&whole()))),
        }
        if let Some(tap) = &mut self.tap {
            tap.transaction(&whole());
        }
    }
}

impl Entry {
    const FREE: Entry = Entry {
        parts: Parts::NONE,
        start: Time::ZERO,
        last: Time::ZERO,
        generation: 0,
        bytes: 0,
        requester: Bdf::from_bits(0),
        tag: Tag::from_bits(0),
        link: 0,
        asking: Side::Device,
        kind: TransactionKind::DmaOther,
        answering: false,
    };

    /// Charges `stage` until `until`. Time charged in advance stays charged, so a time before `last` has no effect.
    fn charge(&mut self, stage: Stage, until: Time) {
        self.parts.add(stage, until.since(self.last));
        self.last = self.last.max(until);
    }

    #[cold]
    fn transaction(&self, status: Status, spent: &[(Stage, Duration)]) -> Transaction {
        let mut parts = self.parts;
        spent.iter().for_each(|&(stage, spent)| parts.add(stage, spent));
        Transaction {
            link: u32::from(self.link),
            kind: self.kind,
            requester: self.requester,
            tag: self.tag,
            bytes: self.bytes,
            status,
            start: self.start,
            end: self.last + spent.iter().fold(Duration::ZERO, |sum, (_, spent)| sum + *spent),
            parts,
        }
    }
}

/// Returns the status with which `tlp` ends its transaction.
pub(crate) fn ended_with(tlp: &Tlp) -> Status {
    match &tlp.repr.body {
        Body::Completion(c) => c.status,
        _ => Status::Success,
    }
}

/// Returns the account of `tlp`, or [`Account::NONE`] for a completion that is not the last of its request.
fn only_last(tlp: &Tlp) -> Account {
    match &tlp.repr.body {
        Body::Completion(c) if !c.is_last() => Account::NONE,
        _ => tlp.account,
    }
}

impl Request {
    /// Returns the kind of transaction that `tlp` begins; interrupts cannot be distinguished from other writes yet.
    fn of(asking: Side, tlp: &Tlp) -> Request {
        use TransactionKind as K;
        let len = tlp.data.len() as u32;
        let (dma, host, requester, tag, bytes) = match &tlp.repr.body {
            Body::Memory(m) => {
                let (dma, host, bytes) = match m.op {
                    MemoryOp::Write => (K::DmaWrite, K::HostWrite, len),
                    MemoryOp::WriteDeferrable => (K::DmaDeferrableWrite, K::HostDeferrableWrite, len),
                    MemoryOp::Read | MemoryOp::ReadLocked => (K::DmaRead, K::HostRead, bytes_read(m.span)),
                };
                (dma, host, m.requester, m.tag, bytes)
            }
            Body::Atomic(a) => (K::DmaAtomic, K::HostAtomic, a.requester, a.tag, len),
            Body::Io(io) => (K::DmaOther, K::HostIo, io.requester, io.tag, io.first_be.count_ones()),
            Body::Config(c) => (K::DmaOther, K::HostConfig, c.requester, c.tag, c.first_be.count_ones()),
            Body::Message(m) => (K::DmaMessage, K::HostMessage, m.requester, m.tag, len),
            // Completions begin no transaction.
            Body::Completion(c) => (K::DmaOther, K::HostConfig, c.requester, c.tag, len),
        };
        let kind = if asking == Side::Device { dma } else { host };
        Request { kind, requester, tag, bytes }
    }
}

const fn bytes_read(span: Span) -> u32 {
    if span.is_zero_length() { 0 } else { span.byte_count() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Data, MemoryRequest, Repr};

    fn write() -> Tlp {
        let span = Span::covering(0x1000, 64).unwrap();
        let (op, requester, tag) = (MemoryOp::Write, Bdf::default(), Tag::default());
        Tlp::new(Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span })), Data::Counted(64))
    }

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    fn opened(ledger: &mut Ledger, now: Time) -> Tlp {
        let mut tlp = write();
        tlp.account = ledger.open(now, 0, Side::Device, &tlp);
        tlp
    }

    #[test]
    fn oldest_account_is_dropped_if_all_are_open() {
        let mut ledger = Ledger::new(1);
        let first = opened(&mut ledger, at(0));
        (1..MAX_ACCOUNTS as u64).for_each(|n| drop(opened(&mut ledger, at(n))));
        let totals = ledger.totals();
        assert_eq!((totals.open, totals.given_up), (MAX_ACCOUNTS as u64, 0));
        // One more account drops the oldest quarter, including the first account.
        let last = opened(&mut ledger, at(20_000));
        let quarter = MAX_ACCOUNTS as u64 / 4;
        let totals = ledger.totals();
        assert_eq!((totals.open, totals.given_up), (3 * quarter + 1, quarter));
        ledger.close(&first, Stage::Memory, at(30_000));
        assert_eq!(ledger.totals().closed, 0);
        ledger.close(&last, Stage::Memory, at(30_000));
        assert_eq!((ledger.totals().closed, ledger.totals().open), (1, 3 * quarter));
        assert_eq!(
            ledger.breakdown(0, TransactionKind::DmaWrite).unwrap().sum(Stage::Memory).as_ps(),
            10_000
        );
    }

    #[test]
    fn account_name_is_valid_only_once() {
        let mut ledger = Ledger::new(1);
        let tlp = opened(&mut ledger, at(5));
        ledger.close(&tlp, Stage::Memory, at(9));
        let other = opened(&mut ledger, at(10));
        // The index is the same, the name differs.
        assert_eq!(tlp.account.0 % MAX_ACCOUNTS as u32, other.account.0 % MAX_ACCOUNTS as u32);
        ledger.close(&tlp, Stage::Memory, at(20));
        ledger.drop(tlp.account);
        ledger.charge(tlp.account, Stage::Queue, at(20));
        ledger.close(&other, Stage::Memory, at(12));
        let sum = ledger.breakdown(0, TransactionKind::DmaWrite).unwrap();
        assert_eq!((sum.count(), sum.sums().total().as_ps(), sum.sum(Stage::Queue).as_ps()), (2, 6, 0));
        let nobody = Tlp { account: Account::NONE, ..write() };
        ledger.close(&nobody, Stage::Memory, at(99));
        assert_eq!(ledger.totals().closed, 2);
    }

    #[test]
    fn generation_of_account_name_is_never_zero_after_wrap() {
        let mut ledger = Ledger::new(1);
        for n in 0..u64::from(GENERATIONS) + 2 {
            let tlp = opened(&mut ledger, at(n));
            assert_ne!(tlp.account.0 >> INDEX_BITS, 0);
            ledger.close(&tlp, Stage::Memory, at(n + 1));
        }
        let totals = ledger.totals();
        assert_eq!((totals.opened, totals.open), (totals.closed, 0));
    }
}
