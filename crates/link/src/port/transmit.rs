// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit half of a port: the frames that go onto the wire. Never waits.

use super::{Port, pending};
use crate::frame::{DLLP_WIRE_BYTES, Frame, QueueWait, Sent, TLP_FRAMING_BYTES};
use crate::notice::Notice;
use crate::tx::Lengths;
use tlp::{Class, Dllp, FlowControlKind, Time};

impl Port {
    /// Selects the next TLP of `channel`. Called whenever its queues' heads, its credits or its state have changed.
    // Not inlined: compiled once for both calling crates.
    #[inline(never)]
    pub(super) fn select(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        let blocked = channel.select(&self.store);
        let bit = 1 << index;
        let (ready, fits) = match channel.head {
            Some((_, lengths)) => (bit, if self.replay.has_room(lengths) { bit } else { 0 }),
            None => (0, 0),
        };
        self.ready = self.ready & !bit | ready;
        self.sendable = self.sendable & !bit | fits;
        self.stalls.set(index, blocked, self.sendable != self.ready);
    }

    /// Finds which of the ready TLPs fit into the replay buffer. Called whenever either has changed.
    pub(super) fn fit(&mut self) {
        self.sendable = self.ready;
        let mut ready = self.ready;
        while ready != 0 {
            let index = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            if self.channels[index].head.is_some_and(|(_, lengths)| !self.replay.has_room(lengths)) {
                self.sendable &= !(1 << index);
            }
        }
        self.stalls.set_replay(self.sendable != self.ready);
    }

    #[inline(never)]
    pub(super) fn transmit_new(&mut self, now: Time) -> Option<Sent> {
        if self.sendable == 0 {
            return None;
        }
        let index = self.arbiter.pick(self.sendable);
        let channel = &mut self.channels[index];
        let (class, lengths) = channel.head?;
        let queued = channel.queue.pop(class)?;
        channel.tx[class.index()].consume(lengths.data_credits());
        let classes = channel.classes;
        self.open_room(class, classes);
        let credit_wait = self.stalls.take_wait(index, class);
        let wait = Some(QueueWait { queued_at: queued.at, credit_wait });
        let (start, end) = self.wire.send(now, lengths.wire(), &mut self.counters);
        let sequence = self.replay.push(lengths, queued.handle);
        self.finish_new(sequence, &queued, credit_wait, [start, end]);
        self.deadline_moved |= self.replay.sent(end);
        self.count_new(index, lengths);
        self.select(index);
        // The TLP that was just sent takes room in the replay buffer, which all channels share.
        if self.ready & !(1 << index) != 0 {
            self.fit();
        }
        self.stalls.note(end, &mut self.counters);
        Some(Sent { frame: Frame::Tlp { sequence, tlp: () }, start, end, wait })
    }

    pub(super) fn count_new(&mut self, channel: usize, lengths: Lengths) {
        self.counters.tlps += 1;
        self.counters.payload_bytes += u64::from(lengths.data);
        self.counters.header_bytes += u64::from(lengths.header);
        self.counters.digest_bytes += u64::from(lengths.digest());
        self.counters.framing_bytes += u64::from(TLP_FRAMING_BYTES);
        let vc = &mut self.counters.vcs[channel];
        vc.tlps += 1;
        vc.payload_bytes += u64::from(lengths.data);
    }

    #[inline(never)]
    pub(super) fn transmit_pending(&mut self, now: Time) -> Option<Sent> {
        let first = self.pending.trailing_zeros() as usize;
        match 1_u64 << first {
            pending::NAK => self.transmit_nak(now),
            pending::ACK => self.transmit_ack(now),
            pending::FEATURE => self.transmit_feature(now),
            pending::REPLAY => self.transmit_replay(now),
            // Only its owner can send.
            pending::FRAMES => None,
            _ if first < pending::UPDATE_FC_SHIFT => {
                self.transmit_init_fc(now, first - pending::INIT_FC_SHIFT)
            }
            _ => self.transmit_update_fc(now, first - pending::UPDATE_FC_SHIFT),
        }
    }

    fn transmit_dllp(&mut self, now: Time, dllp: Dllp) -> Option<Sent> {
        let (start, end) = self.wire.send(now, DLLP_WIRE_BYTES, &mut self.counters);
        self.counters.dllp_bytes += u64::from(DLLP_WIRE_BYTES);
        Some(Sent { frame: Frame::Dllp(dllp), start, end, wait: None })
    }

    // A Nak also acknowledges, like an Ack.
    fn transmit_nak(&mut self, now: Time) -> Option<Sent> {
        self.pending &= !(pending::NAK | pending::ACK);
        self.counters.dllps.nak += 1;
        let sequence = self.receiver.acknowledge();
        self.transmit_dllp(now, Dllp::Nak { sequence })
    }

    fn transmit_ack(&mut self, now: Time) -> Option<Sent> {
        self.pending &= !pending::ACK;
        self.counters.dllps.ack += 1;
        let sequence = self.receiver.acknowledge();
        self.transmit_dllp(now, Dllp::Ack { sequence })
    }

    fn transmit_feature(&mut self, now: Time) -> Option<Sent> {
        self.pending &= !pending::FEATURE;
        self.counters.dllps.feature += 1;
        let feature = self.feature.next(now);
        self.note_init();
        self.transmit_dllp(now, Dllp::Feature(feature))
    }

    fn transmit_init_fc(&mut self, now: Time, index: usize) -> Option<Sent> {
        let channel = &mut self.channels[index];
        let (kind, class) = channel.init.next(now)?;
        if !channel.init.wants_to_send() {
            self.pending &= !(1 << (pending::INIT_FC_SHIFT + index));
        }
        self.counters.dllps.init_fc += 1;
        let report = channel.rx[class.index()].report(kind);
        let sent = self.transmit_dllp(now, Dllp::FlowControl(report));
        self.advance_init(now, index);
        self.note_init();
        sent
    }

    fn transmit_update_fc(&mut self, now: Time, kind: usize) -> Option<Sent> {
        self.pending &= !(1 << (pending::UPDATE_FC_SHIFT + kind));
        self.updates.told(now, kind);
        self.counters.dllps.update_fc += 1;
        let (channel, class) = (kind / Class::ALL.len(), kind % Class::ALL.len());
        let report = self.channels[channel].rx[class].report(FlowControlKind::UpdateFc);
        self.transmit_dllp(now, Dllp::FlowControl(report))
    }

    fn transmit_replay(&mut self, now: Time) -> Option<Sent> {
        if self.replays_by_position() {
            self.skip_for_own_acks();
        }
        let Some((sequence, lengths)) = self.replay.replay() else {
            self.note_replay();
            return self.transmit_new(now);
        };
        self.note_replay();
        let (start, end) = self.wire.send(now, lengths.wire(), &mut self.counters);
        self.deadline_moved |= self.replay.sent(end);
        self.counters.replayed_tlps += 1;
        self.counters.replay_bytes += u64::from(lengths.wire());
        Some(Sent { frame: Frame::Tlp { sequence, tlp: () }, start, end, wait: None })
    }

    /// Advances a replay by position by one TLP for each Ack that the port has sent since the replay last moved.
    #[cold]
    fn skip_for_own_acks(&mut self) {
        let sent = self.counters.dllps.ack;
        let acks = sent - std::mem::replace(&mut self.replay_acks, sent);
        self.replay.skip(u16::try_from(acks).unwrap_or(u16::MAX));
    }

    /// Starts a replay, after REPLAY_TIMER or a Nak (`PCIe 5.0 §3.6.2.1`).
    pub(super) fn start_replay(&mut self, now: Time) {
        if self.replay.start_replay() {
            self.counters.replay_num_rollovers += 1;
            self.notices.error(Notice::ReplayRollover);
            self.retrain_now(now);
        }
        if self.replays_by_position() {
            self.replay.start_timer(now);
            self.replay_acks = self.counters.dllps.ack;
        }
        self.note_replay();
    }

    /// Sends the link into retraining; the other end must be notified.
    pub(super) fn retrain_now(&mut self, now: Time) {
        let until = self.retrained_at(now);
        self.wire.hold(now, until, &mut self.counters);
        self.replay.hold(now, until);
        self.retrains_until = Some(until);
    }

    pub(super) fn note_replay(&mut self) {
        self.pending &= !pending::REPLAY;
        if self.replay.is_replaying() {
            self.pending |= pending::REPLAY;
        }
    }
}
