// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host program, such as a driver, written as straight-line `async` code.
//!
//! [`AsyncProgram`] turns a function `async fn(Cpu) -> Result<(), E>` into a [`HostProgram`]:
//!
//! ```
//! use riser_host::cpu::Cpu;
//! use riser_host::{AsyncProgram, HostMemory};
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
//! Operations follow the rules of [`io`](device::io): an operation is issued when its future is first polled, and
//! operations leave in that order. If a future is dropped before its operation was accepted, the operation is
//! withdrawn. The program runs from the first poll on. This module reads no clock and starts no thread.

mod wait;

pub use wait::{Arrival, InterruptFuture, MessageFuture};

use wait::Mailbox;

pub use exec::{
    Either, JoinHandle, MAX_CALLS, MAX_OUTPUTS, MAX_POLLS_PER_INSTANT, MAX_TASKS, join, join_array, select,
    yield_now,
};

use crate::memory::HostMemory;
use crate::{
    DriverError, HostError, HostInput, HostInterrupt, HostMessage, HostOutput, HostProgram, HostReadId,
};
use device::io::{AtomicValue, FetchValue, IntoData, payload};
use device::seam::OutMessage;
use exec::{Call, Core, Outgoing, Post, Sleep};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::message::{MessageCodes, UNLOCK};
use tlp::{AtomicOp, Bdf, Data, Duration, MessageRouting, Payload, PayloadPool, Time};

/// MSI address of x86 (Intel SDM vol. 3, §11.11.1): writes to this address are interrupts.
pub const MSI_ADDRESS: u64 = 0xfee0_0000;

/// Maximum number of interrupts of one vector that are kept until the program waits for them. Further interrupts merge
/// with the last one, as in a pending bit.
pub const MAX_PENDING_INTERRUPTS: u32 = 1 << 16;

/// Maximum number of device messages that are kept until the program takes them. Further messages are dropped and
/// counted.
pub const MAX_PENDING_MESSAGES: usize = 1024;

/// Bytes of the largest MMIO access. Larger accesses are split at multiples of this number.
const ACCESS_BYTES: u64 = 4096;

/// All outputs share one queue, so they leave in the order in which they were issued.
const OUTPUTS: usize = 0;

impl Outgoing for HostOutput {
    fn set_id(&mut self, new: u32) {
        if let Some(id) = self.id_mut() {
            *id = HostReadId(new);
        }
    }
}

type CpuCore = Core<HostOutput, HostError>;

struct Shared {
    core: Rc<CpuCore>,
    memory: HostMemory,
    /// Interrupts of each vector.
    vectors: RefCell<BTreeMap<u16, Rc<RefCell<Mailbox<()>>>>>,
    /// Messages of devices.
    mail: Rc<RefCell<Mailbox<HostMessage>>>,
    outcome: RefCell<Option<Result<(), DriverError>>>,
}

impl Shared {
    /// Takes an interrupt. The low half of an MSI's data is its vector. Interrupt wires (INTx) arrive as messages.
    fn take_interrupt(&self, interrupt: HostInterrupt) {
        match interrupt {
            HostInterrupt::Message { data, .. } => wait::put(&self.vector(data as u16), ()),
            HostInterrupt::Wire { requester, wire, asserted, .. } => {
                let (routing, code) = (MessageRouting::Local, wire.message_code(asserted));
                let message = HostMessage { requester, routing, code, header: [0; 8], data: Data::NONE };
                wait::put(&self.mail, message);
            }
        }
    }

    fn vector(&self, vector: u16) -> Rc<RefCell<Mailbox<()>>> {
        let mut vectors = self.vectors.borrow_mut();
        Rc::clone(vectors.entry(vector).or_insert_with(|| Mailbox::new(MAX_PENDING_INTERRUPTS as usize)))
    }
}

/// A handle of a host program's operations. Clones are handles of the same program.
#[derive(Clone)]
pub struct Cpu {
    shared: Rc<Shared>,
}

impl Cpu {
    /// Returns the virtual time.
    pub fn now(&self) -> Time {
        self.shared.core.now()
    }

    /// Returns the memory of the host, which its devices access by DMA.
    pub fn memory(&self) -> &HostMemory {
        &self.shared.memory
    }

    /// Returns the pool of the program's payloads.
    pub fn payloads(&self) -> &PayloadPool {
        &self.shared.core.pool
    }

    /// Reads `len` bytes of device memory, with one access per 4 KiB of addresses, one after the other.
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
    /// If the device did not answer with the requested bytes.
    pub async fn read_u32(&self, address: u64) -> Result<u32, HostError> {
        let bytes = self.read(address, 4).await?;
        Ok(u32::from_le_bytes(first_bytes(&bytes)?))
    }

    /// Reads a little-endian QW of device memory.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes.
    pub async fn read_u64(&self, address: u64) -> Result<u64, HostError> {
        let bytes = self.read(address, 8).await?;
        Ok(u64::from_le_bytes(first_bytes(&bytes)?))
    }

    /// Writes device memory, with one access per 4 KiB of addresses. Posted: the future ends when the host has
    /// accepted the write, before it arrives.
    ///
    /// # Errors
    /// `NoDevice` beyond 2^32 - 1 bytes. A write that fails later is not reported, as on a real host.
    pub async fn write(&self, address: u64, data: impl IntoData) -> Result<(), HostError> {
        let data = data.into_data(self.payloads()).ok_or(HostError::NoDevice)?;
        let (mut done, len) = (0, data.len() as u64);
        while done < len {
            let at = address.wrapping_add(done);
            let piece = first_piece(at, len - done);
            let data = data.slice(done as usize, piece as usize);
            self.post(HostOutput::MmioWrite { address: at, data }).await;
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
    /// If the function did not answer.
    pub async fn config_read(&self, function: Bdf, register_dw: u16) -> Result<u32, HostError> {
        let output = HostOutput::ConfigRead { id: HostReadId(0), function, register_dw, byte_enables: 0xf };
        Ok(u32::from_le_bytes(first_bytes(&self.bytes(output).await?)?))
    }

    /// Writes configuration register `register_dw`, a DW number from 0 to 1023, with Byte Enables `byte_enables`
    /// (bits 3:0), and waits for the completion.
    ///
    /// # Errors
    /// If the function did not answer.
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

    /// Reads `len` bytes of I/O space, 1 to 4 within one DW, as a little-endian value.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes. `NoDevice` also if the bytes are not within one DW.
    pub async fn io_read(&self, address: u32, len: u32) -> Result<u32, HostError> {
        let bytes = self.bytes(HostOutput::IoRead { id: HostReadId(0), address, len }).await?;
        let mut value = [0; 4];
        for (to, from) in value.iter_mut().zip(bytes.iter()) {
            *to = *from;
        }
        Ok(u32::from_le_bytes(value))
    }

    /// Writes I/O space, 1 to 4 bytes within one DW, and waits for the completion.
    ///
    /// # Errors
    /// As [`io_read`](Self::io_read).
    pub async fn io_write(&self, address: u32, data: impl IntoData) -> Result<(), HostError> {
        let data = data.into_data(self.payloads()).ok_or(HostError::NoDevice)?;
        self.call(HostOutput::IoWrite { id: HostReadId(0), address, data }).await?;
        Ok(())
    }

    /// Writes device memory by a deferrable write (DMWr) of 1 to 128 bytes that do not cross 4 KiB, and waits for the
    /// completion.
    ///
    /// # Errors
    /// `ConfigRetry` if the device defers the write: write again. `NoDevice` if the write is too long.
    pub async fn write_deferrable(&self, address: u64, data: impl IntoData) -> Result<(), HostError> {
        let data = data.into_data(self.payloads()).ok_or(HostError::NoDevice)?;
        self.call(HostOutput::WriteDeferrable { id: HostReadId(0), address, data }).await?;
        Ok(())
    }

    /// Adds to a value in device memory. Returns the value before the addition.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes.
    pub async fn fetch_add<V: FetchValue>(&self, address: u64, value: V) -> Result<V, HostError> {
        self.atomic(address, AtomicOp::FetchAdd, &[value]).await
    }

    /// Stores a value in device memory. Returns the value before the write.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes.
    pub async fn swap<V: FetchValue>(&self, address: u64, value: V) -> Result<V, HostError> {
        self.atomic(address, AtomicOp::Swap, &[value]).await
    }

    /// Stores `value` in device memory if the current value equals `compare`. Returns the value before.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes.
    pub async fn compare_swap<V: AtomicValue>(
        &self,
        address: u64,
        compare: V,
        value: V,
    ) -> Result<V, HostError> {
        self.atomic(address, AtomicOp::CompareSwap, &[compare, value]).await
    }

    async fn atomic<V: AtomicValue>(
        &self,
        address: u64,
        op: AtomicOp,
        operands: &[V],
    ) -> Result<V, HostError> {
        let operands = Data::Carried(payload(self.payloads(), operands));
        let bytes = self.bytes(HostOutput::Atomic { id: HostReadId(0), address, op, operands }).await?;
        if bytes.len() == V::BYTES { Ok(V::load(&bytes)) } else { Err(HostError::BadCompletion) }
    }

    /// Reads device memory and locks the path to it (MRdLk, `PCIe 5.0 §6.5`) until [`unlock`](Self::unlock). Reads 1
    /// to 4096 bytes that do not cross 4 KiB. Only legacy endpoints answer with data.
    ///
    /// # Errors
    /// If the device did not answer with the requested bytes. The path is then not locked (`PCIe 5.0 §6.5.2`).
    pub async fn read_locked(&self, address: u64, len: u32) -> Result<Payload, HostError> {
        self.bytes(HostOutput::MmioRead { id: HostReadId(0), address, len, locked: true }).await
    }

    /// Ends a locked sequence: sends an Unlock message down every link.
    pub async fn unlock(&self) {
        self.send_message(Bdf::default(), OutMessage::new(MessageRouting::Broadcast, UNLOCK)).await;
    }

    /// Sends a message. The routing selects the destination; `toward` is used only for local messages, which go down
    /// the link to that function. The future ends when the host has accepted the message. The root complex counts
    /// messages without a destination.
    pub async fn send_message(&self, toward: Bdf, message: OutMessage) {
        self.post(HostOutput::Message { toward, message }).await;
    }

    /// Sends a request outside of the seam to this host's model, such as a
    /// [`CachePreparation`](crate::caches::CachePreparation). The request is executed after everything that this
    /// program has issued before, and takes no simulated time.
    pub async fn extension(&self, request: impl Any) {
        self.post(HostOutput::Extension(Box::new(request))).await;
    }

    /// Delivers messages of these codes to [`next_message`](Self::next_message) from now on, in addition to interrupt
    /// wires, PME_TO_Ack and Vendor_Defined Type 1. Any other message of a device is an Unsupported Request of the
    /// root port (`PCIe 5.0 §2.3.1`).
    pub async fn take_messages(&self, codes: MessageCodes) {
        self.post(HostOutput::TakeMessages(codes)).await;
    }

    /// Takes the next message that a device has sent to the root complex; waits if the queue is empty. Up to
    /// [`MAX_PENDING_MESSAGES`] messages are kept; see [`messages_lost`](Self::messages_lost).
    pub fn next_message(&self) -> MessageFuture {
        Arrival::in_mail(&self.shared.mail)
    }

    /// Returns the number of messages that were dropped because too many were pending.
    pub fn messages_lost(&self) -> u64 {
        self.shared.mail.borrow().lost
    }

    /// Waits for an interrupt of `vector`: an MSI or MSI-X with this number in the low half of its data. An interrupt
    /// that arrived earlier is not lost: each interrupt ends one wait, up to [`MAX_PENDING_INTERRUPTS`].
    pub fn interrupt(&self, vector: u16) -> InterruptFuture {
        Arrival::in_mail(&self.shared.vector(vector))
    }

    /// Forgets pending interrupts of `vector`, for a new owner of the vector.
    pub fn forget_interrupts(&self, vector: u16) {
        self.shared.vector(vector).borrow_mut().items.clear();
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `time`; `Time::MAX` means for ever.
    pub fn sleep_until(&self, time: Time) -> Sleep {
        self.shared.core.sleep_until(time)
    }

    /// Starts a task. The task is first polled after all tasks that are ready now, and dropped when the program ends.
    /// The handle returns an error if there are already [`MAX_TASKS`] tasks.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.shared.core.exec.spawn(future)
    }

    /// Labels the calling task, and the tasks that it spawns later, with the name `whom`. Errors of such a task name
    /// `whom`.
    pub fn act_for(&self, whom: &str) {
        self.shared.core.exec.set_label(whom);
    }

    async fn access(&self, address: u64, len: u32) -> Result<Payload, HostError> {
        let bytes =
            self.bytes(HostOutput::MmioRead { id: HostReadId(0), address, len, locked: false }).await?;
        if bytes.len() == len as usize { Ok(bytes) } else { Err(HostError::BadCompletion) }
    }

    async fn bytes(&self, output: HostOutput) -> Result<Payload, HostError> {
        match self.call(output).await? {
            Data::Carried(bytes) => Ok(bytes),
            Data::Counted(_) => Err(HostError::BadCompletion),
        }
    }

    fn call(&self, output: HostOutput) -> Call<HostOutput, HostError> {
        Call::new(&self.shared.core, OUTPUTS, output)
    }

    fn post(&self, output: HostOutput) -> Post<HostOutput, HostError> {
        Post::new(&self.shared.core, OUTPUTS, output)
    }
}

/// Returns the input of an MSI for a program that waits for interrupts of `vector`. For tests.
pub fn msi(vector: u16) -> HostInput {
    let (requester, address) = (Bdf::default(), MSI_ADDRESS);
    HostInput::Interrupt(HostInterrupt::Message { requester, address, data: vector.into() })
}

/// Number of bytes that the first access covers, of `len` bytes from `address`.
fn first_piece(address: u64, len: u64) -> u64 {
    len.min(ACCESS_BYTES - address % ACCESS_BYTES)
}

fn first_bytes<const N: usize>(bytes: &[u8]) -> Result<[u8; N], HostError> {
    bytes.first_chunk().copied().ok_or(HostError::BadCompletion)
}

/// A [`HostProgram`] that runs an `async` function.
pub struct AsyncProgram {
    shared: Rc<Shared>,
}

impl AsyncProgram {
    /// Returns a program that runs the future of `start` and ends with it. Its other tasks are then dropped.
    pub fn new<F, Fut, E>(memory: HostMemory, start: F) -> AsyncProgram
    where
        F: FnOnce(Cpu) -> Fut,
        Fut: Future<Output = Result<(), E>> + 'static,
        E: Into<DriverError> + 'static,
    {
        AsyncProgram::with_pool(PayloadPool::new(), memory, start)
    }

    /// Like [`new`](Self::new), with a shared payload pool.
    pub fn with_pool<F, Fut, E>(pool: PayloadPool, memory: HostMemory, start: F) -> AsyncProgram
    where
        F: FnOnce(Cpu) -> Fut,
        Fut: Future<Output = Result<(), E>> + 'static,
        E: Into<DriverError> + 'static,
    {
        let shared = Rc::new(Shared {
            core: Rc::new(Core::new(pool)),
            memory,
            vectors: RefCell::default(),
            mail: Mailbox::new(MAX_PENDING_MESSAGES),
            outcome: RefCell::default(),
        });
        let cpu = Cpu { shared: Rc::clone(&shared) };
        let future = start(cpu.clone());
        cpu.clone().spawn(async move {
            let outcome = future.await;
            *cpu.shared.outcome.borrow_mut() = Some(outcome.map_err(Into::into));
        });
        AsyncProgram { shared }
    }

    /// Runs tasks until all of them wait. A program that spins fails.
    fn run(&self) {
        self.shared.core.exec.run();
        if let Some(who) = self.shared.core.exec.spinning() {
            self.shared.outcome.borrow_mut().get_or_insert(Err(who.into()));
        }
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
            HostInput::Interrupt(interrupt) => self.shared.take_interrupt(interrupt),
            HostInput::Message(message) => wait::put(&self.shared.mail, message),
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

    fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.shared.outcome.borrow().clone()
    }

    fn waits_for(&self) -> Option<String> {
        if self.shared.outcome.borrow().is_some() {
            return None;
        }
        let vectors = self.shared.vectors.borrow();
        let waited = vectors.iter().filter(|(_, vector)| !vector.borrow().waiting.is_empty());
        let waited: Vec<String> = waited.map(|(number, _)| number.to_string()).collect();
        let mut line = self.shared.core.describe();
        if !waited.is_empty() {
            line += &format!(", waiting for interrupts of vector {}", waited.join(", "));
        }
        if !self.shared.mail.borrow().waiting.is_empty() {
            line += ", waiting for a message";
        }
        Some(line)
    }
}

impl Drop for AsyncProgram {
    fn drop(&mut self) {
        // Breaks the reference cycle between the tasks and their owner.
        self.shared.core.exec.close();
    }
}
