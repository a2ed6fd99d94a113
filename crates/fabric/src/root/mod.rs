// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root complex: one root port per link, host memory with its timing, and the host's own requests.
//!
//! Each root port behaves like any other owner of a port: TLPs come in, TLPs and credits are polled out. Sans-IO: the
//! driver takes the effects of each call outside the root complex ([`effects`](crate::effects)).
//!
//! - [`inbound`]: arriving TLPs, and the part that takes each;
//! - [`completer`]: requests of devices that need an answer: jobs, and their completions;
//! - [`requester`]: requests of the host to devices: tags, matching, completion timeout;
//! - [`peer`]: TLPs from one root port to another.
//!
//! All these modules share one base:
//!
//! - root ports with their queues ([`lanes`]), as [`function`]s with configuration spaces, errors and interrupts; the events at
//!   their [`links`], and the [`messages`] that they receive;
//! - [`refusals`]: why TLPs are refused;
//! - [`memory`]: host memory with its timing; [`inbox`]: inputs on their way to the host.
//!
//! A root port without a configuration space is **bare**: it forwards every request upstream, [`AddressMap`] determines
//! the addresses below it, and its link always counts as up. A bare port is sufficient for studies of links alone.

mod completer;
mod function;
mod inbound;
mod inbox;
mod lanes;
mod links;
mod memory;
mod messages;
mod peer;
mod refusals;
mod requester;

use crate::effects::{Due, Effect, Effects};
use crate::ledger::HostIssue;
use crate::memory_system::MemoryCounters;
use crate::profile::{HostProfile, WriteLoad};
use crate::topology::AddressMap;
use completer::{Completer, LatestRead};
use config::ConfigSpace;
use endpoint::CreditReturn;
use function::Function;
pub use function::{MAX_ROOT_FUNCTIONS, RootFunctionCounters};
use host::caches::CachePreparation;
use host::memory::HostMemory;
use host::{HostInput, HostOutput};
use inbox::Inbox;
use lanes::{Lanes, Stamped};
use memory::TimedMemory;
pub(crate) use memory::{ReadTurn, WriteTurn};
use peer::Peers;
pub use peer::SPLIT_BYTES;
use requester::{Pending, Requester};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use tlp::message::MessageCodes;
use tlp::rules::Refusals;
use tlp::{
    Attributes, Bdf, Class, Duration, Mps, PayloadPool, Rcb, TaggedRequests, TcSet, Time, Tlp, TrafficClass,
};

/// Requester ID of the root complex, 00:00.0.
const ROOT_ID: Bdf = Bdf::from_bits(0);

/// The settings of one root port.
#[derive(Clone, Debug)]
pub struct RootPortConfig {
    /// Max_Payload_Size of the path. If the port is a function, its registers replace this value, except with `preset`.
    pub mps: Mps,
    /// Read Completion Boundary. If the port is a function, its registers replace this value.
    pub rcb: Rcb,
    /// Configuration space of the root port, with a type 1 header. The root port is function 00:(n+1).0; there are up
    /// to [`MAX_ROOT_FUNCTIONS`]. `None`: a bare root port with the windows of [`AddressMap`], which software cannot
    /// see.
    pub space: Option<ConfigSpace>,
    /// Whether the port starts as firmware leaves it, with Memory Space, I/O Space and Bus Master Enable, and
    /// Max_Payload_Size set: for devices that are not enumerated.
    pub preset: bool,
}

/// How the root complex passes requests on from one root port to another (`PCIe 5.0 §1.3.1` leaves it open).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeerToPeer {
    /// Unchanged.
    #[default]
    Forward,
    /// Reads are split into the root complex's own reads of 64 B, whose completions it puts together again, as in a
    /// capture of a real one (NetTLP, `root-complex/mrd-512byte-rc.pcap`). Writes longer than Max_Payload_Size of the
    /// other root port are split to that size.
    Split,
    /// Not at all: UR.
    Refuse,
}

/// Counters of the root complex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RootCounters {
    /// Memory reads served.
    pub memory_reads: u64,
    /// Memory writes served, including deferrable ones.
    pub memory_writes: u64,
    /// AtomicOps carried out on memory.
    pub atomics: u64,
    /// Interrupt messages (MSI, MSI-X) received.
    pub interrupts: u64,
    /// Messages received.
    pub messages: u64,
    /// Of these: ERR_COR, ERR_NONFATAL and ERR_FATAL (`PCIe 5.0 §2.2.8.3`).
    pub error_messages: u64,
    /// Of these: PM_PME and PME_TO_Ack (§2.2.8.2).
    pub power_messages: u64,
    /// Of these: Assert_INTx and Deassert_INTx (§2.2.8.1).
    pub legacy_interrupts: u64,
    /// Of these: Vendor_Defined (§2.2.8.6).
    pub vendor_messages: u64,
    /// Requests that no memory answers, and messages without a receiver: UR.
    pub unsupported_requests: u64,
    /// TLPs that break a rule of their format, such as more data than Max_Payload_Size: dropped (`PCIe 5.0 §2.2.9`,
    /// §6.2.3.4). Also completions that do not match their request (§2.3.2), which fail the request.
    pub malformed: u64,
    /// TLPs with a wrong ECRC: dropped (`PCIe 5.0 §2.7.1`). Root ports that are functions check the ECRC if ECRC Check
    /// Enable is set.
    pub ecrc_errors: u64,
    /// Poisoned writes, AtomicOps, messages and interrupts: ignored, as `PCIe 5.0 §2.7.2.2` demands of memory. Poisoned
    /// completions: their requests fail.
    pub poisoned: u64,
    /// Completions that answer no open request (`PCIe 5.0 §2.3.2`).
    pub unexpected_completions: u64,
    /// Requests of the host that were not completed in time.
    pub completion_timeouts: u64,
}

impl RootCounters {
    /// Errors: names and counts that are not zero.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = [
            ("unsupported_requests", self.unsupported_requests),
            ("malformed", self.malformed),
            ("ecrc_errors", self.ecrc_errors),
            ("poisoned", self.poisoned),
            ("unexpected_completions", self.unexpected_completions),
            ("completion_timeouts", self.completion_timeouts),
            ("error_messages", self.error_messages),
        ];
        counts.into_iter().filter(|(_, n)| *n > 0)
    }
}

/// The root complex: its parts, each with its own duty and state.
pub struct RootComplex {
    base: Base,
    completer: Completer,
    requester: Requester,
    peers: Peers,
}

/// The common base of all parts: root ports with their functions, host memory, the way to the host, and the effects for
/// the driver.
struct Base {
    profile: HostProfile,
    map: AddressMap,
    memory: TimedMemory,
    payloads: PayloadPool,
    ports: Vec<RootPort>,
    /// Messages that the host program accepts in addition to the ones that every root complex accepts.
    program_messages: MessageCodes,
    inbox: Inbox,
    counters: RootCounters,
    refusals: Refusals,
    /// Counters of root ports that are functions.
    function_counters: RootFunctionCounters,
    /// True if some root port is a function.
    has_functions: bool,
    /// True if requests may go from one root port to another.
    passes_peers: bool,
    /// When the host issued the TLP that was polled last.
    asked: Option<HostIssue>,
    effects: Effects,
    stamps: u64,
}

/// Maximum number of posted TLPs of the host of one Traffic Class that wait at a root port; further ones wait in the program.
const MAX_POSTED_OUT: usize = 16;

/// The longest memory read (`PCIe 5.0 §2.2.7`).
const MAX_READ_BYTES: u32 = 4096;

/// The requests from below that must be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watch {
    /// No peers: all requests are for memory, or have no target.
    Nothing,
    /// Requests that memory does not answer. They may be for another root port.
    BesideMemory,
    /// All.
    Everything,
}

struct RootPort {
    config: PortSettings,
    /// The settings without registers.
    bare: PortSettings,
    watch: Watch,
    function: Option<Box<Function>>,
    /// Tags of the host's requests.
    tags: TaggedRequests<Pending>,
    /// Maximum number of outstanding requests of the host.
    max_requests: u16,
    /// Requests of the host to be sent, each with its place in the program's order.
    posted_out: Lanes<Outbound>,
    non_posted_out: Lanes<Outbound>,
    /// Read jobs whose data is available, in order.
    ready: Lanes<Ready>,
    /// Completions for devices that come from other root ports.
    passing: Lanes<Outbound>,
    /// Requests of the device that wait for a place in the memory system, to be answered.
    waiting: Lanes<Tlp>,
    /// Reads under way in the memory system, by Traffic Class.
    reads_under_way: [u32; 8],
    /// Credits to return now, and credits to return when memory has drained the data.
    credits: Vec<CreditReturn>,
    draining: VecDeque<(Time, CreditReturn)>,
    /// Whether the latest read touched eight lines or more.
    streams: bool,
    /// If the host splits completions.
    latest_read: LatestRead,
    /// If the device has a `write_line_gap`.
    writes: WriteLoad,
    /// Time that the link takes for a cache line of data; zero until the link has reported its speed.
    line_time: Duration,
}

/// The settings that a root port needs for each TLP.
#[derive(Clone, Copy)]
struct PortSettings {
    mps: Mps,
    rcb: Rcb,
    /// Attributes of a request that its completions may copy.
    completion_attributes: Attributes,
    /// Attributes that messages of the host may have.
    request_attributes: Attributes,
    /// Max_Read_Request_Size of the host's reads, in bytes; the maximum for a bare port.
    mrrs: u32,
    /// Timeout of a request of the host; `None`: no timeout.
    completion_timeout: Option<Duration>,
    /// Whether TLPs of the root complex have an ECRC.
    ecrc: bool,
}

struct Outbound {
    stamp: u64,
    /// When the TLP reaches the root port.
    at: Time,
    /// Time at which the host issued the request, if its transaction begins here.
    asked: Option<Time>,
    tlp: Tlp,
    /// Credits to return when the TLP is sent, and the root port through which it came in.
    credit: Option<(u32, CreditReturn)>,
}

impl Outbound {
    fn came_through(&self, port: usize) -> bool {
        self.credit.is_some_and(|(from, _)| from as usize == port)
    }
}

impl Stamped for Outbound {
    fn stamp(&self) -> u64 {
        self.stamp
    }
}

#[derive(Clone, Copy)]
struct Ready {
    stamp: u64,
    job: u32,
}

impl Stamped for Ready {
    fn stamp(&self) -> u64 {
        self.stamp
    }
}

impl RootComplex {
    /// Makes a root complex with these root ports, which reaches `memory`. A root port whose space has a type 0 header
    /// counts as bare.
    pub fn new(
        profile: HostProfile,
        memory: HostMemory,
        payloads: PayloadPool,
        ports: Vec<RootPortConfig>,
    ) -> RootComplex {
        let ports: Vec<RootPort> =
            ports.into_iter().enumerate().map(|(n, config)| RootPort::new(n, config, &profile)).collect();
        let has_functions = ports.iter().any(|p| p.function.is_some());
        let base = Base {
            program_messages: messages::FOR_PROGRAM,
            memory: TimedMemory::new(memory, &profile, ports.len()),
            profile,
            map: AddressMap,
            payloads,
            ports,
            inbox: Inbox::default(),
            counters: RootCounters::default(),
            refusals: Refusals::default(),
            function_counters: RootFunctionCounters::default(),
            has_functions,
            passes_peers: false,
            asked: None,
            effects: Effects::default(),
            stamps: 0,
        };
        let (completer, requester, peers) = (Completer::default(), Requester::default(), Peers::default());
        let mut root = RootComplex { base, completer, requester, peers };
        root.set_peer_to_peer(PeerToPeer::default());
        root
    }

    /// Sets how requests between root ports are handled from now on.
    pub fn set_peer_to_peer(&mut self, mode: PeerToPeer) {
        self.peers.mode = mode;
        let passes = self.base.has_functions && mode != PeerToPeer::Refuse && self.base.ports.len() > 1;
        self.base.passes_peers = passes;
        self.base.ports.iter_mut().for_each(|port| port.follow_registers(passes));
    }

    /// Puts root port `port` into the state in which firmware leaves it: see [`RootPortConfig::preset`].
    pub fn preset(&mut self, port: usize) {
        let passes = self.base.passes_peers;
        if let Some(port) = self.base.ports.get_mut(port) {
            let mps = port.bare.mps;
            port.function.iter_mut().for_each(|function| function.bridge.preset(mps));
            port.follow_registers(passes);
        }
    }

    /// Draws memory latencies with `seed` from now on.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> RootComplex {
        if let Some(system) = self.base.memory.system() {
            system.seed(seed);
        }
        self
    }

    /// From now on, has each request meet the longest latency of the host's profile that is expected once among this many
    /// requests, instead of latencies drawn by their probability. So few requests show the maximum of many.
    pub fn draw_rarest_of(&mut self, samples: u64) {
        if let Some(system) = self.base.memory.system() {
            system.draw_rarest_of(samples);
        }
    }

    /// Restricts DMA of `requester` to the `bytes` from `first` on, from now on. A request outside this range is
    /// answered with UR and counted as a translation fault, as by an Intel IOMMU. It has no effect if no IOMMU is in
    /// use.
    pub fn restrict_dma(&mut self, requester: Bdf, first: u64, bytes: u64) {
        if let Some(system) = self.base.memory.system() {
            system.restrict(requester, first, bytes);
        }
    }

    /// The memory of the host.
    pub(crate) fn memory(&self) -> &HostMemory {
        self.base.memory.contents()
    }

    /// Directs DMA of `requester` to `memory` instead of this host's memory, from now on.
    pub(crate) fn grant_dma(&mut self, requester: Bdf, memory: HostMemory) {
        self.base.memory.grant(requester, memory);
    }

    /// Directs DMA of `requester` to this host's own memory again.
    pub(crate) fn revoke_dma(&mut self, requester: Bdf) {
        self.base.memory.revoke(requester);
    }

    /// Puts the caches into a known state.
    fn prepare_cache(&mut self, preparation: &CachePreparation) {
        let port = match preparation {
            CachePreparation::WriteByDevice { requester, .. }
            | CachePreparation::ThrashByDevice { requester, .. }
            | CachePreparation::TransfersOfDevice { requester, .. } => self.base.port_of_bus(requester.bus()),
            CachePreparation::ThrashByHost | CachePreparation::WriteByHost { .. } => None,
        };
        if let Some(system) = self.base.memory.system() {
            system.prepare(preparation, port.unwrap_or(0));
        }
    }

    /// Counters of caches and IOMMU, if the profile describes them.
    pub fn memory_counters(&self) -> Option<&MemoryCounters> {
        self.base.memory.counters()
    }

    /// Counters of the root complex.
    pub fn counters(&self) -> &RootCounters {
        &self.base.counters
    }

    /// The next TLP of `class` to send at root port `port`, of one of the Traffic Classes in `room`.
    #[inline(always)]
    pub(crate) fn poll_tlp(&mut self, port: usize, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        match class {
            Class::Posted => {
                let out = self.base.ports[port].pop_posted(now, room)?;
                Some(self.base.leave_port(now, out))
            }
            Class::NonPosted => {
                let out = self.base.ports[port].pop_non_posted(now, room)?;
                Some(self.base.leave_port(now, out))
            }
            Class::Completion => {
                let tlp = self.completer.next_completion(&mut self.base, port, now, room);
                // The TLP is read in place, to avoid one more move.
                tlp.iter().for_each(|tlp| self.job_left(port, tlp.repr.tc, now));
                tlp
            }
        }
    }

    /// Returns when the host issued the TLP of `class` that [`poll_tlp`](Self::poll_tlp) has just returned, if a
    /// transaction begins with this TLP.
    pub(crate) fn poll_asked(&mut self, class: Class) -> Option<HostIssue> {
        if class == Class::Completion { None } else { self.base.asked.take() }
    }

    /// The effects of calls, in order; the caller must take all of them after each call.
    pub(crate) fn effects(&mut self) -> &mut Vec<Effect> {
        &mut self.base.effects.all
    }

    /// The classes with TLPs to send at root port `port`, now or soon: bits by [`Class::index`].
    pub(crate) fn outputs(&self, port: usize) -> u8 {
        self.base.ports[port].outputs()
    }

    /// True if root port `port` has credits to return.
    pub(crate) fn owes_credits(&self, port: usize) -> bool {
        !self.base.ports[port].credits.is_empty()
    }

    /// Credits of TLPs that left the receive buffer of root port `port`, oldest first; the caller takes all of them.
    pub(crate) fn owed_credits(&mut self, port: usize) -> &mut Vec<CreditReturn> {
        &mut self.base.ports[port].credits
    }

    /// Handles data that was due at `port` by `now` and that memory has drained.
    pub(crate) fn drained(&mut self, port: usize, now: Time) {
        let port_state = &mut self.base.ports[port];
        while port_state.draining.front().is_some_and(|(at, _)| *at <= now) {
            port_state.credits.extend(port_state.draining.pop_front().map(|(_, credit)| credit));
        }
        if let Some((at, _)) = port_state.draining.front() {
            self.base.effects.wake(*at, Due::Drained(port as u32));
        }
    }

    /// The next input that reaches the host program by `now`, oldest first.
    pub(crate) fn poll_host_input(&mut self, now: Time) -> Option<HostInput> {
        self.base.inbox.poll(now)
    }

    /// Returns the reason for which root port `port` waits, if any.
    pub(crate) fn waits_for(&self, port: usize) -> Option<String> {
        let p = &self.base.ports[port];
        let open = p.open_requests();
        let parts = [
            (open, "completions of host requests"),
            (p.posted_out.len(), "posted host requests waiting to be sent"),
            (p.passing.len(), "completions of other root ports' devices waiting to be sent"),
            (p.ready.len(), "read completions waiting to be sent"),
            (p.waiting.len(), "device requests waiting for memory"),
        ];
        let text: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        (!text.is_empty()).then(|| text.join(", "))
    }

    /// Returns whether a TLP or input is in transit through the host, memory has not yet delivered data or freed room,
    /// or a completion timer runs.
    pub(crate) fn is_waiting(&self, now: Time) -> bool {
        let leaving = |lanes: &Lanes<Outbound>| lanes.backs().any(|out| out.at > now);
        self.base.inbox.is_coming(now)
            || self.completer.in_memory > 0
            || self.base.ports.iter().any(|p| {
                p.tags.next_deadline().is_some()
                    || !p.draining.is_empty()
                    || [&p.posted_out, &p.non_posted_out, &p.passing].into_iter().any(leaving)
            })
    }

    /// The root port that `output` would leave through.
    pub(crate) fn port_of(&self, output: Option<&HostOutput>) -> Option<usize> {
        match output? {
            HostOutput::MmioWrite { address, .. }
            | HostOutput::MmioRead { address, .. }
            | HostOutput::WriteDeferrable { address, .. }
            | HostOutput::Atomic { address, .. } => self.base.port_of_address(*address),
            HostOutput::IoRead { address, .. } | HostOutput::IoWrite { address, .. } => {
                self.base.port_of_io(*address)
            }
            HostOutput::ConfigRead { function, .. } | HostOutput::ConfigWrite { function, .. } => {
                self.base.port_of_bus(function.bus())
            }
            HostOutput::Message { toward, message } => self.base.port_of_message(*toward, message),
            _ => None,
        }
    }
}

/// The state of root ports that callers may read.
impl RootComplex {
    /// Configuration space of root port `port`; `None` for a bare one.
    pub fn space(&self, port: usize) -> Option<&ConfigSpace> {
        self.base.ports.get(port)?.function.as_ref().map(|f| f.bridge.space())
    }

    /// The interrupt wires of root port `port`, from its function and from below: INTA in bit 0 to INTD in bit 3.
    pub fn wires(&self, port: usize) -> u8 {
        self.base.ports.get(port).and_then(|p| p.function.as_ref()).map_or(0, |f| f.told)
    }

    /// Counters of root ports that are functions.
    pub fn function_counters(&self) -> &RootFunctionCounters {
        &self.base.function_counters
    }
}

impl Base {
    /// Returns the next place in the order of everything sent towards devices.
    fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    fn leave_port(&mut self, now: Time, out: Outbound) -> Tlp {
        self.give_back(now, out.credit);
        self.asked = out.asked.map(|at| HostIssue { at, left_at: out.at });
        out.tlp
    }

    fn tell_host(&mut self, at: Time, input: HostInput) {
        self.inbox.tell(at, input, &mut self.effects);
    }

    fn return_credits(&mut self, port: usize, tlp: &Tlp) {
        let credit = CreditReturn::of(tlp);
        self.ports[port].credits.push(credit);
    }
}

impl RootPort {
    fn new(number: usize, config: RootPortConfig, profile: &HostProfile) -> RootPort {
        let RootPortConfig { mps, rcb, space, preset } = config;
        let preset = preset.then_some(mps);
        let function = space.and_then(|space| Function::new(space, number, preset)).map(Box::new);
        let bare = PortSettings {
            mps,
            rcb,
            completion_attributes: Attributes::COMPLETED,
            request_attributes: Attributes::all(),
            mrrs: MAX_READ_BYTES,
            completion_timeout: Some(profile.completion_timeout),
            ecrc: false,
        };
        RootPort {
            config: bare,
            bare,
            watch: Watch::Nothing,
            function,
            tags: requester::tags(profile.max_host_requests_per_port),
            max_requests: profile.max_host_requests_per_port,
            posted_out: Lanes::with_capacity(MAX_POSTED_OUT),
            non_posted_out: Lanes::with_capacity(0),
            ready: Lanes::with_capacity(64),
            passing: Lanes::with_capacity(0),
            waiting: Lanes::with_capacity(0),
            reads_under_way: [0; 8],
            credits: Vec::with_capacity(16),
            draining: VecDeque::new(),
            streams: false,
            latest_read: LatestRead::default(),
            writes: WriteLoad::default(),
            line_time: Duration::ZERO,
        }
    }

    fn outputs(&self) -> u8 {
        let posted = u8::from(!self.posted_out.is_empty()) << Class::Posted.index();
        let non_posted = u8::from(!self.non_posted_out.is_empty()) << Class::NonPosted.index();
        let completion = u8::from(!self.ready.is_empty() || !self.passing.is_empty());
        posted | non_posted | completion << Class::Completion.index()
    }

    /// True if the link carries TLPs and is not held down. Always true for a bare port.
    fn is_open(&self) -> bool {
        self.function.as_ref().is_none_or(|function| function.is_open())
    }

    fn pop_posted(&mut self, now: Time, room: TcSet) -> Option<Outbound> {
        let tc = self.posted_out.oldest(room, |_, out| out.at <= now)?;
        self.posted_out.pop(tc)
    }

    /// Takes the next read to send. A read does not pass an older posted request (`PCIe 5.0 §2.4.1`, entry B2a).
    fn pop_non_posted(&mut self, now: Time, room: TcSet) -> Option<Outbound> {
        let tc = self.non_posted_out.oldest(room, |tc, out| out.at <= now && self.passes(tc, out.stamp))?;
        self.non_posted_out.pop(tc)
    }

    /// Returns the next ready completion. A completion does not pass an older posted request either (entry D2a).
    #[inline(always)]
    fn front_ready(&self, room: TcSet) -> Option<(TrafficClass, Ready)> {
        let tc = self.ready.oldest(room, |tc, ready| self.passes(tc, ready.stamp))?;
        self.ready.front(tc).map(|ready| (tc, *ready))
    }

    /// Takes the next completion from another root port if it is older than `before`. This completion does not pass an
    /// older posted request either.
    fn pop_passing(&mut self, now: Time, room: TcSet, before: u64) -> Option<Outbound> {
        let may_go = |tc, out: &Outbound| out.at <= now && out.stamp < before && self.passes(tc, out.stamp);
        let tc = self.passing.oldest(room, may_go)?;
        self.passing.pop(tc)
    }

    /// True if no posted request of the same Traffic Class is older.
    fn passes(&self, tc: TrafficClass, stamp: u64) -> bool {
        self.posted_out.front(tc).is_none_or(|p| p.stamp > stamp)
    }
}
