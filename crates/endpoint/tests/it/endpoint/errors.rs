// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that an endpoint detects, one row each: the TLP that arrives, and the registers and messages that report the
//! error (`PCIe 5.0 §6.2`, Table 6-3 to Table 6-5).

use crate::endpoint::harness::*;
use config::{AerLayout, AerRole, Builder, Identity, PcieLayout};
use device::*;
use link::Notice;
use riser_endpoint::*;
use tlp::rules::Refusal;
use tlp::*;

/// Extended capability ID of Advanced Error Reporting, and the DWs of its registers (`PCIe 5.0 §7.8.4`).
const AER: u16 = 0x0001;
const UNCORRECTABLE_STATUS: u16 = 1;
const UNCORRECTABLE_MASK: u16 = 2;
const SEVERITY: u16 = 3;
const CORRECTABLE_STATUS: u16 = 4;
const CORRECTABLE_MASK: u16 = 5;
const CONTROL: u16 = 6;
const HEADER_LOG: u16 = 7;
const PCI_EXPRESS: u8 = 0x10;
const ADVISORY: u32 = 1 << 13;
const COR: Option<u8> = Some(0x30);
const NONFATAL: Option<u8> = Some(0x31);
const FATAL: Option<u8> = Some(0x33);

/// All reporting enabled, advisory errors not masked, ECRC checked.
fn bench() -> Bench {
    bench_of(1)
}

fn bench_of(functions: u8) -> Bench {
    let limits = EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() };
    let mut bench = Bench::with_functions(limits, functions);
    for f in 0..functions {
        bench.write_capability(f, PCI_EXPRESS, 2, 0x293f);
        bench.write_extended(f, AER, CORRECTABLE_MASK, 0);
        bench.write_extended(f, AER, CONTROL, 1 << 8);
    }
    bench
}

fn poisoned(tlp: Tlp) -> Tlp {
    Tlp { repr: Repr { ep: true, ..tlp.repr }, ..tlp }
}

/// Cause of an error.
enum Cause {
    Arrives(Tlp),
    /// A read of 4 B at 1000h with tag 0, and its answer.
    Answered(fn(&Tlp) -> Tlp),
    /// The same read, without an answer for a second.
    Unanswered,
    /// A read that the device answers with CA.
    Aborts(Tlp),
    Noticed(Notice),
}

struct Row {
    name: &'static str,
    cause: Cause,
    /// Bits of Uncorrectable and Correctable Error Status.
    uncorrectable: u32,
    correctable: u32,
    /// Device Status, bits 3:0: correctable, non-fatal, fatal, unsupported request.
    device_status: u32,
    header: [u32; 4],
    message: Option<u8>,
    /// The rule that the TLP breaks; `None` for errors of the layers below.
    refusal: Option<Violation>,
}

fn why(rule: RuleId, found: u64) -> Option<Violation> {
    Some(Violation::new(rule, found))
}

fn against(rule: RuleId, found: u64, expected: u64) -> Option<Violation> {
    Some(Violation::expecting(rule, found, expected))
}

fn cause(bench: &mut Bench, cause: Cause) {
    match cause {
        Cause::Arrives(tlp) => bench.handle(tlp),
        Cause::Noticed(notice) => bench.endpoint.handle_notice(Time::ZERO, notice),
        Cause::Aborts(tlp) => {
            bench.handle(tlp);
            let token = bench.probe().tokens()[0];
            let result = Err(CompletionError::CompleterAbort);
            bench.probe().push(Class::Completion, Output::Complete { token, result });
            assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).status, Status::CompleterAbort);
        }
        Cause::Answered(answer) => {
            bench.probe().push(Class::NonPosted, read(1, 0x1000, 4));
            let asked = bench.poll(Class::NonPosted).unwrap();
            bench.handle(answer(&asked));
            assert!(bench.probe().done()[0].1.is_err());
        }
        Cause::Unanswered => {
            bench.probe().push(Class::NonPosted, read(1, 0x1000, 4));
            assert!(bench.poll(Class::NonPosted).is_some());
            bench.endpoint.handle_timeout(us(60));
            assert_eq!(bench.probe().done()[0].1.as_ref().unwrap_err(), &DmaError::CompletionTimeout);
        }
    }
}

fn wrong_ecrc(tlp: Tlp) -> Tlp {
    Tlp { repr: Repr { td: true, ..tlp.repr }, flaw: Flaw::WrongEcrc, ..tlp }
}

fn too_long() -> Tlp {
    mwr(BAR0, &[0; 512])
}

fn fetch_add(address: u64) -> Tlp {
    let (tag, operand) = (Tag::from_bits(2), OperandSize::Bits32);
    let body = AtomicRequest { op: AtomicOp::FetchAdd, operand, requester: HOST, tag, address };
    Tlp::new(Repr::new(Body::Atomic(body)), Data::Carried(PayloadPool::new().copy(&[1; 4])))
}

fn stray_completion() -> Tlp {
    let body = Completion::new(HOST, EP, Tag::from_bits(9));
    Tlp::new(Repr::new(Body::Completion(body)), Data::NONE)
}

// Headers by PCIe 5.0 §2.2: Fmt and Type in bits 31:24, EP 14, TD 15, Length 9:0; Requester ID, Tag, Byte Enables;
// address. Headers of addresses beyond 4 GiB have four DWs.
#[rustfmt::skip]
fn rows() -> Vec<Row> {
    const UR: u32 = 1 << 20;
    vec![
        Row { name: "unclaimed read: UR, advisory (6.2.3.2.4.1)", cause: Cause::Arrives(mrd(5, 0x1000, 4)),
            uncorrectable: UR, correctable: ADVISORY, device_status: 0b1001,
            header: [0x0000_0001, 0x0000_050f, 0x0000_1000, 0], message: COR,
            refusal: why(RuleId::UnclaimedAddress, 0x1000) },
        Row { name: "unclaimed write: UR", cause: Cause::Arrives(mwr(0x1000, &[1, 2, 3, 4])),
            uncorrectable: UR, correctable: 0, device_status: 0b1010,
            header: [0x4000_0001, 0x0000_000f, 0x0000_1000, 0], message: NONFATAL,
            refusal: why(RuleId::UnclaimedAddress, 0x1000) },
        Row { name: "completer abort: advisory", cause: Cause::Aborts(mrd(7, BAR2 + 0x400, 4)),
            uncorrectable: 1 << 15, correctable: ADVISORY, device_status: 0b0001,
            header: [0x0000_0001, 0x0000_070f, 0xf000_0400, 0], message: COR,
            refusal: why(RuleId::CompleterAbort, 0b100) },
        Row { name: "completer abort beyond 4 GiB", cause: Cause::Aborts(mrd(7, BAR0 + 0x10, 8)),
            uncorrectable: 1 << 15, correctable: ADVISORY, device_status: 0b0001,
            header: [0x2000_0002, 0x0000_07ff, 0x0000_0010, 0x0000_0010], message: COR,
            refusal: why(RuleId::CompleterAbort, 0b100) },
        Row { name: "completion timeout", cause: Cause::Unanswered,
            uncorrectable: 1 << 14, correctable: 0, device_status: 0b0010, header: [0x0000_0001, 0x0300_000f, 0x0000_1000, 0], message: NONFATAL,
            refusal: why(RuleId::CompletionTimeout, 0) },
        Row { name: "unexpected completion: advisory (6.2.3.2.4.5)", cause: Cause::Arrives(stray_completion()),
            uncorrectable: 1 << 16, correctable: ADVISORY, device_status: 0b0001,
            header: [0x0a00_0000, 0x0000_0004, 0x0300_0900, 0], message: COR,
            refusal: why(RuleId::UnexpectedCompletion, 0x0300_0009) },
        Row { name: "poisoned write", cause: Cause::Arrives(poisoned(mwr(BAR2 + 0x400, &[1, 2, 3, 4]))),
            uncorrectable: 1 << 12, correctable: 0, device_status: 0b0010,
            header: [0x4000_4001, 0x0000_000f, 0xf000_0400, 0], message: NONFATAL,
            refusal: why(RuleId::Poisoned, 1) },
        Row { name: "poisoned completion: advisory (6.2.3.2.4.3)", cause: Cause::Answered(|asked| poisoned(answer(asked).remove(0))),
            uncorrectable: 1 << 12, correctable: ADVISORY, device_status: 0b0001,
            header: [0x4a00_4001, 0x0000_0004, 0x0300_0000, 0], message: COR,
            refusal: why(RuleId::Poisoned, 1) },
        Row { name: "poisoned configuration write: never advisory (2.7.2.2)",
            cause: Cause::Arrives(poisoned(cfg(Access::Write, EP, 4, 0xf, &[0; 4]))),
            uncorrectable: 1 << 12, correctable: 0, device_status: 0b0010,
            header: [0x4400_4001, 0x0000_090f, 0x0300_0010, 0], message: NONFATAL,
            refusal: why(RuleId::Poisoned, 1) },
        Row { name: "poisoned AtomicOp that is not supported: UR, never advisory (2.7.2.2)",
            cause: Cause::Arrives(poisoned(fetch_add(BAR2 + 0x400))),
            uncorrectable: UR, correctable: 0, device_status: 0b1010,
            header: [0x4c00_4001, 0x0000_0200, 0xf000_0400, 0], message: NONFATAL,
            refusal: why(RuleId::RequestType, 0x4c) },
        Row { name: "unclaimed poisoned AtomicOp: UR, never advisory (2.7.2.2)",
            cause: Cause::Arrives(poisoned(fetch_add(0x1000))),
            uncorrectable: UR, correctable: 0, device_status: 0b1010,
            header: [0x4c00_4001, 0x0000_0200, 0x0000_1000, 0], message: NONFATAL,
            refusal: why(RuleId::UnclaimedAddress, 0x1000) },
        Row { name: "malformed goes before ECRC (6.2.3.2.3)", cause: Cause::Arrives(wrong_ecrc(too_long())),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x6000_8080, 0x0000_00ff, 0x0000_0010, 0x0000_0000], message: FATAL,
            refusal: against(RuleId::MaxPayloadSize, 512, 256) },
        Row { name: "malformed completion: Length and Byte Count differ", cause: Cause::Answered(|asked| {
                let mut tlp = answer(asked).remove(0);
                if let Body::Completion(c) = &mut tlp.repr.body { c.byte_count = 8; }
                tlp
            }),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x4a00_0001, 0x0000_0008, 0x0300_0000, 0], message: FATAL,
            refusal: against(RuleId::ByteCount, 8, 4) },
        Row { name: "malformed completion: another Traffic Class (2.3.2)", cause: Cause::Answered(|asked| {
                let tlp = answer(asked).remove(0);
                Tlp { repr: Repr { tc: TrafficClass::from_bits(1), ..tlp.repr }, ..tlp }
            }),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x4a10_0001, 0x0000_0004, 0x0300_0000, 0], message: FATAL,
            refusal: against(RuleId::CompletionTc, 1, 0) },
        Row { name: "malformed completion: Relaxed Ordering that was not requested (2.3.2)", cause: Cause::Answered(|asked| {
                let tlp = answer(asked).remove(0);
                Tlp { repr: Repr { attr: Attributes::RELAXED_ORDERING, ..tlp.repr }, ..tlp }
            }),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x4a00_2001, 0x0000_0004, 0x0300_0000, 0], message: FATAL,
            refusal: against(RuleId::CompletionAttr, 0b10, 0b00) },
        Row { name: "malformed completion: Lower Address (2.2.9.1)", cause: Cause::Answered(|asked| {
                let mut tlp = answer(asked).remove(0);
                if let Body::Completion(c) = &mut tlp.repr.body { c.lower_address = 4; }
                tlp
            }),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x4a00_0001, 0x0000_0004, 0x0300_0004, 0], message: FATAL,
            refusal: against(RuleId::LowerAddress, 4, 0) },
        Row { name: "malformed completion: no data (2.2.9)", cause: Cause::Answered(|asked| refuse(asked, Status::Success)),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x0a00_0000, 0x0000_0004, 0x0300_0000, 0], message: FATAL,
            refusal: against(RuleId::CompletionType, 0b000, 0b010) },
        Row { name: "malformed completion: CRS of a memory read (2.3.2)", cause: Cause::Answered(|asked| refuse(asked, Status::ConfigRetry)),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x0a00_0000, 0x0000_4004, 0x0300_0000, 0], message: FATAL,
            refusal: why(RuleId::CompletionRetry, 0b010) },
        Row { name: "a read answered with UR: no error of the requester", cause: Cause::Answered(|asked| refuse(asked, Status::UnsupportedRequest)),
            uncorrectable: 0, correctable: 0, device_status: 0, header: [0; 4], message: None,
            refusal: why(RuleId::UnsupportedRequest, 0b001) },
        Row { name: "locked read of an endpoint that is not a legacy one (6.5.7)",
            cause: Cause::Arrives(memory(MemoryOp::ReadLocked, 5, BAR2 + 0x400, 4, Data::NONE)),
            uncorrectable: UR, correctable: ADVISORY, device_status: 0b1001,
            header: [0x0100_0001, 0x0000_050f, 0xf000_0400, 0], message: COR,
            refusal: why(RuleId::RequestType, 0x01) },
        Row { name: "ECRC", cause: Cause::Arrives(wrong_ecrc(mrd(5, BAR2 + 0x400, 4))),
            uncorrectable: 1 << 19, correctable: 0, device_status: 0b0010,
            header: [0x0000_8001, 0x0000_050f, 0xf000_0400, 0], message: NONFATAL,
            refusal: Some(wrong_ecrc(mrd(5, BAR2 + 0x400, 4)).ecrc_violation()) },
        Row { name: "malformed: beyond Max_Payload_Size", cause: Cause::Arrives(too_long()),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100,
            header: [0x6000_0080, 0x0000_00ff, 0x0000_0010, 0x0000_0000], message: FATAL,
            refusal: against(RuleId::MaxPayloadSize, 512, 256) },
        Row { name: "receiver overflow", cause: Cause::Noticed(Notice::ReceiverOverflow { header: [1, 2, 3, 4] }),
            uncorrectable: 1 << 17, correctable: 0, device_status: 0b0100, header: [0; 4], message: FATAL,
            refusal: None },
        Row { name: "malformed, as the port sees it", cause: Cause::Noticed(Notice::MalformedTlp { header: [5, 6, 7, 8] }),
            uncorrectable: 1 << 18, correctable: 0, device_status: 0b0100, header: [5, 6, 7, 8], message: FATAL,
            refusal: None },
        Row { name: "data link protocol", cause: Cause::Noticed(Notice::DataLinkProtocol),
            uncorrectable: 1 << 4, correctable: 0, device_status: 0b0100, header: [0; 4], message: FATAL,
            refusal: None },
        Row { name: "flow control protocol", cause: Cause::Noticed(Notice::FlowControlProtocol),
            uncorrectable: 1 << 13, correctable: 0, device_status: 0b0100, header: [0; 4], message: FATAL,
            refusal: None },
        Row { name: "receiver error", cause: Cause::Noticed(Notice::ReceiverError),
            uncorrectable: 0, correctable: 1, device_status: 0b0001, header: [0; 4], message: COR,
            refusal: None },
        Row { name: "bad TLP", cause: Cause::Noticed(Notice::BadTlp),
            uncorrectable: 0, correctable: 1 << 6, device_status: 0b0001, header: [0; 4], message: COR,
            refusal: None },
        Row { name: "bad DLLP", cause: Cause::Noticed(Notice::BadDllp),
            uncorrectable: 0, correctable: 1 << 7, device_status: 0b0001, header: [0; 4], message: COR,
            refusal: None },
        Row { name: "REPLAY_NUM rollover", cause: Cause::Noticed(Notice::ReplayRollover),
            uncorrectable: 0, correctable: 1 << 8, device_status: 0b0001, header: [0; 4], message: COR,
            refusal: None },
        Row { name: "replay timer timeout", cause: Cause::Noticed(Notice::ReplayTimeout),
            uncorrectable: 0, correctable: 1 << 12, device_status: 0b0001, header: [0; 4], message: COR,
            refusal: None },
    ]
}

fn logged(bench: &Bench, function: u8) -> (u32, u32, [u32; 4]) {
    let aer = |dw| bench.extended(function, AER, dw);
    (aer(UNCORRECTABLE_STATUS), aer(CORRECTABLE_STATUS), [0, 1, 2, 3].map(|n| aer(HEADER_LOG + n)))
}

#[test]
fn each_error_is_logged_and_reported() {
    for row in rows() {
        let mut bench = bench();
        cause(&mut bench, row.cause);
        let messages: Vec<u8> = bench.messages().into_iter().map(|(code, _)| code).collect();
        assert_eq!(messages, Vec::from_iter(row.message), "{}", row.name);
        assert_eq!(logged(&bench, 0), (row.uncorrectable, row.correctable, row.header), "{}", row.name);
        assert_eq!(bench.capability(PCI_EXPRESS, 2) >> 16 & 0xf, row.device_status, "{}", row.name);
        if row.uncorrectable != 0 {
            let first = bench.extended(0, AER, CONTROL) & 0x1f;
            assert_eq!(1 << first, row.uncorrectable, "{}: First Error Pointer", row.name);
        }
        let refusals = bench.endpoint.refusals();
        let found: Vec<_> = refusals.iter().map(|refusal| (refusal.violation, refusal.count)).collect();
        assert_eq!(found, Vec::from_iter(row.refusal.map(|why| (why, 1))), "{}", row.name);
        let header = |refusal: &Refusal| {
            let dws =
                refusal.tlp.bytes().chunks_exact(4).map(|dw| u32::from_be_bytes(dw.try_into().unwrap()));
            dws.chain([0; 4]).take(4).collect::<Vec<_>>()
        };
        if let (Some(refusal), true) = (refusals.first(), row.header != [0; 4]) {
            assert_eq!(header(refusal), row.header, "{}", row.name);
        }
    }
}

#[test]
fn masked_errors_are_not_reported() {
    for row in rows() {
        let mut bench = bench();
        bench.write_extended(0, AER, UNCORRECTABLE_MASK, row.uncorrectable);
        bench.write_extended(0, AER, CORRECTABLE_MASK, !0);
        cause(&mut bench, row.cause);
        assert_eq!(bench.messages(), [], "{}", row.name);
        assert_eq!(bench.capability(PCI_EXPRESS, 2) >> 16 & 0xf, row.device_status, "{}", row.name);
    }
}

#[test]
fn severity_makes_any_uncorrectable_error_fatal() {
    for row in rows().into_iter().filter(|r| r.uncorrectable != 0) {
        let mut bench = bench();
        bench.write_extended(0, AER, SEVERITY, row.uncorrectable);
        cause(&mut bench, row.cause);
        assert_eq!(bench.messages(), [(0x33, EP)], "{}", row.name);
        assert_eq!(logged(&bench, 0), (row.uncorrectable, 0, row.header), "{}", row.name);
    }
}

/// Errors that belong to no function are logged in all of them, and reported once (`PCIe 5.0 §6.2.4`).
#[test]
fn errors_without_a_function_are_logged_in_all() {
    let unclaimed = mwr(0x1000, &[0; 4]);
    let causes = [
        (Cause::Arrives(unclaimed), 1 << 20, 0x31),
        (Cause::Noticed(Notice::DataLinkProtocol), 1 << 4, 0x33),
    ];
    for (why, status, code) in causes {
        let mut bench = bench_of(2);
        cause(&mut bench, why);
        assert_eq!(bench.messages(), [(code, EP)]);
        assert_eq!((logged(&bench, 0).0, logged(&bench, 1).0), (status, status));
    }
}

#[test]
fn errors_are_logged_only_in_their_function() {
    let mut bench = bench_of(2);
    bench.handle(poisoned(mwr(BAR2 + 0x1400, &[0; 4])));
    assert_eq!(bench.messages(), [(0x31, Bdf::from_bits(EP.bits() | 1))]);
    assert_eq!((logged(&bench, 0).0, logged(&bench, 1).0), (0, 1 << 12));
}

/// The TLP Prefix Log (`PCIe 5.0 §7.8.4.12`): Fmt and Type of a PASID prefix are 91h, PASID is 19:0.
#[test]
fn end_to_end_prefixes_are_logged() {
    let layout = AerLayout { prefix_log: true, ..AerLayout::new(AerRole::Endpoint) };
    let space = Builder::type0(Identity::default())
        .pcie(PcieLayout { end_end_prefixes: 1, ..PcieLayout::default() })
        .advanced_error_reporting_with(layout)
        .build()
        .unwrap();
    let mut bench = Bench::of(EndpointLimits::default(), vec![space]);
    let prefixes = Prefixes::new(&[Prefix::pasid(0x1_2345, false, false)]).unwrap();
    bench.handle(Tlp { prefixes, ..mwr(0x1000, &[0; 4]) });
    assert_eq!(logged(&bench, 0), (1 << 20, 0, [0x4000_0001, 0x0000_000f, 0x0000_1000, 0]));
    assert_eq!([14, 15].map(|dw| bench.extended(0, AER, dw)), [0x9101_2345, 0]);
}

/// `PCIe 5.0 §2.9.1`.
#[test]
fn link_down_ends_outstanding_requests_and_resets() {
    let mut bench = bench();
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 4096));
    let asked = bench.poll(Class::NonPosted).unwrap();
    bench.endpoint.handle_notice(us(1), Notice::Down { surprise: true });
    let inputs = bench.probe().take_inputs();
    assert!(
        matches!(
            inputs[..],
            [Input::DmaDone { id: DmaId(1), result: Err(DmaError::LinkDown) }, Input::Reset(ResetKind::Hot)]
        ),
        "{inputs:?}"
    );
    assert_eq!(bench.config(COMMAND) & 7, 0);
    assert!(bench.poll(Class::NonPosted).is_none(), "the rest of the read is void");
    let mut late = answer(&asked).remove(0);
    if let Body::Completion(c) = &mut late.repr.body {
        c.requester = Bdf::from_bits(0);
    }
    bench.handle(late);
    assert!(bench.probe().done().is_empty());
}

/// A port above may hold the link down from the start. Only a link that was up goes down.
#[test]
fn counts_link_down_only_after_link_was_up() {
    let mut bench = bench();
    let (down, up) =
        (Notice::Down { surprise: false }, Notice::Up { rate: Rate::Gt8, width: Width::new(4).unwrap() });
    for (notice, downs) in [(down, 0), (up, 0), (down, 1), (down, 1), (up, 1), (down, 2)] {
        bench.endpoint.handle_notice(us(1), notice);
        assert_eq!(bench.endpoint.counters().link_downs, downs, "{notice:?}");
    }
}

/// `PCIe 5.0 §7.5.1.1.4`: a poisoned completion is reported even if its transfer has failed before, whether or not its
/// tag waits for more completions.
#[test]
fn poisoned_data_after_a_failed_transfer_is_logged() {
    const POISONED: u32 = 1 << 12;
    const PARITY: u32 = 1 << 31;
    for poison in [true, false] {
        let mut bench = bench();
        bench.probe().push(Class::NonPosted, read(1, 0x1000, 1024));
        let [first, second] = [(); 2].map(|()| bench.poll(Class::NonPosted).unwrap());
        bench.handle(refuse(&first, Status::UnsupportedRequest));
        assert_eq!(bench.probe().done().len(), 1);
        for tlp in answer(&second) {
            bench.handle(if poison { poisoned(tlp) } else { tlp });
        }
        let expected = if poison { (POISONED, PARITY, 2, 0) } else { (0, 0, 0, 2) };
        let counters = bench.endpoint.counters();
        let counted = (counters.poisoned_completions, counters.swallowed_completions);
        assert_eq!((logged(&bench, 0).0, bench.config(COMMAND) & PARITY, counted.0, counted.1), expected);
        assert!(bench.probe().done().is_empty());
    }
}

/// A poisoned request that is unsupported as well is an Unsupported Request; Detected Parity Error shows that it was poisoned.
#[test]
fn refused_poisoned_tlp_sets_status() {
    for (tlp, parity) in [(mwr(0x1000, &[0; 4]), 0), (poisoned(mwr(0x1000, &[0; 4])), 1 << 31)] {
        let mut bench = bench();
        bench.handle(tlp);
        assert_eq!((logged(&bench, 0).0, bench.config(COMMAND) & 1 << 31), (1 << 20, parity));
    }
}

/// The letter of a TLP: `m` for a message, `w` for a memory write, `s` for a successful completion, `u` for UR.
fn kind(tlp: &Tlp) -> char {
    match tlp.repr.body {
        Body::Message(_) => 'm',
        Body::Memory(_) => 'w',
        Body::Completion(c) if c.status == Status::Success => 's',
        _ => 'u',
    }
}

/// If REPLAY_TIMER is shorter than the round trip, each error message may cause another error. This must not block DMA, nor
/// TLPs that may not pass DMA.
#[test]
fn error_messages_and_dma_take_turns() {
    // Number of errors that wait at first. The next error arrives before or after the last message has been sent.
    for (functions, waiting) in [(1, 1), (2, 1), (1, 0), (2, 0)] {
        let mut bench = bench_of(functions);
        (0..3).for_each(|n| bench.probe().push(Class::Posted, write(0x1000 * n, Data::Counted(64))));
        (0..waiting).for_each(|_| bench.endpoint.handle_notice(Time::ZERO, Notice::ReplayTimeout));
        let mut sent = String::new();
        for _ in 0..8 {
            bench.endpoint.handle_notice(Time::ZERO, Notice::ReplayTimeout);
            sent.push(kind(&bench.poll(Class::Posted).unwrap()));
        }
        assert_eq!(sent, "mwmwmwmm", "{functions} functions, {waiting} errors");
    }
}

/// Each error is reported before the next one occurs: its message goes first.
#[test]
fn one_error_message_goes_before_dma() {
    let mut bench = bench();
    (0..3).for_each(|n| bench.probe().push(Class::Posted, write(0x1000 * n, Data::Counted(64))));
    let mut sent = String::new();
    for _ in 0..2 {
        bench.endpoint.handle_notice(Time::ZERO, Notice::ReplayTimeout);
        (0..2).for_each(|_| sent.push(kind(&bench.poll(Class::Posted).unwrap())));
    }
    assert_eq!(sent, "mwmw");
}

#[test]
fn refusals_and_completions_of_a_device_take_turns() {
    let mut bench = bench();
    (0..3).for_each(|tag| bench.handle(mrd(tag, BAR0, 4)));
    for token in bench.probe().tokens() {
        let result = Ok(Data::Counted(4));
        bench.probe().push(Class::Completion, Output::Complete { token, result });
    }
    (3..8).for_each(|tag| bench.handle(mrd(tag, 0x1000, 4)));
    let sent: String = bench.poll_all(Class::Completion).iter().map(kind).collect();
    assert_eq!(sent, "usususuu");
}
