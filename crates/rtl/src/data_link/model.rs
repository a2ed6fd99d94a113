// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a data link layer in RTL.

use super::DataLinkRtl;
use super::block::FrameBlock;
use crate::block::BlockKind;
use crate::build;
use crate::design::{self, Design};
use crate::loader::in_folder;
use crate::loader::{Instance, LoadError, Loaded};
use crate::model::check_link;
use endpoint::{FrameSlot, Joined};
use plug::site::NativeCode;
use plug::{Fault, Model, Plugged, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Loads the library of the design in the file `path`, if it may run. Otherwise returns why it could not be loaded.
pub(crate) fn instance_of(
    design: &Design,
    path: &Path,
    site: &Site<'_>,
) -> Result<(Option<Instance>, Option<LoadError>), Fault> {
    let at = |message: String| Fault::at("design", message);
    let library = build::library(&design::folder(path), false);
    let base = path.parent().unwrap_or(Path::new(""));
    let fingerprint = build::fingerprint(design, base).map_err(|e| at(e.to_string()))?;
    match site.native {
        NativeCode::Allowed => {
            let loaded = Loaded::open(&library, &fingerprint).map_err(|e| at(e.to_string()))?;
            let folder = design.working_folder(base);
            let made = in_folder(&folder, || Instance::create(&loaded, site.seed));
            let made = made.map_err(|e| at(format!("{}: {e}", folder.display())))?;
            Ok((Some(made.map_err(|e| at(e.to_string()))?), None))
        }
        NativeCode::NotLoaded => Ok((None, Loaded::look(&library, &fingerprint).err())),
        NativeCode::Refused => {
            Err(at(format!("{}: a lab with a design needs --allow-native", path.display())))
        }
    }
}

/// A data link layer in Verilog below the device of a slot, under Verilator: `data_link = "rtl-link"`. Its design contains
/// `riser_link_frames`. `riser rtl build` makes its library, whose code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["design"]))]
pub struct RtlLink {
    /// File of the design: a path relative to the lab file.
    pub design: String,
}

impl Model for RtlLink {
    const NAME: &'static str = "rtl-link";

    fn check_together(&self) -> Result<(), Fault> {
        match self.design.is_empty() {
            true => Err(Fault::at("design", "design is missing; expected the path of a design's file")),
            false => Ok(()),
        }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let at = |message: String| Fault::at("design", message);
        let path = site.folder.path().join(&self.design);
        let design = Design::read(&path).map_err(|e| at(e.to_string()))?;
        if design.block.kind != BlockKind::LinkFrames {
            return Err(at(format!(
                "{}: block.kind of another kind; expected \"link-frames\", a data link layer",
                path.display()
            )));
        }
        check_link(&design, site)?;
        let (instance, not_built) = instance_of(&design, &path, site)?;
        let (shape, hz) = (design.shape(), design.block.user_clock_hz);
        let plugged = Plugged::data_link(move |device, config| {
            let link = DataLinkRtl::new(instance, hz, FrameBlock::new(shape, config));
            Box::new(FrameSlot::new(Joined::new(link, device)))
        });
        Ok(plugged.warning(not_built.map(|why| why.to_string())))
    }
}
