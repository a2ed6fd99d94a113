// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow-control credits that a sender has before and after each TLP (`PCIe 5.0 §2.6.1`), computed from the InitFC
//! and UpdateFC DLLPs and the TLPs of a capture. If the capture does not determine them, they are `None`.
//!
//! A ledger has the credits for one direction of a link, one virtual channel and one class. DLLPs in the other
//! direction set its limit. TLPs consume credits when they are first seen, as at their sender. A capture at the
//! sender's end shows the credits that the sender knows. A capture at the receiver's end shows the granted credits
//! minus those of the TLPs that have arrived.
//!
//! Traffic class 0 always uses virtual channel 0. The mapping of the other classes is not on the wire. It is known
//! if the link has only virtual channel 0, or from [`Ledgers::with_map`].

use crate::decode::{Kind, Record};
use crate::render::class_name;
use crate::render::object::Object;
use crate::sequence::{LinkDirection, Sequences, opposite, way};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use tlp::{Class, Dllp, FlowControl, FlowControlKind, TrafficClass};

/// ID of a ledger: direction of its TLPs, virtual channel and class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LedgerId {
    /// Direction of the TLPs that consume its credits.
    pub way: LinkDirection,
    /// Virtual channel, 0 to 7.
    pub vc: u8,
    /// The flow-control class of these TLPs.
    pub class: Class,
}

/// Credits of one kind, header or data: running totals.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// CREDIT_LIMIT, extended over wraps of its field; `None` if credits are infinite.
    limit: Option<u64>,
    /// CREDITS_CONSUMED.
    consumed: u64,
}

/// Remaining credits of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Available {
    /// Number of credits left. Negative if a sender exceeded its credits, or if the capture lacks a DLLP.
    Credits(i64),
    /// The receiver advertised infinite credits.
    Infinite,
}

/// A number, or `infinite`.
impl Serialize for Available {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Available::Credits(credits) => serializer.serialize_i64(*credits),
            Available::Infinite => serializer.serialize_str("infinite"),
        }
    }
}

impl std::fmt::Display for Available {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Available::Credits(credits) => credits.fmt(f),
            Available::Infinite => f.write_str("inf"),
        }
    }
}

/// Credits that a TLP consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumption {
    /// The ledger of the credits.
    pub ledger: LedgerId,
    /// Header credits before the TLP.
    pub header_before: Available,
    /// Header credits after the TLP: one less, or the same for a replay.
    pub header_after: Available,
    /// Data credits before the TLP, in units of 16 B.
    pub data_before: Available,
    /// Data credits after the TLP, in units of 16 B.
    pub data_after: Available,
    /// Consumed data credits in units of 16 B; 0 for a replay.
    pub data: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    header: Account,
    data: Account,
}

/// The credits of all links of a capture.
#[derive(Clone, Debug, Default)]
pub struct Ledgers {
    ledgers: BTreeMap<LedgerId, Ledger>,
    sequences: Sequences,
    map: Option<[u8; 8]>,
}

/// Widths of HdrFC and DataFC (`PCIe 5.0 §3.5.1`); scaled flow control uses larger units, not more bits.
const HEADER_BITS: u32 = 8;
const DATA_BITS: u32 = 12;

impl Ledgers {
    /// Creates ledgers without records. Traffic classes above 0 are supported only on links with one virtual channel.
    pub fn new() -> Ledgers {
        Ledgers::default()
    }

    /// Creates ledgers without records. `map` has the virtual channel of each traffic class. The first must be 0.
    pub fn with_map(map: [u8; 8]) -> Ledgers {
        Ledgers { map: Some(map), ..Ledgers::default() }
    }

    /// Processes a record, and returns the credits that a TLP consumed. A TLP seen again consumes none (`PCIe 5.0
    /// §2.6.1.2`). `None` for other records, or if the capture lacks the sequence position of the TLP or the InitFC
    /// of its ledger.
    pub fn see(&mut self, record: &Record<'_>) -> Option<Consumption> {
        match &record.kind {
            Kind::Tlp(tlp) => {
                let is_new = self.sequences.is_new(record);
                self.sequences.tlp(record);
                let ledger = self.ledger_of(way(record), tlp.repr.tc, tlp.repr.format().class)?;
                self.consume(ledger, is_new?, tlp.repr.data_dw().div_ceil(4))
            }
            Kind::Dllp(Dllp::FlowControl(fc)) if !record.mark.is_lost() => {
                self.sequences.pass(record);
                self.grant(opposite(way(record)), fc);
                None
            }
            // After a hole in the file, the consumed credits are unknown.
            Kind::Bad(crate::decode::Bad::File(_)) => {
                self.ledgers.clear();
                self.sequences.hole();
                None
            }
            _ => {
                self.sequences.pass(record);
                None
            }
        }
    }

    /// Returns the remaining header and data credits.
    pub fn available(&self, ledger: LedgerId) -> Option<(Available, Available)> {
        self.ledgers.get(&ledger).map(|l| (l.header.available(), l.data.available()))
    }

    /// Returns the known ledgers.
    pub fn ids(&self) -> impl Iterator<Item = LedgerId> {
        self.ledgers.keys().copied()
    }

    fn ledger_of(&self, way: LinkDirection, tc: TrafficClass, class: Class) -> Option<LedgerId> {
        let of = |vc| LedgerId { way, vc, class };
        match (self.map, tc.bits()) {
            (_, 0) => Some(of(0)),
            (Some(map), tc) => Some(of(map[usize::from(tc)])),
            (None, _) => {
                let only_vc0 = (1..8).all(|vc| !self.ledgers.contains_key(&of(vc)));
                only_vc0.then_some(of(0))
            }
        }
    }

    fn consume(&mut self, id: LedgerId, is_new: bool, data: u32) -> Option<Consumption> {
        let ledger = self.ledgers.get_mut(&id)?;
        let (header_before, data_before) = (ledger.header.available(), ledger.data.available());
        let data = if is_new { data } else { 0 };
        ledger.header.consumed += u64::from(is_new);
        ledger.data.consumed += u64::from(data);
        Some(Consumption {
            ledger: id,
            header_before,
            header_after: ledger.header.available(),
            data_before,
            data_after: ledger.data.available(),
            data,
        })
    }

    fn grant(&mut self, way: LinkDirection, fc: &FlowControl) {
        let id = LedgerId { way, vc: fc.vc.id(), class: fc.class };
        if matches!(fc.kind, FlowControlKind::UpdateFc) {
            if let Some(ledger) = self.ledgers.get_mut(&id) {
                ledger.header.raise(fc.header_credits().into(), HEADER_BITS + fc.header_scale.shift());
                ledger.data.raise(fc.data_credits().into(), DATA_BITS + fc.data_scale.shift());
            }
            return;
        }
        // InitFC DLLPs repeat until both ends have received them. Only the first counts, unless the link comes up again.
        let granted = Ledger {
            header: Account::granted(fc.header_credits().into()),
            data: Account::granted(fc.data_credits().into()),
        };
        let ledger = self.ledgers.entry(id).or_insert(granted);
        if fc.kind == FlowControlKind::InitFc1 && ledger.header.consumed > 0 {
            *ledger = granted;
        }
    }
}

/// Omits the direction and the consumed credits, which the record has.
impl Serialize for Consumption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut o = Object(serializer.serialize_map(None)?);
        o.put("class", class_name(self.ledger.class))?;
        o.put("vc", self.ledger.vc)?;
        o.put("header_before", self.header_before)?;
        o.put("header_after", self.header_after)?;
        o.put("data_before", self.data_before)?;
        o.put("data_after", self.data_after)?;
        o.0.end()
    }
}

impl Account {
    /// Returns the account for the credits in an InitFC, where 0 stands for infinite (`PCIe 5.0 §2.6.1`).
    const fn granted(credits: u64) -> Account {
        Account { limit: if credits == 0 { None } else { Some(credits) }, consumed: 0 }
    }

    /// Raises the limit to the next value with these low bits. An UpdateFC never lowers it.
    fn raise(&mut self, field: u64, bits: u32) {
        if let Some(limit) = &mut self.limit {
            *limit += field.wrapping_sub(*limit) & ((1 << bits) - 1);
        }
    }

    fn available(self) -> Available {
        match self.limit {
            None => Available::Infinite,
            Some(limit) => Available::Credits(limit as i64 - self.consumed as i64),
        }
    }
}
