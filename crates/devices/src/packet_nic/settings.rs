// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work of a packet NIC and its driver per packet, and the other end of its cable. Plain data.

use crate::ethernet::{FRAME_OVERHEAD_BYTES, GAP_BYTES};
use crate::{device_id, registers_of};
use plug::file::Folder;
use plug::transfers::{Offer, Pattern, Test, Transfers, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tlp::Duration;

/// Maximum size of a frame in bytes.
pub const MAX_FRAME_BYTES: u32 = 9216;
/// Descriptors per ring: twelve batches of 40, or sixty of 8.
pub const RING_ENTRIES: u32 = 480;
/// Maximum number of round trips.
pub const MAX_TRIPS: u32 = 100_000;

/// Sizes of frames in host memory that a measurement can have: 64 to 9216 B with their FCS.
const MEASURED_FRAME_BYTES: RangeInclusive<u32> = 60..=MAX_FRAME_BYTES - 4;

/// NIC and driver: the three of pcie-bench's Figure 1 (SIGCOMM'18, §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Descriptors, pointers and interrupts for every frame.
    #[default]
    Simple,
    /// Intel's 82599 with a kernel driver: descriptors in batches of 40 and 8, one interrupt per 40 frames.
    Kernel,
    /// Intel's 82599 with DPDK's driver: the same descriptors, no interrupts, no register reads.
    Dpdk,
}

/// Batch sizes. Values without a figure in the paper are assumptions, which the description of the closed form lists
/// (`crates/model/nics`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batches {
    /// Descriptors that the driver posts per write of a tail pointer.
    pub post: u32,
    /// Maximum number of descriptors that the device reads at once.
    pub fetch: u32,
    /// TX descriptors per write-back; 0 if they are not written back.
    pub tx_write_back: u32,
    /// RX descriptors per write-back.
    pub rx_write_back: u32,
    /// Frames per interrupt, in each direction; 0 if the driver polls descriptors in memory instead.
    pub interrupt: u32,
}

impl Kind {
    /// Returns its batches.
    #[must_use]
    pub const fn batches(self) -> Batches {
        match self {
            // SIGCOMM'18 §3: a pointer, a descriptor and an interrupt for each frame; TX descriptors are not written back.
            Kind::Simple => Batches { post: 1, fetch: 1, tx_write_back: 0, rx_write_back: 1, interrupt: 1 },
            // SIGCOMM'18 §3: up to 40 TX descriptors fetched, up to 8 written back. The others are assumed to be the same.
            Kind::Kernel => {
                Batches { post: 40, fetch: 40, tx_write_back: 8, rx_write_back: 8, interrupt: 40 }
            }
            // SIGCOMM'18 §3: no interrupts, no register reads.
            Kind::Dpdk => Batches { post: 40, fetch: 40, tx_write_back: 8, rx_write_back: 8, interrupt: 0 },
        }
    }

    /// Returns the name of the closed form with the same work per frame (`crates/model/nics`).
    #[must_use]
    pub const fn closed_form(self) -> &'static str {
        match self {
            Kind::Simple => "simple",
            Kind::Kernel => "82599-kernel",
            Kind::Dpdk => "82599-dpdk",
        }
    }
}

/// Frames on the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Sent frames come back: the cable is looped back to the NIC. If frames cannot be stored as fast as they are sent,
    /// sending pauses (IEEE 802.3, annex 31B), so that both directions have the same rate.
    #[default]
    Loop,
    /// An ideal sink and an ideal source, each at maximum rate.
    Both,
    /// An ideal sink.
    Tx,
    /// An ideal source, which waits while there is no buffer.
    Rx,
}

impl Traffic {
    /// Returns whether frames are sent.
    #[must_use]
    pub const fn sends(self) -> bool {
        !matches!(self, Traffic::Rx)
    }

    /// Returns whether frames are received.
    #[must_use]
    pub const fn receives(self) -> bool {
        !matches!(self, Traffic::Tx)
    }
}

/// Measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Frames per second, with the maximum number of frames in flight.
    #[default]
    Throughput,
    /// Time of one frame to the cable and back. All batches have one frame, because the timers of a real NIC would end the batch.
    RoundTrip,
}

/// How a host passes a single frame to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Send {
    /// Tail pointer, descriptor and DMA.
    #[default]
    Ring,
    /// Writes into the device's memory, 64 B each, as by x86 write-combining buffers; then the length.
    Pio,
}

/// A NIC of pcie-bench's Figure 1 with its driver. Its rings have 480 descriptors; its kind defines the work per frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// NIC and driver.
    pub kind: Kind,
    /// Measurement.
    pub mode: Mode,
    /// Frames on the cable. Round trips need `loop`.
    pub traffic: Traffic,
    /// How the host passes the frame of a round trip to the device.
    pub send: Send,
    /// Size of a frame in host memory in bytes, without FCS.
    #[schemars(range(min = 1, max = 9216))]
    pub frame_bytes: u32,
    /// Measured frames, in each direction. Round trips: at most 100,000.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub frames: u32,
    /// Frames before the measured ones. The rings need some thousand small frames to settle.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub warm_up: u32,
    /// Maximum number of outstanding frame reads; the device holds as many frames to send.
    #[schemars(range(min = 1, max = 256))]
    pub reads: u16,
    /// Number of driver tasks per direction that wait for interrupts and read head pointers. Each stands for a core, which
    /// stalls on a register read.
    #[schemars(range(min = 1, max = 64))]
    pub workers: u16,
    /// Polling interval in nanoseconds of a driver without interrupts.
    #[serde(rename = "poll_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub poll: Duration,
    /// Rate of the Ethernet in Gb/s. Default: frames take no time.
    #[schemars(range(min = 1, max = 10_000))]
    pub ethernet_gbps: Option<u32>,
    /// Nanoseconds from the last bit sent to the arrival of a returning frame: both passes through MAC and PHY, and the cable.
    #[serde(rename = "loop_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub loop_latency: Duration,
    /// Nanoseconds of the NIC's own logic between PCI Express and its Ethernet, for each direction of a round trip.
    #[serde(rename = "interface_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub interface_latency: Duration,
    /// Memory for frames and rings.
    pub memory: MemoryKind,
    /// Warm-up frames and measured frames of a measurement.
    #[serde(skip)]
    pub measured: Option<(u64, u64)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            kind: Kind::Simple,
            mode: Mode::Throughput,
            traffic: Traffic::Loop,
            send: Send::Ring,
            frame_bytes: 1500,
            frames: 2_000,
            warm_up: 4_000,
            reads: 64,
            workers: 16,
            poll: Duration::from_ns(100),
            ethernet_gbps: None,
            loop_latency: Duration::ZERO,
            interface_latency: Duration::ZERO,
            memory: MemoryKind::High,
            measured: None,
        }
    }
}

/// Names of device profiles for measurements: NIC, driver, and how a single frame gets to the device.
const PROFILES: [(&str, Kind, Send); 4] = [
    ("pio", Kind::Dpdk, Send::Pio),
    ("dpdk", Kind::Dpdk, Send::Ring),
    ("kernel", Kind::Kernel, Send::Ring),
    ("simple", Kind::Simple, Send::Ring),
];

impl Model for Settings {
    const NAME: &'static str = "packet-nic";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::PACKET_NIC, super::REGISTERS)];

    const TESTS: &'static [Test] = &Test::LOOP;

    /// In a latency test the cable has 40 Gb/s, and 70 ns in MAC and cable, as in pcie-bench's Figure 2. In a bandwidth test it
    /// takes no time, so that PCI Express limits the rate.
    fn offer(workload: &Workload, _: &Folder) -> Result<Offer, Fault> {
        let is_latency = workload.test.is_latency();
        let usual = if is_latency { "pio" } else { "dpdk" };
        let name = workload.profile.as_deref().unwrap_or(usual);
        let (name, kind, send) = profile(name, is_latency)?;
        let bytes = workload.size_bytes;
        if !MEASURED_FRAME_BYTES.contains(&bytes) {
            let (least, most) = MEASURED_FRAME_BYTES.into_inner();
            let message = format!("size {bytes}: frames of {least} to {most} bytes without FCS");
            return Err(Fault::at("size_bytes", message));
        }
        let frames = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let settings = Settings {
            kind,
            send,
            mode: if is_latency { Mode::RoundTrip } else { Mode::Throughput },
            frame_bytes: bytes,
            frames: frames(workload.transfers),
            warm_up: frames(workload.warm_up).max(1),
            reads: workload.outstanding.unwrap_or(Settings::default().reads),
            poll: Duration::from_ns(if is_latency { 1 } else { 100 }),
            ethernet_gbps: is_latency.then_some(40),
            loop_latency: Duration::from_ns(if is_latency { 70 } else { 0 }),
            memory: workload.memory.unwrap_or(MemoryKind::High),
            measured: Some((workload.warm_up, workload.transfers)),
            ..Settings::default()
        };
        settings.check()?;
        let window = u64::from(RING_ENTRIES) * settings.buffer_bytes();
        Ok(Offer {
            device: name.to_owned(),
            outstanding: if is_latency { 1 } else { settings.reads },
            nic: Some(kind.closed_form()),
            host_offset_bytes: Workload::only("host_offset_bytes", workload.host_offset_bytes.as_ref(), 0)?,
            pattern: Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?,
            ..Offer::new(
                settings,
                Workload::only("window_bytes", workload.window_bytes.as_ref(), window)?,
                settings.memory,
            )
        })
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::default());
        let test = if self.mode == Mode::RoundTrip { Test::LatLoop } else { Test::BwLoop };
        let (warm_up, wanted) = self.measured.unwrap_or_default();
        let results = Shared::new(Transfers::of(test, warm_up, wanted));
        let function = super::function(settings, site.pcie, site.payloads, &report, &results)?;
        let (told, counted) = (report.clone(), results.clone());
        let plugged = Plugged::new(function, move |cpu, found| {
            super::driver(cpu, found, settings, told.clone(), counted.clone())
        });
        let plugged = plugged.reporting(&report);
        Ok(if self.measured.is_some() { plugged.measuring(&results) } else { plugged })
    }

    fn check_together(&self) -> Result<(), Fault> {
        let trips = self.mode == Mode::RoundTrip;
        let (key, message) = match self {
            _ if trips && self.frames > MAX_TRIPS => {
                ("frames", format!("frames of {}, expected 1 to {MAX_TRIPS}", self.frames))
            }
            _ if trips && self.traffic != Traffic::Loop => {
                ("traffic", "round trips need frames that come back, expected traffic \"loop\"".to_owned())
            }
            _ if !trips && self.send == Send::Pio => {
                ("send", "send \"pio\", expected only with mode \"round-trip\"".to_owned())
            }
            _ => return Ok(()),
        };
        Err(Fault::at(key, message))
    }
}

/// Returns the profile `name`.
fn profile(name: &str, is_latency: bool) -> Result<(&'static str, Kind, Send), Fault> {
    let offered = PROFILES.into_iter().filter(|(_, _, send)| is_latency || *send == Send::Ring);
    offered.clone().find(|(known, ..)| *known == name).ok_or_else(|| {
        let legal: Vec<&str> = offered.map(|(known, ..)| known).collect();
        Fault::at("profile", format!("profile `{name}`, expected {}", legal.join(", ")))
    })
}

impl Settings {
    /// Returns the batches of the kind, or single frames for round trips.
    pub const fn batches(&self) -> Batches {
        let kind = self.kind.batches();
        match self.mode {
            Mode::Throughput => kind,
            Mode::RoundTrip => Batches {
                post: 1,
                fetch: 1,
                tx_write_back: one_of(kind.tx_write_back),
                rx_write_back: 1,
                interrupt: one_of(kind.interrupt),
            },
        }
    }

    /// Returns the time of a frame on the Ethernet, from its preamble to its FCS: its bytes and 12 more.
    pub fn frame_time(&self) -> Duration {
        self.ethernet_time(self.frame_bytes + FRAME_OVERHEAD_BYTES)
    }

    /// Returns the time from the start of a frame on the Ethernet to the earliest start of the next one.
    pub fn frame_and_gap_time(&self) -> Duration {
        self.ethernet_time(self.frame_bytes + FRAME_OVERHEAD_BYTES + GAP_BYTES)
    }

    fn ethernet_time(&self, bytes: u32) -> Duration {
        let bits = u64::from(bytes) * 8;
        self.ethernet_gbps.map_or(Duration::ZERO, |gbps| Duration::from_ps(bits * 1_000 / u64::from(gbps)))
    }

    /// Returns the number of frames that the driver sends or receives in all: enough to keep the device busy until the last
    /// measured frame, in whole batches.
    pub fn total(&self) -> u32 {
        (self.warm_up + self.frames).next_multiple_of(RING_ENTRIES) + RING_ENTRIES
    }

    /// Returns the distance between two buffers in bytes: whole pages.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.frame_bytes).next_multiple_of(4096)
    }
}

/// Returns batches of one frame.
const fn one_of(batch: u32) -> u32 {
    if batch == 0 { 0 } else { 1 }
}

const _: () = {
    let all = [Kind::Simple.batches(), Kind::Kernel.batches(), Kind::Dpdk.batches()];
    let mut at = 0;
    while at < all.len() {
        assert!(RING_ENTRIES.is_multiple_of(all[at].post) && RING_ENTRIES.is_multiple_of(all[at].fetch));
        assert!(RING_ENTRIES.is_multiple_of(all[at].rx_write_back));
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 B and 12 at 40 Gb/s: 15.2 ns. With the gap 128 B take 30.4 ns, the paper's "around every 30 ns" (SIGCOMM'18, §2).
    #[test]
    fn gap_follows_the_frame() {
        for (bytes, gbps, ps, with_gap) in [
            (64, 40, 15_200, 17_600),
            (128, 40, 28_000, 30_400),
            (1500, 10, 1_209_600, 1_219_200),
            (1500, 100, 120_960, 121_920),
        ] {
            let settings = Settings { frame_bytes: bytes, ethernet_gbps: Some(gbps), ..Settings::default() };
            let times = [settings.frame_time(), settings.frame_and_gap_time()].map(Duration::as_ps);
            assert_eq!(times, [ps, with_gap], "{bytes} B at {gbps} Gb/s");
        }
        assert_eq!(Settings::default().frame_time(), Duration::ZERO);
    }

    /// Runs consist of whole rings, and so of whole batches of every kind.
    #[test]
    fn runs_continue_after_measured_frames() {
        for (warm_up, frames, total) in [(1, 1, 960), (480, 480, 1440), (4_000, 2_000, 6_720)] {
            assert_eq!(Settings { warm_up, frames, ..Settings::default() }.total(), total);
        }
    }
}
