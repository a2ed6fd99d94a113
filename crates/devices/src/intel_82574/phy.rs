// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PHY inside (IEEE 802.3 clause 22, and pages behind register 22), and the words of the NVM. Knows no link but that it should be up.

use crate::ethernet::MacAddress;
use std::collections::BTreeMap;

/// Address of the PHY on the management interface.
pub(super) const ADDRESS: u32 = 1;
/// Pages that hold what is written to them; all others read zero.
const PAGES: [u16; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 30, 769, 776, 800];
const PAGE_SELECT: u8 = 22;

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const BMCR_RESET: u16 = 1 << 15;
const BMCR_LOOPBACK: u16 = 1 << 14;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_RESTART: u16 = 1 << 9;
/// Link Status and Auto-Negotiation Complete.
const BMSR_LINK: u16 = 1 << 2 | 1 << 5;

/// The registers that the PHY has by itself: number, value at reset.
const RESET: [(u8, u16); 10] = [
    (BMCR, 0x1140),
    (BMSR, 0x7949),
    (2, 0x0141), // The identifier.
    (3, 0x0cb1),
    (4, 0x0de1),
    (5, 0xc1e1), // The partner: all of 10 and 100 Mb/s, without pause.
    (9, 0x0e00),
    (10, 0x3800), // And 1000 Mb/s full duplex, both receivers well.
    (15, 0x3000),
    (17, 0xa800), // 1000 Mb/s, full duplex, resolved.
];
/// Those that software cannot write.
const READ_ONLY: [u8; 7] = [BMSR, 2, 3, 5, 10, 15, 17];
/// PHY Specific Status: the link in real time.
const SPECIFIC_STATUS: u8 = 17;

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
    /// Registers up to 15 are the same in all pages, and so are those of the link's state.
    fn key(&self, n: u8) -> (u16, u8) {
        (if n < 16 || n == SPECIFIC_STATUS && self.page < 2 { 0 } else { self.page }, n)
    }

    pub(super) fn read(&self, n: u8, is_up: bool) -> u16 {
        let value = match n {
            PAGE_SELECT => self.page,
            _ => self.registers.get(&self.key(n)).copied().unwrap_or(0),
        };
        match n {
            BMSR if is_up => value | BMSR_LINK,
            SPECIFIC_STATUS if is_up => value | 1 << 10,
            _ => value,
        }
    }

    /// True where the link begins anew by it.
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
        if PAGES.contains(&key.0) && !(key.0 == 0 && READ_ONLY.contains(&n)) {
            self.registers.insert(key, if n == BMCR { value & !BMCR_RESTART } else { value });
        }
        n == BMCR && value & (BMCR_RESTART | BMCR_POWER_DOWN) != 0
    }

    fn control(&self) -> u16 {
        self.read(BMCR, false)
    }

    pub(super) fn is_loop(&self) -> bool {
        self.control() & BMCR_LOOPBACK != 0
    }

    pub(super) fn is_powered(&self) -> bool {
        self.control() & BMCR_POWER_DOWN == 0
    }
}

/// Words of the NVM.
pub(super) const NVM_WORDS: usize = 256;

/// An NVM with that address, whose first 64 words add up to BABAh.
pub(super) fn nvm(mac: MacAddress, vendor: u16, device: u16) -> [u16; NVM_WORDS] {
    let mut words = [0xffff; NVM_WORDS];
    words[..64].fill(0);
    for (n, pair) in mac.as_chunks::<2>().0.iter().enumerate() {
        words[n] = u16::from_le_bytes(*pair);
    }
    // LEDs; Initialization Control 1; subsystem and device; Initialization Control 2; APM Enable of Control 3.
    let rest = [
        (0x4, 0x8911),
        (0xa, 0x4609),
        (0xb, device),
        (0xc, vendor),
        (0xd, device),
        (0xf, 0x2400),
        (0x24, 0x0400),
    ];
    rest.into_iter().for_each(|(n, word)| words[n] = word);
    let sum = words[..63].iter().fold(0, |sum: u16, word| sum.wrapping_add(*word));
    words[63] = 0xbaba_u16.wrapping_sub(sum);
    words
}
