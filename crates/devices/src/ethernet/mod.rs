// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared by all NICs: the other ends of their cables, and the frames between stations. Independent of any NIC.

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

/// Bytes on the Ethernet in addition to a frame in host memory: preamble and start delimiter 8, FCS 4 (IEEE 802.3 §3.1.1).
pub(crate) const FRAME_OVERHEAD_BYTES: u32 = 12;
/// Minimum gap between two frames (IEEE 802.3 §4.4.2).
pub(crate) const GAP_BYTES: u32 = 12;

/// Maximum number of frames in flight from the wire. Further frames are lost, as on a wire.
pub const MAX_FRAMES_ON_WIRE: usize = 64;

/// The peer of NICs in labs. Its Ethernet address is locally administered (IEEE 802, bit 1 of the first byte). Its IPv4 address is
/// reserved for documentation (RFC 5737).
pub const PEER: Station = Station { mac: [0x02, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };

/// Unsolicited frames that wait for a NIC. This is the handle for their source. Limited to [`MAX_FRAMES_ON_WIRE`]:
/// [`Queue::push`] returns false if a frame is lost.
pub type Inbox = Rc<Queue<Vec<u8>>>;

/// Returns an empty inbox.
pub fn inbox() -> Inbox {
    Rc::new(Queue::new(MAX_FRAMES_ON_WIRE))
}
