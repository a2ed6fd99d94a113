// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock function: values of its registers over time.

use config::PcieLayout;
use device::{BarIndex, CompletionError, Device, Input, Output, Request, RequestOp, Token};
use riser_devices::clock::function;
use tlp::{Class, Span, Time};

fn read(device: &mut dyn Device, at: Time, offset: u64, len: u32) -> Result<Vec<u8>, CompletionError> {
    let span = Span::covering(offset, len).unwrap();
    let op = RequestOp::Read { bar: BarIndex(0), offset, span, locked: false };
    device.handle(at, Input::Request(Request::new(Token(1), op)));
    while device.poll_taken().is_some() {}
    let Some(Output::Complete { token: Token(1), result }) = device.poll_output(at, Class::Completion) else {
        panic!("a read is answered");
    };
    result.map(|data| data.bytes().expect("with bytes").to_vec())
}

#[test]
fn clock_register_returns_time_of_the_read() {
    let mut device = function(PcieLayout::default()).unwrap().device;
    let (early, late) = (Time::from_ps(0x1_ffff_fff0), Time::from_ps(0x2_0000_0010));
    assert_eq!(read(&mut *device, early, 0, 8).unwrap(), 0x1_ffff_fff0u64.to_le_bytes());
    assert_eq!(read(&mut *device, early, 0, 4).unwrap(), 0xffff_fff0u32.to_le_bytes(), "the lower half");
    assert_eq!(
        read(&mut *device, late, 4, 4).unwrap(),
        1u32.to_le_bytes(),
        "the upper one, of the same moment"
    );
    assert_eq!(read(&mut *device, late, 4, 4).unwrap(), 2u32.to_le_bytes(), "kept once");
    assert_eq!(read(&mut *device, late, 8, 4).unwrap(), 4u32.to_le_bytes(), "reads of the time");
    assert_eq!(read(&mut *device, late, 6, 4).unwrap(), [0, 0, 5, 0], "across registers");
    assert_eq!(read(&mut *device, late, 16, 8).unwrap(), [0; 8], "behind them");
    assert_eq!(read(&mut *device, late, 4088, 8).unwrap(), [0; 8], "up to the end");
}
