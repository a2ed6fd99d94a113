// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP peers of a lab that also serves machines, or of a lab with several adapters: the caller's sockets for the adapter in a slot.

use super::backend::{AdapterPlace, LabBackend};
use crate::machine::Transport;
use nettlp::adapter::{Adapter, AdapterSettings};
use nettlp::carrier::Wait;
use nettlp::net::{AdapterSockets, Clock};
use session::external::Driver;
use std::io;
use std::os::fd::BorrowedFd;
use tlp::rules::Refusal;
use tlp::{Duration, Time};

/// Number of batches that are read from the sockets before the lab continues.
const BURST: usize = 8;

/// Longest wait of one turn of [`serve_all`].
const TURN: Duration = Duration::from_ms(50);

/// An adapter of a lab that other code drives, and its sockets.
pub struct Uplink {
    sockets: AdapterSockets,
    /// `None` while the adapter is joined with the lab.
    adapter: Option<Adapter<AdapterPlace>>,
}

/// An adapter that is joined with a lab.
pub type Joined<'d> = Adapter<LabBackend<&'d mut Driver>>;

impl Uplink {
    /// The adapter at `place`, with these sockets.
    pub fn new(sockets: AdapterSockets, settings: AdapterSettings, place: AdapterPlace) -> Uplink {
        Uplink { sockets, adapter: Some(Adapter::new(settings, place)) }
    }

    /// Calls `act` with the adapter while it is joined with the lab. Returns `None` if it is joined already.
    pub fn join<T>(
        &mut self,
        lab: &mut Driver,
        act: impl FnOnce(&mut Joined<'_>, &mut AdapterSockets) -> T,
    ) -> Option<T> {
        let mut adapter = self.adapter.take()?.map(|place| LabBackend::joined(lab, place));
        let done = act(&mut adapter, &mut self.sockets);
        self.adapter = Some(adapter.map(LabBackend::part));
        Some(done)
    }

    /// Returns the TLPs that the adapter itself refused, one of each kind. The report of the lab has all others.
    pub fn refusals(&self) -> &[Refusal] {
        self.adapter.as_ref().map_or(&[], Adapter::own_refusals)
    }

    fn is(&self, condition: impl FnOnce(&AdapterPlace) -> bool) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| condition(adapter.backend()))
    }
}

impl Transport for Uplink {
    fn take(&mut self, lab: &mut Driver, now: Time) -> usize {
        let taken = self.join(lab, |adapter, sockets| {
            let mut taken = 0;
            for _ in 0..BURST {
                if !adapter.is_ready() {
                    break;
                }
                let batch = sockets.poll(Wait::AtMost(Duration::ZERO), |out, port, from, bytes| {
                    adapter.handle(now, port, from, bytes, out)
                });
                match batch {
                    Ok(more) if more > 0 => taken += more,
                    _ => break,
                }
            }
            adapter.advance(now, sockets.outbox());
            taken
        });
        // Datagrams that the kernel refuses are counted. An error of one peer does not stop the others.
        let _ = self.sockets.flush();
        taken.unwrap_or(0)
    }

    fn carry(&mut self, lab: &mut Driver) {
        if self.is(AdapterPlace::has_egress) {
            let now = lab.now();
            self.join(lab, |adapter, sockets| adapter.advance(now, sockets.outbox()));
            let _ = self.sockets.flush();
        }
    }

    fn interest(&self) -> Option<BorrowedFd<'_>> {
        // Without room, datagrams wait in the sockets.
        self.is(AdapterPlace::has_room).then(|| self.sockets.readable())
    }
}

/// Serves the adapters of a lab until `go_on` returns false. Calls `go_on` before each turn, at least every 50 ms. With `busy`,
/// polls the sockets instead of sleeping.
///
/// # Errors
/// Errors of `poll`. Errors of single peers are counted by the sockets.
pub fn serve_all(
    lab: &mut Driver,
    uplinks: &mut [Uplink],
    clock: Clock,
    busy: bool,
    mut go_on: impl FnMut(&Driver, &[Uplink]) -> bool,
) -> io::Result<()> {
    while go_on(lab, uplinks) {
        let due = lab.poll_timeout().map_or(TURN, |at| at.since(clock.now()).min(TURN));
        let longest = if busy { Duration::ZERO } else { due };
        let longest = std::time::Duration::from_nanos(longest.as_ps() / 1000);
        let readable = uplinks.iter().filter_map(Transport::interest);
        guest::net::wait(std::iter::empty(), readable, Some(longest))?;
        let now = clock.now();
        for uplink in &mut *uplinks {
            uplink.take(lab, now);
        }
        lab.drain(now, |lab| uplinks.iter_mut().for_each(|uplink| uplink.carry(lab)));
    }
    uplinks.iter_mut().for_each(|uplink| uplink.sockets.count_drops());
    Ok(())
}
