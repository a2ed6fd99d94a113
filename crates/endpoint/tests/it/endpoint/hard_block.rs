// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design of raw TLPs with its front: the TLPs that reach the design, the design's TLPs that are sent, and the
//! answers of the front itself.

use crate::endpoint::harness::*;
use config::{Builder, ConfigSpace, Identity, PcieLayout};
use device::*;
use link::Notice;
use riser_endpoint::hard_block::{
    DesignInput, DesignOutput, DesignRequest, HardBlock, RefusedTlp, Target, TlpDesign,
};
use riser_endpoint::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::*;

#[derive(Default)]
struct Moves {
    inputs: Vec<DesignInput>,
    outputs: [VecDeque<DesignOutput>; 3],
    taken: VecDeque<Token>,
    timeout: Option<Time>,
    sends_wrong: bool,
}

/// A design that a test controls completely, but that accepts requests by itself.
#[derive(Clone, Default)]
struct Scripted(Rc<RefCell<Moves>>);

impl TlpDesign for Scripted {
    fn handle(&mut self, _now: Time, input: DesignInput) {
        let moves = &mut *self.0.borrow_mut();
        if let DesignInput::Request(request) = &input {
            moves.taken.push_back(request.token);
        }
        moves.inputs.push(input);
    }

    fn poll_output(&mut self, _now: Time, class: Class) -> Option<DesignOutput> {
        self.0.borrow_mut().outputs[class.index()].pop_front()
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.0.borrow_mut().taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.borrow().timeout
    }

    fn sends_wrong(&self, _: &RefusedTlp) -> bool {
        self.0.borrow().sends_wrong
    }

    fn messages(&self, function: u16) -> message::MessageCodes {
        if function == 1 { message::MessageCodes::of(&[0x7e]) } else { message::MessageCodes::NONE }
    }
}

struct Block {
    port: HardBlock<Scripted>,
    design: Scripted,
}

impl Block {
    /// Two functions as in [`Bench::with_functions`], with 32 tags, because extended tags are not enabled.
    fn new() -> Block {
        Block::of(vec![space(), space()], EndpointLimits::default())
    }

    fn of(spaces: Vec<ConfigSpace>, limits: EndpointLimits) -> Block {
        let design = Scripted::default();
        let count = spaces.len() as u16;
        let mut port = HardBlock::new("block", spaces, limits, PayloadPool::new(), design.clone()).unwrap();
        for f in 0..count {
            let bar = BAR0 + u64::from(f) * 0x1_0000;
            let id = Bdf::from_bits(EP.bits() + f);
            for (dw, value) in [
                (4, bar as u32),
                (5, (bar >> 32) as u32),
                (6, BAR2 as u32 + u32::from(f) * 0x1000),
                (COMMAND, 0x6),
                (DEVICE_CONTROL, 0x2830),
            ] {
                port.write_config(Time::ZERO, id, dw, 0xf, value);
            }
        }
        design.0.borrow_mut().inputs.clear();
        Block { port, design }
    }

    fn push(&self, output: DesignOutput) {
        let class = match &output {
            DesignOutput::Tlp { tlp, .. } | DesignOutput::Relayed { tlp, .. } => tlp.class(),
            _ => Class::Posted,
        };
        self.design.0.borrow_mut().outputs[class.index()].push_back(output);
    }

    fn sends(&self, function: u16, tlp: Tlp) {
        self.push(DesignOutput::Tlp { function, tlp });
    }

    fn poll(&mut self, class: Class) -> Option<Tlp> {
        assert!(self.port.ready().contains(Ready::output(class)));
        self.port.poll_tlp(Time::ZERO, class, TcSet::ALL)
    }

    fn handle(&mut self, tlp: Tlp) {
        self.port.handle_tlp(Time::ZERO, &tlp);
    }

    fn inputs(&self) -> Vec<DesignInput> {
        std::mem::take(&mut self.design.0.borrow_mut().inputs)
    }

    fn requests(&self) -> Vec<DesignRequest> {
        let request = |i| if let DesignInput::Request(r) = i { Some(r) } else { None };
        self.inputs().into_iter().filter_map(request).collect()
    }

    /// Why the design's TLPs were not sent.
    fn refused(&mut self, class: Class) -> Vec<RefusedTlp> {
        assert!(self.poll(class).is_none());
        let refused = |i| if let DesignInput::Refused { why, .. } = i { Some(why) } else { None };
        self.inputs().into_iter().filter_map(refused).collect()
    }
}

/// A read of host memory with the design's choice of tag and Requester ID.
fn dma(requester: u16, tag: u16, address: u64, len: u32) -> Tlp {
    let mut tlp = mrd(tag, address, len);
    tlp.repr.set_transaction(Bdf::from_bits(requester), Tag::from_bits(tag));
    tlp
}

/// Completions of a read that the design has received, with its own bytes, split at `piece` bytes.
fn answers(request: &DesignRequest, piece: u32) -> Vec<Tlp> {
    let asked = CompletedRequest::of(&request.tlp.repr).unwrap();
    let bytes: Vec<u8> = (0..asked.bytes.byte_count).map(|n| byte_at(u64::from(n))).collect();
    let cut = |(n, part): (usize, &[u8])| {
        let repr = asked.with_data(Bdf::default(), n as u32 * piece, part.len() as u32);
        Tlp::new(repr, Data::Carried(PayloadPool::new().copy(part)))
    };
    bytes.chunks(piece as usize).enumerate().map(cut).collect()
}

#[test]
fn design_receives_and_answers_bar_requests_as_tlps() {
    let mut block = Block::new();
    block.handle(mwr(BAR0 + 0x1_0040, &[1, 2, 3, 4]));
    block.handle(mrd(7, BAR0 + 0x100, 256));
    let [write, read] = &block.requests()[..] else { panic!("two requests") };
    let at = |bar, offset| Target::Bar { bar: BarIndex(bar), offset };
    assert_eq!((write.function, write.target), (1, at(0, 0x40)));
    assert_eq!(write.tlp.data.bytes(), Some(&[1, 2, 3, 4][..]));
    assert_eq!((read.function, read.target), (0, at(0, 0x100)));
    // Their credits return when the design accepts them.
    assert_eq!(std::iter::from_fn(|| block.port.poll_credits()).count(), 2);

    let sent = answers(read, 128);
    for tlp in &sent {
        block.sends(0, tlp.clone());
        let left = block.poll(Class::Completion).unwrap();
        let (ours, theirs) = (completion(&left), completion(tlp));
        assert_eq!(ours, Completion { completer: EP, ..theirs }, "the Completer ID is put right");
        assert_eq!(left.data, tlp.data);
    }
    // The request was answered, so any further completion has no request.
    block.sends(0, sent[0].clone());
    // Requester 00:00.0, tag 7.
    let why = RefusedTlp::NoRequest(Violation::new(RuleId::UnexpectedCompletion, 7));
    assert_eq!(block.refused(Class::Completion), [why]);
}

#[test]
fn requests_the_front_handles_never_reach_the_design() {
    let mut block = Block::new();
    // A register, an unclaimed address, the MSI-X table, a message that function 0 does not take, a function that does not exist.
    block.handle(cfg(Access::Read, EP, 0, 0xf, &[]));
    block.handle(mrd(1, 0x5000, 4));
    block.handle(mrd(2, BAR2, 4));
    block.handle(cfg(Access::Read, Bdf::from_bits(EP.bits() + 5), 0, 0xf, &[]));
    let left: Vec<Completion> =
        std::iter::from_fn(|| block.poll(Class::Completion)).map(|t| completion(&t)).collect();
    let statuses: Vec<Status> = left.iter().map(|c| c.status).collect();
    let (good, bad) = (Status::Success, Status::UnsupportedRequest);
    assert_eq!(statuses, [good, bad, good, bad]);
    assert!(block.requests().is_empty());

    // Function 1 takes this one.
    let (routing, requester) = (MessageRouting::Local, HOST);
    let (tag, header) = (Tag::default(), [0; 8]);
    let message = |code| Message { routing, requester, tag, code, header, length_dw: None };
    let message = |code| Tlp::new(Repr::new(Body::Message(message(code))), Data::NONE);
    block.handle(message(0x7e));
    let [request] = &block.requests()[..] else { panic!("one message") };
    assert_eq!((request.function, request.target), (1, Target::Function));
}

#[test]
fn design_reads_with_its_own_tags() {
    let mut block = Block::new();
    // Tag 21 of either function; the design may put anything in the Requester ID.
    for (function, requester) in [(0, 0x1234), (1, 0)] {
        block.sends(function, dma(requester, 21, 0x7_0040, 256));
        let read = block.poll(Class::NonPosted).unwrap();
        assert_eq!(read.repr.transaction(), (Bdf::from_bits(EP.bits() + function), Tag::from_bits(21)));
        for answer in answer(&read) {
            block.handle(answer);
        }
        let back: Vec<Tlp> = block
            .inputs()
            .into_iter()
            .filter_map(|i| if let DesignInput::Completion { tlp, .. } = i { Some(tlp) } else { None })
            .collect();
        assert!(back.iter().all(|t| t.repr.transaction() == (Bdf::from_bits(requester), Tag::from_bits(21))));
        let bytes: Vec<u8> = back.iter().flat_map(|t| t.data.bytes().unwrap().to_vec()).collect();
        assert_eq!(bytes, (0x7_0040..0x7_0140).map(byte_at).collect::<Vec<u8>>());
        assert!(completion(back.last().unwrap()).is_last());
    }
    assert_eq!(block.port.counters().completions, 2);
    // The tag is free again, and in use while the read is outstanding.
    block.sends(0, dma(0, 21, 0x1000, 4));
    assert!(block.poll(Class::NonPosted).is_some());
    block.sends(0, dma(0, 21, 0x1000, 4));
    assert_eq!(block.refused(Class::NonPosted), [RefusedTlp::Tag(21)]);
}

/// Requesters downstream of the design use the same tags. Each gets its own completions, and a request without a free
/// tag waits.
#[test]
fn requesters_downstream_of_a_design_borrow_tags() {
    let mut block = Block::new();
    for n in 0..33u16 {
        block.push(DesignOutput::Relayed { function: 0, tlp: dma(0x4000 + n, 5, 0x1000 * u64::from(n), 8) });
    }
    let mut sent: Vec<Tlp> = std::iter::from_fn(|| block.poll(Class::NonPosted)).collect();
    let mut tags: Vec<u16> = sent.iter().map(|t| t.repr.transaction().1.bits()).collect();
    assert!(sent.iter().all(|t| t.repr.transaction().0 == EP));
    tags.sort_unstable();
    assert_eq!(tags, (0..32).collect::<Vec<u16>>(), "all that are enabled");
    block.handle(answer(&sent[30])[0].clone());
    sent.extend(block.poll(Class::NonPosted));
    assert_eq!(sent.len(), 33, "its tag went to the one that waited");
    for read in sent.iter().enumerate().filter(|(n, _)| *n != 30).map(|(_, read)| read) {
        block.handle(answer(read)[0].clone());
    }
    let mut heard: Vec<(u16, u64)> = block
        .inputs()
        .into_iter()
        .filter_map(|i| if let DesignInput::Completion { tlp, .. } = i { Some(tlp) } else { None })
        .map(|t| {
            assert_eq!(t.repr.transaction().1.bits(), 5);
            (t.repr.transaction().0.bits(), u64::from(t.data.bytes().unwrap()[0]))
        })
        .collect();
    heard.sort_unstable();
    let expected = (0..33u16).map(|n| (0x4000 + n, u64::from(byte_at(0x1000 * u64::from(n)))));
    assert_eq!(heard, expected.collect::<Vec<_>>());
}

/// If functions share their tags, a tag of another function is not free, neither for the design's own request nor for a
/// relayed one. The tag is free again after its last completion, or after its quarantine.
#[test]
fn functions_of_one_pool_never_share_a_tag() {
    let limits = EndpointLimits {
        max_outstanding_reads: 4,
        tags_per: TagsPer::Endpoint,
        completion_timeout: Duration::from_us(60),
        ..EndpointLimits::default()
    };
    let mut block = Block::of(vec![space(), space()], limits);
    block.sends(0, dma(0, 2, 0x1000, 4));
    let first = block.poll(Class::NonPosted).unwrap();
    for (tag, why) in [(2, RefusedTlp::Tag(2)), (4, RefusedTlp::TagRange { tag: 4, first: 0, last: 3 })] {
        block.sends(1, dma(0, tag, 0x1000, 4));
        assert_eq!(block.refused(Class::NonPosted), [why]);
    }
    let mut stray = answer(&first).remove(0);
    if let Body::Completion(c) = &mut stray.repr.body {
        c.requester = Bdf::from_bits(EP.bits() + 1);
    }
    block.handle(stray);
    assert_eq!((block.port.counters().unexpected_completions, block.inputs().len()), (1, 0));
    block.handle(answer(&first).remove(0));
    block.sends(1, dma(0, 2, 0x1000, 4));
    let second = block.poll(Class::NonPosted).unwrap();
    assert_eq!(second.repr.transaction(), (Bdf::from_bits(EP.bits() + 1), Tag::from_bits(2)));

    for n in 0..5 {
        block.push(DesignOutput::Relayed { function: n % 2, tlp: dma(0x4000 + n, 5, 0x1000, 8) });
    }
    let sent: Vec<Tlp> = std::iter::from_fn(|| block.poll(Class::NonPosted)).collect();
    let tags = |sent: &[Tlp]| sent.iter().map(|t| t.repr.transaction().1.bits()).collect::<Vec<_>>();
    assert_eq!(tags(&sent), [3, 0, 1], "after the last, wrapping around the one in use");
    block.handle(answer(&second).remove(0));
    assert_eq!(tags(&[block.poll(Class::NonPosted).unwrap()]), [2], "to the one that waited");
    assert!(block.poll(Class::NonPosted).is_none());
    block.port.handle_timeout(us(60));
    assert!(block.poll(Class::NonPosted).is_none(), "they rest");
    block.handle(answer(&sent[1]).remove(0));
    assert_eq!(tags(&[block.poll(Class::NonPosted).unwrap()]), [0], "a late completion was its last");
    block.port.handle_timeout(us(120));
    block.sends(0, dma(0, 3, 0x1000, 4));
    assert!(block.poll(Class::NonPosted).is_some(), "the rest of the others is over");
}

/// The block does not send a TLP that the specification or software forbids. The design gets the reason.
#[test]
fn refused_tlps_are_returned_to_the_design() {
    let mut block = Block::new();
    let mut long = mwr(0x1000, &[0; 512]);
    long.repr.ep = true;
    // MPS 256, MRRS 512; tags 0 to 31.
    let kind = |fmt_type| RefusedTlp::Kind(Violation::new(RuleId::EndpointRequest, fmt_type));
    let rows: [(u16, Tlp, RefusedTlp); 7] = [
        (0, dma(0, 1, 0x1000, 1024), RefusedTlp::TooLong { bytes: 1024, mrrs: 512 }),
        (0, dma(0, 32, 0x1000, 4), RefusedTlp::TagRange { tag: 32, first: 0, last: 31 }),
        (2, dma(0, 1, 0x1000, 4), RefusedTlp::NoFunction(2)),
        (0, cfg(Access::Read, EP, 0, 0xf, &[]), kind(0x04)),
        (0, memory(MemoryOp::ReadLocked, 1, 0x1000, 4, Data::NONE), kind(0x01)),
        (0, memory(MemoryOp::WriteDeferrable, 1, 0x1000, 4, Data::Counted(4)), kind(0x5b)),
        (
            0,
            long,
            RefusedTlp::Malformed(rules::check_received(&mwr(0x1000, &[0; 512]), &limits()).unwrap_err()),
        ),
    ];
    let bad = rows.len() as u64;
    let broken: Vec<_> = rows
        .iter()
        .filter_map(|(function, tlp, why)| Some((why.violation()?.rule, *function, tlp.to_string())))
        .collect();
    for (function, tlp, why) in rows {
        let class = tlp.class();
        block.sends(function, tlp);
        assert_eq!(block.refused(class), [why]);
    }
    assert_eq!(block.port.counters().bad_outputs, bad);
    let refusals = block.port.refusals();
    for (rule, function, tlp) in &broken {
        let kept = refusals.iter().find(|refusal| refusal.violation.rule == *rule).unwrap();
        let first = broken.iter().find(|(of, ..)| of == rule).unwrap();
        assert_eq!((kept.place, &kept.tlp.to_string()), (Some(*function), &first.2), "{tlp}");
    }
    let counts: Vec<_> = refusals.iter().map(|refusal| refusal.count).collect();
    assert_eq!(counts, [1, 1, 3, 1]);

    // Bus Master Enable cleared (`PCIe 5.0 §7.5.1.1.3`): no requests, but messages and completions.
    block.handle(mrd(3, BAR0, 4));
    let [request] = &block.requests()[..] else { panic!("one request") };
    let answer = answers(request, 4).remove(0);
    block.port.write_config(Time::ZERO, EP, COMMAND, 0xf, 0x2);
    for tlp in [mwr(0x1000, &[0; 4]), dma(0, 1, 0x1000, 4)] {
        let class = tlp.class();
        block.sends(0, tlp);
        assert_eq!(block.refused(class), [RefusedTlp::Gated(DmaError::BusMasterDisabled)]);
    }
    block.sends(0, answer);
    assert!(block.poll(Class::Completion).is_some());
    block.sends(1, mwr(0x1000, &[0; 4]));
    assert!(block.poll(Class::Posted).is_some(), "the other function may");
    assert_eq!(block.port.counters().blocked_by_bus_master, 2);
}

fn limits() -> Limits {
    let mps = Mps::new(256).unwrap();
    Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes: 4 }
}

#[test]
fn mismatched_completions_are_returned_to_the_design() {
    let mut block = Block::new();
    block.handle(mrd(3, BAR0 + 4, 256));
    let [request] = &block.requests()[..] else { panic!("one request") };
    let good = answers(request, 128);
    type Wrong = fn(&mut Completion);
    let rows: [(Wrong, Violation); 4] = [
        (|c| c.byte_count = 255, Violation::expecting(RuleId::ByteCount, 255, 256)),
        (|c| c.lower_address = 8, Violation::expecting(RuleId::LowerAddress, 8, 4)),
        (|c| c.length_dw = Some(31), Violation::expecting(RuleId::Length, 140, 136)),
        (|c| c.status = Status::ConfigRetry, Violation::new(RuleId::CompletionRetry, 0b010)),
    ];
    for (wrong, why) in rows {
        let mut tlp = good[0].clone();
        if let Body::Completion(c) = &mut tlp.repr.body {
            wrong(c);
        }
        block.sends(0, tlp);
        assert_eq!(block.refused(Class::Completion), [RefusedTlp::Completion(why)]);
    }
    block.sends(0, good[1].clone());
    let why = RefusedTlp::Completion(Violation::expecting(RuleId::ByteCount, 128, 256));
    assert_eq!(block.refused(Class::Completion), [why], "out of order");
    // An error within the answer is its last completion, and logged (`PCIe 5.0 §2.3.1`).
    block.sends(0, good[0].clone());
    assert!(block.poll(Class::Completion).is_some());
    let asked = CompletedRequest::of(&request.tlp.repr).unwrap();
    block.sends(0, Tlp::new(asked.without_data(HOST, Status::CompleterAbort), Data::NONE));
    let abort = completion(&block.poll(Class::Completion).unwrap());
    assert_eq!((abort.status, abort.completer), (Status::CompleterAbort, EP));
    assert_eq!(block.port.counters().completer_aborts, 1);
}

/// A read without an answer ends after the completion timeout, is logged, and its tag rests until the late answer has arrived.
#[test]
fn reads_time_out() {
    let limits = EndpointLimits { completion_timeout: Duration::from_us(60), ..EndpointLimits::default() };
    let mut block = Block::of(vec![space()], limits);
    block.sends(0, dma(0x77, 3, 0x1000, 4));
    let read = block.poll(Class::NonPosted).unwrap();
    assert_eq!(block.port.poll_timeout(), Some(us(60)));
    block.port.handle_timeout(us(60));
    let inputs = block.inputs();
    let [DesignInput::Lost { function: 0, requester, tag, why: DmaError::CompletionTimeout }] = &inputs[..]
    else {
        panic!("{inputs:?}")
    };
    assert_eq!((requester.bits(), tag.bits()), (0x77, 3));
    let status = block.port.config(0).unwrap().read(AER_STATUS);
    assert_eq!(status, 1 << 14, "Completion Timeout Status (`PCIe 5.0 §7.8.4.2`)");
    block.sends(0, dma(0x77, 3, 0x1000, 4));
    assert_eq!(block.refused(Class::NonPosted), [RefusedTlp::Tag(3)]);
    block.handle(answer(&read)[0].clone());
    assert!(block.inputs().is_empty(), "late ones are not reported");
    assert_eq!(block.port.counters().late_completions, 1);
    block.sends(0, dma(0x77, 3, 0x1000, 4));
    assert!(block.poll(Class::NonPosted).is_some());
}

/// A Function Level Reset voids the outstanding requests of one function. Requests of the other function continue.
#[test]
fn reset_is_reported_and_voids_requests() {
    let mut block = Block::of(vec![resettable(), resettable()], EndpointLimits::default());
    for function in 0..2 {
        block.sends(function, dma(0, 9, 0x1000, 4));
    }
    let reads = [block.poll(Class::NonPosted).unwrap(), block.poll(Class::NonPosted).unwrap()];
    block.handle(cfg(Access::Write, EP, DEVICE_CONTROL_RESETTABLE, 0xf, &(1u32 << 15).to_le_bytes()));
    let inputs = block.inputs();
    assert!(
        matches!(inputs[..], [DesignInput::Reset { function: 0, kind: ResetKind::FunctionLevel }]),
        "{inputs:?}"
    );
    for read in &reads {
        block.handle(answer(read)[0].clone());
    }
    let inputs = block.inputs();
    assert!(matches!(inputs[..], [DesignInput::Completion { function: 1, .. }]), "{inputs:?}");
    assert_eq!(block.port.counters().swallowed_completions, 1);
}

/// After a reset of the link no request is outstanding: the design reads with the tag whose completion never arrived.
#[test]
fn link_down_frees_all_tags() {
    let mut block = Block::new();
    block.sends(0, dma(0, 9, 0x1000, 4));
    assert!(block.poll(Class::NonPosted).is_some());
    block.port.handle_notice(Time::ZERO, link::Notice::Down { surprise: false });
    block.handle(cfg(Access::Write, EP, COMMAND, 0xf, &6u32.to_le_bytes()));
    block.sends(0, dma(0, 9, 0x2000, 4));
    assert!(block.poll(Class::NonPosted).is_some());
}

const DEVICE_CONTROL_RESETTABLE: u16 = 0x40 / 4 + 2;

fn resettable() -> ConfigSpace {
    let pcie = PcieLayout { function_level_reset: true, ..PcieLayout::default() };
    Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() }).pcie(pcie).build().unwrap()
}

/// Vectors are sent as software has configured them, here as MSI (`PCIe 5.0 §6.1.4`). Masked vectors wait.
#[test]
fn front_sends_interrupts_as_configured() {
    let mut block = Block::new();
    for (dw, value) in [(MSI + 1, 0xfee0_0000u32), (MSI + 3, 0x40), (MSI, 0x0021_0000)] {
        block.port.write_config(Time::ZERO, EP, dw, 0xf, value);
    }
    block.push(DesignOutput::Interrupt { function: 0, vector: 2 });
    let write = block.poll(Class::Posted).unwrap();
    assert_eq!(request(&write).span.address(), 0xfee0_0000);
    assert_eq!(write.data.bytes(), Some(&[0x42, 0, 0, 0][..]));
    block.push(DesignOutput::Interrupt { function: 9, vector: 0 });
    assert!(block.poll(Class::Posted).is_none());
    assert_eq!(block.port.counters().bad_outputs, 1);
}

/// The design has its own MSI-X table, so accesses to the table reach the design. Otherwise the front answers.
#[test]
fn design_implements_msix_tables_if_configured() {
    for msix_in_device in [false, true] {
        let space = Builder::type0(Identity::default())
            .bar(0, config::Bar::memory64(0x1_0000))
            .pcie(PcieLayout::default())
            .msix(config::MsixLayout { vectors: 4, table: (0, 0x1000), pending: (0, 0x2000) })
            .build()
            .unwrap();
        let limits = EndpointLimits { msix_in_device, ..EndpointLimits::default() };
        let mut block = Block::of(vec![space], limits);
        block.handle(mrd(1, BAR0 + 0x1000, 4));
        block.handle(mrd(2, BAR0 + 0x2000, 4));
        assert_eq!(block.requests().len(), if msix_in_device { 2 } else { 0 });
    }
}

/// Virtual functions of a design appear with VF Enable, each known by its index and ID.
#[test]
fn design_may_have_virtual_functions() {
    use crate::endpoint::virtual_functions::{CONTROL, SRIOV, VF_ENABLE, VF_MSE, physical, virtual_space};
    let design = Scripted::default();
    let limits = EndpointLimits { msix_in_device: true, ..EndpointLimits::default() };
    let port =
        HardBlock::new("block", vec![physical(3)], limits, PayloadPool::new(), design.clone()).unwrap();
    let mut port = port.with_virtual_functions(0, virtual_space()).unwrap();
    let at = port.config(0).unwrap().extended_capability(SRIOV).unwrap();
    let base = 0x20_0000_0000_u64;
    for (dw, value) in [
        (COMMAND, 0x6),
        (at + 4, 2),
        (at + 9, base as u32),
        (at + 10, (base >> 32) as u32),
        (at + CONTROL, VF_ENABLE | VF_MSE | 1 << 4),
    ] {
        port.write_config(Time::ZERO, EP, dw, 0xf, value);
    }
    let mut block = Block { port, design };
    let _ = block.inputs();
    block.handle(mrd(1, base + 0x4000, 4));
    block.handle(mrd(2, base + 0x8000, 4));
    let requests = block.requests();
    assert_eq!(requests.iter().map(|r| r.function).collect::<Vec<_>>(), [2], "two are enabled: 1 and 2");
    let mut answer = answers(&requests[0], 4);
    block.sends(2, answer.remove(0));
    let mut sent = || match block.poll(Class::Completion).unwrap().repr.body {
        Body::Completion(sent) => (sent.status, sent.completer.bits() - EP.bits()),
        _ => panic!("a completion"),
    };
    assert_eq!(sent(), (Status::UnsupportedRequest, 0), "of the third, which is not enabled");
    assert_eq!(sent(), (Status::Success, 2));
    let refused = HardBlock::new("b", vec![space()], limits, PayloadPool::new(), Scripted::default())
        .unwrap()
        .with_virtual_functions(0, virtual_space());
    assert!(matches!(refused.map(|_| ()), Err(EndpointError::NoSriov(0))));
}

/// A block without a checker sends a wrong TLP unchanged, with its own ID, and reports its error.
#[test]
fn block_without_checker_sends_wrong_tlps_unchanged() {
    let mut block = Block::new();
    block.design.0.borrow_mut().sends_wrong = true;
    let pool = PayloadPool::new();
    let of = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Tlp::of_malformed(&bytes, &pool).unwrap()
    };
    let across = of(&[0x4000_0002, 0xffff_00ff, 0x0000_0ffc, 1, 2]);
    let read_across = of(&[0x0000_0002, 0xffff_05ff, 0x0000_0ffc]);
    block.handle(mrd(3, BAR0, 4));
    let [request] = &block.requests()[..] else { panic!("one request") };
    let mut stray = answers(request, 4).remove(0);
    stray.repr.set_transaction(HOST, Tag::from_bits(9));
    // MPS 256, MRRS 512; tags 0 to 31.
    type Row = (Tlp, fn(&RefusedTlp) -> bool);
    let rows: [Row; 6] = [
        (across, |why| matches!(why, RefusedTlp::Malformed(m) if m.rule == RuleId::Crosses4K)),
        (read_across, |why| matches!(why, RefusedTlp::Malformed(m) if m.rule == RuleId::Crosses4K)),
        (
            mwr(0x1000, &[0; 512]),
            |why| matches!(why, RefusedTlp::Malformed(m) if m.rule == RuleId::MaxPayloadSize),
        ),
        (dma(0, 1, 0x1000, 1024), |why| matches!(why, RefusedTlp::TooLong { .. })),
        (memory(MemoryOp::ReadLocked, 2, 0x1000, 4, Data::NONE), |why| matches!(why, RefusedTlp::Kind(_))),
        (stray, |why| matches!(why, RefusedTlp::NoRequest(_))),
    ];
    for (tlp, is_told) in rows {
        let class = tlp.class();
        block.sends(0, tlp.clone());
        let left = block.poll(class).unwrap_or_else(|| panic!("{tlp}"));
        let mut bytes = vec![0; left.wire_len()];
        left.emit(&mut bytes);
        assert_eq!(
            (left.is_malformed(), &bytes[4..6]),
            (tlp.is_malformed(), &EP.bits().to_be_bytes()[..]),
            "{tlp}"
        );
        let [DesignInput::SentWrong { why, .. }] = &block.inputs()[..] else { panic!("{tlp}") };
        assert!(is_told(why), "{tlp}: {why}");
    }
    assert_eq!(block.port.counters().wrong_outputs, 6);
    // The block tracks its requests. A malformed request gets no answer, and ends by timeout.
    block.port.handle_timeout(us(60_000));
    let lost = |i| if let DesignInput::Lost { tag, why, .. } = i { Some((tag.bits(), why)) } else { None };
    let mut lost: Vec<_> = block.inputs().into_iter().filter_map(lost).collect();
    lost.sort_by_key(|(tag, _)| *tag);
    assert_eq!(lost, [1, 2, 5].map(|tag| (tag, DmaError::CompletionTimeout)));
    // The block sends no TLP while software forbids it, and no tag that software has not enabled.
    block.sends(0, dma(0, 32, 0x1000, 4));
    assert_eq!(block.refused(Class::NonPosted), [RefusedTlp::TagRange { tag: 32, first: 0, last: 31 }]);
    // The same for a malformed read with such a tag: two double-words across 4 KiB.
    block.sends(0, of(&[0x0000_0002, 0xffff_20ff, 0x0000_0ffc]));
    assert_eq!(block.refused(Class::NonPosted), [RefusedTlp::TagRange { tag: 32, first: 0, last: 31 }]);
    block.port.write_config(Time::ZERO, EP, COMMAND, 0xf, 0x2);
    block.sends(0, of(&[0x4000_0002, 0xffff_00ff, 0x0000_0ffc, 1, 2]));
    assert_eq!(block.refused(Class::Posted), [RefusedTlp::Gated(DmaError::BusMasterDisabled)]);
}

/// A tag that is used twice: both are sent, and completions go to the older request first.
#[test]
fn tag_used_twice_is_sent_twice() {
    let mut block = Block::new();
    block.design.0.borrow_mut().sends_wrong = true;
    for address in [0x1000, 0x2000] {
        block.sends(0, dma(0x100, 7, address, 8));
        let left = block.poll(Class::NonPosted).unwrap();
        assert_eq!(left.repr.transaction(), (EP, Tag::from_bits(7)));
    }
    assert!(matches!(&block.inputs()[..], [DesignInput::SentWrong { why: RefusedTlp::Tag(7), .. }]));
    for address in [0x1000, 0x2000] {
        let asked = CompletedRequest::of(&dma(EP.bits(), 7, address, 8).repr).unwrap();
        let repr = asked.with_data(HOST, 0, 8);
        block.handle(Tlp::new(repr, Data::Counted(8)));
        let inputs = block.inputs();
        let [DesignInput::Completion { tlp, .. }] = &inputs[..] else { panic!("{inputs:?}") };
        assert_eq!(tlp.repr.transaction(), (Bdf::from_bits(0x100), Tag::from_bits(7)));
    }
    assert_eq!(block.port.counters().unexpected_completions, 0);
    assert_eq!(block.port.waits_for(), None);
}

#[test]
fn error_messages_and_posted_tlps_of_a_design_take_turns() {
    for waiting in [1, 0] {
        let mut block = Block::new();
        block.port.write_config(Time::ZERO, EP, DEVICE_CONTROL, 0xf, 0x2831);
        for n in 0..3 {
            let write = memory(MemoryOp::Write, 0, 0x1000 * n, 64, Data::Counted(64));
            block.sends(0, write);
        }
        let mut sent = String::new();
        (0..waiting).for_each(|_| block.port.handle_notice(Time::ZERO, Notice::ReplayTimeout));
        for _ in 0..8 {
            block.port.handle_notice(Time::ZERO, Notice::ReplayTimeout);
            let tlp = block.poll(Class::Posted).unwrap();
            sent.push(if matches!(tlp.repr.body, Body::Message(_)) { 'm' } else { 'w' });
        }
        assert_eq!(sent, "mwmwmwmm", "{waiting} errors");
    }
}

/// Transactions Pending of a design's function: see `reset::timeout_and_flr_clear_transactions_pending`.
#[test]
fn timeout_and_flr_clear_transactions_pending_of_a_design() {
    let limits = EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() };
    for reset in [false, true] {
        let mut block = Block::of(vec![space()], limits);
        let pending = |block: &mut Block| {
            block.handle(cfg(Access::Read, EP, DEVICE_CONTROL, 0xf, &[]));
            block.poll(Class::Completion).unwrap().data.bytes().unwrap()[2] >> 5 & 1
        };
        block.sends(0, dma(0, 1, 0x1000, 64));
        assert!(block.poll(Class::NonPosted).is_some());
        assert_eq!(pending(&mut block), 1);
        if reset {
            block.handle(cfg(Access::Write, EP, DEVICE_CONTROL, 0b0011, &[0x30, 0xa9]));
            block.poll(Class::Completion).unwrap();
        } else {
            block.port.handle_timeout(us(50));
        }
        assert_eq!(pending(&mut block), 0, "reset: {reset}");
        assert!(block.port.waits_for().is_some_and(|what| what.contains("1 tags in use")), "reset: {reset}");
    }
}

/// `PCIe 5.0 §2.3.2`: the design learns that its request is lost, unless the block is lenient.
#[test]
fn completions_with_another_traffic_class_are_malformed_unless_lenient() {
    for lenient_completions in [false, true] {
        let limits = EndpointLimits { lenient_completions, ..EndpointLimits::default() };
        let mut block = Block::of(vec![space()], limits);
        block.sends(0, dma(0, 1, 0x1000, 4));
        let read = block.poll(Class::NonPosted).unwrap();
        let mut completion = answer(&read).remove(0);
        completion.repr.tc = TrafficClass::from_bits(1);
        block.handle(completion);
        let [input] = &block.inputs()[..] else { panic!("one input") };
        match input {
            DesignInput::Lost { why: DmaError::Malformed, .. } => assert!(!lenient_completions),
            DesignInput::Completion { .. } => assert!(lenient_completions),
            other => panic!("{other:?}"),
        }
    }
}

/// The text gives the rule with its section, the value and the allowed values, and the limit of the function.
#[test]
fn texts_of_refused_outputs_name_their_rule() {
    let rows = [
        (
            RefusedTlp::TagRange { tag: 32, first: 0, last: 31 },
            "Tag 0x20, expected 0 to 31, 0 to 255 with Extended Tag Field Enable, 256 to 1023 for 10-bit tags (PCIe 5.0 §2.2.6.2, rule tag-range); the function has tags 0x0 to 0x1f",
        ),
        (
            RefusedTlp::TooLong { bytes: 1024, mrrs: 512 },
            "Length 256 DW, expected at most Max_Read_Request_Size (PCIe 5.0 §2.2.7, rule max-read-request-size); \
             Max_Read_Request_Size is 512 bytes",
        ),
        (
            RefusedTlp::Gated(DmaError::BusMasterDisabled),
            "Bus Master Enable 0, expected 1 (PCIe 5.0 §7.5.1.1.3, rule bus-master-enable)",
        ),
        (
            RefusedTlp::Gated(DmaError::AtomicsDisabled),
            "AtomicOp Requester Enable 0, expected 1 (PCIe 5.0 §7.5.3.16, rule atomic-requester-enable)",
        ),
        (RefusedTlp::NoFunction(2), "there is no function 2"),
    ];
    for (why, text) in rows {
        assert_eq!(why.to_string(), text);
    }
}
