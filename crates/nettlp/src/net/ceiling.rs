// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how many datagrams per second this machine moves between two threads over its loopback, without processing them.
//! NetTLP over the loopback cannot exceed this rate.

use super::SocketCounters;
use super::batch::{self, Buffers, MAX_DATAGRAM_BYTES, MAX_SEGMENTS, Segmentation};
use super::socket::{self, OpenError, std_duration};
use nix::sys::socket::MsgFlags;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use tlp::Duration;

/// Maximum sleep of the receiver before it checks whether the measurement has ended.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(20);

/// Datagrams received per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ceiling {
    /// Size of each datagram in bytes: NetTLP header and TLP.
    pub datagram_bytes: usize,
    /// Rate if each datagram is sent with one call, as with a port per tag, and datagrams are received in batches.
    pub single_per_s: f64,
    /// Rate if datagrams are sent and received in batches with segmentation offload, as in a session. Equal to
    /// `single_per_s` if the kernel has no segmentation offload.
    pub batched_per_s: f64,
}

/// Measures both ways of sending, `span` each, on an address of this machine. Blocks; uses two threads, both busy.
///
/// # Errors
/// If no socket can be opened there.
pub fn ceiling(address: IpAddr, datagram_bytes: usize, span: Duration) -> Result<Ceiling, OpenError> {
    let bytes = datagram_bytes.clamp(1, MAX_DATAGRAM_BYTES);
    let single_per_s = rate(address, bytes, 1, span)?;
    let run = MAX_SEGMENTS.min(batch::MAX_RUN_BYTES / bytes);
    let batched_per_s = rate(address, bytes, run, span)?;
    Ok(Ceiling { datagram_bytes: bytes, single_per_s, batched_per_s })
}

fn rate(address: IpAddr, bytes: usize, run: usize, span: Duration) -> Result<f64, OpenError> {
    let bind = || socket::bind(SocketAddr::new(address, 0), "measuring the loopback", false);
    let (sender, receiver) = (bind()?, bind()?);
    let to = receiver.local_addr().map_err(OpenError::io("finding the port"))?;
    socket::connect(&sender, to)?;
    receiver.set_read_timeout(Some(PATIENCE)).map_err(OpenError::io("setting a timeout"))?;
    let coalesced = run > 1 && batch::receive_coalesced(&receiver);
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let received = thread::scope(|scope| {
        let counting = scope.spawn(|| count(&receiver, coalesced, &over));
        send(&sender, &vec![0; bytes * run], bytes, std_duration(span));
        over.store(true, Ordering::Relaxed);
        counting.join().unwrap_or(0)
    });
    Ok(received as f64 / begun.elapsed().as_secs_f64())
}

fn send(socket: &UdpSocket, datagrams: &[u8], segment: usize, span: std::time::Duration) {
    let begun = Instant::now();
    let (mut segmentation, mut counters) = (Segmentation::new(true), SocketCounters::default());
    while begun.elapsed() < span {
        for _ in 0..16 {
            // Datagrams for which the kernel has no room are lost, which is allowed for datagrams.
            let _ = batch::send(socket, None, datagrams, segment, &mut segmentation, &mut counters);
        }
    }
}

fn count(socket: &UdpSocket, coalesced: bool, over: &AtomicBool) -> u64 {
    let (mut buffers, mut datagrams) = (Buffers::new(), 0);
    let is_ipv6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    while !over.load(Ordering::Relaxed) {
        let received = if coalesced {
            buffers.receive_one(socket, MsgFlags::empty()).map(|(one, bytes)| one.run(bytes).count)
        } else {
            buffers.receive_many(socket, is_ipv6, MsgFlags::MSG_WAITFORONE, |_, _| {})
        };
        datagrams += received.unwrap_or(0) as u64;
    }
    datagrams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_with_both_ways_of_sending() {
        let found = ceiling([127, 12, 0, 1].into(), 274, Duration::from_ms(20)).unwrap();
        assert_eq!(found.datagram_bytes, 274);
        assert!(found.single_per_s > 0.0 && found.batched_per_s > 0.0, "{found:?}");
    }
}
