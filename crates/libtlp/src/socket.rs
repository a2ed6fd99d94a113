// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls on UDP sockets that C programs own. Never closes one, and never waits longer than it was told.

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

/// Bytes of kernel buffer that sockets ask for: bursts of the host's writes wait there. The kernel may give less.
const BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket bound to `local` and connected to `remote`; sends give up after `send_timeout`.
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

/// Lets each receive wait for `timeout` by itself, so that [`receive_by`] needs no second call.
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

/// What is there now: the bytes of a datagram, more than `buffer` has where it was cut off; `EAGAIN` where nothing is.
pub(crate) fn receive_now(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    recv(fd, buffer, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC)
}

/// The next datagram, at the latest at `deadline`; `ETIME` then. `asleep`: the first call may wait in the receive
/// itself, which has the socket's own timeout; where that is cut short, the rest is waited for with poll(2).
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

/// What [`wait_any`] looks at.
pub(crate) fn watched(fd: RawFd) -> Result<PollFd<'static>, Errno> {
    Ok(PollFd::new(crate::fd::borrow(fd)?, PollFlags::POLLIN))
}

/// Whether it has something: a datagram, or the error of one that was sent.
pub(crate) fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.revents().is_some_and(|events| !events.is_empty())
}

/// Waits until one of the sockets has something, at most `timeout`.
pub(crate) fn wait_any(fds: &mut [PollFd<'_>], timeout: Duration) -> Result<(), Errno> {
    match poll(fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error),
    }
    let is_closed = |fd: &PollFd<'_>| fd.revents().is_some_and(|e| e.contains(PollFlags::POLLNVAL));
    if fds.iter().any(is_closed) { Err(Errno::EBADF) } else { Ok(()) }
}
