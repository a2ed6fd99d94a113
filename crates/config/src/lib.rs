// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space as data (`PCIe 5.0 §7`).
//!
//! - [`ConfigSpace`]: the 4 KiB of one function, as 1024 registers of 32 bits, each bit read-only, writable or cleared
//!   by writing one; a write says what it changed as [`Effects`].
//! - [`Builder`]: makes one: a type 0 header, Base Address Registers and capabilities, laid out and chained.
//! - [`header`], [`bar`], [`cap`]: where the specification's registers stand and what their bits mean.
//!
//! A type 1 header (bridges: root ports and switches) will be a second entry point of [`Builder`] beside
//! [`Builder::type0`]; [`header::type0`] holds all that is peculiar to type 0.
//!
//! This crate never acts: it knows no clock, no TLP and no device. Whoever owns a `ConfigSpace` obeys its settings.

pub mod bar;
pub mod build;
pub mod cap;
pub mod header;
pub mod register;
pub mod space;

pub use bar::{Bar, BarKind, BarWindow};
pub use build::{BuildError, Builder, Identity};
pub use cap::aer::{ErrorMessage, Uncorrectable};
pub use cap::msi::{MsiConfig, MsiLayout};
pub use cap::msix::{MsixControl, MsixLayout};
pub use cap::pcie::{AtomicSupport, DeferrableLength, PcieLayout};
pub use space::{ConfigSpace, Effects, ResetScope};
