// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the virtual machines of a lab: their requests join the lab, the lab runs, and its answers go back. The caller has the clock.

use super::cable::Transport;
use super::event::VmEvent;
use super::links::LinkSocket;
use super::paced_clock::PacedClock;
use super::vm_host::VmHost;
use guest::net;
use session::external::Driver;
use std::io;
use tlp::{Duration, Time};

/// What an access of a machine has set off has this long, in the fabric's time, to end before the machine goes on.
const SETTLE: Duration = Duration::from_us(10);
/// The same where the fabric's time stands still between accesses.
const SETTLE_STILL: Duration = Duration::from_ms(1);
/// How long one machine that does not take what devices write to its memory may hold up all others.
const HOLD: Duration = Duration::from_ms(1000);
/// The longest until the caller is asked whether to go on.
const TURN: Duration = Duration::from_ms(20);

/// How the fabric's time goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// With the clock outside, and ahead of it while an access is under way. It stands still while riser computes, and makes up for a
    /// millisecond of that.
    Clock {
        /// How many times slower than that clock it goes.
        slow: u32,
        /// Riser has a processor of its own: it makes up at once, where it would otherwise wait and go at twice the speed.
        own_processor: bool,
    },
    /// Only while something is done: a machine's accesses are taken one by one, and each ends when all that it has set off has. So a machine
    /// that does the same finds the same, at the same times.
    Still,
}

/// The caller's part while machines are served.
pub trait Supervisor {
    /// Takes an event of a device of host number `guest`.
    fn notify(&mut self, lab: &mut Driver, guest: usize, device: &str, what: VmEvent);

    /// Observes the lab, before each turn.
    fn look(&mut self, _lab: &Driver) {}

    /// Returns whether to continue. Called after each turn, at least every 20 ms.
    fn goes_on(&mut self) -> bool;

    /// Carries out a command that is not one of the lab's. Returns `None` if the supervisor does not know it either.
    ///
    /// # Errors
    /// The command is invalid.
    fn obey(&mut self, _command: &str) -> Option<Result<String, String>> {
        None
    }

    /// Returns the commands that [`obey`](Self::obey) knows, each with its arguments.
    fn commands(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Serves machines until the supervisor ends it or the lab fails. Meanwhile `links` take commands, and `transports` carry other traffic.
///
/// Returns the fabric's time at the end.
///
/// # Errors
/// Those of `poll` and `accept`.
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
    let settle = if is_still { SETTLE_STILL } else { SETTLE };
    let mut is_commanded = false;
    let mut held_since = None;
    while lab.failure().is_none() && supervisor.goes_on() {
        supervisor.look(lab);
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
        // What a machine has not taken by then is lost, and counted, as more comes.
        let held = guests.iter().any(|guest| guest.holds_up()).then(|| held_since.unwrap_or(begun));
        held_since = held;
        let holds_up = held.is_some_and(|since| begun.since(since) < HOLD);
        let is_awaited = guests.iter().any(|guest| guest.is_awaited());
        let mut hear = |lab: &mut Driver| {
            transports.iter_mut().for_each(|transport| transport.carry(lab));
            for guest in &mut guests {
                guest.poll_lab(lab);
                if !is_still {
                    guest.flush();
                }
            }
        };
        if (taken > 0 || !is_still) && !holds_up {
            lab.drain(now(lab), &mut hear);
            // What never ends by itself does not take the fabric ahead for ever.
            let is_near = is_still || lab.now() <= time + SETTLE;
            if taken > 0 || (!is_awaited && is_near) {
                lab.settle(settle.min(paced.step()), &mut hear);
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
        // Whether its end is seen at its socket or elsewhere first, it is the same.
        for (n, guest) in guests.iter_mut().enumerate() {
            guest.end(lab, |lab, name, what| supervisor.notify(lab, n, name, what));
        }
        lab.settle(settle, |_| {});
        time = lab.now();
    }
    Ok(time)
}
