// SPDX-License-Identifier: Apache-2.0 OR MIT
//! D3hot: configuration requests and messages alone are taken, nothing is asked of others, and what comes of the way back
//! (`PCIe 5.0 §5.3.1.4`).

use crate::harness::*;
use config::{Bar, Builder, ConfigSpace, Identity, PcieLayout, PmLayout};
use riser_device::*;
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
fn memory_is_refused_and_configuration_answered() {
    let mut bench = asleep(true);
    assert_eq!(answers(&mut bench, mrd(1, BAR2, 4)), Status::UnsupportedRequest);
    assert_eq!(answers(&mut bench, cfg(Access::Read, EP, 0, 0xf, &[])), Status::Success);
    assert!(bench.probe().take_inputs().is_empty());
}

#[test]
fn nothing_is_asked_of_others() {
    let mut bench = asleep(true);
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    bench.probe().push(Class::Posted, write(0x1000, Data::Counted(64)));
    bench.probe().push(Class::Posted, Output::Intx { asserted: true });
    assert!(bench.poll(Class::NonPosted).is_none() && bench.poll(Class::Posted).is_none());
    let done = bench.probe().done();
    assert!(matches!(done[..], [(1, Err(DmaError::NotInD0))]), "{done:?}");
    bench.write_capability(0, PM, 1, 0);
    assert_eq!(bench.messages(), [(0x20, EP)], "the level is told of in D0");
}

#[test]
fn the_way_back_keeps_the_state_or_resets() {
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
