// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies of transactions by part, for reports and as a file with one line per transaction. The fabric measures them;
//! [`fabric::stages`] explains each part.

use crate::tap;
use capture::render::status_name;
use fabric::{Breakdown, Fabric, Parts, Stage, Transaction, TransactionKind, TransactionTap};
use lab::profile::{Aspect, Basis, HostBasis};
use plug::ns;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// Finished transactions of one kind on one link: their latencies in nanoseconds, by part. Minimum, mean and maximum are
/// exact. Median and p99 are latencies of actual transactions: exact if neighbouring ones have the same latency, otherwise
/// within 1/512.
#[derive(Clone, Debug, Serialize)]
pub struct TransactionReport {
    /// `dma_write`, `host_read` and so on: [`TransactionKind::name`].
    pub kind: &'static str,
    /// Number of request TLPs.
    pub requests: u64,
    /// Basis of the host figures that the latencies depend on.
    pub basis: Basis,
    /// Minimum latency.
    pub latency_ns_min: f64,
    /// Median latency (nearest rank).
    pub latency_ns_median: f64,
    /// Arithmetic mean: the sum of the parts' means below.
    pub latency_ns_mean: f64,
    /// 99th percentile of the latency.
    pub latency_ns_p99: f64,
    /// Maximum latency.
    pub latency_ns_max: f64,
    /// Mean of each part.
    #[serde(flatten)]
    pub mean: PartsReport,
    /// The transaction with the minimum latency.
    pub min: OneReport,
    /// A transaction with the median latency.
    pub median: OneReport,
    /// A transaction with the p99 latency.
    pub p99: OneReport,
    /// The transaction with the maximum latency.
    pub max: OneReport,
}

/// Time by stage, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PartsReport {
    /// In transmit queues, while credits are available.
    pub queue_ns: f64,
    /// At the head of a transmit queue, while waiting for credits.
    pub credit_wait_ns: f64,
    /// From the first to the last symbol.
    pub serialization_ns: f64,
    /// In flight.
    pub wire_ns: f64,
    /// Lost or damaged, until replayed.
    pub replay_ns: f64,
    /// In the root complex.
    pub root_complex_ns: f64,
    /// In the memory system.
    pub memory_ns: f64,
    /// In switches.
    pub switch_ns: f64,
    /// In the completer.
    pub completer_ns: f64,
}

/// One transaction.
#[derive(Clone, Debug, Serialize)]
pub struct OneReport {
    /// Requester of the transaction.
    pub requester: String,
    /// Tag of the transaction.
    pub tag: u16,
    /// Bytes read or written.
    pub bytes: u32,
    /// Start time.
    pub start_ns: f64,
    /// Latency: the sum of the parts below.
    pub latency_ns: f64,
    /// Parts of the latency.
    #[serde(flatten)]
    pub parts: PartsReport,
}

impl PartsReport {
    /// Returns `parts` divided by `count`.
    fn of(parts: &Parts, count: u64) -> PartsReport {
        let mean = |stage| ns(parts.of(stage)) / count as f64;
        PartsReport {
            queue_ns: mean(Stage::Queue),
            credit_wait_ns: mean(Stage::CreditWait),
            serialization_ns: mean(Stage::Serialization),
            wire_ns: mean(Stage::Wire),
            replay_ns: mean(Stage::Replay),
            root_complex_ns: mean(Stage::RootComplex),
            memory_ns: mean(Stage::Memory),
            switch_ns: mean(Stage::Switch),
            completer_ns: mean(Stage::Completer),
        }
    }

    /// Returns names and figures, in the order of [`Stage::ALL`].
    pub fn columns(&self) -> [(&'static str, f64); 9] {
        [
            ("queue", self.queue_ns),
            ("credit wait", self.credit_wait_ns),
            ("serialization", self.serialization_ns),
            ("wire", self.wire_ns),
            ("replay", self.replay_ns),
            ("root complex", self.root_complex_ns),
            ("memory", self.memory_ns),
            ("switch", self.switch_ns),
            ("completer", self.completer_ns),
        ]
    }
}

impl OneReport {
    fn of(t: &Transaction) -> OneReport {
        OneReport {
            requester: t.requester.to_string(),
            tag: t.tag.bits(),
            bytes: t.bytes,
            start_ns: t.start.as_ps() as f64 / 1_000.0,
            latency_ns: ns(t.latency()),
            parts: PartsReport::of(&t.parts, 1),
        }
    }
}

impl TransactionReport {
    fn of(kind: TransactionKind, sum: &Breakdown, basis: Basis) -> TransactionReport {
        let (median, p99) = (sum.quantile(500), sum.quantile(990));
        TransactionReport {
            kind: kind.name(),
            requests: sum.count(),
            basis,
            latency_ns_min: ns(sum.least().latency()),
            latency_ns_median: ns(median.latency()),
            latency_ns_mean: ns(sum.sums().total()) / sum.count() as f64,
            latency_ns_p99: ns(p99.latency()),
            latency_ns_max: ns(sum.greatest().latency()),
            mean: PartsReport::of(sum.sums(), sum.count()),
            min: OneReport::of(sum.least()),
            median: OneReport::of(median),
            p99: OneReport::of(p99),
            max: OneReport::of(sum.greatest()),
        }
    }

    /// Returns the rows of a table: the transactions, their latency, and its parts. If two have the same displayed
    /// latency (to a tenth), only the later one is included.
    pub fn rows(&self) -> Vec<(&'static str, f64, PartsReport)> {
        let ones = [("min", &self.min), ("median", &self.median), ("p99", &self.p99), ("max", &self.max)];
        let differ = |a: &OneReport, b: &OneReport| (a.latency_ns - b.latency_ns).abs() >= 0.05;
        let mut rows = vec![("mean", self.latency_ns_mean, self.mean)];
        if differ(&self.min, &self.max) {
            let next = |n: usize| ones.get(n + 1).map(|(_, one)| *one);
            let shown = (0..).zip(ones).filter(|(n, (_, one))| next(*n).is_none_or(|next| differ(one, next)));
            rows.extend(shown.map(|(_, (which, one))| (which, one.latency_ns, one.parts)));
        }
        rows
    }
}

/// Returns the finished transactions on link `n` in `fabric` by kind; kinds without transactions are omitted. `host` is the
/// basis of the host's figures.
pub fn transactions(fabric: &Fabric, n: u32, host: &HostBasis) -> Vec<TransactionReport> {
    let basis = |kind| host.get(Aspect::of(kind));
    let of = |kind| fabric.breakdown(n, kind).map(|sum| TransactionReport::of(kind, sum, basis(kind)));
    TransactionKind::ALL.into_iter().filter_map(of).collect()
}

/// A line of the file of transactions. Times are in whole picoseconds. `end_ps` minus `start_ps` is `latency_ps`, which is
/// the sum of the parts.
#[derive(Serialize)]
struct Line<'a> {
    slot: &'a str,
    kind: &'static str,
    requester: String,
    tag: u16,
    bytes: u32,
    status: &'static str,
    start_ps: u64,
    end_ps: u64,
    latency_ps: u64,
    #[serde(flatten, serialize_with = "parts_ps")]
    parts: Parts,
}

/// Each part under the name of its stage.
fn parts_ps<S: Serializer>(parts: &Parts, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(Stage::ALL.map(|stage| (format!("{}_ps", stage.name()), parts.of(stage).as_ps())))
}

impl<'a> Line<'a> {
    fn of(slots: &'a [String], t: &Transaction) -> Line<'a> {
        Line {
            slot: slots.get(t.link as usize).map_or("", String::as_str),
            kind: t.kind.name(),
            requester: t.requester.to_string(),
            tag: t.tag.bits(),
            bytes: t.bytes,
            status: status_name(t.status),
            start_ps: t.start.as_ps(),
            end_ps: t.end.as_ps(),
            latency_ps: t.latency().as_ps(),
            parts: t.parts,
        }
    }
}

struct LogState<W: Write> {
    out: Option<BufWriter<W>>,
    error: Option<io::Error>,
}

/// Writes one line with a JSON object per transaction.
pub(crate) struct TransactionLog<W: Write> {
    slots: Vec<String>,
    state: Rc<RefCell<LogState<W>>>,
}

/// Handle that ends a file of transactions. The fabric owns the writer.
pub struct TransactionLogHandle<W: Write>(Rc<RefCell<LogState<W>>>);

impl<W: Write> TransactionLog<W> {
    /// Returns a log on `out`, with the slots below the links.
    pub(crate) fn new(out: W, slots: Vec<String>) -> (TransactionLog<W>, TransactionLogHandle<W>) {
        let state = Rc::new(RefCell::new(LogState { out: Some(BufWriter::new(out)), error: None }));
        (TransactionLog { slots, state: state.clone() }, TransactionLogHandle(state))
    }
}

impl<W: Write> TransactionTap for TransactionLog<W> {
    fn transaction(&mut self, transaction: &Transaction) {
        let LogState { out, error } = &mut *self.state.borrow_mut();
        let Some(out) = out.as_mut().filter(|_| error.is_none()) else { return };
        let line = serde_json::to_writer(&mut *out, &Line::of(&self.slots, transaction));
        if let Err(e) = line.map_err(io::Error::from).and_then(|()| out.write_all(b"\n")) {
            *error = Some(e);
        }
    }
}

impl<W: Write> TransactionLogHandle<W> {
    /// Writes the lines so far to `out`.
    ///
    /// # Errors
    /// The first write error, now or before. After an error the file stays unchanged, and [`finish`](Self::finish)
    /// returns the same error.
    pub fn flush(&self) -> io::Result<()> {
        let LogState { out, error } = &mut *self.0.borrow_mut();
        tap::flush(out.as_mut(), error, Write::flush)
    }

    /// Writes the buffered lines, and returns `out`.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> io::Result<Option<W>> {
        let mut state = self.0.borrow_mut();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(mut out) = state.out.take() else { return Ok(None) };
        out.flush()?;
        out.into_inner().map(Some).map_err(io::IntoInnerError::into_error)
    }
}
