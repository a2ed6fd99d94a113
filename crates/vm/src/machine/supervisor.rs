// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that starts QEMU and supervises it: transfers data between guest and caller, and determines how QEMU
//! ended.

use super::arguments::{Accelerator, INITRAMFS, KERNEL, PORTS, Port, WIRES, arguments};
use super::console::Console;
use super::terminal::{Keys, Raw};
use super::{End, Input, MachineOutcome, Options, Outputs};
use crate::error::{Context, Result};
use crate::parts::command::tethered;
use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Maximum number of bytes per transfer.
const CHUNK: usize = 64 << 10;
/// Bytes of QEMU's stderr to keep, from its start.
const WORDS: usize = 16 << 10;
/// Maximum length of a line of the init or of QMP.
const LINE: usize = 64 << 10;
/// Time limit from the end of the command to the end of the init, and from QEMU's `quit` to its end.
const GRACE: Duration = Duration::from_secs(10);
/// Time limit for the first output of a guest under KVM.
const SILENCE: Duration = Duration::from_secs(60);

/// Connections to QEMU.
pub(super) struct Wires {
    /// Receiving ends.
    heard: BTreeMap<Port, File>,
    /// Sending ends: [`Port::Qmp`], [`Port::Stdin`] and [`Port::Terminal`].
    said: BTreeMap<Port, UnixStream>,
}

impl Wires {
    /// Creates the wires to a QEMU, and the command that starts it.
    pub(super) fn new(options: &Options, kernel: File, initramfs: File) -> Result<(Wires, Command)> {
        let mut command = tethered(&options.qemu.command[0]);
        command.args(&options.qemu.command[1..]).args(arguments(options)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut handed = vec![(KERNEL, OwnedFd::from(kernel)), (INITRAMFS, OwnedFd::from(initramfs))];
        let mut wires = Wires { heard: BTreeMap::new(), said: BTreeMap::new() };
        for (number, port) in (WIRES..).zip(PORTS) {
            let theirs = wires.add(port).context(|| format!("the wire {}", port.name()))?;
            handed.push((number, theirs));
        }
        let mappings = handed.into_iter().map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
        let mapped = command.fd_mappings(mappings.collect());
        mapped.expect("the numbers differ");
        Ok((wires, command))
    }

    /// Adds a wire and returns QEMU's end of it.
    fn add(&mut self, port: Port) -> io::Result<OwnedFd> {
        if port.is_pipe() {
            let (ours, theirs) = io::pipe()?;
            self.heard.insert(port, OwnedFd::from(ours).into());
            return Ok(theirs.into());
        }
        let (ours, theirs) = UnixStream::pair()?;
        // A blocking write could wait for the guest.
        ours.set_nonblocking(true)?;
        self.heard.insert(port, OwnedFd::from(ours.try_clone()?).into());
        self.said.insert(port, ours);
        Ok(theirs.into())
    }
}

/// State of the guest.
#[derive(Debug, Default)]
struct Known {
    ready: Option<(Instant, Duration)>,
    exit: Option<u8>,
    failed: Option<String>,
    /// Reason of the guest's shutdown according to QEMU.
    shutdown: Option<String>,
    /// The reason why this side ended the machine.
    ended: Option<End>,
}

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Stop,
    Process,
    Stderr,
    Port(Port),
    /// The caller's input is readable.
    Input,
    /// The guest accepts more input.
    Room,
}

/// Transfer of the caller's input to the guest.
struct Feed {
    from: Option<Arc<OwnedFd>>,
    to: Port,
    keys: Option<Keys>,
    pending: Vec<u8>,
}

pub(super) struct Supervisor {
    wires: Wires,
    outputs: Outputs,
    stop: Arc<OwnedFd>,
    limit: Option<Duration>,
    feed: Feed,
    terminal: bool,
    console: Console,
    known: Known,
    /// Incomplete lines of the init and of QMP.
    control: Vec<u8>,
    qmp: Vec<u8>,
    words: Vec<u8>,
    /// Time at which QEMU is killed.
    deadline: Option<Instant>,
    /// Time at which QEMU is killed if the guest has printed nothing.
    silent_until: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(
        wires: Wires,
        outputs: Outputs,
        options: &Options,
        stop: Arc<OwnedFd>,
    ) -> Result<Supervisor> {
        let terminal = matches!(options.input, Input::Terminal);
        let (from, to) = match &options.input {
            Input::Nothing => (None, Port::Stdin),
            Input::From(fd) => (Some(Arc::clone(fd)), Port::Stdin),
            Input::Terminal => {
                let stdin = rustix::io::dup(rustix::stdio::stdin()).context(|| "stdin".to_owned())?;
                (Some(Arc::new(stdin)), Port::Terminal)
            }
        };
        let feed = Feed { from, to, keys: terminal.then(Keys::default), pending: Vec::new() };
        Ok(Supervisor {
            wires,
            outputs,
            stop,
            limit: options.time_limit,
            feed,
            terminal,
            console: Console::default(),
            known: Known::default(),
            control: Vec::new(),
            qmp: Vec::new(),
            words: Vec::new(),
            deadline: None,
            // On some systems /dev/kvm exists, but the guest never runs.
            silent_until: (options.accelerator == Accelerator::Kvm && options.gdb.is_none())
                .then(|| Instant::now() + SILENCE),
        })
    }

    /// Starts QEMU, sends the result of the start to `tell_started`, and returns when QEMU has ended.
    pub(super) fn run(
        mut self,
        mut command: Command,
        tell_started: &Sender<Result<u32>>,
    ) -> Option<MachineOutcome> {
        let start = Instant::now();
        let began = self.begin(&mut command);
        // The command holds QEMU's ends of the sockets.
        drop(command);
        let (mut child, process) = match began {
            Ok(began) => began,
            Err(error) => {
                let _ = tell_started.send(Err(error));
                return None;
            }
        };
        let _ = tell_started.send(Ok(child.id()));
        self.deadline = self.limit.map(|limit| start + limit);
        let mut stderr = child.stderr.take();
        let raw = self.terminal.then(Raw::new);
        if let Some(Err(e)) = &raw {
            self.finish(&mut child, End::Outputs(format!("the terminal's mode: {e}")));
        }
        while let Err(error) = self.serve(&mut child, &process, &mut stderr) {
            self.finish(&mut child, End::of_outputs(&error));
        }
        let cpu = cpu_time(child.id());
        let status = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        self.drain(&mut child, &mut stderr);
        let ready = self.known.ready;
        Some(MachineOutcome {
            cpu,
            boot: ready.map(|(at, _)| at - start),
            boot_cpu: ready.map(|(_, cpu)| cpu),
            elapsed: start.elapsed(),
            log: self.console.log(),
            end: self.end(&status),
        })
    }

    fn begin(&mut self, command: &mut Command) -> Result<(Child, OwnedFd)> {
        let mut child =
            command.spawn().context(|| "cannot run setpriv (of util-linux), which starts QEMU".to_owned())?;
        let pid = Pid::from_child(&child);
        let opened = pidfd_open(pid, PidfdFlags::empty()).context(|| "QEMU's process".to_owned());
        let hello = self.tell_qemu("qmp_capabilities").context(|| "QEMU's monitor".to_owned());
        match opened.and_then(|process| hello.map(|()| process)) {
            Ok(process) => Ok((child, process)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Sends a command to QEMU's monitor.
    fn tell_qemu(&mut self, command: &str) -> io::Result<()> {
        let Some(qmp) = self.wires.said.get_mut(&Port::Qmp) else { return Ok(()) };
        writeln!(qmp, "{{\"execute\":\"{command}\"}}")
    }

    /// Handles events until QEMU has ended.
    fn serve(
        &mut self,
        child: &mut Child,
        process: &OwnedFd,
        stderr: &mut Option<ChildStderr>,
    ) -> io::Result<()> {
        loop {
            for source in self.wait(process, stderr)? {
                match source {
                    Source::Process => return Ok(()),
                    Source::Stop => self.finish(child, End::Stopped),
                    Source::Stderr => self.take_words(stderr),
                    Source::Port(port) => drop(self.take(port, child)?),
                    Source::Input => self.take_input(child)?,
                    Source::Room => self.feed()?,
                }
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.deadline = None;
                let ready = self.known.ready.is_some();
                self.finish(child, End::TimedOut { ready });
            }
            if self.silent_until.is_some_and(|until| Instant::now() >= until) {
                self.silent_until = None;
                self.finish(child, End::Silent);
            }
        }
    }

    /// Kills QEMU. `end` is reported unless a better reason is known.
    fn finish(&mut self, child: &mut Child, end: End) {
        self.known.ended.get_or_insert(end);
        // QEMU may have ended by itself.
        let _ = child.kill();
    }

    /// Waits for events, at most until the next deadline.
    fn wait(&self, process: &OwnedFd, stderr: &Option<ChildStderr>) -> io::Result<Vec<Source>> {
        let mut sources: Vec<(Source, BorrowedFd, PollFlags)> = Vec::with_capacity(12);
        if self.known.ended.is_none() {
            sources.push((Source::Stop, self.stop.as_fd(), PollFlags::IN));
        }
        for (&port, stream) in &self.wires.heard {
            sources.push((Source::Port(port), stream.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = stderr {
            sources.push((Source::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let (Some(to), false) = (self.wires.said.get(&self.feed.to), self.feed.pending.is_empty()) {
            sources.push((Source::Room, to.as_fd(), PollFlags::OUT));
        }
        // Input is also read while the guest does not accept any, so that the keys that end the machine work.
        let may_wait = self.feed.pending.len() < CHUNK && self.known.ended.is_none();
        if let (Some(from), true) = (&self.feed.from, may_wait) {
            sources.push((Source::Input, from.as_fd(), PollFlags::IN));
        }
        // The process is polled last, so that earlier output is handled first.
        sources.push((Source::Process, process.as_fd(), PollFlags::IN));
        let next = self.deadline.into_iter().chain(self.silent_until).min();
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        let mut polled: Vec<PollFd> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready = polled.iter().map(|fd| !fd.revents().is_empty());
        Ok(sources.iter().zip(ready).filter(|(_, ready)| *ready).map(|((source, ..), _)| *source).collect())
    }

    /// Reads and handles data of one wire. Returns whether there were any data.
    fn take(&mut self, port: Port, child: &mut Child) -> io::Result<bool> {
        let Some(wire) = self.wires.heard.get_mut(&port) else { return Ok(false) };
        let mut bytes = vec![0; CHUNK];
        let count = match wire.read(&mut bytes) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // QEMU was killed.
            Err(_) => 0,
        };
        if count == 0 {
            self.wires.heard.remove(&port);
            return Ok(false);
        }
        let bytes = &bytes[..count];
        if port != Port::Qmp {
            self.silent_until = None;
        }
        match port {
            Port::Log => self.outputs.log.write_all(&self.console.take(bytes))?,
            Port::Stdout | Port::Terminal => pass(&mut self.outputs.stdout, bytes)?,
            Port::Stderr => pass(&mut self.outputs.stderr, bytes)?,
            Port::Control => self.take_control(bytes, child),
            Port::Qmp => self.take_qmp(bytes),
            // The guest does not send anything on this port.
            Port::Stdin => {}
        }
        Ok(true)
    }

    /// Handles lines of the init.
    fn take_control(&mut self, bytes: &[u8], child: &mut Child) {
        for line in lines(&mut self.control, bytes) {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "ready" => self.known.ready = Some((Instant::now(), cpu_time(child.id()))),
                "failed" => {
                    self.known.failed.get_or_insert(rest.to_owned());
                    // The init sends no further lines.
                    let _ = child.kill();
                }
                "exit" => {
                    self.known.exit = rest.parse().ok();
                    self.deadline = Some(Instant::now() + GRACE);
                }
                "done" => {
                    // If the monitor does not accept the command, QEMU is ending already.
                    let _ = self.tell_qemu("quit");
                }
                _ => {}
            }
        }
    }

    /// Handles lines of QEMU's monitor: the SHUTDOWN event has the reason.
    fn take_qmp(&mut self, bytes: &[u8]) {
        for line in lines(&mut self.qmp, bytes) {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            if message["event"] == "SHUTDOWN" {
                self.known.shutdown = message["data"]["reason"].as_str().map(str::to_owned);
            }
        }
    }

    /// Reads QEMU's stderr.
    fn take_words(&mut self, stderr: &mut Option<ChildStderr>) {
        let mut bytes = vec![0; CHUNK];
        match stderr.as_mut().map(|stderr| stderr.read(&mut bytes)) {
            Some(Ok(count)) if count > 0 => {
                let room = WORDS.saturating_sub(self.words.len());
                self.words.extend_from_slice(&bytes[..count.min(room)]);
            }
            Some(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => *stderr = None,
        }
    }

    /// Reads input of the caller for the guest.
    fn take_input(&mut self, child: &mut Child) -> io::Result<()> {
        let Some(from) = &self.feed.from else { return Ok(()) };
        let mut bytes = vec![0; CHUNK];
        let count = match rustix::io::read(from, &mut bytes[..]) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(e) => return Err(io::Error::other(format!("the input: {e}"))),
        };
        if count == 0 {
            self.feed.from = None;
            return self.feed();
        }
        let bytes = &bytes[..count];
        match &mut self.feed.keys {
            None => self.feed.pending.extend_from_slice(bytes),
            Some(keys) => match keys.take(bytes) {
                Some(typed) => self.feed.pending.extend(typed),
                None => self.finish(child, End::Stopped),
            },
        }
        Ok(())
    }

    /// Writes pending input, as much as the guest accepts, and forwards the end of input.
    fn feed(&mut self) -> io::Result<()> {
        let Some(to) = self.wires.said.get_mut(&self.feed.to) else { return Ok(()) };
        if !self.feed.pending.is_empty() {
            match to.write(&self.feed.pending) {
                Ok(count) => drop(self.feed.pending.drain(..count)),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // QEMU has ended; its exit status shows how.
                Err(_) => self.feed.pending.clear(),
            }
        }
        if self.feed.pending.is_empty() && self.feed.from.is_none() {
            // As above.
            let _ = to.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Reads the remaining output of a QEMU that has ended.
    fn drain(&mut self, child: &mut Child, stderr: &mut Option<ChildStderr>) {
        while stderr.is_some() {
            self.take_words(stderr);
        }
        for port in PORTS {
            while self.wires.heard.contains_key(&port) {
                // An output that fails is reported as the reason of the end. A wire without data is dropped, because its end may never
                // come.
                match self.take(port, child) {
                    Ok(true) => {}
                    Ok(false) => drop(self.wires.heard.remove(&port)),
                    Err(e) => {
                        self.known.ended.get_or_insert(End::of_outputs(&e));
                    }
                }
            }
        }
        if let Err(e) = self.outputs.log.flush() {
            self.known.ended.get_or_insert(End::of_outputs(&e));
        }
    }

    /// Determines how the machine ended: from the init's lines, actions of this side, QEMU's view of the guest, and QEMU's own
    /// messages.
    fn end(&mut self, status: &str) -> End {
        if let Some(end @ (End::Outputs(_) | End::ReaderLeft)) = &self.known.ended {
            return end.clone();
        }
        if let Some(status) = self.known.exit {
            return End::Exited(status);
        }
        if let Some(what) = self.known.failed.take().or_else(|| self.console.failure()) {
            return End::Failed(what);
        }
        if let Some(ended) = self.known.ended.take() {
            return ended;
        }
        match (self.known.shutdown.as_deref(), self.console.panic()) {
            (Some("guest-reset" | "guest-panic"), Some(line)) => End::Panicked(line),
            (Some("guest-reset"), None) => End::Rebooted,
            (Some("guest-shutdown"), _) => End::PoweredOff,
            _ => {
                let words = String::from_utf8_lossy(&self.words);
                End::Qemu(format!("{status}; {}", words.trim()))
            }
        }
    }
}

/// Writes bytes and flushes.
fn pass(to: &mut Box<dyn Write + Send>, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Returns the lines that end in these bytes. The rest stays in `waiting`. A line that is too long is truncated.
fn lines(waiting: &mut Vec<u8>, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for &byte in bytes {
        if byte == b'\n' {
            found.push(String::from_utf8_lossy(waiting).trim().to_owned());
            waiting.clear();
        } else if waiting.len() < LINE {
            waiting.push(byte);
        }
    }
    found
}

/// Returns the CPU time of a process in user and system mode (`utime` and `stime` of proc_pid_stat(5)); zero if it is gone.
fn cpu_time(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name, in parentheses, may contain anything.
    let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_and_bounded() {
        let mut waiting = Vec::new();
        assert_eq!(lines(&mut waiting, b"rea"), Vec::<String>::new());
        assert_eq!(lines(&mut waiting, b"dy\nexit 3\r\ndo"), ["ready", "exit 3"]);
        assert_eq!(lines(&mut waiting, b"ne\n\n"), ["done", ""]);
        assert_eq!(lines(&mut waiting, &vec![b'a'; 3 * LINE]), Vec::<String>::new());
        assert_eq!(waiting.len(), LINE);
    }

    /// The keys that end the machine work even if the guest accepts no input. Pending input is bounded.
    #[test]
    fn keys_work_while_guest_accepts_no_input() {
        let options = crate::machine::arguments::tests::options();
        let file = || File::open("/dev/null").unwrap();
        // The command holds QEMU's ends.
        let (wires, _command) = Wires::new(&options, file(), file()).unwrap();
        let outputs =
            Outputs { log: Box::new(io::sink()), stdout: Box::new(io::sink()), stderr: Box::new(io::sink()) };
        let never = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut supervisor = Supervisor::new(wires, outputs, &options, Arc::new(never())).unwrap();
        let (typed, mut keys) = io::pipe().unwrap();
        supervisor.feed.from = Some(Arc::new(typed.into()));
        supervisor.feed.pending = vec![b'a'; CHUNK - 1];
        while !supervisor.feed.pending.is_empty() {
            let before = supervisor.feed.pending.len();
            supervisor.feed().unwrap();
            match supervisor.feed.pending.len() {
                after if after == before => break,
                _ => supervisor.feed.pending.resize(CHUNK - 1, b'a'),
            }
        }
        keys.write_all(b"\x01x").unwrap();
        supervisor.deadline = Some(Instant::now() + Duration::from_secs(5));
        assert_eq!(supervisor.wait(&never(), &None).unwrap(), [Source::Input]);
        supervisor.feed.pending.push(b'a');
        supervisor.deadline = Some(Instant::now());
        assert_eq!(supervisor.wait(&never(), &None).unwrap(), []);
    }

    #[test]
    fn reads_cpu_time_of_a_process() {
        let start = Instant::now();
        let cpu = || cpu_time(std::process::id());
        // A busy machine gives the process little time.
        while cpu() < Duration::from_millis(30) && start.elapsed() < Duration::from_secs(20) {}
        assert!(cpu() >= Duration::from_millis(30) && cpu() < Duration::from_secs(600), "{:?}", cpu());
        assert_eq!(cpu_time(u32::MAX), Duration::ZERO);
    }
}
