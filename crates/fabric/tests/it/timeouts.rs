// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions that never arrive, arrive late, or are wrong: the host's completion timer and its tags.

use crate::common::link;
use crate::common::system::{Raw, System, bar, text};
use device::io::Request;
use device::{CompletionError, Io};
use host::HostError;
use riser_fabric::{AddressMap, Limits, LinkConfig, Stop};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{
    Attributes, Bdf, Body, Completion, Data, Duration, MemoryOp, PayloadPool, Rate, Repr, Status, Tag, Time,
    Tlp, TrafficClass,
};

const TIMEOUT: Duration = Duration::from_us(200);

fn gen3() -> LinkConfig {
    link(Rate::Gt8, 8, 256)
}

fn system() -> System {
    let mut system = System::new();
    system.host.completion_timeout = TIMEOUT;
    system.host.max_host_requests_per_port = 2;
    system
}

/// Returns a device that answers the n-th read after `delays[n]`, or never for `Duration::MAX`. It answers reads beyond
/// the list immediately.
fn late(delays: &'static [Duration]) -> impl Fn(Io) -> std::pin::Pin<Box<dyn Future<Output = ()>>> + 'static {
    move |io: Io| {
        Box::pin(async move {
            let mut n = 0;
            while let Some(request) = io.next_request().await {
                let Request::Read(read) = request else { continue };
                let (delay, number) = (delays.get(n).copied().unwrap_or(Duration::ZERO), n as u32);
                n += 1;
                if delay == Duration::MAX {
                    continue;
                }
                let slow = io.clone();
                io.spawn(async move {
                    slow.sleep(delay).await;
                    read.complete(0xa000 + number);
                });
            }
        })
    }
}

type Ends = Rc<RefCell<Vec<(Result<u32, HostError>, Duration)>>>;

/// Reads the register `count` times, one after the other, and notes how and when each ends.
fn read_on(system: System, delays: &'static [Duration], count: usize) -> (riser_fabric::Fabric, Ends) {
    let ends = Ends::default();
    let told = ends.clone();
    let fabric = system.device(gen3(), late(delays)).with_program(move |cpu, found| async move {
        for _ in 0..count {
            let start = cpu.now();
            let result = cpu.read_u32(bar(&found[0], 0)).await;
            told.borrow_mut().push((result, cpu.now().since(start)));
        }
        Ok(())
    });
    (fabric, ends)
}

#[test]
fn lost_token_times_out_after_time_of_the_profile() {
    let (mut fabric, ends) = read_on(system(), &[Duration::MAX], 2);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let ends = ends.borrow();
    assert_eq!(ends[0], (Err(HostError::CompletionTimeout), TIMEOUT));
    assert_eq!(ends[1].0, Ok(0xa001));
    assert_eq!(fabric.root().counters().completion_timeouts, 1);
    assert_eq!(fabric.root().counters().unexpected_completions, 0);
}

/// Both tags are lost at 200 us and 400 us. The third read waits for one of the tags. The first tag stays unused until
/// 400 us.
#[test]
fn tags_stay_unused_for_a_second_timeout_period() {
    let (mut fabric, ends) = read_on(system(), &[Duration::MAX, Duration::MAX], 3);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let results: Vec<_> = ends.borrow().iter().map(|(r, _)| *r).collect();
    assert_eq!(results, [Err(HostError::CompletionTimeout), Err(HostError::CompletionTimeout), Ok(0xa002)]);
}

/// With one tag, the second read waits until the late completion of the first has arrived, at 250 us and not at 400 us.
#[test]
fn a_late_completion_is_unexpected_and_frees_its_tag() {
    let mut system = system();
    system.host.max_host_requests_per_port = 1;
    let (mut fabric, ends) = read_on(system, const { &[Duration::from_us(250)] }, 2);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let ends = ends.borrow();
    assert_eq!(ends[0].0, Err(HostError::CompletionTimeout));
    assert_eq!(ends[1].0, Ok(0xa001));
    assert!((Duration::from_us(49)..Duration::from_us(53)).contains(&ends[1].1), "{}", ends[1].1);
    assert_eq!(fabric.root().counters().unexpected_completions, 1);
}

/// A host that waits longer than any stall limit for the only pending event still counts as making progress.
#[test]
fn slow_memory_and_root_complex_count_as_progress() {
    let mut system = System::new();
    system.host.root_complex_latency = Duration::from_ms(3);
    system.host.memory_read_latency = Duration::from_ms(5);
    let mut fabric = system
        .device(gen3(), |io: Io| async move {
            let Some(Request::Write(_)) = io.next_request().await else { return Ok(()) };
            let _ = io.dma_read(0x1000, 64).await;
            io.interrupt(0).await
        })
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            Ok(())
        });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert!(fabric.now() > Time::ZERO + Duration::from_ms(3 * 5 + 5));
}

/// The raw device's answer to the host's first read, of 64 bytes, and the host's reaction. The second read gets the
/// right answer, and the rest of the first answer never affects it.
#[test]
fn mismatched_answers_are_refused() {
    let pool = PayloadPool::new();
    let base = AddressMap.mmio32(0).base;
    let answer = |tag: u16, status: Status, byte_count: u16, data: Option<&[u8]>| {
        let length_dw = data.map(|d| d.len().div_ceil(4) as u16);
        let body = Completion {
            status,
            byte_count,
            // The read begins at a multiple of 128 B.
            lower_address: 64u16.saturating_sub(byte_count) as u8,
            length_dw,
            ..Completion::new(Bdf::from_bits(0x100), Bdf::from_bits(0), Tag::from_bits(tag))
        };
        let data =
            data.map_or(Data::NONE, |d| Data::Carried(pool.copy(&d[..d.len().min(byte_count.into())])));
        Tlp::new(Repr::new(Body::Completion(body)), data)
    };
    let elsewhere = |mut tlp: Tlp| {
        let Body::Completion(c) = &mut tlp.repr.body else { panic!("a completion") };
        c.lower_address ^= 4;
        tlp
    };
    let poisoned = |mut tlp: Tlp| {
        tlp.repr.ep = true;
        tlp
    };
    let half = [7u8; 32];
    let whole = [9u8; 64];
    let bad = Err(HostError::BadCompletion);
    let on_tc1 = |mut tlp: Tlp| {
        tlp.repr.tc = TrafficClass::from_bits(1);
        tlp
    };
    let relaxed = |mut tlp: Tlp| {
        tlp.repr.attr = Attributes::RELAXED_ORDERING;
        tlp
    };
    // Last, unexpected and malformed completions.
    type Row = (&'static str, Vec<Tlp>, Result<u8, HostError>, (u64, u64));
    let rows: Vec<Row> = vec![
        (
            "in halves",
            vec![answer(0, Status::Success, 64, Some(&half)), answer(0, Status::Success, 32, Some(&half))],
            Ok(7),
            (0, 0),
        ),
        (
            "UR",
            vec![answer(0, Status::UnsupportedRequest, 64, None)],
            Err(HostError::Completion(CompletionError::UnsupportedRequest)),
            (0, 0),
        ),
        (
            "CA",
            vec![answer(0, Status::CompleterAbort, 64, None)],
            Err(HostError::Completion(CompletionError::CompleterAbort)),
            (0, 0),
        ),
        // Allowed only for configuration requests (`PCIe 5.0 §2.3.2`).
        ("CRS", vec![answer(0, Status::ConfigRetry, 64, None)], bad, (0, 1)),
        ("no data", vec![answer(0, Status::Success, 64, None)], bad, (0, 1)),
        ("wrong count", vec![answer(0, Status::Success, 60, Some(&whole))], bad, (0, 1)),
        ("wrong address", vec![elsewhere(answer(0, Status::Success, 64, Some(&whole)))], bad, (0, 1)),
        ("too much data", vec![answer(0, Status::Success, 128, Some(&[1; 128]))], bad, (0, 1)),
        ("another Traffic Class", vec![on_tc1(answer(0, Status::Success, 64, Some(&whole)))], bad, (0, 1)),
        (
            "UR on another Traffic Class",
            vec![on_tc1(answer(0, Status::UnsupportedRequest, 64, None))],
            bad,
            (0, 1),
        ),
        ("another attribute", vec![relaxed(answer(0, Status::Success, 64, Some(&whole)))], bad, (0, 1)),
        (
            "poisoned first half",
            vec![
                poisoned(answer(0, Status::Success, 64, Some(&half))),
                answer(0, Status::Success, 32, Some(&half)),
            ],
            bad,
            (1, 0),
        ),
        (
            "another's",
            vec![answer(1, Status::Success, 64, Some(&whole)), answer(0, Status::Success, 64, Some(&whole))],
            Ok(9),
            (1, 0),
        ),
    ];
    for (what, answers, expected, (unexpected, malformed)) in rows {
        let raw = Raw::new();
        // The host reads at 10 us and 60 us.
        for (n, tlp) in answers.into_iter().enumerate() {
            raw.send(20_000 + n as u64, tlp);
        }
        // The second read uses the other tag if the first tag is free again immediately. Answers to both tags cover
        // both cases.
        for tag in [1, 0] {
            raw.send(70_000, answer(tag, Status::Success, 64, Some(&[3; 64])));
        }
        let mut fabric = system().raw(gen3(), &raw).with_bare_program(move |cpu| async move {
            let at = |us| Time::ZERO + Duration::from_us(us);
            cpu.sleep_until(at(10)).await;
            let first = cpu.read(base, 64).await.map(|bytes| bytes[40]);
            cpu.sleep_until(at(60)).await;
            let second = cpu.read(base, 64).await.map(|bytes| bytes[40]);
            cpu.sleep_until(at(100)).await;
            if first == expected && second == Ok(3) { Ok(()) } else { Err(format!("{first:?}, {second:?}")) }
        });
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{what}");
        // One of the last two answers matches no request.
        let counters = fabric.root().counters();
        assert_eq!(
            (counters.unexpected_completions, counters.malformed),
            (unexpected + 1, malformed),
            "{what}"
        );
        let asked = raw
            .received()
            .iter()
            .filter(|t| matches!(t.repr.body, Body::Memory(m) if m.op == MemoryOp::Read))
            .count();
        assert_eq!(asked, 2, "{what}");
    }
}

/// The host has one tag. The first half of an answer is poisoned, which fails the read. The second half arrives after
/// the host has issued the next read, which may use the same tag only when that half has arrived.
#[test]
fn rest_of_a_failed_answer_does_not_affect_later_reads() {
    let pool = PayloadPool::new();
    let base = AddressMap.mmio32(0).base;
    let half = |byte_count: u16, byte: u8, len: usize| {
        let body = Completion {
            byte_count,
            length_dw: Some((len / 4) as u16),
            ..Completion::new(Bdf::from_bits(0x100), Bdf::from_bits(0), Tag::from_bits(0))
        };
        Tlp::new(Repr::new(Body::Completion(body)), Data::Carried(pool.copy(&vec![byte; len])))
    };
    let raw = Raw::new();
    let mut poisoned = half(64, 1, 32);
    poisoned.repr.ep = true;
    raw.send(20_000, poisoned);
    raw.send(60_000, half(32, 2, 32));
    raw.send(80_000, half(64, 3, 64));
    let mut system = system();
    system.host.max_host_requests_per_port = 1;
    let mut fabric = system.raw(gen3(), &raw).with_bare_program(move |cpu| async move {
        cpu.sleep(Duration::from_us(10)).await;
        let first = cpu.read(base, 64).await.map(|bytes| bytes[0]);
        let second = cpu.read(base, 64).await.map(|bytes| bytes[0]);
        match (first, second) {
            (Err(HostError::BadCompletion), Ok(3)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let asked = raw.0.borrow().received().iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert!(asked.len() == 2 && asked[1] > Time::ZERO + Duration::from_us(60), "{asked:?}");
}

#[test]
fn requests_without_a_device_do_not_wait_for_others() {
    let mut system = system();
    system.host.root_complex_latency = Duration::from_us(1);
    let mut fabric = system.device(gen3(), late(&[])).with_program(|cpu, found| async move {
        let address = bar(&found[0], 0);
        let slow = cpu.clone();
        let read = cpu.spawn(async move { slow.read_u32(address).await });
        let start = cpu.now();
        // A microsecond down, and one up through the root complex: the completion has arrived, but not yet reached the host.
        cpu.sleep(Duration::from_ns(1_500)).await;
        let start = start + Duration::from_ns(1_500);
        let nowhere = cpu.read_u32(0x7fff_0000).await;
        let took = cpu.now().since(start);
        let value = read.await.map_err(text)?;
        match (nowhere, took, value) {
            (Err(HostError::NoDevice), took, Ok(0xa000)) if took <= Duration::from_ns(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}
