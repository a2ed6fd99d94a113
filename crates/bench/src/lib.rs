// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methodology of pcie-bench (SIGCOMM'18, section 4) on a simulated fabric.
//!
//! Each row of a table is a separate lab: one link, the benchmark device and a host. The device reads and writes a
//! window of host memory. It times single transfers for latencies. For bandwidths it counts in the middle of many
//! transfers, so that the load is steady before and after.
//!
//! **Stopping rule.** As in the paper, a test is a fixed number of transfers after a warm-up that does not count. The
//! simulation adds no noise of its own, so more transfers only repeat the same pattern. [`Plan`] holds the defaults.
//!
//! [`paper`] repeats the experiments of other papers and puts the paper's own figures next to the results.
//!
//! This crate uses only the device's own measurements and the link's counters. It never reads internal state
//! of a fabric.

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
mod nic_curves;
mod nic_form;
mod pairing;
mod plan;
mod predict;
mod row;
mod settings;
mod stats;

pub use error::BenchError;
pub use nic_curves::NicCurves;
pub use plan::{DEFAULT_FRAMES, DEFAULT_SIZES, DEFAULT_WARM_UP, MAX_WARM_UP, Plan, tests_named, usual_link};
pub use plug::transfers::Test;
pub use row::{BandwidthRow, DirectionDelta, RoundTrip, Row, RowError};
pub use settings::MeasurementSettings;
pub use stats::Latencies;
