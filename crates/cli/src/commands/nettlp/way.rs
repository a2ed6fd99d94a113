// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way to an adapter: the arguments that name it, and the carrier that they open. Never sends a TLP.

use super::bytes::address;
use crate::failure::Failure;
use crate::output;
use capture::encap::PortScheme;
use clap::ValueEnum;
use nettlp::auth::Key;
use nettlp::client::control::{ControlError, Messaging};
use nettlp::net::{
    AnyCarrier, ConnectOptions, SessionCarrier, SessionConnectOptions, TaggedOptions, connect,
};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How TLPs travel.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scheme {
    /// A session where the peer knows it, else a port per tag
    Auto,
    /// A port per tag, as LibTLP has it: 0x3000 + tag; of the host's requests 0x4000 + (tag & 0xf)
    Tagged,
    /// The ports of the NetTLP paper: 0x3000 + (tag & 0xf)
    Paper,
    /// A riser session
    Session,
}

#[derive(clap::Args, Clone)]
pub(super) struct WayArgs {
    /// Address of the adapter
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    remote: IpAddr,

    /// Address of this host to send from, which the adapter must allow
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    local: Option<IpAddr>,

    /// How TLPs travel
    #[arg(long, value_enum, default_value = "auto")]
    scheme: Scheme,

    /// File of the key that the adapter has too: an authenticated session, and nothing else
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl WayArgs {
    /// The adapter's address.
    pub(super) fn remote(&self) -> IpAddr {
        self.remote
    }

    /// This side's address, where it was named.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// Whether ports are those of the paper, where no session was made.
    pub(super) fn is_paper(&self) -> bool {
        self.scheme == Scheme::Paper
    }

    /// Questions to the driver of the adapter's host.
    pub(super) fn messaging(&self) -> Result<Messaging, ControlError> {
        Messaging::open(self.remote, self.local)
    }

    /// A carrier with ports for requests of these tags (in a session: all), and for the host's requests where `host` says so.
    pub(super) fn open(&self, tags: RangeInclusive<u16>, host: bool) -> Result<AnyCarrier, Failure> {
        let scheme = if self.is_paper() { PortScheme::Paper } else { PortScheme::Tagged };
        let tagged =
            TaggedOptions { local: self.local, host, scheme, ..TaggedOptions::new(self.remote, tags) };
        let carrier = match (self.session()?, self.scheme) {
            // Who asks for a session does not go without.
            (Some(session), Scheme::Session) => SessionCarrier::connect(&session).map(AnyCarrier::Session),
            (session, _) => connect(&ConnectOptions { tagged, session }),
        };
        carrier.map_err(|e| Failure::Run(e.to_string()))
    }

    fn session(&self) -> Result<Option<SessionConnectOptions>, Failure> {
        let is_possible = matches!(self.scheme, Scheme::Auto | Scheme::Session);
        if self.key.is_some() && !is_possible {
            let why =
                "--key: upstream's ports prove nobody's key, legal with it are --scheme auto and session";
            return Err(Failure::usage(why));
        }
        let key = self.key.as_deref().map(key).transpose()?;
        let session = SessionConnectOptions { key, ..SessionConnectOptions::new(self.remote, self.local) };
        Ok(is_possible.then_some(session))
    }
}

/// The key in a file. Says on standard error where others can read it.
pub(super) fn key(path: &Path) -> Result<Key, Failure> {
    let key = Key::from_file(path).map_err(|e| Failure::Run(e.to_string()))?;
    // What cannot be looked at has been read all the same: a pipe, say.
    let mode = path.metadata().map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o007 != 0 {
        let (path, mode) = (path.display(), mode & 0o777);
        output::note(format_args!(
            "key file {path}: everybody on this host can reach it (mode {mode:03o}): chmod 600 {path}"
        ));
    }
    Ok(key)
}
