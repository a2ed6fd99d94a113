// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running machine: QEMU with the guest, from its start to its end.
//!
//! | the guest's | connects to | through |
//! |---|---|---|
//! | console: the kernel's log | [`Outputs::log`] | a 16550 |
//! | command: stdout, stderr | [`Outputs::stdout`], [`Outputs::stderr`], unaltered | virtio ports |
//! | command: stdin | [`Options::input`] | a virtio port |
//! | terminal | the terminal of this process | a virtio console |
//! | init: status lines | [`End`] | a virtio port |
//!
//! How the end is determined: the init reports the status of the command. Without that, QEMU's QMP reports whether the
//! guest powered off or was reset. A reset after a line `Kernel panic` on the console is a panic (the kernel resets at
//! once after a panic); any other reset is a reboot. A guest that hangs ends by the time limit. Pipes and sockets have
//! no names and disappear with the processes that hold them. The system kills QEMU when this process ends, for any
//! reason.

mod arguments;
mod console;
mod log;
mod prefix;
mod supervisor;
mod terminal;

pub use arguments::{Accelerator, Gdb, Icount};
pub use log::{Log, LogTarget};
pub use prefix::Prefixed;

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

/// Configuration of a machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The emulator.
    pub qemu: Qemu,
    /// The kernel and its modules.
    pub kernel: Kernel,
    /// The guest's programs.
    pub programs: Programs,
    /// Virtual CPUs, 1 to 255.
    pub smp: u32,
    /// The guest's memory in MiB, at least 128. The memory is a memfd that QEMU can share with other processes
    /// (`share=on`).
    pub memory_mib: u32,
    /// Accelerator that executes the guest.
    pub accelerator: Accelerator,
    /// QEMU's processor model with features, as for [`Parts::check_cpu`](crate::Parts::check_cpu). Default: `qemu64,+rdrand` for emulation,
    /// `host` for KVM.
    pub cpu: Option<String>,
    /// Runs the clock by instruction count; only for TCG.
    pub icount: Option<Icount>,
    /// Waits for a debugger before the first instruction.
    pub gdb: Option<Gdb>,
    /// Folder that the guest mounts at `/share`, writable.
    pub share: Option<PathBuf>,
    /// Appended to the kernel's command line.
    pub append: String,
    /// Appended to QEMU's arguments.
    pub qemu_arguments: Vec<OsString>,
    /// Modules to load before the command, in this order, each after its dependencies.
    pub modules: Vec<Load>,
    /// Files that must exist in the guest after its modules are loaded. If one is missing, the guest fails.
    pub expected: Vec<String>,
    /// Command and arguments; empty for a shell.
    pub command: Vec<String>,
    /// Environment variables of the command.
    pub environment: Vec<(String, String)>,
    /// Scripts to add to the command's path: name and text.
    pub scripts: Vec<(String, String)>,
    /// Input of the command.
    pub input: Input,
    /// Time after which the machine is ended.
    pub time_limit: Option<Duration>,
}

impl Options {
    /// Creates options with these parts: one CPU, 512 MiB, emulated. The command is a shell without input.
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

/// Input of the command.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// No input: `/dev/null`.
    #[default]
    Nothing,
    /// All data of this descriptor, up to its end.
    From(Arc<OwnedFd>),
    /// The terminal at this process's stdin and stdout, in raw mode while the guest runs. Ctrl-A x ends the machine. Ctrl-A twice sends one
    /// Ctrl-A to the guest.
    Terminal,
}

/// Destinations of the guest's output, written as it arrives. A thread of the machine writes to these destinations, and
/// blocks if they block.
pub struct Outputs {
    /// The console: the kernel's log, with only a line feed at the end of each line.
    pub log: Box<dyn Write + Send>,
    /// The command's standard output, or the output of its terminal.
    pub stdout: Box<dyn Write + Send>,
    /// The command's standard error.
    pub stderr: Box<dyn Write + Send>,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The command ended with this status: 128 plus the signal number if a signal ended it.
    Exited(u8),
    /// The init failed, for example to load a module or mount a folder. Its message.
    Failed(String),
    /// The kernel panicked. Its message.
    Panicked(String),
    /// The guest powered off before the command ended.
    PoweredOff,
    /// The guest was reset before the command ended, without a panic.
    Rebooted,
    /// The time limit was reached.
    TimedOut {
        /// Whether the command had started.
        ready: bool,
    },
    /// The guest has printed nothing for a minute under KVM.
    Silent,
    /// [`Machine::stop`], or Ctrl-A x at the terminal.
    Stopped,
    /// QEMU exited by itself. Its message.
    Qemu(String),
    /// The caller's outputs or input failed.
    Outputs(String),
    /// The reader of one of the caller's outputs has closed it.
    ReaderLeft,
}

impl End {
    /// Returns the end caused by an error of the caller's outputs or input.
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
            End::Failed(what) => write!(f, "the guest could not start: {what}"),
            End::Panicked(line) => write!(f, "the guest's kernel panicked: {line}"),
            End::PoweredOff => f.write_str("the guest powered off before the command ended"),
            End::Rebooted => f.write_str("the guest was reset before the command ended"),
            End::TimedOut { ready: true } => {
                f.write_str("the time limit was reached before the command ended")
            }
            End::TimedOut { ready: false } => {
                f.write_str("the time limit was reached before the guest started")
            }
            End::Silent => f.write_str(
                "the guest has printed nothing for a minute: /dev/kvm does not seem to work here; without --kvm, QEMU emulates the processor",
            ),
            End::Stopped => f.write_str("the guest was stopped"),
            End::Qemu(what) => write!(f, "QEMU ended: {what}"),
            End::Outputs(what) => write!(f, "the guest's output could not be written: {what}"),
            End::ReaderLeft => f.write_str("the reader of the guest's output has closed it"),
        }
    }
}

/// A machine's end and cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineOutcome {
    /// How the machine ended.
    pub end: End,
    /// CPU time of QEMU in user and system mode.
    pub cpu: Duration,
    /// CPU time of QEMU when the command started; `None` if the command did not start.
    pub boot_cpu: Option<Duration>,
    /// Time from QEMU's start to the start of the command; `None` if the command did not start.
    pub boot: Option<Duration>,
    /// Time from QEMU's start to its end.
    pub elapsed: Duration,
    /// The last 64 KiB of the kernel's log.
    pub log: Log,
}

/// A running machine, in its own thread. The machine stops when this value is dropped.
#[derive(Debug)]
pub struct Machine {
    thread: Option<JoinHandle<()>>,
    reports: Receiver<MachineOutcome>,
    report: Option<MachineOutcome>,
    /// Signalled to stop the machine.
    stop: Arc<OwnedFd>,
    /// Readable when the machine has ended.
    ended: Arc<OwnedFd>,
    pid: u32,
}

impl Machine {
    /// Starts a machine.
    ///
    /// # Errors
    /// If an option is invalid, a file is missing, or QEMU cannot be started. Errors of QEMU itself give [`End::Qemu`].
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
        // QEMU is killed when the thread that started it ends, so the supervising thread starts it.
        let thread = std::thread::Builder::new().name("vm".to_owned()).spawn(move || {
            if let Some(report) = supervisor.run(command, &tell_started) {
                // If the machine was dropped, its report has no receiver.
                let _ = tell.send(report);
            }
            signal(&over);
            // Until here, the parts are locked against removal.
            drop(used);
        });
        let thread = thread.context(|| "cannot start a thread".to_owned())?;
        let pid = match started.recv() {
            Ok(started) => started?,
            Err(_) => {
                return Err(Error::Option("the machine's thread ended before it started QEMU".to_owned()));
            }
        };
        Ok(Machine { thread: Some(thread), reports, report: None, stop, ended, pid })
    }

    /// Returns the process ID of QEMU.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the report if the machine has ended; never blocks. The descriptor of [`AsFd`] becomes readable at the end.
    pub fn poll(&mut self) -> Option<&MachineOutcome> {
        if self.report.is_none() {
            self.report = match self.reports.try_recv() {
                Ok(report) => Some(report),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(MachineOutcome::lost()),
            };
        }
        self.report.as_ref()
    }

    /// Waits for the end.
    pub fn wait(mut self) -> MachineOutcome {
        let report = self.report.take().or_else(|| self.reports.recv().ok());
        report.unwrap_or_else(MachineOutcome::lost)
    }

    /// Kills QEMU and waits for its end: [`End::Stopped`], or an earlier end.
    pub fn stop(self) -> MachineOutcome {
        signal(&self.stop);
        self.wait()
    }
}

impl MachineOutcome {
    /// Returns the report of a machine whose thread panicked.
    fn lost() -> MachineOutcome {
        let end = End::Outputs("the machine's thread panicked".to_owned());
        MachineOutcome {
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
        // A panic of the thread shows in its report.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the tasks of the init for these options.
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

/// Creates an eventfd that is not readable yet.
fn event() -> Result<Arc<OwnedFd>> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    event.map(Arc::new).context(|| "eventfd".to_owned())
}

/// Makes an eventfd readable. Its counter never reaches the limit at which this fails.
fn signal(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Creates a file without a name and with these contents.
fn in_memory(name: &str, bytes: &[u8]) -> Result<File> {
    let what = || format!("memory for the {name}");
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).context(what)?;
    let mut file = File::from(file);
    file.write_all(bytes).context(what)?;
    Ok(file)
}
