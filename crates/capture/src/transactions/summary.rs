// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts transactions by type, with quantiles of their times. Keeps at most [`MAX_VALUES`] different times of a
//! kind. Quantiles are exact up to this number, and within 1 in 1024 above it.

use super::Tracker;
use crate::count::counted;
use crate::matcher::{Ack, Transaction};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tlp::Format;

/// Maximum number of different values that [`Quantiles`] keeps exactly.
pub const MAX_VALUES: usize = 65_536;
/// Number of leading bits that are kept of a value above that number.
const KEPT_BITS: u32 = 11;

/// Counts values and determines their distribution.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    counts: BTreeMap<u64, u64>,
    coarse: bool,
    total: u64,
    sum: u128,
}

impl Quantiles {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.total += 1;
        self.sum += u128::from(value);
        let value = if self.coarse { rounded(value) } else { value };
        *self.counts.entry(value).or_default() += 1;
        if self.counts.len() > MAX_VALUES && !self.coarse {
            self.coarse = true;
            for (value, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(rounded(value)).or_default() += count;
            }
        }
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The mean, rounded down; `None` without values.
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(u128::from(self.total))?).ok()
    }

    /// The smallest value that at least `permille` of 1000 values do not exceed; `None` without values.
    pub fn permille(&self, permille: u64) -> Option<u64> {
        let rank = (u128::from(self.total) * u128::from(permille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        self.counts.iter().find_map(|(value, count)| {
            seen += u128::from(*count);
            (seen >= rank).then_some(*value)
        })
    }

    /// The distribution of the values; `None` without values.
    pub fn spread(&self) -> Option<Spread> {
        let [min, median, p95, p99, max] = [0, 500, 950, 990, 1000].map(|permille| self.permille(permille));
        Some(Spread { min: min?, median: median?, mean: self.mean()?, p95: p95?, p99: p99?, max: max? })
    }
}

/// `value` with only its [`KEPT_BITS`] leading bits.
const fn rounded(value: u64) -> u64 {
    let spare = (u64::BITS - value.leading_zeros()).saturating_sub(KEPT_BITS);
    value >> spare << spare
}

/// Distribution of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// The smallest value.
    pub min: u64,
    /// The median: half of the values are not larger.
    pub median: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// 95th percentile: 95 in 100 values are not larger.
    pub p95: u64,
    /// 99th percentile: 99 in 100 values are not larger.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
}

#[derive(Clone, Debug, Default)]
struct OfType {
    count: u64,
    packets: u64,
    retries: u64,
    bytes: u64,
    data_bytes: u64,
    response: Quantiles,
    first_data: Quantiles,
    ack: Quantiles,
}

/// Counts transactions.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    types: BTreeMap<&'static str, OfType>,
    errors: BTreeMap<&'static str, u64>,
    with_errors: u64,
    probes: u64,
}

impl Summary {
    /// A summary without transactions.
    pub fn new() -> Summary {
        Summary::default()
    }

    /// Counts a transaction that has ended.
    pub fn add(&mut self, t: &Transaction) {
        let of = self.types.entry(Format::get(t.format).name).or_default();
        of.count += 1;
        of.packets += u64::from(t.packets());
        of.retries += u64::from(t.retries);
        of.bytes += u64::from(t.bytes);
        of.data_bytes += u64::from(t.data_bytes);
        let ps = |ps: Option<u128>| ps.and_then(|ps| u64::try_from(ps).ok());
        self.probes += u64::from(t.is_probe);
        if t.errors.is_empty() && !t.is_probe {
            ps(t.response_ps()).into_iter().for_each(|ps| of.response.add(ps));
            ps(t.first_data_ps()).into_iter().for_each(|ps| of.first_data.add(ps));
        }
        self.with_errors += u64::from(!t.errors.is_empty());
        for name in t.errors.names() {
            *self.errors.entry(name).or_default() += 1;
        }
        if let Ack::Seen { time, .. } = t.ack {
            ps(Some(time.since_ps(t.start))).into_iter().for_each(|ps| of.ack.add(ps));
        }
    }

    /// The counts. `Display` prints a table for people, and `Serialize` writes an object for programs.
    pub fn report(&self, tracker: &Tracker) -> TransactionsReport {
        let of = |(name, of): (&&'static str, &OfType)| TypeSummary {
            r#type: name,
            transactions: of.count,
            packets: of.packets,
            retries: of.retries,
            request_bytes: of.bytes,
            data_bytes: of.data_bytes,
            response_ps: of.response.spread(),
            first_data_ps: of.first_data.spread(),
            ack_ps: of.ack.spread(),
        };
        TransactionsReport {
            transactions: self.types.values().map(|of| of.count).sum(),
            types: self.types.iter().map(of).collect(),
            with_errors: self.with_errors,
            probes: self.probes,
            errors: self.errors.clone(),
            lost_tlps: tracker.lost(),
            expired: tracker.matcher().counts().expired,
        }
    }
}

/// Counts of the transactions of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TransactionsReport {
    /// Number of transactions, with unexpected completions.
    pub transactions: u64,
    /// Transactions by type of the request.
    pub types: Vec<TypeSummary>,
    /// Number of transactions with an error.
    pub with_errors: u64,
    /// Number of bus probes: reads of the Vendor ID of a function that does not exist. They do not count as errors.
    pub probes: u64,
    /// Errors by name. A transaction may have several.
    pub errors: BTreeMap<&'static str, u64>,
    /// Number of TLPs that were damaged or dropped, or discarded as out of order.
    pub lost_tlps: u64,
    /// Number of transactions that were given up, because more were outstanding than the matcher can hold.
    pub expired: u64,
}

/// The transactions of one type.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TypeSummary {
    /// Type of the request.
    pub r#type: &'static str,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of their TLPs.
    pub packets: u64,
    /// How many of these TLPs are retransmissions.
    pub retries: u64,
    /// Bytes that the requests access.
    pub request_bytes: u64,
    /// Bytes of data in the completions.
    pub data_bytes: u64,
    /// Time from the first request to the last completion in picoseconds, without errors and bus probes.
    pub response_ps: Option<Spread>,
    /// Time from the first request to the first data in picoseconds, without errors and bus probes.
    pub first_data_ps: Option<Spread>,
    /// Time from the request to its Ack in picoseconds, for known Acks.
    pub ack_ps: Option<Spread>,
}

impl fmt::Display for TransactionsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} with errors", counted(self.transactions, "transaction"), self.with_errors)?;
        if self.probes > 0 {
            write!(f, ", {} bus probes", self.probes)?;
        }
        writeln!(f)?;
        let head = ["type", "transactions", "TLPs", "retries", "bytes", "data bytes"];
        let [name, rest @ ..] = head;
        write!(f, "{name:<10}")?;
        rest.iter().try_for_each(|title| write!(f, "{title:>14}"))?;
        for t in &self.types {
            write!(f, "\n{:<10}", t.r#type)?;
            let counts = [t.transactions, t.packets, t.retries, t.request_bytes, t.data_bytes];
            counts.iter().try_for_each(|count| write!(f, "{count:>14}"))?;
        }
        self.fmt_times(f)?;
        for (name, count) in &self.errors {
            write!(f, "\nerror: {name:<22}{count:>12}")?;
        }
        for (name, count) in [("TLPs lost or out of order", self.lost_tlps), ("expired", self.expired)] {
            if count > 0 {
                write!(f, "\n{name:<29}{count:>12}")?;
            }
        }
        Ok(())
    }
}

impl TransactionsReport {
    fn fmt_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |t: &TypeSummary| {
            [("response", t.response_ps), ("first data", t.first_data_ps), ("Ack", t.ack_ps)]
                .map(|(what, spread)| (t.r#type, what, spread))
        };
        let rows: Vec<_> = self.types.iter().flat_map(of).filter_map(|(a, b, c)| Some((a, b, c?))).collect();
        if rows.is_empty() {
            return Ok(());
        }
        write!(f, "\n{:<10}{:<12}", "in ns", "")?;
        for title in ["min", "median", "mean", "95 %", "99 %", "max"] {
            write!(f, "{title:>14}")?;
        }
        for (name, what, s) in rows {
            write!(f, "\n{name:<10}{what:<12}")?;
            for ps in [s.min, s.median, s.mean, s.p95, s.p99, s.max] {
                write!(f, "{:>14}", format!("{}.{:03}", ps / 1000, ps % 1000))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_values_are_exact() {
        let mut quantiles = Quantiles::default();
        (1..=1000).for_each(|value| quantiles.add(value));
        let got = [0, 1, 500, 501, 999, 1000].map(|permille| quantiles.permille(permille));
        assert_eq!(got, [1, 1, 500, 501, 999, 1000].map(Some));
        assert_eq!((quantiles.mean(), quantiles.count()), (Some(500), 1000));
        assert_eq!(Quantiles::default().spread(), None);
    }

    #[test]
    fn quantiles_of_many_values_are_close_and_use_bounded_memory() {
        let mut quantiles = Quantiles::default();
        (0..200_000u64).for_each(|n| quantiles.add(n * 7_919));
        assert!(quantiles.counts.len() <= MAX_VALUES, "{}", quantiles.counts.len());
        for permille in [1, 500, 990, 1000] {
            let exact = 200 * permille * 7_919;
            let got = quantiles.permille(permille).unwrap();
            assert!(got.abs_diff(exact) <= exact / 1024 + 7_919, "{permille}: {got} of {exact}");
        }
    }
}
