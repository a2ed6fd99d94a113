// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express wire formats, and the quantities in which all of riser counts.
//!
//! - [`time`], [`ids`], [`size`], [`rate`]: newtypes, so that none is taken for another.
//! - [`Repr`]: a TLP header as a plain value that can hold only legal values.
//! - [`Tlp`]: a header with its data, carried or only counted, and its prefixes: what travels through the fabric.
//! - [`format`]: the one table of Fmt and Type, from which names, classes and header lengths come.
//! - [`wire`]: a view per header family, and [`Repr::parse`] and [`Repr::emit`] between bytes and values.
//! - [`rules`]: what makes a TLP malformed, as a table; [`message`]: every message, as a table.
//! - [`split`]: where transfers are cut; [`completion`]: what answers a request, cut and matched; [`tags`]: requests by tag.
//! - [`dllp`], [`crc`]: DLLPs, LCRC, ECRC and CRC-16.
//! - [`payload`]: pooled, reference-counted payload bytes.
//!
//! This crate never does I/O, never reads a clock, and never panics on foreign bytes.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod atomic;
pub mod completion;
pub mod crc;
mod display;
pub mod dllp;
pub mod format;
pub mod ids;
mod malformed;
pub mod message;
pub mod packet;
pub mod payload;
pub mod prefix;
pub mod rate;
pub mod repr;
pub mod rules;
pub mod size;
pub mod span;
pub mod split;
pub mod tags;
pub mod time;
pub mod vc;
pub mod wire;

pub use atomic::{AtomicOp, AtomicRequest, OperandSize};
pub use completion::{Asked, Awaited, Misfit};
pub use dllp::{DLLP_LEN, DataLinkFeature, Dllp, DllpError, FlowControl, FlowControlKind, PmDllp, Scale};
pub use format::{FORMATS, Format, FormatId};
pub use ids::{Bdf, BdfError, Tag};
pub use packet::{Account, Class, Data, Flaw, Tlp};
pub use payload::{Payload, PayloadPool};
pub use prefix::{Prefix, PrefixKind, Prefixes};
pub use rate::{Rate, Width, ack_latency_limit};
pub use repr::{
    Access, AddressType, Attributes, Body, Completion, ConfigKind, ConfigRequest, Hint, IoRequest, MemoryOp,
    MemoryRequest, Message, MessageRouting, ProcessingHint, Repr, Status, TrafficClass,
};
pub use rules::{Limits, RuleId, Violation};
pub use size::{Mps, Mrrs, Rcb, SizeError};
pub use span::{Span, SpanError};
pub use tags::{TagState, TaggedRequests};
pub use time::{Duration, Time};
pub use vc::{TcSet, TcVcMap, TcVcMapError, Vc};
pub use wire::{Header, ParseError, Parsed, Part};
