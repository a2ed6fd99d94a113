// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The option that maps the columns of a CSV file.

use super::text::Stream;
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
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let (mut columns, mut names) = (Columns(Vec::new(), None), Vec::new());
        for part in text.split(',') {
            let (name, column) =
                part.split_once('=').ok_or_else(|| format!("`{part}`: expected NAME=COLUMN"))?;
            let role = ROLES.iter().find(|(known, _)| *known == name.trim()).ok_or_else(|| {
                let names: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
                format!("`{name}`: expected one of {}", names.join(", "))
            })?;
            let column = match column.trim().parse() {
                Ok(0) => return Err(format!("`{part}`: columns count from 1")),
                Ok(number) => Column::Number(number),
                Err(_) if column.trim().is_empty() => return Err(format!("`{part}`: no column")),
                Err(_) => Column::Name(column.trim().to_owned()),
            };
            let name = name.trim();
            let is_same = |other: Role| std::mem::discriminant(&other) == std::mem::discriminant(&role.1);
            if let Some(at) = columns.0.iter().position(|(role, _)| is_same(*role)) {
                return Err(match names[at] {
                    other if other == name => format!("`{name}` is given twice"),
                    other => format!("`{other}` and `{name}` exclude each other"),
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
            return Err("tuser, which has the byte enables, needs rq or cq".to_owned());
        }
        match (tlp, tdata, tlast) {
            (true, false, false) | (false, true, true) => Ok(columns),
            _ => Err("expected tlp, or header and data, or tdata and tlast with tkeep, tvalid, tready; rq, rc, cq or cc in place of tdata of descriptors, with tuser for rq and cq; also time_ns and dir"
                .to_owned()),
        }
    }
}
