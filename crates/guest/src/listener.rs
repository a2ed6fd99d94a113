// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unix sockets for our own user: who may connect, and what becomes of the socket's file. Knows no protocol.

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

/// A listening socket with its file, which goes with it.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    /// Device and inode of the socket's file, by which we know it for ours.
    file: (u64, u64),
    socket: OwnedFd,
    /// Given up for a moment where no descriptor is left, to send away who would else wait for one.
    spare: RefCell<Option<OwnedFd>>,
}

impl Listener {
    /// Listens at `path`. A socket that nobody listens to any longer is replaced.
    ///
    /// # Errors
    /// Where there is something else, or somebody listens already; see [`ListenError`].
    pub fn bind(path: &Path) -> Result<Listener, ListenError> {
        let name = || path.display().to_string();
        let system =
            |what: &'static str| move |e: Errno| ListenError::System { path: name(), what, error: e.into() };
        let address = SocketAddrUnix::new(path).map_err(|_| ListenError::Path { path: name() })?;
        remove_stale(path, &address)?;
        let socket = unix_socket().map_err(system("opening a socket"))?;
        // The file gets the mode that the socket has: nobody else can connect even for a moment.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(system("setting the mode of a socket"))?;
        bind(&socket, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => ListenError::InUse { path: name() },
            errno => system("listening")(errno),
        })?;
        let file = fs::symlink_metadata(path)
            .map(|file| (file.dev(), file.ino()))
            .map_err(|error| ListenError::System { path: name(), what: "looking at the socket", error })?;
        let spare = RefCell::new(spare().ok());
        let listener = Listener { path: path.to_owned(), file, socket, spare };
        listen(&listener.socket, 1).map_err(system("listening"))?;
        Ok(listener)
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who comes next, if somebody has, with a socket that does not block. Where no descriptor is left for it, the connection is closed.
    ///
    /// # Errors
    /// Those of `accept`.
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
    /// Takes whoever comes next and hangs up.
    fn send_away(&self) {
        self.spare.replace(None);
        drop(accept_with(&self.socket, SocketFlags::CLOEXEC));
        self.spare.replace(spare().ok());
    }
}

/// A descriptor that is of no other use.
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
        // Another's, who has replaced ours, stays.
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
