// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ordering table, cell by cell (`PCIe 5.0 §2.4.1`, Table 2-40). Each cell has a lab in which a TLP of the column
//! waits for credits, and a TLP of the row is sent after it. The order at the other end shows which TLP was first. If
//! the table leaves a choice ("Y/N"), the tests check the choice of riser: a TLP passes a waiting one of another class,
//! but not of its own class.

use crate::common::link;
use crate::common::system::{Arrivals, Raw, System};
use link::{CreditLimit, Frame, Passing, may_pass};
use riser_fabric::{Limits, LinkId, PortId, Side, Stop};
use tlp::{
    AtomicOp, AtomicRequest, Attributes, Bdf, Body, Class, Completion, Data, Duration, MemoryOp,
    MemoryRequest, OperandSize, Rate, Repr, Span, Tag, Time, Tlp, TrafficClass,
};

const NONE: Attributes = Attributes::empty();
const RO: Attributes = Attributes::RELAXED_ORDERING;
const IDO: Attributes = Attributes::ID_BASED_ORDERING;
const SNOOP: Attributes = Attributes::NO_SNOOP;

/// Rows and columns of the table; columns are 2 to 5.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Posted,
    Read,
    WithData,
    Completion,
}

use Kind::{Posted, Read, WithData};

const COLUMNS: [Kind; 4] = [Posted, Read, WithData, Kind::Completion];

/// A TLP of `kind` issued by function `id`, recognized by its Traffic Class `mark`, which all are on VC0.
fn tlp(kind: Kind, attr: Attributes, id: u16, tag: u16, mark: u8) -> Tlp {
    let (requester, tag) = (Bdf::from_bits(id), Tag::from_bits(tag));
    let span = Span::covering(0x1_0000_0000, 64).unwrap();
    let memory = |op| Body::Memory(MemoryRequest { op, requester, tag, span });
    let (body, data) = match kind {
        Posted => (memory(MemoryOp::Write), Data::Counted(64)),
        Read => (memory(MemoryOp::Read), Data::NONE),
        WithData => {
            let (op, operand, address) = (AtomicOp::FetchAdd, OperandSize::Bits32, 0x1_0000_0000);
            (Body::Atomic(AtomicRequest { op, operand, requester, tag, address }), Data::Counted(4))
        }
        Kind::Completion => (
            Body::Completion(Completion {
                byte_count: 64,
                length_dw: Some(16),
                ..Completion::new(requester, Bdf::default(), tag)
            }),
            Data::Counted(64),
        ),
    };
    Tlp::new(Repr { attr, tc: TrafficClass::from_bits(mark), ..Repr::new(body) }, data)
}

/// Whether `row` passes `column`, which waits for the credit that the same TLP before it has used. One upstream link
/// with a flight time of a microsecond each way.
fn passes(row: &Tlp, column: &Tlp) -> bool {
    let mut link = link(Rate::Gt8, 8, 256);
    link.propagation = Duration::from_us(1);
    link.root.rx_buffer = [CreditLimit::INFINITE; 3];
    link.root.rx_buffer[column.class().index()] = CreditLimit::finite(1, 16);
    let raw = Raw::new();
    let first = Tlp { repr: Repr { tc: TrafficClass::from_bits(7), ..column.repr }, ..column.clone() };
    for (at_ns, tlp) in [(20_000, first), (20_100, column.clone()), (20_200, row.clone())] {
        raw.send(at_ns, tlp);
    }
    let mut fabric = System::new().raw(link, &raw).without_program();
    let arrivals = Arrivals::new(|r| match r.frame {
        Frame::Tlp { tlp, .. } if r.at == Side::Root => Some(tlp.clone()),
        _ => None,
    });
    fabric.set_tap(Box::new(arrivals.clone()));
    let until = Time::ZERO + Duration::from_us(40);
    assert_eq!(fabric.run(Limits { until, ..Limits::default() }), Stop::TimeLimit);
    let device = fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    assert!(device.credit_stalls[column.class().index()] > 0, "{column} did not wait");
    let seen = arrivals.seen.borrow();
    assert_eq!(seen.len(), 3);
    let place = |tlp: &Tlp| seen.iter().position(|s| s.repr == tlp.repr).unwrap();
    place(row) < place(column)
}

/// A cell: the requirement of the table, or our choice if the table allows both.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cell {
    /// "No".
    No,
    /// "Yes".
    Yes,
    /// "Y/N", and passes.
    Passes,
    /// "Y/N", and stays behind: of the same class.
    Stays,
}

/// Columns 2 to 5 for each row, with the letters of the table's entries. The waiting TLP was issued by function 1, tag 5.
#[test]
fn each_cell_of_the_ordering_table_holds() {
    use Cell::{No, Passes, Stays, Yes};
    let completion = Kind::Completion;
    let rows = [
        ("A2a", Posted, NONE, 1, [No, Yes, Yes, Passes]),
        ("A2a, other ID, no IDO", Posted, NONE, 2, [No, Yes, Yes, Passes]),
        ("A2a, IDO, same ID", Posted, IDO, 1, [No, Yes, Yes, Passes]),
        ("A2b, RO", Posted, RO, 1, [Stays, Yes, Yes, Passes]),
        ("A2b, IDO", Posted, IDO, 2, [Stays, Yes, Yes, Passes]),
        ("B2a", Read, NONE, 1, [No, Stays, Stays, Passes]),
        ("B2a, RO does not help a read", Read, RO, 1, [No, Stays, Stays, Passes]),
        ("B2a, IDO, same ID", Read, IDO, 1, [No, Stays, Stays, Passes]),
        ("B2b, IDO", Read, IDO, 2, [Passes, Stays, Stays, Passes]),
        ("C2a", WithData, NONE, 1, [No, Stays, Stays, Passes]),
        ("C2a, IDO, same ID", WithData, IDO, 1, [No, Stays, Stays, Passes]),
        ("C2b, RO", WithData, RO, 1, [Passes, Stays, Stays, Passes]),
        ("C2b, IDO", WithData, IDO, 2, [Passes, Stays, Stays, Passes]),
        ("D2a, D5b", completion, NONE, 1, [No, Yes, Yes, No]),
        ("D2a, No Snoop orders nothing", completion, SNOOP, 1, [No, Yes, Yes, No]),
        ("D2b, RO", completion, RO, 1, [Passes, Yes, Yes, No]),
        ("D2b, IDO", completion, IDO, 2, [Passes, Yes, Yes, Stays]),
    ];
    for (entry, kind, attr, id, cells) in rows {
        for (column, cell) in COLUMNS.into_iter().zip(cells) {
            // D5: completions of one transaction have its requester and tag.
            let tag = if id == 1 { 5 } else { 6 };
            let (later, earlier) = (tlp(kind, attr, id, tag, 2), tlp(column, NONE, 1, 5, 1));
            let what = format!("{entry}: {kind:?} after {column:?}");
            let (rule, passed) = match cell {
                No => (Passing::MustNot, false),
                Yes => (Passing::Must, true),
                Passes => (Passing::May, true),
                Stays => (Passing::May, false),
            };
            assert_eq!(may_pass(&later, &earlier), rule, "{what}");
            assert_eq!(passes(&later, &earlier), passed, "{what}");
        }
    }
}

/// Relaxed Ordering, ID-based Ordering, No Snoop and the Traffic Class arrive unchanged, and return with the
/// completion. The exception is ID-based Ordering, which needs IDO Completion Enable (`PCIe 5.0 §2.2.9`, §2.2.6.4).
#[test]
fn attributes_are_kept_from_end_to_end() {
    for bits in 0..8 {
        let attr = Attributes::from_bits_truncate(bits);
        let raw = Raw::new();
        let sent = [(Posted, 20_000), (Read, 20_100)].map(|(kind, at)| (at, tlp(kind, attr, 0x100, 9, bits)));
        for (at, tlp) in &sent {
            raw.send(*at, tlp.clone());
        }
        let mut fabric = System::new().raw(link(Rate::Gt8, 8, 256), &raw).without_program();
        let arrivals = Arrivals::new(|r| match r.frame {
            Frame::Tlp { tlp, .. } if r.at == Side::Root => Some(tlp.clone()),
            _ => None,
        });
        fabric.set_tap(Box::new(arrivals.clone()));
        let until = Time::ZERO + Duration::from_us(40);
        assert_eq!(fabric.run(Limits { until, ..Limits::default() }), Stop::TimeLimit);
        assert!(
            arrivals.seen.borrow().iter().map(|t| t.repr).eq(sent.iter().map(|(_, t)| t.repr)),
            "{attr:?}"
        );
        let completion = &raw.received()[0];
        assert_eq!(
            (completion.class(), completion.repr.attr),
            (Class::Completion, attr & Attributes::COMPLETED)
        );
        assert_eq!(completion.repr.tc.bits(), bits);
    }
}
