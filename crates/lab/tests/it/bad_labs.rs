// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invalid labs: each is rejected before anything runs, at its line and column, with the legal values.

use devices::models;
use devices::pcie_bench::CARDS;
use proptest::prelude::*;
use riser_lab::profile::HOSTS;
use riser_lab::{BuildOptions, FileError, FileErrors, LabFile, build, parse, read};
use std::fs;
use std::path::{Path, PathBuf};

/// A valid lab of one slot, followed by the text of a row. Its slot `a` is line 2.
fn lab(device: &str, more: &str) -> String {
    format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"{device}\"\n{more}")
}

fn refused(text: &str) -> FileErrors {
    match parse(&models(), Path::new("bad.toml"), text) {
        Ok(_) => panic!("taken:\n{text}"),
        Err(error) => error,
    }
}

type Place = (usize, usize);

/// A case of `cases/labs.txt`: a lab, and the place and parts of the message of each error.
fn case(block: &str) -> (String, Vec<(Place, Vec<&str>)>) {
    let block = block.lines().skip_while(|line| !line.starts_with("--")).collect::<Vec<_>>();
    let device = block[0].trim_start_matches("--").trim();
    let (mut text, mut errors) =
        (if device.is_empty() { String::new() } else { lab(device, "") }, Vec::new());
    for line in &block[1..] {
        let mut parts = line.split("#~");
        let key = parts.next().unwrap().trim_end();
        let row = text.lines().count() + 1;
        for (column, words) in parts.map(|part| part.trim().split_once(": ").unwrap()) {
            let place = if column == "0" { (0, 0) } else { (row, column.parse().unwrap()) };
            errors.push((place, words.split(" | ").collect()));
        }
        text += &if key.is_empty() { String::new() } else { format!("{key}\n") };
    }
    (text, errors)
}

/// A lab without comments is accepted. Errors of a kind are reported together, in the order of places: first TOML
/// syntax, then types and single keys.
#[test]
fn reports_every_error_with_place_and_valid_values() {
    let (models, mut wrong) = (models(), Vec::new());
    for (text, errors) in testkit::cases(include_str!("../cases/labs.txt")).map(|of| case(of.text)) {
        let found = match parse(&models, Path::new("bad.toml"), &text) {
            Err(found) => found,
            Ok(_) if errors.is_empty() => continue,
            Ok(_) => panic!("accepted:\n{text}"),
        };
        let fits = |(error, (place, parts)): (&FileError, &(Place, Vec<&str>))| {
            error.place.unwrap_or((0, 0)) == *place && parts.iter().all(|part| error.message.contains(part))
        };
        let all_fit = found.all().len() == errors.len() && found.all().iter().zip(&errors).all(fits);
        if !all_fit || !found.to_string().starts_with("bad.toml:") {
            wrong.push(format!("{found}\nexpected {errors:?}, of:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

#[test]
fn rejects_empty_large_and_nested_files() {
    let slot = |n: u32| format!("[[slot]]\nname = \"s{n}\"\ndevice = \"memory\"\n");
    let many = format!("version = 1\n{}", (0..32).map(slot).collect::<String>());
    let long = format!("version = 1\n[[slot]]\nname = \"{}\"\ndevice = \"memory\"\n", "x".repeat(65));
    let rows = [
        ("", "empty file"),
        ("# A comment.\n", "missing field `version`, expected 1"),
        (&many, "32 slots and switches on the root complex"),
        (&long, "1 to 64 characters"),
        (&format!("a = {}", "[".repeat(50_000)), "max recursion depth"),
    ];
    for (text, error) in rows {
        let shown = refused(text).to_string();
        assert!(shown.contains(error), "{shown}");
    }
}

/// A folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Paths of profiles are relative to the lab. An error in a profile has its own place.
#[test]
fn reads_profiles_by_path() {
    let folder = folder("own-profiles");
    let (host, card) = (HOSTS.get("ideal").unwrap().text, CARDS.get("ideal").unwrap().text);
    let path = folder.join("lab.toml");
    fs::write(
        &path,
        lab("pcie-bench", "[slot.pcie-bench]\nprofile = \"card.toml\"\n[host]\nprofile = \"host.toml\"\n"),
    )
    .unwrap();
    let rows: [(String, String, &[&str]); 10] = [
        (host.into(), card.into(), &[]),
        (
            host.replace("version = 1", "version = 2"),
            card.into(),
            &["lab.toml:8:11", "host.toml:2:11: version of 2, expected 1"],
        ),
        (
            host.replace("kind = \"host\"", "kind = \"device\""),
            card.into(),
            &["lab.toml:8:11", "host.toml:3:8", "`host`"],
        ),
        (
            host.replace("memory_read_latency_ps", "memory_latency_ps"),
            card.into(),
            &["host.toml:", "unknown field `memory_latency_ps`"],
        ),
        (
            host.replace("value = 10000", "value = 0"),
            card.into(),
            &["completion_timeout_us of 0", "50 to 64000000"],
        ),
        (host.replace("value = 1024", "value = 0"), card.into(), &["max_reads_per_port of 0", "1 to 65536"]),
        (
            host.replace("value = 32", "value = 257"),
            card.into(),
            &["max_host_requests_per_port of 257", "1 to 256"],
        ),
        (
            host.replace("value = 64", "value = 32"),
            card.into(),
            &["host.toml:", "Read Completion Boundary of 32"],
        ),
        (
            host.into(),
            card.replace("value = 256", "value = 0"),
            &["lab.toml:6:11", "outstanding of 0", "1 to 1024"],
        ),
        (
            host.into(),
            card.replace(", source = \"8-bit tags\"", ""),
            &["lab.toml:6:11", "card.toml:", "missing field `source`"],
        ),
    ];
    for (host, card, parts) in rows {
        fs::write(folder.join("host.toml"), host).unwrap();
        fs::write(folder.join("card.toml"), card).unwrap();
        let shown = read(&models(), &path).map(|_| ()).map_err(|e| e.to_string());
        assert_eq!(shown.is_ok(), parts.is_empty(), "{shown:?}");
        let shown = shown.err().unwrap_or_default();
        for part in parts {
            assert!(shown.contains(part), "`{part}` in:\n{shown}");
        }
    }
    fs::remove_file(folder.join("card.toml")).unwrap();
    fs::write(folder.join("host.toml"), host).unwrap();
    let shown = read(&models(), &path).unwrap_err().to_string();
    assert!(shown.contains("no device profile `card.toml`") && shown.contains("lab.toml:6:11"), "{shown}");
    // An endless file, and a folder.
    for name in ["/dev/zero", "."] {
        let shown = refused(&lab("memory", &format!("[host]\nprofile = \"{name}\"\n"))).to_string();
        assert!(shown.contains("not a file of at most 1048576 bytes"), "{shown}");
    }
}

#[test]
fn reports_missing_file() {
    let shown = read(&models(), Path::new("/nonexistent/lab.toml")).unwrap_err().to_string();
    assert!(shown.starts_with("/nonexistent/lab.toml: No such file"), "{shown}");
    let folder = folder("not-text");
    fs::write(folder.join("lab.toml"), b"version = 1 # \xff\n").unwrap();
    let shown = read(&models(), &folder.join("lab.toml")).unwrap_err().to_string();
    assert!(shown.contains("lab.toml") && shown.contains("UTF-8"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn reads_or_rejects_any_text(text in "\\PC{0,200}") {
        if let Err(error) = parse(&models(), Path::new("any.toml"), &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

/// Non-posted data credits: the minimum depends on the receiver (`PCIe 5.0 Table 2-45`; ECN "Deferrable Memory Write"). Rows:
/// the device, keys of its link, the error message.
#[test]
fn non_posted_credits_match_the_receiver() {
    let rows = [
        ("memory", "device_credits = { non_posted_data = 1 }", None),
        ("memory", "root_credits = { non_posted_data = 2 }", None),
        (
            "memory",
            "root_credits = { non_posted_data = 1 }",
            Some("link of slot `a`, root side: NonPosted data credits 1; expected 2 to 2047"),
        ),
        ("memory", "flow_control = \"none\"", None),
    ];
    for (device, keys, refused) in rows {
        let text = lab(device, &format!("[slot.link]\n{keys}\n"));
        let lab = match (parse(&models(), Path::new("credits.toml"), &text), refused) {
            (Ok(lab), None) => lab,
            (Err(error), Some(words)) => {
                let error = error.to_string();
                assert!(error.contains(words) && error.contains("credits.toml:6:"), "{keys}: {error}");
                continue;
            }
            (read, _) => panic!("{keys}: {read:?}"),
        };
        assert_eq!(
            build(&LabFile { lab, base: ".".into() }, BuildOptions::default(), &mut |_, _| unreachable!())
                .err()
                .map(|e| e.to_string()),
            None,
            "{keys}"
        );
    }
}

/// Eight switches of 31 ports need 8 x 33 buses, more than 8 bits can number. The error names the first switch without
/// a bus number.
#[test]
fn rejects_tree_beyond_255_buses() {
    let switches = |n: u32| -> String {
        (0..n).map(|n| format!("[[switch]]\nname = \"s{n}\"\ndownstream_ports = 31\n")).collect()
    };
    let text = |n: u32| format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{}", switches(n));
    parse(&models(), Path::new("good.toml"), &text(7)).unwrap_or_else(|e| panic!("{e}"));
    let error = refused(&text(8)).to_string();
    assert!(error.contains("`s7` needs bus numbers beyond 255: the tree has 265 buses"), "{error}");
    // Line 1, three of the four lines of the slot, and three of each switch before: the name of the eighth.
    assert!(error.contains(":27:8"), "{error}");
}
