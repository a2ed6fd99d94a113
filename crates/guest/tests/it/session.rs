// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversations with a session, message by message, with the bytes of the protocol.

use crate::client;
use crate::client::{QEMU, Wire, command, longs, message, sent, version, words};
use proptest::prelude::*;
use riser_guest::vfio_user::{
    DmaAccess, DmaError, Errno, Event, HangUp, Irq, IrqChange, MAX_DMA, MAX_PENDING, Refusal, Region,
    Session, Shape, Token, VersionError, region,
};
use std::fs::File;
use std::os::fd::OwnedFd;

const EINVAL: u32 = 22;
const EPERM: u32 = 1;
const EEXIST: u32 = 17;
const ENOSPC: u32 = 28;
const ENOSYS: u32 = 38;
const ENOTSUP: u32 = 95;

fn shape() -> Shape {
    let mut shape = Shape::new();
    shape.regions[0] = Region::of(0x2000);
    shape.regions[2] = Region { size: 0x1001, readable: true, writable: false };
    shape.regions[4] = Region { size: 0x10, readable: false, writable: true };
    shape.regions[region::CONFIG] = Region::of(4096);
    shape.irqs = [1, 0, 4, 1, 1];
    shape.max_maps = 4;
    shape
}

fn joined() -> Session {
    let mut session = Session::new(&shape());
    session.receive(&version(0, 0, QEMU), []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    sent(&mut session);
    session
}

/// Any descriptor.
fn fd() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// Returns the only message to send.
fn answer(session: &mut Session) -> Wire {
    let mut replies = sent(session);
    assert_eq!(replies.len(), 1, "{replies:?}");
    replies.remove(0)
}

/// Returns the error of a command with these descriptors; zero if it succeeds.
fn errno_with(session: &mut Session, number: u16, payload: &[u8], fds: usize) -> u32 {
    session.receive(&command(9, number, payload), (0..fds).map(|_| fd()));
    while let Some(event) = session.poll() {
        match event {
            Event::Read { token, len, .. } => session.complete(token, Ok(&vec![0; len])),
            Event::Write { token, .. }
            | Event::Map { token, .. }
            | Event::Unmap { token, .. }
            | Event::Reset { token } => session.complete(token, Ok(&[])),
            Event::Refused(refusal) => {
                assert!(!refusal.to_string().is_empty())
            }
            Event::Irqs(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let reply = answer(session);
    assert_eq!((reply.id, reply.command, reply.flags & 0xf), (9, number, 1));
    assert_eq!(reply.flags & 0x20 != 0, reply.error != 0);
    assert!(reply.error == 0 || reply.payload.is_empty());
    reply.error
}

fn errno(session: &mut Session, number: u16, payload: &[u8]) -> u32 {
    errno_with(session, number, payload, 0)
}

fn access(offset: u64, region: u32, count: u32) -> Vec<u8> {
    [longs(&[offset]), words(&[region, count])].concat()
}

fn map(address: u64, size: u64, offset: u64, flags: u32) -> Vec<u8> {
    [words(&[32, flags]), longs(&[offset, address, size])].concat()
}

fn unmap(address: u64, size: u64, flags: u32) -> Vec<u8> {
    [words(&[24, flags]), longs(&[address, size])].concat()
}

#[test]
fn agrees_with_qemu() {
    let mut session = Session::new(&shape());
    let proposed = version(7, 0, QEMU);
    session.receive(&proposed, []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    let reply = answer(&mut session);
    assert_eq!((reply.id, reply.command, reply.flags), (7, 1, 1));
    assert_eq!(reply.payload[..4], [0; 4]);
    let text = std::str::from_utf8(&reply.payload[4..]).unwrap();
    assert_eq!(
        text,
        "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576,\"pgsizes\":4096,\"max_dma_maps\":4,\"write_multiple\":true}}\0"
    );
    // QEMU's buffer for the reply has only the size of its request.
    assert!(16 + reply.payload.len() <= proposed.len());
}

/// The reply has no capability that was not proposed, and no later version.
#[test]
fn reply_has_only_proposed_capabilities() {
    for (minor, json, answered, text) in [
        (0, "", 0, ""),
        (1, "", 1, ""),
        (9, "", 1, ""),
        (0, "{}", 0, "{}\0"),
        (0, r#"{"capabilities": {}}"#, 0, "{\"capabilities\":{}}\0"),
        (
            1,
            r#"{"capabilities": {"max_msg_fds": 1, "new": {"a": []}}, "b": 1}"#,
            1,
            "{\"capabilities\":{\"max_msg_fds\":16}}\0",
        ),
        (
            0,
            r#"{"capabilities": {"write_multiple": false}}"#,
            0,
            "{\"capabilities\":{\"write_multiple\":false}}\0",
        ),
    ] {
        let mut session = Session::new(&shape());
        session.receive(&version(1, minor, json), []);
        assert!(matches!(session.poll(), Some(Event::Joined)), "{json}");
        let reply = answer(&mut session);
        assert_eq!(reply.payload, [&[0, 0, answered, 0], text.as_bytes()].concat(), "{json}");
    }
}

#[test]
fn rejects_unsupported_versions() {
    let text = |bytes: &[u8]| command(1, 1, &[&[0; 4], bytes].concat());
    let rows: [(Vec<u8>, VersionError); 8] = [
        (command(1, 1, &[0; 3]), VersionError::Length(3)),
        (command(1, 1, &[1, 0, 0, 0]), VersionError::Major(1)),
        (text(b"{}"), VersionError::Nul),
        (text(b"{}\0\0"), VersionError::Nul),
        (text(b"\0"), VersionError::Json("EOF while parsing a value at line 1 column 0".into())),
        (
            text(b"[1]\0"),
            VersionError::Json(
                "invalid type: integer `1`, expected struct Capabilities at line 1 column 2".into(),
            ),
        ),
        (
            text(b"{\"capabilities\":{\"max_msg_fds\":-1}}\0"),
            VersionError::Json("invalid value: integer `-1`, expected u64 at line 1 column 33".into()),
        ),
        (message(1, 1, 0x10, &[0; 4]), VersionError::Flags(0x10)),
    ];
    for (bytes, error) in rows {
        let mut session = Session::new(&shape());
        session.receive(&bytes, []);
        let Some(Event::HangUp(HangUp::Version(why))) = session.poll() else { panic!("{error}") };
        assert_eq!(why, error);
        assert!(session.is_over() && session.poll().is_none());
        // The client gets the error if it has requested a reply.
        assert_eq!(
            sent(&mut session).iter().map(|reply| reply.error).sum::<u32>(),
            if error == VersionError::Flags(0x10) { 0 } else { EINVAL }
        );
    }
}

#[test]
fn version_comes_first_and_once() {
    for number in (0..32).filter(|number| *number != 1) {
        let mut session = Session::new(&shape());
        session.receive(&command(1, number, &access(0, 7, 4)), []);
        let Some(Event::HangUp(why)) = session.poll() else { panic!("{number}") };
        assert_eq!(why, HangUp::NoVersion(number));
        assert!(sent(&mut session).is_empty());
        session.receive(&version(1, 0, ""), []);
        assert!(session.poll().is_none());
    }
    assert_eq!(errno(&mut joined(), 1, &[0; 4]), EINVAL);
}

#[test]
fn describes_regions_and_interrupts() {
    let mut session = joined();
    session.receive(&command(1, 4, &words(&[16, 0, 0, 0])), []);
    assert!(session.poll().is_none());
    assert_eq!(answer(&mut session).payload, words(&[16, 3, 9, 5]));
    for (index, flags, size) in
        [(0, 3, 0x2000), (1, 0, 0), (2, 1, 0x1001), (4, 2, 0x10), (7, 3, 4096), (8, 0, 0)]
    {
        session.receive(&command(1, 5, &[words(&[32, 0, index, 0]), longs(&[0, 0])].concat()), []);
        assert!(session.poll().is_none());
        let expected = [words(&[32, flags, index, 0]), longs(&[size, 0])].concat();
        assert_eq!(answer(&mut session).payload, expected, "region {index}");
        session.receive(&command(1, 6, &words(&[4096, 0, index, 0])), []);
        assert!(session.poll().is_none());
        assert_eq!(answer(&mut session).payload, words(&[16, 0, index, 0]));
    }
    for (index, flags, count) in [(0, 7, 1), (1, 3, 0), (2, 3, 4), (3, 1, 1), (4, 1, 1)] {
        session.receive(&command(1, 7, &words(&[16, 0, index, 0])), []);
        assert!(session.poll().is_none());
        assert_eq!(answer(&mut session).payload, words(&[16, flags, index, count]), "type {index}");
    }
}

/// Every command with each wrong payload length, and with descriptors that it does not accept.
#[test]
fn rejects_wrong_lengths_and_descriptors() {
    let rows: [(u16, Vec<u8>, usize); 12] = [
        (2, map(0, 0x1000, 0, 3), 1),
        (3, unmap(0, 0x1000, 0), 0),
        (4, words(&[16, 0, 0, 0]), 0),
        (5, [words(&[32, 0, 0, 0]), longs(&[0, 0])].concat(), 0),
        (6, words(&[16, 0, 0, 0]), 0),
        (7, words(&[16, 0, 0, 0]), 0),
        (8, words(&[20, 0x24, 2, 0, 3]), 3),
        (9, access(0, 0, 4), 0),
        (10, [access(0, 0, 4), vec![1; 4]].concat(), 0),
        (13, vec![], 0),
        (15, [longs(&[1]), access(0, 0, 4), vec![1; 8]].concat(), 0),
        (8, [words(&[23, 0x22, 2, 0, 3]), vec![1; 3]].concat(), 0),
    ];
    for (number, payload, fds) in rows {
        let mut session = joined();
        if number == 3 {
            assert_eq!(errno(&mut session, 2, &map(0, 0x1000, 0, 3)), 0);
        }
        for len in (0..payload.len() + 3).filter(|len| *len != payload.len()) {
            let mut wrong = payload.clone();
            wrong.resize(len, 0);
            assert_eq!(errno_with(&mut session, number, &wrong, fds), EINVAL, "{number}: {len} bytes");
        }
        for wrong in (1..=16).filter(|count| *count != fds) {
            let takes = number == 2 && wrong == 0;
            assert!(
                takes || errno_with(&mut session, number, &payload, wrong) == EINVAL,
                "{number}: {wrong} descriptors"
            );
        }
        assert_eq!(errno_with(&mut session, number, &payload, fds), 0, "{number}");
    }
}

#[test]
fn rejects_illegal_fields() {
    let region = |argsz, flags, index, cap, size, offset| {
        [words(&[argsz, flags, index, cap]), longs(&[size, offset])].concat()
    };
    let rows: Vec<(u16, Vec<u8>, u32)> = vec![
        (4, words(&[15, 0, 0, 0]), EINVAL),
        (4, words(&[16, 1, 0, 0]), EINVAL),
        (4, words(&[16, 0, 1, 0]), EINVAL),
        (4, words(&[16, 0, 0, 1]), EINVAL),
        (4, words(&[u32::MAX, 0, 0, 0]), 0),
        (5, region(31, 0, 0, 0, 0, 0), EINVAL),
        (5, region(32, 1, 0, 0, 0, 0), EINVAL),
        (5, region(32, 0, 9, 0, 0, 0), EINVAL),
        (5, region(32, 0, 0, 1, 0, 0), EINVAL),
        (5, region(32, 0, 0, 0, 1, 0), EINVAL),
        (5, region(32, 0, 0, 0, 0, 1), EINVAL),
        (5, region(4096, 0, 8, 0, 0, 0), 0),
        (6, words(&[15, 0, 0, 0]), EINVAL),
        (6, words(&[16, 1, 0, 0]), EINVAL),
        (6, words(&[16, 0, 9, 0]), EINVAL),
        (6, words(&[16, 0, 0, 1]), EINVAL),
        (7, words(&[15, 0, 0, 0]), EINVAL),
        (7, words(&[16, 1, 0, 0]), EINVAL),
        (7, words(&[16, 0, 5, 0]), EINVAL),
        (7, words(&[16, 0, 0, 1]), EINVAL),
        // Unknown commands, the server's own commands, and those of migration.
        (0, vec![], ENOSYS),
        (11, access(0, 0, 0), EINVAL),
        (12, access(0, 0, 0), EINVAL),
        (14, vec![0; 24], ENOTSUP),
        (16, words(&[8, 0x4_0001]), ENOTSUP),
        (17, vec![0; 8], ENOTSUP),
        (18, vec![0; 8], ENOTSUP),
        (19, vec![], ENOSYS),
        (0xffff, vec![], ENOSYS),
    ];
    let mut session = joined();
    for (number, payload, expected) in rows {
        assert_eq!(errno(&mut session, number, &payload), expected, "{number}: {payload:x?}");
    }
}

#[test]
fn rejects_illegal_header_flags() {
    for flags in [0x20, 0x40, 0x8000_0000, 0x30] {
        let mut session = joined();
        session.receive(&message(1, 9, flags, &access(0, 7, 4)), []);
        assert!(matches!(session.poll(), Some(Event::Refused(Refusal::HeaderFlags { command: 9, .. }))));
        let errors: Vec<u32> = sent(&mut session).iter().map(|reply| reply.error).collect();
        assert_eq!(errors, if flags & 0x10 == 0 { vec![EINVAL] } else { vec![] });
    }
    for kind in 2..16 {
        let mut session = joined();
        session.receive(&message(1, 9, kind, &access(0, 7, 4)), []);
        assert!(matches!(session.poll(), Some(Event::HangUp(HangUp::Type { command: 9, .. }))));
    }
}

#[test]
fn rejects_illegal_message_sizes() {
    let most = 32 + (1 << 20);
    for (size, is_legal) in
        [(0, false), (15, false), (16, true), (most, true), (most + 1, false), (u32::MAX, false)]
    {
        let mut session = joined();
        let header = [&[1, 0, 9, 0][..], &words(&[size, 0, 0])].concat();
        session.receive(&header, []);
        match session.poll() {
            // Too short for the command, or incomplete.
            Some(Event::Refused(_)) => assert!(is_legal && size == 16),
            None => assert!(is_legal && size > 16 && session.room() > 0),
            Some(Event::HangUp(why)) => {
                assert!(!is_legal);
                assert_eq!(why.to_string(), format!("REGION_READ of {size} bytes, expected 16 to {most}"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn reads_are_answered_in_any_order() {
    let mut session = joined();
    session.receive(&[command(1, 9, &access(0, 7, 4)), command(2, 9, &access(4, 7, 2))].concat(), []);
    let Some(Event::Read { token: first, region: 7, offset: 0, len: 4 }) = session.poll() else { panic!() };
    let Some(Event::Read { token: second, region: 7, offset: 4, len: 2 }) = session.poll() else { panic!() };
    assert!(session.poll().is_none());
    session.complete(second, Ok(&[5, 6]));
    session.complete(first, Ok(&[1, 2, 3, 4]));
    // A second completion, and a completion with a token of another session, are ignored.
    session.complete(first, Ok(&[1, 2, 3, 4]));
    joined().complete(first, Err(Errno::IO));
    let replies = sent(&mut session);
    assert_eq!(replies.iter().map(|reply| reply.id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(replies[0].payload, [access(4, 7, 2), vec![5, 6]].concat());
    assert_eq!(replies[1].payload, [access(0, 7, 4), vec![1, 2, 3, 4]].concat());
}

#[test]
fn failed_accesses_return_errors() {
    let mut session = joined();
    session.receive(&command(1, 9, &access(0, 7, 4)), []);
    let Some(Event::Read { token, .. }) = session.poll() else { panic!() };
    session.complete(token, Err(Errno::NODEV));
    assert_eq!(answer(&mut session).error, 19);
    session.receive(&command(1, 9, &access(0, 7, 4)), []);
    let Some(Event::Read { token, .. }) = session.poll() else { panic!() };
    session.complete(token, Ok(&[1, 2, 3]));
    assert_eq!(answer(&mut session).error, 5);
}

#[test]
fn checks_accesses_at_region_boundaries() {
    let mut session = joined();
    for (offset, region, count, reading, writing) in [
        (0, 0, 0x2000, 0, 0),
        (0, 0, 0x2001, EINVAL, EINVAL),
        (0x1fff, 0, 1, 0, 0),
        (0x1fff, 0, 2, EINVAL, EINVAL),
        (0x2000, 0, 0, 0, 0),
        (0x2001, 0, 0, EINVAL, EINVAL),
        (0x2000, 0, 1, EINVAL, EINVAL),
        (u64::MAX, 0, 1, EINVAL, EINVAL),
        (u64::MAX - 3, 0, 4, EINVAL, EINVAL),
        (0x1000, 2, 1, 0, EPERM),
        (0x1000, 2, 2, EINVAL, EINVAL),
        (0xf, 4, 1, EPERM, 0),
        (0, 1, 1, EINVAL, EINVAL),
        (0, 9, 1, EINVAL, EINVAL),
        (0, u32::MAX, 1, EINVAL, EINVAL),
    ] {
        let at = access(offset, region, count);
        assert_eq!(errno(&mut session, 9, &at), reading, "{count} bytes read at {offset:#x} of {region}");
        let data = vec![1; count as usize];
        let written = errno(&mut session, 10, &[at, data].concat());
        assert_eq!(written, writing, "{count} bytes written at {offset:#x} of {region}");
    }
    // Longer than the agreed limit, in a region that is large enough.
    let mut shape = shape();
    shape.regions[0] = Region::of(1 << 30);
    shape.max_transfer = 0x1_0000;
    let mut session = Session::new(&shape);
    session.receive(&version(0, 0, ""), []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    sent(&mut session);
    assert_eq!(errno(&mut session, 9, &access(0, 0, 0x1_0000)), 0);
    assert_eq!(errno(&mut session, 9, &access(0, 0, 0x1_0001)), EINVAL);
}

#[test]
fn posted_writes_are_not_answered() {
    let mut session = joined();
    let write = [access(0x10, 0, 4), vec![1, 2, 3, 4]].concat();
    for result in [Ok(&[][..]), Err(Errno::IO)] {
        session.receive(&message(1, 10, 0x10, &write), []);
        let Some(Event::Write { token, region: 0, offset: 0x10, data, posted: true }) = session.poll() else {
            panic!()
        };
        assert_eq!(data[..], [1, 2, 3, 4]);
        session.complete(token, result);
        assert!(sent(&mut session).is_empty());
    }
    // A refused posted write gets no reply either, but an event reports it.
    session.receive(&message(1, 10, 0x10, &[access(0x2000, 0, 4), vec![1, 2, 3, 4]].concat()), []);
    let Some(Event::Refused(refusal)) = session.poll() else { panic!() };
    assert_eq!(refusal.to_string(), "REGION_WRITE: 4 bytes at 0x2000 of region 0, which has 0x2000 bytes");
    assert!(sent(&mut session).is_empty());
    session.receive(&command(2, 10, &write), []);
    let Some(Event::Write { token, posted: false, .. }) = session.poll() else { panic!() };
    session.complete(token, Ok(&[]));
    assert_eq!(answer(&mut session).payload, access(0x10, 0, 4));
}

#[test]
fn executes_all_writes_of_one_message() {
    let entry =
        |offset, region, count, data: [u8; 8]| [access(offset, region, count), data.to_vec()].concat();
    let entries =
        [entry(0, 0, 8, [1; 8]), entry(0x1ffe, 0, 2, [2; 8]), entry(0, 0, 0, [9; 8]), entry(4, 7, 1, [3; 8])];
    let all = [longs(&[4]), entries.concat()].concat();
    let mut session = joined();
    for (flags, fails) in [(0, false), (0, true), (0x10, false)] {
        session.receive(&message(5, 15, flags, &all), []);
        let mut tokens = Vec::new();
        for (expected, at) in [(vec![1; 8], (0, 0)), (vec![2; 2], (0, 0x1ffe)), (vec![3; 1], (7, 4))] {
            let Some(Event::Write { token, region, offset, data, posted }) = session.poll() else { panic!() };
            assert_eq!((data.to_vec(), (region, offset), posted), (expected, at, flags != 0));
            tokens.push(token);
        }
        assert!(session.poll().is_none());
        // Completed in reverse order.
        for (n, token) in tokens.into_iter().enumerate().rev() {
            assert!(session.outgoing().is_empty());
            session.complete(token, if fails && n == 1 { Err(Errno::IO) } else { Ok(&[]) });
        }
        match sent(&mut session).pop() {
            None => assert_eq!(flags, 0x10),
            Some(reply) if fails => assert_eq!((reply.error, reply.payload.len()), (5, 0)),
            Some(reply) => assert_eq!(reply.payload, longs(&[4])),
        }
    }
    // With one wrong entry, no entry is executed.
    for (wrong, expected) in [
        (entry(0, 0, 9, [1; 8]), EINVAL),
        (entry(0x1ff9, 0, 8, [1; 8]), EINVAL),
        (entry(0, 9, 1, [1; 8]), EINVAL),
        (entry(0, 2, 1, [1; 8]), EPERM),
    ] {
        session.receive(&command(1, 15, &[longs(&[2]), entries[0].clone(), wrong].concat()), []);
        assert!(matches!(session.poll(), Some(Event::Refused(_))) && session.poll().is_none());
        assert_eq!(answer(&mut session).error, expected);
    }
    for (count, data) in [(0u64, 0), (200, 200)] {
        session.receive(&command(1, 15, &[longs(&[count]), entries[0].repeat(data)].concat()), []);
        let mut writes = 0;
        while let Some(event) = session.poll() {
            let Event::Write { token, .. } = event else { panic!("{event:?}") };
            session.complete(token, Ok(&[]));
            writes += 1;
        }
        assert_eq!((writes, answer(&mut session).payload), (count, longs(&[count])));
    }
    for count in [3, 5, 1 << 20, u64::MAX, u64::MAX / 24 + 1] {
        let payload = [longs(&[count]), entries.concat()].concat();
        assert_eq!(errno(&mut session, 15, &payload), EINVAL, "{count}");
    }
}

#[test]
fn accepts_valid_maps_and_rejects_invalid_ones() {
    let mut session = joined();
    session.receive(&command(1, 2, &map(0x1000, 0x3000, 0x5000, 3)), [fd()]);
    let Some(Event::Map { token, map: mapped, fd: Some(_), fd_offset: 0x5000 }) = session.poll() else {
        panic!()
    };
    assert_eq!((mapped.address, mapped.size), (0x1000, 0x3000));
    assert_eq!(mapped.access, DmaAccess { read: true, write: true });
    session.complete(token, Ok(&[]));
    assert!(answer(&mut session).payload.is_empty());
    let rows: [(Vec<u8>, u32); 20] = [
        // Overlaps an existing map: the same range, around it, at either end, within.
        (map(0x1000, 0x3000, 0, 3), EEXIST),
        (map(0, 0x10000, 0, 3), EEXIST),
        (map(0, 0x2000, 0, 3), EEXIST),
        (map(0x3000, 0x2000, 0, 3), EEXIST),
        (map(0x2000, 0x1000, 0, 3), EEXIST),
        // Invalid ranges.
        (map(0x8000, 0, 0, 3), EINVAL),
        (map(0x8800, 0x1000, 0, 3), EINVAL),
        (map(0x8000, 0x800, 0, 3), EINVAL),
        (map(0x0u64.wrapping_sub(0x1000), 0x1000, 0, 3), EINVAL),
        (map(0x0u64.wrapping_sub(0x1000), 0x2000, 0, 3), EINVAL),
        (map(0x8000, 0x0u64.wrapping_sub(0x1000), 0, 3), EINVAL),
        (map(0x8000, 0x1000, 0x800, 3), EINVAL),
        (map(0x8000, 0x1000, 0x7fff_ffff_ffff_f000, 3), EINVAL),
        (map(0x8000, 0x1000, 0xffff_ffff_ffff_f000, 3), EINVAL),
        (map(0x8000, 0x1000, 0, 0), EINVAL),
        (map(0x8000, 0x1000, 0, 4), EINVAL),
        ([words(&[31, 3]), longs(&[0, 0x8000, 0x1000])].concat(), EINVAL),
        // Adjacent on either side, and the fourth map.
        (map(0, 0x1000, 0, 1), 0),
        (map(0x4000, 0x1000, 0, 2), 0),
        (map(0x0u64.wrapping_sub(0x2000), 0x1000, 0, 3), 0),
    ];
    for (payload, expected) in rows {
        assert_eq!(errno_with(&mut session, 2, &payload, 1), expected, "{payload:x?}");
    }
    assert_eq!(errno(&mut session, 2, &map(0x10000, 0x1000, 0, 3)), ENOSPC);
    let all: Vec<_> = session.maps().map(|map| (map.address, map.size)).collect();
    assert_eq!(all, [(0, 0x1000), (0x1000, 0x3000), (0x4000, 0x1000), (0u64.wrapping_sub(0x2000), 0x1000)]);
    for (payload, expected) in [
        (unmap(0x1000, 0x1000, 0), EINVAL),
        (unmap(0x2000, 0x1000, 0), EINVAL),
        (unmap(0, 0x3000, 0), EINVAL),
        (unmap(0x3000, 0x4000, 0), EINVAL),
        (unmap(0x1000, u64::MAX, 0), EINVAL),
        (unmap(0x1000, 0, 0), EINVAL),
        // Unmapping an unmapped range does nothing.
        (unmap(0x5000, 0x1000, 0), 0),
        (unmap(0x5000, 0x100_0000_0000, 0), 0),
        (unmap(0x1000, 0x3000, 1), ENOTSUP),
        (unmap(0x1000, 0x3000, 4), EINVAL),
        (unmap(0, 0x3000, 2), EINVAL),
        ([words(&[23, 0]), longs(&[0x1000, 0x3000])].concat(), EINVAL),
    ] {
        assert_eq!(errno(&mut session, 3, &payload), expected, "{payload:x?}");
    }
    assert_eq!(session.maps().count(), 4);
    // The reply comes with the completion and repeats the request.
    session.receive(&command(1, 3, &unmap(0x1000, 0x3000, 0)), []);
    let Some(Event::Unmap { token, maps }) = session.poll() else { panic!() };
    assert_eq!(maps, [mapped]);
    assert!(session.outgoing().is_empty());
    session.complete(token, Ok(&[]));
    assert_eq!(answer(&mut session).payload, unmap(0x1000, 0x3000, 0));
    // All maps within a range.
    session.receive(&command(1, 3, &unmap(0, 0x1_0000, 0)), []);
    let Some(Event::Unmap { token, maps }) = session.poll() else { panic!() };
    assert_eq!(maps.iter().map(|map| map.address).collect::<Vec<_>>(), [0, 0x4000]);
    session.complete(token, Ok(&[]));
    assert_eq!(answer(&mut session).payload, unmap(0, 0x1_0000, 0));
    for left in [1, 0] {
        session.receive(&command(1, 3, &unmap(0, 0, 2)), []);
        let Some(Event::Unmap { token, maps }) = session.poll() else { panic!() };
        assert_eq!(maps.len(), left);
        session.complete(token, Ok(&[]));
        assert_eq!(answer(&mut session).payload, unmap(0, 0, 2));
    }
}

/// Without a descriptor the offset has no meaning. A map that fails is not added.
#[test]
fn maps_without_descriptor_ignore_the_offset() {
    let mut session = joined();
    session.receive(&command(1, 2, &map(0x1000, 0x1000, 0x123, 1)), []);
    let Some(Event::Map { token, fd: None, .. }) = session.poll() else { panic!() };
    session.complete(token, Err(Errno::NOMEM));
    assert_eq!(answer(&mut session).error, 12);
    assert_eq!(session.maps().count(), 0);
    assert_eq!(errno(&mut session, 2, &map(0x1000, 0x1000, 0, 1)), 0);
}

/// The DEVICE_SET_IRQS that QEMU sends for MSI-X.
#[test]
fn sets_up_msix_as_qemu_does() {
    let mut session = joined();
    let set = |session: &mut Session, fields: [u32; 5], fds: usize| {
        session.receive(&command(1, 8, &words(&fields)), (0..fds).map(|_| fd()));
        let Some(Event::Irqs(irqs)) = session.poll() else { panic!("{fields:x?}") };
        assert_eq!(answer(session).error, 0);
        (irqs.irq, irqs.first, irqs.count, irqs.change)
    };
    let assigned =
        |session: &Session| (0..4).filter(|n| session.vector(Irq::Msix, *n).is_some()).collect::<Vec<_>>();
    assert_eq!(set(&mut session, [20, 0x21, 2, 0, 0], 0), (Irq::Msix, 0, 4, IrqChange::Unassigned));
    for count in 1..=3 {
        let change = set(&mut session, [20, 0x24, 2, 0, count], count as usize);
        assert_eq!(change, (Irq::Msix, 0, count, IrqChange::Assigned));
    }
    assert_eq!(assigned(&session), [0, 1, 2]);
    assert_eq!(set(&mut session, [20, 0x24, 2, 1, 1], 0), (Irq::Msix, 1, 1, IrqChange::Unassigned));
    assert_eq!(assigned(&session), [0, 2]);
    // Part of a longer list.
    assert_eq!(set(&mut session, [20, 0x24, 2, 3, 1], 1), (Irq::Msix, 3, 1, IrqChange::Assigned));
    assert_eq!(assigned(&session), [0, 2, 3]);
    assert!(session.vector(Irq::Msix, 4).is_none() && session.vector(Irq::Intx, 0).is_none());
    assert!(session.signal(Irq::Msix, 3).is_some() && session.signal(Irq::Msix, 3).is_some());
    assert!(session.signal(Irq::Msix, 1).is_none() && session.signal(Irq::Msix, u32::MAX).is_none());
    assert_eq!(set(&mut session, [20, 0x9, 2, 3, 1], 0), (Irq::Msix, 3, 1, IrqChange::Masked));
    assert!(session.signal(Irq::Msix, 3).is_none() && session.vector(Irq::Msix, 3).is_some());
    assert_eq!(set(&mut session, [20, 0x11, 2, 3, 1], 0), (Irq::Msix, 3, 1, IrqChange::Unmasked));
    assert!(session.signal(Irq::Msix, 3).is_some());
    assert_eq!(set(&mut session, [20, 0x21, 2, 2, 1], 0), (Irq::Msix, 2, 1, IrqChange::Triggered));
    assert_eq!(set(&mut session, [20, 0x21, 2, 0, 0], 0), (Irq::Msix, 0, 4, IrqChange::Unassigned));
    assert!(assigned(&session).is_empty());
}

/// A wire is masked when it is signalled (`VFIO_IRQ_INFO_AUTOMASKED`).
#[test]
fn signal_masks_a_level_interrupt() {
    let mut session = joined();
    assert_eq!(errno_with(&mut session, 8, &words(&[20, 0x24, 0, 0, 1]), 1), 0);
    for _ in 0..2 {
        assert!(!session.is_masked(Irq::Intx, 0) && session.signal(Irq::Intx, 0).is_some());
        assert!(session.is_masked(Irq::Intx, 0) && session.signal(Irq::Intx, 0).is_none());
        session.receive(&command(1, 8, &words(&[20, 0x11, 0, 0, 1])), []);
        let Some(Event::Irqs(irqs)) = session.poll() else { panic!() };
        assert_eq!((irqs.irq, irqs.change), (Irq::Intx, IrqChange::Unmasked));
        assert_eq!(answer(&mut session).error, 0);
    }
}

#[test]
fn booleans_select_interrupts_within_a_range() {
    let mut session = joined();
    session.receive(&command(1, 8, &[words(&[24, 0xa, 2, 0, 4]), vec![1, 0, 255, 0]].concat()), []);
    let mut masked = Vec::new();
    while let Some(Event::Irqs(irqs)) = session.poll() {
        assert_eq!((irqs.count, irqs.change), (1, IrqChange::Masked));
        masked.push(irqs.first);
    }
    assert_eq!(masked, [0, 2]);
    assert_eq!([0, 1, 2, 3].map(|n| session.is_masked(Irq::Msix, n)), [true, false, true, false]);
}

#[test]
fn rejects_illegal_interrupt_commands() {
    let mut session = joined();
    for (fields, fds) in [
        // Out of range of the type, or an unknown type.
        ([20, 0x24, 5, 0, 1], 1),
        ([20, 0x24, u32::MAX, 0, 1], 1),
        ([20, 0x24, 2, 4, 1], 1),
        ([20, 0x24, 2, 0, 5], 5),
        ([20, 0x24, 1, 0, 1], 1),
        ([20, 0x21, 2, u32::MAX, 2], 0),
        ([20, 0x21, 2, 2, u32::MAX], 0),
        // No flags, two of a kind, unknown flags, and actions that the type lacks.
        ([20, 0, 2, 0, 1], 0),
        ([20, 0x1, 2, 0, 1], 0),
        ([20, 0x20, 2, 0, 1], 0),
        ([20, 0x25, 2, 0, 1], 1),
        ([20, 0x31, 2, 0, 1], 0),
        ([20, 0x61, 2, 0, 1], 0),
        ([20, 0x9, 3, 0, 1], 0),
        ([20, 0x11, 4, 0, 1], 0),
        ([20, 0xc, 0, 0, 1], 1),
        ([20, 0x14, 0, 0, 1], 1),
        // Other ways to address a whole type.
        ([20, 0x21, 2, 1, 0], 0),
        ([20, 0x24, 2, 0, 0], 0),
        ([20, 0x9, 2, 0, 0], 0),
        // Descriptors for only a part, too many, or for a type without.
        ([20, 0x24, 2, 0, 3], 2),
        ([20, 0x24, 2, 0, 3], 4),
        ([20, 0x21, 2, 0, 1], 1),
        ([19, 0x21, 2, 0, 1], 0),
        ([24, 0x21, 2, 0, 1], 0),
    ] {
        assert_eq!(
            errno_with(&mut session, 8, &words(&fields), fds),
            EINVAL,
            "{fields:x?}, {fds} descriptors"
        );
    }
    assert!((0..4).all(|n| session.vector(Irq::Msix, n).is_none() && !session.is_masked(Irq::Msix, n)));
}

#[test]
fn completes_resets() {
    let mut session = joined();
    session.receive(&command(3, 13, &[]), []);
    let Some(Event::Reset { token }) = session.poll() else { panic!() };
    assert!(session.outgoing().is_empty());
    session.complete(token, Ok(&[]));
    assert_eq!(answer(&mut session).id, 3);
}

/// Returns a session with a map without descriptor, at 0x1000.
fn with_memory(flags: u32) -> Session {
    let mut session = joined();
    assert_eq!(errno(&mut session, 2, &map(0x1000, 0x2000, 0, flags)), 0);
    session
}

fn reply_to(asked: &Wire, flags: u32, payload: &[u8]) -> Vec<u8> {
    message(asked.id, asked.command, 1 | flags, payload)
}

#[test]
fn dma_by_message_completes_in_any_order() {
    let mut session = with_memory(3);
    let written = session.dma_write(0x1ffc, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let read = session.dma_read(0x2fff, 1).unwrap();
    let asked = sent(&mut session);
    assert_eq!(asked.iter().map(|m| (m.command, m.flags)).collect::<Vec<_>>(), [(12, 0), (11, 0)]);
    assert_eq!(asked[0].payload, [longs(&[0x1ffc, 8]), vec![1, 2, 3, 4, 5, 6, 7, 8]].concat());
    assert_eq!(asked[1].payload, longs(&[0x2fff, 1]));
    // In any order, and between commands.
    session.receive(&reply_to(&asked[1], 0, &[longs(&[0x2fff, 1]), vec![0xaa]].concat()), []);
    session.receive(&command(asked[0].id, 9, &access(0, 7, 4)), []);
    session.receive(&reply_to(&asked[0], 0, &[]), []);
    let Some(Event::Dma { dma, result }) = session.poll() else { panic!() };
    assert_eq!((dma, result), (read, Ok(vec![0xaa])));
    assert!(matches!(session.poll(), Some(Event::Read { .. })));
    let Some(Event::Dma { dma, result }) = session.poll() else { panic!() };
    assert_eq!((dma, result), (written, Ok(vec![])));
    // Reply lengths that clients use for a write.
    for payload in [vec![], [longs(&[0x1000]), words(&[2])].concat(), longs(&[0x1000, 2])] {
        session.dma_write(0x1000, &[1, 2]).unwrap();
        let asked = answer(&mut session);
        session.receive(&reply_to(&asked, 0, &payload), []);
        assert!(matches!(session.poll(), Some(Event::Dma { result: Ok(_), .. })));
    }
    for (error, errno) in [(14, Errno::FAULT), (0, Errno::IO), (u32::MAX, Errno::IO)] {
        session.dma_read(0x1000, 4).unwrap();
        let asked = answer(&mut session);
        let mut reply = reply_to(&asked, 0x20, &[]);
        reply[12..16].copy_from_slice(&error.to_le_bytes());
        session.receive(&reply, []);
        let Some(Event::Dma { result, .. }) = session.poll() else { panic!() };
        assert_eq!(result, Err(errno));
    }
}

/// The format of QEMU 10.1: an address, a count of 32 bits, data, and four bytes that it counts but does not fill.
#[test]
fn dma_by_message_detects_truncated_counts() {
    let mut session = with_memory(3);
    let narrow = |data: [u8; 4]| [longs(&[0x1000]), words(&[4]), data.to_vec(), vec![0; 4]].concat();
    // Zeros look the same in both formats. Other data show the client's format; then zeros are unambiguous.
    for data in [[0; 4], [1, 2, 3, 4], [0, 0, 0, 5]] {
        session.dma_read(0x1000, 4).unwrap();
        let asked = answer(&mut session);
        assert_eq!(asked.payload, longs(&[0x1000, 4]));
        session.receive(&reply_to(&asked, 0, &narrow(data)), []);
        let Some(Event::Dma { result, .. }) = session.poll() else { panic!() };
        assert_eq!(result, Ok(data.to_vec()));
    }
    session.dma_write(0x1000, &[1, 2, 3, 4]).unwrap();
    assert_eq!(answer(&mut session).payload, narrow([1, 2, 3, 4]));
}

#[test]
fn rejects_illegal_dma_by_message() {
    assert_eq!(Session::new(&shape()).dma_read(0, 1), Err(DmaError::NotOpen));
    let mut session = with_memory(3);
    let unmapped = |address, bytes| Err(DmaError::NotMapped { address, bytes });
    for (address, len) in [(0xfff, 1), (0xfff, 2), (0x3000, 1), (0x2fff, 2), (u64::MAX, 1)] {
        assert_eq!(session.dma_read(address, len), unmapped(address, len));
        assert_eq!(session.dma_write(address, &vec![0; len as usize]), unmapped(address, len));
    }
    let most = 1 << 20;
    assert_eq!(session.max_dma(), most);
    for bytes in [0, most + 1, u64::MAX] {
        assert_eq!(session.dma_read(0x1000, bytes), Err(DmaError::Length { bytes, most }));
    }
    assert_eq!(with_memory(1).dma_write(0x1000, &[1]), unmapped(0x1000, 1));
    assert_eq!(with_memory(2).dma_read(0x1000, 1), unmapped(0x1000, 1));
    for _ in 0..MAX_DMA {
        session.dma_read(0x1000, 1).unwrap();
    }
    assert_eq!(session.dma_read(0x1000, 1), Err(DmaError::TooMany));
    // A client with a smaller limit.
    let mut session = Session::new(&shape());
    session.receive(&version(0, 0, r#"{"capabilities":{"max_data_xfer_size":16}}"#), []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    assert_eq!(session.max_dma(), 16);
}

#[test]
fn mismatched_replies_end_the_session() {
    let good = [longs(&[0x1000, 4]), vec![1, 2, 3, 4]].concat();
    for (id, number, payload) in [
        (1, 11, good.clone()),
        (0, 12, good.clone()),
        (0, 9, good.clone()),
        (0, 11, good[..19].to_vec()),
        (0, 11, [&good[..], &[5]].concat()),
        (0, 11, vec![]),
        (0, 11, [longs(&[0x1001, 4]), vec![1, 2, 3, 4]].concat()),
        (0, 11, [longs(&[0x1000, 3]), vec![1, 2, 3, 4]].concat()),
        (0, 11, [longs(&[0x1000, 5 | 1 << 32]), vec![1, 2, 3, 4]].concat()),
    ] {
        let mut session = with_memory(3);
        session.dma_read(0x1000, 4).unwrap();
        let asked = answer(&mut session);
        session.receive(&message(asked.id + id, number, 1, &payload), []);
        let event = session.poll();
        assert!(
            matches!(event, Some(Event::HangUp(HangUp::Reply { .. } | HangUp::Misfit { .. }))),
            "{event:?}"
        );
        assert!(session.poll().is_none() && session.maps().count() == 0);
    }
    for payload in
        [vec![0; 11], longs(&[0x1000, 5]), longs(&[0x1001, 4]), [longs(&[0x1000]), words(&[5])].concat()]
    {
        let mut session = with_memory(3);
        session.dma_write(0x1000, &[1; 4]).unwrap();
        let asked = answer(&mut session);
        session.receive(&reply_to(&asked, 0, &payload), []);
        assert!(matches!(session.poll(), Some(Event::HangUp(HangUp::Misfit { .. }))));
    }
}

/// If a client sends without end, the session stops reading until events are completed.
#[test]
fn bounds_pending_events_and_replies() {
    let mut session = joined();
    let read = command(1, 9, &access(0, 7, 4));
    session.receive(&read.repeat(2 * MAX_PENDING), []);
    let mut tokens = Vec::new();
    while let Some(event) = session.poll() {
        let Event::Read { token, .. } = event else { panic!() };
        tokens.push(token);
    }
    assert_eq!((tokens.len(), session.room()), (MAX_PENDING, 0));
    session.complete(tokens[7], Ok(&[0; 4]));
    assert!(session.room() > 0);
    assert!(matches!(session.poll(), Some(Event::Read { .. })) && session.poll().is_none());
    // Large replies count by their bytes.
    let mut shape = shape();
    shape.regions[0] = Region::of(1 << 20);
    let mut session = Session::new(&shape);
    session.receive(&version(0, 0, ""), []);
    session.receive(&command(1, 9, &access(0, 0, 1 << 20)).repeat(100), []);
    let mut reads = 0;
    while let Some(event) = session.poll() {
        if let Event::Read { token, len, .. } = event {
            session.complete(token, Ok(&vec![0; len]));
            reads += 1;
        }
    }
    assert_eq!(reads, 4);
}

#[test]
fn handles_messages_sent_before_the_peer_left() {
    let mut session = joined();
    session.receive(&command(1, 9, &access(0, 7, 4)), []);
    let Some(Event::Read { token, .. }) = session.poll() else { panic!() };
    session.closed(None);
    assert!(matches!(session.poll(), Some(Event::HangUp(HangUp::Closed))));
    session.complete(token, Ok(&[0; 4]));
    assert!(session.outgoing().is_empty());
    assert!(session.poll().is_none() && session.is_done() && session.room() == 0);
    session.closed(Some(Errno::PIPE));
    session.receive(&command(1, 9, &access(0, 7, 4)), []);
    assert!(session.poll().is_none());

    // Earlier messages are still handled, whether or not the caller has polled.
    for polls_between in [true, false] {
        let mut session = joined();
        session.receive(&message(1, 10, 0x10, &[access(0, 0, 4), vec![1, 2, 3, 4]].concat()), []);
        session.receive(&[1, 2, 3], []);
        let before = polls_between.then(|| session.poll());
        session.closed(None);
        assert!(session.room() == 0 && !session.is_over());
        assert!(matches!(before.unwrap_or_else(|| session.poll()), Some(Event::Write { .. })));
        assert!(matches!(session.poll(), Some(Event::HangUp(HangUp::ClosedWithin))));
    }
}

/// One call sends either whole messages, or a part of one long message. A peer that expects to read a whole header can
/// read one.
#[test]
fn sends_whole_messages_at_once() {
    let mut session = joined();
    for (id, count) in [4, 0x2000, 0x2000, 0x2000, 0x2000, 8, 8].into_iter().enumerate() {
        session.receive(&command(id as u16, 9, &access(0, 0, count)), []);
        let Some(Event::Read { token, len, .. }) = session.poll() else { panic!() };
        session.complete(token, Ok(&vec![0; len]));
    }
    let mut shape = shape();
    shape.regions[0] = Region::of(1 << 20);
    let mut long = Session::new(&shape);
    long.receive(&version(0, 0, ""), []);
    long.receive(&[command(1, 9, &access(0, 0, 1 << 20)), command(2, 9, &access(0, 0, 4))].concat(), []);
    while let Some(event) = long.poll() {
        if let Event::Read { token, len, .. } = event {
            long.complete(token, Ok(&vec![0; len]));
        }
    }
    for (session, limit) in [(&mut session, 32 << 10), (&mut long, 2 << 20)] {
        let (mut calls, mut messages) = (0, 0);
        while !session.outgoing().is_empty() {
            let at_once = session.outgoing().to_vec();
            assert!(at_once.len() <= limit);
            if limit == 32 << 10 || messages != 1 {
                messages += client::cut(&at_once).len();
                session.sent(at_once.len());
            } else {
                // The rest of a long message, which the socket accepts in parts.
                session.sent(16);
                let rest = session.outgoing().len();
                assert_eq!(rest, at_once.len() - 16);
                session.sent(rest - 1);
                // The messages after it are short and fit.
                let last = session.outgoing().to_vec();
                messages += 1 + client::cut(&last[1..]).len();
                session.sent(last.len());
            }
            calls += 1;
        }
        assert_eq!((calls, messages), if limit == 32 << 10 { (2, 7) } else { (2, 3) });
    }
}

/// A conversation with all kinds of messages, as pieces with their descriptors.
fn conversation() -> Vec<(Vec<u8>, usize)> {
    let write = [access(0x10, 0, 4), vec![1, 2, 3, 4]].concat();
    let entry = [access(8, 0, 8), vec![5; 8]].concat();
    vec![
        (version(0, 0, QEMU), 0),
        (command(1, 2, &map(0, 0x1000, 0, 3)), 0),
        (command(2, 2, &map(0x1000, 0x1000, 0x4000, 3)), 1),
        (command(3, 2, &map(0x2000, 0x1000, 0, 1)), 0),
        (command(4, 4, &words(&[16, 0, 0, 0])), 0),
        (command(5, 8, &words(&[20, 0x24, 2, 0, 3])), 3),
        (command(6, 8, &words(&[20, 0x24, 2, 3, 1])), 1),
        (command(7, 9, &access(0, 7, 4)), 0),
        (message(8, 10, 0x10, &write), 0),
        (message(9, 15, 0x10, &[longs(&[2]), entry.repeat(2)].concat()), 0),
        (command(10, 9, &access(0, 9, 4)), 0),
        (command(11, 3, &unmap(0x1000, 0x1000, 0)), 0),
        (command(12, 99, &[]), 0),
        (command(13, 13, &[]), 0),
    ]
}

/// Returns the result of a session that receives these pieces: its events, without identifiers that vary, and the bytes
/// that it sends.
fn outcome(pieces: impl IntoIterator<Item = (Vec<u8>, usize)>) -> (Vec<String>, Vec<u8>) {
    let mut session = Session::new(&shape());
    let (mut events, mut out) = (Vec::new(), Vec::new());
    for (piece, fds) in pieces {
        session.receive(&piece, (0..fds).map(|_| fd()));
        while let Some(event) = session.poll() {
            let done: Option<(Token, usize)> = match &event {
                Event::Read { token, len, .. } => Some((*token, *len)),
                Event::Write { token, .. } | Event::Map { token, .. } => Some((*token, 0)),
                Event::Unmap { token, .. } | Event::Reset { token } => Some((*token, 0)),
                _ => None,
            };
            events.push(match event {
                Event::Read { region, offset, len, .. } => format!("read {region} {offset} {len}"),
                Event::Write { region, offset, data, posted, .. } => {
                    format!("{region} {offset} {data:?} {posted}")
                }
                Event::Map { map, fd, fd_offset, .. } => format!("{map:?} {} {fd_offset}", fd.is_some()),
                Event::Unmap { maps, .. } => format!("unmap {maps:?}"),
                Event::Reset { .. } => "reset".to_owned(),
                other => format!("{other:?}"),
            });
            if let Some((token, len)) = done {
                session.complete(token, Ok(&vec![7; len]));
            }
        }
        out.extend_from_slice(session.outgoing());
        session.sent(session.outgoing().len());
    }
    (events, out)
}

/// Cuts a conversation in a way in which a socket may deliver it: descriptors come with the first byte of their
/// message, and no later message is in the same piece.
fn cut(pieces: &[(Vec<u8>, usize)], cuts: &[usize]) -> Vec<(Vec<u8>, usize)> {
    let mut found = vec![(Vec::new(), 0)];
    let mut at = 0;
    for (bytes, fds) in pieces {
        for (n, byte) in bytes.iter().enumerate() {
            let last = found.last_mut().unwrap();
            if last.1 > 0 && n == 0 || cuts.contains(&at) {
                found.push((Vec::new(), 0));
            }
            let last = found.last_mut().unwrap();
            last.0.push(*byte);
            last.1 += if n == 0 { *fds } else { 0 };
            at += 1;
        }
    }
    found
}

#[test]
fn cuts_at_any_byte_give_the_same_outcome() {
    let pieces = conversation();
    let expected = outcome(pieces.clone());
    assert_eq!(expected.0.len(), 14, "{:#?}", expected.0);
    let len = pieces.iter().map(|(bytes, _)| bytes.len()).sum::<usize>();
    assert_eq!(outcome(cut(&pieces, &[])), expected);
    assert_eq!(outcome(cut(&pieces, &(0..len).collect::<Vec<_>>())), expected);
    for at in 0..len {
        assert_eq!(outcome(cut(&pieces, &[at])), expected, "cut at {at}");
    }
}

proptest! {
    #[test]
    fn random_cuts_give_the_same_outcome(cuts in proptest::collection::vec(0usize..1200, 0..40)) {
        let pieces = conversation();
        prop_assert_eq!(outcome(cut(&pieces, &cuts)), outcome(pieces));
    }
}

/// A peer that dies after each byte: complete messages are handled, then the session ends.
#[test]
fn peer_may_die_after_any_byte() {
    let pieces = conversation();
    let bytes: Vec<u8> = pieces.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    let ends: Vec<usize> = pieces
        .iter()
        .scan(0, |at, (bytes, _)| {
            *at += bytes.len();
            Some(*at)
        })
        .collect();
    for at in 0..=bytes.len() {
        let mut session = Session::new(&shape());
        session.receive(&bytes[..at], []);
        let mut events = 0;
        while session.poll().is_some() {
            events += 1;
        }
        let whole = ends.iter().filter(|end| **end <= at).count();
        assert!(events <= whole + 2 && (whole == 0 || events > 0));
        session.closed(None);
        let within = at != 0 && !ends.contains(&at);
        let expected = if within { HangUp::ClosedWithin } else { HangUp::Closed };
        assert!(matches!(session.poll(), Some(Event::HangUp(why)) if why == expected), "{at}");
    }
}
