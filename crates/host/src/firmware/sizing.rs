// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the address ranges that functions need: probes the sizes of BARs, ROMs and VF BARs.

use super::error::FirmwareError;
use super::host_map::VfPolicy;
use super::need::{Class, Need, RangeOwner};
use super::registers::{ROM_ADDRESS, TYPE0_ROM, extended, sriov, type1};
use super::scan::Walk;
use super::system::{FoundSriov, Function};
use super::{ALL_BYTES, Config, LOW_HALF};
use config::header::type0;
use tlp::Bdf;

/// A BAR, decoded from its low bits.
#[derive(Clone, Copy)]
struct Probed {
    index: u8,
    size: u64,
    is_64: bool,
    is_io: bool,
    prefetchable: bool,
}

impl Walk<'_> {
    /// Records the needs of a function.
    pub(super) async fn measure(&mut self, bdf: Bdf) -> Result<(), FirmwareError> {
        let config = Config { cpu: self.cpu, bdf };
        let Some(function) = self.functions.get(&bdf) else { return Ok(()) };
        let (bars, rom) = match function.bridge {
            Some(_) => (type1::BARS, type1::ROM),
            None => (type0::BARS, TYPE0_ROM),
        };
        let wide = self.is_wide_below(function.parent);
        for bar in config.probe_bars(type0::BAR0, bars).await? {
            self.needs.push(self.need(bdf, RangeOwner::Bar(bar.index), bar, 1, wide));
        }
        let size = config.probe_rom(rom).await?;
        if size != 0 {
            let bar = Probed { index: 0, size, is_64: false, is_io: false, prefetchable: false };
            self.needs.push(self.need(bdf, RangeOwner::Rom, bar, 1, wide));
        }
        self.measure_vfs(bdf, wide).await
    }

    /// True if addresses above 4 GiB reach the functions directly below `above`.
    fn is_wide_below(&self, above: Option<Bdf>) -> bool {
        let mut next = above;
        while let Some(function) = next.and_then(|bdf| self.functions.get(&bdf)) {
            if !function.bridge.is_some_and(|b| b.has_64_bit) {
                return false;
            }
            next = function.parent;
        }
        self.leads_above
    }

    fn need(&self, bdf: Bdf, seat: RangeOwner, bar: Probed, times: u64, wide: bool) -> Need {
        let Probed { size: one, is_64, is_io, prefetchable, .. } = bar;
        let above = wide && is_64 && (prefetchable || self.map.policy.all_64_bit_above);
        let class = match (is_io, above) {
            (true, _) => Class::Io,
            (false, true) => Class::Prefetchable,
            (false, false) => Class::Memory,
        };
        let size = one.saturating_mul(times);
        Need { bdf, seat, class, size, align: one, is_64, fixed: None, address: 0 }
    }

    /// Records the needs of a physical function's virtual functions: addresses for all of them, and the bus numbers
    /// that their IDs use (`PCIe 5.0 §9.2.1.2`, `§9.3.3.9` on).
    async fn measure_vfs(&mut self, bdf: Bdf, wide: bool) -> Result<(), FirmwareError> {
        let Some(function) = self.functions.get(&bdf) else { return Ok(()) };
        let Some(at) = function.extended_capability(extended::SRIOV) else { return Ok(()) };
        let ari = function.parent.and_then(|above| self.functions.get(&above));
        let ari = ari.and_then(|f| f.bridge).is_some_and(|b| b.ari);
        let config = Config { cpu: self.cpu, bdf };
        let found = config.probe_vfs(at, ari).await?;
        if found.total_vfs > 1 && found.stride == 0 || found.total_vfs > 0 && found.first_offset == 0 {
            let FoundSriov { first_offset, stride, .. } = found;
            return Err(format!(
                "function {bdf}: First VF Offset {first_offset}, VF Stride {stride}, expected 1 to 65535"
            )
            .into());
        }
        if found.total_vfs > 0 {
            let last = found.vf(bdf, found.total_vfs - 1).ok_or_else(|| {
                format!("function {bdf}: virtual function {} is beyond bus 255", found.total_vfs)
            })?;
            self.reserve_bus(last.bus().into(), bdf)?;
            for bar in config.probe_bars(at + sriov::BAR0, type0::BARS).await? {
                let seat = RangeOwner::VfBar(bar.index);
                self.needs.push(self.need(bdf, seat, bar, found.total_vfs.into(), wide));
            }
        }
        if let Some(function) = self.functions.get_mut(&bdf) {
            function.sriov = Some(found);
        }
        Ok(())
    }
}

/// Number of virtual functions that the policy wants, of the function's `total`.
pub(super) fn wanted_vfs(policy: &VfPolicy, function: &Function, total: u16) -> Result<u16, FirmwareError> {
    match policy {
        VfPolicy::Off => Ok(0),
        VfPolicy::All => Ok(total),
        VfPolicy::Listed(list) => match list.get(&function.path) {
            Some(wanted) if *wanted > total => {
                Err(format!("function {}: {wanted} virtual functions, expected 0 to {total}", function.bdf())
                    .into())
            }
            wanted => Ok(wanted.copied().unwrap_or(0)),
        },
    }
}

impl Config<'_> {
    /// Writes ones to each BAR from `first_dw`, and reads back the bits that are set (`PCIe 5.0 §7.5.1.2.1`).
    async fn probe_bars(&self, first_dw: u16, count: u8) -> Result<Vec<Probed>, FirmwareError> {
        let mut bars = Vec::new();
        let mut index = 0;
        while index < count {
            let low = self.probe_dw(first_dw + u16::from(index)).await?;
            let is_io = low & 1 != 0;
            let is_64 = !is_io && low >> 1 & 0b11 == 0b10 && index + 1 < count;
            let high = if is_64 { self.probe_dw(first_dw + u16::from(index) + 1).await? } else { u32::MAX };
            let address = u64::from(high) << 32 | u64::from(low & if is_io { !0b11 } else { !0xf });
            if address as u32 != 0 || is_64 && high != 0 {
                let size = address & address.wrapping_neg();
                bars.push(Probed { index, size, is_64, is_io, prefetchable: !is_io && low & 0b1000 != 0 });
            }
            index += if is_64 { 2 } else { 1 };
        }
        Ok(bars)
    }

    async fn probe_dw(&self, register_dw: u16) -> Result<u32, FirmwareError> {
        self.write(register_dw, ALL_BYTES, u32::MAX).await?;
        self.read(register_dw).await
    }

    /// Bytes of the Expansion ROM; 0 if there is none. The ROM stays disabled.
    async fn probe_rom(&self, register_dw: u16) -> Result<u64, FirmwareError> {
        self.write(register_dw, ALL_BYTES, ROM_ADDRESS).await?;
        let mask = self.read(register_dw).await? & ROM_ADDRESS;
        Ok(u64::from(mask & mask.wrapping_neg()))
    }

    /// Reads the SR-IOV capability for all VFs. First VF Offset and VF Stride may depend on NumVFs and on ARI Capable
    /// Hierarchy, so these two are set before the offset and the stride are read.
    async fn probe_vfs(&self, at: u16, ari: bool) -> Result<FoundSriov, FirmwareError> {
        let hierarchy = if ari { sriov::ARI_HIERARCHY } else { 0 };
        self.write(at + sriov::CONTROL, LOW_HALF, hierarchy).await?;
        // Pages of 4 KiB.
        self.write(at + sriov::SYSTEM_PAGE_SIZE, ALL_BYTES, 1).await?;
        let total_vfs = (self.read(at + sriov::TOTAL_VFS).await? >> 16) as u16;
        self.write(at + sriov::NUM_VFS, LOW_HALF, total_vfs.into()).await?;
        let spread = self.read(at + sriov::OFFSET_STRIDE).await?;
        self.write(at + sriov::NUM_VFS, LOW_HALF, 0).await?;
        let vf_device = (self.read(at + sriov::VF_DEVICE_ID).await? >> 16) as u16;
        Ok(FoundSriov {
            at,
            total_vfs,
            num_vfs: 0,
            first_offset: spread as u16,
            stride: (spread >> 16) as u16,
            vf_device,
            bars: [None; 6],
        })
    }
}
