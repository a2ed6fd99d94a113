// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares `riser_config::lspci` with `lspci -F -vvv` (package pciutils, 3.9.0), line by line. Skips with a message if
//! there is no `lspci`.

use proptest::prelude::*;
use riser_config::ext::acs::AcsLayout;
use riser_config::ext::ltr;
use riser_config::lspci::{Detail, Selection, Space, function};
use riser_config::{
    AtomicSupport, Bar, Builder, ConfigSpace, DpcLayout, MsiLayout, MsiOptions, MsixLayout, PcieLayout,
    PmLayout, PortType, PtmLayout, SlotLayout, VcLayout,
};
use testkit::functions::{identity, with_all_extended};
use testkit::lspci as oracle;
use tlp::{Bdf, Rate, Width};

const PLAIN: Detail = Detail { fields: false };

fn pcie(port: PortType) -> PcieLayout {
    let slot = SlotLayout { power_limit_value: 25, power_limit_scale: 1, ..SlotLayout::with_all(5) };
    let layout = match port {
        PortType::Endpoint | PortType::RootComplexIntegrated => PcieLayout { port, ..PcieLayout::default() },
        _ => PcieLayout::port(port),
    };
    PcieLayout {
        rate: Rate::Gt32,
        width: Width::new(16).unwrap(),
        ten_bit_tag: true,
        ltr: true,
        end_end_prefixes: 3,
        atomics: AtomicSupport::all(),
        slot: port.is_above_link().then_some(slot),
        ..layout
    }
}

fn endpoint() -> ConfigSpace {
    let endpoint = Builder::type0(identity(0x02_00_00))
        .bar(0, Bar::memory64(256 << 20).prefetchable())
        .bar(2, Bar::memory32(4096))
        .bar(4, Bar::io(32))
        .expansion_rom(64 << 10)
        .interrupt_pin(1)
        .power_management_with(PmLayout { pme: true, ..PmLayout::default() })
        .msi(MsiLayout { vectors: 8 })
        .msi_options(MsiOptions { masking: true, address_32: false })
        .pcie(pcie(PortType::Endpoint))
        .msix(MsixLayout { vectors: 16, table: (2, 0), pending: (2, 0x800) })
        .vendor_specific(&[1, 2, 3, 4, 5]);
    with_all_extended(endpoint).build().unwrap()
}

fn integrated() -> ConfigSpace {
    Builder::type0(identity(0x12_00_00))
        .bar(1, Bar::memory32(1 << 20).prefetchable())
        .msi(MsiLayout { vectors: 1 })
        .msi_options(MsiOptions { masking: true, address_32: true })
        .pcie(pcie(PortType::RootComplexIntegrated))
        .build()
        .unwrap()
}

fn port(kind: PortType) -> ConfigSpace {
    let builder = Builder::type1(identity(0x06_04_00))
        .interrupt_pin(2)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie(kind))
        .advanced_error_reporting()
        .precision_time(PtmLayout { requester: false, responder: true, root: true, granularity_ns: 10 })
        .virtual_channels(VcLayout { vcs: 4, weighted_ports: true, ..VcLayout::default() });
    let builder = if kind.is_above_link() {
        builder
            .access_control(AcsLayout::port(8))
            .downstream_port_containment(DpcLayout {
                interrupt_message: 3,
                root_port: kind == PortType::RootPort,
            })
            .link_capabilities()
    } else {
        builder
    };
    builder.build().unwrap()
}

/// One function of each kind.
fn all() -> Vec<ConfigSpace> {
    let ports = [PortType::RootPort, PortType::Upstream, PortType::Downstream].map(port);
    ports.into_iter().chain([endpoint(), integrated()]).collect()
}

fn bytes(space: &ConfigSpace) -> Vec<u8> {
    (0..1024).flat_map(|dw| space.read(dw).to_le_bytes()).collect()
}

fn compare(spaces: &[ConfigSpace]) {
    let dump = |(n, space): (usize, &ConfigSpace)| space.hexdump(&format!("{n:02x}:00.0"), "Function");
    let dump: String = spaces.iter().enumerate().map(dump).collect();
    let Some(theirs) = oracle::lspci(&dump, &["-vvv", "-n"]) else { return };
    let theirs = oracle::functions(&theirs);
    assert_eq!(theirs.len(), spaces.len());
    for (space, (_, theirs)) in spaces.iter().zip(theirs) {
        let bytes = bytes(space);
        oracle::assert_same(&function(&Space(&bytes), &[0; 7], PLAIN), theirs);
    }
}

#[test]
fn text_equals_lspci_after_reset() {
    compare(&all());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any writes by software.
    #[test]
    fn text_equals_lspci_after_random_writes(seed in any::<u64>()) {
        let mut state = seed;
        let mut random = || {
            // A linear congruential generator: the constants are Knuth's (MMIX).
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut spaces = all();
        for space in &mut spaces {
            for dw in 1..1024 {
                let value = random();
                space.write(dw, 0xf, value);
            }
            // lspci prints numbers for a reserved scale of latencies.
            if let Some(start) = space.extended_capability(ltr::ID) {
                let value = space.read(start + 1);
                space.write(start + 1, 0xf, value & 0x0fff_0fff);
            }
        }
        compare(&spaces);
    }
}

/// Invalid bytes never cause a panic or an endless list.
#[test]
fn seeds_never_panic() {
    for fill in [0x00, 0xff, 0x40, 0x41, 0x10, 0x01] {
        for len in [0, 3, 64, 256, 4096] {
            let text = function(&Space(&vec![fill; len]), &[1; 7], Detail { fields: true });
            assert!(text.lines().count() < 100_000, "{fill:#x} {len}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        function(&Space(&bytes), &[1; 7], Detail { fields: true });
    }
}

/// -vv shows fields by the names in the register tables: one row of each kind.
#[test]
fn vv_lists_fields_by_name() {
    let bytes = bytes(&endpoint());
    let text = function(&Space(&bytes), &[0; 7], Detail { fields: true });
    for line in [
        "[008] Revision ID, Class Code = 02000007",
        "[064] Device Capabilities = 10008022",
        "2:0 Max_Payload_Size Supported = 2 (HwInit)",
        "[104] Uncorrectable Error Status = 00000000",
        "[148] Extended Capability Header = 15410003",
        "31:20 Next Capability Offset = 154 (RO)",
    ] {
        assert!(text.lines().any(|l| l.trim() == line), "{line} in\n{text}");
    }
    // Only root ports have Root Error Command.
    assert!(!text.contains("Root Error Command"), "{text}");
}

/// -vv lists the registers of each channel and the DWs of all tables at their places, with the bits that are fixed in VC0 (`PCIe 5.0 §7.9.1`).
#[test]
fn vv_lists_registers_of_each_channel() {
    let builder = Builder::type1(identity(0x06_04_00)).pcie(pcie(PortType::RootPort));
    let layout =
        VcLayout { vcs: 3, low_priority: 2, phases: 32, weighted_ports: true, ..VcLayout::default() };
    let space = builder.virtual_channels(layout).build().unwrap();
    let text = function(&Space(&bytes(&space)), &[0; 7], Detail { fields: true });
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let start = lines.iter().position(|line| line.ends_with("Port VC Capability 1 = 00000c22")).unwrap();
    let registers: Vec<String> = lines[start..]
        .iter()
        .filter_map(|line| {
            let (at, rest) = line.strip_prefix('[')?.split_once("] ")?;
            let at = u16::from_str_radix(at, 16).unwrap() - 0x100;
            Some(format!("{at:02x} {}", rest.split(" = ").next()?))
        })
        .collect();
    let mut expected =
        ["04 Port VC Capability 1", "08 Port VC Capability 2", "0c Port VC Control, Port VC Status"]
            .map(str::to_owned)
            .to_vec();
    for channel in 0..3 {
        for (n, name) in ["Capability", "Control", "Status"].iter().enumerate() {
            expected.push(format!("{:02x} VC Resource {name} ({channel})", 0x10 + 12 * channel + 4 * n));
        }
    }
    expected.extend((0x40..0x50).step_by(4).map(|at| format!("{at:02x} VC Arbitration Table")));
    for channel in 0..3 {
        let at = (0x50 + 0x20 * channel..0x70 + 0x20 * channel).step_by(4);
        expected.extend(at.map(|at| format!("{at:02x} Port Arbitration Table ({channel})")));
    }
    assert_eq!(registers, expected);
    let control = |channel: u32| {
        let name = format!("VC Resource Control ({channel}) =");
        let at = lines.iter().position(|line| line.contains(&name)).unwrap();
        [1, 2, 5, 6].map(|n| lines[at + n])
    };
    assert_eq!(
        control(0),
        [
            "0 TC/VC Map, TC0 = 1 (RO)",
            "7:1 TC/VC Map = 7f (RW)",
            "26:24 VC ID = 0 (RO)",
            "31 VC Enable = 1 (RO)"
        ]
    );
    assert_eq!(
        control(2),
        [
            "0 TC/VC Map, TC0 = 0 (RO)",
            "7:1 TC/VC Map = 0 (RW)",
            "26:24 VC ID = 0 (RW)",
            "31 VC Enable = 0 (RW)"
        ]
    );
}

/// Every name in braces in the texts is a field.
#[test]
fn texts_name_existing_fields() {
    for space in all() {
        let text = function(&Space(&bytes(&space)), &[0; 7], PLAIN);
        assert!(!text.contains('{'), "{text}");
    }
}

#[test]
fn selects_functions_by_address_pattern() {
    let bdf = |bits| Bdf::from_bits(bits);
    for (text, taken, not) in [
        ("01:00.0", 0x0100, 0x0101),
        ("01:", 0x01ff, 0x0200),
        ("1f.7", 0x05ff, 0x05f8),
        ("03", 0x0718, 0x0720),
        (".1", 0x0301, 0x0302),
        ("*:02.*", 0x0411, 0x0418),
    ] {
        let selection: Selection = text.parse().unwrap();
        assert!(selection.takes(bdf(taken)) && !selection.takes(bdf(not)), "{text}");
    }
    for text in ["", ":", "100:", "20", "00.8", "+1:", "1:2:3", "x", "0.0.0"] {
        let error = text.parse::<Selection>().unwrap_err().to_string();
        assert!(error.contains("expected [BUS:][DEVICE][.FUNCTION]"), "{text}: {error}");
    }
}
