// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a client of an adapter, for tools that read and write memory.

use super::target::{Scheme, Target};
use crate::client::control::ControlError;
use crate::client::{Client, Waiting};
use crate::net::{AnyCarrier, OpenError};
use crate::requester::{RequesterSettings, Rest};
use std::ops::RangeInclusive;
use tlp::{Bdf, Duration, Mps, Mrrs};

/// Settings with which a tool reads and writes the memory of an adapter's host.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The adapter.
    pub target: Target,
    /// The Requester ID, or `None` to ask the driver of the adapter's host.
    pub requester: Option<Bdf>,
    /// The tags, or `None` for the tool's own choice.
    pub tags: Option<RangeInclusive<u16>>,
    /// Maximum size of a write TLP.
    pub mps: Mps,
    /// Maximum size that a read TLP requests.
    pub mrrs: Mrrs,
    /// Time after which an unanswered read TLP counts as lost, or `None` for the carrier's default.
    pub timeout: Option<Duration>,
    /// Number of times that a lost read TLP is sent again, or `None` for the carrier's default.
    pub retries: Option<u8>,
    /// How long tags rest if the carrier may lose TLPs.
    pub rest: Rest,
    /// How the client waits.
    pub waiting: Waiting,
}

impl ClientOptions {
    /// Returns the Requester ID.
    ///
    /// # Errors
    /// The driver of the adapter's host does not answer.
    pub fn requester(&self) -> Result<Bdf, ControlError> {
        self.requester.map_or_else(|| self.target.messaging()?.device_id(), Ok)
    }

    /// Returns true if tags rest after every read. More tags then allow more reads.
    pub fn rests_after_all(&self) -> bool {
        self.rest == Rest::NETWORK
    }

    /// Returns the tags for all clients together. Default: each tag with a port.
    pub fn all_tags(&self) -> RangeInclusive<u16> {
        let last = if self.target.scheme == Scheme::Paper { 15 } else { 255 };
        self.tags.clone().unwrap_or(0..=last)
    }

    /// Returns the tags for a single client. Default: as many as one thread uses.
    pub fn single_tags(&self) -> RangeInclusive<u16> {
        let last = if self.rests_after_all() { 255 } else { 15 };
        self.tags.clone().unwrap_or(0..=last)
    }

    /// Opens a client with these tags (a session has all tags).
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn client(&self, requester: Bdf, tags: RangeInclusive<u16>) -> Result<Client<AnyCarrier>, OpenError> {
        let carrier = self.target.open(tags, false)?;
        let mut settings = RequesterSettings::for_carrier(&carrier, requester, self.rest);
        (settings.mps, settings.mrrs) = (self.mps, self.mrrs);
        settings.timeout = self.timeout.unwrap_or(settings.timeout);
        settings.retries = self.retries.unwrap_or(settings.retries);
        let mut client = Client::new(carrier, settings);
        client.set_waiting(self.waiting);
        Ok(client)
    }
}
