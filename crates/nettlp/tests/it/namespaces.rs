// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adapter and upstream's clients in two network namespaces, connected by a veth pair. For the kernel they are two
//! hosts. Needs root
//! and `ip` (package iproute2); skips with a message if either is missing.

use crate::common::upstream::{Config, Failed, Nettlp, message};
use nix::sched::{CloneFlags, setns};
use riser_nettlp::completer::{CompleterMemory, Image};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use testkit::served::{ID, Served};

const ADAPTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 10, 1));
const DEVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 10, 3));

fn ip(arguments: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(arguments.split_whitespace()).output().map_err(|e| format!("ip: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {}", said.trim())) }
}

/// Two namespaces, which are deleted when the value is dropped.
struct Namespaces([String; 2]);

impl Namespaces {
    fn new() -> Result<Namespaces, String> {
        let name = |side| format!("riser-{side}-{}", std::process::id());
        let spaces = Namespaces([name("a"), name("d")]);
        let [a, d] = &spaces.0;
        for (space, address) in [(a, ADAPTER), (d, DEVICE)] {
            ip(&format!("netns add {space}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            if space == d {
                ip(&format!("-n {a} link add eth0 type veth peer name eth0 netns {d}"))?;
                ip(&format!("-n {a} address add {ADAPTER}/24 dev eth0"))?;
                ip(&format!("-n {a} link set eth0 up"))?;
                ip(&format!("-n {d} address add {address}/24 dev eth0"))?;
                ip(&format!("-n {d} link set eth0 up"))?;
            }
        }
        Ok(spaces)
    }

    /// Runs `does` on a new thread in the namespace of the adapter (0) or of the device (1). Sockets stay in the
    /// namespace in which they were opened.
    fn within<T: Send>(&self, side: usize, does: impl FnOnce() -> T + Send) -> T {
        let space = File::open(format!("/run/netns/{}", self.0[side])).unwrap();
        let run = move || {
            setns(space, CloneFlags::CLONE_NEWNET).unwrap();
            does()
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for space in &self.0 {
            // The command fails if the namespace was never created.
            let _ = ip(&format!("netns delete {space}"));
        }
    }
}

fn byte(address: usize) -> u8 {
    (address % 251) as u8
}

fn load(tag: u8) {
    let nettlp = Nettlp::init(DEVICE, ADAPTER, tag, false);
    for n in 0..500_usize {
        let (address, len) = (n * 241 % 60_000, 1 + n % 1024);
        let mut out = vec![0; len];
        // One TLP must not cross a 4 KiB boundary.
        let len = len.min(4096 - address % 4096);
        assert_eq!(nettlp.dma_read(address as u64, &mut out[..len]), Ok(len));
        assert!(out[..len].iter().enumerate().all(|(i, b)| *b == byte(address + i)), "{len} at {address:#x}");
    }
}

fn clients(image: &Arc<Image>) {
    assert_eq!(message(DEVICE, ADAPTER, 2).unwrap(), ID.bits().to_le_bytes());
    assert_eq!(message(DEVICE, ADAPTER, 1).unwrap(), 0xf000_0000_u64.to_le_bytes());
    for port in [0x4001, 0x5001] {
        assert_eq!(Config::init(DEVICE, ADAPTER, port).read(0), 0x8022_3776);
    }
    std::thread::scope(|scope| {
        let here = File::open("/proc/thread-self/ns/net").unwrap();
        for tag in [0, 0x2f] {
            let here = here.try_clone().unwrap();
            scope.spawn(move || {
                setns(here, CloneFlags::CLONE_NEWNET).unwrap();
                load(tag);
            });
        }
    });
    let nettlp = Nettlp::init(DEVICE, ADAPTER, 5, true);
    nettlp.dma_write(0xf001, b"over the wire");
    assert_eq!(nettlp.dma_read(0xfff0, &mut [0; 4]), Ok(4));
    let mut written = [0; 13];
    Arc::clone(image).read(0xf001, &mut written);
    assert_eq!(&written, b"over the wire");
    // 4 KiB of data in one completion travel in IP fragments.
    let mut page = vec![0; 4096];
    assert_eq!(nettlp.dma_read(0x1000, &mut page), Ok(4096));
    assert_eq!(page, (0x1000..0x2000).map(byte).collect::<Vec<_>>());
    assert_eq!(nettlp.dma_read(0x1_0000, &mut [0; 4]), Err(Failed::NoData(1)));
}

#[test]
fn clients_in_another_namespace_are_served() {
    let spaces = match Namespaces::new() {
        Ok(spaces) => spaces,
        Err(why) => return eprintln!("skipped: network namespaces cannot be made here: {why}"),
    };
    let rule = format!("{DEVICE},all,rw");
    let served =
        spaces.within(0, || Served::start(ADAPTER, Image::zeroes(1 << 16).unwrap(), &[&rule], 4096, true));
    let data: Vec<u8> = (0..1 << 16).map(byte).collect();
    Arc::clone(&served.image).write(0, &data).unwrap();
    let image = Arc::clone(&served.image);
    spaces.within(1, move || clients(&image));
    let counted = served.stop().peers[&DEVICE];
    assert_eq!((counted.reads, counted.writes, counted.messaging, counted.malformed), (1003, 1, 2, 0));
}
