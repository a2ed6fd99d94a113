// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the documentation says is so: its links lead somewhere, its code is code that runs, its commands exist, and
//! they print what stands below them. Never edits a page unless `RISER_UPDATE_DOCS` is set, as `make reference` does.

#![cfg(unix)]

/// The name by which the example, in a package of its own, calls the lab.
extern crate lab as riser_lab;

#[path = "../../lab/examples/first_device.rs"]
mod first_device;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLE: &str = include_str!("../../lab/examples/first_device.rs");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All Markdown files below `folder`.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["target", "out"].contains(&name.as_str()) {
            markdown(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
}

fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    markdown(&root(), &mut found);
    assert!(found.len() >= 6, "{found:?}");
    found
}

/// A page in parts: text, and blocks between fences with the word behind the first.
enum Part<'a> {
    Text(&'a str),
    Block { language: &'a str, text: &'a str },
}

fn parts(page: &str) -> Vec<Part<'_>> {
    let part = |(n, piece): (usize, _)| {
        if n % 2 == 0 {
            return Part::Text(piece);
        }
        let (language, text) = piece.split_once('\n').unwrap_or((piece, ""));
        Part::Block { language, text }
    };
    page.split("```").enumerate().map(part).collect()
}

/// What stands in `](...)` of a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchor that a heading has: lower case, blanks as hyphens, other signs left out.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    let text = parts(page).into_iter().filter_map(|p| if let Part::Text(t) = p { Some(t) } else { None });
    let headings = text.flat_map(str::lines).filter(|l| l.starts_with('#'));
    headings.map(|l| anchor(l.trim_start_matches('#'))).any(|a| a == wanted)
}

/// Why a link of `page` leads nowhere.
fn broken(page: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = page.parent().unwrap().join(file);
    let there =
        if file.is_empty() { text.to_owned() } else { fs::read_to_string(&target).unwrap_or_default() };
    let right = (file.is_empty() || target.exists()) && (anchor.is_empty() || has_anchor(&there, anchor));
    (!right).then(|| format!("{}: {link}", page.display()))
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        for part in parts(&text) {
            if let Part::Text(prose) = part {
                count += links(prose).count();
                wrong.extend(links(prose).filter_map(|link| broken(&page, &text, link)));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
    assert!(count > 5, "{count} links");
}

/// The check itself.
#[test]
fn broken_links_are_found() {
    let page = root().join("README.md");
    let text = "# A `b` C\n\n```\n# not a heading\n```\n";
    for (link, right) in [
        ("CONTRIBUTING.md", true),
        ("https://example.org/x", true),
        ("#a-b-c", true),
        ("docs/architecture.md#the-picture", true),
        ("NO-SUCH.md", false),
        ("#not-a-heading", false),
        ("docs/architecture.md#no-such", false),
    ] {
        assert_eq!(broken(&page, text, link).is_none(), right, "{link}");
    }
}

#[test]
fn the_code_of_the_tutorial_is_that_of_the_example() {
    let page = read(&root().join("docs/tutorial.md"));
    let mut rest = EXAMPLE;
    let mut lines = 0;
    for part in parts(&page) {
        let Part::Block { language: "rust", text } = part else { continue };
        let at = rest.find(text).unwrap_or_else(|| {
            panic!(
                "docs/tutorial.md: not, or not in this order, in crates/lab/examples/first_device.rs:\n{text}"
            )
        });
        rest = &rest[at + text.len()..];
        lines += text.lines().count();
    }
    assert!(lines > 80, "{lines} lines of code");
}

/// The manifest of the tutorial, as a table.
fn outside_manifest() -> toml::Table {
    let page = read(&root().join("docs/tutorial.md"));
    let blocks = parts(&page);
    let block = blocks.iter().find_map(|part| match part {
        Part::Block { language: "toml", text } => Some(text.parse().unwrap()),
        _ => None,
    });
    block.expect("docs/tutorial.md has a block of TOML")
}

/// What the tutorial's manifest depends on is what the example uses, and is there under these names.
#[test]
fn a_crate_outside_has_all_that_the_tutorial_uses() {
    let manifest = outside_manifest();
    let dependencies = manifest["dependencies"].as_table().unwrap();
    let mut used: Vec<String> = EXAMPLE
        .lines()
        .filter_map(|line| line.strip_prefix("use ")?.split("::").next())
        .filter(|name| *name != "std")
        .map(|name| name.replace('_', "-"))
        .collect();
    used.sort();
    used.dedup();
    assert_eq!(dependencies.keys().cloned().collect::<Vec<_>>(), used);
    let ours: toml::Table = read(&root().join("Cargo.toml")).parse().unwrap();
    let repository = ours["workspace"]["package"]["repository"].as_str().unwrap();
    for (name, how) in dependencies {
        let package = how.get("package").and_then(toml::Value::as_str).unwrap_or(name);
        let folder = root().join("crates").join(package.strip_prefix("riser-").unwrap());
        assert!(read(&folder.join("Cargo.toml")).contains(&format!("name = \"{package}\"")), "{package}");
        assert_eq!(how["git"].as_str(), Some(repository), "{package}");
    }
}

/// The tutorial's crate, with these sources in place of the repository's.
#[test]
#[ignore = "compiles most crates once more: .ci/long runs it"]
fn a_crate_outside_compiles() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    fs::create_dir_all(folder.join("src")).unwrap();
    let mut manifest = String::from(
        "[package]\nname = \"copier\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n",
    );
    for (name, how) in outside_manifest()["dependencies"].as_table().unwrap() {
        let package = how.get("package").and_then(toml::Value::as_str).unwrap_or(name);
        let path = root().join("crates").join(package.strip_prefix("riser-").unwrap());
        manifest +=
            &format!("{name} = {{ package = \"{package}\", path = {:?} }}\n", path.display().to_string());
    }
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/main.rs"), EXAMPLE).unwrap();
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let status =
        Command::new(env!("CARGO")).args(["check", "--quiet", "--offline"]).current_dir(&folder).status();
    assert!(status.unwrap().success());
}

/// What the tutorial claims: every copy is right, and pieces side by side are faster.
#[test]
fn the_first_device_runs() {
    let table = first_device::run(None).unwrap_or_else(|e| panic!("{e}"));
    let last: Vec<f64> =
        table.lines().last().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [bytes, _, whole_gbps, _, pieces_gbps] = last[..] else { panic!("{table}") };
    assert_eq!(bytes, 65536.0);
    // One direction at a time: half of what the wire has. Both at once: nearly all, 256 of 256 + 20 + 4 bytes.
    assert!((25.0..31.5).contains(&whole_gbps), "{table}");
    assert!((50.0..63.0 * 256.0 / 280.0).contains(&pieces_gbps), "{table}");
}

/// A folder to run a page's commands in: with the labs, and nothing else.
fn folder_for(page: &Path) -> PathBuf {
    let name = page.file_name().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("labs")).unwrap();
    for entry in fs::read_dir(root().join("labs")).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), folder.join("labs").join(entry.file_name())).unwrap();
        }
    }
    folder
}

/// What `riser ...`, perhaps through a pipe, prints in `folder`.
fn shell(line: &str, folder: &Path) -> String {
    let riser = Path::new(env!("CARGO_BIN_EXE_riser")).parent().unwrap();
    let path = format!("{}:{}", riser.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{line}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn make_has(target: &str) -> bool {
    read(&root().join("Makefile")).lines().any(|l| l.starts_with(&format!("{target}:")))
}

/// What a command prints, or `None` for one that is only looked up: it exists.
fn printed(line: &str, folder: &Path) -> Option<String> {
    let example = "cargo run -q -p riser-lab --example first_device";
    if line.starts_with("riser ") || line.starts_with("mkdir ") {
        return Some(shell(line, folder));
    }
    if let Some(arguments) = line.strip_prefix(example) {
        let capture = arguments.strip_prefix(" -- ").map(|path| folder.join(path));
        return Some(first_device::run(capture.as_deref()).unwrap_or_else(|e| panic!("{line}: {e}")));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let exists = match words[..] {
        ["make", target, ..] => make_has(target),
        ["cargo", "install", "--path", path] => root().join(path).join("Cargo.toml").is_file(),
        // Other programs, which are not ours to run.
        ["wireshark" | "tshark" | "cp", ..] => true,
        _ => false,
    };
    assert!(exists, "no such command: {line}");
    None
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

/// A console block as it should be: each command with what it prints now.
fn rerun(block: &str, folder: &Path) -> String {
    let mut text = String::new();
    for command in format!("\n{block}").split("\n$ ").skip(1) {
        let (line, written) = command.split_once('\n').unwrap_or((command, ""));
        let bare = line.split("  #").next().unwrap_or(line).trim_end();
        let output = match printed(bare, folder) {
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

#[test]
fn commands_print_what_the_pages_say() {
    let update = std::env::var_os("RISER_UPDATE_DOCS").is_some();
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        let folder = folder_for(&page);
        let mut anew = text.clone();
        for part in parts(&text) {
            if let Part::Block { language: "console", text: block } = part {
                anew = anew.replace(block, &rerun(block, &folder));
                count += 1;
            }
        }
        if update {
            fs::write(&page, &anew).unwrap();
        } else if anew != text {
            let (old, new) = text.lines().zip(anew.lines()).find(|(a, b)| a != b).unwrap_or_default();
            panic!("{}: says\n{old}\nbut is\n{new}\n`make reference` writes it anew", page.display());
        }
    }
    assert!(count >= 4, "{count} blocks");
}

/// What stands below a command of a page, line by line.
fn below(page: &str, command: &str) -> Vec<String> {
    let text = read(&root().join(page));
    let begin = format!("$ {command}");
    let lines = text.lines().skip_while(|line| !line.starts_with(&begin)).skip(1);
    lines.take_while(|line| !line.starts_with("$ ") && !line.starts_with("```")).map(str::to_owned).collect()
}

/// Rows: a page, a command on it, and what the text around it says that each line is.
#[test]
fn pictures_are_those_of_which_the_text_speaks() {
    let interrupt = "MWr, len 1, requester 01:00.0, tag 0x00, last 0x0, first 0xf, Addr 0xfee00000";
    for (page, command, lines) in [
        (
            "README.md",
            "riser trace out/ping.pcapng --filter",
            &[
                (interrupt, ""),
                ("MWr, len 11", "Addr 0x00004000"),
                ("MWr, len 4", "Addr 0x00002000"),
                (interrupt, ""),
                (interrupt, ""),
                ("MWr, len 25", "Addr 0x00004800"),
                ("MWr, len 4", "Addr 0x00002010"),
                (interrupt, ""),
            ][..],
        ),
        (
            "docs/tutorial.md",
            "riser trace out/first_device.pcapng",
            &[
                ("downstream", "Addr 0x80000000"),
                ("downstream", "Addr 0x80000008"),
                ("downstream", "Addr 0x80000010"),
                ("downstream", "Addr 0x80000014"),
                ("MRd, len 16, requester 01:00.0", "Addr 0x00001000"),
                ("CplD, len 16, completer 00:00.0", ""),
                ("MWr, len 16, requester 01:00.0", "Addr 0x00011000"),
                (interrupt, ""),
            ],
        ),
    ] {
        let shown = below(page, command);
        assert_eq!(shown.len(), lines.len(), "{page}: {shown:#?}");
        for (line, (what, place)) in shown.iter().zip(lines) {
            assert!(line.contains(what) && line.contains(place), "{page}: `{what}`, `{place}` in {line}");
        }
    }
}

/// Each row of the table of commands: its commands are there, and have the arguments that it names.
#[test]
fn the_table_of_commands_is_that_of_the_help() {
    let page = read(&root().join("README.md"));
    let help = |words: &[&str]| {
        let riser = Command::new(env!("CARGO_BIN_EXE_riser")).args(words).arg("--help").output().unwrap();
        assert!(riser.status.success(), "riser {}", words.join(" "));
        String::from_utf8(riser.stdout).unwrap()
    };
    let mut named = Vec::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `riser ")) {
        let cell = row.split(" | ").next().unwrap().replace("\\|", "|");
        for command in cell.trim_end_matches('`').split("`, `riser ") {
            let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '|');
            let words: Vec<&str> = command.split_whitespace().take_while(is_word).collect();
            named.push(words[0].to_owned());
            let (last, above) = words.split_last().unwrap();
            for word in last.split('|') {
                let text = help(&[above, &[word]].concat());
                let flags = command.split(|c: char| !c.is_ascii_lowercase() && c != '-');
                for flag in flags.filter(|word| word.starts_with("--")) {
                    assert!(
                        text.contains(&format!("{flag} ")) || text.contains(&format!("{flag}\n")),
                        "{flag} of {word}"
                    );
                }
            }
        }
    }
    let listed = help(&[]);
    let all =
        listed.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for name in all.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        assert!(named.iter().any(|n| n == name), "README.md has no row for `riser {name}`");
    }
}
