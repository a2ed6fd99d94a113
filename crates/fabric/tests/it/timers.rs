// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of timers. Events of ended requests do not stay in the queue, and waiting timers have no cost.

use crate::common::link;
use crate::common::system::{HIGH, System};
use riser_fabric::{Fabric, Limits, LinkChange, LinkEvent, LinkId, PortId, Side, Stop};
use tlp::{Duration, Rate, Time};

/// Number of short timeouts in each test, while a long timeout runs.
const SHORT: u64 = 2_000;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_ms(ms)
}

/// Returns the number of events handled until `ms`. Skipped events do not count.
fn handled(fabric: &mut Fabric, ms: u64) -> u64 {
    assert_eq!(fabric.run(Limits { until: at(ms), ..Limits::default() }), Stop::TimeLimit);
    let totals = fabric.totals();
    totals.events - totals.passed_over
}

/// Reads with Completion Timeouts of 50 ms, each followed by a sleep of 1 us. After 50 ms no such event is left.
#[test]
fn completion_timers_of_finished_reads_leave_no_events() {
    let system = System::new().device(link(Rate::Gt8, 8, 256), |io| async move {
        io.sleep(Duration::from_ms(1)).await;
        for _ in 0..SHORT {
            io.dma_read_counted(HIGH, 64).await.unwrap();
            io.sleep(Duration::from_us(1)).await;
        }
    });
    let mut fabric = system.with_program(|cpu, _| async move {
        cpu.sleep(Duration::from_ms(200)).await;
        Ok(())
    });
    let before = handled(&mut fabric, 20);
    assert!(fabric.slot_counts(0).contains(&("dma_reads", SHORT)), "{:?}", fabric.slot_counts(0));
    let after = handled(&mut fabric, 150);
    assert!(after - before < SHORT / 10, "{} events in an idle fabric", after - before);
}

/// The same for a host program with short sleeps while a task sleeps for a long time.
#[test]
fn short_sleeps_of_a_program_leave_no_events_of_a_long_one() {
    let system = System::new().device(link(Rate::Gt8, 8, 256), |_| std::future::pending::<()>());
    let mut fabric = system.with_bare_program(|cpu| async move {
        let long = cpu.spawn({
            let cpu = cpu.clone();
            async move { cpu.sleep(Duration::from_ms(100)).await }
        });
        for _ in 0..SHORT {
            cpu.sleep(Duration::from_us(1)).await;
        }
        long.await.unwrap();
        cpu.sleep(Duration::from_ms(100)).await;
        Ok(())
    });
    let before = handled(&mut fabric, 20);
    let after = handled(&mut fabric, 150);
    assert!(after - before < SHORT / 10, "{} events in an idle fabric", after - before);
}

/// Ten thousand pending timers change neither the events nor their number.
#[test]
fn waiting_timers_do_not_change_the_run() {
    let run = |timers: u64| {
        let system = System::new().device(link(Rate::Gt8, 8, 256), |io| async move {
            for n in 0..50 {
                io.sleep(Duration::from_us(1 << (n % 10))).await;
                let _ = io.dma_read_counted(HIGH, 4096).await;
            }
        });
        let mut fabric = system.with_program(|cpu, _| async move {
            cpu.sleep(Duration::from_ms(100)).await;
            Ok(())
        });
        for n in 0..timers {
            let event = LinkEvent { at: at(1_000 + n), link: LinkId(0), change: LinkChange::Restore };
            fabric.schedule(event);
        }
        let stop = fabric.run(Limits::default());
        let counters = *fabric.port_counters(PortId::new(LinkId(0), Side::Root));
        (stop, fabric.now(), fabric.totals(), counters)
    };
    assert_eq!(run(10_000), run(0));
}
