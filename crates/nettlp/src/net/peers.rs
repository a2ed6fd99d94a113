// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sessions of an adapter's sockets. Tracks which sessions have something to send, and when.

use super::SocketCounters;
use super::batch::{self, MAX_RUN_BYTES, MAX_SEGMENTS, Segmentation};
use crate::carrier::SendError;
use crate::stream::{Accepted, Acceptor, AcceptorOptions, Session};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use tlp::Time;

/// All sessions on one port.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) acceptor: Acceptor,
    /// Last sender of a session datagram, and its session. The next datagram usually has the same sender. `None` if
    /// sessions have ended since then.
    last: Option<(SocketAddr, usize)>,
    /// Sessions that may have something to send.
    due: Vec<usize>,
    is_due: Vec<bool>,
    /// Sessions whose TLPs were rejected.
    holding: Vec<usize>,
    /// Time when the next timer is due, or an earlier time.
    pub(super) wake: Option<Time>,
}

/// State of a session after one of its TLPs was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Settled {
    /// True if the session holds rejected TLPs.
    pub(super) holds: bool,
    /// True if the next TLP had already arrived out of order.
    pub(super) has_kept: bool,
}

impl Sessions {
    pub(super) fn new(options: AcceptorOptions, random: Box<dyn FnMut() -> u64 + Send>) -> Sessions {
        let acceptor = Acceptor::new(options, random);
        Sessions {
            acceptor,
            last: None,
            due: Vec::new(),
            is_due: Vec::new(),
            holding: Vec::new(),
            wake: None,
        }
    }

    /// Returns the session of a peer.
    pub(super) fn find(&self, peer: SocketAddr) -> Option<usize> {
        match self.last {
            Some((last, index)) if last == peer => Some(index),
            _ => self.acceptor.find(peer),
        }
    }

    /// Returns how many datagrams of any length can be sent to this peer now.
    pub(super) fn room(&self, to: SocketAddr) -> usize {
        self.find(to).and_then(|index| self.acceptor.peek(index)).map_or(0, Session::room)
    }

    /// Queues a datagram in a peer's stream.
    pub(super) fn send(
        &mut self,
        to: SocketAddr,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        let index = self.find(to).ok_or(SendError::NoRoom)?;
        let (_, session) = self.acceptor.session(index).ok_or(SendError::NoRoom)?;
        session.send_framed(len, fill)?;
        self.mark(index);
        Ok(())
    }

    /// Returns the session of a datagram, or the reply to it.
    pub(super) fn handle(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Accepted {
        let accepted = self.acceptor.handle(now, self.find(from), from, datagram);
        // A new session may have replaced an old one, so `last` is set again.
        if let Accepted::Session(index) = accepted {
            self.last = Some((from, index));
        }
        accepted
    }

    /// Returns a session, and marks it as possibly having something to send.
    pub(super) fn session(&mut self, index: usize) -> Option<&mut Session> {
        self.mark(index);
        self.acceptor.session(index).map(|(_, session)| session)
    }

    fn mark(&mut self, index: usize) {
        if index >= self.is_due.len() {
            self.is_due.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_due[index], true) {
            self.due.push(index);
        }
    }

    /// Records whether an offered TLP was accepted. A rejected TLP is held.
    pub(super) fn settle(&mut self, index: usize, datagram: &[u8], taken: bool) -> Settled {
        let Some((_, session)) = self.acceptor.session(index) else { return Settled::default() };
        if taken {
            session.release(1);
        } else {
            if !session.is_holding() {
                self.holding.push(index);
            }
            session.hold(datagram);
        }
        Settled { holds: session.is_holding(), has_kept: session.has_kept() }
    }

    /// Returns the sessions whose TLPs must be offered again. The caller must add the sessions that still hold TLPs.
    pub(super) fn take_holding(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.holding)
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Records whether a held TLP was accepted when it was offered again. A rejected TLP stays held.
    pub(super) fn settle_held(&mut self, index: usize, held: Vec<u8>, is_taken: bool) {
        let Some(session) = self.session(index) else { return };
        if is_taken {
            session.release(1);
            session.recycle(held);
        } else {
            session.hold_again(held);
            self.holding.push(index);
        }
    }

    /// Returns the peer of a session, and its oldest held TLP.
    pub(super) fn pop_held(&mut self, index: usize) -> Option<(SocketAddr, Vec<u8>)> {
        let (from, session) = self.acceptor.session(index)?;
        session.pop_held().map(|held| (from, held))
    }

    /// Sends the datagrams that are due at `now`, and removes sessions that have ended.
    pub(super) fn flush(
        &mut self,
        now: Time,
        socket: &UdpSocket,
        segmentation: &mut Segmentation,
        counters: &mut SocketCounters,
    ) -> io::Result<()> {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            for index in self.acceptor.indices() {
                self.mark(index);
            }
        }
        let mut failure = Ok(());
        while let Some(index) = self.due.pop() {
            self.is_due[index] = false;
            let Some((to, session)) = self.acceptor.session(index) else { continue };
            session.prompt();
            while let Some(run) = session.poll_transmit(now, MAX_SEGMENTS, MAX_RUN_BYTES) {
                let segment = usize::from(run.segment);
                let sent = batch::send(socket, Some(to), run.bytes, segment, segmentation, counters);
                counters.failed_sends += if sent.is_err() { run.count as u64 } else { 0 };
                failure = failure.and(sent);
            }
            let at = session.poll_timeout();
            self.wake = [self.wake, at].into_iter().flatten().min();
            if self.acceptor.reap(index).is_some() {
                self.last = None;
            }
        }
        failure
    }
}
