// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibTLP: a [`Requester`] on a [`Carrier`] with a clock.
//!
//! - Blocking: [`Client::read`], [`Client::write`], and [`Client::transfer`] for many requests at once, pipelined
//!   over the tags.
//! - One turn at a time: [`Client::turn`] sends, receives and runs timers once, for callers with their own loop.
//! - `async`: [`Client::block_on`] runs a program of any number of futures on this thread.
//! - [`control`]: messaging and configuration, which do not use TLPs.
//! - [`Callbacks`]: TLPs from the peer: MRd, MWr, Cpl, CplD, others. In a session, [`Client::announce`] makes the
//!   peer send
//!   them.
//!
//! ```no_run
//! use riser_nettlp::client::{Client, control::Messaging};
//! use riser_nettlp::net::{ConnectOptions, TaggedOptions, connect};
//! use riser_nettlp::requester::{RequesterSettings, Rest};
//!
//! let adapter = "192.168.10.1".parse()?;
//! let carrier = connect(&ConnectOptions::new(TaggedOptions::new(adapter, 0..=15)))?;
//! let requester = Messaging::open(adapter, None)?.device_id()?;
//! let settings = RequesterSettings::for_carrier(&carrier, requester, Rest::NETWORK);
//! let mut client = Client::new(carrier, settings);
//! let mut descriptor = [0; 16];
//! client.read(0x1000, &mut descriptor)?;
//! client.write(0x2001, b"any address, any length")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every wait is bounded. A read waits at most `(retries + 1) * timeout` and the rest times of tags. A write waits
//! at most as long as the carrier allows. A client belongs to one thread. For several threads, create several
//! clients, each with its own tags or session.

mod batch;
pub mod control;
mod interruptible;
mod serve;
mod tasks;

pub use batch::Transfer;
pub use interruptible::{WriteError, WriteStep};
pub use serve::{Callbacks, Incoming, REPLY_BYTES, Replies, RepliesFull};
pub use tasks::Io;

use crate::carrier::{Arrival, Carrier, SendError, Wait, announce};
use crate::net;
use crate::requester::{Buffers, Counters, Done, Fault, Handled, RequestError, Requester, RequesterSettings};
use batch::Batch;
use capture::encap::Origin;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tlp::rules::Refusal;
use tlp::{Duration, Repr, Time};

/// Reason why a call of a client failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Network error. `ConnectionRefused`: no program listens at the peer; `ConnectionReset`: the session has ended.
    #[error("{}", network(.0))]
    Io(#[from] io::Error),
    /// The answer to the request was an error, or there was no answer.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The request was rejected.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The carrier cannot send TLPs of this size or tag.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Some writes are not acknowledged.
    #[error("the peer has not acknowledged all writes within {0}")]
    Unsettled(Duration),
    /// The caller's flag was set: see [`Client::stop_with`].
    #[error("interrupted")]
    Stopped,
}

fn network(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "no program listens there (connection refused)".to_owned(),
        _ => error.to_string(),
    }
}

/// Clock of a client; never runs backwards.
pub trait Clock {
    /// Returns the current time.
    fn now(&mut self) -> Time;
}

impl Clock for net::Clock {
    fn now(&mut self) -> Time {
        net::Clock::now(self)
    }
}

/// How a client waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waiting {
    /// Sleeping.
    #[default]
    Asleep,
    /// Polling: the lowest latency, but uses a whole core.
    Busy,
}

// Longest sleep if no timer is due earlier.
const LONGEST_WAIT: Duration = Duration::from_ms(100);
// The arrival of an acknowledgement does not end the wait of a carrier, so each wait is short.
const SETTLE_WAIT: Duration = Duration::from_ms(1);

/// See the [module](self).
pub struct Client<C, K = net::Clock> {
    carrier: C,
    clock: K,
    requester: Requester,
    waiting: Waiting,
    replies: Replies,
    stop: Option<Arc<AtomicBool>>,
}

impl<C: Carrier> Client<C> {
    /// Creates a client that uses wall time.
    pub fn new(carrier: C, settings: RequesterSettings) -> Client<C> {
        Client::with_clock(carrier, settings, net::Clock::new())
    }
}

impl<C: Carrier, K: Clock> Client<C, K> {
    /// Creates a client with the caller's clock.
    pub fn with_clock(carrier: C, settings: RequesterSettings, clock: K) -> Client<C, K> {
        let requester = Requester::new(settings);
        let (waiting, replies) = (Waiting::Asleep, Replies::default());
        Client { carrier, clock, requester, waiting, replies, stop: None }
    }

    /// Sets how the client waits.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Makes blocking calls end with [`ClientError::Stopped`] within 100 ms after `flag` is set, for example by a signal
    /// handler. Requests in progress are given up then. A signal that does not set the flag no longer ends a wait.
    pub fn stop_with(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Returns the counters of sent, received and given-up TLPs.
    pub fn counters(&self) -> &Counters {
        self.requester.counters()
    }

    /// Returns the reasons why completions were refused and requests failed, one reason of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.requester.refusals()
    }

    /// Returns the number of requests and messages of the peer without a callback, plus replies that the carrier can never
    /// send.
    pub const fn unserved(&self) -> u64 {
        self.replies.unserved()
    }

    /// Returns the requester, for callers of [`turn`](Self::turn).
    pub fn requester(&mut self) -> &mut Requester {
        &mut self.requester
    }

    /// Returns true if every TLP arrives, as in a session.
    pub fn is_reliable(&self) -> bool {
        self.carrier.is_reliable()
    }

    /// Returns the carrier.
    pub const fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Returns the current time of the client's clock.
    pub fn now(&mut self) -> Time {
        self.clock.now()
    }

    /// In a session, tells the adapter that this session serves the host's requests, through [`Callbacks`]. If several
    /// sessions from one address announce themselves, the last one receives the requests. Over ports, has no
    /// effect. Does not block.
    ///
    /// # Errors
    /// If the carrier has no room, or the network fails.
    pub fn announce(&mut self) -> Result<(), ClientError> {
        announce(&mut self.carrier, self.requester.settings().requester)?;
        Ok(self.carrier.flush()?)
    }

    /// Reads `data.len()` bytes from `address`. Blocks. After an error the content of `data` is undefined.
    ///
    /// # Errors
    /// If the network, the carrier or the completer fails.
    pub fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), ClientError> {
        self.one(Transfer::Read { address, data })
    }

    /// Writes `data` from `address`. Blocks until the last TLP was passed to the network. In a session,
    /// [`settle`](Self::settle) waits until the peer has acknowledged all TLPs.
    ///
    /// # Errors
    /// If the network or the carrier fails.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), ClientError> {
        self.one(Transfer::Write { address, data })
    }

    /// Executes all transfers, as many at once as there are tags, and calls `ended` for each with its index and result.
    /// Transfers are sent in order, and end in any order. Blocks.
    ///
    /// # Errors
    /// If the network fails, a transfer is invalid, or the caller's flag is set. All unfinished transfers are then given up.
    pub fn transfer(
        &mut self,
        transfers: &mut [Transfer<'_>],
        mut ended: impl FnMut(usize, Result<u64, Fault>),
    ) -> Result<(), ClientError> {
        let (mut begun, mut open) = (0, 0usize);
        while begun < transfers.len() || open > 0 {
            if let Err(stopped) = self.check_stop() {
                self.give_up();
                return Err(stopped);
            }
            while begun < transfers.len() && self.requester.under_way() < self.requester.settings().requests {
                let token = begun as u64;
                open += usize::from(self.begin(&transfers[begun], token)?);
                begun += 1;
            }
            self.turn(&mut Batch(transfers), &mut (), LONGEST_WAIT)?;
            while let Some(Done { token, result, .. }) = self.requester.poll_done() {
                open -= 1;
                ended(token as usize, result);
            }
        }
        Ok(())
    }

    /// Waits, at most `longest`, until the carrier has passed on everything sent and, in a session, the peer has
    /// acknowledged it.
    ///
    /// # Errors
    /// [`ClientError::Unsettled`] if this takes longer than `longest`, or an error of the network.
    pub fn settle(&mut self, longest: Duration) -> Result<(), ClientError> {
        let end = self.clock.now() + longest;
        while !self.carrier.is_idle() {
            self.check_stop()?;
            let now = self.clock.now();
            if now >= end {
                return Err(ClientError::Unsettled(longest));
            }
            self.turn(&mut crate::requester::Nowhere, &mut (), end.since(now).min(SETTLE_WAIT))?;
        }
        Ok(())
    }

    /// Runs one turn: runs expired timers, sends TLPs, and receives one batch. Waits for the batch at most `longest`,
    /// and never beyond the next timer. Returns the number of received TLPs. Finished requests are then in
    /// [`Requester::poll_done`].
    ///
    /// # Errors
    /// Errors of the network. All requests are then given up, and their results discarded.
    pub fn turn(
        &mut self,
        buffers: &mut impl Buffers,
        callbacks: &mut impl Callbacks,
        longest: Duration,
    ) -> Result<usize, ClientError> {
        self.try_turn(buffers, callbacks, longest).inspect_err(|_| self.give_up())
    }

    fn check_stop(&self) -> Result<(), ClientError> {
        let is_set = self.stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        if is_set { Err(ClientError::Stopped) } else { Ok(()) }
    }

    fn one(&mut self, transfer: Transfer<'_>) -> Result<(), ClientError> {
        let mut result = Ok(0);
        self.transfer(&mut [transfer], |_, ended| result = ended)?;
        Ok(result.map(|_| ())?)
    }

    // Returns true if there is something to wait for.
    fn begin(&mut self, transfer: &Transfer<'_>, token: u64) -> Result<bool, ClientError> {
        let len = transfer.len() as u64;
        let begun = match transfer {
            _ if len == 0 => return Ok(false),
            Transfer::Read { address, .. } => self.requester.read(*address, len, token),
            Transfer::Write { address, .. } => self.requester.write(*address, len, token),
        };
        begun.inspect_err(|_| self.give_up())?;
        Ok(true)
    }

    fn try_turn(
        &mut self,
        buffers: &mut impl Buffers,
        callbacks: &mut impl Callbacks,
        longest: Duration,
    ) -> Result<usize, ClientError> {
        let now = self.clock.now();
        self.requester.handle_timeout(now);
        self.replies.send(&mut self.carrier);
        self.transmit(now, buffers)?;
        self.carrier.flush()?;
        let wait = self.wait(now, longest);
        let count = self.receive(wait, buffers, callbacks)?;
        if !self.replies.is_empty() {
            self.replies.send(&mut self.carrier);
            self.carrier.flush()?;
        }
        Ok(count)
    }

    fn transmit(&mut self, now: Time, buffers: &impl Buffers) -> Result<(), ClientError> {
        while let Some(outgoing) = self.requester.poll_transmit() {
            let sent = self.carrier.send(Origin::Device, outgoing.tag(), outgoing.tlp_len(), |slot| {
                outgoing.emit(buffers, slot);
            });
            match sent {
                Ok(()) => self.requester.sent(now, &outgoing),
                Err(SendError::NoRoom) => {
                    self.carrier.flush()?;
                    if self.carrier.room() == 0 {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, now: Time, longest: Duration) -> Wait {
        // The caller must see finished requests at once.
        if self.requester.has_done() {
            return Wait::Never;
        }
        let timer = self.requester.poll_timeout().map_or(longest, |at| at.since(now).min(longest));
        match self.waiting {
            _ if timer == Duration::ZERO => Wait::Never,
            Waiting::Asleep => Wait::AtMost(timer),
            Waiting::Busy => Wait::Busy(timer),
        }
    }

    fn receive(
        &mut self,
        wait: Wait,
        buffers: &mut impl Buffers,
        callbacks: &mut impl Callbacks,
    ) -> Result<usize, ClientError> {
        let Client { carrier, clock, requester, replies, stop, .. } = self;
        // The clock is read once per batch, after the wait, so that no tag starts to rest before its completion has
        // arrived.
        let mut now = None;
        let received = carrier.receive(wait, |arrival: Arrival<'_>| {
            let now = *now.get_or_insert_with(|| clock.now());
            let handled = requester.handle(now, arrival.tlp, buffers);
            if !matches!(handled, Handled::Answer | Handled::Late) {
                serve(&arrival, callbacks, replies);
            }
        });
        match received {
            // The flag decides whether the call ends.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && stop.is_some() => Ok(0),
            received => Ok(received?),
        }
    }

    fn give_up(&mut self) {
        let now = self.clock.now();
        self.requester.cancel_all(now);
        while self.requester.poll_done().is_some() {}
    }
}

#[cold]
fn serve(arrival: &Arrival<'_>, callbacks: &mut impl Callbacks, replies: &mut Replies) {
    // The requester has already counted malformed TLPs.
    if let Ok(parsed) = Repr::parse(arrival.tlp) {
        let incoming = Incoming { origin: arrival.origin, parsed: &parsed, tlp: arrival.tlp };
        serve::call(callbacks, &incoming, replies);
    }
}
