// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules for every command: help with an example, exit statuses, destination of errors. Never tests a result.

use crate::common::{command, finish, listed_commands, riser, riser_ok};
use std::process::Command;

/// Adds a command, and all commands below it that its help lists.
fn commands(path: &[&str], found: &mut Vec<Vec<String>>) {
    let help = riser_ok(&[path, &["--help"]].concat());
    found.push(path.iter().map(|s| (*s).to_owned()).collect());
    for name in listed_commands(&help) {
        commands(&[path, &[name]].concat(), found);
    }
}

/// Maximum width of help in columns, which is clap's own limit.
const HELP_COLUMNS: usize = 100;

#[test]
fn each_help_has_an_example_that_names_the_command() {
    let mut all = Vec::new();
    commands(&[], &mut all);
    assert!(all.contains(&vec!["model".to_owned(), "bw".to_owned()]), "{all:?}");
    for path in all {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        let name = format!("  riser {}", args.join(" "));
        args.push("--help");
        let help = riser_ok(&args);
        let example = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
        let example: Vec<&str> = example.take_while(|line| !line.is_empty()).collect();
        assert!(example.iter().any(|line| line.starts_with(&name)), "{name}: {help}");
        // A longer example would be broken at a word, and could not be copied.
        let breaks = |pair: &[&str]| {
            let next = pair[1].split_whitespace().next().unwrap_or_default();
            next != "riser" && pair[0].len() + 1 + next.len() > HELP_COLUMNS
        };
        assert!(!example.windows(2).any(breaks), "{name}: {example:#?}");
    }
}

/// Every command without subcommands has `--json`, except those whose output has a fixed format.
#[test]
fn each_command_has_json_option() {
    let mut all = Vec::new();
    commands(&[], &mut all);
    let leaves = all.iter().filter(|path| !all.iter().any(|p| p.len() > path.len() && p.starts_with(path)));
    let mut without = Vec::new();
    for path in leaves {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        if !riser_ok(&args).contains("--json") {
            without.push(path.join(" "));
        }
    }
    assert_eq!(without, ["check", "schema", "completions", "man"]);
}

#[test]
fn wrong_usage_has_status_2_and_one_prefix() {
    for args in [
        &["nonsense"][..],
        &["model"],
        &["model", "bw"],
        &["model", "bw", "--size", "64", "--lane", "8"],
        &["model", "bw", "--size", "64", "--lanes", "3"],
    ] {
        let outcome = riser(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{args:?}");
        assert!(outcome.stderr.starts_with("riser: "), "{args:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("error:"), "{args:?}: {}", outcome.stderr);
    }
}

/// An error in an argument, including `--set`, is wrong usage. An error in a file is a failed run.
#[test]
fn errors_in_arguments_and_files_have_different_statuses() {
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ping.toml");
    let bad = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("usage-bad.toml");
    std::fs::write(&bad, "version = 3\n").unwrap();
    let bad = bad.to_str().unwrap();
    for command in ["run", "check", "lspci"] {
        for (args, status, said) in [
            (&[lab, "--set", "nonsense"][..], 2, "--set nonsense: expected KEY=VALUE"),
            (&[lab, "--set", "slot.nic.link.gen=9"], 2, "generation 9, expected 1, 2, 3, 4, 5"),
            (&[lab, "--set", "host.profile=./none"], 2, "labs/none: No such file"),
            (&[bad], 1, "usage-bad.toml:1:11: version of 3"),
            (&[bad, "--set", "colour=3"], 1, "usage-bad.toml:1:11: version of 3"),
            (&["/none.toml"], 1, "/none.toml: No such file"),
        ] {
            let outcome = riser(&[&[command], args].concat());
            assert_eq!(
                (outcome.code, outcome.stdout.as_str()),
                (status, ""),
                "{command} {args:?}: {}",
                outcome.stderr
            );
            assert!(outcome.stderr.contains(said), "{command} {args:?}: {}", outcome.stderr);
        }
    }
    for more in [&[][..], &["--format", "pcie-bench", "-o", "/none"]] {
        for (host, status) in [("cray-1", 2), (bad, 1)] {
            let outcome = riser(&[&["bench", "--host", host], more].concat());
            assert_eq!(outcome.code, status, "{more:?}: {}", outcome.stderr);
        }
    }
}

/// Errors quote only the useful part of very long arguments.
#[test]
fn errors_shorten_long_arguments() {
    let long = "x".repeat(100_000);
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ping.toml");
    for args in [
        &["run", lab, "--set", &format!("slot.nic.{long}=1")][..],
        &["run", lab, "--set", &format!("slot.nic.device={long}")],
        &["run", lab, "--set", &format!("slot.nic.link.gen='{long}'")],
        &["run", &long],
        &["bench", "--host", &long],
        &["bench", "--lanes", &long],
        &["bench", &format!("--{long}")],
        &["trace", lab, "--filter", &long],
    ] {
        let outcome = riser(args);
        assert!(outcome.code != 0 && outcome.stderr.contains(" characters ...]"), "{}", outcome.stderr.len());
        assert!(outcome.stderr.len() < 3_000, "{}", outcome.stderr);
    }
}

#[test]
fn riser_alone_prints_a_short_overview() {
    let overview = riser_ok(&[]);
    assert!((15..=20).contains(&overview.lines().count()), "{overview}");
    for task in ["riser new", "riser run", "riser trace", "riser bench", "riser guest run", "riser rtl build"]
    {
        assert!(overview.contains(task), "{task}: {overview}");
    }
}

#[test]
fn prints_version_and_commit() {
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let version = match head {
        Ok(head) if head.status.success() => {
            format!("{} ({})", env!("CARGO_PKG_VERSION"), String::from_utf8_lossy(&head.stdout[..12]))
        }
        _ => env!("CARGO_PKG_VERSION").to_owned(),
    };
    assert_eq!(riser_ok(&["--version"]), format!("riser {version}\n"));
}

/// An adapter does not answer peers that are not in its list, so it looks absent. The error names what to check.
#[test]
fn unanswered_read_names_what_to_check() {
    let silent = |port| std::net::UdpSocket::bind(("127.13.62.1", port)).unwrap();
    let silent: Vec<_> = (0x3000..=0x300f).map(silent).collect();
    let read =
        ["nettlp", "read", "0", "4", "--remote", "127.13.62.1", "--local", "127.13.62.2", "-b", "1b:00.0"];
    let outcome =
        riser(&[&read[..], &["--scheme", "paper", "--timeout-ms", "20", "--retries", "1"]].concat());
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("was not answered"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("set this host's with -l"), "{}", outcome.stderr);
    drop(silent);
}

#[test]
fn negative_values_are_refused_by_their_option() {
    let rows: [(&[&str], &str); 6] = [
        (
            &["trace", "--check", "--tag-count", "-1", "x"],
            "invalid value '-1' for '--tag-count <COUNT>': expected 32, 256 or 1024",
        ),
        (&["trace", "--check", "--limit", "-1", "x"], "invalid value '-1' for '--limit <COUNT>'"),
        (
            &["trace", "--check", "--timeout", "-5ms", "x"],
            "invalid value '-5ms' for '--timeout': expected a value that is not negative",
        ),
        (
            &["trace", "--gen", "-1", "--lanes", "4", "x"],
            "invalid value '-1' for '--gen <GEN>': expected a whole number from 1 to 5",
        ),
        (
            &["nettlp", "perf", "read", "-O", "-1", "-r", "127.0.0.1"],
            "invalid value '-1' for '--outstanding <COUNT>'",
        ),
        (
            &["nettlp", "perf", "read", "--batch", "9", "-O", "8", "-r", "127.0.0.1"],
            "--batch 9: expected 1 to 8, the value of --outstanding",
        ),
    ];
    for (args, why) in rows {
        let outcome = riser(args);
        assert_eq!(outcome.code, 2, "{args:?}");
        assert!(outcome.stderr.starts_with(&format!("riser: {why}")), "{args:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("tip:"), "{args:?}: {}", outcome.stderr);
    }
}

/// A NIC's tests have different profiles, and one frame at a time or many.
#[test]
fn bench_heading_has_the_profile_of_each_test() {
    let args = ["--size", "64", "--transfers", "600", "--warm-up", "600"];
    let text = riser_ok(&[&["bench", "--model", "packet-nic"][..], &args].concat());
    let heading = text.lines().next().unwrap();
    assert!(heading.contains("device pio (LAT_LOOP), dpdk (BW_LOOP), Gen3 x8"), "{heading}");
    assert!(heading.ends_with("; 1 (LAT_LOOP), 64 (BW_LOOP) outstanding"), "{heading}");
}

#[test]
fn refused_commands_name_valid_values() {
    for case in testkit::cases(include_str!("../cases/refused-commands.txt")) {
        let input = case.input();
        let args: Vec<&str> = input.split_whitespace().skip(1).collect();
        let outcome = finish(command(&args).current_dir(testkit::root()));
        let (code, says) = case.expected()[0].split_once(' ').unwrap();
        assert_eq!(
            (outcome.code.to_string().as_str(), outcome.stdout.as_str()),
            (code, ""),
            "{}{}",
            case.text,
            outcome.stderr
        );
        assert!(
            outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says),
            "{}\n{}",
            case.text,
            outcome.stderr
        );
    }
}
