// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host does with a device of a library: the steps of the lab, in order. Never knows the device.

use crate::bars::BarSettings;
use host::firmware::FoundFunction;
use host::{Cpu, DriverError};
use plug::{DriverFuture, Fault, Report, Shared};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tlp::Duration;

/// Bytes of all buffers at most.
const MAX_BUFFERS_BYTES: u64 = 1 << 28;
/// A thousand seconds.
const MAX_SLEEP_NS: u64 = 1_000_000_000_000;

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Takes `bytes` of host memory under `name`, filled as `fill` says.
    #[default]
    Buffer,
    /// Writes a register: `value`, or the address of the buffer `of`.
    Write,
    /// Reads a register, which is to hold `value`.
    Expect,
    /// Waits for interrupt `vector`.
    Interrupt,
    /// The buffer `name` is to hold the bytes of the buffer `of`, each exclusive-or `value`.
    Compare,
    /// The word of `bytes` at `offset` of the buffer `name` is to be `value`.
    Memory,
    /// Waits for `value` nanoseconds.
    Sleep,
}

/// What a buffer holds at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// 0, 1, 2 and so on, modulo 256.
    Count,
}

/// A step of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// What it does.
    #[serde(rename = "do")]
    pub act: Act,
    /// A buffer.
    pub name: String,
    /// Another buffer.
    pub of: String,
    /// The function: 0 is the physical one, and n its virtual function n - 1.
    #[schemars(range(min = 0, max = 256))]
    pub function: u16,
    /// The BAR of the register.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// Offset of the register, or in the buffer.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub offset: u64,
    /// Bytes of the register or word, 4 or 8, or of a buffer. Default: 4.
    #[schemars(range(min = 1, max = 67_108_864))]
    pub bytes: Option<u64>,
    /// What is written or expected, or how long.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub value: u64,
    /// The vector.
    #[schemars(range(min = 0, max = 2047))]
    pub vector: u16,
    /// What a buffer holds at first.
    pub fill: Fill,
}

/// What steps may name of a device.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Its BARs.
    pub bars: &'a [BarSettings],
    /// Its interrupt vectors.
    pub vectors: u16,
    /// Virtual functions that the host enables, with their BARs and interrupt vectors.
    pub virtual_functions: u16,
    /// See [`virtual_functions`](Self::virtual_functions).
    pub virtual_bars: &'a [BarSettings],
    /// See [`virtual_functions`](Self::virtual_functions).
    pub virtual_vectors: u16,
}

impl<'a> Parts<'a> {
    /// A device of one function.
    pub fn one(bars: &'a [BarSettings], vectors: u16) -> Parts<'a> {
        Parts { bars, vectors, virtual_functions: 0, virtual_bars: &[], virtual_vectors: 0 }
    }

    /// What a function has; `None` where there is no such.
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

    /// What of the step does not go with what it does, with the device, or with `buffers`, which it may add to.
    fn check(
        &self,
        device: Parts<'_>,
        buffers: &mut BTreeMap<String, u64>,
    ) -> Result<(), (&'static str, String)> {
        self.check_keys()?;
        let bytes = self.bytes();
        let is_word = matches!(self.act, Act::Write | Act::Expect | Act::Memory);
        if is_word && ![4, 8].contains(&bytes) {
            return Err(("bytes", format!("bytes of {bytes}: legal are 4 and 8")));
        }
        if is_word && bytes == 4 && self.value > u64::from(u32::MAX) {
            return Err(("value", format!("value of {}: legal are those of 4 bytes", self.value)));
        }
        let Some((bars, vectors)) = device.of(self.function) else {
            let legal = device.virtual_functions;
            return Err(("function", format!("function of {}: legal are 0 to {legal}", self.function)));
        };
        match self.act {
            Act::Buffer => self.add_to(buffers),
            Act::Write | Act::Expect => {
                if !self.of.is_empty() {
                    bytes_of(buffers, "of", &self.of)?;
                }
                let Some(bar) = bars.iter().find(|bar| bar.bar == self.bar) else {
                    let known: Vec<u8> = bars.iter().map(|bar| bar.bar).collect();
                    return Err(("bar", format!("bar of {}: the device has {known:?}", self.bar)));
                };
                self.check_offset(&format!("BAR {}", self.bar), bar.size_bytes)
            }
            Act::Interrupt if self.vector >= vectors => {
                Err(("vector", format!("vector of {}: the device has {vectors}, from 0 on", self.vector)))
            }
            Act::Memory => self.check_offset("the buffer", bytes_of(buffers, "name", &self.name)?),
            Act::Compare => {
                let (one, other) =
                    (bytes_of(buffers, "name", &self.name)?, bytes_of(buffers, "of", &self.of)?);
                match (one == other, self.value <= 255) {
                    (true, true) => Ok(()),
                    (false, _) => {
                        Err(("of", format!("of has {other} B, name has {one}: legal are equal ones")))
                    }
                    _ => Err(("value", format!("value of {}: legal are 0 to 255", self.value))),
                }
            }
            Act::Sleep if self.value > MAX_SLEEP_NS => {
                Err(("value", format!("value of {}: legal are 0 to {MAX_SLEEP_NS} ns", self.value)))
            }
            Act::Interrupt | Act::Sleep => Ok(()),
        }
    }

    /// Keys that say nothing of what the step does may not be there.
    fn check_keys(&self) -> Result<(), (&'static str, String)> {
        let legal: &[&str] = match self.act {
            Act::Buffer => &["name", "bytes", "fill"],
            Act::Write if !self.of.is_empty() => &["function", "bar", "offset", "bytes", "of"],
            Act::Write => &["function", "bar", "offset", "bytes", "value", "of"],
            Act::Expect => &["function", "bar", "offset", "bytes", "value"],
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
            Some((key, _)) => Err((key, format!("{key} has no effect here: legal are {}", legal.join(", ")))),
            None => Ok(()),
        }
    }

    fn add_to(&self, buffers: &mut BTreeMap<String, u64>) -> Result<(), (&'static str, String)> {
        let bytes = self.bytes();
        if self.name.is_empty() || buffers.contains_key(&self.name) {
            return Err((
                "name",
                format!("name of `{}`: legal are names that no other buffer has", self.name),
            ));
        }
        buffers.insert(self.name.clone(), bytes);
        match buffers.values().sum::<u64>() {
            all if all > MAX_BUFFERS_BYTES => {
                Err(("bytes", format!("{all} B in all buffers: legal are up to {MAX_BUFFERS_BYTES}")))
            }
            _ => Ok(()),
        }
    }

    fn check_offset(&self, place: &str, size: u64) -> Result<(), (&'static str, String)> {
        match self.offset.checked_add(self.bytes()) {
            Some(end) if end <= size => Ok(()),
            _ => {
                Err(("offset", format!("{} B at offset {}: {place} has {size} B", self.bytes(), self.offset)))
            }
        }
    }
}

/// Bytes of the buffer that `key` names.
fn bytes_of(
    buffers: &BTreeMap<String, u64>,
    key: &'static str,
    name: &str,
) -> Result<u64, (&'static str, String)> {
    buffers.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = buffers.keys().map(String::as_str).collect();
        let legal = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        (key, format!("{key} of `{name}`: legal are buffers before it: {legal}"))
    })
}

/// Whether all steps go together, and with the device.
///
/// # Errors
/// The first that does not.
pub fn check_steps(steps: &[Step], device: Parts<'_>) -> Result<(), Fault> {
    let mut buffers = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        step.check(device, &mut buffers).map_err(|(key, message)| {
            Fault::at(&format!("step.{n}.{key}"), format!("step {n}: {message}"))
        })?;
    }
    Ok(())
}

/// A buffer of the host: its address and bytes.
type Buffers = BTreeMap<String, (u64, u64)>;

/// A driver that goes through the steps of a device. What the device has done wrongly, by its report, is why its driver has failed.
pub fn driver<R: Report>(
    steps: &[Step],
    told: &Shared<R>,
) -> impl Fn(Cpu, FoundFunction) -> DriverFuture + use<R> {
    let all = functions_driver(steps, told);
    move |cpu, function| all(cpu, vec![function])
}

/// As [`driver`], for a device whose virtual functions the host enables: the physical function first.
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
/// The first that does not find what it expects, or fails, by its number.
async fn run(cpu: &Cpu, functions: &[FoundFunction], steps: &[Step]) -> Result<(), DriverError> {
    let mut buffers = Buffers::new();
    for (n, step) in steps.iter().enumerate() {
        let function = functions.get(usize::from(step.function));
        let function = function.ok_or_else(|| format!("step {n}: no function {}", step.function))?;
        one(cpu, function, step, &mut buffers).await.map_err(|e| e.at(format_args!("step {n}")))?;
    }
    // What the device does there has ended, or its driver has failed.
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
                Some(at) => Err(format!("byte {at} of `{}` is {:#04x}", step.name, one[at]).into()),
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
        false => Err(format!("{what} is {found:#x}: expected was {expected:#x}").into()),
    }
}
