// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of switches as plans, made at random from bytes or written by hand. A plan is built into a fabric, and
//! configuration requests set up its bridges as firmware does. The results of a run are checked elsewhere: see
//! `tree_checks.rs`.
//!
//! Buses and windows are numbered depth first. The leaf with index `n` has 1 MiB of memory space, at
//! [`leaf_address`]; its function is device 0 of the bus of its link.
// Each user of this module uses a part of it.
pub(crate) mod checks;
pub(crate) mod node;
pub(crate) mod watch;

use config::{AerLayout, AerRole, Builder, ConfigSpace, Identity, PcieLayout, PortType, SlotLayout};
use endpoint::TlpPort;
use host::HostProgram;
use host::memory::HostMemory;
use link::{CreditLimit, PortConfig};
use riser_fabric::{
    Above, Effect, Fabric, FabricConfig, FaultRule, Forwarding, HostConfig, HostId, HostProfile, LinkConfig,
    LinkEvent, PortArbitration, SlotConfig, Switch, SwitchConfig, SwitchPortConfig, SwitchSlot, SwitchTiming,
};
use std::collections::BTreeMap;
use tlp::{
    Access, Bdf, Body, Class, ConfigKind, ConfigRequest, Data, Duration, Mps, PayloadPool, Rate, Repr,
    Status, Tag, TcSet, TcVcMap, Time, Tlp, Vc, Width,
};

/// Start of the windows: the window of bare root port 0 (`AddressMap`).
pub(crate) const WINDOW_BASE: u64 = 0x8000_0000;
/// From the windows of one root port to those of the next.
pub(crate) const WINDOW_OF_ROOT_PORT: u64 = 0x1000_0000;
/// Bytes of each leaf.
pub(crate) const LEAF_BYTES: u64 = 1 << 20;
/// Start of high host memory, and its size in bytes.
pub(crate) const HIGH: u64 = 4 << 30;
pub(crate) const HIGH_BYTES: u64 = 1 << 22;

/// Returns the address of leaf `leaf` below root port `root`.
pub(crate) fn leaf_address(root: usize, leaf: usize) -> u64 {
    WINDOW_BASE + root as u64 * WINDOW_OF_ROOT_PORT + leaf as u64 * LEAF_BYTES
}

/// A link in the plan of a tree.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) rate: Rate,
    pub(crate) lanes: u8,
    pub(crate) propagation_ps: u64,
    /// Header credits of every class at both ends; 0 is infinite.
    pub(crate) headers: u16,
    /// Data credits, as a multiple of the least that Max_Payload_Size allows.
    pub(crate) payloads: u16,
    /// TLPs of the transmit queues, and of the replay buffers.
    pub(crate) queue: usize,
    pub(crate) replay: u16,
}

impl LinkPlan {
    pub(crate) fn new(rate: Rate, lanes: u8) -> LinkPlan {
        LinkPlan { rate, lanes, propagation_ps: 2000, headers: 32, payloads: 8, queue: 4, replay: 64 }
    }

    fn credits(&self, class: Class, mps: Mps) -> CreditLimit {
        let least = if class == Class::NonPosted { 8 } else { (mps.bytes() / 16) as u16 };
        CreditLimit {
            header: (self.headers > 0).then_some(self.headers),
            data: (self.headers > 0).then_some(least * self.payloads),
        }
    }

    /// Its configuration. An end that is no port of a switch has infinite credits for completions (`PCIe 5.0 §2.6.1`,
    /// Table 2-45).
    fn config(&self, mps: Mps, two_channels: bool, below_switch: bool, above_switch: bool) -> LinkConfig {
        let mut port = PortConfig::new(self.rate, Width::new(self.lanes).unwrap(), mps);
        port.tx_queue_tlps = self.queue;
        port.replay_buffer_tlps = self.replay;
        port.rx_buffer = Class::ALL.map(|class| self.credits(class, mps));
        if two_channels {
            port.tc_vc = two_channel_map();
        }
        let end = |is_switch: bool| {
            let mut port = port.clone();
            if !is_switch {
                port.rx_buffer[Class::Completion.index()] = CreditLimit::INFINITE;
            }
            if two_channels {
                port.vc_buffers = BTreeMap::from([(Vc::from_bits(1), port.rx_buffer)]);
            }
            port
        };
        LinkConfig {
            root: end(below_switch),
            device: end(above_switch),
            propagation: Duration::from_ps(self.propagation_ps),
            rcb: None,
            bit_error_rate: 0,
        }
    }
}

/// TC0 on VC0, TC1 on VC1.
fn two_channel_map() -> TcVcMap {
    let mut classes = [TcSet::NONE; Vc::COUNT];
    (classes[0], classes[1]) = (TcSet::from_bits(0b01), TcSet::from_bits(0b10));
    TcVcMap::new(classes).unwrap()
}

/// A switch of a plan.
#[derive(Clone, Debug)]
pub(crate) struct SwitchPlan {
    pub(crate) above: Above,
    pub(crate) link: LinkPlan,
    /// Downstream ports.
    pub(crate) ports: usize,
    pub(crate) mode: Forwarding,
    pub(crate) latency_ps: u64,
    /// One for each port, the upstream port first; empty for round robin.
    pub(crate) weights: Vec<u16>,
}

/// A leaf of a plan.
#[derive(Clone, Debug)]
pub(crate) struct LeafPlan {
    pub(crate) above: Above,
    pub(crate) link: LinkPlan,
}

/// A tree. Leaves and switches may be in any order; a leaf has nothing below it.
#[derive(Clone, Debug)]
pub(crate) struct TreePlan {
    pub(crate) leaves: Vec<LeafPlan>,
    pub(crate) switches: Vec<SwitchPlan>,
    /// Max_Payload_Size, as its encoding: 0 is 128 B.
    pub(crate) mps: u8,
    /// True if TC1 uses VC1 of every link; otherwise all classes use VC0.
    pub(crate) two_channels: bool,
    /// Error messages are enabled everywhere.
    pub(crate) report_errors: bool,
    /// True if bridges start as firmware leaves them; otherwise as after a reset.
    pub(crate) preset: bool,
    /// Whether there is a slot below every port of a switch, with its own messages when the link comes up.
    pub(crate) slots: bool,
}

/// The identity of a leaf: the values needed to send requests to it, and for its own requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its function.
    pub(crate) id: Bdf,
    /// The first byte of its memory.
    pub(crate) address: u64,
    /// The root port above it.
    pub(crate) root: usize,
}

/// Bus numbers and windows of the part of the tree below one link.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    first_bus: u8,
    last_bus: u8,
    first_leaf: usize,
    /// One more than the last bus number.
    end_leaf: usize,
}

impl TreePlan {
    pub(crate) fn new() -> TreePlan {
        TreePlan {
            leaves: Vec::new(),
            switches: Vec::new(),
            mps: 1,
            two_channels: false,
            report_errors: false,
            preset: true,
            slots: true,
        }
    }

    /// Adds a leaf; returns its index.
    pub(crate) fn leaf(&mut self, above: Above, link: LinkPlan) -> usize {
        self.leaves.push(LeafPlan { above, link });
        self.leaves.len() - 1
    }

    /// Adds a switch without ports; returns its index.
    pub(crate) fn switch(
        &mut self,
        above: Above,
        link: LinkPlan,
        mode: Forwarding,
        latency_ps: u64,
    ) -> usize {
        self.switches.push(SwitchPlan { above, link, ports: 0, mode, latency_ps, weights: Vec::new() });
        self.switches.len() - 1
    }

    /// The next port of switch `switch`.
    pub(crate) fn port(&mut self, switch: usize) -> Above {
        self.switches[switch].ports += 1;
        Above::Switch { switch, port: self.switches[switch].ports }
    }

    pub(crate) fn mps(&self) -> Mps {
        Mps::from_encoding(self.mps).unwrap()
    }

    /// Links: of the leaves, then of the switches.
    pub(crate) fn above(&self, link: usize) -> Above {
        match link.checked_sub(self.leaves.len()) {
            None => self.leaves[link].above,
            Some(switch) => self.switches[switch].above,
        }
    }

    pub(crate) fn links(&self) -> usize {
        self.leaves.len() + self.switches.len()
    }

    fn link_at(&self, above: Above) -> Option<usize> {
        (0..self.links()).find(|&link| self.above(link) == above)
    }

    /// The links on root ports, in the order of the ports.
    fn root_links(&self) -> Vec<usize> {
        (0..self.links()).filter(|&link| self.above(link) == Above::RootPort(HostId::FIRST)).collect()
    }

    /// The switch at the far end of `link`.
    fn switch_below(&self, link: usize) -> Option<usize> {
        link.checked_sub(self.leaves.len())
    }

    /// Numbers all links, depth first: bus ranges and leaf places.
    fn number(&self) -> (Vec<Range>, Vec<Place>) {
        let mut ranges = vec![Range::default(); self.links()];
        let mut places = vec![Place { id: Bdf::default(), address: 0, root: 0 }; self.leaves.len()];
        let mut next_bus = 1;
        for (root, link) in self.root_links().into_iter().enumerate() {
            let mut next_leaf = 0;
            self.number_link(link, root, &mut next_bus, &mut next_leaf, &mut ranges, &mut places);
        }
        (ranges, places)
    }

    fn number_link(
        &self,
        link: usize,
        root: usize,
        next_bus: &mut u8,
        next_leaf: &mut usize,
        ranges: &mut [Range],
        places: &mut [Place],
    ) {
        let (first_bus, first_leaf) = (*next_bus, *next_leaf);
        *next_bus += 1;
        if let Some(switch) = self.switch_below(link) {
            // Its internal bus.
            *next_bus += 1;
            for port in 1..=self.switches[switch].ports {
                if let Some(below) = self.link_at(Above::Switch { switch, port }) {
                    self.number_link(below, root, next_bus, next_leaf, ranges, places);
                }
            }
        } else {
            let id = Bdf::new(first_bus, 0, 0).unwrap();
            places[link] = Place { id, address: leaf_address(root, first_leaf), root };
            *next_leaf += 1;
        }
        ranges[link] = Range { first_bus, last_bus: *next_bus - 1, first_leaf, end_leaf: *next_leaf };
    }

    /// Returns the places of the leaves.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.number().1
    }

    /// The root port above `link`.
    pub(crate) fn root_of(&self, mut link: usize) -> usize {
        while let Above::Switch { switch, .. } = self.above(link) {
            link = self.leaves.len() + switch;
        }
        self.root_links().iter().position(|&root| root == link).unwrap()
    }

    fn link_config(&self, link: usize) -> LinkConfig {
        let below = self.switch_below(link);
        let plan = below.map_or_else(|| &self.leaves[link].link, |switch| &self.switches[switch].link);
        let above_is_switch = self.above(link) != Above::RootPort(HostId::FIRST);
        plan.config(self.mps(), self.two_channels, above_is_switch, below.is_some())
    }

    /// The fabric; `devices` are those of the leaves, in their order.
    pub(crate) fn build(&self, devices: Vec<Box<dyn TlpPort>>, run: RunPlan) -> Fabric {
        let (ranges, _) = self.number();
        let slots = self.leaves.iter().zip(devices).enumerate();
        let slots = slots.map(|(n, (leaf, device))| SlotConfig {
            link: self.link_config(n),
            above: leaf.above,
            device,
        });
        let switches = (0..self.switches.len()).map(|n| SwitchSlot {
            link: self.link_config(self.leaves.len() + n),
            above: self.switches[n].above,
            switch: self.build_switch(n, &ranges).into(),
        });
        let mut fabric = Fabric::new(FabricConfig {
            hosts: vec![HostConfig {
                profile: run.host,
                memory: run.memory,
                payloads: PayloadPool::new(),
                root_ports: if run.root_functions { self.root_spaces(&ranges) } else { Vec::new() },
                program: run.program,
            }],
            slots: slots.collect(),
            switches: switches.collect(),
            faults: run.faults,
            seed: run.seed,
        })
        .unwrap();
        run.events.into_iter().for_each(|event| fabric.schedule(event));
        fabric
    }

    /// The functions of the root ports, set up as firmware leaves them.
    fn root_spaces(&self, ranges: &[Range]) -> Vec<ConfigSpace> {
        let root = |(n, link): (usize, usize)| {
            // Without a slot, so that it sends only requested TLPs.
            let mut space = space(PortType::RootPort, n as u8, &self.link_config(link).root, false);
            let range = ranges[link];
            let below = Some((range.first_bus, range));
            if !self.preset {
                return space;
            }
            for (register_dw, first_be, value) in self.registers(&space, 0, n, below) {
                // No device is there yet to receive it.
                let _ = space.write(register_dw, first_be, value);
            }
            space
        };
        self.root_links().into_iter().enumerate().map(root).collect()
    }

    /// Returns the values that firmware writes into a bridge with primary bus `primary` below root port `root`: DW
    /// number, byte enables, value. With nothing below, its windows are closed.
    fn registers(
        &self,
        space: &ConfigSpace,
        primary: u8,
        root: usize,
        below: Option<(u8, Range)>,
    ) -> Vec<(u16, u8, u32)> {
        let closed = Range { end_leaf: 0, first_leaf: 0, ..Range::default() };
        let (secondary, range) = below.unwrap_or((0, closed));
        let buses = u32::from(range.last_bus) << 16 | u32::from(secondary) << 8 | u32::from(primary);
        let (first, end) = (leaf_address(root, range.first_leaf), leaf_address(root, range.end_leaf));
        let memory = match first < end {
            true => (end - 1) as u32 & 0xfff0_0000 | first as u32 >> 16 & 0xfff0,
            false => 0x0000_fff0,
        };
        let device_control = space.pcie_capability().unwrap() + 2;
        let reporting = u32::from(self.report_errors);
        vec![
            (6, 0x7, buses),
            // Prefetchable memory and I/O: base above limit.
            (9, 0xf, 0x0000_fff0),
            (7, 0x3, 0x00f0),
            (8, 0xf, memory),
            (device_control, 0x3, u32::from(self.mps) << 5 | 0x2000 | (reporting * 0xf)),
            // SERR# Enable of Bridge Control; memory, I/O, Bus Master and SERR# Enable of Command.
            (15, 0x4, reporting << 17),
            (1, 0x3, 0x0007 | reporting << 8),
        ]
    }

    fn build_switch(&self, n: usize, ranges: &[Range]) -> Switch {
        let plan = &self.switches[n];
        let up = self.link_config(self.leaves.len() + n).device;
        let port_link = |port| self.link_at(Above::Switch { switch: n, port });
        let downstream = (1..=plan.ports).map(|port| {
            let end = port_link(port).map_or(up.clone(), |link| self.link_config(link).root);
            port_config(PortType::Downstream, port as u8, &end, self.slots)
        });
        let mut switch = Switch::new(SwitchConfig {
            upstream: port_config(PortType::Upstream, 0, &up, false),
            downstream: downstream.collect(),
            timing: SwitchTiming { latency: Duration::from_ps(plan.latency_ps), mode: plan.mode },
            arbitration: match &plan.weights[..] {
                [] => PortArbitration::RoundRobin,
                weights => PortArbitration::Weighted(weights.to_vec()),
            },
            payloads: PayloadPool::new(),
        })
        .unwrap();
        if !self.preset {
            return switch;
        }
        let range = ranges[self.leaves.len() + n];
        let id = Bdf::new(range.first_bus, 0, 0).unwrap();
        let root = self.root_of(self.leaves.len() + n);
        let mut setup = Setup { switch: &mut switch, plan: self, root };
        setup.bridge(0, id, ConfigKind::Type0, Some((range.first_bus + 1, range)));
        for port in 1..=plan.ports {
            let id = Bdf::new(range.first_bus + 1, port as u8 - 1, 0).unwrap();
            let below = port_link(port).map(|link| (ranges[link].first_bus, ranges[link]));
            setup.bridge(port, id, ConfigKind::Type1, below);
        }
        switch
    }
}

/// The parts of a run other than the tree.
pub(crate) struct RunPlan {
    pub(crate) host: HostProfile,
    pub(crate) memory: HostMemory,
    /// Root ports are functions; otherwise they are bare, with fixed windows.
    pub(crate) root_functions: bool,
    pub(crate) program: Option<Box<dyn HostProgram>>,
    pub(crate) faults: Vec<FaultRule>,
    pub(crate) events: Vec<LinkEvent>,
    pub(crate) seed: u64,
}

impl RunPlan {
    pub(crate) fn quiet() -> RunPlan {
        RunPlan {
            host: HostProfile::ideal(),
            memory: HostMemory::new(1 << 20, HIGH_BYTES).unwrap(),
            root_functions: true,
            program: None,
            faults: Vec::new(),
            events: Vec::new(),
            seed: 1,
        }
    }
}

fn port_config(kind: PortType, number: u8, end: &PortConfig, slot: bool) -> SwitchPortConfig {
    let buffer = |class: Class| {
        let of =
            |buffer: &[CreditLimit; 3]| buffer[class.index()].header.map_or(u32::from(u16::MAX), u32::from);
        of(&end.rx_buffer) + end.vc_buffers.values().map(of).sum::<u32>()
    };
    SwitchPortConfig {
        space: space(kind, number, end, slot),
        buffer_tlps: Class::ALL.map(buffer),
        rate: end.rate,
        width: end.width,
    }
}

/// The function of a root port or a port of a switch.
fn space(kind: PortType, number: u8, end: &PortConfig, has_slot: bool) -> ConfigSpace {
    let identity = Identity { vendor: 0x1234, device: 0x5678, class: 0x06_04_00, ..Identity::default() };
    let above_link = kind != PortType::Upstream;
    let slot = SlotLayout {
        number: u16::from(number),
        hot_plug: true,
        no_command_completed: true,
        occupied: true,
        ..SlotLayout::default()
    };
    let role = match kind {
        PortType::RootPort => AerRole::RootPort,
        PortType::Upstream => AerRole::UpstreamPort,
        _ => AerRole::DownstreamPort,
    };
    let pcie = PcieLayout {
        port: kind,
        mps_supported: end.mps,
        ten_bit_tag: true,
        function_level_reset: false,
        atomic_routing: true,
        ari_forwarding: above_link,
        port_number: number,
        rate: end.rate,
        width: end.width,
        slot: has_slot.then_some(slot),
        ..PcieLayout::default()
    };
    let builder = Builder::type1(identity).power_management().pcie(pcie);
    builder.advanced_error_reporting_with(AerLayout::new(role)).build().unwrap()
}

/// Sets up the bridges of a switch by configuration requests, before its links are up.
struct Setup<'a> {
    switch: &'a mut Switch,
    plan: &'a TreePlan,
    root: usize,
}

impl Setup<'_> {
    /// The bridge of `port`.
    fn bridge(&mut self, port: usize, id: Bdf, kind: ConfigKind, below: Option<(u8, Range)>) {
        let registers = self.plan.registers(self.switch.space(port), id.bus(), self.root, below);
        for (register_dw, first_be, value) in registers {
            self.set(id, kind, register_dw, first_be, value);
        }
    }

    fn set(&mut self, completer: Bdf, kind: ConfigKind, register_dw: u16, first_be: u8, value: u32) {
        let (op, requester, tag) = (Access::Write, Bdf::default(), Tag::default());
        let body = ConfigRequest { op, kind, requester, tag, completer, register_dw, first_be };
        // The bytes from the first to the last enabled one.
        let (lead, trail) = (first_be.trailing_zeros() as usize, 8 - first_be.leading_zeros() as usize);
        let bytes = PayloadPool::new().copy(&value.to_le_bytes()[lead..trail]);
        let tlp = Tlp::new(Repr::new(Body::Config(body)), Data::Carried(bytes));
        self.switch.handle_tlp(0, Time::ZERO, Time::ZERO, &tlp);
        // Only the latency of answers depends on the clock.
        let later = Time::ZERO + Duration::from_ms(1);
        self.switch.handle_timeout(later);
        let answer = self.switch.poll_tlp(0, later, Class::Completion, TcSet::ALL);
        let status = answer.map(|tlp| tlp.repr.body);
        let done = matches!(status, Some(Body::Completion(c)) if c.status == Status::Success);
        assert!(done, "register {register_dw:#x} of {completer} is written: {status:?}");
        while self.switch.poll_credits(0).is_some() {}
        while self.switch.poll_touched().is_some() {}
        let acts = |effect: &Effect| matches!(effect, Effect::Act(..));
        assert!(!self.switch.effects().drain(..).any(|effect| acts(&effect)));
    }
}
