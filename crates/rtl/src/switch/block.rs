// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser_switch` around a switch in RTL: frames of its links. Independent of the library and of time.

use crate::beats::{Beat, FrameBeat, FrameSide};
use crate::block::Shape;
use crate::block::switch::{Driven, END_BITS, EVENT_BITS, REPLAY_TIMER_BITS, Read, SPEED_BITS, WIDTH_BITS};
use crate::events::EventCounts;
use crate::signals::{Inputs, Layout, Outputs};
use endpoint::LinkHolds;
use link::Ending;

/// Names of the events of a port, by bit.
const EVENTS: &[&str] = &[
    "rtl_posted_ur",
    "rtl_request_ur",
    "rtl_unexpected_completions",
    "rtl_config_requests",
    "rtl_messages_ended",
    "rtl_poisoned_tlps",
];

/// A link of the switch.
pub(super) struct LinkSide {
    pub(super) frames: FrameSide,
    /// Settings of the physical layer.
    pub(super) up: bool,
    pub(super) recovery: bool,
    pub(super) replay_timer: u32,
    /// Generation, and lanes.
    pub(super) speed: [u32; 2],
    /// REPLAY_NUM has rolled over, and the fabric does not know it yet.
    pub(super) retrain: bool,
    retrain_before: bool,
    /// The states in which the switch wants to hold this link.
    holds: LinkHolds,
    /// The same, as the fabric last saw them.
    pub(super) seen_holds: LinkHolds,
    /// Whether the link has an output since the last call of the fabric for it.
    pub(super) is_new: bool,
}

impl LinkSide {
    fn new(lanes: usize) -> LinkSide {
        LinkSide {
            frames: FrameSide::new(lanes),
            up: false,
            recovery: false,
            replay_timer: 0,
            speed: [0; 2],
            retrain: false,
            retrain_before: false,
            holds: LinkHolds::default(),
            seen_holds: LinkHolds::default(),
            is_new: false,
        }
    }

    /// The link is down: frames on either side are lost.
    pub(super) fn take_down(&mut self) {
        (self.up, self.recovery, self.retrain, self.retrain_before) = (false, false, false, false);
        self.frames.clear();
    }

    /// The fabric sees the states in which the switch wants to hold the link.
    pub(super) fn see_holds(&mut self) {
        self.seen_holds = self.holds;
    }

    fn has_output(&self) -> bool {
        self.retrain || !self.frames.sent.is_empty() || self.holds != self.seen_holds
    }

    /// Takes what the switch sends on link `n` of `lanes` lanes of 32 bits per beat.
    fn take(&mut self, n: u16, lanes: usize, inputs: Inputs<'_>) {
        let is = |port: Read| inputs.field(port, n, 1) != 0;
        if is(Read::PhyTxValid) {
            let beat = Beat {
                lanes: inputs.lanes(Read::PhyTxData)[usize::from(n) * lanes..][..lanes].to_vec(),
                is_first: is(Read::PhyTxSop),
                is_last: is(Read::PhyTxEop),
                end: inputs.field(Read::PhyTxEnd, n * END_BITS, END_BITS),
            };
            let before = self.frames.sent.len();
            self.frames.offer(&beat, is(Read::PhyTxDllp), is(Read::PhyTxNullify));
            self.is_new |= self.frames.sent.len() > before;
        }
        let holds = LinkHolds { reset: is(Read::HotReset), disabled: is(Read::LinkDisable) };
        let retrain = is(Read::Retrain);
        self.is_new |= holds != self.holds || retrain && !self.retrain_before;
        self.holds = holds;
        self.retrain |= retrain && !self.retrain_before;
        self.retrain_before = retrain;
    }

    fn drive(&mut self, n: u16, lanes: usize, outputs: &mut Outputs<'_>, in_reset: bool) {
        let mut set = |port: Driven, on: bool| outputs.set_field(port, n, 1, on.into());
        set(Driven::LinkUp, self.up && !in_reset);
        set(Driven::Recovery, self.recovery);
        set(Driven::PhyTxReady, self.frames.ready());
        let next = self.frames.next_beat();
        if let Some(FrameBeat { beat, is_dllp, ending }) = &next {
            set(Driven::PhyRxValid, true);
            set(Driven::PhyRxSop, beat.is_first);
            set(Driven::PhyRxEop, beat.is_last);
            set(Driven::PhyRxDllp, *is_dllp);
            set(Driven::PhyRxNullify, beat.is_last && *ending == Ending::Nullified);
            set(Driven::PhyRxError, beat.is_last && *ending == Ending::Broken);
            outputs.set_field(Driven::PhyRxEnd, n * END_BITS, END_BITS, beat.end);
            outputs.set_lanes_from(Driven::PhyRxData, usize::from(n) * lanes, &beat.lanes);
        }
        let [speed, width] = self.speed;
        outputs.set_field(Driven::LinkSpeed, n * SPEED_BITS, SPEED_BITS, speed);
        outputs.set_field(Driven::LinkWidth, n * WIDTH_BITS, WIDTH_BITS, width);
        outputs.set_field(Driven::ReplayTimer, n * REPLAY_TIMER_BITS, REPLAY_TIMER_BITS, self.replay_timer);
    }
}

/// The module.
pub(super) struct SwitchBlock {
    layout: Layout,
    lanes: usize,
    /// The links, the upstream link first.
    pub(super) links: Vec<LinkSide>,
    /// Events of all ports.
    events: EventCounts,
    pub(super) cycle: u64,
}

impl SwitchBlock {
    pub(super) fn new(shape: Shape) -> SwitchBlock {
        let lanes = usize::from(shape.data_bits / 32);
        SwitchBlock {
            layout: Layout::of(shape),
            lanes,
            links: (0..shape.links).map(|_| LinkSide::new(lanes)).collect(),
            events: EventCounts::new(EVENTS),
            cycle: 0,
        }
    }

    pub(super) fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    /// Whether the fabric has something to take.
    pub(super) fn has_output(&self) -> bool {
        self.links.iter().any(LinkSide::has_output)
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.links.iter().all(|link| link.frames.is_idle() && !link.has_output())
    }

    /// Counted events.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.events.named().filter(|(_, n)| *n > 0).collect()
    }

    /// Handles an edge. `read` has the outputs of the RTL; `driven` gets its inputs until the next edge.
    pub(super) fn edge(&mut self, read: &[u32], driven: &mut [u32], in_reset: bool) {
        let SwitchBlock { layout, lanes, links, events, cycle } = self;
        let inputs = Inputs { layout, words: read };
        driven.fill(0);
        let mut outputs = Outputs { layout, words: driven };
        *cycle += 1;
        outputs.set(Driven::Reset, in_reset.into());
        for (n, link) in (0..).zip(links) {
            if !in_reset {
                link.take(n, *lanes, inputs);
                events.add(inputs.field(Read::Events, n * EVENT_BITS, EVENT_BITS));
            }
            link.drive(n, *lanes, &mut outputs, in_reset);
        }
    }
}
