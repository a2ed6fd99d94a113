// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses numbers of options, sizes that a link has, and lists of transfer sizes. Commands check the range of transfer sizes themselves.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use tlp::{Mps, Mrrs, Rcb};

/// Sizes from `first` to `last`, doubled each time or increased by `step`.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    first: u32,
    last: u32,
    step: Option<u32>,
}

/// Returns a parser of whole numbers in a range.
pub(super) fn whole<T: FromStr + PartialOrd + Display + Clone>(
    legal: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value| legal.contains(value));
        value.ok_or_else(|| format!("expected a whole number from {} to {}", legal.start(), legal.end()))
    }
}

/// Returns a parser of the numbers in a list.
pub(super) fn listed<T: FromStr + PartialEq + Display + Clone>(
    legal: &'static [T],
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value| legal.contains(value));
        value.ok_or_else(|| {
            let legal: Vec<String> = legal.iter().map(ToString::to_string).collect();
            format!("expected {}", legal.join(", "))
        })
    }
}

/// Returns a parser of numbers above `least`, or equal to it.
pub(super) fn at_least(least: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= least);
        value.ok_or_else(|| format!("expected a number from {least} on"))
    }
}

impl Sizes {
    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        let next = move |size: &u32| match self.step {
            Some(step) => size.checked_add(step),
            None => size.checked_mul(2),
        };
        std::iter::successors(Some(self.first), next).take_while(move |size| *size <= self.last)
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let legal = || "expected N, A..B or A..B:STEP, with 1 <= A <= B and STEP >= 1".to_owned();
        let number = |n: &str| n.parse::<u32>().map_err(|_| legal());
        let Some((first, rest)) = text.split_once("..") else {
            let size = number(text)?;
            return Ok(Sizes { first: size, last: size, step: Some(1) });
        };
        let (last, step) = match rest.split_once(':') {
            Some((last, step)) => (number(last)?, Some(number(step)?)),
            None => (number(rest)?, None),
        };
        let first = number(first)?;
        if first == 0 || first > last || step == Some(0) {
            Err(legal())
        } else {
            Ok(Sizes { first, last, step })
        }
    }
}

/// Max_Payload_Size.
pub(super) fn mps(text: &str) -> Result<Mps, String> {
    size(text, Mps::new, "128, 256, 512, 1024, 2048, 4096")
}

/// Max_Read_Request_Size.
pub(super) fn mrrs(text: &str) -> Result<Mrrs, String> {
    size(text, Mrrs::new, "128, 256, 512, 1024, 2048, 4096")
}

/// Read Completion Boundary.
pub(super) fn rcb(text: &str) -> Result<Rcb, String> {
    size(text, Rcb::new, "64 or 128")
}

/// Max_Payload_Size in bytes.
pub(super) fn mps_bytes<T: From<u32>>(text: &str) -> Result<T, String> {
    mps(text).map(|size| size.bytes().into())
}

/// Max_Read_Request_Size in bytes.
pub(super) fn mrrs_bytes<T: From<u32>>(text: &str) -> Result<T, String> {
    mrrs(text).map(|size| size.bytes().into())
}

/// Read Completion Boundary in bytes.
pub(super) fn rcb_bytes<T: From<u32>>(text: &str) -> Result<T, String> {
    rcb(text).map(|size| size.bytes().into())
}

fn size<T, E: Display>(text: &str, new: fn(u32) -> Result<T, E>, legal: &str) -> Result<T, String> {
    let bytes = text.parse().map_err(|_| format!("expected {legal}"))?;
    new(bytes).map_err(|e| e.to_string())
}
