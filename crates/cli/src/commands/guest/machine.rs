// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual machine of `riser guest run`, as its options say, from `riser-vm`.

use super::placement;
use super::prefix::Prefixed;
use super::sources::{SourceArgs, failed};
use crate::failure::Failure;
use crate::outputs;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vm::machine::{Accelerator, Gdb, Icount, Input, Outputs};
use vm::{Error, Kernel, Load, Machine, Options, Parts, Programs, Which};
use worlds::machine::Pace;

/// What QEMU must have.
const DEVICE: &str = "vfio-user-pci";
/// Programs that every guest has: `lspci` and `setpci`.
const PROGRAMS: &str = "pciutils";

/// The machine, and where its parts come from.
#[derive(clap::Args)]
pub(super) struct MachineArgs {
    /// The kernel: 6.1 or 6.12 of Debian's, 6.12-debug of `riser guest kernel`, or the file of a bzImage or vmlinux
    #[arg(long, value_name = "VERSION|FILE", default_value = vm::parts::DEFAULT_KERNEL, help_heading = "Machine")]
    kernel: String,

    /// The modules of a kernel of your own: a folder as /lib/modules/VERSION
    #[arg(long, value_name = "DIR", help_heading = "Machine")]
    modules: Option<PathBuf>,

    /// Load a module before the command: a .ko file, or one of the kernel's by its name; may be given again. Parameters follow behind a
    /// blank
    #[arg(long, value_name = "FILE.ko|NAME", help_heading = "Machine")]
    module: Vec<String>,

    /// Put a Debian package into the guest, with what it needs; may be given again
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    package: Vec<String>,

    /// A folder that the guest sees at /share, and may write
    #[arg(long, value_name = "DIR", help_heading = "Machine")]
    share: Option<PathBuf>,

    /// Virtual CPUs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=255), help_heading = "Machine")]
    smp: u32,

    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value = "512", value_parser = clap::value_parser!(u32).range(128..=1 << 20), help_heading = "Machine")]
    memory: u32,

    /// Let the machine's own processor run the guest, in place of QEMU's emulation
    #[arg(long, conflicts_with = "icount", help_heading = "Machine")]
    kvm: bool,

    /// The guest's processor: one of QEMU's models, with features after commas, as `max` or `qemu64,+sse4.2` [default: qemu64,+rdrand; host
    /// with --kvm]
    #[arg(long, value_name = "MODEL", help_heading = "Machine")]
    cpu: Option<String>,

    /// Count instructions in place of time, each 2^N nanoseconds, and let the fabric's time stand still between accesses: a run that nothing
    /// from outside disturbs repeats itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10), help_heading = "Machine")]
    icount: Option<u32>,

    /// Have the fabric's time go N times slower than the clock, so that a machine keeps up with a device that never waits for it, as a
    /// design of RTL that computes for as long as its clock runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "icount", help_heading = "Machine")]
    slow: u32,

    /// The processors that QEMU and riser run on, as `0-3,6` [default: one of those that riser may use where the guest has one virtual
    /// CPU and the lab no design of RTL, since both wait for each other; else all of them]
    #[arg(long, value_name = "LIST", value_parser = placement::list, help_heading = "Machine")]
    cpus: Option<placement::Cpus>,

    /// Wait for a debugger before the first instruction
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:1234", help_heading = "Machine")]
    gdb: Option<SocketAddr>,

    /// Behind the kernel's command line
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Machine"
    )]
    append: String,

    /// Behind QEMU's own arguments; may be given again
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, help_heading = "Machine")]
    qemu_argument: Vec<OsString>,

    /// Write the kernel's log to this file as it comes, in place of showing its end where the guest fails; `-` is standard error
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    log: Option<PathBuf>,

    /// End the machine after this time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Machine")]
    time_limit: Option<u64>,

    /// A QEMU of version 10.1 or later, in place of one that is installed or of Debian's
    #[arg(long, value_name = "FILE", help_heading = "Parts")]
    qemu: Option<PathBuf>,

    /// A busybox without libraries for the guest's programs, in place of Debian's packages
    #[arg(long, value_name = "FILE", conflicts_with = "package", help_heading = "Parts")]
    busybox: Option<PathBuf>,

    #[command(flatten)]
    sources: SourceArgs,
}

impl MachineArgs {
    /// The name of the module that is loaded last.
    pub(super) fn last_module(&self) -> Option<String> {
        let name = match load(self.module.last()?).module {
            Which::File(path) => path.file_stem()?.to_str()?.to_owned(),
            Which::Named(name) => name,
        };
        Some(name.replace('-', "_"))
    }

    /// The machine as asked for, its parts fetched where they are missing. `is_shell`: its command is one.
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
        options.modules = self.module.iter().map(|module| load(module)).collect();
        options.time_limit = self.time_limit.map(Duration::from_secs);
        options.input = if is_shell && io::stdin().is_terminal() && io::stdout().is_terminal() {
            Input::Terminal
        } else {
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            Input::From(Arc::new(stdin.map_err(|e| Failure::Run(format!("standard input: {e}")))?))
        };
        Ok(options)
    }

    /// Whether the fabric's time stands still between accesses.
    pub(super) fn is_still(&self) -> bool {
        self.icount.is_some()
    }

    /// How the fabric's time goes; `own_processor`: as [`place`](Self::place) says.
    pub(super) fn pace(&self, own_processor: bool) -> Pace {
        if self.is_still() { Pace::Still } else { Pace::Clock { slow: self.slow, own_processor } }
    }

    /// Has this process, and what it starts, run on the processors that are best for so many guests. `computes`: the lab has work to do
    /// all the time. Returns whether this process [has one of its own](placement::has_own_processor).
    pub(super) fn place(&self, guests: usize, computes: bool) -> Result<bool, Failure> {
        let virtual_cpus = self.smp as usize * guests;
        placement::place(self.cpus.as_ref(), virtual_cpus + usize::from(computes))
            .map_err(|why| Failure::Usage(format!("--cpus: {why}")))?;
        Ok(placement::has_own_processor(virtual_cpus))
    }

    /// What several machines cannot have.
    pub(super) fn check_several(&self) -> Result<(), Failure> {
        match self.gdb {
            None => Ok(()),
            Some(_) => {
                Err(Failure::Usage("--gdb: a debugger is waited for by one guest, not several".to_owned()))
            }
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
                let why = "--modules: of a kernel of your own alone, which --kernel FILE names";
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

    /// Has the log be that of machine number `n` of those that follow each other: the first's name is as given.
    pub(super) fn number_log(&mut self, n: u32) {
        if let Some(log) = self.log.as_mut().filter(|log| n > 1 && !is_standard_error(log)) {
            let first = if n > 2 { log.with_extension("") } else { log.clone() };
            *log = log_of(&first, Some(&n.to_string()));
        }
    }

    /// Claims the files that a machine writes; `name` as for [`start`](Self::start).
    pub(super) fn claim(&self, outputs: &mut outputs::Outputs, name: Option<&String>) -> Result<(), Failure> {
        let log = self.log.as_deref().filter(|log| !is_standard_error(log));
        let path = log.map(|log| log_of(log, name.map(String::as_str)));
        outputs.claim_if("--log", path.as_deref()).map(|_| ())
    }

    /// Starts the machine. The kernel's log goes to the file of --log, or into `kept`, what the command prints to `stdout`. With `name`, it is
    /// one of several, which stands before its lines and behind the name of its log.
    pub(super) fn start(
        &self,
        options: Options,
        kept: Kept,
        stdout: Box<dyn Write + Send>,
        name: Option<&str>,
    ) -> Result<Machine, Failure> {
        let log: Box<dyn Write + Send> = match &self.log {
            None => Box::new(kept),
            Some(log) if is_standard_error(log) => Box::new(io::stderr()),
            Some(path) => {
                let path = log_of(path, name);
                let folder = path.parent().unwrap_or(Path::new(""));
                let file = fs::create_dir_all(folder).and_then(|()| File::create(&path));
                Box::new(file.map_err(|e| Failure::Run(format!("{}: {e}", path.display())))?)
            }
        };
        let (stdout, stderr): (Box<dyn Write + Send>, Box<dyn Write + Send>) = match name {
            None => (stdout, Box::new(io::stderr())),
            Some(name) => {
                (Box::new(Prefixed::new(name, stdout)), Box::new(Prefixed::new(name, io::stderr())))
            }
        };
        let outputs = Outputs { log, stdout, stderr };
        Machine::start(options, outputs).map_err(failed)
    }
}

fn is_standard_error(log: &Path) -> bool {
    log == Path::new("-")
}

/// The file of the log of a machine, which may be one of several.
fn log_of(log: &Path, name: Option<&str>) -> PathBuf {
    let mut path = log.to_owned().into_os_string();
    if let Some(name) = name {
        path.push(format!(".{name}"));
    }
    path.into()
}

/// Parses the value of `--module`. A path may have blanks: it ends at the first `.ko` before a blank, or at the end, that makes it the
/// path of an existing file.
pub(super) fn load(given: &str) -> Load {
    let ends = given.match_indices(' ').map(|(at, _)| at).chain([given.len()]);
    let files = || ends.clone().map(|end| given.split_at(end)).filter(|(file, _)| file.ends_with(".ko"));
    let file = files().find(|(file, _)| Path::new(file).is_file());
    // The path of a missing file ends before any parameter.
    let file = file.or_else(|| files().find(|(file, _)| !file.contains('=')));
    let (module, parameters) = match file {
        Some((file, parameters)) => (Which::File(file.into()), parameters),
        None => {
            let (name, parameters) = given.split_once(' ').unwrap_or((given, ""));
            (Which::Named(name.to_owned()), parameters)
        }
    };
    Load { module, parameters: parameters.trim_start_matches(' ').to_owned() }
}

/// The end of the kernel's log.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<std::sync::Mutex<Vec<u8>>>);

/// Bytes of it that are kept.
const KEPT_BYTES: usize = 1 << 16;
/// Lines of it that are shown.
const SHOWN_LINES: usize = 20;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let over = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..over);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a line of a kernel's log has where something is wrong.
const COMPLAINTS: [&str; 6] =
    ["BUG:", "WARNING:", "Oops", "Call Trace", "failed with error", "Unknown symbol"];

impl Kept {
    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Its last lines; nothing where there are none.
    pub(super) fn lines(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// The lines from shortly before its first complaint on; nothing where there is none.
    pub(super) fn complaint(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let complains = |line: &&str| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
        let Some(first) = lines.iter().position(complains) else { return String::new() };
        let lines = &lines[first.saturating_sub(2)..];
        lines[..lines.len().min(SHOWN_LINES)].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_module_may_have_blanks() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("my a=b drivers/x.ko");
        std::fs::create_dir(there.parent().unwrap()).unwrap();
        std::fs::write(&there, "").unwrap();
        let there = there.to_str().unwrap();
        let with_parameters = format!("{there} a=1 b=2.ko");
        for (given, file, name, parameters) in [
            ("nvme", false, "nvme", ""),
            ("nvme poll_queues=2 x=y", false, "nvme", "poll_queues=2 x=y"),
            ("none/x.ko a=1", true, "none/x.ko", "a=1"),
            ("my none/x.ko", true, "my none/x.ko", ""),
            ("x file=a.ko", false, "x", "file=a.ko"),
            (there, true, there, ""),
            (&with_parameters, true, there, "a=1 b=2.ko"),
        ] {
            let module = if file { Which::File(name.into()) } else { Which::Named(name.to_owned()) };
            assert_eq!(load(given), Load { module, parameters: parameters.to_owned() }, "{given}");
        }
    }

    #[test]
    fn a_log_is_shown_from_its_complaint_on() {
        let mut kept = Kept::default();
        for n in 0..50 {
            let text = if n == 20 { "copier: probe of 10000:01:00.0 failed with error -22" } else { "fine" };
            writeln!(kept, "{n} {text}").unwrap();
        }
        let shown = kept.complaint();
        assert!(
            shown.starts_with("18 fine\n19 fine\n20 copier: probe of") && shown.ends_with("\n37 fine"),
            "{shown}"
        );
        assert_eq!(kept.lines().lines().count(), SHOWN_LINES);
        assert_eq!(Kept::default().complaint(), "");
    }
}
