// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a port, as plain data; only [`PortConfig::validate`] checks them.

use crate::arbiter::VcArbitration;
use crate::sequence::MAX_UNACKNOWLEDGED;
use std::collections::BTreeMap;
use thiserror::Error;
use tlp::{Class, Duration, Mps, Rate, Scale, TcVcMap, Vc, Width};

/// Maximum number of header credits that may be unused without scaling (`PCIe 5.0 §2.6.1`): half of the field's 256, minus one.
pub(crate) const MAX_HEADER_CREDITS: u16 = 127;
/// Maximum number of data credits, of 16 B, that may be unused without scaling (`PCIe 5.0 §2.6.1`).
pub(crate) const MAX_DATA_CREDITS: u16 = 2047;
/// The largest scale: the factor by which scaled flow control raises both limits (`PCIe 5.0 §3.4.2`, Table 3-2).
const MAX_SCALE: Scale = Scale::X16;
/// Bytes of a data credit (`PCIe 5.0 §2.6.1`).
pub(crate) const CREDIT_BYTES: u32 = 16;
/// Data credits of the longest non-posted request: a DMWr of 128 B (ECN "Deferrable Memory Write").
const MAX_NON_POSTED_CREDITS: u16 = 8;
/// Maximum number of bytes of a TLP in addition to its data: header, digest, sequence number, LCRC.
const MAX_TLP_OVERHEAD: u32 = 16 + 4 + 2 + 4;
/// Maximum number of TLPs in the transmit queue of a class.
const MAX_TX_QUEUE: usize = 4096;

/// Credits that a receiver advertises for one class; `None`: infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditLimit {
    /// Header credits: one for each TLP.
    pub header: Option<u16>,
    /// Data credits, in units of 16 B.
    pub data: Option<u16>,
}

impl CreditLimit {
    /// Infinite credits.
    pub const INFINITE: CreditLimit = CreditLimit { header: None, data: None };

    /// `header` TLPs with `data` units of 16 B.
    pub const fn finite(header: u16, data: u16) -> CreditLimit {
        CreditLimit { header: Some(header), data: Some(data) }
    }

    pub(crate) const fn is_infinite(self) -> bool {
        self.header.is_none() && self.data.is_none()
    }
}

/// Time for which a sender waits for an Ack before it replays (`PCIe 5.0 §3.6.2.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayTimerRule {
    /// Revisions up to 3.x: three times the Ack latency limit of the table (not of an override). Allowed up to 8 GT/s,
    /// the highest rate of these revisions.
    Rev3,
    /// From revision 4.0: 24,000 to 31,000 symbol times at every rate.
    Rev4 {
        /// REPLAY_TIMER limit in symbol times, 24,000 to 31,000.
        symbols: u32,
    },
}

/// The mechanism that keeps a sender from sending more than the receiver can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowControlMode {
    /// Credits (`PCIe 5.0 §2.6`).
    Credits,
    /// No flow control, as in gem5's model of a link (IISWC'18, §IV): there is no flow-control initialization. A
    /// receiver whose buffer is full silently drops TLPs, and those after them, until the sender's REPLAY_TIMER replays
    /// them all. REPLAY_TIMER is three times the Ack latency limit or its override. REPLAY_NUM does not exist. The Ack
    /// timer runs from the last Ack: a TLP that arrives after it has expired is acknowledged at once (§V-C). The
    /// specification does not have this mode.
    None {
        /// Number of TLPs of all classes that the receive buffer holds, at least 1.
        buffer_tlps: u16,
    },
}

/// How a port finds the next TLP of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayCursor {
    /// By its sequence number, as in the specification: a replay resends every unacknowledged TLP.
    #[default]
    Sequence,
    /// By its position in the replay buffer, as in gem5's model of a link (IISWC'18, §V-C). An Ack shortens the buffer
    /// and leaves the position, so each TLP that it removes makes the replay skip one. Each Ack that the port
    /// itself sends moves the position, too. The receiver drops the TLPs after a skipped one.
    ///
    /// Acks follow the same model. A TLP out of sequence draws an Ack at the next expiry of the Ack timer. Every Ack
    /// restarts REPLAY_TIMER, even one that acknowledges no further TLP. A timeout restarts it as well, and is not
    /// reported as an error. Only without flow control.
    Position,
}

/// The settings of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// Signalling rate.
    pub rate: Rate,
    /// Number of lanes.
    pub width: Width,
    /// Max_Payload_Size. It determines the Ack latency limit and the minimum of credits.
    pub mps: Mps,
    /// Credits that the receiver advertises for VC0, by [`Class::index`].
    pub rx_buffer: [CreditLimit; 3],
    /// Credits that the port advertises for other channels. A channel that is not listed gets the credits of VC0.
    pub vc_buffers: BTreeMap<Vc, [CreditLimit; 3]>,
    /// The virtual channel of each Traffic Class; the channels in this map are in use.
    pub tc_vc: TcVcMap,
    /// The rule by which the channels share the wire.
    pub arbitration: VcArbitration,
    /// Whether credits control the flow.
    pub flow_control: FlowControlMode,
    /// Offers scaled flow control by an exchange of Data Link Feature DLLPs (`PCIe 5.0 §3.3`). If the other end does
    /// not support scaling, the port advertises no more credits than fit without it.
    pub scaled_flow_control: bool,
    /// Room of the transmit queue in TLPs of each class on each channel, 1 to 4096.
    pub tx_queue_tlps: usize,
    /// Room of the replay buffer in TLPs, 1 to 2047.
    pub replay_buffer_tlps: u16,
    /// Room of the replay buffer in bytes; a TLP counts with its sequence number and LCRC.
    pub replay_buffer_bytes: u32,
    /// Ack latency limit in symbol times; `None`: the limit in the specification's table ([`tlp::ack_latency_limit`]).
    pub ack_latency_symbols: Option<u32>,
    /// UpdateFC latency in symbol times; `None`: the latency in the specification's table, which equals the Ack latency
    /// limit.
    pub update_fc_symbols: Option<u32>,
    /// How REPLAY_TIMER is set.
    pub replay_timer: ReplayTimerRule,
    /// How a replay finds its next TLP.
    pub replay_cursor: ReplayCursor,
    /// SKP interval: symbol times at 8b/10b (1180 to 1538), blocks at 128b/130b (370 to 375).
    pub skp_interval: u32,
    /// How long the wire is silent when REPLAY_NUM rolls over and the link retrains. The specification has no figure,
    /// only an upper limit for Recovery.
    pub retrain: Duration,
}

/// Settings that the specification forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// Too few or too many header credits.
    #[error("{}{class:?} header credits {value}; expected 1 to {max}, or infinite", of(*vc))]
    HeaderCredits {
        /// The channel.
        vc: Vc,
        /// The class.
        class: Class,
        /// Header credits that were set.
        value: u16,
        /// Maximum number of header credits (`PCIe 5.0 §2.6.1`, Table 3-2).
        max: u16,
    },
    /// Too few or too many data credits.
    #[error("{}{class:?} data credits {value}; expected {min} to {max} (units of 16 B), or infinite{}", of(*vc), why(*class))]
    DataCredits {
        /// The channel.
        vc: Vc,
        /// The class.
        class: Class,
        /// Data credits that were set, in units of 16 B.
        value: u16,
        /// Minimum number of data credits (`PCIe 5.0 Table 2-45`): Max_Payload_Size; for non-posted credits, the
        /// longest request that the receiver accepts.
        min: u16,
        /// Maximum number of data credits (`PCIe 5.0 §2.6.1`, Table 3-2).
        max: u16,
    },
    /// Credits were set for a channel without a Traffic Class.
    #[error("credits for {0}, which no Traffic Class uses")]
    UnusedVc(Vc),
    /// A channel in the low-priority group has no phase in the table of weighted round robin.
    #[error("{0} has no phase in the VC arbitration table, so it would never send")]
    NoPhase(Vc),
    /// Several channels were set up without flow control.
    #[error("{0} channels without flow control; expected only VC0")]
    UncreditedVcs(usize),
    /// A replay by position on a link with flow control.
    #[error("replay by position with credits; expected flow control `none`, or a replay by sequence number")]
    ReplayCursor,
    /// A receiver without flow control has no room.
    #[error("receive buffer of 0 TLPs; expected at least 1")]
    NoBuffer,
    /// The number of TLPs of the transmit queue is out of range.
    #[error("transmit queue of {0} TLPs; expected 1 to 4096")]
    TxQueue(usize),
    /// The number of TLPs of the replay buffer is out of range.
    #[error("replay buffer of {0} TLPs; expected 1 to 2047")]
    ReplayTlps(u16),
    /// The replay buffer has too few bytes.
    #[error("replay buffer of {value} bytes; expected at least {min}, one TLP of Max_Payload_Size")]
    ReplayBytes {
        /// Bytes that were set.
        value: u32,
        /// Minimum number of bytes.
        min: u32,
    },
    /// The number of symbol times of REPLAY_TIMER is out of range.
    #[error("REPLAY_TIMER of {0} symbol times; expected 24000 to 31000")]
    ReplayTimer(u32),
    /// REPLAY_TIMER follows a revision without this rate.
    #[error("REPLAY_TIMER of revision 3 at {0}; expected 2.5, 5 or 8 GT/s, the rates of that revision")]
    ReplayTimerRate(Rate),
    /// An override of the Ack or UpdateFC latency is out of range.
    #[error("{what} latency of {value} symbol times; expected 1 to 23999, less than REPLAY_TIMER")]
    Latency {
        /// `Ack` or `UpdateFC`.
        what: &'static str,
        /// Symbol times that were set.
        value: u32,
    },
    /// The SKP interval is out of range.
    #[error("SKP interval of {value} {unit}; expected {min} to {max}")]
    Skp {
        /// The interval that was set.
        value: u32,
        /// Unit of the interval: symbol times or blocks.
        unit: &'static str,
        /// Shortest interval.
        min: u32,
        /// Longest interval.
        max: u32,
    },
}

/// The channel's name for the start of an error text; empty for VC0.
fn of(vc: Vc) -> String {
    if vc == Vc::VC0 { String::new() } else { format!("{vc} ") }
}

/// Returns the reason for the minimum of credits, unless it is Max_Payload_Size.
const fn why(class: Class) -> &'static str {
    match class {
        Class::NonPosted => {
            "; receivers of AtomicOps need at least 2, of DMWr of 64 or 128 B at least 4 or 8"
        }
        Class::Posted | Class::Completion => "",
    }
}

/// Data credits of the largest possible TLP of `class`.
pub(crate) const fn most_data_credits(class: Class, mps: Mps) -> u16 {
    match class {
        Class::NonPosted => MAX_NON_POSTED_CREDITS,
        Class::Posted | Class::Completion => (mps.bytes() / CREDIT_BYTES) as u16,
    }
}

impl PortConfig {
    /// Returns the defaults for a link. Requests have the maximum of credits without scaling. Completions have infinite
    /// credits, which endpoints and root ports must advertise (`PCIe 5.0 §2.6.1`). All Traffic Classes use VC0.
    /// Intervals are the specification's, with the longest interval between SKPs.
    pub fn new(rate: Rate, width: Width, mps: Mps) -> PortConfig {
        let request = CreditLimit::finite(MAX_HEADER_CREDITS, MAX_DATA_CREDITS);
        PortConfig {
            rate,
            width,
            mps,
            rx_buffer: [request, request, CreditLimit::INFINITE],
            vc_buffers: BTreeMap::new(),
            tc_vc: TcVcMap::VC0_ONLY,
            arbitration: VcArbitration::default(),
            flow_control: FlowControlMode::Credits,
            scaled_flow_control: false,
            tx_queue_tlps: 8,
            replay_buffer_tlps: 512,
            replay_buffer_bytes: (64 * 1024).max(16 * (mps.bytes() + MAX_TLP_OVERHEAD)),
            ack_latency_symbols: None,
            update_fc_symbols: None,
            replay_timer: ReplayTimerRule::Rev4 { symbols: 24_000 },
            replay_cursor: ReplayCursor::Sequence,
            skp_interval: longest_skp_interval(rate),
            retrain: Duration::from_us(4),
        }
    }

    /// Checks that the specification allows these settings.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_channels()?;
        if self.tx_queue_tlps == 0 || self.tx_queue_tlps > MAX_TX_QUEUE {
            return Err(ConfigError::TxQueue(self.tx_queue_tlps));
        }
        if self.replay_buffer_tlps == 0 || self.replay_buffer_tlps > MAX_UNACKNOWLEDGED {
            return Err(ConfigError::ReplayTlps(self.replay_buffer_tlps));
        }
        let min = self.mps.bytes() + MAX_TLP_OVERHEAD;
        if self.replay_buffer_bytes < min {
            return Err(ConfigError::ReplayBytes { value: self.replay_buffer_bytes, min });
        }
        self.validate_timers()
    }

    /// Credits that the receiver advertises for `vc`, by [`Class::index`].
    pub fn buffer(&self, vc: Vc) -> [CreditLimit; 3] {
        self.vc_buffers.get(&vc).copied().filter(|_| vc != Vc::VC0).unwrap_or(self.rx_buffer)
    }

    /// The SKP interval at `rate`, in the unit of its encoding: the configured one if `rate` has the same encoding.
    pub(crate) const fn skp_interval_at(&self, rate: Rate) -> u32 {
        if rate.is_8b10b() == self.rate.is_8b10b() { self.skp_interval } else { longest_skp_interval(rate) }
    }

    fn validate_channels(&self) -> Result<(), ConfigError> {
        if let FlowControlMode::None { buffer_tlps } = self.flow_control {
            let channels = self.tc_vc.channels().count();
            return match (buffer_tlps, channels) {
                (0, _) => Err(ConfigError::NoBuffer),
                (_, 1) => Ok(()),
                _ => Err(ConfigError::UncreditedVcs(channels)),
            };
        }
        if self.replay_cursor == ReplayCursor::Position {
            return Err(ConfigError::ReplayCursor);
        }
        let in_use = |vc: &Vc| self.tc_vc.channels().any(|v| v == *vc);
        if let Some(vc) = self.vc_buffers.keys().find(|vc| !in_use(vc)) {
            return Err(ConfigError::UnusedVc(*vc));
        }
        for vc in self.tc_vc.channels() {
            for class in Class::ALL {
                let least = match class {
                    // For a receiver that takes only configuration and I/O writes.
                    Class::NonPosted => 1,
                    Class::Posted | Class::Completion => most_data_credits(class, self.mps),
                };
                self.validate_credits(vc, class, least)?;
            }
        }
        match self.tc_vc.channels().find(|vc| !self.arbitration.serves(*vc)) {
            Some(vc) => Err(ConfigError::NoPhase(vc)),
            None => Ok(()),
        }
    }

    /// Checks that each channel in use has room for the non-posted requests that the receiver takes. A port cannot
    /// determine these requests: `bytes` is the maximum length of their data (`PCIe 5.0 §2.6.1`, Table 2-45: minimum initial
    /// advertisements).
    ///
    /// # Errors
    /// Returns the first channel without enough room.
    pub fn validate_non_posted(&self, bytes: u32) -> Result<(), ConfigError> {
        if self.flow_control != FlowControlMode::Credits {
            return Ok(());
        }
        let least = bytes.div_ceil(CREDIT_BYTES).max(1) as u16;
        self.tc_vc.channels().try_for_each(|vc| self.validate_credits(vc, Class::NonPosted, least))
    }

    // `PCIe 5.0 §2.6.1`, Table 2-45: minimum initial advertisements.
    fn validate_credits(&self, vc: Vc, class: Class, min: u16) -> Result<(), ConfigError> {
        let CreditLimit { header, data } = self.buffer(vc)[class.index()];
        let factor = if self.scaled_flow_control { MAX_SCALE.factor() } else { 1 };
        let max = MAX_HEADER_CREDITS * factor;
        if let Some(value) = header.filter(|h| !(1..=max).contains(h)) {
            return Err(ConfigError::HeaderCredits { vc, class, value, max });
        }
        let max = MAX_DATA_CREDITS * factor;
        match data.filter(|d| !(min..=max).contains(d)) {
            Some(value) => Err(ConfigError::DataCredits { vc, class, value, min, max }),
            None => Ok(()),
        }
    }

    fn validate_timers(&self) -> Result<(), ConfigError> {
        match self.replay_timer {
            ReplayTimerRule::Rev4 { symbols } if !(24_000..=31_000).contains(&symbols) => {
                return Err(ConfigError::ReplayTimer(symbols));
            }
            ReplayTimerRule::Rev3 if self.rate > Rate::Gt8 => {
                return Err(ConfigError::ReplayTimerRate(self.rate));
            }
            ReplayTimerRule::Rev3 | ReplayTimerRule::Rev4 { .. } => {}
        }
        for (what, latency) in [("Ack", self.ack_latency_symbols), ("UpdateFC", self.update_fc_symbols)] {
            if let Some(value) = latency.filter(|l| !(1..24_000).contains(l)) {
                return Err(ConfigError::Latency { what, value });
            }
        }
        let (unit, min, max) =
            if self.rate.is_8b10b() { ("symbol times", 1180, 1538) } else { ("blocks", 370, 375) };
        if !(min..=max).contains(&self.skp_interval) {
            return Err(ConfigError::Skp { value: self.skp_interval, unit, min, max });
        }
        Ok(())
    }
}

/// The longest time between SKP ordered sets (`PCIe 5.0 §4.2.7`): symbol times at 8b/10b, blocks at 128b/130b.
const fn longest_skp_interval(rate: Rate) -> u32 {
    if rate.is_8b10b() { 1538 } else { 375 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PortConfig {
        PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), Mps::new(256).unwrap())
    }

    #[test]
    fn defaults_are_valid_for_every_link() {
        for rate in Rate::ALL {
            for width in Width::ALL {
                for code in 0..6 {
                    let config = PortConfig::new(rate, width, Mps::from_encoding(code).unwrap());
                    assert_eq!(config.validate(), Ok(()));
                }
            }
        }
    }

    /// Rows: bytes of the longest accepted non-posted request, and the minimum of credits (`PCIe 5.0 Table 2-45`; ECN
    /// "Deferrable Memory Write").
    #[test]
    fn non_posted_credits_cover_the_longest_accepted_request() {
        let mut config = config();
        config.tc_vc = TcVcMap::one_to_one();
        for (bytes, least) in [(0, 1), (4, 1), (32, 2), (64, 4), (128, 8)] {
            for data in 1..=9 {
                config.rx_buffer[1].data = Some(data);
                assert_eq!(config.validate(), Ok(()), "the port does not know the requests taken");
                let refused = config.validate_non_posted(bytes).err().map(|error| error.to_string());
                let expected = (data < least).then(|| {
                    format!(
                        "NonPosted data credits {data}; expected {least} to 2047 (units of 16 B), or infinite"
                    )
                });
                assert_eq!(refused.is_some(), expected.is_some(), "{bytes} B, {data} credits");
                if let (Some(refused), Some(expected)) = (refused, expected) {
                    assert!(refused.starts_with(&expected), "{refused}");
                }
            }
        }
        config.rx_buffer[1].data = None;
        assert_eq!(config.validate_non_posted(128), Ok(()));
        let of_vc3 = [CreditLimit::INFINITE, CreditLimit::finite(1, 1), CreditLimit::INFINITE];
        config.vc_buffers.insert(Vc::from_bits(3), of_vc3);
        assert!(
            config
                .validate_non_posted(32)
                .unwrap_err()
                .to_string()
                .starts_with("VC3 NonPosted data credits 1")
        );
    }

    /// Rows: the change, and the complete text of the error. Limits: `PCIe 5.0 §2.6.1`, §3.6.2, §4.2.7.
    #[test]
    fn errors_name_the_value_and_the_allowed_range() {
        type Change = fn(&mut PortConfig);
        let rows: [(Change, &str); 17] = [
            (|c| c.rx_buffer[0].header = Some(0), "Posted header credits 0; expected 1 to 127, or infinite"),
            (
                |c| c.rx_buffer[1].header = Some(128),
                "NonPosted header credits 128; expected 1 to 127, or infinite",
            ),
            (
                |c| c.rx_buffer[0].data = Some(15),
                "Posted data credits 15; expected 16 to 2047 (units of 16 B), or infinite",
            ),
            (
                |c| c.rx_buffer[1].data = Some(0),
                "NonPosted data credits 0; expected 1 to 2047 (units of 16 B), or infinite; receivers of AtomicOps need at least 2, of DMWr of 64 or 128 B at least 4 or 8",
            ),
            (
                |c| c.rx_buffer[2] = CreditLimit::finite(1, 2048),
                "Completion data credits 2048; expected 16 to 2047 (units of 16 B), or infinite",
            ),
            (|c| c.tx_queue_tlps = 0, "transmit queue of 0 TLPs; expected 1 to 4096"),
            (|c| c.replay_buffer_tlps = 2048, "replay buffer of 2048 TLPs; expected 1 to 2047"),
            (
                |c| c.replay_buffer_bytes = 281,
                "replay buffer of 281 bytes; expected at least 282, one TLP of Max_Payload_Size",
            ),
            (
                |c| c.replay_timer = ReplayTimerRule::Rev4 { symbols: 31_001 },
                "REPLAY_TIMER of 31001 symbol times; expected 24000 to 31000",
            ),
            (
                |c| (c.rate, c.replay_timer, c.skp_interval) = (Rate::Gt16, ReplayTimerRule::Rev3, 375),
                "REPLAY_TIMER of revision 3 at 16 GT/s; expected 2.5, 5 or 8 GT/s, the rates of that revision",
            ),
            (
                |c| c.ack_latency_symbols = Some(0),
                "Ack latency of 0 symbol times; expected 1 to 23999, less than REPLAY_TIMER",
            ),
            (
                |c| (c.scaled_flow_control, c.rx_buffer[0].header) = (true, Some(2033)),
                "Posted header credits 2033; expected 1 to 2032, or infinite",
            ),
            (
                |c| {
                    c.tc_vc = TcVcMap::one_to_one();
                    c.vc_buffers.insert(Vc::from_bits(3), [CreditLimit::finite(1, 15); 3]);
                },
                "VC3 Posted data credits 15; expected 16 to 2047 (units of 16 B), or infinite",
            ),
            (
                |c| c.vc_buffers = BTreeMap::from([(Vc::from_bits(3), [CreditLimit::INFINITE; 3])]),
                "credits for VC3, which no Traffic Class uses",
            ),
            (
                |c| {
                    c.tc_vc = TcVcMap::one_to_one();
                    c.flow_control = FlowControlMode::None { buffer_tlps: 16 };
                },
                "8 channels without flow control; expected only VC0",
            ),
            (
                |c| c.flow_control = FlowControlMode::None { buffer_tlps: 0 },
                "receive buffer of 0 TLPs; expected at least 1",
            ),
            (|c| c.skp_interval = 1538, "SKP interval of 1538 blocks; expected 370 to 375"),
        ];
        for (change, text) in rows {
            let mut config = config();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), text);
        }
    }
}
