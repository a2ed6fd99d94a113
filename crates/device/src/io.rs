// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device as straight-line `async` code.
//!
//! [`AsyncDevice`] turns a function `async fn(Io)` into a [`Device`]. The function takes requests, reads and writes host
//! memory, raises interrupts, sleeps, and starts further tasks, all through its [`Io`]:
//!
//! ```
//! use riser_device::io::{Io, RegisterFile, Request};
//! use riser_device::{AsyncDevice, BarIndex, DmaError};
//!
//! const BAR: BarIndex = BarIndex(0);
//! const RING: u64 = 0;
//! const TX_INDEX: u64 = 16;
//! const TX_VECTOR: u16 = 0;
//!
//! async fn nic(io: Io) {
//!     let mut registers = RegisterFile::new(32);
//!     while let Some(request) = io.next_request().await {
//!         match request {
//!             Request::Write(w) if w.at(BAR, TX_INDEX) => {
//!                 io.spawn(transmit(io.clone(), registers.u64(RING), w.u32()));
//!             }
//!             Request::Write(w) => {
//!                 registers.write(&w);
//!             }
//!             Request::Read(r) => {
//!                 let answer = registers.read(&r);
//!                 r.complete(answer);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//!
//! async fn transmit(io: Io, ring: u64, index: u32) -> Result<(), DmaError> {
//!     let descriptor = io.dma_read(ring + 16 * u64::from(index), 16).await?;
//!     // ...
//!     io.interrupt(TX_VECTOR).await
//! }
//!
//! let device = AsyncDevice::new(nic);
//! ```
//!
//! Tasks of a device exchange work through a [`Channel`](crate::Channel).
//!
//! Every operation is issued when its future is first polled, not when it is created. A future that is dropped before
//! the endpoint has accepted the operation withdraws it; if dropped later, the result of a read is discarded. Writes,
//! messages and interrupts leave in the order in which they were issued. Reads also keep their order, and so do
//! completions, but no class waits for another. A reset drops all tasks and calls the function again.
//!
//! The tasks run inside [`Device::handle`], and inside [`Device::poll_output`] when one of their outputs is accepted.
//! Other wakes take effect at the next call. This module reads no clock and starts no thread.

mod atomic;
mod config;
mod data;
mod generator;
mod registers;
mod request;

pub use crate::seam::{DmaOptions, OutMessage};
use crate::shared::Notifier;
pub use atomic::payload;
pub use atomic::{AtomicRequest, AtomicValue, FetchValue};
pub use config::{ConfigRead, ConfigWrite};
pub use data::{Answer, IntoData};
pub use generator::{Generating, Generator, generated_id};
pub use registers::RegisterFile;
pub use request::{MessageRequest, ReadRequest, Request, WriteRequest};

pub use exec::{
    Either, MAX_CALLS, MAX_OUTPUTS, MAX_POLLS_PER_INSTANT, MAX_TASKS, join, join_array, select, yield_now,
};

use crate::seam::{
    self, CompletionError, Device, DmaAtomic, DmaError, DmaId, DmaRead, DmaWrite, Input, Output, Ready,
    ResetKind, Token,
};
use exec::{Call, Core, JoinHandle, Outgoing, Post, Sleep, WaitList, wake};
use generator::{Generated, generated_number};
use request::{BarRange, Owed, Success};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tlp::message::MessageCodes;
use tlp::{AtomicOp, Class, Data, Duration, MessageRouting, Mps, Mrrs, Payload, PayloadPool, Time};

/// Maximum number of non-posted requests that a device may take before the endpoint has accepted their completions. At
/// the limit, further requests stay in the receive buffer, and posted requests pass them (`PCIe 5.0 §2.4.1`).
pub const MAX_OPEN_READS: usize = 1024;

// Queues of the core and bits of its news, by `Class::index`.
const POSTED: usize = 0;
const NON_POSTED: usize = 1;
const COMPLETION: usize = 2;
/// Bit of taken tokens, after the bits of the classes.
const TAKEN: usize = 3;

impl Outgoing for Output {
    fn set_id(&mut self, id: u32) {
        match self {
            Output::Read(read) => read.id = DmaId(id),
            Output::Atomic(atomic) => atomic.id = DmaId(id),
            _ => {}
        }
    }
}

type IoCore = Core<Output, DmaError>;

/// Requests from the endpoint, and completions to it.
#[derive(Default)]
struct Mailbox {
    /// Bounded by the credits that the endpoint advertises.
    requests: VecDeque<seam::Request>,
    waiting: WaitList,
    taken: VecDeque<Token>,
    /// Bounded by [`MAX_OPEN_READS`].
    completions: VecDeque<(Token, Result<Data, CompletionError>)>,
    /// Non-posted requests that the program holds.
    held_reads: usize,
}

impl Mailbox {
    fn take(&mut self) -> Option<seam::Request> {
        let index = if self.held_reads + self.completions.len() < MAX_OPEN_READS {
            0
        } else {
            self.requests.iter().position(|r| r.op.is_posted())?
        };
        let request = self.requests.remove(index)?;
        self.taken.push_back(request.token);
        Some(request)
    }

    /// Returns the task to wake for the first request.
    fn next(&self) -> Option<Waker> {
        if self.requests.is_empty() { None } else { self.waiting.first() }
    }
}

/// One life of a device, from reset to reset.
struct Shared {
    core: Rc<IoCore>,
    generated: Generated,
    mail: RefCell<Mailbox>,
    /// True if requests wait for room, not for a task that takes them.
    held_back: Cell<bool>,
    told: Cell<FunctionState>,
    begun_by: ResetKind,
}

/// Properties of the function, as set by the endpoint.
#[derive(Clone, Copy, Default)]
struct FunctionState {
    /// Interrupt vectors; `None` until they are set.
    vectors: Option<u16>,
    /// Values after power-on, until other values are set.
    mps: Mps,
    mrrs: Mrrs,
    is_not_bus_master: bool,
}

impl Shared {
    fn new(core: IoCore, told: FunctionState, begun_by: ResetKind) -> Rc<Shared> {
        Rc::new(Shared {
            core: Rc::new(core),
            generated: Generated::default(),
            mail: RefCell::default(),
            held_back: Cell::default(),
            told: Cell::new(told),
            begun_by,
        })
    }

    /// Drops tasks and generator, which hold references to their owner.
    fn close(&self) {
        self.generated.clear();
        self.core.exec.close();
    }

    fn complete(&self, token: Token, result: Result<Data, CompletionError>) {
        self.mail.borrow_mut().completions.push_back((token, result));
        self.core.tell(COMPLETION);
    }

    fn close_read(&self) {
        self.mail.borrow_mut().held_reads -= 1;
    }

    fn deliver(&self, request: seam::Request) {
        let waker = {
            let mut mail = self.mail.borrow_mut();
            mail.requests.push_back(request);
            mail.waiting.first()
        };
        wake(waker);
    }

    /// Runs tasks until all of them wait for something external.
    fn run(&self) {
        self.core.exec.run();
        while self.held_back.get() {
            let Some(waker) = self.let_in() else { return };
            waker.wake();
            self.core.exec.run();
        }
    }

    /// Returns the task to wake if there is room again for a request that was held back.
    fn let_in(&self) -> Option<Waker> {
        let mail = self.mail.borrow();
        if mail.held_reads + mail.completions.len() >= MAX_OPEN_READS || !self.core.exec.has_room() {
            return None;
        }
        self.held_back.set(false);
        mail.waiting.first()
    }
}

/// A handle of a device's operations. Clones are handles of the same device. A reset invalidates earlier handles:
/// operations that are issued through them have no effect and never end.
#[derive(Clone)]
pub struct Io {
    shared: Rc<Shared>,
}

impl Io {
    /// Returns the virtual time.
    pub fn now(&self) -> Time {
        self.shared.core.now()
    }

    /// Returns the pool of the device's payloads.
    pub fn payloads(&self) -> &PayloadPool {
        &self.shared.core.pool
    }

    /// Returns a payload with a copy of `bytes`.
    pub fn copy(&self, bytes: &[u8]) -> Payload {
        self.payloads().copy(bytes)
    }

    /// Takes the next request. The request's receive-buffer space returns to the sender now, not at the arrival of the
    /// request, so a device that takes no requests stops its host. The future returns `None` after the device was reset
    /// or dropped. The device's own tasks never see this, because they are dropped too.
    pub fn next_request(&self) -> NextRequest {
        NextRequest { shared: Rc::clone(&self.shared), ticket: None }
    }

    /// Reads `len` bytes of host memory; zero is a zero-length read, which flushes posted writes.
    pub fn dma_read(&self, address: u64, len: u32) -> DmaReadFuture<Payload> {
        self.dma_read_with(address, len, DmaOptions::default())
    }

    /// Like [`dma_read`](Self::dma_read), with attributes, Traffic Class, hint and prefixes.
    pub fn dma_read_with(&self, address: u64, len: u32, options: DmaOptions) -> DmaReadFuture<Payload> {
        self.read(address, len, true, options, carried)
    }

    /// Like [`dma_read`](Self::dma_read), but only counts the bytes, for simulations of timing without contents.
    pub fn dma_read_counted(&self, address: u64, len: u32) -> DmaReadFuture<()> {
        self.read(address, len, false, DmaOptions::default(), |result| result.map(|_| ()))
    }

    /// Reads `len` bytes of host memory; `carry` selects whether the bytes are carried or only counted.
    pub fn dma_read_data(
        &self,
        address: u64,
        len: u32,
        carry: bool,
        options: DmaOptions,
    ) -> DmaReadFuture<Data> {
        self.read(address, len, carry, options, |result| result)
    }

    /// Writes host memory, any length. The future ends when the endpoint has accepted the write, before it arrives.
    /// Fails with `TooLong` beyond 2^32 - 1 bytes.
    pub fn dma_write(&self, address: u64, data: impl IntoData) -> PostedFuture {
        self.dma_write_with(address, data, DmaOptions::default())
    }

    /// Like [`dma_write`](Self::dma_write), with attributes, Traffic Class, hint and prefixes.
    pub fn dma_write_with(&self, address: u64, data: impl IntoData, options: DmaOptions) -> PostedFuture {
        let data = data.into_data(self.payloads()).ok_or(DmaError::TooLong);
        self.post(data.map(|data| Output::Write(DmaWrite { address, data, options })))
    }

    /// Like [`dma_write`](Self::dma_write) of `len` bytes, but only counts the bytes, for simulations of timing without
    /// contents.
    pub fn dma_write_counted(&self, address: u64, len: u32) -> PostedFuture {
        self.dma_write(address, Data::Counted(len))
    }

    /// Raises an interrupt vector. The interrupt leaves after every write issued before it; the future ends when the
    /// endpoint has accepted it. Fails with `NoSuchVector` if the function has fewer vectors
    /// ([`vectors`](Self::vectors)). A vector that was not granted is mapped to a granted vector, like with MSI. While
    /// interrupts are disabled, the interrupt is dropped and counted.
    pub fn interrupt(&self, vector: u16) -> PostedFuture {
        let is_there = self.vectors().is_none_or(|count| vector < count);
        self.post(if is_there { Ok(Output::Interrupt { vector }) } else { Err(DmaError::NoSuchVector) })
    }

    /// Number of interrupt vectors of the function, the larger of MSI and MSI-X; `None` while the device belongs to no
    /// endpoint.
    pub fn vectors(&self) -> Option<u16> {
        self.shared.told.get().vectors
    }

    /// Current Max_Payload_Size of the function, at which writes are split. Software may change it at any time. 128 B,
    /// as after power-on, while the device belongs to no endpoint.
    pub fn mps(&self) -> Mps {
        self.shared.told.get().mps
    }

    /// Current Max_Read_Request_Size of the function, at which reads are split; 512 B after power-on.
    pub fn mrrs(&self) -> Mrrs {
        self.shared.told.get().mrrs
    }

    /// True if the function may send requests (Bus Master Enable, and D0). If false, writes and interrupts are dropped
    /// and counted. True while the device belongs to no endpoint.
    pub fn is_bus_master(&self) -> bool {
        !self.shared.told.get().is_not_bus_master
    }

    /// Returns the reset that started this life of the device; power-on is a fundamental reset.
    pub fn begun_by(&self) -> ResetKind {
        self.shared.begun_by
    }

    /// Sets the level of the function's INTx: asserted while it requests service (`PCIe 5.0 §6.1.2`). The message
    /// leaves after every write that was issued before it. The future ends when the endpoint has accepted the message.
    pub fn intx(&self, asserted: bool) -> PostedFuture {
        self.post(Ok(Output::Intx { asserted }))
    }

    /// Requests attention by a Power Management Event, in any power state (`PCIe 5.0 §5.3.3`): see [`Output::Pme`]. It
    /// leaves after every write issued before it; the future ends when the endpoint has accepted it.
    pub fn pme(&self) -> PostedFuture {
        self.post(Ok(Output::Pme))
    }

    /// Sends a message with data to the root complex. Fails with `TooLong` beyond 2^32 - 1 bytes.
    pub fn message(&self, code: u8, data: impl IntoData) -> PostedFuture {
        let data = data.into_data(self.payloads()).ok_or(DmaError::TooLong);
        let message = OutMessage::new(MessageRouting::ToRootComplex, code);
        self.post(data.map(|data| Output::Message(OutMessage { data, ..message })))
    }

    /// Sends a message of any routing and code.
    pub fn send_message(&self, message: OutMessage) -> PostedFuture {
        self.post(Ok(Output::Message(message)))
    }

    /// Adds to a value in host memory, modulo its size. Returns the value before the addition (`PCIe 5.0 §6.15`). Like
    /// all AtomicOps it fails if AtomicOp Requester Enable is clear.
    pub fn fetch_add<V: FetchValue>(&self, address: u64, value: V) -> AtomicFuture<V> {
        self.atomic(address, AtomicOp::FetchAdd, &[value], DmaOptions::default())
    }

    /// Stores a value in host memory. Returns the value before the write.
    pub fn swap<V: FetchValue>(&self, address: u64, value: V) -> AtomicFuture<V> {
        self.atomic(address, AtomicOp::Swap, &[value], DmaOptions::default())
    }

    /// Stores `value` in host memory if the current value equals `compare`. Returns the value before the operation.
    pub fn compare_swap<V: AtomicValue>(&self, address: u64, compare: V, value: V) -> AtomicFuture<V> {
        self.atomic(address, AtomicOp::CompareSwap, &[compare, value], DmaOptions::default())
    }

    /// Sends an AtomicOp with attributes, Traffic Class, hint and prefixes. CAS has two operands; the other AtomicOps
    /// have one.
    pub fn atomic<V: AtomicValue>(
        &self,
        address: u64,
        op: AtomicOp,
        operands: &[V],
        options: DmaOptions,
    ) -> AtomicFuture<V> {
        let operands = Data::Carried(payload(self.payloads(), operands));
        let atomic = Output::Atomic(DmaAtomic { id: DmaId(0), address, op, operands, options });
        AtomicFuture { call: Call::new(&self.shared.core, NON_POSTED, atomic), finish: atomic::value }
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `time`; `Time::MAX` means for ever.
    pub fn sleep_until(&self, time: Time) -> Sleep {
        self.shared.core.sleep_until(time)
    }

    /// Starts a task. The task is first polled after all tasks that are ready now. The handle returns an error if there
    /// are already [`MAX_TASKS`] tasks.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.shared.core.exec.spawn(future)
    }

    fn post(&self, output: Result<Output, DmaError>) -> PostedFuture {
        PostedFuture { post: output.map(|output| Post::new(&self.shared.core, POSTED, output)) }
    }

    fn read<T>(
        &self,
        address: u64,
        len: u32,
        carry: bool,
        options: DmaOptions,
        finish: fn(Result<Data, DmaError>) -> Result<T, DmaError>,
    ) -> DmaReadFuture<T> {
        let read = Output::Read(DmaRead { id: DmaId(0), address, len, carry, options });
        DmaReadFuture { call: Call::new(&self.shared.core, NON_POSTED, read), finish }
    }
}

fn carried(result: Result<Data, DmaError>) -> Result<Payload, DmaError> {
    match result? {
        Data::Carried(payload) => Ok(payload),
        // The host has not carried bytes that were requested.
        Data::Counted(_) => Err(DmaError::Malformed),
    }
}

/// Future of the next request.
#[must_use = "futures do nothing unless awaited"]
pub struct NextRequest {
    shared: Rc<Shared>,
    ticket: Option<u64>,
}

impl NextRequest {
    fn adopt(&self, request: seam::Request) -> Request {
        let seam::Request { token, tc, attr, op } = request;
        self.shared.core.tell(TAKEN);
        match op {
            seam::RequestOp::Read { bar, offset, span, locked } => {
                let place = BarRange { bar, offset, span, tc, attr };
                Request::Read(ReadRequest { owed: self.owe(token), place, locked })
            }
            seam::RequestOp::Write { bar, offset, span, data } => {
                let place = BarRange { bar, offset, span, tc, attr };
                Request::Write(WriteRequest { place, data, owed: Success(None) })
            }
            seam::RequestOp::WriteNonPosted { bar, offset, span, data, .. } => {
                let place = BarRange { bar, offset, span, tc, attr };
                Request::Write(WriteRequest { place, data, owed: Success(Some(self.owe(token))) })
            }
            seam::RequestOp::Atomic { bar, offset, op, operands } => {
                let owed = self.owe(token);
                Request::Atomic(AtomicRequest { owed, bar, offset, op, operands, tc, attr })
            }
            seam::RequestOp::ConfigRead { register_dw, byte_enables } => {
                Request::ConfigRead(ConfigRead { owed: self.owe(token), register_dw, byte_enables })
            }
            seam::RequestOp::ConfigWrite { register_dw, byte_enables, value } => {
                let owed = Success(Some(self.owe(token)));
                Request::ConfigWrite(ConfigWrite { owed, register_dw, byte_enables, value })
            }
            seam::RequestOp::Message { requester, routing, code, header, data } => {
                Request::Message(MessageRequest { requester, routing, code, header, data, tc, attr })
            }
        }
    }

    /// Records that the program must answer `token`.
    fn owe(&self, token: Token) -> Owed {
        self.shared.mail.borrow_mut().held_reads += 1;
        Owed::new(&self.shared, token)
    }
}

impl Future for NextRequest {
    type Output = Option<Request>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Request>> {
        let this = &mut *self;
        if this.shared.core.exec.is_closed() {
            return Poll::Ready(None);
        }
        let (request, next) = {
            let mut mail = this.shared.mail.borrow_mut();
            let request = if this.shared.core.exec.has_room() { mail.take() } else { None };
            if request.is_none() {
                this.shared.held_back.set(!mail.requests.is_empty());
                mail.waiting.wait(&mut this.ticket, cx.waker());
                return Poll::Pending;
            }
            mail.waiting.leave(&mut this.ticket);
            (request, mail.next())
        };
        wake(next);
        Poll::Ready(request.map(|request| this.adopt(request)))
    }
}

impl Drop for NextRequest {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let next = {
            let mut mail = self.shared.mail.borrow_mut();
            mail.waiting.leave(&mut self.ticket);
            mail.next()
        };
        wake(next);
    }
}

/// Future that ends when the endpoint has accepted a write, message or interrupt.
#[must_use = "futures do nothing unless awaited"]
pub struct PostedFuture {
    post: Result<Post<Output, DmaError>, DmaError>,
}

impl Future for PostedFuture {
    type Output = Result<(), DmaError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.post {
            Ok(post) => Pin::new(post).poll(cx).map(Ok),
            Err(error) => Poll::Ready(Err(*error)),
        }
    }
}

/// Future of the result of a DMA read.
#[must_use = "futures do nothing unless awaited"]
pub struct DmaReadFuture<T> {
    call: Call<Output, DmaError>,
    finish: fn(Result<Data, DmaError>) -> Result<T, DmaError>,
}

impl<T> DmaReadFuture<T> {
    /// Issues the read. The future ends when the endpoint has accepted the read, and returns a second future: that of
    /// the result. The second future need not be polled early, so one task can have many outstanding reads.
    ///
    /// ```
    /// # use riser_device::{Io, DmaError};
    /// async fn two(io: &Io) -> Result<(), DmaError> {
    ///     let first = io.dma_read(0x1000, 64).begin().await;
    ///     let second = io.dma_read(0x2000, 64).begin().await;
    ///     let (first, second) = (first.await?, second.await?);
    ///     assert_eq!(first.len() + second.len(), 128);
    ///     Ok(())
    /// }
    /// ```
    pub async fn begin(mut self) -> DmaReadFuture<T> {
        poll_fn(|cx| self.call.poll_issued(cx.waker())).await;
        self
    }
}

/// Future of the value before an AtomicOp.
pub type AtomicFuture<V> = DmaReadFuture<V>;

impl<T> Future for DmaReadFuture<T> {
    type Output = Result<T, DmaError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let finish = self.finish;
        Pin::new(&mut self.call).poll(cx).map(finish)
    }
}

/// A [`Device`] that runs an `async` function.
pub struct AsyncDevice {
    shared: Rc<Shared>,
    start: Box<dyn Fn(Io)>,
    notifier: Option<Notifier>,
    messages: MessageCodes,
}

impl AsyncDevice {
    /// Returns a device that runs the future of `factory` from the first call on, and again after each reset. If the
    /// future ends, its tasks continue, but the device accepts no further requests.
    pub fn new<F, Fut>(factory: F) -> AsyncDevice
    where
        F: Fn(Io) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        AsyncDevice::with_pool(PayloadPool::new(), factory)
    }

    /// Like [`new`](Self::new), with a shared payload pool.
    pub fn with_pool<F, Fut>(pool: PayloadPool, factory: F) -> AsyncDevice
    where
        F: Fn(Io) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let start = move |io: Io| {
            let future = factory(io.clone());
            io.spawn(future);
        };
        let shared = Shared::new(Core::new(pool), FunctionState::default(), ResetKind::Fundamental);
        start(Io { shared: Rc::clone(&shared) });
        AsyncDevice { shared, start: Box::new(start), notifier: None, messages: MessageCodes::NONE }
    }

    /// Makes the device accept messages of these codes, see [`Device::messages`].
    #[must_use]
    pub fn with_messages(mut self, messages: MessageCodes) -> AsyncDevice {
        self.messages = self.messages.or(messages);
        self
    }

    fn reset(&mut self, kind: ResetKind) {
        self.shared.close();
        self.shared = Shared::new(self.shared.core.next_life(), self.shared.told.get(), kind);
        if let Some(notifier) = &self.notifier {
            self.shared.core.exec.set_notifier(notifier.clone());
        }
        (self.start)(Io { shared: Rc::clone(&self.shared) });
    }

    fn is_empty(&self, class: Class) -> bool {
        match class {
            Class::Posted => self.shared.core.is_empty(POSTED),
            Class::NonPosted => self.shared.core.is_empty(NON_POSTED),
            Class::Completion => self.shared.mail.borrow().completions.is_empty(),
        }
    }

    fn pop(&self, class: Class) -> Option<Output> {
        match class {
            Class::Posted => self.shared.core.pop(POSTED),
            Class::NonPosted => self.shared.core.pop(NON_POSTED),
            Class::Completion => {
                let (token, result) = self.shared.mail.borrow_mut().completions.pop_front()?;
                Some(Output::Complete { token, result })
            }
        }
    }
}

impl Device for AsyncDevice {
    fn handle(&mut self, now: Time, input: Input) {
        self.shared.core.advance(now);
        match input {
            Input::Request(request) => self.shared.deliver(request),
            Input::DmaDone { id, result } => match generated_number(id) {
                Some(number) => self.shared.generated_done(now, number, result),
                None => self.shared.core.finish(id.0, result),
            },
            Input::Timer => {}
            Input::Reset(kind) => self.reset(kind),
        }
        self.shared.run();
        self.shared.core.forget_news();
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        self.shared.core.set_now(now);
        if !self.shared.generated.has(class) && self.shared.core.exec.has_ready() {
            self.shared.run();
        }
        if self.shared.generated.has(class) {
            return self.shared.poll_generated(now, class);
        }
        let output = self.pop(class);
        if output.is_some() {
            self.shared.run();
        }
        self.shared.core.see(class.index(), self.is_empty(class));
        output
    }

    fn ready(&self) -> Ready {
        let core = &self.shared.core;
        if core.exec.has_ready() { Ready::ALL } else { Ready::from_bits(core.filled()) }
    }

    fn poll_taken(&mut self) -> Option<Token> {
        let taken = &mut self.shared.mail.borrow_mut().taken;
        let token = taken.pop_front();
        self.shared.core.see(TAKEN, taken.is_empty());
        token
    }

    /// Immediately if a task is ready, or if a poll of one class has produced output of another class.
    fn poll_timeout(&self) -> Option<Time> {
        match self.shared.core.news() {
            0 => self.shared.core.poll_timeout(),
            _ => Some(self.shared.core.now()),
        }
    }

    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        self.shared.core.exec.set_notifier(notifier.clone());
        self.notifier = Some(notifier);
        true
    }

    fn set_vectors(&mut self, vectors: u16) {
        self.shared.told.update(|told| FunctionState { vectors: Some(vectors), ..told });
    }

    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        self.shared.told.update(|told| FunctionState { mps, mrrs, ..told });
    }

    fn set_bus_master(&mut self, may_send: bool) {
        self.shared.told.update(|told| FunctionState { is_not_bus_master: !may_send, ..told });
    }

    fn messages(&self) -> MessageCodes {
        self.messages
    }

    fn waits_for(&self) -> Option<String> {
        let mail = self.shared.mail.borrow();
        Some(format!(
            "{}, {} requests not taken, {} reads not answered, {} completions not accepted{}",
            self.shared.core.describe(),
            mail.requests.len(),
            mail.held_reads,
            mail.completions.len(),
            self.shared.generated.waits_for(),
        ))
    }
}

impl Drop for AsyncDevice {
    fn drop(&mut self) {
        self.shared.close();
    }
}
