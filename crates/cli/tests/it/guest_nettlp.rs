// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP peers of a machine: they access its memory through the adapter in a slot below it, and its kernel accesses them at a BAR.

use crate::common::{command, riser};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

const LAB: &str = "version = 1\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\n";
/// Script that enables bus mastering, prints the address of the kernel's banner, waits until the peer has set the cache line size, and uses BAR4.
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
/// Address at which peers find the adapter.
const HOST: &str = "127.0.0.77";
/// Only one machine may run at a time.
static THERE: Mutex<()> = Mutex::new(());
const WAY: [&str; 4] = ["--remote", HOST, "--local", "127.0.0.78"];

/// A `riser` process that is killed when dropped.
struct Running(Child);

impl Running {
    fn start(args: &[&str]) -> Running {
        Running(command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Reads lines of its standard output, up to the first that begins with `begin`.
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

/// Runs a `riser nettlp` command that accesses the machine. Returns its output.
fn nettlp(args: &[&str]) -> String {
    let outcome = riser(&[&["nettlp"], args, &WAY].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout
}

/// Peers access the kernel's own memory: its banner is at the address of its symbol, written data stay, and BAR4 leads to the peers.
#[test]
#[ignore = "of .ci/long guest"]
fn peers_and_machine_access_each_other() {
    let _alone = THERE.lock().unwrap_or_else(PoisonError::into_inner);
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
    // Scratch memory below 64 KiB, which the kernel leaves to firmware. The data cross a page boundary.
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

/// Script that prints the processes and the address of a process's code, and waits until the peer has set the cache line size.
const PROCESSES: &str = r#"
f=$(lspci -Dnd 3776: | cut -d' ' -f1)
setpci -s $f COMMAND=6
sleep 300 &
cp /proc/$!/exe /share/program
echo pid $!
cat /proc/[0-9]*/stat | sed 's/^/task /'
echo ready
tries=0
until [ "$(setpci -s $f 0c.b)" = 10 ] || [ $tries = 200 ]; do tries=$((tries + 1)); usleep 100000; done
dmesg | grep 'DMAR.*fault addr' || true
"#;

/// Starts a guest with processes whose memory peers may read. Returns its output up to `ready`.
fn guest_with_processes(folder: &tempfile::TempDir, more: &[&str]) -> (Running, Vec<String>) {
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("lab.toml"), LAB).unwrap();
    fs::create_dir(path("share")).unwrap();
    fs::write(path("share/script"), PROCESSES).unwrap();
    let (lab, share) = (path("lab.toml"), path("share"));
    let allow = ["--nettlp-listen", HOST, "--nettlp-allow", "127.0.0.78,all,rw"];
    let run = ["guest", "run", &lab, "--share", &share, "--time-limit", "60"];
    let mut guest = Running::start(&[&run[..], &allow, more, &["--", "sh", "/share/script"]].concat());
    let said = guest.lines_to("ready");
    (guest, said)
}

/// Lets the guest's script continue, and returns the rest of its output.
fn rest_of(mut guest: Running) -> String {
    nettlp(&["cfg", "write", "0x0c", "0x10", "--bytes", "1"]);
    let mut rest = String::new();
    guest.0.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(guest.0.wait().unwrap().success());
    rest
}

/// Parses the start of `/proc/PID/stat`: number, name, state. Kernel workers are left out, because they come and go.
fn stat(line: &str) -> Option<(i64, String, String)> {
    let line = line.strip_prefix("task ")?;
    let (name, rest) = (line.find('(')?, line.rfind(')')?);
    let (pid, state) = (line[..name].trim().parse().ok()?, line[rest + 2..].chars().next()?);
    // For kernel threads, `stat` has more than the 15 letters of a task's name.
    let name: String = line[name + 1..rest].chars().take(15).collect();
    let is_lasting = !name.starts_with("kworker") && name != "cat" && name != "sed" && name != "sh";
    is_lasting.then(|| (pid, name, state.to_string()))
}

/// Finds the processes that the kernel reports, at any location of the kernel (KASLR). Also finds the code of a
/// process, which equals its program's file. All information comes from the kernel's memory.
#[test]
#[ignore = "of .ci/long guest"]
fn finds_processes_and_code_in_kernel_memory() {
    let _alone = THERE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (guest, said) = guest_with_processes(&folder, &[]);
    let pid = said.iter().find_map(|line| line.strip_prefix("pid ")).unwrap().trim();

    let text = nettlp(&["ps"]);
    assert!(text.starts_with("PhyAddr"), "{text}");
    assert_eq!(
        text.lines().nth(1).unwrap().split_whitespace().skip(1).collect::<Vec<_>>(),
        ["0", "R", "swapper/0"]
    );
    let seen: serde_json::Value = serde_json::from_str(&nettlp(&["ps", "--json"])).unwrap();
    let seen = seen["tasks"].as_array().unwrap().iter();
    let seen: BTreeSet<_> = seen
        .map(|task| {
            let text = |field: &str| task[field].as_str().unwrap().to_owned();
            (task["pid"].as_i64().unwrap(), text("name"), text("state"))
        })
        .collect();
    let told: Vec<_> = said.iter().filter_map(|line| stat(line)).collect();
    assert!(told.len() > 30, "{said:?}");
    let mut same = 0;
    for (pid, name, state) in &told {
        let there = seen.iter().find(|(p, n, _)| (p, n) == (pid, name));
        let (.., now) = there.unwrap_or_else(|| panic!("{pid} {name}: {seen:?}"));
        same += usize::from(now == state);
    }
    assert!(same * 10 >= told.len() * 9, "{same} of {} states", told.len());

    let dump = path("code.dump");
    let outcome = riser(&[&["nettlp", "codedump", "-p", pid, "-o", &dump, "--json"], &WAY[..]].concat());
    let code: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let (dump, program) = (fs::read(dump).unwrap(), fs::read(path("share/program")).unwrap());
    let executable = executable(&program);
    assert!(dump == executable, "{code}");
    assert_eq!((outcome.code, &code["gaps"]), (0, &serde_json::json!([])), "{}", outcome.stderr);
    let runs = code["runs"].as_array().unwrap().iter();
    let by: BTreeSet<bool> = runs.map(|run| run["is_mapped"].as_bool().unwrap()).collect();
    assert_eq!(by.len(), 2, "some code is mapped, some is only in the page cache: {code}");

    for (pid, why) in [("2", "is a kernel thread"), ("999999", "no process has PID 999999")] {
        let refused = riser(&[&["nettlp", "codedump", "-p", pid, "-o", &path("none")], &WAY[..]].concat());
        assert!(refused.code == 1 && refused.stderr.contains(why), "{}", refused.stderr);
        assert!(!folder.path().join("none").exists());
    }
    rest_of(guest);
}

/// Returns the executable segment of a program (ELF64: `p_type` 1 is `PT_LOAD`, flag 1 is `PF_X`).
fn executable(program: &[u8]) -> &[u8] {
    let number = |at: usize, bytes: usize| {
        let mut whole = [0; 8];
        whole[..bytes].copy_from_slice(&program[at..at + bytes]);
        u64::from_le_bytes(whole) as usize
    };
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let headers = (0..count).map(|n| first + n * size);
    let code = headers.clone().find(|at| number(*at, 4) == 1 && number(at + 4, 4) & 1 == 1).unwrap();
    &program[number(code + 8, 8)..][..number(code + 32, 8)]
}

/// An IOMMU that grants the adapter nothing keeps peers out. With shared memory, riser reports this. If each DMA is a
/// message, the kernel's log reports it.
#[test]
#[ignore = "of .ci/long guest"]
fn iommu_keeps_peers_out() {
    let _alone = THERE.lock().unwrap_or_else(PoisonError::into_inner);
    for (by, expected) in [(&[][..], false), (&["--dma-messages"], true)] {
        let folder = tempfile::tempdir().unwrap();
        let iommu = ["--direct", "--vtd", "--append", "intel_iommu=on"];
        let (mut guest, _) = guest_with_processes(&folder, &[&iommu, by].concat());
        let refused = riser(&[&["nettlp", "ps"], &WAY[..]].concat());
        assert_eq!(refused.code, 1);
        assert!(
            refused.stderr.contains("no memory can be read: the read at 0x200000 was refused"),
            "{}",
            refused.stderr
        );
        let mut log = guest.0.stderr.take().unwrap();
        let rest = rest_of(guest);
        let fault = "[DMA Read NO_PASID] Request device [01:00.0] fault addr 0x200000";
        assert_eq!(rest.contains(fault), expected, "{rest}");
        let mut said = String::new();
        log.read_to_string(&mut said).unwrap();
        let refusal =
            "DMA of 01:00.0 was refused: the machine has not mapped 16 bytes at 0x200000 for a read";
        assert_eq!(said.contains(refusal), !expected, "{said}");
    }
}

/// Peers require a slot with an adapter. Without an adapter, arguments about peers are rejected.
#[test]
fn rejects_peers_without_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml").display().to_string();
    fs::write(&lab, "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n").unwrap();
    let run = |more: &[&str]| riser(&[&["guest", "run", &lab], more, &["--", "true"]].concat());
    for (more, why) in [
        (&["--nettlp-allow", "127.0.0.2,all,rw"][..], "no slot of the lab has a NetTLP adapter"),
        (&["--nettlp-device-peer", "127.0.0.2"], "--nettlp-allow"),
        (
            &["--nettlp-allow", "127.0.0.2,all,rw", "--nettlp-listen", "0.0.0.0"],
            "--nettlp-listen 0.0.0.0: expected one",
        ),
        (
            &["--nettlp-allow", "127.0.0.2,all,rw", "--nettlp-device-peer", "127.0.0.3"],
            "--nettlp-device-peer 127.0.0.3: needs a rule, such as --nettlp-allow",
        ),
    ] {
        let refused = run(more);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}
