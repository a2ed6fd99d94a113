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
    ("Write and run", &["new", "check", "schema", "run", "lspci", "rtl"]),
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
