// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CSV with a map of its columns: a TLP per row, or the beats of an AXI4-Stream as logic analyzers export them.
//!
//! Streams carry TLPs in the layout of AMD's 7 Series block (PG054): bits 31:0 have the first DW of a TLP,
//! and bits 31:24 of each DW have its first byte. In exports of an ILA, the second row has the radix of each column
//! (ChipScoPy, `WaveformWriterCSV`).

use super::columns::{Column, Columns, Role};
use super::descriptor::enables_of;
use super::error::LineError;
use super::hex::{Reason, bytes_of, detect_order, direction, reverse_dwords};
use super::words::{cut, cut_to, is_hex, seconds};
use super::{Lines, TextTlp};
use crate::reader::{ByteOrder, MAX_FRAME_LEN, Unreadable};
use ::csv::StringRecord;
use std::collections::VecDeque;
use tlp::Repr;

pub(super) struct Csv {
    columns: Columns,
    /// The role and the index of each column.
    places: Vec<(Role, usize)>,
    order: ByteOrder,
    reason: Reason,
    /// Columns with signals of the stream that the caller did not map.
    unread: Vec<String>,
    has_begun: bool,
    /// True after the first `tlast`, because the next beat then starts a TLP.
    knows_start: bool,
    /// Line of the first TLP if its size is wrong. Its first beats may be missing in the file.
    doubtful: Option<u64>,
    /// True after an unreadable beat, up to the next `tlast`.
    is_lost: bool,
    /// The TLP whose beats are being read. For a stream with descriptors, its bytes are the DWs of the packet.
    open: Option<TextTlp>,
    /// first_be and last_be of this packet.
    enables: [u8; 2],
}

impl Csv {
    /// Finds the columns in the start of the file, and detects the byte order if it is not given.
    pub(super) fn new(columns: Columns, order: Option<ByteOrder>, sample: &str) -> Result<Csv, Unreadable> {
        let heading = heading(sample);
        let places = places(&columns, &heading, sample)?;
        let unread = unread(&places, &heading);
        let mut csv = Csv {
            columns,
            places,
            order: order.unwrap_or(ByteOrder::Big),
            reason: Reason::Given,
            unread,
            has_begun: false,
            knows_start: false,
            doubtful: None,
            is_lost: false,
            open: None,
            enables: [0; 2],
        };
        if let (Some(stream), Some(ByteOrder::Little)) = (csv.columns.1, order) {
            return Err(Unreadable::Option(format!("{} has one byte order", stream.name())));
        }
        if let Some(line) = sample.lines().take(2).find(|line| is_radix(line)) {
            csv.check_radix(&shown(line))?;
        }
        if order.is_none() && !csv.columns.is_stream() {
            let rows = sample.lines().filter_map(|line| csv.row_bytes(&cells(line)).ok());
            (csv.order, csv.reason) = detect_order(rows);
        }
        Ok(csv)
    }

    /// Returns true if the first row has names: the caller maps a column by name, or no cell is a value.
    fn is_heading(&self, cells: &[String]) -> bool {
        let is_named = self.columns.0.iter().any(|(_, column)| matches!(column, Column::Name(_)));
        let is_value = |(role, place): &(Role, usize)| {
            let cell = cells.get(*place).map_or("", |cell| cell.trim());
            let is_tlp = matches!(role, Role::Tlp | Role::Tdata) && numbers(cell).is_ok();
            let is_direction = *role == Role::Direction && direction(cell).is_some();
            is_tlp || is_direction || cell.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        };
        is_named || !self.places.iter().any(is_value)
    }

    fn cell<'a>(&self, cells: &'a [String], is_it: impl Fn(Role) -> bool) -> Option<&'a str> {
        let (_, place) = self.places.iter().find(|(role, _)| is_it(*role))?;
        cells.get(*place).map(String::as_str)
    }

    fn check_radix(&self, cells: &[String]) -> Result<(), Unreadable> {
        // Signals of one bit are the same in every radix.
        let is_number =
            |role: Role| matches!(role, Role::Tlp | Role::Data | Role::Tdata | Role::Tkeep | Role::Tuser);
        let wrong = self.places.iter().filter(|(role, _)| is_number(*role)).find_map(|(_, place)| {
            let radix = cells.get(*place)?.trim_start_matches("Radix - ");
            (radix != "HEX").then_some((place + 1, radix))
        });
        match wrong {
            None => Ok(()),
            Some((column, radix)) => {
                Err(Unreadable::Option(format!("column {column} has radix {radix}, expected HEX")))
            }
        }
    }

    /// Returns a TLP with time and direction, but without bytes.
    fn begin(&self, cells: &[String], number: u64) -> Result<TextTlp, LineError> {
        let mut tlp = TextTlp { line: number, ..TextTlp::default() };
        if let Some((Role::Time(unit), place)) =
            self.places.iter().find(|(role, _)| matches!(role, Role::Time(_)))
        {
            let text = cells.get(*place).map_or("", |cell| cell.trim());
            let time = seconds(text).ok_or_else(|| LineError::Time(text.to_owned()))?;
            tlp.time = Some(time / 1_000_000 * u128::from(*unit) / 1_000_000);
        }
        if let Some(word) = self.cell(cells, |role| role == Role::Direction) {
            let known = direction(word.trim()).ok_or_else(|| LineError::Direction(word.to_owned()));
            tlp.interface = known?;
        }
        Ok(tlp)
    }

    fn row(&self, cells: &[String], number: u64) -> Result<TextTlp, LineError> {
        let mut tlp = self.begin(cells, number)?;
        tlp.bytes = self.row_bytes(cells)?;
        self.put_in_order(&mut tlp.bytes);
        Ok(tlp)
    }

    /// Returns the bytes of a row's TLP in the order of the file.
    fn row_bytes(&self, cells: &[String]) -> Result<Vec<u8>, LineError> {
        let mut bytes = numbers(self.cell(cells, |role| role == Role::Tlp).ok_or(LineError::NoTlp("row"))?)?;
        if let Some(data) = self.cell(cells, |role| role == Role::Data).filter(|data| !data.trim().is_empty())
        {
            bytes.extend(numbers(data)?);
        }
        Ok(bytes)
    }

    fn put_in_order(&self, bytes: &mut [u8]) {
        if self.order == ByteOrder::Little {
            reverse_dwords(bytes);
        }
    }

    /// Reads a beat. After an unreadable beat, skips the rest of its TLP.
    fn stream(
        &mut self,
        cells: &[String],
        number: u64,
        out: &mut VecDeque<TextTlp>,
    ) -> Result<(), LineError> {
        let is_last = self.is_set(cells, Role::Tlast);
        let was_lost = self.is_lost;
        let result = match (self.is_set(cells, Role::Tvalid), self.is_set(cells, Role::Tready)) {
            (Ok(true), Ok(true)) if was_lost => is_last.clone().map(|_| ()),
            (Ok(true), Ok(true)) => self.beat(cells, number, out),
            (Ok(_), Ok(_)) => return Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        self.is_lost = (was_lost || result.is_err()) && is_last != Ok(true);
        self.knows_start |= is_last == Ok(true);
        result.map_err(|error| {
            self.open = None;
            LineError::Skipped(Box::new(error))
        })
    }

    /// Returns the value of a signal of one bit; true if the file does not have the signal.
    fn is_set(&self, cells: &[String], wanted: Role) -> Result<bool, LineError> {
        match self.cell(cells, |role| role == wanted).map(str::trim) {
            None | Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(other) => Err(LineError::word(cut(other), "0 or 1")),
        }
    }

    fn beat(&mut self, cells: &[String], number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        let signal = |wanted: Role| self.cell(cells, |role| role == wanted);
        let data = signal(Role::Tdata).unwrap_or_default();
        // In streams with descriptors, each bit of tkeep stands for a DW, otherwise for a byte.
        let unit = if self.columns.1.is_some() { 1 } else { 4 };
        let mut bytes = beat_bytes(data, signal(Role::Tkeep), unit)?;
        if self.open.is_none()
            && let Some(tuser) = signal(Role::Tuser)
        {
            self.enables = enables(tuser, data)?;
        }
        self.put_in_order(&mut bytes);
        let is_last = self.is_set(cells, Role::Tlast)?;
        let mut tlp = match self.open.take() {
            Some(tlp) => tlp,
            None => self.begin(cells, number)?,
        };
        if tlp.bytes.len() + bytes.len() > MAX_FRAME_LEN {
            return Err(LineError::Endless);
        }
        tlp.bytes.extend(bytes);
        match is_last {
            true => self.end_tlp(tlp, out)?,
            false => self.open = Some(tlp),
        }
        Ok(())
    }

    /// Ends a TLP at `tlast`. The beginning of the first TLP may be missing in the file. Then its first DW is not a
    /// header.
    fn end_tlp(&mut self, mut tlp: TextTlp, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        if tlp.bytes.is_empty() {
            return Err(LineError::NoBytes);
        }
        if let Some(stream) = self.columns.1 {
            let dword = |four: &[u8]| four.iter().fold(0, |dword, byte| dword << 8 | u32::from(*byte));
            let words: Vec<u32> = tlp.bytes.chunks(4).map(dword).collect();
            tlp.bytes = stream.tlp(&words, self.enables)?;
            if tlp.interface.is_empty() {
                stream.direction().name().clone_into(&mut tlp.interface);
            }
        }
        if !self.knows_start {
            let header = Repr::parse_header(&tlp.bytes);
            let parsed = header.map_err(LineError::Begun)?;
            self.doubtful = (parsed.tlp_len() != tlp.bytes.len()).then_some(tlp.line);
        }
        tlp.wire_len = Some(tlp.bytes.len());
        out.push_back(tlp);
        Ok(())
    }

    /// Returns the notes about the file, in parentheses.
    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if self.order == ByteOrder::Little {
            notes.push(format!("the bytes of each dword reversed{}", self.reason.text()));
        }
        if let Some(line) = self.doubtful {
            notes.push(format!("the TLP of line {line} may have begun before the file"));
        }
        if !self.unread.is_empty() {
            notes.push(format!("not in --columns: {}", cut_to(&self.unread.join(", "), 200)));
        }
        if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
    }
}

impl Lines for Csv {
    fn taken_for(&self) -> String {
        let what = match self.columns.1 {
            Some(stream) => {
                format!("an AXI4-Stream of {} descriptors, with their IDs and tags", stream.name())
            }
            None if self.columns.is_stream() => "an AXI4-Stream of TLPs".to_owned(),
            None => "a TLP per row".to_owned(),
        };
        format!("CSV with {what}{}", self.notes())
    }

    fn has_guessed_byte_order(&self) -> bool {
        self.reason == Reason::Detected && self.order == ByteOrder::Little
    }

    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        let cells = cells(line);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if line.trim().is_empty() || is_radix(line) || is_first && self.is_heading(&cells) {
            return Ok(());
        }
        match self.columns.is_stream() {
            true => self.stream(&cells, number, out),
            false => self.row(&cells, number).map(|tlp| out.push_back(tlp)),
        }
    }

    fn flush(&mut self, _out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        match self.open.take() {
            None => Ok(()),
            Some(TextTlp { line, .. }) => Err(LineError::NoTlast { line }),
        }
    }
}

/// Returns first_be and last_be of a beat.
fn enables(tuser: &str, tdata: &str) -> Result<[u8; 2], LineError> {
    let digits = tuser.trim();
    let low = digits.get(digits.len().saturating_sub(4)..).unwrap_or_default();
    let bits = is_hex(digits).then(|| u32::from_str_radix(low, 16).ok()).flatten();
    let bits = bits.ok_or_else(|| LineError::signal("tuser ", cut(digits), "a hexadecimal number"))?;
    Ok(enables_of(bits, tdata.trim().len() == 512 / 4))
}

/// Returns the bytes of one beat: its DWs from right to left, one for each `unit` ones in `tkeep`.
fn beat_bytes(tdata: &str, tkeep: Option<&str>, unit: usize) -> Result<Vec<u8>, LineError> {
    let digits = tdata.trim();
    if !is_hex(digits) || !digits.len().is_multiple_of(8) {
        return Err(LineError::signal("tdata ", cut(digits), "hexadecimal dwords"));
    }
    let all = digits.len() / 8;
    let kept = match tkeep.map(str::trim) {
        None => all,
        Some(keep) => {
            let bits = u64::from_str_radix(keep, 16).ok().filter(|bits| bits & bits.wrapping_add(1) == 0);
            let ones = bits
                .map(|bits| bits.count_ones() as usize)
                .filter(|ones| ones.is_multiple_of(unit) && ones / unit <= all);
            ones.ok_or_else(|| LineError::signal("tkeep ", keep, "whole dwords from bit 0 on"))? / unit
        }
    };
    let dwords: Vec<&str> =
        (0..kept).map(|n| &digits[digits.len() - 8 * (n + 1)..digits.len() - 8 * n]).collect();
    if dwords.is_empty() { Ok(Vec::new()) } else { bytes_of(&dwords) }
}

fn numbers(cell: &str) -> Result<Vec<u8>, LineError> {
    let numbers: Vec<&str> = cell.split([' ', ':', '_', '-']).filter(|part| !part.is_empty()).collect();
    if numbers.is_empty() { Err(LineError::EmptyCell) } else { bytes_of(&numbers) }
}

/// Returns the cells of a row. A cell in quotation marks may contain commas, and doubled quotation marks.
fn cells(line: &str) -> Vec<String> {
    let mut reader = ::csv::ReaderBuilder::new();
    let mut row = StringRecord::new();
    // Reading a line from memory cannot fail.
    let _ = reader.has_headers(false).flexible(true).from_reader(line.as_bytes()).read_record(&mut row);
    row.iter().map(str::to_owned).collect()
}

/// Returns true if a row has the radix of each column.
fn is_radix(line: &str) -> bool {
    line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("radix"))
}

/// Returns the names in the first row.
fn heading(sample: &str) -> Vec<String> {
    shown(sample.lines().next().unwrap_or_default())
}

/// Returns the cells of a row in a form that is safe for a terminal.
fn shown(row: &str) -> Vec<String> {
    let mut line = String::new();
    super::append_shown(row.trim_end(), &mut line);
    cells(&line).iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Returns the names of the columns if the first rows look like CSV: names, and the same number of cells in each row.
pub(super) fn names(sample: &str) -> Option<String> {
    let names = heading(sample);
    let is_name = |cell: &String| cell.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let rows: Vec<_> = sample.lines().take(8).map(|line| cells(line).len()).collect();
    let is_csv = names.len() > 1 && rows.len() > 1 && rows.iter().all(|width| *width == names.len());
    (is_csv && names.iter().all(is_name)).then(|| cut_to(&names.join(", "), 400).to_owned())
}

/// Returns the name of a column without its range.
fn base(name: &str) -> &str {
    name.split('[').next().unwrap_or_default().trim()
}

/// Returns the columns with signals of the same stream as `tdata` that are not in `places`: their names differ only
/// in the signal.
fn unread(places: &[(Role, usize)], heading: &[String]) -> Vec<String> {
    let tdata = places.iter().find(|(role, _)| *role == Role::Tdata).and_then(|(_, at)| heading.get(*at));
    let Some(stem) = tdata.and_then(|name| base(name).strip_suffix("tdata")) else { return Vec::new() };
    let signals = [(Role::Tkeep, "tkeep"), (Role::Tvalid, "tvalid"), (Role::Tready, "tready")];
    let missing = signals.iter().filter(|(role, _)| places.iter().all(|(known, _)| known != role));
    let column = |signal: &str| heading.iter().find(|name| base(name).strip_prefix(stem) == Some(signal));
    missing.filter_map(|(_, signal)| column(signal).cloned()).collect()
}

/// Returns the index of each column. Columns with a name are looked up in the first row.
fn places(columns: &Columns, heading: &[String], sample: &str) -> Result<Vec<(Role, usize)>, Unreadable> {
    let width = sample.lines().map(|line| cells(line).len()).max().unwrap_or(1);
    let is_one = width == 1 && sample.contains([';', '\t']);
    let hint = if is_one { "; expected commas between columns" } else { "" };
    let place = |column: &Column| match column {
        Column::Number(number) if *number <= width => Ok(number - 1),
        Column::Number(number) => {
            Err(Unreadable::Option(format!("column {number}: expected 1 to {width}{hint}")))
        }
        Column::Name(name) => {
            let found = named(name, heading)?;
            let names = heading.join(", ");
            found.ok_or_else(|| {
                let names = cut_to(&names, 200);
                Unreadable::Option(format!("no column `{name}`: expected {names}{hint}"))
            })
        }
    };
    columns.0.iter().map(|(role, column)| Ok((*role, place(column)?))).collect()
}

/// Returns the column with this name. A match of the whole name has priority over a match without range, and the
/// latter over a match without range and path.
fn named(name: &str, heading: &[String]) -> Result<Option<usize>, Unreadable> {
    let is_it: [fn(&str) -> &str; 3] =
        [|cell| cell, base, |cell| base(cell).rsplit('/').next().unwrap_or_default()];
    for part in is_it {
        let mut found = heading.iter().enumerate().filter(|(_, cell)| part(cell) == name);
        match (found.next(), found.next()) {
            (None, _) => {}
            (Some((at, _)), None) => return Ok(Some(at)),
            (Some((a, first)), Some((b, second))) => {
                return Err(Unreadable::Option(format!(
                    "`{name}` is column {} `{}` and column {} `{}`: expected a whole name or a number",
                    a + 1,
                    cut_to(first, 100),
                    b + 1,
                    cut_to(second, 100)
                )));
            }
        }
    }
    Ok(None)
}
