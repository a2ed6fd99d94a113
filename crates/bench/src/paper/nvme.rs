// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An NVMe controller by the depth of its queue: the parts of a command's time, and the limit of the rate, from the
//! lab's own counters.

use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::{Effort, PaperError};
use devices::nvme::JobReport;
use plug::ns;
use session::TransactionReport;
use toml::Value;

const LAB: &str = "labs/papers/nvme.toml";
const TEXT: &str = include_str!("../../labs/papers/nvme.toml");
/// Tags of the controller in the lab.
const TAGS: f64 = 256.0;
const DEPTHS: [i64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

const COLUMNS: &[Column] = &[
    Column { key: "queue_depth", head: "depth" },
    Column { key: "kiops", head: "kIOPS" },
    Column { key: "data_gbps", head: "data Gb/s" },
    Column { key: "latency_ns", head: "command ns" },
    Column { key: "fetch_ns", head: "fetch" },
    Column { key: "data_ns", head: "data" },
    Column { key: "media_ns", head: "media" },
    Column { key: "completion_ns", head: "completion" },
    Column { key: "way_ns", head: "ways" },
    Column { key: "up_percent", head: "link up %" },
    Column { key: "down_percent", head: "link down %" },
    Column { key: "credit_percent", head: "no credit %" },
    Column { key: "tags", head: "tags" },
    Column { key: "doorbells_per_command", head: "doorbells per command" },
    Column { key: "limit", head: "limit" },
];

/// Counters of one run.
struct Seen {
    job: JobReport,
    /// Percentage of time that each direction was busy: up, down.
    busy: [f64; 2],
    /// Percentage of time that a packet waited for credits, in the direction where it waited longer.
    credit: f64,
    /// Mean number of tags in use.
    tags: f64,
}

impl Seen {
    fn of(job: &JobReport, report: &session::SessionReport) -> Seen {
        let elapsed = ns(job.elapsed).max(1.0);
        let directions = || report.links.iter().flat_map(|link| &link.directions);
        let busy = |name| {
            let of_name = directions().filter(|direction| direction.direction == name);
            of_name.map(|direction| 100.0 * direction.utilization).sum()
        };
        let stalls = directions().map(|direction| 100.0 * direction.credit_stall_ns / elapsed);
        // Little's law: a read holds its tag from the time it leaves the queue.
        let tagged = |read: &TransactionReport| {
            read.requests as f64 * (read.latency_ns_mean - read.mean.queue_ns) / elapsed
        };
        let transactions = report.links.iter().flat_map(|link| &link.transactions);
        Seen {
            job: job.clone(),
            busy: [busy("upstream"), busy("downstream")],
            credit: stalls.fold(0.0, f64::max),
            tags: transactions.filter(|transaction| transaction.kind == "dma_read").map(tagged).sum(),
        }
    }

    /// Returns the resource that is exhausted.
    fn limit(&self) -> &'static str {
        let [all, fetch, _, media, ..] = self.job.mean_ns();
        match self {
            Seen { busy: [up, _], .. } if *up >= 90.0 => "link up",
            Seen { busy: [_, down], .. } if *down >= 90.0 => "link down",
            Seen { credit, .. } if *credit >= 50.0 => "credits",
            Seen { tags, .. } if *tags >= 0.9 * TAGS => "tags",
            _ if media >= 0.5 * all => "media",
            _ if fetch >= 0.5 * all => "entries",
            _ => "round trips",
        }
    }
}

/// Runs the lab with these keys changed.
fn run(changes: &[(&str, Value)]) -> Result<Seen, PaperError> {
    let setup =
        changes.iter().fold(Setup::new(LAB, TEXT), |setup, (key, value)| setup.set(key, value.clone()));
    let (nvme, _, report) = setup.device::<devices::nvme::NvmeReport>()?;
    Ok(Seen::of(&nvme.job.unwrap_or_default(), &report))
}

fn row(depth: i64, seen: &Seen) -> Vec<Cell> {
    let [all, parts @ ..] = seen.job.mean_ns();
    let commands = seen.job.latencies.count().max(1) as f64;
    let mut row = vec![
        Cell::integer(depth as f64),
        Cell::Number(seen.job.iops() / 1000.0, 1),
        Cell::Number(seen.job.gbps(), 2),
        Cell::Number(all, 0),
    ];
    row.extend(parts.map(|part| Cell::Number(part, 0)));
    row.extend(seen.busy.map(|busy| Cell::Number(busy, 1)));
    row.extend([
        Cell::Number(seen.credit, 1),
        Cell::Number(seen.tags, 1),
        Cell::Number(seen.job.doorbells as f64 / commands, 2),
        Cell::Text(seen.limit().into()),
    ]);
    row
}

/// Throughput and the parts of a command's time over the queue depth.
pub(super) fn queue_depth(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let (mut tables, mut lines) = (Vec::new(), Vec::new());
    let links = [
        (3, "xeon-e5-2637v3", "optane-p4800x"),
        (3, "xeon-e5-2637v3", "ideal"),
        (5, "xeon-platinum-8480", "ideal"),
    ];
    for (generation, host, media) in links {
        for kind in ["read", "write"] {
            let (mut rows, mut points) = (Vec::new(), Vec::new());
            for depth in DEPTHS {
                let commands = i64::from(effort.frames) * 48;
                let seen = run(&[
                    ("link.gen", generation.into()),
                    ("host.profile", host.into()),
                    ("slot.0.nvme.media", media.into()),
                    ("slot.0.nvme.job.kind", kind.into()),
                    ("slot.0.nvme.job.queue_depth", depth.into()),
                    ("slot.0.nvme.job.commands", commands.into()),
                ])?;
                rows.push(row(depth, &seen));
                points.push((depth as f64, seen.job.gbps()));
            }
            lines.push(Line::riser(format!("{kind}, Gen{generation} x4, {media}"), points));
            let title = format!("{kind} of 4 KiB, Gen{generation} x4, host {host}, media {media}");
            tables.push(Table { title, columns: COLUMNS, rows });
        }
    }
    let notes = vec![
        "Times are means per command, in ns: from the doorbell until the controller has the command (fetch), data and their pointers, media, and the transfer of its completion. The rest is the transfer of doorbells, completions and interrupts. The time of the host's own instructions is not modelled.".into(),
        "Tags in use follow from Little's law: reads per second times the time of one read in flight. The table names one of these limits: the link, if a direction is busy for 90 % of the time; credits, if packets wait for them half of the time; tags, if 90 % of the 256 are in use. Or half of a command's time is spent in the media, or in reading queue entries, 16 at a time. Otherwise the limit is the round trip, and a deeper queue has more commands in flight.".into(),
        "For comparison, AnandTech (2017) measured an Intel Optane SSD DC P4800X of 375 GB. It served 108,300 reads per second one at a time, with a mean of 8.9 us, and 584,800 sixteen at a time.".into(),
    ];
    let chart = Some(Chart { x: "queue depth", y: "data (Gb/s)", lines });
    Ok(ExperimentReport { labs: vec![LAB], tables, notes, chart, ..ExperimentReport::default() })
}
