// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client whose memory has no descriptor, at the socket of a function: it answers DMA by message, and as QEMU does not while an access
//! of its own is under way.

use crate::served::{Links, Served, connect, folder};
use devices::dma_engine::registers::{self, engine};
use devices::dma_engine::{DESCRIPTOR_BYTES, Stream};
use riser_lab::external::{Clock, Driver};
use riser_lab::machine::{Guest, Places};
use riser_lab::{build, parse_in};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const RAM: u64 = 4 << 20;
const BASE: u64 = 0x4000_0000;
/// The registers of engines.
const H2D: u64 = registers::ENGINE;
const D2H: u64 = H2D + registers::ENGINE_STRIDE;
const COMMAND: u64 = 4;
const CONFIG: u32 = 7;

struct Client {
    socket: UnixStream,
    ram: Vec<u8>,
    /// It refuses to read from here on.
    broken_from: u64,
    /// DMA that came while an access was under way, and how many there were of either kind.
    late: Vec<(u16, u16, Vec<u8>)>,
    counts: [u32; 2],
}

fn message(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [16 + payload.len() as u32, flags, 0].map(u32::to_ne_bytes).concat();
    [&id.to_ne_bytes()[..], &command.to_ne_bytes(), &words, payload].concat()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Client {
    fn join(path: &Path) -> Client {
        let socket = connect(path);
        let mut client =
            Client { socket, ram: vec![0; RAM as usize], broken_from: RAM, late: Vec::new(), counts: [0; 2] };
        client.ask(1, &[0; 4]);
        let map =
            [&[32u32, 3].map(u32::to_ne_bytes).concat()[..], &[0, BASE, RAM].map(u64::to_ne_bytes).concat()];
        client.ask(2, &map.concat());
        client
    }

    fn next(&mut self) -> (u16, u16, u32, Vec<u8>) {
        let mut header = [0; 16];
        self.socket.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let mut payload = vec![0; word(4) as usize - 16];
        self.socket.read_exact(&mut payload).unwrap();
        (word(0) as u16, (word(0) >> 16) as u16, word(8), payload)
    }

    /// Waits for the reply; what else comes waits, too.
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

    fn serve(&mut self, id: u16, command: u16, payload: &[u8]) {
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

    fn read(&mut self, offset: u64) -> u32 {
        let reply = self.ask(9, &Client::access(0, offset, 4));
        u32::from_ne_bytes(reply[16..].try_into().unwrap())
    }

    fn write(&mut self, region: u32, offset: u64, bytes: &[u8]) {
        self.ask(10, &[&Client::access(region, offset, bytes.len())[..], bytes].concat());
    }

    /// One transfer of `bytes` at `at` by a ring, whose descriptor is at `ring` and whose stream begins with `seed`; done and failed then.
    fn transfer(&mut self, registers: u64, ring: u64, at: u64, bytes: u32, seed: u64) -> [u32; 2] {
        self.post(registers, ring, at, bytes, seed);
        let begin = Instant::now();
        while self.read(registers + engine::DONE) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never ends: {:?}", self.counts);
            // It computes on between two accesses.
            std::thread::sleep(Duration::from_micros(50));
        }
        [self.read(registers + engine::DONE), self.read(registers + engine::FAILED)]
    }

    fn post(&mut self, registers: u64, ring: u64, at: u64, bytes: u32, seed: u64) {
        let descriptor = [BASE + at, bytes.into(), 0, 0].map(u64::to_le_bytes);
        self.ram[ring as usize..][..DESCRIPTOR_BYTES as usize].copy_from_slice(descriptor.as_flattened());
        self.write(0, registers + engine::RING, &(BASE + ring).to_le_bytes());
        self.write(0, registers + engine::SEED, &seed.to_le_bytes());
        self.write(0, registers + engine::ENTRIES, &1u32.to_le_bytes());
        let control = engine::control::ENABLE | engine::control::HOST_RING;
        self.write(0, registers + engine::CONTROL, &control.to_le_bytes());
        self.write(0, registers + engine::POSTED, &1u32.to_le_bytes());
    }
}

/// Nothing happens for as long as links that are down stay so, and the firmware waits for them.
#[test]
fn firmware_comes_to_its_end_where_links_go_meanwhile() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/hotplug.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut file = parse_in(&devices::models(), &path, &text, "".into()).unwrap();
    file.lab.host.outside = true;
    let mut lab = Driver::new(build(&file).unwrap(), Clock::Virtual);
    let (door, places) = (lab.door_named("host root").unwrap(), Places::new(&file, "host root").unwrap());
    let folder = folder("hotplug");
    let guest = Guest::direct(&mut lab, door, places, &folder).unwrap();
    assert!(guest.sockets().count() > 0);
    drop(guest);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn dma_goes_by_messages_to_a_client_that_answers_between_its_accesses() {
    let served = Served::start("messages");
    // One client after another: the second finds the function as the first one did.
    for turn in 0..2 {
        let mut client = Client::join(&served.folder.join("card"));
        client.write(CONFIG, COMMAND, &[6, 0]);
        // Up: 8 KiB of a stream, which the device makes. Down again: the device checks it.
        assert_eq!(client.transfer(D2H, 0x100, 0x1_0000, 0x2000, 5), [1, 0], "turn {turn}");
        let mut expected = vec![0; 0x2000];
        Stream::new(5).fill(&mut expected);
        assert!(client.ram[0x1_0000..0x1_2000] == expected, "what was written is not there");
        client.broken_from = if turn == 0 { RAM } else { 0x1_1000 };
        assert_eq!(client.transfer(H2D, 0, 0x1_0000, 0x2000, 5), [1, turn], "turn {turn}");
        let [reads, writes] = client.counts;
        assert!(reads > 16 && writes >= 16, "{:?}", client.counts);
    }
    std::thread::sleep(Duration::from_millis(50));
    let (counters, gone, lost) = served.end();
    assert_eq!((counters.clients, counters.maps, counters.maps_without_descriptor), (2, 2, 2));
    assert_eq!((gone, lost), (2, 0));
}

/// What a client does not take of its memory's writes holds the others up for a while, and not for ever.
#[test]
fn a_client_that_takes_no_dma_does_not_stop_the_lab() {
    let served = Served::start("silent");
    let (mut client, mut links) = (Client::join(&served.folder.join("card")), Links::join(&served));
    client.write(CONFIG, COMMAND, &[6, 0]);
    client.post(D2H, 0, 0, 3 << 20, 0);
    // It answers the read of the descriptor alone.
    let (id, command, _, payload) = client.next();
    client.serve(id, command, &payload);
    let begin = Instant::now();
    let mut before = links.time_ps();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = links.time_ps();
        let goes_on = now - before > 50_000_000_000;
        before = now;
        if goes_on && begin.elapsed() > Duration::from_secs(2) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the lab stands still at {now} ps");
    }
    served.end();
}
