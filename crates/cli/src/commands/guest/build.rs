// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest build`: modules of the user's for one of the kernels that `riser guest run` boots, from `riser-vm`.

use super::sources::SourceArgs;
use crate::failure::Failure;
use crate::{interrupt, output};
use serde::Serialize;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const EXAMPLE: &str = "\
Examples:
  riser guest build drivers/linux
  riser guest build drivers/linux --kernel 6.12
  riser guest build . -- W=1 C=1          # warnings, and sparse
  riser guest build . -- clean
  riser guest build ept --from-kernel drivers/misc/pci_endpoint_test.c

The folder has a Kbuild or Makefile as any module out of the kernel's tree (`obj-m := my.o`). Debian's headers of the very kernel \
that `riser guest run` boots, the compiler that it was built with, make and sparse are fetched once, and kept; they run in a \
namespace of their own, in which the folder is /src, so that nothing has to be installed and nobody be root.
With --from-kernel, the folder gets a file of Debian's source of that kernel first, which is fetched once (140 MB), and a Kbuild \
where it has neither that nor a Makefile; what is in the folder stays as it is. Files below tools/ are programs: cc builds them.
What make prints goes to standard error; the modules that it has built, a line each, to standard output: what --module takes.
--json prints one object: kernel, release, modules: [...].";

/// How often is looked whether make has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Build a kernel module for the guest's kernel
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The folder of the module's sources
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The kernel: 6.1 or 6.12 of Debian's, or 6.12-debug of `riser guest kernel`
    #[arg(long, value_name = "VERSION", default_value = vm::parts::DEFAULT_KERNEL)]
    kernel: String,

    /// Put this file of the kernel's source into the folder first; may be given again
    #[arg(long, value_name = "FILE")]
    from_kernel: Vec<String>,

    #[command(flatten)]
    sources: SourceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// What make is given; without it `modules`
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

#[derive(Serialize)]
struct Built {
    kernel: String,
    release: String,
    modules: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let builder = args.sources.fetch(&stop, |parts| {
        let builder = parts.builder(&args.kernel)?;
        if !args.from_kernel.is_empty() {
            parts.copy_source(&builder, &args.kernel, &args.from_kernel, &args.folder)?;
        }
        Ok(builder)
    })?;
    let make = builder.make(&args.folder, &args.arguments)?;
    let status = wait(make, &stop)?;
    if !status.success() {
        return Err(Failure::Run(format!("{}: make has failed ({status})", args.folder.display())));
    }
    let modules = modules(&args.folder);
    if args.json {
        return output::json(&Built { kernel: args.kernel.clone(), release: builder.release, modules });
    }
    modules.iter().try_for_each(|module| output::text(&module.display().to_string()))
}

/// Runs make to its end, or to Ctrl-C.
fn wait(mut make: Command, stop: &AtomicBool) -> Result<ExitStatus, Failure> {
    let said = |e| Failure::Run(format!("make: {e}"));
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(said)?;
    let mut child = make.stdin(Stdio::null()).stdout(stderr).spawn().map_err(said)?;
    loop {
        if let Some(status) = child.try_wait().map_err(said)? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            // It has ended, or does now.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::Interrupted("interrupted while modules were built".to_owned()));
        }
        thread::sleep(LOOK);
    }
}

/// The modules that make has listed: each line is an object or a module, below the folder as make knows it.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_to_string(folder.join("modules.order")).unwrap_or_default();
    let inside = |line: &str| Path::new(line).strip_prefix(vm::parts::SOURCE).map(Path::to_owned);
    let paths = listed.lines().map(|line| inside(line).unwrap_or_else(|_| line.into()));
    paths.map(|path| folder.join(path.with_extension("ko"))).filter(|path| path.is_file()).collect()
}
