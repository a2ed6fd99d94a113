// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of BARs and windows. The kind of a BAR is its bits 3:0: 8 prefetchable, 4 of 64 bits.

use super::*;

fn window(base: u64, size: u64) -> Window {
    Window { base, size }
}

#[test]
fn windows_cover_exactly_the_ranges_below() {
    let a = Node::endpoint().bar(0, 0, 0x1000).bar(1, 0, 0x20_0000).bar(2, 0xc, 1 << 30).rom(0x1_0000);
    let b = Node::endpoint().io_bar(0, 0x20).bar(1, 8, 0x1000);
    let mut host = Host::new([one_switch([a, b]), Node::root_port()]);
    let system = found(&mut host, &HostMap::default());
    let bars = |f: &str| system.get(bdf(f)).unwrap().found.bars.map(|b| b.map(|b| b.address));
    // The larger BAR first, each at a multiple of its size.
    let a = [Some(0x8021_0000), Some(0x8000_0000), Some(0x40_0000_0000), None, None, None];
    assert_eq!(bars("03:00.0"), a);
    assert_eq!(system.get(bdf("03:00.0")).unwrap().rom.unwrap().address, 0x8020_0000);
    assert_eq!(bars("04:00.0")[1], Some(0x8030_0000));
    let io = system.get(bdf("04:00.0")).unwrap().found.io_bars[0].unwrap();
    assert_eq!((io.address, io.size), (0x1000, 0x20));

    // I/O, memory, prefetchable.
    let none = Window::default();
    let rows = [
        ("00:01.0", [window(0x1000, 0x1000), window(0x8000_0000, 4 << 20), window(0x40_0000_0000, 1 << 30)]),
        ("01:00.0", [window(0x1000, 0x1000), window(0x8000_0000, 4 << 20), window(0x40_0000_0000, 1 << 30)]),
        ("02:00.0", [none, window(0x8000_0000, 3 << 20), window(0x40_0000_0000, 1 << 30)]),
        ("02:01.0", [window(0x1000, 0x1000), window(0x8030_0000, 1 << 20), none]),
        ("00:02.0", [none, none, none]),
    ];
    for (bridge, [io, memory, prefetchable]) in rows {
        let b = system.get(bdf(bridge)).unwrap().bridge.unwrap();
        assert_eq!([b.io, b.memory, b.prefetchable], [io, memory, prefetchable], "{bridge}");
        let node = host.node(bdf(bridge));
        let last = |w: Window| (w.size > 0).then(|| (w.base, w.base + w.size - 1));
        let seen = [node.window(true, false), node.window(false, false), node.window(false, true)];
        assert_eq!(seen, [last(io), last(memory), last(prefetchable)], "registers of {bridge}");
    }
}

#[test]
fn places_bars_below_4_gib_without_64_bit_windows() {
    let device = || Node::endpoint().bar(0, 4, 0x10_0000).bar(2, 0xc, 0x10_0000).bar(4, 8, 0x10_0000);
    let narrow = {
        let mut port = Node::root_port();
        port.set(9, 0, 0xfff0_fff0);
        port
    };
    let bars = |host: &mut Host, map: &HostMap| {
        let system = found(host, map);
        let bars = system.get(bdf("01:00.0")).unwrap().found.bars;
        [0, 2, 4].map(|i| bars[i].unwrap().address >= 1 << 32)
    };
    let host = |port: Node| Host::new([port.with(0, device())]);
    assert_eq!(bars(&mut host(Node::root_port()), &HostMap::default()), [true, true, false]);
    assert_eq!(bars(&mut host(narrow), &HostMap::default()), [false, false, false]);
    let none = HostMap { mmio64: Window::default(), ..HostMap::default() };
    assert_eq!(bars(&mut host(Node::root_port()), &none), [false, false, false]);
    let strict =
        HostMap { policy: Policy { all_64_bit_above: false, ..Policy::default() }, ..HostMap::default() };
    assert_eq!(bars(&mut host(Node::root_port()), &strict), [false, true, false]);
}

#[test]
fn fixed_bars_determine_windows() {
    let device = Node::endpoint().bar(0, 0, 0x1000).bar(1, 0, 0x1000);
    let mut host =
        Host::new([one_switch([device.clone(), device.clone()]), Node::root_port().with(0, device)]);
    let at = |path_text: &str, bar, address| FixedPlace { path: path(path_text), bar, address };
    let inner = "01.0/00.0/01.0/00.0";
    let fixed = vec![at(inner, 1, 0x9000_3000)];
    let system = found(&mut host, &HostMap { fixed, ..HostMap::default() });
    let bars = |f: &str| system.get(bdf(f)).unwrap().found.bars.map(|b| b.map(|b| b.address));
    assert_eq!(bars("04:00.0")[..2], [Some(0x9000_0000), Some(0x9000_3000)], "the other is next to it");
    // The device beside it follows inside the root port's window; functions elsewhere have the usual addresses.
    assert_eq!(bars("03:00.0")[..2], [Some(0x9010_0000), Some(0x9010_1000)]);
    assert_eq!(bars("05:00.0")[..2], [Some(0x8000_0000), Some(0x8000_1000)]);
    let b = system.get(bdf("00:01.0")).unwrap().bridge.unwrap();
    assert_eq!(b.memory, window(0x9000_0000, 2 << 20));

    // At the end of the host's addresses the rest is placed before it.
    let mut host = Host::new([one_switch([Node::endpoint().bar(0, 0, 0x10_0000).bar(1, 0, 0x10_0000)])]);
    let fixed = vec![at("01.0/00.0/00.0/00.0", 1, 0xf7f0_0000)];
    let system = found(&mut host, &HostMap { fixed, ..HostMap::default() });
    let bars = system.get(bdf("03:00.0")).unwrap().found.bars;
    assert_eq!(bars[0].unwrap().address, 0xf7e0_0000);
}

/// Rows: impossible places, and the error.
#[test]
fn reports_bars_that_fit_nowhere() {
    let at = |bar, address| FixedPlace { path: path("01.0/00.0"), bar, address };
    let small = || Node::endpoint().bar(0, 0, 0x1000).bar(1, 0, 0x4000);
    let rows: Vec<(Node, Vec<FixedPlace>, &str)> = vec![
        (
            small(),
            vec![at(1, 0x8000_1000)],
            "function 01:00.0, BAR 1 of 0x4000 bytes at 0x80001000: not a multiple of its size",
        ),
        (
            small(),
            vec![at(0, 0x8000_1000), at(1, 0x8000_0000)],
            "function 01:00.0, BAR 1 of 0x4000 bytes at 0x80000000: overlaps function 01:00.0, BAR 0 of 0x1000 bytes at 0x80001000",
        ),
        (
            small(),
            vec![at(1, 0x1_0000)],
            "function 00:01.0, memory window of 0x100000 bytes at 0x0 (the largest: function 01:00.0, BAR 1 of 0x4000 bytes): no room in 0x80000000 to 0xf7ffffff of the host",
        ),
        (
            small(),
            vec![at(4, 0x8000_0000)],
            "path 01.0/00.0, BAR 4: fixed address 0x80000000, but there is no such BAR",
        ),
        (
            small(),
            vec![FixedPlace { path: path("03.0"), bar: 0, address: 0x8000_0000 }],
            "path 03.0, BAR 0: fixed address 0x80000000, but there is no such function",
        ),
        (
            Node::endpoint().bar(0, 0, 1 << 31),
            vec![],
            "function 00:01.0, memory window of 0x80000000 bytes (the largest: function 01:00.0, BAR 0 of 0x80000000 bytes): no room in 0x80000000 to 0xf7ffffff of the host",
        ),
        (
            Node::endpoint().bar(0, 0xc, 1 << 62),
            vec![],
            "function 00:01.0, prefetchable memory window of 0x4000000000000000 bytes (the largest: function 01:00.0, BAR 0 of 0x4000000000000000 bytes): no room in 0x4000000000 to 0x7fffffffff of the host",
        ),
    ];
    for (device, fixed, message) in rows {
        let map = HostMap { fixed, ..HostMap::default() };
        let error = enumerate_on(&mut Host::new([Node::root_port().with(0, device)]), &map).0;
        assert_eq!(error.unwrap_err(), message);
    }
    let mut deaf = Node::root_port();
    deaf.set(7, 0, 0);
    let error =
        enumerate_on(&mut Host::new([deaf.with(0, Node::endpoint().io_bar(2, 8))]), &HostMap::default());
    let message = "function 01:00.0, BAR 2 of 0x8 bytes: bridge 00:01.0 above it forwards no I/O";
    assert_eq!(error.0.unwrap_err(), message);
    let no_io = HostMap { io: Window::default(), ..HostMap::default() };
    let mut host = Host::new([Node::root_port().with(0, Node::endpoint().io_bar(2, 8))]);
    let message = "function 00:01.0, I/O window of 0x1000 bytes (the largest: function 01:00.0, BAR 2 of 0x8 bytes): the host has no I/O addresses";
    assert_eq!(enumerate_on(&mut host, &no_io).0.unwrap_err(), message);
}

#[test]
fn bars_of_virtual_functions_are_contiguous() {
    let vf = Node::endpoint().msix(4, 0);
    let pf = Node::endpoint().bar(0, 0, 0x1000).ari(0).sriov(8, (4, 4), 2, 0x8000, &vf);
    let mut host = Host::new([Node::root_port().with(0, pf)]);
    let listed = VfPolicy::Listed([(path("01.0/00.0"), 3)].into());
    let map = HostMap { policy: Policy { vfs: listed, ..Policy::default() }, ..HostMap::default() };
    let system = found(&mut host, &map);
    let vfs: Vec<_> = system.vfs_of(bdf("01:00.0")).collect();
    let seen: Vec<_> = vfs.iter().map(|f| (f.bdf().to_string(), f.found.bars[0].unwrap())).collect();
    let bar = |n: u64| FoundBar { address: 0x40_0000_0000 + n * 0x8000, size: 0x8000 };
    let rows = [("01:00.4", bar(0)), ("01:00.6", bar(1)), ("01:01.0", bar(2))];
    assert_eq!(seen, rows.map(|(bdf, bar)| (bdf.to_string(), bar)));
    let sriov = system.get(bdf("01:00.0")).unwrap().sriov.unwrap();
    assert_eq!((sriov.total_vfs, sriov.num_vfs, sriov.first_offset, sriov.stride), (8, 3, 4, 2));
    // Room for all eight is reserved, rounded to the window's granularity.
    let window = system.get(bdf("00:01.0")).unwrap().bridge.unwrap().prefetchable;
    assert_eq!(window, Window { base: 0x40_0000_0000, size: 1 << 20 });
    assert_eq!(host.claimants(0x40_0000_ffff, false), ["01:00.0 VF 1 BAR 0"]);
    // Each function has its own vectors, which are written through its own BAR.
    let vectors: Vec<_> = vfs.iter().map(|f| (f.interrupt, f.found.vector_base, f.found.vectors)).collect();
    assert_eq!(vectors, [32, 36, 40].map(|base| (Interrupt::Msix, base, 4)));
    assert_eq!(host.writes[2].2, "01:00.0 VF 2 BAR 0");
    assert_eq!(host.node(bdf("01:01.0")).register(1) & 0x7, 0b100, "Bus Master Enable of a VF");

    let listed = VfPolicy::Listed([(path("01.0/00.0"), 9)].into());
    let map = HostMap { policy: Policy { vfs: listed, ..Policy::default() }, ..HostMap::default() };
    let error = enumerate_on(&mut host, &map).0.unwrap_err();
    assert_eq!(error, "function 01:00.0: 9 virtual functions, expected 0 to 8");
}

#[test]
fn hot_plug_slots_reserve_room() {
    let slot = Node::downstream().hot_plug();
    let mut host = Host::new([Node::root_port().with(0, Node::switch([slot.clone(), slot]))]);
    let system = found(&mut host, &HostMap::default());
    let kept = |bridge: &str| {
        let b = system.get(bdf(bridge)).unwrap().bridge.unwrap();
        (b.secondary, b.subordinate, b.memory, b.prefetchable)
    };
    let two = |base| window(base, 2 << 20);
    assert_eq!(kept("02:00.0"), (3, 4, two(0x8000_0000), two(0x40_0000_0000)));
    assert_eq!(kept("02:01.0"), (5, 6, two(0x8020_0000), two(0x40_0020_0000)));
    assert_eq!(kept("00:01.0").1, 6);

    // A device is inserted.
    let device = Node::endpoint().bar(0, 0, 0x1000).bar(2, 0xc, 0x2000).msi(2);
    host.node(bdf("02:01.0")).below.insert(0, device.clone());
    let (system, change) = rescanned(&mut host, system, "02:01.0").unwrap();
    assert_eq!((change.added, change.removed.len()), (vec![bdf("05:00.0")], 0));
    let f = &system.get(bdf("05:00.0")).unwrap().found;
    let bars = [f.bars[0].unwrap().address, f.bars[2].unwrap().address];
    assert_eq!((bars, f.vectors), ([0x8020_0000, 0x40_0020_0000], 4));
    assert_eq!(host.claimants(0x8020_0fff, false), ["05:00.0 BAR 0"]);

    // The device is unchanged and not written. Then another card, with a switch of its own, replaces it.
    let before = host.node(bdf("05:00.0")).register(1);
    let (system, change) = rescanned(&mut host, system, "02:01.0").unwrap();
    assert_eq!((change, host.node(bdf("05:00.0")).register(1)), (Rescan::default(), before));
    let small = Node::switch([]).with(0, Node::downstream());
    host.node(bdf("02:01.0")).below.insert(0, small);
    let error = rescanned(&mut host, system.clone(), "02:01.0").unwrap_err();
    assert!(
        error.starts_with("function 06:00.0") && error.ends_with("bus number 7, expected 0 to 6"),
        "{error}"
    );

    // The device is removed, and its vectors are free again.
    host.node(bdf("02:01.0")).below.clear();
    let (system, change) = rescanned(&mut host, system, "02:01.0").unwrap();
    assert_eq!((change.removed.len(), system.under(bdf("02:01.0")).count()), (1, 0));
    host.node(bdf("02:00.0")).below.insert(0, device);
    let (system, _) = rescanned(&mut host, system, "02:00.0").unwrap();
    assert_eq!(system.get(bdf("03:00.0")).unwrap().found.vector_base, 32);

    host.node(bdf("02:01.0")).below.insert(0, Node::endpoint().bar(0, 0, 4 << 20));
    let error = rescanned(&mut host, system.clone(), "02:01.0").unwrap_err();
    let message = "function 05:00.0, BAR 0 of 0x400000 bytes: no room in 0x80200000 to 0x803fffff of bridge 02:01.0 above it";
    assert_eq!(error, message);
    let error = rescanned(&mut host, system, "01:00.0").unwrap_err();
    assert_eq!(error, "function 01:00.0 is not a root or downstream port");
}

pub(super) fn rescanned(
    host: &mut Host,
    mut system: System,
    bridge: &str,
) -> Result<(System, Rescan), String> {
    let bridge = bdf(bridge);
    run(host, move |cpu| async move {
        let change = rescan(&cpu, &mut system, bridge).await?;
        Ok::<_, FirmwareError>((system, change))
    })
    .0
}
