// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam between a front and a design that speaks TLPs. Knows no front.

use crate::port::Clocked;
use config::ConfigSpace;
use device::seam::{BarIndex, DmaError, Ready, ResetKind, Token};
use std::fmt;
use tlp::message::MessageCodes;
use tlp::{Bdf, Class, RuleId, Tag, Time, Tlp, Violation};

/// A design behind a front. Sans-IO like a [`Device`](device::Device), but it sees TLPs: requests that hit a BAR of
/// one of its functions come as they are, and what it sends has tags of its own choosing.
pub trait TlpDesign {
    /// Takes an input. Never blocks; what it leads to is polled.
    fn handle(&mut self, now: Time, input: DesignInput);

    /// The next output of `class`, if there is one; interrupts and PME are of class posted. What is polled is sent, or comes
    /// back as [`DesignInput::Refused`].
    fn poll_output(&mut self, now: Time, class: Class) -> Option<DesignOutput>;

    /// As [`Device::ready`](device::Device::ready).
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// The next request that it has taken: its receive-buffer space returns to the sender.
    fn poll_taken(&mut self) -> Option<Token>;

    /// When to hand it [`DesignInput::Timer`] next; a time that has passed means at once.
    fn poll_timeout(&self) -> Option<Time>;

    /// True where [`poll_timeout`](Self::poll_timeout) names the next edge of a clock that always runs, and there is
    /// nothing to do at it: see [`TlpPort::is_ticking`](crate::TlpPort::is_ticking).
    fn is_ticking(&self) -> bool {
        false
    }

    /// Its clock, as [`TlpPort::clock`](crate::TlpPort::clock).
    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        None
    }

    /// The registers of a function, as software or a reset has left them, and its ID.
    fn configured(&mut self, now: Time, function: u16, id: Bdf, config: &ConfigSpace) {
        let _ = (now, function, id, config);
    }

    /// The Message Codes that a function takes, as [`Device::messages`](device::Device::messages). Asked once.
    fn messages(&self, function: u16) -> MessageCodes {
        let _ = function;
        MessageCodes::NONE
    }

    /// Whether a TLP of its own that is wrong for this reason is sent as it is, as by a block without a checker, and comes back as
    /// [`DesignInput::SentWrong`]. Asked where the link can carry it: [`RefusedTlp::may_be_sent`].
    fn sends_wrong(&self, why: &RefusedTlp) -> bool {
        let _ = why;
        false
    }

    /// One line on what it waits for, where it waits for anything.
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
    /// one request come in order, the last of them marked ([`tlp::Completion::is_last`]).
    Completion {
        /// The function that had asked.
        function: u16,
        /// The completion.
        tlp: Tlp,
    },
    /// A request of the design gets no further completion: [`DmaError::CompletionTimeout`], [`DmaError::Malformed`].
    /// Its tag is out of use until late completions have come, or for a second timeout.
    Lost {
        /// The function that had asked.
        function: u16,
        /// Requester ID of the request, as the design gave it.
        requester: Bdf,
        /// Its tag, as the design gave it.
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
    /// A TLP of the design is wrong, and was sent as it is ([`TlpDesign::sends_wrong`]): its receiver does what the specification says. A
    /// request may get completions, or end as [`Lost`](DesignInput::Lost).
    SentWrong {
        /// The TLP, with Requester or Completer ID.
        tlp: Tlp,
        /// What is wrong with it.
        why: RefusedTlp,
    },
    /// The time that `poll_timeout` named has come.
    Timer,
    /// A function was reset: all its transactions are void, and none will be heard of again.
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
    /// The token by which it is taken. Completions answer it by Requester ID and tag.
    pub token: Token,
    /// The function that it is for.
    pub function: u16,
    /// The part of the function that it is for.
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
    /// A register that the function declares as its own ([`config::register::Register::of_device`]): a configuration request.
    Register,
    /// The function itself: a message.
    Function,
}

/// An output of a design.
#[derive(Debug)]
#[non_exhaustive]
pub enum DesignOutput {
    /// Sends a TLP in the name of a function: Requester ID, Completer ID and attributes that the function may not set
    /// are corrected. The tag of a request is the design's choice, among those that software enabled and that are
    /// free. A completion has Requester ID and tag of the request that it answers. A [malformed](tlp::Flaw::Malformed) one is
    /// sent or comes back, as the design has it ([`TlpDesign::sends_wrong`]).
    Tlp {
        /// The function that sends it.
        function: u16,
        /// The TLP.
        tlp: Tlp,
    },
    /// Sends a request of a requester behind the design, with a Requester ID and a tag of its own, in the name of a
    /// function: it leaves with a free tag, and its completions come back with its own Requester ID and tag.
    Relayed {
        /// The function in whose name it is sent.
        function: u16,
        /// The request.
        tlp: Tlp,
    },
    /// Raises an interrupt vector, as [`Output::Interrupt`](device::Output::Interrupt).
    Interrupt {
        /// The function.
        function: u16,
        /// Vector number, from zero.
        vector: u16,
    },
    /// Sets the level of a function's INTx, as [`Output::Intx`](device::Output::Intx).
    Intx {
        /// The function.
        function: u16,
        /// True where it asks for service.
        asserted: bool,
    },
    /// Asks for attention, as [`Output::Pme`](device::Output::Pme).
    Pme {
        /// The function.
        function: u16,
    },
}

/// Why a TLP of a design was not sent, or should not have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusedTlp {
    /// There is no such function.
    NoFunction(u16),
    /// It is of another class than was polled.
    Class {
        /// The class of the TLP.
        is: Class,
        /// The class that was polled.
        polled: Class,
    },
    /// The function may not issue requests: Bus Master Enable, or the power state.
    Gated(DmaError),
    /// It breaks a rule for TLPs (`PCIe 5.0 §2.2`).
    Malformed(Violation),
    /// A read asks for more than Max_Read_Request_Size.
    TooLong {
        /// Bytes asked for, in whole DWs.
        bytes: u32,
        /// Max_Read_Request_Size.
        mrrs: u32,
    },
    /// No function behind a slot sends such a request: configuration, I/O, locked reads, deferrable writes.
    Kind(Violation),
    /// The tag is in use, or at rest after a timeout.
    Tag(u16),
    /// The tag is none of the function's: as many as it may have requests outstanding, of those that software has enabled.
    TagRange {
        /// The tag.
        tag: u16,
        /// The first that is legal.
        first: u16,
        /// The last.
        last: u16,
    },
    /// A completion matches no request that is to be answered.
    NoRequest(Violation),
    /// A completion does not fit its request, or what remains of it.
    Completion(Violation),
}

/// Names rule, field, value and legal values, and the limit of the function.
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
            (RefusedTlp::Class { is, polled }, _) => write!(f, "a {is:?} TLP where {polled:?} was polled"),
            (RefusedTlp::Gated(error), _) => write!(f, "{error}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for RefusedTlp {}

impl RefusedTlp {
    /// The rule that the TLP breaks; `None` if it is refused for how it was handed over.
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

    /// Whether a link can carry such a TLP, and somebody answers it as the specification says: not where a register forbids to send, where
    /// nobody is there who sends, and where nobody could follow it by its tag.
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
