// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A BAR backed by memory, and a driver that writes a pattern into it and reads it back.
//!
//! The smallest device, written as a [`Device`] itself: requests come in at [`Device::handle`], completions leave from
//! [`Device::poll_output`]. The device sends no requests.

use crate::{device_id, identity};
use config::{Bar, Builder, PcieLayout, ResizableBar};
use device::{BarIndex, CompletionError, Device, Input, Output, Ready, Request, RequestOp, ResetKind, Token};
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::{Fault, FixedBar, Model, Needs, Plugged, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use tlp::{Class, Data, Payload, PayloadPool, Span, Time};

/// RAM controller (PCI Code and ID Assignment Specification, §1.6).
const CLASS: u32 = 0x05_0000;
/// Size in bytes of a page of the backing memory. Pages are allocated at the first write.
const PAGE_BYTES: u64 = 4096;
/// Smallest BAR of PCI Express in bytes (`PCIe 5.0 §7.5.1.2.1`); offsets after the end of a smaller memory give UR.
const MIN_BAR_BYTES: u64 = 128;
/// Smallest size of Resizable BAR (`PCIe 5.0 §7.8.6.2`).
const SMALLEST_RESIZABLE: u64 = 1 << 20;
/// Maximum number of waiting completions. Above this limit the device does not accept reads, so their credits are not
/// returned.
const MAX_ANSWERS: usize = 64;

/// A BAR backed by memory. Its driver writes a pattern into it and reads it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The BAR, 0 to 5.
    #[serde(skip)]
    pub bar: BarIndex,
    /// Size of the BAR in bytes: a power of two.
    #[schemars(range(min = 16, max = 268_435_456), extend("powerOfTwo" = true))]
    pub size_bytes: u64,
    /// Whether the BAR is 64-bit prefetchable, which may be above 4 GiB. Default: a 32-bit BAR.
    pub prefetchable: bool,
    /// Largest size that software can choose by Resizable BAR, from 1 MiB: a power of two, at least `size_bytes`, which is the
    /// initial size. Such a BAR is prefetchable and has at least 1 MiB.
    #[schemars(range(min = 1_048_576, max = 34_359_738_368_u64), extend("powerOfTwo" = true))]
    pub largest_bytes: Option<u64>,
    /// Address of the BAR: a multiple of its size, in the window of its slot, which `riser check` shows. By default the host chooses.
    pub address: Option<u64>,
    /// Bytes that the driver writes and reads back, at most `size_bytes`. Default: 4096, or all bytes if there are
    /// fewer.
    #[schemars(with = "u32", range(min = 0, max = 268_435_456), extend("default" = 4096))]
    pub exercise_bytes: Option<u32>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (prefetchable, largest_bytes) = (false, None);
        let (address, exercise_bytes) = (None, None);
        Settings { bar: BarIndex(0), size_bytes: 65536, prefetchable, largest_bytes, address, exercise_bytes }
    }
}

impl Model for Settings {
    const NAME: &'static str = "memory";

    fn needs(&self) -> Needs {
        let size_bytes = self.size_bytes.max(MIN_BAR_BYTES);
        let fixed_bar = self.address.map(|address| FixedBar { bar: self.bar.0, address, size_bytes });
        Needs { fixed_bar, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (bar, size) = (self.bar, self.size_bytes);
        let exercised = self.exercise_bytes.unwrap_or(4096.min(size as u32));
        if u64::from(exercised) > size {
            let message = format!("exercise_bytes of {exercised}, expected at most size_bytes, {size}");
            return Err(Fault::at("exercise_bytes", message));
        }
        let function = function(*self, site.pcie)?;
        Ok(Plugged::new(function, move |cpu, found| driver(cpu, found, bar, exercised)))
    }
}

/// Creates a memory and its configuration space for the link `pcie`.
///
/// # Errors
/// If a setting is invalid.
pub fn function(settings: Settings, pcie: PcieLayout) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let Settings { bar, size_bytes, prefetchable, largest_bytes, .. } = settings;
    let least = if largest_bytes.is_some() { SMALLEST_RESIZABLE } else { MIN_BAR_BYTES };
    let bytes = size_bytes.max(least);
    let kind = match prefetchable || largest_bytes.is_some() {
        true => Bar::memory64(bytes).prefetchable(),
        false => Bar::memory32(bytes),
    };
    let mut builder = Builder::type0(identity(device_id::MEMORY, CLASS)).bar(bar, kind).pcie(pcie).usual();
    if let Some(largest) = largest_bytes {
        if largest < size_bytes {
            let message = format!("largest_bytes of {largest}, expected at least size_bytes, {size_bytes}");
            return Err(Fault::at("largest_bytes", message));
        }
        builder = builder.resizable_bars(&[ResizableBar::range(bar.0, SMALLEST_RESIZABLE, largest)]);
    }
    let config = builder.build()?;
    Ok(FunctionConfig { config, device: Box::new(MemoryDevice::new(largest_bytes.unwrap_or(size_bytes))) })
}

/// The device.
pub struct MemoryDevice {
    size: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES as usize]>>,
    pool: PayloadPool,
    /// Bounded by the endpoint's credits.
    waiting: VecDeque<(Token, u64, u32)>,
    /// Bounded by [`MAX_ANSWERS`].
    answers: VecDeque<Output>,
    /// Polled after every input.
    taken: VecDeque<Token>,
}

impl MemoryDevice {
    /// Creates a memory of `size` bytes, all zero.
    pub fn new(size: u64) -> MemoryDevice {
        MemoryDevice {
            size,
            pages: BTreeMap::new(),
            pool: PayloadPool::new(),
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            taken: VecDeque::new(),
        }
    }

    fn request(&mut self, Request { token, op, .. }: Request) {
        match op {
            RequestOp::Read { bar: BarIndex(_), offset, span, .. } => {
                self.waiting.push_back((token, offset, span.byte_count()));
                self.answer();
            }
            RequestOp::Write { offset, span, data, .. } => {
                self.write(offset, span, &data);
                self.taken.push_back(token);
            }
            op if op.is_posted() => self.taken.push_back(token),
            // It has no I/O BAR, and declares no support for deferrable writes and AtomicOps.
            _ => {
                let result = Err(CompletionError::UnsupportedRequest);
                self.taken.push_back(token);
                self.answers.push_back(Output::Complete { token, result });
            }
        }
    }

    /// Takes and completes reads while there is room for completions.
    fn answer(&mut self) {
        while self.answers.len() < MAX_ANSWERS {
            let Some((token, offset, len)) = self.waiting.pop_front() else { return };
            let result = self.read(offset, len).map(Data::Carried);
            self.taken.push_back(token);
            self.answers.push_back(Output::Complete { token, result });
        }
    }

    fn read(&self, offset: u64, len: u32) -> Result<Payload, CompletionError> {
        if offset.checked_add(len.into()).is_none_or(|end| end > self.size) {
            return Err(CompletionError::UnsupportedRequest);
        }
        Ok(self.pool.fill(len as usize, |bytes| {
            for (at, byte) in (offset..).zip(bytes) {
                *byte = self.pages.get(&(at / PAGE_BYTES)).map_or(0, |page| page[(at % PAGE_BYTES) as usize]);
            }
        }))
    }

    /// Writes the enabled bytes within the memory. Counted data has no effect.
    fn write(&mut self, offset: u64, span: Span, data: &Data) {
        let bytes = data.bytes().unwrap_or_default();
        for (index, byte) in bytes.iter().enumerate().filter(|(index, _)| span.is_enabled(*index as u32)) {
            let at = offset.saturating_add(index as u64);
            if at < self.size {
                let page =
                    self.pages.entry(at / PAGE_BYTES).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
                page[(at % PAGE_BYTES) as usize] = *byte;
            }
        }
    }

    /// Drops outstanding requests. Only a Fundamental Reset clears the contents.
    fn reset(&mut self, kind: ResetKind) {
        self.waiting.clear();
        self.answers.clear();
        self.taken.clear();
        if kind == ResetKind::Fundamental {
            self.pages.clear();
        }
    }
}

impl Device for MemoryDevice {
    fn handle(&mut self, _: Time, input: Input) {
        match input {
            Input::Request(request) => self.request(request),
            Input::Reset(kind) => self.reset(kind),
            // It reads no host memory and sets no timer.
            _ => {}
        }
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        if class != Class::Completion {
            return None;
        }
        let output = self.answers.pop_front();
        self.answer();
        output
    }

    fn ready(&self) -> Ready {
        let answers = !self.answers.is_empty() || !self.waiting.is_empty();
        Ready::when(answers, Ready::output(Class::Completion))
            .or(Ready::when(!self.taken.is_empty(), Ready::TAKEN))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Writes `exercise_bytes` bytes of a pattern through MMIO (at most the size of the BAR), reads them back and compares.
///
/// # Errors
/// The byte that is wrong, or the access that failed.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    bar: BarIndex,
    exercise_bytes: u32,
) -> Result<(), DriverError> {
    driver_by_blocks(cpu, function, bar, exercise_bytes, u32::MAX, u32::MAX).await
}

/// As [`driver`], in blocks of `block_bytes`, each read back in reads of `read_bytes`. For a device on a network that
/// loses data when overrun, because each read waits for the earlier writes.
///
/// # Errors
/// As [`driver`].
pub async fn driver_by_blocks(
    cpu: Cpu,
    function: FoundFunction,
    bar: BarIndex,
    exercise_bytes: u32,
    block_bytes: u32,
    read_bytes: u32,
) -> Result<(), DriverError> {
    let base = function.address(bar, 0)?;
    let size = function.bars[usize::from(bar.0)].map_or(0, |b| b.size);
    let len = u64::from(exercise_bytes).min(size) as u32;
    for start in (0..len).step_by(block_bytes.max(1) as usize) {
        let end = start.saturating_add(block_bytes).min(len);
        block(&cpu, base, start..end, read_bytes.max(1)).await.map_err(|e| format!("{function}, {e}"))?;
    }
    Ok(())
}

/// Writes a range of the pattern and reads it back.
async fn block(cpu: &Cpu, base: u64, bytes: Range<u32>, read_bytes: u32) -> Result<(), DriverError> {
    let (address, len) = (base + u64::from(bytes.start), bytes.end - bytes.start);
    let written: Vec<u8> = bytes.clone().map(pattern).collect();
    cpu.write(address, &written).await.map_err(|e| DriverError::from(e).at("write"))?;
    let mut read = Vec::with_capacity(written.len());
    for at in (0..len).step_by(read_bytes as usize) {
        let piece = cpu.read(address + u64::from(at), read_bytes.min(len - at)).await;
        read.extend_from_slice(&piece.map_err(|e| DriverError::from(e).at("read"))?);
    }
    match written.iter().zip(read.iter()).position(|(written, read)| written != read) {
        None => Ok(()),
        Some(at) => {
            let (written, read, offset) = (written[at], read[at], bytes.start as usize + at);
            Err(format!("offset {offset:#x}: wrote {written:#04x}, read {read:#04x}").into())
        }
    }
}

/// Returns byte `index` of the pattern: neighbours, pages and blocks of 256 B all differ.
const fn pattern(index: u32) -> u8 {
    (index ^ index >> 8 ^ index >> 16).wrapping_mul(0x9d).wrapping_add(1) as u8
}
