// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A UDP proxy that loses, duplicates and delays datagrams in both directions, on its own thread. Never changes
//! their bytes.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum delay of a datagram.
pub(crate) const HELD_BACK: Duration = Duration::from_millis(2);

/// Addresses and ports of a proxy.
pub(crate) struct Between {
    /// Address that clients send to.
    pub(crate) front: IpAddr,
    /// Address from which the proxy sends to the adapter.
    pub(crate) back: IpAddr,
    /// Address of the adapter.
    pub(crate) adapter: IpAddr,
    /// Ports on both sides.
    pub(crate) ports: Vec<u16>,
    /// True if the proxy sends to the adapter from the port of the adapter, as upstream's clients do.
    pub(crate) same_port: bool,
}

/// Counters of a proxy.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Done {
    pub(crate) forwarded: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) held_back: u64,
}

pub(crate) struct Proxy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Done>>,
}

impl Proxy {
    pub(crate) fn start(between: &Between, seed: u64) -> Proxy {
        let pairs = between.ports.iter().map(|port| Pair::open(between, *port)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let run = Run {
            pairs,
            waiting: BinaryHeap::new(),
            pool: Vec::new(),
            count: 0,
            dice: seed,
            done: Done::default(),
        };
        let stopped = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || run.run(&stopped)));
        Proxy { stop, thread }
    }

    /// Stops the proxy and returns its counters.
    pub(crate) fn stop(mut self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Pair {
    front: UdpSocket,
    back: UdpSocket,
    client: Option<SocketAddr>,
}

impl Pair {
    fn open(between: &Between, port: u16) -> Pair {
        let front = UdpSocket::bind((between.front, port)).unwrap();
        let back = UdpSocket::bind((between.back, if between.same_port { port } else { 0 })).unwrap();
        back.connect((between.adapter, port)).unwrap();
        front.set_nonblocking(true).unwrap();
        back.set_nonblocking(true).unwrap();
        Pair { front, back, client: None }
    }
}

/// A delayed datagram: time of delivery, order, socket (pair * 2, plus 1 toward the adapter), and the bytes.
type HeldBack = (Instant, u64, usize, Vec<u8>);

struct Run {
    pairs: Vec<Pair>,
    waiting: BinaryHeap<Reverse<HeldBack>>,
    pool: Vec<Vec<u8>>,
    count: u64,
    dice: u64,
    done: Done,
}

impl Run {
    fn run(mut self, stop: &AtomicBool) -> Done {
        let poll = Epoll::new(EpollCreateFlags::empty()).unwrap();
        for (n, pair) in self.pairs.iter().enumerate() {
            for (side, socket) in [&pair.front, &pair.back].into_iter().enumerate() {
                poll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, (n * 2 + side) as u64)).unwrap();
            }
        }
        let mut events = [EpollEvent::empty(); 64];
        let mut bytes = [0; 8192];
        while !stop.load(Ordering::Relaxed) {
            let timeout = if self.waiting.is_empty() { 20u8 } else { 1 };
            let ready = poll.wait(&mut events, EpollTimeout::from(timeout)).unwrap_or(0);
            for event in &events[..ready] {
                self.receive(event.data() as usize, &mut bytes);
            }
            self.release(Instant::now());
        }
        self.done
    }

    fn receive(&mut self, socket: usize, bytes: &mut [u8]) {
        let (pair, is_back) = (&mut self.pairs[socket / 2], socket % 2 == 1);
        for _ in 0..64 {
            let received = if is_back {
                pair.back.recv(bytes)
            } else {
                pair.front.recv_from(bytes).map(|(len, from)| {
                    pair.client = Some(from);
                    len
                })
            };
            // The error of an earlier datagram (no program listens yet) does not concern this one.
            let Ok(len) = received else { return };
            Run::judge(&mut self.dice, &mut self.done, |delay| match delay {
                None => forward(pair, !is_back, &bytes[..len]),
                Some(delay) => {
                    let mut kept = self.pool.pop().unwrap_or_default();
                    kept.clear();
                    kept.extend_from_slice(&bytes[..len]);
                    self.count += 1;
                    // The datagram leaves through the socket of the other side.
                    self.waiting.push(Reverse((Instant::now() + delay, self.count, socket ^ 1, kept)));
                }
            });
        }
    }

    // Loses 1 % and duplicates 1 %. Delays 5 % of the forwarded datagrams.
    fn judge(dice: &mut u64, done: &mut Done, mut send: impl FnMut(Option<Duration>)) {
        let copies = match roll(dice, 100) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        done.lost += u64::from(copies == 0);
        done.doubled += u64::from(copies == 2);
        for _ in 0..copies {
            let held_back = roll(dice, 100) < 5;
            let delay = Duration::from_micros(roll(dice, HELD_BACK.as_micros() as u64));
            done.held_back += u64::from(held_back);
            done.forwarded += 1;
            send(held_back.then_some(delay));
        }
    }

    fn release(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, to, bytes))) = self.waiting.pop() else { return };
            forward(&self.pairs[to / 2], to % 2 == 1, &bytes);
            self.pool.push(bytes);
        }
    }
}

// A datagram that the kernel rejects is lost, like other datagrams of this proxy.
fn forward(pair: &Pair, to_back: bool, bytes: &[u8]) {
    let _ = match (to_back, pair.client) {
        (true, _) => pair.back.send(bytes),
        (false, Some(client)) => pair.front.send_to(bytes, client),
        (false, None) => Ok(0),
    };
}

fn roll(dice: &mut u64, sides: u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    (*dice >> 16) % sides
}
