// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities as `lspci -F` (package `pciutils`) reads them. Skips with a message if `lspci` is missing.

use riser_config::cap::pcie::device_control;
use riser_config::ext::{acs, aer, dpc, ltr, resizable, sriov, vc};
use riser_config::*;
use testkit::cases;
use testkit::functions::{identity, with_all_extended};
use tlp::{Bdf, Rate, Width};

/// Output of `lspci -F FILE -vvv -n` for these spaces; `None` if there is no `lspci`.
fn lspci(dump: &str) -> Option<String> {
    testkit::lspci::lspci(dump, &["-vvv", "-n"])
}

fn gen5(port: PortType) -> PcieLayout {
    PcieLayout { rate: Rate::Gt32, width: Width::ALL[2], ..PcieLayout::port(port) }
}

fn endpoint() -> ConfigSpace {
    let endpoint = Builder::type0(identity(0x02_00_00))
        .bar(0, Bar::memory64(16 << 20).prefetchable())
        .pcie(PcieLayout { end_end_prefixes: 2, ..gen5(PortType::Endpoint) });
    with_all_extended(endpoint).build().unwrap()
}

fn root_port() -> ConfigSpace {
    Builder::type1(identity(0x06_04_00))
        .pcie(gen5(PortType::RootPort))
        .advanced_error_reporting()
        .access_control(AcsLayout::port(8))
        .downstream_port_containment(DpcLayout { interrupt_message: 3, root_port: true })
        .precision_time(PtmLayout { requester: false, responder: true, root: true, granularity_ns: 10 })
        .virtual_channels(VcLayout { vcs: 4, weighted_ports: true, ..VcLayout::default() })
        .link_capabilities()
        .build()
        .unwrap()
}

/// Capabilities that lspci 3.9.0 knows only by name: it prints `<?>` after them, whatever their contents.
const NAMES_ONLY: [&str; 5] = [
    "Data Link Feature <?>",
    "Physical Layer 16.0 GT/s <?>",
    "Lane Margining at the Receiver <?>",
    "Port Arbitration Table",
    "Vendor Specific Information: ID=0077 Rev=2 Len=010 <?>",
];

fn assert_clean(text: &str) {
    for line in text.lines() {
        assert!(!line.contains("!!!") && !line.contains("access denied"), "{line}");
        let known = NAMES_ONLY.iter().any(|name| line.contains(name));
        assert!(known || !line.contains("<?>"), "{line}");
    }
}

/// The lines below `Capabilities: [at ..] title`, trimmed.
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|l| !(l.contains("Capabilities: [") && l.contains(title)));
    assert!(lines.next().is_some(), "no {title}");
    lines.take_while(|l| l.starts_with("\t\t")).map(str::trim).collect()
}

/// Checks the sections of the `count` cases in `cases/lspci-sections.txt` whose names begin with `function`.
fn assert_sections(text: &str, function: &str, count: usize) {
    let cases = cases(include_str!("../cases/lspci-sections.txt"));
    let titles = cases.filter_map(|case| Some((case.name().strip_prefix(function)?, case.input())));
    let checked =
        titles.map(|(title, lines)| assert_section(text, title, &lines.lines().collect::<Vec<_>>()));
    assert_eq!(checked.count(), count);
}

fn assert_section(text: &str, title: &str, expected: &[&str]) {
    assert_eq!(section(text, title), expected, "{title}");
}

fn set(space: &mut ConfigSpace, id: u16, dw: u16, byte_enables: u8, value: u32) {
    let at = space.extended_capability(id).unwrap() + dw;
    space.write(at, byte_enables, value);
}

#[test]
fn lspci_reads_each_extended_capability_of_an_endpoint() {
    let mut space = endpoint();
    set(&mut space, ltr::ID, 1, 0xf, 0x1003_1003);
    set(&mut space, resizable::ID, 2, 0b0010, 5 << 8);
    set(&mut space, vc::ID, 8, 0xf, 0x8100_00f0);
    let Some(text) = lspci(&space.hexdump("01:00.0", "Ethernet controller")) else { return };
    assert_clean(&text);
    for line in [
        "Device Serial Number 00-11-22-ff-fe-33-44-55",
        "Vendor Specific Information: ID=0077 Rev=2 Len=010 <?>",
        "Physical Layer 16.0 GT/s <?>",
        "Lane Margining at the Receiver <?>",
        "Data Link Feature <?>",
        "Extended Capability ID 0x2a",
    ] {
        assert!(text.contains(line), "{line}");
    }
    assert_sections(&text, "endpoint ", 10);
}

#[test]
fn lspci_reads_each_field_of_sriov() {
    let mut space = endpoint();
    for (dw, value) in [(4, 12), (8, 2), (9, 0xe000_0000), (10, 0x42), (13, 0xf7e0_0000), (2, 0x19)] {
        set(&mut space, sriov::ID, dw, 0xf, value);
    }
    let state = space.sriov().unwrap();
    let (first, fourth) = (space.vf_bar(0).unwrap(), space.vf_bar(4).unwrap());
    let Some(text) = lspci(&space.hexdump("01:00.0", "Ethernet controller")) else { return };
    assert_clean(&text);
    let sign = |on: bool| if on { '+' } else { '-' };
    let control = format!(
        "IOVCtl:\tEnable{} Migration- Interrupt- MSE{} ARIHierarchy{} 10BitTagReq{}",
        sign(state.enabled),
        sign(state.memory_enable),
        sign(state.ari_hierarchy),
        sign(state.ten_bit_tag)
    );
    assert_eq!(control, "IOVCtl:\tEnable+ Migration- Interrupt- MSE+ ARIHierarchy+ 10BitTagReq-");
    let numbers = state.numbering;
    let numbering =
        format!("VF offset: {}, stride: {}, Device ID: abce", numbers.first_offset, numbers.stride);
    assert_eq!((first.size, fourth.size, state.page_size), (8 << 10, 8 << 10, 8 << 10));
    let total = state.total_vfs;
    assert_section(
        &text,
        "(SR-IOV)",
        &[
            "IOVCap:\tMigration- 10BitTagReq- Interrupt Message Number: 000",
            &control,
            "IOVSta:\tMigration-",
            &format!(
                "Initial VFs: {total}, Total VFs: {total}, Number of VFs: {}, Function Dependency Link: 00",
                12
            ),
            &numbering,
            "Supported Page Size: 00000553, System Page Size: 00000002",
            &format!("Region 0: Memory at {:016x} (64-bit, prefetchable)", first.address),
            &format!("Region 4: Memory at {:08x} (32-bit, non-prefetchable)", fourth.address),
            "VF Migration: offset: 00000000, BIR: 0",
        ],
    );
    assert_eq!((first.address, fourth.address), (0x42_e000_0000, 0xf7e0_0000));
}

/// Errors logged here, and lspci's output for Advanced Error Reporting.
#[test]
fn lspci_reads_each_field_of_aer() {
    let mut space = root_port();
    let control = space.pcie_capability().unwrap() + 2;
    let reporting = device_control::CORRECTABLE_REPORTING | device_control::NON_FATAL_REPORTING;
    space.write(control, 0b0001, reporting);
    set(&mut space, aer::ID, aer::UNCORRECTABLE_MASK, 0xf, Uncorrectable::CompletionTimeout.mask());
    set(&mut space, aer::ID, aer::CORRECTABLE_MASK, 0xf, Correctable::BadDllp.mask());
    set(&mut space, aer::ID, aer::SEVERITY, 0xf, Uncorrectable::PoisonedTlp.mask());
    set(&mut space, aer::ID, aer::ROOT_COMMAND, 0xf, 5);
    set(&mut space, aer::ID, aer::CONTROL, 0xf, aer::control::ECRC_CHECK);
    let header = [0x4000_0001, 0x0300_000f, 0xdead_bee0, 0];
    let source = Bdf::from_bits(0x0308);
    let _ = space.log(ErrorReport::new(Uncorrectable::Ecrc).header(header));
    let _ = space.log(ErrorReport::new(Uncorrectable::CompletionTimeout));
    let _ = space.log(ErrorReport::new(Uncorrectable::SurpriseDown));
    let _ = space.log(ErrorReport::new(Correctable::ReplayTimerTimeout));
    space.root_error(ErrorMessage::Correctable, source);
    space.root_error(ErrorMessage::Fatal, source);
    set(&mut space, acs::ID, 1, 0b0100, 0x0015_0000);
    set(&mut space, dpc::ID, 1, 0b0100, 0x000a_0000);
    assert!(space.dpc_message(ErrorMessage::NonFatal, source));
    let Some(text) = lspci(&space.hexdump("00:01.0", "PCI bridge")) else { return };
    assert_clean(&text);
    assert_sections(&text, "root port ", 3);
}

#[test]
fn lspci_reads_channels_of_a_root_port() {
    let Some(text) = lspci(&root_port().hexdump("00:01.0", "PCI bridge")) else { return };
    assert_clean(&text);
    let lines = section(&text, "Virtual Channel");
    assert_eq!(lines[0], "Caps:\tLPEVC=0 RefClk=100ns PATEntryBits=8");
    assert_eq!(
        lines.iter().filter(|l| l.contains("Fixed+ WRR32+ WRR64- WRR128- TWRR128- WRR256-")).count(),
        4
    );
    assert_eq!(lines.iter().filter(|l| **l == "Port Arbitration Table <?>").count(), 4);
    assert_eq!(
        section(&text, "Precision Time Measurement")[..2],
        ["PTMCap: Requester:- Responder:+ Root:+", "PTMClockGranularity: 10ns"]
    );
}

/// Channels that are set after reset, as on the link of a lab with several.
#[test]
fn lspci_reads_channels_that_are_set_after_reset() {
    let mut layout = VcLayout { vcs: 2, low_priority: 1, phases: 64, ..VcLayout::default() };
    layout.reset[0].tc_map = 0x7f;
    layout.reset[1] = VcSetting { enabled: true, id: 3, tc_map: 0x80 };
    layout.table = Some([3; MAX_PHASES]);
    let builder = Builder::type0(identity(0x02_00_00)).pcie(gen5(PortType::Endpoint));
    let mut space = builder.advanced_error_reporting().build().unwrap();
    space.add_virtual_channels(layout).unwrap();
    let Some(text) = lspci(&space.hexdump("01:00.0", "Ethernet controller")) else { return };
    assert_clean(&text);
    let lines = section(&text, "Virtual Channel");
    for line in [
        "Arb:\tFixed+ WRR32- WRR64+ WRR128-",
        "Ctrl:\tArbSelect=WRR64",
        "Ctrl:\tEnable+ ID=0 ArbSelect=Fixed TC/VC=7f",
        "Ctrl:\tEnable+ ID=3 ArbSelect=Fixed TC/VC=80",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
}
