// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A vfio-user client whose memory has no descriptor. The client answers DMA messages, but not while its own access is
//! in progress (like QEMU).

use crate::served::connect;
use devices::dma_engine::DESCRIPTOR_BYTES;
use devices::dma_engine::registers::{self, engine};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const RAM: u64 = 4 << 20;
pub(crate) const BASE: u64 = 0x4000_0000;
/// The registers of engines.
pub(crate) const H2D: u64 = registers::ENGINE;
pub(crate) const D2H: u64 = H2D + registers::ENGINE_STRIDE;
pub(crate) const COMMAND: u64 = 4;
/// Region of a VMD with configuration space of its domain.
pub(crate) const ECAM: u32 = 0;
pub(crate) const CONFIG: u32 = 7;

pub(crate) struct Client {
    socket: UnixStream,
    pub(crate) ram: Vec<u8>,
    /// The client refuses reads at this address and above.
    pub(crate) broken_from: u64,
    /// DMA that arrived during an access, and the numbers of reads and writes.
    late: Vec<(u16, u16, Vec<u8>)>,
    pub(crate) counts: [u32; 2],
}

fn message(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [16 + payload.len() as u32, flags, 0].map(u32::to_ne_bytes).concat();
    [&id.to_ne_bytes()[..], &command.to_ne_bytes(), &words, payload].concat()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Client {
    pub(crate) fn join(path: &Path) -> Client {
        let socket = connect(path);
        let mut client =
            Client { socket, ram: vec![0; RAM as usize], broken_from: RAM, late: Vec::new(), counts: [0; 2] };
        client.ask(1, &[0; 4]);
        let map =
            [&[32u32, 3].map(u32::to_ne_bytes).concat()[..], &[0, BASE, RAM].map(u64::to_ne_bytes).concat()];
        client.ask(2, &map.concat());
        client
    }

    pub(crate) fn next(&mut self) -> (u16, u16, u32, Vec<u8>) {
        let mut header = [0; 16];
        self.socket.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let mut payload = vec![0; word(4) as usize - 16];
        self.socket.read_exact(&mut payload).unwrap();
        (word(0) as u16, (word(0) >> 16) as u16, word(8), payload)
    }

    /// Waits for the reply. Other messages wait too.
    fn ask(&mut self, command: u16, payload: &[u8]) -> Vec<u8> {
        self.socket.write_all(&message(9, command, 0, payload)).unwrap();
        let reply = loop {
            let (id, command, flags, payload) = self.next();
            if flags & 0xf == 1 {
                assert_eq!(flags, 1, "an error");
                break payload;
            }
            self.late.push((id, command, payload));
        };
        for (id, command, payload) in std::mem::take(&mut self.late) {
            self.serve(id, command, &payload);
        }
        reply
    }

    pub(crate) fn serve(&mut self, id: u16, command: u16, payload: &[u8]) {
        let (address, count) = ((u64_at(payload, 0) - BASE) as usize, u64_at(payload, 8) as usize);
        self.counts[usize::from(command == 12)] += 1;
        let reply = match command {
            11 if address as u64 >= self.broken_from => message(id, command, 0x21, &[]),
            11 => message(id, command, 1, &[&payload[..16], &self.ram[address..address + count]].concat()),
            12 => {
                self.ram[address..address + count].copy_from_slice(&payload[16..]);
                message(id, command, 1, &[])
            }
            other => panic!("command {other}"),
        };
        self.socket.write_all(&reply).unwrap();
    }

    fn access(region: u32, offset: u64, count: usize) -> Vec<u8> {
        [&offset.to_ne_bytes()[..], &region.to_ne_bytes(), &(count as u32).to_ne_bytes()].concat()
    }

    /// Returns whether a client at `path` is served.
    pub(crate) fn is_served(path: &Path) -> bool {
        let mut socket = connect(path);
        let asked = socket.write_all(&message(9, 1, 0, &[0; 4]));
        let mut said = Vec::new();
        let _ = socket.set_read_timeout(Some(Duration::from_millis(500)));
        asked.is_ok() && socket.read_to_end(&mut said).is_err()
    }

    /// Resets its device.
    pub(crate) fn reset(&mut self) {
        self.ask(13, &[]);
    }

    /// Unmaps its memory.
    pub(crate) fn unmap(&mut self) {
        let words = [24u32, 0].map(u32::to_ne_bytes).concat();
        self.ask(3, &[&words[..], &[BASE, RAM].map(u64::to_ne_bytes).concat()].concat());
    }

    pub(crate) fn read(&mut self, region: u32, offset: u64) -> u32 {
        let reply = self.ask(9, &Client::access(region, offset, 4));
        u32::from_ne_bytes(reply[16..].try_into().unwrap())
    }

    /// Returns the offset in the VMD's [`ECAM`] of a capability of the function at `function`.
    pub(crate) fn capability(&mut self, function: u64, id: u8) -> Option<u64> {
        let mut at = self.read(ECAM, function + 0x34) & 0xfc;
        while at != 0 {
            let head = self.read(ECAM, function + u64::from(at));
            if head as u8 == id {
                return Some(function + u64::from(at));
            }
            at = head >> 8 & 0xfc;
        }
        None
    }

    pub(crate) fn write(&mut self, region: u32, offset: u64, bytes: &[u8]) {
        self.ask(10, &[&Client::access(region, offset, bytes.len())[..], bytes].concat());
    }

    /// Does one transfer of `bytes` at `at` with a descriptor at `ring` and a stream of seed `seed`. Returns the numbers of done and
    /// failed transfers.
    pub(crate) fn transfer(&mut self, registers: u64, ring: u64, at: u64, bytes: u32, seed: u64) -> [u32; 2] {
        self.post(registers, ring, at, bytes, seed);
        let begin = Instant::now();
        while self.read(0, registers + engine::DONE) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "transfer never ends: {:?}", self.counts);
            // The lab runs on between two accesses.
            std::thread::sleep(Duration::from_micros(50));
        }
        [self.read(0, registers + engine::DONE), self.read(0, registers + engine::FAILED)]
    }

    pub(crate) fn post(&mut self, registers: u64, ring: u64, at: u64, bytes: u32, seed: u64) {
        let descriptor = [BASE + at, bytes.into(), 0, 0].map(u64::to_le_bytes);
        self.ram[ring as usize..][..DESCRIPTOR_BYTES as usize].copy_from_slice(descriptor.as_flattened());
        self.write(0, registers + engine::CONTROL, &0u32.to_le_bytes());
        self.write(0, registers + engine::RING, &(BASE + ring).to_le_bytes());
        self.write(0, registers + engine::SEED, &seed.to_le_bytes());
        self.write(0, registers + engine::ENTRIES, &1u32.to_le_bytes());
        let control = engine::control::ENABLE | engine::control::HOST_RING;
        self.write(0, registers + engine::CONTROL, &control.to_le_bytes());
        self.write(0, registers + engine::POSTED, &1u32.to_le_bytes());
    }
}
