// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layout of the help: examples first, commands in groups, and what `riser` alone prints. The texts are those of the commands.

use clap::Command;
use clap::builder::{Resettable, StyledStr};
use std::fmt::Write as _;

/// Text that `riser` prints if it gets no command: the first command for each task.
pub(crate) const OVERVIEW: &str = "\
riser is a PCI Express slot in software. A lab (TOML) has a host, links, and devices in slots.

Write a device        riser new my-device
Run a lab             riser run labs/ping.toml --capture ping.pcapng
Check or draw a lab   riser check labs/ping.toml
Watch its packets     riser trace ping.pcapng
                      riser trace ping.pcapng --html ping.html
Explain refused TLPs  riser decode kernel.log
Measure a device      riser bench --suite LAT_RD BW_WR --gen 4 --lanes 16
Compare settings      riser sweep labs/sweeps/link.toml
Model a server        riser fit measured/ -o my-server.toml
Calculate a limit     riser model bw --size 64..2048
Run a real kernel     riser guest run labs/tree.toml -- lspci -tv
Put RTL in a slot     riser rtl build design.toml
Send TLPs over UDP    riser nettlp read 0x1000 256 -r 192.168.10.1

riser --help lists all commands. riser COMMAND --help has examples of each.";

/// The commands by task, as in `docs/reference/commands.md`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Write and run", &["new", "check", "run", "lspci", "rtl"]),
    ("Measure", &["bench", "sweep", "compare", "fit", "fidelity", "profiles", "model", "paper"]),
    ("Look at packets", &["trace", "decode", "rules"]),
    ("Run a real kernel", &["guest"]),
    ("NetTLP", &["nettlp"]),
    ("Set up the shell", &["completions", "man"]),
];

/// Help of a command. Its examples are the text before the help.
const LAYOUT: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Arranges the help of `riser` and of all commands below it.
pub(crate) fn arrange(riser: Command) -> Command {
    let groups = groups(&riser);
    let layout = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{before-help}}{groups}Options:\n{{options}}{{after-help}}"
    );
    examples_first(riser).help_template(layout)
}

/// Moves the examples of a command before its options. They are the first paragraph of its text after the options.
fn examples_first(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = match text.split_once("\n\n") {
        Some((examples, notes)) => (examples, Resettable::Value(StyledStr::from(notes.to_owned()))),
        None => (text.as_str(), Resettable::Reset),
    };
    command
        .help_template(LAYOUT)
        .before_help(examples.to_owned())
        .after_help(notes)
        .mut_subcommands(examples_first)
}

/// Lists the commands by group, each with its description.
fn groups(riser: &Command) -> String {
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in names {
            let about = riser.find_subcommand(name).and_then(Command::get_about);
            let _ = writeln!(list, "  {name:<12} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, OVERVIEW};
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
        (
            "device",
            "`model nic` takes descriptions of NICs, which are shipped or files, like device profiles",
        ),
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
        all(&crate::command(), "riser", &mut found);
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
                flags
                    .chain([about])
                    .filter(|text| !is_imperative(text))
                    .map(|text| format!("{path}: {text}")),
            );
        }
        assert!(wrong.is_empty(), "not imperative, or a verb that VERBS lacks:\n{}", wrong.join("\n"));
    }

    #[test]
    fn long_options_mean_the_same_in_all_commands() {
        let mut meanings = BTreeMap::<String, BTreeMap<String, Vec<String>>>::new();
        for (path, command) in commands() {
            for (arg, long) in options(&command).filter_map(|arg| Some((arg, arg.get_long()?))) {
                meanings
                    .entry(long.to_owned())
                    .or_default()
                    .entry(meaning(arg))
                    .or_default()
                    .push(path.clone());
            }
        }
        let differ: BTreeMap<_, _> =
            meanings.into_iter().filter(|(_, meanings)| meanings.len() > 1).collect();
        let listed: BTreeSet<&str> = DIFFERENT.iter().map(|(long, _)| *long).collect();
        let found: BTreeSet<&str> = differ.keys().map(String::as_str).collect();
        assert_eq!(found, listed, "{differ:#?}");
    }

    #[test]
    fn each_help_begins_with_examples_that_name_the_command() {
        for (path, mut command) in commands() {
            let help = command.render_help().to_string();
            let [examples, options] = ["\nExample", "\nOptions:"].map(|part| help.find(part));
            assert!(
                examples.is_some() && examples < options,
                "{path}: no examples before the options\n{help}"
            );
            let first = help[examples.unwrap()..].trim_start().lines().take_while(|line| !line.is_empty());
            assert!(first.clone().skip(1).any(|line| line.contains(&path)), "{path}: {help}");
        }
    }

    #[test]
    fn groups_have_each_command_once() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let riser = crate::command();
        let mut all: Vec<&str> =
            riser.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    /// Parses a command line without quotation marks.
    fn parse(line: &str) -> Result<(), clap::Error> {
        crate::command().try_get_matches_from(line.split_whitespace()).map(drop)
    }

    #[test]
    fn overview_is_short_and_its_commands_are_valid() {
        let lines: Vec<&str> = OVERVIEW.lines().collect();
        assert!((15..=20).contains(&lines.len()), "{} lines", lines.len());
        assert!(lines.iter().all(|line| line.len() <= 100));
        let commands =
            lines.iter().filter_map(|line| line.get(22..).filter(|rest| rest.starts_with("riser ")));
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
}
