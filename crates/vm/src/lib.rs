// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine with a stock Linux kernel, which runs one command. QEMU, the kernel and the guest's programs come
//! from Debian's packages or from files of the user. An initramfs is built from these parts.
//!
//! - [`parts`]: fetches missing parts once, with a private apt, verified with Debian's keys
//! - [`kernel`], [`modules`], [`cpio`]: file formats
//! - [`initramfs`]: the guest's files
//! - [`machine`]: QEMU's arguments, its start, and how the guest ended
//! - [`processors`]: CPU affinity
//!
//! The crate never changes the host's package sources, packages or caches. The crate needs no root, and accepts only
//! packages that are signed by Debian. The crate does not know which devices the caller adds by QEMU arguments.

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
