// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every rule of `tlp::rules` that a TLP without bytes can break, through a link: to the root complex, and to an
//! endpoint. Each malformed TLP is dropped, counted, and logged by an endpoint. Such a TLP gets no answer, its credits
//! return, and the next TLP is served (`PCIe 5.0 §6.2.3`, §2.3). Rules that only bytes can break never reach a TLP;
//! `crates/tlp/tests` tests them on the parser.

use crate::common::link;
use crate::common::system::{Raw, System};
use config::{Bar, Builder, Identity, PcieLayout};
use device::io::Request;
use device::{AsyncDevice, Io};
use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig, TlpPort};
use link::{Frame, Port};
use riser_fabric::{Limits, RootCounters, Stop};
use std::collections::VecDeque;
use tlp::rules::{RULES, Refusal, RuleId};
use tlp::{
    Access, Account, AddressType, AtomicOp, AtomicRequest, Attributes, Bdf, Body, Class, Completion,
    ConfigKind, ConfigRequest, Data, Duration, IoRequest, MemoryOp, MemoryRequest, Message, MessageRouting,
    OperandSize, PayloadPool, Prefix, Prefixes, Rate, Repr, Span, Status, Tag, Time, Tlp, TrafficClass,
};

/// Requester ID of the sender.
const SENDER: Bdf = Bdf::from_bits(0x0100);
/// The endpoint under test, if it is the receiver.
const ENDPOINT: Bdf = Bdf::from_bits(0x0200);
const TAG: Tag = Tag::from_bits(5);
/// More than the 127 header credits.
const MANY: usize = 150;
const MPS: u32 = 256;

// ---- the table ----

/// A TLP, and the rule that it breaks.
struct Row {
    rule: RuleId,
    right: Tlp,
    broken: Tlp,
}

fn row(rule: RuleId, right: Tlp, breaks: impl FnOnce(&mut Tlp)) -> Row {
    let mut broken = right.clone();
    breaks(&mut broken);
    Row { rule, right, broken }
}

fn memory(op: MemoryOp, address: u64, len: u32) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let data = if op.is_read() { Data::NONE } else { Data::Counted(len) };
    Tlp::new(Repr::new(Body::Memory(MemoryRequest { op, requester: SENDER, tag: TAG, span })), data)
}

fn io(op: Access) -> Tlp {
    let body = IoRequest { op, requester: SENDER, tag: TAG, address: 0xcfc, first_be: 0xf };
    Tlp::new(Repr::new(Body::Io(body)), if op == Access::Read { Data::NONE } else { Data::Counted(4) })
}

fn config(op: Access) -> Tlp {
    let (kind, completer) = (ConfigKind::Type0, ENDPOINT);
    let body =
        ConfigRequest { op, kind, requester: SENDER, tag: TAG, completer, register_dw: 0, first_be: 0xf };
    Tlp::new(Repr::new(Body::Config(body)), if op == Access::Read { Data::NONE } else { Data::Counted(4) })
}

fn atomic(op: AtomicOp, operand: OperandSize, address: u64) -> Tlp {
    let body = AtomicRequest { op, operand, requester: SENDER, tag: TAG, address };
    Tlp::new(Repr::new(Body::Atomic(body)), Data::Counted(body.length_dw() * 4))
}

fn completion(locked: bool, dw: u16) -> Tlp {
    let body = Completion {
        locked,
        completer: SENDER,
        requester: ENDPOINT,
        tag: TAG,
        status: Status::Success,
        bcm: false,
        byte_count: dw * 4,
        lower_address: 0,
        length_dw: Some(dw),
    };
    Tlp::new(Repr::new(Body::Completion(body)), Data::Counted(u32::from(dw) * 4))
}

fn message(code: u8, routing: MessageRouting, header: [u8; 8], dw: u16) -> Tlp {
    let length_dw = (dw > 0).then_some(dw);
    let body = Message { routing, requester: SENDER, tag: Tag::default(), code, header, length_dw };
    Tlp::new(Repr::new(Body::Message(body)), Data::Counted(u32::from(dw) * 4))
}

fn prefixes(dws: &[u32]) -> Prefixes {
    Prefixes::new(&dws.iter().map(|&dw| Prefix(dw)).collect::<Vec<_>>()).unwrap()
}

fn tc(n: u8) -> TrafficClass {
    TrafficClass::new(n).unwrap()
}

/// Every rule that a TLP without bytes can break, at `address`, which a write may reach.
fn rows(address: u64) -> Vec<Row> {
    let mut rows = requests(address);
    rows.extend(messages());
    rows.extend(sizes(address));
    for (n, of) in [memory(MemoryOp::Write, address, 4), config(Access::Read), completion(false, 1)]
        .into_iter()
        .enumerate()
    {
        let one = |dw: u32| dw | n as u32;
        rows.extend([
            row(RuleId::PrefixOrder, of.clone(), |t| {
                t.prefixes = prefixes(&[one(0x9e00_0000), one(0x8e00_0000)])
            }),
            row(RuleId::LocalPrefix, of.clone(), |t| t.prefixes = prefixes(&[one(0x8500_0000)])),
            row(RuleId::EndToEndCount, of.clone(), |t| t.prefixes = prefixes(&[one(0x9f00_0000); 5])),
            row(RuleId::LocalSupported, of, |t| t.prefixes = prefixes(&[one(0x8000_0000)])),
        ]);
    }
    rows
}

fn requests(address: u64) -> Vec<Row> {
    use AtomicOp::{CompareSwap, FetchAdd, Swap};
    use OperandSize::{Bits32, Bits64, Bits128};
    let mut rows = Vec::new();
    for op in [Access::Read, Access::Write] {
        rows.extend([
            row(RuleId::IoTc, io(op), |t| t.repr.tc = tc(1)),
            row(RuleId::IoAttr, io(op), |t| t.repr.attr = Attributes::RELAXED_ORDERING),
            row(RuleId::IoAt, io(op), |t| t.repr.at = AddressType::Translated),
            row(RuleId::ConfigTc, config(op), |t| t.repr.tc = tc(7)),
            row(RuleId::ConfigAttr, config(op), |t| t.repr.attr = Attributes::NO_SNOOP),
            row(RuleId::ConfigAt, config(op), |t| t.repr.at = AddressType::TranslationRequest),
        ]);
    }
    for (op, operand) in [(FetchAdd, Bits64), (Swap, Bits64), (CompareSwap, Bits128)] {
        let off = atomic(op, operand, address + 4);
        rows.push(row(RuleId::AtomicAddress, atomic(op, operand, address), |t| *t = off));
    }
    for op in [FetchAdd, Swap] {
        rows.push(row(RuleId::AtomicLength, atomic(op, Bits32, address), |t| {
            *t = atomic(op, Bits128, address)
        }));
    }
    let long = |t: &mut Tlp| *t = memory(MemoryOp::WriteDeferrable, address, 132);
    rows.push(row(RuleId::DeferrableLength, memory(MemoryOp::WriteDeferrable, address, 128), long));
    rows
}

fn messages() -> Vec<Row> {
    use MessageRouting::{Broadcast, Local, ToRootComplex};
    let of = |rule, code, routing, dw| row(rule, message(code, routing, [0; 8], dw), |t| t.repr.tc = tc(3));
    vec![
        of(RuleId::InterruptTc, 0x20, Local, 0),
        of(RuleId::InterruptTc, 0x27, Local, 0),
        of(RuleId::PowerTc, 0x18, ToRootComplex, 0),
        of(RuleId::PowerTc, 0x19, Broadcast, 0),
        of(RuleId::ErrorTc, 0x30, ToRootComplex, 0),
        of(RuleId::ErrorTc, 0x33, ToRootComplex, 0),
        of(RuleId::UnlockTc, 0x00, Broadcast, 0),
        of(RuleId::SlotPowerTc, 0x50, Local, 1),
        row(RuleId::SlotPowerLength, message(0x50, Local, [0; 8], 1), |t| {
            *t = message(0x50, Local, [0; 8], 0)
        }),
        row(RuleId::SlotPowerLength, message(0x50, Local, [0; 8], 1), |t| {
            *t = message(0x50, Local, [0; 8], 2)
        }),
        row(RuleId::PciSigTc, message(0x7f, Local, [0, 0, 0, 1, 8, 0, 0, 0], 0), |t| t.repr.tc = tc(1)),
        of(RuleId::LtrTc, 0x10, Local, 0),
        of(RuleId::ObffTc, 0x12, Local, 0),
        of(RuleId::PtmTc, 0x52, Local, 0),
        of(RuleId::PtmTc, 0x53, Local, 1),
    ]
}

/// Too much data, and less than the header announces.
fn sizes(address: u64) -> Vec<Row> {
    let vendor = |dw| message(0x7f, MessageRouting::Local, [0; 8], dw);
    let write = |len| memory(MemoryOp::Write, address, len);
    let data = |n: u32| move |t: &mut Tlp| t.data = Data::Counted(n);
    vec![
        row(RuleId::MaxPayloadSize, write(MPS), |t| *t = write(MPS + 4)),
        row(RuleId::MaxPayloadSize, vendor(64), |t| *t = vendor(65)),
        row(RuleId::MaxPayloadSize, completion(false, 64), |t| *t = completion(false, 65)),
        row(RuleId::MaxPayloadSize, completion(true, 64), |t| *t = completion(true, 65)),
        row(RuleId::Length, write(64), data(60)),
        row(RuleId::Length, write(4), data(8)),
        row(RuleId::Length, vendor(2), data(4)),
        row(RuleId::Length, completion(false, 2), data(9)),
        row(RuleId::Length, atomic(AtomicOp::Swap, OperandSize::Bits64, address), data(4)),
        row(RuleId::Length, io(Access::Write), data(0)),
        row(RuleId::Length, memory(MemoryOp::WriteDeferrable, address, 64), data(0)),
    ]
}

/// Names of the rules that only bytes can break. A `Repr` cannot represent such a TLP, or no port lets it through.
const OF_BYTES: [RuleId; 14] = [
    RuleId::ReservedFmt,
    RuleId::ReservedType,
    RuleId::PrefixedHeader,
    RuleId::PrefixCount,
    RuleId::Digest,
    RuleId::ByteEnables,
    RuleId::Crosses4K,
    RuleId::IoLength,
    RuleId::IoLastBe,
    RuleId::ConfigLength,
    RuleId::ConfigLastBe,
    // A link has no virtual channel to send it on.
    RuleId::TcMapped,
    // A port's limits are in its registers: `port_accepts_only_supported_prefixes`.
    RuleId::EndToEndSupported,
    // The parser's rule for bytes whose number differs from the length of their TLP; see `RuleId::Length`.
    RuleId::AddressFormat,
];

#[test]
fn table_lists_every_rule_that_a_value_can_break() {
    let rows = rows(0x1000);
    for rule in RULES.iter().filter(|rule| !rule.is_tolerated() && !rule.is_of_several()) {
        let (here, of_bytes) = (rows.iter().any(|row| row.rule == rule.id), OF_BYTES.contains(&rule.id));
        assert!(here != of_bytes, "{:?}", rule.id);
    }
    let limits = tlp::Limits {
        mps: tlp::Mps::new(MPS).unwrap(),
        tc_mapped: tlp::TcSet::ALL,
        local_prefixes: false,
        end_to_end_prefixes: 4,
    };
    for row in rows {
        assert_eq!(tlp::rules::check_received(&row.right, &limits), Ok(()), "{}", row.right);
        let found = tlp::rules::check_received(&row.broken, &limits).unwrap_err();
        assert_eq!(found.rule, row.rule, "{}", row.broken);
    }
}

/// Rules and counts.
fn kinds(refusals: &[Refusal]) -> Vec<(RuleId, u64)> {
    refusals.iter().map(|refusal| (refusal.violation.rule, refusal.count)).collect()
}

// ---- to the root complex ----

/// Returns the counters and answers of a root complex, and the first bytes of its memory, after `MANY` of a TLP.
fn at_the_root_complex(tlp: &Tlp) -> (RootCounters, Vec<Refusal>, Vec<Tlp>, [u8; 4]) {
    let raw = Raw::new();
    (0..MANY).for_each(|_| raw.send(1_000, tlp.clone()));
    let last =
        Tlp { data: Data::Carried(PayloadPool::new().copy(b"last")), ..memory(MemoryOp::Write, 0x3000, 4) };
    raw.send(100_000, last);
    let system = System::new();
    let memory = system.memory.clone();
    memory.write(0x1000, &[0xee; 512]).unwrap();
    let mut fabric = system.raw(link(Rate::Gt8, 8, MPS), &raw).without_program();
    assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{tlp}");
    let (mut first, mut got) = ([0; 4], [0; 4]);
    memory.read(0x1000, &mut first).unwrap();
    memory.read(0x3000, &mut got).unwrap();
    assert_eq!(&got, b"last", "{tlp}");
    (*fabric.root().counters(), fabric.root().refusals().to_vec(), raw.received(), first)
}

#[test]
fn root_complex_drops_and_counts_each_violation() {
    for Row { rule, right, broken } in rows(0x1000) {
        let (counters, refusals, answers, first) = at_the_root_complex(&broken);
        assert_eq!(kinds(&refusals), [(rule, MANY as u64)], "{broken}");
        let expected = RootCounters { malformed: MANY as u64, memory_writes: 1, ..RootCounters::default() };
        assert_eq!((counters, answers.len(), first), (expected, 0, [0xee; 4]), "{rule:?}: {broken}");
        let (counters, ..) = at_the_root_complex(&right);
        assert_eq!(counters.malformed, 0, "{rule:?}: {right}");
    }
}

// ---- to an endpoint ----

const BAR: u64 = 0x8000_0000;

fn endpoint() -> Endpoint {
    let pcie = PcieLayout { mps_supported: tlp::Mps::new(MPS).unwrap(), ..PcieLayout::default() };
    let config = Builder::type0(Identity { vendor: 0x1af4, device: 0x10ff, ..Identity::default() })
        .bar(0, Bar::memory32(1 << 14))
        .pcie(pcie)
        .advanced_error_reporting()
        .build()
        .unwrap();
    let serve = |io: Io| async move {
        while let Some(request) = io.next_request().await {
            if let Request::Read(read) = request {
                read.complete_counted();
            }
        }
    };
    let functions = vec![FunctionConfig { config, device: Box::new(AsyncDevice::new(serve)) }];
    let (name, pool, limits) = ("endpoint".into(), PayloadPool::new(), EndpointLimits::default());
    let mut endpoint = Endpoint::new(EndpointConfig { name, functions, limits, pool }).unwrap();
    let (pcie, now) = (endpoint.config(0).unwrap().pcie_capability().unwrap(), Time::ZERO);
    endpoint.write_config(now, ENDPOINT, 4, 0xf, BAR as u32);
    endpoint.write_config(now, ENDPOINT, 1, 0x3, 0x6);
    // Max_Payload_Size 256 B.
    endpoint.write_config(now, ENDPOINT, pcie + 2, 0x1, 0x20);
    endpoint
}

/// Two ports and the wires between them: side 0 sends the given TLPs, side 1 is an endpoint.
struct Wire {
    ports: [Port; 2],
    flight: [VecDeque<(Time, Frame)>; 2],
    now: Time,
    back: Vec<Tlp>,
}

impl Wire {
    fn new() -> Wire {
        let config = link(Rate::Gt8, 8, MPS);
        let mut ports = [Port::new(config.root), Port::new(config.device)];
        ports.iter_mut().for_each(|port| port.start(Time::ZERO));
        Wire { ports, flight: Default::default(), now: Time::ZERO, back: Vec::new() }
    }

    /// Runs until all of `tlps` have been sent, and no work was left for a while.
    fn run(&mut self, mut tlps: VecDeque<Tlp>, endpoint: &mut Endpoint) {
        for _ in 0..1_000_000 {
            while tlps.front().is_some_and(|tlp| self.ports[0].has_room(tlp.class())) {
                tlps.pop_front()
                    .into_iter()
                    .for_each(|tlp| self.ports[0].enqueue(self.now, tlp, Account::NONE));
            }
            self.pull(endpoint);
            (0..2).for_each(|side| self.transmit(side));
            let Some(next) = self.next_time(endpoint).filter(|&at| at < Time::ZERO + Duration::from_us(500))
            else {
                assert!(tlps.is_empty(), "{} not sent: {}", tlps.len(), self.ports[0].state_line());
                return;
            };
            self.now = self.now.max(next);
            self.happen(endpoint);
        }
        panic!("no end: {}", self.ports[0].state_line());
    }

    fn pull(&mut self, endpoint: &mut Endpoint) {
        for class in Class::ALL {
            while self.ports[1].has_room(class)
                && let Some(tlp) = endpoint.poll_tlp(self.now, class, tlp::TcSet::ALL)
            {
                self.ports[1].enqueue(self.now, tlp, Account::NONE);
            }
        }
        while let Some(credit) = endpoint.poll_credits() {
            self.ports[1].return_credits(self.now, credit.tc, credit.class, credit.data_credits);
        }
    }

    fn transmit(&mut self, side: usize) {
        while let Some(sent) = self.ports[side].poll_transmit(self.now) {
            let frame = self.ports[side].lend(sent.frame).unwrap().cloned();
            self.flight[1 - side].push_back((sent.end, frame));
        }
    }

    fn next_time(&mut self, endpoint: &Endpoint) -> Option<Time> {
        let arrivals = self.flight.iter().filter_map(|wire| wire.front().map(|(at, _)| *at));
        let mut times: Vec<Time> = arrivals.chain(endpoint.poll_timeout()).collect();
        times.extend(
            self.ports.iter_mut().flat_map(|port| [port.poll_timeout(), port.transmit_ready_at()]).flatten(),
        );
        times.into_iter().min()
    }

    fn happen(&mut self, endpoint: &mut Endpoint) {
        let now = self.now;
        for side in 0..2 {
            if self.ports[side].poll_timeout().is_some_and(|at| at <= now) {
                self.ports[side].handle_timeout(now);
            }
            while self.flight[side].front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, frame)) = self.flight[side].pop_front() else { break };
                if !self.ports[side].handle_frame(now, frame.as_ref()) {
                    continue;
                }
                let Some(tlp) = frame.tlp() else { continue };
                if side == 1 {
                    endpoint.handle_tlp(now, &tlp);
                } else {
                    self.ports[0].return_credits(now, tlp.repr.tc, tlp.class(), tlp.data_credits());
                    self.back.push(tlp);
                }
            }
        }
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
    }
}

/// Sends `MANY` copies of a TLP and a read of the first register to an endpoint. Returns the endpoint, and the TLPs
/// that it has sent.
fn at_an_endpoint(tlp: &Tlp) -> (Endpoint, Vec<Tlp>) {
    let (mut endpoint, mut wire) = (endpoint(), Wire::new());
    let mut tlps: VecDeque<Tlp> = (0..MANY).map(|_| tlp.clone()).collect();
    tlps.push_back(config(Access::Read).with_carry(true));
    wire.run(tlps, &mut endpoint);
    (endpoint, wire.back)
}

/// Uncorrectable Error Status of an endpoint, bit 18: Malformed TLP Status (`PCIe 5.0 §7.8.4.2`).
fn malformed_logged(endpoint: &Endpoint) -> bool {
    let config = endpoint.config(0).unwrap();
    config.read(config.aer_capability().unwrap() + 1) >> 18 & 1 == 1
}

#[test]
fn endpoint_drops_counts_and_logs_each_violation() {
    for Row { rule, right, broken } in rows(BAR) {
        let (endpoint, back) = at_an_endpoint(&broken);
        let counters = *endpoint.counters();
        assert_eq!((counters.malformed, counters.requests), (MANY as u64, 0), "{rule:?}: {broken}");
        assert!(malformed_logged(&endpoint), "{rule:?}");
        assert_eq!(kinds(&endpoint.refusals()), [(rule, MANY as u64)], "{broken}");
        let data = |t: &Tlp| t.data.bytes().map(<[u8]>::to_vec);
        let [answer] = &back[..] else { panic!("{rule:?}: {back:?}") };
        assert_eq!(data(answer), Some(vec![0xf4, 0x1a, 0xff, 0x10]), "{rule:?}");
        let (endpoint, _) = at_an_endpoint(&right);
        assert_eq!(
            (endpoint.counters().malformed, malformed_logged(&endpoint)),
            (0, false),
            "{rule:?}: {right}"
        );
    }
}
