// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The topology of a lab: slots and switches, given by name, become links of a tree. Only names and ports are used.

use crate::schema::{Hanging, Lab, Slot};
use crate::wrong::Wrong;
use fabric::{Above, HostId};
use host::firmware::{Path, Policy, Room};
use std::collections::BTreeMap;
use tlp::Bdf;

/// Name of the root complex in a lab.
pub(crate) const ROOT: &str = "root";
/// Maximum number of downstream ports of a switch: the device numbers of its internal bus.
pub(crate) const MAX_DOWNSTREAM_PORTS: usize = 31;

/// Bus numbers that firmware reserves for a hot-plug capable slot, in addition to the slot's own.
pub const HOT_PLUG_BUSES: u8 = 1;

/// The tree of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Port above each slot.
    pub(crate) slots: Vec<Above>,
    /// Port above each switch.
    pub(crate) switches: Vec<Above>,
    /// Downstream ports of each switch.
    pub(crate) downstream_ports: Vec<usize>,
    /// Whether the port above each link is hot-plug capable: slots first, then switches.
    pub(crate) hot_plug: Vec<bool>,
    /// Whether the port above each link has button, indicators and power controller.
    pub(crate) controls: Vec<bool>,
    /// Further buses of each slot, which its virtual functions need.
    pub(crate) buses_behind: Vec<u8>,
    /// Whether the root ports of each host signal interrupts: the simulated host, then the outside ones.
    root_port_interrupts: Vec<bool>,
    /// Whether the root port of the simulated host is device 0 of bus 0, in a root complex that is not riser's.
    is_design: bool,
}

/// State of bus numbering.
struct Numbering {
    /// The next bus number. The count continues beyond 255, which is illegal, so that the error can name the number of
    /// buses.
    next: u16,
    /// Bus number of each slot.
    buses: Vec<u8>,
    /// The first link that got no bus number.
    beyond: Option<usize>,
}

impl Numbering {
    /// Assigns `count` buses to link `n`. Returns the first bus.
    fn take(&mut self, n: usize, count: u16) -> u8 {
        let first = self.next;
        // At most 31 ports for each of the switches in a file.
        self.next = self.next.saturating_add(count);
        if self.next > 256 {
            self.beyond.get_or_insert(n);
        }
        first.min(255) as u8
    }
}

impl Tree {
    /// Returns the tree of `lab`.
    pub(crate) fn of(lab: &Lab) -> Result<Tree, Wrong> {
        let hanging: Vec<Hanging<'_>> = lab.hanging().collect();
        let parents = parents(lab, &hanging)?;
        check_loops(lab, &hanging, &parents)?;
        let ports = ports(lab, &hanging, &parents)?;
        let above = |n: usize| match parents[n] {
            Parent::Root(host) => Above::RootPort(host),
            Parent::Switch(switch) => Above::Switch { switch, port: ports[n] },
        };
        let slots = lab.slot.len();
        let tree = Tree {
            slots: (0..slots).map(above).collect(),
            switches: (slots..hanging.len()).map(above).collect(),
            downstream_ports: downstream_ports(lab, &hanging, &parents, &ports)?,
            hot_plug: hanging.iter().map(|h| h.hot_plug).collect(),
            controls: hanging.iter().map(|h| h.controls).collect(),
            buses_behind: lab.slot.iter().map(buses_behind).collect(),
            root_port_interrupts: std::iter::once(lab.host.root_port_interrupts)
                .chain(lab.external_host.iter().map(|host| host.root_port_interrupts))
                .collect(),
            is_design: lab.host.root_complex.is_some(),
        };
        tree.check_buses(&hanging)?;
        tree.check_hot_plug(&hanging)?;
        Ok(tree)
    }

    /// Rejects a tree that needs more than 255 bus numbers; the error names the first slot or switch without one.
    fn check_buses(&self, hanging: &[Hanging<'_>]) -> Result<(), Wrong> {
        self.host_ids().try_for_each(|host| {
            let count = self.numbered(host);
            let Some(n) = count.beyond else { return Ok(()) };
            let (name, last) = (hanging[n].name, count.next - 1);
            let message = format!(
                "`{}` needs bus numbers beyond 255: the tree has {last} buses below the root complex, expected up to 255",
                name.get_ref()
            );
            Err(Wrong { span: name.span(), message })
        })
    }

    /// Rejects a hot-plug slot at a root port without interrupts: its events could not be signalled.
    fn check_hot_plug(&self, hanging: &[Hanging<'_>]) -> Result<(), Wrong> {
        let deaf = |n: &usize| matches!(self.above(*n), Above::RootPort(host) if self.hot_plug[*n] && !self.has_interrupts(host));
        let Some(n) = (0..hanging.len()).find(deaf) else { return Ok(()) };
        let name = hanging[n].name;
        let message = format!(
            "`{}` is hot-plug capable (hot_plug = true), but its root port has no interrupts (root_port_interrupts = false)",
            name.get_ref()
        );
        Err(Wrong { span: name.span(), message })
    }

    /// True if the root ports of `host` signal interrupts.
    pub(crate) fn has_interrupts(&self, host: HostId) -> bool {
        self.root_port_interrupts[host.0 as usize]
    }

    /// True if the root complex of `host` is not riser's.
    pub(crate) fn has_design(&self, host: HostId) -> bool {
        self.is_design && host == HostId::FIRST
    }

    /// The hosts.
    pub(crate) fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.root_port_interrupts.len() as u32).map(HostId)
    }

    /// Number of buses of a host, including bus 0.
    pub(crate) fn buses(&self, host: HostId) -> u16 {
        self.numbered(host).next
    }

    /// Numbers the buses below a host, depth first.
    fn numbered(&self, host: HostId) -> Numbering {
        let mut count = Numbering { next: 1, buses: vec![0; self.slots.len()], beyond: None };
        self.root_links(host).for_each(|n| self.number(n, &mut count));
        count
    }
}

/// Further buses that the virtual functions of a slot's device need. The physical function is function 0, the first
/// virtual function is function 1, and a bus has room for 256 functions (`PCIe 5.0 §9.3.3.9`, `§9.3.3.10`).
fn buses_behind(slot: &Slot) -> u8 {
    (slot.needs().virtual_functions / 256) as u8
}

/// Position of a root port or downstream port on its bus: device number in bits 7:3, function 0.
const fn device(number: usize) -> u8 {
    (number as u8) << 3
}

impl Tree {
    /// Paths of the functions of all slots: the bridges from the root complex down, then function 0 of device 0. Root port
    /// `n` is device `n + 1` of bus 0, or device 0 in a root complex that is not riser's; downstream port `k` of a switch is device `k - 1` of its internal bus.
    pub(crate) fn slot_paths(&self) -> Vec<Path> {
        (0..self.slots.len()).map(|n| self.port_path(n).below(0)).collect()
    }

    /// Path of the port above link `n`.
    pub(crate) fn port_path(&self, n: usize) -> Path {
        match self.above(n) {
            Above::RootPort(host) if self.has_design(host) => Path(vec![device(0)]),
            Above::RootPort(_) => Path(vec![device(self.root_port(n) + 1)]),
            Above::Switch { switch, port } => {
                self.port_path(self.slots.len() + switch).below(0).below(device(port - 1))
            }
        }
    }

    fn above(&self, n: usize) -> Above {
        self.slots
            .get(n)
            .or_else(|| self.switches.get(n - self.slots.len()))
            .copied()
            .unwrap_or(Above::RootPort(HostId::FIRST))
    }

    /// Index of the root port above link `n`. Root ports are assigned in the order of links.
    fn root_port(&self, n: usize) -> usize {
        self.root_links(self.host_of(n)).take_while(|&link| link < n).count()
    }

    /// Returns a tree with one slot on a root port.
    pub(crate) fn one_slot() -> Tree {
        Tree {
            slots: vec![Above::RootPort(HostId::FIRST)],
            switches: Vec::new(),
            downstream_ports: Vec::new(),
            hot_plug: vec![false],
            controls: vec![false],
            buses_behind: vec![0],
            root_port_interrupts: vec![true],
            is_design: false,
        }
    }

    /// IDs of function 0 of device 0 of each slot, as enumeration by its host will number them.
    pub(crate) fn slot_ids(&self) -> Vec<Bdf> {
        let buses: Vec<Vec<u8>> = self.host_ids().map(|host| self.numbered(host).buses).collect();
        let id = |n: usize| Bdf::from_bits(u16::from(buses[self.host_of(n).0 as usize][n]) << 8);
        (0..self.slots.len()).map(id).collect()
    }

    /// Links below the root ports of a host, in the order of the ports.
    pub(crate) fn root_links(&self, host: HostId) -> impl Iterator<Item = usize> {
        let all = 0..self.slots.len() + self.switches.len();
        all.filter(move |&n| self.above(n) == Above::RootPort(host))
    }

    /// Physical slot number of the first downstream port of a switch: after those of its host's root ports and of earlier
    /// switches.
    pub(crate) fn first_slot_number(&self, switch: usize) -> usize {
        let host = self.host_of(self.slots.len() + switch);
        let earlier = (0..switch).filter(|&other| self.host_of(self.slots.len() + other) == host);
        1 + self.root_links(host).count() + earlier.map(|other| self.downstream_ports[other]).sum::<usize>()
    }

    /// The host that link `n` leads to.
    pub(crate) fn host_of(&self, n: usize) -> HostId {
        match self.above(self.root_link(n)) {
            Above::RootPort(host) => host,
            Above::Switch { .. } => HostId::FIRST,
        }
    }

    /// True if link `n` leads to the simulated host.
    pub(crate) fn is_simulated(&self, n: usize) -> bool {
        self.host_of(n) == HostId::FIRST
    }

    /// The link below a downstream port.
    pub(crate) fn below(&self, switch: usize, port: usize) -> Option<usize> {
        let place = Above::Switch { switch, port };
        (0..self.slots.len() + self.switches.len()).find(|&m| self.above(m) == place)
    }

    /// Numbers the bus below link `n` and everything below that.
    fn number(&self, n: usize, count: &mut Numbering) {
        let bus = count.take(n, 1);
        let Some(switch) = n.checked_sub(self.slots.len()) else {
            count.buses[n] = bus;
            let behind = u16::from(self.buses_behind[n]);
            count.take(n, behind);
            // A card that is inserted later may have its own buses, if there are unused bus numbers.
            let kept = u16::from(HOT_PLUG_BUSES).saturating_sub(behind);
            if self.hot_plug[n] && count.next <= 256 - kept {
                count.take(n, kept);
            }
            return;
        };
        // The internal bus of the switch.
        count.take(n, 1);
        for port in 1..=self.downstream_ports[switch] {
            match self.below(switch, port) {
                Some(below) => self.number(below, count),
                // An empty port also has a bus.
                None => _ = count.take(n, 1),
            }
        }
    }
}

impl Tree {
    /// Room that enumeration reserves below hot-plug capable ports above switches, so that all devices fit when they
    /// are added later. The room consists of buses (in addition to the bus of the switch's upstream port) and of bytes
    /// of memory.
    pub(crate) fn hot_plug_room(&self) -> BTreeMap<Path, Room> {
        let switches = self.slots.len()..self.hot_plug.len();
        let hot = switches.filter(|&n| self.hot_plug[n] && self.is_simulated(n));
        hot.map(|n| (self.port_path(n), self.room(n))).collect()
    }

    fn room(&self, n: usize) -> Room {
        let mut count = Numbering { next: 1, buses: vec![0; self.slots.len()], beyond: None };
        self.number(n, &mut count);
        // The bus of the upstream port itself needs no reserve.
        let buses = (count.next - 2).min(255) as u8;
        // One window per bus, as for a slot.
        Room { buses, bytes: u64::from(count.next - 1) * Policy::default().hot_plug_bytes }
    }

    /// True if link `n` is below a root port.
    pub(crate) fn is_at_root(&self, n: usize) -> bool {
        matches!(self.above(n), Above::RootPort(_))
    }

    /// Link `n` and the links above it, up to the link below a root port.
    pub(crate) fn way_up(&self, n: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(n), |&n| match self.above(n) {
            Above::RootPort(_) => None,
            Above::Switch { switch, .. } => Some(self.slots.len() + switch),
        })
    }

    /// The link below a root port that leads to link `n`.
    pub(crate) fn root_link(&self, n: usize) -> usize {
        self.way_up(n).last().unwrap_or(n)
    }

    /// The nearest switch above link `n` below a hot-plug capable port, as a link.
    pub(crate) fn lost_with(&self, n: usize) -> Option<usize> {
        self.way_up(n).skip(1).find(|&link| self.hot_plug[link])
    }
}

/// The component above a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// A root port of this host.
    Root(HostId),
    Switch(usize),
}

/// Returns the component above each link.
fn parents(lab: &Lab, hanging: &[Hanging<'_>]) -> Result<Vec<Parent>, Wrong> {
    let switches = lab.switch.iter().enumerate().map(|(n, s)| (s.name.get_ref(), Parent::Switch(n)));
    let hosts = (1..).map(HostId).zip(&lab.external_host).map(|(id, h)| (h.name.get_ref(), Parent::Root(id)));
    let by_name: BTreeMap<&str, Parent> =
        hosts.chain(switches).map(|(name, parent)| (name.as_str(), parent)).collect();
    let parent = |h: &Hanging<'_>| match h.parent {
        None => Ok(Parent::Root(HostId::FIRST)),
        Some(name) if name.get_ref() == ROOT => Ok(Parent::Root(HostId::FIRST)),
        Some(name) => match by_name.get(name.get_ref().as_str()) {
            Some(&parent) => Ok(parent),
            None => {
                let names: Vec<&str> = std::iter::once(ROOT).chain(by_name.keys().copied()).collect();
                let message = format!("no parent `{}`, expected {}", name.get_ref(), names.join(", "));
                Err(Wrong { span: name.span(), message })
            }
        },
    };
    hanging.iter().map(parent).collect()
}

fn check_loops(lab: &Lab, hanging: &[Hanging<'_>], parents: &[Parent]) -> Result<(), Wrong> {
    let slots = lab.slot.len();
    for first in 0..lab.switch.len() {
        let (mut at, mut path) = (first, vec![first]);
        while let Parent::Switch(above) = parents[slots + at] {
            path.push(above);
            if above == first {
                let names: Vec<&str> = path.iter().map(|&n| lab.switch[n].name.get_ref().as_str()).collect();
                let message = format!("a loop: {}", names.join(" below "));
                return Err(Wrong { span: hanging[slots + first].name.span(), message });
            }
            if path.len() > lab.switch.len() {
                // This switch leads to a loop without being part of it; a member of the loop is reported instead.
                break;
            }
            at = above;
        }
    }
    Ok(())
}

/// The downstream port of each link: the named port, or the first free port.
fn ports(lab: &Lab, hanging: &[Hanging<'_>], parents: &[Parent]) -> Result<Vec<usize>, Wrong> {
    let mut taken: Vec<BTreeMap<usize, &str>> = vec![BTreeMap::new(); lab.switch.len()];
    let mut ports = vec![0; hanging.len()];
    for (n, h) in hanging.iter().enumerate() {
        let (Some(given), parent) = (h.port, parents[n]) else { continue };
        let port = usize::from(*given.get_ref());
        let error = |message: String| Err(Wrong { span: given.span(), message });
        let Parent::Switch(switch) = parent else {
            let root = h.parent.map_or(ROOT, |name| name.get_ref());
            return error(format!(
                "port {port} of `{root}`: riser chooses root ports; name a switch as parent"
            ));
        };
        let most = lab.switch[switch]
            .downstream_ports
            .as_ref()
            .map_or(MAX_DOWNSTREAM_PORTS, |p| usize::from(*p.get_ref()));
        if port == 0 || port > most {
            let name = lab.switch[switch].name.get_ref();
            return error(format!("port {port} of switch `{name}`, expected 1 to {most}"));
        }
        if let Some(other) = taken[switch].insert(port, h.name.get_ref()) {
            let name = lab.switch[switch].name.get_ref();
            return error(format!("port {port} of switch `{name}`: `{other}` is already below it"));
        }
        ports[n] = port;
    }
    for (n, h) in hanging.iter().enumerate() {
        let (None, Parent::Switch(switch)) = (h.port, parents[n]) else { continue };
        let free = (1..).find(|port| !taken[switch].contains_key(port)).unwrap_or_default();
        taken[switch].insert(free, h.name.get_ref());
        ports[n] = free;
    }
    Ok(ports)
}

fn downstream_ports(
    lab: &Lab,
    hanging: &[Hanging<'_>],
    parents: &[Parent],
    ports: &[usize],
) -> Result<Vec<usize>, Wrong> {
    let needed = |switch: usize| {
        let used = (0..hanging.len()).filter(|&n| parents[n] == Parent::Switch(switch)).map(|n| ports[n]);
        used.max().unwrap_or(1)
    };
    let count = |(n, switch): (usize, &crate::schema::Switch)| {
        let (needed, name) = (needed(n), switch.name.get_ref());
        let given = switch.downstream_ports.as_ref().map(|p| (usize::from(*p.get_ref()), p.span()));
        let (ports, span) = given.unwrap_or((needed, switch.name.span()));
        if ports == 0 || ports > MAX_DOWNSTREAM_PORTS || ports < needed {
            let message = format!(
                "switch `{name}` with {ports} downstream ports, expected 1 to {MAX_DOWNSTREAM_PORTS}, and at least {needed} for the links below it"
            );
            return Err(Wrong { span, message });
        }
        Ok(ports)
    };
    lab.switch.iter().enumerate().map(count).collect()
}
