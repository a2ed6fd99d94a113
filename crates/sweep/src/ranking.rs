// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranking of points by aims and bounds.

use crate::record::Record;
use crate::schema::Aim;
use crate::sweep::Sweep;
use std::cmp::Ordering;

/// Returns the indices 0 to `count - 1` of records, best first: feasible records by the first aim, then other complete
/// records by the distance from their bounds, then incomplete records. Equal records keep their order.
pub(crate) fn best<'r>(sweep: &Sweep, count: usize, of: impl Fn(usize) -> Option<&'r Record>) -> Vec<usize> {
    let aim = sweep.metrics().iter().enumerate().find_map(|(n, metric)| Some((n, metric.aim?)));
    let key = |place: usize| {
        let record = of(place).filter(|record| record.outcome.is_whole());
        let miss = record.map_or(f64::INFINITY, |record| sweep.miss(record));
        let goal = aim.zip(record).and_then(|((n, aim), record)| Some(down(aim, record.number(n)?)));
        (record.is_none(), miss, goal.unwrap_or(f64::INFINITY))
    };
    let keys: Vec<_> = (0..count).map(key).collect();
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&a, &b| {
        let ((lost_a, miss_a, goal_a), (lost_b, miss_b, goal_b)) = (keys[a], keys[b]);
        lost_a.cmp(&lost_b).then(miss_a.total_cmp(&miss_b)).then(goal_a.total_cmp(&goal_b))
    });
    places
}

/// Returns a value for which less is better.
fn down(aim: Aim, value: f64) -> f64 {
    match aim {
        Aim::Maximize => -value,
        Aim::Minimize => value,
    }
}

/// Returns the point numbers of the Pareto front, in their order: feasible records. No other feasible record is better
/// than these in one aim without being worse in another. If there is one aim, these are the best records. If there are
/// no aims, the result is empty.
pub fn front(sweep: &Sweep, records: &[Option<Record>]) -> Vec<u64> {
    let aims: Vec<(usize, Aim)> =
        sweep.metrics().iter().enumerate().filter_map(|(n, metric)| Some((n, metric.aim?))).collect();
    let last = sweep.rounds().last().map_or(0, |round| round.first);
    // If there are rounds, only the last round has the whole budget.
    let whole = records.iter().flatten().filter(|record| record.point >= last && sweep.is_feasible(record));
    let goals = |record: &Record| -> Option<Vec<f64>> {
        aims.iter().map(|(n, aim)| Some(down(*aim, record.number(*n)?))).collect()
    };
    let mut all: Vec<(Vec<f64>, u64)> = whole.filter_map(|r| Some((goals(r)?, r.point))).collect();
    if aims.is_empty() {
        return Vec::new();
    }
    all.sort_by(|(a, m), (b, n)| order(a, b).then(m.cmp(n)));
    let mut kept: Vec<(Vec<f64>, u64)> = Vec::new();
    for (goal, point) in all {
        // In this order, a dominating point comes first.
        if !kept.iter().any(|(better, _)| dominates(better, &goal)) {
            kept.push((goal, point));
        }
    }
    let mut points: Vec<u64> = kept.into_iter().map(|(_, point)| point).collect();
    points.sort_unstable();
    points
}

fn order(a: &[f64], b: &[f64]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

fn dominates(a: &[f64], b: &[f64]) -> bool {
    a != b && a.iter().zip(b).all(|(a, b)| a <= b)
}
