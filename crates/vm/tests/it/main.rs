// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-vm`, one module per subject.

mod boot;
mod common;
mod cpio;
mod elf;
mod kernel;
mod parts;
