// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of packet NICs. Plain data, as [`schema`](crate::schema), where the other keys are.

use crate::schema::MemoryKind;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A value that no file has said.
fn unsaid<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// A NIC of pcie-bench's Figure 1 with its driver: rings of 480 descriptors, and what it does for a frame by its kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketNic {
    /// Which NIC, and which driver.
    pub kind: NicKind,
    /// What is measured.
    pub mode: NicMode,
    /// Which frames there are. Round trips need `loop`.
    pub traffic: NicTraffic,
    /// How the host hands over the frame of a round trip.
    pub send: NicSend,
    /// Bytes of a frame as the host holds it, without FCS.
    #[schemars(with = "u32", range(min = 1, max = 9216))]
    pub frame_bytes: Spanned<u32>,
    /// Frames that count, in each direction. Round trips: at most 100,000.
    #[schemars(with = "u32", range(min = 1, max = 10_000_000))]
    pub frames: Spanned<u32>,
    /// Frames before them that do not.
    #[schemars(with = "u32", range(min = 1, max = 10_000_000))]
    pub warm_up: Spanned<u32>,
    /// Reads of frames under way at most; the device holds as many frames to send.
    #[schemars(with = "u16", range(min = 1, max = 256))]
    pub reads: Spanned<u16>,
    /// Tasks of the driver for each direction that wait for interrupts and read head pointers: cores, as a read of a register
    /// stalls one.
    #[schemars(with = "u16", range(min = 1, max = 64))]
    pub workers: Spanned<u16>,
    /// Nanoseconds between two looks of a driver without interrupts at its descriptors.
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub poll_ns: Spanned<u32>,
    /// Rate of the Ethernet in Gb/s. Default: frames pass at once.
    #[schemars(with = "Option<u32>", range(min = 1, max = 10_000))]
    pub ethernet_gbps: Option<Spanned<u32>>,
    /// Nanoseconds from the last bit sent to the arrival of a frame that comes back: MAC and PHY both ways, and the cable.
    pub loop_latency_ns: u32,
    /// Where frames and rings lie.
    pub memory: MemoryKind,
}

impl Default for PacketNic {
    fn default() -> PacketNic {
        let own = devices::packet_nic::Settings::default();
        PacketNic {
            kind: NicKind::Simple,
            mode: NicMode::Throughput,
            traffic: NicTraffic::Loop,
            send: NicSend::Ring,
            frame_bytes: unsaid(own.frame_bytes),
            frames: unsaid(own.frames),
            warm_up: unsaid(own.warm_up),
            reads: unsaid(own.reads),
            workers: unsaid(own.workers),
            poll_ns: unsaid(100),
            ethernet_gbps: None,
            loop_latency_ns: 0,
            memory: MemoryKind::High,
        }
    }
}

/// Which NIC, and which driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// Descriptors, pointers and interrupts for every frame.
    #[default]
    Simple,
    /// As Intel's 82599 with a kernel's driver: descriptors in batches of 40 and 8, an interrupt for 40 frames.
    Kernel,
    /// As Intel's 82599 with the driver of DPDK: the same descriptors, no interrupts, no reads of registers.
    Dpdk,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicMode {
    /// Frames per second, with as many under way as there may be.
    #[default]
    Throughput,
    /// How long one frame takes to the cable and back; all batches are of one frame.
    RoundTrip,
}

/// Which frames there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicTraffic {
    /// What is sent comes back.
    #[default]
    Loop,
    /// An ideal sink and an ideal source, each as fast as it can be.
    Both,
    /// An ideal sink.
    Tx,
    /// An ideal source.
    Rx,
}

/// How a host hands over a single frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicSend {
    /// Tail pointer, descriptor and DMA.
    #[default]
    Ring,
    /// Writes into the device's memory, 64 B each.
    Pio,
}
