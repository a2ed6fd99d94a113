// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data that rows refer to by index: interfaces, paths, texts, and the table of formats. The tables have a maximum
//! size. Interfaces and texts above it share a general entry, and paths above it have none.

use super::Violations;
use super::columns::{COLUMNS, MAX_INTERFACES};
use super::payload::Share;
use capture::filter::terms::{FIELDS, Field};
use capture::matcher::Counts;
use capture::render::{class_name, status_name};
use capture::{Interface, Record, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tlp::{FORMATS, Status};

/// Maximum number of paths.
pub const MAX_PATHS: usize = 65_536;
/// Maximum number of texts. Texts of errors contain the found value, so all may differ.
pub const MAX_TEXTS: usize = 16_384;

/// The table of interfaces, paths and texts.
#[derive(Default)]
pub struct Tables {
    start: Option<Timestamp>,
    /// True if a record has a time.
    has_times: bool,
    digits: u8,
    interfaces: Vec<Interface>,
    last_interface: usize,
    paths: BTreeMap<PathKey, u32>,
    path_list: Vec<MetaPath>,
    texts: BTreeMap<String, u32>,
}

type PathKey = (IpAddr, u16, IpAddr, u16, [u16; 4]);

impl Tables {
    /// Returns empty tables.
    pub fn new() -> Tables {
        Tables::default()
    }

    /// Returns picoseconds since the capture's first frame; 0 for faults of the file. The result is limited to 63 bits
    /// (106 days).
    pub fn since_start(&mut self, record: &Record<'_>) -> i64 {
        if record.number == 0 {
            return 0;
        }
        self.has_times |= record.has_time;
        let (time, start) = (record.timestamp, *self.start.get_or_insert(record.timestamp));
        let cut = |ps: u128| i64::try_from(ps).unwrap_or(i64::MAX);
        if time >= start { cut(time.since_ps(start)) } else { -cut(start.since_ps(time)) }
    }

    /// Returns the index of an interface, from 1.
    pub fn interface(&mut self, interface: &Interface) -> u32 {
        if self.interfaces.get(self.last_interface) != Some(interface) {
            self.last_interface = self.place_of(interface);
        }
        self.last_interface as u32 + 1
    }

    fn place_of(&mut self, interface: &Interface) -> usize {
        if let Some(place) = self.interfaces.iter().position(|known| known == interface) {
            return place;
        }
        let mut new = interface.clone();
        if self.interfaces.len() + 1 >= MAX_INTERFACES {
            let others = |known: &Interface| known.name == OTHERS;
            if let Some(place) = self.interfaces.iter().position(others) {
                return place;
            }
            (new.name, new.direction) = (OTHERS.to_owned(), None);
        }
        self.digits = self.digits.max(interface.resolution.digits());
        self.interfaces.push(new);
        self.interfaces.len() - 1
    }

    /// Returns the index of a path, from 1; 0 if the table is full.
    pub fn path(&mut self, path: &capture::decode::Path) -> u32 {
        let mut vlans = [u16::MAX; 4];
        for (kept, id) in vlans.iter_mut().zip(path.vlans.ids()) {
            *kept = *id;
        }
        let key = (path.source, path.source_port, path.destination, path.destination_port, vlans);
        if let Some(number) = self.paths.get(&key) {
            return *number;
        }
        if self.path_list.len() == MAX_PATHS {
            return 0;
        }
        self.path_list.push(MetaPath {
            vlan: path.vlans.ids().to_vec(),
            source: path.source.to_string(),
            source_port: path.source_port,
            destination: path.destination.to_string(),
            destination_port: path.destination_port,
        });
        let number = self.path_list.len() as u32;
        self.paths.insert(key, number);
        number
    }

    /// Returns the index of a text, from 1, without a limit. Only for texts with few variants.
    pub fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32 + 1;
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// Returns the index of `text`, or of `short` if the table already has [`MAX_TEXTS`] texts.
    pub fn text_or(&mut self, text: &str, short: &'static str) -> u32 {
        if self.texts.len() < MAX_TEXTS || self.texts.contains_key(text) {
            self.text(text)
        } else {
            self.text(short)
        }
    }

    /// Returns the shared data of the page.
    pub fn meta(
        &self,
        title: &str,
        rows: u64,
        hidden: u64,
        transactions: Counts,
        payloads: Vec<Share>,
        violations: Violations,
    ) -> Meta {
        let mut texts = vec![String::new(); self.texts.len()];
        for (text, number) in &self.texts {
            texts[*number as usize - 1].clone_from(text);
        }
        let start = self.start.unwrap_or_default();
        Meta {
            title: title.to_owned(),
            rows,
            hidden,
            start_ps: start.as_ps().to_string(),
            is_virtual: start.is_virtual(),
            has_times: self.has_times,
            digits: self.digits,
            columns: COLUMNS,
            interfaces: self.interfaces.iter().map(MetaInterface::new).collect(),
            paths: self.path_list.clone(),
            texts,
            formats: FORMATS.iter().map(MetaFormat::new).collect(),
            statuses: (0..8).map(|bits| status_name(Status::from_bits(bits))).collect(),
            transactions,
            payloads,
            violations,
            filter: &FIELDS,
        }
    }
}

const OTHERS: &str = "other interfaces";

/// Shared data of the page, as JSON.
#[derive(Serialize)]
pub struct Meta {
    title: String,
    rows: u64,
    hidden: u64,
    /// Time of the first frame in ps since the epoch, as decimal text because it may not fit into a double.
    start_ps: String,
    is_virtual: bool,
    /// True if a record has a time.
    has_times: bool,
    /// Number of decimals of a second in the capture's times.
    digits: u8,
    columns: [&'static str; COLUMNS.len()],
    interfaces: Vec<MetaInterface>,
    paths: Vec<MetaPath>,
    texts: Vec<String>,
    formats: Vec<MetaFormat>,
    /// Names of Completion Status, indexed by its three bits.
    statuses: Vec<&'static str>,
    violations: Violations,
    transactions: Counts,
    /// Limits of data bytes. Each share that is not 0 has a block.
    payloads: Vec<Share>,
    /// Fields and flags of the filter.
    filter: &'static [Field],
}

#[derive(Serialize)]
struct MetaInterface {
    name: String,
    description: String,
    direction: Option<&'static str>,
    link: u16,
    slot: String,
    end: Option<&'static str>,
}

impl MetaInterface {
    fn new(interface: &Interface) -> MetaInterface {
        MetaInterface {
            name: interface.name.clone(),
            description: interface.description.clone(),
            direction: interface.direction.map(capture::Direction::name),
            link: interface.link,
            slot: interface.slot.to_string(),
            end: interface.end.map(capture::End::name),
        }
    }
}

#[derive(Clone, Serialize)]
struct MetaPath {
    vlan: Vec<u16>,
    source: String,
    source_port: u16,
    destination: String,
    destination_port: u16,
}

#[derive(Serialize)]
struct MetaFormat {
    name: &'static str,
    fmt: u8,
    type_bits: u8,
    type_mask: u8,
    has_data: bool,
    class: &'static str,
    family: &'static str,
}

impl MetaFormat {
    fn new(format: &tlp::Format) -> MetaFormat {
        MetaFormat {
            name: format.name,
            fmt: format.fmt,
            type_bits: format.type_bits,
            type_mask: format.type_mask,
            has_data: format.has_data,
            class: class_name(format.class),
            family: format.family.name(),
        }
    }
}
