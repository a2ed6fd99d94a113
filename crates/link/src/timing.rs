// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Durations on the wire: the Ack latency table, the serializer's exact time, SKP ordered sets.
//!
//! All arithmetic is in whole ticks of 1/3072 ps. A byte time is a whole number of ticks at every rate and width, so no
//! rounding accumulates. This module does not read the bytes.

use crate::config::{FlowControlMode, PortConfig, ReplayTimerRule};
use crate::counters::Counters;
use crate::frame::DLLP_WIRE_BYTES;
use tlp::{Duration, Rate, Time, Width, ack_latency_limit};

/// Ticks per picosecond. Byte times have denominators from 1 to 1024 (8 GT/s and up), times 3 at x12.
const TICKS_PER_PS: u64 = 3072;

/// `symbols` symbol times at `rate`, rounded down to whole picoseconds.
pub const fn symbol_times(rate: Rate, symbols: u32) -> Duration {
    let symbol = rate.symbol_time_ps();
    Duration::from_ps(symbols as u64 * symbol.num / symbol.den)
}

/// Time that `bytes` take on all lanes of a link, rounded down to whole picoseconds.
pub const fn wire_time(bytes: u64, rate: Rate, width: Width) -> Duration {
    let symbol = rate.symbol_time_ps();
    Duration::from_ps(bytes * symbol.num / (symbol.den * width.lanes() as u64))
}

/// The timers that depend on rate and width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timers {
    /// REPLAY_TIMER (`PCIe 5.0 §3.6.2.1`).
    pub(crate) replay: Duration,
    /// Ack latency limit (`PCIe 5.0 §3.6.3.1`).
    pub(crate) ack: Duration,
    /// UpdateFC latency (`PCIe 5.0 §2.6.1.2`).
    pub(crate) update: Duration,
}

impl Timers {
    pub(crate) fn new(config: &PortConfig, rate: Rate, width: Width) -> Timers {
        let table = ack_latency_limit(rate, width, config.mps);
        let ack = config.ack_latency_symbols.unwrap_or(table);
        let replay = match (config.flow_control, config.replay_timer) {
            (FlowControlMode::None { .. }, _) => 3 * ack,
            (_, ReplayTimerRule::Rev3) => 3 * table,
            (_, ReplayTimerRule::Rev4 { symbols }) => symbols,
        };
        let [replay, ack, update] =
            [replay, ack, config.update_fc_symbols.unwrap_or(table)].map(|n| symbol_times(rate, n));
        Timers { replay, ack, update }
    }
}

impl PortConfig {
    /// REPLAY_TIMER at this port's rate and width (`PCIe 5.0 §3.6.2.1`).
    pub fn replay_timeout(&self) -> Duration {
        Timers::new(self, self.rate, self.width).replay
    }

    /// Returns the longest time from the last symbol of a TLP to the last symbol of its Ack, on an otherwise idle link.
    /// `other` is the other end. The time consists of the `propagation` both ways, the Ack latency limit (`PCIe 5.0
    /// §3.6.3.1`) and the Ack itself. With a shorter [`replay_timeout`](Self::replay_timeout), TLPs that have arrived
    /// are replayed.
    pub fn ack_round_trip(&self, other: &PortConfig, propagation: Duration) -> Duration {
        let limit = Timers::new(other, other.rate, other.width).ack;
        propagation + limit + wire_time(DLLP_WIRE_BYTES.into(), other.rate, other.width) + propagation
    }
}

/// An exact time: picoseconds and ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WireTime {
    ps: u64,
    ticks: u32,
}

impl WireTime {
    const ZERO: WireTime = WireTime::at(Time::ZERO);

    const fn at(time: Time) -> WireTime {
        WireTime { ps: time.as_ps(), ticks: 0 }
    }

    /// The time `ticks` later.
    const fn after(self, ticks: u64) -> WireTime {
        let sum = self.ticks as u64 + ticks;
        WireTime { ps: self.ps.saturating_add(sum / TICKS_PER_PS), ticks: (sum % TICKS_PER_PS) as u32 }
    }

    /// The time `span` later.
    const fn plus(self, span: WireTime) -> WireTime {
        let ticks = self.ticks + span.ticks;
        let carry = ticks >= TICKS_PER_PS as u32;
        let ticks = if carry { ticks - TICKS_PER_PS as u32 } else { ticks };
        WireTime { ps: self.ps.saturating_add(span.ps + carry as u64), ticks }
    }

    /// The time `count * ticks` later; the product may exceed 64 bits.
    const fn after_many(self, count: u64, ticks: u64) -> WireTime {
        let sum = self.ticks as u128 + count as u128 * ticks as u128;
        let ps = self.ps as u128 + sum / TICKS_PER_PS as u128;
        let ps = if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 };
        WireTime { ps, ticks: (sum % TICKS_PER_PS as u128) as u32 }
    }

    /// Number of whole multiples of `ticks` from `earlier` to here.
    const fn multiples_since(self, earlier: WireTime, ticks: u64) -> u64 {
        let span = (self.ps - earlier.ps) as u128 * TICKS_PER_PS as u128 + self.ticks as u128;
        ((span - earlier.ticks as u128) / ticks as u128) as u64
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The serializer of one direction: it sends bytes one after another, with SKP ordered sets between them.
#[derive(Clone)]
pub(crate) struct Serializer {
    byte_ticks: u64,
    free: WireTime,
    skp_due: WireTime,
    skp_period_ticks: u64,
    skp_ticks: u64,
    skp_bytes: u64,
    /// The fraction of `Counters::busy_ps`, in ticks.
    busy_ticks: u32,
}

impl Serializer {
    pub(crate) fn new(config: &PortConfig) -> Serializer {
        let mut serializer = Serializer {
            byte_ticks: 1,
            free: WireTime::at(Time::ZERO),
            skp_due: WireTime::at(Time::MAX),
            skp_period_ticks: 1,
            skp_ticks: 0,
            skp_bytes: 0,
            busy_ticks: 0,
        };
        serializer.set_speed(config.rate, config.width, config.skp_interval);
        serializer
    }

    pub(crate) fn set_speed(&mut self, rate: Rate, width: Width, skp_interval: u32) {
        let symbol = rate.symbol_time_ps();
        let symbol_ticks = symbol.num * TICKS_PER_PS / symbol.den;
        let lanes = u64::from(width.lanes());
        // `PCIe 5.0 §4.2.7`: a COM and three SKP symbols, or a block of 16 symbols, on every lane.
        let (period_symbols, skp_symbols) =
            if rate.is_8b10b() { (u64::from(skp_interval), 4) } else { (u64::from(skp_interval) * 16, 16) };
        self.byte_ticks = symbol_ticks / lanes;
        self.skp_period_ticks = period_symbols * symbol_ticks;
        self.skp_ticks = skp_symbols * symbol_ticks;
        self.skp_bytes = skp_symbols * lanes;
    }

    /// Starts the lanes. The first SKP is due one interval from now.
    pub(crate) fn start(&mut self, now: Time) {
        self.free = self.free.max(WireTime::at(now));
        self.skp_due = self.free.after(self.skp_period_ticks);
    }

    /// Stops the lanes: counts the symbols sent by `now`; no SKP is due until the lanes [start](Self::start) again.
    pub(crate) fn stop(&mut self, now: Time, counters: &mut Counters) {
        self.catch_up(now, counters);
        self.skp_due = WireTime::at(Time::MAX);
    }

    /// Returns when the last symbol of the last frame has been sent, rounded down.
    pub(crate) fn free_at(&self) -> Time {
        Time::from_ps(self.free.ps)
    }

    /// Retrains the lanes at the same speed until `until`, or until the last frame has been sent if that is later. The
    /// wire is silent until then. The next SKP is due one interval later. SKPs that would fall due in between are
    /// skipped.
    pub(crate) fn hold(&mut self, now: Time, until: Time, counters: &mut Counters) {
        self.catch_up(now, counters);
        self.silence(until);
    }

    fn silence(&mut self, until: Time) {
        self.free = self.free.max(WireTime::at(until));
        self.skp_due = self.free.after(self.skp_period_ticks);
    }

    /// Like [`hold`](Self::hold), but the lanes restart at another speed. `until` must not precede `now` or the end of
    /// the last frame.
    pub(crate) fn retrain(
        &mut self,
        now: Time,
        until: Time,
        rate: Rate,
        width: Width,
        skp_interval: u32,
        counters: &mut Counters,
    ) {
        self.catch_up(now, counters);
        self.set_speed(rate, width, skp_interval);
        self.silence(until);
    }

    /// Keeps the wire idle for `gap` after the last frame.
    pub(crate) fn rest(&mut self, gap: Duration) {
        self.free.ps = self.free.ps.saturating_add(gap.as_ps());
    }

    /// Sends `bytes` from `now`, or when the wire is free and due SKPs are sent. Returns the first and last instant.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, bytes: u32, counters: &mut Counters) -> (Time, Time) {
        let mut start = self.free;
        if now.as_ps() > start.ps {
            start = WireTime::at(now);
        }
        if self.skp_due <= start {
            start = self.send_due_skps(start, counters);
        }
        let span = WireTime::ZERO.after(u64::from(bytes) * self.byte_ticks);
        let end = start.plus(span);
        self.free = end;
        counters.wire_bytes += u64::from(bytes);
        self.count_busy(span, counters);
        (Time::from_ps(start.ps), Time::from_ps(end.ps))
    }

    /// Sends `bytes` at each of `times`, again `interval` later, and so on: `rounds` times. Returns the number of
    /// rounds before the first one in which the wire is not free at its time, or `rounds` if the wire is always free.
    /// If the result is less than `rounds`, the state afterwards is invalid. Times ascend, and no round begins before
    /// the previous one has ended.
    ///
    /// A round depends on the previous one only through the state of the wire, and intervals and SKPs coincide again in
    /// the same way after a while. If the state is then the same but later, the sequence repeats with this period.
    /// These repetitions are counted, not sent.
    pub(crate) fn repeat(
        &mut self,
        times: &[Time],
        interval: Duration,
        rounds: u64,
        bytes: u32,
        counters: &mut Counters,
    ) -> u64 {
        let period = self.skp_period_ticks / gcd(self.skp_period_ticks, interval.as_ps() * TICKS_PER_PS);
        let (mut done, mut mark) = (if times.is_empty() { rounds } else { 0 }, None);
        while done < rounds {
            let later = Duration::from_ps(interval.as_ps() * done);
            for at in times {
                if self.free_at() > *at + later {
                    return done;
                }
                self.send(*at + later, bytes, counters);
            }
            done += 1;
            if done == 1 {
                mark = Some((self.clone(), *counters));
            } else if done == 1 + period
                && let Some((then, counted)) = mark.take()
            {
                let span = Duration::from_ps(interval.as_ps() * period);
                let times = if self.is_later(&then, span) { (rounds - done) / period } else { 0 };
                self.skip(&then, times, span, &counted, counters);
                done += times * period;
            }
        }
        done
    }

    /// Returns whether this state equals `then` with all times later by `span`, so that frames and SKPs continue in the same way.
    fn is_later(&self, then: &Serializer, span: Duration) -> bool {
        let later = |time: WireTime| WireTime { ps: time.ps.saturating_add(span.as_ps()), ..time };
        (self.free, self.skp_due) == (later(then.free), later(then.skp_due))
    }

    /// Repeats everything sent since the state `then`, with its counters `counted`, `times` times, each `span` later.
    fn skip(
        &mut self,
        then: &Serializer,
        times: u64,
        span: Duration,
        counted: &Counters,
        counters: &mut Counters,
    ) {
        let busy = WireTime { ps: counters.busy_ps - counted.busy_ps, ticks: self.busy_ticks };
        let ticks = busy.ps * TICKS_PER_PS + u64::from(busy.ticks) - u64::from(then.busy_ticks);
        self.count_busy(WireTime::ZERO.after_many(times, ticks), counters);
        counters.wire_bytes += times * (counters.wire_bytes - counted.wire_bytes);
        counters.skp_sets += times * (counters.skp_sets - counted.skp_sets);
        counters.skp_bytes += times * (counters.skp_bytes - counted.skp_bytes);
        self.free.ps += times * span.as_ps();
        self.skp_due.ps += times * span.as_ps();
    }

    /// Counts the SKPs of idle time that have been sent by `now`. This does not change the times of later frames.
    pub(crate) fn catch_up(&mut self, now: Time, counters: &mut Counters) {
        let skp_ps = self.skp_ticks.div_ceil(TICKS_PER_PS);
        let last_start = WireTime { ps: now.as_ps().saturating_sub(skp_ps), ticks: 0 };
        if self.free <= last_start && self.skp_due <= last_start {
            self.send_due_skps(last_start, counters);
        }
    }

    /// Sends the SKPs due up to `start`; returns when the wire is free after them, at or after `start`. The cost does
    /// not grow with the time since the last frame.
    #[cold]
    fn send_due_skps(&mut self, start: WireTime, counters: &mut Counters) -> WireTime {
        let mut sets = 0;
        // SKPs that fell due during a frame all follow it.
        while self.skp_due <= self.free {
            self.count_skps(1, counters);
            self.free = self.free.after(self.skp_ticks);
            self.skp_due = self.skp_due.after(self.skp_period_ticks);
        }
        // SKPs that were due on the idle wire were sent at their own times.
        if self.skp_due <= start {
            sets = start.multiples_since(self.skp_due, self.skp_period_ticks) + 1;
            let last = self.skp_due.after_many(sets - 1, self.skp_period_ticks);
            self.free = last.after(self.skp_ticks);
            self.skp_due = last.after(self.skp_period_ticks);
        }
        self.count_skps(sets, counters);
        start.max(self.free)
    }

    fn count_skps(&mut self, sets: u64, counters: &mut Counters) {
        counters.skp_sets += sets;
        counters.skp_bytes += sets * self.skp_bytes;
        counters.wire_bytes += sets * self.skp_bytes;
        self.count_busy(WireTime::ZERO.after_many(sets, self.skp_ticks), counters);
    }

    fn count_busy(&mut self, span: WireTime, counters: &mut Counters) {
        let busy = WireTime { ps: counters.busy_ps, ticks: self.busy_ticks }.plus(span);
        (counters.busy_ps, self.busy_ticks) = (busy.ps, busy.ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Mps, Width};

    fn serializer(rate: Rate, lanes: u8) -> (Serializer, Counters) {
        let mps = Mps::new(256).unwrap();
        let config = PortConfig::new(rate, Width::new(lanes).unwrap(), mps);
        let mut serializer = Serializer::new(&config);
        serializer.start(Time::ZERO);
        (serializer, Counters::default())
    }

    /// No remainder is lost, because a byte time is a whole number of ticks at every rate and width.
    #[test]
    fn byte_times_are_whole_ticks() {
        for rate in Rate::ALL {
            let symbol = rate.symbol_time_ps();
            for width in Width::ALL {
                assert_eq!(symbol.num * TICKS_PER_PS % (symbol.den * u64::from(width.lanes())), 0);
            }
        }
    }

    /// A saturated wire spends exactly 4 of 1538 symbols, or one of 375 blocks, on SKPs.
    #[test]
    fn skps_take_specified_share_of_a_saturated_link() {
        for (rate, share) in [(Rate::Gt2_5, (4, 1538)), (Rate::Gt5, (4, 1538)), (Rate::Gt32, (1, 375))] {
            for width in Width::ALL {
                let (mut wire, mut counters) = serializer(rate, width.lanes());
                while counters.skp_sets < 2000 {
                    wire.send(wire.free_at(), 280, &mut counters);
                }
                let skp = counters.skp_bytes as f64 / counters.wire_bytes as f64;
                assert!((skp / (f64::from(share.0) / f64::from(share.1)) - 1.0).abs() < 1e-3);
                assert_eq!(counters.busy_ps, wire.free_at().as_ps(), "no gap, no overlap");
            }
        }
    }

    /// The SKPs do not depend on how often the wire is polled.
    #[test]
    fn idle_time_is_skipped_in_one_step() {
        for rate in Rate::ALL {
            let (mut often, mut counted) = serializer(rate, 12);
            let (mut once, mut at_once) = serializer(rate, 12);
            for us in 1..3000 {
                often.catch_up(Time::from_ps(us * 1_000_000), &mut counted);
            }
            once.catch_up(Time::from_ps(2_999_000_000), &mut at_once);
            assert_eq!(counted, at_once);
            assert_eq!(often.skp_due, once.skp_due);
        }
    }

    /// A running SKP delays the frame; one that falls due during the frame waits for it.
    #[test]
    fn frames_and_skps_do_not_overlap() {
        let (mut wire, mut counters) = serializer(Rate::Gt2_5, 1);
        let due = 1538 * 4000;
        assert_eq!(wire.send(Time::from_ps(due + 1), 2, &mut counters).0.as_ps(), due + 16_000);
        let (start, end) = wire.send(Time::from_ps(2 * due - 1), 4120, &mut counters);
        assert_eq!((start.as_ps(), end.as_ps()), (2 * due - 1, 2 * due - 1 + 4120 * 4000));
        // Three SKPs fell due in between.
        assert_eq!(wire.send(end, 1, &mut counters).0, end + Duration::from_ps(3 * 16_000));
        assert_eq!(counters.skp_sets, 4);
    }

    /// Two intervals of idle wire, a silence of a thousand, then a frame. Two SKPs are sent before the silence, and the
    /// third one interval after it.
    #[test]
    fn silent_time_adds_no_skps_later() {
        for rate in Rate::ALL {
            let (mut wire, mut counters) = serializer(rate, 4);
            let period = wire.skp_period_ticks / TICKS_PER_PS;
            let (now, until) = (Time::from_ps(period * 5 / 2), Time::from_ps(period * 1000));
            wire.hold(now, until, &mut counters);
            assert_eq!((wire.send(now, 8, &mut counters).0, counters.skp_sets), (until, 2));
            wire.catch_up(until + Duration::from_ps(period - 1), &mut counters);
            assert_eq!(counters.skp_sets, 2);
            wire.catch_up(until + Duration::from_ps(period * 3 / 2), &mut counters);
            assert_eq!(counters.skp_sets, 3);
        }
    }

    #[test]
    fn exact_time_survives_long_runs() {
        let (mut wire, mut counters) = serializer(Rate::Gt8, 12);
        for _ in 0..96 * 1000 {
            wire.send(Time::ZERO, 8125, &mut counters);
        }
        let bytes = counters.wire_bytes;
        assert_eq!(wire.free_at().as_ps(), bytes * 8125 / 96);
        assert_eq!(counters.busy_ps, bytes * 8125 / 96);
        let end = wire.free;
        wire.catch_up(Time::from_ps(1 << 62), &mut counters);
        assert!(wire.free > end && counters.skp_sets > 1 << 39);
    }
}
