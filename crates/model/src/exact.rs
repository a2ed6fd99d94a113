// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exact form for transfers: splits them into TLPs ([`split`]), and lets [`wire`] calculate the rate. This form
//! does not cover latency, exhausted credits, or limits of a device or host.

use crate::bandwidth::{DirectionLoad, Flow, Flows};
use crate::wire::{self, Counted, Load, Packets};
use crate::{Bandwidth, Form, ModelError, Params, TlpCount, Transfer, split};
use std::str::FromStr;

/// Counted DLLPs per transfer (for alternating reads and writes: per pair).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// DLLPs from device to host.
    pub up: f64,
    /// DLLPs from host to device.
    pub down: f64,
}

/// DLLPs of each kind of traffic: measured numbers if given, otherwise numbers by the rules in [`wire`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Dllps {
    /// For writes only.
    pub write: Option<Measured>,
    /// For reads only.
    pub read: Option<Measured>,
    /// For alternating reads and writes.
    pub read_write: Option<Measured>,
}

/// Measured DLLPs of one kind of traffic. Parsed from `KIND=UP,DOWN` with the KIND `write`, `read` or `read_write`.
#[derive(Clone, Copy, Debug)]
pub struct KindDllps(fn(&mut Dllps) -> &mut Option<Measured>, Measured);

impl FromStr for KindDllps {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<KindDllps, &'static str> {
        let legal = "expected KIND=UP,DOWN with KIND write, read or read_write, and two numbers";
        let (kind, counts) = text.split_once('=').ok_or(legal)?;
        let (up, down) = counts.split_once(',').ok_or(legal)?;
        let number = |n: &str| n.parse::<f64>().map_err(|_| legal);
        let place: fn(&mut Dllps) -> &mut Option<Measured> = match kind {
            "write" => |dllps| &mut dllps.write,
            "read" => |dllps| &mut dllps.read,
            "read_write" => |dllps| &mut dllps.read_write,
            _ => return Err(legal),
        };
        Ok(KindDllps(place, Measured { up: number(up)?, down: number(down)? }))
    }
}

impl FromIterator<KindDllps> for Dllps {
    fn from_iter<I: IntoIterator<Item = KindDllps>>(all: I) -> Dllps {
        let mut dllps = Dllps::default();
        all.into_iter().for_each(|KindDllps(place, measured)| *place(&mut dllps) = Some(measured));
        dllps
    }
}

impl Measured {
    fn check(self, params: &Params) -> Result<(), ModelError> {
        if params.rate.framed().is_none() {
            return Err(ModelError::DllpsInFlits(params.rate.generation()));
        }
        match [self.up, self.down].into_iter().find(|n| !n.is_finite() || *n < 0.0) {
            Some(n) => Err(ModelError::Dllps(n)),
            None => Ok(()),
        }
    }
}

/// Returns the bandwidth that the wire allows for a transfer size.
///
/// # Errors
/// An invalid size, offset or DLLP count.
pub fn exact(params: &Params, transfer: Transfer, dllps: &Dllps) -> Result<Bandwidth, ModelError> {
    transfer.check()?;
    exact_writing(params, transfer, split::writes(params, transfer), dllps)
}

/// Like [`exact`], for a device whose writes consist of `writes`: such a device ends TLPs before Max_Payload_Size
/// requires it.
///
/// # Errors
/// As [`exact`]. As [`exact`].
pub fn exact_writing(
    params: &Params,
    transfer: Transfer,
    writes: TlpCount,
    dllps: &Dllps,
) -> Result<Bandwidth, ModelError> {
    transfer.check()?;
    for measured in [dllps.write, dllps.read, dllps.read_write].into_iter().flatten() {
        measured.check(params)?;
    }
    let none = TlpCount::default();
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
        tlp_gbps: params.raw_gbps() * params.tlp_share(),
        write_gbps: flows.write.payload_gbps,
        read_gbps: flows.read.payload_gbps,
        read_write_gbps: flows.read_write.payload_gbps,
        flows: Some(flows),
        ..Bandwidth::unanswered(Form::Exact, params, transfer)
    })
}

/// The TLPs of one transfer: posted and non-posted requests up, completions down.
struct Traffic {
    posted: TlpCount,
    non_posted: TlpCount,
    completion: TlpCount,
}

impl Traffic {
    fn flow(&self, params: &Params, size_bytes: u32, measured: Option<Measured>) -> Flow {
        let counted = measured.map(|m| Counted { up: m.up, down: m.down });
        let traffic = wire::Traffic { up: self.up(params), down: self.down(params) };
        let fit = wire::fit(params, &traffic, counted);
        Flow {
            payload_gbps: fit.units_per_s * f64::from(size_bytes) * 8.0 / 1e9,
            transfers_per_s: fit.units_per_s,
            bottleneck: fit.bottleneck,
            up: direction(&traffic.up, fit.up),
            down: direction(&traffic.down, fit.down),
        }
    }

    /// Requests.
    fn up(&self, params: &Params) -> Packets {
        let tlps = self.posted.tlps + self.non_posted.tlps;
        Packets {
            posted: self.posted.tlps as f64,
            non_posted: self.non_posted.tlps as f64,
            overhead_bytes: (tlps * u64::from(params.request_overhead_bytes())) as f64,
            data_bytes: (self.posted.data_dw * 4) as f64,
            ..Packets::default()
        }
    }

    /// Completions.
    fn down(&self, params: &Params) -> Packets {
        Packets {
            completions: self.completion.tlps as f64,
            overhead_bytes: (self.completion.tlps * u64::from(params.completion_overhead_bytes())) as f64,
            data_bytes: (self.completion.data_dw * 4) as f64,
            ..Packets::default()
        }
    }
}

/// Converts counts, which are whole for a transfer and far below 2^53.
fn direction(packets: &Packets, load: Load) -> DirectionLoad {
    DirectionLoad {
        tlps: packets.tlps() as u64,
        overhead_bytes: packets.overhead_bytes as u64,
        data_bytes: packets.data_bytes as u64,
        dllps: load.dllps,
        wire_bytes: load.wire_bytes,
        utilization: load.utilization,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use proptest::prelude::*;
    use tlp::{Mps, Mrrs, Rate, Rcb, Width};

    fn gen3_x8() -> Params {
        Params::new(3, 8, 256, 512, 64).unwrap()
    }

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-5, "{got}, not {want}");
    }

    /// Writes share the up direction with the two UpdateFCs (16 B) that a device sends every 30 us. Calculated by hand:
    /// raw * (1 - SKP) * size / (size + headers) * (1 - 16 / (30 us * bytes per us)).
    #[test]
    fn write_bandwidths_agree_with_sums_by_hand() {
        for (generation, lanes, mps, size, gbps) in [
            // 63.0153846 * 374/375 * 256/280.
            (3, 8, 256, 256, 57.456_527),
            // 63.0153846 * 374/375 * 64/88.
            (3, 8, 256, 64, 45.704_056),
            // 2 * 1534/1538 * 128/152.
            (1, 1, 128, 4096, 1.676_237),
            // 504.1230769 * 374/375 * 512/536.
            (5, 16, 512, 512, 480.262_192),
        ] {
            let params = Params::new(generation, lanes, mps, 512, 64).unwrap();
            let answer = exact(&params, Transfer::of(size), &Dllps::default()).unwrap();
            close(answer.write_gbps, gbps);
            let write = answer.flows.unwrap().write;
            close(write.up.dllps * write.transfers_per_s, 2.0 / 30e-6);
        }
    }

    /// 256 B reads at Gen3 x8: the down direction (276 B per read, `x` reads per symbol time) also carries an Ack and an
    /// UpdateFC-NP every 203 symbol times plus half a read, and an UpdateFC-P every 30 us. So `276 x + 16 / (203 + 1 /
    /// 2x) + 8 * 1.015625 / 30000 = 8 * 374/375`, solved by hand: `x` is 0.0286443.
    #[test]
    fn reads_share_the_down_direction_with_acks() {
        let answer = exact(&gen3_x8(), Transfer::of(256), &Dllps::default()).unwrap();
        let flow = answer.flows.unwrap().read;
        close(answer.read_gbps, 57.760_952);
        assert_eq!(flow.bottleneck, Direction::Down);
        assert_eq!((flow.up.tlps, flow.up.overhead_bytes, flow.up.data_bytes), (1, 24, 0));
        assert_eq!((flow.down.tlps, flow.down.overhead_bytes, flow.down.data_bytes), (1, 20, 256));
        close(flow.down.dllps, flow.down.wire_bytes / 8.0 - 276.0 / 8.0);
    }

    /// Alternating at Gen3 x8, 256 B: up 280 + 24 B per pair, an Ack per interval and an UpdateFC per class and 30 us;
    /// down less. `304 x + 8 / (203 + 1 / 2x) + 16 * 1.015625 / 30000 = 8 * 374/375`.
    #[test]
    fn alternating_transfers_are_limited_by_the_up_direction() {
        let answer = exact(&gen3_x8(), Transfer::of(256), &Dllps::default()).unwrap();
        let flow = answer.flows.unwrap().read_write;
        close(answer.read_write_gbps, 52.681_601);
        assert_eq!(flow.bottleneck, Direction::Up);
        assert_eq!((flow.up.tlps, flow.up.overhead_bytes, flow.up.data_bytes), (2, 48, 256));
        // Ack, UpdateFC-P and UpdateFC-NP, each once per interval plus half a gap between requests: 3 / (203 + 1 / 4x).
        close(flow.down.dllps * flow.transfers_per_s * gen3_x8().symbol_time_ns() * 1e-9, 0.014_113_048);
    }

    /// If there are fewer TLPs than intervals, each TLP has an Ack and an UpdateFC. 4096 B reads at Gen1 x1, MPS 128,
    /// take 4736 B down. One MRd of 4096 B is answered by 2 * 8 B, and an UpdateFC-P is sent every 7500 symbol times.
    /// `4752 x + 8/7500 = 1534/1538`.
    #[test]
    fn rare_tlps_have_one_dllp_each() {
        let params = Params::new(1, 1, 128, 4096, 64).unwrap();
        let answer = exact(&params, Transfer::of(4096), &Dllps::default()).unwrap();
        close(answer.read_gbps, 1.717_583);
        close(answer.flows.unwrap().read.down.dllps, 2.635_932);
    }

    /// Measured counts add 8 B each to the TLPs of their direction: 62.8473436 * 256/284, 256/284 and 256/312.
    #[test]
    fn measured_dllps_replace_the_rules() {
        let measured = Some(Measured { up: 0.5, down: 1.0 });
        let dllps =
            Dllps { write: measured, read: measured, read_write: Some(Measured { up: 1.0, down: 0.0 }) };
        let answer = exact(&gen3_x8(), Transfer::of(256), &dllps).unwrap();
        close(answer.write_gbps, 62.847_343_6 * 256.0 / 284.0);
        close(answer.read_gbps, 62.847_343_6 * 256.0 / 284.0);
        close(answer.read_write_gbps, 62.847_343_6 * 256.0 / 312.0);
    }

    /// Generation 6 x8, 472 of 512 Gb/s for TLPs (236 of 256 B), base headers of 16 and 12 B, no DLLPs.
    #[test]
    fn flits_have_no_dllps() {
        let params = Params::new(6, 8, 256, 512, 64).unwrap();
        let answer = exact(&params, Transfer::of(256), &Dllps::default()).unwrap();
        close(answer.tlp_gbps, 472.0);
        close(answer.write_gbps, 472.0 * 256.0 / 272.0);
        close(answer.read_gbps, 472.0 * 256.0 / 268.0);
        close(answer.read_write_gbps, 472.0 * 256.0 / 288.0);
        let flows = answer.flows.unwrap();
        assert_eq!((flows.read.down.dllps, flows.read_write.up.dllps), (0.0, 0.0));
        assert_eq!(answer.basis.text(), "specification's arithmetic, not simulation");
        let measured = Some(Measured { up: 0.0, down: 0.0 });
        let error = exact(&params, Transfer::of(256), &Dllps { write: measured, ..Dllps::default() });
        assert_eq!(error, Err(ModelError::DllpsInFlits(6)));
    }

    /// Results of simulations with an ideal host: the table of `crates/bench/tests/it/agreement.rs`.
    const SIMULATED: &str = include_str!(
        "../../bench/tests/it/snapshots/it__agreement__simulation_wire_and_closed_form_agree.snap"
    );

    /// Returns the error of the closed form alone in a row of that table, in percent, and the test.
    fn off_percent(line: &str) -> Option<(&str, f64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [generation, lanes, mps, test, size, simulated, ..] = words[..] else { return None };
        let number = |text: &str| text.parse::<f64>().ok();
        let generation = number(generation.strip_prefix("Gen")?)? as u8;
        let lanes = number(lanes.strip_prefix('x')?)? as u8;
        let params = Params::new(generation, lanes, number(mps)? as u32, 512, 64).unwrap();
        let answer = exact(&params, Transfer::of(number(size)? as u32), &Dllps::default()).unwrap();
        let gbps = match test {
            "BW_RD" => answer.read_gbps,
            "BW_WR" => answer.write_gbps,
            _ => answer.read_write_gbps,
        };
        Some((test, (gbps / number(simulated)? - 1.0).abs() * 100.0))
    }

    /// The closed form without counted DLLPs, compared with simulation: (test, mean and worst percent). If reads wait
    /// for each other's completions, MRds are sent in bursts, and there are fewer Acks for them than the rule predicts.
    #[test]
    fn agrees_with_simulation() {
        for (test, mean, worst) in [("BW_RD", 0.18, 1.35), ("BW_WR", 0.02, 0.08), ("BW_RDWR", 0.13, 0.95)] {
            let rows = SIMULATED.lines().filter_map(off_percent).filter(|(name, _)| *name == test);
            let off: Vec<f64> = rows.map(|(_, off)| off).collect();
            let got = (off.iter().sum::<f64>() / off.len() as f64, off.iter().copied().fold(0.0, f64::max));
            assert!(off.len() >= 60, "{test}: {} rows", off.len());
            assert!(got.0 < mean && got.1 < worst, "{test}: {got:?}");
        }
    }

    #[test]
    fn rejects_invalid_dllp_counts() {
        for bad in [-1.0, f64::INFINITY] {
            let dllps = Dllps { read: Some(Measured { up: bad, down: 0.0 }), ..Dllps::default() };
            let error = exact(&gen3_x8(), Transfer::of(64), &dllps).unwrap_err();
            assert_eq!(error, ModelError::Dllps(bad));
        }
    }

    /// An offset of 4 B splits 512 B into three CplDs and still two MWrs: 60 B and 48 B in addition to 512 B.
    #[test]
    fn offsets_add_completions() {
        let transfer = Transfer { size_bytes: 512, offset_bytes: 4 };
        let flows = exact(&gen3_x8(), transfer, &Dllps::default()).unwrap().flows.unwrap();
        assert_eq!(flows.read.down.overhead_bytes, 60);
        assert_eq!(flows.write.up.overhead_bytes, 48);
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let sizes = (0u32..6, 0u32..6, 0u32..2);
        (0usize..5, 0usize..7, sizes, any::<bool>()).prop_map(|(rate, width, (mps, mrrs, rcb), ecrc)| {
            Params {
                rate: Rate::ALL[rate].into(),
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
        /// The bottleneck is full, the other direction is not overloaded, and neither exceeds the raw rate.
        #[test]
        fn bottleneck_direction_is_fully_used(params in any_params(), transfer in any_transfer()) {
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

        /// The payload rate is raw * (1 - SKP) * payload / wire bytes of the full direction. The model gives the same
        /// rate if its own DLLP counts are passed as measured ones.
        #[test]
        fn bandwidths_agree_with_wire_bytes(params in any_params(), transfer in any_transfer()) {
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
