// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults by rule: the protocol repairs the faults that it can; each other fault ends in the error that the specification names.

use crate::common::link;
use crate::common::system::{System, Told, bar, bytes, copy_when_told, text};
use Direction::{Downstream, Upstream};
use FaultAction::{Corrupt, Drop};
use device::DmaError;
use endpoint::EndpointLimits;
use link::Counters;
use riser_fabric::{Direction, Fabric, FaultAction, FrameKind, Limits, LinkId, PortId, Side, Stop};
use tlp::{Class, Duration, Rate, Time};

const LEN: u32 = 4096;

/// Returns a system whose device, when triggered, reads 4 KiB at 0x4000 and writes them to 0x8000. Also returns the
/// result of the read.
fn copy(rules: &[(Direction, FrameKind, u64, u64, FaultAction)]) -> (Fabric, Told<Result<(), DmaError>>) {
    let mut system = System::new();
    system.memory.write(0x4000, &bytes(9, LEN.into())).unwrap();
    for &(direction, kind, nth, every, action) in rules {
        system = system.fault(direction, kind, nth, every, action);
    }
    let ended = Told::new();
    let told = ended.clone();
    let limits = EndpointLimits { completion_timeout: Duration::from_us(100), ..EndpointLimits::default() };
    let fabric = system
        .device_with(link(Rate::Gt8, 8, 256), limits, move |io| copy_when_told(io, told.clone(), LEN))
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            // Long enough for every REPLAY_TIMER: 24,000 symbols of 1 ns.
            cpu.sleep(Duration::from_us(30)).await;
            let mut copy = vec![0; LEN as usize];
            cpu.memory().read(0x8000, &mut copy).map_err(text)?;
            if copy == bytes(9, LEN.into()) { Ok(()) } else { Err("not copied".into()) }
        });
    (fabric, ended)
}

fn counters(fabric: &Fabric, side: Side) -> Counters {
    *fabric.port_counters(PortId::new(LinkId(0), side))
}

/// Rows: the fault, and the expected counters at the root's port and at the device's port. The copy must be correct.
#[test]
fn link_layer_repairs_faults() {
    use FrameKind::{Ack, Any, Class as Of, Config, Dllp, Tlp, UpdateFc};
    type Seen = fn(&Counters, &Counters) -> bool;
    type Rules = &'static [(Direction, FrameKind, u64, u64, FaultAction)];
    let rows: [(&str, Rules, Seen); 10] = [
        ("a completion is corrupted", &[(Downstream, Of(Class::Completion), 3, 0, Corrupt)], |r, d| {
            d.bad_lcrc == 1 && d.dllps.nak == 1 && r.nak_received == 1 && r.replayed_tlps > 0
        }),
        ("a completion is lost", &[(Downstream, Of(Class::Completion), 3, 0, Drop)], |r, d| {
            d.out_of_sequence > 0 && d.dllps.nak == 1 && r.replayed_tlps > 0
        }),
        // This is the last downstream TLP, so only REPLAY_TIMER can detect the loss: no later TLP reveals the gap.
        ("the last completion is lost", &[(Downstream, Of(Class::Completion), 16, 0, Drop)], |r, d| {
            d.dllps.nak == 0 && r.replay_timeouts == 1 && r.replayed_tlps == 1
        }),
        ("every third write is corrupted", &[(Upstream, Of(Class::Posted), 1, 3, Corrupt)], |r, d| {
            r.bad_lcrc > 5 && d.replayed_tlps > 5
        }),
        ("a configuration request is lost", &[(Downstream, Config, 5, 0, Drop)], |r, _| r.replayed_tlps == 1),
        ("every second Ack is lost", &[(Downstream, Ack, 2, 2, Drop)], |_, d| d.replayed_tlps < 50),
        // The device replays a TLP that had arrived.
        ("the last Ack is lost", &[(Downstream, Ack, 5, 0, Drop)], |r, d| {
            d.replay_timeouts == 1 && r.duplicate_tlps > 0
        }),
        (
            "every UpdateFC is lost",
            &[(Upstream, UpdateFc, 1, 1, Drop), (Downstream, UpdateFc, 1, 1, Drop)],
            |_, _| true,
        ),
        (
            "every fifth DLLP is corrupted",
            &[(Upstream, Dllp, 5, 5, Corrupt), (Downstream, Dllp, 5, 5, Corrupt)],
            |r, d| r.bad_dllp_crc + d.bad_dllp_crc > 3,
        ),
        (
            "every seventh frame is lost, both ways",
            &[(Upstream, Any, 7, 7, Drop), (Downstream, Tlp, 7, 7, Drop)],
            |r, d| r.replayed_tlps > 0 && d.replayed_tlps > 0,
        ),
    ];
    for (what, rules, seen) in rows {
        let (mut fabric, ended) = copy(rules);
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{what}");
        assert_eq!(ended.get(), Some(Ok(())), "{what}");
        let (root, device) = (counters(&fabric, Side::Root), counters(&fabric, Side::Device));
        assert!(seen(&root, &device), "{what}: root {root:?}, device {device:?}");
        for port in [root, device] {
            assert_eq!(port.classified_bytes(), port.wire_bytes, "{what}");
        }
    }
}

/// The completions and their replays never arrive. The device's own timer ends the read. The upstream direction still
/// works, so the host gets the result.
#[test]
fn lost_completions_end_in_the_devices_timeout() {
    let (mut fabric, ended) = copy(&[(Downstream, FrameKind::Class(Class::Completion), 5, 1, Drop)]);
    assert_eq!(fabric.run(Limits::default()), Stop::Failed("not copied".into()));
    assert_eq!(ended.get(), Some(Err(DmaError::CompletionTimeout)));
    assert!(fabric.now() > Time::ZERO + Duration::from_us(100));
    let counts = fabric.slot_counts(0);
    let count = |name| counts.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n);
    assert_eq!((count("dma_reads_failed"), count("interrupts")), (1, 1));
    assert!(count("completion_timeouts") > 0);
}

/// A rule counts only the frames that it names, on its link and in its direction.
#[test]
fn fault_rules_affect_only_their_link_and_direction() {
    let (mut fabric, _) = copy(&[(Downstream, FrameKind::Class(Class::Posted), 2, 0, Drop)]);
    // There is only one posted TLP down.
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(counters(&fabric, Side::Root).replayed_tlps, 0);
    let (mut whole, _) = copy(&[]);
    assert_eq!(whole.run(Limits::default()), Stop::Finished);
    assert_eq!(whole.totals(), fabric.totals());
}
