// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of a TLP in two joined ports, in nanoseconds of CPU time, best of five. "Ports alone" runs only the crate;
//! the others add the small event loop of the tests.

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod common;

use common::{Joined, World, write};
use riser_link::{Frame, Port, PortConfig};
use std::hint::black_box;
use testkit::cpu_ns;
use tlp::{Attributes, Class, Data, Duration, Mps, PayloadPool, Rate, Time, Tlp, Width};

struct Writes {
    tlp: Tlp,
    sides: usize,
    arrived: u64,
}

impl World for Writes {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        (side < self.sides && class == Class::Posted).then(|| self.tlp.clone())
    }

    fn delivered(&mut self, _side: usize, _now: Time, tlp: Tlp) {
        black_box(&tlp);
        self.arrived += 1;
    }
}

fn run(name: &str, tlp: &Tlp, sides: usize) {
    let config = PortConfig::new(Rate::Gt8, Width::new(16).unwrap(), Mps::new(256).unwrap());
    let mut link = Joined::new([config.clone(), config], Duration::from_ns(5));
    let mut writes = Writes { tlp: tlp.clone(), sides, arrived: 0 };
    link.run(&mut writes, Time::ZERO + Duration::from_us(100), u64::MAX);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let (before, start) = (writes.arrived, cpu_ns());
        let until = link.now + Duration::from_ms(4);
        link.run(&mut writes, until, u64::MAX);
        let ns = (cpu_ns() - start) / (writes.arrived - before) as f64;
        best = best.min(ns);
    }
    println!("{name:<40} {best:6.1} ns per TLP");
}

/// The ports alone, called in the order in which a fabric without time of flight would call them.
fn run_bare(name: &str, tlp: &Tlp) {
    let config = PortConfig::new(Rate::Gt8, Width::new(16).unwrap(), Mps::new(256).unwrap());
    let mut link = Joined::new([config.clone(), config], Duration::ZERO);
    let mut idle = Writes { tlp: tlp.clone(), sides: 0, arrived: 0 };
    link.run(&mut idle, Time::ZERO + Duration::from_us(10), u64::MAX);
    let now = link.now;
    let [mut a, mut b] = link.into_ports();
    let (mut best, mut now) = (f64::MAX, now);
    for _ in 0..5 {
        let start = cpu_ns();
        const TLPS: u32 = 400_000;
        for _ in 0..TLPS {
            now = exchange(&mut a, &mut b, now, tlp);
        }
        best = best.min((cpu_ns() - start) / f64::from(TLPS));
    }
    println!("{name:<40} {best:6.1} ns per TLP");
}

fn exchange(a: &mut Port, b: &mut Port, now: Time, tlp: &Tlp) -> Time {
    if a.has_room(Class::Posted) {
        a.enqueue(now, tlp.clone(), tlp.account);
    }
    let now = a.transmit_ready_at().unwrap_or(now).max(now);
    let Some(sent) = a.poll_transmit(now) else { return now };
    let now = sent.end;
    if let Some(frame @ Frame::Tlp { tlp, .. }) = a.lend(sent.frame)
        && b.handle_frame(now, frame)
    {
        b.return_credits(now, tlp.repr.tc, tlp.class(), black_box(tlp).data_credits());
    }
    if b.poll_timeout().is_some_and(|t| t <= now) {
        b.handle_timeout(now);
    }
    while b.transmit_ready_at().is_some_and(|t| t <= now) {
        let Some(sent) = b.poll_transmit(now) else { break };
        if let Some(frame) = b.lend(sent.frame) {
            a.handle_frame(now, frame);
        }
    }
    now
}

fn main() {
    let counted = write(1, 0x100, 256, Attributes::empty());
    let pool = PayloadPool::new();
    let carried = Tlp { data: Data::Carried(pool.copy(&[0; 256])), ..counted.clone() };
    run_bare("256 B writes, ports alone, counted", &counted);
    run_bare("256 B writes, ports alone, carried", &carried);
    run("256 B writes, one way, counted", &counted, 1);
    run("256 B writes, both ways, counted", &counted, 2);
    run("256 B writes, one way, carried", &carried, 1);
}
