// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that transactions spend in each stage. On an idle link it equals hand calculation, and for any traffic the
//! stages add up to the whole.

use crate::common::link;
use crate::common::system::{HIGH, Raw, System, bar, bytes, credits, read, text};
use device::Io;
use device::io::Request;
use host::{Cpu, firmware::FoundFunction};
use link::CreditLimit;
use proptest::prelude::*;
use riser_fabric::{
    Direction, Fabric, FaultAction, FrameKind, HostProfile, Limits, LinkConfig, LinkId, PortId, Side, Stage,
    Stop, Transaction, TransactionKind, TransactionTap,
};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{
    Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, Rate, Repr, Span, Status, Tag, TcVcMap, Time,
    Tlp, TrafficClass,
};

/// Keeps every transaction.
#[derive(Clone, Default)]
struct All(Rc<RefCell<Vec<Transaction>>>);

impl TransactionTap for All {
    fn transaction(&mut self, transaction: &Transaction) {
        self.0.borrow_mut().push(*transaction);
    }
}

fn watch(fabric: &mut Fabric) -> All {
    let all = All::default();
    fabric.set_transaction_tap(Box::new(all.clone()));
    all
}

/// Each of its figures differs from the others and from sums of a few of them.
fn host() -> HostProfile {
    HostProfile {
        root_complex_latency: Duration::from_ns(100),
        memory_read_latency: Duration::from_ns(200),
        memory_write_latency: Duration::from_ns(30),
        read_request_service: Duration::from_ns(20),
        read_line_service: Duration::from_ns(5),
        write_request_service: Duration::from_ns(10),
        write_line_service: Duration::from_ns(7),
        interrupt_latency: Duration::from_ns(40),
        ..HostProfile::ideal()
    }
}

/// 2.5 GT/s x4: a symbol is 4 ns (`PCIe 5.0 §4.2`), a byte on four lanes 1 ns. The propagation is 2 ns.
fn slow() -> LinkConfig {
    link(Rate::Gt2_5, 4, 128)
}

fn write(address: u64, len: u32) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let (op, requester, tag) = (MemoryOp::Write, Bdf::from_bits(0x100), Tag::default());
    let body = Body::Memory(MemoryRequest { op, requester, tag, span });
    Tlp::new(Repr::new(body), Data::Counted(len))
}

fn host_raw(device: &Raw, tlp: Tlp) -> Transaction {
    let mut system = System::new();
    system.host = host();
    // After flow-control initialization.
    device.send(50_000, tlp);
    let mut fabric = system.raw(slow(), device).without_program();
    let all = watch(&mut fabric);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let all = all.0.borrow();
    assert_eq!(all.len(), 1);
    all[0]
}

/// Rows by hand, on an idle link: bytes on the wire are header, data and 8 of framing, a nanosecond each.
#[test]
fn dma_latency_parts_match_hand_calculation() {
    type Row<'a> = (&'a str, Tlp, TransactionKind, &'a str);
    let rows: [Row<'_>; 6] = [
        // 12 + 64 + 8 B; the memory system takes 10 + 7, and the write is visible 30 later.
        (
            "write",
            write(0x1000, 64),
            TransactionKind::DmaWrite,
            "serialization 84000 wire 2000 root_complex 100000 memory 47000",
        ),
        // From 4 GiB on the header has 16 B; two lines.
        (
            "write beyond 4 GiB",
            write(HIGH + 32, 64),
            TransactionKind::DmaWrite,
            "serialization 88000 wire 2000 root_complex 100000 memory 54000",
        ),
        // 12 + 8 B, then 12 + 64 + 8 B; the memory system takes 20 + 5 and 200.
        (
            "read",
            read(0x1000, 64),
            TransactionKind::DmaRead,
            "serialization 104000 wire 4000 root_complex 200000 memory 225000",
        ),
        // Two completions of 12 + 128 + 8 B: the last waits for the first. Four lines.
        (
            "read in two completions",
            read(0x1000, 256),
            TransactionKind::DmaRead,
            "queue 148000 serialization 168000 wire 4000 root_complex 200000 memory 240000",
        ),
        // A Cpl of 12 + 8 B, at once.
        (
            "read from nowhere",
            read(0x7000_0000, 64),
            TransactionKind::DmaRead,
            "serialization 40000 wire 4000",
        ),
        // To the window of interrupts: 12 + 4 + 8 B, then to the program 100 and 40.
        (
            "interrupt",
            write(0xfee0_0000, 4),
            TransactionKind::Interrupt,
            "serialization 24000 wire 2000 root_complex 140000",
        ),
    ];
    for (what, tlp, kind, parts) in rows {
        let asks = tlp.class() == Class::NonPosted;
        let raw = Raw::new();
        let seen = host_raw(&raw, tlp);
        assert_eq!((seen.kind, seen.parts.to_string()), (kind, parts.to_string()), "{what}");
        assert_eq!(seen.start, Time::ZERO + Duration::from_ns(50_000), "{what}");
        assert_eq!(seen.latency(), seen.parts.total(), "{what}");
        // The device's clock shows the same time.
        let arrivals = raw.0.borrow().received().to_vec();
        assert_eq!(arrivals.last().map(|(at, _)| *at), asks.then_some(seen.end), "{what}");
        let refused = what == "read from nowhere";
        let status = if refused { Status::UnsupportedRequest } else { Status::Success };
        assert_eq!(seen.status, status, "{what}");
    }
}

/// The device's reaction to requests of the host: it answers a read 5 us later.
async fn late(io: Io) {
    while let Some(request) = io.next_request().await {
        if let Request::Read(read) = request {
            io.sleep(Duration::from_ns(5_000)).await;
            read.complete(7u32);
        }
    }
}

/// Rows by hand: the host reads and writes a register of an idle device.
#[test]
fn mmio_latency_parts_match_hand_calculation() {
    let mut system = System::new();
    system.host = host();
    let mut fabric = system.device(slow(), late).with_program(|cpu: Cpu, found| async move {
        cpu.sleep(Duration::from_ns(11_000)).await;
        let before = cpu.now();
        cpu.read_u32(bar(&found[0], 4)).await.map_err(text)?;
        let took = cpu.now().since(before);
        cpu.sleep(Duration::from_ns(11_000)).await;
        cpu.write_u32(bar(&found[0], 8), 1).await.map_err(text)?;
        cpu.sleep(Duration::from_ns(1_000)).await;
        match took.as_ps() {
            5_248_000 => Ok(()),
            ps => Err(format!("the program waited {ps} ps")),
        }
    });
    let all = watch(&mut fabric);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let all = all.0.borrow();
    let of = |kind| all.iter().find(|t| t.kind == kind).map(|t| (t.bytes, t.parts.to_string()));
    // 12 + 8 B down, 12 + 4 + 8 B up.
    let read = "serialization 44000 wire 4000 root_complex 200000 completer 5000000";
    assert_eq!(of(TransactionKind::HostRead), Some((4, read.into())));
    let write = "serialization 24000 wire 2000 root_complex 100000";
    assert_eq!(of(TransactionKind::HostWrite), Some((4, write.into())));
    // A configuration read: the same bytes, answered at once.
    let config = "serialization 44000 wire 4000 root_complex 200000";
    assert_eq!(of(TransactionKind::HostConfig), Some((4, config.into())));
}

/// A frame is lost: all time after its expected arrival is `replay`, also for the next TLP, which is intact but out of
/// sequence.
#[test]
fn replay_time_is_charged_to_replayed_tlps() {
    let raw = Raw::new();
    raw.send(50_000, write(0x1000, 64));
    raw.send(50_000, write(0x2000, 64));
    let mut system = System::new().fault(Direction::Upstream, FrameKind::Tlp, 1, 0, FaultAction::Drop);
    system.host = host();
    let mut fabric = system.raw(slow(), &raw).without_program();
    let all = watch(&mut fabric);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(fabric.port_counters(PortId::new(LinkId(0), Side::Device)).replayed_tlps, 2);
    let all = all.0.borrow();
    let [first, second] = &all[..] else { panic!("{} transactions", all.len()) };
    for (t, queue) in [(first, 0), (second, 84_000)] {
        assert_eq!(t.parts.of(Stage::Queue).as_ps(), queue);
        assert_eq!(t.parts.of(Stage::Serialization).as_ps(), 84_000);
        // The second is out of sequence at its first arrival, and a Nak brings both again.
        assert!(t.parts.of(Stage::Replay) > Duration::from_ns(84), "{}", t.parts);
        assert_eq!(t.latency(), t.parts.total());
    }
    // Both are replayed one after the other, with the same gap as before.
    assert_eq!(first.parts.of(Stage::Replay), second.parts.of(Stage::Replay));
}

/// One header credit for writes, which the memory system returns 17 ns after a write has reached it.
#[test]
fn credit_wait_is_charged_by_tlp() {
    let raw = Raw::new();
    for n in 0..3 {
        raw.send(50_000, write(0x1000 * (n + 1), 64));
    }
    let mut system = System::new();
    system.host = host();
    let mut link = slow();
    credits(&mut link, true, Class::Posted, 1, 64);
    let mut fabric = system.raw(link, &raw).without_program();
    let all = watch(&mut fabric);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let counters = fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    let waits: Vec<u64> = all.0.borrow().iter().map(|t| t.parts.of(Stage::CreditWait).as_ps()).collect();
    assert_eq!(waits[0], 0);
    // Its credit returns no sooner than flight, root complex, service and the UpdateFC's 8 B permit.
    assert!(waits[1] >= 2_000 + 100_000 + 17_000 + 8_000, "{waits:?}");
    assert_eq!(waits.iter().sum::<u64>(), counters.credit_stall_ps[Class::Posted.index()]);
    let queues: Vec<u64> = all.0.borrow().iter().map(|t| t.parts.of(Stage::Queue).as_ps()).collect();
    // The third waits for the second while that waits for its credit.
    assert!(queues[2] > waits[1], "{queues:?}");
}

/// Writes without effect have no end: a poisoned write, a write to an unclaimed address, and a write of no bytes.
#[test]
fn transactions_without_effect_are_dropped() {
    let raw = Raw::new();
    let mut poisoned = write(0x1000, 64);
    poisoned.repr.ep = true;
    let mut nothing = write(0x1000, 4);
    if let Body::Memory(m) = &mut nothing.repr.body {
        m.span = Span::zero_length(0x1000);
    }
    nothing.data = Data::NONE;
    for tlp in [poisoned, write(0x7000_0000, 64), nothing, write(0x1000, 64)] {
        raw.send(50_000, tlp);
    }
    let mut fabric = System::new().raw(slow(), &raw).without_program();
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let totals = fabric.account_totals();
    assert_eq!((totals.opened, totals.dropped, totals.closed, totals.open), (4, 3, 1, 0));
    assert_eq!(fabric.breakdown(0, TransactionKind::DmaWrite).map(|b| b.count()), Some(1));
}

/// A host reads from a device that never answers: the account stays open, and no other request gets it.
#[test]
fn unfinished_transactions_stay_open() {
    let mut system = System::new();
    system.host.completion_timeout = Duration::from_us(60);
    let silent = |io: Io| async move {
        let mut kept = Vec::new();
        while let Some(request) = io.next_request().await {
            kept.push(request);
        }
    };
    let mut fabric = system.device(slow(), silent).with_program(|cpu: Cpu, found| async move {
        match cpu.read_u32(bar(&found[0], 0)).await {
            Err(_) => Ok(()),
            Ok(value) => Err(format!("{value:#x}")),
        }
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let totals = fabric.account_totals();
    assert_eq!((totals.opened, totals.open), (totals.closed + 1, 1));
    assert!(fabric.breakdown(0, TransactionKind::HostRead).is_none());
}

/// Random traffic of a random system.
#[derive(Clone, Debug)]
struct Traffic {
    rate: Rate,
    lanes: u8,
    posted: (u16, u16),
    completion: (u16, u16),
    replay_buffer: u16,
    vcs: u8,
    bit_errors: u64,
    every: u64,
    transfers: Vec<(u64, u32, u8, bool)>,
    registers: Vec<u32>,
    seed: u64,
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let rate = prop::sample::select(vec![Rate::Gt2_5, Rate::Gt8, Rate::Gt16]);
    let lanes = prop::sample::select(vec![1u8, 4, 16]);
    let transfer = (0u64..0x8000, 1u32..2000, 0u8..8, any::<bool>());
    let (transfers, registers) =
        (prop::collection::vec(transfer, 1..24), prop::collection::vec(0u32..64, 0..12));
    let limits = ((1u16..5, 8u16..32), (1u16..5, 8u16..32), 1u16..6, 1u8..9);
    let errors =
        (prop::sample::select(vec![0u64, 1 << 48, 1 << 50]), prop::sample::select(vec![0u64, 7, 13]));
    (rate, lanes, limits, errors, transfers, registers, any::<u64>()).prop_map(
        |(rate, lanes, limits, (bit_errors, every), transfers, registers, seed)| {
            let (posted, completion, replay_buffer, vcs) = limits;
            Traffic {
                rate,
                lanes,
                posted,
                completion,
                replay_buffer,
                vcs,
                bit_errors,
                every,
                transfers,
                registers,
                seed,
            }
        },
    )
}

impl Traffic {
    fn link(&self) -> LinkConfig {
        let mut link = link(self.rate, self.lanes, 128);
        credits(&mut link, true, Class::Posted, self.posted.0, self.posted.1);
        credits(&mut link, true, Class::NonPosted, self.posted.0, 8);
        credits(&mut link, false, Class::Posted, self.posted.0, self.posted.1);
        let limit = CreditLimit::finite(self.completion.0, self.completion.1);
        link.device.rx_buffer[Class::Completion.index()] = limit;
        for port in [&mut link.root, &mut link.device] {
            port.replay_buffer_tlps = self.replay_buffer;
            port.tc_vc = if self.vcs > 1 { TcVcMap::one_to_one() } else { TcVcMap::VC0_ONLY };
        }
        link.bit_error_rate = self.bit_errors;
        link
    }

    fn fabric(&self) -> Fabric {
        let mut system = System::new();
        (system.host, system.seed) = (host(), self.seed);
        system.host.max_reads_per_port = 2;
        if self.every > 0 {
            for direction in [Direction::Upstream, Direction::Downstream] {
                system = system.fault(direction, FrameKind::Tlp, 40, self.every, FaultAction::Drop);
            }
        }
        let (transfers, vcs) = (self.transfers.clone(), self.vcs);
        let card = move |io: Io| card(io, transfers.clone(), vcs);
        let registers = self.registers.clone();
        system.device(self.link(), card).with_program(move |cpu, found| program(cpu, found, registers))
    }
}

/// Runs all transfers at once; registers answer in parallel.
async fn card(io: Io, transfers: Vec<(u64, u32, u8, bool)>, vcs: u8) {
    while let Some(request) = io.next_request().await {
        match request {
            Request::Read(read) => read.complete(7u32),
            Request::Write(write) if write.at(device::BarIndex(0), 0) => {
                for &(at, len, tc, writes) in &transfers {
                    io.spawn(transfer(io.clone(), at, len, tc % vcs, writes));
                }
                io.spawn(interrupt(io.clone()));
            }
            _ => {}
        }
    }
}

async fn interrupt(io: Io) {
    io.sleep(Duration::from_us(100)).await;
    let _ = io.interrupt(0).await;
}

async fn transfer(io: Io, at: u64, len: u32, tc: u8, writes: bool) {
    let options = device::DmaOptions::tc(TrafficClass::from_bits(tc));
    if writes {
        let _ = io.dma_write_with(HIGH + at, bytes(at, len.into()), options).await;
    } else {
        let _ = io.dma_read_with(HIGH + at, len, options).await;
        let _ = io.fetch_add(HIGH + (at & !7), 1u32).await;
    }
}

async fn program(cpu: Cpu, found: Vec<FoundFunction>, registers: Vec<u32>) -> Result<(), String> {
    found[0].enable_atomics(&cpu).await?;
    cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
    for n in registers {
        cpu.write_u32(bar(&found[0], u64::from(n) * 8 + 0x1000), n).await.ok();
        cpu.read_u32(bar(&found[0], u64::from(n) * 4)).await.map_err(text)?;
    }
    cpu.interrupt(found[0].vector(0)).await;
    // TLPs still in flight then have time to arrive.
    cpu.sleep(Duration::from_us(10_000)).await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Several channels, few credits, small replay buffers, bit errors and lost TLPs. The parts of every transaction
    /// add up to the whole, no transaction is lost, and the sums of a kind are the sums over its transactions.
    #[test]
    fn parts_add_up_to_the_whole(traffic in traffic()) {
        let mut fabric = traffic.fabric();
        let all = watch(&mut fabric);
        prop_assert_eq!(fabric.run(Limits::default()), Stop::Finished);
        let all = all.0.borrow();
        for t in all.iter() {
            prop_assert_eq!(t.end.since(t.start), t.parts.total(), "{:?}", t);
            prop_assert!(t.start < t.end && t.status == Status::Success, "{:?}", t);
            let asked = !matches!(t.kind, TransactionKind::DmaWrite | TransactionKind::HostWrite | TransactionKind::Interrupt);
            prop_assert_eq!(t.parts.of(Stage::Wire).as_ps(), if asked { 4_000 } else { 2_000 }, "{:?}", t);
        }
        let totals = fabric.account_totals();
        let counts = (totals.opened, totals.closed, totals.dropped + totals.given_up + totals.open);
        prop_assert_eq!(counts, (all.len() as u64, all.len() as u64, 0));
        let writes = traffic.transfers.iter().filter(|t| t.3).count();
        let reads = traffic.transfers.len() - writes;
        let count = |kind| fabric.breakdown(0, kind).map_or(0, |b| b.count() as usize);
        prop_assert!(count(TransactionKind::DmaWrite) >= writes);
        prop_assert!(count(TransactionKind::DmaRead) >= reads);
        prop_assert_eq!(count(TransactionKind::DmaAtomic), reads);
        prop_assert_eq!(count(TransactionKind::HostRead), traffic.registers.len());
        prop_assert_eq!(count(TransactionKind::Interrupt), 1);
        for kind in TransactionKind::ALL {
            let mine: Vec<&Transaction> = all.iter().filter(|t| t.kind == kind).collect();
            let Some(sum) = fabric.breakdown(0, kind) else {
                prop_assert!(mine.is_empty());
                continue;
            };
            prop_assert_eq!(sum.count(), mine.len() as u64);
            for stage in Stage::ALL {
                let spent: u64 = mine.iter().map(|t| t.parts.of(stage).as_ps()).sum();
                prop_assert_eq!(sum.sum(stage).as_ps(), spent, "{} {}", kind.name(), stage.name());
            }
            let latencies = mine.iter().map(|t| t.latency());
            prop_assert_eq!(Some(sum.least().latency()), latencies.clone().min());
            prop_assert_eq!(Some(sum.greatest().latency()), latencies.clone().max());
            prop_assert!(mine.contains(&sum.quantile(500)) && mine.contains(&sum.quantile(990)));
        }
        let replays = |side| fabric.port_counters(PortId::new(LinkId(0), side)).replayed_tlps;
        let replay: u64 = all.iter().map(|t| t.parts.of(Stage::Replay).as_ps()).sum();
        prop_assert!(replay == 0 || replays(Side::Root) + replays(Side::Device) > 0);
    }
}

/// Without accounts no transactions are reported, and all else is the same.
#[test]
fn disabling_accounts_changes_nothing_else() {
    let outcome = |keep: bool| {
        let raw = Raw::new();
        let nth = |n| if n % 3 == 0 { read(0x1000, 256) } else { write(0x1000, 64) };
        (0..20).for_each(|n| raw.send(50_000 + n * 300, nth(n)));
        let mut fabric = System::new().raw(slow(), &raw).without_program();
        fabric.keep_accounts(keep);
        let all = watch(&mut fabric);
        assert_eq!(fabric.run(Limits::default()), Stop::Finished);
        let told = (all.0.borrow().len(), fabric.account_totals().opened);
        let arrivals: Vec<_> = raw.0.borrow().received().iter().map(|(at, tlp)| (*at, tlp.repr)).collect();
        let counters = *fabric.port_counters(PortId::new(LinkId(0), Side::Device));
        (told, (fabric.now(), fabric.totals(), counters, arrivals))
    };
    let (with, without) = (outcome(true), outcome(false));
    assert_eq!((with.0, without.0), ((20, 20), (0, 0)));
    assert_eq!(with.1, without.1);
}
