// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs of an adapter's slot from outside: as values in the running lab, and as bytes in a record.
//!
//! ```text
//! u8 kind, and
//!   1 a TLP of a peer      way, u32 length, its bytes as on a link
//!   2 configuration write  u16 register (DW), u8 byte enables, u32 value
//!   3 adapter register     u8 register (DW), u32 value
//!   4 egress entry taken   u32 index, u8: 0 sent, 1 there is no device software, 2 lost
//!   5 device software is ready
//! a way: u16 port of the adapter, u8 4 or 6, address of the peer (4 or 16 bytes), u32 scope, u16 port of the peer
//! ```
//!
//! Numbers are little-endian, except in TLPs.

use super::bridge::Delivery;
use super::slot::AdapterSlot;
use nettlp::adapter::{PeerPath, Received};
use nettlp::completer::Incoming;
use plug::place::{Attachment, Input, InputError};
use session::external::bytes::{Cursor, Put};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use tlp::{Repr, Time};

/// An input from outside.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A TLP of a peer.
    Tlp(&'a Received<'a>),
    /// A peer writes a configuration register.
    Config { register_dw: u16, byte_enables: u8, value: u32 },
    /// A peer writes a register of the adapter.
    Register { register_dw: u8, value: u32 },
    /// An entry of the egress queue has left it.
    Taken { index: u32, delivery: Delivery },
    /// Device software has become ready.
    Arrival,
}

const DELIVERIES: [Delivery; 3] = [Delivery::Sent, Delivery::NoDevice, Delivery::Lost];

impl Input<AdapterSlot> for Event<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Event::Tlp(tlp) => {
                out.put_u8(1);
                emit_way(out, tlp.way);
                emit_tlp(out, tlp);
            }
            Event::Config { register_dw, byte_enables, value } => {
                out.put_u8(2);
                out.put_u16(*register_dw);
                out.put_u8(*byte_enables);
                out.put_u32(*value);
            }
            Event::Register { register_dw, value } => {
                out.put_u8(3);
                out.put_u8(*register_dw);
                out.put_u32(*value);
            }
            Event::Taken { index, delivery } => {
                out.put_u8(4);
                out.put_u32(*index);
                out.put_u8(DELIVERIES.iter().position(|d| d == delivery).unwrap_or_default() as u8);
            }
            Event::Arrival => out.put_u8(5),
        }
    }

    fn join(self, slot: &AdapterSlot, now: Time) -> bool {
        let mut bridge = slot.bridge.borrow_mut();
        match self {
            Event::Tlp(tlp) => {
                let function = slot.function_of(tlp.repr.transaction().0);
                bridge.take_from_peer(now, function, tlp);
            }
            Event::Config { register_dw, byte_enables, value } => {
                drop(bridge);
                slot.config_write(now, register_dw, byte_enables, value);
            }
            Event::Register { register_dw, value } => {
                bridge.registers.write(register_dw, value);
                return false;
            }
            Event::Taken { index, delivery } => return bridge.take_egress(now, index as usize, delivery),
            Event::Arrival => {
                slot.arrivals.set(slot.arrivals.get() + 1);
                return false;
            }
        }
        true
    }
}

impl Attachment for AdapterSlot {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError> {
        let mut cursor = Cursor::new(input);
        let event = match cursor.u8() {
            Some(1) => return self.take_recorded_tlp(now, &mut cursor),
            Some(2) => match (cursor.u16(), cursor.u8(), cursor.u32()) {
                (Some(register_dw), Some(byte_enables), Some(value)) => {
                    Event::Config { register_dw, byte_enables, value }
                }
                _ => return Err(cut()),
            },
            Some(3) => {
                let (register_dw, value) = cursor.u8().zip(cursor.u32()).ok_or_else(cut)?;
                Event::Register { register_dw, value }
            }
            Some(4) => {
                let (index, delivery) = cursor.u32().zip(cursor.u8()).ok_or_else(cut)?;
                let delivery = DELIVERIES.get(usize::from(delivery)).copied();
                let delivery = delivery.ok_or_else(|| {
                    InputError::Value("invalid delivery of an egress entry; expected 0 to 2".to_owned())
                })?;
                Event::Taken { index, delivery }
            }
            Some(5) => Event::Arrival,
            Some(kind) => {
                return Err(InputError::Value(format!("adapter input of kind {kind}; expected 1 to 5")));
            }
            None => return Err(cut()),
        };
        Ok(event.join(self, now))
    }

    fn awaits_fabric(&self) -> bool {
        self.bridge.borrow().awaits_fabric()
    }

    fn has_output(&self) -> bool {
        !self.bridge.borrow().egress.is_empty()
    }

    /// When the entry is fetched, this is an input too: [`Event::Taken`].
    fn discard_outputs(&self) {}
}

const fn cut() -> InputError {
    InputError::Form("adapter input is cut off")
}

impl AdapterSlot {
    fn take_recorded_tlp(&self, now: Time, cursor: &mut Cursor<'_>) -> Result<bool, InputError> {
        let way = way(cursor)?;
        let tlp = cursor.counted().ok_or_else(cut)?;
        let mut scratch = [0; 4];
        let incoming = Incoming::parse(tlp, &mut scratch);
        let incoming = incoming.map_err(|e| InputError::Value(format!("invalid TLP of a peer: {e}")))?;
        let Incoming { repr, prefixes, data, rest, .. } = &incoming;
        let behind_bytes = rest.map_or(0, |(span, _)| span.byte_count());
        Ok(Event::Tlp(&Received { way, repr, prefixes, data, behind_bytes }).join(self, now))
    }
}

fn emit_tlp(out: &mut Vec<u8>, tlp: &Received<'_>) {
    let repr = Repr { td: false, ..*tlp.repr };
    let (prefixes, header) = (tlp.prefixes.wire_len(), repr.header_len());
    out.put_u32((prefixes + header + tlp.data.len()) as u32);
    tlp.prefixes.as_slice().iter().for_each(|prefix| out.extend_from_slice(&prefix.0.to_be_bytes()));
    let at = out.len();
    out.resize(at + header, 0);
    repr.emit(&mut out[at..]);
    if tlp.behind_bytes > 0 {
        Incoming::join_at_4k(&mut out[at..], tlp.behind_bytes);
    }
    out.extend_from_slice(tlp.data);
}

fn emit_way(out: &mut Vec<u8>, way: PeerPath) {
    out.put_u16(way.port);
    match way.peer.ip() {
        IpAddr::V4(ip) => {
            out.put_u8(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.put_u8(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.put_u32(if let SocketAddr::V6(peer) = way.peer { peer.scope_id() } else { 0 });
    out.put_u16(way.peer.port());
}

fn way(cursor: &mut Cursor<'_>) -> Result<PeerPath, InputError> {
    let port = cursor.u16().ok_or_else(cut)?;
    let ip = match cursor.u8() {
        Some(4) => cursor.array::<4>().map(|b| IpAddr::V4(Ipv4Addr::from(b))),
        Some(6) => cursor.array::<16>().map(|b| IpAddr::V6(Ipv6Addr::from(b))),
        Some(other) => {
            return Err(InputError::Value(format!("address of IP version {other}; expected 4 or 6")));
        }
        None => None,
    };
    let (Some(ip), Some(scope), Some(peer)) = (ip, cursor.u32(), cursor.u16()) else { return Err(cut()) };
    let peer = match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, peer),
        IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, peer, 0, scope)),
    };
    Ok(PeerPath { port, peer })
}
