// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures one row of a table in its own lab.

use crate::plan::{MAX_WARM_UP, Plan};
use crate::stats::Latencies;
use crate::{BenchError, nic_form};
use devices::pcie_bench::Bench;
use fabric::{LinkId, PortId, Side, Stop};
use lab::profile::{Basis, HostBasis};
use lab::schema::{self, Host, Lab, Slot};
use lab::{Folder, LabFile, Spanned};
use link::Counters;
use model::{Addressing, Dllps, FCS_BYTES, Form, Measured, Packeting, Params, TlpCount, Transfer};
use plug::transfers::{Offer, Phase, Test, Transfers};
use plug::{MemoryKind, Shared};
use serde::Serialize;
use session::report::utilization;
use session::transactions::{TransactionReport, transactions};
use session::{Session, Slices};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::{Mrrs, Time};

/// Results of one test with one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The paper's name of the test.
    pub test: &'static str,
    /// Bytes of a transfer.
    pub size_bytes: u32,
    /// Latencies; only for a latency test.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latencies>,
    /// Share of PCI Express; only for the latency of a frame that comes back.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTrip>,
    /// Bandwidth; only for a bandwidth test.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BandwidthRow>,
    /// Number of transfers before the counted transfers.
    pub warm_up: u64,
    /// Time over which the link was observed, while transfers were counted.
    pub link_ns: f64,
    /// The link from the device to the host while transfers were counted.
    pub upstream: DirectionDelta,
    /// The link from the host to the device.
    pub downstream: DirectionDelta,
    /// Durations and stages of the requests that completed during this time, by kind.
    pub transactions: Vec<TransactionReport>,
}

/// Part of a frame's latency in PCI Express, root complex and host: everything except MAC and cable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RoundTrip {
    /// Median of the part.
    pub pcie_ns_median: f64,
    /// Median of its share of the frame's latency.
    pub pcie_percent_median: f64,
}

impl RoundTrip {
    /// Returns the medians; `None` unless the transfers are frames that come back, each timed.
    fn of(taken: &Transfers) -> Option<RoundTrip> {
        let frames = taken.latencies_ps.iter().zip(&taken.outside_ps);
        let parts =
            frames.map(|(all, outside)| (all - outside, 100.0 * (all - outside) as f64 / *all as f64));
        let (mut inside, mut shares): (Vec<u64>, Vec<f64>) = parts.unzip();
        inside.sort_unstable();
        shares.sort_by(f64::total_cmp);
        // Nearest rank, as for the other percentiles.
        let middle = inside.len().div_ceil(2).checked_sub(1)?;
        Some(RoundTrip {
            pcie_ns_median: *inside.get(middle)? as f64 / 1_000.0,
            pcie_percent_median: *shares.get(middle)?,
        })
    }
}

/// Bandwidth, and the closed forms' values for the same link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BandwidthRow {
    /// Counted transfers.
    pub transactions: u64,
    /// Data rate of one direction. For BW_RDWR the rate of reads or writes, which are equal in a steady state; otherwise the lower one.
    pub bandwidth_gbps: f64,
    /// Rate of the data read.
    pub read_gbps: f64,
    /// Rate of the data written.
    pub write_gbps: f64,
    /// Transfers per second, reads and writes together.
    pub transactions_per_s: f64,
    /// Result of `riser model bw --form exact` for the counted DLLPs, with writes split like the card splits them. For BW_LOOP,
    /// the rate without FCS of `riser model nic`, which also counts descriptors, register accesses and interrupts.
    pub model_exact_gbps: f64,
    /// Result of `riser model bw --form published`, which ignores offsets; not for BW_LOOP.
    pub model_published_gbps: Option<f64>,
    /// Bound of the wire: the raw rate without SKPs, multiplied by data per wire byte in the direction of the data.
    pub wire_gbps: f64,
}

/// Traffic and stalls of one direction of the link while transfers were counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DirectionDelta {
    /// TLPs, without replays.
    pub tlps: u64,
    /// DLLPs.
    pub dllps: u64,
    /// Bytes of data.
    pub payload_bytes: u64,
    /// All bytes on the wire.
    pub wire_bytes: u64,
    /// Bytes of SKP ordered sets, which are part of `wire_bytes`.
    pub skp_bytes: u64,
    /// TLPs sent again.
    pub replays: u64,
    /// Share of the time in which the wire carried anything other than SKP ordered sets, 0 to 1.
    pub utilization: f64,
    /// Number of times that a TLP waited for credits while the wire was free.
    pub credit_stalls: u64,
    /// Time that TLPs waited for credits. If several classes wait at the same time, each adds its time.
    pub credit_stall_ns: f64,
    /// Number of times that a TLP with credits waited for space in the replay buffer.
    pub replay_buffer_stalls: u64,
    /// Time that TLPs waited for space in the replay buffer.
    pub replay_buffer_stall_ns: f64,
}

impl DirectionDelta {
    /// Returns the number of times that TLPs waited for credits or for replay buffer space, and the share of `link_ns` that they waited.
    pub fn stalls(&self, link_ns: f64) -> (u64, f64) {
        let ns = self.credit_stall_ns + self.replay_buffer_stall_ns;
        let share = if link_ns > 0.0 { ns / link_ns } else { 0.0 };
        (self.credit_stalls + self.replay_buffer_stalls, share)
    }
}

/// Reason why a row has no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{} of {size} bytes: {error}", test.name())]
pub struct RowError {
    test: Test,
    size: u32,
    error: BenchError,
}

/// Events between two checks of the device's phase.
const SLICE: u64 = 32;

/// Returns the settings of the benchmark in the first slot of a lab.
pub(crate) fn bench_of(file: &LabFile) -> Option<&Bench> {
    file.lab.slot.first()?.plan.as_ref()?.settings()
}

impl Plan {
    /// Asks the model for every row and builds the lab of the first. It runs no lab, because links and profiles are the
    /// same in all rows.
    ///
    /// # Errors
    /// The lab cannot be built.
    pub fn check(&self) -> Result<(), RowError> {
        for &test in &self.tests {
            for &size in &self.sizes {
                self.offer_of(test, size, 0)?;
            }
        }
        self.first().map(drop)
    }

    /// Returns the warnings of the first row's lab, one per line: profile figures that are extrapolated on its link, and the model's own.
    pub fn warnings(&self) -> Vec<String> {
        // An error of the build is reported by the measurement.
        self.first().ok().flatten().map_or_else(Vec::new, |session| session.warnings().to_vec())
    }

    /// Builds the lab of the first row, if there is one.
    fn first(&self) -> Result<Option<Session>, RowError> {
        let (Some(&test), Some(&size)) = (self.tests.first(), self.sizes.first()) else { return Ok(None) };
        let file = LabFile { lab: self.lab(test, size, 0)?, base: ".".into() };
        Session::new(&file).map(Some).map_err(|error| RowError { test, size, error: error.into() })
    }

    fn offer_of(&self, test: Test, size: u32, warm_up: u64) -> Result<Offer, RowError> {
        self.offer(test, size, warm_up).map_err(|fault| RowError { test, size, error: fault.message.into() })
    }

    /// Measures `test` with transfers of `size` bytes. If alternating reads and writes are not in a steady state, they are measured again after a longer
    /// warm-up, unless the plan sets the warm-up.
    ///
    /// # Errors
    /// The plan cannot be run, or its run failed.
    pub fn measure(&self, test: Test, size: u32) -> Result<Row, RowError> {
        self.steady_row(&AtomicBool::new(false), test, size)
    }

    /// Like [`measure`](Self::measure). Returns `None` soon after `cancel` is set.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn measure_unless(
        &self,
        cancel: &AtomicBool,
        test: Test,
        size: u32,
    ) -> Result<Option<Row>, RowError> {
        match self.steady_row(cancel, test, size) {
            Err(_) if cancel.load(Ordering::Relaxed) => Ok(None),
            row => row.map(Some),
        }
    }

    /// Measures a row with a warm-up that is long enough.
    fn steady_row(&self, cancel: &AtomicBool, test: Test, size: u32) -> Result<Row, RowError> {
        let mut warm_up = self.warm_up(test);
        loop {
            let file = LabFile { lab: self.lab(test, size, warm_up)?, base: ".".into() };
            let row = self.row(&file, cancel, test, size)?;
            let steady = test != Test::BwRdWr || row.bandwidth.is_none_or(|b| b.is_steady(size));
            if steady || self.warm_up.is_some() || warm_up >= MAX_WARM_UP {
                return Ok(row);
            }
            warm_up = (warm_up * 4).min(MAX_WARM_UP);
        }
    }

    /// Measures a row in an existing lab, whose first slot holds the benchmark device with `test` and `size`. From the plan, only host, link, offset and memory
    /// are used, for the closed forms.
    pub(crate) fn measure_lab(&self, file: &LabFile, test: Test, size: u32) -> Result<Row, RowError> {
        self.row(file, &AtomicBool::new(false), test, size)
    }

    /// Measures a row. Returns an error soon after `cancel` is set.
    fn row(&self, file: &LabFile, cancel: &AtomicBool, test: Test, size: u32) -> Result<Row, RowError> {
        let fail = |error: BenchError| RowError { test, size, error };
        let mut session = Session::new(file).map_err(|error| fail(error.into()))?;
        let results =
            session.measured().ok_or_else(|| fail("no device of the lab measures transfers".into()))?;
        let host = *session.host_basis();
        let counted = run(&mut session, &host, &results, cancel).map_err(fail)?;
        let taken = results.take();
        let round_trip = RoundTrip::of(&taken);
        let bandwidth = match test.is_latency() {
            true => None,
            false => Some(self.bandwidth(test, size, &taken, &counted).map_err(fail)?),
        };
        Ok(Row {
            test: test.name(),
            size_bytes: size,
            latency: test.is_latency().then(|| Latencies::of(taken.latencies_ps)).flatten(),
            round_trip,
            bandwidth,
            warm_up: taken.warm_up,
            link_ns: counted.elapsed_ps as f64 / 1_000.0,
            upstream: counted.up,
            downstream: counted.down,
            transactions: counted.transactions,
        })
    }

    /// Returns the weakest basis of the profile figures that a row of `test` depends on.
    ///
    /// # Errors
    /// A part of the workload that the model cannot do.
    pub fn basis(&self, test: Test, size: u32) -> Result<Basis, BenchError> {
        let offer = self.offer(test, size, 0).map_err(|fault| fault.message)?;
        let host = HostBasis::of(&self.host_of_lab(), &Folder::default());
        Ok(crate::basis::of(&host, offer.basis, test))
    }

    fn host_of_lab(&self) -> Host {
        Host {
            profile: Spanned::new(0..0, self.host.clone()),
            iommu: Spanned::new(0..0, self.iommu.pages()),
            buffer_pages: Spanned::new(0..0, self.pages),
            ..Host::default()
        }
    }

    /// Returns the lab of a row.
    fn lab(&self, test: Test, size: u32, warm_up: u64) -> Result<Lab, RowError> {
        let offer = self.offer_of(test, size, warm_up)?;
        Ok(Lab {
            seed: self.seed,
            host: self.host_of_lab(),
            link: self.link.clone(),
            slot: vec![Slot::of("card", offer.plan)],
            ..Lab::default()
        })
    }

    fn bandwidth(
        &self,
        test: Test,
        size: u32,
        results: &Transfers,
        counted: &Counted,
    ) -> Result<BandwidthRow, BenchError> {
        let ps = results.measure_end.since(results.measure_start).as_ps();
        let transfers = results.transfers;
        if ps == 0 || counted.up.payload_bytes + counted.down.payload_bytes == 0 {
            return Err(format!("a bandwidth test needs more than {transfers} transfers").into());
        }
        let gbps = |bytes: f64| bytes * 8_000.0 / ps as f64;
        let offer = self.offer(test, size, 0).map_err(|fault| fault.message)?;
        let params = self.params(offer.memory)?;
        let (exact, published) = models(&offer, &params, test, size, counted)?;
        Ok(BandwidthRow {
            transactions: transfers,
            bandwidth_gbps: gbps(one_way(test, size, results)),
            read_gbps: gbps(results.bytes_read as f64),
            write_gbps: gbps(results.bytes_written as f64),
            transactions_per_s: transfers as f64 * 1e12 / ps as f64,
            model_exact_gbps: exact,
            model_published_gbps: published,
            wire_gbps: wire_gbps(&params, test, counted),
        })
    }

    fn params(&self, memory: MemoryKind) -> Result<Params, BenchError> {
        let link = lab::links::config(&self.link, &schema::Link::default());
        let lanes = link.root.width.lanes();
        let mrrs = self.link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0).bytes();
        let rcb = self.rcb()?.bytes();
        let mut params = Params::new(link.root.rate.generation(), lanes, link.root.mps.bytes(), mrrs, rcb)?;
        params.addressing = match memory {
            MemoryKind::Low => Addressing::A32,
            MemoryKind::High => Addressing::A64,
        };
        Ok(params)
    }
}

/// Counts the TLPs of a write, split like by the device.
fn writes(offer: &Offer, params: &Params, transfer: Transfer) -> TlpCount {
    match &offer.cut_writes {
        Some(cut) => {
            let pieces = cut(transfer.offset_bytes.into(), transfer.size_bytes, params.mps);
            TlpCount::of(pieces.into_iter())
        }
        None => model::writes(params, transfer),
    }
}

/// Returns the closed forms' values for a row: the exact one, and the published one, which ignores offsets.
fn models(
    offer: &Offer,
    params: &Params,
    test: Test,
    size: u32,
    counted: &Counted,
) -> Result<(f64, Option<f64>), BenchError> {
    if let (Test::BwLoop, Some(nic)) = (test, offer.nic) {
        return Ok((nic_gbps(nic, params, size)?, None));
    }
    let transfer = Transfer { size_bytes: size, offset_bytes: offer.host_offset_bytes };
    let writes = writes(offer, params, transfer);
    let per = counted.transfers(test, params, transfer, writes);
    let measured =
        Some(Measured { up: counted.up.dllps as f64 / per, down: counted.down.dllps as f64 / per });
    let dllps = match test {
        Test::BwWr => Dllps { write: measured, ..Dllps::default() },
        Test::BwRd => Dllps { read: measured, ..Dllps::default() },
        _ => Dllps { read_write: measured, ..Dllps::default() },
    };
    let of = |b: &model::Bandwidth| match test {
        Test::BwWr => b.write_gbps,
        Test::BwRd => b.read_gbps,
        _ => b.read_write_gbps,
    };
    let published = match offer.host_offset_bytes {
        0 => Some(of(&model::published(params, transfer)?)),
        _ => None,
    };
    Ok((of(&model::exact_writing(params, transfer, writes, &dllps)?), published))
}

/// Returns the rate of frames of `size` bytes without FCS that the closed form of a NIC allows in each direction.
fn nic_gbps(nic: &str, params: &Params, size: u32) -> Result<f64, BenchError> {
    let throughput =
        nic_form::shipped(nic)?.throughput(params, Form::Exact, Packeting::Both, size + FCS_BYTES)?;
    Ok(throughput.packets_per_s * f64::from(size) * 8.0 / 1e9)
}

/// Alternating reads and writes may differ by this many transfers because of the edges of a measurement.
const EDGE_TRANSFERS: f64 = 2.0;

/// Returns the bytes of one direction. For alternating reads and writes, that is half of both if equally many
/// completed. Otherwise it is the bytes of the slower kind, because the surplus of the other kind has no counterpart.
fn one_way(test: Test, size: u32, results: &Transfers) -> f64 {
    let (read, written) = (results.bytes_read as f64, results.bytes_written as f64);
    match test {
        Test::BwRdWr if (read - written).abs() > EDGE_TRANSFERS * f64::from(size) => read.min(written),
        Test::BwRdWr | Test::BwLoop => (read + written) / 2.0,
        _ => read + written,
    }
}

impl BandwidthRow {
    /// Returns true if about as many reads as writes completed. The two numbers may differ by transfers at the start
    /// and end, or by a thousandth.
    fn is_steady(&self, size: u32) -> bool {
        let ns = self.transactions as f64 * 1e9 / self.transactions_per_s;
        let surplus = (self.read_gbps - self.write_gbps).abs() * ns / (8.0 * f64::from(size));
        surplus <= EDGE_TRANSFERS.max(self.transactions as f64 / 2_000.0)
    }
}

/// Returns raw rate x (1 - SKP share) x data / wire bytes of the direction of the data.
fn wire_gbps(params: &Params, test: Test, counted: &Counted) -> f64 {
    let delta = counted.data_way(test);
    let useful = (delta.wire_bytes - delta.skp_bytes) as f64;
    params.raw_gbps() * (1.0 - params.skp_share()) * delta.payload_bytes as f64 / useful
}

/// Traffic of the link while transfers were counted.
struct Counted {
    elapsed_ps: u64,
    up: DirectionDelta,
    down: DirectionDelta,
    transactions: Vec<TransactionReport>,
}

impl Counted {
    /// Returns the number of transfers in the link's counters (for alternating reads and writes: of pairs). The
    /// counters are read some events after the device changes its phase, so their own data gives the number.
    fn transfers(&self, test: Test, params: &Params, transfer: Transfer, writes: TlpCount) -> f64 {
        let per_transfer = match test {
            Test::BwRd => model::completions(params, transfer),
            _ => writes,
        };
        self.data_way(test).payload_bytes as f64 / (4 * per_transfer.data_dw) as f64
    }

    /// Returns the direction of the data; for alternating reads and writes, the direction of the writes.
    fn data_way(&self, test: Test) -> &DirectionDelta {
        if test == Test::BwRd { &self.down } else { &self.up }
    }
}

fn run(
    session: &mut Session,
    host: &HostBasis,
    results: &Shared<Transfers>,
    cancel: &AtomicBool,
) -> Result<Counted, BenchError> {
    let start = until(session, results, cancel, Phase::Measuring)?;
    session.fabric.clear_breakdowns();
    let end = until(session, results, cancel, Phase::Done)?;
    let elapsed_ps = end.at.since(start.at).as_ps();
    let delta = |i: usize| DirectionDelta::between(&start.counters[i], &end.counters[i], elapsed_ps);
    let transactions = transactions(&session.fabric, 0, host);
    let counted = Counted { elapsed_ps, up: delta(0), down: delta(1), transactions };
    match session.run_to_end() {
        Stop::Finished => Ok(counted),
        stop => Err(stop.to_string().into()),
    }
}

/// A sample of the counters of both directions, upstream first.
struct CounterSample {
    at: Time,
    counters: [Counters; 2],
}

/// Runs until the device reaches `phase`. Returns the counters at that time.
fn until(
    session: &mut Session,
    results: &Shared<Transfers>,
    cancel: &AtomicBool,
    phase: Phase,
) -> Result<CounterSample, BenchError> {
    let before = |_: &mut Session| {
        if results.get().phase >= phase {
            ControlFlow::Break(Ok(()))
        } else if cancel.load(Ordering::Relaxed) {
            ControlFlow::Break(Err(BenchError::Cancelled))
        } else {
            ControlFlow::Continue(())
        }
    };
    match session.run_in_slices(Slices::of(SLICE), before) {
        Ok(Stop::Finished) => {}
        Ok(stop) => return Err(stop.to_string().into()),
        Err(ended) => ended?,
    }
    let fabric = &session.fabric;
    let counters = [Side::Device, Side::Root].map(|side| *fabric.port_counters(PortId::new(LinkId(0), side)));
    Ok(CounterSample { at: fabric.now(), counters })
}

impl DirectionDelta {
    fn between(start: &Counters, end: &Counters, elapsed_ps: u64) -> DirectionDelta {
        let sum = |of: fn(&Counters) -> &[u64]| of(end).iter().sum::<u64>() - of(start).iter().sum::<u64>();
        let ns = |ps: u64| ps as f64 / 1_000.0;
        DirectionDelta {
            tlps: end.tlps - start.tlps,
            dllps: end.dllps.total() - start.dllps.total(),
            payload_bytes: end.payload_bytes - start.payload_bytes,
            wire_bytes: end.wire_bytes - start.wire_bytes,
            skp_bytes: end.skp_bytes - start.skp_bytes,
            replays: end.replayed_tlps - start.replayed_tlps,
            utilization: utilization(start, end, elapsed_ps),
            credit_stalls: sum(|c| &c.credit_stalls),
            credit_stall_ns: ns(sum(|c| &c.credit_stall_ps)),
            replay_buffer_stalls: end.replay_buffer_stalls - start.replay_buffer_stalls,
            replay_buffer_stall_ns: ns(end.replay_buffer_stall_ps - start.replay_buffer_stall_ps),
        }
    }
}
