// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A riser session over one socket, seen from device software.

use super::SocketCounters;
use super::socket::OpenError;
use crate::carrier::{Arrival, Carrier, SendError, Wait};
use capture::encap::Origin;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use tlp::Tag;

/// Where a [`SessionCarrier`] leads.
#[derive(Clone, Debug)]
pub struct SessionConnectOptions {
    /// The adapter.
    pub remote: IpAddr,
    /// Address of this host to send from; `None`: what the route gives.
    pub local: Option<IpAddr>,
}

impl SessionConnectOptions {
    /// Without authentication, with the window that the socket's buffer holds.
    #[must_use]
    pub fn new(remote: IpAddr, local: Option<IpAddr>) -> SessionConnectOptions {
        SessionConnectOptions { remote, local }
    }

    /// Whether a pre-shared key is set.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        false
    }
}

/// A session: every TLP arrives, once, and in order.
#[derive(Debug)]
pub struct SessionCarrier {
    counters: SocketCounters,
}

impl SessionCarrier {
    /// Opens a session. Blocks until the peer has answered, at most 60 ms.
    ///
    /// # Errors
    /// Where nobody answers or the peer refuses; see [`OpenError`].
    pub fn connect(options: &SessionConnectOptions) -> Result<SessionCarrier, OpenError> {
        Err(OpenError::NoSession(options.remote))
    }

    /// What its socket has seen.
    #[must_use]
    pub fn socket_counters(&self) -> SocketCounters {
        self.counters
    }
}

impl Carrier for SessionCarrier {
    fn is_reliable(&self) -> bool {
        true
    }

    fn tags(&self) -> RangeInclusive<u16> {
        0..=Tag::COUNT - 1
    }

    fn room(&self) -> usize {
        0
    }

    fn send(
        &mut self,
        _origin: Origin,
        _tag: Tag,
        _len: usize,
        _fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        Err(SendError::NoRoom)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _wait: Wait, _take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        Ok(0)
    }

    fn is_idle(&self) -> bool {
        true
    }
}
