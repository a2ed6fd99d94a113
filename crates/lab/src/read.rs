// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a lab file and checks what its types alone cannot: everything wrong is found before anything runs, and told at once.

use crate::bridges::LONGEST_NON_POSTED;
use crate::build::host_memory;
use crate::links::LinkFault;
use crate::models::{self, Sites};
use crate::schema::{Lab, Link, LinkChange, PortArbitration, Slot, Switch};
use crate::tree::{self, Tree};
use crate::{deferrable, faults, host_schema, links, profile, tables, unused};
use fabric::Window;
use host::firmware::HostMap;
use plug::file::{FileError, FileErrors, Folder, Overrides, Source, Tree as Places, Unread, place_of};
use plug::site::NativeCode;
use plug::{End, Fault, FixedBar, MemoryKind, Models};
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
pub(crate) struct Place<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) places: Places<'a>,
}

/// What one check finds.
pub(crate) type Checked = Result<(), FileError>;

impl Place<'_> {
    pub(crate) fn error<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, FileError> {
        Err(self.source.error(span, message))
    }

    fn whole<T>(&self, message: impl Into<String>) -> Result<T, FileError> {
        Err(FileError::whole(self.source.path, message))
    }

    /// What is wrong with a link of the slot or switch that stands at `owner`: at the key that it is about, of its own table or
    /// of the common one, or else at `name`.
    pub(crate) fn link(&self, owner: &[&str], name: Range<usize>, what: &str, fault: LinkFault) -> Checked {
        let own = [owner, &["link"]].concat();
        let tables = [own.as_slice(), &["link"]];
        let path = |table: &[&str], key: &[String]| -> Option<Range<usize>> {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            place_of(&self.places, &[table, &key].concat())
        };
        let at = fault.keys.iter().find_map(|key| tables.iter().find_map(|table| path(table, key)));
        self.error(at.unwrap_or(name), format!("link of {what}, {}", fault.message))
    }
}

impl LabFile {
    /// Whether the lab runs by itself: nobody has to stand above a host of it.
    ///
    /// # Errors
    /// The host that is to be somebody outside.
    pub fn check_runs_alone(&self) -> Result<(), String> {
        match self.lab.external_host.first() {
            None => Ok(()),
            Some(host) => Err(format!(
                "host `{}` is external: somebody outside stands above it, and here is nobody; legal are labs whose slots hang on `{}`",
                host.name.get_ref(),
                tree::ROOT
            )),
        }
    }
}

impl Place<'_> {
    /// Where `key` of the settings of slot `n` stands, or else its name.
    fn setting(&self, n: usize, slot: &Slot, key: &[&str]) -> Range<usize> {
        let n = n.to_string();
        let path = [&["slot", n.as_str(), slot.device.get_ref().as_str()], key].concat();
        (0..key.len())
            .find_map(|less| place_of(&self.places, &path[..path.len() - less]))
            .unwrap_or_else(|| slot.name.span())
    }

    /// What is wrong with the settings of slot `n`.
    fn fault(&self, n: usize, slot: &Slot, fault: &Fault) -> Checked {
        let key: Vec<&str> = fault.key.iter().map(String::as_str).collect();
        self.error(self.setting(n, slot, &key), format!("slot `{}`: {fault}", slot.name.get_ref()))
    }
}

/// What several checks have found.
pub(crate) fn found<const N: usize>(checks: [Checked; N]) -> Vec<FileError> {
    checks.into_iter().filter_map(Result::err).collect()
}

/// Reads and checks the lab file at `path`, whose slots may have these models.
///
/// # Errors
/// What is wrong, each with its place and the legal values: all that TOML has to say; else all that is wrong with types and
/// with single keys; else what is wrong with how keys and files stand to each other.
pub fn read(models: &Models, path: &Path) -> Result<LabFile, FileErrors> {
    read_with(models, path, &Overrides::default())
}

/// The same with `overrides` over what the file says.
///
/// # Errors
/// As [`read`]; what is wrong with a setting names it.
pub fn read_with(models: &Models, path: &Path, overrides: &Overrides) -> Result<LabFile, FileErrors> {
    let text = std::fs::read_to_string(path).map_err(|e| FileError::whole(path, e.to_string()))?;
    parse_with(models, path, &text, Folder::of(path), overrides)
}

/// Reads and checks the lab `text`, which stands in `path`.
///
/// # Errors
/// As [`read`].
pub fn parse(models: &Models, path: &Path, text: &str) -> Result<Lab, FileErrors> {
    parse_in(models, path, text, Folder::of(path)).map(|file| file.lab)
}

/// The same, with the files that the lab names from `base`.
///
/// # Errors
/// As [`read`].
pub fn parse_in(models: &Models, path: &Path, text: &str, base: Folder) -> Result<LabFile, FileErrors> {
    parse_with(models, path, text, base, &Overrides::default())
}

/// The same with `overrides` over what the text says.
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
    if text.trim().is_empty() && overrides.given().is_empty() {
        let why = "it is empty: a lab begins with `version = 1`, and has [[slot]] tables, each with `name` and `device`";
        return Err(FileError::whole(path, why).into());
    }
    let source = Source { path, text, overrides };
    let place = Place { source: &source, places: source.tree()? };
    let (lab, mut errors) = read_keys(models, &place)?;
    let lab = Lab { set: overrides.given().to_vec(), ..lab };
    let told: BTreeSet<_> = errors.iter().map(|e| e.place).collect();
    let further = check_slots(&place, &lab)
        .into_iter()
        .chain(check_faults(&place, &lab))
        .chain(check_link_events(&place, &lab));
    errors.extend(further.filter(|e| e.place.is_none() || !told.contains(&e.place)));
    refuse(errors)?;
    let file = LabFile { lab, base };
    let together = found([check_addresses(&place, &file.lab), check_windows(&place, &file.lab)]);
    let writes = deferrable::check(&place, &file.lab);
    let outside = check_outside(&place, &file.lab);
    refuse(together.into_iter().chain(writes).chain(outside).chain(check_host(&place, &file)))?;
    refuse(check_devices(&place, &file))?;
    Ok(file)
}

/// The lab with the models in its slots, and what is wrong with single keys.
///
/// # Errors
/// What is wrong with types, and with single keys too.
fn read_keys(models: &Models, place: &Place<'_>) -> Result<(Lab, Vec<FileError>), FileErrors> {
    let schema = models::schema(models);
    let (tree, mut tables, mut errors) = tables::split(place, &schema, models);
    let lab = match place.source.read::<Lab>(tree, &schema) {
        Ok(lab) => Some(lab),
        Err(Unread { errors: wrong, rest }) => {
            errors.extend(wrong);
            rest
        }
    };
    let limits = tables::check_limits(place, &schema);
    let Some(mut lab) = lab else { return Err(errors.into_iter().chain(limits).collect()) };
    errors.extend(lab.slot.iter_mut().flat_map(|slot| tables.fill(place, models, slot)));
    if errors.is_empty() { Ok((lab, limits)) } else { Err(errors.into_iter().chain(limits).collect()) }
}

fn refuse(errors: impl IntoIterator<Item = FileError>) -> Result<(), FileErrors> {
    let mut errors = errors.into_iter().peekable();
    if errors.peek().is_some() { Err(errors.collect()) } else { Ok(()) }
}

fn check_host(place: &Place<'_>, file: &LabFile) -> Vec<FileError> {
    let host = &file.lab.host.profile;
    let checked = match profile::host_in(host.get_ref(), &file.base) {
        Err(message) => place.error(host.span(), message),
        Ok(profile) => host_schema::check(&file.lab.host, &profile).or_else(|(at, why)| place.error(at, why)),
    };
    let others = file.lab.external_host.iter().filter_map(|host| {
        let why = profile::host_in(host.profile(), &file.base).err()?;
        let at = host.profile.as_ref().map_or(host.name.span(), Spanned::span);
        place.error::<()>(at, why).err()
    });
    found([checked]).into_iter().chain(others).collect()
}

/// What only the devices themselves know of their settings.
fn check_devices(place: &Place<'_>, file: &LabFile) -> Vec<FileError> {
    let memory = match host_memory(&file.lab) {
        Ok(memory) => memory,
        Err(message) => return found([place.whole(message)]),
    };
    let payloads = PayloadPool::new();
    let Ok(tree) = Tree::of(&file.lab) else { return Vec::new() };
    let mut sites = Sites::new(file, &payloads, &memory, Duration::MAX, &tree, NativeCode::NotLoaded);
    let mut errors = Vec::new();
    for (n, slot) in file.lab.slot.iter().enumerate() {
        match sites.plug(n, slot) {
            Ok(plugged) => {
                let below = plugged.end.longest_non_posted();
                if matches!(plugged.end, End::Raw(_)) && !tree.is_simulated(n) {
                    let (device, name) = (slot.device.get_ref(), slot.name.get_ref());
                    let message = format!(
                        "slot `{name}`: no host outside finds or starts `{device}`, which has no function; legal are devices that have one"
                    );
                    errors.extend(place.error::<()>(slot.device.span(), message).err());
                }
                let owner = (["slot", &n.to_string()], &slot.name, &slot.link);
                errors.extend(check_non_posted(place, &file.lab, owner, below));
            }
            Err(fault) => errors.extend(place.fault(n, slot, &fault).err()),
        }
    }
    for (n, switch) in file.lab.switch.iter().enumerate() {
        let owner = (["switch", &n.to_string()], &switch.name, &switch.link);
        errors.extend(check_non_posted(place, &file.lab, owner, LONGEST_NON_POSTED));
    }
    errors
}

/// Whether each end of a link has room for the longest non-posted request that it takes: a bridge above, and what takes up to `below`
/// bytes at once.
fn check_non_posted(
    place: &Place<'_>,
    lab: &Lab,
    (owner, name, own): ([&str; 2], &Spanned<String>, &Link),
    below: u32,
) -> Vec<FileError> {
    let what = format!("{} `{}`", owner[0], name.get_ref());
    let faults = links::check_non_posted(&lab.link, own, LONGEST_NON_POSTED, below);
    faults.into_iter().filter_map(|fault| place.link(&owner, name.span(), &what, fault).err()).collect()
}

fn check_slots(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    if lab.slot.len() > MAX_SLOTS || lab.slot.is_empty() && lab.switch.is_empty() {
        let message = format!(
            "{} slots: a lab has up to {MAX_SLOTS} [[slot]] tables, and one at least of [[slot]] and [[switch]]",
            lab.slot.len()
        );
        return found([place.whole(message)]);
    }
    let mut errors = check_names(place, lab);
    errors.extend(lab.slot.iter().enumerate().flat_map(|(n, slot)| check_slot(place, lab, n, slot)));
    errors.extend(lab.switch.iter().enumerate().flat_map(|(n, switch)| check_switch(place, lab, n, switch)));
    errors.extend(check_tree(place, lab).err());
    let unused = unused::of_all(&lab.link, lab.slot.iter().map(|s| &s.link));
    if let (Some(fault), Some(slot)) = (unused, lab.slot.first()) {
        errors.extend(place.link(&[], slot.name.span(), "every slot", fault).err());
    }
    // A common key that is wrong is wrong for each link: it is told once.
    let mut places = BTreeSet::new();
    let about =
        |e: &FileError| e.message.split_once(", ").map_or(e.message.clone(), |(_, what)| what.to_owned());
    errors.retain(|error| places.insert((error.path.clone(), error.place, about(error))));
    errors
}

/// Slots and switches have names of their own.
fn check_names(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    let all = lab.slot.iter().map(|s| ("slot", &s.name));
    let all = all.chain(lab.switch.iter().map(|s| ("switch", &s.name)));
    let all = all.chain(lab.external_host.iter().map(|h| ("external host", &h.name)));
    let mut names = BTreeSet::new();
    all.filter_map(|(what, name)| check_name(place, what, name, &mut names).err()).collect()
}

fn check_name<'a>(
    place: &Place<'_>,
    what: &str,
    spanned: &'a Spanned<String>,
    names: &mut BTreeSet<&'a str>,
) -> Checked {
    let name = spanned.get_ref();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        let message =
            format!("name {name:?}: legal are 1 to {MAX_NAME} characters, none of them control characters");
        return place.error(spanned.span(), message);
    }
    if what != "slot" && name == tree::ROOT {
        return place.error(spanned.span(), format!("a {what} named `root`: that is the root complex"));
    }
    if !names.insert(name) {
        return place.error(spanned.span(), format!("a second {what} named `{name}`: names are unique"));
    }
    Ok(())
}

fn check_tree(place: &Place<'_>, lab: &Lab) -> Checked {
    let tree = match Tree::of(lab) {
        Ok(tree) => tree,
        Err(error) => return place.error(error.span, error.message),
    };
    let most = MAX_ROOT_PORTS;
    for host in tree.host_ids() {
        let root_ports = tree.root_links(host).count();
        if root_ports > most {
            let message =
                format!("{root_ports} slots and switches on the root complex: it has 1 to {most} root ports");
            return place.whole(message);
        }
        let idle = host.0.checked_sub(1).and_then(|n| lab.external_host.get(n as usize));
        if let Some(idle) = idle.filter(|_| root_ports == 0) {
            let name = idle.name.get_ref();
            let message = format!("external host `{name}`: nothing hangs on it; name it as a parent");
            return place.error(idle.name.span(), message);
        }
    }
    Ok(())
}

fn check_switch(place: &Place<'_>, lab: &Lab, n: usize, switch: &Switch) -> Vec<FileError> {
    let mut errors = found([check_arbitration(place, switch), check_weights(place, lab, switch)]);
    let what = format!("switch `{}`", switch.name.get_ref());
    errors.extend(check_link(place, lab, ["switch", &n.to_string()], (&switch.name, &what), &switch.link));
    errors
}

/// The link of the slot or switch that stands at `owner`, which goes by this name.
fn check_link(
    place: &Place<'_>,
    lab: &Lab,
    owner: [&str; 2],
    (name, what): (&Spanned<String>, &str),
    link: &Link,
) -> Vec<FileError> {
    let mut faults = links::check(&lab.link, link);
    if faults.is_empty() {
        faults.extend(unused::of_slot(&lab.link, link));
    }
    faults.into_iter().filter_map(|fault| place.link(&owner, name.span(), what, fault).err()).collect()
}

fn check_arbitration(place: &Place<'_>, switch: &Switch) -> Checked {
    let name = switch.name.get_ref();
    match (&switch.arbitration, &switch.weights) {
        (PortArbitration::Weighted, None) => {
            place.error(switch.name.span(), format!("switch `{name}`: weighted arbitration needs `weights`"))
        }
        (PortArbitration::RoundRobin, Some(weights)) => {
            let message = format!("weights of switch `{name}`: they need arbitration = \"weighted\"");
            place.error(weights.span(), message)
        }
        _ => Ok(()),
    }
}

/// As many weights as the switch has ports, none of them 0. A tree that is wrong is reported elsewhere.
fn check_weights(place: &Place<'_>, lab: &Lab, switch: &Switch) -> Checked {
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

fn check_slot(place: &Place<'_>, lab: &Lab, n: usize, slot: &Slot) -> Vec<FileError> {
    let what = format!("slot `{}`", slot.name.get_ref());
    check_link(place, lab, ["slot", &n.to_string()], (&slot.name, &what), &slot.link)
}

/// The windows of all devices fit into the memory that they lie in.
fn check_windows(place: &Place<'_>, lab: &Lab) -> Checked {
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
            let message = format!("window_bytes of {}: {left} bytes are left of host.{key}", window.bytes);
            return place.error(place.setting(n, slot, &["window_bytes"]), message);
        }
    }
    Ok(())
}

/// BAR addresses that the lab gives lie where the host has BARs, aligned, and apart from each other.
fn check_addresses(place: &Place<'_>, lab: &Lab) -> Checked {
    let mut taken: Vec<(Window, &str)> = Vec::new();
    for (n, slot) in lab.slot.iter().enumerate() {
        let Some(FixedBar { address, size_bytes: size, .. }) = slot.needs().fixed_bar else { continue };
        let bar = Window { base: address, size };
        let (name, span) = (slot.name.get_ref(), place.setting(n, slot, &["address"]));
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

/// What only firmware and drivers of a simulated host heed is said of no slot below a host outside.
fn check_outside(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    let Ok(tree) = Tree::of(lab) else { return Vec::new() };
    let slots = lab.slot.iter().enumerate().filter(|(n, _)| !tree.is_simulated(*n));
    let check = |(n, slot): (usize, &Slot)| {
        let (name, number) = (slot.name.get_ref(), n.to_string());
        let idle = |at: Option<Range<usize>>, key: &str| {
            let why = format!("{key} of slot `{name}`: without effect, since its host is outside");
            place.error(at.unwrap_or_else(|| slot.name.span()), why)
        };
        let own = |key: &[&str]| place_of(&place.places, &[&["slot", number.as_str()], key].concat());
        let address = match slot.needs().fixed_bar {
            Some(_) => idle(Some(place.setting(n, slot, &["address"])), "address"),
            None => Ok(()),
        };
        let mrrs = match slot.link.mrrs_bytes {
            Some(_) => idle(own(&["link", "mrrs_bytes"]), "mrrs_bytes"),
            None => Ok(()),
        };
        let driver = match &slot.driver {
            Some(driver) => idle(Some(driver.span()), "driver"),
            None => Ok(()),
        };
        found([address, mrrs, driver])
    };
    slots.flat_map(check).collect()
}

fn check_slot_name(place: &Place<'_>, lab: &Lab, slot: &Spanned<String>) -> Checked {
    let name = slot.get_ref();
    if lab.slot.iter().any(|s| s.name.get_ref() == name) {
        return Ok(());
    }
    let names: Vec<&str> = lab.slot.iter().map(|s| s.name.get_ref().as_str()).collect();
    place.error(slot.span(), format!("no slot `{name}`: there are {}", names.join(", ")))
}

fn check_link_events(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    let check = |change: &LinkChange| {
        found([check_slot_name(place, lab, &change.slot), check_capability(place, lab, change)])
    };
    lab.link_event.iter().flat_map(check).collect()
}

/// A link never trains above what its ports are capable of, which is what the lab gives it (`PCIe 5.0 §7.5.3.6`).
fn check_capability(place: &Place<'_>, lab: &Lab, change: &LinkChange) -> Checked {
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

fn check_faults(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    faults::check(lab).into_iter().filter_map(|w| place.error::<()>(w.span, w.message).err()).collect()
}
