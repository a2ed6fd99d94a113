// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest torture`: a driver's workload while what it drives is cut off, lied to, reset and pulled out. The schedule is drawn here; the
//! guest goes through it (`torture.sh`), and says what it has found.

use super::run::Args as RunArgs;
use crate::failure::Failure;
use plug::Models;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

const EXAMPLE: &str = "\
Examples:
  riser guest torture labs/guest/nvme.toml --module nvme --share . --workload /share/test
  riser guest torture labs/guest/nvme.toml --module nvme --set slot.ssd.hot_plug=true \\
      --package nvme-cli --faults 300 --seed 7 --workload 'nvme id-ctrl /dev/nvme0'
  riser guest torture my.toml --module my.ko --kernel 6.12-debug --memory 1024 \\
      --share . --workload /share/test --json

The workload is a line for the guest's shell. It runs once before all faults, again and again while they come, and once behind them: the first and \
the last run must end well. While faults come it may fail; with status 65 it says that data were lost.
Faults are drawn from --seed, for a slot of the lab each: frames damaged, doubled or held up, packets poisoned, completions astray or with an error, \
internal errors, links that are cut, or become slow and narrow, slots pulled out and put back (hot_plug = true), Function Level Resets, \
drivers unbound, functions removed and found again. The same seed gives the same schedule, though a guest whose time is the wall clock's is elsewhere \
when a fault comes (see --icount).
Findings are what the kernel reports of itself (BUG, WARNING, Oops, lockups, tasks that hang), data that were lost, functions that do not come back, a \
workload that hangs or fails in the end, slabs that grow by an object for each fault, and what kmemleak has where the kernel has that.
--json prints one object: seed, faults, seconds, kinds, rounds_well, rounds_failed, rescues, findings. The exit status is 1 where there are findings.";

/// Run a workload again and again while faults come, and say what the kernel made of them
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[group(id = "torture")]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// What the driver is to do: a line for the guest's shell
    #[arg(long, value_name = "LINE")]
    workload: String,

    /// How many faults
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    faults: u32,
}

/// A slot that can be tortured.
struct Slot {
    name: String,
    hot_plug: bool,
}

pub(crate) fn run(mut args: Args, models: &Models) -> Result<(), Failure> {
    if args.run.has_command() {
        return Err(Failure::Usage("the guest runs what --workload says, and no command".to_owned()));
    }
    let module = args.run.machine().last_module().ok_or_else(|| {
        Failure::Usage("--module is needed: the last one is the driver that is tortured".to_owned())
    })?;
    let file = args.run.lab(models)?;
    let slots: Vec<Slot> = file.lab.slot.iter().map(Slot::of).collect();
    if slots.is_empty() {
        return Err(Failure::Usage("the lab has no slot".to_owned()));
    }
    let json = if args.run.take_json() { "1" } else { "" };
    let environment = [
        ("RISER_MODULE", module),
        ("RISER_WORKLOAD", args.workload),
        ("RISER_SEED", file.lab.seed.to_string()),
        ("RISER_JSON", json.to_owned()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let schedule = schedule(&slots, file.lab.seed, args.faults);
    let programs = [
        ("torture", include_str!("torture.sh").to_owned()),
        ("torture-schedule", format!("#!/vm/busybox sh\ncat <<'END'\n{schedule}END\n")),
    ];
    let programs = programs.map(|(name, text)| (name.to_owned(), text)).to_vec();
    args.run.run_program("torture", programs, environment);
    super::run::run(&args.run, models)
}

impl Slot {
    fn of(slot: &lab::schema::Slot) -> Slot {
        Slot { name: slot.name.get_ref().clone(), hot_plug: slot.hot_plug }
    }
}

/// Faults, a line each, as `torture.sh` reads them.
fn schedule(slots: &[Slot], seed: u64, faults: u32) -> String {
    let mut draw = Draw(Xoshiro256StarStar::seed_from_u64(seed));
    let mut lines = String::new();
    for _ in 0..faults {
        let pause_ms = draw.below(900) + 50;
        let slot = &slots[draw.below(slots.len() as u64) as usize];
        lines += &format!("{pause_ms} {}\n", draw.fault(slot));
    }
    lines
}

struct Draw(Xoshiro256StarStar);

impl Draw {
    /// A number below `limit`; which of them is a little more likely does not matter here.
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// A fault of some frame that is yet to come.
    fn frame(
        &mut self,
        slot: &Slot,
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

    fn fault(&mut self, slot: &Slot) -> String {
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
            // Nobody there has asked for it: whoever has, waits in vain.
            5 => {
                let astray = "action = \"set-requester\", new_requester = \"fe:1f.7\"";
                self.frame(slot, "withheld", Some("downstream"), "completion", astray)
            }
            // An answer to the host, which is whole: behind an error a completer sends no more of what was asked for.
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
            // Slow and narrow from now on.
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
    fn a_seed_says_the_schedule() {
        let slot = |name: &str, hot_plug| Slot { name: name.to_owned(), hot_plug };
        let slots = [slot("a", true), slot("b", false)];
        let [first, again, other] = [7, 7, 8].map(|seed| schedule(&slots, seed, 2000));
        assert!(first == again && first != other);
        assert_eq!(first.lines().count(), 2000);
        let kinds: std::collections::BTreeSet<&str> =
            first.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
        assert!(first.contains("removal a") && !first.contains("removal b"));
        // What a fault is must be one that labs have.
        for line in first.lines().filter(|line| line.contains("slot = ")) {
            let (_, fault) = line.split_once("slot = ").unwrap();
            let fault = format!("slot = {fault}").replace(", ", "\n");
            let table: toml::Table = toml::from_str(&fault).unwrap();
            assert!(["a", "b"].contains(&table["slot"].as_str().unwrap()), "{line}");
        }
    }
}
