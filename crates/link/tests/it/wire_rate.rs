// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated link agrees with its own wire: saturation at every rate and width, and starvation by credits.

use crate::common::{Joined, World, assert_counters_add_up, write};
use riser_link::{CreditLimit, PortConfig};
use tlp::ack_latency_limit;
use tlp::{Attributes, Class, Duration, Mps, Rate, Time, Tlp, Width};

/// Endless writes of one size from the first `sides` sides.
struct Writes {
    tlp: Tlp,
    sides: usize,
}

impl World for Writes {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        (side < self.sides && class == Class::Posted).then(|| self.tlp.clone())
    }

    fn delivered(&mut self, _side: usize, _now: Time, _tlp: Tlp) {}
}

fn writes(len: u32, sides: usize) -> Writes {
    Writes { tlp: write(1, 0x100, len, Attributes::empty()), sides }
}

fn config(rate: Rate, lanes: u8, mps: u32) -> PortConfig {
    PortConfig::new(rate, Width::new(lanes).unwrap(), Mps::new(mps).unwrap())
}

/// Returns the payload rate of side 0 in Gb/s, and the rate that follows from its counters. It measures over at least
/// `sets` SKP intervals, from the end of one frame to the end of another.
fn rates(config: &PortConfig, len: u32, sides: usize, sets: u64) -> (f64, f64) {
    let mut link = Joined::new([config.clone(), config.clone()], Duration::from_ns(5));
    let mut writes = writes(len, sides);
    let run_to = |link: &mut Joined, writes: &mut Writes, sets| {
        while link.port(0).counters().skp_sets < sets {
            assert!(link.step(writes, Time::MAX));
        }
        (*link.port(0).counters(), link.port(0).transmit_ready_at().unwrap())
    };
    let (before, start) = run_to(&mut link, &mut writes, 2);
    let (after, end) = run_to(&mut link, &mut writes, 2 + sets);
    assert_counters_add_up(link.port(0), config);
    assert_eq!(after.replayed_tlps + after.replay_buffer_stalls, 0);
    let payload = (after.payload_bytes - before.payload_bytes) as f64;
    let frames = (after.wire_bytes - after.skp_bytes) - (before.wire_bytes - before.skp_bytes);
    let symbol = config.rate.symbol_time_ps();
    let raw = 8000.0 * f64::from(config.width.lanes()) * symbol.den as f64 / symbol.num as f64;
    let share = if config.rate.is_8b10b() { 4.0 / 1538.0 } else { 1.0 / 375.0 };
    (payload * 8000.0 / end.since(start).as_ps() as f64, raw * (1.0 - share) * payload / frames as f64)
}

/// Within 0.1 % of raw x (1 - SKP share) x payload / wire bytes, with both directions loaded, so that Acks and
/// UpdateFCs share the wire.
#[test]
fn saturated_link_rate_follows_from_its_wire_bytes() {
    for rate in Rate::ALL {
        for lanes in [1, 2, 4, 8, 12, 16] {
            for (len, mps) in [(64, 128), (256, 256), (512, 512)] {
                let config = config(rate, lanes, mps);
                let (measured, expected) = rates(&config, len, 2, 12);
                let ratio = measured / expected;
                assert!((ratio - 1.0).abs() < 0.001, "{rate} x{lanes} {len} B: {measured} of {expected}");
            }
        }
    }
    let (measured, expected) = rates(&config(Rate::Gt16, 16, 4096), 4096, 2, 12);
    assert!((measured / expected - 1.0).abs() < 0.001, "4096 B: {measured} of {expected}");
}

/// 256 B writes with 64-bit addresses one way at Gen3 x8: 64 x 128/130 x 374/375 x 256/280 Gb/s. At Gen1 x1 with 128 B: 2 x
/// 1534/1538 x 128/152, less the only DLLPs of this direction, two refreshing UpdateFCs (16 B) every 30 us (7500 B).
#[test]
fn saturated_rates_match_literal_values() {
    let rows = [((Rate::Gt8, 8, 256), 57.461_315), ((Rate::Gt2_5, 1, 128), 1.676_248)];
    for ((rate, lanes, mps), gbps) in rows {
        let (measured, _) = rates(&config(rate, lanes, mps), mps, 1, 100);
        assert!((measured / gbps - 1.0).abs() < 0.0005, "{measured} of {gbps}");
    }
}

/// Payload Gb/s of 256 B writes at Gen3 x8 with 500 ns of flight and `credits` for posted data.
fn starved(credits: u16) -> (f64, [u64; 3]) {
    let config = PortConfig {
        rx_buffer: [CreditLimit::finite(127, credits), CreditLimit::finite(1, 8), CreditLimit::INFINITE],
        ..config(Rate::Gt8, 8, 256)
    };
    let mut link = Joined::new([config.clone(), config], Duration::from_ns(500));
    let mut writes = writes(256, 1);
    let at = |us| Time::ZERO + Duration::from_us(us);
    assert!(link.run(&mut writes, at(20), 1_000_000));
    let before = link.port(0).counters().payload_bytes;
    assert!(link.run(&mut writes, at(220), 1_000_000));
    let after = link.port(0).counters();
    ((after.payload_bytes - before) as f64 * 8.0 / 200_000.0, after.credit_stalls)
}

/// A credit's round trip: the TLP, its flight, the wait for the UpdateFC, the DLLP, its flight. Below the
/// bandwidth-delay product (559 credits) the rate is credits x 16 B per round trip. The wait is the UpdateFC interval
/// of Gen3 x8 MPS 256 (203 symbol times), but it ends when the last TLP of all credits has arrived: then the sender
/// gets an update at once.
#[test]
fn starvation_is_credits_per_round_trip() {
    let symbols = ack_latency_limit(Rate::Gt8, Width::new(8).unwrap(), Mps::new(256).unwrap());
    let symbol_ps = 16_250.0 / 16.0;
    let byte_ps = symbol_ps / 8.0;
    for credits in [512, 256, 128, 64, 32, 16] {
        let (measured, stalls) = starved(credits);
        let rest_of_burst_ps = f64::from(credits / 16 - 1) * 280.0 * byte_ps;
        let wait_ps = (f64::from(symbols) * symbol_ps).min(rest_of_burst_ps);
        let round_trip_ps = wait_ps + (280.0 + 8.0) * byte_ps + 1_000_000.0;
        let expected = f64::from(credits) * 16.0 * 8000.0 / round_trip_ps;
        assert!((measured / expected - 1.0).abs() < 0.02, "{credits}: {measured} of {expected} Gb/s");
        assert!(stalls[0] > 100 && stalls[1..] == [0, 0], "{stalls:?}");
    }
    let rates = [16, 24, 32, 48, 64, 96, 128].map(|credits| starved(credits).0);
    assert!(rates.is_sorted(), "more credits, less bandwidth: {rates:?}");
    let (whole, _) = starved(2000);
    assert!((whole / 57.46 - 1.0).abs() < 0.002, "{whole}");
}

/// The counters cover all time: a starved sender is either busy or stalled.
#[test]
fn stall_time_fills_what_the_wire_leaves() {
    let config = PortConfig {
        rx_buffer: [CreditLimit::finite(4, 64), CreditLimit::finite(1, 8), CreditLimit::INFINITE],
        ..config(Rate::Gt8, 8, 256)
    };
    let mut link = Joined::new([config.clone(), config.clone()], Duration::from_ns(500));
    let end = Time::ZERO + Duration::from_us(100);
    assert!(link.run(&mut writes(256, 1), end, 1_000_000));
    link.port_mut(0).finish(end);
    let c = link.port(0).counters();
    let idle_of_skps = c.skp_sets * 16 * 16_250 / 16;
    let accounted = c.busy_ps + c.credit_stall_ps[0];
    // Initialization takes the first 1.5 us; SKPs fall into stalls.
    assert!(accounted.abs_diff(end.as_ps()) < 1_600_000 + idle_of_skps, "{accounted}");
    assert!(c.credit_stall_ps[0] > end.as_ps() / 2);
}
