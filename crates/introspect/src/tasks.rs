// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of processes, which starts and ends at `init_task`. The kernel changes it during the walk.

use crate::kernel::Kernel;
use crate::layout::{COMM_BYTES, TaskLayout};
use crate::report::is_none;
use crate::{Error, PhysicalMemory, half, word};
use serde::Serialize;
use std::collections::HashSet;

/// Number of attempts to read a consistent list.
const ATTEMPTS: u32 = 64;

/// A process, represented by its thread group leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Task {
    /// Physical address of its `task_struct`.
    #[serde(rename = "address")]
    pub physical: u64,
    /// `pid`.
    pub pid: i32,
    /// Letter of the state, as in `ps`.
    pub state: char,
    /// `comm`, with invalid UTF-8 replaced.
    pub name: String,
    /// Kernel address of its `mm_struct`; 0 for a kernel thread.
    #[serde(rename = "is_kernel_thread", serialize_with = "is_none")]
    pub(crate) mm: u64,
}

impl Task {
    /// Returns true if the task has no user memory, because it is a kernel thread or a process that has ended.
    pub fn is_kernel_thread(&self) -> bool {
        self.mm == 0
    }
}

/// Data read from one task.
struct Node {
    task: Task,
    next: u64,
    back: u64,
}

impl<M: PhysicalMemory> Kernel<'_, M> {
    /// Returns all processes in the order of the kernel's list, the idle task first.
    ///
    /// # Errors
    /// [`Error::Torn`] if the list changed during every attempt; errors of [`PhysicalMemory`].
    pub fn tasks(&mut self) -> Result<Vec<Task>, Error<M::Error>> {
        let mut last_break = 0;
        for _ in 0..ATTEMPTS {
            match self.walk()? {
                Ok(tasks) => return Ok(tasks),
                Err(at) => last_break = at,
            }
        }
        Err(Error::Torn(ATTEMPTS, last_break))
    }

    /// Returns the process with this PID.
    ///
    /// # Errors
    /// [`Error::NoProcess`], and those of [`Kernel::tasks`].
    pub fn task(&mut self, pid: i32) -> Result<Task, Error<M::Error>> {
        let tasks = self.tasks()?;
        tasks.into_iter().find(|task| task.pid == pid).ok_or(Error::NoProcess(pid))
    }

    /// Walks the list once. The inner error is the address where the list is inconsistent.
    fn walk(&mut self) -> Result<Result<Vec<Task>, u64>, Error<M::Error>> {
        let head = self.init.address.wrapping_add(self.layout.task.tasks);
        let first = self.node(self.init.physical)?;
        let (mut tasks, mut seen) = (vec![first.task], HashSet::from([head]));
        let (mut here, mut next) = (head, first.next);
        while next != head {
            // The link of an ended process is not a kernel address. `seen` detects a list that loops.
            let Ok(links) = self.physical("a task's link", next) else { return Ok(Err(next)) };
            let Some(physical) = links.checked_sub(self.layout.task.tasks) else { return Ok(Err(next)) };
            let node = match self.node(physical) {
                Err(Error::Refused(_)) => return Ok(Err(next)),
                node => node?,
            };
            if node.back != here || !seen.insert(next) {
                return Ok(Err(next));
            }
            tasks.push(node.task);
            (here, next) = (next, node.next);
        }
        Ok(Ok(tasks))
    }

    fn node(&mut self, physical: u64) -> Result<Node, Error<M::Error>> {
        let layout = self.layout.task.clone();
        let mut bytes = vec![0; (layout.span.end - layout.span.start) as usize];
        self.read(physical.saturating_add(layout.span.start), &mut bytes)?;
        let comm = &bytes[layout.place(layout.comm)..][..COMM_BYTES];
        let name = comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let task = Task {
            physical,
            pid: layout.half(&bytes, layout.pid) as i32,
            state: letter(layout.half(&bytes, layout.state), layout.half(&bytes, layout.exit_state)),
            name: String::from_utf8_lossy(name).into_owned(),
            mm: layout.word(&bytes, layout.mm),
        };
        let next = layout.word(&bytes, layout.tasks);
        let back = layout.word(&bytes, layout.tasks + 8);
        Ok(Node { task, next, back })
    }
}

impl TaskLayout {
    /// Returns the offset of a member in the bytes read from a task.
    fn place(&self, member: u64) -> usize {
        (member - self.span.start) as usize
    }

    pub(crate) fn word(&self, bytes: &[u8], member: u64) -> u64 {
        word(bytes, self.place(member))
    }

    pub(crate) fn half(&self, bytes: &[u8], member: u64) -> u32 {
        half(bytes, self.place(member))
    }
}

/// Returns the letter of a state (Linux, `include/linux/sched.h`: `task_state_index` and
/// `task_index_to_char`).
fn letter(state: u32, exit_state: u32) -> char {
    const UNINTERRUPTIBLE: u32 = 2;
    const NOLOAD: u32 = 0x400;
    const IDLE: u32 = UNINTERRUPTIBLE | NOLOAD;
    /// `TASK_RTLOCK_WAIT` and `TASK_FROZEN`, shown as uninterruptible sleep.
    const DEEP: u32 = 0x1000 | 0x8000;
    /// `TASK_REPORT`: the bits that have letters, from the lowest bit on.
    const REPORT: u32 = 0x7f;
    if state & IDLE == IDLE {
        return 'I';
    }
    let shown = if state & DEEP != 0 { UNINTERRUPTIBLE } else { (state | exit_state) & REPORT };
    let letters = ['R', 'S', 'D', 'T', 't', 'X', 'Z', 'P'];
    letters[(u32::BITS - shown.leading_zeros()) as usize]
}

#[cfg(test)]
mod tests {
    use super::letter;

    #[test]
    fn state_letters_match_ps() {
        let states = [(0, 0, 'R'), (1, 0, 'S'), (2, 0, 'D'), (0x402, 0, 'I'), (4, 0, 'T'), (8, 0, 't')];
        let more = [(0x40, 0, 'P'), (0x80, 0x20, 'Z'), (0x80, 0x10, 'X'), (0x2001, 0, 'S'), (0x8000, 0, 'D')];
        for (state, exit_state, shown) in states.into_iter().chain(more) {
            assert_eq!(letter(state, exit_state), shown, "{state:#x}");
        }
    }
}
