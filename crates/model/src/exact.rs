// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model that counts wire bytes.
//!
//! For each kind of traffic and each direction,
//!
//! ```text
//! payload rate = raw * (1 - SKP share) * payload / (TLP bytes + DLLP bytes that this direction carries)
//! ```
//!
//! and the fuller direction decides. TLPs are counted by [`split`](crate::split). DLLPs are given as
//! [measured](Measured), or follow this rule: for the TLPs that come one way, the other way carries
//!
//! - one Ack per TLP, but at most one per Ack latency limit ([`Params::ack_latency_limit`]);
//! - one UpdateFC per TLP and class of finite credits, but at most one per class and UpdateFC interval, which is as
//!   long. Posted and non-posted credits of the host are finite. Completion credits of an endpoint are infinite
//!   (`PCIe 5.0 §2.6.1`), so completions need none.
//!
//! Since Acks and UpdateFCs of one direction are caused by the other, both depend on the rate sought. No iteration is
//! needed: the bytes per symbol time that a direction carries at the rate `x`,
//!
//! ```text
//! load(x) = x * TLP bytes + sum over the DLLP streams of 8 * min(x * TLPs of the stream, 1 / interval)
//! ```
//!
//! grow with `x`, and are the least of the lines that follow from taking one side of each `min`. So the largest `x`
//! with `load(x) <= capacity` is the largest of the lines' solutions, and the rate of the traffic is the smaller
//! of the two directions' `x`.
//!
//! Never includes latency, credits that run out, or what a device or host cannot keep up with.

use crate::bandwidth::{Direction, DirectionLoad, Flow, Flows};
use crate::{Bandwidth, Form, ModelError, Params, TlpCount, Transfer, split};

/// A DLLP on the wire: SDP, six bytes and END at 8b/10b, the SDP token and six bytes at 128b/130b.
const DLLP_BYTES: f64 = 8.0;

/// DLLPs counted on a link, per transfer (of reads and writes in turn: per pair).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// DLLPs from device to host.
    pub up: f64,
    /// DLLPs from host to device.
    pub down: f64,
}

/// The DLLPs of each kind of traffic: measured ones where given, else those of the rule in the module's head.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Dllps {
    /// Of writes alone.
    pub write: Option<Measured>,
    /// Of reads alone.
    pub read: Option<Measured>,
    /// Of reads and writes in turn.
    pub read_write: Option<Measured>,
}

impl Measured {
    fn check(self) -> Result<(), ModelError> {
        match [self.up, self.down].into_iter().find(|n| !n.is_finite() || *n < 0.0) {
            Some(n) => Err(ModelError::Dllps(n)),
            None => Ok(()),
        }
    }
}

/// What the wire lets a transfer size reach.
///
/// # Errors
/// Where size, offset or DLLP counts are not legal.
pub fn exact(params: &Params, transfer: Transfer, dllps: &Dllps) -> Result<Bandwidth, ModelError> {
    transfer.check()?;
    for measured in [dllps.write, dllps.read, dllps.read_write].into_iter().flatten() {
        measured.check()?;
    }
    let (none, writes) = (TlpCount::default(), split::writes(params, transfer));
    let (reads, completions) = (split::reads(params, transfer), split::completions(params, transfer));
    let flow = |posted, non_posted, completion, measured| {
        Traffic { posted, non_posted, completion }.flow(params, transfer.size_bytes, measured)
    };
    let flows = Flows {
        write: flow(writes, none, none, dllps.write),
        read: flow(none, reads, completions, dllps.read),
        read_write: flow(writes, reads, completions, dllps.read_write),
    };
    Ok(Bandwidth {
        tlp_gbps: params.raw_gbps() * (1.0 - params.skp_share()),
        write_gbps: flows.write.payload_gbps,
        read_gbps: flows.read.payload_gbps,
        read_write_gbps: flows.read_write.payload_gbps,
        flows: Some(flows),
        ..Bandwidth::unanswered(Form::Exact, params, transfer)
    })
}

/// The TLPs of one transfer: posted and non-posted ones up, completions down.
struct Traffic {
    posted: TlpCount,
    non_posted: TlpCount,
    completion: TlpCount,
}

/// The TLPs that a direction carries per transfer, and the DLLPs between them.
struct OneWay {
    tlps: u64,
    overhead_bytes: u64,
    data_bytes: u64,
    dllps: DllpLoad,
}

/// The DLLPs that a direction carries.
enum DllpLoad {
    /// So many per transfer.
    Measured(f64),
    /// Streams of one DLLP per TLP, each given by its TLPs per transfer, and at most one DLLP per interval.
    Streams { tlps: Vec<u64>, interval: f64 },
}

impl Traffic {
    fn flow(&self, params: &Params, size_bytes: u32, measured: Option<Measured>) -> Flow {
        let capacity = params.bytes_per_symbol_time() * (1.0 - params.skp_share());
        let up = self.up(params, measured);
        let down = self.down(params, measured);
        let (rate_up, rate_down) = (up.largest_rate(capacity), down.largest_rate(capacity));
        let rate = rate_up.min(rate_down);
        let transfers_per_s = rate / params.symbol_time_ns() * 1e9;
        Flow {
            payload_gbps: transfers_per_s * f64::from(size_bytes) * 8.0 / 1e9,
            transfers_per_s,
            bottleneck: if rate_up <= rate_down { Direction::Up } else { Direction::Down },
            up: up.load(rate, capacity),
            down: down.load(rate, capacity),
        }
    }

    /// Requests, and Acks for completions.
    fn up(&self, params: &Params, measured: Option<Measured>) -> OneWay {
        let tlps = self.posted.tlps + self.non_posted.tlps;
        OneWay {
            tlps,
            overhead_bytes: tlps * u64::from(params.request_overhead_bytes()),
            data_bytes: self.posted.data_dw * 4,
            dllps: match measured {
                Some(measured) => DllpLoad::Measured(measured.up),
                None => DllpLoad::streams(params, &[self.completion.tlps]),
            },
        }
    }

    /// Completions, Acks for requests, and UpdateFCs for posted and non-posted credits.
    fn down(&self, params: &Params, measured: Option<Measured>) -> OneWay {
        let (posted, non_posted) = (self.posted.tlps, self.non_posted.tlps);
        OneWay {
            tlps: self.completion.tlps,
            overhead_bytes: self.completion.tlps * u64::from(params.completion_overhead_bytes()),
            data_bytes: self.completion.data_dw * 4,
            dllps: match measured {
                Some(measured) => DllpLoad::Measured(measured.down),
                None => DllpLoad::streams(params, &[posted + non_posted, posted, non_posted]),
            },
        }
    }
}

impl DllpLoad {
    fn streams(params: &Params, tlps: &[u64]) -> DllpLoad {
        let tlps = tlps.iter().copied().filter(|n| *n > 0).collect();
        DllpLoad::Streams { tlps, interval: f64::from(params.ack_latency_limit()) }
    }

    /// DLLPs per transfer at `rate` transfers per symbol time.
    fn per_transfer(&self, rate: f64) -> f64 {
        match self {
            DllpLoad::Measured(count) => *count,
            DllpLoad::Streams { tlps, interval } => {
                tlps.iter().map(|n| (*n as f64).min(1.0 / (interval * rate))).fold(0.0, |sum, n| sum + n)
            }
        }
    }
}

impl OneWay {
    fn tlp_bytes(&self) -> f64 {
        (self.overhead_bytes + self.data_bytes) as f64
    }

    /// The most transfers per symbol time for `capacity` bytes per symbol time; infinite where none cost anything.
    fn largest_rate(&self, capacity: f64) -> f64 {
        match &self.dllps {
            DllpLoad::Measured(count) => capacity / (self.tlp_bytes() + DLLP_BYTES * count),
            DllpLoad::Streams { tlps, interval } => (0..1u32 << tlps.len())
                .map(|at_interval| self.rate_on_line(capacity, tlps, *interval, at_interval))
                .fold(0.0, f64::max),
        }
    }

    /// The rate at which one line of the load meets the capacity: the streams whose bit is set in `at_interval` send a
    /// DLLP per interval, the others one per TLP.
    fn rate_on_line(&self, capacity: f64, tlps: &[u64], interval: f64, at_interval: u32) -> f64 {
        let per_tlp: u64 =
            tlps.iter().enumerate().filter(|(i, _)| at_interval >> i & 1 == 0).map(|(_, n)| n).sum();
        let fixed = DLLP_BYTES * f64::from(at_interval.count_ones()) / interval;
        (capacity - fixed) / (self.tlp_bytes() + DLLP_BYTES * per_tlp as f64)
    }

    fn load(&self, rate: f64, capacity: f64) -> DirectionLoad {
        let dllps = self.dllps.per_transfer(rate);
        let wire_bytes = self.tlp_bytes() + DLLP_BYTES * dllps;
        DirectionLoad {
            tlps: self.tlps,
            overhead_bytes: self.overhead_bytes,
            data_bytes: self.data_bytes,
            dllps,
            wire_bytes,
            utilization: rate * wire_bytes / capacity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tlp::{Mps, Mrrs, Rate, Rcb, Width};

    fn gen3_x8() -> Params {
        Params::new(3, 8, 256, 512, 64).unwrap()
    }

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-5, "{got}, not {want}");
    }

    /// One-way writes carry no DLLP: raw * (1 - SKP) * size / (size + headers), worked by hand.
    #[test]
    fn writes() {
        for (generation, lanes, mps, size, gbps) in [
            // 63.0153846 * 374/375 * 256/280.
            (3, 8, 256, 256, 57.460_428),
            // 63.0153846 * 374/375 * 64/88.
            (3, 8, 256, 64, 45.707_159),
            // 2 * 1534/1538 * 128/152.
            (1, 1, 128, 4096, 1.679_830),
            // 504.1230769 * 374/375 * 512/536.
            (5, 16, 512, 512, 480.266_267),
        ] {
            let params = Params::new(generation, lanes, mps, 512, 64).unwrap();
            let answer = exact(&params, Transfer::of(size), &Dllps::default()).unwrap();
            close(answer.write_gbps, gbps);
            close(answer.flows.unwrap().write.up.dllps, 0.0);
        }
    }

    /// 256 B reads at Gen3 x8: the way down (276 B a read) also carries an Ack and an UpdateFC-NP every 203 symbol
    /// times, 16 of 203 * 8 * 374/375 bytes. 62.8473436 * 256/276 * (1 - 16 * 375 / (1624 * 374)).
    #[test]
    fn reads_share_the_way_down_with_acks_of_their_requests() {
        let answer = exact(&gen3_x8(), Transfer::of(256), &Dllps::default()).unwrap();
        let flow = answer.flows.unwrap().read;
        close(answer.read_gbps, 57.717_336);
        assert_eq!(flow.bottleneck, Direction::Down);
        assert_eq!((flow.up.tlps, flow.up.overhead_bytes, flow.up.data_bytes), (1, 24, 0));
        assert_eq!((flow.down.tlps, flow.down.overhead_bytes, flow.down.data_bytes), (1, 20, 256));
        close(flow.down.dllps, flow.down.wire_bytes / 8.0 - 276.0 / 8.0);
    }

    /// Alternating at Gen3 x8, 256 B: up 280 + 24 B a pair and an Ack per interval; down less.
    /// 62.8473436 * 256/304 * (1 - 8 * 375 / (1624 * 374)).
    #[test]
    fn alternating_is_bound_by_the_way_up() {
        let answer = exact(&gen3_x8(), Transfer::of(256), &Dllps::default()).unwrap();
        let flow = answer.flows.unwrap().read_write;
        close(answer.read_write_gbps, 52.662_672);
        assert_eq!(flow.bottleneck, Direction::Up);
        assert_eq!((flow.up.tlps, flow.up.overhead_bytes, flow.up.data_bytes), (2, 48, 256));
        // Ack, UpdateFC-P, UpdateFC-NP, once per interval each.
        close(flow.down.dllps * flow.transfers_per_s * gen3_x8().symbol_time_ns() * 1e-9, 3.0 / 203.0);
    }

    /// Where TLPs are rarer than intervals, an Ack and an UpdateFC each: 4096 B reads at Gen1 x1, MPS 128, take 4736 B
    /// down; one MRd each of 4096 B is answered by 2 * 8 B. 2 * 1534/1538 * 4096/4752.
    #[test]
    fn rare_tlps_have_a_dllp_each() {
        let params = Params::new(1, 1, 128, 4096, 64).unwrap();
        let answer = exact(&params, Transfer::of(4096), &Dllps::default()).unwrap();
        close(answer.read_gbps, 1.719_418);
        close(answer.flows.unwrap().read.down.dllps, 2.0);
    }

    /// Measured counts: 8 B each beside the TLPs of their direction. 62.8473436 * 256/284, 256/284 and 256/312.
    #[test]
    fn measured_dllps() {
        let measured = Some(Measured { up: 0.5, down: 1.0 });
        let dllps =
            Dllps { write: measured, read: measured, read_write: Some(Measured { up: 1.0, down: 0.0 }) };
        let answer = exact(&gen3_x8(), Transfer::of(256), &dllps).unwrap();
        close(answer.write_gbps, 62.847_343_6 * 256.0 / 284.0);
        close(answer.read_gbps, 62.847_343_6 * 256.0 / 284.0);
        close(answer.read_write_gbps, 62.847_343_6 * 256.0 / 312.0);
    }

    #[test]
    fn refuses_counts_that_are_none() {
        for bad in [-1.0, f64::INFINITY] {
            let dllps = Dllps { read: Some(Measured { up: bad, down: 0.0 }), ..Dllps::default() };
            let error = exact(&gen3_x8(), Transfer::of(64), &dllps).unwrap_err();
            assert_eq!(error, ModelError::Dllps(bad));
        }
    }

    /// An offset of 4 B cuts 512 B into three CplDs and keeps two MWrs: 60 B and 48 B beside 512 B.
    #[test]
    fn offsets_cost_completions() {
        let transfer = Transfer { size_bytes: 512, offset_bytes: 4 };
        let flows = exact(&gen3_x8(), transfer, &Dllps::default()).unwrap().flows.unwrap();
        assert_eq!(flows.read.down.overhead_bytes, 60);
        assert_eq!(flows.write.up.overhead_bytes, 48);
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let sizes = (0u32..6, 0u32..6, 0u32..2);
        (0usize..5, 0usize..7, sizes, any::<bool>()).prop_map(|(rate, width, (mps, mrrs, rcb), ecrc)| {
            Params {
                rate: Rate::ALL[rate],
                width: Width::ALL[width],
                mps: Mps::new(128 << mps).unwrap(),
                mrrs: Mrrs::new(128 << mrrs).unwrap(),
                rcb: Rcb::new(64 << rcb).unwrap(),
                addressing: crate::Addressing::default(),
                ecrc,
            }
        })
    }

    fn any_transfer() -> impl Strategy<Value = Transfer> {
        (1u32..10_000, 0u32..4096)
            .prop_map(|(size_bytes, offset_bytes)| Transfer { size_bytes, offset_bytes })
    }

    fn flows(answer: &Bandwidth) -> [Flow; 3] {
        let flows = answer.flows.unwrap();
        [flows.write, flows.read, flows.read_write]
    }

    proptest! {
        /// The fuller direction is full, the other is not over-full, and neither passes the raw rate.
        #[test]
        fn the_bottleneck_is_full(params in any_params(), transfer in any_transfer()) {
            let answer = exact(&params, transfer, &Dllps::default()).unwrap();
            prop_assert!(answer.tlp_gbps < answer.raw_gbps);
            for flow in flows(&answer) {
                let (full, other) = match flow.bottleneck {
                    Direction::Up => (flow.up, flow.down),
                    Direction::Down => (flow.down, flow.up),
                };
                prop_assert!(flow.payload_gbps < answer.tlp_gbps);
                prop_assert!((full.utilization - 1.0).abs() < 1e-9, "{}", full.utilization);
                prop_assert!(other.utilization < 1.0 + 1e-9);
            }
            prop_assert!(answer.read_write_gbps <= answer.write_gbps.min(answer.read_gbps) + 1e-9);
        }

        /// The payload rate is raw * (1 - SKP) * payload / wire bytes of the full direction, and the model fed its own
        /// DLLP counts as measured ones says the same.
        #[test]
        fn agrees_with_its_own_wire(params in any_params(), transfer in any_transfer()) {
            let answer = exact(&params, transfer, &Dllps::default()).unwrap();
            let [write, read, read_write] =
                flows(&answer).map(|f| Some(Measured { up: f.up.dllps, down: f.down.dllps }));
            let again = exact(&params, transfer, &Dllps { write, read, read_write }).unwrap();
            for (a, b) in flows(&answer).into_iter().zip(flows(&again)) {
                let wire = a.up.wire_bytes.max(a.down.wire_bytes);
                let by_wire = answer.tlp_gbps * f64::from(transfer.size_bytes) / wire;
                prop_assert!((a.payload_gbps - by_wire).abs() < 1e-9 * by_wire);
                prop_assert!((a.payload_gbps - b.payload_gbps).abs() < 1e-9 * a.payload_gbps);
            }
        }
    }
}
