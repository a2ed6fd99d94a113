// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic Classes on virtual channels, of which some have no room. The others continue, and the ordering rules hold.

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::*;

fn tc(n: u8) -> TrafficClass {
    TrafficClass::from_bits(n)
}

fn only(n: u8) -> TcSet {
    TcSet::of(tc(n))
}

fn write_of(n: u8, address: u64, len: u32) -> Output {
    Output::Write(DmaWrite::new(address, Data::Counted(len)).with_options(DmaOptions::tc(tc(n))))
}

fn read_of(n: u8, id: u32) -> Output {
    let options = DmaOptions::tc(tc(n));
    Output::Read(DmaRead::new(DmaId(id), 0x1000 * u64::from(id), 64).counted().with_options(options))
}

fn poll(bench: &mut Bench, class: Class, room: TcSet) -> Option<(u8, u64)> {
    let tlp = bench.endpoint.poll_tlp(Time::ZERO, class, room)?;
    let address = if let Body::Memory(m) = tlp.repr.body { m.span.first_byte() } else { 0 };
    Some((tlp.repr.tc.bits(), address))
}

#[test]
fn write_without_room_does_not_stop_other_classes() {
    let mut bench = Bench::new(EndpointLimits::default());
    for (n, address, len) in [(1, 0x1000, 512), (0, 0x2000, 300), (1, 0x3000, 4), (0, 0x4000, 4)] {
        bench.probe().push(Class::Posted, write_of(n, address, len));
    }
    let order: Vec<_> = std::iter::from_fn(|| poll(&mut bench, Class::Posted, only(0))).collect();
    assert_eq!(order, [(0, 0x2000), (0, 0x2100), (0, 0x4000)]);
    let order: Vec<_> = std::iter::from_fn(|| poll(&mut bench, Class::Posted, only(1))).collect();
    assert_eq!(order, [(1, 0x1000), (1, 0x1100), (1, 0x3000)]);
}

/// A write that is partly sent when its channel fills up continues from there.
#[test]
fn write_continues_where_its_channel_filled_up() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write_of(3, 0x1000, 768));
    bench.probe().push(Class::Posted, write_of(5, 0x8000, 512));
    assert_eq!(poll(&mut bench, Class::Posted, TcSet::ALL), Some((3, 0x1000)));
    assert_eq!(poll(&mut bench, Class::Posted, only(5)), Some((5, 0x8000)));
    assert_eq!(poll(&mut bench, Class::Posted, only(3)), Some((3, 0x1100)));
    assert_eq!(poll(&mut bench, Class::Posted, only(5)), Some((5, 0x8100)));
    assert_eq!(poll(&mut bench, Class::Posted, only(3)), Some((3, 0x1200)));
    assert_eq!(poll(&mut bench, Class::Posted, TcSet::ALL), None);
}

/// `PCIe 5.0 §2.4.1`, entry B2a, within one Traffic Class. Different classes have no order (`§2.5`).
#[test]
fn read_waits_only_for_earlier_writes_of_its_class() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write_of(1, 0x1000, 4));
    assert_eq!(poll(&mut bench, Class::Posted, only(0)), None, "accepted, and parked");
    bench.probe().push(Class::NonPosted, read_of(1, 1));
    bench.probe().push(Class::NonPosted, read_of(0, 2));
    let room = TcSet::from_bits(0b0111_1111);
    assert_eq!(poll(&mut bench, Class::NonPosted, room), Some((0, 0x2000)));
    assert_eq!(poll(&mut bench, Class::NonPosted, room), None, "TC1 waits for its write");
    assert_eq!(poll(&mut bench, Class::Posted, only(1)), Some((1, 0x1000)));
    assert!(bench.endpoint.poll_timeout().is_some_and(|at| at == Time::ZERO), "asks to be polled again");
    assert_eq!(poll(&mut bench, Class::NonPosted, room), Some((1, 0x1000)));
}

/// A read issued before a write does not wait for it (entry A3: the posted request passes the read).
#[test]
fn read_does_not_wait_for_later_writes() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::NonPosted, read_of(1, 1));
    assert_eq!(poll(&mut bench, Class::NonPosted, only(0)), None, "accepted, and parked");
    bench.probe().push(Class::Posted, write_of(1, 0x9000, 4));
    assert_eq!(poll(&mut bench, Class::Posted, only(0)), None, "accepted, and parked");
    assert_eq!(poll(&mut bench, Class::NonPosted, TcSet::ALL), Some((1, 0x1000)));
}

#[test]
fn answer_without_room_does_not_stop_other_classes() {
    let mut bench = Bench::new(EndpointLimits::default());
    for (n, tag) in [(2, 1), (0, 2), (2, 3)] {
        let mut tlp = mrd(tag, BAR0, 8);
        tlp.repr.tc = tc(n);
        bench.handle(tlp);
    }
    for token in bench.probe().tokens() {
        let result = Ok(Data::Counted(8));
        bench.probe().push(Class::Completion, Output::Complete { token, result });
    }
    let mut tag = |room| {
        let tlp = bench.endpoint.poll_tlp(Time::ZERO, Class::Completion, room)?;
        Some((tlp.repr.tc.bits(), completion(&tlp).tag.bits()))
    };
    assert_eq!([tag(only(0)), tag(only(0)), tag(only(1))], [Some((0, 2)), None, None]);
    assert_eq!([tag(only(2)), tag(TcSet::ALL), tag(TcSet::ALL)], [Some((2, 1)), Some((2, 3)), None]);
}

/// Refusals come from the endpoint itself, and have the Traffic Class of the request that they refuse.
#[test]
fn refusals_use_the_traffic_class_of_the_request() {
    let mut bench = Bench::new(EndpointLimits::default());
    for (n, tag) in [(4, 1), (0, 2)] {
        let mut tlp = mrd(tag, 0xdead_0000, 4);
        tlp.repr.tc = tc(n);
        bench.handle(tlp);
    }
    let mut of =
        |room| bench.endpoint.poll_tlp(Time::ZERO, Class::Completion, room).map(|t| t.repr.tc.bits());
    assert_eq!([of(only(0)), of(only(0)), of(only(4))], [Some(0), None, Some(4)]);
}

/// The number of outputs that wait for room is bounded. At the limit the device is not polled for this class, and it continues when
/// there is room.
#[test]
fn outputs_without_room_are_bounded() {
    let mut bench = Bench::new(EndpointLimits::default());
    for n in 0..100 {
        bench.probe().push(Class::Posted, write_of(6, 0x1000 * n, 4));
    }
    assert_eq!(poll(&mut bench, Class::Posted, only(0)), None);
    let left = || bench.probes[0].0.borrow().outputs[0].len();
    assert_eq!(left(), 100 - 32);
    let mut bench = bench;
    let sent = std::iter::from_fn(|| poll(&mut bench, Class::Posted, only(6))).count();
    assert_eq!(sent, 100);
}

#[test]
fn interrupts_follow_earlier_writes_of_tc0() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, MSI + 1, 0xfee0_0000);
    bench.write_config(0, MSI, 0x0001_0000);
    bench.probe().push(Class::Posted, write_of(0, 0x1000, 4));
    bench.probe().push(Class::Posted, Output::Interrupt { vector: 0 });
    bench.probe().push(Class::Posted, write_of(7, 0x2000, 4));
    assert_eq!(poll(&mut bench, Class::Posted, only(7)), Some((7, 0x2000)));
    assert_eq!(poll(&mut bench, Class::Posted, TcSet::ALL), Some((0, 0x1000)));
    assert_eq!(poll(&mut bench, Class::Posted, TcSet::ALL), Some((0, 0xfee0_0000)));
}
