// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as a picture in characters, in the words of the lab file.

use crate::faults;
use crate::links;
use crate::schema::{Lab, LinkChange, Slot};
use fabric::{AddressMap, LinkConfig};
use link::{FlowControlMode, PortConfig, VcScheme};
use std::fmt::Write;
use tlp::{TcSet, TrafficClass, Vc};

/// Draws `lab`: a line for each slot, with its link and address windows, and one behind it where its link has virtual
/// channels or a flow control of its own; then what changes while it runs, and the faults.
#[must_use]
pub fn draw(lab: &Lab) -> String {
    let mut text = format!(
        "host {} ({} MiB low, {} MiB high), seed {}\n",
        lab.host.profile.get_ref(),
        lab.host.low_memory_mib.get_ref(),
        lab.host.high_memory_mib.get_ref(),
        lab.seed
    );
    for (n, slot) in lab.slot.iter().enumerate() {
        line(&mut text, lab, slot, n, n + 1 == lab.slot.len());
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

fn line(text: &mut String, lab: &Lab, slot: &Slot, n: usize, last: bool) {
    let link = links::config(&lab.link, &slot.link);
    let window = AddressMap.mmio32(n);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        " {}─ root port {n} ══ Gen{} {}, MPS {} ══ {}: {}   bus {:02x}, MMIO {:#x}..{:#x}",
        if last { '└' } else { '├' },
        link.root.rate.generation(),
        link.root.width,
        link.root.mps,
        slot.name.get_ref(),
        slot.device.name(),
        AddressMap.bus(n),
        window.base,
        window.base + window.size - 1,
    );
    for detail in details(&link) {
        let _ = writeln!(text, " {}     {detail}", if last { ' ' } else { '│' });
    }
}

/// What a link has that most have not.
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

/// `TC0-2+5`.
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
    if above { format!("{group} up to VC{low}, those above go first") } else { group.to_owned() }
}

fn event(change: &LinkChange) -> String {
    let rate = change.generation.as_ref().map(|given| format!("Gen{}", given.get_ref().0.generation()));
    let lanes = change.lanes.as_ref().map(|given| given.get_ref().0.to_string());
    let to: Vec<String> = rate.into_iter().chain(lanes).collect();
    let to = if to.is_empty() { "as the link began".to_owned() } else { to.join(" ") };
    format!("link event at {} us, {}: {to}", change.at_us, change.slot.get_ref())
}
