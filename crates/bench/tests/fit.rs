// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fit finds what is there: measurements that one profile made are given to another, which takes its figures.

use riser_bench::configurations::{Iommu, Sockets};
use riser_bench::experiments::{Experiment, Key};
use riser_bench::fit::{Input, Parameter, Profile, fit};
use riser_bench::results::Tables;
use riser_bench::suite::{Machine, Rule, measure_row};
use std::path::Path;

/// Rows of these window sweeps and states: small and large windows.
const SWEEPS: [&str; 4] = [
    "lat_cmd_sweep_rd_rnd_08",
    "lat_cmd_sweep_wrrd_rnd_64",
    "lat_dma_sweep_rd_rnd_64",
    "lat_dma_sweep_wrrd_rnd_64",
];

fn rule() -> Rule {
    Rule { latency_batch: 128, latency_batches: 6, warm_up_lines: 8192, ..Rule::quick() }
}

fn text(name: &str) -> &'static str {
    lab::profile::shipped("host", name).unwrap().text
}

/// What `profile` gives on these windows, as if it had been measured.
fn made_by(profile: &str, iommu: Iommu, sockets: Sockets, keep: impl Fn(&Key) -> bool) -> Input {
    let machine = Machine { iommu, sockets, ..Machine::profile(profile, "nfp6000") };
    let mut tables = Tables::default();
    for name in SWEEPS {
        let keys = Experiment::named(name).unwrap().rows().into_iter().filter(&keep);
        let rows = keys.map(|key| measure_row(&machine, key, &rule(), 1).unwrap()).collect();
        tables.experiments.insert(name.into(), rows);
    }
    Input { machine, tables, cmd_path_valid: true }
}

#[test]
fn figures_of_another_server_are_found_again() {
    let windows = [65_536, 262_144, 33_554_432];
    let keep = |key: &Key| windows.contains(&key.window_bytes);
    let far = Sockets { device: 0, memory: 1, program: 1 };
    let near = Sockets::default();
    let inputs = [
        made_by("xeon-e5-2630v4", Iommu::Off, near, keep),
        made_by("xeon-e5-2630v4", Iommu::Pages4k, near, keep),
        made_by("xeon-e5-2630v4", Iommu::Off, far, keep),
    ];
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit.toml");
    let mut profile = Profile::parse(text("xeon-e5-2620v2")).unwrap();
    profile.adopt_size(text("xeon-e5-2630v4")).unwrap();
    let fitted = fit(&inputs, &mut profile, &rule(), &file, |_| {}).unwrap();
    let truth = Profile::parse(text("xeon-e5-2630v4")).unwrap();
    for figure in &fitted {
        let (is, was) = (figure.value_ps, truth.get(figure.parameter).unwrap());
        if figure.parameter == Parameter::RemoteSnoop {
            assert_eq!(figure.rows, 0, "no program is on the other socket while memory is on this one");
            continue;
        }
        assert!(figure.rows > 0, "{figure:?}");
        assert!(is.abs_diff(was) <= 4_000, "{:?}: {is} ps, and it is {was}", figure.parameter);
    }
    assert!(profile.text().contains("fit: "), "sources are told");
}
