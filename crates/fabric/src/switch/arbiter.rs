// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Port arbitration (`PCIe 5.0 §6.3.3.2`): selects the input of a switch that sends next through one egress port. It
//! counts TLPs and never examines them.

use super::MAX_INPUTS;

/// Rule by which inputs with a TLP for an egress port share the port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PortArbitration {
    /// Inputs send one TLP each, round robin.
    #[default]
    RoundRobin,
    /// Each input sends as many TLPs per round as its weight, by ingress port, the upstream port first. TLPs of the
    /// switch itself have the weight 1. Inputs without a TLP are skipped.
    Weighted(Vec<u16>),
}

/// A set of inputs: bit n is input n.
pub(super) type Inputs = u64;

/// The arbiter of one class at one egress port.
pub(super) struct Arbiter {
    /// The input that sent last.
    last: u32,
    weights: Option<Box<Weights>>,
}

struct Weights {
    of: [u16; MAX_INPUTS],
    left: [u16; MAX_INPUTS],
    /// The inputs whose `left` is not zero.
    with_turns: Inputs,
}

impl Arbiter {
    /// Creates an arbiter that starts with input 0.
    pub(super) fn new(arbitration: &PortArbitration) -> Arbiter {
        let weights = match arbitration {
            PortArbitration::RoundRobin => None,
            PortArbitration::Weighted(weights) => Some(Box::new(Weights::new(weights))),
        };
        Arbiter { last: MAX_INPUTS as u32 - 1, weights }
    }

    /// Returns the next input of `waiting`; `None` if `waiting` is empty. Changes nothing.
    pub(super) fn next(&self, waiting: Inputs) -> Option<usize> {
        let with_turns = self.weights.as_ref().map_or(Inputs::MAX, |w| w.with_turns);
        // If no waiting input may send more TLPs in this round, a new round begins.
        let eligible = if waiting & with_turns != 0 { waiting & with_turns } else { waiting };
        let behind = eligible & (Inputs::MAX << self.last << 1);
        let from = if behind != 0 { behind } else { eligible };
        (from != 0).then(|| from.trailing_zeros() as usize)
    }

    /// Notes that `input` has sent a TLP.
    pub(super) fn took(&mut self, input: usize) {
        self.last = input as u32;
        if let Some(weights) = &mut self.weights {
            weights.took(input);
        }
    }
}

impl Weights {
    fn new(by_port: &[u16]) -> Weights {
        let mut of = [1; MAX_INPUTS];
        for (weight, set) in of.iter_mut().zip(by_port) {
            *weight = (*set).max(1);
        }
        Weights { of, left: of, with_turns: Inputs::MAX }
    }

    fn took(&mut self, input: usize) {
        if self.left[input] == 0 {
            (self.left, self.with_turns) = (self.of, Inputs::MAX);
        }
        self.left[input] -= 1;
        if self.left[input] == 0 {
            self.with_turns &= !(1 << input);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(arbiter: &mut Arbiter, waiting: Inputs, n: usize) -> Vec<usize> {
        let mut turn = || {
            let input = arbiter.next(waiting).unwrap();
            arbiter.took(input);
            input
        };
        (0..n).map(|_| turn()).collect()
    }

    #[test]
    fn round_robin_serves_each_input() {
        let mut arbiter = Arbiter::new(&PortArbitration::RoundRobin);
        assert_eq!(turns(&mut arbiter, 0b1011, 7), [0, 1, 3, 0, 1, 3, 0]);
        assert_eq!(turns(&mut arbiter, 0b1010, 3), [1, 3, 1]);
        assert_eq!(turns(&mut arbiter, 1 << 63 | 1 << 2, 3), [2, 63, 2]);
        assert_eq!(arbiter.next(0), None);
    }

    /// Each input may send as many TLPs per round as its weight. The others get unused shares.
    #[test]
    fn input_sends_as_many_as_its_weight() {
        let mut arbiter = Arbiter::new(&PortArbitration::Weighted(vec![1, 3, 2]));
        assert_eq!(turns(&mut arbiter, 0b111, 12), [0, 1, 2, 1, 2, 1, 2, 0, 1, 2, 1, 1]);
        assert_eq!(turns(&mut arbiter, 0b101, 6), [2, 0, 2, 0, 2, 2]);
        assert_eq!(turns(&mut arbiter, 0b010, 4), [1, 1, 1, 1]);
    }
}
