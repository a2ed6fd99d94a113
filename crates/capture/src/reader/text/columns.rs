// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The option that maps the columns of a CSV file.

use super::descriptor::Stream;
use std::str::FromStr;

/// A column: its number from 1, or its name in the first row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// Number of the column.
    Number(usize),
    /// Name, with or without a range such as `[63:0]` and the path before the name.
    Name(String),
}

/// The content of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A time, with its unit in picoseconds.
    Time(u64),
    /// A direction, in the words of hexadecimal text (`up`, `down`, ...).
    Direction,
    /// A TLP, or its header.
    Tlp,
    /// The data after the header.
    Data,
    /// Signals of an AXI4-Stream; the first is its data.
    Tdata,
    /// Signal with the byte enables.
    Tuser,
    Tkeep,
    Tlast,
    Tvalid,
    Tready,
}

const ROLES: [(&str, Role); 19] = [
    ("time_ps", Role::Time(1)),
    ("time_ns", Role::Time(1_000)),
    ("time_us", Role::Time(1_000_000)),
    ("time_ms", Role::Time(1_000_000_000)),
    ("time_s", Role::Time(1_000_000_000_000)),
    ("dir", Role::Direction),
    ("tlp", Role::Tlp),
    ("header", Role::Tlp),
    ("data", Role::Data),
    ("tdata", Role::Tdata),
    // tdata of a stream with descriptors, see `Stream`.
    ("rq", Role::Tdata),
    ("rc", Role::Tdata),
    ("cq", Role::Tdata),
    ("cc", Role::Tdata),
    ("tuser", Role::Tuser),
    ("tkeep", Role::Tkeep),
    ("tlast", Role::Tlast),
    ("tvalid", Role::Tvalid),
    ("tready", Role::Tready),
];

/// Reason why a map of columns is illegal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A part of the map has no `=`.
    #[error("`{0}`: expected NAME=COLUMN")]
    NoColumn(String),
    /// A name is unknown.
    #[error("`{0}`: expected one of {names}", names = ROLES.map(|(name, _)| name).join(", "))]
    Role(String),
    /// A column has the number 0.
    #[error("`{0}`: columns count from 1")]
    Zero(String),
    /// A column is empty.
    #[error("`{0}`: no column")]
    Empty(String),
    /// A name is given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// Two names exclude each other.
    #[error("`{0}` and `{1}` exclude each other")]
    Exclusive(String, String),
    /// There is a column with byte enables, and no stream that needs it; or the reverse.
    #[error("tuser, which has the byte enables, needs rq or cq")]
    Enables,
    /// The columns together are neither TLPs nor a stream.
    #[error(
        "expected tlp, or header and data, or tdata and tlast with tkeep, tvalid, tready; rq, rc, cq or cc in place of tdata of descriptors, with tuser for rq and cq; also time_ns and dir"
    )]
    Combination,
}

/// The columns of a CSV file, such as `time_ns=1,dir=2,header=3,data=4`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns(pub(super) Vec<(Role, Column)>, pub(super) Option<Stream>);

impl Columns {
    pub(super) fn is_stream(&self) -> bool {
        self.has(|role| role == Role::Tdata)
    }

    fn has(&self, is_it: impl Fn(Role) -> bool) -> bool {
        self.0.iter().any(|(role, _)| is_it(*role))
    }
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let (mut columns, mut names) = (Columns(Vec::new(), None), Vec::<&str>::new());
        for part in text.split(',') {
            let (name, column) =
                part.split_once('=').ok_or_else(|| ColumnsError::NoColumn(part.to_owned()))?;
            let role = ROLES.iter().find(|(known, _)| *known == name.trim());
            let role = role.ok_or_else(|| ColumnsError::Role(name.to_owned()))?;
            let column = match column.trim().parse() {
                Ok(0) => return Err(ColumnsError::Zero(part.to_owned())),
                Ok(number) => Column::Number(number),
                Err(_) if column.trim().is_empty() => return Err(ColumnsError::Empty(part.to_owned())),
                Err(_) => Column::Name(column.trim().to_owned()),
            };
            let name = name.trim();
            let is_same = |other: Role| std::mem::discriminant(&other) == std::mem::discriminant(&role.1);
            if let Some(at) = columns.0.iter().position(|(role, _)| is_same(*role)) {
                return Err(match names[at] {
                    other if other == name => ColumnsError::Twice(name.to_owned()),
                    other => ColumnsError::Exclusive(other.to_owned(), name.to_owned()),
                });
            }
            names.push(name);
            let stream = Stream::ALL.iter().find(|(known, _)| *known == name);
            columns.1 = columns.1.or(stream.map(|(_, stream)| *stream));
            columns.0.push((role.1, column));
        }
        let (tlp, tdata) = (columns.has(|role| role == Role::Tlp), columns.is_stream());
        let tlast = columns.has(|role| role == Role::Tlast);
        let has_enables = columns.1.is_some_and(Stream::has_enables);
        if has_enables != columns.has(|role| role == Role::Tuser) {
            return Err(ColumnsError::Enables);
        }
        match (tlp, tdata, tlast) {
            (true, false, false) | (false, true, true) => Ok(columns),
            _ => Err(ColumnsError::Combination),
        }
    }
}
