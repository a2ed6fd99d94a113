// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests other than plain reads and writes, in both directions: I/O, AtomicOps, locked reads, deferrable writes;
//! ECRC, tags, hints and prefixes.

use crate::endpoint::harness::*;
use config::{AtomicSupport, Bar, Builder, DeferrableLength, Identity, MsiLayout, PcieLayout};
use device::*;
use riser_endpoint::*;
use tlp::*;

/// I/O BAR 3.
const IO: u32 = 0x1000;
const AER_CONTROL: u16 = 0x118 / 4;
const ATOMIC_REQUESTER: u32 = 1 << 6;

/// Memory BARs 0 and 2, I/O BAR 3; all enabled.
fn bench(layout: PcieLayout) -> Bench {
    let config = Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() })
        .bar(0, Bar::memory64(64 << 10))
        .bar(2, Bar::memory32(4096))
        .bar(3, Bar::io(16))
        .msi(MsiLayout { vectors: 4 })
        .pcie(PcieLayout { ten_bit_tag: true, ..layout })
        .advanced_error_reporting()
        .build()
        .unwrap();
    let probe = Probe::default();
    probe.0.borrow_mut().takes = true;
    let pool = PayloadPool::new();
    let functions = vec![FunctionConfig { config, device: Box::new(probe.clone()) }];
    let limits = EndpointLimits { max_outstanding_reads: 768, ..EndpointLimits::default() };
    let config = EndpointConfig { name: "probe".into(), functions, limits, pool: pool.clone() };
    let mut bench = Bench { endpoint: Endpoint::new(config).unwrap(), probes: vec![probe], pool };
    for (dw, value) in [
        (4, BAR0 as u32),
        (5, (BAR0 >> 32) as u32),
        (6, BAR2 as u32),
        (7, IO),
        (COMMAND, 0x7),
        (DEVICE_CONTROL, 0x2930),
    ] {
        bench.write_config(0, dw, value);
    }
    bench
}

fn plain() -> Bench {
    bench(PcieLayout::default())
}

fn carried(bytes: &[u8]) -> Data {
    Data::Carried(PayloadPool::new().copy(bytes))
}

fn io(op: Access, address: u32, first_be: u8, data: Data) -> Tlp {
    let body = IoRequest { op, requester: HOST, tag: Tag::from_bits(5), address, first_be };
    Tlp::new(Repr::new(Body::Io(body)), data).with_carry(true)
}

fn atomic(op: AtomicOp, address: u64, operands: &[u8]) -> Tlp {
    let operand = op.operand_of_length(operands.len() as u32 / 4).unwrap();
    let body = tlp::AtomicRequest { op, operand, requester: HOST, tag: Tag::from_bits(7), address };
    Tlp::new(Repr::new(Body::Atomic(body)), carried(operands)).with_carry(true)
}

fn op(bench: &Bench) -> (Token, RequestOp) {
    match bench.probe().take_inputs().pop() {
        Some(Input::Request(r)) => (r.token, r.op),
        other => panic!("no request: {other:?}"),
    }
}

fn answer(bench: &mut Bench, token: Token, result: Result<Data, CompletionError>) -> Tlp {
    bench.probe().push(Class::Completion, Output::Complete { token, result });
    bench.poll(Class::Completion).expect("an answer")
}

/// Completion Status, Byte Count, Lower Address, Length; locked.
fn fields(tlp: &Tlp) -> (Status, u16, u8, Option<u16>, bool) {
    let c = completion(tlp);
    (c.status, c.byte_count, c.lower_address, c.length_dw, c.locked)
}

type IoRow = (u32, u8, u64, u32, &'static [u8], [u8; 4]);

/// Address, Byte Enables, offset and length that the device sees, its answer, and the DW on the wire. Byte Count is 4 and
/// Lower Address 0 (`PCIe 5.0 §2.2.9`).
#[test]
fn io_reads_are_answered_with_a_whole_dw() {
    let rows: [IoRow; 4] = [
        (IO, 0b1111, 0, 4, &[1, 2, 3, 4], [1, 2, 3, 4]),
        (IO + 4, 0b0010, 5, 1, &[9], [0, 9, 0, 0]),
        (IO + 12, 0b1100, 14, 2, &[7, 8], [0, 0, 7, 8]),
        (IO + 8, 0b0110, 9, 2, &[5, 6], [0, 5, 6, 0]),
    ];
    for (address, be, offset, len, bytes, dw) in rows {
        let mut bench = plain();
        bench.handle(io(Access::Read, address, be, Data::NONE));
        let (token, op) = op(&bench);
        let RequestOp::Read { bar: BarIndex(3), offset: o, span, locked: false } = op else {
            panic!("{op:?}")
        };
        assert_eq!((o, span.byte_count()), (offset, len));
        let tlp = answer(&mut bench, token, Ok(carried(bytes)));
        assert_eq!(fields(&tlp), (Status::Success, 4, 0, Some(1), false));
        assert_eq!(tlp.data.bytes(), Some(&dw[..]));
        assert_eq!(completion(&tlp).tag, Tag::from_bits(5));
    }
}

#[test]
fn io_writes_are_answered_without_data() {
    let mut bench = plain();
    bench.handle(io(Access::Write, IO + 4, 0b0110, carried(&[0xaa, 0xbb])));
    let (token, op) = op(&bench);
    let RequestOp::WriteNonPosted { bar: BarIndex(3), offset: 5, data, deferrable: false, .. } = op else {
        panic!("{op:?}")
    };
    assert_eq!(data.bytes(), Some(&[0xaa, 0xbb][..]));
    assert_eq!(fields(&answer(&mut bench, token, Ok(Data::NONE))), (Status::Success, 4, 0, None, false));
    assert_eq!(bench.credits()[1], (1, 1), "one header, one DW of data");
}

/// A request that no enabled I/O BAR holds is an Unsupported Request, and so is a memory request at the address of an
/// I/O BAR, and vice versa (`PCIe 5.0 §7.5.1.1.3`).
#[test]
fn unclaimed_io_is_refused() {
    let rows = [
        (0x7, io(Access::Read, IO + 16, 0xf, Data::NONE)),
        (0x6, io(Access::Read, IO, 0xf, Data::NONE)),
        (0x6, io(Access::Write, IO, 0xf, carried(&[0; 4]))),
        (0x7, io(Access::Read, BAR2 as u32, 0xf, Data::NONE)),
        (0x7, mrd(0, u64::from(IO), 4)),
    ];
    for (command, tlp) in rows {
        let mut bench = plain();
        bench.write_config(0, COMMAND, command);
        bench.handle(tlp.clone());
        assert!(bench.probe().take_inputs().is_empty(), "{tlp}");
        let answer = bench.poll(Class::Completion).unwrap();
        assert_eq!((fields(&answer).0, fields(&answer).3), (Status::UnsupportedRequest, None), "{tlp}");
        assert_eq!(bench.endpoint.counters().unsupported_requests, 1);
    }
}

/// Operation, bytes of the operand, sizes that the function completes; whether the device sees it (`PCIe 5.0 §6.15.3`).
#[test]
fn atomics_reach_only_functions_that_complete_their_size() {
    use AtomicOp::{CompareSwap, FetchAdd, Swap};
    let rows = [
        (FetchAdd, 4, AtomicSupport::BITS_32, true),
        (Swap, 8, AtomicSupport::BITS_64, true),
        (CompareSwap, 16, AtomicSupport::CAS_128, true),
        (CompareSwap, 4, AtomicSupport::all(), true),
        (FetchAdd, 4, AtomicSupport::BITS_64, false),
        (Swap, 8, AtomicSupport::BITS_32, false),
        (CompareSwap, 16, AtomicSupport::BITS_32 | AtomicSupport::BITS_64, false),
        (FetchAdd, 8, AtomicSupport::empty(), false),
    ];
    for (what, size, atomics, seen) in rows {
        let mut bench = bench(PcieLayout { atomics, ..PcieLayout::default() });
        let operands: Vec<u8> = (0..size * what.operands() as u8).collect();
        bench.handle(atomic(what, BAR0 + 0x40, &operands));
        if !seen {
            let tlp = bench.poll(Class::Completion).unwrap();
            assert_eq!(fields(&tlp), (Status::UnsupportedRequest, u16::from(size), 0, None, false));
            assert!(bench.probe().take_inputs().is_empty());
            continue;
        }
        let (token, op) = op(&bench);
        let RequestOp::Atomic { bar: BarIndex(0), offset: 0x40, op, operands: got } = op else {
            panic!("{op:?}")
        };
        assert_eq!((op, got.bytes()), (what, Some(&operands[..])));
        // Byte Count is the operand's size, Lower Address reserved (`§2.2.9`), though the address ends in 40h.
        let tlp = answer(&mut bench, token, Ok(carried(&vec![0xee; size.into()])));
        let dw = u16::from(size) / 4;
        assert_eq!(fields(&tlp), (Status::Success, u16::from(size), 0, Some(dw), false));
    }
}

#[test]
fn an_atomic_that_is_not_aligned_is_malformed() {
    let mut bench = bench(PcieLayout { atomics: AtomicSupport::all(), ..PcieLayout::default() });
    bench.handle(atomic(AtomicOp::FetchAdd, BAR0 + 4, &[0; 8]));
    bench.handle(atomic(AtomicOp::CompareSwap, BAR0 + 8, &[0; 32]));
    assert!(bench.poll(Class::Completion).is_none() && bench.probe().take_inputs().is_empty());
    assert_eq!(bench.endpoint.counters().malformed, 2);
    assert_eq!(bench.config(AER_STATUS), 1 << 18);
    assert_eq!(bench.credits()[1], (2, 3), "all credits go back: 8 and 32 B are 1 and 2 units");
}

/// Poisoned non-posted requests have no effect, are logged as poisoned, and answered with UR (`PCIe 5.0 §2.7.2.2`).
#[test]
fn poisoned_requests_are_refused() {
    let config_write = cfg(Access::Write, EP, 4, 0xf, &[0; 4]);
    let dmwr = memory(MemoryOp::WriteDeferrable, 1, BAR0, 4, carried(&[0; 4]));
    let rows = [
        io(Access::Write, IO, 0xf, carried(&[1; 4])),
        atomic(AtomicOp::Swap, BAR0, &[1; 4]),
        dmwr,
        config_write,
    ];
    for mut tlp in rows {
        let layout = PcieLayout {
            atomics: AtomicSupport::all(),
            deferrable_write: Some(DeferrableLength::Bytes64),
            ..PcieLayout::default()
        };
        let mut bench = bench(layout);
        tlp.repr.ep = true;
        let before = bench.config(4);
        bench.handle(tlp.clone());
        assert!(bench.probe().take_inputs().is_empty(), "{tlp}");
        assert_eq!(fields(&bench.poll(Class::Completion).unwrap()).0, Status::UnsupportedRequest, "{tlp}");
        // Never advisory.
        assert_eq!((bench.config(AER_STATUS), bench.config(AER_STATUS + 3)), (1 << 12, 0), "{tlp}");
        assert_eq!(bench.config(4), before, "{tlp}");
        assert_eq!(bench.config(COMMAND) >> 31, 1, "Detected Parity Error");
        assert_eq!(bench.endpoint.counters().poisoned_requests, 1);
    }
}

/// CplDLk and CplLk answer MRdLk; only a legacy endpoint serves it (`PCIe 5.0 §6.5.6`, §6.5.7).
#[test]
fn only_legacy_endpoints_serve_locked_reads() {
    let unlock = || {
        let (tag, header) = (Tag::default(), [0; 8]);
        let body = Message {
            routing: MessageRouting::Broadcast,
            requester: HOST,
            tag,
            code: 0,
            header,
            length_dw: None,
        };
        Tlp::new(Repr::new(Body::Message(body)), Data::NONE)
    };
    let locked = || memory(MemoryOp::ReadLocked, 3, BAR0 + 8, 8, Data::NONE);
    let mut bench_ = plain();
    bench_.handle(locked());
    let refusal = bench_.poll(Class::Completion).unwrap();
    assert_eq!(fields(&refusal), (Status::UnsupportedRequest, 8, 8, None, true));
    bench_.handle(unlock());
    assert!(bench_.probe().take_inputs().is_empty(), "ignored");

    let mut bench = bench(PcieLayout { legacy: true, ..PcieLayout::default() });
    bench.handle(locked());
    let (token, request) = op(&bench);
    assert!(
        matches!(request, RequestOp::Read { bar: BarIndex(0), offset: 8, locked: true, .. }),
        "{request:?}"
    );
    let tlp = answer(&mut bench, token, Ok(carried(&[1; 8])));
    assert_eq!(fields(&tlp), (Status::Success, 8, 8, Some(2), true));
    bench.handle(unlock());
    let (_, request) = op(&bench);
    let broadcast = MessageRouting::Broadcast;
    assert!(
        matches!(request, RequestOp::Message { code: 0, routing, .. } if routing == broadcast),
        "{request:?}"
    );
}

/// Lengths that the function takes, bytes of the write, the device's answer; status (ECN "Deferrable Memory Write").
#[test]
fn deferrable_writes_return_status_of_the_device() {
    use DeferrableLength::{Bytes64, Bytes128};
    let rows = [
        (Some(Bytes64), 64, Some(Ok(Data::NONE)), Status::Success),
        (Some(Bytes64), 64, Some(Err(CompletionError::Retry)), Status::ConfigRetry),
        (Some(Bytes128), 128, Some(Err(CompletionError::CompleterAbort)), Status::CompleterAbort),
        (Some(Bytes64), 128, None, Status::UnsupportedRequest),
        (None, 4, None, Status::UnsupportedRequest),
    ];
    for (deferrable_write, len, result, status) in rows {
        let mut bench = bench(PcieLayout { deferrable_write, ..PcieLayout::default() });
        bench.handle(memory(MemoryOp::WriteDeferrable, 4, BAR0 + 0x40, len, carried(&vec![3; len as usize])));
        let tlp = match result {
            None => bench.poll(Class::Completion).unwrap(),
            Some(result) => {
                let (token, op) = op(&bench);
                let RequestOp::WriteNonPosted { bar: BarIndex(0), offset: 0x40, deferrable: true, .. } = op
                else {
                    panic!("{op:?}")
                };
                answer(&mut bench, token, result)
            }
        };
        assert_eq!(fields(&tlp), (status, 4, 0, None, false), "{deferrable_write:?}, {len}");
    }
}

#[test]
fn only_a_deferrable_write_may_be_retried() {
    let mut bench = plain();
    bench.handle(mrd(1, BAR0, 4));
    let (token, _) = op(&bench);
    let tlp = answer(&mut bench, token, Err(CompletionError::Retry));
    assert_eq!(fields(&tlp).0, Status::CompleterAbort);
}

fn dma_atomic(id: u32, address: u64, op: AtomicOp, operands: &[u8]) -> Output {
    let (id, operands, options) = (DmaId(id), carried(operands), DmaOptions::default());
    Output::Atomic(DmaAtomic::new(id, address, op, operands).with_options(options))
}

/// Operation, operands, Length; the value that is returned (`PCIe 5.0 Table 2-14`).
#[test]
fn device_sends_atomics_and_gets_the_old_value() {
    let rows: [(AtomicOp, usize, u32, usize); 7] = [
        (AtomicOp::FetchAdd, 4, 1, 4),
        (AtomicOp::FetchAdd, 8, 2, 8),
        (AtomicOp::Swap, 4, 1, 4),
        (AtomicOp::Swap, 8, 2, 8),
        (AtomicOp::CompareSwap, 8, 2, 4),
        (AtomicOp::CompareSwap, 16, 4, 8),
        (AtomicOp::CompareSwap, 32, 8, 16),
    ];
    for (what, bytes, dw, size) in rows {
        let mut bench = plain();
        bench.write_config(0, DEVICE_CONTROL_2, ATOMIC_REQUESTER);
        bench.probe().push(Class::NonPosted, dma_atomic(9, 0x1_0000_0010, what, &vec![1; bytes]));
        let tlp = bench.poll(Class::NonPosted).unwrap();
        let Body::Atomic(a) = tlp.repr.body else { panic!("{tlp}") };
        assert_eq!((a.op, a.address, tlp.repr.data_dw(), a.requester), (what, 0x1_0000_0010, dw, EP));
        assert!(tlp.carry);
        let body = Completion {
            byte_count: size as u16,
            length_dw: Some(size as u16 / 4),
            ..Completion::new(HOST, EP, a.tag)
        };
        bench.handle(Tlp::new(Repr::new(Body::Completion(body)), carried(&vec![0x5a; size])));
        let (id, result) = bench.probe().done().pop().unwrap();
        assert_eq!((id, result.unwrap().bytes()), (9, Some(&vec![0x5a; size][..])), "{what:?} of {size}");
        assert_eq!(bench.endpoint.tags(0).unwrap().0, 0);
    }
}

#[test]
fn disabled_atomics_fail() {
    let rows = [
        (0x7, 0, 0x1000, &[0u8; 4][..], DmaError::AtomicsDisabled),
        (0x3, ATOMIC_REQUESTER, 0x1000, &[0; 4], DmaError::BusMasterDisabled),
        (0x7, ATOMIC_REQUESTER, 0x1002, &[0; 4], DmaError::BadAtomic),
        (0x7, ATOMIC_REQUESTER, 0x1004, &[0; 8], DmaError::BadAtomic),
        (0x7, ATOMIC_REQUESTER, 0x1000, &[0; 16], DmaError::BadAtomic),
        (0x7, ATOMIC_REQUESTER, 0x1000, &[0; 3], DmaError::BadAtomic),
    ];
    for (command, control_2, address, operands, error) in rows {
        let mut bench = plain();
        bench.write_config(0, COMMAND, command);
        bench.write_config(0, DEVICE_CONTROL_2, control_2);
        bench.probe().push(Class::NonPosted, dma_atomic(1, address, AtomicOp::FetchAdd, operands));
        assert!(bench.poll(Class::NonPosted).is_none());
        assert_eq!(bench.probe().done(), [(1, Err(error))]);
    }
}

/// Device Control, Device Control 2; the first tag and the number of tags (`PCIe 5.0 §2.2.6.2`): 5, 8 and 10 bits.
/// 10-bit tags never have bits 9:8 of 00b, which are reserved for completers with 8-bit tags.
#[test]
fn only_enabled_tags_are_used() {
    let rows =
        [(0x2830, 0, 0, 32), (0x2930, 0, 0, 256), (0x2830, 1 << 12, 256, 768), (0x2930, 1 << 12, 256, 768)];
    for (control, control_2, first, count) in rows {
        let mut bench = plain();
        bench.write_config(0, DEVICE_CONTROL, control);
        bench.write_config(0, DEVICE_CONTROL_2, control_2);
        for id in 0..1000 {
            bench.probe().push(Class::NonPosted, read(id, u64::from(id) * 64, 64));
        }
        let tags: Vec<u16> = bench.poll_all(Class::NonPosted).iter().map(|t| request(t).tag.bits()).collect();
        assert_eq!(tags, (first..first + count).collect::<Vec<u16>>());
        let oldest = mrd(first, 0, 64);
        let Body::Memory(m) = oldest.repr.body else { unreachable!() };
        let asked = Tlp::new(Repr::new(Body::Memory(MemoryRequest { requester: EP, ..m })), Data::NONE);
        for tlp in crate::endpoint::harness::answer(&asked.with_carry(true)) {
            bench.handle(tlp);
        }
        let again = bench.poll(Class::NonPosted).unwrap();
        assert_eq!(request(&again).tag.bits(), first, "the tag whose last completion has arrived");
    }
}

#[test]
fn ecrc_is_generated_if_enabled() {
    for (control, td) in [(0, false), (1 << 6, true)] {
        let mut bench = plain();
        bench.write_config(0, AER_CONTROL, control);
        bench.probe().push(Class::Posted, write(0x1000, Data::Counted(4)));
        bench.probe().push(Class::NonPosted, read(1, 0x1000, 4));
        assert_eq!(bench.poll(Class::Posted).unwrap().repr.td, td);
        assert_eq!(bench.poll(Class::NonPosted).unwrap().repr.td, td);
        bench.handle(mrd(1, 0xdead_0000, 4));
        assert_eq!(bench.poll(Class::Completion).unwrap().repr.td, td, "of the endpoint itself");
    }
}

/// TD and a wrong digest: the TLP is dropped and logged as ECRC Error if ECRC is checked (`PCIe 5.0 §2.7.1`), otherwise
/// accepted.
#[test]
fn ecrc_is_checked_if_enabled() {
    let wrong = |td: bool| {
        let mut tlp = mwr(BAR0, &[1, 2, 3, 4]);
        (tlp.repr.td, tlp.flaw) = (td, Flaw::WrongEcrc);
        tlp
    };
    for (control, td, taken) in [(0, true, 1), (1 << 8, true, 0), (1 << 8, false, 1)] {
        let mut bench = plain();
        bench.write_config(0, AER_CONTROL, control);
        bench.handle(wrong(td));
        assert_eq!(bench.probe().tokens().len(), taken);
        assert_eq!(bench.endpoint.counters().ecrc_errors, 1 - taken as u64);
        assert_eq!(bench.config(AER_STATUS), if taken == 0 { 1 << 19 } else { 0 });
        assert_eq!(bench.credits()[0], (1, 1), "its credits go back either way");
    }
    let space = plain();
    assert_eq!(space.config(AER_CONTROL) & 0x1e0, 0x0a0, "capable of both, neither enabled");
}

#[test]
fn hints_and_prefixes_go_with_every_tlp() {
    let mut bench = plain();
    let hint = Hint { st: 0x2a, ..Hint::default() };
    let options = || DmaOptions::default().with_pasid(0x12345).with_hint(hint);
    let data = Data::Counted(300);
    bench.probe().push(Class::Posted, Output::Write(DmaWrite::new(0x1000, data).with_options(options())));
    let tlps = bench.poll_all(Class::Posted);
    assert_eq!(tlps.len(), 2, "256 B and 44 B");
    assert!(tlps.iter().all(|t| t.repr.th == Some(hint) && t.prefixes.pasid() == Some(0x12345)));
    // With a hint a read's Byte Enables are implied (`PCIe 5.0 §2.2.7.1`): a piece that is not a multiple of DWs has no
    // hint.
    let r = DmaRead::new(DmaId(1), 0x1000, 514).counted().with_options(options());
    bench.probe().push(Class::NonPosted, Output::Read(r));
    let hints: Vec<bool> = bench.poll_all(Class::NonPosted).iter().map(|t| t.repr.th.is_some()).collect();
    assert_eq!(hints, [true, false]);
}
