// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits of both directions (`PCIe 5.0 §2.6.1`), as the specification counts them: modulo 2^8 for headers and 2^12
//! for data, with two or four more bits if scaled (§3.4.2). This module does not send DLLPs; the port asks it for the
//! values to report.

use crate::config::{CreditLimit, MAX_DATA_CREDITS, MAX_HEADER_CREDITS, most_data_credits};
use tlp::{Class, FlowControl, FlowControlKind, Mps, RuleId, Scale, Vc, Violation};

/// Bits of the fields of a flow-control DLLP.
const HEADER_BITS: u32 = 8;
const DATA_BITS: u32 = 12;

/// Returns the modulus of a kind of credits, minus one.
const fn mask(field_bits: u32, scale: Scale) -> u16 {
    (u16::MAX as u32 >> (16 - field_bits - scale.shift())) as u16
}

/// Unused credits of one class at a sender: CREDIT_LIMIT minus CREDITS_CONSUMED (`PCIe 6.0 §2.6.1.1`). `None`:
/// infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusedCredits {
    /// Headers.
    pub header: Option<u16>,
    /// Units of 16 B of data.
    pub data: Option<u16>,
}

/// Sender's side of one type of credit: CREDITS_CONSUMED and CREDIT_LIMIT (`PCIe 5.0 §2.6.1.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct TxCredit {
    /// Counts modulo 2^16, a multiple of the field's modulus; comparisons mask it.
    consumed: u16,
    limit: u16,
    mask: u16,
    infinite: bool,
}

impl TxCredit {
    /// Returns the credits that an InitFC advertised: zero is infinite.
    const fn init(advertised: u16, mask: u16) -> Self {
        TxCredit { consumed: 0, limit: advertised & mask, mask, infinite: advertised == 0 }
    }

    const UNLIMITED: TxCredit = TxCredit::init(0, u16::MAX);

    /// Returns whether `amount` may be sent: `(CREDIT_LIMIT - CUMULATIVE_CREDITS_REQUIRED) mod 2^n <= 2^n / 2`.
    const fn covers(self, amount: u32) -> bool {
        let required = self.consumed.wrapping_add(amount as u16);
        self.infinite || self.limit.wrapping_sub(required) & self.mask <= self.mask / 2 + 1
    }

    const fn consume(&mut self, amount: u32) {
        self.consumed = self.consumed.wrapping_add(amount as u16);
    }

    /// Returns whether an UpdateFC may report `limit`: at most half the modulus ahead of the consumed credits, and zero
    /// for infinite credits.
    const fn allows(self, limit: u16) -> bool {
        let (unused, most) = self.unused_at(limit);
        unused <= most
    }

    /// Returns the unused credits after an update to `limit`, and their maximum.
    const fn unused_at(self, limit: u16) -> (u16, u16) {
        if self.infinite {
            (limit, 0)
        } else {
            (limit.wrapping_sub(self.consumed) & self.mask, self.mask / 2)
        }
    }

    const fn available(self) -> Option<u16> {
        if self.infinite { None } else { Some(self.limit.wrapping_sub(self.consumed) & self.mask) }
    }
}

/// The credits that the other end allows for one class, and the used credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TxCredits {
    header: TxCredit,
    data: TxCredit,
}

impl TxCredits {
    /// No flow control: any TLP may be sent.
    pub(crate) const UNLIMITED: TxCredits =
        TxCredits { header: TxCredit::UNLIMITED, data: TxCredit::UNLIMITED };

    pub(crate) const fn init(fc: &FlowControl) -> TxCredits {
        TxCredits {
            header: TxCredit::init(fc.header_credits(), mask(HEADER_BITS, fc.header_scale)),
            data: TxCredit::init(fc.data_credits(), mask(DATA_BITS, fc.data_scale)),
        }
    }

    /// Returns whether a TLP with `data` data credits may be sent.
    #[inline(always)]
    pub(crate) const fn covers(&self, data: u32) -> bool {
        self.header.covers(1) && self.data.covers(data)
    }

    pub(crate) const fn consume(&mut self, data: u32) {
        self.header.consume(1);
        self.data.consume(data);
    }

    /// Handles an UpdateFC. Ignores an update that breaks the rules (`PCIe 5.0 §2.6.1`), and returns false. Such an
    /// update leaves more credits unused than allowed, which includes a reduced limit, or changes infinite credits.
    pub(crate) const fn update(&mut self, fc: &FlowControl) -> bool {
        let header = fc.header_credits() & self.header.mask;
        let data = fc.data_credits() & self.data.mask;
        if !self.header.allows(header) || !self.data.allows(data) {
            return false;
        }
        self.header.limit = header;
        self.data.limit = data;
        true
    }

    /// Returns the rule that an UpdateFC breaks for which [`update`](Self::update) returned false.
    #[cold]
    pub(crate) fn violation(&self, fc: &FlowControl) -> Violation {
        let header = fc.header_credits() & self.header.mask;
        let (unused, most) = match self.header.allows(header) {
            true => self.data.unused_at(fc.data_credits() & self.data.mask),
            false => self.header.unused_at(header),
        };
        Violation::expecting(RuleId::UnusedCredits, unused.into(), most.into())
    }

    /// Returns whether an UpdateFC of `rx`, the receiver's side, would change neither side.
    pub(crate) fn agrees(&self, rx: &RxCredits) -> bool {
        let (mut tx, mut rx, news) = (*self, *rx, rx.has_news());
        !news && tx.update(&rx.report(FlowControlKind::UpdateFc)) && tx == *self
    }

    /// Unused header and data credits; `None`: infinite.
    pub(crate) const fn available(&self) -> (Option<u16>, Option<u16>) {
        (self.header.available(), self.data.available())
    }

    /// Returns the same by name.
    pub(crate) const fn unused(&self) -> UnusedCredits {
        UnusedCredits { header: self.header.available(), data: self.data.available() }
    }
}

/// Receiver's side of one type: CREDITS_ALLOCATED and CREDITS_RECEIVED (`PCIe 5.0 §2.6.1.2`).
#[derive(Clone, Copy, Debug)]
struct RxCredit {
    // Both count modulo 2^16, a multiple of the field's modulus; comparisons and DLLPs mask them.
    allocated: u16,
    received: u16,
    /// CREDITS_ALLOCATED as reported by InitFC1 or the last UpdateFC, which the sender uses.
    told: u16,
    mask: u16,
    scale: Scale,
    infinite: bool,
}

impl RxCredit {
    /// Makes credits of `limit`, or the maximum that a DLLP can report: `most` without scaling.
    const fn new(limit: Option<u16>, most: u16, field_bits: u32, scaled: bool) -> Self {
        let (value, infinite) = match limit {
            Some(value) => (value, false),
            None => (0, true),
        };
        let scale = if scaled { least_scale(value, most) } else { Scale::Unscaled };
        let value = if value / scale.factor() > most { most } else { value };
        let allocated = value / scale.factor() * scale.factor();
        // With infinite credits no field limits the count, so the number of used credits may exceed the modulus.
        let mask = if infinite { u16::MAX } else { mask(field_bits, scale) };
        RxCredit { allocated, received: 0, told: allocated, mask, scale, infinite }
    }

    /// Returns false for a Receiver Overflow: `(CREDITS_ALLOCATED - CREDITS_RECEIVED) mod 2^n >= 2^n / 2` after this TLP.
    const fn covers(self, amount: u32) -> bool {
        let received = self.received.wrapping_add(amount as u16);
        self.infinite || self.allocated.wrapping_sub(received) & self.mask <= self.mask / 2
    }

    const fn receive(&mut self, amount: u32) {
        self.received = self.received.wrapping_add(amount as u16);
    }

    const fn free(&mut self, amount: u32) {
        self.allocated = self.allocated.wrapping_add(amount as u16);
    }

    /// Returns the limit that a DLLP would report now; scaling drops the low bits.
    const fn tellable(self) -> u16 {
        self.allocated >> self.scale.shift() << self.scale.shift()
    }

    /// Returns whether the sender, by the last update, has less than `amount` left.
    const fn is_short_of(self, amount: u16) -> bool {
        !self.infinite && self.told.wrapping_sub(self.received) & self.mask < amount
    }

    /// Returns whether the sender has less than `amount`, and a DLLP could report more.
    const fn is_starved(self, amount: u16) -> bool {
        self.is_short_of(amount) && self.has_news()
    }

    const fn has_news(self) -> bool {
        !self.infinite && self.told != self.tellable()
    }

    /// Returns the field of the DLLP that is sent now. All InitFCs report the same value, so a sender that has received
    /// one learns nothing new from the next.
    const fn tell(&mut self, kind: FlowControlKind) -> u16 {
        if matches!(kind, FlowControlKind::UpdateFc) {
            self.told = self.tellable();
        }
        if self.infinite { 0 } else { (self.told & self.mask) >> self.scale.shift() }
    }
}

/// Returns the smallest scale with which `credits` fit a field that holds `most`.
const fn least_scale(credits: u16, most: u16) -> Scale {
    if credits <= most {
        Scale::X1
    } else if credits <= most * Scale::X4.factor() {
        Scale::X4
    } else {
        Scale::X16
    }
}

/// The credits that this end allows for one class on one channel, and the received credits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxCredits {
    vc: Vc,
    class: Class,
    header: RxCredit,
    data: RxCredit,
    /// With fewer data credits than this, the sender may be unable to send the largest TLP although there is room for
    /// it.
    least_data: u16,
}

impl RxCredits {
    /// Makes credits of `limit`. `scaled`: both ends have agreed on scaled flow control.
    pub(crate) const fn new(vc: Vc, class: Class, limit: CreditLimit, mps: Mps, scaled: bool) -> RxCredits {
        let header = RxCredit::new(limit.header, MAX_HEADER_CREDITS, HEADER_BITS, scaled);
        let data = RxCredit::new(limit.data, MAX_DATA_CREDITS, DATA_BITS, scaled);
        let most = most_data_credits(class, mps);
        let least_data = if data.allocated < most && !data.infinite { data.allocated } else { most };
        RxCredits { vc, class, header, data, least_data }
    }

    /// Counts a received TLP with `data` data credits. Returns false and does not count it if it had no credits.
    #[inline(always)]
    pub(crate) const fn receive(&mut self, data: u32) -> bool {
        if !self.header.covers(1) || !self.data.covers(data) {
            return false;
        }
        self.header.receive(1);
        self.data.receive(data);
        true
    }

    /// Frees the space of a TLP with `data` data credits that has left the buffer. Returns true if the sender may be
    /// blocked by lack of credits, so that an UpdateFC must be scheduled at once (`PCIe 5.0 §2.6.1.2`).
    #[inline(always)]
    pub(crate) const fn free(&mut self, data: u32) -> bool {
        self.header.free(1);
        self.data.free(data);
        self.starves_sender()
    }

    /// Returns whether the sender, by the last update, has no header credit or too few data credits for the largest
    /// TLP, and an UpdateFC could report more.
    #[inline(always)]
    pub(crate) const fn starves_sender(&self) -> bool {
        self.header.is_starved(1) || self.data.is_starved(self.least_data)
    }

    /// Number of TLPs that have arrived and not left the buffer. `fresh` is the initial state of these credits.
    pub(crate) const fn held(&self, fresh: &RxCredits) -> u16 {
        let left = self.header.allocated.wrapping_sub(self.header.received);
        fresh.header.allocated.wrapping_sub(left) & self.header.mask
    }

    /// Returns whether an UpdateFC would report something new to the sender.
    pub(crate) const fn has_news(&self) -> bool {
        self.header.has_news() || self.data.has_news()
    }

    /// Returns the flow-control DLLP that reports the current state.
    pub(crate) const fn report(&mut self, kind: FlowControlKind) -> FlowControl {
        FlowControl {
            kind,
            class: self.class,
            vc: self.vc,
            header_scale: self.header.scale,
            header: self.header.tell(kind) as u8,
            data_scale: self.data.scale,
            data: self.data.tell(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fc(kind: FlowControlKind, header: u8, data: u16) -> FlowControl {
        FlowControl::new(kind, Class::Posted, tlp::Vc::VC0, header, data)
    }

    fn receiver(limit: CreditLimit, mps: u32) -> RxCredits {
        RxCredits::new(Vc::VC0, Class::Posted, limit, Mps::new(mps).unwrap(), false)
    }

    #[test]
    fn sender_uses_all_credits_but_no_more() {
        let mut tx = TxCredits::init(&fc(FlowControlKind::InitFc1, 2, 5));
        assert!(tx.covers(5) && !tx.covers(6));
        tx.consume(5);
        assert!(tx.covers(0) && !tx.covers(1));
        tx.consume(0);
        assert!(!tx.covers(0));
        assert_eq!(tx.available(), (Some(0), Some(0)));
        assert!(tx.update(&fc(FlowControlKind::UpdateFc, 3, 6)));
        assert!(tx.covers(1) && !tx.covers(2));
    }

    /// With a data limit of 2047 and a TLP of 256 credits (4 KiB), the modulus wraps; the comparison holds.
    #[test]
    fn counters_of_both_ends_wrap_alike() {
        let limit = CreditLimit::finite(127, 2047);
        let mut rx = receiver(limit, 4096);
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
                assert!(tx.update(&rx.report(FlowControlKind::UpdateFc)));
            }
        }
    }

    #[test]
    fn overflow_is_detected_and_not_counted() {
        let mut rx = receiver(CreditLimit::finite(1, 16), 128);
        assert!(!rx.receive(17));
        assert!(rx.receive(16));
        assert!(!rx.receive(0));
        assert!(rx.free(16), "the sender had none left");
        assert!(rx.receive(8));
    }

    #[test]
    fn infinite_credits_are_zero_on_the_wire() {
        let mut rx =
            RxCredits::new(Vc::VC0, Class::Completion, CreditLimit::INFINITE, Mps::new(128).unwrap(), false);
        let mut tx = TxCredits::init(&rx.report(FlowControlKind::InitFc1));
        for _ in 0..10_000 {
            assert!(tx.covers(256) && rx.receive(256));
            tx.consume(256);
            assert!(!rx.free(256));
        }
        assert_eq!(
            rx.report(FlowControlKind::UpdateFc),
            FlowControl::new(FlowControlKind::UpdateFc, Class::Completion, tlp::Vc::VC0, 0, 0)
        );
        assert_eq!(tx.available(), (None, None));
    }

    /// An update is urgent if, by the last update, the sender has no header credit, or less data than Max_Payload_Size.
    #[test]
    fn starved_sender_gets_an_update_at_once() {
        let mut rx = receiver(CreditLimit::finite(10, 40), 256);
        assert!(rx.receive(16));
        assert!(!rx.free(16), "24 of 16 left");
        assert!(rx.receive(16));
        assert!(rx.free(16), "8 of 16 left: freed credits were not reported");
        rx.report(FlowControlKind::UpdateFc);
        assert!(rx.receive(16) && !rx.free(16), "24 of 16 left again");
    }

    /// Rows: the credits to advertise; scales and fields with scaling, and without (`PCIe 5.0 §3.4.2`, Table 3-2).
    #[test]
    fn chooses_smallest_sufficient_scale() {
        use Scale::{Unscaled, X1, X4, X16};
        let rows = [
            ((127, 2047), (X1, 127, X1, 2047), (127, 2047)),
            ((128, 2048), (X4, 32, X4, 512), (127, 2047)),
            ((508, 8188), (X4, 127, X4, 2047), (127, 2047)),
            ((509, 8190), (X16, 31, X16, 511), (127, 2047)),
            ((2032, 32_752), (X16, 127, X16, 2047), (127, 2047)),
            ((1, 32_752), (X1, 1, X16, 2047), (1, 2047)),
        ];
        for ((header, data), scaled, unscaled) in rows {
            let of = |agreed| {
                let limit = CreditLimit::finite(header, data);
                let mut rx = RxCredits::new(Vc::VC0, Class::Posted, limit, Mps::new(256).unwrap(), agreed);
                let fc = rx.report(FlowControlKind::InitFc1);
                (fc.header_scale, fc.header, fc.data_scale, fc.data)
            };
            assert_eq!(of(true), scaled, "{header} {data}");
            assert_eq!(of(false), (Unscaled, unscaled.0 as u8, Unscaled, unscaled.1), "{header} {data}");
        }
    }

    /// Exactly the advertised credits can be used. Freed credits return in units that the scale can represent.
    #[test]
    fn scaled_counters_of_both_ends_wrap_alike() {
        for (headers, data) in [(508, 8188), (2032, 32_752), (300, 5000)] {
            let limit = CreditLimit::finite(headers, data);
            let mut rx = RxCredits::new(Vc::VC0, Class::Posted, limit, Mps::new(128).unwrap(), true);
            let mut tx = TxCredits::init(&rx.report(FlowControlKind::InitFc1));
            let told = tx.available();
            let mut outstanding = 0;
            for step in 0..50_000 {
                if tx.covers(3) {
                    tx.consume(3);
                    assert!(rx.receive(3), "{step}");
                    outstanding += 1;
                } else {
                    let most = told.0.unwrap().min(told.1.unwrap() / 3);
                    assert!(outstanding <= most && outstanding + 16 > most, "{outstanding} of {most}");
                    // Enough to change the field of the largest scale.
                    for _ in 0..16 {
                        rx.free(3);
                    }
                    outstanding -= 16;
                    assert!(tx.update(&rx.report(FlowControlKind::UpdateFc)));
                }
            }
        }
    }

    /// With four credits per unit, a starved sender gets an update when a whole unit is free.
    #[test]
    fn scaled_receiver_updates_after_a_whole_unit() {
        let limit = CreditLimit::finite(128, 8000);
        let mut rx = RxCredits::new(Vc::VC0, Class::NonPosted, limit, Mps::new(128).unwrap(), true);
        rx.report(FlowControlKind::InitFc1);
        for _ in 0..128 {
            assert!(rx.receive(0));
        }
        assert_eq!([rx.free(0), rx.free(0), rx.free(0), rx.free(0)], [false, false, false, true]);
    }
}
