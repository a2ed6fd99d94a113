// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host does with a device of a library: the steps of the lab, in order. Never knows the device.

use host::firmware::FoundFunction;
use host::{Cpu, HostError};
use plug::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tlp::Duration;

/// Bytes of a buffer at most.
const MAX_BUFFER_BYTES: u64 = 1 << 26;

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

impl Step {
    fn bytes(&self) -> u64 {
        self.bytes.unwrap_or(4)
    }

    /// Checks the keys of the step against what it does and against the `buffers` before it, to which it may add one.
    fn check(&self, bars: &[u8], buffers: &mut BTreeMap<String, u64>) -> Result<(), (&'static str, String)> {
        let (bytes, offset) = (self.bytes(), self.offset);
        let bytes_of = |key: &'static str, name: &str| {
            let known: Vec<&str> = buffers.keys().map(String::as_str).collect();
            let legal =
                || (key, format!("{key} of `{name}`: legal are buffers before it: {}", known.join(", ")));
            buffers.get(name).copied().ok_or_else(legal)
        };
        let is_word = matches!(self.act, Act::Write | Act::Expect | Act::Memory);
        if is_word && ![4, 8].contains(&bytes) {
            return Err(("bytes", format!("bytes of {bytes}: legal are 4 and 8")));
        }
        if is_word && bytes == 4 && self.of.is_empty() && self.value > u64::from(u32::MAX) {
            return Err(("value", format!("value of {}: legal are those of 4 bytes", self.value)));
        }
        match self.act {
            Act::Buffer if self.name.is_empty() || buffers.contains_key(&self.name) => {
                Err(("name", format!("name of `{}`: legal are names that no other buffer has", self.name)))
            }
            Act::Buffer if bytes > MAX_BUFFER_BYTES => {
                Err(("bytes", format!("bytes of {bytes}: legal are 1 to {MAX_BUFFER_BYTES}")))
            }
            Act::Buffer => {
                buffers.insert(self.name.clone(), bytes);
                Ok(())
            }
            Act::Write | Act::Expect if !bars.contains(&self.bar) => {
                Err(("bar", format!("bar of {}: the device has {bars:?}", self.bar)))
            }
            Act::Write if !self.of.is_empty() => bytes_of("of", &self.of).map(drop),
            Act::Memory => match bytes_of("name", &self.name)? {
                all if offset.checked_add(bytes).is_some_and(|end| end <= all) => Ok(()),
                all => Err(("offset", format!("offset of {offset}: the buffer has {all} B"))),
            },
            Act::Compare => {
                let (one, other) = (bytes_of("name", &self.name)?, bytes_of("of", &self.of)?);
                match (one == other, self.value <= 255) {
                    (true, true) => Ok(()),
                    (false, _) => {
                        Err(("of", format!("of has {other} B, name has {one}: legal are equal ones")))
                    }
                    _ => Err(("value", format!("value of {}: legal are 0 to 255", self.value))),
                }
            }
            Act::Write | Act::Expect | Act::Interrupt | Act::Sleep => Ok(()),
        }
    }
}

/// Checks all steps against each other and against the BARs of the device.
///
/// # Errors
/// The first that does not.
pub(crate) fn check(steps: &[Step], bars: &[u8]) -> Result<(), Fault> {
    let mut buffers = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        step.check(bars, &mut buffers).map_err(|(key, message)| {
            Fault::at(&format!("step.{n}.{key}"), format!("step {n}: {message}"))
        })?;
    }
    Ok(())
}

/// A buffer of the host: its address and bytes.
type Buffers = BTreeMap<String, (u64, u64)>;

/// Runs the steps.
///
/// # Errors
/// The first that does not find what it expects, or fails, by its number.
pub(crate) async fn run(cpu: &Cpu, function: &FoundFunction, steps: &[Step]) -> Result<(), String> {
    let mut buffers = Buffers::new();
    for (n, step) in steps.iter().enumerate() {
        one(cpu, function, step, &mut buffers).await.map_err(|why| format!("{function}, step {n}: {why}"))?;
    }
    // What the device does there has ended, or its driver has failed.
    buffers.values().try_for_each(|(address, _)| cpu.memory().free(*address)).map_err(|e| e.to_string())
}

async fn one(cpu: &Cpu, function: &FoundFunction, step: &Step, buffers: &mut Buffers) -> Result<(), String> {
    let said = |e: HostError| e.to_string();
    let register = || function.address(step.bar, step.offset);
    let buffer = |name: &str| buffers.get(name).copied().ok_or_else(|| format!("no buffer `{name}`"));
    match step.act {
        Act::Buffer => {
            let bytes = step.bytes();
            let address = cpu.memory().alloc(bytes, 4096).map_err(|e| e.to_string())?;
            let content: Vec<u8> = match step.fill {
                Fill::Zero => vec![0; bytes as usize],
                Fill::Count => (0..bytes).map(|n| n as u8).collect(),
            };
            cpu.memory().write(address, &content).map_err(|e| e.to_string())?;
            buffers.insert(step.name.clone(), (address, bytes));
            Ok(())
        }
        Act::Write => {
            let value = if step.of.is_empty() { step.value } else { buffer(&step.of)?.0 };
            match step.bytes() {
                8 => cpu.write_u64(register()?, value).await.map_err(said),
                _ => cpu.write_u32(register()?, value as u32).await.map_err(said),
            }
        }
        Act::Expect => {
            let value = match step.bytes() {
                8 => cpu.read_u64(register()?).await.map_err(said)?,
                _ => cpu.read_u32(register()?).await.map_err(said)?.into(),
            };
            is_same("the register", value, step.value)
        }
        Act::Interrupt => {
            cpu.interrupt(function.vector(step.vector)).await;
            Ok(())
        }
        Act::Compare => {
            let read = |(address, bytes): (u64, u64)| {
                let mut content = vec![0; bytes as usize];
                cpu.memory().read(address, &mut content).map(|()| content).map_err(|e| e.to_string())
            };
            let (one, other) = (read(buffer(&step.name)?)?, read(buffer(&step.of)?)?);
            match one.iter().zip(&other).position(|(a, b)| *a != *b ^ step.value as u8) {
                Some(at) => Err(format!("byte {at} of `{}` is {:#04x}", step.name, one[at])),
                None => Ok(()),
            }
        }
        Act::Memory => {
            let mut word = [0; 8];
            let (address, bytes) = (buffer(&step.name)?.0 + step.offset, step.bytes().min(8) as usize);
            cpu.memory().read(address, &mut word[..bytes]).map_err(|e| e.to_string())?;
            is_same("the word", u64::from_le_bytes(word), step.value)
        }
        Act::Sleep => {
            cpu.sleep(Duration::from_ns(step.value)).await;
            Ok(())
        }
    }
}

fn is_same(what: &str, found: u64, expected: u64) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} is {found:#x}: expected was {expected:#x}")),
    }
}
