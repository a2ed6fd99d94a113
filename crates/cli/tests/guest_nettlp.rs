// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP peers of a machine: they reach its memory through the adapter in a slot below it, and its kernel reaches them at a BAR.

#![cfg(target_os = "linux")]

mod common;

use common::{command, riser};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

const LAB: &str = "version = 1\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\n";
/// Turns bus mastering on, says where the kernel's banner is, waits until the peer has set the cache line size, and uses BAR4.
const SCRIPT: &str = r#"
f=10000:01:00.0
setpci -s $f COMMAND=6
lspci -s $f -v | grep -o 'MSI-X.*Count=[0-9]*'
symbol() { echo 0x$(grep " $1\$" /proc/kallsyms | cut -d' ' -f1); }
code=0x$(grep 'Kernel code' /proc/iomem | sed 's/^ *//; s/-.*//')
echo banner $(($(symbol linux_banner) - $(symbol _text) + code))
tries=0
until [ "$(setpci -s $f 0c.b)" = 10 ] || [ $tries = 200 ]; do tries=$((tries + 1)); usleep 100000; done
bar=$(sed -n 5p /sys/bus/pci/devices/$f/resource | cut -d' ' -f1)
devmem $bar 32
devmem $((bar + 64)) 32 0x12345678
devmem $((bar + 64)) 32
"#;
/// Where peers find it.
const HOST: &str = "127.0.0.77";
const WAY: [&str; 4] = ["--remote", HOST, "--local", "127.0.0.78"];

/// A program of riser's, ended with the test.
struct Running(Child);

impl Running {
    fn start(args: &[&str]) -> Running {
        Running(command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The lines of its standard output, up to the first that begins so.
    fn lines_to(&mut self, begin: &str) -> Vec<String> {
        let mut out = BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap());
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with(begin)) {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "ended before `{begin}`: {lines:?}");
            lines.push(line);
        }
        lines
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command prints that reaches the machine.
fn nettlp(args: &[&str]) -> String {
    let outcome = riser(&[&["nettlp"], args, &WAY].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout
}

/// The memory is the kernel's own: its banner is where its symbols say; what peers write stays; and BAR4 leads to them.
#[test]
fn peers_reach_a_machine_and_it_reaches_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("lab.toml"), LAB).unwrap();
    fs::create_dir(path("share")).unwrap();
    fs::write(path("share/script"), SCRIPT).unwrap();
    fs::write(path("memory"), [&b"abcd"[..], &[0; 4092]].concat()).unwrap();
    let (lab, share) = (path("lab.toml"), path("share"));
    let allow = ["--nettlp-listen", HOST, "--nettlp-allow", "127.0.0.78,all,rw"];
    let run = ["guest", "run", &lab, "--share", &share, "--time-limit", "60"];
    let mut guest = Running::start(&[&run[..], &allow, &["--", "sh", "/share/script"]].concat());
    let said = guest.lines_to("banner ");
    assert!(said.iter().any(|line| line.trim_end().ends_with("Count=16")), "{said:?}");
    let banner = said.last().unwrap()["banner ".len()..].trim_end().to_owned();

    let read = nettlp(&["read", &banner, "32"]);
    assert!(read.contains("Linux version 6."), "{read}");
    // Scratch memory below 64 KiB, which the kernel leaves to firmware: across a page.
    let file = path("written");
    let bytes: Vec<u8> = (0..3000_u32).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(&file, &bytes).unwrap();
    nettlp(&["write", "0x7c00", &file]);
    let back = path("back");
    nettlp(&["read", "0x7c00", "3000", "-o", &back]);
    assert!(fs::read(&back).unwrap() == bytes);

    let memory = path("memory");
    let mut psmem = Running::start(&[&["nettlp", "psmem", "--file", &memory], &WAY[..]].concat());
    let mut ready = String::new();
    BufReader::new(psmem.0.stderr.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let config = ["nettlp", "cfg", "write", "0x0c", "0x10", "--bytes", "1"];
    assert_eq!(riser(&[&config[..], &WAY].concat()).code, 0);
    let mut rest = String::new();
    guest.0.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "0x64636261\n0x12345678\n", "{ready}");
    assert!(guest.0.wait().unwrap().success());
}

/// Peers are served where a slot has an adapter; what is told of them without any is refused.
#[test]
fn a_lab_without_an_adapter_has_no_peers() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml").display().to_string();
    fs::write(&lab, "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n").unwrap();
    let run = |more: &[&str]| riser(&[&["guest", "run", &lab], more, &["--", "true"]].concat());
    for (more, why) in [
        (&["--nettlp-allow", "127.0.0.2,all,rw"][..], "no slot of the lab has a `nettlp-adapter`"),
        (&["--nettlp-device", "127.0.0.2"], "--nettlp-allow"),
        (
            &["--nettlp-allow", "127.0.0.2,all,rw", "--nettlp-listen", "0.0.0.0"],
            "--nettlp-listen 0.0.0.0: legal is one",
        ),
        (
            &["--nettlp-allow", "127.0.0.2,all,rw", "--nettlp-device", "127.0.0.3"],
            "--nettlp-device 127.0.0.3: it needs a rule of its own, as --nettlp-allow",
        ),
    ] {
        let refused = run(more);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}
