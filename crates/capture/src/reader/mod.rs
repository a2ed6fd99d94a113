// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pcap, pcapng and text that holds TLPs ([`FileFormat`]).
//!
//! Text formats are in `text`: their TLPs become frames of [`LINKTYPE_PCI_EXP`].
//!
//! pcap of micro- and nanoseconds in both byte orders; pcapng with any `if_tsresol`, several sections and interfaces. The
//! reader keeps one window on the file and hands out frames as slices of it. What it cannot read it names once, as a
//! [`Fault`], and then goes on at the next record that looks sound: in pcapng a known block type whose two lengths agree,
//! in pcap two headers in a row with lengths that fit and seconds within a day of each other. It never panics, and holds
//! at most 32 MiB.
//!
//! The `pcap-file` crate (2.0) is not used here: it takes every pcapng timestamp for nanoseconds whatever `if_tsresol`
//! says, its `Duration` has no picoseconds, and it cannot go on behind a bad record.

mod columns;
mod format;
mod pcap;
pub(crate) mod pcapng;
mod source;
mod text;

use crate::registers::OwnRegisters;
use crate::superpacket::{Part, Parts};
use crate::time::{Resolution, Timestamp, append_decimal};
use format::Understood;
use serde::Serialize;
use source::Source;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use text::Text;

pub use columns::{Column, Columns};
pub use format::{ByteOrder, FileFormat, ReadOptions};
pub use text::{MAX_LINE, TextLine};

/// Link type of Ethernet (`LINKTYPE_ETHERNET`), which carries NetTLP.
pub const LINKTYPE_ETHERNET: u16 = 1;
/// Link type of PCI Express (`LINKTYPE_PCI_EXP`). No layout is published: docs/linktype-125.md has riser's.
pub const LINKTYPE_PCI_EXP: u16 = 125;
/// First of the 16 link types that are free for private use (`LINKTYPE_USER0`).
pub const LINKTYPE_USER0: u16 = 147;
/// Longest frame that a record may hold, bytes; the limit of libpcap and Wireshark too.
pub const MAX_FRAME_LEN: usize = 262_144;
/// Longest pcapng block, bytes.
pub const MAX_BLOCK_LEN: usize = 16 << 20;
/// Most interfaces of one pcapng section.
pub const MAX_INTERFACES: usize = 4_096;
/// Most links that are told apart.
pub const MAX_LINKS: usize = 65_535;

/// Which way an interface looks: the part behind the colon of names such as `link0:downstream`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the root complex to the device.
    Downstream,
    /// From the device to the root complex.
    Upstream,
}

impl Direction {
    /// `downstream` or `upstream`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Downstream => "downstream",
            Direction::Upstream => "upstream",
        }
    }
}

/// An end of a link, where a tap sits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The root port, or the downstream port of a switch.
    Root,
    /// The device, or the upstream port of a switch.
    Device,
}

impl End {
    /// `root` or `device`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            End::Root => "root",
            End::Device => "device",
        }
    }

    /// The end in descriptions of interfaces.
    const fn described(self) -> &'static str {
        match self {
            End::Root => "root port",
            End::Device => "device",
        }
    }
}

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name (`if_name`); empty where the capture gives none.
    pub name: String,
    /// What it is (`if_description`); empty where the capture gives none.
    pub description: String,
    /// Link type; [`LINKTYPE_ETHERNET`] and [`LINKTYPE_PCI_EXP`] are decoded.
    pub link_type: u16,
    /// Unit of its timestamps.
    pub resolution: Resolution,
    /// Seconds to add to its timestamps (`if_tsoffset`).
    pub offset_s: i64,
    /// Most bytes captured of a frame; 0 is no limit.
    pub snaplen: u32,
    /// Which way it looks, where its name says so.
    pub direction: Option<Direction>,
    /// Which link it sits on: interfaces whose names agree up to the colon share a number; the first is 0.
    pub link: u16,
    /// The slot or switch that the link leads to, as the description of captures of riser has it; else empty.
    pub slot: Arc<str>,
    /// At which end of the link it sits, where the description says so.
    pub end: Option<End>,
    /// Registers of the device on its link. Only downstream interfaces of riser's captures name them.
    pub registers: OwnRegisters,
    /// True where the capture describes other links too.
    pub has_others: bool,
    /// Data bits per second that its wire carries, encoding taken off (`if_speed`); `None` where the capture does not say.
    pub speed_bps: Option<u64>,
}

impl Interface {
    /// One way of a link of riser's, as its captures have it: with timestamps from the start of the run on.
    pub fn of_link(link: u16, way: Direction, description: &str) -> Interface {
        let mut interface = Interface {
            name: format!("link{link}:{}", way.name()),
            direction: Some(way),
            link,
            ..Interface::new(LINKTYPE_ETHERNET, Resolution::PICOSECONDS, 0)
        };
        interface.describe(description);
        interface
    }

    /// Describes one direction of the link to a slot or switch, seen at one end, for captures of riser.
    pub fn description(slot: &str, way: Direction, end: End) -> String {
        format!("{slot}, {}, at the {}", way.name(), end.described())
    }

    /// Sets the description, and the slot and the end that it names.
    fn describe(&mut self, description: &str) {
        description.clone_into(&mut self.description);
        let Some((rest, at)) = description.rsplit_once(", at the ") else { return };
        let ways = [", upstream", ", downstream"];
        let slot = ways.into_iter().find_map(|way| rest.strip_suffix(way));
        let end = [End::Root, End::Device].into_iter().find(|end| end.described() == at);
        if let (Some(slot), Some(end)) = (slot, end) {
            (self.slot, self.end) = (slot.into(), Some(end));
        }
    }

    /// Appends the name of a link: its slot or switch, or `link` and its number.
    pub fn append_link(link: u16, slot: &str, out: &mut String) {
        if slot.is_empty() {
            out.push_str("link");
            append_decimal(out, link.into(), 1);
        } else {
            out.push_str(slot);
        }
    }

    /// Without a name, and with timestamps from the epoch on.
    fn new(link_type: u16, resolution: Resolution, snaplen: u32) -> Interface {
        Interface {
            name: String::new(),
            description: String::new(),
            link_type,
            resolution,
            offset_s: 0,
            snaplen,
            direction: None,
            link: 0,
            slot: Arc::default(),
            end: None,
            registers: OwnRegisters::default(),
            has_others: false,
            speed_bps: None,
        }
    }
}

/// What a capture says of a frame beside its bytes; captures of riser that hold DLLPs do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Bits of it were flipped on the way: its receiver rejects it (`epb_flags`, bit 24: CRC error).
    pub damaged: bool,
    /// It vanished on the way and never arrived; it is shown when it would have (`opt_comment`, [`DROPPED`]).
    pub dropped: bool,
    /// The place of a TLP among those of its link and direction, from 0 on: its low 12 bits are the TLP's sequence number,
    /// and a replay has that of the first transmission (`epb_packetid`, in captures of riser).
    pub place: Option<u64>,
}

impl Mark {
    /// True where it never reached its receiver in good order.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        self.damaged || self.dropped
    }
}

/// The comment on a frame that vanished on the way.
pub const DROPPED: &str = "dropped on the way";
/// The comment on a frame whose bits were flipped on the way.
pub const DAMAGED: &str = "damaged on the way";

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its place among the frames of the file, from 1 on.
    pub number: u64,
    /// When it was seen.
    pub timestamp: Timestamp,
    /// Number of its interface in its section, from 0 on.
    pub interface_id: u32,
    /// Its interface.
    pub interface: &'a Interface,
    /// The bytes captured.
    pub bytes: &'a [u8],
    /// Its length on the wire, bytes; at least those captured.
    pub original_len: usize,
    /// What the capture says of it beside its bytes.
    pub mark: Mark,
    /// Which way it went, if its interface or its packet (`epb_flags`, bits 1:0, of [`LINKTYPE_PCI_EXP`]) says so.
    pub direction: Option<Direction>,
    /// The line of the text that it is from; `None` for pcap and pcapng.
    pub text: Option<TextLine<'a>>,
}

/// Something in a file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The file ends within a record.
    #[error("at byte {offset}: the file ends within a record that needs {need} bytes; {have} are left")]
    Truncated {
        /// Where the record starts.
        offset: u64,
        /// Bytes that it needs.
        need: usize,
        /// Bytes that are left.
        have: usize,
    },
    /// A record or block contradicts itself.
    #[error("at byte {offset}: {what}; {skipped} bytes skipped")]
    Corrupt {
        /// Where it starts.
        offset: u64,
        /// What is wrong.
        what: Defect,
        /// Bytes skipped up to the next sound record, or to the end of the file.
        skipped: u64,
    },
    /// A block with a sound frame around a body that cannot be read.
    #[error("at byte {offset}: {what}")]
    Block {
        /// Where it starts.
        offset: u64,
        /// What is wrong.
        what: Defect,
    },
    /// A line of a text that cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// Where it starts.
        offset: u64,
        /// Its number, from 1 on.
        line: u64,
        /// What is wrong.
        what: String,
    },
}

/// What is wrong with a record or block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Defect {
    /// A pcap record whose length cannot be.
    #[error(
        "record of {captured} bytes captured of {original}: legal are at most {MAX_FRAME_LEN}, and no more than there were"
    )]
    RecordLength {
        /// Bytes captured.
        captured: u32,
        /// Bytes on the wire.
        original: u32,
    },
    /// A pcap record whose fraction of a second is a second or more.
    #[error("record with a fraction of a second of {0}")]
    Fraction(u32),
    /// A pcapng block whose length cannot be.
    #[error("block of {0} bytes: legal are multiples of 4 from 12 to {MAX_BLOCK_LEN}")]
    BlockLength(u32),
    /// A pcapng block whose two lengths differ.
    #[error("block whose lengths disagree: {0} at its start, {1} at its end")]
    BlockTrailer(u32, u32),
    /// A pcapng section with an unknown byte order mark.
    #[error("section with byte-order magic {0:#010x}: legal is 0x1a2b3c4d")]
    ByteOrder(u32),
    /// A pcapng section of a version that is not 1.
    #[error("section of version {0}: legal is 1")]
    Version(u16),
    /// A packet on an interface that no block describes.
    #[error("packet of interface {interface}, where {known} are described")]
    UnknownInterface {
        /// Its number.
        interface: u32,
        /// How many there are.
        known: usize,
    },
    /// A block too short for its type.
    #[error("block of type {0} too short for what it says it holds")]
    ShortBlock(u32),
    /// A block of a type that is neither standard nor set aside for local use.
    #[error("block of unknown type {0:#x}")]
    UnknownBlock(u32),
    /// More interfaces than are kept.
    #[error("more than {MAX_INTERFACES} interfaces in a section")]
    TooManyInterfaces,
}

impl Fault {
    /// Where in the file, bytes from its start.
    pub const fn offset(&self) -> u64 {
        match self {
            Fault::Truncated { offset, .. }
            | Fault::Corrupt { offset, .. }
            | Fault::Block { offset, .. }
            | Fault::Line { offset, .. } => *offset,
        }
    }

    /// A short name of the kind of fault, for counting.
    pub const fn kind(&self) -> &'static str {
        match self {
            Fault::Truncated { .. } => "truncated record",
            Fault::Corrupt { what, .. } | Fault::Block { what, .. } => what.kind(),
            Fault::Line { .. } => "line",
        }
    }
}

impl Defect {
    const fn kind(self) -> &'static str {
        match self {
            Defect::RecordLength { .. } => "record length",
            Defect::Fraction(_) => "record time",
            Defect::BlockLength(_) | Defect::BlockTrailer(..) => "block length",
            Defect::ByteOrder(_) | Defect::Version(_) => "section header",
            Defect::UnknownInterface { .. } => "unknown interface",
            Defect::ShortBlock(_) => "short block",
            Defect::UnknownBlock(_) => "unknown block",
            Defect::TooManyInterfaces => "too many interfaces",
        }
    }
}

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refuses.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is of no format that riser reads.
    #[error("{path}: no capture: {what}")]
    NotACapture {
        /// The file.
        path: String,
        /// The first bytes, and the list of the formats that riser reads.
        what: String,
    },
    /// An option does not fit the file.
    #[error("{path}: {what}")]
    Option {
        /// The file.
        path: String,
        /// The option, and what it needs.
        what: String,
    },
}

/// Why a file has no format that can be read.
enum Unreadable {
    Unknown(String),
    Option(String),
}

/// What the next step found: a frame, or what could not be read.
#[derive(Debug)]
pub enum Item<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// A part of the file that could not be read; reading goes on behind it.
    Fault(Fault),
}

/// What a format finds at the window: `bytes` counts back from the window's start once it has moved on.
#[derive(Default)]
struct Found {
    timestamp: Timestamp,
    interface_id: u32,
    original_len: usize,
    /// The captured bytes, counted from the start of the record or block.
    bytes: Range<usize>,
    /// Length of the record or block.
    record_len: usize,
    mark: Mark,
    /// The direction that the record itself tells.
    direction: Option<Direction>,
}

/// What comes next in a file.
pub(crate) enum Step {
    /// A frame, told as [`Found`].
    Frame,
    /// What cannot be read.
    Fault(Fault),
    End,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Text(Box<Text>),
}

/// A capture being read.
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    interfaces: Interfaces,
    /// The frame that was taken last, and its place among all.
    found: Found,
    frames: u64,
    /// Its datagrams, where it holds several, and which of them is next.
    parts: Option<(Parts, usize)>,
}

/// Opens a capture file, and detects its format.
///
/// # Errors
/// If it cannot be opened, or has an unknown format.
pub fn open(path: impl AsRef<Path>) -> Result<Reader<File>, OpenError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| OpenError::Io { path: name.clone(), error })?;
    Reader::named(file, &name)
}

impl<R: Read> Reader<R> {
    /// Reads a capture from `inner`, which needs no buffer of its own.
    ///
    /// # Errors
    /// If its first bytes cannot be read, or have an unknown format.
    pub fn new(inner: R) -> Result<Reader<R>, OpenError> {
        Reader::named(inner, "input")
    }

    /// As [`new`](Self::new), of what errors call `name`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn named(inner: R, name: &str) -> Result<Reader<R>, OpenError> {
        Reader::with_options(inner, name, &ReadOptions::default())
    }

    /// As [`named`](Self::named), with options.
    ///
    /// # Errors
    /// As [`new`](Self::new); also if the file does not have the format in `options`.
    pub fn with_options(inner: R, name: &str, options: &ReadOptions) -> Result<Reader<R>, OpenError> {
        let mut source = Source::new(inner);
        let mut interfaces = Interfaces { user_tlps: options.user_tlps, ..Interfaces::default() };
        match Format::detect(&mut source, &mut interfaces, options) {
            Ok(Ok(format)) => {
                let found = Found::default();
                Ok(Reader { source, format, interfaces, found, frames: 0, parts: None })
            }
            Ok(Err(Unreadable::Unknown(what))) => Err(OpenError::NotACapture { path: name.to_owned(), what }),
            Ok(Err(Unreadable::Option(what))) => Err(OpenError::Option { path: name.to_owned(), what }),
            Err(error) => Err(OpenError::Io { path: name.to_owned(), error }),
        }
    }

    /// The format of the file.
    pub fn format(&self) -> FileFormat {
        self.format.name()
    }

    /// Describes the format, how riser detected it, and the TLPs read so far.
    pub fn taken_for(&self) -> String {
        match &self.format {
            Format::Text(text) => text.taken_for(),
            _ => self.format().name().to_owned(),
        }
    }

    /// Returns whether riser detected reversed dwords in hexadecimal text, or assumed their byte order.
    pub fn has_guessed_byte_order(&self) -> bool {
        matches!(&self.format, Format::Text(text) if text.has_guessed_byte_order())
    }

    /// The interfaces described so far in this section.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces.list
    }

    /// Sound blocks passed over since they hold no packet: names, statistics, secrets, those for local use.
    pub const fn skipped_blocks(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) | Format::Text(_) => 0,
            Format::Pcapng(pcapng) => pcapng.skipped_blocks,
        }
    }

    /// Bytes of the file read so far.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next frame, or what could not be read; `None` at the end of the file.
    ///
    /// # Errors
    /// Those of the underlying reader.
    pub fn next_item(&mut self) -> io::Result<Option<Item<'_>>> {
        Ok(match self.advance()? {
            Step::Frame => Some(Item::Frame(self.frame().0)),
            Step::Fault(fault) => Some(Item::Fault(fault)),
            Step::End => None,
        })
    }

    /// The next datagram of the last frame, where not all were handed out.
    pub(crate) fn next_part(&mut self) -> Option<Part> {
        let (parts, next) = self.parts.as_mut()?;
        let part = (*next < parts.count()).then(|| parts.part(*next));
        *next += 1;
        if part.is_none() {
            self.parts = None;
        }
        part
    }

    /// The frame that was taken from the file last, and where to keep its datagrams, where it holds several, and the next of them.
    pub(crate) fn frame(&mut self) -> (Frame<'_>, &mut Option<(Parts, usize)>) {
        let Found { timestamp, interface_id, original_len, ref bytes, record_len, mark, direction } =
            self.found;
        let interface = &self.interfaces.list[interface_id as usize];
        let (bytes, text) = match &self.format {
            Format::Text(text) => (text.bytes(), Some(text.about())),
            _ => (self.source.behind(record_len - bytes.start, bytes.len()), None),
        };
        let frame = Frame {
            number: self.frames,
            timestamp,
            interface_id,
            interface,
            bytes,
            original_len: original_len.max(bytes.len()),
            mark,
            direction: interface.direction.or(direction),
            text,
        };
        (frame, &mut self.parts)
    }

    /// Takes what comes next from the file.
    pub(crate) fn advance(&mut self) -> io::Result<Step> {
        let step = match &mut self.format {
            Format::Pcap(pcap) => pcap.step(&mut self.source, &mut self.found)?,
            Format::Pcapng(pcapng) => pcapng.step(&mut self.source, &mut self.interfaces, &mut self.found)?,
            Format::Text(text) => text.step(&mut self.source, &mut self.interfaces, &mut self.found)?,
        };
        if let Step::Frame = step {
            self.source.skip(self.found.record_len);
            self.frames += 1;
        }
        Ok(step)
    }
}

impl Format {
    fn detect<R: Read>(
        source: &mut Source<R>,
        interfaces: &mut Interfaces,
        options: &ReadOptions,
    ) -> io::Result<Result<Format, Unreadable>> {
        let format = Format::detect_any(source, interfaces, options)?;
        Ok(format.and_then(|format| match options.misfit(format.name()) {
            Some(what) => Err(Unreadable::Option(what)),
            None => Ok(format),
        }))
    }

    fn name(&self) -> FileFormat {
        match self {
            Format::Pcap(_) => FileFormat::Pcap,
            Format::Pcapng(_) => FileFormat::Pcapng,
            Format::Text(text) => text.format(),
        }
    }

    fn detect_any<R: Read>(
        source: &mut Source<R>,
        interfaces: &mut Interfaces,
        options: &ReadOptions,
    ) -> io::Result<Result<Format, Unreadable>> {
        source.need(pcap::FILE_HEADER_LEN)?;
        let window = source.window();
        let starts = window.first_chunk::<4>().map(|magic| u32::from_be_bytes(*magic));
        let may_be = |format| options.format.is_none_or(|asked| asked == format);
        if starts == Some(pcapng::SECTION_HEADER) && may_be(FileFormat::Pcapng) {
            return Ok(Ok(Format::Pcapng(pcapng::Pcapng::new())));
        }
        if starts.is_some_and(pcap::is_magic) && may_be(FileFormat::Pcap) {
            let pcap = pcap::Pcap::parse(window).and_then(|(pcap, interface)| {
                source.skip(pcap::FILE_HEADER_LEN);
                interfaces.push(interface).map_err(|defect| defect.to_string())?;
                Ok(Format::Pcap(pcap))
            });
            return Ok(pcap.map_err(Unreadable::Unknown));
        }
        if options.format.is_none_or(FileFormat::is_text)
            && let Some(text) = Text::detect(source, options)?
        {
            let text = text.map(|text| Format::Text(Box::new(text)));
            return Ok(text.map_err(Unreadable::Option));
        }
        Ok(Err(Unreadable::Unknown(unknown(source.window(), options.format))))
    }
}

/// Describes the start of a file that does not have the expected format.
fn unknown(window: &[u8], asked: Option<FileFormat>) -> String {
    let start = match window {
        [a, b, c, d, ..] => format!("it starts with {a:02x} {b:02x} {c:02x} {d:02x}"),
        short => format!("it holds {}", crate::render::Count(short.len() as u64, "byte")),
    };
    let hint = text::hint(window).map(|hint| format!("; {hint}")).unwrap_or_default();
    match asked {
        Some(FileFormat::Csv) => "csv needs its columns, such as time_ns=1,dir=2,tlp=3".to_owned(),
        Some(format) => format!("{start}; {format} has {}", format.example()),
        None => format!("{start}{hint}; {Understood}"),
    }
}

/// The interfaces of a section, and the links of the whole file.
#[derive(Default)]
struct Interfaces {
    list: Vec<Interface>,
    links: BTreeMap<String, u16>,
    /// User link types that hold TLPs.
    user_tlps: u16,
}

impl Interfaces {
    fn push(&mut self, mut interface: Interface) -> Result<(), Defect> {
        if self.list.len() == MAX_INTERFACES {
            return Err(Defect::TooManyInterfaces);
        }
        let user = interface.link_type.checked_sub(LINKTYPE_USER0).filter(|user| *user < 16);
        if user.is_some_and(|user| self.user_tlps >> user & 1 == 1) {
            interface.link_type = LINKTYPE_PCI_EXP;
        }
        let (link, way) = interface.name.split_once(':').unwrap_or(("", &interface.name));
        let direction = match way {
            "downstream" => Some(Direction::Downstream),
            "upstream" => Some(Direction::Upstream),
            _ => None,
        };
        let link = if direction.is_some() { link } else { "" };
        interface.link = self.link(link);
        interface.direction = direction;
        interface.has_others = self.links.len() > 1;
        if interface.has_others {
            self.list.iter_mut().for_each(|other| other.has_others = true);
        }
        self.list.push(interface);
        Ok(())
    }

    /// Returns the number of the interface of a text with this name. The last of [`MAX_INTERFACES`] has no name and stands for
    /// all further ones.
    fn of_text(&mut self, name: &str, resolution: Resolution, link_type: u16) -> u32 {
        if let Some(at) = self.list.iter().rposition(|known| known.name == name) {
            return at as u32;
        }
        if self.list.len() < MAX_INTERFACES {
            let is_last = self.list.len() == MAX_INTERFACES - 1;
            let name = if is_last { String::new() } else { name.to_owned() };
            let interface = Interface { name, ..Interface::new(link_type, resolution, 0) };
            // There is room.
            let _ = self.push(interface);
        }
        self.list.len() as u32 - 1
    }

    // Interfaces that name no link share the empty name: one place, as in NetTLP's captures.
    fn link(&mut self, name: &str) -> u16 {
        if let Some(link) = self.links.get(name) {
            return *link;
        }
        let link = self.links.len().min(MAX_LINKS) as u16;
        if self.links.len() < MAX_LINKS {
            self.links.insert(name.to_owned(), link);
        }
        link
    }
}

/// Goes on at the next place where `is_sound` holds for the window, of `need` bytes but at the end of the file.
fn resync<R: Read>(
    source: &mut Source<R>,
    what: Defect,
    need: usize,
    is_sound: impl Fn(&[u8]) -> bool,
) -> io::Result<Step> {
    let offset = source.offset();
    loop {
        source.skip(1);
        source.need(need)?;
        if source.window().is_empty() || is_sound(source.window()) {
            return Ok(Step::Fault(Fault::Corrupt { offset, what, skipped: source.offset() - offset }));
        }
    }
}

/// The end of the file, or what is left of a record there.
fn cut_short<R: Read>(source: &mut Source<R>, need: usize) -> Step {
    let (offset, have) = (source.offset(), source.window().len());
    if have == 0 {
        return Step::End;
    }
    source.skip(have);
    Step::Fault(Fault::Truncated { offset, need, have })
}

/// The byte order of a file or section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if self == Order::Big { word.swap_bytes() } else { word }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = &bytes[at..at + 4];
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if self == Order::Big { word.swap_bytes() } else { word }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self == Order::Big { first << 32 | second } else { second << 32 | first }
    }
}
