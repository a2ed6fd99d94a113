// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link that goes down and comes up again (`PCIe 5.0 §2.9.1`, §3.2.1): the state that both layers drop, and the TLPs
//! that they hand back. The owner decides the fate of these TLPs.

use super::Port;
use crate::config::FlowControlMode;
use crate::init::FeatureExchange;
use crate::notice::Notice;
use crate::rare::Rare;
use crate::replay::ReplayBuffer;
use crate::sequence::Sequence;
use crate::stall::Stalls;
use crate::timing::Timers;
use crate::update::UpdateSchedule;
use tlp::{Class, TcSet, Time, Tlp, Vc};

/// A TLP that a port held when its link went down.
///
/// Its owner handles it. A root port or a downstream port of a switch answers a request that was never sent with
/// Unsupported Request. Non-posted requests that were sent end by their requesters' Completion Timeout. All other TLPs
/// are discarded (`PCIe 5.0 §2.9.1`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The TLP.
    pub tlp: Tlp,
    /// Sequence number of a TLP that was sent and not acknowledged; [`has_received`](Port::has_received) of the other
    /// end returns whether it arrived. `None`: the TLP was never sent.
    pub sequence: Option<u16>,
}

impl Port {
    /// Takes the link down (DL_Down): everything that both ends agreed on is forgotten, from sequence numbers to
    /// credits, and all timers stop. Until [`bring_up`](Self::bring_up) the port sends and receives nothing, and there
    /// is [no room](Self::room). Call this at both ends, and drop the frames between them.
    ///
    /// Hands back the TLPs that were queued or not acknowledged, oldest first: first all that were sent, then the
    /// others, channel by channel. TLPs that were passed to the owner before stay there. Their credits may still be
    /// returned, but do not count then. `surprise`: the change was not requested. On a link that is already down, the
    /// call has no effect.
    #[cold]
    pub fn take_down(&mut self, now: Time, surprise: bool) -> Vec<Lost> {
        if self.down {
            return Vec::new();
        }
        self.deadline_moved = true;
        self.keep_stale();
        let lost = self.hand_back();
        self.wire.stop(now, &mut self.counters);
        self.stalls.finish(now, &mut self.counters);
        self.forget();
        self.down = true;
        self.note_rare();
        self.counters.link_downs += 1;
        self.notices.link(Notice::Down { surprise });
        self.note_negotiation();
        lost
    }

    /// Brings the link up again, at the rate and width of its configuration: initialization begins as with
    /// [`start`](Self::start). On a link that is not down, the call has no effect.
    #[cold]
    pub fn bring_up(&mut self, now: Time) {
        if !std::mem::take(&mut self.down) {
            return;
        }
        self.deadline_moved = true;
        (self.room, self.open_classes) = ([TcSet::ALL; 3], super::ALL_CLASSES);
        if self.buffer.is_some() {
            self.channels.iter_mut().for_each(|channel| channel.init.skip());
        }
        self.start(now);
    }

    /// True from [`take_down`](Self::take_down) to [`bring_up`](Self::bring_up).
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Returns whether this end has received the TLP that the other end sent with `sequence` and still holds
    /// unacknowledged.
    pub fn has_received(&self, sequence: u16) -> bool {
        self.receiver.is_duplicate(Sequence::from_bits(sequence))
    }

    /// Notes that the owner has dropped all TLPs from before the link went down, and will return no credits for them.
    pub fn forget_received(&mut self) {
        self.stale = 0;
        self.stale_by_kind = Box::default();
        self.note_rare();
        if let (Some(buffer), true) = (&mut self.buffer, self.down) {
            buffer.used = 0;
        }
    }

    pub(super) fn note_up(&mut self) {
        let (rate, width) = self.speed;
        self.notices.link(Notice::Up { rate, width });
    }

    /// Returns whether credits that are returned now belong to a TLP from before the link went down. Such credits are
    /// returned first, in order.
    #[cold]
    pub(super) fn is_stale(&mut self, channel: usize, class: Class) -> bool {
        let stale = self.stale_by_kind.get_mut(channel).map(|kinds| &mut kinds[class.index()]);
        let Some(stale) = stale.filter(|n| **n != 0) else { return false };
        *stale -= 1;
        self.stale -= 1;
        self.rare.set(Rare::STALE, self.stale != 0);
        true
    }

    /// Counts the TLPs that owners hold, including TLPs from before earlier downs.
    fn keep_stale(&mut self) {
        if self.buffer.is_some() {
            return;
        }
        let scaled = self.feature.agreed_on_scaling();
        let mut by_kind: Box<[[u16; 3]]> =
            Vc::all().zip(&self.channels).map(|(vc, c)| c.held(&self.config, vc, scaled)).collect();
        for (kinds, older) in by_kind.iter_mut().zip(&self.stale_by_kind) {
            for (now, older) in kinds.iter_mut().zip(older) {
                *now = now.saturating_add(*older);
            }
        }
        self.stale = by_kind.iter().flatten().map(|n| u32::from(*n)).sum();
        self.stale_by_kind = by_kind;
    }

    fn hand_back(&mut self) -> Vec<Lost> {
        let sent = self.replay.unacknowledged().map(|(sequence, handle)| (Some(sequence), handle));
        let mut held: Vec<_> = sent.collect();
        for channel in &mut self.channels {
            held.extend(channel.queue.drain().into_iter().map(|(_, queued)| (None, queued.handle)));
        }
        let lost = |(sequence, handle)| Some(Lost { tlp: self.store.take(handle)?, sequence });
        held.into_iter().filter_map(lost).collect()
    }

    /// Resets everything except the counters, the wire and waiting notices.
    fn forget(&mut self) {
        let config = &*self.config;
        let timers = Timers::new(config, config.rate, config.width);
        let (tlps, bytes) = (config.replay_buffer_tlps, config.replay_buffer_bytes);
        let credited = config.flow_control == FlowControlMode::Credits;
        self.replay = ReplayBuffer::new(tlps, bytes, timers.replay, credited);
        self.receiver = super::receiver(config, timers.ack);
        self.updates = UpdateSchedule::new(config, timers.update);
        self.feature = FeatureExchange::new(config.scaled_flow_control);
        for (vc, channel) in Vc::all().zip(&mut self.channels) {
            channel.take_down(config, vc);
        }
        self.wire.set_speed(config.rate, config.width, config.skp_interval);
        self.speed = (config.rate, config.width);
        self.stalls = Stalls::new();
        (self.pending, self.ready, self.sendable) = (0, 0, 0);
        (self.room, self.open_classes) = ([TcSet::NONE; 3], 0);
        (self.settled, self.max_data_bytes) = (TcSet::NONE, u16::MAX);
        (self.init_at, self.retrains_until, self.refused) = (Time::MAX, None, false);
    }
}
