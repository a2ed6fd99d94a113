// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits documentation pages into parts, and compares console blocks with the output of their commands. Never runs a command itself.

/// Pages whose commands run in the crate that `riser new copier` creates.
pub(crate) const NEW_CRATE: [&str; 2] = ["docs/tutorial.md", "docs/start/first-device.md"];

/// A part of a page: text, or a fenced block with its language.
pub(crate) enum Part<'a> {
    Text(&'a str),
    Block { language: &'a str, text: &'a str },
}

pub(crate) fn parts(page: &str) -> Vec<Part<'_>> {
    let part = |(n, piece): (usize, _)| {
        if n % 2 == 0 {
            return Part::Text(piece);
        }
        let (language, text) = piece.split_once('\n').unwrap_or((piece, ""));
        Part::Block { language, text }
    };
    page.split("```").enumerate().map(part).collect()
}

/// Removes values that vary, such as the CPU time and the number of events, and spaces at the ends of lines.
fn steady(output: &str) -> String {
    let line = |line: &str| {
        let line = without_number(line.trim_end(), " s of CPU");
        without_number(&line, " events,")
    };
    output.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Replaces the number before `unit` in `line` by a placeholder.
fn without_number(line: &str, unit: &str) -> String {
    let Some((before, after)) = line.split_once(unit) else { return line.to_owned() };
    let kept = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("{kept}_{unit}{after}")
}

/// Returns a console block with the current output of each command. `printed` returns `None` for a command that is not run.
pub(crate) fn rerun(block: &str, mut printed: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::new();
    for command in format!("\n{block}").split("\n$ ").skip(1) {
        let (line, written) = command.split_once('\n').unwrap_or((command, ""));
        let bare = line.split("  #").next().unwrap_or(line).trim_end();
        let output = match printed(bare) {
            Some(now) if steady(&now) == steady(written) => written.trim_end().to_owned(),
            // If a page shows no output of a command, the command is only run.
            Some(_) if written.trim().is_empty() => String::new(),
            Some(now) => now.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned(),
            None => written.trim_end().to_owned(),
        };
        text += &format!("$ {line}\n{output}");
        text += if output.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    }
    text
}
