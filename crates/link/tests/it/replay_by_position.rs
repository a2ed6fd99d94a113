// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links without flow control that replay by position, as in gem5's model (IISWC'18, §V-C).

use crate::common::write;
use riser_link::{FlowControlMode, Frame, Notice, Port, PortConfig, ReplayCursor, SentFrame};
use tlp::{Account, Attributes, Dllp, Mps, Rate, Time, Tlp, Width};

/// Room of the receive buffer in TLPs.
const ROOM: u16 = 2;

fn config(replay_cursor: ReplayCursor) -> PortConfig {
    PortConfig {
        flow_control: FlowControlMode::None { buffer_tlps: ROOM },
        replay_cursor,
        replay_buffer_tlps: 4,
        // (128 + 20) x 2.5 / 8.
        ack_latency_symbols: Some(46),
        ..PortConfig::new(Rate::Gt5, Width::new(8).unwrap(), Mps::new(128).unwrap())
    }
}

fn started(replay_cursor: ReplayCursor) -> Port {
    let mut port = Port::new(config(replay_cursor));
    port.start(Time::ZERO);
    assert!(matches!(port.poll_notice(), Some(Notice::Up { .. })));
    port
}

fn request(id: u16) -> Tlp {
    write(id, 0x100, 128, Attributes::empty())
}

/// The next frame that `port` sends, if it has one, when its wire is free.
fn sends(port: &mut Port) -> Option<SentFrame> {
    let ready = port.transmit_ready_at()?;
    port.poll_transmit(ready).map(|sent| sent.frame)
}

fn tlp(sequence: u16) -> Option<SentFrame> {
    Some(Frame::Tlp { sequence, tlp: () })
}

fn ack(sequence: u16) -> Option<SentFrame> {
    Some(Frame::Dllp(Dllp::Ack { sequence }))
}

/// `port` handles its next timer; returns the time.
fn expire(port: &mut Port) -> Time {
    let at = port.poll_timeout().unwrap();
    port.handle_timeout(at);
    at
}

/// Sends four TLPs that are never acknowledged, until REPLAY_TIMER expires. Returns this time.
fn time_out(port: &mut Port) -> Time {
    for sequence in 0..4 {
        port.enqueue(Time::ZERO, request(sequence), Account::NONE);
        assert_eq!(sends(port), tlp(sequence));
    }
    assert_eq!(sends(port), None, "the replay buffer is full");
    expire(port)
}

/// An Ack of TLP 0 during the replay of TLP 0 makes a replay by position skip TLP 1.
#[test]
fn ack_during_replay_skips_a_tlp_only_by_position() {
    for (cursor, rest) in [(ReplayCursor::Position, &[2, 3][..]), (ReplayCursor::Sequence, &[1, 2, 3])] {
        let mut port = started(cursor);
        let now = time_out(&mut port);
        assert_eq!(sends(&mut port), tlp(0));
        port.handle_frame(now, Frame::Dllp(Dllp::Ack { sequence: 0 }));
        for sequence in rest {
            assert_eq!(sends(&mut port), tlp(*sequence), "{cursor:?}");
        }
        assert_eq!(sends(&mut port), None);
        assert_eq!(port.counters().replayed_tlps, 1 + rest.len() as u64);
    }
}

#[test]
fn own_ack_during_replay_skips_a_tlp_only_by_position() {
    for (cursor, rest) in [(ReplayCursor::Position, &[2, 3][..]), (ReplayCursor::Sequence, &[1, 2, 3])] {
        let mut port = started(cursor);
        let now = time_out(&mut port);
        assert_eq!(sends(&mut port), tlp(0));
        assert!(port.handle_frame(now, Frame::Tlp { sequence: 0, tlp: &request(9) }));
        port.handle_timeout(now);
        assert_eq!(sends(&mut port), ack(0));
        for sequence in rest {
            assert_eq!(sends(&mut port), tlp(*sequence), "{cursor:?}");
        }
        assert_eq!(sends(&mut port), None);
    }
}

/// If Acks skip all TLPs, the replay ends, new TLPs are sent, and the timer starts the next replay.
#[test]
fn replay_without_a_tlp_left_ends() {
    let mut port = started(ReplayCursor::Position);
    let now = time_out(&mut port);
    for _ in 0..2 {
        assert!(sends(&mut port).is_some());
    }
    port.handle_frame(now, Frame::Dllp(Dllp::Ack { sequence: 1 }));
    port.enqueue(now, request(4), Account::NONE);
    assert_eq!(sends(&mut port), tlp(4), "TLPs 2 and 3 are skipped");
    expire(&mut port);
    assert_eq!([sends(&mut port), sends(&mut port), sends(&mut port)], [tlp(2), tlp(3), tlp(4)]);
}

/// gem5's links have no error reporting.
#[test]
fn timeout_is_an_error_only_by_sequence_number() {
    for (cursor, notice) in
        [(ReplayCursor::Position, None), (ReplayCursor::Sequence, Some(Notice::ReplayTimeout))]
    {
        let mut port = started(cursor);
        time_out(&mut port);
        assert_eq!((port.poll_notice(), port.counters().replay_timeouts), (notice, 1));
    }
}

/// A TLP without room draws no Ack. The TLPs after it are out of sequence; by position they draw Acks of the last TLP taken.
#[test]
fn tlps_after_a_refused_one_draw_acks_only_by_position() {
    for cursor in [ReplayCursor::Position, ReplayCursor::Sequence] {
        let (mut port, mut now) = (started(cursor), Time::ZERO);
        for sequence in 0..ROOM {
            assert!(port.handle_frame(now, Frame::Tlp { sequence, tlp: &request(sequence) }));
            now = expire(&mut port);
            assert_eq!(sends(&mut port), ack(sequence));
        }
        assert!(!port.handle_frame(now, Frame::Tlp { sequence: ROOM, tlp: &request(ROOM) }), "no room");
        assert_eq!((port.poll_timeout(), sends(&mut port)), (None, None));
        assert!(!port.handle_frame(now, Frame::Tlp { sequence: ROOM + 1, tlp: &request(ROOM + 1) }));
        if cursor == ReplayCursor::Position {
            expire(&mut port);
            assert_eq!(sends(&mut port), ack(ROOM - 1));
        }
        assert_eq!((port.poll_timeout(), sends(&mut port)), (None, None));
        assert_eq!((port.counters().full_buffer_drops, port.counters().out_of_sequence), (1, 1));
    }
}

#[test]
fn rejects_replay_by_position_with_credits() {
    let config = PortConfig { flow_control: FlowControlMode::Credits, ..config(ReplayCursor::Position) };
    let error = config.validate().unwrap_err().to_string();
    assert_eq!(
        error,
        "replay by position with credits; expected flow control `none`, or a replay by sequence number"
    );
    assert_eq!(self::config(ReplayCursor::Position).validate(), Ok(()));
}
