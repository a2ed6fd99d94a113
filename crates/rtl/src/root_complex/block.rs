// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser_root_complex` around a root complex in RTL: the buses of CPU and memory, frames of the link, interrupt wires. Independent of
//! the library and of time.

use super::cpu::{Cpu, Seen};
use super::memory::{Burst, MemoryBus, REQUESTER};
use crate::beats::{Beat, FrameBeat, FrameSide, word};
use crate::block::Shape;
use crate::block::root_complex::{Driven, Read};
use crate::events::{self, EventCounts};
use crate::signals::{Inputs, Layout, Outputs};
use endpoint::LinkHolds;
use host::{HostInput, HostInterrupt, Wire};
use link::Ending;
use std::collections::VecDeque;

/// Names of the events of the root complex, by bit.
const EVENTS: &[&str] = &[
    "rtl_unexpected_completions",
    "rtl_completion_timeouts",
    "rtl_ur_received",
    "rtl_ca_received",
    "rtl_rrs_received",
    "rtl_poisoned_completions",
    "rtl_bad_completions",
    "rtl_bus_decode_errors",
    "rtl_bus_burst_errors",
    "rtl_absent_functions",
    "rtl_retry_limits",
    "rtl_posted_ur",
    "rtl_read_ur",
    "rtl_poisoned_writes",
    "rtl_malformed_requests",
    "rtl_memory_write_errors",
    "rtl_memory_read_errors",
    "rtl_memory_stalls",
    "rtl_stalled_writes",
    "rtl_stalled_reads",
    "rtl_msis",
    "rtl_bad_msis",
    "rtl_error_messages",
    "rtl_ignored_messages",
];
/// Names of the events of the transaction layer, by bit.
const TRANSACTION_EVENTS: &[&str] = &[
    "rtl_malformed_format",
    "rtl_malformed_length",
    "rtl_malformed_payload",
    "rtl_malformed_byte_enables",
    "rtl_malformed_traffic_class",
    "rtl_malformed_boundary",
    "rtl_malformed_operand",
    "rtl_receiver_overflows",
    "rtl_poisoned_tlps",
    "rtl_bad_update_fc",
    "rtl_bad_init_fc",
    "rtl_tlps_refused",
    "rtl_updates_sent",
    "rtl_tlps_sent",
    "rtl_tlps_received",
];

/// The module.
pub(super) struct RootBlock {
    layout: Layout,
    pub(super) frames: FrameSide,
    pub(super) cpu: Cpu,
    pub(super) memory: MemoryBus,
    /// Inputs for the host.
    pub(super) inputs: VecDeque<HostInput>,
    /// Settings of the physical layer.
    pub(super) link_up: bool,
    pub(super) recovery: bool,
    pub(super) replay_timer: u32,
    /// Generation, and lanes.
    pub(super) speed: [u32; 2],
    /// REPLAY_NUM has rolled over, and the fabric does not know it yet.
    pub(super) retrain: bool,
    retrain_before: bool,
    /// The states in which the root complex wants to hold its link.
    pub(super) holds: LinkHolds,
    /// Levels of INTA to INTD.
    intx: u32,
    /// Whether the design has the CPU with its software. If so, riser's CPU issues no accesses.
    has_software: bool,
    /// Status with which software of the design has ended.
    pub(super) software_status: Option<u32>,
    /// Whether the beats that riser has offered to the RTL since the last edge are of these kinds.
    offers: [bool; 2],
    /// Events of the root complex, the data link layer and the transaction layer.
    events: [EventCounts; 3],
    pub(super) cycle: u64,
}

impl RootBlock {
    /// A block whose memory answers after `latency` cycles; an access of the CPU may wait for `most_cycles`. With `has_software`, both are in
    /// the design.
    pub(super) fn new(shape: Shape, latency: u64, most_cycles: u64, has_software: bool) -> RootBlock {
        let width = usize::from(shape.data_bits / 8);
        let mut block = RootBlock {
            layout: Layout::of(shape),
            frames: FrameSide::new(width / 4),
            cpu: Cpu::new(most_cycles),
            memory: MemoryBus::new(width, latency),
            inputs: VecDeque::new(),
            link_up: false,
            recovery: false,
            replay_timer: 0,
            speed: [0; 2],
            retrain: false,
            retrain_before: false,
            holds: LinkHolds::default(),
            intx: 0,
            has_software,
            software_status: None,
            offers: [false; 2],
            events: [EVENTS, events::DATA_LINK, TRANSACTION_EVENTS].map(EventCounts::new),
            cycle: 0,
        };
        block.enable();
        block
    }

    pub(super) fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    /// The link is down: frames on either side are lost.
    pub(super) fn take_down(&mut self) {
        (self.link_up, self.recovery, self.retrain, self.retrain_before) = (false, false, false, false);
        self.frames.clear();
    }

    /// The root complex is reset.
    pub(super) fn reset(&mut self) {
        self.cpu.reset();
        self.inputs.append(&mut self.cpu.ends);
        self.memory.reset();
        self.offers = [false; 2];
        self.software_status = None;
        self.enable();
    }

    fn enable(&mut self) {
        if !self.has_software {
            self.cpu.enable();
        }
    }

    /// Whether only clocks keep the design busy. Software of the design may be at work while nothing is in flight.
    pub(super) fn is_ticking(&self) -> bool {
        self.is_idle() && (!self.has_software || self.software_status.is_some())
    }

    /// Whether the fabric has something to take.
    pub(super) fn has_output(&self) -> bool {
        self.retrain || !self.frames.sent.is_empty() || !self.inputs.is_empty()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.frames.is_idle() && self.cpu.is_idle() && self.memory.is_idle() && self.inputs.is_empty()
    }

    /// Counted events.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("rtl_bus_refused", self.cpu.refused),
            ("rtl_bus_failed_writes", self.cpu.failed_writes),
            ("rtl_bus_given_up", self.cpu.dead().is_some().into()),
            ("rtl_memory_errors", self.memory.errors),
        ];
        self.events.iter().flat_map(EventCounts::named).chain(own).filter(|(_, n)| *n > 0).collect()
    }

    /// Handles an edge. `read` has the outputs of the RTL; `driven` gets its inputs until the next edge.
    pub(super) fn edge(&mut self, read: &[u32], driven: &mut [u32], in_reset: bool) {
        let layout = std::mem::take(&mut self.layout);
        let inputs = Inputs { layout: &layout, words: read };
        driven.fill(0);
        let mut outputs = Outputs { layout: &layout, words: driven };
        self.cycle += 1;
        self.drive_link(&mut outputs, in_reset);
        if !in_reset {
            self.take_frame(inputs);
            self.take_memory(inputs);
            self.take_wires(inputs);
            self.take_software(inputs);
            self.drive_cpu(inputs, &mut outputs);
            self.drive_memory(&mut outputs);
        }
        self.inputs.append(&mut self.memory.interrupts);
        self.inputs.append(&mut self.cpu.ends);
        let is_ready = self.frames.ready();
        outputs.set(Driven::PhyTxReady, is_ready.into());
        self.drive_frame(&mut outputs);
        self.layout = layout;
    }

    fn drive_link(&self, outputs: &mut Outputs<'_>, in_reset: bool) {
        outputs.set(Driven::Reset, in_reset.into());
        outputs.set(Driven::LinkUp, (self.link_up && !in_reset).into());
        outputs.set(Driven::Recovery, self.recovery.into());
        outputs.set(Driven::ReplayTimer, self.replay_timer);
        outputs.set(Driven::LinkSpeed, self.speed[0]);
        outputs.set(Driven::LinkWidth, self.speed[1]);
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

    fn drive_cpu(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let response = |valid: Read, response: Read| inputs.is(valid).then(|| inputs.get(response) as u8);
        let seen = Seen {
            aw_ready: inputs.is(Read::CpuAwReady),
            w_ready: inputs.is(Read::CpuWReady),
            b: response(Read::CpuBValid, Read::CpuBResp),
            ar_ready: inputs.is(Read::CpuArReady),
            r: response(Read::CpuRValid, Read::CpuRResp).map(|bits| (inputs.wide(Read::CpuRData), bits)),
        };
        let shown = self.cpu.edge(&seen);
        outputs.set(Driven::CpuBReady, 1);
        outputs.set(Driven::CpuRReady, 1);
        if let Some(burst) = shown.aw {
            outputs.set(Driven::CpuAwValid, 1);
            outputs.set_wide(Driven::CpuAwAddr, &halves(burst.address));
            outputs.set(Driven::CpuAwLen, u32::from(burst.beats) - 1);
            outputs.set(Driven::CpuAwSize, burst.size.into());
        }
        if let Some((data, strobes, is_last)) = shown.w {
            outputs.set(Driven::CpuWValid, 1);
            outputs.set_wide(Driven::CpuWData, &halves(data));
            outputs.set(Driven::CpuWStrb, strobes.into());
            outputs.set(Driven::CpuWLast, is_last.into());
        }
        if let Some(burst) = shown.ar {
            outputs.set(Driven::CpuArValid, 1);
            outputs.set_wide(Driven::CpuArAddr, &halves(burst.address));
            outputs.set(Driven::CpuArLen, u32::from(burst.beats) - 1);
            outputs.set(Driven::CpuArSize, burst.size.into());
        }
    }

    /// Takes bursts of the RTL; riser is ready for them at all times.
    fn take_memory(&mut self, inputs: Inputs<'_>) {
        let burst = |id: Read, address: Read, len: Read| Burst {
            id: inputs.get(id) as u8,
            address: inputs.wide(address),
            beats: inputs.get(len) as u16 + 1,
        };
        if inputs.is(Read::MemAwValid) {
            self.memory.push_write(burst(Read::MemAwId, Read::MemAwAddr, Read::MemAwLen));
        }
        if inputs.is(Read::MemWValid) {
            let lanes = inputs.lanes(Read::MemWData);
            let data = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
            self.memory.push_beat((data, inputs.wide(Read::MemWStrb)));
        }
        if inputs.is(Read::MemArValid) {
            let burst = burst(Read::MemArId, Read::MemArAddr, Read::MemArLen);
            self.memory.push_read(self.cycle, burst);
        }
        let [response, answer] = std::mem::take(&mut self.offers);
        if response && inputs.is(Read::MemBReady) {
            self.memory.pop_response();
        }
        if answer && inputs.is(Read::MemRReady) {
            self.memory.pop_answer();
        }
        self.memory.work(self.cycle);
    }

    fn drive_memory(&mut self, outputs: &mut Outputs<'_>) {
        for ready in [Driven::MemAwReady, Driven::MemWReady, Driven::MemArReady] {
            outputs.set(ready, 1);
        }
        let (response, answer) = (self.memory.response(self.cycle), self.memory.answer());
        self.offers = [response.is_some(), answer.is_some()];
        if let Some((id, response)) = response {
            outputs.set(Driven::MemBValid, 1);
            outputs.set(Driven::MemBId, id.into());
            outputs.set(Driven::MemBResp, response.into());
        }
        if let Some(beat) = answer {
            let lanes: Vec<u32> = beat.data.chunks(4).map(word).collect();
            outputs.set(Driven::MemRValid, 1);
            outputs.set(Driven::MemRId, beat.id.into());
            outputs.set_lanes(Driven::MemRData, &lanes);
            outputs.set(Driven::MemRResp, beat.response.into());
            outputs.set(Driven::MemRLast, beat.is_last.into());
        }
    }

    fn take_wires(&mut self, inputs: Inputs<'_>) {
        let levels = inputs.get(Read::Intx);
        let changed = levels ^ std::mem::replace(&mut self.intx, levels);
        for wire in Wire::ALL.into_iter().filter(|wire| changed >> *wire as u32 & 1 == 1) {
            let asserted = levels >> wire as u32 & 1 == 1;
            let (root_port, requester) = (REQUESTER, REQUESTER);
            let interrupt = HostInterrupt::Wire { root_port, requester, wire, asserted };
            self.inputs.push_back(HostInput::Interrupt(interrupt));
        }
        self.holds = LinkHolds { reset: inputs.is(Read::HotReset), disabled: inputs.is(Read::LinkDisable) };
        let retrain = inputs.is(Read::Retrain);
        self.retrain |= retrain && !self.retrain_before;
        self.retrain_before = retrain;
        let ports = [Read::Events, Read::DllEvents, Read::TlEvents];
        ports.into_iter().zip(&mut self.events).for_each(|(port, events)| events.add(inputs.get(port)));
    }

    fn take_software(&mut self, inputs: Inputs<'_>) {
        if self.has_software && self.software_status.is_none() && inputs.is(Read::SoftwareEnded) {
            self.software_status = Some(inputs.get(Read::SoftwareStatus));
            // Wakes the host, which then sees the status.
            self.inputs.push_back(HostInput::Timer);
        }
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}
