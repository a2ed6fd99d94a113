// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 9, measured at the device. The disk uses links as in gem5, links with credits, and posted writes. It is below
//! a switch, as in the paper, or on a root port.

use super::super::figures::{self, Figure};
use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Compared, Limit, Shape, Step, Verdict};
use super::super::{Effort, PaperError};
use devices::disk::SECTOR_BYTES;

const DIRECT: &str = "labs/papers/gem5-disk.toml";
const DIRECT_TEXT: &str = include_str!("../../../labs/papers/gem5-disk.toml");
const SWITCHED: &str = "labs/papers/gem5-switch.toml";
const SWITCHED_TEXT: &str = include_str!("../../../labs/papers/gem5-switch.toml");

/// Default space of each port, in TLPs (§VI-B).
const PORT_BUFFER: u16 = 16;
/// Default space of a replay buffer, in TLPs (§VI-A).
const REPLAY_BUFFER: u16 = 4;
/// Latency of the switch (§V-B).
const SWITCH_LATENCY_NS: u32 = 150;
/// Lanes from root port to switch if the disk has one lane (§VI-A).
const WIDE_LANES: u8 = 4;

/// Difference to the paper's percentages of timeouts that counts as agreement.
const TIMEOUT_LIMIT: Limit = Limit::Points(5.0);

/// How the link avoids overflow, and whether writes are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// No flow control, as in gem5: a port drops TLPs for which it has no space.
    Dropping,
    /// The same, but replays are by sequence number, as in the specification.
    BySequence,
    /// Credits for the TLPs that the port has space for.
    Credits,
    /// The same credits, with posted writes.
    Posted,
}

/// The links that every sweep compares.
const LINKS: [Link; 3] = [Link::Dropping, Link::Credits, Link::Posted];

/// Position of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DiskPosition {
    RootPort,
    /// Below a switch of this latency.
    Switch {
        latency_ns: u32,
    },
}

/// Below the switch of the paper.
const BEHIND: DiskPosition = DiskPosition::Switch { latency_ns: SWITCH_LATENCY_NS };

/// Parameters of one run of the disk.
#[derive(Clone, Copy, Debug)]
struct DiskRun {
    place: DiskPosition,
    link: Link,
    lanes: u8,
    replay_buffer: u16,
    port_buffer: u16,
}

/// Results of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shown {
    /// Data rate over the time from the first request of each sector to its last completion.
    sector_gbps: f64,
    /// Data rate including the disk's own latency.
    disk_gbps: f64,
    /// Timeouts per TLP that the disk sent, resent TLPs not counted.
    timeout_percent: f64,
    /// Resent TLPs, by the same count.
    replay_percent: f64,
}

impl DiskRun {
    const fn new(place: DiskPosition, link: Link, lanes: u8) -> DiskRun {
        DiskRun { place, link, lanes, replay_buffer: REPLAY_BUFFER, port_buffer: PORT_BUFFER }
    }

    fn setup(self, effort: &Effort) -> Setup {
        let setup = match self.place {
            DiskPosition::RootPort => Setup::new(DIRECT, DIRECT_TEXT),
            DiskPosition::Switch { latency_ns } => {
                let lanes = if self.lanes == 1 { WIDE_LANES } else { self.lanes };
                Setup::new(SWITCHED, SWITCHED_TEXT)
                    .set("switch.0.latency_ns", i64::from(latency_ns))
                    .set("switch.0.link.lanes", i64::from(lanes))
            }
        };
        let setup = setup
            .set("link.lanes", i64::from(self.lanes))
            .set("link.replay_buffer_tlps", i64::from(self.replay_buffer))
            .set("slot.0.disk.sectors", i64::from(effort.sectors));
        // A bridge of gem5 accepts only as many requests as it has space for their responses.
        let places = u32::from(self.port_buffer);
        self.flow(setup).host(move |host| host.max_reads_per_port = places)
    }

    fn flow(self, setup: Setup) -> Setup {
        let tlps = i64::from(self.port_buffer);
        match self.link {
            Link::Dropping => return setup.set("link.port_buffer_tlps", tlps),
            Link::BySequence => {
                return setup.set("link.port_buffer_tlps", tlps).set("link.replay_cursor", "sequence");
            }
            Link::Credits | Link::Posted => {}
        }
        let none = ["flow_control", "port_buffer_tlps", "replay_cursor"];
        let setup = none.iter().fold(setup, |setup, key| setup.without(&format!("link.{key}")));
        // A request of 128 B takes eight data credits of 16 B.
        let setup = ["posted", "non_posted"].iter().fold(setup, |setup, class| {
            setup
                .set(&format!("link.root_credits.{class}_header"), tlps)
                .set(&format!("link.root_credits.{class}_data"), tlps * 8)
        });
        if self.link == Link::Posted {
            // Without waits for completions, a disk reads its descriptors ahead.
            setup.set("slot.0.disk.writes", "posted").set("slot.0.disk.descriptors", false)
        } else {
            setup
        }
    }

    fn measure(self, effort: &Effort) -> Result<Shown, PaperError> {
        let (disk, _, report) = self.setup(effort).device::<devices::disk::DiskReport>()?;
        let bytes = disk.sectors * u64::from(SECTOR_BYTES);
        let gbps = |ps: u64| bytes as f64 * 8_000.0 / ps.max(1) as f64;
        let link = report.links.iter().find(|l| l.slot == "disk");
        let up = link.and_then(|l| l.directions.iter().find(|d| d.direction == "upstream"));
        let up = up.ok_or_else(|| PaperError::Lab("no link of the disk in the lab".into()))?;
        let percent = |n: u64| 100.0 * n as f64 / up.tlps.max(1) as f64;
        Ok(Shown {
            sector_gbps: gbps(disk.transferring.as_ps()),
            disk_gbps: gbps(disk.elapsed.as_ps()),
            timeout_percent: percent(up.replay_timeouts),
            replay_percent: percent(up.replays),
        })
    }
}

/// A sweep: the column of its values, the values with the paper's percentage if there is one, and the effect of a value on
/// a run.
struct Sweep<'a> {
    columns: &'static [Column],
    x: &'static str,
    points: Vec<(u16, Option<f64>)>,
    lanes: u8,
    vary: &'a dyn Fn(DiskRun, u16) -> DiskRun,
}

/// The columns of every sweep, after its values.
const fn columns(x: Column) -> [Column; 9] {
    [
        x,
        Column { key: "paper_timeout_percent", head: "paper: timeouts %" },
        Column { key: "timeout_percent", head: "no credits: timeouts %" },
        Column { key: "replay_percent", head: "replays %" },
        Column { key: "sector_gbps", head: "sector Gb/s" },
        Column { key: "credits_replay_percent", head: "credits: replays %" },
        Column { key: "credits_sector_gbps", head: "sector Gb/s" },
        Column { key: "posted_replay_percent", head: "posted: replays %" },
        Column { key: "posted_disk_gbps", head: "disk Gb/s" },
    ]
}

const BY_LATENCY: &[Column] = &columns(Column { key: "switch_latency_ns", head: "switch ns" });
const BY_LANES: &[Column] = &columns(Column { key: "lanes", head: "lanes" });
const BY_REPLAY_BUFFER: &[Column] = &columns(Column { key: "replay_buffer_tlps", head: "replay buffer" });
const BY_PORT_BUFFER: &[Column] = &columns(Column { key: "port_buffer_tlps", head: "port buffer" });

/// Results of a sweep at one position.
struct Swept {
    table: Table,
    shown: Vec<[Shown; 3]>,
}

impl Sweep<'_> {
    fn at(&self, effort: &Effort, place: DiskPosition) -> Result<Swept, PaperError> {
        let mut swept = Swept {
            table: Table { title: place.title(), columns: self.columns, rows: Vec::new() },
            shown: Vec::new(),
        };
        for &(value, paper) in &self.points {
            let measure = |link| (self.vary)(DiskRun::new(place, link, self.lanes), value).measure(effort);
            let [dropping, credits, posted] = LINKS.map(measure);
            let shown = [dropping?, credits?, posted?];
            // The paper's disk is below a switch.
            swept.table.rows.push(row(value, paper.filter(|_| place == BEHIND), &shown));
            swept.shown.push(shown);
        }
        Ok(swept)
    }

    /// Runs the sweep below a switch, as in the paper, and at a root port. `verdict` compares the results below the switch, without
    /// flow control, with the paper.
    fn everywhere(
        &self,
        effort: &Effort,
        verdict: impl Fn(&[Shown]) -> Verdict,
        notes: Vec<String>,
    ) -> Result<ExperimentReport, PaperError> {
        let behind = self.at(effort, BEHIND)?;
        let direct = self.at(effort, DiskPosition::RootPort)?;
        let dropping: Vec<Shown> = behind.shown.iter().map(|[dropping, ..]| *dropping).collect();
        Ok(ExperimentReport {
            verdict: verdict(&dropping),
            labs: vec![SWITCHED, DIRECT],
            chart: Some(self.chart(&behind.shown)),
            tables: vec![behind.table, direct.table],
            notes: with_common(notes),
            ..ExperimentReport::default()
        })
    }

    /// The paper's percentages of timeouts next to riser's. `x` is the unit of the values.
    fn timeouts(&self, x: &str, shown: &[Shown]) -> Vec<Compared> {
        let known = self.points.iter().zip(shown);
        let compared = known.filter_map(|((value, paper), shown)| {
            Some(Compared {
                what: format!("timeouts, {x} {value}"),
                unit: "%".into(),
                paper: (*paper)?,
                riser: shown.timeout_percent,
                limit: TIMEOUT_LIMIT,
            })
        });
        compared.collect()
    }

    fn chart(&self, shown: &[[Shown; 3]]) -> Chart {
        let names = ["no credits", "credits", "posted writes, with the disk's latency"];
        let line = |(at, name): (usize, &str)| {
            let values = self.points.iter().zip(shown);
            let gbps = |s: &Shown| if LINKS[at] == Link::Posted { s.disk_gbps } else { s.sector_gbps };
            Line::riser(name, values.map(|((x, _), s)| (f64::from(*x), gbps(&s[at]))).collect())
        };
        let lines = names.into_iter().enumerate().map(line).collect();
        Chart { x: self.x, y: "throughput per sector (Gb/s)", lines }
    }
}

fn row(value: u16, paper: Option<f64>, [dropping, credits, posted]: &[Shown; 3]) -> Vec<Cell> {
    vec![
        Cell::integer(value),
        Cell::optional(paper, 0),
        Cell::Number(dropping.timeout_percent, 1),
        Cell::Number(dropping.replay_percent, 1),
        Cell::Number(dropping.sector_gbps, 3),
        Cell::Number(credits.replay_percent, 1),
        Cell::Number(credits.sector_gbps, 3),
        Cell::Number(posted.replay_percent, 1),
        Cell::Number(posted.disk_gbps, 3),
    ]
}

impl DiskPosition {
    fn title(self) -> String {
        match self {
            DiskPosition::RootPort => "Disk on a root port".into(),
            DiskPosition::Switch { latency_ns } => format!("Disk below a switch of {latency_ns} ns"),
        }
    }
}

/// Returns notes that are common to all parts of Figure 9.
fn common() -> Vec<String> {
    vec![
        "The paper's `dd` figures include the cost of its operating system. Here the rate is measured at the device: data divided by the time from the first request of a sector to its last completion. It excludes the 1 us of the disk itself, and the read of the sector's descriptor before it.".into(),
        "Posted writes have no completion that would end a sector. Their figure is the sustained rate of the disk with its 1 us per sector, which the queues of the link hide if the link is slower. Its descriptors take no time, because a disk that does not wait reads them ahead.".into(),
        "A non-posted write is a deferrable memory write (DMWr) here: 128 B of data, the cache line of gem5's example configuration, and 20 B around them, and a completion without data. The paper's 3.072 Gb/s at x1 exceeds the 3.048 that requests of 64 B could reach.".into(),
    ]
}

fn with_common(notes: Vec<String>) -> Vec<String> {
    common().into_iter().chain(notes).collect()
}

/// Figure 9(a).
pub(in super::super) fn switch_latency(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::gem5()?.disk;
    let sweep = Sweep {
        columns: BY_LATENCY,
        x: "switch latency (ns)",
        points: [50, 100, 150].map(|ns| (ns, None)).to_vec(),
        lanes: 1,
        vary: &|run, ns| DiskRun { place: DiskPosition::Switch { latency_ns: ns.into() }, ..run },
    };
    let mut swept = sweep.at(effort, BEHIND)?;
    swept.table.title = "Disk below a switch, x1 to it and x4 above it".into();
    let gain = match (swept.shown.first(), swept.shown.last()) {
        (Some(first), Some(last)) => 100.0 * (first[0].disk_gbps / last[0].disk_gbps - 1.0),
        _ => 0.0,
    };
    let direct = DiskRun::new(DiskPosition::RootPort, Link::Dropping, 1).measure(effort)?;
    let slowest = swept.shown.last().map_or(direct, |shown| shown[0]);
    let error = Limit::Percent(paper.error_percent.value);
    let number = |what: &str, unit: &str, paper: &Figure, riser| Compared {
        what: what.into(),
        unit: unit.into(),
        paper: paper.value,
        riser,
        limit: error,
    };
    let numbers = vec![
        number("per sector at x1", "Gb/s", &paper.x1_sector_gbps, slowest.sector_gbps),
        number("gain from 150 to 50 ns", "%", &paper.switch_latency_gain_percent, gain),
    ];
    let rates: Vec<f64> = swept.shown.iter().map(|shown| shown[0].disk_gbps).collect();
    let shapes = vec![Shape::order("throughput by switch latency: 50 ns > 100 ns > 150 ns", &rates)];
    let theirs = &paper.switch_latency_gain_percent;
    let notes = vec![
        x1(&paper.x1_sector_gbps, &slowest, &direct),
        hardware(&paper, &slowest),
        format!(
            "From 150 to 50 ns of switch latency: {gain:.1} % more, with the disk's own latency; paper: {} % by dd ({}). Four TLPs \
             cross the switch one after the other: the read of the sector's descriptor and its completion, and the sector's last request \
             and its completion. So 100 ns less save at most 400 ns of {:.1} us per sector.",
            theirs.value,
            theirs.source,
            f64::from(SECTOR_BYTES) * 8e-3 / slowest.disk_gbps
        ),
    ];
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        labs: vec![SWITCHED, DIRECT],
        chart: Some(sweep.chart(&swept.shown)),
        tables: vec![swept.table],
        notes: with_common(notes),
        ..ExperimentReport::default()
    })
}

/// Compares the paper's figure at x1 with riser's, and with the limit of the wire.
fn x1(paper: &Figure, behind: &Shown, direct: &Shown) -> String {
    /// Gb/s of a Gen2 lane, and bytes of a request: of data, and on the wire.
    const LANE_GBPS: f64 = 4.0;
    const DATA_BYTES: f64 = 128.0;
    const WIRE_BYTES: f64 = 148.0;
    let bound = LANE_GBPS * DATA_BYTES / WIRE_BYTES;
    format!(
        "x1: {:.3} Gb/s per sector below a switch of {SWITCH_LATENCY_NS} ns, {:.3} on a root port; {:.3} and {:.3} with the \
         disk's latency. Paper: {} ({}). A Gen2 lane cannot carry more than 4 Gb/s x 128 / 148 = {bound:.3} in requests of that \
         size. Acks, SKP ordered sets and the wait for the last completion lower this further.",
        behind.sector_gbps, direct.sector_gbps, behind.disk_gbps, direct.disk_gbps, paper.value, paper.source
    )
}

/// States the text's comparison with the physical SSD.
fn hardware(paper: &figures::Disk, behind: &Shown) -> String {
    let (physical, [least, most]) = (&paper.physical_gbps, paper.of_physical_percent);
    let of_limit = |gbps: f64| 100.0 * gbps / physical.value;
    format!(
        "Hardware: gem5's dd reaches {least} to {most} % of a physical SSD (§VI-B). The text gives no numbers of the physical curve, \
         only its limit of {} Gb/s ({}), so gem5's curve is at most {:.1} Gb/s. The rate per sector here is {:.0} % of the limit, \
         and {:.0} % with the disk's latency. The physical SSD posts its writes and does not wait for completions.",
        physical.value,
        physical.source,
        physical.value * most / 100.0,
        of_limit(behind.sector_gbps),
        of_limit(behind.disk_gbps),
    )
}

/// Figure 9(b).
pub(in super::super) fn width(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::gem5()?;
    let known = |lanes: u16| {
        let of = paper.width.lanes.iter().zip(&paper.width.replay_percent);
        of.into_iter().find(|(l, _)| u16::from(**l) == lanes).map(|(_, p)| *p)
    };
    let sweep = Sweep {
        columns: BY_LANES,
        x: "lanes",
        points: [1, 2, 4, 8].map(|lanes| (lanes, known(lanes))).to_vec(),
        lanes: 1,
        vary: &|run, lanes| DiskRun { lanes: lanes as u8, ..run },
    };
    let x2 = &paper.disk.x2_over_x1;
    let verdict = |shown: &[Shown]| {
        let [x1, x2_rate, x4, x8] = rates(shown);
        let shapes = vec![
            Shape::sign(RATE, Step::Rises, ["x1", "x2"], [x1, x2_rate]),
            Shape::sign(RATE, Step::Rises, ["x2", "x4"], [x2_rate, x4]),
            Shape::order("a smaller factor from x2 to x4 than from x1 to x2", &[x2_rate / x1, x4 / x2_rate]),
            Shape::sign(RATE, Step::Falls, ["x4", "x8"], [x4, x8]),
        ];
        let limit = Limit::Percent(paper.disk.error_percent.value);
        let (what, riser) = ("throughput at x2 over x1".into(), x2_rate / x1);
        let gain = Compared { what, unit: String::new(), paper: x2.value, riser, limit };
        let numbers = std::iter::once(gain).chain(sweep.timeouts("lanes", shown)).collect();
        Verdict::of(shapes, numbers)
    };
    let by_sequence = DiskRun::new(BEHIND, Link::BySequence, 8).measure(effort)?;
    let notes = vec![
        format!("Paper: {}; {} times from x1 to x2 ({}).", paper.width.source, x2.value, x2.source),
        counting(),
        cursor(),
        format!(
            "With replays by sequence number and all else equal, x8 has {:.1} % of timeouts and {:.3} Gb/s per sector.",
            by_sequence.timeout_percent, by_sequence.sector_gbps
        ),
    ];
    sweep.everywhere(effort, verdict, notes)
}

const RATE: &str = "throughput per sector";

/// Returns the rates per sector of a sweep of four values.
fn rates(shown: &[Shown]) -> [f64; 4] {
    std::array::from_fn(|at| shown.get(at).map_or(f64::NAN, |shown| shown.sector_gbps))
}

/// Figure 9(c).
pub(in super::super) fn replay_buffer(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::gem5()?.replay_buffer;
    let sweep = Sweep {
        columns: BY_REPLAY_BUFFER,
        x: "replay buffer (TLPs)",
        points: points(&paper.tlps, &paper.timeout_percent),
        lanes: 8,
        vary: &|run, tlps| DiskRun { replay_buffer: tlps, ..run },
    };
    let verdict = |shown: &[Shown]| {
        let [one, two, three, four] = rates(shown);
        let slower = |large: &str, rate| {
            Shape::order(
                &format!("throughput with a replay buffer of 1 or 2 > with {large}"),
                &[one.min(two), rate],
            )
        };
        let shapes = vec![slower("3", three), slower("4", four)];
        Verdict::of(shapes, sweep.timeouts("replay buffer", shown))
    };
    sweep.everywhere(effort, verdict, vec![format!("Paper: {}.", paper.source), counting(), cursor(), acks()])
}

/// Explains the two percentages, and which of them corresponds to the paper's.
fn counting() -> String {
    "Timeouts % counts how often the disk's REPLAY_TIMER expired, replays % counts the TLPs that it resent. Both are relative to the \
     different TLPs on its link: a resent TLP is not counted again. The paper calls its figure the number of timeouts per \
     transmitted packet, so timeouts % is the figure to compare."
        .into()
}

/// Explains the rule that makes a replay slow.
fn cursor() -> String {
    "The links without credits follow gem5's rules (`replay_cursor = \"position\"`). A replay has a position in the replay buffer. An Ack \
     that arrives during a replay shortens the buffer and leaves the position: the replay skips a TLP. Each Ack that the disk itself \
     sends has the same effect. The switch drops all TLPs after a skipped one, so about two TLPs pass per timeout. This rule causes the paper's \
     27 % and its drop from x4 to x8. The specification replays by sequence number."
        .into()
}

/// Explains when a TLP is acknowledged, which decides how fast small replay buffers are.
fn acks() -> String {
    "Acks follow the paper's `either immediately or after the ACK timer expires` (§V-C): the timer (92 ns at x8) runs from the last \
     Ack, and a TLP that arrives after it expired is acknowledged at once. So with a replay buffer of 1 the disk sends \
     a TLP every 92 ns, and with 2 every 46 ns. With 3 or 4 it sends one every 37 ns, as fast as the wire. A request keeps its place in \
     the switch for about 757 ns, which needs 9, 17, 21 and 21 places. There are 16: a buffer of 2 overflows slightly, and 3 and 4 \
     overflow equally."
        .into()
}

/// Figure 9(d).
pub(in super::super) fn port_buffer(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::gem5()?;
    let (error, paper) = (paper.disk.error_percent, paper.port_buffer);
    let sweep = Sweep {
        columns: BY_PORT_BUFFER,
        x: "port buffer (TLPs)",
        points: points(&paper.tlps, &paper.timeout_percent),
        lanes: 8,
        vary: &|run, tlps| DiskRun { port_buffer: tlps, ..run },
    };
    let saturated = &paper.saturated_gbps;
    let verdict = |shown: &[Shown]| {
        let [b16, b20, b24, b28] = rates(shown);
        let timeouts: Vec<(f64, f64)> =
            sweep.points.iter().zip(shown).map(|((x, _), s)| (f64::from(*x), s.timeout_percent)).collect();
        let shapes = vec![
            Shape::sign(RATE, Step::Rises, ["16", "20"], [b16, b20]),
            Shape::order("a larger gain from 16 to 20 than from 20 to 24", &[b20 - b16, b24 - b20]),
            Shape::knee("timeouts in per cent", 0.0, 24.0, &timeouts),
        ];
        let (what, limit) = ("throughput at 28, by dd".into(), Limit::Percent(error.value));
        let level = Compared { what, unit: "Gb/s".into(), paper: saturated.value, riser: b28, limit };
        let numbers = sweep.timeouts("port buffer", shown).into_iter().chain([level]).collect();
        Verdict::of(shapes, numbers)
    };
    let places = "A request keeps its place in the switch until its completion has left the switch (`keep_places_until = \"sent\"`), \
                  about 757 ns at x8: the switch both ways, the root complex both ways, 113 ns of memory and the wires. A request \
                  arrives every 37 ns, so 20 places are almost enough, and 24 are enough. If a place is freed when the request \
                  leaves, as in switches of the specification, 16 are more than enough.";
    let gain = "Not reproduced: the paper gains much from 16 to 20 and little after it, with 20 % of timeouts left at 20. Each of these \
                timeouts costs 277 ns here, so a large gain needs the end of the timeouts, at 24. No rule of the paper's text gives \
                its curve. The paper's 5.08 Gb/s include the cost of its operating system; the rate here is measured at the device.";
    let notes = vec![
        format!("Paper: {}; {}.", paper.source, saturated.source),
        counting(),
        cursor(),
        places.into(),
        gain.into(),
    ];
    sweep.everywhere(effort, verdict, notes)
}

fn points(values: &[u16], percent: &[f64]) -> Vec<(u16, Option<f64>)> {
    values.iter().zip(percent).map(|(value, percent)| (*value, Some(*percent))).collect()
}
