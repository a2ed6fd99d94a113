// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the fields of a completion from received bytes. No bytes can cause a panic.

use tlp::completion::transaction_value;
use tlp::rules::Head;
use tlp::{Body, Completion, Repr, Violation};

/// A completion, with its data if it has data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer<'a> {
    pub(super) completion: Completion,
    pub(super) poisoned: bool,
    /// Data in whole DWs.
    pub(super) data: Option<&'a [u8]>,
    /// The whole TLP.
    pub(super) tlp: &'a [u8],
}

/// A received datagram, classified for the requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read<'a> {
    Completion(Answer<'a>),
    /// CplLk, CplDLk.
    Locked,
    /// A request or a message.
    Request,
    /// The bytes are not a TLP: they break this rule.
    Malformed(Violation),
}

impl Answer<'_> {
    /// Returns Requester ID and tag as one number, which is the value of a violation.
    pub(super) fn transaction(&self) -> u64 {
        transaction_value(&self.completion)
    }

    /// Returns the header, for the report of a refusal.
    pub(super) fn head(&self) -> Head {
        Head::of_bytes(self.tlp)
    }
}

pub(super) fn read(bytes: &[u8]) -> Read<'_> {
    let parsed = match Repr::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Read::Malformed(error.on_a_link()),
    };
    match parsed.repr.body {
        Body::Completion(c) if c.locked => Read::Locked,
        Body::Completion(completion) => {
            let data = completion.length_dw.map(|_| &bytes[parsed.data]);
            Read::Completion(Answer { completion, poisoned: parsed.repr.ep, data, tlp: bytes })
        }
        _ => Read::Request,
    }
}
