// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers of these tests: memory, peers that behave like upstream's, and paths that lose, duplicate and delay
//! datagrams. Contains no tests.

pub(crate) mod proxy;
pub(crate) mod rewritten;
pub(crate) mod stamped;
pub(crate) mod upstream;
