// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The completer's streams: CQ, with its count of non-posted requests, and CC. The front decodes addresses.

use super::pack::{COMPLETION_DW, RequestTarget};
use super::requester::unit_of;
use super::show::{Ports, Show};
use super::take::{Packet, Take};
use super::unpack::{Came, completion};
use super::{Inner, Note, Options, Sent};
use crate::block::descriptor::{Driven, Read, Stream};
use crate::common::TX_BUFFERS;
use crate::findings::Rule;
use crate::signals::{Inputs, Outputs};
use crate::transmit::whole;
use endpoint::hard_block::{DesignOutput, DesignRequest, Target};
use tlp::{Body, Class};

/// Maximum value of `pcie_cq_np_req_count`.
const MOST_NON_POSTED: u32 = 32;

/// See the [module](self).
pub(super) struct Completer {
    pub(super) cq: Show,
    pub(super) cc: Take,
    /// Lanes per alignment unit, in address-aligned mode.
    unit: Option<usize>,
    /// Number of non-posted requests that the design can still receive.
    non_posted: u32,
    is_ready: bool,
}

impl Completer {
    pub(super) fn new(options: &Options) -> Completer {
        let lanes = usize::from(options.shape.data_bits / 32);
        let [.., cq, cc] = options.packets;
        Completer {
            cq: Show::new(Stream::Cq, lanes, cq),
            cc: Take::new(Stream::Cc, lanes, cc > 1),
            unit: unit_of(options),
            non_posted: 0,
            is_ready: false,
        }
    }

    pub(super) fn reset(&mut self) {
        self.cq.reset();
        self.cc.reset();
        self.non_posted = 0;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.cq.is_empty() && self.cc.is_empty()
    }

    /// Queues a request to the design.
    pub(super) fn request(&mut self, inner: &mut Inner, request: &DesignRequest) {
        let mut packet = self.cq.empty();
        packet.token = Some(request.token);
        let (Some(slot), Target::Bar { bar, .. }) =
            (inner.functions.slot_of_index(request.function), request.target)
        else {
            return self.cq.give_up(packet);
        };
        let aperture = inner.functions.aperture(slot, bar.0);
        let place = RequestTarget { function: inner.functions.number(slot), bar: bar.0, aperture };
        packet.from = inner.common.from();
        if !packet.request(&request.tlp, place, &mut inner.bytes) {
            return self.cq.give_up(packet);
        }
        if let Some(unit) = self.unit {
            let first = packet.words[0] as usize / 4;
            packet.align(unit, first);
        }
        self.cq.push(packet);
    }

    pub(super) fn edge(
        &mut self,
        inner: &mut Inner,
        inputs: Inputs<'_>,
        outputs: &mut Outputs<'_>,
        runs: bool,
        is_up: bool,
    ) {
        if runs {
            self.take(inner, inputs);
            // On UltraScale+ the upper bit requests two.
            let asked = inputs.get(Read::NonPostedRequest).min(2);
            self.non_posted = (self.non_posted + asked).min(MOST_NON_POSTED);
        }
        self.is_ready = runs && inner.leaving.waiting(Class::Completion) < TX_BUFFERS;
        outputs.set(Driven::CcReady, if self.is_ready { 0xf } else { 0 });
        self.show(inner, inputs, outputs, is_up);
        outputs.set(Driven::NonPostedCount, self.non_posted);
    }

    fn show(&mut self, inner: &Inner, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, is_up: bool) {
        let non_posted = &mut self.non_posted;
        let ports = Ports {
            valid: Driven::CqValid,
            data: Driven::CqData,
            keep: Driven::CqKeep,
            last: Driven::CqLast,
            user: Driven::CqUser,
        };
        let is_taken = inputs.is(Read::CqReady);
        self.cq.drive(is_up.then_some(inner.common.cycle), is_taken, non_posted, outputs, ports);
    }

    fn take(&mut self, inner: &mut Inner, inputs: Inputs<'_>) {
        if !self.cc.is_kept(inputs, self.is_ready) {
            inner.common.found(&Rule::PresentedBeat(self.cc.name()), &[]);
        }
        if !self.is_ready {
            return;
        }
        if let Err((rule, words)) = self.cc.take(inputs) {
            inner.found(&rule, &words);
        }
        while let Some(packet) = self.cc.next() {
            if !packet.is_discontinued
                && let Err(rule) = self.completion(inner, &packet)
            {
                inner.found(&rule, &packet.words);
            }
            self.cc.give_back(packet);
        }
    }

    /// Handles a complete packet.
    fn completion(&mut self, inner: &mut Inner, packet: &Packet) -> Result<(), Rule> {
        let gap = self.unit.map_or(0, |unit| {
            let lower = packet.words.first().map_or(0, |word| *word as usize & 0x7f);
            COMPLETION_DW.next_multiple_of(unit) - COMPLETION_DW + lower / 4 % unit
        });
        inner.bytes.clear();
        let came = Came { words: &packet.words, enables: [0; 2], gap };
        let number = completion(came, &mut inner.bytes)?;
        let slot = inner.functions.slot_of_number(number).ok_or(Rule::Function("s_axis_cc", number))?;
        let (tlp, _) = whole(&inner.bytes, false, &inner.pool)?;
        debug_assert!(matches!(tlp.repr.body, Body::Completion(_)), "built from a CC descriptor");
        let Some(function) = inner.functions.index(slot) else { return Ok(()) };
        let output = Some(DesignOutput::Tlp { function, tlp });
        // Unordered with RQ: a design that needs an order waits for the sequence number.
        inner.leaving.push_free(Class::Completion, inner.common.from(), Sent { output, note: Note::Nothing });
        Ok(())
    }
}
