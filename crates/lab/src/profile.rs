// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles: what hosts and devices cost, as TOML files in which every figure has a unit and a source.

mod device;
mod host;
mod host_parts;

pub use device::{DeviceFile, DeviceKind, device};
pub use host::{HostFile, HostKind, host};
pub use host_parts::{
    BanksTable, CompletionsTable, DramTable, IommuTable, LatencyRow, LlcTable, NumaTable, PageWalkCacheTable,
    PowerTable, ReplacementName,
};

use crate::error::FileError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::{fs, io};

/// Bytes of the largest profile that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A figure with the place it comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The figure, in the unit that its key names.
    pub value: T,
    /// Paper section, data file, data sheet or specification.
    pub source: String,
}

/// A profile that ships: its name and its text.
pub struct Shipped {
    /// What labs call it.
    pub name: &'static str,
    /// `host`, `device` or `link`.
    pub kind: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All profiles that ship, by kind and name.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "ideal", kind: "host", text: include_str!("../profiles/hosts/ideal.toml") },
    Shipped {
        name: "xeon-e5-2637v3",
        kind: "host",
        text: include_str!("../profiles/hosts/xeon-e5-2637v3.toml"),
    },
    Shipped {
        name: "xeon-e5-2630v4",
        kind: "host",
        text: include_str!("../profiles/hosts/xeon-e5-2630v4.toml"),
    },
    Shipped {
        name: "xeon-e5-2620v3",
        kind: "host",
        text: include_str!("../profiles/hosts/xeon-e5-2620v3.toml"),
    },
    Shipped {
        name: "xeon-e5-2620v2",
        kind: "host",
        text: include_str!("../profiles/hosts/xeon-e5-2620v2.toml"),
    },
    Shipped { name: "xeon-e5-2630", kind: "host", text: include_str!("../profiles/hosts/xeon-e5-2630.toml") },
    Shipped {
        name: "xeon-e3-1226v3",
        kind: "host",
        text: include_str!("../profiles/hosts/xeon-e3-1226v3.toml"),
    },
    Shipped { name: "gem5", kind: "host", text: include_str!("../profiles/hosts/gem5.toml") },
    Shipped { name: "chipyard", kind: "host", text: include_str!("../profiles/hosts/chipyard.toml") },
    Shipped { name: "ideal", kind: "device", text: include_str!("../profiles/devices/ideal.toml") },
    Shipped { name: "nfp6000", kind: "device", text: include_str!("../profiles/devices/nfp6000.toml") },
    Shipped {
        name: "netfpga-sume",
        kind: "device",
        text: include_str!("../profiles/devices/netfpga-sume.toml"),
    },
];

impl Shipped {
    /// Its own line on what it is.
    #[must_use]
    pub fn description(&self) -> String {
        #[derive(Deserialize)]
        struct Head {
            description: String,
        }
        toml::from_str::<Head>(self.text).map_or_else(|e| e.to_string(), |head| head.description)
    }
}

fn shipped(kind: &str, name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|s| s.kind == kind && s.name == name)
}

fn names(kind: &str) -> String {
    let names: Vec<&str> = SHIPPED.iter().filter(|s| s.kind == kind).map(|s| s.name).collect();
    names.join(", ")
}

/// Text of the profile `name`: one that ships, or else a file beside `base`.
fn find(kind: &str, name: &str, base: &Path) -> Result<(std::path::PathBuf, String), String> {
    if let Some(found) = shipped(kind, name) {
        return Ok((found.name.into(), found.text.into()));
    }
    let path = base.join(name);
    match read(&path) {
        Ok(text) => Ok((path, text)),
        Err(e) => {
            Err(format!("no {kind} profile `{name}`: those that ship are {}; as a file: {e}", names(kind)))
        }
    }
}

/// The text of a file. A lab may name anything; what never ends is not read.
fn read(path: &Path) -> io::Result<String> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        let what = format!("it is no file of at most {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    fs::read_to_string(path)
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|e| FileError::toml(path, text, &e))
}

fn check(path: &Path, key: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{}: {key} of {value}: legal are {min} to {max}", path.display()))
}

fn check_version(version: u32, path: &Path) -> Result<(), String> {
    if version == 1 {
        return Ok(());
    }
    Err(format!("{}: version {version}: this riser reads version 1", path.display()))
}
