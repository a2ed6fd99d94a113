// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as a picture, with the words of the lab file: [`Sketch`] has its parts, and [`draw`] writes it in characters.

use crate::bridges;
use crate::faults;
use crate::schema::{Forwarding, Lab, LinkChange};
use crate::tree::Tree;
use fabric::LinkConfig;
use link::{FlowControlMode, PortConfig, VcScheme};
use std::fmt::Write;
use tlp::{Bdf, TcSet, TrafficClass, Vc};

/// A picture of a lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    /// The lab's hosts, the simulated one first.
    pub hosts: Vec<SketchedHost>,
    /// Link events, outages and faults, one line each.
    pub events: Vec<String>,
}

/// A host and the links of its root ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SketchedHost {
    /// Name of the host; of the simulated host, its profile, or the model of a root complex that is not riser's.
    pub name: String,
    /// Its memory and seed, or its profile.
    pub facts: Vec<String>,
    /// Its links, in the order of root ports.
    pub links: Vec<SketchedLink>,
}

/// A link with the component at its far end, and everything below.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SketchedLink {
    /// The port above: `root port 0`, or `port 1` of a switch.
    pub port: String,
    /// Generation and width.
    pub speed: String,
    /// Max_Payload_Size.
    pub mps: String,
    /// Virtual channels and flow control, if they differ from the defaults.
    pub details: Vec<String>,
    /// Component at the far end.
    pub end: SketchedEnd,
    /// Links of a switch, in the order of its downstream ports.
    pub below: Vec<SketchedLink>,
}

/// A component at the far end of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SketchedEnd {
    /// A slot.
    Slot {
        /// Its name.
        name: String,
        /// Model of its device.
        device: String,
        /// Bus of its device.
        bus: u8,
    },
    /// A switch.
    Switch {
        /// Its name.
        name: String,
        /// Latency and forwarding.
        facts: Vec<String>,
    },
}

/// Draws `lab`: one line per link with the component at its far end, then a line of details if the link has
/// virtual channels or its own flow control. Link events, outages and faults follow.
pub fn draw(lab: &Lab) -> String {
    let sketch = Sketch::of(lab);
    let mut text = String::new();
    for host in &sketch.hosts {
        let (last, facts) = host.facts.split_last().map_or(("", &[][..]), |(last, facts)| (last, facts));
        // Writing to a string does not fail.
        let _ = writeln!(text, "host {} ({}), {last}", host.name, facts.join(", "));
        lines(&mut text, "", &host.links);
    }
    text += &sketch.events.join("\n");
    text.truncate(text.trim_end().len());
    text
}

impl Sketch {
    /// Returns a picture of `lab`.
    pub fn of(lab: &Lab) -> Sketch {
        let hosts = match Tree::of(lab) {
            Ok(tree) => {
                Picture { lab, buses: tree.slot_ids(), links: bridges::all_links(lab, &tree), tree }.hosts()
            }
            Err(_) => Vec::new(),
        };
        let events = lab.link_event.iter().map(event);
        let outages = lab.outage.iter().map(faults::draw_outage);
        Sketch { hosts, events: events.chain(outages).chain(lab.fault.iter().map(faults::draw)).collect() }
    }
}

/// Writes a line for each link, and for everything below it.
fn lines(text: &mut String, indent: &str, links: &[SketchedLink]) {
    for (n, link) in links.iter().enumerate() {
        let is_last = n + 1 == links.len();
        let SketchedLink { port, speed, mps, details, end, below } = link;
        let end = match end {
            SketchedEnd::Slot { name, device, bus } => format!("{name}: {device}   bus {bus:02x}"),
            SketchedEnd::Switch { name, facts } => format!("switch {name}: {}", facts.join(", ")),
        };
        let corner = if is_last { '└' } else { '├' };
        let _ = writeln!(text, "{indent} {corner}─ {port} ══ {speed}, {mps} ══ {end}");
        let indent = format!("{indent} {}  ", if is_last { ' ' } else { '│' });
        for detail in details {
            let _ = writeln!(text, "{indent}   {detail}");
        }
        lines(text, &indent, below);
    }
}

/// A lab and the data needed to draw it.
struct Picture<'a> {
    lab: &'a Lab,
    tree: Tree,
    links: Vec<LinkConfig>,
    buses: Vec<Bdf>,
}

impl Picture<'_> {
    fn hosts(&self) -> Vec<SketchedHost> {
        self.tree
            .host_ids()
            .map(|host| {
                let links = self.tree.root_links(host).enumerate();
                let (name, facts) = self.host(host.0 as usize);
                SketchedHost {
                    name,
                    facts,
                    links: links.map(|(n, link)| self.link(link, format!("root port {n}"))).collect(),
                }
            })
            .collect()
    }

    /// Returns the name and the facts of host `n`; the simulated one is host 0.
    fn host(&self, n: usize) -> (String, Vec<String>) {
        let host = &self.lab.host;
        match n.checked_sub(1).and_then(|n| self.lab.external_host.get(n)) {
            Some(external) => {
                (external.name.get_ref().clone(), vec!["external".to_owned(), external.profile().to_owned()])
            }
            None => {
                let (low, high) = (host.low_memory_mib.get_ref(), host.high_memory_mib.get_ref());
                let memory = [format!("{low} MiB low"), format!("{high} MiB high")];
                let facts = memory.into_iter().chain([format!("seed {}", self.lab.seed)]);
                let name = host.root_complex.as_ref().unwrap_or(&host.profile);
                (name.get_ref().clone(), facts.collect())
            }
        }
    }

    /// Returns link `n` on `port`, and everything below it.
    fn link(&self, n: usize, port: String) -> SketchedLink {
        let link = &self.links[n];
        let switch = n.checked_sub(self.lab.slot.len());
        let ports = switch.map_or(0, |switch| self.tree.downstream_ports[switch]);
        let below = (1..=ports)
            .filter_map(|port| Some(self.link(self.tree.below(switch?, port)?, format!("port {port}"))));
        SketchedLink {
            port,
            speed: format!("Gen{} {}", link.root.rate.generation(), link.root.width),
            mps: format!("MPS {}", link.root.mps),
            details: details(link),
            end: self.end(n),
            below: below.collect(),
        }
    }

    /// Describes the component at the far end of link `n`.
    fn end(&self, n: usize) -> SketchedEnd {
        if let Some(slot) = self.lab.slot.get(n) {
            return SketchedEnd::Slot {
                name: slot.name.get_ref().clone(),
                device: slot.device.get_ref().clone(),
                bus: self.buses[n].bus(),
            };
        }
        let switch = &self.lab.switch[n - self.lab.slot.len()];
        let mode = match switch.forwarding {
            Forwarding::StoreAndForward => "store-and-forward",
            Forwarding::CutThrough => "cut-through",
        };
        SketchedEnd::Switch {
            name: switch.name.get_ref().clone(),
            facts: match &switch.device {
                Some(model) => vec![model.get_ref().clone()],
                None => vec![format!("{} ns", switch.latency_ns.get_ref()), mode.to_owned()],
            },
        }
    }
}

/// Settings of this link that differ from the defaults: virtual channels and flow control.
fn details(link: &LinkConfig) -> Vec<String> {
    let port = &link.root;
    let mut details = Vec::new();
    if port.tc_vc != tlp::TcVcMap::default() {
        details.push(channels(port));
    }
    if let FlowControlMode::None { buffer_tlps } = port.flow_control {
        details.push(format!("flow control none: buffers of {buffer_tlps} TLPs"));
    } else if port.scaled_flow_control {
        details.push("flow control scaled".to_owned());
    }
    details
}

fn channels(port: &PortConfig) -> String {
    let used = Vc::all().filter(|vc| !port.tc_vc.classes(*vc).is_empty());
    let weights = |vc: Vc| match &port.arbitration.scheme {
        VcScheme::Weighted(table) => table.phases().iter().filter(|phase| **phase == vc).count(),
        VcScheme::RoundRobin => 0,
    };
    let channel = |vc: Vc| {
        let of = format!("VC{} {}", vc.index(), classes(port.tc_vc.classes(vc)));
        if weights(vc) > 0 { format!("{of} {} phases", weights(vc)) } else { of }
    };
    let all: Vec<String> = used.map(channel).collect();
    format!("{}; {}", all.join(", "), arbitration(port))
}

/// Formats Traffic Classes, such as `TC0-2+5`.
fn classes(set: TcSet) -> String {
    let has = |tc: u8| TrafficClass::new(tc).is_some_and(|tc| set.contains(tc));
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for tc in (0..8).filter(|tc| has(*tc)) {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == tc => *end = tc,
            _ => runs.push((tc, tc)),
        }
    }
    let run =
        |(first, end): &(u8, u8)| if first == end { first.to_string() } else { format!("{first}-{end}") };
    format!("TC{}", runs.iter().map(run).collect::<Vec<_>>().join("+"))
}

fn arbitration(port: &PortConfig) -> String {
    let low = port.arbitration.low_priority.index();
    let group = match &port.arbitration.scheme {
        _ if low == 0 => return "strict".to_owned(),
        VcScheme::RoundRobin => "round-robin",
        VcScheme::Weighted(_) => "weighted",
    };
    let above = Vc::all().any(|vc| vc.index() > low && !port.tc_vc.classes(vc).is_empty());
    if above { format!("{group} up to VC{low}, higher ones first") } else { group.to_owned() }
}

fn event(change: &LinkChange) -> String {
    let rate = change.generation.as_ref().map(|given| format!("Gen{}", given.get_ref().0.generation()));
    let lanes = change.lanes.as_ref().map(|given| given.get_ref().0.to_string());
    let to: Vec<String> = rate.into_iter().chain(lanes).collect();
    let to = if to.is_empty() { "initial speed".to_owned() } else { to.join(" ") };
    format!("link event at {} us, {}: {to}", change.at_us, change.slot.get_ref())
}
