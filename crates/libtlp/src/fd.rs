// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to file descriptors, which C passes as numbers. Never stores a descriptor.

use nix::errno::Errno;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Borrows the program's socket for one system call.
pub(crate) fn borrow(fd: RawFd) -> Result<BorrowedFd<'static>, Errno> {
    if fd < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: the number is not -1. Only system calls on sockets follow, which return EBADF if the program has
    // closed the descriptor.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Makes the number `fd` refer to the socket `by`.
pub(crate) fn replace(fd: RawFd, by: RawFd) -> Result<(), Errno> {
    // SAFETY: dup2 and close touch no memory.
    let done = Errno::result(unsafe { nix::libc::dup2(by, fd) });
    close(by);
    done.map(drop)
}

/// Closes a socket that this crate opened and has not given to the program.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the callers own the descriptor, and do not use it afterwards.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}
