// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening one UDP socket, and the clock.

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, getsockopt, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;
use tlp::Time;

/// Bytes of receive buffer asked for; the kernel gives less to those without privileges (`net.core.rmem_max`).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Bytes of send buffer asked for (`net.core.wmem_max`).
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has the port.
    #[error("UDP port {port:#06x} ({port}) of {address} is taken by another socket; it is needed for {rule}")]
    Taken {
        /// Address that was to be bound.
        address: IpAddr,
        /// Its port.
        port: u16,
        /// What travels on it, and by which rule the number follows.
        rule: &'static str,
    },
    /// The address is none of this host's.
    #[error("{0} is no address of this host: name one that an interface has")]
    NotLocal(IpAddr),
    /// There is no way to the peer.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The local and the remote address are of different families.
    #[error("local address {local} and remote address {remote}: both must be IPv4, or both IPv6")]
    Families {
        /// This side's.
        local: IpAddr,
        /// The peer's.
        remote: IpAddr,
    },
    /// Tags that a port scheme has no ports for.
    #[error("tags {first:#x} to {last:#x}: legal are ranges within 0 to 0x3ff that are not empty")]
    Tags {
        /// First of the range.
        first: u16,
        /// Last of the range.
        last: u16,
    },
    /// Nobody on the session port, or nobody who knows sessions.
    #[error(
        "{0} does not answer on the session port 0x2ffd: it may be no riser adapter, or does not allow this peer"
    )]
    NoSession(IpAddr),
    /// The peer answered, and refused.
    #[error("{peer} refuses a session: {reason}")]
    Refused {
        /// Who.
        peer: IpAddr,
        /// Why.
        reason: String,
    },
    /// The peer demands a key that was not named. Its other ports are closed, or it means them to be.
    #[error("{0} demands a session with a pre-shared key")]
    WantsKey(IpAddr),
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(what: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |source| OpenError::Io { what, source }
    }
}

/// Wall time as [`Time`]: picoseconds since this clock was made; monotonic.
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
    /// A clock that begins now.
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time since it was made.
    pub fn now(&self) -> Time {
        Time::from_ps(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }
}

/// Longest time that somebody who waits for one answer or request asks again and again before sleeping: to be woken takes
/// longer than most answers.
pub(super) const SPIN: tlp::Duration = tlp::Duration::from_us(50);

/// Whether asking again and again before sleeping has been worth it lately: where there are fewer cores than work, it
/// takes time from whom it waits for. Where it was not, it is tried ever more seldom: once in 256 sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spin {
    failures: u32,
    skip: u32,
}

impl Spin {
    /// Whether to try now.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// Asks until something comes, or the time is `end`; says what came.
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
            // Where there are fewer cores than work, the other end may wait for this one.
            std::thread::yield_now();
        }
    }

    /// What came of it.
    pub(super) fn learn(&mut self, came: bool) {
        self.failures = if came { self.failures.saturating_sub(1) } else { (self.failures + 1).min(8) };
        self.skip = (1 << self.failures) - 1;
    }
}

/// Asks again and again until something comes, at most so long; says what came.
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

/// Prepares a socket for a wait of at most so long, and says with which flags to receive then: blocking, since that is one
/// call, but for waits that are shorter than the kernel's tick. `timeout` is what the socket has now: few different ones,
/// since each change costs a call, and none longer than asked for.
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

/// A socket and the port that it is bound to.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: UdpSocket,
    pub(super) number: u16,
}

/// A span as `std` has it.
pub(super) fn std_duration(span: tlp::Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_ps() / 1000)
}

/// Binds `address`, for what `rule` says. With `is_shared` several sockets of this process may share the port: the kernel gives
/// each peer's port to one of them.
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

/// Connects a bound socket, so that the kernel drops what comes from elsewhere.
pub(super) fn connect(socket: &UdpSocket, remote: SocketAddr) -> Result<(), OpenError> {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    socket.connect(remote).map_err(|source| match source.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => OpenError::NoRoute(remote.ip()),
        _ => OpenError::Io { what: "connecting a UDP socket", source },
    })
}

/// The address of this host that talks to `remote`: `local` where it is named, else what the route gives.
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
    // Any port will do: connecting a UDP socket sends nothing.
    connect(&probe, SocketAddr::new(remote, capture::encap::PORT_SESSION))?;
    probe.local_addr().map(|address| address.ip()).map_err(OpenError::io("finding the local address"))
}

// What is refused here costs datagrams under load, which are counted; it is no reason to fail.
fn grow_buffers(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &SEND_BUFFER_BYTES);
    }
}

/// Bytes of receive buffer that the kernel has given, as it counts them: with its own overhead.
pub(super) fn receive_buffer_bytes(socket: &UdpSocket) -> usize {
    getsockopt(socket, sockopt::RcvBuf).unwrap_or(212_992)
}
