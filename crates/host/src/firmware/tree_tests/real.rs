// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of enumeration with the configuration spaces of real devices and bridges, forwarded by their registers.

use super::mock::Serve;
use super::*;
use crate::{HostInput, HostOutput};
use config::ext::acs::{Acs, AcsLayout};
use config::{
    AerLayout, AerRole, Bar, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PortType, SlotLayout,
    SriovLayout, VfNumbering,
};
use config::{PcieLayout, ext};
use std::collections::BTreeMap;
use tlp::{Data, PayloadPool, Rcb};

/// A function, and the functions on its secondary bus.
struct Real {
    space: ConfigSpace,
    below: BTreeMap<u8, Real>,
}

/// The root complex's bus.
struct RealHost(BTreeMap<u8, Real>);

fn one(space: ConfigSpace) -> Real {
    Real { space, below: BTreeMap::new() }
}

impl Real {
    fn with(mut self, device_function: u8, real: Real) -> Real {
        self.below.insert(device_function, real);
        self
    }
}

impl RealHost {
    fn get(&mut self, bdf: Bdf) -> Option<&mut ConfigSpace> {
        get(&mut self.0, 0, bdf)
    }

    /// The functions that decode this address.
    fn claimants(&self, address: u64) -> Vec<String> {
        let mut all = Vec::new();
        claim(&self.0, 0, address, &mut all);
        all
    }
}

fn get(functions: &mut BTreeMap<u8, Real>, bus: u8, bdf: Bdf) -> Option<&mut ConfigSpace> {
    if bus == bdf.bus() {
        return functions.get_mut(&(bdf.bits() as u8)).map(|f| &mut f.space);
    }
    let claims = |f: &Real| f.space.bridge().is_some_and(|b| b.claims_bus(bdf.bus()));
    let bridge = functions.values_mut().find(|f| claims(f))?;
    let secondary = bridge.space.bridge()?.secondary;
    get(&mut bridge.below, secondary, bdf)
}

fn claim(functions: &BTreeMap<u8, Real>, bus: u8, address: u64, all: &mut Vec<String>) {
    for (number, f) in functions {
        let bars = (0..6).filter_map(|i| Some((i, f.space.bar(i)?)));
        let mine = bars.filter(|(_, bar)| f.space.memory_enable() && bar.offset_of(address, 1).is_some());
        all.extend(
            mine.map(|(i, _)| {
                format!("{} BAR {i}", Bdf::from_bits(u16::from(bus) << 8 | u16::from(*number)))
            }),
        );
        if let Some(bridge) = f.space.bridge().filter(|b| b.claims_memory(address)) {
            claim(&f.below, bridge.secondary, address, all);
        }
    }
}

impl Serve for RealHost {
    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> Option<HostInput> {
        let absent = HostError::Completion(CompletionError::UnsupportedRequest);
        let (id, result) = match output {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables: 0xf } => {
                let value = self.get(function).map(|f| f.read(register_dw)).ok_or(absent);
                (id, value.map(|v| Data::Carried(pool.copy(&v.to_le_bytes()))))
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                let written = self.get(function).map(|f| f.write(register_dw, byte_enables, value));
                (id, written.map(|_| Data::NONE).ok_or(absent))
            }
            HostOutput::MmioWrite { address, .. } => {
                assert_eq!(self.claimants(address).len(), 1, "an MSI-X table at {address:#x}");
                return None;
            }
            other => panic!("enumeration does nothing like {other:?}"),
        };
        Some(HostInput::Done { id, result })
    }
}

fn bridge(port: PortType, slot: Option<SlotLayout>) -> Real {
    let identity = Identity { vendor: 0x1b36, device: 1, class: 0x06_0400, ..Identity::default() };
    let pcie = PcieLayout {
        slot,
        rcb: Rcb::new(128).unwrap(),
        ari_forwarding: port.is_above_link(),
        ..PcieLayout::port(port)
    };
    let role = match port {
        PortType::RootPort => AerRole::RootPort,
        PortType::Upstream => AerRole::UpstreamPort,
        _ => AerRole::DownstreamPort,
    };
    let all = Acs::from_bits_truncate(0b1_1101);
    let space = Builder::type1(identity)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .advanced_error_reporting_with(AerLayout::new(role))
        .access_control(AcsLayout { capable: all, egress_bits: 0 });
    one(space.build().unwrap())
}

fn endpoint() -> Builder {
    let identity = Identity { vendor: 0x1af4, device: 0x10ff, class: 0x02_0000, ..Identity::default() };
    Builder::type0(identity)
        .pcie(PcieLayout { ten_bit_tag: true, ..PcieLayout::default() })
        .advanced_error_reporting()
}

fn tree() -> RealHost {
    let plain = endpoint()
        .bar(0, Bar::memory32(0x4000))
        .bar(1, Bar::io(32))
        .expansion_rom(0x1_0000)
        .msix(MsixLayout { vectors: 4, table: (0, 0x1000), pending: (0, 0x2000) });
    let numbering = VfNumbering { first_offset: 0x80, stride: 4 };
    let sriov = SriovLayout {
        ari: numbering,
        without_ari: numbering,
        ten_bit_tag: true,
        ..SriovLayout::new(64, 0x10fe).bar(0, Bar::memory64(0x1_0000).prefetchable())
    };
    let physical = endpoint()
        .bar(2, Bar::memory64(1 << 20).prefetchable())
        .alternative_routing(0)
        .single_root_virtualization(sriov);
    let slot = Some(SlotLayout { hot_plug: true, ..SlotLayout::default() });
    let switch = bridge(PortType::Upstream, None)
        .with(0, bridge(PortType::Downstream, None).with(0, one(plain.build().unwrap())))
        .with(8, bridge(PortType::Downstream, slot));
    RealHost(BTreeMap::from([
        (8, bridge(PortType::RootPort, None).with(0, switch)),
        (16, bridge(PortType::RootPort, None).with(0, one(physical.build().unwrap()))),
    ]))
}

#[test]
fn firmware_sets_up_a_tree_of_configuration_spaces() {
    let mut host = tree();
    let policy = Policy { acs: AcsPolicy::Redirect, ..Policy::default() };
    let map = HostMap { policy, ..HostMap::default() };
    let (system, _) = run(&mut host, |cpu| async move { enumerate_host(&cpu, &map).await });
    let system = system.unwrap();
    let tree = "\
-[0000:00]-+-01.0-[01-05]----00.0-[02-05]--+-00.0-[03]----00.0
           |                               \\-01.0-[04-05]--
           \\-02.0-[06-07]----00.0
";
    assert_eq!(system.tree(), tree);
    for f in system.functions() {
        let space = host.get(f.bdf()).unwrap();
        assert!(space.memory_enable() && space.bus_master_enable() && space.serr_enable(), "{f:?}");
        // Below the first root port is a hot-plug slot, which any device may be inserted into.
        assert_eq!(space.mps().bytes(), if f.found.port == 0 { 128 } else { 512 }, "{f:?}");
        if let Some(b) = f.bridge {
            let seen = space.bridge().unwrap();
            let range = |w: Window| (w.size > 0).then(|| (w.base, w.base + w.size - 1));
            assert_eq!((seen.secondary, seen.subordinate), (b.secondary, b.subordinate));
            assert_eq!(
                [seen.io, seen.memory, seen.prefetchable],
                [b.io, b.memory, b.prefetchable].map(range)
            );
            assert!(seen.serr_enable);
            assert_eq!(space.access_control().bits(), 0b1_1101);
            assert_eq!(space.msi().unwrap().data, f.found.vector_base);
        } else {
            assert_eq!((space.rcb().bytes(), space.ten_bit_tag_enable()), (128, true), "{f:?}");
        }
        for (i, bar) in f.found.bars.iter().enumerate().filter_map(|(i, bar)| Some((i, (*bar)?))) {
            assert_eq!(host.get(f.bdf()).unwrap().bar(i as u8).unwrap().address, bar.address);
            assert_eq!(host.claimants(bar.address), [format!("{} BAR {i}", f.bdf())]);
        }
    }
    let physical = host.get(bdf("06:00.0")).unwrap();
    let first = physical.vf_bar(0).unwrap();
    let found = system.get(bdf("06:00.0")).unwrap().sriov.unwrap();
    assert_eq!((found.total_vfs, found.num_vfs, found.vf_device), (64, 0, 0x10fe));
    assert_eq!(found.bars[0], Some(FoundBar { address: first.address, size: 0x1_0000 }));
    assert!(host.get(bdf("00:02.0")).unwrap().ari_forwarding_enable());
    assert!(host.get(bdf("03:00.0")).unwrap().msix().enabled);
    let root = host.get(bdf("00:01.0")).unwrap();
    let at = root.extended_capability(ext::aer::ID).unwrap();
    assert_eq!(root.read(at + 11) & 0b111, 0b111, "Root Error Command");
}
