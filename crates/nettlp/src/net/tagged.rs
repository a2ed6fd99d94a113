// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Upstream's ports, at the device software's end: one socket per port, bound and connected to the same port number.

use super::batch::{self, BATCH, Buffers, Segmentation};
use super::queue::SendQueue;
use super::socket::{self, Clock, OpenError, Port, SPIN, Spin};
use super::{MAX_TLP_BYTES, SocketCounters};
use crate::adapter::PeerPath;
use crate::carrier::{Arrival, Carrier, SendError, Wait};
use crate::dropped::Drops;
use capture::encap::{NETTLP_LEN, NettlpHeader, Origin, PORT_DEVICE, PORT_HOST, PortScheme};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::MsgFlags;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use tlp::Tag;
use tlp::rules::Head;
use tlp::wire::Header;

/// Number of batches taken from the last active socket before all sockets are polled, so that no socket starves.
pub(super) const HOT_BATCHES: u32 = 8;

/// Options of a [`TaggedCarrier`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaggedOptions {
    /// Address of the adapter.
    pub remote: IpAddr,
    /// Local address; `None`: the address that the route selects. An adapter answers only peers that a rule names.
    pub local: Option<IpAddr>,
    /// Tags of this software's own requests. A socket is opened for each tag, on port `0x3000 + tag`. The range may
    /// be empty if `host` is set, for software that only answers.
    pub tags: RangeInclusive<u16>,
    /// Also receive the host's requests: 16 sockets on ports `0x4000 + (tag & 0xf)`. In the paper's scheme they arrive on
    /// the ports of `tags`.
    pub host: bool,
    /// Mapping from tags to ports.
    pub scheme: PortScheme,
}

impl TaggedOptions {
    /// Creates options for `tags` toward `remote`, in upstream's current scheme, from the address that the route
    /// selects, without the host's requests.
    pub fn new(remote: IpAddr, tags: RangeInclusive<u16>) -> TaggedOptions {
        TaggedOptions { remote, local: None, tags, host: false, scheme: PortScheme::Tagged }
    }
}

/// Upstream's port scheme. Datagrams may be lost, duplicated and reordered.
///
/// A single socket is read with a blocking call, so that an answer costs one call. Several sockets are waited for with
/// `epoll`.
#[derive(Debug)]
pub struct TaggedCarrier {
    ports: Vec<Port>,
    tags: RangeInclusive<u16>,
    scheme: PortScheme,
    /// Address of the adapter.
    remote: IpAddr,
    ipv6: bool,
    poll: Option<Epoll>,
    buffers: Buffers,
    queue: SendQueue,
    segmentation: Segmentation,
    /// The socket that last received or sent something.
    hot: usize,
    /// Number of batches from `hot` since all sockets were polled.
    hot_batches: u32,
    /// True if the last batch from `hot` was a single datagram, like with one request at a time.
    single: bool,
    spin: Spin,
    /// Current timeout of the only socket.
    timeout: Option<std::time::Duration>,
    clock: Clock,
    counters: SocketCounters,
    drops: Drops,
}

impl TaggedCarrier {
    /// Binds and connects the sockets. Sends nothing, so it does not notice an absent peer.
    ///
    /// # Errors
    /// If a port is in use or an address does not belong to this host; see [`OpenError`].
    pub fn connect(options: &TaggedOptions) -> Result<TaggedCarrier, OpenError> {
        let (first, last) = (*options.tags.start(), *options.tags.end());
        let numbers = numbers(options);
        if numbers.is_empty() || last >= Tag::COUNT {
            return Err(OpenError::Tags { first, last });
        }
        let local = socket::local_address(options.remote, options.local)?;
        let mut ports = Vec::new();
        for (number, rule) in numbers {
            let socket = socket::bind(SocketAddr::new(local, number), rule, false)?;
            socket::connect(&socket, SocketAddr::new(options.remote, number))?;
            ports.push(Port { socket, number });
        }
        let poll = if ports.len() > 1 { Some(watch(&ports)?) } else { None };
        Ok(TaggedCarrier {
            segmentation: Segmentation::new(true),
            ports,
            tags: options.tags.clone(),
            scheme: options.scheme,
            remote: options.remote,
            ipv6: local.is_ipv6(),
            poll,
            buffers: Buffers::new(),
            queue: SendQueue::new(),
            hot: 0,
            hot_batches: 0,
            single: false,
            spin: Spin::default(),
            timeout: None,
            clock: Clock::new(),
            counters: SocketCounters::default(),
            drops: Drops::default(),
        })
    }

    /// Returns the counters of the sockets.
    pub fn socket_counters(&self) -> SocketCounters {
        self.counters
    }

    /// Returns the completions that were dropped because they arrived at the port of another tag. Times count from
    /// [`connect`](Self::connect).
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Returns a descriptor that is readable when a datagram has arrived, for callers that wait for other events too.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.poll.as_ref().map_or_else(|| self.ports[0].socket.as_fd(), |poll| poll.0.as_fd())
    }
}

/// Returns the ports of the tags, each with its rule.
fn numbers(options: &TaggedOptions) -> Vec<(u16, &'static str)> {
    let number = |tag| options.scheme.port(Origin::Device, Tag::from_bits(tag));
    let rule = match options.scheme {
        PortScheme::Tagged => "device-issued TLPs, 0x3000 + tag",
        PortScheme::Paper => "TLPs in the paper's scheme, 0x3000 + (tag & 0xf)",
    };
    let mut numbers: Vec<_> = options.tags.clone().map(|tag| (number(tag), rule)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if options.host && options.scheme == PortScheme::Tagged {
        numbers.extend((0..16).map(|tag| (PORT_HOST + tag, "host-issued TLPs, 0x4000 + (tag & 0xf)")));
    }
    numbers
}

/// Returns the port for which a completion is meant, if this is not `port`: the port of its tag.
fn other_port(scheme: PortScheme, port: u16, tlp: &[u8]) -> Option<u16> {
    let completion = Header::new(tlp).ok()?.completion()?;
    let expected = scheme.port(Origin::Device, completion.tag);
    (expected != port).then_some(expected)
}

/// Creates one `epoll` instance for all ports.
pub(super) fn watch(ports: &[Port]) -> Result<Epoll, OpenError> {
    let failed = |e: nix::Error| OpenError::Io { what: "setting up epoll", source: e.into() };
    let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
    for (index, port) in ports.iter().enumerate() {
        poll.add(&port.socket, EpollEvent::new(EpollFlags::EPOLLIN, index as u64)).map_err(failed)?;
    }
    Ok(poll)
}

/// Converts a wait to milliseconds for `epoll`, rounded up: a wait below 1 ms must not become zero.
pub(super) fn epoll_timeout(wait: tlp::Duration) -> EpollTimeout {
    let ms = wait.as_ps().div_ceil(1_000_000_000);
    EpollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(EpollTimeout::ZERO)
}

/// Returns the issuer of the request that belongs to a TLP, for ports that do not identify the issuer. Device
/// software receives completions of its requests, and requests of the host.
pub(super) fn origin_at_device(tlp: &[u8]) -> Origin {
    // Cpl, CplD, CplLk, CplDLk: Type 0 1010b or 0 1011b (PCIe 5.0 §2.2.1, table 2-3).
    if tlp.first().is_some_and(|byte| byte & 0x1e == 0x0a) { Origin::Device } else { Origin::Host }
}

impl TaggedCarrier {
    fn origin(scheme: PortScheme, port: u16, tlp: &[u8]) -> Origin {
        match scheme {
            PortScheme::Tagged if port >= PORT_HOST => Origin::Host,
            PortScheme::Tagged => Origin::Device,
            PortScheme::Paper => origin_at_device(tlp),
        }
    }

    /// Receives the datagrams that wait at one socket, up to one batch.
    fn drain(
        &mut self,
        index: usize,
        flags: MsgFlags,
        take: &mut impl FnMut(Arrival<'_>),
    ) -> io::Result<usize> {
        let port = &self.ports[index];
        let (scheme, counters) = (self.scheme, &mut self.counters);
        let (remote, clock, drops) = (self.remote, self.clock, &mut self.drops);
        let path = |port| PeerPath { port, peer: SocketAddr::new(remote, port) };
        let mut taken = 0;
        let count = self.buffers.receive_connected(&port.socket, self.ipv6, flags, |_, bytes| {
            match NettlpHeader::parse(bytes) {
                Ok((header, tlp)) if tlp.len() <= MAX_TLP_BYTES => {
                    // With the tag of another outstanding read, it would become that read's data.
                    if let Some(expected) = other_port(scheme, port.number, tlp) {
                        let (found, expected) = (path(port.number), path(expected));
                        return drops.record_wrong_port(
                            clock.now(),
                            found,
                            Some(expected),
                            Head::of_bytes(tlp),
                        );
                    }
                    let origin = Self::origin(scheme, port.number, tlp);
                    take(Arrival { origin, tlp, sequence: header.sequence, timestamp: header.timestamp });
                    taken += 1;
                }
                _ => counters.malformed_datagrams += 1,
            }
        })?;
        counters.receive_calls += 1;
        counters.received_datagrams += count as u64;
        // With one request at a time, the answer arrives on the port that sent last.
        (self.single, self.hot) = (count == 1 && index == self.hot, index);
        Ok(taken)
    }

    /// Makes one blocking read of the only socket.
    fn receive_alone(
        &mut self,
        wait: tlp::Duration,
        take: &mut impl FnMut(Arrival<'_>),
    ) -> io::Result<usize> {
        let flags = match wait {
            tlp::Duration::ZERO => MsgFlags::MSG_DONTWAIT,
            _ => socket::prepare_wait(&self.ports[0].socket, &mut self.timeout, wait)?,
        };
        self.drain(0, flags, take)
    }

    /// Spins briefly if answers have been arriving one at a time and spinning has paid off recently; then sleeps in the
    /// kernel.
    fn receive_asleep(
        &mut self,
        most: tlp::Duration,
        take: &mut impl FnMut(Arrival<'_>),
    ) -> io::Result<usize> {
        if self.single && most > tlp::Duration::ZERO && self.spin.is_due() {
            let (mut spin, end) = (self.spin, self.clock.now() + SPIN.min(most));
            let taken = spin.until(end, self.clock, || self.receive_now(take))?;
            self.spin = spin;
            if taken > 0 {
                return Ok(taken);
            }
        }
        if self.poll.is_some() { self.receive_any(most, take) } else { self.receive_alone(most, take) }
    }

    /// Receives without waiting: first from the last active socket, for up to `HOT_BATCHES` batches, then from all.
    fn receive_now(&mut self, take: &mut impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        if self.poll.is_none() || self.hot_batches < HOT_BATCHES {
            let taken = nothing_is_zero(self.drain(self.hot, MsgFlags::MSG_DONTWAIT, take))?;
            if taken > 0 || self.poll.is_none() {
                self.hot_batches += 1;
                return Ok(taken);
            }
        }
        nothing_is_zero(self.receive_any(tlp::Duration::ZERO, take))
    }

    /// Calls `epoll_wait` once, and receives from the sockets that are ready.
    fn receive_any(&mut self, wait: tlp::Duration, take: &mut impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        self.hot_batches = 0;
        let mut events = [EpollEvent::empty(); BATCH];
        let Some(poll) = &self.poll else { return Ok(0) };
        let ready = poll.wait(&mut events, epoll_timeout(wait))?;
        let mut taken = 0;
        for event in &events[..ready] {
            taken += nothing_is_zero(self.drain(event.data() as usize, MsgFlags::MSG_DONTWAIT, take))?;
        }
        Ok(taken)
    }
}

/// Returns 0 for an error that only means that no datagram is available.
pub(super) fn nothing_is_zero(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if batch::would_block(&error) => Ok(0),
        other => other,
    }
}

impl Carrier for TaggedCarrier {
    fn is_reliable(&self) -> bool {
        false
    }

    fn tags(&self) -> RangeInclusive<u16> {
        self.tags.clone()
    }

    fn room(&self) -> usize {
        self.queue.room(batch::MAX_DATAGRAM_BYTES)
    }

    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        if len > MAX_TLP_BYTES {
            return Err(SendError::TooLong { bytes: len, most: MAX_TLP_BYTES });
        }
        let number = self.scheme.port(origin, tag);
        let index = self.ports.binary_search_by_key(&number, |port| port.number);
        let index = index.map_err(|_| SendError::Tag(tag.bits()))?;
        // The answer arrives at the same socket.
        self.hot = index;
        self.queue.push(index as u16, None, NETTLP_LEN + len, |bytes| {
            bytes[..NETTLP_LEN].fill(0);
            fill(&mut bytes[NETTLP_LEN..]);
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        batch::flush(&mut self.queue, &self.ports, &mut self.segmentation, &mut self.counters)
    }

    fn receive(&mut self, wait: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        nothing_is_zero(match wait {
            Wait::Busy(most) => socket::busy(self.clock, most, || self.receive_now(&mut take)),
            Wait::Never => self.receive_asleep(tlp::Duration::ZERO, &mut take),
            Wait::AtMost(most) => self.receive_asleep(most, &mut take),
        })
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

const _: () = assert!(PORT_DEVICE + Tag::COUNT <= PORT_HOST);
