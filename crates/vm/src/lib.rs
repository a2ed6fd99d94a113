// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine with a stock Linux kernel: QEMU, the kernel and the guest's programs from Debian's packages or from files of the
//! user's, an initramfs made of them, and one command that runs in it.
//!
//! - [`parts`]: fetches what is missing, once, by a private apt, verified by Debian's keys;
//! - [`kernel`], [`modules`], [`cpio`]: formats; [`initramfs`]: the guest's files;
//! - [`machine`]: QEMU's arguments, its start, and how the guest's end is told; [`processors`]: CPU affinity.
//!
//! Never changes the machine's own package sources, packages or caches, needs no root, and believes no package that Debian has not
//! signed. Never knows what devices the caller adds by arguments of QEMU's.

pub mod cpio;
mod error;
pub mod initramfs;
pub mod kernel;
mod load;
pub mod machine;
pub mod modules;
pub mod parts;
pub mod processors;

pub use error::{Error, Result};
pub use load::{Load, Which};
pub use machine::{End, Machine, Options};
pub use parts::{Builder, Cache, Entry, Kernel, Parts, Programs, Progress, Qemu, Sources};
