// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes pcapng: one section, one interface per tap and direction, timestamps in picoseconds since the start of
//! the run.
//!
//! | block | contents |
//! |---|---|
//! | Section Header | `shb_userappl` = `riser` |
//! | Interface Description | Ethernet, or PCI Express ([`Writer::of_tlps`]); `if_name` such as `link0:downstream`; `if_description`; `if_speed` if it is known; `if_tsresol` = 12; `opt_comment` with the registers of a self-describing device |
//! | Enhanced Packet | Ethernet, IPv4, UDP and NetTLP headers as in [`encap`](crate::encap), then the TLP or DLLP; `epb_flags`, `epb_packetid` and `opt_comment` if the [`Mark`] is not empty |
//!
//! A writer from [`Writer::of_tlps`] writes only the TLPs, without the headers from Ethernet to NetTLP, and their
//! direction in `epb_flags`.
//!
//! The same calls always write the same bytes. Counted data is not written: the captured length ends after the
//! TLP's header, and the original length is the length of the complete frame. Writing allocates nothing once the
//! buffer has reached its size.

use crate::decode::{Kind, Record};
use crate::encap::{
    Addresses, HEADER_LEN, Host, NettlpHeader, Origin, PORT_DLLP, PortScheme, TICK_PS, emit_header,
};
use crate::reader::pcapng::{
    BYTE_ORDER, COMMENT, ENHANCED_PACKET, EPB_FLAGS, EPB_PACKETID, FLAG_CRC_ERROR, FLAG_INBOUND,
    FLAG_OUTBOUND, IF_DESCRIPTION, IF_NAME, IF_SPEED, IF_TSRESOL, INTERFACE_DESCRIPTION, RISER,
    SECTION_HEADER, SHB_USERAPPL,
};
use crate::reader::{
    DAMAGED, DROPPED, Direction, Interface, LINKTYPE_ETHERNET, LINKTYPE_PCI_EXP, Mark, UNTIMED,
};
use crate::registers::OwnRegisters;
use crate::time::Resolution;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use tlp::{DLLP_LEN, Data, Dllp, Repr, Tag, Time, Tlp};

/// Size of the buffer in bytes.
const BUFFER_LEN: usize = 128 << 10;
/// Bytes of an Enhanced Packet Block before the packet data.
const PACKET_HEAD: usize = 28;
const TRAILER_LEN: usize = 4;
/// `if_tsresol`: 10^-12 s.
const PICOSECONDS: u8 = 12;
/// The finest unit in which the current date fits into 64 bits.
const NANOSECONDS: u8 = 9;

const OPT_END: u16 = 0;

/// ID of an interface of a [`Writer`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InterfaceId(u32);

impl Addresses {
    /// Returns the default addresses for link `link` and `direction`: host 10.x.y.1 and 02:00:00:x:y:01, device
    /// 10.x.y.2 and 02:00:00:x:y:02, where x and y are the high and low byte of `link`.
    pub const fn of_link(link: u16, direction: Direction) -> Addresses {
        let (host, device) = (end_of_link(link, 1), end_of_link(link, 2));
        match direction {
            Direction::Downstream => Addresses { source: host, destination: device },
            Direction::Upstream => Addresses { source: device, destination: host },
        }
    }
}

const fn end_of_link(link: u16, end: u8) -> Host {
    let [x, y] = link.to_be_bytes();
    Host { mac: [2, 0, 0, x, y, end], ip: Ipv4Addr::new(10, x, y, end) }
}

struct Outlet {
    addresses: Addresses,
    sequence: u16,
    /// Bits of `epb_flags` for the direction; 0 with NetTLP.
    flags: u32,
    /// The unit of its timestamps in picoseconds.
    unit_ps: u128,
}

/// Fields of an interface description.
struct Description<'a> {
    name: &'a str,
    description: &'a str,
    /// `if_tsresol`: decimal places of a second.
    digits: u8,
    speed_bps: Option<u64>,
    registers: &'a OwnRegisters,
}

/// The time of a packet.
struct When {
    /// Time in the unit of the interface.
    units: u64,
    /// Time in ticks of the NetTLP header.
    ticks: u32,
}

impl When {
    /// The time of a packet, for an interface with picoseconds.
    const fn of(time: Time) -> When {
        When { units: time.as_ps(), ticks: (time.as_ps() / TICK_PS) as u32 }
    }
}

const fn flags_of(direction: Direction) -> u32 {
    match direction {
        Direction::Downstream => FLAG_INBOUND,
        Direction::Upstream => FLAG_OUTBOUND,
    }
}

/// Writes a capture.
pub struct Writer<W: Write> {
    // `None` only after `finish`.
    inner: Option<W>,
    buffer: Vec<u8>,
    interfaces: Vec<Outlet>,
    snaplen: usize,
    link_type: u16,
    /// Interfaces of copied records, with their numbers here.
    copied: Vec<(Interface, InterfaceId)>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture on `inner`. The writer has its own buffer.
    ///
    /// # Errors
    /// If `inner` fails.
    pub fn new(inner: W) -> io::Result<Writer<W>> {
        Writer::with_snaplen(inner, 0)
    }

    /// Like [`new`](Self::new), but writes only TLPs (`LINKTYPE_PCI_EXP`), without NetTLP. DLLPs cannot be written.
    ///
    /// # Errors
    /// If `inner` fails.
    pub fn of_tlps(inner: W) -> io::Result<Writer<W>> {
        let mut writer = Writer::new(inner)?;
        writer.link_type = LINKTYPE_PCI_EXP;
        Ok(writer)
    }

    /// Like [`new`](Self::new), but keeps at most the first `snaplen` bytes of each frame; 0 keeps all.
    ///
    /// # Errors
    /// If `inner` fails.
    pub fn with_snaplen(inner: W, snaplen: u32) -> io::Result<Writer<W>> {
        let buffer = Vec::with_capacity(BUFFER_LEN + 8192);
        let mut writer = Writer {
            inner: Some(inner),
            buffer,
            interfaces: Vec::new(),
            snaplen: snaplen as usize,
            link_type: LINKTYPE_ETHERNET,
            copied: Vec::new(),
        };
        let start = writer.begin_block(SECTION_HEADER);
        writer.buffer.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        // Version 1.0, and an unknown length of the section.
        writer.buffer.extend_from_slice(&[1, 0, 0, 0]);
        writer.buffer.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(SHB_USERAPPL, RISER);
        writer.option(OPT_END, b"");
        writer.end_block(start)?;
        Ok(writer)
    }

    /// Adds the interface of one tap and direction with the default addresses of its link. Its name is
    /// `link<link>:<direction>`. A description is cut off after 65,535 bytes.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn tap(&mut self, link: u16, direction: Direction, description: &str) -> io::Result<InterfaceId> {
        self.describe(link, direction, description, None, &OwnRegisters::default())
    }

    /// Like [`tap`](Self::tap), for a wire that carries `speed_bps` data bits per second, without the encoding.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn tap_with_speed(
        &mut self,
        link: u16,
        direction: Direction,
        description: &str,
        speed_bps: u64,
    ) -> io::Result<InterfaceId> {
        self.describe(link, direction, description, Some(speed_bps), &OwnRegisters::default())
    }

    /// Like [`tap_with_speed`](Self::tap_with_speed), for the downstream direction of a link to a device with these
    /// registers.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn tap_to_device(
        &mut self,
        link: u16,
        description: &str,
        speed_bps: u64,
        registers: &OwnRegisters,
    ) -> io::Result<InterfaceId> {
        self.describe(link, Direction::Downstream, description, Some(speed_bps), registers)
    }

    fn describe(
        &mut self,
        link: u16,
        direction: Direction,
        description: &str,
        speed_bps: Option<u64>,
        registers: &OwnRegisters,
    ) -> io::Result<InterfaceId> {
        let name = format!("link{link}:{}", direction.name());
        let block = Description { name: &name, description, digits: PICOSECONDS, speed_bps, registers };
        self.add(&block, link, Some(direction))
    }

    /// Adds an interface with the name, description, speed and time unit of an interface that was read, unless it was added before. The unit
    /// becomes a nanosecond if it is not a power of ten, or is less than a picosecond.
    fn like(&mut self, interface: &Interface) -> io::Result<InterfaceId> {
        let is_it = |(known, _): &&(Interface, InterfaceId)| {
            known.name == interface.name && known.slot == interface.slot
        };
        if let Some((_, id)) = self.copied.iter().rfind(is_it) {
            return Ok(*id);
        }
        let Interface { name, description, speed_bps, registers, link, direction, .. } = interface;
        let digits = match interface.resolution {
            Resolution::Decimal(digits) if digits <= PICOSECONDS => digits,
            _ => NANOSECONDS,
        };
        let block = Description { name, description, digits, speed_bps: *speed_bps, registers };
        let id = self.add(&block, *link, *direction)?;
        self.copied.push((interface.clone(), id));
        Ok(id)
    }

    fn add(
        &mut self,
        block: &Description<'_>,
        link: u16,
        direction: Option<Direction>,
    ) -> io::Result<InterfaceId> {
        let start = self.begin_block(INTERFACE_DESCRIPTION);
        self.buffer.extend_from_slice(&self.link_type.to_le_bytes());
        self.buffer.extend_from_slice(&[0, 0]);
        self.buffer.extend_from_slice(&(self.snaplen as u32).to_le_bytes());
        for (code, text) in [(IF_NAME, block.name), (IF_DESCRIPTION, block.description)] {
            if !text.is_empty() {
                self.option(code, text.as_bytes());
            }
        }
        if let Some(bps) = block.speed_bps {
            self.option(IF_SPEED, &bps.to_le_bytes());
        }
        self.option(IF_TSRESOL, &[block.digits]);
        for comment in block.registers.comments() {
            self.option(COMMENT, comment.as_bytes());
        }
        self.option(OPT_END, b"");
        self.end_block(start)?;
        self.interfaces.push(Outlet {
            addresses: Addresses::of_link(link, direction.unwrap_or(Direction::Downstream)),
            sequence: 0,
            flags: direction.filter(|_| self.link_type == LINKTYPE_PCI_EXP).map_or(0, flags_of),
            unit_ps: 10u128.pow(u32::from(PICOSECONDS - block.digits)),
        });
        Ok(InterfaceId(self.interfaces.len() as u32 - 1))
    }

    /// Writes a TLP. `origin`, the side that issued the request, selects the UDP port.
    ///
    /// # Errors
    /// If the underlying writer fails.
    ///
    /// # Panics
    /// If `interface` belongs to another writer.
    pub fn write_tlp(
        &mut self,
        interface: InterfaceId,
        time: Time,
        tlp: &Tlp,
        origin: Origin,
    ) -> io::Result<()> {
        self.write_tlp_marked(interface, time, tlp, origin, Mark::default())
    }

    /// Like [`write_tlp`](Self::write_tlp), with facts that the bytes do not show.
    ///
    /// # Errors
    /// If the underlying writer fails.
    ///
    /// # Panics
    /// If `interface` belongs to another writer.
    pub fn write_tlp_marked(
        &mut self,
        interface: InterfaceId,
        time: Time,
        tlp: &Tlp,
        origin: Origin,
        mark: Mark,
    ) -> io::Result<()> {
        self.write_as(interface, time, tlp, None, origin, mark)
    }

    /// Writes `tlp` with `header` in place of the TLP's header, so that the TLP is malformed.
    ///
    /// # Errors
    /// If the underlying writer fails.
    ///
    /// # Panics
    /// If `interface` belongs to another writer.
    pub fn write_malformed(
        &mut self,
        interface: InterfaceId,
        time: Time,
        tlp: &Tlp,
        header: [u32; 4],
        origin: Origin,
        mark: Mark,
    ) -> io::Result<()> {
        self.write_as(interface, time, tlp, Some(header), origin, mark)
    }

    fn write_as(
        &mut self,
        interface: InterfaceId,
        time: Time,
        tlp: &Tlp,
        header: Option<[u32; 4]>,
        origin: Origin,
        mark: Mark,
    ) -> io::Result<()> {
        let (_, tag) = tlp.repr.transaction();
        let port = PortScheme::Tagged.port(origin, tag);
        let wire_len = tlp.wire_len();
        let known = tlp_captured(tlp);
        let captured = self.captured(known);
        let packet = self.begin_packet(interface, When::of(time), port, wire_len, captured);
        let start = packet + self.overhead();
        self.buffer.resize(start + known, 0);
        emit_tlp(tlp, &mut self.buffer[start..]);
        if let Some(header) = header {
            let at = start + tlp.prefixes.wire_len();
            let dws = self.buffer[at..at + tlp.repr.header_len()].chunks_exact_mut(4);
            dws.zip(header).for_each(|(bytes, dw)| bytes.copy_from_slice(&dw.to_be_bytes()));
        }
        self.end_packet(interface, packet, captured, mark)
    }

    /// Writes the TLP of a record of `interface` unchanged, even if it is incomplete or breaks rules.
    ///
    /// # Errors
    /// If the underlying writer fails, or if the time does not fit into 64 bits in the unit of the interface.
    pub fn copy(&mut self, interface: &Interface, record: &Record<'_>) -> io::Result<()> {
        let interface = self.like(interface)?;
        let (origin, tag) = match &record.kind {
            Kind::Tlp(tlp) => (tlp.origin, tlp.repr.transaction().1),
            _ => (Origin::Device, Tag::default()),
        };
        let outlet = &self.interfaces[interface.0 as usize];
        let ps = record.timestamp.as_ps();
        let units = u64::try_from(ps / outlet.unit_ps);
        let units = units.map_err(|_| io::Error::other(format!("time of {ps} ps exceeds 64 bits")))?;
        let flags = match record.direction.filter(|_| self.link_type == LINKTYPE_PCI_EXP) {
            Some(direction) => flags_of(direction),
            None => outlet.flags,
        };
        let when = When { units, ticks: (ps / u128::from(TICK_PS)) as u32 };
        let (bytes, port) = (record.tlp_bytes, PortScheme::Tagged.port(origin, tag));
        let captured = self.captured(bytes.len());
        let packet = self.begin_packet(interface, when, port, record.tlp_wire_len(), captured);
        self.buffer.extend_from_slice(bytes);
        self.end_packet_with(flags, packet, captured, record.mark, record.has_time)
    }

    /// Writes a DLLP with UDP port [`PORT_DLLP`].
    ///
    /// # Errors
    /// If the underlying writer fails.
    ///
    /// # Panics
    /// If `interface` belongs to another writer.
    pub fn write_dllp(&mut self, interface: InterfaceId, time: Time, dllp: &Dllp) -> io::Result<()> {
        self.write_dllp_marked(interface, time, dllp, Mark::default())
    }

    /// Like [`write_dllp`](Self::write_dllp), with facts that the bytes do not show.
    ///
    /// # Errors
    /// If the underlying writer fails.
    ///
    /// # Panics
    /// If `interface` belongs to another writer, or this writer writes only TLPs.
    pub fn write_dllp_marked(
        &mut self,
        interface: InterfaceId,
        time: Time,
        dllp: &Dllp,
        mark: Mark,
    ) -> io::Result<()> {
        assert_eq!(self.link_type, LINKTYPE_ETHERNET, "this writer writes only TLPs");
        let captured = self.captured(DLLP_LEN);
        let packet = self.begin_packet(interface, When::of(time), PORT_DLLP, DLLP_LEN, captured);
        self.buffer.extend_from_slice(&dllp.emit());
        self.end_packet(interface, packet, captured, mark)
    }

    /// Writes all buffered bytes, and flushes the underlying writer.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Ends the capture: flushes, and returns the underlying writer.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.inner.take().ok_or_else(|| io::Error::other("the capture has already ended"))
    }

    /// Number of bytes before the TLP or DLLP in a frame.
    const fn overhead(&self) -> usize {
        if self.link_type == LINKTYPE_ETHERNET { HEADER_LEN } else { 0 }
    }

    /// Number of bytes of the frame to write, if `payload` bytes after the headers are known.
    fn captured(&self, payload: usize) -> usize {
        let known = self.overhead() + payload;
        if self.snaplen == 0 { known } else { known.min(self.snaplen) }
    }

    /// Appends the block head and the headers of the packet. Returns the position of the packet in the buffer.
    fn begin_packet(
        &mut self,
        interface: InterfaceId,
        when: When,
        port: u16,
        payload_len: usize,
        captured: usize,
    ) -> usize {
        let overhead = self.overhead();
        let mut head = [0; PACKET_HEAD + HEADER_LEN];
        let words = [
            ENHANCED_PACKET,
            // The length of the block, which `end_block` sets.
            0,
            interface.0,
            (when.units >> 32) as u32,
            when.units as u32,
            captured as u32,
            (overhead + payload_len) as u32,
        ];
        for (slot, word) in head.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        if overhead > 0 {
            let outlet = &mut self.interfaces[interface.0 as usize];
            let nettlp = NettlpHeader { sequence: outlet.sequence, timestamp: when.ticks };
            outlet.sequence = outlet.sequence.wrapping_add(1);
            if let Some(frame) = head.last_chunk_mut::<HEADER_LEN>() {
                emit_header(frame, &outlet.addresses, port, nettlp, payload_len);
            }
        }
        self.buffer.extend_from_slice(&head[..PACKET_HEAD + overhead]);
        self.buffer.len() - overhead
    }

    /// Cuts the packet at `packet` to `captured` bytes, pads it, adds the options of its mark, and ends its block.
    fn end_packet(
        &mut self,
        interface: InterfaceId,
        packet: usize,
        captured: usize,
        mark: Mark,
    ) -> io::Result<()> {
        let flags = self.interfaces[interface.0 as usize].flags;
        self.end_packet_with(flags, packet, captured, mark, true)
    }

    fn end_packet_with(
        &mut self,
        flags: u32,
        packet: usize,
        captured: usize,
        mark: Mark,
        has_time: bool,
    ) -> io::Result<()> {
        self.buffer.truncate(packet + captured);
        self.buffer.resize(packet + captured.next_multiple_of(4), 0);
        let start = packet - PACKET_HEAD;
        if mark != Mark::default() || flags != 0 || !has_time {
            self.options_of(flags, mark, has_time);
        }
        self.end_block(start)
    }

    fn options_of(&mut self, flags: u32, mark: Mark, has_time: bool) {
        let flags = flags | if mark.damaged { FLAG_CRC_ERROR } else { 0 };
        if flags != 0 {
            self.option(EPB_FLAGS, &flags.to_le_bytes());
        }
        if mark.damaged {
            self.option(COMMENT, DAMAGED.as_bytes());
        }
        if mark.dropped {
            self.option(COMMENT, DROPPED.as_bytes());
        }
        if !has_time {
            self.option(COMMENT, UNTIMED.as_bytes());
        }
        if let Some(place) = mark.place {
            self.option(EPB_PACKETID, &place.to_le_bytes());
        }
        self.option(OPT_END, b"");
    }

    fn begin_block(&mut self, kind: u32) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&kind.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        start
    }

    /// Writes the length of the block at its start and end.
    fn end_block(&mut self, start: usize) -> io::Result<()> {
        let len = ((self.buffer.len() - start + TRAILER_LEN) as u32).to_le_bytes();
        self.buffer.extend_from_slice(&len);
        self.buffer[start + 4..start + 8].copy_from_slice(&len);
        if self.buffer.len() >= BUFFER_LEN { self.hand_on() } else { Ok(()) }
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.buffer.extend_from_slice(&code.to_le_bytes());
        self.buffer.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(value);
        self.buffer.resize(self.buffer.len().next_multiple_of(4), 0);
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        let result = inner.write_all(&self.buffer);
        // The buffer is cleared even after an error, so that no bytes are written twice.
        self.buffer.clear();
        result
    }
}

impl<W: Write> Drop for Writer<W> {
    // Writes the buffered records of a capture that was not finished, for example after a failed run.
    fn drop(&mut self) {
        let _ = self.hand_on();
    }
}

/// Number of bytes of the TLP that are known: all bytes, or only prefixes and header if its data is counted.
fn tlp_captured(tlp: &Tlp) -> usize {
    if is_counted(tlp) { tlp.prefixes.wire_len() + tlp.repr.header_len() } else { tlp.wire_len() }
}

fn is_counted(tlp: &Tlp) -> bool {
    matches!(tlp.data, Data::Counted(_)) && tlp.repr.data_dw() > 0
}

fn emit_tlp(tlp: &Tlp, out: &mut [u8]) {
    if is_counted(tlp) {
        let (prefixes, header) = out.split_at_mut(tlp.prefixes.wire_len());
        for (dw, prefix) in prefixes.chunks_exact_mut(4).zip(tlp.prefixes.as_slice()) {
            dw.copy_from_slice(&prefix.0.to_be_bytes());
        }
        Repr::emit(&tlp.repr, header);
    } else {
        tlp.emit(out);
    }
}
