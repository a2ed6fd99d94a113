// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface for every outside world: a clock, inputs that join at places, their outputs, and a record that repeats
//! the run without the outside. It does not depend on a transport. `docs/external.md` lists the places.
//!
//! - [`Driver`]: [`inject`](Driver::inject) and [`drain`](Driver::drain), under one of three [`Clock`]s.
//! - [`Handle`]: access to a place; [`plug::place`] describes places.
//! - [`host`]: the place of a host above a root complex; [`tlps`]: the place of raw TLPs instead of an endpoint.
//! - [`Commands`]: changes of links by the outside during the run.
//! - [`Driver::record`], [`Recording`], [`Replay`]: the record of all inputs, and its replay.

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
pub use commands::{COMMAND_FORMS, CommandError, Commands, LINKS, LabCommand, MAX_COMMAND_BYTES};
pub use driver::{Driver, Handle};
pub use record::{RecordSize, RecordedLab};
pub use recording::{RECORD_HEAD_BYTES, RecordError, Recording, is_record};
pub use replay::{RecordEnd, Replay, ReplayError, ReplayReport, Replayed};
