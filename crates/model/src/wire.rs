// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a wire lets pass: traffic given as TLPs per unit, both ways, and how many units per second fit.
//!
//! For each direction,
//!
//! ```text
//! payload rate = raw * (1 - SKP share) * payload / (TLP bytes + DLLP bytes that this direction carries)
//! ```
//!
//! and the fuller direction decides. DLLPs are given as measured, or follow this rule: for the TLPs that come one way,
//! the other way carries
//!
//! - an Ack per TLP, but at most one per Ack latency limit ([`Params::ack_latency_limit`]) and half a gap between these
//!   TLPs: the limit runs from the first TLP after an Ack (`PCIe 5.0 §3.6.3.1`), and an Ack falls anywhere between two;
//! - an UpdateFC for each class of finite credits, by the same rule, as its interval is as long, and one every 30 us at
//!   least (`PCIe 5.0 §2.6.1.2`). Posted and non-posted credits are finite at both ends. Completion credits are
//!   infinite (`PCIe 5.0 §2.6.1`), so completions need none.
//!
//! Since Acks and UpdateFCs of one direction are caused by the other, both depend on the rate sought. The bytes that a
//! direction carries grow with it, so the rate is found by bisection. In FLIT mode there are no DLLPs: credits and Acks
//! are in the flits.
//!
//! Never includes latency, credits that run out, or what a device or host cannot keep up with.

use crate::Params;
use crate::bandwidth::Direction;

/// A DLLP on the wire: SDP, six bytes and END at 8b/10b, the SDP token and six bytes at 128b/130b.
pub(crate) const DLLP_BYTES: f64 = 8.0;

/// The longest between two UpdateFCs of a class with finite credits, in nanoseconds (`PCIe 5.0 §2.6.1.2`).
const UPDATE_FC_NS: f64 = 30_000.0;

/// Halvings that bring a rate to the last digit of a double.
const BISECTIONS: u32 = 80;

/// TLPs that one direction carries per unit of traffic, and their bytes.
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

/// DLLPs that were counted per unit of traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Counted {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// What one direction carries per unit at the rate reached.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Load {
    pub(crate) dllps: f64,
    pub(crate) wire_bytes: f64,
    pub(crate) utilization: f64,
}

/// How much traffic fits.
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

/// One direction: its own TLPs, and those of the other that it answers.
struct Way<'a> {
    own: &'a Packets,
    other: &'a Packets,
    counted: Option<f64>,
    /// Ack latency limit in symbol times; none in FLIT mode.
    limit: Option<f64>,
    /// UpdateFCs of a class per symbol time, at least.
    refresh: f64,
    /// Bytes per symbol time that TLPs and DLLPs may take.
    capacity: f64,
}

/// How many units of `traffic` fit on the link, per second.
pub(crate) fn fit(params: &Params, traffic: &Traffic, counted: Option<Counted>) -> Fit {
    let up = Way::new(params, &traffic.up, &traffic.down, counted.map(|c| c.up));
    let down = Way::new(params, &traffic.down, &traffic.up, counted.map(|c| c.down));
    let (rate_up, rate_down) = (up.largest_rate(), down.largest_rate());
    let rate = rate_up.min(rate_down);
    Fit {
        units_per_s: rate / params.symbol_time_ns() * 1e9,
        bottleneck: if rate_up <= rate_down { Direction::Up } else { Direction::Down },
        up: up.load(rate),
        down: down.load(rate),
    }
}

impl<'a> Way<'a> {
    fn new(params: &Params, own: &'a Packets, other: &'a Packets, counted: Option<f64>) -> Way<'a> {
        Way {
            own,
            other,
            counted,
            limit: params.ack_latency_limit().map(f64::from),
            refresh: params.symbol_time_ns() / UPDATE_FC_NS,
            capacity: params.bytes_per_symbol_time() * params.tlp_share(),
        }
    }

    /// DLLPs per symbol time at `rate` units per symbol time.
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

    /// Bytes per symbol time at `rate` units per symbol time.
    fn bytes(&self, rate: f64) -> f64 {
        rate * self.own.tlp_bytes() + DLLP_BYTES * self.dllps(rate)
    }

    /// The most units per symbol time; infinite where they cost this direction nothing.
    fn largest_rate(&self) -> f64 {
        let tlp_bytes = self.own.tlp_bytes();
        if let Some(counted) = self.counted {
            return self.capacity / (tlp_bytes + DLLP_BYTES * counted);
        }
        // Answers alone never fill it: three DLLPs per limit, which is 33 symbol times at least, at x32.
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
