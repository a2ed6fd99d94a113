// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA requests that a state machine generates instead of tasks. A task costs several hundred instructions for each
//! transfer, which is much for devices that only transfer data.

use super::{Io, Shared};
use crate::seam::{DmaError, DmaId, Output};
use exec::wake;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tlp::{Class, Data, Time};

/// A state machine that generates requests of a device. Within a class, the requests of the generator go before those
/// of the tasks.
///
/// ```
/// use riser_device::io::{Generator, Io};
/// use riser_device::{DmaError, DmaWrite, Output};
/// use tlp::{Class, Data, Time};
///
/// /// Writes 64 bytes at each multiple of 64 below `end`.
/// struct Fill {
///     next: u64,
///     end: u64,
/// }
///
/// impl Generator for Fill {
///     fn outputs(&self) -> u8 {
///         u8::from(self.next < self.end) << Class::Posted.index()
///     }
///
///     fn poll_output(&mut self, _now: Time, class: Class) -> Option<Output> {
///         if class != Class::Posted || self.next >= self.end {
///             return None;
///         }
///         let write = DmaWrite::new(self.next, Data::Counted(64));
///         self.next += 64;
///         Some(Output::Write(write))
///     }
///
///     fn handle_done(&mut self, _now: Time, _number: u32, _result: Result<Data, DmaError>) {}
///
///     fn is_done(&self) -> bool {
///         self.next >= self.end
///     }
/// }
///
/// async fn device(io: Io) -> Result<(), DmaError> {
///     io.generate(Box::new(Fill { next: 0, end: 4096 })).await;
///     io.interrupt(0).await
/// }
/// ```
pub trait Generator {
    /// Returns the classes in which the generator has requests, as bits by [`Class::index`]. The bit of completions has
    /// no effect.
    fn outputs(&self) -> u8;

    /// Returns the next request of `class`, which the endpoint accepts. Reads and AtomicOps have IDs made by [`generated_id`].
    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output>;

    /// Handles the end of read or AtomicOp `number`.
    fn handle_done(&mut self, now: Time, number: u32, result: Result<Data, DmaError>);

    /// Returns whether the generator will have no further requests.
    fn is_done(&self) -> bool;
}

/// Bit that is set in the IDs of generated reads and AtomicOps, and in no other IDs.
const GENERATED: u32 = 1 << exec::ID_BITS;
/// The classes of which a device has requests, bits by [`Class::index`].
const REQUESTS: u8 = 1 << Class::Posted.index() | 1 << Class::NonPosted.index();

/// Returns the ID of read or AtomicOp `number`, below 2^31, of a [`Generator`].
pub const fn generated_id(number: u32) -> DmaId {
    DmaId(GENERATED | number)
}

/// Returns the number of a generated read or AtomicOp; `None` if a task has issued it.
pub(super) const fn generated_number(id: DmaId) -> Option<u32> {
    if id.0 & GENERATED == 0 { None } else { Some(id.0 & !GENERATED) }
}

/// The generator of a device, if there is one.
#[derive(Default)]
pub(super) struct Generated {
    generator: RefCell<Option<Box<dyn Generator>>>,
    waker: Cell<Option<Waker>>,
    outputs: Cell<u8>,
}

impl Generated {
    /// Returns whether the generator has a request of `class`.
    #[inline(always)]
    pub(super) fn has(&self, class: Class) -> bool {
        self.outputs.get() & 1 << class.index() != 0
    }

    /// Returns the classes of generated requests that were not accepted, as the end of a line. Empty if all were
    /// accepted.
    pub(super) fn waits_for(&self) -> &'static str {
        match (self.has(Class::Posted), self.has(Class::NonPosted)) {
            (false, false) => "",
            (true, false) => ", generated posted requests not accepted",
            (false, true) => ", generated non-posted requests not accepted",
            (true, true) => ", generated requests not accepted",
        }
    }

    /// Drops the generator; its future never ends.
    pub(super) fn clear(&self) {
        self.generator.take();
        self.outputs.set(0);
    }
}

/// Future that ends when a generator is done.
#[must_use = "futures do nothing unless awaited"]
pub struct Generating {
    shared: Rc<Shared>,
}

impl Future for Generating {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let generated = &self.shared.generated;
        if generated.generator.borrow().is_none() {
            return Poll::Ready(());
        }
        generated.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Io {
    /// Makes `generator` generate requests from now on, instead of an earlier one. The future ends when the generator
    /// has no further requests.
    pub fn generate(&self, generator: Box<dyn Generator>) -> Generating {
        let shared = Rc::clone(&self.shared);
        shared.note_generated(&*generator);
        shared.generated.generator.replace(Some(generator));
        Generating { shared }
    }
}

impl Shared {
    /// Returns the next request of the generator, which has a request of `class`.
    #[inline(always)]
    pub(super) fn poll_generated(&self, now: Time, class: Class) -> Option<Output> {
        let output = self.with_generator(|generator| generator.poll_output(now, class));
        if !self.generated.has(class) {
            self.core.see(class.index(), self.core.is_empty(class.index()));
        }
        output
    }

    pub(super) fn generated_done(&self, now: Time, number: u32, result: Result<Data, DmaError>) {
        self.with_generator(|generator| generator.handle_done(now, number, result));
    }

    /// Calls the generator, and records which requests it has then. Returns the default if there is no generator.
    #[inline(always)]
    fn with_generator<T: Default>(&self, call: impl FnOnce(&mut dyn Generator) -> T) -> T {
        let mut slot = self.generated.generator.borrow_mut();
        let Some(generator) = slot.as_mut() else { return T::default() };
        let result = call(&mut **generator);
        self.note_generated(&**generator);
        let is_done = self.generated.outputs.get() == 0 && generator.is_done();
        drop(slot);
        if is_done {
            self.end_generated();
        }
        result
    }

    /// Records the classes in which the generator has requests now.
    #[inline]
    fn note_generated(&self, generator: &dyn Generator) {
        let now = generator.outputs() & REQUESTS;
        let mut new = now & !self.generated.outputs.replace(now);
        while new != 0 {
            self.core.tell(new.trailing_zeros() as usize);
            new &= new - 1;
        }
    }

    #[cold]
    fn end_generated(&self) {
        self.generated.clear();
        wake(self.generated.waker.take());
        self.run();
    }
}
