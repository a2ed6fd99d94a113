// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outside joins a lab: hosts of their own making, clocks, records.

mod clock;
mod host;
mod machine;
mod tlps;
