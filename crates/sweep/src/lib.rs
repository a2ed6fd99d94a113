// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps: simulations of a lab over ranges of its settings.
//!
//! - [`Sweep`]: a sweep file with its lab, read once; its points by number, and [`Sweep::run`] for one of them;
//! - [`RunningSweep`]: a running sweep: hands out points, collects records, manages rounds of successive halving; any scheduler can drive it;
//! - [`journal`]: the file that records are appended to, so that an interrupted sweep can continue;
//! - [`pool`]: workers on this machine, each a process that runs [`worker`];
//! - [`results`]: the records as columns, and as one Parquet file; [`Summary`]: a short form of the result;
//! - [`figures`]: the data of the [`page`];
//! - [`schema`]: the sweep file, key by key.
//!
//! ```
//! # use plug::site::NativeCode;
//! # use riser_sweep::{RunningSweep, Sweep, TextFile};
//! let lab = "version = 1\n[[slot]]\nname = 'nic'\ndevice = 'simple-nic'\n[slot.simple-nic]\npings = 1\n";
//! let file = "version = 1\nlab = 'ping.toml'\n[over]\n'link.gen' = [3, 4]\n[metrics]\nhops = 'tlp_hops'\n";
//! let text = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
//! let lab = text("ping.toml", lab);
//! let sweep = Sweep::parse(&devices::models(), text("s.toml", file), Some(lab), NativeCode::Refused)?;
//! let mut run = RunningSweep::begin(&sweep, None)?;
//! while !run.is_done() {
//!     let records = run.next_chunk(8).iter().map(|point| sweep.run(point).record).collect();
//!     run.accept(records)?;
//! }
//! assert_eq!(run.record_of(1).unwrap().metrics.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not depend on the meaning of a lab: it sets keys, runs the lab, and reads the report. This crate
//! never runs a point that has a record.

mod axis;
mod expr;
pub mod figures;
mod file;
pub mod journal;
mod metric;
mod pace;
mod packed;
pub mod page;
pub mod pool;
mod ranking;
mod record;
pub mod reference;
pub mod results;
mod rounds;
mod run;
mod sample;
pub mod schema;
mod sobol;
mod source;
mod summary;
mod sweep;
mod value;
pub mod worker;

pub use journal::{JournalError, Start};
pub use metric::Metric;
pub use pace::Pace;
pub use packed::TextFile;
pub use ranking::front;
pub use record::{Outcome, Point, Record};
pub use rounds::Round;
pub use run::{Progress, RunError, RunningSweep};
pub use summary::Summary;
pub use sweep::{Ran, Sweep};
pub use value::Value;
