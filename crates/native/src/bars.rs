// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The BARs of a device in C, as a lab describes them.

use config::{Bar, Builder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BarSettings {
    /// Its number; one of 64 bits takes the next too.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// What it is.
    pub kind: BarKind,
    /// Its bytes: a power of two; of I/O at most 256.
    #[schemars(range(min = 128, max = 268_435_456), extend("powerOfTwo" = true))]
    pub size_bytes: u64,
}

/// What a BAR is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BarKind {
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere.
    Memory64,
    /// I/O.
    Io,
}

impl BarSettings {
    /// As a configuration space has it.
    pub fn layout(&self) -> Bar {
        match self.kind {
            BarKind::Memory32 => Bar::memory32(self.size_bytes),
            BarKind::Memory64 => Bar::memory64(self.size_bytes),
            BarKind::Io => Bar::io(self.size_bytes),
        }
    }

    /// A configuration space with it.
    pub fn add_to(&self, builder: Builder) -> Builder {
        builder.bar(self.bar, self.layout())
    }
}

impl Default for BarSettings {
    fn default() -> BarSettings {
        BarSettings { bar: 0, kind: BarKind::Memory32, size_bytes: 4096 }
    }
}
