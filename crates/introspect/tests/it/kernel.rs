// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the search and the walks on synthetic kernels at various places in memory. Some of them are damaged.

use crate::checks_introspect as checks;
use crate::checks_introspect::machine::{Kind, Machine, PID_OF_CODE, Plan};
use proptest::prelude::*;
use riser_introspect::{Btf, BtfError, Code, Error, Levels, Search, find};

fn search() -> Search {
    Search { btf: None, memory: Vec::new(), end: 1 << 40 }
}

fn plans() -> impl Strategy<Value = Plan> {
    let kinds = [Kind::Small, Kind::Forbidden, Kind::Swapped, Kind::Absent, Kind::Cached, Kind::Stale];
    let kind = proptest::sample::select(kinds.to_vec());
    let places = (8..400_u64, 0..480_u64, any::<bool>(), 0..0x2000_u64);
    let code = (proptest::collection::vec(kind, 1..12), 0..4096_u64, prop_oneof![Just(0), 1..9000_u64]);
    let tasks = proptest::collection::vec("[a-z/:]{1,15}", 1..20);
    (places, code, tasks, 0..40_u64).prop_map(|(places, (pages, skew, huge_bytes), names, shift)| {
        let (physical, address, five_levels, direct) = places;
        let lowest = if five_levels { 0xff11_0000_0000_0000 } else { 0xffff_8880_0000_0000 };
        Plan {
            image: physical << 21,
            image_address: 0xffff_ffff_8000_0000 + (address << 21),
            direct: lowest + (direct << 30),
            five_levels,
            huge_bytes,
            pages,
            skew,
            names,
            shift: shift * 8,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every kernel is found, with its processes and the bytes of their code.
    #[test]
    fn finds_kernel_at_any_address(plan in plans()) {
        let mut machine = Machine::new(&plan);
        let (expected, gaps, places) = (machine.code.clone(), machine.gaps.clone(), machine.tasks.clone());
        let mut kernel = find(&mut machine, search(), &mut |_| {}).unwrap();
        prop_assert_eq!(kernel.direct_map(), plan.direct);
        prop_assert_eq!(kernel.image_offset(), plan.image_address.wrapping_sub(plan.image));
        let tasks = kernel.tasks().unwrap();
        prop_assert_eq!(tasks.iter().map(|task| task.physical).collect::<Vec<_>>(), places);
        prop_assert!(tasks.iter().enumerate().all(|(n, task)| task.pid == n as i32));
        prop_assert_eq!(tasks.into_iter().skip(1).map(|task| task.name).collect::<Vec<_>>(), plan.names);

        let code = Code::of(&mut kernel, PID_OF_CODE).unwrap();
        prop_assert_eq!(code.levels, if plan.five_levels { Levels::Five } else { Levels::Four });
        prop_assert_eq!(code.area.clone(), expected.0..expected.0 + expected.1.len() as u64);
        let mut bytes = vec![0xa5; expected.1.len()];
        code.read(&mut kernel, code.area.start, &mut bytes).unwrap();
        prop_assert!(bytes == expected.1);
        let mut found = vec![false; gaps.len()];
        for gap in &code.gaps {
            let at = (gap.address - code.area.start) as usize;
            found[at..at + gap.bytes as usize].fill(true);
        }
        prop_assert!(found == gaps);
    }

    /// A search in damaged memory ends soon, with a result or an error.
    #[test]
    fn search_in_damaged_memory_ends(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        checks::introspect(&bytes);
    }
}

#[test]
fn fuzz_seeds_pass() {
    let seeds = testkit::seeds("introspect");
    assert!(seeds.len() >= 4);
    let found = seeds.iter().filter(|(_, seed)| checks::introspect(seed));
    assert!(found.count() >= 2, "some lead to a kernel");
}

/// A kernel without its entry code is found by a search of all memory.
#[test]
fn finds_kernel_without_entry_code() {
    let mut machine = checks::plain();
    machine.write(8 << 20, &[0; 16]);
    assert_eq!(find(&mut machine, search(), &mut |_| {}).unwrap().tasks().unwrap().len(), 4);
}

/// A kernel without BTF is found with a BTF file for it, but not with another kernel's.
#[test]
fn takes_type_information_from_file() {
    let mut machine = checks::plain();
    machine.write((8 << 20) + 0x30_0010, &[0; 24]);
    assert!(matches!(find(&mut machine, search(), &mut |_| {}), Err(Error::NoKernel { btfs: 0, .. })));
    let with = |shift| Search { btf: Some(Btf::parse(&Machine::btf(shift)).unwrap()), ..search() };
    assert_eq!(find(&mut machine, with(8), &mut |_| {}).unwrap().tasks().unwrap().len(), 4);
    assert!(matches!(find(&mut machine, with(16), &mut |_| {}), Err(Error::NoKernel { btfs: 0, .. })));
}

/// A list of tasks that loops, or that leads to other memory, is an error after all attempts.
#[test]
fn rejects_inconsistent_task_list() {
    let tasks = checks::plain().tasks;
    for wrong in [tasks[1], tasks[2], 0, u64::MAX] {
        let mut machine = checks::plain();
        let (link, list) = (tasks[2] + 8 + 2 * 24, wrong.wrapping_add(checks::DIRECT + 8 + 2 * 24));
        machine.write(link, &list.to_le_bytes());
        let mut kernel = find(&mut machine, search(), &mut |_| {}).unwrap();
        assert!(matches!(kernel.tasks(), Err(Error::Torn(..))), "{wrong:#x}");
    }
}

#[test]
fn rejects_invalid_type_information() {
    let whole = Machine::btf(8);
    assert!(Btf::parse(&whole).is_ok());
    assert_eq!(Btf::parse(&whole[..20]).err(), Some(BtfError::NoHeader));
    assert!(matches!(Btf::parse(&whole[..whole.len() - 1]), Err(BtfError::Short { .. })));
    for (at, kind) in [(24 + 7, 0), (24 + 7, 20), (24 + 7, 31)] {
        let mut wrong = whole.clone();
        wrong[at] = kind;
        assert!(matches!(Btf::parse(&wrong), Err(BtfError::Type { id: 1, .. })), "{kind}");
    }
}
