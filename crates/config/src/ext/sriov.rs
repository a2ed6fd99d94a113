// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single Root I/O Virtualization extended capability (`PCIe 5.0 §9.3.3`). The endpoint creates the VFs.

use crate::register::{Register, put, structure, those, without};
use crate::{Bar, BarIndex, BarKind};
use tlp::Bdf;

structure! {
    extended 0x0010, 1, "Single Root I/O Virtualization", "PCIe 5.0 §9.3.3";

    0x04 CAPABILITIES in capabilities "SR-IOV Capabilities" {
        2 hwinit TEN_BIT_TAG_SUPPORTED "VF 10-Bit Tag Requester Supported";
    }
    0x08 CONTROL in control "SR-IOV Control, SR-IOV Status" {
        0 rw VF_ENABLE "VF Enable", "VFs exist" => SRIOV;
        3 rw VF_MEMORY_ENABLE "VF MSE", "VFs claim their memory" => SRIOV;
        4 rw ARI_HIERARCHY "ARI Capable Hierarchy", "First VF Offset and VF Stride" => SRIOV;
        5 rw TEN_BIT_TAG "VF 10-Bit Tag Requester Enable", "VFs use tags of 10 bits" => SRIOV;
    }
    0x0c TOTAL_VFS in total_vfs "InitialVFs, TotalVFs" {
        15:0  hwinit INITIAL "InitialVFs";
        31:16 hwinit TOTAL "TotalVFs";
    }
    0x10 NUM_VFS in num_vfs "NumVFs, Function Dependency Link" {
        15:0  rw     NUMBER "NumVFs", "number of VFs; read-only while VF Enable is set" => SRIOV;
        23:16 hwinit DEPENDENCY_LINK "Function Dependency Link";
    }
    0x14 NUMBERING in numbering "First VF Offset, VF Stride" {
        15:0  ro FIRST_OFFSET "First VF Offset";
        31:16 ro STRIDE "VF Stride";
    }
    0x18 VF_DEVICE_ID in vf_device_id "VF Device ID" {
        31:16 ro DEVICE_ID "VF Device ID";
    }
    0x1c SUPPORTED_PAGE_SIZES in supported_page_sizes "Supported Page Sizes" {
        31:0 ro SIZES "Supported Page Sizes";
    }
    0x20 SYSTEM_PAGE_SIZE in system_page_size "System Page Size" {
        31:0 rw SIZE "System Page Size", "VF BAR sizes are rounded up to this page size" => SRIOV;
    }
    0x24 VF_BAR0 in vf_bar "VF BAR0 to VF BAR5" {
        31:0 rw BASE "VF BAR", "start address of the VFs' memory" => SRIOV;
    }
}

/// DWs of the capability.
const LEN: u16 = 16;
/// Number of VF BARs.
const BARS: u8 = 6;

/// Routing IDs of VFs relative to their PF's (`PCIe 5.0 §9.3.3.9, §9.3.3.10`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VfNumbering {
    /// First VF Offset: from the PF's Routing ID to the first VF's.
    pub first_offset: u16,
    /// VF Stride: from each VF to the next.
    pub stride: u16,
}

/// Declaration of a PF's SR-IOV capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SriovLayout {
    /// TotalVFs and InitialVFs, 1 to 256.
    pub total_vfs: u16,
    /// VF Device ID.
    pub vf_device_id: u16,
    /// Numbering if ARI Capable Hierarchy is set.
    pub ari: VfNumbering,
    /// Numbering if ARI Capable Hierarchy is clear.
    pub without_ari: VfNumbering,
    /// Supported Page Sizes: bit n is 2^(n+12) B.
    pub page_sizes: u32,
    /// BARs of one VF; the VF BARs hold this much for each VF. Memory only.
    pub bars: [Option<Bar>; 6],
    /// Function Dependency Link; the PF's own function number if it depends on no other function.
    pub dependency_link: u8,
    /// VF 10-Bit Tag Requester Supported.
    pub ten_bit_tag: bool,
}

impl SriovLayout {
    /// Maximum number of VFs of a PF in riser.
    pub const MAX_VFS: u16 = 256;

    /// Returns a layout with `total_vfs` VFs and no BARs. With ARI, VF numbers follow function 0; without ARI, they
    /// start on the next bus. The page sizes are the mandatory ones (4 KiB, 8 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB,
    /// `PCIe 5.0 §9.3.3.12`).
    pub const fn new(total_vfs: u16, vf_device_id: u16) -> SriovLayout {
        SriovLayout {
            total_vfs,
            vf_device_id,
            ari: VfNumbering { first_offset: 1, stride: 1 },
            without_ari: VfNumbering { first_offset: 0x100, stride: 1 },
            page_sizes: 0x553,
            bars: [None; 6],
            dependency_link: 0,
            ten_bit_tag: false,
        }
    }

    /// Sets a VF BAR.
    #[must_use]
    pub fn bar(mut self, index: impl Into<BarIndex>, bar: Bar) -> SriovLayout {
        self.bars[usize::from(index.into().0)] = Some(bar);
        self
    }

    /// The first VF BAR that is I/O, has an illegal size, or overlaps another.
    pub(crate) fn bad_bar(&self) -> Option<(u8, Bar)> {
        let bar = |index: u8| self.bars.get(usize::from(index)).copied().flatten();
        let numbered = (0..BARS).filter_map(|index| Some((index, bar(index)?)));
        numbered.into_iter().find(|&(index, it)| {
            let wide = it.kind == BarKind::Memory64;
            let crowded = wide && (index + 1 == BARS || bar(index + 1).is_some());
            it.kind == BarKind::Io || !it.size_is_legal() || crowded
        })
    }

    /// The capability's registers.
    pub(crate) fn registers(&self) -> Vec<Register> {
        let total = u32::from(self.total_vfs);
        let all = TABLE.registers(&[
            (CAPABILITIES, those([(self.ten_bit_tag, capabilities::TEN_BIT_TAG_SUPPORTED)])),
            (TOTAL_VFS, total | total << 16),
            (NUM_VFS, put(num_vfs::DEPENDENCY_LINK, self.dependency_link.into())),
            (VF_DEVICE_ID, put(vf_device_id::DEVICE_ID, self.vf_device_id.into())),
            (SUPPORTED_PAGE_SIZES, self.page_sizes),
            (SYSTEM_PAGE_SIZE, 1),
        ]);
        let mut all = without(all, [(CONTROL, those([(!self.ten_bit_tag, control::TEN_BIT_TAG)]))]);
        all.resize(usize::from(LEN), Register::default());
        for (index, bar) in self.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let at = usize::from(VF_BAR0) + index;
            all[at] = TABLE.register(VF_BAR0, bar.type_bits());
            if bar.kind == BarKind::Memory64 {
                all[at + 1] = TABLE.register(VF_BAR0, 0);
            }
        }
        if self.bars[0].is_none() {
            all[usize::from(VF_BAR0)] = Register::default();
        }
        self.follow(&mut all);
        all
    }

    /// Updates the fields that depend on other registers: bits that VF Enable freezes, the numbering, the VF BARs'
    /// sizes.
    pub(crate) fn follow(&self, words: &mut [Register]) {
        let control = words[usize::from(CONTROL)].value;
        let enabled = control & control::VF_ENABLE != 0;
        let unless = |bits: u32| if enabled { 0 } else { bits };
        let numbering = if control & control::ARI_HIERARCHY != 0 { self.ari } else { self.without_ari };
        let numbers = u32::from(numbering.first_offset) | u32::from(numbering.stride) << 16;
        words[usize::from(NUMBERING)].set(!0, numbers);
        words[usize::from(NUM_VFS)].access.rw = unless(0xffff);
        words[usize::from(SYSTEM_PAGE_SIZE)].access.rw = unless(self.page_sizes);
        let access = &mut words[usize::from(CONTROL)].access;
        access.rw = access.rw & !control::ARI_HIERARCHY | unless(control::ARI_HIERARCHY);
        let page = page_size(words[usize::from(SYSTEM_PAGE_SIZE)].value);
        for (index, bar) in self.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let (low, high) = rounded(bar, page).address_bits();
            let at = usize::from(VF_BAR0) + index;
            narrow(&mut words[at], low, bar.type_bits());
            if bar.kind == BarKind::Memory64 {
                narrow(&mut words[at + 1], high, 0);
            }
        }
    }

    /// Decodes the registers.
    pub(crate) fn state(&self, read: impl Fn(u16) -> u32) -> SriovState {
        let (control, numbering) = (read(CONTROL), read(NUMBERING));
        SriovState {
            enabled: control & control::VF_ENABLE != 0,
            memory_enable: control & control::VF_MEMORY_ENABLE != 0,
            ari_hierarchy: control & control::ARI_HIERARCHY != 0,
            ten_bit_tag: control & control::TEN_BIT_TAG != 0,
            num_vfs: (read(NUM_VFS) as u16).min(self.total_vfs),
            total_vfs: self.total_vfs,
            numbering: VfNumbering { first_offset: numbering as u16, stride: (numbering >> 16) as u16 },
            page_size: page_size(read(SYSTEM_PAGE_SIZE)),
        }
    }

    /// Window of VF BAR `index`.
    pub(crate) fn window(&self, index: u8, read: impl Fn(u16) -> u32) -> Option<VfBarWindow> {
        let bar = (*self.bars.get(usize::from(index))?)?;
        let sized = rounded(&bar, page_size(read(SYSTEM_PAGE_SIZE)));
        let at = VF_BAR0 + u16::from(index);
        let low = u64::from(read(at) & sized.address_bits().0);
        let high = if bar.kind == BarKind::Memory64 { u64::from(read(at + 1)) << 32 } else { 0 };
        Some(VfBarWindow {
            kind: bar.kind,
            address: low | high,
            size: sized.size,
            prefetchable: bar.prefetchable,
            vfs: self.state(read).num_vfs,
        })
    }
}

/// A BAR of one VF, rounded up to the system page (`PCIe 5.0 §9.3.3.13`).
fn rounded(bar: &Bar, page: u64) -> Bar {
    Bar { size: bar.size.max(page), ..*bar }
}

/// Bytes of the page that System Page Size selects: its lowest set bit; 4 KiB if no bit is set.
fn page_size(register: u32) -> u64 {
    if register == 0 { 4096 } else { 4096 << register.trailing_zeros() }
}

/// Restricts writes by software to the bits of `rw`, and clears the others.
fn narrow(register: &mut Register, rw: u32, type_bits: u32) {
    register.access.rw = rw;
    register.value = register.value & rw | type_bits;
}

/// Settings of SR-IOV by software.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SriovState {
    /// VF Enable: VFs exist.
    pub enabled: bool,
    /// VF MSE: VFs claim memory.
    pub memory_enable: bool,
    /// ARI Capable Hierarchy.
    pub ari_hierarchy: bool,
    /// VF 10-Bit Tag Requester Enable.
    pub ten_bit_tag: bool,
    /// NumVFs, no more than TotalVFs.
    pub num_vfs: u16,
    /// TotalVFs.
    pub total_vfs: u16,
    /// First VF Offset and VF Stride in force.
    pub numbering: VfNumbering,
    /// Bytes of the system page.
    pub page_size: u64,
}

impl SriovState {
    /// Number of existing VFs: NumVFs, or 0 while VF Enable is clear.
    pub const fn vfs(&self) -> u16 {
        if self.enabled { self.num_vfs } else { 0 }
    }

    /// The Routing ID of VF `index` (from 0), modulo 2^16 (`PCIe 5.0 §9.2.1.2`).
    pub const fn routing_id(&self, pf: Bdf, index: u16) -> Bdf {
        let steps = self.numbering.stride.wrapping_mul(index);
        Bdf::from_bits(pf.bits().wrapping_add(self.numbering.first_offset).wrapping_add(steps))
    }

    /// The index of the VF with this Routing ID, if it exists.
    pub const fn index_of(&self, pf: Bdf, id: Bdf) -> Option<u16> {
        let distance = id.bits().wrapping_sub(pf.bits()).wrapping_sub(self.numbering.first_offset);
        let index = match self.numbering.stride {
            0 => distance,
            stride if distance.is_multiple_of(stride) => distance / stride,
            _ => return None,
        };
        if index < self.vfs() { Some(index) } else { None }
    }
}

/// Memory of a VF BAR: one window of `size` bytes per VF, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VfBarWindow {
    /// Address space and width of the BAR.
    pub kind: BarKind,
    /// Address of the first VF's first byte.
    pub address: u64,
    /// Bytes of each VF, at least a system page.
    pub size: u64,
    /// Prefetchable.
    pub prefetchable: bool,
    /// NumVFs.
    pub vfs: u16,
}

impl VfBarWindow {
    /// Returns the VF and the offset in its window, if all `len` bytes from `address` lie in one VF's window.
    pub const fn offset_of(&self, address: u64, len: u64) -> Option<(u16, u64)> {
        if address < self.address {
            return None;
        }
        let distance = address - self.address;
        let (vf, offset) = (distance / self.size, distance % self.size);
        if vf < self.vfs as u64 && len <= self.size - offset { Some((vf as u16, offset)) } else { None }
    }
}
