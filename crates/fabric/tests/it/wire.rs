// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated rate agrees with the wire bytes, credits limit the rate, and errors lose no TLP.

use crate::common;
use crate::common::{Stream, fabric, link};
use link::{CreditLimit, Frame};
use riser_fabric::{Fabric, Limits, LinkConfig, LinkId, PortId, Side, Stop, Tap, TapRecord};
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use tlp::{Class, Data, Duration, MemoryOp, Rate, Time};

fn run_until(fabric: &mut Fabric, us: u64) -> link::Counters {
    let until = Time::ZERO + Duration::from_us(us);
    assert_eq!(fabric.run(Limits { until, ..Limits::default() }), Stop::TimeLimit);
    *fabric.port_counters(PortId::new(LinkId(0), Side::Device))
}

/// Gb/s of the raw link after its encoding.
fn raw_gbps(rate: Rate, lanes: u8) -> f64 {
    let symbol = rate.symbol_time_ps();
    8_000.0 * f64::from(lanes) * symbol.den as f64 / symbol.num as f64
}

/// Payload and formula in Gb/s over the second half of `us` microseconds of writes.
fn saturate(rate: Rate, lanes: u8, mps: u32, size: u32, us: u64) -> (f64, f64) {
    let device = Stream::new(MemoryOp::Write, size.min(mps), u64::MAX, 1, Data::Counted(size.min(mps)));
    let mut fabric = fabric(link(rate, lanes, mps), device);
    let a = run_until(&mut fabric, us / 2);
    let b = run_until(&mut fabric, us);
    let payload = (b.payload_bytes - a.payload_bytes) as f64;
    let measured = payload * 8_000.0 / ((us - us / 2) as f64 * 1e6);
    let skp_share = if rate.is_8b10b() { 4.0 / 1538.0 } else { 1.0 / 375.0 };
    let useful = (b.wire_bytes - a.wire_bytes - (b.skp_bytes - a.skp_bytes)) as f64;
    (measured, raw_gbps(rate, lanes) * (1.0 - skp_share) * payload / useful)
}

#[test]
fn write_rate_is_within_a_thousandth_of_the_wire_limit() {
    let rows = [
        (Rate::Gt2_5, 1),
        (Rate::Gt5, 4),
        (Rate::Gt8, 8),
        (Rate::Gt8, 16),
        (Rate::Gt16, 16),
        (Rate::Gt32, 16),
    ];
    for (rate, lanes) in rows {
        for mps in [128, 256, 512] {
            for size in [64, mps] {
                let us = if rate == Rate::Gt2_5 { 4_000 } else { 400 };
                let (measured, wire) = saturate(rate, lanes, mps, size, us);
                let error = (measured / wire - 1.0).abs();
                assert!(error < 1e-3, "{rate} x{lanes} MPS {mps}, {size} B: {measured} against {wire} Gb/s");
            }
        }
    }
}

/// Less posted data than the bandwidth-delay product: each round trip moves the data that the credits cover. UpdateFCs
/// are sent at once here, so that a round trip is the write, its flight, a symbol time, the DLLP and its flight.
#[test]
fn credits_below_the_bandwidth_delay_product_bound_the_rate() {
    let flight = Duration::from_ns(500);
    let with_credits = |data: u16| {
        let mut config: LinkConfig = link(Rate::Gt8, 8, 256);
        config.propagation = flight;
        config.root.rx_buffer[Class::Posted.index()] = CreditLimit { header: None, data: Some(data) };
        config.root.update_fc_symbols = Some(1);
        let mut fabric = fabric(config, Stream::new(MemoryOp::Write, 256, u64::MAX, 1, Data::Counted(256)));
        let a = run_until(&mut fabric, 100);
        let b = run_until(&mut fabric, 300);
        (b.payload_bytes - a.payload_bytes) as f64 * 8_000.0 / 2e8
    };
    let byte_ps = 1015.625 / 8.0;
    let round_trip_ps = (280.0 + 8.0 + 8.0) * byte_ps + 2.0 * flight.as_ps() as f64;
    let product = raw_gbps(Rate::Gt8, 8) * round_trip_ps / 8_000.0 / 16.0;
    assert!(with_credits(2 * product as u16) > 57.0);
    for credits in [256u16, 128, 64, 32, 16] {
        assert!(f64::from(credits) < product);
        let computed = f64::from(credits) * 16.0 * 8_000.0 / round_trip_ps;
        let measured = with_credits(credits);
        let error = (measured / computed - 1.0).abs();
        assert!(error < 0.01, "{credits} credits: {measured} against {computed} Gb/s");
    }
}

#[derive(Clone, Default)]
struct Log(Rc<RefCell<String>>);

impl Tap for Log {
    fn frame(&mut self, r: &TapRecord<'_>) {
        let mut text = self.0.borrow_mut();
        let _ = write!(text, "{} {:?} {} {} ", r.time.as_ps(), r.at, r.direction.name(), r.damaged);
        let _ = match r.frame {
            Frame::Tlp { sequence, tlp } => writeln!(text, "{sequence} {}", tlp.repr),
            Frame::Dllp(dllp) => writeln!(text, "{dllp}"),
        };
    }
}

fn with_errors(seed: u64) -> (String, u64, link::Counters) {
    let mut config = link(Rate::Gt8, 4, 256);
    // About every tenth read and every other completion.
    config.bit_error_rate = u64::MAX / 30_000;
    let device = Stream::new(MemoryOp::Read, 512, 500, 16, Data::Counted(512));
    let mut fabric = common::fabric_seeded(config, device, seed);
    let log = Log::default();
    fabric.set_tap(Box::new(log.clone()));
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let counters = *fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    let text = log.0.borrow().clone();
    (text, fabric.totals().tlp_hops, counters)
}

#[test]
fn errors_lose_nothing_and_the_same_seed_gives_the_same_frames() {
    let (first, hops, counters) = with_errors(7);
    // 500 reads, 1000 completions.
    assert_eq!(hops, 1_500);
    assert!(
        counters.bad_lcrc > 10 && counters.replayed_tlps > 0 && counters.bad_dllp_crc > 0,
        "{counters:?}"
    );
    assert_eq!(counters.classified_bytes(), counters.wire_bytes);
    assert_eq!(with_errors(7).0, first);
    assert_ne!(with_errors(8).0, first);
}
