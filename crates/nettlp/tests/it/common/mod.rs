// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rigs of these tests: memory, peers with upstream's habits, and paths that lose, delay and rewrite datagrams. Contains no
//! tests.

pub(crate) mod proxy;
pub(crate) mod rewritten;
pub(crate) mod stamped;
pub(crate) mod upstream;
