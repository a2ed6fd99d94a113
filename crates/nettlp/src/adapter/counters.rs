// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of an adapter: one set for each peer that a rule names, and one set for all other senders. Traffic does not
//! change their size.

use std::net::IpAddr;

device::counters! {
    /// Counters of one peer.
    pub struct PeerCounters {
        /// Received datagrams of every kind.
        datagrams,
        /// Memory reads passed to the backend.
        reads,
        /// Bytes requested by these reads.
        read_bytes,
        /// Memory writes passed to the backend.
        writes,
        /// Bytes enabled in these writes.
        write_bytes,
        /// Completions passed to the backend.
        completions,
        /// Messages passed to the backend.
        messages,
        /// Other requests passed to the backend: I/O, configuration, AtomicOps.
        others,
        /// Non-posted requests outside the peer's windows or directions, answered with UR.
        refused_reads,
        /// Writes outside the peer's windows or directions, dropped.
        refused_writes,
        /// Dropped datagrams that contained neither a valid TLP nor a valid message.
        malformed,
        /// Dropped TLPs with a wrong digest.
        digest_wrong,
        /// Malformed TLPs that only LibTLP sends, and that the adapter accepted with their intended meaning.
        mended,
        /// Datagrams dropped because there was no room for them or their answers. Always 0 for sessions.
        no_room,
        /// Messaging requests.
        messaging,
        /// Configuration reads.
        config_reads,
        /// Configuration writes.
        config_writes,
        /// Reads of the adapter's registers.
        register_reads,
        /// Writes to the adapter's registers.
        register_writes,
        /// Dropped writes to configuration space or registers, from a peer that may not write.
        refused_register_writes,
        /// TLPs sent to the peer.
        sent_tlps,
        /// Bytes of these TLPs.
        sent_bytes,
    }
}

/// Datagrams from addresses that no rule names. All are dropped, except messaging requests from 127.0.0.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Strangers {
    /// Dropped datagrams. Excludes datagrams that the kernel's filter dropped.
    pub datagrams: u64,
    /// Bytes of these datagrams.
    pub bytes: u64,
    /// Messaging requests from 127.0.0.1 that were answered. Not counted in `datagrams`.
    pub messaging: u64,
    /// Sender of the last dropped datagram.
    pub last: Option<IpAddr>,
}

impl Strangers {
    pub(super) fn count(&mut self, from: IpAddr, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
        self.last = Some(from);
    }

    /// Adds the counters of another adapter.
    pub fn add(&mut self, other: &Strangers) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.messaging += other.messaging;
        self.last = other.last.or(self.last);
    }
}
