// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine as a model and in RTL behaves the same. The same random driver runs both on the same simulated host,
//! and their requests to the host are compared one by one. `RISER_OPERATIONS` is the number of operations: descriptors,
//! doorbells and all other actions on an engine. `RISER_SEED` is the seed of the first sequence, and `RISER_DESIGN`
//! selects one block.

mod engine;
mod plan;
mod program;
mod streams;
mod watch;

use crate::common::has_verilator;
use crate::conformance::built;
use devices::dma_engine;
use fabric::{Limits, Stop};
use lab::LabFile;
use plug::site::NativeCode;
use plug::{Fault, Model, Models, Needs, Plugged, Site, Task};
use program::{DONE, NOTES, Notes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::Session;
use std::path::Path;
use streams::Times;
use watch::Watcher;

/// Rounds per function in a sequence (short and long), and the default number of operations, about one short sequence.
const ROUNDS: [u32; 2] = [60, 1000];
const OPERATIONS: u64 = 3000;
/// Design files of the RTL engine, one per block.
const DESIGNS: [&str; 3] = ["pcie3_ultrascale", "pcie3_7x", "pcie4_uscale_plus"];
/// Settings of host and link, of which each sequence uses one.
const PLACES: [&str; 4] = [
    "host.profile = 'ideal'\n",
    "host.profile = 'xeon-e5-2637v3'\n",
    "host.profile = 'xeon-e5-2637v3'\nlink = { mps_bytes = 128, mrrs_bytes = 128 }\n",
    "host.profile = 'ideal'\nlink = { mps_bytes = 512, mrrs_bytes = 4096, lanes = 4 }\n",
];

/// Model of the engine with the random driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ByLot {
    /// Design of the RTL engine; empty for the model.
    design: String,
    vfs: u16,
    tags: u16,
    seed: u64,
    rounds: u32,
}

impl Model for ByLot {
    const NAME: &'static str = "by-lot";

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (vfs, design, seed, rounds) = (self.vfs, self.design.clone(), self.seed, self.rounds);
        let mut plugged = match design.is_empty() {
            true => dma_engine::Settings { vfs, window: self.tags, ..Default::default() }.plug(site)?,
            false => rtl::Settings { design, vfs, ..Default::default() }.plug(site)?,
        };
        plugged.task = Task::Functions(Box::new(move |cpu, found| {
            Box::pin(async move { Ok(program::run(cpu, found, seed, rounds).await?) })
        }));
        Ok(plugged)
    }
}

/// A random sequence and its setup: the design, and the numbers of virtual functions, tags and rounds.
#[derive(Clone, Copy)]
struct Lot<'a> {
    design: &'a str,
    vfs: u16,
    tags: u16,
    seed: u64,
    rounds: u32,
}

/// Runs a sequence on one side, which is the model if there is no design.
fn run(lot: Lot<'_>) -> Notes {
    let Lot { design, vfs, tags, seed, rounds } = lot;
    let models: Models = riser_cli::models().with::<ByLot>();
    let place = PLACES[seed as usize % PLACES.len()];
    let text = format!(
        "version = 1\n{place}[[slot]]\nname = 'x'\ndevice = 'by-lot'\ntags = {tags}\n[slot.by-lot]\n\
         design = '{design}'\nvfs = {vfs}\ntags = {tags}\nseed = {seed}\nrounds = {rounds}\n"
    );
    let folder = lab::Folder::of(Path::new("lab.toml"));
    let file: LabFile =
        lab::parse_in(&models, Path::new("lab.toml"), &text, folder).unwrap_or_else(|e| panic!("{e}"));
    let mut lab = Session::with(&file, lab::BuildOptions::native(NativeCode::Allowed)).unwrap();
    lab.fabric.set_tap(Box::new(Watcher));
    let side = if design.is_empty() { "model" } else { design };
    let stop = lab.run(Limits::default());
    assert_eq!(stop, Stop::Finished, "{side}, RISER_SEED={seed}");
    assert_eq!(watch::strays(), [""; 0], "{side}, RISER_SEED={seed}");
    NOTES.take()
}

/// Runs a sequence on both sides. Returns the number of operations.
fn pair(lot: Lot<'_>, times: &mut Times) -> u64 {
    let model = run(Lot { design: "", ..lot });
    let (operations, rtl) = (DONE.take(), run(lot));
    assert_eq!(model.len(), rtl.len());
    for (n, (model, rtl)) in model.iter().zip(&rtl).enumerate() {
        let (function, engine) = (n / 2, ["H2D", "D2H"][n % 2]);
        if let Err(why) = streams::compare(model, rtl, times) {
            panic!("{}, RISER_SEED={}: function {function}, {engine}, {why}", lot.design, lot.seed);
        }
    }
    operations
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// Runs `RISER_OPERATIONS` operations; if there are many, with one block after another.
#[test]
#[ignore = "of .ci/long rtl"]
fn model_and_rtl_make_same_requests() {
    if !has_verilator() {
        return;
    }
    let wanted = from_environment("RISER_OPERATIONS").unwrap_or(OPERATIONS);
    let mut seed = from_environment("RISER_SEED").unwrap_or(1);
    let only = std::env::var("RISER_DESIGN").ok();
    let (many, all) = (wanted > OPERATIONS, only.as_deref().map_or(DESIGNS.to_vec(), |one| vec![one]));
    let designs: Vec<String> =
        all[..if many { all.len() } else { 1 }].iter().map(|design| built(design)).collect();
    let (mut done, mut times) = (0, Times::new());
    while done < wanted {
        let design = &designs[seed as usize % designs.len()];
        let tags = if design.contains("uscale_plus") { 256 } else { 64 };
        done += pair(Lot { design, vfs: 1, tags, seed, rounds: ROUNDS[usize::from(many)] }, &mut times);
        seed += 1;
    }
    let [model, rtl] =
        [0, 1].map(|side| times.iter().map(|took| took[side].as_ps()).sum::<u64>() / 1_000_000);
    eprintln!("{done} operations; {} rounds took {model} us of the model, {rtl} us of the RTL", times.len());
    assert!(rtl <= 2 * model && model <= 2 * rtl);
}
