// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data link layer of `rtl/pcie_stack` under Verilator against riser's link: every byte arrives, whatever happens to
//! frames, and the TLPs are those of two ends of riser's own.

#[allow(dead_code, reason = "only a part of these rigs is used")]
#[path = "../../../fabric/tests/it/common/sources.rs"]
mod sources;
#[allow(dead_code, reason = "only a part of these rigs is used")]
#[path = "../../../fabric/tests/it/common/system.rs"]
mod system;

use super::DataLinkRtl;
use super::block::FrameBlock;
use crate::build::{Options, build};
use crate::design::Design;
use crate::library::LibraryFile;
use crate::loader::{Instance, Loaded};
use device::Io;
use device::io::Request;
use endpoint::{FrameSlot, Joined, RawDevice};
use fabric::{
    Direction, Fabric, FaultAction, FaultRule, FrameKind, Limits, LinkChange, LinkConfig, LinkEvent, LinkId,
    PortId, Side, SlotConfig, Stop, Tap, TapRecord,
};
use link::{Counters, CreditLimit, Frame, PortConfig};
use sources::{Source, Sources};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use system::{System, bar, bytes, text};
use tlp::{Duration, Mps, Rate, TcVcMap, Time, Width};

const LEN: u32 = 3000;

/// The RTL in a folder of its own, with its library.
struct Built {
    folder: PathBuf,
    design: Design,
    loaded: Rc<Loaded>,
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Builds the RTL with two channels and a short replay buffer; `None` without Verilator.
fn built() -> Option<Built> {
    if Command::new("verilator").arg("--version").output().is_err() {
        println!("skipped: no verilator");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("riser-data-link-{}", std::process::id()));
    let from = testkit::root().join("rtl/pcie_stack");
    for part in ["", "lab"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in fs::read_dir(from.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "sv" || e == "svh" || e == "toml") {
                fs::copy(&path, folder.join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    let file = folder.join("lab/frame_link.toml");
    let wider =
        "parameters.DATA_WIDTH = \"256\"\nparameters.NUM_VCS = \"2\"\nparameters.REPLAY_TLPS = \"32\"";
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("parameters.DATA_WIDTH = \"256\"", wider)).unwrap();
    let built = build(&file, &Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let design = Design::read(&file).unwrap();
    let library = LibraryFile::of(&design, &file, false).unwrap_or_else(|e| panic!("{}", e.message));
    assert_eq!(built.library.canonicalize().unwrap(), library.path);
    let loaded = Loaded::open(&library).unwrap();
    Some(Built { folder, design, loaded })
}

impl Built {
    /// Puts the RTL below the devices of all slots.
    fn below(&self, mut system: System) -> System {
        for slot in &mut system.slots {
            let instance = Instance::create(&self.loaded, 1).unwrap();
            let block = FrameBlock::new(self.design.shape(), slot.link.device.clone());
            let link = DataLinkRtl::new(Some(instance), self.design.block.user_clock_hz, block);
            let device = std::mem::replace(&mut slot.device, Box::new(RawDevice::default()));
            slot.device = Box::new(FrameSlot::new(Joined::new(link, device)));
        }
        system
    }
}

fn link() -> LinkConfig {
    let port = PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), Mps::new(256).unwrap());
    let propagation = Duration::from_ns(2);
    LinkConfig { root: port.clone(), device: port, propagation, rcb: None, bit_error_rate: 0 }
}

/// A device that copies 3000 bytes of host memory when it is triggered.
fn copier(link: LinkConfig) -> System {
    System::new().device(link, |io: Io| async move {
        while let Some(request) = io.next_request().await {
            if let Request::Write(_) = request {
                if let Ok(data) = io.dma_read(0x4000, LEN).await {
                    let _ = io.dma_write(0x8000, data).await;
                }
                let _ = io.interrupt(0).await;
            }
        }
    })
}

/// The host lets the device copy 12 times, and compares every byte.
fn copies(system: System) -> Fabric {
    system.with_program(move |cpu, found| async move {
        for round in 0..12 {
            let data = bytes(round, LEN.into());
            cpu.memory().write(0x4000, &data).map_err(text)?;
            cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            let mut copy = vec![0; LEN as usize];
            cpu.memory().read(0x8000, &mut copy).map_err(text)?;
            if copy != data {
                return Err(format!("round {round}: other bytes"));
            }
        }
        Ok(())
    })
}

type Tlps = BTreeMap<(Direction, usize), Vec<String>>;

/// TLPs that arrive intact and in order, by direction and class.
#[derive(Clone, Default)]
struct Seen {
    tlps: Rc<RefCell<Tlps>>,
    next: Rc<RefCell<[u16; 2]>>,
}

impl Tap for Seen {
    fn frame(&mut self, r: &TapRecord<'_>) {
        let Frame::Tlp { sequence, tlp } = r.frame else { return };
        let next = &mut self.next.borrow_mut()[r.direction as usize];
        if r.direction == Direction::of_sender(r.at) || r.damaged || r.dropped || sequence != *next {
            return;
        }
        *next = (*next + 1) % 4096;
        let line = format!("{tlp} {:?}", tlp.data.bytes());
        self.tlps.borrow_mut().entry((r.direction, tlp.class().index())).or_default().push(line);
    }
}

/// What is left of a run.
struct Run {
    root: Counters,
    device: Counters,
    tlps: Tlps,
    counts: BTreeMap<&'static str, u64>,
}

impl Run {
    fn of(mut fabric: Fabric, what: &str) -> Run {
        let seen = Seen::default();
        fabric.set_tap(Box::new(seen.clone()));
        let stop = fabric.run(Limits { until: Time::ZERO + Duration::from_ms(20), ..Limits::default() });
        assert_eq!(stop, Stop::Finished, "{what}: {:?}", fabric.slot_counts(0));
        Run::after(&fabric, &seen, what)
    }

    fn after(fabric: &Fabric, seen: &Seen, what: &str) -> Run {
        let counters = |side| *fabric.port_counters(PortId::new(LinkId(0), side));
        let (root, device) = (counters(Side::Root), counters(Side::Device));
        for end in [&root, &device] {
            assert_eq!(end.classified_bytes(), end.wire_bytes, "{what}");
        }
        let broken = [root.receiver_overflows, root.flow_control_protocol_errors, root.malformed_tlps];
        assert_eq!((broken, root.data_link_protocol_errors), ([0; 3], 0), "{what}");
        let counts: BTreeMap<_, _> = fabric.slot_counts(0).into_iter().collect();
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        assert_eq!((count("rtl_overflows"), count("unreadable_frames")), (0, 0), "{what}");
        Run { root, device, tlps: seen.tlps.borrow().clone(), counts }
    }

    fn rtl(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

// One test, since each builds the RTL.
#[test]
#[ignore = "of .ci/long stack"]
fn rtl_and_riser_judge_each_other() {
    let Some(built) = built() else { return };
    let plain = Run::of(copies(copier(link())), "riser's own");
    let run = |system: System, what: &str| {
        let run = Run::of(copies(built.below(system)), what);
        assert_eq!(run.tlps, plain.tlps, "{what}: the TLPs of riser's own link");
        run
    };
    let intact = run(copier(link()), "intact");
    assert!(plain.tlps.values().map(Vec::len).sum::<usize>() > 300);
    assert_eq!((intact.root.tlps, intact.device.tlps), (plain.root.tlps, plain.device.tlps));
    assert_eq!(
        (intact.root.replayed_tlps, intact.device.replayed_tlps, intact.rtl("rtl_bad_lcrc")),
        (0, 0, 0)
    );

    let mut lossy = link();
    lossy.bit_error_rate = u64::MAX / 50_000;
    let errors = run(copier(lossy), "bit errors");
    assert!(errors.root.bad_lcrc > 0 && errors.device.replayed_tlps > 0 && errors.root.replayed_tlps > 0);
    assert!(errors.rtl("rtl_bad_lcrc") > 0 && errors.rtl("rtl_naks_sent") > 0);

    faults(&run);
    starved(&run);
    storms(&run);
    two_channels(&built);
}

/// One of six frames of a kind suffers, drawn from the seed: every sixth could be the same TLP in each replay.
fn faults(run: &dyn Fn(System, &str) -> Run) {
    use Direction::{Downstream, Upstream};
    use FaultAction::{BreakFraming, Corrupt, Double, Drop};
    use FrameKind::{Any, Dllp, Tlp};
    type Check = fn(&Run) -> bool;
    let rows: [(Direction, FrameKind, FaultAction, Check); 14] = [
        (Upstream, Tlp, Drop, |r| r.root.out_of_sequence > 0 && r.device.replayed_tlps > 0),
        (Downstream, Tlp, Drop, |r| r.rtl("rtl_sequence_gaps") > 0 && r.root.replayed_tlps > 0),
        (Upstream, Tlp, Double, |r| r.root.duplicate_tlps > 0),
        (Downstream, Tlp, Double, |r| r.rtl("rtl_duplicates") > 0),
        (Upstream, Tlp, Corrupt, |r| r.root.bad_lcrc > 0 && r.rtl("rtl_naks_received") > 0),
        (Downstream, Tlp, Corrupt, |r| r.rtl("rtl_bad_lcrc") > 0 && r.root.nak_received > 0),
        (Upstream, Dllp, Drop, |r| r.device.dllps.ack > 5),
        (Downstream, Dllp, Drop, |r| r.root.dllps.ack > 5),
        (Upstream, Dllp, Double, |r| r.device.dllps.ack > 5),
        (Downstream, Dllp, Double, |r| r.rtl("rtl_protocol_errors") == 0),
        (Upstream, Dllp, Corrupt, |r| r.root.bad_dllp_crc > 0),
        (Downstream, Dllp, Corrupt, |r| r.rtl("rtl_bad_dllps") > 0),
        (Upstream, Any, BreakFraming, |r| r.root.receiver_errors > 0),
        (Downstream, Any, BreakFraming, |r| r.rtl("rtl_receiver_errors") + r.rtl("rtl_bad_dllps") > 0),
    ];
    for (way, kind, action, is_seen) in rows {
        let what = format!("{action:?} of {kind:?} {way:?}");
        let mut system = copier(link());
        let rule = FaultRule::new(LinkId(0), way, kind, 9, action);
        system.faults.push(FaultRule { every: 1, chance: Some(u64::MAX / 6), ..rule });
        let run = run(system, &what);
        assert!(is_seen(&run), "{what}: {:?}\n{:#?}", run.counts, run.root);
    }
}

/// As few credits as the specification allows, in both directions.
fn starved(run: &dyn Fn(System, &str) -> Run) {
    let mut few = link();
    for port in [&mut few.root, &mut few.device] {
        port.rx_buffer[0] = CreditLimit::finite(1, 16);
        port.rx_buffer[1] = CreditLimit::finite(1, 1);
    }
    few.device.rx_buffer[2] = CreditLimit::finite(1, 16);
    let run = run(copier(few), "starved");
    assert!(run.root.dllps.update_fc > 50 && run.device.dllps.update_fc > 50);
}

/// Sixty TLPs in a row are lost: REPLAY_NUM rolls over at either end, and the link retrains.
fn storms(run: &dyn Fn(System, &str) -> Run) {
    for (way, is_rtl) in [(Direction::Upstream, true), (Direction::Downstream, false)] {
        let mut system = copier(link());
        for nth in 30..90 {
            system = system.fault(way, FrameKind::Tlp, nth, 0, FaultAction::Drop);
        }
        let run = run(system, "storm");
        let rollovers = [run.rtl("rtl_replay_rollovers"), run.root.replay_num_rollovers];
        assert_eq!(rollovers.map(|n| n > 0), [is_rtl, !is_rtl], "{rollovers:?}");
    }
}

/// Writes on two channels; the link goes down and comes up three times in between.
fn two_channels(built: &Built) {
    let mut link = link();
    let tcs = [0x0f, 0xf0, 0, 0, 0, 0, 0, 0].map(tlp::TcSet::from_bits);
    for port in [&mut link.root, &mut link.device] {
        port.tc_vc = TcVcMap::new(tcs).unwrap();
    }
    let flood = [0, 4].map(|tc| Source { left: 3000, ..Source::flood(tc, 128) });
    let mut system = System::new();
    system.slots.push(SlotConfig::on_root_port(link, Box::new(Sources::new(flood.into()))));
    let mut fabric = built.below(system).without_program();
    let seen = Seen::default();
    for n in 0..3 {
        for (at, change) in [(30, LinkChange::Cut), (45, LinkChange::Restore)] {
            let at = Time::ZERO + Duration::from_us(at + 60 * n);
            fabric.schedule(LinkEvent { at, link: LinkId(0), change });
        }
    }
    fabric.run(Limits { until: Time::ZERO + Duration::from_us(1_000), ..Limits::default() });
    let run = Run::after(&fabric, &seen, "two channels");
    let writes = fabric.root().counters().memory_writes;
    assert_eq!((run.root.link_downs, run.device.link_downs), (3, 3));
    // TLPs that wait or are on the wire when the link goes down are lost.
    assert!(writes > 5_000 && writes < 6_000, "{writes}");
    assert!(run.device.vcs[0].tlps > 2_500 && run.device.vcs[1].tlps > 2_500);
}
