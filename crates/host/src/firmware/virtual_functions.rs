// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enables and finds virtual functions (`PCIe 5.0 §9`). Their VF BARs already have addresses.

use super::error::FirmwareError;
use super::registers::sriov;
use super::sizing::wanted_vfs;
use super::system::{FoundSriov, Function, Interrupt, System};
use super::{Config, FoundBar, FoundFunction, HostError, LOW_HALF, MAX_TRIES, RETRY_PAUSE};
use crate::cpu::Cpu;
use config::cap::pcie::{self, device_control_2};
use config::header::{self, command};
use tlp::Bdf;

impl System {
    /// Enables the virtual functions that the policy wants, for these physical functions. Returns the IDs of the
    /// virtual functions, at the time when they may be accessed.
    pub(super) async fn enable_vfs(&mut self, cpu: &Cpu, pfs: &[Bdf]) -> Result<Vec<Bdf>, FirmwareError> {
        let mut vfs = Vec::new();
        for pf in pfs {
            let Some(sriov) = self.functions.get(pf).and_then(|f| f.sriov) else { continue };
            let wanted = wanted_vfs(&self.map.policy.vfs, &self.functions[pf], sriov.total_vfs)?;
            if wanted == 0 {
                continue;
            }
            match self.enable_vfs_of(cpu, *pf, sriov, wanted).await {
                Ok(sriov) => {
                    vfs.extend((0..wanted).filter_map(|i| sriov.vf(*pf, i).map(|vf| (*pf, i, vf))));
                    self.note_vfs(*pf, sriov);
                }
                Err(error) => self.survive(cpu, *pf, error, pfs).await?,
            }
        }
        if !vfs.is_empty() {
            cpu.sleep(self.map.policy.vf_settle).await;
        }
        for (pf, index, vf) in &vfs {
            let found = match self.scan_vf(cpu, *pf, *index, *vf).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    self.survive(cpu, *pf, error, pfs).await?;
                    continue;
                }
            };
            if self.functions.insert(*vf, found).is_some() {
                return Err(format!(
                    "function {pf}: virtual function {index} has the ID of another one, {vf}"
                )
                .into());
            }
        }
        Ok(vfs.into_iter().map(|(.., vf)| vf).collect())
    }

    async fn enable_vfs_of(
        &self,
        cpu: &Cpu,
        pf: Bdf,
        sriov: FoundSriov,
        wanted: u16,
    ) -> Result<FoundSriov, FirmwareError> {
        let ten_bit = self.ten_bit_tags(cpu, pf).await?;
        Config { cpu, bdf: pf }.enable_vfs(sriov, wanted, ten_bit).await
    }

    /// True if 10-bit tags are enabled in a physical function; its virtual functions may then use them too.
    async fn ten_bit_tags(&self, cpu: &Cpu, pf: Bdf) -> Result<bool, FirmwareError> {
        let Some(at) = self.functions.get(&pf).and_then(|f| f.found.pcie) else { return Ok(false) };
        let control = Config { cpu, bdf: pf }.read(at + pcie::DEVICE_CONTROL_2).await?;
        Ok(control & device_control_2::TEN_BIT_TAG != 0)
    }

    fn note_vfs(&mut self, pf: Bdf, sriov: FoundSriov) {
        if let Some(function) = self.functions.get_mut(&pf) {
            function.sriov = Some(sriov);
        }
    }

    /// Returns the record of a virtual function, which largely equals its physical function's (`PCIe 5.0 §9.3.4`).
    /// `None` if the physical function has disappeared.
    async fn scan_vf(
        &self,
        cpu: &Cpu,
        pf: Bdf,
        index: u16,
        vf: Bdf,
    ) -> Result<Option<Function>, FirmwareError> {
        let Some(physical) = self.functions.get(&pf) else { return Ok(None) };
        let config = Config { cpu, bdf: vf };
        config.wait_for_vf().await?;
        let sriov = physical.sriov.unwrap_or_default();
        let one = |bar: FoundBar| FoundBar { address: bar.address + u64::from(index) * bar.size, ..bar };
        let mut function = Function {
            found: FoundFunction {
                bdf: vf,
                device: sriov.vf_device,
                bars: sriov.bars.map(|bar| bar.map(one)),
                io_bars: [None; 6],
                pcie: None,
                vector_base: 0,
                vectors: 0,
                ..physical.found
            },
            path: {
                let mut steps = physical.path.clone();
                steps.0.pop();
                steps.below(vf.bits() as u8)
            },
            rom: None,
            sriov: None,
            pcie: None,
            vf_of: Some(pf),
            interrupt: Interrupt::None,
            ..physical.clone()
        };
        config.read_lists(&mut function).await?;
        Ok(Some(function))
    }
}

impl Config<'_> {
    /// Sets NumVFs and VF Enable. Returns the resulting First VF Offset and VF Stride.
    async fn enable_vfs(
        &self,
        sriov: FoundSriov,
        wanted: u16,
        ten_bit: bool,
    ) -> Result<FoundSriov, FirmwareError> {
        let at = sriov.at;
        self.write(at + sriov::NUM_VFS, LOW_HALF, wanted.into()).await?;
        let spread = self.read(at + sriov::OFFSET_STRIDE).await?;
        let hierarchy = self.read(at + sriov::CONTROL).await? & sriov::ARI_HIERARCHY;
        let can = ten_bit && self.read(at + sriov::CAPABILITIES).await? & sriov::TEN_BIT_SUPPORTED != 0;
        let tags = if can { sriov::TEN_BIT_TAG } else { 0 };
        let enable = hierarchy | tags | sriov::VF_ENABLE | sriov::VF_MEMORY_SPACE;
        self.write(at + sriov::CONTROL, LOW_HALF, enable).await?;
        Ok(FoundSriov {
            num_vfs: wanted,
            first_offset: spread as u16,
            stride: (spread >> 16) as u16,
            ..sriov
        })
    }

    /// Waits until a virtual function answers. A virtual function's Vendor ID always reads FFFFh, so another register
    /// is read.
    async fn wait_for_vf(&self) -> Result<(), FirmwareError> {
        for _ in 0..MAX_TRIES {
            match self.cpu.config_read(self.bdf, header::CLASS_REVISION).await {
                Ok(_) => return Ok(()),
                Err(HostError::ConfigRetry) => self.cpu.sleep(RETRY_PAUSE).await,
                Err(error) => return Err(self.error("read", header::CLASS_REVISION, error)),
            }
        }
        Err(format!("function {} is not ready after {MAX_TRIES} tries", self.bdf).into())
    }

    /// Allows a virtual function to send requests. Memory is enabled for all VFs together.
    pub(super) async fn enable_vf(&self) -> Result<(), FirmwareError> {
        self.write(header::COMMAND_STATUS, LOW_HALF, command::BUS_MASTER).await
    }
}
