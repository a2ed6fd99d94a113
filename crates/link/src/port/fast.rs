// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a port without [`Rare`] features: one channel, which is up, and no credits from before the link
//! last came up. Each step either has the same effect as the general path, or has no effect and returns false.

use super::{Port, pending};
use crate::rare::Rare;
use crate::replay::TransmitTimes;
use crate::sequence::Sequence;
use crate::tx::Queued;
use tlp::{Account, Class, Duration, Flaw, Time, Tlp, TrafficClass};

/// A new TLP that [`Port::transmit_fast`] has sent.
#[derive(Clone, Copy, Debug)]
pub struct SentTlp<'a> {
    /// Its sequence number.
    pub sequence: u16,
    /// When its first symbol is sent.
    pub start: Time,
    /// When its last symbol has been sent.
    pub end: Time,
    /// Time for which the TLP has waited for credits at the head of its queue.
    pub credit_wait: Duration,
    /// Bytes of its data, in whole DWs.
    pub data_bytes: u32,
    /// The TLP, which stays in the replay buffer.
    pub tlp: &'a Tlp,
}

impl Port {
    /// The rare features of this port.
    #[inline(always)]
    pub fn rare(&self) -> Rare {
        self.rare
    }

    /// Sets or clears features that the driver knows: [`Rare::TAPPED`], [`Rare::FAULTS`], [`Rare::CUT_THROUGH`] and
    /// [`Rare::GENERAL_PATH`]. The port sets the others itself.
    #[cold]
    pub fn set_rare(&mut self, features: Rare, on: bool) {
        self.rare.set(features, on);
    }

    /// Updates the features that the port itself knows. Called whenever a feature may have changed.
    #[cold]
    pub(super) fn note_rare(&mut self) {
        let several = self.channels.len() != 1 || !self.arbiter.serves_only_vc0();
        self.rare.set(Rare::INACTIVE, self.down || !self.channels[0].is_active());
        self.rare.set(Rare::NO_CREDITS, self.buffer.is_some());
        self.rare.set(Rare::CHANNELS, several);
        self.rare.set(Rare::STALE, self.stale != 0);
    }

    /// The TLP that was sent with this sequence number; `None` if it was acknowledged.
    #[inline(always)]
    pub fn lend_tlp(&self, sequence: u16) -> Option<&Tlp> {
        self.store.get(self.replay.get(Sequence::from_bits(sequence))?)
    }

    /// Like [`lend_tlp`](Self::lend_tlp), to change the TLP's account. Also returns the times of its first
    /// transmission, which are stored if the account is [deferred](Account::DEFERRED).
    #[inline(always)]
    pub fn lend_sent(&mut self, sequence: u16) -> Option<(&mut Tlp, &TransmitTimes)> {
        let sequence = Sequence::from_bits(sequence);
        Some((self.store.get_mut(self.replay.get(sequence)?)?, self.replay.times(sequence)))
    }

    /// Whether the next frame is a new TLP that may go onto the wire at `now` by [`transmit_fast`](Self::transmit_fast).
    #[inline(always)]
    pub fn may_transmit_fast(&self, now: Time) -> bool {
        self.rare.is_empty() && self.pending == 0 && self.sendable != 0 && now >= self.wire.free_at()
    }

    /// Returns whether the wire is busy at `now` and the queues of all `classes`, bits by [`Class::index`], are full.
    /// The port then neither sends nor accepts TLPs of these classes.
    #[inline(always)]
    pub fn is_busy(&self, now: Time, classes: u8) -> bool {
        now < self.wire.free_at() && classes & self.open_classes == 0
    }

    /// Accepts an arrived TLP if it is the next one, well-formed, of TC0, and has its credits.
    #[inline(always)]
    pub(super) fn receive_fast(&mut self, now: Time, sequence: u16, tlp: &Tlp) -> bool {
        self.rare.is_empty()
            && tlp.repr.tc == TrafficClass::default()
            && tlp.flaw == Flaw::None
            && self.accept_fast(now, sequence, tlp.class(), tlp.data_credits())
    }

    /// Like `receive_fast`, for a TLP that the caller knows to be well-formed and of TC0, at a port without
    /// rare features.
    #[inline(always)]
    pub fn accept_fast(&mut self, now: Time, sequence: u16, class: Class, data_credits: u32) -> bool {
        if !self.receiver.expects(Sequence::from_bits(sequence)) {
            return false;
        }
        let [channel] = &mut self.channels[..] else { return false };
        let credits = &mut channel.rx[class.index()];
        if !credits.receive(data_credits) {
            return false;
        }
        let starves = credits.starves_sender();
        self.deadline_moved |= self.receiver.accept_next(now);
        self.pending &= !pending::NAK;
        if starves {
            self.pending |= u64::from(self.updates.used_up(0, class)) << pending::UPDATE_FC_SHIFT;
        }
        true
    }

    /// Like [`return_credits`](Self::return_credits), for a TLP of TC0 at a port without rare features.
    #[inline(always)]
    pub fn return_credits_fast(&mut self, now: Time, class: Class, data_credits: u32) {
        let [channel] = &mut self.channels[..] else { return };
        let urgent = channel.rx[class.index()].free(data_credits);
        let before = self.updates.news_deadline();
        let tell = self.updates.returned(now, 0, class, urgent);
        self.deadline_moved |= self.updates.news_deadline() != before;
        self.pending |= u64::from(tell) << pending::UPDATE_FC_SHIFT;
    }

    /// Selects the next TLP to send if TLPs of at most one class wait, the first has its credits, and no head is
    /// stalled.
    #[inline(always)]
    pub(super) fn select_fast(&mut self) -> bool {
        let [channel] = &mut self.channels[..] else { return false };
        if !self.stalls.none() {
            return false;
        }
        let Some(head) = channel.queue.only_head(&channel.tx) else { return false };
        if head.is_some_and(|(_, lengths)| !self.replay.has_room(lengths)) {
            return false;
        }
        channel.head = head;
        let ready = u8::from(head.is_some());
        (self.ready, self.sendable) = (ready, ready);
        true
    }

    /// Finishes the transmission of a new TLP: stores its times if its account is [deferred](Account::DEFERRED), and
    /// lets the wire rest after it. Returns the TLP.
    #[inline(always)]
    pub(super) fn finish_new(
        &mut self,
        sequence: u16,
        queued: &Queued,
        credit_wait: Duration,
        [start, end]: [Time; 2],
    ) -> Option<&Tlp> {
        let tlp = self.store.get(queued.handle)?;
        if tlp.account == Account::DEFERRED {
            let times = TransmitTimes { queued_at: queued.at, credit_wait, start, end };
            self.replay.note_times(sequence, times);
        }
        if tlp.rest_ps != 0 {
            self.wire.rest(Duration::from_ps(tlp.rest_ps.into()));
        }
        Some(tlp)
    }

    /// Sends the next new TLP. Call this only if [`may_transmit_fast`](Self::may_transmit_fast) returns true.
    #[inline(always)]
    pub fn transmit_fast(&mut self, now: Time) -> Option<SentTlp<'_>> {
        let [channel] = &mut self.channels[..] else { return None };
        let (class, lengths) = channel.head?;
        let queued = channel.queue.pop(class)?;
        channel.tx[class.index()].consume(lengths.data_credits());
        let classes = channel.classes;
        self.open_room(class, classes);
        let credit_wait = self.stalls.take_wait(0, class);
        let (start, end) = self.wire.send(now, lengths.wire(), &mut self.counters);
        let sequence = self.replay.push(lengths, queued.handle);
        self.deadline_moved |= self.replay.sent(end);
        self.count_new(0, lengths);
        if !self.select_fast() {
            self.select(0);
            self.stalls.note(end, &mut self.counters);
        }
        let tlp = self.finish_new(sequence, &queued, credit_wait, [start, end])?;
        let data_bytes = lengths.data.into();
        Some(SentTlp { sequence, start, end, credit_wait, data_bytes, tlp })
    }
}
