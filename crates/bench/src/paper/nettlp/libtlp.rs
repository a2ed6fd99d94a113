// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 7 to 10: DMA from device software to memory of an adapter's host. Each core of the paper is a thread with one tag, and
//! so with one UDP port and one outstanding request, as in LibTLP.

use super::super::published;
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Shape, Step, Verdict};
use super::super::{Effort, Live, PaperError};
use super::loopback::{Loopback, failed, machine};
use capture::encap::PortScheme;
use nettlp::adapter::{AdapterSettings, Function, Registers};
use nettlp::client::Waiting;
use nettlp::completer::Image;
use nettlp::net::{AdapterOptions, default_threads};
use nettlp::requester::Rest;
use nettlp::tools::perf::{Measured, Measurement, Pattern, Workload};
use nettlp::tools::{ClientOptions, MemoryServer, ServedMemory};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tlp::{Bdf, Mps, Mrrs, Rcb};

/// Numbers of cores.
const CORES: [u64; 5] = [1, 2, 4, 8, 16];
/// Request sizes of Figures 7 and 10, in bytes. The plots' sizes are not in the text.
const SIZES: [u64; 4] = [64, 256, 512, 1024];
/// Request sizes of Figure 9, in bytes.
const LATENCY_SIZES: [u64; 3] = [1, 256, 1024];
/// Ends of the teeth of Figure 8: size before a step, and after it, in bytes.
const TEETH: [u64; 4] = [512, 1024, 1536, 2048];
/// The step of Figure 8 in bytes.
const STEP: u64 = 16;
/// Bytes of the region, of which every request uses the first address, as in the paper.
const REGION_BYTES: u64 = 1 << 20;
/// Limit of completion timeout range A in us (PCIe 5.0 §7.5.3.15).
pub(super) const RANGE_A_US: f64 = 10_000.0;

/// An adapter with memory, and the options of its clients.
struct Rig {
    server: MemoryServer,
    clients: ClientOptions,
    id: Bdf,
}

impl Rig {
    fn start() -> Result<Rig, PaperError> {
        let (at, id) = (Loopback::new(), Bdf::from_bits(0x1b00));
        let mps = Mps::new(256).map_err(failed)?;
        let memory = ServedMemory {
            options: AdapterOptions { host: false, ..AdapterOptions::new(at.adapter) },
            settings: AdapterSettings { allow: at.allow()?, id, device: None, scheme: PortScheme::Paper },
            image: Arc::new(Image::zeroes(REGION_BYTES).map_err(failed)?),
            function: Arc::new(Function::new(Registers::new(id)).map_err(failed)?),
            mps,
            rcb: Rcb::default(),
            busy: false,
        };
        let server = MemoryServer::start(&memory, default_threads()).map_err(failed)?;
        let clients = ClientOptions {
            target: at.target(),
            requester: Some(id),
            tags: None,
            mps,
            mrrs: Mrrs::new(512).map_err(failed)?,
            timeout: None,
            retries: None,
            rest: Rest::LOOPBACK,
            waiting: Waiting::default(),
        };
        Ok(Rig { server, clients, id })
    }

    /// Calls `act` with an adapter that is stopped afterwards.
    fn with<T>(act: impl FnOnce(&Rig) -> Result<T, PaperError>) -> Result<T, PaperError> {
        let rig = Rig::start()?;
        let done = act(&rig);
        rig.server.stop().map_err(failed)?;
        done
    }

    /// Measures with one thread for each core, until `count` requests of each have ended or the time is over.
    fn measure(&self, dma: Dma, count: u64, span: std::time::Duration) -> Result<Measured, PaperError> {
        let Dma { is_write, cores, len } = dma;
        let options = ClientOptions { tags: Some(0..=(cores - 1) as u16), ..self.clients.clone() };
        let workload = Workload {
            is_write,
            address: 0,
            region_bytes: REGION_BYTES,
            is_split: false,
            pattern: Pattern::Fixed,
            seed: 1,
            len,
            threads: cores,
            outstanding: 1,
            batch: 1,
            count,
        };
        let measurement = Measurement::connect(&options, self.id, &workload).map_err(failed)?;
        let measured = measurement.run(&AtomicBool::new(false), span, |_| ());
        match &measured.error {
            Some(error) => Err(failed(error)),
            None => Ok(measured),
        }
    }

    /// Returns the rates of `all` in Gb/s: of each, the highest of all rounds, which other programs disturb least. A round measures
    /// each once, so that a change of the machine's load affects all of them.
    fn rates(&self, all: &[Dma], live: Live) -> Result<Vec<f64>, PaperError> {
        let mut rates = vec![0.0_f64; all.len()];
        for _ in 0..live.rounds {
            for (dma, rate) in all.iter().zip(&mut rates) {
                let Measured { tally, elapsed, .. } = self.measure(*dma, u64::MAX, live.span)?;
                *rate = rate.max(tally.bytes as f64 * 8.0 / elapsed.as_secs_f64() / 1e9);
            }
        }
        Ok(rates)
    }
}

/// One point of a figure.
#[derive(Clone, Copy, Debug)]
struct Dma {
    is_write: bool,
    cores: u64,
    len: u64,
}

/// Rates by cores, for each of [`SIZES`].
struct ByCores([[f64; CORES.len()]; SIZES.len()]);

impl ByCores {
    fn measure(is_write: bool, effort: &Effort) -> Result<ByCores, PaperError> {
        let all: Vec<Dma> =
            SIZES.iter().flat_map(|&len| CORES.map(|cores| Dma { is_write, cores, len })).collect();
        let rates = Rig::with(|rig| rig.rates(&all, effort.live))?;
        let mut rows = [[0.0; CORES.len()]; SIZES.len()];
        rows.iter_mut().flatten().zip(rates).for_each(|(to, rate)| *to = rate);
        Ok(ByCores(rows))
    }

    fn of(&self, len: u64) -> [f64; CORES.len()] {
        SIZES.iter().position(|&size| size == len).map_or([f64::NAN; CORES.len()], |at| self.0[at])
    }

    /// Returns the rate with 16 cores, `len` over `than` in per cent.
    fn gain_percent(&self, len: u64, than: u64) -> f64 {
        let last = CORES.len() - 1;
        100.0 * (self.of(len)[last] / self.of(than)[last] - 1.0)
    }

    fn most(&self) -> f64 {
        self.0.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Returns the shape "the rate of requests of `len` bytes rises with the cores".
    fn rises(&self, len: u64) -> Shape {
        let mut falling = self.of(len);
        falling.reverse();
        Shape::order(&format!("{len} B: the rate rises from 1 to 2, 4, 8, and 16 cores"), &falling)
    }

    fn report(&self, verdict: Verdict, notes: Vec<String>) -> ExperimentReport {
        let row = |(n, &cores): (usize, &u64)| {
            let rates = self.0.iter().map(|of| Cell::Number(of[n], 3));
            [Cell::integer(cores as u32)].into_iter().chain(rates).collect()
        };
        let line = |(len, rates): (&u64, &[f64; CORES.len()])| {
            Line::riser(format!("{len} B"), CORES.iter().map(|&cores| cores as f64).zip(*rates).collect())
        };
        ExperimentReport {
            verdict,
            tables: vec![Table {
                title: "Rate by cores: threads of the device host, each with one tag and one UDP port".into(),
                columns: BY_CORES,
                rows: CORES.iter().enumerate().map(row).collect(),
            }],
            notes,
            chart: Some(Chart {
                x: "cores (threads)",
                y: "rate of data (Gb/s)",
                lines: SIZES.iter().zip(&self.0).map(line).collect(),
            }),
            ..ExperimentReport::default()
        }
    }
}

const BY_CORES: &[Column] = &[
    Column { key: "cores", head: "cores" },
    Column { key: "size_64_gbps", head: "64 B Gb/s" },
    Column { key: "size_256_gbps", head: "256 B Gb/s" },
    Column { key: "size_512_gbps", head: "512 B Gb/s" },
    Column { key: "size_1024_gbps", head: "1024 B Gb/s" },
];

/// Figure 7: the rate of reads by cores.
pub(in super::super) fn reads_by_cores(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("figure7")?;
    let rates = ByCores::measure(false, effort)?;
    let numbers = paper.compare_all(&[("large", rates.gain_percent(1024, 512)), ("most", rates.most())])?;
    let verdict = Verdict::of(vec![rates.rises(256), rates.rises(512)], numbers);
    let note = "A thread waits for each completion. If there are more threads than cores, a thread's wait is used by the others, \
                and one system call of the adapter receives more requests.";
    Ok(rates.report(verdict, vec![machine(), note.into()]))
}

/// Figure 10: the rate of writes by cores.
pub(in super::super) fn writes_by_cores(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("figure10")?;
    let rates = ByCores::measure(true, effort)?;
    let numbers = paper.compare_all(&[("large", rates.gain_percent(512, 256))])?;
    let last = CORES.len() - 1;
    let small = Shape::above(
        "16 cores: 256 B have a higher rate than 64 B",
        &[(rates.of(256)[last], rates.of(64)[last])],
    );
    let verdict = Verdict::of(vec![rates.rises(256), small], numbers);
    let note = "Writes count when the kernel accepts their datagrams, as in the paper. On a loopback the sender's system call \
                also delivers the datagram, so more threads than cores send no faster.";
    Ok(rates.report(verdict, vec![machine(), note.into()]))
}

const BY_SIZE: &[Column] =
    &[Column { key: "size_bytes", head: "request B" }, Column { key: "gbps", head: "rate Gb/s" }];

/// Returns the sizes of Figure 8, by `step`, and the sizes at which the paper's teeth begin and end.
pub(super) fn sizes(step: u64) -> Vec<u64> {
    let ends = TEETH.iter().flat_map(|&tooth| [tooth, tooth + STEP, tooth - 256, tooth - 256 + STEP]);
    let mut sizes: Vec<u64> = (1..=TEETH[3] / step).map(|n| n * step).chain(ends).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Figure 8: the rate of reads by their size, with 16 cores.
pub(in super::super) fn reads_by_size(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let all: Vec<Dma> = sizes(effort.live.step_bytes)
        .into_iter()
        .map(|len| Dma { is_write: false, cores: 16, len })
        .collect();
    let rates = Rig::with(|rig| rig.rates(&all, effort.live))?;
    let points: Vec<(f64, f64)> = all.iter().map(|dma| dma.len as f64).zip(rates).collect();
    Ok(ExperimentReport {
        verdict: Verdict::of(teeth(&points), Vec::new()),
        tables: vec![by_size(&points)],
        notes: vec![machine(), "Max_Read_Request_Size is 512 B, Max_Payload_Size 256 B. A thread has one tag, so it sends the second part of a \
            read after the completions of the first part.".into()],
        chart: Some(by_size_chart(points)),
        ..ExperimentReport::default()
    })
}

/// Returns the table of rates by request size.
pub(super) fn by_size(points: &[(f64, f64)]) -> Table {
    let row = |&(len, rate): &(f64, f64)| vec![Cell::Number(len, 0), Cell::Number(rate, 3)];
    Table { title: "Rate by request size".into(), columns: BY_SIZE, rows: points.iter().map(row).collect() }
}

/// Returns the chart of rates by request size.
pub(super) fn by_size_chart(points: Vec<(f64, f64)>) -> Chart {
    Chart { x: "request (B)", y: "rate of data (Gb/s)", lines: vec![Line::riser("riser", points)] }
}

/// Returns the shapes of the paper's saw-tooth: the rate falls after each multiple of 512 B, by less after odd multiples of 256 B,
/// and rises to the next multiple of 512 B.
pub(super) fn teeth(points: &[(f64, f64)]) -> Vec<Shape> {
    let at = |len: u64| points.iter().find(|point| point.0 == len as f64).map_or(f64::NAN, |point| point.1);
    let step = |step, from: u64, to: u64| {
        let x = [format!("{from} B"), format!("{to} B")];
        Shape::sign("the rate", step, [&x[0], &x[1]], [at(from), at(to)])
    };
    let falls = TEETH[..3].iter().map(|&tooth| step(Step::Falls, tooth, tooth + STEP));
    let rises = TEETH[1..].iter().map(|&tooth| step(Step::Rises, tooth - 512 + STEP, tooth));
    let small = TEETH[..2].iter().map(|&tooth| step(Step::Falls, tooth - 256, tooth - 256 + STEP));
    falls.chain(rises).chain(small).collect()
}

const LATENCY: &[Column] = &[
    Column { key: "size_bytes", head: "request B" },
    Column { key: "min_us", head: "min us" },
    Column { key: "median_us", head: "median us" },
    Column { key: "p99_us", head: "99 % us" },
    Column { key: "max_us", head: "max us" },
];

/// Returns a hundred points of a distribution of latencies: the latency `at` a share of the reads, and that share in per cent.
pub(super) fn distribution(at: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (1..=100).map(|n| f64::from(n) - 0.5).map(|percent| (at(percent / 100.0), percent)).collect()
}

/// Quantiles of a distribution of latencies in us.
struct Latency {
    len: u64,
    min: f64,
    median: f64,
    p99: f64,
    max: f64,
    /// Points of the distribution: latency in us, share of reads in per cent.
    cdf: Vec<(f64, f64)>,
}

impl Latency {
    fn measure(rig: &Rig, len: u64, live: Live) -> Result<Latency, PaperError> {
        let dma = Dma { is_write: false, cores: 1, len };
        let Measured { tally, .. } = rig.measure(dma, live.reads, std::time::Duration::from_secs(10))?;
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile| us(tally.latency_ns.value_at_quantile(quantile));
        Ok(Latency {
            len,
            min: us(tally.latency_ns.min()),
            median: at(0.5),
            p99: at(0.99),
            max: us(tally.latency_ns.max()),
            cdf: distribution(at),
        })
    }
}

/// Figure 9: the distribution of the latency of reads.
pub(in super::super) fn latencies(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("figure9")?;
    let measured: Vec<Latency> =
        Rig::with(|rig| LATENCY_SIZES.iter().map(|&len| Latency::measure(rig, len, effort.live)).collect())?;
    let falling: Vec<f64> = measured.iter().rev().map(|of| of.median).collect();
    let below = |most: f64, of: fn(&Latency) -> f64| -> Vec<(f64, f64)> {
        measured.iter().map(|one| (most, of(one))).collect()
    };
    let shapes = vec![
        Shape::order("the median rises with the size: 1024, 256, 1 B", &falling),
        Shape::above("99 % take less than 27 us at each size", &below(27.0, |of| of.p99)),
        Shape::above("all end within completion timeout range A", &below(RANGE_A_US, |of| of.max)),
    ];
    let largest = measured.last().map_or(f64::NAN, |of| of.max);
    let numbers = paper.compare_all(&[("max_1024", largest)])?;
    let row = |of: &Latency| {
        let values = [of.min, of.median, of.p99, of.max].map(|value| Cell::Number(value, 1));
        [Cell::integer(of.len as u32)].into_iter().chain(values).collect()
    };
    let rows = measured.iter().map(row).collect();
    let lines = measured.into_iter().map(|of| Line::riser(format!("{} B", of.len), of.cdf)).collect();
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        tables: vec![Table {
            title: format!("Latency of {} reads, one at a time", effort.live.reads),
            columns: LATENCY,
            rows,
        }],
        notes: vec![machine(), "The maximum is the longest time for which an end waits for a core.".into()],
        chart: Some(Chart { x: "latency (us)", y: "share of reads (%)", lines }),
        ..ExperimentReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_ends_of_all_teeth() {
        assert_eq!(sizes(16).len(), 129, "2064 B end the last tooth");
        for size in [256, 272, 512, 528, 1536, 1552, 2048] {
            assert!(sizes(512).contains(&size), "{size}");
        }
    }

    /// A saw-tooth has all shapes; a straight line has only the rises.
    #[test]
    fn teeth_need_both_directions() {
        let saw = |len: u64| (len as f64, len as f64 / (len.div_ceil(512) + len.div_ceil(256)) as f64);
        let points: Vec<_> = sizes(16).into_iter().map(saw).collect();
        assert!(teeth(&points).iter().all(|shape| shape.reproduced), "{:?}", teeth(&points));
        let line: Vec<_> = points.iter().map(|point| (point.0, point.0)).collect();
        assert_eq!(teeth(&line).iter().filter(|shape| shape.reproduced).count(), 3);
    }
}
