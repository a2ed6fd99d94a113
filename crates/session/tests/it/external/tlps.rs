// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Raw TLPs from outside a lab: memory in the BAR of a slot, and a DMA engine with its own tags, like RTL. The firmware
//! and a driver on the simulated host use both.

use config::{Bar, Builder, Identity, MsiLayout};
use endpoint::EndpointLimits;
use endpoint::hard_block::{DesignInput, DesignOutput, DesignRequest, HardBlock, RefusedTlp, Target};
use host::Cpu;
use host::firmware::FoundFunction;
use lab::parse_in;
use plug::{Fault, Model, Models, Plugged, Site};
use riser_session::external::tlps::{MAX_WAITING, OutsideInput, TlpInput, TlpPlace};
use riser_session::external::{Clock, Driver, Handle, RecordedLab, Replay};
use riser_session::{CaptureOptions, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use testkit::Bytes;
use tlp::{
    Bdf, Body, CompletedRequest, Data, Duration, MemoryOp, MemoryRequest, Mps, PayloadPool, Rcb, Repr, Span,
    Tag, Time, Tlp,
};

const LAB: &str = "version = 1\n[[slot]]\nname = \"rtl\"\ndevice = \"rtl\"\n";
const BYTES: usize = 4096;
/// The last eight bytes: an address that is written there starts a read of host memory.
const DOORBELL: u64 = BYTES as u64 - 8;
const TAG: u16 = 13;
const DMA_BYTES: u32 = 256;

/// A hard block with an outside design.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Rtl {}

impl Model for Rtl {
    const NAME: &'static str = "rtl";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let config = Builder::type0(Identity { vendor: 0x7269, device: 0x7ffc, ..Identity::default() })
            .bar(0, Bar::memory32(BYTES as u64))
            .msi(MsiLayout { vectors: 1 })
            .pcie(site.pcie)
            .usual()
            .build()?;
        let (place, pool) = (TlpPlace::new(site.payloads), site.payloads.clone());
        let block = HardBlock::new("rtl", vec![config], EndpointLimits::default(), pool, place.design());
        let block = block.map_err(|e| e.to_string())?;
        Ok(Plugged::block(block, drive).joined_at(place))
    }
}

/// Writes and reads back, starts a read of host memory, and checks the result.
async fn drive(cpu: Cpu, found: FoundFunction) -> Result<(), String> {
    let (bar, text) = (found.address(0, 0)?, |e: host::HostError| e.to_string());
    cpu.write(bar + 0x400, [7_u8; 64]).await.map_err(text)?;
    if cpu.read(bar + 0x400, 64).await.map_err(text)?[..] != [7; 64] {
        return Err("it is not what was written".into());
    }
    let buffer = cpu.memory().alloc(DMA_BYTES.into(), 4096).map_err(|e| e.to_string())?;
    let sent: Vec<u8> = (0..DMA_BYTES).map(|n| n as u8).collect();
    cpu.memory().write(buffer, &sent).map_err(|e| e.to_string())?;
    cpu.write_u64(bar + DOORBELL, buffer).await.map_err(text)?;
    cpu.interrupt(found.vector_base).await;
    if cpu.read(bar, DMA_BYTES).await.map_err(text)?[..] != sent[..] {
        return Err("it has not read what stands there".into());
    }
    Ok(())
}

fn models() -> Models {
    Models::default().with::<Rtl>()
}

/// The outside design.
struct Design {
    handle: Handle<TlpPlace>,
    memory: Vec<u8>,
    pool: PayloadPool,
    refused: Vec<RefusedTlp>,
}

impl Design {
    fn give(&self, lab: &mut Driver, now: Time, output: DesignOutput) {
        lab.inject(now, &self.handle, TlpInput::Output(output));
    }

    fn send(&self, lab: &mut Driver, now: Time, repr: Repr, data: Data) {
        self.give(lab, now, DesignOutput::Tlp { function: 0, tlp: Tlp::new(repr, data) });
    }

    /// Handles all new inputs.
    fn work(&mut self, lab: &mut Driver, now: Time) {
        while let Some((_, heard)) = self.handle.place.poll_input() {
            match heard {
                OutsideInput::Input(DesignInput::Request(request)) => self.serve(lab, now, &request),
                OutsideInput::Input(DesignInput::Completion { tlp, .. }) => {
                    let Body::Completion(c) = tlp.repr.body else { panic!("{tlp}") };
                    assert_eq!(c.tag.bits(), TAG);
                    let at = (DMA_BYTES - u32::from(c.byte_count)) as usize;
                    self.memory[at..at + tlp.data.len()].copy_from_slice(tlp.data.bytes().unwrap());
                    if c.is_last() {
                        self.give(lab, now, DesignOutput::Interrupt { function: 0, vector: 0 });
                    }
                }
                OutsideInput::Input(DesignInput::Refused { why, .. }) => self.refused.push(why),
                OutsideInput::Input(DesignInput::Reset { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn serve(&mut self, lab: &mut Driver, now: Time, request: &DesignRequest) {
        lab.inject(now, &self.handle, TlpInput::Taken(request.token));
        let Target::Bar { offset, .. } = request.target else { return };
        let at = offset as usize;
        let Some(asked) = CompletedRequest::of(&request.tlp.repr) else {
            let written = request.tlp.data.bytes().unwrap();
            self.memory[at..at + written.len()].copy_from_slice(written);
            if offset == DOORBELL {
                self.read_host(lab, now, u64::from_le_bytes(written.try_into().unwrap()));
            }
            return;
        };
        let mut sent = 0;
        while sent < asked.bytes.byte_count {
            let piece = asked.bytes.behind(sent).next_piece(Mps::new(128).unwrap(), Rcb::ENDPOINT);
            let data = self.pool.copy(&self.memory[at + sent as usize..][..piece as usize]);
            self.send(lab, now, asked.with_data(Bdf::default(), sent, piece), Data::Carried(data));
            sent += piece;
        }
    }

    fn read_host(&self, lab: &mut Driver, now: Time, address: u64) {
        let (requester, tag) = (Bdf::default(), Tag::from_bits(TAG));
        let span = Span::covering(address, DMA_BYTES).unwrap();
        let read = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
        self.send(lab, now, Repr::new(Body::Memory(read)), Data::NONE);
    }
}

fn start(clock: Clock) -> (Driver, Design) {
    let file = parse_in(&models(), Path::new("rtl.toml"), LAB, "".into()).unwrap();
    let lab = Driver::new(Session::new(&file).unwrap(), clock);
    let (handle, memory) = (lab.handle_named("slot rtl").unwrap(), vec![0; BYTES]);
    (lab, Design { handle, memory, pool: PayloadPool::new(), refused: Vec::new() })
}

fn capture(lab: &mut riser_session::Session) -> (Bytes, riser_session::CaptureHandle<Bytes>) {
    let bytes = Bytes::default();
    let handle = lab.capture(bytes.clone(), CaptureOptions::default()).unwrap();
    (bytes, handle)
}

#[test]
fn outside_design_serves_host_accesses_memory_and_replays() {
    for clock in [Clock::Virtual, Clock::Wall, Clock::Lagging] {
        let ((mut lab, mut design), record) = (start(clock), Bytes::default());
        let (path, text) = ("rtl.toml".to_owned(), LAB.to_owned());
        let recorded = RecordedLab { path, text, set: Vec::new(), seed: 0, files: Some([].into()) };
        lab.record(Box::new(record.clone()), &recorded, u64::MAX);
        let (live, handle) = capture(lab.session_mut());
        let mut now = Time::ZERO;
        for n in 0..400_u64 {
            now += Duration::from_ps(1_234_567 + n * 1001);
            lab.drain(now, |_| {});
            design.work(&mut lab, now);
        }
        let outcome = lab.session().fabric.host_outcome().cloned();
        assert_eq!((outcome, lab.failure()), (Some(Ok(())), None), "{clock:?}");
        assert_eq!(design.refused, []);
        lab.finish(now).unwrap();
        lab.session_mut().fabric.take_tap();
        handle.finish().unwrap();

        let record = record.0.take();
        let mut replay = Replay::new(&record, &models()).unwrap();
        let (again, handle) = capture(replay.session_mut());
        let mut replayed = replay.run().unwrap();
        replayed.session.fabric.take_tap();
        handle.finish().unwrap();
        // Four accepted requests of the host, their three completions, a DMA read and an interrupt.
        assert!(replayed.complete && replayed.inputs == 9, "{}", replayed.inputs);
        assert!(*live.0.borrow() == *again.0.borrow() && live.0.borrow().len() > 1000, "{clock:?}");
    }
}

/// Illegal outputs come back with the reason, and so do outputs without room.
#[test]
fn returns_outputs_that_cannot_be_sent() {
    let (mut lab, mut design) = start(Clock::Wall);
    let address = 0x1000;
    // Before software has enabled the function.
    design.read_host(&mut lab, Time::ZERO, address);
    lab.drain(Time::ZERO + Duration::from_us(30), |_| {});
    design.work(&mut lab, Time::ZERO);
    assert!(matches!(design.refused[..], [RefusedTlp::Gated(_)]), "{:?}", design.refused);
    for _ in 0..=MAX_WAITING {
        design.read_host(&mut lab, Time::ZERO, address);
    }
    assert!(
        !design.handle.place.has_room(tlp::Class::NonPosted)
            && design.handle.place.has_room(tlp::Class::Posted)
    );
    let back: Vec<_> = std::iter::from_fn(|| design.handle.place.poll_input()).collect();
    assert!(matches!(back[..], [(_, OutsideInput::NoRoom(DesignOutput::Tlp { .. }))]), "{back:?}");
}
