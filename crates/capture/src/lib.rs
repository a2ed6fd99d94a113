// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLP captures: in and out, decoded, matched, counted, rendered.
//!
//! - [`open`], [`reader`]: pcap and pcapng to frames. - [`writer`]: TLPs and DLLPs to pcapng.
//! - [`encap`]: Ethernet, IPv4, UDP and the NetTLP header, both ways. - [`decode`]: a frame to a [`Record`].
//! - [`matcher`]: requests with their completions. - [`stats`]: what a capture holds.
//! - [`render`]: a line or a JSON object a record.
//!
//! All of `riser trace` but its command line:
//!
//! ```
//! # fn show(path: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use riser_capture as capture;
//! let mut reader = capture::open(path)?;
//! let mut stats = capture::Stats::new();
//! let mut line = String::new();
//! while let Some(record) = reader.next_record()? {
//!     stats.add(&record);
//!     line.clear();
//!     capture::render::line(&record, &mut line);
//!     println!("{line}");
//! }
//! print!("{}", stats.report());
//! # Ok(())
//! # }
//! ```
//!
//! This crate never reads a clock, and never panics on foreign bytes; decoding and writing allocate nothing per record.

pub mod decode;
pub mod encap;
pub mod matcher;
pub mod reader;
pub mod render;
pub mod stats;
pub mod time;
pub mod writer;

pub use decode::{Bad, Kind, Record, TlpRecord};
pub use encap::{Origin, PortScheme};
pub use matcher::{Matcher, Transaction};
pub use reader::{Direction, Fault, Frame, Interface, Item, OpenError, Reader, open};
pub use stats::Stats;
pub use time::{Resolution, Timestamp};
pub use writer::{InterfaceId, Writer};
