// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A raw-TLP device that replays the requests of devices in a capture. The report compares how this fabric and the
//! recorded fabric served the requests.
//!
//! Requests keep their recorded sizes, tags, requester IDs and attributes, and the recorded order within each class.
//! Recorded addresses are folded into host memory. A request waits until its tag is free: until the last completion of
//! the previous request with that tag. [`Pace`] and [`Dependencies`] define further conditions for sending a request.
//! The data of writes is not carried, only counted.
//!
//! The device is below the seam and has no configuration space. It starts when its link is up, completes every request
//! of the host with UR, and raises an interrupt when all its requests are completed. It does not check the data that it
//! reads, and allocates no memory while it runs.

mod model;
mod plan;
mod report;
mod settings;

pub use model::Playback;
pub use plan::{MAX_STEPS, Plan, PlanError};
pub use report::{ReplayReport, Service};
pub use settings::{Dependencies, Pace, ReplaySettings};

use crate::raw_end::RawEnd;
use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use plan::{NEVER, Step};
use plug::Shared;
use tlp::{Body, Class, Completion, Data, Duration, PayloadPool, TcSet, Time, Tlp};

/// A request that waits for completions.
#[derive(Clone, Copy, Debug)]
struct Open {
    step: u32,
    sent: Time,
}

/// Replays a [`Plan`].
pub struct Replay {
    plan: Plan,
    settings: ReplaySettings,
    report: Shared<ReplayReport>,
    /// The steps of each class in order, and the number of sent steps.
    order: [Vec<u32>; 3],
    sent: [usize; 3],
    /// The open request of each tag, by [`Step::tag_index`].
    open: Vec<Option<Open>>,
    open_count: usize,
    /// Ended transactions, by [`Step::rank`], and the rank below which all have ended.
    ended: Vec<bool>,
    all_ended_to: u32,
    /// Time of the first request.
    start: Option<Time>,
    now: Time,
    end: RawEnd,
}

impl Replay {
    /// Creates a device that replays `plan` and fills `report`.
    pub fn new(
        plan: Plan,
        settings: ReplaySettings,
        pool: &PayloadPool,
        report: &Shared<ReplayReport>,
    ) -> Replay {
        let class = |step: &Step| step.repr.format().class;
        let steps = || (0..).zip(&plan.steps);
        let order = Class::ALL.map(|c| steps().filter(|(_, s)| class(s) == c).map(|(n, _)| n).collect());
        let (open, ended) = (vec![None; plan.tags.len()], vec![false; plan.ended as usize]);
        report.change(|r| *r = ReplayReport::of(&plan));
        Replay {
            plan,
            settings,
            report: report.clone(),
            order,
            sent: [0; 3],
            open,
            open_count: 0,
            ended,
            all_ended_to: 0,
            start: None,
            now: Time::ZERO,
            end: RawEnd::new(settings.id, settings.done_vector, pool),
        }
    }

    fn next(&self, class: Class) -> Option<&Step> {
        let step = *self.order[class.index()].get(self.sent[class.index()])?;
        self.plan.steps.get(step as usize)
    }

    /// Returns the earliest time for sending `step` according to its recorded time. Returns [`Time::MAX`] before the
    /// first request, which starts the clock.
    fn due(&self, step: &Step) -> Time {
        match (self.settings.pace, self.start) {
            (Pace::Fabric, _) => Time::ZERO,
            (Pace::Recorded, Some(start)) => start + step.at,
            (Pace::Recorded, None) if step.at == Duration::ZERO => Time::ZERO,
            (Pace::Recorded, None) => Time::MAX,
        }
    }

    fn is_free(&self, step: &Step, class: Class) -> bool {
        let tag = class == Class::Posted || self.open[step.tag_index as usize].is_none();
        let causes = match self.settings.dependencies {
            Dependencies::Tags => true,
            Dependencies::Completions => step.after <= self.all_ended_to,
        };
        tag && causes
    }

    fn send(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let step = self.next(class)?;
        if self.due(step) > now || !self.is_free(step, class) || !room.contains(step.repr.tc) {
            return None;
        }
        let data = Data::Counted(step.repr.data_lanes().len() as u32);
        let (tlp, tag_index) = (Tlp::new(step.repr, data), step.tag_index as usize);
        let tlp = Tlp { prefixes: step.prefixes.clone(), ..tlp };
        let number = self.order[class.index()][self.sent[class.index()]];
        self.sent[class.index()] += 1;
        self.start.get_or_insert(now);
        if class == Class::NonPosted {
            self.open[tag_index] = Some(Open { step: number, sent: now });
            self.open_count += 1;
        }
        self.report.change(|r| r.sent(&tlp, self.open_count));
        self.note_progress(now);
        Some(tlp)
    }

    fn note_progress(&self, now: Time) {
        let elapsed = self.start.map_or(Duration::ZERO, |start| now.since(start));
        self.report.change(|r| r.replayed.elapsed = elapsed);
    }

    fn complete(&mut self, now: Time, completion: &Completion, data_bytes: u32) {
        let key = (completion.requester, completion.tag);
        let place = self.plan.tags.get(&key).map(|index| *index as usize);
        let Some((place, open)) = place.and_then(|place| Some((place, self.open[place]?))) else {
            return self.report.change(|r| r.unexpected_completions += 1);
        };
        let last = completion.is_last();
        self.report.change(|r| r.answered(completion.status, data_bytes));
        if !last {
            return;
        }
        self.open[place] = None;
        self.open_count -= 1;
        self.report.change(|r| r.replayed.latencies.push(now.since(open.sent)));
        self.note_progress(now);
        let rank = self.plan.steps[open.step as usize].rank;
        if rank != NEVER {
            self.ended[rank as usize] = true;
            while self.ended.get(self.all_ended_to as usize) == Some(&true) {
                self.all_ended_to += 1;
            }
        }
    }

    /// Returns whether all requests are sent and completed.
    fn is_done(&self) -> bool {
        self.unsent() == 0 && self.open_count == 0
    }

    fn unsent(&self) -> usize {
        self.order.iter().map(Vec::len).sum::<usize>() - self.sent.iter().sum::<usize>()
    }
}

impl TlpPort for Replay {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = self.now.max(now);
        let Some(tlp) = self.end.receive(tlp) else { return };
        if let Body::Completion(c) = &tlp.repr.body {
            self.complete(now, c, tlp.data.len() as u32);
        }
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.now = self.now.max(now);
        match class {
            Class::Completion => self.end.next_refusal(room),
            Class::Posted if self.is_done() => self.end.done_interrupt(room),
            Class::Posted | Class::NonPosted => self.send(now, class, room),
        }
    }

    fn ready(&self) -> Ready {
        let may_send = |class| self.next(class).is_some_and(|step| self.is_free(step, class));
        let done = self.is_done() && self.end.has_interrupt();
        let when = |yes: bool, what: Ready| if yes { what } else { Ready::NONE };
        when(may_send(Class::Posted) || done, Ready::output(Class::Posted))
            .or(when(may_send(Class::NonPosted), Ready::output(Class::NonPosted)))
            .or(self.end.ready())
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.end.poll_credits()
    }

    /// Returns the next recorded time. A completion or room on the link signals all other conditions.
    fn poll_timeout(&self) -> Option<Time> {
        let next = [Class::Posted, Class::NonPosted].into_iter().filter_map(|class| self.next(class));
        next.map(|step| self.due(step)).filter(|due| *due > self.now && *due < Time::MAX).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn waits_for(&self) -> Option<String> {
        let (unsent, open) = (self.unsent(), self.open_count);
        (unsent + open > 0).then(|| format!("replay: {unsent} requests not sent, {open} not completed"))
    }
}
