// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each action of a fault: the reaction of the layers that detect it. All other traffic continues.

use crate::common::link;
use crate::common::system::{System, Told, bar, bytes, copy_when_told, text};
use Direction::{Downstream, Upstream};
use device::DmaError;
use endpoint::EndpointLimits;
use link::Counters;
use riser_fabric::{
    Alteration, Direction, Fabric, FaultAction, FaultLimit, FaultRule, FrameKind, Limits, LinkId, PortId,
    RootCounters, Side, Stop, TlpFilter, TlpType,
};
use tlp::{Bdf, Class, Duration, Rate, Status, Tag, Time};

const LEN: u32 = 1024;

type Ended = Told<Result<(), DmaError>>;

/// Returns a system whose device, when triggered, reads 1 KiB at 0x4000 and writes it to 0x8000. Also returns the
/// result. The host succeeds when it finds a copy.
fn copy(rate: Rate, rules: &[FaultRule]) -> (Fabric, Ended) {
    let mut system = System::new();
    system.memory.write(0x4000, &bytes(9, LEN.into())).unwrap();
    system.faults = rules.to_vec();
    let ended = Told::new();
    let told = ended.clone();
    let limits = EndpointLimits { completion_timeout: Duration::from_us(100), ..EndpointLimits::default() };
    let fabric = system
        .device_with(link(rate, 8, 256), limits, move |io| copy_when_told(io, told.clone(), LEN))
        .with_program(|cpu, found| async move {
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            // Longer than every timer that a row below waits for.
            cpu.sleep(Duration::from_us(250)).await;
            let mut copy = vec![0; LEN as usize];
            cpu.memory().read(0x8000, &mut copy).map_err(text)?;
            if copy == bytes(9, LEN.into()) { Ok(()) } else { Err("not copied".into()) }
        });
    (fabric, ended)
}

fn rule(direction: Direction, kind: FrameKind, nth: u64, action: FaultAction) -> FaultRule {
    FaultRule::new(LinkId(0), direction, kind, nth, action)
}

fn of_type(ty: TlpType) -> FrameKind {
    FrameKind::Where(TlpFilter { ty: Some(ty), ..TlpFilter::default() })
}

/// Matches only the DMA write into the target of the copy, and no other posted TLPs.
fn copied_writes() -> FrameKind {
    let addresses = Some((0x8000, 0x8000 + u64::from(LEN) - 1));
    FrameKind::Where(TlpFilter { ty: Some(TlpType::MemoryWrite), addresses, ..TlpFilter::default() })
}

fn counters(fabric: &Fabric, side: Side) -> Counters {
    *fabric.port_counters(PortId::new(LinkId(0), side))
}

struct Seen {
    root: Counters,
    device: Counters,
    complex: RootCounters,
    totals_open: u64,
}

/// Rows: the event; the expected counters; whether the copy is made nevertheless.
#[test]
fn each_fault_action_has_its_effect() {
    use FaultAction::{Alter, BreakFraming, Delay, Double, Drop};
    type Row = (&'static str, FaultRule, fn(&Seen) -> bool, bool);
    let completions = of_type(TlpType::CompletionWithData);
    let rows: Vec<Row> = vec![
        (
            "broken framing of a completion: Receiver Error, Nak, replay",
            rule(Downstream, completions, 2, BreakFraming),
            |s| s.device.receiver_errors == 1 && s.device.dllps.nak == 1 && s.root.replayed_tlps > 0,
            true,
        ),
        (
            "broken framing of an Ack: a later one has the same effect",
            rule(Downstream, FrameKind::Ack, 2, BreakFraming),
            |s| s.device.receiver_errors == 1,
            true,
        ),
        (
            "a doubled write: a duplicate, dropped",
            rule(Upstream, copied_writes(), 2, Double),
            |s| s.root.duplicate_tlps == 1 && s.complex.memory_writes == u64::from(LEN) / 256,
            true,
        ),
        (
            "a doubled Ack: nothing",
            rule(Downstream, FrameKind::Ack, 2, Double),
            |s| s.device.data_link_protocol_errors == 0 && s.root.duplicate_tlps == 0,
            true,
        ),
        (
            "a write that is delayed beyond REPLAY_TIMER",
            rule(Upstream, copied_writes(), 2, Delay(Duration::from_us(30))),
            |s| s.device.replay_timeouts > 0 && s.root.duplicate_tlps > 0,
            true,
        ),
        (
            "a poisoned write has no effect (§2.7.2.2)",
            rule(Upstream, copied_writes(), 2, Alter(Alteration::Poison)),
            |s| s.complex.poisoned == 1,
            false,
        ),
        (
            "a write whose Length differs from its data is malformed (§2.2.2)",
            rule(Upstream, copied_writes(), 2, Alter(Alteration::Length(3))),
            |s| s.root.malformed_tlps == 1 && s.complex.memory_writes == u64::from(LEN) / 256 - 1,
            false,
        ),
        // MWr of three DW: Fmt 010b, Type 00000b. Type 11111b is undefined.
        (
            "a TLP of an undefined type is malformed (§2.3)",
            rule(Upstream, copied_writes(), 1, Alter(Alteration::HeaderBits { dw: 0, bits: 0x1f00_0000 })),
            |s| s.root.malformed_tlps == 1,
            false,
        ),
        (
            "an Ack of a TLP that was never sent (§3.6.2.2)",
            rule(Downstream, FrameKind::Ack, 2, Alter(Alteration::Sequence(1000))),
            |s| s.device.data_link_protocol_errors == 1 && s.root.data_link_protocol_errors == 0,
            true,
        ),
        (
            "an UpdateFC of more headers than may be unused (§2.6.1)",
            rule(Downstream, FrameKind::UpdateFc, 1, Alter(Alteration::Credits { header: 10, data: 0 })),
            |s| s.device.flow_control_protocol_errors == 1,
            true,
        ),
        (
            "UpdateFCs that are withheld",
            FaultRule { every: 1, ..rule(Downstream, FrameKind::UpdateFc, 1, Drop) },
            |s| s.device.flow_control_protocol_errors == 0,
            true,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, rule, seen, copied) in rows {
        let (mut fabric, _) = copy(Rate::Gt8, &[rule]);
        let stop = fabric.run(Limits::default());
        let all = Seen {
            root: counters(&fabric, Side::Root),
            device: counters(&fabric, Side::Device),
            complex: *fabric.root().counters(),
            totals_open: fabric.account_totals().open,
        };
        let expected = if copied { Stop::Finished } else { Stop::Failed("not copied".into()) };
        if stop != expected || !seen(&all) || all.totals_open != 0 {
            wrong.push(format!(
                "{what}: {stop:?}, {} open, root {:?}, device {:?}, {:?}",
                all.totals_open, all.root, all.device, all.complex
            ));
        }
        assert_eq!(all.root.classified_bytes(), all.root.wire_bytes);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows: the change of a completion of the device's read; how the read ends.
#[test]
fn altered_completions_fail_reads() {
    let other = Bdf::from_bits(0x0155);
    let rows: [(&str, Alteration, Option<DmaError>); 5] = [
        ("UR", Alteration::Status(Status::UnsupportedRequest), Some(DmaError::UnsupportedRequest)),
        ("CA", Alteration::Status(Status::CompleterAbort), Some(DmaError::CompleterAbort)),
        ("poisoned", Alteration::Poison, Some(DmaError::Poisoned)),
        // No request matches this completion, and the waiting request gets no answer.
        ("another tag", Alteration::Tag(Tag::from_bits(0x55)), Some(DmaError::CompletionTimeout)),
        ("another requester", Alteration::Requester(other), Some(DmaError::CompletionTimeout)),
    ];
    let kind = of_type(TlpType::CompletionWithData);
    for (what, alteration, error) in rows {
        let (mut fabric, ended) =
            copy(Rate::Gt8, &[rule(Downstream, kind, 2, FaultAction::Alter(alteration))]);
        let stop = fabric.run(Limits::default());
        assert_eq!(ended.get(), Some(error.map_or(Ok(()), Err)), "{what}: {stop:?}");
        assert_eq!(stop, Stop::Failed("not copied".into()), "{what}");
    }
}

/// A cut at the second write, and a link that is restored 20 us later: both ends initialize again.
#[test]
fn cut_link_comes_up_again() {
    let cut = FaultAction::Cut { restore_after: Some(Duration::from_us(20)) };
    let (mut fabric, _) = copy(Rate::Gt8, &[rule(Upstream, copied_writes(), 2, cut)]);
    let stop = fabric.run(Limits::default());
    assert_eq!(stop, Stop::Failed("not copied".into()));
    for side in [Side::Root, Side::Device] {
        let port = counters(&fabric, side);
        assert_eq!((port.link_downs, port.data_link_protocol_errors, port.receiver_overflows), (1, 0, 0));
        assert_eq!(port.classified_bytes(), port.wire_bytes);
    }
    assert!(fabric.now() > Time::ZERO + Duration::from_us(250));
}

/// With probability one half for every frame, between a quarter and three quarters are affected. Each run affects the
/// same frames.
#[test]
fn fault_probability_is_drawn_from_the_seed() {
    let run = || {
        let half = FaultRule {
            every: 1,
            chance: Some(1 << 63),
            ..rule(Upstream, FrameKind::Class(Class::Posted), 1, FaultAction::Double)
        };
        let (mut fabric, _) = copy(Rate::Gt8, &[half]);
        assert_eq!(fabric.run(Limits::default()), Stop::Finished);
        (counters(&fabric, Side::Root).duplicate_tlps, counters(&fabric, Side::Device).tlps)
    };
    let (doubled, _) = run();
    assert!((1..=4).contains(&doubled), "{doubled} of 5");
    assert_eq!(run(), run());
}

#[test]
fn fault_rule_ends_after_its_count() {
    let limit = FaultLimit { count: Some(2), duration: None };
    let twice = FaultRule {
        every: 1,
        limit,
        ..rule(Upstream, FrameKind::Class(Class::Posted), 1, FaultAction::Double)
    };
    let (mut fabric, _) = copy(Rate::Gt8, &[twice]);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(counters(&fabric, Side::Root).duplicate_tlps, 2);
}
