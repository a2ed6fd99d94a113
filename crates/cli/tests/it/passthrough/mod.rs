// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions of the DMA engine in separate guests, while another guest has the physical function. All move data at the same time, one is
//! killed and restarted, and one tries to access memory of others. Kernels and driver are as in `dma_driver`.

use crate::common::driver::{self, compile, drivers};
use crate::common::{Outcome, command, finish};
use std::fs;
use std::path::{Path, PathBuf};

const LAB: &str = "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 256\nmrrs_bytes = 512\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n\
    [slot.dma-engine]\nvfs = 4\n";

/// Start of each guest's script.
const BEGIN: &str = "I=/share/riser-dma-integers\nd=/sys/bus/pci/devices\n\
    complaints() { ! dmesg | grep -E 'BUG:|WARNING:|Call Trace|Oops|PCIe Bus Error|recovery|containment event'; }\n";

/// Script that enables virtual functions without binding a driver of this guest.
const ENABLE: &str =
    "echo 0 >$d/10000:01:00.0/sriov_drivers_autoprobe; echo 4 >$d/10000:01:00.0/sriov_numvfs\n";

/// Returns the module, built once per run. `None`, and a message, if its parts cannot be fetched.
fn module() -> Option<PathBuf> {
    driver::build("passthrough", "6.1", &[], |_| {}).map_err(|why| eprintln!("skipped: {why}")).ok()
}

/// Runs guests on the lab, each with its script. Returns `None` if the driver cannot be built.
fn run(scripts: &[(&str, &str)], assigned: &[&str]) -> Option<Outcome> {
    let module = module()?;
    let folder = tempfile::tempdir().unwrap();
    let (lab, share) = (folder.path().join("lab.toml"), folder.path().join("share"));
    fs::write(&lab, LAB).unwrap();
    fs::create_dir(&share).unwrap();
    let integers = ["lib/integers.c", "lib/libriser_dma.c"].map(|file| drivers().join(file));
    compile(&integers, &share.join("riser-dma-integers"));
    let stray = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/passthrough/stray.c");
    compile(&[stray], &share.join("stray"));
    let mut riser = command(&["guest", "run", lab.to_str().unwrap(), "--share", share.to_str().unwrap()]);
    riser.arg("--module").arg(module).args(["--time-limit", "180"]);
    assigned.iter().for_each(|assigned| _ = riser.args(["--assign", assigned]));
    for (name, script) in scripts {
        fs::write(share.join(name), format!("{BEGIN}{script}\n")).unwrap();
        riser.args(["--guest", &format!("{name}=sh /share/{name}")]);
    }
    Some(finish(&mut riser))
}

/// Output lines of one guest.
fn said<'a>(outcome: &'a Outcome, guest: &str) -> Vec<&'a str> {
    let prefix = format!("{guest}: ");
    outcome.stdout.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

fn is_rate(line: &&&str) -> bool {
    line.ends_with(" Gb/s")
}

/// Four guests with one virtual function each, and the guest with the physical function, move integers in both directions and check them. One
/// guest is killed during this, twice, and restarted. The others are not affected.
#[test]
#[ignore = "of .ci/long guest"]
fn killed_guest_does_not_affect_others() {
    let root = format!(
        "{ENABLE}for g in a b c d; do lab start $g; done\n\
         $I --small -s 1048576 -n 8 /dev/riser_dma0 & own=$!\n\
         for n in 1 2; do until [ -e /share/b-is-at-it ]; do usleep 100000; done; sleep 1\n\
           lab kill b; lab state b; rm /share/b-is-at-it; lab start b; done\n\
         until [ -e /share/b-is-at-it ]; do usleep 100000; done; touch /share/enough\n\
         for g in a b c d; do lab wait $g; echo $g $?; done; wait $own; echo own $?; complaints"
    );
    let moves = |n| {
        format!(
            "lspci -n -d 7269: | cut -d' ' -f1,3\n$I --small -s 1048576 -n {n} /dev/riser_dma0 || exit 1; complaints"
        )
    };
    let (a, c, d) = (moves(8), moves(8), moves(8));
    let b = "$I --small -s 1048576 -n 2 /dev/riser_dma0 || exit 1\n\
         (sleep 1; touch /share/b-is-at-it) & while ! [ -e /share/enough ]; do $I --small -s 65536 -n 16 /dev/riser_dma0 >/tmp/out || exit 1; done; complaints";
    let assign = ["a=card.virtfn0", "b=card.virtfn1", "c=card.virtfn2", "d=card.virtfn3"];
    let scripts = [("root", &*root), ("a", &*a), ("b", b), ("c", &*c), ("d", &*d)];
    let Some(outcome) = run(&scripts, &assign) else { return };
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let ends = ["ended: the guest was stopped"; 2].into_iter().chain(["a 0", "b 0", "c 0", "d 0", "own 0"]);
    let of_root = said(&outcome, "root");
    let (rates, rest): (Vec<&str>, Vec<&str>) = of_root.iter().partition(is_rate);
    assert_eq!((rates.len(), rest), (2, ends.collect()), "{}{}", outcome.stdout, outcome.stderr);
    for guest in ["a", "c", "d"] {
        let lines = said(&outcome, guest);
        assert_eq!(lines[0], "01:00.0 7269:0008", "{guest}: {lines:#?}");
        assert!(lines.len() == 3 && lines[1..].iter().all(|line| is_rate(&line)), "{guest}: {lines:#?}");
    }
    let b = said(&outcome, "b");
    assert!(b.len() == 3 * 2 && b.iter().all(|line| is_rate(&line)), "{b:#?}");
    assert_eq!(outcome.stderr, "", "expected no messages");
}

/// A guest lets its function read and write unmapped addresses, interrupt addresses, and the BARs of the physical function and of another virtual
/// function, by their addresses in the fabric. The device sees its reads fail. The other guests see nothing, and continue.
#[test]
#[ignore = "of .ci/long guest"]
fn guest_cannot_reach_functions_of_others() {
    let root = format!(
        "{ENABLE}bar() {{ sed -n 1p $d/10000:01:00.$1/resource | cut -d' ' -f1; }}\n\
         bar 0 >/share/bars; bar 2 >>/share/bars\n\
         lab start a; lab start b; lab wait a; echo a $?; touch /share/enough; lab wait b; echo b $?\n\
         $I --small -s 65536 -n 4 /dev/riser_dma0; echo own $?\n\
         grep -h TOTAL $d/10000:00:01.0/aer_dev_* | grep -v ' 0$'; complaints"
    );
    let a = "rmmod riser_dma\nfor at in 0x40000000 0xfee00000 0xfee01000 $(cat /share/bars) 0xfffffffffffff000; do\n\
         for way in h2d d2h; do /share/stray 0000:01:00.0 $way $at; done; done";
    let b = "while ! [ -e /share/enough ]; do $I --small -s 65536 -n 16 /dev/riser_dma0 >/tmp/out || exit 1; done; complaints";
    let scripts = [("root", &*root), ("a", a), ("b", b)];
    let Some(outcome) = run(&scripts, &["a=card.virtfn0", "b=card.virtfn1"]) else { return };
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let (rates, rest): (Vec<&str>, Vec<&str>) = said(&outcome, "root").iter().partition(is_rate);
    assert_eq!((rates.len(), rest), (2, vec!["a 0", "b 0", "own 0"]), "{}{}", outcome.stdout, outcome.stderr);
    let a = said(&outcome, "a");
    assert_eq!(a.len(), 2 * 6, "{a:#?}");
    for line in a {
        // A refused write is not reported to the device.
        let expected = if line.starts_with("h2d") {
            "done 1, failed 1, status 5, error 5"
        } else {
            "done 1, failed 0, status 1, error 0"
        };
        assert!(line.ends_with(expected), "{line}");
    }
    let refused: Vec<_> = outcome.stderr.lines().collect();
    assert!(
        !refused.is_empty() && refused.iter().all(|line| line.contains("DMA of 01:00.1 was refused")),
        "{refused:#?}"
    );
}

/// A machine that connects to a function that does not exist is rejected with the reason.
#[test]
#[ignore = "of .ci/long guest"]
fn rejects_missing_function() {
    let root = "lab start a; lab wait a; lab start nobody; lab kill a; echo 0 >$d/10000:01:00.0/sriov_numvfs; lab state b";
    let scripts = [("root", root), ("a", "true"), ("b", "true")];
    let Some(outcome) = run(&scripts, &["a=card.virtfn0", "b=card.virtfn3"]) else { return };
    assert_eq!(outcome.code, 1);
    for expected in [
        "host `a`: card.virtfn0: 0 virtual functions are enabled; enable more with sriov_numvfs in the guest that has the physical function",
        "lab: start nobody: no such guest with virtual functions; known guests: a, b",
        "lab: kill a: it is not running",
        "guest `b` was never started: run `lab start b` in another guest",
    ] {
        assert!(outcome.stderr.contains(expected), "no `{expected}` in {}", outcome.stderr);
    }
    assert_eq!(said(&outcome, "root"), ["waits"]);
}

/// Errors in --assign are reported before any guest starts, with the expected form.
#[test]
fn rejects_invalid_assignments() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml");
    fs::write(&lab, LAB).unwrap();
    for (assigned, says) in [
        (&["a"][..], "`a`, expected NAME=FUNCTION[,FUNCTION]"),
        (&["=card.virtfn0"], "expected NAME=FUNCTION[,FUNCTION]"),
        (&["a/b=card.virtfn0"], "with a NAME of letters, digits, `-` and `_`"),
        (&["a=card.virtfn0,"], "expected NAME=FUNCTION[,FUNCTION]"),
        (&["root=card.virtfn0"], "the name `root` is already used"),
        (&["a=card.virtfn0", "a=card.virtfn1"], "the name `a` is already used"),
        (&["a=card.virtfn0", "b=card.virtfn0"], "`card.virtfn0` is given twice"),
        (&["a=card"], "host has no virtual function `card`; expected card.virtfn0 to 3"),
        (&["a=card.virtfn4"], "expected card.virtfn0 to 3"),
        (&["a=card.virtfn0", "b=card.virtfn00"], "expected card.virtfn0 to 3"),
        (&["a=card.virtfn+0"], "expected card.virtfn0 to 3"),
        (&["a=nic.virtfn0"], "expected card.virtfn0 to 3"),
    ] {
        let mut riser = command(&["guest", "serve", lab.to_str().unwrap()]);
        for name in ["root", "a", "b"]
            .iter()
            .filter(|n| **n == "root" || assigned.iter().any(|a| a.starts_with(&format!("{n}="))))
        {
            riser.args(["--socket", &format!("{name}={}", folder.path().join(name).display())]);
        }
        assigned.iter().for_each(|assigned| _ = riser.args(["--assign", assigned]));
        let output = riser.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(says), "{assigned:?}: {stderr}");
    }
}
