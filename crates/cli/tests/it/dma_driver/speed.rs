// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of transfers of 1 MB through the driver, by the clock and by riser's own processor time, compared with the same lab on the simulated
//! host. Prints the figures without checking them.

use super::{compile, module};
use crate::common::{command, riser_ok};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

const LAB: &str = "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 256\nmrrs_bytes = 512\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n\
    [slot.dma-engine]\nvfs = 0\nsize_bytes = 1048576\ntransfers = 256\nring_entries = 32\n";
/// Transfers in a batch, and number of batches.
const BATCH: u32 = 32;
const BATCHES: u32 = 8;
/// Ticks of processor time in a second: `USER_HZ` of x86-64 (`proc(5)`).
const TICKS: f64 = 100.0;

/// Processor seconds that a process has used, without its children.
fn cpu_seconds(process: &Child) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    // The name may contain spaces; user and system time are fields 14 and 15 (proc(5)).
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / TICKS
}

/// Megabytes per processor second of riser with the simulated host.
fn simulated(lab: &Path, direction: &str) -> f64 {
    let set = format!("slot.card.dma-engine.directions={direction}");
    let json = riser_ok(&["run", lab.to_str().unwrap(), "--json", "--set", &set]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    megabytes() / report["cpu_seconds"].as_f64().unwrap()
}

fn megabytes() -> f64 {
    f64::from(BATCH * BATCHES) * f64::from(1 << 20) / 1e6
}

#[test]
#[ignore = "a measurement: cargo nextest run --release -p riser-cli --no-capture --run-ignored only dma_driver::speed::"]
fn measures_cost_per_megabyte() {
    let Some(module) = module("6.12") else { return };
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml");
    fs::write(&lab, LAB).unwrap();
    compile(folder.path());
    // Measured before the guest starts, because the guest occupies a processor.
    let simulated = ["h2d", "d2h"].map(|direction| (direction, simulated(&lab, direction)));
    // The first batch uses pages that have not been touched yet.
    let script = format!(
        "echo 40 >/proc/sys/vm/nr_hugepages\nfor d in h2d d2h; do\n\
         i() {{ /share/riser-dma-integers --huge -b -s 1048576 -n {BATCH} -d $d /dev/riser_dma0; }}\n\
         i >/dev/null; echo begin; for n in $(seq {BATCHES}); do i || exit 1; done; echo end $d\ndone\n"
    );
    fs::write(folder.path().join("script"), script).unwrap();
    let mut guest = command(&["guest", "run", "--kernel", "6.12", "--module", &module, "--share"]);
    guest.arg(folder.path()).arg(&lab).args(["--", "sh", "/share/script"]);
    let mut guest = guest.stdout(Stdio::piped()).spawn().unwrap();
    let (mut begun, mut rates) = (0.0, Vec::new());
    for line in BufReader::new(guest.stdout.take().unwrap()).lines().map(Result::unwrap) {
        if line == "begin" {
            begun = cpu_seconds(&guest);
        } else if let Some(direction) = line.strip_prefix("end ") {
            let through_driver = megabytes() / (cpu_seconds(&guest) - begun);
            let (_, simulated) = simulated.iter().find(|(of, _)| *of == direction).unwrap();
            rates.sort_by(f64::total_cmp);
            println!(
                "{direction}: {:.0} MB/s by the clock ({:.0} to {:.0}); {through_driver:.0} MB for each CPU-second of riser, {simulated:.0} \
                 with the simulated host: {:.0} %",
                rates[rates.len() / 2],
                rates[0],
                rates[rates.len() - 1],
                100.0 * through_driver / simulated
            );
            rates.clear();
        } else if let Some(gbps) = line.strip_suffix(" Gb/s").and_then(|line| line.rsplit(' ').next()) {
            rates.push(gbps.parse::<f64>().unwrap() * 1000.0 / 8.0);
        }
    }
    assert!(guest.wait().unwrap().success());
}
