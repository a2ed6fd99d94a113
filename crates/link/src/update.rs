// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When to send which UpdateFC (`PCIe 5.0 §2.6.1.2`). Knows classes and times, not credits; never sends.

use crate::config::PortConfig;
use tlp::{Class, Duration, Time};

/// The longest between two UpdateFCs of a type of finite credits (`PCIe 5.0 §2.6.1.2`).
const REFRESH: Duration = Duration::from_us(30);
/// After so many refreshes in a row without credits returned, a further one can tell the other end nothing new, even if
/// most of them were lost.
const ENOUGH_REFRESHES: u8 = 16;

/// Schedule of UpdateFCs. Sets of classes are bit masks by [`Class::index`].
pub(crate) struct UpdateSchedule {
    finite: u8,
    interval: Duration,
    /// Classes with credits returned that no UpdateFC has told yet.
    news: u8,
    /// When the first of them is to be told; [`Time::MAX`]: there are none, or they are told now.
    news_at: Time,
    told_at: [Time; 3],
    refresh_at: Time,
    refreshes: u8,
}

impl UpdateSchedule {
    pub(crate) fn new(config: &PortConfig, interval: Duration) -> UpdateSchedule {
        let finite = |class: &Class| !config.rx_buffer[class.index()].is_infinite();
        UpdateSchedule {
            finite: Class::ALL.iter().filter(|c| finite(c)).map(|c| bit(*c)).sum(),
            interval,
            news: 0,
            news_at: Time::MAX,
            told_at: [Time::ZERO; 3],
            refresh_at: Time::MAX,
            refreshes: 0,
        }
    }

    /// DL_Active is reached.
    pub(crate) fn start(&mut self, now: Time) {
        self.told_at = [now; 3];
        if self.finite != 0 {
            self.refresh_at = now + REFRESH;
        }
    }

    /// Credits of `class` were returned; the classes to tell at once.
    pub(crate) fn returned(&mut self, now: Time, class: Class, urgent: bool) -> u8 {
        self.refreshes = 0;
        let bit = bit(class) & self.finite;
        if bit == 0 || urgent {
            return bit;
        }
        if self.news == 0 {
            self.news_at = now + self.interval;
        }
        self.news |= bit;
        0
    }

    /// The sender of `class` has used what it was told of; the classes to tell at once: itself, where there are news.
    pub(crate) fn used_up(&self, class: Class) -> u8 {
        self.news & bit(class)
    }

    /// An UpdateFC of `class` is sent.
    pub(crate) fn told(&mut self, now: Time, class: Class) {
        self.told_at[class.index()] = now;
        self.news &= !bit(class);
        if self.news == 0 {
            self.news_at = Time::MAX;
        }
    }

    /// The classes to tell now.
    pub(crate) fn timeout(&mut self, now: Time) -> u8 {
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

    fn refresh(&mut self, now: Time) -> u8 {
        let mut due = 0;
        let mut next = Time::MAX;
        for class in Class::ALL.into_iter().filter(|c| bit(*c) & self.finite != 0) {
            let mut at = self.told_at[class.index()] + REFRESH;
            if at <= now {
                due |= bit(class);
                at = now + REFRESH;
            }
            next = next.min(at);
        }
        self.refresh_at = next;
        if due != 0 {
            self.refreshes = self.refreshes.saturating_add(1);
        }
        due
    }

    /// When news are due; [`Time::MAX`]: never.
    pub(crate) fn news_deadline(&self) -> Time {
        self.news_at
    }

    /// When the refresh is due; [`Time::MAX`]: never.
    pub(crate) fn refresh_deadline(&self) -> Time {
        self.refresh_at
    }

    /// True where a refresh can no longer heal anything.
    pub(crate) fn refresh_is_idle(&self) -> bool {
        self.refreshes >= ENOUGH_REFRESHES
    }
}

const fn bit(class: Class) -> u8 {
    1 << class.index()
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
        schedule.start(Time::ZERO);
        schedule
    }

    #[test]
    fn news_wait_for_the_interval_and_go_together() {
        let mut schedule = schedule();
        assert_eq!(schedule.returned(at(5), Class::Posted, false), 0);
        assert_eq!(schedule.returned(at(5), Class::NonPosted, false), 0);
        assert_eq!(schedule.returned(at(5), Class::Completion, false), 0);
        assert_eq!((schedule.news_deadline(), schedule.timeout(at(5))), (at(6), 0));
        assert_eq!(schedule.timeout(at(6)), 0b011, "completions are infinite");
        assert_eq!(schedule.timeout(at(7)), 0);
    }

    #[test]
    fn urgent_news_go_at_once() {
        let mut schedule = schedule();
        assert_eq!(schedule.returned(at(5), Class::NonPosted, true), 0b010);
        assert_eq!(schedule.returned(at(5), Class::Completion, true), 0);
        assert_eq!(schedule.news_deadline(), Time::MAX);
    }

    #[test]
    fn each_finite_class_is_told_every_30_us() {
        let mut schedule = schedule();
        schedule.told(at(20), Class::Posted);
        assert_eq!(schedule.timeout(at(30)), 0b010);
        schedule.told(at(30), Class::NonPosted);
        assert_eq!(schedule.refresh_deadline(), at(50));
        assert_eq!(schedule.timeout(at(50)), 0b001);
        assert!(!schedule.refresh_is_idle());
    }
}
