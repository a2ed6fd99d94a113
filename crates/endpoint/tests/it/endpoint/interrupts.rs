// SPDX-License-Identifier: Apache-2.0 OR MIT
//! INTx as messages, level-true; MSI with masks and pending bits; MSI-X of several functions (`PCIe 5.0 §6.1`).

use crate::endpoint::harness::*;
use config::{Builder, ConfigSpace, Identity, MsiLayout, MsiOptions, PcieLayout};
use device::*;
use riser_endpoint::*;
use tlp::*;

const INTERRUPT_DISABLE: u32 = 1 << 10;
const INTERRUPT_STATUS: u32 = 1 << 19;
const ASSERT: u8 = 0x20;
const DEASSERT: u8 = 0x24;
const MSI_ID: u8 = 0x05;

fn with_pin(pin: u8) -> ConfigSpace {
    Builder::type0(Identity::default())
        .interrupt_pin(pin)
        .msi(MsiLayout { vectors: 32 })
        .msi_options(MsiOptions { masking: true, ..MsiOptions::default() })
        .pcie(PcieLayout::default())
        .build()
        .unwrap()
}

fn pins(pins: &[u8]) -> Bench {
    let mut bench = Bench::of(EndpointLimits::default(), pins.iter().map(|&p| with_pin(p)).collect());
    (0..pins.len() as u8).for_each(|f| bench.write_config(f, COMMAND, 0x6));
    bench
}

fn level(bench: &mut Bench, function: usize, asserted: bool) -> Vec<u8> {
    bench.probes[function].push(Class::Posted, Output::Intx { asserted });
    sent(bench)
}

fn sent(bench: &mut Bench) -> Vec<u8> {
    // The endpoint requests another poll for work that became due during the last one.
    let mut all = bench.messages();
    if let Some(at) = bench.endpoint.poll_timeout() {
        bench.endpoint.handle_timeout(at);
    }
    all.extend(bench.messages());
    assert!(all.iter().all(|(_, requester)| *requester == EP), "the Function Number is reserved");
    all.into_iter().map(|(code, _)| code).collect()
}

fn status(bench: &Bench) -> bool {
    bench.config(COMMAND) & INTERRUPT_STATUS != 0
}

#[test]
fn intx_level_is_reported_when_it_changes() {
    for pin in 1..=4 {
        let mut bench = pins(&[pin]);
        assert_eq!(level(&mut bench, 0, true), [ASSERT + pin - 1]);
        assert_eq!(level(&mut bench, 0, true), []);
        assert!(status(&bench));
        assert_eq!(level(&mut bench, 0, false), [DEASSERT + pin - 1]);
        assert_eq!(level(&mut bench, 0, false), []);
        assert!(!status(&bench));
        assert_eq!(bench.endpoint.counters().intx_messages, 2);
    }
}

/// `PCIe 5.0 §7.5.1.1.3`: when the bit is set, asserted levels are deasserted, but Interrupt Status still shows them.
#[test]
fn interrupt_disable_gates_the_level_but_not_the_status() {
    let mut bench = pins(&[1]);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
    bench.write_config(0, COMMAND, 0x6 | INTERRUPT_DISABLE);
    assert_eq!((sent(&mut bench), status(&bench)), (vec![DEASSERT], true));
    bench.write_config(0, COMMAND, 0x6);
    assert_eq!(sent(&mut bench), [ASSERT]);
    bench.write_config(0, COMMAND, 0x6 | INTERRUPT_DISABLE);
    bench.write_config(0, COMMAND, 0x6);
    assert_eq!(sent(&mut bench), [], "nothing has changed in the end");
}

/// Messages are no memory requests: Bus Master Enable does not gate them (`PCIe 5.0 §7.5.1.1.3`).
#[test]
fn intx_does_not_need_bus_master_enable() {
    let mut bench = pins(&[1]);
    bench.write_config(0, COMMAND, 0x2);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
}

#[test]
fn msi_replaces_the_intx_level() {
    let mut bench = pins(&[1]);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
    bench.write_capability(0, MSI_ID, 0, 1 << 16);
    assert_eq!(sent(&mut bench), [DEASSERT]);
    bench.write_capability(0, MSI_ID, 0, 0);
    assert_eq!(sent(&mut bench), [ASSERT]);
}

#[test]
fn functions_with_one_pin_share_it() {
    let mut bench = pins(&[1, 1, 2]);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
    assert_eq!(level(&mut bench, 1, true), []);
    assert_eq!(level(&mut bench, 2, true), [ASSERT + 1]);
    assert_eq!(level(&mut bench, 0, false), []);
    assert_eq!(level(&mut bench, 1, false), [DEASSERT]);
    assert_eq!(level(&mut bench, 2, false), [DEASSERT + 1]);
}

#[test]
fn resets_deassert_the_intx_level() {
    let mut bench = pins(&[1]);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
    bench.endpoint.reset(Time::ZERO, ResetKind::FunctionLevel);
    assert_eq!((sent(&mut bench), status(&bench)), (vec![DEASSERT], false));
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
    bench.endpoint.reset(Time::ZERO, ResetKind::Hot);
    assert!(bench.messages().is_empty(), "the port above knows");
    bench.write_config(0, COMMAND, 0x6);
    assert_eq!(level(&mut bench, 0, true), [ASSERT]);
}

#[test]
fn intx_change_follows_earlier_writes() {
    let mut bench = pins(&[1]);
    bench.probe().push(Class::Posted, write(0x1000, Data::Counted(400)));
    bench.probe().push(Class::Posted, Output::Intx { asserted: true });
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(4)));
    let mut kinds = String::new();
    loop {
        for tlp in bench.poll_all(Class::Posted) {
            kinds.push(if matches!(tlp.repr.body, Body::Message(_)) { 'I' } else { 'w' });
        }
        let Some(at) = bench.endpoint.poll_timeout() else { break };
        bench.endpoint.handle_timeout(at);
    }
    assert_eq!(kinds, "wwwwIw", "four pieces at a Max_Payload_Size of 128, the level, and the later output");
}

#[test]
fn function_without_a_pin_reports_no_intx_level() {
    let mut bench = pins(&[0]);
    assert_eq!(level(&mut bench, 0, true), []);
    assert!(!status(&bench));
    assert_eq!(bench.endpoint.counters().interrupts_not_enabled, 1);
}

// ---- MSI ----

/// Enabled with all 32 vectors at FEE0_0000h, data 4140h.
fn msi() -> Bench {
    let mut bench = pins(&[0]);
    bench.write_capability(0, MSI_ID, 1, 0xfee0_0000);
    bench.write_capability(0, MSI_ID, 3, 0x4140);
    bench.write_capability(0, MSI_ID, 0, 5 << 20 | 1 << 16);
    bench
}

fn raise(bench: &mut Bench, vector: u16) -> Vec<u32> {
    bench.probe().push(Class::Posted, Output::Interrupt { vector });
    data(bench)
}

fn data(bench: &mut Bench) -> Vec<u32> {
    let word = |tlp: Tlp| {
        assert_eq!(request(&tlp).span.address(), 0xfee0_0000);
        u32::from_le_bytes(tlp.data.bytes().unwrap().try_into().unwrap())
    };
    bench.poll_all(Class::Posted).into_iter().map(word).collect()
}

#[test]
fn each_vector_has_its_data() {
    let mut bench = msi();
    for vector in 0..32 {
        assert_eq!(raise(&mut bench, vector), [0x4140 & !31 | u32::from(vector)]);
    }
}

/// `PCIe 5.0 §6.1.4.4`: a masked vector sets its pending bit, and is sent when the mask is cleared.
#[test]
fn masked_vectors_stay_pending() {
    let mut bench = msi();
    bench.write_capability(0, MSI_ID, 4, 1 << 3 | 1 << 31);
    assert_eq!((raise(&mut bench, 3), raise(&mut bench, 31), raise(&mut bench, 3)), (vec![], vec![], vec![]));
    assert_eq!(raise(&mut bench, 4), [0x4144]);
    assert_eq!(bench.capability(MSI_ID, 5), 1 << 3 | 1 << 31);
    bench.write_capability(0, MSI_ID, 4, 1 << 31);
    assert_eq!((data(&mut bench), bench.capability(MSI_ID, 5)), (vec![0x4143], 1 << 31));
    bench.write_capability(0, MSI_ID, 4, 0);
    assert_eq!((data(&mut bench), bench.capability(MSI_ID, 5)), (vec![0x415f], 0));
    assert_eq!(bench.endpoint.counters().interrupts, 3);
}

#[test]
fn reset_clears_pending_vectors() {
    let mut bench = msi();
    bench.write_capability(0, MSI_ID, 4, 1);
    assert_eq!(raise(&mut bench, 0), []);
    bench.endpoint.reset(Time::ZERO, ResetKind::FunctionLevel);
    assert_eq!((bench.capability(MSI_ID, 5), bench.capability(MSI_ID, 4)), (0, 0));
    assert!(bench.poll(Class::Posted).is_none());
}
