// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 82574L, register by register, and with arbitrary drivers and networks.

use crate::checks_nic::{Bench, driver, network};
use config::PcieLayout;
use plug::Shared;
use proptest::prelude::*;
use riser_devices::ethernet::{Cable, inbox};
use riser_devices::intel_82574::{Layout, function};
use tlp::{Duration, PayloadPool};

/// Device Capabilities bit 28 is zero for all links of the slot.
#[test]
fn function_level_reset_is_not_supported() {
    let pcie = PcieLayout { function_level_reset: true, ..PcieLayout::default() };
    let layout = Layout { mac: [2, 0, 0, 0, 0, 1], negotiation: Duration::from_us(10), pcie };
    let made = function(layout, &PayloadPool::new(), Cable::default(), inbox(), &Shared::default()).unwrap();
    let byte = |at: u32| made.config.read(at as u16 / 4) >> (8 * (at % 4)) & 0xff;
    let all = std::iter::successors(Some(byte(0x34)), |at| Some(byte(at + 1)).filter(|next| *next != 0));
    let express = all.into_iter().find(|at| byte(*at) == 0x10).unwrap();
    assert_eq!(made.config.read(express as u16 / 4 + 1) >> 28 & 1, 0);
}

/// Words of the NVM as read with EERD: the address, and the sum BABAh.
#[test]
fn nvm_contains_mac_address_and_checksum() {
    let mut bench = Bench::new();
    let words: Vec<u16> = (0..64)
        .map(|word| {
            bench.write(0x14, word << 2 | 1);
            let value = bench.read(0x14);
            assert_eq!(value & 0b10, 0b10, "DONE");
            (value >> 16) as u16
        })
        .collect();
    assert_eq!(words[..3], [0x0002, 0x0000, 0x0100]);
    assert_eq!(words[0xf] & 0x6000, 0, "no management");
    assert_eq!(words.iter().fold(0, |sum: u16, word| sum.wrapping_add(*word)), 0xbaba);
}

/// MDIC: the identifier of the PHY. Other addresses have none.
#[test]
fn phy_has_its_identifier() {
    let mut bench = Bench::new();
    let mut read = |phy: u32, register: u32| {
        bench.write(0x20, 0b10 << 26 | phy << 21 | register << 16);
        bench.read(0x20)
    };
    assert_eq!((read(1, 2) & 0xffff, read(1, 3) & 0xffff), (0x0141, 0x0cb1));
    assert_eq!(read(2, 2) >> 30 & 1, 1, "an error");
}

/// Writable bits, similar to the driver's own test.
#[test]
fn registers_keep_only_writable_bits() {
    let rows: [(u64, u32); 12] = [
        (0x28, 0xffff_ffff), // FCAL
        (0x2c, 0xffff),      // FCAH
        (0x38, 0xffff),      // VET
        (0x2808, 0xf_ff80),  // RDLEN
        (0x2800, 0xffff_fff0),
        (0x3808, 0xf_ff80),
        (0x410, 0x3fff_ffff),  // TIPG
        (0x5404, 0x8003_ffff), // RAH
        (0x547c, 0x8003_ffff),
        (0x5200, 0xffff_ffff), // MTA
        (0x53fc, 0xffff_ffff),
        (0x8, 0), // STATUS except its read-only state
    ];
    let mut bench = Bench::new();
    let status = bench.read(0x8);
    for (at, bits) in rows {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, u32::MAX, 0] {
            bench.write(at, pattern);
            let expected = if at == 8 { status } else { pattern & bits };
            assert_eq!(bench.read(at), expected, "{at:#x}");
        }
    }
}

/// ICS raises causes that IMS enables; ICR clears them. With IVAR, each of the five causes has its vector, which EIAC clears and EITR
/// throttles.
#[test]
fn causes_raise_enabled_vectors_at_throttled_rate() {
    let mut bench = Bench::new();
    bench.read(0xc0);
    bench.write(0xc8, 4);
    assert_eq!(bench.read(0xc0), 4, "masked: seen, and cleared");
    bench.write(0xd0, 4);
    bench.write(0xc8, 4);
    assert_eq!(bench.interrupts, [(0, 1)].into());
    assert_eq!((bench.read(0xc0), bench.read(0xc0)), (1 << 31 | 4, 0));
    bench.interrupts.clear();
    bench.write(0xd8, u32::MAX);
    // Entry n: vector n, valid.
    bench.write(0xe4, 0xc_ba98);
    bench.write(0xdc, 0x1f0_0000);
    bench.write(0xd0, 0x1f0_0000);
    bench.write(0xc8, 0x1f0_0000);
    assert_eq!(bench.interrupts, (0..5).map(|n| (n, 1)).collect());
    assert_eq!(bench.read(0xc0), 0, "EIAC has cleared all");
    // 100 * 256 ns on vector 2: an interrupt every 2 us for a millisecond gives at most 40.
    bench.wait(Duration::from_us(100));
    bench.interrupts.clear();
    bench.write(0xf0, 100);
    for _ in 0..500 {
        bench.write(0xc8, 1 << 22);
        bench.write(0xc8, 1 << 20);
        bench.wait(Duration::from_us(2));
    }
    let (throttled, free) = (bench.interrupts[&2], bench.interrupts[&0]);
    assert!((38..=40).contains(&throttled) && free == 500, "{throttled} {free}");
}

/// A legacy descriptor with RS: the frame is sent with padding, DD is written, the head advances, and reads clear the statistics.
#[test]
fn frames_are_sent_and_received() {
    let mut bench = Bench::new();
    bench.set_up();
    bench.store(0x3000, &[0xff; 20]);
    bench.store(0x2000, &[0x00, 0x30, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0x0b, 0, 0, 0, 0]);
    bench.write(0x3818, 1);
    bench.wait(Duration::from_us(5));
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].len(), bench.load(0x200c, 1)[0], bench.read(0x3810)), (1, 60, 1, 1));
    assert_eq!((bench.read(0x4080), bench.read(0x4080), bench.read(0x40f4)), (1, 0, 1));
    let frame = [&[2, 0, 0, 0, 0, 1][..], &[7; 60]].concat();
    bench.frame(&frame);
    assert_eq!(
        (bench.load(0x10000, 66), bench.load(0x1008, 2), bench.load(0x100c, 1)[0] & 3),
        (&frame[..], &[66, 0][..], 3)
    );
    // Frames with another address, with a multicast address in the table, and with a tag, which is stripped.
    bench.frame(&[9; 64]);
    assert_eq!((bench.counters().rx_frames, bench.counters().filtered), (1, 1));
    bench.write(0x5200 + 4 * (0x0_560 >> 5), 1 << (0x560 & 31));
    bench.frame(&[&[1, 0, 0x5e, 0, 0x00, 0x56][..], &[1; 60]].concat());
    assert_eq!(bench.counters().rx_frames, 2);
    bench.write(0, 1 << 30 | 0x40);
    bench.frame(&[&frame[..12], &[0x81, 0, 0x01, 0x23], &[8; 60]].concat());
    assert_eq!(
        (bench.load(0x1028, 2), bench.load(0x102e, 2), bench.load(0x102c, 1)[0] & 8),
        (&[72, 0][..], &[0x23, 0x01][..], 8)
    );
}

/// A magic packet wakes the host only if WUC and WUFC enable it.
#[test]
fn magic_packet_wakes_host() {
    let magic =
        [vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0x42], vec![0xff; 6], [2, 0, 0, 0, 0, 1].repeat(16)]
            .concat();
    let mut bench = Bench::new();
    bench.set_up();
    bench.frame(&magic);
    assert_eq!(bench.pme, 0);
    bench.write(0x5808, 2);
    bench.write(0x5800, 2);
    bench.frame(&magic[..100]);
    assert_eq!(bench.pme, 0);
    bench.frame(&magic);
    assert_eq!((bench.pme, bench.read(0x5810)), (1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_driver_does_not_break_the_model(script in prop::collection::vec(any::<u8>(), 0..400)) {
        driver(&script);
    }

    #[test]
    fn random_frames_do_not_break_the_model(script in prop::collection::vec(any::<u8>(), 0..400)) {
        network(&script);
    }
}
