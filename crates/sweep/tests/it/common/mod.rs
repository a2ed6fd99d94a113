// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps of small labs, in memory.
use plug::Models;
use plug::site::NativeCode;
use riser_sweep::{RunningSweep, Sweep, TextFile, results};

/// A lab with a memory BAR that its driver writes and reads back.
pub(crate) const LAB: &str =
    "version = 1\n[[slot]]\nname = 'a'\ndevice = 'memory'\n[slot.memory]\nsize_bytes = 65536\n";

/// A grid of 60 points: generations, payload sizes, and written bytes.
pub(crate) const GRID: &str = "version = 1\nlab = 'lab.toml'\n
[over]
'link.gen' = [1, 3, 5]
link.mps_bytes = [128, 256]
'slot.a.memory.exercise_bytes' = { from = 16, to = 160, step = 16 }
[metrics]
hops = 'tlp_hops'
ns = { path = 'simulated_ns', aim = 'minimize', unit = 'ns' }
down = { path = 'links.a.downstream.payload_bytes', aim = 'maximize', at_least = 100 }
rate = { expr = 'down / ns * 8' }
";

pub(crate) fn text(path: &str, text: &str) -> TextFile {
    TextFile { path: path.into(), text: text.into() }
}

pub(crate) fn sweep_of(models: &Models, file: &str, lab: &str) -> Result<Sweep, String> {
    let lab = Some(text("lab.toml", lab));
    Sweep::parse(models, text("sweep.toml", file), lab, NativeCode::Refused).map_err(|e| e.to_string())
}

pub(crate) fn sweep(file: &str) -> Result<Sweep, String> {
    sweep_of(&devices::models(), file, LAB)
}

/// Runs the remaining points, `most` at a time, in this process.
pub(crate) fn finish(run: &mut RunningSweep<'_>, most: usize) {
    while !run.is_done() {
        let chunk = run.next_chunk(most);
        assert!(!chunk.is_empty());
        let records = chunk.iter().map(|point| run.sweep().run(point).record).collect();
        run.accept(records).unwrap();
    }
}

/// Returns the Parquet file of a run.
pub(crate) fn parquet(run: &RunningSweep<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    results::write_parquet(&results::columns(run), &mut bytes).unwrap();
    bytes
}
