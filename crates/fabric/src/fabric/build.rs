// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a fabric, and their assembly. This module runs no events.

use super::designs::{Design, DesignedSwitch, RootDesign};
use super::frames::FrameEnd;
use super::hosts::{HostSide, Hosts};
use super::links::{LinkDown, Recovery};
use super::{Fabric, FabricSlot, RunTotals, SwitchState};
use crate::fault::{FaultRule, Faults};
use crate::host_slot::HostSlot;
use crate::ledger::Ledger;
use crate::profile::HostProfile;
use crate::progress::Silence;
use crate::queue::SortedQueue;
use crate::root::{MAX_ROOT_FUNCTIONS, RootComplex, RootPortConfig};
use crate::switch::Switch;
use crate::tap::Direction;
use crate::timer::TimerEvents;
use crate::topology::{AddressMap, HostId, LinkConfig, LinkId, OfHost, Owner, PortId, Side};
use crate::wire::PortState;
use config::ConfigSpace;
use endpoint::TlpPort;
use host::HostProgram;
use host::memory::HostMemory;
use link::{ConfigError, FlowControlMode, Port, Rare};
use std::collections::VecDeque;
use thiserror::Error;
use tlp::{PayloadPool, Rcb, Time};

/// Maximum number of hosts of a fabric.
pub const MAX_HOSTS: usize = OfHost::HOSTS;

/// The parts of a fabric.
pub struct FabricConfig {
    /// The hosts, at least one. No routes lead from one to another: each has its own bus numbers and addresses.
    pub hosts: Vec<HostConfig>,
    /// The slots; link `n` leads to slot `n`.
    pub slots: Vec<SlotConfig>,
    /// The switches; their links follow those of the slots.
    pub switches: Vec<SwitchSlot>,
    /// Fault rules for the links.
    pub faults: Vec<FaultRule>,
    /// Seed of all random draws.
    pub seed: u64,
}

/// A host: a root complex, its memory, and its program.
pub struct HostConfig {
    /// Timing of the root complex and memory.
    pub profile: HostProfile,
    /// Memory of the host, which DMA reaches; shared with the program.
    pub memory: HostMemory,
    /// Pool for the root complex's payload buffers.
    pub payloads: PayloadPool,
    /// The functions of the root ports, each with a type 1 header, in the order of the ports; if empty, root ports are
    /// bare: see [`RootPortConfig::space`].
    pub root_ports: Vec<ConfigSpace>,
    /// The host program, if any. It starts when all links are up.
    pub program: Option<Box<dyn HostProgram>>,
}

/// A slot, its link, and the port above it.
pub struct SlotConfig {
    /// The link between the port above and the device.
    pub link: LinkConfig,
    /// The port to which the link connects.
    pub above: Above,
    /// The device at the far end.
    pub device: Box<dyn TlpPort>,
}

/// A switch, the link of its upstream port, and the port above.
pub struct SwitchSlot {
    /// The link between the port above and the upstream port.
    pub link: LinkConfig,
    /// The port to which the link connects.
    pub above: Above,
    /// The switch at the far end.
    pub switch: SwitchEnd,
}

/// A switch at the end of a link.
pub enum SwitchEnd {
    /// One of riser's.
    Own(Box<Switch>),
    /// Another one: a slot with its own data link layer ([`endpoint::FrameSlot`]) for each port, the upstream port first. They share their
    /// state, and only the upstream port may have a [clock](TlpPort::clock).
    Design(Vec<Box<dyn TlpPort>>),
}

impl From<Switch> for SwitchEnd {
    fn from(switch: Switch) -> SwitchEnd {
        SwitchEnd::Own(Box::new(switch))
    }
}

/// The port to which a link connects on its upper end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Above {
    /// The next root port of this host. Links of slots come first, then links of switches, each in their order.
    RootPort(HostId),
    /// A downstream port of a switch.
    Switch {
        /// The switch, by its place in [`FabricConfig::switches`].
        switch: usize,
        /// Number of its port; 1 is the first downstream port.
        port: usize,
    },
}

impl SlotConfig {
    /// Returns a slot on its own root port of the first host.
    pub fn on_root_port(link: LinkConfig, device: Box<dyn TlpPort>) -> SlotConfig {
        SlotConfig { link, above: Above::RootPort(HostId::FIRST), device }
    }
}

/// Reason why the parts do not form a valid tree.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TopologyError {
    /// The number of hosts is out of range.
    #[error("{0} hosts; expected 1 to {MAX_HOSTS}")]
    Hosts(usize),
    /// A link connects to a host that does not exist.
    #[error("{link} connects to host {host}, but the number of hosts is {count}", host = .host.0)]
    NoHost {
        /// The link.
        link: LinkName,
        /// Number of the missing host.
        host: HostId,
        /// Number of hosts.
        count: usize,
    },
    /// A root complex has too many links.
    #[error("{0} root ports; expected 1 to {most}", most = AddressMap::MAX_ROOT_PORTS)]
    RootPorts(usize),
    /// A root complex has too many root ports that are functions.
    #[error("{0} root ports with configuration spaces; expected 1 to {MAX_ROOT_FUNCTIONS}")]
    RootFunctions(usize),
    /// A root complex that is not riser's has too many or no links.
    #[error("{0} links below a root complex that is not riser's; expected 1")]
    DesignLinks(usize),
    /// The function of a root port is not a bridge.
    #[error("root port {0} has a type 0 header; expected type 1")]
    NoBridge(usize),
    /// A link connects to a switch that does not exist.
    #[error("{link} connects to switch {switch}, but the number of switches is {count}")]
    NoSwitch {
        /// The link.
        link: LinkName,
        /// Number of the missing switch.
        switch: usize,
        /// Number of switches.
        count: usize,
    },
    /// A link connects to a port that the switch does not have.
    #[error("{link} connects to port {port} of switch {switch}; expected 1 to {last}")]
    NoPort {
        /// The link.
        link: LinkName,
        /// The switch.
        switch: usize,
        /// Number of the missing port.
        port: usize,
        /// The last downstream port of the switch.
        last: usize,
    },
    /// Two links connect to one port.
    #[error("{link} connects to port {port} of switch {switch}, which already has a link")]
    PortTaken {
        /// The later link.
        link: LinkName,
        /// The switch of the port.
        switch: usize,
        /// The port that both name.
        port: usize,
    },
    /// A receiver lacks room for the non-posted requests that it accepts.
    #[error("{link}, {} side: {error}", side.name())]
    NonPostedCredits {
        /// The link.
        link: LinkName,
        /// The end of the link.
        side: Side,
        /// The error of the port's settings.
        error: ConfigError,
    },
    /// A slot with its own data link layer is on a link without flow control.
    #[error("{0} has no flow control; expected credits, because its data link layer is not riser's")]
    FramesWithoutCredits(LinkName),
    /// A switch is connected below itself.
    #[error("switch {0} is connected below itself; expected a path to a root port")]
    Loop(usize),
}

/// A link, named by the part at its far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkName {
    /// The link of this slot.
    Slot(usize),
    /// The link of this switch.
    Switch(usize),
}

impl std::fmt::Display for LinkName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LinkName::Slot(n) => write!(f, "the link of slot {n}"),
            LinkName::Switch(n) => write!(f, "the link of switch {n}"),
        }
    }
}

/// The tree of a fabric while it is checked and numbered.
struct Tree {
    /// The port to which each link connects, by link.
    above: Vec<Above>,
    slots: usize,
    /// The links on the ports of each switch, the upstream port first.
    switch_links: Vec<Vec<Option<LinkId>>>,
    /// The links on the root ports of each host, in order.
    root_links: Vec<Vec<LinkId>>,
    /// The links below root complexes that are not riser's, in their order.
    design_links: Vec<LinkId>,
    /// The owners of the ports of each switch.
    switch_owners: Vec<SwitchOwners>,
}

/// The owners of the ports of a switch.
enum SwitchOwners {
    /// Riser's switch of this index.
    Own(u32),
    /// The slot of each port that has a link, in a switch that is not riser's.
    Slots(Vec<Option<usize>>),
}

impl Tree {
    fn new(config: &FabricConfig, designs: &[RootDesign]) -> Result<Tree, TopologyError> {
        let FabricConfig { slots, switches, hosts, .. } = config;
        let above = slots.iter().map(|s| s.above).chain(switches.iter().map(|s| s.above)).collect();
        let switch_links = switches.iter().map(|s| vec![None; s.switch.ports()]).collect();
        let root_links = vec![Vec::new(); hosts.len()];
        let mut tree = Tree {
            above,
            slots: slots.len(),
            switch_links,
            root_links,
            design_links: Vec::new(),
            switch_owners: Vec::new(),
        };
        for n in 0..tree.above.len() {
            tree.join(n)?;
        }
        for design in designs {
            tree.join_design(design.host)?;
        }
        (0..tree.switch_links.len()).try_for_each(|n| tree.check_reaches_root(n))?;
        tree.own_switches(switches, slots.len() + designs.len());
        Ok(tree)
    }

    /// Numbers riser's switches, and gives the ports of all others slots from `first_slot` on.
    fn own_switches(&mut self, switches: &[SwitchSlot], first_slot: usize) {
        let (mut own, mut slots) = (0.., first_slot..);
        let mut slots_of = |links: &Vec<Option<LinkId>>| {
            let slot = |link: &Option<LinkId>| link.and_then(|_| slots.next());
            SwitchOwners::Slots(links.iter().map(slot).collect())
        };
        let owners = switches.iter().zip(&self.switch_links).map(|(slot, links)| match slot.switch {
            SwitchEnd::Own(_) => SwitchOwners::Own(own.next().unwrap_or_default()),
            SwitchEnd::Design(_) => slots_of(links),
        });
        self.switch_owners = owners.collect();
    }

    /// The owner of a port of switch `n`.
    fn switch_port(&self, n: usize, port: usize) -> Owner {
        match &self.switch_owners[n] {
            SwitchOwners::Own(switch) => Owner::Switch { switch: *switch, port: port as u32 },
            SwitchOwners::Slots(slots) => Owner::Slot(slots[port].unwrap_or_default() as u32),
        }
    }

    fn name(&self, link: usize) -> LinkName {
        if link < self.slots { LinkName::Slot(link) } else { LinkName::Switch(link - self.slots) }
    }

    /// Enters link `n` at both of its ends.
    fn join(&mut self, n: usize) -> Result<(), TopologyError> {
        let (link, id) = (self.name(n), LinkId(n as u32));
        if let LinkName::Switch(below) = link {
            self.switch_links[below][0] = Some(id);
        }
        let (switch, port) = match self.above[n] {
            Above::Switch { switch, port } => (switch, port),
            Above::RootPort(host) => {
                let count = self.root_links.len();
                let links = self.root_links.get_mut(host.index());
                links.ok_or(TopologyError::NoHost { link, host, count })?.push(id);
                return Ok(());
            }
        };
        let count = self.switch_links.len();
        let ports = self.switch_links.get_mut(switch);
        let ports = ports.ok_or(TopologyError::NoSwitch { link, switch, count })?;
        let last = ports.len() - 1;
        let place = ports.get_mut(port).filter(|_| port > 0);
        let place = place.ok_or(TopologyError::NoPort { link, switch, port, last })?;
        match place.replace(id) {
            None => Ok(()),
            Some(_) => Err(TopologyError::PortTaken { link, switch, port }),
        }
    }

    /// Gives the link of `host` to a root complex that is not riser's.
    fn join_design(&mut self, host: HostId) -> Result<(), TopologyError> {
        let links = self.root_links.get_mut(host.index()).map(std::mem::take).unwrap_or_default();
        match links[..] {
            [link] => self.design_links.push(link),
            _ => return Err(TopologyError::DesignLinks(links.len())),
        }
        Ok(())
    }

    fn check_reaches_root(&self, first: usize) -> Result<(), TopologyError> {
        let mut at = first;
        for _ in 0..=self.switch_links.len() {
            match self.above[self.slots + at] {
                Above::RootPort(_) => return Ok(()),
                Above::Switch { switch, .. } => at = switch,
            }
        }
        Err(TopologyError::Loop(first))
    }

    /// The owner of the port at `side` of link `n`.
    fn owner(&self, n: usize, side: Side) -> Owner {
        match (side, self.name(n), self.above[n]) {
            (Side::Device, LinkName::Slot(slot), _) => Owner::Slot(slot as u32),
            (Side::Device, LinkName::Switch(switch), _) => self.switch_port(switch, 0),
            (Side::Root, _, Above::Switch { switch, port }) => self.switch_port(switch, port),
            (Side::Root, _, Above::RootPort(host)) => {
                let design = self.design_links.iter().position(|link| link.0 as usize == n);
                if let Some(design) = design {
                    return Owner::Slot((self.slots + design) as u32);
                }
                let place = self.root_links[host.index()].iter().position(|link| link.0 as usize == n);
                Owner::Root(host, place.unwrap_or_default() as u32)
            }
        }
    }

    /// Indices of the ports of switch `n`; `None` for a downstream port without a link.
    fn switch_ports(&self, n: usize) -> Vec<Option<usize>> {
        let index = |(port, link): (usize, &Option<LinkId>)| {
            let side = if port == 0 { Side::Device } else { Side::Root };
            link.map(|link| PortId::new(link, side).index())
        };
        self.switch_links[n].iter().enumerate().map(index).collect()
    }

    /// The slots of the ports of switch `n`, which is not riser's. Ports without a link have none.
    fn slots_of_switch(&self, n: usize, ends: Vec<Box<dyn TlpPort>>) -> Vec<FabricSlot> {
        let ports = self.switch_ports(n).into_iter().zip(ends);
        ports.filter_map(|(index, end)| Some(FabricSlot::new(index?, end))).collect()
    }

    fn root_ports(&self, host: usize) -> Vec<usize> {
        self.root_links[host].iter().map(|&link| PortId::new(link, Side::Root).index()).collect()
    }
}

impl Fabric {
    /// Makes a fabric at time zero, with its links about to come up.
    ///
    /// # Errors
    /// Fails if the links do not form a tree below each root complex.
    pub fn new(config: FabricConfig) -> Result<Fabric, TopologyError> {
        Fabric::with_designs(config, Vec::new())
    }

    /// Like [`new`](Self::new), with root complexes that are not riser's. Their hosts have no `root_ports`.
    ///
    /// # Errors
    /// As [`new`](Self::new); also if the host of such a root complex does not have exactly one link.
    pub fn with_designs(
        config: FabricConfig,
        root_designs: Vec<RootDesign>,
    ) -> Result<Fabric, TopologyError> {
        if config.hosts.is_empty() || config.hosts.len() > MAX_HOSTS {
            return Err(TopologyError::Hosts(config.hosts.len()));
        }
        let tree = Tree::new(&config, &root_designs)?;
        for (links, host) in tree.root_links.iter().zip(&config.hosts) {
            check_root_ports(links.len(), &host.root_ports)?;
        }
        check_credits(&tree, &config)?;
        let (mut links, mut slots, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        for (n, SlotConfig { link, device, .. }) in config.slots.into_iter().enumerate() {
            links.push(link);
            slots.push(FabricSlot::new(PortId::new(LinkId(n as u32), Side::Device).index(), device));
        }
        let mut switch_designs = Vec::new();
        for (n, SwitchSlot { link, switch, .. }) in config.switches.into_iter().enumerate() {
            links.push(link);
            match switch {
                SwitchEnd::Own(switch) => {
                    let (ports, timer) = (tree.switch_ports(n), TimerEvents::none());
                    switches.push(SwitchState { number: n, switch: *switch, ports, timer });
                }
                SwitchEnd::Design(ends) => switch_designs.push((n, ends)),
            }
        }
        let devices = slots.len();
        let mut designs = Vec::new();
        for (RootDesign { host, frames, mut bus }, &link) in root_designs.into_iter().zip(&tree.design_links)
        {
            bus.connect(config.hosts[host.index()].memory.clone());
            designs.push(Design::new(host, slots.len(), link, bus));
            slots.push(FabricSlot::new(PortId::new(link, Side::Root).index(), frames));
        }
        let mut designed_switches = Vec::new();
        for (number, ends) in switch_designs {
            let first = slots.len();
            slots.extend(tree.slots_of_switch(number, ends));
            designed_switches.push(DesignedSwitch { number, slots: (first..slots.len()).collect() });
        }
        check_frames(&tree, &links, &slots)?;
        let mut ports = ports(&tree, &links, &slots, &config.faults, config.seed);
        for port in &mut ports {
            if let Owner::Switch { switch, .. } = port.owner {
                let cuts_through = switches[switch as usize].switch.cuts_through();
                port.port.set_rare(Rare::CUT_THROUGH, cuts_through);
            }
        }
        for slot in &mut slots {
            let peer = &ports[ports[slot.port].id.peer().index()];
            slot.is_below_root = matches!(peer.owner, Owner::Root(..));
        }
        let hosts = config.hosts.into_iter().enumerate();
        let hosts = hosts.map(|(n, host)| host_side(&tree, &links, n, host, config.seed));
        let hosts = Hosts::new(hosts).ok_or(TopologyError::Hosts(0))?;
        let frame_ends = frame_ends(&slots, &ports);
        Ok(Fabric {
            started: false,
            now: Time::ZERO,
            queue: SortedQueue::default(),
            ports,
            switches,
            held: vec![LinkDown::default(); links.len()],
            frame_ends,
            slots,
            devices,
            designs,
            designed_switches,
            hosts,
            ledger: Ledger::new(links.len()),
            tap: None,
            totals: RunTotals::default(),
            last_progress: Time::ZERO,
            silence: Silence::default(),
            look: super::quiet::Look::default(),
            host_started: false,
            next_fault: config.faults.len(),
            never_sent: None,
            names: Vec::new(),
            ends: false,
            ended_at: Time::ZERO,
            link_events: Vec::new(),
            recoveries: links.iter().map(Recovery::of).collect(),
            touched: Vec::new(),
            actions: VecDeque::new(),
            at_this_instant: 0,
            known_until: Time::ZERO,
        })
    }
}

/// Bare root ports have as many windows as the fixed map; root ports with functions are devices of bus 0.
fn check_root_ports(count: usize, spaces: &[ConfigSpace]) -> Result<(), TopologyError> {
    if count > MAX_ROOT_FUNCTIONS && !spaces.is_empty() {
        return Err(TopologyError::RootFunctions(count));
    }
    if count > spaces.len().max(AddressMap::MAX_ROOT_PORTS) {
        return Err(TopologyError::RootPorts(count));
    }
    let no_bridge = spaces.iter().position(|space| space.bridge().is_none());
    no_bridge.map_or(Ok(()), |port| Err(TopologyError::NoBridge(port)))
}

/// Checks that each receiver has room for the longest non-posted request that its owner takes. Bare root ports declare
/// no functions.
fn check_credits(tree: &Tree, config: &FabricConfig) -> Result<(), TopologyError> {
    let mut spaces: Vec<_> = config.hosts.iter().map(|host| host.root_ports.iter()).collect();
    for n in 0..tree.above.len() {
        let (link, below) = match config.slots.get(n) {
            Some(slot) => (&slot.link, slot.device.longest_non_posted()),
            None => {
                let SwitchSlot { link, switch, .. } = &config.switches[n - config.slots.len()];
                (link, switch.longest_non_posted(0))
            }
        };
        let above = match tree.above[n] {
            Above::RootPort(host) => spaces[host.index()].next().map(ConfigSpace::longest_non_posted),
            Above::Switch { switch, port } => Some(config.switches[switch].switch.longest_non_posted(port)),
        };
        let ends = [(Side::Device, &link.device, Some(below)), (Side::Root, &link.root, above)];
        for (side, end, bytes) in ends {
            let checked = end.validate_non_posted(bytes.unwrap_or(0));
            checked.map_err(|error| TopologyError::NonPostedCredits { link: tree.name(n), side, error })?;
        }
    }
    Ok(())
}

/// A data link layer that is not riser's works only with credits.
fn check_frames(tree: &Tree, links: &[LinkConfig], slots: &[FabricSlot]) -> Result<(), TopologyError> {
    let has_credits = |n: usize| links[n].root.flow_control == FlowControlMode::Credits;
    // Ports are numbered by their links, two each.
    let mut own = slots.iter().filter(|slot| slot.has_frames).map(|slot| slot.port / 2);
    let wrong = own.find(|&n| !has_credits(n));
    wrong.map_or(Ok(()), |n| Err(TopologyError::FramesWithoutCredits(tree.name(n))))
}

impl FabricSlot {
    fn new(port: usize, mut device: Box<dyn TlpPort>) -> FabricSlot {
        let has_frames = device.frames().is_some();
        let clock = device.clock();
        let (is_clocked, shows_credits) = (clock.is_some(), clock.is_some_and(|clock| clock.shows_credits()));
        let held = [const { None }; 3];
        FabricSlot {
            port,
            device,
            is_clocked,
            has_frames,
            shows_credits,
            timer: TimerEvents::none(),
            held,
            holds: 0,
            is_below_root: false,
        }
    }
}

/// Builds host `n` of `tree`.
fn host_side(tree: &Tree, links: &[LinkConfig], n: usize, host: HostConfig, seed: u64) -> HostSide {
    let HostConfig { profile, memory, payloads, root_ports, program } = host;
    let (rcb, mut spaces) = (profile.rcb, root_ports.into_iter());
    let root_port = |&id: &LinkId| root_port(&links[id.0 as usize], rcb, spaces.next());
    let root_ports: Vec<RootPortConfig> = tree.root_links[n].iter().map(root_port).collect();
    // Each host draws its own random numbers.
    let seed = seed ^ (n as u64).wrapping_mul(0xd134_2543_de82_ef95);
    let root = RootComplex::new(profile, memory, payloads, root_ports).with_seed(seed);
    HostSide::new(root, tree.root_ports(n), program.map(HostSlot::new))
}

fn root_port(link: &LinkConfig, rcb: Rcb, space: Option<ConfigSpace>) -> RootPortConfig {
    RootPortConfig { mps: link.root.mps, rcb: link.rcb.unwrap_or(rcb), space, preset: false }
}

/// Builds both ports of every link.
fn ports(
    tree: &Tree,
    links: &[LinkConfig],
    slots: &[FabricSlot],
    faults: &[FaultRule],
    seed: u64,
) -> Vec<PortState> {
    let mut ports = Vec::with_capacity(2 * links.len());
    for (n, link) in links.iter().enumerate() {
        for (side, config) in [(Side::Root, &link.root), (Side::Device, &link.device)] {
            let id = PortId::new(LinkId(n as u32), side);
            let faults = faults_into(faults, id, link.bit_error_rate, seed);
            let owner = tree.owner(n, side);
            let port = match owner {
                Owner::Slot(n) if slots[n as usize].has_frames => Port::carrier(config.clone()),
                _ => Port::new(config.clone()),
            };
            ports.push(PortState::new(id, owner, port, link.propagation, faults));
        }
    }
    ports
}

/// The slots with their own data link layers.
fn frame_ends(slots: &[FabricSlot], ports: &[PortState]) -> Vec<FrameEnd> {
    let own = slots.iter().filter(|slot| slot.has_frames);
    own.map(|slot| FrameEnd::new(ports[slot.port].id)).collect()
}

/// Returns the faults of the direction into `port`, with their own random draws.
fn faults_into(rules: &[FaultRule], port: PortId, bit_error_rate: u64, seed: u64) -> Faults {
    let (link, direction) = (port.link(), Direction::of_sender(port.peer().side()));
    let own = rules.iter().enumerate().filter(|(_, r)| r.link == link && r.direction == direction);
    let stream = u64::from(link.0) * 2 + port.side() as u64 + 1;
    Faults::new(
        own.map(|(n, rule)| (n, rule.clone())),
        bit_error_rate,
        seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    )
}
