// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser bench`: the pcie-bench methodology, from `riser-bench`. Never measures anything itself.

mod show;
mod suite;

use super::sizes::{Sizes, seed};
use super::words::{MEMORIES, Word, one_of};
use crate::failure::Failure;
use crate::output;
use crate::outputs::{Outputs, Place};
use crate::{interrupt, progress};
use bench::Plan;
use bench::ask::{self, Ask, Ended, MAX_TRANSFERS, RootCredits};
use bench::configurations::Iommu;
use bench::results::sheet::{self, Entry};
use clap::builder::RangedU64ValueParser;
use lab::profile::Basis;
use plug::transfers::{CacheState, Pattern};
use plug::{MemoryKind, Models};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Examples:
  riser bench
  riser bench --suite LAT_RD BW_WR --size 64..2048 --gen 4 --lanes 16
  riser bench --suite BW_RD --host ideal --json -o out/bench
  riser bench --model dma-engine --size 4096 16384
  riser bench --suite LAT_RD --host xeon-platinum-8480 --iommu 4k --cache cold --window 16777216
  riser bench --suite BW_WR --size 64..1024 --mps 128 256 512 --credits default 32:128 16:64
  riser bench --suite short --format pcie-bench --host xeon-e5-2637v3 -o out/suite
  riser bench --suite full --format pcie-bench --host all --jobs 2 -o out/suite

Tests (pcie-bench, section 4): LAT_RD, LAT_WRRD, BW_RD, BW_WR, BW_RDWR, as far as the model offers them, or the suites full and short. Each size of each \
test is a run of its own, of --transfers transfers behind a warm-up that does not count: that number is the stopping rule.
--mps, --mrrs, --credits and --outstanding take lists: every row is measured with each combination. BW_RDWR begins to count when as many \
reads as writes end, so its warm-up grows where it has to, unless --warm-up says how long it is.
Bandwidths are payload of one direction in 10^9 bits per second. `model exact` counts wire bytes and is fed the DLLPs \
that the run counted, with writes cut where the device profile cuts them; `published` is the paper's form; `wire` is raw rate less SKPs, times payload by wire bytes counted. \
`basis` says how the figures of the profiles are known that a row rests on: measured (or looked up), fitted (to measurements) or assumed, whichever \
is the weakest; `riser profiles show NAME` has the source of each.
Where a figure is under the model, the link's table says why: it was not busy, and TLPs stood still for want of credits or of room in \
the replay buffer, or nothing was there to send.

-o writes results.csv, in which every row has all settings in columns, so that files can be put one behind the other; `riser compare` \
and `riser fit` read it. --json prints one object, which results.json holds too: interrupted (where not all \
rows were measured: why), basis, tests: [{host, device, gen, lanes, mps_bytes, mrrs_bytes, \
rcb_bytes, iommu, {posted,non_posted}_{header,data}_credits, addr_bits, outstanding, transfers, warm_up, seed, path, cache, pattern, \
host_offset_bytes, device_offset_bytes, window_bytes, test, size_bytes, latency_ns_{min,median,mean,p95,p99,p999,max} or \
bandwidth_gbps, read_gbps, write_gbps, transactions_per_s, model_exact_gbps, model_published_gbps, wire_gbps, link_ns, and basis, upstream and \
downstream with tlps, dllps, payload_bytes, wire_bytes, utilization, credit_stalls, credit_stall_ns, replay_buffer_stalls, ..., and \
transactions as those of `riser run --json`}]. \
Requests are timed by the fabric, from transmit queue to last completion or to where a write is seen; a latency test is timed \
by the device, around them.

--format pcie-bench runs the experiments of the published measurements of the NFP-6000 card, with their windows, offsets and \
cache states, and writes files of their form: a folder for each configuration, a CSV file for each experiment. There \
--host is `all` (the 21 measured configurations), the name of one, or a host profile, with --iommu if need be; --suite is full (28 experiments, \
2472 rows), short (those of the paper's Figures 4 to 7) or names of experiments. Rows end by a convergence rule and \
say how many samples they are of. A run that was interrupted (Ctrl-C) goes on where it is started again: complete files \
stay. docs/reference/suite.md has the experiments, the columns and the rule.";

/// Measure latency and bandwidth with the method of pcie-bench
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Tests or suites; with --format pcie-bench suites or experiments
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "full")]
    suite: Vec<String>,

    #[command(flatten)]
    public: suite::PublicArgs,

    /// Transfer sizes in bytes, 1 to 4096: N, A..B (doubling from A to B) or A..B:STEP
    #[arg(long = "size", value_name = "SIZE", num_args = 1..)]
    sizes: Vec<Sizes>,

    /// The model that is measured: one that offers transfers; default: pcie-bench, the card of the paper
    #[arg(long, value_name = "MODEL", conflicts_with = "format")]
    model: Option<String>,

    /// Host profile: one that ships, or a file; default: ideal. With --format pcie-bench also `all`, or a configuration
    #[arg(long)]
    host: Option<String>,

    /// Device profile, of a model that has any: one that ships, or a file; default: ideal, with --format pcie-bench nfp6000
    #[arg(long)]
    device: Option<String>,

    /// Generation of the link: 1, 2, 3, 4, 5; default: what the host profile says, or 3
    #[arg(long = "gen", value_name = "GEN")]
    generation: Option<i64>,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32; default: what the host profile says, or 8
    #[arg(long)]
    lanes: Option<i64>,

    /// Max_Payload_Size in bytes: 128 to 4096; default: what the host profile says, or 256
    #[arg(long, value_name = "BYTES", num_args = 1..)]
    mps: Vec<i64>,

    /// Max_Read_Request_Size in bytes: 128 to 4096; default: what the host profile says, or 512
    #[arg(long, value_name = "BYTES", num_args = 1..)]
    mrrs: Vec<i64>,

    /// Credits that the root port advertises for posted headers and data, non-posted headers and data, data in units of 16 B:
    /// PH:PD or PH:PD:NPH:NPD, 0 is infinite; `default`: all that unscaled flow control can, 127:2047:127:2047
    #[arg(long, value_name = "CREDITS", num_args = 1..)]
    credits: Vec<RootCredits>,

    /// Read Completion Boundary in bytes: 64, 128; default: what the host profile says
    #[arg(long, value_name = "BYTES")]
    rcb: Option<i64>,

    /// Address width of requests in bits: where in memory the window lies; default: what the model says, of pcie-bench 64
    #[arg(long, value_parser = one_of(&MEMORIES))]
    addr: Option<MemoryKind>,

    /// Window of host memory in bytes; default: what the model says, of pcie-bench 8192
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<u64>::new().range(4096..=1 << 30))]
    window: Option<u64>,

    /// Offset of each transfer from a cache line in bytes, 0 to 63; default: what the model says, of pcie-bench 0
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<u32>::new().range(0..=63))]
    offset: Option<u32>,

    /// Order of the units in the window; default: what the model says, of pcie-bench random
    #[arg(long, value_parser = one_of(&PATTERNS))]
    pattern: Option<Pattern>,

    /// The host's IOMMU and its pages, if the host profile has one
    #[arg(long, value_parser = one_of(&IOMMUS), default_value = "off")]
    iommu: Iommu,

    /// State of the host's caches at the start (pcie-bench, section 4) [default: the model's, which is host-warm for pcie-bench]
    #[arg(long, value_name = "STATE", value_parser = one_of(&CACHES))]
    cache: Option<CacheState>,

    /// Transfers that count: default 2000 of a latency test, 20000 of a bandwidth test
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_TRANSFERS))]
    transfers: Option<u64>,

    /// Transfers before them that do not count: time for queues to fill
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(0..=MAX_TRANSFERS))]
    warm_up: Option<u64>,

    /// Transfers under way in bandwidth tests; default: what the model or its device profile says
    #[arg(long, value_name = "N", num_args = 1.., value_parser = RangedU64ValueParser::<u16>::new().range(1..=1024))]
    outstanding: Vec<u16>,

    /// Seed of the addresses
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = seed)]
    seed: u64,

    /// Also write results.json and results.csv to this folder; with --format pcie-bench, a folder for each configuration
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Overwrite the files of --output where they exist
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const PATTERNS: [Word<Pattern>; 2] = [
    ("sequential", "One behind the other", Pattern::Sequential),
    ("random", "Drawn with replacement", Pattern::Random),
];

const IOMMUS: [Word<Iommu>; 4] = [
    ("off", "Addresses are physical ones", Iommu::Off),
    ("4k", "Pages of 4 KiB", Iommu::Pages4k),
    ("2m", "Pages of 2 MiB, or of 4 KiB if it has no others", Iommu::Pages2m),
    ("1g", "Pages of 1 GiB, or of 4 KiB if it has no others", Iommu::Pages1g),
];

const CACHES: [Word<CacheState>; 4] = [
    ("cold", "Nothing of the window", CacheState::Cold),
    ("host-warm", "The window, which the host has written", CacheState::HostWarm),
    (
        "device-warm",
        "The window, as far as writes of devices may go into the cache (DDIO)",
        CacheState::DeviceWarm,
    ),
    ("device-thrash", "Lines that the device has written at random in 64 MiB", CacheState::DeviceThrash),
];

/// What `--json` prints.
#[derive(Serialize)]
struct Results<'a> {
    /// What of the profiles is extrapolated on the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Where not all rows were measured: how many of how many, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<String>,
    /// How the figures of the profiles are known that the rows rest on: as the weakest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    tests: &'a [Entry],
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    if args.public.wanted() {
        return suite::run(&args);
    }
    args.public.refuse()?;
    if let Some(host) = args.host.as_deref().filter(|host| suite::is_of_published(host)) {
        return Err(Failure::usage(format!("--host {host} is for --format pcie-bench alone")));
    }
    let plans = args.ask().plans(models)?;
    let files = files(&args)?;
    let warnings = plans.first().map(Plan::warnings).unwrap_or_default();
    output::warn(&warnings);
    let (entries, ended) = measure(&plans)?;
    let why = match &ended {
        Some(Failure::Interrupted(why) | Failure::Run(why)) => Some(why.clone()),
        _ => None,
    };
    let basis = entries.iter().map(|entry| entry.basis).max();
    let results = Results { warnings, interrupted: why, basis, tests: &entries };
    // Nothing is no reason to replace what an earlier run has left.
    let saved = files.filter(|_| !entries.is_empty()).map_or(Ok(()), |files| save(files, &results));
    if args.json {
        output::json(&results)?
    } else {
        show::all(&plans, &entries)?
    }
    // The report is there, whatever became of the files.
    saved?;
    ended.map_or(Ok(()), Err)
}

impl Args {
    /// What is asked, as the library takes it.
    fn ask(&self) -> Ask {
        Ask {
            suite: self.suite.clone(),
            sizes: self.sizes.iter().flat_map(|sizes| sizes.iter()).take(MAX_SIZES_READ).collect(),
            model: self.model.clone(),
            host: self.host.clone(),
            iommu: self.iommu,
            device: self.device.clone(),
            generation: self.generation,
            lanes: self.lanes,
            mps: self.mps.clone(),
            mrrs: self.mrrs.clone(),
            credits: self.credits.clone(),
            rcb: self.rcb,
            memory: self.addr,
            window_bytes: self.window,
            offset_bytes: self.offset,
            pattern: self.pattern,
            cache: self.cache,
            transfers: self.transfers,
            warm_up: self.warm_up,
            outstanding: self.outstanding.clone(),
            seed: self.seed,
        }
    }
}

/// Sizes beyond those that are measured are one too many, however many there are.
const MAX_SIZES_READ: usize = ask::MAX_SIZES + 1;

/// # Errors
/// Where one of these arguments is given: `why` it is not legal, of its name.
fn refuse(given: &[(&str, bool)], why: impl Fn(&str) -> String) -> Result<(), Failure> {
    given.iter().find(|(_, given)| *given).map_or(Ok(()), |(flag, _)| Err(Failure::usage(why(flag))))
}

/// Measures all; where Ctrl-C has come or a row has failed, the rows that were finished, and what is to be said then.
fn measure(plans: &[Plan]) -> Result<(Vec<Entry>, Option<Failure>), Failure> {
    let cancel = interrupt::flag()?;
    let bar = progress::bar("{bar:30} {pos}/{len} {msg}");
    let measured = ask::measure(plans, &cancel, |done, all, test, size| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{} {size} B", test.name()));
    });
    bar.finish_and_clear();
    let (entries, ended) = measured?;
    let ended = ended.map(|ended| match ended {
        Ended::Interrupted(why) => Failure::Interrupted(why),
        Ended::Failed(why) => Failure::Run(why),
    });
    Ok((entries, ended))
}

/// Where the results go: as JSON, and as CSV.
fn files(args: &Args) -> Result<Option<[Place; 2]>, Failure> {
    let Some(folder) = &args.output else { return Ok(None) };
    if folder == Path::new("-") {
        return Err(Failure::usage("-o -: legal are folders; --json prints the results"));
    }
    let mut outputs = Outputs::new(args.force);
    reads_profiles(args, &mut outputs);
    let mut claim = |name: &str| outputs.claim("-o", &folder.join(name));
    let [json, csv] = [claim("results.json")?, claim("results.csv")?];
    Ok(Some([json.prepare()?, csv.prepare()?]))
}

/// Profiles that are files are inputs.
fn reads_profiles(args: &Args, outputs: &mut Outputs) {
    let files = args.host.iter().chain(&args.device).map(Path::new);
    files.filter(|path| path.is_file()).for_each(|path| outputs.reads(path));
}

fn save([json_file, csv_file]: [Place; 2], results: &Results<'_>) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(results).map_err(Failure::run)?;
    json_file.write(&format!("{text}\n"))?;
    csv_file.write(&sheet::write(results.tests)?)
}
