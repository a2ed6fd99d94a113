// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses at which an adapter listens and peers that it serves, for all commands with an adapter.

use crate::commands::nettlp::target::key;
use crate::commands::words::Word;
use crate::{Failure, output};
use nettlp::allow::{AllowList, Rule};
use nettlp::net::AdapterOptions;
use nettlp::tools::Scheme;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Ways of sending TLPs that can be served.
pub(in crate::commands) const SERVED_SCHEMES: [Word<Scheme>; 4] = [
    ("auto", "All of these; each peer chooses", Scheme::Auto),
    ("tagged", "A port per tag, as in LibTLP: 0x3000 + tag", Scheme::Tagged),
    ("paper", "The ports of the NetTLP paper: 0x3000 + (tag & 0xf)", Scheme::Paper),
    ("session", "riser sessions", Scheme::Session),
];

/// The arguments of a command that serves peers.
pub(in crate::commands) struct Listening<'a> {
    /// Prefix of its options.
    pub(in crate::commands) prefix: &'static str,
    pub(in crate::commands) address: IpAddr,
    pub(in crate::commands) rules: &'a [Rule],
    pub(in crate::commands) scheme: Scheme,
    pub(in crate::commands) key: Option<&'a Path>,
    pub(in crate::commands) sessions_per_peer: u8,
}

impl Listening<'_> {
    pub(in crate::commands) fn options(&self, allow: &AllowList) -> Result<AdapterOptions, Failure> {
        let &Listening { prefix, address, scheme, .. } = self;
        let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        if address.is_unspecified() || address.is_multicast() || is_broadcast {
            let why = "expected one address of this host, the source of its answers";
            return Err(Failure::usage(format!("{prefix}listen {address}: {why}")));
        }
        if let Some(rule) = self.rules.iter().find(|rule| rule.peer.is_ipv6() != address.is_ipv6()) {
            let family = if address.is_ipv6() { "IPv6" } else { "IPv4" };
            let why = format!("expected an {family} address, as {prefix}listen {address} is");
            return Err(Failure::usage(format!("{prefix}allow {rule}: {why}")));
        }
        let key = self.key.map(key).transpose()?;
        if key.is_some() && matches!(scheme, Scheme::Tagged | Scheme::Paper) {
            let why = "LibTLP's ports cannot authenticate, expected";
            return Err(Failure::usage(format!("{prefix}key: {why} {prefix}scheme auto or session")));
        }
        let max_sessions_per_peer = usize::from(self.sessions_per_peer);
        Ok(AdapterOptions { max_sessions_per_peer, ..scheme.options(address, allow, key) })
    }

    /// Returns the peer that serves the host's requests: the given one, or the only one.
    pub(in crate::commands) fn device(
        &self,
        allow: &AllowList,
        named: Option<IpAddr>,
    ) -> Result<Option<IpAddr>, Failure> {
        let prefix = self.prefix;
        match named {
            Some(device) if allow.peer(device).is_none() => Err(Failure::usage(format!(
                "{prefix}device-peer {device}: needs a rule, such as {prefix}allow {device},all,rw"
            ))),
            Some(device) => Ok(Some(device)),
            None if allow.addresses().len() == 1 => Ok(allow.addresses().next()),
            None => Ok(None),
        }
    }

    /// Prints the served peers to standard error.
    pub(in crate::commands) fn greet(&self, what: &str, allow: &AllowList, device: Option<IpAddr>) {
        let peers: Vec<String> = allow.addresses().map(|a| a.to_string()).collect();
        let peers = peers.join(" ");
        output::note(format_args!("serving {what} at {} to {peers}; Ctrl-C ends it", self.address));
        match device {
            Some(device) => output::note(format_args!("{device} serves the host's requests")),
            None => output::note(format_args!(
                "no peer serves the host's requests: name one with {}device-peer",
                self.prefix
            )),
        }
        self.warn();
    }

    /// Warns on standard error if other machines can claim to be a served peer.
    pub(super) fn warn(&self) {
        if !self.address.is_loopback() && self.key.is_none() {
            output::note(
                "anyone who can send from these addresses has this access: UDP does not authenticate the sender",
            );
        }
    }
}
