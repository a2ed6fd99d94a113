// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the commands that a guest sends to its lab.

use super::cable;
use session::external::CommandError;
use thiserror::Error;

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
    #[error("cable {0}: expected {form}", form = cable::FORM)]
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
    #[error("start {0}: it runs already")]
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
