// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The adapter's end of sessions: many sessions on one port. The address and port of the peer identify a session.
//!
//! Unknown senders use little memory. A Hello takes one of [`MAX_OPENING`] places, and replaces the oldest Hello if
//! all places are taken. A session opens only after its peer has shown, by a Confirm, that it receives datagrams at
//! its source address. No answer is longer than its request, and the number of Resets is limited.

use super::SessionError;
use super::connector::{is_sane, prologue};
use super::record::{
    self, Datagram, HELLO_BYTES, MAX_WINDOW, Offer, RESET_BYTES, Record, RecordBytes, Refusal, VERSION,
};
use super::session::{Agreed, Session, SessionCounters};
use crate::auth::{self, Key, Seal};
use crate::dropped::Drops;
use capture::encap::NETTLP_LEN;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tlp::{Duration, Time};

/// Maximum number of sessions that were requested and are not yet confirmed.
pub const MAX_OPENING: usize = 64;
/// Time within which a session must be confirmed.
const OPENING_TIME: Duration = Duration::from_ms(5_000);
/// Maximum number of Resets in `RESET_PERIOD`.
const MAX_RESETS: u32 = 100;
/// Period over which Resets are counted.
const RESET_PERIOD: Duration = Duration::from_ms(100);
/// Time without a TLP after which a new session may displace an old one.
pub(super) const IDLE: Duration = Duration::from_ms(10_000);

/// Options of an [`Acceptor`].
#[derive(Clone, Debug)]
pub struct AcceptorOptions {
    /// Maximum number of sessions.
    pub max_sessions: usize,
    /// Maximum number of sessions per IP address.
    pub max_per_peer: usize,
    /// Number of TLPs that each peer may send before they are acknowledged, at most [`MAX_WINDOW`].
    pub window: u16,
    /// Size of the longest accepted datagram in bytes.
    pub longest: u16,
    /// Requires authentication with this key.
    pub key: Option<Key>,
    /// If true, only [`Session::release`] returns credits.
    pub manual_release: bool,
}

/// Counters of an acceptor, in addition to those of its sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AcceptorCounters {
    /// Sessions opened.
    pub opened: u64,
    /// Sessions that the peer ended.
    pub closed: u64,
    /// Sessions that failed, usually because the peer was silent.
    pub failed: u64,
    /// Idle sessions displaced by new ones.
    pub displaced: u64,
    /// Refused Hellos.
    pub refused: u64,
    /// Hellos that were displaced before they became a session.
    pub abandoned: u64,
    /// Datagrams that belong to no session.
    pub strays: u64,
    /// Resets sent.
    pub resets: u64,
    /// Counters of all sessions, including ended ones.
    pub sessions: SessionCounters,
}

impl AcceptorCounters {
    /// Returns each counter with its name. The counters of sessions are last.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let own = [
            ("opened", self.opened),
            ("closed", self.closed),
            ("failed", self.failed),
            ("displaced", self.displaced),
            ("refused", self.refused),
            ("abandoned", self.abandoned),
            ("strays", self.strays),
            ("resets", self.resets),
        ];
        own.into_iter().chain(self.sessions.rows())
    }
}

/// Outcome of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// The datagram belongs to this session; pass it to [`Session::handle`].
    Session(usize),
    /// The datagram was handled. If there is a reply, send the reply to the sender.
    Reply(Option<RecordBytes>),
}

struct Opening {
    from: SocketAddr,
    nonce: u64,
    id: u64,
    offer: Offer,
    answer: RecordBytes,
    seal: Option<Seal>,
    since: Time,
}

struct Peer {
    address: SocketAddr,
    nonce: u64,
    session: Session,
}

/// Opens sessions for peers, and holds them.
pub struct Acceptor {
    options: AcceptorOptions,
    random: Box<dyn FnMut() -> u64 + Send>,
    opening: VecDeque<Opening>,
    by_address: BTreeMap<SocketAddr, usize>,
    peers: Vec<Option<Peer>>,
    resets: u32,
    resets_since: Time,
    counters: AcceptorCounters,
    /// Drops of sessions that have ended.
    drops: Drops,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("sessions", &self.by_address).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Creates an acceptor without sessions. `random` returns session ids, which must be unpredictable.
    pub fn new(options: AcceptorOptions, random: Box<dyn FnMut() -> u64 + Send>) -> Acceptor {
        Acceptor {
            options,
            random,
            opening: VecDeque::with_capacity(MAX_OPENING),
            by_address: BTreeMap::new(),
            peers: Vec::new(),
            resets: 0,
            resets_since: Time::ZERO,
            counters: AcceptorCounters::default(),
            drops: Drops::default(),
        }
    }

    /// Returns the session of a peer.
    pub fn find(&self, from: SocketAddr) -> Option<usize> {
        self.by_address.get(&from).copied()
    }

    /// Returns a session by its index, with its peer.
    pub fn session(&mut self, index: usize) -> Option<(SocketAddr, &mut Session)> {
        let peer = self.peers.get_mut(index)?.as_mut()?;
        Some((peer.address, &mut peer.session))
    }

    /// Returns a session by its index, read-only.
    pub fn peek(&self, index: usize) -> Option<&Session> {
        self.peers.get(index)?.as_ref().map(|peer| &peer.session)
    }

    /// Returns the range of session indices.
    pub fn indices(&self) -> std::ops::Range<usize> {
        0..self.peers.len()
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Returns true if there is no session.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Returns the counters of the acceptor and its sessions.
    pub fn counters(&self) -> AcceptorCounters {
        let mut counters = self.counters;
        for peer in self.peers.iter().flatten() {
            counters.sessions.add(&peer.session.counters());
        }
        counters
    }

    /// Returns what the sessions dropped, with reasons. Includes sessions that have ended.
    pub fn drops(&self) -> Drops {
        let mut drops = self.drops;
        for peer in self.peers.iter().flatten() {
            drops.extend_from(peer.session.drops(), Some(peer.address));
        }
        drops
    }

    /// Handles a datagram. `known` is the result of [`find`](Self::find) for its sender.
    pub fn handle(&mut self, now: Time, known: Option<usize>, from: SocketAddr, datagram: &[u8]) -> Accepted {
        // Only records of handshakes are parsed here. Their numbers have the control bit and count 0.
        if record::number(datagram) == Some(record::CONTROL_BIT)
            && datagram.len() == HELLO_BYTES
            && let Some(Datagram::Control { session: nonce, record: Record::Hello { offer, noise }, .. }) =
                record::parse(datagram)
        {
            return Accepted::Reply(self.hello(now, from, nonce, offer, noise));
        }
        let confirmed = if self.opening.is_empty() { None } else { self.confirm(now, from, datagram) };
        if let Some(index) = confirmed {
            return Accepted::Session(index);
        }
        match known {
            Some(index) => Accepted::Session(index),
            None => Accepted::Reply(self.stray(now, from, datagram)),
        }
    }

    fn hello(
        &mut self,
        now: Time,
        from: SocketAddr,
        nonce: u64,
        offer: Offer,
        noise: &[u8],
    ) -> Option<RecordBytes> {
        while self.opening.front().is_some_and(|oldest| now.since(oldest.since) > OPENING_TIME) {
            self.abandon_oldest();
        }
        let open = self.find(from).and_then(|index| self.peers[index].as_ref());
        if open.is_some_and(|peer| peer.nonce == nonce) {
            return None;
        }
        // A repeated Hello gets the same answer.
        if let Some(opening) = self.opening.iter().find(|o| o.from == from && o.nonce == nonce) {
            return Some(opening.answer);
        }
        match self.offer(now, from, nonce, offer, noise) {
            Ok(opening) => {
                let answer = opening.answer;
                if self.opening.len() == MAX_OPENING {
                    self.abandon_oldest();
                }
                self.opening.push_back(opening);
                Some(answer)
            }
            Err(reason) => {
                self.counters.refused += 1;
                Some(RecordBytes::new(0, 0, &Record::Refused { nonce, reason }))
            }
        }
    }

    fn abandon_oldest(&mut self) {
        self.counters.abandoned += u64::from(self.opening.pop_front().is_some());
    }

    fn offer(
        &mut self,
        now: Time,
        from: SocketAddr,
        nonce: u64,
        offer: Offer,
        noise: &[u8],
    ) -> Result<Opening, Refusal> {
        if offer.version != VERSION {
            return Err(Refusal::Version);
        }
        if !is_sane(&offer) {
            return Err(Refusal::Offer);
        }
        let (message, seal) = match (&self.options.key, offer.is_authenticated()) {
            (None, false) => (Vec::new(), None),
            (None, true) => return Err(Refusal::NoKey),
            (Some(_), false) => return Err(Refusal::WantsKey),
            (Some(key), true) => {
                let answered = auth::answer(key, &prologue(nonce, &offer), noise);
                let (message, seal) = answered.ok_or(Refusal::WrongKey)?;
                (message, Some(seal))
            }
        };
        self.place(now, from)?;
        let id = (self.random)();
        let ours = Offer { window: self.options.window, longest: self.options.longest, ..offer };
        let answer = RecordBytes::new(0, id, &Record::HelloAck { nonce, offer: ours, noise: &message });
        Ok(Opening { from, nonce, id, offer, answer, seal, since: now })
    }

    /// Opens a requested session if the datagram is the Confirm for it.
    fn confirm(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<usize> {
        let number = record::number(datagram).filter(|number| number & record::CONTROL_BIT != 0)?;
        let place = self.opening.iter().position(|o| o.from == from && o.confirms(number, datagram))?;
        let opening = self.opening.remove(place)?;
        if let Some(old) = self.place(now, from).ok()? {
            self.remove(old);
            self.counters.displaced += 1;
        }
        self.counters.opened += 1;
        Some(self.insert(now, opening))
    }

    fn insert(&mut self, now: Time, opening: Opening) -> usize {
        let agreed = Agreed {
            id: opening.id,
            nonce: opening.nonce,
            window: self.options.window.clamp(1, MAX_WINDOW),
            peer_window: opening.offer.window,
            longest: usize::from(opening.offer.longest.min(self.options.longest)),
            seal: opening.seal,
        };
        let mut session = Session::new(now, agreed, false);
        session.set_manual_release(self.options.manual_release);
        let index = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        if index == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[index] = Some(Peer { address: opening.from, nonce: opening.nonce, session });
        self.by_address.insert(opening.from, index);
        index
    }

    /// Returns the session that a new session of this peer displaces. Returns `None` if there is a free place.
    fn place(&self, now: Time, from: SocketAddr) -> Result<Option<usize>, Refusal> {
        if let Some(own) = self.find(from) {
            return Ok(Some(own));
        }
        let gives_way = if self.sessions_of(from.ip()) >= self.options.max_per_peer {
            self.idlest(now, |peer| peer.address.ip() == from.ip())
        } else if self.len() >= self.options.max_sessions {
            self.idlest(now, |_| true)
        } else {
            return Ok(None);
        };
        gives_way.map(Some).ok_or(Refusal::Full)
    }

    fn sessions_of(&self, ip: IpAddr) -> usize {
        self.by_address.keys().filter(|address| address.ip() == ip).count()
    }

    /// Returns the idle session to displace. Selects the peer with the most sessions, and of its sessions the one
    /// that has been without a TLP for the longest time.
    fn idlest(&self, now: Time, of: impl Fn(&Peer) -> bool) -> Option<usize> {
        let all = self.peers.iter().enumerate().filter_map(|(index, peer)| Some((index, peer.as_ref()?)));
        let idle = all.filter(|(_, peer)| of(peer) && now.since(peer.session.moved()) >= IDLE);
        let order = |(_, peer): &(usize, &Peer)| {
            (std::cmp::Reverse(self.sessions_of(peer.address.ip())), peer.session.moved())
        };
        idle.min_by_key(order).map(|(index, _)| index)
    }

    /// Removes a session that has failed or ended, unless some of its TLPs wait for the consumer. Returns its peer.
    pub fn reap(&mut self, index: usize) -> Option<(SocketAddr, SessionError)> {
        let peer = self.peers.get(index)?.as_ref()?;
        let error = peer.session.failure().filter(|_| !peer.session.is_holding())?;
        let address = peer.address;
        match error {
            SessionError::Closed => self.counters.closed += 1,
            _ => self.counters.failed += 1,
        }
        self.remove(index);
        Some((address, error))
    }

    fn remove(&mut self, index: usize) {
        let Some(peer) = self.peers[index].take() else { return };
        self.by_address.remove(&peer.address);
        self.counters.sessions.add(&peer.session.counters());
        self.drops.extend_from(peer.session.drops(), Some(peer.address));
    }

    fn stray(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<RecordBytes> {
        self.counters.strays += 1;
        // If the peer is opening a session, this datagram has only overtaken the Confirm. A Reset is never answered.
        let waits = self.opening.iter().any(|opening| opening.from == from);
        let reset = matches!(
            record::parse(datagram),
            Some(Datagram::Control { record: Record::Reset | Record::Refused { .. } | Record::Bye, .. })
        );
        if waits || reset || datagram.len() < RESET_BYTES {
            return None;
        }
        if now.since(self.resets_since) >= RESET_PERIOD {
            (self.resets, self.resets_since) = (0, now);
        }
        if self.resets == MAX_RESETS {
            return None;
        }
        self.resets += 1;
        self.counters.resets += 1;
        Some(RecordBytes::new(0, record::number(datagram)?, &Record::Reset))
    }
}

impl Opening {
    fn confirms(&self, number: u64, datagram: &[u8]) -> bool {
        let mut plain = [0; HELLO_BYTES];
        let bytes = match &self.seal {
            None => &datagram[NETTLP_LEN..],
            Some(seal) => match seal.open(number, &datagram[NETTLP_LEN..], &mut plain) {
                Some(len) => &plain[..len],
                None => return false,
            },
        };
        matches!(record::parse_record(bytes), Some((id, Record::Confirm)) if id == self.id)
    }
}
