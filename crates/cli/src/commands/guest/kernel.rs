// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest kernel`: has a kernel for `riser guest run` there before it is needed, from `riser-vm`.

use super::sources::SourceArgs;
use crate::failure::Failure;
use crate::{interrupt, output};
use serde::Serialize;
use std::path::PathBuf;
use vm::kernel::Image;

const EXAMPLE: &str = "\
Examples:
  riser guest kernel 6.12-debug
  riser guest build drivers/linux --kernel 6.12-debug
  riser guest run labs/sriov.toml --kernel 6.12-debug --memory 1024 -- dmesg

6.12-debug watches itself, and what modules do: KASAN, UBSAN, lockdep, kmemleak, debugging of DMA mappings, objects, lists and \
sleep, and failures by order (/proc/self/fail-nth). Debian has no such kernel: it is built of Debian's linux-source-6.12 by Debian's \
compiler, in a namespace of its own, so that nothing has to be installed and nobody be root. That takes 15 minutes of a processor, \
half as long on two, and 1.7 GB of the cache, once; what is interrupted goes on where it was.
6.1 and 6.12 are fetched, as `riser guest run` does.
The file of the kernel goes to standard output. --json prints one object: kernel, release, image.";

/// Fetch a kernel for the guest, or build one that watches itself
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The kernel: 6.12-debug, or 6.1 or 6.12 of Debian's
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
