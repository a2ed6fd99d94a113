// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue between tasks, with any number of senders and receivers. A channel can connect tasks of one device or
//! program, functions of one endpoint that share an engine, or a driver and its test. A channel needs no simulated
//! time: a value is available at the instant when it was sent.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Values of a channel, and tasks that wait.
struct Queue<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// All waiting tasks are woken together; tasks that find nothing wait again. Tasks of functions that were reset do
    /// no harm here.
    senders: VecDeque<Waker>,
    receivers: VecDeque<Waker>,
}

/// A bounded first-in first-out queue between tasks, for any number of senders and receivers. Clones are handles of the
/// same queue. The channel survives resets of the functions whose tasks use it.
///
/// A device with several workers, each of which takes the next piece of work:
///
/// ```
/// use riser_device::io::{Io, Request};
/// use riser_device::{AsyncDevice, Channel};
///
/// let device = AsyncDevice::new(|io: Io| async move {
///     let work = Channel::new(64);
///     for _ in 0..4 {
///         let (io, work) = (io.clone(), work.clone());
///         io.clone().spawn(async move {
///             loop {
///                 let address: u64 = work.receive().await;
///                 let _ = io.dma_read(address, 64).await;
///             }
///         });
///     }
///     while let Some(request) = io.next_request().await {
///         if let Request::Write(doorbell) = request {
///             work.send(doorbell.u64()).await;
///         }
///     }
/// });
/// ```
///
/// Functions of one endpoint with one engine:
///
/// ```
/// use riser_device::io::{Io, Request};
/// use riser_device::{AsyncDevice, Channel};
///
/// let work = Channel::new(64);
/// let physical = AsyncDevice::new({
///     let work = work.clone();
///     move |io: Io| {
///         let work = work.clone();
///         async move {
///             loop {
///                 let address: u64 = work.receive().await;
///                 io.sleep(tlp::Duration::from_ns(100)).await;
///                 let _ = address;
///             }
///         }
///     }
/// });
/// let virtual_function = move |_n: u16| {
///     let work = work.clone();
///     AsyncDevice::new(move |io: Io| {
///         let work = work.clone();
///         async move {
///             while let Some(request) = io.next_request().await {
///                 if let Request::Write(doorbell) = request {
///                     work.send(doorbell.u64()).await;
///                 }
///             }
///         }
///     })
/// };
/// ```
pub struct Channel<T>(Rc<RefCell<Queue<T>>>);

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Channel<T> {
        Channel(Rc::clone(&self.0))
    }
}

impl<T> Channel<T> {
    /// Returns a channel with room for `capacity` values; `capacity` is at least one.
    pub fn new(capacity: usize) -> Channel<T> {
        let (values, capacity) = (VecDeque::new(), capacity.max(1));
        let (senders, receivers) = (VecDeque::new(), VecDeque::new());
        Channel(Rc::new(RefCell::new(Queue { values, capacity, senders, receivers })))
    }

    /// Adds a value; waits while the channel is full. A future that is dropped before it ends sends no value.
    pub fn send(&self, value: T) -> Send<'_, T> {
        Send { channel: self, value: Some(value) }
    }

    /// Takes the oldest value; waits while the channel is empty. Each value goes to one receiver.
    pub fn receive(&self) -> Receive<'_, T> {
        Receive { channel: self }
    }

    /// Returns the number of values in the channel.
    pub fn len(&self) -> usize {
        self.0.borrow().values.len()
    }

    /// True if the channel is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes the first `count` tasks of a list. The queue is not borrowed while a waker runs.
    fn wake(&self, count: usize, list: fn(&mut Queue<T>) -> &mut VecDeque<Waker>) {
        for _ in 0..count {
            let waker = list(&mut self.0.borrow_mut()).pop_front();
            exec::wake(waker);
        }
    }
}

/// Adds a waker, unless the list has one for the same task.
fn wait(waiting: &mut VecDeque<Waker>, waker: &Waker) {
    if !waiting.iter().any(|w| w.will_wake(waker)) {
        waiting.push_back(waker.clone());
    }
}

/// Future that ends when the value is in the channel.
#[must_use = "futures do nothing unless awaited"]
pub struct Send<'a, T> {
    channel: &'a Channel<T>,
    value: Option<T>,
}

impl<T: Unpin> Future for Send<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let receivers = {
            let mut queue = self.channel.0.borrow_mut();
            if queue.values.len() >= queue.capacity {
                wait(&mut queue.senders, cx.waker());
                return Poll::Pending;
            }
            queue.values.extend(self.value.take());
            queue.receivers.len()
        };
        self.channel.wake(receivers, |queue| &mut queue.receivers);
        Poll::Ready(())
    }
}

/// Future of the received value.
#[must_use = "futures do nothing unless awaited"]
pub struct Receive<'a, T> {
    channel: &'a Channel<T>,
}

impl<T> Future for Receive<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let (value, senders) = {
            let mut queue = self.channel.0.borrow_mut();
            let Some(value) = queue.values.pop_front() else {
                wait(&mut queue.receivers, cx.waker());
                return Poll::Pending;
            };
            (value, queue.senders.len())
        };
        self.channel.wake(senders, |queue| &mut queue.senders);
        Poll::Ready(value)
    }
}
