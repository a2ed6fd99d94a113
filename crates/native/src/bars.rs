// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BARs of a native device, as a lab describes them.

use config::{Bar, Builder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BarSettings {
    /// Number of the BAR; a 64-bit BAR also takes the next number.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// Kind of the BAR.
    pub kind: BarKind,
    /// Size in bytes: a power of two, at most 256 for I/O.
    #[schemars(range(min = 128, max = 268_435_456), extend("powerOfTwo" = true))]
    pub size_bytes: u64,
}

/// Kind of a BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BarKind {
    /// 32-bit memory.
    Memory32,
    /// 64-bit memory.
    Memory64,
    /// I/O.
    Io,
}

impl BarSettings {
    /// Returns the BAR's layout in configuration space.
    pub fn layout(&self) -> Bar {
        match self.kind {
            BarKind::Memory32 => Bar::memory32(self.size_bytes),
            BarKind::Memory64 => Bar::memory64(self.size_bytes),
            BarKind::Io => Bar::io(self.size_bytes),
        }
    }

    /// Adds the BAR to a configuration space.
    pub fn add_to(&self, builder: Builder) -> Builder {
        builder.bar(self.bar, self.layout())
    }
}

impl Default for BarSettings {
    fn default() -> BarSettings {
        BarSettings { bar: 0, kind: BarKind::Memory32, size_bytes: 4096 }
    }
}
