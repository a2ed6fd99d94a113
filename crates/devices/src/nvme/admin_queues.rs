// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The admin queues of a controller, for the driver on the simulated host.

use super::spec::{CQE_BYTES, SQE_BYTES, admin, cc, csts};
use super::{BAR, MAX_ENTRIES, register};
use host::Cpu;
use host::DriverError;
use host::firmware::FoundFunction;
use std::rc::Rc;
use tlp::Duration;

/// Polling interval of the driver for everything that has no interrupt.
const LOOK: Duration = Duration::from_us(1);
const LOOKS: u32 = 1_000_000;
/// Entries of the admin queues.
const ENTRIES: u32 = 32;
const _: () = assert!(ENTRIES <= MAX_ENTRIES);

/// The admin queues of a controller.
pub(super) struct Admin {
    pub(super) cpu: Cpu,
    pub(super) function: Rc<FoundFunction>,
    submissions: u64,
    completions: u64,
    data: u64,
    issued: u32,
}

impl Admin {
    pub(super) async fn enable(cpu: &Cpu, function: &Rc<FoundFunction>) -> Result<Admin, DriverError> {
        let at = |register| function.address(BAR, register);
        let page = || cpu.memory().alloc(4096, 4096);
        let (submissions, completions, data) = (page()?, page()?, page()?);
        cpu.write_u32(at(register::AQA)?, (ENTRIES - 1) << 16 | (ENTRIES - 1)).await?;
        cpu.write_u64(at(register::ASQ)?, submissions).await?;
        cpu.write_u64(at(register::ACQ)?, completions).await?;
        let (submission, completion) = (SQE_BYTES.trailing_zeros(), CQE_BYTES.trailing_zeros());
        let control = cc::EN | completion << 20 | submission << 16;
        cpu.write_u32(at(register::CC)?, control).await?;
        let mut looks = 0..LOOKS;
        while cpu.read_u32(at(register::CSTS)?).await? & csts::RDY == 0 {
            looks.next().ok_or("the controller does not become ready")?;
            cpu.sleep(LOOK).await;
        }
        let (cpu, function) = (cpu.clone(), Rc::clone(function));
        Ok(Admin { cpu, function, submissions, completions, data, issued: 0 })
    }

    /// Carries out a command, given as opcode, namespace, data, and DW 10 and 11.
    pub(super) async fn command(
        &mut self,
        opcode: u8,
        nsid: u32,
        data: u64,
        [dw10, dw11]: [u32; 2],
    ) -> Result<(), DriverError> {
        let (cpu, memory, slot) = (&self.cpu, self.cpu.memory(), self.issued % ENTRIES);
        let phase = u32::from((self.issued / ENTRIES).is_multiple_of(2));
        let words = [
            u64::from(nsid) << 32 | u64::from(opcode) | u64::from(slot) << 16,
            0,
            0,
            data,
            0,
            u64::from(dw11) << 32 | u64::from(dw10),
            0,
            0,
        ];
        let entry = words.map(u64::to_le_bytes);
        memory.write(self.submissions + u64::from(slot * SQE_BYTES), entry.as_flattened())?;
        self.issued += 1;
        let next = self.issued % ENTRIES;
        cpu.write_u32(self.function.address(BAR, register::SQ0TDBL)?, next).await?;
        let mut looks = 0..LOOKS;
        let ended = self.completions + u64::from(slot * CQE_BYTES) + 12;
        while memory.read_u32(ended)? >> 16 & 1 != phase {
            looks.next().ok_or_else(|| format!("command {opcode:#04x} does not complete"))?;
            cpu.sleep(LOOK).await;
        }
        cpu.write_u32(self.function.address(BAR, register::CQ0HDBL)?, next).await?;
        match memory.read_u32(ended)? >> 17 {
            0 => Ok(()),
            status => Err(format!("command {opcode:#04x} completes with status {status:#x}").into()),
        }
    }

    /// Identifies the controller and namespace 1, and returns the block size in bytes.
    pub(super) async fn identify(&mut self) -> Result<u32, DriverError> {
        self.command(admin::IDENTIFY, 0, self.data, [1, 0]).await?;
        self.command(admin::IDENTIFY, 1, self.data, [0, 0]).await?;
        let memory = self.cpu.memory();
        let format = memory.read_u8(self.data + 26)? & 0xf;
        let shift = memory.read_u8(self.data + 128 + 4 * u64::from(format) + 2)?;
        match shift {
            9..=16 => Ok(1 << shift),
            _ => Err(format!("blocks of 2^{shift} bytes in namespace 1, expected 2^9 to 2^16").into()),
        }
    }
}
