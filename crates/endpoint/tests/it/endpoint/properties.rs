// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties over random transfers and random TLPs.

use crate::endpoint::harness::*;
use device::*;
use proptest::prelude::*;
use riser_endpoint::*;
use tlp::*;

fn sizes() -> impl Strategy<Value = (u32, u32)> {
    (0u32..6, 0u32..6)
}

fn set_sizes(bench: &mut Bench, (mps, mrrs): (u32, u32)) -> (u32, u32) {
    bench.write_config(0, DEVICE_CONTROL, 0x0910 | mps << 5 | mrrs << 12);
    (128 << mps, 128 << mrrs)
}

/// The pieces cover `address`..`address + len` in order; no piece crosses 4 KiB or has more than `limit` bytes of DWs.
fn check_pieces(tlps: &[Tlp], address: u64, len: u32, limit: u32) -> Result<(), TestCaseError> {
    let mut at = address;
    for tlp in tlps {
        let span = request(tlp).span;
        prop_assert_eq!(span.first_byte(), at);
        prop_assert!(span.is_contiguous());
        prop_assert!(span.length_dw() * 4 <= limit);
        prop_assert!((span.address() & 0xfff) + u64::from(span.length_dw()) * 4 <= 4096);
        at += u64::from(span.byte_count());
    }
    prop_assert_eq!(at, address + u64::from(len));
    Ok(())
}

/// A small generator for choices that need not shrink.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn split_writes_cover_the_range_exactly(address in 0u64..1 << 34, len in 1u32..20_000, sizes in sizes()) {
        let mut bench = Bench::new(EndpointLimits::default());
        let (mps, _) = set_sizes(&mut bench, sizes);
        bench.probe().push(Class::Posted, write(address, Data::Counted(len)));
        let tlps = bench.poll_all(Class::Posted);
        check_pieces(&tlps, address, len, mps)?;
        prop_assert!(tlps.iter().all(|t| t.data.len() == request(t).span.byte_count() as usize));
    }

    /// Several reads at once, few tags, a host that cuts at random boundaries and answers requests in random order:
    /// every read ends once with exactly its bytes.
    #[test]
    fn split_reads_return_exact_bytes_in_any_order(
        reads in prop::collection::vec((0u64..1 << 34, 1u32..6_000), 1..5),
        sizes in sizes(), tags in 1u16..40, align in any::<bool>(), rcb in prop::sample::select(vec![64u32, 128]),
        seed in any::<u64>(),
    ) {
        let limits = EndpointLimits { max_outstanding_reads: tags, align_reads: align, ..EndpointLimits::default() };
        let mut bench = Bench::new(limits);
        let (mps, mrrs) = set_sizes(&mut bench, sizes);
        for (id, &(address, len)) in (0..).zip(&reads) {
            bench.probe().push(Class::NonPosted, read(id, address, len));
        }
        let mut choices = Choices(seed);
        let pool = PayloadPool::new();
        let mut requests = Vec::new();
        let mut under_way: Vec<std::collections::VecDeque<Tlp>> = Vec::new();
        loop {
            for tlp in bench.poll_all(Class::NonPosted) {
                let mps = Mps::new(mps).unwrap();
                let rcb = Rcb::new(rcb).unwrap();
                let cut = |a: u64, n: u32| {
                    let most = split::completion_piece(a, n, mps, rcb);
                    let to_rcb = rcb.bytes() - (a % u64::from(rcb.bytes())) as u32;
                    if choices.below(2) == 0 { most } else { to_rcb.min(most) }
                };
                under_way.push(answer_with(&pool, &tlp, cut).into());
                requests.push(tlp);
            }
            prop_assert!(under_way.len() <= usize::from(tags));
            if under_way.is_empty() {
                break;
            }
            let i = choices.below(under_way.len());
            if let Some(tlp) = under_way[i].pop_front() {
                bench.handle(tlp);
            }
            under_way.retain(|q| !q.is_empty());
        }
        let mut at = 0;
        for &(address, len) in &reads {
            let end = requests[at..].iter().scan(0, |sum, t| { *sum += request(t).span.byte_count(); Some(*sum) });
            let count = end.take_while(|&sum| sum < len).count() + 1;
            check_pieces(&requests[at..at + count], address, len, mrrs)?;
            at += count;
        }
        prop_assert_eq!(at, requests.len());
        let mut done = bench.probe().done();
        done.sort_by_key(|d| d.0);
        prop_assert_eq!(done.len(), reads.len());
        for ((_, result), &(address, len)) in done.iter().zip(&reads) {
            let data = result.as_ref().unwrap();
            let expected: Vec<u8> = (0..u64::from(len)).map(|i| byte_at(address + i)).collect();
            prop_assert_eq!(data.bytes(), Some(&expected[..]));
        }
        prop_assert_eq!(bench.endpoint.tags(0), Some((0, tags)));
    }

    /// Answers of any length, split by the endpoint: all bytes are correct, and each completion except the last ends at the boundary.
    #[test]
    fn answers_return_exact_bytes(offset in 0u64..8192, len in 1u32..4096, sizes in sizes()) {
        let len = len.min(4096 - (offset & 0xfff) as u32);
        let mut bench = Bench::new(EndpointLimits::default());
        let (mps, _) = set_sizes(&mut bench, sizes);
        bench.handle(mrd(5, BAR0 + offset, len));
        let token = bench.probe().tokens()[0];
        let data = bench.pool.fill(len as usize, |out| (0..).zip(out).for_each(|(i, b)| *b = byte_at(i)));
        bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Carried(data)) });
        let mut at = 0;
        for tlp in bench.poll_all(Class::Completion) {
            let c = completion(&tlp);
            let n = tlp.data.len() as u64;
            prop_assert_eq!(u64::from(c.byte_count), u64::from(len) - at);
            prop_assert_eq!(u64::from(c.lower_address), (offset + at) & 0x7f);
            prop_assert!(tlp.repr.data_dw() * 4 <= mps);
            prop_assert!((0..).zip(tlp.data.bytes().unwrap()).all(|(i, &b)| b == byte_at(at + i)));
            at += n;
            prop_assert!(at == u64::from(len) || (offset + at) % 128 == 0);
        }
        prop_assert_eq!(at, u64::from(len));
    }
}

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![
        (0u32..5000).prop_map(Data::Counted),
        (0usize..40).prop_map(|n| Data::Carried(PayloadPool::new().fill(n, |b| b.fill(0xa5)))),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    let near = prop_oneof![
        (0u64..0x2_0100).prop_map(|o| BAR0 + o),
        (0u64..0x1100).prop_map(|o| BAR2 + o),
        any::<u64>(),
    ];
    let be = (1u32..80, 0u8..16, 0u8..16);
    (near, be).prop_map(|(a, (dw, first, last))| {
        Span::from_fields(a & !3, dw, first, last).unwrap_or(Span::zero_length(a))
    })
}

fn id() -> impl Strategy<Value = Bdf> {
    prop_oneof![
        Just(EP),
        Just(HOST),
        (0u16..8).prop_map(|f| Bdf::from_bits(EP.bits() | f)),
        any::<u16>().prop_map(Bdf::from_bits)
    ]
}

fn length() -> impl Strategy<Value = Option<u16>> {
    prop::option::of(1u16..1025)
}

fn body() -> impl Strategy<Value = Body> {
    let op = prop::sample::select(vec![MemoryOp::Read, MemoryOp::Write]);
    let tag = || prop_oneof![0u16..8, any::<u16>()].prop_map(Tag::from_bits);
    let status = prop::sample::select(vec![
        Status::Success,
        Status::Success,
        Status::UnsupportedRequest,
        Status::ConfigRetry,
        Status::CompleterAbort,
    ]);
    let completion = (id(), tag(), status, 0u16..4097, 0u8..128, length()).prop_map(
        |(requester, tag, status, byte_count, lower_address, length_dw)| {
            Body::Completion(Completion {
                status,
                byte_count,
                lower_address,
                length_dw,
                ..Completion::new(HOST, requester, tag)
            })
        },
    );
    let memory = (op, tag(), span())
        .prop_map(|(op, tag, span)| Body::Memory(MemoryRequest { op, requester: HOST, tag, span }));
    let kind = prop::sample::select(vec![ConfigKind::Type0, ConfigKind::Type1]);
    let access = prop::sample::select(vec![Access::Read, Access::Write]);
    let config = (access, kind, id(), 0u16..0x140, 0u8..16).prop_map(
        |(op, kind, completer, register_dw, first_be)| {
            Body::Config(ConfigRequest {
                kind,
                first_be,
                ..ConfigRequest::new(op, HOST, Tag::default(), completer, register_dw)
            })
        },
    );
    let routing =
        prop::sample::select(vec![MessageRouting::ById, MessageRouting::Local, MessageRouting::Reserved(7)]);
    let message =
        (routing, any::<u8>(), any::<[u8; 8]>(), length()).prop_map(|(routing, code, header, length_dw)| {
            Body::Message(Message { routing, requester: HOST, tag: Tag::default(), code, header, length_dw })
        });
    prop_oneof![completion, memory, config, message]
}

pub(crate) fn tlp() -> impl Strategy<Value = Tlp> {
    (body(), data(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(body, data, ep, carry, right)| {
            let mut repr = Repr::new(body);
            repr.ep = ep;
            let len = match repr.body {
                Body::Memory(m) if m.op == MemoryOp::Write => m.span.byte_count(),
                _ => repr.data_dw() * 4,
            };
            Tlp::new(repr, if right { Data::Counted(len) } else { data }).with_carry(carry)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any TLPs while reads are outstanding: no panic, no hang, no credit lost or invented.
    #[test]
    fn random_tlps_cause_no_panic(tlps in prop::collection::vec(tlp(), 1..60), drain in any::<bool>()) {
        let mut bench = Bench::with_functions(EndpointLimits { max_requests: 4, ..EndpointLimits::default() }, 2);
        bench.probe().push(Class::NonPosted, read(1, 0x1001, 3000));
        let _ = bench.poll_all(Class::NonPosted);
        let mut owed = [(0u32, 0u32); 3];
        let mut returned = [(0, 0); 3];
        for (n, tlp) in (0..).zip(tlps) {
            let at = tlp.class().index();
            owed[at] = (owed[at].0 + 1, owed[at].1 + tlp.data_credits());
            let now = us(n * 1_000);
            bench.endpoint.handle_tlp(now, &tlp);
            if drain {
                bench.advance(now);
            }
            let tokens: Vec<Token> = bench.probes.iter().flat_map(|p| p.tokens()).collect();
            for token in tokens {
                bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
                bench.probes[1].push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
            }
        }
        bench.advance(us(10_000_000));
        for class in Class::ALL {
            let sent = bench.poll_all(class);
            prop_assert!(sent.len() < 1_000);
            returned.iter_mut().zip(bench.credits()).for_each(|(r, c)| *r = (r.0 + c.0, r.1 + c.1));
        }
        returned.iter_mut().zip(bench.credits()).for_each(|(r, c)| *r = (r.0 + c.0, r.1 + c.1));
        prop_assert_eq!(returned, owed);
    }
}
