// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits for a library, and its illegal actions. Each ends its device.

use thiserror::Error;
use tlp::Time;

/// Maximum number of bytes of an output.
pub(crate) const MAX_BYTES: u32 = 1 << 20;
/// Maximum number of outputs and timer calls at one instant. A device that exceeds it is in an endless loop.
pub(crate) const MAX_AT_ONCE: u32 = 1 << 16;
/// Maximum size of a message's data: 1024 DW (`PCIe 5.0 §2.2.2`).
pub(crate) const MAX_MESSAGE_BYTES: u32 = 4096;
/// The highest routing that is not reserved (`PCIe 5.0 §2.2.8`).
pub(crate) const MAX_ROUTING: u8 = 5;

/// An illegal action of a library. `what` is the kind of the transfer: `read`, `write`, `atomic` and others.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Misuse {
    #[error("an output of kind {0}, expected 1 to 9")]
    Kind(u32),
    #[error("a {what} of {bytes} B, expected at most {MAX_BYTES}")]
    Length { what: &'static str, bytes: u32 },
    #[error("a {what} of {bytes} B with data of NULL, expected a pointer to them")]
    NoData { what: &'static str, bytes: u32 },
    #[error("output {output} polled in class {class}")]
    Class { output: &'static str, class: &'static str },
    #[error("a {what} of {bytes} B at {address:#x}, expected an end below 2^64")]
    Address { what: &'static str, bytes: u32, address: u64 },
    #[error("a {what} of TC{tc}, expected 0 to 7")]
    TrafficClass { what: &'static str, tc: u8 },
    #[error("a {what} with attr {attr}, expected 0 to 7")]
    Attributes { what: &'static str, attr: u8 },
    #[error("an atomic with op {0}, expected 0 to 2")]
    AtomicOp(u8),
    #[error("a DMA read or atomic with id {0}, which is in use, expected a free id")]
    DmaId(u32),
    #[error("interrupt vector {vector}, expected one of the function's {vectors}, counted from 0")]
    Vector { vector: u32, vectors: u16 },
    #[error("output {output}, expected only with `{key} = true` in the lab's settings of the device")]
    Signal { output: &'static str, key: &'static str },
    #[error("a message of {0} B, expected a multiple of 4 up to {MAX_MESSAGE_BYTES}")]
    MessageLength(u32),
    #[error("a message with routing {0}, expected 0 to {MAX_ROUTING}")]
    Routing(u8),
    #[error("completion of request {token} with {bytes} B, expected {expected}")]
    CompletionLength { token: u32, bytes: u32, expected: u32 },
    #[error("completion of request {0} with RISER_RETRY, expected only for deferrable writes")]
    Retry(u32),
    #[error("completion of request {token} with status {status}, expected 0 to 3")]
    Status { token: u32, status: u32 },
    #[error("completion of request {0}, expected the token of a request that is not completed")]
    NotWaiting(u32),
    #[error("more than {MAX_AT_ONCE} outputs at {0}, expected poll_output to return 0")]
    Endless(Time),
    #[error("poll_taken: request {0} was already taken")]
    Taken(u32),
    #[error("poll_taken: no request {0}")]
    NoRequest(u32),
}
