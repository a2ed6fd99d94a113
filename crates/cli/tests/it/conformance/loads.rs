// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RTL engine with as many functions as its blocks have, and with 512 bits. The model's driver keeps all functions busy at the same time,
//! checks every byte, and prints the speed compared with the model.

use crate::common::{has_verilator, riser};
use crate::conformance::engine_file;
use devices::dma_engine::{Directions, EngineReport, RingOf, Settings, driver};
use fabric::{Limits, Stop};
use plug::site::NativeCode;
use plug::{Fault, Model, Needs, Plugged, Shared, Site, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::Session;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use tlp::{Duration, Time};

/// The RTL may take at most this percentage of the model's time, plus a time for each descriptor of all engines together,
/// because these share one sequencer.
const HUNDREDTHS: u64 = 125;
const SEQUENCER_PS: u64 = 80_000;

thread_local! {
    static REPORT: RefCell<Shared<EngineReport>> = RefCell::default();
}

/// Model of the engine with the load driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Loaded {
    /// Design of the RTL engine; empty for the model.
    design: String,
    load: Settings,
}

impl Model for Loaded {
    const NAME: &'static str = "loaded";

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.load.vfs, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (load, report) = (self.load.clone(), Shared::new(EngineReport::default()));
        let mut plugged = match self.design.is_empty() {
            true => load.plug(site)?,
            false => {
                let design = self.design.clone();
                rtl::Settings { design, vfs: load.vfs, ..Default::default() }.plug(site)?
            }
        };
        let functions = usize::from(load.vfs) + 1;
        report.change(|r| r.functions.resize_with(functions, Default::default));
        REPORT.set(report.clone());
        plugged.task = Task::Functions(Box::new(move |cpu, found| {
            let (load, report) = (load.clone(), report.clone());
            Box::pin(async move { driver(cpu, found, load, report).await })
        }));
        Ok(plugged)
    }
}

/// A variant of the engine: its block, parameters of its design file, and settings of its slot.
struct Variant {
    block: &'static str,
    vfs: u16,
    tags: u16,
    bits: u16,
}

impl Variant {
    /// Builds its design file in a folder.
    fn built(&self, folder: &Path) -> String {
        let original = engine_file(self.block);
        let (text, sources) =
            (fs::read_to_string(&original).unwrap(), Path::new(&original).parent().unwrap());
        let wide = format!("\nparameters.DATA_WIDTH = \"{}\"\nparameters.LANES = \"16\"", self.bits);
        let more = if self.bits == 512 { wide } else { String::new() };
        let text = text
            .replace("    \"dma_engine_", &format!("    \"{}/dma_engine_", sources.display()))
            .replace(
                "[\".\"]",
                &format!("[\"{}\"]\nparameters.FUNCTIONS = \"{}\"{more}", sources.display(), self.vfs + 1),
            )
            .replace("vfs = 1\n", &format!("vfs = {}\n", self.vfs));
        let text = match self.bits {
            512 => text
                .replace("data_width_bits = 256\nlanes = 8", "data_width_bits = 512\nlanes = 16")
                .replace("8'b0", "16'b0"),
            _ => text,
        };
        let file = folder.join(format!("{}-{}.toml", self.block, self.bits));
        fs::write(&file, text).unwrap();
        rtl::build(&file, &rtl::Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
        file.display().to_string()
    }

    /// Number of transfers of each engine.
    fn transfers(&self, size_bytes: u32) -> u32 {
        let few = if self.vfs > 8 { 64 } else { 256 };
        (few * 4096 / size_bytes).clamp(4, few)
    }

    /// Runs transfers of one size on all functions. Returns the time in picoseconds, and Gb/s of all functions in each direction.
    fn run(&self, design: &str, size_bytes: u32) -> (u64, f64) {
        let transfers = self.transfers(size_bytes);
        let load = Settings {
            vfs: self.vfs,
            window: self.tags,
            transfers,
            size_bytes,
            ring: RingOf::Host,
            ..Default::default()
        };
        let (report, end) = self.run_load(design, &load);
        let report = report.get();
        let functions = usize::from(self.vfs) + 1;
        let last = (0..functions).map(|n| report.elapsed(n, end).as_ps()).max().unwrap();
        let bits = 8 * u64::from(transfers) * u64::from(size_bytes) * functions as u64;
        (last, bits as f64 * 1000.0 / last as f64)
    }

    /// Runs a load to its end. Returns its report, and the time of the end.
    fn run_load(&self, design: &str, load: &Settings) -> (Shared<EngineReport>, Time) {
        let lanes = self.bits / 32;
        let text = format!(
            "version = 1\nhost.high_memory_mib = 4096\nlink.lanes = {lanes}\n[[slot]]\nname = 'x'\ndevice = 'loaded'\n\
             tags = {}\n[slot.loaded]\ndesign = '{design}'\n[slot.loaded.load]\n{}",
            self.tags,
            toml::to_string(load).unwrap()
        );
        let models = riser_cli::models().with::<Loaded>();
        let path = Path::new("lab.toml");
        let file =
            lab::parse_in(&models, path, &text, lab::Folder::of(path)).unwrap_or_else(|e| panic!("{e}"));
        let mut lab = Session::with(&file, lab::BuildOptions::native(NativeCode::Allowed)).unwrap();
        assert_eq!(lab.run(Limits::default()), Stop::Finished, "{design}, {} B", load.size_bytes);
        (REPORT.take(), lab.fabric.now())
    }
}

/// Keeps every function busy in both directions. The device and the driver check every byte.
fn all_functions_are_busy(variant: &Variant, sizes: &[u32]) {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let design = variant.built(folder.path());
    for &size in sizes {
        let [(model, model_rate), (rtl, rate)] = ["", &design].map(|design| variant.run(design, size));
        let Variant { block, vfs, bits, .. } = variant;
        eprintln!(
            "{block}, {bits} bits, 1 PF + {vfs} VF, {size} B: {rate:.1} Gb/s each way, {model_rate:.1} of the model"
        );
        let descriptors = 2 * (u64::from(*vfs) + 1) * u64::from(variant.transfers(size));
        let most = model * HUNDREDTHS / 100 + descriptors * SEQUENCER_PS;
        assert!(rtl <= most, "{size} B: {rtl} ps, {model} ps of the model");
    }
}

const SIZES: [u32; 4] = [64, 1024, 4096, 65_536];

/// Descriptors in the device: the driver reads their number from ENGINES, and moves data in each direction alone and in both. The device and the
/// driver check every byte.
#[test]
#[ignore = "of .ci/long rtl"]
fn descriptors_in_the_device_move_data_in_each_direction() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let variant = Variant { block: "pcie3_7x", vfs: 1, tags: 64, bits: 256 };
    let design = variant.built(folder.path());
    for directions in [Directions::D2h, Directions::H2d, Directions::Both] {
        let load = Settings {
            vfs: 1,
            window: 64,
            transfers: 40,
            size_bytes: 4096,
            // The RTL has eight descriptors per engine.
            ring: RingOf::Device,
            ring_entries: 8,
            directions,
            ..Default::default()
        };
        let (report, end) = variant.run_load(&design, &load);
        // Gen3 x8 has less than 8 B/ns. The functions share the link.
        let least = Duration::from_ps(40 * 4096 * 1000 / 8);
        let elapsed = [0, 1].map(|function| report.get().elapsed(function, end));
        assert!(elapsed.iter().all(|time| (least..least * 4).contains(time)), "{directions:?}: {elapsed:?}");
    }
}

#[test]
#[ignore = "of .ci/long rtl"]
fn virtex_7_keeps_seven_functions_busy() {
    all_functions_are_busy(&Variant { block: "pcie3_7x", vfs: 6, tags: 64, bits: 256 }, &SIZES);
}

#[test]
#[ignore = "of .ci/long rtl"]
fn ultrascale_keeps_seven_functions_busy() {
    all_functions_are_busy(&Variant { block: "pcie3_ultrascale", vfs: 6, tags: 64, bits: 256 }, &SIZES);
}

#[test]
#[ignore = "of .ci/long rtl"]
fn ultrascale_plus_keeps_65_functions_busy() {
    all_functions_are_busy(&Variant { block: "pcie4_uscale_plus", vfs: 64, tags: 256, bits: 256 }, &SIZES);
}

#[test]
#[ignore = "of .ci/long rtl"]
fn engine_with_512_bits_keeps_two_functions_busy() {
    all_functions_are_busy(&Variant { block: "pcie4_uscale_plus", vfs: 1, tags: 256, bits: 512 }, &SIZES);
}

/// Time in which the engine writes while its reads wait.
const WRITES_US: u64 = 500;

/// Gb/s of data that the engine writes, while it also reads through a root port with one credit for non-posted headers, above a link of 1 us.
fn gbps_of_writes(design: &str, folder: &Path) -> f64 {
    let lab = folder.join("lab.toml");
    let text = format!(
        "version = 1\nlimit_us = {WRITES_US}\nlink.propagation_ps = 1_000_000\n[[slot]]\nname = 'x'\ndevice = 'rtl'\ndriver = 'dma-engine'\ntags = 256\n\
         link.root_credits.non_posted_header = 1\nrtl.design = '{design}'\n[slot.dma-engine]\nvfs = 0\nring = 'device'\nring_entries = 8\ntransfers = 2\n\
         size_bytes = 4_194_304\n"
    );
    fs::write(&lab, text).unwrap();
    let run = riser(&["run", &lab.display().to_string(), "--allow-native", "--json"]);
    let report: serde_json::Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
    assert_eq!(report["outcome"], "time-limit");
    let counters = &report["devices"][0]["counters"];
    let [reads, writes] = ["dma_reads", "dma_writes"].map(|name| counters[name].as_u64().unwrap());
    // Each read takes the credit for a round trip of 2 us.
    assert!((100..WRITES_US / 2).contains(&reads), "{reads} reads");
    (writes * 8 * 256) as f64 / (WRITES_US * 1000) as f64
}

/// Without HOLD_READS, writes wait in RQ after the reads that the block cannot send. With it, the engine sends no more reads than the block has
/// room for.
#[test]
#[ignore = "of .ci/long rtl"]
fn writes_go_on_while_reads_lack_credits() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = Variant { block: "pcie4_uscale_plus", vfs: 1, tags: 256, bits: 256 }.built(folder.path());
    let holding = folder.path().join("holding.toml");
    let text = fs::read_to_string(&plain).unwrap();
    fs::write(
        &holding,
        text.replace("parameters.FUNCTIONS", "parameters.HOLD_READS = \"1\"\nparameters.FUNCTIONS"),
    )
    .unwrap();
    rtl::build(&holding, &rtl::Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let [before, after] =
        [plain, holding.display().to_string()].map(|design| gbps_of_writes(&design, folder.path()));
    eprintln!("writes while reads lack credits: {before:.1} Gb/s, with HOLD_READS {after:.1} Gb/s");
    assert!(before < 2.0 && after > 30.0, "{before} {after}");
}
