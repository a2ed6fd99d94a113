// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch that has run for a while allocates nothing for a TLP that it sends on or refuses.

use crate::switch_rig::*;
use tlp::*;

fn round(rig: &mut Rig, tlps: &[(usize, Tlp)]) -> usize {
    let mut sent = 0;
    for (port, tlp) in tlps {
        rig.put(*port, tlp);
    }
    rig.now += LATENCY;
    rig.switch.handle_timeout(rig.now);
    while let Some(port) = rig.switch.poll_touched() {
        for class in Class::ALL {
            while rig.switch.poll_tlp(port, rig.now, class, TcSet::ALL).is_some() {
                sent += 1;
            }
        }
        while rig.switch.poll_credits(port).is_some() {}
    }
    rig.switch.effects().clear();
    sent
}

#[test]
fn forwarding_a_tlp_allocates_nothing() {
    let mut rig = Rig::new();
    let function = |bus| bdf(bus, 0, 0);
    let tlps = [
        (1, write(function(3), 0x8000_0000, 64)),
        (2, write(function(4), 0x3000_0000, 64)),
        (3, read(function(6), 0x8000_0000, 64)),
        (0, completion(function(0), function(6), 64)),
        (0, read(function(0), 0x3800_0000, 64)),
        (2, with_attributes(completion(function(4), function(3), 64), Attributes::ID_BASED_ORDERING)),
    ];
    for _ in 0..100 {
        assert_eq!(round(&mut rig, &tlps), tlps.len());
    }
    let allocated = allocation_counter::measure(|| {
        for _ in 0..100 {
            round(&mut rig, &tlps);
        }
    });
    assert_eq!(allocated.count_total, 0);
}
