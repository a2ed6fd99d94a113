// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directions of the links of a trace, by number.

use crate::decode::Record;
use crate::reader::{Direction, Interface};
use crate::sequence::{LinkDirection, opposite, way};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One direction of a link.
#[derive(Clone, Debug)]
struct Known {
    opposite: u32,
    name: Arc<str>,
}

/// The link and the direction, as lines show them.
fn name(interface: &Interface, direction: Option<Direction>) -> Arc<str> {
    let direction = direction.map(Direction::name);
    match (&*interface.slot, direction) {
        ("", Some(direction)) if interface.name.is_empty() => Arc::from(direction),
        ("", _) => Arc::from(interface.name.as_str()),
        (slot, Some(direction)) => Arc::from(format!("{slot}:{direction}")),
        (slot, None) => Arc::from(slot),
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    numbers: BTreeMap<LinkDirection, u32>,
    all: Vec<Known>,
    latest: Option<(LinkDirection, u32)>,
}

impl Ways {
    /// The number of the direction in which a record travels.
    pub(super) fn number(&mut self, record: &Record<'_>) -> u32 {
        let way = way(record);
        if let Some((latest, number)) = self.latest
            && latest == way
        {
            return number;
        }
        let number = self.number_of(way);
        self.latest = Some((way, number));
        if let Some(interface) = record.interface
            && let Some(known) = self.all.get_mut(number as usize)
            && known.name.is_empty()
        {
            known.name = name(interface, record.direction);
        }
        number
    }

    /// The number of a direction.
    pub(super) fn number_of(&mut self, way: LinkDirection) -> u32 {
        if let Some(number) = self.numbers.get(&way) {
            return *number;
        }
        let number = self.add(way);
        let back = opposite(way);
        if back != way {
            let other = self.add(back);
            self.set_opposite(number, other);
            self.set_opposite(other, number);
        }
        number
    }

    /// The number of the other direction of the same link.
    pub(super) fn opposite(&self, number: u32) -> u32 {
        self.all.get(number as usize).map_or(number, |known| known.opposite)
    }

    /// The link and the direction, as lines show them.
    pub(super) fn name(&self, number: u32) -> Arc<str> {
        self.all.get(number as usize).map(|known| Arc::clone(&known.name)).unwrap_or_default()
    }

    fn add(&mut self, way: LinkDirection) -> u32 {
        // A reader distinguishes at most 65,535 links.
        let number = self.all.len() as u32;
        self.numbers.insert(way, number);
        self.all.push(Known { opposite: number, name: Arc::default() });
        number
    }

    fn set_opposite(&mut self, number: u32, other: u32) {
        if let Some(known) = self.all.get_mut(number as usize) {
            known.opposite = other;
        }
    }
}
