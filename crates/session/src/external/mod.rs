// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One way in for every outside world: a clock, inputs that join at places, what leaves them, and a record that repeats
//! the run without the outside. It knows no transport; `docs/external.md` names the places.
//!
//! - [`Driver`]: [`inject`](Driver::inject), [`drain`](Driver::drain), under one of three [`Clock`]s;
//! - [`Door`]: where somebody joins; [`plug::place`] says what is there;
//! - [`host`]: the place of a host above a root complex; [`tlps`]: that of raw TLPs in place of an endpoint;
//! - [`Commands`]: what somebody outside does to links while the lab runs;
//! - [`Driver::record`], [`Recording`], [`Replay`]: the record of all inputs, and the same run again.

pub mod bytes;
mod clock;
mod commands;
pub(crate) mod driver;
pub mod host;
pub(crate) mod journal;
mod old;
mod record;
mod recording;
mod replay;
pub mod tlps;

pub use clock::{Clock, Lag, SLICE_EVENTS};
pub use commands::{COMMAND_FORMS, Commands, LINKS, LabCommand, MAX_COMMAND_BYTES};
pub use driver::{Door, Driver};
pub use record::{RecordSize, RecordedLab};
pub use recording::{RECORD_HEAD_BYTES, RecordError, Recording, is_record};
pub use replay::{RecordEnd, Replay, ReplayError, Replayed};
