// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host program, such as a driver, as straight-line `async` code.
//!
//! [`AsyncProgram`] turns a function `async fn(Cpu) -> Result<(), E>` into a [`HostProgram`]:
//!
//! ```
//! use riser_device::cpu::Cpu;
//! use riser_device::{AsyncProgram, HostMemory};
//! use std::error::Error;
//!
//! async fn driver(cpu: Cpu) -> Result<(), Box<dyn Error>> {
//!     let buffer = cpu.memory().alloc(4096, 4096)?;
//!     cpu.write_u64(0xfe00_0000, buffer).await?;
//!     cpu.interrupt(0).await;
//!     println!("{:#x}", cpu.memory().read_u32(buffer)?);
//!     Ok(())
//! }
//!
//! let program = AsyncProgram::new(HostMemory::new(1 << 20, 0)?, driver);
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! What holds for the operations of [`io`](crate::io) holds here too: they are issued when their future is first
//! polled, leave in that order, and a dropped future takes back what was not accepted yet. The program runs from the
//! first poll on. This module never reads a clock and never starts a thread.

pub use crate::exec::{Either, MAX_CALLS, MAX_OUTPUTS, MAX_TASKS, join, join_array, select, yield_now};

use crate::exec::{Call, Core, JoinHandle, Outgoing, Post, Sleep, WaitList};
use crate::host::{HostError, HostInput, HostOutput, HostProgram, HostReadId};
use crate::io::IntoData;
use crate::memory::HostMemory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tlp::{Bdf, Data, Duration, Payload, PayloadPool, Time};

/// Interrupts of one vector that are kept for who comes to wait for them; further ones merge with the last, as they do
/// in a pending bit.
pub const MAX_PENDING_INTERRUPTS: u32 = 1 << 16;

/// Bytes of the largest MMIO access; larger ones are split here, and none crosses such a boundary.
const ACCESS_BYTES: u64 = 4096;

/// All outputs leave in one order.
const OUTPUTS: usize = 0;

impl Outgoing for HostOutput {
    fn set_id(&mut self, new: u32) {
        match self {
            HostOutput::MmioRead { id, .. }
            | HostOutput::ConfigRead { id, .. }
            | HostOutput::ConfigWrite { id, .. } => *id = HostReadId(new),
            HostOutput::MmioWrite { .. } => {}
        }
    }
}

type CpuCore = Core<HostOutput, HostError>;

#[derive(Default)]
struct Vector {
    pending: u32,
    waiting: WaitList,
}

struct Shared {
    core: Rc<CpuCore>,
    memory: HostMemory,
    vectors: RefCell<BTreeMap<u16, Vector>>,
    outcome: RefCell<Option<Result<(), String>>>,
}

impl Shared {
    fn interrupt(&self, vector: u16) {
        let waker = {
            let mut vectors = self.vectors.borrow_mut();
            let vector = vectors.entry(vector).or_default();
            vector.pending = (vector.pending + 1).min(MAX_PENDING_INTERRUPTS);
            vector.waiting.first()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A handle on everything that a host program may do. Clones are handles on the same program.
#[derive(Clone)]
pub struct Cpu {
    shared: Rc<Shared>,
}

impl Cpu {
    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.core.now()
    }

    /// The memory of the host, which its devices reach by DMA.
    #[must_use]
    pub fn memory(&self) -> &HostMemory {
        &self.shared.memory
    }

    /// Where payloads come from.
    #[must_use]
    pub fn payloads(&self) -> &PayloadPool {
        &self.shared.core.pool
    }

    /// Reads `len` bytes of device memory, one access for each 4 KiB of addresses, one after the other.
    ///
    /// # Errors
    /// The first access that failed.
    pub async fn read(&self, address: u64, len: u32) -> Result<Payload, HostError> {
        if len == 0 {
            return Ok(self.payloads().copy(&[]));
        }
        let first = first_piece(address, len.into());
        let bytes = self.access(address, first as u32).await?;
        if first == u64::from(len) {
            return Ok(bytes);
        }
        let mut all = bytes.to_vec();
        while all.len() < len as usize {
            let at = address.wrapping_add(all.len() as u64);
            let piece = first_piece(at, u64::from(len) - all.len() as u64);
            all.extend_from_slice(&self.access(at, piece as u32).await?);
        }
        Ok(self.payloads().copy(&all))
    }

    /// Reads a little-endian DW of device memory.
    ///
    /// # Errors
    /// Where the device did not answer with its bytes.
    pub async fn read_u32(&self, address: u64) -> Result<u32, HostError> {
        let bytes = self.read(address, 4).await?;
        Ok(u32::from_le_bytes(first_bytes(&bytes)?))
    }

    /// Reads a little-endian QW of device memory.
    ///
    /// # Errors
    /// Where the device did not answer with its bytes.
    pub async fn read_u64(&self, address: u64) -> Result<u64, HostError> {
        let bytes = self.read(address, 8).await?;
        Ok(u64::from_le_bytes(first_bytes(&bytes)?))
    }

    /// Writes device memory, one access for each 4 KiB of addresses. Posted: ends when the host has accepted it, which
    /// is before it arrives.
    ///
    /// # Errors
    /// `NoDevice` beyond 2^32 - 1 bytes. A write that fails later is not heard of, as on a real host.
    pub async fn write(&self, address: u64, data: impl IntoData) -> Result<(), HostError> {
        let data = data.into_data(self.payloads()).ok_or(HostError::NoDevice)?;
        let (mut done, len) = (0, data.len() as u64);
        while done < len {
            let at = address.wrapping_add(done);
            let piece = first_piece(at, len - done);
            let data = data.slice(done as usize, piece as usize);
            self.post(HostOutput::MmioWrite { address: at, data }).await?;
            done += piece;
        }
        Ok(())
    }

    /// Writes a little-endian DW of device memory.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_u32(&self, address: u64, value: u32) -> Result<(), HostError> {
        self.write(address, value).await
    }

    /// Writes a little-endian QW of device memory.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_u64(&self, address: u64, value: u64) -> Result<(), HostError> {
        self.write(address, value).await
    }

    /// Reads configuration register `register_dw`, a DW number from 0 to 1023.
    ///
    /// # Errors
    /// Where the function did not answer.
    pub async fn config_read(&self, function: Bdf, register_dw: u16) -> Result<u32, HostError> {
        let output = HostOutput::ConfigRead { id: HostReadId(0), function, register_dw };
        match self.call(output).await? {
            Data::Carried(bytes) => Ok(u32::from_le_bytes(first_bytes(&bytes)?)),
            Data::Counted(_) => Err(HostError::BadCompletion),
        }
    }

    /// Writes configuration register `register_dw`, a DW number from 0 to 1023, where `byte_enables` (bits 3:0) say so,
    /// and waits for the completion.
    ///
    /// # Errors
    /// Where the function did not answer.
    pub async fn config_write(
        &self,
        function: Bdf,
        register_dw: u16,
        byte_enables: u8,
        value: u32,
    ) -> Result<(), HostError> {
        let id = HostReadId(0);
        self.call(HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value }).await?;
        Ok(())
    }

    /// Waits for an interrupt of `vector`. One that came before is not lost: each is met by one wait, up to
    /// [`MAX_PENDING_INTERRUPTS`].
    pub fn interrupt(&self, vector: u16) -> InterruptFuture {
        InterruptFuture { shared: Rc::clone(&self.shared), vector, ticket: None }
    }

    /// Waits until `duration` after now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `time`; `Time::MAX` is never.
    pub fn sleep_until(&self, time: Time) -> Sleep {
        self.shared.core.sleep_until(time)
    }

    /// Starts a task beside this one; it is first polled when all that are ready now have had their turn, and dropped
    /// when the program ends. Refused beyond [`MAX_TASKS`], which the handle tells.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.shared.core.exec.spawn(future)
    }

    async fn access(&self, address: u64, len: u32) -> Result<Payload, HostError> {
        let data = self.call(HostOutput::MmioRead { id: HostReadId(0), address, len }).await?;
        match data {
            Data::Carried(bytes) if bytes.len() == len as usize => Ok(bytes),
            _ => Err(HostError::BadCompletion),
        }
    }

    fn call(&self, output: HostOutput) -> HostCall {
        HostCall(Call::new(&self.shared.core, OUTPUTS, Ok(output)))
    }

    fn post(&self, output: HostOutput) -> HostPost {
        HostPost(Post::new(&self.shared.core, OUTPUTS, Ok(output)))
    }
}

/// How many of `len` bytes from `address` on the first access holds.
fn first_piece(address: u64, len: u64) -> u64 {
    len.min(ACCESS_BYTES - address % ACCESS_BYTES)
}

fn first_bytes<const N: usize>(bytes: &[u8]) -> Result<[u8; N], HostError> {
    bytes.first_chunk().copied().ok_or(HostError::BadCompletion)
}

struct HostCall(Call<HostOutput, HostError>);

impl Future for HostCall {
    type Output = Result<Data, HostError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

struct HostPost(Post<HostOutput, HostError>);

impl Future for HostPost {
    type Output = Result<(), HostError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

/// Ends with an interrupt.
#[must_use = "futures do nothing unless awaited"]
pub struct InterruptFuture {
    shared: Rc<Shared>,
    vector: u16,
    ticket: Option<u64>,
}

impl Future for InterruptFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let next = {
            let mut vectors = this.shared.vectors.borrow_mut();
            let vector = vectors.entry(this.vector).or_default();
            if vector.pending == 0 {
                vector.waiting.wait(&mut this.ticket, cx.waker());
                return Poll::Pending;
            }
            vector.pending -= 1;
            vector.waiting.leave(&mut this.ticket);
            if vector.pending > 0 { vector.waiting.first() } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
        Poll::Ready(())
    }
}

impl Drop for InterruptFuture {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let next = {
            let mut vectors = self.shared.vectors.borrow_mut();
            let Some(vector) = vectors.get_mut(&self.vector) else { return };
            vector.waiting.leave(&mut self.ticket);
            if vector.pending > 0 { vector.waiting.first() } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// A [`HostProgram`] made of an `async` function.
pub struct AsyncProgram {
    shared: Rc<Shared>,
}

impl AsyncProgram {
    /// A program that runs the future of `start`, and has ended when that has; tasks that it started are dropped then.
    pub fn new<F, Fut, E>(memory: HostMemory, start: F) -> AsyncProgram
    where
        F: FnOnce(Cpu) -> Fut,
        Fut: Future<Output = Result<(), E>> + 'static,
        E: fmt::Display + 'static,
    {
        AsyncProgram::with_pool(PayloadPool::new(), memory, start)
    }

    /// Like [`new`](Self::new), with a payload pool that others use too.
    pub fn with_pool<F, Fut, E>(pool: PayloadPool, memory: HostMemory, start: F) -> AsyncProgram
    where
        F: FnOnce(Cpu) -> Fut,
        Fut: Future<Output = Result<(), E>> + 'static,
        E: fmt::Display + 'static,
    {
        let shared = Rc::new(Shared {
            core: Rc::new(Core::new(pool)),
            memory,
            vectors: RefCell::default(),
            outcome: RefCell::default(),
        });
        let cpu = Cpu { shared: Rc::clone(&shared) };
        let future = start(cpu.clone());
        cpu.clone().spawn(async move {
            let outcome = future.await.map_err(|error| error.to_string());
            *cpu.shared.outcome.borrow_mut() = Some(outcome);
        });
        AsyncProgram { shared }
    }

    fn run(&self) {
        self.shared.core.exec.run();
        if self.shared.outcome.borrow().is_some() {
            self.shared.core.exec.close();
        }
    }
}

impl HostProgram for AsyncProgram {
    fn handle(&mut self, now: Time, input: HostInput) {
        self.shared.core.advance(now);
        match input {
            HostInput::Done { id, result } => self.shared.core.finish(id.0, result),
            HostInput::Interrupt { vector } => self.shared.interrupt(vector),
            HostInput::Timer => {}
        }
        self.run();
    }

    fn poll_output(&mut self, now: Time) -> Option<HostOutput> {
        self.shared.core.set_now(now);
        if self.shared.core.exec.has_ready() {
            self.run();
        }
        let output = self.shared.core.pop(OUTPUTS);
        if output.is_some() {
            self.run();
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.shared.core.poll_timeout()
    }

    fn outcome(&self) -> Option<Result<(), String>> {
        self.shared.outcome.borrow().clone()
    }

    fn waits_for(&self) -> Option<String> {
        if self.shared.outcome.borrow().is_some() {
            return None;
        }
        let vectors = self.shared.vectors.borrow();
        let waited = vectors.iter().filter(|(_, vector)| vector.waiting.len() > 0);
        let waited: Vec<String> = waited.map(|(number, _)| number.to_string()).collect();
        let mut line = self.shared.core.describe();
        if !waited.is_empty() {
            line += &format!(", waiting for interrupts of vector {}", waited.join(", "));
        }
        Some(line)
    }
}

impl Drop for AsyncProgram {
    fn drop(&mut self) {
        // Tasks hold handles on what holds the tasks.
        self.shared.core.exec.close();
    }
}
