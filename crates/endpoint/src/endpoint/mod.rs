// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: turns TLPs into transactions (`PCIe 5.0 §2`). Below it is a link or another carrier of TLPs. Above it
//! is one [`Device`] per function. The endpoint knows neither the purpose of a device nor the properties of a link.
//!
//! - In: the endpoint answers configuration requests itself. It decodes memory requests by BAR, checks them and passes
//!   them to the device. Messages go to a device that declares their codes ([`Device::messages`]). Completions are
//!   matched to reads by Requester ID and tag.
//! - Out: writes are split at Max_Payload_Size and 4 KiB, reads at Max_Read_Request_Size and 4 KiB, answers at
//!   Max_Payload_Size and the Read Completion Boundary. A transfer that is being split blocks only its own class and
//!   function. But while a write is being split, its function begins no new read or answer, which could pass the write,
//!   and the endpoint's own TLPs follow the writes of the same function and Traffic Class that were accepted earlier.
//!   Functions send one TLP each, round robin. Their tags may be separate or from one pool
//!   ([`EndpointLimits::tags_per`]). If one Traffic Class has no room, the others continue.
//! - Credits of a request return when the device accepts it. Credits of completions, and of requests that the endpoint
//!   answers or drops, return at once ([`EndpointLimits::max_requests`] has the exception).
//!
//! The specification leaves these points open; this endpoint chooses as follows:
//!
//! - **Bus Master Enable clear**: reads fail with [`DmaError::BusMasterDisabled`](device::DmaError); writes and
//!   interrupts are dropped and counted, because their target may no longer exist when the bit is set again. A partly
//!   sent transfer is not continued.
//! - **Completion timeout**: the tag stays unused until its last completion has arrived, which counts as unexpected, or
//!   until a second timeout has passed.
//! - **Function Level Reset**: outstanding transactions are void immediately. Tags stay out of use until their
//!   completions have arrived, which are swallowed, or cannot arrive any more. Bus and device number stay.
//! - **Link down**: outstanding reads end with [`DmaError::LinkDown`](device::DmaError), then all functions are reset.
//! - **INTx**: a message reports the level of a pin at the time when the message can be sent, not each change of the level.
//! - **Errors of no function** are logged in all physical functions, and reported once for each severity
//!   (`PCIe 5.0 §6.2.4`). The Header Log of a request that a device aborts has no TD, hint and prefixes.
//! - **D3hot**: reads fail with [`DmaError::NotInD0`](device::DmaError); writes and interrupts are dropped and counted.
//!   Outstanding reads go on. No PME is sent.
//! - **Virtual functions** exist while VF Enable is set. A numbering that would give two functions one ID is refused
//!   when the endpoint is made.

mod absent;
mod assembly;
mod completions;
mod function;
mod many;
mod outbox;
mod pooled;
mod reads;
mod tags;

pub use crate::front::{Counters, EndpointError, EndpointLimits, MAX_VIRTUAL_FUNCTIONS, TagsPer};

use crate::channels_of;
use crate::front::claim::Claim;
use crate::front::configure::config_value;
use crate::front::findings::Finding;
use crate::front::settings::BarOffset;
use crate::front::{Front, Function, earlier};
use crate::port::{CreditReturn, PortStatus, TlpPort};
use config::ConfigSpace;
use device::seam::{BarIndex, Device, Input, Ready, Request, RequestOp, ResetKind};
use device::shared::Notifiers;
use function::Work;
use link::{Channels, Notice};
use many::Agenda;
use std::cell::Cell;
use std::collections::VecDeque;
use tlp::rules::Refusal;
use tlp::{
    Access, Bdf, Body, Class, Completion, ConfigRequest, Data, MemoryOp, Message, PayloadPool, Span, TcSet,
    Time, Tlp,
};

/// The parts of an endpoint.
pub struct EndpointConfig {
    /// Name in reports.
    pub name: String,
    /// Functions: 1 to 8, or to 256 with ARI. The first is function 0.
    pub functions: Vec<FunctionConfig>,
    /// Limits of the endpoint.
    pub limits: EndpointLimits,
    /// Pool that supplies the payloads that the endpoint makes.
    pub pool: PayloadPool,
}

/// One function of an endpoint.
pub struct FunctionConfig {
    /// Configuration space of the function.
    pub config: ConfigSpace,
    /// Device of the function.
    pub device: Box<dyn Device>,
}

/// The parts of the virtual functions of a physical function.
pub struct VirtualFunctions {
    /// The configuration space of each virtual function after a reset.
    pub config: ConfigSpace,
    /// Makes the device of virtual function n, counted from zero. Called each time that VF Enable creates the function.
    pub device: Box<dyn FnMut(u16) -> Box<dyn Device>>,
}

/// An endpoint: functions on one link, each with a [`Device`].
pub struct Endpoint {
    name: String,
    front: Front<Work>,
    /// The next function to send, by class.
    turn: [u16; 3],
    /// Functions that found no usable tag, although the pool had free tags.
    passed_over: VecDeque<u16>,
    /// Stored answer of `status`, without credits that the front has to return, until it may have changed. Used only with a
    /// single function whose device notifies of changes.
    status: Cell<Option<PortStatus>>,
    /// The notifier of that device.
    notifier: Option<Notifiers>,
    /// The pending work of the functions if there are several.
    agenda: Option<Box<Agenda>>,
}

impl Endpoint {
    /// Makes an endpoint in its state after a fundamental reset.
    ///
    /// # Errors
    /// Fails if the number of functions or a limit is out of range.
    pub fn new(config: EndpointConfig) -> Result<Endpoint, EndpointError> {
        let EndpointConfig { name, functions, limits, pool } = config;
        let functions = functions.into_iter().map(|f| (f.config, f.device)).collect();
        let front = Front::new(functions, limits, pool)?;
        let mut endpoint = Endpoint {
            name,
            front,
            turn: [0; 3],
            passed_over: VecDeque::new(),
            status: Cell::new(None),
            notifier: None,
            agenda: None,
        };
        match Agenda::of(&mut endpoint.front.functions, false) {
            None => endpoint.give_notifier(),
            agenda => endpoint.agenda = agenda,
        }
        Ok(endpoint)
    }

    /// Like [`new`](Self::new), with virtual functions of function `physical`, whose configuration space must have
    /// the SR-IOV capability. They appear when software sets VF Enable.
    ///
    /// # Errors
    /// Fails if there is no such function, it has no such capability, there would be more than
    /// [`MAX_VIRTUAL_FUNCTIONS`], or one would have the ID of another function.
    pub fn with_virtual_functions(
        mut self,
        physical: u16,
        made_of: VirtualFunctions,
    ) -> Result<Endpoint, EndpointError> {
        self.front.add_virtual_functions(physical, made_of.config, made_of.device)?;
        Ok(self)
    }

    /// Returns the name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.front.shared.counters
    }

    /// Returns the configuration space of a function.
    pub fn config(&self, function: u8) -> Option<&ConfigSpace> {
        self.front.function(function).map(|f| &f.config)
    }

    /// Returns the ID of a function: the captured bus and device number, and its function number.
    pub fn function_id(&self, function: u8) -> Option<Bdf> {
        self.front.function(function).map(|f| f.id(&self.front.shared))
    }

    /// Returns the ID of virtual function n of a physical function while it is enabled.
    pub fn virtual_function_id(&self, physical: u16, n: u16) -> Option<Bdf> {
        self.front.virtual_function_id(physical, n)
    }

    /// Returns n if this is the ID of enabled virtual function n of a physical function.
    pub fn virtual_function_number(&self, physical: u16, id: Bdf) -> Option<u16> {
        self.front.virtual_function_number(physical, id)
    }

    /// Returns the number of used tags of a function, quarantined ones included, and the number of all its tags or of
    /// tags that it may get from the pool.
    pub fn tags(&self, function: u8) -> Option<(u16, u16)> {
        self.front.function(function).map(|f| (f.behind.reads.tags.in_use(), f.settings.tags.1))
    }

    /// Returns the number of used tags of the pool, quarantined ones included, and its size; `None` if each function
    /// has its own tags.
    pub fn pooled_tags(&self) -> Option<(u16, u16)> {
        self.front.shared.tags.as_ref().map(|pool| (pool.in_use(), pool.limit()))
    }

    /// Returns address and data of each entry of the MSI-X table of the function with this ID, physical or virtual, in
    /// order; empty if it has no table.
    pub fn msix_table_of(&self, id: Bdf) -> Vec<(u64, u32)> {
        let function = self.front.function_of(id).and_then(|index| self.front.functions.get(index));
        let msix = function.and_then(|f| f.msix.as_ref());
        msix.map_or_else(Vec::new, |msix| msix.messages().map(|m| (m.address, m.data)).collect())
    }

    /// Returns the configuration space of the function with this ID, physical or virtual.
    pub fn config_of(&self, id: Bdf) -> Option<&ConfigSpace> {
        self.front.config_of(id)
    }

    /// Has the effect of a type 0 configuration write with `id`, without a TLP. The function captures `id` too. No
    /// effect if there is no such function.
    pub fn write_config(&mut self, now: Time, id: Bdf, register_dw: u16, byte_enables: u8, value: u32) {
        self.front.write_config(now, id, register_dw, byte_enables, value);
        self.front_was_called();
    }

    /// Resets all functions; a Function Level Reset also resets all of them. After a fundamental or hot reset, bus and
    /// device number are unknown, and all received and unsent TLPs are void. The link starts again with all credits.
    pub fn reset(&mut self, now: Time, kind: ResetKind) {
        self.front.reset(now, kind);
        self.front_was_called();
    }

    /// Follows changes by the front. To be called after each call of the front that may have changed anything.
    fn front_was_called(&mut self) {
        self.status.set(None);
        if !self.front.changed.is_empty() {
            self.follow_changes();
        }
    }

    fn receive(&mut self, now: Time, tlp: &Tlp) {
        if !self.front.admits(tlp) {
            return;
        }
        match &tlp.repr.body {
            Body::Completion(completion) => self.completion(now, tlp, completion),
            _ => self.request(now, tlp),
        }
    }

    // A separate function, so that requests and completions do not pay for each other's registers.
    #[inline(never)]
    fn request(&mut self, now: Time, tlp: &Tlp) {
        match self.front.claim(now, tlp) {
            Claim::Nothing => {}
            Claim::Bar(BarOffset { index, bar, offset }) => self.hand_on(now, index, tlp, bar, offset),
            Claim::Register(index) | Claim::Message(index) => self.hand_on(now, index, tlp, BarIndex(0), 0),
        }
    }

    /// Passes a request to the device of a function. `bar` and `offset` have no meaning if the request is not for a
    /// BAR.
    fn hand_on(&mut self, now: Time, index: usize, tlp: &Tlp, bar: BarIndex, offset: u64) {
        let (tc, attr) = (tlp.repr.tc, tlp.repr.attr);
        let Some(token) = self.front.take_in(index, tlp) else { return };
        let Some(op) = operation(tlp, bar, offset) else { return };
        let request = Request::with(token, tc, attr, op);
        self.front.functions[index].behind.device.handle(now, Input::Request(request));
        self.touch(index);
    }

    fn completion(&mut self, now: Time, tlp: &Tlp, completion: &Completion) {
        let Some(index) = self.front.completed(tlp, completion) else {
            return self.front.finding(None, Finding::Unexpected, tlp);
        };
        let (function, shared) = (&mut self.front.functions[index], &self.front.shared);
        let until = now + function.quarantine(shared);
        let Function { behind, settings, .. } = function;
        let (finding, done) = behind.reads.complete(completion, tlp, settings, until, &shared.pool);
        self.front.finding(Some(index), finding, tlp);
        self.front.functions[index].return_tags(&mut self.front.shared);
        if let Some(done) = done {
            self.front.functions[index].behind.done(now, &mut self.front.shared, done);
        }
        self.touch(index);
    }

    /// Gives the device of a single function its notifier.
    fn give_notifier(&mut self) {
        let notifiers = Notifiers::new(1);
        let notifies = self.front.functions[0].behind.device.set_notifier(notifiers.notifier(0));
        self.notifier = notifies.then_some(notifiers);
    }

    /// Returns the polls that may yield something now, and the time of the next call.
    #[inline]
    fn status(&self) -> PortStatus {
        let status = match (&self.notifier, self.status.get()) {
            (Some(notifier), Some(status)) if notifier.take().is_none() => {
                debug_assert_eq!(status, self.present_status(), "changed without a call or a notification");
                status
            }
            _ => self.find_status(),
        };
        self.with_credits(status)
    }

    /// Returns `status` with the poll for credits, if the front has to return any.
    #[inline(always)]
    fn with_credits(&self, status: PortStatus) -> PortStatus {
        let credits = Ready::when(self.front.shared.requests.has_credit(), Ready::TAKEN);
        PortStatus { ready: status.ready.or(credits), ..status }
    }

    #[inline(never)]
    fn find_status(&self) -> PortStatus {
        let status = self.present_status();
        self.status.set(self.notifier.as_ref().map(|_| status));
        status
    }

    #[inline(always)]
    fn present_status(&self) -> PortStatus {
        let (functions, shared) = (&self.front.functions, &self.front.shared);
        let (of_functions, timeout) = match &self.agenda {
            None => functions[0].status(shared.several_channels),
            Some(agenda) => (agenda.ready(&self.front), agenda.next_timeout(functions)),
        };
        PortStatus { ready: shared.own.ready().or(of_functions), timeout: earlier(shared.wake, timeout) }
    }

    // Inlined, so that the TLP is built in the caller's place.
    #[inline(always)]
    fn poll_next(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.front.shared.now = now;
        if room != TcSet::ALL && !std::mem::replace(&mut self.front.shared.several_channels, true) {
            self.find_several_channels();
        }
        self.status.set(None);
        if self.front.ecrc_generation {
            return self.next_with_digest(now, class, room);
        }
        self.next_tlp(now, class, room)
    }

    /// Returns the next TLP of `class`, if there is one. (Here and below, a TLP is built in its final place, because
    /// moving it directly after its fields were written costs more than building it.)
    #[inline(always)]
    fn next_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.front.shared.own.ready().contains(Ready::output(class)) {
            return self.next_in_turn(now, class, room);
        }
        self.next_of_devices(now, class, room)
    }

    /// Returns the next TLP of `class` from a device.
    #[inline(always)]
    fn next_of_devices(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.agenda.is_none() {
            return self.poll_function(now, class, room, 0);
        }
        self.next_of_functions(now, class, room)
    }

    /// Like [`next_of_devices`](Self::next_of_devices) if the front itself has a TLP to send. The front and the
    /// functions alternate.
    #[cold]
    fn next_in_turn(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let goes_first = self.front.goes_first(class);
        let first = if goes_first { self.front.next_own(now, class, room) } else { None };
        let tlp = first.or_else(|| self.next_of_devices(now, class, room));
        if goes_first { tlp } else { tlp.or_else(|| self.front.next_own(now, class, room)) }
    }

    fn next_with_digest(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let mut tlp = self.next_tlp(now, class, room)?;
        self.front.add_digest(&mut tlp);
        Some(tlp)
    }

    /// Returns the next TLP of `class`; functions take turns.
    fn next_of_functions(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if class == Class::NonPosted && !self.passed_over.is_empty() {
            let tlp = self.next_of_passed_over(now, room);
            if tlp.is_some() {
                return tlp;
            }
        }
        self.next_of_many(now, class, room)
    }

    #[inline(always)]
    fn poll_function(&mut self, now: Time, class: Class, room: TcSet, index: usize) -> Option<Tlp> {
        let (function, shared) = (&mut self.front.functions[index], &mut self.front.shared);
        match class {
            Class::Posted => function.poll_posted(now, shared, room),
            Class::NonPosted if shared.tags.is_some() => self.poll_with_pool(now, room, index),
            Class::NonPosted => function.poll_non_posted(now, shared, room),
            Class::Completion => function.poll_completion(now, shared, room),
        }
    }
}

impl TlpPort for Endpoint {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.front.shared.now = now;
        self.receive(now, tlp);
        self.front_was_called();
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.poll_next(now, class, room)
    }

    fn poll_tlp_and_status(
        &mut self,
        now: Time,
        class: Class,
        room: TcSet,
        status: &mut PortStatus,
    ) -> Option<Tlp> {
        let tlp = self.poll_next(now, class, room);
        let found = self.present_status();
        self.status.set(self.notifier.as_ref().map(|_| found));
        *status = self.with_credits(found);
        tlp
    }

    fn status(&self) -> PortStatus {
        Endpoint::status(self)
    }

    fn ready(&self) -> Ready {
        self.status().ready
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        // A credit that is available is taken immediately, which is cheaper than checking first.
        if let Some(credit) = self.front.shared.requests.next_credit() {
            return Some(credit);
        }
        if !self.ready().contains(Ready::TAKEN) {
            return None;
        }
        if self.agenda.is_some() {
            return self.next_credit_of_many();
        }
        self.status.set(None);
        self.next_taken(0, &mut 0).break_value().flatten()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.status().timeout
    }

    fn handle_timeout(&mut self, now: Time) {
        self.front.shared.now = now;
        self.front.shared.wake_is_over(now);
        if self.agenda.is_some() {
            self.handle_timeout_of_many(now);
        } else {
            self.front.functions[0].handle_timeout(now, &mut self.front.shared);
        }
        self.status.set(None);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.front.notice(now, notice);
        self.front_was_called();
    }

    fn channels(&self) -> Option<Channels> {
        channels_of(&self.front.functions[0].config)
    }

    fn power_on(&mut self, now: Time) {
        self.reset(now, ResetKind::Fundamental);
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
        let several = self.front.functions.len() > 1;
        let parts = self.front.functions.iter().filter_map(|f| {
            let what = f.waits_for(&self.front.shared)?;
            Some(if several { format!("function {}: {what}", f.number) } else { what })
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("{}: {}", self.name, parts.join("; ")))
    }
}

/// Returns the operation of a request for a device; `None` for a completion.
fn operation(tlp: &Tlp, bar: BarIndex, offset: u64) -> Option<RequestOp> {
    let data = tlp.data.clone();
    Some(match tlp.repr.body {
        Body::Memory(m) => match m.op {
            MemoryOp::Read => RequestOp::Read { bar, offset, span: m.span, locked: false },
            MemoryOp::ReadLocked => RequestOp::Read { bar, offset, span: m.span, locked: true },
            MemoryOp::Write => RequestOp::Write { bar, offset, span: m.span, data },
            MemoryOp::WriteDeferrable => {
                RequestOp::WriteNonPosted { bar, offset, span: m.span, data, deferrable: true }
            }
        },
        Body::Atomic(a) => RequestOp::Atomic { bar, offset, op: a.op, operands: data },
        Body::Io(io) => {
            let span = Span::in_dw(io.address.into(), io.first_be);
            match io.op {
                Access::Read => RequestOp::Read { bar, offset, span, locked: false },
                Access::Write => {
                    let data = enabled(data, span);
                    RequestOp::WriteNonPosted { bar, offset, span, data, deferrable: false }
                }
            }
        }
        Body::Message(Message { requester, routing, code, header, .. }) => {
            RequestOp::Message { requester, routing, code, header, data }
        }
        Body::Config(ConfigRequest { op: Access::Read, register_dw, first_be, .. }) => {
            RequestOp::ConfigRead { register_dw, byte_enables: first_be }
        }
        Body::Config(ConfigRequest { op: Access::Write, register_dw, first_be, .. }) => {
            let value = config_value(first_be, &data)?;
            RequestOp::ConfigWrite { register_dw, byte_enables: first_be, value }
        }
        Body::Completion(_) => return None,
    })
}

/// Returns the bytes of `span`, cut from `data` if a peer's TLP carries complete DWs.
fn enabled(data: Data, span: Span) -> Data {
    let (lead, len) = (span.lead() as usize, span.byte_count() as usize);
    if data.len() == 4 && len < 4 { data.slice(lead, len) } else { data }
}
