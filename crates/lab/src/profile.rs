// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles: what hosts and devices cost, as TOML files in which every figure has a unit and a source.

mod device;
mod extrapolation;
mod host;
mod host_parts;

pub(crate) use device::device_in;
pub(crate) use host::host_in;

pub use extrapolation::{extrapolated, warnings};

pub use device::{DeviceFile, DeviceKind, device};
pub use host::{HostFile, HostKind, host, host_link};
pub use host_parts::{
    BanksTable, CompletionsTable, DramTable, IommuTable, LatencyRow, LlcTable, NumaTable, PageWalkCacheTable,
    PowerTable, ReplacementName,
};

use crate::error::FileErrors;
use crate::folder::Folder;
use crate::setting::Settings;
use crate::source::Source;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;
use std::path::Path;

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

/// One that ships, from the folder of its kind.
macro_rules! ships {
    ($kind:literal, $folder:literal, $name:literal) => {
        Shipped {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../profiles/", $folder, "/", $name, ".toml")),
        }
    };
}

/// All profiles that ship, by kind and name.
pub const SHIPPED: &[Shipped] = &[
    ships!("host", "hosts", "ideal"),
    ships!("host", "hosts", "xeon-e5-2637v3"),
    ships!("host", "hosts", "xeon-e5-2630v4"),
    ships!("host", "hosts", "xeon-e5-2620v3"),
    ships!("host", "hosts", "xeon-e5-2620v2"),
    ships!("host", "hosts", "xeon-e5-2630"),
    ships!("host", "hosts", "xeon-e3-1226v3"),
    ships!("host", "hosts", "xeon-gold-6342"),
    ships!("host", "hosts", "xeon-platinum-8480"),
    ships!("host", "hosts", "gem5"),
    ships!("host", "hosts", "chipyard"),
    ships!("device", "devices", "ideal"),
    ships!("device", "devices", "nfp6000"),
    ships!("device", "devices", "netfpga-sume"),
    ships!("device", "devices", "h100"),
];

/// What a profile says of itself.
#[derive(Deserialize)]
struct Head {
    description: String,
    not_predicted: Option<String>,
}

impl Shipped {
    /// Its own line on what it is.
    #[must_use]
    pub fn description(&self) -> String {
        self.head().map_or_else(|e| e.to_string(), |head| head.description)
    }

    /// Its own line on what it is known not to predict.
    #[must_use]
    pub fn not_predicted(&self) -> Option<String> {
        self.head().ok()?.not_predicted
    }

    fn head(&self) -> Result<Head, toml::de::Error> {
        toml::from_str(self.text)
    }
}

/// The profile of `kind` that ships as `name`.
#[must_use]
pub fn shipped(kind: &str, name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|s| s.kind == kind && s.name == name)
}

/// What ships of `kind`, as errors list it.
#[must_use]
pub fn names(kind: &str) -> String {
    let names: Vec<&str> = SHIPPED.iter().filter(|s| s.kind == kind).map(|s| s.name).collect();
    names.join(", ")
}

/// Text of the profile `name`: one that ships, or else a file beside `base`.
///
/// # Errors
/// Neither ships nor can be read.
pub fn text(kind: &str, name: &str, base: &Path) -> Result<String, String> {
    find(kind, name, &Folder::from(base)).map(|(_, text)| text)
}

/// The same with the place that errors name.
fn find(kind: &str, name: &str, base: &Folder) -> Result<(std::path::PathBuf, String), String> {
    if let Some(found) = shipped(kind, name) {
        return Ok((found.name.into(), found.text.into()));
    }
    let path = base.path().join(name);
    match read(base, name) {
        Ok(text) => Ok((path, text)),
        Err(e) => {
            // Whose folder it was looked for in is not to be guessed.
            let whole = std::path::absolute(&path).unwrap_or(path);
            let (ship, whole) = (names(kind), whole.display());
            Err(format!("no {kind} profile `{name}`: those that ship are {ship}; as a file: {whole}: {e}"))
        }
    }
}

fn read(base: &Folder, name: &str) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(base.read(name, MAX_FILE_BYTES)?).map_err(not_text)
}

fn parse<T>(path: &Path, text: &str) -> Result<T, FileErrors>
where
    T: for<'de> Deserialize<'de> + JsonSchema,
{
    let settings = Settings::default();
    let source = Source { path, text, settings: &settings };
    source.parse().map(|parsed| parsed.value).map_err(|unread| unread.errors)
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
