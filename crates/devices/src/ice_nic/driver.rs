// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bare-metal program of the NIC: sends frames in batches and receives each back from the cable. It uses only the
//! registers, and polls them like the study's latency test (§6.2).

use super::{Control, Frame, MAX_BATCH, QUEUE_ENTRIES, Settings, register};
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;

/// Sends all frames and receives them back.
///
/// # Errors
/// The operation that failed.
pub async fn driver(cpu: Cpu, function: FoundFunction, run: Settings) -> Result<(), DriverError> {
    const { assert!(MAX_BATCH as usize <= QUEUE_ENTRIES) };
    let stride = u64::from(run.frame_bytes).next_multiple_of(4096);
    let alloc = || cpu.memory().alloc_low(stride * u64::from(run.batch), 4096);
    let buffers = Buffers { send: alloc()?, receive: alloc()?, stride };
    let program = Program { cpu: cpu.clone(), base: function.address(super::BAR, 0)?, run, buffers };
    let mut left = run.frames;
    while left > 0 {
        let batch = run.batch.min(left);
        match run.control {
            Control::Each => program.each(batch).await,
            Control::Batched => program.batched(batch).await,
        }
        .map_err(|e| e.at(function))?;
        left -= batch;
    }
    Ok(())
}

struct Buffers {
    send: u64,
    receive: u64,
    stride: u64,
}

struct Program {
    cpu: Cpu,
    base: u64,
    run: Settings,
    buffers: Buffers,
}

impl Program {
    fn request(&self, base: u64, n: u32) -> u64 {
        Frame { address: base + self.buffers.stride * u64::from(n), bytes: self.run.frame_bytes }.request()
    }

    async fn write(&self, register: u64, value: u64) -> Result<(), DriverError> {
        Ok(self.cpu.write_u64(self.base + register, value).await?)
    }

    /// Returns the numbers of pending send and receive completions.
    async fn counts(&self, register: u64) -> Result<(u32, u32), DriverError> {
        let counts = self.cpu.read_u64(self.base + register).await?;
        Ok((counts as u32, (counts >> 32) as u32))
    }

    async fn each(&self, batch: u32) -> Result<(), DriverError> {
        for n in 0..batch {
            self.write(register::RECEIVE_REQUEST, self.request(self.buffers.receive, n)).await?;
            self.write(register::SEND_REQUEST, self.request(self.buffers.send, n)).await?;
        }
        for _ in 0..batch {
            while self.counts(register::COUNTS).await?.0 == 0 {}
            self.cpu.read_u32(self.base + register::SEND_COMPLETION).await?;
        }
        for _ in 0..batch {
            while self.counts(register::COUNTS).await?.1 == 0 {}
            let bytes = self.cpu.read_u32(self.base + register::RECEIVE_COMPLETION).await?;
            self.check(bytes)?;
        }
        Ok(())
    }

    async fn batched(&self, batch: u32) -> Result<(), DriverError> {
        for (register, base) in
            [(register::RECEIVE_REQUESTS, self.buffers.receive), (register::SEND_REQUESTS, self.buffers.send)]
        {
            let requests: Vec<u8> = (0..batch).flat_map(|n| self.request(base, n).to_le_bytes()).collect();
            self.cpu.write(self.base + register, &requests).await?;
        }
        let (mut sent, mut received) = (0, 0);
        while sent < batch || received < batch {
            let (s, r) = self.counts(register::TAKE_ALL).await?;
            (sent, received) = (sent + s, received + r);
        }
        Ok(())
    }

    fn check(&self, bytes: u32) -> Result<(), DriverError> {
        let frame = self.run.frame_bytes;
        if bytes == frame {
            Ok(())
        } else {
            Err(format!("a frame of {bytes} bytes came back, expected {frame}").into())
        }
    }
}
