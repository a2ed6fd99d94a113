// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that came to a lab from outside, with its virtual time: enough to run it again without sockets, bit by bit.
//! Reading never panics on foreign bytes, and never allocates more than there are.
//!
//! ```text
//! "riser nettlp record 3\n"
//! u32 length, path of the lab file     u32 length, its text     u64 seed
//! u32 count of the files that the lab names, and of each: u32 length, its name in the lab     u32 length, its bytes
//! u32 count of the keys that were set over it, and of each: u32 length, KEY=VALUE
//! then records, each:  u8 kind, u64 time in ps, and
//!   1 a TLP of a peer      way, u32 length, its bytes as on a link
//!   2 configuration write  u16 register (DW), u8 byte enables, u32 value
//!   3 adapter register     u8 register (DW), u32 value
//!   4 egress entry taken   u32 index, u8 fate: 0 left, 1 there is no device software, 2 lost
//!   5 device software has come
//!   6 the end
//! a way: u16 port of the adapter, u8 4 or 6, address of the peer (4 or 16 bytes), u32 scope, u16 port of the peer
//! ```
//!
//! Numbers are little endian. Version 2 held no keys that were set, version 1 no files either; what its lab names is read where
//! it is. A record that ends before its end, since the adapter was killed, counts as far as it goes.

use super::bridge::Fate;
use nettlp::adapter::Way;
use plug::file::{KeptFiles, MAX_KEPT_BYTES, MAX_KEPT_FILES};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use thiserror::Error;
use tlp::Time;

/// The first line, with the version of the format.
const MAGIC: &[u8] = b"riser nettlp record 3\n";
/// That of records of labs over which nothing is set.
const MAGIC_2: &[u8] = b"riser nettlp record 2\n";
/// That of records without files.
const MAGIC_1: &[u8] = b"riser nettlp record 1\n";
/// The longest TLP: four DW of header, as many prefixes as are legal, 4096 bytes of data, a digest.
const MAX_TLP: usize = 4096 + 128;
/// The longest lab file that a record holds.
const MAX_LAB: usize = 16 << 20;

/// An input from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A TLP of a peer.
    Tlp { way: Way, tlp: Vec<u8> },
    /// A peer writes a configuration register.
    Config { register_dw: u16, byte_enables: u8, value: u32 },
    /// A peer writes a register of the adapter.
    Register { register_dw: u8, value: u32 },
    /// An entry of the egress queue has left it.
    Taken { index: u32, fate: Fate },
    /// Device software has come.
    Arrival,
    /// The adapter has ended.
    End,
}

/// Why bytes are no record.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// The first line.
    #[error(
        "not a record of `riser nettlp adapter`: its first line is not `riser nettlp record 3`, `2` or `1`"
    )]
    Magic,
    /// Cut off before the first record.
    #[error("the record ends at byte {0}, before its lab does")]
    Head(usize),
    /// A length that cannot be.
    #[error("byte {at}: {what} of {len} bytes, legal are at most {most}")]
    Length {
        /// Where.
        at: usize,
        /// Of what.
        what: &'static str,
        /// The length.
        len: usize,
        /// Most that is legal.
        most: usize,
    },
    /// A kind that does not exist.
    #[error("byte {at}: record of kind {kind}, legal are 1 to 6")]
    Kind {
        /// Where.
        at: usize,
        /// The kind.
        kind: u8,
    },
    /// A field that does not mean anything.
    #[error("byte {at}: {what} of {value}")]
    Field {
        /// Where.
        at: usize,
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Text that is not UTF-8.
    #[error("byte {0}: text that is not UTF-8")]
    Text(usize),
    /// A time before that of the record before.
    #[error("byte {at}: time {time} is before {before}, that of the record before it")]
    Order {
        /// Where.
        at: usize,
        /// Its time.
        time: Time,
        /// That of the one before.
        before: Time,
    },
}

/// What a record says of its lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedLab {
    /// Path of the lab file, as it was named.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The keys that were set over it, as [`Settings`](crate::Settings) takes them.
    pub set: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The files that the lab names, by the names that it gives them; `None`: a record of version 1, which holds none.
    pub files: Option<KeptFiles>,
}

/// Writes a record. What cannot be written is noticed when it [ends](Recorder::finish).
pub(crate) struct Recorder {
    out: Box<dyn Write>,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
}

impl Recorder {
    pub(crate) fn new(out: Box<dyn Write>, lab: &RecordedLab) -> Recorder {
        let mut recorder = Recorder { out, failed: None, buffer: Vec::new() };
        let buffer = &mut recorder.buffer;
        buffer.extend_from_slice(if lab.files.is_some() { MAGIC } else { MAGIC_1 });
        emit_bytes(buffer, lab.path.as_bytes());
        emit_bytes(buffer, lab.text.as_bytes());
        buffer.extend_from_slice(&lab.seed.to_le_bytes());
        if let Some(files) = &lab.files {
            buffer.extend_from_slice(&(files.len() as u32).to_le_bytes());
            for (name, bytes) in files {
                emit_bytes(buffer, name.as_bytes());
                emit_bytes(buffer, bytes);
            }
            buffer.extend_from_slice(&(lab.set.len() as u32).to_le_bytes());
            lab.set.iter().for_each(|set| emit_bytes(buffer, set.as_bytes()));
        }
        recorder.write();
        recorder
    }

    pub(crate) fn event(&mut self, time: Time, event: &Event) {
        emit(&mut self.buffer, time, event);
        self.write();
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// The end.
    ///
    /// # Errors
    /// The first that there was.
    pub(crate) fn finish(mut self, time: Time) -> io::Result<()> {
        self.event(time, &Event::End);
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

fn emit_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    buffer.extend_from_slice(bytes);
}

fn emit(buffer: &mut Vec<u8>, time: Time, event: &Event) {
    let kind = match event {
        Event::Tlp { .. } => 1,
        Event::Config { .. } => 2,
        Event::Register { .. } => 3,
        Event::Taken { .. } => 4,
        Event::Arrival => 5,
        Event::End => 6,
    };
    buffer.push(kind);
    buffer.extend_from_slice(&time.as_ps().to_le_bytes());
    match event {
        Event::Tlp { way, tlp } => {
            emit_way(buffer, way);
            buffer.extend_from_slice(&(tlp.len() as u32).to_le_bytes());
            buffer.extend_from_slice(tlp);
        }
        Event::Config { register_dw, byte_enables, value } => {
            buffer.extend_from_slice(&register_dw.to_le_bytes());
            buffer.push(*byte_enables);
            buffer.extend_from_slice(&value.to_le_bytes());
        }
        Event::Register { register_dw, value } => {
            buffer.push(*register_dw);
            buffer.extend_from_slice(&value.to_le_bytes());
        }
        Event::Taken { index, fate } => {
            buffer.extend_from_slice(&index.to_le_bytes());
            buffer.push(match fate {
                Fate::Left => 0,
                Fate::Nobody => 1,
                Fate::Lost => 2,
            });
        }
        Event::Arrival | Event::End => {}
    }
}

fn emit_way(buffer: &mut Vec<u8>, way: &Way) {
    buffer.extend_from_slice(&way.port.to_le_bytes());
    let scope = match way.peer {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(peer) => peer.scope_id(),
    };
    match way.peer.ip() {
        IpAddr::V4(ip) => {
            buffer.push(4);
            buffer.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            buffer.push(6);
            buffer.extend_from_slice(&ip.octets());
        }
    }
    buffer.extend_from_slice(&scope.to_le_bytes());
    buffer.extend_from_slice(&way.peer.port().to_le_bytes());
}

/// A record that is being read.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    /// What it says of its lab.
    pub lab: RecordedLab,
    cursor: Cursor<'a>,
    last: Time,
}

/// Bytes, and how far they are read.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self, what: &'static str, most: usize) -> Result<Option<usize>, RecordError> {
        let at = self.at;
        match self.u32().map(|len| len as usize) {
            Some(len) if len > most => Err(RecordError::Length { at, what, len, most }),
            len => Ok(len),
        }
    }

    fn counted(&mut self, what: &'static str, most: usize) -> Result<&'a [u8], RecordError> {
        let cut = RecordError::Head(self.bytes.len());
        let len = self.length(what, most)?.ok_or(cut.clone())?;
        self.take(len).ok_or(cut)
    }

    fn text(&mut self) -> Result<String, RecordError> {
        let at = self.at + 4;
        let bytes = self.counted("text", MAX_LAB)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| RecordError::Text(at))
    }

    /// The files that the lab names. No more is kept of them than there is.
    fn files(&mut self) -> Result<KeptFiles, RecordError> {
        let at = self.at;
        let count = self.u32().ok_or(RecordError::Head(self.bytes.len()))? as usize;
        if count > MAX_KEPT_FILES {
            return Err(RecordError::Length {
                at,
                what: "a list of files",
                len: count,
                most: MAX_KEPT_FILES,
            });
        }
        let (mut files, mut room) = (KeptFiles::new(), MAX_KEPT_BYTES);
        for _ in 0..count {
            let name = self.text()?;
            let bytes = self.counted("a file", room)?;
            room -= bytes.len();
            files.insert(name, bytes.to_vec());
        }
        Ok(files)
    }

    /// The keys that were set. Of more than there are bytes for, the first that is missing ends it.
    fn set(&mut self) -> Result<Vec<String>, RecordError> {
        let count = self.u32().ok_or(RecordError::Head(self.bytes.len()))?;
        (0..count).map(|_| self.text()).collect()
    }

    fn way(&mut self) -> Result<Option<Way>, RecordError> {
        let Some(port) = self.u16() else { return Ok(None) };
        let at = self.at;
        let ip = match self.u8() {
            Some(4) => self.array::<4>().map(|b| IpAddr::V4(Ipv4Addr::from(b))),
            Some(6) => self.array::<16>().map(|b| IpAddr::V6(Ipv6Addr::from(b))),
            Some(other) => {
                return Err(RecordError::Field { at, what: "version of IP", value: other.into() });
            }
            None => None,
        };
        let (Some(ip), Some(scope), Some(peer)) = (ip, self.u32(), self.u16()) else { return Ok(None) };
        let peer = match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, peer),
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, peer, 0, scope)),
        };
        Ok(Some(Way { port, peer }))
    }
}

impl<'a> Recording<'a> {
    /// Reads the head of a record.
    ///
    /// # Errors
    /// Where it is none.
    pub fn new(bytes: &'a [u8]) -> Result<Recording<'a>, RecordError> {
        let mut cursor = Cursor { bytes, at: 0 };
        let version = match cursor.take(MAGIC.len()) {
            Some(MAGIC) => 3,
            Some(MAGIC_2) => 2,
            Some(MAGIC_1) => 1,
            _ => return Err(RecordError::Magic),
        };
        let (path, text) = (cursor.text()?, cursor.text()?);
        let seed = cursor.u64().ok_or(RecordError::Head(bytes.len()))?;
        let files = if version >= 2 { Some(cursor.files()?) } else { None };
        let set = if version >= 3 { cursor.set()? } else { Vec::new() };
        Ok(Recording { lab: RecordedLab { path, text, set, seed, files }, cursor, last: Time::ZERO })
    }

    /// The next input and its time; `None` at the end, also where the record is cut off.
    ///
    /// # Errors
    /// Where bytes mean nothing. Nothing can be read behind them.
    pub(crate) fn next_event(&mut self) -> Result<Option<(Time, Event)>, RecordError> {
        let at = self.cursor.at;
        let (Some(kind), Some(time)) = (self.cursor.u8(), self.cursor.u64().map(Time::from_ps)) else {
            return Ok(None);
        };
        if time < self.last {
            return Err(RecordError::Order { at, time, before: self.last });
        }
        self.last = time;
        Ok(self.body(at, kind)?.map(|event| (time, event)))
    }

    /// Reads all of it, for checks: how many inputs there are.
    ///
    /// # Errors
    /// As of each input.
    pub fn check(mut self) -> Result<u64, RecordError> {
        let mut count = 0;
        while self.next_event()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn body(&mut self, at: usize, kind: u8) -> Result<Option<Event>, RecordError> {
        let cursor = &mut self.cursor;
        Ok(match kind {
            1 => {
                let Some(way) = cursor.way()? else { return Ok(None) };
                let len = cursor.length("a TLP", MAX_TLP)?;
                len.and_then(|len| cursor.take(len)).map(|tlp| Event::Tlp { way, tlp: tlp.to_vec() })
            }
            2 => match (cursor.u16(), cursor.u8(), cursor.u32()) {
                (Some(register_dw), Some(byte_enables), Some(value)) => {
                    Some(Event::Config { register_dw, byte_enables, value })
                }
                _ => None,
            },
            3 => cursor
                .u8()
                .zip(cursor.u32())
                .map(|(register_dw, value)| Event::Register { register_dw, value }),
            4 => {
                let Some((index, fate)) = cursor.u32().zip(cursor.u8()) else { return Ok(None) };
                let fate = match fate {
                    0 => Fate::Left,
                    1 => Fate::Nobody,
                    2 => Fate::Lost,
                    other => return Err(RecordError::Field { at, what: "fate", value: other.into() }),
                };
                Some(Event::Taken { index, fate })
            }
            5 => Some(Event::Arrival),
            6 => Some(Event::End),
            kind => return Err(RecordError::Kind { at, kind }),
        })
    }
}

#[cfg(test)]
#[path = "../../tests/common/bytes.rs"]
mod bytes;

#[cfg(test)]
mod tests {
    use super::bytes::Bytes;
    use super::*;
    use proptest::prelude::*;

    fn lab() -> RecordedLab {
        let files = Some([("b.toml".to_owned(), vec![0, 0xff])].into());
        let (text, set) = ("version = 1\n".into(), vec!["seed=7".into()]);
        RecordedLab { path: "a.toml".into(), text, set, seed: 7, files }
    }

    fn written(events: &[(Time, Event)]) -> Vec<u8> {
        let bytes = Bytes::default();
        let mut recorder = Recorder::new(Box::new(bytes.clone()), &lab());
        events.iter().for_each(|(time, event)| recorder.event(*time, event));
        drop(recorder);
        bytes.0.take()
    }

    fn all(bytes: &[u8]) -> Result<Vec<(Time, Event)>, RecordError> {
        let mut recording = Recording::new(bytes)?;
        let mut events = Vec::new();
        while let Some(event) = recording.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    fn event() -> impl Strategy<Value = Event> {
        let ip =
            prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
        let way = (any::<u16>(), ip, any::<u16>())
            .prop_map(|(port, ip, peer)| Way { port, peer: SocketAddr::new(ip, peer) });
        let fate = prop_oneof![Just(Fate::Left), Just(Fate::Nobody), Just(Fate::Lost)];
        prop_oneof![
            (way, proptest::collection::vec(any::<u8>(), 0..64))
                .prop_map(|(way, tlp)| Event::Tlp { way, tlp }),
            (any::<u16>(), any::<u8>(), any::<u32>()).prop_map(|(register_dw, byte_enables, value)| {
                Event::Config { register_dw, byte_enables, value }
            }),
            (any::<u8>(), any::<u32>())
                .prop_map(|(register_dw, value)| Event::Register { register_dw, value }),
            (any::<u32>(), fate).prop_map(|(index, fate)| Event::Taken { index, fate }),
            Just(Event::Arrival),
            Just(Event::End),
        ]
    }

    // By hand from the head of this file.
    #[test]
    fn a_record_has_its_bytes() {
        let event = Event::Config { register_dw: 1, byte_enables: 3, value: 0x0102_0304 };
        let bytes = written(&[(Time::from_ps(0x1_0002), event)]);
        let head = b"riser nettlp record 3\n\x06\0\0\0a.toml\x0c\0\0\0version = 1\n\x07\0\0\0\0\0\0\0\
            \x01\0\0\0\x06\0\0\0b.toml\x02\0\0\0\0\xff\
            \x01\0\0\0\x06\0\0\0seed=7";
        assert_eq!(bytes[..head.len()], head[..]);
        assert_eq!(bytes[head.len()..], [2, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 3, 4, 3, 2, 1]);
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let head = written(&[]).len();
        let with = |tail: &[u8]| [&written(&[]), tail].concat();
        let least = |tail: &[u8]| [b"riser nettlp record 2\n", &[0; 16][..], tail].concat();
        let file = |len: u32| least(&[&[1, 0, 0, 0, 1, 0, 0, 0, b'a'][..], &len.to_le_bytes()].concat());
        let length = |at, what, len, most| RecordError::Length { at, what, len, most };
        let third = |tail: &[u8]| [b"riser nettlp record 3\n", &[0; 20][..], tail].concat();
        let rows: [(Vec<u8>, RecordError); 12] = [
            (b"riser nettlp record 4\n".to_vec(), RecordError::Magic),
            (third(&[]), RecordError::Head(42)),
            (third(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, b'a']), RecordError::Head(51)),
            (third(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), RecordError::Text(50)),
            (least(&[1, 1, 0, 0]), length(38, "a list of files", 257, MAX_KEPT_FILES)),
            (least(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), RecordError::Text(46)),
            (file(1), RecordError::Head(51)),
            (file(u32::MAX), length(47, "a file", u32::MAX as usize, MAX_KEPT_BYTES)),
            (written(&[])[..head - 1].to_vec(), RecordError::Head(head - 1)),
            (with(&[9, 0, 0, 0, 0, 0, 0, 0, 0]), RecordError::Kind { at: head, kind: 9 }),
            (
                with(&[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
                RecordError::Field { at: head, what: "fate", value: 3 },
            ),
            (
                with(&[5, 2, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0]),
                RecordError::Order { at: head + 9, time: Time::from_ps(1), before: Time::from_ps(2) },
            ),
        ];
        for (bytes, error) in rows {
            assert_eq!(all(&bytes), Err(error));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read_and_a_cut_leaves_what_is_whole(
            events in proptest::collection::vec(event(), 0..12), cut in any::<prop::sample::Index>(),
        ) {
            let events: Vec<_> = (0..).map(Time::from_ps).zip(events).collect();
            let bytes = written(&events);
            prop_assert_eq!(all(&bytes), Ok(events.clone()));
            let head = written(&[]).len();
            let kept = &bytes[..head + cut.index(bytes.len() - head + 1)];
            let part = all(kept).unwrap();
            prop_assert_eq!(&part[..], &events[..part.len()]);
        }

        #[test]
        fn any_bytes_behind_the_head_are_read_or_refused(tail in proptest::collection::vec(0_u8..8, 0..200)) {
            let bytes = [written(&[]), tail].concat();
            let _ = all(&bytes);
        }
    }
}
