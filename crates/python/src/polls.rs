// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For how long Python has been in a coroutine of a run: so that one that never yields is found, by whoever looks from another thread.

use crate::coroutine;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Stands for no poll.
const NONE: u64 = u64::MAX;

thread_local! {
    static CURRENT: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// The clock of the coroutines of a run.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Polls(Arc<AtomicU64>);

#[pymethods]
impl Polls {
    #[new]
    fn new() -> Polls {
        Polls(Arc::new(AtomicU64::new(NONE)))
    }

    /// Seconds since a coroutine was polled that has not yielded; None where none is.
    fn seconds(&self) -> Option<f64> {
        match self.0.load(Ordering::Relaxed) {
            NONE => None,
            since => Some(now_ms().saturating_sub(since) as f64 / 1e3),
        }
    }
}

fn now_ms() -> u64 {
    BEGINNING.elapsed().as_millis() as u64
}

/// What `within` gives, a run; its coroutines are on this clock. That of the run around it stands still: the coroutine that runs this one
/// does something.
pub(crate) fn with<T>(polls: &Polls, within: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(Some(Arc::clone(&polls.0)));
    if let Some(clock) = &before {
        clock.store(NONE, Ordering::Relaxed);
    }
    let result = coroutine::apart(within);
    if let Some(clock) = &before {
        clock.store(now_ms(), Ordering::Relaxed);
    }
    CURRENT.set(before);
    result
}

/// A poll begins, or ends where `begins` is false.
pub(crate) fn note(begins: bool) {
    CURRENT.with_borrow(|clock| {
        if let Some(clock) = clock {
            clock.store(if begins { now_ms() } else { NONE }, Ordering::Relaxed);
        }
    });
}
