// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of a native device: the steps of the lab, in order. The steps do not depend on the kind of device.

use crate::bars::BarSettings;
use host::firmware::FoundFunction;
use host::{Cpu, DriverError};
use plug::{DriverFuture, Fault, Report, Shared};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tlp::Duration;

/// Maximum number of bytes in all buffers.
const MAX_BUFFERS_BYTES: u64 = 1 << 28;
/// 1000 seconds.
const MAX_SLEEP_NS: u64 = 1_000_000_000_000;

/// Action of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Allocates a buffer of `bytes` of host memory called `name`, filled according to `fill`.
    #[default]
    Buffer,
    /// Writes a register with `value`, or with the address of the buffer `of`.
    Write,
    /// Reads a register and expects `value`.
    Expect,
    /// Writes `value`, or the address of the buffer `of`, to the word of `bytes` at `offset` in the buffer `name`.
    Store,
    /// Waits for interrupt `vector`.
    Interrupt,
    /// Expects that the buffer `name` has the bytes of the buffer `of`, each XORed with `value`.
    Compare,
    /// Expects `value` in the word of `bytes` at `offset` in the buffer `name`.
    Memory,
    /// Waits for `value` nanoseconds.
    Sleep,
}

/// Initial contents of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// 0, 1, 2 and so on, modulo 256.
    Count,
}

/// One step of the host program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Action.
    #[serde(rename = "do")]
    pub act: Act,
    /// A buffer.
    pub name: String,
    /// Another buffer.
    pub of: String,
    /// Function: 0 is the physical function, n is virtual function n - 1.
    #[schemars(range(min = 0, max = 256))]
    pub function: u16,
    /// BAR of the register.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// Offset of the register in its BAR, or in the buffer.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub offset: u64,
    /// Size of the register or word, 4 or 8, or of the buffer, in bytes. Default: 4.
    #[schemars(range(min = 1, max = 67_108_864))]
    pub bytes: Option<u64>,
    /// Value to write or expect, or duration in nanoseconds.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub value: u64,
    /// Interrupt vector.
    #[schemars(range(min = 0, max = 2047))]
    pub vector: u16,
    /// Initial contents of the buffer.
    pub fill: Fill,
}

/// Parts of a device that steps can use.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// BARs.
    pub bars: &'a [BarSettings],
    /// Number of interrupt vectors.
    pub vectors: u16,
    /// Number of virtual functions that the host enables.
    pub virtual_functions: u16,
    /// BARs of each virtual function.
    pub virtual_bars: &'a [BarSettings],
    /// Number of interrupt vectors of each virtual function.
    pub virtual_vectors: u16,
}

impl<'a> Parts<'a> {
    /// Returns the parts of a device with one function.
    pub fn one(bars: &'a [BarSettings], vectors: u16) -> Parts<'a> {
        Parts { bars, vectors, virtual_functions: 0, virtual_bars: &[], virtual_vectors: 0 }
    }

    /// Returns BARs and vectors of a function, or `None` if there is no such function.
    fn of(&self, function: u16) -> Option<(&'a [BarSettings], u16)> {
        match function {
            0 => Some((self.bars, self.vectors)),
            n if n <= self.virtual_functions => Some((self.virtual_bars, self.virtual_vectors)),
            _ => None,
        }
    }
}

impl Step {
    fn bytes(&self) -> u64 {
        self.bytes.unwrap_or(4)
    }

    /// Checks the step's keys against its action, the device and `buffers`. A `Buffer` step adds its buffer to this
    /// list.
    fn check(
        &self,
        device: Parts<'_>,
        buffers: &mut BTreeMap<String, u64>,
    ) -> Result<(), (&'static str, String)> {
        self.check_keys()?;
        let bytes = self.bytes();
        let is_word = matches!(self.act, Act::Write | Act::Expect | Act::Store | Act::Memory);
        if is_word && ![4, 8].contains(&bytes) {
            return Err(("bytes", format!("bytes of {bytes}, expected 4 or 8")));
        }
        if is_word && bytes == 4 && self.value > u64::from(u32::MAX) {
            return Err(("value", format!("value of {}, expected a value of 4 bytes", self.value)));
        }
        let Some((bars, vectors)) = device.of(self.function) else {
            let legal = device.virtual_functions;
            return Err(("function", format!("function of {}, expected 0 to {legal}", self.function)));
        };
        if matches!(self.act, Act::Write | Act::Store) && !self.of.is_empty() {
            bytes_of(buffers, "of", &self.of)?;
        }
        match self.act {
            Act::Buffer => self.add_to(buffers),
            Act::Write | Act::Expect => {
                let Some(bar) = bars.iter().find(|bar| bar.bar == self.bar) else {
                    let known: Vec<u8> = bars.iter().map(|bar| bar.bar).collect();
                    return Err(("bar", format!("bar of {}, expected one of {known:?}", self.bar)));
                };
                self.check_offset(&format!("BAR {}", self.bar), bar.size_bytes)
            }
            Act::Interrupt if self.vector >= vectors => Err((
                "vector",
                format!("vector of {}, expected one of the device's {vectors}, counted from 0", self.vector),
            )),
            Act::Store | Act::Memory => {
                self.check_offset("the buffer", bytes_of(buffers, "name", &self.name)?)
            }
            Act::Compare => {
                let (one, other) =
                    (bytes_of(buffers, "name", &self.name)?, bytes_of(buffers, "of", &self.of)?);
                match (one == other, self.value <= 255) {
                    (true, true) => Ok(()),
                    (false, _) => Err(("of", format!("of has {other} B, expected {one} as name has"))),
                    _ => Err(("value", format!("value of {}, expected 0 to 255", self.value))),
                }
            }
            Act::Sleep if self.value > MAX_SLEEP_NS => {
                Err(("value", format!("value of {}, expected 0 to {MAX_SLEEP_NS} ns", self.value)))
            }
            Act::Interrupt | Act::Sleep => Ok(()),
        }
    }

    /// Checks that only keys are set that the step's action uses.
    fn check_keys(&self) -> Result<(), (&'static str, String)> {
        let legal: &[&str] = match self.act {
            Act::Buffer => &["name", "bytes", "fill"],
            Act::Write if !self.of.is_empty() => &["function", "bar", "offset", "bytes", "of"],
            Act::Write => &["function", "bar", "offset", "bytes", "value", "of"],
            Act::Expect => &["function", "bar", "offset", "bytes", "value"],
            Act::Store if !self.of.is_empty() => &["name", "offset", "bytes", "of"],
            Act::Store => &["name", "offset", "bytes", "value", "of"],
            Act::Interrupt => &["function", "vector"],
            Act::Compare => &["name", "of", "value"],
            Act::Memory => &["name", "offset", "bytes", "value"],
            Act::Sleep => &["value"],
        };
        let given = [
            ("name", !self.name.is_empty()),
            ("of", !self.of.is_empty()),
            ("function", self.function != 0),
            ("bar", self.bar != 0),
            ("offset", self.offset != 0),
            ("bytes", self.bytes.is_some()),
            ("value", self.value != 0),
            ("vector", self.vector != 0),
            ("fill", self.fill != Fill::default()),
        ];
        match given.into_iter().find(|(key, is_given)| *is_given && !legal.contains(key)) {
            Some((key, _)) => {
                Err((key, format!("{key} has no effect here, expected only {}", legal.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn add_to(&self, buffers: &mut BTreeMap<String, u64>) -> Result<(), (&'static str, String)> {
        let bytes = self.bytes();
        if self.name.is_empty() || buffers.contains_key(&self.name) {
            return Err((
                "name",
                format!("name of `{}`, expected a name that no other buffer has", self.name),
            ));
        }
        buffers.insert(self.name.clone(), bytes);
        match buffers.values().sum::<u64>() {
            all if all > MAX_BUFFERS_BYTES => {
                Err(("bytes", format!("{all} B in all buffers, expected at most {MAX_BUFFERS_BYTES}")))
            }
            _ => Ok(()),
        }
    }

    fn check_offset(&self, place: &str, size: u64) -> Result<(), (&'static str, String)> {
        match self.offset.checked_add(self.bytes()) {
            Some(end) if end <= size => Ok(()),
            _ => Err((
                "offset",
                format!("{} B at offset {}, but {place} has {size} B", self.bytes(), self.offset),
            )),
        }
    }
}

/// Returns the size of the buffer that `key` refers to.
fn bytes_of(
    buffers: &BTreeMap<String, u64>,
    key: &'static str,
    name: &str,
) -> Result<u64, (&'static str, String)> {
    buffers.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = buffers.keys().map(String::as_str).collect();
        let legal = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        (key, format!("{key} of `{name}`, expected a buffer of an earlier step: {legal}"))
    })
}

/// Checks all steps against each other and the device.
///
/// # Errors
/// The first fault.
pub fn check_steps(steps: &[Step], device: Parts<'_>) -> Result<(), Fault> {
    let mut buffers = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        step.check(device, &mut buffers).map_err(|(key, message)| {
            Fault::at(&format!("step.{n}.{key}"), format!("step {n}: {message}"))
        })?;
    }
    Ok(())
}

/// Address and size of each buffer of the host, by name.
type Buffers = BTreeMap<String, (u64, u64)>;

/// Returns a driver that runs the steps. If the device's report states a failure, the driver fails with it.
pub fn driver<R: Report>(
    steps: &[Step],
    told: &Shared<R>,
) -> impl Fn(Cpu, FoundFunction) -> DriverFuture + use<R> {
    let all = functions_driver(steps, told);
    move |cpu, function| all(cpu, vec![function])
}

/// As [`driver`], for a device with virtual functions that the host enables. The physical function comes first.
pub fn functions_driver<R: Report>(
    steps: &[Step],
    told: &Shared<R>,
) -> impl Fn(Cpu, Vec<FoundFunction>) -> DriverFuture + use<R> {
    let (steps, told) = (steps.to_vec(), told.clone());
    move |cpu, functions| {
        let (steps, told) = (steps.clone(), told.clone());
        Box::pin(async move {
            let ended = run(&cpu, &functions, &steps).await;
            told.get().failure().map_or(ended, |failure| Err(failure.into()))
        })
    }
}

/// Runs the steps.
///
/// # Errors
/// The first step that fails or finds an unexpected value, with its number.
async fn run(cpu: &Cpu, functions: &[FoundFunction], steps: &[Step]) -> Result<(), DriverError> {
    let mut buffers = Buffers::new();
    for (n, step) in steps.iter().enumerate() {
        let function = functions.get(usize::from(step.function));
        let function = function.ok_or_else(|| format!("step {n}: no function {}", step.function))?;
        one(cpu, function, step, &mut buffers).await.map_err(|e| e.at(format_args!("step {n}")))?;
    }
    // The device does not use the buffers any more, or the driver has failed.
    Ok(buffers.values().try_for_each(|(address, _)| cpu.memory().free(*address))?)
}

async fn one(
    cpu: &Cpu,
    function: &FoundFunction,
    step: &Step,
    buffers: &mut Buffers,
) -> Result<(), DriverError> {
    let register = || function.address(step.bar, step.offset);
    let buffer = |name: &str| buffers.get(name).copied().ok_or_else(|| format!("no buffer `{name}`"));
    match step.act {
        Act::Buffer => {
            let bytes = step.bytes();
            let address = cpu.memory().alloc(bytes, 4096)?;
            let content: Vec<u8> = match step.fill {
                Fill::Zero => vec![0; bytes as usize],
                Fill::Count => (0..bytes).map(|n| n as u8).collect(),
            };
            cpu.memory().write(address, &content)?;
            buffers.insert(step.name.clone(), (address, bytes));
            Ok(())
        }
        Act::Store => {
            let value = if step.of.is_empty() { step.value } else { buffer(&step.of)?.0 };
            let (address, bytes) = (buffer(&step.name)?.0 + step.offset, step.bytes().min(8) as usize);
            cpu.memory().write(address, &value.to_le_bytes()[..bytes])?;
            Ok(())
        }
        Act::Write => {
            let value = if step.of.is_empty() { step.value } else { buffer(&step.of)?.0 };
            match step.bytes() {
                8 => cpu.write_u64(register()?, value).await?,
                _ => cpu.write_u32(register()?, value as u32).await?,
            }
            Ok(())
        }
        Act::Expect => {
            let value = match step.bytes() {
                8 => cpu.read_u64(register()?).await?,
                _ => cpu.read_u32(register()?).await?.into(),
            };
            is_same("the register", value, step.value)
        }
        Act::Interrupt => {
            cpu.interrupt(function.vector(step.vector)).await;
            Ok(())
        }
        Act::Compare => {
            let read = |(address, bytes): (u64, u64)| -> Result<Vec<u8>, DriverError> {
                let mut content = vec![0; bytes as usize];
                cpu.memory().read(address, &mut content)?;
                Ok(content)
            };
            let (one, other) = (read(buffer(&step.name)?)?, read(buffer(&step.of)?)?);
            match one.iter().zip(&other).position(|(a, b)| *a != *b ^ step.value as u8) {
                Some(at) => {
                    let (found, expected) = (one[at], other[at] ^ step.value as u8);
                    Err(format!("byte {at} of `{}` is {found:#04x}, expected {expected:#04x}", step.name)
                        .into())
                }
                None => Ok(()),
            }
        }
        Act::Memory => {
            let mut word = [0; 8];
            let (address, bytes) = (buffer(&step.name)?.0 + step.offset, step.bytes().min(8) as usize);
            cpu.memory().read(address, &mut word[..bytes])?;
            is_same("the word", u64::from_le_bytes(word), step.value)
        }
        Act::Sleep => {
            cpu.sleep(Duration::from_ns(step.value)).await;
            Ok(())
        }
    }
}

fn is_same(what: &str, found: u64, expected: u64) -> Result<(), DriverError> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} is {found:#x}, expected {expected:#x}").into()),
    }
}
