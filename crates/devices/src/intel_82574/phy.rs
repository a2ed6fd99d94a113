// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The internal PHY (IEEE 802.3 clause 22, and pages selected by register 22), and the NVM's words. Independent of the link partner.

use crate::ethernet::{MacAddress, Mode, Modes};
use std::collections::BTreeMap;

/// Address of the PHY on the management interface.
pub(super) const ADDRESS: u32 = 1;
/// Pages that keep written values. All others read as zero.
const PAGES: [u16; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 30, 769, 776, 800];
const PAGE_SELECT: u8 = 22;

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const BMCR_RESET: u16 = 1 << 15;
const BMCR_LOOPBACK: u16 = 1 << 14;
const BMCR_AUTO_NEGOTIATION: u16 = 1 << 12;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_RESTART: u16 = 1 << 9;
/// Link Status and Auto-Negotiation Complete.
const BMSR_LINK: u16 = 1 << 2 | 1 << 5;
/// 10BASE-T and 100BASE-TX of this end (§28.2.4.1.3), and the partner's, with Acknowledge.
const ADVERTISEMENT: u8 = 4;
const PARTNER: u8 = 5;
const MODES_SHIFT: u16 = 5;
const PARTNER_ACKNOWLEDGE: u16 = 0xc001;
/// 1000BASE-T of this end and of the partner (§40.5.1.1).
const GIGABIT_CONTROL: u8 = 9;
const GIGABIT_CONTROL_FULL: u16 = 1 << 9;
const GIGABIT_STATUS: u8 = 10;
const GIGABIT_STATUS_FULL: u16 = 1 << 11;
/// Local and remote receiver OK.
const GIGABIT_STATUS_RECEIVERS: u16 = 0b11 << 12;

/// The PHY's registers: number, reset value.
const RESET: [(u8, u16); 7] = [
    (BMCR, 0x1140),
    (BMSR, 0x7949),
    (2, 0x0141), // The identifier.
    (3, 0x0cb1),
    (ADVERTISEMENT, 0x0de1),
    (GIGABIT_CONTROL, 0x0e00),
    (15, 0x3000),
];
/// Read-only registers.
const READ_ONLY: [u8; 7] = [BMSR, 2, 3, PARTNER, GIGABIT_STATUS, 15, SPECIFIC_STATUS];
/// PHY Specific Status: current speed, duplex and link.
const SPECIFIC_STATUS: u8 = 17;

/// The link as the PHY's registers show it.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// `None` if it is down.
    pub(super) mode: Option<Mode>,
    pub(super) partner: Modes,
}

/// Returns the speed of a mode as encoded in STATUS and PHY register 17.
pub(super) fn speed(mode: Mode) -> u16 {
    match mode.mbps {
        1000 => 0b10,
        100 => 0b01,
        _ => 0,
    }
}

impl Link {
    /// Returns the value of register 17: speed in bits 15:14, duplex, resolved, link.
    fn specific_status(self) -> u16 {
        let Some(mode) = self.mode else { return 0 };
        speed(mode) << 14 | u16::from(mode.is_full_duplex) << 13 | 1 << 11 | 1 << 10
    }

    fn partner(self) -> u16 {
        let modes = u16::from(self.partner.bits() & 0xf);
        if self.partner == Modes::NONE { 0 } else { PARTNER_ACKNOWLEDGE | modes << MODES_SHIFT }
    }

    fn gigabit_status(self) -> u16 {
        let is_gigabit = self.partner.bits() & 0x10 != 0;
        if is_gigabit { GIGABIT_STATUS_RECEIVERS | GIGABIT_STATUS_FULL } else { 0 }
    }
}

pub(super) struct Phy {
    registers: BTreeMap<(u16, u8), u16>,
    page: u16,
}

impl Default for Phy {
    fn default() -> Phy {
        Phy { registers: RESET.into_iter().map(|(n, value)| ((0, n), value)).collect(), page: 0 }
    }
}

impl Phy {
    /// Registers up to 15 and the link status are the same on all pages.
    fn key(&self, n: u8) -> (u16, u8) {
        (if n < 16 || n == SPECIFIC_STATUS && self.page < 2 { 0 } else { self.page }, n)
    }

    pub(super) fn read(&self, n: u8, link: Link) -> u16 {
        match (n, self.key(n)) {
            (PAGE_SELECT, _) => self.page,
            (BMSR, _) if link.mode.is_some() => self.register(BMSR) | BMSR_LINK,
            (PARTNER, _) => link.partner(),
            (GIGABIT_STATUS, _) => link.gigabit_status(),
            (_, (0, SPECIFIC_STATUS)) => link.specific_status(),
            _ => self.register(n),
        }
    }

    fn register(&self, n: u8) -> u16 {
        self.registers.get(&self.key(n)).copied().unwrap_or(0)
    }

    /// Returns whether the write restarts the link.
    pub(super) fn write(&mut self, n: u8, value: u16) -> bool {
        if n == PAGE_SELECT {
            self.page = value;
            return false;
        }
        if n == BMCR && value & BMCR_RESET != 0 {
            self.registers.insert((0, BMCR), value & !BMCR_RESET & !BMCR_RESTART);
            return true;
        }
        let key = self.key(n);
        let before = self.register(n);
        if PAGES.contains(&key.0) && !(key.0 == 0 && READ_ONLY.contains(&n)) {
            self.registers.insert(key, if n == BMCR { value & !BMCR_RESTART } else { value });
        }
        n == BMCR && (value & BMCR_RESTART != 0 || value != before)
    }

    fn control(&self) -> u16 {
        self.register(BMCR)
    }

    /// Returns the modes that this end offers: the advertised modes, or the mode that BMCR forces.
    pub(super) fn offered(&self) -> Modes {
        let control = self.control();
        let bits = if control & (BMCR_POWER_DOWN | BMCR_LOOPBACK) != 0 {
            0
        } else if control & BMCR_AUTO_NEGOTIATION != 0 {
            let gigabit = u16::from(self.register(GIGABIT_CONTROL) & GIGABIT_CONTROL_FULL != 0);
            self.register(ADVERTISEMENT) >> MODES_SHIFT & 0xf | gigabit << 4
        } else {
            // Speed Selection in bits 6 and 13, Duplex Mode in bit 8 (§22.2.4.1).
            match (control >> 5 & 0b10 | control >> 13 & 1, control >> 8 & 1) {
                (0b10.., _) => 1 << 4,
                (speed, duplex) => 1 << (2 * speed + duplex),
            }
        };
        Modes::from_bits(bits as u8).unwrap_or_default()
    }

    pub(super) fn is_loop(&self) -> bool {
        self.control() & BMCR_LOOPBACK != 0
    }
}

/// Words of the NVM.
pub(super) const NVM_WORDS: usize = 256;

/// An NVM with this address. Its first 64 words have the sum BABAh.
pub(super) fn nvm(mac: MacAddress, vendor: u16, device: u16) -> [u16; NVM_WORDS] {
    let mut words = [0xffff; NVM_WORDS];
    words[..64].fill(0);
    for (n, pair) in mac.as_chunks::<2>().0.iter().enumerate() {
        words[n] = u16::from_le_bytes(*pair);
    }
    // LEDs; Initialization Control 1; subsystem and device; Initialization Control 2, without management (with it, a driver would keep
    // the PHY powered); APM Enable of Control 3.
    let rest = [
        (0x4, 0x8911),
        (0xa, 0x4609),
        (0xb, device),
        (0xc, vendor),
        (0xd, device),
        (0xf, 0x0400),
        (0x24, 0x0400),
    ];
    rest.into_iter().for_each(|(n, word)| words[n] = word);
    let sum = words[..63].iter().fold(0, |sum: u16, word| sum.wrapping_add(*word));
    words[63] = 0xbaba_u16.wrapping_sub(sum);
    words
}
