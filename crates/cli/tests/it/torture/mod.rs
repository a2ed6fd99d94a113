// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest torture` of the stock drivers nvme and e1000e: acknowledged data are kept, TCP data arrive as sent, and a kernel that
//! stops is replaced. For the long tests, `RISER_KERNEL` names another kernel, `RISER_FAULTS` is the number of faults, `RISER_SEED` their seed.

use crate::common::driver;
use crate::common::{Outcome, riser};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Workload for nvme: 32 threads write numbered blocks and read them back.
const WRITES: &str = "cp -u /share/acknowledged /tmp; until [ -b /dev/nvme0n1 ]; do sleep 0.1; done; /tmp/acknowledged /dev/nvme0n1 1";
/// Workload for e1000e.
const TCP: &str = "cp -u /share/tcp.sh /share/delivered /tmp; /usr/bin/sh /tmp/tcp.sh";

/// A lab, and a folder shared with the guest.
struct Rig {
    lab: String,
    share: String,
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it")
}

impl Rig {
    fn new(name: &str, lab: &str, program: &str) -> Rig {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("lab.toml"), format!("version = 1\n{lab}")).unwrap();
        let source = tests().join(program);
        driver::compile(std::slice::from_ref(&source), &folder.join(source.file_stem().unwrap()));
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        Rig { lab: path(folder.join("lab.toml")), share: path(folder) }
    }

    fn nvme(name: &str) -> Rig {
        let slot = "[[slot]]\nname = \"ssd\"\ndevice = \"nvme\"\nhot_plug = true\n";
        Rig::new(name, slot, "nvme/acknowledged.c")
    }

    fn nics(name: &str) -> Rig {
        let slot = |name| {
            format!(
                "[[slot]]\nname = \"{name}\"\ndevice = \"intel-82574\"\nhot_plug = true\n\
                 intel-82574 = {{ cable = \"outside\", mac = \"02:00:00:00:00:0{name}\" }}\n"
            )
        };
        let rig = Rig::new(name, &(slot("a") + &slot("b")), "torture/delivered.c");
        fs::copy(tests().join("torture/tcp.sh"), Path::new(&rig.share).join("tcp.sh")).unwrap();
        rig
    }

    fn torture(&self, arguments: &[&str]) -> (Outcome, Value) {
        let fixed = ["guest", "torture", &self.lab, "--json", "--share", &self.share];
        let outcome = riser(&[&fixed, arguments].concat());
        let report = serde_json::from_str(outcome.stdout.trim()).expect(&outcome.stderr);
        (outcome, report)
    }
}

/// The link repairs every fault of this schedule, or the kernel gets a report of it. Without a module there is no driver to test.
#[test]
#[ignore = "of .ci/long torture"]
fn acknowledged_data_are_kept() {
    let rig = Rig::nvme("torture-nvme");
    let fixed = ["--faults", "8", "--seed", "4", "--time-limit", "300", "--workload", WRITES];
    let (outcome, report) = rig.torture(&[&fixed[..], &["--module", "nvme"]].concat());
    assert_eq!((&report["faults"], &report["seed"]), (&8.into(), &4.into()), "{report}");
    let kinds = report["kinds"].as_object().unwrap();
    assert_eq!(kinds.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 8, "{report}");
    assert_eq!(outcome.code, i32::from(report["findings"] != serde_json::json!([])), "{report}");
    assert_eq!(lost(&report), Vec::<&str>::new());
    let outcome = riser(&[&["guest", "torture", &rig.lab], &fixed[..]].concat());
    assert!(outcome.code == 2 && outcome.stderr.contains("--module is missing"), "{}", outcome.stderr);
}

/// The second round of the workload crashes the first kernel after the second fault. Another machine takes the remaining faults, unless a file records one machine only.
#[test]
#[ignore = "of .ci/long torture"]
fn another_machine_takes_remaining_faults() {
    let rig = Rig::nvme("torture-panics");
    let workload = "if [ -e /tmp/ran ] && [ ! -e /share/panicked ]; then until grep -q ^2 /tmp/torture/at; do sleep 0.1; done; echo 'BUG: of a trial' >/dev/kmsg; sleep 1; \
        touch /share/panicked; sync; echo c >/proc/sysrq-trigger; fi; \
        touch /tmp/ran";
    let fixed = ["--faults", "8", "--seed", "4", "--module", "nvme", "--workload", workload];
    let (outcome, report) = rig.torture(&fixed);
    assert_eq!((outcome.code, &report["faults"], &report["machines"]), (1, &8.into(), &2.into()), "{report}");
    let findings = strings(&report["findings"]);
    let said = findings[0].starts_with("kernel, after fault ") && findings[0].ends_with(": BUG: of a trial");
    assert!(said && findings[1].contains("the machine ended: the guest's kernel panicked"), "{report}");

    fs::remove_file(format!("{}/panicked", rig.share)).unwrap();
    let capture = format!("{}/capture.pcapng", rig.share);
    let (outcome, report) = rig.torture(&[&fixed[..], &["--capture", &capture]].concat());
    assert_eq!((outcome.code, &report["machines"]), (1, &1.into()), "{report}");
    assert!(outcome.stderr.contains(": --capture records one machine only"), "{}", outcome.stderr);
    assert!(fs::metadata(capture).unwrap().len() > 10_000);
}

#[test]
#[ignore = "of .ci/long torture"]
fn nvme_survives_thousand_faults() {
    long(&Rig::nvme("torture-nvme-long"), &["--module", "nvme", "--workload", WRITES]);
}

#[test]
#[ignore = "of .ci/long torture"]
fn e1000e_survives_thousand_faults() {
    let packages = ["--package", "iproute2", "--package", "iputils-ping"];
    let driver = ["--cable", "a=b", "--module", "e1000e", "--workload", TCP];
    long(&Rig::nics("torture-e1000e-long"), &[&packages[..], &driver].concat());
}

/// Kernels have their own bugs, which the report lists. But no data are lost, and the schedule completes.
fn long(rig: &Rig, arguments: &[&str]) {
    let of = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.to_owned());
    let (kernel, faults, seed) =
        (of("RISER_KERNEL", "6.1"), of("RISER_FAULTS", "1000"), of("RISER_SEED", "7"));
    let fixed = ["--kernel", &kernel, "--faults", &faults, "--seed", &seed, "--memory-mib", "1024"];
    let (_, report) = rig.torture(&[&fixed, arguments].concat());
    println!("{report:#}");
    assert_eq!(report["faults"].to_string(), faults);
    assert_eq!(lost(&report), Vec::<&str>::new());
}

fn strings(values: &Value) -> Vec<&str> {
    values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

fn lost(report: &Value) -> Vec<&str> {
    strings(&report["findings"]).into_iter().filter(|found| found.contains("lost data")).collect()
}
