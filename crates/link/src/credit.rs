// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits of both directions (`PCIe 5.0 §2.6.1`): counters modulo 2^8 for headers and 2^12 for data, as in the
//! specification. Sends nothing; the port asks it what to report.

use crate::config::{CREDIT_BYTES, CreditLimit};
use tlp::{Class, FlowControl, FlowControlKind, Mps};

const HEADER_BITS: u32 = 8;
const DATA_BITS: u32 = 12;

/// A counter modulo `2^BITS`, or none where credits are infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counter<const BITS: u32> {
    value: u16,
}

impl<const BITS: u32> Counter<BITS> {
    const MASK: u16 = (1 << BITS) - 1;
    const HALF: u16 = 1 << (BITS - 1);

    const fn new(value: u16) -> Self {
        Counter { value: value & Self::MASK }
    }

    const fn plus(self, amount: u32) -> Self {
        Self::new(self.value.wrapping_add(amount as u16))
    }

    const fn minus(self, other: Self) -> u16 {
        self.value.wrapping_sub(other.value) & Self::MASK
    }
}

/// Sender's side of one type of credit: CREDITS_CONSUMED and CREDIT_LIMIT (`PCIe 5.0 §2.6.1.1`).
#[derive(Clone, Copy, Debug, Default)]
struct TxCredit<const BITS: u32> {
    consumed: Counter<BITS>,
    limit: Counter<BITS>,
    infinite: bool,
}

impl<const BITS: u32> TxCredit<BITS> {
    /// From InitFC: zero is infinite.
    const fn init(advertised: u16) -> Self {
        TxCredit { consumed: Counter::new(0), limit: Counter::new(advertised), infinite: advertised == 0 }
    }

    /// `(CREDIT_LIMIT - CUMULATIVE_CREDITS_REQUIRED) mod 2^n <= 2^n / 2`.
    const fn covers(self, amount: u32) -> bool {
        self.infinite || self.limit.minus(self.consumed.plus(amount)) <= Counter::<BITS>::HALF
    }

    const fn available(self) -> Option<u16> {
        if self.infinite { None } else { Some(self.limit.minus(self.consumed)) }
    }
}

/// What the other end allows of one class, and what was used of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxCredits {
    header: TxCredit<HEADER_BITS>,
    data: TxCredit<DATA_BITS>,
}

impl TxCredits {
    pub(crate) const fn init(fc: &FlowControl) -> TxCredits {
        TxCredits { header: TxCredit::init(fc.header as u16), data: TxCredit::init(fc.data) }
    }

    /// Whether a TLP with `data` credits of data may go.
    pub(crate) const fn covers(&self, data: u32) -> bool {
        self.header.covers(1) && self.data.covers(data)
    }

    pub(crate) const fn consume(&mut self, data: u32) {
        self.header.consumed = self.header.consumed.plus(1);
        self.data.consumed = self.data.consumed.plus(data);
    }

    /// An UpdateFC has arrived: the fields of infinite credits mean nothing.
    pub(crate) const fn update(&mut self, fc: &FlowControl) {
        self.header.limit = Counter::new(fc.header as u16);
        self.data.limit = Counter::new(fc.data);
    }

    /// Unused header and data credits; `None` is infinite.
    pub(crate) const fn available(&self) -> (Option<u16>, Option<u16>) {
        (self.header.available(), self.data.available())
    }
}

/// Receiver's side of one type: CREDITS_ALLOCATED and CREDITS_RECEIVED (`PCIe 5.0 §2.6.1.2`).
#[derive(Clone, Copy, Debug, Default)]
struct RxCredit<const BITS: u32> {
    allocated: Counter<BITS>,
    received: Counter<BITS>,
    /// CREDITS_ALLOCATED as the last flow-control DLLP said it: what the sender goes by.
    told: Counter<BITS>,
    infinite: bool,
}

impl<const BITS: u32> RxCredit<BITS> {
    const fn new(limit: Option<u16>) -> Self {
        let (value, infinite) = match limit {
            Some(value) => (value, false),
            None => (0, true),
        };
        RxCredit {
            allocated: Counter::new(value),
            received: Counter::new(0),
            told: Counter::new(value),
            infinite,
        }
    }

    /// False: Receiver Overflow, `(CREDITS_ALLOCATED - CREDITS_RECEIVED) mod 2^n >= 2^n / 2` behind this TLP.
    const fn covers(self, amount: u32) -> bool {
        self.infinite || self.allocated.minus(self.received.plus(amount)) < Counter::<BITS>::HALF
    }

    /// Less than `amount` is left to the sender, as far as it knows.
    const fn is_short_of(self, amount: u16) -> bool {
        !self.infinite && self.told.minus(self.received) < amount
    }

    const fn field(self) -> u16 {
        if self.infinite { 0 } else { self.allocated.value }
    }
}

/// What this end allows of one class, and what has arrived of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxCredits {
    class: Class,
    header: RxCredit<HEADER_BITS>,
    data: RxCredit<DATA_BITS>,
    /// Data credits below which the sender may be unable to send the largest TLP.
    least_data: u16,
}

impl RxCredits {
    pub(crate) const fn new(class: Class, limit: CreditLimit, mps: Mps) -> RxCredits {
        let least_data = match class {
            Class::NonPosted => 1,
            Class::Posted | Class::Completion => (mps.bytes() / CREDIT_BYTES) as u16,
        };
        RxCredits { class, header: RxCredit::new(limit.header), data: RxCredit::new(limit.data), least_data }
    }

    /// A TLP with `data` credits of data has arrived; false, and not counted, where it was not allowed.
    pub(crate) const fn receive(&mut self, data: u32) -> bool {
        if !self.header.covers(1) || !self.data.covers(data) {
            return false;
        }
        self.header.received = self.header.received.plus(1);
        self.data.received = self.data.received.plus(data);
        true
    }

    /// A TLP with `data` credits of data has left the buffer. True where the sender may stand still for want of them,
    /// so that an UpdateFC must be scheduled at once (`PCIe 5.0 §2.6.1.2`).
    pub(crate) const fn free(&mut self, data: u32) -> bool {
        self.header.allocated = self.header.allocated.plus(1);
        self.data.allocated = self.data.allocated.plus(data);
        self.starves_sender()
    }

    /// True where the sender, as far as it was told, has no header credit left or too little data for the largest TLP.
    pub(crate) const fn starves_sender(&self) -> bool {
        self.header.is_short_of(1) || self.data.is_short_of(self.least_data)
    }

    /// The flow-control DLLP that tells the state, as it is sent.
    pub(crate) const fn report(&mut self, kind: FlowControlKind) -> FlowControl {
        self.header.told = self.header.allocated;
        self.data.told = self.data.allocated;
        let header = self.header.field() as u8;
        FlowControl { kind, class: self.class, vc: 0, header, data: self.data.field() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fc(kind: FlowControlKind, header: u8, data: u16) -> FlowControl {
        FlowControl { kind, class: Class::Posted, vc: 0, header, data }
    }

    #[test]
    fn the_last_credit_can_be_used_and_no_more() {
        let mut tx = TxCredits::init(&fc(FlowControlKind::InitFc1, 2, 5));
        assert!(tx.covers(5) && !tx.covers(6));
        tx.consume(5);
        assert!(tx.covers(0) && !tx.covers(1));
        tx.consume(0);
        assert!(!tx.covers(0));
        assert_eq!(tx.available(), (Some(0), Some(0)));
        tx.update(&fc(FlowControlKind::UpdateFc, 3, 6));
        assert!(tx.covers(1) && !tx.covers(2));
    }

    /// A data limit of 2047 and a TLP of 256 credits (4 KiB): the modulus wraps, the comparison does not.
    #[test]
    fn counters_wrap_in_step() {
        let limit = CreditLimit::finite(127, 2047);
        let mut rx = RxCredits::new(Class::Posted, limit, Mps::new(4096).unwrap());
        let mut tx = TxCredits::init(&rx.report(FlowControlKind::InitFc1));
        let mut outstanding = 0;
        for step in 0..10_000 {
            if tx.covers(256) {
                tx.consume(256);
                assert!(rx.receive(256));
                outstanding += 1;
            } else {
                assert_eq!(outstanding, 7, "2047 / 256 at step {step}");
                rx.free(256);
                outstanding -= 1;
                tx.update(&rx.report(FlowControlKind::UpdateFc));
            }
        }
    }

    #[test]
    fn overflow_is_seen_and_not_counted() {
        let mut rx = RxCredits::new(Class::Posted, CreditLimit::finite(1, 16), Mps::new(128).unwrap());
        assert!(!rx.receive(17));
        assert!(rx.receive(16));
        assert!(!rx.receive(0));
        assert!(rx.free(16), "the sender had none left");
        assert!(rx.receive(8));
    }

    #[test]
    fn infinite_credits_are_zero_on_the_wire() {
        let mut rx = RxCredits::new(Class::Completion, CreditLimit::INFINITE, Mps::new(128).unwrap());
        let mut tx = TxCredits::init(&rx.report(FlowControlKind::InitFc1));
        for _ in 0..10_000 {
            assert!(tx.covers(256) && rx.receive(256));
            tx.consume(256);
            assert!(!rx.free(256));
        }
        assert_eq!(
            rx.report(FlowControlKind::UpdateFc),
            FlowControl {
                kind: FlowControlKind::UpdateFc,
                class: Class::Completion,
                vc: 0,
                header: 0,
                data: 0
            }
        );
        assert_eq!(tx.available(), (None, None));
    }

    /// Urgent: the last header credit, or less data than Max_Payload_Size, of what the sender was told.
    #[test]
    fn a_starved_sender_is_told_at_once() {
        let mut rx = RxCredits::new(Class::Posted, CreditLimit::finite(10, 40), Mps::new(256).unwrap());
        assert!(rx.receive(16));
        assert!(!rx.free(16), "24 of 16 left");
        assert!(rx.receive(16));
        assert!(rx.free(16), "8 of 16 left: what is free again was not told");
        rx.report(FlowControlKind::UpdateFc);
        assert!(rx.receive(16) && !rx.free(16), "24 of 16 left again");
    }
}
