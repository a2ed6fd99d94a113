// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest kernel`: fetches or builds a kernel for `riser guest run` in advance, with `riser-vm`.

use super::sources::SourceArgs;
use crate::{Failure, interrupt, output};
use serde::Serialize;
use std::path::PathBuf;
use vm::kernel::Image;

const EXAMPLE: &str = "\
Examples:
  riser guest kernel 6.12-debug
  riser guest build drivers/linux --kernel 6.12-debug
  riser guest run labs/sriov.toml --kernel 6.12-debug --memory-mib 1024 -- dmesg

6.12-debug checks itself and its modules: KASAN, UBSAN, lockdep, kmemleak, debugging of DMA mappings, objects, lists and \
sleep, and fault injection (/proc/self/fail-nth). Debian has no such kernel. riser builds it from Debian's \
linux-source-6.12 with Debian's compiler, in a separate namespace, so the build needs neither installation nor root. The build takes 15 minutes on one processor, \
half as long on two, and 1.7 GB of the cache, once. An interrupted build continues where it stopped.
6.1 and 6.12 are fetched, like `riser guest run` does.
The path of the kernel goes to standard output. --json prints one object: kernel, release, image.";

/// Fetch a kernel for the guest, or build the debug kernel
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Kernel: 6.12-debug, or 6.1 or 6.12 from Debian
    #[arg(value_name = "VERSION")]
    kernel: String,

    #[command(flatten)]
    sources: SourceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Ready<'a> {
    kernel: &'a str,
    release: Option<String>,
    image: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let kernel = args.sources.fetch(&stop, |parts| match args.kernel.as_str() {
        vm::parts::WATCHED_KERNEL => parts.build_kernel(),
        name => parts.kernel(name),
    })?;
    let image = match kernel.image {
        Image::File(path) => Some(path),
        Image::Unpacked(_) => None,
    };
    match args.json {
        true => output::json(&Ready { kernel: &args.kernel, release: kernel.release, image }),
        false => image.map_or(Ok(()), |image| output::text(&image.display().to_string())),
    }
}
