// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 9, measured at the device. The disk uses links as in gem5, links with credits, and posted writes. It is below
//! a switch, as in the paper, or on a root port.

use super::super::figures::{self, Figure, Timeouts};
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Report, Table};
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

/// How the link avoids overflow, and whether writes are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// No flow control, as in gem5: a port drops TLPs for which it has no space.
    Dropping,
    /// Credits for the TLPs that the port has space for.
    Credits,
    /// The same credits, with posted writes.
    Posted,
}

const LINKS: [Link; 3] = [Link::Dropping, Link::Credits, Link::Posted];

/// Position of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    RootPort,
    /// Below a switch of this latency.
    Switch {
        latency_ns: u32,
    },
}

/// Below the switch of the paper.
const BEHIND: Place = Place::Switch { latency_ns: SWITCH_LATENCY_NS };

/// Parameters of one run of the disk.
#[derive(Clone, Copy, Debug)]
struct Run {
    place: Place,
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
    /// Timeouts per TLP that the disk sent, resent TLPs included.
    timeout_percent: f64,
    /// Resent TLPs per TLP that left the disk.
    replay_percent: f64,
}

impl Run {
    const fn new(place: Place, link: Link, lanes: u8) -> Run {
        Run { place, link, lanes, replay_buffer: REPLAY_BUFFER, port_buffer: PORT_BUFFER }
    }

    fn setup(self, effort: &Effort) -> Setup {
        let setup = match self.place {
            Place::RootPort => Setup::new(DIRECT, DIRECT_TEXT),
            Place::Switch { latency_ns } => {
                let lanes = if self.lanes == 1 { WIDE_LANES } else { self.lanes };
                Setup::new(SWITCHED, SWITCHED_TEXT)
                    .set("switch.0.latency_ns", i64::from(latency_ns))
                    .set("switch.0.link.lanes", i64::from(lanes))
                    .set("switch.0.link.ack_latency_symbols", i64::from(ack_symbols(lanes)))
            }
        };
        let setup = setup
            .set("link.lanes", i64::from(self.lanes))
            .set("link.ack_latency_symbols", i64::from(ack_symbols(self.lanes)))
            .set("link.replay_buffer_tlps", i64::from(self.replay_buffer))
            .set("slot.0.disk.sectors", i64::from(effort.sectors));
        // A bridge of gem5 accepts only as many requests as it has space for their responses.
        let places = u32::from(self.port_buffer);
        self.flow(setup).host(move |host| host.max_reads_per_port = places)
    }

    fn flow(self, setup: Setup) -> Setup {
        let tlps = i64::from(self.port_buffer);
        if self.link == Link::Dropping {
            return setup.set("link.port_buffer_tlps", tlps);
        }
        let setup = setup.without("link.flow_control").without("link.port_buffer_tlps");
        // A request of 64 B takes four data credits of 16 B.
        let setup = ["posted", "non_posted"].iter().fold(setup, |setup, class| {
            setup
                .set(&format!("link.root_credits.{class}_header"), tlps)
                .set(&format!("link.root_credits.{class}_data"), tlps * 4)
        });
        if self.link == Link::Posted { setup.set("slot.0.disk.writes", "posted") } else { setup }
    }

    fn measure(self, effort: &Effort) -> Result<Shown, PaperError> {
        let (disk, _, report) = self.setup(effort).device::<devices::disk::Report>()?;
        let bytes = disk.sectors * u64::from(SECTOR_BYTES);
        let gbps = |ps: u64| bytes as f64 * 8_000.0 / ps.max(1) as f64;
        let link = report.links.iter().find(|l| l.slot == "disk");
        let up = link.and_then(|l| l.directions.iter().find(|d| d.direction == "upstream"));
        let up = up.ok_or_else(|| PaperError::Lab("no link of the disk in the lab".into()))?;
        let percent = |n: u64| 100.0 * n as f64 / (up.tlps + up.replays).max(1) as f64;
        Ok(Shown {
            sector_gbps: gbps(disk.transferring.as_ps()),
            disk_gbps: gbps(disk.elapsed.as_ps()),
            timeout_percent: percent(up.replay_timeouts),
            replay_percent: percent(up.replays),
        })
    }
}

/// Returns gem5's Ack timer in symbol times (§V-C): the specification's rule for a payload of one cache line, without
/// internal delay. It uses the AckFactor of the smallest Max_Payload_Size.
fn ack_symbols(lanes: u8) -> u32 {
    const LINE_AND_OVERHEAD: u32 = 64 + 28;
    // AckFactor in tenths (`PCIe 5.0 §3.6.3.1`).
    let tenths = if lanes >= 12 {
        30
    } else if lanes == 8 {
        25
    } else {
        14
    };
    LINE_AND_OVERHEAD * tenths / (10 * u32::from(lanes))
}

/// A sweep: the column of its values, the values with the paper's percentage if there is one, and the effect of a value on
/// a run.
struct Sweep<'a> {
    columns: &'static [Column],
    x: &'static str,
    points: Vec<(u16, Option<f64>)>,
    lanes: u8,
    vary: &'a dyn Fn(Run, u16) -> Run,
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
    fn at(&self, effort: &Effort, place: Place) -> Result<Swept, PaperError> {
        let mut swept = Swept {
            table: Table { title: place.title(), columns: self.columns, rows: Vec::new() },
            shown: Vec::new(),
        };
        for &(value, paper) in &self.points {
            let measure = |link| (self.vary)(Run::new(place, link, self.lanes), value).measure(effort);
            let [dropping, credits, posted] = LINKS.map(measure);
            let shown = [dropping?, credits?, posted?];
            swept.table.rows.push(row(value, paper, &shown));
            swept.shown.push(shown);
        }
        Ok(swept)
    }

    /// Runs the sweep below a switch, as in the paper, and at a root port.
    fn everywhere(&self, effort: &Effort, notes: Vec<String>) -> Result<Report, PaperError> {
        let behind = self.at(effort, BEHIND)?;
        let direct = self.at(effort, Place::RootPort)?;
        Ok(Report {
            labs: vec![SWITCHED, DIRECT],
            chart: Some(self.chart(&behind.shown)),
            tables: vec![behind.table, direct.table],
            notes: with_common(notes),
            ..Report::default()
        })
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
        Cell::whole(value),
        Cell::maybe(paper, 0),
        Cell::Number(dropping.timeout_percent, 1),
        Cell::Number(dropping.replay_percent, 1),
        Cell::Number(dropping.sector_gbps, 3),
        Cell::Number(credits.replay_percent, 1),
        Cell::Number(credits.sector_gbps, 3),
        Cell::Number(posted.replay_percent, 1),
        Cell::Number(posted.disk_gbps, 3),
    ]
}

impl Place {
    fn title(self) -> String {
        match self {
            Place::RootPort => "Disk on a root port".into(),
            Place::Switch { latency_ns } => format!("Disk below a switch of {latency_ns} ns"),
        }
    }
}

/// Returns notes that are common to all parts of Figure 9.
fn common() -> Vec<String> {
    vec![
        "The paper's `dd` figures include the cost of its operating system. Here the rate is measured at the device: data divided by the time from the first request of a sector to its last completion. It excludes the 1 us of the disk itself.".into(),
        "Posted writes have no completion that would end a sector. Their figure is the sustained rate of the disk with its 1 us per sector, which the queues of the link hide if the link is slower.".into(),
        "A non-posted write is a deferrable memory write (DMWr) here: 64 B of data and 20 B around them, as in the paper's write requests, and a completion without data.".into(),
    ]
}

fn with_common(notes: Vec<String>) -> Vec<String> {
    common().into_iter().chain(notes).collect()
}

/// Figure 9(a).
pub(in super::super) fn switch_latency(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::gem5()?.disk;
    let sweep = Sweep {
        columns: BY_LATENCY,
        x: "switch latency (ns)",
        points: [50, 100, 150].map(|ns| (ns, None)).to_vec(),
        lanes: 1,
        vary: &|run, ns| Run { place: Place::Switch { latency_ns: ns.into() }, ..run },
    };
    let mut swept = sweep.at(effort, BEHIND)?;
    swept.table.title = "Disk below a switch, x1 to it and x4 above it".into();
    let gain = match (swept.shown.first(), swept.shown.last()) {
        (Some(first), Some(last)) => 100.0 * (first[0].disk_gbps / last[0].disk_gbps - 1.0),
        _ => 0.0,
    };
    let direct = Run::new(Place::RootPort, Link::Dropping, 1).measure(effort)?;
    let slowest = swept.shown.last().map_or(direct, |shown| shown[0]);
    let theirs = &paper.switch_latency_gain_percent;
    let notes = vec![
        x1(&paper.x1_sector_gbps, &slowest, &direct),
        format!(
            "From 150 to 50 ns of switch latency: {gain:.1} % more, with the disk's own latency; paper: {} % by dd ({}).",
            theirs.value, theirs.source
        ),
    ];
    Ok(Report {
        labs: vec![SWITCHED, DIRECT],
        chart: Some(sweep.chart(&swept.shown)),
        tables: vec![swept.table],
        notes: with_common(notes),
        ..Report::default()
    })
}

/// Compares the paper's figure at x1 with riser's, and with the limit of the wire.
fn x1(paper: &Figure, behind: &Shown, direct: &Shown) -> String {
    /// Gb/s of a Gen2 lane, and bytes of a request on the wire.
    const LANE_GBPS: f64 = 4.0;
    const WIRE_BYTES: f64 = 84.0;
    let bound = LANE_GBPS * 64.0 / WIRE_BYTES;
    format!(
        "x1: {:.3} Gb/s per sector below a switch of {SWITCH_LATENCY_NS} ns, {:.3} on a root port; {:.3} and {:.3} with the \
         disk's latency. Paper: {} ({}). A Gen2 lane cannot carry more than 4 Gb/s x 64 / 84 = {bound:.3} in requests of that \
         size. Acks, SKP ordered sets and the wait for the last completion lower this further: the paper's figure leaves out some of \
         them.",
        behind.sector_gbps, direct.sector_gbps, behind.disk_gbps, direct.disk_gbps, paper.value, paper.source
    )
}

/// Figure 9(b).
pub(in super::super) fn width(effort: &Effort) -> Result<Report, PaperError> {
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
        vary: &|run, lanes| Run { lanes: lanes as u8, ..run },
    };
    let x2 = &paper.disk.x2_over_x1;
    let notes = vec![
        format!("Paper: {}; {} times from x1 to x2 ({}).", paper.width.source, x2.value, x2.source),
        "In the paper, the buffers cause the drop from x4 to x8 (see gem5-port-buffer), not the wire.".into(),
    ];
    sweep.everywhere(effort, notes)
}

/// Figure 9(c).
pub(in super::super) fn replay_buffer(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::gem5()?.replay_buffer;
    let sweep = Sweep {
        columns: BY_REPLAY_BUFFER,
        x: "replay buffer (TLPs)",
        points: points(&paper),
        lanes: 8,
        vary: &|run, tlps| Run { replay_buffer: tlps, ..run },
    };
    sweep.everywhere(effort, vec![format!("Paper: {}.", paper.source), counting(), acks()])
}

/// Explains the two percentages, and which of them corresponds to the paper's.
fn counting() -> String {
    "Timeouts % counts how often the disk's REPLAY_TIMER expired, replays % counts the TLPs that it resent. Both are relative to all \
     TLPs on its link, including resent TLPs. One timeout resends the whole replay buffer, so there are several times as many \
     replays. The paper calls its figure the number of timeouts per transmitted packet. But for the same 27 % at x8 it says that this \
     part of the packets `experience replay` (Figure 9(b)). If the paper counts packets affected by a timeout, replays % is the \
     figure to compare. This mechanism cannot give 27 % timeouts. Each timeout here also makes the disk send an ERR_COR message, which gem5 \
     does not have."
        .into()
}

/// Explains when a TLP is acknowledged, which decides how fast small replay buffers are.
fn acks() -> String {
    "Acks follow the paper's `either immediately or after the ACK timer expires` (§V-C): the timer (56 ns at x8) runs from the last \
     Ack, and a TLP that arrives after it expired is acknowledged at once. So with a replay buffer of 1 the disk sends \
     a TLP every 56 ns, and with 2 every 28 ns. With 3 or 4 it sends one every 21 ns, as fast as the wire. A request keeps its place in the switch for 476 ns, \
     which needs 9, 17, 23 and 23 places. There are 16: a buffer of 2 overflows slightly, and 3 and 4 overflow equally."
        .into()
}

/// Figure 9(d).
pub(in super::super) fn port_buffer(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::gem5()?.port_buffer;
    let sweep = Sweep {
        columns: BY_PORT_BUFFER,
        x: "port buffer (TLPs)",
        points: points(&paper),
        lanes: 8,
        vary: &|run, tlps| Run { port_buffer: tlps, ..run },
    };
    let places = "The paper does not say when a place in a switch becomes free. Here a request keeps its place until its completion \
                  is back at the switch (`keep_places`). That takes 476 ns at x8, where a request arrives every 21 ns, so \
                  20 places are too few and 24 are enough, as in the paper. If requests kept their places until the \
                  completion has left the switch (626 ns), even 28 places would be too few. If a place is freed when \
                  the request leaves, as in switches of the specification, 16 are more than enough.";
    let notes = vec![format!("Paper: {}.", paper.source), counting(), places.into()];
    sweep.everywhere(effort, notes)
}

fn points(paper: &Timeouts) -> Vec<(u16, Option<f64>)> {
    paper.tlps.iter().zip(&paper.timeout_percent).map(|(tlps, percent)| (*tlps, Some(*percent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IISWC'18, §V-C with `PCIe 5.0 §3.6.3.1`: 92 x 1.4 = 128.8, 64.4, 32.2; 92 x 2.5 / 8 = 28.75.
    #[test]
    fn ack_timers_follow_the_rule_of_the_paper() {
        assert_eq!([1, 2, 4, 8].map(ack_symbols), [128, 64, 32, 28]);
    }
}
