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
mod fault;
mod format;
mod interface;
mod pcap;
pub(crate) mod pcapng;
mod source;
mod text;

use crate::superpacket::{Part, Parts};
use crate::time::Timestamp;
use format::Understood;
use interface::Interfaces;
use source::Source;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use text::Text;

pub use columns::{Column, Columns};
pub use fault::{Defect, Fault, OpenError};
pub use format::{ByteOrder, FileFormat, ReadOptions};
pub use interface::{Direction, End, Interface};
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
/// The comment on a frame without a time: its timestamp is 0.
pub const UNTIMED: &str = "without a time";
/// The comment on a frame whose bits were flipped on the way.
pub const DAMAGED: &str = "damaged on the way";

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its place among the frames of the file, from 1 on.
    pub number: u64,
    /// When it was seen; zero without a time.
    pub timestamp: Timestamp,
    /// Whether the file has a time for it.
    pub has_time: bool,
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
    /// The record has no time.
    is_untimed: bool,
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
    open_with(path, &ReadOptions::default())
}

/// As [`open`], with options.
///
/// # Errors
/// As [`open`]; also if the file does not have the format in `options`.
pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Reader<File>, OpenError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| OpenError::Io { path: name.clone(), error })?;
    Reader::with_options(file, &name, options)
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
        let mut interfaces = Interfaces::new(options.user_tlps);
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
        let Found {
            timestamp,
            interface_id,
            original_len,
            ref bytes,
            record_len,
            mark,
            direction,
            is_untimed,
        } = self.found;
        let interface = &self.interfaces.list[interface_id as usize];
        let (bytes, text) = match &self.format {
            Format::Text(text) => (text.bytes(), Some(text.about())),
            _ => (self.source.behind(record_len - bytes.start, bytes.len()), None),
        };
        let frame = Frame {
            number: self.frames,
            timestamp,
            has_time: !is_untimed,
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
