// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that need several links or DLLPs: order of posted requests, credits, replays, and links that come up again.

use crate::common::{Link, Links, completion, memory, read_and_answer, reader, write};
use riser_capture::Mark;
use riser_capture::check::{Checker, Finding, FunctionOverrides, NotJudged, Summary};
use tlp::{
    Attributes, Class, Data, Dllp, FlowControl, FlowControlKind, MemoryOp, Status, Tlp, TrafficClass, Vc,
};

fn judge(capture: &[u8]) -> (Vec<Finding>, Summary) {
    let (mut reader, mut checker) = (reader(capture), Checker::new(FunctionOverrides::default()));
    while let Some(record) = reader.next_record().unwrap() {
        checker.see(&record);
    }
    checker.finish();
    (std::iter::from_fn(|| checker.next_finding()).collect(), checker.summary())
}

fn rules(capture: &[u8]) -> Vec<(u64, &'static str)> {
    judge(capture).0.iter().map(|finding| (finding.number, finding.violation.rule().name)).collect()
}

/// Sends writes over the links of a tree, from the disk up. `seen` has the link and the index of each write.
fn order(writes: &[Tlp], seen: &[(usize, usize)]) -> Vec<(u64, &'static str)> {
    let mut links = Links::new(&["upper", "lower", "disk"]);
    seen.iter().for_each(|&(link, index)| _ = links.tlp(link, true, &writes[index]));
    rules(&links.finish())
}

#[test]
fn finds_write_that_passes_another_in_switch() {
    let (first, second) = (write(0x1000, 4), write(0x2000, 4));
    let with = |attr, requester| {
        let mut tlp = memory(MemoryOp::Write, requester, 0, 0x2000, 4, Data::Counted(4));
        tlp.repr.attr = attr;
        tlp
    };
    let swapped = [(2, 0), (2, 1), (1, 1), (1, 0)];
    let passed: &[(u64, &str)] = &[(4, "posted-order")];
    let ido = Attributes::ID_BASED_ORDERING;
    let mut other_tc = second.clone();
    other_tc.repr.tc = TrafficClass::from_bits(1);
    let rows = [
        (second.clone(), passed),
        (with(Attributes::RELAXED_ORDERING, 0x100), &[]),
        (with(ido, 0x100), passed),
        (with(ido, 0x200), &[]),
        (with(Attributes::NO_SNOOP, 0x200), passed),
        (other_tc, &[]),
    ];
    for (second, due) in rows {
        assert_eq!(order(&[first.clone(), second], &swapped), due);
    }
    let both = [first, second];
    assert_eq!(order(&both, &[(2, 0), (2, 1), (1, 0), (1, 1), (0, 0), (0, 1)]), []);
    // The write is passed in the second switch.
    assert_eq!(order(&both, &[(2, 0), (2, 1), (1, 0), (1, 1), (0, 1), (0, 0)]), [(6, "posted-order")]);
    // A write that never leaves, then the same write again.
    assert_eq!(order(&both, &[(2, 0), (2, 1), (1, 1), (2, 0), (1, 0)]), []);
    // If writes enter on two links, their order is not defined.
    assert_eq!(order(&both, &[(2, 0), (1, 1), (0, 1), (0, 0)]), []);
}

fn init_fc(link: &mut Link, up: bool, class: Class, header: u8, data: u16) {
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2] {
        let fc = FlowControl::new(kind, class, Vc::VC0, header, data);
        link.dllp(up, Dllp::FlowControl(fc), Mark::default());
    }
}

#[test]
fn finds_tlp_without_credits() {
    let mut link = Link::new();
    init_fc(&mut link, false, Class::Posted, 2, 5);
    let sound = Mark::default();
    // 64 bytes need four data credits. Then one is left, which is not enough for the second write.
    link.tlp(true, &write(0x1000, 64), sound).tlp(true, &write(0x2000, 64), sound);
    let update = FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::VC0, 4, 20);
    link.dllp(false, Dllp::FlowControl(update), sound).tlp(true, &write(0x3000, 64), sound);
    let (findings, _) = judge(&link.finish());
    let found: Vec<(u64, String)> = findings.iter().map(|f| (f.number, f.violation.to_string())).collect();
    assert_eq!(found, [(4, "credits 4, expected 1 (PCIe 5.0 §2.6.1.2, rule credits)".to_owned())]);
}

#[test]
fn ignores_replays_and_lost_tlps() {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let dropped = Mark { dropped: true, ..Mark::default() };
    let mut link = Link::new();
    link.tlp(true, &read, dropped).again(true, &read, 0, Mark::default()).again(
        true,
        &read,
        0,
        Mark::default(),
    );
    link.tlp(false, &answer, Mark::default());
    let (findings, summary) = judge(&link.finish());
    assert_eq!(findings, []);
    assert_eq!(summary.not_judged.len(), 1);
    assert_eq!((summary.not_judged[0].reason, summary.not_judged[0].count), (NotJudged::NotTaken, 2));
}

#[test]
fn drops_requests_when_link_comes_up_again() {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let mut link = Link::new();
    init_fc(&mut link, false, Class::NonPosted, 8, 8);
    link.tlp(true, &read, Mark::default());
    init_fc(&mut link, false, Class::Posted, 8, 8);
    link.again(true, &read, 0, Mark::default()).tlp(false, &answer, Mark::default());
    let (findings, summary) = judge(&link.finish());
    assert_eq!(findings, []);
    assert_eq!((summary.not_judged[0].reason, summary.not_judged[0].count), (NotJudged::LinkDown, 1));
}

/// Many requesters without completions: memory is bounded, and the other requests are only counted.
#[test]
fn limits_number_of_outstanding_requests() {
    let mut checker = Checker::new(FunctionOverrides::default());
    let mut links = Links::new(&["disk"]);
    for n in 0..70_000u32 {
        let read = memory(MemoryOp::Read, (n >> 8) as u16, (n & 0xff) as u16, 0x1000, 4, Data::NONE);
        links.tlp(0, true, &read);
    }
    let late = Tlp::new(completion(0x0110, 0xff, 4, Some(1), Status::Success), Data::Counted(4));
    links.tlp(0, false, &late);
    let capture = links.finish();
    let mut reader = reader(&capture);
    while let Some(record) = reader.next_record().unwrap() {
        checker.see(&record);
    }
    checker.finish();
    assert_eq!(checker.next_finding(), None);
    let counts: Vec<(NotJudged, u64)> =
        checker.summary().not_judged.iter().map(|of| (of.reason, of.count)).collect();
    let untracked = 70_000 - 65_536;
    assert_eq!(
        counts,
        [
            (NotJudged::BeforeRequest, 1),
            (NotJudged::Untracked, untracked),
            (NotJudged::OutstandingAtEnd, 65_536)
        ]
    );
}
