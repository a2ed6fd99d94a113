// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots whose data link layers are not riser's: frames cross as bytes. Two data link layers are partners here:
//! the small one of the example, and riser's own, which must behave in bytes as it does without.

mod bad_input;
mod byte_link;
mod same_capture;
mod small_link;

#[path = "../../../examples/frames/data_link.rs"]
mod data_link;

use crate::common::system::System;
use endpoint::{DataLink, FrameSlot, Joined, RawDevice};
use link::{Counters, PortConfig};
use riser_fabric::{Fabric, LinkId, PortId, Side};
use tlp::{Duration, Time};

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// Puts a data link layer below the device of each slot.
fn joined<L: DataLink + 'static>(mut system: System, link: impl Fn(PortConfig) -> L) -> System {
    for slot in &mut system.slots {
        let device = std::mem::replace(&mut slot.device, Box::new(RawDevice::default()));
        slot.device = Box::new(FrameSlot::new(Joined::new(link(slot.link.device.clone()), device)));
    }
    system
}

/// The counters of one end. All bytes on the wire are of some kind.
fn counters(fabric: &Fabric, side: Side) -> Counters {
    let counters = *fabric.port_counters(PortId::new(LinkId(0), side));
    assert_eq!(counters.classified_bytes(), counters.wire_bytes, "{side:?}");
    counters
}

/// Counters of errors that no correct partner causes.
fn protocol_errors(counters: &Counters) -> [u64; 6] {
    [
        counters.data_link_protocol_errors,
        counters.flow_control_protocol_errors,
        counters.receiver_overflows,
        counters.unmapped_tcs,
        counters.malformed_tlps,
        counters.undetected_errors,
    ]
}
