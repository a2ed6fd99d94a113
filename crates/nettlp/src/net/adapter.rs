// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All sockets of an adapter: many peers, on all ports that it serves.

use super::batch::{self, BATCH, Buffers, MAX_DATAGRAM_BYTES, Segmentation};
use super::drops;
use super::filter;
use super::options::{AdapterOptions, is_shared_by, numbers, peers_of};
use super::peers::{Sessions, Settled};
use super::queue::SendQueue;
use super::session::{GATHERED_CALLS, random, window};
use super::socket::{self, Clock, OpenError, Port, SPIN, Spin};
use super::tagged::{HOT_BATCHES, epoll_timeout, nothing_is_zero, watch};
use super::{MAX_TLP_BYTES, SocketCounters};
use crate::adapter::Datagrams;
use crate::carrier::{SendError, Wait};
use crate::dropped::Drops;
use crate::stream::{Accepted, AcceptorCounters, AcceptorOptions, Session};
use capture::encap::{NETTLP_LEN, PORT_SESSION};
use nix::sys::epoll::{Epoll, EpollEvent};
use nix::sys::socket::MsgFlags;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use tlp::{Duration, Time};

/// Output of an adapter: datagrams queued until [`AdapterSockets::flush`], and the streams of sessions.
#[derive(Debug)]
pub struct Outbox {
    queue: SendQueue,
    /// The port of each socket, in socket order, which is ascending.
    numbers: Vec<u16>,
    sessions: Option<Sessions>,
    /// Peer of the only socket, if it is connected.
    peer: Option<SocketAddr>,
    /// True if anything was queued since the last flush.
    is_used: bool,
}

/// Callback for a datagram. Receives the port of this side, the sender and the bytes, and may put an answer into
/// the outbox at once. Returns true if it accepted the datagram.
type Take<'t> = dyn FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool + 't;

impl Outbox {
    /// Queues a datagram from `port` of this side to a peer. In a session (`port` is `PORT_SESSION`) `bytes` are a TLP after
    /// six bytes that the session sets.
    ///
    /// # Errors
    /// If there is no room, no such port, or the datagram is too long.
    pub fn send(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        Datagrams::send(self, port, to, bytes.len(), &mut |out| out.copy_from_slice(bytes))
    }
}

impl Datagrams for Outbox {
    fn room(&self, port: u16, to: SocketAddr) -> usize {
        match &self.sessions {
            Some(sessions) if port == PORT_SESSION => sessions.room(to),
            _ => self.queue.room(MAX_DATAGRAM_BYTES),
        }
    }

    fn send(
        &mut self,
        port: u16,
        to: SocketAddr,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError> {
        self.is_used = true;
        if let Some(sessions) = self.sessions.as_mut().filter(|_| port == PORT_SESSION) {
            return sessions.send(to, len, fill);
        }
        if len > MAX_DATAGRAM_BYTES {
            let most = MAX_TLP_BYTES + NETTLP_LEN;
            return Err(SendError::TooLong { bytes: len, most });
        }
        let index = self.numbers.binary_search(&port).map_err(|_| SendError::Tag(port))?;
        // A connected socket sends only to its peer.
        let to = Some(to).filter(|to| self.peer != Some(*to));
        self.queue.push(index as u16, to, len, fill)
    }

    fn has_session(&self, peer: SocketAddr) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.find(peer).is_some())
    }
}

/// If a turn brings at most this many datagrams, the adapter assumes that each client waits for one answer.
const FEW: usize = 8;
/// While the adapter waits for the next datagram of a single client, it polls all sockets in every `LOOK_EVERY`-th turn.
const LOOK_EVERY: u32 = 4;
/// Number of batches from one socket between two reads of its drop count.
const DROPS_EVERY: u32 = 64;

/// Maximum time until a rejected TLP is offered again.
const OFFER_AGAIN: Duration = Duration::from_ms(1);

/// State of a socket in addition to the socket itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Watched {
    drops: u32,
    batches: u32,
}

/// The sockets of an adapter, one per port, on one address.
#[derive(Debug)]
pub struct AdapterSockets {
    ports: Vec<Port>,
    watched: Vec<Watched>,
    ipv6: bool,
    /// `None` with a single connected socket, which is read with a blocking call.
    poll: Option<Epoll>,
    /// Current timeout of the connected socket.
    timeout: Option<std::time::Duration>,
    buffers: Buffers,
    scratch: Vec<u8>,
    outbox: Outbox,
    segmentation: Segmentation,
    /// True if the kernel may deliver several datagrams of the session socket as one.
    coalesced: bool,
    /// Sockets that had datagrams in the last turn. They are polled first.
    hot: Vec<usize>,
    /// Sockets that had datagrams in the turn before the last.
    hot_before: Vec<usize>,
    hot_batches: u32,
    /// True if the last turn brought few datagrams, like from clients that send one request at a time.
    few: bool,
    /// True if each socket receives a single datagram in this turn.
    alone: bool,
    /// Largest number of datagrams from one call in this turn.
    most_of_one: usize,
    spin: Spin,
    clock: Clock,
    counters: SocketCounters,
}

impl AdapterSockets {
    /// Opens all requested ports, or none.
    ///
    /// # Errors
    /// If a port is in use or the address does not belong to this host; see [`OpenError`].
    pub fn bind(options: &AdapterOptions) -> Result<AdapterSockets, OpenError> {
        let mut numbers = numbers(options)?;
        numbers.retain(|&(number, _)| is_shared_by(options.share, number));
        numbers.sort_unstable();
        // With an IPv4-mapped IPv6 address, datagrams would show a peer's address in one form, and the filter would
        // expect the other form.
        let address = options.address.to_canonical();
        let ipv6 = address.is_ipv6();
        let mut ports = Vec::with_capacity(numbers.len());
        for &(number, rule) in &numbers {
            let shared = number == PORT_SESSION && options.share.1 > 1;
            let socket = socket::bind(SocketAddr::new(address, number), rule, shared)?;
            let peers = peers_of(options, number);
            filter::attach(&socket, ipv6, &peers).map_err(OpenError::io("filtering peers"))?;
            batch::report_drops(&socket).map_err(OpenError::io("enabling the count of dropped datagrams"))?;
            ports.push(Port { socket, number });
        }
        let of_sessions = ports.iter().find(|port| port.number == PORT_SESSION).map(|port| &port.socket);
        let sessions = of_sessions.map(|socket| sessions(options, socket)).transpose()?;
        let coalesced = options.offload && of_sessions.is_some_and(batch::receive_coalesced);
        let poll = Some(watch(&ports)?);
        let mut sockets = AdapterSockets::new(ports, ipv6, poll, Segmentation::new(options.offload));
        (sockets.outbox.sessions, sockets.coalesced) = (sessions, coalesced);
        Ok(sockets)
    }

    fn new(ports: Vec<Port>, ipv6: bool, poll: Option<Epoll>, segmentation: Segmentation) -> AdapterSockets {
        let numbers = ports.iter().map(|port| port.number).collect();
        AdapterSockets {
            ipv6,
            poll,
            timeout: None,
            buffers: Buffers::new(),
            scratch: Vec::new(),
            outbox: Outbox { queue: SendQueue::new(), numbers, sessions: None, peer: None, is_used: false },
            segmentation,
            coalesced: false,
            hot: Vec::with_capacity(BATCH),
            hot_before: Vec::with_capacity(BATCH),
            hot_batches: 0,
            few: false,
            alone: false,
            most_of_one: 0,
            spin: Spin::default(),
            watched: vec![Watched::default(); ports.len()],
            ports,
            clock: Clock::new(),
            counters: SocketCounters::default(),
        }
    }

    /// Opens a second socket at the port `number`, for a peer that uses the same port at its end, as upstream's programs do. From now
    /// on the kernel delivers that peer's datagrams only there, and the route to the peer is not looked up for each answer. Another
    /// thread should serve this socket. Returns `None` if this is not possible: the port does not belong to these sockets, or they
    /// cannot reach the peer.
    pub fn connect(&self, number: u16, peer: IpAddr) -> Option<AdapterSockets> {
        let index = self.outbox.numbers.binary_search(&number).ok()?;
        let peer = SocketAddr::new(peer.to_canonical(), number);
        let socket = socket::branch(&self.ports[index].socket, peer).ok()?;
        batch::report_drops(&socket).ok()?;
        let ports = vec![Port { socket, number }];
        let mut sockets = AdapterSockets::new(ports, self.ipv6, None, self.segmentation);
        sockets.outbox.peer = Some(peer);
        Some(sockets)
    }

    /// Receives one batch, and passes each datagram to `take`: the port of this side, the sender, and the bytes. Returns the
    /// number of datagrams.
    ///
    /// `take` may put answers into the outbox at once. [`flush`](Self::flush) sends them. It must be called after
    /// each batch and, for the sessions, after each wait.
    ///
    /// For sessions (`port` is `PORT_SESSION`), `take` receives only TLPs, after the six bytes of the NetTLP
    /// header. Each TLP arrives once, and in order. This function handles the session's own datagrams.
    ///
    /// `take` returns true if it accepted the datagram. A session offers a rejected TLP again, before all others, and grants
    /// no credits until that TLP is accepted. Any other rejected datagram is lost.
    ///
    /// # Errors
    /// Errors of `epoll`. Errors of single peers are counted and do not stop the adapter.
    pub fn poll(
        &mut self,
        wait: Wait,
        mut take: impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool,
    ) -> io::Result<usize> {
        let taken = self.offer_held(&mut take);
        let due = if taken > 0 { Duration::ZERO } else { self.until_wake() };
        let most = wait.longest().min(due);
        let polled = match wait {
            Wait::Busy(_) => socket::busy(self.clock, most, || self.poll_once(Duration::ZERO, &mut take))?,
            _ => self.poll_once(most, &mut take)?,
        };
        Ok(taken + polled)
    }

    /// Sends queued datagrams, as many as the network accepts, and runs the sessions' timers.
    ///
    /// # Errors
    /// The first error of the kernel. Datagrams that fail are counted, and all others are sent.
    pub fn flush(&mut self) -> io::Result<()> {
        let (outbox, segmentation, counters) = (&mut self.outbox, &mut self.segmentation, &mut self.counters);
        outbox.is_used = false;
        let flushed = batch::flush(&mut outbox.queue, &self.ports, segmentation, counters);
        let socket = outbox.numbers.binary_search(&PORT_SESSION).map(|index| &self.ports[index].socket);
        match (&mut outbox.sessions, socket) {
            (Some(sessions), Ok(socket)) => {
                flushed.and(sessions.flush(self.clock.now(), socket, segmentation, counters))
            }
            _ => flushed,
        }
    }

    /// Returns the outbox, for datagrams that do not answer a received one.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Queues a datagram; see [`Outbox::send`].
    ///
    /// # Errors
    /// Those of [`Outbox::send`].
    pub fn send(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        self.outbox.send(port, to, bytes)
    }

    /// Returns the counters of the sockets.
    pub fn counters(&self) -> SocketCounters {
        self.counters
    }

    /// Returns the counters of the sessions. All are zero if the adapter serves no sessions.
    pub fn session_counters(&self) -> AcceptorCounters {
        self.outbox.sessions.as_ref().map(|sessions| sessions.acceptor.counters()).unwrap_or_default()
    }

    /// Returns what the sessions dropped, with reasons.
    pub fn session_drops(&self) -> Drops {
        self.outbox.sessions.as_ref().map(|sessions| sessions.acceptor.drops()).unwrap_or_default()
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.outbox.sessions.as_ref().map_or(0, |sessions| sessions.acceptor.len())
    }

    /// Returns the number of datagrams that the kernel dropped; see [`SocketCounters::kernel_drops`].
    pub fn overflowed(&self) -> u64 {
        self.counters.kernel_drops
    }

    /// Counts kernel drops that no later datagram reported. Reads `/proc`, so call it at the end, not in every turn.
    pub fn count_drops(&mut self) {
        let known = drops::by_inode(self.ipv6);
        for (port, watched) in self.ports.iter().zip(&mut self.watched) {
            let drops = drops::inode(&port.socket).and_then(|inode| known.get(&inode).copied());
            let last = watched.drops;
            watched.drops = drops.unwrap_or(last);
            self.counters.kernel_drops += u64::from(watched.drops.wrapping_sub(last));
        }
    }

    /// Returns the open ports, ascending.
    pub fn ports(&self) -> &[u16] {
        &self.outbox.numbers
    }

    /// Returns a descriptor that is readable when a datagram has arrived at any port.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.poll.as_ref().map_or_else(|| self.ports[0].socket.as_fd(), |poll| poll.0.as_fd())
    }

    /// Returns the time until a session has work to do.
    fn until_wake(&self) -> Duration {
        let Some(sessions) = &self.outbox.sessions else { return Duration::MAX };
        let due = sessions.wake.map_or(Duration::MAX, |at| at.since(self.clock.now()));
        // The time when a rejected TLP can be accepted is unknown, so it is offered again soon.
        if sessions.is_holding() { due.min(OFFER_AGAIN) } else { due }
    }

    fn poll_once(&mut self, most: Duration, take: &mut Take<'_>) -> io::Result<usize> {
        if self.poll.is_none() {
            return self.poll_connected(most, take);
        }
        let all = self.hot_batches >= HOT_BATCHES;
        (self.alone, self.most_of_one) = (self.few && !all, 0);
        let taken = match (self.few, all) {
            (true, _) => self.poll_spinning(most, all, take)?,
            (false, false) => self.poll_hot(take),
            (false, true) => 0,
        };
        if taken > 0 {
            self.hot_batches = if all { 0 } else { self.hot_batches + 1 };
            self.few = taken <= FEW && self.most_of_one <= 1;
            return Ok(taken);
        }
        (self.hot_batches, self.alone) = (0, false);
        self.hot.clear();
        let taken = self.poll_ready(most, take)?;
        self.few = taken <= FEW && self.most_of_one <= 1;
        Ok(taken)
    }

    /// Spins for a while if spinning paid off before. If one socket had datagrams in the last turn, polls mostly
    /// this socket. Otherwise polls all sockets, since upstream's clients use one port per tag. With `all`, polls
    /// all sockets equally.
    fn poll_spinning(&mut self, most: Duration, all: bool, take: &mut Take<'_>) -> io::Result<usize> {
        if most == Duration::ZERO || !self.spin.is_due() {
            return Ok(0);
        }
        let until = self.clock.now() + SPIN.min(most);
        let before = self.hot.len();
        let alone = before == 1 && !all;
        for turn in 1_u32.. {
            // The client for which the adapter waits may need this core. With several sockets, one of them may
            // already be ready.
            if alone || turn > 1 {
                std::thread::yield_now();
            }
            let mut taken = if alone { self.drain(self.hot[0], MsgFlags::MSG_DONTWAIT, take) } else { 0 };
            if taken == 0 && (!alone || turn % LOOK_EVERY == 0) {
                taken = self.poll_ready(Duration::ZERO, take)?;
            }
            let is_over = self.clock.now() >= until;
            if taken > 0 || is_over {
                // If other threads used the core for long before the datagram arrived, spinning did not pay off.
                self.spin.learn(taken > 0 && !is_over);
                // Sockets that had datagrams in this turn replace those of the last turn.
                self.hot.drain(..if taken > 0 { before } else { 0 });
                return Ok(taken);
            }
        }
        Ok(0)
    }

    fn poll_hot(&mut self, take: &mut Take<'_>) -> usize {
        std::mem::swap(&mut self.hot, &mut self.hot_before);
        self.hot.clear();
        let flags = MsgFlags::MSG_DONTWAIT;
        (0..self.hot_before.len()).map(|at| self.drain(self.hot_before[at], flags, take)).sum()
    }

    /// Makes one blocking read of the connected socket.
    fn poll_connected(&mut self, wait: Duration, take: &mut Take<'_>) -> io::Result<usize> {
        let flags = match wait {
            Duration::ZERO => MsgFlags::MSG_DONTWAIT,
            _ => socket::prepare_wait(&self.ports[0].socket, &mut self.timeout, wait)?,
        };
        self.hot.clear();
        Ok(self.drain(0, flags, take))
    }

    fn poll_ready(&mut self, wait: Duration, take: &mut Take<'_>) -> io::Result<usize> {
        let mut events = [EpollEvent::empty(); BATCH];
        let Some(poll) = &self.poll else { return Ok(0) };
        let ready = match poll.wait(&mut events, epoll_timeout(wait)) {
            Err(nix::Error::EINTR) => 0,
            other => other?,
        };
        let flags = MsgFlags::MSG_DONTWAIT;
        Ok(events[..ready].iter().map(|event| self.drain(event.data() as usize, flags, take)).sum())
    }

    /// Receives one batch from one socket. In a session, more datagrams may have arrived during the batch, and it
    /// costs less to acknowledge them together. Answers are sent before that.
    fn drain(&mut self, index: usize, mut flags: MsgFlags, take: &mut Take<'_>) -> usize {
        if self.outbox.queue.is_half_full() {
            // The next batch needs room for its answers.
            self.flush_queue();
        }
        let calls = if self.ports[index].number == PORT_SESSION { GATHERED_CALLS } else { 1 };
        let mut count = 0;
        for _ in 0..calls {
            let more = self.receive(index, flags, take);
            count += more;
            flags = MsgFlags::MSG_DONTWAIT;
            if more < 2 || self.outbox.is_used {
                break;
            }
        }
        if count > 0 {
            self.hot.push(index);
            // Datagrams of different ports are always sent one by one, so these answers need not wait for the
            // answers of another port.
            self.flush_queue();
        }
        count
    }

    /// Sends datagrams queued for ports. Datagrams that the kernel rejects are counted.
    fn flush_queue(&mut self) {
        let (queue, segmentation) = (&mut self.outbox.queue, &mut self.segmentation);
        let _ = batch::flush(queue, &self.ports, segmentation, &mut self.counters);
    }

    /// Makes one system call, and returns the number of datagrams received.
    fn receive(&mut self, index: usize, flags: MsgFlags, take: &mut Take<'_>) -> usize {
        let watched = &mut self.watched[index];
        watched.batches = watched.batches.wrapping_add(1);
        let asks = watched.batches % DROPS_EVERY == 1;
        let port = &self.ports[index];
        let of_session = port.number == PORT_SESSION;
        let mut batch = Batch {
            index,
            port: port.number,
            outbox: &mut self.outbox,
            scratch: &mut self.scratch,
            clock: self.clock,
            now: None,
            malformed: 0,
            take,
        };
        let received = if (of_session && self.coalesced) || asks {
            // Receives the drop count, and one datagram or several datagrams that the kernel coalesced.
            self.buffers.receive_one(&port.socket, flags).map(|(received, bytes)| {
                if let Some(drops) = received.drops {
                    let last = std::mem::replace(&mut watched.drops, drops);
                    self.counters.kernel_drops += u64::from(drops.wrapping_sub(last));
                }
                let run = received.run(bytes);
                run.datagrams().for_each(|datagram| batch.datagram(received.from, datagram));
                run.count
            })
        } else if let peer @ Some(_) = batch.outbox.peer {
            let each = |from: Option<SocketAddr>, datagram: &[u8]| batch.datagram(from.or(peer), datagram);
            self.buffers.receive_connected(&port.socket, self.ipv6, flags, each)
        } else if self.alone && !of_session {
            self.buffers.receive_alone(&port.socket, flags).map(|(from, datagram)| {
                batch.datagram(from, datagram);
                1
            })
        } else {
            let each = |from, datagram: &[u8]| batch.datagram(from, datagram);
            self.buffers.receive_many(&port.socket, self.ipv6, flags, each)
        };
        self.counters.malformed_datagrams += batch.malformed;
        // An error on an unconnected socket belongs to an earlier send, and needs no action.
        let count = nothing_is_zero(received).unwrap_or(0);
        self.most_of_one = self.most_of_one.max(count);
        if count > 0 {
            self.counters.receive_calls += 1;
            self.counters.received_datagrams += count as u64;
        }
        count
    }

    /// Offers again the TLPs that sessions hold, and returns how many were accepted.
    fn offer_held(&mut self, take: &mut Take<'_>) -> usize {
        let Some(sessions) = &mut self.outbox.sessions else { return 0 };
        let mut taken = 0;
        for index in sessions.take_holding() {
            while offer_oldest(&mut self.outbox, index, take) == Some(true) {
                taken += 1;
            }
        }
        taken
    }
}

/// Offers the oldest TLP that a session holds. Returns true if it was accepted, `None` if the session holds none.
fn offer_oldest(outbox: &mut Outbox, index: usize, take: &mut Take<'_>) -> Option<bool> {
    let (from, held) = outbox.sessions.as_mut()?.pop_held(index)?;
    let is_taken = take(outbox, PORT_SESSION, from, &held);
    outbox.sessions.as_mut()?.settle_held(index, held, is_taken);
    Some(is_taken)
}

/// Common state of the datagrams of one call.
struct Batch<'a, 't> {
    index: usize,
    port: u16,
    outbox: &'a mut Outbox,
    scratch: &'a mut Vec<u8>,
    clock: Clock,
    now: Option<Time>,
    malformed: u64,
    take: &'a mut Take<'t>,
}

impl Batch<'_, '_> {
    fn datagram(&mut self, from: Option<SocketAddr>, datagram: &[u8]) {
        match from.filter(|_| datagram.len() <= MAX_DATAGRAM_BYTES) {
            Some(from) if self.port == PORT_SESSION => self.of_session(from, datagram),
            Some(from) => _ = (self.take)(self.outbox, self.port, from, datagram),
            None => self.malformed += 1,
        }
    }

    fn of_session(&mut self, from: SocketAddr, datagram: &[u8]) {
        let now = *self.now.get_or_insert_with(|| self.clock.now());
        let Some(sessions) = &mut self.outbox.sessions else { return };
        match sessions.handle(now, from, datagram) {
            Accepted::Session(index) => self.deliver(now, index, from, datagram),
            Accepted::Reply(Some(reply)) => {
                // If there is no room, the peer sends its request again.
                let fill = |out: &mut [u8]| out.copy_from_slice(&reply);
                let _ = self.outbox.queue.push(self.index as u16, Some(from), reply.len(), fill);
            }
            Accepted::Reply(None) => {}
        }
    }

    fn deliver(&mut self, now: Time, index: usize, from: SocketAddr, datagram: &[u8]) {
        let Some(session) = session_of(self.outbox, index) else { return };
        let holds = session.is_holding();
        let Some(next) = session.handle(now, datagram, self.scratch) else { return };
        let mut settled = offer(self.outbox, index, from, next, holds, self.take);
        while settled.has_kept
            && let Some(kept) = session_of(self.outbox, index).and_then(|session| session.pop_kept(now))
        {
            settled = offer(self.outbox, index, from, &kept, settled.holds, self.take);
            if let Some(session) = session_of(self.outbox, index) {
                session.recycle(kept);
            }
        }
    }
}

fn session_of(outbox: &mut Outbox, index: usize) -> Option<&mut Session> {
    outbox.sessions.as_mut()?.session(index)
}

/// Offers a TLP of a session, unless the session holds earlier ones.
fn offer(
    outbox: &mut Outbox,
    index: usize,
    from: SocketAddr,
    datagram: &[u8],
    holds: bool,
    take: &mut Take<'_>,
) -> Settled {
    let taken = !holds && take(outbox, PORT_SESSION, from, datagram);
    let sessions = outbox.sessions.as_mut();
    sessions.map(|sessions| sessions.settle(index, datagram, taken)).unwrap_or_default()
}

/// Creates the sessions of a socket.
fn sessions(options: &AdapterOptions, socket: &UdpSocket) -> Result<Sessions, OpenError> {
    let acceptor = AcceptorOptions {
        max_sessions: options.max_sessions,
        max_per_peer: options.max_sessions_per_peer,
        window: window(socket, options.window),
        longest: MAX_DATAGRAM_BYTES as u16,
        key: options.key.clone(),
        manual_release: true,
    };
    let seed = random().map_err(OpenError::io("generating session ids"))?;
    // If no randomness is available later, the ids can be guessed, but they are still unique.
    let mut count = seed;
    let ids = move || {
        count = count.wrapping_add(1);
        random().unwrap_or(count)
    };
    Ok(Sessions::new(acceptor, Box::new(ids)))
}
