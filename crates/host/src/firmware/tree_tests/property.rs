// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every tree, read back from its registers.

use super::mock::Serve;
use super::*;
use crate::{HostInput, HostOutput};
use proptest::prelude::*;
use tlp::{Data, PayloadPool};

/// Description of a tree.
#[derive(Clone, Debug)]
enum Below {
    Nothing,
    /// BARs of one function, by kind and logarithm of the size.
    Device(Vec<(u8, u8)>),
    /// The BARs of functions 0, 1 and so on.
    Functions(Vec<Vec<(u8, u8)>>),
    /// Number of virtual functions, and logarithm of the size of one VF's BAR.
    Virtual(u16, u8),
    Switch(Vec<(bool, Below)>),
}

fn bars() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0u8..4, 7u8..23), 0..4)
}

fn below() -> impl Strategy<Value = Below> {
    let leaf = prop_oneof![
        1 => Just(Below::Nothing),
        4 => bars().prop_map(Below::Device),
        1 => prop::collection::vec(bars(), 1..8).prop_map(Below::Functions),
        1 => (1u16..70, 12u8..18).prop_map(|(n, log)| Below::Virtual(n, log)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop::collection::vec((any::<bool>(), inner), 1..5).prop_map(Below::Switch)
    })
}

fn device(bars: &[(u8, u8)]) -> Node {
    let mut node = Node::endpoint();
    let mut index = 0;
    for (kind, log) in bars {
        let size = 1u64 << log;
        match kind {
            0 => node = node.bar(index, 0, size),
            1 if index < 5 => {
                node = node.bar(index, 0xc, size);
                index += 1;
            }
            2 => node = node.io_bar(index, 1 << (log % 6 + 3)),
            _ => node = node.bar(index, 8, size),
        }
        index += 1;
    }
    node
}

fn plug(port: Node, below: &Below) -> Node {
    match below {
        Below::Nothing => port,
        Below::Device(bars) => port.with(0, device(bars).msi(0)),
        Below::Functions(all) => {
            let port = port.with(0, device(&all[0]).multi_function());
            (1u8..).zip(&all[1..]).fold(port, |port, (n, bars)| port.with(n, device(bars)))
        }
        Below::Virtual(count, log) => {
            let vf = Node::endpoint();
            port.with(0, device(&[]).ari(0).sriov(*count, (1, 1), 3, 1 << log, &vf))
        }
        Below::Switch(ports) => {
            let ports = ports.iter().map(|(hot, below)| {
                let port = if *hot { Node::downstream().hot_plug() } else { Node::downstream() };
                plug(port, below)
            });
            port.with(0, Node::switch(ports))
        }
    }
}

/// Number of functions of a tree, including virtual ones.
fn count(below: &Below) -> usize {
    match below {
        Below::Nothing => 0,
        Below::Device(_) => 1,
        Below::Functions(all) => all.len(),
        Below::Virtual(vfs, _) => 1 + usize::from(*vfs),
        Below::Switch(ports) => 1 + ports.iter().map(|(_, b)| 1 + count(b)).sum::<usize>(),
    }
}

/// Bus numbers, I/O, memory and prefetchable memory of a bridge: first and last.
type Ranges = [Option<(u64, u64)>; 4];

/// Checks that numbers and windows of each bridge are inside those of the bridge above, and do not overlap those of the
/// bridges beside it.
fn check_bridges(host: &mut Host, system: &System) {
    let mut siblings: Vec<(Option<Bdf>, Bdf, Ranges)> = Vec::new();
    for f in system.functions() {
        let node = host.node(f.bdf()).clone();
        if f.header_type == 0 {
            continue;
        }
        let [primary, secondary, subordinate] = node.buses();
        assert_eq!(primary, f.bdf().bus());
        assert!(primary < secondary && secondary <= subordinate);
        let b = f.bridge.unwrap();
        assert_eq!((b.secondary, b.subordinate), (secondary, subordinate));
        let buses = Some((u64::from(secondary), u64::from(subordinate)));
        let ranges = [buses, node.window(true, false), node.window(false, false), node.window(false, true)];
        if let Some(above) = f.parent {
            let (.., outer) = siblings.iter().find(|s| s.1 == above).unwrap();
            for (inner, outer) in ranges.iter().zip(outer).filter_map(|(i, o)| Some(((*i)?, o))) {
                let outer = outer.expect("the bridge above forwards the inner range");
                assert!(outer.0 <= inner.0 && inner.1 <= outer.1, "{f:?}");
            }
        }
        for (.., other) in siblings.iter().filter(|s| s.0 == f.parent) {
            for (a, b) in ranges.iter().zip(other).filter_map(|(a, b)| Some(((*a)?, (*b)?))) {
                assert!(a.1 < b.0 || b.1 < a.0, "{f:?} shares {a:x?} and {b:x?}");
            }
        }
        siblings.push((f.parent, f.bdf(), ranges));
    }
}

/// Checks that each BAR is aligned, and that its first and last byte reach only this BAR.
fn check_bars(host: &Host, system: &System) {
    for f in system.functions() {
        for (is_io, bars) in [(false, &f.found.bars), (true, &f.found.io_bars)] {
            for (n, bar) in bars.iter().enumerate().filter_map(|(n, b)| Some((n, (*b)?))) {
                assert!(bar.address.is_multiple_of(bar.size), "{f:?}");
                let name = match f.vf_of {
                    Some(pf) => {
                        let index = system.vfs_of(pf).position(|v| v.bdf() == f.bdf()).unwrap();
                        format!("{pf} VF {index} BAR {n}")
                    }
                    None => format!("{} BAR {n}", f.bdf()),
                };
                for address in [bar.address, bar.address + bar.size - 1] {
                    assert_eq!(host.claimants(address, is_io), [&*name]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_tree_is_found_and_every_bar_decodes(ports in prop::collection::vec(below(), 1..5)) {
        let mut host = Host::new(ports.iter().map(|below| plug(Node::root_port(), below)));
        let vfs = VfPolicy::All;
        let map = HostMap { policy: Policy { vfs, ..Policy::default() }, ..HostMap::default() };
        match enumerate_on(&mut host, &map).0 {
            Ok(system) => {
                prop_assert_eq!(system.len(), ports.iter().map(|p| 1 + count(p)).sum::<usize>());
                check_bridges(&mut host, &system);
                check_bars(&host, &system);
            }
            // 64 KiB of I/O hold 15 windows.
            Err(error) => prop_assert!(error.contains("I/O window"), "{}", error),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn devices_can_be_added_and_removed(steps in prop::collection::vec((0u8..4, prop::option::of(bars())), 1..12)) {
        let slots = (0..4).map(|_| Node::downstream().hot_plug());
        let mut host = Host::new([Node::root_port().with(0, Node::switch(slots))]);
        let mut system = found(&mut host, &HostMap::default());
        let empty = system.len();
        for (slot, comes) in steps {
            let port = Bdf::new(2, slot, 0).unwrap();
            let below = &mut host.node(port).below;
            below.clear();
            below.extend(comes.iter().map(|bars| (0, device(bars).msi(1))));
            let before = system.clone();
            match place::rescanned(&mut host, system, &port.to_string()) {
                Ok((after, _)) => system = after,
                Err(error) => {
                    // I/O has no reserve, and memory has 2 MiB.
                    let known = error.contains("no room") || error.contains("has no I/O window");
                    prop_assert!(known, "{}", error);
                    host.node(port).below.clear();
                    system = place::rescanned(&mut host, before, &port.to_string()).unwrap().0;
                }
            }
            let here = (0..4).filter(|n| !host.node(Bdf::new(2, *n, 0).unwrap()).below.is_empty()).count();
            prop_assert_eq!(system.len(), empty + here);
            check_bridges(&mut host, &system);
            check_bars(&host, &system);
            let mut vectors: Vec<u16> = system.functions().filter(|f| f.found.vectors > 0).map(|f| f.found.vector_base).collect();
            vectors.sort_unstable();
prop_assert!(vectors.windows(2).all(|v| v[0] + 2 <= v[1]) && vectors.iter().all(|v| v % 2 == 0));
        }
    }
}

/// A host with random register values. One of `rarity` functions exists; on the first bus, every second function
/// exists.
struct Anything {
    state: u64,
    rarity: u32,
    requests: u64,
}

impl Anything {
    /// Next value of a pseudo-random sequence (xorshift, Marsaglia 2003).
    fn next(&mut self) -> u32 {
        for shift in [13, -7, 17] {
            self.state ^= if shift > 0 { self.state << shift } else { self.state >> -shift };
        }
        (self.state >> 16) as u32
    }

    /// Mostly values that cause further reads: few bridges, lists of known capabilities.
    fn value(&mut self, function: Bdf, register_dw: u16) -> Option<u32> {
        let any = self.next();
        let odds = if function.bus() == 0 { 2 } else { self.rarity };
        Some(match register_dw {
            0 if !any.is_multiple_of(odds) => return None,
            0 => 0x1234_5678,
            1 => any | 1 << 20,
            3 => any & 0x80_0000 | u32::from(any & 3 == 0) << 16,
            13 => 0x40,
            16..64 => [0x10, 0x05, 0x11, 0x01][any as usize >> 8 & 3] | any & 0x0062_f000,
            64.. if register_dw.is_multiple_of(16) => {
                let next = [0, 0, 0x140, 0x180][any as usize >> 12 & 3] << 20;
                next | [1, 0x0d, 0x0e, 0x10, 3, 0x0b, 0x19, 0x1e][any as usize >> 8 & 7]
            }
            // TotalVFs, First VF Offset and VF Stride, where the capability is SR-IOV.
            64.. if register_dw % 16 == 3 && any & 0xff > 0 => (any >> 8 & 7) << 16,
            64.. if register_dw % 16 == 5 && any & 0xff > 0 => 0x1_0001 + (any >> 8 & 0x2_0007),
            _ if any & 1 == 0 => self.next(),
            _ => any & 0xff,
        })
    }
}

impl Serve for Anything {
    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> Option<HostInput> {
        self.requests += 1;
        let absent = HostError::Completion(CompletionError::UnsupportedRequest);
        let (id, result) = match output {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables: 0xf } => {
                assert!(register_dw < 1024);
                let value = self.value(function, register_dw);
                (id, value.map(|v| Data::Carried(pool.copy(&v.to_le_bytes()))).ok_or(absent))
            }
            HostOutput::ConfigWrite { id, .. } => (id, Ok(Data::NONE)),
            HostOutput::MmioWrite { .. } => return None,
            other => panic!("enumeration does nothing like {other:?}"),
        };
        Some(HostInput::Done { id, result })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn enumeration_ends_with_random_registers(state in 1u64.., rarity in 8u32..200) {
        let mut host = Anything { state, rarity, requests: 0 };
        let vfs = VfPolicy::All;
        let map = HostMap { policy: Policy { vfs, ..Policy::default() }, ..HostMap::default() };
        let (result, _) = run(&mut host, |cpu| async move { enumerate_host(&cpu, &map).await });
        if let Err(error) = result {
            prop_assert!(error.contains("function ") || error.contains("path "), "{}", error);
        }
    }
}
