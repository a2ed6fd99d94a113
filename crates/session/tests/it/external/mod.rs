// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outside programs join a lab: hosts, clocks, records.

mod clock;
mod host;
mod machine;
mod tlps;
