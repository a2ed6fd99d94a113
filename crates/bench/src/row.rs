// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One row of a table: a lab of its own, run to its end.

use crate::BenchError;
use crate::plan::{DEFAULT_WARM_UP, MAX_WARM_UP, Plan};
use crate::results::sheet::Settings;
use crate::stats::Latencies;
use devices::pcie_bench::{Bench, CardPath};
use fabric::{LinkId, PortId, Side, Stop};
use lab::profile::{Basis, HostBasis};
use lab::schema::{self, Host, Lab, Slot};
use lab::{Folder, LabFile, Spanned};
use link::Counters;
use model::{Addressing, Dllps, Measured, Params, TlpCount, Transfer};
use plug::transfers::{Offer, Phase, Test, Transfers};
use plug::{MemoryKind, Shared};
use serde::Serialize;
use session::report::utilization;
use session::transactions::{TransactionReport, transactions};
use session::{Session, Slices};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::{Class, Mrrs, Time};

/// What one test of one size has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The paper's name of the test.
    pub test: &'static str,
    /// Bytes of a transfer.
    pub size_bytes: u32,
    /// Latencies, of a latency test.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latencies>,
    /// Bandwidth, of a bandwidth test.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BandwidthRow>,
    /// Transfers before those that counted.
    pub warm_up: u64,
    /// How long the link was watched: while the transfers counted.
    pub link_ns: f64,
    /// The link while the transfers counted: from the device to the host.
    pub upstream: DirectionDelta,
    /// From the host to the device.
    pub downstream: DirectionDelta,
    /// How long the requests that ended meanwhile took and where, by kind.
    pub transactions: Vec<TransactionReport>,
}

/// Bandwidth, with what the closed form says of the same link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BandwidthRow {
    /// Transfers that counted.
    pub transactions: u64,
    /// Data of one direction: of BW_RDWR the reads' or the writes', which are equal in a steady state; where they are not, the
    /// lesser.
    pub bandwidth_gbps: f64,
    /// Data that were read.
    pub read_gbps: f64,
    /// Data that were written.
    pub write_gbps: f64,
    /// Transfers per second, both kinds.
    pub transactions_per_s: f64,
    /// `riser model bw --form exact` fed with the DLLPs counted here, and with writes cut as the card cuts them.
    pub model_exact_gbps: f64,
    /// `riser model bw --form published`; it knows no offset.
    pub model_published_gbps: Option<f64>,
    /// Raw rate less SKPs, times data by wire bytes, of the direction that the data go: what the wire itself says.
    pub wire_gbps: f64,
}

/// What a direction of the link carried while the transfers counted, and what it waited for.
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
    /// Share of the time in which the wire carried anything but SKP ordered sets, 0 to 1.
    pub utilization: f64,
    /// How often a TLP had to wait for credits while the wire was free.
    pub credit_stalls: u64,
    /// For how long TLPs waited for credits; of classes that wait at once, each counts.
    pub credit_stall_ns: f64,
    /// How often a TLP that had its credits had to wait for room in the replay buffer.
    pub replay_buffer_stalls: u64,
    /// For how long TLPs waited for room in the replay buffer.
    pub replay_buffer_stall_ns: f64,
}

impl DirectionDelta {
    /// How often TLPs stood still, for want of credits or of room in the replay buffer, and for which share of `link_ns`.
    pub fn stalls(&self, link_ns: f64) -> (u64, f64) {
        let ns = self.credit_stall_ns + self.replay_buffer_stall_ns;
        let share = if link_ns > 0.0 { ns / link_ns } else { 0.0 };
        (self.credit_stalls + self.replay_buffer_stalls, share)
    }
}

/// Why a row has no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{} of {size} bytes: {error}", test.name())]
pub struct RowError {
    test: Test,
    size: u32,
    error: BenchError,
}

/// Events between two looks at the device's phase.
const SLICE: u64 = 32;

/// The benchmark in the first slot of a lab.
pub(crate) fn bench_of(file: &LabFile) -> Option<&Bench> {
    file.lab.slot.first()?.plan.as_ref()?.settings()
}

impl Plan {
    /// Asks the model for every row, puts the lab of the first together, and runs nothing: links and profiles are the same in all of
    /// them.
    ///
    /// # Errors
    /// Where there can be no such lab.
    pub fn check(&self) -> Result<(), RowError> {
        for &test in &self.tests {
            for &size in &self.sizes {
                self.offer_of(test, size, 0)?;
            }
        }
        self.first().map(drop)
    }

    /// What of its profiles is extrapolated on its link, and what else its model has to say, a line each.
    pub fn warnings(&self) -> Vec<String> {
        // What cannot be built is told where it is measured.
        self.first().ok().flatten().map_or_else(Vec::new, |session| session.warnings().to_vec())
    }

    /// The lab of its first row, where it has one.
    fn first(&self) -> Result<Option<Session>, RowError> {
        let (Some(&test), Some(&size)) = (self.tests.first(), self.sizes.first()) else { return Ok(None) };
        let file = LabFile { lab: self.lab(test, size, 0)?, base: ".".into() };
        Session::new(&file).map(Some).map_err(|error| RowError { test, size, error: error.into() })
    }

    fn offer_of(&self, test: Test, size: u32, warm_up: u64) -> Result<Offer, RowError> {
        self.offer(test, size, warm_up).map_err(|fault| RowError { test, size, error: fault.message.into() })
    }

    /// Measures `test` with transfers of `size` bytes. Reads and writes in turn that are not in a steady state are measured
    /// again, behind a longer warm-up, where the plan has no figure of its own.
    ///
    /// # Errors
    /// Where the plan cannot be run, or the run failed.
    pub fn measure(&self, test: Test, size: u32) -> Result<Row, RowError> {
        self.steady_row(&AtomicBool::new(false), test, size)
    }

    /// As [`measure`](Self::measure); `None` soon after `cancel` was set.
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

    /// The row behind a warm-up that is long enough.
    fn steady_row(&self, cancel: &AtomicBool, test: Test, size: u32) -> Result<Row, RowError> {
        let mut warm_up = self.warm_up.unwrap_or(DEFAULT_WARM_UP);
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

    /// The same in a lab that is there already: its first slot holds the benchmark device, set to `test` and `size`; of
    /// the plan, host, link, offset and memory are what closed forms are told of it.
    pub(crate) fn measure_lab(&self, file: &LabFile, test: Test, size: u32) -> Result<Row, RowError> {
        self.row(file, &AtomicBool::new(false), test, size)
    }

    /// An error, soon after `cancel` was set.
    fn row(&self, file: &LabFile, cancel: &AtomicBool, test: Test, size: u32) -> Result<Row, RowError> {
        let fail = |error: BenchError| RowError { test, size, error };
        let mut session = Session::new(file).map_err(|error| fail(error.into()))?;
        let results =
            session.measured().ok_or_else(|| fail("no device of the lab measures transfers".into()))?;
        let host = *session.host_basis();
        let counted = run(&mut session, &host, &results, cancel).map_err(fail)?;
        let taken = results.take();
        let bandwidth = match test.is_latency() {
            true => None,
            false => Some(self.bandwidth(test, size, &taken, &counted).map_err(fail)?),
        };
        Ok(Row {
            test: test.name(),
            size_bytes: size,
            latency: test.is_latency().then(|| Latencies::of(taken.latencies_ps)).flatten(),
            bandwidth,
            warm_up: taken.warm_up,
            link_ns: counted.elapsed_ps as f64 / 1_000.0,
            upstream: counted.up,
            downstream: counted.down,
            transactions: counted.transactions,
        })
    }

    /// How the figures of the profiles are known that a row of `test` rests on.
    ///
    /// # Errors
    /// What the model cannot do of it.
    pub fn basis(&self, test: Test, size: u32) -> Result<Basis, BenchError> {
        let offer = self.offer(test, size, 0).map_err(|fault| fault.message)?;
        let host = HostBasis::of(&self.host_of_lab(), &Folder::default());
        Ok(crate::basis::of(&host, offer.basis, test))
    }

    fn host_of_lab(&self) -> Host {
        let (profile, iommu) = (self.host.clone(), self.iommu.pages());
        Host { profile: Spanned::new(0..0, profile), iommu: Spanned::new(0..0, iommu), ..Host::default() }
    }

    /// All that a row of `test` is measured with.
    ///
    /// # Errors
    /// What the model cannot do of it.
    pub fn settings(&self, test: Test, size: u32) -> Result<Settings, BenchError> {
        let offer = self.offer(test, size, 0).map_err(|fault| fault.message)?;
        let link = lab::links::config(&self.link, &schema::Link::default());
        let [posted, non_posted] = [Class::Posted, Class::NonPosted].map(|c| link.root.rx_buffer[c.index()]);
        Ok(Settings {
            host: self.host.clone(),
            iommu: self.iommu,
            device: offer.device,
            generation: link.root.rate.generation(),
            lanes: link.root.width.lanes(),
            mps_bytes: link.root.mps.bytes(),
            mrrs_bytes: self.link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0).bytes(),
            rcb_bytes: self.rcb()?.bytes(),
            // Zero is infinite, as on the wire.
            posted_header_credits: posted.header.unwrap_or(0),
            posted_data_credits: posted.data.unwrap_or(0),
            non_posted_header_credits: non_posted.header.unwrap_or(0),
            non_posted_data_credits: non_posted.data.unwrap_or(0),
            addr_bits: if offer.memory == MemoryKind::Low { 32 } else { 64 },
            outstanding: if test.is_latency() { 1 } else { offer.outstanding },
            transfers: if test.is_latency() { self.latency_transfers } else { self.bandwidth_transfers },
            seed: self.seed,
            path: CardPath::Dma,
            cache: offer.cache,
            pattern: offer.pattern,
            host_offset_bytes: offer.host_offset_bytes,
            device_offset_bytes: 0,
            window_bytes: offer.window_bytes,
        })
    }

    /// The lab of a row.
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
            return Err(format!("a bandwidth needs more transfers than {transfers}").into());
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

/// The TLPs of a write, cut as the device cuts it.
fn writes(offer: &Offer, params: &Params, transfer: Transfer) -> TlpCount {
    match &offer.cut_writes {
        Some(cut) => {
            let pieces = cut(transfer.offset_bytes.into(), transfer.size_bytes, params.mps);
            TlpCount::of(pieces.into_iter())
        }
        None => model::writes(params, transfer),
    }
}

/// What the closed forms say of a row: the exact one, and the published one, which knows no offset.
fn models(
    offer: &Offer,
    params: &Params,
    test: Test,
    size: u32,
    counted: &Counted,
) -> Result<(f64, Option<f64>), BenchError> {
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

/// Of reads and writes in turn, so many more of the one kind than of the other are a matter of where a measurement begins and ends.
const EDGE_TRANSFERS: f64 = 2.0;

/// Bytes of one direction: of reads and writes in turn half of both, where as many of the one as of the other have ended. Where one
/// kind got ahead, its surplus has no counterpart, and the other's bytes are what both have moved.
fn one_way(test: Test, size: u32, results: &Transfers) -> f64 {
    let (read, written) = (results.bytes_read as f64, results.bytes_written as f64);
    match test {
        Test::BwRdWr if (read - written).abs() > EDGE_TRANSFERS * f64::from(size) => read.min(written),
        Test::BwRdWr => (read + written) / 2.0,
        _ => read + written,
    }
}

impl BandwidthRow {
    /// Whether, of reads and writes in turn, as many of the one as of the other have ended, but for the edges or a thousandth.
    fn is_steady(&self, size: u32) -> bool {
        let ns = self.transactions as f64 * 1e9 / self.transactions_per_s;
        let surplus = (self.read_gbps - self.write_gbps).abs() * ns / (8.0 * f64::from(size));
        surplus <= EDGE_TRANSFERS.max(self.transactions as f64 / 2_000.0)
    }
}

/// Raw rate x (1 - SKP share) x data / wire bytes of the direction that the data go.
fn wire_gbps(params: &Params, test: Test, counted: &Counted) -> f64 {
    let delta = counted.data_way(test);
    let useful = (delta.wire_bytes - delta.skp_bytes) as f64;
    params.raw_gbps() * (1.0 - params.skp_share()) * delta.payload_bytes as f64 / useful
}

/// The link while the transfers counted.
struct Counted {
    elapsed_ps: u64,
    up: DirectionDelta,
    down: DirectionDelta,
    transactions: Vec<TransactionReport>,
}

impl Counted {
    /// Transfers (of reads and writes in turn: pairs) that the link's counters have seen: they are read some events
    /// after the device has changed its phase, so their own data says how many.
    fn transfers(&self, test: Test, params: &Params, transfer: Transfer, writes: TlpCount) -> f64 {
        let per_transfer = match test {
            Test::BwRd => model::completions(params, transfer),
            _ => writes,
        };
        self.data_way(test).payload_bytes as f64 / (4 * per_transfer.data_dw) as f64
    }

    /// The direction that the data go; of reads and writes in turn, that of the writes.
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

/// The counters of both directions, upstream first, at a time.
struct Look {
    at: Time,
    counters: [Counters; 2],
}

/// Runs until the device has come to `phase`; what the counters say then.
fn until(
    session: &mut Session,
    results: &Shared<Transfers>,
    cancel: &AtomicBool,
    phase: Phase,
) -> Result<Look, BenchError> {
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
    Ok(Look { at: fabric.now(), counters })
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
