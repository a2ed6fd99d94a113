// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One port of a PCI Express link, as a state machine without a clock or I/O: the Physical Layer's time and framing,
//! the Data Link Layer, and the Transaction Layer's transmit gating by credits.
//!
//! ```text
//!          enqueue                                       handle_frame: a TLP
//!             |                                                ^
//!   for each channel (channel):
//!   transmit queue, ordering (tx, order)              credit check (credit)
//!   credits (credit)                                           |
//!             |                                                |
//!   VC arbitration (arbiter)                          sequence, Ack and Nak (rx)
//!             |                                                |
//!   sequence, replay buffer (replay)                  LCRC, CRC-16 (frame)
//!             |                                                |
//!   serializer, SKP (timing)                                   |
//!             v                                                |
//!       poll_transmit -> Frame                               Frame
//! ```
//!
//! The driver of a [`Port`] passes it the time and carries its [`Frame`]s to the port at the other end. After every
//! call it polls the time of the next transmission ([`Port::transmit_ready_at`]) and of the next timer
//! ([`Port::poll_timeout`]).
//!
//! The crate never reads a clock, never uses floats or randomness, never panics on input from the other end, and after
//! its start never allocates for an intact frame. It omits link training: a port starts in L0, and during a change of
//! rate or width the wire is silent. It also omits power states, equalization, Extended Synch, lane-to-lane skew, EDS
//! tokens, and FLIT mode.

mod arbiter;
mod channel;
mod config;
mod counters;
mod credit;
mod frame;
mod init;
mod notice;
mod order;
mod port;
mod rare;
mod replay;
mod rx;
mod sequence;
mod stall;
mod store;
mod timing;
mod tx;
mod update;
mod wire_form;

pub use arbiter::{PhaseError, PhaseTable, VcArbitration, VcScheme};
pub use config::{ConfigError, CreditLimit, FlowControlMode, PortConfig, ReplayCursor, ReplayTimerRule};
pub use counters::{Counters, DllpCounters, VcCounters};
pub use credit::UnusedCredits;
pub use frame::{DLLP_WIRE_BYTES, Damage, Frame, QueueWait, Sent, SentFrame, TLP_FRAMING_BYTES};
pub use notice::{Notice, header_log};
pub use order::{Passing, may_pass};
pub use port::{CarriedAs, ChannelResource, Channels, Lost, Port, SentTlp, carried_as};
pub use rare::Rare;
pub use replay::TransmitTimes;
pub use timing::{symbol_times, wire_time};
pub use wire_form::{Ending, FrameError, Integrity, WireFrame, WireKind, tlp_frame};
