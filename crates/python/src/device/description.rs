// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of a device in Python, converted to configuration spaces.

use crate::error::{self, RiserError};
use ::capture::registers::MAX_OWN;
use ::capture::{NamedRegister, OwnRegisters};
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout, SriovLayout};
use plug::{Fault, Site};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};
use std::fmt::Display;
use tlp::message::MessageCodes;

/// Attributes of a device.
pub(crate) struct Description {
    identity: Identity,
    bars: Vec<(u8, Bar)>,
    msi_vectors: u8,
    msix: Option<MsixLayout>,
    vfs: u16,
    vf_device: u16,
    vf_bars: Vec<(u8, Bar)>,
    completes_atomics: bool,
    messages: Vec<u8>,
    registers: Registers,
}

impl Description {
    /// Reads the attributes of `device`, an instance of `riser.Device`.
    ///
    /// # Errors
    /// A missing or invalid attribute.
    pub(crate) fn of(device: &Bound<'_, PyAny>) -> PyResult<Description> {
        let vendor = number(device, "vendor_id")?;
        Ok(Description {
            identity: Identity {
                vendor,
                device: number(device, "device_id")?,
                revision: number(device, "revision_id")?,
                class: class_code(device)?,
                subsystem_vendor: number(device, "subsystem_vendor_id")?,
                subsystem: number(device, "subsystem_id")?,
            },
            bars: bars(device, "bars")?,
            msi_vectors: number(device, "msi_vectors")?,
            msix: msix(device)?,
            vfs: number(device, "virtual_functions")?,
            vf_device: number(device, "vf_device_id")?,
            vf_bars: bars(device, "vf_bars")?,
            completes_atomics: number(device, "completes_atomics")?,
            messages: number(device, "messages")?,
            registers: registers(device)?,
        })
    }

    /// Returns the number of its virtual functions.
    pub(crate) fn vfs(&self) -> u16 {
        self.vfs
    }

    /// Returns the Message Codes that the device accepts.
    pub(crate) fn messages(&self) -> MessageCodes {
        MessageCodes::of(&self.messages)
    }

    /// Returns its registers, for captures.
    pub(crate) fn registers(&self) -> OwnRegisters {
        self.registers.named.clone()
    }

    /// Returns a warning if captures do not name all of its registers.
    pub(crate) fn unnamed(&self) -> Option<String> {
        let count = self.registers.count;
        (count > MAX_OWN).then(|| format!("{count} registers: captures name the first {MAX_OWN}"))
    }

    /// Returns the configuration space of the physical function.
    pub(crate) fn physical(&self, site: &Site<'_>) -> Result<ConfigSpace, Fault> {
        let builder = self.bars.iter().fold(Builder::type0(self.identity), |b, (n, bar)| b.bar(*n, *bar));
        let builder = self.interrupts(builder).pcie(self.pcie(site)).usual();
        if self.vfs == 0 {
            return Ok(builder.build()?);
        }
        let layout = SriovLayout::new(self.vfs, self.vf_device);
        let layout = self.vf_bars.iter().fold(layout, |layout, (n, bar)| layout.bar(*n, *bar));
        Ok(builder.alternative_routing(0).single_root_virtualization(layout).build()?)
    }

    /// Returns the configuration space of each virtual function. Its BARs are in the physical function's
    /// SR-IOV capability.
    pub(crate) fn virtual_space(&self, site: &Site<'_>) -> Result<ConfigSpace, Fault> {
        let identity = Identity { device: self.vf_device, ..self.identity };
        let builder = self.interrupts(Builder::virtual_function(identity));
        Ok(builder.pcie(self.pcie(site)).advanced_error_reporting().alternative_routing(0).build()?)
    }

    fn interrupts(&self, builder: Builder) -> Builder {
        let builder = match self.msi_vectors {
            0 => builder,
            vectors => builder.msi(MsiLayout { vectors }),
        };
        match self.msix {
            None => builder,
            Some(layout) => builder.msix(layout),
        }
    }

    fn pcie(&self, site: &Site<'_>) -> PcieLayout {
        let atomics = match self.completes_atomics {
            true => config::AtomicSupport::all(),
            false => site.pcie.atomics,
        };
        PcieLayout { atomics, ..site.pcie }
    }
}

/// Returns the attribute `name`, converted to its type.
fn number<'py, T>(device: &Bound<'py, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let value = device.getattr(name)?;
    value.extract().map_err(|why| named(device, name, &value, error::unfit::<T>(device.py(), &why)))
}

fn class_code(device: &Bound<'_, PyAny>) -> PyResult<u32> {
    match number(device, "class_code")? {
        code @ 0..=0xff_ffff => Ok(code),
        code => Err(RiserError::new_err(format!(
            "{}.class_code = {code:#x}: expected at most 24 bits",
            device.get_type()
        ))),
    }
}

fn named(device: &Bound<'_, PyAny>, name: &str, value: &Bound<'_, PyAny>, why: impl Display) -> PyErr {
    let class = device.get_type();
    RiserError::new_err(format!("{class}.{name} = {value}: {why}"))
}

/// The `riser.Register` instances of a class.
struct Registers {
    named: OwnRegisters,
    count: usize,
}

fn registers(device: &Bound<'_, PyAny>) -> PyResult<Registers> {
    let mut all: Vec<(u8, u64, u64, String)> = Vec::new();
    for register in device.getattr("_registers")?.try_iter()? {
        let register = register?;
        let number = |name: &str| register.getattr(name)?.extract();
        let (bar, name) = (register.getattr("bar")?.extract()?, register.getattr("name")?.extract()?);
        all.push((bar, number("offset")?, number("size")?, name));
    }
    let named = all.iter().map(|(bar, offset, bytes, name)| NamedRegister {
        bar: Some(*bar),
        offset: *offset,
        bytes: *bytes,
        name: name.as_str(),
    });
    Ok(Registers { named: OwnRegisters::new(named), count: all.len() })
}

/// Returns BARs with their numbers.
fn bars(device: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<(u8, Bar)>> {
    let value = device.getattr(name)?;
    let each =
        |(number, bar): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((number.extract::<u8>()?, one_bar(&bar)?));
    let read = || value.cast::<PyDict>()?.iter().map(each).collect::<PyResult<Vec<_>>>();
    read().map_err(|error| named(device, name, &value, error))
}

fn one_bar(bar: &Bound<'_, PyAny>) -> PyResult<Bar> {
    let (size, kind): (u64, String) = (bar.getattr("size")?.extract()?, bar.getattr("kind")?.extract()?);
    let made = match kind.as_str() {
        "memory32" => Bar::memory32(size),
        "memory64" => Bar::memory64(size),
        "io" => Bar::io(size),
        _ => return Err(RiserError::new_err(format!("kind `{kind}`: expected memory32, memory64 or io"))),
    };
    Ok(if bar.getattr("prefetchable")?.extract()? { made.prefetchable() } else { made })
}

fn msix(device: &Bound<'_, PyAny>) -> PyResult<Option<MsixLayout>> {
    let msix = device.getattr("msix")?;
    if msix.is_none() {
        return Ok(None);
    }
    let read = || {
        let bar: u8 = msix.getattr("bar")?.extract()?;
        let (table, pending): (u32, u32) =
            (msix.getattr("table_offset")?.extract()?, msix.getattr("pending_offset")?.extract()?);
        Ok(Some(MsixLayout {
            vectors: msix.getattr("vectors")?.extract()?,
            table: (bar, table),
            pending: (bar, pending),
        }))
    };
    read().map_err(|error: PyErr| named(device, "msix", &msix, error))
}
