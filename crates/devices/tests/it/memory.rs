// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory device compared with an array, and its driver.

use crate::common::{Loopback, found};
use config::PcieLayout;
use device::{BarIndex, CompletionError, Device, Input, Output, Request, RequestOp, ResetKind, Token};
use host::AsyncProgram;
use proptest::prelude::*;
use riser_devices::memory::{MemoryDevice, Settings, driver, function};
use tlp::{Class, Data, PayloadPool, Span, Time};

const SIZE: u64 = 8192;

fn request(token: u32, op: RequestOp) -> Input {
    Input::Request(Request::new(Token(token), op))
}

fn read(memory: &mut MemoryDevice, span: Span) -> Result<Vec<u8>, CompletionError> {
    let op = RequestOp::Read { bar: BarIndex(0), offset: span.first_byte(), span, locked: false };
    memory.handle(Time::ZERO, request(1, op));
    assert_eq!((memory.poll_taken(), memory.poll_taken()), (Some(Token(1)), None));
    let Some(Output::Complete { token: Token(1), result }) =
        memory.poll_output(Time::ZERO, Class::Completion)
    else {
        panic!("a read is answered");
    };
    result.map(|data| data.bytes().expect("with bytes").to_vec())
}

fn write(memory: &mut MemoryDevice, span: Span, bytes: &[u8]) {
    let data = Data::Carried(PayloadPool::new().copy(bytes));
    let op = RequestOp::Write { bar: BarIndex(0), offset: span.first_byte(), span, data };
    memory.handle(Time::ZERO, request(0, op));
    assert_eq!((memory.poll_taken(), memory.poll_taken()), (Some(Token(0)), None));
    assert!(memory.poll_output(Time::ZERO, Class::Completion).is_none());
}

/// Any span of a request: whole bytes, or one DW with any Byte Enables.
fn spans() -> impl Strategy<Value = Span> {
    let covering =
        (0..SIZE + 64, 1u32..300).prop_filter_map("crosses 4 KiB", |(a, n)| Span::covering(a, n).ok());
    let in_dw = (0..SIZE + 64, 0u8..16).prop_map(|(a, be)| Span::in_dw(a, be));
    let in_qw = (0..SIZE / 8, 1u8..16, 1u8..16)
        .prop_filter_map("not legal", |(a, first, last)| Span::from_fields(a * 8, 2, first, last).ok());
    prop_oneof![covering, in_dw, in_qw]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Reads return exactly the enabled bytes of all previous writes.
    #[test]
    fn memory_behaves_as_an_array(operations in prop::collection::vec((spans(), any::<Option<u8>>()), 1..40)) {
        let mut memory = MemoryDevice::new(SIZE);
        let mut array = vec![0u8; SIZE as usize];
        for (span, fill) in operations {
            let (first, len) = (span.first_byte(), span.byte_count());
            match fill {
                Some(fill) => {
                    let bytes: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8)).collect();
                    write(&mut memory, span, &bytes);
                    for n in (0..len).filter(|n| span.is_enabled(*n)) {
                        if let Some(byte) = array.get_mut((first + u64::from(n)) as usize) {
                            *byte = bytes[n as usize];
                        }
                    }
                }
                None => {
                    let expected = array.get(first as usize..(first + u64::from(len)) as usize);
                    let expected = expected.map(<[u8]>::to_vec).ok_or(CompletionError::UnsupportedRequest);
                    prop_assert_eq!(read(&mut memory, span), expected);
                }
            }
        }
    }
}

#[test]
fn contents_survive_all_resets_except_power_on() {
    let mut memory = MemoryDevice::new(SIZE);
    let span = Span::covering(5, 3).unwrap();
    write(&mut memory, span, &[1, 2, 3]);
    for kind in [ResetKind::FunctionLevel, ResetKind::Hot] {
        memory.handle(Time::ZERO, Input::Reset(kind));
        assert_eq!(read(&mut memory, span), Ok(vec![1, 2, 3]));
    }
    memory.handle(Time::ZERO, Input::Reset(ResetKind::Fundamental));
    assert_eq!(read(&mut memory, span), Ok(vec![0, 0, 0]));
}

/// Without space for answers, no more than 64 reads are taken, but all writes are. A reset drops the answers.
#[test]
fn reads_wait_for_space_but_writes_do_not() {
    let mut memory = MemoryDevice::new(SIZE);
    let span = Span::covering(0, 4).unwrap();
    for token in 0..100 {
        let op = RequestOp::Read { bar: BarIndex(0), offset: 0, span, locked: false };
        memory.handle(Time::ZERO, request(token, op));
    }
    let taken = |memory: &mut MemoryDevice| std::iter::from_fn(|| memory.poll_taken()).count();
    assert_eq!(taken(&mut memory), 64);
    let data = Data::Carried(PayloadPool::new().copy(&[7; 4]));
    memory.handle(Time::ZERO, request(100, RequestOp::Write { bar: BarIndex(0), offset: 0, span, data }));
    assert_eq!(taken(&mut memory), 1);
    let first = memory.poll_output(Time::ZERO, Class::Completion);
    assert!(
        matches!(&first, Some(Output::Complete { token: Token(0), result: Ok(d) }) if d.bytes() == Some(&[0; 4]))
    );
    assert_eq!(taken(&mut memory), 1);
    memory.handle(Time::ZERO, Input::Reset(ResetKind::Hot));
    assert!(memory.poll_output(Time::ZERO, Class::Completion).is_none());
    assert!(Class::ALL.iter().all(|class| memory.poll_output(Time::ZERO, *class).is_none()));
}

#[test]
fn driver_tests_the_bar() {
    for (bar, size_bytes, exercise) in [(0, 65536, 4096), (2, 16, 4096), (5, 1 << 20, 10_001), (0, 128, 0)] {
        let memory = function(
            Settings { bar: BarIndex(bar), size_bytes, ..Settings::default() },
            PcieLayout::default(),
        )
        .unwrap();
        let mut host = Loopback::new(memory);
        let function = found(bar, size_bytes);
        let mut program =
            AsyncProgram::new(host.memory.clone(), |cpu| driver(cpu, function, BarIndex(bar), exercise));
        host.run(&mut program).unwrap();
        let expected = u64::from(exercise).min(size_bytes).div_ceil(4096) * 2;
        assert_eq!(host.log.len() as u64, expected, "one write and one read for each 4 KiB");
    }
}

/// A memory that loses a bit.
struct Leaky(MemoryDevice);

impl Device for Leaky {
    fn handle(&mut self, now: Time, input: Input) {
        if let Input::Request(Request { op: RequestOp::Write { data: Data::Carried(bytes), .. }, .. }) =
            &input
            && bytes.len() > 100
        {
            let mut bytes = bytes.to_vec();
            bytes[100] ^= 0x10;
            return write(&mut self.0, Span::covering(0, bytes.len() as u32).unwrap(), &bytes);
        }
        self.0.handle(now, input);
    }
    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        self.0.poll_output(now, class)
    }
    fn poll_taken(&mut self) -> Option<Token> {
        self.0.poll_taken()
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

#[test]
fn driver_names_the_wrong_byte() {
    let mut host = Loopback::new(function(Settings::default(), PcieLayout::default()).unwrap());
    host.device = Box::new(Leaky(MemoryDevice::new(65536)));
    let mut program =
        AsyncProgram::new(host.memory.clone(), |cpu| driver(cpu, found(0, 65536), BarIndex(0), 4096));
    let error = host.run(&mut program).unwrap_err();
    assert_eq!(error, "function 01:00.0 [7269:0000], offset 0x64: wrote 0x55, read 0x45");
}

/// A BAR above 4 GiB with a size chosen by software. The memory has the largest size.
#[test]
fn software_may_choose_the_bar_size() {
    let settings = Settings { largest_bytes: Some(16 << 30), ..Settings::default() };
    let mut made = function(settings, PcieLayout::default()).unwrap();
    let config = &mut made.config;
    let bar = |config: &config::ConfigSpace| (config.bar(0).unwrap().size, config.read(4) & 0xf);
    assert_eq!(bar(config), (1 << 20, 0b1100), "64-bit, prefetchable");
    let at = config.extended_capability(0x15).unwrap();
    // 2^0 to 2^14 MiB.
    assert_eq!(config.read(at + 1), 0x0007_fff0);
    let _ = config.write(at + 2, 0b0010, 14 << 8);
    assert_eq!(bar(config).0, 16 << 30);
    // A size above the maximum changes nothing.
    let _ = config.write(at + 2, 0b0010, 15 << 8);
    assert_eq!(bar(config).0, 16 << 30);
    let refused = Settings { size_bytes: 1 << 22, largest_bytes: Some(1 << 21), ..settings };
    let refused = function(refused, PcieLayout::default()).err().map(|e| e.to_string());
    assert_eq!(refused.as_deref(), Some("largest_bytes of 2097152, expected at least size_bytes, 4194304"));
}

#[test]
fn rejects_bar_that_does_not_exist() {
    let settings = Settings { bar: BarIndex(6), size_bytes: 16, ..Settings::default() };
    assert!(function(settings, PcieLayout::default()).is_err());
}
