// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a session, at the client's end.

use super::record::{self, Datagram, MAX_WINDOW, Offer, Record, RecordBytes, Refusal, VERSION};
use super::session::{Agreed, Session};
use crate::auth::{Handshake, Key};
use tlp::{Duration, Time};

/// Number of Hellos until a peer counts as silent, 2.54 s after the first: an adapter on a busy machine may answer late.
pub const HELLOS: u32 = 7;
/// Number of Hellos if there is another way to reach the peer. The peer then counts as silent after 300 ms.
pub const FEW_HELLOS: u32 = 4;
/// Wait for an answer to the first Hello. Each later wait is twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_ms(20);

/// Reason why no session was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No answer to any Hello.
    #[error("no answer to any Hello")]
    Silent,
    /// The adapter refuses the session.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The sender of the answer does not have the same key.
    #[error("the sender of the answer does not have the same pre-shared key")]
    Unauthentic,
    /// The system has no randomness for a handshake.
    #[error("the system has no randomness for session keys")]
    NoRandomness,
}

/// Requests a session, until one opens or the attempt fails.
#[derive(Debug)]
pub struct Connector {
    nonce: u64,
    offer: Offer,
    handshake: Option<Handshake>,
    hellos: u32,
    wait: Duration,
    next_at: Time,
}

/// Returns the prologue of the Noise handshake. The handshake fails if it differs between the two ends.
pub(super) fn prologue(nonce: u64, offer: &Offer) -> Vec<u8> {
    let fields = [offer.version, offer.features, offer.window, offer.longest];
    let mut bytes = b"riser session".to_vec();
    bytes.extend(nonce.to_be_bytes());
    bytes.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
    bytes
}

impl Connector {
    /// Creates a connector that sends up to `hellos` Hellos. `nonce` is random. This side accepts `window`
    /// unacknowledged TLPs (at most [`MAX_WINDOW`]), and datagrams of up to `longest` bytes. `key` requires
    /// authentication.
    ///
    /// # Errors
    /// [`ConnectError::NoRandomness`].
    pub fn new(
        now: Time,
        nonce: u64,
        window: u16,
        longest: u16,
        key: Option<&Key>,
        hellos: u32,
    ) -> Result<Connector, ConnectError> {
        let features = if key.is_some() { Offer::AUTHENTICATED } else { 0 };
        let window = window.clamp(1, MAX_WINDOW);
        let offer = Offer { version: VERSION, features, window, longest };
        let handshake = match key {
            None => None,
            Some(key) => {
                let begun = Handshake::begin(key, &prologue(nonce, &offer));
                Some(begun.ok_or(ConnectError::NoRandomness)?)
            }
        };
        Ok(Connector { nonce, offer, handshake, hellos, wait: FIRST_WAIT, next_at: now })
    }

    /// Returns the Hello to send now, if one is due.
    ///
    /// # Errors
    /// [`ConnectError::Silent`] if the last Hello was not answered in time.
    pub fn poll_transmit(&mut self, now: Time) -> Result<Option<RecordBytes>, ConnectError> {
        if now < self.next_at {
            return Ok(None);
        }
        self.hellos = self.hellos.checked_sub(1).ok_or(ConnectError::Silent)?;
        self.next_at = now + self.wait;
        self.wait = self.wait + self.wait;
        let noise = self.handshake.as_ref().map_or(&[][..], Handshake::message);
        Ok(Some(RecordBytes::new(0, self.nonce, &Record::Hello { offer: self.offer, noise })))
    }

    /// Returns when the next Hello is due.
    pub fn poll_timeout(&self) -> Time {
        self.next_at
    }

    /// Handles a datagram of the adapter. Returns the session if the adapter agreed. Datagrams that do not answer this Hello
    /// are ignored.
    ///
    /// # Errors
    /// If the adapter refuses the session, or does not have the key.
    pub fn handle(&mut self, now: Time, datagram: &[u8]) -> Result<Option<Session>, ConnectError> {
        let Some(Datagram::Control { session: id, record, .. }) = record::parse(datagram) else {
            return Ok(None);
        };
        match record {
            Record::HelloAck { nonce, offer, noise } if nonce == self.nonce => {
                self.agree(now, id, offer, noise)
            }
            Record::Refused { nonce, reason } if nonce == self.nonce => Err(reason.into()),
            _ => Ok(None),
        }
    }

    fn agree(
        &mut self,
        now: Time,
        id: u64,
        offer: Offer,
        noise: &[u8],
    ) -> Result<Option<Session>, ConnectError> {
        let wants = self.offer.is_authenticated();
        if offer.version != VERSION || !is_sane(&offer) || offer.is_authenticated() != wants {
            return Err(Refusal::Offer.into());
        }
        let seal = match self.handshake.take() {
            None if wants => return Err(ConnectError::Unauthentic),
            None => None,
            Some(handshake) => Some(handshake.finish(noise).ok_or(ConnectError::Unauthentic)?),
        };
        let agreed = Agreed {
            id,
            nonce: self.nonce,
            window: self.offer.window,
            peer_window: offer.window,
            longest: usize::from(offer.longest.min(self.offer.longest)),
            seal,
        };
        Ok(Some(Session::new(now, agreed, true)))
    }
}

/// Smallest datagram length that may be offered, in bytes: a completion with 64 bytes, sealed.
const LEAST_LONGEST: u16 = 6 + 12 + 64 + 16;

/// Returns true if the values of an offer are legal.
pub(super) fn is_sane(offer: &Offer) -> bool {
    (1..=MAX_WINDOW).contains(&offer.window) && offer.longest >= LEAST_LONGEST
}
