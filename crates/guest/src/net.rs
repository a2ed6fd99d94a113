// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of a device: one client after another. Decides nothing that the session could.
//!
//! ```no_run
//! # use std::{path::Path, time::Duration};
//! # use riser_guest::{net::{Server, wait}, vfio_user::Shape};
//! # fn serve(handle: impl Fn(riser_guest::vfio_user::Event, &mut Server)) -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = Server::bind(Path::new("vmd.sock"), Shape::new())?;
//! loop {
//!     wait(&[&server], &[], Some(Duration::from_millis(100)))?;
//!     server.turn()?;
//!     while let Some(event) = server.poll() {
//!         handle(event, &mut server);
//!     }
//!     server.flush();
//! }
//! # }
//! ```

use crate::vfio_user::{Event, HangUp, Irq, IrqChange, MAX_FDS, Session, Shape, Token};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fchmod, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, send, socket_with,
};
use rustix::process::geteuid;
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Most bytes that one call receives.
const RECEIVE: usize = 64 << 10;
/// Most calls that receive in one turn, for other sockets to have theirs.
const RECEIVES: usize = 16;

/// Why no socket could be opened.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Something is there that is no socket.
    #[error("{path}: there is a file that is no socket; remove it or name another path")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// Somebody listens there.
    #[error("{path}: another process listens there; end it or name another path")]
    InUse {
        /// The path.
        path: String,
    },
    /// The path cannot be a socket's.
    #[error("{path}: a path of a socket has at most 107 bytes")]
    Path {
        /// The path.
        path: String,
    },
    /// The system refuses.
    #[error("{path}: {what}: {error}")]
    System {
        /// The path.
        path: String,
        /// What was asked of it.
        what: &'static str,
        /// What it says.
        error: io::Error,
    },
}

/// Who came to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Number of the process; zero, if it is in a namespace that we do not see.
    pub process: u32,
    /// The user that it ran as when it connected.
    pub user: u32,
    /// Whether it is served: the user is ours, or root.
    pub is_served: bool,
}

/// The socket of a device, and who is connected to it.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// Device and inode of the socket's file, by which we know it for ours.
    file: (u64, u64),
    listener: OwnedFd,
    shape: Shape,
    client: Option<Client>,
    peer: Option<Peer>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    session: Session,
}

impl Server {
    /// Listens at `path`, for clients of our own user or root. A socket that nobody listens to any longer is replaced.
    ///
    /// # Errors
    /// Where there is something else, or somebody listens already; see [`ListenError`].
    pub fn bind(path: &Path, shape: Shape) -> Result<Server, ListenError> {
        let name = || path.display().to_string();
        let system =
            |what: &'static str| move |e: Errno| ListenError::System { path: name(), what, error: e.into() };
        let address = SocketAddrUnix::new(path).map_err(|_| ListenError::Path { path: name() })?;
        remove_stale(path, &address)?;
        let listener = unix_socket().map_err(system("opening a socket"))?;
        // The file gets the mode that the socket has: nobody else can connect even for a moment.
        fchmod(&listener, Mode::RUSR | Mode::WUSR).map_err(system("setting the mode of a socket"))?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => ListenError::InUse { path: name() },
            errno => system("listening")(errno),
        })?;
        let file = fs::symlink_metadata(path)
            .map(|file| (file.dev(), file.ino()))
            .map_err(|error| ListenError::System { path: name(), what: "looking at the socket", error })?;
        let server = Server {
            path: path.to_owned(),
            file,
            listener,
            shape,
            client: None,
            peer: None,
            buffer: vec![0; RECEIVE],
        };
        listen(&server.listener, 1).map_err(system("listening"))?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends and receives what is possible at once, and takes the next client where there is none. Says whether anything came.
    ///
    /// # Errors
    /// Those of `accept`; those of a connection end that one alone.
    pub fn turn(&mut self) -> io::Result<bool> {
        self.flush();
        if self.client.as_ref().is_some_and(|client| client.session.is_done()) {
            self.client = None;
        }
        if self.client.is_none() && !self.accept()? {
            return Ok(false);
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
        // It fails where its counter is full: then the client has not yet looked, and will.
        let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        true
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) {
        let Some(Client { socket, session }) = &mut self.client else { return };
        while !session.outgoing().is_empty() {
            match send(&*socket, session.outgoing(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => session.sent(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // Nobody takes it any longer.
                    session.sent(usize::MAX);
                    session.closed(Some(errno));
                }
            }
        }
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

    /// What is to be waited for: `None` if nothing but what the caller has to do.
    fn interest(&self) -> Option<PollFd<'_>> {
        let client = self.client.as_ref().filter(|client| !client.session.is_done());
        let Some(Client { socket, session }) = client else {
            return Some(PollFd::new(&self.listener, PollFlags::IN));
        };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, session.room() > 0);
        flags.set(PollFlags::OUT, !session.outgoing().is_empty());
        (!flags.is_empty()).then(|| PollFd::new(socket, flags))
    }

    fn accept(&mut self) -> io::Result<bool> {
        let socket = match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let who = getsockopt(&socket, PeerCredentials)?;
        let user = who.uid();
        let is_served = user == 0 || user == geteuid().as_raw();
        let process = who.pid().unsigned_abs();
        self.peer = Some(Peer { process, user, is_served });
        if is_served {
            self.client = Some(Client { socket, session: Session::new(&self.shape) });
        }
        Ok(is_served)
    }

    fn receive(&mut self) -> bool {
        let Some(Client { socket, session }) = &mut self.client else { return false };
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

impl Drop for Server {
    fn drop(&mut self) {
        // Another's, who has replaced ours, stays.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Waits until something can be done at one of the sockets, something can be read of `others`, or the time has passed; a signal ends it
/// too. Says whether any is ready.
///
/// # Errors
/// Those of `poll`.
pub fn wait(servers: &[&Server], others: &[BorrowedFd<'_>], longest: Option<Duration>) -> io::Result<bool> {
    let mut fds: Vec<PollFd<'_>> = servers.iter().filter_map(|server| server.interest()).collect();
    fds.extend(others.iter().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN)));
    let longest =
        longest.map(|time| Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
    match poll(&mut fds, longest.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes a socket that nobody listens to.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let name = || path.display().to_string();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(ListenError::System { path: name(), what: "looking whether it is there", error });
        }
        Ok(file) if !file.file_type().is_socket() => return Err(ListenError::NotASocket { path: name() }),
        Ok(_) => {}
    }
    let system = |what: &'static str| {
        move |e: io::Error| ListenError::System { path: path.display().to_string(), what, error: e }
    };
    let probe = unix_socket().map_err(io::Error::from).map_err(system("opening a socket"))?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(system("removing a socket that nobody listens to"))
        }
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Err(ListenError::InUse { path: name() }),
        Err(errno) => Err(system("trying whether somebody listens")(errno.into())),
    }
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

/// Whether a descriptor is one of `eventfd`; it is set not to block where its counter is full.
fn is_eventfd(fd: Option<BorrowedFd<'_>>) -> bool {
    let Some(fd) = fd else { return false };
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
        && fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK)).is_ok()
}
