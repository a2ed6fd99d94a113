// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user's device in a slot: results for its author in a successful run, with link errors, and without progress.

use config::{Bar, Builder, Identity, MsiLayout};
use device::io::Request;
use device::io::yield_now;
use device::{AsyncDevice, DmaError, Io};
use fabric::{Direction, FaultAction, FaultRule, FrameKind, Limits, LinkId, Stop};
use host::Cpu;
use host::firmware::FoundFunction;
use lab::OneSlot;
use lab::schema::Link;
use riser_session::{CaptureOptions, Session};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Class;

const BYTES: usize = 1024;

fn config() -> Builder {
    let identity = Identity {
        vendor: 0x7269,
        device: 1,
        revision: 0,
        class: 0xff_0000,
        subsystem_vendor: 0,
        subsystem: 0,
    };
    Builder::type0(identity).bar(0, Bar::memory32(4096)).msi(MsiLayout { vectors: 1 })
}

/// A device that fills host memory at the address that the host writes to it, and interrupts if `says` is true.
async fn filler(io: Io, says: bool) {
    while let Some(request) = io.next_request().await {
        if let Request::Write(write) = request {
            let _ = io.dma_write(write.u64(), [0xa5; BYTES]).await;
            if says {
                let _ = io.interrupt(0).await;
            }
        }
    }
}

async fn driver(cpu: Cpu, function: FoundFunction) -> Result<(), String> {
    let buffer = cpu.memory().alloc(BYTES as u64, 4096).map_err(|e| e.to_string())?;
    cpu.write_u64(function.address(0, 0)?, buffer).await.map_err(|e| e.to_string())?;
    cpu.interrupt(function.vector(0)).await;
    let mut bytes = [0; BYTES];
    cpu.memory().read(buffer, &mut bytes).map_err(|e| e.to_string())?;
    if bytes == [0xa5; BYTES] { Ok(()) } else { Err("not filled".into()) }
}

fn plug(slot: OneSlot, says: bool) -> Result<Session, lab::BuildError> {
    slot.plug(config(), AsyncDevice::new(move |io| filler(io, says)), driver).map(Session::from)
}

#[test]
fn lab_of_one_slot_runs_with_capture_and_report() {
    let mut lab = plug(OneSlot { name: "filler".into(), ..OneSlot::default() }, true).unwrap();
    let capture = lab.capture(Vec::new(), CaptureOptions::default()).unwrap();
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    assert!(capture.finish().unwrap().unwrap().len() > BYTES);
    let report = serde_json::to_value(lab.report("own", &Stop::Finished, 0.0)).unwrap();
    assert_eq!(report["devices"][0]["slot"], "filler");
    assert_eq!(report["devices"][0]["model"], "own");
    // Four writes of Max_Payload_Size, and the interrupt.
    assert_eq!(report["root_complex"]["memory_writes"], 4);
    assert_eq!(report["root_complex"]["interrupts"], 1);
    assert_eq!(report["links"][0]["mps_bytes"], 256);
}

/// Vendor ID 0001h alone does not mean that a function is not ready (`PCIe 5.0 §2.3.2`); FFFFh means that there is no
/// function.
#[test]
fn accepts_lowest_and_highest_vendor_id() {
    let plug = |vendor, device| {
        let identity = Identity { vendor, device, class: 0xff_0000, ..Identity::default() };
        let config = Builder::type0(identity).bar(0, Bar::memory32(4096)).msi(MsiLayout { vectors: 1 });
        OneSlot::default().plug(config, AsyncDevice::new(|io| filler(io, true)), driver)
    };
    for (vendor, device) in [(0x0000, 1), (0x0001, 0x0000), (0x0001, 0xfffe), (0xfffe, 0xffff)] {
        assert_eq!(
            plug(vendor, device).unwrap().fabric.run(Limits::default()),
            Stop::Finished,
            "{vendor:#06x}"
        );
    }
    for (vendor, device) in [(0xffff, 1), (0x0001, 0xffff)] {
        let error = plug(vendor, device).err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("vendor {vendor:#06x}, device {device:#06x}, expected")),
            "{error}"
        );
    }
}

/// The text that `riser run` prints for a lab file is also available to the author of a device.
#[test]
fn report_of_one_slot_prints_as_text() {
    let mut lab = plug(OneSlot { name: "filler".into(), ..OneSlot::default() }, true).unwrap();
    let stop = lab.fabric.run(Limits::default());
    let report = lab.report("own", &stop, 0.25);
    let text = report.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let us = report.simulated_ns / 1_000.0;
    assert!(lines[0].starts_with(&format!("own: finished after {us:.3} us; ")), "{text}");
    assert!(lines[0].ends_with(" TLP-hops in 0.250 s of CPU"), "{text}");
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let up = &report.links[0].directions[1];
    let row = lines.iter().map(|l| cells(l)).find(|c| c.get(3).is_some_and(|c| c == "upstream")).unwrap();
    assert_eq!(row[..3], ["filler", "Gen3", "x8"]);
    assert_eq!(row[4..8], [up.tlps, up.dllps, up.payload_bytes, up.wire_bytes].map(|n| n.to_string()));
    let writes = &report.links[0].transactions.iter().find(|t| t.kind == "dma_write").unwrap();
    let mean = [writes.kind.to_owned(), writes.requests.to_string(), "mean".into()];
    let latency = format!("{:.1}", writes.latency_ns_mean);
    let row = lines.iter().map(|l| cells(l)).find(|c| c.get(1..4) == Some(&mean)).unwrap();
    assert_eq!(row[4], latency, "{text}");
    assert!(!text.ends_with('\n') && !text.contains("errors"), "{text}");
}

/// The tutorial states that a lost frame does no harm.
#[test]
fn replays_lost_write() {
    let writes = FrameKind::Class(Class::Posted);
    let fault = FaultRule::new(LinkId(0), Direction::Upstream, writes, 2, FaultAction::Drop);
    let mut lab = plug(OneSlot { faults: vec![fault], ..OneSlot::default() }, true).unwrap();
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    let report = serde_json::to_value(lab.report("own", &Stop::Finished, 0.0)).unwrap();
    let upstream = &report["links"][0]["directions"][1];
    assert_eq!(upstream["direction"], "upstream");
    assert!(upstream["replays"].as_u64().unwrap() > 0, "{upstream}");
}

/// The tutorial shows the error if no interrupt comes.
#[test]
fn run_without_progress_names_awaited_interrupt() {
    let mut lab = plug(OneSlot::default(), false).unwrap();
    let Stop::NoProgress(lines) = lab.fabric.run(Limits::default()) else { panic!("it went on") };
    assert!(lines.iter().any(|l| l.contains("waiting for interrupts of vector")), "{lines:?}");
}

/// A program that polls memory and lets no time pass is stopped; otherwise it would hang.
#[test]
fn names_spinning_driver() {
    let spin = |cpu: Cpu, _| async move {
        while cpu.memory().read_u32(0x2000) != Ok(7) {
            yield_now().await;
        }
        Ok::<(), String>(())
    };
    let device = AsyncDevice::new(|io| filler(io, true));
    let mut lab = OneSlot { name: "nic".into(), ..OneSlot::default() }
        .plug(config(), device, spin)
        .map(Session::from)
        .unwrap();
    let Stop::Failed(why) = lab.fabric.run(Limits::default()) else { panic!("it went on") };
    assert!(why.starts_with("the host's task for slot `nic` spins: "), "{why}");
}

/// With one vector, there is no vector 5, so its caller gets an error.
#[test]
fn rejects_missing_interrupt_vector() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let note = Rc::clone(&seen);
    let device = AsyncDevice::new(move |io: Io| {
        let note = Rc::clone(&note);
        async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(_) = request {
                    let answers = [io.interrupt(5).await, io.interrupt(0).await];
                    note.borrow_mut().extend(answers.map(|answer| (io.vectors(), answer)));
                }
            }
        }
    });
    let driver = |cpu: Cpu, function: FoundFunction| async move {
        cpu.write_u32(function.address(0, 0)?, 1).await.map_err(|e| e.to_string())?;
        cpu.interrupt(function.vector(0)).await;
        Ok::<(), String>(())
    };
    let mut lab = OneSlot::default().plug(config(), device, driver).map(Session::from).unwrap();
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(*seen.borrow(), [(Some(1), Err(DmaError::NoSuchVector)), (Some(1), Ok(()))]);
}

/// If a run makes no progress, its error counts may be the reason.
#[test]
fn reports_error_counts_without_progress() {
    let device = AsyncDevice::new(|io: Io| async move {
        while let Some(request) = io.next_request().await {
            if let Request::Write(write) = request
                && io.dma_read(write.u64(), 4).await.is_ok()
            {
                let _ = io.interrupt(0).await;
            }
        }
    });
    let driver = |cpu: Cpu, function: FoundFunction| async move {
        cpu.write_u64(function.address(0, 0)?, 1 << 50).await.map_err(|e| e.to_string())?;
        cpu.interrupt(function.vector(0)).await;
        Ok::<(), String>(())
    };
    let mut lab = OneSlot::default().plug(config(), device, driver).map(Session::from).unwrap();
    let Stop::NoProgress(lines) = lab.fabric.run(Limits::default()) else { panic!("it went on") };
    let errors: Vec<&str> = lines.iter().map(String::as_str).filter(|l| l.starts_with("errors, ")).collect();
    assert_eq!(errors[0], "errors, root complex: unsupported_requests 1", "{lines:?}");
    assert!(
        errors[1].starts_with("errors, slot 0: ") && errors[1].contains("received_unsupported 1"),
        "{lines:?}"
    );
    let refusals = lab.refusals();
    let refusals: Vec<_> = refusals.iter().map(|r| (&*r.place, r.rule, &*r.found, r.count)).collect();
    assert_eq!(
        refusals,
        [
            ("root complex, root port 0", "unclaimed-address", "0x4000000000000", 1),
            ("slot 0", "unsupported-request", "001b", 1)
        ]
    );
}

#[test]
fn rejects_impossible_slot() {
    let link = Link { replay_buffer_bytes: Some(1), ..Link::default() };
    let error = plug(OneSlot { link, ..OneSlot::default() }, true).err().unwrap().to_string();
    assert!(error.starts_with("link: replay buffer of 1 bytes"), "{error}");
    let device = AsyncDevice::new(|io| filler(io, true));
    let error = OneSlot::default().plug(config().bar(6, Bar::memory32(128)), device, driver);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("BAR 6"), "{error}");
}
