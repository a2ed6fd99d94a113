// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device of the tutorial (docs/tutorial.md): it copies host memory, and adds up the bytes that it copies.
//!
//! ```console
//! $ cargo run --example first_device -- out/first_device.pcapng
//! ```
//!
//! Its driver measures it twice: once as it is first written, once with many pieces under way.

use config::{Bar, Builder, Identity, MsiLayout};
use device::io::{RegisterFile, Request};
use device::{AsyncDevice, BarIndex, DmaError, Io};
use fabric::{Limits, Stop};
use host::Cpu;
use host::firmware::FoundFunction;
use riser_lab::{Assembly, CaptureOptions, OneSlot};
use std::cell::RefCell;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::rc::Rc;
use tlp::Duration;

// Registers on BAR 0, little-endian.
const BAR: BarIndex = BarIndex(0);
const SOURCE: u64 = 0; // u64: where in host memory to copy from
const DESTINATION: u64 = 8; // u64: where to
const LENGTH: u64 = 16; // u32: how many bytes
const DOORBELL: u64 = 20; // u32: any write starts a copy
const CHECKSUM: u64 = 24; // u32: sum of the bytes of the last copy
const STATUS: u64 = 28; // u32: 0 where the last copy went well, else 1

/// The interrupt vector that says that a copy has ended.
const DONE: u16 = 0;

type Registers = Rc<RefCell<RegisterFile>>;

async fn copier(io: Io, piece: u32) {
    let registers: Registers = Rc::new(RefCell::new(RegisterFile::new(32)));
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(write) if write.at(BAR, DOORBELL) => {
                io.spawn(serve(io.clone(), registers.clone(), piece));
            }
            Request::Write(write) => {
                registers.borrow_mut().write(&write);
            }
            Request::Read(read) => {
                let registers = registers.borrow();
                let answer = registers.read(&read);
                read.complete(answer);
            }
            _ => {}
        }
    }
}

async fn serve(io: Io, registers: Registers, piece: u32) {
    let (source, destination, length) = {
        let registers = registers.borrow();
        (registers.u64(SOURCE), registers.u64(DESTINATION), registers.u32(LENGTH))
    };
    let result = copy(&io, source, destination, length, piece).await;
    registers.borrow_mut().set_u32(CHECKSUM, result.unwrap_or(0));
    registers.borrow_mut().set_u32(STATUS, u32::from(result.is_err()));
    let _ = io.interrupt(DONE).await;
}

async fn copy(io: &Io, source: u64, destination: u64, length: u32, piece: u32) -> Result<u32, DmaError> {
    let mut pieces = Vec::new();
    for at in (0..length).step_by(piece as usize) {
        let (from, to) = (source + u64::from(at), destination + u64::from(at));
        pieces.push(io.spawn(copy_piece(io.clone(), from, to, piece.min(length - at))));
    }
    let mut sum = 0u32;
    for piece in pieces {
        // The outer error is that of a task that was never started: too many at once.
        sum = sum.wrapping_add(piece.await.map_err(|_| DmaError::TooLong)??);
    }
    Ok(sum)
}

async fn copy_piece(io: Io, from: u64, to: u64, length: u32) -> Result<u32, DmaError> {
    let bytes = io.dma_read(from, length).await?;
    let sum = bytes.iter().map(|byte| u32::from(*byte)).sum();
    io.dma_write(to, bytes).await?;
    Ok(sum)
}

/// The sizes that the driver tries, in bytes.
const SIZES: [u32; 5] = [64, 512, 4096, 16384, 65536];

/// How long a copy of each size took, from the doorbell to the interrupt.
type Times = Rc<RefCell<Vec<Duration>>>;

async fn driver(cpu: Cpu, function: FoundFunction, times: Times) -> Result<(), Box<dyn Error>> {
    let register = |offset| function.address(BAR, offset);
    let source = cpu.memory().alloc(65536, 4096)?;
    let destination = cpu.memory().alloc(65536, 4096)?;
    let pattern: Vec<u8> = (0..65536).map(|n: u32| (n * 7 + 1) as u8).collect();
    cpu.memory().write(source, &pattern)?;
    cpu.write_u64(register(SOURCE)?, source).await?;
    cpu.write_u64(register(DESTINATION)?, destination).await?;
    for length in SIZES {
        cpu.write_u32(register(LENGTH)?, length).await?;
        let rang = cpu.now();
        cpu.write_u32(register(DOORBELL)?, 1).await?;
        cpu.interrupt(function.vector(DONE)).await;
        times.borrow_mut().push(cpu.now().since(rang));

        let mut copied = vec![0; length as usize];
        cpu.memory().read(destination, &mut copied)?;
        let sum: u32 = copied.iter().map(|byte| u32::from(*byte)).sum();
        let failed = cpu.read_u32(register(STATUS)?).await? != 0;
        if failed || cpu.read_u32(register(CHECKSUM)?).await? != sum || copied != pattern[..length as usize] {
            return Err(format!("a copy of {length} B went wrong").into());
        }
    }
    Ok(())
}

fn plug(piece: u32, times: &Times) -> Result<Assembly, String> {
    let identity = Identity {
        vendor: 0x7269,
        device: 0x0100,
        revision: 1,
        class: 0x08_0100, // DMA controller
        subsystem_vendor: 0x7269,
        subsystem: 0x0100,
    };
    let config = Builder::type0(identity).bar(BAR, Bar::memory32(4096)).msi(MsiLayout { vectors: 1 });
    let device = AsyncDevice::new(move |io| copier(io, piece));
    let times = times.clone();
    OneSlot::default().plug(config, device, |cpu, function| driver(cpu, function, times))
}

fn measure(piece: u32, capture: Option<&Path>) -> Result<Vec<Duration>, Box<dyn Error>> {
    let times = Times::default();
    let mut lab = plug(piece, &times)?;
    let mut writing = None;
    if let Some(path) = capture {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        writing = Some(lab.capture(File::create(path)?, CaptureOptions::default())?);
    }
    let stop = lab.fabric.run(Limits::default());
    if let Some(handle) = writing {
        handle.finish()?;
    }
    if stop != Stop::Finished {
        return Err(stop.to_string().into());
    }
    Ok(times.take())
}

/// Measures both forms of the device and gives the table of the tutorial; the first form's TLPs go to `capture`.
pub(crate) fn run(capture: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let whole = measure(u32::MAX, capture)?;
    let pieces = measure(512, None)?;
    let gbps = |bytes: u32, time: Duration| f64::from(bytes) * 8_000.0 / time.as_ps() as f64;
    let mut table = String::from("     B  whole ns   Gb/s  pieces ns   Gb/s\n");
    for ((bytes, whole), pieces) in SIZES.into_iter().zip(whole).zip(pieces) {
        let [whole_ns, pieces_ns] = [whole, pieces].map(|time| time.as_ps() / 1_000);
        let [whole, pieces] = [whole, pieces].map(|time| gbps(bytes, time));
        table += &format!("{bytes:6}  {whole_ns:8}  {whole:5.1}  {pieces_ns:9}  {pieces:5.1}\n");
    }
    Ok(table)
}

#[allow(dead_code, reason = "a test includes this file and calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    let capture = std::env::args_os().nth(1);
    print!("{}", run(capture.as_deref().map(Path::new))?);
    Ok(())
}
