// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the keys of a fault fit together: some frame matches, and has the field that the action changes.

use crate::fault_schema::{Fault, FaultFrames, FaultKind};
use crate::wrong::{Checked, wrong};
use fabric::TlpType;
use serde::Serialize;

/// Every kind of frames.
const FRAMES: [FaultFrames; 11] = [
    FaultFrames::Any,
    FaultFrames::Tlp,
    FaultFrames::Posted,
    FaultFrames::NonPosted,
    FaultFrames::Completion,
    FaultFrames::Config,
    FaultFrames::Dllp,
    FaultFrames::Ack,
    FaultFrames::Nak,
    FaultFrames::InitFc,
    FaultFrames::UpdateFc,
];

/// Every type of TLPs.
const TYPES: &[TlpType] = &[
    TlpType::MemoryRead,
    TlpType::MemoryWrite,
    TlpType::Io,
    TlpType::ConfigRead,
    TlpType::ConfigWrite,
    TlpType::Atomic,
    TlpType::Message,
    TlpType::Completion,
    TlpType::CompletionWithData,
];

/// The keys of a fault that decide which frames it affects.
#[derive(Clone, Copy)]
struct Keys {
    frames: FaultFrames,
    ty: Option<TlpType>,
    has_address: bool,
    action: FaultKind,
}

/// Checks that some frame matches `fault`, and has the field that its action changes.
pub(crate) fn check(fault: &Fault) -> Checked {
    let (ty, has_address) = (fault.tlp_type, fault.first_address.is_some());
    let (frames, action) = (*fault.frames.get_ref(), *fault.action.get_ref());
    let keys = Keys { frames, ty, has_address, action };
    if keys.can_affect() {
        return Ok(());
    }
    // Every frame can be dropped, so these keys only select frames.
    if !(Keys { action: FaultKind::Drop, ..keys }).can_affect() {
        let mut filters: Vec<String> = ty.map(|ty| format!("tlp_type = {}", name(ty))).into_iter().collect();
        filters.extend(has_address.then(|| "an address".to_owned()));
        let filter = filters.join(" and ");
        let message = format!("frames of {}: none has {filter}{}", name(frames), keys.legal());
        return wrong(fault.frames.span(), message);
    }
    let of = ty.map_or_else(|| format!("frames = {}", name(frames)), |ty| format!("tlp_type = {}", name(ty)));
    let message =
        format!("action of {}: no frame of {of} has {}{}", name(action), field(action), keys.legal());
    wrong(fault.action.span(), message)
}

impl Keys {
    fn can_affect(self) -> bool {
        let is_type =
            |ty: &TlpType| self.ty.is_none_or(|own| own == *ty) && (!self.has_address || addressed(*ty));
        let selects_tlps = self.ty.is_some() || self.has_address;
        types(self.frames).iter().any(|ty| is_type(ty) && affects_tlp(self.action, *ty))
            || !selects_tlps && affects_dllp(self.action, self.frames)
    }

    /// The legal kinds of frames with the other keys; without any, the legal types of TLPs.
    fn legal(self) -> String {
        let frames = FRAMES.into_iter().filter(|&frames| Keys { frames, ..self }.can_affect());
        // A type or an address needs a kind of TLPs.
        let frames = frames.filter(|frames| self.ty.is_none() && !self.has_address || is_tlps(*frames));
        let types = TYPES.iter().filter(|&&ty| Keys { ty: Some(ty), ..self }.can_affect());
        let (frames, types): (Vec<_>, Vec<_>) = (frames.map(name).collect(), types.map(name).collect());
        match (frames.is_empty(), types.is_empty()) {
            (false, _) => format!(", expected frames = {}", frames.join(" or ")),
            (true, false) => format!(", expected tlp_type = {}", types.join(" or ")),
            (true, true) => String::new(),
        }
    }
}

/// The name of a value in the file, in quotes.
fn name(value: impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |name| name.to_string())
}

const fn is_tlps(frames: FaultFrames) -> bool {
    use FaultFrames::{Completion, NonPosted, Posted, Tlp};
    matches!(frames, Tlp | Posted | NonPosted | Completion)
}

/// The types of the TLPs among `frames`. A non-posted memory write is a DMWr.
const fn types(frames: FaultFrames) -> &'static [TlpType] {
    use TlpType::{
        Atomic, Completion, CompletionWithData, ConfigRead, ConfigWrite, Io, MemoryRead, MemoryWrite, Message,
    };
    match frames {
        FaultFrames::Any | FaultFrames::Tlp => TYPES,
        FaultFrames::Posted => &[MemoryWrite, Message],
        FaultFrames::NonPosted => &[MemoryRead, MemoryWrite, Io, ConfigRead, ConfigWrite, Atomic],
        FaultFrames::Completion => &[Completion, CompletionWithData],
        FaultFrames::Config => &[ConfigRead, ConfigWrite],
        _ => &[],
    }
}

/// Whether `first_address` can match TLPs of this type.
const fn addressed(ty: TlpType) -> bool {
    matches!(ty, TlpType::MemoryRead | TlpType::MemoryWrite | TlpType::Io | TlpType::Atomic)
}

/// Whether some TLP of this type has the field that `action` changes.
const fn affects_tlp(action: FaultKind, ty: TlpType) -> bool {
    match action {
        FaultKind::Poison => !matches!(ty, TlpType::MemoryRead | TlpType::ConfigRead | TlpType::Completion),
        FaultKind::SetStatus | FaultKind::SetByteCount => {
            matches!(ty, TlpType::Completion | TlpType::CompletionWithData)
        }
        FaultKind::SetTag => !matches!(ty, TlpType::Message),
        FaultKind::ShiftSequence | FaultKind::ShiftCredits => false,
        _ => true,
    }
}

/// Whether some DLLP among `frames` has the field that `action` changes.
const fn affects_dllp(action: FaultKind, frames: FaultFrames) -> bool {
    use FaultFrames::{Ack, Any, Dllp, InitFc, Nak, UpdateFc};
    match action {
        FaultKind::ShiftSequence => matches!(frames, Any | Dllp | Ack | Nak),
        FaultKind::ShiftCredits => matches!(frames, Any | Dllp | UpdateFc),
        FaultKind::Poison
        | FaultKind::WrongEcrc
        | FaultKind::SetStatus
        | FaultKind::SetTag
        | FaultKind::SetRequester
        | FaultKind::SetByteCount
        | FaultKind::SetLength
        | FaultKind::FlipHeader => false,
        _ => matches!(frames, Any | Dllp | Ack | Nak | InitFc | UpdateFc),
    }
}

/// The field that `action` changes, with an article.
const fn field(action: FaultKind) -> &'static str {
    match action {
        FaultKind::Poison => "data",
        FaultKind::WrongEcrc => "an ECRC",
        FaultKind::SetStatus => "a Completion Status",
        FaultKind::SetTag => "a tag",
        FaultKind::SetRequester => "a Requester ID",
        FaultKind::SetByteCount => "a Byte Count",
        FaultKind::SetLength => "a Length",
        FaultKind::ShiftSequence => "an AckNak_Seq_Num",
        FaultKind::ShiftCredits => "credits of an UpdateFC",
        _ => "a header",
    }
}
