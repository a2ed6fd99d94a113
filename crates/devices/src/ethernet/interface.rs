// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network interface of this machine at the other end of a cable. The trait does not open the interface.

use std::io;
use std::os::fd::BorrowedFd;

/// A network interface of this machine, such as a tap. Its functions never block.
pub trait NetInterface {
    /// Receives the next frame, and returns its length in bytes.
    /// Receives the next frame and returns its length in bytes.
    /// # Errors
    /// If there is no frame, or the interface is down.
    fn receive(&self, frame: &mut [u8]) -> io::Result<usize>;

    /// Sends a frame.
    ///
    /// # Errors
    /// If the interface does not accept the frame.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Returns the descriptor that is readable when a frame has arrived.
    fn readable(&self) -> BorrowedFd<'_>;
}
