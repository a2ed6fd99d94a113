// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: turns TLPs into transactions (`PCIe 5.0 §2`). Below it is a link or whatever carries TLPs, above it
//! is one [`Device`] per function. Never knows what a device does, or what a link is.
//!
//! - In: configuration requests are answered here; memory requests are decoded by BAR, checked and handed on; messages
//!   are handed on where the device says that it takes them ([`Device::messages`]); completions are matched to reads by Requester ID and tag.
//! - Out: writes are split at Max_Payload_Size and 4 KiB, reads at Max_Read_Request_Size and 4 KiB, answers at
//!   Max_Payload_Size and the Read Completion Boundary. A transfer that is being split holds up its class and
//!   function only; but while a write is split, no new read or answer of its function begins, which could pass it, and
//!   what the endpoint itself sends stays behind the writes of its function and Traffic Class accepted before it.
//!   Functions take turns, a TLP each. Where there is no room for a Traffic Class, those of others go on.
//! - Credits of a request return when the device takes it; those of a request that the endpoint answers or drops, and
//!   those of completions, at once ([`EndpointLimits::max_requests`] has the exception).
//!
//! What the specification leaves open, and what is chosen here:
//!
//! - **Bus Master Enable clear**: reads fail with [`DmaError::BusMasterDisabled`](crate::DmaError); writes and
//!   interrupts are dropped and counted, since what they were meant for may be gone when the bit is set again.
//!   A transfer that is half split ends there.
//! - **Completion timeout**: the tag stays out of use until its last completion has come, counted as unexpected, or for
//!   a second timeout.
//! - **Function Level Reset**: what is under way is void at once; tags stay out of use until their completions have
//!   come, which are swallowed, or cannot come any more. Bus and device number stay.
//! - **Link down**: reads under way end with [`DmaError::LinkDown`](crate::DmaError), then all functions are reset.
//! - **INTx**: what is told of is the level of a pin when its message can leave, not each of its changes.
//! - **Errors of no function** are logged in all physical functions, and told of once for each severity
//!   (`PCIe 5.0 §6.2.4`). Of a request that a device aborts, the Header Log has no TD, hint and prefixes.
//! - **D3hot**: reads fail with [`DmaError::NotInD0`](crate::DmaError); writes and interrupts are dropped and counted.
//!   Reads under way go on. No PME is sent.
//! - **Virtual functions** come with VF Enable and go with it. A numbering that would give two functions one ID is refused
//!   when the endpoint is made.

mod answers;
mod assembly;
mod counters;
mod errors;
mod function;
mod inbound;
mod intx;
mod many;
mod messages;
mod msix;
mod nonposted;
mod notices;
mod outbox;
mod own;
mod reads;
mod requests;
mod routing;
mod settings;
mod sriov;
mod tags;

pub use counters::Counters;
pub use sriov::{MAX_VIRTUAL_FUNCTIONS, VirtualFunctions};

use crate::port::{CreditReturn, TlpPort};
use crate::seam::{Device, Ready, ResetKind};
use config::{ConfigSpace, VfNumbering};
use function::Function;
use link::Notice;
use many::{Agenda, FEW};
use own::Own;
use requests::Requests;
use routing::Routes;
use sriov::VfSet;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use thiserror::Error;
use tlp::{Bdf, Body, Class, Data, Duration, PayloadPool, Rcb, Span, TcSet, Time, Tlp};

/// How long a device whose outputs are all refused is left alone.
const PAUSE: Duration = Duration::from_us(1);

/// Takes of unknown tokens that one poll bears with.
const MAX_STALE_PER_POLL: u32 = 64;

/// Extended capability ID of Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`).
const ARI: u16 = 0x000e;

/// What an endpoint is made of.
pub struct EndpointConfig {
    /// What reports call it.
    pub name: String,
    /// Its functions: 1 to 8, or to 256 with ARI; the first is function 0.
    pub functions: Vec<FunctionConfig>,
    /// Its limits.
    pub limits: EndpointLimits,
    /// Where payloads that it makes come from.
    pub pool: PayloadPool,
}

/// One function of an endpoint.
pub struct FunctionConfig {
    /// Its configuration space.
    pub config: ConfigSpace,
    /// Its behaviour.
    pub device: Box<dyn Device>,
}

/// The limits of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointLimits {
    /// Memory read requests that a function may have outstanding, 1 to 768; the tags that are enabled (32, 256 or
    /// 768) are a limit too.
    pub max_outstanding_reads: u16,
    /// Completion timeout while Device Control 2 names the default range (50 us to 50 ms, `PCIe 5.0 §7.5.3.16`).
    pub completion_timeout: Duration,
    /// Non-posted requests of one Traffic Class that may be under way, 1 to 32768: taken by devices, and their last
    /// completion not yet sent. While there are more, the credits of further ones are withheld, so that at most these and
    /// the receive buffer wait.
    pub max_requests: u16,
    /// Where completions are cut. Endpoints have 128 B (`PCIe 5.0 §2.3.1.1`).
    pub rcb: Rcb,
    /// The longest DMA read, in bytes; longer ones fail.
    pub max_dma_len: u32,
    /// Cut reads at multiples of Max_Read_Request_Size, so that only the first and last are shorter; else each is as
    /// long as it may be from where the last one ended.
    pub align_reads: bool,
}

impl Default for EndpointLimits {
    /// 256 reads, 50 ms, 256 requests, 128 B, 16 MiB, not aligned.
    fn default() -> EndpointLimits {
        EndpointLimits {
            max_outstanding_reads: 256,
            completion_timeout: Duration::from_ms(50),
            max_requests: 256,
            rcb: Rcb::ENDPOINT,
            max_dma_len: 16 << 20,
            align_reads: false,
        }
    }
}

/// Why there is no such endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EndpointError {
    /// Number of functions.
    #[error("{0} functions: legal are 1 to 256")]
    Functions(usize),
    /// More functions than a device without Alternative Routing-ID Interpretation has.
    #[error("{0} functions without the ARI capability: legal are 1 to 8")]
    Ari(usize),
    /// Virtual functions of a function that has none.
    #[error("function {0} has virtual functions: its configuration space has to have the SR-IOV capability")]
    NoSriov(u16),
    /// Virtual functions of all functions.
    #[error("{0} virtual functions: legal are 1 to 4096")]
    VirtualFunctions(u16),
    /// A virtual function would have the ID of another function.
    #[error(
        "virtual function {index} of function {physical}: First VF Offset {} and VF Stride {} give it the ID of another \
         function: legal are those that give each its own",
        numbering.first_offset, numbering.stride
    )]
    Numbering {
        /// The physical function.
        physical: u16,
        /// The first virtual one whose ID is taken, from zero.
        index: u16,
        /// What gives it.
        numbering: VfNumbering,
    },
    /// [`EndpointLimits::max_outstanding_reads`].
    #[error("max_outstanding_reads {0}: legal are 1 to 768")]
    OutstandingReads(u16),
    /// [`EndpointLimits::max_requests`].
    #[error("max_requests {0}: legal are 1 to 32768")]
    Requests(u16),
    /// [`EndpointLimits::max_dma_len`].
    #[error("max_dma_len {0}: legal are 1 B to 1 GiB")]
    DmaLen(u32),
    /// [`EndpointLimits::completion_timeout`].
    #[error("completion_timeout {0}: legal are 50 us (50000 ns) to 50 ms (50000000 ns)")]
    CompletionTimeout(Duration),
}

impl EndpointLimits {
    fn check(&self) -> Result<(), EndpointError> {
        if !(1..=768).contains(&self.max_outstanding_reads) {
            return Err(EndpointError::OutstandingReads(self.max_outstanding_reads));
        }
        if !(1..=32768).contains(&self.max_requests) {
            return Err(EndpointError::Requests(self.max_requests));
        }
        if !(1..=1 << 30).contains(&self.max_dma_len) {
            return Err(EndpointError::DmaLen(self.max_dma_len));
        }
        if !(Duration::from_us(50)..=Duration::from_ms(50)).contains(&self.completion_timeout) {
            return Err(EndpointError::CompletionTimeout(self.completion_timeout));
        }
        Ok(())
    }
}

/// What the functions of an endpoint share.
pub(crate) struct Shared {
    limits: EndpointLimits,
    pool: PayloadPool,
    counters: Counters,
    requests: Requests,
    /// The ID of function 0: captured bus and device number (`PCIe 5.0 §2.2.6.2`); zero before the first configuration
    /// write.
    bus_device: u16,
    /// What the endpoint itself sends.
    own: Own,
    /// When it has to be polled again though nothing came in.
    wake: Option<Time>,
    /// More than refusals asked for `wake`: no pause may put it off.
    wake_is_firm: bool,
    /// How many transactions were accepted: their order.
    stamps: u64,
    /// There was room for some Traffic Classes and not for others: they do not share one channel.
    several_channels: bool,
}

impl Shared {
    /// Which polls find something here.
    #[inline]
    fn ready(&self) -> Ready {
        self.own.ready().or(Ready::when(self.requests.has_credit(), Ready::TAKEN))
    }

    /// The place of a transaction in the order in which all were accepted.
    fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    fn wake_at(&mut self, time: Time) {
        self.wake_is_firm = true;
        self.wake = earlier(self.wake, Some(time));
    }

    /// The device has heard of a refusal and may want something else now; [`pause`](Self::pause) goes before.
    fn wake_after_refusal(&mut self, now: Time) {
        self.wake = earlier(self.wake, Some(now));
    }

    #[cold]
    fn pause(&mut self, now: Time) {
        if !self.wake_is_firm {
            self.wake = Some(now + PAUSE);
        }
    }

    fn bad_output(&mut self) -> Option<Tlp> {
        self.counters.bad_outputs += 1;
        None
    }

    fn blocked(&mut self) -> Option<Tlp> {
        self.counters.blocked_by_bus_master += 1;
        None
    }

    /// The DW that an I/O read is answered with: the bytes of `span` in their places.
    fn whole_dw(&self, span: Span, data: &Data) -> Data {
        let Some(bytes) = data.bytes() else { return Data::Counted(4) };
        let first = span.lead() as usize;
        Data::Carried(self.pool.fill(4, |dw| {
            for (to, from) in dw.iter_mut().skip(first).zip(bytes) {
                *to = *from;
            }
        }))
    }

    /// What answers a zero-length read: one byte without meaning.
    fn one_byte(&self, carry: bool) -> Data {
        if carry { Data::Carried(self.pool.copy(&[0])) } else { Data::Counted(1) }
    }
}

/// The first of two times that there may be.
#[inline]
fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// An endpoint: functions, each with a [`Device`], behind one link.
pub struct Endpoint {
    name: String,
    /// Physical ones, then those virtual ones that have been made.
    functions: Vec<Function>,
    /// How many of them are physical.
    physical: usize,
    /// Virtual functions, by the number of their physical one.
    virtual_functions: BTreeMap<u16, VfSet>,
    routes: Routes,
    shared: Shared,
    /// The function that sends next, by class.
    turn: [u16; 3],
    /// A function has ECRC Generation Enable set.
    ecrc_generation: bool,
    /// What `own_ready` has found; forgotten wherever what is under way may change.
    own: Cell<Option<Ready>>,
    /// What they have to do, where they are many.
    agenda: Option<Box<Agenda>>,
}

impl Endpoint {
    /// An endpoint as it is after a fundamental reset.
    ///
    /// # Errors
    /// Where the number of functions or a limit is not legal.
    pub fn new(config: EndpointConfig) -> Result<Endpoint, EndpointError> {
        let EndpointConfig { name, functions, limits, pool } = config;
        limits.check()?;
        if !(1..=256).contains(&functions.len()) {
            return Err(EndpointError::Functions(functions.len()));
        }
        let alternative = functions.iter().all(|f| f.config.extended_capability(ARI).is_some());
        if functions.len() > 8 && !alternative {
            return Err(EndpointError::Ari(functions.len()));
        }
        let shared = Shared {
            limits,
            pool,
            counters: Counters::default(),
            requests: Requests::new(limits.max_requests),
            bus_device: 0,
            own: Own::default(),
            wake: None,
            wake_is_firm: false,
            stamps: 0,
            several_channels: false,
        };
        let mut functions: Vec<Function> =
            (0..).zip(functions).map(|(i, f)| Function::new(i, f.config, f.device, &shared)).collect();
        let agenda = Agenda::of(&mut functions, false);
        let mut endpoint = Endpoint {
            name,
            physical: functions.len(),
            functions,
            virtual_functions: BTreeMap::new(),
            routes: Routes::default(),
            shared,
            turn: [0; 3],
            ecrc_generation: false,
            own: Cell::new(None),
            agenda,
        };
        endpoint.refresh_routes();
        Ok(endpoint)
    }

    /// What reports call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The configuration space of a function.
    #[must_use]
    pub fn config(&self, function: u8) -> Option<&ConfigSpace> {
        self.functions.get(usize::from(function)).map(|f| &f.config)
    }

    /// The ID of a function: captured bus and device number.
    #[must_use]
    pub fn function_id(&self, function: u8) -> Option<Bdf> {
        self.functions.get(usize::from(function)).map(|f| f.id(&self.shared))
    }

    /// Tags of a function in use, quarantined ones among them, and all it has.
    #[must_use]
    pub fn tags(&self, function: u8) -> Option<(u16, u16)> {
        self.functions.get(usize::from(function)).map(|f| (f.reads.tags.in_use(), f.reads.tags.count()))
    }

    /// Address and data of each entry of a function's MSI-X table, in their order; empty where it has none.
    #[must_use]
    pub fn msix_table(&self, function: u8) -> Vec<(u64, u32)> {
        let msix = self.functions.get(usize::from(function)).and_then(|f| f.msix.as_ref());
        msix.map_or_else(Vec::new, |msix| msix.messages().map(|m| (m.address, m.data)).collect())
    }

    /// The configuration space of the function that has this ID, virtual ones among them.
    #[must_use]
    pub fn config_of(&self, id: Bdf) -> Option<&ConfigSpace> {
        self.function_of(id).map(|f| &self.functions[f].config)
    }

    /// Writes a register as a configuration write of type 0 with `id` would, without a TLP; `id` is captured likewise.
    /// Nothing happens where there is no such function.
    pub fn write_config(&mut self, now: Time, id: Bdf, register_dw: u16, byte_enables: u8, value: u32) {
        if let Some(index) = self.function_on_bus(id) {
            self.shared.bus_device = self.first_id(id);
            self.configure(now, index, register_dw, byte_enables, value);
        }
        self.own.set(None);
    }

    /// Resets all functions; Function Level Reset too means every one. After a fundamental or hot reset bus and device
    /// number are unknown, and what was received or not yet sent is void: the link begins anew with all credits.
    pub fn reset(&mut self, now: Time, kind: ResetKind) {
        for index in 0..self.functions.len() {
            self.functions[index].reset(now, &mut self.shared, kind);
            self.refresh_function(now, index);
        }
        self.refresh_routes();
        if kind != ResetKind::FunctionLevel {
            let shared = &mut self.shared;
            shared.bus_device = 0;
            shared.own = Own::default();
            shared.requests.forget_credits();
        }
        self.refresh_ecrc();
        self.own.set(None);
    }

    /// To be called whenever registers may have changed.
    fn refresh_ecrc(&mut self) {
        self.ecrc_generation = self.functions.iter().any(|f| f.settings.ecrc_generation);
    }

    /// Adds the digest to what a function sends that is to generate it (`PCIe 5.0 §2.7.1`).
    fn add_digest(&self, tlp: &mut Tlp) {
        let (requester, _) = tlp.repr.transaction();
        let sender = match tlp.repr.body {
            Body::Completion(c) => c.completer,
            _ => requester,
        };
        let function = self.function_of(sender);
        tlp.repr.td |= function.is_some_and(|f| self.functions[f].settings.ecrc_generation);
    }

    /// Which polls find something that is under way here already; what devices have comes on top.
    #[inline]
    fn own_ready(&self) -> Ready {
        if let Some(ready) = self.own.get() {
            return ready;
        }
        let ready = match &self.functions[..] {
            // Most have one, and a loop costs more than what it does.
            [only] => self.shared.ready().or(only.ready()),
            several => several.iter().fold(self.shared.ready(), |ready, f| ready.or(f.ready())),
        };
        self.own.set(Some(ready));
        ready
    }

    /// The next TLP of `class`, if there is one. (Here and below a TLP is made where it is returned: to move one just
    /// after its fields were written costs more than to make it.)
    #[inline(always)]
    fn next_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.shared.ready().contains(Ready::output(class)) {
            let own = self.next_own(now, class, room);
            if own.is_some() {
                return own;
            }
        }
        if self.functions.len() == 1 {
            return self.poll_function(now, class, room, 0);
        }
        self.next_of_functions(now, class, room)
    }

    fn next_with_digest(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let mut tlp = self.next_tlp(now, class, room)?;
        self.add_digest(&mut tlp);
        Some(tlp)
    }

    /// Functions take turns.
    fn next_of_functions(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if self.agenda.is_some() {
            return self.next_of_many(now, class, room);
        }
        let count = self.functions.len();
        let mut index = usize::from(self.turn[class.index()]);
        for _ in 0..count {
            let next = if index + 1 < count { index + 1 } else { 0 };
            let function = &self.functions[index];
            if function.ready().or(function.device.ready()).contains(Ready::output(class)) {
                let tlp = self.poll_function(now, class, room, index);
                if tlp.is_some() {
                    self.turn[class.index()] = next as u16;
                    return tlp;
                }
            }
            index = next;
        }
        None
    }

    fn next_credit(&mut self) -> Option<CreditReturn> {
        if let Some(credit) = self.shared.requests.next_credit() {
            return Some(credit);
        }
        let mut stale = 0;
        for index in 0..self.functions.len() {
            if let ControlFlow::Break(credit) = self.next_taken(index, &mut stale) {
                return credit;
            }
        }
        None
    }

    #[inline(always)]
    fn poll_function(&mut self, now: Time, class: Class, room: TcSet, index: usize) -> Option<Tlp> {
        let (function, shared) = (&mut self.functions[index], &mut self.shared);
        match class {
            Class::Posted => function.poll_posted(now, shared, room),
            Class::NonPosted => function.poll_non_posted(now, shared, room),
            Class::Completion => function.poll_completion(now, shared, room),
        }
    }
}

impl TlpPort for Endpoint {
    fn handle_tlp(&mut self, now: Time, tlp: Tlp) {
        self.receive(now, tlp);
        self.own.set(None);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        if room != TcSet::ALL && !std::mem::replace(&mut self.shared.several_channels, true) {
            self.find_several_channels();
        }
        self.own.set(None);
        if self.ecrc_generation {
            return self.next_with_digest(now, class, room);
        }
        self.next_tlp(now, class, room)
    }

    #[inline]
    fn ready(&self) -> Ready {
        match &self.functions[..] {
            [only] => self.own_ready().or(only.device.ready()),
            few if few.len() <= FEW => {
                few.iter().fold(self.own_ready(), |ready, f| ready.or(f.device.ready()))
            }
            _ => {
                let agenda = self.agenda.as_ref();
                self.shared.ready().or(agenda.map_or(Ready::ALL, |agenda| agenda.ready(&self.functions)))
            }
        }
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        // What is there is cheaper to take than to ask for.
        if !self.shared.requests.has_credit() && !self.ready().contains(Ready::TAKEN) {
            return None;
        }
        if self.agenda.is_some() {
            return self.next_credit_of_many();
        }
        let credit = self.next_credit();
        // Of what is under way here only credits have changed.
        let credits = Ready::when(self.shared.requests.has_credit(), Ready::TAKEN);
        self.own.set(self.own.get().map(|own| own.without(Ready::TAKEN).or(credits)));
        credit
    }

    fn poll_timeout(&self) -> Option<Time> {
        match &self.functions[..] {
            [only] => earlier(self.shared.wake, only.poll_timeout()),
            few if few.len() <= FEW => {
                few.iter().fold(self.shared.wake, |first, f| earlier(first, f.poll_timeout()))
            }
            many => {
                let agenda = self.agenda.as_ref();
                earlier(self.shared.wake, agenda.and_then(|agenda| agenda.next_timeout(many)))
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.shared.wake.is_some_and(|t| t <= now) {
            (self.shared.wake, self.shared.wake_is_firm) = (None, false);
        }
        if self.agenda.is_some() {
            self.handle_timeout_of_many(now);
        } else {
            for function in &mut self.functions {
                function.handle_timeout(now, &mut self.shared);
            }
        }
        self.own.set(None);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.notice(now, notice);
        self.own.set(None);
    }

    fn power_on(&mut self, now: Time) {
        self.reset(now, ResetKind::Fundamental);
    }

    fn longest_non_posted(&self) -> u32 {
        self.functions.iter().map(|f| f.config.longest_non_posted()).max().unwrap_or(4)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.shared.counters.rows().filter(|(_, n)| *n > 0).collect()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.shared.counters.errors().collect()
    }

    fn waits_for(&self) -> Option<String> {
        let several = self.functions.len() > 1;
        let parts = self.functions.iter().filter_map(|f| {
            let what = f.waits_for(&self.shared)?;
            Some(if several { format!("function {}: {what}", f.number) } else { what })
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("{}: {}", self.name, parts.join("; ")))
    }
}
