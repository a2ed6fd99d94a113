// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a root complex in RTL.

use super::block::RootBlock;
use super::software::Software;
use super::{Bus, RootPort, RootRtl};
use crate::block::BlockKind;
use crate::engine::Engine;
use crate::library::{check_given, instance_of, read_design};
use endpoint::{FrameSlot, LinkHolds};
use host::HostProgram;
use host::firmware::Window;
use plug::plugged::RootComplexEnd;
use plug::{Fault, Model, ModelKind, Plugged, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Duration, Time};

/// Addresses of device memory that the design must decode.
const MEMORY32: Window = Window { base: 0xc000_0000, size: 0x2000_0000 };
const MEMORY64: Window = Window { base: 0xe0_0000_0000, size: 0x10_0000_0000 };

/// A root complex in Verilog with one root port, under Verilator: `root_complex = "rtl-root-complex"`. Its design contains
/// `riser_root_complex`. `riser rtl build` makes its library, whose code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["design"]))]
pub struct RtlRootComplex {
    /// File of the design: a path relative to the lab file.
    pub design: String,
    /// Time from a burst of the root complex to memory's answer, in nanoseconds.
    #[schemars(range(min = 0, max = 100_000))]
    pub memory_latency_ns: u32,
    /// Time without a handshake after which an access of the host fails and the bus is given up, in microseconds.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub access_timeout_us: u32,
    /// True if the CPU, its memory and its software are in the design. Then the host runs no firmware and no drivers, and the run ends when
    /// the design sets `software_ended`, with an error if `software_status` is not 0.
    pub software: bool,
}

impl Default for RtlRootComplex {
    /// The root complex of `rtl/pcie_stack` gives up a request after 20 ms.
    fn default() -> RtlRootComplex {
        RtlRootComplex {
            design: String::new(),
            memory_latency_ns: 100,
            access_timeout_us: 50_000,
            software: false,
        }
    }
}

impl Model for RtlRootComplex {
    const NAME: &'static str = "rtl-root-complex";
    const KIND: ModelKind = ModelKind::RootComplex;

    fn check_together(&self) -> Result<(), Fault> {
        check_given(&self.design)
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (design, path) = read_design(&self.design, site, BlockKind::RootComplex, "\"root-complex\"")?;
        let (instance, not_built) = instance_of(&design, &path, site)?;
        let engine = Engine::new(instance, design.block.user_clock_hz);
        let latency = engine.cycles(Duration::from_ns(self.memory_latency_ns.into()));
        let most_cycles = engine.cycles(Duration::from_us(self.access_timeout_us.into()));
        let block = RootBlock::new(design.shape(), latency, most_cycles, self.software);
        let (recovery_until, holds) = (Time::ZERO, LinkHolds::default());
        let rtl = Rc::new(RefCell::new(RootRtl { engine, block, recovery_until, holds }));
        let end = RootComplexEnd {
            frames: Box::new(FrameSlot::new(RootPort(Rc::clone(&rtl)))),
            bus: Box::new(Bus(Rc::clone(&rtl))),
            software: self.software.then(|| Box::new(Software::new(rtl)) as Box<dyn HostProgram>),
            memory32: MEMORY32,
            memory64: MEMORY64,
        };
        Ok(Plugged::root_complex(end).warning(not_built.map(|why| why.to_string())))
    }
}
