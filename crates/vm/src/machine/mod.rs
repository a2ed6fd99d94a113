// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine that runs: QEMU with the guest in it, from its start to its end.
//!
//! | the guest's | goes | by |
//! |---|---|---|
//! | console: the kernel's log | to [`Outputs::log`] | a 16550 |
//! | command: stdout, stderr | to [`Outputs::stdout`], [`Outputs::stderr`], unaltered | virtio ports |
//! | command: stdin | from [`Options::input`] | a virtio port |
//! | terminal | to and from the terminal of this process | a virtio console |
//! | init: how it goes | tells [`End`] | a virtio port |
//!
//! How the end is told: the init says what status the command had; without that, QEMU's QMP says whether the guest went off or was
//! reset; a reset behind a line `Kernel panic` on the console is a panic (the kernel is told to reset at once), any other a reboot. A
//! guest that hangs says nothing: it ends by the time limit. Pipes and sockets have no names and end with the processes that hold
//! them; QEMU
//! is killed by the system when this process ends, in whatever way.

mod arguments;
mod console;
mod log;
mod supervisor;
mod terminal;

pub use arguments::{Accelerator, Gdb, Icount};
pub use log::Log;

use crate::error::{Context, Error, Result};
use crate::initramfs::{self, Work};
use crate::kernel::Image;
use crate::load::Load;
use crate::parts::{Kernel, Programs, Qemu};
use rustix::event::EventfdFlags;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use supervisor::{Supervisor, Wires};

/// What a machine is and does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The emulator.
    pub qemu: Qemu,
    /// The kernel, and its modules.
    pub kernel: Kernel,
    /// The guest's programs.
    pub programs: Programs,
    /// Virtual CPUs, 1 to 255.
    pub smp: u32,
    /// The guest's memory in MiB, at least 128. It is a memfd that QEMU can hand to others (`share=on`).
    pub memory_mib: u32,
    /// What executes the guest.
    pub accelerator: Accelerator,
    /// QEMU's model of the processor, with features, as [`Parts::check_cpu`](crate::Parts::check_cpu) takes it. Without it: `qemu64,+rdrand`
    /// emulated, `host` with KVM.
    pub cpu: Option<String>,
    /// Counts instructions in place of time; with TCG alone.
    pub icount: Option<Icount>,
    /// Waits for a debugger before the first instruction.
    pub gdb: Option<Gdb>,
    /// A folder that the guest sees at `/share`, with what it writes there.
    pub share: Option<PathBuf>,
    /// Behind the kernel's command line.
    pub append: String,
    /// Behind QEMU's own arguments.
    pub qemu_arguments: Vec<OsString>,
    /// Modules to be loaded before the command, in this order, each behind what it needs.
    pub modules: Vec<Load>,
    /// Files that must exist in the guest after its modules are loaded. If one is missing, the guest fails.
    pub expected: Vec<String>,
    /// The command and its arguments; none is a shell.
    pub command: Vec<String>,
    /// Variables of the command's environment.
    pub environment: Vec<(String, String)>,
    /// Scripts in the command's path: name and text.
    pub scripts: Vec<(String, String)>,
    /// What the command reads.
    pub input: Input,
    /// The machine ends after this time.
    pub time_limit: Option<Duration>,
}

impl Options {
    /// A machine of these parts: one CPU, 512 MiB, emulated; its command is a shell that reads nothing.
    pub fn new(qemu: Qemu, kernel: Kernel, programs: Programs) -> Options {
        Options {
            qemu,
            kernel,
            programs,
            smp: 1,
            memory_mib: 512,
            accelerator: Accelerator::Tcg,
            cpu: None,
            icount: None,
            gdb: None,
            share: None,
            append: String::new(),
            qemu_arguments: Vec::new(),
            modules: Vec::new(),
            expected: Vec::new(),
            command: Vec::new(),
            environment: Vec::new(),
            scripts: Vec::new(),
            input: Input::Nothing,
            time_limit: None,
        }
    }
}

/// What the command reads.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// Nothing: `/dev/null`.
    #[default]
    Nothing,
    /// All that this descriptor has, to its end.
    From(Arc<OwnedFd>),
    /// The terminal that is this process's stdin and stdout, which is put into raw mode while the guest runs. Ctrl-A x ends the machine,
    /// Ctrl-A twice is one Ctrl-A for the guest.
    Terminal,
}

/// Where the guest's words go, as they come. They are written by a thread of the machine's, which waits while they wait.
pub struct Outputs {
    /// The console: the kernel's log, with a line feed alone at the end of a line.
    pub log: Box<dyn Write + Send>,
    /// The command's standard output; the terminal, where the command has one.
    pub stdout: Box<dyn Write + Send>,
    /// The command's standard error.
    pub stderr: Box<dyn Write + Send>,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The command ended with this status; 128 and the number of the signal where a signal ended it.
    Exited(u8),
    /// The init could not begin: a module that cannot be loaded, a folder that cannot be mounted. What it said.
    Failed(String),
    /// The kernel panicked; its line.
    Panicked(String),
    /// The guest went off before the command had ended.
    PoweredOff,
    /// The guest was reset before the command had ended, without a panic.
    Rebooted,
    /// The time limit is over. Whether the guest had come as far as the command.
    TimedOut {
        /// The command had begun.
        ready: bool,
    },
    /// The guest has printed nothing for a minute under KVM.
    Silent,
    /// [`Machine::stop`], or Ctrl-A x at the terminal.
    Stopped,
    /// QEMU ended by itself; what it said.
    Qemu(String),
    /// The caller's outputs or input failed.
    Outputs(String),
    /// Whoever read one of the caller's outputs has left.
    ReaderLeft,
}

impl End {
    /// Of an error of the caller's outputs or input.
    fn of_outputs(error: &io::Error) -> End {
        match error.kind() {
            io::ErrorKind::BrokenPipe => End::ReaderLeft,
            _ => End::Outputs(error.to_string()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(status) => write!(f, "the command ended with status {status}"),
            End::Failed(what) => write!(f, "the guest could not begin: {what}"),
            End::Panicked(line) => write!(f, "the guest's kernel panicked: {line}"),
            End::PoweredOff => f.write_str("the guest went off before the command had ended"),
            End::Rebooted => f.write_str("the guest was reset before the command had ended"),
            End::TimedOut { ready: true } => {
                f.write_str("the time limit was over before the command had ended")
            }
            End::TimedOut { ready: false } => {
                f.write_str("the time limit was over before the guest had begun")
            }
            End::Silent => f.write_str(
                "the guest has said nothing for a minute: /dev/kvm seems not to work here; without --kvm, QEMU emulates the processor",
            ),
            End::Stopped => f.write_str("the guest was stopped"),
            End::Qemu(what) => write!(f, "QEMU ended: {what}"),
            End::Outputs(what) => write!(f, "the guest's words could not be passed on: {what}"),
            End::ReaderLeft => f.write_str("whoever read the guest's words has left"),
        }
    }
}

/// A machine's end, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// CPU time of QEMU in user and system mode.
    pub cpu: Duration,
    /// The same when the command began, if it did.
    pub boot_cpu: Option<Duration>,
    /// Time from QEMU's start to the command's, if it began.
    pub boot: Option<Duration>,
    /// Time from QEMU's start to its end.
    pub elapsed: Duration,
    /// The last 64 KiB of the kernel's log.
    pub log: Log,
}

/// A machine that runs. It runs in a thread of its own; when it is dropped, it is stopped.
#[derive(Debug)]
pub struct Machine {
    thread: Option<JoinHandle<()>>,
    reports: Receiver<Report>,
    report: Option<Report>,
    /// Told to stop.
    stop: Arc<OwnedFd>,
    /// Readable once it has ended.
    ended: Arc<OwnedFd>,
    pid: u32,
}

impl Machine {
    /// Starts a machine.
    ///
    /// # Errors
    /// An option is outside of what is legal, a file is missing, or QEMU cannot be started. What QEMU itself refuses is told by
    /// [`End::Qemu`].
    pub fn start(options: Options, outputs: Outputs) -> Result<Machine> {
        let work = work(&options)?;
        let archive = initramfs::build(&options.kernel, &options.programs, &options.modules, &work)?;
        let initramfs = in_memory("initramfs", &archive)?;
        drop(archive);
        let kernel = match &options.kernel.image {
            Image::File(path) => File::open(path).context(|| path.display().to_string())?,
            Image::Unpacked(bytes) => in_memory("vmlinux", bytes)?,
        };
        let (wires, command) = Wires::new(&options, kernel, initramfs)?;
        let (stop, ended) = (event()?, event()?);
        let (tell, reports) = channel();
        let (tell_started, started) = channel();
        let supervisor = Supervisor::new(wires, outputs, &options, Arc::clone(&stop))?;
        let over = Arc::clone(&ended);
        let used = [options.qemu.used, options.kernel.used, options.programs.used];
        // QEMU ends with the thread that has started it: that one, which sees to its end.
        let thread = std::thread::Builder::new().name("vm".to_owned()).spawn(move || {
            if let Some(report) = supervisor.run(command, &tell_started) {
                // A machine that was dropped wants to know nothing.
                let _ = tell.send(report);
            }
            signal(&over);
            // Until here its parts are not removed.
            drop(used);
        });
        let thread = thread.context(|| "cannot start a thread".to_owned())?;
        let pid = match started.recv() {
            Ok(started) => started?,
            Err(_) => return Err(Error::Option("the machine's thread has ended before it began".to_owned())),
        };
        Ok(Machine { thread: Some(thread), reports, report: None, stop, ended, pid })
    }

    /// The number of QEMU's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has; never waits. [`AsFd`] is a descriptor that can be read from once it has.
    pub fn poll(&mut self) -> Option<&Report> {
        if self.report.is_none() {
            self.report = match self.reports.try_recv() {
                Ok(report) => Some(report),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Report::lost()),
            };
        }
        self.report.as_ref()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Report {
        let report = self.report.take().or_else(|| self.reports.recv().ok());
        report.unwrap_or_else(Report::lost)
    }

    /// Kills QEMU, and waits for its end: [`End::Stopped`], or how it ended before.
    pub fn stop(self) -> Report {
        signal(&self.stop);
        self.wait()
    }
}

impl Report {
    /// What is told of a machine whose thread panicked.
    fn lost() -> Report {
        let end = End::Outputs("the machine's thread has panicked".to_owned());
        Report {
            end,
            cpu: Duration::ZERO,
            boot_cpu: None,
            boot: None,
            elapsed: Duration::ZERO,
            log: Log::default(),
        }
    }
}

impl AsFd for Machine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        signal(&self.stop);
        // A panic of it was told by its report.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the init is to do by these options.
fn work(options: &Options) -> Result<Work> {
    let terminal = match options.input {
        Input::Terminal => Some(terminal::size()?),
        Input::Nothing | Input::From(_) => None,
    };
    let mut environment = options.environment.clone();
    if let (Some(_), Ok(term)) = (terminal, std::env::var("TERM")) {
        environment.insert(0, ("TERM".to_owned(), term));
    }
    Ok(Work {
        command: options.command.clone(),
        terminal,
        input: matches!(options.input, Input::From(_)),
        share: options.share.is_some(),
        expected: options.expected.clone(),
        environment,
        scripts: options.scripts.clone(),
    })
}

/// An eventfd that is not readable yet.
fn event() -> Result<Arc<OwnedFd>> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    event.map(Arc::new).context(|| "eventfd".to_owned())
}

/// Makes an eventfd readable. It is never so full that this would fail.
fn signal(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// A file without a name that holds these bytes.
fn in_memory(name: &str, bytes: &[u8]) -> Result<File> {
    let what = || format!("memory for the {name}");
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).context(what)?;
    let mut file = File::from(file);
    file.write_all(bytes).context(what)?;
    Ok(file)
}
