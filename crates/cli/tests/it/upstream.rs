// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs for NetTLP against `riser nettlp adapter` with memory and with a lab: the programs of
//! `crates/libtlp/examples` with riser's library, and `c/upstream.c`, which behaves like upstream's programs without a library. They run on the loopback,
//! 127.61.x.y, and in network namespaces. Skipped, with a message, without a C compiler or namespaces.

use crate::common::nets::{Nets, Running, command, count, riser_in, text};
use crate::common::programs::program;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn riser(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_riser"));
    command.args(args);
    command
}

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("upstream");
    fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

/// An adapter at 127.61.`net`.1 for 127.61.`net`.2, and the arguments of its clients.
struct Loopback {
    remote: String,
    local: String,
    _alone: MutexGuard<'static, ()>,
}

/// Runs one test at a time: upstream's programs give up after half a second. An unoptimized lab may need that long if another runs on
/// the same two cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loopback {
    fn new(net: u8) -> Loopback {
        Loopback { remote: format!("127.61.{net}.1"), local: format!("127.61.{net}.2"), _alone: alone() }
    }

    fn adapter(&self, args: &[&str]) -> Running {
        let rule = format!("{},all,rw", self.local);
        let own = ["nettlp", "adapter", "--listen", &self.remote, "--allow", &rule, "--json"];
        Running::start(riser(&[&own[..], args].concat()), "Ctrl-C")
    }

    /// Runs a program that must succeed, and returns its output.
    fn run(&self, program: &Path, args: &[&str]) -> String {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program:?} {args:?}: {}", text(&output));
        text(&output)
    }

    /// Runs one of the examples.
    fn example(&self, program: &Path, args: &str) -> String {
        let own = ["-r", &self.remote, "-l", &self.local];
        self.run(program, &own.into_iter().chain(args.split_whitespace()).collect::<Vec<_>>())
    }

    /// Runs `c/upstream.c`.
    fn upstream(&self, program: &Path, what: &str, args: &str) -> String {
        let own = [what, &self.remote, &self.local];
        self.run(program, &own.into_iter().chain(args.split_whitespace()).collect::<Vec<_>>())
    }
}

/// Checks that a load has no refused, malformed or lost packets.
fn nothing_went_wrong(report: &Value) {
    let peer = &report["peers"][0];
    for name in ["malformed", "no_room", "refused", "refused_reads", "refused_writes", "digest_wrong"] {
        assert_eq!(count(peer, name), 0, "{name}: {peer}");
    }
    assert_eq!(count(&report["sockets"], "malformed_datagrams"), 0);
    assert_eq!(count(&report["sockets"], "kernel_drops"), 0);
}

/// Runs all programs that read and write. Unaligned reads up to `completion_bytes` (at most 1023 DW) come in one completion, which upstream
/// requires.
fn load(net: &Loopback, address: u64, completion_bytes: u32) -> Option<()> {
    let upstream = program("cli/tests/c/upstream.c")?;
    let (perf, write) = (program("libtlp/examples/tlpperf.c")?, program("libtlp/examples/dma_write.c")?);
    let checked = net.upstream(&upstream, "check", &format!("{address} {completion_bytes}"));
    assert!(checked.ends_with(" reads, 0 wrong\n"), "{checked}");
    for (way, len, threads) in [("read", 256, 1), ("read", 1500, 2), ("write", 256, 1), ("write", 64, 2)] {
        let done = net.upstream(&upstream, "perf", &format!("{way} {len} {threads} 200 {address}"));
        assert_eq!(done, "0 failed\n", "{way} {len} {threads}");
    }
    for args in [
        "-d read",
        "-d read -N 2 -R diff -P random -M",
        "-d read -L 1 -P random",
        "-d read -L 1500 -P sequential -b ff:1f.7",
        "-d write -N 2 -P sequential",
        "-d write -L 1023 -N 2 -R diff -t 254",
    ] {
        let said = net.example(&perf, &format!("-a {address:x} -c 100 {args}"));
        let all = if args.contains("-N 2") { 200 } else { 100 };
        assert!(said.contains(&format!(" threads: {all} requests, 0 failed")), "{args}: {said}");
        assert_eq!(said.contains("latency of 200: min"), args.contains("-M"), "{said}");
    }
    for (at, words) in [(address + 0xffd, "across_a_page"), (address + 1, "x"), (address + 2, "yz")] {
        let said = net.example(&write, &format!("-a {at:x} -d {words}"));
        assert_eq!(said, format!("{} bytes written, read back\n", words.len()));
    }
    for port in ["0x4001", "0x5001"] {
        assert_eq!(net.upstream(&upstream, "cfg", &format!("{port} 0")), "80223776\n");
    }
    Some(())
}

#[test]
fn memory_serves_32_and_64_bit_addresses() {
    let net = Loopback::new(1);
    let adapter = net.adapter(&["--memory", "zero:8G", "--threads", "2"]);
    for address in [0x1_0000, 0xfffe_0000, 0x1_8000_0000] {
        if load(&net, address, 1024).is_none() {
            return;
        }
    }
    nothing_went_wrong(&adapter.interrupt_json());
}

#[test]
fn lab_serves_programs_and_replays_them() {
    for (net, timing, more, completion_bytes) in
        [(2, "on", &[][..], 256), (3, "off", &["--mps", "4096"], 4092)]
    {
        let net = Loopback::new(net);
        let (record, live, again) = (
            scratch(&format!("{timing}.rec")),
            scratch(&format!("{timing}.pcapng")),
            scratch(&format!("{timing}-again.pcapng")),
        );
        let names = [&record, &live, &again].map(|path| path.to_str().unwrap());
        let lab = repository("labs/nettlp/host.toml");
        let args = [&lab, "--timing", timing, "--record", names[0], "--capture", names[1], "--force"];
        let adapter = net.adapter(&[&args[..], more].concat());
        for address in [0x10_0000, 0x1_0010_0000] {
            if load(&net, address, completion_bytes).is_none() {
                return;
            }
        }
        nothing_went_wrong(&adapter.interrupt_json());
        let replay =
            riser(&["nettlp", "replay", names[0], "--capture", names[2], "--force", "--json"]).output();
        let replay = replay.unwrap();
        let replayed: Value = serde_json::from_slice(&replay.stdout).unwrap();
        assert_eq!(replayed["complete"], true, "{}", text(&replay));
        assert!(fs::read(&live).unwrap() == fs::read(&again).unwrap(), "the captures differ");
    }
}

/// Either end may start first, and may be restarted: a call ends with an error, and the next one finds the new adapter.
#[test]
fn either_nettlp_end_may_start_first_or_restart() {
    let Some(read) = program("libtlp/examples/dma_read.c") else { return };
    let net = Loopback::new(4);
    let refused = || {
        let args = ["-r", &net.remote, "-l", &net.local];
        let output = Command::new(&read).args(args).output().unwrap();
        assert_eq!(text(&output), "dma_read_aligned: Connection refused\n");
    };
    refused();
    for _ in 0..2 {
        let adapter = net.adapter(&["--memory", "zero:1M"]);
        assert_eq!(net.example(&read, ""), "00 00 00 00\n");
        adapter.kill();
        refused();
    }
}

/// The host writes a pattern to BAR4 and reads it back. Its driver fails if a byte differs.
#[test]
fn upstream_pseudo_memory_answers_host() {
    let Some(upstream) = program("cli/tests/c/upstream.c") else { return };
    let (net, lab) = (Loopback::new(6), scratch("mmio.toml"));
    let text = fs::read_to_string(repository("labs/nettlp/mmio.toml")).unwrap();
    fs::write(&lab, text.replace("start_after_ms = 2000\n", "")).unwrap();
    let adapter = net.adapter(&[lab.to_str().unwrap()]);
    net.upstream(&upstream, "psmem", "65536");
    // When these are answered, earlier packets have arrived in the fabric.
    for _ in 0..20 {
        net.upstream(&upstream, "cfg", "0x5001 0");
    }
    let report = adapter.interrupt_json();
    nothing_went_wrong(&report);
    assert_eq!(report["lab"]["outcome"], "finished", "{}", report["lab"]["reasons"]);
}

/// A kernel's memory for `process_list.c`: the tasks, and their order in the list.
struct Kernel {
    memory: Vec<u8>,
    /// Virtual address of each task, and its expected text.
    tasks: Vec<(u64, String)>,
}

const TEXT: u64 = 0xffff_ffff_8000_0000;
const LINEAR: u64 = 0xffff_8880_0000_0000;
/// Offsets in `task_struct` of the list, the pid and the name.
const TASK: [usize; 3] = [0x8d8, 0x9a8, 0xb98];

impl Kernel {
    /// Places `init_task` in the kernel's image, and the other tasks like an allocator. Some have a page boundary in
    /// the name.
    fn new(count: usize) -> Kernel {
        let mut kernel = Kernel { memory: vec![0xa5; 4 << 20], tasks: vec![] };
        for n in 0..count {
            let at =
                if n == 0 { TEXT + 0x1_0940 } else { LINEAR + 0x4_0020 + (n as u64 * 7919 % 251) * 0x3440 };
            kernel
                .tasks
                .push((at, format!("{} {}", n * 3, format!("kworker/{n}:0H-events")[..15].trim_end())));
        }
        for n in 0..count {
            let (at, ref shown) = kernel.tasks[n];
            let next = kernel.tasks[(n + 1) % count].0 + TASK[0] as u64;
            let (pid, name) = shown.split_once(' ').unwrap();
            let (pid, mut comm) = (pid.parse::<i32>().unwrap(), [0; 16]);
            comm[..name.len()].copy_from_slice(name.as_bytes());
            kernel.put(at, TASK[0], &next.to_le_bytes());
            kernel.put(at, TASK[1], &pid.to_le_bytes());
            kernel.put(at, TASK[2], &comm);
        }
        kernel
    }

    fn put(&mut self, task: u64, offset: usize, bytes: &[u8]) {
        let at = if task >= TEXT { task - TEXT } else { task - LINEAR } as usize + offset;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

#[test]
fn follows_task_list_in_memory_image() {
    let Some(list) = program("cli/tests/c/process_list.c") else { return };
    let kernel = Kernel::new(200);
    let crossing = kernel.tasks.iter().filter(|(at, _)| (at + TASK[2] as u64) % 4096 > 4080).count();
    assert!(crossing > 0, "no name crosses a page");
    let image = scratch("kernel.img");
    fs::write(&image, &kernel.memory).unwrap();
    let net = Loopback::new(5);
    let adapter = net.adapter(&["--memory", image.to_str().unwrap()]);
    let init = format!("{:x}", kernel.tasks[0].0);
    let (text_offset, linear) = (format!("{TEXT:x}"), format!("{LINEAR:x}"));
    let offsets = TASK.map(|offset| format!("{offset:x}"));
    let args = [&net.remote, &net.local, "1b:00.0", &init, &text_offset, &linear];
    let args: Vec<&str> = args.into_iter().chain(offsets.iter().map(String::as_str)).collect();
    let listed = net.run(&list, &args);
    let expected: Vec<&str> = kernel.tasks.iter().map(|(_, shown)| shown.as_str()).collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let report = adapter.interrupt_json();
    nothing_went_wrong(&report);
    assert_eq!(count(&report["peers"][0], "reads"), 600 + crossing as u64);
    assert!(fs::read(&image).unwrap() == kernel.memory, "nothing writes to it");
}

/// Pings in both directions through `nic`, which is started twice. The hosts are connected by a cable, or are the same host.
fn ping_both_ways(name: &str, within_one_host: bool, nic: impl Fn(&Nets, &str, &str) -> Command) {
    let _alone = alone();
    let Some(nets) = Nets::new(name) else { return };
    let (host, remote, local) = match within_one_host {
        true => (&nets.device, "127.0.0.1", "127.0.0.2"),
        false => (&nets.host, "10.0.0.1", "10.0.0.2"),
    };
    let lab = scratch(&format!("{name}.toml"));
    let station = fs::read_to_string(repository("labs/nettlp/station.toml")).unwrap();
    fs::write(&lab, station + "ping_interval_ms = 50\nping_bytes = 200\n").unwrap();
    let [record, live, again] =
        ["rec", "pcapng", "again.pcapng"].map(|end| scratch(&format!("{name}.{end}")).display().to_string());
    let (lab, rule) = (lab.display().to_string(), format!("{local},all,rw"));
    let args = ["nettlp", "adapter", &lab, "--listen", remote, "--allow", &rule, "--json", "--force"];
    let args = [&args[..], &["--capture", &live, "--record", &record]].concat();
    let adapter = Running::start(riser_in(host, &args), "Ctrl-C");
    // The second time, more pings are sent than the rings have entries.
    for (pings, interval) in [(5, "0.05"), (300, "0.002")] {
        let nic = Running::start_c(nic(&nets, remote, local), "tap0");
        nets.ping_host(pings, interval);
        let said = nic.interrupt();
        assert!(said.contains(" 0 failed"), "{said}");
    }
    let report = adapter.interrupt_json();
    nothing_went_wrong(&report);
    let counters = &report["lab"]["devices"][0]["counters"];
    assert!(count(counters, "echo_answered") >= 305 && count(counters, "pings_answered") >= 2, "{counters}");
    assert_eq!((count(counters, "station_opened") >= 2, count(counters, "failed")), (true, 0), "{counters}");
    let replay = riser(&["nettlp", "replay", &record, "--capture", &again, "--force", "--json"]).output();
    let replay = replay.unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
    assert!(fs::read(&live).unwrap() == fs::read(&again).unwrap(), "the captures differ");
}

#[test]
fn simple_nic_in_c_pings_both_ways_between_hosts() {
    let Some(nic) = program("libtlp/examples/simple_nic.c") else { return };
    ping_both_ways("c-veth", false, |nets, remote, local| simple_nic(&nic, nets, remote, local));
}

#[test]
fn simple_nic_in_c_pings_both_ways_within_host() {
    let Some(nic) = program("libtlp/examples/simple_nic.c") else { return };
    ping_both_ways("c-lo", true, |nets, remote, local| simple_nic(&nic, nets, remote, local));
}

fn simple_nic(program: &Path, nets: &Nets, remote: &str, local: &str) -> Command {
    let mut command = command(&nets.device, program);
    command.args(["-r", remote, "-l", local, "-i", "tap0"]);
    command
}

#[test]
fn upstream_nic_pings_both_ways_between_hosts() {
    let Some(upstream) = program("cli/tests/c/upstream.c") else { return };
    ping_both_ways("u-veth", false, |nets, remote, local| upstream_nic(&upstream, nets, remote, local));
}

#[test]
fn upstream_nic_pings_both_ways_within_host() {
    let Some(upstream) = program("cli/tests/c/upstream.c") else { return };
    ping_both_ways("u-lo", true, |nets, remote, local| upstream_nic(&upstream, nets, remote, local));
}

fn upstream_nic(program: &Path, nets: &Nets, remote: &str, local: &str) -> Command {
    let mut command = command(&nets.device, program);
    command.args(["nic", remote, local, "tap0"]);
    command
}
