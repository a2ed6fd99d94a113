// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network namespaces connected by a cable, with a tap interface, and programs that run in them. All are removed when dropped.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Two namespaces connected by a cable, removed when dropped. The host has address 10.0.0.1; the device has 10.0.0.2, and interface tap0
/// with 192.0.2.2.
pub(crate) struct Nets {
    pub(crate) host: String,
    pub(crate) device: String,
}

/// Runs `ip`. Returns true if it succeeded.
pub(crate) fn ip(args: &str) -> bool {
    let status = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Nets {
    /// Returns `None`, and prints that the test is skipped, if the namespaces cannot be created or there is no `ping`.
    pub(crate) fn new(name: &str) -> Option<Nets> {
        let pid = std::process::id();
        let nets = Nets { host: format!("riser-h-{name}-{pid}"), device: format!("riser-d-{name}-{pid}") };
        let (h, d) = (&nets.host, &nets.device);
        let made = ip(&format!("netns add {h}"))
            && ip(&format!("netns add {d}"))
            && ip(&format!("-n {d} link set lo up"))
            && ip(&format!("link add v0 netns {h} type veth peer name v0 netns {d}"))
            && [(h, 1), (d, 2)].iter().all(|(net, n)| {
                ip(&format!("-n {net} addr add 10.0.0.{n}/24 dev v0"))
                    && ip(&format!("-n {net} link set v0 up"))
            })
            && ip(&format!("-n {d} tuntap add dev tap0 mode tap"))
            && ip(&format!("-n {d} addr add 192.0.2.2/24 dev tap0"))
            && ip(&format!("-n {d} link set tap0 up"));
        let ping = Command::new("ping").arg("-V").stdout(Stdio::null()).status();
        if !made || ping.is_err() {
            eprintln!(
                "skipped: network namespaces, a tap interface or ping (iputils-ping) are not to be had here"
            );
            return None;
        }
        Some(nets)
    }

    /// Sends `count` pings from the kernel at the tap to the simulated host, `interval` seconds apart, and expects answers.
    pub(crate) fn ping_host(&self, count: u32, interval: &str) {
        let begun = Instant::now();
        let (done, said) = loop {
            let mut ping = command(&self.device, Path::new("ping"));
            // With -w, `ping` sends until it has `count` answers, and then succeeds. It may send more than `count` requests.
            let ping = ping.args(["-c", &count.to_string(), "-i", interval, "-w", "20", "192.0.2.1"]);
            let ping = ping.output().unwrap();
            let said = String::from_utf8_lossy(&ping.stdout).into_owned();
            let nobody = said.contains("Unreachable") && begun.elapsed() < Duration::from_secs(20);
            if ping.status.success() || !nobody {
                break (ping.status.success(), said);
            }
        };
        assert!(done, "{said}");
    }
}

impl Drop for Nets {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.host));
        ip(&format!("netns del {}", self.device));
    }
}

/// Returns a command that runs a program in a namespace.
pub(crate) fn command(net: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", net]).arg(program);
    command
}

/// Returns a command that runs `riser` in a namespace.
pub(crate) fn riser_in(net: &str, args: &[&str]) -> Command {
    let mut command = command(net, Path::new(env!("CARGO_BIN_EXE_riser")));
    command.args(args);
    command
}

/// Reads lines until one contains `ready`, and returns them. If none does, returns all lines as the error.
fn wait_for(lines: &mut impl BufRead, ready: &str) -> Result<String, String> {
    let mut all = String::new();
    while !all.lines().any(|line| line.contains(ready)) {
        if lines.read_line(&mut all).unwrap() == 0 {
            return Err(all);
        }
    }
    Ok(all)
}

/// A running program that has reported that it is ready. Killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Kept open so that the program can write to it.
    said: Option<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts a program that reports on standard error, like `riser`.
    pub(crate) fn start(command: Command, ready: &str) -> Running {
        Running::try_start(command, ready).expect("it is ready")
    }

    /// Like [`start`](Self::start), but returns the program's output if it ends before it is ready.
    pub(crate) fn try_start(mut command: Command, ready: &str) -> Result<Running, String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let is_ready = wait_for(&mut said, ready);
        let out = BufReader::new(child.stdout.take().unwrap());
        let running = Running { out, said: Some(said), child };
        is_ready.map(|_| running)
    }

    /// Starts a program that reports on standard output.
    pub(crate) fn start_c(mut command: Command, ready: &str) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        wait_for(&mut out, ready).expect("it is ready");
        Running { out, said: None, child }
    }

    /// Reads its standard output up to a line that contains `ready`.
    pub(crate) fn read_to(&mut self, ready: &str) -> String {
        wait_for(&mut self.out, ready).expect("it says so")
    }

    /// Ends it with Ctrl-C, and returns its remaining output.
    pub(crate) fn interrupt(self) -> String {
        // `ip netns exec` has replaced itself by the program.
        let told = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        self.finish()
    }

    /// Waits until it ends by itself, and returns its remaining output.
    pub(crate) fn finish(mut self) -> String {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let mut said = String::new();
        if let Some(stderr) = &mut self.said {
            stderr.read_to_string(&mut said).unwrap();
        }
        assert!(self.child.wait().unwrap().success(), "{out}{said}");
        out
    }

    /// Like [`interrupt`](Self::interrupt), for a program that prints JSON.
    pub(crate) fn interrupt_json(self) -> Value {
        serde_json::from_str(&self.interrupt()).unwrap()
    }

    /// Kills it immediately, like a power failure.
    pub(crate) fn kill(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns standard output and standard error of a finished program.
pub(crate) fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// Returns a counter of a report; 0 if the report omits it.
pub(crate) fn count(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or(0)
}
