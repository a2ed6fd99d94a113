// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of the `async` form of a device compared with the direct one: nanoseconds for each DMA write, DMA read and
//! register read, with 32 writes or reads always ready. The benchmark drives the device like an endpoint, without links
//! or memory.

use riser_device::io::{DmaOptions, Request};
use riser_device::{AsyncDevice, BarIndex, DmaId, DmaRead, DmaWrite, Io};
use riser_device::{Device, Input, Output, RequestOp, Token, seam};
use std::collections::VecDeque;
use std::hint::black_box;
use testkit::print_cost;
use tlp::{Class, Data, Span, Time};

const WORKERS: u64 = 32;
const ROUND: u64 = 1024;
const BYTES: u32 = 256;

/// The direct form: a state machine.
struct Direct {
    reads: bool,
    next: u64,
    under_way: u64,
    completions: VecDeque<(Token, u32)>,
    taken: VecDeque<Token>,
}

impl Direct {
    fn new(reads: bool) -> Direct {
        Direct { reads, next: 0, under_way: 0, completions: VecDeque::new(), taken: VecDeque::new() }
    }

    fn address(&mut self) -> u64 {
        self.next += 1;
        (self.next % 4096) * u64::from(BYTES)
    }
}

impl Device for Direct {
    fn handle(&mut self, _: Time, input: Input) {
        match input {
            Input::DmaDone { result, .. } => {
                black_box(result).ok();
                self.under_way -= 1;
            }
            Input::Request(request) => {
                self.taken.push_back(request.token);
                self.completions.push_back((request.token, 7));
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        match class {
            Class::Posted if !self.reads => {
                let address = self.address();
                Some(Output::Write(DmaWrite::new(address, Data::Counted(BYTES))))
            }
            Class::NonPosted if self.reads && self.under_way < WORKERS => {
                self.under_way += 1;
                let address = self.address();
                let id = DmaId(self.next as u32);
                Some(Output::Read(DmaRead::new(id, address, BYTES).counted()))
            }
            Class::Completion => {
                let (token, _) = self.completions.pop_front()?;
                Some(Output::Complete { token, result: Ok(Data::Counted(4)) })
            }
            _ => None,
        }
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

async fn write_worker(io: Io, worker: u64) {
    for n in 0.. {
        let address = ((worker + WORKERS * n) % 4096) * u64::from(BYTES);
        if io.dma_write_counted(address, BYTES).await.is_err() {
            return;
        }
    }
}

async fn read_worker(io: Io, worker: u64) {
    for n in 0.. {
        let address = ((worker + WORKERS * n) % 4096) * u64::from(BYTES);
        let data = io.dma_read_data(address, BYTES, false, DmaOptions::default()).await;
        black_box(data).ok();
    }
}

async fn answer(io: Io) {
    while let Some(request) = io.next_request().await {
        if let Request::Read(read) = request {
            read.complete_counted();
        }
    }
}

fn writers() -> AsyncDevice {
    AsyncDevice::new(
        |io| async move { (0..WORKERS).for_each(|n| drop(io.spawn(write_worker(io.clone(), n)))) },
    )
}

fn readers() -> AsyncDevice {
    AsyncDevice::new(
        |io| async move { (0..WORKERS).for_each(|n| drop(io.spawn(read_worker(io.clone(), n)))) },
    )
}

fn pull_writes(device: &mut dyn Device) {
    for n in 0..ROUND {
        black_box(device.poll_output(Time::from_ps(n), Class::Posted));
        black_box(device.poll_timeout());
    }
}

fn serve_reads(device: &mut dyn Device, under_way: &mut VecDeque<DmaId>) {
    for n in 0..ROUND {
        let now = Time::from_ps(n);
        while let Some(output) = device.poll_output(now, Class::NonPosted) {
            if let Output::Read(read) = output {
                under_way.push_back(read.id);
            }
        }
        let id = under_way.pop_front().expect("reads are always under way");
        device.handle(now, Input::DmaDone { id, result: Ok(Data::Counted(BYTES)) });
        black_box(device.poll_timeout());
    }
}

fn ask_registers(device: &mut dyn Device, span: Span) {
    for n in 0..ROUND {
        let now = Time::from_ps(n);
        let op = RequestOp::Read { bar: BarIndex(0), offset: 0, span, locked: false };
        device.handle(now, Input::Request(seam::Request::new(Token(n as u32), op)));
        black_box(device.poll_taken());
        black_box(device.poll_output(now, Class::Completion));
        black_box(device.poll_timeout());
    }
}

fn main() {
    let forms = |reads, asynchronous: fn() -> AsyncDevice| -> [(&str, Box<dyn Device>); 2] {
        [("direct", Box::new(Direct::new(reads))), ("async", Box::new(asynchronous()))]
    };
    let span = Span::covering(0x1000, 4).expect("one DW");
    for (form, mut device) in forms(false, writers) {
        print_cost(&format!("DMA write, {form}"), ROUND, || pull_writes(&mut *device));
    }
    for (form, mut device) in forms(true, readers) {
        let mut under_way = VecDeque::new();
        print_cost(&format!("DMA read, {form}"), ROUND, || serve_reads(&mut *device, &mut under_way));
    }
    for (form, mut device) in forms(true, || AsyncDevice::new(answer)) {
        print_cost(&format!("register read, {form}"), ROUND, || ask_registers(&mut *device, span));
    }
}
