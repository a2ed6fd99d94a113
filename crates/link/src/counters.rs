// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of a port. Counters do not affect the port.

use tlp::Vc;

/// DLLPs sent, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DllpCounters {
    /// Ack DLLPs.
    pub ack: u64,
    /// Nak DLLPs.
    pub nak: u64,
    /// InitFC1 and InitFC2 DLLPs.
    pub init_fc: u64,
    /// UpdateFC DLLPs.
    pub update_fc: u64,
    /// Data Link Feature DLLPs.
    pub feature: u64,
}

impl DllpCounters {
    /// The sum of all kinds.
    pub const fn total(&self) -> u64 {
        self.ack + self.nak + self.init_fc + self.update_fc + self.feature
    }
}

/// Counters of one virtual channel: its share of the port's counters with the same names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VcCounters {
    /// TLPs sent for the first time.
    pub tlps: u64,
    /// Data of first transmissions in bytes.
    pub payload_bytes: u64,
    /// Number of times that a TLP of any class had to wait for credits.
    pub credit_stalls: u64,
    /// Total time of these waits in picoseconds. If several classes wait at the same time, each counts.
    pub credit_stall_ps: u64,
}

/// Counters of a port: of its transmit direction, and of errors at its receiver.
///
/// `wire_bytes` is counted by the serializer alone, and always equals
/// `payload_bytes + header_bytes + digest_bytes + framing_bytes + replay_bytes + dllp_bytes + skp_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// TLPs sent for the first time.
    pub tlps: u64,
    /// TLPs replayed.
    pub replayed_tlps: u64,
    /// DLLPs sent.
    pub dllps: DllpCounters,
    /// Data of first transmissions in bytes, as on the wire: whole DWs.
    pub payload_bytes: u64,
    /// Headers of first transmissions in bytes.
    pub header_bytes: u64,
    /// ECRC digests of first transmissions in bytes.
    pub digest_bytes: u64,
    /// Framing, sequence numbers and LCRC of first transmissions in bytes.
    pub framing_bytes: u64,
    /// Replayed TLPs in bytes, with framing.
    pub replay_bytes: u64,
    /// DLLPs in bytes, with framing.
    pub dllp_bytes: u64,
    /// SKP ordered sets sent.
    pub skp_sets: u64,
    /// SKP ordered sets in bytes, all lanes.
    pub skp_bytes: u64,
    /// All bytes that went through the serializer.
    pub wire_bytes: u64,
    /// Time during which the wire carried symbols, in picoseconds, rounded down.
    pub busy_ps: u64,
    /// Number of times that a TLP at the head of its queue had to wait for credits while the wire was free, by
    /// [`Class::index`](tlp::Class::index).
    pub credit_stalls: [u64; 3],
    /// Total time of these waits in picoseconds, by class.
    pub credit_stall_ps: [u64; 3],
    /// Counters of each channel, by [`Vc::index`].
    pub vcs: [VcCounters; Vc::COUNT],
    /// Number of times that a TLP with credits had to wait for room in the replay buffer.
    pub replay_buffer_stalls: u64,
    /// Total time of these waits in picoseconds.
    pub replay_buffer_stall_ps: u64,
    /// Receiver: TLPs with a wrong LCRC or sequence number field.
    pub bad_lcrc: u64,
    /// Receiver: DLLPs with a wrong CRC.
    pub bad_dllp_crc: u64,
    /// Receiver: TLPs that had arrived before.
    pub duplicate_tlps: u64,
    /// Receiver: TLPs that arrived after a missing one.
    pub out_of_sequence: u64,
    /// Receiver: damaged frames whose CRC still matched, so that they were accepted.
    pub undetected_errors: u64,
    /// Receiver: Naks that arrived.
    pub nak_received: u64,
    /// Receiver: Acks and Naks of TLPs that were never sent (Data Link Protocol Error, `PCIe 5.0 §3.6.2.2`).
    pub data_link_protocol_errors: u64,
    /// Receiver: TLPs beyond the credits advertised, discarded (Receiver Overflow, `PCIe 5.0 §2.6.1.2`).
    pub receiver_overflows: u64,
    /// Receiver: TLPs of a Traffic Class that travels on no enabled channel, discarded as malformed (`PCIe 5.0 §2.5.2`).
    pub unmapped_tcs: u64,
    /// Receiver: frames whose framing was broken (Receiver Error, `PCIe 5.0 §4.2.1.4`, §4.2.2.3.3).
    pub receiver_errors: u64,
    /// Receiver: TLPs with a good LCRC whose bytes form no TLP or break a rule of its form, discarded (Malformed TLP, `PCIe 5.0 §2.3`).
    pub malformed_tlps: u64,
    /// Receiver: UpdateFCs that break the rules of flow control, ignored (`PCIe 5.0 §2.6.1`).
    pub flow_control_protocol_errors: u64,
    /// Number of times that the link went down.
    pub link_downs: u64,
    /// Receiver without flow control: TLPs dropped because its buffer was full.
    pub full_buffer_drops: u64,
    /// Number of times that REPLAY_TIMER expired.
    pub replay_timeouts: u64,
    /// Number of times that REPLAY_NUM rolled over and the link retrained.
    pub replay_num_rollovers: u64,
    /// Number of times that the rate or the width of the link was changed.
    pub link_changes: u64,
}

impl Counters {
    /// Returns the errors at the receiver: names and counts that are not zero. Omits errors that the Data Link Layer
    /// repairs routinely, such as damaged frames.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = [
            ("unmapped_tcs", self.unmapped_tcs),
            ("full_buffer_drops", self.full_buffer_drops),
            ("receiver_overflows", self.receiver_overflows),
            ("data_link_protocol_errors", self.data_link_protocol_errors),
            ("undetected_errors", self.undetected_errors),
            ("malformed_tlps", self.malformed_tlps),
            ("flow_control_protocol_errors", self.flow_control_protocol_errors),
        ];
        counts.into_iter().filter(|(_, n)| *n > 0)
    }

    /// The sum of all kinds of bytes; it must equal `wire_bytes`.
    pub const fn classified_bytes(&self) -> u64 {
        self.payload_bytes
            + self.header_bytes
            + self.digest_bytes
            + self.framing_bytes
            + self.replay_bytes
            + self.dllp_bytes
            + self.skp_bytes
    }
}
