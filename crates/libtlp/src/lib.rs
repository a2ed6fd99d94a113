// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibTLP for C: implements `include/libtlp.h` and `include/tlp.h` on the crates `tlp` and `nettlp`.
//!
//! The headers hold the contract: arguments, return values, errno, blocking, threads. The modules:
//!
//! ```text
//!   ffi        C's pointers become references, errors become errno
//!    ├─ dma        sends requests and receives completions; keeps the tag of a failed read unused
//!    │   └─ gather     which bytes of one read have arrived: no socket, no clock
//!    ├─ callbacks  nettlp_run_cb
//!    ├─ ask        messaging and configuration
//!    └─ socket     the system calls
//!         └─ fd       file descriptors, which C passes as numbers
//!   header     the functions of tlp.h, on headers in the caller's memory
//! ```
//!
//! Only ffi, fd and header trust pointers and numbers from C. The library never starts threads, prints, allocates per TLP, or
//! panics on a datagram.

// `tlp` is also the name of this library, under which C links it.
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
