// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TOML file becomes a running system.
//!
//! - [`schema`]: the file, key by key; [`read()`] reads and checks it; [`draw()`] draws it;
//! - [`profile`]: what hosts and devices cost, each figure with its source;
//! - [`build()`]: joins fabric, endpoints, devices and drivers; [`report`] says what happened, as text and as JSON,
//!   [`transactions`] where the time went; [`table`] lays out both;
//! - [`enumerate()`]: what the host's enumeration finds in it;
//! - [`external`]: how an outside world joins a lab, its record, and the same run again; [`Hierarchy`]: what is below a host outside;
//! - [`OneSlot`]: the same in code, for a device of your own;
//! - [`reference`](mod@reference): the pages of `docs/reference`, from the types of [`schema`] and [`profile`].
//!
//! This crate never decides anything about timing or protocol: it only joins what stands below it. It never names a model or an outside world: they register.

pub mod external;
mod link_schema;
pub mod links;
pub mod lspci;
pub mod profile;
pub mod reference;
pub mod report;
pub mod schema;
pub mod table;
pub mod transactions;

mod boot;
mod bridges;
mod build;
mod channels;
mod deferrable;
mod draw;
mod enumerated;
mod fault_schema;
mod faults;
mod hierarchy;
mod host_schema;
mod models;
mod one_slot;
mod read;
mod switch_schema;
mod tables;
mod tap;
mod tree;
mod unused;

pub use build::{Assembly, BuildOptions, build, build_with, limit};
pub use draw::draw;
pub use enumerated::{Enumerated, EnumeratedFunction, Place, enumerate, enumerate_with};
pub use hierarchy::{Hierarchy, RootPort};
pub use models::schema as file_schema;
pub use one_slot::OneSlot;
pub use plug::file::{FileError, FileErrors, Folder, KeptFiles, Overrides};
pub use read::{LabFile, Reader, parse, parse_in, parse_with, read, read_with};
pub use report::Report;
pub use tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink, way};
pub use toml::Spanned;
pub use transactions::{TransactionLogHandle, TransactionReport};
pub use tree::HOT_PLUG_BUSES;
