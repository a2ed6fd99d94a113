// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser bench`: measures with the method of pcie-bench, with `riser-bench`.

mod suite;

use super::sizes::{Sizes, listed, mps_bytes, mrrs_bytes, rcb_bytes, whole};
use super::words::{MEMORIES, Word, one_of};
use crate::{Failure, interrupt, output, progress};
use bench::Plan;
use bench::ask::{self, Ask, Ended, MAX_TRANSFERS, RootCredits};
use bench::configurations::Iommu;
use bench::results;
use bench::results::sheet::{self, Entry, Results};
use files::{ClaimedOutput, Outputs};
use lab::schema::BufferPages;
use plug::transfers::{CacheState, Pattern};
use plug::{MemoryKind, Models};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Examples:
  riser bench
  riser bench --suite LAT_RD BW_WR --size 64..2048 --gen 4 --lanes 16
  riser bench --suite BW_RD --host ideal --json -o out/bench
  riser bench --model dma-engine --size 4096 16384
  riser bench --model packet-nic --host xeon-e5-2637v3
  riser bench --model intel-82574 --gen 1 --lanes 1 --size 64 1514
  riser bench --suite LAT_RD --host xeon-platinum-8480 --iommu 4k --cache cold --window 16777216
  riser bench --suite BW_RD --host xeon-e5-2630v4 --iommu 1g --buffer-pages 4KiB --window 67108864
  riser bench --suite BW_WR --size 64..1024 --mps 128 256 512 --root-credits default 32:128 16:64
  riser bench --suite short --format pcie-bench --host xeon-e5-2637v3 -o out/suite
  riser bench --suite full --format pcie-bench --host all --jobs 2 -o out/suite

Tests (pcie-bench, section 4): LAT_RD, LAT_WRRD, BW_RD, BW_WR, BW_RDWR, if the model offers them, or the suites full and short. Each size of each \
test is a run of its own: a warm-up that is not counted, then --transfers transfers. Their number is the stopping rule.
--mps, --mrrs, --root-credits and --outstanding take lists; every row is measured with each combination. A NIC is measured in loop-back: LAT_LOOP is the time of a frame from a program to the cable and back, with the part of PCI Express and host; \
BW_LOOP is the rate of frames in each direction. The device profiles of packet-nic are pio (the frame is written into the card), dpdk, kernel and simple. \
BW_RDWR starts counting when reads and \
writes end at the same rate. Its warm-up is extended if necessary, unless --warm-up is given.
Bandwidths are payload of one direction in 10^9 bits per second. `model exact` counts wire bytes. It uses the DLLPs that the run counted, \
and cuts writes like the device profile. For BW_LOOP it is the rate of `riser model nic`, without the FCS. `published` is the formula of the paper. `wire` is the raw rate less SKPs, multiplied by the counted ratio of payload to wire bytes. \
`basis` tells how well the profile figures of a row are known: measured (or looked up), fitted (to measurements) or \
assumed. The weakest figure decides. `riser profiles show NAME` prints the source of each.
If a bandwidth is below the model, the link's table shows why. The link was not always busy: TLPs waited for credits \
or for room in the replay buffer, or there were no TLPs to send.

-o writes results.csv, which has all settings of a row in columns, so that files can be concatenated; `riser compare` \
and `riser fit` read it. --json prints one object, which is also written to results.json: interrupted (the reason, if some rows were \
not measured), basis, tests: [{host, device, gen, lanes, mps_bytes, mrrs_bytes, \
rcb_bytes, iommu, buffer_pages, {posted,non_posted}_{header,data}_credits, addr_bits, outstanding, transfers, warm_up, seed, path, cache, pattern, \
host_offset_bytes, device_offset_bytes, window_bytes, test, size_bytes, latency_ns_{min,median,mean,p95,p99,p999,max} (LAT_LOOP: also pcie_ns_median and pcie_percent_median) or \
bandwidth_gbps, read_gbps, write_gbps, transactions_per_s, model_exact_gbps, model_published_gbps, wire_gbps, link_ns, and basis, upstream and \
downstream with tlps, dllps, payload_bytes, wire_bytes, utilization, credit_stalls, credit_stall_ns, replay_buffer_stalls, ..., and \
transactions as those of `riser run --json`}]. \
The fabric times requests, from the transmit queue to the last completion, or until a write is visible. The device times a latency test, \
around its requests.

--format pcie-bench runs the experiments of the published measurements of the NFP-6000 card, with their windows, offsets and \
cache states, and writes files in their format: a folder for each configuration, a CSV file for each experiment. --host is then \
`all` (the 21 measured configurations), the name of one configuration, or a host profile, with --iommu if needed; --suite is full (28 experiments, \
2472 rows), short (those of the paper's Figures 4 to 7) or names of experiments. Rows end by a convergence rule, and have the number \
of their samples. If the run is interrupted (Ctrl-C), the same command continues it, and keeps complete files. See \
docs/reference/suite.md for the experiments, the columns and the rule.";

/// Measure latency and bandwidth with the method of pcie-bench
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Tests or suites; with --format pcie-bench, suites or experiments
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', default_value = "full")]
    suite: Vec<String>,

    #[command(flatten)]
    public: suite::PublicArgs,

    /// Sizes of transfers in bytes, 1 to 4096, or of a NIC's frames without FCS: N, A..B (doubling from A to B) or A..B:STEP
    #[arg(long = "size", value_name = "SIZE", num_args = 1.., value_delimiter = ',')]
    sizes: Vec<Sizes>,

    /// Model to measure, which must offer transfers [default: pcie-bench, the card of the paper]
    #[arg(long, value_name = "MODEL", conflicts_with = "format")]
    model: Option<String>,

    /// Host profile: the name of a shipped one, or a file [default: ideal]. With --format pcie-bench also `all`, or a configuration
    #[arg(long)]
    host: Option<String>,

    /// Device profile: the name of a shipped one, or a file, if the model has profiles [default: ideal; nfp6000 with --format pcie-bench]
    #[arg(long)]
    device: Option<String>,

    /// Generation of the link: 1, 2, 3, 4, 5 [default: from the host profile, or 3]
    #[arg(long = "gen", value_name = "GEN", value_parser = listed::<i64>(&[1, 2, 3, 4, 5]))]
    generation: Option<i64>,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32 [default: from the host profile, or 8]
    #[arg(long, value_parser = listed::<i64>(&[1, 2, 4, 8, 12, 16, 32]))]
    lanes: Option<i64>,

    /// Max_Payload_Size in bytes: 128 to 4096 [default: from the host profile, or 256]
    #[arg(long, value_name = "BYTES", num_args = 1.., value_delimiter = ',', value_parser = mps_bytes::<i64>)]
    mps: Vec<i64>,

    /// Max_Read_Request_Size in bytes: 128 to 4096 [default: from the host profile, or 512]
    #[arg(long, value_name = "BYTES", num_args = 1.., value_delimiter = ',', value_parser = mrrs_bytes::<i64>)]
    mrrs: Vec<i64>,

    /// Credits that the root port advertises: headers and data of posted and of non-posted requests, data in units of 16 B, as
    /// PH:PD or PH:PD:NPH:NPD; 0 is infinite. `default` is the maximum of unscaled flow control, 127:2047:127:2047
    #[arg(long = "root-credits", alias = "credits", value_name = "CREDITS", num_args = 1.., value_delimiter = ',')]
    credits: Vec<RootCredits>,

    /// Read Completion Boundary in bytes: 64, 128 [default: from the host profile]
    #[arg(long, value_name = "BYTES", value_parser = rcb_bytes::<i64>)]
    rcb: Option<i64>,

    /// Address width of requests in bits, which places the window in memory [default: from the model; 64 for pcie-bench]
    #[arg(long, value_parser = one_of(&MEMORIES))]
    addr: Option<MemoryKind>,

    /// Window of host memory in bytes [default: from the model; 8192 for pcie-bench]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(4096..=1 << 30))]
    window: Option<u64>,

    /// Offset of each transfer in bytes, from the start of a cache line: 0 to 63 [default: from the model; 0 for pcie-bench]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>(0..=63))]
    offset: Option<u32>,

    /// Order of the addresses, in the window [default: from the model; random for pcie-bench]
    #[arg(long, value_parser = one_of(&PATTERNS))]
    pattern: Option<Pattern>,

    /// Mode of the host's IOMMU: off, or the size of its pages if the host profile has an IOMMU
    #[arg(long, value_parser = one_of(&IOMMUS), default_value = "off")]
    iommu: Iommu,

    /// Pages of the host's buffers, which limit the pages of the IOMMU
    #[arg(long, value_parser = one_of(&PAGES), default_value = "1GiB")]
    buffer_pages: BufferPages,

    /// State of the host's caches at the start (pcie-bench, section 4) [default: from the model; host-warm for pcie-bench]
    #[arg(long, value_name = "STATE", value_parser = one_of(&CACHES))]
    cache: Option<CacheState>,

    /// Number of transfers that count [default: 2000 for a latency test, 20000 for a bandwidth test]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_TRANSFERS))]
    transfers: Option<u64>,

    /// Number of transfers in the warm-up, in which queues fill
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=MAX_TRANSFERS))]
    warm_up: Option<u64>,

    /// Number of outstanding transfers, in bandwidth tests [default: from the model or its device profile]
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', value_parser = whole::<u16>(1..=1024))]
    outstanding: Vec<u16>,

    /// Seed of random numbers: the addresses
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,

    /// Write results.json and results.csv to this folder too; with --format pcie-bench, one folder per configuration
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const PATTERNS: [Word<Pattern>; 2] = [
    ("sequential", "One after another", Pattern::Sequential),
    ("random", "Drawn with replacement", Pattern::Random),
];

const IOMMUS: [Word<Iommu>; 4] = [
    ("off", "Physical addresses, no translation", Iommu::Off),
    ("4k", "Pages of 4 KiB", Iommu::Pages4k),
    ("2m", "Pages of 2 MiB, or of 4 KiB if the IOMMU has no others", Iommu::Pages2m),
    ("1g", "Pages of 1 GiB, or of 4 KiB if the IOMMU has no others", Iommu::Pages1g),
];

const PAGES: [Word<BufferPages>; 3] = [
    (BufferPages::Kib4.name(), "Ordinary pages", BufferPages::Kib4),
    (BufferPages::Mib2.name(), "Huge pages; like 4KiB if the IOMMU has no superpages", BufferPages::Mib2),
    (BufferPages::Gib1.name(), "Huge pages; like 4KiB if the IOMMU has no superpages", BufferPages::Gib1),
];

const CACHES: [Word<CacheState>; 4] = [
    ("cold", "No line of the window is cached", CacheState::Cold),
    ("host-warm", "The host has written the window", CacheState::HostWarm),
    (
        "device-warm",
        "The device has written the window, up to the share of the cache that DDIO allows",
        CacheState::DeviceWarm,
    ),
    ("device-thrash", "The device has written random lines in 64 MiB", CacheState::DeviceThrash),
];

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    if args.public.wanted() {
        return suite::run(&args);
    }
    args.public.refuse()?;
    if let Some(host) = args.host.as_deref().filter(|host| suite::is_of_published(host)) {
        return Err(Failure::usage(format!("--host {host} requires --format pcie-bench")));
    }
    let plans = args.ask().plans(models)?;
    let files = files(&args)?;
    output::warn(&plans.first().map(Plan::warnings).unwrap_or_default());
    let (entries, ended) = measure(&plans)?;
    let why = ended.as_ref().map(Ended::why);
    let results = Results::new(&plans, &entries, why);
    // Without rows, keep the files of an earlier run.
    let saved = files.filter(|_| !entries.is_empty()).map_or(Ok(()), |files| save(files, &results, &entries));
    if args.json {
        output::json(&results)?
    } else {
        output::text(&results::text(&plans, &entries)?)?
    }
    // Print the report even if the files could not be written.
    saved?;
    match ended {
        Some(Ended::Interrupted(why)) => Err(Failure::Interrupted(why)),
        Some(Ended::Failed(why)) => Err(Failure::Run(why)),
        None => Ok(()),
    }
}

impl Args {
    /// Returns the arguments in the form that the library takes.
    fn ask(&self) -> Ask {
        Ask {
            suite: self.suite.clone(),
            sizes: self.sizes.iter().flat_map(|sizes| sizes.iter()).take(MAX_SIZES_READ).collect(),
            model: self.model.clone(),
            host: self.host.clone(),
            iommu: self.iommu,
            pages: self.buffer_pages,
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

/// Maximum number of parsed sizes: one more than can be measured, to detect too many sizes.
const MAX_SIZES_READ: usize = ask::MAX_SIZES + 1;

/// # Errors
/// One of these arguments is given. `why` returns the message for its name.
fn refuse(given: &[(&str, bool)], why: impl Fn(&str) -> String) -> Result<(), Failure> {
    given.iter().find(|(_, given)| *given).map_or(Ok(()), |(flag, _)| Err(Failure::usage(why(flag))))
}

/// Measures all rows. After Ctrl-C or a failed row, returns the finished rows and the reason.
fn measure(plans: &[Plan]) -> Result<(Vec<Entry>, Option<Ended>), Failure> {
    let cancel = interrupt::flag()?;
    let bar = progress::bar("{bar:30} {pos}/{len} {msg}");
    let measured = ask::measure(plans, &cancel, |done, all, test, size| {
        progress::set(&bar, done, all);
        bar.set_message(format!("{} {size} B", test.name()));
    });
    bar.finish_and_clear();
    Ok(measured?)
}

/// Claims the result files: JSON, then CSV.
fn files(args: &Args) -> Result<Option<[ClaimedOutput; 2]>, Failure> {
    let Some(folder) = &args.output else { return Ok(None) };
    output::refuse_standard(folder, "--json prints the results")?;
    let mut outputs = output::files(args.force);
    reads_profiles(args, &mut outputs);
    let mut claim = |name: &str| outputs.claim("-o", &folder.join(name));
    let [json, csv] = [claim("results.json")?, claim("results.csv")?];
    Ok(Some([json.prepare()?, csv.prepare()?]))
}

/// Adds profiles that are files to the inputs.
fn reads_profiles(args: &Args, outputs: &mut Outputs) {
    let files = args.host.iter().chain(&args.device).map(Path::new);
    files.filter(|path| path.is_file()).for_each(|path| outputs.reads(path));
}

fn save([json, csv]: [ClaimedOutput; 2], results: &Results<'_>, rows: &[Entry]) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(results).map_err(Failure::run)?;
    json.write(&format!("{text}\n"))?;
    Ok(csv.write(&sheet::write(rows)?)?)
}
