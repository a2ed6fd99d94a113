// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unusual TLPs from a device. Each is handled as specified, is counted, and returns its credits. For any TLPs, the run
//! ends and the links still work.

use crate::common::link;
use crate::common::system::{BAR_BYTES, HIGH, HIGH_BYTES, LOW_BYTES, Raw, System, Told, bar, credits, text};
use crate::common::tlps::poisoned;
use device::io::Request;
use device::{DmaError, Io};
use proptest::prelude::*;
use riser_fabric::{AddressMap, Fabric, Limits, LinkId, PortId, RootCounters, Side, Stop};
use tlp::{
    Access, AddressType, AtomicOp, AtomicRequest, Attributes, Bdf, Body, Class, Completion, ConfigKind,
    ConfigRequest, Data, Duration, Flaw, IoRequest, MemoryOp, MemoryRequest, Message, MessageRouting, Mps,
    OperandSize, PayloadPool, Prefix, Prefixes, Rate, Repr, Span, Status, Tag, TcSet, Time, Tlp,
    TrafficClass, rules,
};

/// The raw device sends as 01:00.0.
const DEVICE: Bdf = Bdf::from_bits(0x0100);
/// More TLPs of a kind than the 127 header credits.
const MANY: u64 = 300;

fn tlp(body: Body, data: Data) -> Tlp {
    Tlp::new(Repr::new(body), data).with_carry(true)
}

fn memory(op: MemoryOp, tag: u16, span: Span, data: Data) -> Tlp {
    tlp(Body::Memory(MemoryRequest { op, requester: DEVICE, tag: Tag::from_bits(tag), span }), data)
}

fn write(address: u64, bytes: &[u8]) -> Tlp {
    let span = Span::covering(address, bytes.len() as u32).unwrap();
    memory(MemoryOp::Write, 0, span, Data::Carried(PayloadPool::new().copy(bytes)))
}

fn read(address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Read, 5, Span::covering(address, len).unwrap(), Data::NONE)
}

fn config(op: Access, kind: ConfigKind) -> Tlp {
    let data = if op == Access::Write { Data::Carried(PayloadPool::new().copy(&[1; 4])) } else { Data::NONE };
    let request =
        ConfigRequest { kind, ..ConfigRequest::new(op, DEVICE, Tag::from_bits(5), Bdf::from_bits(0), 4) };
    tlp(Body::Config(request), data)
}

fn completion(tag: u16, requester: u16, dw: Option<u16>) -> Tlp {
    let body = Completion {
        byte_count: dw.map_or(4, |dw| dw * 4),
        length_dw: dw,
        ..Completion::new(DEVICE, Bdf::from_bits(requester), Tag::from_bits(tag))
    };
    tlp(Body::Completion(body), Data::Counted(u32::from(dw.unwrap_or(0)) * 4))
}

fn message(code: u8, dw: Option<u16>) -> Tlp {
    let routing = MessageRouting::ToRootComplex;
    let body =
        Message { routing, requester: DEVICE, tag: Tag::default(), code, header: [0; 8], length_dw: dw };
    tlp(Body::Message(body), Data::Counted(u32::from(dw.unwrap_or(0)) * 4))
}

fn with_data(mut tlp: Tlp, data: Data) -> Tlp {
    tlp.data = data;
    tlp
}

/// Runs a root port whose device sends `tlps`, MPS 256.
fn send(tlps: impl IntoIterator<Item = Tlp>) -> (Fabric, Raw, host::HostMemory) {
    let raw = Raw::new();
    tlps.into_iter().for_each(|tlp| raw.send(1_000, tlp));
    let system = System::new();
    let memory = system.memory.clone();
    memory.write(0x1000, &[0xee; 8192]).unwrap();
    (system.raw(link(Rate::Gt8, 8, 256), &raw).without_program(), raw, memory)
}

/// Expected answer: status, Byte Count, Lower Address and data of a completion.
type Answer = Option<(Status, u16, u8, Option<u16>)>;

/// Rows: a TLP, the answer (`PCIe 5.0 §2.2.9`, §2.3.1), the counters, and whether the byte at 0x1000 changes.
#[test]
fn odd_tlps_are_handled_as_specified_and_counted() {
    use Status::{Success, UnsupportedRequest};
    let one = |count: fn(&mut RootCounters) -> &mut u64, n| {
        let mut counters = RootCounters::default();
        *count(&mut counters) = n;
        counters
    };
    let (ur, malformed) = (one(|c| &mut c.unsupported_requests, MANY), one(|c| &mut c.malformed, MANY));
    let unexpected = one(|c| &mut c.unexpected_completions, MANY);
    let served = one(|c| &mut c.memory_reads, MANY);
    let written = one(|c| &mut c.memory_writes, MANY);
    let none = RootCounters::default();
    let from_vendor = RootCounters { messages: MANY, vendor_messages: MANY, ..none };
    let span = |address, dw, first, last| Span::from_fields(address, dw, first, last).unwrap();
    let holes = memory(
        MemoryOp::Write,
        0,
        span(0x1000, 1, 0b1010, 0),
        Data::Carried(PayloadPool::new().copy(&[1, 2, 3])),
    );
    let zero = |op, address, data| memory(op, 5, Span::zero_length(address), data);
    type Row = (&'static str, Tlp, Answer, RootCounters, [u8; 4]);
    let same = [0xee; 4];
    let rows: Vec<Row> = vec![
        ("a good write", write(0x1000, &[1, 2, 3, 4]), None, written, [1, 2, 3, 4]),
        ("a write with holes", holes, None, written, [0xee, 1, 0xee, 3]),
        ("a good read", read(0x1001, 4), Some((Success, 4, 1, Some(2))), served, same),
        // §2.2.2: data within Max_Payload_Size; malformed TLPs are dropped.
        ("too much data", write(0x1000, &[7; 260]), None, malformed, same),
        ("a message with too much data", message(0x7e, Some(65)), None, malformed, same),
        (
            "less data than its header says",
            with_data(write(0x1000, &[7; 64]), Data::Counted(60)),
            None,
            malformed,
            same,
        ),
        (
            "more data than its header says",
            with_data(write(0x1000, &[7; 4]), Data::Counted(8)),
            None,
            malformed,
            same,
        ),
        // §2.3.1: an unclaimed request is Unsupported.
        ("a write to nowhere", write(LOW_BYTES, &[1; 4]), None, ur, same),
        ("a write to another device", write(0x8000_0000, &[1; 4]), None, ur, same),
        ("a write beyond all memory", write(u64::MAX - 3, &[1; 4]), None, ur, same),
        ("a read of nowhere", read(LOW_BYTES + 3, 64), Some((UnsupportedRequest, 64, 3, None)), ur, same),
        (
            "a read of a window of the host",
            read(0xfee0_0000, 4),
            Some((UnsupportedRequest, 4, 0, None)),
            ur,
            same,
        ),
        (
            "the last bytes of memory",
            read(HIGH + HIGH_BYTES - 8, 8),
            Some((Success, 8, 0x78, Some(2))),
            served,
            same,
        ),
        ("a read beyond them", read(HIGH + HIGH_BYTES, 8), Some((UnsupportedRequest, 8, 0, None)), ur, same),
        // §2.2.7: configuration requests only go down.
        (
            "CfgRd0 up",
            config(Access::Read, ConfigKind::Type0),
            Some((UnsupportedRequest, 4, 0, None)),
            ur,
            same,
        ),
        (
            "CfgWr1 up",
            config(Access::Write, ConfigKind::Type1),
            Some((UnsupportedRequest, 4, 0, None)),
            ur,
            same,
        ),
        // §2.3.2.
        ("a completion of nothing", completion(3, 0, Some(1)), None, unexpected, same),
        ("with a tag without a request", completion(999, 0, None), None, unexpected, same),
        ("for somebody else", completion(0, 0x0200, Some(64)), None, unexpected, same),
        // §2.7.2.2: poisoned data is not written.
        ("a poisoned write", poisoned(write(0x1000, &[1; 4])), None, one(|c| &mut c.poisoned, MANY), same),
        (
            "a poisoned interrupt",
            poisoned(write(0xfee0_0000, &[1; 4])),
            None,
            one(|c| &mut c.poisoned, MANY),
            same,
        ),
        // §2.2.5: a zero-length read answers one byte, a zero-length write does nothing.
        ("a flush", zero(MemoryOp::Read, 0x1000, Data::NONE), Some((Success, 1, 0, Some(1))), served, same),
        (
            "a flush of nowhere",
            zero(MemoryOp::Read, LOW_BYTES, Data::NONE),
            Some((UnsupportedRequest, 1, 0, None)),
            ur,
            same,
        ),
        ("a write of nothing", zero(MemoryOp::Write, 0x1000, Data::Counted(1)), None, none, same),
        ("an interrupt of nothing", zero(MemoryOp::Write, 0xfee0_0000, Data::Counted(1)), None, none, same),
        ("a message", message(0x7f, None), None, from_vendor, same),
        // §2.3.1: a message without a receiver is Unsupported, except Vendor_Defined Type 1 and the Ignored Messages (§2.2.8.7).
        ("Vendor_Defined Type 0", message(0x7e, None), None, RootCounters { messages: MANY, ..ur }, same),
        ("an unknown message", message(0x60, None), None, RootCounters { messages: MANY, ..ur }, same),
        ("an Ignored Message", message(0x41, None), None, one(|c| &mut c.messages, MANY), same),
        ("a message with data", message(0x7f, Some(64)), None, from_vendor, same),
        ("an interrupt", write(0xfee0_0000, &[32, 0, 0, 0]), None, one(|c| &mut c.interrupts, MANY), same),
    ];
    for (what, tlp, answer, counters, left) in rows {
        let (mut fabric, raw, memory) = send((0..MANY).map(|_| tlp.clone()));
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{what}");
        assert_eq!(*fabric.root().counters(), counters, "{what}");
        let received = raw.received();
        assert_eq!(received.len() as u64, if answer.is_some() { MANY } else { 0 }, "{what}");
        for got in received {
            let Body::Completion(c) = got.repr.body else { panic!("{what}: {got}") };
            assert_eq!(Some((c.status, c.byte_count, c.lower_address, c.length_dw)), answer, "{what}");
            assert_eq!((c.requester, c.tag), tlp.repr.transaction(), "{what}");
        }
        let mut bytes = [0; 4];
        memory.read(0x1000, &mut bytes).unwrap();
        assert_eq!(bytes, left, "{what}");
    }
}

/// A transfer of an endpoint beyond the end of memory. It is split at 4 KiB; the first part is served, and the second
/// is refused.
#[test]
fn a_dma_read_that_runs_into_unmapped_memory_fails() {
    let ended = Told::new();
    let told = ended.clone();
    let mut fabric = System::new()
        .device(link(Rate::Gt8, 8, 256), move |io: Io| {
            let told = told.clone();
            async move {
                let Some(Request::Write(_)) = io.next_request().await else { return Ok(()) };
                let over = io.dma_read(LOW_BYTES - 64, 128).await.map(|_| ());
                let within = io.dma_read(LOW_BYTES - 64, 64).await.map(|_| ());
                told.set((over, within));
                // As on a real host, a write beyond the end of memory loses that part.
                io.dma_write(LOW_BYTES - 4, [0x11; 8]).await?;
                io.interrupt(0).await
            }
        })
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            if cpu.memory().read_u32(LOW_BYTES - 4) == Ok(0x1111_1111) {
                Ok(())
            } else {
                Err("not written".into())
            }
        });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(ended.get(), Some((Err(DmaError::UnsupportedRequest), Ok(()))));
    assert_eq!(
        (fabric.root().counters().memory_reads, fabric.root().counters().unsupported_requests),
        (2, 2)
    );
}

/// A device that never takes completions, and has credits for three. Its requests of every kind wait in the root port's
/// receive buffer, but its writes continue.
#[test]
fn unsendable_answers_block_only_their_requester() {
    struct Deaf(Raw);
    impl endpoint::TlpPort for Deaf {
        fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
            self.0.handle_tlp(now, tlp);
        }
        fn poll_tlp(&mut self, now: Time, class: Class, room: tlp::TcSet) -> Option<Tlp> {
            self.0.poll_tlp(now, class, room)
        }
        fn poll_credits(&mut self) -> Option<endpoint::CreditReturn> {
            None
        }
        fn poll_timeout(&self) -> Option<Time> {
            self.0.poll_timeout()
        }
        fn handle_timeout(&mut self, now: Time) {
            self.0.handle_timeout(now);
        }
        fn waits_for(&self) -> Option<String> {
            self.0.waits_for()
        }
    }
    for request in [config(Access::Read, ConfigKind::Type0), read(LOW_BYTES, 4), read(0x1000, 4)] {
        let raw = Raw::new();
        (0..2_000).for_each(|_| raw.send(1_000, request.clone()));
        (0..100).for_each(|_| raw.send(50_000, write(0x1000, &[1; 4])));
        let mut system = System::new();
        system.host.max_reads_per_port = 16;
        let mut link = link(Rate::Gt8, 8, 256);
        credits(&mut link, false, Class::Completion, 3, 48);
        system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Deaf(raw.clone()))));
        let mut fabric = system.without_program();
        let Stop::NoProgress(lines) = fabric.run(Limits::default()) else { panic!("{request}") };
        assert_eq!((raw.received().len(), fabric.root().counters().memory_writes), (3, 100), "{request}");
        // Three are answered, 8 answers are in the transmit queue, 16 in the root port; 127 more requests wait in its
        // receive buffer, and 8 in the device's transmit queue.
        assert_eq!(raw.0.borrow().unsent(), 2_000 - 3 - 8 - 16 - 127 - 8, "{request}");
        let all = lines.join("\n");
        for part in [
            "read completions waiting to be sent",
            "127 device requests waiting for memory",
            "no completion header credits",
        ] {
            assert!(all.contains(part), "`{part}` in:\n{all}");
        }
    }
}

fn any_body() -> impl Strategy<Value = Body> {
    let address = prop_oneof![
        0..LOW_BYTES + 0x2000,
        HIGH - 0x100..HIGH + 0x4000,
        0xfedf_f000..0xfef0_1000u64,
        (AddressMap::MMIO32_BASE..AddressMap::MMIO32_BASE + BAR_BYTES),
        any::<u64>(),
    ];
    let span = (address.clone(), 1u32..1025, 0u8..16, 0u8..16).prop_map(|(address, dw, first, last)| {
        Span::from_fields(address & !3, dw, first, last).unwrap_or(Span::in_dw(address, first))
    });
    let id = prop_oneof![Just(0u16), Just(0x100), any::<u16>()].prop_map(Bdf::from_bits);
    let tag = prop_oneof![0u16..4, 0u16..1024].prop_map(Tag::from_bits);
    let op = || {
        use MemoryOp::{Read, ReadLocked, Write, WriteDeferrable};
        prop::sample::select(vec![Read, Read, Write, Write, ReadLocked, WriteDeferrable])
    };
    let access = || prop::sample::select(vec![Access::Read, Access::Write]);
    // Most are valid. Invalid are FetchAdd and Swap of 128 bits, and an address that is not a multiple of the operand
    // size.
    let atomic = (
        prop::sample::select(vec![AtomicOp::FetchAdd, AtomicOp::Swap, AtomicOp::CompareSwap]),
        prop::sample::select(vec![OperandSize::Bits32, OperandSize::Bits64, OperandSize::Bits128]),
    );
    let length = || prop_oneof![Just(None), (1u16..1025).prop_map(Some)];
    prop_oneof![
        4 => (op(), id.clone(), tag.clone(), span)
            .prop_map(|(op, requester, tag, span)| Body::Memory(MemoryRequest { op, requester, tag, span })),
        2 => (id.clone(), id.clone(), tag.clone(), 0u8..8, 1u16..4097, 0u8..128, length()).prop_map(
            |(completer, requester, tag, status, byte_count, lower_address, length_dw)| Body::Completion(Completion {
                locked: tag.bits() == 1,
                completer, requester, tag, status: Status::from_bits(status), bcm: false, byte_count, lower_address, length_dw,
            })
        ),
        1 => (access(), any::<bool>(), id.clone(), tag.clone(), id.clone(), 0u16..1024, 0u8..16).prop_map(
            |(op, one, requester, tag, completer, register_dw, first_be)| Body::Config(ConfigRequest { kind: if one { ConfigKind::Type1 } else { ConfigKind::Type0 }, first_be, ..ConfigRequest::new(op, requester, tag, completer, register_dw) })
        ),
        1 => (atomic, id.clone(), tag.clone(), address).prop_map(|((op, operand), requester, tag, address)| {
            Body::Atomic(AtomicRequest { op, operand, requester, tag, address: address & !3 })
        }),
        1 => (access(), id.clone(), tag.clone(), any::<u32>(), 0u8..16).prop_map(|(op, requester, tag, address, first_be)| {
            Body::Io(IoRequest { op, requester, tag, address: address & !3, first_be })
        }),
        1 => (0u8..8, id, tag, any::<u8>(), any::<[u8; 8]>(), length()).prop_map(
            |(routing, requester, tag, code, header, length_dw)| Body::Message(Message {
                routing: MessageRouting::from_bits(routing), requester, tag, code, header, length_dw,
            })
        ),
    ]
}

fn any_tlp() -> impl Strategy<Value = Tlp> {
    // A complete TLP, with the data that the header announces. Otherwise with any data.
    let data = prop_oneof![8 => Just(None), 1 => (0usize..5000, any::<bool>()).prop_map(Some)];
    // With a wrong digest, or with some prefixes.
    let odd = (prop::bool::weighted(0.1), prop::collection::vec(0x80u32..0xa0, 0..3));
    let prefixed = prop_oneof![8 => Just((false, Vec::new())), 1 => odd];
    (
        any_body(),
        0u8..8,
        0u8..8,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        any::<bool>(),
        data,
        prefixed,
    )
        .prop_map(|(body, tc, attr, td, ep, carry, data, (ecrc_wrong, prefixes))| {
            let mut repr = Repr::new(body);
            if matches!(body, Body::Config(_) | Body::Io(_)) && carry {
                return Tlp::new(repr, Data::Counted(repr.data_lanes().len() as u32));
            }
            (repr.tc, repr.attr) = (TrafficClass::from_bits(tc), Attributes::from_bits_truncate(attr));
            (repr.td, repr.ep, repr.at) = (td, ep, AddressType::Untranslated);
            let (len, carried) = data.unwrap_or((repr.data_lanes().len(), carry));
            let bytes = |n| Data::Carried(PayloadPool::new().copy(&vec![0x5a; n]));
            let prefixes: Vec<Prefix> = prefixes.into_iter().map(|kind| Prefix(kind << 24)).collect();
            let prefixes = Prefixes::new(&prefixes).unwrap();
            let data = if carried { bytes(len) } else { Data::Counted(len as u32) };
            let flaw = if ecrc_wrong { Flaw::WrongEcrc } else { Flaw::None };
            Tlp { prefixes, flaw, ..Tlp::new(repr, data).with_carry(carry) }
        })
}

/// Number of TLPs sent by a port, and received by the other end's owner.
fn sent(fabric: &Fabric, side: Side) -> u64 {
    fabric.port_counters(PortId::new(LinkId(0), side)).tlps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// A raw device sends anything while a host reads from it, on a link with few credits and bit errors. The code does
    /// not panic and the run ends. All sent TLPs have arrived, each well-formed request was answered, and no credit is
    /// lost, because the last TLP arrives.
    #[test]
    fn random_tlps_do_not_break_the_root_complex(
        tlps in prop::collection::vec(any_tlp(), 1..120),
        few in 1u16..4,
        errors in prop_oneof![Just(0u64), Just(500_000)],
    ) {
        let (raw, count) = (Raw::new(), tlps.len() as u64);
        // A malformed TLP, or one with a wrong digest, is not answered.
        let limits = rules::Limits { mps: Mps::default(), tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes: 4 };
        let is_question = |t: &&Tlp| {
            let is_good = rules::check_received(t, &limits).is_ok() && !t.has_wrong_ecrc();
            t.class() == Class::NonPosted && is_good
        };
        let questions = tlps.iter().filter(is_question).count();
        tlps.into_iter().for_each(|tlp| raw.send(1_000, tlp));
        raw.send(1_000_000, write(0x3000, b"last"));
        raw.send(1_000_000, read(0x3000, 4));
        let mut link = link(Rate::Gt16, 4, 128);
        link.bit_error_rate = u64::MAX.checked_div(errors).unwrap_or(0);
        // A TLP of 4 KiB takes 256 data credits; here a device need not respect Max_Payload_Size, or 128 B in a DMWr.
        credits(&mut link, true, Class::Posted, few, 256 * few);
        credits(&mut link, true, Class::NonPosted, few, 256 * few);
        let mut system = System::new();
        system.host.completion_timeout = Duration::from_us(100);
        system.host.memory_read_latency = Duration::from_ns(300);
        system.host.max_reads_per_port = u32::from(few);
        let memory = system.memory.clone();
        let mut fabric = system.raw(link, &raw).with_bare_program(|cpu| async move {
            for n in 0..8 {
                let _ = cpu.read(AddressMap.mmio32(0).base + n * 64, 64).await;
                cpu.write(AddressMap.mmio32(0).base, [1; 64]).await.map_err(text)?;
            }
            cpu.sleep_until(Time::ZERO + Duration::from_ms(3)).await;
            Ok(())
        });
        let until = Time::ZERO + Duration::from_ms(20);
        let limits = Limits { until, events: 2_000_000, ..Limits::default() };
        prop_assert_eq!(fabric.run(limits), Stop::Finished);
        prop_assert_eq!(sent(&fabric, Side::Device), count + 2);
        let answers = raw.received().iter().filter(|t| matches!(t.repr.body, Body::Completion(_))).count();
        prop_assert!(answers > questions, "{} answers to {} questions", answers, questions + 1);
        let counters = fabric.root().counters();
        prop_assert!(counters.malformed + counters.ecrc_errors <= count);
        let mut last = [0; 4];
        memory.read(0x3000, &mut last).unwrap();
        prop_assert_eq!(&last, b"last");
    }
}

/// Bytes that break a rule of their form cross the link, are dropped by its other end, and return their credits. Their
/// number is many times the credits, and a valid write follows each.
#[test]
fn malformed_bytes_are_dropped_by_their_receiver() {
    let pool = PayloadPool::new();
    let of = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Tlp::of_malformed(&bytes, &pool).unwrap()
    };
    let rows = [
        of(&[0x4000_0002, 0x0100_00ff, 0x0000_1ffc, 1, 2]),
        of(&[0x0000_0002, 0x0100_05ff, 0x0000_1ffc]),
        of(&[0x4000_0002, 0x0100_000f, 0x0000_1000, 1, 2]),
        of(&[0x5f00_0001, 0x0100_000f, 0x0000_1000, 1]),
        of(&[0x4a00_0001, 0x0100_2004, 0x0100_0000, 1]),
    ];
    for bad in rows {
        let good = write(0x1000, &[1, 2, 3, 4]);
        let (mut fabric, raw, memory) = send((0..MANY).flat_map(|_| [bad.clone(), good.clone()]));
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{bad}");
        let root = RootCounters { memory_writes: MANY, ..RootCounters::default() };
        assert_eq!((*fabric.root().counters(), raw.received().len()), (root, 0), "{bad}");
        let at = |side| *fabric.port_counters(PortId::new(LinkId(0), side));
        assert_eq!(at(Side::Root).malformed_tlps, MANY, "{bad}");
        let mut bytes = [0; 8];
        memory.read(0x1000, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4, 0xee, 0xee, 0xee, 0xee]);
        memory.read(0x1ffc, &mut bytes).unwrap();
        assert_eq!(bytes, [0xee; 8], "{bad}");
    }
}
