// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State machine of the adapter: datagrams in, datagrams out, time as an argument. Traffic of
//! peers does not increase its use of memory.

use super::backend::{Backend, Outbox, PeerPath, Received};
use super::counters::{PeerCounters, Strangers};
use super::egress::{Back, Datagrams, Device, Egress, Tally};
use crate::allow::{AllowList, Peer};
use crate::carrier::is_announcement;
use crate::completer::{Completions, Full, Incoming, reason_to_drop, refusal};
use crate::dropped::{DropReason, Drops};
use crate::wire::config::{CONFIG_LEN, ConfigMessage};
use crate::wire::header::NettlpHeader;
use crate::wire::messaging::{Question, REPLY_MAX};
use crate::wire::registers::RegisterMessage;
use capture::encap::{
    PORT_ADAPTER, PORT_CONFIG, PORT_CONFIG_OLD, PORT_DEVICE, PORT_HOST, PORT_MESSAGING, PORT_SESSION,
    PortScheme,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tlp::rules::reasons::unrouted;
use tlp::rules::{Head, Refusal, Refusals};
use tlp::{Access, Bdf, Body, MemoryOp, Repr, RuleId, Span, Status, Time, Violation};

/// Configuration of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterSettings {
    /// Peers that the adapter serves.
    pub allow: AllowList,
    /// Completer ID in the completions that refuse requests.
    pub id: Bdf,
    /// The peer that serves the host's requests. Like every peer, it must have a rule in `allow`.
    pub device: Option<IpAddr>,
    /// Ports of the host's requests, used if the device has no session.
    pub scheme: PortScheme,
}

/// An adapter: its rules, its counters and its backend.
///
/// Pass each datagram that arrives at one of the adapter's ports to [`handle`](Self::handle). Call
/// [`advance`](Self::advance) after each batch and when [`poll_timeout`](Self::poll_timeout) is reached.
#[derive(Debug)]
pub struct Adapter<B> {
    settings: AdapterSettings,
    backend: B,
    peers: Vec<PeerCounters>,
    /// The served peer that sent the last datagram.
    last: Option<(IpAddr, Peer)>,
    strangers: Strangers,
    device: Option<Device>,
    tally: Tally,
    refusals: Refusals,
    drops: Drops,
}

impl<B> Adapter<B> {
    /// Creates an adapter with this backend.
    pub fn new(settings: AdapterSettings, backend: B) -> Adapter<B> {
        let peers = vec![PeerCounters::default(); settings.allow.len()];
        let device = settings.device.map(|address| Device { address: address.to_canonical(), session: None });
        Adapter {
            settings,
            backend,
            peers,
            last: None,
            strangers: Strangers::default(),
            device,
            tally: Tally::default(),
            refusals: Refusals::default(),
            drops: Drops::default(),
        }
    }

    /// Replaces the backend by the result of `other`, which receives the old backend.
    pub fn map<C>(self, other: impl FnOnce(B) -> C) -> Adapter<C> {
        let Adapter { settings, backend, peers, last, strangers, device, tally, refusals, drops } = self;
        Adapter { settings, backend: other(backend), peers, last, strangers, device, tally, refusals, drops }
    }

    /// Returns the backend.
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the TLPs that the adapter itself refused, one of each kind, without those of its backend.
    pub fn own_refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }

    /// Returns the counters of each peer, in address order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = (IpAddr, &PeerCounters)> {
        self.settings.allow.addresses().zip(&self.peers)
    }
}

impl<B: Backend> Adapter<B> {
    /// Returns the refused TLPs of peers, one TLP of each kind: first the refusals of the adapter, then those of
    /// its backend.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.refusals.kinds().iter().copied().chain(self.backend.refusals()).collect()
    }

    /// Returns what the adapter and its backend dropped, with reasons.
    pub fn drops(&self) -> Drops {
        let mut drops = self.drops;
        drops.extend_from(&self.backend.drops(), None);
        drops
    }

    /// Returns the number of [refusals](Self::refusals).
    pub fn refusal_kinds(&self) -> usize {
        self.refusals.kinds().len() + self.backend.refusal_kinds()
    }

    /// Handles a datagram that arrived at `port` from `from`. Answers go to `out`. For a session (`port` is
    /// [`PORT_SESSION`]) the datagram is a TLP after six bytes, which are ignored.
    ///
    /// Returns false if the adapter did not accept the datagram. A session must then offer it again later. Any other
    /// datagram is dropped and counted.
    pub fn handle(
        &mut self,
        now: Time,
        port: u16,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut dyn Datagrams,
    ) -> bool {
        let way = PeerPath { port, peer: from };
        let Some(peer) = self.peer(from.ip()) else {
            self.stranger(now, way, bytes, out);
            return true;
        };
        let is_config_old = port == PORT_CONFIG_OLD && bytes.len() == CONFIG_LEN;
        let done = match port {
            PORT_MESSAGING => self.messaging(now, way, bytes, out),
            PORT_CONFIG => self.config(now, peer, way, bytes, out),
            PORT_ADAPTER => self.registers(peer, way, bytes, out),
            _ if is_config_old => self.config(now, peer, way, bytes, out),
            _ => return self.datagram(now, peer, way, bytes, out),
        };
        let counters = &mut self.peers[peer.index()];
        counters.datagrams += 1;
        let before = (counters.malformed, counters.no_room);
        match done {
            Ok(count) => *count(counters) += 1,
            Err(count) => *count(counters) += 1,
        }
        let dropped = [
            (DropReason::Malformed, counters.malformed > before.0),
            (DropReason::NoRoom, counters.no_room > before.1),
        ];
        for (reason, _) in dropped.into_iter().filter(|(_, is_it)| *is_it) {
            self.drops.record_datagram(now, reason, Some(from), bytes);
        }
        true
    }

    /// Looks up the peer with this address. The last served peer is checked first.
    fn peer(&mut self, address: IpAddr) -> Option<Peer> {
        match self.last {
            Some((last, peer)) if last == address => Some(peer),
            _ => {
                let peer = self.settings.allow.peer(address)?;
                self.last = Some((address, peer));
                Some(peer)
            }
        }
    }

    /// Sends what is due at `now`.
    pub fn advance(&mut self, now: Time, out: &mut dyn Datagrams) {
        self.follow_backend();
        let (tally, device, scheme) = (&mut self.tally, self.device, self.settings.scheme);
        let mut egress = Egress { now, datagrams: out, tally, device, scheme };
        self.backend.advance(now, &mut egress);
    }

    /// Returns when [`advance`](Self::advance) must be called next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.backend.poll_timeout()
    }

    /// Returns true if the adapter accepts TLPs. While it returns false, do not read the sockets.
    pub fn is_ready(&self) -> bool {
        self.backend.is_ready()
    }

    /// Returns its configuration.
    pub const fn settings(&self) -> &AdapterSettings {
        &self.settings
    }

    /// Returns the backend for changes.
    pub const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Returns the counters of senders that no rule names.
    pub const fn strangers(&self) -> Strangers {
        self.strangers
    }

    /// Handles a datagram from an address that no rule names. LibTLP sends messaging requests from the address that the
    /// kernel chooses. On the loopback this is always 127.0.0.1, even if the TLPs use another address. Serving
    /// 127.0.0.1 gives no process more access, because a process that can send from there can send from every
    /// loopback address.
    fn stranger(&mut self, now: Time, way: PeerPath, bytes: &[u8], out: &mut dyn Datagrams) {
        let from = way.peer.ip();
        let asks = way.port == PORT_MESSAGING && from.to_canonical() == Ipv4Addr::LOCALHOST;
        if asks && self.messaging(now, way, bytes, out).is_ok() {
            self.strangers.messaging += 1;
        } else {
            self.strangers.count(from, bytes.len());
        }
    }

    /// Handles a datagram with a TLP.
    fn datagram(
        &mut self,
        now: Time,
        peer: Peer,
        way: PeerPath,
        bytes: &[u8],
        out: &mut dyn Datagrams,
    ) -> bool {
        let is_tlp_port = matches!(way.port, PORT_SESSION | PORT_DEVICE..=0x33ff | PORT_HOST..=0x400f);
        let mut scratch = [0; 4];
        let tlp = NettlpHeader::parse(bytes).ok().filter(|_| is_tlp_port).map(|(_, tlp)| tlp);
        let incoming = tlp.and_then(|tlp| self.incoming(now, tlp, &mut scratch));
        if let Some(incoming) = &incoming {
            self.follow(way, &incoming.repr);
        }
        let before = self.tally;
        let taken = match &incoming {
            Some(incoming) if !incoming.is_digest_wrong => self.tlp(now, peer, way, incoming, out),
            _ => Ok(()),
        };
        let counters = &mut self.peers[peer.index()];
        counters.sent_tlps += self.tally.tlps - before.tlps;
        counters.sent_bytes += self.tally.bytes - before.bytes;
        match (taken, incoming) {
            (Err(Full), _) if way.is_session() => return false,
            (Err(Full), _) => {
                counters.no_room += 1;
                let head = Head::of_bytes(tlp.unwrap_or_default());
                self.drops.record_tlp(now, DropReason::NoRoom, Some(way.peer), head);
            }
            (Ok(()), None) => {
                counters.malformed += 1;
                // The refusal of a malformed TLP already names the rule.
                if tlp.is_none() {
                    self.drops.record_datagram(now, DropReason::Malformed, Some(way.peer), bytes);
                }
            }
            (Ok(()), Some(incoming)) => {
                counters.digest_wrong += u64::from(incoming.is_digest_wrong);
                counters.mended += u64::from(incoming.is_mended);
            }
        }
        counters.datagrams += 1;
        true
    }

    /// Parses a TLP. A malformed one, or one with a wrong digest, is recorded as a refusal.
    fn incoming<'a>(&mut self, now: Time, tlp: &'a [u8], scratch: &'a mut [u8; 4]) -> Option<Incoming<'a>> {
        let incoming = Incoming::parse(tlp, scratch);
        if let Some(why) = reason_to_drop(tlp, &incoming) {
            self.refusals.record(now, None, why, Head::of_bytes(tlp));
        }
        incoming.ok()
    }

    /// If the TLP announces a session as the device, sends the host's requests to that session from now on. The
    /// device's address may have other sessions, of programs that only read and write. These sessions receive no
    /// requests.
    fn follow(&mut self, way: PeerPath, repr: &Repr) {
        if way.is_session()
            && is_announcement(repr)
            && let Some(device) = self.device.as_mut().filter(|d| d.address == way.peer.ip().to_canonical())
        {
            device.session = Some(way.peer.port());
        }
    }

    /// Sends the host's requests to the peer that the backend chooses, if it chooses one.
    fn follow_backend(&mut self) {
        let Some(address) = self.backend.device().map(|address| address.to_canonical()) else { return };
        if self.device.is_none_or(|device| device.address != address) {
            self.device = self.settings.allow.peer(address).map(|_| Device { address, session: None });
        }
    }

    fn tlp(
        &mut self,
        now: Time,
        peer: Peer,
        way: PeerPath,
        incoming: &Incoming<'_>,
        out: &mut dyn Datagrams,
    ) -> Result<(), Full> {
        self.follow_backend();
        let (tally, device, scheme) = (&mut self.tally, self.device, self.settings.scheme);
        let mut egress = Egress { now, datagrams: out, tally, device, scheme };
        let Incoming { repr, prefixes, data, rest, .. } = incoming;
        let counters = &mut self.peers[peer.index()];
        let is_read = matches!(&repr.body, Body::Memory(m) if m.op.is_read());
        let is_cut_read = is_read && rest.is_some() && !self.backend.reads_across_4k();
        let is_allowed = is_allowed(&self.settings.allow, peer, repr, rest.map(|r| r.0));
        if is_cut_read || !is_allowed {
            refuse(self.settings.id, way, repr, counters, &mut egress)?;
            let rule = if is_allowed { RuleId::Crosses4K } else { RuleId::UnclaimedAddress };
            let why = Violation::new(rule, unrouted(repr).found);
            self.refusals.record(now, None, why, Head::new(prefixes, repr));
            return Ok(());
        }
        let behind_bytes = rest.filter(|_| is_read).map_or(0, |(span, _)| span.byte_count());
        let received = Received { way, repr, prefixes, data, behind_bytes };
        self.backend.handle(now, &received, &mut egress)?;
        count(repr, counters);
        if let Some((repr, data)) = incoming.second_write() {
            // The first part has been executed and cannot be undone. No session sends such a write.
            let received = Received { way, repr: &repr, prefixes, data, behind_bytes: 0 };
            self.backend.handle(now, &received, &mut egress)?;
            count(&repr, counters);
        }
        Ok(())
    }

    fn messaging(&mut self, now: Time, way: PeerPath, bytes: &[u8], out: &mut dyn Datagrams) -> Done {
        let question = Question::parse(bytes).map_err(malformed)?;
        let Some(reply) = self.backend.message(now, question) else { return Ok(|c| &mut c.messaging) };
        let mut buffer = [0; REPLY_MAX];
        let len = reply.emit(&mut buffer);
        answer(way, &buffer[..len], out)?;
        Ok(|c| &mut c.messaging)
    }

    fn config(
        &mut self,
        now: Time,
        peer: Peer,
        way: PeerPath,
        bytes: &[u8],
        out: &mut dyn Datagrams,
    ) -> Done {
        let message = ConfigMessage::parse(bytes).map_err(malformed)?;
        match message.command {
            Access::Read => {
                let data = self.backend.config_read(now, message.register_dw);
                answer(way, &ConfigMessage { data, ..message }.emit(), out)?;
                Ok(|c| &mut c.config_reads)
            }
            Access::Write if !self.settings.allow.may_configure(peer) => {
                Err(|c| &mut c.refused_register_writes)
            }
            Access::Write => {
                self.backend.config_write(now, message.register_dw, message.byte_enables, message.data);
                Ok(|c| &mut c.config_writes)
            }
        }
    }

    fn registers(&mut self, peer: Peer, way: PeerPath, bytes: &[u8], out: &mut dyn Datagrams) -> Done {
        let message = RegisterMessage::parse(bytes).map_err(malformed)?;
        match message.opcode {
            Access::Read => {
                let data = self.backend.register_read(message.register_dw);
                answer(way, &RegisterMessage { data, ..message }.emit(), out)?;
                Ok(|c| &mut c.register_reads)
            }
            Access::Write if !self.settings.allow.may_configure(peer) => {
                Err(|c| &mut c.refused_register_writes)
            }
            Access::Write => {
                self.backend.register_write(message.register_dw, message.data);
                Ok(|c| &mut c.register_writes)
            }
        }
    }
}

/// Selects the counter for the outcome of a datagram without a TLP.
type Count = fn(&mut PeerCounters) -> &mut u64;
type Done = Result<Count, Count>;

fn malformed<E>(_: E) -> Count {
    |c| &mut c.malformed
}

fn answer(way: PeerPath, bytes: &[u8], out: &mut dyn Datagrams) -> Result<(), Count> {
    let fill = &mut |slot: &mut [u8]| slot.copy_from_slice(bytes);
    out.send(way.port, way.peer, bytes.len(), fill).map_err(|_| -> Count { |c| &mut c.no_room })
}

/// Returns true if the rules allow a TLP. Completions and messages have no address: every served peer may send them.
fn is_allowed(allow: &AllowList, peer: Peer, repr: &Repr, rest: Option<Span>) -> bool {
    let reach = |span: Span| {
        // The check covers the whole range from the first byte to the last, including any gap.
        let last = rest.unwrap_or(span);
        (span.first_byte(), last.first_byte() - span.first_byte() + u64::from(last.byte_count()))
    };
    match &repr.body {
        Body::Memory(m) => {
            let (address, bytes) = reach(m.span);
            let reads = !m.op.is_read() || allow.may_read(peer, address, bytes);
            let writes = m.op.is_read() || allow.may_write(peer, address, bytes);
            reads && writes
        }
        Body::Atomic(a) => {
            let bytes = u64::from(a.operand.bytes());
            allow.may_read(peer, a.address, bytes) && allow.may_write(peer, a.address, bytes)
        }
        Body::Io(_) | Body::Config(_) => allow.is_reader(peer) && allow.is_writer(peer),
        Body::Completion(_) | Body::Message(_) => true,
    }
}

fn refuse(
    id: Bdf,
    way: PeerPath,
    repr: &Repr,
    counters: &mut PeerCounters,
    out: &mut dyn Outbox,
) -> Result<(), Full> {
    let Some(completion) = refusal(id, repr, Status::UnsupportedRequest) else {
        counters.refused_writes += 1;
        return Ok(());
    };
    let mut back = Back { out, way, lost: 0 };
    if back.room() == 0 {
        return Err(Full);
    }
    back.send(completion.header_len(), &mut |slot| {
        completion.emit(slot);
    });
    counters.refused_reads += 1;
    Ok(())
}

fn count(repr: &Repr, counters: &mut PeerCounters) {
    match &repr.body {
        Body::Memory(m) if m.op == MemoryOp::Read => {
            counters.reads += 1;
            counters.read_bytes += u64::from(m.span.byte_count());
        }
        Body::Memory(m) if m.op == MemoryOp::Write => {
            counters.writes += 1;
            counters.write_bytes += u64::from(m.span.byte_count());
        }
        Body::Completion(_) => counters.completions += 1,
        Body::Message(_) => counters.messages += 1,
        Body::Memory(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) => counters.others += 1,
    }
}
