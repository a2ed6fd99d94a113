// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Below the seam: a port that takes and gives TLPs.

use config::{Correctable, DetectedError, Uncorrectable};
use device::seam::Ready;
use link::{Notice, UnusedCredits};
use tlp::rules::Refusal;
use tlp::{Class, TcSet, Time, Tlp, TrafficClass};

/// Receive-buffer space that a port gives back for a TLP it has consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditReturn {
    /// The Traffic Class of the TLP, which tells its virtual channel.
    pub tc: TrafficClass,
    /// The class of the TLP.
    pub class: Class,
    /// Its data credits, units of 16 B; its header credit is one.
    pub data_credits: u32,
}

impl CreditReturn {
    /// The space that `tlp` has taken.
    #[inline]
    pub const fn of(tlp: &Tlp) -> CreditReturn {
        CreditReturn { tc: tlp.repr.tc, class: tlp.class(), data_credits: tlp.data_credits() }
    }
}

/// What both ends of a link may still send on VC0, by [`Class::index`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCredits {
    /// This end.
    pub here: [UnusedCredits; 3],
    /// The other end.
    pub there: [UnusedCredits; 3],
}

/// The error that a port has seen, with the header that it saw (zeros where it saw none), as an owner with registers
/// logs it (`PCIe 5.0 Table 6-3` to 6-5); `None` where the notice only tells the state of the link.
pub fn detected_error(notice: Notice) -> Option<(DetectedError, [u32; 4])> {
    let (error, header) = match notice {
        Notice::Up { .. } | Notice::Down { .. } | Notice::Retrained { .. } | Notice::NeverAdmitted { .. } => {
            return None;
        }
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
    /// As [`TlpPort::ready`].
    pub ready: Ready,
    /// As [`TlpPort::poll_timeout`].
    pub timeout: Option<Time>,
}

impl Default for PortStatus {
    /// Every question may be worth asking, and no timer runs.
    fn default() -> PortStatus {
        PortStatus { ready: Ready::ALL, timeout: None }
    }
}

/// A clock that always runs, such as that of a design in RTL. It lets the driver pass many edges in one call.
pub trait Clocked {
    /// Passes edges up to `until`, before which nothing reaches the port. It stops at the first edge after which there is
    /// something to poll; [`TlpPort::poll_timeout`] then names the time of that edge.
    fn run_ahead(&mut self, until: Time);

    /// Whether it uses the credits of its link, so that it needs [`handle_credits`](Self::handle_credits). Asked once.
    fn shows_credits(&mut self) -> bool;

    /// Takes the credits of its link, which hold from its next edge on. Called before each `handle_timeout` and each
    /// [`run_ahead`](Self::run_ahead) if it [shows credits](Self::shows_credits).
    fn handle_credits(&mut self, credits: &LinkCredits);
}

/// What stands at the end of a link, as TLPs: an endpoint, a raw-TLP device, a peer on a
/// socket. Sans-IO: whoever drives it calls the `poll_*` methods after every `handle_*`, until each says `None`.
pub trait TlpPort {
    /// Takes a TLP that has arrived. Its credits stay taken until [`poll_credits`](Self::poll_credits) returns them.
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp);

    /// The next TLP of `class` to send, whose Traffic Class should be one of `room`: those whose virtual channels have
    /// room for one. A TLP of another Traffic Class is kept by whoever drives the port until there is room, and no
    /// further one of `class` is asked for meanwhile; so a port that has only one queue of a class need not look at
    /// `room`. TLPs of one class and channel leave in the order given here; between classes the link orders them
    /// by the ordering table, older first; between channels there is no order.
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp>;

    /// As [`poll_tlp`](Self::poll_tlp), and tells the status of the port after it. For speed alone: one call in place of three.
    fn poll_tlp_and_status(
        &mut self,
        now: Time,
        class: Class,
        room: TcSet,
        status: &mut PortStatus,
    ) -> Option<Tlp> {
        let tlp = self.poll_tlp(now, class, room);
        *status = PortStatus { ready: self.ready(), timeout: self.poll_timeout() };
        tlp
    }

    /// Which of [`poll_tlp`](Self::poll_tlp) and [`poll_credits`](Self::poll_credits) may find something now
    /// ([`Ready::TAKEN`] is the latter); what it leaves out would find nothing until the next call of another method that
    /// takes `&mut self`. For speed alone: whoever drives the port need not ask, and a port need not say.
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// The next TLP consumed: its credits go back to the sender.
    fn poll_credits(&mut self) -> Option<CreditReturn>;

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    fn poll_timeout(&self) -> Option<Time>;

    /// True where `poll_timeout` names only the next edge of a clock, and nothing that anybody waits for is to be
    /// done then. The port is called then, but that counts as no progress, and no run goes on for it.
    fn is_ticking(&self) -> bool {
        false
    }

    /// The time that `poll_timeout` named has come.
    fn handle_timeout(&mut self, now: Time);

    /// The clock of a port that has one. Asked once before the first call, and again for each use.
    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        None
    }

    /// Takes a notice of the link's port: errors of the layers below, which an owner with registers logs
    /// (`PCIe 5.0 §6.2`), and that the link has gone down or come up. A port without registers may ignore it.
    fn handle_notice(&mut self, now: Time, notice: Notice) {
        let _ = (now, notice);
    }

    /// The port is put into its slot and has power again: its state is that after a fundamental reset
    /// (`PCIe 5.0 §6.6.1`). A port without state may ignore it.
    fn power_on(&mut self, now: Time) {
        let _ = now;
    }

    /// Bytes of the longest non-posted request with data that it completes: its receive buffer is to hold one
    /// (`PCIe 5.0 Table 2-45`). By default 4, as configuration and I/O writes have.
    fn longest_non_posted(&self) -> u32 {
        4
    }

    /// Its counters for reports, by name; those that are zero may be left out.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Its error counters that are not zero: for the report of a lab that makes no progress.
    fn errors(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Why it refused TLPs: one refusal of each kind, in the order of the first ones. Places are numbers of functions.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// One line on what it waits for, if anything: for the report of a lab that makes no progress.
    fn waits_for(&self) -> Option<String> {
        None
    }
}
