// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express wire formats, and the units of riser: time, IDs, sizes and rates.
//!
//! - [`time`], [`ids`], [`size`], [`rate`]: newtypes, so that values of different kinds cannot be mixed up.
//! - [`Repr`]: a TLP header as a plain value that can hold only legal values.
//! - [`Tlp`]: a header with its prefixes and its data (the bytes, or only their number). The fabric transports TLPs.
//! - [`format`]: the table of Fmt and Type. It defines names, classes and header lengths.
//! - [`wire`]: views of headers as bytes. [`Repr::parse`] and [`Repr::emit`] convert between bytes and values.
//! - [`rules`]: the table of rules that TLPs must follow.
//! - [`message`]: the table of messages.
//! - [`split`]: cuts transfers into TLPs.
//! - [`completion`]: builds the completions of a request, and checks whether a completion fits a request.
//! - [`tags`]: outstanding requests by tag.
//! - [`dllp`], [`crc`]: DLLPs, LCRC, ECRC and CRC-16.
//! - [`payload`]: pooled, reference-counted payload bytes.
//!
//! This crate never does I/O, never reads a clock, and never panics on bytes from outside.
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
pub use completion::{Awaited, CompletedRequest, Misfit};
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
