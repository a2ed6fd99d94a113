// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of values in labs and settings. An illegal value is an error at its place in the file, with the legal values.
//! Each type reads a number in the unit of its key.

use host::memory::{HostMemory, MemoryError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tlp::{Bdf, BdfError, Mps, Mrrs, Rate, Rcb, SizeError, Width};

/// Part of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Below 2 GiB: requests have three DW of header.
    Low,
    /// From 4 GiB on: requests have four DW of header.
    High,
}

impl MemoryKind {
    /// Allocates `bytes` of this memory, at a multiple of `alignment`.
    ///
    /// # Errors
    /// Errors of `memory`.
    pub fn alloc(self, memory: &HostMemory, bytes: u64, alignment: u64) -> Result<u64, MemoryError> {
        match self {
            MemoryKind::Low => memory.alloc_low(bytes, alignment),
            MemoryKind::High => memory.alloc_high(bytes, alignment),
        }
    }
}

/// Reason why a value is illegal. Each message has the value and the legal values.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ValueError {
    /// Not the ID of a function.
    #[error("`{text}`: {error}")]
    Function {
        /// The text.
        text: String,
        /// The error in it.
        error: BdfError,
    },
    /// Not a generation.
    #[error("generation {0}, expected 1, 2, 3, 4, 5")]
    Generation(i64),
    /// Not a link width.
    #[error("{0} lanes, expected 1, 2, 4, 8, 12, 16, 32")]
    Lanes(i64),
    /// Not a size of the specification.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Not a bit error rate.
    #[error("bit error rate {0}, expected 0 to 0.001")]
    BitErrorRate(f64),
    /// Not a probability.
    #[error("probability {0}, expected 0 to 1")]
    Probability(f64),
    /// Too long, or negative.
    #[error("{0} ps, expected 0 to 1000000000000, a second")]
    Picoseconds(i64),
}

impl From<ValueError> for String {
    fn from(error: ValueError) -> String {
        error.to_string()
    }
}

/// Bus, device and function, written as `19:00.0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^0*[0-9a-fA-F]{1,2}:0*[01]?[0-9a-fA-F]\\.0*[0-7]$"))]
pub struct FunctionId(pub Bdf);

impl TryFrom<String> for FunctionId {
    type Error = ValueError;
    fn try_from(text: String) -> Result<FunctionId, ValueError> {
        text.parse().map(FunctionId).map_err(|error| ValueError::Function { text, error })
    }
}

impl From<FunctionId> for String {
    fn from(id: FunctionId) -> String {
        id.0.to_string()
    }
}

/// A generation, 1 to 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u8", extend("enum" = [1, 2, 3, 4, 5]))]
pub struct Gen(pub Rate);

/// A number of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u8", extend("enum" = [1, 2, 4, 8, 12, 16, 32]))]
pub struct Lanes(pub Width);

/// A Max_Payload_Size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u32", extend("enum" = [128, 256, 512, 1024, 2048, 4096]))]
pub struct MpsBytes(pub Mps);

/// A Max_Read_Request_Size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u32", extend("enum" = [128, 256, 512, 1024, 2048, 4096]))]
pub struct MrrsBytes(pub Mrrs);

/// A Read Completion Boundary in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u32", extend("enum" = [64, 128]))]
pub struct RcbBytes(pub Rcb);

/// A probability of 0 to 0.001, stored as a multiple of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 0.001))]
pub struct Probability(pub u64);

/// A probability of 0 to 1, stored as a multiple of 2^-64; 1 is stored as the largest value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 1))]
pub struct Chance(pub u64);

impl TryFrom<i64> for Gen {
    type Error = ValueError;
    fn try_from(n: i64) -> Result<Gen, ValueError> {
        let rate = u8::try_from(n).ok().and_then(Rate::from_generation);
        rate.map(Gen).ok_or(ValueError::Generation(n))
    }
}

impl TryFrom<i64> for Lanes {
    type Error = ValueError;
    fn try_from(n: i64) -> Result<Lanes, ValueError> {
        let width = u8::try_from(n).ok().and_then(Width::new);
        width.map(Lanes).ok_or(ValueError::Lanes(n))
    }
}

fn bytes(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

impl TryFrom<i64> for MpsBytes {
    type Error = ValueError;
    fn try_from(n: i64) -> Result<MpsBytes, ValueError> {
        Ok(MpsBytes(Mps::new(bytes(n))?))
    }
}

impl TryFrom<i64> for MrrsBytes {
    type Error = ValueError;
    fn try_from(n: i64) -> Result<MrrsBytes, ValueError> {
        Ok(MrrsBytes(Mrrs::new(bytes(n))?))
    }
}

impl TryFrom<i64> for RcbBytes {
    type Error = ValueError;
    fn try_from(n: i64) -> Result<RcbBytes, ValueError> {
        Ok(RcbBytes(Rcb::new(bytes(n))?))
    }
}

impl TryFrom<f64> for Probability {
    type Error = ValueError;
    fn try_from(p: f64) -> Result<Probability, ValueError> {
        if !(0.0..=0.001).contains(&p) {
            return Err(ValueError::BitErrorRate(p));
        }
        // Exact: a double times a power of two.
        Ok(Probability((p * 2f64.powi(64)) as u64))
    }
}

impl TryFrom<f64> for Chance {
    type Error = ValueError;
    fn try_from(p: f64) -> Result<Chance, ValueError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ValueError::Probability(p));
        }
        // Exact except for 1, which saturates.
        Ok(Chance((p * 2f64.powi(64)) as u64))
    }
}

/// A duration in picoseconds: 0 to 10^12, a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u64", extend("minimum" = 0, "maximum" = 1_000_000_000_000_u64))]
pub struct Picoseconds(pub u64);

impl TryFrom<i64> for Picoseconds {
    type Error = ValueError;
    fn try_from(ps: i64) -> Result<Picoseconds, ValueError> {
        let legal = u64::try_from(ps).ok().filter(|ps| *ps <= 1_000_000_000_000);
        legal.map(Picoseconds).ok_or(ValueError::Picoseconds(ps))
    }
}

/// A duration in a key that ends with `_ns`, for `#[serde(rename = "latency_ns", with = "plug::values::ns")]`. Its range is 0
/// to 10^15, 11 days, or narrower by the key's attributes.
pub mod ns {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use tlp::Duration;

    const MOST: u64 = 1_000_000_000_000_000;

    /// Reads nanoseconds.
    ///
    /// # Errors
    /// If the value is too large.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match u64::deserialize(from)? {
            ns if ns <= MOST => Ok(Duration::from_ns(ns)),
            ns => Err(D::Error::custom(format!("{ns} ns, expected 0 to {MOST}"))),
        }
    }

    /// Writes nanoseconds.
    ///
    /// # Errors
    /// Errors of `to`.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        (duration.as_ps() / 1_000).serialize(to)
    }
}

/// A duration in a key that ends with `_ps`, like [`ns`].
pub mod ps {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tlp::Duration;

    /// Reads picoseconds.
    ///
    /// # Errors
    /// Errors of `from`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_ps)
    }

    /// Writes picoseconds.
    ///
    /// # Errors
    /// Errors of `to`.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        duration.as_ps().serialize(to)
    }
}
