// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Non-posted requests of devices that are outstanding in the memory system, and their completions.

use super::memory::{Request, Served, Service};
use super::{Base, PortSettings, Ready};
use crate::effects::Effect;
use crate::ledger::Turn;
use crate::memory_system::Access;
use crate::profile::{
    COMPLETION_OVERHEAD_BYTES, CUT_AFTER_WRITE_BYTES, LONG_READ_LINES, ReadPart, ReadShape, lines,
};
use crate::stages::Stage;
use config::{Side, Uncorrectable};
use tlp::rules::reasons::{poisoned, request_type, unclaimed};
use tlp::{
    Account, AtomicOp, AtomicRequest, Attributes, Awaited, Bdf, Body, CompletedRequest, Data, Duration,
    MemoryOp, MemoryRequest, Mps, OperandSize, Repr, RuleId, Span, Status, TcSet, Time, Tlp, TrafficClass,
    Violation,
};

/// Interval between polls of memory that is elsewhere.
const ASK_AGAIN: Duration = Duration::from_us(1);

/// A request of a device, until its last completion has been sent.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) port: usize,
    /// The fields of the completions; attributes as received.
    asked: CompletedRequest,
    status: Status,
    /// Address in memory.
    pub(super) address: u64,
    /// Bytes in memory, and of data in the answer.
    pub(super) byte_count: u32,
    sent: u32,
    carry: bool,
    pub(super) action: Action,
    data: Data,
    account: Account,
    /// Maximum number of bytes of a completion, if less than Max_Payload_Size.
    pub(super) unit: Option<Mps>,
    /// Extra time that the lines took over a hit in the cache.
    pub(super) late: Duration,
    /// Its place in a transfer of several reads.
    part: ReadPart,
    /// Whether the link of the request has gone down.
    stale: bool,
}

/// The effect of a request on memory when memory serves it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Reads.
    Read,
    /// Writes the enabled bytes of this span; the completion has no data.
    Write(Span),
    /// Reads, computes and writes.
    Atomic(AtomicOp),
    /// No memory: the data comes from another root port.
    Passed,
}

impl Job {
    fn new(port: usize, tlp: &Tlp, address: u64, byte_count: u32, action: Action, data: Data) -> Job {
        Job {
            address,
            byte_count,
            action,
            data,
            ..Job::asked(port, tlp, CompletedRequest::of_non_posted(&tlp.repr))
        }
    }

    fn asked(port: usize, tlp: &Tlp, asked: CompletedRequest) -> Job {
        let Awaited { first_byte, byte_count } = asked.bytes;
        Job {
            port,
            asked: CompletedRequest { attr: tlp.repr.attr, ..asked },
            status: Status::Success,
            address: first_byte,
            byte_count,
            sent: 0,
            carry: tlp.carry,
            action: Action::Read,
            data: Data::Counted(byte_count),
            account: tlp.account,
            unit: None,
            late: Duration::ZERO,
            part: ReadPart::default(),
            stale: false,
        }
    }

    pub(super) fn read(port: usize, tlp: &Tlp, m: &MemoryRequest) -> Job {
        Job::asked(port, tlp, CompletedRequest::of_read(&tlp.repr, m))
    }

    /// The job of a read whose data comes from another root port.
    pub(super) fn passed(port: usize, tlp: &Tlp, m: &MemoryRequest) -> Job {
        Job { action: Action::Passed, ..Job::read(port, tlp, m) }
    }

    pub(super) fn atomic(port: usize, tlp: &Tlp, a: &AtomicRequest) -> Job {
        Job::new(port, tlp, a.address, a.operand.bytes(), Action::Atomic(a.op), tlp.data.clone())
    }

    pub(super) fn deferrable_write(port: usize, tlp: &Tlp, m: &MemoryRequest) -> Job {
        let (address, byte_count) = (m.span.first_byte(), m.span.byte_count());
        Job::new(port, tlp, address, byte_count, Action::Write(m.span), tlp.data.clone())
    }

    pub(super) fn refused(port: usize, tlp: &Tlp, status: Status) -> Job {
        let job = Job::asked(port, tlp, CompletedRequest::of_non_posted(&tlp.repr));
        Job { status, address: 0, carry: false, data: Data::NONE, ..job }
    }

    /// A header for the same bytes, without hint and prefixes.
    fn request(&self) -> Repr {
        let CompletedRequest { requester, tag, tc, attr, .. } = self.asked;
        let memory = |op, span| Body::Memory(MemoryRequest { op, requester, tag, span });
        let (address, bytes) = (self.address, self.byte_count);
        let body = match self.action {
            Action::Write(span) => memory(MemoryOp::WriteDeferrable, span),
            Action::Atomic(op) => Body::Atomic(AtomicRequest {
                op,
                operand: OperandSize::of_bytes(bytes),
                requester,
                tag,
                address,
            }),
            // These are the bytes of a request, so they form a span.
            Action::Read | Action::Passed => {
                memory(MemoryOp::Read, Span::covering(address, bytes).unwrap_or(Span::zero_length(address)))
            }
        };
        Repr { tc, attr, ..Repr::new(body) }
    }

    /// Has the job completed with UR.
    fn refuse(&mut self) {
        self.status = Status::UnsupportedRequest;
        self.data = Data::NONE;
        self.carry = false;
    }

    /// Whether the completions have data.
    fn has_data(&self) -> bool {
        self.status == Status::Success && !matches!(self.action, Action::Write(_))
    }

    fn completion(&self, completer: Bdf, piece: u32, attributes: Attributes) -> Repr {
        let asked = CompletedRequest { attr: self.asked.attr & attributes, ..self.asked };
        match self.has_data() {
            true => asked.with_data(completer, self.sent, piece),
            false => asked.without_data(completer, self.status),
        }
    }
}

/// The latest read of a root port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LatestRead {
    /// When it came.
    at: Time,
    job: u32,
}

/// Answers requests of devices. Jobs have numbers, which are reused.
#[derive(Default)]
pub(super) struct Completer {
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// Jobs that wait for data from memory or another root port.
    pub(super) in_memory: u32,
}

impl Completer {
    pub(super) fn insert(&mut self, job: Job) -> u32 {
        if let Some(at) = self.free.pop() {
            self.jobs[at as usize] = job;
            return at;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }

    /// The jobs of `port` are dropped when their data is available.
    pub(super) fn forget(&mut self, port: usize) {
        self.jobs.iter_mut().filter(|job| job.port == port).for_each(|job| job.stale = true);
    }

    /// The data of `job` has come from elsewhere, or the read has failed; returns the account.
    pub(super) fn finish(&mut self, job: u32, data: Data, failed: Option<Status>) -> Account {
        let job = &mut self.jobs[job as usize];
        job.data = data;
        job.status = failed.unwrap_or(job.status);
        job.account
    }
}

impl Base {
    /// Counts a request that memory does not accept. A request blocked by the IOMMU is only a fault of the IOMMU, and
    /// no error of the root port, which others share (Intel VT-d, "Translation Faults").
    #[cold]
    pub(super) fn note_refused(&mut self, access: &Access, now: Time, tlp: &Tlp) {
        let is_blocked = self.memory.is_blocked(access);
        let rule = if is_blocked { RuleId::IommuMapping } else { RuleId::UnclaimedAddress };
        let why = Violation::new(rule, access.address);
        self.refused(|b| &mut b.counters.unsupported_requests, access.port, now, why, tlp);
        if !is_blocked {
            let advisory = tlp.refusal_is_advisory();
            self.log(access.port, now, Uncorrectable::UnsupportedRequest, advisory, Side::Secondary, tlp);
        }
    }

    /// The next completion from another root port's device, if it is older than `stamp`.
    #[cold]
    fn next_passing(&mut self, port: usize, now: Time, room: TcSet, stamp: u64) -> Option<Tlp> {
        let out = self.ports[port].pop_passing(now, room, stamp)?;
        Some(self.leave_port(now, out))
    }

    fn count(&mut self, job: &Job) {
        *match job.action {
            Action::Read | Action::Passed => &mut self.counters.memory_reads,
            Action::Write(_) => &mut self.counters.memory_writes,
            Action::Atomic(_) => &mut self.counters.atomics,
        } += 1;
    }

    /// Returns the maximum number of bytes of the completions of the next read at `port`, if less than Max_Payload_Size.
    pub(super) fn completion_unit(&mut self, port: usize, now: Time, address: u64, len: u32) -> Option<Mps> {
        let completions = &self.profile.completions;
        let unit = completions.unit_bytes?;
        let p = &mut self.ports[port];
        let follows_write = p.writes.precede_read(now) && len <= CUT_AFTER_WRITE_BYTES;
        if completions.whole_from_bytes.is_some_and(|least| len >= least) {
            return follows_write.then_some(unit);
        }
        let long = lines(address, len) >= LONG_READ_LINES;
        let streams = std::mem::replace(&mut p.streams, long) && long && !follows_write;
        (!(streams && completions.streaming)).then_some(unit)
    }
}

impl Completer {
    /// The data of `job` is available. Returns its root port and Traffic Class.
    #[inline]
    pub(super) fn read_ready(&mut self, base: &mut Base, job: u32, now: Time) -> (usize, TrafficClass) {
        self.in_memory -= 1;
        let at = &mut self.jobs[job as usize];
        if at.stale {
            return self.read_is_stale(base, job);
        }
        match at.action {
            Action::Passed => {}
            Action::Read if !at.carry => {}
            Action::Read => {
                match base.memory.load(at.asked.requester, &base.payloads, at.address, at.byte_count) {
                    Some(payload) => at.data = Data::Carried(payload),
                    None => return self.fails(base, job, now),
                }
            }
            Action::Write(span) => {
                let data = std::mem::replace(&mut at.data, Data::NONE);
                base.memory.store(at.asked.requester, span, &data);
            }
            Action::Atomic(op) => {
                if !self.operate(base, job, op) {
                    return self.fails(base, job, now);
                }
            }
        }
        self.push_ready(base, job)
    }

    /// Handles memory that did not answer. Either it was removed after the job was accepted, or it is remote and has no
    /// data yet.
    #[cold]
    fn fails(&mut self, base: &mut Base, job: u32, now: Time) -> (usize, TrafficClass) {
        let Job { port, asked: CompletedRequest { tc, requester, .. }, .. } = self.jobs[job as usize];
        if base.memory.awaits(requester) {
            self.in_memory += 1;
            base.effects.push(Effect::Ready(now + ASK_AGAIN, job));
            return (port, tc);
        }
        let gone = &self.jobs[job as usize];
        let (why, tlp) = (unclaimed(gone.address), Tlp::new(gone.request(), Data::NONE));
        base.refused(|b| &mut b.counters.unsupported_requests, port, now, why, &tlp);
        self.jobs[job as usize].refuse();
        self.push_ready(base, job)
    }

    /// Handles a job whose requester's link went down. Its data is still written, but no completion is sent.
    #[cold]
    fn read_is_stale(&mut self, base: &mut Base, job: u32) -> (usize, TrafficClass) {
        let at = &mut self.jobs[job as usize];
        let (port, tc) = (at.port, at.asked.tc);
        match at.action {
            Action::Write(span) => {
                let data = std::mem::replace(&mut at.data, Data::NONE);
                base.memory.store(at.asked.requester, span, &data);
            }
            Action::Atomic(op) => _ = self.operate(base, job, op),
            Action::Read | Action::Passed => {}
        }
        self.drop_job(base, port, job);
        (port, tc)
    }

    /// Drops the answer `job` of `port`, without a replacement.
    pub(super) fn drop_job(&mut self, base: &mut Base, port: usize, job: u32) {
        let tc = self.jobs[job as usize].asked.tc;
        base.ports[port].reads_under_way[usize::from(tc.bits())] -= 1;
        self.free_job(base, job);
    }

    fn free_job(&mut self, base: &mut Base, job: u32) {
        let at = &mut self.jobs[job as usize];
        at.data = Data::NONE;
        base.effects.drop(at.account);
        self.free.push(job);
    }

    /// Executes an AtomicOp. Returns false if memory does not accept it.
    fn operate(&mut self, base: &mut Base, job: u32, op: AtomicOp) -> bool {
        let at = &mut self.jobs[job as usize];
        let old =
            base.memory.operate(at.asked.requester, op, at.address, at.byte_count, &at.data, &base.payloads);
        let Some(old) = old else { return false };
        at.data = if at.carry { Data::Carried(old) } else { Data::Counted(at.byte_count) };
        true
    }

    #[inline]
    fn push_ready(&mut self, base: &mut Base, job: u32) -> (usize, TrafficClass) {
        let stamp = base.stamp();
        let Job { port, asked: CompletedRequest { tc, .. }, .. } = self.jobs[job as usize];
        base.ports[port].ready.push(tc, Ready { stamp, job });
        (port, tc)
    }

    #[inline(always)]
    pub(super) fn next_completion(
        &mut self,
        base: &mut Base,
        port: usize,
        now: Time,
        room: TcSet,
    ) -> Option<Tlp> {
        let front = base.ports[port].front_ready(room);
        if !base.ports[port].passing.is_empty() {
            let before = front.map_or(u64::MAX, |(_, ready)| ready.stamp);
            if let Some(tlp) = base.next_passing(port, now, room, before) {
                return Some(tlp);
            }
        }
        let (tc, Ready { job: number, .. }) = front?;
        let p = &mut base.ports[port];
        let PortSettings { mps, rcb, completion_attributes, ecrc, .. } = p.config;
        let job = &mut self.jobs[number as usize];
        let completer = Bdf::default();
        let at = job.asked.bytes.first_byte + u64::from(job.sent);
        let left = job.byte_count - job.sent;
        let with_data = job.has_data();
        let piece = match with_data {
            true => base.profile.completions.piece(at, (job.sent, left), job.unit, mps, rcb),
            false => left,
        };
        let repr = Repr { td: ecrc, ..job.completion(completer, piece, completion_attributes) };
        let data = if with_data { job.data.slice(job.sent as usize, piece as usize) } else { Data::NONE };
        let rest_ps = match with_data {
            true => {
                let Job { address, byte_count: bytes, unit, late, part, .. } = *job;
                let dws = ((at % 4) as u32 + piece).div_ceil(4);
                let wire_bytes = COMPLETION_OVERHEAD_BYTES + 4 * (dws + u32::from(ecrc));
                let read = ReadShape { address, bytes, unit, late, part };
                let rest = base.profile.completions.rest_ps(&read, wire_bytes, piece == left, p.line_time);
                rest.saturating_add(p.writes.wait_ps(now, p.line_time))
            }
            false => 0,
        };
        job.sent += piece;
        // The last completion closes the account.
        let account = if job.sent == job.byte_count { job.account } else { Account::NONE };
        if job.sent == job.byte_count {
            job.data = Data::NONE;
            self.free.push(number);
            p.ready.pop(tc);
            p.reads_under_way[usize::from(tc.bits())] -= 1;
        }
        Some(Tlp { account, rest_ps, ..Tlp::new(repr, data) })
    }

    /// Handles requests other than plain reads.
    // A separate function, so that the more frequent reads do not pay for its registers.
    #[inline(never)]
    pub(super) fn start_other(&mut self, base: &mut Base, port: usize, now: Time, tlp: &Tlp) {
        let p = &base.profile;
        let (job, read, write) = match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::WriteDeferrable => {
                let (address, len) = (m.span.first_byte(), m.span.byte_count());
                (Job::deferrable_write(port, tlp, &m), None, Some(p.write_service(address, len)))
            }
            Body::Atomic(a) => {
                let (address, len) = (a.address, a.operand.bytes());
                let (read, write) = (p.read_service(address, len), p.write_service(address, len));
                (Job::atomic(port, tlp, &a), Some(read), Some(write))
            }
            // Configuration requests only go down (`PCIe 5.0 §2.2.7`); only hosts issue locked reads, and devices may
            // not use I/O space (§6.5.2, §2.2.4.2).
            Body::Memory(_) | Body::Io(_) | Body::Config(_) | Body::Completion(_) | Body::Message(_) => {
                return self.refuse(base, port, now, tlp, request_type(&tlp.repr));
            }
        };
        self.begin(base, now, job, tlp, Service { read, write });
    }

    /// Schedules a job in the memory system as a read, a write or both, if its address is memory.
    // Compiled once for reads and once for other requests, so that each copy omits unneeded parts.
    #[inline(always)]
    pub(super) fn begin(&mut self, base: &mut Base, now: Time, mut job: Job, tlp: &Tlp, service: Service) {
        let port = job.port;
        let access =
            Access { port, requester: tlp.repr.transaction().0, address: job.address, len: job.byte_count };
        if !base.memory.lets(&access, service.write.is_some()) {
            base.note_refused(&access, now, tlp);
            return self.answer_refused(base, port, now, tlp, Status::UnsupportedRequest);
        }
        if tlp.repr.ep && service.write.is_some() {
            // This is never advisory, although the requester receives the status (`PCIe 5.0 §2.7.2.2`).
            base.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
            base.log(port, now, Uncorrectable::PoisonedTlp, false, Side::Secondary, tlp);
            return self.answer_refused(base, port, now, tlp, Status::UnsupportedRequest);
        }
        base.count(&job);
        base.ports[port].reads_under_way[usize::from(tlp.repr.tc.bits())] += 1;
        let request = Request { access, line_time: base.ports[port].line_time };
        let Served { asked, answered, ready, late } =
            base.memory.serve(&base.profile, &request, service, now);
        job.late = late;
        let is_split = base.profile.completions.unit_bytes.is_some() && service.write.is_none();
        if is_split {
            job.unit = base.completion_unit(port, now, job.address, job.byte_count);
            self.join(base, now, &mut job);
        }
        let job = self.insert(job);
        if is_split {
            base.ports[port].latest_read = LatestRead { at: now, job };
        }
        self.in_memory += 1;
        let turn = Turn { account: tlp.account, job, now, asked, answered, ready };
        base.effects.push(Effect::Served(turn));
        if ready <= now {
            self.read_ready(base, job, now);
        }
    }

    /// Joins a read to the one before, if both are parts of a transfer: it continues that read, and follows it directly.
    fn join(&mut self, base: &Base, now: Time, job: &mut Job) {
        let port = &base.ports[job.port];
        let LatestRead { at, job: before } = port.latest_read;
        let Some(before) = self.jobs.get_mut(before as usize) else { return };
        let end = before.address + u64::from(before.byte_count);
        // The latest read may have ended, and its number may belong to another port's.
        let is_next = before.port == job.port && end == job.address;
        if is_next && now.since(at) <= port.line_time {
            job.part = before.part.join(before.byte_count, (job.address, job.byte_count));
        }
    }

    /// Starts the job of a read that has its turn in memory; returns its number.
    #[inline(always)]
    pub(super) fn start_read(&mut self, base: &mut Base, job: Job) -> u32 {
        base.counters.memory_reads += 1;
        base.ports[job.port].reads_under_way[usize::from(job.asked.tc.bits())] += 1;
        self.in_memory += 1;
        self.insert(job)
    }

    /// Answers a request with UR.
    pub(super) fn refuse(&mut self, base: &mut Base, port: usize, now: Time, tlp: &Tlp, why: Violation) {
        base.refused(|b| &mut b.counters.unsupported_requests, port, now, why, tlp);
        let advisory = tlp.refusal_is_advisory();
        base.log(port, now, Uncorrectable::UnsupportedRequest, advisory, Side::Secondary, tlp);
        self.answer_refused(base, port, now, tlp, Status::UnsupportedRequest);
    }

    pub(super) fn answer_refused(
        &mut self,
        base: &mut Base,
        port: usize,
        now: Time,
        tlp: &Tlp,
        status: Status,
    ) {
        base.effects.charge(tlp.account, Stage::Memory, now);
        base.ports[port].reads_under_way[usize::from(tlp.repr.tc.bits())] += 1;
        let job = self.insert(Job::refused(port, tlp, status));
        self.push_ready(base, job);
    }
}
