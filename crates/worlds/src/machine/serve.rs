// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the virtual machines of a lab. Their requests join the lab, the lab runs, and its answers go back. The caller provides the clock.

use super::cable::Transport;
use super::event::Supervisor;
use super::links::LinkSocket;
use super::paced_clock::PacedClock;
use super::vm_host::VmHost;
use guest::net;
use session::external::Driver;
use std::io;
use tlp::{Duration, Time};

/// Fabric time in which the effects of an access may end before the machine continues.
const SETTLE: Duration = Duration::from_us(10);
/// The same for [`Pace::Still`].
const SETTLE_STILL: Duration = Duration::from_ms(1);
/// How long a machine that does not accept DMA writes to its memory may delay all others.
const HOLD: Duration = Duration::from_ms(1000);
/// Maximum time between two calls of the supervisor.
const TURN: Duration = Duration::from_ms(20);

/// How the fabric's time advances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Follows the outside clock, and runs ahead of it while an access is in progress. The fabric's time stands still
    /// while riser computes, and then catches up by at most a millisecond.
    Clock {
        /// Factor by which the fabric's time is slower than the clock.
        slow: u32,
        /// riser has its own processor and catches up immediately. Otherwise riser waits, and catches up at twice the
        /// speed of the clock.
        own_processor: bool,
    },
    /// Advances only during accesses. The accesses are handled one by one, and each ends when all its effects have
    /// ended. A machine that does the same therefore finds the same at the same times.
    Still,
}

impl Pace {
    /// Returns the fabric time in which the effects of an access may end, if `step` is the largest step that riser computes quickly. With
    /// [`Pace::Still`], the time does not depend on riser's speed: otherwise, runs would differ, and the rest of the effects would have to wait for the
    /// next access.
    fn settle(self, step: Duration) -> Duration {
        match self {
            Pace::Clock { .. } => SETTLE.min(step),
            Pace::Still => SETTLE_STILL,
        }
    }
}

/// Serves machines until the supervisor ends it or the lab fails. At the same time `links` take commands, and `transports` carry other
/// traffic.
///
/// Returns the fabric's time at the end.
///
/// # Errors
/// The errors of `poll` and `accept`.
pub fn serve<'g>(
    lab: &mut Driver,
    guests: impl Iterator<Item = &'g mut VmHost>,
    links: &mut [LinkSocket],
    transports: &mut [Box<dyn Transport>],
    (pace, clock): (Pace, impl Fn() -> Time),
    supervisor: &mut impl Supervisor,
) -> io::Result<Time> {
    let mut guests: Vec<&mut VmHost> = guests.collect();
    let is_still = pace == Pace::Still;
    let (slow, own_processor) = match pace {
        Pace::Clock { slow, own_processor } => (slow, own_processor),
        Pace::Still => (1, false),
    };
    let (mut paced, mut time) = (PacedClock::new(clock(), slow, own_processor), Time::ZERO);
    let mut is_commanded = false;
    let mut held_since = None;
    while lab.failure().is_none() && supervisor.goes_on() {
        supervisor.observe(lab);
        let begun = clock();
        time = paced.waited(begun);
        let now = |lab: &Driver| if is_still { lab.now() } else { time };
        links.iter_mut().for_each(LinkSocket::flush);
        let mut taken = usize::from(is_commanded);
        if std::mem::take(&mut is_commanded) {
            links.iter_mut().for_each(|links| links.turn(lab, now(lab), supervisor));
        }
        let mut more = false;
        for (n, guest) in guests.iter_mut().enumerate() {
            let most = if is_still { 1_usize.saturating_sub(taken) } else { usize::MAX };
            let (count, left) = guest
                .poll_clients(lab, now(lab), most, |lab, name, what| supervisor.notify(lab, n, name, what))?;
            (taken, more) = (taken + count, more | left);
        }
        taken += transports.iter_mut().map(|transport| transport.take(lab, now(lab))).sum::<usize>();
        // After that, DMA writes that do not fit are lost and counted.
        let held = guests.iter().any(|guest| guest.holds_up()).then(|| held_since.unwrap_or(begun));
        held_since = held;
        let holds_up = held.is_some_and(|since| begun.since(since) < HOLD);
        let is_awaited = guests.iter().any(|guest| guest.is_awaited());
        let mut leave = |lab: &mut Driver| {
            transports.iter_mut().for_each(|transport| transport.carry(lab));
            for guest in &mut guests {
                guest.poll_lab(lab);
                if !is_still {
                    guest.flush();
                }
            }
        };
        if (taken > 0 || !is_still) && !holds_up {
            lab.drain(now(lab), &mut leave);
            // Traffic that never ends must not take the fabric ahead forever.
            let is_near = is_still || lab.now() <= time + SETTLE;
            if taken > 0 || (!is_awaited && is_near) {
                lab.settle(pace.settle(paced.step()), &mut leave);
            }
        }
        guests.iter_mut().for_each(|guest| guest.flush());
        let wait = match (more, lab.poll_timeout()) {
            (true, _) => Duration::ZERO,
            (false, Some(at)) if !is_still => paced.until(at).min(TURN),
            _ => TURN,
        };
        paced.computed(clock());
        let servers = guests.iter().flat_map(|guest| guest.servers());
        let longest = std::time::Duration::from_nanos(wait.as_ps() / 1000);
        let others = links.iter().flat_map(LinkSocket::interest);
        let others = others.chain(transports.iter().filter_map(|transport| transport.interest()));
        is_commanded = net::wait(servers, others, Some(longest))?.others;
    }
    if is_still {
        // A machine's end has the same effects if it is detected elsewhere before its sockets close.
        for (n, guest) in guests.iter_mut().enumerate() {
            guest.end(lab, |lab, name, what| supervisor.notify(lab, n, name, what));
        }
        lab.settle(SETTLE_STILL, |_| {});
        time = lab.now();
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_computation_shortens_accesses_only_if_a_clock_paces_them() {
        let clock = Pace::Clock { slow: 1, own_processor: false };
        for step in [Duration::from_us(1), Duration::from_us(500), Duration::MAX] {
            assert_eq!(clock.settle(step), SETTLE.min(step));
            assert_eq!(Pace::Still.settle(step), SETTLE_STILL);
        }
    }
}
