// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The help of all commands: its words, its examples, and the meaning of options.

use crate::common::riser_ok;
use clap::{Arg, Command};
use std::collections::{BTreeMap, BTreeSet};

/// First words of the descriptions of commands, and of options without a value.
const VERBS: &str = "Add Allow Answer Build Calculate Check Compare Continue Create Do Draw End Exchange Explain Fetch \
    Fit Include List Look Measure Overwrite Pass Poll Print Read Remove Replace Replay Report Run Score Send Serve Show Skip \
    Write Give Judge";

/// Long options that differ between commands, with the reason.
const DIFFERENT: [(&str, &str); 7] = [
    ("all", "everything of its kind: all scores, all cached parts"),
    ("capture", "`trace -i` captures frames of a network interface, the others TLPs of a lab"),
    ("device", "`model nic` takes descriptions of NICs, which are shipped or files, like device profiles"),
    ("json", "`trace` and `decode` print an object per record"),
    ("output", "a file or a folder, for the main result of the command"),
    ("set", "a device without a lab has settings only"),
    ("size", "of transfers, packets or frames"),
];

/// Collects all commands with their paths, without `riser` itself.
fn all(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    for below in command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()) {
        let path = format!("{path} {}", below.get_name());
        found.push((path.clone(), below.clone()));
        all(below, &path, found);
    }
}

fn commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    all(&riser_cli::command(), "riser", &mut found);
    assert!(found.len() > 40, "{} commands", found.len());
    found
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional())
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Returns the meaning of an option: the first clause of its help.
fn meaning(arg: &Arg) -> String {
    let text = help(arg);
    let ends = [", ", "; ", ": ", ". ", " [", " ("];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

fn is_imperative(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    VERBS.split_whitespace().any(|verb| verb == first)
}

#[test]
fn commands_and_flags_are_described_by_imperatives() {
    let mut wrong = Vec::new();
    for (path, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let flags = options(&command).filter(|arg| !arg.get_action().takes_values()).map(help);
        wrong.extend(
            flags.chain([about]).filter(|text| !is_imperative(text)).map(|text| format!("{path}: {text}")),
        );
    }
    assert!(wrong.is_empty(), "not imperative, or a verb that VERBS lacks:\n{}", wrong.join("\n"));
}

#[test]
fn long_options_mean_the_same_in_all_commands() {
    let mut meanings = BTreeMap::<String, BTreeMap<String, Vec<String>>>::new();
    for (path, command) in commands() {
        for (arg, long) in options(&command).filter_map(|arg| Some((arg, arg.get_long()?))) {
            meanings.entry(long.to_owned()).or_default().entry(meaning(arg)).or_default().push(path.clone());
        }
    }
    let differ: BTreeMap<_, _> = meanings.into_iter().filter(|(_, meanings)| meanings.len() > 1).collect();
    let listed: BTreeSet<&str> = DIFFERENT.iter().map(|(long, _)| *long).collect();
    let found: BTreeSet<&str> = differ.keys().map(String::as_str).collect();
    assert_eq!(found, listed, "{differ:#?}");
}

#[test]
fn each_help_begins_with_examples_that_name_the_command() {
    for (path, mut command) in commands() {
        let help = command.render_help().to_string();
        let [examples, options] = ["\nExample", "\nOptions:"].map(|part| help.find(part));
        assert!(examples.is_some() && examples < options, "{path}: no examples before the options\n{help}");
        let first = help[examples.unwrap()..].trim_start().lines().take_while(|line| !line.is_empty());
        assert!(first.clone().skip(1).any(|line| line.contains(&path)), "{path}: {help}");
    }
}

#[test]
fn groups_have_each_command_once() {
    let help = riser_cli::command().render_help().to_string();
    let (groups, _) = help.split_once("\nOptions:").unwrap();
    let lines = groups.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    // The examples begin with the name of the program.
    let mut grouped: Vec<&str> = lines.filter(|name| *name != "riser").collect();
    grouped.sort_unstable();
    let riser = riser_cli::command();
    let mut all: Vec<&str> =
        riser.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
    all.sort_unstable();
    assert_eq!(grouped, all);
}

/// Parses a command line without quotation marks.
fn parse(line: &str) -> Result<(), clap::Error> {
    riser_cli::command().try_get_matches_from(line.split_whitespace()).map(drop)
}

#[test]
fn overview_is_short_and_its_commands_are_valid() {
    let overview = riser_ok(&[]);
    let lines: Vec<&str> = overview.lines().collect();
    assert!((15..=20).contains(&lines.len()), "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.len() <= 100));
    let commands = lines.iter().filter_map(|line| line.get(22..).filter(|rest| rest.starts_with("riser ")));
    assert!(commands.clone().count() > 10);
    for line in commands {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn old_spellings_of_options_are_accepted() {
    for line in [
        "riser bench --only lat_cmd_sizes --credits default",
        "riser fidelity measured/ --only E5-",
        "riser guest cache list --cache cache",
        "riser guest run lab.toml --memory 1024 --hexdump out.txt --direct --iommu",
        "riser guest serve lab.toml --socket s --nettlp-allow 127.0.0.2,all,rw --nettlp-device 127.0.0.2",
        "riser model bw --size 64 --dllps write=1,0",
        "riser nettlp adapter lab.toml --allow 127.0.0.2,all,rw --device 127.0.0.2",
        "riser nettlp ps -r 127.0.0.1 --memory 0x0+1G",
        "riser nettlp ps -r 127.0.0.1 --memory-end 1G",
        "riser nettlp psmem -r 127.0.0.1 --size 64K --busy",
        "riser nettlp read 0 4 -r 127.0.0.1 --busy",
        "riser nettlp write 0 --hex ff -r 127.0.0.1",
        "riser run lab.toml --capture out.pcapng --tap root",
        "riser trace x.pcapng --check --tags 32",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}
