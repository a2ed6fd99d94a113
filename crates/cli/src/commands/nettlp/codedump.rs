// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp codedump`: reads the code of a process on an adapter's host by DMA.

use super::kernel::{Found, KernelArgs};
use crate::failure::Failure;
use crate::output;
use files::Output;
use indicatif::ProgressBar;
use introspect::{Code, CodeRun, Error, Gap, Kernel};
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
        false => output::text(&code.to_string())?,
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

fn report<'a>(args: &Args, code: &'a Code, found: Found) -> CodedumpReport<'a> {
    CodedumpReport {
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
    }
}
