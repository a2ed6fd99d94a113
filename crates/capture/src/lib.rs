// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLP captures: reads, writes, decodes, matches, counts and renders them.
//!
//! - [`open`], [`reader`]: read frames from pcap, pcapng and text.
//! - [`writer`]: writes TLPs and DLLPs as pcapng.
//! - [`encap`]: reads and writes Ethernet, IP, UDP and NetTLP headers.
//! - [`decode`]: decodes a frame to a [`Record`].
//! - [`peer_session`]: names the records of riser's NetTLP sessions.
//! - [`superpacket`]: splits a frame with several datagrams.
//! - [`matcher`]: matches requests and completions.
//! - [`sequence`]: recognizes lost and retransmitted TLPs of a link.
//! - [`transactions`]: collects complete transactions with Acks and replays.
//! - [`diagram`]: shows a few transactions as sequence diagrams.
//! - [`filter`]: selects records or transactions.
//! - [`stats`], [`series`]: count the contents of a capture, in total and over time.
//! - [`credits`]: computes the flow-control credits before and after each TLP.
//! - [`check`]: finds the rules of the specification that a trace breaks.
//! - [`explain`]: explains the fields of one TLP, and the rules that it breaks.
//! - [`names`]: names the registers and interrupts that TLPs access.
//! - [`render`]: prints a record as a line or as JSON.
//! - [`perfetto`]: exports a capture to the Perfetto viewer.
//! - [`views`]: prints a capture as lines: records, credits, transactions, or broken rules.
//!
//! `riser trace` without its command line:
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
//! This crate never reads a clock, and never panics on bytes from outside. Decoding and writing a record allocate
//! nothing.

pub mod check;
mod count;
pub mod credits;
pub mod decode;
pub mod diagram;
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
mod settings;
pub mod stats;
pub mod superpacket;
mod table;
pub mod time;
pub mod transactions;
pub mod views;
pub mod writer;

pub use check::{Checker, Finding};
pub use decode::{Bad, Ecrc, Kind, Record, TlpRecord};
pub use encap::{Origin, PortScheme};
pub use explain::Explanation;
pub use filter::{Filter, FilterError, FilterErrorKind, Sieve};
pub use matcher::{Match, Matcher, Transaction};
pub use names::{Meaning, Names};
pub use reader::{
    ByteOrder, Column, Columns, ColumnsError, Direction, End, Fault, FileFormat, Frame, Interface, Item,
    LineError, Mark, OpenError, PacketError, ReadOptions, Reader, TextLine, open, open_with,
};
pub use registers::{DeviceRegister, DeviceRegisters, NamedRegister, OwnRegisters};
pub use stats::Stats;
pub use time::{Resolution, Timestamp};
pub use transactions::{Outcome, Tracker};
pub use writer::{InterfaceId, Writer};
