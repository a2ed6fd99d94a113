// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all NICs share: what is at the other end of their cables, and the frames that stations exchange. Knows no NIC.

mod cable;
mod frames;
mod interface;
mod modes;
mod peer;

pub use cable::{Cable, FrameFromWire, LinkInput, MAX_FRAMES_TO_WIRE, WireCounters};
pub use frames::{Arp, BROADCAST, Echo, Frame, FrameError, Kind, MacAddress, Station};
pub use interface::NetInterface;
pub use modes::{Mode, Modes};
pub use peer::{Arrival, EthernetPort, Peer};

use crate::queue::Queue;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Frames that are on their way from the wire at most; further ones are lost, as on a wire.
pub const MAX_FRAMES_ON_WIRE: usize = 64;

/// The peer of NICs in labs. Its Ethernet address is locally administered (IEEE 802, bit 1 of the first byte), its IPv4 address for
/// documentation (RFC 5737).
pub const PEER: Station = Station { mac: [0x02, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };

/// Frames that have come to a NIC by themselves, and wait for it: a handle for whoever brings them. Of at most
/// [`MAX_FRAMES_ON_WIRE`]: [`Queue::push`] says where one was lost.
pub type Inbox = Rc<Queue<Vec<u8>>>;

/// An empty inbox.
pub fn inbox() -> Inbox {
    Rc::new(Queue::new(MAX_FRAMES_ON_WIRE))
}
