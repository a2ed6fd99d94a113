// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the virtual machines of a lab: what they want goes into the lab, the lab goes on, and what comes of it goes back. It is told
//! the time.

use super::links::LinkSocket;
use super::seat::{Guest, Told};
use crate::external::Driver;
use guest::net;
use std::io;
use tlp::{Duration, Time};

/// What an access of a machine has set off has this long, in the fabric's time, to end before the machine goes on.
const SETTLE: Duration = Duration::from_us(50);
/// The longest until the caller is asked whether to go on.
const TURN: Duration = Duration::from_ms(20);

/// Serves machines until `go_on` says no or the lab fails; it is asked after each turn, at least every 20 ms. `told` hears what is to
/// be known of a machine, by its number. `links` takes commands meanwhile.
///
/// The fabric's time goes with `clock`, but for the time that riser itself takes: what it computes long at is not slow for that. Returns
/// when it has ended, by that time.
///
/// # Errors
/// Those of `poll` and `accept`.
pub fn serve<'g>(
    lab: &mut Driver,
    guests: impl Iterator<Item = &'g mut Guest>,
    links: &mut [LinkSocket],
    clock: impl Fn() -> Time,
    mut told: impl FnMut(&mut Driver, usize, &str, Told),
    mut go_on: impl FnMut() -> bool,
) -> io::Result<Time> {
    let mut guests: Vec<&mut Guest> = guests.collect();
    let mut is_commanded = false;
    let (mut taken, mut now) = (Duration::ZERO, Time::ZERO);
    while lab.failure().is_none() && go_on() {
        let (begun, mut more) = (clock(), false);
        now = Time::from_ps(begun.as_ps() - taken.as_ps());
        if std::mem::take(&mut is_commanded) {
            links.iter_mut().for_each(|links| links.turn(lab, now));
        }
        for (n, guest) in guests.iter_mut().enumerate() {
            more |= guest.take(lab, now, |lab, name, what| told(lab, n, name, what))?;
        }
        lab.drain(now, |lab| guests.iter_mut().for_each(|guest| guest.hear(lab)));
        lab.settle(SETTLE, |lab| guests.iter_mut().for_each(|guest| guest.hear(lab)));
        let wait = match more {
            true => Duration::ZERO,
            false => lab.poll_timeout().map_or(TURN, |at| at.since(now).min(TURN)),
        };
        taken += clock().since(begun);
        let servers = guests.iter().flat_map(|guest| guest.servers());
        let longest = std::time::Duration::from_nanos(wait.as_ps() / 1000);
        is_commanded = net::wait(servers, links.iter().map(LinkSocket::interest), Some(longest))?.others;
    }
    Ok(now)
}
