// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a data link layer in RTL.

use super::DataLinkRtl;
use super::block::FrameBlock;
use crate::block::BlockKind;
use crate::library::{check_given, instance_of, read_design};
use endpoint::{FrameSlot, Joined};
use plug::{Fault, Model, Plugged, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        check_given(&self.design)
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (design, path) =
            read_design(&self.design, site, BlockKind::LinkFrames, "\"link-frames\", a data link layer")?;
        let (instance, not_built) = instance_of(&design, &path, site)?;
        let (shape, hz) = (design.shape(), design.block.user_clock_hz);
        let plugged = Plugged::data_link(move |device, config| {
            let link = DataLinkRtl::new(instance, hz, FrameBlock::new(shape, config));
            Box::new(FrameSlot::new(Joined::new(link, device)))
        });
        Ok(plugged.warning(not_built.map(|why| why.to_string())))
    }
}
