// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated host's program for the endpoint. It runs the tests of the kernel's `pcitest.sh`, through the same
//! registers.

use super::register as r;
use super::{Settings, command, irq, status};
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::Shared;
use tlp::crc::crc32;
use tlp::{Duration, Time};

/// Block size of the BAR test in bytes.
const BLOCK_BYTES: u64 = 4096;
/// Polling interval without a vector, and the time limit.
const LOOK: Duration = Duration::from_us(1);
const PATIENCE: Duration = Duration::from_ms(100);

/// Number of passed tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointTestReport {
    /// BARs.
    pub bars: u64,
    /// Vectors of MSI-X or MSI, whichever the host has enabled.
    pub vectors: u64,
    /// Transfers: one read, one write and one copy of each size.
    pub transfers: u64,
}

/// Tests every BAR, every vector, and transfers in each direction with the sizes of the settings.
///
/// # Errors
/// The test that failed.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    settings: Settings,
    report: Shared<EndpointTestReport>,
) -> Result<(), DriverError> {
    let test = Test { cpu, function, settings };
    test.run(&report).await.map_err(|e| e.at(function))
}

struct Test {
    cpu: Cpu,
    function: FoundFunction,
    settings: Settings,
}

impl Test {
    async fn run(&self, report: &Shared<EndpointTestReport>) -> Result<(), DriverError> {
        for (bar, bytes) in (0..).zip(self.settings.bar_bytes).filter(|(_, bytes)| *bytes > 0) {
            // In BAR 0, only the magic can be tested: the rest are other registers and the MSI-X table.
            self.bar(bar, if bar == 0 { 4 } else { bytes })
                .await
                .map_err(|e| e.at(format_args!("BAR {bar}")))?;
            report.change(|r| r.bars += 1);
        }
        for vector in 1..=u32::from(self.function.vectors) {
            let status = self.command(command::RAISE[self.irq() as usize], vector).await;
            check(status?, status::IRQ_RAISED).map_err(|e| e.at(format_args!("vector {vector}")))?;
            report.change(|r| r.vectors += 1);
        }
        let most = self.settings.sizes_bytes.iter().copied().max().unwrap_or(0);
        let buffer = || self.cpu.memory().alloc(u64::from(most.max(1)), 4096);
        let (source, destination) = (buffer()?, buffer()?);
        for &size in &self.settings.sizes_bytes {
            self.transfers(source, destination, size).await.map_err(|e| e.at(format_args!("{size} B")))?;
            report.change(|r| r.transfers += 3);
        }
        Ok(())
    }

    async fn bar(&self, bar: u8, bytes: u64) -> Result<(), DriverError> {
        for at in (0..bytes).step_by(BLOCK_BYTES as usize) {
            let (address, len) = (self.function.address(bar, at)?, BLOCK_BYTES.min(bytes - at));
            let pattern: Vec<u8> = (0..len).map(|n| (n as u8).wrapping_mul(7) ^ 0xa0 ^ bar).collect();
            self.cpu.write(address, &pattern[..]).await?;
            let read = self.cpu.read(address, len as u32).await?;
            if read[..] != pattern[..] {
                return Err(format!("the bytes from {at:#x} on differ from those written").into());
            }
        }
        Ok(())
    }

    /// Returns the kind of interrupt that the host has enabled.
    fn irq(&self) -> u32 {
        match (self.function.vectors, self.settings.msix) {
            (0, _) => irq::INTX,
            (_, 0) => irq::MSI,
            _ => irq::MSIX,
        }
    }

    async fn write(&self, register: u64, value: u32) -> Result<(), DriverError> {
        Ok(self.cpu.write_u32(self.function.address(0, register)?, value).await?)
    }

    async fn read(&self, register: u64) -> Result<u32, DriverError> {
        Ok(self.cpu.read_u32(self.function.address(0, register)?).await?)
    }

    /// Executes a command and returns the status after it.
    async fn command(&self, command: u32, vector: u32) -> Result<u32, DriverError> {
        self.write(r::IRQ_TYPE, self.irq()).await?;
        self.write(r::IRQ_NUMBER, vector).await?;
        self.write(r::COMMAND, command).await?;
        if self.irq() != irq::INTX {
            self.cpu.interrupt(self.function.vector_base + vector as u16 - 1).await;
            return self.read(r::STATUS).await;
        }
        let until: Time = self.cpu.now() + PATIENCE;
        loop {
            let status = self.read(r::STATUS).await?;
            if status != 0 || self.cpu.now() >= until {
                return Ok(status);
            }
            self.cpu.sleep(LOOK).await;
        }
    }

    async fn address(&self, register: u64, address: u64) -> Result<(), DriverError> {
        self.write(register, address as u32).await?;
        self.write(register + 4, (address >> 32) as u32).await
    }

    async fn transfers(&self, source: u64, destination: u64, size: u32) -> Result<(), DriverError> {
        let sent: Vec<u8> = (0..size).map(|n| (n ^ n >> 8 ^ size) as u8).collect();
        self.cpu.memory().write(source, &sent)?;
        self.address(r::SOURCE, source).await?;
        self.address(r::DESTINATION, destination).await?;
        self.write(r::SIZE, size).await?;
        self.write(r::CHECKSUM, crc32(u32::MAX, &sent)).await?;
        let mut written = vec![0; sent.len()];
        for (command, succeeded) in [
            (command::READ, status::READ_SUCCESS),
            (command::WRITE, status::WRITE_SUCCESS),
            (command::COPY, status::COPY_SUCCESS),
        ] {
            check(self.command(command, 1).await?, succeeded | status::IRQ_RAISED)?;
            self.cpu.memory().read(destination, &mut written)?;
            if command == command::WRITE && crc32(u32::MAX, &written) != self.read(r::CHECKSUM).await? {
                return Err("the written data do not match their checksum".into());
            }
        }
        if written == sent { Ok(()) } else { Err("the copy differs from its source".into()) }
    }
}

fn check(status: u32, expected: u32) -> Result<(), DriverError> {
    match status == expected {
        true => Ok(()),
        false => Err(format!("status is {status:#x}, expected {expected:#x}").into()),
    }
}
