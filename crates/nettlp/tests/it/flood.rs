// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An unknown sender floods an adapter while it serves a peer, over the loopback: 127.13.40.x. This is the only
//! test of its process, so only the adapter and the clients use memory of the process.

use crate::common::upstream::Nettlp;
use riser_nettlp::completer::Image;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use testkit::served::Served;

const ADAPTER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 13, 40, 1));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 13, 40, 2));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 13, 40, 66));

/// Reads of the peer, one at a time.
const READS: u64 = 2000;
/// Maximum growth of the process in bytes. It is less than the size of one percent of the datagrams of the flood.
const GROWTH_MAX: u64 = 4 << 20;

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Sends writes and garbage to the ports of TLPs, messaging, configuration and sessions, until `stop` is set.
fn flood(stop: &AtomicBool, sent: &AtomicU64) {
    let socket = UdpSocket::bind(SocketAddr::new(STRANGER, 0)).unwrap();
    let mut write = [0; 6 + 12 + 256];
    write[6..18].copy_from_slice(&[0x40, 0, 0, 64, 0x1a, 0, 0, 0xff, 0, 0, 0, 0]);
    let kinds: [(u16, &[u8]); 5] = [
        (0x3007, &write),
        (0x3007, &[0xff; 18]),
        (0x2fff, &[1, 0, 0, 0]),
        (0x5001, &[0x4c, 1, 0, 0, 0, 0]),
        (0x2ffd, &write),
    ];
    for (port, bytes) in kinds.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // A full send buffer only slows a flood.
        sent.fetch_add(u64::from(socket.send_to(bytes, (ADAPTER, *port)).is_ok()), Ordering::Relaxed);
    }
}

#[test]
fn flood_from_a_stranger_costs_no_memory_and_stops_no_peer() {
    let served =
        Served::start(ADAPTER, Image::zeroes(1 << 20).unwrap(), &[&format!("{PEER},all,r")], 256, true);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let nettlp = Nettlp::init(PEER, ADAPTER, 7, false);
    let mut out = [0xee; 256];
    assert_eq!(nettlp.dma_read(0, &mut out), Ok(256));
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&stop, &sent));
        while sent.load(Ordering::Relaxed) < 1000 {
            std::hint::spin_loop();
        }
        let before = resident_bytes();
        for n in 0..READS {
            // Uses a flooded port: each read waits at most 500 ms, and is not retried.
            let read = nettlp.dma_read(n * 256, &mut out);
            if read != Ok(256) {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(
                read,
                Ok(256),
                "read {n}, after {} datagrams of the flood",
                sent.load(Ordering::Relaxed)
            );
        }
        let grown = resident_bytes().saturating_sub(before);
        stop.store(true, Ordering::Relaxed);
        assert!(grown < GROWTH_MAX, "{grown} bytes more, after {} datagrams", sent.load(Ordering::Relaxed));
    });
    let counted = served.stop();
    assert_eq!(counted.peers.keys().copied().collect::<Vec<_>>(), [PEER]);
    assert_eq!((counted.peers[&PEER].reads, counted.peers[&PEER].malformed), (READS + 1, 0));
    assert!(out.iter().all(|byte| *byte == 0), "the stranger's writes had no effect");
    let (sent, strangers) = (sent.load(Ordering::Relaxed), counted.strangers.datagrams);
    let dropped = counted.sockets.kernel_drops;
    println!("{sent} datagrams of a stranger: {strangers} dropped by the adapter, {dropped} by the kernel");
    assert!(strangers <= sent && sent > 1000);
}
