// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibTLP: a [`Requester`] on a [`Carrier`] with a clock.
//!
//! - Blocking: [`Client::read`], [`Client::write`], and [`Client::transfer`] for many at once, pipelined over the tags.
//! - In turns: [`Client::turn`] sends, receives and looks after timers once, for callers with a loop of their own.
//! - `async`: [`Client::block_on`] runs a program of futures, as many as it likes, on this one thread.
//! - [`control`]: messaging and configuration, which are no TLPs.
//! - [`Callbacks`]: what the peer asks: MRd, MWr, Cpl, CplD, others; in a session [`Client::announce`] asks for it.
//!
//! ```no_run
//! use riser_nettlp::client::{Client, control::Messaging};
//! use riser_nettlp::net::{ConnectOptions, TaggedOptions, connect};
//! use riser_nettlp::requester::{Rest, Settings};
//!
//! let adapter = "192.168.10.1".parse()?;
//! let carrier = connect(&ConnectOptions::new(TaggedOptions::new(adapter, 0..=15)))?;
//! let requester = Messaging::open(adapter, None)?.device_id()?;
//! let settings = Settings::for_carrier(&carrier, requester, Rest::NETWORK);
//! let mut client = Client::new(carrier, settings);
//! let mut descriptor = [0; 16];
//! client.read(0x1000, &mut descriptor)?;
//! client.write(0x2001, b"any address, any length")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every wait is bounded: a read by `(retries + 1) * timeout` and the rests of tags, a write by what the carrier allows. A
//! client belongs to one thread; for several threads make several, each with tags or a session of its own.

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
use crate::requester::{Buffers, Counters, Done, Fault, Handled, RequestError, Requester, Settings};
use batch::Batch;
use capture::encap::Origin;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tlp::rules::Refusal;
use tlp::{Duration, Repr, Time};

/// Why a call of a client failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The network refused. `ConnectionRefused`: nobody is there; `ConnectionReset`: the session has ended.
    #[error("{}", network(.0))]
    Io(#[from] io::Error),
    /// The request was answered with an error, or not at all.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The request was not taken.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The carrier cannot take TLPs of this size or tag.
    #[error(transparent)]
    Send(#[from] SendError),
    /// What was sent is not all acknowledged.
    #[error("the peer has not acknowledged all writes within {0}")]
    Unsettled(Duration),
    /// The caller's flag was set: see [`Client::stop_with`].
    #[error("interrupted")]
    Stopped,
}

fn network(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".to_owned(),
        _ => error.to_string(),
    }
}

/// Tells a client the time; never runs backwards.
pub trait Clock {
    /// Now.
    fn now(&mut self) -> Time;
}

impl Clock for net::Clock {
    fn now(&mut self) -> Time {
        net::Clock::now(self)
    }
}

/// How a client waits for what is to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waiting {
    /// Asleep.
    #[default]
    Asleep,
    /// Asking again and again: the least latency, for a whole core.
    Busy,
}

// Longest sleep where no timer asks for less.
const LONGEST_WAIT: Duration = Duration::from_ms(100);
// An acknowledgement does not end a carrier's wait.
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
    /// A client in wall time.
    pub fn new(carrier: C, settings: Settings) -> Client<C> {
        Client::with_clock(carrier, settings, net::Clock::new())
    }
}

impl<C: Carrier, K: Clock> Client<C, K> {
    /// A client with a clock of the caller's.
    pub fn with_clock(carrier: C, settings: Settings, clock: K) -> Client<C, K> {
        let requester = Requester::new(settings);
        let (waiting, replies) = (Waiting::Asleep, Replies::default());
        Client { carrier, clock, requester, waiting, replies, stop: None }
    }

    /// How it waits from now on.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Has calls that block end with [`ClientError::Stopped`] within 100 ms once `flag` is set, as by a signal: what has not
    /// ended is given up then. A signal alone, without the flag, ends no wait any more.
    pub fn stop_with(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// What was sent, received and given up.
    pub fn counters(&self) -> &Counters {
        self.requester.counters()
    }

    /// Why completions were refused, and requests not completed; one of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.requester.refusals()
    }

    /// Requests and messages of the peer that had no callback, and replies that the carrier can never take.
    pub const fn unserved(&self) -> u64 {
        self.replies.unserved()
    }

    /// The requester, for those who turn the client themselves.
    pub fn requester(&mut self) -> &mut Requester {
        &mut self.requester
    }

    /// Whether every TLP arrives: a session.
    pub fn is_reliable(&self) -> bool {
        self.carrier.is_reliable()
    }

    /// The carrier.
    pub const fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Now, on the client's clock.
    pub fn now(&mut self) -> Time {
        self.clock.now()
    }

    /// Tells the adapter that this session, where it is one, serves its host's requests, as [`Callbacks`] do: of several
    /// sessions from one address the last that has said so gets them. Ports say so by themselves. Does not block.
    ///
    /// # Errors
    /// Where the carrier has no room, or the network refuses.
    pub fn announce(&mut self) -> Result<(), ClientError> {
        announce(&mut self.carrier, self.requester.settings().requester)?;
        Ok(self.carrier.flush()?)
    }

    /// Reads `data.len()` bytes from `address` on. Blocks. After an error `data` is undefined.
    ///
    /// # Errors
    /// Where the network, the carrier or the completer refuses.
    pub fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), ClientError> {
        self.one(Transfer::Read { address, data })
    }

    /// Writes `data` from `address` on. Blocks until the last TLP was handed to the network; [`settle`](Self::settle) says
    /// whether a peer that acknowledges has all.
    ///
    /// # Errors
    /// Where the network or the carrier refuses.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), ClientError> {
        self.one(Transfer::Write { address, data })
    }

    /// Does all transfers, as many at once as there are tags, and tells `ended` of each: its place, and how it ended. They
    /// are sent in their order, and end in any. Blocks.
    ///
    /// # Errors
    /// Where the network refuses, a transfer cannot be meant, or the caller's flag is set; all that have not ended are given up
    /// then.
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

    /// Waits, at most `longest`, until the carrier has handed on all that was sent and, in a session, the peer has
    /// acknowledged it.
    ///
    /// # Errors
    /// [`ClientError::Unsettled`] where it has not, or what the network says.
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

    /// One turn: looks after timers, sends what may be sent, and receives one batch, waiting for it at most `longest`, and
    /// never beyond the next timer. Says how many TLPs came. What ended is then in
    /// [`Requester::poll_done`].
    ///
    /// # Errors
    /// What the network says. All requests are given up then, and their ends forgotten.
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

    // Whether there is anything to wait for.
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
        // Requests that have ended are for the caller to see at once.
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
        // Read once for a batch, behind the wait: no tag's rest may begin before its completion came.
        let mut now = None;
        let received = carrier.receive(wait, |arrival: Arrival<'_>| {
            let now = *now.get_or_insert_with(|| clock.now());
            let handled = requester.handle(now, arrival.tlp, buffers);
            if !matches!(handled, Handled::Answer | Handled::Late) {
                serve(&arrival, callbacks, replies);
            }
        });
        match received {
            // The flag says whether that is the end.
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
    // What is no TLP the requester has counted.
    if let Ok(parsed) = Repr::parse(arrival.tlp) {
        let incoming = Incoming { origin: arrival.origin, parsed: &parsed, tlp: arrival.tlp };
        serve::call(callbacks, &incoming, replies);
    }
}
