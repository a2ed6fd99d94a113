// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session where the peer knows it, else upstream's ports.

use super::SocketCounters;
use super::session::{SessionCarrier, SessionConnectOptions};
use super::socket::OpenError;
use super::tagged::{TaggedCarrier, TaggedOptions};
use crate::carrier::{Arrival, Carrier, SendError, Wait};
use crate::stream::FEW_HELLOS;
use capture::encap::Origin;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use tlp::{Duration, Tag};

/// Where [`connect`] leads.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The peer, and the ports to fall back to.
    pub tagged: TaggedOptions,
    /// How a session is tried. Its addresses are those of `tagged`.
    pub session: Option<SessionConnectOptions>,
}

impl ConnectOptions {
    /// Both ways, with the settings that most want.
    pub fn new(tagged: TaggedOptions) -> ConnectOptions {
        let session = Some(SessionConnectOptions::new(tagged.remote, tagged.local));
        ConnectOptions { tagged, session }
    }
}

/// Either carrier.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each thread, and seldom moved")]
pub enum AnyCarrier {
    /// Upstream's scheme.
    Tagged(TaggedCarrier),
    /// A riser session.
    Session(SessionCarrier),
}

/// Opens a session, or falls back to upstream's ports if the peer refuses or does not answer for 300 ms. Blocks meanwhile.
/// With a pre-shared key it never falls back, nor if the peer demands a key.
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

/// Does the same with either carrier.
macro_rules! either {
    ($any:expr, $carrier:ident => $does:expr) => {
        match $any {
            AnyCarrier::Tagged($carrier) => $does,
            AnyCarrier::Session($carrier) => $does,
        }
    };
}

impl AnyCarrier {
    /// What its sockets have seen.
    pub fn counters(&self) -> SocketCounters {
        either!(self, carrier => carrier.socket_counters())
    }

    /// What is readable where something has come: for those who wait for other things too.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        either!(self, carrier => carrier.readiness())
    }

    /// How long until [`receive`](Carrier::receive) is to be called though nothing comes; `None`: not at all.
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
