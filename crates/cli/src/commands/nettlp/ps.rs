// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp ps`: lists the processes of an adapter's host by DMA.

use super::kernel::{Found, KernelArgs};
use crate::failure::Failure;
use crate::output;
use introspect::{Task, task_table};
use serde::Serialize;

const EXAMPLE: &str = "\
Examples:
  riser nettlp ps -r 192.168.10.1
  riser nettlp ps -r 127.0.0.1 -l 127.0.0.2 --btf vmlinux.btf --search 0x100000000+64G

Replaces process-list and needs no System.map. Searches memory for the kernel (x86-64 Linux with BTF, as in \
distributions), wherever KASLR has put it. Takes the layout of a task from the kernel's type information. Writes \
nothing. The host keeps running: data that changes during a read is read again. With --json, prints one object:
  remote, init_task_address, image_offset (virtual minus physical address), direct_map (its virtual address): hexadecimal text,
  memory: [{address, length_bytes}] (physical), tasks: [{address (physical), pid, state, name, is_kernel_thread}].
The exit status is 1 if no kernel is found, or if reads of memory are refused, for example by an IOMMU.";

/// List the processes of an adapter's host, by DMA alone
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PsReport {
    #[serde(flatten)]
    found: Found,
    tasks: Vec<Task>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let (tasks, found) = args.kernel.with_kernel(|kernel, _| kernel.tasks())?;
    match args.json {
        true => output::json(&PsReport { found, tasks }),
        false => output::text(&task_table(&tasks)),
    }
}
