// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of an NVMe controller for any driver. A fuzz target and the tests of `riser-devices` call them. A failed
//! check panics.

#[path = "bench.rs"]
mod bench;

pub(crate) use bench::Host;
use riser_config::PcieLayout;
use riser_device::{Device, ResetKind};
use riser_devices::nvme::{Functions, NvmeReport, Settings, Spot, functions};
use riser_plug::{Shared, file::Folder};
use riser_tlp::{Duration, PayloadPool};

/// Size of host memory in bytes: admin queues at 1000h and 2000h, I/O queues at 3000h and 4000h, then data and lists.
pub(crate) const MEMORY: usize = 1 << 20;
/// Number of entries of each queue.
pub(crate) const ENTRIES: u16 = 16;
/// Maximum number of bytes of one request from the controller, equal to the maximum of a command.
const MOST: usize = 128 << 10;

/// Returns the functions of a subsystem with these settings.
pub(crate) fn subsystem(
    settings: &Settings,
    folder: &Folder,
) -> Result<(Functions, Shared<NvmeReport>), String> {
    let (payloads, report) = (PayloadPool::new(), Shared::default());
    let spot = Spot { pcie: PcieLayout::default(), serial: 7, payloads: &payloads, folder };
    Ok((functions(settings, &spot, &report).map_err(|e| e.to_string())?, report))
}

/// A controller and its host's queues.
pub(crate) struct Nvme {
    pub(crate) host: Host,
    /// For each queue: tail of the submission queue, then head and phase of the completion queue.
    queues: [(u16, u16, bool); 2],
    cid: u16,
}

/// Relevant fields of a command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Command {
    /// Opcode, with PSDT in bits 15:14 and the fused operation in bits 9:8.
    pub(crate) opcode: u16,
    pub(crate) nsid: u32,
    pub(crate) pointer: [u64; 2],
    pub(crate) dws: [u32; 6],
}

impl Nvme {
    /// Returns an enabled controller with an I/O queue pair.
    pub(crate) fn new(device: Box<dyn Device>) -> Nvme {
        let mut nvme = Nvme::off(device);
        nvme.enable();
        nvme
    }

    pub(crate) fn off(device: Box<dyn Device>) -> Nvme {
        Nvme { host: Host::new(device, MEMORY, MOST), queues: [(0, 0, true); 2], cid: 0 }
    }

    pub(crate) fn enable(&mut self) {
        let last = u32::from(ENTRIES - 1);
        self.queues = [(0, 0, true); 2];
        self.host.store(0x1000, &[0; 0x4000]);
        for (at, value) in [(0x24, last << 16 | last), (0x28, 0x1000), (0x30, 0x2000), (0x14, 0x46_0001)] {
            self.host.write(at, value);
        }
        assert_eq!(self.host.read(0x1c), 1, "ready");
        let pair = |opcode, address, flags| Command {
            opcode,
            pointer: [address, 0],
            dws: [last << 16 | 1, flags, 0, 0, 0, 0],
            ..Command::default()
        };
        assert_eq!(self.run(0, pair(5, 0x4000, 1 << 16 | 3)), (0, 0));
        assert_eq!(self.run(0, pair(1, 0x3000, 1 << 16 | 1)), (0, 0));
    }

    /// Writes a command into a queue and rings its doorbell.
    pub(crate) fn submit(&mut self, queue: usize, command: Command) -> u16 {
        self.cid = self.cid.wrapping_add(1);
        let (cid, tail) = (self.cid, self.queues[queue].0);
        self.put(queue, usize::from(tail), cid, command);
        self.queues[queue].0 = (tail + 1) % ENTRIES;
        self.host.write(0x1000 + 8 * queue as u64, self.queues[queue].0.into());
        cid
    }

    pub(crate) fn put(&mut self, queue: usize, slot: usize, cid: u16, command: Command) {
        let mut words = [0; 16];
        words[0] = u32::from(cid) << 16 | u32::from(command.opcode);
        words[1] = command.nsid;
        for (n, half) in command.pointer.into_iter().enumerate() {
            (words[6 + 2 * n], words[7 + 2 * n]) = (half as u32, (half >> 32) as u32);
        }
        words[10..].copy_from_slice(&command.dws);
        let bytes = words.map(u32::to_le_bytes);
        self.host.store(0x1000 + 0x2000 * queue + 64 * slot, bytes.as_flattened());
    }

    /// Returns the next completion: command identifier, status and DW 0.
    pub(crate) fn reap(&mut self, queue: usize) -> Option<(u16, u16, u32)> {
        let (_, head, phase) = self.queues[queue];
        let entry = self.host.load(0x2000 + 0x2000 * queue + 16 * usize::from(head), 16);
        let word = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let (cid, status) = (word(12), word(14));
        let result = u32::from(word(2)) << 16 | u32::from(word(0));
        if (status & 1 != 0) != phase {
            return None;
        }
        let next = (head + 1) % ENTRIES;
        self.queues[queue].1 = next;
        self.queues[queue].2 ^= next == 0;
        Some((cid, status >> 1, result))
    }

    /// Writes the completion doorbell of a queue with its head.
    pub(crate) fn give_back(&mut self, queue: usize) {
        self.host.write(0x1004 + 8 * queue as u64, self.queues[queue].1.into());
    }

    /// Executes a command. Returns its status without Do Not Retry, and DW 0.
    pub(crate) fn run(&mut self, queue: usize, command: Command) -> (u16, u32) {
        let (status, result) = self.run_to_status_field(queue, command);
        (status & 0x7ff, result)
    }

    /// Executes a command. Returns its Status Field without the phase, and DW 0.
    pub(crate) fn run_to_status_field(&mut self, queue: usize, command: Command) -> (u16, u32) {
        let cid = self.submit(queue, command);
        self.host.wait(Duration::from_us(100));
        let (ended, status, result) = self.reap(queue).expect("the command completes");
        assert_eq!(ended, cid);
        self.give_back(queue);
        (status, result)
    }
}

/// Runs a driver's script. Each step is a byte and its arguments. The script sets doorbells, registers, commands and lists. The controller
/// must answer, stop producing output, and move no more data at once than a command may.
pub(crate) fn driver(mut script: &[u8]) -> NvmeReport {
    let settings = Settings { volatile_write_cache: script.len() % 2 == 1, ..Settings::default() };
    let (made, report) = subsystem(&settings, &Folder::default()).expect("legal settings");
    let mut nvme = Nvme::new(made.physical.device);
    while let [op, a, b, c, rest @ ..] = script {
        script = rest;
        let (word, at) = (u32::from_le_bytes([*b, *c, *a, 0]), u64::from(*a) << 4 | u64::from(*b) & 0xf);
        match op % 12 {
            0 => nvme.host.write(at & !3, word),
            1 => nvme.host.write(0x1000 + 4 * u64::from(a % 24), u32::from(*b) | u32::from(*c) << 8),
            2 => _ = nvme.host.read_bytes(at, u32::from(*c % 8) + 1),
            3 => nvme.host.write_bytes(u64::from(*b) << 6 | u64::from(*c), &vec![*a; usize::from(a % 9)]),
            4 => nvme.host.store(0x5000 + (usize::from(*a) << 6), &[*b, *c, 0, 0, 0, *c, 0, *a]),
            5..=8 => {
                let opcode = [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 0x80, 0xff][usize::from(a % 12)];
                let command = Command {
                    opcode: opcode | u16::from(*c & 0xc0) << 8,
                    nsid: [0, 1, 1, 1, 1, 2, u32::MAX, u32::MAX - 1][usize::from(b % 8)],
                    pointer: [u64::from(*c) << 9, u64::from(*b) << 10 | u64::from(*c) << 56],
                    dws: [(*c & 0x1f).into(), u32::from(*b), u32::from(*a) << 2, 0, 0, 0],
                };
                nvme.submit(usize::from(op % 2), command);
            }
            9 => {
                while nvme.reap(usize::from(a % 2)).is_some() {}
                nvme.give_back(usize::from(a % 2));
            }
            10 => nvme.host.wait(Duration::from_us(u64::from(*a))),
            _ => nvme.host.reset(match a % 3 {
                0 => ResetKind::Fundamental,
                1 => ResetKind::Hot,
                _ => ResetKind::FunctionLevel,
            }),
        }
    }
    nvme.host.wait(Duration::from_ms(100));
    // The controller still works after that.
    nvme.host.reset(ResetKind::FunctionLevel);
    nvme.enable();
    report.take()
}
