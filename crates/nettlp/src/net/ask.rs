// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of messaging and configuration: each is one datagram, and its answer is one datagram.

use super::socket::{self, OpenError, std_duration};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;
use tlp::Duration;

/// Maximum number of bytes that are read of an answer. All answers of NetTLP are shorter.
const ANSWER_BYTES: usize = 512;

/// Maximum number of other datagrams received before an attempt ends without an answer.
const STRAYS_AT_ONCE: usize = 1000;

/// Options of an [`AskSocket`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskOptions {
    /// Address of the peer.
    pub remote: IpAddr,
    /// Local address; `None`: the address that the route selects.
    pub local: Option<IpAddr>,
    /// Port of the peer.
    pub port: u16,
    /// Send from the same port number, because a real adapter answers only to that port. If the port is already
    /// used on this machine, for example by an adapter on the same address, another port is used.
    pub same_port: bool,
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// Number of attempts.
    pub attempts: u32,
}

/// A socket for requests.
#[derive(Debug)]
pub struct AskSocket {
    socket: UdpSocket,
    options: AskOptions,
    strays: u64,
}

impl AskSocket {
    /// Binds and connects the socket. Sends nothing.
    ///
    /// # Errors
    /// If an address does not belong to this host, or there is no route.
    pub fn open(options: AskOptions) -> Result<AskSocket, OpenError> {
        let local = socket::local_address(options.remote, options.local)?;
        let bind = |port| socket::bind(SocketAddr::new(local, port), "questions to an adapter", false);
        let socket = match options.same_port {
            false => bind(0)?,
            true => match bind(options.port) {
                Err(OpenError::Taken { .. }) => bind(0)?,
                bound => bound?,
            },
        };
        socket::connect(&socket, SocketAddr::new(options.remote, options.port))?;
        Ok(AskSocket { socket, options, strays: 0 })
    }

    /// Returns the number of datagrams that did not answer a request.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Sends a datagram that has no answer. Does not block.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn tell(&self, message: &[u8]) -> io::Result<()> {
        // The kernel reports the error of an earlier datagram at the next call. It is not an error of this datagram.
        let _ = self.socket.take_error()?;
        self.socket.send(message).map(drop)
    }

    /// Sends a request, and returns the first non-`None` result of `accept` on a received datagram. Blocks for at most
    /// `attempts * timeout`.
    ///
    /// # Errors
    /// `TimedOut` if no answer arrives in time, `ConnectionRefused` if no program listens at the peer.
    pub fn ask<T>(&mut self, question: &[u8], mut accept: impl FnMut(&[u8]) -> Option<T>) -> io::Result<T> {
        for _ in 0..self.options.attempts.max(1) {
            self.tell(question)?;
            if let Some(answer) = self.await_answer(&mut accept)? {
                return Ok(answer);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn await_answer<T>(&mut self, accept: &mut impl FnMut(&[u8]) -> Option<T>) -> io::Result<Option<T>> {
        let end = Instant::now() + std_duration(self.options.timeout);
        let mut bytes = [0; ANSWER_BYTES];
        for _ in 0..STRAYS_AT_ONCE {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut bytes) {
                Ok(len) => match accept(&bytes[..len]) {
                    Some(answer) => return Ok(Some(answer)),
                    None => self.strays += 1,
                },
                Err(error) if super::batch::would_block(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
