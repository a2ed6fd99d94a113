// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of functions, for different policies.

use super::*;
use tlp::{Mps, Mrrs, Rcb};

const PCIE: u16 = mock::PCIE;

fn map(policy: Policy) -> HostMap {
    HostMap { policy, ..HostMap::default() }
}

/// Max_Payload_Size of a function, from its Device Control.
fn mps(host: &mut Host, function: &str) -> u32 {
    128 << (host.node(bdf(function)).register(PCIE + 2) >> 5 & 0b111)
}

#[test]
fn payload_size_is_the_smallest_on_the_path() {
    // Bridges of the mock support 512 B, its endpoints 256 B.
    let wide = || Node::endpoint().pcie_register(1, 2);
    let host = || Host::new([one_switch([Node::endpoint(), wide()]), Node::root_port().with(0, wide())]);
    let all = ["00:01.0", "01:00.0", "02:00.0", "02:01.0", "03:00.0", "04:00.0", "00:02.0", "05:00.0"];
    let rows = [
        (MpsPolicy::Path, [256, 256, 256, 256, 256, 256, 512, 512]),
        (MpsPolicy::Peer, [256; 8]),
        (MpsPolicy::Fixed(Mps::default()), [128; 8]),
    ];
    for (policy, sizes) in rows {
        let mut host = host();
        let system = found(&mut host, &map(Policy { mps: policy, ..Policy::default() }));
        assert_eq!(all.map(|f| mps(&mut host, f)), sizes, "{policy:?}");
        assert_eq!(all.map(|f| system.get(bdf(f)).unwrap().mps.bytes()), sizes, "{policy:?}");
    }
    let most = Policy { mps: MpsPolicy::Fixed(Mps::new(512).unwrap()), ..Policy::default() };
    let error = enumerate_on(&mut host(), &map(most)).0.unwrap_err();
    assert_eq!(error, "function 03:00.0: Max_Payload_Size of 512 B: it supports 256 B");
}

#[test]
fn rescan_lowers_mps_of_root_port_for_added_card() {
    let slot = Node::downstream().hot_plug();
    let mut host = Host::new([
        Node::root_port().with(0, Node::switch([slot, Node::downstream().with(0, Node::endpoint())])),
        Node::root_port().hot_plug(),
    ]);
    let system = found(&mut host, &HostMap::default());
    assert_eq!(["00:01.0", "02:00.0", "05:00.0", "00:02.0"].map(|f| mps(&mut host, f)), [128, 128, 128, 512]);
    let device = Node::endpoint().pcie_register(1, 0);
    host.functions.get_mut(&0x10).unwrap().below.insert(0, device);
    let rescanned = run(&mut host, move |cpu| async move {
        let mut system = system;
        rescan(&cpu, &mut system, bdf("00:02.0")).await
    });
    assert_eq!(rescanned.0.unwrap().added, [bdf("06:00.0")]);
    assert_eq!(["00:02.0", "06:00.0"].map(|f| mps(&mut host, f)), [128, 128]);
}

/// Settings are Device Control and Device Control 2 of an endpoint, Link Control's RCB, Command and Bridge Control.
#[test]
fn each_setting_follows_the_policy() {
    let off = Policy {
        mrrs: Mrrs::new(4096).unwrap(),
        rcb: Some(Rcb::new(64).unwrap()),
        extended_tags: false,
        ten_bit_tags: false,
        relaxed_ordering: false,
        no_snoop: false,
        error_reporting: false,
        ..Policy::default()
    };
    // Bits of Device Control: 14:12 are 2 (MRRS 512 B), 11 No Snoop, 8 Extended Tag, 7:5 are 1 (MPS 256 B), 4 Relaxed
    // Ordering, 3:0 error reporting.
    let rows = [
        (Policy::default(), [0x293f, 1 << 12, 1 << 3, 0x106, 1 << 17, 0b111]),
        (off, [0x5020, 0, 0, 0x006, 0, 0]),
    ];
    for (policy, expected) in rows {
        let root = Node::root_port().extended(0x01, &[(0, !0); 14]);
        let mut host = Host::new([root.with(0, Node::endpoint().bar(0, 0, 0x1000))]);
        found(&mut host, &map(policy));
        let f = host.node(bdf("01:00.0"));
        let endpoint =
            [f.register(PCIE + 2), f.register(PCIE + 10), f.register(PCIE + 4), f.register(1) & 0xffff];
        let root = host.node(bdf("00:01.0"));
        let root = [root.register(15) & 0xffff_0000, root.register(0x40 + 11)];
        assert_eq!([&endpoint[..], &root[..]].concat(), expected);
    }
}

#[test]
fn ten_bit_tags_need_every_port_on_the_path() {
    let narrow = Node::downstream().pcie_register(9, 0).with(0, Node::endpoint());
    let wide = Node::downstream().with(0, Node::endpoint());
    let mut host = Host::new([Node::root_port().with(0, Node::switch([narrow, wide]))]);
    found(&mut host, &HostMap::default());
    let enabled = ["03:00.0", "04:00.0"].map(|f| host.node(bdf(f)).register(PCIE + 10) >> 12 & 1);
    assert_eq!(enabled, [0, 1]);
}

#[test]
fn access_control_is_set_only_on_request() {
    // A port with all services except P2P Completion Redirect.
    let port = || Node::downstream().extended(0x0d, &[(0, 0), (0b1_0111, 0x7f_0000)]);
    for (acs, control) in [(AcsPolicy::Off, 0), (AcsPolicy::Redirect, 0b1_0101)] {
        let mut host = Host::new([Node::root_port().with(0, Node::switch([port()]))]);
        found(&mut host, &map(Policy { acs, ..Policy::default() }));
        assert_eq!(host.node(bdf("02:00.0")).register(0x41) >> 16, control, "{acs:?}");
    }
}

#[test]
fn firmware_prefers_msix_then_msi_then_intx() {
    let all = || Node::endpoint().bar(0, 0, 0x4000).msi(1).msix(3, 0).pin(2);
    let rows = [
        ((true, true), Interrupt::Msix, (32, 3)),
        ((false, true), Interrupt::Msi, (32, 2)),
        // Pin 2 below device 1: the third line of the four.
        ((false, false), Interrupt::Intx { pin: 2, line: 18 }, (18, 0)),
    ];
    for ((msix, msi), interrupt, vectors) in rows {
        let mut host = Host::new([Node::root_port().with(0, all())]);
        let system = found(&mut host, &map(Policy { msix, msi, ..Policy::default() }));
        let f = system.get(bdf("01:00.0")).unwrap();
        assert_eq!((f.interrupt, (f.found.vector_base, f.found.vectors)), (interrupt, vectors));
    }
    let mut host = Host::new([Node::root_port().with(0, all())]);
    found(&mut host, &HostMap::default());
    // Address, data and a clear mask bit for vectors 32 to 34; one write for the whole table.
    let entry = |vector: u8| [0, 0, 0xe0, 0xfe, 0, 0, 0, 0, vector, 0, 0, 0, 0, 0, 0, 0];
    let table = [entry(32), entry(33), entry(34)].concat();
    assert_eq!(host.writes, [(0x8000_1000, table, "01:00.0 BAR 0".to_owned())]);
    // After PCI Express (15 DWs) and MSI (4): enabled, not masked.
    assert_eq!(host.node(bdf("01:00.0")).register(PCIE + 19) >> 30, 0b10);

    let rows = [
        (Node::endpoint().msix(2, 3), "function 01:00.0 [1234:abcd] has no memory BAR 3"),
        (
            Node::endpoint().bar(0, 0, 0x2000).msix(257, 0),
            "function 01:00.0 [1234:abcd], BAR 0: offset 0x200f is beyond its 0x2000 bytes",
        ),
    ];
    for (device, message) in rows {
        let mut host = Host::new([Node::root_port().with(0, device)]);
        let error = enumerate_on(&mut host, &HostMap::default()).0.unwrap_err();
        assert_eq!(error, format!("its MSI-X table: {message}"));
    }
    let scarce = HostMap { vectors: (32, 33), ..HostMap::default() };
    let error = enumerate_on(&mut Host::new([Node::root_port().with(0, all())]), &scarce).0.unwrap_err();
    assert_eq!(error, "function 01:00.0: no interrupt vectors are left");
}

/// INTA to INTD of device n of a switch are rotated by n, and again by the root port's number (`PCIe 5.0 §2.2.8.1`).
#[test]
fn interrupt_lines_rotate_at_every_bridge() {
    let device = |pin| Node::endpoint().pin(pin);
    let ports = [device(1), device(1), device(4)];
    let mut host = Host::new([one_switch(ports.clone()), one_switch(ports)]);
    let system = found(&mut host, &HostMap::default());
    let lines = system.functions().filter_map(|f| match f.interrupt {
        Interrupt::Intx { line, .. } => Some((f.bdf().to_string(), line)),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    // Root port 1 rotates by 1: A ends at 17, 18; D of port 2 at 16 + (3 + 2 + 1) mod 4.
    let rows = [
        ("03:00.0", 17),
        ("04:00.0", 18),
        ("05:00.0", 18),
        ("08:00.0", 18),
        ("09:00.0", 19),
        ("0a:00.0", 19),
    ];
    assert_eq!(lines, rows.map(|(f, l)| (f.to_owned(), l)));
    assert_eq!(host.node(bdf("04:00.0")).register(15) & 0xff, 18, "Interrupt Line");
}

/// `lspci -t` of the dump equals the output of `tree`.
#[test]
fn lspci_reads_the_dump_and_draws_the_same_tree() {
    let vf = Node::endpoint();
    let pf = Node::endpoint().ari(0).sriov(4, (8, 8), 1, 0x8000, &vf);
    let far = Node::endpoint().ari(0).sriov(4, (0xfe, 0xfe), 1, 0x8000, &vf);
    let ports = [
        one_switch([Node::endpoint().multi_function().with(0, Node::default()), Node::endpoint()]),
        Node::root_port(),
        Node::root_port().with(0, pf),
        Node::root_port().with(0, far),
        Node::root_port().with(0, Node::endpoint().multi_function()).with(3, Node::endpoint()),
    ];
    let mut host = Host::new(ports);
    host.functions.insert(0, Node::endpoint());
    let map = map(Policy { vfs: VfPolicy::All, ..Policy::default() });
    let (text, tree) = run(&mut host, |cpu| async move {
        let system = enumerate_host(&cpu, &map).await?;
        Ok::<_, FirmwareError>((system.hexdump(&cpu).await?, system.tree()))
    })
    .0
    .unwrap();
    assert!(text.starts_with("00:00.0 Function: Device 1234:abcd\n00: 34 12 cd ab 06 01 10 00"), "{text}");
    let file = std::env::temp_dir().join(format!("riser-tree-{}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let drawn = std::process::Command::new("lspci").arg("-F").arg(&file).arg("-t").output();
    std::fs::remove_file(&file).unwrap();
    match drawn {
        Ok(drawn) => assert_eq!(String::from_utf8_lossy(&drawn.stdout), tree),
        Err(error) => eprintln!("not compared: lspci (package pciutils) does not run: {error}"),
    }
}
