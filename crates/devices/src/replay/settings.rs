// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay is told. Plain values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Bdf;

/// When a request is sent, where its turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the link takes it.
    #[default]
    Fabric,
    /// Not before its recorded time, counted from the first request.
    Recorded,
}

/// What a request waits for, beside its turn among those of its class and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dependencies {
    /// Its tag: the last completion of the request that had the tag before.
    #[default]
    Tags,
    /// Its tag, and every transaction that had ended before it was recorded: no later one can have caused it.
    Completions,
}

/// Settings of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Who raises the interrupt at the end.
    pub id: Bdf,
    /// Vector of that interrupt; `None`: no interrupt.
    pub done_vector: Option<u16>,
    /// Play the requests of this requester alone; `None`: all that devices have issued.
    pub requester: Option<Bdf>,
    /// When requests are sent.
    pub pace: Pace,
    /// What they wait for.
    pub dependencies: Dependencies,
    /// Where the host memory begins into which recorded addresses are folded; a multiple of 4 KiB.
    pub window_base: u64,
    /// Its bytes; a power of two, 4 KiB at least.
    pub window_bytes: u64,
}
