// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NVMe controller, command by command, with arbitrary drivers, and the data after resets and losses of power.

use crate::checks_nvme::{Command, ENTRIES, MEMORY, Nvme, driver, subsystem};
use device::ResetKind;
use plug::file::Folder;
use proptest::prelude::*;
use riser_devices::nvme::{Block, Job, Media, NamespaceSettings, Settings};
use tlp::Duration;

const ALL: u32 = u32::MAX;

fn nvme(settings: &Settings) -> Nvme {
    Nvme::new(subsystem(settings, &Folder::default()).unwrap().0.physical.device)
}

/// An I/O command: opcode, LBA, blocks, and data in one page.
fn blocks(opcode: u16, lba: u64, count: u32, at: u64) -> Command {
    let dws = [lba as u32, (lba >> 32) as u32, count - 1, 0, 0, 0];
    Command { opcode, nsid: 1, pointer: [at, 0], dws }
}

fn write(nvme: &mut Nvme, lba: u64, byte: u8, flags: u32) {
    nvme.host.store(0x8000, &[byte; 512]);
    let mut command = blocks(1, lba, 1, 0x8000);
    command.dws[2] |= flags;
    assert_eq!(nvme.run(1, command).0, 0);
}

fn read(nvme: &mut Nvme, lba: u64) -> u8 {
    nvme.host.store(0x9000, &[0xee; 512]);
    assert_eq!(nvme.run(1, blocks(2, lba, 1, 0x9000)).0, 0);
    let bytes = nvme.host.load(0x9000, 512);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

/// The first 512 B of a log page.
fn log_page(nvme: &mut Nvme, page: u32) -> Vec<u8> {
    let command =
        Command { opcode: 2, nsid: ALL, pointer: [0x8000, 0], dws: [127 << 16 | page, 0, 0, 0, 0, 0] };
    assert_eq!(nvme.run(0, command).0, 0);
    nvme.host.load(0x8000, 512).to_vec()
}

/// §3.1: capabilities, and conditions for ready and fatal status.
#[test]
fn registers_start_and_stop_the_controller() {
    let mut nvme = nvme(&Settings::default());
    let capabilities = nvme.host.read_bytes(0, 8);
    assert_eq!((capabilities & 0xffff, capabilities >> 16 & 1, capabilities >> 37 & 1), (1023, 1, 1));
    assert_eq!((nvme.host.read(8), nvme.host.read(0x1c)), (0x1_0400, 1));
    nvme.host.write(0xc, 0b101);
    nvme.host.write(0x10, 0b001);
    assert_eq!((nvme.host.read(0xc), nvme.host.read(0x10)), (0b100, 0b100));
    nvme.host.write(0x14, 0x46_4001);
    assert_eq!(nvme.host.read(0x1c), 0b1001, "shut down");
    nvme.host.write(0x14, 0x46_0000);
    assert_eq!(
        (nvme.host.read(0x1c), nvme.host.read(0x24)),
        (0, 0xf_000f),
        "not ready; its queues are known"
    );
    // Reserved bits stay zero. Admin queues may be larger than others (§3.1.8, §3.1.9).
    let known = [0x24, 0x28].map(|at| nvme.host.read(at));
    nvme.host.write(0x24, 0xffff_ffff);
    nvme.host.write(0x28, 0x1fff);
    assert_eq!((nvme.host.read(0x24), nvme.host.read(0x28)), (0x0fff_0fff, 0x1000));
    nvme.host.write(0x14, 0x46_0001);
    assert_eq!(nvme.host.read(0x1c), 1, "queues of 4096 entries");
    nvme.host.write(0x14, 0x46_0000);
    [0x24, 0x28].into_iter().zip(known).for_each(|(at, value)| nvme.host.write(at, value));
    // Page too large, another command set, another arbitration, queues of one entry.
    let bad = [(0x14, 0x46_0281), (0x14, 0x46_0011), (0x14, 0x46_0801), (0x24, 0)];
    for (at, value) in bad {
        let before = nvme.host.read(at);
        nvme.host.write(at, value);
        if at != 0x14 {
            nvme.host.write(0x14, 0x46_0001);
        }
        assert_eq!(nvme.host.read(0x1c), 0b10, "fatal: {at:#x} {value:#x}");
        nvme.host.write(0x14, 0);
        assert_eq!(nvme.host.read(0x1c), 0);
        nvme.host.write(at, before & !1);
    }
    nvme.enable();
}

/// Data Transfer Error and Invalid Queue Deletion: the cause may pass, so Do Not Retry is zero (§4.6.1).
const MAY_RETRY: [u16; 2] = [0x004, 0x10c];

/// Invalid commands get the status of §4.6.1 and the command's own section, with Do Not Retry, and write no data.
#[test]
fn invalid_commands_end_with_specified_status() {
    let mut nvme = nvme(&Settings::default());
    let admin = |opcode, nsid, pointer, dw10: u32, dw11: u32| {
        (0, Command { opcode, nsid, pointer, dws: [dw10, dw11, 0, 0, 0, 0] })
    };
    let io = |opcode, nsid, pointer, lba: u32, count: u32| {
        (1, Command { opcode, nsid, pointer, dws: [lba, 0, count, 0, 0, 0] })
    };
    let page = [0x8000, 0];
    let rows = [
        ("no such admin command", admin(0xff, 0, page, 0, 0), 0x001),
        ("Identify with an SGL", admin(6 | 1 << 14, 0, page, 1, 0), 0x002),
        ("Identify of an unknown kind", admin(6, 0, page, 0x99, 0), 0x002),
        ("no such namespace", admin(6, 9, page, 0, 0), 0x00b),
        ("namespaces behind the last", admin(6, ALL, page, 2, 0), 0x00b),
        ("PRP 1 not at a dword", admin(6, 0, [0x8001, 0], 1, 0), 0x013),
        ("PRP 2 within a page", admin(6, 0, [0x8004, 0x9004], 1, 0), 0x013),
        ("CQ 0", admin(5, 0, page, 15 << 16, 1), 0x101),
        ("CQ that is there", admin(5, 0, page, 15 << 16 | 1, 1), 0x101),
        ("CQ beyond the last", admin(5, 0, page, 15 << 16 | 9, 1), 0x101),
        ("CQ of one entry", admin(5, 0, page, 2, 1), 0x102),
        ("CQ of too many", admin(5, 0, page, 1024 << 16 | 2, 1), 0x102),
        ("CQ in pieces", admin(5, 0, page, 15 << 16 | 2, 0), 0x002),
        ("CQ within a page", admin(5, 0, [0x8010, 0], 15 << 16 | 2, 1), 0x013),
        ("CQ with no such vector", admin(5, 0, page, 15 << 16 | 2, 9 << 16 | 3), 0x108),
        ("SQ that is there", admin(1, 0, page, 15 << 16 | 1, 1 << 16 | 1), 0x101),
        ("SQ of no CQ", admin(1, 0, page, 15 << 16 | 2, 5 << 16 | 1), 0x100),
        ("SQ of the admin CQ", admin(1, 0, page, 15 << 16 | 2, 1), 0x101),
        ("delete SQ 0", admin(0, 0, page, 0, 0), 0x101),
        ("delete a CQ in use", admin(4, 0, page, 1, 0), 0x10c),
        ("delete no CQ", admin(4, 0, page, 3, 0), 0x101),
        ("log page", admin(2, ALL, page, 0x7f << 16 | 0xc0, 0), 0x109),
        ("log page of a namespace", admin(2, 1, page, 0x7f << 16 | 2, 0), 0x002),
        ("log page too long", admin(2, ALL, page, 0xffff << 16 | 1, 1), 0x002),
        ("feature", admin(10, 0, page, 0x7f, 0), 0x002),
        ("feature saved", admin(9, 0, page, 1 << 31 | 1, 0), 0x10d),
        ("queues, after they were made", admin(9, 0, page, 7, 0), 0x00c),
        ("power state", admin(9, 0, page, 2, 3), 0x002),
        ("format", admin(0x80, 1, page, 5, 0), 0x10a),
        ("format of no namespace", admin(0x80, 0, page, 0, 0), 0x00b),
        ("no such command", io(0x7f, 1, page, 0, 0), 0x001),
        ("fused", io(2 | 1 << 8, 1, page, 0, 0), 0x002),
        ("PSDT 3", io(2 | 3 << 14, 1, page, 0, 0), 0x002),
        ("read of no namespace", io(2, 0, page, 0, 0), 0x00b),
        ("read of namespace 2", io(2, 2, page, 0, 0), 0x00b),
        ("read of all namespaces", io(2, ALL, page, 0, 0), 0x00b),
        ("read beyond the end", io(2, 1, page, 131_072, 0), 0x080),
        ("read across the end", io(2, 1, page, 131_071, 1), 0x080),
        ("read of too much", io(2, 1, page, 0, 256), 0x002),
        ("list within a qword", io(2, 1, [0x8000, 0x9004], 0, 23), 0x013),
        ("list beyond memory", io(1, 1, [0x8000, MEMORY as u64], 0, 23), 0x004),
        ("write from beyond memory", io(1, 1, [MEMORY as u64, 0], 0, 0), 0x004),
        ("SGL of another kind", io(1 | 1 << 14, 1, [0x8000, 0x40 << 56 | 512], 0, 0), 0x011),
        ("SGL too short", io(2 | 1 << 14, 1, [0x8000, 100], 0, 0), 0x00f),
        ("SGL segment of 8 B", io(2 | 1 << 14, 1, [0x9000, 0x30 << 56 | 8], 0, 0), 0x00d),
        ("SGL with too many", io(2 | 1 << 14, 1, [0x9000, 0x30 << 56 | 0x1_0000], 0, 0), 0x00e),
        ("SGL beyond memory", io(2 | 1 << 14, 1, [1 << 40, 0x30 << 56 | 16], 0, 0), 0x004),
    ];
    for (what, (queue, command), expected) in rows {
        // Only completions are written.
        nvme.host.allowed = Some(vec![0x2000..0x2100, 0x4000..0x4100]);
        let dnr = if MAY_RETRY.contains(&expected) { 0 } else { 1 << 14 };
        assert_eq!(nvme.run_to_status_field(queue, command).0, expected | dnr, "{what}");
    }
    nvme.host.allowed = None;
    let last = log_page(&mut nvme, 1);
    assert_eq!(
        (u64::from(last[0]), last[8]),
        (rows.len() as u64, 1),
        "each is in the log of errors, the last of queue 1"
    );
    assert_eq!(u16::from_le_bytes([last[12], last[13]]) >> 1 & 0x7ff, 0x004);
}

/// Doorbells of no queue, with a value past the queue, or with another width have no effect, except for an event.
#[test]
fn invalid_doorbells_cause_an_event() {
    let (made, report) = subsystem(&Settings::default(), &Folder::default()).unwrap();
    let mut nvme = Nvme::new(made.physical.device);
    let event = Command { opcode: 12, ..Command::default() };
    let waiting = nvme.submit(0, event);
    nvme.host.write_bytes(0x1008, &[1, 0]);
    nvme.host.write_bytes(0x1008, &[1, 0, 0, 0, 1, 0, 0, 0]);
    nvme.host.write(0x100a, 1);
    assert!(nvme.reap(0).is_none());
    nvme.host.write(0x1008, u32::from(ENTRIES));
    assert_eq!(
        nvme.reap(0),
        Some((waiting, 0, 0x0001_0100)),
        "invalid doorbell value, see the log of errors"
    );
    let again = nvme.submit(0, event);
    nvme.host.write(0x1018, 1);
    assert!(nvme.reap(0).is_none(), "not before that page was read");
    log_page(&mut nvme, 1);
    nvme.host.write(0x1018, 1);
    assert_eq!(nvme.reap(0), Some((again, 0, 0x0001_0000)), "a doorbell of no queue");
    // A head before its tail.
    nvme.host.write(0x100c, 5);
    assert_eq!(report.get().refused_doorbells, 7);
    write(&mut nvme, 3, 7, 0);
    assert_eq!(read(&mut nvme, 3), 7);
}

/// Events wait for requests, at most four. Abort ends one request; the deletion of a queue ends its commands.
#[test]
fn abort_and_queue_deletion_end_waiting_commands() {
    let mut nvme = nvme(&Settings { media: Media::OptaneP4800x, ..Settings::default() });
    let event = Command { opcode: 12, ..Command::default() };
    let waiting: Vec<u16> = (0..4).map(|_| nvme.submit(0, event)).collect();
    assert_eq!(nvme.run_to_status_field(0, event).0, 0x105, "a fifth may be sent again later");
    let abort = |queue: u16, cid: u16| Command {
        opcode: 8,
        dws: [u32::from(cid) << 16 | u32::from(queue), 0, 0, 0, 0, 0],
        ..Command::default()
    };
    let by = nvme.submit(0, abort(0, waiting[2]));
    let ended = [nvme.reap(0).unwrap(), nvme.reap(0).unwrap()];
    assert!(ended.contains(&(waiting[2], 0x007, 0)) && ended.contains(&(by, 0, 0)), "{ended:?}");
    assert_eq!(nvme.run(0, abort(1, 99)), (0, 1), "no such command");
    // A read that takes the media 8 us, during which its queue is deleted.
    let read = nvme.submit(1, blocks(2, 0, 1, 0x8000));
    let delete = Command { opcode: 0, dws: [1, 0, 0, 0, 0, 0], ..Command::default() };
    assert_eq!(nvme.run(0, delete).0, 0);
    assert_eq!(nvme.reap(1), Some((read, 0x008, 0)));
    let delete = Command { opcode: 4, dws: [1, 0, 0, 0, 0, 0], ..Command::default() };
    assert_eq!(nvme.run(0, delete).0, 0);
}

/// The warning of a temperature threshold, and features that keep their values until a reset.
#[test]
fn features_keep_values_and_temperature_warns() {
    let mut nvme = nvme(&Settings::default());
    let feature =
        |opcode, dw10, dw11| Command { opcode, dws: [dw10, dw11, 0, 0, 0, 0], ..Command::default() };
    assert_eq!(nvme.run(0, feature(10, 7, 0)), (0, 0x7_0007), "eight queue pairs");
    assert_eq!(nvme.run(0, feature(10, 4, 0)), (0, 343), "WCTEMP");
    assert_eq!(nvme.run(0, feature(9, 0xb, 0x1f)), (0, 0));
    let waiting = nvme.submit(0, feature(12, 0, 0));
    assert_eq!(nvme.host.interrupts.get(&5), None);
    let set = nvme.submit(0, feature(9, 4, 300));
    let ended = [nvme.reap(0).unwrap(), nvme.reap(0).unwrap()];
    assert!(ended.contains(&(waiting, 0, 0x0002_0101)) && ended.contains(&(set, 0, 0)), "{ended:x?}");
    assert_eq!(nvme.run(0, feature(10, 4, 0)), (0, 300));
    assert_eq!(nvme.run(0, feature(10, 4 | 1 << 8, 0)), (0, 343), "the default");
    nvme.host.write(0x14, 0);
    nvme.enable();
    assert_eq!(nvme.run(0, feature(10, 4, 0)), (0, 343));
}

/// Features that belong to a namespace or a vector (§5.14, §5.21): feature 5, error recovery, belongs to a namespace.
#[test]
fn features_apply_to_their_namespace_or_vector() {
    let mut nvme = nvme(&Settings::default());
    let rows = [
        // Opcode, NSID, feature, its value: status and result.
        (9, u32::MAX, 5, 77, (0, 0)),
        (10, 1, 5, 0, (0, 77)),
        (10, u32::MAX, 5, 0, (0x0b, 0)),
        (10, 99, 5, 0, (0x0b, 0)),
        (9, 99, 5, 1, (0x0b, 0)),
        (9, 0, 5, 1, (0x0b, 0)),
        (9, 1, 4, 300, (0x10f, 0)),
        (9, 99, 4, 300, (0x0b, 0)),
        (9, 0, 4, 0xf_0150, (0, 0)),
        (10, 0, 4, 0, (0, 0x150)),
        (10, 0, 9, 8, (0, 8)),
        (10, 0, 9, 9, (0x02, 0)),
        (10, 0, 7 | 3 << 8, 0, (0, 0b100)),
    ];
    for (opcode, nsid, dw10, dw11, expected) in rows {
        let (status, result) =
            nvme.run(0, Command { opcode, nsid, dws: [dw10, dw11, 0, 0, 0, 0], ..Command::default() });
        assert_eq!((status & 0x7ff, result), expected, "{opcode} {nsid:#x} {dw10:#x} {dw11:#x}");
    }
}

/// A completion queue that the host does not empty holds as many entries as fit. No entry is overwritten, and all
/// completions arrive in the end.
#[test]
fn completions_wait_for_space() {
    let mut nvme = nvme(&Settings::default());
    let mut sent = Vec::new();
    for lba in 0..15 {
        sent.push(nvme.submit(1, blocks(2, lba, 1, 0x8000)));
    }
    for lba in 0..14 {
        sent.push(nvme.submit(1, blocks(2, lba, 1, 0x8000)));
    }
    nvme.host.wait(Duration::from_us(100));
    let mut ended: Vec<u16> = std::iter::from_fn(|| nvme.reap(1)).map(|(cid, ..)| cid).collect();
    assert_eq!(ended.len(), 15, "a queue of 16");
    nvme.give_back(1);
    ended.extend(std::iter::from_fn(|| nvme.reap(1)).map(|(cid, ..)| cid));
    assert_eq!(ended, sent);
}

/// Completion queues interrupt once per completion, coalesced by feature 08h, or not at all without a vector.
#[test]
fn interrupts_are_coalesced() {
    let mut nvme = nvme(&Settings { media: Media::OptaneP4800x, ..Settings::default() });
    nvme.host.interrupts.clear();
    for lba in 0..8 {
        nvme.submit(1, blocks(2, lba, 1, 0x8000));
        nvme.host.wait(Duration::from_us(20));
    }
    assert_eq!(nvme.host.interrupts, [(1, 8)].into());
    while nvme.reap(1).is_some() {}
    nvme.give_back(1);
    // Four together, or all within 200 us.
    let set = Command { opcode: 9, dws: [8, 2 << 8 | 3, 0, 0, 0, 0], ..Command::default() };
    assert_eq!(nvme.run(0, set).0, 0);
    nvme.host.interrupts.clear();
    for lba in 0..6 {
        nvme.submit(1, blocks(2, lba, 1, 0x8000));
        nvme.host.wait(Duration::from_us(20));
    }
    assert_eq!(nvme.host.interrupts, [(1, 1)].into());
    nvme.host.wait(Duration::from_us(200));
    assert_eq!(nvme.host.interrupts, [(1, 2)].into());
}

/// Without a cache, all writes survive. With a cache, only flushed and forced writes survive a loss of power. All
/// writes survive other resets.
#[test]
fn loss_of_power_empties_only_the_cache() {
    for (has_cache, kind, expected) in [
        (false, ResetKind::Fundamental, [1, 2, 3]),
        (true, ResetKind::Fundamental, [1, 2, 0]),
        (true, ResetKind::Hot, [1, 2, 3]),
        (true, ResetKind::FunctionLevel, [1, 2, 3]),
    ] {
        let mut nvme = nvme(&Settings { volatile_write_cache: has_cache, ..Settings::default() });
        write(&mut nvme, 10, 1, 0);
        assert_eq!(nvme.run(1, Command { opcode: 0, nsid: ALL, ..Command::default() }).0, 0);
        write(&mut nvme, 20, 2, 1 << 30);
        write(&mut nvme, 30, 3, 0);
        assert_eq!([10, 20, 30].map(|lba| read(&mut nvme, lba)), [1, 2, 3]);
        nvme.host.reset(kind);
        nvme.enable();
        assert_eq!([10, 20, 30].map(|lba| read(&mut nvme, lba)), expected, "{has_cache} {kind:?}");
        write(&mut nvme, 30, 4, 0);
        // After a shutdown, the power may be lost.
        nvme.host.write(0x14, 0x46_4001);
        nvme.host.reset(ResetKind::Fundamental);
        nvme.enable();
        assert_eq!(read(&mut nvme, 30), 4);
        // Feature 06h: without the cache.
        let off = Command { opcode: 9, dws: [6, 0, 0, 0, 0, 0], ..Command::default() };
        assert_eq!(nvme.run(0, off).0, if has_cache { 0 } else { 2 });
        write(&mut nvme, 30, 5, 0);
        nvme.host.reset(ResetKind::Fundamental);
        nvme.enable();
        assert_eq!(read(&mut nvme, 30), 5);
    }
}

/// §5.14.1.1, §5.14.1.2: a reset clears the error log, but not the count. Losses of power count from the first Enable.
#[test]
fn counts_survive_resets() {
    let mut nvme = nvme(&Settings::default());
    let health = |nvme: &mut Nvme| {
        let page = log_page(nvme, 2);
        // Power cycles, unsafe shutdowns, entries of the error log.
        [112, 144, 176].map(|at| page[at])
    };
    assert_eq!(nvme.run(0, Command { opcode: 0xff, ..Command::default() }).0, 1);
    assert_eq!((health(&mut nvme), log_page(&mut nvme, 1)[0]), ([1, 0, 1], 1));
    nvme.host.write(0x14, 0);
    nvme.enable();
    assert_eq!((health(&mut nvme), log_page(&mut nvme, 1)[0]), ([1, 0, 1], 0));
    nvme.host.reset(ResetKind::Fundamental);
    nvme.host.reset(ResetKind::Fundamental);
    nvme.enable();
    assert_eq!(health(&mut nvme), [2, 1, 1]);
    // Shut down.
    nvme.host.write(0x14, 0x46_4001);
    nvme.host.reset(ResetKind::Fundamental);
    nvme.enable();
    assert_eq!(health(&mut nvme), [3, 1, 1]);
}

/// If CC.EN is cleared with commands in flight, they do not complete, and no data are written.
#[test]
fn disabled_controller_ends_commands_without_effect() {
    let mut nvme = nvme(&Settings { media: Media::OptaneP4800x, ..Settings::default() });
    for lba in 0..8 {
        nvme.submit(1, blocks(2, lba, 1, 0x8000));
    }
    nvme.host.write(0x14, 0);
    nvme.host.allowed = Some(Vec::new());
    nvme.host.interrupts.clear();
    nvme.host.wait(Duration::from_ms(1));
    assert!(nvme.host.interrupts.is_empty());
    nvme.host.allowed = None;
    nvme.enable();
    assert_eq!(read(&mut nvme, 0), 0);
}

/// Uncorrectable blocks read as an error until they are written. Compare detects differences. Format leaves zeros and another block
/// size.
#[test]
fn blocks_can_be_made_unreadable_compared_and_formatted() {
    let mut nvme = nvme(&Settings::default());
    write(&mut nvme, 5, 9, 0);
    nvme.host.store(0xa000, &[9; 512]);
    assert_eq!(nvme.run(1, blocks(5, 5, 1, 0xa000)).0, 0);
    nvme.host.store(0xa1ff, &[8]);
    assert_eq!(nvme.run(1, blocks(5, 5, 1, 0xa000)).0, 0x285);
    assert_eq!(nvme.run(1, blocks(4, 5, 2, 0)).0, 0);
    assert_eq!(nvme.run(1, blocks(2, 6, 1, 0x9000)).0, 0x281);
    write(&mut nvme, 6, 1, 0);
    assert_eq!((read(&mut nvme, 6), nvme.run(1, blocks(2, 5, 1, 0x9000)).0), (1, 0x281));
    let format = Command { opcode: 0x80, nsid: 1, dws: [1, 0, 0, 0, 0, 0], ..Command::default() };
    assert_eq!(nvme.run(0, format).0, 0);
    nvme.host.store(0x9000, &[0xee; 4096]);
    assert_eq!(nvme.run(1, blocks(2, 0, 1, 0x9000)).0, 0);
    assert_eq!(nvme.host.load(0x9000, 4096), [0; 4096], "a block of 4 KiB");
    assert_eq!(nvme.run(1, blocks(2, 16_384, 1, 0x9000)).0, 0x080, "64 MiB have 16,384 of them");
}

/// A file keeps written data, belongs to one namespace only, and must be long enough.
#[test]
fn image_file_keeps_the_bytes() {
    let path = std::env::temp_dir().join(format!("riser-nvme-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("disk"), vec![3; 8192 + 100]).unwrap();
    let file = NamespaceSettings { file: Some("disk".into()), ..NamespaceSettings::default() };
    let settings = |namespace: &NamespaceSettings| Settings {
        namespaces: vec![namespace.clone()],
        volatile_write_cache: true,
        job: Job { queue_depth: 1, ..Job::default() },
        ..Settings::default()
    };
    let folder = Folder::from(&*path);
    let (made, _) = subsystem(&settings(&file), &folder).unwrap();
    let mut nvme = Nvme::new(made.physical.device);
    assert_eq!(
        (read(&mut nvme, 15), nvme.run(1, blocks(2, 16, 1, 0x9000)).0),
        (3, 0x080),
        "whole blocks of 4 KiB"
    );
    write(&mut nvme, 1, 7, 0);
    assert_eq!(std::fs::read(path.join("disk")).unwrap()[512], 3, "in the cache");
    assert_eq!(nvme.run(1, Command { opcode: 0, nsid: 1, ..Command::default() }).0, 0);
    let bytes = std::fs::read(path.join("disk")).unwrap();
    assert_eq!((&bytes[512..1024], bytes[1024], bytes.len()), (&[7; 512][..], 3, 8292));
    // Deallocated blocks occupy no space.
    let room = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path.join("disk")).unwrap());
    let before = room();
    nvme.host.store(0xa000, &[0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let deallocate = Command { opcode: 9, nsid: 1, pointer: [0xa000, 0], dws: [0, 4, 0, 0, 0, 0] };
    assert_eq!(nvme.run(1, deallocate).0, 0);
    assert_eq!(nvme.run(1, Command { opcode: 0, nsid: 1, ..Command::default() }).0, 0);
    assert_eq!((read(&mut nvme, 1), read(&mut nvme, 8)), (0, 3));
    assert!(room() < before, "{} of {before} blocks", room());
    let why = |namespace: &NamespaceSettings| subsystem(&settings(namespace), &folder).err().unwrap();
    assert!(why(&file).contains("disk: it is in use by another device or run"), "{}", why(&file));
    drop(nvme);
    let long = NamespaceSettings { size_bytes: Some(12_288), ..file.clone() };
    assert!(
        why(&long).contains("file of 8192 bytes in blocks of 4096, expected at least 12288"),
        "{}",
        why(&long)
    );
    let none = NamespaceSettings { file: Some("none".into()), ..file.clone() };
    assert!(why(&none).contains("namespace 1: none: No such file"), "{}", why(&none));
    let folder_itself = NamespaceSettings { file: Some(".".into()), ..file };
    assert!(why(&folder_itself).contains("not a regular file"), "{}", why(&folder_itself));
    std::fs::remove_dir_all(path).unwrap();
}

/// A virtual function is a separate controller with the same namespaces: its reset does not affect commands of the other.
#[test]
fn virtual_functions_share_the_namespaces() {
    let (made, _) = subsystem(&Settings { vfs: 2, ..Settings::default() }, &Folder::default()).unwrap();
    let mut virtual_functions = made.virtual_functions.unwrap();
    let mut first = Nvme::new(made.physical.device);
    let mut second = Nvme::new((virtual_functions.device)(1));
    write(&mut first, 4, 6, 0);
    assert_eq!(read(&mut second, 4), 6);
    let identify = Command { opcode: 6, pointer: [0x8000, 0], dws: [1, 0, 0, 0, 0, 0], ..Command::default() };
    assert_eq!((first.run(0, identify).0, second.run(0, identify).0), (0, 0));
    let id = |nvme: &Nvme| (nvme.host.load(0x8000 + 78, 2)[0], nvme.host.load(0x8000 + 76, 1)[0]);
    assert_eq!((id(&first), id(&second)), ((0, 2), (2, 6)));
    second.host.reset(ResetKind::FunctionLevel);
    assert_eq!(read(&mut first, 4), 6);
    let feature = Command { opcode: 10, dws: [7, 0, 0, 0, 0, 0], ..Command::default() };
    second.enable();
    assert_eq!(
        (first.run(0, feature).1, second.run(0, feature).1),
        (0x7_0007, 0x1_0001),
        "queues of its own"
    );
}

/// Location of a command's data in a script: offset in the first page, and whether pages are contiguous.
#[derive(Clone, Copy, Debug)]
struct Step {
    opcode: u16,
    lba: u64,
    count: u32,
    offset: u64,
    is_sgl: bool,
    byte: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let opcode = prop::sample::select(vec![1, 1, 1, 2, 2, 2, 8, 9]);
    (opcode, 0..600_u64, 1..120_u32, 0..8_u64, any::<bool>(), 1..255_u8).prop_map(
        |(opcode, lba, count, offset, is_sgl, byte)| Step { opcode, lba, count, offset, is_sgl, byte },
    )
}

/// Addresses of a command's bytes: pages in descending order, starting at an offset in the first.
fn places(step: &Step, bytes: u64) -> Vec<(u64, u64)> {
    let (mut rest, mut offset, mut page) = (bytes, step.offset * 512, 0xf0_000);
    let mut all = Vec::new();
    while rest > 0 {
        let part = rest.min(4096 - offset);
        all.push((page + offset, part));
        (rest, offset, page) = (rest - part, 0, page - 0x2000);
    }
    all
}

/// Sets a command's data pointer: PRPs, with a list at the end of a page that continues in another; or an SGL of two segments.
fn point(nvme: &mut Nvme, step: &Step, places: &[(u64, u64)]) -> ([u64; 2], u16) {
    if step.is_sgl {
        let (first, second) = places.split_at(places.len() / 2);
        let descriptors =
            |part: &[(u64, u64)]| -> Vec<[u64; 2]> { part.iter().map(|(at, len)| [*at, *len]).collect() };
        let mut segment = descriptors(first);
        segment.push([0x7000, (16 * second.len() as u64) | 0x30 << 56]);
        let flat = |segment: &[[u64; 2]]| {
            segment.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        nvme.host.store(0x6000, &flat(&segment));
        nvme.host.store(0x7000, &flat(&descriptors(second)));
        return ([0x6000, (16 * segment.len() as u64) | 0x20 << 56], 1 << 14);
    }
    let second = match places {
        [] | [_] => 0,
        [_, (second, _)] => *second,
        [_, rest @ ..] => {
            // The first list has four entries: three pages, and the next list.
            let mut list: Vec<u64> = rest.iter().map(|(at, _)| *at).collect();
            if list.len() > 4 {
                list.insert(3, 0x7000);
            }
            let bytes: Vec<u8> = list.iter().flat_map(|at| at.to_le_bytes()).collect();
            let (first, behind) = bytes.split_at(bytes.len().min(32));
            nvme.host.store(0x6fe0, first);
            nvme.host.store(0x7000, behind);
            0x6fe0
        }
    };
    ([places[0].0, second], 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Reads and writes behave as on an array of bytes. Reads write only to their buffers.
    #[test]
    fn namespace_behaves_like_an_array(steps in prop::collection::vec(step(), 1..24), cached: bool) {
        let mut nvme = nvme(&Settings {
            namespaces: vec![NamespaceSettings { size_bytes: Some(1 << 20), ..NamespaceSettings::default() }],
            volatile_write_cache: cached,
            ..Settings::default()
        });
        let mut model = vec![0; 1 << 20];
        for step in steps {
            let (at, bytes) = (step.lba as usize * 512, step.count as usize * 512);
            let places = places(&step, bytes as u64);
            let (pointer, flags) = point(&mut nvme, &step, &places);
            let dws = [step.lba as u32, 0, step.count - 1, 0, 0, 0];
            let mut command = Command { opcode: step.opcode | flags, nsid: 1, pointer, dws };
            match step.opcode {
                1 => {
                    for (n, (to, len)) in places.iter().enumerate() {
                        nvme.host.store(*to as usize, &vec![step.byte.wrapping_add(n as u8); *len as usize]);
                    }
                    let mut done = at;
                    for (n, (_, len)) in places.iter().enumerate() {
                        model[done..done + *len as usize].fill(step.byte.wrapping_add(n as u8));
                        done += *len as usize;
                    }
                }
                2 => {
                    let own = places.iter().map(|(at, len)| *at..*at + len);
                    nvme.host.allowed = Some(own.chain(std::iter::once(0x4000..0x4100)).collect());
                }
                8 => model[at..at + bytes].fill(0),
                _ => {
                    let range = [u64::from(step.count) << 32, step.lba].map(u64::to_le_bytes);
                    nvme.host.store(0x8000, range.as_flattened());
                    command = Command { opcode: 9, nsid: 1, pointer: [0x8000, 0], dws: [0, 4, 0, 0, 0, 0] };
                    model[at..at + bytes].fill(0);
                }
            }
            prop_assert_eq!(nvme.run(1, command).0, 0, "{:?}", step);
            nvme.host.allowed = None;
            if step.opcode == 2 {
                let mut from = at;
                for (place, len) in places {
                    let read = nvme.host.load(place as usize, len as usize);
                    prop_assert!(read == &model[from..from + len as usize], "{:?} at {:#x}", step, place);
                    from += len as usize;
                }
            }
        }
    }

    #[test]
    fn random_driver_does_not_break_the_model(script in prop::collection::vec(any::<u8>(), 0..600)) {
        driver(&script);
    }
}

/// Blocks of 4 KiB, and multiple namespaces.
#[test]
fn namespaces_have_their_own_blocks() {
    let large = NamespaceSettings { block: Block::B4096, ..NamespaceSettings::default() };
    let mut nvme =
        nvme(&Settings { namespaces: vec![NamespaceSettings::default(), large], ..Settings::default() });
    let identify = |nsid, kind| Command { opcode: 6, nsid, pointer: [0x8000, 0], dws: [kind, 0, 0, 0, 0, 0] };
    assert_eq!(nvme.run(0, identify(2, 0)).0, 0);
    assert_eq!(
        (nvme.host.load(0x8000, 4), nvme.host.load(0x8000 + 26, 1)),
        (&16_384_u32.to_le_bytes()[..], &[1][..])
    );
    assert_eq!(nvme.run(0, identify(0, 2)).0, 0);
    assert_eq!(nvme.host.load(0x8000, 12), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}
