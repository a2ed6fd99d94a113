// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the real `lspci` (package pciutils, 3.9.0 when this was written) on a dump, and compares its lines with those of `riser lspci -v`. Never
//! builds a configuration space.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number that distinguishes the dumps of one process.
static DUMPS: AtomicU32 = AtomicU32::new(0);

/// Returns the output of `lspci -F` for a dump, with these arguments. Prints that the test is skipped and returns `None` if there is no `lspci`.
pub fn lspci(dump: &str, args: &[&str]) -> Option<String> {
    // `lspci -F` takes a file name.
    let number = DUMPS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("riser-lspci-{}-{number}", std::process::id()));
    std::fs::write(&path, dump).unwrap();
    let out = Command::new("lspci").arg("-F").arg(&path).args(args).stdin(Stdio::null()).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(out) = out else {
        eprintln!("skipped: no lspci (scripts/setup.sh installs it)");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

/// Titles below which riser prints details and `lspci` 3.9.0 only the name: the title in riser, and the title in
/// `lspci`.
const NAMES_ONLY: [(&str, &str); 4] = [
    ("Data Link Feature", "Data Link Feature"),
    ("Physical Layer 16.0 GT/s", "Physical Layer 16.0 GT/s"),
    ("Lane Margining at the Receiver", "Lane Margining at the Receiver"),
    ("Physical Layer 32.0 GT/s", "Extended Capability ID 0x2a"),
];
/// The VC Arbitration Table, and its name in `lspci`.
const TABLE: (&str, &str) = ("VC Arbitration Table [", "Port Arbitration Table [");

/// Names that `lspci` 3.9.0 always follows with `<?>`.
const UNKNOWN: [&str; 5] = [
    "Data Link Feature <?>",
    "Physical Layer 16.0 GT/s <?>",
    "Lane Margining at the Receiver <?>",
    "Port Arbitration Table",
    "Vendor Specific Information: ",
];

/// Panics if `lspci` prints a warning, except about capabilities that it does not know.
pub fn assert_clean(text: &str) {
    for line in text.lines() {
        for complaint in ["!!!", "access denied", "Unknown header"] {
            assert!(!line.contains(complaint), "{complaint}: {line}");
        }
        let known = UNKNOWN.iter().any(|name| line.contains(name));
        assert!(known || !line.contains("<?>"), "{line}");
    }
}

/// Returns the lines of one function in comparable form, with one blank between words. Omits the sizes of BARs, which a
/// dump does not have, the signs for which `lspci` has no words, and the additional lines of riser.
pub fn comparable(text: &str) -> Vec<String> {
    let (mut lines, mut beyond, mut upper_half) = (Vec::new(), false, None);
    for line in text.lines() {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.trim_end_matches(" <?>");
        if words.starts_with("Capabilities: [") {
            beyond = NAMES_ONLY.iter().any(|(title, _)| words.ends_with(title));
        } else if beyond || words.starts_with("Data: ") || is(&upper_half, words) {
            continue;
        }
        upper_half = upper_half_below(words).or(upper_half);
        lines.push(as_lspci(words));
    }
    lines
}

/// Returns the start of the line that `lspci -F` prints for the upper half of a 64-bit BAR, because it treats this half
/// as another BAR.
fn upper_half_below(words: &str) -> Option<String> {
    let (index, _) = words.strip_prefix("Region ")?.split_once(": Memory")?;
    words.contains("64-bit").then(|| format!("Region {}:", index.parse::<u8>().unwrap() + 1))
}

fn is(start: &Option<String>, words: &str) -> bool {
    start.as_ref().is_some_and(|start| words.starts_with(start))
}

/// Removes sizes that `lspci -F` does not print or has truncated (windows beyond 4 PiB), and uses its names.
fn as_lspci(words: &str) -> String {
    let text = match words.split_once(" [size=") {
        Some((before, after)) if words.starts_with("Prefetchable") => {
            format!("{before} {}", after.split_once("] ").unwrap().1)
        }
        Some((before, _)) if !words.contains("behind bridge") => before.to_owned(),
        _ => words.to_owned(),
    };
    NAMES_ONLY.into_iter().chain([TABLE]).fold(text, |text, (ours, theirs)| text.replace(ours, theirs))
}

/// Panics if the lines of a function, without its first line, differ from those of `lspci`.
pub fn assert_same(ours: &str, theirs: &str) {
    let (ours, theirs) = (comparable(ours), comparable(theirs));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    assert_eq!(only(&theirs, &ours), only(&ours, &theirs), "left only in lspci, right only in riser");
    assert_eq!(theirs, ours, "same lines with another order or number");
}

/// Returns the functions of an output with details, each as its first line and the others.
pub fn functions(text: &str) -> Vec<(&str, &str)> {
    text.trim_end().split("\n\n").map(|f| f.split_once('\n').unwrap_or((f, ""))).collect()
}
