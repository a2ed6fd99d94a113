// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strays, which are datagrams that answered no request: counts them, and records why the last TLP was dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tlp::Violation;
use tlp::rules::Head;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<Option<(Violation, Head)>> = Mutex::new(None);

pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts a stray that is not a TLP.
pub(crate) fn add() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Counts a TLP, and records the rule that it breaks.
#[cold]
pub(crate) fn add_refused(why: Violation, tlp: &[u8]) {
    add();
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((why, Head::of_bytes(tlp)));
}

/// Returns a text with rule, field, value, legal values and header of the last dropped TLP. The text is empty if no TLP
/// was dropped.
pub(crate) fn reason() -> String {
    let last = *LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.map(|(why, tlp)| format!("{why}: {tlp}")).unwrap_or_default()
}
