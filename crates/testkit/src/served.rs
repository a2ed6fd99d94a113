// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NetTLP adapter that serves memory over sockets, in its own thread. Never outlives its test.

use nettlp::adapter::{
    Adapter, AdapterSettings, Function, MemoryBackend, PeerCounters, Registers, Strangers,
};
use nettlp::allow::{AllowList, Rule};
use nettlp::completer::{CompleterCounters, Image};
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, Network, SocketCounters, serve};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tlp::{Bdf, Mps};

/// Counters of an adapter.
pub struct Counted {
    /// Counters by peer.
    pub peers: BTreeMap<IpAddr, PeerCounters>,
    /// Datagrams that no rule allows.
    pub strangers: Strangers,
    /// Requests and their completions.
    pub completer: CompleterCounters,
    /// Datagrams and system calls.
    pub sockets: SocketCounters,
}

/// A running adapter.
pub struct Served {
    /// The memory that the adapter serves.
    pub image: Arc<Image>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counted>>,
}

/// Requester ID of the adapter.
pub const ID: Bdf = Bdf::from_bits(0x1b00);

impl Served {
    /// Starts serving `image` at `address` under these rules. With `filter`, the kernel drops datagrams of unknown peers.
    pub fn start(address: IpAddr, image: Image, rules: &[&str], mps: u32, filter: bool) -> Served {
        let allow = AllowList::new(rules.iter().map(|r| r.parse::<Rule>().unwrap())).unwrap();
        let peers = if filter { allow.addresses().map(Network::from).collect() } else { Vec::new() };
        let options = AdapterOptions { peers, ..AdapterOptions::new(address) };
        let mut sockets = AdapterSockets::bind(&options).unwrap();
        let image = Arc::new(image);
        let function = Arc::new(Function::new(Registers::new(ID)).unwrap());
        let (shared, stop) = (Arc::clone(&image), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let backend = MemoryBackend::new(shared, function, Mps::new(mps).unwrap());
            let scheme = capture::encap::PortScheme::Tagged;
            let mut adapter = Adapter::new(AdapterSettings { allow, id: ID, device: None, scheme }, backend);
            let go_on =
                |_: &mut Adapter<MemoryBackend>, _: &AdapterSockets, _| !stopped.load(Ordering::Relaxed);
            serve(&mut sockets, &mut adapter, Clock::new(), false, go_on).unwrap();
            Counted {
                peers: adapter.peers().map(|(address, counters)| (address, *counters)).collect(),
                strangers: adapter.strangers(),
                completer: adapter.backend().completer_counters(),
                sockets: sockets.counters(),
            }
        });
        Served { image, stop, thread: Some(thread) }
    }

    /// Stops the adapter and returns its counters.
    pub fn stop(mut self) -> Counted {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
