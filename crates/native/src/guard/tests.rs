// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every kind of input reaches a library in the form that the header defines, and every kind of output reaches the
//! endpoint. The tests need a C compiler. Without one, they print a line and pass.

use super::*;
use crate::loader::Loaded;
use std::path::Path;
use std::process::Command;
use tlp::{Bdf, Span};

/// Compiles `tests/c/kinds.c` to a file for this test and loads it.
fn device(test: &str) -> Option<Guard> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("riser-{test}-{}.so", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .args([here.join("include"), here.join("tests/c/kinds.c")])
        .arg("-o")
        .arg(&out)
        .status();
    if compiled.is_err() {
        eprintln!("no cc: skipped");
        return None;
    }
    assert!(compiled.unwrap().success());
    let instance = Instance::create(&Loaded::open(&out).unwrap(), "").unwrap();
    std::fs::remove_file(out).unwrap();
    let codes = MessageCodes::of(&[0x7e]);
    let mut guard = Guard::new(
        Some(instance),
        PayloadPool::new(),
        codes,
        Signals { intx: true, pme: true },
        Shared::default(),
    );
    guard.set_vectors(2);
    guard.handle(Time::ZERO, Input::Reset(ResetKind::Hot));
    Some(guard)
}

/// Sends a request, checks that it is taken, and returns its completion.
fn ask(guard: &mut Guard, token: u32, op: RequestOp) -> Option<Result<Vec<u8>, CompletionError>> {
    guard.handle(Time::ZERO, Input::Request(Request::new(Token(token), op)));
    assert_eq!(guard.poll_taken(), Some(Token(token)));
    match guard.poll_output(Time::ZERO, Class::Completion) {
        Some(Output::Complete { token: Token(answered), result }) => {
            assert_eq!(answered, token);
            Some(result.map(|data| data.bytes().unwrap_or_default().to_vec()))
        }
        other => {
            assert!(other.is_none(), "{other:?}");
            None
        }
    }
}

fn span(bytes: u32) -> Span {
    Span::covering(0x8000_0000, bytes).unwrap()
}

fn data(bytes: &[u8]) -> Data {
    Data::Carried(PayloadPool::new().copy(bytes))
}

#[test]
fn passes_every_kind_of_input_and_output() {
    let Some(mut guard) = device("kinds") else { return };
    let (bar, offset) = (BarIndex(0), 0);
    let atomic = RequestOp::Atomic { bar, offset, op: AtomicOp::FetchAdd, operands: data(&[5, 0, 0, 0]) };
    assert_eq!(ask(&mut guard, 1, atomic), Some(Ok(vec![101, 0, 0, 0])));
    let swap = RequestOp::Atomic { bar, offset, op: AtomicOp::CompareSwap, operands: data(&[0; 16]) };
    assert_eq!(ask(&mut guard, 2, swap), Some(Ok(vec![106, 0, 0, 0, 0, 0, 0, 0])));
    let read = RequestOp::ConfigRead { register_dw: 0x15, byte_enables: 0xc };
    assert_eq!(ask(&mut guard, 3, read), Some(Ok(vec![0xc, 0, 0x15, 0])));
    let write = RequestOp::ConfigWrite { register_dw: 0x15, byte_enables: 1, value: 7 };
    assert_eq!(ask(&mut guard, 4, write), Some(Ok(Vec::new())));
    for (deferrable, answer) in [(true, Err(CompletionError::Retry)), (false, Ok(Vec::new()))] {
        let write = RequestOp::WriteNonPosted { bar, offset, span: span(4), data: data(&[1; 4]), deferrable };
        assert_eq!(ask(&mut guard, 5, write), Some(answer));
    }
    let (requester, routing, header) =
        (Bdf::from_bits(0x100), MessageRouting::Local, [0, 1, 2, 3, 4, 5, 6, 7]);
    let message =
        RequestOp::Message { requester, routing, code: 0x7e, header, data: data(&[1, 2, 3, 4, 9, 9, 9, 9]) };
    assert_eq!(ask(&mut guard, 6, message), None);

    let mut posted = || guard.poll_output(Time::ZERO, Class::Posted);
    let Some(Output::Write(write)) = posted() else { panic!("no write") };
    assert_eq!(
        (write.address, write.data.bytes(), write.options.tc.bits()),
        (0x1000, Some(&[1, 2, 3, 4][..]), 3)
    );
    assert_eq!(write.options.attr, Attributes::RELAXED_ORDERING);
    assert!(matches!(posted(), Some(Output::Intx { asserted: true })));
    assert!(matches!(posted(), Some(Output::Pme)));
    let Some(Output::Message(out)) = posted() else { panic!("no message") };
    assert_eq!((out.routing, out.code, out.header[0]), (MessageRouting::ToRootComplex, 0x7f, 9));
    assert_eq!(out.data.bytes(), Some(&[1, 2, 3, 4][..]));
    assert!(matches!(posted(), Some(Output::Interrupt { vector: 1 })));
    assert!(posted().is_none());

    let Some(Output::Read(read)) = guard.poll_output(Time::ZERO, Class::NonPosted) else { panic!("no read") };
    assert_eq!((read.address, read.id, read.len, read.carry), (0x2000, DmaId(5), 64, false));
    let Some(Output::Atomic(asked)) = guard.poll_output(Time::ZERO, Class::NonPosted) else {
        panic!("no atomic")
    };
    assert_eq!((asked.address, asked.id, asked.op), (0x3000, DmaId(6), AtomicOp::CompareSwap));
    assert_eq!(asked.operands.bytes(), Some(&[1, 2, 3, 4, 9, 9, 9, 9][..]));
    for (id, result, status, length) in
        [(5, Ok(Data::Counted(64)), 0, 64 + 5), (6, Err(DmaError::CompletionTimeout), 4, 6)]
    {
        guard.handle(Time::ZERO, Input::DmaDone { id: DmaId(id), result });
        let read = RequestOp::Read { bar, offset, span: span(8), locked: false };
        let answer = ask(&mut guard, 7, read).unwrap().unwrap();
        let words = [&answer[..4], &answer[4..]].map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        assert_eq!(words, [status, length]);
    }
    assert_eq!(guard.told.get().failure(), None);
}

/// Byte enables reach the device, and timers fire when requested.
#[test]
fn passes_byte_enables_and_timers() {
    let Some(mut guard) = device("timers") else { return };
    let span = Span::in_dw(0x8000_0000, 0b0101);
    let write = RequestOp::Write { bar: BarIndex(0), offset: 0, span, data: data(&[40, 0, 0]) };
    assert_eq!(guard.poll_timeout(), None);
    assert_eq!(ask(&mut guard, 1, write), None);
    assert_eq!(guard.poll_timeout(), Some(Time::from_ps(40)));
    guard.handle(Time::from_ps(40), Input::Timer);
    assert_eq!(guard.poll_timeout(), None);
    assert!(matches!(
        guard.poll_output(Time::from_ps(40), Class::Posted),
        Some(Output::Interrupt { vector: 1 })
    ));
}

/// A failed device completes requests with Completer Abort and returns all credits.
#[test]
fn failed_device_completes_all_requests() {
    let Some(mut guard) = device("ended") else { return };
    let read = |token| {
        let op = RequestOp::Read { bar: BarIndex(0), offset: 0, span: span(8), locked: false };
        Input::Request(Request::new(Token(token), op))
    };
    guard.handle(Time::ZERO, read(1));
    guard.fail("it was wrong".into());
    guard.fail("and again".into());
    guard.handle(Time::ZERO, read(2));
    for token in [1, 2] {
        assert_eq!(guard.poll_taken(), Some(Token(token)));
        let answer = guard.poll_output(Time::ZERO, Class::Completion);
        assert!(matches!(
            answer,
            Some(Output::Complete { token: Token(t), result: Err(CompletionError::CompleterAbort) }) if t == token
        ));
    }
    assert!(guard.poll_taken().is_none() && guard.poll_output(Time::ZERO, Class::Completion).is_none());
    assert!(guard.waits_for().is_some_and(|why| why.contains("it was wrong")));
    guard.handle(Time::ZERO, Input::Reset(ResetKind::Fundamental));
    assert_eq!(guard.poll_timeout(), None);
}

/// A wrong completion is rejected, and the request gets Completer Abort, once.
#[test]
fn aborts_request_with_wrong_completion() {
    let Some(mut guard) = device("wrongly") else { return };
    let op = RequestOp::Read { bar: BarIndex(0), offset: 0, span: span(8), locked: false };
    guard.handle(Time::ZERO, Input::Request(Request::new(Token(1), op)));
    assert_eq!(guard.poll_taken(), Some(Token(1)));
    for (status, length) in [(0, 7), (3, 0), (9, 0)] {
        let wrong = abi::Completion { token: 1, status, length, reserved: 0, data: ptr::null() };
        assert!(guard.complete(&wrong, Bytes::Counted(length)).is_err());
    }
    guard.fail("it was wrong".into());
    let answer = guard.poll_output(Time::ZERO, Class::Completion);
    assert!(
        matches!(answer, Some(Output::Complete { result: Err(CompletionError::CompleterAbort), .. })),
        "{answer:?}"
    );
    assert!(guard.poll_output(Time::ZERO, Class::Completion).is_none());
}
