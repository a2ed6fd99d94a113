// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space as data (`PCIe 5.0 §7`).
//!
//! - [`ConfigSpace`]: the 4 KiB of one function, as 32-bit registers. Each bit is read-only, writable or cleared by writing
//!   one; a write returns what it changed as [`Effects`].
//! - [`Builder`]: lays out a space with a type 0 or type 1 header, Base Address Registers and chained capabilities.
//! - [`header`], [`bar`], [`bridge`], [`cap`], [`ext`]: positions and meanings of the specification's registers. Each
//!   structure is a table of fields ([`register::Structure`]) with the attribute, name and purpose of every bit.
//!   [`structures`] lists all of them, [`inert`] the bits that software may write to no effect.
//! - [`kinds`]: software-writable fields of endpoints, virtual functions, switch ports and root ports.
//! - [`errors`], [`containment`]: error handling.
//! - [`lspci`]: configuration space as text, in the format of `lspci`.
//!
//! A device author declares a function in a few lines:
//!
//! ```
//! use riser_config::{Bar, Builder, Identity, MsixLayout, PcieLayout};
//!
//! let identity = Identity { vendor: 0x1234, device: 0x0001, class: 0x02_00_00, ..Identity::default() };
//! let space = Builder::type0(identity)
//!     .bar(0, Bar::memory64(64 << 10))
//!     .power_management()
//!     .pcie(PcieLayout::default())
//!     .msix(MsixLayout { vectors: 16, table: (0, 0x8000), pending: (0, 0xc000) })
//!     .advanced_error_reporting()
//!     .build()?;
//! assert_eq!(space.read(0), 0x0001_1234);
//! # Ok::<(), riser_config::BuildError>(())
//! ```
//!
//! This crate only holds state. It never depends on clocks, TLPs or devices. The owner of a `ConfigSpace` implements its
//! settings.

pub mod bar;
pub mod bridge;
pub mod build;
pub mod cap;
pub mod containment;
mod effects;
pub mod errors;
pub mod ext;
pub mod header;
pub mod kinds;
pub mod lspci;
pub mod reference;
pub mod register;
pub mod space;
mod views;

pub use bar::{Bar, BarIndex, BarKind, BarWindow};
pub use bridge::{BridgeLayout, BridgeWindows, IoWindow, PrefetchableWindow};
pub use build::{BuildError, Builder, Identity};
pub use cap::msi::{MsiConfig, MsiLayout, MsiOptions};
pub use cap::msix::{MsixControl, MsixLayout};
pub use cap::pcie::{
    AtomicSupport, DeferrableLength, PcieLayout, PortType, SlotEvent, SlotLayout, SlotState,
};
pub use cap::pm::{PmLayout, PowerState};
pub use containment::{DpcReason, DpcSignal, DpcState, RpPioFailure, RpPioOutcome, RpPioRequest};
pub use effects::Effects;
pub use errors::{DetectedError, ErrorReport, Side};
pub use ext::acs::{Acs, AcsLayout};
pub use ext::aer::{AerLayout, AerRole, Correctable, ErrorMessage, Uncorrectable};
pub use ext::ats::AtsLayout;
pub use ext::dpc::DpcLayout;
pub use ext::pasid::PasidLayout;
pub use ext::ptm::PtmLayout;
pub use ext::resizable::ResizableBar;
pub use ext::sriov::{SriovLayout, SriovState, VfBarWindow, VfNumbering};
pub use ext::vc::{Arbitration, MAX_PHASES, VcLayout, VcSetting, VcState};
pub use ext::vendor::VsecLayout;
pub use kinds::FunctionKind;
pub use reference::{inert, structures};
pub use space::{ConfigSpace, ResetScope};
