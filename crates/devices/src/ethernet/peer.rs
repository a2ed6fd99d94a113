// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other end of the cable: a station that answers ARP and ping. The peer has no clock; each answer has its delay.

use super::{Arp, Echo, Frame, Kind, Modes, Station};
use crate::queue::Queue;
use std::rc::Rc;
use tlp::Duration;

/// The other end of a NIC's cable.
pub trait EthernetPort {
    /// Handles a frame from the NIC. Returns the answer, if any.
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival>;

    /// Sets the modes that the NIC offers. With [`Modes::NONE`], the NIC's end of the link is down.
    fn offer(&mut self, _modes: Modes) {}

    /// Returns the modes that the other end offers; [`Modes::NONE`] if there is no carrier.
    fn partner(&self) -> Modes {
        Modes::ALL
    }

    /// Returns the queue that gets an item after each change of [`partner`](Self::partner); `None` if that never changes.
    fn partner_changes(&self) -> Option<Rc<Queue<()>>> {
        None
    }
}

/// A frame in transit to the NIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Delay until it arrives.
    pub after: Duration,
    /// The frame, without FCS.
    pub frame: Vec<u8>,
}

/// Answers ARP requests for its address (RFC 826) and ICMP echo requests (RFC 792). Drops all other frames, like a
/// host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its addresses.
    pub station: Station,
    /// Time from the end of a frame to the start of its answer at the NIC, for wire and peer.
    pub latency: Duration,
}

impl Peer {
    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let me = self.station;
        match Frame::parse(frame).ok()? {
            Frame::Arp(arp) if arp.kind == Kind::Request && arp.to.ip == me.ip => {
                Some(Arp { kind: Kind::Reply, from: me, to: arp.from }.emit())
            }
            Frame::Echo(echo) if echo.kind == Kind::Request && echo.to == me => {
                Some(Echo { kind: Kind::Reply, from: me, to: echo.from, ..echo }.emit())
            }
            _ => None,
        }
    }
}

impl EthernetPort for Peer {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        self.answer(frame).map(|frame| Arrival { after: self.latency, frame })
    }
}
