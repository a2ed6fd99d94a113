// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device as a model for labs, and its report.

use super::card::{CARDS, DeviceFile, card, card_basis};
use super::{BenchSettings, CacheState, CardPath, Pattern, Test, Window, driver, function};
use crate::{device_id, registers_of};
use plug::file::Folder;
use plug::transfers::{Offer, Workload};
use plug::{Fault, FunctionRegisters, MemoryKind, Model, Needs, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The benchmark device of pcie-bench: test and number of transfers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bench {
    /// The test.
    pub test: Test,
    /// Costs of the card in addition to the wire: the name of a shipped device profile, or the path of a device
    /// profile, relative to the lab file.
    pub profile: String,
    /// Size of each transfer in bytes. With its offset, a transfer must not cross 4 KiB.
    #[schemars(range(min = 1, max = 4096))]
    pub size_bytes: u32,
    /// Size of the window in host memory in bytes.
    #[schemars(range(min = 64, max = 1_073_741_824))]
    pub window_bytes: u64,
    /// Offset of each transfer from the start of a cache line.
    #[schemars(range(min = 0, max = 63))]
    pub host_offset_bytes: u32,
    /// Offset of each transfer from the start of a cache line, in the card's own memory.
    #[schemars(range(min = 0, max = 63))]
    pub device_offset_bytes: u32,
    /// Interface of the card.
    pub path: CardPath,
    /// State of the host's caches at the start, for the lines of the window.
    pub cache: CacheState,
    /// Order of the units.
    pub pattern: Pattern,
    /// Maximum number of transfers in flight. Default: the value of the device profile. Latency tests have one.
    #[schemars(range(min = 1, max = 1024))]
    pub outstanding: Option<u16>,
    /// Measured transfers; at most 2^24 for a latency test.
    #[schemars(range(min = 1))]
    pub transfers: u64,
    /// Transfers before the measured ones.
    pub warm_up: u64,
    /// Number of transfers that the host's caches and IOTLB have processed at the start, in addition to `cache`. Their
    /// state is as after these transfers, but no time has passed. If sequential, these transfers go to
    /// the units before the first one of the run; if random, they differ from those of the run. Without this, a large window needs a long
    /// time to reach the state in which lines leave as fast as they enter.
    #[schemars(range(max = 1_048_576))]
    pub seen_by_caches: u64,
    /// Whether TLPs carry their bytes, or the bytes are only counted.
    pub carry: bool,
    /// Memory for the window.
    pub memory: MemoryKind,
    /// Address of a window outside host memory, a multiple of 4096: for example a BAR of another function (`riser lspci` prints its
    /// address). Caches are not prepared then. Default: the driver allocates the window in host memory.
    pub address: Option<u64>,
}

impl Default for Bench {
    fn default() -> Bench {
        let of_card = BenchSettings::default();
        Bench {
            test: of_card.test,
            profile: "ideal".into(),
            size_bytes: of_card.size_bytes,
            window_bytes: of_card.window_bytes,
            host_offset_bytes: of_card.host_offset_bytes,
            device_offset_bytes: of_card.device_offset_bytes,
            path: of_card.path,
            cache: of_card.cache,
            pattern: of_card.pattern,
            outstanding: None,
            transfers: of_card.transfers,
            warm_up: of_card.warm_up,
            seen_by_caches: of_card.seen,
            carry: of_card.carry,
            memory: MemoryKind::High,
            address: None,
        }
    }
}

impl Model for Bench {
    const NAME: &'static str = "pcie-bench";
    const REGISTERS: &'static [FunctionRegisters] =
        &[registers_of(device_id::PCIE_BENCH, super::registers::NAMES)];

    const TESTS: &'static [Test] = &Test::DMA;

    /// Uses the workload's device profile, by default the ideal one.
    fn offer(workload: &Workload, folder: &Folder) -> Result<Offer, Fault> {
        let usual = Bench::default();
        let bench = Bench {
            test: workload.test,
            profile: workload.profile.clone().unwrap_or(usual.profile),
            size_bytes: workload.size_bytes,
            window_bytes: workload.window_bytes.unwrap_or(usual.window_bytes),
            host_offset_bytes: workload.host_offset_bytes.unwrap_or(usual.host_offset_bytes),
            pattern: workload.pattern.unwrap_or(usual.pattern),
            cache: workload.cache.unwrap_or(usual.cache),
            outstanding: workload.outstanding,
            transfers: workload.transfers,
            warm_up: workload.warm_up,
            memory: workload.memory.unwrap_or(usual.memory),
            ..usual
        };
        let card = card(&bench.profile, folder).map_err(|message| Fault::at("profile", message))?;
        let write = card.costs().write;
        Ok(Offer {
            device: bench.profile.clone(),
            outstanding: bench.outstanding.unwrap_or(card.outstanding.value),
            host_offset_bytes: bench.host_offset_bytes,
            pattern: bench.pattern,
            cache: bench.cache,
            basis: card_basis(&bench.profile, folder, bench.test, bench.path),
            cut_writes: Some(Box::new(move |address, size, mps| write.tlps(address, size, mps).collect())),
            ..Offer::new(bench.clone(), bench.window_bytes, bench.memory)
        })
    }

    fn needs(&self) -> Needs {
        if self.address.is_some() {
            return Needs::default();
        }
        let window = self.window();
        let (bytes, alignment) = (window.memory_bytes(), window.alignment());
        Needs { window: Some(plug::Window { memory: self.memory, bytes, alignment }), ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let card = card(&self.profile, site.folder).map_err(|message| Fault::at("profile", message))?;
        let settings = self.settings(site, &card);
        let results = Shared::default();
        let function =
            function(settings.clone(), site.pcie, site.payloads, &results).map_err(|e| e.to_string())?;
        let window = Window { address: self.address, ..Window::of(&settings, self.memory) };
        let plugged = Plugged::new(function, move |cpu, found| driver(cpu, found, window.clone()));
        let extrapolated = CARDS.extrapolated(&self.profile, site.folder, [site.pcie.rate]);
        let basis = card_basis(&self.profile, site.folder, self.test, self.path);
        let plugged = plugged.reporting(&results).measuring(&results).with_read_gaps(card.has_read_gaps());
        let plugged = plugged.with_write_line_gap(card.write_line_gap());
        Ok(plugged.warning(extrapolated).resting_on(basis))
    }

    fn check_together(&self) -> Result<(), Fault> {
        let (bytes, start) = (self.size_bytes, self.host_offset_bytes);
        if bytes + start > 4096 {
            let message =
                format!("size_bytes {bytes} at host_offset_bytes {start}, expected at most 4096 together");
            return Err(Fault::at("size_bytes", message));
        }
        let Some(address) = self.address else { return Ok(()) };
        if !address.is_multiple_of(4096) {
            return Err(Fault::at("address", format!("{address:#x}, expected a multiple of 4096")));
        }
        if (self.cache, self.seen_by_caches) != (CacheState::Cold, 0) {
            let message =
                "cache and seen_by_caches: no effect outside host memory (address), expected \"cold\" and 0";
            return Err(Fault::at("cache", message));
        }
        Ok(())
    }
}

impl Bench {
    /// Returns the window, if it is known before the model is plugged in.
    fn window(&self) -> Window {
        let Bench { window_bytes, cache, .. } = *self;
        Window::of(&BenchSettings { window_bytes, cache, ..BenchSettings::default() }, self.memory)
    }

    fn settings(&self, site: &Site<'_>, card: &DeviceFile) -> BenchSettings {
        BenchSettings {
            test: self.test,
            size_bytes: self.size_bytes,
            window_bytes: self.window_bytes,
            host_offset_bytes: self.host_offset_bytes,
            device_offset_bytes: self.device_offset_bytes,
            path: self.path,
            cache: self.cache,
            pattern: self.pattern,
            outstanding: self.outstanding.unwrap_or(card.outstanding.value),
            transfers: self.transfers,
            warm_up: self.warm_up,
            seen: self.seen_by_caches,
            carry: self.carry,
            max_payload_bytes: site.pcie.mps_supported.bytes(),
            max_read_request_bytes: site.mrrs.bytes(),
            digests: site.digests,
            costs: card.costs(),
            seed: site.seed,
        }
    }
}
