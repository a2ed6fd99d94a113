// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A leaf that sends and answers requests: writes and reads of host memory, of its peers and of unclaimed addresses;
//! messages; AtomicOps. It records the TLPs that it sees, and reports TLPs that break a rule. It reads no registers and
//! no links.
//!
//! **Order.** Each posted TLP of a leaf to another, write or message, carries an increasing number. Each completion
//! carries the number of the last posted TLP that the completer had handed to its link before. So the receiver knows
//! which TLPs must have arrived before (`PCIe 5.0 §2.4.1`, Table 2-40, entries A2 and D2a). The values that a leaf writes to
//! its cell in host memory increase as well, and a later read returns no smaller value (entry B2a).

use super::Place;
use super::watch::has;
use endpoint::{CreditReturn, TlpPort};
use link::Notice;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use tlp::{
    AtomicOp, AtomicRequest, Bdf, Body, Class, Completion, Data, Duration, MemoryOp, MemoryRequest, Message,
    MessageRouting, Mps, OperandSize, PayloadPool, Rcb, Repr, Span, Status, Tag, TcSet, Time, Tlp,
    TrafficClass, message, split,
};

/// A request that a leaf can make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Writes to its cell in host memory.
    WriteHost,
    /// Reads its cell.
    ReadHost,
    /// Adds 1 to a word of host memory that all share.
    AddHost,
    /// Writes to this leaf.
    WritePeer(usize),
    /// Reads from this leaf.
    ReadPeer(usize),
    /// Sends this leaf a Vendor_Defined Type 1 message, by its ID.
    MessagePeer(usize),
    /// Sends the root complex a Vendor_Defined Type 1 message.
    MessageRoot,
    /// Writes to an unclaimed address.
    WriteNowhere,
    /// Reads from such an address.
    ReadNowhere,
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub(crate) at: Time,
    pub(crate) kind: Kind,
    /// Bytes: 8 to Max_Payload_Size of writes, to 512 of reads, in multiples of 8.
    pub(crate) size: u32,
    pub(crate) tc: u8,
}

/// How a leaf behaves.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) ops: Vec<Op>,
    /// Maximum number of outstanding requests.
    pub(crate) tags: u16,
    /// Delay until the credits of received TLPs return.
    pub(crate) slow: Duration,
    /// A request holds its credits until it is answered.
    pub(crate) holds: bool,
}

/// Counters of all leaves of a run.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Rules that were broken.
    pub(crate) wrong: Vec<String>,
    /// TLPs handed to links, of requests of each class.
    pub(crate) posted: u64,
    pub(crate) non_posted: u64,
    /// Posted requests to unclaimed targets, among those.
    pub(crate) posted_nowhere: u64,
    /// Posted TLPs received, and last completions.
    pub(crate) posted_received: u64,
    pub(crate) answers_received: u64,
    /// Requests received from others.
    pub(crate) asked: u64,
    /// Requests that succeeded, that were refused, and that timed out.
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
    /// Completions after a timeout, and unexpected completions.
    pub(crate) late: u64,
    pub(crate) unexpected: u64,
    /// AtomicOps that memory has done.
    pub(crate) added: u64,
    pub(crate) adds_sent: u64,
    /// Frames may be altered, so that numbers and tags mean nothing.
    pub(crate) altered: bool,
    /// Links may go down, so that posted TLPs may be lost.
    pub(crate) lossy: bool,
}

pub(crate) type SharedBook = Rc<RefCell<Book>>;

/// How long a leaf waits for a completion: beyond any queueing here.
pub(crate) const TIMEOUT: Duration = Duration::from_ms(20);
/// Bytes of the cell of a leaf for one Traffic Class.
const CELL: u64 = 512;
/// The word that all leaves add to.
pub(crate) const SUM_ADDRESS: u64 = super::HIGH;
/// An address with neither memory nor a window.
const NOWHERE: u64 = 0x7000_0000;

struct Pending {
    op: Op,
    deadline: Time,
    received: u32,
    bytes: u32,
    /// The last number that was written to the cell before.
    written: u32,
}

struct Answer {
    tlp: Tlp,
    to: Bdf,
    credit: Option<CreditReturn>,
}

pub(crate) struct Node {
    index: usize,
    mps: Mps,
    places: Rc<Vec<Place>>,
    plan: NodePlan,
    book: SharedBook,
    ops: VecDeque<Op>,
    tags: VecDeque<u16>,
    open: BTreeMap<u16, Pending>,
    lost: BTreeSet<u16>,
    answers: VecDeque<Answer>,
    credits: VecDeque<(Time, CreditReturn)>,
    /// By leaf and Traffic Class: the last number that was sent, and received.
    sent: BTreeMap<(usize, u8), u32>,
    received: BTreeMap<(usize, u8), u32>,
    /// By Traffic Class: the last number written to the cell.
    written: [u32; 8],
    now: Time,
    pool: PayloadPool,
}

impl Node {
    pub(crate) fn new(
        index: usize,
        mps: Mps,
        places: Rc<Vec<Place>>,
        plan: NodePlan,
        pool: PayloadPool,
        book: SharedBook,
    ) -> Node {
        Node {
            index,
            mps,
            places,
            ops: plan.ops.iter().copied().collect(),
            tags: (0..plan.tags).collect(),
            plan,
            book,
            open: BTreeMap::new(),
            lost: BTreeSet::new(),
            answers: VecDeque::new(),
            credits: VecDeque::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            written: [0; 8],
            now: Time::ZERO,
            pool,
        }
    }

    fn id(&self) -> Bdf {
        self.places[self.index].id
    }

    fn cell(&self, tc: u8) -> u64 {
        super::HIGH + 4096 + (self.index as u64 * 8 + u64::from(tc)) * CELL
    }

    fn wrong(&self, what: String) {
        let mut book = self.book.borrow_mut();
        if !book.altered && book.wrong.len() < 20 {
            book.wrong.push(format!("leaf {} at {}: {what}", self.index, self.now));
        }
    }

    fn leaf_of(&self, id: Bdf) -> Option<usize> {
        self.places.iter().position(|place| place.id == id)
    }

    /// Returns the next number of the posted TLPs to `leaf`.
    fn number(&mut self, leaf: usize, tc: u8) -> u32 {
        let number = self.sent.entry((leaf, tc)).or_default();
        *number += 1;
        *number
    }

    /// A payload of `size` bytes that begins with `number`.
    fn data(&self, number: u32, size: u32) -> Data {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(0);
            bytes[..4].copy_from_slice(&number.to_le_bytes());
        };
        Data::Carried(self.pool.fill(size as usize, fill))
    }

    fn class_of(kind: Kind) -> Class {
        match kind {
            Kind::WriteHost | Kind::WritePeer(_) | Kind::WriteNowhere => Class::Posted,
            Kind::MessagePeer(_) | Kind::MessageRoot => Class::Posted,
            Kind::ReadHost | Kind::AddHost | Kind::ReadPeer(_) | Kind::ReadNowhere => Class::NonPosted,
        }
    }

    /// Returns the next request in program order if it is of `class` and may be sent.
    fn next_op(&mut self, now: Time, class: Class, room: TcSet) -> Option<Op> {
        let op = self.ops.front().copied()?;
        let tagged = class == Class::Posted || !self.tags.is_empty();
        let goes = op.at <= now && Node::class_of(op.kind) == class && has(room, op.tc) && tagged;
        goes.then(|| self.ops.pop_front()).flatten()
    }

    fn posted(&mut self, op: Op) -> Tlp {
        self.book.borrow_mut().posted += 1;
        let size = op.size.min(self.mps.bytes());
        let write = |address| Body::Memory(memory(MemoryOp::Write, 0, address, size));
        let (body, data) = match op.kind {
            Kind::WriteHost => {
                self.written[usize::from(op.tc)] += 1;
                (write(self.cell(op.tc)), self.data(self.written[usize::from(op.tc)], size))
            }
            Kind::WritePeer(leaf) => {
                let number = self.number(leaf, op.tc);
                (write(self.places[leaf].address), self.data(number, size))
            }
            Kind::MessagePeer(leaf) => {
                let (number, id) = (self.number(leaf, op.tc), self.places[leaf].id);
                (Body::Message(vendor_message(MessageRouting::ById, id, number)), Data::NONE)
            }
            Kind::MessageRoot => {
                let to = Bdf::default();
                (Body::Message(vendor_message(MessageRouting::ToRootComplex, to, 0)), Data::NONE)
            }
            _ => {
                self.book.borrow_mut().posted_nowhere += 1;
                (write(NOWHERE), self.data(0, size))
            }
        };
        self.signed(body, data, op.tc)
    }

    fn non_posted(&mut self, now: Time, op: Op) -> Tlp {
        self.book.borrow_mut().non_posted += 1;
        let tag = self.tags.pop_front().unwrap_or_default();
        let read = |address| Body::Memory(memory(MemoryOp::Read, tag, address, op.size));
        let (body, data) = match op.kind {
            Kind::ReadHost => (read(self.cell(op.tc)), Data::NONE),
            Kind::ReadPeer(leaf) => (read(self.places[leaf].address), Data::NONE),
            Kind::AddHost => {
                self.book.borrow_mut().adds_sent += 1;
                let body = AtomicRequest {
                    op: AtomicOp::FetchAdd,
                    operand: OperandSize::Bits64,
                    requester: Bdf::default(),
                    tag: Tag::from_bits(tag),
                    address: SUM_ADDRESS,
                };
                (Body::Atomic(body), self.data(1, 8))
            }
            _ => (read(NOWHERE), Data::NONE),
        };
        let bytes = if op.kind == Kind::AddHost { 8 } else { op.size };
        let written = self.written[usize::from(op.tc)];
        self.open.insert(tag, Pending { op, deadline: now + TIMEOUT, received: 0, bytes, written });
        self.signed(body, data, op.tc).with_carry(true)
    }

    fn signed(&self, mut body: Body, data: Data, tc: u8) -> Tlp {
        let id = self.id();
        match &mut body {
            Body::Memory(m) => m.requester = id,
            Body::Atomic(a) => a.requester = id,
            Body::Message(m) => m.requester = id,
            Body::Io(_) | Body::Config(_) | Body::Completion(_) => {}
        }
        let repr = Repr { tc: TrafficClass::from_bits(tc), ..Repr::new(body) };
        Tlp::new(repr, data)
    }

    /// Each piece carries the number of the last posted TLP that was handed over before.
    fn next_answer(&mut self, room: TcSet) -> Option<Tlp> {
        let tc = self.answers.front()?.tlp.repr.tc.bits();
        if !has(room, tc) {
            return None;
        }
        let Answer { mut tlp, to, credit } = self.answers.pop_front()?;
        let before = self.leaf_of(to).and_then(|leaf| self.sent.get(&(leaf, tc)).copied()).unwrap_or(0);
        if let Body::Completion(c) = tlp.repr.body
            && c.length_dw.is_some()
        {
            tlp.data = self.data(before, tlp.data.len() as u32);
        }
        if let Some(credit) = credit {
            self.credits.push_back((self.now + self.plan.slow, credit));
        }
        Some(tlp)
    }

    fn ask(&mut self, m: &MemoryRequest, tlp: &Tlp) {
        self.book.borrow_mut().asked += 1;
        let credit = CreditReturn::of(tlp);
        let (mut address, mut left) = (m.span.first_byte(), m.span.byte_count());
        let place = self.places[self.index];
        let mine = address >= place.address && address < place.address + super::LEAF_BYTES;
        if !mine {
            self.wrong(format!("gets a request for {address:#x}"));
        }
        while left > 0 {
            let piece = split::completion_piece(address, left, self.mps, Rcb::new(64).unwrap());
            let body = Completion {
                byte_count: left as u16,
                lower_address: (address & 0x7f) as u8,
                length_dw: Some(piece.div_ceil(4) as u16),
                ..Completion::new(self.id(), m.requester, m.tag)
            };
            let repr = Repr { tc: tlp.repr.tc, attr: tlp.repr.attr, ..Repr::new(Body::Completion(body)) };
            let answer = Tlp { account: tlp.account, ..Tlp::new(repr, Data::Counted(piece)) };
            address += u64::from(piece);
            left -= piece;
            let credit = (left == 0 && self.plan.holds).then_some(credit);
            self.answers.push_back(Answer { tlp: answer, to: m.requester, credit });
        }
        if !self.plan.holds {
            self.give_back(tlp);
        }
    }

    fn give_back(&mut self, tlp: &Tlp) {
        self.credits.push_back((self.now + self.plan.slow, CreditReturn::of(tlp)));
    }

    /// Takes `number` of `from`, which must exceed all earlier ones.
    fn take_number(&mut self, from: Bdf, tc: u8, number: u32) {
        self.book.borrow_mut().posted_received += 1;
        let Some(leaf) = self.leaf_of(from) else { return self.wrong(format!("hears of {from}")) };
        let last = self.received.entry((leaf, tc)).or_default();
        let (before, next) = (*last, *last + 1);
        *last = number;
        let lossy = self.book.borrow().lossy;
        if number <= before || (number != next && !lossy) {
            self.wrong(format!("number {number} of leaf {leaf} arrives after {before}"));
        }
    }

    fn complete(&mut self, c: &Completion, tlp: &Tlp) {
        let tag = c.tag.bits();
        self.book.borrow_mut().answers_received += u64::from(c.is_last());
        if c.requester != self.id() {
            self.wrong(format!("is given an answer to {}", c.requester));
        }
        let Some(mut pending) = self.open.remove(&tag) else {
            let mut book = self.book.borrow_mut();
            if self.lost.contains(&tag) {
                book.late += 1;
                return;
            }
            book.unexpected += 1;
            drop(book);
            return self.wrong(format!("tag {tag} is answered, but has no request"));
        };
        if c.status != Status::Success {
            self.book.borrow_mut().refused += 1;
            if pending.op.kind != Kind::ReadNowhere && !self.book.borrow().lossy {
                self.wrong(format!("{:?} is answered with {:?}", pending.op, c.status));
            }
            return self.tags.push_back(tag);
        }
        self.check_order(&pending, c, tlp);
        let left = pending.bytes - pending.received;
        if u32::from(c.byte_count) != left {
            self.wrong(format!("Byte Count {} of {:?}, but {left} are left", c.byte_count, pending.op));
        }
        pending.received += tlp.data.len() as u32;
        if pending.received < pending.bytes {
            self.open.insert(tag, pending);
        } else {
            let mut book = self.book.borrow_mut();
            book.answered += 1;
            book.added += u64::from(pending.op.kind == Kind::AddHost);
            self.tags.push_back(tag);
        }
    }

    /// Checks that all TLPs that a completion proves to precede it have arrived.
    fn check_order(&self, pending: &Pending, c: &Completion, tlp: &Tlp) {
        let Some(&[a, b, d, e, ..]) = tlp.data.bytes() else { return };
        let (number, tc) = (u32::from_le_bytes([a, b, d, e]), pending.op.tc);
        let lossy = self.book.borrow().lossy;
        match pending.op.kind {
            Kind::ReadPeer(leaf) => {
                let seen = self.received.get(&(leaf, tc)).copied().unwrap_or(0);
                if seen < number && !lossy {
                    self.wrong(format!("an answer of leaf {leaf} passes {number}; {seen} has arrived"));
                }
            }
            // The first piece holds the number.
            Kind::ReadHost if pending.received == 0 => {
                let newest = self.written[usize::from(tc)];
                let oldest = if lossy { 0 } else { pending.written };
                if number < oldest || number > newest {
                    self.wrong(format!("cell reads {number} after {oldest}, before {newest} ({c:?})"));
                }
            }
            _ => {}
        }
    }

    /// Retires the tag for good, since its answer may still arrive; another replaces it.
    fn lose(&mut self, tag: u16) {
        self.lost.insert(tag);
        self.tags.push_back(self.plan.tags + self.lost.len() as u16 - 1);
    }

    fn expire(&mut self, now: Time) {
        let due: Vec<u16> =
            self.open.iter().filter(|(_, p)| p.deadline <= now).map(|(tag, _)| *tag).collect();
        for tag in due {
            let op = self.open.remove(&tag).map(|p| p.op);
            self.lose(tag);
            let mut book = self.book.borrow_mut();
            book.timed_out += 1;
            let lossy = book.lossy;
            drop(book);
            if !lossy {
                self.wrong(format!("tag {tag} is not answered: {op:?}"));
            }
        }
    }
}

fn memory(op: MemoryOp, tag: u16, address: u64, size: u32) -> MemoryRequest {
    let (requester, tag) = (Bdf::default(), Tag::from_bits(tag));
    MemoryRequest { op, requester, tag, span: Span::covering(address, size).unwrap() }
}

/// A Vendor_Defined Type 1 message with `number` in its last four bytes.
fn vendor_message(routing: MessageRouting, to: Bdf, number: u32) -> Message {
    let mut header = [0; 8];
    header[..2].copy_from_slice(&to.bits().to_be_bytes());
    header[2..4].copy_from_slice(&[0xf1, 0x5e]);
    header[4..].copy_from_slice(&number.to_be_bytes());
    let code = message::VENDOR_DEFINED_TYPE_1;
    Message { routing, requester: Bdf::default(), tag: Tag::default(), code, header, length_dw: None }
}

impl TlpPort for Node {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = self.now.max(now);
        match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::Read => return self.ask(&m, tlp),
            Body::Memory(m) => {
                if let Some(&[a, b, c, d, ..]) = tlp.data.bytes() {
                    self.take_number(m.requester, tlp.repr.tc.bits(), u32::from_le_bytes([a, b, c, d]));
                }
            }
            Body::Message(m) if m.routing == MessageRouting::ById => {
                let [.., a, b, c, d] = m.header;
                self.take_number(m.requester, tlp.repr.tc.bits(), u32::from_be_bytes([a, b, c, d]));
            }
            // From the switch above.
            Body::Message(_) => {}
            Body::Completion(c) => self.complete(&c, tlp),
            Body::Io(_) | Body::Config(_) | Body::Atomic(_) => {
                self.wrong(format!("is sent {}", tlp.repr.name()))
            }
        }
        self.give_back(tlp);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.now = self.now.max(now);
        if class == Class::Completion {
            return self.next_answer(room);
        }
        let op = self.next_op(now, class, room)?;
        Some(if class == Class::Posted { self.posted(op) } else { self.non_posted(now, op) })
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        let due = self.credits.front().is_some_and(|(at, _)| *at <= self.now);
        due.then(|| self.credits.pop_front()).flatten().map(|(_, credit)| credit)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let op = self.ops.front().map(|op| op.at).filter(|at| *at > self.now);
        let credit = self.credits.front().map(|(at, _)| *at);
        let deadline = self.open.values().map(|p| p.deadline).min();
        [op, credit, deadline].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.expire(now);
    }

    /// Handles the loss of the link, which resets the device: its received and issued requests are dropped.
    fn handle_notice(&mut self, now: Time, notice: Notice) {
        if !matches!(notice, Notice::Down { .. }) {
            return;
        }
        self.now = self.now.max(now);
        let credits = self.answers.drain(..).filter_map(|answer| answer.credit);
        self.credits.extend(credits.map(|credit| (now, credit)));
        for tag in std::mem::take(&mut self.open).into_keys() {
            self.book.borrow_mut().timed_out += 1;
            self.lose(tag);
        }
    }

    fn waits_for(&self) -> Option<String> {
        let (ops, open, answers) = (self.ops.len(), self.open.len(), self.answers.len());
        let text = format!("{ops} requests to send, {open} open, {answers} answers to send");
        (ops + open + answers > 0).then_some(text)
    }
}
