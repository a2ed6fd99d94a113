// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp ps` and `riser nettlp codedump`: find the kernel of an adapter's host by DMA, with `riser-introspect`.

use super::bytes::number;
use super::peer::{PeerArgs, failure_of, interrupted};
use crate::commands::sizes::whole;
use crate::{Failure, output, progress};
use indicatif::ProgressBar;
use introspect::{Btf, Code, CodeRun, Error, Gap, Kernel, KernelReport, Progress, Search, Task, task_table};
use nettlp::allow::Window;
use nettlp::client::{Client, ClientError};
use nettlp::net::AnyCarrier;
use serde::Serialize;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const PS_EXAMPLES: &str = "\
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
#[command(after_help = PS_EXAMPLES)]
pub(super) struct Ps {
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

pub(super) fn ps(args: &Ps) -> Result<(), Failure> {
    let (tasks, found) = args.kernel.with_kernel(|kernel, _| kernel.tasks())?;
    match args.json {
        true => output::json(&PsReport { found, tasks }),
        false => output::text(&task_table(&tasks)),
    }
}

const CODEDUMP_EXAMPLES: &str = "\
Examples:
  riser nettlp codedump -r 192.168.10.1 -p 20286 -o code.dump
  riser nettlp codedump -r 127.0.0.1 -l 127.0.0.2 -p 1 -o - | strings

Finds the kernel like `riser nettlp ps`. Then walks the process's page tables (4 or 5 levels, pages of 4 KiB, 2 MiB \
and 1 GiB) to read the code from start_code to end_code. This is the executable part of the program's file, as `readelf -l` shows. \
Pages that the process has not touched come from the page cache of that file. Bytes that are not in memory are listed, and \
written as zeros. With --json, prints one object with the keys of `ps` except tasks, and
  pid, name, task_address, page_table_levels, start_address, end_address (virtual), output,
  runs: [{address, physical_address, length_bytes, is_mapped}], gaps: [{address, length_bytes, why}].
The exit status is 1 if any byte is not in memory.";

/// Write the code of a process on an adapter's host to a file, by DMA alone
#[derive(clap::Args)]
#[command(after_help = CODEDUMP_EXAMPLES)]
pub(super) struct Codedump {
    #[command(flatten)]
    kernel: KernelArgs,

    /// PID of the process
    #[arg(short, long, value_parser = whole(1..=i32::MAX))]
    pid: i32,

    /// Write the code to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CodedumpReport<'a> {
    #[serde(flatten)]
    found: Found,
    pid: i32,
    name: &'a str,
    task_address: u64,
    page_table_levels: u32,
    start_address: u64,
    end_address: u64,
    runs: &'a [CodeRun],
    gaps: &'a [Gap],
    output: String,
}

pub(super) fn codedump(args: &Codedump) -> Result<(), Failure> {
    let mut file = output::files(args.force).claim("-o", &args.output)?.open()?;
    let mut written = Ok(());
    let (code, found) = args.kernel.with_kernel(|kernel, bar| {
        let code = Code::of(kernel, args.pid)?;
        let show = |at| bar.set_message(format!("reading the code: {at:#x}"));
        written = code.write_to(kernel, &mut file, show)?;
        code.is_still_there(kernel)?;
        Ok(code)
    })?;
    written.map_err(|e| file.failed(&e))?;
    file.finish()?;
    let (missing, bytes) = (code.missing_bytes(), code.area.end - code.area.start);
    if args.json {
        output::json(&CodedumpReport {
            found,
            pid: code.task.pid,
            name: &code.task.name,
            task_address: code.task.physical,
            page_table_levels: code.levels as u32,
            start_address: code.area.start,
            end_address: code.area.end,
            runs: &code.runs,
            gaps: &code.gaps,
            output: args.output.display().to_string(),
        })?;
    } else {
        output::text(&code.to_string())?;
    }
    if missing == 0 {
        return Ok(());
    }
    let why = format!("{missing} of {bytes} bytes of code are not in memory and were written as zeros");
    Err(Failure::Run(format!("PID {} ({}): {why}", args.pid, code.task.name)))
}

#[derive(clap::Args)]
struct KernelArgs {
    #[command(flatten)]
    peer: PeerArgs,

    /// Read the kernel's type information from this copy of its /sys/kernel/btf/vmlinux instead of its memory
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,

    /// Search only this memory; can be given several times [default: from 2 MiB and from 4 GiB up to the end of readable memory]
    #[arg(long, alias = "memory", value_name = "BASE+SIZE", value_parser = memory)]
    search: Vec<Range<u64>>,

    /// Upper limit of the search for memory
    #[arg(long, alias = "memory-end", value_name = "ADDRESS", default_value = "1T", value_parser = end, conflicts_with = "search")]
    search_end: u64,
}

fn end(text: &str) -> Result<u64, String> {
    let end = number(text)?;
    if end > 2 << 20 { Ok(end) } else { Err("the search starts at 2M: expected more".to_owned()) }
}

fn memory(text: &str) -> Result<Range<u64>, String> {
    match text.parse() {
        Ok(Window::Range { base, size }) => Ok(base..base + size),
        _ => Err("expected BASE+SIZE within 64 bits, such as 0x100000000+64G".to_owned()),
    }
}

/// Report of the kernel.
#[derive(Serialize)]
struct Found {
    remote: String,
    #[serde(flatten)]
    kernel: KernelReport,
}

impl KernelArgs {
    /// Connects, finds the kernel, and calls `work` with it.
    fn with_kernel<T>(
        &self,
        work: impl FnOnce(&mut Kernel<'_, Client<AnyCarrier>>, &ProgressBar) -> Result<T, Error<ClientError>>,
    ) -> Result<(T, Found), Failure> {
        let btf = self.btf.as_deref().map(read_btf).transpose()?;
        let (mut client, target) = self.peer.client()?;
        let search = Search { btf, memory: self.search.clone(), end: self.search_end };
        let bar = progress::spinner("{spinner} {msg}");
        let found = introspect::find(&mut client, search, &mut |at| bar.set_message(doing(at)));
        let done = found.and_then(|mut kernel| {
            let done = work(&mut kernel, &bar)?;
            Ok((done, Found { remote: target.remote.to_string(), kernel: kernel.report() }))
        });
        bar.finish_and_clear();
        done.map_err(|error| match error {
            Error::Memory(ClientError::Stopped) => interrupted(&target, "nothing was written"),
            Error::Memory(error) => failure_of(&target, &error, &client),
            error => Failure::Run(format!("{}: {error}", target.remote)),
        })
    }
}

fn doing(at: Progress) -> String {
    match at {
        Progress::Measuring(at) => format!("searching the end of memory: {at:#x}"),
        Progress::Image(at) => format!("searching the kernel's image: {at:#x}"),
        Progress::All(at) => format!("searching all memory: {at:#x}"),
    }
}

fn read_btf(path: &Path) -> Result<Btf, Failure> {
    let said = |why: String| Failure::Run(format!("--btf {}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|e| said(e.to_string()))?;
    Btf::parse(&bytes).map_err(|e| said(e.to_string()))
}
