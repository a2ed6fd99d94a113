// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of the steps of most hops: a new TLP goes onto the wire, and memory serves a write or read that has
//! arrived at a root port. Each step either has the same effect as the general path, or no effect.

use super::Fabric;
use super::pump::Put;
use crate::ledger::Turn;
use crate::queue::Event;
use crate::root::{ReadTurn, WriteTurn};
use crate::topology::{HostId, OfHost, Owner, PortId};
use link::{Rare, SentTlp};
use tlp::{Account, Body, Class, MemoryOp};

impl Fabric {
    /// Makes all ports take the general path from now on: to compare both paths in tests.
    pub fn take_general_path(&mut self) {
        self.set_rare(Rare::GENERAL_PATH, true);
    }

    /// Sets or clears rare features of all ports.
    pub(super) fn set_rare(&mut self, features: Rare, on: bool) {
        self.ports.iter_mut().for_each(|state| state.port.set_rare(features, on));
    }

    /// Sends the next new TLP of the port at `index` if neither end of the link has rare features.
    #[inline(always)]
    pub(super) fn send_fast(&mut self, index: usize) -> Option<Put> {
        let now = self.now;
        let peer = self.ports.get(index)?.id.peer().index();
        let Ok([state, peer]) = self.ports.get_disjoint_mut([index, peer]) else { return None };
        if !state.port.may_transmit_fast(now) || !peer.port.rare().is_empty() {
            return None;
        }
        let SentTlp { sequence, start, end, credit_wait, data_bytes, tlp } = state.port.transmit_fast(now)?;
        let arrival = end + peer.propagation;
        self.ledger.sent(tlp, data_bytes, [start, end, arrival], credit_wait, &mut state.flow);
        peer.push_tlp(sequence, arrival, &mut self.queue);
        Some(Put::NewTlp)
    }

    /// Handles a write or a read that arrives at a root port. Returns false if it must take the general path.
    #[inline(always)]
    pub(super) fn arrive_fast(&mut self, id: PortId, sequence: u16) -> bool {
        let ends = [id.index(), id.peer().index()];
        let Ok([state, sender]) = self.ports.get_disjoint_mut(ends) else { return false };
        let Owner::Root(host, n) = state.owner else { return false };
        let (root, n) = (&mut self.hosts[host].root, n as usize);
        if !state.port.rare().is_empty() {
            return false;
        }
        let Some((tlp, times)) = sender.port.lend_sent(sequence) else { return false };
        let Some(request) = root.plain_request(n, tlp) else { return false };
        match request.op {
            MemoryOp::Write => {}
            MemoryOp::Read => return self.read_arrives(id, sequence, host, n),
            MemoryOp::ReadLocked | MemoryOp::WriteDeferrable => return false,
        }
        let now = self.now;
        let Some(write) = root.plan_write(n, now, request, &tlp.data) else { return false };
        if !state.port.accept_fast(now, sequence, Class::Posted, write.data_credits) {
            return false;
        }
        root.take_write(&write, request, &tlp.data);
        let WriteTurn { asked, visible, .. } = write.turn;
        if tlp.account == Account::DEFERRED {
            self.ledger.written_deferred(id.link(), tlp, times, [now, asked, visible]);
            // The transaction is over, even if the TLP is sent again.
            tlp.account = Account::NONE;
        } else {
            self.ledger.written(tlp.account, asked, visible);
        }
        state.port.return_credits_fast(now, Class::Posted, write.data_credits);
        self.totals.tlp_hops += 1;
        self.last_progress = now;
        state.arm(now, &mut self.queue);
        true
    }

    /// Handles a [plain](crate::root::RootComplex::plain_request) read that arrives at root port `n` of `host`. Returns
    /// false if it must take the general path.
    // Not inlined, so that writes do not pay for its registers.
    #[inline(never)]
    fn read_arrives(&mut self, id: PortId, sequence: u16, host: HostId, n: usize) -> bool {
        let now = self.now;
        let ends = [id.index(), id.peer().index()];
        let Ok([state, sender]) = self.ports.get_disjoint_mut(ends) else { return false };
        let Some(tlp) = sender.port.lend_tlp(sequence) else { return false };
        let Body::Memory(request) = &tlp.repr.body else { return false };
        let root = &mut self.hosts[host].root;
        let Some(read) = root.plan_read(n, now, request) else { return false };
        // The port must not need to be pumped.
        let is_ready = read.ready <= now;
        let outputs = root.outputs(n) | u8::from(is_ready) << Class::Completion.index();
        if state.needs_pump(now, outputs) || !state.port.accept_fast(now, sequence, Class::NonPosted, 0) {
            return false;
        }
        let job = root.take_read(n, now, &read, request, tlp);
        let ReadTurn { asked, answered, ready, .. } = read;
        self.ledger.served(&Turn { account: tlp.account, job, now, asked, answered, ready });
        if !is_ready {
            self.queue.push(ready, Event::ReadReady(OfHost::new(host, job)));
        }
        state.port.return_credits_fast(now, Class::NonPosted, 0);
        if outputs != 0 {
            state.asks_again = false;
        }
        self.totals.tlp_hops += 1;
        self.last_progress = now;
        state.arm(now, &mut self.queue);
        true
    }
}
