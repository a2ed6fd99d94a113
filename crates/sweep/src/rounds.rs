// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rounds of points: one round, or the rounds of successive halving (K. Jamieson and A. Talwalkar, AISTATS 2016). Their
//! sizes and budgets are known before the sweep runs.

/// A round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Number of its first point.
    pub first: u64,
    /// Number of points.
    pub points: u64,
    /// Value of the budget key, if there is one.
    pub budget: Option<u64>,
}

/// The rounds of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rounds(Vec<Round>);

impl Rounds {
    /// Returns a single round of all points.
    pub(crate) fn once(points: u64) -> Rounds {
        Rounds(vec![Round { first: 0, points, budget: None }])
    }

    /// Returns rounds of successive halving. Each round has 1/`eta` of the points of the round before, and `eta` times
    /// its budget. The last round has the budget `most`. A round with only a single point also has this budget.
    pub(crate) fn halving(points: u64, least: u64, most: u64, eta: u32) -> Rounds {
        let eta = u64::from(eta);
        let mut rounds = vec![Round { first: 0, points, budget: Some(least) }];
        let (mut left, mut budget) = (points, least);
        while budget < most {
            left = left.div_ceil(eta);
            budget = if left == 1 { most } else { budget.saturating_mul(eta).min(most) };
            let first = rounds.last().map_or(0, |round| round.first + round.points);
            rounds.push(Round { first, points: left, budget: Some(budget) });
        }
        Rounds(rounds)
    }

    /// Returns the number of points of all rounds.
    pub(crate) fn points(&self) -> u64 {
        self.0.iter().map(|round| round.points).sum()
    }

    pub(crate) fn all(&self) -> &[Round] {
        &self.0
    }

    /// Returns the round of point `number`.
    pub(crate) fn of(&self, number: u64) -> usize {
        self.0.partition_point(|round| round.first <= number).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_shrink_while_budgets_grow() {
        let rounds = |points, least, most, eta| -> Vec<(u64, u64, u64)> {
            let of = Rounds::halving(points, least, most, eta);
            of.all().iter().map(|r| (r.first, r.points, r.budget.unwrap())).collect()
        };
        assert_eq!(rounds(27, 100, 2700, 3), [(0, 27, 100), (27, 9, 300), (36, 3, 900), (39, 1, 2700)]);
        assert_eq!(rounds(10, 1, 5, 2), [(0, 10, 1), (10, 5, 2), (15, 3, 4), (18, 2, 5)]);
        assert_eq!(rounds(2, 1, 1_000_000, 2), [(0, 2, 1), (2, 1, 1_000_000)]);
        let of = Rounds::halving(27, 100, 2700, 3);
        assert_eq!([0, 26, 27, 35, 36, 39].map(|n| of.of(n)), [0, 0, 1, 1, 2, 3]);
        assert_eq!(of.points(), 40);
    }
}
