// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interfaces of a capture. Each is one direction of a link.

use super::{Defect, LINKTYPE_ETHERNET, LINKTYPE_PCI_EXP, LINKTYPE_USER0, MAX_INTERFACES, MAX_LINKS};
use crate::registers::OwnRegisters;
use crate::time::{Resolution, append_decimal};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Direction of an interface: the part after the colon of names such as `link0:downstream`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the root complex to the device.
    Downstream,
    /// From the device to the root complex.
    Upstream,
}

impl Direction {
    /// `downstream` or `upstream`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Downstream => "downstream",
            Direction::Upstream => "upstream",
        }
    }
}

/// End of a link at which a tap is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The root port, or the downstream port of a switch.
    Root,
    /// The device, or the upstream port of a switch.
    Device,
}

impl End {
    /// `root` or `device`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            End::Root => "root",
            End::Device => "device",
        }
    }

    /// Returns the name of the end in descriptions of interfaces.
    const fn described(self) -> &'static str {
        match self {
            End::Root => "root port",
            End::Device => "device",
        }
    }
}

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name (`if_name`); empty if the capture has none.
    pub name: String,
    /// Description (`if_description`); empty if the capture has none.
    pub description: String,
    /// Link type; [`LINKTYPE_ETHERNET`] and [`LINKTYPE_PCI_EXP`] are decoded.
    pub link_type: u16,
    /// Unit of its timestamps.
    pub resolution: Resolution,
    /// Seconds to add to its timestamps (`if_tsoffset`).
    pub offset_s: i64,
    /// Maximum number of captured bytes per frame; 0 stands for no limit.
    pub snaplen: u32,
    /// Direction, if the name contains one.
    pub direction: Option<Direction>,
    /// Number of the link, from 0. Interfaces whose names are equal up to the colon have the same link.
    pub link: u16,
    /// Slot or switch at the end of the link, from the description in riser's captures; otherwise empty.
    pub slot: Arc<str>,
    /// End of the link where it captures, if the description has it.
    pub end: Option<End>,
    /// Registers of the device on the link. Only downstream interfaces of riser's captures have them.
    pub registers: OwnRegisters,
    /// True if the capture has other links too.
    pub has_others: bool,
    /// Data rate of the wire in bits per second, without the encoding (`if_speed`); `None` if the capture does not
    /// have it.
    pub speed_bps: Option<u64>,
}

impl Interface {
    /// Returns one direction of a link, as in riser's captures, with timestamps since the start of the run.
    pub fn of_link(link: u16, way: Direction, description: &str) -> Interface {
        let mut interface = Interface {
            name: format!("link{link}:{}", way.name()),
            direction: Some(way),
            link,
            ..Interface::new(LINKTYPE_ETHERNET, Resolution::PICOSECONDS, 0)
        };
        interface.describe(description);
        interface
    }

    /// Returns the description that riser writes for an interface: one direction of the link to `slot`, captured at
    /// `end`.
    pub fn description(slot: &str, way: Direction, end: End) -> String {
        format!("{slot}, {}, at the {}", way.name(), end.described())
    }

    /// Sets the description, with the slot and the end that it contains.
    pub(super) fn describe(&mut self, description: &str) {
        description.clone_into(&mut self.description);
        let Some((rest, at)) = description.rsplit_once(", at the ") else { return };
        let ways = [", upstream", ", downstream"];
        let slot = ways.into_iter().find_map(|way| rest.strip_suffix(way));
        let end = [End::Root, End::Device].into_iter().find(|end| end.described() == at);
        if let (Some(slot), Some(end)) = (slot, end) {
            (self.slot, self.end) = (slot.into(), Some(end));
        }
    }

    /// Appends the name of a link: its slot or switch, or `link` and its number.
    pub fn append_link(link: u16, slot: &str, out: &mut String) {
        if slot.is_empty() {
            out.push_str("link");
            append_decimal(out, link.into(), 1);
        } else {
            out.push_str(slot);
        }
    }

    /// Returns an interface without a name, and with timestamps since the epoch.
    pub fn new(link_type: u16, resolution: Resolution, snaplen: u32) -> Interface {
        Interface {
            name: String::new(),
            description: String::new(),
            link_type,
            resolution,
            offset_s: 0,
            snaplen,
            direction: None,
            link: 0,
            slot: Arc::default(),
            end: None,
            registers: OwnRegisters::default(),
            has_others: false,
            speed_bps: None,
        }
    }
}

/// The interfaces of a section, and the links of the file.
#[derive(Default)]
pub(super) struct Interfaces {
    pub(super) list: Vec<Interface>,
    links: BTreeMap<String, u16>,
    /// The user link types with TLPs, one bit each.
    user_tlps: u16,
}

impl Interfaces {
    pub(super) fn new(user_tlps: u16) -> Interfaces {
        Interfaces { user_tlps, ..Interfaces::default() }
    }

    pub(super) fn push(&mut self, mut interface: Interface) -> Result<(), Defect> {
        if self.list.len() == MAX_INTERFACES {
            return Err(Defect::TooManyInterfaces);
        }
        let user = interface.link_type.checked_sub(LINKTYPE_USER0).filter(|user| *user < 16);
        if user.is_some_and(|user| self.user_tlps >> user & 1 == 1) {
            interface.link_type = LINKTYPE_PCI_EXP;
        }
        let (link, way) = interface.name.split_once(':').unwrap_or(("", &interface.name));
        let direction = match way {
            "downstream" => Some(Direction::Downstream),
            "upstream" => Some(Direction::Upstream),
            _ => None,
        };
        let link = if direction.is_some() { link } else { "" };
        interface.link = self.link(link);
        interface.direction = direction;
        interface.has_others = self.links.len() > 1;
        if interface.has_others {
            self.list.iter_mut().for_each(|other| other.has_others = true);
        }
        self.list.push(interface);
        Ok(())
    }

    /// Returns the number of the interface with this name, and adds it if needed. The last of [`MAX_INTERFACES`]
    /// has no name and stands for all further names.
    pub(super) fn of_text(&mut self, name: &str, resolution: Resolution, link_type: u16) -> u32 {
        if let Some(at) = self.list.iter().rposition(|known| known.name == name) {
            return at as u32;
        }
        if self.list.len() < MAX_INTERFACES {
            let is_last = self.list.len() == MAX_INTERFACES - 1;
            let name = if is_last { String::new() } else { name.to_owned() };
            let interface = Interface { name, ..Interface::new(link_type, resolution, 0) };
            // There is room.
            let _ = self.push(interface);
        }
        self.list.len() as u32 - 1
    }

    // Interfaces without a link in their name share the empty name, as in NetTLP's captures.
    fn link(&mut self, name: &str) -> u16 {
        if let Some(link) = self.links.get(name) {
            return *link;
        }
        let link = self.links.len().min(MAX_LINKS) as u16;
        if self.links.len() < MAX_LINKS {
            self.links.insert(name.to_owned(), link);
        }
        link
    }
}
