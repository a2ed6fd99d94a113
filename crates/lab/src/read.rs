// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a lab file and checks what its types alone cannot: everything wrong is found before anything runs.

use crate::build::host_memory;
use crate::error::FileError;
use crate::folder::Folder;
use crate::schema::{Host, Lab, LinkChange, MemoryKind, Model, PcieBench, PortArbitration, Slot, Switch};
use crate::tree::{self, Tree};
use crate::{faults, host_schema, links, models, profile, unused};
use device::firmware::HostMap;
use fabric::{Above, Window};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use tlp::{Duration, PayloadPool};
use toml::Spanned;

/// Slots at most: each has a bus of its own, and bridges need some.
const MAX_SLOTS: usize = 248;
/// Root ports at most: devices 1 to 31 of bus 0.
const MAX_ROOT_PORTS: usize = 31;
/// Characters of the longest name of a slot: it stands in tables and captures.
const MAX_NAME: usize = 64;
/// The longest time of flight: about 200 m of fibre. REPLAY_TIMER, 6 us at 32 GT/s, must outlast the way there and back.
const MAX_PROPAGATION: Duration = Duration::from_us(1);
/// The latest change of a link, in microseconds: virtual time ends at 213 days.
const MAX_EVENT_US: u64 = 1_000_000_000_000;
/// Bytes of the smallest memory BAR (`PCIe 5.0 §7.5.1.2.1`).
const MIN_BAR_BYTES: u64 = 128;
/// Bytes of the largest memory BAR of a device that ships.
const MAX_BAR_BYTES: u64 = 1 << 28;
/// Bytes of low memory that are never handed out.
const RESERVED_LOW_BYTES: u64 = 4096;

/// A lab that was read and found good, with the folder that its relative paths start from.
#[derive(Debug)]
pub struct LabFile {
    /// What the file says.
    pub lab: Lab,
    /// The folder of the file.
    pub base: Folder,
}

/// Where in which file: turns a place into an error.
struct Place<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    fn error<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, FileError> {
        Err(FileError::at(self.path, self.text, span, message))
    }

    fn range(&self, span: Range<usize>, what: &str, value: u64, legal: Range<u64>) -> Result<(), FileError> {
        if legal.contains(&value) {
            return Ok(());
        }
        self.error(span, format!("{what} of {value}: legal are {} to {}", legal.start, legal.end - 1))
    }
}

/// Reads and checks the lab file at `path`.
///
/// # Errors
/// The first thing that is wrong, with its place and the legal values.
pub fn read(path: &Path) -> Result<LabFile, FileError> {
    let text = std::fs::read_to_string(path).map_err(|e| FileError::whole(path, e.to_string()))?;
    parse_in(path, &text, Folder::of(path))
}

/// Reads and checks the lab `text`, which stands in `path`.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Lab, FileError> {
    parse_in(path, text, Folder::of(path)).map(|file| file.lab)
}

/// The same, with the files that the lab names from `base`.
///
/// # Errors
/// As [`read`].
pub fn parse_in(path: &Path, text: &str, base: Folder) -> Result<LabFile, FileError> {
    let lab: Lab = toml::from_str(text).map_err(|e| FileError::toml(path, text, &e))?;
    let place = Place { path, text };
    check_version(&place, &lab)?;
    check_host(&place, &lab.host)?;
    check_slots(&place, &lab)?;
    check_addresses(&place, &lab)?;
    check_windows(&place, &lab)?;
    check_faults(&place, &lab)?;
    check_link_events(&place, &lab)?;
    let file = LabFile { lab, base };
    check_profiles(&place, &file)?;
    check_devices(&place, &file)?;
    Ok(file)
}

fn check_profiles(place: &Place<'_>, file: &LabFile) -> Result<(), FileError> {
    let host = &file.lab.host.profile;
    match profile::host_in(host.get_ref(), &file.base) {
        Err(message) => return place.error(host.span(), message),
        Ok(profile) => {
            if let Err((span, message)) = host_schema::check(&file.lab.host, &profile) {
                return place.error(span, message);
            }
        }
    }
    for card in file.lab.slot.iter().filter_map(|s| Some(&s.pcie_bench.as_ref()?.profile)) {
        if let Err(message) = profile::device_in(card.get_ref(), &file.base) {
            return place.error(card.span(), message);
        }
    }
    Ok(())
}

/// What only the devices themselves know of their settings.
fn check_devices(place: &Place<'_>, file: &LabFile) -> Result<(), FileError> {
    let memory = match host_memory(&file.lab) {
        Ok(memory) => memory,
        Err(message) => return Err(FileError::whole(place.path, message)),
    };
    let payloads = PayloadPool::new();
    let tree = Tree::of(&file.lab).ok();
    let mut site = models::Site::new(file, &payloads, &memory, tree.as_ref());
    let ids = tree.map(|tree| tree.slot_ids()).unwrap_or_default();
    for (n, (slot, id)) in file.lab.slot.iter().zip(ids).enumerate() {
        if let Err(error) = models::plug(&mut site, n, id, slot) {
            return place.error(error.span.unwrap_or_else(|| slot.name.span()), error.message);
        }
    }
    Ok(())
}

fn check_version(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    match *lab.version.get_ref() {
        1 => Ok(()),
        n => place.error(lab.version.span(), format!("version {n}: this riser reads version 1")),
    }
}

fn check_host(place: &Place<'_>, host: &Host) -> Result<(), FileError> {
    let low = &host.low_memory_mib;
    place.range(low.span(), "low_memory_mib", u64::from(*low.get_ref()), 1..2049)?;
    let high = &host.high_memory_mib;
    place.range(high.span(), "high_memory_mib", u64::from(*high.get_ref()), 0..131_073)
}

fn check_slots(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    if lab.slot.len() > MAX_SLOTS || lab.slot.is_empty() && lab.switch.is_empty() {
        let message = format!(
            "{} slots: a lab has up to {MAX_SLOTS} [[slot]] tables, and one at least of [[slot]] and [[switch]]",
            lab.slot.len()
        );
        return Err(FileError::whole(place.path, message));
    }
    check_names(place, lab)?;
    lab.slot.iter().try_for_each(|slot| check_slot(place, lab, slot))?;
    check_tree(place, lab)?;
    match (unused::of_all(&lab.link, lab.slot.iter().map(|s| &s.link)), lab.slot.first()) {
        (Some(message), Some(slot)) => {
            place.error(slot.name.span(), format!("link of every slot, {message}"))
        }
        _ => Ok(()),
    }
}

/// Slots and switches have names of their own.
fn check_names(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    let all =
        lab.slot.iter().map(|s| ("slot", &s.name)).chain(lab.switch.iter().map(|s| ("switch", &s.name)));
    let mut names = BTreeSet::new();
    for (what, spanned) in all {
        let name = spanned.get_ref();
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            let message = format!(
                "name {name:?}: legal are 1 to {MAX_NAME} characters, none of them control characters"
            );
            return place.error(spanned.span(), message);
        }
        if what == "switch" && name == tree::ROOT {
            return place.error(spanned.span(), "a switch named `root`: that is the root complex");
        }
        if !names.insert(name) {
            return place.error(spanned.span(), format!("a second {what} named `{name}`: names are unique"));
        }
    }
    Ok(())
}

fn check_tree(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    lab.switch.iter().try_for_each(|switch| check_switch(place, lab, switch))?;
    let tree = match Tree::of(lab) {
        Ok(tree) => tree,
        Err(error) => return place.error(error.span, error.message),
    };
    let most = MAX_ROOT_PORTS;
    let root_ports =
        tree.slots.iter().chain(&tree.switches).filter(|above| **above == Above::RootPort).count();
    if root_ports > most {
        let message =
            format!("{root_ports} slots and switches on the root complex: it has 1 to {most} root ports");
        return Err(FileError::whole(place.path, message));
    }
    Ok(())
}

fn check_switch(place: &Place<'_>, lab: &Lab, switch: &Switch) -> Result<(), FileError> {
    let name = switch.name.get_ref();
    let latency = &switch.latency_ns;
    place.range(latency.span(), "latency_ns", *latency.get_ref(), 0..1_000_001)?;
    match (&switch.arbitration, &switch.weights) {
        (PortArbitration::Weighted, None) => {
            return place
                .error(switch.name.span(), format!("switch `{name}`: weighted arbitration needs `weights`"));
        }
        (PortArbitration::RoundRobin, Some(weights)) => {
            return place.error(
                weights.span(),
                format!("weights of switch `{name}`: they need arbitration = \"weighted\""),
            );
        }
        _ => {}
    }
    check_weights(place, lab, switch)?;
    if let Err(error) = links::check(&lab.link, &switch.link) {
        return place.error(switch.name.span(), format!("link of switch `{name}`, {error}"));
    }
    match unused::of_slot(&lab.link, &switch.link) {
        Some(message) => place.error(switch.name.span(), format!("link of switch `{name}`, {message}")),
        None => Ok(()),
    }
}

/// As many weights as the switch has ports, none of them 0. A tree that is wrong is reported elsewhere.
fn check_weights(place: &Place<'_>, lab: &Lab, switch: &Switch) -> Result<(), FileError> {
    let (Some(weights), Ok(tree)) = (&switch.weights, Tree::of(lab)) else { return Ok(()) };
    let name = switch.name.get_ref();
    let n = lab.switch.iter().position(|s| s.name.get_ref() == name).unwrap_or_default();
    let (given, ports) = (weights.get_ref(), tree.downstream_ports[n] + 1);
    if given.len() != ports {
        let message = format!(
            "{} weights of switch `{name}`: it has {ports} ports, the upstream port first",
            given.len()
        );
        return place.error(weights.span(), message);
    }
    match given.iter().position(|weight| *weight == 0) {
        Some(port) => {
            let message = format!("weight 0 of port {port} of switch `{name}`: legal are 1 to 65535");
            place.error(weights.span(), message)
        }
        None => Ok(()),
    }
}

fn check_slot(place: &Place<'_>, lab: &Lab, slot: &Slot) -> Result<(), FileError> {
    let name = slot.name.span();
    check_settings(place, slot)?;
    if let Some(tags) = &slot.tags {
        place.range(tags.span(), "tags", u64::from(*tags.get_ref()), 1..769)?;
    }
    if let Some(us) = &slot.completion_timeout_us {
        place.range(us.span(), "completion_timeout_us", *us.get_ref(), 50..50_001)?;
    }
    let config = links::config(&lab.link, &slot.link);
    if let Err(error) = links::check(&lab.link, &slot.link) {
        return place.error(name, format!("link of slot `{}`, {error}", slot.name.get_ref()));
    }
    if config.propagation > MAX_PROPAGATION {
        let (ps, most) = (config.propagation.as_ps(), MAX_PROPAGATION.as_ps());
        let slot = slot.name.get_ref();
        return place
            .error(name, format!("link of slot `{slot}`: propagation_ps of {ps}: legal are 0 to {most}"));
    }
    if let Some(message) = unused::of_slot(&lab.link, &slot.link) {
        return place.error(name, format!("link of slot `{}`, {message}", slot.name.get_ref()));
    }
    check_model(place, slot)
}

/// A table of settings belongs to the model that the slot names.
fn check_settings(place: &Place<'_>, slot: &Slot) -> Result<(), FileError> {
    let tables = [
        ("memory", slot.memory.is_some(), Model::Memory),
        ("simple-nic", slot.simple_nic.is_some(), Model::SimpleNic),
        ("pcie-bench", slot.pcie_bench.is_some(), Model::PcieBench),
        ("counter", slot.counter.is_some(), Model::Counter),
        ("traffic", slot.traffic.is_some(), Model::Traffic),
        ("replay", slot.replay.is_some(), Model::Replay),
        ("disk", slot.disk.is_some(), Model::Disk),
        ("mmio", slot.mmio.is_some(), Model::Mmio),
        ("ice-nic", slot.ice_nic.is_some(), Model::IceNic),
        ("dma-engine", slot.dma_engine.is_some(), Model::DmaEngine),
        ("packet-nic", slot.packet_nic.is_some(), Model::PacketNic),
        ("nettlp-adapter", slot.nettlp_adapter.is_some(), Model::NettlpAdapter),
    ];
    for (table, given, model) in tables {
        if given && model != slot.device {
            let (name, device) = (slot.name.get_ref(), slot.device.name());
            let message = format!("slot `{name}` has settings of `{table}`: its device is `{device}`");
            return place.error(slot.name.span(), message);
        }
    }
    Ok(())
}

fn check_model(place: &Place<'_>, slot: &Slot) -> Result<(), FileError> {
    if let Some(memory) = &slot.memory {
        let (size, span) = (*memory.size_bytes.get_ref(), memory.size_bytes.span());
        if !size.is_power_of_two() || !(16..=MAX_BAR_BYTES).contains(&size) {
            return place.error(span, format!("size_bytes of {size}: legal are powers of two, 16 to 2^28"));
        }
    }
    if let Some(nic) = &slot.simple_nic {
        place.range(nic.bar.span(), "bar", u64::from(*nic.bar.get_ref()), 0..6)?;
        place.range(nic.ping_bytes.span(), "ping_bytes", u64::from(*nic.ping_bytes.get_ref()), 0..1473)?;
    }
    if let Some(bench) = &slot.pcie_bench {
        let host_offset = u64::from(*bench.host_offset_bytes.get_ref());
        let size = u64::from(*bench.size_bytes.get_ref());
        place.range(bench.size_bytes.span(), "size_bytes", size, 1..4097)?;
        place.range(bench.host_offset_bytes.span(), "host_offset_bytes", host_offset, 0..64)?;
        if size + host_offset > 4096 {
            let message = format!(
                "size_bytes {size} at host_offset_bytes {host_offset}: a transfer never crosses 4 KiB"
            );
            return place.error(bench.size_bytes.span(), message);
        }
        let device_offset = &bench.device_offset_bytes;
        place.range(
            device_offset.span(),
            "device_offset_bytes",
            u64::from(*device_offset.get_ref()),
            0..64,
        )?;
        let window = *bench.window_bytes.get_ref();
        place.range(bench.window_bytes.span(), "window_bytes", window, 4096..(1 << 30) + 1)?;
        if let Some(outstanding) = &bench.outstanding {
            place.range(outstanding.span(), "outstanding", u64::from(*outstanding.get_ref()), 1..1025)?;
        }
    }
    if let Some(counter) = &slot.counter {
        let outstanding = &counter.outstanding;
        place.range(outstanding.span(), "outstanding", u64::from(*outstanding.get_ref()), 1..257)?;
    }
    check_replay(place, slot)?;
    check_traffic(place, slot)
}

fn check_replay(place: &Place<'_>, slot: &Slot) -> Result<(), FileError> {
    let Some(replay) = &slot.replay else {
        let message = format!("slot `{}`: replay needs [slot.replay] with `capture`", slot.name.get_ref());
        return if slot.device == Model::Replay { place.error(slot.name.span(), message) } else { Ok(()) };
    };
    let window = *replay.window_bytes.get_ref();
    if !window.is_power_of_two() || !(4096..=1 << 30).contains(&window) {
        let message = format!("window_bytes of {window}: legal are powers of two, 4096 to 2^30");
        return place.error(replay.window_bytes.span(), message);
    }
    Ok(())
}

fn check_traffic(place: &Place<'_>, slot: &Slot) -> Result<(), FileError> {
    let none = slot.traffic.as_ref().is_none_or(|t| t.flow.is_empty());
    if slot.device == Model::Traffic && none {
        let message = format!("slot `{}`: traffic needs [[slot.traffic.flow]]", slot.name.get_ref());
        return place.error(slot.name.span(), message);
    }
    let mut names = BTreeSet::new();
    for flow in slot.traffic.iter().flat_map(|t| &t.flow) {
        let name = flow.name.get_ref();
        if !names.insert(name) {
            let slot = slot.name.get_ref();
            let message =
                format!("a second flow named `{name}` in slot `{slot}`: names are unique in a slot");
            return place.error(flow.name.span(), message);
        }
        place.range(flow.tc.span(), "tc", u64::from(*flow.tc.get_ref()), 0..8)?;
        place.range(flow.size_bytes.span(), "size_bytes", u64::from(*flow.size_bytes.get_ref()), 0..4097)?;
        place.range(flow.count.span(), "count", *flow.count.get_ref(), 1..1_000_000_000_001)?;
        let outstanding = &flow.outstanding;
        place.range(outstanding.span(), "outstanding", u64::from(*outstanding.get_ref()), 1..1025)?;
        let window = &flow.window_bytes;
        place.range(window.span(), "window_bytes", *window.get_ref(), 4096..(1 << 30) + 1)?;
    }
    Ok(())
}

/// The windows of all benchmark devices fit into the memory that they lie in.
fn check_windows(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    let bytes = |mib: u32| u64::from(mib) << 20;
    let (mut low, mut high) = (RESERVED_LOW_BYTES, 0);
    for slot in lab.slot.iter().filter(|s| s.device == Model::PcieBench) {
        let bench = slot.pcie_bench.clone().unwrap_or_default();
        let PcieBench { window_bytes: window, memory, .. } = &bench;
        let (used, there, key) = match memory {
            MemoryKind::Low => (&mut low, bytes(*lab.host.low_memory_mib.get_ref()), "low_memory_mib"),
            MemoryKind::High => (&mut high, bytes(*lab.host.high_memory_mib.get_ref()), "high_memory_mib"),
        };
        // Below 2^30 bytes for each of eight slots, as was checked before.
        let left = there.saturating_sub(*used);
        let needs = models::bench_window(&bench);
        *used = used.next_multiple_of(needs.alignment()) + needs.memory_bytes();
        if *used > there {
            let span = if window.span() == (0..0) { slot.name.span() } else { window.span() };
            let size = needs.memory_bytes();
            return place.error(span, format!("window_bytes of {size}: {left} bytes are left of host.{key}"));
        }
    }
    Ok(())
}

/// BAR addresses that the lab gives lie where the host has BARs, aligned, and apart from each other.
fn check_addresses(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    let mut taken: Vec<(Window, &str)> = Vec::new();
    for slot in &lab.slot {
        let Some((address, span, size)) = given_address(slot) else { continue };
        let bar = Window { base: address, size };
        let name = slot.name.get_ref();
        if let Some((_, other)) = taken.iter().find(|(w, _)| w.overlaps(&bar)) {
            return place.error(
                span,
                format!("BAR at {address:#x} of slot `{name}` overlaps that of slot `{other}`"),
            );
        }
        if address % size != 0 {
            return place.error(span, format!("BAR at {address:#x} is not aligned to its {size} bytes"));
        }
        let host = HostMap::default().mmio32;
        let window = Window { base: host.base, size: host.size };
        if !window.contains(address, size) {
            let end = window.base + window.size - 1;
            let message = format!(
                "BAR of {size} bytes at {address:#x} of slot `{name}`: addresses for BARs are {:#x} to {end:#x}",
                window.base
            );
            return place.error(span, message);
        }
        taken.push((bar, name));
    }
    Ok(())
}

fn given_address(slot: &Slot) -> Option<(u64, Range<usize>, u64)> {
    let memory = slot
        .memory
        .as_ref()
        .and_then(|m| m.address.as_ref().map(|a| (a, (*m.size_bytes.get_ref()).max(MIN_BAR_BYTES))));
    let nic = slot
        .simple_nic
        .as_ref()
        .and_then(|n| n.address.as_ref().map(|a| (a, devices::simple_nic::BAR_BYTES)));
    memory.or(nic).map(|(a, size)| (*a.get_ref(), a.span(), size))
}

fn check_slot_name(place: &Place<'_>, lab: &Lab, slot: &Spanned<String>) -> Result<(), FileError> {
    let name = slot.get_ref();
    if lab.slot.iter().any(|s| s.name.get_ref() == name) {
        return Ok(());
    }
    let names: Vec<&str> = lab.slot.iter().map(|s| s.name.get_ref().as_str()).collect();
    place.error(slot.span(), format!("no slot `{name}`: there are {}", names.join(", ")))
}

fn check_link_events(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    for change in &lab.link_event {
        check_slot_name(place, lab, &change.slot)?;
        if change.at_us > MAX_EVENT_US {
            let message = format!("at_us of {}: legal are 0 to {MAX_EVENT_US}", change.at_us);
            return place.error(change.slot.span(), message);
        }
        check_capability(place, lab, change)?;
    }
    Ok(())
}

/// A link never trains above what its ports are capable of, which is what the lab gives it (`PCIe 5.0 §7.5.3.6`).
fn check_capability(place: &Place<'_>, lab: &Lab, change: &LinkChange) -> Result<(), FileError> {
    let name = change.slot.get_ref();
    let Some(slot) = lab.slot.iter().find(|s| s.name.get_ref() == name) else { return Ok(()) };
    let own = links::config(&lab.link, &slot.link).root;
    if let Some(given) = &change.generation {
        let (wanted, most) = (given.get_ref().0.generation(), own.rate.generation());
        if wanted > most {
            let message =
                format!("gen of {wanted}: legal are 1 to {most}, that of the link of slot `{name}`");
            return place.error(given.span(), message);
        }
    }
    if let Some(given) = &change.lanes {
        let (wanted, most) = (given.get_ref().0.lanes(), own.width.lanes());
        if wanted > most {
            let message =
                format!("{wanted} lanes: legal are 1 to {most}, those of the link of slot `{name}`");
            return place.error(given.span(), message);
        }
    }
    Ok(())
}

fn check_faults(place: &Place<'_>, lab: &Lab) -> Result<(), FileError> {
    faults::check(lab).or_else(|wrong| place.error(wrong.span, wrong.message))
}
