// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of a device, which serves one client at a time. All protocol decisions are the session's.
//!
//! ```no_run
//! # use std::{path::Path, time::Duration};
//! # use riser_guest::{net::{Server, wait}, vfio_user::Shape};
//! # fn serve(handle: impl Fn(riser_guest::vfio_user::Event, &mut Server)) -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = Server::bind(Path::new("vmd.sock"), Shape::new())?;
//! loop {
//!     wait([&server], [], Some(Duration::from_millis(100)))?;
//!     server.turn()?;
//!     while let Some(event) = server.poll() {
//!         handle(event, &mut server);
//!     }
//!     server.flush();
//! }
//! # }
//! ```

use crate::listener::Listener;
pub use crate::listener::{ListenError, Peer};
use crate::vfio_user::{Event, HangUp, Irq, IrqChange, MAX_FDS, Session, Shape, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send,
};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of bytes per receive call.
const RECEIVE: usize = 64 << 10;
/// Maximum number of receive calls per turn, so that other sockets are also served.
const RECEIVES: usize = 16;
/// How long a client that has not sent its version can delay the next client.
const SILENCE: Duration = Duration::from_secs(1);
/// Interval between checks whether an idle client still receives: short enough for a guest that ends soon after.
const LOOK: Duration = Duration::from_millis(100);

/// The socket of a device and its client.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shape: Shape,
    client: Option<Client>,
    peer: Option<Peer>,
    buffer: Vec<u8>,
    /// Whether the last wait found nothing to do at this socket.
    is_idle: Cell<bool>,
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    session: Session,
    came: Instant,
    /// Time of the last check whether the client still receives; the result is in `is_deaf`.
    looked: Instant,
    is_deaf: bool,
}

impl Client {
    /// Returns whether the client has sent no version for too long.
    fn is_silent(&self) -> bool {
        !self.session.is_open() && !self.session.is_over() && self.came.elapsed() > SILENCE
    }

    /// Ends the session of a client that has stopped receiving. Two checks must agree, because a client that closes its socket looks the same
    /// for a moment.
    fn look(&mut self) {
        if !self.session.is_open() || self.looked.elapsed() < LOOK {
            return;
        }
        let was_deaf = std::mem::replace(&mut self.is_deaf, takes_nothing(&self.socket));
        self.looked = Instant::now();
        if was_deaf && self.is_deaf {
            self.session.hang_up(HangUp::Deaf);
        }
    }
}

impl Server {
    /// Listens at `path`, for clients of riser's own user or root. Replaces a socket at which no process listens any
    /// more.
    ///
    /// # Errors
    /// If there is another file or another listener; see [`ListenError`].
    pub fn bind(path: &Path, shape: Shape) -> Result<Server, ListenError> {
        let listener = Listener::bind(path)?;
        Ok(Server {
            listener,
            shape,
            client: None,
            peer: None,
            buffer: vec![0; RECEIVE],
            is_idle: Cell::new(false),
        })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Sends and receives without blocking. Accepts the next client if no client is connected, or if the current client
    /// has sent no version for a second. Returns whether anything was received.
    ///
    /// # Errors
    /// Errors of `accept`. An error of a connection only ends that connection.
    pub fn turn(&mut self) -> io::Result<bool> {
        let is_done = self.client.as_ref().is_some_and(|client| client.session.is_done());
        let is_silent = self.client.as_ref().is_some_and(Client::is_silent);
        if self.is_idle.take() && !is_done && !is_silent {
            self.client.iter_mut().for_each(Client::look);
            return Ok(false);
        }
        self.flush();
        if is_done {
            self.client = None;
        }
        if self.client.is_none() || is_silent {
            self.accept()?;
        }
        Ok(self.receive())
    }

    /// Returns the client's next event.
    pub fn poll(&mut self) -> Option<Event> {
        let event = self.client.as_mut()?.session.poll()?;
        if let Event::Irqs(irqs) = &event
            && irqs.change == IrqChange::Assigned
            && let Some(client) = &mut self.client
            && !(irqs.first..irqs.first + irqs.count).all(|n| is_eventfd(client.session.vector(irqs.irq, n)))
        {
            // Writing to anything else could block or kill the process.
            client.session.hang_up(HangUp::NotAnEvent);
            return client.session.poll();
        }
        Some(event)
    }

    /// Completes an event; see [`Session::complete`].
    pub fn complete(&mut self, token: Token, result: Result<&[u8], Errno>) {
        if let Some(client) = &mut self.client {
            client.session.complete(token, result);
        }
    }

    /// Signals an interrupt. Returns false if the client has given no descriptor for the interrupt, or has masked it.
    /// See [`Session::signal`].
    pub fn signal(&mut self, irq: Irq, n: u32) -> bool {
        let Some(client) = &mut self.client else { return false };
        let Some(eventfd) = client.session.signal(irq, n) else { return false };
        // The write fails if the counter is full; then the client still has a signal to read. The client shares the file's flags and may make
        // it blocking at any time.
        if does_not_block(eventfd) {
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
        true
    }

    /// Sends pending bytes, as many as the socket accepts.
    pub fn flush(&mut self) {
        let Some(Client { socket, session, .. }) = &mut self.client else { return };
        while !session.outgoing().is_empty() {
            match send(&*socket, session.outgoing(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => session.sent(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // The peer no longer receives. `Client::look` ends the session if the peer stays connected.
                    session.sent(usize::MAX);
                    if !(errno == Errno::PIPE && may_send(socket)) {
                        session.closed(Some(errno));
                    }
                }
            }
        }
    }

    /// Disconnects the client.
    pub fn hang_up(&mut self, why: HangUp) {
        if let Some(client) = &mut self.client {
            client.session.hang_up(why);
        }
    }

    /// Returns the maximum number of interrupt descriptors from a client. Only one kind of interrupt is in use at a time.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.shape.irqs.iter().copied().max().unwrap_or_default() as usize
    }

    /// Returns the session with the current client.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.client.as_ref().map(|client| &client.session)
    }

    /// Returns the session with the current client.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.client.as_mut().map(|client| &mut client.session)
    }

    /// Returns the peer that connected last, once.
    pub fn arrival(&mut self) -> Option<Peer> {
        self.peer.take()
    }

    /// Returns the events to poll for. Without any flag, `poll` reports errors only; then the caller has work to do first.
    fn interest(&self) -> PollFd<'_> {
        let client = self.client.as_ref().filter(|client| !client.session.is_done());
        let Some(Client { socket, session, .. }) = client else {
            return PollFd::new(&self.listener, PollFlags::IN);
        };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, session.room() > 0);
        flags.set(PollFlags::OUT, !session.outgoing().is_empty());
        PollFd::new(socket, flags)
    }

    fn accept(&mut self) -> io::Result<()> {
        let Some((socket, peer)) = self.listener.accept()? else { return Ok(()) };
        self.peer = Some(peer);
        if peer.is_served {
            let (session, came) = (Session::new(&self.shape), Instant::now());
            self.client = Some(Client { socket, session, came, looked: came, is_deaf: false });
        }
        Ok(())
    }

    fn receive(&mut self) -> bool {
        let Some(Client { socket, session, .. }) = &mut self.client else { return false };
        let mut any = false;
        for _ in 0..RECEIVES {
            let room = session.room().min(RECEIVE);
            if room == 0 {
                break;
            }
            match receive(socket, &mut self.buffer[..room]) {
                Ok((0, _, _)) => session.closed(None),
                Ok((_, _, true)) => session.hang_up(HangUp::Truncated),
                Ok((count, fds, false)) => {
                    let with_fds = !fds.is_empty();
                    session.receive(&self.buffer[..count], fds);
                    any = true;
                    if count == room || with_fds {
                        continue;
                    }
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(errno) => session.closed(Some(errno)),
            }
            break;
        }
        any || session.is_over()
    }
}

/// Result of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// A server has something to do.
    pub servers: bool,
    /// One of the other descriptors is readable.
    pub others: bool,
}

/// Waits until a server can do something, one of `others` is readable, or the time is over. A signal ends the wait too.
///
/// # Errors
/// Errors of `poll`.
pub fn wait<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    others: impl IntoIterator<Item = BorrowedFd<'a>>,
    longest: Option<Duration>,
) -> io::Result<Ready> {
    let servers: SmallVec<[&Server; 16]> = servers.into_iter().collect();
    // A server that has nothing to do waits for errors only.
    let mut fds: SmallVec<[PollFd<'_>; 16]> = servers.iter().map(|server| server.interest()).collect();
    fds.extend(others.into_iter().map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
    let longest =
        longest.map(|time| Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
    match poll(&mut fds, longest.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(errno.into()),
    }
    let mut ready = Ready::default();
    for (n, fd) in fds.iter().enumerate() {
        let is_ready = !fd.revents().is_empty();
        match servers.get(n) {
            Some(server) => {
                server.is_idle.set(!is_ready);
                ready.servers |= is_ready;
            }
            None => ready.others |= is_ready,
        }
    }
    Ok(ready)
}

/// Receives bytes and descriptors. The last value is true if more descriptors arrived than there was room for.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>, bool), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(those) = message {
            fds.extend(those);
        }
    }
    Ok((received.bytes, fds, received.flags.contains(ReturnFlags::CTRUNC)))
}

/// Returns whether the peer has closed only its receiving half.
fn takes_nothing(socket: &OwnedFd) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    matches!(send(socket, &[], flags), Err(Errno::PIPE)) && may_send(socket)
}

/// Returns whether the peer can still send and nothing is waiting to be received.
fn may_send(socket: &OwnedFd) -> bool {
    matches!(recv(socket, &mut [0], RecvFlags::DONTWAIT | RecvFlags::PEEK), Err(Errno::AGAIN))
}

/// Returns whether a descriptor is an `eventfd`.
fn is_eventfd(fd: Option<BorrowedFd<'_>>) -> bool {
    let Some(fd) = fd else { return false };
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}

/// Makes a descriptor non-blocking. Returns false on failure.
fn does_not_block(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK)).is_ok()
}
