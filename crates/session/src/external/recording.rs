// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a [record](super::record). It never panics on invalid bytes, and never allocates more than their size.

use super::bytes::Cursor;
use super::old;
use super::record::{ANSWER, Answer, Answered, END, FULL, INPUT, MAGIC, RecordedLab};
use plug::file::{KeptFiles, MAX_KEPT_BYTES, MAX_KEPT_FILES};
use std::borrow::Cow;
use thiserror::Error;
use tlp::Time;

/// Maximum number of bytes of a lab file in a record.
const MAX_LAB: usize = 16 << 20;
/// Maximum number of bytes of an input, or of an answer of memory.
const MAX_INPUT: usize = 1 << 20;
/// Maximum number of places of a record.
const MAX_PLACES: usize = 1 << 10;

/// Reason why bytes are not a record.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// The first line is not the first line of a record.
    #[error(
        "not a record of `--record`: expected the first line `riser lab recording 4`, or `riser nettlp record 1`, `2` or `3`"
    )]
    Magic,
    /// The bytes end before the first entry.
    #[error("the record ends at byte {0}, within the description of its lab")]
    Head(usize),
    /// The bytes end after the head, before the end of the record.
    #[error(
        "byte {0}: the record is cut off after its last complete entry, expected an end of the record: its writer was killed, or the file was truncated"
    )]
    Cut(usize),
    /// There are bytes after the end of the record.
    #[error("byte {0}: bytes follow the end of the record")]
    Behind(usize),
    /// A length is out of range.
    #[error("byte {at}: {what} of {len} bytes, expected at most {most}")]
    Length {
        /// Position in bytes.
        at: usize,
        /// Name of the part with this length.
        what: &'static str,
        /// The length in bytes.
        len: usize,
        /// Largest legal length in bytes.
        most: usize,
    },
    /// An entry has an unknown kind.
    #[error("byte {at}: entry of kind {kind}, expected 1 to {last}")]
    Kind {
        /// Position in bytes.
        at: usize,
        /// The unknown kind.
        kind: u8,
        /// The last legal kind.
        last: u8,
    },
    /// A field has an illegal value.
    #[error("byte {at}: {what} of {value}, expected 0 to {most}")]
    Field {
        /// Position in bytes.
        at: usize,
        /// Name of the field.
        what: &'static str,
        /// The illegal value.
        value: u64,
        /// Largest legal value.
        most: u64,
    },
    /// A text is not UTF-8.
    #[error("byte {0}: text that is not UTF-8")]
    Text(usize),
    /// The time of an entry is before the previous entry's.
    #[error("byte {at}: time {time} is before {before}, the time of the previous entry")]
    Order {
        /// Position in bytes.
        at: usize,
        /// Time of the entry.
        time: Time,
        /// Time of the previous entry.
        before: Time,
    },
}

/// A reader of a record.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    /// Lab of the record.
    pub lab: RecordedLab,
    /// The names of the places where the outside has joined; `None` for an earlier version with one unnamed place.
    pub places: Option<Vec<String>>,
    cursor: Cursor<'a>,
    last: Time,
    ended: bool,
}

/// An entry and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry<'a> {
    Input { time: Time, place: u16, bytes: Cow<'a, [u8]> },
    Answer(Answer),
    Full,
    End(Time),
}

/// Reads the head of a record.
struct Head<'a, 'b>(&'b mut Cursor<'a>);

impl<'a> Head<'a, '_> {
    fn cut(&self) -> RecordError {
        RecordError::Head(self.0.bytes.len())
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        self.0.u32().ok_or_else(|| self.cut())
    }

    fn counted(&mut self, what: &'static str, most: usize) -> Result<&'a [u8], RecordError> {
        let at = self.0.at;
        let len = self.u32()? as usize;
        check_len(at, what, len, most)?;
        self.0.take(len).ok_or_else(|| self.cut())
    }

    fn text(&mut self) -> Result<String, RecordError> {
        let at = self.0.at + 4;
        let bytes = self.counted("text", MAX_LAB)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| RecordError::Text(at))
    }

    /// Reads the files that the lab names. Stops at the end of the bytes, whatever their count says.
    fn files(&mut self) -> Result<KeptFiles, RecordError> {
        let at = self.0.at;
        let count = self.u32()? as usize;
        check_len(at, "a list of files", count, MAX_KEPT_FILES)?;
        let (mut files, mut room) = (KeptFiles::new(), MAX_KEPT_BYTES);
        for _ in 0..count {
            let name = self.text()?;
            let bytes = self.counted("a file", room)?;
            room -= bytes.len();
            files.insert(name, bytes.to_vec());
        }
        Ok(files)
    }

    /// Reads a list of texts. If the bytes contain fewer than the count, reading stops at the first missing text.
    fn texts(&mut self) -> Result<Vec<String>, RecordError> {
        let count = self.u32()?;
        (0..count).map(|_| self.text()).collect()
    }
}

fn check_len(at: usize, what: &'static str, len: usize, most: usize) -> Result<(), RecordError> {
    if len > most { Err(RecordError::Length { at, what, len, most }) } else { Ok(()) }
}

/// Number of bytes that identify a record.
pub const RECORD_HEAD_BYTES: usize = MAGIC.len();

/// True if a file with these first bytes is a record, of this version or an earlier one.
pub fn is_record(head: &[u8]) -> bool {
    version(head).is_some()
}

fn version(head: &[u8]) -> Option<usize> {
    let old = old::MAGICS.iter().position(|magic| *magic == head).map(|n| n + 1);
    old.or((head == MAGIC).then_some(4))
}

impl<'a> Recording<'a> {
    /// Reads the head of a record.
    ///
    /// # Errors
    /// The bytes are not the head of a record.
    pub fn new(bytes: &'a [u8]) -> Result<Recording<'a>, RecordError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.take(RECORD_HEAD_BYTES).ok_or(RecordError::Magic)?;
        let version = version(first).ok_or(RecordError::Magic)?;
        let mut head = Head(&mut cursor);
        let (path, text) = (head.text()?, head.text()?);
        let seed = head.0.u64().ok_or_else(|| head.cut())?;
        let files = if version >= 2 { Some(head.files()?) } else { None };
        let set = if version >= 3 { head.texts()? } else { Vec::new() };
        let at = head.0.at;
        let places = if version >= 4 { Some(head.texts()?) } else { None };
        check_len(at, "a list of places", places.as_ref().map_or(0, Vec::len), MAX_PLACES)?;
        let lab = RecordedLab { path, text, set, seed, files };
        Ok(Recording { lab, places, cursor, last: Time::ZERO, ended: false })
    }

    /// Position of the next entry in bytes.
    pub(crate) fn at(&self) -> usize {
        self.cursor.at
    }

    /// Returns the next entry; `None` after the end.
    ///
    /// # Errors
    /// The bytes are not an entry, or the record is cut off. The bytes after this entry cannot be read.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry<'a>>, RecordError> {
        let at = self.cursor.at;
        if self.ended {
            return if at == self.cursor.bytes.len() { Ok(None) } else { Err(RecordError::Behind(at)) };
        }
        let entry = if self.places.is_none() { self.old_entry(at)? } else { self.entry(at)? };
        let entry = entry.ok_or(RecordError::Cut(at))?;
        if let Entry::Input { time, .. } | Entry::End(time) = entry {
            if time < self.last {
                return Err(RecordError::Order { at, time, before: self.last });
            }
            self.last = time;
        }
        self.ended = matches!(entry, Entry::End(_) | Entry::Full);
        Ok(Some(entry))
    }

    /// Reads the whole record to check it; returns the number of inputs.
    ///
    /// # Errors
    /// The first error in an entry.
    pub fn check(mut self) -> Result<u64, RecordError> {
        let mut count = 0;
        while let Some(entry) = self.next_entry()? {
            count += u64::from(matches!(entry, Entry::Input { .. }));
        }
        Ok(count)
    }

    fn old_entry(&mut self, at: usize) -> Result<Option<Entry<'a>>, RecordError> {
        let (Some(kind), Some(time)) = (self.cursor.u8(), self.time()) else { return Ok(None) };
        match kind {
            old::END => Ok(Some(Entry::End(time))),
            1..old::END => {
                let Some(body) = old::body(kind, &mut self.cursor) else { return Ok(None) };
                Ok(Some(Entry::Input { time, place: 0, bytes: [&[kind], body].concat().into() }))
            }
            kind => Err(RecordError::Kind { at, kind, last: old::END }),
        }
    }

    fn entry(&mut self, at: usize) -> Result<Option<Entry<'a>>, RecordError> {
        Ok(match self.cursor.u8() {
            None => None,
            Some(INPUT) => {
                // After a cut there is no information about later entries.
                let Some(time) = self.time() else { return Ok(None) };
                let Some(place) = self.place()? else { return Ok(None) };
                self.counted("an input")?.map(|bytes| Entry::Input { time, place, bytes: bytes.into() })
            }
            Some(ANSWER) => self.answer()?.map(Entry::Answer),
            Some(FULL) => Some(Entry::Full),
            Some(END) => self.time().map(Entry::End),
            Some(kind) => return Err(RecordError::Kind { at, kind, last: END }),
        })
    }

    fn time(&mut self) -> Option<Time> {
        self.cursor.u64().map(Time::from_ps)
    }

    fn place(&mut self) -> Result<Option<u16>, RecordError> {
        let at = self.cursor.at;
        let count = self.places.as_ref().map_or(1, Vec::len);
        match self.cursor.u16() {
            Some(place) if usize::from(place) >= count => {
                let most = count.saturating_sub(1) as u64;
                Err(RecordError::Field { at, what: "place", value: place.into(), most })
            }
            place => Ok(place),
        }
    }

    fn counted(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, RecordError> {
        let at = self.cursor.at;
        let Some(len) = self.cursor.u32() else { return Ok(None) };
        check_len(at, what, len as usize, MAX_INPUT)?;
        Ok(self.cursor.take(len as usize))
    }

    fn answer(&mut self) -> Result<Option<Answer>, RecordError> {
        let Some(place) = self.place()? else { return Ok(None) };
        let at = self.cursor.at;
        let Some(what) = self.cursor.u8() else { return Ok(None) };
        let Some(&what) = Answered::ALL.get(usize::from(what)) else {
            let most = Answered::ALL.len() as u64 - 1;
            return Err(RecordError::Field { at, what: "answer of memory", value: what.into(), most });
        };
        let Some(address) = self.cursor.u64() else { return Ok(None) };
        let bytes = self.counted("an answer of memory")?;
        Ok(bytes.map(|bytes| Answer { place, what, address, bytes: bytes.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::record::{RecordSize, Recorder};
    use proptest::prelude::*;
    use testkit::Bytes;

    fn lab() -> RecordedLab {
        let files = Some([("b.toml".to_owned(), vec![0, 0xff])].into());
        let (text, set) = ("version = 1\n".into(), vec!["seed=7".into()]);
        RecordedLab { path: "a.toml".into(), text, set, seed: 7, files }
    }

    /// Returns the bytes of a record, the position of each entry in it, and the size that the recorder reports.
    fn written(entries: &[Entry<'_>], limit: u64) -> (Vec<u8>, Vec<usize>, RecordSize) {
        let (bytes, mut begins, places) = (Bytes::default(), Vec::new(), ["slot x".into(), "host y".into()]);
        let mut recorder = Recorder::new(Box::new(bytes.clone()), &lab(), &places, limit);
        let mut end = Time::ZERO;
        for entry in entries {
            begins.push(bytes.0.borrow().len());
            match entry {
                Entry::Input { time, place, bytes } => {
                    recorder.input(*time, *place, |out| out.extend_from_slice(bytes));
                    end = *time;
                }
                Entry::Answer(a) => recorder.answer(a.place, a.what, a.address, &a.bytes),
                Entry::Full | Entry::End(_) => unreachable!("the recorder writes them by itself"),
            }
        }
        begins.push(bytes.0.borrow().len());
        let size = recorder.finish(end).unwrap();
        (bytes.0.take(), begins, size)
    }

    fn all(bytes: &[u8]) -> (Vec<Entry<'_>>, Option<RecordError>) {
        let mut entries = Vec::new();
        let mut recording = match Recording::new(bytes) {
            Ok(recording) => recording,
            Err(error) => return (entries, Some(error)),
        };
        loop {
            match recording.next_entry() {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return (entries, None),
                Err(error) => return (entries, Some(error)),
            }
        }
    }

    fn entry() -> impl Strategy<Value = Entry<'static>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..64);
        let answer = (0..2_u16, 0..5_usize, any::<u64>(), bytes());
        prop_oneof![
            (0..2_u16, bytes())
                .prop_map(|(place, bytes)| { Entry::Input { time: Time::ZERO, place, bytes: bytes.into() } }),
            answer.prop_map(|(place, what, address, bytes)| {
                Entry::Answer(Answer { place, what: Answered::ALL[what], address, bytes })
            }),
        ]
    }

    fn entries() -> impl Strategy<Value = Vec<Entry<'static>>> {
        let times = |mut entries: Vec<Entry<'static>>| {
            for (n, entry) in (0..).zip(&mut entries) {
                if let Entry::Input { time, .. } = entry {
                    *time = Time::from_ps(n / 2);
                }
            }
            entries
        };
        proptest::collection::vec(entry(), 0..12).prop_map(times)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn reads_written_record_and_reports_cut(
            entries in entries(), cut in any::<prop::sample::Index>(),
        ) {
            let (bytes, begins, size) = written(&entries, u64::MAX);
            prop_assert_eq!(size, RecordSize { bytes: bytes.len() as u64, left_out: 0 });
            let (read, error) = all(&bytes);
            prop_assert_eq!(error, None);
            prop_assert!(matches!(read.last(), Some(Entry::End(_))));
            prop_assert_eq!(&read[..read.len() - 1], &entries[..]);
            let kept = &bytes[..begins[0] + cut.index(bytes.len() - begins[0])];
            let (part, error) = all(kept);
            prop_assert_eq!(&part[..], &entries[..part.len()]);
            prop_assert_eq!(error, Some(RecordError::Cut(begins[part.len()])));
        }

        /// The reader returns the entries that fit, then the mark that the record is full. The limit is never exceeded.
        #[test]
        fn record_never_exceeds_limit_and_marks_its_end(entries in entries(), limit in 0..600_u64) {
            let (bytes, begins, size) = written(&entries, limit);
            let (read, error) = all(&bytes);
            prop_assert_eq!(error, None);
            prop_assert_eq!(&read[..read.len() - 1], &entries[..read.len() - 1]);
            prop_assert_eq!(entries.len() as u64 - size.left_out, read.len() as u64 - 1);
            prop_assert_eq!(read.last() == Some(&Entry::Full), size.left_out > 0);
            prop_assert!(bytes.len() as u64 <= limit.max(begins[0] as u64 + 9));
        }

        #[test]
        fn reads_or_rejects_any_bytes_after_head(tail in proptest::collection::vec(0_u8..8, 0..200)) {
            let (bytes, begins, _) = written(&[], u64::MAX);
            let _ = all(&[&bytes[..begins[0]], &tail].concat());
        }
    }

    // Written by hand from the head of `record.rs`.
    #[test]
    fn record_has_documented_bytes() {
        let input = Entry::Input { time: Time::from_ps(0x1_0002), place: 1, bytes: vec![9, 8].into() };
        let answer = Answer { place: 1, what: Answered::Atomic, address: 0x3000, bytes: vec![7; 4] };
        let (bytes, begins, _) = written(&[input, Entry::Answer(answer)], u64::MAX);
        let head = b"riser lab recording 4\n\x06\0\0\0a.toml\x0c\0\0\0version = 1\n\x07\0\0\0\0\0\0\0\
            \x01\0\0\0\x06\0\0\0b.toml\x02\0\0\0\0\xff\
            \x01\0\0\0\x06\0\0\0seed=7\
            \x02\0\0\0\x06\0\0\0slot x\x06\0\0\0host y";
        assert_eq!((bytes[..head.len()] == head[..], begins[0]), (true, head.len()));
        assert_eq!(bytes[begins[0]..begins[1]], [1, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 9, 8]);
        let answer = [2, 1, 0, 3, 0, 0x30, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 7, 7, 7, 7];
        assert_eq!(bytes[begins[1]..begins[2]], answer);
        assert_eq!(bytes[begins[2]..], [4, 2, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn reports_invalid_records_with_position() {
        let (whole, begins, _) = written(&[], u64::MAX);
        let at = begins[0];
        let with = |tail: &[u8]| [&whole[..at], tail].concat();
        let old = |version: u8, tail: &[u8]| {
            let zeroes = if version == 3 { 20 } else { 16 };
            let first = format!("riser nettlp record {version}\n");
            [first.as_bytes(), &[0; 20][..zeroes], tail].concat()
        };
        let file = |len: u32| old(2, &[&[1, 0, 0, 0, 1, 0, 0, 0, b'a'][..], &len.to_le_bytes()].concat());
        let length = |at, what, len, most| RecordError::Length { at, what, len, most };
        let field = |at, what, value, most| RecordError::Field { at, what, value, most };
        let input = |time: u8, place: u8| [1, time, 0, 0, 0, 0, 0, 0, 0, place, 0, 0, 0, 0, 0];
        let rows: [(Vec<u8>, RecordError); 20] = [
            (b"riser nettlp record 4\n".to_vec(), RecordError::Magic),
            (b"riser".to_vec(), RecordError::Magic),
            (old(3, &[]), RecordError::Head(42)),
            (old(3, &[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, b'a']), RecordError::Head(51)),
            (old(3, &[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), RecordError::Text(50)),
            (old(2, &[1, 1, 0, 0]), length(38, "a list of files", 257, MAX_KEPT_FILES)),
            (old(2, &[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), RecordError::Text(46)),
            (file(1), RecordError::Head(51)),
            (file(u32::MAX), length(47, "a file", u32::MAX as usize, MAX_KEPT_BYTES)),
            (old(1, &[0; 8]), RecordError::Cut(38)),
            (old(1, &[9; 9]), RecordError::Kind { at: 38, kind: 9, last: 6 }),
            (whole[..at - 1].to_vec(), RecordError::Head(at - 1)),
            (with(&[]), RecordError::Cut(at)),
            (with(&[5, 0, 0]), RecordError::Kind { at, kind: 5, last: 4 }),
            (with(&input(0, 2)), field(at + 9, "place", 2, 1)),
            (with(&input(3, 0)[..5]), RecordError::Cut(at)),
            (with(&[2, 0, 0, 6]), field(at + 3, "answer of memory", 6, 5)),
            (
                with(&[input(0, 0)[..11].to_vec(), vec![0, 0, 0x11, 0]].concat()),
                length(at + 11, "an input", 0x11_0000, MAX_INPUT),
            ),
            (
                with(&[input(2, 0), input(1, 0)].concat()),
                RecordError::Order { at: at + 15, time: Time::from_ps(1), before: Time::from_ps(2) },
            ),
            (with(&[3, 3]), RecordError::Behind(at + 1)),
        ];
        for (bytes, error) in rows {
            assert_eq!(all(&bytes).1, Some(error));
        }
    }
}
