// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns interrupt vectors to functions: MSI-X through the table in a BAR, or MSI, or a line (`PCIe 5.0 §6.1`).

use super::error::FirmwareError;
use super::host_map::HostMap;
use super::system::{Function, Interrupt, System};
use super::vectors::Vectors;
use super::{ALL_BYTES, Config, LOW_HALF};
use config::cap::{msi, msix};
use config::header;
use config::register::{get, put};
use std::collections::BTreeMap;
use tlp::Bdf;

/// MSI-X Enable and Function Mask of Message Control, in place (`PCIe 5.0 §7.7.2.2`).
const MSIX_ENABLE: u32 = 1 << 31;
const FUNCTION_MASK: u32 = 1 << 30;
/// Byte Enables of Message Control in its DW.
const HIGH_HALF: u8 = 0b1100;

impl System {
    /// Assigns vectors to this function, for the first mechanism that it has and that the policy prefers.
    pub(super) async fn give_interrupts(&mut self, config: Config<'_>) -> Result<(), FirmwareError> {
        let line = line(&self.functions, &self.map, config.bdf);
        let System { map, functions, vectors } = self;
        let Some(function) = functions.get_mut(&config.bdf) else { return Ok(()) };
        let policy = &map.policy;
        if let Some(at) = function.capability(msix::ID).filter(|_| policy.msix) {
            return config.program_msix(at, map, vectors, function).await;
        }
        if let Some(at) = function.capability(msi::ID).filter(|_| policy.msi) {
            return config.program_msi_of(at, map, vectors, function).await;
        }
        let pin = (config.read(header::INTERRUPT).await? >> 8) as u8;
        if (1..=4).contains(&pin) && function.vf_of.is_none() {
            let line = line(pin);
            config.write(header::INTERRUPT, 0b0001, line.into()).await?;
            function.interrupt = Interrupt::Intx { pin, line };
            function.found.vector_base = line.into();
        }
        Ok(())
    }

    /// Releases the vectors of a removed function.
    pub(super) fn take_interrupts(&mut self, function: &Function) {
        if matches!(function.interrupt, Interrupt::Msi | Interrupt::Msix) {
            self.vectors.take_back(function.found.vector_base, function.found.vectors);
        }
    }
}

/// The host line of each pin of a function. Every bridge on the path rotates the pins by the device number below it
/// (`PCIe 5.0 §2.2.8.1`).
fn line(functions: &BTreeMap<Bdf, Function>, map: &HostMap, bdf: Bdf) -> impl Fn(u8) -> u8 + use<> {
    let mut turns = 0;
    let mut next = Some(bdf);
    while let Some(function) = next.and_then(|bdf| functions.get(&bdf)) {
        let ari = function.parent.and_then(|above| functions.get(&above)).and_then(|f| f.bridge);
        // With ARI there is no device number; 0 is used.
        let device = if ari.is_some_and(|b| b.ari) { 0 } else { function.bdf().device() };
        turns += usize::from(device);
        next = function.parent;
    }
    let lines = map.intx_lines;
    move |pin| lines[(usize::from(pin) + 3 + turns) % 4]
}

fn none_left(bdf: Bdf) -> String {
    format!("function {bdf}: no interrupt vectors are left")
}

impl Config<'_> {
    /// Fills the table while all vectors are masked. If vectors run short, the remaining entries stay masked.
    async fn program_msix(
        &self,
        at: u16,
        map: &HostMap,
        vectors: &mut Vectors,
        function: &mut Function,
    ) -> Result<(), FirmwareError> {
        let control = self.read(at).await?;
        let entries = (control >> 16 & 0x7ff) as u16 + 1;
        let base = vectors.give(entries, 1).ok_or_else(|| none_left(self.bdf))?;
        function.interrupt = Interrupt::Msix;
        (function.found.vector_base, function.found.vectors) = (base, entries);
        let place = self.read(at + 1).await?;
        let (bar, offset) = ((place & 0b111) as u8, u64::from(place & !0b111));
        let last = offset + u64::from(entries) * msix::ENTRY_BYTES - 1;
        let places =
            function.found.address(bar, offset).and_then(|at| Ok((at, function.found.address(bar, last)?)));
        let (table, _) = places.map_err(|e| format!("its MSI-X table: {e}"))?;
        self.write(at, HIGH_HALF, MSIX_ENABLE | FUNCTION_MASK).await?;
        let mut bytes = Vec::with_capacity(usize::from(entries) * msix::ENTRY_BYTES as usize);
        for vector in (0..entries).map(|i| base + i) {
            bytes.extend_from_slice(&map.msi_address.to_le_bytes());
            // Data, then Vector Control: not masked.
            bytes.extend_from_slice(&u64::from(vector).to_le_bytes());
        }
        let written = self.cpu.write(table, &bytes[..]).await;
        written.map_err(|e| format!("function {}: its MSI-X table at {table:#x}: {e}", self.bdf))?;
        self.write(at, HIGH_HALF, MSIX_ENABLE).await
    }

    /// Grants all requested vectors. Their numbers are consecutive and aligned, as the function replaces the low bits.
    async fn program_msi_of(
        &self,
        at: u16,
        map: &HostMap,
        given: &mut Vectors,
        function: &mut Function,
    ) -> Result<(), FirmwareError> {
        let control = self.read(at).await?;
        let asked = get(control, msi::MULTIPLE_CAPABLE).min(5);
        let vectors = 1u16 << asked;
        let base = given.give(vectors, vectors).ok_or_else(|| none_left(self.bdf))?;
        function.interrupt = Interrupt::Msi;
        (function.found.vector_base, function.found.vectors) = (base, vectors);
        self.write(at + 1, ALL_BYTES, map.msi_address as u32).await?;
        let mut data_at = at + 2;
        if control & msi::CAPABLE_64_BIT != 0 {
            self.write(data_at, ALL_BYTES, (map.msi_address >> 32) as u32).await?;
            data_at += 1;
        }
        self.write(data_at, LOW_HALF, u32::from(base)).await?;
        let enabled = control & !msi::MULTIPLE_ENABLE | put(msi::MULTIPLE_ENABLE, asked) | msi::ENABLE;
        self.write(at, HIGH_HALF, enabled).await
    }
}
