// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device in the adapter's slot. Peers' TLPs become DMA of its function, or of the virtual function that they name as their
//! requester. The host's requests to one BAR of each function become TLPs for the device software. The bridge is sans-IO.
//!
//! ```text
//!   peers ── requests ──▶ Bridge ── DmaRead, DmaWrite ──▶ endpoint ──▶ link, root complex, memory
//!         ◀─ completions ──        ◀── bytes, or why not ──
//!   device software ◀── MRd, MWr ── Bridge ◀── requests to the BAR ── endpoint ◀── host
//!         ── completions ──────────▶         ── answers ────────────▶
//! ```
//!
//! The endpoint manages the tags. A request of a peer uses tags of the slot's function, and is split at the path's
//! Max_Payload_Size, Max_Read_Request_Size and 4 KiB. The answer is reassembled, and returns to the peer with the
//! peer's requester ID and tag, in completions like those of a completer. Requests keep the order of PCI Express: a
//! read does not pass an earlier write, but a write may pass reads.

use super::egress::{Answer, Egress, Entry, Next};
use super::host_side::{HostSide, Match};
use device::{
    BarIndex, CompletionError, Device, DmaAtomic, DmaError, DmaId, DmaOptions, DmaRead, DmaWrite, Input,
    Output, Ready, Request, RequestOp, ResetKind, Token,
};
use nettlp::adapter::{PeerPath, Received, Registers};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tlp::message::is_ignored;
use tlp::rules::reasons::{poisoned, request_type};
use tlp::rules::{Head, Reason, Refusal, Refusals};
use tlp::{
    AddressType, Bdf, Body, Class, CompletedRequest, Data, MemoryOp, MemoryRequest, Mps, PayloadPool,
    Prefixes, Rcb, Repr, RuleId, Span, Status, Time, Violation,
};

/// Maximum number of reads and atomics of all peers together that are in progress or wait. Further requests of a
/// session stay in the peer; datagrams wait in the buffers of the sockets.
pub const MAX_PEER_READS: usize = 1024;
/// Maximum number of peers' writes that wait for the link.
pub const MAX_PEER_WRITES: usize = 1024;

device::counters! {
    /// Counters of an adapter in a lab.
    pub struct BridgeCounters {
        /// Memory reads of peers.
        peer_reads,
        /// Memory writes of peers.
        peer_writes,
        /// AtomicOps of peers.
        peer_atomics,
        /// Requests of peers refused with UR: I/O, configuration, deferrable writes, translation requests.
        refused,
        /// Posted requests of peers without effect: messages, poisoned writes, writes of no byte.
        dropped,
        /// Reads and atomics of peers that the fabric did not serve: they are answered with UR or CA.
        failed,
        /// Reads and atomics that the fabric did not answer in time. Such a request ends by the peer's own timeout.
        unanswered,
        /// Reads of the host that went to the device software.
        host_reads,
        /// Writes of the host that went to the device software.
        host_writes,
        /// Reads of the host that timed out because the device software did not answer.
        host_timeouts,
        /// Requests of the host for which there was no device software.
        nobody,
        /// Completions without a matching request: late, duplicate, or wrong.
        strays,
        /// Answers and requests that could not be delivered within a second.
        undeliverable,
    }
}

/// DMA of one function that waits for the endpoint.
#[derive(Default)]
struct Dma {
    /// Writes, each with its number in the order of arrival.
    writes: VecDeque<(u64, DmaWrite)>,
    reads: VecDeque<(u64, PeerRequest)>,
    /// An input has arrived from outside, so the fabric must call the device.
    woken: bool,
}

/// A read or atomic that waits or is in progress.
struct Job {
    function: usize,
    way: PeerPath,
    asked: CompletedRequest,
}

/// A request of a peer that waits for the endpoint.
enum PeerRequest {
    Read(DmaRead),
    Atomic(DmaAtomic),
}

/// The state of the device, which the fabric and the backend share.
pub(crate) struct Bridge {
    pool: PayloadPool,
    /// The BAR that leads to the device software. Other BARs have the adapter's registers.
    bar: BarIndex,
    /// Maximum bytes of a completion to a peer.
    pub(crate) mps: Mps,
    /// Boundaries of completions to peers: the same as those of the root complex.
    pub(crate) rcb: Rcb,
    pub(crate) registers: Registers,
    /// DMA that waits, by function: the physical function, then the virtual functions.
    dma: Vec<Dma>,
    arrivals: u64,
    jobs: BTreeMap<DmaId, Job>,
    next_id: u32,
    pub(crate) host: HostSide,
    pub(crate) egress: Egress,
    now: Time,
    pub(crate) counters: BridgeCounters,
    refusals: Refusals,
}

impl Bridge {
    /// Creates an adapter with this many functions, whose BARs `bar` lead to the device software, on a path of this
    /// Max_Payload_Size.
    pub(crate) fn new(functions: usize, bar: u8, mps: Mps, pool: &PayloadPool) -> Bridge {
        Bridge {
            pool: pool.clone(),
            bar: BarIndex(bar),
            mps,
            rcb: Rcb::default(),
            registers: Registers::new(Bdf::default()),
            dma: (0..functions).map(|_| Dma::default()).collect(),
            arrivals: 0,
            jobs: BTreeMap::new(),
            next_id: 0,
            host: HostSide::new(functions),
            egress: Egress::default(),
            now: Time::ZERO,
            counters: BridgeCounters::default(),
            refusals: Refusals::default(),
        }
    }

    /// Returns whether there is room for a TLP of any kind.
    pub(crate) fn has_room(&self) -> bool {
        self.jobs.len() < MAX_PEER_READS && self.writes() < MAX_PEER_WRITES
    }

    /// Returns whether the fabric still has to answer or take a request.
    pub(crate) fn awaits_fabric(&self) -> bool {
        !self.jobs.is_empty() || self.writes() > 0
    }

    /// Returns the number of writes that wait.
    fn writes(&self) -> usize {
        self.dma.iter().map(|dma| dma.writes.len()).sum()
    }

    /// Takes a TLP of a peer, which is a request or an answer of `function`. Call this only if there is [room](Self::has_room).
    pub(crate) fn take_from_peer(&mut self, now: Time, function: usize, from: &Received<'_>) {
        let Received { way, repr, prefixes, data, .. } = *from;
        (self.now, self.dma[function].woken) = (now, true);
        let kept = data.get(repr.data_lanes()).unwrap_or_default();
        match &repr.body {
            Body::Memory(m) if m.op.is_read() && repr.at != AddressType::TranslationRequest => {
                self.read(function, from, m);
            }
            Body::Memory(m) if m.op == MemoryOp::Write => self.write(function, from, m, kept),
            Body::Atomic(a) => {
                let operands = Data::Carried(self.pool.copy(kept));
                let (address, op, options) = (a.address, a.op, options(repr, prefixes));
                self.counters.peer_atomics += 1;
                let id = self.job(Job { function, way, asked: CompletedRequest::of_non_posted(repr) });
                let atomic = DmaAtomic::new(id, address, op, operands).with_options(options);
                self.queue(function, PeerRequest::Atomic(atomic));
            }
            Body::Completion(c) => {
                if repr.ep {
                    self.refusals.record(now, None, poisoned(), from.head());
                }
                if let Match::Stray(why) = self.host.completion(c, kept, repr.ep, &self.pool) {
                    self.refused(|c| &mut c.strays, why, from.head());
                }
                self.wake_for_replies();
            }
            Body::Message(m) if is_ignored(m.code) => self.counters.dropped += 1,
            Body::Message(m) => {
                let why = Violation::new(RuleId::MessageSupported, m.code.into());
                self.refused(|c| &mut c.dropped, why, from.head());
            }
            Body::Memory(_) | Body::Io(_) | Body::Config(_) => self.refuse(from),
        }
    }

    /// Counts a TLP of a peer, or a request of the host, that has no effect, and stores the reason.
    #[cold]
    pub(crate) fn refused(
        &mut self,
        counter: fn(&mut BridgeCounters) -> &mut u64,
        why: impl Into<Reason>,
        tlp: Head,
    ) {
        *counter(&mut self.counters) += 1;
        self.refusals.record(self.now, None, why, tlp);
    }

    /// Returns why TLPs of peers were refused, and reads of the host not answered.
    pub(crate) fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }

    /// Queues a read. The endpoint splits every read that crosses a 4 KiB boundary, also a read that ends
    /// `behind_bytes` after the boundary.
    fn read(&mut self, function: usize, from: &Received<'_>, m: &MemoryRequest) {
        let Received { way, repr, prefixes, behind_bytes, .. } = *from;
        self.counters.peer_reads += 1;
        let mut asked = CompletedRequest::of_non_posted(repr);
        asked.bytes.byte_count += behind_bytes;
        let byte_count = asked.bytes.byte_count;
        let id = self.job(Job { function, way, asked });
        let len = if m.span.is_zero_length() { 0 } else { byte_count };
        let options = options(repr, prefixes);
        let read = DmaRead::new(id, m.span.first_byte(), len).with_options(options);
        self.queue(function, PeerRequest::Read(read));
    }

    /// Queues a DMA write for each run of enabled bytes. Byte enables may leave holes in the first and last DW.
    fn write(&mut self, function: usize, from: &Received<'_>, m: &MemoryRequest, kept: &[u8]) {
        let Received { repr, prefixes, .. } = *from;
        if repr.ep {
            return self.refused(|c| &mut c.dropped, poisoned(), from.head());
        }
        if m.span.is_zero_length() || kept.is_empty() {
            // A write of no byte breaks no rule.
            self.counters.dropped += 1;
            return;
        }
        self.counters.peer_writes += 1;
        let mut at = 0;
        while let Some((start, len)) = next_run(m.span, at, kept.len() as u32) {
            let data = Data::Carried(self.pool.copy(&kept[start as usize..][..len as usize]));
            let address = m.span.first_byte() + u64::from(start);
            let stamp = self.arrival();
            let write = DmaWrite::new(address, data).with_options(options(repr, prefixes));
            self.dma[function].writes.push_back((stamp, write));
            at = start + len;
        }
    }

    fn refuse(&mut self, from: &Received<'_>) {
        let Received { way, repr, .. } = *from;
        self.refused(|c| &mut c.refused, request_type(repr), from.head());
        let Some(asked) = CompletedRequest::of(repr) else { return };
        let answer = Answer::new(way, asked, Err(Status::UnsupportedRequest));
        self.egress.push(self.now, Entry::Answer(answer));
    }

    fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn queue(&mut self, function: usize, request: PeerRequest) {
        let stamp = self.arrival();
        self.dma[function].reads.push_back((stamp, request));
    }

    /// Registers a job under an id that no other job has.
    fn job(&mut self, job: Job) -> DmaId {
        while self.jobs.contains_key(&DmaId(self.next_id)) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = DmaId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.jobs.insert(id, job);
        id
    }

    /// Handles the end of a DMA read or atomic.
    fn done(&mut self, id: DmaId, result: Result<Data, DmaError>) {
        let Some(Job { way, asked, .. }) = self.jobs.remove(&id) else { return };
        let result = match result {
            Ok(data) if data.is_empty() => Ok(Data::Carried(self.pool.copy(&[0]))),
            Ok(data) => Ok(data),
            // The peer gets no answer, like on a link.
            Err(DmaError::CompletionTimeout | DmaError::LinkDown) => {
                self.counters.unanswered += 1;
                return;
            }
            Err(DmaError::CompleterAbort | DmaError::Poisoned | DmaError::Malformed) => {
                Err(Status::CompleterAbort)
            }
            Err(_) => Err(Status::UnsupportedRequest),
        };
        self.counters.failed += u64::from(result.is_err());
        self.egress.push(self.now, Entry::Answer(Answer::new(way, asked, result)));
    }

    /// Handles a request of the host to a function.
    fn request(&mut self, function: usize, request: Request) {
        let own = match &request.op {
            RequestOp::Read { bar, .. } | RequestOp::Write { bar, .. } => *bar != self.bar,
            _ => false,
        };
        if own {
            return self.own_register(function, request);
        }
        match &request.op {
            RequestOp::Read { .. } => self.counters.host_reads += 1,
            RequestOp::Write { .. } => self.counters.host_writes += 1,
            _ => {}
        }
        self.host.request(self.now, function, request, &mut self.egress);
    }

    /// Handles an access to the adapter's own registers, which have one DW each.
    fn own_register(&mut self, function: usize, Request { token, op, .. }: Request) {
        let replies = &mut self.host.replies[function];
        replies.taken.push_back(token);
        match op {
            RequestOp::Read { offset, span, .. } => {
                let registers = &self.registers;
                let byte = |at: u64| {
                    let dw = u8::try_from(at / 4).map_or(0, |dw| registers.read(dw));
                    dw.to_le_bytes()[(at % 4) as usize]
                };
                let data = self.pool.fill(span.byte_count() as usize, |out| {
                    (offset..).zip(out).for_each(|(at, out)| *out = byte(at));
                });
                replies.answers.push_back(Output::Complete { token, result: Ok(Data::Carried(data)) });
            }
            RequestOp::Write { offset, span, data, .. } => {
                let dw = u8::try_from(offset / 4);
                if let (Ok(dw), Some(bytes)) = (dw, data.bytes())
                    && span.byte_count() == 4
                    && let Some(value) = bytes.first_chunk()
                {
                    self.registers.write(dw, u32::from_le_bytes(*value));
                }
            }
            _ => {
                let result = Err(CompletionError::UnsupportedRequest);
                replies.answers.push_back(Output::Complete { token, result });
            }
        }
    }

    /// Returns the next TLP of entry `index` of the egress queue.
    pub(crate) fn next_egress(&self, index: usize) -> Option<Next> {
        self.egress.next(index, (self.mps, self.rcb))
    }

    /// Records that the entry's TLP has left. Returns true if it was the last TLP of the entry, so that the entry must
    /// be [taken](Self::take_egress).
    pub(crate) fn egress_sent(&mut self, index: usize) -> bool {
        self.egress.sent(index, (self.mps, self.rcb))
    }

    /// Removes entry `index` from the queue, and forwards requests that waited for its room. Returns true if the fabric must call the
    /// device.
    pub(crate) fn take_egress(&mut self, now: Time, index: usize, delivery: Delivery) -> bool {
        self.now = now;
        let Some(entry) = self.egress.take(index) else { return false };
        if delivery != Delivery::Sent {
            self.not_delivered(delivery, &entry);
        }
        if self.host.is_held_up() {
            self.host.proceed(now, &mut self.egress);
        }
        self.wake_for_replies();
        self.dma.iter().any(|dma| dma.woken)
    }

    /// Wakes the functions that have replies to requests of the host.
    fn wake_for_replies(&mut self) {
        for (dma, replies) in self.dma.iter_mut().zip(&self.host.replies) {
            dma.woken |= !replies.taken.is_empty() || !replies.answers.is_empty();
        }
    }

    // A peer that is absent or takes no TLPs is like a link that is down.
    #[cold]
    fn not_delivered(&mut self, delivery: Delivery, entry: &Entry) {
        let why = Violation::new(RuleId::LinkUp, 0);
        let head = match entry {
            Entry::Request(tlp) => Head::of(tlp),
            Entry::Answer(answer) => Head::of(&answer.next((self.mps, self.rcb)).0),
        };
        match (delivery, entry) {
            (Delivery::NoDevice, Entry::Request(tlp)) => {
                self.host.no_device(tlp);
                self.refused(|c| &mut c.nobody, why, head);
            }
            _ => self.refused(|c| &mut c.undeliverable, why, head),
        }
    }

    /// Drops all work of a function. A reset of the physical function drops the egress queue too.
    fn reset(&mut self, function: usize, kind: ResetKind) {
        self.dma[function] = Dma::default();
        self.jobs.retain(|_, job| job.function != function);
        self.host.reset(function);
        if function == 0 {
            self.egress.clear();
        }
        if kind != ResetKind::FunctionLevel {
            self.registers.requester = Bdf::default();
        }
    }

    /// Returns when the fabric calls the device of a function: immediately if an input has arrived from outside. The physical
    /// function has the deadlines of all.
    fn timeout(&self, function: usize) -> Option<Time> {
        let deadline = || self.host.next_deadline().filter(|_| function == 0);
        if self.dma[function].woken { Some(Time::ZERO) } else { deadline() }
    }
}

/// How an entry left the egress queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// The entry was sent completely.
    Sent,
    /// There is no device software.
    NoDevice,
    /// The entry could not be delivered.
    Lost,
}

fn options(repr: &Repr, prefixes: &Prefixes) -> DmaOptions {
    let options = DmaOptions::tc(repr.tc).with_attr(repr.attr).with_prefixes(prefixes.clone());
    repr.th.map_or(options.clone(), |hint| options.with_hint(hint))
}

/// Returns start and length of the next run of enabled bytes, from byte `at` of the span on.
fn next_run(span: Span, at: u32, end: u32) -> Option<(u32, u32)> {
    if at == 0 && span.is_contiguous() {
        return Some((0, end));
    }
    let start = (at..end).find(|&i| span.is_enabled(i))?;
    let stop = (start..end).find(|&i| !span.is_enabled(i)).unwrap_or(end);
    Some((start, stop - start))
}

/// The bridge as the device of a function.
pub(crate) struct BridgeDevice {
    pub(crate) bridge: Rc<RefCell<Bridge>>,
    /// 0 for the physical function, n for virtual function n.
    pub(crate) function: usize,
}

impl Device for BridgeDevice {
    fn handle(&mut self, now: Time, input: Input) {
        let (bridge, function) = (&mut *self.bridge.borrow_mut(), self.function);
        bridge.now = now;
        match input {
            Input::Request(request) => bridge.request(function, request),
            Input::DmaDone { id, result } => bridge.done(id, result),
            Input::Timer => {
                bridge.dma[function].woken = false;
                while let Some(request) = bridge.host.expire(now) {
                    let why = Reason::timeout(bridge.host.timeout);
                    bridge.refused(|c| &mut c.host_timeouts, why, Head::of_header(&request));
                }
                bridge.host.proceed(now, &mut bridge.egress);
            }
            Input::Reset(kind) => bridge.reset(function, kind),
            _ => {}
        }
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        let bridge = &mut *self.bridge.borrow_mut();
        bridge.now = now;
        let dma = &mut bridge.dma[self.function];
        match class {
            Class::Posted => dma.writes.pop_front().map(|(_, write)| Output::Write(write)),
            Class::NonPosted => {
                let before = dma.writes.front().map_or(u64::MAX, |(stamp, _)| *stamp);
                if dma.reads.front()?.0 > before {
                    return None;
                }
                Some(match dma.reads.pop_front()?.1 {
                    PeerRequest::Read(read) => Output::Read(read),
                    PeerRequest::Atomic(atomic) => Output::Atomic(atomic),
                })
            }
            Class::Completion => bridge.host.replies[self.function].answers.pop_front(),
        }
    }

    /// Inputs from outside also set the timer ([`Bridge::timeout`]), so that the fabric calls the device.
    fn ready(&self) -> Ready {
        let bridge = &*self.bridge.borrow();
        let (dma, replies) = (&bridge.dma[self.function], &bridge.host.replies[self.function]);
        let some = [
            (!dma.writes.is_empty(), Ready::output(Class::Posted)),
            (!dma.reads.is_empty(), Ready::output(Class::NonPosted)),
            (!replies.answers.is_empty(), Ready::output(Class::Completion)),
            (!replies.taken.is_empty(), Ready::TAKEN),
        ];
        some.into_iter().filter(|(has, _)| *has).fold(Ready::NONE, |ready, (_, more)| ready.or(more))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.bridge.borrow_mut().host.replies[self.function].taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.bridge.borrow().timeout(self.function)
    }

    fn waits_for(&self) -> Option<String> {
        let open = self.bridge.borrow().host.open(self.function);
        (open > 0).then(|| format!("{open} reads of the host wait for the device software"))
    }
}
