// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Initialization of a link: the Data Link Feature exchange (`PCIe 5.0 §3.3`), then flow-control initialization (§3.4)
//! of VC0, FC_INIT1 and FC_INIT2, which leads to DL_Active, and then of the other channels. This module selects the
//! next DLLP, but does not send it.

use tlp::{Class, DataLinkFeature, Duration, FlowControlKind, Time};

/// Interval at which InitFC DLLPs are repeated while the other end does not answer; the specification requires at most
/// 34 us (`PCIe 5.0 §3.4.1`).
const REPEAT: Duration = Duration::from_us(2);
const ALL_CLASSES: u8 = 0b111;

/// State of the initialization of a virtual channel. For VC0 the final state is DL_Active.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InitState {
    /// DL_Inactive: not started.
    Inactive,
    /// DL_Init, FC_INIT1: this end advertises its credits, and receives the credits of the other end.
    FcInit1,
    /// DL_Init, FC_INIT2: this end has the credits of the other end, and confirms this.
    FcInit2,
    /// DL_Active.
    Active,
}

pub(crate) struct Init {
    state: InitState,
    /// Classes whose credits have arrived. Flag FI1 is set when all have arrived.
    known: u8,
    /// Flag FI2: the other end has our credits.
    fi2: bool,
    /// DLLPs of the present triple that have been sent.
    sent: usize,
    repeat_at: Time,
    repeats_answered_from: Time,
}

impl Init {
    pub(crate) fn new() -> Init {
        Init {
            state: InitState::Inactive,
            known: 0,
            fi2: false,
            sent: Class::ALL.len(),
            repeat_at: Time::MAX,
            repeats_answered_from: Time::MAX,
        }
    }

    pub(crate) fn state(&self) -> InitState {
        self.state
    }

    pub(crate) fn start(&mut self) {
        self.state = InitState::FcInit1;
        self.sent = 0;
    }

    /// Skips initialization on a link without flow control.
    pub(crate) fn skip(&mut self) {
        self.state = InitState::Active;
    }

    /// Handles credits of `class`. Returns true if they are new and must be recorded. They may arrive before this end
    /// starts the channel, because the other end may reach DL_Active first and start its other channels.
    pub(crate) fn receive(&mut self, kind: FlowControlKind, class: Class) -> bool {
        let bit = 1 << class.index();
        let new =
            self.state <= InitState::FcInit1 && kind != FlowControlKind::UpdateFc && self.known & bit == 0;
        if new {
            self.known |= bit;
        }
        if kind != FlowControlKind::InitFc1 {
            self.fi2 = true;
        }
        new
    }

    /// Notes that a TLP has arrived, so the other end is in DL_Active.
    pub(crate) fn receive_tlp(&mut self) {
        self.fi2 = true;
    }

    /// Whether an InitFC that arrives in DL_Active means that the other end has missed our InitFC2s. It does if it is a
    /// repetition, and not the rest of the other end's first triple.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.state == InitState::Active && now >= self.repeats_answered_from
    }

    /// Whether an InitFC must be sent.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.sent < Class::ALL.len()
    }

    /// The next DLLP of the triple, which the port sends now.
    pub(crate) fn next(&mut self, now: Time) -> Option<(FlowControlKind, Class)> {
        let class = *Class::ALL.get(self.sent)?;
        let kind = if self.state == InitState::FcInit1 {
            FlowControlKind::InitFc1
        } else {
            FlowControlKind::InitFc2
        };
        self.sent += 1;
        if !self.wants_to_send() {
            self.repeat_at = now + REPEAT;
        }
        Some((kind, class))
    }

    /// Advances if possible. A state ends when a complete triple has been sent and the flag of the state is set.
    /// Returns true if the state has changed.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        if self.wants_to_send() {
            return false;
        }
        match self.state {
            InitState::FcInit1 if self.known == ALL_CLASSES => {
                self.state = InitState::FcInit2;
                self.sent = 0;
            }
            InitState::FcInit2 if self.fi2 => {
                self.state = InitState::Active;
                self.repeats_answered_from = now + REPEAT;
            }
            _ => return false,
        }
        self.repeat_at = Time::MAX;
        true
    }

    pub(crate) fn timeout(&mut self, now: Time) {
        if self.repeat_at <= now {
            self.repeat_at = Time::MAX;
            self.sent = 0;
        }
    }

    /// Time of the next repetition of the triple; [`Time::MAX`]: never.
    pub(crate) fn deadline(&self) -> Time {
        self.repeat_at
    }
}

/// The exchange of Data Link Features (`PCIe 5.0 §3.3`), state DL_Feature.
pub(crate) struct FeatureExchange {
    /// Features that this end supports; zero if it does not take part in the exchange.
    local: u32,
    remote: Option<u32>,
    under_way: bool,
    repeat_at: Time,
}

impl FeatureExchange {
    pub(crate) fn new(scaled_flow_control: bool) -> FeatureExchange {
        let local = if scaled_flow_control { DataLinkFeature::SCALED_FLOW_CONTROL } else { 0 };
        FeatureExchange { local, remote: None, under_way: false, repeat_at: Time::MAX }
    }

    /// Begins the exchange if this end takes part.
    pub(crate) fn start(&mut self) -> bool {
        self.under_way = self.local != 0;
        self.under_way
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// The DLLP to send now.
    pub(crate) fn next(&mut self, now: Time) -> DataLinkFeature {
        self.repeat_at = if self.under_way { now + REPEAT } else { Time::MAX };
        DataLinkFeature { ack: self.remote.is_some(), supported: self.local }
    }

    /// Handles a DLLP. Returns true if an answer must be sent: the first time, and until the other end knows that this
    /// end has received it.
    pub(crate) fn receive(&mut self, feature: DataLinkFeature) -> bool {
        let first = self.remote.is_none();
        if self.local == 0 || !self.under_way {
            return false;
        }
        self.remote = Some(feature.supported);
        self.under_way = !feature.ack;
        first || !feature.ack
    }

    /// Notes that the other end has started flow-control initialization, because it has finished the exchange or does
    /// not take part. Returns true if this end starts flow-control initialization now.
    pub(crate) fn other_end_goes_on(&mut self) -> bool {
        std::mem::take(&mut self.under_way)
    }

    /// Both ends support scaled flow control.
    pub(crate) fn agreed_on_scaling(&self) -> bool {
        self.local & self.remote.unwrap_or(0) & DataLinkFeature::SCALED_FLOW_CONTROL != 0
    }

    /// True if the DLLP must be repeated now.
    pub(crate) fn timeout(&mut self, now: Time) -> bool {
        let due = self.under_way && self.repeat_at <= now;
        if due {
            self.repeat_at = Time::MAX;
        }
        due
    }

    /// Time of the next repetition of the DLLP; [`Time::MAX`]: never.
    pub(crate) fn deadline(&self) -> Time {
        if self.under_way { self.repeat_at } else { Time::MAX }
    }
}
