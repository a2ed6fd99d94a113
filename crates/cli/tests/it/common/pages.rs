// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the documentation in parts, and commands on them with what they print. Never runs a command itself.

/// A page in parts: text, and blocks between fences with the word behind the first.
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

/// Without what no page promises, the CPU time and the number of events, and blanks at the ends of lines.
fn steady(output: &str) -> String {
    let line = |line: &str| {
        let line = without_number(line.trim_end(), " s of CPU");
        without_number(&line, " events,")
    };
    output.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// `line` with a sign in place of the number before `unit`.
fn without_number(line: &str, unit: &str) -> String {
    let Some((before, after)) = line.split_once(unit) else { return line.to_owned() };
    let kept = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("{kept}_{unit}{after}")
}

/// A console block as it should be: each command with what it prints now; `printed` gives `None` for one that is not run.
pub(crate) fn rerun(block: &str, mut printed: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::new();
    for command in format!("\n{block}").split("\n$ ").skip(1) {
        let (line, written) = command.split_once('\n').unwrap_or((command, ""));
        let bare = line.split("  #").next().unwrap_or(line).trim_end();
        let output = match printed(bare) {
            Some(now) if steady(&now) == steady(written) => written.trim_end().to_owned(),
            // A command whose output is not shown is only run.
            Some(_) if written.trim().is_empty() => String::new(),
            Some(now) => now.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned(),
            None => written.trim_end().to_owned(),
        };
        text += &format!("$ {line}\n{output}");
        text += if output.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    }
    text
}
