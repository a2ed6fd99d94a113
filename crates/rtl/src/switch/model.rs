// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a switch in RTL.

use super::block::SwitchBlock;
use super::{SwitchPort, SwitchRtl};
use crate::block::BlockKind;
use crate::engine::Engine;
use crate::library::{check_given, instance_of, read_design};
use endpoint::{FrameSlot, TlpPort};
use plug::{Fault, Model, ModelKind, Plugged, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// A switch in Verilog under Verilator: `device = "rtl-switch"` of a `[[switch]]`. Its design contains `riser_switch`. `riser rtl build`
/// makes its library, whose code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["design"]))]
pub struct RtlSwitch {
    /// File of the design: a path relative to the lab file.
    pub design: String,
}

impl Model for RtlSwitch {
    const NAME: &'static str = "rtl-switch";
    const KIND: ModelKind = ModelKind::Switch;

    fn check_together(&self) -> Result<(), Fault> {
        check_given(&self.design)
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (design, path) = read_design(&self.design, site, BlockKind::Switch, "\"switch\"")?;
        let (instance, not_built) = instance_of(&design, &path, site)?;
        let engine = Engine::new(instance, design.block.user_clock_hz);
        let shape = design.shape();
        let rtl = Rc::new(RefCell::new(SwitchRtl::new(engine, SwitchBlock::new(shape))));
        let port = |link: u16| -> Box<dyn TlpPort> {
            Box::new(FrameSlot::new(SwitchPort { rtl: Rc::clone(&rtl), link: link.into() }))
        };
        let ports = (0..shape.links).map(port).collect();
        Ok(Plugged::switch(ports).warning(not_built.map(|why| why.to_string())))
    }
}
