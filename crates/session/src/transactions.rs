// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time of transactions by part, for reports and as a file with one line per transaction. Never measures: the fabric
//! does, and [`fabric::stages`] explains each part.

use crate::tap;
use capture::render::status_name;
use fabric::{Breakdown, Fabric, Parts, Stage, Transaction, TransactionKind, TransactionTap};
use lab::profile::{Aspect, Basis, HostBasis};
use plug::ns;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// The transactions of one kind on one link that have ended: how long they took, in nanoseconds, and where the time
/// went. Least, mean and greatest are exact. Median and p99 are the latency of a transaction that was seen, exact where
/// those next to it took as long, else within 1/512.
#[derive(Clone, Debug, Serialize)]
pub struct TransactionReport {
    /// `dma_write`, `host_read` and so on: [`TransactionKind::name`].
    pub kind: &'static str,
    /// How many: request TLPs.
    pub requests: u64,
    /// How the figures of the host are known that the latencies rest on.
    pub basis: Basis,
    /// The least latency.
    pub latency_ns_min: f64,
    /// Half of them took no longer (nearest rank).
    pub latency_ns_median: f64,
    /// Arithmetic mean: the sum of the means that follow.
    pub latency_ns_mean: f64,
    /// 99 of 100 took no longer.
    pub latency_ns_p99: f64,
    /// The greatest latency.
    pub latency_ns_max: f64,
    /// Means of the parts.
    #[serde(flatten)]
    pub mean: PartsReport,
    /// The transaction with the least latency.
    pub min: OneReport,
    /// One with the median latency.
    pub median: OneReport,
    /// One with the latency that 99 of 100 do not exceed.
    pub p99: OneReport,
    /// The one with the greatest latency.
    pub max: OneReport,
}

/// Time by stage, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PartsReport {
    /// In transmit queues, with credits.
    pub queue_ns: f64,
    /// At the head of a transmit queue, without credits.
    pub credit_wait_ns: f64,
    /// From first symbol to last.
    pub serialization_ns: f64,
    /// In flight.
    pub wire_ns: f64,
    /// Lost or damaged, and sent again.
    pub replay_ns: f64,
    /// In the root complex.
    pub root_complex_ns: f64,
    /// In the memory system.
    pub memory_ns: f64,
    /// In switches.
    pub switch_ns: f64,
    /// In the device that answers.
    pub completer_ns: f64,
}

/// One transaction.
#[derive(Clone, Debug, Serialize)]
pub struct OneReport {
    /// Who asked.
    pub requester: String,
    /// Its tag.
    pub tag: u16,
    /// Bytes read or written.
    pub bytes: u32,
    /// When it began.
    pub start_ns: f64,
    /// How long it took: the sum of the parts that follow.
    pub latency_ns: f64,
    /// Its parts.
    #[serde(flatten)]
    pub parts: PartsReport,
}

impl PartsReport {
    /// `parts` divided by `count`.
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

    /// Names and figures, in the order of [`Stage::ALL`].
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

    /// What a table shows, a row each: which transactions, their latency, and its parts. Where two took as long, to the
    /// tenth that a table shows, only the later one is there.
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

/// The transactions on link `n` in `fabric` that have ended, by kind; kinds that there were none of are left out. `host` says
/// how the figures of the host are known.
pub fn transactions(fabric: &Fabric, n: u32, host: &HostBasis) -> Vec<TransactionReport> {
    let basis = |kind| host.get(Aspect::of(kind));
    let of = |kind| fabric.breakdown(n, kind).map(|sum| TransactionReport::of(kind, sum, basis(kind)));
    TransactionKind::ALL.into_iter().filter_map(of).collect()
}

/// A line of the file of transactions. Times are in whole picoseconds: `end_ps` less `start_ps` is `latency_ps`, and that
/// is the sum of the parts.
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

struct State<W: Write> {
    out: Option<BufWriter<W>>,
    error: Option<io::Error>,
}

/// Writes a JSON object for each transaction, a line each.
pub(crate) struct TransactionLog<W: Write> {
    slots: Vec<String>,
    state: Rc<RefCell<State<W>>>,
}

/// Ends a file of transactions: what writes it is owned by the fabric.
pub struct TransactionLogHandle<W: Write>(Rc<RefCell<State<W>>>);

impl<W: Write> TransactionLog<W> {
    /// On `out`, with the slots that the links lead to.
    pub(crate) fn new(out: W, slots: Vec<String>) -> (TransactionLog<W>, TransactionLogHandle<W>) {
        let state = Rc::new(RefCell::new(State { out: Some(BufWriter::new(out)), error: None }));
        (TransactionLog { slots, state: state.clone() }, TransactionLogHandle(state))
    }
}

impl<W: Write> TransactionTap for TransactionLog<W> {
    fn transaction(&mut self, transaction: &Transaction) {
        let State { out, error } = &mut *self.state.borrow_mut();
        let Some(out) = out.as_mut().filter(|_| error.is_none()) else { return };
        let line = serde_json::to_writer(&mut *out, &Line::of(&self.slots, transaction));
        if let Err(e) = line.map_err(io::Error::from).and_then(|()| out.write_all(b"\n")) {
            *error = Some(e);
        }
    }
}

impl<W: Write> TransactionLogHandle<W> {
    /// Hands the lines so far on to `out`.
    ///
    /// # Errors
    /// The first error of writing, now or before. After it, the file stays as it is; [`finish`](Self::finish) says it again.
    pub fn flush(&self) -> io::Result<()> {
        let State { out, error } = &mut *self.0.borrow_mut();
        tap::flush(out.as_mut(), error, Write::flush)
    }

    /// Writes what is buffered and gives `out` back.
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
