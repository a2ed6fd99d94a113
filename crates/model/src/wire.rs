// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capacity of a wire: from TLPs per unit of traffic in both directions, calculates the units per second that fit.
//!
//! For each direction,
//!
//! ```text
//! payload rate = raw * (1 - SKP share) * payload / (TLP bytes + DLLP bytes that this direction carries)
//! ```
//!
//! and the fuller direction is the limit. DLLPs are given as measured, or follow this rule: for the TLPs of one
//! direction, the other direction carries
//!
//! - an Ack per TLP, but at most one per Ack latency limit ([`Params::ack_latency_limit`]) plus half a gap between
//!   these TLPs: the limit starts at the first TLP after an Ack (`PCIe 5.0 §3.6.3.1`), and an Ack falls anywhere
//!   between two;
//! - an UpdateFC for each class of finite credits, by the same rule, because its interval is the same, and at least one
//!   every 30 us (`PCIe 5.0 §2.6.1.2`). Posted and non-posted credits are finite at both ends. Completion credits are
//!   infinite (`PCIe 5.0 §2.6.1`), so completions need none.
//!
//! The Acks and UpdateFCs of one direction depend on the traffic of the other, so both depend on the unknown rate. The
//! bytes that a direction carries grow with the rate, so bisection finds it. In FLIT mode there are no DLLPs: flits
//! contain credits and Acks.
//!
//! The model does not cover latency, exhausted credits, or limits of a device or host.

use crate::Params;
use crate::bandwidth::Direction;

/// A DLLP on the wire: SDP, six bytes and END at 8b/10b, the SDP token and six bytes at 128b/130b.
pub(crate) const DLLP_BYTES: f64 = 8.0;

/// Longest time between two UpdateFCs of a class with finite credits, in nanoseconds (`PCIe 5.0 §2.6.1.2`).
const UPDATE_FC_NS: f64 = 30_000.0;

/// Bisection steps that give a rate to the last digit of a double.
const BISECTIONS: u32 = 80;

/// TLPs of one direction per unit of traffic, and their bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) posted: f64,
    pub(crate) non_posted: f64,
    pub(crate) completions: f64,
    /// Framing, headers and digests.
    pub(crate) overhead_bytes: f64,
    /// Data in whole DWs.
    pub(crate) data_bytes: f64,
}

/// Both directions of one unit of traffic.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) up: Packets,
    pub(crate) down: Packets,
}

/// Counted DLLPs per unit of traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Counted {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// Load of one direction per unit, at the resulting rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Load {
    pub(crate) dllps: f64,
    pub(crate) wire_bytes: f64,
    pub(crate) utilization: f64,
}

/// Traffic that fits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fit {
    pub(crate) units_per_s: f64,
    pub(crate) bottleneck: Direction,
    pub(crate) up: Load,
    pub(crate) down: Load,
}

impl Packets {
    pub(crate) fn tlps(&self) -> f64 {
        self.posted + self.non_posted + self.completions
    }

    pub(crate) fn tlp_bytes(&self) -> f64 {
        self.overhead_bytes + self.data_bytes
    }
}

/// One direction: its own TLPs, and the TLPs of the other direction that it acknowledges.
struct DirectionLoad<'a> {
    own: &'a Packets,
    other: &'a Packets,
    counted: Option<f64>,
    /// Ack latency limit in symbol times; `None` in FLIT mode.
    limit: Option<f64>,
    /// Fewest UpdateFCs of a class per symbol time.
    refresh: f64,
    /// Bytes per symbol time that are available for TLPs and DLLPs.
    capacity: f64,
}

/// Returns how many units of `traffic` fit on the link per second.
pub(crate) fn fit(params: &Params, traffic: &Traffic, counted: Option<Counted>) -> Fit {
    let up = DirectionLoad::new(params, &traffic.up, &traffic.down, counted.map(|c| c.up));
    let down = DirectionLoad::new(params, &traffic.down, &traffic.up, counted.map(|c| c.down));
    let (rate_up, rate_down) = (up.largest_rate(), down.largest_rate());
    let rate = rate_up.min(rate_down);
    Fit {
        units_per_s: rate / params.symbol_time_ns() * 1e9,
        bottleneck: if rate_up <= rate_down { Direction::Up } else { Direction::Down },
        up: up.load(rate),
        down: down.load(rate),
    }
}

impl<'a> DirectionLoad<'a> {
    fn new(params: &Params, own: &'a Packets, other: &'a Packets, counted: Option<f64>) -> DirectionLoad<'a> {
        DirectionLoad {
            own,
            other,
            counted,
            limit: params.ack_latency_limit().map(f64::from),
            refresh: params.symbol_time_ns() / UPDATE_FC_NS,
            capacity: params.bytes_per_symbol_time() * params.tlp_share(),
        }
    }

    /// Returns the DLLPs per symbol time at `rate` units per symbol time.
    fn dllps(&self, rate: f64) -> f64 {
        if let Some(counted) = self.counted {
            return counted * rate;
        }
        let Some(limit) = self.limit else { return 0.0 };
        let answers = |tlps: f64| rate * tlps / (limit * rate * tlps + 0.5).max(1.0);
        let requests = answers(self.other.posted + self.other.non_posted);
        let update = |tlps: f64| requests.min(rate * tlps).max(self.refresh);
        answers(self.other.tlps()) + update(self.other.posted) + update(self.other.non_posted)
    }

    /// Returns the bytes per symbol time at `rate` units per symbol time.
    fn bytes(&self, rate: f64) -> f64 {
        rate * self.own.tlp_bytes() + DLLP_BYTES * self.dllps(rate)
    }

    /// Returns the largest number of units per symbol time; infinite if the units take no bytes in this direction.
    fn largest_rate(&self) -> f64 {
        let tlp_bytes = self.own.tlp_bytes();
        if let Some(counted) = self.counted {
            return self.capacity / (tlp_bytes + DLLP_BYTES * counted);
        }
        // DLLPs alone never fill the direction: there are three per limit, and a limit has at least 33 symbol times (at
        // x32).
        if tlp_bytes == 0.0 {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, self.capacity / tlp_bytes);
        if self.bytes(high) <= self.capacity {
            return high;
        }
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if self.bytes(middle) <= self.capacity {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn load(&self, rate: f64) -> Load {
        let dllps = self.dllps(rate) / rate;
        let wire_bytes = self.own.tlp_bytes() + DLLP_BYTES * dllps;
        Load { dllps, wire_bytes, utilization: rate * wire_bytes / self.capacity }
    }
}
