// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ordering rules between TLPs of one virtual channel, as a table (`PCIe 5.0 §2.4.1`, Table 2-40). This module does
//! not select TLPs.

use tlp::{Access, Attributes, Bdf, Body, ConfigRequest, IoRequest, MemoryOp, Tlp};

/// Whether a TLP may overtake another that was issued before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// The TLP must be able to pass, or a deadlock could arise ("Yes").
    Must,
    /// The TLP may pass or wait ("Y/N").
    May,
    /// The TLP must not pass ("No").
    MustNot,
}

/// Rows and columns of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Posted,
    Read,
    NonPostedWithData,
    Completion,
}

/// A cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Always(Passing),
    /// a) No. b) Y/N with Relaxed Ordering, or with ID-based Ordering from another ID.
    UnlessRelaxed,
    /// a) No. b) Y/N with ID-based Ordering from another ID.
    UnlessOtherId,
    /// a) Y/N. b) No within one transaction.
    UnlessSameTransaction,
}

use Passing::{May, Must};
use Rule::{Always, UnlessOtherId, UnlessRelaxed, UnlessSameTransaction};

/// `PCIe 5.0 Table 2-40`: row passes column, in the order of [`Kind`]. A5 is Y/N except for bridges to PCI. Row D's
/// exception for I/O and configuration write completions is unused: a completion does not contain the type of its
/// request.
const TABLE: [[Rule; 4]; 4] = [
    // A  Posted
    [UnlessRelaxed, Always(Must), Always(Must), Always(May)],
    // B  Read request
    [UnlessOtherId, Always(May), Always(May), Always(May)],
    // C  Non-posted request with data
    [UnlessRelaxed, Always(May), Always(May), Always(May)],
    // D  Completion
    [UnlessRelaxed, Always(Must), Always(Must), UnlessSameTransaction],
];

fn kind(tlp: &Tlp) -> Kind {
    match &tlp.repr.body {
        Body::Memory(m) => match m.op {
            MemoryOp::Read | MemoryOp::ReadLocked => Kind::Read,
            MemoryOp::Write => Kind::Posted,
            MemoryOp::WriteDeferrable => Kind::NonPostedWithData,
        },
        Body::Message(_) => Kind::Posted,
        Body::Completion(_) => Kind::Completion,
        Body::Atomic(_) => Kind::NonPostedWithData,
        Body::Io(IoRequest { op, .. }) | Body::Config(ConfigRequest { op, .. }) => match op {
            Access::Read => Kind::Read,
            Access::Write => Kind::NonPostedWithData,
        },
    }
}

/// Returns the ID of the issuer: Completer ID of a completion, Requester ID of a request.
fn issuer(tlp: &Tlp) -> Bdf {
    match &tlp.repr.body {
        Body::Completion(c) => c.completer,
        _ => tlp.repr.transaction().0,
    }
}

fn has(tlp: &Tlp, attribute: Attributes) -> bool {
    tlp.repr.attr.contains(attribute)
}

/// Whether `later` may pass `earlier` (`PCIe 5.0 Table 2-40`, row `later`, column `earlier`).
pub fn may_pass(later: &Tlp, earlier: &Tlp) -> Passing {
    let other_id = || has(later, Attributes::ID_BASED_ORDERING) && issuer(later) != issuer(earlier);
    let relaxed = match TABLE[kind(later) as usize][kind(earlier) as usize] {
        Always(passing) => return passing,
        UnlessRelaxed => has(later, Attributes::RELAXED_ORDERING) || other_id(),
        UnlessOtherId => other_id(),
        UnlessSameTransaction => later.repr.transaction() != earlier.repr.transaction(),
    };
    if relaxed { May } else { Passing::MustNot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Passing::MustNot;
    use tlp::{Completion, ConfigRequest, Data, MemoryRequest, Repr, Span, Tag};

    const NONE: Attributes = Attributes::empty();
    const RO: Attributes = Attributes::RELAXED_ORDERING;
    const IDO: Attributes = Attributes::ID_BASED_ORDERING;

    fn memory(op: MemoryOp) -> impl Fn(u16, Attributes) -> Tlp {
        move |id, attr| {
            let span = Span::covering(0x1000, 4).unwrap();
            let requester = Bdf::from_bits(id);
            tlp(Body::Memory(MemoryRequest { op, requester, tag: Tag::default(), span }), attr)
        }
    }

    fn config_write(id: u16, attr: Attributes) -> Tlp {
        let body =
            ConfigRequest::new(Access::Write, Bdf::from_bits(id), Tag::default(), Bdf::from_bits(9), 0);
        tlp(Body::Config(body), attr)
    }

    // A completion issued by `id`, for a requester with the same number.
    fn completion(id: u16, attr: Attributes) -> Tlp {
        let body = Completion {
            length_dw: Some(1),
            ..Completion::new(Bdf::from_bits(id), Bdf::from_bits(id), Tag::default())
        };
        tlp(Body::Completion(body), attr)
    }

    fn tlp(body: Body, attr: Attributes) -> Tlp {
        Tlp::new(Repr { attr, ..Repr::new(body) }, Data::NONE)
    }

    /// Every cell: `PCIe 5.0 Table 2-40`, with the names A2a to D5b of its entries. The earlier TLP is of ID 1.
    #[test]
    fn follows_every_cell_of_the_ordering_table() {
        let posted = memory(MemoryOp::Write);
        let read = memory(MemoryOp::Read);
        let earlier = [posted(1, NONE), read(1, NONE), config_write(1, NONE), completion(1, NONE)];
        let rows = [
            ("A2a", posted(1, NONE), [MustNot, Must, Must, May]),
            ("A2a, IDO but same ID", posted(1, IDO), [MustNot, Must, Must, May]),
            ("A2b RO", posted(1, RO), [May, Must, Must, May]),
            ("A2b IDO", posted(2, IDO), [May, Must, Must, May]),
            ("A2a, other ID", posted(2, NONE), [MustNot, Must, Must, May]),
            ("B2a", read(1, NONE), [MustNot, May, May, May]),
            ("B2a, RO does not help a read", read(2, RO), [MustNot, May, May, May]),
            ("B2b IDO", read(2, IDO), [May, May, May, May]),
            ("B2a, IDO but same ID", read(1, IDO), [MustNot, May, May, May]),
            ("C2a", config_write(1, NONE), [MustNot, May, May, May]),
            ("C2b RO", config_write(1, RO), [May, May, May, May]),
            ("C2b IDO", config_write(2, IDO), [May, May, May, May]),
            ("D2a, D5b", completion(1, NONE), [MustNot, Must, Must, MustNot]),
            ("D2a, D5a", completion(2, NONE), [MustNot, Must, Must, May]),
            ("D2b RO", completion(2, RO), [May, Must, Must, May]),
            ("D2b IDO", completion(2, IDO), [May, Must, Must, May]),
            ("D5b, whatever its attributes", completion(1, RO | IDO), [May, Must, Must, MustNot]),
        ];
        for (entry, later, row) in rows {
            for (column, earlier) in earlier.iter().enumerate() {
                assert_eq!(may_pass(&later, earlier), row[column], "{entry} against column {}", column + 2);
            }
        }
    }
}
