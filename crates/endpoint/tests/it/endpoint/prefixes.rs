// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving end-to-end TLP prefixes (`PCIe 5.0 §2.2.10.2`): the number in Device Capabilities 2, and the known types.

use crate::endpoint::harness::*;
use config::{AtomicSupport, Bar, Builder, ConfigSpace, Identity, PcieLayout};
use riser_endpoint::*;
use tlp::*;

const AER: u16 = 0x0001;
const MALFORMED: u32 = 1 << 18;
const UNSUPPORTED: u32 = 1 << 20;
const UNEXPECTED: u32 = 1 << 16;
const PASID: u32 = 0x9100_0005;
const VENDOR: u32 = 0x9e00_0000;
const RESERVED: u32 = 0x9500_0000;

fn space(end_end_prefixes: u8) -> ConfigSpace {
    let atomics = AtomicSupport::all();
    Builder::type0(Identity::default())
        .bar(0, Bar::memory64(64 << 10))
        .bar(2, Bar::memory32(4096))
        .pcie(PcieLayout { end_end_prefixes, atomics, ..PcieLayout::default() })
        .advanced_error_reporting()
        .build()
        .unwrap()
}

/// Functions with these numbers of supported prefixes. All reporting is enabled, and advisory errors are not masked.
fn bench(prefixes: &[u8]) -> Bench {
    let mut bench = Bench::of(EndpointLimits::default(), prefixes.iter().map(|n| space(*n)).collect());
    for f in 0..prefixes.len() as u8 {
        bench.write_config(f, 4, BAR0 as u32 + u32::from(f) * 0x1_0000);
        bench.write_config(f, 5, (BAR0 >> 32) as u32);
        bench.write_config(f, COMMAND, 0x6);
        bench.write_capability(f, 0x10, 2, 0x293f);
        bench.write_extended(f, AER, 5, 0);
    }
    bench
}

fn with(prefixes: &[u32], tlp: Tlp) -> Tlp {
    let prefixes: Vec<Prefix> = prefixes.iter().map(|dw| Prefix(*dw)).collect();
    Tlp { prefixes: Prefixes::new(&prefixes).unwrap(), ..tlp }
}

fn status(bench: &Bench, function: u8) -> u32 {
    bench.extended(function, AER, 1)
}

fn codes(bench: &mut Bench) -> Vec<u8> {
    bench.messages().into_iter().map(|(code, _)| code).collect()
}

/// More than Max End-End TLP Prefixes, or any without End-End TLP Prefix Supported (`PCIe 5.0 §7.5.3.15`).
#[test]
fn more_prefixes_than_supported_are_malformed() {
    for supported in 0..=4u8 {
        for count in 0..=4u8 {
            for tlp in [mrd(1, BAR0, 4), mwr(BAR0, &[1, 2, 3, 4])] {
                let mut bench = bench(&[supported]);
                bench.handle(with(&vec![VENDOR; count.into()], tlp));
                let is_malformed = count > supported;
                let expected = if is_malformed { (MALFORMED, vec![0x33], 0) } else { (0, vec![], 1) };
                let taken = bench.probe().tokens().len();
                assert_eq!((status(&bench, 0), codes(&mut bench), taken), expected, "{count} of {supported}");
                assert!(bench.poll(Class::Completion).is_none());
            }
        }
    }
}

fn fetch_add() -> Tlp {
    let (op, operand, tag) = (AtomicOp::FetchAdd, OperandSize::Bits32, Tag::from_bits(3));
    let request = AtomicRequest { op, operand, requester: HOST, tag, address: BAR0 };
    Tlp::new(Repr::new(Body::Atomic(request)), Data::Counted(4))
}

/// A request with a prefix of a type that its target does not know is unsupported: the requester gets UR, or ERR_NONFATAL is
/// sent.
#[test]
fn a_reserved_type_is_an_unsupported_request() {
    let config = cfg(Access::Read, EP, 0, 0xf, &[]);
    let rows = [
        (mrd(1, BAR0, 4), true),
        (fetch_add(), true),
        (config, true),
        (memory(MemoryOp::WriteDeferrable, 2, BAR0, 4, Data::Counted(4)), true),
        (mwr(BAR0, &[1, 2, 3, 4]), false),
    ];
    for (tlp, is_answered) in rows {
        for prefixes in [&[RESERVED][..], &[PASID, RESERVED]] {
            let mut bench = bench(&[2, 2]);
            let what = format!("{tlp} {prefixes:x?}");
            bench.handle(with(prefixes, tlp.clone()));
            let statuses: Vec<Status> =
                bench.poll_all(Class::Completion).iter().map(|t| completion(t).status).collect();
            let (expected, code) =
                if is_answered { (vec![Status::UnsupportedRequest], 0x30) } else { (vec![], 0x31) };
            assert_eq!((statuses, codes(&mut bench)), (expected, vec![code]), "{what}");
            assert_eq!((status(&bench, 0), status(&bench, 1)), (UNSUPPORTED, 0), "{what}");
            assert!(bench.probe().tokens().is_empty(), "{what}");
        }
    }
}

/// A completion is unexpected, and its request waits on.
#[test]
fn a_completion_with_a_reserved_type_is_unexpected() {
    let mut bench = bench(&[1]);
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    let asked = bench.poll(Class::NonPosted).unwrap();
    let answer = answer(&asked).remove(0);
    bench.handle(with(&[RESERVED], answer.clone()));
    assert_eq!((status(&bench, 0), codes(&mut bench)), (UNEXPECTED, vec![0x30]));
    assert!(bench.probe().done().is_empty());
    bench.handle(answer);
    assert_eq!(bench.probe().done().len(), 1);
}

/// If one function of a device supports a prefix, the prefix is not malformed for the others, but unsupported.
#[test]
fn function_refuses_prefixes_only_others_support() {
    let mut bench = bench(&[0, 1]);
    bench.handle(with(&[PASID], mrd(1, BAR0, 4)));
    assert_eq!((status(&bench, 0), status(&bench, 1)), (UNSUPPORTED, 0));
    assert_eq!(bench.poll_all(Class::Completion).len(), 1);
    bench.handle(with(&[PASID], mrd(1, BAR0 + 0x1_0000, 4)));
    assert_eq!((status(&bench, 1), bench.probes[1].tokens().len()), (0, 1));
    bench.handle(with(&[PASID, VENDOR], mrd(1, BAR0 + 0x1_0000, 4)));
    assert_eq!((status(&bench, 0), status(&bench, 1)), (UNSUPPORTED | MALFORMED, MALFORMED));
}
