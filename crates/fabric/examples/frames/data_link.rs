// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An example of a [`DataLink`], written from the specification. It acknowledges TLPs as soon as the wire is free.

use endpoint::{CreditReturn, Credits, DataLink, FramePort, PhyEvent};
use link::{Ending, Frame, Notice, PortConfig, WireFrame, WireKind, header_log, symbol_times};
use std::collections::VecDeque;
use tlp::{Class, Dllp, Duration, PayloadPool, Rate, TcSet, Time, Tlp, Vc, Width};

/// Interval of InitFC until the other end answers (`PCIe 5.0 §3.4.1`), and of UpdateFC in case one was lost (§2.6.1.2).
const REPEAT: Duration = Duration::from_us(10);

/// The sender's half (`PCIe 5.0 §3.6.2`).
#[derive(Default)]
struct Transmitter {
    next: u16,
    /// Unacknowledged TLPs. The first `sent` of them have been sent since the last replay began.
    buffer: VecDeque<(u16, WireFrame)>,
    sent: usize,
    replay_num: u8,
    replay_at: Option<Time>,
    retrain: bool,
}

/// The receiver's half (`PCIe 5.0 §3.6.3`).
#[derive(Default)]
struct Receiver {
    next: u16,
    nak_scheduled: bool,
    /// The Ack (true) or Nak to send.
    answer: Option<bool>,
    tlps: VecDeque<Tlp>,
}

pub(crate) struct SmallLink {
    config: PortConfig,
    speed: Option<(Rate, Width)>,
    credits: Credits,
    repeat_at: Option<Time>,
    tx: Transmitter,
    rx: Receiver,
    notices: VecDeque<Notice>,
    told_up: bool,
}

impl SmallLink {
    /// A data link layer that advertises the credits of `config`.
    pub(crate) fn new(config: PortConfig) -> SmallLink {
        let credits = Credits::new(&config);
        let (tx, rx, notices) = (Transmitter::default(), Receiver::default(), VecDeque::new());
        SmallLink { config, speed: None, credits, repeat_at: None, tx, rx, notices, told_up: false }
    }

    fn receive_tlp(&mut self, frame: Option<Frame>) {
        let rx = &mut self.rx;
        match frame {
            Some(Frame::Tlp { sequence, tlp }) if sequence == rx.next => {
                (rx.next, rx.nak_scheduled, rx.answer) = ((sequence + 1) % 4096, false, Some(true));
                match self.credits.receive(&tlp) {
                    true => rx.tlps.push_back(tlp),
                    false => self.notices.push_back(Notice::ReceiverOverflow { header: header_log(&tlp) }),
                }
            }
            Some(Frame::Tlp { sequence, .. }) if (rx.next + 4096 - sequence) % 4096 <= 2048 => {
                rx.answer = rx.answer.or(Some(true));
            }
            // One Nak until a good TLP arrives.
            _ if !rx.nak_scheduled => (rx.nak_scheduled, rx.answer) = (true, Some(false)),
            _ => {}
        }
    }

    fn receive_dllp(&mut self, now: Time, dllp: Dllp) {
        match dllp {
            Dllp::Ack { sequence } | Dllp::Nak { sequence } => {
                let tx = &mut self.tx;
                if let Some(last) = tx.buffer.iter().position(|(number, _)| *number == sequence) {
                    tx.buffer.drain(..=last);
                    (tx.sent, tx.replay_num) = (tx.sent.saturating_sub(last + 1), 0);
                    self.start_timer(now);
                }
                if matches!(dllp, Dllp::Nak { .. }) {
                    self.replay(now);
                }
            }
            Dllp::FlowControl(fc) => self.credits.handle(&fc),
            _ => {}
        }
    }

    fn start_timer(&mut self, now: Time) {
        let waits = self.speed.filter(|_| !self.tx.buffer.is_empty());
        self.tx.replay_at = waits.map(|(rate, _)| now + symbol_times(rate, 24_500));
    }

    fn replay(&mut self, now: Time) {
        (self.tx.sent, self.tx.replay_num) = (0, (self.tx.replay_num + 1) % 4);
        self.tx.retrain |= self.tx.replay_num == 0;
        self.start_timer(now);
    }

    fn next_dllp(&mut self) -> Option<Dllp> {
        let sequence = (self.rx.next + 4095) % 4096;
        match self.rx.answer.take() {
            Some(true) => Some(Dllp::Ack { sequence }),
            Some(false) => Some(Dllp::Nak { sequence }),
            None => self.credits.poll_dllp().map(Dllp::FlowControl),
        }
    }

    /// The next TLP of a replay, or a new one.
    fn next_tlp(&mut self, now: Time) -> Option<WireFrame> {
        let tx = &mut self.tx;
        if tx.sent == tx.buffer.len() && tx.sent < usize::from(self.config.replay_buffer_tlps) {
            let tlp = self.credits.pop()?;
            tx.buffer.push_back((tx.next, WireFrame::of(Frame::Tlp { sequence: tx.next, tlp: &tlp })));
            tx.next = (tx.next + 1) % 4096;
        }
        let frame = tx.buffer.get(tx.sent)?.1.clone();
        tx.sent += 1;
        if tx.replay_at.is_none() {
            self.start_timer(now);
        }
        Some(frame)
    }
}

impl FramePort for SmallLink {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        match event {
            PhyEvent::Up { rate, width } => {
                (self.speed, self.repeat_at) = (Some((rate, width)), Some(now + REPEAT));
                self.credits.start();
            }
            PhyEvent::Down { surprise } => {
                *self = SmallLink::new(self.config.clone());
                self.notices.push_back(Notice::Down { surprise });
            }
            PhyEvent::Recovery { until, rate, width } => {
                self.speed = Some((rate, width));
                self.tx.replay_at = self.tx.replay_at.map(|at| at + until.since(now));
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        let read = Frame::read(frame.kind, &frame.bytes, &PayloadPool::new()).ok();
        match (frame.kind, read.filter(|_| frame.ending == Ending::Good)) {
            (WireKind::Tlp, read) if self.credits.takes_tlps() => self.receive_tlp(read),
            (WireKind::Dllp, Some(Frame::Dllp(dllp))) => self.receive_dllp(now, dllp),
            _ => {}
        }
    }

    fn poll_frame(&mut self, now: Time) -> Option<WireFrame> {
        self.next_dllp().map(WireFrame::dllp).or_else(|| self.next_tlp(now))
    }

    fn poll_retrain(&mut self) -> bool {
        std::mem::take(&mut self.tx.retrain)
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.tx.replay_at, self.repeat_at].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.tx.replay_at.is_some_and(|at| at <= now) {
            self.replay(now);
        }
        if self.repeat_at.is_some_and(|at| at <= now) {
            self.credits.repeat();
            self.repeat_at = Some(now + REPEAT);
        }
    }
}

impl DataLink for SmallLink {
    fn room(&self, class: Class) -> TcSet {
        self.credits.room(class)
    }

    fn send(&mut self, _now: Time, tlp: Tlp) {
        self.credits.push(tlp);
    }

    fn poll_tlp(&mut self) -> Option<Tlp> {
        self.rx.tlps.pop_front()
    }

    fn return_credits(&mut self, _now: Time, credit: CreditReturn) {
        self.credits.free(credit);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        let is_news = self.credits.is_active(Vc::VC0) && !self.told_up;
        let Some((rate, width)) = self.speed.filter(|_| is_news) else { return self.notices.pop_front() };
        self.told_up = true;
        Some(Notice::Up { rate, width })
    }
}
