// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws a schedule of faults from a seed.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

/// A slot that gets faults.
pub struct TortureSlot {
    name: String,
    hot_plug: bool,
}

impl From<&lab::schema::Slot> for TortureSlot {
    fn from(slot: &lab::schema::Slot) -> TortureSlot {
        TortureSlot { name: slot.name.get_ref().clone(), hot_plug: slot.hot_plug }
    }
}

/// Returns `faults` faults, each as a line for `torture.sh`: a pause in ms, the kind, its parameters. `slots` is not empty.
pub fn schedule(slots: &[TortureSlot], seed: u64, faults: u32) -> Vec<String> {
    let mut draw = Draw(Xoshiro256StarStar::seed_from_u64(seed));
    let line = |_| {
        let pause_ms = draw.below(900) + 50;
        let slot = &slots[draw.below(slots.len() as u64) as usize];
        format!("{pause_ms} {}", draw.fault(slot))
    };
    (0..faults).map(line).collect()
}

struct Draw(Xoshiro256StarStar);

impl Draw {
    /// Returns a number below `limit`. The remainder makes some numbers slightly more likely, which does not matter
    /// here.
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// Returns a fault of one of the next 40 frames.
    fn frame(
        &mut self,
        slot: &TortureSlot,
        name: &str,
        direction: Option<&str>,
        frames: &str,
        action: &str,
    ) -> String {
        let direction = direction.unwrap_or_else(|| self.one(&["upstream", "downstream"]));
        let (name_of_slot, nth) = (&slot.name, self.below(40) + 1);
        format!(
            "{name} slot = \"{name_of_slot}\", direction = \"{direction}\", frames = \"{frames}\", nth = {nth}, {action}"
        )
    }

    fn fault(&mut self, slot: &TortureSlot) -> String {
        let name = &slot.name;
        match self.below(16) {
            0 => self.frame(slot, "damaged", None, "any", "action = \"corrupt\""),
            1 => self.frame(slot, "vanished", None, "tlp", "action = \"drop\""),
            2 => self.frame(slot, "doubled", None, "tlp", "action = \"double\""),
            3 => {
                let delay = format!("action = \"delay\", delay_ns = {}", self.below(20_000_000) + 1000);
                self.frame(slot, "delayed", None, "tlp", &delay)
            }
            4 => {
                let frames = self.one(&["completion", "posted"]);
                self.frame(slot, "poisoned", None, frames, "action = \"poison\"")
            }
            // No function has this ID, so the requester gets no completion.
            5 => {
                let astray = "action = \"set-requester\", new_requester = \"fe:1f.7\"";
                self.frame(slot, "withheld", Some("downstream"), "completion", astray)
            }
            // A completion to the host, without data: after an error a completer sends no more completions of the request.
            6 => {
                let status = self.one(&["unsupported-request", "completer-abort"]);
                let action = format!("action = \"set-status\", status = \"{status}\"");
                self.frame(slot, "refused", Some("upstream"), "completion", &action)
            }
            7 => self.frame(slot, "corrected", Some("upstream"), "tlp", "action = \"corrected-internal\""),
            8 => self.frame(
                slot,
                "uncorrectable",
                Some("upstream"),
                "tlp",
                "action = \"uncorrectable-internal\"",
            ),
            9 => format!("cut {name} {}", self.below(200_000) + 10),
            10 if slot.hot_plug => format!("removal {name}"),
            // The link stays slow and narrow.
            11 => format!("speed {name} 1 1"),
            12 => format!("rebind {}", self.below(64)),
            13 => format!("rescan {}", self.below(64)),
            _ => format!("flr {}", self.below(64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_schedule() {
        let slot = |name: &str, hot_plug| TortureSlot { name: name.to_owned(), hot_plug };
        let slots = [slot("a", true), slot("b", false)];
        let [first, again, other] = [7, 7, 8].map(|seed| schedule(&slots, seed, 2000));
        assert!(first == again && first != other);
        let kinds: std::collections::BTreeSet<&str> =
            first.iter().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
        let has = |fault: &str| first.iter().any(|line| line.ends_with(fault));
        assert!(has("removal a") && !has("removal b"));
        // Each fault is one that a lab file may have.
        for line in first.iter().filter(|line| line.contains("slot = ")) {
            let (_, fault) = line.split_once("slot = ").unwrap();
            let fault = format!("slot = {fault}").replace(", ", "\n");
            let table: toml::Table = toml::from_str(&fault).unwrap();
            assert!(["a", "b"].contains(&table["slot"].as_str().unwrap()), "{line}");
        }
    }
}
