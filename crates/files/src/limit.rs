// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of open files of this process and its children (`ulimit -n`).

use crate::{Error, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;

/// More files than any lab opens. The soft limit is not raised further, even if the hard limit is much higher, because
/// some child processes close every descriptor below the soft limit.
const ENOUGH: u64 = 1 << 16;

/// Files of a client, in addition to a file for each interrupt: its socket, and its shared memory.
const OF_CLIENT: usize = 32;
/// Files that a run opens later, and QEMU's own files.
const OTHERS: usize = 64;

/// Raises the soft limit, at most to the hard one. The usual 1024 protects programs that call `select`; riser does not.
pub fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < ENOUGH
    {
        // On failure the soft limit stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(ENOUGH).max(soft), hard);
    }
}

/// Fails if machines with that many clients and interrupts would exceed the limit.
pub fn check(clients: usize, vectors: usize) -> Result<()> {
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let needed = open + vectors + clients * OF_CLIENT + OTHERS;
    match needed as u64 <= limit {
        true => Ok(()),
        false => Err(Error::File(format!(
            "at most {limit} files may be open here; a lab with {vectors} interrupt vectors for its machines needs {needed}: raise the \
             limit (ulimit -n), or give devices fewer vectors"
        ))),
    }
}
