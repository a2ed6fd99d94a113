// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random traffic over random links with random errors: no TLP is lost, duplicated or out of order.

use crate::common::{Fate, Joined, Rng, World, assert_counters_add_up, id_of, random_tlp};
use proptest::prelude::*;
use riser_link::{
    CreditLimit, FlowControlMode, Frame, Passing, PhaseTable, PortConfig, ReplayTimerRule, VcArbitration,
    VcScheme, may_pass,
};
use std::collections::VecDeque;
use tlp::{Class, Duration, Mps, Rate, TcSet, TcVcMap, Time, Tlp, TrafficClass, Vc, Width};

struct Traffic {
    rng: Rng,
    waiting: [[VecDeque<Tlp>; 3]; 2],
    issued: [Vec<Tlp>; 2],
    arrived: [Vec<Tlp>; 2],
    /// Flips for each bit sent, in units of 2^-64.
    bit_error_rate: u64,
    /// Number of frames in 256 that vanish.
    loss: u64,
    drain_ns: u64,
}

impl Traffic {
    fn new(seed: u64, tlps: u16, mps: Mps) -> Traffic {
        let mut rng = Rng(seed | 1);
        let mut waiting: [[VecDeque<Tlp>; 3]; 2] = Default::default();
        for side in &mut waiting {
            for id in 0..tlps {
                let tlp = random_tlp(&mut rng, id, mps.bytes());
                side[tlp.class().index()].push_back(tlp);
            }
        }
        Traffic {
            rng,
            waiting,
            issued: Default::default(),
            arrived: Default::default(),
            bit_error_rate: 0,
            loss: 0,
            drain_ns: 0,
        }
    }

    /// The same traffic, with a random Traffic Class for each TLP.
    fn of_all_classes(mut self) -> Traffic {
        for tlp in self.waiting.iter_mut().flatten().flatten() {
            tlp.repr.tc = TrafficClass::from_bits(self.rng.below(8) as u8);
        }
        self
    }

    fn is_done(&self, tlps: u16) -> bool {
        self.arrived.iter().all(|a| a.len() == usize::from(tlps))
    }
}

impl World for Traffic {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        // TLPs are not always offered immediately, so that queues both drain and fill.
        if self.rng.below(4) == 0 {
            return None;
        }
        let tlp = self.waiting[side][class.index()].pop_front()?;
        self.issued[side].push(tlp.clone());
        Some(tlp)
    }

    fn delivered(&mut self, side: usize, _now: Time, tlp: Tlp) {
        self.arrived[side].push(tlp);
    }

    fn drain(&mut self, _side: usize) -> Duration {
        Duration::from_ns(self.rng.below(self.drain_ns + 1))
    }

    fn fate(&mut self, _side: usize, _nth: u64, frame: &Frame) -> Fate {
        if self.rng.below(256) < self.loss {
            return Fate::Lost;
        }
        if self.bit_error_rate == 0 {
            return Fate::Intact;
        }
        let flips: Vec<u32> =
            (0..frame.as_ref().bit_len()).filter(|_| self.rng.next() < self.bit_error_rate).collect();
        if flips.is_empty() { Fate::Intact } else { Fate::Damaged(flips.into_iter().collect()) }
    }
}

fn config(rate: Rate, width: Width, mps: Mps) -> impl Strategy<Value = PortConfig> {
    let least = (mps.bytes() / 16) as u16;
    let credit = move |min: u16| {
        prop_oneof![
            (1_u16..=127, min..=2047).prop_map(|(h, d)| CreditLimit::finite(h, d)),
            Just(CreditLimit::finite(1, min)),
            Just(CreditLimit::INFINITE),
            (1_u16..=127).prop_map(|h| CreditLimit { header: Some(h), data: None }),
        ]
    };
    let queue = 1_usize..=8;
    let replay = prop_oneof![Just((512, 65536)), Just((1, 4096 + 26)), Just((3, 65536)), Just((16, 8192))];
    let rev4 = |symbols| ReplayTimerRule::Rev4 { symbols };
    let other = if rate <= Rate::Gt8 { ReplayTimerRule::Rev3 } else { rev4(31_000) };
    let rule = prop_oneof![Just(other), Just(rev4(24_000))];
    ([credit(least), credit(1), credit(least)], queue, replay, rule).prop_map(
        move |(rx_buffer, tx_queue_tlps, (tlps, bytes), replay_timer)| PortConfig {
            rx_buffer,
            tx_queue_tlps,
            replay_buffer_tlps: tlps,
            replay_buffer_bytes: bytes,
            replay_timer,
            ..PortConfig::new(rate, width, mps)
        },
    )
}

fn links() -> impl Strategy<Value = [PortConfig; 2]> {
    let rate = proptest::sample::select(Rate::ALL.to_vec());
    let width = proptest::sample::select(Width::ALL.to_vec());
    let mps = (0_u8..4).prop_map(|code| Mps::from_encoding(code).unwrap());
    (rate, width, mps).prop_flat_map(|(r, w, m)| [config(r, w, m), config(r, w, m)])
}

/// Each Traffic Class uses a random channel, and all used channels are served. Scaled flow control is at either end,
/// both or none.
fn with_channels() -> impl Strategy<Value = [PortConfig; 2]> {
    let map = prop::array::uniform7(0..8u8).prop_map(|channels| {
        let mut classes = [TcSet::NONE; 8];
        for (tc, vc) in (0..).zip(std::iter::once(0).chain(channels)) {
            let set = &mut classes[usize::from(vc)];
            *set = set.or(TcSet::of(TrafficClass::from_bits(tc)));
        }
        TcVcMap::new(classes).unwrap()
    });
    let scheme = prop_oneof![
        Just(VcScheme::RoundRobin),
        Just(VcScheme::Weighted(PhaseTable::spread([1, 2, 3, 4, 5, 5, 6, 6]).unwrap())),
    ];
    let arbitration =
        (0..8u8, scheme).prop_map(|(low, scheme)| VcArbitration { low_priority: Vc::from_bits(low), scheme });
    (links(), map, arbitration, any::<[bool; 2]>()).prop_map(|(mut configs, map, arbitration, scaled)| {
        for (config, scaled) in configs.iter_mut().zip(scaled) {
            (config.tc_vc, config.arbitration) = (map, arbitration.clone());
            config.scaled_flow_control = scaled;
            // The last channel has more than fits unscaled, if that is allowed.
            if let (Some(vc), true) = (map.channels().last().filter(|vc| *vc != Vc::VC0), scaled) {
                config.vc_buffers.insert(vc, [CreditLimit::finite(600, 9000); 3]);
            }
        }
        configs
    })
}

/// No TLP has passed another one of its channel against the rules (`PCIe 5.0 Table 2-40`).
fn assert_order(issued: &[Tlp], arrived: &[Tlp], map: &TcVcMap) {
    let mut place = vec![0; arrived.len()];
    for (at, tlp) in arrived.iter().enumerate() {
        place[usize::from(id_of(tlp))] = at;
    }
    for (n, later) in issued.iter().enumerate() {
        let same_channel = |earlier: &&Tlp| map.vc(earlier.repr.tc) == map.vc(later.repr.tc);
        for earlier in issued[..n].iter().filter(same_channel) {
            if place[usize::from(id_of(later))] < place[usize::from(id_of(earlier))] {
                assert_ne!(later.class(), earlier.class(), "each class is a FIFO here");
                assert_ne!(may_pass(later, earlier), Passing::MustNot, "{later:?} passed {earlier:?}");
            }
        }
    }
}

fn assert_same(issued: &[Tlp], arrived: &[Tlp]) {
    assert_eq!(issued.len(), arrived.len());
    let mut issued: Vec<&Tlp> = issued.iter().collect();
    let mut arrived: Vec<&Tlp> = arrived.iter().collect();
    issued.sort_by_key(|t| id_of(t));
    arrived.sort_by_key(|t| id_of(t));
    assert_eq!(issued, arrived);
}

fn check(configs: [PortConfig; 2], mut traffic: Traffic, tlps: u16, propagation: Duration) {
    let credited = configs.iter().all(|config| config.flow_control == FlowControlMode::Credits);
    let clean = traffic.bit_error_rate == 0 && traffic.loss == 0 && credited;
    let mut link = Joined::new(configs.clone(), propagation);
    let mut steps = 0_u64;
    while !(traffic.is_done(tlps) && (0..2).all(|side| link.port(side).state_line() == "idle")) {
        // The traffic may offer no TLP now and one at the next step, so a quiet link does not end the test.
        link.step(&mut traffic, link.now + Duration::from_ns(1_000_000));
        steps += 1;
        assert!(steps < 2_000_000, "no end, {}", link.states());
    }
    let end = link.now;
    for (side, config) in configs.iter().enumerate() {
        assert_same(&traffic.issued[1 - side], &traffic.arrived[side]);
        assert_order(&traffic.issued[1 - side], &traffic.arrived[side], &config.tc_vc);
        link.port_mut(side).finish(end);
        assert_counters_add_up(link.port(side), config);
        let c = *link.port(side).counters();
        assert_eq!(c.tlps, u64::from(tlps));
        assert_eq!(c.vcs.iter().map(|vc| vc.tlps).sum::<u64>(), c.tlps);
        assert_eq!(c.credit_stall_ps.iter().sum::<u64>(), link.credit_wait(side).as_ps());
        assert_eq!(c.unmapped_tcs, 0);
        assert!(link.port(side).is_settled());
        assert_eq!((c.receiver_overflows, c.data_link_protocol_errors, c.undetected_errors), (0, 0, 0));
        if clean {
            let errors = c.bad_lcrc + c.bad_dllp_crc + c.out_of_sequence + c.nak_received + c.dllps.nak;
            assert_eq!(errors, 0, "{c:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn clean_link_delivers_all_tlps_in_order(configs in links(), seed: u64, flight_ns in 0_u64..2000, drain_ns in 0_u64..3000) {
        let mut traffic = Traffic::new(seed, 100, configs[0].mps);
        traffic.drain_ns = drain_ns;
        check(configs, traffic, 100, Duration::from_ns(flight_ns));
    }

    /// One error in 2^16 bits: a 256 B TLP in about thirty.
    #[test]
    fn rare_errors_lose_no_tlp(configs in links(), seed: u64, flight_ns in 0_u64..200) {
        let mut traffic = Traffic::new(seed, 100, configs[0].mps);
        traffic.bit_error_rate = 1 << 48;
        check(configs, traffic, 100, Duration::from_ns(flight_ns));
    }

    /// Channels, scales and arbitration of any kind, with an error in 2^16 bits.
    #[test]
    fn channels_lose_no_tlp(configs in with_channels(), seed: u64, flight_ns in 0_u64..500, drain_ns in 0_u64..2000) {
        let mut traffic = Traffic::new(seed, 100, configs[0].mps).of_all_classes();
        traffic.bit_error_rate = if seed % 2 == 0 { 1 << 48 } else { 0 };
        traffic.drain_ns = drain_ns;
        check(configs, traffic, 100, Duration::from_ns(flight_ns));
    }

    /// Without flow control, buffers of a few TLPs that drain slowly.
    #[test]
    fn dropped_tlps_are_replayed_without_flow_control(configs in links(), seed: u64, buffer_tlps in 1_u16..8, drain_ns in 0_u64..2000) {
        let mut traffic = Traffic::new(seed, 60, configs[0].mps);
        traffic.drain_ns = drain_ns;
        let configs = configs.map(|c| {
            PortConfig { flow_control: FlowControlMode::None { buffer_tlps }, ..c }
        });
        check(configs, traffic, 60, Duration::from_ns(2));
    }

    /// Half of the frames of a thousand bits are damaged. One frame in sixteen is lost.
    #[test]
    fn heavy_errors_lose_no_tlp(configs in links(), seed: u64, flight_ns in 0_u64..200, drain_ns in 0_u64..300) {
        let mut traffic = Traffic::new(seed, 50, Mps::new(128).unwrap());
        traffic.bit_error_rate = u64::MAX / 2000;
        traffic.loss = 16;
        traffic.drain_ns = drain_ns;
        check(configs, traffic, 50, Duration::from_ns(flight_ns));
    }
}
