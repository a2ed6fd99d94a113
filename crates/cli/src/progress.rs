// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bars and spinners on standard error, drawn only where that is a terminal. Never decides what is worth showing.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar; `template` is in indicatif's words. Its length is set by whoever knows it.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Makes a bar of a spinner, as soon as it is known how much there is to do.
pub(crate) fn measure(bar: &ProgressBar, template: &str, length: u64) {
    if bar.length() != Some(length)
        && let Ok(style) = ProgressStyle::with_template(template)
    {
        bar.set_style(style);
        bar.set_length(length);
    }
}

/// Something that turns while nobody knows how long it takes.
pub(crate) fn spinner(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
