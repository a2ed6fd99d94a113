// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the block without a design: what it shows for inputs of the front, and how it handles beats.

use super::*;
use crate::block::BlockKind;
use proptest::prelude::*;
use tlp::{Body, Data, MemoryOp, MemoryRequest, Repr, Span, Tag, Tlp};

const REQUESTER: Bdf = Bdf::from_bits(0x0100);
const WIDTHS: [u16; 4] = [64, 128, 256, 512];

/// A block, with the values that it reads and drives.
struct Bench {
    block: TlpStream,
    inputs: Layout,
    outputs: Layout,
    read: Vec<u32>,
    driven: Vec<u32>,
}

/// A beat at the ports.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Shown {
    lanes: Vec<u32>,
    keep: [u32; 2],
    is_last: u32,
}

impl Bench {
    /// Creates a block whose link is up.
    fn new(data_bits: u16) -> Bench {
        let shape = Shape { kind: BlockKind::TlpStream, data_bits, lanes: 4, links: 1 };
        let block = TlpStream::new(shape, 0, PayloadPool::default(), Shared::default());
        let layout = Layout::of(shape);
        let words = layout.words;
        let (inputs, outputs) = (layout.swapped(), layout.swapped());
        let mut bench = Bench { block, inputs, outputs, read: vec![0; words[0]], driven: vec![0; words[1]] };
        bench.set(Read::ResetN, 1);
        while bench.get(Driven::LinkUp) == 0 {
            bench.edge();
        }
        bench
    }

    fn set(&mut self, port: Read, value: u32) {
        Outputs { layout: &self.inputs, words: &mut self.read }.set(port, value);
    }

    fn get(&self, port: Driven) -> u32 {
        Inputs { layout: &self.outputs, words: &self.driven }.get(port)
    }

    fn edge(&mut self) {
        self.block.edge(&self.read, &mut self.driven);
    }

    fn push(&mut self, tlp: Tlp) {
        self.block.handle(DesignInput::Completion { function: 0, tlp });
    }

    /// Returns the beat that the block shows; `None` if it shows none.
    fn shown(&self) -> Option<Shown> {
        let driven = Inputs { layout: &self.outputs, words: &self.driven };
        let keep = [0, 32].map(|first| driven.field(Driven::RxKeep, first, 32));
        let lanes = driven.lanes(Driven::RxData).to_vec();
        driven.is(Driven::RxValid).then(|| Shown { lanes, keep, is_last: driven.get(Driven::RxLast) })
    }

    /// Makes the design send a beat from now on.
    fn send(&mut self, beat: Option<&Shown>) {
        self.set(Read::TxValid, beat.is_some().into());
        let Some(Shown { lanes, keep, is_last }) = beat else { return };
        let mut outputs = Outputs { layout: &self.inputs, words: &mut self.read };
        outputs.set_lanes(Read::TxData, lanes);
        outputs.set_wide(Read::TxKeep, keep);
        outputs.set(Read::TxLast, *is_last);
    }

    fn findings(&self) -> Vec<String> {
        self.block.common.status.get().findings.clone()
    }
}

fn request(op: MemoryOp, tag: u16, address: u64, bytes: u32, data: Data) -> Tlp {
    let span = Span::covering(address, bytes).unwrap();
    Tlp::new(
        Repr::new(Body::Memory(MemoryRequest { op, requester: REQUESTER, tag: Tag::from_bits(tag), span })),
        data,
    )
}

fn write(pool: &PayloadPool, address: u64, bytes: &[u8]) -> Tlp {
    request(MemoryOp::Write, 0, address, bytes.len() as u32, Data::Carried(pool.copy(bytes)))
}

fn bytes_of(tlp: &Tlp) -> Vec<u8> {
    let mut bytes = vec![0; tlp.wire_len()];
    tlp.emit(&mut bytes);
    bytes
}

/// A write of six bytes with a header of three double-words, in the byte order of the specification (`PCIe 5.0 §2.2.7`), four per lane.
#[test]
fn beats_have_the_bytes_of_the_specification() {
    let mut bench = Bench::new(128);
    bench.push(write(&PayloadPool::default(), 0x1234_5678, &[1, 2, 3, 4, 5, 6]));
    let beats: Vec<Shown> = (0..3)
        .map_while(|_| {
            bench.set(Read::RxReady, 1);
            bench.edge();
            bench.shown()
        })
        .collect();
    let first = [0x0200_0040, 0x3f00_0001, 0x7856_3412, 0x0403_0201];
    assert_eq!(beats[0], Shown { lanes: first.into(), keep: [0xffff, 0], is_last: 0 });
    assert_eq!((beats[1].lanes[0], beats[1].keep, beats[1].is_last), (0x0605, [0xf, 0], 1));
    assert_eq!(beats.len(), 2);
}

/// Each TLP breaks a rule, and is reported with its bytes so far. The next TLP is complete again.
#[test]
fn reports_invalid_packets() {
    let mut whole = Bench::new(64);
    whole.push(request(MemoryOp::Read, 5, 0x1000, 64, Data::NONE));
    whole.set(Read::RxReady, 1);
    let mut beats = Vec::new();
    for _ in 0..2 {
        whole.edge();
        beats.extend(whole.shown());
    }
    let [first, last] = &beats[..] else { panic!("{beats:?}") };
    let hole = Shown { keep: [0xf0, 0], ..first.clone() };
    let early = Shown { is_last: 1, ..first.clone() };
    let long = Shown { is_last: 0, keep: [0xff, 0], ..last.clone() };
    let rows: [(&[&Shown], &str); 3] = [
        (&[&hole, last], "s_axis_tx_tkeep of 0xf0"),
        (&[&early], "a TLP with an incomplete header"),
        (&[first, &long, last], "a TLP of 20 B with a header for 12 B"),
    ];
    for (sent, why) in rows {
        let mut bench = Bench::new(64);
        for beat in sent.iter().copied().chain([first, last]) {
            bench.send(Some(beat));
            bench.edge();
        }
        let findings = bench.findings();
        assert!(findings.len() == 1 && findings[0].contains(why), "`{why}` in {findings:?}");
        let Some(DesignOutput::Tlp { tlp, .. }) = bench.block.next_output(Class::NonPosted) else {
            panic!("{why}: the next")
        };
        assert_eq!(tlp.repr.transaction().1.bits(), 5);
    }
}

/// A beat stays until it is accepted. No beat is accepted while too many TLPs wait.
#[test]
fn reports_a_beat_that_changes() {
    let mut bench = Bench::new(512);
    let read = |address: u32| Shown {
        lanes: [0x0100_0000u32, 0xff00_0001, address.swap_bytes()].into_iter().chain([0; 13]).collect(),
        keep: [0xfff, 0],
        is_last: 1,
    };
    bench.send(Some(&read(0x1000)));
    while bench.get(Driven::TxReady) == 1 {
        bench.edge();
    }
    bench.edge();
    assert_eq!(bench.findings(), [""; 0]);
    bench.send(Some(&read(0x2000)));
    bench.edge();
    assert!(bench.findings()[0].contains("s_axis_tx: a beat changed"), "{:?}", bench.findings());
}

/// TLPs that the front did not send, or sent although they are wrong, are reported with their bytes. A function reset by software is
/// signalled for a cycle.
#[test]
fn reports_refusals_and_resets_of_the_front() {
    let mut bench = Bench::new(64);
    let tlp = || request(MemoryOp::Read, 7, 0x1000, 8, Data::NONE);
    let gated = RefusedTlp::Gated(device::seam::DmaError::BusMasterDisabled);
    bench.block.handle(DesignInput::Refused { tlp: tlp(), why: gated });
    bench.block.handle(DesignInput::SentWrong { tlp: tlp(), why: RefusedTlp::Tag(7) });
    let [first, second] = &bench.findings()[..] else { panic!() };
    assert!(
        first.contains("the TLP was not sent: Bus Master Enable 0, expected 1 (PCIe 5.0 §7.5.1.1.3, rule bus-master-enable)") && first.ends_with("00000002010007ff00001000"),
        "{first}"
    );
    assert!(second.contains("the TLP was sent unchanged: Tag 0x7, expected a tag that "), "{second}");
    bench.block.handle(DesignInput::Reset { function: 0, kind: ResetKind::FunctionLevel });
    let shown: Vec<u32> = (0..3)
        .map(|_| {
            bench.edge();
            bench.get(Driven::FunctionLevelReset)
        })
        .collect();
    assert_eq!(shown, [1, 0, 0]);
}

proptest! {
    /// TLPs sent to the design, and returned by it beat by beat, have the same bytes, at every width, whenever either side is ready.
    #[test]
    fn tlps_round_trip(
        width in 0..WIDTHS.len(),
        sizes in prop::collection::vec((0u64..1 << 34, 1usize..600), 1..12),
        pauses in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let mut bench = Bench::new(WIDTHS[width]);
        let pool = PayloadPool::default();
        let mut due = Vec::new();
        for (n, (address, bytes)) in sizes.into_iter().enumerate() {
            let tlp = match n % 3 {
                0 => request(MemoryOp::Read, n as u16, address & !0xfff, bytes as u32, Data::NONE),
                _ => write(&pool, address & !0xfff, &vec![n as u8 + 1; bytes]),
            };
            due.push(bytes_of(&tlp));
            bench.push(tlp);
        }
        let (mut came, mut pauses) = (Vec::new(), pauses.iter().chain([&true]).cycle());
        for _ in 0..4000 {
            // The design sends the same beat that it is shown, and accepts that beat when its own beat is accepted.
            // Sometimes it waits.
            let shown = bench.shown().filter(|_| bench.get(Driven::TxReady) == 1 && *pauses.next().unwrap());
            bench.send(shown.as_ref());
            bench.set(Read::RxReady, shown.is_some().into());
            bench.edge();
            for class in Class::ALL {
                while let Some(DesignOutput::Tlp { tlp, .. }) = bench.block.next_output(class) {
                    came.push(bytes_of(&tlp));
                }
            }
        }
        prop_assert_eq!(bench.findings(), Vec::<String>::new());
        prop_assert_eq!(came, due);
    }
}
