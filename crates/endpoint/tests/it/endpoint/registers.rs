// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of a function's writable registers that no other test here covers, observed in the TLPs that the endpoint
//! receives and sends. `crates/fabric/tests/it/register_witnesses.rs` names the test of each register.

use crate::endpoint::harness::*;
use config::ext::resizable::ResizableBar;
use config::{AerLayout, AerRole, Bar, Builder, Identity, PcieLayout};
use device::*;
use riser_endpoint::*;
use tlp::*;

const PCI_EXPRESS: u8 = 0x10;
const MSI_ID: u8 = 0x05;
const AER: u16 = 0x0001;
/// Bits of Command (`PCIe 5.0 Table 7-3`).
const PARITY_ERROR_RESPONSE: u32 = 1 << 6;
const SERR_ENABLE: u32 = 1 << 8;

fn bench() -> Bench {
    Bench::new(EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() })
}

fn poisoned(tlp: Tlp) -> Tlp {
    Tlp { repr: Repr { ep: true, ..tlp.repr }, ..tlp }
}

/// The device reads 4 B, and gets this answer.
fn read_answered(bench: &mut Bench, answer: impl Fn(&Tlp) -> Tlp) {
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 4));
    let asked = bench.poll(Class::NonPosted).unwrap();
    bench.handle(answer(&asked));
    assert!(bench.probe().done()[0].1.is_err());
}

/// The device refuses a read.
fn abort(bench: &mut Bench) {
    bench.handle(mrd(7, BAR2 + 0x400, 4));
    let token = bench.probe().tokens()[0];
    let result = Err(CompletionError::CompleterAbort);
    bench.probe().push(Class::Completion, Output::Complete { token, result });
    assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).status, Status::CompleterAbort);
}

/// Cause of an event.
type Event = fn(&mut Bench);

fn unsupported(bench: &mut Bench) {
    bench.handle(mwr(0x1000, &[0; 4]));
}

/// `PCIe 5.0 Table 7-4`: the bit of Status that each event sets, with these bits of Command; a configuration write of a
/// one clears it, a zero does not.
#[test]
fn events_set_status_bits_and_writes_clear_them() {
    let poisoned_completion: Event = |b| read_answered(b, |asked| poisoned(answer(asked).remove(0)));
    let rows: [(&str, Event, u32, u32); 8] = [
        (
            "a poisoned completion, with Parity Error Response",
            poisoned_completion,
            PARITY_ERROR_RESPONSE,
            1 << 31 | 1 << 24,
        ),
        ("the same without", poisoned_completion, 0, 1 << 31),
        ("a poisoned write", |b| b.handle(poisoned(mwr(BAR0, &[0; 4]))), PARITY_ERROR_RESPONSE, 1 << 31),
        ("CA of the function", abort, 0, 1 << 27),
        ("CA of another", |b| read_answered(b, |asked| refuse(asked, Status::CompleterAbort)), 0, 1 << 28),
        (
            "UR of another",
            |b| read_answered(b, |asked| refuse(asked, Status::UnsupportedRequest)),
            0,
            1 << 29,
        ),
        ("ERR_NONFATAL, with SERR# Enable", unsupported, SERR_ENABLE, 1 << 30),
        ("the same without", unsupported, 0, 0),
    ];
    const EVENTS: u32 = 0xf900_0000;
    for (what, event, command, bits) in rows {
        let mut bench = bench();
        bench.write_config(0, COMMAND, 0x6 | command);
        event(&mut bench);
        assert_eq!(bench.config(COMMAND) & EVENTS, bits, "{what}");
        bench.handle(cfg(Access::Write, EP, COMMAND, 0b1100, &[0, 0]));
        assert_eq!(bench.config(COMMAND) & EVENTS, bits, "{what}: zeros");
        bench.handle(cfg(Access::Write, EP, COMMAND, 0b1100, &[0, 0xf9]));
        assert_eq!(bench.config(COMMAND) & EVENTS, 0, "{what}: ones");
    }
}

/// `PCIe 5.0 §6.2.6`, Figure 6-3: SERR# Enable permits ERR_NONFATAL and ERR_FATAL, as do their own enables in Device
/// Control (bits 0 to 3: correctable, non-fatal, fatal, Unsupported Requests). An Unsupported Request needs both its
/// enables.
#[test]
fn each_error_message_depends_on_its_enable_bits() {
    let malformed: Event = |b| b.handle(mwr(BAR0, &[0; 512]));
    let poisoned: Event = |b| b.handle(poisoned(mwr(BAR0, &[0; 4])));
    let receiver_error: Event = |b| b.endpoint.handle_notice(Time::ZERO, link::Notice::ReceiverError);
    let rows: [(Event, u32, u32, &[u8]); 15] = [
        (malformed, 0, 0b0100, &[0x33]),
        (malformed, 0, 0b1011, &[]),
        (malformed, SERR_ENABLE, 0, &[0x33]),
        (poisoned, 0, 0b0010, &[0x31]),
        (poisoned, 0, 0b1101, &[]),
        (poisoned, SERR_ENABLE, 0, &[0x31]),
        (receiver_error, 0, 0b0001, &[0x30]),
        (receiver_error, 0, 0b1110, &[]),
        (receiver_error, SERR_ENABLE, 0, &[]),
        (unsupported, 0, 0b1010, &[0x31]),
        (unsupported, 0, 0b0010, &[]),
        (unsupported, 0, 0b1000, &[]),
        (unsupported, 0, 0b1101, &[]),
        (unsupported, SERR_ENABLE, 0, &[0x31]),
        (unsupported, 0, 0, &[]),
    ];
    for (n, (event, command, control, codes)) in rows.into_iter().enumerate() {
        let mut bench = bench();
        bench.write_config(0, COMMAND, 0x6 | command);
        bench.write_config(0, DEVICE_CONTROL, 0x2930 | control);
        event(&mut bench);
        let sent: Vec<u8> = bench.messages().into_iter().map(|(code, _)| code).collect();
        assert_eq!(sent, codes, "row {n}: Command {command:#x}, Device Control {control:#x}");
    }
}

/// Device Status, bits 19:16 of the DW: correctable, non-fatal, fatal, Unsupported Request; only a one clears it (`PCIe
/// 5.0 §7.5.3.5`).
#[test]
fn events_set_device_status_bits_and_writes_clear_them() {
    let mut bench = bench();
    let control = 0x2930;
    bench.write_config(0, DEVICE_CONTROL, control);
    bench.endpoint.handle_notice(Time::ZERO, link::Notice::BadTlp);
    unsupported(&mut bench);
    bench.handle(mwr(BAR0, &[0; 512]));
    let mut left = 0xf;
    for bit in [2, 0, 3, 1] {
        assert_eq!(bench.config(DEVICE_CONTROL) >> 16 & 0xf, left);
        bench.handle(cfg(Access::Write, EP, DEVICE_CONTROL, 0b0100, &[1 << bit]));
        left &= !(1 << bit);
    }
    assert_eq!(bench.config(DEVICE_CONTROL) >> 16 & 0xf, 0);
    assert_eq!(bench.config(DEVICE_CONTROL) & 0xffff, control);
}

/// The window moves to the address in both DWs of its BAR, and the function no longer claims the old address (`PCIe 5.0
/// §7.5.1.2.1`).
#[test]
fn moved_bar_moves_its_window() {
    for (register, value, address) in
        [(4, 0x2000_0000, 0x10_2000_0000), (5, 0x20, 0x20_0000_0000), (6, 0xe000_0000, 0xe000_0000)]
    {
        let mut bench = bench();
        let before = if register == 6 { BAR2 } else { BAR0 };
        let seen = |bench: &mut Bench, address: u64| {
            // The endpoint implements the MSI-X table at the start of BAR 2.
            bench.handle(mwr(address + 0xa00, &[0; 4]));
            bench.probe().tokens().len()
        };
        assert_eq!((seen(&mut bench, before), seen(&mut bench, address)), (1, 0), "register {register}");
        bench.write_config(0, register, value);
        assert_eq!((seen(&mut bench, before), seen(&mut bench, address)), (0, 1), "register {register}");
    }
}

/// BAR Size (`PCIe 5.0 §7.8.6.3`): 2^n MiB. The window has the selected length, and begins at a multiple of it: lower
/// address bits read zero.
#[test]
fn bar_length_matches_its_size() {
    const MIB: u64 = 1 << 20;
    let space = Builder::type0(Identity { vendor: 0x1234, ..Identity::default() })
        .bar(0, Bar::memory64(MIB))
        .pcie(PcieLayout::default())
        .resizable_bars(&[ResizableBar { index: 0, sizes: 0b111 }])
        .build()
        .unwrap();
    for (n, bytes) in [(0, MIB), (1, 2 * MIB), (2, 4 * MIB)] {
        let mut bench = Bench::of(EndpointLimits::default(), vec![space.clone()]);
        bench.write_config(0, COMMAND, 0x6);
        bench.write_config(0, 4, 0x0010_0000);
        bench.write_config(0, 5, (BAR0 >> 32) as u32);
        bench.write_extended(0, config::ext::resizable::ID, 2, n << 8);
        let base = BAR0 + if n == 0 { MIB } else { 0 };
        for (offset, seen) in [(0, 1), (bytes - 4, 1), (bytes, 0)] {
            bench.handle(mwr(base + offset, &[0; 4]));
            assert_eq!(bench.probe().tokens().len(), seen, "2^{n} MiB at {offset:#x}");
        }
    }
}

/// Enable Relaxed Ordering and Enable No Snoop, bits 4 and 11 of Device Control; IDO Request Enable, bit 8 of Device
/// Control 2 (`PCIe 5.0 §7.5.3.4`, §7.5.3.16): without its enable bit, an attribute is removed from reads and writes.
#[test]
fn each_attribute_depends_on_its_enable_bit() {
    let rows = [
        (1 << 4, 0, Attributes::RELAXED_ORDERING),
        (1 << 11, 0, Attributes::NO_SNOOP),
        (0, 1 << 8, Attributes::ID_BASED_ORDERING),
        (0, 0, Attributes::empty()),
        (1 << 4 | 1 << 11, 1 << 8, Attributes::all()),
    ];
    for (control, control_2, expected) in rows {
        let mut bench = bench();
        bench.write_config(0, DEVICE_CONTROL, 0x2120 | control);
        bench.write_config(0, DEVICE_CONTROL_2, control_2);
        let options = || DmaOptions::default().with_attr(Attributes::all());
        let data = Data::Counted(4);
        bench.probe().push(Class::Posted, Output::Write(DmaWrite::new(0x2000, data).with_options(options())));
        let read = DmaRead::new(DmaId(1), 0x2000, 4).counted().with_options(options());
        bench.probe().push(Class::NonPosted, Output::Read(read));
        for class in [Class::Posted, Class::NonPosted] {
            assert_eq!(
                bench.poll(class).unwrap().repr.attr,
                expected,
                "{control:#x}, {control_2:#x}, {class:?}"
            );
        }
    }
}

/// IDO Completion Enable, bit 9 of Device Control 2 (`PCIe 5.0 §2.2.6.4`, §7.5.3.16): without it, completions copy only
/// the mandatory attributes of their requests.
#[test]
fn completions_have_ido_if_enabled() {
    let must = Attributes::NO_SNOOP | Attributes::RELAXED_ORDERING;
    for (control_2, allowed) in [(0, must), (1 << 9, Attributes::all()), (1 << 8, must)] {
        for attr in [Attributes::all(), Attributes::ID_BASED_ORDERING, must] {
            let mut bench = bench();
            bench.write_config(0, DEVICE_CONTROL_2, control_2);
            let asked = |tlp: Tlp| Tlp { repr: Repr { attr, ..tlp.repr }, ..tlp };
            let what = format!("{control_2:#x}, {attr:?}");
            bench.handle(asked(mrd(1, BAR0, 64)));
            let Input::Request(request) = bench.probe().take_inputs().remove(0) else { panic!("{what}") };
            assert_eq!(request.attr, attr, "{what}: as the device sees it");
            let result = Ok(Data::Counted(64));
            bench.probe().push(Class::Completion, Output::Complete { token: request.token, result });
            // A completion of the device, a completion from the MSI-X table of the endpoint, and a refusal.
            for tlp in [None, Some(mrd(2, BAR2, 4)), Some(mrd(3, 0x1000, 4))] {
                tlp.into_iter().for_each(|tlp| bench.handle(asked(tlp)));
                assert_eq!(bench.poll(Class::Completion).unwrap().repr.attr, attr & allowed, "{what}");
            }
        }
    }
}

/// Completion Timeout Value (`PCIe 5.0 Table 7-27`): the longest time of its range; zero is the default, here 50 us.
/// Completion Timeout Disable, bit 4: no timeout.
#[test]
fn read_timeout_follows_device_control_2() {
    let rows: [(u32, Option<u64>); 7] = [
        (0b0000, Some(50)),
        (0b0001, Some(100)),
        (0b0010, Some(10_000)),
        (0b0101, Some(55_000)),
        (0b1010, Some(3_500_000)),
        (1 << 4, None),
        (1 << 4 | 0b0001, None),
    ];
    for (value, timeout_us) in rows {
        let mut bench = bench();
        bench.write_config(0, DEVICE_CONTROL_2, value);
        bench.probe().push(Class::NonPosted, read(1, 0x1000, 4));
        assert!(bench.poll(Class::NonPosted).is_some());
        assert_eq!(bench.endpoint.poll_timeout(), timeout_us.map(us), "Device Control 2 {value:#x}");
    }
}

/// Message Address, Message Upper Address, Message Data and Multiple Message Enable (`PCIe 5.0 §7.7.1`): the address
/// and data of an MSI, and the number of its low bits that hold the vector.
#[test]
fn msi_address_and_data_follow_its_registers() {
    let rows = [
        (0xfee0_0000, 0, 0x4140, 0, 0xfee0_0000, 0x4140),
        (0xfee1_2344, 0, 0x0001, 0, 0xfee1_2344, 0x0001),
        (0xfee0_0000, 0x12, 0x4140, 0, 0x12_fee0_0000, 0x4140),
        (0xfee0_0000, 0, 0x4140, 1, 0xfee0_0000, 0x4141),
        (0xfee0_0000, 0, 0x4140, 2, 0xfee0_0000, 0x4143),
    ];
    for (low, high, data, multiple, address, written) in rows {
        let mut bench = bench();
        bench.write_capability(0, MSI_ID, 1, low);
        bench.write_capability(0, MSI_ID, 2, high);
        bench.write_capability(0, MSI_ID, 3, data);
        for (enable, sent) in [(0, false), (1 << 16, true)] {
            bench.write_capability(0, MSI_ID, 0, multiple << 20 | enable);
            bench.probe().push(Class::Posted, Output::Interrupt { vector: 3 });
            let tlp = bench.poll(Class::Posted);
            assert_eq!(tlp.is_some(), sent, "MSI Enable");
            let Some(tlp) = tlp else { continue };
            assert_eq!(request(&tlp).span.address(), address);
            assert_eq!(tlp.data.bytes(), Some(&u32::to_le_bytes(written)[..]), "{multiple} of {data:#x}");
        }
    }
}

/// Multiple Header Recording Enable, bit 10 of Advanced Error Capabilities and Control (`PCIe 5.0 §6.2.4.2`): with it,
/// the log shows the headers of three errors one after the other, as software clears each. Without it, the log shows
/// only the first.
#[test]
fn multiple_headers_are_recorded_if_enabled() {
    let layout = AerLayout { headers: 4, ..AerLayout::new(AerRole::Endpoint) };
    let space = Builder::type0(Identity::default())
        .pcie(PcieLayout::default())
        .advanced_error_reporting_with(layout)
        .build()
        .unwrap();
    for (enabled, shown) in [(true, [0x1000, 0x2000, 0x3000]), (false, [0x1000, 0x1000, 0x1000])] {
        let mut bench = Bench::of(EndpointLimits::default(), vec![space.clone()]);
        bench.write_extended(0, AER, 6, u32::from(enabled) << 10);
        for address in [0x1000, 0x2000, 0x3000] {
            bench.handle(mwr(address, &[0; 4]));
        }
        for (n, address) in shown.into_iter().enumerate() {
            assert_eq!(bench.extended(0, AER, 7 + 2), address, "enabled: {enabled}, header {n}");
            bench.write_extended(0, AER, 1, 1 << 20);
        }
        assert_eq!(bench.extended(0, AER, 1), 0, "Uncorrectable Error Status");
    }
}

/// Header Log Overflow, bit 15 of Correctable Error Status (`PCIe 5.0 §6.2.4.2`): the log has no room for a second
/// header. Writing a one clears the bit, and the mask bit of the same name suppresses ERR_COR.
#[test]
fn error_without_room_in_the_header_log_is_reported() {
    for (mask, told) in [(0, &[0x30][..]), (1 << 15, &[][..])] {
        let mut bench = bench();
        bench.write_capability(0, PCI_EXPRESS, 2, 0x1);
        bench.write_extended(0, AER, 5, mask);
        for _ in 0..2 {
            bench.handle(mwr(0x1000, &[0; 4]));
        }
        let codes: Vec<u8> = bench.messages().into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, told, "mask {mask:#x}");
        assert_eq!(bench.extended(0, AER, 4), 1 << 15);
        bench.write_extended(0, AER, 4, 1 << 15);
        assert_eq!(bench.extended(0, AER, 4), 0);
    }
}

/// Correctable Error Status is cleared bit by bit (`PCIe 5.0 §7.8.4.5`).
#[test]
fn correctable_errors_are_cleared_one_by_one() {
    use link::Notice::*;
    let mut bench = bench();
    for notice in [ReceiverError, BadTlp, BadDllp, ReplayRollover, ReplayTimeout] {
        bench.endpoint.handle_notice(Time::ZERO, notice);
    }
    let mut left = 1 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 12;
    for bit in [7, 0, 12, 8, 6] {
        assert_eq!(bench.extended(0, AER, 4), left);
        bench.write_extended(0, AER, 4, 1 << bit);
        left &= !(1 << bit);
    }
    assert_eq!((left, bench.extended(0, AER, 4)), (0, 0));
    assert_eq!(bench.capability(PCI_EXPRESS, 2) >> 16 & 0xf, 1, "Device Status is another register");
}
