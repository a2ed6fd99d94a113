// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pcap, pcapng and text that holds TLPs ([`FileFormat`]).
//!
//! Text formats are in `text`: their TLPs become frames of [`LINKTYPE_PCI_EXP`].
//!
//! pcap of micro- and nanoseconds in both byte orders; pcapng with any `if_tsresol`, several sections and interfaces. The
//! reader keeps one window of the file and returns frames as slices of it. It reports each unreadable part once, as a
//! [`Fault`], and continues at the next record that looks valid: in pcapng a known block type whose two lengths agree,
//! in pcap two consecutive headers with valid lengths and times within a day of each other. It never panics, and holds
//! at most 32 MiB.
//!
//! The `pcap-file` crate (2.0) is not used here: it reads every pcapng timestamp as nanoseconds and ignores
//! `if_tsresol`, its `Duration` has no picoseconds, and it cannot continue after a bad record.

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
/// Maximum length of a frame, bytes; libpcap and Wireshark have the same limit.
pub const MAX_FRAME_LEN: usize = 262_144;
/// Maximum length of a pcapng block, bytes.
pub const MAX_BLOCK_LEN: usize = 16 << 20;
/// Maximum number of interfaces of one pcapng section.
pub const MAX_INTERFACES: usize = 4_096;
/// Maximum number of links.
pub const MAX_LINKS: usize = 65_535;

/// Facts about a frame besides its bytes, from riser's captures with DLLPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Bits were flipped on the link, so the receiver rejects the frame (`epb_flags`, bit 24: CRC error).
    pub damaged: bool,
    /// The frame was lost on the link; its time is that of its expected arrival (`opt_comment`, [`DROPPED`]).
    pub dropped: bool,
    /// Number of a TLP among those of its link and direction, from 0. The low 12 bits are the sequence number;
    /// a replay has the number of the first transmission (`epb_packetid`, in captures of riser).
    pub place: Option<u64>,
}

impl Mark {
    /// Returns true if the frame did not reach its receiver intact.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        self.damaged || self.dropped
    }
}

/// Comment of a frame that was lost on the link.
pub const DROPPED: &str = "dropped on the way";
/// Comment of a frame without a time, whose timestamp is 0.
pub const UNTIMED: &str = "without a time";
/// Comment of a frame whose bits were flipped on the link.
pub const DAMAGED: &str = "damaged on the way";

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Frame number in the file, from 1.
    pub number: u64,
    /// Time of the frame; zero if the file has none.
    pub timestamp: Timestamp,
    /// True if the file has a time for it.
    pub has_time: bool,
    /// Number of its interface in its section, from 0.
    pub interface_id: u32,
    /// Its interface.
    pub interface: &'a Interface,
    /// The bytes captured.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes; at least the captured length.
    pub original_len: usize,
    /// Facts about it besides its bytes.
    pub mark: Mark,
    /// Direction, if its interface or its packet (`epb_flags`, bits 1:0, of [`LINKTYPE_PCI_EXP`]) has one.
    pub direction: Option<Direction>,
    /// Its line in a text file; `None` for pcap and pcapng.
    pub text: Option<TextLine<'a>>,
}

/// Reason why a file cannot be read.
enum Unreadable {
    Unknown(String),
    Option(String),
}

/// A frame, or a part of the file that could not be read.
#[derive(Debug)]
pub enum Item<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// A part of the file that could not be read. Reading continues after it.
    Fault(Fault),
}

/// A frame found in the window. Once the window has moved on, `bytes` counts back from its start.
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
    /// Direction in the record itself.
    direction: Option<Direction>,
    /// The record has no time.
    is_untimed: bool,
}

/// Next item of a file.
pub(crate) enum Step {
    /// A frame, described by [`Found`].
    Frame,
    /// An unreadable part.
    Fault(Fault),
    End,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Text(Box<Text>),
}

/// Reader of a capture.
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    interfaces: Interfaces,
    /// The latest frame and its number.
    found: Found,
    frames: u64,
    /// Its datagrams if it has several, and the index of the next one.
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

    /// As [`new`](Self::new); errors use `name` for the file.
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

    /// Returns true if riser detected reversed dwords in hexadecimal text, or assumed their byte order.
    pub fn has_guessed_byte_order(&self) -> bool {
        matches!(&self.format, Format::Text(text) if text.has_guessed_byte_order())
    }

    /// The interfaces described so far in this section.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces.list
    }

    /// Number of valid blocks without packets, which were skipped: names, statistics, secrets, local use.
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

    /// Returns the next frame or unreadable part; `None` at the end of the file.
    ///
    /// # Errors
    /// If the underlying reader fails.
    pub fn next_item(&mut self) -> io::Result<Option<Item<'_>>> {
        Ok(match self.advance()? {
            Step::Frame => Some(Item::Frame(self.frame().0)),
            Step::Fault(fault) => Some(Item::Fault(fault)),
            Step::End => None,
        })
    }

    /// Returns the next datagram of the latest frame, if it has several and one is left.
    pub(crate) fn next_part(&mut self) -> Option<Part> {
        let (parts, next) = self.parts.as_mut()?;
        let part = (*next < parts.count()).then(|| parts.part(*next));
        *next += 1;
        if part.is_none() {
            self.parts = None;
        }
        part
    }

    /// Returns the latest frame, and the place to store its datagrams and the index of the next one.
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

    /// Reads the next item of the file.
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
