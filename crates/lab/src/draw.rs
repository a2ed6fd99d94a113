// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws a lab in characters, with the words of the lab file.

use crate::bridges;
use crate::faults;
use crate::schema::{Forwarding, Lab, LinkChange};
use crate::tree::Tree;
use fabric::LinkConfig;
use link::{FlowControlMode, PortConfig, VcScheme};
use std::fmt::Write;
use tlp::{Bdf, TcSet, TrafficClass, Vc};

/// Draws `lab`: one line per link with the component at its far end, then a line of details if the link has
/// virtual channels or its own flow control. Link events, outages and faults follow.
pub fn draw(lab: &Lab) -> String {
    let mut text = format!(
        "host {} ({} MiB low, {} MiB high), seed {}\n",
        lab.host.profile.get_ref(),
        lab.host.low_memory_mib.get_ref(),
        lab.host.high_memory_mib.get_ref(),
        lab.seed
    );
    if let Ok(tree) = Tree::of(lab) {
        let picture = Picture { lab, buses: tree.slot_ids(), links: bridges::all_links(lab, &tree), tree };
        for host in picture.tree.host_ids() {
            if let Some(host) = host.0.checked_sub(1).map(|n| &lab.external_host[n as usize]) {
                let _ = writeln!(text, "host {} (external), {}", host.name.get_ref(), host.profile());
            }
            let links: Vec<usize> = picture.tree.root_links(host).collect();
            for (n, &link) in links.iter().enumerate() {
                picture.line(&mut text, "", link, &format!("root port {n}"), n + 1 == links.len());
            }
        }
    }
    for change in &lab.link_event {
        let _ = writeln!(text, "{}", event(change));
    }
    for outage in &lab.outage {
        let _ = writeln!(text, "{}", faults::draw_outage(outage));
    }
    for rule in &lab.fault {
        let _ = writeln!(text, "{}", faults::draw(rule));
    }
    text.truncate(text.trim_end().len());
    text
}

/// A lab and the data needed to draw it.
struct Picture<'a> {
    lab: &'a Lab,
    tree: Tree,
    links: Vec<LinkConfig>,
    buses: Vec<Bdf>,
}

impl Picture<'_> {
    /// Draws a link on `port`, and everything below it.
    fn line(&self, text: &mut String, indent: &str, n: usize, port: &str, last: bool) {
        let link = &self.links[n];
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{indent} {}─ {port} ══ Gen{} {}, MPS {} ══ {}",
            if last { '└' } else { '├' },
            link.root.rate.generation(),
            link.root.width,
            link.root.mps,
            self.end(n),
        );
        let indent = format!("{indent} {}  ", if last { ' ' } else { '│' });
        for detail in details(link) {
            let _ = writeln!(text, "{indent}   {detail}");
        }
        let Some(switch) = n.checked_sub(self.lab.slot.len()) else { return };
        let below: Vec<(usize, usize)> = (1..=self.tree.downstream_ports[switch])
            .filter_map(|port| Some((port, self.tree.below(switch, port)?)))
            .collect();
        for (i, &(port, link)) in below.iter().enumerate() {
            self.line(text, &indent, link, &format!("port {port}"), i + 1 == below.len());
        }
    }

    /// Describes the component at the far end of link `n`.
    fn end(&self, n: usize) -> String {
        if let Some(slot) = self.lab.slot.get(n) {
            let bus = self.buses[n].bus();
            return format!("{}: {}   bus {bus:02x}", slot.name.get_ref(), slot.device.get_ref());
        }
        let switch = &self.lab.switch[n - self.lab.slot.len()];
        let mode = match switch.forwarding {
            Forwarding::StoreAndForward => "store-and-forward",
            Forwarding::CutThrough => "cut-through",
        };
        format!("switch {}: {} ns, {mode}", switch.name.get_ref(), switch.latency_ns.get_ref())
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
