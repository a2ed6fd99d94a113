// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meanings of TLPs. Firmware and a driver configure a function and use it; the capture must then show the names.

use crate::common::{completion, memory};
use config::{
    Bar, Builder, ConfigSpace, Identity, MsiLayout, MsiOptions, MsixLayout, PcieLayout, SriovLayout,
};
use riser_capture::names::{InterruptKind, Names};
use riser_capture::render::JsonRecord;
use riser_capture::{
    DeviceRegister, DeviceRegisters, Direction, InterfaceId, Mark, Meaning, NamedRegister, Origin,
    OwnRegisters, Reader, Writer,
};
use std::io::Cursor;
use tlp::{Access, Bdf, Body, ConfigRequest, Data, MemoryOp, PayloadPool, Repr, Status, Tag, Time, Tlp};

const FUNCTION: u16 = 0x0100;
const VENDOR: u16 = 0x1234;
const DEVICE: u16 = 0x0042;
const VF_DEVICE: u16 = 0x0043;

fn devices() -> DeviceRegisters {
    const REGISTERS: [DeviceRegister; 3] = [
        DeviceRegister { bar: Some(0), offset: 0, bytes: 8, name: "ring" },
        DeviceRegister { bar: Some(0), offset: 8, bytes: 4, name: "doorbell" },
        DeviceRegister { bar: Some(0), offset: 0x40, bytes: 64, name: "window" },
    ];
    [DEVICE, VF_DEVICE].into_iter().map(|device| ((VENDOR, device), &REGISTERS[..])).collect()
}

/// A host and a function, with a capture between them.
struct Wire {
    writer: Writer<Vec<u8>>,
    down: InterfaceId,
    up: InterfaceId,
    ps: u64,
    tag: u16,
    pool: PayloadPool,
}

impl Wire {
    fn new() -> Wire {
        Wire::to_device(&OwnRegisters::default())
    }

    /// A wire to a device that describes its own registers.
    fn to_device(registers: &OwnRegisters) -> Wire {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let down = writer.tap_to_device(0, "", 1, registers).unwrap();
        let up = writer.tap(0, Direction::Upstream, "").unwrap();
        Wire { writer, down, up, ps: 0, tag: 0, pool: PayloadPool::new() }
    }

    fn put(&mut self, at: InterfaceId, tlp: &Tlp, mark: Mark) {
        self.ps += 1000;
        self.writer.write_tlp_marked(at, Time::from_ps(self.ps), tlp, Origin::Host, mark).unwrap();
    }

    fn request(&self, op: Access, function: u16, register_dw: u16, first_be: u8) -> Repr {
        Repr::new(Body::Config(ConfigRequest {
            first_be,
            ..ConfigRequest::new(
                op,
                Bdf::default(),
                Tag::new(self.tag).unwrap(),
                Bdf::from_bits(function),
                register_dw,
            )
        }))
    }

    fn dw(&self, value: u32) -> Data {
        Data::Carried(self.pool.copy(&value.to_le_bytes()))
    }

    fn read(&mut self, space: &ConfigSpace, function: u16, dw: u16) {
        self.tag = (self.tag + 1) % 256;
        let request = Tlp::new(self.request(Access::Read, function, dw, 0xf), Data::NONE);
        self.put(self.down, &request, Mark::default());
        let answer = completion(0, self.tag, 4, Some(1), Status::Success);
        let answer = Tlp::new(answer, self.dw(space.read(dw))).with_carry(true);
        self.put(self.up, &answer, Mark::default());
    }

    fn write(&mut self, space: &mut ConfigSpace, function: u16, dw: u16, enables: u8, value: u32) {
        space.write(dw, enables, value);
        self.tag = (self.tag + 1) % 256;
        let request = self.request(Access::Write, function, dw, enables);
        let request = Tlp::new(request, self.dw(value)).with_carry(true);
        self.put(self.down, &request, Mark::default());
        let answer = Tlp::new(completion(0, self.tag, 4, None, Status::Success), Data::NONE);
        self.put(self.up, &answer, Mark::default());
    }

    /// A memory write by the host, or by a function.
    fn store(&mut self, requester: u16, address: u64, bytes: &[u8]) {
        let data = Data::Carried(self.pool.copy(bytes));
        let tlp = memory(MemoryOp::Write, requester, 0, address, bytes.len() as u32, data);
        let at = if requester == 0 { self.down } else { self.up };
        self.put(at, &tlp, Mark::default());
    }

    fn load(&mut self, address: u64, bytes: u32) {
        let tlp = memory(MemoryOp::Read, 0, 0, address, bytes, Data::NONE);
        self.put(self.down, &tlp, Mark::default());
    }

    /// Reads the header and the chains of capabilities, like firmware.
    fn discover(&mut self, space: &ConfigSpace, function: u16) {
        for dw in [0, 3, 2, 13] {
            self.read(space, function, dw);
        }
        let mut at = space.read(13) as u16 / 4;
        while at != 0 {
            self.read(space, function, at);
            at = (space.read(at) >> 8) as u16 % 256 / 4;
        }
        let mut at = 64;
        while at != 0 && space.read(at) != 0 {
            self.read(space, function, at);
            at = (space.read(at) >> 20) as u16 / 4;
        }
    }

    fn place_bar(&mut self, space: &mut ConfigSpace, function: u16, dw: u16, value: u32) {
        self.write(space, function, dw, 0xf, !0);
        self.read(space, function, dw);
        self.write(space, function, dw, 0xf, value);
    }

    fn finish(self) -> Vec<u8> {
        self.writer.finish().unwrap()
    }
}

fn meanings_in(file: &[u8]) -> Vec<Meaning> {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let (mut names, mut found) = (Names::new(devices()), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        found.extend(names.see(&record));
    }
    found
}

fn texts_in(file: &[u8]) -> Vec<String> {
    meanings_in(file).iter().map(ToString::to_string).collect()
}

fn identity() -> Identity {
    Identity { vendor: VENDOR, device: DEVICE, class: 0x02_0000, ..Identity::default() }
}

fn with_msix() -> ConfigSpace {
    Builder::type0(identity())
        .bar(0, Bar::memory64(64 << 10))
        .bar(2, Bar::memory32(4096))
        .power_management()
        .pcie(PcieLayout::default())
        .msix(MsixLayout { vectors: 4, table: (2, 0x800), pending: (2, 0xc00) })
        .advanced_error_reporting()
        .build()
        .unwrap()
}

/// Places BARs 0 (64 bits, at 4_0000_0000h) and 2 (at e000_0000h), and sets Memory Space Enable and Bus Master
/// Enable.
fn place(wire: &mut Wire, space: &mut ConfigSpace) {
    wire.discover(space, FUNCTION);
    wire.place_bar(space, FUNCTION, 4, 0);
    wire.place_bar(space, FUNCTION, 5, 4);
    wire.place_bar(space, FUNCTION, 6, 0xe000_0000);
    wire.write(space, FUNCTION, 1, 0b0011, 0b110);
}

fn position(space: &ConfigSpace, id: u8) -> u16 {
    let mut at = space.read(13) as u16 / 4;
    while space.read(at) as u8 != id {
        at = (space.read(at) >> 8) as u16 % 256 / 4;
        assert_ne!(at, 0);
    }
    at
}

#[test]
fn names_configuration_registers_and_fields() {
    let (mut wire, mut space) = (Wire::new(), with_msix());
    place(&mut wire, &mut space);
    let pcie = position(&space, 0x10);
    wire.write(&mut space, FUNCTION, pcie + 2, 0b0011, 5 << 12 | 2 << 5 | 0b1111);
    wire.write(&mut space, FUNCTION, pcie + 2, 0b1100, 0b0101 << 16);
    let msix = position(&space, 0x11);
    wire.write(&mut space, FUNCTION, msix, 0b1100, 1 << 31);
    wire.write(&mut space, FUNCTION, 1, 0b0011, 0);
    let texts = texts_in(&wire.finish());
    let expected = [
        "Vendor ID, Device ID",
        "Vendor ID, Device ID = 0x00421234",
        "Cache Line Size, Latency Timer, Header Type, BIST",
        "BAR 0: sizing",
        "BAR 0 = 0xffff0004",
        "BAR 0 = 0x00000000",
        "BAR 1 (upper half of BAR 0): sizing",
        "BAR 1 (upper half of BAR 0): 64 KiB",
        "BAR 1 (upper half of BAR 0) = 0x00000004",
        "BAR 2: 4 KiB",
        "BAR 2 = 0xe0000000",
        "Command: Memory Space Enable, Bus Master Enable",
        "PCI Express Device Control: Correctable Error Reporting Enable, Non-Fatal Error Reporting Enable, Fatal Error \
         Reporting Enable, Unsupported Request Reporting Enable, Max_Payload_Size 2, Max_Read_Request_Size 5",
        "PCI Express Device Status: clears Correctable Error Detected, clears Fatal Error Detected",
        "MSI-X Message Control: MSI-X Enable",
        "Command = 0x0",
    ];
    for text in expected {
        assert!(texts.iter().any(|found| found == text), "{text}\n{texts:#?}");
    }
}

#[test]
fn names_msix_interrupts_by_vector() {
    let (mut wire, mut space) = (Wire::new(), with_msix());
    place(&mut wire, &mut space);
    wire.read(&space, FUNCTION, position(&space, 0x11) + 1);
    let table = 0xe000_0800;
    wire.store(0, table, &[0, 0, 0xe0, 0xfe, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0]);
    // The second entry is written in pieces. The third has the same address and data as the first.
    wire.store(0, table + 16, &0xfee0_0000_u64.to_le_bytes());
    wire.store(0, table + 24, &[0x22, 0, 0, 0]);
    wire.store(0, table + 32, &[0, 0, 0xe0, 0xfe, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0]);
    // MSI-X is not enabled yet, so this is a plain write.
    wire.store(FUNCTION, 0xfee0_0000, &[0x22, 0, 0, 0]);
    let before = wire.ps;
    let msix = position(&space, 0x11);
    wire.write(&mut space, FUNCTION, msix, 0b1100, 1 << 31);
    wire.store(FUNCTION, 0xfee0_0000, &[0x22, 0, 0, 0]);
    wire.store(FUNCTION, 0xfee0_0000, &[0x21, 0, 0, 0]);
    wire.store(FUNCTION, 0xfee0_0000, &[0x23, 0, 0, 0]);
    wire.store(0x0200, 0xfee0_0000, &[0x22, 0, 0, 0]);
    assert!(before > 0);
    let file = wire.finish();
    let texts = texts_in(&file);
    let from = texts.iter().position(|text| text.contains("MSI-X table")).unwrap();
    assert_eq!(
        texts[from..],
        [
            "01:00.0 MSI-X table, vector 0: Message Address = 0xfee00000, Message Upper Address = 0x0, Message Data = 0x21, \
             Vector Control = 0x0",
            "01:00.0 MSI-X table, vector 1: Message Address = 0xfee00000, Message Upper Address = 0x0",
            "01:00.0 MSI-X table, vector 1: Message Data = 0x22",
            "01:00.0 MSI-X table, vector 2: Message Address = 0xfee00000, Message Upper Address = 0x0, Message Data = 0x21, \
             Vector Control = 0x0",
            "MSI-X Message Control: MSI-X Enable",
            "MSI-X of 01:00.0, vector 1",
            "MSI-X of 01:00.0, one of several vectors",
        ]
    );
    let interrupts = meanings_in(&file).into_iter().filter_map(|meaning| match meaning {
        Meaning::Interrupt(interrupt) => Some((interrupt.kind, interrupt.vector)),
        _ => None,
    });
    let expected = [(InterruptKind::Msix, Some(1)), (InterruptKind::Msix, None)];
    assert_eq!(interrupts.collect::<Vec<_>>(), expected);
    assert_eq!(
        interrupts_in_json(&file),
        [
            "\"interrupt\":\"MSI-X\",\"function\":\"01:00.0\",\"vector\":1",
            "\
         \"interrupt\":\"MSI-X\",\"function\":\"01:00.0\",\"vector\":null"
        ]
    );
}

/// The fields about interrupts in the JSON objects that have them.
fn interrupts_in_json(file: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let (mut names, mut found) = (Names::new(devices()), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        let meaning = names.see(&record);
        let json = serde_json::to_string(&JsonRecord::new(&record).with_meaning(meaning.as_ref())).unwrap();
        assert_eq!(json.contains("\"means\":"), meaning.is_some());
        found.extend(json.find("\"interrupt\"").map(|at| json[at..json.len() - 1].to_owned()));
    }
    found
}

/// `PCIe 5.0 §6.1.4`, §7.7.1: both forms of the capability, and several vectors that differ in the low bits of the
/// data.
#[test]
fn names_msi_interrupts_by_vector() {
    for (address_32, enabled, data, expected) in [
        (false, 2_u32, 0x4043_u32, "MSI of 01:00.0, vector 3"),
        (true, 2, 0x4042, "MSI of 01:00.0, vector 2"),
        (true, 0, 0x4040, "MSI of 01:00.0, vector 0"),
    ] {
        let mut space = Builder::type0(identity())
            .msi(MsiLayout { vectors: 4 })
            .msi_options(MsiOptions { masking: false, address_32 })
            .build()
            .unwrap();
        let mut wire = Wire::new();
        wire.discover(&space, FUNCTION);
        let msi = position(&space, 0x05);
        let data_dw = if address_32 { msi + 2 } else { msi + 3 };
        wire.write(&mut space, FUNCTION, msi + 1, 0xf, 0xfee0_0000);
        if !address_32 {
            wire.write(&mut space, FUNCTION, msi + 2, 0xf, 0);
        }
        wire.write(&mut space, FUNCTION, data_dw, 0b0011, 0x4040);
        // MSI is not enabled yet.
        wire.store(FUNCTION, 0xfee0_0000, &data.to_le_bytes());
        wire.write(&mut space, FUNCTION, msi, 0b1100, 1 << 16 | enabled << 20);
        wire.store(FUNCTION, 0xfee0_0000, &data.to_le_bytes());
        // Writes with other data, another address or another length are not interrupts.
        wire.store(FUNCTION, 0xfee0_0000, &0x4050_u32.to_le_bytes());
        wire.store(FUNCTION, 0xfee0_0004, &data.to_le_bytes());
        wire.store(FUNCTION, 0xfee0_0000, &u64::from(data).to_le_bytes());
        let texts = texts_in(&wire.finish());
        let found: Vec<&String> = texts.iter().filter(|text| text.starts_with("MSI of")).collect();
        assert_eq!(found, [expected]);
        assert!(texts.iter().any(|text| text == "MSI Message Data = 0x4040"), "{texts:#?}");
        assert!(texts.iter().any(|text| text == "MSI Message Address = 0xfee00000"), "{texts:#?}");
        let control = format!("MSI Message Control: MSI Enable, Multiple Message Enable {enabled}");
        assert!(texts.contains(&control), "{texts:#?}");
    }
}

#[test]
fn names_device_registers() {
    let (mut wire, mut space) = (Wire::new(), with_msix());
    place(&mut wire, &mut space);
    let from = texts_in(&Wire::new().finish()).len();
    assert_eq!(from, 0);
    let bar = 0x4_0000_0000;
    wire.store(0, bar + 8, &7_u32.to_le_bytes());
    wire.store(0, bar, &0x1_2345_0000_u64.to_le_bytes());
    wire.store(0, bar + 4, &[1, 0, 0, 0, 9, 0, 0, 0]);
    wire.store(0, bar + 0x48, &[1, 2, 3, 4]);
    wire.load(bar + 8, 4);
    // No register with a name is here, and after the end of the BAR there is no name at all.
    wire.load(bar + 0x100, 4);
    wire.load(0xe000_0010, 4);
    wire.load(bar + (64 << 10), 4);
    // Without Memory Space Enable, the function claims no address.
    wire.write(&mut space, FUNCTION, 1, 0b0011, 0b100);
    wire.load(bar + 8, 4);
    let texts = texts_in(&wire.finish());
    let from = texts.iter().position(|text| text.contains("doorbell")).unwrap();
    assert_eq!(
        texts[from..],
        [
            "01:00.0 BAR 0 doorbell = 0x7",
            "01:00.0 BAR 0 ring = 0x123450000",
            "01:00.0 BAR 0 ring + 0x4, doorbell = 0x9",
            "01:00.0 BAR 0 window + 0x8",
            "01:00.0 BAR 0 doorbell",
            "01:00.0 BAR 0 + 0x100",
            "01:00.0 BAR 2 + 0x10",
            "Command: Bus Master Enable",
        ]
    );
}

/// `PCIe 5.0 §9.2.1.2`, §9.3.3.14: the windows of virtual functions are adjacent.
#[test]
fn names_registers_of_virtual_functions() {
    let layout = SriovLayout::new(4, VF_DEVICE).bar(0, Bar::memory32(4096));
    let mut space = Builder::type0(identity())
        .pcie(PcieLayout::default())
        .alternative_routing(0)
        .single_root_virtualization(layout)
        .build()
        .unwrap();
    let mut wire = Wire::new();
    wire.discover(&space, FUNCTION);
    let mut at = 64;
    while space.read(at) as u16 != 0x0010 {
        at = (space.read(at) >> 20) as u16 / 4;
        assert_ne!(at, 0);
    }
    for dw in [at + 5, at + 6, at + 8] {
        wire.read(&space, FUNCTION, dw);
    }
    wire.write(&mut space, FUNCTION, at + 4, 0b0011, 3);
    wire.place_bar(&mut space, FUNCTION, at + 9, 0xd000_0000);
    wire.write(&mut space, FUNCTION, at + 2, 0b0011, 0b1001);
    wire.read(&space, FUNCTION, at + 5);
    let numbers = space.read(at + 5);
    let (first, stride) = (numbers as u16, (numbers >> 16) as u16);
    wire.store(0, 0xd000_2008, &5_u32.to_le_bytes());
    // There are only three virtual functions.
    wire.store(0, 0xd000_3008, &5_u32.to_le_bytes());
    let texts = texts_in(&wire.finish());
    let third = Bdf::from_bits(FUNCTION + first + 2 * stride);
    assert_eq!(*texts.last().unwrap(), format!("{third} BAR 0 doorbell = 0x5"));
    for text in [
        "Single Root I/O Virtualization SR-IOV Control: VF Enable, VF MSE",
        "VF BAR 0: 4 KiB",
        "VF BAR 0 = 0xd0000000",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text}\n{texts:#?}");
    }
}

/// A capture that starts after enumeration has only the names that are the same in all header types.
#[test]
fn has_no_names_without_enumeration() {
    let (mut wire, mut space) = (Wire::new(), with_msix());
    wire.write(&mut space, FUNCTION, 1, 0b0011, 0b110);
    let (pcie, msix) = (position(&space, 0x10), position(&space, 0x11));
    for dw in [4, 6, 8, 12, 14, pcie + 2, msix, 64, 65] {
        wire.write(&mut space, FUNCTION, dw, 0xf, !0);
    }
    wire.store(FUNCTION, 0xfee0_0000, &[0x22, 0, 0, 0]);
    wire.store(0, 0xe000_0800, &[0; 16]);
    assert_eq!(texts_in(&wire.finish()), ["Command: Memory Space Enable, Bus Master Enable"]);
}

/// TLPs that did not arrive are ignored. After a device was exchanged, the previous registers are forgotten.
#[test]
fn learns_only_from_valid_accesses() {
    let (mut wire, mut space) = (Wire::new(), with_msix());
    let lost = Mark { dropped: true, ..Mark::default() };
    let request = Tlp::new(wire.request(Access::Read, FUNCTION, 3, 0xf), Data::NONE);
    wire.put(wire.down, &request, lost);
    wire.write(&mut space, FUNCTION, 4, 0xf, !0);
    assert_eq!(texts_in(&wire.finish()), [""; 0]);

    let (mut wire, mut space) = (Wire::new(), with_msix());
    place(&mut wire, &mut space);
    let other = Builder::type0(Identity { device: 7, ..identity() }).build().unwrap();
    wire.read(&other, FUNCTION, 0);
    wire.store(0, 0x4_0000_0008, &7_u32.to_le_bytes());
    wire.write(&mut space, FUNCTION, 4, 0xf, !0);
    let texts = texts_in(&wire.finish());
    assert_eq!(texts.last().unwrap(), "Vendor ID, Device ID = 0x00071234");
}

/// The search through capabilities ends even if their chain is broken or a ring.
#[test]
fn names_search_stops_at_cyclic_capability_chain() {
    let (mut wire, space) = (Wire::new(), with_msix());
    wire.discover(&space, FUNCTION);
    let pm = position(&space, 0x01);
    wire.tag += 1;
    let request = Tlp::new(wire.request(Access::Read, FUNCTION, pm, 0xf), Data::NONE);
    wire.put(wire.down, &request, Mark::default());
    let ring = 0x01 | u32::from(pm * 4) << 8;
    let answer = completion(0, wire.tag, 4, Some(1), Status::Success);
    let answer = Tlp::new(answer, wire.dw(ring)).with_carry(true);
    wire.put(wire.up, &answer, Mark::default());
    wire.read(&space, FUNCTION, pm + 1);
    let texts = texts_in(&wire.finish());
    assert!(texts.last().unwrap().starts_with("Power Management"), "{texts:?}");
}

/// Registers that a device describes itself have priority over those of a known device with the same IDs.
#[test]
fn uses_register_names_of_device() {
    let own = |bar, offset, bytes, name| NamedRegister { bar: Some(bar), offset, bytes, name };
    let registers =
        OwnRegisters::new([own(2, 8, 8, "total"), own(0, 8, 4, "kick off"), own(0, 0x10, 2, "state")]);
    let (mut wire, mut space) = (Wire::to_device(&registers), with_msix());
    place(&mut wire, &mut space);
    wire.store(0, 0x4_0000_0008, &7u32.to_le_bytes());
    wire.load(0x4_0000_0010, 2);
    wire.load(0xe000_0008, 8);
    wire.load(0xe000_0000, 4);
    let texts = texts_in(&wire.finish());
    assert_eq!(
        texts[texts.len() - 4..],
        ["01:00.0 BAR 0 kick off = 0x7", "01:00.0 BAR 0 state", "01:00.0 BAR 2 total", "01:00.0 BAR 2 + 0x0"]
    );
}
