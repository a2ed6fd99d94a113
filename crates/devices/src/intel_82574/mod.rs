// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An Intel 82574L Gigabit Ethernet controller for the stock Linux driver `e1000e`, and a program of the simulated host that pings
//! through it. `docs/nics.md` lists the modelled features. Section numbers are those of Intel's 82574 data sheet.
//!
//! - `registers`: addresses and writable bits.
//! - `nic`: effects of register accesses.
//! - `interrupts`: causes, masks, vectors.
//! - `transmit`, `receive`: rings and filters.
//! - `split`: distribution of frames to buffers.
//! - `offload`: checksums and segments.
//! - `phy`: the PHY and the NVM.

mod driver;
mod interrupts;
mod nic;
mod offload;
mod phy;
mod receive;
mod registers;
mod split;
mod transmit;

pub use driver::{LoopSettings, PingReport, PingSettings, Pings, driver, loop_back};
pub use registers::BAR_BYTES;

use crate::ethernet::{
    Arrival, Cable, EthernetPort, FRAME_OVERHEAD_BYTES, Inbox, MacAddress, PEER, Peer, inbox,
};
use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout, PmLayout};
use device::AsyncDevice;
use endpoint::FunctionConfig;
use interrupts::VECTORS;
use nic::{Card, Nic};
use plug::file::Folder;
use plug::transfers::{Offer, Pattern, Test, Transfers, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Plugged, Report, Shared, Shown, Site, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Time};

/// Vendor ID.
pub const VENDOR: u16 = 0x8086;
/// Device ID.
pub const DEVICE: u16 = 0x10d3;
/// Ethernet controller (PCI Code and ID Assignment Specification, §1.3).
const CLASS: u32 = 0x02_0000;
/// Location of MSI-X, in BAR 3.
const MSIX: MsixLayout = MsixLayout { vectors: VECTORS, table: (3, 0), pending: (3, 0x2000) };
/// Frames without FCS (IEEE 802.3): 64 to 1518 B with it.
const MIN_FRAME_BYTES: u32 = 60;
const MAX_FRAME_BYTES: u32 = 1514;
/// Maximum wait of the driver for an answer, in addition to the peer's latency.
const PATIENCE: Duration = Duration::from_ms(100);

/// An Intel 82574L for the stock Linux driver e1000e. The simulated host's driver sends pings through it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The other end of its cable.
    pub cable: CableEnd,
    /// Its Ethernet address, such as `02:00:00:00:00:01`: a unicast address. Connected NICs need different addresses.
    pub mac: String,
    /// Time until its link is up, in microseconds (auto-negotiation).
    #[schemars(range(min = 1, max = 10_000_000))]
    pub negotiation_us: u32,
    /// Time on the wire and in the peer until the answer is back, in nanoseconds. With `loop`: time until a frame is back.
    #[serde(rename = "peer_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u64", range(min = 0, max = 1_000_000_000_000_000_u64))]
    pub peer_latency: Duration,
    /// Number of echo requests that the driver sends, with a peer.
    pub pings: u32,
    /// Data bytes of each echo request.
    #[schemars(range(min = 0, max = 1472))]
    pub ping_bytes: u16,
    /// A measurement, with frames that come back.
    #[serde(skip)]
    pub measured: Option<LoopSettings>,
}

/// The other end of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CableEnd {
    /// A peer that answers ARP and ping.
    #[default]
    Peer,
    /// Sent frames come back.
    Loop,
    /// A program outside the lab, which sends and receives frames. `riser run` has no such program.
    Outside,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cable: CableEnd::Peer,
            mac: "02:00:00:00:00:01".to_owned(),
            negotiation_us: 1000,
            peer_latency: Duration::from_us(10),
            pings: 3,
            ping_bytes: 56,
            measured: None,
        }
    }
}

/// Counters of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames received into buffers.
    pub rx_frames: u64,
    /// Frames for other addresses, and frames received while the receiver was off.
    pub filtered: u64,
    /// Frames lost on the wire because too many waited.
    pub lost_frames: u64,
    /// Frames that had to wait for a buffer.
    pub no_buffer: u64,
    /// Refused frames: too short or too long to send, or received with a reserved descriptor type.
    pub refused_frames: u64,
    /// Refused descriptors: without bytes, or with too many.
    pub refused_descriptors: u64,
    /// Refused writes, which did not cover complete registers.
    pub refused_writes: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Number of frames that have woken the host.
    pub wakes: u64,
    /// Failed transfers.
    pub dma_errors: u64,
}

/// Sent frames come back.
struct Loop(Duration);

impl EthernetPort for Loop {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        Some(Arrival { after: self.0, frame: frame.to_vec() })
    }
}

/// Properties of the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its address in the NVM.
    pub mac: MacAddress,
    /// Time until its link is up.
    pub negotiation: Duration,
    /// Properties of its link.
    pub pcie: PcieLayout,
}

/// The NIC and its configuration space. Payloads come from `pool`. `wire` is the other end of the cable; `arrived` brings unsolicited
/// frames.
///
/// # Errors
/// The NIC cannot have the capabilities that this link needs.
pub fn function(
    layout: Layout,
    pool: &PayloadPool,
    wire: impl EthernetPort + 'static,
    arrived: Inbox,
    counters: &Shared<Counters>,
) -> Result<FunctionConfig, BuildError> {
    let card = Card {
        nvm: Rc::new(RefCell::new(phy::nvm(layout.mac, VENDOR, DEVICE))),
        wire: Rc::new(RefCell::new(wire)),
        arrived,
        negotiation: layout.negotiation,
        counters: counters.clone(),
    };
    let start = move |io| Nic::new(io, card.clone()).run();
    Ok(FunctionConfig {
        config: config_space(layout)?,
        device: Box::new(AsyncDevice::with_pool(pool.clone(), start)),
    })
}

fn config_space(layout: Layout) -> Result<ConfigSpace, BuildError> {
    let identity = Identity {
        vendor: VENDOR,
        device: DEVICE,
        revision: 0,
        class: CLASS,
        subsystem_vendor: VENDOR,
        subsystem: DEVICE,
    };
    let [a, b, c, d, e, f] = layout.mac;
    Builder::type0(identity)
        .bar(0, Bar::memory32(BAR_BYTES))
        .bar(2, Bar::io(32))
        .bar(3, Bar::memory32(16 << 10))
        .interrupt_pin(1)
        .power_management_with(PmLayout { no_soft_reset: false, pme: true })
        .msi(MsiLayout { vectors: 1 })
        .msix(MSIX)
        // Device Capabilities bit 28 is zero in the data sheet.
        .pcie(PcieLayout { function_level_reset: false, ..layout.pcie })
        .usual()
        .serial_number(u64::from_be_bytes([a, b, c, 0xff, 0xff, d, e, f]))
        .build()
}

impl Model for Settings {
    const NAME: &'static str = "intel-82574";
    const REGISTERS: &'static [FunctionRegisters] =
        &[FunctionRegisters { vendor: VENDOR, device: DEVICE, registers: registers::NAMES }];

    const TESTS: &'static [Test] = &[Test::LatLoop];

    /// The cable is looped back, without a length: a frame takes its time on a gigabit Ethernet.
    fn offer(workload: &Workload, _: &Folder) -> Result<Offer, Fault> {
        let bytes = workload.size_bytes;
        if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes) {
            let message =
                format!("size {bytes}: frames of {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES} bytes without FCS");
            return Err(Fault::at("size_bytes", message));
        }
        // The gap after a frame delays only the next one.
        let on_wire = Duration::from_ns(8 * u64::from(bytes + FRAME_OVERHEAD_BYTES));
        let settings = Settings {
            cable: CableEnd::Loop,
            peer_latency: on_wire,
            measured: Some(LoopSettings {
                bytes,
                warm_up: workload.warm_up,
                frames: workload.transfers,
                on_wire,
            }),
            ..Settings::default()
        };
        Workload::only("profile", workload.profile.as_ref(), "ideal".to_owned())?;
        Workload::only("outstanding", workload.outstanding.as_ref(), 1)?;
        Ok(Offer {
            host_offset_bytes: Workload::only("host_offset_bytes", workload.host_offset_bytes.as_ref(), 0)?,
            pattern: Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?,
            ..Offer::new(
                settings,
                Workload::only("window_bytes", workload.window_bytes.as_ref(), driver::WINDOW_BYTES)?,
                workload.only_memory(MemoryKind::Low)?,
            )
        })
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let mac = mac(&self.mac).ok_or_else(|| {
            let message =
                format!("`{}`, expected a unicast address of six bytes, such as 02:00:00:00:00:01", self.mac);
            Fault::at("mac", message)
        })?;
        let negotiation = Duration::from_us(self.negotiation_us.into());
        let cable = (self.cable == CableEnd::Outside).then(Cable::default);
        let layout = Layout { mac, negotiation, pcie: site.pcie };
        let seen = Seen { cable: cable.clone(), ..Seen::default() };
        let (pool, counters) = (site.payloads, &seen.counters);
        let function = match (&cable, self.cable) {
            (Some(cable), _) => function(layout, pool, cable.clone(), cable.inbox(), counters),
            (None, CableEnd::Loop) => function(layout, pool, Loop(self.peer_latency), inbox(), counters),
            (None, _) => {
                let peer = Peer { station: PEER, latency: self.peer_latency };
                function(layout, pool, peer, inbox(), counters)
            }
        }?;
        let pings = PingSettings {
            count: if self.cable == CableEnd::Peer { self.pings } else { 0 },
            bytes: self.ping_bytes,
            timeout: self.peer_latency + negotiation + PATIENCE,
        };
        let told = seen.pings.clone();
        if let Some(frames) = self.measured {
            let results = Shared::new(Transfers::of(Test::LatLoop, frames.warm_up, frames.frames));
            let counted = results.clone();
            let plugged = Plugged::new(function, move |cpu, found| {
                loop_back(cpu, found, pings, frames, counted.clone())
            });
            return Ok(plugged.reporting(&Shared::new(seen)).measuring(&results));
        }
        let plugged = Plugged::new(function, move |cpu, found| driver(cpu, found, pings, told.clone()));
        let plugged = match cable {
            Some(cable) => plugged.joined_at(cable),
            None => plugged,
        };
        Ok(plugged.reporting(&Shared::new(seen)))
    }
}

/// Reads a unicast address that is not zero.
fn mac(text: &str) -> Option<MacAddress> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(bytes)
}

/// Counters of the device, and results of the pings.
#[derive(Default)]
struct Seen {
    counters: Shared<Counters>,
    pings: PingReport,
    cable: Option<Cable>,
}

impl Report for Seen {
    fn shown(&self, _: Time) -> Shown {
        let Counters { tx_frames, rx_frames, filtered, lost_frames, no_buffer, .. } = *self.counters.get();
        let Counters { refused_frames, refused_descriptors, refused_writes, .. } = *self.counters.get();
        let Counters { interrupts, wakes, dma_errors, .. } = *self.counters.get();
        let trips: Vec<f64> = self.pings.get().round_trips.iter().copied().map(ns).collect();
        Shown::new()
            .with_counts([
                ("tx_frames", tx_frames),
                ("rx_frames", rx_frames),
                ("filtered", filtered),
                ("lost_frames", lost_frames),
                ("no_buffer", no_buffer),
                ("refused_frames", refused_frames),
                ("refused_descriptors", refused_descriptors),
                ("refused_writes", refused_writes),
                ("interrupts_raised", interrupts),
                ("wakes", wakes),
                ("dma_errors", dma_errors),
                ("pings_answered", trips.len() as u64),
            ])
            .with_counts(self.cable.iter().flat_map(|cable| cable.counters().losses()))
            .with("ping_round_trips_ns", trips)
    }
}
