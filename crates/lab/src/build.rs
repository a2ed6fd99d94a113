// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a lab to a running fabric: devices into slots, their drivers onto the host.

use crate::boot;
use crate::bridges;
use crate::external::driver::{Behind, Joint};
use crate::external::host::{HostPlace, HostSeat, OutsideMemory, ROOT};
use crate::external::journal::Journal;
use crate::external::{Commands, LINKS};
use crate::links::replays_early;
use crate::models::Sites;
use crate::profile::{Aspect, Basis, HostBasis};
use crate::read::LabFile;
use crate::report::{DeviceReport, HotPlugReport, LinkReport, Report, directions};
use crate::schema::{self, ExternalHost, Lab, Slot};
use crate::tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink};
use crate::transactions::{TransactionLog, TransactionLogHandle, transactions};
use crate::tree::Tree;
use crate::{channels, faults, host_schema, profile};
use capture::OwnRegisters;
use endpoint::{Endpoint, EndpointConfig, EndpointError, EndpointLimits, Gate, TagsPer, TlpPort};
use fabric::{
    Fabric, FabricConfig, HostConfig, HostId, HostProfile, Limits, LinkConfig, LinkName, SlotConfig, Stop,
    TopologyError, TransactionKind,
};
use host::cpu::AsyncProgram;
use host::firmware::HostMap;
use host::memory::HostMemory;
use host::os::{self, Component, EventLog, HotPlugEvent, ObservedProgram, Role};
use host::{Cpu, HostProgram};
use plug::plugged::{AnyReport, FunctionEnd};
use plug::site::NativeCode;
use plug::transfers::Transfers;
use plug::{End, Report as DeviceFigures, RunContext, Shared, Shown};
use std::io::{self, Write};
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Rate, Time};

/// Time beyond Completion Timeout in which the driver of a device that is gone may end.
pub(crate) const DRAIN_MARGIN: Duration = Duration::from_us(10);

/// A lab that is about to run.
pub struct Assembly {
    /// The fabric.
    pub fabric: Fabric,
    pub(crate) seed: u64,
    /// What was set over the lab file.
    pub(crate) set: Vec<String>,
    pub(crate) slots: Vec<SlotInfo>,
    /// Those of the slots first, then those of the switches.
    pub(crate) links: Vec<LinkInfo>,
    pub(crate) hot_plug: EventLog,
    pub(crate) warnings: Vec<String>,
    /// How the figures of the host are known.
    pub(crate) host_basis: HostBasis,
    /// Where the outside joins.
    pub(crate) places: Vec<Joint>,
    /// What somebody outside does to links.
    pub(crate) commands: Commands,
    /// The record of that, once there is one.
    pub(crate) journal: Journal,
}

/// What reports say of a slot.
pub(crate) struct SlotInfo {
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) report: Option<Box<dyn AnyReport>>,
    pub(crate) measured: Option<Shared<Transfers>>,
    pub(crate) basis: Option<Basis>,
}

/// What reports say of a link.
pub(crate) struct LinkInfo {
    /// The slot or the switch that it leads to.
    name: String,
    generation: u8,
    lanes: u8,
    mps_bytes: u32,
    /// The registers that its device brings along.
    registers: OwnRegisters,
}

/// Puts the lab together. Nothing has run yet.
///
/// # Errors
/// What cannot be put together, and why.
pub fn build(file: &LabFile) -> Result<Assembly, String> {
    build_with(file, BuildOptions::default())
}

/// Options of a caller that builds a lab.
#[derive(Default)]
pub struct BuildOptions {
    /// Replaces the host profile that the lab names.
    pub host: Option<HostProfile>,
    /// State of the run, which models find when they are plugged in.
    pub context: RunContext,
}

/// As [`build`], with `options`.
///
/// # Errors
/// As [`build`].
pub fn build_with(file: &LabFile, options: BuildOptions) -> Result<Assembly, String> {
    build_program(file, options, None, file.lab.native)
}

/// Makes a host program of its payloads, its memory and what enumeration is told of the host.
pub(crate) type OwnProgram = Box<dyn FnOnce(PayloadPool, HostMemory, HostMap) -> Box<dyn HostProgram>>;

/// As [`build_with`]; `own` replaces firmware and drivers if it is given, and `native` says whether native code may run.
pub(crate) fn build_program(
    file: &LabFile,
    options: BuildOptions,
    own: Option<OwnProgram>,
    native: NativeCode,
) -> Result<Assembly, String> {
    let lab = &file.lab;
    let BuildOptions { host, mut context } = options;
    let host = host.map_or_else(|| profile::host_in(lab.host.profile.get_ref(), &file.base), Ok)?;
    let host = patient(lab, host_schema::apply(&lab.host, host));
    let memory = host_memory(lab)?;
    let payloads = PayloadPool::new();
    let mut ends = Vec::new();
    let (mut slots, mut registers) = (Vec::new(), Vec::new());
    let mut components: Vec<Component> = Vec::new();
    let (mut places, journal) = (Vec::new(), Journal::default());
    let tree = Tree::of(lab).map_err(|e| e.message)?;
    let links = bridges::all_links(lab, &tree);
    let sites = Sites::new(file, &payloads, &memory, host.completion_timeout, &tree, &links, native);
    let mut warnings: Vec<String> = profile::extrapolation::of_host(file).into_iter().collect();
    warnings.extend(lab.hanging().zip(&links).filter_map(|(h, link)| replays_early(h.name.get_ref(), link)));
    let (paths, ids) = (tree.slot_paths(), tree.slot_ids());
    for (n, slot) in lab.slot.iter().enumerate() {
        let name = slot.name.get_ref().clone();
        let plugged = sites.plug(n, slot, &mut context).map_err(|e| format!("slot `{name}`: {e}"))?;
        for line in plugged.warnings {
            if !warnings.contains(&line) {
                warnings.push(line);
            }
        }
        registers.push(plugged.registers);
        let model = slot.device.get_ref().clone();
        let (report, measured, basis) = (plugged.report, plugged.measured, plugged.basis);
        slots.push(SlotInfo { name: name.clone(), model, report, measured, basis });
        let joint = |place| Joint { name: format!("slot {name}"), place, behind: Behind::Slot(n) };
        places.extend(plugged.place.map(joint));
        let device = end(lab, slot, plugged.end, &payloads)?;
        ends.push(SlotConfig { link: links[n].clone(), above: tree.slots[n], device });
        let hot_plug = tree.hot_plug[n].then(|| faults::last_event(lab, n));
        let (path, role) = (paths[n].clone(), Role::Device(plugged.task));
        components.push(Component { name, path, id: ids[n], role, hot_plug });
    }
    let components = boot::arrange(lab, &tree, components);
    let first = lab.host.outside.then(|| seat(ROOT, HostId::FIRST, &payloads, &mut places, &journal));
    let outside = outside(file, &tree, &links, &mut places, &journal)?;
    let others = outside.iter().map(|other| other.profile.completion_timeout);
    let place_timeout = others.fold(host.completion_timeout, Duration::max);
    let switches = bridges::switches(lab, &tree, &links, place_timeout, &payloads)?;
    let commands = Commands::of(lab);
    if lab.is_joined_by_hosts() {
        let place = Rc::new(commands.clone());
        places.push(Joint { name: LINKS.to_owned(), place, behind: Behind::Links });
    }
    let root_ports = bridges::root_ports(&tree, HostId::FIRST, &links, host.rcb)?;
    let map = boot::host_map(lab, &tree, &paths);
    let drain = host.completion_timeout + DRAIN_MARGIN;
    let links_go_down = faults::take_links_down(lab);
    let options = os::Options { drain, links_go_down, ..os::Options::default() };
    let (hot_plug, failures) = (options.log.clone(), options.failures.clone());
    // Where all hang on hosts outside, the simulated one has nothing to do.
    let is_used = !root_ports.is_empty() || outside.is_empty();
    let (memory, program): (HostMemory, Option<Box<dyn HostProgram>>) = match (first, own) {
        (Some((memory, seat)), _) => (memory, Some(seat)),
        (None, Some(own)) => (memory.clone(), Some(own(payloads.clone(), memory, map))),
        (None, None) if !is_used => (memory, None),
        (None, None) => {
            let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), |cpu: Cpu| {
                os::boot(cpu, map, components, options)
            });
            (memory, Some(Box::new(ObservedProgram { program, failures, config_requests: Rc::default() })))
        }
    };
    let first = HostConfig { profile: host, memory, payloads, root_ports, program };
    let mut fabric = Fabric::new(FabricConfig {
        hosts: std::iter::once(first).chain(outside).collect(),
        slots: ends,
        switches,
        faults: faults::rules(lab),
        seed: lab.seed,
    })
    .map_err(|e| credits_of(lab, e))?;
    fabric.set_names(
        lab.slot.iter().map(|s| s.name.get_ref().clone()).collect(),
        lab.switch.iter().map(|s| s.name.get_ref().clone()).collect(),
    );
    for (function, first, bytes) in host_schema::windows(&lab.host) {
        fabric.root_mut().restrict_dma(function, first, bytes);
    }
    fabric.root_mut().set_peer_to_peer(lab.host.peer_to_peer);
    fabric.set_lenient_completions(lab.lenient_completions);
    channels::changes(lab).into_iter().for_each(|change| fabric.schedule(change));
    faults::outages(lab).into_iter().for_each(|outage| fabric.schedule(outage));
    // `hanging` lists slots first, then switches, which bring none.
    let mut registers = registers.into_iter();
    let links = lab.hanging().zip(&links).map(|(h, link)| {
        LinkInfo::new(h.name.get_ref(), link).with_registers(registers.next().unwrap_or_default())
    });
    let links = links.collect();
    let (seed, set, host_basis) = (lab.seed, lab.set.clone(), HostBasis::of(&lab.host, &file.base));
    Ok(Assembly {
        fabric,
        seed,
        set,
        slots,
        links,
        hot_plug,
        warnings,
        host_basis,
        places,
        commands,
        journal,
    })
}

/// The hosts outside, each with its place.
fn outside(
    file: &LabFile,
    tree: &Tree,
    links: &[LinkConfig],
    places: &mut Vec<Joint>,
    journal: &Journal,
) -> Result<Vec<HostConfig>, String> {
    let host = |(id, host): (HostId, &ExternalHost)| {
        let profile = patient(&file.lab, profile::host_in(host.profile(), &file.base)?);
        let payloads = PayloadPool::new();
        let name = format!("host {}", host.name.get_ref());
        let (memory, seat) = seat(&name, id, &payloads, places, journal);
        let root_ports = bridges::root_ports(tree, id, links, profile.rcb)?;
        Ok(HostConfig { root_ports, profile, memory, payloads, program: Some(seat) })
    };
    (1..).map(HostId).zip(&file.lab.external_host).map(host).collect()
}

/// The memory and the seat of a host outside, whose place has this name.
fn seat(
    name: &str,
    id: HostId,
    payloads: &PayloadPool,
    places: &mut Vec<Joint>,
    journal: &Journal,
) -> (HostMemory, Box<dyn HostProgram>) {
    let memory = OutsideMemory::new(journal.clone(), places.len() as u16);
    let place = HostPlace::new(payloads.clone(), memory.clone());
    places.push(Joint { name: name.to_owned(), place: Rc::new(place.clone()), behind: Behind::Host(id) });
    (HostMemory::of(memory), Box::new(HostSeat(place)))
}

/// The text of an error in the topology; errors of credits name the link as the lab does.
fn credits_of(lab: &Lab, error: TopologyError) -> String {
    let TopologyError::NonPostedCredits { link, side, error } = error else { return error.to_string() };
    let n = match link {
        LinkName::Slot(n) => n,
        LinkName::Switch(n) => lab.slot.len() + n,
    };
    let name = lab.hanging().nth(n).map_or_else(String::new, |h| h.to_string());
    format!("link of {name}, {} side: {error}", side.name())
}

pub(crate) fn host_memory(lab: &Lab) -> Result<HostMemory, String> {
    let bytes = |mib: u32| u64::from(mib) << 20;
    let host = &lab.host;
    HostMemory::new(bytes(*host.low_memory_mib.get_ref()), bytes(*host.high_memory_mib.get_ref()))
        .map_err(|e| e.to_string())
}

/// `host` with a completion timeout as long as the devices of the lab need.
fn patient(lab: &Lab, host: HostProfile) -> HostProfile {
    let least = lab.slot.iter().map(|slot| slot.needs().host_patience).max().unwrap_or_default();
    HostProfile { completion_timeout: host.completion_timeout.max(least), ..host }
}

/// What stands at the end of the slot's link.
fn end(lab: &Lab, slot: &Slot, end: End, payloads: &PayloadPool) -> Result<Box<dyn TlpPort>, String> {
    let function = match end {
        End::Raw(device) => return Ok(Box::new(Gate::new(device.first, device.again))),
        End::Block(block) => return Ok(block),
        End::Function(end) => *end,
    };
    let name = slot.name.get_ref();
    endpoint(name, limits(lab, slot), function, payloads).map_err(|e| format!("slot `{name}`: {e}"))
}

/// The limits of the slot's endpoint.
pub(crate) fn limits(lab: &Lab, slot: &Slot) -> EndpointLimits {
    let tags_per = match slot.tags_per {
        schema::TagsPer::Function => TagsPer::Function,
        schema::TagsPer::Endpoint => TagsPer::Endpoint,
    };
    let lenient_completions = lab.lenient_completions;
    let mut limits = EndpointLimits { tags_per, lenient_completions, ..EndpointLimits::default() };
    if let Some(tags) = &slot.tags {
        limits.max_outstanding_reads = *tags.get_ref();
    }
    if let Some(us) = &slot.completion_timeout_us {
        limits.completion_timeout = Duration::from_us(*us.get_ref());
    }
    limits
}

/// A function behind an endpoint of this name.
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

    fn tapped_link(&self) -> TappedLink {
        let symbol = Rate::from_generation(self.generation).unwrap_or(Rate::Gt2_5).symbol_time_ps();
        // A byte on each lane in a symbol time.
        let speed_bps = 8_000_000_000_000 * u64::from(self.lanes) * symbol.den / symbol.num;
        TappedLink { slot: self.name.clone(), speed_bps, registers: self.registers.clone() }
    }
}

/// The time limit of a lab.
pub fn limit(limit_us: Option<u64>) -> Time {
    limit_us.map_or(Time::MAX, |us| Time::ZERO + Duration::from_us(us))
}

impl Assembly {
    /// Writes what passes on every link to `out`, as a capture.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn capture<W: Write + 'static>(
        &mut self,
        out: W,
        options: CaptureOptions,
    ) -> io::Result<CaptureHandle<W>> {
        let links = self.tapped_links();
        let (tap, handle) = CaptureTap::new(out, &links, options)?;
        self.fabric.set_tap(Box::new(tap));
        Ok(handle)
    }

    /// Writes a JSON object for each transaction that ends to `out`, a line each: see [`crate::transactions`].
    pub fn log_transactions<W: Write + 'static>(&mut self, out: W) -> TransactionLogHandle<W> {
        let slots = self.links.iter().map(|l| l.name.clone()).collect();
        let (log, handle) = TransactionLog::new(out, slots);
        self.fabric.set_transaction_tap(Box::new(log));
        handle
    }

    /// Runs the fabric as [`Fabric::run`] does. A device that has failed ends it; at its end, so does one that gives the run a bad name.
    pub fn run(&mut self, limits: Limits) -> Stop {
        let stop = self.fabric.run(limits);
        self.or_failed(stop)
    }

    /// `stop`, or the failure of a device: for callers that run the fabric themselves.
    pub fn or_failed(&self, stop: Stop) -> Stop {
        let told = |what: fn(&dyn AnyReport) -> Option<String>| self.said(what).next();
        match stop {
            Stop::Failed(_) => stop,
            Stop::Paused => told(|report| report.failure()).map_or(stop, Stop::Failed),
            _ => told(|report| report.failure())
                .or_else(|| told(|report| report.verdict()))
                .map_or(stop, Stop::Failed),
        }
    }

    /// Asks the report of each slot for `what`; prefixes each answer with the slot's name.
    fn said(&self, what: fn(&dyn AnyReport) -> Option<String>) -> impl Iterator<Item = String> {
        let of =
            move |slot: &SlotInfo| Some(format!("slot `{}`: {}", slot.name, what(&**slot.report.as_ref()?)?));
        self.slots.iter().filter_map(of)
    }

    /// Returns the findings on devices since the last call, a line each. `told` counts the findings returned so far for each
    /// slot; pass an empty one first.
    pub fn new_findings(&self, told: &mut Vec<usize>) -> Vec<String> {
        told.resize(self.slots.len(), 0);
        let mut lines = Vec::new();
        for (slot, told) in self.slots.iter().zip(told) {
            let new = slot.report.as_ref().map_or(Vec::new(), |report| report.findings(*told));
            *told += new.len();
            lines.extend(new.into_iter().map(|finding| format!("slot `{}`: {finding}", slot.name)));
        }
        lines
    }

    /// Returns how much devices have done wrong, a line for each such device.
    pub fn wrong(&self) -> Vec<String> {
        self.said(|report| report.wrong()).collect()
    }

    /// Transfers done so far, and those to be done in all, of the devices that know; `None` where none does.
    pub fn transfers(&self) -> Option<(u64, u64)> {
        let known = self.slots.iter().filter_map(|slot| slot.report.as_ref()?.transfers());
        known.reduce(|(done, all), (more, of)| (done + more, all + of))
    }

    /// The report of the first device whose report is an `R`, with the number of its slot.
    pub fn find_report<R: DeviceFigures>(&self) -> Option<(usize, Shared<R>)> {
        self.slots.iter().enumerate().find_map(|(n, slot)| {
            Some((n, slot.report.as_ref()?.as_any().downcast_ref::<Shared<R>>()?.clone()))
        })
    }

    /// As [`find_report`](Self::find_report), without the slot.
    pub fn report_of<R: DeviceFigures>(&self) -> Option<Shared<R>> {
        self.find_report().map(|(_, report)| report)
    }

    /// What the first device that measures its transfers has measured.
    pub fn measured(&self) -> Option<Shared<Transfers>> {
        self.slots.iter().find_map(|slot| slot.measured.clone())
    }

    /// The links as captures describe them: those to slots, then those to switches.
    pub fn tapped_links(&self) -> Vec<TappedLink> {
        self.links.iter().map(LinkInfo::tapped_link).collect()
    }

    /// Warnings for whoever runs the lab, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How the figures of the host's profile are known.
    pub fn host_basis(&self) -> &HostBasis {
        &self.host_basis
    }

    /// What the hot-plug drivers of the host have seen and done, in the order of time.
    pub fn hot_plug_events(&self) -> Vec<HotPlugEvent> {
        self.hot_plug.events()
    }

    /// What has happened, up to `stop`, for `cpu_seconds`.
    pub fn report(&self, lab: &str, stop: &Stop, cpu_seconds: f64) -> Report {
        let totals = self.fabric.totals();
        let links: Vec<_> = (0..).zip(&self.links).map(|(n, link)| self.link_report(n, link)).collect();
        Report {
            basis: self.basis(&links),
            lab: lab.to_owned(),
            set: self.set.clone(),
            seed: self.seed,
            warnings: self.warnings.clone(),
            outcome: outcome(stop),
            reasons: reasons(stop),
            simulated_ns: self.fabric.now().as_ps() as f64 / 1_000.0,
            events: totals.events,
            tlp_hops: totals.tlp_hops,
            cpu_seconds,
            hot_plug: self.hot_plug.events().iter().map(HotPlugReport::new).collect(),
            links,
            root_complex: *self.fabric.root().counters(),
            memory_system: self.fabric.root().memory_counters().copied(),
            devices: (0..).zip(&self.slots).map(|(n, slot)| self.device_report(n, slot)).collect(),
        }
    }

    fn link_report(&self, n: u32, link: &LinkInfo) -> LinkReport {
        LinkReport {
            slot: link.name.clone(),
            generation: link.generation,
            lanes: link.lanes,
            mps_bytes: link.mps_bytes,
            directions: directions(&self.fabric, n),
            transactions: transactions(&self.fabric, n, &self.host_basis),
        }
    }

    /// Returns the weakest basis of the report's transactions and devices. Without transactions, that of the host's latencies
    /// counts. Interrupts do not count: no profile has measured them.
    fn basis(&self, links: &[LinkReport]) -> Basis {
        let kinds = links.iter().flat_map(|link| &link.transactions);
        let of_kinds = kinds.filter(|t| t.kind != TransactionKind::Interrupt.name()).map(|t| t.basis);
        let [read, write] =
            [Aspect::ReadLatency, Aspect::WriteLatency].map(|aspect| self.host_basis.get(aspect));
        let of_host = of_kinds.max().unwrap_or(read.max(write));
        self.slots.iter().filter_map(|slot| slot.basis).fold(of_host, Basis::max)
    }

    fn device_report(&self, n: usize, slot: &SlotInfo) -> DeviceReport {
        let mut counters: serde_json::Map<_, _> = self
            .fabric
            .slot_counts(n)
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        let shown = slot.report.as_ref().map(|report| report.shown(self.fabric.now()));
        counters.extend(shown.map(Shown::into_map).unwrap_or_default());
        DeviceReport { slot: slot.name.clone(), model: slot.model.clone(), basis: slot.basis, counters }
    }
}

fn outcome(stop: &Stop) -> &'static str {
    match stop {
        Stop::Finished => "finished",
        Stop::Failed(_) => "failed",
        Stop::TimeLimit => "time-limit",
        Stop::Paused => "paused",
        Stop::NoProgress(_) => "no-progress",
    }
}

fn reasons(stop: &Stop) -> Vec<String> {
    match stop {
        Stop::Failed(why) => vec![why.clone()],
        Stop::NoProgress(who) => who.clone(),
        _ => Vec::new(),
    }
}
