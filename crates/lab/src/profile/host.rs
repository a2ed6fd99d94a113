// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile file of a host: its figures, each with its source. `fabric` implements these properties.

use super::HOSTS;
use super::host_parts::{
    CompletionsTable, DramTable, IommuTable, LatencyRow, LlcTable, NumaTable, PowerTable, RefreshTable,
    RetrainingTable,
};
use crate::schema::Link;
use fabric::HostProfile;
use host::firmware::EcrcPolicy;
use plug::file::Folder;
use plug::profile::{Figure, ProfileError};
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes, Picoseconds, RcbBytes};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tlp::Duration;

/// Timing of a host's root complex and memory. Latencies of different requests overlap; service times are taken one request
/// after another. Tables that are left out are not modelled: every line then has the same latency.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Version of the file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// `host`.
    pub kind: HostKind,
    /// Description of the machine, in one line.
    pub description: String,
    /// Generation of the links with which the figures were measured. For links of another generation, riser reports the
    /// figures as extrapolated. Without it, the figures hold for any generation.
    #[serde(rename = "gen")]
    pub generation: Option<Figure<Gen>>,
    /// Generation of the links of the figures that `riser fit` kept from another server's profile, if it differs.
    pub kept_gen: Option<Figure<Gen>>,
    /// Lanes of these links. `riser bench` uses them, and the next two sizes, by default; labs define their own links.
    pub lanes: Option<Figure<Lanes>>,
    /// Max_Payload_Size on these links.
    pub mps_bytes: Option<Figure<MpsBytes>>,
    /// Max_Read_Request_Size on these links.
    pub mrrs_bytes: Option<Figure<MrrsBytes>>,
    /// Properties of the host that the profile is known not to predict.
    pub not_predicted: Option<String>,
    /// Latency between link and memory system, and between CPU and root port, each way.
    pub root_complex_latency_ps: Figure<Picoseconds>,
    /// From the acceptance of a read by the memory system to its data. With a cache: for lines that a device has written to
    /// it.
    pub memory_read_latency_ps: Figure<Picoseconds>,
    /// From the acceptance of a write by the memory system until a later read may be served.
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
    /// How long the host waits for a completion (`PCIe 5.0 §7.5.3.16`, ranges A to D).
    #[schemars(extend("minimum" = 50, "maximum" = 64_000_000))]
    pub completion_timeout_us: Figure<u64>,
    /// Read Completion Boundary.
    pub rcb_bytes: Figure<RcbBytes>,
    /// Maximum number of outstanding memory reads of one Traffic Class at a root port.
    #[schemars(extend("minimum" = 1, "maximum" = 65_536))]
    pub max_reads_per_port: Figure<u32>,
    /// Maximum number of outstanding non-posted requests of the host at a root port.
    #[schemars(extend("minimum" = 1, "maximum" = 256))]
    pub max_host_requests_per_port: Figure<u16>,
    /// The firmware enables ECRC generation in root ports, so that their TLPs have a digest of 4 B (lspci: `ECRCGenEn+`). Default:
    /// false.
    pub ecrc_root_ports: Option<Figure<bool>>,
    /// The same in devices. Default: false.
    pub ecrc_devices: Option<Figure<bool>>,
    /// The last-level cache.
    pub llc: Option<LlcTable>,
    /// Memory below the cache.
    pub dram: Option<DramTable>,
    /// The other socket.
    pub numa: Option<NumaTable>,
    /// The IOMMU.
    pub iommu: Option<IommuTable>,
    /// Splitting and spacing of read completions.
    pub completions: Option<CompletionsTable>,
    /// Additional latencies of some reads.
    #[serde(default)]
    pub noise: Vec<LatencyRow>,
    /// Power states of the root complex.
    #[serde(default)]
    pub power: Vec<PowerTable>,
    /// Retraining of the link under load.
    pub retraining: Option<RetrainingTable>,
}

/// Kind of a host profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// A host.
    Host,
}

/// Reads the host profile `name`: a shipped one, or a file relative to the folder `base`.
///
/// # Errors
/// There is no such profile, or it is invalid.
pub fn host(name: &str, base: &Path) -> Result<HostProfile, ProfileError> {
    host_in(name, &Folder::from(base))
}

/// Like [`host`](fn@host), for a lab in `base`.
pub(crate) fn host_in(name: &str, base: &Folder) -> Result<HostProfile, ProfileError> {
    Ok(file_in(name, base)?.profile(name))
}

/// Returns the link with which the figures of host profile `name` were measured, as far as the profile defines it.
///
/// # Errors
/// As [`host`](fn@host).
pub fn host_link(name: &str, base: &Path) -> Result<Link, ProfileError> {
    let file = file_in(name, &Folder::from(base))?;
    Ok(Link {
        generation: file.generation.as_ref().map(|figure| figure.value),
        lanes: file.lanes.as_ref().map(|figure| figure.value),
        mps_bytes: file.mps_bytes.as_ref().map(|figure| figure.value),
        mrrs_bytes: file.mrrs_bytes.as_ref().map(|figure| figure.value),
        ..Link::default()
    })
}

/// Reads the file of a profile. Shipped profiles are cached, because sweeps ask thousands of times.
fn file_in(name: &str, base: &Folder) -> Result<Arc<HostFile>, ProfileError> {
    static SHIPPED: Mutex<BTreeMap<&str, Arc<HostFile>>> = Mutex::new(BTreeMap::new());
    let known = || SHIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = known().get(name) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(HOSTS.read(name, base, HostFile::check)?);
    if let Some(shipped) = HOSTS.get(name) {
        known().insert(shipped.name, Arc::clone(&file));
    }
    Ok(file)
}

impl HostFile {
    fn check(&self, path: &Path) -> Result<(), ProfileError> {
        self.llc.as_ref().map_or(Ok(()), |llc| llc.check(path))?;
        let refresh = self.dram.as_ref().and_then(|dram| dram.refresh.as_ref());
        refresh.map_or(Ok(()), |refresh: &RefreshTable| refresh.check(path))?;
        self.iommu.as_ref().map_or(Ok(()), |iommu| iommu.check(path))?;
        LatencyRow::check_all(path, "noise", &self.noise)?;
        PowerTable::check_all(path, "power", &self.power)
    }

    fn profile(&self, name: &str) -> HostProfile {
        let ps = |f: &Figure<Picoseconds>| Duration::from_ps(f.value.0);
        HostProfile {
            name: name.into(),
            root_complex_latency: ps(&self.root_complex_latency_ps),
            memory_read_latency: ps(&self.memory_read_latency_ps),
            memory_write_latency: ps(&self.memory_write_latency_ps),
            read_request_service: ps(&self.read_request_service_ps),
            read_line_service: ps(&self.read_line_service_ps),
            write_request_service: ps(&self.write_request_service_ps),
            write_line_service: ps(&self.write_line_service_ps),
            interrupt_latency: ps(&self.interrupt_latency_ps),
            completion_timeout: Duration::from_us(self.completion_timeout_us.value),
            rcb: self.rcb_bytes.value.0,
            max_reads_per_port: self.max_reads_per_port.value,
            max_host_requests_per_port: self.max_host_requests_per_port.value,
            llc: self.llc.as_ref().map(LlcTable::profile),
            dram: self.dram.as_ref().map(DramTable::profile),
            numa: self.numa.as_ref().map(NumaTable::profile),
            iommu: self.iommu.as_ref().map(IommuTable::profile),
            completions: self.completions.as_ref().map(CompletionsTable::profile).unwrap_or_default(),
            noise: LatencyRow::profiles(&self.noise),
            power: self.power.iter().map(PowerTable::profile).collect(),
            retraining: self.retraining.as_ref().map(RetrainingTable::profile),
            ecrc: EcrcPolicy {
                root_ports: self.ecrc_root_ports.as_ref().is_some_and(|figure| figure.value),
                devices: self.ecrc_devices.as_ref().is_some_and(|figure| figure.value),
            },
            settings: fabric::profile::HostSettings::default(),
        }
    }
}
