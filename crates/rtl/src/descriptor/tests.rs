// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what a block without a design shows at its ports for inputs of the front. Error codes and numbers are those of PG213.

use super::*;
use crate::block::descriptor::{Driven, Read};
use config::{Builder, Identity, PcieLayout};
use device::seam::DmaError;
use tlp::{Tag, Time, Tlp};

const REQUESTER: Bdf = Bdf::from_bits(0x0100);

struct Bench {
    block: Descriptors,
    layout: Layout,
    read: Vec<u32>,
    driven: Vec<u32>,
}

impl Bench {
    fn new(client_tags: bool) -> Bench {
        let shape = Shape { kind: BlockKind::UltraScalePlus, data_bits: 128, lanes: 8, links: 1 };
        let options = Options {
            shape,
            latency: 0,
            client_tags,
            address_aligned: false,
            packets: [1; 4],
            virtual_functions: vec![0],
            msix_inside: false,
            tags: 256,
            tags_of: TagsOf::Block,
        };
        let mut block = Descriptors::new(&options, PayloadPool::new(), Shared::default());
        let space = Builder::type0(Identity::default()).pcie(PcieLayout::default()).usual().build().unwrap();
        block.configured(0, REQUESTER, &space);
        let layout = Layout::of(shape);
        let (read, driven) = (vec![0; layout.words[0]], vec![0; layout.words[1]]);
        let mut bench = Bench { block, layout, read, driven };
        for port in [Read::ResetN, Read::RcReady, Read::CqReady, Read::NonPostedRequest] {
            bench.set(port, 1);
        }
        bench.edges(130);
        assert_eq!((bench.get(Driven::LinkUp), bench.get(Driven::RqReady)), (1, 0xf));
        bench
    }

    fn set(&mut self, port: Read, value: u32) {
        let layout = self.layout.swapped();
        Outputs { layout: &layout, words: &mut self.read }.set(port, value);
    }

    fn get(&self, port: Driven) -> u32 {
        Inputs { layout: &self.layout.swapped(), words: &self.driven }.get(port)
    }

    fn edges(&mut self, count: u32) {
        for _ in 0..count {
            self.block.edge(&self.read, &mut self.driven);
        }
    }

    /// Sends a read of 16 double-words at 1000h.
    fn sends_read(&mut self, tag: u32) {
        let layout = self.layout.swapped();
        let mut at = Outputs { layout: &layout, words: &mut self.read };
        at.set_lanes(Read::RqData, &[0x1000, 0, 16, tag]);
        for (port, value) in
            [(Read::RqKeep, 0xf), (Read::RqLast, 1), (Read::RqValid, 1), (Read::RqUser, 0xff)]
        {
            at.set(port, value);
        }
        self.edges(1);
        self.set(Read::RqValid, 0);
        self.edges(1);
    }

    /// Returns the tag of the next request that is sent.
    fn leaves(&mut self) -> Option<u16> {
        match self.block.next_output(Class::NonPosted)? {
            DesignOutput::Tlp { tlp, .. } => Some(tlp.repr.transaction().1.bits()),
            _ => None,
        }
    }

    /// Returns the shown RC descriptor: error code, whether the request is completed, tag.
    fn completion(&mut self) -> Option<(u32, bool, u32)> {
        self.edges(1);
        let layout = self.layout.swapped();
        let words = Inputs { layout: &layout, words: &self.driven };
        let [first, _, third, _] = *words.lanes(Driven::RcData) else { return None };
        words.is(Driven::RcValid).then_some((first >> 12 & 0xf, first >> 30 & 1 == 1, third & 0xff))
    }
}

/// The front knows the read by the Requester ID of the descriptor, which is zero. RC has the Requester ID of the function.
#[test]
fn completion_has_the_requester_id_of_its_function() {
    let mut bench = Bench::new(true);
    bench.sends_read(5);
    assert_eq!(bench.leaves(), Some(5));
    let header = [0x4a, 0, 0, 16, 0, 0, 0, 64, 0, 0, 5, 0];
    let tlp = Tlp::parse(&[&header[..], &[0; 64]].concat(), &PayloadPool::new()).unwrap();
    bench.block.handle(DesignInput::Completion { function: 0, tlp });
    bench.edges(1);
    let layout = bench.layout.swapped();
    let [_, second, ..] = *Inputs { layout: &layout, words: &bench.driven }.lanes(Driven::RcData) else {
        panic!()
    };
    assert_eq!(second >> 16, u32::from(REQUESTER.bits()));
}

#[test]
fn completion_timeout_ends_a_request_with_its_error_code() {
    let mut bench = Bench::new(true);
    bench.sends_read(5);
    assert_eq!(bench.leaves(), Some(5));
    let lost = |why| DesignInput::Lost { function: 0, requester: REQUESTER, tag: Tag::from_bits(5), why };
    bench.block.handle(lost(DmaError::CompletionTimeout));
    assert_eq!(bench.completion(), Some((0b1001, true, 5)));
    assert_eq!(bench.completion(), None, "only one completion");
    bench.block.handle(lost(DmaError::Malformed));
    assert_eq!(bench.completion(), None, "nothing waits");
}

/// Every MSI-X request is answered, not only the first: here each request fails, because MSI-X is not enabled.
#[test]
fn every_msix_request_is_answered() {
    let mut bench = Bench::new(true);
    for _ in 0..3 {
        bench.set(Read::Msix, 1);
        bench.edges(1);
        bench.set(Read::Msix, 0);
        let answers: Vec<u32> = (0..3)
            .map(|_| {
                let answer = bench.get(Driven::InterruptFailed);
                bench.edges(1);
                answer
            })
            .collect();
        assert_eq!(answers, [1, 0, 0]);
    }
}

#[test]
fn function_level_reset_ends_requests_and_lasts_until_the_design_is_done() {
    let mut bench = Bench::new(true);
    for tag in [7, 9] {
        bench.sends_read(tag);
    }
    bench.block.handle(DesignInput::Reset { function: 0, kind: ResetKind::FunctionLevel });
    assert_eq!(bench.leaves(), None, "the requests were dropped");
    assert_eq!(bench.completion(), Some((0b1000, true, 7)));
    assert_eq!(bench.completion(), Some((0b1000, true, 9)));
    bench.edges(10);
    assert_eq!(bench.get(Driven::FlrInProcess), 1);
    bench.set(Read::FlrDone, 1);
    bench.edges(1);
    assert_eq!(bench.get(Driven::FlrInProcess), 0);
}

#[test]
fn tags_of_the_block_rotate_and_rest_after_a_timeout() {
    let mut bench = Bench::new(false);
    let left = bench.get(Driven::TagsLeft);
    let mut shown = Vec::new();
    for _ in 0..3 {
        bench.sends_read(0xaa);
        shown.extend(bench.leaves());
    }
    assert_eq!((left, shown), (15, vec![0, 1, 2]));
    bench.block.set_now(Time::from_ps(1000));
    let (function, requester, why) = (0, REQUESTER, DmaError::CompletionTimeout);
    bench.block.handle(DesignInput::Lost { function, requester, tag: Tag::from_bits(0), why });
    // All tags except the tags in use and the tag that rests.
    let mut next = Vec::new();
    for _ in 0..253 {
        bench.sends_read(0xaa);
        next.extend(bench.leaves());
    }
    assert_eq!((next.len(), next[0], next.contains(&0)), (253, 3, false));
    bench.sends_read(0xaa);
    assert_eq!((bench.leaves(), bench.get(Driven::RqReady), bench.get(Driven::TagsLeft)), (None, 0, 0));
    bench.block.set_now(Time::from_ps(2000));
    bench.edges(2);
    assert_eq!((bench.leaves(), bench.get(Driven::RqReady)), (Some(0), 0xf));
}

/// Address-aligned data begins in the beat after the descriptor, in the lane of its address; with 512 bits, in the next quarter (PG213,
/// "Data Alignment Options").
#[test]
fn aligned_data_is_in_the_lane_of_its_address() {
    for (unit, offset, first) in [(2, 1, 5), (4, 3, 7), (8, 1, 9), (4, 0, 4)] {
        let mut packet =
            pack::Packet { words: vec![1, 2, 3, 4, 50, 60], lead: 4, enables: [1, 3], ..Default::default() };
        packet.align(unit, offset);
        assert_eq!((packet.words[first..].to_vec(), packet.lead), (vec![50, 60], first));
        assert_eq!([first - 1, first, first + 1].map(|word| packet.enables_of(word)), [0, 1, 3]);
    }
}
