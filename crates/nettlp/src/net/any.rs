// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connects by a session if the peer supports sessions, otherwise by upstream's ports.

use super::SocketCounters;
use super::session::{SessionCarrier, SessionConnectOptions};
use super::socket::OpenError;
use super::tagged::{TaggedCarrier, TaggedOptions};
use crate::carrier::{Arrival, Carrier, SendError, Wait};
use crate::dropped::Drops;
use crate::stream::FEW_HELLOS;
use capture::encap::Origin;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use tlp::{Duration, Tag};

/// Options of [`connect`].
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The peer, and the ports to fall back to.
    pub tagged: TaggedOptions,
    /// Options of the session attempt; the addresses of `tagged` are used. `None`: no session is tried.
    pub session: Option<SessionConnectOptions>,
}

impl ConnectOptions {
    /// Creates default options that try a session first, and then the ports.
    pub fn new(tagged: TaggedOptions) -> ConnectOptions {
        let session = Some(SessionConnectOptions::new(tagged.remote, tagged.local));
        ConnectOptions { tagged, session }
    }
}

/// One of the two carriers.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each thread, and rarely moved")]
pub enum AnyCarrier {
    /// Upstream's port scheme.
    Tagged(TaggedCarrier),
    /// A riser session.
    Session(SessionCarrier),
}

/// Opens a session. Falls back to upstream's ports if the peer refuses or does not answer for 300 ms. Blocks during
/// that time. Never falls back if a pre-shared key is set, or if the peer demands a key.
///
/// # Errors
/// Those of [`TaggedCarrier::connect`]; with a key, those of [`SessionCarrier::connect`].
pub fn connect(options: &ConnectOptions) -> Result<AnyCarrier, OpenError> {
    if let Some(session) = &options.session {
        let is_required = session.is_authenticated();
        let hellos = if is_required { session.hellos } else { session.hellos.min(FEW_HELLOS) };
        match SessionCarrier::connect(&SessionConnectOptions { hellos, ..session.clone() }) {
            Ok(carrier) => return Ok(AnyCarrier::Session(carrier)),
            Err(OpenError::NoSession(_) | OpenError::Refused { .. }) if !is_required => {}
            Err(error) => return Err(error),
        }
    }
    TaggedCarrier::connect(&options.tagged).map(AnyCarrier::Tagged)
}

/// Evaluates the same expression with either carrier.
macro_rules! either {
    ($any:expr, $carrier:ident => $does:expr) => {
        match $any {
            AnyCarrier::Tagged($carrier) => $does,
            AnyCarrier::Session($carrier) => $does,
        }
    };
}

impl AnyCarrier {
    /// Returns the counters of the sockets.
    pub fn counters(&self) -> SocketCounters {
        either!(self, carrier => carrier.socket_counters())
    }

    /// Returns the completions that were dropped because they arrived at the port of another tag. A session has one port.
    pub fn drops(&self) -> Drops {
        match self {
            AnyCarrier::Tagged(carrier) => *carrier.drops(),
            AnyCarrier::Session(_) => Drops::default(),
        }
    }

    /// Returns a descriptor that is readable when a datagram has arrived, for callers that wait for other events too.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        either!(self, carrier => carrier.readiness())
    }

    /// Returns the time after which [`receive`](Carrier::receive) must be called if nothing arrives; `None`: no limit.
    pub fn due(&self) -> Option<Duration> {
        match self {
            AnyCarrier::Tagged(_) => None,
            AnyCarrier::Session(carrier) => carrier.due(),
        }
    }
}

impl Carrier for AnyCarrier {
    fn is_reliable(&self) -> bool {
        either!(self, carrier => carrier.is_reliable())
    }

    fn tags(&self) -> RangeInclusive<u16> {
        either!(self, carrier => carrier.tags())
    }

    fn room(&self) -> usize {
        either!(self, carrier => carrier.room())
    }

    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        either!(self, carrier => carrier.send(origin, tag, len, fill))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, carrier => carrier.flush())
    }

    fn receive(&mut self, wait: Wait, take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        either!(self, carrier => carrier.receive(wait, take))
    }

    fn is_idle(&self) -> bool {
        either!(self, carrier => carrier.is_idle())
    }
}
