// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outside joins a lab: hosts of their own making, clocks, records.

mod assigned;
mod cable;
mod client;
mod clock;
mod host;
mod links;
mod machine;
mod messages;
mod served;
mod tlps;
mod vmd;
