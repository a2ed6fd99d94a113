// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On which processors QEMU and riser run. While a guest waits for an access, riser works, and the other way round: on one processor no
//! other has to be woken for it, which takes longer than all the rest of an access. With several virtual CPUs there is other work meanwhile.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Processors, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cpus(Vec<usize>);

/// Reads a list as `0-3,6`.
pub(super) fn list(text: &str) -> Result<Cpus, String> {
    let wrong = || format!("`{text}`: legal are numbers and ranges below {}, as 0-3,6", CpuSet::count());
    let number = |word: &str| word.parse().ok().filter(|n: &usize| *n < CpuSet::count()).ok_or_else(wrong);
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    Ok(Cpus(all))
}

/// Has this thread, and what it starts from now on, run on `asked`, or where that is best for so many virtual CPUs, and for whatever else always has
/// work to do.
///
/// # Errors
/// None of those that were asked for may be used.
pub(super) fn place(asked: Option<&Cpus>, at_work: usize) -> Result<(), String> {
    let me = Pid::from_raw(0);
    let mut set = CpuSet::new();
    match asked {
        Some(Cpus(cpus)) => {
            // `list` has made sure of their numbers.
            cpus.iter().for_each(|cpu| _ = set.set(*cpu));
            sched_setaffinity(me, &set).map_err(|e| format!("{e}; riser may use {:?}", usable()))
        }
        None if at_work == 1 => {
            let may = usable();
            // Guests that begin at the same time do not all choose the same.
            if let Some(cpu) = may.get(std::process::id() as usize % may.len().max(1)) {
                _ = set.set(*cpu);
                // Without it the guest runs as well, only slower.
                _ = sched_setaffinity(me, &set);
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Whether this process has a processor that none of so many virtual CPUs needs.
pub(super) fn has_own_processor(virtual_cpus: usize) -> bool {
    usable().len() > virtual_cpus
}

/// The processors that this thread may run on.
fn usable() -> Vec<usize> {
    let Ok(mine) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|cpu| mine.is_set(*cpu).unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(list("0-2,6"), Ok(Cpus(vec![0, 1, 2, 6])));
        assert_eq!(list("5"), Ok(Cpus(vec![5])));
        for wrong in ["", "a", "3-1", "1,", "0-99999", "-1"] {
            assert!(list(wrong).unwrap_err().contains("legal are numbers and ranges"), "{wrong}");
        }
    }

    /// In a thread of its own, whose place is nobody else's.
    #[test]
    fn one_virtual_cpu_shares_a_processor_with_riser() {
        let count = |at_work| {
            let placed = std::thread::spawn(move || {
                place(None, at_work).unwrap();
                usable().len()
            });
            placed.join().unwrap()
        };
        assert_eq!(count(1), 1);
        assert_eq!(count(2), std::thread::available_parallelism().unwrap().get());
    }
}
