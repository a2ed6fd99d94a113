// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures over one client: a program reads and writes as if it were alone, and the client turns beneath it.
//!
//! One thread, no executor of others: [`Client::block_on`] polls the program when one of its requests has ended, and turns the
//! client in between. Combinators that keep wakers of their own work, since every request wakes whom it should.

use super::{Callbacks, Client, ClientError, Clock, LONGEST_WAIT};
use crate::carrier::Carrier;
use crate::requester::{Buffers, Done, RequestError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

enum State {
    /// Not yet given to the requester.
    Asked,
    /// With the requester.
    Begun,
    Ended(Result<(), ClientError>),
}

struct Call {
    address: u64,
    is_write: bool,
    data: Vec<u8>,
    state: State,
    waker: Option<Waker>,
    /// Whether its future is gone: nobody will ask how it ended.
    is_dropped: bool,
}

/// The calls of a program, by token.
#[derive(Default)]
struct Calls {
    table: Vec<Option<Call>>,
    free: Vec<usize>,
    asked: VecDeque<usize>,
}

impl Calls {
    fn call(&mut self, token: u64) -> Option<&mut Call> {
        self.table.get_mut(token as usize)?.as_mut()
    }

    fn ask(&mut self, call: Call) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        self.table[place] = Some(call);
        self.asked.push_back(place);
        place
    }

    fn end(&mut self, place: usize, result: Result<(), ClientError>) {
        let Some(call) = self.call(place as u64) else { return };
        call.state = State::Ended(result);
        let waker = call.waker.take();
        if call.is_dropped {
            self.release(place);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn release(&mut self, place: usize) -> Option<Call> {
        self.free.push(place);
        self.table[place].take()
    }
}

impl Buffers for Calls {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.call(token)?.data.get_mut(offset as usize..)?.get_mut(..len)
    }

    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]> {
        self.table.get(token as usize)?.as_ref()?.data.get(offset as usize..)?.get(..len)
    }
}

/// A program's hands: reads and writes that are futures. Clones share one client.
#[derive(Clone, Default)]
pub struct Io(Rc<RefCell<Calls>>);

impl Io {
    /// Reads `len` bytes from `address` on. Dropped before it ends, it still runs to its end.
    ///
    /// # Errors
    /// Where the request is refused, or ends with a fault.
    pub async fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, ClientError> {
        self.call(address, false, vec![0; len]).await
    }

    /// Writes `data` from `address` on; ends when its last TLP was handed to the carrier.
    ///
    /// # Errors
    /// Where the request is refused.
    pub async fn write(&self, address: u64, data: Vec<u8>) -> Result<(), ClientError> {
        self.call(address, true, data).await.map(|_| ())
    }

    fn call(&self, address: u64, is_write: bool, data: Vec<u8>) -> Pending {
        let call = Call { address, is_write, data, state: State::Asked, waker: None, is_dropped: false };
        let place = self.0.borrow_mut().ask(call);
        Pending { io: self.clone(), place: Some(place) }
    }
}

/// A call that has not ended.
struct Pending {
    io: Io,
    place: Option<usize>,
}

impl Future for Pending {
    type Output = Result<Vec<u8>, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let place = self.place.expect("a future is not polled after its end");
        let calls = Rc::clone(&self.io.0);
        let mut calls = calls.borrow_mut();
        let call = calls.call(place as u64).expect("a call stays until its future has its result");
        if !matches!(call.state, State::Ended(_)) {
            call.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.place = None;
        let call = calls.release(place).expect("it was there just now");
        let State::Ended(result) = call.state else { unreachable!("looked at above") };
        Poll::Ready(result.map(|()| call.data))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut calls = self.io.0.borrow_mut();
        let Some(call) = calls.call(place as u64) else { return };
        match call.state {
            State::Ended(_) => drop(calls.release(place)),
            _ => (call.is_dropped, call.waker) = (true, None),
        }
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<C: Carrier, K: Clock> Client<C, K> {
    /// Runs `program` to its end, with TLPs of the peer going to `callbacks`. Blocks.
    ///
    /// # Errors
    /// What the network says; the program is dropped then.
    pub fn block_on<F: Future>(
        &mut self,
        callbacks: &mut impl Callbacks,
        program: impl FnOnce(Io) -> F,
    ) -> Result<F::Output, ClientError> {
        let io = Io::default();
        let mut program = pin!(program(io.clone()));
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        loop {
            if flag.0.swap(false, Ordering::Relaxed)
                && let Poll::Ready(output) = program.as_mut().poll(&mut Context::from_waker(&waker))
            {
                // Calls whose futures were dropped have nobody to end for.
                self.give_up();
                return Ok(output);
            }
            let calls = &mut *io.0.borrow_mut();
            self.begin_calls(calls);
            if !flag.0.load(Ordering::Relaxed) {
                self.turn(calls, callbacks, LONGEST_WAIT)?;
            }
            while let Some(Done { token, result, .. }) = self.requester.poll_done() {
                calls.end(token as usize, result.map(|_| ()).map_err(ClientError::from));
            }
        }
    }

    fn begin_calls(&mut self, calls: &mut Calls) {
        while let Some(&place) = calls.asked.front() {
            let Some(call) = calls.call(place as u64) else { break };
            let (address, len) = (call.address, call.data.len() as u64);
            let begun = match call.is_write {
                _ if len == 0 => Ok(None),
                true => self.requester.write(address, len, place as u64).map(Some),
                false => self.requester.read(address, len, place as u64).map(Some),
            };
            match begun {
                // Waits for others to end.
                Err(RequestError::NoRoom(_)) => return,
                Ok(Some(_)) => call.state = State::Begun,
                Ok(None) => calls.end(place, Ok(())),
                Err(error) => calls.end(place, Err(error.into())),
            }
            calls.asked.pop_front();
        }
    }
}
