// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab file, key by key. The reference page in `docs/` is generated from these types and their comments.

pub use crate::fault_schema::{
    Fault, FaultDirection, FaultFrames, FaultKind, FaultStatus, Outage, OutageKind,
};
pub use crate::host_schema::{BufferPages, Ecrc, IommuPages, IommuWindow};
pub use crate::link_schema::{
    Arbitration, FlowControl, LinkChange, ReplayCursor, ReplayTimer, VirtualChannel,
};
pub use crate::switch_schema::{PortArbitration, Switch};
pub use fabric::{Forwarding, PeerToPeer, PlaceUntil, TlpType};
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes, Probability, RcbBytes};
use plug::{Model, Needs, Plan};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use toml::Spanned;

/// A lab: a host, slots with devices in them, and faults.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// Version of the file's format: 1.
    #[schemars(with = "u32", range(min = 1, max = 1))]
    pub version: Spanned<u32>,
    /// Seed of all random numbers: bit errors, addresses. The same lab with the same seed gives the same bytes.
    #[serde(default)]
    pub seed: u64,
    /// Virtual time in microseconds after which the run ends in any case. Without this limit, a run ends when
    /// everything is done or no progress is possible.
    pub limit_us: Option<u64>,
    /// Endpoints and root complexes accept completions whose Traffic Class, No Snoop or Relaxed Ordering differ from the request's,
    /// as raw-TLP devices may send them. Otherwise such a completion is a malformed TLP, as `PCIe 5.0 §2.3.2` strongly recommends,
    /// and its request fails. Completions of NetTLP peers and of RTL with a PCIe block always have the request's fields. Default:
    /// false.
    #[serde(default)]
    pub lenient_completions: bool,
    /// The host.
    #[serde(default)]
    pub host: Host,
    /// Hosts that are not simulated.
    #[serde(default)]
    #[schemars(length(min = 0, max = 63))]
    pub external_host: Vec<ExternalHost>,
    /// Settings of all links; a slot's own `link` table overrides them key by key.
    #[serde(default)]
    pub link: Link,
    /// The slots, each with a link to its own root port or to a switch. There are at most 31 root ports. A lab needs a slot or a
    /// switch.
    #[serde(default)]
    #[schemars(length(min = 0, max = 248))]
    pub slot: Vec<Slot>,
    /// The switches.
    #[serde(default)]
    pub switch: Vec<Switch>,
    /// Faults. Each affects one direction of one link.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// Outages: links that are down for a time.
    #[serde(default)]
    pub outage: Vec<Outage>,
    /// Link events: changes of links during the run.
    #[serde(default)]
    pub link_event: Vec<LinkChange>,
    /// Settings that override the file, as given. Not a key of the file.
    #[serde(skip)]
    #[schemars(skip)]
    pub set: Vec<String>,
}

impl Default for Lab {
    /// Returns a lab with only a host and a root complex.
    fn default() -> Lab {
        Lab {
            version: Spanned::new(0..0, 1),
            seed: 0,
            limit_us: None,
            lenient_completions: false,
            host: Host::default(),
            external_host: Vec::new(),
            link: Link::default(),
            slot: Vec::new(),
            switch: Vec::new(),
            fault: Vec::new(),
            outage: Vec::new(),
            link_event: Vec::new(),
            set: Vec::new(),
        }
    }
}

/// A slot or switch, which has a link to a root port or to a switch.
#[derive(Clone, Copy)]
pub struct Hanging<'a> {
    /// Table in the file: `slot` or `switch`.
    pub table: &'static str,
    /// Index in its table.
    pub index: usize,
    /// Name of the slot or switch.
    pub name: &'a Spanned<String>,
    /// The switch or host above, if given.
    pub parent: Option<&'a Spanned<String>>,
    /// The downstream port of the switch above, if given.
    pub port: Option<&'a Spanned<u8>>,
    /// Whether the port above is hot-plug capable.
    pub hot_plug: bool,
    /// Whether the port above also has a button, indicators and a power controller.
    pub controls: bool,
    /// The link to the port above.
    pub link: &'a Link,
}

/// Formats the place like ``slot `nic` ``.
impl fmt::Display for Hanging<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.table, self.name.get_ref())
    }
}

impl Lab {
    /// True if one of the lab's hosts is outside of the lab.
    pub fn is_joined_by_hosts(&self) -> bool {
        self.host.outside || !self.external_host.is_empty()
    }

    /// Returns the slots, then the switches: the order of links.
    pub fn hanging(&self) -> impl Iterator<Item = Hanging<'_>> {
        macro_rules! hanging {
            ($table:literal, $of:expr) => {
                $of.iter().enumerate().map(|(index, of)| Hanging {
                    table: $table,
                    index,
                    name: &of.name,
                    parent: of.parent.as_ref(),
                    port: of.port.as_ref(),
                    hot_plug: of.hot_plug,
                    controls: of.hot_plug && of.hot_plug_controls,
                    link: &of.link,
                })
            };
        }
        hanging!("slot", self.slot).chain(hanging!("switch", self.switch))
    }
}

/// The simulated host.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Timing: the name of a shipped host profile (`riser profiles` lists them), or the path of a profile file, relative to the lab
    /// file.
    #[schemars(with = "String")]
    pub profile: Spanned<String>,
    /// An outside program is above the root complex instead of firmware and drivers: a kernel (`riser guest`), or
    /// another simulator. The host has its own memory. Default: false.
    pub outside: bool,
    /// Root complex that is not riser's: `rtl-root-complex`, with its settings in the table of that name. It has one root port, so the host has
    /// one slot or switch. Keys of the profile have no effect. Default: riser's own.
    #[schemars(with = "Option<String>")]
    pub root_complex: Option<Spanned<String>>,
    /// The model of `root_complex` with its settings.
    #[serde(skip)]
    #[schemars(skip)]
    pub root_complex_plan: Option<Plan>,
    /// Handling of requests from a device below one root port to a device below another.
    pub peer_to_peer: PeerToPeer,
    /// Whether root ports signal interrupts by MSI: for errors (AER), containment (DPC), power management (PME) and
    /// hot-plug. Without these interrupts, a kernel starts no port services. Below a VMD, the handlers of these
    /// services then do not run at each interrupt of a device.
    pub root_port_interrupts: bool,
    /// MiB of memory below 2 GiB, which 32-bit addresses can reach.
    #[schemars(with = "u32", range(min = 1, max = 2048))]
    pub low_memory_mib: Spanned<u32>,
    /// MiB of memory from 4 GiB.
    #[schemars(with = "u32", range(min = 0, max = 131_072))]
    pub high_memory_mib: Spanned<u32>,
    /// Page size of the IOMMU, if the profile has one.
    #[schemars(with = "IommuPages")]
    pub iommu: Spanned<IommuPages>,
    /// Pages of the buffers that devices access. They limit the pages of the IOMMU.
    #[schemars(with = "BufferPages")]
    pub buffer_pages: Spanned<BufferPages>,
    /// Whether all root ports share one IOTLB, or each root port has its own. Default: from the profile.
    #[schemars(with = "Option<bool>")]
    pub iotlb_shared: Option<Spanned<bool>>,
    /// Functions whose TLPs have an ECRC. Default: from the profile.
    pub ecrc: Option<Ecrc>,
    /// DMA windows of single functions.
    #[schemars(with = "Vec<IommuWindow>")]
    pub iommu_window: Vec<Spanned<IommuWindow>>,
    /// Socket of the root ports, if the profile has two.
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
            outside: false,
            root_complex: None,
            root_complex_plan: None,
            root_port_interrupts: true,
            low_memory_mib: Spanned::new(0..0, 256),
            high_memory_mib: Spanned::new(0..0, 1024),
            peer_to_peer: PeerToPeer::default(),
            iommu: Spanned::new(0..0, IommuPages::default()),
            buffer_pages: Spanned::new(0..0, BufferPages::default()),
            iotlb_shared: None,
            ecrc: None,
            iommu_window: Vec::new(),
            device_socket: Spanned::new(0..0, 0),
            memory_socket: Spanned::new(0..0, 0),
            program_socket: Spanned::new(0..0, 0),
        }
    }
}

/// A host in addition to `[host]`, with its own root complex, bus numbers, addresses and memory. An outside program is
/// above this host: a kernel, or another simulator. Only its root complex is simulated. Slots and switches name this
/// host as their parent. There is no route between hosts. A lab with an external host is run by a command that provides
/// the outside program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalHost {
    /// Name of the host, which no switch has: at most 64 characters.
    #[schemars(with = "String", length(min = 1, max = 64), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub name: Spanned<String>,
    /// Timing of its root complex and memory, as in `[host]`.
    #[schemars(with = "Option<String>", extend("default" = "ideal"))]
    pub profile: Option<Spanned<String>>,
    /// Whether its root ports signal interrupts, as in `[host]`.
    #[serde(default = "yes")]
    pub root_port_interrupts: bool,
}

impl ExternalHost {
    /// Name of the host's profile.
    pub(crate) fn profile(&self) -> &str {
        self.profile.as_ref().map_or("ideal", |profile| profile.get_ref())
    }
}

/// A link. Every key is optional and has a default. A key that has no effect because of other keys is an error.
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
    /// Read Completion Boundary of the root port. Default: from the host profile.
    pub rcb_bytes: Option<RcbBytes>,
    /// Propagation delay of a symbol, one way, in picoseconds. The default is about 30 cm of board and connector at 6.7 ps/mm.
    #[schemars(range(min = 0, max = 1_000_000), extend("default" = 2000))]
    pub propagation_ps: Option<u64>,
    /// Probability that a bit is flipped, in each direction.
    #[schemars(extend("default" = 0))]
    pub bit_error_rate: Option<Probability>,
    /// Receive buffers of the root port, as the credits it advertises.
    pub root_credits: Option<Credits>,
    /// Receive buffers of the device, as the credits it advertises.
    pub device_credits: Option<Credits>,
    /// TLPs that the replay buffer of each end holds: at most as many as may be unacknowledged.
    #[schemars(range(min = 1, max = 2047), extend("default" = 512))]
    pub replay_buffer_tlps: Option<u16>,
    /// Bytes that the replay buffer of each end holds: at least one TLP of Max_Payload_Size with 26 B of overhead. Default: 65536, or
    /// sixteen such TLPs if that is more.
    #[schemars(range(min = 154))]
    pub replay_buffer_bytes: Option<u32>,
    /// Longest time until a received TLP is acknowledged, in symbol times. Default: the table of `PCIe 5.0 §3.6.3.1`.
    #[schemars(range(min = 1, max = 23_999))]
    pub ack_latency_symbols: Option<u32>,
    /// Instead of `ack_latency_symbols`: the payload for which the lab computes the Ack latency by the formula of `PCIe 5.0
    /// §3.6.3.1`, without internal delay: (payload + 20 B) x `ack_factor` / lanes, rounded down. gem5's links use their cache line
    /// (IISWC'18, §V-C).
    #[schemars(range(min = 1, max = 4096))]
    pub ack_line_bytes: Option<u32>,
    /// With `ack_line_bytes`: AckFactor of the formula. Default: the specification's for 128 B: 1.4 up to x4, 2.5 at x8, 3.0 above.
    #[schemars(range(min = 0.1, max = 100.0))]
    pub ack_factor: Option<f64>,
    /// Longest time until freed credits are returned, in symbol times. Default: the table of `PCIe 5.0 §2.6.1.2`.
    #[schemars(range(min = 1, max = 23_999))]
    pub update_fc_symbols: Option<u32>,
    /// Virtual channels, if there are other channels than VC0. The functions at both ends then have the Virtual Channel
    /// capability, with these settings after reset, and software may change them.
    pub vc: Option<Vec<VirtualChannel>>,
    /// Arbitration between virtual channels. Default: `strict`.
    pub vc_arbitration: Option<Arbitration>,
    /// The highest channel of the low-priority group. Channels above the group have strict priority, the highest
    /// channel first; the group shares the rest according to `vc_arbitration`. Default: 7, all of them; with `strict`,
    /// 0.
    #[schemars(range(min = 0, max = 7))]
    pub low_priority_vc: Option<u8>,
    /// Offer scaled flow control (`PCIe 5.0 §3.4.2`) in a feature exchange: up to 2032 header credits and 32752 data credits.
    /// Default: false.
    pub scaled_flow_control: Option<bool>,
    /// Mechanism that prevents a sender from overflowing its receiver. Default: `credits`.
    pub flow_control: Option<FlowControl>,
    /// Only with `flow_control = "none"`: TLPs that a receiver holds.
    #[schemars(range(min = 1, max = 65_535), extend("default" = 16))]
    pub port_buffer_tlps: Option<u16>,
    /// How a replay finds its next TLP. `position` is legal only with `flow_control = "none"`. Default: `sequence`.
    pub replay_cursor: Option<ReplayCursor>,
    /// The rule for REPLAY_TIMER if there are credits. Default: `rev4`.
    pub replay_timer: Option<ReplayTimer>,
    /// REPLAY_TIMER in symbol times, only with `replay_timer = "rev4"`.
    #[schemars(range(min = 24_000, max = 31_000), extend("default" = 24_000))]
    pub replay_timer_symbols: Option<u32>,
    /// Time for which the wire is silent while the link retrains. A link retrains after REPLAY_NUM has rolled over, and
    /// when its rate or width changes.
    #[schemars(range(min = 0, max = 24_000_000), extend("default" = 4_000))]
    pub retrain_ns: Option<u64>,
}

/// Credits that a port advertises. Zero means infinite, like on the wire. A data credit is 16 bytes. Posted and
/// completion data need credits for at least one TLP of Max_Payload_Size. Non-posted data need credits for the longest
/// request that the receiver accepts: 1, 2, 4 or 8 (`PCIe 5.0 §2.6.1`, Table 2-45). The limits apply without
/// `scaled_flow_control`. With scaled flow control, the limits are 2032 for headers and 32752 for data (§3.4.2, a scale
/// of 16). Without flow control no credits are advertised.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credits {
    /// Posted headers. With `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 127, "scaledMaximum" = 2032))]
    pub posted_header: Option<u16>,
    /// Posted data. The default is the maximum of unscaled flow control; with `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 2047, "scaledMaximum" = 32752))]
    pub posted_data: Option<u16>,
    /// Non-posted headers. With `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 127, "scaledMaximum" = 2032))]
    pub non_posted_header: Option<u16>,
    /// Non-posted data: at least 2 if the receiver accepts AtomicOps (root ports and switches do), 4 or 8 if it accepts deferrable
    /// writes of 64 or 128 B, otherwise 1. With `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 2047, "scaledMaximum" = 32752))]
    pub non_posted_data: Option<u16>,
    /// Completion headers. Endpoints and root complexes advertise infinite completion credits (`PCIe 5.0 §2.6.1`). With
    /// `scaled_flow_control` up to 2032.
    #[schemars(range(min = 0, max = 127), extend("default" = 0, "scaledMaximum" = 2032))]
    pub completion_header: Option<u16>,
    /// Completion data. With `scaled_flow_control` up to 32752.
    #[schemars(range(min = 0, max = 2047), extend("default" = 0, "scaledMaximum" = 32752))]
    pub completion_data: Option<u16>,
}

/// Default of keys that are true unless the file sets them.
pub(crate) const fn yes() -> bool {
    true
}

/// A slot: a device at the end of a link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Name of the slot, unique in the lab: at most 64 characters.
    #[schemars(with = "String", length(min = 1, max = 64), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub name: Spanned<String>,
    /// Model of the device in the slot.
    #[schemars(with = "String")]
    pub device: Spanned<String>,
    /// The model whose driver the host runs for the device, with its settings in the table of its name. For devices in
    /// whose place another device is driven, such as `nettlp-adapter`. Default: the device's own driver.
    #[schemars(with = "Option<String>")]
    pub driver: Option<Spanned<String>>,
    /// The model of the data link layer below the device, with its settings in the table of its name: RTL, or another one that is not
    /// riser's. Default: riser's own.
    #[schemars(with = "Option<String>")]
    pub data_link: Option<Spanned<String>>,
    /// The component above the link: `root` for its own root port; the name of an external host, for a root port there; or the
    /// name of a switch.
    #[schemars(with = "Option<String>", extend("default" = "root"))]
    pub parent: Option<Spanned<String>>,
    /// The downstream port of the switch above. Default: the first free port.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub port: Option<Spanned<u8>>,
    /// The slot is hot-plug capable: an `[[outage]]` may remove its device and insert it again. Default: false.
    #[serde(default)]
    pub hot_plug: bool,
    /// The hot-plug capable slot has an attention button, indicators and a power controller. Without these controls,
    /// cards are only inserted and removed by surprise. Default: true.
    #[serde(default = "yes")]
    pub hot_plug_controls: bool,
    /// Settings of the slot's own link.
    #[serde(default)]
    pub link: Link,
    /// Maximum number of outstanding memory reads of a function, or of all functions together (`tags_per`). 8-bit tags allow 256; a
    /// larger value enables 10-bit tags.
    #[schemars(with = "Option<u16>", range(min = 1, max = 768), extend("default" = 256))]
    pub tags: Option<Spanned<u16>>,
    /// Owner of the tags if the device has several functions, for example with SR-IOV.
    #[serde(default)]
    #[schemars(extend("default" = "function"))]
    pub tags_per: TagsPer,
    /// Microseconds after which a DMA read without its completions fails (`PCIe 5.0 §2.8`).
    #[schemars(with = "Option<u64>", range(min = 50, max = 50_000), extend("default" = 50_000))]
    pub completion_timeout_us: Option<Spanned<u64>>,
    /// The device with its settings, from the table of its name.
    #[serde(skip)]
    pub plan: Option<Plan>,
    /// The model of `driver` with its settings.
    #[serde(skip)]
    pub driver_plan: Option<Plan>,
    /// The model of `data_link` with its settings.
    #[serde(skip)]
    pub data_link_plan: Option<Plan>,
}

/// Owner of the tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TagsPer {
    /// Each function has its own `tags`: Requester ID and tag together identify a request.
    #[default]
    Function,
    /// All functions share one pool of `tags`. Hard blocks that assign completions by the tag alone do this (Virtex-7
    /// and UltraScale: 64).
    Endpoint,
}

impl Slot {
    /// Returns a slot with a device of these settings, on its own root port.
    pub fn new(name: &str, settings: impl Model) -> Slot {
        Slot::of(name, Plan::new(settings))
    }

    /// Like [`Slot::new`], with a model that already has its settings.
    pub fn of(name: &str, plan: Plan) -> Slot {
        Slot {
            name: Spanned::new(0..0, name.to_owned()),
            device: Spanned::new(0..0, plan.name().to_owned()),
            driver: None,
            data_link: None,
            parent: None,
            port: None,
            hot_plug: false,
            hot_plug_controls: true,
            link: Link::default(),
            tags: None,
            tags_per: TagsPer::Function,
            completion_timeout_us: None,
            plan: Some(plan),
            driver_plan: None,
            data_link_plan: None,
        }
    }

    /// Returns what the lab must know about the slot's device.
    pub fn needs(&self) -> Needs {
        self.plan.as_ref().map_or_else(Needs::default, Plan::needs)
    }
}
