// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 11 and Table 2: a benchmark card in a lab reads the memory of device software, over an adapter's BAR4 and UDP.

use super::super::published;
use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Outcome, Shape, Verdict};
use super::super::{Effort, PaperError};
use super::libtlp::{RANGE_A_US, by_size, by_size_chart, distribution, teeth};
use super::loopback::{Loopback, failed, machine};
use super::served::run_served;
use nettlp::completer::Image;
use nettlp::psmem::{Psmem, Window, serve};
use plug::counted;
use plug::transfers::Transfers;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tlp::{Bdf, Mps};

const PATH: &str = "labs/papers/nettlp-psmem.toml";
const LAB: &str = include_str!("../../../labs/papers/nettlp-psmem.toml");
/// Address of BAR4, as in the lab.
const BAR4: u64 = 0x8000_0000;
/// Bytes of the memory behind BAR4.
const MEMORY_BYTES: u64 = 1 << 20;
/// Request sizes of Table 2, in bytes.
const SIZES: [u32; 4] = [256, 512, 1024, 2048];
/// Rows of Table 2, with the end of each number's key.
const ROWS: [&str; 4] = ["min", "median", "max", "stddev"];
/// Number of runs after which a failing test is given up.
const ATTEMPTS: u32 = 10;
/// The same after the first test that was given up: the machine is too busy.
const FEW_ATTEMPTS: u32 = 2;
/// Advice for the user after failed runs.
const REMEDY: &str = "A run fails if a program does not run for the completion timeout of 50 ms: repeat the experiment on a machine without other load";
/// Smallest step of the sizes of Figure 11, in bytes. Each point is a run of the lab, so the step is larger than in Figure 8.
const STEP: u64 = 128;

/// Runs of a card's test over the adapter. Failed runs are repeated. A test that fails each time has no value, and the others go on.
#[derive(Default)]
struct Runs {
    failed: u32,
    /// Sizes of the tests without a value.
    lost: Vec<u64>,
    /// Reason of the last failed run.
    why: String,
}

impl Runs {
    /// Returns the transfers of the test; `None` if all its runs fail.
    fn transfers(&mut self, mut run: impl FnMut() -> Result<Transfers, PaperError>) -> Option<Transfers> {
        for _ in 0..if self.lost.is_empty() { ATTEMPTS } else { FEW_ATTEMPTS } {
            match run() {
                Ok(transfers) => return Some(transfers),
                Err(PaperError::Lab(why) | PaperError::Run(why)) => {
                    (self.failed, self.why) = (self.failed + 1, why);
                }
            }
        }
        None
    }

    /// Returns the verdict: not run if a value is missing.
    ///
    /// # Errors
    /// No test has a value.
    fn verdict(&self, verdict: Verdict, tests: usize) -> Result<Verdict, PaperError> {
        match self.lost.len() {
            0 => Ok(verdict),
            lost if lost < tests => Ok(Verdict { outcome: Outcome::NotRun, ..verdict }),
            _ => Err(PaperError::Run(format!(
                "all {} runs failed, the last with: {}. {REMEDY}",
                self.failed, self.why
            ))),
        }
    }

    /// Returns the note about failed runs, if there were any.
    fn note(&self) -> Option<String> {
        let lost: Vec<String> = self.lost.iter().map(u64::to_string).collect();
        let lost = match &lost[..] {
            [] => "Repeated runs gave all values".to_owned(),
            lost => format!("Requests of {} B have no value", lost.join(", ")),
        };
        let count = counted(self.failed, "run");
        (self.failed > 0).then(|| format!("{count} failed, the last with: {}. {lost}. {REMEDY}.", self.why))
    }
}

fn run_once(test: &str, size: u32, count: u64) -> Result<Transfers, PaperError> {
    let at = Loopback::new();
    let lab = Setup::new(PATH, LAB)
        .set("slot.0.pcie-bench.test", test)
        .set("slot.0.pcie-bench.size_bytes", i64::from(size))
        .set("slot.0.pcie-bench.transfers", count as i64);
    let image = Arc::new(Image::zeroes(MEMORY_BYTES).map_err(failed)?);
    let mut carrier = at.target().open(0..=0xf, true).map_err(failed)?;
    let mps = Mps::new(256).map_err(failed)?;
    let mut psmem = Psmem::new(Bdf::default(), mps, Window { base: BAR4, image });
    let device = move |stop: &std::sync::atomic::AtomicBool| {
        serve(&mut carrier, &mut psmem, false, |_| !stop.load(Ordering::Relaxed)).map_err(failed)
    };
    let (lab, ()) = run_served(lab.build()?, at, device, |lab| lab.host_outcome().is_some())?;
    if let Some(Err(why)) = lab.host_outcome() {
        return Err(failed(why));
    }
    let measured = lab.session().measured().ok_or_else(|| failed("the lab has no benchmark card"))?;
    Ok(measured.take())
}

/// Figure 11: the rate of the card's reads, by size.
pub(in super::super) fn reads(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("figure11")?;
    let sizes = super::libtlp::sizes(effort.live.step_bytes.max(STEP));
    let (mut rates, mut runs) = (vec![f64::NAN; sizes.len()], Runs::default());
    for _ in 0..effort.live.rounds {
        for (size, rate) in sizes.iter().zip(&mut rates) {
            if runs.lost.contains(size) {
                continue;
            }
            match runs.transfers(|| run_once("BW_RD", *size as u32, effort.live.reads / 10)) {
                Some(done) => *rate = rate.max(plug::gbps(done.bytes_read, done.elapsed())),
                // An earlier round may have a value.
                None if rate.is_nan() => runs.lost.push(*size),
                None => {}
            }
        }
    }
    let points: Vec<(f64, f64)> =
        sizes.iter().map(|&size| size as f64).zip(rates).filter(|(_, rate)| !rate.is_nan()).collect();
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    Ok(ExperimentReport {
        verdict: runs.verdict(Verdict::of(teeth(&points), paper.compare_all(&[("most", most)])?), sizes.len())?,
        labs: vec![PATH],
        tables: vec![by_size(&points)],
        notes: [machine(), "The card has 24 reads under way, with the paper's tags 0 to 17h. The lab runs in real time, and the times are \
            those of its clock, which includes the wire, the switch and the adapter's link.".into()].into_iter().chain(runs.note()).collect(),
        chart: Some(by_size_chart(points)),
        ..ExperimentReport::default()
    })
}

/// Values of a row of Table 2, in us.
struct Latencies {
    values: [f64; 4],
    cdf: Vec<(f64, f64)>,
}

impl Latencies {
    fn of(transfers: Transfers) -> Latencies {
        let mut us: Vec<f64> = transfers.latencies_ps.iter().map(|ps| *ps as f64 / 1e6).collect();
        us.sort_by(f64::total_cmp);
        let count = us.len().max(1) as f64;
        let at = |share: f64| us.get((share * (count - 1.0)) as usize).copied().unwrap_or(f64::NAN);
        let mean = us.iter().sum::<f64>() / count;
        let spread = us.iter().map(|of| (of - mean) * (of - mean)).sum::<f64>() / count;
        Latencies { values: [at(0.0), at(0.5), at(1.0), spread.sqrt()], cdf: distribution(at) }
    }
}

const TABLE2: &[Column] = &[
    Column { key: "size_bytes", head: "request B" },
    Column { key: "min_us", head: "min us" },
    Column { key: "median_us", head: "median us" },
    Column { key: "max_us", head: "max us" },
    Column { key: "stddev_us", head: "stddev us" },
];

/// Table 2: the latency of the card's reads.
pub(in super::super) fn table2(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("table2")?;
    let (mut numbers, mut rows, mut lines, mut within) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut runs = Runs::default();
    for size in SIZES {
        let Some(done) = runs.transfers(|| run_once("LAT_RD", size, effort.live.reads)) else {
            runs.lost.push(size.into());
            continue;
        };
        let Latencies { values, cdf } = Latencies::of(done);
        for (row, value) in ROWS.iter().zip(values) {
            numbers.push(paper.compare(&format!("{row}_{size}"), value)?);
        }
        within.push((RANGE_A_US, values[2]));
        let cells = values.map(|value| Cell::Number(value, 3));
        rows.push([Cell::integer(size)].into_iter().chain(cells).collect());
        lines.push(Line::riser(format!("{size} B"), cdf));
    }
    let shape = Shape::above("all reads end within completion timeout range A", &within);
    Ok(ExperimentReport {
        verdict: runs.verdict(Verdict::of(vec![shape], numbers), SIZES.len())?,
        labs: vec![PATH],
        tables: vec![Table {
            title: format!("Latency of {} reads, one at a time", effort.live.reads),
            columns: TABLE2,
            rows,
        }],
        notes: [machine()].into_iter().chain(runs.note()).collect(),
        chart: Some(Chart { x: "latency (us)", y: "share of reads (%)", lines }),
        ..ExperimentReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_runs_lose_one_value_and_not_the_others() {
        let mut runs = Runs::default();
        let fails = || Err(PaperError::Run("no completion came in time".into()));
        let mut left = 3;
        let fails_twice = || {
            left -= 1;
            if left > 0 { fails() } else { Ok(Transfers::default()) }
        };
        assert!(runs.transfers(fails_twice).is_some());
        let ending = "Repeated runs gave all values. A run fails if a program does not run";
        assert!(runs.note().is_some_and(|note| note.starts_with("2 runs failed") && note.contains(ending)));
        let verdict = Verdict::of(Vec::new(), Vec::new());
        assert_eq!(runs.verdict(verdict.clone(), 4), Ok(verdict.clone()));
        assert!(runs.transfers(fails).is_none());
        runs.lost.push(512);
        assert!(runs.transfers(fails).is_none());
        assert_eq!(runs.failed, 2 + ATTEMPTS + FEW_ATTEMPTS);
        assert_eq!(runs.verdict(verdict.clone(), 4).unwrap().outcome, Outcome::NotRun);
        let note = runs.note().unwrap();
        assert!(note.contains("no completion came in time. Requests of 512 B have no value. "), "{note}");
        let error = runs.verdict(verdict, 1).unwrap_err().to_string();
        assert!(error.contains("all 14 runs failed") && error.contains("without other load"), "{error}");
    }

    #[test]
    fn latencies_have_their_quantiles_and_spread() {
        let transfers = Transfers {
            latencies_ps: [3, 1, 2, 10].map(|us| us * 1_000_000).to_vec(),
            ..Transfers::default()
        };
        let Latencies { values, cdf } = Latencies::of(transfers);
        assert_eq!((values[0], values[1], values[2]), (1.0, 2.0, 10.0));
        assert!((values[3] - 12.5_f64.sqrt()).abs() < 1e-9, "{values:?}");
        assert_eq!((cdf.len(), cdf[0], cdf[99]), (100, (1.0, 0.5), (3.0, 99.5)));
    }
}
