// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two adapters in one lab, each with its own device software on the loopback: 127.15.9.y (NSDI'20, Figure 12a).

use capture::encap::PortScheme;
use lab::{LabFile, parse};
use nettlp::adapter::{Adapter, AdapterSettings};
use nettlp::allow::{AllowList, Rule};
use nettlp::client::Client;
use nettlp::completer::Image;
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use nettlp::psmem::{self, Psmem, Window};
use nettlp::requester::{RequesterSettings as ClientSettings, Rest};
use nettlp::tools::{Scheme, Target};
use riser_worlds::adapter::{
    AdapterPlace, AdapterSlot, BridgeCounters, LabBackend, Timing, Uplink, serve_all,
};
use riser_worlds::models;
use session::Session;
use session::external::{Clock as LabClock, Driver};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tlp::{Bdf, Mps};

const DEVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 15, 9, 2));
const ADAPTERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 15, 9, 1)), IpAddr::V4(Ipv4Addr::new(127, 15, 9, 3))];

/// Serves both adapters of the lab until `stop` is set. Returns the counters of each.
fn serve_both(text: &str, stop: &AtomicBool) -> [BridgeCounters; 2] {
    let lab = parse(&models(), Path::new("test.toml"), text).unwrap();
    let session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
    let mut driver = Driver::new(session, LabClock::Wall);
    let slots: Vec<String> = driver.handles::<AdapterSlot>().map(str::to_owned).collect();
    assert_eq!(slots, ["slot first", "slot second"]);
    let uplink = |(slot, address): (&String, IpAddr)| {
        let allow = AllowList::new([format!("{DEVICE},all,rw").parse::<Rule>().unwrap()]).unwrap();
        let settings =
            AdapterSettings { allow, id: Bdf::default(), device: Some(DEVICE), scheme: PortScheme::Tagged };
        let sockets = AdapterSockets::bind(&AdapterOptions::new(address)).unwrap();
        Uplink::new(sockets, settings, AdapterPlace::named(&driver, slot).unwrap())
    };
    let mut uplinks: Vec<Uplink> = slots.iter().zip(ADAPTERS).map(uplink).collect();
    serve_all(&mut driver, &mut uplinks, Clock::new(), false, |lab, _| {
        lab.failure().is_none() && !stop.load(Ordering::Relaxed)
    })
    .unwrap();
    assert_eq!(driver.failure(), None);
    [0, 1].map(|n| driver.handle_named::<AdapterSlot>(&slots[n]).unwrap().place.counters())
}

fn target(remote: IpAddr) -> Target {
    Target { remote, local: Some(DEVICE), scheme: Scheme::Tagged, key: None }
}

/// Device software of the first adapter reads 512 B that device software of the second adapter holds. Returns the counters of both
/// adapters.
fn read_across(text: &str) -> [BridgeCounters; 2] {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let served = scope.spawn(|| serve_both(text, &stop));
        while !ADAPTERS.iter().all(|&adapter| target(adapter).is_present()) {
            assert!(!served.is_finished());
        }
        let base = target(ADAPTERS[1]).messaging().unwrap().bar4_start().unwrap();
        let image = Arc::new(Image::zeroes(4096).unwrap());
        let bytes: Vec<u8> = (0..=255).cycle().take(512).collect();
        let mut window = Window { base, image };
        nettlp::completer::CompleterMemory::write(&mut window, base + 0x80, &bytes).unwrap();
        let mut psmem = Psmem::new(Bdf::default(), Mps::new(256).unwrap(), window);
        let mut carrier = target(ADAPTERS[1]).open(0..=0, true).unwrap();
        let stop = &stop;
        let memory = scope.spawn(move || {
            psmem::serve(&mut carrier, &mut psmem, false, |_| !stop.load(Ordering::Relaxed)).unwrap();
        });
        let carrier = target(ADAPTERS[0]).open(16..=31, false).unwrap();
        let settings = ClientSettings::for_carrier(&carrier, Bdf::from_bits(0x1a00), Rest::LOOPBACK);
        let mut found = vec![0; 512];
        Client::new(carrier, settings).read(base + 0x80, &mut found).unwrap();
        assert_eq!(found, bytes);
        stop.store(true, Ordering::Relaxed);
        memory.join().unwrap();
        served.join().unwrap()
    })
}

const SLOTS: &str = "[[slot]]\nname = \"first\"\ndevice = \"nettlp-adapter\"\nPARENT\n\
                     [[slot]]\nname = \"second\"\ndevice = \"nettlp-adapter\"\nPARENT\n";

/// A switch forwards the read unchanged. A root complex splits it into reads of a cache line, if the lab says so.
#[test]
fn both_are_served_and_reads_cross_between_them() {
    let switch = "[[switch]]\nname = \"s\"\ndownstream_ports = 2\n";
    for (host, below, reads) in [
        ("", format!("{switch}{}", SLOTS.replace("PARENT", "parent = \"s\"")), 1),
        ("[host]\npeer_to_peer = \"split\"\n", SLOTS.replace("PARENT", ""), 8),
    ] {
        let [first, second] = read_across(&format!("version = 1\n{host}[link]\nmrrs_bytes = 512\n{below}"));
        assert_eq!((first.peer_reads, first.host_reads), (1, 0), "{below}");
        assert_eq!((second.peer_reads, second.host_reads, second.host_timeouts), (0, reads, 0), "{below}");
    }
}

/// The host writes and reads a BAR. The register with the peer's address sends these requests to the peer that has written it, not to
/// the peer of the settings, which does not serve them.
#[test]
fn peer_register_chooses_the_device_software() {
    let ip = |last| IpAddr::V4(Ipv4Addr::new(127, 15, 9, last));
    let (adapter, device) = (ip(11), ip(12));
    let text = "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"nettlp-adapter\"\n[slot.nettlp-adapter]\n\
                driver = \"mmio\"\nexercise_bytes = 512\npeer_by_register = true\n";
    let stop = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let served = scope.spawn(|| {
            let lab = parse(&models(), Path::new("test.toml"), text).unwrap();
            let session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
            let rules = [device, ip(14)].map(|peer| format!("{peer},all,rw").parse::<Rule>().unwrap());
            let allow = AllowList::new(rules).unwrap();
            let settings = AdapterSettings {
                allow,
                id: Bdf::default(),
                device: Some(ip(14)),
                scheme: PortScheme::Tagged,
            };
            let lab = LabBackend::new(session, Timing::On).unwrap();
            let mut sockets = AdapterSockets::bind(&AdapterOptions::new(adapter)).unwrap();
            let mut adapter = Adapter::new(settings, lab);
            serve(&mut sockets, &mut adapter, Clock::new(), false, |adapter, _, _| {
                adapter.backend().host_outcome().is_none() && adapter.backend().failure().is_none()
            })
            .unwrap();
            stop.store(true, Ordering::Relaxed);
            (adapter.backend().host_outcome().cloned(), adapter.backend().slot().counters())
        });
        let target = Target { remote: adapter, local: Some(device), scheme: Scheme::Tagged, key: None };
        while !target.is_present() {
            assert!(!served.is_finished());
        }
        let registers = UdpSocket::bind((device, 0x5002)).unwrap();
        let [a, b, c, d] = Ipv4Addr::new(127, 15, 9, 12).octets();
        registers.send_to(&[0x11, 0x05, a, b, c, d], (adapter, 0x5002)).unwrap();
        let mut carrier = target.open(0..=0, true).unwrap();
        // The driver starts 200 ms after this message.
        let base = target.messaging().unwrap().bar4_start().unwrap();
        let image = Arc::new(Image::zeroes(4096).unwrap());
        let mut psmem = Psmem::new(Bdf::default(), Mps::new(256).unwrap(), Window { base, image });
        psmem::serve(&mut carrier, &mut psmem, false, |_| !stop.load(Ordering::Relaxed)).unwrap();
        served.join().unwrap()
    });
    let (outcome, counters) = served;
    assert!(matches!(outcome, Some(Ok(()))), "{outcome:?}");
    assert_eq!((counters.host_reads, counters.nobody), (1, 0));
}
