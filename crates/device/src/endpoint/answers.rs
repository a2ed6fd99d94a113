// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions of requests: split at Max_Payload_Size and the Read Completion Boundary (`PCIe 5.0 §2.3.1.1`). Never
//! decides what to answer.

use super::requests::{Question, Reply};
use tlp::split::completion_piece;
use tlp::{Attributes, Bdf, Body, Completion, Data, Mps, Rcb, Repr, Status, Tlp};

/// Who completes a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completer {
    /// Completer ID.
    pub(crate) id: Bdf,
    /// Attributes of requests that its completions may have.
    pub(crate) attributes: Attributes,
}

/// An answer that is being split.
pub(crate) struct Answer {
    question: Question,
    address: u64,
    data: Data,
    sent: u32,
}

impl Answer {
    /// `data` answers the question, and is not empty; of a [`Reply::Dw`](super::requests::Reply) the whole DW.
    pub(crate) fn new(question: Question, data: Data) -> Answer {
        Answer { question, address: question.first_byte(), data, sent: 0 }
    }

    /// True once all has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sent as usize >= self.data.len()
    }

    /// The next completion.
    pub(crate) fn next(&mut self, completer: Completer, mps: Mps, rcb: Rcb) -> Tlp {
        let remaining = self.data.len() as u32 - self.sent;
        let piece = completion_piece(self.address, remaining, mps, rcb);
        let lead = (self.address & 3) as u32;
        let mut tlp = without_data(completer, &self.question, Status::Success);
        if let Body::Completion(c) = &mut tlp.repr.body {
            c.byte_count = remaining as u16;
            c.lower_address = (self.address & 0x7f) as u8;
            c.length_dw = Some((lead + piece).div_ceil(4) as u16);
        }
        tlp.data = self.data.slice(self.sent as usize, piece as usize);
        self.address = self.address.wrapping_add(u64::from(piece));
        self.sent += piece;
        tlp
    }
}

/// A Cpl: no data, Byte Count and Lower Address of the whole request.
pub(crate) fn without_data(completer: Completer, question: &Question, status: Status) -> Tlp {
    let body = Completion {
        locked: question.reply == Reply::Locked,
        completer: completer.id,
        requester: question.requester,
        tag: question.tag,
        status,
        bcm: false,
        byte_count: question.byte_count() as u16,
        lower_address: (question.first_byte() & 0x7f) as u8,
        length_dw: None,
    };
    let mut repr = Repr::new(Body::Completion(body));
    (repr.tc, repr.attr) = (question.tc, question.attr & completer.attributes);
    Tlp { account: question.account, ..Tlp::new(repr, Data::NONE) }
}
