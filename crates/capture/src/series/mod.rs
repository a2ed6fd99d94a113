// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts a capture over time: traffic per interval, link, direction and class, outstanding requests per requester,
//! and the minimum of the available credits. Memory is bounded by [`MAX_INTERVALS`], [`MAX_REQUESTERS`] and the
//! number of links. One pass over the capture is enough for any interval.
//!
//! Bytes are wire bytes: a TLP has 8 bytes more for framing, sequence number and LCRC, and a DLLP has 8 bytes. A
//! frame, including lost ones and replays, counts in the interval in which its last symbol passed. Outstanding
//! requests and credits depend only on the TLPs that the receiver took.

mod report;

pub use report::{CSV_HEADER, CreditRow, OutstandingRow, Row, SeriesReport, WayRow};

use crate::credits::{Available, LedgerId, Ledgers};
use crate::decode::{Kind, Record, TlpRecord};
use crate::matcher::{Matcher, Requester};
use crate::sequence::{Arrival, LinkDirection, Sequences, way};
use std::collections::BTreeMap;
use tlp::{DLLP_LEN, Rate, Width};

/// Maximum number of intervals of a report.
pub const MAX_INTERVALS: u64 = 100_000;
/// Maximum number of requesters whose outstanding requests are counted.
pub const MAX_REQUESTERS: usize = 256;
/// Maximum number of rows with an automatic interval.
pub const AUTOMATIC_ROWS: u64 = 24;

/// Maximum number of fine intervals that are kept until the automatic interval is chosen.
const FINE: u64 = 1_000;
/// Length of the fine intervals at the start: 1 ns.
const FINEST_PS: u64 = 1_000;
/// Framing, sequence number and LCRC of a TLP (`PCIe 5.0 §4.2.1`, §4.2.2); framing of a DLLP.
const TLP_FRAMING: u64 = 8;
const DLLP_FRAMING: u64 = 2;

/// The index of DLLPs in arrays, after the classes of TLPs.
const DLLPS: usize = 3;

/// The traffic of one direction in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// TLPs by class, and DLLPs.
    packets: [u64; 4],
    /// Their bytes on the wire.
    bytes: [u64; 4],
    payload_bytes: u64,
}

/// Outstanding requests in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Occupied {
    max: u32,
    /// Requests times picoseconds.
    area: u128,
}

#[derive(Clone, Debug, Default)]
struct Bin {
    ways: BTreeMap<LinkDirection, Traffic>,
    requesters: BTreeMap<Requester, Occupied>,
    credits: BTreeMap<LedgerId, (Available, Available)>,
}

/// Current number of outstanding requests of a requester, and the time of its last change.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    since_ps: u128,
    now: u32,
}

/// The interval is too short for the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "interval of {interval_ps} ps: the capture needs more than {MAX_INTERVALS} rows; expected a longer interval"
)]
pub struct TooManyIntervals {
    /// The interval in picoseconds.
    pub interval_ps: u64,
}

/// Counts a capture over time.
#[derive(Clone, Debug)]
pub struct Series {
    /// In 128 bits, because an automatic interval grows with the times of a capture, which have no limit.
    interval_ps: u128,
    automatic: bool,
    bins: BTreeMap<u128, Bin>,
    speeds: BTreeMap<LinkDirection, u64>,
    slots: BTreeMap<u16, String>,
    levels: BTreeMap<Requester, Level>,
    latest_ps: u128,
    sequences: Sequences,
    matcher: Matcher,
    ledgers: Ledgers,
}

impl Series {
    /// Counts with this interval in picoseconds, or with an automatic one that gives at most [`AUTOMATIC_ROWS`] rows.
    pub fn new(interval_ps: Option<u64>, ledgers: Ledgers) -> Series {
        Series {
            interval_ps: u128::from(interval_ps.unwrap_or(FINEST_PS).max(1)),
            automatic: interval_ps.is_none(),
            bins: BTreeMap::new(),
            speeds: BTreeMap::new(),
            slots: BTreeMap::new(),
            levels: BTreeMap::new(),
            latest_ps: 0,
            sequences: Sequences::new(),
            matcher: Matcher::new(),
            ledgers,
        }
    }

    /// Counts a record.
    ///
    /// # Errors
    /// If the given interval is too short for the capture.
    pub fn add(&mut self, record: &Record<'_>) -> Result<(), TooManyIntervals> {
        if record.number == 0 {
            self.sequences.hole();
            self.ledgers.see(record);
            return Ok(());
        }
        // Other records are not counted, so their times do not matter.
        if !matches!(record.kind, Kind::Tlp(_) | Kind::Dllp(_)) {
            self.sequences.pass(record);
            return Ok(());
        }
        let at = record.timestamp.as_ps();
        self.make_room(at)?;
        self.latest_ps = self.latest_ps.max(at);
        match &record.kind {
            Kind::Tlp(tlp) => self.tlp(record, tlp, at),
            Kind::Dllp(_) => {
                self.sequences.pass(record);
                let traffic = self.traffic(record, at);
                traffic.packets[DLLPS] += 1;
                traffic.bytes[DLLPS] += DLLP_LEN as u64 + DLLP_FRAMING;
                self.ledgers.see(record);
            }
            Kind::Other(_) | Kind::Bad(_) => {}
        }
        Ok(())
    }

    /// Skips a record that a filter excludes. It is not counted, but sequence numbers and credits are updated.
    pub fn pass(&mut self, record: &Record<'_>) {
        self.sequences.pass(record);
        self.ledgers.see(record);
    }

    fn tlp(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>, at: u128) {
        let class = tlp.repr.format().class.index();
        let traffic = self.traffic(record, at);
        traffic.packets[class] += 1;
        traffic.bytes[class] += tlp.wire_len as u64 + TLP_FRAMING;
        traffic.payload_bytes += tlp.payload_bytes as u64;
        if let Some(took) = self.ledgers.see(record) {
            let left = (took.header_after, took.data_after);
            let least = self.bin(at).credits.entry(took.ledger).or_insert(left);
            *least = (least.0.min(left.0), least.1.min(left.1));
        }
        if !matches!(self.sequences.tlp(record), Arrival::Taken { .. }) {
            return;
        }
        let way = way(record);
        self.matcher.see(record.number, record.timestamp, way, &tlp.repr);
        let requester = Requester { link: way.0, id: tlp.repr.transaction().0 };
        let now = self.matcher.outstanding_of(requester).now;
        self.level(requester, now, at);
    }

    fn traffic(&mut self, record: &Record<'_>, at: u128) -> &mut Traffic {
        let way = way(record);
        if let Some(speed) = record.interface.and_then(|interface| interface.speed_bps) {
            self.speeds.insert(way, speed);
        }
        if let Some(slot) = record.interface.map(|interface| &interface.slot).filter(|slot| !slot.is_empty())
        {
            self.slots.entry(way.0).or_insert_with(|| slot.to_string());
        }
        self.bin(at).ways.entry(way).or_default()
    }

    fn bin(&mut self, at: u128) -> &mut Bin {
        self.bins.entry(index(at, self.interval_ps)).or_default()
    }

    /// From `at` on, a requester has `now` requests outstanding.
    fn level(&mut self, requester: Requester, now: u32, at: u128) {
        let Some(level) = self.levels.get_mut(&requester) else {
            if now > 0 && self.levels.len() < MAX_REQUESTERS {
                self.levels.insert(requester, Level { since_ps: at, now });
                self.occupy(requester, now, at, at);
            }
            return;
        };
        if level.now == now {
            return;
        }
        let before = std::mem::replace(level, Level { since_ps: at.max(level.since_ps), now });
        self.occupy(requester, before.now, before.since_ps, at);
        self.occupy(requester, now, at, at);
    }

    /// Adds `count` outstanding requests to every interval between two times.
    fn occupy(&mut self, requester: Requester, count: u32, from: u128, to: u128) {
        if count == 0 {
            return;
        }
        let width = self.interval_ps;
        let (first, last) = (index(from, self.interval_ps), index(to.max(from), self.interval_ps));
        for index in first..=last {
            let bin = self.bins.entry(index).or_default();
            let occupied = bin.requesters.entry(requester).or_default();
            let (start, end) = ((index * width).max(from), ((index + 1) * width).min(to));
            occupied.max = occupied.max.max(count);
            occupied.area += u128::from(count) * end.saturating_sub(start);
        }
    }

    /// Makes automatic intervals ten times longer if `at` would need too many.
    fn make_room(&mut self, at: u128) -> Result<(), TooManyIntervals> {
        let (Some(first), Some(last)) = (self.bins.keys().next(), self.bins.keys().next_back()) else {
            return Ok(());
        };
        let (first, last) = (*first, *last);
        loop {
            let index = index(at, self.interval_ps);
            if (first..=last).contains(&index) && self.bins.len() as u64 <= FINE {
                return Ok(());
            }
            let width = self.interval_ps;
            let start = self.bins.keys().next().map_or(at, |first| *first * width).min(at);
            let end = self.bins.keys().next_back().map_or(at, |last| *last * width).max(at);
            let many = (end - start) / width;
            if !self.automatic {
                // A given interval fits into 64 bits.
                let too_many = TooManyIntervals { interval_ps: self.interval_ps as u64 };
                return if many < u128::from(MAX_INTERVALS) { Ok(()) } else { Err(too_many) };
            }
            if many < u128::from(FINE) {
                return Ok(());
            }
            self.widen(10);
        }
    }

    fn widen(&mut self, factor: u64) {
        self.interval_ps = self.interval_ps.saturating_mul(u128::from(factor));
        for (index, bin) in std::mem::take(&mut self.bins) {
            self.bins.entry(index / u128::from(factor)).or_default().absorb(bin);
        }
    }

    /// Ends the capture and returns the counts. `speed_bps` is used for links whose speed the capture does not have.
    #[must_use]
    pub fn report(mut self, speed_bps: Option<u64>) -> SeriesReport {
        for (requester, level) in self.levels.clone() {
            self.occupy(requester, level.now, level.since_ps, self.latest_ps);
        }
        if self.automatic {
            self.choose_interval();
        }
        report::report(self.interval_ps, self.bins, self.slots, &self.speeds, speed_bps)
    }

    /// Chooses the shortest interval that gives few enough rows: 1, 2 or 5 times a power of ten, in picoseconds.
    fn choose_interval(&mut self) {
        let ends = (self.bins.keys().next().copied(), self.bins.keys().next_back().copied());
        let (Some(first), Some(last)) = ends else { return };
        let steps = (0..20).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power.min(18))));
        let rows = |step: u64| last / u128::from(step) - first / u128::from(step) + 1;
        if let Some(step) = steps.into_iter().find(|step| rows(*step) <= u128::from(AUTOMATIC_ROWS)) {
            self.widen(step);
        }
    }
}

/// The index of the interval that contains a time. Virtual times fit into 64 bits, for which division is fast.
fn index(at: u128, interval_ps: u128) -> u128 {
    match (u64::try_from(at), u64::try_from(interval_ps)) {
        (Ok(at), Ok(interval_ps)) => u128::from(at / interval_ps),
        _ => at / interval_ps,
    }
}

impl Bin {
    fn absorb(&mut self, other: Bin) {
        for (way, traffic) in other.ways {
            self.ways.entry(way).or_default().absorb(&traffic);
        }
        for (requester, occupied) in other.requesters {
            let own = self.requesters.entry(requester).or_default();
            own.max = own.max.max(occupied.max);
            own.area += occupied.area;
        }
        for (ledger, left) in other.credits {
            let own = self.credits.entry(ledger).or_insert(left);
            *own = (own.0.min(left.0), own.1.min(left.1));
        }
    }
}

impl Traffic {
    fn absorb(&mut self, other: &Traffic) {
        for class in 0..=DLLPS {
            self.packets[class] += other.packets[class];
            self.bytes[class] += other.bytes[class];
        }
        self.payload_bytes += other.payload_bytes;
    }
}

/// Data bits per second of a link of this generation (1 to 5) and width, without the encoding; `None` if no such
/// link exists.
pub fn speed_bps(generation: u8, lanes: u8) -> Option<u64> {
    let symbol = Rate::from_generation(generation)?.symbol_time_ps();
    let lanes = Width::new(lanes)?.lanes();
    // Each lane transfers one byte per symbol time.
    Some(8_000_000_000_000 * u64::from(lanes) * symbol.den / symbol.num)
}
