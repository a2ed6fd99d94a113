// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unix sockets for riser's own user: checks who connects, and manages the socket's file. This module does not depend
//! on the protocol.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Error while opening a socket.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The path is a file that is not a socket.
    #[error("{path}: a file that is not a socket; choose another path")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// Another process listens at the path.
    #[error("{path}: another process listens there; end it or choose another path")]
    InUse {
        /// The path.
        path: String,
    },
    /// The path is too long for a socket.
    #[error("{path}: too long for a socket, expected at most 107 bytes")]
    Path {
        /// The path.
        path: String,
    },
    /// A system call failed.
    #[error("{path}: {what}: {error}")]
    System {
        /// The path.
        path: String,
        /// The operation that has failed.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
}

/// Process that connected to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Process ID; zero if the process is in a namespace that riser does not see.
    pub process: u32,
    /// User at the time of the connection.
    pub user: u32,
    /// Whether the client is served: its user is riser's own user or root.
    pub is_served: bool,
}

/// A listening socket and its file, which is removed with it.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    /// Device and inode of the socket's file, to recognize it.
    file: (u64, u64),
    socket: OwnedFd,
    /// Closed for a moment if no descriptor is left, so that the next client can be accepted and then disconnected.
    spare: RefCell<Option<OwnedFd>>,
}

impl Listener {
    /// Listens at `path`. Replaces a socket at which no process listens any more.
    ///
    /// # Errors
    /// If there is another file or another listener; see [`ListenError`].
    pub fn bind(path: &Path) -> Result<Listener, ListenError> {
        let name = || path.display().to_string();
        let system =
            |what: &'static str| move |e: Errno| ListenError::System { path: name(), what, error: e.into() };
        let address = SocketAddrUnix::new(path).map_err(|_| ListenError::Path { path: name() })?;
        remove_stale(path, &address)?;
        let socket = unix_socket().map_err(system("opening a socket"))?;
        // The file inherits the mode of the socket, so no other user can connect even for a moment.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(system("setting the mode of a socket"))?;
        bind(&socket, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => ListenError::InUse { path: name() },
            errno => system("listening")(errno),
        })?;
        let file = fs::symlink_metadata(path).map(|file| (file.dev(), file.ino())).map_err(|error| {
            ListenError::System { path: name(), what: "reading the status of the socket", error }
        })?;
        let spare = RefCell::new(spare().ok());
        let listener = Listener { path: path.to_owned(), file, socket, spare };
        listen(&listener.socket, 1).map_err(system("listening"))?;
        Ok(listener)
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection, if there is one. The returned socket is non-blocking. Closes the connection if no descriptor is left
    /// for it.
    ///
    /// # Errors
    /// Errors of `accept`.
    pub fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        let socket = match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(Errno::MFILE | Errno::NFILE) => {
                self.send_away();
                return Ok(None);
            }
            Err(errno) => return Err(errno.into()),
        };
        let who = getsockopt(&socket, PeerCredentials)?;
        let user = who.uid();
        let is_served = user == 0 || user == geteuid().as_raw();
        Ok(Some((socket, Peer { process: who.pid().unsigned_abs(), user, is_served })))
    }
}

impl Listener {
    /// Accepts the next connection and closes it.
    fn send_away(&self) {
        self.spare.replace(None);
        drop(accept_with(&self.socket, SocketFlags::CLOEXEC));
        self.spare.replace(spare().ok());
    }
}

/// Opens a descriptor that only reserves its number.
fn spare() -> io::Result<OwnedFd> {
    fs::File::open("/dev/null").map(OwnedFd::from)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Does not remove a file that has replaced riser's file.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes a socket at which no process listens.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let name = || path.display().to_string();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(ListenError::System {
                path: name(),
                what: "checking whether the path exists",
                error,
            });
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
            fs::remove_file(path).map_err(system("removing a socket without a listener"))
        }
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Err(ListenError::InUse { path: name() }),
        Err(errno) => Err(system("checking for a listener")(errno.into())),
    }
}
