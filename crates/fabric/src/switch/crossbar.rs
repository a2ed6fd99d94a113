// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of a switch: each input has a FIFO for each class and Traffic Class. This module also selects the TLP
//! that may be sent next. This module does not select the destination of a TLP.
//!
//! ```text
//!   input (a port, or what the switch itself sends to one)   egress port
//!   class x TC: [ d c b a ] head ──┐
//!   class x TC: [   z y x ] head ──┴──> arbiter of (egress, class) ──> poll
//! ```
//!
//! **Order** (`PCIe 5.0 §2.4.1`, Table 2-40) holds between TLPs of one input, one egress port and one Traffic Class.
//! TLPs in one queue keep their order. A non-posted request or completion stores the number of posted TLPs of its pair
//! that entered before it. It waits until as many have left, unless Relaxed Ordering or ID-based Ordering lets it go
//! first (entries B2b, C2b, D2b). Posted TLPs and completions never wait for non-posted requests, and posted ones never
//! wait for completions (A3, A4, A5, D3, D4): they have separate queues.
//!
//! **Head of line.** The first TLP of a queue blocks those after it, whatever their egress port; it never blocks TLPs
//! of another class, Traffic Class or input. So a blocked egress port stops one class of each input that has a TLP for
//! it. The specification permits this, and a buffer that is read in order behaves like this.
//!
//! After queues have grown, a TLP needs no allocation. The queues are bounded by the credits of the link before them;
//! [`Crossbar::has_room`] is checked nevertheless.

use super::MAX_INPUTS;
use super::arbiter::{Arbiter, Inputs, PortArbitration};
use endpoint::CreditReturn;
use std::collections::VecDeque;
use tlp::{Attributes, Bdf, Body, Class, MemoryOp, TcSet, Time, Tlp, TrafficClass};

/// The source of a message whose link has gone down since it arrived.
pub(super) const GONE: u8 = u8::MAX;

/// A TLP on its way through the switch.
pub(super) struct Entry {
    pub(super) tlp: Tlp,
    /// Earliest time at which the TLP is sent.
    pub(super) leave_at: Time,
    /// For a posted TLP, its number among the posted TLPs of its pair and Traffic Class. For others, the number of
    /// these that must be sent before it.
    place: u64,
    pub(super) egress: u8,
    /// The port from which the TLP came, or whose function sent it.
    pub(super) source: u8,
    /// The credits to return when the TLP is sent, and the port that returns them.
    pub(super) credit: Option<(u8, CreditReturn)>,
}

impl Entry {
    /// The entry of `tlp` from port `source` to `egress`.
    pub(super) fn new(tlp: Tlp, leave_at: Time, source: usize, egress: usize) -> Entry {
        Entry { tlp, leave_at, place: 0, egress: egress as u8, source: source as u8, credit: None }
    }

    /// The same entry, which returns `credit` to `port` when it leaves.
    pub(super) fn returning(self, port: usize, credit: CreditReturn) -> Entry {
        Entry { credit: Some((port as u8, credit)), ..self }
    }

    /// Returns whether it uses room of its input. It does while its credits are not returned, or if the switch itself
    /// sends it (`is_own`).
    fn takes_room(&self, is_own: bool) -> bool {
        self.credit.is_some() || is_own
    }
}

/// Posted TLPs with one input, egress port and Traffic Class.
#[derive(Clone, Copy, Default)]
struct Pair {
    entered: u64,
    left: u64,
}

#[derive(Default)]
struct Input {
    /// The queues, by class and Traffic Class.
    queues: [[VecDeque<Entry>; 8]; 3],
    /// The Traffic Classes with TLPs, by class.
    filled: [TcSet; 3],
    held: [u32; 3],
    limit: [u32; 3],
}

impl Input {
    fn front(&self, class: Class, tc: usize) -> Option<&Entry> {
        self.queues[class.index()][tc].front()
    }

    /// A TLP has left a queue.
    fn empties(&mut self, class: Class, tc: usize) {
        if self.queues[class.index()][tc].is_empty() {
            let gone = TcSet::of(TrafficClass::from_bits(tc as u8));
            self.filled[class.index()] = self.filled[class.index()].and(gone.complement());
        }
    }
}

/// The queue whose head is sent next.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) input: usize,
    class: Class,
    tc: usize,
}

/// When a TLP may leave.
#[derive(Clone, Copy)]
struct Timer {
    at: Time,
    input: u8,
    class: Class,
    tc: u8,
}

/// All queues, and their arbiters.
pub(super) struct Crossbar {
    inputs: Vec<Input>,
    egresses: usize,
    /// Order of posted TLPs, by input, egress port and Traffic Class.
    pairs: Vec<Pair>,
    /// By egress port and class: the inputs with a queue whose head is for this egress port and may be sent now.
    due: Vec<[Inputs; 3]>,
    arbiters: Vec<[Arbiter; 3]>,
    /// Sorted by time.
    timers: VecDeque<Timer>,
    /// The egress ports that may have something to send and that `poll_touched` has not returned yet.
    touched: Inputs,
}

impl Crossbar {
    /// Makes empty queues, with one input for each of `limits` (the number of TLPs of each class that it holds). The
    /// first `egresses` inputs are ports and send as well; the others hold the TLPs of the switch itself.
    pub(super) fn new(limits: &[[u32; 3]], egresses: usize, arbitration: &PortArbitration) -> Crossbar {
        debug_assert!(limits.len() <= MAX_INPUTS);
        let input = |limit: &[u32; 3]| Input { limit: *limit, ..Input::default() };
        Crossbar {
            inputs: limits.iter().map(input).collect(),
            egresses,
            pairs: vec![Pair::default(); limits.len() * egresses * 8],
            due: vec![[0; 3]; egresses],
            arbiters: (0..egresses).map(|_| [0; 3].map(|_| Arbiter::new(arbitration))).collect(),
            timers: VecDeque::new(),
            touched: 0,
        }
    }

    /// Whether `input` may hold one more TLP of `class`.
    pub(super) fn has_room(&self, input: usize, class: Class) -> bool {
        let input = &self.inputs[input];
        input.held[class.index()] < input.limit[class.index()]
    }

    fn pair(&self, input: usize, egress: usize, tc: usize) -> usize {
        (input * self.egresses + egress) * 8 + tc
    }

    /// Queues a TLP.
    pub(super) fn push(&mut self, now: Time, input: usize, mut entry: Entry) {
        let (class, tc) = (entry.tlp.class(), usize::from(entry.tlp.repr.tc.bits()));
        entry.place = self.place(input, &entry, class, tc);
        let leave_at = entry.leave_at;
        let takes_room = entry.takes_room(input >= self.egresses);
        let state = &mut self.inputs[input];
        state.held[class.index()] += u32::from(takes_room);
        state.filled[class.index()] = state.filled[class.index()].or(TcSet::of(entry.tlp.repr.tc));
        let queue = &mut state.queues[class.index()][tc];
        let is_head = queue.is_empty();
        queue.push_back(entry);
        if leave_at > now {
            self.set_timer(Timer { at: leave_at, input: input as u8, class, tc: tc as u8 });
        } else if is_head {
            self.mark_head(now, input, class, tc);
        }
    }

    fn place(&mut self, input: usize, entry: &Entry, class: Class, tc: usize) -> u64 {
        let index = self.pair(input, usize::from(entry.egress), tc);
        let pair = &mut self.pairs[index];
        if class == Class::Posted {
            pair.entered += 1;
            return pair.entered;
        }
        if pair.entered == pair.left || entry.tlp.repr.attr.is_empty() {
            return pair.entered;
        }
        self.relaxed_place(input, entry, tc, index)
    }

    /// Returns the place of a TLP whose attributes may let it pass posted TLPs: after the last TLP that it may not
    /// pass.
    #[cold]
    fn relaxed_place(&self, input: usize, entry: &Entry, tc: usize, pair: usize) -> u64 {
        let has = |attribute| entry.tlp.repr.attr.contains(attribute);
        if has(Attributes::RELAXED_ORDERING) && !is_read(&entry.tlp) {
            return 0;
        }
        if !has(Attributes::ID_BASED_ORDERING) {
            return self.pairs[pair].entered;
        }
        let issuer = issuer(&entry.tlp);
        let posted = &self.inputs[input].queues[Class::Posted.index()][tc];
        let last = posted.iter().rev().find(|p| p.egress == entry.egress && self::issuer(&p.tlp) == issuer);
        last.map_or(0, |p| p.place)
    }

    /// Inserts a timer. Times mostly arrive in order, except for cut-through.
    fn set_timer(&mut self, timer: Timer) {
        let later = self.timers.iter().rev().take_while(|other| other.at > timer.at).count();
        if later == 0 {
            self.timers.push_back(timer);
        } else {
            self.timers.insert(self.timers.len() - later, timer);
        }
    }

    /// When the next TLP becomes due.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.front().map(|timer| timer.at)
    }

    /// Releases the TLPs that are due by `now`.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(timer) = self.timers.front().copied().filter(|timer| timer.at <= now) {
            self.timers.pop_front();
            let input = usize::from(timer.input);
            self.mark_head(now, input, timer.class, usize::from(timer.tc));
        }
    }

    fn mark_head(&mut self, now: Time, input: usize, class: Class, tc: usize) {
        let Some(head) = self.inputs[input].front(class, tc) else { return };
        let egress = usize::from(head.egress);
        if self.may_go(input, class, tc, head, now) {
            self.due[egress][class.index()] |= 1 << input;
            self.touched |= 1 << egress;
        }
    }

    /// True if the head of a queue of `input` is due, and every posted TLP that it may not pass has left.
    fn may_go(&self, input: usize, class: Class, tc: usize, head: &Entry, now: Time) -> bool {
        let pair = || self.pairs[self.pair(input, usize::from(head.egress), tc)];
        head.leave_at <= now && (class == Class::Posted || pair().left >= head.place)
    }

    /// The classes with a TLP that may go to `egress`, on any Traffic Class: bits by [`Class::index`].
    pub(super) fn outputs(&self, egress: usize) -> u8 {
        let [posted, non_posted, completion] = &self.due[egress];
        u8::from(*posted != 0) | u8::from(*non_posted != 0) << 1 | u8::from(*completion != 0) << 2
    }

    /// Returns an egress port that may have a new TLP to send. A port is returned again only after another change.
    pub(super) fn poll_touched(&mut self) -> Option<usize> {
        let egress = self.touched.trailing_zeros();
        self.touched &= self.touched.wrapping_sub(1);
        (egress < Inputs::BITS).then_some(egress as usize)
    }

    /// Makes [`poll_touched`](Self::poll_touched) return `egress`.
    pub(super) fn touch(&mut self, egress: usize) {
        self.touched |= 1 << egress;
    }

    /// Returns the next TLP of `class` for `egress`, of a Traffic Class in `room`. This advances the arbiter, so the
    /// caller must then [take](Self::take) the TLP.
    #[inline(always)]
    pub(super) fn next(&mut self, egress: usize, now: Time, class: Class, room: TcSet) -> Option<Next> {
        let mut waiting = self.due[egress][class.index()];
        let arbiter = &self.arbiters[egress][class.index()];
        let (input, tc) = loop {
            let input = arbiter.next(waiting)?;
            if let Some(tc) = self.sendable(input, egress, now, class, room) {
                break (input, tc);
            }
            waiting &= !(1 << input);
        };
        self.arbiters[egress][class.index()].took(input);
        Some(Next { input, class, tc })
    }

    /// The Traffic Class of the TLP that `input` would send: the TLP that has been due the longest among the permitted
    /// ones.
    fn sendable(&self, input: usize, egress: usize, now: Time, class: Class, room: TcSet) -> Option<usize> {
        let mut left = self.inputs[input].filled[class.index()].and(room).bits();
        let mut best: Option<(Time, usize)> = None;
        while left != 0 {
            let tc = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(head) = self.inputs[input].front(class, tc) else { continue };
            if usize::from(head.egress) != egress || !self.may_go(input, class, tc, head, now) {
                continue;
            }
            if best.is_none_or(|(at, _)| head.leave_at < at) {
                best = Some((head.leave_at, tc));
            }
        }
        best.map(|(_, tc)| tc)
    }

    /// Takes the TLP selected by [`next`](Self::next).
    pub(super) fn take(&mut self, now: Time, next: Next) -> Option<Entry> {
        let Next { input, class, tc } = next;
        let state = &mut self.inputs[input];
        let entry = state.queues[class.index()][tc].pop_front()?;
        state.empties(class, tc);
        state.held[class.index()] -= u32::from(entry.takes_room(input >= self.egresses));
        let egress = usize::from(entry.egress);
        if class == Class::Posted {
            self.posted_left(now, input, egress, tc);
        }
        self.refresh(now, input, egress, class, tc);
        Some(entry)
    }

    /// Notes that a posted TLP has been sent, so that TLPs after it may be sent. No notification is needed, because the
    /// caller polls the other classes after posted TLPs.
    fn posted_left(&mut self, now: Time, input: usize, egress: usize, tc: usize) {
        let pair = self.pair(input, egress, tc);
        self.pairs[pair].left += 1;
        for class in [Class::NonPosted, Class::Completion] {
            let Some(head) = self.inputs[input].front(class, tc) else { continue };
            if usize::from(head.egress) == egress && self.may_go(input, class, tc, head, now) {
                self.due[egress][class.index()] |= 1 << input;
            }
        }
    }

    /// Updates the state for a new head of a queue of `input`: whether `egress` still has a due TLP, and the egress
    /// port of the new head.
    fn refresh(&mut self, now: Time, input: usize, egress: usize, class: Class, tc: usize) {
        let state = &self.inputs[input];
        let mut left = state.filled[class.index()].bits();
        let (mut here, mut elsewhere) = (false, false);
        while left != 0 {
            let of = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(head) = state.front(class, of) else { continue };
            let to = usize::from(head.egress);
            here |= to == egress && self.may_go(input, class, of, head, now);
            elsewhere |= of == tc && to != egress;
        }
        if !here {
            self.due[egress][class.index()] &= !(1 << input);
        }
        if elsewhere {
            self.mark_head(now, input, class, tc);
        }
    }

    /// Takes out all TLPs that wait for `egress`, or for any egress port. It is rare, so it may allocate.
    pub(super) fn flush(&mut self, now: Time, egress: Option<usize>) -> Vec<Entry> {
        let mut out = Vec::new();
        let goes = |entry: &Entry| egress.is_none_or(|to| usize::from(entry.egress) == to);
        let own = self.egresses;
        for (n, input) in self.inputs.iter_mut().enumerate() {
            for (class, tc) in Class::ALL.into_iter().flat_map(|class| (0..8).map(move |tc| (class, tc))) {
                let queue = &mut input.queues[class.index()][tc];
                let (gone, kept) = queue.drain(..).partition::<Vec<_>, _>(goes);
                let counted = gone.iter().filter(|entry| entry.takes_room(n >= own)).count();
                queue.extend(kept);
                input.held[class.index()] -= counted as u32;
                input.empties(class, tc);
                out.extend(gone);
            }
        }
        self.forget_posted(egress);
        self.mark_all(now);
        out
    }

    fn forget_posted(&mut self, egress: Option<usize>) {
        for (n, pair) in self.pairs.iter_mut().enumerate() {
            if egress.is_none_or(|to| n / 8 % self.egresses == to) {
                pair.left = pair.entered;
            }
        }
    }

    fn mark_all(&mut self, now: Time) {
        self.due.fill([0; 3]);
        for input in 0..self.inputs.len() {
            for class in Class::ALL {
                for tc in 0..8 {
                    self.mark_head(now, input, class, tc);
                }
            }
        }
    }

    /// Handles a restart of the link of `port`. TLPs that came through the link no longer owe it credits, and no longer
    /// count as its own.
    pub(super) fn disown(&mut self, port: usize) {
        for (n, input) in self.inputs.iter_mut().enumerate() {
            for entry in input.queues.iter_mut().flatten().flatten() {
                entry.credit = entry.credit.filter(|(to, _)| usize::from(*to) != port);
                if n == port && matches!(entry.tlp.repr.body, Body::Message(_)) {
                    entry.source = GONE;
                }
            }
        }
        self.inputs[port].held = [0; 3];
    }

    /// TLPs of each class that wait for `egress`. It walks all queues.
    pub(super) fn waiting_for(&self, egress: usize) -> [usize; 3] {
        Class::ALL.map(|class| {
            let queues = self.inputs.iter().flat_map(|input| &input.queues[class.index()]);
            queues.flatten().filter(|entry| usize::from(entry.egress) == egress).count()
        })
    }

    /// True if no TLP is held.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.iter().all(|input| input.filled.iter().all(|filled| filled.is_empty()))
    }
}

/// Returns true for a read request, for which Relaxed Ordering has no effect (entry B2).
fn is_read(tlp: &Tlp) -> bool {
    use tlp::Access::Read;
    match &tlp.repr.body {
        Body::Memory(m) => matches!(m.op, MemoryOp::Read | MemoryOp::ReadLocked),
        Body::Io(io) => io.op == Read,
        Body::Config(c) => c.op == Read,
        Body::Atomic(_) | Body::Completion(_) | Body::Message(_) => false,
    }
}

/// Returns the issuer's ID: Completer ID of a completion, Requester ID of a request.
fn issuer(tlp: &Tlp) -> Bdf {
    match &tlp.repr.body {
        Body::Completion(c) => c.completer,
        _ => tlp.repr.transaction().0,
    }
}
