// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC as a model for labs, with an Ethernet peer that answers ARP and ping, and its report.

use super::{
    BAR_BYTES, Counters, PingReport, PingSettings, Pings, TxDoorbell, driver, function, function_with_inbox,
};
use crate::ethernet::{Cable, PEER, Peer, Station};
use crate::{device_id, registers_of};
use device::BarIndex;
use plug::{Fault, FixedBar, FunctionRegisters, Model, Needs, Plugged, Report, Shared, Shown, Site, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use tlp::{Duration, Time};

/// The host of the NIC, with addresses of the same kind as [`PEER`].
const HOST: Station = Station { mac: [0x02, 0, 0, 0, 0, 1], ip: Ipv4Addr::new(192, 0, 2, 1) };

/// Time for which the driver waits for an answer, in addition to the peer's own latency.
const PATIENCE: Duration = Duration::from_ms(100);

/// NetTLP's simple NIC, with an Ethernet peer that answers ARP and ping. Its driver sends pings through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// BAR with the registers; 4 for NetTLP's adapter.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// Address of that BAR, as for a `memory` device. By default the host chooses.
    pub address: Option<u64>,
    /// Echo requests that the driver sends.
    pub pings: u32,
    /// Data bytes of each echo request.
    #[schemars(range(min = 0, max = 1472))]
    pub ping_bytes: u16,
    /// Nanoseconds on the Ethernet wire and in the peer, until the peer's answer arrives.
    #[serde(rename = "peer_latency_ns", with = "plug::values::ns")]
    #[schemars(with = "u64", range(min = 0, max = 1_000_000_000_000_000_u64))]
    pub peer_latency: Duration,
    /// The other end of its cable.
    pub cable: CableEnd,
}

/// The other end of a NIC's cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CableEnd {
    /// The peer that answers ARP and ping.
    #[default]
    Peer,
    /// A party outside the lab, which sends and receives frames; `riser run` has no such party.
    Outside,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bar: 4,
            address: None,
            pings: 3,
            ping_bytes: 56,
            peer_latency: Duration::from_us(10),
            cable: CableEnd::Peer,
        }
    }
}

impl Model for Settings {
    const NAME: &'static str = "simple-nic";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::SIMPLE_NIC, super::REGISTERS)];

    fn needs(&self) -> Needs {
        let fixed_bar =
            self.address.map(|address| FixedBar { bar: self.bar, address, size_bytes: BAR_BYTES });
        Needs { fixed_bar, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let cable = (self.cable == CableEnd::Outside).then(Cable::default);
        let (bar, shown) = (BarIndex(self.bar), Seen { cable: cable.clone(), ..Seen::default() });
        let peer = Peer { station: PEER, latency: self.peer_latency };
        let function = match &cable {
            None => function(bar, site.pcie, site.payloads, peer, &shown.counters),
            Some(cable) => {
                let (wire, inbox, doorbell) = (cable.clone(), cable.inbox(), TxDoorbell::Behind);
                function_with_inbox(bar, site.pcie, site.payloads, wire, inbox, doorbell, &shown.counters)
            }
        }?;
        let pings = PingSettings {
            bar,
            local: HOST,
            peer: PEER.ip,
            count: self.pings,
            bytes: self.ping_bytes,
            timeout: self.peer_latency + PATIENCE,
        };
        let told = shown.pings.clone();
        let plugged = Plugged::new(function, move |cpu, found| driver(cpu, found, pings, told.clone()));
        let plugged = match cable {
            Some(cable) => plugged.joined_at(cable),
            None => plugged,
        };
        Ok(plugged.reporting(&Shared::new(shown)))
    }
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
        let Counters { tx_frames, rx_frames, refused_doorbells, .. } = *self.counters.get();
        let Counters { refused_descriptors, no_buffer, lost, dma_errors, .. } = *self.counters.get();
        let Pings { round_trips, .. } = &*self.pings.get();
        let trips: Vec<f64> = round_trips.iter().copied().map(ns).collect();
        Shown::new()
            .with_counts([
                ("tx_frames", tx_frames),
                ("rx_frames", rx_frames),
                ("refused_doorbells", refused_doorbells),
                ("refused_descriptors", refused_descriptors),
                ("no_buffer", no_buffer),
                ("lost_frames", lost),
                ("dma_errors", dma_errors),
                ("pings_answered", trips.len() as u64),
            ])
            .with_counts(self.cable.iter().flat_map(|cable| cable.counters().losses()))
            .with("ping_round_trips_ns", trips)
    }
}
