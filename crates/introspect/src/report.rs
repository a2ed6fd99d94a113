// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings as JSON and as text.

use crate::{Code, Gap, Kernel, Missing, PhysicalMemory, Task};
use serde::{Serialize, Serializer};
use std::fmt::{Display, Formatter, Result};
use std::ops::Range;

/// Places of a kernel.
#[derive(Serialize)]
pub struct KernelReport {
    init_task_address: Hex,
    image_offset: Hex,
    direct_map: Hex,
    memory: Vec<Piece>,
}

/// Address of the kernel, as text, because many JSON readers cannot hold 64-bit integers exactly.
struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// Physical memory.
#[derive(Serialize)]
struct Piece {
    address: u64,
    length_bytes: u64,
}

impl<M: PhysicalMemory> Kernel<'_, M> {
    /// Returns the places of the kernel.
    pub fn report(&self) -> KernelReport {
        let piece =
            |range: &Range<u64>| Piece { address: range.start, length_bytes: range.end - range.start };
        KernelReport {
            init_task_address: Hex(self.init_task()),
            image_offset: Hex(self.image_offset()),
            direct_map: Hex(self.direct_map()),
            memory: self.memory().iter().map(piece).collect(),
        }
    }
}

impl Missing {
    const fn text(self) -> &'static str {
        match self {
            Missing::NotMapped => "not mapped",
            Missing::Swapped => "swapped out or moving",
            Missing::Refused => "reading its page table was refused",
        }
    }
}

impl Serialize for Missing {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

/// In the form of figure 16b of the NetTLP paper.
impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "code area: {:#x}-{:#x}", self.area.start, self.area.end)?;
        for Gap { address, bytes, why } in &self.gaps {
            write!(f, "\nnot in memory: {address:#x}-{:#x}, {}", address + bytes, why.text())?;
        }
        if self.gaps.is_empty() { f.write_str("\ndump complete") } else { Ok(()) }
    }
}

/// Returns the tasks as a table, as in figure 16a of the NetTLP paper. Replaces control characters: a hostile kernel may choose names that move
/// a terminal's cursor.
pub fn task_table(tasks: &[Task]) -> String {
    let mut text = format!("{:<17} {:>7} STAT COMMAND", "PhyAddr", "PID");
    for Task { physical, pid, state, name, .. } in tasks {
        let name = name.replace(char::is_control, "\u{fffd}");
        text += &format!("\n0x{physical:015x} {pid:>7} {state:<4} {name}");
    }
    text
}

/// Serializes the address of a task's `mm_struct` as [`Task::is_kernel_thread`].
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_none<S: Serializer>(mm: &u64, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_bool(*mm == 0)
}
