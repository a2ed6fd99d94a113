// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Agreement of the shipped profiles with measurements, as a reviewed snapshot. It covers one of [`STEP`] rows of the
//! published data, if available, and a small set that a simulated server of another kind produced.

use insta::assert_snapshot;
use riser_bench::configurations::Configuration;
use riser_bench::experiments::Experiment;
use riser_bench::fidelity::{Fidelity, scores, thinned};
use riser_bench::results::{ResultRow, ResultSet, Tables};
use riser_bench::suite::{Machine, Rule, measure_row};
use std::path::Path;

/// The test uses one of this many rows of an experiment, about 400 in total.
const STEP: usize = 43;

fn table(data: &ResultSet) -> String {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fidelity");
    let fidelity = Fidelity { data, device: "nfp6000".into(), rule: Rule::quick(), jobs: 2, work };
    scores(&[("as shipped", &fidelity.shipped(&mut |_, _, _| {}).unwrap())])
}

#[test]
#[ignore = "of .ci/long fidelity"]
fn scores_a_sample_of_the_published_data() {
    let Some(folder) = testkit::shared_data("pcie-bench") else { return };
    let data = thinned(&ResultSet::read(&folder).unwrap(), STEP);
    assert_snapshot!(table(&data));
}

/// The results of one server are scored against the profile of another. The resulting error is known and must not
/// change.
#[test]
fn scores_a_simulated_server() {
    let known = Configuration::named("hsw-Xeon-E5-2620v3_dell-t630-iommu-nosp").unwrap();
    let other = Machine { host: "xeon-e5-2637v3".into(), ..Machine::configuration(known, "nfp6000") };
    let rows = |name: &str, step| -> Vec<ResultRow> {
        let keys = Experiment::named(name).unwrap().rows().into_iter().step_by(step);
        keys.map(|key| measure_row(&other, key, &Rule::quick(), 7).unwrap()).collect()
    };
    let mut tables = Tables::default();
    for (name, step) in
        [("lat_cmd_sizes", 1), ("lat_dma_sweep_rd_rnd_64", 3), ("bw_dma_sz_sweep", 12), ("bw_dma_off_wr", 30)]
    {
        tables.experiments.insert(name.into(), rows(name, step));
    }
    let data = ResultSet { configurations: [(known.name.to_owned(), tables)].into() };
    assert_snapshot!(table(&data));
}
