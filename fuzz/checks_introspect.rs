// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of introspection for any kernel memory. The fuzz target and the tests of `riser-introspect` call them on
//! every seed and on random bytes. A failed check panics.

#[path = "../crates/introspect/tests/it/machine.rs"]
pub(crate) mod machine;

use machine::{Kind, Machine, PID_OF_CODE, Plan};
use riser_introspect::{Btf, Code, Layout, Search, find};

/// Address of the direct map in [`plain`].
pub(crate) const DIRECT: u64 = 0xffff_8b00_4000_0000;

/// Returns a machine without special features.
pub(crate) fn plain() -> Machine {
    Machine::new(&Plan {
        image: 8 << 20,
        image_address: 0xffff_ffff_8a20_0000,
        direct: DIRECT,
        five_levels: false,
        huge_bytes: 0,
        pages: vec![Kind::Small, Kind::Absent, Kind::Forbidden, Kind::Swapped, Kind::Cached],
        skew: 0x123,
        names: ["systemd", "kthreadd", "sh"].map(str::to_owned).to_vec(),
        shift: 8,
    })
}

/// Parses the bytes as type information. Then uses them to change words of a machine's memory: 3 bytes for the
/// place, 8 for the word. Searches must end within a number of reads that depends on the size of the memory.
/// Returns whether a kernel is still found.
pub(crate) fn introspect(script: &[u8]) -> bool {
    if let Ok(btf) = Btf::parse(script) {
        let _ = Layout::new(&btf);
    }
    let mut machine = plain();
    for change in script.chunks_exact(11) {
        let (place, word) = change.split_at(3);
        let place = u64::from_le_bytes([place[0], place[1], place[2], 0, 0, 0, 0, 0]);
        machine.spoil(place, u64::from_le_bytes(word.try_into().expect("8 bytes")));
    }
    // Memory of 3,082 MiB takes 1,541 probes in steps of 2 MiB and 3,082 reads of 1 MiB; candidates may double both. The code of 4 GiB has
    // 2,048 tables, and a walk has a few tasks.
    machine.reads = 20_000;
    let is_found = look(&mut machine);
    assert!(machine.reads > 0, "walk without an end");
    is_found
}

fn look(machine: &mut Machine) -> bool {
    let search = Search { btf: None, memory: Vec::new(), end: 1 << 40 };
    let Ok(mut kernel) = find(machine, search, &mut |_| {}) else { return false };
    let _ = kernel.tasks();
    if let Ok(code) = Code::of(&mut kernel, PID_OF_CODE) {
        let bytes = code.area.end - code.area.start;
        let covered = code.runs.iter().map(|run| run.bytes).sum::<u64>() + code.missing_bytes();
        assert_eq!(covered, bytes, "each byte of the area is either present or missing");
        let mut begin = vec![0; bytes.min(1 << 20) as usize];
        let _ = code.read(&mut kernel, code.area.start, &mut begin);
    }
    true
}
