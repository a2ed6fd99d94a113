// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of an adapter, and the peers that may use them. Opens no socket.

use super::Network;
use super::socket::OpenError;
use crate::auth::Key;
use capture::encap::{PORT_ADAPTER, PORT_CONFIG, PORT_DEVICE, PORT_HOST, PORT_MESSAGING, PORT_SESSION};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use tlp::Tag;

/// Options of an adapter's sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterOptions {
    /// Local address to listen on. Answers are sent from it.
    pub address: IpAddr,
    /// Tags of device-issued TLPs, on port `0x3000 + tag`; upstream's clients use 0 to 255.
    pub tags: Option<RangeInclusive<u16>>,
    /// Serves host-issued TLPs, on port `0x4000 + (tag & 0xf)`. `0x4001` is also the old port of configuration.
    pub host: bool,
    /// Serves messaging, on port `0x2fff`.
    pub messaging: bool,
    /// Serves configuration, on port `0x5001`.
    pub configuration: bool,
    /// Serves the adapter's own registers, on port `0x5002`.
    pub registers: bool,
    /// Serves riser sessions, on port `0x2ffd`.
    pub sessions: bool,
    /// Index of this thread, and number of threads; `(0, 1)`: all ports. A thread opens the TLP ports whose number modulo
    /// the number of threads is its index. Each thread has its own sessions. The first thread has all other ports.
    pub share: (u16, u16),
    /// Maximum number of sessions.
    pub max_sessions: usize,
    /// Maximum number of sessions per peer, over all its ports.
    pub max_sessions_per_peer: usize,
    /// Requires sessions to be authenticated with this key. The key does not protect upstream's ports, so leave
    /// them closed if every connection must be authenticated.
    pub key: Option<Key>,
    /// Number of TLPs that each session may send before they are acknowledged; `None`: as many as the socket's
    /// buffer holds, at most 1024.
    pub window: Option<u16>,
    /// Use segmentation and receive offload if the kernel has them.
    pub offload: bool,
    /// Peers whose datagrams pass the kernel's filter; other datagrams take no buffer space. Empty: all pass.
    pub peers: Vec<Network>,
}

/// Returns the default number of threads of an adapter with memory: one per core, at most eight. Clients that wait for one answer
/// per tag are then served in parallel; each session is served by one of the threads.
pub fn default_threads() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8) as u16)
}

/// Keeps the calling thread, number `thread` of `threads`, on one core, if there are as many threads as cores. The other ends of
/// its sockets on this machine then move to the same core, and an answer does not wake another core. Without effect if the
/// number of threads is different.
pub fn stay_on_core(thread: u16, threads: u16) {
    let own = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(own) else { return };
    let cores: Vec<usize> = (0..CpuSet::count()).filter(|core| allowed.is_set(*core) == Ok(true)).collect();
    if threads > 1 && cores.len() == usize::from(threads) {
        let mut only = CpuSet::new();
        // This is only an optimization.
        let _ = only.set(cores[usize::from(thread)]).and_then(|()| sched_setaffinity(own, &only));
    }
}

impl AdapterOptions {
    /// Creates options that serve all ports of upstream's adapter, and sessions, for all peers.
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

/// Returns true if a port belongs to this thread.
pub(super) const fn is_shared_by((thread, threads): (u16, u16), number: u16) -> bool {
    match number {
        PORT_DEVICE..=0x33ff | PORT_HOST..=0x400f => threads == 0 || number % threads == thread,
        // Every thread has its own sessions: the kernel always delivers datagrams of one peer and port to the same thread.
        PORT_SESSION => true,
        _ => thread == 0,
    }
}

/// Returns all ports. Each has the rule that gives its number, for errors.
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

/// Returns the peers whose datagrams may pass to a port. On the loopback, messaging requests come from 127.0.0.1 even if TLPs come
/// from another loopback address.
pub(super) fn peers_of(options: &AdapterOptions, number: u16) -> Vec<Network> {
    let mut peers = options.peers.clone();
    if number == PORT_MESSAGING && options.address.is_loopback() && !peers.is_empty() {
        peers.push(Network::from(IpAddr::from(Ipv4Addr::LOCALHOST)));
    }
    peers
}
