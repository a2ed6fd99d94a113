// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest build`: builds the user's modules for a kernel that `riser guest run` boots, with `riser-vm`.

use super::sources::SourceArgs;
use crate::{Failure, interrupt, output};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser guest build drivers/linux
  riser guest build drivers/linux --kernel 6.12
  riser guest build . -- W=1 C=1          # warnings, and sparse
  riser guest build . -- clean
  riser guest build ept --from-kernel drivers/misc/pci_endpoint_test.c

The folder has a Kbuild or Makefile, like any out-of-tree kernel module (`obj-m := my.o`). riser fetches these once, \
and keeps them: Debian's headers of the exact kernel that `riser guest run` boots, the compiler that built this \
kernel, make and sparse. They run in a separate namespace, where the folder is /src, so they need neither installation \
nor root.
With --from-kernel, riser first copies a file of Debian's source of that kernel into the folder, and adds a Kbuild if the folder has \
neither Kbuild nor Makefile. The source is fetched once (140 MB). Existing files are kept. Files below tools/ are programs: cc builds them.
The output of make goes to standard error. The paths of the built modules go to standard output, one per line; --module takes them.
--json prints one object: kernel, release, modules: [...].";

/// Build a kernel module for the kernel of the guest
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Folder of the module's sources
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Kernel: 6.1 or 6.12 from Debian, or 6.12-debug from `riser guest kernel`
    #[arg(long, value_name = "VERSION", default_value = vm::parts::DEFAULT_KERNEL)]
    kernel: String,

    /// Copy this file of the kernel's source into the folder first; can be given several times
    #[arg(long, value_name = "FILE")]
    from_kernel: Vec<String>,

    #[command(flatten)]
    sources: SourceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Arguments of make [default: modules]
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
    let modules = builder.build(&args.folder, &args.arguments, &stop).map_err(|error| match error {
        vm::Error::Stopped => Failure::Interrupted("interrupted while modules were being built".to_owned()),
        error => error.into(),
    })?;
    if args.json {
        return output::json(&Built { kernel: args.kernel.clone(), release: builder.release, modules });
    }
    modules.iter().try_for_each(|module| output::text(&module.display().to_string()))
}
