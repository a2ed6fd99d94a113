// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes the parts of a VF's registers that belong to its PF (`PCIe 5.0 §9.3.5, §9.3.6`).

use super::aer;
use crate::cap::pcie::{self, device_control};
use crate::register::Register;
use crate::space::Capabilities;

/// Removes the bits that are reserved in a VF's registers:
///
/// - Device Control except Initiate Function Level Reset, Device Control 2, Link Control, Link Status, Link Control 2 and
///   Link Status 2;
/// - masks, severities and enables of Advanced Error Reporting, and the status of errors that are not specific to a function.
pub(crate) fn restrict(registers: &mut [Register], capabilities: &Capabilities) {
    if let Some(start) = capabilities.pcie {
        let mut without = |dw: u16, bits: u32| reserve(registers, start + dw, bits);
        without(pcie::DEVICE_CONTROL, 0xffff & !device_control::INITIATE_FLR);
        without(pcie::LINK_CONTROL, !0);
        without(pcie::DEVICE_CONTROL_2, !0);
        without(pcie::LINK_CONTROL_2, !0);
    }
    if let Some(start) = capabilities.aer {
        for dw in [aer::UNCORRECTABLE_MASK, aer::SEVERITY, aer::CORRECTABLE_MASK] {
            reserve(registers, start + dw, !0);
        }
        let of_link = {
            use aer::Uncorrectable::*;
            [
                DataLinkProtocol,
                FlowControlProtocol,
                ReceiverOverflow,
                MalformedTlp,
                Ecrc,
                UncorrectableInternal,
            ]
        };
        let of_link = of_link.iter().fold(0, |all, error| all | error.mask());
        reserve(registers, start + aer::UNCORRECTABLE_STATUS, of_link);
        let own = aer::Correctable::AdvisoryNonFatal.mask() | aer::Correctable::HeaderLogOverflow.mask();
        reserve(registers, start + aer::CORRECTABLE_STATUS, !own);
        let enables =
            aer::control::ECRC_GENERATION | aer::control::ECRC_CHECK | aer::control::MULTIPLE_HEADERS;
        reserve(registers, start + aer::CONTROL, enables);
    }
}

fn reserve(registers: &mut [Register], dw: u16, bits: u32) {
    if let Some(register) = registers.get_mut(usize::from(dw)) {
        *register = register.without(bits);
    }
}
