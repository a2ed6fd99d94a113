// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model outside riser's crates offers its transfers, and is measured as riser's own models are.

use config::{Bar, Builder, Identity, MsiLayout};
use device::AsyncDevice;
use device::io::{Io, Request};
use endpoint::FunctionConfig;
use host::Cpu;
use host::firmware::FoundFunction;
use plug::file::Folder;
use plug::transfers::{CacheState, EndedTransfer, Offer, Pattern, Phase, Test, Transfers, Workload};
use plug::{Fault, MemoryKind, Model, Models, Offering, Plugged, Shared, Site};
use riser_bench::{Plan, tests_named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads one address of host memory repeatedly.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Reader {
    /// Bytes of each read.
    #[schemars(range(min = 1, max = 4096))]
    size_bytes: u32,
    /// Counted transfers, and warm-up transfers before them.
    transfers: (u64, u64),
    /// Outstanding reads.
    #[schemars(range(min = 1, max = 64))]
    outstanding: u16,
    /// Whether each read is timed.
    timed: bool,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { size_bytes: 64, transfers: (100, 0), outstanding: 8, timed: false }
    }
}

impl Reader {
    fn transfers(&self) -> Transfers {
        let test = if self.timed { Test::LatRd } else { Test::BwRd };
        Transfers::of(test, self.transfers.1, self.transfers.0)
    }
}

impl Model for Reader {
    const NAME: &'static str = "reader";
    const TESTS: &'static [Test] = &[Test::LatRd, Test::BwRd];

    fn offer(workload: &Workload, _: &Folder) -> Result<Offer, Fault> {
        let Workload { test, size_bytes, transfers, warm_up, .. } = *workload;
        let outstanding = if test.is_latency() { 1 } else { workload.outstanding.unwrap_or(8) };
        let transfers = (transfers, warm_up);
        let reader = Reader { size_bytes, transfers, outstanding, timed: test.is_latency() };
        reader.check()?;
        Workload::only("pattern", workload.pattern.as_ref(), Pattern::Sequential)?;
        let window = Workload::only("window_bytes", workload.window_bytes.as_ref(), 4096)?;
        Ok(Offer { outstanding, ..Offer::new(reader, window, MemoryKind::Low) })
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (vendor, device) = (0x7269, 0x7ffe);
        let identity =
            Identity { vendor, device, revision: 0, class: 0xff_0000, subsystem_vendor: 0, subsystem: 0 };
        let config = Builder::type0(identity)
            .bar(0, Bar::memory32(4096))
            .msi(MsiLayout { vectors: 1 })
            .pcie(site.pcie)
            .usual()
            .build()?;
        let (settings, measured) = (self.clone(), Shared::new(self.transfers()));
        let told = measured.clone();
        let device = Box::new(AsyncDevice::new(move |io| serve(io, settings.clone(), told.clone())));
        let plugged = Plugged::new(FunctionConfig { config, device }, driver);
        Ok(plugged.reporting(&measured).measuring(&measured))
    }
}

async fn serve(io: Io, settings: Reader, measured: Shared<Transfers>) {
    while let Some(request) = io.next_request().await {
        let Request::Write(write) = request else { continue };
        measured.change(|m| m.start(io.now()));
        for _ in 0..settings.outstanding {
            io.spawn(read(io.clone(), write.u64(), settings.size_bytes, measured.clone()));
        }
    }
}

async fn read(io: Io, address: u64, bytes: u32, measured: Shared<Transfers>) {
    while measured.get().phase < Phase::Done {
        let start = io.now();
        let (result, now) = (io.dma_read(address, bytes).await, io.now());
        let ended = EndedTransfer {
            latency_ps: now.since(start).as_ps(),
            bytes_read: bytes,
            ..EndedTransfer::default()
        };
        measured.change(|m| match result {
            Ok(_) => m.end(now, ended),
            Err(error) => m.fail(now, error),
        });
    }
    let _ = io.interrupt(0).await;
}

async fn driver(cpu: Cpu, found: FoundFunction) -> Result<(), String> {
    let memory = cpu.memory().alloc(4096, 4096).map_err(|e| e.to_string())?;
    cpu.write_u64(found.address(0, 0)?, memory).await.map_err(|e| e.to_string())?;
    cpu.interrupt(found.vector(0)).await;
    Ok(())
}

fn models() -> Models {
    devices::models().with::<Reader>()
}

fn plan(name: &str) -> Plan {
    let model = models().offering(name).unwrap();
    let transfers = 500;
    Plan {
        tests: tests_named("full", model.tests()).unwrap(),
        model,
        sizes: vec![64, 1024],
        latency_transfers: transfers,
        bandwidth_transfers: transfers,
        warm_up: Some(100),
        ..Plan::default()
    }
}

#[test]
fn measures_transfers_of_a_user_model() {
    let plan = plan("reader");
    assert_eq!(plan.tests, [Test::LatRd, Test::BwRd]);
    plan.check().unwrap();
    for &size in &plan.sizes {
        let latency = plan.measure(Test::LatRd, size).unwrap().latency.unwrap();
        // The ideal card of the paper's benchmark has the same latency.
        let card = Plan { model: Plan::default().model, memory: Some(MemoryKind::Low), ..plan.clone() };
        let of_card = card.measure(Test::LatRd, size).unwrap().latency.unwrap();
        assert_eq!(latency.latency_ns_median, of_card.latency_ns_median, "{size}");
        let row = plan.measure(Test::BwRd, size).unwrap();
        let (bandwidth, requests) = (row.bandwidth.unwrap(), row.transactions[0].requests);
        assert_eq!((bandwidth.transactions, row.warm_up), (500, 100));
        // Only interrupts.
        assert!(row.upstream.payload_bytes < 64, "{}", row.upstream.payload_bytes);
        assert!(requests.abs_diff(500 * u64::from(size.div_ceil(512))) <= 20, "{requests}");
        assert!(bandwidth.read_gbps > 1.0 && bandwidth.bandwidth_gbps <= bandwidth.model_exact_gbps * 1.01);
        let settings = plan.settings(Test::BwRd, size).unwrap();
        assert_eq!(
            (settings.device.as_str(), settings.outstanding, settings.window_bytes),
            ("reader", 8, 4096)
        );
        assert_eq!(
            (settings.pattern, settings.cache, settings.addr_bits),
            (Pattern::Sequential, CacheState::Cold, 32)
        );
    }
}

#[test]
fn rejects_transfers_that_the_model_does_not_offer() {
    for (name, says) in [
        (
            "memory",
            "no transfers of model `memory`: expected dma-engine, intel-82574, packet-nic, pcie-bench, reader",
        ),
        ("none", "no model `none`: expected dma-engine, intel-82574, packet-nic, pcie-bench, reader"),
    ] {
        assert_eq!(models().offering(name).unwrap_err().to_string(), says);
    }
    let good = plan("reader");
    for (plan, says) in [
        (
            Plan { tests: vec![Test::BwWr], ..good.clone() },
            "`reader` does not offer BW_WR, expected LAT_RD, BW_RD",
        ),
        (Plan { pattern: Some(Pattern::Random), ..good.clone() }, "pattern of random, expected sequential"),
        (Plan { window_bytes: Some(8192), ..good.clone() }, "window_bytes of 8192, expected 4096"),
        (
            Plan { sizes: vec![64, 5000], ..good.clone() },
            "LAT_RD of 5000 bytes: size_bytes of 5000, expected 1 to 4096",
        ),
        (Plan { outstanding: Some(65), ..good.clone() }, "outstanding of 65, expected 1 to 64"),
    ] {
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Any model reaches the rate that its link allows, in each direction that it offers.
#[test]
fn measures_dma_engine_with_rings() {
    let plan = Plan { sizes: vec![4096], ..plan("dma-engine") };
    assert_eq!(plan.tests, [Test::BwRd, Test::BwWr, Test::BwRdWr]);
    for &test in &plan.tests {
        let b = plan.measure(test, 4096).unwrap().bandwidth.unwrap();
        let share = b.bandwidth_gbps / b.model_exact_gbps;
        // Descriptors and their write-back take part of the wire.
        assert!((0.85..1.0).contains(&share), "{}: {b:?}", test.name());
        let (reads, writes) = (test != Test::BwWr, test != Test::BwRd);
        assert_eq!((b.read_gbps > 0.0, b.write_gbps > 0.0), (reads, writes), "{}", test.name());
    }
    assert_eq!(Offering::of::<devices::dma_engine::Settings>().name(), "dma-engine");
    let odd = Plan { sizes: vec![100], ..plan };
    assert!(odd.check().unwrap_err().to_string().contains("size_bytes of 100, expected"), "{odd:?}");
}
