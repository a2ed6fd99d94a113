// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of a bridge that determine where a TLP goes. The bridge reads the registers once after each write that
//! changes them, and uses this copy for each TLP. This module does not select the final destination of a TLP.

use config::ext::acs::EGRESS_VECTOR;
use config::{Acs, BridgeWindows, ConfigSpace, Effects, PowerState};
use tlp::{AddressType, Bdf, Mps, Tlp};

/// The writes after which [`Routes`] must be read again.
pub(crate) const REROUTE: Effects = Effects::COMMAND
    .union(Effects::BRIDGE)
    .union(Effects::DEVICE_CONTROL)
    .union(Effects::ACS)
    .union(Effects::ARI)
    .union(Effects::DPC)
    .union(Effects::POWER);

/// The routing registers of one bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routes {
    /// Bus numbers and windows. A bridge that is not in D0 claims no memory and no I/O, and forwards none upstream
    /// (`PCIe 5.0 §5.3.1.4.1`).
    pub(crate) windows: BridgeWindows,
    /// ID of the bridge's function.
    pub(crate) id: Bdf,
    /// Max_Payload_Size of the port.
    pub(crate) mps: Mps,
    /// Maximum number of End-End TLP Prefixes that the port takes.
    pub(crate) end_end_prefixes: u8,
    /// ARI Forwarding Enable: configuration requests to any device number of the secondary bus go down as type 0.
    pub(crate) ari_forwarding: bool,
    /// AtomicOp Egress Blocking.
    pub(crate) blocks_atomics: bool,
    /// End-End TLP Prefix Blocking.
    pub(crate) blocks_prefixes: bool,
    /// Poisoned TLP Egress Blocking Enable.
    pub(crate) blocks_poisoned: bool,
    acs: Acs,
    /// The first 32 bits of the Egress Control Vector.
    egress_control: u32,
}

/// The verdict of Access Control Services on a TLP from one downstream port to another (`PCIe 5.0 §6.12.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerToPeer {
    /// The TLP goes to the other port.
    Direct,
    /// The TLP goes up, for the root complex to decide.
    Redirected,
    /// The TLP is refused: an ACS Violation.
    Blocked,
}

impl Routes {
    /// The routing that `space` sets; `None` if it has no type 1 header.
    pub(crate) fn of(space: &ConfigSpace, id: Bdf) -> Option<Routes> {
        let mut windows = space.bridge()?;
        if space.power_state() != PowerState::D0 {
            windows.memory_enable = false;
            windows.io_enable = false;
            windows.bus_master_enable = false;
        }
        let vector = |at: u16| space.read(at + EGRESS_VECTOR);
        let egress_control = space.extended_capability(config::ext::acs::ID).map_or(0, vector);
        Some(Routes {
            windows,
            id,
            mps: space.mps(),
            end_end_prefixes: space.end_end_prefixes(),
            ari_forwarding: space.ari_forwarding_enable(),
            blocks_atomics: space.atomic_egress_blocking(),
            blocks_prefixes: space.prefix_blocking(),
            blocks_poisoned: space.dpc().is_some_and(|dpc| dpc.poisoned_egress_blocking),
            acs: space.access_control(),
            egress_control,
        })
    }

    /// Returns whether every request from the secondary side may go up: Bus Master Enable is set, and no Access Control Service
    /// is enabled.
    pub(crate) fn lets_all_up(&self) -> bool {
        self.windows.bus_master_enable && self.acs.is_empty()
    }

    /// Whether a request from the secondary side may go on at all (ACS Source Validation, ACS Translation Blocking,
    /// `PCIe 5.0 §6.12.1.1`).
    pub(crate) fn lets_up(&self, tlp: &Tlp) -> bool {
        if self.acs.is_empty() {
            return true;
        }
        !self.is_foreign(tlp.repr.transaction().0) && !self.blocks_translation(tlp)
    }

    /// Whether ACS Source Validation refuses requests of this Requester ID.
    pub(crate) fn is_foreign(&self, requester: Bdf) -> bool {
        self.acs.contains(Acs::SOURCE_VALIDATION) && !self.windows.claims_bus(requester.bus())
    }

    /// Whether ACS Translation Blocking refuses the request.
    pub(crate) fn blocks_translation(&self, tlp: &Tlp) -> bool {
        self.acs.contains(Acs::TRANSLATION_BLOCKING) && tlp.repr.at != AddressType::Untranslated
    }

    /// The verdict on a request from the secondary side to the peer with this port number (`PCIe 5.0 §6.12.3`, Table
    /// 6-10).
    pub(crate) fn request_to_peer(&self, tlp: &Tlp, peer: usize) -> PeerToPeer {
        if self.acs.is_empty() {
            return PeerToPeer::Direct;
        }
        let translated = tlp.repr.at == AddressType::Translated;
        if self.acs.contains(Acs::DIRECT_TRANSLATED) && translated {
            return PeerToPeer::Direct;
        }
        let redirect = self.acs.contains(Acs::REQUEST_REDIRECT);
        let controlled = self.acs.contains(Acs::EGRESS_CONTROL);
        let listed = self.egress_control >> (peer & 31) & 1 == 1;
        match (controlled, redirect) {
            (false, false) => PeerToPeer::Direct,
            (false, true) => PeerToPeer::Redirected,
            (true, _) if !listed => PeerToPeer::Direct,
            (true, true) => PeerToPeer::Redirected,
            (true, false) => PeerToPeer::Blocked,
        }
    }

    /// The verdict on a completion from the secondary side to a peer: ACS P2P Completion Redirect sends it up, unless
    /// it has Relaxed Ordering (`PCIe 5.0 §6.12.1.1`).
    pub(crate) fn completion_to_peer(&self, tlp: &Tlp) -> PeerToPeer {
        let relaxed = tlp.repr.attr.contains(tlp::Attributes::RELAXED_ORDERING);
        if self.acs.contains(Acs::COMPLETION_REDIRECT) && !relaxed {
            PeerToPeer::Redirected
        } else {
            PeerToPeer::Direct
        }
    }

    /// ACS Upstream Forwarding: a TLP from below goes up even if its target lies below (`PCIe 5.0 §6.12.1.1`).
    pub(crate) fn forwards_upstream(&self) -> bool {
        self.acs.contains(Acs::UPSTREAM_FORWARDING)
    }
}
