// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a replay. Plain values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Bdf;

/// Time at which a request is sent, after the earlier requests of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the link accepts it.
    #[default]
    Fabric,
    /// Not before its recorded time, counted from the first request.
    Recorded,
}

/// Condition for sending a request, in addition to its order in its class and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dependencies {
    /// The tag is free: the last completion of the previous request with that tag has arrived.
    #[default]
    Tags,
    /// The tag, and every transaction that had ended before the request was recorded, because only these can have
    /// caused it.
    Completions,
}

/// Settings of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplaySettings {
    /// Requester ID of the interrupt at the end.
    pub id: Bdf,
    /// Vector of that interrupt; `None` for no interrupt.
    pub done_vector: Option<u16>,
    /// Replay only the requests of this requester; `None` for requests of all devices.
    pub requester: Option<Bdf>,
    /// When to send requests.
    pub pace: Pace,
    /// Conditions for sending requests.
    pub dependencies: Dependencies,
    /// Start of the host memory into which recorded addresses are folded; a multiple of 4 KiB.
    pub window_base: u64,
    /// Size of that memory in bytes; a power of two, at least 4 KiB.
    pub window_bytes: u64,
}
