// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requester's streams: RQ, with its tags, sequence numbers and credits, and RC. The front decides what software allows.

use super::functions::FunctionIndex;
use super::pack::{COMPLETION_DW, ErrorCode, REQUEST_DW};
use super::show::{Ports, Show};
use super::tags::{Entry, Tags};
use super::take::{Packet, Take};
use super::unpack::{Came, request};
use super::{Inner, Note, Options, Sent};
use crate::block::BlockKind;
use crate::block::descriptor::{Driven, Read, Stream};
use crate::common::TX_BUFFERS;
use crate::findings::{Rule, TagsOf};
use crate::signals::{Inputs, Outputs};
use crate::transmit::whole;
use device::seam::DmaError;
use endpoint::hard_block::DesignOutput;
use std::collections::{BTreeSet, VecDeque};
use tlp::{Bdf, Body, Class, Span, Status, Tag, Tlp};

/// A request that waits for a tag.
struct Untagged {
    tlp: Tlp,
    slot: FunctionIndex,
    sequence: u8,
}

/// See the [module](self).
pub(super) struct Requester {
    pub(super) rq: Take,
    pub(super) rc: Show,
    tags: Tags,
    tags_of: TagsOf,
    client_tags: bool,
    /// Lanes per alignment unit, in address-aligned mode.
    unit: Option<usize>,
    untagged: VecDeque<Untagged>,
    /// Functions that were reset, until software lets them issue requests again.
    were_reset: BTreeSet<FunctionIndex>,
    /// Tags and sequence numbers to be presented, and how many per cycle.
    new_tags: VecDeque<u8>,
    sequences: VecDeque<u8>,
    ports: usize,
    /// Maximum values of `pcie_rq_tag_av` and `pcie_tfc_*`.
    most_shown: usize,
    is_ready: bool,
}

/// Returns the number of lanes within which data is aligned (PG213: "128-bit address-aligned mode" for 512 bits; otherwise the whole beat).
pub(super) fn unit_of(options: &Options) -> Option<usize> {
    let lanes = usize::from(options.shape.data_bits / 32);
    options.address_aligned.then_some(if lanes == 16 { 4 } else { lanes })
}

impl Requester {
    pub(super) fn new(options: &Options) -> Requester {
        let lanes = usize::from(options.shape.data_bits / 32);
        let [rq, rc, ..] = options.packets;
        let is_plus = options.shape.kind == BlockKind::UltraScalePlus;
        Requester {
            rq: Take::new(Stream::Rq, lanes, rq > 1),
            rc: Show::new(Stream::Rc, lanes, rc),
            tags: Tags::new(options.tags),
            tags_of: options.tags_of,
            client_tags: options.client_tags,
            unit: unit_of(options),
            untagged: VecDeque::new(),
            were_reset: BTreeSet::new(),
            new_tags: VecDeque::new(),
            sequences: VecDeque::new(),
            ports: if is_plus && lanes == 16 { 2 } else { 1 },
            most_shown: if is_plus { 15 } else { 3 },
            is_ready: false,
        }
    }

    pub(super) fn reset(&mut self) {
        self.rq.reset();
        self.rc.reset();
        self.untagged.clear();
        self.were_reset.clear();
        self.new_tags.clear();
        self.sequences.clear();
        self.tags = Tags::new(self.tags.count() as u16);
    }

    /// Ends the requests of a function that was reset: the block completes each of them.
    pub(super) fn function_reset(&mut self, inner: &mut Inner, slot: FunctionIndex) {
        self.were_reset.insert(slot);
        for waiting in self.untagged.iter().filter(|waiting| waiting.slot == slot) {
            let note = Note::Sequence(waiting.sequence);
            inner.leaving.push(Class::NonPosted, inner.common.from(), Sent { output: None, note });
        }
        self.untagged.retain(|waiting| waiting.slot != slot);
        let function = inner.functions.index(slot);
        let forgotten =
            inner.leaving.iter_mut().filter(|sent| function.is_some() && sent.function() == function);
        forgotten.for_each(|sent| sent.output = None);
        let tags: Vec<u16> = self.tags.of(Some(slot)).collect();
        for tag in tags {
            if let Some(entry) = self.tags.rest(tag, inner.common.now) {
                self.end(inner, entry, tag, ErrorCode::FunctionLevelReset);
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let shown = self.new_tags.is_empty() && self.sequences.is_empty();
        self.rq.is_empty() && self.rc.is_empty() && self.untagged.is_empty() && shown
    }

    // ---- the front ----

    /// Queues a completion for the design.
    pub(super) fn completion(&mut self, inner: &mut Inner, tlp: &Tlp) {
        let Body::Completion(completion) = &tlp.repr.body else { return };
        let tag = completion.tag.bits();
        let Some(entry) = self.tags.get(tag) else { return };
        let error = match completion.status {
            Status::Success if tlp.repr.ep => ErrorCode::Poisoned,
            Status::Success => ErrorCode::Normal,
            _ => ErrorCode::BadStatus,
        };
        let is_last = error == ErrorCode::BadStatus || completion.is_last();
        let lower = (entry.next & 0xfff) as u16;
        entry.next += tlp.data.len() as u64;
        let (mut packet, from) = (self.rc.empty(), inner.common.from());
        packet.from = from;
        packet.completion(tlp, entry.requester, lower, error, is_last, &mut inner.bytes);
        if let Some(unit) = self.unit {
            packet.align(unit, usize::from(lower / 4));
        }
        self.rc.push(packet);
        if is_last {
            self.tags.release(tag);
        }
    }

    /// Ends a request that will receive no further completion.
    pub(super) fn lost(&mut self, inner: &mut Inner, _: Bdf, tag: Tag, why: DmaError) {
        let tag = tag.bits();
        let Some(entry) = self.tags.rest(tag, inner.common.now) else { return };
        let error = match why {
            DmaError::CompletionTimeout => ErrorCode::Timeout,
            _ => ErrorCode::BadLength,
        };
        self.end(inner, entry, tag, error);
    }

    fn end(&mut self, inner: &mut Inner, entry: Entry, tag: u16, error: ErrorCode) {
        let mut packet = self.rc.empty();
        packet.from = inner.common.from();
        packet.lost(entry.requester, tag as u8, error);
        self.rc.push(packet);
    }

    /// Software lets a function issue requests.
    pub(super) fn may_request(&mut self, slot: FunctionIndex) {
        self.were_reset.remove(&slot);
    }

    /// Handles a request that was not sent: it does not wait for a completion. If its function was reset in the
    /// meantime, it ends like the other requests of that function.
    pub(super) fn refused(&mut self, inner: &mut Inner, tlp: &Tlp) {
        if tlp.class() != Class::NonPosted {
            return;
        }
        let (_, tag) = tlp.repr.transaction();
        let Some(entry) = self.tags.release(tag.bits()) else { return };
        if self.were_reset.contains(&entry.slot) {
            self.end(inner, entry, tag.bits(), ErrorCode::FunctionLevelReset);
        }
    }

    /// Records that a request was sent.
    pub(super) fn left(&mut self, sequence: u8) {
        self.sequences.push_back(sequence);
    }

    // ---- the design ----

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
        }
        self.assign(inner);
        let waits = |class| inner.leaving.waiting(class);
        let non_posted = waits(Class::NonPosted) + self.untagged.len();
        self.is_ready = runs
            && waits(Class::Posted) < TX_BUFFERS
            && non_posted < TX_BUFFERS
            && (self.client_tags || self.untagged.is_empty());
        outputs.set(Driven::RqReady, if self.is_ready { 0xf } else { 0 });
        let left = (self.most_shown.saturating_sub(non_posted)) as u32;
        outputs.set(Driven::HeadersLeft, left);
        outputs.set(Driven::DataLeft, left);
        self.show_numbers(inner, outputs);
        self.show(inner, inputs, outputs, is_up);
    }

    /// Returns how many tags software allows.
    fn allowed(inner: &Inner) -> usize {
        // Extended Tag Field Enable in Device Control.
        if inner.functions.registers(0).pcie(2) >> 8 & 1 == 1 { 256 } else { 32 }
    }

    fn show_numbers(&mut self, inner: &Inner, outputs: &mut Outputs<'_>) {
        let left = if self.client_tags { 0 } else { self.tags.left(inner.common.now, Self::allowed(inner)) };
        outputs.set(Driven::TagsLeft, left.min(self.most_shown) as u32);
        let tags = [(Driven::Tag0, Driven::Tag0Valid), (Driven::Tag1, Driven::Tag1Valid)];
        let sequences =
            [(Driven::Sequence0, Driven::Sequence0Valid), (Driven::Sequence1, Driven::Sequence1Valid)];
        for (queue, ports) in [(&mut self.new_tags, tags), (&mut self.sequences, sequences)] {
            for (number, valid) in ports.into_iter().take(self.ports) {
                let next = queue.pop_front();
                outputs.set(valid, next.is_some().into());
                outputs.set(number, next.unwrap_or(0).into());
            }
        }
    }

    fn show(&mut self, inner: &Inner, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, is_up: bool) {
        let non_posted = &mut u32::MAX.clone();
        let ports = Ports {
            valid: Driven::RcValid,
            data: Driven::RcData,
            keep: Driven::RcKeep,
            last: Driven::RcLast,
            user: Driven::RcUser,
        };
        let is_taken = inputs.is(Read::RcReady);
        self.rc.drive(is_up.then_some(inner.common.cycle), is_taken, non_posted, outputs, ports);
    }

    fn take(&mut self, inner: &mut Inner, inputs: Inputs<'_>) {
        if !self.rq.is_kept(inputs, self.is_ready) {
            inner.common.found(&Rule::PresentedBeat(self.rq.name()), &[]);
        }
        if !self.is_ready {
            return;
        }
        if let Err((rule, words)) = self.rq.take(inputs) {
            inner.found(&rule, &words);
        }
        while let Some(packet) = self.rq.next() {
            if !packet.is_discontinued
                && let Err(rule) = self.request(inner, &packet)
            {
                inner.found(&rule, &packet.words);
            }
            self.rq.give_back(packet);
        }
    }

    /// Handles a complete packet.
    fn request(&mut self, inner: &mut Inner, packet: &Packet) -> Result<(), Rule> {
        let gap = self.unit.map_or(0, |unit| {
            REQUEST_DW.next_multiple_of(unit) - REQUEST_DW + usize::from(packet.offset) % unit
        });
        inner.bytes.clear();
        let came = Came { words: &packet.words, enables: packet.enables, gap };
        let asked = request(came, &mut inner.bytes)?;
        let slot = inner
            .functions
            .slot_of_number(asked.function)
            .ok_or(Rule::Function("s_axis_rq", asked.function))?;
        let (tlp, _) = whole(&inner.bytes, false, &inner.pool)?;
        match tlp.class() {
            Class::NonPosted if self.client_tags => {
                self.claim(inner, &tlp, slot, asked.tag)?;
                self.send(inner, slot, tlp, packet.sequence);
            }
            Class::NonPosted => {
                self.untagged.push_back(Untagged { tlp, slot, sequence: packet.sequence });
            }
            _ => self.send(inner, slot, tlp, packet.sequence),
        }
        Ok(())
    }

    fn claim(&mut self, inner: &Inner, tlp: &Tlp, slot: FunctionIndex, tag: u8) -> Result<(), Rule> {
        let requester = inner.functions.registers(slot).id;
        let entry = Entry { slot, requester, next: first_byte(tlp), since: inner.common.now };
        let tags = self.tags.count();
        match () {
            () if usize::from(tag) >= tags => {
                Err(Rule::TagRange { tag, last: tags as u16 - 1, of: self.tags_of })
            }
            () if !self.tags.claim(tag, entry) => Err(Rule::TagInUse(tag)),
            () => Ok(()),
        }
    }

    fn send(&mut self, inner: &mut Inner, slot: FunctionIndex, tlp: Tlp, sequence: u8) {
        let Some(function) = inner.functions.index(slot) else { return };
        let (class, from) = (tlp.class(), inner.common.from());
        let output = Some(DesignOutput::Tlp { function, tlp });
        inner.leaving.push(class, from, Sent { output, note: Note::Sequence(sequence) });
    }

    /// Assigns free tags to requests that wait for one.
    fn assign(&mut self, inner: &mut Inner) {
        while !self.untagged.is_empty() {
            let Some(tag) = self.tags.free(inner.common.now, Self::allowed(inner)) else { return };
            let Some(Untagged { mut tlp, slot, sequence }) = self.untagged.pop_front() else { return };
            let (requester, _) = tlp.repr.transaction();
            tlp.repr.set_transaction(requester, Tag::from_bits(tag.into()));
            if self.claim(inner, &tlp, slot, tag).is_ok() {
                self.tags.used(tag);
                self.new_tags.push_back(tag);
                self.send(inner, slot, tlp, sequence);
            }
        }
    }
}

/// Returns the address of the first byte that a request reads; zero if its completions have no address.
fn first_byte(tlp: &Tlp) -> u64 {
    match &tlp.repr.body {
        Body::Memory(request) => Span::first_byte(request.span),
        _ => 0,
    }
}

const _: () = assert!(COMPLETION_DW < REQUEST_DW);
