// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A completion's fields out of foreign bytes. Never panics on them.
//!
//! Plain CplD and Cpl, nearly all that comes, are read here at once; what has prefixes, a digest or anything unusual
//! goes through [`Repr::parse`], which knows every rule. A property test holds the two against each other.

use tlp::wire::{completion, field};
use tlp::{Bdf, Body, Completion, Repr, Status, Tag};

/// A completion, with its data where it has any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer<'a> {
    pub(super) completion: Completion,
    pub(super) poisoned: bool,
    /// Whole DWs.
    pub(super) data: Option<&'a [u8]>,
}

/// What bytes are to a requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read<'a> {
    Completion(Answer<'a>),
    /// CplLk, CplDLk.
    Locked,
    /// A request or a message.
    Request,
    /// No TLP.
    Malformed,
}

const CPL: u8 = 0x0a;
const CPLD: u8 = 0x4a;
const HEADER_LEN: usize = 12;
const RESERVED_TO_PLAIN: u32 = field::TD.place(1);

pub(super) fn read(bytes: &[u8]) -> Read<'_> {
    plain(bytes).map_or_else(|| any(bytes), Read::Completion)
}

fn plain(bytes: &[u8]) -> Option<Answer<'_>> {
    let (header, data) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let dw = |n: usize| u32::from_be_bytes([header[n], header[n + 1], header[n + 2], header[n + 3]]);
    let (dw0, dw1, dw2) = (dw(0), dw(4), dw(8));
    if dw0 & RESERVED_TO_PLAIN != 0 {
        return None;
    }
    let data = match header[0] {
        CPLD if data.len() == length(dw0) => Some(data),
        CPL if data.is_empty() => None,
        _ => return None,
    };
    let get = |dw: u32, field: tlp::wire::Field| dw >> field.low & field.mask();
    let tag = get(dw0, field::T9) << 9 | get(dw0, field::T8) << 8 | get(dw2, completion::TAG);
    let byte_count = get(dw1, completion::BYTE_COUNT);
    let completion = Completion {
        locked: false,
        completer: Bdf::from_bits(get(dw1, completion::COMPLETER) as u16),
        requester: Bdf::from_bits(get(dw2, completion::REQUESTER) as u16),
        tag: Tag::from_bits(tag as u16),
        status: Status::from_bits(get(dw1, completion::STATUS) as u8),
        bcm: get(dw1, completion::BCM) != 0,
        byte_count: if byte_count == 0 { 4096 } else { byte_count as u16 },
        lower_address: get(dw2, completion::LOWER_ADDRESS) as u8,
        length_dw: data.map(|data| (data.len() / 4) as u16),
    };
    Some(Answer { completion, poisoned: get(dw0, field::EP) != 0, data })
}

// Bytes of data that Length names.
fn length(dw0: u32) -> usize {
    let dw = dw0 & field::LENGTH.mask();
    if dw == 0 { 4096 } else { dw as usize * 4 }
}

#[cold]
fn any(bytes: &[u8]) -> Read<'_> {
    let Ok(parsed) = Repr::parse(bytes) else { return Read::Malformed };
    match parsed.repr.body {
        Body::Completion(c) if c.locked => Read::Locked,
        Body::Completion(completion) => {
            let data = completion.length_dw.map(|_| &bytes[parsed.data]);
            Read::Completion(Answer { completion, poisoned: parsed.repr.ep, data })
        }
        _ => Read::Request,
    }
}
