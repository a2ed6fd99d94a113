// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices receive Max_Payload_Size and Max_Read_Request_Size (`PCIe 5.0 §7.5.3.4`) before any other input, and then
//! after each change. Virtual functions get the sizes of their physical function.

use crate::endpoint::harness::*;
use crate::endpoint::virtual_functions::*;
use device::*;
use riser_endpoint::*;
use std::cell::RefCell;
use std::rc::Rc;
use tlp::*;

/// The sizes that a device has received since the last call.
fn told(probe: &Probe) -> Vec<(u32, u32)> {
    let told = std::mem::take(&mut probe.0.borrow_mut().sizes);
    told.into_iter().map(|(mps, mrrs, _)| (mps, mrrs)).collect()
}

fn sizes(mps: u32, mrrs: u32) -> u32 {
    mps << 5 | mrrs << 12
}

#[test]
fn function_receives_each_size_change_once() {
    let mut bench = Bench::raw(EndpointLimits::default(), 2);
    let [first, second] = [0, 1].map(|n| bench.probes[n].clone());
    assert_eq!(first.0.borrow().sizes, [(128, 512, 0)], "before anything else");
    let _ = (told(&first), told(&second));
    bench.write_config(0, DEVICE_CONTROL, sizes(1, 5));
    assert_eq!(told(&first), [(256, 4096)]);
    // Neither the same values, nor other bits, nor another register.
    bench.write_config(0, DEVICE_CONTROL, sizes(1, 5));
    bench.write_config(0, DEVICE_CONTROL, sizes(1, 5) | 0x110);
    bench.write_config(0, COMMAND, 0x6);
    assert_eq!(told(&first), []);
    bench.write_config(0, DEVICE_CONTROL, sizes(1, 0));
    bench.write_config(0, DEVICE_CONTROL, sizes(5, 0));
    assert_eq!(told(&first), [(256, 128), (4096, 128)]);
    assert_eq!(told(&second), [], "its own registers did not change");
}

/// A Function Level Reset keeps only Max_Payload_Size (`PCIe 5.0 §6.6.2`). A hot reset resets both sizes.
#[test]
fn reset_is_delivered_after_the_new_sizes() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, DEVICE_CONTROL, sizes(2, 4));
    let probe = bench.probe().clone();
    for (reset, after) in [(ResetKind::FunctionLevel, (512, 512)), (ResetKind::Hot, (128, 512))] {
        let _ = (told(&probe), probe.take_inputs());
        match reset {
            ResetKind::FunctionLevel => bench.write_config(0, DEVICE_CONTROL, sizes(2, 4) | 1 << 15),
            kind => bench.endpoint.reset(Time::ZERO, kind),
        }
        let state = probe.0.borrow();
        assert!(matches!(state.inputs[..], [Input::Reset(kind)] if kind == reset));
        assert_eq!(state.sizes, [(after.0, after.1, 0)], "{reset:?}");
    }
}

#[test]
fn virtual_functions_have_the_sizes_of_their_physical_function() {
    let mut vfs = with_vfs(EndpointLimits::default(), 3);
    vfs.enable(3);
    let probes = [0, 1, 2].map(|n| vfs.probe(n));
    for probe in &probes {
        assert_eq!(probe.0.borrow().sizes, [(256, 512, 0)], "before anything else, and no others");
        let _ = told(probe);
    }
    let control = vfs.bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 2;
    vfs.bench.write_config(0, control, sizes(0, 0));
    assert!(probes.iter().all(|probe| told(probe) == [(128, 128)]));
    // Its own fields are reserved (§9.3.5.4), so a write to them and its reset have no effect.
    vfs.write(1, control, sizes(5, 5));
    vfs.flr(1);
    assert!(matches!(probes[1].take_inputs()[..], [Input::Reset(ResetKind::FunctionLevel)]));
    assert!(probes.iter().all(|probe| told(probe).is_empty()));
    assert!(!vfs.bench.probe().0.borrow().sizes.is_empty());
    // A virtual function that is enabled again has a new device.
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE);
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE | VF_ENABLE);
    assert_eq!(vfs.probe(1).0.borrow().sizes, [(128, 128, 0)]);
    assert!(probes.iter().all(|probe| told(probe).is_empty()), "the former ones are gone");
}

/// Code that reads the sizes at each start, also after resets, and at each doorbell.
#[test]
fn async_device_starts_with_current_sizes() {
    type Log = Rc<RefCell<Vec<(u32, u32)>>>;
    let looks = |log: &Log| {
        let log = Rc::clone(log);
        let device = move |io: Io| {
            let log = Rc::clone(&log);
            async move {
                let look = || log.borrow_mut().push((io.mps().bytes(), io.mrrs().bytes()));
                look();
                while io.next_request().await.is_some() {
                    look();
                }
            }
        };
        Box::new(AsyncDevice::new(device)) as Box<dyn Device>
    };
    let log = Log::default();
    let mut endpoint = {
        let device = looks(&log);
        let functions = vec![FunctionConfig { config: space(), device }];
        let (name, limits, pool) = ("async".into(), EndpointLimits::default(), PayloadPool::new());
        Endpoint::new(EndpointConfig { name, functions, limits, pool }).unwrap()
    };
    let write = |endpoint: &mut Endpoint, dw, value| endpoint.write_config(Time::ZERO, EP, dw, 0xf, value);
    write(&mut endpoint, 4, BAR0 as u32);
    write(&mut endpoint, 5, (BAR0 >> 32) as u32);
    write(&mut endpoint, DEVICE_CONTROL, sizes(2, 3));
    write(&mut endpoint, COMMAND, 0x6);
    endpoint.handle_tlp(Time::ZERO, &mwr(BAR0, &[0; 4]));
    write(&mut endpoint, DEVICE_CONTROL, sizes(1, 3));
    endpoint.handle_tlp(Time::ZERO, &mwr(BAR0, &[0; 4]));
    write(&mut endpoint, DEVICE_CONTROL, sizes(1, 3) | 1 << 15);
    assert_eq!(*log.borrow(), [(512, 1024), (512, 1024), (256, 1024), (256, 512)]);
}
