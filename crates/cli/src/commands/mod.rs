// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands. A new one is a file here, and three lines below. Nothing but naming and calling is done here.

mod model;
mod trace;

use crate::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    Model(model::Args),
    Trace(trace::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Command::Model(args) => model::run(args),
            Command::Trace(args) => trace::run(args),
        }
    }
}
