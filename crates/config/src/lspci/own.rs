// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of one structure as text, formatted by the field tables of `riser-config`.

use super::Head;
use super::space::{Lines, Space};
use crate::cap::capability;
use crate::ext::extended_capability;
use crate::register::{Field, Structure, get};

/// A capability or the header, and the lines that it is written to.
pub(super) struct Own<'a> {
    pub(super) space: &'a Space<'a>,
    /// Offset of the structure's first byte.
    pub(super) at: u16,
    pub(super) lines: &'a mut Lines,
    table: Option<Structure>,
}

/// One DW of the structure.
pub(super) struct Word<'a> {
    value: u32,
    fields: &'static [Field],
    lines: &'a mut Lines,
}

/// The table of a capability, if there is one.
pub(super) fn table(head: Head) -> Option<Structure> {
    match head.version {
        Some(_) => extended_capability(head.id),
        None => capability(u8::try_from(head.id).ok()?),
    }
}

impl<'a> Own<'a> {
    /// Returns a capability.
    pub(super) fn of(space: &'a Space<'a>, head: Head, lines: &'a mut Lines) -> Own<'a> {
        Own { space, at: head.at, lines, table: table(head) }
    }

    /// Returns the header, described by `table`.
    pub(super) fn header(space: &'a Space<'a>, table: Structure, lines: &'a mut Lines) -> Own<'a> {
        Own { space, at: 0, lines, table: Some(table) }
    }

    /// Value of a DW of the structure.
    pub(super) fn dw(&self, dw: u16) -> u32 {
        self.space.dw(self.at.saturating_add(dw * 4))
    }

    /// Returns a DW to show.
    pub(super) fn at(&mut self, dw: u16) -> Word<'_> {
        self.like(dw, dw)
    }

    /// Returns DW `dw` with the fields of `first`, for a repeated register.
    pub(super) fn like(&mut self, dw: u16, first: u16) -> Word<'_> {
        let fields = self.table.map_or(&[][..], |table| table.fields(first));
        Word { value: self.dw(dw), fields, lines: self.lines }
    }
}

impl Word<'_> {
    /// Adds lines. A piece that starts with a tab starts a line. Braces hold the name of a field's constant: `{NAME}`
    /// is its value, `{NAME:04x}` in hexadecimal, `{NAME+}` a plus or minus sign, `{NAME^64}` 64 times two to the power
    /// of the value. `{NAME|one|other}` has a text for each value; the last text is for all higher values. Bits without
    /// a constant are given as numbers: `{7+}`, `{25-24}`.
    pub(super) fn show(&mut self, pieces: &[&str]) {
        for piece in pieces {
            if piece.starts_with('\t') {
                self.lines.begin();
            }
            self.lines.add(&self.filled(piece));
        }
    }

    fn filled(&self, piece: &str) -> String {
        let mut parts = piece.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let (field, rest) = part.split_once('}').unwrap_or((part, ""));
            text + &self.value_of(field).unwrap_or_else(|| format!("{{{field}}}")) + rest
        })
    }

    fn value_of(&self, field: &str) -> Option<String> {
        let (name, form) = field.split_at(field.find(['+', ':', '^', '|']).unwrap_or(field.len()));
        let value = get(self.value, self.bits(name)?);
        let detail = form.get(1..).unwrap_or_default();
        Some(match form.chars().next() {
            Some('+') => String::from(if value != 0 { "+" } else { "-" }),
            Some(':') => {
                format!("{value:0width$x}", width = detail.trim_end_matches('x').parse().unwrap_or(0))
            }
            Some('^') => (detail.parse::<u64>().ok()? << value).to_string(),
            Some(_) => detail.split('|').take(value as usize + 1).last()?.to_owned(),
            None => value.to_string(),
        })
    }

    fn bits(&self, name: &str) -> Option<u32> {
        if let Some(field) = self.fields.iter().find(|field| field.constant == name) {
            return Some(field.bits);
        }
        let (high, low) = name.split_once('-').unwrap_or((name, name));
        let (high, low): (u32, u32) = (high.parse().ok()?, low.parse().ok()?);
        Some(u32::MAX >> (31 - high) & u32::MAX << low)
    }
}

/// Returns `piece` if `holds`, otherwise an empty string.
pub(super) fn when(holds: bool, piece: &str) -> &str {
    if holds { piece } else { "" }
}
