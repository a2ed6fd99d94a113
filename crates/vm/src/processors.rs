// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU affinity of QEMU and riser. While a guest waits for an access, riser works, and vice versa. On one processor,
//! neither has to wake another processor, which takes longer than the rest of an access. With several virtual CPUs, the
//! other CPUs have work to do during an access.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::str::FromStr;
use thiserror::Error;

/// A list of processor numbers, such as `0-3,6`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processors(Vec<usize>);

/// Why processors cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProcessorError {
    /// The text is not a list of processors.
    #[error("`{0}`: expected numbers and ranges below {max}, such as 0-3,6", max = CpuSet::MAX_CPU)]
    List(String),
    /// The system's error, and the processors that this process may use.
    #[error("these processors cannot be used ({0}); riser may use {1:?}")]
    Refused(rustix::io::Errno, Vec<usize>),
}

impl FromStr for Processors {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<Processors, ProcessorError> {
        let wrong = || ProcessorError::List(text.to_owned());
        let number =
            |word: &str| word.parse().ok().filter(|n: &usize| *n < CpuSet::MAX_CPU).ok_or_else(wrong);
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            all.extend(first..=last);
        }
        Ok(Processors(all))
    }
}

/// Pins this thread and its future children to `given`. Without `given`, if `busy` is 1, pins them to one processor, which a single busy
/// thread or virtual CPU then shares.
///
/// # Errors
/// If this process may not use any of the processors in `given`.
pub fn pin(given: Option<&Processors>, busy: usize) -> Result<(), ProcessorError> {
    let mut set = CpuSet::new();
    match given {
        Some(Processors(list)) => {
            list.iter().for_each(|processor| set.set(*processor));
            sched_setaffinity(None, &set).map_err(|why| ProcessorError::Refused(why, usable()))
        }
        None if busy == 1 => {
            let usable = usable();
            // Guests that start at the same time get different processors.
            if let Some(processor) = usable.get(std::process::id() as usize % usable.len().max(1)) {
                set.set(*processor);
                // If this fails, the guest only runs slower.
                let _ = sched_setaffinity(None, &set);
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns whether this process has at least one processor more than this number of virtual CPUs.
pub fn has_own_processor(virtual_cpus: usize) -> bool {
    usable().len() > virtual_cpus
}

/// Returns the processors that this thread may run on.
fn usable() -> Vec<usize> {
    let Ok(mine) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|processor| mine.is_set(*processor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_processors() {
        assert_eq!("0-2,6".parse(), Ok(Processors(vec![0, 1, 2, 6])));
        assert_eq!("5".parse(), Ok(Processors(vec![5])));
        for wrong in ["", "a", "3-1", "1,", "0-99999", "-1"] {
            let error = wrong.parse::<Processors>().unwrap_err().to_string();
            assert_eq!(error, format!("`{wrong}`: expected numbers and ranges below 1024, such as 0-3,6"));
        }
    }

    /// Run in threads, because affinity belongs to a thread.
    #[test]
    fn one_virtual_cpu_shares_a_processor_with_riser() {
        let count = |busy| {
            let pinned = std::thread::spawn(move || {
                pin(None, busy).unwrap();
                usable().len()
            });
            pinned.join().unwrap()
        };
        assert_eq!(count(1), 1);
        assert_eq!(count(2), std::thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn refuses_processors_that_do_not_exist() {
        let refused = std::thread::spawn(|| pin(Some(&Processors(vec![1023])), 1).unwrap_err());
        let error = refused.join().unwrap().to_string();
        assert!(error.contains("; riser may use [0"), "{error}");
    }
}
