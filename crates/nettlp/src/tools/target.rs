// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adapter on the network, and how TLPs reach it.

use crate::allow::AllowList;
use crate::auth::Key;
use crate::client::control::{ControlError, Messaging};
use crate::device_host::DeviceLocation;
use crate::net::{
    AdapterOptions, AnyCarrier, ConnectOptions, Network, OpenError, SessionCarrier, SessionConnectOptions,
    TaggedCarrier, TaggedOptions, connect,
};
use crate::requester::Rest;
use capture::encap::PortScheme;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Tags of device software. There are more tags than are used at once, because the tags of retried reads rest for a
/// while.
const DEVICE_TAGS: RangeInclusive<u16> = 0..=255;

/// How TLPs are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme {
    /// A session if the peer supports it, otherwise a port per tag.
    #[default]
    Auto,
    /// A port per tag, as in LibTLP: `0x3000 + tag`.
    Tagged,
    /// The ports of the NetTLP paper: `0x3000 + (tag & 0xf)`.
    Paper,
    /// A session.
    Session,
}

impl Scheme {
    /// Returns the port scheme that is used if there is no session.
    pub fn ports(self) -> PortScheme {
        if self == Scheme::Paper { PortScheme::Paper } else { PortScheme::Tagged }
    }

    /// Returns the options of an adapter at `address` that serves the peers of `allow` in this way. With a key it serves only sessions and
    /// messaging.
    pub fn options(self, address: IpAddr, allow: &AllowList, key: Option<Key>) -> AdapterOptions {
        let (all, is_open) = (AdapterOptions::new(address), key.is_none());
        let tags = match self {
            Scheme::Auto | Scheme::Tagged => all.tags.clone(),
            Scheme::Paper => Some(0..=0xf),
            Scheme::Session => None,
        };
        AdapterOptions {
            peers: allow.addresses().map(Network::from).collect(),
            tags: tags.filter(|_| is_open),
            host: is_open && matches!(self, Scheme::Auto | Scheme::Tagged),
            configuration: is_open,
            registers: is_open,
            sessions: matches!(self, Scheme::Auto | Scheme::Session),
            key,
            ..all
        }
    }
}

/// An adapter, and how TLPs reach it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The adapter's address.
    pub remote: IpAddr,
    /// The address of this host to send from, or `None` for the one that the kernel chooses.
    pub local: Option<IpAddr>,
    /// How TLPs are sent.
    pub scheme: Scheme,
    /// The key of an authenticated session. If it is set, schemes without a session are not allowed.
    pub key: Option<Key>,
}

/// The carrier of device software, and the adapter's place in its host.
pub struct Attachment {
    /// The carrier, with ports for the host's requests.
    pub carrier: AnyCarrier,
    /// The place, as the driver of the adapter's host reports it.
    pub place: DeviceLocation,
    /// The places of the adapter's virtual functions, in order: as many as the device has.
    pub virtual_places: Vec<DeviceLocation>,
    /// How long tags rest on the way to this adapter.
    pub rest: Rest,
}

impl Target {
    /// Asks the driver of the adapter's host.
    ///
    /// # Errors
    /// As [`Messaging::open`].
    pub fn messaging(&self) -> Result<Messaging, ControlError> {
        Messaging::open(self.remote, self.local)
    }

    /// Returns true if an adapter answers. Does not register this host as device software.
    pub fn is_present(&self) -> bool {
        self.messaging().and_then(|mut driver| driver.device_id()).is_ok()
    }

    /// Opens a carrier with ports for requests of `tags` (a session has all tags), and with `host`, for the host's requests.
    ///
    /// # Errors
    /// As [`connect`] and [`SessionCarrier::connect`].
    pub fn open(&self, tags: RangeInclusive<u16>, host: bool) -> Result<AnyCarrier, OpenError> {
        let session = SessionConnectOptions {
            key: self.key.clone(),
            ..SessionConnectOptions::new(self.remote, self.local)
        };
        let scheme = self.scheme.ports();
        let tagged =
            TaggedOptions { local: self.local, host, scheme, ..TaggedOptions::new(self.remote, tags) };
        match self.scheme {
            Scheme::Session => SessionCarrier::connect(&session).map(AnyCarrier::Session),
            Scheme::Auto => connect(&ConnectOptions { tagged, session: Some(session) }),
            Scheme::Tagged | Scheme::Paper => TaggedCarrier::connect(&tagged).map(AnyCarrier::Tagged),
        }
    }

    /// Attaches to the adapter as device software with `virtual_functions` virtual functions.
    ///
    /// # Errors
    /// The carrier cannot be opened, or the driver of the adapter's host does not answer.
    pub fn attach(&self, virtual_functions: u16) -> Result<Attachment, ControlError> {
        let carrier = self.open(DEVICE_TAGS, true)?;
        // The driver registers the sender of the request for the vectors as device software, so the sockets of the
        // device must already be open.
        let mut driver = self.messaging()?;
        // Without an answer to this there is no adapter, with or without virtual functions.
        driver.device_id()?;
        let virtual_place = |number| {
            let peer = self.remote;
            driver.place(number).map_err(|error| match error {
                ControlError::NoAnswer { .. } => ControlError::NoVirtualFunction { peer, number },
                error => error,
            })
        };
        // A host enables its virtual functions last. After that, the physical function has its vectors too.
        let virtual_places = (1..=virtual_functions).map(virtual_place).collect::<Result<_, _>>()?;
        let place = driver.place(0)?;
        Ok(Attachment { carrier, place, virtual_places, rest: self.rest() })
    }

    /// Returns how long tags rest: on the loopback datagrams are neither duplicated nor reordered.
    pub fn rest(&self) -> Rest {
        if self.remote.is_loopback() { Rest::LOOPBACK } else { Rest::NETWORK }
    }
}
