// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an adapter counts: of each peer that a rule names, and of strangers all together. So no flood makes it grow.

use std::net::IpAddr;

device::counters! {
    /// What one peer has sent, and what it was sent.
    pub struct PeerCounters {
        /// Datagrams, of every kind.
        datagrams,
        /// Memory reads that were handed on.
        reads,
        /// Bytes that these ask for.
        read_bytes,
        /// Memory writes that were handed on.
        writes,
        /// Bytes that these name.
        write_bytes,
        /// Completions, handed on.
        completions,
        /// Messages, handed on.
        messages,
        /// Other requests, handed on: I/O, configuration, AtomicOps.
        others,
        /// Non-posted requests beyond the peer's windows or directions, answered with UR.
        refused_reads,
        /// Writes beyond the peer's windows or directions, dropped.
        refused_writes,
        /// Datagrams that were no TLP, or no message where one was expected: dropped.
        malformed,
        /// TLPs with a digest that does not fit: dropped.
        digest_wrong,
        /// TLPs as only LibTLP sends them, taken for what they mean.
        mended,
        /// Datagrams that came while there was no room for them or their answers: dropped. Of sessions none.
        no_room,
        /// Questions of messaging.
        messaging,
        /// Reads of configuration space.
        config_reads,
        /// Writes to configuration space.
        config_writes,
        /// Reads of the adapter's registers.
        register_reads,
        /// Writes to the adapter's registers.
        register_writes,
        /// Writes to configuration space or registers by a peer that may not write: dropped.
        refused_register_writes,
        /// TLPs sent to it.
        sent_tlps,
        /// Bytes of these.
        sent_bytes,
    }
}

/// What came from addresses that no rule names. All of it is dropped, but for questions of messaging from 127.0.0.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Strangers {
    /// Datagrams, beyond those that the kernel's filter has dropped.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Questions of messaging from 127.0.0.1, which were answered; they are none of these datagrams.
    pub messaging: u64,
    /// Who sent the last one.
    pub last: Option<IpAddr>,
}

impl Strangers {
    pub(super) fn count(&mut self, from: IpAddr, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
        self.last = Some(from);
    }

    /// Adds what another adapter has counted.
    pub fn add(&mut self, other: &Strangers) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.messaging += other.messaging;
        self.last = other.last.or(self.last);
    }
}
