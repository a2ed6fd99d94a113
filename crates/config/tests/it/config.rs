// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space from the view of software: rows of `PCIe 5.0 §7.5` to `§7.8`, sizing and errors as Linux handles
//! them.

use proptest::prelude::*;
use riser_config::cap::pcie::device_control;
use riser_config::header::{self, command, status};
use riser_config::*;
use tlp::{Attributes, Duration, Mps};

const PMCSR: u16 = 0x44 / 4;
const PCIE: u16 = 0x58 / 4; // PM at 40h (8 B), MSI at 48h (16 B)
const DEVICE_CONTROL: u16 = PCIE + 2;
const AER: u16 = 0x100 / 4;

fn builder() -> Builder {
    let identity = Identity {
        vendor: 0x1234,
        device: 0xabcd,
        revision: 7,
        class: 0x02_00_00,
        subsystem_vendor: 0x5678,
        subsystem: 0x9abc,
    };
    Builder::type0(identity)
        .bar(0, Bar::memory64(64 << 10).prefetchable())
        .bar(2, Bar::memory32(4096))
        .bar(5, Bar::io(32))
        .interrupt_pin(1)
        .power_management()
        .msi(MsiLayout { vectors: 8 })
        .pcie(PcieLayout::default())
        .msix(MsixLayout { vectors: 5, table: (2, 0), pending: (2, 0x800) })
        .advanced_error_reporting()
}

fn space() -> ConfigSpace {
    builder().build().unwrap()
}

/// Registers after reset: DW, value, description.
#[test]
fn registers_have_reset_values() {
    let rows: [(u16, u32, &str); 25] = [
        (0, 0xabcd_1234, "Device ID, Vendor ID"),
        (1, 0x0010_0000, "Status: Capabilities List; Command: all off"),
        (2, 0x0200_0007, "Class Code, Revision ID"),
        (3, 0, "Header Type 0"),
        (4, 0xc, "BAR 0: 64-bit, prefetchable"),
        (5, 0, "BAR 0, high"),
        (6, 0, "BAR 2: 32-bit memory"),
        (9, 1, "BAR 5: I/O"),
        (0x2c / 4, 0x9abc_5678, "Subsystem ID, Subsystem Vendor ID"),
        (0x34 / 4, 0x40, "Capabilities Pointer"),
        (0x3c / 4, 0x0100, "Interrupt Pin INTA"),
        (0x40 / 4, 0x0003_4801, "PM, next 48h"),
        (0x44 / 4, 0x8, "PMCSR: No_Soft_Reset"),
        (0x48 / 4, 0x0086_5805, "MSI: 64-bit, 8 vectors capable, next 58h"),
        (PCIE, 0x0002_9410, "PCI Express: version 2, endpoint, next 94h"),
        (PCIE + 1, 0x1000_8022, "Device Capabilities: FLR, role-based, extended tag, MPS 512"),
        (PCIE + 2, 0x2910, "Device Control: MRRS 512, No Snoop, extended tag, Relaxed Ordering, MPS 128"),
        (PCIE + 3, 0x0040_0103, "Link Capabilities: x16, 8 GT/s, ASPM optionality"),
        (PCIE + 4, 0x0103_0000, "Link Status: x16, 8 GT/s"),
        (PCIE + 9, 0x0001_001f, "Device Capabilities 2: timeout ranges A to D and disable, 10-bit completer"),
        (PCIE + 11, 0xe, "Link Capabilities 2: 2.5 to 8 GT/s"),
        (0x94 / 4, 0x0004_0011, "MSI-X: 5 vectors, last"),
        (0x98 / 4, 0x2, "MSI-X table: BAR 2, offset 0"),
        (0x9c / 4, 0x802, "MSI-X PBA: BAR 2, offset 800h"),
        (AER, 0x0002_0001, "AER version 2, last"),
    ];
    let space = space();
    for (dw, value, what) in rows {
        assert_eq!(space.read(dw), value, "{what}: {:#x}", space.read(dw));
    }
    assert_eq!((space.read(1023), space.read(1024), space.read(u16::MAX)), (0, 0, 0));
}

/// `pci_read_bases`: save, write all ones, read, restore; the lowest writable bit is the size.
#[test]
fn bars_are_sized_as_linux_does_it() {
    let mut space = space();
    let mut size = |dw: u16, type_bits: u32| {
        let saved = space.read(dw);
        space.write(dw, 0xf, !0);
        let ones = space.read(dw);
        space.write(dw, 0xf, saved);
        (ones & type_bits, !(ones & !type_bits))
    };
    assert_eq!(size(4, 0xf), (0xc, 0xffff));
    assert_eq!(size(5, 0), (0, 0));
    assert_eq!(size(6, 0xf), (0, 0xfff));
    assert_eq!(size(7, 0xf), (0, !0), "no BAR: reads zero");
    assert_eq!(size(9, 0x3), (1, 0x1f));
}

#[test]
fn bar_writes_move_the_window() {
    let mut space = space();
    assert_eq!(space.write(4, 0xf, 0xdead_beef), Effects::BAR);
    assert_eq!(space.write(5, 0xf, 0x12), Effects::BAR);
    let window = space.bar(0).unwrap();
    assert_eq!((window.address, window.size), (0x12_dead_0000, 0x1_0000));
    assert_eq!(window.offset_of(0x12_dead_fffc, 4), Some(0xfffc));
    assert_eq!(window.offset_of(0x12_dead_fffd, 4), None);
    assert_eq!((space.bar(1), space.bar(3), space.bar(6)), (None, None, None));
    assert_eq!(space.bar(5).map(|w| w.kind), Some(BarKind::Io));
}

#[test]
fn command_register_keeps_writable_bits() {
    let mut space = space();
    assert_eq!(space.write(header::COMMAND_STATUS, 0xf, !0), Effects::COMMAND);
    assert_eq!(space.read(header::COMMAND_STATUS), 0x0010_0547);
    assert!(space.memory_enable() && space.bus_master_enable() && space.io_enable());
    assert_eq!(space.write(header::COMMAND_STATUS, 0b0001, command::MEMORY_SPACE), Effects::COMMAND);
    assert_eq!(space.read(header::COMMAND_STATUS), 0x0010_0502, "the high byte was not enabled");
    let nothing = space.write(header::COMMAND_STATUS, 0b0001, command::MEMORY_SPACE);
    assert_eq!(nothing, Effects::empty());
}

#[test]
fn msi_follows_register_writes() {
    let mut space = space();
    assert_eq!(space.msi(), None);
    space.write(0x4c / 4, 0xf, 0xfee0_0013);
    space.write(0x50 / 4, 0xf, 0x1);
    space.write(0x54 / 4, 0xf, 0xffff_4021);
    assert_eq!(space.write(0x48 / 4, 0b0100, 0x0021_0000), Effects::MSI);
    let msi = MsiConfig { address: 0x1_fee0_0010, data: 0x4021, vectors: 4 };
    assert_eq!(space.msi(), Some(msi));
    space.write(0x48 / 4, 0b0100, 0x0071_0000);
    assert_eq!(space.msi().map(|m| m.vectors), Some(8), "no more than capable");
}

#[test]
fn msix_control_has_enable_and_function_mask() {
    let mut space = space();
    assert_eq!(space.write(0x94 / 4, 0b1000, !0), Effects::MSIX);
    assert_eq!(space.read(0x94 / 4), 0xc004_0011);
    assert_eq!(space.msix(), MsixControl { enabled: true, function_mask: true });
}

/// Device Control: value written, then MPS, MRRS, extended tag.
#[test]
fn device_control_sets_payload_request_and_tag_limits() {
    let rows = [
        (0x0000, 128, 128, false),
        (0x2020, 256, 512, false),
        (0x5140, 512, 4096, true),
        (0x50a0, 512, 4096, false), // MPS 4096 set, 512 supported
        (0x70e0, 128, 512, false),  // reserved encodings
    ];
    for (value, mps, mrrs, tag) in rows {
        let mut space = space();
        assert_eq!(space.write(DEVICE_CONTROL, 0b0011, value), Effects::DEVICE_CONTROL);
        let got = (space.mps().bytes(), space.mrrs().bytes(), space.extended_tag_enable());
        assert_eq!(got, (mps, mrrs, tag), "{value:#x}");
    }
}

#[test]
fn attributes_are_enabled_bit_by_bit() {
    let mut space = space();
    assert_eq!(space.request_attributes(), Attributes::RELAXED_ORDERING | Attributes::NO_SNOOP);
    space.write(DEVICE_CONTROL, 0b0011, 0);
    space.write(PCIE + 10, 0b0011, 1 << 8);
    assert_eq!(space.request_attributes(), Attributes::ID_BASED_ORDERING);
}

/// Completion Timeout Value and Disable (`PCIe 5.0 Table 7-27`).
#[test]
fn device_control_2_sets_completion_timeout() {
    let default = Duration::from_us(77);
    let rows = [
        (0b0000, Some(default)),
        (0b0001, Some(Duration::from_us(100))),
        (0b0010, Some(Duration::from_ms(10))),
        (0b0101, Some(Duration::from_ms(55))),
        (0b1110, Some(Duration::from_ms(64_000))),
        (0b0011, Some(default)), // reserved
        (0b1_0001, None),
    ];
    for (value, timeout) in rows {
        let mut space = space();
        space.write(PCIE + 10, 0b0001, value);
        assert_eq!(space.completion_timeout(default), timeout, "{value:#b}");
    }
}

#[test]
fn flr_bit_reads_zero() {
    let mut space = space();
    let asked = space.write(DEVICE_CONTROL, 0b0011, 0x2910 | device_control::INITIATE_FLR);
    assert_eq!(asked, Effects::FUNCTION_LEVEL_RESET);
    assert_eq!(space.read(DEVICE_CONTROL), 0x2910);
    let low_byte_only = space.write(DEVICE_CONTROL, 0b0001, 0x10 | device_control::INITIATE_FLR);
    assert_eq!(low_byte_only, Effects::empty());
    let without = PcieLayout { function_level_reset: false, ..PcieLayout::default() };
    let mut space = builder().pcie(without).build().unwrap();
    assert_eq!(space.write(DEVICE_CONTROL, 0b0011, 0xa910), Effects::empty());
}

fn log(
    space: &mut ConfigSpace,
    error: Uncorrectable,
    advisory: bool,
    header: [u32; 4],
) -> Option<ErrorMessage> {
    space.log(ErrorReport::new(error).advisory(advisory).header(header))
}

/// Registers that a reset keeps (`PCIe 5.0 §6.6.2`): FLR keeps MPS and Link Control; sticky bits are lost only with
/// power.
#[test]
fn resets_keep_sticky_registers() {
    let set = || {
        let mut space = space();
        space.write(header::COMMAND_STATUS, 0xf, command::BUS_MASTER);
        space.write(4, 0xf, 0x1234_0000);
        space.write(DEVICE_CONTROL, 0b0011, 0x0040 | 0x1000);
        space.write(PCIE + 4, 0b0001, 1 << 3);
        log(&mut space, Uncorrectable::MalformedTlp, false, [1, 2, 3, 4]);
        space
    };
    for (scope, control, rcb, error) in [
        (ResetScope::FunctionLevel, 0x2910 | 0x40, 128, 1 << 18),
        (ResetScope::Hot, 0x2910, 64, 1 << 18),
        (ResetScope::Fundamental, 0x2910, 64, 0),
    ] {
        let mut space = set();
        space.reset(scope);
        assert_eq!((space.bus_master_enable(), space.bar(0).unwrap().address), (false, 0));
        assert_eq!((space.read(DEVICE_CONTROL), space.rcb().bytes()), (control, rcb), "{scope:?}");
        assert_eq!((space.read(AER + 1), space.read(AER + 7)), (error, error >> 18), "{scope:?}");
    }
}

/// Errors (`PCIe 5.0 §6.2.3`): error, advisory, enables of Device Control, message, Device Status.
#[test]
fn errors_are_logged_and_reported() {
    use ErrorMessage::*;
    use Uncorrectable::*;
    let rows = [
        (MalformedTlp, false, 0x4, Some(Fatal), 0x4),
        (MalformedTlp, false, 0x0, None, 0x4),
        (UnsupportedRequest, false, 0xa, Some(NonFatal), 0xa),
        (UnsupportedRequest, false, 0x2, None, 0xa),
        (CompletionTimeout, false, 0x2, Some(NonFatal), 0x2),
        (UnexpectedCompletion, true, 0xf, None, 0x1), // Advisory Non-Fatal is masked after reset
    ];
    for (error, advisory, enables, message, detected) in rows {
        let mut space = space();
        space.write(DEVICE_CONTROL, 0b0001, enables);
        assert_eq!(log(&mut space, error, advisory, [5; 4]), message, "{error:?}");
        assert_eq!(space.read(DEVICE_CONTROL) >> 16, detected, "{error:?}");
        // A masked advisory error only sets Advisory Non-Fatal Error Status (§6.2.4.3).
        assert_eq!(space.read(AER + 1), if advisory { 0 } else { error.mask() });
        space.write(AER + 1, 0xf, error.mask());
        assert_eq!(space.read(AER + 1), 0, "RW1C");
    }
    let mut space = space();
    space.write(AER + 5, 0xf, 0);
    space.write(DEVICE_CONTROL, 0b0001, 0x1);
    assert_eq!(log(&mut space, UnexpectedCompletion, true, [0; 4]), Some(Correctable));
    assert_eq!(space.read(AER + 4), 1 << 13);
}

#[test]
fn the_first_error_keeps_the_header_log() {
    let mut space = space();
    log(&mut space, Uncorrectable::PoisonedTlp, false, [1, 2, 3, 4]);
    log(&mut space, Uncorrectable::MalformedTlp, false, [9, 9, 9, 9]);
    assert_eq!((space.read(AER + 6) & 0x1f, space.read(AER + 7), space.read(AER + 10)), (12, 1, 4));
    space.write(AER + 1, 0xf, Uncorrectable::PoisonedTlp.mask());
    log(&mut space, Uncorrectable::CompletionTimeout, false, [7; 4]);
    assert_eq!((space.read(AER + 6) & 0x1f, space.read(AER + 7)), (14, 7));
}

#[test]
fn status_bits_are_set_by_hardware_and_cleared_by_software() {
    let mut space = space();
    space.set_status(!0);
    assert_eq!(space.read(1) & status::RW1C, status::RW1C);
    space.write(1, 0b1000, status::RECEIVED_MASTER_ABORT);
    assert_eq!(space.read(1) & status::RW1C, status::RW1C & !status::RECEIVED_MASTER_ABORT);
    space.set_transactions_pending(true);
    assert_eq!(space.read(DEVICE_CONTROL) >> 21 & 1, 1);
}

#[test]
fn rejects_impossible_layouts() {
    let base = || Builder::type0(Identity::default());
    let named = |vendor, device| Builder::type0(Identity { vendor, device, ..Identity::default() });
    let rows = [
        (named(0xffff, 1), BuildError::Identity(0xffff, 1)),
        (named(0x0001, 0xffff), BuildError::Identity(0x0001, 0xffff)),
        (base().bar(6, Bar::memory32(4096)), BuildError::BarIndex(6)),
        (base().bar(5, Bar::memory64(4096)), BuildError::BarIndex(5)),
        (base().bar(255, Bar::memory64(4096)), BuildError::BarIndex(255)),
        (base().bar(0, Bar::memory64(4096)).bar(1, Bar::memory32(4096)), BuildError::BarTaken(1)),
        (base().bar(0, Bar::memory32(4095)), BuildError::BarSize(0, 4095)),
        (base().bar(0, Bar::memory32(1 << 32)), BuildError::BarSize(0, 1 << 32)),
        (base().msi(MsiLayout { vectors: 3 }), BuildError::MsiVectors(3)),
        (base().interrupt_pin(5), BuildError::InterruptPin(5)),
        (
            base().msix(MsixLayout { vectors: 1, table: (0, 0), pending: (0, 16) }),
            BuildError::MsixPlace(0, 0),
        ),
        (
            base().bar(0, Bar::memory32(4096)).msix(MsixLayout {
                vectors: 2,
                table: (0, 0),
                pending: (0, 24),
            }),
            BuildError::MsixOverlap,
        ),
    ];
    for (builder, error) in rows {
        assert_eq!(builder.build().err(), Some(error));
    }
    assert_eq!(Mps::default().bytes(), base().build().unwrap().mps().bytes());
}

/// Read-only after reset: bits that no sequence of writes changes.
fn writable(space: &ConfigSpace, dw: u16) -> u32 {
    let (mut ones, mut zeros) = (space.clone(), space.clone());
    ones.write(dw, 0xf, !0);
    zeros.write(dw, 0xf, 0);
    ones.read(dw) ^ zeros.read(dw)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Writes change only writable bits of enabled bytes in their own register, and exactly to the written value.
    #[test]
    fn writes_obey_the_masks(writes in prop::collection::vec((0u16..0x140 / 4, 0u8..16, any::<u32>()), 1..40)) {
        let mut space = space();
        for (dw, be, value) in writes {
            let before = space.clone();
            space.write(dw, be, value);
            let named = riser_config::register::byte_mask(be) & writable(&before, dw);
            let mut expected = before.read(dw) & !named | value & named;
            if dw == PMCSR && matches!(expected & 0b11, 0b01 | 0b10) {
                expected = expected & !0b11 | before.read(dw) & 0b11; // D1 and D2 are not supported (§7.5.2.2)
            }
            prop_assert_eq!(space.read(dw), expected, "DW {:#x}", dw);
            for other in (0..0x140 / 4).filter(|&o| o != dw) {
                prop_assert_eq!(space.read(other), before.read(other));
            }
        }
        space.reset(ResetScope::Fundamental);
        for dw in 0..1024 {
            prop_assert_eq!(space.read(dw), self::space().read(dw));
        }
    }
}
