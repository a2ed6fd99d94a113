// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a riser [`Device`](device::Device) as device software. Instead of being plugged into a slot of the fabric,
//! the device answers the MMIO of a remote adapter, and accesses the memory of the adapter's host.
//!
//! ```text
//!   host ── adapter's BAR4 ──▶ Carrier ──▶ Endpoint ── requests ──▶ Device
//!   memory, interrupts   ◀──          ◀──          ◀── DMA, interrupts
//! ```
//!
//! The endpoint is preset as if it had been enumerated. It has the adapter's bus, device and function, and one BAR
//! of the device has the address of the adapter's BAR4. The adapter's MSI-X table, which messaging returns, gives
//! the address and data of each vector. So devices with MSI, devices with MSI-X, and devices without both work.
//!
//! If the carrier can lose datagrams, a [`Requester`](crate::requester::Requester) issues the memory reads. A lost read is
//! retried three times within the endpoint's completion timeout, under other tags. Used tags rest (stay unused)
//! until no late completion can arrive, so a stale completion is never taken for an answer. A lost write is not
//! sent again. A lost AtomicOp is not sent again either, because it must not execute twice. It ends with the
//! completion timeout.
//!
//! A device may have virtual functions if the adapter has them too ([`DeviceHost::with_virtual_functions`]). Each has the ID, the
//! BAR and the MSI-X table of the adapter's virtual function of the same number.
//!
//! Sans-IO: only the carrier waits, in [`DeviceHost::receive`]. [`DeviceHost::advance`] receives the time as an
//! argument.

mod reads;
mod vectors;
mod virtual_functions;

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

/// Maximum number of received TLPs that the device has not taken yet. At this number, the host receives no more
/// TLPs: a session withholds credits, and datagrams wait in the buffers of the sockets.
pub const MAX_UNTAKEN: usize = 512;

/// Location of the device in the adapter's host, as returned by messaging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLocation {
    /// The adapter's bus, device and function.
    pub id: Bdf,
    /// Start address of the adapter's BAR4.
    pub address: u64,
    /// MSI-X table of the adapter.
    pub vectors: [MsixEntry; MSIX_ENTRIES],
}

/// Settings of a hosted device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostedSettings {
    /// The BAR of the device that appears as the adapter's BAR4.
    pub bar: u8,
    /// Maximum size of a write: Max_Payload_Size of the adapter's path. Adapters use 256 B.
    pub mps: Mps,
    /// Limits of the endpoint. The requests of the endpoint use tags from 0 on, at most as many as the carrier has.
    /// If datagrams can be lost, they use at most half of the tags, and the reads that the requester issues use the
    /// other half.
    pub limits: EndpointLimits,
    /// How long tags of reads rest if datagrams can be lost.
    pub rest: Rest,
}

impl HostedSettings {
    /// Creates settings with BAR `bar`, a Max_Payload_Size of 256 B, a completion timeout of 50 ms, and the rest
    /// times of a network between machines.
    pub fn new(bar: u8) -> HostedSettings {
        let mps = Mps::new(256).unwrap_or_default();
        HostedSettings { bar, mps, limits: EndpointLimits::default(), rest: Rest::NETWORK }
    }
}

/// Reason why a device cannot be hosted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DeviceHostError {
    /// There is no such BAR, or it is not a memory BAR.
    #[error("the device has no memory BAR {0} to map to the adapter's BAR4")]
    Bar(u8),
    /// The adapter's BAR4 does not start at a multiple of the size of the BAR.
    #[error("BAR {bar} of {size:#x} bytes cannot be placed at {address:#x}; expected a multiple of its size")]
    Address {
        /// Index of the BAR.
        bar: u8,
        /// Size of the BAR in bytes.
        size: u64,
        /// Start address of the adapter's BAR4.
        address: u64,
    },
    /// The carrier can lose datagrams, so a requester with the ID of the physical function issues all reads.
    #[error(
        "virtual functions need a session, because reads over ports have the ID of the physical function"
    )]
    Ports,
    /// The adapter has another virtual function there.
    #[error(
        "virtual function {number} is {id} with its BAR at {address:#x} in the adapter; the device has {own_id} at {own_address:#x}. \
         Expected an adapter whose bar_bytes is {size}, the size of the device's BAR"
    )]
    Virtual {
        /// Number of the virtual function, from 1.
        number: u16,
        /// Its ID in the adapter.
        id: Bdf,
        /// Its address in the adapter.
        address: u64,
        /// Its ID in the device.
        own_id: Bdf,
        /// Its address in the device.
        own_address: u64,
        /// Size of its BAR in the device.
        size: u64,
    },
    /// The device has no virtual functions with that BAR.
    #[error("the virtual functions have no BAR {0} to map to those of the adapter")]
    VirtualBar(u8),
    /// The carrier's tags do not start at 0.
    #[error("tags start at {0:#x}; the tags of a device must start at 0")]
    Tags(u16),
    /// Error of the endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Counters of a device host, in addition to those of its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceHostCounters {
    /// Received TLPs.
    pub received: u64,
    /// Sent TLPs.
    pub sent: u64,
    /// Malformed datagrams received.
    pub malformed: u64,
    /// Unexpected completions. Their tag is the endpoint's tag of a read that was sent under another tag.
    pub unexpected: u64,
    /// TLPs that the carrier could not send: too long, or with a tag that has no port.
    pub not_carried: u64,
}

/// A device connected to a carrier.
pub struct DeviceHost<C> {
    carrier: C,
    endpoint: Endpoint,
    /// Present only if the carrier can lose datagrams and has tags for retries.
    reads: Option<Reads>,
    vectors: Vectors,
    virtual_vectors: Vec<Vectors>,
    /// The BAR that appears as the adapter's BAR4.
    bar: u8,
    pool: PayloadPool,
    /// Received TLPs for the endpoint, not yet passed on.
    arrived: VecDeque<Tlp>,
    /// Received completions of reads that the requester issued, not yet passed on.
    answers: Vec<Vec<u8>>,
    /// TLPs that were taken from the endpoint and that the carrier rejected, at most one per class.
    held: [Option<Tlp>; 3],
    untaken: usize,
    counters: DeviceHostCounters,
    /// Refusals of TLPs that did not reach the endpoint.
    refusals: Refusals,
    now: Time,
}

impl<C: Carrier> DeviceHost<C> {
    /// Connects `function` at `place` to `carrier`. Payloads come from `pool`, which must be the device's own pool.
    ///
    /// # Errors
    /// If the device cannot be placed there.
    pub fn new(
        carrier: C,
        function: FunctionConfig,
        place: &DeviceLocation,
        settings: HostedSettings,
        pool: &PayloadPool,
    ) -> Result<DeviceHost<C>, DeviceHostError> {
        let vectors = Vectors::new(place.vectors);
        let device = Box::new(Interrupts::new(function.device, vectors.clone(), pool.clone()));
        let function = FunctionConfig { device, ..function };
        let (own, others) = shares(&carrier)?;
        let max_outstanding_reads = settings.limits.max_outstanding_reads.min(own);
        let limits = EndpointLimits { max_outstanding_reads, ..settings.limits };
        let settings = HostedSettings { limits, ..settings };
        let endpoint = preset(function, place, settings, pool)?;
        let timeout = settings.limits.completion_timeout;
        let reads = others.map(|tags| Reads::new(place.id, settings.mps, tags, settings.rest, timeout));
        let first = carrier.is_reliable().then(|| Tlp::new(announcement(place.id), Data::NONE));
        Ok(DeviceHost {
            carrier,
            endpoint,
            reads,
            vectors,
            virtual_vectors: Vec::new(),
            bar: settings.bar,
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

    /// Returns the targets of interrupts. Update them when the adapter's host changes its table.
    pub fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    /// Returns the number of raised interrupts of all functions, and the number of lost interrupts.
    pub fn interrupts(&self) -> (u64, u64) {
        let all = std::iter::once(&self.vectors).chain(&self.virtual_vectors).map(Vectors::counts);
        all.fold((0, 0), |(raised, lost), (more, gone)| (raised + more, lost + gone))
    }

    /// Returns the endpoint, for access to its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the counters of the device host itself.
    pub fn counters(&self) -> DeviceHostCounters {
        self.counters
    }

    /// Returns the reasons why TLPs were refused and reads failed, one reason of each kind.
    pub fn refusals(&self) -> Vec<Refusal> {
        let reads = self.reads.as_ref().map_or(&[][..], Reads::refusals);
        self.endpoint
            .refusals()
            .into_iter()
            .chain(self.refusals.kinds().iter().chain(reads).copied())
            .collect()
    }

    /// Returns the counters of the reads, among them how many were retried, timed out, or answered late. Returns
    /// `None` if datagrams cannot be lost.
    pub fn read_counters(&self) -> Option<&Counters> {
        self.reads.as_ref().map(Reads::counters)
    }

    /// Returns the carrier.
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Returns when [`advance`](Self::advance) must be called next if nothing arrives. If the time is in the past,
    /// call it now.
    pub fn poll_timeout(&self) -> Option<Time> {
        let reads = self.reads.as_ref().and_then(Reads::poll_timeout);
        [self.endpoint.poll_timeout(), reads].into_iter().flatten().min()
    }

    /// Receives one batch, waiting at most as long as `wait` says, and returns the number of TLPs. Always call
    /// [`advance`](Self::advance) afterwards.
    ///
    /// # Errors
    /// Errors of the carrier.
    pub fn receive(&mut self, wait: Wait) -> io::Result<usize> {
        if self.untaken + self.arrived.len() + self.answers.len() >= MAX_UNTAKEN {
            return Ok(0);
        }
        let DeviceHost { carrier, reads, arrived, answers, pool, counters, refusals, now, .. } = self;
        let whose = |tlp: &[u8]| reads.as_ref().map_or(Whose::Endpoint, |reads| reads.whose(tlp));
        carrier.receive(wait, |arrival| match whose(arrival.tlp) {
            Whose::Reads => answers.push(arrival.tlp.to_vec()),
            Whose::Unknown(transaction) => {
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

    /// Passes on the received TLPs, runs expired timers, and sends the TLPs of the device.
    ///
    /// # Errors
    /// Errors of the carrier.
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

    /// Passes completions of reads to the requester, and all other TLPs to the endpoint. Then passes the data of
    /// finished reads to the endpoint.
    fn hand_on(&mut self, now: Time) {
        self.counters.received += (self.arrived.len() + self.answers.len()) as u64;
        self.give(now);
        let Some(reads) = &mut self.reads else { return };
        self.answers.drain(..).for_each(|tlp| reads.handle(now, &tlp));
        reads.advance(now, &mut self.arrived, &self.pool);
        self.give(now);
    }

    /// Passes received TLPs to the endpoint.
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

    /// Sends the waiting TLPs of a class while the carrier has room. Returns their number.
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

/// Divides the tags of a carrier. Returns the number of tags of the endpoint, counted from 0, and the tags of the
/// requester for reads, if there is a requester. No TLP is retried under a tag of the endpoint, and the endpoint
/// never uses tags of the requester. So a late completion never matches another request.
fn shares(carrier: &impl Carrier) -> Result<(u16, Option<RangeInclusive<u16>>), DeviceHostError> {
    let (first, last) = carrier.tags().into_inner();
    if first != 0 {
        return Err(DeviceHostError::Tags(first));
    }
    // 8-bit tags only: every adapter accepts them.
    let count = last.saturating_add(1).min(256);
    Ok(match count / 2 {
        own if own > 0 && !carrier.is_reliable() => (own, Some(own..=count - 1)),
        _ => (count, None),
    })
}

/// Creates the endpoint of the function, in the state after enumeration.
fn preset(
    function: FunctionConfig,
    place: &DeviceLocation,
    settings: HostedSettings,
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
