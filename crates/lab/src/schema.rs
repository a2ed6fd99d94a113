// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab file, key by key. The reference page in `docs/` is generated from these types and their comments.

pub use crate::fault_schema::{
    Fault, FaultDirection, FaultFrames, FaultKind, FaultStatus, FaultTlp, Outage, OutageKind,
};
pub use crate::flow_schema::{Counter, CounterMethod, Flow, FlowKind, Traffic};
pub use crate::host_schema::{IommuPages, IommuWindow};
pub use crate::link_schema::{Arbitration, FlowControl, LinkChange, ReplayTimer, VirtualChannel};
pub use crate::nic_schema::{NicKind, NicMode, NicSend, NicTraffic, PacketNic};
pub use crate::paper_schema::{Disk, DiskWrites, IceNic, Mmio, NicControl};
pub use crate::remote::schema::{NettlpAdapter, NettlpDriver};
pub use crate::switch_schema::{Forwarding, PortArbitration, Switch};
use crate::values::{FunctionId, Gen, Lanes, MpsBytes, MrrsBytes, Probability, RcbBytes};
pub use crate::vf_schema::DmaEngine;
use devices::pcie_bench;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A lab: a host, slots with devices in them, and faults.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// Version of the file's format: 1.
    #[schemars(with = "u32", range(min = 1, max = 1))]
    pub version: Spanned<u32>,
    /// Seed of all that is drawn: bit errors, addresses. The same lab with the same seed gives the same bytes.
    #[serde(default)]
    pub seed: u64,
    /// Virtual time in microseconds after which the run ends in any case. Without it, a run ends when all is done or
    /// nothing can go on.
    pub limit_us: Option<u64>,
    /// The host.
    #[serde(default)]
    pub host: Host,
    /// What all links have in common; a slot's own `link` table overrides it key by key.
    #[serde(default)]
    pub link: Link,
    /// The slots, each with a link from a root port of its own or from a switch. There are 31 root ports at most. A lab needs a
    /// slot or a switch.
    #[serde(default)]
    #[schemars(length(min = 0, max = 248))]
    pub slot: Vec<Slot>,
    /// The switches.
    #[serde(default)]
    pub switch: Vec<Switch>,
    /// Faults, each on one direction of one link.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// Links that are down for a time.
    #[serde(default)]
    pub outage: Vec<Outage>,
    /// Changes of links while the lab runs.
    #[serde(default)]
    pub link_event: Vec<LinkChange>,
    /// What was set over the file, as it was given; no key of the file.
    #[serde(skip)]
    #[schemars(skip)]
    pub set: Vec<String>,
}

/// The simulated host.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Timing: the name of a host profile that ships (`riser profiles` lists them), or the path of one, relative to
    /// the lab file.
    #[schemars(with = "String")]
    pub profile: Spanned<String>,
    /// What becomes of requests of devices below one root port to devices below another.
    pub peer_to_peer: PeerToPeer,
    /// MiB of memory below 2 GiB, where 32-bit addresses reach.
    #[schemars(with = "u32", range(min = 1, max = 2048))]
    pub low_memory_mib: Spanned<u32>,
    /// MiB of memory from 4 GiB on.
    #[schemars(with = "u32", range(min = 0, max = 131_072))]
    pub high_memory_mib: Spanned<u32>,
    /// Pages of the IOMMU, where the profile has one.
    #[schemars(with = "IommuPages")]
    pub iommu: Spanned<IommuPages>,
    /// Whether all root ports share one IOTLB, or each has its own. Default: as the profile says.
    #[schemars(with = "Option<bool>")]
    pub iotlb_shared: Option<Spanned<bool>>,
    /// What single functions reach by DMA.
    #[schemars(with = "Vec<IommuWindow>")]
    pub iommu_window: Vec<Spanned<IommuWindow>>,
    /// Socket of the root ports, where the profile has two.
    #[schemars(with = "u8", range(min = 0, max = 1))]
    pub device_socket: Spanned<u8>,
    /// Socket of all memory.
    #[schemars(with = "u8", range(min = 0, max = 1))]
    pub memory_socket: Spanned<u8>,
    /// Socket of the host program.
    #[schemars(with = "u8", range(min = 0, max = 1))]
    pub program_socket: Spanned<u8>,
}

impl Default for Host {
    fn default() -> Host {
        Host {
            profile: Spanned::new(0..0, "ideal".into()),
            low_memory_mib: Spanned::new(0..0, 256),
            high_memory_mib: Spanned::new(0..0, 1024),
            peer_to_peer: PeerToPeer::default(),
            iommu: Spanned::new(0..0, IommuPages::default()),
            iotlb_shared: None,
            iommu_window: Vec::new(),
            device_socket: Spanned::new(0..0, 0),
            memory_socket: Spanned::new(0..0, 0),
            program_socket: Spanned::new(0..0, 0),
        }
    }
}

/// How the root complex passes requests on from one root port to another (`PCIe 5.0 §1.3.1` leaves it open).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeerToPeer {
    /// As they are.
    #[default]
    Forward,
    /// Reads as reads of 64 B of the root complex's own, whose completions it puts together again: what
    /// a capture of a real one shows (NetTLP, `root-complex/mrd-512byte-rc.pcap`).
    Split,
    /// Not at all: UR.
    Refuse,
}

/// A link. Every key is optional; see each for what holds without it. A key that has no effect beside the others is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Generation: 2.5, 5, 8, 16, 32 GT/s.
    #[serde(rename = "gen")]
    #[schemars(extend("default" = 3))]
    pub generation: Option<Gen>,
    /// Lanes.
    #[schemars(extend("default" = 8))]
    pub lanes: Option<Lanes>,
    /// Max_Payload_Size of both ends.
    #[schemars(extend("default" = 256))]
    pub mps_bytes: Option<MpsBytes>,
    /// Max_Read_Request_Size of the device.
    #[schemars(extend("default" = 512))]
    pub mrrs_bytes: Option<MrrsBytes>,
    /// Read Completion Boundary of the root port. Default: that of the host profile.
    pub rcb_bytes: Option<RcbBytes>,
    /// Time of flight of a symbol, one way, in picoseconds. The default is about 30 cm of board and connector at
    /// 6.7 ps/mm.
    #[schemars(range(min = 0, max = 1_000_000), extend("default" = 2000))]
    pub propagation_ps: Option<u64>,
    /// Chance that a bit arrives flipped, in each direction.
    #[schemars(extend("default" = 0))]
    pub bit_error_rate: Option<Probability>,
    /// Receive buffers of the root port, as the credits it advertises.
    pub root_credits: Option<Credits>,
    /// Receive buffers of the device, as the credits it advertises.
    pub device_credits: Option<Credits>,
    /// TLPs that the replay buffer of each end holds: no more than may be unacknowledged.
    #[schemars(range(min = 1, max = 2047), extend("default" = 512))]
    pub replay_buffer_tlps: Option<u16>,
    /// Bytes that the replay buffer of each end holds: at least one TLP of Max_Payload_Size with 26 B around it.
    /// Default: 65536, or sixteen such TLPs where they are more.
    #[schemars(range(min = 154))]
    pub replay_buffer_bytes: Option<u32>,
    /// Symbol times after which a received TLP is acknowledged at the latest. Default: the table of `PCIe 5.0 §3.6.3.1`.
    #[schemars(range(min = 1, max = 23_999))]
    pub ack_latency_symbols: Option<u32>,
    /// Symbol times after which freed credits are returned at the latest. Default: the table of `PCIe 5.0 §2.6.1.2`.
    #[schemars(range(min = 1, max = 23_999))]
    pub update_fc_symbols: Option<u32>,
    /// Virtual channels, where there are others than VC0.
    pub vc: Option<Vec<VirtualChannel>>,
    /// Which of them sends next. Default: `strict`.
    pub vc_arbitration: Option<Arbitration>,
    /// The last channel of the low-priority group, which shares as `vc_arbitration` says what the channels above leave;
    /// of those, the highest goes first. Default: 7, all of them; with `strict`, 0.
    #[schemars(range(min = 0, max = 7))]
    pub low_priority_vc: Option<u8>,
    /// Offer scaled flow control (`PCIe 5.0 §3.4.2`) by an exchange of features: headers then have up to 2032 credits, data
    /// 32752. Default: false.
    pub scaled_flow_control: Option<bool>,
    /// What keeps a sender from sending more than its receiver can hold. Default: `credits`.
    pub flow_control: Option<FlowControl>,
    /// With `flow_control = "none"` alone, TLPs that a receiver holds.
    #[schemars(range(min = 1, max = 65_535), extend("default" = 16))]
    pub port_buffer_tlps: Option<u16>,
    /// The rule for REPLAY_TIMER where there are credits. Default: `rev4`.
    pub replay_timer: Option<ReplayTimer>,
    /// REPLAY_TIMER in symbol times, with `replay_timer = "rev4"` alone.
    #[schemars(range(min = 24_000, max = 31_000), extend("default" = 24_000))]
    pub replay_timer_symbols: Option<u32>,
    /// How long the wire is silent while the link retrains: when REPLAY_NUM has rolled over, and when its rate or width
    /// changes.
    #[schemars(range(min = 0, max = 24_000_000), extend("default" = 4_000))]
    pub retrain_ns: Option<u64>,
}

/// Credits that a port advertises. Zero means infinite, as on the wire; a data credit is 16 bytes. Posted and completion
/// data need credits for one TLP of Max_Payload_Size at least, non-posted data for the longest request that the receiver takes: 1, 2, 4
/// or 8 (`PCIe 5.0 §2.6.1`, Table 2-45). The limits are those without
/// `scaled_flow_control`; with it, headers have up to 2032 and data up to 32752 (§3.4.2, a scale of 16). Without flow
/// control there are no credits to advertise.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credits {
    /// Posted headers. With `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 127))]
    pub posted_header: Option<u16>,
    /// Posted data. The default is the most that unscaled flow control can advertise; with `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 2047))]
    pub posted_data: Option<u16>,
    /// Non-posted headers. With `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 127))]
    pub non_posted_header: Option<u16>,
    /// Non-posted data: 2 at least where the receiver takes AtomicOps, as root ports and switches do, 4 or 8 where it takes
    /// deferrable writes of 64 or 128 B, else 1. With `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 2047))]
    pub non_posted_data: Option<u16>,
    /// Completion headers. Endpoints and root complexes advertise infinite completion credits (`PCIe 5.0 §2.6.1`). With
    /// `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 0))]
    pub completion_header: Option<u16>,
    /// Completion data. With `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 0))]
    pub completion_data: Option<u16>,
}

/// A slot: a device at the end of a link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Its name, unique in the lab: at most 64 characters.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The device in it.
    pub device: Model,
    /// What its link hangs on: `root`, which is a root port of its own, or the name of a switch.
    #[schemars(with = "Option<String>", extend("default" = "root"))]
    pub parent: Option<Spanned<String>>,
    /// The downstream port of the switch that its link hangs on. Default: the first that nothing else is given.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub port: Option<Spanned<u8>>,
    /// The slot is hot-plug capable: an `[[outage]]` may pull its device out and put it back. Default: false.
    #[serde(default)]
    pub hot_plug: bool,
    /// What its link has of its own.
    #[serde(default)]
    pub link: Link,
    /// Memory reads under way at most. 8-bit tags tell 256 apart; more enable 10-bit tags.
    #[schemars(with = "Option<u16>", range(min = 1, max = 768), extend("default" = 256))]
    pub tags: Option<Spanned<u16>>,
    /// Microseconds after which a DMA read without its completions fails (`PCIe 5.0 §2.8`).
    #[schemars(with = "Option<u64>", range(min = 50, max = 50_000), extend("default" = 50_000))]
    pub completion_timeout_us: Option<Spanned<u64>>,
    /// Settings of a `memory` device.
    pub memory: Option<Memory>,
    /// Settings of a `simple-nic` device.
    #[serde(rename = "simple-nic")]
    pub simple_nic: Option<SimpleNic>,
    /// Settings of a `pcie-bench` device.
    #[serde(rename = "pcie-bench")]
    pub pcie_bench: Option<PcieBench>,
    /// Settings of a `counter` device.
    pub counter: Option<Counter>,
    /// Settings of a `traffic` device.
    pub traffic: Option<Traffic>,
    /// Settings of a `replay` device.
    pub replay: Option<Replay>,
    /// Settings of a `disk` device.
    pub disk: Option<Disk>,
    /// Settings of an `mmio` device.
    pub mmio: Option<Mmio>,
    /// Settings of an `ice-nic` device.
    #[serde(rename = "ice-nic")]
    pub ice_nic: Option<IceNic>,
    /// Settings of a `dma-engine` device.
    #[serde(rename = "dma-engine")]
    pub dma_engine: Option<DmaEngine>,
    /// Settings of a `packet-nic` device.
    #[serde(rename = "packet-nic")]
    pub packet_nic: Option<PacketNic>,
    /// Settings of a `nettlp-adapter` device.
    #[serde(rename = "nettlp-adapter")]
    pub nettlp_adapter: Option<NettlpAdapter>,
}

/// The devices that ship.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A BAR backed by memory.
    Memory,
    /// NetTLP's simple NIC, with an Ethernet peer that answers ARP and ping.
    SimpleNic,
    /// The benchmark device of pcie-bench.
    PcieBench,
    /// Increments a counter in host memory by AtomicOps. All `counter` devices of a lab with the same method share one; when
    /// the last of them has ended, its driver checks that the counter holds every increment.
    Counter,
    /// Flows of raw TLPs, each with its type, size, Traffic Class and rate; measures what each of them gets.
    Traffic,
    /// The requests of a capture's devices, played again with their sizes, tags and attributes.
    Replay,
    /// The disk of gem5's PCI Express model, whose writes are answered, or posted; its driver reads sectors from it.
    Disk,
    /// A register that the driver reads again and again; measures how long that takes.
    Mmio,
    /// The NIC of the Chipyard study, controlled by register accesses for every frame, its cable plugged into itself.
    IceNic,
    /// A DMA engine behind a physical function and its virtual ones (SR-IOV), each with descriptor rings and a driver.
    DmaEngine,
    /// The NICs of pcie-bench's Figure 1, each with its driver: a simple one, and one as Intel's 82599.
    PacketNic,
    /// A NetTLP adapter, behind which device software stands on the network: see `riser nettlp adapter`.
    NettlpAdapter,
}

impl Slot {
    /// A slot with a benchmark device.
    #[must_use]
    pub fn bench(name: &str, settings: PcieBench) -> Slot {
        Slot {
            name: Spanned::new(0..0, name.to_owned()),
            device: Model::PcieBench,
            parent: None,
            port: None,
            hot_plug: false,
            link: Link::default(),
            tags: None,
            completion_timeout_us: None,
            memory: None,
            simple_nic: None,
            pcie_bench: Some(settings),
            counter: None,
            traffic: None,
            replay: None,
            disk: None,
            mmio: None,
            ice_nic: None,
            dma_engine: None,
            packet_nic: None,
            nettlp_adapter: None,
        }
    }
}

impl Model {
    /// Its name in lab files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Model::Memory => "memory",
            Model::SimpleNic => "simple-nic",
            Model::PcieBench => "pcie-bench",
            Model::Counter => "counter",
            Model::Traffic => "traffic",
            Model::Replay => "replay",
            Model::Disk => "disk",
            Model::Mmio => "mmio",
            Model::IceNic => "ice-nic",
            Model::DmaEngine => "dma-engine",
            Model::PacketNic => "packet-nic",
            Model::NettlpAdapter => "nettlp-adapter",
        }
    }
}

/// A BAR backed by memory; its driver writes a pattern into it and reads it back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Bytes of the BAR: a power of two.
    #[schemars(with = "u64", range(min = 16, max = 268_435_456))]
    pub size_bytes: Spanned<u64>,
    /// Address of the BAR: a multiple of its size, in the window of its slot, which `riser check` shows. Without it, the
    /// host chooses.
    #[schemars(with = "Option<u64>")]
    pub address: Option<Spanned<u64>>,
    /// Bytes that the driver writes and reads back: no more than `size_bytes`. Default: 4096, or all where there are less.
    #[schemars(with = "u32", range(min = 0, max = 268_435_456))]
    pub exercise_bytes: Spanned<u32>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            size_bytes: Spanned::new(0..0, 65536),
            address: None,
            exercise_bytes: Spanned::new(0..0, 4096),
        }
    }
}

/// The simple NIC. Its driver sends pings through it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimpleNic {
    /// The BAR with the registers. NetTLP's adapter has them on 4.
    #[schemars(with = "u8", range(min = 0, max = 5))]
    pub bar: Spanned<u8>,
    /// Address of that BAR, as that of a `memory` device. Without it, the host chooses.
    #[schemars(with = "Option<u64>")]
    pub address: Option<Spanned<u64>>,
    /// Echo requests that the driver sends.
    pub pings: u32,
    /// Data bytes of each echo request.
    #[schemars(with = "u16", range(min = 0, max = 1472))]
    pub ping_bytes: Spanned<u16>,
    /// Time on the Ethernet wire and in the peer, in nanoseconds, until its answer is back.
    pub peer_latency_ns: u64,
}

impl Default for SimpleNic {
    fn default() -> SimpleNic {
        SimpleNic {
            bar: Spanned::new(0..0, 4),
            address: None,
            pings: 3,
            ping_bytes: Spanned::new(0..0, 56),
            peer_latency_ns: 10_000,
        }
    }
}

/// The benchmark device: what it does, and how often.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PcieBench {
    /// The test.
    pub test: BenchTest,
    /// What the card costs beside the wire: the name of a device profile that ships, or the path of one, relative to
    /// the lab file.
    #[schemars(with = "String")]
    pub profile: Spanned<String>,
    /// Bytes of each transfer; with its offset, it never crosses 4 KiB.
    #[schemars(with = "u32", range(min = 1, max = 4096))]
    pub size_bytes: Spanned<u32>,
    /// Bytes of host memory that the transfers go to.
    #[schemars(with = "u64", range(min = 4096, max = 1_073_741_824))]
    pub window_bytes: Spanned<u64>,
    /// Offset of each transfer from a cache line.
    #[schemars(with = "u32", range(min = 0, max = 63))]
    pub host_offset_bytes: Spanned<u32>,
    /// Offset of each transfer from a cache line in the card's own memory.
    #[schemars(with = "u32", range(min = 0, max = 63))]
    pub device_offset_bytes: Spanned<u32>,
    /// The interface of the card that is used.
    pub path: BenchPath,
    /// What the host's caches hold of the window at the start.
    pub cache: BenchCache,
    /// The order of the units.
    pub pattern: Pattern,
    /// Transfers under way at most. Default: what the device profile says. Latency tests have one.
    #[schemars(with = "Option<u16>", range(min = 1, max = 1024))]
    pub outstanding: Option<Spanned<u16>>,
    /// Transfers that count; of a latency test at most 2^24.
    #[schemars(range(min = 1))]
    pub transfers: u64,
    /// Transfers before them that do not count.
    pub warm_up: u64,
    /// Whether bytes are carried, or only counted.
    pub carry: bool,
    /// Where the window lies.
    pub memory: MemoryKind,
}

impl Default for PcieBench {
    fn default() -> PcieBench {
        PcieBench {
            test: BenchTest::BwRd,
            profile: Spanned::new(0..0, "ideal".into()),
            size_bytes: Spanned::new(0..0, 64),
            window_bytes: Spanned::new(0..0, 8192),
            host_offset_bytes: Spanned::new(0..0, 0),
            device_offset_bytes: Spanned::new(0..0, 0),
            path: BenchPath::Dma,
            cache: BenchCache::HostWarm,
            pattern: Pattern::Random,
            outstanding: None,
            transfers: 10_000,
            warm_up: 100,
            carry: false,
            memory: MemoryKind::High,
        }
    }
}

/// The tests of pcie-bench (SIGCOMM'18, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
pub enum BenchTest {
    /// Latency of a DMA read.
    #[serde(rename = "LAT_RD")]
    LatRd,
    /// Latency of a DMA write and a read of the same address behind it.
    #[serde(rename = "LAT_WRRD")]
    LatWrRd,
    /// Bandwidth of DMA reads.
    #[serde(rename = "BW_RD")]
    BwRd,
    /// Bandwidth of DMA writes.
    #[serde(rename = "BW_WR")]
    BwWr,
    /// Bandwidth of DMA reads and writes in turn.
    #[serde(rename = "BW_RDWR")]
    BwRdWr,
}

impl From<pcie_bench::Test> for BenchTest {
    fn from(test: pcie_bench::Test) -> BenchTest {
        match test {
            pcie_bench::Test::LatRd => BenchTest::LatRd,
            pcie_bench::Test::LatWrRd => BenchTest::LatWrRd,
            pcie_bench::Test::BwRd => BenchTest::BwRd,
            pcie_bench::Test::BwWr => BenchTest::BwWr,
            pcie_bench::Test::BwRdWr => BenchTest::BwRdWr,
        }
    }
}

impl From<BenchTest> for pcie_bench::Test {
    fn from(test: BenchTest) -> pcie_bench::Test {
        match test {
            BenchTest::LatRd => pcie_bench::Test::LatRd,
            BenchTest::LatWrRd => pcie_bench::Test::LatWrRd,
            BenchTest::BwRd => pcie_bench::Test::BwRd,
            BenchTest::BwWr => pcie_bench::Test::BwWr,
            BenchTest::BwRdWr => pcie_bench::Test::BwRdWr,
        }
    }
}

/// The interfaces of the benchmark card (SIGCOMM'18, section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BenchPath {
    /// Single commands, of up to 128 bytes.
    Command,
    /// A DMA engine with descriptors.
    Dma,
}

/// What the caches hold when a benchmark starts (SIGCOMM'18, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BenchCache {
    /// Nothing of the window.
    Cold,
    /// The window, which the host has written.
    HostWarm,
    /// The window, which the device has written twice.
    DeviceWarm,
    /// What the device has written at random in 64 MiB, of which the window is the first part.
    DeviceThrash,
}

impl From<BenchPath> for pcie_bench::CardPath {
    fn from(path: BenchPath) -> pcie_bench::CardPath {
        match path {
            BenchPath::Command => pcie_bench::CardPath::Command,
            BenchPath::Dma => pcie_bench::CardPath::Dma,
        }
    }
}

impl From<BenchCache> for pcie_bench::CacheState {
    fn from(cache: BenchCache) -> pcie_bench::CacheState {
        match cache {
            BenchCache::Cold => pcie_bench::CacheState::Cold,
            BenchCache::HostWarm => pcie_bench::CacheState::HostWarm,
            BenchCache::DeviceWarm => pcie_bench::CacheState::DeviceWarm,
            BenchCache::DeviceThrash => pcie_bench::CacheState::DeviceThrash,
        }
    }
}

/// The order in which units of the window are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One behind the other, around the window.
    Sequential,
    /// Drawn with replacement.
    Random,
}

/// Which part of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Below 2 GiB: requests have three DW of header.
    Low,
    /// From 4 GiB on: requests have four DW of header.
    High,
}

/// A device that plays what the devices of a capture have asked for, below the transaction layer of an endpoint: it has
/// no configuration space, and begins when its link is up. A request waits until its tag is free; recorded addresses are
/// folded into host memory; data of writes is only counted.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The capture, pcap or pcapng: a path relative to the lab file.
    #[schemars(with = "String")]
    pub capture: Spanned<String>,
    /// Plays the requests of this requester alone, written as `19:00.0`. Default: all that devices have issued.
    pub requester: Option<FunctionId>,
    /// When requests are sent.
    #[serde(default)]
    pub pace: Pace,
    /// What a request waits for beside its turn and its time.
    #[serde(default)]
    pub dependencies: Dependencies,
    /// Bytes of host memory into which addresses are folded, modulo this size: a power of two.
    #[serde(default = "replay_window")]
    #[schemars(with = "u64", range(min = 4096, max = 1_073_741_824), extend("default" = 16_777_216))]
    pub window_bytes: Spanned<u64>,
    /// Where that lies. Requests with a header of three DW get one of four in high memory.
    #[serde(default = "replay_memory")]
    #[schemars(extend("default" = "low"))]
    pub memory: MemoryKind,
}

fn replay_memory() -> MemoryKind {
    MemoryKind::Low
}

fn replay_window() -> Spanned<u64> {
    Spanned::new(0..0, 16 << 20)
}

/// When a replayed request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the link takes it.
    #[default]
    Fabric,
    /// Not before its recorded time, counted from the first request.
    Recorded,
}

/// What a replayed request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dependencies {
    /// Its tag: the last completion of the request that had it before.
    #[default]
    Tags,
    /// Its tag, and every transaction that had ended before it was recorded.
    Completions,
}
