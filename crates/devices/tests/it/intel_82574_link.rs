// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link of an 82574L: carrier, negotiation, and rate on the wire.

use crate::checks_nic::Bench;
use riser_devices::ethernet::{LinkInput, Modes};
use tlp::Duration;

const CTRL: u64 = 0x0;
const STATUS: u64 = 0x8;
const ICR: u64 = 0xc0;
/// STATUS: link up and full duplex; speed.
const UP: u32 = 0b11;
const SPEED: u32 = 0b11 << 6;
const SPEED_100: u32 = 0b01 << 6;
const SPEED_1000: u32 = 0b10 << 6;
const LSC: u32 = 1 << 2;
/// BMSR: link, and auto-negotiation complete.
const BMSR_LINK: u32 = 1 << 5 | 1 << 2;
/// Longer than a negotiation.
const NEGOTIATED: Duration = Duration::from_us(20);

fn phy(bench: &mut Bench, register: u32) -> u32 {
    bench.write(0x20, 0b10 << 26 | 1 << 21 | register << 16);
    bench.read(0x20) & 0xffff
}

fn set_phy(bench: &mut Bench, register: u32, value: u32) {
    bench.write(0x20, 0b01 << 26 | 1 << 21 | register << 16 | value);
}

/// STATUS, BMSR, and whether there was an interrupt.
fn link(bench: &mut Bench) -> (u32, u32, u32) {
    (bench.read(STATUS) & (UP | SPEED), phy(bench, 1) & BMSR_LINK, bench.read(ICR) & LSC)
}

fn up() -> Bench {
    let mut bench = Bench::new();
    bench.set_up();
    assert_eq!(link(&mut bench), (UP | SPEED_1000, BMSR_LINK, LSC));
    bench
}

#[test]
fn carrier_is_lost_with_the_partner() {
    let mut bench = up();
    for (down, again) in [
        (LinkInput::Far(Modes::NONE), LinkInput::Far(Modes::ALL)),
        (LinkInput::Plugged(false), LinkInput::Plugged(true)),
    ] {
        bench.link(down);
        assert_eq!(link(&mut bench), (SPEED_1000, 0, LSC), "{down:?}");
        assert_eq!((phy(&mut bench, 5), phy(&mut bench, 10), phy(&mut bench, 17) & 1 << 10), (0, 0, 0));
        bench.wait(NEGOTIATED);
        assert_eq!(link(&mut bench), (SPEED_1000, 0, 0), "it stays down");
        bench.link(again);
        bench.wait(NEGOTIATED);
        assert_eq!(link(&mut bench), (UP | SPEED_1000, BMSR_LINK, LSC), "{again:?}");
        assert_eq!((phy(&mut bench, 5), phy(&mut bench, 10)), (0xc1e1, 0x3800));
    }
}

#[test]
fn frames_without_carrier_are_counted() {
    let mut bench = up();
    bench.store(0x2000, &[0x00, 0x30, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0x0b, 0, 0, 0, 0]);
    bench.write(0x3818, 1);
    bench.wait(NEGOTIATED);
    bench.link(LinkInput::Plugged(false));
    assert_eq!(bench.wire().without_link, 1, "one that waited for the wire");
    bench.frame(&[2; 60]);
    assert_eq!((bench.wire().without_link, bench.sent().len(), bench.counters().rx_frames), (2, 0, 0));
    // The NIC keeps its frames until the link is up again.
    bench.write(0x3818, 2);
    bench.wait(NEGOTIATED);
    assert_eq!(bench.read(0x3810), 1);
    bench.store(0x2010, &[0x00, 0x30, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0x0b, 0, 0, 0, 0]);
    bench.link(LinkInput::Plugged(true));
    bench.wait(NEGOTIATED);
    assert_eq!((bench.read(0x3810), bench.sent().len()), (2, 1));
}

#[test]
fn other_end_detects_power_down_loopback_and_reset() {
    let mut bench = up();
    assert_eq!(bench.cable().offered(), Modes::ALL);
    let end = |bench: &mut Bench, what: &str, is_up: bool| {
        bench.wait(NEGOTIATED);
        let expected = if is_up { Modes::ALL } else { Modes::NONE };
        assert_eq!(bench.cable().offered(), expected, "{what}");
    };
    for (what, value) in [("power down", 0x1940), ("loopback", 0x4140)] {
        set_phy(&mut bench, 0, value);
        end(&mut bench, what, false);
        set_phy(&mut bench, 0, 0x1340);
        end(&mut bench, "restart", true);
    }
    bench.write(CTRL, 1 << 26);
    end(&mut bench, "CTRL.RST", false);
    bench.write(CTRL, 0x40);
    end(&mut bench, "CTRL.SLU", true);
    bench.reset();
    end(&mut bench, "reset of the function", false);
}

#[test]
fn wire_uses_a_rate_that_both_ends_advertise() {
    let mut bench = up();
    let frame = [0x00, 0x30, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0x0b, 0, 0, 0, 0];
    (0..8).for_each(|n| bench.store(0x2000 + 16 * n, &frame));
    // A frame of 60 B takes 84 B of wire: 672 ns at 1 Gb/s.
    let takes = |bench: &mut Bench, at: u32, short: Duration, long: Duration| {
        bench.write(0x3818, at + 1);
        bench.wait(short);
        assert_eq!(bench.read(0x3810), at);
        bench.wait(long - short);
        assert_eq!(bench.read(0x3810), at + 1);
        bench.sent();
    };
    takes(&mut bench, 0, Duration::from_ns(671), Duration::from_ns(673));
    // Only 100 Mb/s is advertised: registers 4 and 9, then a restart.
    set_phy(&mut bench, 4, 0x0d81);
    set_phy(&mut bench, 9, 0x0c00);
    set_phy(&mut bench, 0, 0x1340);
    assert_eq!(bench.cable().offered().bits(), 0b1100);
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench), (UP | SPEED_100, BMSR_LINK, LSC));
    assert_eq!(phy(&mut bench, 17) >> 14, 0b01);
    takes(&mut bench, 1, Duration::from_ns(6719), Duration::from_ns(6721));
    // A partner with only 10 Mb/s has no mode in common.
    bench.link(LinkInput::Far(Modes::from_bits(0b11).unwrap()));
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench).1, 0);
    // 10 Mb/s without negotiation.
    set_phy(&mut bench, 0, 0x0100);
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench), (UP, BMSR_LINK, LSC));
    takes(&mut bench, 2, Duration::from_ns(67_199), Duration::from_ns(67_201));
}

/// A frame of 3,000 B in packet split descriptors: a header buffer of 128 B, then pages of 4 KiB, as with `e1000e` and an MTU above 1500.
#[test]
fn long_frames_are_split_into_header_and_pages() {
    let mut bench = up();
    for (n, address) in [0x10000_u64, 0x11000, 0x12000, 0x13000].into_iter().enumerate() {
        bench.store(0x1000 + 8 * n, &address.to_le_bytes());
    }
    bench.write(0x100, 0x0400_8022 | 1 << 10);
    bench.write(0x2170, 4 << 16 | 4 << 8 | 1);
    bench.write(0x5008, 1 << 15);
    bench.write(0x2810, 0);
    // Head and tail count units of 16 B: two descriptors.
    bench.write(0x2818, 4);
    // UDP over IPv4: 42 bytes of headers.
    let mut frame = vec![0x5a; 6000];
    frame[..15].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45]);
    frame[15..24].copy_from_slice(&[0, 0x17, 0x62, 0, 0, 0, 0, 64, 17]);
    frame[5000] = 0xa5;
    bench.frame(&frame);
    assert_eq!(bench.load(0x10000, 42), &frame[..42]);
    assert_eq!(bench.load(0x11000, 4096), &frame[42..42 + 4096]);
    assert_eq!(bench.load(0x12000, 6000 - 4138), &frame[4138..]);
    let words: Vec<u16> =
        bench.load(0x1000, 32).as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
    assert_eq!(words[4] & 0b11, 0b11, "DD and EOP");
    // Length 0, VLAN, HDRSP and the header's length, lengths 1 to 3.
    assert_eq!(words[6..12], [42, 0, 1 << 15 | 42, 4096, 6000 - 4138, 0]);
    assert_eq!((bench.read(0x2810), bench.counters().rx_frames), (2, 1));
}
