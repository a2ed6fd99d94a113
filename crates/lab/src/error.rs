// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in a lab that was read without errors, but cannot be built.

use crate::wrong::Wrong;
use config::BuildError as ConfigError;
use endpoint::EndpointError;
use fabric::{SwitchError, TopologyError};
use host::memory::MemoryError;
use plug::Fault;
use plug::profile::ProfileError;
use std::ops::Range;
use thiserror::Error;

/// Error of a data link layer in place of a device.
pub(crate) const IS_DATA_LINK: &str =
    "the model is a data link layer, expected a device; a slot names a data link layer as its `data_link`";

/// Error of a root complex in place of a device.
pub(crate) const IS_ROOT_COMPLEX: &str =
    "the model is a root complex, expected a device; [host] names a root complex as its `root_complex`";

/// Error of a switch in place of a device.
pub(crate) const IS_SWITCH: &str =
    "the model is a switch, expected a device; a [[switch]] names a switch as its `device`";

/// Reason why a lab cannot be built or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A host profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The tree of slots and switches is invalid.
    #[error("{message}")]
    Tree {
        /// Bytes of the lab file with the wrong key; empty at 0 for the file as a whole.
        place: Range<usize>,
        /// The error.
        message: String,
    },
    /// The host's memory has an illegal size.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A configuration space is illegal.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device of a slot cannot be plugged in.
    #[error("slot `{slot}`: {fault}")]
    Device {
        /// The slot.
        slot: String,
        /// The error of its device.
        fault: Fault,
    },
    /// The endpoint of a slot is illegal.
    #[error("slot `{slot}`: {error}")]
    Endpoint {
        /// The slot.
        slot: String,
        /// The error of its endpoint.
        error: EndpointError,
    },
    /// The device of a slot can only be a data link.
    #[error("slot `{slot}`: {message}", message = IS_DATA_LINK)]
    DataLink {
        /// The slot.
        slot: String,
    },
    /// The device of a slot can only be a root complex.
    #[error("slot `{slot}`: {message}", message = IS_ROOT_COMPLEX)]
    RootComplex {
        /// The slot.
        slot: String,
    },
    /// The device of a slot can only be a switch.
    #[error("slot `{slot}`: {message}", message = IS_SWITCH)]
    SlotSwitch {
        /// The slot.
        slot: String,
    },
    /// A switch that is not riser's cannot be plugged in.
    #[error("switch `{name}`: {fault}")]
    SwitchDesign {
        /// The switch.
        name: String,
        /// The error of its model.
        fault: Fault,
    },
    /// The root complex of the host cannot be plugged in.
    #[error("root complex: {0}")]
    HostRootComplex(Fault),
    /// The model of the host's root complex is a device.
    #[error("root_complex: the model is a device, expected a root complex")]
    NoRootComplex,
    /// The software of the host is in the design of its root complex.
    #[error(
        "root complex: software = true: the design has the host's software, so no other program can run on this host; use `riser run`, or set it to false"
    )]
    DesignSoftware,
    /// A link of a lab with one slot is illegal.
    #[error("link: {0}")]
    Link(link::ConfigError),
    /// The endpoint of a lab with one slot is illegal.
    #[error(transparent)]
    OwnEndpoint(EndpointError),
    /// A switch is illegal.
    #[error("switch `{name}`: {error}")]
    Switch {
        /// The switch.
        name: String,
        /// The error.
        error: SwitchError,
    },
    /// A link has too few credits.
    #[error("link of {link}, {side} side: {error}")]
    Credits {
        /// The slot or switch below the link.
        link: String,
        /// The end of the link.
        side: &'static str,
        /// The error.
        error: link::ConfigError,
    },
    /// The fabric is illegal.
    #[error(transparent)]
    Fabric(TopologyError),
    /// The lab has no place for a host of this name.
    #[error("no place `{0}`")]
    NoPlace(String),
    /// The lab needs a program above its root complex.
    #[error(
        "host.outside = true: no program drives this host; use `riser guest run` for a kernel, or set it to false"
    )]
    HostOutside,
    /// The lab needs a program for the external host of this name.
    #[error(
        "host `{host}` is external, but no program is above it; use `riser guest run`, or put all slots below `{simulated}`"
    )]
    ExternalHost {
        /// The host.
        host: String,
        /// The name of the simulated host.
        simulated: &'static str,
    },
}

/// Errors that building finds in the file are errors of the tree; reading has found all others.
impl From<Wrong> for BuildError {
    fn from(Wrong { span, message }: Wrong) -> BuildError {
        BuildError::Tree { place: span, message }
    }
}
