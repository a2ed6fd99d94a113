// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of an external host: values at the place, bytes in a record.
//!
//! ```text
//! u8 kind, then for an answered request its u32 id, and
//!   1 memory read       id, u64 address, u32 bytes, u8 locked
//!   2 memory write      u64 address, data
//!   3 deferrable write  id, u64 address, data
//!   4 AtomicOp          id, u64 address, u8 op: 0 FetchAdd, 1 Swap, 2 CAS; data (operands)
//!   5 I/O read          id, u32 address, u32 bytes
//!   6 I/O write         id, u32 address, data
//!   7 message           u16 toward, u8 routing, u8 code, 8 bytes of header, u8 Traffic Class, u8 attributes,
//!                       u8 count of prefixes, each u32; data
//!   8 configuration read   id, u16 function, u16 register (DW)
//!   9 configuration write  id, u16 function, u16 register (DW), u8 byte enables, u32 value
//!  10 message codes to take  256 bits by code
//!  11 map               u64 address, u64 bytes, u8: 0 read-only, 1 writable
//!  12 unmap             u64 address, u64 bytes
//!  13 end of the host   u8: 0 success, 1 failure with its reason: UTF-8
//!  14 reset of everything below
//!  15 map               like 11, after u16 function that owns the address space
//!  16 unmap             like 12, after u16 function
//!  17 grant             u16 function, which has its own address space from now on
//!  18 revoke            u16 function, which no longer has one
//! data: u8 0, u32 number of counted bytes; or u8 1, u32 length, bytes
//! ```
//!
//! Numbers are little endian.

use super::memory::{Backing, Map, MapAccess};
use super::{HostPlace, HostRequestError};
use crate::external::bytes::{Cursor, Put};
use config::space::REGISTERS;
use device::{DmaOptions, OutMessage};
use host::{DriverError, HostOutput, HostReadId};
use plug::place::Input;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::{
    AtomicOp, Attributes, Bdf, Data, MessageRouting, PayloadPool, Prefix, Prefixes, Time, TrafficClass,
};

/// A request of an external host.
pub struct HostRequest(pub(super) HostCommand);

pub(super) enum HostCommand {
    Issue(HostOutput),
    /// In a replay there is no storage of the bytes.
    Map {
        /// The function of the address space; `None` for all functions without a separate one.
        of: Option<Bdf>,
        map: Map,
        backing: Option<Rc<dyn Backing>>,
    },
    Unmap {
        of: Option<Bdf>,
        address: u64,
        bytes: u64,
    },
    End(Result<(), DriverError>),
    Reset,
    Grant(Bdf),
    Revoke(Bdf),
}

const ATOMICS: [AtomicOp; 3] = [AtomicOp::FetchAdd, AtomicOp::Swap, AtomicOp::CompareSwap];

impl HostRequest {
    /// Returns a request of the kind that a program of a simulated host issues.
    ///
    /// # Errors
    /// An external host cannot issue `output`.
    pub fn issue(output: HostOutput) -> Result<HostRequest, HostRequestError> {
        check(&output)?;
        Ok(HostRequest(HostCommand::Issue(output)))
    }

    /// Returns a request that maps memory for DMA; `backing` stores it.
    pub fn map(map: Map, backing: impl Backing + 'static) -> HostRequest {
        HostRequest::map_of(None, map, backing)
    }

    /// Returns a request that unmaps a whole map.
    pub const fn unmap(address: u64, bytes: u64) -> HostRequest {
        HostRequest::unmap_of(None, address, bytes)
    }

    /// Returns a request that maps memory for DMA of `requester`. From then on, the function reaches only memory
    /// mapped in this way, as with an IOMMU.
    pub fn map_of(requester: Option<Bdf>, map: Map, backing: impl Backing + 'static) -> HostRequest {
        HostRequest(HostCommand::Map { of: requester, map, backing: Some(Rc::new(backing)) })
    }

    /// Returns a request that unmaps a whole map of `requester`.
    pub const fn unmap_of(requester: Option<Bdf>, address: u64, bytes: u64) -> HostRequest {
        HostRequest(HostCommand::Unmap { of: requester, address, bytes })
    }

    /// Returns a request after which `requester` reaches only memory that is mapped for it.
    pub const fn grant(requester: Bdf) -> HostRequest {
        HostRequest(HostCommand::Grant(requester))
    }

    /// Returns a request after which `requester` uses the common address space again. Its own maps are removed.
    pub const fn revoke(requester: Bdf) -> HostRequest {
        HostRequest(HostCommand::Revoke(requester))
    }

    /// Returns a request for a fundamental reset of everything below the host, including root ports, as when the
    /// host restarts.
    pub const fn reset() -> HostRequest {
        HostRequest(HostCommand::Reset)
    }

    /// Returns the end of the host, successful or with an error.
    pub const fn end(outcome: Result<(), DriverError>) -> HostRequest {
        HostRequest(HostCommand::End(outcome))
    }

    /// Parses a request from the bytes of a record.
    pub(super) fn parse(bytes: &[u8], pool: &PayloadPool) -> Option<HostRequest> {
        let mut cursor = Cursor::new(bytes);
        let asked = asked(&mut cursor, pool)?;
        (cursor.at == bytes.len()).then_some(HostRequest(asked))
    }
}

/// Checks whether an external host can issue the output.
fn check(output: &HostOutput) -> Result<(), HostRequestError> {
    let (register_dw, byte_enables) = match output {
        HostOutput::ConfigRead { register_dw, byte_enables, .. }
        | HostOutput::ConfigWrite { register_dw, byte_enables, .. } => (*register_dw, *byte_enables),
        HostOutput::Extension(_) => return Err(HostRequestError::Extension),
        _ => return Ok(()),
    };
    match usize::from(register_dw) < REGISTERS && byte_enables <= 0xf {
        true => Ok(()),
        false => Err(HostRequestError::Register { register_dw, byte_enables }),
    }
}

impl Input<HostPlace> for HostRequest {
    fn emit(&self, out: &mut Vec<u8>) {
        match &self.0 {
            HostCommand::Issue(output) => emit_output(out, output),
            HostCommand::Map { of, map, .. } => {
                begin_of(out, [11, 15], *of);
                out.put_u64(map.address);
                out.put_u64(map.bytes);
                out.put_u8((map.access == MapAccess::ReadWrite).into());
            }
            HostCommand::Unmap { of, address, bytes } => {
                begin_of(out, [12, 16], *of);
                out.put_u64(*address);
                out.put_u64(*bytes);
            }
            HostCommand::End(outcome) => {
                out.put_u8(13);
                out.put_u8(outcome.is_err().into());
                if let Err(why) = outcome {
                    out.extend_from_slice(why.to_string().as_bytes());
                }
            }
            HostCommand::Reset => out.put_u8(14),
            HostCommand::Grant(requester) => begin_of(out, [17; 2], Some(*requester)),
            HostCommand::Revoke(requester) => begin_of(out, [18; 2], Some(*requester)),
        }
    }

    fn join(self, place: &HostPlace, _: Time) -> bool {
        place.take(self);
        true
    }
}

fn emit_output(out: &mut Vec<u8>, output: &HostOutput) {
    match output {
        HostOutput::MmioRead { id, address, len, locked } => {
            begin(out, 1, *id);
            out.put_u64(*address);
            out.put_u32(*len);
            out.put_u8((*locked).into());
        }
        HostOutput::MmioWrite { address, data } => {
            out.put_u8(2);
            out.put_u64(*address);
            put_data(out, data);
        }
        HostOutput::WriteDeferrable { id, address, data } => {
            begin(out, 3, *id);
            out.put_u64(*address);
            put_data(out, data);
        }
        HostOutput::Atomic { id, address, op, operands } => {
            begin(out, 4, *id);
            out.put_u64(*address);
            out.put_u8(ATOMICS.iter().position(|o| o == op).unwrap_or_default() as u8);
            put_data(out, operands);
        }
        HostOutput::IoRead { id, address, len } => {
            begin(out, 5, *id);
            out.put_u32(*address);
            out.put_u32(*len);
        }
        HostOutput::IoWrite { id, address, data } => {
            begin(out, 6, *id);
            out.put_u32(*address);
            put_data(out, data);
        }
        HostOutput::Message { toward, message } => emit_message(out, *toward, message),
        HostOutput::ConfigRead { id, function, register_dw, byte_enables } => {
            begin(out, 8, *id);
            out.put_u16(function.bits());
            out.put_u16(*register_dw);
            out.put_u8(*byte_enables);
        }
        HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
            begin(out, 9, *id);
            out.put_u16(function.bits());
            out.put_u16(*register_dw);
            out.put_u8(*byte_enables);
            out.put_u32(*value);
        }
        HostOutput::TakeMessages(codes) => {
            out.put_u8(10);
            let byte =
                |n: u8| (0..8).filter(|bit| codes.contains(n * 8 + bit)).fold(0, |b, bit| b | 1 << bit);
            out.extend((0..32).map(byte));
        }
        // `HostRequest::issue` rejects these.
        _ => {}
    }
}

fn begin(out: &mut Vec<u8>, kind: u8, id: HostReadId) {
    out.put_u8(kind);
    out.put_u32(id.0);
}

/// Writes the kind for a request without or with a function.
fn begin_of(out: &mut Vec<u8>, kinds: [u8; 2], function: Option<Bdf>) {
    out.put_u8(kinds[usize::from(function.is_some())]);
    if let Some(function) = function {
        out.put_u16(function.bits());
    }
}

fn emit_message(out: &mut Vec<u8>, toward: Bdf, message: &OutMessage) {
    let options = &message.options;
    out.put_u8(7);
    out.put_u16(toward.bits());
    out.put_u8(message.routing.bits());
    out.put_u8(message.code);
    out.extend_from_slice(&message.header);
    out.put_u8(options.tc.bits());
    out.put_u8(options.attr.bits());
    out.put_u8(options.prefixes.as_slice().len() as u8);
    options.prefixes.as_slice().iter().for_each(|prefix| out.put_u32(prefix.0));
    put_data(out, &message.data);
}

fn put_data(out: &mut Vec<u8>, data: &Data) {
    out.put_u8(data.bytes().is_some().into());
    match data.bytes() {
        Some(bytes) => out.put_counted(bytes),
        None => out.put_u32(data.len() as u32),
    }
}

fn asked(from: &mut Cursor<'_>, pool: &PayloadPool) -> Option<HostCommand> {
    let kind = from.u8()?;
    let of = if matches!(kind, 15 | 16) { Some(function(from)?) } else { None };
    Some(match kind {
        11 | 15 => {
            let (address, bytes, access) = (from.u64()?, from.u64()?, from.u8()?);
            let access = [MapAccess::Read, MapAccess::ReadWrite].get(usize::from(access)).copied()?;
            HostCommand::Map { of, map: Map { address, bytes, access }, backing: None }
        }
        12 | 16 => HostCommand::Unmap { of, address: from.u64()?, bytes: from.u64()? },
        13 => HostCommand::End(match from.u8()? {
            0 => Ok(()),
            _ => Err(std::str::from_utf8(from.rest()).ok()?.into()),
        }),
        14 => HostCommand::Reset,
        17 => HostCommand::Grant(function(from)?),
        18 => HostCommand::Revoke(function(from)?),
        kind => HostCommand::Issue(output(kind, from, pool).filter(|output| check(output).is_ok())?),
    })
}

fn output(kind: u8, from: &mut Cursor<'_>, pool: &PayloadPool) -> Option<HostOutput> {
    Some(match kind {
        1 => HostOutput::MmioRead {
            id: id(from)?,
            address: from.u64()?,
            len: from.u32()?,
            locked: from.u8()? != 0,
        },
        2 => HostOutput::MmioWrite { address: from.u64()?, data: data(from, pool)? },
        3 => HostOutput::WriteDeferrable { id: id(from)?, address: from.u64()?, data: data(from, pool)? },
        4 => HostOutput::Atomic {
            id: id(from)?,
            address: from.u64()?,
            op: *ATOMICS.get(usize::from(from.u8()?))?,
            operands: data(from, pool)?,
        },
        5 => HostOutput::IoRead { id: id(from)?, address: from.u32()?, len: from.u32()? },
        6 => HostOutput::IoWrite { id: id(from)?, address: from.u32()?, data: data(from, pool)? },
        7 => message(from, pool)?,
        8 => HostOutput::ConfigRead {
            id: id(from)?,
            function: function(from)?,
            register_dw: from.u16()?,
            byte_enables: from.u8()?,
        },
        9 => HostOutput::ConfigWrite {
            id: id(from)?,
            function: function(from)?,
            register_dw: from.u16()?,
            byte_enables: from.u8()?,
            value: from.u32()?,
        },
        10 => {
            let bits = from.array::<32>()?;
            let has = |code: &u8| bits[usize::from(code / 8)] & 1 << (code % 8) != 0;
            HostOutput::TakeMessages(MessageCodes::of(&(0..=255).filter(has).collect::<Vec<u8>>()))
        }
        _ => return None,
    })
}

fn id(from: &mut Cursor<'_>) -> Option<HostReadId> {
    from.u32().map(HostReadId)
}

fn function(from: &mut Cursor<'_>) -> Option<Bdf> {
    from.u16().map(Bdf::from_bits)
}

fn message(from: &mut Cursor<'_>, pool: &PayloadPool) -> Option<HostOutput> {
    let toward = function(from)?;
    let routing = MessageRouting::from_bits(from.u8()?);
    let message = OutMessage::new(routing, from.u8()?).with_header(from.array()?);
    let (tc, attr) = (TrafficClass::from_bits(from.u8()?), Attributes::from_bits_truncate(from.u8()?));
    let count = from.u8()?;
    let prefixes: Option<Vec<Prefix>> = (0..count).map(|_| from.u32().map(Prefix)).collect();
    let options = DmaOptions::tc(tc).with_attr(attr).with_prefixes(Prefixes::new(&prefixes?)?);
    let message = message.with_options(options).with_data(data(from, pool)?);
    Some(HostOutput::Message { toward, message })
}

fn data(from: &mut Cursor<'_>, pool: &PayloadPool) -> Option<Data> {
    match from.u8()? {
        0 => from.u32().map(Data::Counted),
        _ => Some(Data::Carried(pool.copy(from.counted()?))),
    }
}
