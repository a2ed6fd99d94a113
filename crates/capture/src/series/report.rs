// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counts of a series as rows, as text and as CSV.

use super::{Bin, Traffic};
use crate::credits::{Available, LedgerId};
use crate::matcher::Requester;
use crate::reader::Direction;
use crate::render::class_name;
use crate::sequence::LinkDirection;
use crate::stats::Id;
use crate::table::numbers;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use tlp::Class;

/// A capture over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeriesReport {
    /// Length of an interval, picoseconds.
    pub interval_ps: u128,
    /// The slot or switch at the end of each link, by number of the link. Has only links whose slot the capture
    /// names.
    pub slots: BTreeMap<u16, String>,
    /// All intervals from the first to the last with a frame.
    pub rows: Vec<Row>,
}

/// One interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Start of the interval in picoseconds since 1970; in riser's captures since the start of the run.
    pub start_ps: u128,
    /// The traffic of each direction of each link.
    pub links: Vec<WayRow>,
    /// Outstanding requests by requester.
    pub outstanding: Vec<OutstandingRow>,
    /// Minimum of the available credits, for credits that a TLP used and that the capture shows.
    pub credits: Vec<CreditRow>,
}

/// The traffic of one direction of a link in an interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WayRow {
    /// Number of the link.
    pub link: u16,
    /// Direction; `None` if the capture does not have it.
    pub direction: Option<Direction>,
    /// Posted requests.
    pub posted_tlps: u64,
    /// Non-posted requests.
    pub non_posted_tlps: u64,
    /// Completions.
    pub completion_tlps: u64,
    /// DLLPs.
    pub dllps: u64,
    /// Bytes of posted requests on the wire, with framing.
    pub posted_bytes: u64,
    /// Bytes of non-posted requests on the wire, with framing.
    pub non_posted_bytes: u64,
    /// Bytes of completions on the wire, with framing.
    pub completion_bytes: u64,
    /// Bytes of DLLPs on the wire, with framing.
    pub dllp_bytes: u64,
    /// Data of the TLPs in bytes.
    pub payload_bytes: u64,
    /// Rate of all bytes on the wire in gigabits per second.
    pub wire_gbps: f64,
    /// Fraction of the time that the wire was busy, 0 to 1; `None` if its speed is unknown.
    pub utilization: Option<f64>,
    /// The parts of `utilization` for posted requests, non-posted requests, completions and DLLPs.
    pub utilization_by_class: Option<[f64; 4]>,
}

/// Outstanding requests of a requester in an interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OutstandingRow {
    /// Number of the link.
    pub link: u16,
    /// Requester ID.
    pub requester: Id,
    /// Maximum number of outstanding requests.
    pub max: u32,
    /// Mean number over the interval.
    pub mean: f64,
}

/// Minimum of the available credits in an interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CreditRow {
    /// Number of the link.
    pub link: u16,
    /// Direction of the TLPs that use the credits.
    pub direction: Option<Direction>,
    /// Virtual channel.
    pub vc: u8,
    /// `P`, `NP` or `Cpl`.
    pub class: &'static str,
    /// Header credits.
    pub header_min: Available,
    /// Data credits in units of 16 B.
    pub data_min: Available,
}

pub(super) fn report(
    interval_ps: u128,
    mut bins: BTreeMap<u128, Bin>,
    slots: BTreeMap<u16, String>,
    speeds: &BTreeMap<LinkDirection, u64>,
    speed_bps: Option<u64>,
) -> SeriesReport {
    let (first, last) = (bins.keys().next().copied(), bins.keys().next_back().copied());
    let all = match (first, last) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    };
    let rows = all.map(|index| {
        let bin = bins.remove(&index).unwrap_or_default();
        let speed = |way| speeds.get(&way).copied().or(speed_bps);
        Row {
            start_ps: index * interval_ps,
            links: bin.ways.iter().map(|(way, t)| way_row(*way, t, speed(*way), interval_ps)).collect(),
            outstanding: bin
                .requesters
                .iter()
                .map(|(Requester { link, id }, occupied)| OutstandingRow {
                    link: *link,
                    requester: Id(*id),
                    max: occupied.max,
                    mean: occupied.area as f64 / interval_ps as f64,
                })
                .collect(),
            credits: bin.credits.iter().map(|(id, left)| credit_row(id, *left)).collect(),
        }
    });
    SeriesReport { interval_ps, slots, rows: rows.collect() }
}

fn way_row(
    (link, direction): LinkDirection,
    t: &Traffic,
    speed_bps: Option<u64>,
    interval_ps: u128,
) -> WayRow {
    let [posted_tlps, non_posted_tlps, completion_tlps, dllps] = t.packets;
    let [posted_bytes, non_posted_bytes, completion_bytes, dllp_bytes] = t.bytes;
    let bits: u64 = t.bytes.iter().sum::<u64>() * 8;
    // Number of bits that the wire can transfer in the interval.
    let capacity = speed_bps.map(|bps| bps as f64 * interval_ps as f64 / 1e12);
    WayRow {
        link,
        direction,
        posted_tlps,
        non_posted_tlps,
        completion_tlps,
        dllps,
        posted_bytes,
        non_posted_bytes,
        completion_bytes,
        dllp_bytes,
        payload_bytes: t.payload_bytes,
        wire_gbps: bits as f64 * 1_000.0 / interval_ps as f64,
        utilization: capacity.map(|capacity| bits as f64 / capacity),
        utilization_by_class: capacity.map(|capacity| t.bytes.map(|bytes| bytes as f64 * 8.0 / capacity)),
    }
}

fn credit_row(id: &LedgerId, (header_min, data_min): (Available, Available)) -> CreditRow {
    let LedgerId { way: (link, direction), vc, class } = *id;
    CreditRow { link, direction, vc, class: class_name(class), header_min, data_min }
}

/// Columns of the CSV. Each row has one value, which data frames can read directly.
pub const CSV_HEADER: &str = "start_ps,interval_ps,link,direction,of,measure,value\n";

impl SeriesReport {
    /// Returns the name of a link: its slot or switch, or its number.
    pub fn link(&self, link: u16) -> String {
        self.slots.get(&link).cloned().unwrap_or_else(|| link.to_string())
    }

    /// Returns the report as CSV with a header line.
    pub fn csv(&self) -> String {
        let mut csv = CSV_HEADER.to_owned();
        // Writing to a string cannot fail.
        self.rows.iter().for_each(|row| _ = self.append_csv_row(row, &mut csv));
        csv
    }

    fn append_csv_row(&self, row: &Row, out: &mut String) -> fmt::Result {
        let (start, interval) = (row.start_ps, self.interval_ps);
        for w in &row.links {
            let way = format!("{start},{interval},{},{}", w.link, w.direction.map_or("", Direction::name));
            let by_class = w.utilization_by_class.map_or([None; 4], |shares| shares.map(Some));
            let classes = [
                (class_name(Class::Posted), w.posted_tlps, w.posted_bytes),
                (class_name(Class::NonPosted), w.non_posted_tlps, w.non_posted_bytes),
                (class_name(Class::Completion), w.completion_tlps, w.completion_bytes),
                ("DLLP", w.dllps, w.dllp_bytes),
            ];
            for ((class, packets, bytes), share) in classes.into_iter().zip(by_class) {
                writeln!(out, "{way},{class},packets,{packets}\n{way},{class},wire_bytes,{bytes}")?;
                if let Some(share) = share {
                    writeln!(out, "{way},{class},utilization,{share:.6}")?;
                }
            }
            writeln!(out, "{way},,payload_bytes,{}", w.payload_bytes)?;
        }
        for o in &row.outstanding {
            let of = format!("{start},{interval},{},,{}", o.link, o.requester.0);
            writeln!(out, "{of},outstanding_max,{}\n{of},outstanding_mean,{:.6}", o.max, o.mean)?;
        }
        for c in &row.credits {
            let direction = c.direction.map_or("", Direction::name);
            let of = format!("{start},{interval},{},{direction},{}:vc{}", c.link, c.class, c.vc);
            writeln!(out, "{of},header_credits_min,{}\n{of},data_credits_min,{}", c.header_min, c.data_min)?;
        }
        Ok(())
    }
}

impl fmt::Display for SeriesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, rest) = (self.interval_ps / 1_000_000, self.interval_ps % 1_000_000);
        writeln!(f, "intervals of {us}.{rest:06} us; Gb/s and busy % on the wire, framing included")?;
        let header = "from us,link,direction,TLPs,payload B,P Gb/s,NP Gb/s,Cpl Gb/s,DLLP Gb/s,busy %";
        let header: Vec<&str> = header.split(',').collect();
        let cells = |row: &Row, way: &WayRow| self.link_cells(row, way);
        f.write_str(&self.table(&header, |row| &row.links, cells))?;
        if self.rows.iter().any(|row| !row.outstanding.is_empty()) {
            let cells = |row: &Row, o: &OutstandingRow| {
                let requester = o.requester.0.to_string();
                vec![row.start(), self.link(o.link), requester, o.max.to_string(), format!("{:.3}", o.mean)]
            };
            let header = ["from us", "link", "requester", "max", "mean"];
            let table = self.table(&header, |row| &row.outstanding, cells);
            write!(f, "\n\noutstanding requests\n{table}")?;
        }
        if self.rows.iter().any(|row| !row.credits.is_empty()) {
            let cells = |row: &Row, c: &CreditRow| {
                let counts = [c.header_min.to_string(), c.data_min.to_string()];
                let class = format!("{} vc {}", c.class, c.vc);
                let names = [row.start(), self.link(c.link), direction(c.direction), class];
                names.into_iter().chain(counts).collect()
            };
            let header = ["from us", "link", "direction", "class", "header", "data"];
            let table = self.table(&header, |row| &row.credits, cells);
            write!(f, "\n\nfewest credits left after a TLP\n{table}")?;
        }
        Ok(())
    }
}

impl SeriesReport {
    /// Returns a table with the rows that `of` returns for each interval.
    fn table<T>(
        &self,
        header: &[&str],
        of: impl Fn(&Row) -> &[T],
        cells: impl Fn(&Row, &T) -> Vec<String>,
    ) -> String {
        numbers(
            header,
            self.rows.iter().flat_map(|row| of(row).iter().map(|item| cells(row, item)).collect::<Vec<_>>()),
        )
    }

    fn link_cells(&self, row: &Row, way: &WayRow) -> Vec<String> {
        let gbps = |bytes: u64| format!("{:.3}", bytes as f64 * 8_000.0 / self.interval_ps as f64);
        let busy = way.utilization.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0));
        let tlps = way.posted_tlps + way.non_posted_tlps + way.completion_tlps;
        let bytes = [way.posted_bytes, way.non_posted_bytes, way.completion_bytes, way.dllp_bytes].map(gbps);
        let counts = [tlps.to_string(), way.payload_bytes.to_string()];
        let names = [row.start(), self.link(way.link), direction(way.direction)];
        names.into_iter().chain(counts).chain(bytes).chain([busy]).collect()
    }
}

impl Row {
    /// Returns the start of the interval in microseconds.
    fn start(&self) -> String {
        format!("{}.{:03}", self.start_ps / 1_000_000, self.start_ps / 1_000 % 1_000)
    }
}

fn direction(direction: Option<Direction>) -> String {
    direction.map_or("-", Direction::name).to_owned()
}
