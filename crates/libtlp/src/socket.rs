// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls on UDP sockets that C programs own. Never closes such a socket, and never waits longer than requested.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, bind, connect, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Requested size of the kernel's buffer in bytes, in which bursts of the host's writes wait. The kernel may give less.
const BUFFER_BYTES: usize = 4 << 20;

/// Opens a UDP socket bound to `local` and connected to `remote`. A send fails after `send_timeout`.
pub(crate) fn open(
    local: Option<SocketAddrV4>,
    remote: SocketAddrV4,
    send_timeout: Duration,
) -> Result<OwnedFd, Errno> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let raw = fd.as_raw_fd();
    let _ = setsockopt(&fd, sockopt::RcvBuf, &BUFFER_BYTES);
    setsockopt(&fd, sockopt::SendTimeout, &timeval(send_timeout))?;
    if let Some(local) = local {
        bind(raw, &SockaddrIn::from(local))?;
    }
    connect(raw, &SockaddrIn::from(remote))?;
    Ok(fd)
}

/// Sets the socket's own receive timeout, so that [`receive_by`] needs no second call.
pub(crate) fn set_receive_timeout(fd: &OwnedFd, timeout: Duration) -> Result<(), Errno> {
    setsockopt(fd, sockopt::ReceiveTimeout, &timeval(timeout))
}

fn timeval(time: Duration) -> TimeVal {
    TimeVal::new(time.as_secs() as i64, i64::from(time.subsec_micros()))
}

/// Sends one datagram.
pub(crate) fn send_whole(fd: RawFd, datagram: &[u8]) -> Result<(), Errno> {
    loop {
        match send(fd, datagram, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Err(Errno::ETIME),
            Err(error) => return Err(error),
        }
    }
}

/// Receives a waiting datagram, and returns its length. If the datagram was truncated, the length is larger than
/// `buffer`. Returns `EAGAIN` if no datagram waits.
pub(crate) fn receive_now(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    recv(fd, buffer, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC)
}

/// Receives the next datagram, or returns `ETIME` at `deadline`. With `asleep` the first receive call may block for
/// the socket's own timeout. If that is shorter, poll(2) waits for the rest of the time.
pub(crate) fn receive_by(
    fd: RawFd,
    buffer: &mut [u8],
    deadline: Instant,
    mut asleep: bool,
) -> Result<usize, Errno> {
    loop {
        let flags = if asleep { MsgFlags::MSG_TRUNC } else { MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC };
        match recv(fd, buffer, flags) {
            Err(Errno::EAGAIN) => wait_readable(fd, deadline)?,
            Err(Errno::EINTR) => {}
            done => return done,
        }
        asleep = false;
    }
}

fn wait_readable(fd: RawFd, deadline: Instant) -> Result<(), Errno> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Errno::ETIME);
    }
    // Rounded up, so that the last fraction of a millisecond is not spent in a loop.
    let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
    match poll(&mut [watched(fd)?], timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the entry of a socket for [`wait_any`].
pub(crate) fn watched(fd: RawFd) -> Result<PollFd<'static>, Errno> {
    Ok(PollFd::new(crate::fd::borrow(fd)?, PollFlags::POLLIN))
}

/// Returns true if the socket has received a datagram, or an error for a sent datagram.
pub(crate) fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.revents().is_some_and(|events| !events.is_empty())
}

/// Waits until one of the sockets is ready, for at most `timeout`.
pub(crate) fn wait_any(fds: &mut [PollFd<'_>], timeout: Duration) -> Result<(), Errno> {
    match poll(fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error),
    }
    let is_closed = |fd: &PollFd<'_>| fd.revents().is_some_and(|e| e.contains(PollFlags::POLLNVAL));
    if fds.iter().any(is_closed) { Err(Errno::EBADF) } else { Ok(()) }
}
