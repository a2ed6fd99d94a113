// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One question in a datagram, and the datagram that answers it: messaging and configuration.

use super::socket::{self, OpenError, std_duration};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;
use tlp::Duration;

/// Bytes of the longest answer that is read; no answer of NetTLP is as long.
const ANSWER_BYTES: usize = 512;

/// Answers that may come and not be the one before a question ends without.
const STRAYS_AT_ONCE: usize = 1000;

/// Where to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskOptions {
    /// Who is asked.
    pub remote: IpAddr,
    /// Address of this host to ask from; `None`: what the route gives.
    pub local: Option<IpAddr>,
    /// The port that is asked.
    pub port: u16,
    /// Whether to ask from the same port, since a real adapter answers to no other. Where it is taken here, as beside an
    /// adapter on one address, another is used.
    pub same_port: bool,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often to ask.
    pub attempts: u32,
}

/// A socket for questions.
#[derive(Debug)]
pub struct AskSocket {
    socket: UdpSocket,
    options: AskOptions,
    strays: u64,
}

impl AskSocket {
    /// Binds and connects it. Sends nothing.
    ///
    /// # Errors
    /// Where an address is not ours, or there is no route.
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

    /// Datagrams that answered nothing.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Sends a datagram that nobody answers. Does not block.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn tell(&self, message: &[u8]) -> io::Result<()> {
        // What an earlier datagram met is reported with the next call, and is no fault of this one.
        let _ = self.socket.take_error()?;
        self.socket.send(message).map(drop)
    }

    /// Asks, and gives what `accept` makes of the first datagram that it does not refuse (`None`). Blocks for at most
    /// `attempts * timeout`.
    ///
    /// # Errors
    /// `TimedOut` where nobody answers in time, `ConnectionRefused` where nobody is there.
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
