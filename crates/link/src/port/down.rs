// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link that goes down and comes up again (`PCIe 5.0 §2.9.1`, §3.2.1): what both layers forget, and what they hand back.
//! Never decides what becomes of it.

use super::Port;
use crate::config::FlowControlMode;
use crate::init::FeatureExchange;
use crate::notice::Notice;
use crate::replay::ReplayBuffer;
use crate::sequence::Sequence;
use crate::stall::Stalls;
use crate::timing::Timers;
use crate::update::UpdateSchedule;
use tlp::{Class, TcSet, Time, Tlp, Vc};

/// A TLP that a port held when its link went down.
///
/// Its owner ends what hangs on it: a request that was never sent is answered with Unsupported Request by a root port or a
/// downstream port of a switch; of those that were sent, non-posted ones are left to the Completion Timeout of their
/// requesters; all others are discarded (`PCIe 5.0 §2.9.1`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The TLP.
    pub tlp: Tlp,
    /// Sequence number of one that was sent and not acknowledged; whether the other end has it,
    /// [`has_received`](Port::has_received) says there. `None`: it was never sent.
    pub sequence: Option<u16>,
}

impl Port {
    /// The link goes down (DL_Down): everything that both ends agreed on is forgotten, from sequence numbers to credits, and
    /// all timers stop. Until [`bring_up`](Self::bring_up) nothing is sent, nothing is received, and there is
    /// [no room](Self::room). Call it at both ends, and drop the frames between them.
    ///
    /// Hands back what was queued or not acknowledged, oldest first: first what was sent, then what was not, channel by
    /// channel. TLPs that were handed up before stay with whoever has them; their credits may be returned still, and are
    /// then not counted. `surprise`: nobody asked for it. A link that is down stays as it is.
    #[cold]
    pub fn take_down(&mut self, now: Time, surprise: bool) -> Vec<Lost> {
        if self.down {
            return Vec::new();
        }
        self.keep_stale();
        let lost = self.hand_back();
        self.wire.stop(now, &mut self.counters);
        self.stalls.finish(now, &mut self.counters);
        self.forget();
        self.down = true;
        self.counters.link_downs += 1;
        self.notices.link(Notice::Down { surprise });
        lost
    }

    /// The link is there again, at the rate and width of its configuration: initialization begins, as with
    /// [`start`](Self::start). A link that is not down stays as it is.
    #[cold]
    pub fn bring_up(&mut self, now: Time) {
        if !std::mem::take(&mut self.down) {
            return;
        }
        self.room = [TcSet::ALL; 3];
        if self.buffer.is_some() {
            self.channels.iter_mut().for_each(|channel| channel.init.skip());
        }
        self.start(now);
    }

    /// Taken down, and not brought up again.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Whether the TLP that was sent with `sequence`, which is not acknowledged there, has been received here.
    #[must_use]
    pub fn has_received(&self, sequence: u16) -> bool {
        self.receiver.is_duplicate(Sequence::from_bits(sequence))
    }

    /// The owner has dropped all TLPs that it was handed before the link went down, and will return no credits for them.
    pub fn forget_received(&mut self) {
        self.stale = 0;
        self.stale_by_kind = Box::default();
        if let (Some(buffer), true) = (&mut self.buffer, self.down) {
            buffer.used = 0;
        }
    }

    pub(super) fn note_up(&mut self) {
        let (rate, width) = self.speed;
        self.notices.link(Notice::Up { rate, width });
    }

    /// Whether credits that are returned now belong to a TLP of before: those go first, as they came.
    #[cold]
    pub(super) fn is_stale(&mut self, channel: usize, class: Class) -> bool {
        let stale = self.stale_by_kind.get_mut(channel).map(|kinds| &mut kinds[class.index()]);
        let Some(stale) = stale.filter(|n| **n != 0) else { return false };
        *stale -= 1;
        self.stale -= 1;
        true
    }

    /// Counts the TLPs that owners hold, of now and of earlier times.
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
            held.extend(channel.queue.drain().into_iter().map(|handle| (None, handle)));
        }
        let lost = |(sequence, handle)| Some(Lost { tlp: self.store.take(handle)?, sequence });
        held.into_iter().filter_map(lost).collect()
    }

    /// Everything but counters, the wire and what waits to be told begins anew.
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
        (self.settled, self.room, self.admits) = (TcSet::NONE, [TcSet::NONE; 3], u16::MAX);
        (self.init_at, self.retrains_until, self.refused) = (Time::MAX, None, false);
    }
}
