// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers that a function declares as its own. Requests to them reach the device; the endpoint handles all others.

use crate::endpoint::harness::*;
use config::register::Register;
use config::{BuildError, Builder, ConfigSpace, Identity, PcieLayout};
use device::io::{Io, Request};
use device::*;
use riser_endpoint::*;
use tlp::*;

/// Data Object Exchange (`PCIe 6.0 §7.9.24`): after its header Capabilities, Control, Status, and two mailboxes.
const DOE: u16 = 0x002e;
/// A vendor-specific capability's ID.
const VENDOR: u8 = 0x09;

fn space() -> ConfigSpace {
    let mut doe = vec![Register::of_device(); 6];
    doe[0] = Register::default();
    Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() })
        .pcie(PcieLayout::default())
        .vendor_specific_registers(2)
        .advanced_error_reporting()
        .add_extended(DOE, 1, doe)
        .build()
        .unwrap()
}

/// With its ID captured, and no correctable error masked.
fn bench() -> Bench {
    let mut bench = Bench::of(EndpointLimits::default(), vec![space()]);
    bench.write_extended(0, 1, 5, 0);
    bench
}

fn read_of(dw: u16) -> Tlp {
    cfg(Access::Read, EP, dw, 0xf, &[])
}

#[test]
fn endpoint_answers_capability_headers_and_device_the_rest() {
    let mut bench = bench();
    let vendor = space().capability(VENDOR).unwrap();
    let doe = space().extended_capability(DOE).unwrap();
    // Length 12: three bytes before the length field and one after it, and two registers (`PCIe 5.0 §7.9.4`). No
    // capability follows.
    for (dw, value) in [(vendor, 0x000c_0009), (doe, 0x0001_002e)] {
        bench.handle(read_of(dw));
        let answer = bench.poll(Class::Completion).unwrap();
        assert_eq!(answer.data.bytes(), Some(&u32::to_le_bytes(value)[..]), "{dw:#x}");
    }
    assert!(bench.probe().take_inputs().is_empty());

    for dw in [vendor + 1, vendor + 2, doe + 1, doe + 5] {
        bench.handle(read_of(dw));
        assert!(bench.poll(Class::Completion).is_none(), "the device has not answered");
        let inputs = bench.probe().take_inputs();
        let [Input::Request(device::Request { token, op: RequestOp::ConfigRead { register_dw, .. }, .. })] =
            &inputs[..]
        else {
            panic!("{inputs:?}")
        };
        assert_eq!(*register_dw, dw);
        let data = Data::Carried(bench.pool.copy(&u32::from(dw).to_le_bytes()));
        bench.probe().push(Class::Completion, Output::Complete { token: *token, result: Ok(data) });
        let answer = bench.poll(Class::Completion).unwrap();
        let c = completion(&answer);
        assert_eq!((c.completer, c.byte_count, c.lower_address, c.length_dw), (EP, 4, 0, Some(1)));
        assert_eq!(answer.data.bytes(), Some(&u32::from(dw).to_le_bytes()[..]));
    }
    // No registers follow the last one.
    bench.handle(read_of(doe + 6));
    assert!(bench.poll(Class::Completion).is_some());
}

#[test]
fn writes_reach_the_device_with_their_byte_enables_and_capture_the_id() {
    let mut bench = bench();
    let doe = space().extended_capability(DOE).unwrap();
    let id = Bdf::from_bits(0x4200);
    bench.handle(cfg(Access::Write, id, doe + 2, 0b0110, &[0xaa, 0xbb]));
    let inputs = bench.probe().take_inputs();
    let [Input::Request(device::Request { token, op, .. })] = &inputs[..] else { panic!("{inputs:?}") };
    let RequestOp::ConfigWrite { register_dw, byte_enables, value } = op else { panic!("{op:?}") };
    assert_eq!((*register_dw, *byte_enables, *value), (doe + 2, 0b0110, 0x00bb_aa00));
    bench.probe().push(Class::Completion, Output::Complete { token: *token, result: Ok(Data::NONE) });
    let c = completion(&bench.poll(Class::Completion).unwrap());
    assert_eq!((c.status, c.completer, c.length_dw), (Status::Success, id, None));
    assert_eq!(bench.endpoint.function_id(0), Some(id), "as any write of type 0 (`PCIe 5.0 §2.2.6.2`)");

    // The endpoint refuses a poisoned write.
    let mut poisoned = cfg(Access::Write, id, doe + 2, 0xf, &[0; 4]);
    poisoned.repr.ep = true;
    bench.handle(poisoned);
    assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).status, Status::UnsupportedRequest);
    assert!(bench.probe().take_inputs().is_empty());
}

/// For a request that the device aborts, the Header Log holds the header of the configuration request (`PCIe 5.0 §7.8.4.8`).
#[test]
fn request_refused_by_device_is_logged_with_its_header() {
    let mut bench = bench();
    let doe = space().extended_capability(DOE).unwrap();
    let request = read_of(doe + 1);
    bench.handle(request.clone());
    let token = bench.probe().tokens()[0];
    let result = Err(CompletionError::CompleterAbort);
    bench.probe().push(Class::Completion, Output::Complete { token, result });
    assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).status, Status::CompleterAbort);
    let mut header = [0; 12];
    request.repr.emit(&mut header);
    let aer = space().extended_capability(1).unwrap();
    for (n, dw) in (0..3).zip(header.chunks_exact(4)) {
        let logged = bench.endpoint.config(0).unwrap().read(aer + 7 + n);
        assert_eq!(logged, u32::from_be_bytes(dw.try_into().unwrap()), "DW {n} of the Header Log");
    }
}

/// A mailbox as `async` code: a value written to one register is read back with its bytes swapped; the others ignore writes.
#[test]
fn async_device_implements_a_mailbox() {
    let mailbox = space().extended_capability(DOE).unwrap() + 4;
    let device = AsyncDevice::new(move |io: Io| async move {
        let mut kept = 0;
        while let Some(request) = io.next_request().await {
            match request {
                Request::ConfigWrite(w) if w.register_dw() == mailbox => kept = w.apply(kept),
                Request::ConfigWrite(w) => w.fail(CompletionError::UnsupportedRequest),
                Request::ConfigRead(r) => r.complete(kept.swap_bytes()),
                _ => {}
            }
        }
    });
    let functions = vec![FunctionConfig { config: space(), device: Box::new(device) }];
    let (name, limits, pool) = ("mailbox".into(), EndpointLimits::default(), PayloadPool::new());
    let mut endpoint = Endpoint::new(EndpointConfig { name, functions, limits, pool }).unwrap();
    let mut ask = |request: Tlp| {
        endpoint.handle_tlp(Time::ZERO, &request);
        endpoint.poll_tlp(Time::ZERO, Class::Completion, TcSet::ALL).unwrap()
    };
    let write = |dw, byte_enables, data: &[u8]| cfg(Access::Write, EP, dw, byte_enables, data);
    assert_eq!(completion(&ask(write(mailbox, 0xf, &[1, 2, 3, 4]))).status, Status::Success);
    assert_eq!(completion(&ask(write(mailbox, 0x2, &[9]))).status, Status::Success);
    assert_eq!(ask(read_of(mailbox)).data.bytes(), Some(&[4, 3, 9, 1][..]));
    assert_eq!(completion(&ask(write(mailbox + 1, 0xf, &[0; 4]))).status, Status::UnsupportedRequest);
}

#[test]
fn capability_header_cannot_be_device_owned() {
    let built = Builder::type0(Identity { vendor: 0x1234, ..Identity::default() })
        .add_extended(DOE, 1, vec![Register::of_device(); 2])
        .build();
    let error = built.err().unwrap();
    assert!(matches!(error, BuildError::Extended { id: DOE, .. }));
    assert!(error.to_string().contains("header"), "{error}");
    let long =
        Builder::type0(Identity { vendor: 0x1234, ..Identity::default() }).vendor_specific_registers(63);
    assert_eq!(long.build().err(), Some(BuildError::VendorBytes(253)));
}
