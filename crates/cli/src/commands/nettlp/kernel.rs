// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel of an adapter's host by DMA, for `ps` and `codedump`.

use super::bytes::number;
use super::peer::{PeerArgs, failure_of, interrupted};
use crate::failure::Failure;
use crate::progress;
use indicatif::ProgressBar;
use introspect::{Btf, Error, Kernel, KernelReport, Progress, Search};
use nettlp::allow::Window;
use nettlp::client::{Client, ClientError};
use nettlp::net::AnyCarrier;
use serde::Serialize;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct KernelArgs {
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
pub(super) struct Found {
    remote: String,
    #[serde(flatten)]
    kernel: KernelReport,
}

impl KernelArgs {
    /// Connects, finds the kernel, and calls `work` with it.
    pub(super) fn with_kernel<T>(
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
