// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of firmware with configuration spaces, without a fabric.

use super::*;
use crate::{AsyncProgram, HostMemory};
use crate::{HostInput, HostOutput, HostProgram};
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, PcieLayout};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::{Data, Mps, Mrrs, PayloadPool, Time};

/// Functions by ID. A function may answer its first configuration requests with CRS.
#[derive(Default)]
struct Bus {
    functions: BTreeMap<Bdf, ConfigSpace>,
    retries: BTreeMap<Bdf, u32>,
    absent: Option<HostError>,
}

impl Bus {
    fn with(mut self, bdf: &str, space: ConfigSpace) -> Bus {
        self.functions.insert(parse(bdf), space);
        self
    }

    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> HostInput {
        let (id, result) = match output {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables: 0xf } => {
                let value = self.function(function).map(|f| f.read(register_dw));
                (id, value.map(|v| Data::Carried(pool.copy(&v.to_le_bytes()))))
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                let written = self.function(function).map(|f| f.write(register_dw, byte_enables, value));
                (id, written.map(|_| Data::NONE))
            }
            other => panic!("firmware touches only configuration space, not {other:?}"),
        };
        HostInput::Done { id, result }
    }

    fn function(&mut self, bdf: Bdf) -> Result<&mut ConfigSpace, HostError> {
        if let Some(left) = self.retries.get_mut(&bdf).filter(|left| **left > 0) {
            *left -= 1;
            return Err(HostError::ConfigRetry);
        }
        let absent = self.absent.unwrap_or(HostError::Completion(CompletionError::UnsupportedRequest));
        self.functions.get_mut(&bdf).ok_or(absent)
    }
}

fn parse(bdf: &str) -> Bdf {
    let part = |range: std::ops::Range<usize>| u8::from_str_radix(&bdf[range], 16).unwrap();
    Bdf::new(part(0..2), part(3..5), part(6..7)).unwrap()
}

/// Runs firmware below invisible root ports, one after the other. Also returns the simulated time that this took.
fn run(bus: &mut Bus, ports: &[HostMap]) -> (Result<Vec<FoundFunction>, String>, Time) {
    let (ports, found) = (ports.to_vec(), Rc::new(RefCell::new(Vec::new())));
    let result = Rc::clone(&found);
    let mut program = AsyncProgram::new(HostMemory::new(4096, 0).unwrap(), |cpu| async move {
        let mut first = FIRST_VECTOR;
        for (port, map) in ports.into_iter().enumerate() {
            let system = enumerate_host(&cpu, &HostMap { vectors: (first, u16::MAX), ..map }).await?;
            for FoundFunction { vector_base, vectors, .. } in system.functions().map(|f| f.found) {
                first = first.max(vector_base + vectors);
            }
            result.borrow_mut().extend(system.functions().map(|f| FoundFunction { port, ..f.found }));
        }
        Ok::<(), String>(())
    });
    let (pool, mut now) = (PayloadPool::new(), Time::ZERO);
    loop {
        while let Some(output) = program.poll_output(now) {
            let input = bus.serve(&pool, output);
            program.handle(now, input);
        }
        if let Some(outcome) = program.outcome() {
            return (outcome.map(|()| found.take()).map_err(|e| e.to_string()), now);
        }
        now = program.poll_timeout().expect("firmware waits for an answer or for time");
        program.handle(now, HostInput::Timer);
    }
}

fn port(bus: u8) -> HostMap {
    let mps = MpsPolicy::Fixed(Mps::new(256).unwrap());
    let policy = Policy { mps, mrrs: Mrrs::new(1024).unwrap(), ten_bit_tags: false, ..Policy::default() };
    HostMap {
        first_bus: bus,
        last_bus: bus,
        mmio32: Window { base: 0x8000_0000, size: 0x10_0000 },
        mmio64: Window { base: 0x40_0000_0000, size: 0x1000_0000 },
        io: Window { base: 0x1000 * u64::from(bus), size: 0x1000 },
        policy,
        ..HostMap::default()
    }
}

fn builder() -> Builder {
    let identity = Identity { vendor: 0x1234, device: 0x5678, class: 0x02_0000, ..Identity::default() };
    Builder::type0(identity)
        .power_management()
        .pcie(PcieLayout { ten_bit_tag: true, ..PcieLayout::default() })
}

fn bar(address: u64, size: u64) -> Option<FoundBar> {
    Some(FoundBar { address, size })
}

#[test]
fn finds_places_and_enables_function() {
    let space = builder()
        .bar(0, Bar::memory32(0x1000))
        .bar(1, Bar::io(16))
        .bar(2, Bar::memory32(0x4000))
        .bar(4, Bar::memory64(0x1_0000).prefetchable())
        .msi(MsiLayout { vectors: 2 });
    let mut bus = Bus::default().with("01:00.0", space.build().unwrap());
    let found = run(&mut bus, &[port(1)]).0.unwrap();
    let [f] = found[..] else { panic!("{found:?}") };
    assert_eq!(
        (f.bdf, f.port, f.vendor, f.device, f.class),
        (parse("01:00.0"), 0, 0x1234, 0x5678, 0x02_0000)
    );
    // The larger BAR first, each at a multiple of its size.
    let bars =
        [bar(0x8000_4000, 0x1000), None, bar(0x8000_0000, 0x4000), None, bar(0x40_0000_0000, 0x1_0000), None];
    assert_eq!(f.bars, bars);
    assert_eq!(f.io_bars, [None, bar(0x1000, 16), None, None, None, None]);
    assert_eq!((f.io_address(1, 15), f.address(1, 0).is_err()), (Ok(0x100f), true));
    assert_eq!(
        f.io_address(1, 16).unwrap_err().to_string(),
        "function 01:00.0 [1234:5678], I/O BAR 1: offset 0x10 is beyond its 0x10 bytes"
    );
    assert_eq!((f.vector_base, f.vectors, f.vector(1)), (32, 2, 33));

    let space = &bus.functions[&f.bdf];
    assert!(space.memory_enable() && space.bus_master_enable() && space.io_enable());
    let settings = (space.mps().bytes(), space.mrrs().bytes(), space.rcb().bytes());
    assert_eq!(settings, (256, 1024, 64), "no root port sets a Read Completion Boundary");
    assert!(space.extended_tag_enable() && !space.ten_bit_tag_enable());
    let windows = [0, 2, 4].map(|i| space.bar(i).unwrap().address);
    assert_eq!(windows, [0x8000_4000, 0x8000_0000, 0x40_0000_0000]);
    let msi = space.msi().unwrap();
    assert_eq!((msi.address, msi.data, msi.vectors), (0xfee0_0000, 32, 2));
}

#[test]
fn functions_and_ports_share_the_vectors_and_each_port_has_its_own_windows() {
    let function =
        |vectors| builder().multi_function().bar(0, Bar::memory32(0x1000)).msi(MsiLayout { vectors });
    let mut bus = Bus::default()
        .with("01:00.0", function(1).build().unwrap())
        .with("01:00.5", function(4).build().unwrap())
        .with("03:00.0", builder().msi(MsiLayout { vectors: 1 }).build().unwrap())
        .with("03:00.1", builder().build().unwrap());
    let mut last = port(3);
    last.policy.ten_bit_tags = true;
    let ports = [port(1), port(2), last];
    let found = run(&mut bus, &ports).0.unwrap();
    let seen: Vec<_> = found.iter().map(|f| (f.bdf.to_string(), f.port, f.vector_base, f.vectors)).collect();
    let rows = [("01:00.0", 0, 32, 1), ("01:00.5", 0, 36, 4), ("03:00.0", 2, 40, 1)];
    assert_eq!(
        seen,
        rows.map(|(bdf, p, base, n)| (bdf.to_string(), p, base, n)),
        "03:00.1 is not found, because function 0 has no multi-function bit"
    );
    assert_eq!(found[1].bars[0], bar(0x8000_1000, 0x1000));
    assert!(bus.functions[&parse("03:00.0")].ten_bit_tag_enable());
}

#[test]
fn absent_functions_are_skipped_and_slow_ones_waited_for() {
    let space = || builder().build().unwrap();
    for absent in [HostError::NoDevice, HostError::Completion(CompletionError::UnsupportedRequest)] {
        let mut bus = Bus { absent: Some(absent), ..Bus::default() };
        assert_eq!(run(&mut bus, &[port(1)]).0, Ok(Vec::new()));
    }
    let mut bus = Bus::default().with("01:00.0", space());
    bus.retries.insert(parse("01:00.0"), 3);
    let (found, took) = run(&mut bus, &[port(1)]);
    assert_eq!((found.unwrap().len(), took), (1, Time::ZERO + RETRY_PAUSE * 3));
}

#[test]
fn rejects_payload_size_beyond_function() {
    let mut bus = Bus::default().with("01:00.0", builder().build().unwrap());
    let mut port = port(1);
    port.policy.mps = MpsPolicy::Fixed(Mps::new(1024).unwrap());
    let ports = [port];
    let error = "function 01:00.0: Max_Payload_Size of 1024 B: it supports 512 B";
    assert_eq!(run(&mut bus, &ports).0.unwrap_err(), error);
}
