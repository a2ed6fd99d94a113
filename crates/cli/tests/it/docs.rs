// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the documentation: links have targets, code blocks are from code that runs, commands exist, and they print the output that the
//! page shows. Pages are edited only if `RISER_UPDATE_DOCS` is set, as in `make reference`.

use crate::common::pages::{NEW_CRATE, Part, parts, rerun};
use crate::common::{listed_commands, riser_ok};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::root;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All Markdown files below `folder`.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["target", "out", "templates"].contains(&name.as_str())
        {
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

/// Returns the targets of links, in `](...)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the anchor of a heading: lower case, spaces as hyphens, other punctuation removed.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    let text = parts(page).into_iter().filter_map(|p| if let Part::Text(t) = p { Some(t) } else { None });
    let headings = text.flat_map(str::lines).filter(|l| l.starts_with('#'));
    headings.map(|l| anchor(l.trim_start_matches('#'))).any(|a| a == wanted)
}

/// Returns a message if a link of `page` has no target.
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
fn all_links_have_targets() {
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

/// Tests the check itself.
#[test]
fn finds_broken_links() {
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

/// Links and pages of a site with one error of each kind, checked as `make site` checks those of riser.
#[test]
fn site_check_names_broken_links() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: python3 is not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    let _ = fs::remove_dir_all(&folder);
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let check = || {
        let script = root().join("scripts/links.py");
        let output = Command::new("python3").arg(script).arg(&folder).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    write("docs/SUMMARY.md", "- [A](a.md)\n");
    write("docs/a.md", "# A `b` C\n## C\n## C\n[x](#a-b-c) [y](a.md#c-1) `[z](z)`\n```\n[z](z)\n```\n");
    write("target/book/a.html", "<p id='x'><a href='#x'></a><a href='https://example.org/'></a>");
    assert_eq!(check(), (Some(0), String::new()));

    for (name, text, error) in [
        ("docs/b.md", "# B\n", "0 times in SUMMARY.md"),
        ("docs/c.md", "[x](no.md)", "no such file: no.md"),
        ("docs/d.md", "[x](a.md#d)", "no such anchor: a.md#d"),
        ("target/book/b.html", "<a href='no.html'>", "no such file: no.html"),
        ("target/book/c.html", "<a href='a.html#y'>", "no such anchor: a.html#y"),
        ("target/book/d.html", "<script src='https://example.org/x.js'>", "loads https://example.org/x.js"),
        ("target/book/e.html", "<a href='../../docs/a.md'>", "no such file: ../../docs/a.md"),
    ] {
        write(name, text);
        let (code, errors) = check();
        assert!(code == Some(1) && errors.contains(error), "{name}: {errors}");
        fs::remove_file(folder.join(name)).unwrap();
    }
}

/// Creates a folder for the commands of a page, which contains only the labs.
fn folder_for(page: &Path) -> PathBuf {
    let name = page.file_name().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs").join(name);
    let _ = fs::remove_dir_all(&folder);
    for labs in ["labs", "labs/nic", "labs/sweeps", "labs/refused"] {
        fs::create_dir_all(folder.join(labs)).unwrap();
        for entry in fs::read_dir(root().join(labs)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), folder.join(labs).join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}

/// Returns the output of `riser ...`, possibly through a pipe, in `folder`. Lines on standard error come last. A command may fail; the page
/// then shows the error.
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
    let is_of_riser = stderr.lines().all(|line| line.starts_with("riser: "));
    let is_legal = matches!(output.status.code(), Some(0 | 1)) && is_of_riser;
    assert!(is_legal, "{line}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap() + &stderr
}

fn make_has(target: &str) -> bool {
    read(&root().join("Makefile")).lines().any(|l| l.starts_with(&format!("{target}:")))
}

/// Returns the output of a command, or `None` for a command that is not run but only checked to exist.
fn printed(line: &str, folder: &Path) -> Option<String> {
    if line.starts_with("riser ") || line.starts_with("mkdir ") {
        return Some(shell(line, folder));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let exists = match words[..] {
        ["make", target, ..] => make_has(target),
        ["cargo", "install", "--locked", "--path", path] => root().join(path).join("Cargo.toml").is_file(),
        ["cargo", "nextest", "run", "-p", package, ..] | ["cargo", "test", "-p", package, ..] => {
            package.strip_prefix("riser-").is_some_and(|name| root().join("crates").join(name).is_dir())
        }
        // Other programs are not run.
        ["cargo", "nextest", "run", "--workspace", ..] => true,
        ["wireshark" | "tshark" | "cp", ..] => true,
        _ => false,
    };
    assert!(exists, "no such command: {line}");
    None
}

/// Commands of pages on user devices run in another test, in the crate that they create.
#[test]
fn commands_print_output_shown_in_pages() {
    let mut count = 0;
    for page in pages().into_iter().filter(|page| !NEW_CRATE.iter().any(|own| page.ends_with(own))) {
        let text = read(&page);
        let folder = folder_for(&page);
        let mut anew = text.clone();
        for part in parts(&text) {
            if let Part::Block { language: "console", text: block } = part {
                anew = anew.replace(block, &rerun(block, |line| printed(line, &folder)));
                count += 1;
            }
        }
        testkit::generated(&page, &anew);
    }
    assert!(count >= 4, "{count} blocks");
}

/// Returns the lines below a command of a page.
fn below(page: &str, command: &str) -> Vec<String> {
    let text = read(&root().join(page));
    let begin = format!("$ {command}");
    let lines = text.lines().skip_while(|line| !line.starts_with(&begin)).skip(1);
    lines.take_while(|line| !line.starts_with("$ ") && !line.starts_with("```")).map(str::to_owned).collect()
}

/// Each row has a page, a command in it, and the TLPs that the surrounding text describes.
#[test]
fn shown_packets_match_surrounding_text() {
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
            ][..],
        ),
        (
            "docs/tutorial.md",
            "cargo run -q -- trace out/copier.pcapng --filter",
            &[
                ("BAR 0 source = ", "Addr 0x4000000000"),
                ("BAR 0 destination = ", "Addr 0x4000000008"),
                ("BAR 0 length = 0x10000", "Addr 0x4000000010"),
                ("BAR 0 doorbell = 0x1", "Addr 0x4000000014"),
                ("MRd, len 128, requester 01:00.0", "Addr 0x00001000"),
                ("MRd, len 128, requester 01:00.0", "Addr 0x00001200"),
                ("MRd, len 128, requester 01:00.0", "Addr 0x00001400"),
                ("MRd, len 128, requester 01:00.0", "Addr 0x00001600"),
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

/// Each code block of the README is part of a page whose code is tested, or of a file.
#[test]
fn code_of_readme_is_from_tested_pages() {
    let readme = read(&root().join("README.md"));
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
    let mut count = 0;
    for part in parts(&readme) {
        let Part::Block { language, text } = part else { continue };
        let source = match language {
            "console" => continue,
            "python" => "docs/cocotbext-pcie.md",
            "sh" | "text" => "docs/guest.md",
            _ => panic!("no source for a block of `{language}`"),
        };
        assert!(read(&root().join(source)).contains(text), "not in {source}:\n{text}");
        count += 1;
    }
    assert_eq!(count, 3);
}

/// Each row of the reference names existing commands and arguments, and each command has a row.
#[test]
fn table_of_commands_matches_help() {
    let page = read(&root().join("docs/reference/commands.md"));
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
    for name in listed_commands(&help(&[])) {
        assert!(named.iter().any(|n| n == name), "no row for `riser {name}`");
    }
}

/// `riser --help` and the reference have the same groups of commands.
#[test]
fn groups_of_commands_match_help() {
    let page = read(&root().join("docs/reference/commands.md"));
    let mut groups = Vec::<(String, Vec<String>)>::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            groups.push((heading.to_owned(), Vec::new()));
        } else if let Some((name, _)) =
            line.strip_prefix("| `riser ").and_then(|row| row.split_once([' ', '`']))
        {
            let (_, names) = groups.last_mut().expect("a heading above the table");
            names.extend((names.last().map(String::as_str) != Some(name)).then(|| name.to_owned()));
        }
    }
    groups.retain(|(_, names)| !names.is_empty());
    assert!(groups.len() > 3, "{groups:?}");
    let help = riser_ok(&["--help"]);
    for (heading, names) in groups {
        let group = help.split("\n\n").find(|part| part.starts_with(&format!("{heading}:\n")));
        let rows = group.unwrap_or_else(|| panic!("no group `{heading}`:\n{help}")).lines().skip(1);
        let listed: Vec<_> = rows.filter_map(|row| row.split_whitespace().next()).collect();
        assert_eq!(listed, names, "{heading}");
    }
}
