// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One port of a PCI Express link: the Physical Layer's time and framing, the Data Link Layer, and the Transaction
//! Layer's transmit gating by credits, as a state machine without clock and I/O.
//!
//! ```text
//!          enqueue                                       handle_frame -> Tlp
//!             |                                                ^
//!   transmit queue, ordering (tx, order)              credit check (credit)
//!             |                                                |
//!   credits (credit)                                  sequence, Ack and Nak (rx)
//!             |                                                |
//!   sequence, replay buffer (replay)                  LCRC, CRC-16 (frame)
//!             |                                                |
//!   serializer, SKP (timing)                                   |
//!             v                                                |
//!       poll_transmit -> Frame                               Frame
//! ```
//!
//! Whoever drives a [`Port`] tells it the time, carries its [`Frame`]s to the port at the other end, and asks again
//! after every call what may be sent ([`Port::transmit_ready_at`]) and when the next timer is due
//! ([`Port::poll_timeout`]).
//!
//! The crate never reads a clock, never uses floats or randomness, never panics on what the other end sends, and
//! never allocates for an intact frame once it runs. What it leaves out: link training (a port starts in L0),
//! power states, equalization, Extended Synch, lane-to-lane skew, EDS tokens, scaled flow control, virtual channels
//! but VC0, and FLIT mode.

mod config;
mod counters;
mod credit;
mod frame;
mod init;
mod order;
mod port;
mod replay;
mod rx;
mod sequence;
mod stall;
mod store;
mod timing;
mod tx;
mod update;

pub use config::{ConfigError, CreditLimit, PortConfig, ReplayTimerRule};
pub use counters::{Counters, DllpCounters};
pub use frame::{DLLP_WIRE_BYTES, Damage, Frame, TLP_FRAMING_BYTES, Transmission};
pub use order::{Passing, may_pass};
pub use port::Port;
pub use timing::symbol_times;
