// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many files this process and those that it starts may have open (`ulimit -n`).

use crate::failure::Failure;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;

/// More than any lab takes. Where the hard limit is far above it, some programs that riser starts go through all numbers below the soft one.
const ENOUGH: u64 = 1 << 16;

/// Files of a client, beside those of its interrupts: its socket, and the memory that it hands over.
const OF_CLIENT: usize = 32;
/// Files that a run opens later, and those that QEMU has of its own.
const OTHERS: usize = 64;

/// Raises the soft limit as far as the hard one allows: the usual 1024 are for programs that use `select`.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < ENOUGH
    {
        // Where it cannot be had, the soft limit stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(ENOUGH).max(soft), hard);
    }
}

/// Refuses what takes more files than may be open: machines with so many clients and interrupts.
pub(crate) fn check(clients: usize, vectors: usize) -> Result<(), Failure> {
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let needed = open + vectors + clients * OF_CLIENT + OTHERS;
    match needed as u64 <= limit {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "at most {limit} files may be open here; a lab with {vectors} interrupt vectors for its machines needs {needed}: raise the \
             limit (ulimit -n), or give devices fewer vectors"
        ))),
    }
}
