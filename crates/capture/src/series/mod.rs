// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture over time: what each direction of each link carries in an interval, by class, how many requests are
//! outstanding by requester, and the fewest credits left. Memory is bounded by [`MAX_INTERVALS`], [`MAX_REQUESTERS`] and the
//! links of the capture; one pass is enough, whatever the interval.
//!
//! Bytes are those on the wire: of a TLP its own and 8 of framing, sequence number and LCRC, of a DLLP 8. A frame counts in the
//! interval in which its last symbol passed, lost ones and replays too; outstanding requests and credits heed what their
//! receiver took.

mod report;

pub use report::{CSV_HEADER, CreditRow, OutstandingRow, Report, Row, WayRow};

use crate::credits::{Available, LedgerId, Ledgers};
use crate::decode::{Kind, Record, TlpRecord};
use crate::matcher::{Matcher, Requester};
use crate::sequence::{Arrival, Sequences, Way, way};
use std::collections::BTreeMap;
use tlp::{DLLP_LEN, Rate, Width};

/// Maximum number of intervals of a report.
pub const MAX_INTERVALS: u64 = 100_000;
/// Maximum number of requesters whose outstanding requests are shown.
pub const MAX_REQUESTERS: usize = 256;
/// Rows that an automatic interval gives at most.
pub const AUTOMATIC_ROWS: u64 = 24;

/// Fine intervals that are kept until the automatic one is chosen.
const FINE: u64 = 1_000;
/// The first of them: 1 ns.
const FINEST_PS: u64 = 1_000;
/// Framing, sequence number and LCRC of a TLP (`PCIe 5.0 §4.2.1`, §4.2.2); framing of a DLLP.
const TLP_FRAMING: u64 = 8;
const DLLP_FRAMING: u64 = 2;

/// The place of DLLPs behind the classes of TLPs.
const DLLPS: usize = 3;

/// What one way carried in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// TLPs by class, and DLLPs.
    packets: [u64; 4],
    /// Their bytes.
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
    ways: BTreeMap<Way, Traffic>,
    requesters: BTreeMap<Requester, Occupied>,
    credits: BTreeMap<LedgerId, (Available, Available)>,
}

/// Since when a requester has had how many requests outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    since_ps: u128,
    now: u32,
}

/// An interval that is too short for the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an interval of {interval_ps} ps makes more than {MAX_INTERVALS} rows")]
pub struct TooManyIntervals {
    /// The interval, picoseconds.
    pub interval_ps: u64,
}

/// Counts a capture over time.
#[derive(Clone, Debug)]
pub struct Series {
    /// Wide: an automatic one grows with the times of a capture, which may be any.
    interval_ps: u128,
    automatic: bool,
    bins: BTreeMap<u128, Bin>,
    speeds: BTreeMap<Way, u64>,
    slots: BTreeMap<u16, String>,
    levels: BTreeMap<Requester, Level>,
    latest_ps: u128,
    sequences: Sequences,
    matcher: Matcher,
    ledgers: Ledgers,
}

impl Series {
    /// With this interval in picoseconds, or an automatic one that gives at most [`AUTOMATIC_ROWS`] rows.
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
    /// If the interval that was asked for is too short.
    pub fn add(&mut self, record: &Record<'_>) -> Result<(), TooManyIntervals> {
        if record.number == 0 {
            self.sequences.hole();
            self.ledgers.see(record);
            return Ok(());
        }
        // What is not counted, and when it came, is left out: its time may be any.
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

    /// Passes over a record that a filter leaves out: it is not counted, but what those behind it find is as it was.
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

    /// A requester has `now` requests outstanding from `at` on.
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

    /// `count` requests are outstanding from one time to another: in every interval between.
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

    /// Makes the intervals of an automatic choice ten times longer where `at` would make too many.
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
                // As it was asked for, in 64 bits.
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

    /// Ends the capture: what was counted. `speed_bps` stands in where the capture says nothing of a link's speed.
    #[must_use]
    pub fn report(mut self, speed_bps: Option<u64>) -> Report {
        for (requester, level) in self.levels.clone() {
            self.occupy(requester, level.now, level.since_ps, self.latest_ps);
        }
        if self.automatic {
            self.choose_interval();
        }
        report::report(self.interval_ps, self.bins, self.slots, &self.speeds, speed_bps)
    }

    /// The shortest of 1, 2 and 5 times a power of ten that gives few enough rows.
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

/// Which interval a time lies in. Virtual times fit 64 bits, where division is cheap.
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

/// Data bits per second of a link of this generation, 1 to 5, and width, encoding taken off; `None` if there is no such
/// link.
pub fn speed_bps(generation: u8, lanes: u8) -> Option<u64> {
    let symbol = Rate::from_generation(generation)?.symbol_time_ps();
    let lanes = Width::new(lanes)?.lanes();
    // A byte on each lane in a symbol time.
    Some(8_000_000_000_000 * u64::from(lanes) * symbol.den / symbol.num)
}
