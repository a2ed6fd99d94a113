// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 4 KiB of configuration space of one function. Never acts: a write says as [`Effects`] what there is to obey.

use crate::bar::{Bar, BarKind, BarWindow};
use crate::cap::pcie::{device_control, device_control_2};
use crate::cap::{aer, msi, msix, pcie};
use crate::header::{self, command, status, type0};
use crate::register::{Register, byte_mask};
use crate::{
    AtomicSupport, DeferrableLength, ErrorMessage, MsiConfig, MsixControl, MsixLayout, Uncorrectable,
};
use bitflags::bitflags;
use tlp::{Attributes, Duration, Mps, Mrrs, Rcb};

/// Registers of 32 bits: 4 KiB.
pub(crate) const REGISTERS: usize = 1024;

bitflags! {
    /// What a write changed, or asks for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Effects: u16 {
        /// The Command register.
        const COMMAND = 1 << 0;
        /// A Base Address Register.
        const BAR = 1 << 1;
        /// Device Control or Device Control 2.
        const DEVICE_CONTROL = 1 << 2;
        /// Link Control.
        const LINK_CONTROL = 1 << 3;
        /// The MSI capability.
        const MSI = 1 << 4;
        /// MSI-X Message Control.
        const MSIX = 1 << 5;
        /// Initiate Function Level Reset was written: the function is to be reset.
        const FUNCTION_LEVEL_RESET = 1 << 6;
        /// ECRC Generation Enable or ECRC Check Enable.
        const ECRC = 1 << 7;
    }
}

/// What a reset does to sticky and other kept bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetScope {
    /// Fundamental: everything goes.
    Fundamental,
    /// Hot: sticky bits stay.
    Hot,
    /// Function Level Reset: sticky bits stay, and those of `PCIe 5.0 §6.6.2`: Max_Payload_Size and Link Control.
    FunctionLevel,
}

/// Where the capabilities stand, as DW numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) msi: Option<u16>,
    pub(crate) msix: Option<(u16, MsixLayout)>,
    pub(crate) pcie: Option<u16>,
    pub(crate) aer: Option<u16>,
}

/// Configuration space of one function: 1024 registers, made by [`Builder`](crate::Builder).
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    registers: Box<[Register]>,
    bars: [Option<Bar>; 6],
    capabilities: Capabilities,
}

impl ConfigSpace {
    pub(crate) fn from_parts(
        registers: Box<[Register]>,
        bars: [Option<Bar>; 6],
        capabilities: Capabilities,
    ) -> ConfigSpace {
        ConfigSpace { registers, bars, capabilities }
    }

    /// The register with this DW number, 0 to 1023; registers that do not exist, also beyond 1023, read zero.
    #[must_use]
    pub fn read(&self, register_dw: u16) -> u32 {
        self.registers.get(usize::from(register_dw)).map_or(0, |r| r.value)
    }

    /// Writes the bytes that `byte_enables` (bits 3:0) names. Bits that software may not change stay.
    pub fn write(&mut self, register_dw: u16, byte_enables: u8, value: u32) -> Effects {
        let Some(register) = self.registers.get_mut(usize::from(register_dw)) else {
            return Effects::empty();
        };
        let changed = register.write(byte_enables, value);
        let mut effects = if changed == 0 { Effects::empty() } else { self.effects_of(register_dw, changed) };
        effects.set(Effects::FUNCTION_LEVEL_RESET, self.asks_for_flr(register_dw, byte_enables, value));
        effects
    }

    fn effects_of(&self, dw: u16, changed: u32) -> Effects {
        const BAR_LAST: u16 = type0::BAR0 + type0::BARS as u16 - 1;
        let caps = &self.capabilities;
        let within = |start: Option<u16>, at: u16| start.is_some_and(|s| dw == s + at);
        match dw {
            header::COMMAND_STATUS if changed & command::WRITABLE != 0 => Effects::COMMAND,
            type0::BAR0..=BAR_LAST => Effects::BAR,
            _ if caps.msi.is_some_and(|s| (s..s + 4).contains(&dw)) => Effects::MSI,
            _ if within(caps.msix.map(|m| m.0), 0) => Effects::MSIX,
            _ if within(caps.pcie, pcie::DEVICE_CONTROL) && changed & 0xffff != 0 => Effects::DEVICE_CONTROL,
            _ if within(caps.pcie, pcie::DEVICE_CONTROL_2) => Effects::DEVICE_CONTROL,
            _ if within(caps.pcie, pcie::LINK_CONTROL) => Effects::LINK_CONTROL,
            _ if within(caps.aer, aer::CONTROL) => Effects::ECRC,
            _ => Effects::empty(),
        }
    }

    fn asks_for_flr(&self, dw: u16, byte_enables: u8, value: u32) -> bool {
        let at_control = self.capabilities.pcie.is_some_and(|s| dw == s + pcie::DEVICE_CONTROL);
        let written = value & byte_mask(byte_enables) & device_control::INITIATE_FLR != 0;
        at_control && written && self.pcie_word(1) >> 28 & 1 == 1
    }

    /// Sets registers back to what they are after a reset.
    pub fn reset(&mut self, scope: ResetScope) {
        for register in &mut self.registers {
            let access = register.access;
            register.reset(match scope {
                ResetScope::Fundamental => 0,
                ResetScope::Hot => access.sticky,
                ResetScope::FunctionLevel => access.sticky | access.kept_by_flr,
            });
        }
    }

    /// Memory Space Enable.
    #[must_use]
    pub fn memory_enable(&self) -> bool {
        self.read(header::COMMAND_STATUS) & command::MEMORY_SPACE != 0
    }

    /// I/O Space Enable.
    #[must_use]
    pub fn io_enable(&self) -> bool {
        self.read(header::COMMAND_STATUS) & command::IO_SPACE != 0
    }

    /// Bus Master Enable.
    #[must_use]
    pub fn bus_master_enable(&self) -> bool {
        self.read(header::COMMAND_STATUS) & command::BUS_MASTER != 0
    }

    /// The window that BAR `index` is set to, whether or not its space is enabled. `None` where there is no such BAR.
    #[must_use]
    pub fn bar(&self, index: u8) -> Option<BarWindow> {
        let bar = (*self.bars.get(usize::from(index))?)?;
        let at = type0::BAR0 + u16::from(index);
        let low = u64::from(self.read(at) & bar.address_bits().0);
        let high = if bar.kind == BarKind::Memory64 { u64::from(self.read(at + 1)) << 32 } else { 0 };
        Some(BarWindow {
            kind: bar.kind,
            address: low | high,
            size: bar.size,
            prefetchable: bar.prefetchable,
        })
    }

    /// DW number of the PCI Express capability.
    #[must_use]
    pub fn pcie_capability(&self) -> Option<u16> {
        self.capabilities.pcie
    }

    /// DW number of the MSI capability.
    #[must_use]
    pub fn msi_capability(&self) -> Option<u16> {
        self.capabilities.msi
    }

    /// DW number of the MSI-X capability.
    #[must_use]
    pub fn msix_capability(&self) -> Option<u16> {
        self.capabilities.msix.map(|(at, _)| at)
    }

    /// DW number of the Advanced Error Reporting capability.
    #[must_use]
    pub fn aer_capability(&self) -> Option<u16> {
        self.capabilities.aer
    }

    fn pcie_word(&self, at: u16) -> u32 {
        self.capabilities.pcie.map_or(0, |start| self.read(start + at))
    }

    /// Max_Payload_Size in force; 128 B without a PCI Express capability.
    #[must_use]
    pub fn mps(&self) -> Mps {
        pcie::mps(self.pcie_word(pcie::DEVICE_CONTROL), self.pcie_word(1))
    }

    /// Max_Read_Request_Size in force; 512 B without a PCI Express capability.
    #[must_use]
    pub fn mrrs(&self) -> Mrrs {
        match self.capabilities.pcie {
            Some(_) => pcie::mrrs(self.pcie_word(pcie::DEVICE_CONTROL)),
            None => Mrrs::default(),
        }
    }

    /// The Read Completion Boundary of the root port above, as Link Control says.
    #[must_use]
    pub fn rcb(&self) -> Rcb {
        pcie::rcb(self.pcie_word(pcie::LINK_CONTROL))
    }

    /// Extended Tag Field Enable: 8-bit tags.
    #[must_use]
    pub fn extended_tag_enable(&self) -> bool {
        self.pcie_word(pcie::DEVICE_CONTROL) & device_control::EXTENDED_TAG != 0
    }

    /// 10-Bit Tag Requester Enable.
    #[must_use]
    pub fn ten_bit_tag_enable(&self) -> bool {
        self.pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::TEN_BIT_TAG != 0
    }

    /// Attributes that the function may set in its requests; none without a PCI Express capability.
    #[must_use]
    pub fn request_attributes(&self) -> Attributes {
        pcie::request_attributes(self.pcie_word(pcie::DEVICE_CONTROL), self.pcie_word(pcie::DEVICE_CONTROL_2))
    }

    /// How long the function waits for a completion: `default` in the default range of 50 us to 50 ms, else the end of
    /// the range that Device Control 2 names; `None` where the timeout is disabled.
    #[must_use]
    pub fn completion_timeout(&self, default: Duration) -> Option<Duration> {
        let control = self.pcie_word(pcie::DEVICE_CONTROL_2);
        let disabled = control & device_control_2::TIMEOUT_DISABLE != 0;
        (!disabled).then(|| pcie::timeout(control).unwrap_or(default))
    }

    /// AtomicOp Requester Enable.
    #[must_use]
    pub fn atomic_requester_enable(&self) -> bool {
        self.pcie_word(pcie::DEVICE_CONTROL_2) & device_control_2::ATOMIC_REQUESTER != 0
    }

    /// AtomicOps that the function completes.
    #[must_use]
    pub fn atomics(&self) -> AtomicSupport {
        pcie::atomics(self.pcie_word(pcie::DEVICE_CAPABILITIES_2))
    }

    /// Deferrable writes that the function completes.
    #[must_use]
    pub fn deferrable_write(&self) -> Option<DeferrableLength> {
        pcie::deferrable_write(self.pcie_word(pcie::DEVICE_CAPABILITIES_2))
    }

    /// True for a Legacy PCI Express Endpoint.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.pcie_word(0) >> 20 & 0xf == 1
    }

    /// ECRC Generation Enable.
    #[must_use]
    pub fn ecrc_generation(&self) -> bool {
        self.aer_word(aer::CONTROL).is_some_and(|c| c & aer::control::ECRC_GENERATION != 0)
    }

    /// ECRC Check Enable.
    #[must_use]
    pub fn ecrc_check(&self) -> bool {
        self.aer_word(aer::CONTROL).is_some_and(|c| c & aer::control::ECRC_CHECK != 0)
    }

    /// MSI, where it is there and enabled.
    #[must_use]
    pub fn msi(&self) -> Option<MsiConfig> {
        let at = self.capabilities.msi?;
        msi::config([0, 1, 2, 3].map(|i| self.read(at + i)))
    }

    /// Where the MSI-X structures stand.
    #[must_use]
    pub fn msix_layout(&self) -> Option<MsixLayout> {
        self.capabilities.msix.map(|(_, layout)| layout)
    }

    /// MSI-X Message Control; all off where there is none.
    #[must_use]
    pub fn msix(&self) -> MsixControl {
        let control = self.capabilities.msix.map_or(0, |(at, _)| self.read(at));
        MsixControl {
            enabled: control & msix::ENABLE != 0,
            function_mask: control & msix::FUNCTION_MASK != 0,
        }
    }

    /// Transactions Pending of Device Status.
    pub fn set_transactions_pending(&mut self, pending: bool) {
        let Some(at) = self.capabilities.pcie else { return };
        let register = &mut self.registers[usize::from(at + pcie::DEVICE_CONTROL)];
        register.value &= !device_control::TRANSACTIONS_PENDING;
        register.value |= if pending { device_control::TRANSACTIONS_PENDING } else { 0 };
    }

    /// Sets bits of the Status register (`header::status`).
    pub fn set_status(&mut self, bits: u32) {
        self.registers[usize::from(header::COMMAND_STATUS)].value |= bits & status::RW1C;
    }

    /// Logs an error (`PCIe 5.0 §6.2`): Device Status, Advanced Error Reporting with the first error's header, and the
    /// message to send, where reporting is enabled. `advisory` is for errors whose requester learns of them otherwise,
    /// which non-fatal ones turn into correctable ones (`§6.2.3.2.4`).
    pub fn log_error(
        &mut self,
        error: Uncorrectable,
        advisory: bool,
        header: [u32; 4],
    ) -> Option<ErrorMessage> {
        let severity = self.aer_word(aer::SEVERITY).unwrap_or(aer::DEFAULT_SEVERITY);
        let class = match (severity & error.mask() != 0, advisory) {
            (true, _) => ErrorMessage::Fatal,
            (false, false) => ErrorMessage::NonFatal,
            (false, true) => ErrorMessage::Correctable,
        };
        let masked = self.log_advanced(error, class, header);
        self.log_device_status(error, class);
        let sent = !masked && self.reporting_enabled(error, class);
        if sent && class != ErrorMessage::Correctable && self.serr_enable() {
            self.set_status(status::SIGNALED_SYSTEM_ERROR);
        }
        sent.then_some(class)
    }

    fn aer_word(&self, at: u16) -> Option<u32> {
        self.capabilities.aer.map(|start| self.read(start + at))
    }

    fn serr_enable(&self) -> bool {
        self.read(header::COMMAND_STATUS) & command::SERR_ENABLE != 0
    }

    /// Returns true where a mask keeps the error from being reported.
    fn log_advanced(&mut self, error: Uncorrectable, class: ErrorMessage, header: [u32; 4]) -> bool {
        let Some(start) = self.capabilities.aer.map(usize::from) else { return false };
        let at = |word: u16| start + usize::from(word);
        let mut masked = self.registers[at(aer::UNCORRECTABLE_MASK)].value & error.mask() != 0;
        let pointed = self.registers[at(aer::CONTROL)].value & 0x1f;
        let first = self.registers[at(aer::UNCORRECTABLE_STATUS)].value & 1 << pointed == 0;
        if class == ErrorMessage::Correctable {
            self.registers[at(aer::CORRECTABLE_STATUS)].value |= aer::ADVISORY_NON_FATAL;
            masked |= self.registers[at(aer::CORRECTABLE_MASK)].value & aer::ADVISORY_NON_FATAL != 0;
        }
        self.registers[at(aer::UNCORRECTABLE_STATUS)].value |= error.mask();
        if first && !masked {
            self.registers[at(aer::CONTROL)].value &= !0x1f;
            self.registers[at(aer::CONTROL)].value |= error as u32;
            for (register, word) in self.registers[at(aer::HEADER_LOG)..].iter_mut().zip(header) {
                register.value = word;
            }
        }
        masked
    }

    fn log_device_status(&mut self, error: Uncorrectable, class: ErrorMessage) {
        let Some(at) = self.capabilities.pcie else { return };
        let detected = match class {
            ErrorMessage::Correctable => device_control::CORRECTABLE_DETECTED,
            ErrorMessage::NonFatal => device_control::NON_FATAL_DETECTED,
            ErrorMessage::Fatal => device_control::FATAL_DETECTED,
        };
        let unsupported = match error {
            Uncorrectable::UnsupportedRequest => device_control::UNSUPPORTED_DETECTED,
            _ => 0,
        };
        self.registers[usize::from(at + pcie::DEVICE_CONTROL)].value |= detected | unsupported;
    }

    fn reporting_enabled(&self, error: Uncorrectable, class: ErrorMessage) -> bool {
        let control = self.pcie_word(pcie::DEVICE_CONTROL);
        let unsupported = error == Uncorrectable::UnsupportedRequest;
        let quiet = unsupported && control & device_control::UNSUPPORTED_REPORTING == 0;
        match class {
            ErrorMessage::Correctable => !quiet && control & device_control::CORRECTABLE_REPORTING != 0,
            ErrorMessage::NonFatal => {
                !quiet && control & device_control::NON_FATAL_REPORTING != 0 || self.serr_enable()
            }
            ErrorMessage::Fatal => {
                !quiet && control & device_control::FATAL_REPORTING != 0 || self.serr_enable()
            }
        }
    }
}
