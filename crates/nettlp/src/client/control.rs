// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messaging with the driver of an adapter's host, and the adapter's configuration space: LibTLP's `nettlp_msg_get_*` and
//! `nettlp_pcie_cfg_*`. Every call blocks for a bounded time, and never accepts an answer to an earlier request.

use crate::device_host::DeviceLocation;
use crate::net::{AskOptions, AskSocket, OpenError};
use crate::wire::config::ConfigMessage;
use crate::wire::messaging::{MSIX_ENTRIES, MsixEntry, Question, Reply, Request};
use capture::encap::{PORT_CONFIG, PORT_CONFIG_OLD, PORT_MESSAGING};
use std::io;
use std::net::IpAddr;
use thiserror::Error;
use tlp::{Access, Bdf, Duration};

/// Timeout of the driver's answer, as in LibTLP.
pub const MESSAGING_TIMEOUT: Duration = Duration::from_ms(500);
/// Timeout of the adapter's answer, as in LibTLP.
pub const CONFIG_TIMEOUT: Duration = Duration::from_ms(1000);
/// Number of attempts per request. LibTLP makes one.
pub const ATTEMPTS: u32 = 3;
/// Size of a configuration space in DW.
pub const CONFIG_DWS: u16 = 1024;

/// Reason why a request failed.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No answer arrived.
    #[error("{peer} does not answer {what} on UDP port {port:#06x}: {}", reason(.source))]
    NoAnswer {
        /// Address of the peer.
        peer: IpAddr,
        /// Subject of the request.
        what: &'static str,
        /// UDP port.
        port: u16,
        /// How the wait ended.
        source: io::Error,
    },
    /// The adapter answers requests about its physical function, but not about a virtual function.
    #[error("the adapter at {peer} has no virtual function {number}, or its host has not enabled it")]
    NoVirtualFunction {
        /// Address of the peer.
        peer: IpAddr,
        /// Number of the virtual function, from 1.
        number: u16,
    },
    /// The register is outside the configuration space.
    #[error("configuration register DW {0}; expected 0 to 1023")]
    Register(u16),
    /// A register at this offset, of this size in bytes, crosses a DW or is outside the configuration space.
    #[error(
        "register {0:#x} of {1} bytes; expected a multiple of --bytes within the 4096 bytes of a configuration space"
    )]
    Unaligned(u64, u8),
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "no program listens there (connection refused)".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time, or this peer is not allowed".to_owned(),
        _ => error.to_string(),
    }
}

/// Client for the driver of an adapter's host.
#[derive(Debug)]
pub struct Messaging {
    remote: IpAddr,
    socket: AskSocket,
}

impl Messaging {
    /// Opens a socket. Sends nothing yet.
    ///
    /// # Errors
    /// If an address does not belong to this host, or there is no route.
    pub fn open(remote: IpAddr, local: Option<IpAddr>) -> Result<Messaging, ControlError> {
        let (port, same_port) = (PORT_MESSAGING, false);
        let options =
            AskOptions { remote, local, port, same_port, timeout: MESSAGING_TIMEOUT, attempts: ATTEMPTS };
        Ok(Messaging { remote, socket: AskSocket::open(options)? })
    }

    /// Returns the start address of BAR4.
    ///
    /// # Errors
    /// If no answer arrives.
    pub fn bar4_start(&mut self) -> Result<u64, ControlError> {
        self.bar4_of(0)
    }

    /// Returns the adapter's bus, device and function: the Requester ID of its DMA.
    ///
    /// # Errors
    /// If no answer arrives.
    pub fn device_id(&mut self) -> Result<Bdf, ControlError> {
        self.id_of(0)
    }

    /// Returns the MSI-X table.
    ///
    /// # Errors
    /// If no answer arrives.
    pub fn msix_table(&mut self) -> Result<[MsixEntry; MSIX_ENTRIES], ControlError> {
        self.table_of(0)
    }

    /// Returns the place of a function: 0 for the adapter's physical function, n for its n-th virtual function.
    ///
    /// # Errors
    /// If no answer arrives, for example because the adapter has no such function.
    pub fn place(&mut self, function: u16) -> Result<DeviceLocation, ControlError> {
        let (id, address) = (self.id_of(function)?, self.bar4_of(function)?);
        Ok(DeviceLocation { id, address, vectors: self.table_of(function)? })
    }

    fn bar4_of(&mut self, function: u16) -> Result<u64, ControlError> {
        self.ask(Request::Bar4Start, function, "a request for the address of BAR4", |reply| match reply {
            Reply::Bar4Start(address) => Some(address),
            _ => None,
        })
    }

    fn id_of(&mut self, function: u16) -> Result<Bdf, ControlError> {
        self.ask(Request::DeviceId, function, "a request for its device id", |reply| match reply {
            Reply::DeviceId(id) => Some(id),
            _ => None,
        })
    }

    fn table_of(&mut self, function: u16) -> Result<[MsixEntry; MSIX_ENTRIES], ControlError> {
        self.ask(Request::MsixTable, function, "a request for its MSI-X table", |reply| match reply {
            Reply::MsixTable(table) => Some(table),
            _ => None,
        })
    }

    // The replies to different requests differ in length, so they cannot be confused.
    fn ask<T>(
        &mut self,
        request: Request,
        function: u16,
        what: &'static str,
        choose: impl Fn(Reply) -> Option<T>,
    ) -> Result<T, ControlError> {
        let question = Question { request, function }.emit();
        let asked = self.socket.ask(&question, |bytes| Reply::parse(request, bytes).ok().and_then(&choose));
        asked.map_err(no_answer(self.remote, PORT_MESSAGING, what))
    }
}

/// UDP port of configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConfigPort {
    /// 0x5001: adapters since v0.22, and adapters of riser.
    #[default]
    New,
    /// 0x4001: adapters up to v0.21.
    Old,
}

impl ConfigPort {
    /// Returns the UDP port.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            ConfigPort::New => PORT_CONFIG,
            ConfigPort::Old => PORT_CONFIG_OLD,
        }
    }
}

/// Client for an adapter's configuration space. Reads and writes one DW at a time.
#[derive(Debug)]
pub struct Config {
    remote: IpAddr,
    port: u16,
    socket: AskSocket,
}

impl Config {
    /// Opens a socket. Sends nothing yet.
    ///
    /// # Errors
    /// If an address does not belong to this host, or there is no route.
    pub fn open(remote: IpAddr, local: Option<IpAddr>, port: ConfigPort) -> Result<Config, ControlError> {
        let port = port.number();
        let (same_port, timeout, attempts) = (true, CONFIG_TIMEOUT, ATTEMPTS);
        let socket = AskSocket::open(AskOptions { remote, local, port, same_port, timeout, attempts })?;
        Ok(Config { remote, port, socket })
    }

    /// Reads register `register_dw`, 0 to 1023.
    ///
    /// # Errors
    /// If no answer arrives, or there is no such register.
    pub fn read(&mut self, register_dw: u16) -> Result<u32, ControlError> {
        let question = ConfigMessage::read(legal(register_dw)?);
        // An answer names its register, so answers to earlier requests are ignored.
        let matches = |reply: &ConfigMessage| {
            reply.command == Access::Read && reply.register_dw == question.register_dw
        };
        let asked = self.socket.ask(&question.emit(), |bytes| {
            ConfigMessage::parse_reply(bytes).ok().filter(matches).map(|reply| reply.data)
        });
        asked.map_err(no_answer(self.remote, self.port, "a read of its configuration space"))
    }

    /// Writes the bytes of `byte_enables` (bits 3:0, bit 0 the lowest byte) of register `register_dw`. A write has no
    /// answer. Only a later read shows whether the write arrived.
    ///
    /// # Errors
    /// If the datagram could not be sent, or there is no such register.
    pub fn write(&mut self, register_dw: u16, byte_enables: u8, value: u32) -> Result<(), ControlError> {
        let message = ConfigMessage::write(legal(register_dw)?, byte_enables, value);
        let told = self.socket.tell(&message.emit());
        told.map_err(no_answer(self.remote, self.port, "a write to its configuration space"))
    }
}

/// A register of 1, 2 or 4 bytes within a DW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigRegister {
    dw: u16,
    shift: u32,
    byte_enables: u8,
    mask: u32,
}

impl ConfigRegister {
    /// The register of `bytes` bytes (1, 2 or 4) at `offset`.
    ///
    /// # Errors
    /// If it crosses a DW, or is outside the configuration space.
    pub fn new(offset: u64, bytes: u8) -> Result<ConfigRegister, ControlError> {
        let size = u64::from(bytes);
        if !matches!(bytes, 1 | 2 | 4) || !offset.is_multiple_of(size) || offset > 4096 - size {
            return Err(ControlError::Unaligned(offset, bytes));
        }
        let lanes = (1u8 << bytes) - 1;
        Ok(ConfigRegister {
            dw: (offset / 4) as u16,
            shift: (offset % 4) as u32 * 8,
            byte_enables: lanes << (offset % 4),
            mask: u32::MAX >> (32 - 8 * u32::from(bytes)),
        })
    }

    /// Returns the largest value of the register.
    pub const fn max(&self) -> u32 {
        self.mask
    }

    /// Reads the register.
    ///
    /// # Errors
    /// Those of [`Config::read`].
    pub fn read(&self, config: &mut Config) -> Result<u32, ControlError> {
        Ok(config.read(self.dw)? >> self.shift & self.mask)
    }

    /// Writes `value`, at most [`max`](Self::max).
    ///
    /// # Errors
    /// Those of [`Config::write`].
    pub fn write(&self, config: &mut Config, value: u32) -> Result<(), ControlError> {
        config.write(self.dw, self.byte_enables, value << self.shift)
    }
}

fn no_answer(peer: IpAddr, port: u16, what: &'static str) -> impl FnOnce(io::Error) -> ControlError {
    move |source| ControlError::NoAnswer { peer, what, port, source }
}

const fn legal(register_dw: u16) -> Result<u16, ControlError> {
    if register_dw < CONFIG_DWS { Ok(register_dw) } else { Err(ControlError::Register(register_dw)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_is_within_a_dw_of_the_configuration_space() {
        for (offset, bytes, expected) in [
            (0, 4, Some((0, 0, 0b1111, u32::MAX))),
            (6, 2, Some((1, 16, 0b1100, 0xffff))),
            (0x0b, 1, Some((2, 24, 0b1000, 0xff))),
            (4092, 4, Some((1023, 0, 0b1111, u32::MAX))),
            (4095, 1, Some((1023, 24, 0b1000, 0xff))),
            (2, 4, None),
            (3, 2, None),
            (4096, 1, None),
            (u64::MAX, 1, None),
            (0, 3, None),
            (0, 0, None),
        ] {
            let register = ConfigRegister::new(offset, bytes);
            let found = register.as_ref().ok().map(|r| (r.dw, r.shift, r.byte_enables, r.mask));
            assert_eq!(found, expected, "{offset:#x} of {bytes} bytes");
            if let Err(error) = register {
                assert!(error.to_string().starts_with(&format!("register {offset:#x} of {bytes} bytes; ")));
            }
        }
    }
}
