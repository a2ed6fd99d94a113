// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels, and the mapping of Traffic Classes to them (`PCIe 5.0 §2.5`, §6.3). Credits and arbitration are
//! elsewhere.

use crate::TrafficClass;
use core::fmt;

/// A virtual channel: VC ID 0 to 7 (`PCIe 5.0 §2.5.1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Vc(u8);

impl Vc {
    /// The channel that every port has.
    pub const VC0: Vc = Vc(0);
    /// Maximum number of channels of a port.
    pub const COUNT: usize = 8;

    /// The channel with this VC ID; `None` above 7.
    pub const fn new(id: u8) -> Option<Vc> {
        if id < 8 { Some(Vc(id)) } else { None }
    }

    /// The channel in the low three bits.
    pub const fn from_bits(bits: u8) -> Vc {
        Vc(bits & 7)
    }

    /// VC ID, 0 to 7.
    #[must_use]
    pub const fn id(self) -> u8 {
        self.0
    }

    /// The VC ID as an index for tables by channel.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All eight channels, in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Vc> {
        (0..8).map(Vc)
    }
}

impl fmt::Display for Vc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VC{}", self.0)
    }
}

/// A set of Traffic Classes.
///
/// Layout: bit n is TC n, as in the TC/VC Map of a VC Resource Control Register (`PCIe 5.0 §7.9.1.7`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcSet(u8);

impl TcSet {
    /// The empty set.
    pub const NONE: TcSet = TcSet(0);
    /// All eight classes.
    pub const ALL: TcSet = TcSet(0xff);

    /// The set with these bits.
    pub const fn from_bits(bits: u8) -> TcSet {
        TcSet(bits)
    }

    /// The set of one class.
    pub const fn of(tc: TrafficClass) -> TcSet {
        TcSet(1 << tc.bits())
    }

    /// Bit n is TC n.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns true if `tc` is in the set.
    #[must_use]
    pub const fn contains(self, tc: TrafficClass) -> bool {
        self.0 >> tc.bits() & 1 != 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes in both sets.
    #[must_use]
    pub const fn and(self, other: TcSet) -> TcSet {
        TcSet(self.0 & other.0)
    }

    /// The classes in either set.
    #[must_use]
    pub const fn or(self, other: TcSet) -> TcSet {
        TcSet(self.0 | other.0)
    }

    /// The classes that are not in the set.
    #[must_use]
    pub const fn complement(self) -> TcSet {
        TcSet(!self.0)
    }
}

/// The TC/VC map of a link: which Traffic Class uses which virtual channel (`PCIe 5.0 §2.5.2`). A class uses at
/// most one channel, and TC0 always uses VC0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcVcMap {
    /// The classes of each channel, by VC ID. No class is in two sets.
    classes: [TcSet; Vc::COUNT],
}

/// Reason why the specification forbids a TC/VC map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcVcMapError {
    /// TC0 is on this channel. VC0 here means that TC0 is not mapped.
    Tc0(Vc),
    /// A class is on two channels.
    Twice {
        /// The class.
        tc: TrafficClass,
        /// The channel with the lower VC ID.
        first: Vc,
        /// The channel with the higher VC ID.
        second: Vc,
    },
}

impl Default for TcVcMap {
    /// All classes on VC0, as in each port after reset (`PCIe 5.0 §7.9.1.7`).
    fn default() -> TcVcMap {
        TcVcMap::VC0_ONLY
    }
}

impl TcVcMap {
    /// All classes on VC0.
    pub const VC0_ONLY: TcVcMap = {
        let mut classes = [TcSet::NONE; Vc::COUNT];
        classes[0] = TcSet::ALL;
        TcVcMap { classes }
    };

    /// TC n on VC n, for all eight classes.
    pub const fn one_to_one() -> TcVcMap {
        let mut classes = [TcSet::NONE; Vc::COUNT];
        let mut n = 0;
        while n < Vc::COUNT {
            classes[n] = TcSet(1 << n);
            n += 1;
        }
        TcVcMap { classes }
    }

    /// The map with these sets of classes, by VC ID. Classes in none of the sets are not mapped.
    ///
    /// # Errors
    /// If TC0 is not on VC0, or a class is on two channels.
    pub fn new(classes: [TcSet; Vc::COUNT]) -> Result<TcVcMap, TcVcMapError> {
        for tc in (0..8).map(TrafficClass::from_bits) {
            let mut on = Vc::all().filter(|vc| classes[vc.index()].contains(tc));
            let first = on.next();
            if tc.bits() == 0 && first != Some(Vc::VC0) {
                return Err(TcVcMapError::Tc0(first.unwrap_or_default()));
            }
            if let (Some(first), Some(second)) = (first, on.next()) {
                return Err(TcVcMapError::Twice { tc, first, second });
            }
        }
        Ok(TcVcMap { classes })
    }

    /// The channel of `tc`; `None` if it is not mapped.
    pub fn vc(&self, tc: TrafficClass) -> Option<Vc> {
        Vc::all().find(|vc| self.classes[vc.index()].contains(tc))
    }

    /// The classes on `vc`.
    pub const fn classes(&self, vc: Vc) -> TcSet {
        self.classes[vc.index()]
    }

    /// The classes that are mapped to a channel.
    pub fn mapped(&self) -> TcSet {
        self.classes.iter().fold(TcSet::NONE, |all, set| all.or(*set))
    }

    /// The channels in use, in order: VC0, and each channel with at least one class.
    pub fn channels(&self) -> impl Iterator<Item = Vc> + '_ {
        Vc::all().filter(|vc| *vc == Vc::VC0 || !self.classes(*vc).is_empty())
    }
}

impl fmt::Display for TcVcMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcVcMapError::Tc0(vc) if *vc == Vc::VC0 => f.write_str("TC0 is not mapped: expected on VC0"),
            TcVcMapError::Tc0(vc) => write!(f, "TC0 on {vc}: expected on VC0"),
            TcVcMapError::Twice { tc, first, second } => {
                write!(f, "TC{} on {first} and {second}: expected on at most one channel", tc.bits())
            }
        }
    }
}

impl core::error::Error for TcVcMapError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn sets(bits: [u8; 8]) -> [TcSet; 8] {
        bits.map(TcSet::from_bits)
    }

    #[test]
    fn each_class_uses_mapped_channel() {
        let map = TcVcMap::new(sets([0x07, 0, 0, 0x08, 0, 0, 0, 0x80])).unwrap();
        let of = |tc| map.vc(TrafficClass::from_bits(tc)).map(Vc::id);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 7].map(of),
            [Some(0), Some(0), Some(0), Some(3), None, None, None, Some(7)]
        );
        assert_eq!(map.channels().map(Vc::id).collect::<std::vec::Vec<_>>(), [0, 3, 7]);
        assert_eq!(map.mapped().bits(), 0x8f);
        assert_eq!(TcVcMap::new(sets([1, 2, 4, 8, 16, 32, 64, 128])), Ok(TcVcMap::one_to_one()));
        assert_eq!(TcVcMap::new(sets([0xff, 0, 0, 0, 0, 0, 0, 0])), Ok(TcVcMap::default()));
    }

    /// `PCIe 5.0 §2.5.2`: TC0 is always mapped to VC0, and one TC is mapped to only one VC.
    #[test]
    fn rejects_invalid_maps() {
        let text = |bits| TcVcMap::new(sets(bits)).unwrap_err().to_string();
        assert_eq!(text([2, 1, 0, 0, 0, 0, 0, 0]), "TC0 on VC1: expected on VC0");
        assert_eq!(text([2, 0, 0, 0, 0, 0, 0, 0]), "TC0 is not mapped: expected on VC0");
        assert_eq!(text([3, 2, 0, 0, 0, 0, 0, 0]), "TC1 on VC0 and VC1: expected on at most one channel");
    }
}
