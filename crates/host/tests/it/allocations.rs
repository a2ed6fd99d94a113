// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In steady state the `async` adapters do not allocate memory.

use device::io::{Request, join, select};
use device::{AsyncDevice, BarIndex, Device, DmaError, DmaId, Input, Io, Output, RequestOp, Token, seam};
use riser_host::cpu::{Cpu, msi};
use riser_host::{AsyncProgram, HostInput, HostMemory, HostOutput, HostProgram};
use tlp::{Class, Data, Duration, PayloadPool, Span, Time};

/// Number of allocations in 1000 rounds after 100 warm-up rounds.
fn allocations(mut round: impl FnMut(u64)) -> u64 {
    (0..100).for_each(&mut round);
    allocation_counter::measure(|| (100..1100).for_each(&mut round)).count_total
}

async fn worker(io: Io, n: u64) -> Result<(), DmaError> {
    loop {
        let bytes = io.dma_read(n * 4096, 64).await?;
        io.dma_write(n * 4096, bytes).await?;
        io.dma_write(n * 4096, [n as u8; 64].as_slice()).await?;
        let (a, b) = join(io.dma_write_counted(0, 64), io.interrupt(1)).await;
        a.and(b)?;
        select(io.sleep(Duration::from_ps(n + 1)), io.sleep(Duration::from_ms(n))).await;
    }
}

async fn device(io: Io) {
    for n in 0..32 {
        io.spawn(worker(io.clone(), n));
    }
    while let Some(request) = io.next_request().await {
        if let Request::Read(read) = request {
            read.complete(0x1234_5678u32);
        }
    }
}

#[test]
fn device_with_persistent_tasks_allocates_nothing() {
    let pool = PayloadPool::new();
    let mut device = AsyncDevice::with_pool(pool.clone(), device);
    let span = Span::covering(0, 4).unwrap();
    let mut reads: Vec<DmaId> = Vec::with_capacity(64);
    let mut outputs = 0u64;
    let count = allocations(|n| {
        let now = Time::from_ps(n * 50);
        let op = RequestOp::Read { bar: BarIndex(0), offset: 0, span, locked: false };
        let token = Token(n as u32);
        device.handle(now, Input::Request(seam::Request::new(token, op)));
        assert_eq!(device.poll_taken(), Some(token));
        for class in Class::ALL {
            while let Some(output) = device.poll_output(now, class) {
                outputs += 1;
                if let Output::Read(read) = output {
                    reads.push(read.id);
                }
            }
        }
        for id in reads.drain(..) {
            device.handle(now, Input::DmaDone { id, result: Ok(Data::Carried(pool.copy(&[7; 64]))) });
        }
        device.handle(now, Input::Timer);
    });
    assert!(outputs > 1100 * 32, "only {outputs} outputs: the workers do not work");
    assert_eq!(count, 0);
}

async fn program(cpu: Cpu) -> Result<(), riser_host::HostError> {
    loop {
        cpu.write_u32(0x1000, 5).await?;
        let value = cpu.read_u32(0x1000).await?;
        cpu.memory().write_u32(0x2000, value).map_err(|_| riser_host::HostError::NoDevice)?;
        cpu.interrupt(3).await;
        cpu.sleep(Duration::from_ps(5)).await;
    }
}

#[test]
fn a_host_program_allocates_nothing() {
    let pool = PayloadPool::new();
    let memory = HostMemory::new(1 << 20, 0).unwrap();
    let mut program = AsyncProgram::with_pool(pool.clone(), memory, program);
    let mut outputs = 0;
    let count = allocations(|n| {
        let now = Time::from_ps(n * 10);
        program.handle(now, HostInput::Timer);
        while let Some(output) = program.poll_output(now) {
            outputs += 1;
            if let HostOutput::MmioRead { id, .. } = output {
                let data = Data::Carried(pool.copy(&[1; 4]));
                program.handle(now, HostInput::Done { id, result: Ok(data) });
                program.handle(now, msi(3));
            }
        }
    });
    assert!(outputs > 2000, "only {outputs} outputs: the program does not work");
    assert_eq!(count, 0);
}
