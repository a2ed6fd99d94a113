// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that ship, as a lab names them: each with its driver and what it shows.

use crate::boot::Driver;
use crate::boot::{HostTask, Task};
use crate::gate::RawDevice;
use crate::read::LabFile;
use crate::remote::AdapterSlot;
use crate::schema::{
    Counter, CounterMethod, Flow, FlowKind, Memory, MemoryKind, Model, Pattern, PcieBench, SimpleNic, Slot,
};
use crate::tree::Tree;
use crate::values::MrrsBytes;
use crate::{bridges, links, nic_models, paper_models, profile, vf_models};
use config::PcieLayout;
use device::endpoint::{FunctionConfig, VirtualFunctions};
use device::memory::HostMemory;
use device::{BarIndex, TlpPort};
use devices::shared::Shared;
use devices::simple_nic::{Counters, Peer, PingReport, PingSettings, Station};
use devices::{counter, memory, pcie_bench, replay, simple_nic, traffic};
use fabric::LinkConfig;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use tlp::{Attributes, Bdf, Duration, Mps, Mrrs, PayloadPool, Time, TrafficClass};
use toml::Spanned;

/// A device and what belongs to it on the host's side.
pub(crate) struct Plugged {
    pub(crate) end: End,
    pub(crate) task: Task,
    pub(crate) instrument: Instrument,
}

/// What stands at the end of a link.
pub(crate) enum End {
    /// A function, behind an endpoint.
    Function(FunctionConfig),
    /// A function with virtual ones, behind an endpoint.
    VirtualFunctions(FunctionConfig, Box<VirtualFunctions>),
    /// A function, behind an endpoint whose writes are answered.
    NonPosted(FunctionConfig),
    /// A raw-TLP device, in the endpoint's place.
    Raw(RawDevice),
    /// A function behind an endpoint that the handle looks into.
    Adapter(FunctionConfig, AdapterSlot),
}

impl End {
    /// Bytes of the longest non-posted request with data that it takes.
    pub(crate) fn longest_non_posted(&self) -> u32 {
        match self {
            End::Function(f) | End::VirtualFunctions(f, _) | End::NonPosted(f) | End::Adapter(f, _) => {
                f.config.longest_non_posted()
            }
            End::Raw(_) => 0,
        }
    }
}

impl Plugged {
    pub(crate) fn function(function: FunctionConfig, driver: Driver, instrument: Instrument) -> Plugged {
        Plugged { end: End::Function(function), task: Task::Driver(driver), instrument }
    }

    /// A raw-TLP device, for whose end by interrupt `vector` the host waits.
    fn raw(device: RawDevice, vector: u16, instrument: Instrument) -> Plugged {
        let wait: HostTask = Box::new(move |cpu| {
            Box::pin(async move {
                cpu.interrupt(vector).await;
                Ok(())
            })
        });
        Plugged { end: End::Raw(device), task: Task::Host(wait), instrument }
    }
}

/// What a device shows beside its packets.
pub(crate) enum Instrument {
    None,
    Nic(Shared<Counters>, PingReport),
    /// With how many transfers it makes, the warm-up among them.
    Bench(pcie_bench::ResultsHandle, u64),
    Counter(Shared<counter::Report>),
    /// With how many requests its flows make.
    Traffic(Shared<traffic::Report>, u64),
    Replay(Shared<replay::Report>),
    Disk(Shared<devices::disk::Report>),
    Mmio(Shared<devices::mmio::Report>),
    IceNic(Shared<devices::ice_nic::Report>),
    DmaEngine(Shared<devices::dma_engine::Report>),
    /// With the bytes of its frames.
    PacketNic(Shared<devices::packet_nic::Report>, u32),
    Nettlp(AdapterSlot),
}

/// What the devices of a lab have in common.
pub(crate) struct Site<'a> {
    pub(crate) file: &'a LabFile,
    pub(crate) payloads: &'a PayloadPool,
    pub(crate) memory: &'a HostMemory,
    /// The counters that devices share, by method.
    pub(crate) counters: BTreeMap<CounterMethod, counter::Target>,
    /// Max_Payload_Size on the path of each slot, as enumeration will set it.
    pub(crate) path_mps: Vec<Mps>,
}

impl<'a> Site<'a> {
    pub(crate) fn new(
        file: &'a LabFile,
        payloads: &'a PayloadPool,
        memory: &'a HostMemory,
        tree: Option<&Tree>,
    ) -> Site<'a> {
        let path_mps = tree.map(|tree| bridges::path_mps(&file.lab, tree)).unwrap_or_default();
        Site { file, payloads, memory, counters: BTreeMap::new(), path_mps }
    }
}

/// The host of a lab's NICs, and who answers it. The Ethernet addresses are locally administered (IEEE 802, bit 1 of the
/// first byte), the IPv4 addresses for documentation (RFC 5737).
const HOST: Station = Station { mac: [0x02, 0, 0, 0, 0, 1], ip: Ipv4Addr::new(192, 0, 2, 1) };
const PEER: Station = Station { mac: [0x02, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };

/// How long the NIC's driver waits for an answer, beside the peer's own latency.
const PING_PATIENCE: Duration = Duration::from_ms(100);

/// Vector with which the raw-TLP device of slot `n` says that it has ended: above all that firmware hands out.
const fn raw_vector(n: usize) -> u16 {
    0x8000 + n as u16
}

/// Why a slot cannot have its device.
#[derive(Debug)]
pub(crate) struct PlugError {
    /// The value of the lab file that is to blame, where it is one alone.
    pub(crate) span: Option<Range<usize>>,
    /// What is wrong.
    pub(crate) message: String,
}

impl PlugError {
    /// `message` is about `value`.
    pub(crate) fn at<T>(value: &Spanned<T>, message: impl Into<String>) -> PlugError {
        PlugError { span: Some(value.span()), message: message.into() }
    }

    fn of_slot(self, slot: &Slot) -> PlugError {
        PlugError { message: format!("slot `{}`: {}", slot.name.get_ref(), self.message), ..self }
    }
}

impl From<String> for PlugError {
    fn from(message: String) -> PlugError {
        PlugError { span: None, message }
    }
}

/// The device that slot number `n` names; `id` is that of its function, where no enumeration finds it.
///
/// # Errors
/// What the device says of its settings, with the slot's name.
pub(crate) fn plug(site: &mut Site<'_>, n: usize, id: Bdf, slot: &Slot) -> Result<Plugged, PlugError> {
    let (file, payloads) = (site.file, site.payloads);
    let mut link = links::config(&file.lab.link, &slot.link);
    let ten_bit_tag = slot.tags.as_ref().is_some_and(|t| *t.get_ref() > 256);
    let layout = PcieLayout { ten_bit_tag, ..links::layout(&link) };
    // A device without registers is not told what enumeration has chosen.
    if let (Model::Traffic | Model::Replay, Some(&mps)) = (slot.device, site.path_mps.get(n)) {
        (link.root.mps, link.device.mps) = (mps, mps);
    }
    let plugged = match slot.device {
        Model::Memory => plug_memory(slot.memory.clone().unwrap_or_default(), layout),
        Model::SimpleNic => plug_nic(slot.simple_nic.clone().unwrap_or_default(), layout, payloads),
        Model::PcieBench => plug_bench(file, slot, layout, payloads),
        Model::Counter => plug_counter(site, &slot.counter.clone().unwrap_or_default(), layout),
        Model::Traffic => {
            let flows = slot.traffic.as_ref().map_or(&[][..], |t| &t.flow);
            plug_traffic(site, (n, id), flows, &link, links::merge(&file.lab.link, &slot.link).mrrs_bytes)
        }
        Model::Replay => return plug_replay(site, (n, id), slot, &link).map_err(|e| e.of_slot(slot)),
        Model::Disk => paper_models::disk(slot.disk.clone().unwrap_or_default(), layout, payloads),
        Model::Mmio => paper_models::mmio(slot.mmio.clone().unwrap_or_default(), layout),
        Model::IceNic => paper_models::ice_nic(slot.ice_nic.clone().unwrap_or_default(), layout, payloads),
        Model::PacketNic => {
            nic_models::packet_nic(&slot.packet_nic.clone().unwrap_or_default(), layout, payloads)
        }
        Model::NettlpAdapter => {
            let keys = slot.nettlp_adapter.clone().unwrap_or_default();
            let mps = site.path_mps.get(n).copied().unwrap_or(link.device.mps);
            return crate::remote::plug(&keys, layout, mps, payloads).map_err(|e| e.of_slot(slot));
        }
        Model::DmaEngine => {
            let keys = slot.dma_engine.clone().unwrap_or_default();
            return vf_models::dma_engine(site, &keys, layout).map_err(|e| e.of_slot(slot));
        }
    };
    plugged.map_err(|e| PlugError::from(e).of_slot(slot))
}

fn plug_counter(site: &mut Site<'_>, settings: &Counter, layout: PcieLayout) -> Result<Plugged, String> {
    let own = counter::Settings {
        method: match settings.method {
            CounterMethod::FetchAdd => counter::Method::FetchAdd,
            CounterMethod::CompareSwap => counter::Method::CompareSwap,
            CounterMethod::Lock => counter::Method::Lock,
        },
        increments: settings.increments,
        outstanding: *settings.outstanding.get_ref(),
    };
    let report = Shared::default();
    let function = counter::function(own, layout, site.payloads, &report).map_err(|e| e.to_string())?;
    let target = site.counters.entry(settings.method).or_default().clone();
    target.join(&own);
    let told = report.clone();
    let driver: Driver =
        Box::new(move |cpu, found| Box::pin(counter::driver(cpu, found, target.clone(), told.clone())));
    Ok(Plugged::function(function, driver, Instrument::Counter(report)))
}

fn plug_traffic(
    site: &Site<'_>,
    (n, id): (usize, Bdf),
    flows: &[Flow],
    link: &LinkConfig,
    mrrs: Option<MrrsBytes>,
) -> Result<Plugged, String> {
    let limits = (link.device.mps.bytes(), mrrs.map_or_else(Mrrs::default, |m| m.0).bytes());
    let vector = raw_vector(n);
    let settings = traffic::Settings {
        id,
        flows: flows.iter().map(|f| flow(site, f, limits)).collect::<Result<_, String>>()?,
        done_vector: Some(vector),
    };
    let all = settings.flows.iter().map(|flow| flow.count).sum();
    let report = Shared::default();
    let (pool, told) = (site.payloads.clone(), report.clone());
    let make = move || traffic::Traffic::new(&settings, &pool, &told);
    let first = Box::new(make().map_err(|e| e.to_string())?);
    let again = Box::new(move || Some(Box::new(make().ok()?) as Box<dyn TlpPort>));
    Ok(Plugged::raw(RawDevice { first, again }, vector, Instrument::Traffic(report, all)))
}

fn plug_replay(
    site: &Site<'_>,
    (n, id): (usize, Bdf),
    slot: &Slot,
    link: &LinkConfig,
) -> Result<Plugged, PlugError> {
    let needed = || "replay needs [slot.replay] with `capture`".to_owned();
    let settings = slot.replay.as_ref().ok_or_else(needed)?;
    let vector = raw_vector(n);
    let (device, report) = crate::replay::device(site, id, vector, settings, link)?;
    Ok(Plugged::raw(device, vector, Instrument::Replay(report)))
}

/// A flow with its window in host memory. `limits` are Max_Payload_Size and Max_Read_Request_Size.
fn flow(site: &Site<'_>, flow: &Flow, (mps, mrrs): (u32, u32)) -> Result<traffic::Flow, String> {
    let (name, size_bytes) = (flow.name.get_ref(), *flow.size_bytes.get_ref());
    let (kind, most) = match flow.kind {
        FlowKind::Read => (traffic::FlowKind::Read, mrrs),
        FlowKind::Write => (traffic::FlowKind::Write, mps),
        FlowKind::Atomic => (traffic::FlowKind::Atomic, 8),
        FlowKind::Message => (traffic::FlowKind::Message, mps),
    };
    if size_bytes > most {
        let why = match flow.kind {
            FlowKind::Write | FlowKind::Message => {
                ", the least Max_Payload_Size below its root port, or 128 where a slot of a switch there is hot-plug capable"
            }
            FlowKind::Read | FlowKind::Atomic => "",
        };
        return Err(format!("flow `{name}`: size_bytes of {size_bytes}: at most {most} in one TLP{why}"));
    }
    let window_bytes = *flow.window_bytes.get_ref();
    let address = match flow.memory {
        MemoryKind::Low => site.memory.alloc_low(window_bytes, 4096),
        MemoryKind::High => site.memory.alloc_high(window_bytes, 4096),
    };
    let mut attr = Attributes::empty();
    attr.set(Attributes::RELAXED_ORDERING, flow.relaxed_ordering);
    attr.set(Attributes::ID_BASED_ORDERING, flow.id_based_ordering);
    attr.set(Attributes::NO_SNOOP, flow.no_snoop);
    Ok(traffic::Flow {
        name: name.clone(),
        kind,
        size_bytes,
        tc: TrafficClass::from_bits(*flow.tc.get_ref()),
        attr,
        address: address.map_err(|e| format!("flow `{name}`: window: {e}"))?,
        window_bytes,
        interval: Duration::from_ps(flow.interval_ps),
        count: *flow.count.get_ref(),
        outstanding: *flow.outstanding.get_ref(),
    })
}

fn plug_memory(settings: Memory, layout: PcieLayout) -> Result<Plugged, String> {
    let own = memory::Settings { bar: BarIndex(0), size_bytes: *settings.size_bytes.get_ref() };
    let exercise = &settings.exercise_bytes;
    let given = exercise.span() != (0..0);
    if given && u64::from(*exercise.get_ref()) > own.size_bytes {
        return Err(format!(
            "exercise_bytes of {}: at most the {} of the BAR",
            exercise.get_ref(),
            own.size_bytes
        ));
    }
    let function = memory::function(own, layout).map_err(|e| e.to_string())?;
    let driver: Driver = Box::new(move |cpu, found| {
        Box::pin(memory::driver(cpu, found, own.bar, *settings.exercise_bytes.get_ref()))
    });
    Ok(Plugged::function(function, driver, Instrument::None))
}

fn plug_nic(settings: SimpleNic, layout: PcieLayout, payloads: &PayloadPool) -> Result<Plugged, String> {
    let (counters, report) = (Shared::default(), PingReport::default());
    let latency = Duration::from_ns(settings.peer_latency_ns);
    let peer = Peer { station: PEER, latency };
    let bar = BarIndex(*settings.bar.get_ref());
    let function = simple_nic::function(bar, layout, payloads, peer, &counters).map_err(|e| e.to_string())?;
    let pings = PingSettings {
        bar,
        local: HOST,
        peer: PEER.ip,
        count: settings.pings,
        bytes: *settings.ping_bytes.get_ref(),
        timeout: latency + PING_PATIENCE,
    };
    let told = report.clone();
    let driver: Driver =
        Box::new(move |cpu, found| Box::pin(simple_nic::driver(cpu, found, pings, told.clone())));
    Ok(Plugged::function(function, driver, Instrument::Nic(counters, report)))
}

/// The window that a benchmark takes of host memory.
pub(crate) fn bench_window(settings: &PcieBench) -> pcie_bench::Window {
    let placement = match settings.memory {
        MemoryKind::Low => pcie_bench::Placement::Low,
        MemoryKind::High => pcie_bench::Placement::High,
    };
    let (bytes, cache) = (*settings.window_bytes.get_ref(), settings.cache.into());
    pcie_bench::Window { bytes, placement, cache, seed: 0 }
}

fn plug_bench(
    file: &LabFile,
    slot: &Slot,
    layout: PcieLayout,
    payloads: &PayloadPool,
) -> Result<Plugged, String> {
    let settings = slot.pcie_bench.clone().unwrap_or_default();
    let mrrs = links::merge(&file.lab.link, &slot.link).mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
    let card = profile::device_in(settings.profile.get_ref(), &file.base)?;
    let own = pcie_bench::Settings {
        test: settings.test.into(),
        size_bytes: *settings.size_bytes.get_ref(),
        window_bytes: *settings.window_bytes.get_ref(),
        host_offset_bytes: *settings.host_offset_bytes.get_ref(),
        device_offset_bytes: *settings.device_offset_bytes.get_ref(),
        path: settings.path.into(),
        cache: settings.cache.into(),
        pattern: match settings.pattern {
            Pattern::Sequential => pcie_bench::Pattern::Sequential,
            Pattern::Random => pcie_bench::Pattern::Random,
        },
        outstanding: settings.outstanding.as_ref().map_or(card.outstanding.value, |n| *n.get_ref()),
        transfers: settings.transfers,
        warm_up: settings.warm_up,
        carry: settings.carry,
        max_payload_bytes: layout.mps_supported.bytes(),
        max_read_request_bytes: mrrs.bytes(),
        costs: card.costs(),
        seed: file.lab.seed,
    };
    let all = own.warm_up.saturating_add(own.transfers);
    let results = pcie_bench::ResultsHandle::new();
    let window = pcie_bench::Window { seed: own.seed, ..bench_window(&settings) };
    let function = pcie_bench::function(own, layout, payloads, &results).map_err(|e| e.to_string())?;
    let driver: Driver = Box::new(move |cpu, found| Box::pin(pcie_bench::driver(cpu, found, window)));
    Ok(Plugged::function(function, driver, Instrument::Bench(results, all)))
}

impl Instrument {
    /// What the device shows at `now`, by name: rates of what has not ended are over the time up to then.
    pub(crate) fn results(&self, now: Time) -> Map<String, Value> {
        match self {
            Instrument::None => Map::new(),
            Instrument::Nic(counters, report) => nic_results(&counters.get(), &report.get()),
            Instrument::Bench(results, _) => bench_results(&results.get()),
            Instrument::Counter(report) => counter_results(&report.get(), now),
            Instrument::Traffic(report, _) => traffic_results(&report.get(), now),
            Instrument::Replay(report) => crate::replay::results(&report.get()),
            Instrument::Disk(report) => paper_models::disk_results(&report.get()),
            Instrument::Mmio(report) => paper_models::mmio_results(&report.get()),
            Instrument::IceNic(report) => paper_models::ice_nic_results(&report.get()),
            Instrument::DmaEngine(report) => vf_models::results(&report.get(), now),
            Instrument::PacketNic(report, bytes) => nic_models::results(&report.get(), *bytes),
            Instrument::Nettlp(slot) => slot.results(),
        }
    }
}

impl Instrument {
    /// Transfers done, and those that the device makes in all, where it knows.
    pub(crate) fn transfers(&self) -> Option<(u64, u64)> {
        match self {
            Instrument::Bench(results, all) => Some((results.get().ended.min(*all), *all)),
            Instrument::Traffic(report, all) => Some((report.get().flows.iter().map(|f| f.sent).sum(), *all)),
            _ => None,
        }
    }
}

fn nic_results(counters: &Counters, pings: &simple_nic::Pings) -> Map<String, Value> {
    let trips: Vec<f64> = pings.round_trips.iter().map(|d| d.as_ps() as f64 / 1_000.0).collect();
    let counts = [
        ("tx_frames", counters.tx_frames),
        ("rx_frames", counters.rx_frames),
        ("refused_doorbells", counters.refused_doorbells),
        ("refused_descriptors", counters.refused_descriptors),
        ("no_buffer", counters.no_buffer),
        ("lost_frames", counters.lost),
        ("dma_errors", counters.dma_errors),
        ("pings_answered", trips.len() as u64),
    ];
    let counts = counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n.into()));
    counts.chain([("ping_round_trips_ns".to_owned(), trips.into())]).collect()
}

/// The rate of so many bytes in that time, in Gb/s; none in no time.
pub(crate) fn gbps(bytes: u64, time: Duration) -> f64 {
    match time.as_ps() {
        0 => 0.0,
        ps => bytes as f64 * 8_000.0 / ps as f64,
    }
}

fn bench_results(results: &pcie_bench::Results) -> Map<String, Value> {
    let elapsed = results.elapsed();
    let mut rows: Vec<(&str, Value)> = vec![
        ("transfers", results.transfers.into()),
        ("measured_ns", (elapsed.as_ps() as f64 / 1_000.0).into()),
    ];
    // Of a warm-up that has not ended there is no rate.
    match results.transfers {
        0 => rows.push(("warm_up_transfers", results.ended.into())),
        _ => rows.extend([
            ("read_gbps", gbps(results.bytes_read, elapsed).into()),
            ("write_gbps", gbps(results.bytes_written, elapsed).into()),
        ]),
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn counter_results(report: &counter::Report, now: Time) -> Map<String, Value> {
    let mut rows: Vec<(&str, Value)> = vec![
        ("increments", report.increments.into()),
        ("retries", report.retries.into()),
        ("elapsed_ns", (report.elapsed(now).as_ps() as f64 / 1_000.0).into()),
    ];
    rows.extend(report.counter.map(|value| ("counter", value.into())));
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Of each flow: what it has sent, its data rate up to its own end, its rate and share while all flows ran, and of reads and
/// atomics its latencies. A flow that still runs ends now.
fn traffic_results(report: &traffic::Report, now: Time) -> Map<String, Value> {
    let all_shared: u64 = report.flows.iter().map(|f| f.shared_bytes).sum();
    let mut map = Map::new();
    for flow in &report.flows {
        let mut put = |what: &str, value: Value| map.insert(format!("{}.{what}", flow.name), value);
        let own = flow.end.unwrap_or(now).since(report.start);
        put("requests", flow.sent.into());
        put("gbps", gbps(flow.bytes, own).into());
        put("shared_gbps", gbps(flow.shared_bytes, report.shared_time(now)).into());
        put("share", (flow.shared_bytes as f64 / all_shared.max(1) as f64).into());
        let ns = |d: Duration| Value::from(d.as_ps() as f64 / 1_000.0);
        let latencies = &flow.latencies;
        if let (Some(mean), Some((min, max))) = (latencies.mean(), latencies.range())
            && let Some([median, p99]) = latencies.percentiles([500, 990])
        {
            let rows = [("mean", mean), ("min", min), ("median", median), ("p99", p99), ("max", max)];
            rows.into_iter().for_each(|(what, d)| _ = put(&format!("latency_ns_{what}"), ns(d)));
        }
    }
    map
}
