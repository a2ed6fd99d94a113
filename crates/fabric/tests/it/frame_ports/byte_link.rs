// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Riser's own port as a data link layer on the other side of the bytes.

use endpoint::{CreditReturn, DataLink, FramePort, PhyEvent};
use link::{Frame, Integrity, Notice, Port, PortConfig, WireFrame, WireKind};
use std::collections::VecDeque;
use tlp::{Account, Class, PayloadPool, TcSet, Time, Tlp};

pub(super) struct ByteLink {
    port: Port,
    was_up: bool,
    /// It has sent the link into Recovery itself, and holds its timers already.
    retrains: bool,
    received: VecDeque<Tlp>,
    payloads: PayloadPool,
}

impl ByteLink {
    pub(super) fn new(config: PortConfig) -> ByteLink {
        let (received, payloads) = (VecDeque::new(), PayloadPool::new());
        ByteLink { port: Port::new(config), was_up: false, retrains: false, received, payloads }
    }
}

impl FramePort for ByteLink {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        match event {
            PhyEvent::Up { .. } if !std::mem::replace(&mut self.was_up, true) => self.port.start(now),
            PhyEvent::Up { .. } => self.port.bring_up(now),
            PhyEvent::Down { surprise } => drop(self.port.take_down(now, surprise)),
            PhyEvent::Recovery { .. } if std::mem::take(&mut self.retrains) => {}
            PhyEvent::Recovery { until, rate, width } if (rate, width) == self.port.speed() => {
                self.port.hold(now, until);
            }
            PhyEvent::Recovery { until, rate, width } => self.port.retrain(now, until, rate, width),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        let (read, integrity) = frame.decode(&self.payloads).expect("riser sends frames");
        let accepted = match (integrity, &read) {
            (Integrity::Good, read) => self.port.handle_frame(now, read.as_ref()),
            (Integrity::Malformed(header), Frame::Tlp { sequence, tlp }) => {
                self.port.receive_malformed(now, *sequence, tlp, header);
                false
            }
            (Integrity::BadCrc, read) => {
                self.port.handle_damaged(now, read.as_ref(), &[0].into_iter().collect())
            }
            _ => {
                self.port.receive_broken_frame(now, frame.kind == WireKind::Tlp);
                // The fabric sends the link into Recovery.
                self.retrains |= self.port.poll_retrain().is_some();
                false
            }
        };
        self.received.extend(read.tlp().filter(|_| accepted));
    }

    fn poll_frame(&mut self, now: Time) -> Option<WireFrame> {
        let sent = self.port.poll_transmit(now)?;
        self.port.lend(sent.frame).map(WireFrame::of)
    }

    fn poll_retrain(&mut self) -> bool {
        let retrains = self.port.poll_retrain().is_some();
        self.retrains |= retrains;
        retrains
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.port.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.port.handle_timeout(now);
    }
}

impl DataLink for ByteLink {
    fn room(&self, class: Class) -> TcSet {
        self.port.room(class)
    }

    fn send(&mut self, now: Time, tlp: Tlp) {
        self.port.enqueue(now, tlp, Account::NONE);
    }

    fn poll_tlp(&mut self) -> Option<Tlp> {
        self.received.pop_front()
    }

    fn return_credits(&mut self, now: Time, credit: CreditReturn) {
        self.port.return_credits(now, credit.tc, credit.class, credit.data_credits);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.port.poll_notice()
    }
}
