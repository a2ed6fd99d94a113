// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pcapng (draft-ietf-opsawg-pcapng). A block has type, length, body, and the length again. Each section of a file
//! has its own byte order and interfaces.

use super::interface::Interfaces;
use super::source::{Order, Source, cut_short, resync};
use super::{
    DROPPED, Defect, Direction, Fault, Found, Interface, LINKTYPE_PCI_EXP, MAX_BLOCK_LEN, MAX_FRAME_LEN,
    Mark, Step, UNTIMED,
};
use crate::time::{Resolution, Timestamp};
use std::io::{self, Read};

/// Section Header Block. The number is the same in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Interface Description Block.
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
/// Enhanced Packet Block.
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// Byte-order magic of a section header.
pub(crate) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Options of an interface description: name, description, unit of timestamps, seconds to add.
pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_DESCRIPTION: u16 = 3;
pub(crate) const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
/// Option of an interface description: bits per second.
pub(crate) const IF_SPEED: u16 = 8;
/// Options of a packet: comment, flags, packet ID.
pub(crate) const COMMENT: u16 = 1;
pub(crate) const EPB_FLAGS: u16 = 2;
pub(crate) const EPB_PACKETID: u16 = 5;
/// Bit of `epb_flags`: CRC error.
pub(crate) const FLAG_CRC_ERROR: u32 = 1 << 24;
/// Direction bits of `epb_flags`. Inbound is to the device, and outbound is from the device.
const FLAGS_DIRECTION: u32 = 0b11;
pub(crate) const FLAG_INBOUND: u32 = 0b01;
pub(crate) const FLAG_OUTBOUND: u32 = 0b10;
/// Option of a section header: name of the writing application.
pub(crate) const SHB_USERAPPL: u16 = 4;
/// Name of the writing application in riser's captures.
pub(crate) const RISER: &[u8] = b"riser";

const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
/// Block types that end the search for the next valid block: those of the draft that occur in captures.
const KNOWN_TYPES: [u32; 11] = [SECTION_HEADER, 1, 2, 3, 4, 5, 6, 9, 10, 0x0000_0bad, 0x4000_0bad];

/// Block types with this bit are reserved for local use.
const LOCAL_USE: u32 = 1 << 31;

const BLOCK_HEAD: usize = 8;
const BLOCK_OVERHEAD: usize = 12;
const MIN_SECTION_LEN: usize = 28;
/// Maximum block length during the search for the next valid block.
const MAX_RESYNC_LEN: usize = MAX_FRAME_LEN + 4096;

pub(super) struct Pcapng {
    order: Order,
    /// True if riser wrote this section. Then the packet ID of a TLP is its number on the link.
    by_riser: bool,
    pub(super) skipped_blocks: u64,
}

impl Pcapng {
    pub(super) fn new() -> Pcapng {
        Pcapng { order: Order::Little, by_riser: false, skipped_blocks: 0 }
    }

    /// Reads blocks up to the next one with a frame, and stores the position of the frame in `found`.
    pub(super) fn step<R: Read>(
        &mut self,
        source: &mut Source<R>,
        interfaces: &mut Interfaces,
        found: &mut Found,
    ) -> io::Result<Step> {
        loop {
            if !source.need(BLOCK_OVERHEAD)? {
                return Ok(cut_short(source, BLOCK_OVERHEAD));
            }
            let kind = self.order.u32(source.window(), 0);
            if kind == SECTION_HEADER
                && let Err(what) = self.begin_section(source.window(), interfaces)
            {
                return self.resync(source, what);
            }
            let length = self.order.u32(source.window(), 4);
            let len = length as usize;
            if !legal_length(len) || (kind == SECTION_HEADER && len < MIN_SECTION_LEN) {
                return self.resync(source, Defect::BlockLength(length));
            }
            if !source.need(len)? {
                return self.last_block(source, len);
            }
            let trailer = self.order.u32(source.window(), len - 4);
            if trailer != length {
                return self.resync(source, Defect::BlockTrailer(length, trailer));
            }
            let body = &source.window()[BLOCK_HEAD..len - 4];
            match self.block(kind, body, interfaces, found) {
                Ok(true) => {
                    found.record_len = len;
                    return Ok(Step::Frame);
                }
                Ok(false) => source.skip(len),
                Err(what) => {
                    let offset = source.offset();
                    source.skip(len);
                    return Ok(Step::Fault(Fault::Block { offset, what }));
                }
            }
        }
    }

    // A new section replaces the byte order and the interfaces.
    fn begin_section(&mut self, window: &[u8], interfaces: &mut Interfaces) -> Result<(), Defect> {
        self.order = match Order::Little.u32(window, 8) {
            BYTE_ORDER => Order::Little,
            0x4d3c_2b1a => Order::Big,
            other => return Err(Defect::ByteOrder(other)),
        };
        interfaces.list.clear();
        Ok(())
    }

    /// Processes a block, and stores the position of its frame in `found`. Returns true if it has a frame.
    fn block(
        &mut self,
        kind: u32,
        body: &[u8],
        interfaces: &mut Interfaces,
        found: &mut Found,
    ) -> Result<bool, Defect> {
        match kind {
            ENHANCED_PACKET | OBSOLETE_PACKET => self.packet(kind, body, interfaces, found).map(|()| true),
            INTERFACE_DESCRIPTION => self.describe(body, interfaces).map(|()| false),
            SECTION_HEADER => match self.order.u16(body, 4) {
                1 => {
                    self.by_riser = self.is_by_riser(body);
                    Ok(false)
                }
                version => Err(Defect::Version(version)),
            },
            SIMPLE_PACKET => self.simple(body, interfaces, found).map(|()| true),
            // Name resolution, statistics, secrets, custom blocks and local use have no frame.
            _ if kind & LOCAL_USE != 0 || KNOWN_TYPES.contains(&kind) => {
                self.skipped_blocks += 1;
                Ok(false)
            }
            _ => Err(Defect::UnknownBlock(kind)),
        }
    }

    // The first word of the obsolete block has an interface number and a drop count of 16 bits each.
    fn packet(
        &self,
        kind: u32,
        body: &[u8],
        interfaces: &Interfaces,
        found: &mut Found,
    ) -> Result<(), Defect> {
        if body.len() < 20 {
            return Err(Defect::ShortBlock(kind));
        }
        let interface_id = match kind {
            OBSOLETE_PACKET => u32::from(self.order.u16(body, 0)),
            _ => self.order.u32(body, 0),
        };
        let interface = known(interfaces, interface_id)?;
        let captured = self.order.u32(body, 12) as usize;
        if captured > body.len() - 20 {
            return Err(Defect::ShortBlock(kind));
        }
        let units = u64::from(self.order.u32(body, 4)) << 32 | u64::from(self.order.u32(body, 8));
        let start = BLOCK_HEAD + 20;
        found.timestamp = Timestamp::from_units(units, interface.resolution, interface.offset_s);
        found.interface_id = interface_id;
        found.original_len = self.order.u32(body, 16) as usize;
        found.bytes = start..start + captured;
        (found.mark, found.direction, found.is_untimed) = match body.get(20 + captured.next_multiple_of(4)..)
        {
            None | Some([]) => (Mark::default(), None, false),
            Some(options) => self.mark(options),
        };
        found.direction = found.direction.filter(|_| interface.link_type == LINKTYPE_PCI_EXP);
        Ok(())
    }

    /// Returns the mark of a packet, its direction, and whether it has no time.
    fn mark(&self, options: &[u8]) -> (Mark, Option<Direction>, bool) {
        let (mut mark, mut direction, mut is_untimed) = (Mark::default(), None, false);
        self.options(options, |code, value| match (code, value) {
            (EPB_FLAGS, [_, _, _, _]) => {
                let flags = self.order.u32(value, 0);
                mark.damaged |= flags & FLAG_CRC_ERROR != 0;
                direction = match flags & FLAGS_DIRECTION {
                    FLAG_INBOUND => Some(Direction::Downstream),
                    FLAG_OUTBOUND => Some(Direction::Upstream),
                    _ => None,
                };
            }
            (EPB_PACKETID, _) if self.by_riser && value.len() == 8 => {
                mark.place = Some(self.order.u64(value, 0));
            }
            (COMMENT, text) => {
                mark.dropped |= text == DROPPED.as_bytes();
                is_untimed |= text == UNTIMED.as_bytes();
            }
            _ => {}
        });
        (mark, direction, is_untimed)
    }

    fn is_by_riser(&self, section: &[u8]) -> bool {
        let mut by_riser = false;
        self.options(section.get(16..).unwrap_or_default(), |code, value| {
            by_riser |= code == SHB_USERAPPL && value == RISER;
        });
        by_riser
    }

    // A simple packet belongs to interface 0. It has no timestamp, and is captured up to the snap length.
    fn simple(&self, body: &[u8], interfaces: &Interfaces, found: &mut Found) -> Result<(), Defect> {
        let interface = known(interfaces, 0)?;
        if body.len() < 4 {
            return Err(Defect::ShortBlock(SIMPLE_PACKET));
        }
        let original_len = self.order.u32(body, 0) as usize;
        let snaplen = if interface.snaplen == 0 { usize::MAX } else { interface.snaplen as usize };
        let captured = original_len.min(snaplen).min(body.len() - 4);
        let start = BLOCK_HEAD + 4;
        *found = Found { original_len, bytes: start..start + captured, is_untimed: true, ..Found::default() };
        Ok(())
    }

    fn describe(&self, body: &[u8], interfaces: &mut Interfaces) -> Result<(), Defect> {
        if body.len() < 8 {
            return Err(Defect::ShortBlock(INTERFACE_DESCRIPTION));
        }
        let (link_type, snaplen) = (self.order.u16(body, 0), self.order.u32(body, 4));
        let mut interface = Interface::new(link_type, Resolution::MICROSECONDS, snaplen);
        self.options(&body[8..], |code, value| match (code, value) {
            (IF_NAME, name) => interface.name = text(name),
            (IF_DESCRIPTION, description) => interface.describe(&text(description)),
            (COMMENT, comment) if self.by_riser => {
                interface.registers.read(&String::from_utf8_lossy(comment))
            }
            (IF_TSRESOL, [byte, ..]) => interface.resolution = Resolution::from_byte(*byte),
            (IF_SPEED, speed) if speed.len() == 8 => {
                interface.speed_bps = Some(self.order.u64(speed, 0)).filter(|bps| *bps > 0);
            }
            (IF_TSOFFSET, seconds) if seconds.len() == 8 => {
                interface.offset_s = self.order.u64(seconds, 0) as i64;
            }
            _ => {}
        });
        interfaces.push(interface)
    }

    // An option that ends after its block ends the list. Options before it are valid.
    fn options(&self, mut rest: &[u8], mut each: impl FnMut(u16, &[u8])) {
        while rest.len() >= 4 {
            let (code, len) = (self.order.u16(rest, 0), usize::from(self.order.u16(rest, 2)));
            if code == 0 || rest.len() < 4 + len {
                return;
            }
            each(code, &rest[4..4 + len]);
            rest = &rest[(4 + len.next_multiple_of(4)).min(rest.len())..];
        }
    }

    // The file ends within this block. Either the block is truncated, or its length is wrong and valid blocks
    // follow within it.
    fn last_block<R: Read>(&mut self, source: &mut Source<R>, len: usize) -> io::Result<Step> {
        let have = source.window().len();
        if (4..have).any(|at| self.sound_at(&source.window()[at..])) {
            return self.resync(source, Defect::BlockLength(len as u32));
        }
        Ok(cut_short(source, len))
    }

    fn resync<R: Read>(&mut self, source: &mut Source<R>, what: Defect) -> io::Result<Step> {
        resync(source, what, MAX_RESYNC_LEN, |window| self.sound_at(window))
    }

    /// Returns true if a block of a known type with two equal lengths starts here.
    fn sound_at(&self, window: &[u8]) -> bool {
        if window.len() < BLOCK_OVERHEAD || !KNOWN_TYPES.contains(&self.order.u32(window, 0)) {
            return false;
        }
        let order = match Order::Little.u32(window, 0) {
            SECTION_HEADER if Order::Big.u32(window, 8) == BYTE_ORDER => Order::Big,
            SECTION_HEADER => Order::Little,
            _ => self.order,
        };
        let len = order.u32(window, 4) as usize;
        legal_length(len)
            && len <= window.len().min(MAX_RESYNC_LEN)
            && order.u32(window, len - 4) as usize == len
    }
}

fn legal_length(len: usize) -> bool {
    (BLOCK_OVERHEAD..=MAX_BLOCK_LEN).contains(&len) && len.is_multiple_of(4)
}

fn known(interfaces: &Interfaces, id: u32) -> Result<&Interface, Defect> {
    let known = interfaces.list.len();
    interfaces.list.get(id as usize).ok_or(Defect::UnknownInterface { interface: id, known })
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // The text may be printed to a terminal.
    text.trim_end_matches('\0').replace(char::is_control, "\u{fffd}")
}
