// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Independent jobs on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs jobs 0 to `count - 1` on `jobs` threads. Passes each result with its number to `take` on the calling thread, in the order of completion.
/// A thread that has a result waits until it is taken.
///
/// # Errors
/// The first error of `take`. Jobs that are running then finish and their results are dropped. No further jobs start.
pub(crate) fn for_each<T: Send, E>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::sync_channel(0);
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone if `take` failed for an earlier job.
                    if at >= count || sender.send((at, work(at))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.into_iter().try_for_each(|(at, result)| take(at, result))
    })
}

#[cfg(test)]
mod tests {
    use super::for_each;

    #[test]
    fn runs_each_job_once() {
        for (count, jobs) in [(0, 1), (1, 4), (100, 1), (100, 3)] {
            let mut seen = vec![0; count];
            for_each(
                count,
                jobs,
                |n| n * n,
                |n, square| {
                    assert_eq!(square, n * n);
                    seen[n] += 1;
                    Ok::<(), ()>(())
                },
            )
            .unwrap();
            assert!(seen.iter().all(|&times| times == 1), "{count} by {jobs}: {seen:?}");
        }
    }

    #[test]
    fn first_error_ends_all_jobs() {
        let refuse = |at, _| if at == 3 { Err(at) } else { Ok(()) };
        assert_eq!(for_each(1_000_000, 1, |at| at, refuse), Err(3));
    }
}
