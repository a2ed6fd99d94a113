// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual channel of a port (`PCIe 5.0 §2.5`): its initialization, transmit queue and credits of both directions. A
//! channel does not depend on the other channels.

use crate::config::{CREDIT_BYTES, FlowControlMode, PortConfig};
use crate::credit::{RxCredits, TxCredits};
use crate::init::{Init, InitState};
use crate::store::TlpStore;
use crate::tx::{Lengths, TransmitQueue};
use tlp::{Class, FlowControl, TcSet, Vc};

/// The state of one channel of a port.
pub(crate) struct Channel {
    /// The Traffic Classes that use this channel; classes that are not mapped use VC0.
    pub(crate) classes: TcSet,
    /// VC Enable. An enabled channel may have no Traffic Class.
    pub(crate) is_enabled: bool,
    pub(crate) init: Init,
    pub(crate) queue: TransmitQueue,
    pub(crate) tx: [TxCredits; 3],
    pub(crate) rx: [RxCredits; 3],
    /// Maximum number of data credits that the other end can have, from its InitFCs; `None`: infinite, or not known yet.
    pub(crate) advertised: [Option<u16>; 3],
    /// The TLP to send next, which has its credits.
    pub(crate) head: Option<(Class, Lengths)>,
}

impl Channel {
    /// Creates channel `vc` by `config`. An unused channel has no room.
    pub(crate) fn new(config: &PortConfig, vc: Vc) -> Channel {
        let classes = classes(config, vc);
        let mut init = Init::new();
        let mut tx = [TxCredits::default(); 3];
        if config.flow_control != FlowControlMode::Credits {
            tx = [TxCredits::UNLIMITED; 3];
            init.skip();
        }
        Channel {
            classes,
            is_enabled: !classes.is_empty(),
            init,
            queue: TransmitQueue::new(if classes.is_empty() { 0 } else { config.tx_queue_tlps }),
            tx,
            rx: receive_credits(config, vc, false),
            advertised: [None; 3],
            head: None,
        }
    }

    /// Advertises the whole receive buffer, with scaled flow control if both ends have agreed on it. Called before any
    /// InitFC.
    pub(crate) fn renew_credits(&mut self, config: &PortConfig, vc: Vc, scaled: bool) {
        self.rx = receive_credits(config, vc, scaled);
    }

    /// Applies a changed TC/VC map and VC Enable to channel `vc`. The queue must be empty.
    pub(crate) fn remap(&mut self, config: &PortConfig, vc: Vc, is_enabled: bool) {
        self.classes = classes(config, vc);
        self.is_enabled = is_enabled;
        self.queue = TransmitQueue::new(if self.classes.is_empty() { 0 } else { config.tx_queue_tlps });
    }

    /// The link is down: the state agreed with the other end is void. The queue, which its owner has emptied, stays.
    pub(crate) fn take_down(&mut self, config: &PortConfig, vc: Vc) {
        self.init = Init::new();
        if config.flow_control == FlowControlMode::Credits {
            self.tx = [TxCredits::default(); 3];
        }
        self.rx = receive_credits(config, vc, false);
        self.advertised = [None; 3];
        self.head = None;
    }

    /// Records the credits of one class that an InitFC has advertised.
    pub(crate) fn learn(&mut self, fc: &FlowControl) {
        let credits = TxCredits::init(fc);
        self.tx[fc.class.index()] = credits;
        self.advertised[fc.class.index()] = credits.available().1;
    }

    /// Bytes of data that the other end has room for in a TLP of any class.
    pub(crate) fn max_data_bytes(&self) -> u16 {
        let bytes = |credits: u16| credits.saturating_mul(CREDIT_BYTES as u16);
        self.advertised.iter().flatten().map(|credits| bytes(*credits)).min().unwrap_or(u16::MAX)
    }

    /// Returns the maximum number of credits of `class` that the other end can have, if a TLP of these lengths needs more.
    pub(crate) fn never_admits(&self, class: Class, lengths: Lengths) -> Option<u16> {
        self.advertised[class.index()].filter(|most| lengths.data_credits() > u32::from(*most))
    }

    /// TLPs in the receive buffer, by class. `scaled`: both ends have agreed on scaled flow control.
    pub(crate) fn held(&self, config: &PortConfig, vc: Vc, scaled: bool) -> [u16; 3] {
        let fresh = receive_credits(config, vc, scaled);
        std::array::from_fn(|class| self.rx[class].held(&fresh[class]))
    }

    /// Returns whether this end initializes the channel.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_enabled
    }

    /// TLPs may flow.
    pub(crate) fn is_active(&self) -> bool {
        self.init.state() == InitState::Active
    }

    /// Chooses the next TLP again; returns the classes whose heads lack credits, by [`Class::index`].
    pub(crate) fn select(&mut self, store: &TlpStore) -> u8 {
        if !self.is_active() {
            self.head = None;
            return 0;
        }
        let choice = self.queue.oldest_sendable(&self.tx, store);
        self.head = choice.head;
        choice.blocked
    }

    /// Describes why the heads of the queues wait. `ready`: the next TLP waits only for the wire and the replay buffer.
    pub(crate) fn waits(&self) -> impl Iterator<Item = String> + '_ {
        Class::ALL.into_iter().filter_map(|class| self.wait_of(class))
    }

    fn wait_of(&self, class: Class) -> Option<String> {
        let head = self.queue.head(class)?;
        let name = ["posted", "non-posted", "completion"][class.index()];
        let credits = &self.tx[class.index()];
        let data = head.lengths.data_credits();
        let (has_header, has_data) = credits.available();
        if !self.is_active() {
            return Some(format!("{name} TLP waits for flow-control initialization"));
        }
        if has_header == Some(0) {
            return Some(format!("no {name} header credits"));
        }
        if !credits.covers(data) {
            let has = has_data.unwrap_or(0);
            return Some(format!("no {name} data credits: needs {data}, has {has}"));
        }
        if self.head.is_some_and(|(next, _)| next == class) {
            return Some(format!("{name} TLP ready"));
        }
        Some(format!("{name} TLP waits for its turn or for older posted requests"))
    }
}

/// The Traffic Classes of channel `vc`; VC0 also has the classes that are not mapped.
fn classes(config: &PortConfig, vc: Vc) -> TcSet {
    let own = config.tc_vc.classes(vc);
    if vc == Vc::VC0 { own.or(config.tc_vc.mapped().complement()) } else { own }
}

fn receive_credits(config: &PortConfig, vc: Vc, scaled: bool) -> [RxCredits; 3] {
    let buffer = config.buffer(vc);
    Class::ALL.map(|class| RxCredits::new(vc, class, buffer[class.index()], config.mps, scaled))
}
