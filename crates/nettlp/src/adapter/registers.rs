// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The adapter's own registers. Writes change the values that later reads return. A backend may send the host's requests to the
//! address of the peer.

use crate::wire::registers as wire;
use capture::encap::{PORT_DEVICE, PORT_HOST};
use std::net::Ipv4Addr;
use tlp::Bdf;

/// Registers of the adapter (UDP port 0x5002, BAR0). Addresses and ports are writable; magic and requester ID are
/// read-only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// MAC address of the peer.
    pub peer_mac: [u8; 6],
    /// MAC address of the adapter.
    pub adapter_mac: [u8; 6],
    /// Address of the peer; zero over IPv6.
    pub peer_ip: Ipv4Addr,
    /// Address of the adapter; zero over IPv6.
    pub adapter_ip: Ipv4Addr,
    /// First UDP port of the device's requests.
    pub device_port: u16,
    /// First UDP port of the host's requests.
    pub host_port: u16,
    /// Requester ID.
    pub requester: Bdf,
}

impl Registers {
    /// Creates registers with this requester ID and no addresses.
    pub const fn new(requester: Bdf) -> Registers {
        Registers {
            peer_mac: [0; 6],
            adapter_mac: [0; 6],
            peer_ip: Ipv4Addr::UNSPECIFIED,
            adapter_ip: Ipv4Addr::UNSPECIFIED,
            device_port: PORT_DEVICE,
            host_port: PORT_HOST,
            requester,
        }
    }

    /// Returns the register with this DW number; 0 if there is no such register.
    pub fn read(&self, register_dw: u8) -> u32 {
        let mac = |mac: [u8; 6], half: u8| match half {
            0 => u32::from_be_bytes([mac[0], mac[1], mac[2], mac[3]]),
            _ => u32::from_be_bytes([mac[4], mac[5], 0, 0]),
        };
        match register_dw {
            wire::MAGIC => wire::MAGIC_VALUE,
            1 | 2 => mac(self.peer_mac, register_dw - wire::PEER_MAC),
            3 | 4 => mac(self.adapter_mac, register_dw - wire::ADAPTER_MAC),
            wire::PEER_IP => self.peer_ip.to_bits(),
            wire::ADAPTER_IP => self.adapter_ip.to_bits(),
            wire::DEVICE_PORT => u32::from(self.device_port),
            wire::HOST_PORT => u32::from(self.host_port),
            wire::REQUESTER => u32::from(self.requester.bits()),
            _ => 0,
        }
    }

    /// Writes a register. Writes to read-only and unknown registers are ignored.
    pub fn write(&mut self, register_dw: u8, value: u32) {
        let mac = |mac: &mut [u8; 6], half: u8| match half {
            0 => mac[..4].copy_from_slice(&value.to_be_bytes()),
            _ => mac[4..].copy_from_slice(&value.to_be_bytes()[..2]),
        };
        match register_dw {
            1 | 2 => mac(&mut self.peer_mac, register_dw - wire::PEER_MAC),
            3 | 4 => mac(&mut self.adapter_mac, register_dw - wire::ADAPTER_MAC),
            wire::PEER_IP => self.peer_ip = Ipv4Addr::from_bits(value),
            wire::ADAPTER_IP => self.adapter_ip = Ipv4Addr::from_bits(value),
            wire::DEVICE_PORT => self.device_port = value as u16,
            wire::HOST_PORT => self.host_port = value as u16,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_registers_read_back_what_was_written() {
        let mut registers = Registers::new(Bdf::from_bits(0x1a00));
        for (dw, before, written, after) in [
            (0x00, 0x0123_4567, 0xffff_ffff, 0x0123_4567),
            (0x01, 0, 0x0200_5e00, 0x0200_5e00),
            (0x02, 0, 0x0001_ffff, 0x0001_0000),
            (0x03, 0, 0x1122_3344, 0x1122_3344),
            (0x04, 0, 0x5566_0000, 0x5566_0000),
            (0x05, 0, 0xc0a8_0a01, 0xc0a8_0a01),
            (0x06, 0, 0xc0a8_0a03, 0xc0a8_0a03),
            (0x07, 0x3000, 0x3100, 0x3100),
            (0x08, 0x4000, 0x1_4100, 0x4100),
            (0x10, 0x1a00, 0, 0x1a00),
            (0x11, 0, 5, 0),
        ] {
            assert_eq!(registers.read(dw), before, "DW {dw:#x}");
            registers.write(dw, written);
            assert_eq!(registers.read(dw), after, "DW {dw:#x}");
        }
        assert_eq!(registers.peer_mac, [0x02, 0, 0x5e, 0, 0, 1]);
        assert_eq!(registers.adapter_ip, Ipv4Addr::new(192, 168, 10, 3));
    }
}
