// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is heard of the machines that are tortured, one after another, and the report of it.

use crate::failure::Failure;
use crate::output;
use plug::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How a torture has gone; `--json` prints it.
#[derive(Serialize, Default, Debug)]
pub(super) struct Tally {
    seed: u64,
    /// How many have come.
    pub(super) faults: u32,
    pub(super) seconds: u64,
    /// How many were begun: another one takes the place of one that does not go on.
    pub(super) machines: u32,
    kinds: BTreeMap<String, u32>,
    rounds_well: u32,
    rounds_failed: u32,
    /// The faults behind which functions were found anew, since the driver had given up.
    rescues: Vec<String>,
    pub(super) findings: Vec<String>,
    /// The faults that have come.
    pub(super) schedule: Vec<String>,
}

/// What a machine has said of itself as its last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Last {
    /// It has gone through all of the schedule.
    Over,
    /// There is nothing to torture.
    Unable(String),
    /// Its kernel does not go on.
    Gone,
}

impl Tally {
    pub(super) fn new(seed: u64) -> Tally {
        Tally { seed, ..Tally::default() }
    }

    /// Whether there is nothing to tell.
    pub(super) fn is_empty(&self) -> bool {
        self.faults == 0 && self.findings.is_empty()
    }

    /// Takes a line of `torture.sh`; what it says as its last.
    pub(super) fn hear(&mut self, line: &str) -> Option<Last> {
        let (verb, text) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "fault" => {
                self.faults += 1;
                let kind = text.split(' ').nth(1).unwrap_or_default();
                *self.kinds.entry(kind.to_owned()).or_default() += 1;
            }
            "round" if text == "well" => self.rounds_well += 1,
            "round" => self.rounds_failed += 1,
            "rescue" => self.rescues.push(text.to_owned()),
            "found" => self.found(text),
            "gone" => {
                self.found(text);
                return Some(Last::Gone);
            }
            "unable" => return Some(Last::Unable(text.to_owned())),
            "over" => return Some(Last::Over),
            _ => {}
        }
        None
    }

    /// Keeps a finding, unless it tells again of what has lasted since the one before.
    pub(super) fn found(&mut self, text: &str) {
        let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let hangs = |text: &str| text.contains("INFO: task").then(|| without_numbers(text));
        if hangs(text).is_none_or(|new| self.findings.iter().all(|old| hangs(old).as_ref() != Some(&new))) {
            self.findings.push(text.to_owned());
        }
    }

    /// Prints it.
    pub(super) fn report(&self, json: bool) -> Result<(), Failure> {
        if json { output::json(self) } else { output::text(self.text().trim_end()) }
    }

    fn text(&self) -> String {
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        let mut text = format!(
            "seed {}: {} in {} s ({})\n",
            self.seed,
            counted(self.faults, "fault"),
            self.seconds,
            kinds.join(", ")
        );
        if self.machines > 1 {
            _ = writeln!(text, "machines: {}, each in place of one that did not go on", self.machines);
        }
        _ = writeln!(
            text,
            "workload: {} rounds ended well, {} failed under faults",
            self.rounds_well, self.rounds_failed
        );
        for (what, lines, before) in [
            ("found anew, since the driver had given up", &self.rescues, "after fault "),
            ("findings", &self.findings, ""),
        ] {
            _ = writeln!(text, "{what}: {}", lines.len());
            lines.iter().for_each(|line| _ = writeln!(text, "  {before}{line}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted() {
        let mut tally = Tally::new(7);
        let said = [
            "alive",
            "begun",
            "fault 1 flr",
            "round well",
            "fault 2 cut",
            "round failed",
            "rescue 2 cut",
            "fault 3 flr",
            "found kernel, after fault 3: INFO: task irq/92:115 blocked for more than 61 seconds.",
            "found kernel, after fault 3: INFO: task irq/92:115 blocked for more than 122 seconds.",
            "found kernel, after fault 3: INFO: task torture:115 blocked for more than 122 seconds.",
            "who knows",
        ];
        assert!(said.iter().all(|line| tally.hear(line).is_none()));
        assert_eq!(tally.hear("gone fault 3, flr 48: it does not end"), Some(Last::Gone));
        assert_eq!(tally.hear("unable no function"), Some(Last::Unable("no function".to_owned())));
        assert_eq!(tally.hear("over"), Some(Last::Over));
        let text = "seed 7: 3 faults in 0 s (cut: 1, flr: 2)\n\
            workload: 1 rounds ended well, 1 failed under faults\n\
            found anew, since the driver had given up: 1\n  after fault 2 cut\n\
            findings: 3\n  kernel, after fault 3: INFO: task irq/92:115 blocked for more than 61 seconds.\n  \
            kernel, after fault 3: INFO: task torture:115 blocked for more than 122 seconds.\n  \
            fault 3, flr 48: it does not end\n";
        assert_eq!(tally.text(), text);
    }
}
