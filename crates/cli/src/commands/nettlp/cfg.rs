// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp cfg`: an adapter's configuration space over the network.

use super::bytes::number;
use super::target::AddressArgs;
use crate::commands::words::{Word, one_of};
use crate::{Failure, output};
use clap::Subcommand;
use config::lspci;
use nettlp::client::control::{Config, ConfigPort, ConfigRegister, Messaging};
use serde::Serialize;
use std::net::IpAddr;
use tlp::Bdf;

const EXAMPLE: &str = "\
Examples:
  riser nettlp cfg read 0x00 -r 192.168.10.1
  riser nettlp cfg write 0x04 0x0006 --bytes 2 -r 192.168.10.1
  riser nettlp cfg dump -r 192.168.10.1 | lspci -F /dev/stdin -vv

Replaces pcie_cfg_read and pcie_cfg_write. A write has no answer: read the register to see its effect.";

const EXAMPLE_READ: &str = "\
Example:
  riser nettlp cfg read 0x00 --bytes 2 -r 192.168.10.1

Replaces pcie_cfg_read. --json prints one object: remote, register, length_bytes, value.";

const EXAMPLE_WRITE: &str = "\
Example:
  riser nettlp cfg write 0x04 0x0006 --bytes 2 -r 192.168.10.1

Replaces pcie_cfg_write. A write has no answer: the register is read afterwards and printed. Read-only bits \
keep their value. --json prints one object: remote, register, length_bytes, written, value.";

const EXAMPLE_DUMP: &str = "\
Examples:
  riser nettlp cfg dump -r 192.168.10.1 | lspci -F /dev/stdin -vv
  riser nettlp cfg dump --extended --json -r 127.0.0.1 -l 127.0.0.2

The output is input of lspci -F. riser gets the function number from the driver of the adapter's host; use --bus if no driver answers.
With --json, riser prints one object: remote, function, length_bytes, registers (each DW, from 0 on).";

/// Read and write an adapter's configuration space
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Read a register
    #[command(after_help = EXAMPLE_READ)]
    Read {
        #[command(flatten)]
        register: RegisterArgs,

        #[command(flatten)]
        peer: ConfigPeer,
    },
    /// Write a register
    #[command(after_help = EXAMPLE_WRITE)]
    Write {
        #[command(flatten)]
        register: RegisterArgs,

        /// Value to write, decimal or with 0x
        #[arg(value_parser = number)]
        value: u64,

        #[command(flatten)]
        peer: ConfigPeer,
    },
    /// Print the whole configuration space in the format of lspci -F
    #[command(after_help = EXAMPLE_DUMP)]
    Dump {
        /// Print 4096 bytes instead of 256
        #[arg(long)]
        extended: bool,

        /// ID of the adapter's function [default: ask the driver of the adapter's host]
        #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
        bus: Option<Bdf>,

        #[command(flatten)]
        peer: ConfigPeer,
    },
}

#[derive(clap::Args)]
struct RegisterArgs {
    /// Byte offset of the register, decimal or with 0x
    #[arg(value_parser = number)]
    register: u64,

    /// Size of the register in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4, value_parser = width)]
    bytes: u8,
}

fn width(text: &str) -> Result<u8, String> {
    match text {
        "1" => Ok(1),
        "2" => Ok(2),
        "4" => Ok(4),
        _ => Err("expected 1, 2 or 4".to_owned()),
    }
}

const PORTS: [Word<ConfigPort>; 2] = [
    ("new", "0x5001, adapters from v0.22 on", ConfigPort::New),
    ("old", "0x4001, adapters up to v0.21", ConfigPort::Old),
];

#[derive(clap::Args)]
struct ConfigPeer {
    #[command(flatten)]
    address: AddressArgs,

    /// UDP port of configuration
    #[arg(long, value_parser = one_of(&PORTS), default_value = "new")]
    port: ConfigPort,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RegisterReport {
    remote: IpAddr,
    register: u64,
    length_bytes: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u32>,
    value: u32,
}

#[derive(Serialize)]
struct DumpReport {
    remote: IpAddr,
    function: String,
    length_bytes: usize,
    registers: Vec<u32>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Read { register, peer } => {
            let place = register.place()?;
            let value = place.read(&mut peer.open()?).map_err(Failure::run)?;
            peer.show(&register, None, value)
        }
        What::Write { register, value, peer } => {
            let place = register.place()?;
            let value = u32::try_from(value).ok().filter(|value| *value <= place.max()).ok_or_else(|| {
                Failure::usage(format!("value {value:#x}: expected 0 to {:#x}", place.max()))
            })?;
            let mut config = peer.open()?;
            place.write(&mut config, value).map_err(Failure::run)?;
            let read = place.read(&mut config).map_err(Failure::run)?;
            peer.show(&register, Some(value), read)
        }
        What::Dump { extended, bus, peer } => dump(&peer, if extended { 1024 } else { 64 }, bus),
    }
}

impl RegisterArgs {
    fn place(&self) -> Result<ConfigRegister, Failure> {
        ConfigRegister::new(self.register, self.bytes).map_err(Failure::usage)
    }
}

fn dump(peer: &ConfigPeer, dws: u16, bus: Option<Bdf>) -> Result<(), Failure> {
    let function = match bus {
        Some(bus) => bus,
        None => Messaging::open(peer.address.remote, peer.address.local)
            .and_then(|mut driver| driver.device_id())
            .map_err(|e| Failure::Run(format!("{e}; name the function with --bus")))?,
    };
    let mut config = peer.open()?;
    let registers: Result<Vec<u32>, _> = (0..dws).map(|dw| config.read(dw)).collect();
    let registers = registers.map_err(Failure::run)?;
    if peer.json {
        let (length_bytes, function) = (registers.len() * 4, function.to_string());
        return output::json(&DumpReport { remote: peer.address.remote, function, length_bytes, registers });
    }
    let bytes: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
    output::text(lspci::hexdump(&format!("{function} NetTLP adapter"), &bytes).trim_end())
}

impl ConfigPeer {
    fn open(&self) -> Result<Config, Failure> {
        Config::open(self.address.remote, self.address.local, self.port).map_err(Failure::run)
    }

    fn show(&self, register: &RegisterArgs, written: Option<u32>, value: u32) -> Result<(), Failure> {
        let RegisterArgs { register, bytes } = *register;
        if self.json {
            let remote = self.address.remote;
            return output::json(&RegisterReport { remote, register, length_bytes: bytes, written, value });
        }
        let digits = usize::from(bytes) * 2 + 2;
        output::text(&format!("{value:#0digits$x}"))
    }
}
