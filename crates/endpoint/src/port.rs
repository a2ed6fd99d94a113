// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface to the fabric: a port that takes and sends TLPs.

use config::{Correctable, DetectedError, Uncorrectable};
use device::seam::Ready;
use link::{Channels, Notice, UnusedCredits, WireFrame};
use tlp::rules::Refusal;
use tlp::{Class, Rate, TcSet, Time, Tlp, TrafficClass, Width};

/// Receive-buffer space that a port returns for a consumed TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditReturn {
    /// The Traffic Class of the TLP, which determines its virtual channel.
    pub tc: TrafficClass,
    /// The class of the TLP.
    pub class: Class,
    /// Number of its data credits, in units of 16 B; it has one header credit.
    pub data_credits: u32,
}

impl CreditReturn {
    /// Returns the space that `tlp` has taken.
    #[inline]
    pub const fn of(tlp: &Tlp) -> CreditReturn {
        CreditReturn { tc: tlp.repr.tc, class: tlp.class(), data_credits: tlp.data_credits() }
    }
}

/// Credits that both ends of a link have left on VC0, by [`Class::index`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCredits {
    /// This end.
    pub here: [UnusedCredits; 3],
    /// The other end.
    pub there: [UnusedCredits; 3],
}

/// Returns the error that a port has detected, with its header (zeros if there is none), for an owner that logs errors
/// in registers (`PCIe 5.0 Table 6-3` to 6-5). `None` if the notice only reports the state of the link.
pub fn detected_error(notice: Notice) -> Option<(DetectedError, [u32; 4])> {
    let (error, header) = match notice {
        Notice::Up { .. }
        | Notice::Down { .. }
        | Notice::Retrained { .. }
        | Notice::Negotiating { .. }
        | Notice::NeverAdmitted { .. } => return None,
        Notice::ReceiverError => (Correctable::Receiver.into(), [0; 4]),
        Notice::BadTlp => (Correctable::BadTlp.into(), [0; 4]),
        Notice::BadDllp => (Correctable::BadDllp.into(), [0; 4]),
        Notice::ReplayTimeout => (Correctable::ReplayTimerTimeout.into(), [0; 4]),
        Notice::ReplayRollover => (Correctable::ReplayNumRollover.into(), [0; 4]),
        Notice::DataLinkProtocol => (Uncorrectable::DataLinkProtocol.into(), [0; 4]),
        Notice::FlowControlProtocol => (Uncorrectable::FlowControlProtocol.into(), [0; 4]),
        Notice::ReceiverOverflow { header } => (Uncorrectable::ReceiverOverflow.into(), header),
        Notice::MalformedTlp { header } => (Uncorrectable::MalformedTlp.into(), header),
        Notice::CorrectedInternal => (Correctable::CorrectedInternal.into(), [0; 4]),
        Notice::UncorrectableInternal => (Uncorrectable::UncorrectableInternal.into(), [0; 4]),
    };
    Some((error, header))
}

/// The answers of a port to [`TlpPort::ready`] and [`TlpPort::poll_timeout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// Answer of [`TlpPort::ready`].
    pub ready: Ready,
    /// Answer of [`TlpPort::poll_timeout`].
    pub timeout: Option<Time>,
}

/// A clock that always runs, such as the clock of a design in RTL. This trait lets the driver pass many edges in one
/// call.
pub trait Clocked {
    /// Passes edges up to `until`. The caller ensures that the port gets no input before. It stops at the first edge
    /// after which the port has an output. [`TlpPort::poll_timeout`] then returns the time of that edge.
    fn run_ahead(&mut self, until: Time);

    /// Returns true if the port uses the credits of its link, so that it needs
    /// [`handle_credits`](Self::handle_credits). Asked once.
    fn shows_credits(&mut self) -> bool;

    /// Takes the credits of its link, which hold from its next edge on. Called before each `handle_timeout` and each
    /// [`run_ahead`](Self::run_ahead) if the port [shows credits](Self::shows_credits).
    fn handle_credits(&mut self, credits: &LinkCredits);
}

/// An event of the physical layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhyEvent {
    /// LinkUp: frames may be sent. The data link layer begins in DL_Inactive (`PCIe 5.0 §3.2.1`).
    Up {
        /// Rate of both directions.
        rate: Rate,
        /// Width of both directions.
        width: Width,
    },
    /// The link is down. All frames on their way are lost.
    Down {
        /// Whether the link went down by itself, without a request of the port above.
        surprise: bool,
    },
    /// The link is in Recovery, and carries no frame. REPLAY_TIMER is held (`PCIe 5.0 §3.6.2.1`).
    Recovery {
        /// The end of Recovery.
        until: Time,
        /// Rate of both directions from then on.
        rate: Rate,
        /// Width of both directions from then on.
        width: Width,
    },
}

/// States in which registers of a port hold the link below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkHolds {
    /// Secondary Bus Reset of Bridge Control (`PCIe 5.0 §7.5.1.3.13`).
    pub reset: bool,
    /// Link Disable of Link Control (`PCIe 5.0 §7.5.3.7`).
    pub disabled: bool,
}

/// One end of a link, from the data link layer up. Sans-IO: after every `handle_*` the driver polls
/// [`poll_retrain`](Self::poll_retrain), [`poll_timeout`](Self::poll_timeout), and [`poll_frame`](Self::poll_frame) as
/// soon as the wire is free.
pub trait FramePort {
    /// Handles an event of the physical layer. [`PhyEvent::Up`] is the first.
    fn handle_phy(&mut self, now: Time, event: PhyEvent);

    /// Handles a frame whose last symbol has arrived at `now`. Its bytes may be damaged.
    fn handle_frame(&mut self, now: Time, frame: &WireFrame);

    /// Returns the next frame to send. The wire is free at `now`, so the frame goes onto it at once, or after a due SKP.
    fn poll_frame(&mut self, now: Time) -> Option<WireFrame>;

    /// Returns whether it requests Recovery, as after the roll-over of REPLAY_NUM (`PCIe 5.0 §3.6.2.1`). True once.
    fn poll_retrain(&mut self) -> bool {
        false
    }

    /// Returns the states in which a port above a link holds that link.
    fn link_holds(&self) -> LinkHolds {
        LinkHolds::default()
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Time>;

    /// Handles the time returned by `poll_timeout`, which has come.
    fn handle_timeout(&mut self, now: Time);

    /// Returns whether `poll_timeout` is only the upkeep of the link or the edge of a clock, which keeps no run going.
    fn is_ticking(&self) -> bool {
        false
    }

    /// See [`TlpPort::clock`].
    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        None
    }

    /// See [`TlpPort::power_on`]. The link is down at this time.
    fn power_on(&mut self, now: Time) {
        let _ = now;
    }

    /// See [`TlpPort::longest_non_posted`].
    fn longest_non_posted(&self) -> u32 {
        4
    }

    /// See [`TlpPort::counts`].
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// See [`TlpPort::errors`].
    fn errors(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// See [`TlpPort::refusals`].
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// See [`TlpPort::waits_for`].
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// The end of a link, as TLPs: an endpoint, a raw-TLP device, a peer on a socket. Sans-IO: the driver calls the
/// `poll_*` methods after every `handle_*`, until each returns `None`.
pub trait TlpPort {
    /// Takes a TLP that has arrived. Its credits stay taken until [`poll_credits`](Self::poll_credits) returns them.
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp);

    /// Returns the next TLP of `class` to send. Its Traffic Class should be in `room`, the classes whose virtual
    /// channels have room for a TLP. The driver keeps a TLP of another Traffic Class until there is room, and polls no
    /// further one of `class` until then. So a port with only one queue per class may ignore `room`. TLPs of one class
    /// and channel are sent in the order returned here. Between classes the link orders them by the ordering table,
    /// older first. Between channels there is no order.
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp>;

    /// Like [`poll_tlp`](Self::poll_tlp), but also returns the status of the port after this poll. Only for speed: one
    /// call in place of three.
    fn poll_tlp_and_status(
        &mut self,
        now: Time,
        class: Class,
        room: TcSet,
        status: &mut PortStatus,
    ) -> Option<Tlp> {
        let tlp = self.poll_tlp(now, class, room);
        *status = self.status();
        tlp
    }

    /// Returns the answers of [`ready`](Self::ready) and [`poll_timeout`](Self::poll_timeout). Only for speed: one call in
    /// place of two.
    fn status(&self) -> PortStatus {
        PortStatus { ready: self.ready(), timeout: self.poll_timeout() }
    }

    /// Returns which of [`poll_tlp`](Self::poll_tlp) and [`poll_credits`](Self::poll_credits) may return an output now
    /// ([`Ready::TAKEN`] is the latter). An omitted poll would return `None` until the next call of another method that
    /// takes `&mut self`. Only for speed: a driver may ignore it, and a port need not implement it.
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// Returns the credits of the next TLP consumed, which go back to its sender.
    fn poll_credits(&mut self) -> Option<CreditReturn>;

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns whether `poll_timeout` is only the next edge of a clock, at which no expected work is due. The driver
    /// then calls the port, but this call does not count as progress and does not prolong a run.
    fn is_ticking(&self) -> bool {
        false
    }

    /// Handles the time returned by `poll_timeout`, which has come.
    fn handle_timeout(&mut self, now: Time);

    /// The clock of a port that has one. Called once before the first other call, and again for each use.
    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        None
    }

    /// Returns the frames of a port that has its own data link layer. Asked once before the first call, and again for
    /// each use.
    fn frames(&mut self) -> Option<&mut dyn FramePort> {
        None
    }

    /// Handles a notice of the link's port: link down, link up, or an error of the layers below, which an owner with
    /// registers logs (`PCIe 5.0 §6.2`). A port without registers may ignore it.
    fn handle_notice(&mut self, now: Time, notice: Notice) {
        let _ = (now, notice);
    }

    /// Returns the virtual channels that its registers set; `None` if it leaves the channels as configured. Asked when
    /// registers may have changed, if the link has several channels.
    fn channels(&self) -> Option<Channels> {
        None
    }

    /// Puts the port into its slot and restores power: its state is that after a fundamental reset (`PCIe 5.0 §6.6.1`).
    /// A port without state may ignore it.
    fn power_on(&mut self, now: Time) {
        let _ = now;
    }

    /// Returns the length in bytes of the longest non-posted request with data that it completes. The receive buffer
    /// must have room for one (`PCIe 5.0 Table 2-45`). The default is 4, for configuration and I/O writes.
    fn longest_non_posted(&self) -> u32 {
        4
    }

    /// Returns its counters for reports, by name. Zero counters may be omitted.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns its error counters that are not zero, for the report of a lab that makes no progress.
    fn errors(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the reasons for refused TLPs: one refusal of each kind, in order of first occurrence. Places are numbers
    /// of functions.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Describes in one line why the port waits, if it does. For the report of a lab that makes no progress.
    fn waits_for(&self) -> Option<String> {
        None
    }
}
