// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration spaces below a host, as the kernel has set them up. They are read through the root complex.

use config::header;
use config::lspci;
use config::space::REGISTERS;
use host::{HostInput, HostOutput, HostReadId};
use session::external::host::{HostPlace, HostRequest};
use session::external::{Driver, Handle};
use tlp::Bdf;

/// ID of the only request in progress. IDs of a machine's requests count from 0.
const ID: HostReadId = HostReadId(u32::MAX);
/// Number of drains after which an unanswered read is given up.
const MAX_DRAINS: u32 = 1000;

/// The domain that the kernel gives to the first VMD. Here, other machines have the next domains.
const DOMAIN: u32 = 0x10000;
/// Buses of a domain.
const BUSES: u16 = 256;

/// Returns the configuration spaces below the machines at `places` (`host root`, `host NAME`), as `lspci -F` reads them.
pub fn hexdump(lab: &mut Driver, places: &[String]) -> String {
    let mut text = String::new();
    for (domain, place) in (DOMAIN..).zip(places) {
        let Some(handle) = lab.handle_named::<HostPlace>(place) else { continue };
        let dump = |(function, space): &(Bdf, Vec<u8>)| {
            lspci::hexdump(&format!("{domain:x}:{function} riser"), space)
        };
        text.extend(config_spaces(lab, &handle, BUSES).iter().map(dump));
    }
    text
}

/// Returns the functions on the first `buses` buses of a host, each with the bytes of its configuration space. No machine may use the host
/// during the call.
fn config_spaces(lab: &mut Driver, handle: &Handle<HostPlace>, buses: u16) -> Vec<(Bdf, Vec<u8>)> {
    let all = (0..buses.min(256)).flat_map(|bus| (0..256).map(move |rest| Bdf::from_bits(bus << 8 | rest)));
    let mut found = Vec::new();
    for function in all {
        if !is_there(lab, handle, function) {
            continue;
        }
        let registers =
            (0..REGISTERS as u16).map(|register| read(lab, handle, function, register).unwrap_or(u32::MAX));
        found.push((function, registers.flat_map(u32::to_le_bytes).collect()));
    }
    found
}

/// Returns whether the function exists. The IDs of a virtual function read as all ones, but not its header type (`PCIe
/// 5.0 §9.3.4.1`). Reads of an absent function are refused.
fn is_there(lab: &mut Driver, handle: &Handle<HostPlace>, function: Bdf) -> bool {
    let id = read(lab, handle, function, header::ID);
    id.is_some_and(|id| id as u16 != u16::MAX)
        || id.is_some() && read(lab, handle, function, header::MISC).is_some_and(|misc| misc != u32::MAX)
}

/// Reads a register. Returns `None` if the read was refused or not answered.
fn read(lab: &mut Driver, handle: &Handle<HostPlace>, function: Bdf, register_dw: u16) -> Option<u32> {
    let request =
        HostRequest::issue(HostOutput::ConfigRead { id: ID, function, register_dw, byte_enables: 0xf })
            .ok()?;
    lab.inject(lab.now(), handle, request);
    for _ in 0..MAX_DRAINS {
        lab.drain(lab.now(), |_| {});
        while let Some((_, input)) = handle.place.poll_input() {
            if let HostInput::Done { id: ID, result } = input {
                return Some(u32::from_le_bytes(result.ok()?.bytes()?.try_into().ok()?));
            }
        }
    }
    None
}
