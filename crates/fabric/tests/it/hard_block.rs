// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design of raw TLPs in a whole system, driven by a clock: memory at its BAR, and a DMA engine with one tag. Clock
//! edges do not count as progress, so a run with a clock can end.

use crate::common::link;
use crate::common::system::{BAR_BYTES, System, bar, byte, bytes, text};
use config::{Bar, Builder, Identity, MsiLayout, PcieLayout};
use device::{Ready, Token};
use endpoint::EndpointLimits;
use endpoint::hard_block::{DesignInput, DesignOutput, DesignRequest, HardBlock, Target, TlpDesign};
use riser_fabric::{Fabric, Limits, LinkConfig, SlotConfig, Stop};
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, CompletedRequest, Data, Duration, MemoryOp, MemoryRequest, Mps, PayloadPool, Rate, Rcb,
    Repr, Span, Tag, Time, Tlp,
};

/// 250 MHz.
const PERIOD: Duration = Duration::from_ps(4000);
/// Place of the last eight bytes of the memory: a write of an address there reads host memory.
const DOORBELL: u64 = BAR_BYTES - 8;
const DMA_TAG: u16 = 13;
const DMA_BYTES: u32 = 256;

/// The design: one request each edge.
struct Clocked {
    edge: Time,
    memory: Vec<u8>,
    work: VecDeque<DesignRequest>,
    outputs: [VecDeque<DesignOutput>; 3],
    taken: VecDeque<Token>,
    pool: PayloadPool,
    /// The design sends no answers; only its clock runs.
    dead: bool,
    /// Whether the design skips edges together if no input can arrive.
    runs_ahead: bool,
}

impl Clocked {
    fn new(pool: PayloadPool, dead: bool) -> Clocked {
        let memory = vec![0; BAR_BYTES as usize];
        let (work, outputs, taken) = Default::default();
        Clocked { edge: Time::ZERO, memory, work, outputs, taken, pool, dead, runs_ahead: false }
    }

    fn put(&mut self, tlp: Tlp) {
        self.outputs[tlp.class().index()].push_back(DesignOutput::Tlp { function: 0, tlp });
    }

    fn work(&mut self, request: DesignRequest) {
        self.taken.push_back(request.token);
        let Target::Bar { offset, .. } = request.target else { return };
        let at = offset as usize;
        let Some(asked) = CompletedRequest::of(&request.tlp.repr) else {
            let written = request.tlp.data.bytes().unwrap();
            self.memory[at..at + written.len()].copy_from_slice(written);
            if offset == DOORBELL {
                self.read_host(u64::from_le_bytes(written.try_into().unwrap()));
            }
            return;
        };
        let mut sent = 0;
        while sent < asked.bytes.byte_count {
            let rest = asked.bytes.behind(sent);
            let piece = rest.next_piece(Mps::new(128).unwrap(), Rcb::ENDPOINT);
            let from = at + sent as usize;
            let data = Data::Carried(self.pool.copy(&self.memory[from..from + piece as usize]));
            self.put(Tlp::new(asked.with_data(Bdf::default(), sent, piece), data));
            sent += piece;
        }
    }

    fn read_host(&mut self, address: u64) {
        let (requester, tag) = (Bdf::default(), Tag::from_bits(DMA_TAG));
        let span = Span::covering(address, DMA_BYTES).unwrap();
        let read = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
        self.put(Tlp::new(Repr::new(Body::Memory(read)), Data::NONE).with_carry(true));
    }
}

impl TlpDesign for Clocked {
    fn handle(&mut self, now: Time, input: DesignInput) {
        match input {
            DesignInput::Request(request) if !self.dead => self.work.push_back(request),
            DesignInput::Completion { tlp, .. } => {
                let Body::Completion(c) = tlp.repr.body else { return };
                assert_eq!(c.tag.bits(), DMA_TAG);
                let at = (DMA_BYTES - u32::from(c.byte_count)) as usize;
                self.memory[at..at + tlp.data.len()].copy_from_slice(tlp.data.bytes().unwrap());
                if c.is_last() {
                    self.outputs[0].push_back(DesignOutput::Interrupt { function: 0, vector: 0 });
                }
            }
            DesignInput::Timer => {
                self.edge = now + PERIOD;
                if let Some(request) = self.work.pop_front() {
                    self.work(request);
                }
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _now: Time, class: Class) -> Option<DesignOutput> {
        self.outputs[class.index()].pop_front()
    }

    fn ready(&self) -> Ready {
        let some = Class::ALL.into_iter().filter(|class| !self.outputs[class.index()].is_empty());
        let taken = if self.taken.is_empty() { Ready::NONE } else { Ready::TAKEN };
        some.fold(taken, |ready, class| ready.or(Ready::output(class)))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.edge)
    }

    fn is_ticking(&self) -> bool {
        self.work.is_empty()
    }

    fn clock(&mut self) -> Option<&mut dyn endpoint::Clocked> {
        Some(self)
    }
}

impl endpoint::Clocked for Clocked {
    fn run_ahead(&mut self, until: Time) {
        while self.runs_ahead && self.work.is_empty() && self.edge < until {
            self.edge += PERIOD;
        }
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _: &endpoint::LinkCredits) {}
}

fn system(link: LinkConfig, dead: bool) -> System {
    system_with(link, |design| design.dead = dead)
}

fn system_with(link: LinkConfig, set: impl Fn(&mut Clocked)) -> System {
    let mut system = System::new();
    let config = Builder::type0(Identity { vendor: 0x1af4, device: 0x10fe, ..Identity::default() })
        .bar(0, Bar::memory32(BAR_BYTES))
        .msi(MsiLayout { vectors: 1 })
        .pcie(PcieLayout { mps_supported: link.device.mps, ..PcieLayout::default() })
        .build()
        .unwrap();
    let (pool, limits) = (system.payloads.clone(), EndpointLimits::default());
    let mut design = Clocked::new(pool.clone(), false);
    set(&mut design);
    let block = HardBlock::new("block", vec![config], limits, pool, design).unwrap();
    system.slots.push(SlotConfig::on_root_port(link, Box::new(block)));
    system
}

fn ten_ms() -> Limits {
    Limits { until: Time::ZERO + Duration::from_ms(10), ..Limits::default() }
}

#[test]
fn a_clocked_design_serves_a_host_and_reads_its_memory() {
    let fabric = run_dma(false);
    let counts = fabric.slot_counts(0);
    assert!(counts.contains(&("dma_reads", 1)) && counts.contains(&("interrupts", 1)), "{counts:?}");
    // If the design runs ahead, all actions have the same times, with fewer events.
    let ahead = run_dma(true);
    assert_eq!((ahead.now(), ahead.slot_counts(0)), (fabric.now(), counts));
    let [few, many] = [ahead.totals(), fabric.totals()];
    assert_eq!(few.tlp_hops, many.tlp_hops);
    assert!(few.events < many.events, "{few:?} {many:?}");
}

fn run_dma(runs_ahead: bool) -> Fabric {
    let system = system_with(link(Rate::Gt8, 4, 256), |design| design.runs_ahead = runs_ahead);
    let mut fabric = system.with_program(|cpu, found| async move {
        cpu.write(bar(&found[0], 0x1000), bytes(1, 64)).await.map_err(text)?;
        let read = cpu.read(bar(&found[0], 0x1000), 64).await.map_err(text)?;
        assert_eq!(&read[..], &bytes(1, 64)[..]);
        let buffer = 0x4000;
        cpu.memory().write(buffer, &bytes(2, DMA_BYTES.into())).unwrap();
        cpu.write(bar(&found[0], DOORBELL), u64::to_le_bytes(buffer)).await.map_err(text)?;
        cpu.interrupt(found[0].vector_base).await;
        let read = cpu.read(bar(&found[0], 0), DMA_BYTES).await.map_err(text)?;
        assert!((0..u64::from(DMA_BYTES)).all(|n| read[n as usize] == byte(2, n)));
        Ok(())
    });
    assert_eq!(fabric.run(ten_ms()), Stop::Finished);
    fabric
}

/// A program that waits for a design whose clock merely runs is reported after 1 ms, as with any other device. If no
/// part waits, the run is over.
#[test]
fn clock_edges_do_not_count_as_progress() {
    let mut fabric = system(link(Rate::Gt8, 4, 256), true).with_program(|cpu, found| async move {
        cpu.interrupt(found[0].vector_base).await;
        Ok(())
    });
    let stop = fabric.run(ten_ms());
    let Stop::NoProgress(lines) = &stop else { panic!("{stop}") };
    assert!(lines.iter().any(|line| line.contains("host program")), "{lines:?}");
    assert!(fabric.now() < Time::ZERO + Duration::from_ms(2), "{}", fabric.now());

    let mut fabric = system(link(Rate::Gt8, 4, 256), true).without_program();
    assert_eq!(fabric.run(ten_ms()), Stop::Finished);
}
