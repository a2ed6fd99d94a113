// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP peers of a lab whose host is a machine: the caller's sockets for the adapter in a slot.

use super::backend::{AdapterPlace, LabBackend};
use crate::machine::Transport;
use nettlp::adapter::{Adapter, Settings};
use nettlp::carrier::Wait;
use nettlp::net::AdapterSockets;
use session::external::Driver;
use std::os::fd::BorrowedFd;
use tlp::{Duration, Time};

/// Number of batches that are read from the sockets before the lab continues.
const BURST: usize = 8;

/// The adapter of a lab that also serves machines, and its sockets.
pub struct Uplink {
    sockets: AdapterSockets,
    /// `None` while the adapter is joined with the lab.
    adapter: Option<Adapter<AdapterPlace>>,
}

/// An adapter that is joined with a lab.
type Joined<'d> = Adapter<LabBackend<&'d mut Driver>>;

impl Uplink {
    /// The adapter at `place`, with these sockets.
    pub fn new(sockets: AdapterSockets, settings: Settings, place: AdapterPlace) -> Uplink {
        Uplink { sockets, adapter: Some(Adapter::new(settings, place)) }
    }

    /// Calls `act` with the adapter while it is joined with the lab.
    fn join<T>(
        &mut self,
        lab: &mut Driver,
        act: impl FnOnce(&mut Joined<'_>, &mut AdapterSockets) -> T,
    ) -> Option<T> {
        let mut adapter = self.adapter.take()?.map(|place| LabBackend::joined(lab, place));
        let done = act(&mut adapter, &mut self.sockets);
        self.adapter = Some(adapter.map(LabBackend::part));
        Some(done)
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
