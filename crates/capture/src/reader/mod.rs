// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pcap, pcapng, and text with TLPs ([`FileFormat`]).
//!
//! Text formats are in `text`. Their TLPs become frames of [`LINKTYPE_PCI_EXP`].
//!
//! The reader supports pcap with microseconds and nanoseconds in both byte orders, and pcapng with any `if_tsresol`
//! and several sections and interfaces. It keeps one window of the file and returns frames as slices of this
//! window. It never panics, and uses at most 32 MiB.
//!
//! Each unreadable part is reported once, as a [`Fault`]. Reading continues at the next record that looks valid. In
//! pcapng this is a known block type with two equal lengths. In pcap it is two consecutive headers with valid
//! lengths, whose times differ by at most a day.
//!
//! The `pcap-file` crate (2.0) is not used here: it reads every pcapng timestamp as nanoseconds and ignores
//! `if_tsresol`, its `Duration` has no picoseconds, and it cannot continue after a bad record.

mod bad;
mod fault;
mod format;
mod interface;
mod pcap;
pub(crate) mod pcapng;
mod source;
mod text;

use crate::count::counted;
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

pub use bad::BadRecords;
pub use fault::{Defect, Fault, OpenError};
pub use format::{ByteOrder, FileFormat, HEX_HEADING, ReadOptions};
pub use interface::{Direction, End, Interface};
pub use text::columns::{Column, Columns, ColumnsError};
pub use text::{LineError, MAX_LINE, PacketError, TextLine};

/// Link type of Ethernet (`LINKTYPE_ETHERNET`), which carries NetTLP.
pub const LINKTYPE_ETHERNET: u16 = 1;
/// Link type of PCI Express (`LINKTYPE_PCI_EXP`). Its layout is not published; docs/linktype-125.md describes
/// riser's.
pub const LINKTYPE_PCI_EXP: u16 = 125;
/// First of the 16 link types that are free for private use (`LINKTYPE_USER0`).
pub const LINKTYPE_USER0: u16 = 147;
/// Maximum length of a frame in bytes, as in libpcap and Wireshark.
pub const MAX_FRAME_LEN: usize = 262_144;
/// Maximum length of a pcapng block in bytes.
pub const MAX_BLOCK_LEN: usize = 16 << 20;
/// Maximum number of interfaces of one pcapng section.
pub const MAX_INTERFACES: usize = 4_096;
/// Maximum number of links.
pub const MAX_LINKS: usize = 65_535;

/// Facts about a frame that its bytes do not show, from riser's captures with DLLPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Bits were flipped on the link, so the receiver rejects the frame (`epb_flags`, bit 24: CRC error).
    pub damaged: bool,
    /// The frame was lost on the link. Its time is the expected arrival (`opt_comment`, [`DROPPED`]).
    pub dropped: bool,
    /// Number of the TLP on its link and direction, from 0. The low 12 bits are the sequence number. A replay has
    /// the number of the first transmission (`epb_packetid`, in riser's captures).
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
    /// True if the file has a time for the frame.
    pub has_time: bool,
    /// Number of the interface in its section, from 0.
    pub interface_id: u32,
    /// The interface.
    pub interface: &'a Interface,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes. Never less than the captured length.
    pub original_len: usize,
    /// Facts about the frame that its bytes do not show.
    pub mark: Mark,
    /// Direction, if the interface or the packet has one (`epb_flags`, bits 1:0, with [`LINKTYPE_PCI_EXP`]).
    pub direction: Option<Direction>,
    /// The line in a text file; `None` for pcap and pcapng.
    pub text: Option<TextLine<'a>>,
}

/// Reason why a file cannot be read.
enum Unreadable {
    Unknown(String),
    Option(String),
}

/// A frame, or an unreadable part of the file.
#[derive(Debug)]
pub enum Item<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// An unreadable part of the file. Reading continues after it.
    Fault(Fault),
}

/// The position of a frame in the window. `Reader::frame` finds its bytes again after the window has advanced.
#[derive(Default)]
struct Found {
    timestamp: Timestamp,
    interface_id: u32,
    original_len: usize,
    /// The captured bytes, as a range from the start of the record or block.
    bytes: Range<usize>,
    /// Length of the record or block.
    record_len: usize,
    mark: Mark,
    /// Direction, if the record itself has one.
    direction: Option<Direction>,
    /// True if the record has no time.
    is_untimed: bool,
}

/// The next item of a file.
pub(crate) enum Step {
    /// A frame; [`Found`] has its position.
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
    /// The datagrams of the latest frame if it has several, and the index of the next one.
    parts: Option<(Parts, usize)>,
}

/// Opens a capture file, and detects its format.
///
/// # Errors
/// If the file cannot be opened, or has an unknown format.
pub fn open(path: impl AsRef<Path>) -> Result<Reader<File>, OpenError> {
    open_with(path, &ReadOptions::default())
}

/// Like [`open`], with options.
///
/// # Errors
/// Those of [`open`]; also if the file does not have the format in `options`.
pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Reader<File>, OpenError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| OpenError::Io { path: name.clone(), error })?;
    Reader::with_options(file, &name, options)
}

impl<R: Read> Reader<R> {
    /// Reads a capture from `inner`. The reader has its own buffer.
    ///
    /// # Errors
    /// If the first bytes cannot be read, or have an unknown format.
    pub fn new(inner: R) -> Result<Reader<R>, OpenError> {
        Reader::named(inner, "input")
    }

    /// Like [`new`](Self::new). Error messages contain `name` as the file.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn named(inner: R, name: &str) -> Result<Reader<R>, OpenError> {
        Reader::with_options(inner, name, &ReadOptions::default())
    }

    /// Like [`named`](Self::named), with options.
    ///
    /// # Errors
    /// Those of [`new`](Self::new); also if the file does not have the format in `options`.
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

    /// The interfaces of this section that were described so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces.list
    }

    /// Number of skipped blocks that are valid but have no packet: names, statistics, secrets, local use.
    pub const fn skipped_blocks(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) | Format::Text(_) => 0,
            Format::Pcapng(pcapng) => pcapng.skipped_blocks,
        }
    }

    /// Number of bytes of the file that were read so far.
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

    /// Returns the next datagram of the latest frame, if the frame has several and one is left.
    pub(crate) fn next_part(&mut self) -> Option<Part> {
        let (parts, next) = self.parts.as_mut()?;
        let part = (*next < parts.count()).then(|| parts.part(*next));
        *next += 1;
        if part.is_none() {
            self.parts = None;
        }
        part
    }

    /// Returns the latest frame, and the place that stores its datagrams and the index of the next one.
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
                interfaces.push(interface).map_err(|defect| Unreadable::Unknown(defect.to_string()))?;
                Ok(Format::Pcap(pcap))
            });
            return Ok(pcap);
        }
        if options.format.is_none_or(FileFormat::is_text)
            && let Some(text) = Text::detect(source, options)?
        {
            return Ok(text.map(|text| Format::Text(Box::new(text))));
        }
        Ok(Err(Unreadable::Unknown(unknown(source.window(), options.format))))
    }
}

/// Returns a message about the start of a file that does not have the expected format.
fn unknown(window: &[u8], asked: Option<FileFormat>) -> String {
    let start = match window {
        [a, b, c, d, ..] => format!("it starts with {a:02x} {b:02x} {c:02x} {d:02x}"),
        short => format!("it holds {}", counted(short.len() as u64, "byte")),
    };
    let hint = text::hint(window).map(|hint| format!("; {hint}")).unwrap_or_default();
    match asked {
        Some(FileFormat::Csv) => "csv needs its columns, such as time_ns=1,dir=2,tlp=3".to_owned(),
        Some(format) => format!("{start}; {format} has {}", format.example()),
        None => format!("{start}{hint}; {Understood}"),
    }
}
