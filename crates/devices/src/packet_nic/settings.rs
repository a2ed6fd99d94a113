// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet NIC and its driver do for each packet, and what stands at its cable. Plain data; never runs anything.

use crate::{device_id, registers_of};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Duration;

/// Bytes of the longest frame.
pub const MAX_FRAME_BYTES: u32 = 9216;
/// Descriptors of each ring: twelve batches of 40, and sixty of 8.
pub const RING_ENTRIES: u32 = 480;
/// Round trips at most.
pub const MAX_TRIPS: u32 = 100_000;

/// Bytes that Ethernet puts on the wire beside a frame as a host holds it: FCS 4, preamble and start delimiter 8, gap 12
/// (IEEE 802.3).
const ETHERNET_OVERHEAD_BYTES: u32 = 24;

/// Which NIC, and which driver: the three of pcie-bench's Figure 1 (SIGCOMM'18, §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Descriptors, pointers and interrupts for every frame.
    #[default]
    Simple,
    /// As Intel's 82599 with a kernel's driver: descriptors in batches of 40 and 8, an interrupt for 40 frames.
    Kernel,
    /// As Intel's 82599 with the driver of DPDK: the same descriptors, no interrupts, no reads of registers.
    Dpdk,
}

/// Which frames go together. What the paper gives no figure for is the assumption of the closed form's description
/// (`crates/model/nics`), which names them one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batches {
    /// Descriptors that the driver posts with one write of a tail pointer.
    pub post: u32,
    /// Descriptors that the device reads at once, at most.
    pub fetch: u32,
    /// TX descriptors that the device writes back at once; 0: it writes none back.
    pub tx_write_back: u32,
    /// RX descriptors that the device writes at once.
    pub rx_write_back: u32,
    /// Frames of an interrupt, in each direction; 0: there are none, and the driver looks at descriptors in its memory.
    pub interrupt: u32,
}

impl Kind {
    /// Its batches.
    #[must_use]
    pub const fn batches(self) -> Batches {
        match self {
            // SIGCOMM'18 §3: a pointer, a descriptor and an interrupt for each frame; TX descriptors are not written back.
            Kind::Simple => Batches { post: 1, fetch: 1, tx_write_back: 0, rx_write_back: 1, interrupt: 1 },
            // SIGCOMM'18 §3: up to 40 TX descriptors fetched, up to 8 written back; the rest is assumed alike.
            Kind::Kernel => {
                Batches { post: 40, fetch: 40, tx_write_back: 8, rx_write_back: 8, interrupt: 40 }
            }
            // SIGCOMM'18 §3: no interrupts, no reads of registers.
            Kind::Dpdk => Batches { post: 40, fetch: 40, tx_write_back: 8, rx_write_back: 8, interrupt: 0 },
        }
    }
}

/// Which frames there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// What is sent comes back: the cable is plugged into the NIC itself. Where frames cannot be stored as fast as they
    /// are sent, sending pauses (IEEE 802.3, annex 31B), so that both directions have the same rate.
    #[default]
    Loop,
    /// An ideal sink and an ideal source, each as fast as it can be.
    Both,
    /// An ideal sink.
    Tx,
    /// An ideal source, which waits where there is no buffer.
    Rx,
}

impl Traffic {
    /// Whether frames are sent.
    #[must_use]
    pub const fn sends(self) -> bool {
        !matches!(self, Traffic::Rx)
    }

    /// Whether frames are received.
    #[must_use]
    pub const fn receives(self) -> bool {
        !matches!(self, Traffic::Tx)
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Frames per second, with as many under way as there may be.
    #[default]
    Throughput,
    /// How long one frame takes to the cable and back; all batches are of one frame, as timers of a real NIC make them.
    RoundTrip,
}

/// How a host hands over a single frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Send {
    /// Tail pointer, descriptor and DMA.
    #[default]
    Ring,
    /// Writes into the device's memory, 64 B each, as write-combining buffers of x86 make them; then its length.
    Pio,
}

/// A NIC of pcie-bench's Figure 1 with its driver: rings of 480 descriptors, and what it does for a frame by its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Which NIC, and which driver.
    pub kind: Kind,
    /// What is measured.
    pub mode: Mode,
    /// Which frames there are. Round trips need `loop`.
    pub traffic: Traffic,
    /// How the host hands over the frame of a round trip.
    pub send: Send,
    /// Bytes of a frame as the host holds it, without FCS.
    #[schemars(range(min = 1, max = 9216))]
    pub frame_bytes: u32,
    /// Frames that count, in each direction. Round trips: at most 100,000.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub frames: u32,
    /// Frames before them that do not. Until the rings have settled takes some thousand small frames.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub warm_up: u32,
    /// Reads of frames under way at most; the device holds as many frames to send.
    #[schemars(range(min = 1, max = 256))]
    pub reads: u16,
    /// Tasks of the driver for each direction that wait for interrupts and read head pointers: cores, as a read of a register
    /// stalls one.
    #[schemars(range(min = 1, max = 64))]
    pub workers: u16,
    /// Nanoseconds between two looks of a driver without interrupts at its descriptors.
    #[serde(rename = "poll_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub poll: Duration,
    /// Rate of the Ethernet in Gb/s. Default: frames pass at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub ethernet_gbps: Option<u32>,
    /// Nanoseconds from the last bit sent to the arrival of a frame that comes back: MAC and PHY both ways, and the cable.
    #[serde(rename = "loop_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub loop_latency: Duration,
    /// Where frames and rings lie.
    pub memory: MemoryKind,
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
            memory: MemoryKind::High,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "packet-nic";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::PACKET_NIC, super::REGISTERS)];

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (settings, report) = (*self, Shared::default());
        let function = super::function(settings, site.pcie, site.payloads, &report)?;
        let told = report.clone();
        let plugged =
            Plugged::new(function, move |cpu, found| super::driver(cpu, found, settings, told.clone()));
        Ok(plugged.reporting(&report))
    }

    fn check_together(&self) -> Result<(), Fault> {
        let trips = self.mode == Mode::RoundTrip;
        let (key, message) = match self {
            _ if trips && self.frames > MAX_TRIPS => {
                ("frames", format!("frames of {}: legal are 1 to {MAX_TRIPS}", self.frames))
            }
            _ if trips && self.traffic != Traffic::Loop => (
                "traffic",
                "round trips of frames that do not come back: legal is traffic \"loop\"".to_owned(),
            ),
            _ if !trips && self.send == Send::Pio => {
                ("send", "send \"pio\": legal with mode \"round-trip\"".to_owned())
            }
            _ => return Ok(()),
        };
        Err(Fault::at(key, message))
    }
}

impl Settings {
    /// Which frames go together: those of the kind, or in a round trip each by itself.
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

    /// How long a frame takes the Ethernet: its bytes and 24 more.
    pub fn ethernet_time(&self) -> Duration {
        let bits = u64::from(self.frame_bytes + ETHERNET_OVERHEAD_BYTES) * 8;
        self.ethernet_gbps.map_or(Duration::ZERO, |gbps| Duration::from_ps(bits * 1_000 / u64::from(gbps)))
    }

    /// Frames that the driver has sent, or received, when it ends: enough that the device is never idle before the last one
    /// that counts, and whole batches.
    pub fn total(&self) -> u32 {
        (self.warm_up + self.frames).next_multiple_of(RING_ENTRIES) + RING_ENTRIES
    }

    /// Bytes from one buffer to the next: whole pages.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.frame_bytes).next_multiple_of(4096)
    }
}

/// Batches of one frame.
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

    /// 64 B and 24 more at 40 Gb/s: 17.6 ns; the paper's "around every 30 ns" for 128 B (SIGCOMM'18, §2).
    #[test]
    fn frames_on_the_ethernet() {
        for (bytes, gbps, ps) in
            [(64, 40, 17_600), (128, 40, 30_400), (1500, 10, 1_219_200), (1500, 100, 121_920)]
        {
            let settings = Settings { frame_bytes: bytes, ethernet_gbps: Some(gbps), ..Settings::default() };
            assert_eq!(settings.ethernet_time().as_ps(), ps, "{bytes} B at {gbps} Gb/s");
        }
        assert_eq!(Settings::default().ethernet_time(), Duration::ZERO);
    }

    #[test]
    fn what_is_not_legal_is_said_with_what_is() {
        let rows: [(Settings, &str); 6] = [
            (Settings { frame_bytes: 0, ..Settings::default() }, "frame_bytes of 0: legal are 1 to 9216"),
            (
                Settings { frame_bytes: 9217, ..Settings::default() },
                "frame_bytes of 9217: legal are 1 to 9216",
            ),
            (Settings { warm_up: 0, ..Settings::default() }, "warm_up of 0: legal are 1 to 10000000"),
            (
                Settings { ethernet_gbps: Some(0), ..Settings::default() },
                "ethernet_gbps of 0: legal are 1 to 10000",
            ),
            (
                Settings { poll: Duration::ZERO, ..Settings::default() },
                "poll_ns of 0: legal are 1 to 4294967295",
            ),
            (
                Settings { mode: Mode::RoundTrip, traffic: Traffic::Tx, ..Settings::default() },
                "round trips of frames that do not come back: legal is traffic \"loop\"",
            ),
        ];
        for (settings, says) in rows {
            assert_eq!(settings.check().unwrap_err().to_string(), says);
        }
        assert_eq!(Settings::default().check(), Ok(()));
    }

    /// Runs are of whole rings, so of whole batches of every kind.
    #[test]
    fn runs_end_behind_what_counts() {
        for (warm_up, frames, total) in [(1, 1, 960), (480, 480, 1440), (4_000, 2_000, 6_720)] {
            assert_eq!(Settings { warm_up, frames, ..Settings::default() }.total(), total);
        }
    }
}
