// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assembles the page of a capture: riser's markup, style and script, the packed capture, and plotly.js. Untrusted
//! text is always escaped.

use super::tables::Meta;
use crate::page::{self, Shell};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{self, BufWriter, Write};

pub(crate) const SHELL: Shell = Shell {
    command: "trace",
    markup: include_str!("page.html"),
    style: include_str!("page.css"),
    scripts: &[
        include_str!("format.js"),
        include_str!("store.js"),
        include_str!("tlp.js"),
        include_str!("filter.js"),
        include_str!("timeline.js"),
        include_str!("list.js"),
        include_str!("payload.js"),
        include_str!("details.js"),
        include_str!("series.js"),
        include_str!("credits.js"),
        include_str!("acks.js"),
        include_str!("units.js"),
        include_str!("plots.js"),
        include_str!("cursors.js"),
        include_str!("marks.js"),
        include_str!("views.js"),
        include_str!("listing.js"),
        include_str!("pointer.js"),
        include_str!("app.js"),
    ],
};

/// Writes the page: the first chunk, the start of the script, the other chunks, then the payloads.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    title: &str,
    meta: &Meta,
    chunks: &[Vec<u8>],
    payloads: &[Vec<u8>],
    out: impl Write,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    SHELL.write_head(file_name(title), &mut out)?;
    page::write_data("meta", meta, &mut out)?;
    for (place, chunk) in chunks.iter().enumerate() {
        writeln!(out, "<script type=\"text/plain\" class=\"chunk\">{}</script>", STANDARD.encode(chunk))?;
        if place == 0 {
            writeln!(out, "<script>riser.start();</script>")?;
        }
    }
    for payload in payloads {
        writeln!(out, "<script type=\"text/plain\" class=\"payload\">{}</script>", STANDARD.encode(payload))?;
    }
    page::write_end(&mut out)
}

/// Returns the last part of a path, which is short enough for a browser tab.
fn file_name(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() { path } else { name }
}
