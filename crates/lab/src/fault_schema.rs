// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `[[fault]]` and `[[outage]]` tables of a lab file. [`faults`](crate::faults) judges them.

use fabric::TlpType;
use plug::values::{Chance, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A fault: some frames of one direction of one link are damaged, altered, doubled, delayed or vanish, or the link is cut at
/// one of them. What the layers make of it, they find out themselves: no register is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Name of the slot or switch whose link it is: the one above it.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// `upstream` is from the device to the host, `downstream` the other way.
    pub direction: FaultDirection,
    /// Which frames.
    #[schemars(with = "FaultFrames")]
    pub frames: Spanned<FaultFrames>,
    /// Of those, TLPs of this type alone.
    pub tlp_type: Option<TlpType>,
    /// Of those, requests alone that name a DW from here on.
    #[schemars(with = "Option<u64>")]
    pub first_address: Option<Spanned<u64>>,
    /// The last address of these. Default: `first_address`.
    #[schemars(with = "Option<u64>")]
    pub last_address: Option<Spanned<u64>>,
    /// Of those, TLPs with this Requester ID alone, written as `19:00.0`.
    pub requester: Option<FunctionId>,
    /// Of those, TLPs with this tag alone.
    #[schemars(with = "Option<u16>", range(min = 0, max = 1023))]
    pub tag: Option<Spanned<u16>>,
    /// The first frame to suffer, counted from 1 among those named.
    #[schemars(with = "u64", range(min = 1))]
    pub nth: Spanned<u64>,
    /// Then each that comes this many later, TLPs that are sent again included. Without it, no other.
    #[serde(default)]
    pub every: u64,
    /// Number of frames that suffer at most. Default: no limit.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub count: Option<Spanned<u64>>,
    /// Milliseconds in which frames suffer, from the start of the run, or from the command `lab fault` on. Default: no limit.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000))]
    pub for_ms: Option<Spanned<u64>>,
    /// Chance with which each of these suffers, 0 to 1. Default: 1.
    pub probability: Option<Chance>,
    /// What happens to it.
    #[schemars(with = "FaultKind")]
    pub action: Spanned<FaultKind>,
    /// With `delay`: nanoseconds.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000))]
    pub delay_ns: Option<Spanned<u64>>,
    /// With `cut`: microseconds until the link is whole again. Default: it stays cut.
    #[schemars(with = "Option<u64>", range(min = 0, max = 1_000_000_000))]
    pub restore_after_us: Option<Spanned<u64>>,
    /// With `set-status`: the Completion Status.
    pub status: Option<FaultStatus>,
    /// With `set-tag`: the tag.
    #[schemars(with = "Option<u16>", range(min = 0, max = 1023))]
    pub new_tag: Option<Spanned<u16>>,
    /// With `set-requester`: the Requester ID.
    pub new_requester: Option<FunctionId>,
    /// With `set-byte-count`: the Byte Count.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4096))]
    pub byte_count: Option<Spanned<u16>>,
    /// With `set-length`: the Length in DW.
    #[schemars(with = "Option<u16>", range(min = 1, max = 1024))]
    pub length_dw: Option<Spanned<u16>>,
    /// With `flip-header`: which DW of the header.
    #[schemars(with = "Option<u8>", range(min = 0, max = 3))]
    pub header_dw: Option<Spanned<u8>>,
    /// With `flip-header`: the bits that flip; of DW 0, Fmt is 31:29 and Type 28:24.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub header_bits: Option<Spanned<u32>>,
    /// With `shift-sequence`: how far on AckNak_Seq_Num is, modulo 4096.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4095))]
    pub sequence_ahead: Option<Spanned<u16>>,
    /// With `shift-credits`: how much larger HdrFC is, modulo its field.
    #[schemars(with = "Option<i16>", range(min = -255, max = 255))]
    pub header_credits: Option<Spanned<i16>>,
    /// With `shift-credits`: how much larger DataFC is, modulo its field.
    #[schemars(with = "Option<i16>", range(min = -4095, max = 4095))]
    pub data_credits: Option<Spanned<i16>>,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultDirection {
    /// From the device to the host.
    Upstream,
    /// From the host to the device.
    Downstream,
}

/// Kinds of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultFrames {
    /// All.
    Any,
    /// TLPs.
    Tlp,
    /// Posted TLPs: memory writes and messages.
    Posted,
    /// Non-posted TLPs.
    NonPosted,
    /// Completions.
    Completion,
    /// Configuration requests.
    Config,
    /// DLLPs.
    Dllp,
    /// Ack DLLPs.
    Ack,
    /// Nak DLLPs.
    Nak,
    /// InitFC1 and InitFC2 DLLPs.
    InitFc,
    /// UpdateFC DLLPs.
    UpdateFc,
}

/// Completion Status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultStatus {
    /// Successful Completion.
    Success,
    /// Unsupported Request.
    UnsupportedRequest,
    /// Configuration Request Retry Status.
    ConfigRetry,
    /// Completer Abort.
    CompleterAbort,
}

/// What a fault does. An alteration is made before the CRC, so that the layers above see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A bit flips, at a place drawn from the seed; the receiver's CRC finds it.
    Corrupt,
    /// The frame never arrives.
    Drop,
    /// Its framing is broken: a Receiver Error.
    BreakFraming,
    /// It arrives twice.
    Double,
    /// It arrives `delay_ns` later, and what is behind it on the wire no earlier.
    Delay,
    /// The link is cut: this frame and all that are on their way are lost.
    Cut,
    /// EP is set in a TLP with data.
    Poison,
    /// The digest of a TLP that has one is wrong.
    WrongEcrc,
    /// Completion Status is `status`.
    SetStatus,
    /// Tag is `new_tag`.
    SetTag,
    /// Requester ID is `new_requester`.
    SetRequester,
    /// Byte Count of a completion is `byte_count`.
    SetByteCount,
    /// Length is `length_dw`, with as much data as before.
    SetLength,
    /// The bits `header_bits` of DW `header_dw` of the header flip.
    FlipHeader,
    /// AckNak_Seq_Num of an Ack or Nak is `sequence_ahead` further on.
    ShiftSequence,
    /// The fields of an UpdateFC are larger by `header_credits` and `data_credits`.
    ShiftCredits,
    /// Its receiver finds an error in a buffer of its own and corrects it: a Corrected Internal Error.
    CorrectedInternal,
    /// Its receiver finds an error in a buffer of its own, and the frame is lost there: an Uncorrectable Internal Error.
    UncorrectableInternal,
}

/// Something that happens to a slot or a switch while the lab runs: its link is cut, it is pulled out, its button is pressed.
///
/// Where the port above is hot-plug capable (`hot_plug`), the host takes what is there out of use and brings up what comes: it
/// enumerates, and starts the drivers anew. A switch goes and comes with all below it. Below any other port what is gone
/// stays out of use, though its link comes back: the run goes on to the end of all others, then fails, and says what was lost.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Name of the slot or switch whose link it is: the one above it.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// When it begins, in microseconds of virtual time.
    #[schemars(with = "u64", range(min = 0, max = 1_000_000_000_000_u64))]
    pub at_us: Spanned<u64>,
    /// When it ends, in microseconds of virtual time: after `at_us`. Default: never.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000_000_u64))]
    pub until_us: Option<Spanned<u64>>,
    /// What happens to it. Default: `cut`.
    #[serde(default)]
    pub kind: OutageKind,
}

/// Why a link is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutageKind {
    /// The link is cut, and whole again.
    #[default]
    Cut,
    /// What stands in the slot, or the switch with all below it, is pulled out, and put back as it is after power-on. Needs
    /// `hot_plug`.
    Removal,
    /// Somebody presses the attention button of the slot or of the port above the switch, at `at_us` alone. Needs `hot_plug`.
    Attention,
}
