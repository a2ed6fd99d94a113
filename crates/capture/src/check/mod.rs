// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks a trace against the rules of [`tlp::rules`]: rules of one TLP, and rules that relate several.
//!
//! | rules | checked for |
//! |---|---|
//! | prefixes, header, size | every TLP of which enough was captured |
//! | Max_Payload_Size, Max_Read_Request_Size, tag range | every TLP, if the setting is given or configured in the capture |
//! | completions, tags in use | every TLP that arrived, on each link |
//! | order of posted requests | memory writes that a capture shows on several links |
//! | credits | links whose DLLPs were captured from the start |
//!
//! A trace may begin and end at any time:
//!
//! - If the first TLP of a requester is a completion, its requests began before the trace. During the first
//!   completion timeout of the trace, completions with tags that the trace has not shown are then not checked.
//! - A trace without times has no completion timeout. Such completions are checked at its end. A completion breaks
//!   a rule if the trace has no request of its requester, and a request of another requester with its tag is still
//!   outstanding.
//! - A request without its last completion breaks a rule if the trace continues for a completion timeout after it.
//!   A trace without times cannot show this.
//! - After an unreadable part of the file, and after a link came up again, links are checked as at the start of a
//!   trace.
//!
//! Memory is bounded by the number of outstanding requests, at most
//! [`MAX_OUTSTANDING`](crate::matcher::MAX_OUTSTANDING). Requests above this limit are only counted. They and their
//! completions are not checked.

mod completion;
pub(crate) mod header;
mod limits;
mod order;
mod outstanding;
mod render;
mod summary;
mod ways;

pub use crate::settings::{FunctionOverrides, SettingError, TAGS};
pub use limits::{Applied, DEFAULT_TIMEOUT_PS, Origin, Setting};
pub use render::{JsonFinding, append_json, append_line};
pub use summary::{NotJudged, Summary};

use crate::credits::{Available, Ledgers};
use crate::decode::{Bad, Kind, Other, Record, TlpRecord};
use crate::names::{Meaning, Names};
use crate::reader::Direction;
use crate::registers::DeviceRegisters;
use crate::sequence::{Arrival, Sequences};
use crate::time::Timestamp;
use limits::Limits;
use order::Order;
use outstanding::{Found, Key, Outstanding, Waiting};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tlp::rules::{RULES, Rule};
use tlp::{AddressType, Body, Class, Completion, Dllp, Repr, RuleId, Violation};
use ways::Ways;

/// A broken rule, and the TLP that breaks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule, with the value found and the expected one.
    pub violation: Violation,
    /// The setting that the rule depends on.
    pub applied: Option<Applied>,
    /// Number of the TLP's record.
    pub number: u64,
    /// Time when the TLP was seen.
    pub timestamp: Timestamp,
    /// Fractional digits of this time; 0 if the trace has no time.
    pub digits: u8,
    /// Line number in a text file.
    pub line: Option<u64>,
    /// The link and the direction; empty if the capture does not have them.
    pub place: Arc<str>,
    /// The TLP in one line.
    pub tlp: String,
    /// Record number of a related request: the one that the TLP answers, the one that already uses its tag, or the
    /// one that passed it.
    pub request: Option<u64>,
}

/// A rule that the current TLP breaks.
#[derive(Clone, Copy, Debug)]
struct Broken {
    violation: Violation,
    applied: Option<Applied>,
    request: Option<u64>,
}

impl Broken {
    const fn new(violation: Violation) -> Broken {
        Broken { violation, applied: None, request: None }
    }

    const fn by(violation: Violation, applied: Applied) -> Broken {
        Broken { violation, applied: Some(applied), request: None }
    }
}

/// Maximum number of completions that are checked at the end of a trace without times.
const MAX_DOUBTFUL: usize = 4096;

/// Checks the records of a trace in order.
///
/// Pass each record to [`see`](Self::see). Then take its findings with [`next_finding`](Self::next_finding). Call
/// [`finish`](Self::finish) at the end of the trace, and take the rest.
#[derive(Clone, Debug)]
pub struct Checker {
    limits: Limits,
    outstanding: Outstanding,
    order: Order,
    ways: Ways,
    sequences: Sequences,
    ledgers: Ledgers,
    names: Names,
    broken: Vec<Broken>,
    found: VecDeque<Finding>,
    ignored: BTreeSet<RuleId>,
    /// Rules that the user selected.
    asked: BTreeSet<RuleId>,
    /// True if the trace has TLPs whose credits are known.
    has_credits: bool,
    /// True if the trace has memory writes on several links.
    has_links: bool,
    by_rule: BTreeMap<RuleId, u64>,
    /// Completions without a time, whose requester has not sent a request so far.
    doubtful: Vec<(Key, Finding)>,
    tlps: u64,
    not_judged: BTreeMap<NotJudged, u64>,
    /// Time at which requests from before the trace have timed out; `None` before the first record.
    beginning_ends: Option<Timestamp>,
    /// Time of the last search for timed-out requests.
    searched: Option<Timestamp>,
    end: Timestamp,
}

impl Checker {
    /// Creates a checker. `settings` apply to all functions.
    pub fn new(settings: FunctionOverrides) -> Checker {
        Checker {
            limits: Limits::new(settings),
            outstanding: Outstanding::default(),
            order: Order::default(),
            ways: Ways::default(),
            sequences: Sequences::new(),
            ledgers: Ledgers::new(),
            names: Names::new(DeviceRegisters::default()),
            broken: Vec::new(),
            found: VecDeque::new(),
            ignored: BTreeSet::new(),
            asked: BTreeSet::new(),
            has_credits: false,
            has_links: false,
            by_rule: BTreeMap::new(),
            doubtful: Vec::new(),
            tlps: 0,
            not_judged: BTreeMap::new(),
            beginning_ends: None,
            searched: None,
            end: Timestamp::ZERO,
        }
    }

    /// Excludes the violations of a rule.
    pub fn ignore(&mut self, rule: RuleId) {
        self.ignored.insert(rule);
    }

    /// Keeps only the violations of these rules. The summary lists those among them that the trace cannot show.
    pub fn only(&mut self, rules: &[RuleId]) {
        self.asked = rules.iter().copied().collect();
        self.ignored.extend(RULES.iter().map(|rule| rule.id).filter(|id| !rules.contains(id)));
    }

    /// Checks a record.
    pub fn see(&mut self, record: &Record<'_>) {
        match &record.kind {
            Kind::Tlp(tlp) => self.tlp(record, tlp),
            Kind::Bad(Bad::Tlp(_) | Bad::TlpLength { .. }) => self.malformed(record),
            Kind::Dllp(dllp) => self.dllp(record, dllp),
            Kind::Bad(Bad::File(_)) => self.hole(record),
            Kind::Bad(_) => self.skip(NotJudged::Unread, 1),
            Kind::Other(Other::FlitHeader) => self.skip(NotJudged::FlitHeader, 1),
            Kind::Other(_) => {}
        }
        if !self.broken.is_empty() {
            self.report(record);
        }
    }

    /// Returns the next finding, in the order of the records that show them.
    pub fn next_finding(&mut self) -> Option<Finding> {
        self.found.pop_front()
    }

    /// Ends the trace, and checks the requests that are still outstanding.
    pub fn finish(&mut self) {
        self.judge_doubtful();
        let mut unjudged = 0;
        for (key, waiting) in self.outstanding.expire(self.end) {
            if self.has_timed_out(waiting.time, self.end) {
                self.unanswered(key, &waiting);
            } else {
                unjudged += 1;
            }
        }
        self.skip(NotJudged::OutstandingAtEnd, unjudged);
    }

    /// Returns a summary of the trace so far.
    pub fn summary(&self) -> Summary {
        let hidden = self.asked.difference(&self.ignored).copied().filter(|id| !self.shows(*id));
        Summary::new(self.tlps, &self.by_rule, self.limits.applied(), &self.not_judged, hidden)
    }

    /// Returns true if the trace can show a violation of this rule.
    fn shows(&self, id: RuleId) -> bool {
        let rule = Rule::get(id);
        match id {
            RuleId::MaxPayloadSize => true,
            RuleId::Credits => self.has_credits,
            RuleId::PostedOrder => self.has_links,
            RuleId::CompletionTimeout | RuleId::LateCompletion => self.end > Timestamp::ZERO,
            _ => !rule.is_of_component() && !rule.is_of_receiver(),
        }
    }

    fn tlp(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>) {
        self.begin(record);
        if record.mark.place.is_some() {
            self.credits(record);
        }
        if !matches!(self.sequences.tlp(record), Arrival::Taken { .. }) {
            return self.skip(NotJudged::NotTaken, 1);
        }
        let broken = &mut self.broken;
        header::judge(record, &mut |violation| broken.push(Broken::new(violation)));
        self.limits.judge(&tlp.repr, &mut |of| broken.push(of));
        if record.text.is_some_and(|text| text.is_log) {
            return self.skip(NotJudged::Logged, 1);
        }
        let has_others = record.interface.is_some_and(|interface| interface.has_others);
        let way = self.ways.number(record);
        match (&tlp.repr.body, tlp.repr.class()) {
            (Body::Completion(completion), _) => self.completion(record, tlp, completion, way),
            (_, Class::NonPosted) => self.request(record, &tlp.repr, way),
            (Body::Memory(_), _) if has_others => self.posted(record, tlp, way),
            _ => {}
        }
        if matches!(tlp.repr.body, Body::Config(_) | Body::Completion(_))
            && let Some(Meaning::Config { function, .. }) = self.names.see(record)
        {
            self.limits.learn(function, &self.names);
        }
    }

    /// Processes a TLP that its receiver drops.
    fn malformed(&mut self, record: &Record<'_>) {
        self.begin(record);
        if record.truncated || !matches!(self.sequences.tlp(record), Arrival::Taken { .. }) {
            return self.skip(NotJudged::NotTaken, 1);
        }
        let broken = &mut self.broken;
        if !header::judge(record, &mut |violation| broken.push(Broken::new(violation))) {
            return self.skip(NotJudged::CutShort, 1);
        }
        // Some completers answer a malformed request.
        if let Some((requester, tag)) = non_posted(record.tlp_bytes) {
            let way = self.ways.number(record);
            self.outstanding.skip(Key::new(way, requester, tag));
        }
    }

    fn begin(&mut self, record: &Record<'_>) {
        self.tlps += 1;
        if let Some(text) = &record.text {
            self.limits.take(text.settings);
        }
        if self.beginning_ends.is_none() {
            self.restart(record.timestamp);
        }
        self.end = self.end.max(record.timestamp);
    }

    /// Starts the first completion timeout of the trace or of a link at `time`.
    fn restart(&mut self, time: Timestamp) {
        let timeout = u128::from(self.limits.timeout_ps());
        self.beginning_ends = Some(Timestamp::from_ps(time.as_ps().saturating_add(timeout)));
    }

    fn request(&mut self, record: &Record<'_>, repr: &Repr, way: u32) {
        let (requester, tag) = repr.transaction();
        let key = Key::new(way, requester, tag);
        let new = || Waiting::new(record, repr);
        let mut found = self.outstanding.add(key, new());
        if matches!(found, Found::NoRoom) && self.expire(record.timestamp) {
            found = self.outstanding.add(key, new());
        }
        match found {
            Found::Free => {}
            Found::NoRoom => self.skip(NotJudged::Untracked, 1),
            Found::InUse { number, since, dropped } => {
                match dropped {
                    Some(dropped) if self.has_timed_out(dropped.time, record.timestamp) => {
                        self.unanswered(key, &dropped);
                    }
                    dropped => self.skip(NotJudged::Untracked, dropped.map_or(0, |_| 1)),
                }
                // A requester may reuse a tag after a completion timeout (`PCIe 5.0 §2.8`).
                if self.has_timed_out(since, record.timestamp) {
                    let earlier = self.outstanding.take_earlier(key);
                    earlier.iter().for_each(|earlier| self.unanswered(key, earlier));
                    return;
                }
                let violation = Violation::new(RuleId::TagInUse, tag.bits().into());
                self.broken.push(Broken { request: Some(number), ..Broken::new(violation) });
            }
        }
    }

    fn completion(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>, completion: &Completion, way: u32) {
        let key = Key::new(self.ways.opposite(way), completion.requester, completion.tag);
        // Without a direction, the UDP port tells which side completes.
        let is_of_device = match record.direction {
            Some(direction) => direction == Direction::Upstream,
            None => tlp.origin == crate::encap::Origin::Host,
        };
        let (rcb, boundary) = self.limits.rcb(!is_of_device);
        let timeout = self.limits.timeout();
        let found = tlp::completion::transaction_value(completion);
        let first = self.broken.len();
        let broken = &mut self.broken;
        let mut report = |violation: Violation| {
            let applied = match violation.rule {
                RuleId::CompletionBoundary => Some(boundary),
                RuleId::LateCompletion => Some(timeout),
                _ => None,
            };
            broken.push(Broken { violation, applied, request: None });
        };
        let mut is_translation = false;
        let answered = self.outstanding.complete(key, completion, |waiting| {
            if record.timestamp.since_ps(waiting.time) >= u128::from(timeout.value) {
                report(Violation::new(RuleId::LateCompletion, found));
            }
            is_translation = waiting.repr.at == AddressType::TranslationRequest;
            if is_translation {
                return completion::ends_translation(completion);
            }
            completion::judge(waiting, &tlp.repr, completion, rcb, &mut report)
        });
        if answered.is_some() {
            self.broken[first..].iter_mut().for_each(|broken| broken.request = answered);
            // The request determines the expected length of the data, so this rule is not needed.
            self.broken.retain(|broken| broken.violation.rule != RuleId::CompletionByteCount);
            if is_translation {
                self.outstanding.skip(key);
                self.skip(NotJudged::Translation, 1);
            }
        } else if self.outstanding.shows_requests(key, self.beginning_ends > Some(record.timestamp)) {
            self.broken.push(Broken::new(Violation::new(RuleId::UnexpectedCompletion, found)));
        } else if record.has_time || self.doubtful.len() == MAX_DOUBTFUL {
            self.skip(NotJudged::BeforeRequest, 1);
        } else {
            let finding =
                self.finding(record, &Broken::new(Violation::new(RuleId::UnexpectedCompletion, found)));
            self.doubtful.push((key, finding));
        }
    }

    /// Checks the completions of a trace without times that came before any request of their requester. A
    /// completion breaks a rule if the requester sent no request later either, and a request of another requester
    /// waits for this completion.
    fn judge_doubtful(&mut self) {
        for (key, finding) in std::mem::take(&mut self.doubtful) {
            if self.outstanding.is_misdirected(key, finding.number) {
                if !self.ignored.contains(&RuleId::UnexpectedCompletion) {
                    *self.by_rule.entry(RuleId::UnexpectedCompletion).or_default() += 1;
                    self.found.push_back(finding);
                }
            } else {
                self.skip(NotJudged::BeforeRequest, 1);
            }
        }
    }

    fn posted(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>, way: u32) {
        self.has_links = true;
        let header = &record.tlp_bytes[..tlp.repr.header_len().min(record.tlp_bytes.len())];
        let content = order::content(header, tlp.data);
        if let Some(passed) = self.order.see(way, record.number, &tlp.repr, content) {
            let violation = Violation::new(RuleId::PostedOrder, passed.place);
            self.broken.push(Broken { request: Some(passed.by), ..Broken::new(violation) });
        }
    }

    fn dllp(&mut self, record: &Record<'_>, dllp: &Dllp) {
        self.ledgers.see(record);
        self.sequences.acknowledged(record, dllp);
        if let Some(ways) = self.sequences.link_came_up(record, dllp) {
            let ways = ways.map(|way| self.ways.number_of(way));
            let dropped = self.outstanding.forget(|way| ways.contains(&way));
            self.skip(NotJudged::LinkDown, dropped);
            self.restart(record.timestamp);
        }
    }

    /// Checks the credits of a TLP.
    fn credits(&mut self, record: &Record<'_>) {
        let Some(took) = self.ledgers.see(record) else { return };
        self.has_credits |= matches!(took.header_before, Available::Credits(_));
        let none = Available::Credits(0);
        let kinds = [
            (took.header_before, took.header_after, u32::from(took.header_before != took.header_after)),
            (took.data_before, took.data_after, took.data),
        ];
        for (before, after, needed) in kinds {
            if let Available::Credits(before) = before
                && after < none
                && needed > 0
            {
                let granted = u64::try_from(before).unwrap_or(0);
                let violation = Violation::expecting(RuleId::Credits, needed.into(), granted);
                self.broken.push(Broken::new(violation));
            }
        }
    }

    /// Processes an unreadable part of the file.
    fn hole(&mut self, record: &Record<'_>) {
        self.skip(NotJudged::Unread, 1);
        self.ledgers.see(record);
        self.judge_doubtful();
        let dropped = self.outstanding.forget(|_| true);
        self.skip(NotJudged::LinkDown, dropped);
        self.order.clear();
        self.sequences.hole();
        self.restart(self.end);
    }

    /// Returns true if a request sent at `since` has timed out by `now`.
    fn has_timed_out(&self, since: Timestamp, now: Timestamp) -> bool {
        now.since_ps(since) >= u128::from(self.limits.timeout_ps())
    }

    /// Reports the requests that have timed out by `now`. Returns whether there were any.
    fn expire(&mut self, now: Timestamp) -> bool {
        let timeout = u128::from(self.limits.timeout_ps());
        // After a search, the next one waits for a completion timeout.
        let is_due = self.searched.is_none_or(|searched| now.since_ps(searched) >= timeout);
        let Some(limit) = now.as_ps().checked_sub(timeout).filter(|_| is_due) else { return false };
        self.searched = Some(now);
        let expired = self.outstanding.expire(Timestamp::from_ps(limit));
        expired.iter().for_each(|(key, waiting)| self.unanswered(*key, waiting));
        !expired.is_empty()
    }

    /// Reports a request whose last completion did not arrive.
    fn unanswered(&mut self, key: Key, waiting: &Waiting) {
        if self.ignored.contains(&RuleId::CompletionTimeout) {
            return;
        }
        *self.by_rule.entry(RuleId::CompletionTimeout).or_default() += 1;
        self.found.push_back(Finding {
            violation: Violation::new(RuleId::CompletionTimeout, waiting.completions.into()),
            applied: Some(self.limits.timeout()),
            number: waiting.number,
            timestamp: waiting.time,
            digits: waiting.digits,
            line: waiting.line,
            place: self.ways.name(key.way()),
            tlp: waiting.repr.to_string(),
            request: None,
        });
    }

    /// Adds a finding for each rule that the current TLP breaks.
    #[cold]
    fn report(&mut self, record: &Record<'_>) {
        for broken in std::mem::take(&mut self.broken) {
            if !self.ignored.contains(&broken.violation.rule) {
                *self.by_rule.entry(broken.violation.rule).or_default() += 1;
                let finding = self.finding(record, &broken);
                self.found.push_back(finding);
            }
        }
    }

    fn finding(&mut self, record: &Record<'_>, broken: &Broken) -> Finding {
        let way = self.ways.number(record);
        Finding {
            violation: broken.violation,
            applied: broken.applied,
            number: record.number,
            timestamp: record.timestamp,
            digits: digits(record),
            line: record.text.map(|text| text.line),
            place: self.ways.name(way),
            tlp: render::tlp_line(record),
            request: broken.request,
        }
    }

    fn skip(&mut self, why: NotJudged, count: u64) {
        if count > 0 {
            *self.not_judged.entry(why).or_default() += count;
        }
    }
}

/// Decimal places of the time of a record; 0 if it has no time.
fn digits(record: &Record<'_>) -> u8 {
    record.interface.filter(|_| record.has_time).map_or(0, |interface| interface.resolution.digits())
}

/// Requester ID and tag of a non-posted request, read from its header, which may be malformed.
fn non_posted(bytes: &[u8]) -> Option<(tlp::Bdf, tlp::Tag)> {
    let header = tlp::Header::new(bytes).ok()?;
    let requester = u16::from_be_bytes(*header.bytes()[4..].first_chunk()?);
    let tag = header.tag(tlp::wire::field::TAG);
    (header.format().class == Class::NonPosted).then(|| (tlp::Bdf::from_bits(requester), tag))
}
