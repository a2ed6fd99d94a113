// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules UpdateFCs (`PCIe 5.0 §2.6.1.2`). This module handles kinds of credits and times, but not the credits. It
//! does not send DLLPs.

use crate::config::PortConfig;
use std::ops::Deref;
use tlp::{Class, Duration, Time, Vc};

/// The longest time between two UpdateFCs of a type of finite credits (`PCIe 5.0 §2.6.1.2`).
pub(crate) const REFRESH: Duration = Duration::from_us(30);
/// Number of kinds of credits: one for each class on each channel.
pub(crate) const KINDS: usize = Vc::COUNT * CLASSES;
const CLASSES: usize = Class::ALL.len();

/// The schedule of UpdateFCs. Sets of kinds are bit masks, ordered by channel, then by [`Class::index`].
pub(crate) struct UpdateSchedule {
    /// Kinds whose credits are finite.
    finite: u32,
    /// Finite kinds whose channel is initialized.
    running: u32,
    interval: Duration,
    /// Kinds with returned credits that no UpdateFC has reported yet.
    news: u32,
    /// Time at which the first of them must be reported. [`Time::MAX`]: there are no credits to report, or they are
    /// reported now.
    news_at: Time,
    told_at: [Time; KINDS],
    refresh_at: Time,
}

/// Times of refreshes.
pub(crate) struct Refreshes {
    at: [Time; KINDS],
    count: usize,
}

impl Deref for Refreshes {
    type Target = [Time];
    fn deref(&self) -> &[Time] {
        &self.at[..self.count]
    }
}

impl UpdateSchedule {
    pub(crate) fn new(config: &PortConfig, interval: Duration) -> UpdateSchedule {
        UpdateSchedule {
            finite: finite_kinds(config),
            running: 0,
            interval,
            news: 0,
            news_at: Time::MAX,
            told_at: [Time::ZERO; KINDS],
            refresh_at: Time::MAX,
        }
    }

    /// Sets the interval after a change of rate or width.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Follows a change of the channels in use. `active` is the set of the initialized ones, by [`Vc::index`].
    pub(crate) fn set_channels(&mut self, now: Time, config: &PortConfig, active: u8) {
        let before = self.running;
        (self.finite, self.running) = (finite_kinds(config), 0);
        for channel in (0..Vc::COUNT).filter(|channel| active >> channel & 1 != 0) {
            let own = ALL_CLASSES << (channel * CLASSES) & self.finite;
            if before & own == own { self.running |= own } else { self.start(now, channel) }
        }
        self.news &= self.running;
        if self.news == 0 {
            self.news_at = Time::MAX;
        }
    }

    /// `channel` is initialized.
    pub(crate) fn start(&mut self, now: Time, channel: usize) {
        let own = ALL_CLASSES << (channel * CLASSES) & self.finite;
        self.running |= own;
        self.told_at[channel * CLASSES..][..CLASSES].fill(now);
        if own != 0 {
            self.refresh_at = self.refresh_at.min(now + REFRESH);
        }
    }

    /// Notes that credits of `class` on `channel` were returned. Returns the kinds to report immediately.
    #[inline(always)]
    pub(crate) fn returned(&mut self, now: Time, channel: usize, class: Class, urgent: bool) -> u32 {
        let bit = bit(channel, class) & self.running;
        if bit == 0 || urgent {
            return bit;
        }
        if self.news == 0 {
            self.news_at = now + self.interval;
        }
        self.news |= bit;
        0
    }

    /// Notes that the sender of `class` on `channel` has used all credits that it knows of. Returns the kinds to report
    /// immediately: this kind, if it has unreported credits.
    pub(crate) fn used_up(&self, channel: usize, class: Class) -> u32 {
        self.news & bit(channel, class)
    }

    /// Notes that an UpdateFC of `kind`, given by its bit number, is sent.
    pub(crate) fn told(&mut self, now: Time, kind: usize) {
        self.told_at[kind] = now;
        self.news &= !(1 << kind);
        if self.news == 0 {
            self.news_at = Time::MAX;
        }
    }

    /// The kinds to report now.
    pub(crate) fn timeout(&mut self, now: Time) -> u32 {
        let mut due = 0;
        if self.news_at <= now {
            due |= std::mem::take(&mut self.news);
            self.news_at = Time::MAX;
        }
        if self.refresh_at <= now {
            due |= self.refresh(now);
        }
        due
    }

    fn refresh(&mut self, now: Time) -> u32 {
        let mut due = 0;
        let mut next = Time::MAX;
        for kind in (0..KINDS).filter(|kind| self.running >> kind & 1 != 0) {
            let mut at = self.told_at[kind] + REFRESH;
            if at <= now {
                due |= 1 << kind;
                at = now + REFRESH;
            }
            next = next.min(at);
        }
        self.refresh_at = next;
        due
    }

    /// Returns whether only known values are to be reported, each kind [`REFRESH`] after its last report.
    pub(crate) fn only_refreshes(&self) -> bool {
        let first = self.refreshes().iter().copied().min().unwrap_or(Time::MAX);
        self.news == 0 && self.news_at == Time::MAX && self.refresh_at == first
    }

    /// The kinds that are refreshed, by their bit numbers.
    pub(crate) fn refreshed(&self) -> impl Iterator<Item = usize> + use<> {
        let running = self.running;
        (0..KINDS).filter(move |kind| running >> kind & 1 != 0)
    }

    /// Returns the next refresh times of the kinds, earliest first, if no other update is sent.
    pub(crate) fn refreshes(&self) -> Refreshes {
        let mut refreshes = Refreshes { at: [Time::MAX; KINDS], count: 0 };
        for kind in self.refreshed() {
            refreshes.at[refreshes.count] = self.told_at[kind] + REFRESH;
            refreshes.count += 1;
        }
        refreshes.at[..refreshes.count].sort_unstable();
        refreshes
    }

    /// All kinds were refreshed at their times for `span`, a multiple of [`REFRESH`].
    pub(crate) fn skip(&mut self, span: Duration) {
        for kind in self.refreshed() {
            self.told_at[kind] += span;
        }
        self.refresh_at += span;
    }

    /// Returns when returned credits must be reported; [`Time::MAX`]: never.
    pub(crate) fn news_deadline(&self) -> Time {
        self.news_at
    }

    /// Returns when the refresh is due; [`Time::MAX`]: never.
    pub(crate) fn refresh_deadline(&self) -> Time {
        self.refresh_at
    }
}

const ALL_CLASSES: u32 = (1 << CLASSES) - 1;

/// The kinds of finite credits on the channels in use.
fn finite_kinds(config: &PortConfig) -> u32 {
    let of_channel = |vc: Vc| {
        let buffer = config.buffer(vc);
        let limited = move |class: &Class| !buffer[class.index()].is_infinite();
        Class::ALL.into_iter().filter(limited).map(move |class| bit(vc.index(), class))
    };
    config.tc_vc.channels().flat_map(of_channel).sum()
}

const fn bit(channel: usize, class: Class) -> u32 {
    1 << (channel * CLASSES + class.index())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Mps, Rate, Width};

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    fn schedule() -> UpdateSchedule {
        let config = PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), Mps::new(256).unwrap());
        let mut schedule = UpdateSchedule::new(&config, Duration::from_us(1));
        schedule.start(Time::ZERO, 0);
        schedule
    }

    #[test]
    fn updates_wait_for_the_interval_and_are_sent_together() {
        let mut schedule = schedule();
        assert_eq!(schedule.returned(at(5), 0, Class::Posted, false), 0);
        assert_eq!(schedule.returned(at(5), 0, Class::NonPosted, false), 0);
        assert_eq!(schedule.returned(at(5), 0, Class::Completion, false), 0);
        assert_eq!((schedule.news_deadline(), schedule.timeout(at(5))), (at(6), 0));
        assert_eq!(schedule.timeout(at(6)), 0b011, "completions are infinite");
        assert_eq!(schedule.timeout(at(7)), 0);
    }

    #[test]
    fn urgent_updates_are_sent_at_once() {
        let mut schedule = schedule();
        assert_eq!(schedule.returned(at(5), 0, Class::NonPosted, true), 0b010);
        assert_eq!(schedule.returned(at(5), 0, Class::Completion, true), 0);
        assert_eq!(schedule.news_deadline(), Time::MAX);
    }

    #[test]
    fn each_finite_class_is_updated_every_30_us() {
        let mut schedule = schedule();
        schedule.told(at(20), 0);
        assert_eq!(schedule.timeout(at(30)), 0b010);
        schedule.told(at(30), 1);
        assert_eq!(schedule.refresh_deadline(), at(50));
        assert_eq!(schedule.timeout(at(50)), 0b001);
    }
}
