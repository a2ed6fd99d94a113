// SPDX-License-Identifier: Apache-2.0 OR MIT
//! D3hot: the endpoint accepts only configuration requests and messages and issues no requests. Also the effects of the
//! return to D0 (`PCIe 5.0 §5.3.1.4`); and PMEs, which are permitted in D3hot (§5.3.3).

use crate::endpoint::harness::*;
use config::{Bar, Builder, ConfigSpace, Identity, PcieLayout, PmLayout};
use device::*;
use riser_endpoint::*;
use tlp::*;

const PM: u8 = 0x01;
const D3HOT: u32 = 0b11;

fn space(no_soft_reset: bool) -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1234, ..Identity::default() })
        .bar(2, Bar::memory32(4096))
        .interrupt_pin(1)
        .power_management_with(PmLayout { no_soft_reset, ..PmLayout::default() })
        .pcie(PcieLayout::default())
        .build()
        .unwrap()
}

fn asleep(no_soft_reset: bool) -> Bench {
    let mut bench = Bench::of(EndpointLimits::default(), vec![space(no_soft_reset)]);
    bench.write_config(0, 6, BAR2 as u32);
    bench.write_config(0, COMMAND, 0x6);
    bench.write_capability(0, PM, 1, D3HOT);
    bench
}

fn answers(bench: &mut Bench, tlp: Tlp) -> Status {
    bench.handle(tlp);
    completion(&bench.poll(Class::Completion).unwrap()).status
}

#[test]
fn d3hot_refuses_memory_and_answers_configuration_requests() {
    let mut bench = asleep(true);
    assert_eq!(answers(&mut bench, mrd(1, BAR2, 4)), Status::UnsupportedRequest);
    assert_eq!(answers(&mut bench, cfg(Access::Read, EP, 0, 0xf, &[])), Status::Success);
    assert!(bench.probe().take_inputs().is_empty());
}

#[test]
fn no_requests_are_issued_in_d3hot() {
    let mut bench = asleep(true);
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    bench.probe().push(Class::Posted, write(0x1000, Data::Counted(64)));
    bench.probe().push(Class::Posted, Output::Intx { asserted: true });
    assert!(bench.poll(Class::NonPosted).is_none() && bench.poll(Class::Posted).is_none());
    let done = bench.probe().done();
    assert!(matches!(done[..], [(1, Err(DmaError::NotInD0))]), "{done:?}");
    bench.write_capability(0, PM, 1, 0);
    assert_eq!(bench.messages(), [(0x20, EP)], "the level is reported in D0");
}

#[test]
fn return_to_d0_keeps_state_or_resets() {
    for (no_soft_reset, command) in [(true, 0x6), (false, 0)] {
        let mut bench = asleep(no_soft_reset);
        bench.write_capability(0, PM, 1, 0);
        assert_eq!(bench.config(COMMAND) & 7, command);
        assert_eq!(bench.config(6), if no_soft_reset { BAR2 as u32 } else { 0 });
        let resets = bench.probe().take_inputs();
        assert_eq!(matches!(resets[..], [Input::Reset(ResetKind::FunctionLevel)]), !no_soft_reset);
        assert_eq!(bench.endpoint.counters().power_state_resets, u64::from(!no_soft_reset));
    }
}

/// Bits of PMCSR (`PCIe 5.0 §7.5.2.2`): PME_En, PME_Status.
const PME_EN: u32 = 1 << 8;
const PME_STATUS: u32 = 1 << 15;
/// Message Code of PM_PME (`PCIe 5.0 §2.2.8.2`).
const PM_PME: u8 = 0x18;

/// In D0, with this PMCSR.
fn wakeful(pme: bool, control: u32) -> Bench {
    let space = Builder::type0(Identity { vendor: 0x1234, ..Identity::default() })
        .bar(2, Bar::memory32(4096))
        .power_management_with(PmLayout { pme, ..PmLayout::default() })
        .pcie(PcieLayout::default())
        .build()
        .unwrap();
    let mut bench = Bench::of(EndpointLimits::default(), vec![space]);
    bench.write_config(0, COMMAND, 0x6);
    bench.write_capability(0, PM, 1, control);
    bench
}

fn wants_attention(bench: &mut Bench) -> Vec<(u8, Bdf)> {
    bench.probe().push(Class::Posted, Output::Pme);
    bench.messages()
}

/// PME_Status is set whether or not PME_En permits the message, in D0 and in D3hot. Only one message is sent until
/// software has cleared it.
#[test]
fn pme_is_sent_if_enabled() {
    for (control, sent) in [(PME_EN, true), (0, false), (PME_EN | D3HOT, true), (D3HOT, false)] {
        let mut bench = wakeful(true, control);
        let expected = if sent { vec![(PM_PME, EP)] } else { vec![] };
        assert_eq!(wants_attention(&mut bench), expected, "PMCSR {control:#x}");
        assert_eq!(bench.capability(PM, 1) & PME_STATUS, PME_STATUS, "PMCSR {control:#x}");
        assert_eq!(wants_attention(&mut bench), [], "it waits for software");
        bench.write_capability(0, PM, 1, control | PME_STATUS);
        assert_eq!(bench.capability(PM, 1) & PME_STATUS, 0, "a one clears it");
        assert_eq!(wants_attention(&mut bench), expected, "again");
        assert_eq!(bench.endpoint.counters().pme_messages, 2 * u64::from(sent));
    }
}

/// If software sets PME_En after PME_Status, the message is sent at once, but after earlier posted TLPs.
#[test]
fn pme_is_sent_when_it_becomes_enabled() {
    let mut bench = wakeful(true, 0);
    assert_eq!(wants_attention(&mut bench), []);
    let pm = bench.endpoint.config(0).unwrap().capability(PM).unwrap();
    bench.probe().push(Class::Posted, write(0x1000, Data::Counted(512)));
    assert!(request(&bench.poll(Class::Posted).unwrap()).op == MemoryOp::Write);
    bench.handle(cfg(Access::Write, EP, pm + 1, 0b0010, &[(PME_EN >> 8) as u8]));
    let names: Vec<&str> = bench.poll_all(Class::Posted).iter().map(|tlp| tlp.repr.name()).collect();
    assert_eq!(names, ["MWr", "MWr", "MWr", "Msg"]);
    bench.handle(cfg(Access::Write, EP, pm + 1, 0b0010, &[(PME_EN >> 8) as u8]));
    assert_eq!(bench.messages(), [], "it was told");
}

#[test]
fn without_pme_nothing_is_sent() {
    let mut bench = wakeful(false, PME_EN);
    assert_eq!(wants_attention(&mut bench), []);
    assert_eq!(bench.capability(PM, 1) & (PME_EN | PME_STATUS), 0);
}
