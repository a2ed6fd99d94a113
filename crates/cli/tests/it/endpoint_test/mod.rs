// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint under the kernel's driver `pci_endpoint_test` and its tool `pcitest`, both built from Debian's source of the running kernel.
//! Tests every BAR, every vector of each interrupt kind of the mode, and with each kind transfers of 1 B to 1 MiB in each direction.

use crate::common::{command, riser};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::once;

/// Transfer sizes in bytes: around the limits of payloads, requests and pages, and those of the kernel's `pcitest.sh`.
const SIZES: [u32; 31] = [
    1, 2, 3, 4, 7, 8, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096,
    4097, 65_535, 65_536, 65_537, 1_024_000, 1_024_001, 1_048_575, 1_048_576,
];
/// Number of transfers for each kind of interrupt: each size is read, written and copied.
const TRANSFERS: usize = 3 * SIZES.len();

/// Start of each script. Each case prints a line that begins with the kind of interrupt.
const BEGIN: &str = "cd /share; kind=none\n\
    pcitest() { printf \"$kind \"; /share/pcitest \"$@\" || true; }\n\
    kind() { kind=$1; /share/pcitest -i $1 >/tmp/set; grep -q '\tOKAY' /tmp/set || { cat /tmp/set; exit 1; }; }\n\
    bars() { for bar in 0 1 2 3 4 5; do pcitest -b $bar; done; }\n\
    transfers() { for bytes in $SIZES; do for way in -r -w -c; do pcitest $way -s $bytes; done; done; }\n\
    complaints() { ! dmesg | grep -E 'BUG:|WARNING:|Call Trace|Oops|PCIe Bus Error|DMAR.*fault|nobody cared'; }\n";

/// Version of the kernel: RISER_KERNEL, or Debian's 6.1.
fn kernel() -> String {
    std::env::var("RISER_KERNEL").unwrap_or("6.1".to_owned())
}

/// Returns the folder with module and tool for the kernel, built once per run. `None`, and a message, if they cannot be fetched.
pub(crate) fn built(kernel: &str) -> Option<PathBuf> {
    let name = format!("endpoint-test-{kernel}");
    once(&name, |folder| build(kernel, folder)).map_err(|why| eprintln!("skipped: {why}")).ok()
}

fn build(kernel: &str, folder: &Path) -> Result<(), String> {
    let mut arguments = vec!["guest", "build", folder.to_str().unwrap(), "--kernel", kernel];
    for file in ["drivers/misc/pci_endpoint_test.c", "tools/pci/pcitest.c"] {
        arguments.extend(["--from-kernel", file]);
    }
    let outcome = riser(&arguments);
    if ["cannot fetch", "building needs a user namespace"].iter().any(|why| outcome.stderr.contains(why)) {
        return Err(outcome.stderr);
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, format!("{}\n", folder.join("pci_endpoint_test.ko").display()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-static", "-o"]).args(["pcitest", "pcitest.c"].map(|file| folder.join(file)));
    assert!(compiler.status().unwrap().success());
    Ok(())
}

/// Runs a script on the shipped lab. Returns the number of its cases, which must all have passed.
fn cases(arguments: &[&str], script: &str) -> Option<usize> {
    let kernel = &*kernel();
    let folder = built(kernel)?;
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/guest/endpoint-test.toml");
    let sizes = SIZES.map(|size| size.to_string()).join(" ");
    let script = format!("SIZES='{sizes}'\n{BEGIN}{script}\ncomplaints\n");
    let mut riser =
        command(&["guest", "run", lab.to_str().unwrap(), "--kernel", kernel, "--time-limit", "200"]);
    riser.arg("--module").arg(folder.join("pci_endpoint_test.ko")).arg("--share").arg(&folder);
    riser.args(arguments).args(["--", "sh", "-c", &script]).stdin(Stdio::null());
    let output = riser.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stderr, "", "expected no messages");
    let lines: Vec<&str> = stdout.lines().collect();
    let failed: Vec<_> = lines.iter().filter(|line| !line.ends_with("\tOKAY")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len(), "each case once");
    Some(lines.len())
}

/// A VMD has no INTx, and only one MSI vector.
#[test]
#[ignore = "of .ci/long endpoint"]
fn works_below_vmd() {
    let Some(cases) = cases(&[], "bars; kind 1; pcitest -m 1; transfers") else { return };
    assert_eq!(cases, 6 + 1 + TRANSFERS);
}

/// A VMD gives only NVMe functions separate vectors. An endpoint of that class gets all remaining vectors of the VMD.
#[test]
#[ignore = "of .ci/long endpoint"]
fn uses_remaining_vectors_of_vmd() {
    let [class, vectors] = ["slot.test.endpoint-test.class=0x010802", "slot.test.endpoint-test.msix=62"];
    let script = "kind 2; for n in $(seq 62); do pcitest -x $n; done; transfers";
    let Some(cases) = cases(&["--set", class, "--set", vectors], script) else { return };
    assert_eq!(cases, 62 + TRANSFERS);
}

/// INTx is a level, which the driver deasserts by reading the status.
#[test]
#[ignore = "of .ci/long endpoint"]
fn works_in_direct_mode() {
    let Some(cases) = cases(&["--direct", "--vtd"], "bars; kind 0; pcitest -l; transfers") else { return };
    assert_eq!(cases, 6 + 1 + TRANSFERS);
}

/// Each vector is tested separately. Several MSI vectors require the IOMMU, which remaps them.
#[test]
#[ignore = "of .ci/long endpoint"]
fn works_with_messages_in_direct_mode() {
    let script = "kind 1; for n in $(seq 32); do pcitest -m $n; done; transfers\n\
        kind 2; for n in $(seq 64); do pcitest -x $n; done; transfers";
    let Some(cases) = cases(&["--direct", "--vtd"], script) else { return };
    assert_eq!(cases, 32 + 64 + 2 * TRANSFERS);
}

/// Without an IOMMU there is only one MSI vector. The driver is unloaded and loaded again between INTx interrupts.
#[test]
#[ignore = "of .ci/long endpoint"]
fn works_without_iommu_after_reload() {
    let script = "for n in 1 2 3; do rmmod pci_endpoint_test; insmod pci_endpoint_test.ko irq_type=0; kind 0; kind=again$n\n\
        pcitest -l; pcitest -r; pcitest -w; pcitest -c; done\n\
        kind 1; pcitest -m 1; kind 2; pcitest -x 64";
    if let Some(cases) = cases(&["--direct"], script) {
        assert_eq!(cases, 3 * 4 + 2);
    }
}

/// Invalid values of --from-kernel are reported with the expected form. Files in the folder are kept.
#[test]
#[ignore = "of .ci/long endpoint"]
fn option_from_kernel_rejects_missing_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (file, why) in [
        ("../etc/passwd", "expected a path in the kernel's source, such as"),
        ("/etc/passwd", "expected a path in the kernel's source"),
        ("drivers//x.c", "expected a path in the kernel's source"),
        ("-x", "expected a path in the kernel's source"),
        ("drivers/misc/none.c", "drivers/misc/none.c: not in Debian's source of Linux 6.1"),
    ] {
        let outcome = riser(&["guest", "build", path, &format!("--from-kernel={file}")]);
        if outcome.stderr.contains("cannot fetch") || outcome.stderr.contains("needs a user namespace") {
            return eprintln!("skipped: {}", outcome.stderr);
        }
        assert!(
            outcome.code == 2 && outcome.stderr.contains(why),
            "{file}: {} {}",
            outcome.code,
            outcome.stderr
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
