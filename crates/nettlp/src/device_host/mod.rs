// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A riser [`Device`](device::Device) as device software: the same that stands in a slot of the fabric answers a remote
//! adapter's MMIO, and masters its host's memory.
//!
//! ```text
//!   host ── adapter's BAR4 ──▶ Carrier ──▶ Endpoint ── requests ──▶ Device
//!   memory, interrupts   ◀──          ◀──          ◀── DMA, interrupts
//! ```
//!
//! The endpoint is preset as if it had been enumerated: with the adapter's bus, device and function, and one BAR of the device
//! where the adapter's BAR4 stands. What its vectors write, and where to, stands in the adapter's MSI-X table, which messaging
//! tells; so a device with MSI, with MSI-X or with neither is served alike.
//!
//! Over a carrier that loses datagrams, memory reads go out by a [`Requester`](crate::requester::Requester): one that is lost is
//! asked again, three times within the endpoint's completion timeout, under other tags; those that were used rest until late
//! completions cannot come, so that nothing stale is ever taken for an answer. A write that is lost is lost; so is an
//! AtomicOp, which may not be done twice, and ends with the completion timeout.
//!
//! Sans-IO: [`DeviceHost::receive`] lets the carrier wait, and [`DeviceHost::advance`] is told the time.

mod reads;
mod vectors;

pub use vectors::Vectors;

use crate::carrier::{Carrier, SendError, Wait, announcement};
use crate::requester::{Counters, Rest};
use crate::wire::messaging::{MSIX_ENTRIES, MsixEntry};
use capture::encap::Origin;
use config::cap::pcie::{self, device_control, device_control_2};
use config::header::{self, command};
use config::register::put;
use endpoint::{Endpoint, EndpointConfig, EndpointError, EndpointLimits, FunctionConfig, TlpPort};
use reads::{Reads, Whose};
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use thiserror::Error;
use tlp::rules::{Head, Refusal, Refusals};
use tlp::{Bdf, Class, Data, Mps, PayloadPool, RuleId, TcSet, Time, Tlp, Violation};
use vectors::Interrupts;

/// TLPs that have come and that the device has not taken yet. Then no more are received: a session withholds credits, and
/// datagrams wait in the sockets' buffers.
pub const MAX_UNTAKEN: usize = 512;

/// Where the device stands in the adapter's host, as messaging tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The adapter's bus, device and function.
    pub id: Bdf,
    /// Where its BAR4 starts.
    pub address: u64,
    /// Its MSI-X table.
    pub vectors: [MsixEntry; MSIX_ENTRIES],
}

/// How a device is hosted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The BAR of the device that the adapter's BAR4 shows.
    pub bar: u8,
    /// The longest write: Max_Payload_Size of the adapter's path. Adapters have 256 B.
    pub mps: Mps,
    /// Limits of the endpoint. Its requests use tags from 0 on, no more than the carrier has; where datagrams may be lost, no
    /// more than half of them, and the others are those of its reads.
    pub limits: EndpointLimits,
    /// How long tags of reads rest, where datagrams may be lost.
    pub rest: Rest,
}

impl Settings {
    /// BAR `bar`, 256 B, 50 ms, rests as between machines.
    pub fn new(bar: u8) -> Settings {
        let mps = Mps::new(256).unwrap_or_default();
        Settings { bar, mps, limits: EndpointLimits::default(), rest: Rest::NETWORK }
    }
}

/// Why a device cannot be hosted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DeviceHostError {
    /// No such BAR, or one of another kind.
    #[error("the device has no memory BAR {0}: the adapter's BAR4 cannot show it")]
    Bar(u8),
    /// A BAR stands at a multiple of its size.
    #[error(
        "BAR {bar} of {size:#x} bytes cannot stand at {address:#x}: a BAR stands at a multiple of its size"
    )]
    Address {
        /// Which BAR.
        bar: u8,
        /// Its bytes.
        size: u64,
        /// Where the adapter's BAR4 starts.
        address: u64,
    },
    /// The carrier's tags.
    #[error("tags from {0:#x} on: those of a device have to start at 0")]
    Tags(u16),
    /// The endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// What a host of a device has counted, beside its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceHostCounters {
    /// TLPs that came.
    pub received: u64,
    /// TLPs that left.
    pub sent: u64,
    /// TLPs that came and were none: malformed.
    pub malformed: u64,
    /// Completions of nothing that was asked: under tags of reads that went out under others.
    pub unexpected: u64,
    /// TLPs that the carrier cannot carry: too long, or of a tag without a port.
    pub not_carried: u64,
}

/// A device on a carrier.
pub struct DeviceHost<C> {
    carrier: C,
    endpoint: Endpoint,
    /// Where the carrier loses datagrams, and has tags for it.
    reads: Option<Reads>,
    vectors: Vectors,
    pool: PayloadPool,
    /// What was received and not yet handed on.
    arrived: VecDeque<Tlp>,
    /// Likewise, completions of its reads.
    answers: Vec<Vec<u8>>,
    /// What the endpoint has given and the carrier did not take, by class.
    held: [Option<Tlp>; 3],
    untaken: usize,
    counters: DeviceHostCounters,
    /// Refusals of TLPs that do not reach the endpoint.
    refusals: Refusals,
    now: Time,
}

impl<C: Carrier> DeviceHost<C> {
    /// `function` at `place`, over `carrier`; payloads come from `pool`, the same that the device has.
    ///
    /// # Errors
    /// Where the device cannot stand there.
    pub fn new(
        carrier: C,
        function: FunctionConfig,
        place: &Place,
        settings: Settings,
        pool: &PayloadPool,
    ) -> Result<DeviceHost<C>, DeviceHostError> {
        let vectors = Vectors::new(place.vectors);
        let device = Box::new(Interrupts::new(function.device, vectors.clone(), pool.clone()));
        let function = FunctionConfig { device, ..function };
        let (own, others) = shares(&carrier)?;
        let max_outstanding_reads = settings.limits.max_outstanding_reads.min(own);
        let limits = EndpointLimits { max_outstanding_reads, ..settings.limits };
        let settings = Settings { limits, ..settings };
        let endpoint = preset(function, place, settings, pool)?;
        let timeout = settings.limits.completion_timeout;
        let reads = others.map(|tags| Reads::new(place.id, settings.mps, tags, settings.rest, timeout));
        let first = carrier.is_reliable().then(|| Tlp::new(announcement(place.id), Data::NONE));
        Ok(DeviceHost {
            carrier,
            endpoint,
            reads,
            vectors,
            pool: pool.clone(),
            arrived: VecDeque::new(),
            answers: Vec::new(),
            held: [first, None, None],
            untaken: 0,
            counters: DeviceHostCounters::default(),
            refusals: Refusals::default(),
            now: Time::ZERO,
        })
    }

    /// Where interrupts go: to be changed when the adapter's host has changed its table.
    pub fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    /// The endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What it has counted.
    pub fn counters(&self) -> DeviceHostCounters {
        self.counters
    }

    /// Why TLPs were refused, and reads not completed, one of each kind.
    pub fn refusals(&self) -> Vec<Refusal> {
        let reads = self.reads.as_ref().map_or(&[][..], Reads::refusals);
        self.endpoint
            .refusals()
            .into_iter()
            .chain(self.refusals.kinds().iter().chain(reads).copied())
            .collect()
    }

    /// What its reads have counted, where datagrams may be lost: how many were asked again, timed out, or came late.
    pub fn read_counters(&self) -> Option<&Counters> {
        self.reads.as_ref().map(Reads::counters)
    }

    /// The carrier.
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// When [`advance`](Self::advance) has to be called next, though nothing comes; a time that has passed means at once.
    pub fn poll_timeout(&self) -> Option<Time> {
        let reads = self.reads.as_ref().and_then(Reads::poll_timeout);
        [self.endpoint.poll_timeout(), reads].into_iter().flatten().min()
    }

    /// Takes what has come, one batch, and waits for it no longer than `wait` says; how many TLPs that were. Call
    /// [`advance`](Self::advance) behind it in any case.
    ///
    /// # Errors
    /// Those of the carrier.
    pub fn receive(&mut self, wait: Wait) -> io::Result<usize> {
        if self.untaken + self.arrived.len() + self.answers.len() >= MAX_UNTAKEN {
            return Ok(0);
        }
        let DeviceHost { carrier, reads, arrived, answers, pool, counters, refusals, now, .. } = self;
        let whose = |tlp: &[u8]| reads.as_ref().map_or(Whose::Endpoint, |reads| reads.whose(tlp));
        carrier.receive(wait, |arrival| match whose(arrival.tlp) {
            Whose::Reads => answers.push(arrival.tlp.to_vec()),
            Whose::Nobody(transaction) => {
                counters.unexpected += 1;
                let why = Violation::new(RuleId::UnexpectedCompletion, transaction);
                refusals.record(*now, None, why, Head::of_bytes(arrival.tlp));
            }
            Whose::Endpoint => match Tlp::parse(arrival.tlp, pool) {
                Ok(tlp) => arrived.push_back(tlp),
                Err(error) => {
                    counters.malformed += 1;
                    refusals.record(*now, None, error.on_a_link(), Head::of_bytes(arrival.tlp));
                }
            },
        })
    }

    /// Hands on what has come, does what timers ask for, and sends what the device has to say.
    ///
    /// # Errors
    /// Those of the carrier.
    pub fn advance(&mut self, now: Time) -> io::Result<()> {
        self.now = now;
        self.hand_on(now);
        loop {
            if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            }
            while self.endpoint.poll_credits().is_some() {
                self.untaken = self.untaken.saturating_sub(1);
            }
            let mut sent: usize = Class::ALL.into_iter().map(|class| self.send_class(now, class)).sum();
            sent += self.send_reads(now);
            if sent == 0 {
                break;
            }
        }
        self.carrier.flush()
    }

    /// Hands on what has come: completions of reads to those, all else to the endpoint; and then what was read.
    fn hand_on(&mut self, now: Time) {
        self.counters.received += (self.arrived.len() + self.answers.len()) as u64;
        self.give(now);
        let Some(reads) = &mut self.reads else { return };
        self.answers.drain(..).for_each(|tlp| reads.handle(now, &tlp));
        reads.advance(now, &mut self.arrived, &self.pool);
        self.give(now);
    }

    /// Gives the endpoint what has arrived.
    fn give(&mut self, now: Time) {
        while let Some(tlp) = self.arrived.pop_front() {
            self.untaken += 1;
            self.endpoint.handle_tlp(now, &tlp);
        }
    }

    fn send_reads(&mut self, now: Time) -> usize {
        let sent = self.reads.as_mut().map_or(0, |reads| reads.send(now, &mut self.carrier));
        self.counters.sent += sent as u64;
        sent
    }

    /// Sends TLPs of a class while there are any, and room.
    fn send_class(&mut self, now: Time, class: Class) -> usize {
        let mut sent = 0;
        while self.carrier.room() > 0 {
            let held = self.held[class.index()].take();
            let Some(tlp) = held.or_else(|| self.endpoint.poll_tlp(now, class, TcSet::ALL)) else { break };
            if let Some(reads) = &mut self.reads
                && Reads::takes(&tlp)
            {
                reads.begin(now, tlp.repr);
                continue;
            }
            let origin = if class == Class::Completion { Origin::Host } else { Origin::Device };
            let (_, tag) = tlp.repr.transaction();
            match self.carrier.send(origin, tag, tlp.wire_len(), |bytes| _ = tlp.emit(bytes)) {
                Ok(()) => (sent, self.counters.sent) = (sent + 1, self.counters.sent + 1),
                Err(SendError::NoRoom) => {
                    self.held[class.index()] = Some(tlp);
                    break;
                }
                Err(SendError::TooLong { .. } | SendError::Tag(_)) => self.counters.not_carried += 1,
            }
        }
        sent
    }
}

/// How many tags the endpoint has, from 0 on, and which its reads have, where they have any of their own. The endpoint's are not
/// asked twice, the others are never the endpoint's: so no late completion meets another request.
fn shares(carrier: &impl Carrier) -> Result<(u16, Option<RangeInclusive<u16>>), DeviceHostError> {
    let (first, last) = carrier.tags().into_inner();
    if first != 0 {
        return Err(DeviceHostError::Tags(first));
    }
    // Of eight bits, which every adapter takes.
    let count = last.saturating_add(1).min(256);
    Ok(match count / 2 {
        own if own > 0 && !carrier.is_reliable() => (own, Some(own..=count - 1)),
        _ => (count, None),
    })
}

/// The endpoint of the function, as enumeration would leave it.
fn preset(
    function: FunctionConfig,
    place: &Place,
    settings: Settings,
    pool: &PayloadPool,
) -> Result<Endpoint, DeviceHostError> {
    let bar = function.config.bar(settings.bar).filter(|b| b.kind != config::BarKind::Io);
    let Some(bar) = bar else { return Err(DeviceHostError::Bar(settings.bar)) };
    let limits = settings.limits;
    let capability = function.config.pcie_capability();
    let name = "device software".to_owned();
    let config = EndpointConfig { name, functions: vec![function], limits, pool: pool.clone() };
    let mut endpoint = Endpoint::new(config)?;
    let mut write = |dw, value| endpoint.write_config(Time::ZERO, place.id, dw, 0xf, value);
    let at = header::type0::BAR0 + u16::from(settings.bar);
    write(at, place.address as u32);
    if bar.kind == config::BarKind::Memory64 {
        write(at + 1, (place.address >> 32) as u32);
    }
    if let Some(capability) = capability {
        let sizes = put(device_control::MPS, settings.mps.encoding().into())
            | put(device_control::MRRS, tlp::Mrrs::default().encoding().into());
        let leave =
            device_control::RELAXED_ORDERING | device_control::EXTENDED_TAG | device_control::NO_SNOOP;
        write(capability + pcie::DEVICE_CONTROL, leave | sizes);
        write(capability + pcie::DEVICE_CONTROL_2, device_control_2::ATOMIC_REQUESTER);
    }
    write(header::COMMAND_STATUS, command::MEMORY_SPACE | command::BUS_MASTER);
    let stands = endpoint.config(0).and_then(|c| c.bar(settings.bar)).map(|b| b.address);
    if stands != Some(place.address) {
        let (bar, size, address) = (settings.bar, bar.size, place.address);
        return Err(DeviceHostError::Address { bar, size, address });
    }
    Ok(endpoint)
}
