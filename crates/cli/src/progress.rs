// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress bars and spinners on standard error, drawn only if it is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Work that takes longer than this shows progress. A bar is drawn when it is first updated.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two updates of the progress.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// Returns a bar with a `template` of indicatif. The caller sets its length.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Turns a spinner into a bar once the amount of work is known.
pub(crate) fn measure(bar: &ProgressBar, template: &str, length: u64) {
    if bar.length() != Some(length)
        && let Ok(style) = ProgressStyle::with_template(template)
    {
        bar.set_style(style);
        bar.set_length(length);
    }
}

/// Returns a spinner, for work of unknown length.
pub(crate) fn spinner(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Sets the finished and the total amount of work.
pub(crate) fn set(bar: &ProgressBar, done: usize, of: usize) {
    bar.set_length(of as u64);
    bar.set_position(done as u64);
}
