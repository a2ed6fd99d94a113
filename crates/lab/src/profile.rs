// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles: what hosts and devices cost, as TOML files in which every figure has a unit and a source.

use crate::error::FileError;
use crate::values::{Picoseconds, RcbBytes};
use fabric::HostProfile;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::{fs, io};
use tlp::Duration;

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

/// What the root complex and the memory of a host cost. A latency is a delay that requests share, a service time one that
/// they take turns at.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Version of the file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// `host`.
    pub kind: HostKind,
    /// What machine this is, in a line.
    pub description: String,
    /// Between link and memory system, and between CPU and root port, each way.
    pub root_complex_latency_ps: Figure<Picoseconds>,
    /// From the memory system's acceptance of a read to its data.
    pub memory_read_latency_ps: Figure<Picoseconds>,
    /// From the memory system's acceptance of a write until a read behind it may be served.
    pub memory_write_latency_ps: Figure<Picoseconds>,
    /// Service time of a read request.
    pub read_request_service_ps: Figure<Picoseconds>,
    /// Service time of each 64 B line that a read touches.
    pub read_line_service_ps: Figure<Picoseconds>,
    /// Service time of a write request.
    pub write_request_service_ps: Figure<Picoseconds>,
    /// Service time of each 64 B line that a write touches.
    pub write_line_service_ps: Figure<Picoseconds>,
    /// From the arrival of an interrupt message to the program that waits for it.
    pub interrupt_latency_ps: Figure<Picoseconds>,
    /// How long the host waits for a completion.
    pub completion_timeout_us: Figure<u64>,
    /// Read Completion Boundary.
    pub rcb_bytes: Figure<RcbBytes>,
    /// Reads of one Traffic Class that a root port has under way in the memory system at most.
    pub max_reads_per_port: Figure<u32>,
    /// Non-posted requests of the host under way at one root port at most.
    pub max_host_requests_per_port: Figure<u16>,
}

/// The kind of a host profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// A host.
    Host,
}

/// A device profile: what the engine of a benchmark card costs beside the wire.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Version of the file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// `device`.
    pub kind: DeviceKind,
    /// What card this is, in a line.
    pub description: String,
    /// From the start of a transfer to its first TLP.
    pub issue_latency_ps: Figure<Picoseconds>,
    /// From the last TLP of a transfer to the notice that it is done.
    pub done_latency_ps: Figure<Picoseconds>,
    /// Service time of a transfer in the engine, by turns.
    pub transfer_service_ps: Figure<Picoseconds>,
    /// Transfers under way at most in bandwidth tests.
    pub outstanding: Figure<u16>,
}

/// The kind of a device profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A device.
    Device,
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
    Shipped { name: "gem5", kind: "host", text: include_str!("../profiles/hosts/gem5.toml") },
    Shipped { name: "chipyard", kind: "host", text: include_str!("../profiles/hosts/chipyard.toml") },
    Shipped { name: "ideal", kind: "device", text: include_str!("../profiles/devices/ideal.toml") },
    Shipped { name: "nfp6000", kind: "device", text: include_str!("../profiles/devices/nfp6000.toml") },
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

/// Reads the host profile `name`: one that ships, or a file relative to the folder `base`.
///
/// # Errors
/// A line that says what is missing or wrong, and what there is.
pub fn host(name: &str, base: &Path) -> Result<HostProfile, String> {
    let (path, text) = find("host", name, base)?;
    let file: HostFile = parse(&path, &text).map_err(|e| e.to_string())?;
    check_version(file.version, &path)?;
    // `PCIe 5.0 §7.5.3.16`: ranges A to D.
    check(&path, "completion_timeout_us", file.completion_timeout_us.value, 50, 64_000_000)?;
    check(&path, "max_reads_per_port", file.max_reads_per_port.value.into(), 1, 65_536)?;
    check(&path, "max_host_requests_per_port", file.max_host_requests_per_port.value.into(), 1, 256)?;
    let ps = |f: &Figure<Picoseconds>| Duration::from_ps(f.value.0);
    Ok(HostProfile {
        name: name.into(),
        root_complex_latency: ps(&file.root_complex_latency_ps),
        memory_read_latency: ps(&file.memory_read_latency_ps),
        memory_write_latency: ps(&file.memory_write_latency_ps),
        read_request_service: ps(&file.read_request_service_ps),
        read_line_service: ps(&file.read_line_service_ps),
        write_request_service: ps(&file.write_request_service_ps),
        write_line_service: ps(&file.write_line_service_ps),
        interrupt_latency: ps(&file.interrupt_latency_ps),
        completion_timeout: Duration::from_us(file.completion_timeout_us.value),
        rcb: file.rcb_bytes.value.0,
        max_reads_per_port: file.max_reads_per_port.value,
        max_host_requests_per_port: file.max_host_requests_per_port.value,
    })
}

/// Reads the device profile `name`: one that ships, or a file relative to the folder `base`.
///
/// # Errors
/// A line that says what is missing or wrong, and what there is.
pub fn device(name: &str, base: &Path) -> Result<DeviceFile, String> {
    let (path, text) = find("device", name, base)?;
    let file: DeviceFile = parse(&path, &text).map_err(|e| e.to_string())?;
    check_version(file.version, &path)?;
    check(
        &path,
        "outstanding",
        file.outstanding.value.into(),
        1,
        devices::pcie_bench::MAX_OUTSTANDING.into(),
    )?;
    Ok(file)
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
