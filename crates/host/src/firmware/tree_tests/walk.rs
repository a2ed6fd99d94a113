// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions found by enumeration, and their bus numbers.

use super::*;

const MEMORY: u32 = 0;

fn small() -> Node {
    Node::endpoint().bar(0, MEMORY, 0x1000)
}

/// Two root ports: one above an endpoint, one above a switch with an endpoint, an empty port, and another switch.
fn mixed() -> Host {
    let inner = Node::switch([Node::downstream().with(0, small())]);
    let ports = [Node::downstream().with(0, small()), Node::downstream(), Node::downstream().with(0, inner)];
    Host::new([Node::root_port().with(0, small()), Node::root_port().with(0, Node::switch(ports))])
}

#[test]
fn enumeration_is_depth_first() {
    let mut host = mixed();
    let system = found(&mut host, &HostMap::default());
    let tree = "\
-[0000:00]-+-01.0-[01]----00.0
           \\-02.0-[02-08]----00.0-[03-08]--+-00.0-[04]----00.0
                                           +-01.0-[05]--
                                           \\-02.0-[06-08]----00.0-[07-08]----00.0-[08]----00.0
";
    assert_eq!(system.tree(), tree);
    // Primary, Secondary and Subordinate Bus Number of each bridge, from its registers.
    let rows = [
        ("00:01.0", [0, 1, 1]),
        ("00:02.0", [0, 2, 8]),
        ("02:00.0", [2, 3, 8]),
        ("03:00.0", [3, 4, 4]),
        ("03:01.0", [3, 5, 5]),
        ("03:02.0", [3, 6, 8]),
        ("06:00.0", [6, 7, 8]),
        ("07:00.0", [7, 8, 8]),
    ];
    for (bridge, buses) in rows {
        assert_eq!(host.node(bdf(bridge)).buses(), buses, "{bridge}");
    }
    let last = system.at_path(&path("02.0/00.0/02.0/00.0/00.0/00.0")).unwrap();
    assert_eq!((last.bdf(), last.parent, last.found.port), (bdf("08:00.0"), Some(bdf("07:00.0")), 1));
    let first = [0, 1, 2].map(|port| system.first_device(port).map(|f| f.bdf().to_string()));
    assert_eq!(first, [Some("01:00.0".to_owned()), Some("04:00.0".to_owned()), None]);
    let below: Vec<_> = system.under(bdf("03:02.0")).map(|f| f.bdf().to_string()).collect();
    assert_eq!(below, ["06:00.0", "07:00.0", "08:00.0"]);
}

#[test]
fn path_round_trips_through_text() {
    for text in ["01.0", "1f.7/00.0", "02.0/00.0/0a.1"] {
        assert_eq!(path(text).to_string(), text);
    }
    for text in ["", "20.0", "01.8", "1", "01.0/", "+1.0"] {
        let error = format!(
            "path \"{text}\", expected devices and functions in hexadecimal, 00.0 to 1f.7, joined by /"
        );
        assert_eq!(text.parse::<Path>().unwrap_err().to_string(), error);
    }
}

#[test]
fn scans_only_possible_functions() {
    // Below a link only device 0 exists, and functions 1 to 7 only if Header Type has the bit. Inside a switch
    // any device may exist.
    let slot = Node::root_port()
        .with(0, small().multi_function())
        .with(3, small())
        .with(7, small())
        .with(1 << 3, small());
    let single = Node::root_port().with(0, small()).with(1, small());
    let wide = Node::root_port().with(0, Node::bridge(mock::UPSTREAM).with(31 << 3, Node::downstream()));
    let system = found(&mut Host::new([slot, single, wide]), &HostMap::default());
    let all =
        ["00:01.0", "00:02.0", "00:03.0", "01:00.0", "01:00.3", "01:00.7", "02:00.0", "03:00.0", "04:1f.0"];
    assert_eq!(ids(&system), all);
}

#[test]
fn follows_ari_list_if_port_above_forwards_ari() {
    let last = small().ari(0);
    let device = |port: Node| {
        port.with(0, small().ari(5).multi_function()).with(5, small().ari(0xc8)).with(0xc8, last.clone())
    };
    let without = device(Node::bridge(mock::ROOT_PORT).pcie_register(9, 1 << 16));
    let mut host = Host::new([device(Node::root_port()), without]);
    let system = found(&mut host, &HostMap::default());
    assert_eq!(ids(&system), ["00:01.0", "00:02.0", "01:00.0", "01:00.5", "01:19.0", "02:00.0", "02:00.5"]);
    // ARI Forwarding Enable is bit 5 of Device Control 2.
    let enabled = ["00:01.0", "00:02.0"].map(|b| host.node(bdf(b)).register(mock::PCIE + 10) >> 5 & 1);
    assert_eq!(enabled, [1, 0]);

    let off = HostMap { policy: Policy { ari: false, ..Policy::default() }, ..HostMap::default() };
    let system = found(&mut Host::new([device(Node::root_port())]), &off);
    assert_eq!(ids(&system), ["00:01.0", "01:00.0", "01:00.5"]);
}

#[test]
fn slow_functions_are_waited_for() {
    let mut host = mixed();
    host.functions.get_mut(&8).unwrap().below.get_mut(&0).unwrap().retries = 3;
    // Like a root port with CRS Software Visibility.
    let (system, took) = enumerate_on(&mut host, &HostMap::default());
    assert_eq!((system.unwrap().len(), took), (11, Time::ZERO + RETRY_PAUSE * 3));
    let enabled = host.node(bdf("00:01.0")).register(mock::PCIE + 7) >> 4 & 1;
    assert_eq!(enabled, 1, "CRS Software Visibility Enable");

    let mut never = Host::new([Node::root_port().with(0, small().id(0xffff_0001))]);
    let error = enumerate_on(&mut never, &HostMap::default()).0.unwrap_err();
    assert_eq!(error, "function 01:00.0 is not ready after 100 tries");
}

/// A chain of `levels` switches with one port each.
fn chain(levels: usize) -> Node {
    let mut node = small();
    for _ in 0..levels {
        node = Node::switch([Node::downstream().with(0, node)]);
    }
    Node::root_port().with(0, node)
}

#[test]
fn finds_deep_and_wide_trees() {
    let system = found(&mut Host::new([chain(8)]), &HostMap::default());
    let last = system.functions().last().unwrap();
    assert_eq!((system.len(), last.bdf(), last.path.0.len()), (18, bdf("11:00.0"), 18));

    let system = found(&mut Host::new([one_switch((0..32).map(|_| small()))]), &HostMap::default());
    assert_eq!((system.len(), system.functions().last().unwrap().bdf()), (66, bdf("22:00.0")));
}

/// A large tree: 200 functions (9 switches with 64 + 72 ports, 64 endpoints); also checks the number of requests.
#[test]
fn two_hundred_functions_are_found() {
    let leaf = || Node::switch((0..8).map(|_| Node::downstream().with(0, small().msi(0))));
    let top = Node::switch((0..8).map(|_| Node::downstream().with(0, leaf())));
    let more = Node::switch((0..26).map(|_| Node::downstream().with(0, small())));
    let mut host = Host::new([Node::root_port().with(0, top), Node::root_port().with(0, more)]);
    let system = found(&mut host, &HostMap::default());
    assert_eq!((system.len(), host.requests), (200, 7422));
}

#[test]
fn rejects_tree_beyond_bus_numbers() {
    let error = enumerate_on(&mut Host::new([chain(200)]), &HostMap::default()).0.unwrap_err();
    let end = "function ff:00.0 (256 levels deep) needs bus number 256, expected 0 to 255: its chain of bridges is a loop";
    assert_eq!(error, end);

    let map = HostMap { last_bus: 4, ..HostMap::default() };
    let wide = Host::new([one_switch((0..3).map(|_| small()))]);
    let error = enumerate_on(&mut wide.clone(), &map).0.unwrap_err();
    assert_eq!(error, "function 02:02.0 (path 01.0/00.0/02.0) needs bus number 5, expected 0 to 4");
    let map = HostMap { last_bus: 5, ..HostMap::default() };
    assert_eq!(found(&mut wide.clone(), &map).len(), 8);
}

/// Endless lists, and headers of unknown types.
#[test]
fn reports_broken_functions() {
    let mut head_loop = small();
    head_loop.set(mock::PCIE, head_loop.register(mock::PCIE) | 0x40 << 8, 0);
    let mut low = small().extended(0x0b, &[(0, 0), (0, 0)]);
    low.set(0x40, 0x40 << 20 | 1 << 16 | 0x0b, 0);
    let mut extended_loop = small().extended(0x0b, &[(0, 0), (0, 0)]);
    extended_loop.set(0x40, 0x100 << 20 | 1 << 16 | 0x0b, 0);
    let mut strange = small();
    strange.set(3, 2 << 16, 0);
    let backward = small().multi_function().ari(5);
    let rows = [
        (head_loop, "function 01:00.0: its list of capabilities is a loop"),
        (low, "function 01:00.0: an extended capability at 0x40, expected 0x100 to 0xffc"),
        (extended_loop, "function 01:00.0: its list of extended capabilities is a loop"),
        (strange, "function 01:00.0 has a header of type 2, expected 0 and 1"),
        (backward.clone(), "function 01:00.0: 01:00.5, the next function in its ARI list, is absent"),
    ];
    for (node, message) in rows {
        let error = enumerate_on(&mut Host::new([Node::root_port().with(0, node)]), &HostMap::default());
        assert_eq!(error.0.unwrap_err(), message);
    }
    let port = Node::root_port().with(0, backward).with(5, small().ari(3));
    let error = enumerate_on(&mut Host::new([port]), &HostMap::default()).0.unwrap_err();
    assert_eq!(error, "function 01:00.5: its ARI function list goes back to 01:00.3");
}

#[test]
fn virtual_functions_get_bus_numbers_for_their_range() {
    // 256 VFs from 01:01.0, up to 02:00.7.
    let vf = Node::endpoint();
    let pf = small().ari(0).sriov(256, (8, 8), 1, 0x4000, &vf);
    let ports = [Node::root_port().with(0, pf), Node::root_port().with(0, small())];
    let all = VfPolicy::All;
    let map = HostMap { policy: Policy { vfs: all, ..Policy::default() }, ..HostMap::default() };
    let mut host = Host::new(ports.clone());
    let (system, took) = enumerate_on(&mut host, &map);
    let system = system.unwrap();
    assert_eq!(took, Time::ZERO + tlp::Duration::from_ms(100), "no access to VFs for 100 ms");
    assert_eq!(host.node(bdf("00:01.0")).buses(), [0, 1, 2]);
    assert_eq!(host.node(bdf("00:02.0")).buses(), [0, 3, 3]);
    let vfs: Vec<_> = system.vfs_of(bdf("01:00.0")).map(|f| f.bdf().to_string()).collect();
    assert_eq!((vfs.len(), &*vfs[0], &*vfs[255]), (256, "01:01.0", "02:00.7"));
    let last = system.get(bdf("02:00.7")).unwrap();
    assert_eq!((last.found.vendor, last.found.device, last.vf_of), (0x1234, 0x5678, Some(bdf("01:00.0"))));

    let few = HostMap { last_bus: 1, ..HostMap::default() };
    let error = enumerate_on(&mut Host::new(ports), &few).0.unwrap_err();
    assert_eq!(error, "function 01:00.0 (path 01.0/00.0) needs bus number 2, expected 0 to 1");
}
