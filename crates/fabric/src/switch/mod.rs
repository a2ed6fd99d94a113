// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch (`PCIe 5.0 §1.3.3`): one upstream port, up to 31 downstream ports, each a type 1 function, and an internal
//! bus between them on which downstream port `k` is device `k - 1`. Sans-IO: the switch depends neither on links
//! nor on an event loop, and never reads a clock.
//!
//! ```text
//!            port 0 (upstream)
//!                  |
//!       bridge 0: device 0 of its bus             handle_tlp ──> route ──> crossbar ──> poll_tlp
//!          ───┬────────┬────── internal bus                        |
//!       bridge 1    bridge 2: devices 0, 1 of it                   └──> answers, messages, interrupts of the
//!          |           |                                                switch itself: inputs of their own
//!        port 1      port 2 (downstream)
//! ```
//!
//! - [`route`]: the destination of a TLP: by address, by ID, by the routing of a message, through Access Control Services;
//! - [`crossbar`]: the queues, their order, and the next TLP to send; [`arbiter`]: port arbitration;
//! - [`inbound`]: the handling of an arriving TLP; [`messages`]: interrupts, broadcasts, gathered messages;
//! - [`links`]: events below: links that go down and come up, errors, resets.
//!
//! The driver calls [`Switch::handle_tlp`] when a TLP arrives. It then polls each port returned by
//! [`Switch::poll_touched`] for credits ([`Switch::poll_credits`]) and, class by class, for TLPs ([`Switch::poll_tlp`])
//! as long as the link of the port has room for one. The driver polls for TLPs again whenever the link gets room. The
//! receive buffers of the links hold the TLPs: a TLP keeps its credits until it is sent.

mod arbiter;
mod crossbar;
mod inbound;
mod links;
mod messages;
mod places;
mod refusals;
mod route;

pub use arbiter::PortArbitration;
pub use places::PlaceUntil;

pub use crate::bridge::Action;
use crate::bridge::{Bridge, DownReasons, Routes};
use crate::effects::{Effect, Effects};
use config::ConfigSpace;
use crossbar::{Crossbar, Entry};
use endpoint::CreditReturn;
use link::{TLP_FRAMING_BYTES, wire_time};
use places::BufferPlace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use thiserror::Error;
use tlp::rules::Refusals;
use tlp::{Bdf, Body, Class, Duration, PayloadPool, Rate, TcSet, Time, Tlp, Width};

/// Maximum number of downstream ports. With the upstream port there are 32 ports, each an input of the crossbar. With a
/// second input per port for the TLPs of the switch itself, the inputs fill a word of 64 bits.
pub const MAX_DOWNSTREAM_PORTS: usize = 31;
/// Maximum number of inputs of the crossbar, a word of bits: one per port, and one for the switch's own TLPs to each.
const MAX_INPUTS: usize = 64;
/// Maximum number of waiting messages of the switch itself. Further error messages are counted as lost.
const MAX_OWN_MESSAGES: u32 = 64;

/// When a switch forwards an arriving TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// When the complete TLP has arrived and its LCRC is correct.
    #[default]
    StoreAndForward,
    /// When its header has arrived, but not so early that the egress port would have to wait for the rest.
    CutThrough,
}

/// The time that an undelayed TLP spends in a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchTiming {
    /// From the end of reception (of the whole TLP, or of its header with [`Forwarding::CutThrough`]) to the first
    /// symbol at the egress.
    pub latency: Duration,
    /// Which end of reception counts.
    pub mode: Forwarding,
}

/// The settings of one port of a switch.
#[derive(Clone, Debug)]
pub struct SwitchPortConfig {
    /// Its configuration space, with a type 1 header.
    pub space: ConfigSpace,
    /// Number of TLPs of each class ([`Class::index`]) for which its receive buffer has room, over all virtual
    /// channels. At least the header credits that its link advertises.
    pub buffer_tlps: [u32; 3],
    /// Rate of its link until the link reports another ([`link::Notice::Up`]).
    pub rate: Rate,
    /// Width of its link until the link reports another.
    pub width: Width,
}

/// The parts and settings of a switch.
pub struct SwitchConfig {
    /// Port 0, towards the root complex.
    pub upstream: SwitchPortConfig,
    /// Ports 1 and up, at most [`MAX_DOWNSTREAM_PORTS`].
    pub downstream: Vec<SwitchPortConfig>,
    /// Latency and mode of forwarding.
    pub timing: SwitchTiming,
    /// How inputs share an egress port.
    pub arbitration: PortArbitration,
    /// Pool for the payload buffers of its answers.
    pub payloads: PayloadPool,
}

/// Reason why a switch cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SwitchError {
    /// The number of downstream ports is out of range.
    #[error("{0} downstream ports; expected 1 to {MAX_DOWNSTREAM_PORTS}")]
    DownstreamPorts(usize),
    /// A port's function has no type 1 header.
    #[error("port {0} of the switch has a type 0 header; expected type 1")]
    NoBridge(usize),
    /// A receive buffer has no room for a class.
    #[error("port {port} of the switch holds no {class:?} TLPs; expected 1 or more of each class")]
    Buffer {
        /// Number of the port.
        port: usize,
        /// The class without room.
        class: Class,
    },
    /// The number of weights differs from the number of ports.
    #[error(
        "{weights} weights for a switch of {ports} ports; expected one for each port, the upstream port first"
    )]
    Weights {
        /// Number of weights.
        weights: usize,
        /// Number of ports.
        ports: usize,
    },
    /// A port has the weight zero.
    #[error("weight 0 of port {0}; expected 1 to 65535 TLPs of a round")]
    Weight(usize),
}

/// Counters of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SwitchCounters {
    /// TLPs sent on from one port to another.
    pub forwarded: u64,
    /// Of these, TLPs from one downstream port to another.
    pub peer_to_peer: u64,
    /// Configuration requests that its own functions have answered.
    pub config_requests: u64,
    /// Requests that no port claims or takes: UR.
    pub unsupported_requests: u64,
    /// Requests that Access Control Services have blocked.
    pub acs_violations: u64,
    /// Completions that no port claims.
    pub unexpected_completions: u64,
    /// TLPs that break a rule of their format, or exceed Max_Payload_Size of the egress port.
    pub malformed: u64,
    /// TLPs with a wrong ECRC that end here.
    pub ecrc_errors: u64,
    /// Poisoned TLPs, forwarded unchanged except by Poisoned TLP Egress Blocking.
    pub poisoned: u64,
    /// TLPs dropped because the link of their egress port was down.
    pub link_down: u64,
    /// Messages that end here.
    pub messages: u64,
    /// TLPs without room, although the link accepted them.
    pub overflows: u64,
    /// Error messages of the switch itself that had no room.
    pub error_messages_lost: u64,
}

/// State of a link in the switch.
#[derive(Clone, Copy, Debug)]
struct PortLink {
    up: bool,
    rate: Rate,
    width: Width,
    /// Reasons that hold the link down.
    held: DownReasons,
}

impl PortLink {
    /// True if the link carries TLPs and is not held down.
    fn is_open(&self) -> bool {
        self.up && self.held.is_empty()
    }
}

/// The interface of a switch to its driver.
pub struct Switch {
    bridges: Vec<Bridge>,
    /// Copies of the registers that determine where TLPs go, one for each bridge.
    routes: Vec<Routes>,
    links: Vec<PortLink>,
    crossbar: Crossbar,
    credits: Vec<VecDeque<CreditReturn>>,
    timing: SwitchTiming,
    wires: messages::Wires,
    places: places::Places,
    /// Ports whose PME_TO_Ack is awaited.
    gathering: u64,
    payloads: PayloadPool,
    effects: Effects,
    counters: SwitchCounters,
    refusals: Refusals,
}

impl Switch {
    /// Makes a switch in its state after a fundamental reset, with its links down until [`handle_notice`](Self::handle_notice) reports
    /// otherwise.
    ///
    /// # Errors
    /// Fails if there are too few or too many ports, a function is not a bridge, or buffers or weights are invalid.
    pub fn new(config: SwitchConfig) -> Result<Switch, SwitchError> {
        config.validate()?;
        let SwitchConfig { upstream, downstream, timing, arbitration, payloads } = config;
        let ports: Vec<SwitchPortConfig> = std::iter::once(upstream).chain(downstream).collect();
        let mut limits: Vec<[u32; 3]> = ports.iter().map(|port| port.buffer_tlps).collect();
        // A request's credits return when its answer leaves.
        limits.resize(2 * ports.len(), [MAX_OWN_MESSAGES, 0, u32::MAX]);
        let link = |p: &SwitchPortConfig| PortLink {
            up: false,
            rate: p.rate,
            width: p.width,
            held: Default::default(),
        };
        let links = ports.iter().map(link).collect();
        let bridges: Vec<Bridge> = ports.into_iter().filter_map(|port| Bridge::new(port.space)).collect();
        let mut switch = Switch {
            routes: bridges.iter().map(Bridge::routes).collect(),
            links,
            crossbar: Crossbar::new(&limits, bridges.len(), &arbitration),
            credits: bridges.iter().map(|_| VecDeque::with_capacity(16)).collect(),
            timing,
            wires: messages::Wires::new(bridges.len()),
            places: Default::default(),
            gathering: 0,
            payloads,
            effects: Effects::default(),
            counters: SwitchCounters::default(),
            refusals: Refusals::default(),
            bridges,
        };
        switch.name_functions();
        Ok(switch)
    }

    /// Makes a non-posted request keep its place in the receive buffer, and its credits, until its last completion has
    /// reached the stage `until`, from now on. Bridges that reserve room for the response to every request behave like this
    /// (IISWC'18, §V-A). If there is no completion, the place is free when the egress link of the request goes down, or
    /// after `timeout`. The timeout must be at least the requester's completion timeout (`PCIe 5.0 §2.8`).
    pub fn keep_places(&mut self, until: PlaceUntil, timeout: Duration) {
        self.places.keep_all(until, timeout);
    }

    /// Number of ports, the upstream port included.
    pub fn ports(&self) -> usize {
        self.bridges.len()
    }

    /// Counters of the switch.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }

    /// Configuration space of `port`.
    pub fn space(&self, port: usize) -> &ConfigSpace {
        self.bridges[port].space()
    }

    /// ID of the function of `port`. The upstream port's ID is known after the first configuration write.
    pub fn id(&self, port: usize) -> Bdf {
        self.bridges[port].id()
    }

    /// The classes with TLPs to send at `port`, on any Traffic Class: bits by [`Class::index`].
    pub(crate) fn outputs(&self, port: usize) -> u8 {
        self.crossbar.outputs(port)
    }

    /// Returns the next TLP of `class` to send at `port`, of one of the Traffic Classes in `room`. Poll posted TLPs
    /// first: sending one may unblock a later read or completion.
    pub fn poll_tlp(&mut self, port: usize, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        loop {
            let next = self.crossbar.next(port, now, class, room)?;
            let entry = self.crossbar.take(now, next)?;
            if let Some((of, credit)) = entry.credit {
                let place = BufferPlace { port: of.into(), credit };
                if !self.places.keep_some() {
                    self.return_place(place);
                } else {
                    self.free_places(&entry.tlp, place, port, now);
                }
            }
            if port != 0 || !matches!(entry.tlp.repr.body, Body::Message(_)) {
                self.count(next.input, port);
                return Some(entry.tlp);
            }
            // Interrupts and acknowledgements are merged when they are sent, so that they push the earlier writes.
            if let Some(tlp) = self.gather(entry) {
                self.count(next.input, port);
                return Some(tlp);
            }
        }
    }

    /// Frees the places that `tlp` frees as it leaves `place` through `port`: its own, unless it is a request that keeps
    /// it, and the place of the request that it answers.
    #[cold]
    fn free_places(&mut self, tlp: &Tlp, place: BufferPlace, port: usize, now: Time) {
        let answered = self.places.answered(tlp, PlaceUntil::Sent);
        let own = self.places.left(tlp, place, port, now);
        answered.into_iter().chain(own).for_each(|place| self.return_place(place));
    }

    fn count(&mut self, input: usize, port: usize) {
        if input < self.bridges.len() {
            self.counters.forwarded += 1;
            self.counters.peer_to_peer += u64::from(input != 0 && port != 0);
        }
    }

    /// Returns the credits of the next TLP received at `port` that has left the receive buffer.
    pub fn poll_credits(&mut self, port: usize) -> Option<CreditReturn> {
        self.credits[port].pop_front()
    }

    /// Returns the next port that may now be able to send or to return credits. A port is returned again only after
    /// another change.
    pub fn poll_touched(&mut self) -> Option<usize> {
        self.crossbar.poll_touched()
    }

    /// The effects of calls, in order: actions of links, and accounts of posted requests and completions that were dropped here.
    /// The caller must take all of them after each call.
    pub fn effects(&mut self) -> &mut Vec<Effect> {
        &mut self.effects.all
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Time> {
        match (self.crossbar.next_timer(), self.places.next_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles the time returned by `poll_timeout`: ports may be touched.
    pub fn handle_timeout(&mut self, now: Time) {
        self.crossbar.expire(now);
        while let Some(place) = self.places.timed_out(now) {
            self.return_place(place);
        }
    }

    /// Returns whether the switch must be called when the header of a TLP has arrived ([`Forwarding::CutThrough`]).
    pub fn cuts_through(&self) -> bool {
        self.timing.mode == Forwarding::CutThrough
    }

    /// Describes why TLPs wait in the switch, if there are any. For the report of a lab that makes no progress.
    pub fn waits_for(&self) -> Option<String> {
        let waiting = (0..self.ports()).map(|port| (port, self.crossbar.waiting_for(port)));
        let text: Vec<String> = waiting
            .filter(|(_, classes)| *classes != [0; 3])
            .map(|(port, [p, n, c])| {
                format!("{p} posted, {n} non-posted, {c} completions wait for port {port}")
            })
            .collect();
        (!text.is_empty()).then(|| text.join("; "))
    }

    /// True if no TLP is in the switch.
    pub fn is_empty(&self) -> bool {
        self.crossbar.is_empty()
    }

    fn return_place(&mut self, BufferPlace { port, credit }: BufferPlace) {
        self.return_credit(port, credit);
    }

    fn return_credit(&mut self, port: usize, credit: CreditReturn) {
        self.credits[port].push_back(credit);
        self.crossbar.touch(port);
    }

    /// Returns the input for the switch's own TLPs to `egress`. Each egress port has such an input, so that egress
    /// ports do not delay each other.
    fn own_input(&self, egress: usize) -> usize {
        self.bridges.len() + egress
    }

    /// Sends a TLP of the switch itself.
    fn send_own(&mut self, now: Time, mut entry: Entry) {
        entry.tlp = self.protected(entry.tlp);
        let input = self.own_input(usize::from(entry.egress));
        self.crossbar.push(now, input, entry);
    }

    /// Returns a TLP of the switch itself, with an ECRC if ECRC Generation Enable of the function that sends it is set
    /// (`PCIe 5.0 §2.7.1`).
    fn protected(&self, mut tlp: Tlp) -> Tlp {
        let sender = match tlp.repr.body {
            Body::Completion(c) => c.completer,
            _ => tlp.repr.transaction().0,
        };
        let generates = |bridge: &Bridge| bridge.id() == sender && bridge.space().ecrc_generation();
        tlp.repr.td = self.bridges.iter().any(generates);
        tlp
    }

    /// Returns when a TLP may be sent through `egress` if its header arrives at `now` and its last symbol at `tail_at`.
    fn leave_at(&self, now: Time, tail_at: Time, tlp: &Tlp, egress: usize) -> Time {
        let SwitchTiming { latency, mode } = self.timing;
        match mode {
            Forwarding::StoreAndForward => tail_at + latency,
            Forwarding::CutThrough => {
                let link = &self.links[egress];
                let bytes = tlp.wire_len() as u64 + u64::from(TLP_FRAMING_BYTES);
                let duration = wire_time(bytes, link.rate, link.width);
                // The last symbol must have arrived before it is due at the egress port.
                let no_sooner = Time::from_ps(tail_at.as_ps().saturating_sub(duration.as_ps()));
                (now + latency).max(no_sooner)
            }
        }
    }
}

impl SwitchConfig {
    fn validate(&self) -> Result<(), SwitchError> {
        let downstream = self.downstream.len();
        if downstream == 0 || downstream > MAX_DOWNSTREAM_PORTS {
            return Err(SwitchError::DownstreamPorts(downstream));
        }
        for (port, config) in std::iter::once(&self.upstream).chain(&self.downstream).enumerate() {
            if config.space.bridge().is_none() {
                return Err(SwitchError::NoBridge(port));
            }
            let empty = |class: &Class| config.buffer_tlps[class.index()] == 0;
            if let Some(class) = Class::ALL.into_iter().find(empty) {
                return Err(SwitchError::Buffer { port, class });
            }
        }
        let PortArbitration::Weighted(weights) = &self.arbitration else { return Ok(()) };
        if weights.len() != downstream + 1 {
            return Err(SwitchError::Weights { weights: weights.len(), ports: downstream + 1 });
        }
        weights.iter().position(|weight| *weight == 0).map_or(Ok(()), |port| Err(SwitchError::Weight(port)))
    }
}
