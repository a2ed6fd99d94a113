// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a lab says of a design in a slot: the file of the design, whose library `riser rtl build` has made.

use crate::build;
use crate::clocks::Clocks;
use crate::design::{self, Design};
use crate::findings::Told;
use crate::loader::{Instance, Loaded};
use crate::recording::Recorder;
use crate::seven_series::SevenSeries;
use crate::slot::Rtl;
use config::{Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout};
use endpoint::{EndpointLimits, HardBlock};
use plug::site::NativeCode;
use plug::{Fault, Model, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A design in Verilog with a vendor's PCI Express block, under Verilator: `riser rtl build` makes its library. Its code runs with
/// `--allow-native` alone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The file of the design: a path relative to the lab file.
    pub design: String,
    /// A file for all of its signals (FST), which needs `riser rtl build --waves`.
    pub waves: String,
    /// What the host does with it, one behind the other.
    pub step: Vec<native::Step>,
}

impl Model for Settings {
    const NAME: &'static str = "rtl";

    fn check_together(&self) -> Result<(), Fault> {
        if self.design.is_empty() {
            return Err(Fault::at("design", "design is missing: the path of a design's file"));
        }
        Ok(())
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let at = |message: String| Fault::at("design", message);
        let path = site.folder.path().join(&self.design);
        let design = Design::read(&path).map_err(|e| at(e.to_string()))?;
        let vectors = design.vectors();
        native::check_steps(&self.step, native::Parts { bars: &design.function.bars, vectors })?;
        let told: Shared<Told> = Shared::default();
        let config = config(&design, site)?;
        let limits = EndpointLimits { max_outstanding_reads: site.tags, ..EndpointLimits::default() };
        let pool = site.payloads.clone();
        let instance = match site.native {
            NativeCode::Allowed => Some(self.instance(&path, &design, site.seed)?),
            NativeCode::NotLoaded => None,
            NativeCode::Refused => {
                let why = "a lab that runs a design is run with --allow-native alone";
                return Err(at(format!("{}: {why}", path.display())));
            }
        };
        let latency = design.block.latency_cycles;
        let block = SevenSeries::new(design.shape(), latency, pool.clone(), told.clone());
        let clocks = Clocks::new(&design.frequencies());
        let (instance, recorder) = instance.unzip();
        let rtl = Rtl::new(instance, clocks, block, told.clone()).recorded(recorder.flatten());
        let block = HardBlock::new("rtl", vec![config], limits, pool, rtl).map_err(|e| at(e.to_string()))?;
        let driver = native::driver(&self.step, &told);
        Ok(Plugged::block(block, driver).reporting(&told))
    }
}

impl Settings {
    fn instance(&self, path: &Path, design: &Design, seed: u64) -> Result<Loading, Fault> {
        let at = |message: String| Fault::at("design", message);
        let library = build::library(&design::folder(path), !self.waves.is_empty());
        let library = library.canonicalize().unwrap_or(library);
        let loaded = Loaded::open(&library, &build::fingerprint(design)).map_err(|e| at(e.to_string()))?;
        let base = path.parent().unwrap_or(Path::new("."));
        let folder = design.includes.first().map_or_else(|| base.to_owned(), |include| base.join(include));
        let made = in_folder(&folder, || Instance::create(&loaded, seed));
        let mut instance =
            made.map_err(|e| at(format!("{}: {e}", folder.display())))?.map_err(|e| at(e.to_string()))?;
        if !self.waves.is_empty() {
            let waves = base.join(&self.waves);
            instance.waves(&waves).map_err(|e| Fault::at("waves", format!("{}: {e}", waves.display())))?;
        }
        Ok((instance, Recorder::take(&loaded, seed, folder)))
    }
}

/// A design, and who records it.
type Loading = (Instance, Option<Shared<Recorder>>);

/// Does this in a folder: a design reads its files there.
pub(crate) fn in_folder<T>(folder: &Path, work: impl FnOnce() -> T) -> std::io::Result<T> {
    let before = std::env::current_dir()?;
    std::env::set_current_dir(if folder == Path::new("") { Path::new(".") } else { folder })?;
    let done = work();
    std::env::set_current_dir(before)?;
    Ok(done)
}

fn config(design: &Design, site: &Site<'_>) -> Result<ConfigSpace, Fault> {
    let function = &design.function;
    let mut builder = Builder::type0(Identity {
        vendor: function.vendor_id,
        device: function.device_id,
        revision: function.revision,
        class: function.class,
        subsystem_vendor: function.subsystem_vendor_id,
        subsystem: function.subsystem_id,
    });
    for bar in &function.bars {
        builder = bar.add_to(builder);
    }
    if function.intx {
        builder = builder.interrupt_pin(1);
    }
    if function.msi_vectors > 0 {
        builder = builder.msi(MsiLayout { vectors: function.msi_vectors });
    }
    if let Some(msix) = &function.msix {
        let (table, pending) = ((msix.bar, msix.table), (msix.bar, msix.pending));
        builder = builder.msix(MsixLayout { vectors: msix.vectors, table, pending });
    }
    let pcie = PcieLayout { function_level_reset: function.function_level_reset, ..site.pcie };
    builder.pcie(pcie).usual().build().map_err(|e| Fault::at("design", format!("function: {e}")))
}
