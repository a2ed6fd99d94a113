// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions that a requester refuses: the kind under which each is counted, and the rule that it breaks.

use super::Stray;
use tlp::{Awaited, Completion, Misfit, RuleId, Violation};

/// A completion that answers no request.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub(super) stray: Stray,
    pub(super) why: Violation,
}

impl Refused {
    #[cold]
    pub(super) fn new(stray: Stray, rule: RuleId, found: u64) -> Refused {
        Refused { stray, why: Violation::new(rule, found) }
    }

    /// Creates a refusal of a completion that does not match the awaited bytes.
    #[cold]
    pub(super) fn misfit(awaited: Awaited, completion: &Completion, misfit: Misfit) -> Refused {
        let stray = match misfit {
            Misfit::WithoutData => Stray::WithoutData,
            Misfit::ByteCount => Stray::ByteCount,
            Misfit::LowerAddress => Stray::LowerAddress,
            Misfit::Length => Stray::Length,
        };
        Refused { stray, why: awaited.violation(completion, misfit) }
    }

    /// Creates a refusal of a completion whose bytes were received before, or are too far ahead.
    #[cold]
    pub(super) fn again(stray: Stray, completion: &Completion) -> Refused {
        let rule =
            if stray == Stray::Scattered { RuleId::CompletionOrder } else { RuleId::CompletionRepeated };
        Refused::new(stray, rule, completion.byte_count.into())
    }
}

/// Creates a refusal of a CplLk or CplDLk: the requester sends no locked reads.
#[cold]
pub(super) fn locked() -> Refused {
    Refused { stray: Stray::Locked, why: Violation::expecting(RuleId::CompletionLocked, 0x0b, 0x0a) }
}
