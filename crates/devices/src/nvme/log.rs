// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the subsystem, as log pages (NVMe 1.4 §5.14). Independent of commands.

use super::ERROR_LOG_ENTRIES;
use super::identify::{Fields, TEMPERATURE};
use super::spec::{Command, Status, admin, io};
use std::collections::VecDeque;
use tlp::{Duration, Time};

const ERROR_BYTES: usize = 64;

/// Log pages.
pub(super) const ERROR: u8 = 0x01;
pub(super) const HEALTH: u8 = 0x02;
pub(super) const FIRMWARE: u8 = 0x03;
pub(super) const EFFECTS: u8 = 0x05;

/// Counters of a controller. They survive resets of the controller, except for the entries of the error log.
#[derive(Default)]
pub(super) struct Counts {
    errors: VecDeque<[u8; ERROR_BYTES]>,
    error_count: u64,
    pub(super) media_errors: u64,
    pub(super) blocks_read: u64,
    pub(super) blocks_written: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    power_cycles: u64,
    unsafe_shutdowns: u64,
    /// Whether the controller was enabled since power-on.
    has_power: bool,
    /// Whether the controller was enabled, and not shut down since.
    pub(super) is_in_use: bool,
    pub(super) busy: Duration,
}

impl Counts {
    /// Records a failed command.
    pub(super) fn error(&mut self, queue: u16, command: &Command, status: Status) {
        self.error_count += 1;
        let mut fields = Fields::new(ERROR_BYTES);
        fields
            .put(0, &self.error_count.to_le_bytes())
            .put(8, &queue.to_le_bytes())
            .put(10, &command.cid().to_le_bytes())
            .put(12, &(status.field() << 1).to_le_bytes())
            // Parameter Error Location: no specific byte of the command.
            .put(14, &u16::MAX.to_le_bytes())
            .put(16, &if queue > 0 && command.has_lba() { command.lba() } else { 0 }.to_le_bytes())
            .put(24, &command.nsid().to_le_bytes());
        self.errors.truncate(ERROR_LOG_ENTRIES - 1);
        self.errors.push_front(fields.0.try_into().unwrap_or([0; ERROR_BYTES]));
    }

    /// A reset clears the log of errors (NVMe 1.4 §5.14.1.1), but not their count.
    pub(super) fn reset(&mut self) {
        self.errors.clear();
    }

    /// Handles the controller's Enable. The first enable after power-on counts as a power cycle.
    pub(super) fn begin(&mut self) {
        self.power_cycles += u64::from(!self.has_power);
        (self.has_power, self.is_in_use) = (true, true);
    }

    /// Handles a loss of power.
    pub(super) fn lose_power(&mut self) {
        self.unsafe_shutdowns += u64::from(self.is_in_use);
        (self.has_power, self.is_in_use) = (false, false);
    }

    pub(super) fn error_page(&self) -> Vec<u8> {
        let mut page: Vec<u8> = self.errors.iter().flatten().copied().collect();
        page.resize(ERROR_LOG_ENTRIES * ERROR_BYTES, 0);
        page
    }

    /// SMART / Health Information. `warning` has the critical warning bits.
    pub(super) fn health_page(&self, warning: u8, now: Time) -> Vec<u8> {
        let mut fields = Fields::new(512);
        // Units of 512,000 B.
        let units = |blocks: u64| u128::from(blocks.div_ceil(1000)).to_le_bytes();
        let hours = now.since(Time::ZERO).as_ps() / 3_600_000_000_000_000;
        let minutes = self.busy.as_ps() / 60_000_000_000_000;
        fields
            .put(0, &[warning])
            .put(1, &TEMPERATURE.to_le_bytes())
            .put(3, &[100, 10])
            .put(32, &units(self.blocks_read))
            .put(48, &units(self.blocks_written))
            .put(64, &u128::from(self.reads).to_le_bytes())
            .put(80, &u128::from(self.writes).to_le_bytes())
            .put(96, &u128::from(minutes).to_le_bytes())
            .put(112, &u128::from(self.power_cycles).to_le_bytes())
            .put(128, &u128::from(hours).to_le_bytes())
            .put(144, &u128::from(self.unsafe_shutdowns).to_le_bytes())
            .put(160, &u128::from(self.media_errors).to_le_bytes())
            .put(176, &u128::from(self.error_count).to_le_bytes());
        fields.0
    }
}

/// Firmware Slot Information: one slot.
pub(super) fn firmware_page() -> Vec<u8> {
    let mut fields = Fields::new(512);
    fields.put(0, &[1]).put(8, b"        ").put(8, env!("CARGO_PKG_VERSION").as_bytes());
    fields.0
}

/// Commands Supported and Effects: the supported commands, and whether they change blocks.
pub(super) fn effects_page() -> Vec<u8> {
    const SUPPORTED: u32 = 1;
    const CHANGES_BLOCKS: u32 = 1 << 1;
    const CHANGES_NAMESPACE: u32 = 1 << 2;
    let mut fields = Fields::new(4096);
    let mut put = |at: usize, effects: u32| _ = fields.put(4 * at, &effects.to_le_bytes());
    for opcode in [
        admin::DELETE_SQ,
        admin::CREATE_SQ,
        admin::GET_LOG_PAGE,
        admin::DELETE_CQ,
        admin::CREATE_CQ,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
    ] {
        put(opcode.into(), SUPPORTED);
    }
    put(admin::FORMAT.into(), SUPPORTED | CHANGES_BLOCKS | CHANGES_NAMESPACE);
    for opcode in [io::READ, io::COMPARE] {
        put(256 + usize::from(opcode), SUPPORTED);
    }
    for opcode in [io::FLUSH, io::WRITE, io::WRITE_UNCORRECTABLE, io::WRITE_ZEROES, io::DATASET_MANAGEMENT] {
        put(256 + usize::from(opcode), SUPPORTED | CHANGES_BLOCKS);
    }
    fields.0
}
