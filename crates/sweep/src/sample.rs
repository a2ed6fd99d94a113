// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampling of the ranges: each point follows from its number alone. Points are never stored.

use crate::axis::{Axis, Levels};
use crate::schema::{MAX_POINTS, Method, Sample};
use crate::sobol::{DIMENSIONS, Sobol};
use crate::value::Value;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::ops::Range;
use toml::Spanned;

/// Method of choosing points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sampling {
    /// All points; the last axis changes first.
    Grid(u64),
    Random {
        points: u64,
        seed: u64,
    },
    /// One dimension and one shift for each axis.
    Sobol {
        points: u64,
        dimensions: Vec<(Sobol, u32)>,
    },
}

/// A fault, and its place if the fault concerns one key.
type Wrong = (Option<Range<usize>>, String);

impl Sampling {
    pub(crate) fn of(sample: &Sample, axes: &[Axis]) -> Result<Sampling, Wrong> {
        let method = sample.method.as_ref().map_or_else(Method::default, |m| *m.get_ref());
        let seed = sample.seed.as_ref().map(|seed| *seed.get_ref());
        if method == Method::Grid {
            return grid(sample, axes);
        }
        let Some(points) = sample.points.as_ref().map(|points| *points.get_ref()) else {
            let at = sample.method.as_ref().map(Spanned::span);
            return Err((at, format!("sample without points: expected 1 to {MAX_POINTS}")));
        };
        if method == Method::Random {
            return Ok(Sampling::Random { points, seed: seed.unwrap_or(0) });
        }
        if axes.len() > DIMENSIONS {
            let why = format!("{} axes: expected 1 to {DIMENSIONS} with Sobol points", axes.len());
            return Err((sample.method.as_ref().map(Spanned::span), why));
        }
        let mut shifts = seed.map(SplitMix64::seed_from_u64);
        let mut shift = || shifts.as_mut().map_or(0, RngCore::next_u32);
        let dimensions = (0..axes.len()).map(|n| (Sobol::dimension(n), shift())).collect();
        Ok(Sampling::Sobol { points, dimensions })
    }

    /// Returns the number of points.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Sampling::Grid(count) | Sampling::Random { points: count, .. } => *count,
            Sampling::Sobol { points, .. } => *points,
        }
    }

    /// Returns the values of point `n`, one for each key.
    pub(crate) fn settings(&self, axes: &[Axis], n: u64) -> Vec<Value> {
        match self {
            Sampling::Grid(_) => {
                let mut rest = n;
                let digit = |axis: &Axis| {
                    let len = axis.len().unwrap_or(1);
                    let digit = rest % len;
                    rest /= len;
                    axis.level(digit)
                };
                let mut rows: Vec<Vec<Value>> = axes.iter().rev().map(digit).collect();
                rows.reverse();
                rows.concat()
            }
            Sampling::Random { seed, .. } => {
                let mut chance = SplitMix64::seed_from_u64(mixed(*seed) ^ mixed(!n));
                axes.iter()
                    .flat_map(|axis| axis.of_unit((chance.next_u64() >> 11) as f64 / 2f64.powi(53)))
                    .collect()
            }
            Sampling::Sobol { dimensions, .. } => {
                let unit = |(sobol, shift): &(Sobol, u32)| {
                    // Points are far fewer than 2^32.
                    f64::from(sobol.element(n as u32) ^ shift) / 2f64.powi(32)
                };
                axes.iter()
                    .zip(dimensions)
                    .flat_map(|(axis, dimension)| axis.of_unit(unit(dimension)))
                    .collect()
            }
        }
    }
}

fn mixed(n: u64) -> u64 {
    SplitMix64::seed_from_u64(n).next_u64()
}

fn grid(sample: &Sample, axes: &[Axis]) -> Result<Sampling, Wrong> {
    let surplus = [("points", sample.points.as_ref()), ("seed", sample.seed.as_ref())];
    if let Some((name, Some(key))) = surplus.into_iter().find(|(_, key)| key.is_some()) {
        return Err((Some(key.span()), format!("{name}: no effect on a grid, which has all points")));
    }
    if let Some(axis) = axes.iter().find(|axis| matches!(axis.levels, Levels::Between(..))) {
        let why = "a range without step and points: expected random or Sobol points";
        return Err((Some(axis.place.clone()), format!("`{}`: {why}", axis.keys[0])));
    }
    let count = axes.iter().try_fold(1u64, |count, axis| count.checked_mul(axis.len()?));
    match count.filter(|count| *count <= MAX_POINTS) {
        Some(count) => Ok(Sampling::Grid(count)),
        None => {
            let sizes: Vec<String> = axes.iter().filter_map(Axis::len).map(|n| n.to_string()).collect();
            let why = format!("a grid of {} points: expected at most {MAX_POINTS}", sizes.join(" * "));
            Err((None, why))
        }
    }
}
