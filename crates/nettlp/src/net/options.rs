// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which ports an adapter opens, and for whom. Opens none.

use super::Network;
use super::socket::OpenError;
use crate::auth::Key;
use capture::encap::{PORT_ADAPTER, PORT_CONFIG, PORT_DEVICE, PORT_HOST, PORT_MESSAGING, PORT_SESSION};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use tlp::Tag;

/// Which ports an adapter serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterOptions {
    /// Address of this host to listen on. Answers leave from it.
    pub address: IpAddr,
    /// Device-issued TLPs of these tags, on `0x3000 + tag`; upstream's clients use 0 to 255.
    pub tags: Option<RangeInclusive<u16>>,
    /// Host-issued TLPs, on `0x4000 + (tag & 0xf)`; `0x4001` is the old port of configuration too.
    pub host: bool,
    /// Messaging, on `0x2fff`.
    pub messaging: bool,
    /// Configuration, on `0x5001`.
    pub configuration: bool,
    /// The adapter's own registers, on `0x5002`.
    pub registers: bool,
    /// riser sessions, on `0x2ffd`.
    pub sessions: bool,
    /// Which of several threads' sockets these are, and of how many: of the ports of TLPs this one has those whose number
    /// leaves this remainder, and sessions of its own; all others are the first thread's. `(0, 1)`: all.
    pub share: (u16, u16),
    /// Most sessions at a time.
    pub max_sessions: usize,
    /// Most sessions of one peer, all its ports together.
    pub max_sessions_per_peer: usize,
    /// Demands that sessions are authenticated with this key. Upstream's ports are not sealed by it: who wants no others
    /// leaves them closed.
    pub key: Option<Key>,
    /// TLPs that each session may send ahead; `None`: what the socket's buffer holds, at most 1024.
    pub window: Option<u16>,
    /// Whether to use segmentation and receive offload, where the kernel has them.
    pub offload: bool,
    /// Peers whose datagrams the kernel lets through; what others send takes no buffer space. Empty: everybody's.
    pub peers: Vec<Network>,
}

/// Threads that an adapter with memory has where nobody says how many: one for each core, at most eight. Clients that wait for one
/// answer for each tag are then served side by side; who has a session is served by one of them.
pub fn default_threads() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8) as u16)
}

impl AdapterOptions {
    /// Everything that upstream's adapter serves, and sessions; for all peers.
    pub fn new(address: IpAddr) -> AdapterOptions {
        AdapterOptions {
            address,
            tags: Some(0..=255),
            host: true,
            messaging: true,
            configuration: true,
            registers: true,
            sessions: true,
            share: (0, 1),
            max_sessions: 64,
            max_sessions_per_peer: 16,
            key: None,
            window: None,
            offload: true,
            peers: Vec::new(),
        }
    }
}

/// Whether a port is one of this thread's.
pub(super) const fn is_shared_by((thread, threads): (u16, u16), number: u16) -> bool {
    match number {
        PORT_DEVICE..=0x33ff | PORT_HOST..=0x400f => threads == 0 || number % threads == thread,
        // Every thread has sessions of its own: the kernel keeps each peer's port with one of them.
        PORT_SESSION => true,
        _ => thread == 0,
    }
}

/// All ports with their rules.
pub(super) fn numbers(options: &AdapterOptions) -> Result<Vec<(u16, &'static str)>, OpenError> {
    let mut numbers = Vec::new();
    if let Some(tags) = &options.tags {
        let (first, last) = (*tags.start(), *tags.end());
        if first > last || last >= Tag::COUNT {
            return Err(OpenError::Tags { first, last });
        }
        numbers.extend(tags.clone().map(|tag| (PORT_DEVICE + tag, "device-issued TLPs, 0x3000 + tag")));
    }
    if options.host {
        let rule = "host-issued TLPs, 0x4000 + (tag & 0xf)";
        numbers.extend((0..16).map(|tag| (PORT_HOST + tag, rule)));
    }
    let single = [
        (options.messaging, PORT_MESSAGING, "messaging"),
        (options.configuration, PORT_CONFIG, "configuration"),
        (options.registers, PORT_ADAPTER, "the adapter's registers"),
        (options.sessions, PORT_SESSION, "riser sessions"),
    ];
    numbers.extend(single.iter().filter(|(asked, ..)| *asked).map(|&(_, number, rule)| (number, rule)));
    Ok(numbers)
}

/// Whose datagrams the kernel lets through to a port. Messaging on the loopback is asked from 127.0.0.1 also where TLPs come from
/// another of its addresses.
pub(super) fn peers_of(options: &AdapterOptions, number: u16) -> Vec<Network> {
    let mut peers = options.peers.clone();
    if number == PORT_MESSAGING && options.address.is_loopback() && !peers.is_empty() {
        peers.push(Network::from(IpAddr::from(Ipv4Addr::LOCALHOST)));
    }
    peers
}
