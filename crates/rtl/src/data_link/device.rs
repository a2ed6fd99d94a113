// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a whole device in RTL, from its configuration space to the frames of its link.

use super::DataLinkRtl;
use super::block::FrameBlock;
use crate::block::BlockKind;
use crate::findings::DesignStatus;
use crate::library::{check_given, instance_of, read_design};
use endpoint::FrameSlot;
use link::PortConfig;
use plug::{Fault, Model, Needs, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device in Verilog with its own configuration space, transaction layer and data link layer, under Verilator. Its design contains
/// `riser_link_frames`, of which it uses the side with frames. `riser rtl build` makes its library, whose code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["design"]))]
pub struct RtlEndpoint {
    /// File of the design: a path relative to the lab file. Its table `function` has the BARs and vectors that `step` may use.
    pub design: String,
    /// Actions of the host on the device, in order.
    pub step: Vec<native::Step>,
}

impl Model for RtlEndpoint {
    const NAME: &'static str = "rtl-endpoint";

    fn needs(&self) -> Needs {
        Needs { own_link: true, ..Needs::default() }
    }

    fn check_together(&self) -> Result<(), Fault> {
        check_given(&self.design)
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (design, path) =
            read_design(&self.design, site, BlockKind::LinkFrames, "\"link-frames\", the frames of a link")?;
        native::check_steps(&self.step, native::Parts::one(&design.function.bars, design.vectors()))?;
        let (instance, not_built) = instance_of(&design, &path, site)?;
        let config = PortConfig::new(site.pcie.rate, site.pcie.width, site.mps);
        let block = FrameBlock::new(design.shape(), config);
        let port = FrameSlot::new(DataLinkRtl::new(instance, design.block.user_clock_hz, block));
        let status = Shared::new(DesignStatus::denying(false));
        let plugged = Plugged::block(port, native::driver(&self.step, &status));
        Ok(plugged.warning(not_built.map(|why| why.to_string())))
    }
}
