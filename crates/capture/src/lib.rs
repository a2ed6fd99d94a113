// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLP captures: in and out, decoded, matched, counted, rendered.
//!
//! - [`open`], [`reader`]: pcap, pcapng and text to frames. - [`writer`]: TLPs and DLLPs to pcapng.
//! - [`encap`]: Ethernet, IP, UDP and the NetTLP header, both ways. - [`decode`]: a frame to a [`Record`].
//! - [`peer_session`]: the records of riser's sessions, by name. - [`superpacket`]: several datagrams in one frame.
//! - [`matcher`]: requests with their completions. - [`sequence`]: what a link does with each TLP: taken, or sent again.
//! - [`transactions`]: whole transactions, with Acks and replays. - [`filter`]: which of them to show.
//! - [`stats`]: what a capture holds. - [`series`]: how that changes over time. - [`credits`]: flow control, TLP by TLP.
//! - [`check`]: the rules of the specification that a trace breaks.
//! - [`explain`]: one TLP, field by field, with the rules that it breaks.
//! - [`names`]: what TLPs mean to the functions that they reach.
//! - [`render`]: a line or a JSON object a record. - [`perfetto`]: a capture for the Perfetto viewer.
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

pub mod check;
pub mod credits;
pub mod decode;
pub mod encap;
pub mod explain;
pub mod filter;
pub mod hex_text;
pub mod matcher;
pub mod names;
pub mod peer_session;
pub mod perfetto;
pub mod reader;
pub mod registers;
pub mod render;
pub mod sequence;
pub mod series;
pub mod stats;
pub mod superpacket;
pub mod time;
pub mod transactions;
pub mod writer;

pub use check::{Checker, Finding};
pub use decode::{Bad, Ecrc, Kind, Record, TlpRecord};
pub use encap::{Origin, PortScheme};
pub use explain::Explanation;
pub use filter::{Filter, FilterError, Sieve};
pub use matcher::{Match, Matcher, Transaction};
pub use names::{Meaning, Names};
pub use reader::{
    ByteOrder, Column, Columns, Direction, End, Fault, FileFormat, Frame, Interface, Item, Mark, OpenError,
    ReadOptions, Reader, TextLine, open, open_with,
};
pub use registers::{DeviceRegister, DeviceRegisters, NamedRegister, OwnRegisters};
pub use stats::Stats;
pub use time::{Resolution, Timestamp};
pub use transactions::{Outcome, Tracker};
pub use writer::{InterfaceId, Writer};
