// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp codedump`: reads the code of a process on an adapter's host by DMA.

use super::kernel::{Found, KernelArgs};
use crate::failure::Failure;
use crate::output;
use files::Output;
use indicatif::ProgressBar;
use introspect::{Code, Error, Gap, Kernel, Missing};
use nettlp::client::{Client, ClientError};
use nettlp::net::AnyCarrier;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Bytes per read and per write to the file.
const CHUNK_BYTES: u64 = 1 << 20;

const EXAMPLE: &str = "\
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
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,

    /// PID of the process
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
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
struct CodedumpReport {
    #[serde(flatten)]
    found: Found,
    pid: i32,
    name: String,
    task_address: u64,
    page_table_levels: u32,
    start_address: u64,
    end_address: u64,
    runs: Vec<RunRow>,
    gaps: Vec<GapRow>,
    output: String,
}

#[derive(Serialize)]
struct RunRow {
    address: u64,
    physical_address: u64,
    length_bytes: u64,
    is_mapped: bool,
}

#[derive(Serialize)]
struct GapRow {
    address: u64,
    length_bytes: u64,
    why: &'static str,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut file = output::files(args.force).claim("-o", &args.output)?.open()?;
    let mut written = Ok(());
    let (code, found) = args.kernel.with_kernel(|kernel, bar| {
        let code = Code::of(kernel, args.pid)?;
        written = write_out(kernel, &code, &mut file, bar)?;
        code.is_still_there(kernel)?;
        Ok(code)
    })?;
    written.map_err(|e| file.failed(&e))?;
    file.finish()?;
    let (missing, bytes) = (code.missing_bytes(), code.area.end - code.area.start);
    match args.json {
        true => output::json(&report(&args, &code, found))?,
        false => output::text(&text(&code))?,
    }
    if missing == 0 {
        return Ok(());
    }
    let why = format!("{missing} of {bytes} bytes of code are not in memory and were written as zeros");
    Err(Failure::Run(format!("PID {} ({}): {why}", args.pid, code.task.name)))
}

/// Writes the whole area, with zeros for bytes that are not in memory.
fn write_out(
    kernel: &mut Kernel<'_, Client<AnyCarrier>>,
    code: &Code,
    file: &mut Output,
    bar: &ProgressBar,
) -> Result<io::Result<()>, Error<ClientError>> {
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    let mut at = code.area.start;
    while at < code.area.end {
        bar.set_message(format!("reading the code: {at:#x}"));
        let part = &mut chunk[..(code.area.end - at).min(CHUNK_BYTES) as usize];
        code.read(kernel, at, part)?;
        if let Err(error) = file.write_all(part) {
            return Ok(Err(error));
        }
        at += part.len() as u64;
    }
    Ok(Ok(()))
}

/// Returns the text in the form of figure 16b of the NetTLP paper.
fn text(code: &Code) -> String {
    let area = format!("code area: {:#x}-{:#x}", code.area.start, code.area.end);
    let gap =
        |gap: &Gap| format!("not in memory: {:#x}-{:#x}, {}", gap.address, gap.address + gap.bytes, why(gap));
    let end = code.gaps.is_empty().then(|| "dump complete".to_owned());
    let lines: Vec<String> = [area].into_iter().chain(code.gaps.iter().map(gap)).chain(end).collect();
    lines.join("\n")
}

fn why(gap: &Gap) -> &'static str {
    match gap.why {
        Missing::NotMapped => "not mapped",
        Missing::Swapped => "swapped out or moving",
        Missing::Refused => "reading its page table was refused",
    }
}

fn report(args: &Args, code: &Code, found: Found) -> CodedumpReport {
    let run = |run: &introspect::CodeRun| RunRow {
        address: run.address,
        physical_address: run.physical,
        length_bytes: run.bytes,
        is_mapped: run.is_mapped,
    };
    let gap = |gap: &Gap| GapRow { address: gap.address, length_bytes: gap.bytes, why: why(gap) };
    CodedumpReport {
        found,
        pid: code.task.pid,
        name: code.task.name.clone(),
        task_address: code.task.physical,
        page_table_levels: code.levels as u32,
        start_address: code.area.start,
        end_address: code.area.end,
        runs: code.runs.iter().map(run).collect(),
        gaps: code.gaps.iter().map(gap).collect(),
        output: args.output.display().to_string(),
    }
}
