// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methodology of pcie-bench (SIGCOMM'18, section 4) on a simulated fabric.
//!
//! Each row of a table is a lab of its own: one link, the benchmark device, a host. The device reads and writes a window
//! of host memory; latencies are taken by the device around one transfer at a time, bandwidths over a window in the
//! middle of many, with the load going on before and behind it.
//!
//! **Stopping rule.** As in the paper, a test is a fixed number of transfers, after a warm-up that does not count. The
//! simulation has no noise of its own, so what more transfers would add is only more of the same units; the defaults are
//! in [`Plan`].
//!
//! [`paper`] runs the experiments of other papers anew, each beside the paper's own figures.
//!
//! This crate never looks into a fabric: what it reports are the device's own measurements and the link's counters.

pub mod ask;
pub mod compare;
pub mod configurations;
pub mod experiments;
pub mod fidelity;
pub mod figures;
pub mod fit;
pub mod in_flight;
pub mod packet_devices;
pub mod paper;
pub mod results;
pub mod score;
pub mod suite;

mod basis;
mod error;
mod jobs;
mod pairing;
mod plan;
mod predict;
mod row;
mod stats;

pub use error::BenchError;
pub use plan::{DEFAULT_SIZES, DEFAULT_WARM_UP, MAX_WARM_UP, Plan, tests_named, usual_link};
pub use plug::transfers::Test;
pub use row::{BandwidthRow, DirectionDelta, Row, RowError};
pub use stats::Latencies;
