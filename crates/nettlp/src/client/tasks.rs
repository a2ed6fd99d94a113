// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures over one client: each task reads and writes as if it were the only task.
//!
//! Single-threaded and without an external executor: [`Client::block_on`] polls the program when one of its requests has
//! ended. Between the polls, it runs turns of the client. Combinators with their own wakers work, because every
//! request wakes its own future.

use super::{Callbacks, Client, ClientError, Clock, LONGEST_WAIT};
use crate::carrier::Carrier;
use crate::requester::{Buffers, Done, RequestError};
use futures_channel::oneshot;
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

type Answer = Result<Vec<u8>, ClientError>;

struct Call {
    address: u64,
    is_write: bool,
    data: Vec<u8>,
    answer: oneshot::Sender<Answer>,
}

/// Reads and writes of a program, by token.
#[derive(Default)]
struct Calls {
    table: Slab<Call>,
    /// Tokens of the reads and writes that were not yet passed to the requester.
    asked: VecDeque<usize>,
}

impl Calls {
    fn end(&mut self, place: usize, result: Result<(), ClientError>) {
        let Some(Call { data, answer, .. }) = self.table.try_remove(place) else { return };
        // The send fails if the future was dropped. The result is not needed then.
        let _ = answer.send(result.map(|()| data));
    }
}

impl Buffers for Calls {
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.table.get_mut(token as usize)?.data.get_mut(offset as usize..)?.get_mut(..len)
    }

    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]> {
        self.table.get(token as usize)?.data.get(offset as usize..)?.get(..len)
    }
}

/// Handle with which a program reads and writes asynchronously. Clones share one client.
#[derive(Clone, Default)]
pub struct Io(Rc<RefCell<Calls>>);

impl Io {
    /// Reads `len` bytes from `address`. If the future is dropped early, the read still runs to its end.
    ///
    /// # Errors
    /// If the request is rejected, or ends with a fault.
    pub async fn read(&self, address: u64, len: usize) -> Answer {
        self.call(address, false, vec![0; len]).await
    }

    /// Writes `data` from `address`. Ends when its last TLP was passed to the carrier.
    ///
    /// # Errors
    /// If the request is rejected.
    pub async fn write(&self, address: u64, data: Vec<u8>) -> Result<(), ClientError> {
        self.call(address, true, data).await.map(|_| ())
    }

    async fn call(&self, address: u64, is_write: bool, data: Vec<u8>) -> Answer {
        let (answer, ended) = oneshot::channel();
        {
            let calls = &mut *self.0.borrow_mut();
            calls.asked.push_back(calls.table.insert(Call { address, is_write, data, answer }));
        }
        ended.await.expect("a call ends before its program's client does")
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
    /// Runs `program` to its end, and passes TLPs of the peer to `callbacks`. Blocks.
    ///
    /// # Errors
    /// Errors of the network; the program is then dropped.
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
                // The results of reads and writes whose futures were dropped are not needed.
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
            let Some(call) = calls.table.get(place) else { break };
            let (address, len) = (call.address, call.data.len() as u64);
            let begun = match call.is_write {
                _ if len == 0 => Ok(None),
                true => self.requester.write(address, len, place as u64).map(Some),
                false => self.requester.read(address, len, place as u64).map(Some),
            };
            match begun {
                // Waits until other requests end.
                Err(RequestError::NoRoom(_)) => return,
                Ok(Some(_)) => {}
                Ok(None) => calls.end(place, Ok(())),
                Err(error) => calls.end(place, Err(error.into())),
            }
            calls.asked.pop_front();
        }
    }
}
