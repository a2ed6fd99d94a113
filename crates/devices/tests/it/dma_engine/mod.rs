// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine and its drivers over TLPs: every byte of every function, and effects of a reset or removal of a function
//! on the others. A DMA read takes 500 ns, regardless of size; writes take no time.

mod random;
mod rules;

use crate::common::Event;
use crate::common::slot::Slot;
use config::PcieLayout;
use endpoint::{Endpoint, EndpointConfig, TlpPort};
use host::firmware::{FoundBar, FoundFunction, MSI_ADDRESS};
use host::{AsyncProgram, Cpu};
use plug::Shared;
use riser_devices::dma_engine::*;
use tlp::{Bdf, Body, Data, Duration, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, Time, Tlp};

/// Bus 1, device 0: the physical function. Virtual function n has an ID higher by n + 1.
const PF: u16 = 0x0100;
const PF_BAR: u64 = 0x1_0000_0000;
const VF_BAR: u64 = 0x2_0000_0000;
const FIRST_VECTOR: u16 = 32;
/// DWs of SR-IOV Control, NumVFs and VF BAR0 in the capability (`PCIe 5.0 §9.3.3`), and bits of SR-IOV Control.
const SRIOV: u16 = 0x0010;
const CONTROL: u16 = 2;
const NUM_VFS: u16 = 4;
const VF_BAR0: u16 = 9;
const ENABLE: u32 = 0x19;

/// An engine with all functions enabled, and a vector for each ring.
struct Bench {
    slot: Slot,
    functions: Vec<FoundFunction>,
    report: Shared<EngineReport>,
    /// Number of engines per function.
    engines: u16,
}

impl Bench {
    fn new(settings: &Settings) -> Bench {
        let (pool, report) = (PayloadPool::new(), Shared::default());
        let engines = u16::from(settings.h2d_engines) + u16::from(settings.d2h_engines);
        let made = functions(settings, PcieLayout::default(), 256, &pool, &report, None, None).unwrap();
        let limits = Default::default();
        let config = EndpointConfig { name: "dma".into(), functions: vec![made.physical], limits, pool };
        let endpoint = Endpoint::new(config).unwrap();
        let endpoint = match made.virtual_functions {
            Some(vfs) => endpoint.with_virtual_functions(0, vfs).unwrap(),
            None => endpoint,
        };
        let mut bench = Bench { slot: Slot::of(endpoint), functions: Vec::new(), report, engines };
        bench.enable(settings.vfs);
        bench.functions = (0..=settings.vfs).map(|n| bench.enable_function(n)).collect();
        bench
    }

    fn write(&mut self, id: u16, dw: u16, value: u32) {
        self.slot.endpoint.write_config(Time::ZERO, Bdf::from_bits(id), dw, 0xf, value);
    }

    fn enable(&mut self, vfs: u16) {
        let config = self.slot.endpoint.config(0).unwrap();
        let pcie = config.pcie_capability().unwrap();
        let sriov = config.extended_capability(SRIOV);
        assert_eq!(sriov.is_some(), vfs > 0);
        // Max_Payload_Size 256 B, Max_Read_Request_Size 512 B, 8-bit tags.
        self.write(PF, pcie + 2, 0x2930);
        self.write(PF, 4, PF_BAR as u32);
        self.write(PF, 5, (PF_BAR >> 32) as u32);
        if let Some(sriov) = sriov {
            self.write(PF, sriov + NUM_VFS, vfs.into());
            self.write(PF, sriov + VF_BAR0 + 1, (VF_BAR >> 32) as u32);
            self.write(PF, sriov + CONTROL, ENABLE);
        }
    }

    /// Bus Master Enable and MSI-X.
    fn enable_function(&mut self, number: u16) -> FoundFunction {
        let id = PF + number;
        let vf = number.checked_sub(1);
        let address = vf.map_or(PF_BAR, |n| VF_BAR + u64::from(n) * registers::BAR_BYTES);
        self.write(id, 1, 0x6);
        let engines = self.engines;
        let vector_base = FIRST_VECTOR + engines * number;
        for n in 0..engines {
            let words = [MSI_ADDRESS, u64::from(vector_base + n)].map(u64::to_le_bytes);
            self.mmio_write(address + registers::MSIX_TABLE + 16 * u64::from(n), words.as_flattened());
        }
        let config = self.slot.endpoint.config_of(Bdf::from_bits(id)).unwrap();
        let (msix, pcie) = (config.msix_capability().unwrap(), config.pcie_capability());
        self.write(id, msix, 1 << 31);
        let mut bars = [None; 6];
        bars[0] = Some(FoundBar { address, size: registers::BAR_BYTES });
        FoundFunction {
            bdf: Bdf::from_bits(id),
            port: 0,
            vendor: riser_devices::VENDOR,
            device: 0,
            class: 0,
            bars,
            io_bars: [None; 6],
            pcie,
            vector_base,
            vectors: engines,
        }
    }

    fn mmio_write(&mut self, address: u64, bytes: &[u8]) {
        let (op, span) = (MemoryOp::Write, Span::covering(address, bytes.len() as u32).unwrap());
        let request = MemoryRequest { op, requester: Bdf::default(), tag: Tag::default(), span };
        let data = Data::Carried(PayloadPool::new().copy(bytes));
        self.slot.endpoint.handle_tlp(Time::ZERO, &Tlp::new(Repr::new(Body::Memory(request)), data));
    }

    /// Runs a host program.
    fn run_program<F: Future<Output = Result<(), String>> + 'static>(
        &mut self,
        program: impl FnOnce(Cpu, Vec<FoundFunction>) -> F + 'static,
    ) -> Result<(), String> {
        let functions = self.functions.clone();
        let mut program = AsyncProgram::new(self.slot.memory.clone(), move |cpu| program(cpu, functions));
        self.slot.run(&mut program)
    }

    fn run(&mut self, load: &Settings) -> Result<(), String> {
        let (functions, report, load) = (self.functions.clone(), self.report.clone(), load.clone());
        let mut program =
            AsyncProgram::new(self.slot.memory.clone(), move |cpu| driver(cpu, functions, load, report));
        self.slot.run(&mut program)
    }
}

fn load(transfers: u32, size_bytes: u32, ring_entries: u32) -> Settings {
    Settings { transfers, size_bytes, ring_entries, ..Settings::default() }
}

/// Checks in device and driver that exactly the requested bytes were moved.
fn assert_moved(report: &FunctionReport, load: &Settings) {
    let expected = RingReport {
        bytes: u64::from(load.transfers) * u64::from(load.size_bytes),
        done: load.transfers.into(),
        failed: 0,
        refused: 0,
    };
    assert_eq!(report.rings, vec![expected; 2]);
}

#[test]
fn every_byte_of_every_function_arrives() {
    // Virtual functions, window, and load of each. Covers small sizes of each class, rings of one entry, a window of
    // one, transfer sizes that are no multiple of a read, and more transfers than ring entries.
    let rows = [
        (0, 1, load(1, 8, 1)),
        (0, 32, load(37, 4096, 8)),
        (1, 32, load(64, 1024, 16)),
        (3, 1, load(9, 520, 4)),
        (7, 5, load(20, 2056, 2)),
        (16, 32, load(40, 512, 16)),
    ];
    for (vfs, window, load) in rows {
        let mut bench = Bench::new(&Settings { vfs, window, ..Settings::default() });
        assert_eq!(bench.run(&load), Ok(()), "{vfs} VFs, window {window}, {load:?}");
        let report = bench.report.get();
        assert_eq!(report.functions.len(), usize::from(vfs) + 1);
        report.functions.iter().for_each(|f| assert_moved(f, &load));
        let counters = bench.slot.endpoint.counters();
        assert_eq!((counters.dma_reads_failed, counters.unexpected_completions), (0, 0));
    }
}

/// The number of descriptors in the device is the device's. A driver that uses two engines of four finds its descriptors by the
/// register, and a ring that does not fit is an error.
#[test]
fn driver_asks_the_device_for_its_descriptors() {
    let device = Settings { d2h_engines: 3, ..Settings::default() };
    let load = Settings { ring: RingOf::Device, ring_entries: 256, transfers: 300, ..Settings::default() };
    let mut bench = Bench::new(&device);
    assert_eq!(bench.run(&load), Ok(()));
    for ring in &bench.report.get().functions[0].rings[..2] {
        let bytes = u64::from(load.transfers) * u64::from(load.size_bytes);
        assert_eq!((ring.bytes, ring.failed, ring.refused), (bytes, 0, 0));
    }
    let error = Bench::new(&device).run(&Settings { ring_entries: 512, ..load }).unwrap_err();
    assert!(error.contains("ring_entries 512: the device has 256 descriptors per engine"), "{error}");
}

/// All settings of a driver. Every byte is checked by the device or the driver.
#[test]
fn every_setting_moves_every_byte() {
    let base =
        || Settings { vfs: 2, transfers: 24, size_bytes: 4096, ring_entries: 8, ..Settings::default() };
    let rows = [
        Settings { ring: RingOf::Device, ..base() },
        Settings { ring: RingOf::Device, ring_entries: 512, outstanding: 1, ..base() },
        Settings { page_bytes: 1024, ..base() },
        Settings { page_bytes: 1000, size_bytes: 4000, ring: RingOf::Device, ring_entries: 64, ..base() },
        Settings { page_bytes: 600, ring_entries: 32, ..base() },
        Settings { h2d_engines: 3, d2h_engines: 2, ..base() },
        Settings { h2d_engines: 0, d2h_engines: 4, vfs: 0, ..base() },
        Settings { h2d_engines: 1, d2h_engines: 0, ..base() },
        Settings { window_of: WindowOf::Function, window: 3, ..base() },
        Settings { read_bytes: 128, ..base() },
        Settings { read_bytes: 4096, weights: vec![3, 1], ..base() },
        Settings { logic: UserLogic::Plain, ..base() },
        Settings { logic: UserLogic::LoopBack, h2d_engines: 2, d2h_engines: 2, ..base() },
        Settings {
            logic: UserLogic::LoopBack,
            page_bytes: 904,
            size_bytes: 4520,
            ring_entries: 64,
            ..base()
        },
        Settings { completion: Completion::Poll, set_up_ns: 700, outstanding: 2, ..base() },
        Settings { coalesce_count: 5, coalesce_us: 3, ..base() },
        Settings { size_bytes: 1 << 20, transfers: 2, vfs: 0, ring_entries: 2, ..base() },
    ];
    for settings in rows {
        let mut bench = Bench::new(&settings);
        assert_eq!(bench.run(&settings), Ok(()), "{settings:?}");
        let bytes = u64::from(settings.transfers) * u64::from(settings.size_bytes);
        for function in &bench.report.get().functions {
            for ring in &function.rings {
                assert_eq!((ring.bytes, ring.failed, ring.refused), (bytes, 0, 0), "{settings:?}");
            }
        }
        assert_eq!(bench.slot.endpoint.counters().unexpected_completions, 0);
    }
}

#[test]
fn each_function_uses_its_own_vectors() {
    let mut bench = Bench::new(&Settings { vfs: 2, window: 8, ..Settings::default() });
    // A ring of 8: one interrupt per four transfers.
    assert_eq!(bench.run(&load(16, 64, 8)), Ok(()));
    for vector in FIRST_VECTOR..FIRST_VECTOR + 6 {
        let came = bench.slot.log.iter().filter(|e| **e == Event::Interrupt(vector)).count();
        assert_eq!(came, 4, "vector {vector}");
    }
}

/// If all functions are busy, each gets the same number of places in the window.
#[test]
fn equal_functions_get_equal_shares() {
    for (vfs, window) in [(3, 8), (8, 4), (15, 32), (63, 16)] {
        let mut bench = Bench::new(&Settings { vfs, window, ..Settings::default() });
        assert_eq!(bench.run(&load(256, 2048, 32)), Ok(()));
        let report = bench.report.get();
        let shares: Vec<u64> = report.functions.iter().map(|f| f.shared_bytes).collect();
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(most * 98 <= least * 100, "{vfs} VFs, window {window}: {least} to {most} B");
    }
}

#[test]
fn larger_window_hides_more_latency() {
    let elapsed = |window| {
        let mut bench = Bench::new(&Settings { vfs: 0, window, ..Settings::default() });
        assert_eq!(bench.run(&load(64, 4096, 16)), Ok(()));
        bench.report.get().elapsed(0, tlp::Time::MAX).as_ps()
    };
    // 512 sequential reads of data, 500 ns each, take nearly all of the time.
    let one = elapsed(1);
    assert!((256_000_000..300_000_000).contains(&one), "{one} ps");
    let four = elapsed(4);
    assert!((64_000_000..80_000_000).contains(&four), "{four} ps");
}

#[test]
fn all_virtual_functions_of_one_bus_run() {
    let mut bench = Bench::new(&Settings { vfs: 255, window: 64, ..Settings::default() });
    let load = load(4, 1024, 4);
    assert_eq!(bench.run(&load), Ok(()));
    bench.report.get().functions.iter().for_each(|f| assert_moved(f, &load));
    assert_eq!(bench.functions[255].bdf, Bdf::from_bits(0x01ff));
}

/// The device's bit 15 of Device Control (`PCIe 5.0 §7.5.3.4`): Initiate Function Level Reset.
const FLR: u32 = 1 << 15;

#[test]
fn reset_under_load_affects_no_other_function() {
    for vfs in [4, 20] {
        let mut bench = Bench::new(&Settings { vfs, window: 8, ..Settings::default() });
        let load = load(64, 2048, 8);
        let driven = load.clone();
        let (functions, report) = (bench.functions.clone(), bench.report.clone());
        let mut program = AsyncProgram::new(bench.slot.memory.clone(), move |cpu| async move {
            let drive =
                |n: usize| cpu.spawn(drive_one(cpu.clone(), n, functions[n], driven.clone(), report.clone()));
            let running: Vec<_> = (0..functions.len()).map(|n| (n, drive(n))).collect();
            cpu.sleep(Duration::from_us(5)).await;
            let victim = functions[2];
            assert!(report.get().functions[2].bytes() > 0 && report.get().functions[2].end.is_none());
            let control = victim.pcie.unwrap() + 2;
            cpu.config_write(victim.bdf, control, 0b0011, FLR).await.map_err(|e| e.to_string())?;
            for (_, task) in running.into_iter().filter(|(n, _)| *n != 2) {
                task.await.map_err(|e| e.to_string())??;
            }
            Ok::<(), String>(())
        });
        assert_eq!(bench.slot.run(&mut program), Ok(()));
        let report = bench.report.get();
        for (n, function) in report.functions.iter().enumerate().filter(|(n, _)| *n != 2) {
            assert_eq!(function.rings[0].done, 64, "function {n} of {vfs}");
            assert_moved(function, &load);
        }
        let reset = &report.functions[2];
        assert!(reset.end.is_none() && reset.rings[0].done < 64);
        let counters = bench.slot.endpoint.counters();
        assert_eq!((counters.function_level_resets, counters.unexpected_completions), (1, 0));
    }
}

#[test]
fn a_function_works_after_its_reset() {
    let mut bench = Bench::new(&Settings { vfs: 2, window: 2, ..Settings::default() });
    let load = load(16, 1024, 4);
    assert_eq!(bench.run(&load), Ok(()));
    let pcie = bench.functions[1].pcie.unwrap();
    bench.write(PF + 1, pcie + 2, FLR);
    bench.functions[1] = bench.enable_function(1);
    let (function, report) = (bench.functions[1], bench.report.clone());
    let mut program = AsyncProgram::new(bench.slot.memory.clone(), move |cpu| {
        drive_one(cpu, 1, function, load.clone(), report.clone())
    });
    assert_eq!(bench.slot.run(&mut program), Ok(()));
    assert_eq!(bench.report.get().functions[1].rings[0].done, 32);
}

#[test]
fn removed_virtual_functions_do_not_disturb_the_physical_one() {
    for vfs in [3, 30] {
        let mut bench = Bench::new(&Settings { vfs, window: 4, ..Settings::default() });
        let load = load(64, 2048, 8);
        let driven = load.clone();
        let sriov = bench.slot.endpoint.config(0).unwrap().extended_capability(SRIOV).unwrap();
        let (functions, report) = (bench.functions.clone(), bench.report.clone());
        let mut program = AsyncProgram::new(bench.slot.memory.clone(), move |cpu| async move {
            let drive =
                |n: usize| cpu.spawn(drive_one(cpu.clone(), n, functions[n], driven.clone(), report.clone()));
            let mut running: Vec<_> = (0..functions.len()).map(drive).collect();
            cpu.sleep(Duration::from_us(5)).await;
            assert!(report.get().functions.iter().all(|f| f.end.is_none()));
            let pf = functions[0].bdf;
            cpu.config_write(pf, sriov + CONTROL, 0b0011, 0x10).await.map_err(|e| e.to_string())?;
            running.swap_remove(0).await.map_err(|e| e.to_string())?
        });
        assert_eq!(bench.slot.run(&mut program), Ok(()));
        let report = bench.report.get();
        assert_moved(&report.functions[0], &load);
        assert!(report.functions[1..].iter().all(|f| f.end.is_none()), "{vfs} VFs");
        assert_eq!(bench.slot.endpoint.counters().unexpected_completions, 0);
        assert_eq!(bench.slot.endpoint.virtual_function_id(0, 0), None);
    }
}
