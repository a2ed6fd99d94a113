// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual machine of `riser guest run` with its options, from `riser-vm`.

use super::sources::SourceArgs;
use crate::commands::sizes::whole;
use crate::{Failure, output};
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vm::machine::{Accelerator, Gdb, Icount, Input, LogTarget, MachineOutcome, Outputs, Prefixed};
use vm::processors::{self, Processors};
use vm::{Error, Kernel, Load, Machine, Options, Parts, Programs};
use worlds::machine::Pace;

/// Device that QEMU must support.
const DEVICE: &str = "vfio-user-pci";
/// Package that every guest has: it contains `lspci` and `setpci`.
const PROGRAMS: &str = "pciutils";

/// Options of the machine, and the sources of its parts.
#[derive(clap::Args)]
pub(super) struct MachineArgs {
    /// Kernel: 6.1 or 6.12 from Debian, 6.12-debug from `riser guest kernel`, or the file of a bzImage or vmlinux
    #[arg(long, value_name = "VERSION|FILE", default_value = vm::parts::DEFAULT_KERNEL, help_heading = "Machine")]
    kernel: String,

    /// Folder with the modules of your own kernel, in the format of /lib/modules/VERSION
    #[arg(long, value_name = "DIR", help_heading = "Machine")]
    modules: Option<PathBuf>,

    /// Load a module before the command: a .ko file, or a module of the kernel by its name; can be given several times. Parameters follow
    /// after a space
    #[arg(long, value_name = "FILE.ko|NAME", help_heading = "Machine")]
    module: Vec<Load>,

    /// Install a Debian package with its dependencies in the guest; can be given several times
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    package: Vec<String>,

    /// Folder that the guest sees at /share, and may write
    #[arg(long, value_name = "DIR", help_heading = "Machine")]
    share: Option<PathBuf>,

    /// Number of virtual CPUs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = whole::<u32>(1..=255), help_heading = "Machine")]
    smp: u32,

    /// Memory of the guest in MiB
    #[arg(long = "memory-mib", alias = "memory", value_name = "MIB", default_value = "512", value_parser = whole::<u32>(128..=1 << 20), help_heading = "Machine")]
    memory: u32,

    /// Run the guest on this machine's processor with KVM, not in QEMU's emulation
    #[arg(long, conflicts_with = "icount", help_heading = "Machine")]
    kvm: bool,

    /// Processor of the guest: a model of QEMU, with features after commas, such as `max` or `qemu64,+sse4.2` [default: qemu64,+rdrand; host
    /// with --kvm]
    #[arg(long, value_name = "MODEL", help_heading = "Machine")]
    cpu: Option<String>,

    /// Count instructions, not time: each takes 2^N nanoseconds, and the fabric's time stands still between accesses. A run without input
    /// from outside is then repeatable
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=10), help_heading = "Machine")]
    icount: Option<u32>,

    /// Run the fabric's time N times slower than the clock. Then the machine keeps up with a device that never waits
    /// for it, such as an RTL design, which is simulated as long as its clock runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1_000_000), conflicts_with = "icount", help_heading = "Machine")]
    slow: u32,

    /// Processors for QEMU and riser, such as `0-3,6` [default: all that riser may use; one if the guest has one
    /// virtual CPU and the lab has no RTL design, because QEMU and riser then wait for each other]
    #[arg(long, value_name = "LIST", help_heading = "Machine")]
    cpus: Option<Processors>,

    /// Wait for a debugger before the first instruction
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:1234", help_heading = "Machine")]
    gdb: Option<SocketAddr>,

    /// Text to append to the kernel's command line
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Machine"
    )]
    append: String,

    /// Argument to append to QEMU's own arguments; can be given several times
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, help_heading = "Machine")]
    qemu_argument: Vec<OsString>,

    /// Write the kernel's log to this file as it arrives, instead of showing its end if the guest fails; `-` is standard error
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(LogTarget), help_heading = "Machine")]
    log: Option<LogTarget>,

    /// End the machine after this time in seconds
    #[arg(long, value_name = "SECONDS", value_parser = whole(1..=u64::MAX), help_heading = "Machine")]
    time_limit: Option<u64>,

    /// QEMU of version 10.1 or later [default: an installed one, or Debian's]
    #[arg(long, value_name = "FILE", help_heading = "Parts")]
    qemu: Option<PathBuf>,

    /// Statically linked busybox for the guest's programs, instead of Debian's packages
    #[arg(long, value_name = "FILE", conflicts_with = "package", help_heading = "Parts")]
    busybox: Option<PathBuf>,

    #[command(flatten)]
    sources: SourceArgs,
}

impl MachineArgs {
    /// Name of the module that is loaded last.
    pub(super) fn last_module(&self) -> Option<String> {
        self.module.last()?.module_name()
    }

    /// Returns the machine's options, and fetches missing parts. `is_shell`: the command is a shell.
    pub(super) fn options(&self, is_shell: bool, stop: &AtomicBool) -> Result<Options, Failure> {
        let mut options = self.sources.fetch(stop, |parts| self.parts(parts))?;
        options.smp = self.smp;
        options.memory_mib = self.memory;
        options.accelerator = if self.kvm { Accelerator::Kvm } else { Accelerator::Tcg };
        options.cpu = self.cpu.clone();
        options.icount = self.icount.map(|shift| Icount { shift, sleep: false });
        options.gdb = self.gdb.map(Gdb);
        options.share = self.share.clone();
        options.append = self.append.clone();
        options.qemu_arguments = self.qemu_argument.clone();
        options.modules = self.module.clone();
        options.time_limit = self.time_limit.map(Duration::from_secs);
        options.input = if is_shell && io::stdin().is_terminal() && io::stdout().is_terminal() {
            Input::Terminal
        } else {
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            Input::From(Arc::new(stdin.map_err(|e| Failure::Run(format!("standard input: {e}")))?))
        };
        Ok(options)
    }

    /// True if the fabric's time stands still between accesses.
    pub(super) fn is_still(&self) -> bool {
        self.icount.is_some()
    }

    /// Returns how the fabric's time advances.
    pub(super) fn pace(&self, own_processor: bool) -> Pace {
        if self.is_still() { Pace::Still } else { Pace::Clock { slow: self.slow, own_processor } }
    }

    /// Pins this process and its children to the best processors for this number of guests. `computes`: the lab has
    /// work all the time. Returns [`processors::has_own_processor`].
    pub(super) fn pin(&self, guests: usize, computes: bool) -> Result<bool, Failure> {
        let virtual_cpus = self.smp as usize * guests;
        processors::pin(self.cpus.as_ref(), virtual_cpus + usize::from(computes))
            .map_err(|why| Failure::Usage(format!("--cpus: {why}")))?;
        Ok(processors::has_own_processor(virtual_cpus))
    }

    /// Refuses options that several machines cannot have.
    pub(super) fn check_several(&self) -> Result<(), Failure> {
        match self.gdb {
            None => Ok(()),
            Some(_) => Err(Failure::usage("--gdb: legal only with one guest, and there are several")),
        }
    }

    fn parts(&self, parts: &mut Parts<'_>) -> vm::Result<Options> {
        let qemu = match &self.qemu {
            Some(program) => parts.qemu_at(program, &[DEVICE])?,
            None => parts.qemu(&[DEVICE])?,
        };
        if let Some(cpu) = &self.cpu {
            parts.check_cpu(&qemu, cpu)?;
        }
        let kernel = match Path::new(&self.kernel) {
            file if file.is_file() => Kernel::open(file, self.modules.as_deref())?,
            _ if self.modules.is_some() => {
                let why = "--modules: requires a kernel of your own, --kernel FILE";
                return Err(Error::Option(why.to_owned()));
            }
            _ => parts.kernel(&self.kernel)?,
        };
        let programs = match &self.busybox {
            Some(file) => Programs::busybox(file)?,
            None => {
                let packages = std::iter::once(PROGRAMS).chain(self.package.iter().map(String::as_str));
                parts.programs(&packages.collect::<Vec<_>>())?
            }
        };
        Ok(Options::new(qemu, kernel, programs))
    }

    /// Sets the name of the log for machine number `n` of several in a row.
    pub(super) fn number_log(&mut self, n: u32) {
        self.log.iter_mut().for_each(|log| log.number(n));
    }

    /// Claims the files that a machine writes. `name` as in [`start`](Self::start).
    pub(super) fn claim(&self, outputs: &mut files::Outputs, name: Option<&String>) -> Result<(), Failure> {
        let path = self.log.as_ref().and_then(|log| log.file(name.map(String::as_str)));
        outputs.claim_if("--log", path.as_deref())?;
        Ok(())
    }

    /// Starts a machine. The command's output goes to `stdout`. `name` is given if there are several machines. It
    /// precedes each line, and is appended to the name of the log.
    pub(super) fn start(
        &self,
        options: Options,
        stdout: Box<dyn Write + Send>,
        name: Option<&str>,
    ) -> vm::Result<Machine> {
        let log = self.log.as_ref().map_or(Ok(Box::new(io::sink()) as Box<_>), |log| log.open(name))?;
        let (stdout, stderr): (Box<dyn Write + Send>, Box<dyn Write + Send>) = match name {
            None => (stdout, Box::new(io::stderr())),
            Some(name) => {
                (Box::new(Prefixed::new(name, stdout)), Box::new(Prefixed::new(name, io::stderr())))
            }
        };
        Machine::start(options, Outputs { log, stdout, stderr })
    }

    /// Prints `what` and the part of the kernel's log that `choose` returns, unless --log shows the log.
    pub(super) fn print_log(
        &self,
        what: &str,
        report: &MachineOutcome,
        choose: fn(&vm::machine::Log) -> String,
    ) {
        let lines = choose(&report.log);
        if self.log.is_none() && !lines.is_empty() {
            output::note(format_args!("{what}:\n{lines}"));
        }
    }
}
