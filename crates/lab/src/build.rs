// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a running fabric from a lab: plugs devices into slots and gives the host their drivers.

use crate::BuildError;
use crate::boot;
use crate::bridges;
use crate::channels;
use crate::file::LabFile;
use crate::links::replays_early;
use crate::models::{OfHost, Sites, limits};
use crate::profile::{Basis, HostBasis};
use crate::schema::{ExternalHost, Hanging, Lab, Slot};
use crate::tree::Tree;
use crate::{faults, hosts, links, profile, switch_design};
use capture::OwnRegisters;
use endpoint::{Endpoint, EndpointConfig, EndpointError, EndpointLimits, Gate, TlpPort};
use fabric::{
    Fabric, FabricConfig, HostConfig, HostId, HostProfile, LinkConfig, LinkName, RootDesign, SlotConfig,
    TopologyError,
};
use host::cpu::AsyncProgram;
use host::firmware::HostMap;
use host::memory::HostMemory;
use host::os::{self, Component, EventLog, ObservedProgram, Role};
use host::{Cpu, HostProgram};
use plug::plugged::{AnyReport, FunctionEnd, RootComplexEnd};
use plug::site::NativeCode;
use plug::transfers::Transfers;
use plug::{Attachment, End, Fault, Plugged, RunContext, Shared};
use std::rc::Rc;
use tlp::{Duration, PayloadPool};

/// Extra time after Completion Timeout in which the driver of a lost device may end.
pub(crate) const DRAIN_MARGIN: Duration = Duration::from_us(10);

/// Join point of the default host, if that host is outside of the lab.
pub const ROOT_HOST: &str = "host root";

/// The joined parts of a lab, before anything has run.
pub struct Assembly {
    /// The fabric.
    pub fabric: Fabric,
    /// The seed of the lab.
    pub seed: u64,
    /// Settings that override the lab file, each as `KEY=VALUE`.
    pub set: Vec<String>,
    /// The slots, in the order of the file.
    pub slots: Vec<SlotInfo>,
    /// Links to the slots, then links to the switches.
    pub links: Vec<LinkInfo>,
    /// Events of the hot-plug drivers of the simulated host.
    pub hot_plug: EventLog,
    /// Warnings for the caller, one per line.
    pub warnings: Vec<String>,
    /// The basis of the host's figures.
    pub host_basis: HostBasis,
    /// Places where outside worlds can join: slots first, then hosts.
    pub join_points: Vec<JoinPoint>,
}

/// The data of a slot that reports need.
pub struct SlotInfo {
    /// Name of the slot.
    pub name: String,
    /// Model of the slot's device.
    pub model: String,
    /// Report of the slot's device.
    pub report: Option<Box<dyn AnyReport>>,
    /// Measured transfers of the slot's device.
    pub measured: Option<Shared<Transfers>>,
    /// Basis of the device profile.
    pub basis: Option<Basis>,
}

/// The data of a link that reports and captures need.
pub struct LinkInfo {
    /// Name of the slot or switch below the link.
    pub name: String,
    /// Generation.
    pub generation: u8,
    /// Lanes.
    pub lanes: u8,
    /// Max_Payload_Size of the root port or switch port above.
    pub mps_bytes: u32,
    /// The device's own registers.
    pub registers: OwnRegisters,
}

/// A place where an outside world joins a lab.
#[derive(Clone)]
pub struct JoinPoint {
    /// Name: `slot NAME` or `host NAME`.
    pub name: String,
    /// The place.
    pub place: Rc<dyn Attachment>,
    /// The part of the fabric to wake after an input.
    pub wakes: Wakes,
}

/// The part of the fabric that an input from outside wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakes {
    /// A slot, by number.
    Slot(usize),
    /// A host.
    Host(HostId),
    /// All links.
    Links,
}

/// An external host: a program outside the lab.
pub struct OutsideHost {
    /// Memory of the host.
    pub memory: HostMemory,
    /// Program above the root complex.
    pub program: Box<dyn HostProgram>,
    /// Place where the outside world joins.
    pub place: Rc<dyn Attachment>,
}

/// Creates the external host with this join point number.
pub type OutsideHosts<'a> = &'a mut dyn FnMut(u16, &PayloadPool) -> OutsideHost;

/// Creates a host program from its payload pool, its memory and the host's enumeration data.
pub type OwnProgram = Box<dyn FnOnce(PayloadPool, HostMemory, HostMap) -> Box<dyn HostProgram>>;

/// Options of a caller that builds a lab.
#[derive(Default)]
pub struct BuildOptions {
    /// Replaces the host profile that the lab names.
    pub host: Option<HostProfile>,
    /// Permission to run native code.
    pub native: NativeCode,
    /// State of the run, which models can use when they are plugged in.
    pub context: RunContext,
    /// Replaces firmware and drivers of the simulated host.
    pub program: Option<OwnProgram>,
}

impl BuildOptions {
    /// Returns the default options with this permission for native code.
    pub fn native(native: NativeCode) -> BuildOptions {
        BuildOptions { native, ..BuildOptions::default() }
    }
}

/// Joins the parts of the lab; `outside` creates the hosts that are not simulated.
///
/// # Errors
/// The parts do not fit together, with the reason.
pub fn build(
    file: &LabFile,
    options: BuildOptions,
    outside: OutsideHosts<'_>,
) -> Result<Assembly, BuildError> {
    let lab = &file.lab;
    let BuildOptions { host, native, mut context, program: own } = options;
    let host = host.map_or_else(|| profile::host_in(lab.host.profile.get_ref(), &file.base), Ok)?;
    let host = patient(lab, hosts::apply(&lab.host, host));
    let memory = host_memory(lab)?;
    let payloads = PayloadPool::new();
    let tree = Tree::of(lab)?;
    let links = bridges::all_links(lab, &tree);
    let sites = Sites::new(file, &payloads, &memory, OfHost::of(&host), &tree, &links, native);
    let paths = tree.slot_paths();
    let plugged = plug_slots(lab, &tree, &links, |n, slot| sites.plug(n, slot, &mut context), &payloads)?;
    let root_complex = root_complex(sites.plug_root_complex(&links, &mut context))?;
    let PluggedSlots {
        ends,
        slots,
        registers,
        components,
        mut join_points,
        warnings: of_slots,
        has_read_gaps,
        write_line_gap,
    } = plugged;
    let mut host = if has_read_gaps { host } else { without_read_gaps(host) };
    host.completions.write_line_gap = write_line_gap;
    let mut warnings: Vec<String> = profile::extrapolation::of_host(file).into_iter().collect();
    warnings.extend(lab.hanging().zip(&links).filter_map(|(h, link)| replays_early(h.name.get_ref(), link)));
    let of_root_complex = root_complex.iter().flat_map(|(_, warnings)| warnings.clone());
    for line in of_slots.into_iter().chain(of_root_complex) {
        if !warnings.contains(&line) {
            warnings.push(line);
        }
    }
    let components = boot::arrange(lab, &tree, components);
    let mut join = |name: &str, id: HostId, payloads: &PayloadPool| {
        let OutsideHost { memory, program, place } = outside(join_points.len() as u16, payloads);
        join_points.push(JoinPoint { name: name.to_owned(), place, wakes: Wakes::Host(id) });
        (memory, program)
    };
    let first = lab.host.outside.then(|| join(ROOT_HOST, HostId::FIRST, &payloads));
    let outside = external_hosts(file, &tree, &links, &mut join)?;
    let others = outside.iter().map(|other| other.profile.completion_timeout);
    let place_timeout = others.fold(host.completion_timeout, Duration::max);
    let designs = switch_designs(lab, &tree, |n| sites.plug_switch(n, &tree, &links, &mut context))?;
    warnings.extend(designs.warnings);
    let switches = bridges::switches(lab, &tree, &links, place_timeout, &payloads, designs.ends)?;
    let mut root_complex = root_complex.map(|(end, _)| end);
    let software = root_complex.as_mut().and_then(|end| end.software.take());
    if software.is_some() && (own.is_some() || lab.host.outside) {
        return Err(BuildError::DesignSoftware);
    }
    let root_ports = match root_complex {
        Some(_) => Vec::new(),
        None => bridges::root_ports(&tree, HostId::FIRST, &links, host.rcb)?,
    };
    let map = boot::host_map(lab, &tree, &paths, host.ecrc);
    let map = match &root_complex {
        Some(end) => boot::below_design(map, end),
        None => map,
    };
    let drain = host.completion_timeout + DRAIN_MARGIN;
    let links_go_down = faults::take_links_down(lab);
    let options = os::Options { drain, links_go_down, ..os::Options::default() };
    let (hot_plug, failures) = (options.log.clone(), options.failures.clone());
    // If all slots are below external hosts, the simulated host has nothing to do.
    let is_used = !root_ports.is_empty() || root_complex.is_some() || outside.is_empty();
    let (memory, program): (HostMemory, Option<Box<dyn HostProgram>>) = match (first, own) {
        (Some((memory, program)), _) => (memory, Some(program)),
        (None, Some(own)) => (memory.clone(), Some(own(payloads.clone(), memory, map))),
        (None, None) if software.is_some() => (memory, software),
        (None, None) if !is_used => (memory, None),
        (None, None) => {
            let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), |cpu: Cpu| {
                os::boot(cpu, map, components, options)
            });
            (memory, Some(Box::new(ObservedProgram { program, failures, config_requests: Rc::default() })))
        }
    };
    let first = HostConfig { profile: host, memory, payloads, root_ports, program };
    let config = FabricConfig {
        hosts: std::iter::once(first).chain(outside).collect(),
        slots: ends,
        switches,
        faults: faults::rules(lab),
        seed: lab.seed,
    };
    let design = |RootComplexEnd { frames, bus, .. }| RootDesign { host: HostId::FIRST, frames, bus };
    let mut fabric = Fabric::with_designs(config, root_complex.into_iter().map(design).collect())
        .map_err(|e| credits_of(lab, e))?;
    configure(&mut fabric, lab);
    let links = link_infos(lab, &links, registers);
    let (seed, set, host_basis) = (lab.seed, lab.set.clone(), HostBasis::of(&lab.host, &file.base));
    Ok(Assembly { fabric, seed, set, slots, links, hot_plug, warnings, host_basis, join_points })
}

/// The root complex that a model has made, with its warnings.
fn root_complex(
    plugged: Option<Result<Plugged, Fault>>,
) -> Result<Option<(RootComplexEnd, Vec<String>)>, BuildError> {
    let Some(plugged) = plugged else { return Ok(None) };
    let plugged = plugged.map_err(BuildError::HostRootComplex)?;
    match plugged.end {
        End::RootComplex(end) => Ok(Some((end, plugged.warnings))),
        _ => Err(BuildError::NoRootComplex),
    }
}

/// The switches that are not riser's.
#[derive(Default)]
struct SwitchDesigns {
    /// By switch: the ports of the switch, if it is not riser's.
    ends: Vec<Option<Vec<Box<dyn TlpPort>>>>,
    warnings: Vec<String>,
}

/// Plugs in the switches that are not riser's; `plug` creates them.
fn switch_designs(
    lab: &Lab,
    tree: &Tree,
    mut plug: impl FnMut(usize) -> Option<Result<Plugged, Fault>>,
) -> Result<SwitchDesigns, BuildError> {
    let mut all = SwitchDesigns::default();
    for (n, switch) in lab.switch.iter().enumerate() {
        let mut make = |mut plugged: Plugged| {
            all.warnings.append(&mut plugged.warnings);
            switch_design::ports(plugged, tree.downstream_ports[n])
        };
        let made = plug(n).map(|plugged| plugged.and_then(&mut make)).transpose();
        let name = switch.name.get_ref();
        all.ends.push(made.map_err(|fault| BuildError::SwitchDesign { name: name.clone(), fault })?);
    }
    Ok(all)
}

/// The slots and their devices.
#[derive(Default)]
struct PluggedSlots {
    ends: Vec<SlotConfig>,
    slots: Vec<SlotInfo>,
    registers: Vec<OwnRegisters>,
    components: Vec<Component>,
    join_points: Vec<JoinPoint>,
    warnings: Vec<String>,
    /// Whether the gaps after reads in the host's profile apply to the device of a slot.
    has_read_gaps: bool,
    /// The longest time that a line of a write takes from completions, of all devices.
    write_line_gap: Duration,
}

/// Plugs in the device of each slot; `plug` creates it.
fn plug_slots(
    lab: &Lab,
    tree: &Tree,
    links: &[LinkConfig],
    mut plug: impl FnMut(usize, &Slot) -> Result<Plugged, Fault>,
    payloads: &PayloadPool,
) -> Result<PluggedSlots, BuildError> {
    let mut all = PluggedSlots::default();
    let (paths, ids) = (tree.slot_paths(), tree.slot_ids());
    for (n, slot) in lab.slot.iter().enumerate() {
        let name = slot.name.get_ref().clone();
        let plugged = plug(n, slot).map_err(|fault| BuildError::Device { slot: name.clone(), fault })?;
        all.warnings.extend(plugged.warnings);
        all.has_read_gaps |= plugged.has_read_gaps;
        all.write_line_gap = all.write_line_gap.max(plugged.write_line_gap);
        all.registers.push(plugged.registers);
        let model = slot.device.get_ref().clone();
        let (report, measured, basis) = (plugged.report, plugged.measured, plugged.basis);
        all.slots.push(SlotInfo { name: name.clone(), model, report, measured, basis });
        let point = |place| JoinPoint { name: format!("slot {name}"), place, wakes: Wakes::Slot(n) };
        all.join_points.extend(plugged.place.map(point));
        let device = end(lab, slot, plugged.end, payloads)?;
        let device = match plugged.data_link {
            Some(join) => join(device, links[n].device.clone()),
            None => device,
        };
        all.ends.push(SlotConfig { link: links[n].clone(), above: tree.slots[n], device });
        let hot_plug = tree.hot_plug[n].then(|| faults::last_event(lab, n));
        let (path, role) = (paths[n].clone(), Role::Device(plugged.task));
        all.components.push(Component { name, path, id: ids[n], role, hot_plug });
    }
    Ok(all)
}

/// Applies the lab's settings for the whole fabric, and schedules its link events.
fn configure(fabric: &mut Fabric, lab: &Lab) {
    fabric.set_names(
        lab.slot.iter().map(|s| s.name.get_ref().clone()).collect(),
        lab.switch.iter().map(|s| s.name.get_ref().clone()).collect(),
    );
    for (function, first, bytes) in hosts::windows(&lab.host) {
        fabric.root_mut().restrict_dma(function, first, bytes);
    }
    fabric.root_mut().set_peer_to_peer(lab.host.peer_to_peer);
    fabric.set_lenient_completions(lab.lenient_completions);
    links::changes(lab).into_iter().for_each(|change| fabric.schedule(change));
    faults::outages(lab).into_iter().for_each(|outage| fabric.schedule(outage));
}

/// The links to slots, with the registers of their devices, then the links to switches.
fn link_infos(lab: &Lab, links: &[LinkConfig], registers: Vec<OwnRegisters>) -> Vec<LinkInfo> {
    let mut registers = registers.into_iter();
    let info = |(h, link): (Hanging<'_>, &LinkConfig)| {
        LinkInfo::new(h.name.get_ref(), link).with_registers(registers.next().unwrap_or_default())
    };
    lab.hanging().zip(links).map(info).collect()
}

/// The external hosts; `join` creates the memory and the program of each.
fn external_hosts(
    file: &LabFile,
    tree: &Tree,
    links: &[LinkConfig],
    mut join: impl FnMut(&str, HostId, &PayloadPool) -> (HostMemory, Box<dyn HostProgram>),
) -> Result<Vec<HostConfig>, BuildError> {
    let host = |(id, host): (HostId, &ExternalHost)| {
        let profile = patient(&file.lab, profile::host_in(host.profile(), &file.base)?);
        let payloads = PayloadPool::new();
        let name = format!("host {}", host.name.get_ref());
        let (memory, program) = join(&name, id, &payloads);
        let root_ports = bridges::root_ports(tree, id, links, profile.rcb)?;
        Ok(HostConfig { root_ports, profile, memory, payloads, program: Some(program) })
    };
    (1..).map(HostId).zip(&file.lab.external_host).map(host).collect()
}

/// Converts a topology error. Errors of credits use the lab's name of the link.
fn credits_of(lab: &Lab, error: TopologyError) -> BuildError {
    let TopologyError::NonPostedCredits { link, side, error } = error else {
        return BuildError::Fabric(error);
    };
    let n = match link {
        LinkName::Slot(n) => n,
        LinkName::Switch(n) => lab.slot.len() + n,
    };
    let name = lab.hanging().nth(n).map_or_else(String::new, |h| h.to_string());
    BuildError::Credits { link: name, side: side.name(), error }
}

pub(crate) fn host_memory(lab: &Lab) -> Result<HostMemory, BuildError> {
    let bytes = |mib: u32| u64::from(mib) << 20;
    let host = &lab.host;
    let [low, high] = [&host.low_memory_mib, &host.high_memory_mib].map(|mib| bytes(*mib.get_ref()));
    Ok(HostMemory::new(low, high)?)
}

/// Raises the completion timeout of `host` to the longest that the lab's devices need.
fn patient(lab: &Lab, host: HostProfile) -> HostProfile {
    let least = lab.slot.iter().map(|slot| slot.needs().host_patience).max().unwrap_or_default();
    HostProfile { completion_timeout: host.completion_timeout.max(least), ..host }
}

/// Returns `host` without gaps after reads, for cards that do not have them.
fn without_read_gaps(mut host: HostProfile) -> HostProfile {
    host.completions.request_gaps = fabric::profile::RequestGaps::default();
    host
}

/// The component at the end of the slot's link.
fn end(lab: &Lab, slot: &Slot, end: End, payloads: &PayloadPool) -> Result<Box<dyn TlpPort>, BuildError> {
    let function = match end {
        End::Raw(device) => return Ok(Box::new(Gate::new(device.first, device.again))),
        End::Block(block) => return Ok(block),
        End::Function(end) => with_channels(lab, slot, *end)?,
        End::DataLink(_) => return Err(BuildError::DataLink { slot: slot.name.get_ref().clone() }),
        End::RootComplex(_) => return Err(BuildError::RootComplex { slot: slot.name.get_ref().clone() }),
        End::Switch(_) => return Err(BuildError::SlotSwitch { slot: slot.name.get_ref().clone() }),
    };
    let name = slot.name.get_ref();
    endpoint(name, limits(lab, slot), function, payloads)
        .map_err(|error| BuildError::Endpoint { slot: name.clone(), error })
}

/// Adds Virtual Channel to the function if its link has several channels.
fn with_channels(lab: &Lab, slot: &Slot, mut end: FunctionEnd) -> Result<FunctionEnd, BuildError> {
    if let Some(layout) = channels::layout(&links::config(&lab.link, &slot.link).device) {
        end.function.config.add_virtual_channels(layout)?;
    }
    Ok(end)
}

/// A function with an endpoint of this name.
pub(crate) fn endpoint(
    name: &str,
    limits: EndpointLimits,
    end: FunctionEnd,
    payloads: &PayloadPool,
) -> Result<Box<dyn TlpPort>, EndpointError> {
    let (name, functions, pool) = (name.to_owned(), vec![end.function], payloads.clone());
    let mut endpoint = Endpoint::new(EndpointConfig { name, functions, limits, pool })?;
    if let Some(virtual_functions) = end.virtual_functions {
        endpoint = endpoint.with_virtual_functions(0, virtual_functions)?;
    }
    Ok(match end.wrap {
        Some(wrap) => wrap(endpoint),
        None => Box::new(endpoint),
    })
}

impl LinkInfo {
    pub(crate) fn new(name: &str, link: &LinkConfig) -> LinkInfo {
        LinkInfo {
            name: name.to_owned(),
            generation: link.root.rate.generation(),
            lanes: link.root.width.lanes(),
            mps_bytes: link.root.mps.bytes(),
            registers: OwnRegisters::default(),
        }
    }

    fn with_registers(self, registers: OwnRegisters) -> LinkInfo {
        LinkInfo { registers, ..self }
    }
}
