// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front of a slot's functions: what a vendor's hard block does before it hands TLPs to a design. It answers
//! configuration requests, decodes BARs and IDs, refuses what nobody takes, logs and reports errors, keeps account of
//! credits and of requests that are to be answered, and turns interrupts into messages and writes. Behind it stands a
//! [`Behind`] for each function: a device that sees transactions ([`endpoint`](crate::endpoint)) or a design that
//! sees TLPs ([`hard_block`](crate::hard_block)). Never knows which.
//!
//! - [`claim`]: whom a TLP that has arrived is for, and what the specification says of those that are for nobody.
//! - [`configure`]: configuration requests; [`settings`]: what the registers say, as the path of a TLP needs it.
//! - [`routing`], [`sriov`]: addresses and IDs, of virtual functions too.
//! - [`requests`], [`answers`], [`findings`]: requests to be answered, completions that are sent and that arrive.
//! - [`refusals`]: the rule that each refused TLP breaks.
//! - [`tag_pool`]: tags that functions share.
//! - [`errors`], [`messages`], [`notices`], [`own`]: errors, messages, and what the front itself sends.
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
use settings::Settings;
use sriov::VfSet;
use std::collections::BTreeMap;
use tag_pool::TagPool;
use tlp::message::MessageCodes;
use tlp::rules::Refusals;
use tlp::{Bdf, Body, Data, Duration, PayloadPool, Span, Time, Tlp, TrafficClass};

/// How long a device whose outputs are all refused is left alone.
const PAUSE: Duration = Duration::from_us(1);

/// Outputs that one poll refuses; a device that goes on is asked again [`PAUSE`] later, so that time passes and the
/// run ends. Accepted outputs do not count: other limits bound how many can wait.
pub(crate) const MAX_REFUSED_PER_POLL: u32 = 64;

/// Takes of unknown tokens that one poll tolerates.
pub(crate) const MAX_STALE_PER_POLL: u32 = 64;

/// Extended capability ID of Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`).
const ARI: u16 = 0x000e;

/// What stands behind the front for one function.
pub(crate) trait Behind {
    /// The type of the device or design.
    type Device;

    /// Made with a device; or without one, for a virtual function before it is enabled.
    fn new(device: Option<Self::Device>) -> Self;

    /// Takes this device, or none, from now on. Transactions under way stay.
    fn replace(&mut self, device: Option<Self::Device>);

    /// Tells how many interrupt vectors the function has.
    fn set_vectors(&mut self, vectors: u16);

    /// The Message Codes that it takes.
    fn messages(&self) -> MessageCodes;

    /// Transactions Pending (`PCIe 5.0 §7.5.3.5`): true while one of its requests is open. A completion, a timeout or a reset
    /// (§6.6.2) closes a request.
    fn is_pending(&self) -> bool;

    /// True while late completions may still arrive for it: a tag is in use or rests.
    fn holds_tags(&self) -> bool;

    /// The stamp of the oldest posted TLP of `tc` that it has accepted and not yet sent.
    fn oldest_posted(&self, tc: TrafficClass) -> Option<u64>;

    /// Notes that something waits for such a posted TLP: the port is to be polled again when the last of them has left.
    fn hold(&mut self);

    /// Takes a posted TLP of the front itself, to be sent after those that it has accepted.
    fn park(&mut self, stamp: u64, tlp: Tlp);

    /// Takes these settings of its function from now on.
    fn follow(&mut self, settings: &Settings);

    /// Gives the pool the tags that it has released.
    fn return_tags(&mut self, pool: &mut TagPool);

    /// Resets it: all transactions are void. Tags stay out of use until their completions have come, or until `until`.
    fn reset(&mut self, now: Time, kind: ResetKind, until: Time, shared: &mut Shared);

    /// Ends requests to others, since the link has gone down; a reset follows.
    fn link_down(&mut self, now: Time, shared: &mut Shared);
}

/// What the functions of a front share.
pub(crate) struct Shared {
    pub(crate) limits: EndpointLimits,
    pub(crate) pool: PayloadPool,
    pub(crate) counters: Counters,
    /// Why TLPs were refused.
    pub(crate) refusals: Refusals,
    /// Virtual time of the present call.
    pub(crate) now: Time,
    pub(crate) requests: Requests,
    /// The tags of all functions, where they are not each one's own.
    pub(crate) tags: Option<Box<TagPool>>,
    /// The ID of function 0: captured bus and device number (`PCIe 5.0 §2.2.6.2`); zero before the first configuration
    /// write.
    pub(crate) bus_device: u16,
    /// What the front itself sends.
    pub(crate) own: Own,
    /// When the front has to be polled again though no TLP arrived.
    pub(crate) wake: Option<Time>,
    /// True where something besides refusals asked for `wake`, so that no pause may postpone it.
    pub(crate) wake_is_firm: bool,
    /// The number of transactions accepted so far; gives each its place in their order.
    pub(crate) stamps: u64,
    /// True once there was room for some Traffic Classes and not for others: they do not share one channel.
    pub(crate) several_channels: bool,
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
        }
    }

    /// The polls that find something here.
    pub(crate) fn ready(&self) -> Ready {
        self.own.ready().or(Ready::when(self.requests.has_credit(), Ready::TAKEN))
    }

    /// The place of a transaction in the order in which all were accepted.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// Clears `wake` where that time has come.
    pub(crate) fn wake_is_over(&mut self, now: Time) {
        if self.wake.is_some_and(|t| t <= now) {
            (self.wake, self.wake_is_firm) = (None, false);
        }
    }

    pub(crate) fn wake_at(&mut self, time: Time) {
        self.wake_is_firm = true;
        self.wake = earlier(self.wake, Some(time));
    }

    /// Asks for a poll, as the device was told of a refusal and may want something else now; [`pause`](Self::pause) goes first.
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

    /// The DW that answers an I/O read: the bytes of `span` in their lanes.
    pub(crate) fn whole_dw(&self, span: Span, data: &Data) -> Data {
        let Some(bytes) = data.bytes() else { return Data::Counted(4) };
        let first = span.lead() as usize;
        Data::Carried(self.pool.fill(4, |dw| {
            for (to, from) in dw.iter_mut().skip(first).zip(bytes) {
                *to = *from;
            }
        }))
    }

    /// The data that answers a zero-length read: one byte without meaning.
    pub(crate) fn one_byte(&self, carry: bool) -> Data {
        if carry { Data::Carried(self.pool.copy(&[0])) } else { Data::Counted(1) }
    }
}

/// The earlier of two times, either of which may be absent.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The functions of a slot, and what they share.
pub(crate) struct Front<B: Behind> {
    /// The physical functions, then the virtual ones that have been made.
    pub(crate) functions: Vec<Function<B>>,
    /// The number of physical functions.
    pub(crate) physical: usize,
    /// True where it is an ARI device: each physical function has the ARI capability (`PCIe 5.0 §6.13`).
    alternative_routing: bool,
    /// Virtual functions, by the number of their physical one.
    virtual_functions: BTreeMap<u16, VfSet<B::Device>>,
    routes: Routes,
    pub(crate) shared: Shared,
    /// True where a function has ECRC Generation Enable set.
    pub(crate) ecrc_generation: bool,
    /// Functions that have changed other than in calls of their devices.
    pub(crate) changed: Vec<usize>,
}

impl<B: Behind> Front<B> {
    /// A front as it is after a fundamental reset.
    ///
    /// # Errors
    /// Where the number of functions or a limit is not legal.
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

    /// The function with this number, where it is physical or enabled.
    pub(crate) fn function(&self, number: u8) -> Option<&Function<B>> {
        self.functions.get(usize::from(number))
    }

    /// The configuration space of the function that has this ID, virtual ones among them.
    pub(crate) fn config_of(&self, id: Bdf) -> Option<&ConfigSpace> {
        self.function_of(id).map(|f| &self.functions[f].config)
    }

    /// Resets all functions; Function Level Reset too means every one. After a fundamental or hot reset bus and device
    /// number are unknown, and what was received or not yet sent is void: the link begins anew with all credits.
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

    /// Looks again at what the registers of all functions say together; to be called whenever they may have changed.
    pub(crate) fn refresh_common(&mut self) {
        self.ecrc_generation = self.functions.iter().any(|f| f.settings.ecrc_generation);
        if let Some(pool) = &mut self.shared.tags {
            // A virtual function has no more than its physical one.
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

    /// Bytes of the longest non-posted request with data that a function completes.
    pub(crate) fn longest_non_posted(&self) -> u32 {
        self.functions.iter().map(|f| f.config.longest_non_posted()).max().unwrap_or(4)
    }
}
