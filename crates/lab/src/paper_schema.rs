// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of the devices that published experiments are made of. Plain data, as [`schema`](crate::schema), where the other
//! keys are.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A value that no file has said.
fn unsaid<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// The disk of gem5's PCI Express model (IISWC'18). Its driver reads sectors of 4 KiB from it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Sectors that the driver reads.
    #[schemars(with = "u32", range(min = 1, max = 10_000_000))]
    pub sectors: Spanned<u32>,
    /// Whether its writes are answered.
    pub writes: DiskWrites,
    /// Nanoseconds from the start of a sector to its first request.
    pub access_latency_ns: u32,
    /// Bytes of each request: a power of two.
    #[schemars(range(min = 4, max = 128))]
    pub request_bytes: u32,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            sectors: unsaid(100),
            writes: DiskWrites::NonPosted,
            access_latency_ns: 1_000,
            request_bytes: 64,
        }
    }
}

/// Whether writes are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskWrites {
    /// Deferrable writes; a sector waits for all answers to the one before.
    #[default]
    NonPosted,
    /// Memory writes.
    Posted,
}

/// A register that the driver reads, one read behind the other.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mmio {
    /// How often.
    #[schemars(with = "u32", range(min = 1, max = 1_000_000))]
    pub reads: Spanned<u32>,
    /// Bytes of each read.
    #[schemars(with = "u32", range(min = 1, max = 4096))]
    pub bytes: Spanned<u32>,
}

impl Default for Mmio {
    fn default() -> Mmio {
        Mmio { reads: unsaid(100), bytes: unsaid(4) }
    }
}

/// The NIC of the Chipyard study (2022), its cable plugged into itself, and its bare-metal program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IceNic {
    /// Frames that the program sends and takes back.
    #[schemars(with = "u32", range(min = 1, max = 10_000_000))]
    pub frames: Spanned<u32>,
    /// Bytes of each.
    #[schemars(with = "u32", range(min = 1, max = 9216))]
    pub frame_bytes: Spanned<u32>,
    /// How the program tells the device what to do, and hears of it.
    pub control: NicControl,
    /// Frames that are posted together; the next are when all of them are back.
    #[schemars(with = "u32", range(min = 1, max = 16))]
    pub batch: Spanned<u32>,
    /// Bytes of each read and write of host memory: a power of two.
    #[schemars(range(min = 8, max = 4096))]
    pub access_bytes: u32,
    /// Reads that the device has under way at most.
    #[schemars(with = "u16", range(min = 1, max = 64))]
    pub outstanding: Spanned<u16>,
    /// Nanoseconds that a frame is on the cable.
    pub loopback_latency_ns: u32,
}

impl Default for IceNic {
    fn default() -> IceNic {
        IceNic {
            frames: unsaid(100),
            frame_bytes: unsaid(1500),
            control: NicControl::Each,
            batch: unsaid(1),
            access_bytes: 64,
            outstanding: unsaid(1),
            loopback_latency_ns: 0,
        }
    }
}

/// How a program controls a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicControl {
    /// A register write for each request, register reads for each completion.
    #[default]
    Each,
    /// One write for all requests of a batch, one read for all completions that are there.
    Batched,
}
