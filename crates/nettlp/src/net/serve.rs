// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an adapter on its sockets. The adapter decides what to answer.

use super::{AdapterSockets, Clock};
use crate::adapter::{Adapter, Backend};
use crate::carrier::Wait;
use std::io;
use tlp::{Duration, Time};

/// Maximum wait of one turn, and so the longest time until `go_on` is called.
const TURN: Duration = Duration::from_ms(50);
/// Maximum wait of one turn while the backend accepts no TLPs and has no timer.
const HELD: Duration = Duration::from_us(100);

/// Serves peers until `go_on` returns false. `go_on` is called after each turn, at least every 50 ms. With `busy`,
/// polls the sockets instead of sleeping, which has the lowest latency but uses a whole core.
///
/// # Errors
/// Errors of `epoll`. Errors of single peers are counted by the sockets and do not stop the adapter.
pub fn serve<B: Backend>(
    sockets: &mut AdapterSockets,
    adapter: &mut Adapter<B>,
    clock: Clock,
    busy: bool,
    mut go_on: impl FnMut(&mut Adapter<B>, &AdapterSockets, Time) -> bool,
) -> io::Result<()> {
    loop {
        let now = turn(sockets, adapter, clock, busy)?;
        if !go_on(adapter, sockets, now) {
            sockets.count_drops();
            return Ok(());
        }
    }
}

/// Waits for datagrams once, and answers them. Returns the time after the wait: the clock is read once per turn, since each reading costs as much as
/// a hundredth of a read.
fn turn<B: Backend>(
    sockets: &mut AdapterSockets,
    adapter: &mut Adapter<B>,
    clock: Clock,
    busy: bool,
) -> io::Result<Time> {
    let mut now = None;
    let due = |adapter: &Adapter<B>| adapter.poll_timeout().map(|at| at.since(clock.now()));
    if adapter.is_ready() {
        let most = due(adapter).map_or(TURN, |due| due.min(TURN));
        let wait = if busy { Wait::Busy(most) } else { Wait::AtMost(most) };
        sockets.poll(wait, |out, port, from, bytes| {
            adapter.handle(*now.get_or_insert_with(|| clock.now()), port, from, bytes, out)
        })?;
    } else {
        let most = due(adapter).map_or(HELD, |due| due.min(HELD));
        std::thread::sleep(super::socket::std_duration(most));
    }
    let now = now.unwrap_or_else(|| clock.now());
    adapter.advance(now, sockets.outbox());
    // Rejected datagrams are counted. The failure of one peer does not stop the others.
    let _ = sockets.flush();
    Ok(now)
}
