// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits through the whole fabric: a receiver that accepts no TLP stops only its sender.

use crate::common::link;
use crate::common::system::{Arrivals, Raw, System, Told, bar, byte, bytes, credits, text};
use device::io::{Request, join_array};
use device::{DmaError, Io};
use endpoint::EndpointLimits;
use link::Frame;
use riser_fabric::{Direction, LinkConfig, Stop};
use std::cell::Cell;
use std::rc::Rc;
use tlp::{
    AtomicOp, AtomicRequest, Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, OperandSize, Rate,
    Repr, Span, Tag, Time, Tlp,
};

/// Header credits of the device for posted requests.
const CREDITS: u16 = 8;
/// TLPs that wait before the wire: 8 of a class in the transmit queue of a port, 16 at the root port, and the one that
/// the host holds until there is room.
const QUEUED: u64 = 8 + 16 + 1;

fn starved_link() -> LinkConfig {
    let mut link = link(Rate::Gt8, 8, 256);
    credits(&mut link, false, Class::Posted, CREDITS, 64);
    link
}

/// Times at which memory writes arrive at the device.
fn writes_down() -> Arrivals<Time> {
    Arrivals::new(|r| match r.frame {
        Frame::Tlp { tlp, .. } if tlp.class() == Class::Posted && r.direction == Direction::Downstream => {
            Some(r.time)
        }
        _ => None,
    })
}

/// Runs a system whose device takes its first request at `takes_at`, and whose host writes `count` times. Returns the
/// number of accepted writes, and the writes that arrived.
fn run_writes(takes_at: Time, count: u64) -> (Stop, u64, Vec<Time>) {
    let accepted = Rc::new(Cell::new(0));
    let counter = accepted.clone();
    let mut fabric = System::new()
        .device(starved_link(), move |io: Io| async move {
            io.sleep_until(takes_at).await;
            while io.next_request().await.is_some() {}
        })
        .with_program(move |cpu, found| async move {
            for n in 0..count {
                cpu.write(bar(&found[0], 64 * (n % 64)), bytes(n, 64)).await.map_err(text)?;
                counter.set(n + 1);
            }
            // The read arrives after all writes, because reads do not pass them.
            cpu.read_u32(bar(&found[0], 0)).await.map_err(text)?;
            Ok(())
        });
    let tap = writes_down();
    fabric.set_tap(Box::new(tap.clone()));
    let stop = fabric.run(riser_fabric::Limits::default());
    let arrived = tap.seen.borrow().clone();
    (stop, accepted.get(), arrived)
}

#[test]
fn host_stops_if_device_accepts_nothing() {
    let (stop, accepted, arrived) = run_writes(Time::MAX, 100);
    assert_eq!(arrived.len(), usize::from(CREDITS));
    assert_eq!(accepted, u64::from(CREDITS) + QUEUED);
    let Stop::NoProgress(lines) = stop else { panic!("{stop}") };
    let all = lines.join("\n");
    for part in [
        "host program: its write to 0x80000",
        "root port 0: 16 posted host requests waiting to be sent",
        "slot 0: device 0: 8 requests not taken by the device",
        "link 0 (root side): no posted header credits",
    ] {
        assert!(all.contains(part), "`{part}` in:\n{all}");
    }
}

#[test]
fn host_continues_when_device_accepts() {
    let takes_at = Time::ZERO + Duration::from_us(300);
    let (stop, accepted, arrived) = run_writes(takes_at, 100);
    // The device never answers the read after the writes.
    assert_eq!(stop, Stop::Failed("no completion came in time".into()));
    assert_eq!((accepted, arrived.len()), (100, 100));
    assert_eq!(arrived.iter().filter(|at| **at < takes_at).count(), usize::from(CREDITS));
}

/// The host's memory system takes four reads at a time. Later requests wait in the receive buffer with their credits.
/// Each request's credits must return when memory serves it, although no further TLP arrives.
#[test]
fn reads_that_wait_for_memory_return_their_credits_one_by_one() {
    let done = Told::new();
    let told = done.clone();
    let mut link = link(Rate::Gt8, 8, 256);
    credits(&mut link, true, Class::NonPosted, 6, 6);
    let mut system = System::new();
    system.host.max_reads_per_port = 4;
    system.host.memory_read_latency = Duration::from_us(1);
    system.memory.write(0x8000, &bytes(1, 0x4000)).unwrap();
    let mut fabric = system
        .device(link, move |io: Io| {
            let told = told.clone();
            async move {
                let Some(Request::Write(_)) = io.next_request().await else { return Ok(()) };
                let reads: [_; 64] = std::array::from_fn(|n| io.dma_read(0x8000 + 64 * n as u64, 64));
                let results = join_array(reads).await;
                let good = |(n, r): (usize, Result<tlp::Payload, DmaError>)| {
                    r.is_ok_and(|p| p.iter().zip(64 * n as u64..).all(|(b, at)| *b == byte(1, at)))
                };
                told.set(results.into_iter().enumerate().map(good).filter(|g| *g).count());
                io.interrupt(0).await
            }
        })
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            Ok(())
        });
    assert_eq!(fabric.run(riser_fabric::Limits::default()), Stop::Finished);
    assert_eq!(done.get(), Some(64));
    assert_eq!(fabric.root().counters().memory_reads, 64);
}

/// The least data credits that a root port may advertise (`PCIe 5.0 Table 2-45`, 2 for AtomicOps; ECN "Deferrable Memory
/// Write", 8) carry the longest AtomicOps, CAS of 128 bits with 32 B, and the longest deferrable writes, of 128 B.
#[test]
fn minimum_credits_carry_the_longest_non_posted_requests() {
    let mut link = link(Rate::Gt8, 8, 256);
    credits(&mut link, true, Class::NonPosted, 1, 8);
    assert_eq!(link.root.validate(), Ok(()));
    let raw = Raw::new();
    let requester = Bdf::from_bits(0x100);
    for n in 0..8 {
        let (tag, address) = (Tag::from_bits(n), 0x1000 + 256 * u64::from(n));
        let (body, len) = if n % 2 == 0 {
            let (op, operand) = (AtomicOp::CompareSwap, OperandSize::Bits128);
            (Body::Atomic(AtomicRequest { op, operand, requester, tag, address }), 32)
        } else {
            let span = Span::covering(address, 128).unwrap();
            (Body::Memory(MemoryRequest { op: MemoryOp::WriteDeferrable, requester, tag, span }), 128)
        };
        raw.send(20_000, Tlp::new(Repr::new(body), Data::Counted(len)));
    }
    let mut fabric = System::new().raw(link, &raw).without_program();
    assert_eq!(fabric.run(riser_fabric::Limits::default()), Stop::Finished);
    assert_eq!(raw.received().iter().filter(|t| t.class() == Class::Completion).count(), 8);
}

/// Times at which completions arrive at the device.
fn completions_down() -> Arrivals<Time> {
    Arrivals::new(|r| match r.frame {
        Frame::Tlp { tlp, .. }
            if tlp.class() == Class::Completion && r.direction == Direction::Downstream =>
        {
            Some(r.time)
        }
        _ => None,
    })
}

/// A deferrable write is answered when it is visible. The next one does not wait for it: eight writes take the latency of
/// memory once.
#[test]
fn deferrable_writes_take_the_latency_of_memory_together() {
    let last = |latency: Duration| {
        let (raw, requester) = (Raw::new(), Bdf::from_bits(0x100));
        for n in 0..8 {
            let span = Span::covering(0x1000 + 256 * u64::from(n), 128).unwrap();
            let (op, tag) = (MemoryOp::WriteDeferrable, Tag::from_bits(n));
            let body = Body::Memory(MemoryRequest { op, requester, tag, span });
            raw.send(20_000, Tlp::new(Repr::new(body), Data::Counted(128)));
        }
        let mut system = System::new();
        system.host.memory_write_latency = latency;
        let mut fabric = system.raw(link(Rate::Gt8, 8, 256), &raw).without_program();
        let arrivals = completions_down();
        fabric.set_tap(Box::new(arrivals.clone()));
        assert_eq!(fabric.run(riser_fabric::Limits::default()), Stop::Finished);
        let times = arrivals.seen.borrow().clone();
        assert_eq!(times.len(), 8);
        times[7]
    };
    let latency = Duration::from_us(5);
    let later = last(latency).since(last(Duration::ZERO));
    // SKP ordered sets may fall before a completion.
    assert!(latency <= later + Duration::from_ns(10) && later <= latency + Duration::from_ns(10), "{later}");
}

#[test]
fn a_register_read_is_answered_while_a_dma_of_the_same_device_waits() {
    let finished = Told::new();
    let told = finished.clone();
    let mut system = System::new();
    system.host.memory_read_latency = Duration::from_us(500);
    // One read tag, so that even the next DMA waits.
    let limits = EndpointLimits { max_outstanding_reads: 1, ..EndpointLimits::default() };
    let mut fabric = system
        .device_with(link(Rate::Gt8, 8, 256), limits, move |io: Io| {
            let told = told.clone();
            async move {
                while let Some(request) = io.next_request().await {
                    match request {
                        Request::Read(read) => read.complete(0x1234_5678u32),
                        Request::Write(_) => {
                            let (io, told) = (io.clone(), told.clone());
                            io.clone().spawn(async move {
                                if io.dma_read(0x1000, 64).await.is_ok() {
                                    told.set(io.now());
                                }
                            });
                        }
                        _ => {}
                    }
                }
            }
        })
        .with_program(|cpu, found| async move {
            for _ in 0..3 {
                cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            }
            let start = cpu.now();
            let value = cpu.read_u32(bar(&found[0], 0)).await.map_err(text)?;
            let took = cpu.now().since(start);
            cpu.sleep(Duration::from_ms(2)).await;
            if value == 0x1234_5678 && took < Duration::from_us(2) {
                Ok(())
            } else {
                Err(format!("{value:#x}, {took}"))
            }
        });
    assert_eq!(fabric.run(riser_fabric::Limits::default()), Stop::Finished);
    // Each of the three takes 500 us.
    assert!(
        finished.get().is_some_and(|at| at > Time::ZERO + Duration::from_us(1500)),
        "{:?}",
        finished.get()
    );
}

/// A TLP that needs more credits than its receiver has in total ends the run, although here reads of a device make
/// progress.
#[test]
fn tlp_beyond_all_credits_ends_the_run() {
    let raw = Raw::new();
    let body = |address| AtomicRequest {
        op: AtomicOp::CompareSwap,
        operand: OperandSize::Bits128,
        requester: Bdf::from_bits(0x0100),
        tag: Tag::from_bits(1),
        address,
    };
    raw.send(5_000, Tlp::new(Repr::new(Body::Atomic(body(0x1000))), Data::Counted(32)));
    for n in 0..100 {
        let span = Span::covering(0x2000, 64).unwrap();
        let (op, requester, tag) = (MemoryOp::Write, Bdf::from_bits(0x0100), Tag::default());
        let write = Body::Memory(MemoryRequest { op, requester, tag, span });
        raw.send(n * 100_000, Tlp::new(Repr::new(write), Data::Counted(64)));
    }
    let run = |data| {
        let mut link = link(Rate::Gt8, 8, 256);
        credits(&mut link, true, Class::NonPosted, 4, data);
        let mut fabric = System::new().raw(link, &raw).without_program();
        (fabric.run(riser_fabric::Limits::default()), fabric.now())
    };
    let (stop, at) = run(1);
    let line = "link 0 (device side): a NonPosted TLP on VC0 needs 2 data credits (units of 16 B), but the other end \
                has advertised 1: it can never be sent";
    assert_eq!(stop, Stop::NoProgress(vec![line.into()]));
    assert!(at < Time::ZERO + Duration::from_us(50), "{at}");
}
