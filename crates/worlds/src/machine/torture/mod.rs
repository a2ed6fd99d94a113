// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Injects faults in a lab while a guest's driver works. [`schedule()`] draws the faults, `torture.sh` executes them in the guest, and a
//! [`Listener`] reads its lines into a [`Tally`].

mod listener;
mod run;
mod schedule;
mod tally;

pub use listener::Listener;
pub use run::{MachineEnd, Program, Torture, TortureEnd};
pub use schedule::{TortureSlot, schedule};
pub use tally::{LastWord, Tally};

/// The script that runs in the guest.
const SCRIPT: &str = include_str!("torture.sh");
