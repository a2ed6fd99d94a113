// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TOML file becomes a running system.
//!
//! - [`schema`]: the file, key by key; [`read()`] reads and checks it; [`draw()`] draws it;
//! - [`profile`]: what hosts and devices cost, each figure with its source;
//! - [`build()`]: joins fabric, endpoints, devices and drivers; [`report`] says what happened, as text and as JSON,
//!   [`transactions`] where the time went; [`table`] lays out both;
//! - [`enumerate()`]: what the host's enumeration finds in it;
//! - [`remote`]: a lab behind NetTLP's protocol, and its record;
//! - [`OneSlot`]: the same in code, for a device of your own;
//! - [`reference`](mod@reference): the pages of `docs/reference`, from the types of [`schema`] and [`profile`].
//!
//! This crate never decides anything about timing or protocol: it only joins what stands below it.

pub mod error;
mod link_schema;
pub mod links;
pub mod profile;
pub mod reference;
pub mod remote;
pub mod report;
pub mod schema;
pub mod table;
pub mod transactions;
pub mod values;

mod boot;
mod bridges;
mod build;
mod channels;
mod deferrable;
mod draw;
mod enumerated;
mod fate;
mod fault_schema;
mod faults;
mod flow_schema;
mod folder;
mod gate;
mod host_schema;
mod hotplug;
mod keys;
mod models;
mod nic_models;
mod nic_schema;
mod one_slot;
mod paper_models;
mod paper_schema;
mod read;
mod replay;
mod services;
mod setting;
mod slot_port;
mod source;
mod switch_schema;
mod tap;
mod tree;
mod unused;
mod vf_models;
mod vf_schema;

pub use build::{Assembly, build, build_with, limit};
pub use draw::draw;
pub use enumerated::{Enumerated, EnumeratedFunction, Place, enumerate};
pub use error::{FileError, FileErrors};
pub use folder::{Folder, KeptFiles, MAX_KEPT_BYTES, MAX_KEPT_FILES};
pub use one_slot::OneSlot;
pub use read::{LabFile, parse, parse_in, parse_with, read, read_with};
pub use report::Report;
pub use services::HotPlugEvent;
pub use setting::Settings;
pub use tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink};
pub use toml::Spanned;
pub use transactions::{TransactionLogHandle, TransactionReport};
