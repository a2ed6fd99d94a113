// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is shared with the machine, and memory that is not.

use crate::client::{command, longs, message, sent, version, words};
use riser_guest::sharing::Sharing;
use riser_guest::vfio_user::{Errno, Event, Session, Shape};

const ENODEV: i32 = 19;

/// Returns a session with memory at 0x8000.
fn session() -> Session {
    let mut session = Session::new(&Shape::new());
    session.receive(&version(0, 0, ""), []);
    session.receive(&command(1, 2, &[words(&[32, 3]), longs(&[0, 0x8000, 0x1000])].concat()), []);
    while session.poll().is_some() {}
    sent(&mut session);
    session
}

/// Runs one comparison. The machine sees bytes of value `sees`, or the read fails; `held` is the value in the file. Returns whether
/// a question was sent, and its result.
fn look(sharing: &mut Sharing, session: &mut Session, sees: Option<u8>, held: Option<u8>) -> Option<bool> {
    sharing.ask(session);
    let asked = sent(session).pop()?;
    assert_eq!((asked.command, asked.payload), (11, longs(&[0x8000, 1024])));
    let reply = match sees {
        Some(value) => message(asked.id, 11, 1, &[longs(&[0x8000, 1024]), vec![value; 1024]].concat()),
        None => {
            let mut error = message(asked.id, 11, 0x21, &[]);
            error[12..16].copy_from_slice(&ENODEV.to_le_bytes());
            error
        }
    };
    session.receive(&reply, []);
    let Some(Event::Dma { dma, result }) = session.poll() else { panic!() };
    assert!(result.is_ok() || result == Err(Errno::NODEV));
    Some(sharing.answer(session, dma, &result, |address, to| {
        assert_eq!((address, to.len()), (0x8000, 1024));
        to.fill(held.unwrap_or_default());
        held.is_some()
    }))
}

#[test]
fn detects_unshared_memory() {
    let (mut sharing, mut session) = (Sharing::default(), session());
    let found: Vec<_> = (0..4).map(|_| look(&mut sharing, &mut session, Some(7), Some(0))).collect();
    assert_eq!(found, [Some(false), Some(false), Some(true), None]);
}

/// At the end the contents are equal: the machine had written there before.
#[test]
fn accepts_shared_memory() {
    let (mut sharing, mut session) = (Sharing::default(), session());
    let rows = [(Some(7), Some(8)), (Some(8), Some(9)), (Some(9), Some(9)), (Some(7), Some(8))];
    let found = rows.map(|(sees, held)| look(&mut sharing, &mut session, sees, held));
    assert_eq!(found, [Some(false), Some(false), Some(false), None]);
}

/// Before the device may do DMA, the question fails and is repeated later. If the file cannot be read, there is no result.
#[test]
fn reports_no_result_for_unknown_memory() {
    let (mut sharing, mut session) = (Sharing::default(), session());
    for _ in 0..5 {
        assert_eq!(look(&mut sharing, &mut session, None, Some(0)), Some(false));
    }
    assert_eq!(look(&mut sharing, &mut session, Some(1), None), Some(false));
    assert_eq!(look(&mut sharing, &mut session, Some(1), Some(0)), None);
    let mut nobody = Session::new(&Shape::new());
    sharing.ask(&mut nobody);
    assert!(nobody.outgoing().is_empty());
}
