// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what `torture.sh` reports from one machine after another.

use plug::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The result so far, as JSON, or as text by [`Display`](fmt::Display).
#[derive(Serialize, Default, Debug)]
pub struct Tally {
    seed: u64,
    /// Number of faults so far.
    pub faults: u32,
    /// Duration in seconds.
    pub seconds: u64,
    /// Number of machines. Another machine replaces one whose kernel has failed.
    pub machines: u32,
    kinds: BTreeMap<String, u32>,
    rounds_well: u32,
    rounds_failed: u32,
    /// Faults after which functions were rediscovered because the driver had given up.
    rescues: Vec<String>,
    /// Errors of the kernel or of the driver.
    pub findings: Vec<String>,
    /// The faults so far.
    pub schedule: Vec<String>,
}

/// The last line of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LastWord {
    /// The schedule is complete.
    Over,
    /// The driver has no function, or the workload fails without faults.
    Unable(String),
    /// The kernel has failed.
    Gone,
}

impl Tally {
    /// A tally of faults that were drawn from `seed`.
    pub fn new(seed: u64) -> Tally {
        Tally { seed, ..Tally::default() }
    }

    /// Returns whether there are neither faults nor findings.
    pub fn is_empty(&self) -> bool {
        self.faults == 0 && self.findings.is_empty()
    }

    /// Counts a line of `torture.sh`. Returns the last fault.
    pub(super) fn count(&mut self, line: &str) -> Option<LastWord> {
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
                return Some(LastWord::Gone);
            }
            "unable" => return Some(LastWord::Unable(text.to_owned())),
            "over" => return Some(LastWord::Over),
            _ => {}
        }
        None
    }

    /// Adds a finding, unless it repeats that a task still hangs.
    pub fn found(&mut self, text: &str) {
        let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let hangs = |text: &str| text.contains("INFO: task").then(|| without_numbers(text));
        if hangs(text).is_none_or(|new| self.findings.iter().all(|old| hangs(old).as_ref() != Some(&new))) {
            self.findings.push(text.to_owned());
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        let (faults, kinds) = (counted(self.faults, "fault"), kinds.join(", "));
        write!(f, "seed {}: {faults} in {} s ({kinds})", self.seed, self.seconds)?;
        if self.machines > 1 {
            write!(f, "\nmachines: {}, each replaces one that stopped", self.machines)?;
        }
        let (well, failed) = (self.rounds_well, self.rounds_failed);
        write!(f, "\nworkload: {well} rounds succeeded, {failed} failed under faults")?;
        for (what, lines, before) in [
            ("rediscovered after the driver gave up", &self.rescues, "after fault "),
            ("findings", &self.findings, ""),
        ] {
            write!(f, "\n{what}: {}", lines.len())?;
            lines.iter().try_for_each(|line| write!(f, "\n  {before}{line}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_of_the_script() {
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
        assert!(said.iter().all(|line| tally.count(line).is_none()));
        assert_eq!(tally.count("gone fault 3, flr 48: the step does not end"), Some(LastWord::Gone));
        assert_eq!(tally.count("unable no function"), Some(LastWord::Unable("no function".to_owned())));
        assert_eq!(tally.count("over"), Some(LastWord::Over));
        let text = "seed 7: 3 faults in 0 s (cut: 1, flr: 2)\n\
            workload: 1 rounds succeeded, 1 failed under faults\n\
            rediscovered after the driver gave up: 1\n  after fault 2 cut\n\
            findings: 3\n  kernel, after fault 3: INFO: task irq/92:115 blocked for more than 61 seconds.\n  \
            kernel, after fault 3: INFO: task torture:115 blocked for more than 122 seconds.\n  \
            fault 3, flr 48: the step does not end";
        assert_eq!(tally.to_string(), text);
    }
}
