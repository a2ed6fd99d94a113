// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root ports as functions: type 1 functions of bus 0, root port `n` being 00:(n+1).0 (`PCIe 5.0 §7.3.1`). Handles
//! configuration requests to these functions, and their effects, errors and interrupts. This module does not route
//! TLPs.

use super::{Base, PortSettings, RootPort, Watch};
use crate::bridge::{Action, Bridge, DownReasons, Routes};
use crate::topology::MSI_WINDOW;
use config::cap::pcie::LINK_CAPABILITIES;
use config::{ConfigSpace, Effects, Side, Uncorrectable};
use host::{HostError, HostInput, HostInterrupt, Wire};
use serde::Serialize;
use tlp::rules::reasons::unclaimed;
use tlp::{
    Access, Bdf, Body, ConfigKind, ConfigRequest, Data, Duration, Mps, Rate, Repr, Tag, Time, Tlp, Width,
};

/// Maximum number of root ports that are functions: device 0 of bus 0 is the host itself.
pub const MAX_ROOT_FUNCTIONS: usize = 31;

/// Tags of the host's requests with Extended Tag Field Enable, and without it (`PCIe 5.0 §2.2.6.2`).
const MAX_TAGS: u16 = 256;
const SHORT_TAGS: u16 = 32;

/// Counters of root ports with configuration spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RootFunctionCounters {
    /// Configuration requests that functions of bus 0 have answered.
    pub config_requests: u64,
    /// TLPs forwarded from one root port to another.
    pub peer_to_peer: u64,
    /// Reads between root ports that were split.
    pub split_reads: u64,
    /// Reads that resulted from the splitting.
    pub split_parts: u64,
    /// Requests that Access Control Services have blocked.
    pub acs_violations: u64,
    /// TLPs dropped because a link was down or contained.
    pub link_down: u64,
    /// Configuration requests that were repeated after CRS.
    pub config_retries: u64,
}

/// The function of one root port.
pub(super) struct Function {
    pub(super) bridge: Bridge,
    /// The registers that determine where TLPs go, kept up to date with the configuration space.
    pub(super) routes: Routes,
    pub(super) up: bool,
    /// Rate and width of the link, after it has come up.
    pub(super) speed: Option<(Rate, Width)>,
    pub(super) held: DownReasons,
    /// INTA (bit 0) to INTD (bit 3) as received from the link, and as reported to the host.
    pub(super) wires: u8,
    pub(super) told: u8,
    /// Port Number of Link Capabilities: its bit in the Egress Control Vectors of others.
    pub(super) number: usize,
}

impl Function {
    /// Returns the function of root port `port`; `None` if `space` has a type 0 header.
    pub(super) fn new(space: ConfigSpace, port: usize, preset: Option<Mps>) -> Option<Function> {
        let at = space.pcie_capability();
        let number = at.map_or(port, |at| (space.read(at + LINK_CAPABILITIES) >> 24) as usize);
        let mut bridge = Bridge::new(space)?;
        bridge.set_id(Bdf::new(0, port as u8 + 1, 0)?);
        if let Some(mps) = preset {
            bridge.preset(mps);
        }
        let routes = bridge.routes();
        let held = DownReasons::empty();
        Some(Function { bridge, routes, up: false, speed: None, held, wires: 0, told: 0, number })
    }

    /// True if the link carries TLPs and nothing holds it down.
    pub(super) fn is_open(&self) -> bool {
        self.up && self.held.is_empty()
    }

    /// True if containment keeps the link down.
    pub(super) fn is_contained(&self) -> bool {
        self.held.contains(DownReasons::CONTAINED)
    }

    /// Handles the error messages that the function's own errors have caused.
    pub(super) fn hear_own_errors(&mut self, first: Option<Tlp>) {
        let further = [first, self.bridge.poll_error_message(), self.bridge.poll_containment_message()];
        for tlp in further.into_iter().flatten() {
            if let Body::Message(m) = tlp.repr.body {
                self.bridge.root_error(m.code, m.requester);
            }
        }
    }
}

impl RootPort {
    /// True if the host may not send `tlp`: the link is down, or AtomicOp Egress Blocking stops it (`PCIe 5.0 §6.15`).
    pub(super) fn is_blocked(&self, body: &Body) -> bool {
        let Some(function) = &self.function else { return false };
        !function.is_open() || function.routes.blocks_atomics && matches!(body, Body::Atomic(_))
    }

    /// Whether the root port may issue a request: an AtomicOp needs AtomicOp Requester Enable and Bus Master Enable
    /// (`PCIe 5.0 §7.5.3.16`).
    pub(super) fn may_issue(&self, body: &Body) -> bool {
        let enabled = |function: &Function| {
            function.routes.windows.bus_master_enable && function.bridge.space().atomic_requester_enable()
        };
        !matches!(body, Body::Atomic(_)) || self.function.as_deref().is_none_or(enabled)
    }

    /// Returns the time for which the tag of an abandoned request stays unused: the timeout of requests, or the default
    /// timeout if that is disabled.
    pub(super) fn rest(&self) -> Duration {
        self.config.completion_timeout.or(self.bare.completion_timeout).unwrap_or_default()
    }

    /// Copies the registers that are read often.
    pub(super) fn follow_registers(&mut self, passes_peers: bool) {
        let Some(function) = &mut self.function else { return };
        function.routes = function.bridge.routes();
        let space = function.bridge.space();
        self.config = PortSettings {
            mps: function.routes.mps,
            rcb: space.rcb(),
            completion_attributes: space.completion_attributes(),
            request_attributes: space.request_attributes(),
            mrrs: space.mrrs().bytes(),
            completion_timeout: self.bare.completion_timeout.and_then(|own| space.completion_timeout(own)),
            ecrc: space.ecrc_generation(),
        };
        let tags = if space.extended_tag_enable() { MAX_TAGS } else { SHORT_TAGS };
        self.tags.set_range(0, self.max_requests.min(tags));
        let contained = function.held.contains(DownReasons::CONTAINED);
        self.watch = match function.routes.lets_all_up() && !contained {
            true if passes_peers => Watch::BesideMemory,
            true => Watch::Nothing,
            false => Watch::Everything,
        };
    }
}

impl Base {
    /// Executes a configuration request of the host to a function of bus 0. The answer takes the latency of both
    /// directions.
    pub(super) fn configure(
        &mut self,
        now: Time,
        request: ConfigRequest,
        data: Data,
    ) -> Result<Data, HostError> {
        let port = usize::from(request.completer.device()).wrapping_sub(1);
        let function = self.ports.get_mut(port).and_then(|p| p.function.as_mut());
        let function = function.filter(|_| request.completer.function() == 0).ok_or(HostError::NoDevice)?;
        self.function_counters.config_requests += 1;
        let tlp = Tlp::new(Repr::new(Body::Config(request)), data);
        let (answer, effects) = function.bridge.config_request(&tlp, &request, &self.payloads);
        if request.op == Access::Write {
            self.apply_register_effects(port, now, effects);
        }
        Ok(answer.map_or(Data::NONE, |answer| answer.data))
    }

    /// True for the bus of root ports.
    pub(super) fn is_own_bus(&self, bus: u8) -> bool {
        bus == 0 && self.has_functions
    }

    /// Carries out the effects of a register write.
    fn apply_register_effects(&mut self, port: usize, now: Time, effects: Effects) {
        let Some(function) = &mut self.ports[port].function else { return };
        let (reset, disable) =
            (function.bridge.routes().windows.secondary_bus_reset, function.bridge.space().link_disable());
        let off = function.bridge.slot_is_off();
        if effects.contains(Effects::SECONDARY_BUS_RESET) {
            self.hold(port, DownReasons::RESET, reset);
        }
        if effects.contains(Effects::LINK_DISABLE) {
            self.hold(port, DownReasons::DISABLE, disable);
        }
        if effects.contains(Effects::SLOT_CONTROL) {
            self.hold(port, DownReasons::POWER, off);
        }
        if effects.contains(Effects::RETRAIN_LINK) {
            self.effects.act(port, Action::Retrain);
        }
        if effects.contains(Effects::VIRTUAL_CHANNEL) {
            self.effects.act(port, Action::Channels);
        }
        self.report(port, now, None);
    }

    /// Logs an error of `tlp` on `side` in the registers of root port `port`, if it has any.
    #[cold]
    pub(super) fn log(
        &mut self,
        port: usize,
        now: Time,
        error: Uncorrectable,
        advisory: bool,
        side: Side,
        tlp: &Tlp,
    ) {
        let Some(function) = &mut self.ports[port].function else { return };
        let message = function.bridge.log(error, advisory, side, tlp);
        self.report(port, now, message);
    }

    /// Handles an error message of the function of `port`, and its consequences.
    pub(super) fn report(&mut self, port: usize, now: Time, message: Option<Tlp>) {
        let Some(function) = &mut self.ports[port].function else { return };
        function.hear_own_errors(message);
        self.apply_registers(port, now);
    }

    /// Applies the registers of `port` after a change: routes, containment, and interrupts.
    pub(super) fn apply_registers(&mut self, port: usize, now: Time) {
        let Some(function) = &self.ports[port].function else { return };
        let (was, contained) = (function.is_contained(), function.bridge.is_contained());
        self.hold(port, DownReasons::CONTAINED, contained);
        if was || contained {
            self.follow_busy(port);
        }
        let passes_peers = self.passes_peers;
        self.ports[port].follow_registers(passes_peers);
        while let Some(msi) = self.own_interrupt(port) {
            self.take_own_interrupt(port, now, &msi);
        }
        self.tell_wires(port, now, None);
    }

    /// Sets DPC RP Busy from the trigger until the root complex has no open request below.
    #[cold]
    pub(super) fn follow_busy(&mut self, port: usize) {
        let open = self.ports[port].open_requests() > 0;
        let Some(function) = &mut self.ports[port].function else { return };
        let busy = open && function.is_contained();
        function.bridge.space_mut().set_dpc_busy(busy);
    }

    fn own_interrupt(&mut self, port: usize) -> Option<Tlp> {
        let Base { ports, payloads, .. } = self;
        ports[port].function.as_mut()?.bridge.poll_interrupt(payloads)
    }

    /// Takes an MSI of a root port, a write that crosses no link.
    fn take_own_interrupt(&mut self, port: usize, now: Time, msi: &Tlp) {
        let Body::Memory(m) = msi.repr.body else { return };
        let (address, len) = (m.span.first_byte(), m.span.byte_count());
        if MSI_WINDOW.contains(address, u64::from(len)) {
            self.interrupt(now, &m, msi);
        } else if self.memory.contains(m.requester, address, len) {
            self.memory.store(m.requester, m.span, &msi.data);
        } else {
            self.refused(|b| &mut b.counters.unsupported_requests, port, now, unclaimed(address), msi);
        }
    }

    /// Notifies the host of the changed wires of `port`. `from` has sent the message that changed them, or `None` for
    /// the root port itself.
    pub(super) fn tell_wires(&mut self, port: usize, now: Time, from: Option<Bdf>) {
        let Some(function) = &mut self.ports[port].function else { return };
        let wires = function.wires | function.bridge.wires();
        let changed = std::mem::replace(&mut function.told, wires) ^ wires;
        let root_port = function.bridge.id();
        let requester = from.unwrap_or(root_port);
        for wire in Wire::ALL.into_iter().filter(|wire| changed >> *wire as u8 & 1 == 1) {
            let asserted = wires >> wire as u8 & 1 == 1;
            let interrupt = HostInterrupt::Wire { root_port, requester, wire, asserted };
            self.tell_host(now + self.profile.root_complex_latency, HostInput::Interrupt(interrupt));
        }
    }

    /// Sends the host an answer that no link has carried.
    pub(super) fn tell_after_both_ways(&mut self, now: Time, input: HostInput) {
        self.tell_host(now + self.profile.root_complex_latency * 2, input);
    }

    /// Returns the root port that leads to the bus of `function`, and the type of configuration request to send there;
    /// `None` if no device is there (`PCIe 5.0 §7.3.3`).
    pub(super) fn way_to_function(&self, function: Bdf) -> Option<(usize, ConfigKind)> {
        let port = self.port_of_bus(function.bus())?;
        let Some(f) = &self.ports[port].function else {
            // Only device 0 exists on the bus directly below a root port (`PCIe 5.0 §7.3.1`).
            return (function.device() == 0).then_some((port, ConfigKind::Type0));
        };
        if function.bus() != f.routes.windows.secondary {
            return Some((port, ConfigKind::Type1));
        }
        let there = function.device() == 0 || f.routes.ari_forwarding;
        there.then_some((port, ConfigKind::Type0))
    }

    /// The root port that claims a memory request of the host to `address`; the lowest number wins.
    pub(super) fn port_of_address(&self, address: u64) -> Option<usize> {
        let bare = self.map.port_of_address(address, self.ports.len());
        if !self.has_functions {
            return bare;
        }
        self.port_where(bare, |routes| routes.windows.claims_memory(address))
    }

    /// The root port that claims an I/O request of the host to `address`.
    pub(super) fn port_of_io(&self, address: u32) -> Option<usize> {
        let bare = self.map.port_of_io(address, self.ports.len());
        self.port_where(bare, |routes| routes.windows.claims_io(u64::from(address)))
    }

    /// Returns the root port that leads to `bus`.
    pub(super) fn port_of_bus(&self, bus: u8) -> Option<usize> {
        let bare = self.map.port_of_bus(bus, self.ports.len());
        self.port_where(bare, |routes| routes.windows.claims_bus(bus))
    }

    fn port_where(&self, bare: Option<usize>, claims: impl Fn(&Routes) -> bool) -> Option<usize> {
        self.ports.iter().enumerate().position(|(n, port)| match &port.function {
            Some(function) => claims(&function.routes),
            None => bare == Some(n),
        })
    }

    pub(super) fn note_retry(&mut self) {
        self.function_counters.config_retries += 1;
    }
}

/// The header of a configuration request of the host.
pub(super) fn config_header(op: Access, completer: Bdf, register_dw: u16, first_be: u8) -> ConfigRequest {
    let (kind, requester, tag) = (ConfigKind::Type0, super::ROOT_ID, Tag::default());
    ConfigRequest { op, kind, requester, tag, completer, register_dw: register_dw & 0x3ff, first_be }
}
