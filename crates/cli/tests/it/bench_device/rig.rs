// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host program that uses the benchmark device by its registers only, so that it works with the model and with the RTL.

use crate::common::built_design;
use device::BarIndex;
use devices::pcie_bench::{BAR_BYTES, Bench, registers as r};
use fabric::{Limits, Stop};
use host::firmware::FoundFunction;
use host::{Cpu, DriverError};
use plug::site::NativeCode;
use plug::{Fault, Model, Plugged, Site, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::Session;
use std::cell::RefCell;
use std::path::Path;
use tlp::Duration;

/// The device that a test uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Which {
    #[default]
    Model,
    Rtl,
}

/// A test: values of registers, and a value that the program writes to CONTROL while the test runs.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) registers: Vec<(u64, u64)>,
    pub(crate) control: Option<u32>,
}

/// Registers after a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) status: u32,
    pub(crate) error: u32,
    pub(crate) elapsed_ns: f64,
    pub(crate) ended: u64,
    pub(crate) latencies_ns: Vec<f64>,
    /// The first bytes of the window.
    pub(crate) bytes: Vec<u8>,
}

impl Run {
    /// A test with these registers; the others have the paper's values, and random 64 B transfers in 8 KiB.
    pub(crate) fn new(test: r::Test, registers: &[(u64, u64)]) -> Run {
        let all = [
            (r::TEST, test as u64),
            (r::SIZE, 64),
            (r::WINDOW_BYTES, 8192),
            (r::OFFSET, 0),
            (r::PATTERN, r::Pattern::Random as u64),
            (r::PATH, r::Path::Dma as u64),
            (r::OUTSTANDING, 32),
            (r::TRANSFERS, 200),
            (r::WARM_UP, 50),
            (r::SEED, 1),
        ];
        Run { registers: [&all, registers].concat(), control: None }
    }
}

impl Measured {
    /// Median of the latencies.
    pub(crate) fn median_ns(&self) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Rate of transfers of `bytes` in Gb/s.
    pub(crate) fn gbps(&self, bytes: u64) -> f64 {
        (self.ended * bytes * 8) as f64 / self.elapsed_ns
    }
}

thread_local! {
    static RUNS: RefCell<Vec<Run>> = const { RefCell::new(Vec::new()) };
    static MEASURED: RefCell<Vec<Measured>> = const { RefCell::new(Vec::new()) };
}

/// The device, with the program in place of its driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Programmed {
    which: Which,
}

impl Model for Programmed {
    const NAME: &'static str = "programmed";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let mut plugged = match self.which {
            Which::Model => Bench::default().plug(site)?,
            Which::Rtl => {
                rtl::Settings { design: design(), deny_findings: true, ..Default::default() }.plug(site)?
            }
        };
        let runs = RUNS.with_borrow(Clone::clone);
        plugged.task = Task::Driver(Box::new(move |cpu, found| Box::pin(program(cpu, found, runs.clone()))));
        Ok(plugged)
    }
}

/// Runs all tests.
async fn program(cpu: Cpu, found: FoundFunction, runs: Vec<Run>) -> Result<(), DriverError> {
    let at = |offset: u64| found.address(BarIndex(0), offset);
    let failed = |e: host::HostError| DriverError::from(e);
    let window = cpu.memory().alloc_high(1 << 20, 1 << 20).map_err(|e| DriverError::from(e.to_string()))?;
    for run in runs {
        cpu.write_u64(at(r::WINDOW)?, window).await.map_err(failed)?;
        for &(offset, value) in &run.registers {
            match is_wide(offset) {
                true => cpu.write_u64(at(offset)?, value).await,
                false => cpu.write_u32(at(offset)?, value as u32).await,
            }
            .map_err(failed)?;
        }
        cpu.write_u32(at(r::CONTROL)?, r::control::START).await.map_err(failed)?;
        if let Some(value) = run.control {
            cpu.write_u32(at(r::CONTROL)?, value).await.map_err(failed)?;
        }
        cpu.interrupt(found.vector(0)).await;
        let measured = read(&cpu, &found, window).await?;
        MEASURED.with_borrow_mut(|all| all.push(measured));
    }
    Ok(())
}

/// True for registers of 64 bits.
fn is_wide(offset: u64) -> bool {
    [r::WINDOW, r::WINDOW_BYTES, r::TRANSFERS, r::WARM_UP, r::SEED].contains(&offset)
}

async fn read(cpu: &Cpu, found: &FoundFunction, window: u64) -> Result<Measured, DriverError> {
    let register = async |offset: u64| -> Result<u32, DriverError> {
        cpu.read_u32(found.address(BarIndex(0), offset)?).await.map_err(DriverError::from)
    };
    let wide = async |offset: u64| -> Result<u64, DriverError> {
        Ok(u64::from(register(offset).await?) | u64::from(register(offset + 4).await?) << 32)
    };
    let tick_ns = f64::from(register(r::TICK).await?) / 1e3;
    let ended = wide(r::ENDED).await?;
    let mut latencies_ns = Vec::new();
    if register(r::TEST).await? <= r::Test::LatWrrd as u32 {
        let kept = ended.min(register(r::ENTRIES).await?.into());
        let page = (BAR_BYTES - r::JOURNAL) / 4;
        for n in 0..kept {
            if n % page == 0 {
                let at = found.address(BarIndex(0), r::PAGE)?;
                cpu.write_u32(at, (n / page) as u32).await.map_err(DriverError::from)?;
            }
            latencies_ns.push(f64::from(register(r::JOURNAL + n % page * 4).await?) * tick_ns);
        }
    }
    let mut bytes = vec![0; 4096];
    cpu.memory().read(window, &mut bytes).map_err(|e| DriverError::from(e.to_string()))?;
    Ok(Measured {
        status: register(r::STATUS).await?,
        error: register(r::ERROR).await?,
        elapsed_ns: wide(r::ELAPSED).await? as f64 * tick_ns,
        ended,
        latencies_ns,
        bytes,
    })
}

fn design() -> String {
    format!("{}/../../rtl/pcie_bench/pcie3_7x.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Builds the design, once per run. Returns its file.
pub(crate) fn built() -> String {
    built_design(design())
}

/// Runs tests on a host with the memory and caches of the paper's server, and a link of Gen3 x8.
pub(crate) fn measure(which: Which, runs: Vec<Run>) -> Vec<Measured> {
    let count = runs.len();
    let which = serde_json::to_string(&which).unwrap();
    let text = format!(
        "version = 1\n[host]\nprofile = 'xeon-e5-2637v3'\n[[slot]]\nname = 'card'\ndevice = 'programmed'\n[slot.programmed]\nwhich = {which}\n"
    );
    RUNS.set(runs);
    let models = riser_cli::models().with::<Programmed>();
    let path = Path::new("lab.toml");
    let file = lab::parse_in(&models, path, &text, lab::Folder::of(path)).unwrap();
    let mut session = Session::with(&file, lab::BuildOptions::native(NativeCode::Allowed)).unwrap();
    let limits = Limits { until: tlp::Time::ZERO + Duration::from_ms(100), ..Limits::default() };
    assert_eq!(session.run(limits), Stop::Finished);
    let measured = MEASURED.take();
    assert_eq!(measured.len(), count);
    measured
}
