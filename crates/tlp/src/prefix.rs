// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLP prefixes (`PCIe 5.0 §2.2.10`): their types, and how they print. Which prefixes a receiver supports is decided
//! elsewhere.
//!
//! Prefixes are DWs before the header. Local prefixes (between the two ends of a link) come first, then end-to-end
//! prefixes. A TLP refers to them by a counted pointer, so a TLP without prefixes needs only eight bytes for them.

use alloc::rc::Rc;
use core::fmt;

/// One TLP prefix: its DW as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Prefix(pub u32);

/// The type of a prefix (`PCIe 5.0 §2.2.10`, and the ECN that defines PASID).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixKind {
    /// MR-IOV, local; riser does not interpret it.
    MrIov,
    /// Vendor-defined local: VendPrefixL0, VendPrefixL1.
    VendorLocal(u8),
    /// Extended TPH, end-to-end: ST\[15:8\].
    ExtendedTph,
    /// PASID, end-to-end.
    Pasid,
    /// Vendor-defined end-to-end: VendPrefixE0, VendPrefixE1.
    VendorEndToEnd(u8),
    /// A reserved type.
    Reserved,
}

impl Prefix {
    const PRIVILEGED: u32 = 1 << 21;
    const EXECUTE: u32 = 1 << 20;

    /// A PASID prefix (`PCIe 5.0 §6.20`): 20 bits of PASID, Privileged Mode Requested and Execute Requested.
    pub const fn pasid(pasid: u32, privileged: bool, execute: bool) -> Prefix {
        let privileged = if privileged { Prefix::PRIVILEGED } else { 0 };
        let execute = if execute { Prefix::EXECUTE } else { 0 };
        Prefix(0x9100_0000 | privileged | execute | pasid & 0xf_ffff)
    }

    /// An Extended TPH prefix (`PCIe 5.0 §2.2.7.1.1`) with ST\[15:8\].
    pub const fn extended_tph(st_high: u8) -> Prefix {
        Prefix(0x9000_0000 | (st_high as u32) << 16)
    }

    /// True for an end-to-end prefix, which switches forward; false for a local prefix.
    #[must_use]
    pub const fn is_end_to_end(self) -> bool {
        self.0 >> 28 & 1 == 1
    }

    /// The type of the prefix.
    #[must_use]
    pub const fn kind(self) -> PrefixKind {
        match self.0 >> 24 {
            0x80 => PrefixKind::MrIov,
            0x8e => PrefixKind::VendorLocal(0),
            0x8f => PrefixKind::VendorLocal(1),
            0x90 => PrefixKind::ExtendedTph,
            0x91 => PrefixKind::Pasid,
            0x9e => PrefixKind::VendorEndToEnd(0),
            0x9f => PrefixKind::VendorEndToEnd(1),
            _ => PrefixKind::Reserved,
        }
    }

    /// The PASID of a PASID prefix; `None` for others.
    #[must_use]
    pub const fn pasid_value(self) -> Option<u32> {
        match self.kind() {
            PrefixKind::Pasid => Some(self.0 & 0xf_ffff),
            _ => None,
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({:#010x})", self.0)
    }
}

/// Prints type and fields: `PASID 0x12345 PMR EXE`, `ST[15:8] 0x12`, `VendPrefixL0 0x123456`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = self.0 & 0xff_ffff;
        match self.kind() {
            PrefixKind::MrIov => write!(f, "MR-IOV {low:#08x}"),
            PrefixKind::VendorLocal(n) => write!(f, "VendPrefixL{n} {low:#08x}"),
            PrefixKind::ExtendedTph => write!(f, "ST[15:8] {:#04x}", low >> 16),
            PrefixKind::Pasid => {
                write!(f, "PASID {:#07x}", low & 0xf_ffff)?;
                f.write_str(if self.0 & Prefix::PRIVILEGED == 0 { "" } else { " PMR" })?;
                f.write_str(if self.0 & Prefix::EXECUTE == 0 { "" } else { " EXE" })
            }
            PrefixKind::VendorEndToEnd(n) => write!(f, "VendPrefixE{n} {low:#08x}"),
            PrefixKind::Reserved => write!(f, "reserved prefix {:#010x}", self.0),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct List {
    dws: [Prefix; Prefixes::MAX],
    len: usize,
}

/// The prefixes of a TLP in their order on the wire. Clones share the same list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prefixes(Option<Rc<List>>);

impl Prefixes {
    /// Maximum number of prefixes of a TLP in riser. It is twice the specification's maximum of end-to-end prefixes.
    pub const MAX: usize = 8;
    /// Maximum number of end-to-end prefixes of a TLP (`PCIe 5.0 §2.2.10.2`).
    pub const MAX_END_TO_END: usize = 4;
    /// No prefixes.
    pub const NONE: Prefixes = Prefixes(None);

    /// These prefixes; `None` if there are more than [`MAX`](Self::MAX).
    pub fn new(prefixes: &[Prefix]) -> Option<Prefixes> {
        if prefixes.is_empty() {
            return Some(Prefixes::NONE);
        }
        let mut list = List { len: prefixes.len(), ..List::default() };
        list.dws.get_mut(..prefixes.len())?.copy_from_slice(prefixes);
        Some(Prefixes(Some(Rc::new(list))))
    }

    /// The prefixes in their order on the wire.
    pub fn as_slice(&self) -> &[Prefix] {
        match &self.0 {
            Some(list) => &list.dws[..list.len],
            None => &[],
        }
    }

    /// Returns true if there are no prefixes.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Number of local prefixes.
    pub fn local(&self) -> usize {
        self.as_slice().iter().filter(|p| !p.is_end_to_end()).count()
    }

    /// Number of end-to-end prefixes.
    pub fn end_to_end(&self) -> usize {
        self.as_slice().len() - self.local()
    }

    /// Returns true if an end-to-end prefix has a reserved type. The addressee does not support such a prefix; switches
    /// forward it (`PCIe 5.0 §2.2.10.2`).
    pub fn has_reserved(&self) -> bool {
        self.as_slice().iter().any(|p| p.is_end_to_end() && p.kind() == PrefixKind::Reserved)
    }

    /// Length on the wire in bytes: four per prefix.
    pub fn wire_len(&self) -> usize {
        self.as_slice().len() * 4
    }

    /// Length of the local prefixes in bytes. They come first, and ECRC does not cover them (`PCIe 5.0 §2.7.1`).
    pub fn local_len(&self) -> usize {
        self.as_slice().iter().take_while(|p| !p.is_end_to_end()).count() * 4
    }

    /// The PASID, if there is a PASID prefix.
    pub fn pasid(&self) -> Option<u32> {
        self.as_slice().iter().find_map(|p| p.pasid_value())
    }
}

/// Prints a comma before each prefix, in order. Without prefixes, prints an empty string.
impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().iter().try_for_each(|prefix| write!(f, ", {prefix}"))
    }
}
