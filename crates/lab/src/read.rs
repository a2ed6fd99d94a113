// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a lab file and checks the rules that its types cannot express. All errors are found and reported before anything
//! runs.

use crate::bridges::{LONGEST_NON_POSTED, all_links};
use crate::build::host_memory;
use crate::file::LabFile;
use crate::models::{self, OfHost, Sites};
use crate::schema::{Hanging, Lab, LinkChange, PortArbitration, Slot, Switch};
use crate::tree::{self, Tree};
use crate::wrong::{Checked, LocatedSource, Wrong, check_known, found, wrong};
use crate::{deferrable, design_links, faults, hosts, links, profile, switch_design, tables, unused};
use fabric::Window;
use host::firmware::HostMap;
use plug::file::{FileError, FileErrors, Folder, Overrides, Schema, Source, Unread, place_of};
use plug::site::NativeCode;
use plug::{End, FixedBar, MemoryKind, Models, RunContext};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tlp::PayloadPool;
use toml::Spanned;

/// Maximum number of slots: each slot has its own bus, and bridges also need bus numbers.
const MAX_SLOTS: usize = 248;
/// Maximum number of root ports: devices 1 to 31 of bus 0.
const MAX_ROOT_PORTS: usize = 31;
/// Maximum number of characters of a slot's name, which appears in tables and captures.
const MAX_NAME: usize = 64;
/// Span of an error that concerns the file as a whole.
const WHOLE: Range<usize> = 0..0;
/// Bytes of low memory that are never allocated.
const RESERVED_LOW_BYTES: u64 = 4096;

/// Reads and checks the lab file at `path`, whose slots may have these models.
///
/// # Errors
/// All errors, each with its place and the legal values. Errors of TOML syntax are reported alone. Otherwise errors of types
/// and of single keys are reported, and only without these the errors that involve several keys or files.
pub fn read(models: &Models, path: &Path) -> Result<LabFile, FileErrors> {
    read_with(models, path, &Overrides::default())
}

/// Like [`read`], with `overrides` over the file's values.
///
/// # Errors
/// As [`read`]. Errors of an override name the override.
pub fn read_with(models: &Models, path: &Path, overrides: &Overrides) -> Result<LabFile, FileErrors> {
    let text = std::fs::read(path)
        .and_then(plug::file::text_of)
        .map_err(|e| FileError::whole(path, e.to_string()))?;
    parse_with(models, path, &text, Folder::of(path), overrides)
}

/// Reads and checks the lab `text` of the file `path`.
///
/// # Errors
/// As [`read`].
pub fn parse(models: &Models, path: &Path, text: &str) -> Result<Lab, FileErrors> {
    parse_in(models, path, text, Folder::of(path)).map(|file| file.lab)
}

/// Like [`parse`], with the files that the lab names read from `base`.
///
/// # Errors
/// As [`read`].
pub fn parse_in(models: &Models, path: &Path, text: &str, base: Folder) -> Result<LabFile, FileErrors> {
    parse_with(models, path, text, base, &Overrides::default())
}

/// Like [`parse_in`], with `overrides` over the text's values.
///
/// # Errors
/// As [`read_with`].
pub fn parse_with(
    models: &Models,
    path: &Path,
    text: &str,
    base: Folder,
    overrides: &Overrides,
) -> Result<LabFile, FileErrors> {
    Reader::new(models).parse(path, text, base, overrides)
}

/// Reads lab files whose slots may have certain models. Computes their schema once.
#[derive(Clone, Debug)]
pub struct Reader {
    models: Models,
    schema: Arc<Schema>,
}

impl Reader {
    /// Returns a reader of labs whose slots may have these models.
    pub fn new(models: &Models) -> Reader {
        Reader { models: models.clone(), schema: Arc::new(models::schema(models)) }
    }

    /// Like [`parse_with`].
    ///
    /// # Errors
    /// As [`parse_with`].
    pub fn parse(
        &self,
        path: &Path,
        text: &str,
        base: Folder,
        overrides: &Overrides,
    ) -> Result<LabFile, FileErrors> {
        self.parse_in_context(path, text, base, overrides, &mut RunContext::default())
    }

    /// Like [`parse`](Self::parse); models can use `context` when they check their settings.
    ///
    /// # Errors
    /// As [`parse_with`].
    pub fn parse_in_context(
        &self,
        path: &Path,
        text: &str,
        base: Folder,
        overrides: &Overrides,
        context: &mut RunContext,
    ) -> Result<LabFile, FileErrors> {
        if text.trim().is_empty() && overrides.given().is_empty() {
            let why = "empty file: a lab begins with `version = 1`, and has [[slot]] tables, each with `name` and `device`";
            return Err(FileError::whole(path, why).into());
        }
        let source = Source { path, text, overrides };
        let place = LocatedSource { source: &source, places: source.tree()? };
        let (lab, mut errors) = read_keys(self, &place)?;
        let lab = Lab { set: overrides.given().to_vec(), ..lab };
        let told: BTreeSet<_> = errors.iter().map(|e| e.place).collect();
        let further = [check_slots(&place, &lab), faults::check(&lab), check_link_events(&lab)].concat();
        errors.extend(place.errors(further).filter(|e| e.place.is_none() || !told.contains(&e.place)));
        refuse(errors)?;
        let file = LabFile { lab, base };
        let lab = &file.lab;
        let alone = found([check_addresses(&place, lab), check_windows(&place, lab)]);
        let together = [alone, deferrable::check(&place, lab), check_outside(&place, lab), check_host(&file)];
        refuse(place.errors(together.concat()))?;
        refuse(place.errors(check_devices(&place, &file, context)))?;
        Ok(file)
    }
}

/// Returns the lab with its models' settings, and the errors of single keys.
///
/// # Errors
/// Errors of types, together with errors of single keys.
fn read_keys(reader: &Reader, place: &LocatedSource<'_>) -> Result<(Lab, Vec<FileError>), FileErrors> {
    let Reader { models, schema } = reader;
    let (tree, mut tables, mut errors) = tables::split(place, schema, models);
    let mut lab = match place.source.read::<Lab>(tree, schema) {
        Ok(lab) => Some(lab),
        Err(Unread { errors: wrong, rest }) => {
            errors.extend(wrong);
            rest
        }
    };
    let mut limits = tables::check_limits(place, schema);
    let slots = lab.iter_mut().flat_map(|lab| &mut lab.slot);
    errors.extend(slots.flat_map(|slot| tables.fill(place, models, slot)));
    let switches = lab.iter_mut().flat_map(|lab| &mut lab.switch);
    errors.extend(switches.flat_map(|switch| tables.fill_switch(place, models, switch)));
    let hosts = lab.iter_mut().map(|lab| &mut lab.host);
    errors.extend(hosts.flat_map(|host| tables.fill_host(place, models, host)));
    // A value of an illegal type also violates its limits. Only the type is reported.
    limits.retain(|limit| limit.place.is_none() || errors.iter().all(|e| e.place != limit.place));
    match lab {
        Some(lab) if errors.is_empty() => Ok((lab, limits)),
        _ => Err(errors.into_iter().chain(limits).collect()),
    }
}

fn refuse(errors: impl IntoIterator<Item = FileError>) -> Result<(), FileErrors> {
    let mut errors = errors.into_iter().peekable();
    if errors.peek().is_some() { Err(errors.collect()) } else { Ok(()) }
}

fn check_host(file: &LabFile) -> Vec<Wrong> {
    let (host, read) = (&file.lab.host, |name| profile::host_in(name, &file.base));
    let checked = match read(host.profile.get_ref()) {
        Err(message) => wrong(host.profile.span(), message),
        Ok(profile) => hosts::check(host, &profile),
    };
    let others = file.lab.external_host.iter().filter_map(|host| {
        let at = host.profile.as_ref().map_or(host.name.span(), Spanned::span);
        Some(Wrong::at(at, read(host.profile()).err()?))
    });
    found([checked]).into_iter().chain(others).collect()
}

/// Lets each model check its settings. Also checks that each end of a link has credits for the longest non-posted request that
/// it accepts.
fn check_devices(place: &LocatedSource<'_>, file: &LabFile, context: &mut RunContext) -> Vec<Wrong> {
    let lab = &file.lab;
    let memory = match host_memory(lab) {
        Ok(memory) => memory,
        Err(error) => return vec![Wrong::at(WHOLE, error.to_string())],
    };
    let payloads = PayloadPool::new();
    let Ok(tree) = Tree::of(lab) else { return Vec::new() };
    let links = all_links(lab, &tree);
    let sites = Sites::new(file, &payloads, &memory, OfHost::UNKNOWN, &tree, &links, NativeCode::NotLoaded);
    let mut errors = Vec::new();
    if let (Some(model), Some(Err(fault))) =
        (&lab.host.root_complex, sites.plug_root_complex(&links, context))
    {
        errors.push(place.host_fault(model, &fault));
    }
    for (n, switch) in lab.switch.iter().enumerate() {
        let Some(plugged) = sites.plug_switch(n, &tree, &links, context) else { continue };
        let ports = plugged.and_then(|plugged| switch_design::ports(plugged, tree.downstream_ports[n]));
        errors.extend(ports.err().map(|fault| place.switch_fault(n, switch, &fault)));
    }
    for (n, own) in lab.hanging().enumerate() {
        let below = match lab.slot.get(n).map(|slot| (slot, sites.plug(n, slot, context))) {
            None => LONGEST_NON_POSTED,
            Some((_, Ok(plugged))) if !matches!(plugged.end, End::Raw(_)) || tree.is_simulated(n) => {
                plugged.end.longest_non_posted()
            }
            Some((slot, Ok(plugged))) => {
                let message = format!(
                    "{own}: an external host cannot find `{}`, which has no function, expected devices with a function",
                    slot.device.get_ref()
                );
                errors.push(Wrong::at(slot.device.span(), message));
                plugged.end.longest_non_posted()
            }
            Some((slot, Err(fault))) => {
                errors.push(place.fault(n, slot, &fault));
                continue;
            }
        };
        let faults = links::check_non_posted(&lab.link, own.link, LONGEST_NON_POSTED, below);
        errors.extend(faults.into_iter().map(|fault| place.link(&own, fault)));
    }
    errors
}

fn check_slots(place: &LocatedSource<'_>, lab: &Lab) -> Vec<Wrong> {
    if lab.slot.len() > MAX_SLOTS || lab.slot.is_empty() && lab.switch.is_empty() {
        let message = format!(
            "{} slots: a lab has up to {MAX_SLOTS} [[slot]] tables, and at least one [[slot]] or [[switch]]",
            lab.slot.len()
        );
        return vec![Wrong::at(WHOLE, message)];
    }
    let mut errors = check_names(lab);
    errors.extend(lab.hanging().flat_map(|own| check_link(place, lab, &own)));
    errors.extend(
        lab.switch.iter().flat_map(|s| found([check_arbitration(s), check_weights(lab, s), check_places(s)])),
    );
    errors.extend(check_tree(lab).err());
    let unused = unused::of_all(&lab.link, lab.slot.iter().map(|s| &s.link));
    if let (Some(fault), Some(slot)) = (unused, lab.slot.first()) {
        errors.push(place.link_at(&[], slot.name.span(), "every slot", fault));
    }
    // An error in a common key affects every link, but is reported once.
    let mut told = BTreeSet::new();
    let about = |e: &Wrong| e.message.split_once(", ").map_or(&*e.message, |(_, what)| what).to_owned();
    errors.retain(|error| told.insert((error.span.start, about(error))));
    errors
}

/// Checks that the names of slots, switches and hosts are legal and unique.
fn check_names(lab: &Lab) -> Vec<Wrong> {
    let all = lab.hanging().map(|own| (own.table, own.name));
    let all = all.chain(lab.external_host.iter().map(|h| ("external host", &h.name)));
    let mut names = BTreeSet::new();
    all.filter_map(|(what, name)| check_name(what, name, &mut names).err()).collect()
}

fn check_name<'a>(what: &str, spanned: &'a Spanned<String>, names: &mut BTreeSet<&'a str>) -> Checked {
    let name = spanned.get_ref();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        let message =
            format!("name {name:?}, expected 1 to {MAX_NAME} characters without control characters");
        return wrong(spanned.span(), message);
    }
    if what != "slot" && name == tree::ROOT {
        return wrong(spanned.span(), format!("a {what} named `root`: this name means the root complex"));
    }
    if !names.insert(name) {
        return wrong(spanned.span(), format!("a second {what} named `{name}`: names are unique"));
    }
    Ok(())
}

fn check_tree(lab: &Lab) -> Checked {
    let tree = Tree::of(lab)?;
    crate::root_complex::check(lab, &tree)?;
    switch_design::check(lab, &tree)?;
    design_links::check_slots(lab)?;
    let most = MAX_ROOT_PORTS;
    for host in tree.host_ids() {
        let root_ports = tree.root_links(host).count();
        if root_ports > most {
            let message =
                format!("{root_ports} slots and switches on the root complex: it has 1 to {most} root ports");
            return wrong(WHOLE, message);
        }
        let idle = host.0.checked_sub(1).and_then(|n| lab.external_host.get(n as usize));
        if let Some(idle) = idle.filter(|_| root_ports == 0) {
            let name = idle.name.get_ref();
            let message = format!("external host `{name}` is unused; name it as a parent");
            return wrong(idle.name.span(), message);
        }
    }
    Ok(())
}

fn check_link(place: &LocatedSource<'_>, lab: &Lab, own: &Hanging<'_>) -> Vec<Wrong> {
    let mut faults = links::check(&lab.link, own.link);
    if faults.is_empty() {
        faults.extend(unused::of_slot(&lab.link, own.link));
    }
    faults.into_iter().map(|fault| place.link(own, fault)).collect()
}

fn check_arbitration(switch: &Switch) -> Checked {
    let name = switch.name.get_ref();
    match (&switch.arbitration, &switch.weights) {
        (PortArbitration::Weighted, None) => {
            wrong(switch.name.span(), format!("switch `{name}`: weighted arbitration needs `weights`"))
        }
        (PortArbitration::RoundRobin, Some(weights)) => {
            let message = format!("weights of switch `{name}`: legal only with arbitration = \"weighted\"");
            wrong(weights.span(), message)
        }
        _ => Ok(()),
    }
}

/// Checks that a switch has a nonzero weight for each port. Errors of the tree are reported elsewhere.
fn check_places(switch: &Switch) -> Checked {
    match &switch.keep_places_until {
        Some(until) if !switch.keep_places => {
            let name = switch.name.get_ref();
            let message = format!("keep_places_until of switch `{name}`: legal only with keep_places = true");
            wrong(until.span(), message)
        }
        _ => Ok(()),
    }
}

fn check_weights(lab: &Lab, switch: &Switch) -> Checked {
    let (Some(weights), Ok(tree)) = (&switch.weights, Tree::of(lab)) else { return Ok(()) };
    let name = switch.name.get_ref();
    let n = lab.switch.iter().position(|s| s.name.get_ref() == name).unwrap_or_default();
    let (given, ports) = (weights.get_ref(), tree.downstream_ports[n] + 1);
    if given.len() != ports {
        let message = format!(
            "{} weights of switch `{name}`: it has {ports} ports, the upstream port first",
            given.len()
        );
        return wrong(weights.span(), message);
    }
    match given.iter().position(|weight| *weight == 0) {
        Some(port) => {
            let message = format!("weight 0 of port {port} of switch `{name}`, expected 1 to 65535");
            wrong(weights.span(), message)
        }
        None => Ok(()),
    }
}

/// Checks that the windows of all devices fit into host memory.
fn check_windows(place: &LocatedSource<'_>, lab: &Lab) -> Checked {
    let bytes = |mib: u32| u64::from(mib) << 20;
    let (mut low, mut high) = (RESERVED_LOW_BYTES, 0);
    for (n, slot) in lab.slot.iter().enumerate() {
        let Some(window) = slot.needs().window else { continue };
        let (used, there, key) = match window.memory {
            MemoryKind::Low => (&mut low, bytes(*lab.host.low_memory_mib.get_ref()), "low_memory_mib"),
            MemoryKind::High => (&mut high, bytes(*lab.host.high_memory_mib.get_ref()), "high_memory_mib"),
        };
        let left = there.saturating_sub(*used);
        *used = used.next_multiple_of(window.alignment).saturating_add(window.bytes);
        if *used > there {
            let message = format!("window_bytes of {}: host.{key} has {left} bytes left", window.bytes);
            return wrong(place.setting(n, slot, &["window_bytes"]), message);
        }
    }
    Ok(())
}

/// Checks that the BAR addresses in the lab are aligned, do not overlap, and lie in the host's BAR window.
fn check_addresses(place: &LocatedSource<'_>, lab: &Lab) -> Checked {
    let mut taken: Vec<(Window, &str)> = Vec::new();
    for (n, slot) in lab.slot.iter().enumerate() {
        let Some(FixedBar { address, size_bytes: size, .. }) = slot.needs().fixed_bar else { continue };
        let bar = Window { base: address, size };
        let (name, span) = (slot.name.get_ref(), place.setting(n, slot, &["address"]));
        if let Some((_, other)) = taken.iter().find(|(w, _)| w.overlaps(&bar)) {
            return wrong(
                span,
                format!("BAR at {address:#x} of slot `{name}` overlaps the BAR of slot `{other}`"),
            );
        }
        if address % size != 0 {
            return wrong(span, format!("BAR at {address:#x} is not aligned to its {size} bytes"));
        }
        let host = HostMap::default().mmio32;
        let window = Window { base: host.base, size: host.size };
        if !window.contains(address, size) {
            let end = window.base + window.size - 1;
            let message = format!(
                "BAR of {size} bytes at {address:#x} of slot `{name}`: legal addresses are {:#x} to {end:#x}",
                window.base
            );
            return wrong(span, message);
        }
        taken.push((bar, name));
    }
    Ok(())
}

/// Rejects keys that only the firmware and drivers of a simulated host use, in slots below an external host.
fn check_outside(place: &LocatedSource<'_>, lab: &Lab) -> Vec<Wrong> {
    let Ok(tree) = Tree::of(lab) else { return Vec::new() };
    let slots = lab.slot.iter().enumerate().filter(|(n, _)| !tree.is_simulated(*n));
    let check = |(n, slot): (usize, &Slot)| {
        let (name, number) = (&slot.name, n.to_string());
        let mrrs = || place_of(&place.places, &["slot", &number, "link", "mrrs_bytes"]);
        let keys = [
            ("address", slot.needs().fixed_bar.map(|_| place.setting(n, slot, &["address"]))),
            ("mrrs_bytes", slot.link.mrrs_bytes.map(|_| mrrs().unwrap_or_else(|| name.span()))),
            ("driver", slot.driver.as_ref().map(Spanned::span)),
        ];
        keys.map(|(key, at)| {
            let why = format!("{key} of slot `{}`: no effect, because its host is outside", name.get_ref());
            at.map(|at| Wrong::at(at, why))
        })
    };
    slots.flat_map(check).flatten().collect()
}

fn check_link_events(lab: &Lab) -> Vec<Wrong> {
    let check = |change: &LinkChange| {
        let known = check_known(&change.slot, lab.slot.iter().map(|s| &s.name));
        found([known, check_capability(lab, change)])
    };
    lab.link_event.iter().flat_map(check).collect()
}

/// Checks that a link event does not exceed the rate and width of its link, which are the capabilities of its ports (`PCIe 5.0
/// §7.5.3.6`).
fn check_capability(lab: &Lab, change: &LinkChange) -> Checked {
    let name = change.slot.get_ref();
    let Some(slot) = lab.slot.iter().find(|s| s.name.get_ref() == name) else { return Ok(()) };
    let own = links::config(&lab.link, &slot.link).root;
    if let Some(given) = &change.generation {
        let (wanted, most) = (given.get_ref().0.generation(), own.rate.generation());
        if wanted > most {
            let message =
                format!("gen of {wanted}, expected 1 to {most}, the generation of the link of slot `{name}`");
            return wrong(given.span(), message);
        }
    }
    if let Some(given) = &change.lanes {
        let (wanted, most) = (given.get_ref().0.lanes(), own.width.lanes());
        if wanted > most {
            let message =
                format!("{wanted} lanes, expected 1 to {most}, the width of the link of slot `{name}`");
            return wrong(given.span(), message);
        }
    }
    Ok(())
}
