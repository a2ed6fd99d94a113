// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an adapter on its sockets. Never decides what to answer.

use super::{AdapterSockets, Clock};
use crate::adapter::{Adapter, Backend};
use crate::carrier::Wait;
use std::io;
use tlp::{Duration, Time};

/// How long one turn waits where nothing comes: the longest until the caller is asked whether to go on.
const TURN: Duration = Duration::from_ms(50);
/// How long one turn waits where what stands behind the adapter takes nothing, and does not say until when.
const HELD: Duration = Duration::from_us(100);

/// Serves peers until `go_on` says no; it is asked after each turn, at least every 50 ms. With `busy`, asks the sockets
/// again and again instead of sleeping: the least latency for a whole core.
///
/// # Errors
/// Those of `epoll`; errors of single peers are counted by the sockets, and stop nothing.
pub fn serve<B: Backend>(
    sockets: &mut AdapterSockets,
    adapter: &mut Adapter<B>,
    clock: Clock,
    busy: bool,
    mut go_on: impl FnMut(&mut Adapter<B>, &AdapterSockets, Time) -> bool,
) -> io::Result<()> {
    loop {
        turn(sockets, adapter, clock, busy)?;
        if !go_on(adapter, sockets, clock.now()) {
            sockets.count_drops();
            return Ok(());
        }
    }
}

fn turn<B: Backend>(
    sockets: &mut AdapterSockets,
    adapter: &mut Adapter<B>,
    clock: Clock,
    busy: bool,
) -> io::Result<()> {
    let due = |adapter: &Adapter<B>| adapter.poll_timeout().map(|at| at.since(clock.now()));
    if adapter.is_ready() {
        let most = due(adapter).map_or(TURN, |due| due.min(TURN));
        let wait = if busy { Wait::Busy(most) } else { Wait::AtMost(most) };
        // One look at the clock serves a batch.
        let mut now = None;
        sockets.poll(wait, |out, port, from, bytes| {
            adapter.handle(*now.get_or_insert_with(|| clock.now()), port, from, bytes, out)
        })?;
    } else {
        let most = due(adapter).map_or(HELD, |due| due.min(HELD));
        std::thread::sleep(super::socket::std_duration(most));
    }
    adapter.advance(clock.now(), sockets.outbox());
    // What the kernel did not take is counted; peers that it failed do not stop the others.
    let _ = sockets.flush();
    Ok(())
}
