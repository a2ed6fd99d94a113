// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of this machine's loopback for measurements over sockets. The ports of NetTLP are fixed, so each measurement of each
//! process has its own addresses.

use super::super::PaperError;
use nettlp::allow::AllowList;
use nettlp::tools::{Scheme, Target};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU8, Ordering};

/// Addresses of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loopback {
    /// The adapter's address.
    pub(super) adapter: IpAddr,
    /// The address of the device host.
    pub(super) device: IpAddr,
}

impl Loopback {
    /// Returns two addresses that no other measurement uses now: in 127.64.0.0/10, by process ID and a counter.
    pub(super) fn new() -> Loopback {
        static USED: AtomicU8 = AtomicU8::new(0);
        let pair = USED.fetch_add(1, Ordering::Relaxed) % 126;
        let [.., a, b, c] = std::process::id().to_be_bytes();
        let at = |last: u8| IpAddr::V4(Ipv4Addr::new(127, 64 | ((a ^ b) & 0x3f), c, last));
        Loopback { adapter: at(2 * pair + 1), device: at(2 * pair + 2) }
    }

    /// Returns the adapter as the device host reaches it: on the paper's ports.
    pub(super) fn target(&self) -> Target {
        Target { remote: self.adapter, local: Some(self.device), scheme: Scheme::Paper, key: None }
    }

    /// Returns the rules that let the device host do everything.
    ///
    /// # Errors
    /// Never: the rule is legal.
    pub(super) fn allow(&self) -> Result<AllowList, PaperError> {
        let rule = format!("{},all,rw", self.device).parse().map_err(failed)?;
        AllowList::new([rule]).map_err(failed)
    }
}

/// Returns the error of a measurement.
pub(super) fn failed(why: impl Display) -> PaperError {
    PaperError::Run(why.to_string())
}

/// Returns the note on this machine that every report of a measurement has.
pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!(
        "Measured on this machine, over UDP on its loopback: {cores} cores, which the adapter, the device software and all other \
         programs share. Results change with the machine and its load; rates are the best of several rounds. The paper has two machines with 10 and 12 cores, \
         an adapter in an FPGA, and 10 Gb/s Ethernet."
    )
}
