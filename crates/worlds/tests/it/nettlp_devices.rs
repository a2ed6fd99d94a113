// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser's devices as device software of a lab's host, over sockets on the loopback: 127.15.x.y.

use capture::encap::PortScheme;
use devices::ethernet::{Peer, Station};
use devices::simple_nic::Counters;
use devices::{dma_engine, memory, simple_nic};
use lab::{LabFile, parse};
use nettlp::adapter::{Adapter, AdapterSettings};
use nettlp::allow::{AllowList, Rule};
use nettlp::carrier::Wait;
use nettlp::client::control::Messaging;
use nettlp::device_host::{DeviceHost, DeviceHostError, DeviceLocation};
use nettlp::net::{
    AdapterOptions, AdapterSockets, AnyCarrier, Clock, ConnectOptions, TaggedOptions, connect, serve,
};
use riser_worlds::adapter::{BridgeCounters, LabBackend, Timing};
use riser_worlds::models;
use session::Session;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use tlp::{Bdf, Duration, PayloadPool, Time};

fn ip(x: u8, y: u8) -> IpAddr {
    Ipv4Addr::new(127, 15, x, y).into()
}

/// Results of the host's side.
struct Ended {
    failure: Option<String>,
    counters: BridgeCounters,
    round_trips: usize,
}

/// A lab behind an adapter, on a thread. It ends when the host's program has ended, when its pings are answered, or after half
/// a minute.
struct Served(JoinHandle<Ended>);

impl Served {
    fn start(address: IpAddr, peer: IpAddr, keys: &str, timing: Timing, pings: usize) -> Served {
        let slot = "[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\n[slot.nettlp-adapter]\n";
        Served::lab(address, peer, format!("version = 1\n{slot}{keys}"), timing, pings)
    }

    fn lab(address: IpAddr, peer: IpAddr, text: String, timing: Timing, pings: usize) -> Served {
        let (ready, up): (_, Receiver<()>) = channel();
        let thread = std::thread::spawn(move || {
            let lab = parse(&models(), Path::new("test.toml"), &text).unwrap();
            let backend =
                LabBackend::new(Session::new(&LabFile { lab, base: "".into() }).unwrap(), timing).unwrap();
            let mut sockets = AdapterSockets::bind(&AdapterOptions::new(address)).unwrap();
            let allow = AllowList::new([format!("{peer},all,rw").parse::<Rule>().unwrap()]).unwrap();
            let scheme = PortScheme::Tagged;
            let settings = AdapterSettings { allow, id: Bdf::default(), device: Some(peer), scheme };
            let mut adapter = Adapter::new(settings, backend);
            ready.send(()).unwrap();
            let go_on = |adapter: &mut Adapter<LabBackend>, _: &AdapterSockets, now: Time| {
                let lab = adapter.backend();
                let done = lab.host_outcome().is_some()
                    || pings > 0 && lab.slot().station().round_trips.len() >= pings;
                !done && lab.failure().is_none() && now < Time::ZERO + Duration::from_ms(30_000)
            };
            serve(&mut sockets, &mut adapter, Clock::new(), false, go_on).unwrap();
            let lab = adapter.backend();
            let outcome = lab.host_outcome().and_then(|o| o.as_ref().err()).map(ToString::to_string);
            Ended {
                failure: lab.failure().map(str::to_owned).or(outcome),
                counters: lab.slot().counters(),
                round_trips: lab.slot().station().round_trips.len(),
            }
        });
        up.recv().unwrap();
        Served(thread)
    }

    fn end(self) -> Ended {
        self.0.join().unwrap()
    }
}

fn place(remote: IpAddr, local: IpAddr) -> DeviceLocation {
    Messaging::open(remote, Some(local)).unwrap().place(0).unwrap()
}

fn carrier(remote: IpAddr, local: IpAddr, session: bool) -> AnyCarrier {
    let tagged = TaggedOptions { local: Some(local), host: true, ..TaggedOptions::new(remote, 0..=15) };
    let options = ConnectOptions::new(tagged);
    let carrier =
        connect(&ConnectOptions { session: options.session.filter(|_| session), ..options }).unwrap();
    assert_eq!(matches!(carrier, AnyCarrier::Session(_)), session);
    carrier
}

/// Runs a device until the lab has ended.
fn run(mut host: DeviceHost<AnyCarrier>, served: Served) -> Ended {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let waiter = std::thread::spawn(move || {
        let ended = served.end();
        stopped.store(true, Ordering::Relaxed);
        ended
    });
    let clock = Clock::new();
    while !stop.load(Ordering::Relaxed) {
        let most = Duration::from_ms(20);
        let wait = host.poll_timeout().map_or(most, |at| at.since(clock.now()).min(most));
        // The adapter may have ended before the loop notices.
        let _ = host.receive(Wait::AtMost(wait));
        let _ = host.advance(clock.now());
    }
    waiter.join().unwrap()
}

#[test]
fn memory_answers_the_hosts_driver() {
    for (n, (session, timing)) in
        [(false, Timing::On), (true, Timing::On), (true, Timing::Off)].into_iter().enumerate()
    {
        let (there, here) = (ip(1, 2 * n as u8 + 1), ip(1, 2 * n as u8 + 2));
        let served = Served::start(there, here, "driver = \"mmio\"\n", timing, 0);
        let settings = memory::Settings { bar: 0.into(), size_bytes: 1 << 16, ..memory::Settings::default() };
        let function = memory::function(settings, config::PcieLayout::default()).unwrap();
        let carrier = carrier(there, here, session);
        let settings = nettlp::device_host::HostedSettings::new(0);
        let host =
            DeviceHost::new(carrier, function, &place(there, here), settings, &PayloadPool::new()).unwrap();
        let ended = run(host, served);
        assert_eq!(ended.failure, None, "session: {session}, {timing:?}");
        assert!(ended.counters.host_writes >= 16 && ended.counters.host_reads >= 1, "{:?}", ended.counters);
    }
}

#[test]
fn the_simple_nic_carries_pings_of_the_hosts_station() {
    for (n, session) in [false, true].into_iter().enumerate() {
        let (there, here) = (ip(2, 2 * n as u8 + 1), ip(2, 2 * n as u8 + 2));
        let keys = "driver = \"station\"\npings = 5\nping_bytes = 1000\nping_interval_ms = 5\n";
        let served = Served::start(there, here, keys, Timing::On, 5);
        let station = Station { mac: [2, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };
        let peer = Peer { station, latency: Duration::from_us(10) };
        let (pool, counters) = (PayloadPool::new(), plug::Shared::<Counters>::default());
        let function =
            simple_nic::function(4.into(), config::PcieLayout::default(), &pool, peer, &counters).unwrap();
        let carrier = carrier(there, here, session);
        let settings = nettlp::device_host::HostedSettings::new(4);
        let host = DeviceHost::new(carrier, function, &place(there, here), settings, &pool).unwrap();
        let vectors = host.vectors().clone();
        let ended = run(host, served);
        assert_eq!((ended.failure, ended.round_trips), (None, 5), "session: {session}");
        // ARP and five echo requests in each direction, and an interrupt for each.
        assert!(counters.get().rx_frames >= 6 && counters.get().tx_frames >= 6);
        assert!(vectors.counts().0 >= 12 && vectors.counts().1 == 0);
    }
}

/// A host whose program drives a DMA engine with two virtual functions behind its adapter.
fn engine_lab(bar_bytes: u32) -> String {
    format!(
        "version = 1\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\ndriver = \"dma-engine\"\n\
         [slot.nettlp-adapter]\nvfs = 2\nbar_bytes = {bar_bytes}\n\
         [slot.dma-engine]\nvfs = 2\ntransfers = 8\nsize_bytes = 1024\n"
    )
}

/// A DMA engine with two virtual functions, as device software of the adapter at `there`.
fn engine(
    (there, here): (IpAddr, IpAddr),
    session: bool,
    report: &plug::Shared<dma_engine::EngineReport>,
) -> Result<DeviceHost<AnyCarrier>, DeviceHostError> {
    let pool = PayloadPool::new();
    let engine = dma_engine::Settings { vfs: 2, ..dma_engine::Settings::default() };
    let functions =
        dma_engine::functions(&engine, config::PcieLayout::default(), 32, &pool, report, None, None).unwrap();
    let settings = nettlp::device_host::HostedSettings::new(0);
    let carrier = carrier(there, here, session);
    let mut messaging = Messaging::open(there, Some(here)).unwrap();
    let places: Vec<DeviceLocation> = (1..=2).map(|n| messaging.place(n).unwrap()).collect();
    let host = DeviceHost::new(carrier, functions.physical, &place(there, here), settings, &pool)?;
    host.with_virtual_functions(functions.virtual_functions.unwrap(), &places)
}

/// Each function moves its data with its own IDs, BAR and interrupts: the host's driver waits for all of them.
#[test]
fn virtual_functions_move_data_for_the_hosts_driver() {
    let addresses = (ip(3, 1), ip(3, 2));
    let served = Served::lab(addresses.0, addresses.1, engine_lab(65536), Timing::On, 0);
    let report = plug::Shared::default();
    let host = engine(addresses, true, &report).unwrap();
    let ended = run(host, served);
    assert_eq!(ended.failure, None);
    let moved: Vec<u64> = report.get().functions.iter().map(dma_engine::FunctionReport::bytes).collect();
    assert_eq!(moved.len(), 3);
    assert!(moved.iter().all(|bytes| *bytes >= 8 * 1024), "{moved:?}");
    assert!(ended.counters.peer_reads > 0 && ended.counters.failed == 0, "{:?}", ended.counters);
}

#[test]
fn virtual_functions_need_a_session_and_the_adapters_bar_size() {
    for (n, (session, bar_bytes)) in [(false, 65536), (true, 131_072)].into_iter().enumerate() {
        let addresses = (ip(4, 2 * n as u8 + 1), ip(4, 2 * n as u8 + 2));
        let _served = Served::lab(addresses.0, addresses.1, engine_lab(bar_bytes), Timing::On, 0);
        let error = engine(addresses, session, &plug::Shared::default()).map(drop).unwrap_err();
        let expected = match error {
            DeviceHostError::Ports => !session,
            DeviceHostError::Virtual { number: 2, size: 65536, .. } => session,
            _ => false,
        };
        assert!(expected, "{error}");
    }
}
