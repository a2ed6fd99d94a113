// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between a front and a design that sends and receives TLPs. This trait does not depend on the front.

use crate::port::Clocked;
use config::ConfigSpace;
use device::seam::{BarIndex, DmaError, Ready, ResetKind, Token};
use std::fmt;
use tlp::message::MessageCodes;
use tlp::{Bdf, Class, RuleId, Tag, Time, Tlp, Violation};

/// A design driven by a front. Sans-IO like a [`Device`](device::Device), but it sees TLPs. Requests that hit a BAR of
/// one of its functions arrive unchanged. The design chooses the tags of its own requests.
pub trait TlpDesign {
    /// Takes an input. Does not block. The caller polls resulting outputs.
    fn handle(&mut self, now: Time, input: DesignInput);

    /// Returns the next output of `class`, if there is one. Interrupts and PME are posted. A polled output is sent, or
    /// comes back as [`DesignInput::Refused`].
    fn poll_output(&mut self, now: Time, class: Class) -> Option<DesignOutput>;

    /// Like [`Device::ready`](device::Device::ready).
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// Returns the next request that the design has accepted. Its receive-buffer space returns to the sender.
    fn poll_taken(&mut self) -> Option<Token>;

    /// Returns the time of the next [`DesignInput::Timer`]. A past time means now.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns whether [`poll_timeout`](Self::poll_timeout) is only the next edge of a free-running clock, without
    /// work: see [`TlpPort::is_ticking`](crate::TlpPort::is_ticking).
    fn is_ticking(&self) -> bool {
        false
    }

    /// Returns its clock, like [`TlpPort::clock`](crate::TlpPort::clock).
    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        None
    }

    /// Informs the design of the registers of a function, as set by software or a reset, and of its ID.
    fn configured(&mut self, now: Time, function: u16, id: Bdf, config: &ConfigSpace) {
        let _ = (now, function, id, config);
    }

    /// Returns the Message Codes that a function takes, like [`Device::messages`](device::Device::messages). Called once.
    fn messages(&self, function: u16) -> MessageCodes {
        let _ = function;
        MessageCodes::NONE
    }

    /// Returns whether a TLP of the design that is wrong for reason `why` is sent unchanged, as by a block without a
    /// checker. It then comes back as [`DesignInput::SentWrong`]. Called only if the link can carry the TLP:
    /// [`RefusedTlp::may_be_sent`].
    fn sends_wrong(&self, why: &RefusedTlp) -> bool {
        let _ = why;
        false
    }

    /// Describes in one line why the design waits, if it does.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// An input to a design.
#[derive(Debug)]
#[non_exhaustive]
pub enum DesignInput {
    /// A request to a function, or a message that it takes.
    Request(DesignRequest),
    /// A completion of a request of the design, with the Requester ID and tag that the design gave it. Completions of
    /// one request arrive in order, and the last one is marked ([`tlp::Completion::is_last`]).
    Completion {
        /// The function that issued the request.
        function: u16,
        /// The completion.
        tlp: Tlp,
    },
    /// A request of the design gets no further completion: [`DmaError::CompletionTimeout`], [`DmaError::Malformed`].
    /// Its tag is out of use until late completions have arrived, or for a second timeout.
    Lost {
        /// The function that issued the request.
        function: u16,
        /// Requester ID of the request, as set by the design.
        requester: Bdf,
        /// Its tag, as set by the design.
        tag: Tag,
        /// The error.
        why: DmaError,
    },
    /// A TLP of the design was not sent.
    Refused {
        /// The TLP.
        tlp: Tlp,
        /// The reason.
        why: RefusedTlp,
    },
    /// A TLP of the design is wrong and was sent unchanged ([`TlpDesign::sends_wrong`]). The receiver handles it as
    /// specified. A request may get completions, or end as [`Lost`](DesignInput::Lost).
    SentWrong {
        /// The TLP, with Requester or Completer ID.
        tlp: Tlp,
        /// The broken rule.
        why: RefusedTlp,
    },
    /// The time returned by `poll_timeout` has come.
    Timer,
    /// A function was reset: all its transactions are void, and no further input concerns them.
    Reset {
        /// The function.
        function: u16,
        /// The kind of reset.
        kind: ResetKind,
    },
}

/// A request that has reached a design.
#[derive(Debug)]
#[non_exhaustive]
pub struct DesignRequest {
    /// The token for taking the request. Completions answer it by Requester ID and tag.
    pub token: Token,
    /// The target function.
    pub function: u16,
    /// The target within the function.
    pub target: Target,
    /// The request.
    pub tlp: Tlp,
}

/// The part of a function that a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A BAR.
    Bar {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
    },
    /// A register that the function declares as implemented by the design ([`config::register::Register::of_device`]): a
    /// configuration request.
    Register,
    /// The function itself: a message.
    Function,
}

/// An output of a design.
#[derive(Debug)]
#[non_exhaustive]
pub enum DesignOutput {
    /// Sends a TLP in the name of a function. Requester ID, Completer ID and attributes that the function may not set
    /// are corrected. The design chooses the tag of a request, among the free tags that software has enabled. A
    /// completion has Requester ID and tag of its request. The design chooses whether a
    /// [malformed](tlp::Flaw::Malformed) TLP is sent or comes back ([`TlpDesign::sends_wrong`]).
    Tlp {
        /// The function that sends it.
        function: u16,
        /// The TLP.
        tlp: Tlp,
    },
    /// Sends a request of a requester downstream of the design in the name of a function. The request is sent with a
    /// free tag of the function. Its completions come back with the original Requester ID and tag.
    Relayed {
        /// The function in whose name it is sent.
        function: u16,
        /// The request.
        tlp: Tlp,
    },
    /// Raises an interrupt vector, like [`Output::Interrupt`](device::Output::Interrupt).
    Interrupt {
        /// The function.
        function: u16,
        /// Vector number, from zero.
        vector: u16,
    },
    /// Sets the level of a function's INTx, like [`Output::Intx`](device::Output::Intx).
    Intx {
        /// The function.
        function: u16,
        /// Whether the function requests service.
        asserted: bool,
    },
    /// Signals a power management event, like [`Output::Pme`](device::Output::Pme).
    Pme {
        /// The function.
        function: u16,
    },
}

/// Reason why a TLP of a design was not sent, or should not have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusedTlp {
    /// There is no such function.
    NoFunction(u16),
    /// The class of the TLP is not the polled class.
    Class {
        /// The class of the TLP.
        is: Class,
        /// The class that was polled.
        polled: Class,
    },
    /// The function may not issue requests: Bus Master Enable, or the power state.
    Gated(DmaError),
    /// The TLP breaks a rule for TLPs (`PCIe 5.0 §2.2`).
    Malformed(Violation),
    /// A read is longer than Max_Read_Request_Size.
    TooLong {
        /// Number of requested bytes, in whole DWs.
        bytes: u32,
        /// Max_Read_Request_Size.
        mrrs: u32,
    },
    /// No function of a slot sends such a request: configuration, I/O, locked reads, deferrable writes.
    Kind(Violation),
    /// The tag is in use, or quarantined after a timeout.
    Tag(u16),
    /// The tag does not belong to the function. Its tags are as many of the enabled ones as it may have requests
    /// outstanding.
    TagRange {
        /// The tag.
        tag: u16,
        /// The first allowed tag.
        first: u16,
        /// The last allowed tag.
        last: u16,
    },
    /// A completion matches no request that is to be answered.
    NoRequest(Violation),
    /// A completion does not match its request, or the rest of its request.
    Completion(Violation),
}

/// Names rule, field, value and allowed values, and the limit of the function.
impl fmt::Display for RefusedTlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.violation()) {
            (RefusedTlp::TooLong { mrrs, .. }, Some(why)) => {
                write!(f, "{why}; Max_Read_Request_Size is {mrrs} bytes")
            }
            (RefusedTlp::TagRange { first, last, .. }, Some(why)) => {
                write!(f, "{why}; the function has tags {first:#x} to {last:#x}")
            }
            (_, Some(why)) => write!(f, "{why}"),
            (RefusedTlp::NoFunction(function), _) => write!(f, "there is no function {function}"),
            (RefusedTlp::Class { is, polled }, _) => {
                write!(f, "{is:?} TLP; expected {polled:?}, the polled class")
            }
            (RefusedTlp::Gated(error), _) => write!(f, "{error}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for RefusedTlp {}

impl RefusedTlp {
    /// Returns the rule that the TLP breaks. `None` if it was refused because the design passed it in a wrong way.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        Some(match *self {
            RefusedTlp::NoFunction(_) | RefusedTlp::Class { .. } => return None,
            RefusedTlp::Gated(DmaError::BusMasterDisabled) => Violation::new(RuleId::BusMasterEnable, 0),
            RefusedTlp::Gated(DmaError::AtomicsDisabled) => Violation::new(RuleId::AtomicRequesterEnable, 0),
            RefusedTlp::Gated(DmaError::NotInD0) => Violation::new(RuleId::PowerState, 3),
            RefusedTlp::Gated(_) => return None,
            RefusedTlp::TooLong { bytes, .. } => {
                Violation::new(RuleId::MaxReadRequestSize, (bytes / 4).into())
            }
            RefusedTlp::Tag(tag) => Violation::new(RuleId::TagInUse, tag.into()),
            RefusedTlp::TagRange { tag, .. } => Violation::new(RuleId::TagRange, tag.into()),
            RefusedTlp::Malformed(why)
            | RefusedTlp::Kind(why)
            | RefusedTlp::NoRequest(why)
            | RefusedTlp::Completion(why) => why,
        })
    }

    /// Returns whether a link can carry such a TLP, so that the receiver handles it as specified. False if a register
    /// forbids sending, if the sending function does not exist, or if the request could not be tracked by its tag.
    pub fn may_be_sent(&self) -> bool {
        match self {
            RefusedTlp::NoFunction(_)
            | RefusedTlp::Class { .. }
            | RefusedTlp::Gated(_)
            | RefusedTlp::TagRange { .. } => false,
            RefusedTlp::Malformed(_)
            | RefusedTlp::TooLong { .. }
            | RefusedTlp::Kind(_)
            | RefusedTlp::Tag(_)
            | RefusedTlp::NoRequest(_)
            | RefusedTlp::Completion(_) => true,
        }
    }
}
