// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server with an independent client over a socket: the crate `vfio_user`, which has its own codec.

use riser_guest::memory::GuestMemory;
use riser_guest::net::{Server, wait};
use riser_guest::vfio_user::{Event, HangUp, Irq, Region, Shape, region};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;
use vfio_user::Client;

/// Bytes that the device copies from the first map to the last when its doorbell is written.
const COPIED: usize = 5000;

/// A device that stores what is written, and copies by DMA when its doorbell is written. Ends with its client.
struct Device {
    server: Server,
    registers: Vec<u8>,
    memory: BTreeMap<u64, GuestMemory>,
    log: Vec<String>,
}

impl Device {
    fn start(path: PathBuf) -> JoinHandle<Vec<String>> {
        let mut shape = Shape::new();
        shape.regions[0] = Region::of(0x2000);
        shape.regions[region::CONFIG] = Region::of(4096);
        shape.irqs = [1, 0, 8, 1, 1];
        let server = Server::bind(&path, shape).unwrap();
        std::thread::spawn(move || {
            let registers = vec![0; 0x2000];
            Device { server, registers, memory: BTreeMap::new(), log: Vec::new() }.run()
        })
    }

    fn run(mut self) -> Vec<String> {
        loop {
            assert!(
                wait([&self.server], [], Some(Duration::from_secs(20))).unwrap().servers,
                "nothing in 20 s"
            );
            self.server.turn().unwrap();
            while let Some(event) = self.server.poll() {
                if let Event::HangUp(why) = event {
                    self.log.push(why.to_string());
                    return self.log;
                }
                self.event(event);
            }
            self.server.flush();
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Read { token, region, offset, len } => {
                let bytes = match region {
                    0 => self.registers[offset as usize..][..len].to_vec(),
                    _ => (0..len).map(|n| (offset as usize + n) as u8).collect(),
                };
                self.server.complete(token, Ok(&bytes));
            }
            Event::Write { token, offset, data, .. } => {
                self.registers[offset as usize..][..data.len()].copy_from_slice(&data);
                if offset == 0 {
                    self.copy();
                }
                self.server.complete(token, Ok(&[]));
            }
            Event::Map { token, map, fd, fd_offset } => {
                let memory = GuestMemory::new(fd.unwrap(), fd_offset, map.size, map.access).unwrap();
                self.memory.insert(map.address, memory);
                self.server.complete(token, Ok(&[]));
            }
            Event::Unmap { token, maps } => {
                maps.iter().for_each(|map| drop(self.memory.remove(&map.address)));
                self.log.push(format!("{} maps left", self.memory.len()));
                self.server.complete(token, Ok(&[]));
            }
            Event::Reset { token } => {
                self.registers.fill(0);
                self.server.complete(token, Ok(&[]));
            }
            Event::Joined => {}
            other => self.log.push(format!("{other:?}")),
        }
    }

    fn copy(&self) {
        let mut bytes = vec![0; COPIED];
        let (from, to) = (self.memory.first_key_value().unwrap().1, self.memory.last_key_value().unwrap().1);
        assert!(from.read(1, &mut bytes) && to.write(3, &bytes));
    }
}

#[test]
fn serves_an_independent_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.sock");
    let device = Device::start(path.clone());
    let mut client = Client::new(&path).unwrap();

    let sizes: Vec<(u32, u64)> =
        (0..9).map(|n| client.region(n).map(|r| (r.flags, r.size)).unwrap()).collect();
    let none = (0, 0);
    assert_eq!(sizes, [(3, 0x2000), none, none, none, none, none, none, (3, 4096), none]);
    let irqs: Vec<(u32, u32)> =
        (0..5).map(|n| client.get_irq_info(n).map(|i| (i.flags, i.count)).unwrap()).collect();
    assert_eq!(irqs, [(7, 1), (3, 0), (3, 8), (1, 1), (1, 1)]);

    let mut config = [0; 4096];
    client.region_read(7, 0, &mut config).unwrap();
    assert!(config.iter().enumerate().all(|(n, byte)| *byte == n as u8));
    client.region_write(0, 0x1ffc, &[1, 2, 3, 4]).unwrap();
    let mut back = [0; 3];
    client.region_read(0, 0x1ffd, &mut back).unwrap();
    assert_eq!(back, [2, 3, 4]);

    let file = memfd_create("memory", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 0x8000).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    let data: Vec<u8> = (0..COPIED).map(|n| (n % 251) as u8).collect();
    rustix::io::pwrite(&file, &data, 0x2001).unwrap();
    client.dma_map(0x2000, 0x10_0000, 0x2000, file.as_raw_fd()).unwrap();
    client.dma_map(0x6000, 0x20_0000, 0x2000, file.as_raw_fd()).unwrap();
    client.region_write(0, 0, &[1]).unwrap();
    let mut copied = vec![0; COPIED];
    rustix::io::pread(&file, &mut copied, 0x6003).unwrap();
    assert!(copied == data);
    client.dma_unmap(0x10_0000, 0x2000).unwrap();

    let events: Vec<_> = (0..8).map(|_| eventfd(0, EventfdFlags::empty()).unwrap()).collect();
    let fds: Vec<_> = events.iter().map(AsRawFd::as_raw_fd).collect();
    client.set_irqs(Irq::Msix as u32, 0x24, 0, 8, &fds).unwrap();
    client.set_irqs(Irq::Msix as u32, 0x21, 0, 0, &[]).unwrap();
    client.reset().unwrap();
    client.region_read(0, 0x1ffd, &mut back).unwrap();
    assert_eq!(back, [0; 3]);
    client.shutdown().unwrap();
    assert_eq!(
        device.join().unwrap(),
        [
            "1 maps left",
            "Irqs(IrqEvent { irq: Msix, first: 0, count: 8, change: Assigned })",
            "Irqs(IrqEvent { irq: Msix, first: 0, count: 8, change: Unassigned })",
            &HangUp::Closed.to_string(),
        ]
    );
    assert!(!path.exists());
}
