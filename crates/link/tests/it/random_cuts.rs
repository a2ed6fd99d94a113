// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that are cut and restored at any time under any traffic: every TLP arrives once or is handed back, and both ends
//! agree afterwards.

use crate::common::{Fate, Joined, Rng, World, assert_counters_add_up, id_of, random_tlp};
use proptest::prelude::*;
use riser_link::{CreditLimit, FlowControlMode, Frame, Notice, PortConfig};
use std::collections::BTreeMap;
use tlp::{Class, Duration, Mps, Rate, Time, Tlp, Width};

/// The fate of the TLPs that a side has issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Arrived,
    HandedBack,
}

struct Traffic {
    rng: Rng,
    /// TLPs still to issue, by side.
    left: [u16; 2],
    next_id: u16,
    issued: [Vec<u16>; 2],
    ends: [BTreeMap<u16, End>; 2],
    loss: u64,
    drain_ns: u64,
}

impl Traffic {
    fn end(&mut self, from: usize, tlp: &Tlp, end: End) {
        let id = id_of(tlp);
        assert!(self.issued[from].contains(&id));
        assert_eq!(self.ends[from].insert(id, end), None, "{id} ends twice: {end:?}");
    }

    /// Records the TLPs that each side handed back. A TLP that the other end has received is not lost.
    fn hand_back(&mut self, lost: &[Vec<(Tlp, Option<u16>, bool)>; 2]) {
        for (from, lost) in lost.iter().enumerate() {
            for (tlp, sequence, received) in lost {
                if *received {
                    assert!(sequence.is_some());
                    assert_eq!(self.ends[from].get(&id_of(tlp)), Some(&End::Arrived));
                } else {
                    self.end(from, tlp, End::HandedBack);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.left == [0, 0] && (0..2).all(|side| self.ends[side].len() == self.issued[side].len())
    }
}

impl World for Traffic {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        if self.left[side] == 0 || self.rng.below(3) == 0 {
            return None;
        }
        let tlp = random_tlp(&mut self.rng, self.next_id, 128);
        if tlp.class() != class {
            return None;
        }
        self.left[side] -= 1;
        self.next_id += 1;
        self.issued[side].push(id_of(&tlp));
        Some(tlp)
    }

    fn delivered(&mut self, side: usize, _now: Time, tlp: Tlp) {
        self.end(1 - side, &tlp, End::Arrived);
    }

    fn drain(&mut self, _side: usize) -> Duration {
        Duration::from_ns(self.rng.below(self.drain_ns + 1))
    }

    fn fate(&mut self, _side: usize, _nth: u64, frame: &Frame) -> Fate {
        match self.rng.below(512) {
            draw if draw < self.loss => Fate::Lost,
            draw if draw < 2 * self.loss => Fate::Damaged(
                [self.rng.below(u64::from(frame.as_ref().bit_len())) as u32].into_iter().collect(),
            ),
            _ => Fate::Intact,
        }
    }
}

fn config() -> impl Strategy<Value = PortConfig> {
    let rate = proptest::sample::select(Rate::ALL.to_vec());
    let credits = prop_oneof![
        (1_u16..=20, 8_u16..=100).prop_map(|(h, d)| CreditLimit::finite(h, d)),
        Just(CreditLimit::INFINITE),
    ];
    let flow = prop_oneof![
        5 => Just(FlowControlMode::Credits),
        1 => (2_u16..6).prop_map(|buffer_tlps| FlowControlMode::None { buffer_tlps }),
    ];
    (rate, [credits.clone(), credits.clone(), credits], any::<bool>(), flow, 1_u16..20).prop_map(
        |(rate, rx_buffer, scaled, flow_control, replay_buffer_tlps)| PortConfig {
            rx_buffer,
            scaled_flow_control: scaled && flow_control == FlowControlMode::Credits,
            flow_control,
            replay_buffer_tlps,
            ..PortConfig::new(rate, Width::new(4).unwrap(), Mps::new(128).unwrap())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_tlp_arrives_once_or_is_handed_back(
        config in config(),
        seed: u64,
        cuts in prop::collection::vec((0_u64..400, 0_u64..3000), 1..6),
        flight_ns in 0_u64..500,
        drain_ns in 0_u64..2000,
        loss in prop_oneof![Just(0_u64), Just(8)],
    ) {
        let mut traffic = Traffic {
            rng: Rng(seed | 1),
            left: [100, 100],
            next_id: 0,
            issued: Default::default(),
            ends: Default::default(),
            loss,
            drain_ns,
        };
        let mut link = Joined::new([config.clone(), config.clone()], Duration::from_ns(flight_ns));
        let mut downs = 0;
        for (steps, silence_ns) in cuts {
            for _ in 0..steps {
                let next = link.now + Duration::from_us(100);
                if traffic.is_over() || !link.step(&mut traffic, next) {
                    break;
                }
            }
            let lost = link.cut(true);
            traffic.hand_back(&lost);
            downs += 1;
            let until = link.now + Duration::from_ns(silence_ns);
            // The buffers continue to drain.
            prop_assert!(link.run(&mut traffic, until, 100_000));
            link.restore();
        }
        let mut steps = 0;
        while !(traffic.is_over() && link.is_drained() && (0..2).all(|s| link.port(s).state_line() == "idle")) {
            let next = link.now + Duration::from_us(100);
            link.step(&mut traffic, next);
            steps += 1;
            prop_assert!(steps < 500_000, "no end, {}", link.states());
        }
        let end = link.now;
        for side in 0..2 {
            link.port_mut(side).finish(end);
            assert_counters_add_up(link.port(side), &config);
            let c = *link.port(side).counters();
            prop_assert_eq!(c.link_downs, downs);
            // TLPs of one epoch do not affect the credits and sequence numbers of another.
            let errors = (c.receiver_overflows, c.flow_control_protocol_errors, c.data_link_protocol_errors);
            prop_assert_eq!(errors, (0, 0, 0));
            let told: Vec<Notice> = std::iter::from_fn(|| link.port_mut(side).poll_notice()).collect();
            let rate_and_width = Notice::Up { rate: config.rate, width: config.width };
            let down = Notice::Down { surprise: true };
            prop_assert!(told.contains(&rate_and_width) && told.contains(&down));
        }
        let arrived = |side: usize| traffic.ends[side].values().filter(|end| **end == End::Arrived).count();
        let handed_back = |side: usize| traffic.ends[side].len() - arrived(side);
        prop_assert_eq!([arrived(0) + handed_back(0), arrived(1) + handed_back(1)], [100, 100]);
    }
}
