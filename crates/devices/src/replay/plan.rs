// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to play: the requests that devices have issued in a capture, each with what it waits for and how it was served.
//! Reads captures; never sends.

use super::settings::Settings;
use capture::{Kind, Origin, Reader, Record, Timestamp, TlpRecord, Tracker};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use thiserror::Error;
use tlp::{Bdf, Body, Class, Duration, Prefixes, Repr, Span, Tag};

/// Requests that a plan holds at most.
pub const MAX_STEPS: usize = 4_000_000;

/// Why a capture cannot be played.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// The capture cannot be read at all.
    #[error("{0}")]
    Unreadable(String),
    /// Nothing in it to play.
    #[error("no request of a device{of}: seen were {seen}")]
    Empty {
        /// Of which requester, where one was asked for.
        of: String,
        /// Which requesters there are.
        seen: String,
    },
    /// Too much in it to play.
    #[error("more than {MAX_STEPS} requests: cut the capture")]
    TooLong,
    /// A write longer than the link allows.
    #[error("frame {number}: data of {bytes} bytes, beyond the link's Max_Payload_Size of {mps}")]
    MaxPayloadSize {
        /// The record.
        number: u64,
        /// Its data.
        bytes: u32,
        /// The limit.
        mps: u32,
    },
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The header, its address folded into host memory.
    pub(super) repr: Repr,
    /// The prefixes before it.
    pub(super) prefixes: Prefixes,
    /// When it was recorded, from the first on.
    pub(super) at: Duration,
    /// How many transactions had ended before it was recorded.
    pub(super) after: u32,
    /// Place of its requester and tag among those of the capture; of no meaning in a posted request.
    pub(super) tag_index: u32,
    /// Its place among the transactions of the capture by their ends; [`NEVER`]: it was not seen to end.
    pub(super) rank: u32,
}

/// [`Step::rank`] of what was not seen to end.
pub(super) const NEVER: u32 = u32::MAX;

/// Requests in the order in which they were recorded, and how they were served.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) steps: Vec<Step>,
    /// Index of each requester and tag.
    pub(super) tags: BTreeMap<(Bdf, Tag), u32>,
    /// Transactions that were seen to end.
    pub(super) ended: u32,
    pub(super) recorded: Recorded,
}

/// How the capture's own fabric served the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// From request to last completion, of those that ended.
    pub(super) latencies: Vec<Duration>,
    /// From the first request to the last one, or to the last completion.
    pub(super) elapsed: Duration,
    /// The same TLP again, of which only the first is played.
    pub(super) repeats: u64,
}

impl Plan {
    /// Reads a capture. Records that cannot be read are passed over, as `riser trace` does.
    ///
    /// # Errors
    /// Where there is nothing to play, too much, or a write that the link does not allow.
    pub fn read<R: Read>(
        reader: &mut Reader<R>,
        settings: &Settings,
        mps_bytes: u32,
    ) -> Result<Plan, PlanError> {
        let mut builder = Builder::new(*settings, mps_bytes);
        loop {
            let record = reader.next_record().map_err(|e| PlanError::Unreadable(e.to_string()))?;
            match record {
                Some(record) => builder.record(&record)?,
                None => return builder.finish(),
            }
        }
    }

    /// Requests to play.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

struct Builder {
    settings: Settings,
    mps_bytes: u32,
    tracker: Tracker,
    plan: Plan,
    /// Steps that wait for their completions, by the number of their record.
    open: BTreeMap<u64, usize>,
    /// Requesters that were left out, or all that were seen where none was asked for.
    seen: BTreeSet<Bdf>,
    first: Option<Timestamp>,
}

impl Builder {
    fn new(settings: Settings, mps_bytes: u32) -> Builder {
        let (tracker, plan, open) = (Tracker::new(), Plan::default(), BTreeMap::new());
        Builder { settings, mps_bytes, tracker, plan, open, seen: BTreeSet::new(), first: None }
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), PlanError> {
        let outcome = self.tracker.see(record, 0);
        while self.tracker.next_ended().is_some() {}
        match &record.kind {
            Kind::Tlp(tlp)
                if tlp.origin == Origin::Device && tlp.repr.format().class != Class::Completion =>
            {
                self.request(record, tlp, outcome.taken, outcome.replay)
            }
            Kind::Tlp(_) => {
                if let (Some(request), Some(ps)) = (outcome.request, outcome.response_ps) {
                    self.end(request, record.timestamp, ps);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn request(
        &mut self,
        record: &Record<'_>,
        tlp: &TlpRecord<'_>,
        taken: bool,
        replay: bool,
    ) -> Result<(), PlanError> {
        let (requester, _) = tlp.repr.transaction();
        self.seen.insert(requester);
        if self.settings.requester.is_some_and(|wanted| wanted != requester) {
            return Ok(());
        }
        self.plan.recorded.repeats += u64::from(replay);
        if taken { self.step(record, tlp) } else { Ok(()) }
    }

    fn step(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>) -> Result<(), PlanError> {
        if self.plan.steps.len() == MAX_STEPS {
            return Err(PlanError::TooLong);
        }
        let bytes = tlp.repr.data_dw() * 4;
        if bytes > self.mps_bytes {
            return Err(PlanError::MaxPayloadSize { number: record.number, bytes, mps: self.mps_bytes });
        }
        let first = *self.first.get_or_insert(record.timestamp);
        let next = self.plan.tags.len() as u32;
        let posted = tlp.repr.format().class == Class::Posted;
        let tag_index =
            if posted { 0 } else { *self.plan.tags.entry(tlp.repr.transaction()).or_insert(next) };
        let at = since(first, record.timestamp);
        self.plan.recorded.elapsed = self.plan.recorded.elapsed.max(at);
        if !posted {
            self.open.insert(record.number, self.plan.steps.len());
        }
        let repr = folded(tlp.repr, &self.settings);
        let after = self.plan.ended;
        let prefixes = tlp.prefixes.clone();
        self.plan.steps.push(Step { repr, prefixes, at, after, tag_index, rank: NEVER });
        Ok(())
    }

    fn end(&mut self, request: u64, at: Timestamp, response_ps: u128) {
        let (Some(step), Some(first)) = (self.open.remove(&request), self.first) else { return };
        self.plan.steps[step].rank = self.plan.ended;
        self.plan.ended += 1;
        let recorded = &mut self.plan.recorded;
        recorded.latencies.push(Duration::from_ps(u64::try_from(response_ps).unwrap_or(u64::MAX)));
        recorded.elapsed = recorded.elapsed.max(since(first, at));
    }

    fn finish(self) -> Result<Plan, PlanError> {
        if !self.plan.is_empty() {
            return Ok(self.plan);
        }
        let of = self.settings.requester.map_or(String::new(), |id| format!(" {id}"));
        let seen: Vec<String> = self.seen.iter().map(Bdf::to_string).collect();
        let seen = if seen.is_empty() { "none".to_owned() } else { seen.join(", ") };
        Err(PlanError::Empty { of, seen })
    }
}

/// From `start` to `end`; zero where a capture goes back in time, as a merged one may.
fn since(start: Timestamp, end: Timestamp) -> Duration {
    Duration::from_ps(u64::try_from(end.since_ps(start)).unwrap_or(u64::MAX))
}

/// The request with its address modulo the window's size: offsets within a page, and so what crosses 4 KiB or a completion
/// boundary, stay as they were.
fn folded(mut repr: Repr, settings: &Settings) -> Repr {
    let fold = |address: u64| settings.window_base + (address & (settings.window_bytes - 1));
    match &mut repr.body {
        Body::Memory(m) => {
            let (span, address) = (m.span, fold(m.span.address()));
            // Legal where it was, legal at the same place of another page.
            m.span =
                Span::from_fields(address, span.length_dw(), span.first_be(), span.last_be()).unwrap_or(span);
        }
        Body::Atomic(a) => a.address = fold(a.address),
        _ => {}
    }
    repr
}
