// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A completion's fields out of foreign bytes. Never panics on them.

use tlp::{Body, Completion, Repr};

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

pub(super) fn read(bytes: &[u8]) -> Read<'_> {
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
