// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a NetTLP adapter. Plain data, as [`schema`](crate::schema), where the other keys are.

use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv4Addr;
use toml::Spanned;

/// A value that no file has said.
fn unsaid<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// A NetTLP adapter (NSDI'20, section 4): BAR 0 has its own registers, BAR 2 the MSI-X table, and one more leads to device
/// software on the network. `riser nettlp adapter` runs a lab with one; in `riser run` there is no device software, and
/// what the host reads there is refused with UR.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NettlpAdapter {
    /// The BAR that leads out.
    #[schemars(with = "u8", range(min = 3, max = 5))]
    pub bar: Spanned<u8>,
    /// Bytes of that BAR: a power of two.
    #[schemars(with = "u64", range(min = 128, max = 134_217_728))]
    pub bar_bytes: Spanned<u64>,
    /// MSI-X vectors. Device software is told of the first 16.
    #[schemars(with = "u16", range(min = 1, max = 128))]
    pub vectors: Spanned<u16>,
    /// What the host runs for the device software.
    pub driver: NettlpDriver,
    /// Milliseconds after which the driver starts. Default: 200 ms after device software has asked for the MSI-X table, and again
    /// each time that it asks anew.
    #[schemars(with = "Option<u32>", range(min = 0, max = 3_600_000))]
    pub start_after_ms: Option<Spanned<u32>>,
    /// IPv4 address of the host, for the drivers of a NIC.
    pub host_ip: Ipv4Addr,
    /// IPv4 address that they ping.
    pub peer_ip: Ipv4Addr,
    /// Echo requests that they send. `station` answers those of others for as long as the run takes.
    pub pings: u32,
    /// Data bytes of each.
    #[schemars(with = "u16", range(min = 0, max = 1472))]
    pub ping_bytes: Spanned<u16>,
    /// Milliseconds from one echo request of a `station` to the next.
    #[schemars(with = "u32", range(min = 1, max = 60_000))]
    pub ping_interval_ms: Spanned<u32>,
    /// Receive buffers that a `station` gives its NIC. NetTLP's own holds one, and does nothing else while it waits for room for a
    /// second.
    #[schemars(with = "u32", range(min = 1, max = 64))]
    pub rx_buffers: Spanned<u32>,
    /// Bytes that `mmio` writes and reads back: no more than `bar_bytes`. Default: 4096, or all where there are less.
    #[schemars(with = "u32", range(min = 0, max = 134_217_728))]
    pub exercise_bytes: Spanned<u32>,
}

/// What the host of a NetTLP adapter runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NettlpDriver {
    /// Nothing: device software reads and writes host memory.
    #[default]
    None,
    /// Writes a pattern to the BAR and reads it back, as a test of a pseudo memory device.
    Mmio,
    /// A driver of the simple NIC (NSDI'20, section 6.2) whose host is a station on the network behind it: answers ARP
    /// and ICMP echo, and pings.
    Station,
}

impl Default for NettlpAdapter {
    fn default() -> NettlpAdapter {
        NettlpAdapter {
            bar: unsaid(4),
            bar_bytes: unsaid(16 << 20),
            vectors: unsaid(16),
            driver: NettlpDriver::None,
            start_after_ms: None,
            host_ip: Ipv4Addr::new(192, 0, 2, 1),
            peer_ip: Ipv4Addr::new(192, 0, 2, 2),
            pings: 0,
            ping_bytes: unsaid(56),
            ping_interval_ms: unsaid(1000),
            rx_buffers: unsaid(1),
            exercise_bytes: unsaid(4096),
        }
    }
}
