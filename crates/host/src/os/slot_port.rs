// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of a port above a slot, as the hot-plug driver uses them (`PCIe 5.0 §7.5.3`, §7.8.4).

use crate::firmware::Function;
use crate::{Cpu, DriverError, HostError};
use config::Uncorrectable;
use config::cap::pcie::{LINK_CONTROL, SLOT_CONTROL, link_control, slot_control as slot};
use config::ext::aer;
use config::header::{COMMAND_STATUS, command};
use tlp::Bdf;

/// Byte Enables of the control half of a DW with control and status.
const CONTROL: u8 = 0b0011;
/// Byte Enables of the status half.
const STATUS: u8 = 0b1100;
const ALL_BYTES: u8 = 0b1111;

/// The events of Slot Status.
const EVENTS: u32 = slot::ATTENTION_BUTTON
    | slot::POWER_FAULT
    | slot::MRL_SENSOR
    | slot::PRESENCE
    | slot::COMMAND_COMPLETED
    | slot::LINK_STATE;

/// Enable bits of the events that interrupt.
const ENABLES: u32 = slot::ATTENTION_BUTTON_ENABLE
    | slot::PRESENCE_ENABLE
    | slot::LINK_STATE_ENABLE
    | slot::HOT_PLUG_INTERRUPT_ENABLE;

const INDICATORS: u32 = slot::ATTENTION_INDICATOR | slot::POWER_INDICATOR;

/// States of an indicator (`PCIe 5.0 Table 7-22`).
const ON: u32 = 0b01;
const BLINK: u32 = 0b10;
const OFF: u32 = 0b11;

/// Values of the attention and power indicator, in position.
const fn indicators(attention: u32, power: u32) -> u32 {
    attention << 6 | power << 8
}

/// State of a slot and its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotStatus {
    /// Presence Detect State.
    pub(super) present: bool,
    /// Data Link Layer Link Active.
    pub(super) link_active: bool,
}

/// State that the indicators of a slot show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Indication {
    /// The slot has power.
    On,
    /// The slot has no power.
    Off,
    /// Power is about to change.
    Blink,
    /// The card in the slot does not work.
    Fault,
}

/// Uncorrectable errors that a function has logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LoggedErrors {
    /// The function that has logged the errors.
    pub(super) source: Bdf,
    /// The errors, as one line.
    pub(super) line: String,
    /// True if Surprise Down is one of these errors.
    pub(super) surprise_down: bool,
}

/// A port above a slot.
pub(super) struct SlotPort {
    cpu: Cpu,
    bdf: Bdf,
    vector: u16,
    /// DW number of its PCI Express capability.
    pcie: u16,
    /// DW number of the AER capability of a root port; `None` if it has no AER.
    root_aer: Option<u16>,
}

impl SlotPort {
    /// Returns the port that enumeration has found as `function`.
    ///
    /// # Errors
    /// If the function has no PCI Express capability.
    pub(super) fn new(cpu: &Cpu, function: &Function) -> Result<SlotPort, DriverError> {
        let bdf = function.bdf();
        let facts = function.pcie.ok_or_else(|| format!("function {bdf} is not a PCI Express port"))?;
        let is_root = facts.port == Some(config::PortType::RootPort);
        Ok(SlotPort {
            cpu: cpu.clone(),
            bdf,
            vector: function.found.vector_base,
            pcie: facts.at,
            root_aer: function.extended_capability(aer::ID).filter(|_| is_root),
        })
    }

    pub(super) fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// Vector for events of its slot, and for its errors.
    pub(super) fn vector(&self) -> u16 {
        self.vector
    }

    async fn read(&self, dw: u16) -> Result<u32, DriverError> {
        self.cpu.config_read(self.bdf, dw).await.map_err(|e| self.error(e))
    }

    async fn write(&self, dw: u16, byte_enables: u8, value: u32) -> Result<(), DriverError> {
        let written = self.cpu.config_write(self.bdf, dw, byte_enables, value).await;
        written.map_err(|e| self.error(e))
    }

    fn error(&self, error: HostError) -> DriverError {
        DriverError::from(error).at(format_args!("port {}", self.bdf))
    }

    /// Changes the bits of `mask` in Slot Control.
    async fn control(&self, mask: u32, value: u32) -> Result<(), DriverError> {
        let old = self.read(self.pcie + SLOT_CONTROL).await?;
        self.write(self.pcie + SLOT_CONTROL, CONTROL, old & !mask & 0xffff | value & mask).await
    }

    /// Enables interrupts for events.
    pub(super) async fn enable(&self, is_on: bool) -> Result<(), DriverError> {
        let power = if is_on { ON } else { OFF };
        self.control(ENABLES | INDICATORS, ENABLES | indicators(OFF, power)).await
    }

    /// Takes and clears the events since the last call.
    pub(super) async fn take_events(&self) -> Result<u32, DriverError> {
        let mut all = 0;
        loop {
            let events = self.read(self.pcie + SLOT_CONTROL).await? & EVENTS;
            if events == 0 {
                return Ok(all);
            }
            self.write(self.pcie + SLOT_CONTROL, STATUS, events).await?;
            all |= events;
        }
    }

    /// Clears the link event that the driver itself has caused.
    pub(super) async fn forget_link_event(&self) -> Result<(), DriverError> {
        self.write(self.pcie + SLOT_CONTROL, STATUS, slot::LINK_STATE).await
    }

    pub(super) async fn status(&self) -> Result<SlotStatus, DriverError> {
        let slot_status = self.read(self.pcie + SLOT_CONTROL).await?;
        let link = self.read(self.pcie + LINK_CONTROL).await?;
        Ok(SlotStatus {
            present: slot_status & slot::PRESENT != 0,
            link_active: link & link_control::LINK_ACTIVE != 0,
        })
    }

    /// True if the card in the slot was removed or may be another one.
    pub(super) async fn has_changed(&self) -> Result<bool, DriverError> {
        let events = self.read(self.pcie + SLOT_CONTROL).await? & (slot::PRESENCE | slot::LINK_STATE);
        let now = self.status().await?;
        Ok(events != 0 || !now.present || !now.link_active)
    }

    /// Powers the slot off, and clears the event of its link going down.
    pub(super) async fn power_off(&self) -> Result<(), DriverError> {
        let off = slot::POWER_OFF | indicators(OFF, OFF);
        self.control(slot::POWER_OFF | INDICATORS, off).await?;
        self.forget_link_event().await
    }

    /// Powers the slot on. The power indicator blinks until setup is complete.
    pub(super) async fn power_on(&self) -> Result<(), DriverError> {
        self.control(slot::POWER_OFF | INDICATORS, indicators(OFF, BLINK)).await
    }

    /// Sets the indicators to the state of the slot.
    pub(super) async fn indicate(&self, shown: Indication) -> Result<(), DriverError> {
        let (attention, power) = match shown {
            Indication::On => (OFF, ON),
            Indication::Off => (OFF, OFF),
            Indication::Blink => (OFF, BLINK),
            Indication::Fault => (ON, OFF),
        };
        self.control(INDICATORS, indicators(attention, power)).await
    }

    /// Returns the uncorrectable errors that have reached a root port, one line per source. Clears them in the root
    /// port and at their source. Empty for other ports, and if registers do not answer.
    pub(super) async fn take_errors(&self) -> Vec<LoggedErrors> {
        let Some(at) = self.root_aer else { return Vec::new() };
        let mut lines = Vec::new();
        while let Ok(status) = self.read(at + aer::ROOT_STATUS).await {
            let status = status & 0x7f;
            if status == 0 {
                break;
            }
            let sources = self.read(at + aer::ERROR_SOURCE).await.unwrap_or(0);
            if self.write(at + aer::ROOT_STATUS, ALL_BYTES, status).await.is_err() {
                break;
            }
            if status & aer::root_status::UNCORRECTABLE_RECEIVED != 0 {
                lines.extend(self.take_errors_of(Bdf::from_bits((sources >> 16) as u16)).await);
            }
        }
        lines
    }

    /// Takes and clears the errors that function `source` has logged.
    async fn take_errors_of(&self, source: Bdf) -> Option<LoggedErrors> {
        let at = self.find_aer(source).await?;
        let status = self.cpu.config_read(source, at + aer::UNCORRECTABLE_STATUS).await.ok()?;
        self.cpu.config_write(source, at + aer::UNCORRECTABLE_STATUS, ALL_BYTES, status).await.ok()?;
        let errors = Uncorrectable::ALL.iter().filter(|e| status & e.mask() != 0);
        let names: Vec<&str> = errors.map(|e| e.name()).collect();
        let surprise_down = status & Uncorrectable::SurpriseDown.mask() != 0;
        let line = format!("{source} reports: {}", names.join(", "));
        (!names.is_empty()).then_some(LoggedErrors { source, line, surprise_down })
    }

    /// DW number of the AER capability of function `source`.
    async fn find_aer(&self, source: Bdf) -> Option<u16> {
        // Starts at 100h. Each entry has at least two DWs, so a longer list is a loop.
        let mut at = 0x40;
        for _ in 0..480 {
            let head = self.cpu.config_read(source, at).await.ok().filter(|head| *head != u32::MAX)?;
            if head as u16 == aer::ID {
                return Some(at);
            }
            at = (head >> 22) as u16;
            if at < 0x40 {
                return None;
            }
        }
        None
    }

    /// Clears Bus Master Enable of a function. A function that does not answer sends no requests either.
    pub(super) async fn stop_requests(cpu: &Cpu, function: Bdf) {
        if let Ok(control) = cpu.config_read(function, COMMAND_STATUS).await {
            let value = control & 0xffff & !command::BUS_MASTER;
            let _ = cpu.config_write(function, COMMAND_STATUS, CONTROL, value).await;
        }
    }
}
