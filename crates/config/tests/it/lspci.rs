// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps read by `lspci -F` (Debian package pciutils, 3.9.0 when this was written), compared field by field with the
//! declared and written values. Skips with a message if there is no lspci.

use riser_config::header::type1;
use riser_config::*;
use testkit::cases;
use testkit::functions::identity;
use tlp::{Mps, Rate, Width};

/// Output of `lspci -F FILE -vvv` for a dump; `None` if lspci is not installed.
fn lspci(dump: &str) -> Option<String> {
    let text = testkit::lspci::lspci(dump, &["-vvv", "-nn"])?;
    // lspci cannot decode a vendor's own bytes, and prints a note.
    let known: String = text.lines().filter(|l| !l.contains("Vendor Specific Information")).collect();
    for complaint in ["!!!", "<access denied>", "<?>", "Unknown"] {
        assert!(!known.contains(complaint), "{complaint} in\n{text}");
    }
    Some(text)
}

/// Checks that each line of a case in `cases/lspci.txt` is in the text, as whole words of one line; white space counts
/// as one blank.
fn holds(text: &str, name: &str) {
    let case = cases(include_str!("../cases/lspci.txt")).find(|case| case.name() == name).unwrap();
    let lines: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in case.input().lines() {
        assert!(lines.iter().any(|l| l.contains(row)), "no \"{row}\" in\n{text}");
    }
}

#[test]
fn lspci_reads_an_endpoint() {
    let mut space = Builder::type0(identity(0x02_00_00))
        .bar(0, Bar::memory64(64 << 10).prefetchable())
        .bar(2, Bar::memory32(4096))
        .bar(4, Bar::io(32))
        .expansion_rom(64 << 10)
        .interrupt_pin(1)
        .power_management_with(PmLayout { pme: true, ..PmLayout::default() })
        .msi(MsiLayout { vectors: 8 })
        .msi_options(MsiOptions { masking: true, address_32: false })
        .pcie(PcieLayout { ten_bit_tag: true, width: Width::new(8).unwrap(), ..PcieLayout::default() })
        .msix(MsixLayout { vectors: 16, table: (2, 0), pending: (2, 0x800) })
        .vendor_specific(&[1, 2, 3, 4, 5])
        .build()
        .unwrap();
    for (dw, value) in [
        (4, 0x4000_0000),
        (5, 0x20),
        (6, 0xe000_0000),
        (8, 0x1000),
        (12, 0xe001_0001),
        (1, 0x0507),
        (0x4c / 4, 0xfee0_0000),
        (0x54 / 4, 0x4021),
        (0x48 / 4, 0x0021_0000),
        (0x58 / 4, 0x0f),
        (0x60 / 4 + 2, 0x0000_295f),
    ] {
        space.write(dw, 0xf, value);
    }
    space.set_msi_pending(0x2);
    space.set_transactions_pending(true);
    let Some(text) = lspci(&space.hexdump("01:00.0", "Ethernet controller")) else { return };
    holds(&text, "endpoint");
}

/// A port with windows as set by firmware, and the slot below it.
fn port(layout: PcieLayout) -> ConfigSpace {
    let mut space = Builder::type1(identity(0x06_04_00))
        .interrupt_pin(1)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(layout)
        .build()
        .unwrap();
    for (dw, value) in [
        (1, 0x0107),
        (type1::BUS_NUMBERS, 0x0004_0201),
        (type1::IO_SECONDARY_STATUS, 0x2010),
        (type1::MEMORY, 0xe01f_e000),
        (type1::PREFETCHABLE, 0x0001_0001),
        (type1::PREFETCHABLE_BASE_UPPER, 0x20),
        (type1::PREFETCHABLE_LIMIT_UPPER, 0x21),
        (15, 0x0002_0000),
    ] {
        space.write(dw, 0xf, value);
    }
    space
}

#[test]
fn lspci_reads_a_root_port_with_a_hot_plug_slot() {
    let slot = SlotLayout { power_limit_value: 25, ..SlotLayout::with_all(5) };
    let mut space = port(PcieLayout {
        slot: Some(slot),
        rate: Rate::Gt16,
        width: Width::new(4).unwrap(),
        port_number: 3,
        mps_supported: Mps::new(256).unwrap(),
        ltr: true,
        end_end_prefixes: 4,
        atomics: AtomicSupport::all(),
        ..PcieLayout::port(PortType::RootPort)
    });
    let pcie = space.pcie_capability().unwrap();
    space.write(pcie + 6, 0b0011, 0x1179);
    space.write(pcie + 7, 0b0011, 0x0018);
    space.write(pcie + 10, 0b0011, 0x0420);
    space.set_slot_event(SlotEvent::Presence { present: true });
    space.set_slot_event(SlotEvent::LinkState);
    space.set_link_status(Rate::Gt8, Width::new(2).unwrap(), true, false);
    space.root_pme(0x0200);
    let Some(text) = lspci(&space.hexdump("00:01.0", "PCI bridge")) else { return };
    holds(&text, "bridge");
    holds(&text, "root port");
}

#[test]
fn lspci_reads_switch_ports() {
    for (layout, name) in [
        (PcieLayout::port(PortType::Upstream), "upstream port"),
        (PcieLayout { port_number: 2, ..PcieLayout::port(PortType::Downstream) }, "downstream port"),
    ] {
        let mut space = port(layout);
        if layout.port == PortType::Upstream {
            space.set_slot_power_limit(100, 1);
        }
        let Some(text) = lspci(&space.hexdump("01:00.0", "PCI bridge")) else { return };
        holds(&text, "bridge");
        holds(&text, name);
    }
}

/// A whole tree: `lspci -t` draws the bridges from their bus numbers.
#[test]
fn lspci_draws_the_tree() {
    let mut root = port(PcieLayout::port(PortType::RootPort));
    root.write(type1::BUS_NUMBERS, 0xf, 0x0004_0100);
    let mut up = port(PcieLayout::port(PortType::Upstream));
    up.write(type1::BUS_NUMBERS, 0xf, 0x0004_0201);
    let mut down = port(PcieLayout::port(PortType::Downstream));
    down.write(type1::BUS_NUMBERS, 0xf, 0x0003_0302);
    let endpoint = Builder::type0(identity(0x02_00_00)).pcie(PcieLayout::default()).build().unwrap();
    let functions = [("00:01.0", root), ("01:00.0", up), ("02:00.0", down), ("03:00.0", endpoint)];
    let dump: String = functions.iter().map(|(bdf, space)| space.hexdump(bdf, "function")).collect();
    let Some(_) = lspci(&dump) else { return };
    let Some(drawn) = testkit::lspci::lspci(&dump, &["-t"]) else { return };
    assert_eq!(drawn.trim(), "-[0000:00]---01.0-[01-04]----00.0-[02-04]----00.0-[03]----00.0");
}
