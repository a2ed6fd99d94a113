// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of settings, as the arguments of `riser bench` give them, as one plan for each combination. Never measures anything.

use super::Args;
use crate::failure::Failure;
use bench::{Plan, Test};
use lab::schema::{Credits, Link};
use plug::Models;
use plug::values::{MpsBytes, MrrsBytes};
use std::str::FromStr;

/// Rows that one call measures at most.
const MAX_ROWS: usize = 65_536;

/// Credits that the root port advertises for requests; `None`: those of the link by default.
#[derive(Clone, Copy)]
pub(super) struct RootCredits(Option<Credits>);

impl FromStr for RootCredits {
    type Err = String;

    fn from_str(text: &str) -> Result<RootCredits, String> {
        let legal = || {
            "legal are `default`, PH:PD and PH:PD:NPH:NPD with headers 0 to 127 and data 0 to 2047, where 0 is infinite"
                .to_owned()
        };
        if text == "default" {
            return Ok(RootCredits(None));
        }
        let numbers: Vec<u16> =
            text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| legal())?;
        let (posted, non_posted) = match numbers[..] {
            [ph, pd] => ((ph, pd), None),
            [ph, pd, nph, npd] => ((ph, pd), Some((nph, npd))),
            _ => return Err(legal()),
        };
        Ok(RootCredits(Some(Credits {
            posted_header: Some(posted.0),
            posted_data: Some(posted.1),
            non_posted_header: non_posted.map(|(header, _)| header),
            non_posted_data: non_posted.map(|(_, data)| data),
            ..Credits::default()
        })))
    }
}

/// A plan for each combination, in the order in which the arguments give them.
pub(super) fn plans(args: &Args, models: &Models) -> Result<Vec<Plan>, Failure> {
    let base = super::plan(args, models)?;
    let mps = each(&args.mps, base.link.mps_bytes, MpsBytes::try_from)?;
    let mrrs = each(&args.mrrs, base.link.mrrs_bytes, MrrsBytes::try_from)?;
    let credits = or_default(&args.credits, RootCredits(None));
    let outstanding: Vec<Option<u16>> = match args.outstanding.is_empty() {
        true => vec![None],
        false => args.outstanding.iter().copied().map(Some).collect(),
    };
    let combinations = mps.len() * mrrs.len() * credits.len() * outstanding.len();
    let rows = combinations.saturating_mul(base.tests.len() * base.sizes.len());
    if rows > MAX_ROWS {
        return Err(Failure::usage(format!("{rows} rows: legal are up to {MAX_ROWS}")));
    }
    let mut plans = Vec::with_capacity(combinations);
    for mps in &mps {
        for mrrs in &mrrs {
            for credits in &credits {
                let link = link(&base.link, *mps, *mrrs, *credits).map_err(Failure::usage)?;
                let plan = Plan { link: link.clone(), ..base.clone() };
                plan.check().map_err(Failure::usage)?;
                for outstanding in &outstanding {
                    plans.push(Plan { link: link.clone(), outstanding: *outstanding, ..base.clone() });
                }
            }
        }
    }
    Ok(plans)
}

fn or_default<T: Copy>(given: &[T], default: T) -> Vec<T> {
    if given.is_empty() { vec![default] } else { given.to_vec() }
}

/// The values that are given, or else the usual one.
fn each<T>(
    given: &[i64],
    usual: Option<T>,
    value: impl Fn(i64) -> Result<T, String>,
) -> Result<Vec<Option<T>>, Failure> {
    match given {
        [] => Ok(vec![usual]),
        _ => given.iter().map(|n| value(*n).map(Some).map_err(Failure::usage)).collect(),
    }
}

fn link(
    base: &Link,
    mps: Option<MpsBytes>,
    mrrs: Option<MrrsBytes>,
    credits: RootCredits,
) -> Result<Link, String> {
    let link = Link { mps_bytes: mps, mrrs_bytes: mrrs, root_credits: credits.0, ..base.clone() };
    match lab::links::check(&link, &Link::default()).first() {
        Some(fault) => {
            let mps = mps.map_or(0, |MpsBytes(mps)| mps.bytes());
            Err(format!("--mps {mps}, --credits: {}", fault.message))
        }
        None => Ok(link),
    }
}

/// Plan, test and size of each row. A latency test has one transfer under way, so it is measured once for all numbers of these, which
/// plans vary last.
pub(super) fn rows(plans: &[Plan]) -> Vec<(&Plan, Test, u32)> {
    let mut rows = Vec::new();
    for (at, plan) in plans.iter().enumerate() {
        let first = at == 0 || plans[at - 1].outstanding.is_none() || !same_link(&plans[at - 1], plan);
        for &test in plan.tests.iter().filter(|test| first || !test.is_latency()) {
            rows.extend(plan.sizes.iter().map(|&size| (plan, test, size)));
        }
    }
    rows
}

/// Whether two plans of one call differ in the transfers under way alone.
fn same_link(a: &Plan, b: &Plan) -> bool {
    let credits = |plan: &Plan| plan.link.root_credits.map(all);
    (a.link.mps_bytes, a.link.mrrs_bytes, credits(a)) == (b.link.mps_bytes, b.link.mrrs_bytes, credits(b))
}

/// Of those that `--credits` sets.
fn all(credits: Credits) -> [Option<u16>; 4] {
    let Credits { posted_header, posted_data, non_posted_header, non_posted_data, .. } = credits;
    [posted_header, posted_data, non_posted_header, non_posted_data]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_read() {
        for (text, expected) in [
            ("16:64", [Some(16), Some(64), None, None]),
            ("16:64:8:0", [Some(16), Some(64), Some(8), Some(0)]),
        ] {
            let Ok(RootCredits(Some(credits))) = text.parse() else { panic!("{text}") };
            assert_eq!(all(credits), expected);
        }
        assert!(matches!("default".parse(), Ok(RootCredits(None))));
        for text in ["", "16", "16:64:8", "1:2:3:4:5", "-1:4", "x:4", "65536:4"] {
            assert!(text.parse::<RootCredits>().is_err_and(|e| e.contains("PH:PD")), "{text}");
        }
    }
}
