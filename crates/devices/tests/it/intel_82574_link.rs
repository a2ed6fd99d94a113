// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link of an 82574L: its carrier, what is negotiated, and the rate on the wire.

use crate::checks_nic::Bench;
use riser_devices::ethernet::{LinkInput, Modes};
use tlp::Duration;

const CTRL: u64 = 0x0;
const STATUS: u64 = 0x8;
const ICR: u64 = 0xc0;
/// STATUS: link up, and full duplex; speed.
const UP: u32 = 0b11;
const SPEED: u32 = 0b11 << 6;
const SPEED_100: u32 = 0b01 << 6;
const SPEED_1000: u32 = 0b10 << 6;
const LSC: u32 = 1 << 2;
/// BMSR: link and end of auto-negotiation.
const BMSR_LINK: u32 = 1 << 5 | 1 << 2;
/// More than a negotiation takes.
const NEGOTIATED: Duration = Duration::from_us(20);

fn phy(bench: &mut Bench, register: u32) -> u32 {
    bench.write(0x20, 0b10 << 26 | 1 << 21 | register << 16);
    bench.read(0x20) & 0xffff
}

fn set_phy(bench: &mut Bench, register: u32, value: u32) {
    bench.write(0x20, 0b01 << 26 | 1 << 21 | register << 16 | value);
}

/// STATUS, BMSR, and whether there was an interrupt for it.
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
fn a_partner_that_goes_takes_the_carrier() {
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
fn the_other_end_sees_power_down_loopback_and_reset() {
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
fn the_wire_has_the_rate_that_both_ends_advertise() {
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
    // 100 Mb/s alone is advertised: registers 4 and 9, then a restart.
    set_phy(&mut bench, 4, 0x0d81);
    set_phy(&mut bench, 9, 0x0c00);
    set_phy(&mut bench, 0, 0x1340);
    assert_eq!(bench.cable().offered().bits(), 0b1100);
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench), (UP | SPEED_100, BMSR_LINK, LSC));
    assert_eq!(phy(&mut bench, 17) >> 14, 0b01);
    takes(&mut bench, 1, Duration::from_ns(6719), Duration::from_ns(6721));
    // A partner with 10 Mb/s alone has nothing in common.
    bench.link(LinkInput::Far(Modes::from_bits(0b11).unwrap()));
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench).1, 0);
    // 10 Mb/s without negotiation.
    set_phy(&mut bench, 0, 0x0100);
    bench.wait(NEGOTIATED);
    assert_eq!(link(&mut bench), (UP, BMSR_LINK, LSC));
    takes(&mut bench, 2, Duration::from_ns(67_199), Duration::from_ns(67_201));
}
