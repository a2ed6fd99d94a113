// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of a device: one client after another. Decides nothing that the session could.
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

/// Most bytes that one call receives.
const RECEIVE: usize = 64 << 10;
/// Most calls that receive in one turn, for other sockets to have theirs.
const RECEIVES: usize = 16;
/// How long a client that has not yet said its version keeps the next one waiting.
const SILENCE: Duration = Duration::from_secs(1);
/// Interval between checks whether an idle client still receives: short enough for a guest that ends soon after.
const LOOK: Duration = Duration::from_millis(100);

/// The socket of a device, and who is connected to it.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shape: Shape,
    client: Option<Client>,
    peer: Option<Peer>,
    buffer: Vec<u8>,
    /// A wait has said that nothing is to be done.
    is_idle: Cell<bool>,
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    session: Session,
    came: Instant,
    /// Time of the last check whether it still receives; `is_deaf` has the result.
    looked: Instant,
    is_deaf: bool,
}

impl Client {
    /// Whether it only keeps others from coming.
    fn is_silent(&self) -> bool {
        !self.session.is_open() && !self.session.is_over() && self.came.elapsed() > SILENCE
    }

    /// Ends the session of a client that has stopped to receive. Two looks must agree: a client that closes its socket looks so for a moment.
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
    /// Listens at `path`, for clients of our own user or root. A socket that nobody listens to any longer is replaced.
    ///
    /// # Errors
    /// Where there is something else, or somebody listens already; see [`ListenError`].
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

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Sends and receives what is possible at once, and takes the next client where there is none, or one that has said nothing for a
    /// second. Says whether anything came.
    ///
    /// # Errors
    /// Those of `accept`; those of a connection end that one alone.
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

    /// What the client wants next.
    pub fn poll(&mut self) -> Option<Event> {
        let event = self.client.as_mut()?.session.poll()?;
        if let Event::Irqs(irqs) = &event
            && irqs.change == IrqChange::Assigned
            && let Some(client) = &mut self.client
            && !(irqs.first..irqs.first + irqs.count).all(|n| is_eventfd(client.session.vector(irqs.irq, n)))
        {
            // Writing anything else could block, or end the process.
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

    /// Signals an interrupt; false where the client has no descriptor for it, or has masked it. See [`Session::signal`].
    pub fn signal(&mut self, irq: Irq, n: u32) -> bool {
        let Some(client) = &mut self.client else { return false };
        let Some(eventfd) = client.session.signal(irq, n) else { return false };
        // It fails where its counter is full: then the client has not yet looked, and will. The client shares the file's flags, and may
        // let it block at any time.
        if does_not_block(eventfd) {
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
        true
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) {
        let Some(Client { socket, session, .. }) = &mut self.client else { return };
        while !session.outgoing().is_empty() {
            match send(&*socket, session.outgoing(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => session.sent(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // The peer no longer receives. `Client::look` ends the session if it stays connected.
                    session.sent(usize::MAX);
                    if !(errno == Errno::PIPE && may_send(socket)) {
                        session.closed(Some(errno));
                    }
                }
            }
        }
    }

    /// Sends the client away.
    pub fn hang_up(&mut self, why: HangUp) {
        if let Some(client) = &mut self.client {
            client.session.hang_up(why);
        }
    }

    /// Descriptors that a client may give for interrupts, of which one kind is in use at a time.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.shape.irqs.iter().copied().max().unwrap_or_default() as usize
    }

    /// The session with the client that is there.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.client.as_ref().map(|client| &client.session)
    }

    /// The session with the client that is there.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.client.as_mut().map(|client| &mut client.session)
    }

    /// Who came last, if that was not asked yet.
    pub fn arrival(&mut self) -> Option<Peer> {
        self.peer.take()
    }

    /// What is to be waited for: no more than errors if nothing but what the caller has to do.
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

/// Who has something to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// One of the servers.
    pub servers: bool,
    /// One of the others.
    pub others: bool,
}

/// Waits until something can be done at one of the sockets, something can be read of `others`, or the time has passed; a signal ends it
/// too.
///
/// # Errors
/// Those of `poll`.
pub fn wait<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    others: impl IntoIterator<Item = BorrowedFd<'a>>,
    longest: Option<Duration>,
) -> io::Result<Ready> {
    let servers: SmallVec<[&Server; 16]> = servers.into_iter().collect();
    // One with which nothing can be done is asked for nothing.
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

/// Receives bytes and descriptors; whether more descriptors came than there was room for.
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

/// Whether the peer has closed its receiving half only.
fn takes_nothing(socket: &OwnedFd) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    matches!(send(socket, &[], flags), Err(Errno::PIPE)) && may_send(socket)
}

/// Whether the peer may still send, and nothing waits to be received.
fn may_send(socket: &OwnedFd) -> bool {
    matches!(recv(socket, &mut [0], RecvFlags::DONTWAIT | RecvFlags::PEEK), Err(Errno::AGAIN))
}

/// Whether a descriptor is one of `eventfd`.
fn is_eventfd(fd: Option<BorrowedFd<'_>>) -> bool {
    let Some(fd) = fd else { return false };
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}

/// Sees to it that nothing at this descriptor blocks.
fn does_not_block(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK)).is_ok()
}
