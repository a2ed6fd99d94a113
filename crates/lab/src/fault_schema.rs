// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `[[fault]]` and `[[outage]]` tables of a lab file. [`faults`](crate::faults) checks them.

use fabric::TlpType;
use plug::values::{Chance, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A fault: some frames of one direction of one link are damaged, changed, doubled, delayed or lost, or the link is cut at
/// one of them. The protocol layers must detect it themselves: no register is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Name of a slot or switch. The fault is on the link above it.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// `upstream` is from the device to the host, `downstream` is from the host to the device.
    pub direction: FaultDirection,
    /// Kind of frames.
    #[schemars(with = "FaultFrames")]
    pub frames: Spanned<FaultFrames>,
    /// Only TLPs of this type.
    pub tlp_type: Option<TlpType>,
    /// Only requests that access a DW from this address on.
    #[schemars(with = "Option<u64>")]
    pub first_address: Option<Spanned<u64>>,
    /// With `first_address`: the last address. Default: `first_address`.
    #[schemars(with = "Option<u64>")]
    pub last_address: Option<Spanned<u64>>,
    /// Only TLPs with this Requester ID, written as `19:00.0`.
    pub requester: Option<FunctionId>,
    /// Only TLPs with this tag.
    #[schemars(with = "Option<u16>", range(min = 0, max = 1023))]
    pub tag: Option<Spanned<u16>>,
    /// The first affected frame, counted from 1 among the matching frames.
    #[schemars(with = "u64", range(min = 1))]
    pub nth: Spanned<u64>,
    /// After frame `nth`, every `every`-th matching frame, replayed TLPs included. Default: no further frame.
    #[serde(default)]
    pub every: u64,
    /// Maximum number of affected frames. Default: no limit.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub count: Option<Spanned<u64>>,
    /// Duration of the fault in milliseconds, from the start of the run or from the command `lab fault`. Default: no limit.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000))]
    pub for_ms: Option<Spanned<u64>>,
    /// Probability that such a frame is affected, 0 to 1. Default: 1.
    pub probability: Option<Chance>,
    /// Effect of the fault.
    #[schemars(with = "FaultKind")]
    pub action: Spanned<FaultKind>,
    /// With `delay`: the delay in nanoseconds.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000))]
    pub delay_ns: Option<Spanned<u64>>,
    /// With `cut`: microseconds until the link is restored. Default: the link stays cut.
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
    /// With `flip-header`: the DW of the header.
    #[schemars(with = "Option<u8>", range(min = 0, max = 3))]
    pub header_dw: Option<Spanned<u8>>,
    /// With `flip-header`: the bits to flip; in DW 0, Fmt is 31:29 and Type 28:24.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub header_bits: Option<Spanned<u32>>,
    /// With `shift-sequence`: increment of AckNak_Seq_Num, modulo 4096.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4095))]
    pub sequence_ahead: Option<Spanned<u16>>,
    /// With `shift-credits`: increment of HdrFC, modulo its field.
    #[schemars(with = "Option<i16>", range(min = -255, max = 255))]
    pub header_credits: Option<Spanned<i16>>,
    /// With `shift-credits`: increment of DataFC, modulo its field.
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
    /// All frames.
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

/// Effect of a fault. Changes are made before the CRC is computed, so that the layers above receive them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A bit flips at a position drawn from the seed; the receiver's CRC detects the error.
    Corrupt,
    /// The frame never arrives.
    Drop,
    /// The frame's framing is broken: a Receiver Error.
    BreakFraming,
    /// The frame arrives twice.
    Double,
    /// The frame arrives `delay_ns` later; later frames of the wire do not overtake it.
    Delay,
    /// The link is cut: this frame and all frames in flight are lost.
    Cut,
    /// EP is set in a TLP with data.
    Poison,
    /// The ECRC of a TLP that has one is wrong.
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
    /// AckNak_Seq_Num of an Ack or Nak is increased by `sequence_ahead`.
    ShiftSequence,
    /// The fields of an UpdateFC are increased by `header_credits` and `data_credits`.
    ShiftCredits,
    /// The receiver finds and corrects an error in one of its buffers: a Corrected Internal Error.
    CorrectedInternal,
    /// The receiver finds an error in one of its buffers and loses the frame: an Uncorrectable Internal Error.
    UncorrectableInternal,
}

/// An event of a slot or a switch while the lab runs: its link is cut, it is removed, or its attention button is pressed.
///
/// If the port above is hot-plug capable (`hot_plug`), the host removes the lost functions, and enumerates new ones and
/// starts their drivers. A switch is removed and added together with everything below it. Below any other port, lost
/// functions are not used again even if the link returns. The rest of the run continues to its end; then the run fails
/// and reports the loss.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Name of a slot or switch. The link is the one above it.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// Start of the event, in microseconds of virtual time.
    #[schemars(with = "u64", range(min = 0, max = 1_000_000_000_000_u64))]
    pub at_us: Spanned<u64>,
    /// End of the event, in microseconds of virtual time; later than `at_us`. Default: never.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000_000_000_u64))]
    pub until_us: Option<Spanned<u64>>,
    /// Kind of event. Default: `cut`.
    #[serde(default)]
    pub kind: OutageKind,
}

/// Kind of an outage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutageKind {
    /// The link is cut, and later restored.
    #[default]
    Cut,
    /// The card in the slot, or the switch with everything below it, is removed, and later inserted in its power-on state.
    /// Needs `hot_plug`.
    Removal,
    /// The attention button of the slot, or of the port above the switch, is pressed once at `at_us`. Needs `hot_plug`.
    Attention,
}
