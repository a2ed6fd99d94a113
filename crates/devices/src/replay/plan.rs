// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of a replay: the requests of devices in a capture, the conditions for sending each, and the recorded
//! service of each. This module reads captures, and sends no TLPs.

use super::settings::ReplaySettings;
use capture::{Kind, Origin, Reader, Record, Timestamp, TlpRecord, Tracker};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use thiserror::Error;
use tlp::{Bdf, Body, Class, Duration, Prefixes, Repr, Span, Tag};

/// Maximum number of requests in a plan.
pub const MAX_STEPS: usize = 4_000_000;

/// Why a capture cannot be replayed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// The capture cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The capture has no request to replay.
    #[error("no request of a device{of}; requesters in the capture: {seen}")]
    Empty {
        /// The requested requester, if any.
        of: String,
        /// The requesters in the capture.
        seen: String,
    },
    /// The capture has too many requests.
    #[error("more than {MAX_STEPS} requests: shorten the capture")]
    TooLong,
    /// A write longer than the link's Max_Payload_Size.
    #[error("frame {number}: data of {bytes} bytes, expected at most the link's Max_Payload_Size of {mps}")]
    MaxPayloadSize {
        /// Number of the record.
        number: u64,
        /// Size of its data.
        bytes: u32,
        /// The limit.
        mps: u32,
    },
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The header, with its address folded into host memory.
    pub(super) repr: Repr,
    /// The prefixes before it.
    pub(super) prefixes: Prefixes,
    /// Recorded time, relative to the first request.
    pub(super) at: Duration,
    /// Number of transactions that had ended before the request was recorded.
    pub(super) after: u32,
    /// Index of its requester and tag in [`Plan::tags`]; unused for a posted request.
    pub(super) tag_index: u32,
    /// Its rank among the transactions of the capture by their ends; [`NEVER`] if its end was not seen.
    pub(super) rank: u32,
}

/// [`Step::rank`] of a transaction whose end was not seen.
pub(super) const NEVER: u32 = u32::MAX;

/// Requests in recorded order, and how they were served.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) steps: Vec<Step>,
    /// Index of each requester and tag.
    pub(super) tags: BTreeMap<(Bdf, Tag), u32>,
    /// Number of transactions whose end was seen.
    pub(super) ended: u32,
    pub(super) recorded: Recorded,
}

/// How the recorded fabric served the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// Times from request to last completion, for completed requests.
    pub(super) latencies: Vec<Duration>,
    /// Time from the first request to the last one, or to the last completion.
    pub(super) elapsed: Duration,
    /// Number of repeated TLPs, of which only the first is replayed.
    pub(super) repeats: u64,
}

impl Plan {
    /// Reads a capture. Skips unreadable records, as `riser trace` does.
    ///
    /// # Errors
    /// If there are no requests or too many, or a write exceeds the link's limit.
    pub fn read<R: Read>(
        reader: &mut Reader<R>,
        settings: &ReplaySettings,
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

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

struct Builder {
    settings: ReplaySettings,
    mps_bytes: u32,
    tracker: Tracker,
    plan: Plan,
    /// Steps that wait for their completions, by the number of their record.
    open: BTreeMap<u64, usize>,
    /// Omitted requesters; without a filter, all requesters in the capture.
    seen: BTreeSet<Bdf>,
    first: Option<Timestamp>,
}

impl Builder {
    fn new(settings: ReplaySettings, mps_bytes: u32) -> Builder {
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

/// Returns the time from `start` to `end`; zero if a capture goes back in time, as a merged one may.
fn since(start: Timestamp, end: Timestamp) -> Duration {
    Duration::from_ps(u64::try_from(end.since_ps(start)).unwrap_or(u64::MAX))
}

/// Folds the address of a request into the window. Offsets within a page stay, and thus crossings of 4 KiB and
/// completion boundaries.
fn folded(mut repr: Repr, settings: &ReplaySettings) -> Repr {
    let fold = |address: u64| settings.window_base + (address & (settings.window_bytes - 1));
    match &mut repr.body {
        Body::Memory(m) => {
            let (span, address) = (m.span, fold(m.span.address()));
            // A legal span is legal at the same offset of another page.
            m.span =
                Span::from_fields(address, span.length_dw(), span.first_be(), span.last_be()).unwrap_or(span);
        }
        Body::Atomic(a) => a.address = fold(a.address),
        _ => {}
    }
    repr
}
