// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes assigned addresses into BARs and windows, and enables functions.

use super::error::FirmwareError;
use super::need::{Class, Need, RangeOwner};
use super::registers::{TYPE0_ROM, sriov, type1};
use super::system::Function;
use super::{ALL_BYTES, Config, FoundBar, FoundFunction, LOW_HALF, Window};
use config::cap::pcie::{self, device_control};
use config::header::{self, command, type0};
use config::register::get;

/// An I/O window that claims nothing: its limit is below its base (`PCIe 5.0 §7.5.1.3.6`).
const NO_IO: u32 = 0x00f0;
/// A memory window that claims nothing.
const NO_MEMORY: u32 = 0x0000_fff0;

impl Config<'_> {
    /// Writes an address to its register, and records it in `function`.
    pub(super) async fn program(&self, function: &mut Function, need: &Need) -> Result<(), FirmwareError> {
        match need.seat {
            RangeOwner::Bar(index) => self.program_bar(function, need, index).await,
            RangeOwner::Rom => self.program_rom(function, need).await,
            RangeOwner::VfBar(index) => self.program_vf_bar(function, need, index).await,
            RangeOwner::Window => {
                note_window(function, need);
                Ok(())
            }
        }
    }

    async fn program_bar(
        &self,
        function: &mut Function,
        need: &Need,
        index: u8,
    ) -> Result<(), FirmwareError> {
        let bar = FoundBar { address: need.address, size: need.size };
        let is_io = need.class == Class::Io;
        let bars = if is_io { &mut function.found.io_bars } else { &mut function.found.bars };
        bars[usize::from(index)] = Some(bar);
        self.write_address(type0::BAR0 + u16::from(index), need).await
    }

    async fn program_rom(&self, function: &mut Function, need: &Need) -> Result<(), FirmwareError> {
        function.rom = Some(FoundBar { address: need.address, size: need.size });
        let rom = if function.bridge.is_some() { type1::ROM } else { TYPE0_ROM };
        self.write_address(rom, need).await
    }

    async fn program_vf_bar(
        &self,
        function: &mut Function,
        need: &Need,
        index: u8,
    ) -> Result<(), FirmwareError> {
        let Some(vfs) = &mut function.sriov else { return Ok(()) };
        // A VF BAR is aligned to the size of one VF's BAR.
        vfs.bars[usize::from(index)] = Some(FoundBar { address: need.address, size: need.align });
        self.write_address(vfs.at + sriov::BAR0 + u16::from(index), need).await
    }

    async fn write_address(&self, register_dw: u16, need: &Need) -> Result<(), FirmwareError> {
        self.write(register_dw, ALL_BYTES, need.address as u32).await?;
        if need.is_64 {
            self.write(register_dw + 1, ALL_BYTES, (need.address >> 32) as u32).await?;
        }
        Ok(())
    }

    /// Writes all windows of a bridge; unused ones claim nothing.
    pub(super) async fn program_windows(&self, function: &Function) -> Result<(), FirmwareError> {
        let Some(bridge) = function.bridge else { return Ok(()) };
        if bridge.has_io {
            let (low, high) = io_window(bridge.io);
            self.write(type1::IO, LOW_HALF, low).await?;
            self.write(type1::IO_UPPER, ALL_BYTES, high).await?;
        }
        self.write(type1::MEMORY, ALL_BYTES, memory_window(bridge.memory)).await?;
        self.write(type1::PREFETCHABLE, ALL_BYTES, memory_window(bridge.prefetchable)).await?;
        if !bridge.has_64_bit {
            return Ok(());
        }
        let window = bridge.prefetchable;
        let uppers = [window.base, window.base + window.size.saturating_sub(1)].map(|a| (a >> 32) as u32);
        self.write(type1::PREFETCHABLE_UPPER, ALL_BYTES, uppers[0]).await?;
        self.write(type1::PREFETCHABLE_UPPER + 1, ALL_BYTES, uppers[1]).await
    }

    /// True if the function still has the settings of [`Config::program_bar`], the policy and, last,
    /// [`Config::enable`].
    pub(super) async fn keeps(&self, function: &Function) -> Result<bool, FirmwareError> {
        let FoundFunction { bars, io_bars, .. } = &function.found;
        for (index, bar) in (0..).zip(bars).chain((0..).zip(io_bars)) {
            let Some(bar) = bar else { continue };
            let at = type0::BAR0 + index;
            let (low, high) = (bar.address as u32, (bar.address >> 32) as u32);
            // The lowest bits encode the kind of the BAR.
            let is_low = self.read(at).await? & !0xf == low & !0xf;
            if !is_low || high != 0 && self.read(at + 1).await? != high {
                return Ok(false);
            }
        }
        if let Some(pcie) = function.pcie {
            let control = self.read(pcie.at + pcie::DEVICE_CONTROL).await?;
            if get(control, device_control::MPS) != u32::from(function.mps.encoding()) {
                return Ok(false);
            }
        }
        Ok(self.read(header::COMMAND_STATUS).await? & command::BUS_MASTER != 0)
    }

    /// Enables a function to decode its addresses and send requests, and a bridge to forward both.
    pub(super) async fn enable(&self, function: &Function, report_errors: bool) -> Result<(), FirmwareError> {
        let has_io = function.found.io_bars.iter().any(Option::is_some)
            || function.bridge.is_some_and(|b| b.io.size > 0);
        let io = if has_io { command::IO_SPACE } else { 0 };
        let serr = if report_errors { command::SERR_ENABLE } else { 0 };
        let enable = command::MEMORY_SPACE | command::BUS_MASTER | io | serr;
        self.write(header::COMMAND_STATUS, LOW_HALF, enable).await
    }
}

fn note_window(function: &mut Function, need: &Need) {
    let Some(bridge) = &mut function.bridge else { return };
    let window = Window { base: need.address, size: need.size };
    match need.class {
        Class::Io => bridge.io = window,
        Class::Memory => bridge.memory = window,
        Class::Prefetchable => bridge.prefetchable = window,
    }
}

/// I/O Base and Limit, and their upper halves.
const fn io_window(window: Window) -> (u32, u32) {
    if window.size == 0 {
        return (NO_IO, 0);
    }
    let (first, last) = (window.base as u32, (window.base + (window.size - 1)) as u32);
    (first >> 8 & 0xf0 | last & 0xf000, first >> 16 | last & 0xffff_0000)
}

/// The low DW of a memory window: base and limit.
const fn memory_window(window: Window) -> u32 {
    if window.size == 0 {
        return NO_MEMORY;
    }
    let (first, last) = (window.base as u32, (window.base + (window.size - 1)) as u32);
    first >> 16 & 0xfff0 | last & 0xfff0_0000
}
