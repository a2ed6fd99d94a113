// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front of a slot's functions does the work of a vendor's hard block before it passes TLPs to a design. It answers
//! configuration requests, decodes BARs and IDs, and refuses TLPs that no function takes. It logs and reports errors,
//! tracks credits and unanswered requests, and turns interrupts into messages and writes. For each function it drives a
//! [`FunctionBackend`]: a device that sees transactions ([`endpoint`](crate::endpoint)) or a design that sees TLPs
//! ([`hard_block`](crate::hard_block)). The front does not distinguish the two.
//!
//! - [`claim`]: the target of an arriving TLP, and the treatment that the specification demands if there is none.
//! - [`configure`]: configuration requests; [`settings`]: the registers' settings, in the form that the path of a TLP needs.
//! - [`routing`], [`sriov`]: addresses and IDs, of virtual functions too.
//! - [`requests`], [`answers`], [`findings`]: requests to be answered, completions sent and received.
//! - [`refusals`]: the rule that each refused TLP breaks.
//! - [`tag_pool`]: tags that functions share.
//! - [`errors`], [`messages`], [`notices`], [`own`]: errors, messages, and TLPs that the front itself sends.
//! - [`interrupts`], [`intx`], [`msix`].

pub(crate) mod answers;
pub(crate) mod claim;
pub(crate) mod configure;
mod counters;
pub(crate) mod errors;
pub(crate) mod findings;
mod function;
mod interrupts;
mod intx;
mod limits;
mod messages;
mod msix;
mod nonposted;
mod notices;
mod own;
pub(crate) mod refusals;
pub(crate) mod requests;
mod routing;
pub(crate) mod settings;
mod sriov;
pub(crate) mod tag_pool;

pub use counters::Counters;
pub(crate) use function::Function;
pub(crate) use interrupts::memory_write;
pub use limits::{EndpointError, EndpointLimits, TagsPer};
pub use sriov::MAX_VIRTUAL_FUNCTIONS;

use config::ConfigSpace;
use device::seam::{Ready, ResetKind};
use own::Own;
use requests::Requests;
use routing::Routes;
use settings::FunctionSettings;
use sriov::VfSet;
use std::collections::BTreeMap;
use tag_pool::TagPool;
use tlp::message::MessageCodes;
use tlp::rules::Refusals;
use tlp::{Bdf, Body, Data, Duration, PayloadPool, Span, Time, Tlp, TrafficClass};

/// Pause after which a device whose outputs were all refused is polled again.
const PAUSE: Duration = Duration::from_us(1);

/// Maximum number of outputs that one poll refuses. A device with more such outputs is polled again [`PAUSE`] later, so
/// that time passes and the run can end. Accepted outputs do not count: other limits bound how many can wait.
pub(crate) const MAX_REFUSED_PER_POLL: u32 = 64;

/// Maximum number of unknown tokens that one poll accepts.
pub(crate) const MAX_STALE_PER_POLL: u32 = 64;

/// Extended capability ID of Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`).
const ARI: u16 = 0x000e;

/// The device or design that the front drives for one function.
pub(crate) trait FunctionBackend {
    /// The type of the device or design.
    type Device;

    /// Makes it with a device, or without a device for a virtual function that is not yet enabled.
    fn new(device: Option<Self::Device>) -> Self;

    /// Replaces the device; `None` leaves the function without one. Outstanding transactions stay.
    fn replace(&mut self, device: Option<Self::Device>);

    /// Sets the number of interrupt vectors of the function.
    fn set_vectors(&mut self, vectors: u16);

    /// Returns the Message Codes that it takes.
    fn messages(&self) -> MessageCodes;

    /// Returns Transactions Pending (`PCIe 5.0 §7.5.3.5`): true while one of its requests is open. A completion, a
    /// timeout or a reset (§6.6.2) closes a request.
    fn is_pending(&self) -> bool;

    /// Returns whether late completions may still arrive: a tag is in use or quarantined.
    fn holds_tags(&self) -> bool;

    /// Returns the stamp of the oldest posted TLP of `tc` that it has accepted and not yet sent.
    fn oldest_posted(&self, tc: TrafficClass) -> Option<u64>;

    /// Notes that another TLP waits for such a posted TLP. The port must be polled again when the last of them has been
    /// sent.
    fn hold(&mut self);

    /// Queues a posted TLP of the front itself, after the posted TLPs already accepted.
    fn park(&mut self, stamp: u64, tlp: Tlp);

    /// Applies the settings of its function.
    fn follow(&mut self, settings: &FunctionSettings);

    /// Returns its released tags to the pool.
    fn return_tags(&mut self, pool: &mut TagPool);

    /// Resets the function: all transactions are void. Tags stay out of use until their completions have arrived, or
    /// until `until`.
    fn reset(&mut self, now: Time, kind: ResetKind, until: Time, shared: &mut Shared);

    /// Ends its outstanding requests because the link has gone down. A reset follows.
    fn link_down(&mut self, now: Time, shared: &mut Shared);
}

/// State that the functions of a front share.
pub(crate) struct Shared {
    pub(crate) limits: EndpointLimits,
    pub(crate) pool: PayloadPool,
    pub(crate) counters: Counters,
    /// Reasons for refused TLPs.
    pub(crate) refusals: Refusals,
    /// Virtual time of the current call.
    pub(crate) now: Time,
    pub(crate) requests: Requests,
    /// The tags of all functions; `None` if each function has its own.
    pub(crate) tags: Option<Box<TagPool>>,
    /// The ID of function 0: captured bus and device number (`PCIe 5.0 §2.2.6.2`); zero before the first configuration
    /// write.
    pub(crate) bus_device: u16,
    /// TLPs that the front itself sends.
    pub(crate) own: Own,
    /// Time at which the front has to be polled again even if no TLP arrives.
    pub(crate) wake: Option<Time>,
    /// Whether `wake` has a reason other than refusals. If so, a pause must not postpone it.
    pub(crate) wake_is_firm: bool,
    /// Number of transactions accepted so far. It is the stamp of the next one.
    pub(crate) stamps: u64,
    /// Whether at some time only some Traffic Classes had room, which shows that they do not share one channel.
    pub(crate) several_channels: bool,
    /// Whether the link has come up since it was last down.
    pub(crate) link_is_up: bool,
}

impl Shared {
    pub(crate) fn new(limits: EndpointLimits, pool: PayloadPool) -> Shared {
        Shared {
            limits,
            pool,
            counters: Counters::default(),
            refusals: Refusals::default(),
            now: Time::ZERO,
            requests: Requests::new(limits.max_requests),
            tags: (limits.tags_per == TagsPer::Endpoint).then(Box::default),
            bus_device: 0,
            own: Own::default(),
            wake: None,
            wake_is_firm: false,
            stamps: 0,
            several_channels: false,
            link_is_up: false,
        }
    }

    /// Returns the polls that yield something from the front itself.
    pub(crate) fn ready(&self) -> Ready {
        self.own.ready().or(Ready::when(self.requests.has_credit(), Ready::TAKEN))
    }

    /// Returns the place of a new transaction in the order of acceptance.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// Clears `wake` if its time has passed or is now.
    pub(crate) fn wake_is_over(&mut self, now: Time) {
        if self.wake.is_some_and(|t| t <= now) {
            (self.wake, self.wake_is_firm) = (None, false);
        }
    }

    pub(crate) fn wake_at(&mut self, time: Time) {
        self.wake_is_firm = true;
        self.wake = earlier(self.wake, Some(time));
    }

    /// Requests a poll because the device received a refusal and may act on it now; [`pause`](Self::pause) has priority.
    pub(crate) fn wake_after_refusal(&mut self, now: Time) {
        self.wake = earlier(self.wake, Some(now));
    }

    #[cold]
    pub(crate) fn pause(&mut self, now: Time) {
        if !self.wake_is_firm {
            self.wake = Some(now + PAUSE);
        }
    }

    pub(crate) fn bad_output(&mut self) -> Option<Tlp> {
        self.counters.bad_outputs += 1;
        None
    }

    /// Returns the DW that answers an I/O read: the bytes of `span` in their lanes.
    pub(crate) fn whole_dw(&self, span: Span, data: &Data) -> Data {
        let Some(bytes) = data.bytes() else { return Data::Counted(4) };
        let first = span.lead() as usize;
        Data::Carried(self.pool.fill(4, |dw| {
            for (to, from) in dw.iter_mut().skip(first).zip(bytes) {
                *to = *from;
            }
        }))
    }

    /// Returns the data that answers a zero-length read: one byte without meaning.
    pub(crate) fn one_byte(&self, carry: bool) -> Data {
        if carry { Data::Carried(self.pool.copy(&[0])) } else { Data::Counted(1) }
    }
}

/// Returns the earlier of two times, either of which may be absent.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The functions of a slot, and their shared state.
pub(crate) struct Front<B: FunctionBackend> {
    /// The physical functions, then the virtual ones made so far.
    pub(crate) functions: Vec<Function<B>>,
    /// The number of physical functions.
    pub(crate) physical: usize,
    /// Whether this is an ARI device: each physical function has the ARI capability (`PCIe 5.0 §6.13`).
    alternative_routing: bool,
    /// Virtual functions, by the number of their physical function.
    virtual_functions: BTreeMap<u16, VfSet<B::Device>>,
    routes: Routes,
    pub(crate) shared: Shared,
    /// Whether a function has ECRC Generation Enable set.
    pub(crate) ecrc_generation: bool,
    /// Functions that have changed outside calls of their devices.
    pub(crate) changed: Vec<usize>,
}

impl<B: FunctionBackend> Front<B> {
    /// Makes a front in its state after a fundamental reset.
    ///
    /// # Errors
    /// Fails if the number of functions or a limit is out of range.
    pub(crate) fn new(
        functions: Vec<(ConfigSpace, B::Device)>,
        limits: EndpointLimits,
        pool: PayloadPool,
    ) -> Result<Front<B>, EndpointError> {
        limits.check()?;
        if !(1..=256).contains(&functions.len()) {
            return Err(EndpointError::Functions(functions.len()));
        }
        let alternative_routing =
            functions.iter().all(|(config, _)| config.extended_capability(ARI).is_some());
        if functions.len() > 8 && !alternative_routing {
            return Err(EndpointError::Ari(functions.len()));
        }
        let shared = Shared::new(limits, pool);
        let function = |(number, (config, device))| Function::new(number, config, Some(device), &shared);
        let functions: Vec<Function<B>> = (0..).zip(functions).map(function).collect();
        let mut front = Front {
            physical: functions.len(),
            alternative_routing,
            functions,
            virtual_functions: BTreeMap::new(),
            routes: Routes::default(),
            shared,
            ecrc_generation: false,
            changed: Vec::new(),
        };
        front.refresh_routes();
        front.refresh_common();
        Ok(front)
    }

    /// Returns the function with this number if it exists.
    pub(crate) fn function(&self, number: u8) -> Option<&Function<B>> {
        self.functions.get(usize::from(number))
    }

    /// Returns the configuration space of the function with this ID, physical or virtual.
    pub(crate) fn config_of(&self, id: Bdf) -> Option<&ConfigSpace> {
        self.function_of(id).map(|f| &self.functions[f].config)
    }

    /// Resets all functions; a Function Level Reset also resets all of them. After a fundamental or hot reset, bus and
    /// device number are unknown, and all received and unsent TLPs are void. The link starts again with all credits.
    pub(crate) fn reset(&mut self, now: Time, kind: ResetKind) {
        for index in 0..self.functions.len() {
            self.functions[index].reset(now, &mut self.shared, kind);
            self.refresh_function(now, index);
        }
        self.refresh_routes();
        if kind != ResetKind::FunctionLevel {
            let shared = &mut self.shared;
            shared.bus_device = 0;
            shared.own = Own::default();
            shared.requests.forget_credits();
        }
        self.refresh_common();
    }

    /// Updates the settings that follow from the registers of all functions together. Must be called whenever they may
    /// have changed.
    pub(crate) fn refresh_common(&mut self) {
        self.ecrc_generation = self.functions.iter().any(|f| f.settings.ecrc_generation);
        if let Some(pool) = &mut self.shared.tags {
            // A virtual function has no more tags than its physical function.
            let most = self.functions[..self.physical].iter().map(|f| f.settings.tags.1).max();
            pool.set_limit(most.unwrap_or_default());
        }
    }

    /// Adds the digest to a TLP of a function with ECRC Generation Enable (`PCIe 5.0 §2.7.1`).
    pub(crate) fn add_digest(&self, tlp: &mut Tlp) {
        let (requester, _) = tlp.repr.transaction();
        let sender = match tlp.repr.body {
            Body::Completion(c) => c.completer,
            _ => requester,
        };
        let function = self.function_of(sender);
        tlp.repr.td |= function.is_some_and(|f| self.functions[f].settings.ecrc_generation);
    }

    /// Returns the length in bytes of the longest non-posted request with data that a function completes.
    pub(crate) fn longest_non_posted(&self) -> u32 {
        self.functions.iter().map(|f| f.config.longest_non_posted()).max().unwrap_or(4)
    }
}
