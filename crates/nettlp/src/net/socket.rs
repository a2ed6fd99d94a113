// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens UDP sockets, and reads the clock.

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, getsockopt, recv, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;
use tlp::Time;

/// Requested size of the receive buffer in bytes. Without privileges the kernel gives less (`net.core.rmem_max`).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Requested size of the send buffer in bytes (`net.core.wmem_max`).
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Reason why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another socket uses the port.
    #[error("UDP port {port:#06x} ({port}) of {address} is used by another socket; it is needed for {rule}")]
    Taken {
        /// Address to be bound.
        address: IpAddr,
        /// UDP port.
        port: u16,
        /// Traffic of the port, and the rule for its number.
        rule: &'static str,
    },
    /// The address does not belong to this host.
    #[error("{0} is not an address of this host; expected the address of one of its interfaces")]
    NotLocal(IpAddr),
    /// There is no route to the peer.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The local and the remote address belong to different families.
    #[error(
        "local address {local} and remote address {remote} differ in family; expected both IPv4 or both IPv6"
    )]
    Families {
        /// Local address.
        local: IpAddr,
        /// Remote address.
        remote: IpAddr,
    },
    /// The port scheme has no ports for these tags.
    #[error("invalid tags {first:#x} to {last:#x}; expected a non-empty range within 0 to 0x3ff")]
    Tags {
        /// First tag of the range.
        first: u16,
        /// Last tag of the range.
        last: u16,
    },
    /// No program answers on the session port, or it does not support sessions.
    #[error(
        "{0} does not answer on the session port 0x2ffd: it is not a riser adapter, or does not allow this peer"
    )]
    NoSession(IpAddr),
    /// The peer refused the session.
    #[error("{peer} refuses a session: {reason}")]
    Refused {
        /// Address of the peer.
        peer: IpAddr,
        /// Reason of the refusal.
        reason: String,
    },
    /// The peer requires a key, but no key was given. The other ports of the peer should be closed, so they are not
    /// tried.
    #[error("{0} requires a session with a pre-shared key")]
    WantsKey(IpAddr),
    /// Any other system error.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action, for the message.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(what: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |source| OpenError::Io { what, source }
    }
}

/// Wall time as [`Time`]: picoseconds since the clock was created; monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

impl Clock {
    /// Creates a clock that starts now.
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Returns the time since the clock was created.
    pub fn now(&self) -> Time {
        Time::from_ps(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }
}

/// Longest time to spin for a single answer or request before sleeping. Waking up takes longer than the arrival of
/// most answers.
pub(super) const SPIN: tlp::Duration = tlp::Duration::from_us(50);

/// Records whether spinning before sleeping has paid off recently. If there are fewer cores than busy threads,
/// spinning takes time from the awaited peer. After failures, spinning is tried less often, down to once in 256
/// sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spin {
    failures: u32,
    skip: u32,
}

impl Spin {
    /// Returns true if spinning should be tried now.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// Calls `ask` until something arrives or the time is `end`, and returns how much arrived.
    pub(super) fn until(
        &mut self,
        end: Time,
        clock: Clock,
        mut ask: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let came = ask()?;
            if came > 0 || clock.now() >= end {
                self.learn(came > 0);
                return Ok(came);
            }
            // If there are fewer cores than busy threads, the other end may need this core.
            std::thread::yield_now();
        }
    }

    /// Records whether spinning paid off.
    pub(super) fn learn(&mut self, came: bool) {
        self.failures = if came { self.failures.saturating_sub(1) } else { (self.failures + 1).min(8) };
        self.skip = (1 << self.failures) - 1;
    }
}

/// Calls `ask` without pausing until something arrives, at most for `most`, and returns how much arrived.
pub(super) fn busy(
    clock: Clock,
    most: tlp::Duration,
    mut ask: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let end = clock.now() + most;
    loop {
        let came = ask()?;
        if came > 0 || clock.now() >= end {
            return Ok(came);
        }
        std::hint::spin_loop();
    }
}

/// Prepares a socket for a wait of at most `wait`, and returns the flags for the receive call. The receive call
/// blocks, since that takes only one call, unless the wait is shorter than the kernel's tick. `timeout` is the
/// current timeout of the socket. Each change of the timeout costs a call, so only few different timeouts are used.
/// No timeout is longer than `wait`.
pub(super) fn prepare_wait(
    socket: &UdpSocket,
    timeout: &mut Option<std::time::Duration>,
    wait: tlp::Duration,
) -> io::Result<MsgFlags> {
    if wait < tlp::Duration::from_ms(1) {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut polled, Some(TimeSpec::from_duration(std_duration(wait))), None) {
            Ok(_) | Err(nix::Error::EINTR) => return Ok(MsgFlags::MSG_DONTWAIT),
            Err(error) => return Err(error.into()),
        }
    }
    let ms = wait.as_ps() / 1_000_000_000;
    let wanted = std::time::Duration::from_millis(1 << ms.min(1024).ilog2());
    if *timeout != Some(wanted) {
        socket.set_read_timeout(Some(wanted))?;
        *timeout = Some(wanted);
    }
    Ok(MsgFlags::MSG_WAITFORONE)
}

/// A socket and its bound port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: UdpSocket,
    pub(super) number: u16,
}

/// Converts a duration to the type of `std`.
pub(super) fn std_duration(span: tlp::Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_ps() / 1000)
}

/// Binds `address`; `rule` describes its use for errors. With `is_shared`, several sockets of this process may share the port:
/// the kernel assigns each peer and port to one of them.
pub(super) fn bind(address: SocketAddr, rule: &'static str, is_shared: bool) -> Result<UdpSocket, OpenError> {
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        socket.set_reuse_port(is_shared)?;
        socket.bind(&address.into())?;
        Ok(UdpSocket::from(socket))
    };
    let socket = open().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => OpenError::Taken { address: address.ip(), port: address.port(), rule },
        io::ErrorKind::AddrNotAvailable => OpenError::NotLocal(address.ip()),
        _ => OpenError::Io { what: "binding a UDP socket", source },
    })?;
    grow_buffers(&socket);
    Ok(socket)
}

/// Opens a second socket at the address of `listening`, connected to `peer`. Only for this moment can sockets share the address.
/// Datagrams that arrive before the socket is connected are dropped, because they may come from others.
pub(super) fn branch(listening: &UdpSocket, peer: SocketAddr) -> io::Result<UdpSocket> {
    let listening = SockRef::from(listening);
    let open = || -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, None)?;
        listening.set_reuse_address(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&listening.local_addr()?)?;
        socket.connect(&peer.into())?;
        socket.set_reuse_address(false)?;
        Ok(UdpSocket::from(socket))
    };
    let opened = open();
    listening.set_reuse_address(false)?;
    let socket = opened?;
    grow_buffers(&socket);
    while recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT).is_ok() {}
    Ok(socket)
}

/// Connects a bound socket, so that the kernel drops datagrams from other senders.
pub(super) fn connect(socket: &UdpSocket, remote: SocketAddr) -> Result<(), OpenError> {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    socket.connect(remote).map_err(|source| match source.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => OpenError::NoRoute(remote.ip()),
        _ => OpenError::Io { what: "connecting a UDP socket", source },
    })
}

/// Returns the local address for traffic to `remote`: `local` if given, otherwise the address that the route selects.
pub(super) fn local_address(remote: IpAddr, local: Option<IpAddr>) -> Result<IpAddr, OpenError> {
    let (remote, local) = (remote.to_canonical(), local.map(|local| local.to_canonical()));
    if let Some(local) = local {
        let same = local.is_ipv4() == remote.is_ipv4();
        return if same { Ok(local) } else { Err(OpenError::Families { local, remote }) };
    }
    let any: IpAddr = match remote {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let probe = bind(SocketAddr::new(any, 0), "finding the route", false)?;
    // Any port can be used, because connecting a UDP socket sends no datagram.
    connect(&probe, SocketAddr::new(remote, capture::encap::PORT_SESSION))?;
    probe.local_addr().map(|address| address.ip()).map_err(OpenError::io("finding the local address"))
}

// If the kernel rejects a size, datagrams can be lost under load. These are counted, so the call does not fail.
fn grow_buffers(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &SEND_BUFFER_BYTES);
    }
}

/// Returns the size of the receive buffer as the kernel counts it, with its own overhead.
pub(super) fn receive_buffer_bytes(socket: &UdpSocket) -> usize {
    getsockopt(socket, sockopt::RcvBuf).unwrap_or(212_992)
}
