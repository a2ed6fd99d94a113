// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversations with a session, message by message; the bytes are the protocol's own.

#[path = "common/client.rs"]
mod client;

use client::{QEMU, command, longs, message, sent, version, words};
use riser_guest::vfio_user::{Event, Region, Session, Shape, region};

fn shape() -> Shape {
    let mut shape = Shape::new();
    shape.regions[0] = Region::of(0x2000);
    shape.regions[region::CONFIG] = Region::of(4096);
    shape.irqs = [1, 0, 4, 1, 1];
    shape
}

fn joined() -> Session {
    let mut session = Session::new(&shape());
    session.receive(&version(0, 0, QEMU), []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    sent(&mut session);
    session
}

#[test]
fn a_client_of_qemu_is_agreed_with() {
    let mut session = Session::new(&shape());
    let proposed = version(7, 0, QEMU);
    session.receive(&proposed, []);
    assert!(matches!(session.poll(), Some(Event::Joined)));
    let replies = sent(&mut session);
    let [reply] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((reply.id, reply.command, reply.flags), (7, 1, 1));
    let text = std::str::from_utf8(&reply.payload[4..]).unwrap();
    assert_eq!(
        text,
        "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576,\"pgsizes\":4096,\"max_dma_maps\":4096,\"write_multiple\":true}}\0"
    );
    // QEMU has room for as many bytes as it has sent, and no more.
    assert!(16 + reply.payload.len() <= proposed.len());
}

#[test]
fn reads_are_answered_in_any_order() {
    let mut session = joined();
    let read = |offset, count| [longs(&[offset]), words(&[7, count])].concat();
    session.receive(&[command(1, 9, &read(0, 4)), command(2, 9, &read(4, 2))].concat(), []);
    let Some(Event::Read { token: first, region: 7, offset: 0, len: 4 }) = session.poll() else { panic!() };
    let Some(Event::Read { token: second, region: 7, offset: 4, len: 2 }) = session.poll() else { panic!() };
    assert!(session.poll().is_none());
    session.complete(second, Ok(&[5, 6]));
    session.complete(first, Ok(&[1, 2, 3, 4]));
    let replies = sent(&mut session);
    assert_eq!(replies.iter().map(|reply| reply.id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(replies[0].payload, [read(4, 2), vec![5, 6]].concat());
    assert_eq!(replies[1].payload, [read(0, 4), vec![1, 2, 3, 4]].concat());
}

#[test]
fn posted_writes_are_not_answered() {
    let mut session = joined();
    let write = [longs(&[0x10]), words(&[0, 4]), vec![1, 2, 3, 4]].concat();
    session.receive(&message(1, 10, 0x10, &write), []);
    let Some(Event::Write { token, region: 0, offset: 0x10, data, posted: true }) = session.poll() else {
        panic!()
    };
    assert_eq!(data, [1, 2, 3, 4]);
    session.complete(token, Ok(&[]));
    assert!(sent(&mut session).is_empty());
}
