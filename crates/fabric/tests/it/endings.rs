// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every run ends: finished, out of time, or without progress.

use crate::common::system::{Arrivals, Raw, System, bar, text};
use crate::common::{config, ideal_host, link};
use device::Io;
use device::io::{MAX_POLLS_PER_INSTANT, Request, yield_now};
use endpoint::{CreditReturn, TlpPort};
use host::{DriverError, HostInput, HostOutput, HostProgram};
use riser_fabric::{
    AddressMap, Direction, Fabric, FaultAction, FrameKind, HostConfig, Limits, LinkId, PortId, Side,
    SlotConfig, Stop,
};
use tlp::{Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, Rate, Repr, Span, Tag, Time, Tlp};

fn write(address: u64, len: u32) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let request =
        MemoryRequest { op: MemoryOp::Write, requester: Bdf::from_bits(0x100), tag: Tag::default(), span };
    Tlp::new(Repr::new(Body::Memory(request)), Data::Counted(len))
}

fn no_progress(stop: Stop, parts: &[&str]) {
    let Stop::NoProgress(lines) = stop else { panic!("{stop}") };
    let all = lines.join("\n");
    for part in parts {
        assert!(all.contains(part), "`{part}` in:\n{all}");
    }
}

#[test]
fn run_without_program_ends_despite_ignored_interrupts() {
    let raw = Raw::new();
    for n in 0..200 {
        raw.send(5_000, write(0xfee0_0000, 4));
        raw.send(5_000, write(0x1000 * (n % 8), 64));
    }
    let mut fabric = System::new().raw(link(Rate::Gt8, 4, 128), &raw).without_program();
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!((fabric.root().counters().interrupts, fabric.root().counters().memory_writes), (200, 200));
    assert_eq!(fabric.run(Limits::default()), Stop::Finished, "again");
}

/// A link whose InitFCs never arrive never comes up; the host program does not even start.
#[test]
fn run_ends_if_a_link_never_comes_up() {
    let raw = Raw::new();
    raw.send(0, write(0x1000, 64));
    let mut fabric = System::new()
        .raw(link(Rate::Gt8, 8, 256), &raw)
        .fault(Direction::Downstream, FrameKind::Dllp, 1, 1, FaultAction::Drop)
        .with_bare_program(|cpu| async move {
            cpu.sleep(Duration::from_us(1)).await;
            Ok(())
        });
    let stop = fabric.run(Limits::default());
    no_progress(
        stop,
        &["link 0 (device side): flow-control initialization: waits for InitFC1", "host program"],
    );
}

/// The last InitFC2 is lost, or the first TLP arrives before it: the host starts nevertheless.
#[test]
fn host_starts_as_soon_as_all_links_are_up() {
    for lost in 1..=8 {
        let raw = Raw::new();
        raw.send(0, write(0x1000, 64));
        let mut fabric = System::new()
            .raw(link(Rate::Gt8, 8, 256), &raw)
            .raw(link(Rate::Gt32, 16, 256), &Raw::new())
            .fault(Direction::Downstream, FrameKind::Dllp, lost, 0, FaultAction::Drop)
            .with_bare_program(|cpu| async move {
                let now = cpu.now();
                if now < Time::ZERO + Duration::from_us(3) {
                    Ok(())
                } else {
                    Err(format!("started at {now}"))
                }
            });
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "InitFC {lost} lost");
    }
}

/// Gen1 has the slowest REPLAY_TIMER, 96 us: a write that is lost five times, and an UpdateFC that is lost ten times,
/// are late but do not end the run.
#[test]
fn slow_recovery_is_progress() {
    let slow = link(Rate::Gt2_5, 1, 128);
    let lost = |kind, direction, count: u64| {
        let system = System::new().device(slow.clone(), |io: Io| async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(_) = request {
                    let _ = io.dma_write(0x2000, 7u32).await;
                    let _ = io.interrupt(0).await;
                }
            }
        });
        let system = (1..=count).fold(system, |s, n| s.fault(direction, kind, n, 0, FaultAction::Drop));
        let mut fabric = system.with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            if cpu.memory().read_u32(0x2000) == Ok(7) { Ok(()) } else { Err("no data".into()) }
        });
        let stop = fabric.run(Limits::default());
        (stop, fabric.now())
    };
    let (stop, now) = lost(FrameKind::Class(Class::Posted), Direction::Downstream, 5);
    assert_eq!(stop, Stop::Finished);
    assert!(now > Time::ZERO + Duration::from_us(5 * 96), "{now}");
    let (stop, _) = lost(FrameKind::Class(Class::Posted), Direction::Upstream, 5);
    assert_eq!(stop, Stop::Finished);
    let (stop, _) = lost(FrameKind::UpdateFc, Direction::Upstream, 10);
    assert_eq!(stop, Stop::Finished);
}

/// Every downstream frame is lost, and so is every replay.
#[test]
fn run_ends_if_a_link_loses_every_tlp() {
    let mut fabric = System::new()
        .device(link(Rate::Gt8, 8, 256), |io: Io| async move { while io.next_request().await.is_some() {} })
        .fault(Direction::Downstream, FrameKind::Class(Class::Posted), 1, 1, FaultAction::Drop)
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(1)).await;
            Ok(())
        });
    let stop = fabric.run(Limits::default());
    no_progress(stop, &["waiting for interrupts of vector 33", "link 0 (root side): 1 TLPs unacknowledged"]);
}

/// A retrain takes 24 ms, the time limit of Recovery.RcvrLock (`PCIe 5.0 §4.2.6.4.1`), and device and program have no
/// timers. The run does not count as stalled.
#[test]
fn long_retrain_does_not_end_the_run() {
    let mut slow = link(Rate::Gt8, 8, 256);
    (slow.root.retrain, slow.device.retrain) = (Duration::from_ms(24), Duration::from_ms(24));
    let mut fabric = System::new()
        .device(slow, |io: Io| async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(_) = request {
                    let _ = io.dma_write(0x2000, 7u32).await;
                    let _ = io.interrupt(0).await;
                }
            }
        })
        .with_program(|cpu, found| async move {
            cpu.sleep(Duration::from_us(100)).await;
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            if cpu.now() < Time::ZERO + Duration::from_ms(24) {
                Err("before the link was back".into())
            } else {
                Ok(())
            }
        });
    let at = Time::ZERO + Duration::from_us(100);
    let width = tlp::Width::new(4).unwrap();
    fabric.schedule(riser_fabric::LinkEvent {
        at,
        link: LinkId(0),
        change: riser_fabric::LinkChange::Speed { rate: Rate::Gt8, width },
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}

/// Each upstream write is lost, and after four replays the link retrains for 900 us. This repeats without end.
/// REPLAY_TIMER, 24,000 symbol times of 8 GT/s or 24 us, expires four times between two retrains: so there are ten or
/// eleven until 1 ms is over.
#[test]
fn endless_retraining_ends_the_run() {
    let mut slow = link(Rate::Gt8, 1, 256);
    (slow.root.retrain, slow.device.retrain) = (Duration::from_us(900), Duration::from_us(900));
    let raw = Raw::new();
    raw.send(0, write(0x1000, 64));
    let mut fabric = System::new()
        .raw(slow, &raw)
        .fault(Direction::Upstream, FrameKind::Class(Class::Posted), 1, 1, FaultAction::Drop)
        .without_program();
    no_progress(fabric.run(Limits::default()), &["link 0 (device side): 1 TLPs unacknowledged"]);
    let counters = fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    assert!((10..=11).contains(&counters.replay_num_rollovers), "{}", counters.replay_num_rollovers);
    assert!(fabric.now() < Time::ZERO + Duration::from_ms(12), "{}", fabric.now());
}

/// A device that always wants to be called at once.
struct Restless;

impl TlpPort for Restless {
    fn handle_tlp(&mut self, _: Time, _: &Tlp) {}
    fn poll_tlp(&mut self, _: Time, _: Class, _: tlp::TcSet) -> Option<Tlp> {
        None
    }
    fn poll_credits(&mut self) -> Option<CreditReturn> {
        None
    }
    fn poll_timeout(&self) -> Option<Time> {
        Some(Time::ZERO)
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn waits_for(&self) -> Option<String> {
        Some("restless".into())
    }
}

/// A program that always writes to nowhere.
struct Babbler;

impl HostProgram for Babbler {
    fn handle(&mut self, _: Time, _: HostInput) {}
    fn poll_output(&mut self, _: Time) -> Option<HostOutput> {
        Some(HostOutput::MmioWrite { address: 0, data: Data::Counted(4) })
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn outcome(&self) -> Option<Result<(), DriverError>> {
        None
    }
}

fn bare(device: impl TlpPort + 'static, program: Option<Box<dyn HostProgram>>) -> Fabric {
    let host = HostConfig { program, ..ideal_host(host::HostMemory::new(1 << 20, 0).unwrap()) };
    let slot = SlotConfig::on_root_port(link(Rate::Gt8, 8, 256), Box::new(device));
    Fabric::new(config(host, vec![slot], Vec::new())).unwrap()
}

#[test]
fn spinning_device_ends_the_run_by_name() {
    no_progress(
        bare(Restless, None).run(Limits::default()),
        &["time stands still", "slot 0: wants to be called again at once: restless"],
    );
}

#[test]
fn spinning_program_ends_the_run_by_name() {
    let mut fabric = bare(Raw::new(), Some(Box::new(Babbler)));
    no_progress(fabric.run(Limits::default()), &["time stands still", "host program"]);
}

/// A part that polls memory and yields lets no time pass, so the awaited value never arrives. The run stops and names
/// the part.
#[test]
fn endlessly_yielding_part_ends_the_run_by_name() {
    let polls = format!("spins: {MAX_POLLS_PER_INSTANT} polls at one instant");
    let idle = |io: Io| async move { while io.next_request().await.is_some() {} };
    let mut fabric = System::new().device(link(Rate::Gt8, 8, 256), idle).with_program(|cpu, _| async move {
        while cpu.memory().read_u32(0x2000) != Ok(7) {
            yield_now().await;
        }
        Ok(())
    });
    let Stop::Failed(why) = fabric.run(Limits::default()) else { panic!("it went on") };
    assert!(why.contains(&polls), "{why}");
    let restless = |_: Io| async move {
        loop {
            yield_now().await;
        }
    };
    let mut fabric =
        System::new().device(link(Rate::Gt8, 8, 256), restless).with_bare_program(|cpu| async move {
            cpu.interrupt(0).await;
            Ok(())
        });
    no_progress(
        fabric.run(Limits::default()),
        &["time stands still", "slot 0: wants to be called again at once: ", &polls],
    );
}

/// The limit applies to one point in time. A part that yields often, but lets time pass, continues.
#[test]
fn part_that_yields_and_sleeps_continues() {
    let idle = |io: Io| async move { while io.next_request().await.is_some() {} };
    let mut fabric =
        System::new().device(link(Rate::Gt8, 8, 256), idle).with_bare_program(|cpu| async move {
            for _ in 0..4 {
                for _ in 0..MAX_POLLS_PER_INSTANT / 2 {
                    yield_now().await;
                }
                cpu.sleep(Duration::from_ns(1)).await;
            }
            Ok(())
        });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}

#[test]
fn interrupted_run_equals_uninterrupted_run() {
    let frames = |slices: &[Limits]| {
        let mut system = System::new();
        system.seed = 5;
        let mut slow = link(Rate::Gt8, 4, 256);
        slow.bit_error_rate = u64::MAX / 100_000;
        let mut fabric = system
            .device(slow.clone(), |io: Io| async move {
                while let Some(request) = io.next_request().await {
                    if let Request::Write(w) = request {
                        let at = 0x1000 + 256 * (w.offset() / 4 % 64);
                        let _ = io.dma_write(at, [w.u32() as u8; 256]).await;
                        let _ = io.dma_read(at, 256).await;
                        let _ = io.interrupt(0).await;
                    }
                }
            })
            .device(slow, |io: Io| async move { while io.next_request().await.is_some() {} })
            .with_program(|cpu, found| async move {
                for n in 0..40u32 {
                    cpu.write_u32(bar(&found[0], u64::from(n) * 4), n).await.map_err(text)?;
                    cpu.write_u32(bar(&found[1], u64::from(n) * 4), n).await.map_err(text)?;
                    cpu.interrupt(found[0].vector(0)).await;
                }
                Ok(())
            });
        let tap = Arrivals::new(|r| Some(format!("{} {} {:?}", r.time, r.direction.name(), r.frame)));
        fabric.set_tap(Box::new(tap.clone()));
        for limits in slices {
            assert!(matches!(fabric.run(*limits), Stop::TimeLimit | Stop::Paused | Stop::Finished));
        }
        assert_eq!(fabric.run(Limits::default()), Stop::Finished);
        let counters = *fabric.port_counters(PortId::new(LinkId(0), Side::Root));
        assert_eq!(counters.classified_bytes(), counters.wire_bytes);
        (tap.seen.take().join("\n"), fabric.now(), fabric.totals())
    };
    let whole = frames(&[]);
    let until = |ns| Limits { until: Time::ZERO + Duration::from_ns(ns), ..Limits::default() };
    let by_time: Vec<Limits> = (1..2_000).map(|n| until(n * 17)).collect();
    assert_eq!(frames(&by_time), whole);
    let by_events = [Limits { events: 7, ..Limits::default() }; 100];
    assert_eq!(frames(&by_events), whole);
    // A limit in the past does not change the time.
    assert_eq!(frames(&[until(5_000), until(3_000)]), whole);
}

#[test]
fn requests_without_a_root_port_end_in_the_root_complex() {
    let mut fabric =
        System::new().raw(link(Rate::Gt8, 8, 256), &Raw::new()).with_bare_program(|cpu| async move {
            let beyond = AddressMap.mmio32(1).base;
            cpu.write_u32(beyond, 1).await.map_err(text)?;
            cpu.write_u32(0x10, 1).await.map_err(text)?;
            let read = cpu.read_u32(beyond).await;
            let config = cpu.config_read(Bdf::from_bits(0x0200), 0).await;
            let device_1 = cpu.config_read(Bdf::from_bits(0x0108), 0).await;
            let nowhere = host::HostError::NoDevice;
            let all = [read.err(), config.err(), device_1.err()];
            if all == [Some(nowhere); 3] { Ok(()) } else { Err(format!("{all:?}")) }
        });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(fabric.root().counters().unsupported_requests, 3);
    let [refusal] = &fabric.refusals()[..] else { panic!("{:?}", fabric.refusals()) };
    assert_eq!((refusal.refusal.violation.found, refusal.refusal.count), (AddressMap.mmio32(1).base, 3));
    let windows = "windows of root port 0: 0x80000000-0x8fffffff, 0x4000000000-0x47ffffffff";
    assert!(refusal.note.as_ref().is_some_and(|note| note.ends_with(windows)), "{:?}", refusal.note);
}
