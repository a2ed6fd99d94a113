// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A front with a design of raw TLPs, as in a vendor's hard block: RTL, or a peer that exchanges TLPs. Below it is a
//! link or another carrier of TLPs. Does not know the function of the design, and never splits or joins transfers.
//!
//! - In: TLPs that an [`Endpoint`](crate::Endpoint) answers or refuses itself never reach the design. Requests that hit
//!   a BAR, and messages that a function takes, reach the design as TLPs. Each has a token, and its credits return when
//!   the design accepts it.
//! - Out: requests are gated by Bus Master Enable, checked against the specification and the settings of software, and tracked until
//!   their last completion or timeout. Completions are checked against the request that they answer. A refused TLP goes back
//!   to the design with the reason.
//! - A wrong TLP may be sent unchanged, as by a block without a checker: [`TlpDesign::sends_wrong`].
//! - Unexpected, late and mismatched completions are dropped and logged, as by an endpoint.

mod answering;
mod design;
mod requester;
mod wrong;

pub use design::{DesignInput, DesignOutput, DesignRequest, RefusedTlp, Target, TlpDesign};

use crate::front::claim::Claim;
use crate::front::errors::LoggedTlp;
use crate::front::findings::{Finding, judge};
use crate::front::settings::BarOffset;
use crate::front::{
    Counters, EndpointError, EndpointLimits, Front, MAX_REFUSED_PER_POLL, MAX_STALE_PER_POLL, earlier,
};
use crate::port::{Clocked, CreditReturn, LinkCredits, TlpPort};
use answering::Answering;
use config::ConfigSpace;
use device::seam::{DmaError, Ready, ResetKind, Token};
use link::Notice;
use requester::{Issued, Requester};
use tlp::message::MessageCodes;
use tlp::rules::reasons::{of_transaction, request_type};
use tlp::rules::{Head, Refusal};
use tlp::{
    Bdf, Body, Class, Completion, MemoryOp, PayloadPool, Repr, RuleId, Tag, TagState, TcSet, Time, Tlp,
    Violation,
};

/// A hard block with its design.
pub struct HardBlock<D> {
    name: String,
    front: Front<Requester>,
    design: D,
    answering: Answering,
    /// A relayed request that waits for a tag. Until it has a tag, no other non-posted request is accepted.
    held: Option<(u16, Tlp)>,
}

impl<D: TlpDesign> HardBlock<D> {
    /// Makes a hard block in its state after a fundamental reset, with one function per configuration space. The DMA limits
    /// (`max_dma_len`, `align_reads`) have no effect here; `rcb` matters only if the front itself answers a read.
    ///
    /// # Errors
    /// Fails if the number of functions or a limit is out of range.
    pub fn new(
        name: &str,
        functions: Vec<ConfigSpace>,
        limits: EndpointLimits,
        pool: PayloadPool,
        design: D,
    ) -> Result<HardBlock<D>, EndpointError> {
        let messages = |(n, config)| (config, design.messages(n));
        let functions = (0..).zip(functions).map(messages).collect();
        let front = Front::new(functions, limits, pool)?;
        Ok(HardBlock { name: name.to_owned(), front, design, answering: Answering::default(), held: None })
    }

    /// Like [`new`](Self::new), with virtual functions of function `physical`, whose configuration space must have the SR-IOV capability.
    /// They appear when software sets VF Enable. The design knows each by its index among all functions, and by its ID
    /// ([`TlpDesign::configured`]).
    ///
    /// # Errors
    /// As [`Endpoint::with_virtual_functions`](crate::Endpoint::with_virtual_functions).
    pub fn with_virtual_functions(
        mut self,
        physical: u16,
        config: ConfigSpace,
    ) -> Result<HardBlock<D>, EndpointError> {
        self.front.add_virtual_functions(physical, config, Box::new(|_| MessageCodes::NONE))?;
        Ok(self)
    }

    /// Returns the counters. Counters of operations that only an endpoint performs stay zero.
    pub fn counters(&self) -> &Counters {
        &self.front.shared.counters
    }

    /// Returns the configuration space of a function.
    pub fn config(&self, function: u8) -> Option<&ConfigSpace> {
        self.front.function(function).map(|f| &f.config)
    }

    /// Has the effect of a type 0 configuration write with `id`, without a TLP. The function captures `id` too. No
    /// effect if there is no such function.
    pub fn write_config(&mut self, now: Time, id: Bdf, register_dw: u16, byte_enables: u8, value: u32) {
        self.front.write_config(now, id, register_dw, byte_enables, value);
        self.tell_changes(now);
    }

    // ---- in ----

    fn request(&mut self, now: Time, tlp: &Tlp) {
        match self.front.claim(now, tlp) {
            Claim::Nothing => {}
            Claim::Bar(BarOffset { index, bar, offset }) => {
                self.hand_on(now, index, Target::Bar { bar, offset }, tlp);
            }
            Claim::Register(index) => self.hand_on(now, index, Target::Register, tlp),
            Claim::Message(index) => self.hand_on(now, index, Target::Function, tlp),
        }
    }

    fn hand_on(&mut self, now: Time, index: usize, target: Target, tlp: &Tlp) {
        let Some(token) = self.front.take_in(index, tlp) else { return };
        let function = index as u16;
        if tlp.class() == Class::NonPosted {
            self.answering.asked(function, token, tlp.repr.transaction());
        }
        let request = DesignRequest { token, function, target, tlp: tlp.clone() };
        self.design.handle(now, DesignInput::Request(request));
    }

    fn completion(&mut self, now: Time, tlp: &Tlp, completion: &Completion) {
        let Some(index) = self.front.completed(tlp, completion) else {
            return self.front.finding(None, Finding::Unexpected, tlp);
        };
        self.completed(now, index, tlp.clone(), completion);
        self.front.functions[index].return_tags(&mut self.front.shared);
    }

    /// Takes a completion for function number `index`.
    fn completed(&mut self, now: Time, index: usize, mut tlp: Tlp, completion: &Completion) {
        let function = &mut self.front.functions[index];
        let until = now + function.quarantine(&self.front.shared);
        let tags = &mut function.behind.tags;
        let finding = judge(tags, Issued::expected, completion, &tlp, &function.settings);
        let issued = match tags.get(completion.tag) {
            Some((TagState::Waiting, issued)) => issued,
            _ => return self.front.finding(Some(index), finding, &tlp),
        };
        let Issued { sent, known_as: (requester, tag), .. } = *issued;
        let has_data = matches!(finding, Finding::Good | Finding::Poisoned);
        if has_data {
            issued.awaited = issued.awaited.behind(tlp.data.len() as u32);
        }
        let over = !has_data || issued.awaited.byte_count == 0;
        match finding {
            Finding::Malformed(_) => {
                issued.sent = None;
                function.behind.rest(completion.tag, until);
            }
            _ if over => function.behind.release(completion.tag),
            _ => {}
        }
        let unwanted = sent.is_none() && finding != Finding::Poisoned;
        self.front.finding(Some(index), if unwanted { Finding::Swallowed } else { finding }, &tlp);
        if sent.is_none() {
            return;
        }
        let function = index as u16;
        if matches!(finding, Finding::Malformed(_)) {
            let why = DmaError::Malformed;
            return self.design.handle(now, DesignInput::Lost { function, requester, tag, why });
        }
        if let Body::Completion(c) = &mut tlp.repr.body {
            (c.requester, c.tag) = (requester, tag);
        }
        self.design.handle(now, DesignInput::Completion { function, tlp });
    }

    /// Reports resets and new settings of software to the design. To be called after each call of the front that may cause
    /// either.
    fn tell_changes(&mut self, now: Time) {
        while let Some(index) = self.front.changed.pop() {
            let function = &self.front.functions[index];
            self.design.configured(now, index as u16, function.id(&self.front.shared), &function.config);
            let Some(kind) = self.front.functions[index].behind.was_reset.take() else { continue };
            let function = index as u16;
            self.answering.forget(function);
            self.held.take_if(|(of, _)| *of == function);
            self.design.handle(now, DesignInput::Reset { function, kind });
        }
    }

    // ---- out ----

    /// Returns the next TLP that the front itself sends for a function: interrupts whose mask was cleared, PMEs.
    fn next_of_front(&mut self, room: TcSet) -> Option<Tlp> {
        let shared = &mut self.front.shared;
        self.front.functions.iter_mut().find_map(|function| {
            let parked = function.behind.parked.pop_front();
            parked.or_else(|| function.late_interrupt(shared, room))
        })
    }

    fn next_of_design(&mut self, now: Time, class: Class) -> Option<Tlp> {
        if class == Class::NonPosted && self.held.is_some() {
            return self.send_held(now);
        }
        for _ in 0..MAX_REFUSED_PER_POLL {
            let sent = match self.design.poll_output(now, class)? {
                DesignOutput::Tlp { function, tlp } => self.send(now, class, function, tlp, false),
                DesignOutput::Relayed { function, tlp } => self.send(now, class, function, tlp, true),
                other => self.signal(now, class, other),
            };
            // The message of a pin, or a request that waits for a tag, is sent before the design's next output.
            if sent.is_some() || self.front.shared.own.pins.is_due() || self.held.is_some() {
                return sent;
            }
        }
        self.front.shared.pause(now);
        None
    }

    /// Sends an interrupt or PME of the design.
    fn signal(&mut self, now: Time, class: Class, output: DesignOutput) -> Option<Tlp> {
        let number = match output {
            DesignOutput::Interrupt { function, .. }
            | DesignOutput::Intx { function, .. }
            | DesignOutput::Pme { function }
            | DesignOutput::Tlp { function, .. }
            | DesignOutput::Relayed { function, .. } => function,
        };
        let shared = &mut self.front.shared;
        let Some(function) = self.front.functions.get_mut(usize::from(number)) else {
            return shared.bad_output();
        };
        match output {
            _ if class != Class::Posted => shared.bad_output(),
            DesignOutput::Interrupt { vector, .. } => function.interrupt(shared, vector),
            DesignOutput::Intx { asserted, .. } => {
                function.set_intx(now, shared, asserted);
                None
            }
            DesignOutput::Pme { .. } => function.pme(shared),
            DesignOutput::Tlp { .. } | DesignOutput::Relayed { .. } => None,
        }
    }

    /// Sends a TLP of the design, or returns it with the reason.
    fn send(&mut self, now: Time, class: Class, function: u16, mut tlp: Tlp, relayed: bool) -> Option<Tlp> {
        let checked = match &tlp.repr.body {
            _ if tlp.is_malformed() => self.check_form(function, &tlp).map(|()| true),
            Body::Completion(_) if class == Class::Completion && !relayed => {
                let Front { functions, shared, .. } = &mut self.front;
                self.answering.complete(now, functions, shared, &mut tlp)
            }
            _ => self.check_request(now, class, function, &mut tlp, relayed),
        };
        match checked {
            Ok(true) => return Some(tlp),
            Ok(false) => self.held = Some((function, tlp)),
            Err(why) if why.may_be_sent() && self.design.sends_wrong(&why) => {
                return self.send_wrong(now, function, tlp, why);
            }
            Err(why) => self.refuse(now, function, tlp, why),
        }
        None
    }

    /// Returns an unsent TLP of a function to the design.
    #[cold]
    fn refuse(&mut self, now: Time, function: u16, tlp: Tlp, why: RefusedTlp) {
        let shared = &mut self.front.shared;
        shared.counters.bad_outputs += u64::from(!matches!(why, RefusedTlp::Gated(_)));
        if let Some(why) = why.violation() {
            shared.refusals.record(now, Some(function), why, Head::of(&tlp));
        }
        self.design.handle(now, DesignInput::Refused { tlp, why });
        self.front.shared.wake_after_refusal(now);
    }

    fn send_held(&mut self, now: Time) -> Option<Tlp> {
        let (function, tlp) = self.held.take()?;
        self.send(now, Class::NonPosted, function, tlp, true)
    }

    /// Completes the header of a request and records it. Returns false if the request has to wait for a tag.
    fn check_request(
        &mut self,
        now: Time,
        class: Class,
        function: u16,
        tlp: &mut Tlp,
        relayed: bool,
    ) -> Result<bool, RefusedTlp> {
        if tlp.class() != class {
            return Err(RefusedTlp::Class { is: tlp.class(), polled: class });
        }
        let shared = &mut self.front.shared;
        let at = self.front.functions.get_mut(usize::from(function));
        let at = at.ok_or(RefusedTlp::NoFunction(function))?;
        let (settings, (_, tag)) = (&at.settings, tlp.repr.transaction());
        check_kind(&tlp.repr, settings.mrrs.bytes(), settings.atomic_requester)?;
        if !settings.bus_master && !matches!(tlp.repr.body, Body::Message(_)) {
            shared.counters.blocked_by_bus_master += 1;
            return Err(RefusedTlp::Gated(settings.not_bus_master()));
        }
        wrong::check(tlp, settings.mps)?;
        tlp.repr.attr &= settings.attributes;
        tlp.repr.td = false;
        let id = at.id(shared);
        if class == Class::Posted {
            tlp.repr.set_transaction(id, tag);
            shared.counters.dma_writes += u64::from(matches!(tlp.repr.body, Body::Memory(_)));
            return Ok(true);
        }
        let deadline = settings.completion_timeout.map_or(Time::MAX, |timeout| now + timeout);
        let wanted = (!relayed).then_some(tag);
        let pool = shared.tags.as_mut();
        let lent = pool.and_then(|pool| pool.lend(&mut at.behind.tags, settings.tags, wanted));
        let issued = at.behind.issue(id, wanted, deadline, &mut tlp.repr);
        if let Some(pool) = &mut shared.tags {
            pool.finish_lending(&mut at.behind.tags, lent);
        }
        if !issued && !relayed {
            return Err(refused_tag(tag, settings.tags));
        }
        let is_read = matches!(tlp.repr.body, Body::Memory(_));
        shared.counters.dma_reads += u64::from(issued && is_read);
        shared.counters.dma_atomics += u64::from(issued && !is_read);
        Ok(issued)
    }

    /// Handles the completion timers of a function that are due at `now`.
    fn expire(&mut self, now: Time, index: usize) {
        self.expire_tags(now, index);
        self.front.functions[index].return_tags(&mut self.front.shared);
    }

    fn expire_tags(&mut self, now: Time, index: usize) {
        let quarantine = self.front.functions[index].quarantine(&self.front.shared);
        while let Some(tag) = self.front.functions[index].behind.tags.due(now) {
            let tags = &mut self.front.functions[index].behind.tags;
            let Some((state, issued)) = tags.get(tag) else { return };
            let Issued { sent, known_as: (requester, known_tag), .. } = *issued;
            if state == TagState::Resting {
                self.front.functions[index].behind.release(tag);
                continue;
            }
            issued.sent = None;
            self.front.functions[index].behind.rest(tag, now + quarantine);
            let Some(sent) = sent else { continue };
            self.front.functions[index].timed_out(&mut self.front.shared, LoggedTlp::of_header(&sent));
            let (function, why) = (index as u16, DmaError::CompletionTimeout);
            let lost = DesignInput::Lost { function, requester, tag: known_tag, why };
            self.design.handle(now, lost);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let tags = self.front.functions.iter().filter_map(|f| f.behind.tags.next_deadline());
        tags.fold(self.front.shared.wake, |first, at| earlier(first, Some(at)))
    }

    fn take(&mut self, token: Token) -> bool {
        let requests = &mut self.front.shared.requests;
        requests.function_of(token).is_some_and(|function| requests.take(function, token))
    }
}

/// Returns why a request may not have this tag, for a function with these tags: the first, and their number.
fn refused_tag(tag: Tag, (first, count): (u16, u16)) -> RefusedTlp {
    let (tag, last) = (tag.bits(), first + count - 1);
    match (first..=last).contains(&tag) {
        true => RefusedTlp::Tag(tag),
        false => RefusedTlp::TagRange { tag, first, last },
    }
}

/// Checks that a design may send a request of this type and size.
fn check_kind(repr: &Repr, mrrs: u32, atomic_requester: bool) -> Result<(), RefusedTlp> {
    match &repr.body {
        Body::Memory(m) => match m.op {
            MemoryOp::Read if m.span.length_dw() * 4 > mrrs => {
                Err(RefusedTlp::TooLong { bytes: m.span.length_dw() * 4, mrrs })
            }
            MemoryOp::Read | MemoryOp::Write => Ok(()),
            MemoryOp::ReadLocked | MemoryOp::WriteDeferrable => Err(wrong_kind(repr)),
        },
        Body::Atomic(_) if !atomic_requester => Err(RefusedTlp::Gated(DmaError::AtomicsDisabled)),
        Body::Atomic(_) | Body::Message(_) => Ok(()),
        Body::Io(_) | Body::Config(_) => Err(wrong_kind(repr)),
        Body::Completion(_) => Err(no_request(repr)),
    }
}

#[cold]
fn wrong_kind(repr: &Repr) -> RefusedTlp {
    RefusedTlp::Kind(Violation { rule: RuleId::EndpointRequest, ..request_type(repr) })
}

#[cold]
fn no_request(completion: &Repr) -> RefusedTlp {
    RefusedTlp::NoRequest(of_transaction(RuleId::UnexpectedCompletion, completion))
}

impl<D: TlpDesign> TlpPort for HardBlock<D> {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.front.shared.now = now;
        if self.front.admits(tlp) {
            match tlp.repr.body {
                Body::Completion(completion) => self.completion(now, tlp, &completion),
                _ => self.request(now, tlp),
            }
        }
        self.tell_changes(now);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.front.shared.now = now;
        // The front and the functions alternate.
        let has_own = self.front.shared.ready().contains(Ready::output(class));
        let goes_first = has_own && self.front.goes_first(class);
        let first = if goes_first { self.front.next_own(now, class, room) } else { None };
        let tlp = first
            .or_else(|| if class == Class::Posted { self.next_of_front(room) } else { None })
            .or_else(|| self.next_of_design(now, class));
        let waits = has_own && !goes_first;
        let mut tlp = tlp.or_else(|| if waits { self.front.next_own(now, class, room) } else { None })?;
        if self.front.ecrc_generation {
            self.front.add_digest(&mut tlp);
        }
        Some(tlp)
    }

    fn ready(&self) -> Ready {
        let posted =
            |f: &crate::front::Function<Requester>| !f.behind.parked.is_empty() || f.may_interrupt_late();
        let posted = self.front.functions.iter().any(posted);
        let held = self.held.is_some();
        let own = self.front.shared.ready().or(Ready::when(posted, Ready::output(Class::Posted)));
        own.or(self.design.ready()).or(Ready::when(held, Ready::output(Class::NonPosted)))
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        for _ in 0..MAX_STALE_PER_POLL {
            if let Some(credit) = self.front.shared.requests.next_credit() {
                return Some(credit);
            }
            let token = self.design.poll_taken()?;
            let taken = self.take(token);
            self.front.shared.counters.stale_tokens += u64::from(!taken);
        }
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        earlier(self.next_deadline(), self.design.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.front.shared.now = now;
        self.front.shared.wake_is_over(now);
        for index in 0..self.front.functions.len() {
            self.expire(now, index);
        }
        if self.design.poll_timeout().is_some_and(|at| at <= now) {
            self.design.handle(now, DesignInput::Timer);
        }
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        if self.design.clock().is_some() { Some(self) } else { None }
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.front.notice(now, notice);
        self.tell_changes(now);
    }

    fn power_on(&mut self, now: Time) {
        self.front.reset(now, ResetKind::Fundamental);
        self.tell_changes(now);
    }

    /// Returns false while a completion timer runs, because the run waits for it.
    fn is_ticking(&self) -> bool {
        self.design.is_ticking() && self.next_deadline().is_none()
    }

    fn longest_non_posted(&self) -> u32 {
        self.front.longest_non_posted()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.front.shared.counters.counts()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.front.shared.counters.errors().collect()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.front.refusals()
    }

    fn waits_for(&self) -> Option<String> {
        let issued: u16 = self.front.functions.iter().map(|f| f.behind.tags.in_use()).sum();
        let parts = [
            (issued > 0).then(|| format!("{issued} tags in use")),
            self.answering.waits_for(),
            self.design.waits_for(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{}: {}", self.name, parts.join("; ")))
    }
}

impl<D: TlpDesign> Clocked for HardBlock<D> {
    fn run_ahead(&mut self, until: Time) {
        let until = self.next_deadline().map_or(until, |at| at.min(until));
        if let Some(clock) = self.design.clock() {
            clock.run_ahead(until);
        }
    }

    fn shows_credits(&mut self) -> bool {
        self.design.clock().is_some_and(|clock| clock.shows_credits())
    }

    fn handle_credits(&mut self, credits: &LinkCredits) {
        if let Some(clock) = self.design.clock() {
            clock.handle_credits(credits);
        }
    }
}
