// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port of which only the physical layer is riser's: the serializer with its SKPs, retraining, and the counters of
//! the frames that it carries. The data link layer is its owner's.

use super::{Port, pending};
use crate::config::{FlowControlMode, PortConfig};
use crate::frame::Frame;
use crate::rare::Rare;
use crate::tx::Lengths;
use tlp::{Dllp, FlowControlKind, Rate, Time, Tlp, Width};

/// How a frame of another data link layer counts.
#[derive(Clone, Copy, Debug)]
pub enum CarriedAs<'a> {
    /// A TLP that was not sent before.
    New(&'a Tlp),
    /// A TLP that was sent before.
    Replay,
    /// A DLLP.
    Dllp(Dllp),
    /// Bytes that are neither: all of them count as framing.
    Other,
}

impl Port {
    /// Makes a port that is only a physical layer. Its link is up and down as that of any port, and is active as soon
    /// as it is up. It queues and receives nothing; its owner [carries](Self::carry) frames.
    pub fn carrier(config: PortConfig) -> Port {
        let flow_control = FlowControlMode::None { buffer_tlps: 1 };
        let mut port = Port::new(PortConfig { flow_control, ..config });
        port.rare.insert(Rare::FRAMES);
        port
    }

    /// The present rate and width.
    pub fn speed(&self) -> (Rate, Width) {
        self.speed
    }

    /// Notes whether the owner may have a frame to send: [`transmit_ready_at`](Self::transmit_ready_at) then says when
    /// the wire is free for it.
    pub fn offer_frames(&mut self, may_have: bool) {
        if may_have && !self.down {
            self.pending |= pending::FRAMES;
        } else {
            self.pending &= !pending::FRAMES;
        }
    }

    /// Puts a frame of `wire_bytes` on the wire at `now`; returns when its first and last symbol are sent.
    pub fn carry(&mut self, now: Time, wire_bytes: u32, what: CarriedAs<'_>) -> (Time, Time) {
        let bytes = u64::from(wire_bytes);
        match what {
            CarriedAs::New(tlp) => self.count_new(self.channel_of(tlp.repr.tc), Lengths::of(tlp)),
            CarriedAs::Replay => {
                self.counters.replayed_tlps += 1;
                self.counters.replay_bytes += bytes;
            }
            CarriedAs::Dllp(dllp) => {
                self.counters.dllp_bytes += bytes;
                self.count_dllp(dllp);
            }
            CarriedAs::Other => self.counters.framing_bytes += bytes,
        }
        self.wire.send(now, wire_bytes, &mut self.counters)
    }

    fn count_dllp(&mut self, dllp: Dllp) {
        let dllps = &mut self.counters.dllps;
        match dllp {
            Dllp::Ack { .. } => dllps.ack += 1,
            Dllp::Nak { .. } => dllps.nak += 1,
            Dllp::FlowControl(fc) if fc.kind == FlowControlKind::UpdateFc => dllps.update_fc += 1,
            Dllp::FlowControl(_) => dllps.init_fc += 1,
            Dllp::Feature(_) => dllps.feature += 1,
            Dllp::Pm(_) | Dllp::Vendor { .. } | Dllp::Nop => {}
        }
    }
}

/// Returns whether `frame` counts as [`CarriedAs::New`], a replay, or a DLLP, if its sender has sent the TLPs before
/// `next`.
pub fn carried_as(frame: Frame<&Tlp>, next: u16) -> CarriedAs<'_> {
    match frame {
        Frame::Tlp { sequence, tlp } if sequence == next => CarriedAs::New(tlp),
        Frame::Tlp { .. } => CarriedAs::Replay,
        Frame::Dllp(dllp) => CarriedAs::Dllp(dllp),
    }
}
