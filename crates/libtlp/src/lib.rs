// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibTLP for C: what `include/libtlp.h` and `include/tlp.h` declare, over the crates `tlp` and `nettlp`.
//!
//! The headers hold the contract: arguments, returns, errno, blocking, threads. Here is how it is kept.
//!
//! ```text
//!   ffi        C's pointers become references, errors become errno
//!    ├─ dma        requests out, completions in; a tag that may not be used yet
//!    │   └─ gather     which bytes of one read have come: no socket, no clock
//!    ├─ callbacks  nettlp_run_cb
//!    ├─ ask        messaging and configuration
//!    └─ socket     the system calls
//!         └─ fd       file descriptors, which are numbers in C
//!   header     tlp_mr_addr and its like, on headers in the caller's memory
//! ```
//!
//! Pointers and numbers of C are taken at their word in ffi, fd and header alone. The library never starts threads, never prints,
//! never allocates per TLP, and never panics on a datagram.

// `tlp` is also the name of this library, by which C links it.
extern crate riser_tlp as tlp;

mod ask;
mod callbacks;
mod dma;
mod fd;
mod ffi;
mod gather;
mod header;
mod socket;
mod strays;
mod types;
