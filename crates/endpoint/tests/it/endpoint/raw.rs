// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw-TLP device: sends its script, records arriving TLPs, and looks to an endpoint like a host.

use crate::endpoint::harness::*;
use riser_endpoint::*;
use tlp::*;

#[test]
fn raw_device_plays_its_script_by_time_and_class() {
    let mut raw = RawDevice::new(1);
    raw.send(us(5), mrd(1, 0x1000, 4));
    raw.send(us(2), mwr(0x2000, &[1]));
    raw.send(us(1), mwr(0x3000, &[2]));
    assert_eq!(raw.poll_timeout(), Some(us(2)), "posted ones stay in order");
    raw.handle_timeout(us(2));
    assert!(raw.poll_tlp(us(2), Class::NonPosted, tlp::TcSet::ALL).is_none());
    let sent: Vec<u64> = std::iter::from_fn(|| raw.poll_tlp(us(2), Class::Posted, tlp::TcSet::ALL))
        .map(|t| request(&t).span.address())
        .collect();
    assert_eq!((sent, raw.poll_timeout(), raw.unsent()), (vec![0x2000, 0x3000], Some(us(5)), 1));
}

/// A trace with its own tags requests from an endpoint: the device records the endpoint's answers.
#[test]
fn raw_device_records_answers_of_an_endpoint() {
    let mut bench = Bench::new(EndpointLimits::default());
    let mut raw = RawDevice::new(1);
    raw.send(Time::ZERO, cfg(Access::Read, EP, 0, 0xf, &[]));
    raw.send(Time::ZERO, mrd(0x3a5, 0x1000, 8));
    while let Some(tlp) = raw.poll_tlp(Time::ZERO, Class::NonPosted, tlp::TcSet::ALL) {
        bench.handle(tlp);
    }
    for tlp in bench.poll_all(Class::Completion) {
        raw.handle_tlp(us(1), &tlp);
    }
    assert_eq!((raw.received().len(), raw.unrecorded()), (1, 1));
    assert_eq!(raw.received()[0].0, us(1));
    assert_eq!(completion(&raw.received()[0].1).tag.bits(), 9);
    let credit = CreditReturn { tc: tlp::TrafficClass::default(), class: Class::Completion, data_credits: 1 };
    assert_eq!(raw.poll_credits(), Some(credit));
}
