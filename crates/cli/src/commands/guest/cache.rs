// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest cache`: lists and removes cached parts of guests, with `riser-vm`.

use super::sources::CacheArgs;
use crate::commands::sizes::whole;
use crate::{Failure, interrupt, output};
use clap::Subcommand;
use indicatif::HumanBytes;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vm::Entry;

const EXAMPLE: &str = "\
Examples:
  riser guest cache list
  riser guest cache clean --dry-run

A part is something that guests need: QEMU, a kernel, the tools that build modules, or one set of packages. A part is marked as used when a \
guest or a build with it starts, if the user may write the cache.
riser recognizes its parts by name and content. Other folders in the cache are neither listed nor removed.";

const LIST_EXAMPLE: &str = "\
Examples:
  riser guest cache list
  riser guest cache list --json

--json prints one object: folder, bytes, parts: [{name, bytes, last_used_unix_s, unused_days, in_use}].";

const CLEAN_EXAMPLE: &str = "\
Examples:
  riser guest cache clean --dry-run
  riser guest cache clean --unused-days 7
  riser guest cache clean --all

A part that a process uses is never removed. A removed part is fetched again when a guest needs it.
--json prints the object of `riser guest cache list --json`. Each part has `removed` too, and the total leaves out parts in use.";

/// Seconds of a day.
const DAY: u64 = 86400;

/// List or remove the cached parts of guests
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List each part with its size and its last use
    #[command(after_help = LIST_EXAMPLE)]
    List {
        #[command(flatten)]
        cache: CacheArgs,

        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove parts that were not used for some days
    #[command(after_help = CLEAN_EXAMPLE)]
    Clean {
        /// Remove what was not used for this many days
        #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = whole(0..=u32::MAX))]
        unused_days: u32,

        /// Remove all parts
        #[arg(long, conflicts_with = "unused_days")]
        all: bool,

        /// Print what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,

        #[command(flatten)]
        cache: CacheArgs,

        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct CacheReport<'a> {
    folder: &'a Path,
    bytes: u64,
    parts: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    bytes: u64,
    last_used_unix_s: u64,
    unused_days: u64,
    in_use: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<bool>,
}

impl Row {
    fn new(entry: Entry, removed: Option<bool>) -> Row {
        Row {
            name: entry.name,
            bytes: entry.bytes,
            last_used_unix_s: entry.last_used.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            unused_days: SystemTime::now().duration_since(entry.last_used).unwrap_or_default().as_secs()
                / DAY,
            in_use: entry.in_use,
            removed,
        }
    }

    fn last_use(&self) -> String {
        match (self.in_use, self.unused_days) {
            (true, _) => "in use".to_owned(),
            (false, 0) => "today".to_owned(),
            (false, 1) => "1 day ago".to_owned(),
            (false, days) => format!("{days} days ago"),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List { cache, json } => list(cache, *json),
        Command::Clean { unused_days, all, dry_run, cache, json } => {
            let days = if *all { 0 } else { u64::from(*unused_days) };
            clean(cache, Duration::from_secs(days * DAY), *dry_run, *json)
        }
    }
}

fn list(cache: &CacheArgs, json: bool) -> Result<(), Failure> {
    let cache = cache.open()?;
    let entries = cache.entries()?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let parts = entries.into_iter().map(|entry| Row::new(entry, None)).collect();
    let report = CacheReport { folder: cache.folder(), bytes, parts };
    if json {
        return output::json(&report);
    }
    let row = |row: &Row| {
        vec![row.bytes.to_string(), HumanBytes(row.bytes).to_string(), row.last_use(), row.name.clone()]
    };
    output::table(&["bytes", "size", "last use", "part"], report.parts.iter().map(row))?;
    output::text(&format!("{bytes} bytes ({}) in {}", HumanBytes(bytes), place(report.folder)))
}

/// Path of the cache, with a note if it does not exist, because the path may be wrong.
fn place(folder: &Path) -> String {
    let missing = if folder.exists() { "" } else { ", which does not exist" };
    format!("{}{missing}", folder.display())
}

fn clean(args: &CacheArgs, unused: Duration, dry_run: bool, json: bool) -> Result<(), Failure> {
    let (cache, stop) = (args.open()?, interrupt::flag()?);
    let entries = args.work(&stop, |parts| parts.clean(unused, dry_run))?;
    let bytes = entries.iter().filter(|entry| !entry.in_use).map(|entry| entry.bytes).sum();
    let row = |entry: Entry| {
        let removed = Some(!entry.in_use && !dry_run);
        Row::new(entry, removed)
    };
    let report = CacheReport { folder: cache.folder(), bytes, parts: entries.into_iter().map(row).collect() };
    if json {
        return output::json(&report);
    }
    let removes = if dry_run { "would remove" } else { "removed" };
    for part in &report.parts {
        let does = if part.in_use { "kept, in use:" } else { removes };
        output::text(&format!("{does} {}: {} bytes ({})", part.name, part.bytes, HumanBytes(part.bytes)))?;
    }
    output::text(&format!("{removes} {bytes} bytes ({}) in {}", HumanBytes(bytes), place(report.folder)))
}
