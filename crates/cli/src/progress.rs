// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bars and spinners on standard error, drawn only where that is a terminal. Never decides what is worth showing.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar; `template` is in indicatif's words. Its length is set by whoever knows it.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Something that turns while nobody knows how long it takes.
pub(crate) fn spinner(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
