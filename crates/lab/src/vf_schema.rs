// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of the device with virtual functions. Plain data, as [`schema`](crate::schema), where the other keys are.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A value that no file has said.
fn unsaid<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// A DMA engine with descriptor rings behind a physical function and virtual ones (ReConFig'15). The host enables all
/// virtual functions and runs a driver for each function, all side by side; each moves as much data in both directions,
/// and every byte is checked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DmaEngine {
    /// Virtual functions.
    #[schemars(with = "u16", range(min = 0, max = 256))]
    pub vfs: Spanned<u16>,
    /// Transfers of each function in each direction.
    #[schemars(with = "u32", range(min = 1, max = 10_000_000))]
    pub transfers: Spanned<u32>,
    /// Bytes of each transfer: a multiple of 8.
    #[schemars(with = "u32", range(min = 8, max = 1_048_576))]
    pub size_bytes: Spanned<u32>,
    /// Descriptors of each ring, and buffers: a power of two.
    #[schemars(with = "u32", range(min = 1, max = 4096))]
    pub ring_entries: Spanned<u32>,
    /// Reads of data that the engine has under way at most, for all functions.
    #[schemars(with = "u16", range(min = 1, max = 1024))]
    pub window: Spanned<u16>,
}

impl Default for DmaEngine {
    fn default() -> DmaEngine {
        DmaEngine {
            vfs: unsaid(1),
            transfers: unsaid(256),
            size_bytes: unsaid(4096),
            ring_entries: unsaid(16),
            window: unsaid(32),
        }
    }
}
