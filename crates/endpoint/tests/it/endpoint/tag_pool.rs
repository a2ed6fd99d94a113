// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pool of tags for all functions of an endpoint, compared with a model that stores each request separately.

use crate::endpoint::harness::*;
use crate::endpoint::virtual_functions::*;
use config::{Bar, Builder, ConfigSpace, Identity, PcieLayout};
use device::*;
use proptest::prelude::*;
use riser_endpoint::*;
use std::collections::{BTreeSet, VecDeque};
use tlp::*;

/// Completion timeout, which is also the quarantine time of a tag.
const TIMEOUT: Duration = Duration::from_us(50);
/// Bytes of a request, which has two completions.
const PIECE: u32 = 128;

fn limits(tags: u16) -> EndpointLimits {
    EndpointLimits {
        max_outstanding_reads: tags,
        tags_per: TagsPer::Endpoint,
        completion_timeout: TIMEOUT,
        ..EndpointLimits::default()
    }
}

fn space(n: u16) -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1234, device: n, ..Identity::default() })
        .bar(0, Bar::memory64(4096))
        .pcie(PcieLayout { ten_bit_tag: true, ..PcieLayout::default() })
        .alternative_routing((n + 1) as u8)
        .build()
        .unwrap()
}

fn id(function: usize) -> Bdf {
    Bdf::from_bits(EP.bits() + function as u16)
}

/// Tag bits that software enables (`PCIe 5.0 §7.5.3.4`, §7.5.3.16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bits {
    Five,
    Eight,
    Ten,
}

impl Bits {
    fn range(self, limit: u16) -> std::ops::Range<u16> {
        match self {
            Bits::Five => 0..limit.min(32),
            Bits::Eight => 0..limit.min(256),
            Bits::Ten => 256..256 + limit.min(768),
        }
    }
}

/// A request whose tag is not free in the model.
struct Out {
    function: usize,
    read: u32,
    tag: u16,
    tlp: Tlp,
    answers: VecDeque<Tlp>,
    deadline: Time,
    resting: bool,
}

/// Requests that a function has still to issue: reads, with the number of requests left of each.
#[derive(Default)]
struct Wants {
    reads: VecDeque<(u32, u32)>,
    /// Number of requests left of its writes, for which its reads may have to wait.
    writes: u32,
    /// The number of requests of others since the function began to wait, with tags that it could have used.
    passed: usize,
}

struct Rig {
    bench: Bench,
    limit: u16,
    bits: Vec<Bits>,
    wants: Vec<Wants>,
    out: Vec<Out>,
    now: Time,
    next_read: u32,
}

#[derive(Clone, Debug)]
enum Step {
    /// A function gets a read of this number of requests to send.
    Read(usize, u32),
    /// A function gets a write of this number of requests to send.
    Write(usize, u32),
    /// Polls this number of reads.
    Poll(usize),
    /// Polls this number of writes.
    PollPosted(usize),
    /// The next completion of a request arrives.
    Answer(usize),
    /// A request is refused.
    Refuse(usize),
    /// The next completion of a request arrives with the ID of another function.
    Stray(usize, usize),
    /// A function is reset, and set up again.
    Reset(usize),
    /// Bus Master Enable is cleared while all are polled, and set again.
    Gate(usize),
    /// Microseconds pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let any = || 0usize..64;
    prop_oneof![
        6 => (any(), 1u32..30).prop_map(|(f, n)| Step::Read(f, n)),
        1 => (any(), 1u32..4).prop_map(|(f, n)| Step::Write(f, n)),
        6 => (1usize..40).prop_map(Step::Poll),
        2 => (1usize..8).prop_map(Step::PollPosted),
        12 => any().prop_map(Step::Answer),
        1 => any().prop_map(Step::Refuse),
        2 => (any(), any()).prop_map(|(out, f)| Step::Stray(out, f)),
        1 => any().prop_map(Step::Reset),
        1 => any().prop_map(Step::Gate),
        1 => (1u64..60).prop_map(Step::Pass),
    ]
}

impl Rig {
    fn new(limit: u16, bits: Vec<Bits>) -> Rig {
        let most = bits.iter().map(|bits| bits.range(limit).len() as u16).max();
        let bench = Bench::of(limits(limit), (0..bits.len() as u16).map(space).collect());
        let wants = bits.iter().map(|_| Wants::default()).collect();
        let limit = most.unwrap_or_default();
        let mut rig = Rig { bench, limit, bits, wants, out: Vec::new(), now: Time::ZERO, next_read: 0 };
        (0..rig.bits.len()).for_each(|f| rig.set_up(f));
        rig
    }

    fn write(&mut self, function: usize, dw: u16, value: u32) {
        self.bench.endpoint.write_config(self.now, id(function), dw, 0xf, value);
    }

    fn pcie(&self) -> u16 {
        self.bench.endpoint.config(0).unwrap().pcie_capability().unwrap()
    }

    /// Max_Read_Request_Size of one piece, the given number of tags, Bus Master Enable.
    fn set_up(&mut self, f: usize) {
        let (at, bits) = (self.pcie(), self.bits[f]);
        self.write(f, at + 2, if bits == Bits::Eight { 0x100 } else { 0 });
        self.write(f, at + 10, if bits == Bits::Ten { 1 << 12 } else { 0 });
        self.write(f, COMMAND, 0x6);
    }

    /// The tags that a function may use and that no request has.
    fn usable(&self, f: usize) -> usize {
        let taken: BTreeSet<u16> = self.out.iter().map(|o| o.tag).collect();
        let free = self.bits[f].range(self.limit).filter(|tag| !taken.contains(tag)).count();
        free.min(usize::from(self.limit) - self.out.len())
    }

    fn go(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let functions = self.bits.len();
        match *step {
            Step::Read(f, pieces) => {
                let (f, read_id) = (f % functions, self.next_read);
                self.next_read += 1;
                self.bench.probes[f]
                    .push(Class::NonPosted, read(read_id, u64::from(read_id) << 16, pieces * PIECE));
                self.wants[f].reads.push_back((read_id, pieces));
            }
            Step::Write(f, pieces) => {
                let f = f % functions;
                let bytes = Data::Counted(pieces * PIECE);
                self.bench.probes[f].push(Class::Posted, write(0x1000, bytes));
                self.wants[f].writes += pieces;
            }
            Step::PollPosted(most) => {
                for _ in 0..most {
                    let tlp = self.bench.endpoint.poll_tlp(self.now, Class::Posted, TcSet::ALL);
                    let Some(tlp) = tlp else { break };
                    self.wants[usize::from(request(&tlp).requester.bits() - EP.bits())].writes -= 1;
                }
            }
            Step::Poll(most) => {
                for _ in 0..most {
                    if !self.poll()? {
                        break;
                    }
                }
            }
            Step::Pass(us) => self.pass(Duration::from_us(us)),
            Step::Reset(f) => self.reset(f % functions),
            Step::Gate(f) => {
                let f = f % functions;
                self.write(f, COMMAND, 0x2);
                self.go(&Step::PollPosted(usize::MAX))?;
                self.wants[f] = Wants::default();
                while self.poll()? {}
                prop_assert!(self.bench.probes[f].0.borrow().outputs[1].is_empty(), "all were refused");
                self.write(f, COMMAND, 0x6);
            }
            Step::Answer(_) | Step::Refuse(_) | Step::Stray(..) if self.out.is_empty() => {}
            Step::Answer(at) => self.answer(at % self.out.len()),
            Step::Refuse(at) => {
                let at = at % self.out.len();
                if !self.out[at].resting {
                    let out = self.out.swap_remove(at);
                    self.bench.endpoint.handle_tlp(self.now, &refuse(&out.tlp, Status::UnsupportedRequest));
                    self.failed(out.function, out.read);
                }
            }
            Step::Stray(at, f) => self.stray(at % self.out.len(), f % functions)?,
        }
        self.check()
    }

    /// A read has failed, so its rest is not requested.
    fn failed(&mut self, f: usize, read: u32) {
        self.wants[f].reads.retain(|(id, _)| *id != read);
    }

    fn poll(&mut self) -> Result<bool, TestCaseError> {
        let announced = self.bench.endpoint.ready().contains(Ready::output(Class::NonPosted));
        let Some(tlp) = self.bench.endpoint.poll_tlp(self.now, Class::NonPosted, TcSet::ALL) else {
            for f in 0..self.bits.len() {
                let waits = !self.wants[f].reads.is_empty() && self.wants[f].writes == 0;
                prop_assert!(!waits || self.usable(f) == 0, "function {f} waits, {} tags", self.usable(f));
            }
            return Ok(false);
        };
        prop_assert!(announced);
        let m = request(&tlp);
        let (f, tag) = (usize::from(m.requester.bits() - EP.bits()), m.tag.bits());
        prop_assert!(self.bits[f].range(self.limit).contains(&tag), "{:?}: tag {tag}", self.bits[f]);
        prop_assert!(self.out.iter().all(|o| o.tag != tag), "tag {tag} is not free");
        prop_assert!(self.out.len() < usize::from(self.limit));
        let Some((read, left)) = self.wants[f].reads.front_mut() else {
            return Err(TestCaseError::fail(format!("function {f} has nothing to ask for")));
        };
        prop_assert_eq!(m.span.first_byte() >> 16, u64::from(*read));
        let read = *read;
        *left -= 1;
        if *left == 0 {
            self.wants[f].reads.pop_front();
        }
        self.take_turns(f, tag)?;
        let answers = answer_with(&self.bench.pool, &tlp, |_, n| n.min(PIECE / 2)).into();
        let deadline = self.now + TIMEOUT;
        self.out.push(Out { function: f, read, tag, tlp, answers, deadline, resting: false });
        Ok(true)
    }

    /// No function waits while others get more than their share of the tags that it could use.
    fn take_turns(&mut self, sender: usize, tag: u16) -> Result<(), TestCaseError> {
        let n = self.bits.len();
        let all_alike = self.bits.iter().all(|bits| *bits == self.bits[0]);
        let most = if all_alike { n - 1 } else { n * n + 2 * n };
        for (f, wants) in self.wants.iter_mut().enumerate() {
            let might_have = self.bits[f].range(self.limit).contains(&tag);
            wants.passed += usize::from(f != sender && might_have);
            if f == sender || wants.reads.is_empty() || wants.writes > 0 {
                wants.passed = 0;
            }
            prop_assert!(wants.passed <= most, "function {f} was passed {} times", wants.passed);
        }
        Ok(())
    }

    fn answer(&mut self, at: usize) {
        let out = &mut self.out[at];
        let tlp = out.answers.pop_front().unwrap();
        if out.answers.is_empty() {
            self.out.swap_remove(at);
        }
        self.bench.endpoint.handle_tlp(self.now, &tlp);
    }

    /// The tag alone does not make a completion expected.
    fn stray(&mut self, at: usize, f: usize) -> Result<(), TestCaseError> {
        if self.out[at].function == f {
            return Ok(());
        }
        let mut tlp = self.out[at].answers[0].clone();
        let Body::Completion(c) = &mut tlp.repr.body else { return Ok(()) };
        c.requester = id(f);
        let before = *self.bench.endpoint.counters();
        self.bench.endpoint.handle_tlp(self.now, &tlp);
        let after = *self.bench.endpoint.counters();
        prop_assert_eq!(after.unexpected_completions, before.unexpected_completions + 1);
        prop_assert_eq!(after.late_completions, before.late_completions);
        Ok(())
    }

    fn reset(&mut self, f: usize) {
        let at = self.pcie();
        self.bench.probes[f].0.borrow_mut().outputs.iter_mut().for_each(VecDeque::clear);
        self.wants[f] = Wants::default();
        self.write(f, at + 2, 1 << 15);
        self.set_up(f);
        let until = self.now + TIMEOUT;
        for out in self.out.iter_mut().filter(|out| out.function == f && !out.resting) {
            out.deadline = out.deadline.max(until);
            out.read = u32::MAX;
        }
    }

    fn pass(&mut self, time: Duration) {
        let to = self.now + time;
        while let Some(at) = self.bench.endpoint.poll_timeout().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            self.bench.endpoint.handle_timeout(self.now);
            self.expire();
        }
        self.now = to;
    }

    fn expire(&mut self) {
        let now = self.now;
        self.out.retain(|out| !(out.resting && out.deadline <= now));
        let mut failed = Vec::new();
        for out in self.out.iter_mut().filter(|out| !out.resting && out.deadline <= now) {
            (out.resting, out.deadline) = (true, now + TIMEOUT);
            failed.push((out.function, out.read));
        }
        failed.into_iter().for_each(|(f, read)| self.failed(f, read));
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let endpoint = &self.bench.endpoint;
        prop_assert_eq!(endpoint.pooled_tags(), Some((self.out.len() as u16, self.limit)));
        for f in 0..self.bits.len() {
            let own = self.out.iter().filter(|out| out.function == f).count();
            prop_assert_eq!(endpoint.tags(f as u8).map(|(used, _)| usize::from(used)), Some(own));
        }
        prop_assert!(self.out.iter().all(|out| out.deadline > self.now), "a tag rests for too long");
        Ok(())
    }

    /// All requests are answered, all waiting ones are issued, and each function may have all of its tags again.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.go(&Step::PollPosted(usize::MAX))?;
        while self.poll()? || !self.out.is_empty() {
            if !self.out.is_empty() {
                self.answer(0);
            }
            self.check()?;
        }
        prop_assert!(self.wants.iter().all(|wants| wants.reads.is_empty()), "each has had its turn");
        for f in 0..self.bits.len() {
            self.go(&Step::Read(f, u32::from(self.limit) + 1))?;
            while self.poll()? {}
            prop_assert_eq!(self.out.len(), self.bits[f].range(self.limit).len());
            self.reset(f);
            self.pass(TIMEOUT + TIMEOUT);
            self.check()?;
            prop_assert!(self.out.is_empty());
        }
        Ok(())
    }
}

fn bits() -> impl Strategy<Value = Vec<Bits>> {
    let one = || prop::sample::select(vec![Bits::Five, Bits::Eight, Bits::Ten]);
    let count = || prop_oneof![1usize..5, 9usize..12];
    prop_oneof![
        (one(), count()).prop_map(|(bits, n)| vec![bits; n]),
        count().prop_flat_map(move |n| prop::collection::vec(one(), n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Reads of several functions, few and many; completions in any order, also unexpected ones; resets and timeouts. A
    /// tag never belongs to two requests, is never lost, and is never idle while a function waits for it. Each function
    /// waits no longer than its turn.
    #[test]
    fn tag_pool_matches_a_simple_model(
        limit in prop::sample::select(vec![1u16, 2, 3, 7, 40]),
        bits in bits(),
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let mut rig = Rig::new(limit, bits);
        for step in &steps {
            rig.go(step)?;
        }
        rig.end()?;
    }
}

/// Functions with fewer usable tags get some of the returned tags, even if tags always return just before the others
/// are polled.
#[test]
fn functions_with_fewer_tags_get_equal_turns() {
    for (few, more) in [(1, 2), (3, 8)] {
        let bits = [vec![Bits::Five; few], vec![Bits::Eight; more]].concat();
        let mut rig = Rig::new(64, bits);
        // The others send first, and so have all of the 32 tags that all functions may use.
        (few..few + more).for_each(|f| rig.go(&Step::Read(f, 4000)).unwrap());
        while rig.poll().unwrap() {}
        (0..few).for_each(|f| rig.go(&Step::Read(f, 10)).unwrap());
        let mut last = few + more - 1;
        for _ in 0..500 {
            let for_all = last != few + more - 1;
            let at = rig.out.iter().position(|out| (out.tag < 32) == for_all).unwrap();
            let tag = rig.out[at].tag;
            while rig.out.iter().any(|out| out.tag == tag) {
                let at = rig.out.iter().position(|out| out.tag == tag).unwrap();
                rig.answer(at);
            }
            while rig.poll().unwrap() {}
            let sender = rig.out.last().unwrap().function;
            last = if sender >= few { sender } else { last };
        }
        assert!((0..few).all(|f| rig.wants[f].reads.is_empty()), "{few} with 5 bits");
    }
}

/// A function whose requests are never answered keeps its tags; the others share the rest. Its reset returns no tag
/// early, and takes no tag of the others.
#[test]
fn reset_leaves_the_tags_of_other_functions() {
    let mut vfs = enabled(limits(8), 3);
    for n in 0..3 {
        vfs.probe(n).push(Class::NonPosted, read(n.into(), 0x1000, 2 * 512));
    }
    let asked = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(asked.len(), 6);
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((6, 8)));
    let tags: BTreeSet<u16> = asked.iter().map(|tlp| request(tlp).tag.bits()).collect();
    assert_eq!(tags.len(), 6, "each its own: {tags:?}");
    vfs.flr(1);
    vfs.write(1, COMMAND, 0x4);
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((6, 8)), "they rest");
    vfs.probe(1).push(Class::NonPosted, read(9, 0x2000, 4 * 512));
    assert_eq!(vfs.bench.poll_all(Class::NonPosted).len(), 2, "the free ones");
    // Tags whose completions have arrived can be lent to any function.
    let sent = asked.iter().map(|tlp| {
        answer(tlp).into_iter().for_each(|c| vfs.bench.handle(c));
        vfs.bench.poll_all(Class::NonPosted).len()
    });
    assert_eq!(sent.collect::<Vec<_>>(), [1, 1, 0, 0, 0, 0]);
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((4, 8)));
    assert_eq!(vfs.bench.endpoint.counters().swallowed_completions, 4);
    assert!(vfs.probe(1).done().is_empty(), "nothing of its former state");
    for n in [0, 2] {
        assert!(matches!(vfs.probe(n).done()[..], [(_, Ok(_))]), "VF {n}");
    }
}

/// The tags of virtual functions that are disabled with outstanding reads are quarantined, and then lent to any
/// function.
#[test]
fn tags_of_disabled_functions_are_freed() {
    let mut vfs = enabled(limits(4), 2);
    vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 3 * 512));
    let asked = vfs.bench.poll_all(Class::NonPosted);
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE);
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((3, 4)));
    vfs.bench.probe().push(Class::NonPosted, read(2, 0x8000, 4 * 512));
    let first = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(first.len(), 1);
    answer(&asked[1]).into_iter().for_each(|c| vfs.bench.handle(c));
    let second = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(request(&second[0]).tag, request(&asked[1]).tag, "its completions have arrived");
    vfs.bench.advance(us(49));
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((4, 4)));
    assert!(vfs.bench.poll(Class::NonPosted).is_none());
    [&first[0], &second[0]].into_iter().flat_map(answer).for_each(|c| vfs.bench.handle(c));
    let rest = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(rest.len(), 2);
    rest.iter().flat_map(answer).for_each(|c| vfs.bench.handle(c));
    assert!(matches!(vfs.bench.probe().done()[..], [(2, Ok(_))]));
    vfs.bench.advance(us(100));
    assert_eq!(vfs.bench.endpoint.pooled_tags(), Some((0, 4)), "nothing is lost");
}
