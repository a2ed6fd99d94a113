// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser_link_frames` around a data link layer in RTL: frames of the link on one side; on the other, TLPs with their
//! credits and flow control. Independent of the library and of time.

use crate::beats::{Beat, FrameBeat, FrameSide, Gather, split};
use crate::block::Shape;
use crate::block::link_frames::{Driven, Read};
use crate::events::{self, EventCounts};
use crate::signals::{Inputs, Layout, Outputs};
use endpoint::Credits;
use link::{Ending, PortConfig, WireFrame};
use std::collections::VecDeque;
use tlp::{Class, FlowControl, FlowControlKind, PayloadPool, Scale, Tlp, Vc};

/// Bits of a class in `init_fc`.
const FC_BITS: u16 = 24;
/// The module.
pub(super) struct FrameBlock {
    layout: Layout,
    lanes: usize,
    config: PortConfig,
    pub(super) credits: Credits,
    payloads: PayloadPool,
    /// Settings of the physical layer.
    pub(super) link_up: bool,
    pub(super) recovery: bool,
    pub(super) replay_timer: u32,
    /// REPLAY_NUM has rolled over, and the fabric does not know it yet.
    pub(super) retrain: bool,
    retrain_before: bool,
    pub(super) frames: FrameSide,
    tlp_out: VecDeque<Beat>,
    tlp_in: Gather,
    pub(super) tlps_in: VecDeque<Tlp>,
    tlp_seen: u32,
    update: Option<FlowControl>,
    driven: Vec<u32>,
    events: EventCounts,
    pub(super) overflows: u64,
    pub(super) cycle: u64,
}

impl FrameBlock {
    pub(super) fn new(shape: Shape, config: PortConfig) -> FrameBlock {
        let lanes = usize::from(shape.data_bits / 32);
        FrameBlock {
            layout: Layout::of(shape),
            lanes,
            credits: Credits::new(&config),
            config,
            payloads: PayloadPool::new(),
            link_up: false,
            recovery: false,
            replay_timer: 0,
            retrain: false,
            retrain_before: false,
            frames: FrameSide::new(lanes),
            tlp_out: VecDeque::new(),
            tlp_in: Gather::default(),
            tlps_in: VecDeque::new(),
            tlp_seen: 0,
            update: None,
            driven: Vec::new(),
            events: EventCounts::new(events::DATA_LINK),
            overflows: 0,
            cycle: 0,
        }
    }

    pub(super) fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    /// The link is down: what waits on either side is lost.
    pub(super) fn take_down(&mut self) {
        self.credits = Credits::new(&self.config);
        (self.link_up, self.recovery, self.retrain, self.retrain_before) = (false, false, false, false);
        self.frames.clear();
        self.tlp_out.clear();
        self.tlp_in.reset();
        self.tlps_in.clear();
        (self.tlp_seen, self.update) = (0, None);
    }

    /// Takes a frame that has arrived.
    pub(super) fn push_frame(&mut self, frame: &WireFrame) {
        self.frames.push(frame);
    }

    /// Whether the fabric has something to take.
    pub(super) fn has_output(&self) -> bool {
        self.retrain || !self.frames.sent.is_empty() || !self.tlps_in.is_empty()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.frames.is_idle() && self.tlp_out.is_empty() && !self.tlp_in.is_open() && self.tlps_in.is_empty()
    }

    /// Counted events, and TLPs that arrived without credits.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.events.named().chain([("rtl_overflows", self.overflows)]).filter(|(_, n)| *n > 0).collect()
    }

    /// Handles an edge: takes the values that the RTL drives, and sets those that it sees until the next edge.
    pub(super) fn edge(&mut self, read: &[u32], driven: &mut [u32], in_reset: bool) {
        let (layout, mut words) = (std::mem::take(&mut self.layout), std::mem::take(&mut self.driven));
        words.resize(driven.len(), 0);
        let inputs = Inputs { layout: &layout, words: read };
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        self.cycle += 1;
        if !in_reset {
            self.take_frame(inputs);
            self.take_tlp(inputs);
            self.take_credits(inputs);
            self.take_events(inputs);
        }
        self.drive_link(&mut outputs, in_reset);
        self.drive_frame(&mut outputs);
        self.drive_tlp(inputs, &mut outputs);
        self.drive_credits(inputs, &mut outputs);
        driven.copy_from_slice(&words);
        (self.layout, self.driven) = (layout, words);
    }

    fn take_frame(&mut self, inputs: Inputs<'_>) {
        if !inputs.is(Read::PhyTxValid) {
            return;
        }
        let beat = Beat {
            lanes: inputs.lanes(Read::PhyTxData).to_vec(),
            is_first: inputs.is(Read::PhyTxSop),
            is_last: inputs.is(Read::PhyTxEop),
            end: inputs.get(Read::PhyTxEnd),
        };
        self.frames.offer(&beat, inputs.is(Read::PhyTxDllp), inputs.is(Read::PhyTxNullify));
    }

    fn take_tlp(&mut self, inputs: Inputs<'_>) {
        if !inputs.is(Read::TlpRxValid) {
            return;
        }
        let beat = Beat {
            lanes: inputs.lanes(Read::TlpRxData).to_vec(),
            is_first: inputs.is(Read::TlpRxSop),
            is_last: inputs.is(Read::TlpRxEop),
            end: inputs.get(Read::TlpRxEnd),
        };
        let bytes = self.tlp_in.push(&beat).filter(|_| inputs.is(Read::TlpRxGood));
        let tlp = bytes.and_then(|bytes| {
            let read = Tlp::parse(&bytes, &self.payloads).ok();
            read.or_else(|| Tlp::of_malformed(&bytes, &self.payloads))
        });
        let Some(tlp) = tlp else { return };
        self.tlp_seen |= 1 << self.credits.channel(tlp.repr.tc).index();
        if self.credits.receive(&tlp) {
            self.tlps_in.push_back(tlp);
        } else {
            self.overflows += 1;
        }
    }

    fn take_credits(&mut self, inputs: Inputs<'_>) {
        if inputs.is(Read::FcRxValid)
            && let Some(fc) = flow_control(inputs)
        {
            self.credits.handle(&fc);
        }
        let ready = inputs.get(Read::VcReady);
        for vc in self.credits.channels().filter(|vc| ready >> vc.index() & 1 == 1) {
            if !self.credits.is_active(vc) {
                self.credits.activate(vc);
            }
        }
    }

    fn take_events(&mut self, inputs: Inputs<'_>) {
        self.events.add(inputs.get(Read::Events));
        let retrain = inputs.is(Read::Retrain);
        self.retrain |= retrain && !self.retrain_before;
        self.retrain_before = retrain;
    }

    fn drive_link(&mut self, outputs: &mut Outputs<'_>, in_reset: bool) {
        outputs.set(Driven::Reset, in_reset.into());
        outputs.set(Driven::LinkUp, (self.link_up && !in_reset).into());
        outputs.set(Driven::Recovery, self.recovery.into());
        outputs.set(Driven::ReplayTimer, self.replay_timer);
        outputs.set(Driven::PhyTxReady, self.frames.ready().into());
    }

    fn drive_frame(&mut self, outputs: &mut Outputs<'_>) {
        let next = self.frames.next_beat();
        outputs.set(Driven::PhyRxValid, next.is_some().into());
        let Some(FrameBeat { beat, is_dllp, ending }) = next else { return };
        outputs.set_lanes(Driven::PhyRxData, &beat.lanes);
        outputs.set(Driven::PhyRxSop, beat.is_first.into());
        outputs.set(Driven::PhyRxEop, beat.is_last.into());
        outputs.set(Driven::PhyRxEnd, beat.end);
        outputs.set(Driven::PhyRxDllp, is_dllp.into());
        outputs.set(Driven::PhyRxNullify, (beat.is_last && ending == Ending::Nullified).into());
        outputs.set(Driven::PhyRxError, (beat.is_last && ending == Ending::Broken).into());
    }

    /// The first beat stays until the RTL is ready for it.
    fn drive_tlp(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        if inputs.is(Read::TlpTxReady) {
            self.tlp_out.pop_front();
        }
        if self.tlp_out.is_empty()
            && let Some(tlp) = self.credits.pop()
        {
            let mut bytes = vec![0; tlp.wire_len()];
            tlp.emit(&mut bytes);
            self.tlp_out.extend(split(&bytes, self.lanes));
        }
        let next = self.tlp_out.front();
        outputs.set(Driven::TlpTxValid, next.is_some().into());
        let Some(beat) = next else { return };
        outputs.set_lanes(Driven::TlpTxData, &beat.lanes);
        outputs.set(Driven::TlpTxSop, beat.is_first.into());
        outputs.set(Driven::TlpTxEop, beat.is_last.into());
        outputs.set(Driven::TlpTxEnd, beat.end);
    }

    fn drive_credits(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let channels = self.credits.channels().fold(0, |set, vc| set | 1 << vc.index());
        outputs.set(Driven::VcEnable, channels);
        outputs.set(Driven::VcTlpSeen, self.tlp_seen);
        for vc in self.credits.channels() {
            for class in Class::ALL.into_iter().filter(|_| !self.credits.is_active(vc)) {
                let at = FC_BITS * (3 * vc.index() + class.index()) as u16;
                let fc = self.credits.report(FlowControlKind::InitFc1, vc, class);
                outputs.set_field(Driven::InitFc, at, FC_BITS, value(&fc));
            }
        }
        if inputs.is(Read::FcTxReady) {
            self.update = None;
        }
        self.update = self.update.or_else(|| self.credits.poll_dllp());
        outputs.set(Driven::FcTxValid, self.update.is_some().into());
        if let Some(fc) = &self.update {
            outputs.set(Driven::FcTxType, fc.class.index() as u32);
            outputs.set(Driven::FcTxVc, fc.vc.index() as u32);
            outputs.set(Driven::FcTxValue, value(fc));
        }
    }
}

/// The 24 bits after the type of a flow-control DLLP.
fn value(fc: &FlowControl) -> u32 {
    u32::from(fc.header) << 14 | u32::from(fc.data)
}

/// The flow-control DLLP that the RTL has received.
fn flow_control(inputs: Inputs<'_>) -> Option<FlowControl> {
    let kind = match inputs.get(Read::FcRxKind) {
        1 => FlowControlKind::InitFc1,
        2 => FlowControlKind::UpdateFc,
        3 => FlowControlKind::InitFc2,
        _ => return None,
    };
    let (class, vc, value) =
        (inputs.get(Read::FcRxType), inputs.get(Read::FcRxVc), inputs.get(Read::FcRxValue));
    let class = *Class::ALL.get(class as usize)?;
    let [header_scale, data_scale] = [22, 12].map(|at| Scale::from_bits((value >> at) as u8));
    let (header, data) = ((value >> 14) as u8, (value & 0xfff) as u16);
    let fc = FlowControl::new(kind, class, Vc::from_bits(vc as u8), header, data);
    Some(FlowControl { header_scale, data_scale, ..fc })
}
