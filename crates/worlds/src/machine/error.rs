// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of virtual machines, and of the commands that a guest sends to its lab.

use guest::net::ListenError;
use guest::vmd::LayoutError;
use host::DriverError;
use lab::BuildError;
use session::external::CommandError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The form of the command that plugs and unplugs a cable.
pub(super) const CABLE_FORM: &str = "cable NAME down|up";

/// The reason why a machine cannot be served.
#[derive(Debug, Error)]
pub enum VmError {
    /// The VMD cannot have this layout.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// riser cannot listen at a socket.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// The firmware fails.
    #[error("riser's firmware cannot set up the functions of the machine: {0}")]
    Firmware(DriverError),
    /// A slot's name cannot be the name of a file.
    #[error(
        "slot `{0}`: name cannot be used for its socket; expected a name without `/`, other than `.` and `..`"
    )]
    Name(String),
    /// The lab has no external host of this name.
    #[error("no place `{0}`")]
    NoPlace(String),
    /// Single functions are below a root complex that is not riser's.
    #[error(
        "--direct: only riser's own root complex gives single functions to a machine; expected no root_complex in [host], or no --direct"
    )]
    NotDirect,
    /// The topology below the host is invalid.
    #[error(transparent)]
    Topology(#[from] BuildError),
    /// A virtual function cannot be assigned.
    #[error("{0}")]
    Assign(String),
    /// A folder for sockets cannot be created.
    #[error("{}: cannot create a folder for the sockets of functions: {}", .0.display(), .1)]
    Folder(PathBuf, io::Error),
    /// A machine has too many functions.
    #[error("{0} functions with --direct or --assign; expected at most 24")]
    TooManyFunctions(usize),
    /// No function is below the host.
    #[error("no slot of this host has a function; a machine needs at least one")]
    Nothing,
}

/// Reason why a command of a guest is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VmCommandError {
    /// A command for links.
    #[error(transparent)]
    Links(#[from] CommandError),
    /// There is no such command.
    #[error("no command `{verb}`, expected {forms}")]
    Unknown {
        /// The command.
        verb: String,
        /// The forms of all commands.
        forms: String,
    },
    /// The arguments of `cable` are incomplete.
    #[error("cable {0}: expected {form}", form = CABLE_FORM)]
    CableForm(String),
    /// A cable is neither up nor down.
    #[error("cable {name} {state}: expected down or up")]
    CableState {
        /// The NIC.
        name: String,
        /// Its state, as given.
        state: String,
    },
    /// There is no NIC of this name whose cable leads outside.
    #[error("no NIC `{name}` with `cable = \"outside\"`; known NICs: {known}")]
    NoNic {
        /// The name.
        name: String,
        /// The legal names.
        known: String,
    },
    /// There is no guest of this name with virtual functions.
    #[error("{command}: no such guest with virtual functions; known guests: {known}")]
    NoGuest {
        /// The command with the name.
        command: String,
        /// The legal names.
        known: String,
    },
    /// The guest of this name cannot be started, because it runs.
    #[error("start {0}: it is already running")]
    Running(String),
    /// The guest of this name cannot be stopped, because it does not run.
    #[error("kill {0}: it is not running")]
    NotRunning(String),
    /// The machine of a guest cannot be started.
    #[error("start {name}: {error}")]
    Start {
        /// The guest.
        name: String,
        /// The error.
        error: vm::Error,
    },
}
