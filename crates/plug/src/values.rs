// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of labs and settings: reading one that is not legal fails at its place in the file, with the legal ones. Each reads what
//! its key says in the unit of its key.

use host::memory::{HostMemory, MemoryError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Bdf, Mps, Mrrs, Rate, Rcb, Width};

/// Which part of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Below 2 GiB: requests have three DW of header.
    Low,
    /// From 4 GiB on: requests have four DW of header.
    High,
}

impl MemoryKind {
    /// Takes `bytes` of it, at a multiple of `alignment`.
    ///
    /// # Errors
    /// Those of `memory`.
    pub fn alloc(self, memory: &HostMemory, bytes: u64, alignment: u64) -> Result<u64, MemoryError> {
        match self {
            MemoryKind::Low => memory.alloc_low(bytes, alignment),
            MemoryKind::High => memory.alloc_high(bytes, alignment),
        }
    }
}

/// Bus, device and function, written as `19:00.0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FunctionId(pub Bdf);

impl TryFrom<String> for FunctionId {
    type Error = String;
    fn try_from(text: String) -> Result<FunctionId, String> {
        text.parse().map(FunctionId).map_err(|e: tlp::BdfError| format!("`{text}`: {e}"))
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

/// A chance of 0 to 0.001, kept as a multiple of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 0.001))]
pub struct Probability(pub u64);

/// A chance of 0 to 1, kept as a multiple of 2^-64; 1 is the largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 1))]
pub struct Chance(pub u64);

impl TryFrom<i64> for Gen {
    type Error = String;
    fn try_from(n: i64) -> Result<Gen, String> {
        let rate = u8::try_from(n).ok().and_then(Rate::from_generation);
        rate.map(Gen).ok_or_else(|| format!("generation {n}: legal are 1, 2, 3, 4, 5"))
    }
}

impl TryFrom<i64> for Lanes {
    type Error = String;
    fn try_from(n: i64) -> Result<Lanes, String> {
        let width = u8::try_from(n).ok().and_then(Width::new);
        width.map(Lanes).ok_or_else(|| format!("{n} lanes: legal are 1, 2, 4, 8, 12, 16, 32"))
    }
}

fn bytes(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

impl TryFrom<i64> for MpsBytes {
    type Error = String;
    fn try_from(n: i64) -> Result<MpsBytes, String> {
        Mps::new(bytes(n)).map(MpsBytes).map_err(|e| e.to_string())
    }
}

impl TryFrom<i64> for MrrsBytes {
    type Error = String;
    fn try_from(n: i64) -> Result<MrrsBytes, String> {
        Mrrs::new(bytes(n)).map(MrrsBytes).map_err(|e| e.to_string())
    }
}

impl TryFrom<i64> for RcbBytes {
    type Error = String;
    fn try_from(n: i64) -> Result<RcbBytes, String> {
        Rcb::new(bytes(n)).map(RcbBytes).map_err(|e| e.to_string())
    }
}

impl TryFrom<f64> for Probability {
    type Error = String;
    fn try_from(p: f64) -> Result<Probability, String> {
        if !(0.0..=0.001).contains(&p) {
            return Err(format!("bit error rate {p}: legal are 0 to 0.001"));
        }
        // Exact: a double times a power of two.
        Ok(Probability((p * 2f64.powi(64)) as u64))
    }
}

impl TryFrom<f64> for Chance {
    type Error = String;
    fn try_from(p: f64) -> Result<Chance, String> {
        if !(0.0..=1.0).contains(&p) {
            return Err(format!("probability {p}: legal are 0 to 1"));
        }
        // Exact but for 1, which saturates.
        Ok(Chance((p * 2f64.powi(64)) as u64))
    }
}

/// A cost in picoseconds: 0 to 10^12, a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
pub struct Picoseconds(#[schemars(range(min = 0, max = 1_000_000_000_000_u64))] pub u64);

impl TryFrom<i64> for Picoseconds {
    type Error = String;
    fn try_from(ps: i64) -> Result<Picoseconds, String> {
        let legal = u64::try_from(ps).ok().filter(|ps| *ps <= 1_000_000_000_000);
        legal.map(Picoseconds).ok_or_else(|| format!("{ps} ps: legal are 0 to 1000000000000, a second"))
    }
}

/// A duration in a key that ends with `_ns`: for `#[serde(rename = "latency_ns", with = "plug::values::ns")]`. Legal are 0 to
/// 10^15, 11 days, or what the key's attributes say.
pub mod ns {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use tlp::Duration;

    const MOST: u64 = 1_000_000_000_000_000;

    /// Reads nanoseconds.
    ///
    /// # Errors
    /// Where they are more than may be.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match u64::deserialize(from)? {
            ns if ns <= MOST => Ok(Duration::from_ns(ns)),
            ns => Err(D::Error::custom(format!("{ns} ns: legal are 0 to {MOST}"))),
        }
    }

    /// Writes nanoseconds.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        (duration.as_ps() / 1_000).serialize(to)
    }
}

/// A duration in a key that ends with `_ps`, as [`ns`].
pub mod ps {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tlp::Duration;

    /// Reads picoseconds.
    ///
    /// # Errors
    /// Those of `from`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_ps)
    }

    /// Writes picoseconds.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        duration.as_ps().serialize(to)
    }
}
