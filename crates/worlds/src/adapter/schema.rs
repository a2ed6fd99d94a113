// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a NetTLP adapter. Plain data, like [`lab::schema`], which has the other keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// NetTLP adapter (NSDI'20, section 4), whose device software is on the network. BAR 0 has the adapter's own registers,
/// BAR 2 the MSI-X table, and a third BAR leads to the device software. `riser nettlp adapter` runs a lab with such an
/// adapter. In `riser run` there is no device software, and reads of the host from that BAR are refused with UR.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NettlpAdapter {
    /// The BAR that leads to the device software.
    #[schemars(range(min = 3, max = 5))]
    pub bar: u8,
    /// Bytes of that BAR: a power of two.
    #[schemars(range(min = 128, max = 134_217_728), extend("powerOfTwo" = true))]
    pub bar_bytes: u64,
    /// MSI-X vectors of each function. Device software gets the first 16.
    #[schemars(range(min = 1, max = 128))]
    pub vectors: u16,
    /// Virtual functions, each with the same BARs. The device software must have as many, and `bar_bytes` must be the size of its
    /// BAR.
    #[schemars(range(min = 0, max = 256))]
    pub vfs: u16,
    /// The host's program for the device software, if the slot's `driver` names no model.
    pub driver: NettlpDriver,
    /// Whether the register of BAR 0 with the peer's IPv4 address (DW 05h) chooses the peer that serves the host's requests, as in
    /// the paper's adapter. The peer also needs a rule. The register is zero at first, which means no peer.
    pub peer_by_register: bool,
    /// Milliseconds after which the driver starts. Default: 200 ms after device software has requested the address of the BAR or
    /// the MSI-X table, and again after each further request.
    #[schemars(range(min = 0, max = 3_600_000))]
    pub start_after_ms: Option<u32>,
    /// IPv4 address of the host, for the drivers of a NIC.
    pub host_ip: Ipv4Addr,
    /// IPv4 address that the echo requests are sent to.
    pub peer_ip: Ipv4Addr,
    /// Number of echo requests that are sent. A `station` also answers echo requests until the run ends.
    pub pings: u32,
    /// Data bytes of each echo request.
    #[schemars(range(min = 0, max = 1472))]
    pub ping_bytes: u16,
    /// Milliseconds from one echo request of a `station` to the next.
    #[schemars(range(min = 1, max = 60_000))]
    pub ping_interval_ms: u32,
    /// Receive buffers that a `station` gives its NIC. NetTLP's own NIC has one buffer, and does nothing else while it
    /// waits up to a second for room.
    #[schemars(range(min = 1, max = 64))]
    pub rx_buffers: u32,
    /// Bytes that `mmio` writes and reads back: at most `bar_bytes`. Default: 4096, or all entries if there are fewer.
    #[schemars(with = "u32", range(min = 0, max = 134_217_728), extend("default" = 4096))]
    pub exercise_bytes: Option<u32>,
}

/// The program of a NetTLP adapter's host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NettlpDriver {
    /// No program: device software reads and writes host memory.
    #[default]
    None,
    /// Writes a pattern to the BAR and reads it back, to test a pseudo memory device.
    Mmio,
    /// A driver of the simple NIC (NSDI'20, section 6.2). Its host is a station on the NIC's network: it answers ARP and ICMP echo,
    /// and pings.
    Station,
}

impl Default for NettlpAdapter {
    fn default() -> NettlpAdapter {
        NettlpAdapter {
            bar: 4,
            bar_bytes: 16 << 20,
            vectors: 16,
            vfs: 0,
            driver: NettlpDriver::None,
            peer_by_register: false,
            start_after_ms: None,
            host_ip: Ipv4Addr::new(192, 0, 2, 1),
            peer_ip: Ipv4Addr::new(192, 0, 2, 2),
            pings: 0,
            ping_bytes: 56,
            ping_interval_ms: 1000,
            rx_buffers: 1,
            exercise_bytes: None,
        }
    }
}
