// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive half of a port, which handles arriving frames. It never panics on input from the other end.

use super::{Counters, Port, pending};
use crate::frame::{Damage, Frame, SentFrame};
use crate::init::InitState;
use crate::notice::{Notice, header_log};
use crate::rare::Rare;
use crate::replay::Acknowledged;
use crate::rx::Verdict;
use crate::sequence::Sequence;
use tlp::rules::reasons::lost_in_buffer;
use tlp::rules::{self, Head};
use tlp::{
    Class, DataLinkFeature, Dllp, FlowControl, FlowControlKind, Header, Limits, Mps, Repr, RuleId, TcSet,
    Time, Tlp, Vc, Violation,
};

/// Returns the rule that the bytes of a malformed TLP break. This does not depend on the limits.
#[cold]
fn form(tlp: &Tlp) -> Violation {
    let limits =
        Limits { mps: Mps::default(), tc_mapped: TcSet::ALL, local_prefixes: true, end_to_end_prefixes: 4 };
    let length = Violation::new(RuleId::Length, tlp.wire_len() as u64);
    rules::check_received(tlp, &limits).err().unwrap_or(length)
}

impl Port {
    /// Returns whether a damaged frame passes its CRC; otherwise handles the error.
    #[cold]
    pub(super) fn survives(&mut self, now: Time, frame: Frame<&Tlp>, damage: &Damage) -> bool {
        if frame.survives(damage) {
            self.counters.undetected_errors += 1;
            return true;
        }
        match frame {
            _ if self.down => {}
            Frame::Dllp(_) => {
                self.counters.bad_dllp_crc += 1;
                self.notices.error(Notice::BadDllp);
            }
            Frame::Tlp { tlp, .. } => {
                let why = Violation::new(RuleId::Lcrc, damage.bits().count() as u64);
                self.refuse(|c| &mut c.bad_lcrc, now, why, Head::of(tlp));
                self.notices.error(Notice::BadTlp);
                self.nak_lost_tlp();
            }
        }
        false
    }

    /// Handles a TLP that was lost on arrival: schedules a Nak, unless one was sent since the last good TLP.
    fn nak_lost_tlp(&mut self) {
        if self.channels[0].init.state() >= InitState::FcInit2 && self.receiver.want_nak() {
            self.pending |= pending::NAK;
        }
    }

    /// Handles a frame with broken framing, of which only the kind, TLP or DLLP, is known: a Receiver Error. A Nak
    /// requests a TLP again (`PCIe 5.0 §3.6.3.1`). With 128b/130b encoding the link retrains as well (§4.2.2.3.3),
    /// which [`poll_retrain`](Self::poll_retrain) reports.
    #[cold]
    pub fn receive_broken_frame(&mut self, now: Time, of_tlp: bool) {
        self.deadline_moved = true;
        if self.down {
            return;
        }
        self.counters.receiver_errors += 1;
        self.notices.error(Notice::ReceiverError);
        if of_tlp {
            self.nak_lost_tlp();
        }
        if !self.speed.0.is_8b10b() {
            self.retrain_now(now);
        }
    }

    /// Handles a TLP with a good LCRC whose bytes form no TLP; `header` is the part of them for the Header Log. The
    /// sender used the credits of `sent`, the intended TLP. Returns true if the TLP was new and in order. Then it is
    /// dropped and acknowledged, and its credits are returned.
    #[cold]
    pub fn receive_malformed(&mut self, now: Time, sequence: u16, sent: &Tlp, header: [u32; 4]) -> bool {
        let accepted = self.receive_tlp(now, sequence, sent);
        if accepted {
            let bytes = header.map(u32::to_be_bytes).concat();
            let header_len = Header::new(&bytes).map_or(bytes.len(), |header| header.bytes().len());
            let why = match Repr::parse_header(&bytes) {
                Err(error) => error.on_a_link(),
                Ok(parsed) => {
                    let expected = sent.prefixes.wire_len() + parsed.repr.tlp_len();
                    Violation::expecting(RuleId::Length, sent.wire_len() as u64, expected as u64)
                }
            };
            self.refuse(|c| &mut c.malformed_tlps, now, why, Head::of_bytes(&bytes[..header_len]));
            self.lose(now, sent, Notice::MalformedTlp { header });
        }
        accepted
    }

    /// Refuses and drops a TLP that the sender made malformed.
    #[cold]
    fn lose_malformed(&mut self, now: Time, tlp: &Tlp) {
        self.refuse(|c| &mut c.malformed_tlps, now, form(tlp), Head::of(tlp));
        self.lose(now, tlp, Notice::MalformedTlp { header: header_log(tlp) });
    }

    /// Handles a complete frame that was lost in a buffer of the port: an Uncorrectable Internal Error. A TLP is
    /// acknowledged, and its credits are returned.
    #[cold]
    pub fn receive_into_broken_buffer(&mut self, now: Time, frame: Frame<&Tlp>) {
        match frame {
            Frame::Tlp { sequence, tlp } => {
                if self.receive_tlp(now, sequence, tlp) {
                    self.refusals.record(now, None, lost_in_buffer(), Head::of(tlp));
                    self.lose(now, tlp, Notice::UncorrectableInternal);
                }
            }
            Frame::Dllp(_) if self.down => {}
            Frame::Dllp(dllp) => {
                self.refusals.record(now, None, lost_in_buffer(), Head::of_dllp(&dllp));
                self.notices.error(Notice::UncorrectableInternal);
            }
        }
    }

    /// Notes that the port has corrected an error in one of its buffers: a Corrected Internal Error.
    #[cold]
    pub fn note_corrected_buffer(&mut self) {
        if !self.down {
            self.notices.error(Notice::CorrectedInternal);
        }
    }

    /// A TLP in the frame is lost.
    fn lose(&mut self, now: Time, tlp: &Tlp, why: Notice) {
        self.notices.error(why);
        self.refused = true;
        self.return_credits(now, tlp.repr.tc, tlp.class(), tlp.data_credits());
    }

    /// Returns whether a TLP with this sequence number, of which only the header has arrived, will be accepted if the
    /// rest arrives intact and the sender stays within its credits. Without flow control that is unknown.
    pub fn expects(&self, frame: SentFrame) -> bool {
        let Frame::Tlp { sequence, .. } = frame else { return false };
        let active = self.channels[0].init.state() == InitState::Active;
        active && self.buffer.is_none() && self.receiver.expects(Sequence::from_bits(sequence))
    }

    #[inline(never)]
    pub(super) fn receive_tlp(&mut self, now: Time, sequence: u16, tlp: &Tlp) -> bool {
        self.deadline_moved = true;
        match self.channels[0].init.state() {
            InitState::Active => {}
            InitState::FcInit2 => self.hear_tlp(now, 0),
            InitState::Inactive | InitState::FcInit1 => return false,
        }
        let sequence = Sequence::from_bits(sequence);
        if self.buffer.is_some() && !self.has_buffer_for(now, sequence, tlp) {
            return false;
        }
        match self.receiver.receive(now, sequence) {
            Verdict::Accept => {
                let accepted = self.accept(now, tlp);
                if accepted && tlp.is_malformed() {
                    self.lose_malformed(now, tlp);
                    return false;
                }
                accepted
            }
            Verdict::Duplicate => {
                self.counters.duplicate_tlps += 1;
                if self.replays_by_position() {
                    self.receiver.repeat_ack(now);
                } else {
                    self.pending |= pending::ACK;
                }
                false
            }
            Verdict::Gap { nak } => {
                self.miss(nak, now, sequence, tlp);
                false
            }
        }
    }

    /// Handles a TLP that arrived after a missing one: a Bad TLP, reported once for the gap (`PCIe 5.0 §3.6.3.1`).
    #[cold]
    fn miss(&mut self, nak: bool, now: Time, sequence: Sequence, tlp: &Tlp) {
        self.refuse_out_of_sequence(now, sequence, tlp);
        if nak {
            self.pending |= pending::NAK;
            self.notices.error(Notice::BadTlp);
        }
    }

    /// Returns whether there is room for the TLP on a link without flow control. A TLP without room is silently
    /// dropped, and so are the TLPs after it.
    #[cold]
    fn has_buffer_for(&mut self, now: Time, sequence: Sequence, tlp: &Tlp) -> bool {
        let Some(buffer) = &mut self.buffer else { return true };
        if self.receiver.is_duplicate(sequence) {
            return true;
        }
        if !self.receiver.expects(sequence) {
            self.refuse_out_of_sequence(now, sequence, tlp);
            if self.replays_by_position() {
                self.receiver.repeat_ack(now);
            }
            return false;
        }
        if buffer.used == buffer.capacity {
            let why = Violation::new(RuleId::ReceiveBuffer, buffer.used.into());
            self.refuse(|c| &mut c.full_buffer_drops, now, why, Head::of(tlp));
            return false;
        }
        buffer.used += 1;
        true
    }

    #[cold]
    fn refuse_out_of_sequence(&mut self, now: Time, sequence: Sequence, tlp: &Tlp) {
        let (found, expected) = (sequence.bits().into(), self.receiver.next().into());
        let why = Violation::expecting(RuleId::SequenceNumber, found, expected);
        self.refuse(|c| &mut c.out_of_sequence, now, why, Head::of(tlp));
    }

    /// Counts a TLP or DLLP that the receiver refuses, and stores the reason.
    #[cold]
    fn refuse(&mut self, counter: fn(&mut Counters) -> &mut u64, now: Time, why: Violation, frame: Head) {
        *counter(&mut self.counters) += 1;
        self.refusals.record(now, None, why, frame);
    }

    /// Treats a TLP like an InitFC2, because it proves that the other end uses the channel.
    #[cold]
    fn hear_tlp(&mut self, now: Time, channel: usize) {
        self.channels[channel].init.receive_tlp();
        self.advance_init(now, channel);
        self.note_init();
    }

    fn accept(&mut self, now: Time, tlp: &Tlp) -> bool {
        // A Nak that has not been sent yet would request the TLP that has just arrived.
        self.pending &= !pending::NAK;
        if self.buffer.is_some() {
            return true;
        }
        let (tc, class) = (tlp.repr.tc, tlp.class());
        if !self.settled.contains(tc) && !self.accepts_during_init(now, tlp) {
            return false;
        }
        let index = self.channel_of(tc);
        let credits = &mut self.channels[index].rx[class.index()];
        if !credits.receive(tlp.data_credits()) {
            self.overflow(now, tlp);
            return false;
        }
        if credits.starves_sender() {
            self.pending |= u64::from(self.updates.used_up(index, class)) << pending::UPDATE_FC_SHIFT;
        }
        true
    }

    /// Handles a Receiver Overflow: the TLP is discarded. It had no credits, so none are returned (`PCIe 5.0
    /// §2.6.1.2`).
    #[cold]
    fn overflow(&mut self, now: Time, tlp: &Tlp) {
        let why = Violation::new(RuleId::Credits, tlp.data_credits().into());
        self.refuse(|c| &mut c.receiver_overflows, now, why, Head::of(tlp));
        self.refused = true;
        self.notices.error(Notice::ReceiverOverflow { header: header_log(tlp) });
    }

    /// Returns whether the channel of `tlp` takes TLPs although its initialization has not ended.
    #[cold]
    fn accepts_during_init(&mut self, now: Time, tlp: &Tlp) -> bool {
        let index = self.channel_of(tlp.repr.tc);
        if !self.mapped.contains(tlp.repr.tc) || self.channels[index].init.state() < InitState::FcInit2 {
            return self.refuse_unmapped(now, tlp);
        }
        self.hear_tlp(now, index);
        true
    }

    /// Refuses a TLP whose Traffic Class no channel in use carries: it is malformed (`PCIe 5.0 §2.5.2`). If the class
    /// is not mapped at all, the sender used credits of VC0. They are returned, because the TLP was never in the
    /// buffer.
    #[cold]
    fn refuse_unmapped(&mut self, now: Time, tlp: &Tlp) -> bool {
        let why = Violation::new(RuleId::TcMapped, tlp.repr.tc.bits().into());
        self.refuse(|c| &mut c.unmapped_tcs, now, why, Head::of(tlp));
        self.refused = true;
        self.notices.error(Notice::MalformedTlp { header: header_log(tlp) });
        let (tc, class, data) = (tlp.repr.tc, tlp.class(), tlp.data_credits());
        if !self.mapped.contains(tc) && self.channels[0].rx[class.index()].receive(data) {
            self.return_credits(now, tc, class, data);
        }
        false
    }

    pub(super) fn receive_dllp(&mut self, now: Time, dllp: Dllp) {
        match dllp {
            Dllp::Ack { sequence } => _ = self.receive_ack(now, dllp, sequence),
            Dllp::Nak { sequence } => self.receive_nak(now, dllp, sequence),
            Dllp::FlowControl(fc) => self.receive_flow_control(now, &fc),
            Dllp::Feature(feature) => self.receive_feature(feature),
            // Power states are not modelled; the other DLLPs need no action.
            Dllp::Pm(_) | Dllp::Vendor { .. } | Dllp::Nop => {}
        }
    }

    /// Handles the sequence number of an Ack or Nak. Returns false if the TLP was never sent.
    fn receive_ack(&mut self, now: Time, dllp: Dllp, sequence: u16) -> bool {
        let (up_to, deadline) = (Sequence::from_bits(sequence), self.replay.deadline());
        let acknowledged = if self.rare.intersects(Rare::INACTIVE | Rare::NO_CREDITS) {
            self.acknowledge_rarely(now, up_to)
        } else {
            self.replay.acknowledge(now, up_to, &mut self.store)
        };
        self.deadline_moved |= self.replay.deadline() < deadline;
        match acknowledged {
            Acknowledged::ProtocolError => {
                self.refuse_ack(now, dllp, sequence);
                return false;
            }
            Acknowledged::Nothing => {}
            Acknowledged::Progress => {
                self.note_replay();
                if self.stalls.is_replay_blocked() {
                    self.fit();
                    self.stalls.note(now, &mut self.counters);
                }
            }
        }
        true
    }

    /// Handles an Ack or Nak of a TLP that was never sent: a Data Link Protocol Error (`PCIe 5.0 §3.6.2.2`).
    #[cold]
    fn refuse_ack(&mut self, now: Time, dllp: Dllp, sequence: u16) {
        let last = self.replay.last_sent().bits();
        let why = Violation::expecting(RuleId::AcknowledgedSequence, sequence.into(), last.into());
        self.refuse(|c| &mut c.data_link_protocol_errors, now, why, Head::of_dllp(&dllp));
        self.notices.error(Notice::DataLinkProtocol);
    }

    /// Handles an UpdateFC that breaks the rules: a Flow Control Protocol Error (`PCIe 5.0 §2.6.1`).
    #[cold]
    fn refuse_update(&mut self, now: Time, fc: &FlowControl) {
        let why = self.channels[fc.vc.index()].tx[fc.class.index()].violation(fc);
        self.refuse(
            |c| &mut c.flow_control_protocol_errors,
            now,
            why,
            Head::of_dllp(&Dllp::FlowControl(*fc)),
        );
        self.notices.error(Notice::FlowControlProtocol);
    }

    /// Handles the Ack of a link that is not active, or has no flow control.
    #[cold]
    fn acknowledge_rarely(&mut self, now: Time, up_to: Sequence) -> Acknowledged {
        if !self.is_active() {
            Acknowledged::Nothing
        } else if self.replays_by_position() {
            self.replay.acknowledge_by_position(now, up_to, &mut self.store)
        } else {
            self.replay.acknowledge(now, up_to, &mut self.store)
        }
    }

    fn receive_nak(&mut self, now: Time, dllp: Dllp, sequence: u16) {
        self.deadline_moved = true;
        self.counters.nak_received += 1;
        if self.receive_ack(now, dllp, sequence) && self.is_active() {
            self.start_replay(now);
        }
    }

    fn receive_flow_control(&mut self, now: Time, fc: &FlowControl) {
        let index = fc.vc.index();
        let in_use = self.channels.get(index).is_some_and(|channel| channel.is_in_use());
        if self.buffer.is_some() || !in_use || self.down {
            return;
        }
        if self.feature.is_under_way()
            && fc.kind == FlowControlKind::InitFc1
            && self.feature.other_end_goes_on()
        {
            self.leave_feature();
        }
        let channel = &mut self.channels[index];
        match channel.init.state() {
            // VC0 ignores an UpdateFC before the link is up.
            InitState::Inactive if index == 0 => return,
            InitState::Inactive | InitState::FcInit1 | InitState::FcInit2 => {
                if channel.init.receive(fc.kind, fc.class) {
                    channel.learn(fc);
                }
                self.advance_init(now, index);
                self.note_init();
            }
            InitState::Active if fc.kind != FlowControlKind::UpdateFc => {
                // The other end has missed our InitFC2s; an UpdateFC has the same effect (`PCIe 5.0 §3.4.1`).
                if channel.init.is_late(now) {
                    let kind = index * 3 + fc.class.index();
                    self.pending |= 1 << (pending::UPDATE_FC_SHIFT + kind);
                }
            }
            InitState::Active => {}
        }
        let channel = &mut self.channels[index];
        if fc.kind == FlowControlKind::UpdateFc && channel.init.state() >= InitState::FcInit2 {
            if !channel.tx[fc.class.index()].update(fc) {
                return self.refuse_update(now, fc);
            }
            self.select(index);
            self.stalls.note(now, &mut self.counters);
        }
    }

    pub(super) fn advance_init(&mut self, now: Time, index: usize) {
        let channel = &mut self.channels[index];
        if !channel.init.advance(now) {
            return;
        }
        if channel.init.wants_to_send() {
            self.pending |= 1 << (pending::INIT_FC_SHIFT + index);
        }
        if channel.is_active() {
            self.updates.start(now, index);
            self.tell_early_returns(index);
            self.admit_waiting(index);
            self.settled = self.settled.or(self.config.tc_vc.classes(Vc::from_bits(index as u8)));
            self.note_negotiation();
            self.select(index);
            self.stalls.note(self.wire.free_at().max(now), &mut self.counters);
            if index == 0 {
                self.start_other_channels();
                self.note_up();
                self.note_rare();
            }
        }
    }

    /// Reports returned credits after FC_INIT2. TLPs accepted during FC_INIT2 may have returned credits that no
    /// UpdateFC could report; the other end no longer uses the InitFC2s.
    #[cold]
    fn tell_early_returns(&mut self, index: usize) {
        for (class, credits) in Class::ALL.into_iter().zip(&self.channels[index].rx) {
            let kind = index * Class::ALL.len() + class.index();
            self.pending |= u64::from(credits.has_news()) << (pending::UPDATE_FC_SHIFT + kind);
        }
    }

    /// Handles the transition to DL_Active: starts the other enabled channels (`PCIe 5.0 §3.4`).
    fn start_other_channels(&mut self) {
        for index in 1..self.channels.len() {
            if self.channels[index].is_in_use() {
                self.start_init(index);
            }
        }
    }

    fn receive_feature(&mut self, feature: DataLinkFeature) {
        let was_under_way = self.feature.is_under_way();
        if self.feature.receive(feature) {
            self.pending |= pending::FEATURE;
        }
        if was_under_way && !self.feature.is_under_way() {
            self.leave_feature();
        }
    }

    /// DL_Init follows DL_Feature.
    fn leave_feature(&mut self) {
        if self.feature.agreed_on_scaling() {
            for (vc, channel) in Vc::all().zip(&mut self.channels) {
                channel.renew_credits(&self.config, vc, true);
            }
        }
        self.start_init(0);
        self.note_init();
    }
}
