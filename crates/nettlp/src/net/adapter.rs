// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All sockets of an adapter: many peers, on all ports that it serves.

use super::batch::{self, BATCH, Buffers, MAX_DATAGRAM_BYTES};
use super::filter::Network;
use super::queue::SendQueue;
use super::socket::{self, Clock, OpenError, Port};
use super::tagged::{epoll_timeout, nothing_is_zero, watch};
use super::{MAX_TLP_BYTES, SocketCounters};
use crate::carrier::{SendError, Wait};
use capture::encap::{
    NETTLP_LEN, PORT_ADAPTER, PORT_CONFIG, PORT_DEVICE, PORT_HOST, PORT_MESSAGING, PORT_SESSION,
};
use nix::sys::epoll::{Epoll, EpollEvent};
use nix::sys::socket::MsgFlags;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use tlp::Tag;

/// Which ports an adapter serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterOptions {
    /// Address of this host to listen on. Answers leave from it.
    pub address: IpAddr,
    /// Device-issued TLPs of these tags, on `0x3000 + tag`; upstream's clients use 0 to 255.
    pub tags: Option<RangeInclusive<u16>>,
    /// Host-issued TLPs, on `0x4000 + (tag & 0xf)`; `0x4001` is the old port of configuration too.
    pub host: bool,
    /// Messaging, on `0x2fff`.
    pub messaging: bool,
    /// Configuration, on `0x5001`.
    pub configuration: bool,
    /// The adapter's own registers, on `0x5002`.
    pub registers: bool,
    /// riser sessions, on `0x2ffd`.
    pub sessions: bool,
    /// Which of several threads' sockets these are, and of how many: of the ports of TLPs this one has those whose number
    /// leaves this remainder; all others are the first thread's. `(0, 1)`: all.
    pub share: (u16, u16),
    /// Peers whose datagrams the kernel lets through; what others send takes no buffer space. Empty: everybody's.
    pub peers: Vec<Network>,
}

impl AdapterOptions {
    /// Everything that upstream's adapter serves, and sessions; for all peers.
    #[must_use]
    pub fn new(address: IpAddr) -> AdapterOptions {
        AdapterOptions {
            address,
            tags: Some(0..=255),
            host: true,
            messaging: true,
            configuration: true,
            registers: true,
            sessions: true,
            share: (0, 1),
            peers: Vec::new(),
        }
    }
}

/// What an adapter sends: datagrams in line until [`AdapterSockets::flush`], and the sessions' streams.
#[derive(Debug)]
pub struct Outbox {
    queue: SendQueue,
    /// The port of each socket, in the order of the sockets: ascending.
    numbers: Vec<u16>,
}

impl Outbox {
    /// Puts a datagram in line, from `port` of this side to a peer. In a session (`port` is `PORT_SESSION`) `bytes` are a
    /// TLP behind six bytes that the session sets.
    ///
    /// # Errors
    /// Where there is no room, no such port, or the datagram is too long.
    pub fn send(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        self.send_with(port, to, bytes.len(), |out| out.copy_from_slice(bytes))
    }

    /// As [`send`](Self::send), with `len` bytes that `fill` writes in place.
    ///
    /// # Errors
    /// As for `send`; `fill` is not called then.
    pub fn send_with(
        &mut self,
        port: u16,
        to: SocketAddr,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        if len > MAX_DATAGRAM_BYTES {
            let most = MAX_TLP_BYTES + NETTLP_LEN;
            return Err(SendError::TooLong { bytes: len, most });
        }
        let index = self.numbers.binary_search(&port).map_err(|_| SendError::Tag(port))?;
        self.queue.push(index as u16, Some(to), len, fill)
    }

    /// Datagrams, of whatever length, that [`send`](Self::send) takes now toward this peer on this port.
    #[must_use]
    pub fn room(&self, port: u16, to: SocketAddr) -> usize {
        let _ = (port, to);
        self.queue.room(MAX_DATAGRAM_BYTES)
    }
}

/// The sockets of an adapter, one for each port, on one address.
#[derive(Debug)]
pub struct AdapterSockets {
    ports: Vec<Port>,
    ipv6: bool,
    poll: Epoll,
    buffers: Buffers,
    outbox: Outbox,
    segmentation: bool,
    /// Sockets that gave something last time, and are asked again before all others.
    hot: Vec<usize>,
    clock: Clock,
    counters: SocketCounters,
}

impl AdapterSockets {
    /// Opens all ports that are asked for, or none.
    ///
    /// # Errors
    /// Where a port is taken or the address is not ours; see [`OpenError`].
    pub fn bind(options: &AdapterOptions) -> Result<AdapterSockets, OpenError> {
        let mut numbers = numbers(options)?;
        numbers.retain(|&(number, _)| is_shared_by(options.share, number));
        numbers.sort_unstable();
        let mut ports = Vec::with_capacity(numbers.len());
        for &(number, rule) in &numbers {
            let socket = socket::bind(SocketAddr::new(options.address, number), rule)?;
            batch::report_drops(&socket).map_err(OpenError::io("asking for the count of drops"))?;
            ports.push(Port { socket, number });
        }
        let numbers = ports.iter().map(|port| port.number).collect();
        Ok(AdapterSockets {
            ipv6: options.address.is_ipv6(),
            poll: watch(&ports)?,
            buffers: Buffers::new(),
            outbox: Outbox { queue: SendQueue::new(), numbers },
            segmentation: ports.first().is_some_and(|port| batch::offers_segmentation(&port.socket)),
            hot: Vec::with_capacity(BATCH),
            ports,
            clock: Clock::new(),
            counters: SocketCounters::default(),
        })
    }

    /// Gives one batch of what has arrived to `take`: the port of this side, who sent it, and the bytes of the datagram;
    /// says how many datagrams that were. `take` may answer into the outbox right away; answers leave with
    /// [`flush`](Self::flush). Of sessions (`port` is `PORT_SESSION`) only TLPs are given, once and in order, each
    /// behind the six bytes of its NetTLP header; what sessions need beside that is done on the way. `take` says whether it
    /// has taken what it was given: a session offers what was not taken again, first, and grants no credits until it is; any
    /// other datagram is gone.
    ///
    /// # Errors
    /// Those of `epoll`; errors of single peers are counted, and stop nothing.
    pub fn poll(
        &mut self,
        wait: Wait,
        mut take: impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool,
    ) -> io::Result<usize> {
        let most = match wait {
            Wait::Never => tlp::Duration::ZERO,
            Wait::AtMost(most) => most,
            Wait::Busy(most) => return self.poll_busy(most, &mut take),
        };
        let taken = self.poll_hot(&mut take);
        if taken > 0 { Ok(taken) } else { self.poll_ready(most, &mut take) }
    }

    /// Hands what waits to the network, as far as it takes it.
    ///
    /// # Errors
    /// The first of what the kernel would not send; that is counted, and all else is sent.
    pub fn flush(&mut self) -> io::Result<()> {
        batch::flush(&mut self.outbox.queue, &self.ports, &mut self.segmentation, &mut self.counters)
    }

    /// Where to put what is no answer to something that has just arrived.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Puts a datagram in line; see [`Outbox::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        self.outbox.send(port, to, bytes)
    }

    /// What its sockets have seen.
    #[must_use]
    pub fn counters(&self) -> SocketCounters {
        self.counters
    }

    /// Datagrams that the kernel has dropped; see [`SocketCounters::kernel_drops`].
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.counters.kernel_drops
    }

    /// The ports that are open, ascending.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.outbox.numbers
    }

    fn poll_hot(&mut self, take: &mut impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool) -> usize {
        let hot = std::mem::take(&mut self.hot);
        hot.iter().map(|&index| self.drain(index, take)).sum()
    }

    fn poll_ready(
        &mut self,
        wait: tlp::Duration,
        take: &mut impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool,
    ) -> io::Result<usize> {
        let mut events = [EpollEvent::empty(); BATCH];
        let ready = match self.poll.wait(&mut events, epoll_timeout(wait)) {
            Err(nix::Error::EINTR) => 0,
            other => other?,
        };
        Ok(events[..ready].iter().map(|event| self.drain(event.data() as usize, take)).sum())
    }

    fn poll_busy(
        &mut self,
        wait: tlp::Duration,
        take: &mut impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool,
    ) -> io::Result<usize> {
        let end = self.clock.now() + wait;
        loop {
            let taken = self.poll_hot(take) + self.poll_ready(tlp::Duration::ZERO, take)?;
            if taken > 0 || self.clock.now() >= end {
                return Ok(taken);
            }
            std::hint::spin_loop();
        }
    }

    fn drain(
        &mut self,
        index: usize,
        take: &mut impl FnMut(&mut Outbox, u16, SocketAddr, &[u8]) -> bool,
    ) -> usize {
        let port = &self.ports[index];
        let (outbox, counters) = (&mut self.outbox, &mut self.counters);
        let received =
            self.buffers.receive_many(&port.socket, self.ipv6, MsgFlags::MSG_DONTWAIT, |from, bytes| {
                match from {
                    Some(from) if bytes.len() <= MAX_DATAGRAM_BYTES => {
                        take(outbox, port.number, from, bytes);
                    }
                    _ => counters.malformed_datagrams += 1,
                }
            });
        // An error of a socket that is not connected belongs to a datagram sent before; nothing is left to do about it.
        let count = nothing_is_zero(received).unwrap_or(0);
        if count > 0 {
            counters.receive_calls += 1;
            counters.received_datagrams += count as u64;
            self.hot.push(index);
        }
        count
    }
}

/// Whether a port is one of this thread's.
const fn is_shared_by((thread, threads): (u16, u16), number: u16) -> bool {
    match number {
        PORT_DEVICE..=0x33ff | PORT_HOST..=0x400f => threads == 0 || number % threads == thread,
        _ => thread == 0,
    }
}

/// All ports with their rules.
fn numbers(options: &AdapterOptions) -> Result<Vec<(u16, &'static str)>, OpenError> {
    let mut numbers = Vec::new();
    if let Some(tags) = &options.tags {
        let (first, last) = (*tags.start(), *tags.end());
        if first > last || last >= Tag::COUNT {
            return Err(OpenError::Tags { first, last });
        }
        numbers.extend(tags.clone().map(|tag| (PORT_DEVICE + tag, "device-issued TLPs, 0x3000 + tag")));
    }
    if options.host {
        let rule = "host-issued TLPs, 0x4000 + (tag & 0xf)";
        numbers.extend((0..16).map(|tag| (PORT_HOST + tag, rule)));
    }
    let single = [
        (options.messaging, PORT_MESSAGING, "messaging"),
        (options.configuration, PORT_CONFIG, "configuration"),
        (options.registers, PORT_ADAPTER, "the adapter's registers"),
        (options.sessions, PORT_SESSION, "riser sessions"),
    ];
    numbers.extend(single.iter().filter(|(asked, ..)| *asked).map(|&(_, number, rule)| (number, rule)));
    Ok(numbers)
}
