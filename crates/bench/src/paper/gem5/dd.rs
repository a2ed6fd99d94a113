// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 9(a) by `dd`: a Linux guest reads blocks from an NVMe controller in the paper's topology.
//!
//! QEMU counts instructions, and the fabric's time stands still between the guest's accesses. So the fabric's clock measures
//! the device and its links, and the kernel's clock, without idle time, measures the operating system. One command is in flight at a time:
//! neither overlaps with the other, and `dd` takes the sum.

use super::super::figures::{self, Disk, Figure, Gem5};
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Compared, Limit, Shape, Verdict};
use super::super::{Effort, PaperError};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAB: &str = "labs/papers/gem5-dd.toml";
/// The program of the guest.
const SCRIPT: &str = include_str!("dd.sh");
/// Latencies of the switch, from the slowest.
const SWITCH_NS: [u32; 3] = [150, 100, 50];
/// Settings for the widest links of Figure 9(d).
const X8: [&str; 2] = ["link.lanes=8", "switch.switch.link.lanes=8"];
/// Memory of the guest, with space for the largest block.
const MEMORY_MIB: u32 = 1024;
/// Wall time of a guest in which it has failed.
const LIMIT_SECONDS: u32 = 1800;
/// Difference to the paper's share of the operating system that counts as agreement.
const SHARE_LIMIT: Limit = Limit::Points(5.0);

/// The columns of every table, after its first.
const fn columns(first: Column) -> [Column; 7] {
    [
        first,
        Column { key: "block_mib", head: "block MiB" },
        Column { key: "device_ms", head: "device and links ms" },
        Column { key: "system_ms", head: "operating system ms" },
        Column { key: "system_percent", head: "operating system %" },
        Column { key: "device_gbps", head: "device Gb/s" },
        Column { key: "dd_gbps", head: "dd Gb/s" },
    ]
}

const BY_LATENCY: &[Column] = &columns(Column { key: "switch_latency_ns", head: "switch ns" });
const BY_LANES: &[Column] = &columns(Column { key: "lanes", head: "lanes" });

/// Times of one `dd`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Run {
    mib: u32,
    /// Time of the device and its links.
    device_ns: f64,
    /// Time of the kernel and of `dd`, without idle time.
    system_ns: f64,
}

impl Run {
    fn bits(&self) -> f64 {
        f64::from(self.mib) * f64::from(1 << 20) * 8.0
    }

    fn device_gbps(&self) -> f64 {
        self.bits() / self.device_ns
    }

    fn dd_gbps(&self) -> f64 {
        self.bits() / (self.device_ns + self.system_ns)
    }

    fn system_percent(&self) -> f64 {
        100.0 * self.system_ns / (self.device_ns + self.system_ns)
    }

    fn row(&self, first: u32) -> Vec<Cell> {
        vec![
            Cell::integer(first),
            Cell::integer(self.mib),
            Cell::Number(self.device_ns / 1e6, 2),
            Cell::Number(self.system_ns / 1e6, 2),
            Cell::Number(self.system_percent(), 1),
            Cell::Number(self.device_gbps(), 3),
            Cell::Number(self.dd_gbps(), 3),
        ]
    }
}

/// Reads a line of the guest's program: the size in MiB, and the times between the two readings of the clocks.
fn reading(line: &str) -> Option<Run> {
    let numbers: Vec<f64> =
        line.strip_prefix("dd ")?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [mib, ps, now, idle, ps_after, now_after, idle_after] = numbers[..] else { return None };
    let (device_ns, system_ns) = ((ps_after - ps) / 1e3, (now_after - idle_after) - (now - idle));
    Some(Run { mib: mib as u32, device_ns, system_ns })
}

/// Reads the output of the guest's program. The first `dd` reads nothing: its time, for the start of a process, is subtracted from the others.
fn runs(output: &str, sizes: &[u32]) -> Result<Vec<Run>, PaperError> {
    let unexpected = || PaperError::Run(format!("the guest's output is not one line per block: {output:?}"));
    let all: Vec<Run> = output.lines().map(reading).collect::<Option<_>>().ok_or_else(unexpected)?;
    let Some((empty, runs)) = all.split_first() else { return Err(unexpected()) };
    if empty.mib != 0 || !runs.iter().map(|run| &run.mib).eq(sizes) {
        return Err(unexpected());
    }
    let without = |run: &Run| Run {
        device_ns: run.device_ns - empty.device_ns,
        system_ns: run.system_ns - empty.system_ns,
        ..*run
    };
    Ok(runs.iter().map(without).collect())
}

/// Returns the program of this process, if it is `riser`.
fn riser() -> Result<PathBuf, PaperError> {
    let program =
        env::current_exe().ok().filter(|program| program.file_stem().is_some_and(|stem| stem == "riser"));
    program
        .ok_or_else(|| PaperError::Run("a guest needs the program riser: use `riser paper gem5-dd`".into()))
}

/// Runs riser and returns its standard output.
fn output(riser: &Path, arguments: &[&str]) -> Result<String, PaperError> {
    let failed = |why: String| PaperError::Run(format!("riser {} {}: {why}", arguments[0], arguments[1]));
    let output = Command::new(riser).args(arguments).output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}, {}", output.status, errors.lines().last().unwrap_or_default())));
    }
    String::from_utf8(output.stdout).map_err(|e| failed(e.to_string()))
}

/// Refuses to start a guest whose parts are not here, because the download is large.
fn check_parts(cached: &str) -> Result<(), PaperError> {
    let has = |part: &str| cached.split_whitespace().any(|word| word.starts_with(part));
    if has("qemu-") && has("kernel-6.1") {
        return Ok(());
    }
    let why = format!("no QEMU or kernel here; `riser guest run {LAB} -- true` downloads them (0.7 GB)");
    Err(PaperError::Run(why))
}

/// Boots a guest on the lab with these settings, and returns the times of `dd` for each size.
fn measure(riser: &Path, settings: &[&str], sizes: &[u32]) -> Result<Vec<Run>, PaperError> {
    let (memory, limit) = (MEMORY_MIB.to_string(), LIMIT_SECONDS.to_string());
    let sizes_text: Vec<String> = sizes.iter().map(u32::to_string).collect();
    let mut arguments = vec!["guest", "run", LAB, "--direct", "--icount", "0"];
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    arguments.extend(["--module", "nvme", "--memory-mib", &memory, "--time-limit", &limit]);
    arguments.extend(["--", "sh", "-c", SCRIPT, "dd.sh"]);
    arguments.extend(sizes_text.iter().map(String::as_str));
    runs(&output(riser, &arguments)?, sizes)
}

/// Figure 9(a) by `dd`.
pub(in super::super) fn dd(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    if !Path::new(LAB).is_file() {
        return Err(PaperError::Run(format!("no file {LAB} here: run this in a checkout of riser")));
    }
    let riser = riser()?;
    check_parts(&output(&riser, &["guest", "cache", "list"])?)?;
    let mut measured = Vec::new();
    for switch_ns in SWITCH_NS {
        let latency = format!("switch.switch.latency_ns={switch_ns}");
        measured.push((switch_ns, measure(&riser, &[&latency], effort.dd_mib)?));
    }
    let wide = measure(&riser, &X8, &effort.dd_mib[..1])?;
    Ok(report(&figures::gem5()?, &measured, &wide))
}

fn mean(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// Returns the mean throughput of `dd` for each latency, from the fastest. The system's time per byte is the mean of all runs: it does not
/// depend on the switch, and differs by some per cent from run to run.
fn steady_rates(measured: &[(u32, Vec<Run>)]) -> Vec<f64> {
    let all = || measured.iter().flat_map(|(_, runs)| runs);
    let per_bit = all().map(|run| run.system_ns).sum::<f64>() / all().map(Run::bits).sum::<f64>();
    let rate = |run: &Run| Run { system_ns: per_bit * run.bits(), ..*run }.dd_gbps();
    measured.iter().rev().map(|(_, runs)| mean(runs, rate)).collect()
}

/// Rounds a rate in Gb/s to whole Mb/s. Smaller differences between runs are not the switch's.
fn whole_mbps(gbps: f64) -> f64 {
    (gbps * 1e3).round() / 1e3
}

/// Compares the times of `dd` by latency of the switch, from the slowest, with the paper. `wide`: times with links of x8.
fn report(
    Gem5 { disk: paper, port_buffer, .. }: &Gem5,
    measured: &[(u32, Vec<Run>)],
    wide: &[Run],
) -> ExperimentReport {
    let [(_, slowest), ..] = measured else { return ExperimentReport::default() };
    let rates = steady_rates(measured);
    let device: Vec<_> = slowest.iter().map(|run| (run.device_gbps(), run.dd_gbps())).collect();
    let shapes = vec![
        Shape::order(
            "throughput of dd by switch latency: 50 ns > 100 ns > 150 ns, by whole Mb/s",
            &rates.iter().copied().map(whole_mbps).collect::<Vec<_>>(),
        ),
        Shape::above("the device alone is faster than dd, for each block", &device),
    ];
    let (error, gain) = (Limit::Percent(paper.error_percent.value), &paper.switch_latency_gain_percent);
    let paper_dd = paper.switch_latency_gain_mbps.value / gain.value / 10.0;
    let paper_share = 100.0 * (1.0 - paper_dd / paper.x1_sector_gbps.value);
    let dd_gbps = mean(slowest, Run::dd_gbps);
    let number = |what: &str, unit: &str, paper, riser, limit| Compared {
        what: what.into(),
        unit: unit.into(),
        paper,
        riser,
        limit,
    };
    let share = mean(slowest, Run::system_percent);
    let gained = 100.0 * (rates[0] / rates[rates.len() - 1] - 1.0);
    let numbers = vec![
        number("throughput of dd", "Gb/s", paper_dd, dd_gbps, error),
        number("share of the operating system", "%", paper_share, share, SHARE_LIMIT),
        number("gain from 150 to 50 ns", "%", gain.value, gained, error),
    ];
    let rows = measured.iter().flat_map(|(ns, runs)| runs.iter().map(|run| run.row(*ns))).collect();
    let table = |title: &str, columns, rows| Table { title: title.into(), columns, rows };
    let points =
        |runs: &[Run], of: fn(&Run) -> f64| runs.iter().map(|run| (f64::from(run.mib), of(run))).collect();
    let lines = measured
        .iter()
        .map(|(ns, runs)| Line::riser(format!("dd, switch of {ns} ns"), points(runs, Run::dd_gbps)));
    let alone = Line::riser("device alone, switch of 150 ns", points(slowest, Run::device_gbps));
    ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        labs: vec![LAB],
        tables: vec![
            table("dd with direct I/O, one block; x1 to the switch, x4 above it", BY_LATENCY, rows),
            table("All links x8, switch of 150 ns", BY_LANES, wide.iter().map(|run| run.row(8)).collect()),
        ],
        notes: notes(paper, paper_dd, gained)
            .into_iter()
            .chain(wide.first().map(|run| at_x8(run, &port_buffer.saturated_gbps)))
            .collect(),
        chart: Some(Chart {
            x: "block (MiB)",
            y: "throughput (Gb/s)",
            lines: lines.chain([alone]).collect(),
        }),
        ..ExperimentReport::default()
    }
}

fn notes(paper: &Disk, paper_dd: f64, gained: f64) -> Vec<String> {
    let (mbps, gain) = (&paper.switch_latency_gain_mbps, &paper.switch_latency_gain_percent);
    vec![
        format!(
            "The paper prints no throughput of dd for Figure 9(a). {} Mb/s ({}) are {} % of {paper_dd:.2} Gb/s. The device alone has {} Gb/s, so \
             the rest is the share of the operating system. Both are as exact as the paper's `~3 %`.",
            mbps.value, mbps.source, gain.value, paper.x1_sector_gbps.value
        ),
        "The time of the device and its links is the fabric's time, which stands still while the guest computes. The time of the operating system \
         is the guest's time without its idle time: instructions of the kernel and of dd, at an assumed 1 ns each. A dd that reads nothing is subtracted. The \
         driver has one command of 128 KiB in flight, as for the paper's IDE disk. With more of them, a part of both times overlaps."
            .into(),
        format!(
            "riser's NVMe controller posts its writes, as the paper's physical SSD does. So a command of 128 KiB, about 316 us at x1, waits for the switch only at \
             its begin and end: 100 ns less save less than 1 us, and the guest's clock of the fabric advances in coarser steps. The measured gain is {gained:.2} %. The \
             paper's IDE disk waits for the completions of each sector of 4 KiB (§VI-B). `riser paper gem5-switch-latency` has such \
             writes, and the paper's gain."
        ),
    ]
}

/// States the share of the operating system at x8, next to the highest rate of `dd` in the paper.
fn at_x8(run: &Run, saturated: &Figure) -> String {
    format!(
        "At x8 the operating system takes {:.0} % of the time: the device has {:.2} Gb/s, and dd {:.2}. So a rate of dd, as the paper's {} Gb/s ({}), is \
         far below that at the device, which `riser paper gem5-port-buffer` measures.",
        run.system_percent(),
        run.device_gbps(),
        run.dd_gbps(),
        saturated.value,
        saturated.source
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::verdict::Outcome;
    use super::*;

    const OUTPUT: &str =
        "dd 0 1000 5000 1000 2000 9000 1000\ndd 64 0 10000 2000 160001000000 40014000 10002000\n";

    #[test]
    fn subtracts_idle_time_and_start_of_dd() {
        let run = Run { mib: 64, device_ns: 160e6, system_ns: 30e6 };
        assert_eq!(
            runs(OUTPUT, &[64]).unwrap(),
            [Run { device_ns: 160_001_000.0 - 1.0, system_ns: 30_000_000.0, ..run }]
        );
    }

    #[test]
    fn refuses_other_output() {
        for output in
            ["", "dd 64 1 2 3 4 5 6\n", "dd 0 1 2 3 4 5 6\n", "dd 0 1 2 3 4 5\n", "dd 0 1 2 3 4 5 6\nOops\n"]
        {
            let error = runs(output, &[64]).unwrap_err().to_string();
            assert!(error.contains("not one line per block"), "{output:?}: {error}");
        }
        let error = runs(OUTPUT, &[128]).unwrap_err().to_string();
        assert!(error.contains("not one line per block"), "{error}");
    }

    /// Two sizes below each switch: the device and the system take these times per MiB.
    fn measured(device_ns: [f64; 3], system_ns: f64) -> Vec<(u32, Vec<Run>)> {
        let run = |ns: f64, mib: u32| Run {
            mib,
            device_ns: ns * f64::from(mib),
            system_ns: system_ns * f64::from(mib),
        };
        SWITCH_NS
            .into_iter()
            .zip(device_ns)
            .map(|(switch, ns)| (switch, vec![run(ns, 64), run(ns, 128)]))
            .collect()
    }

    #[test]
    fn states_share_of_operating_system_and_gain() {
        let paper = figures::gem5().unwrap();
        // 3.072 Gb/s at the device are 2.731 ms per MiB.
        let device = 8.0 * f64::from(1 << 20) / 3.072;
        let system = device * 0.15;
        let gained = |percent: f64| device - (device + system) * (1.0 - 1.0 / (1.0 + percent / 100.0));
        let wide = [Run { mib: 64, device_ns: 30e6, system_ns: 30e6 }];
        let report_of = |percent| {
            report(&paper, &measured([device, gained(percent / 2.0), gained(percent)], system), &wide)
        };
        let as_paper = report_of(3.0);
        assert_eq!(as_paper.verdict.outcome, Outcome::Reproduced, "{:?}", as_paper.verdict);
        assert_eq!(as_paper.tables[0].rows.len(), 6);
        let note = as_paper.notes.last().unwrap();
        assert!(note.starts_with("At x8 the operating system takes 50 % of the time"), "{note}");
        let number = |report: &ExperimentReport, at: usize| report.verdict.numbers[at].riser;
        assert!((number(&as_paper, 0) - 3.072 / 1.15).abs() < 1e-9);
        assert!((number(&as_paper, 1) - 100.0 * 0.15 / 1.15).abs() < 1e-9);
        assert!((number(&as_paper, 2) - 3.0).abs() < 1e-9);
        assert_eq!(report_of(0.2).verdict.outcome, Outcome::ShapeReproduced);
        assert_eq!(report_of(-1.0).verdict.outcome, Outcome::NotReproduced);
    }

    #[test]
    fn missing_parts_or_program_prevent_the_run() {
        assert!(check_parts("1 1 B today kernel-6.1\n2 2 B today qemu-amd64\n").is_ok());
        let error = check_parts("0 bytes (0 B) in /cache\n").unwrap_err().to_string();
        assert!(error.contains("no QEMU or kernel here"), "{error}");
        assert!(riser().unwrap_err().to_string().contains("needs the program riser"));
    }
}
