// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as rows: columns are the fields of `riser trace --json` (`capture::render`), with the same values.

use super::Clock;
use super::columns::{Batch, Flags, Names, Numbers, Texts, batch};
use super::stream::Rows;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use capture::render::status_name;
use capture::{Record, Sieve, TlpRecord};
use std::net::IpAddr;
use tlp::{Bdf, Body, Completion, Message, Repr};

batch! {
    /// The columns.
    Columns {
        number: Numbers<UInt64Type>,
        line: Numbers<UInt64Type>,
        note: Texts,
        undefined: Texts,
        time_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        interface: Names<String>,
        direction: Names<&'static str>,
        slot: Names<String>,
        end: Names<&'static str>,
        r#type: Names<&'static str>,
        origin: Names<&'static str>,
        requester: Names<Bdf>,
        completer: Names<Bdf>,
        tag: Numbers<UInt16Type>,
        address: Numbers<UInt64Type>,
        length_dw: Numbers<UInt16Type>,
        first_be: Numbers<UInt8Type>,
        last_be: Numbers<UInt8Type>,
        request_bytes: Numbers<UInt32Type>,
        payload_bytes: Numbers<UInt32Type>,
        captured_bytes: Numbers<UInt32Type>,
        operand_bytes: Numbers<UInt8Type>,
        status: Names<&'static str>,
        byte_count: Numbers<UInt16Type>,
        lower_address: Numbers<UInt8Type>,
        bcm: Flags,
        register: Numbers<UInt16Type>,
        message_code: Numbers<UInt8Type>,
        message_name: Names<&'static str>,
        routing: Numbers<UInt8Type>,
        message_header: Texts,
        snoop_latency_ns: Numbers<UInt64Type>,
        no_snoop_latency_ns: Numbers<UInt64Type>,
        header_bytes: Numbers<UInt8Type>,
        tc: Numbers<UInt8Type>,
        attr: Numbers<UInt8Type>,
        at: Numbers<UInt8Type>,
        th: Flags,
        td: Flags,
        ep: Flags,
        ecrc: Names<&'static str>,
        pasid: Numbers<UInt32Type>,
        damaged: Flags,
        dropped: Flags,
        truncated: Flags,
        tlp_sequence: Numbers<UInt16Type>,
        source: Names<IpAddr>,
        destination: Names<IpAddr>,
        source_port: Numbers<UInt16Type>,
        destination_port: Numbers<UInt16Type>,
        nettlp_sequence: Numbers<UInt16Type>,
        nettlp_timestamp: Numbers<UInt32Type>,
    }
}

/// The TLPs for which a filter holds.
pub(super) struct Tlps {
    sieve: Sieve,
    clock: Clock,
    columns: Columns,
}

impl Tlps {
    pub(super) fn new(sieve: Sieve, clock: Clock) -> Tlps {
        Tlps { sieve, clock, columns: Columns::default() }
    }
}

impl Rows for Tlps {
    type Batch = Columns;

    fn see(&mut self, record: &Record<'_>) {
        if self.sieve.keeps(record)
            && let Some(tlp) = record.tlp()
        {
            self.columns.record(record, self.clock);
            self.columns.tlp(tlp);
            self.columns.rows += 1;
        }
    }

    fn settle(&mut self) -> usize {
        self.columns.rows()
    }

    fn batch(&mut self) -> &mut Columns {
        &mut self.columns
    }
}

/// Fields that only some types have.
#[derive(Default)]
struct Fields {
    completer: Option<Bdf>,
    address: Option<u64>,
    length_dw: Option<u16>,
    first_be: Option<u8>,
    last_be: Option<u8>,
    request_bytes: Option<u32>,
    operand_bytes: Option<u8>,
    register: Option<u16>,
    completion: Option<Completion>,
    message: Option<Message>,
}

impl Fields {
    fn of(repr: &Repr) -> Fields {
        let none = Fields::default();
        match &repr.body {
            Body::Memory(m) => Fields {
                address: Some(m.span.address()),
                length_dw: Some(m.span.length_dw() as u16),
                first_be: Some(m.span.first_be()),
                last_be: Some(m.span.last_be()),
                request_bytes: Some(m.span.byte_count()),
                ..none
            },
            Body::Io(io) => Fields {
                address: Some(io.address.into()),
                length_dw: Some(1),
                first_be: Some(io.first_be),
                ..none
            },
            Body::Atomic(a) => Fields {
                address: Some(a.address),
                length_dw: Some(a.length_dw() as u16),
                operand_bytes: Some(a.operand.bytes() as u8),
                ..none
            },
            Body::Completion(c) => {
                Fields { completer: Some(c.completer), length_dw: c.length_dw, completion: Some(*c), ..none }
            }
            Body::Config(c) => Fields {
                completer: Some(c.completer),
                length_dw: Some(1),
                first_be: Some(c.first_be),
                register: Some(c.register_dw * 4),
                ..none
            },
            Body::Message(m) => Fields { length_dw: m.length_dw, message: Some(*m), ..none },
        }
    }
}

impl Columns {
    fn record(&mut self, record: &Record<'_>, clock: Clock) {
        let row = self.rows;
        self.number.put(row, record.number);
        let has_time = record.text.is_none_or(|text| text.has_time);
        self.time_ps.put(row, clock.ps(record.timestamp).filter(|_| has_time));
        if let Some(text) = &record.text {
            self.line.put(row, text.line);
            self.note.put(row, Some(text.note).filter(|note| !note.is_empty()));
            self.undefined.put(row, text.undefined.map(|dw| format!("{dw:08x}")));
        }
        let interface = record.interface;
        self.link.put(row, interface.map(|interface| interface.link));
        let named = interface.filter(|interface| !interface.name.is_empty());
        self.interface.put_str(row, named.map(|interface| interface.name.as_str()));
        self.direction.put(row, named.and_then(|interface| interface.direction).map(|way| way.name()));
        let slot = named.map(|interface| &*interface.slot);
        self.slot.put_str(row, slot.filter(|slot| !slot.is_empty()));
        self.end.put(row, named.and_then(|interface| interface.end).map(|end| end.name()));
        self.damaged.put(row, record.mark.damaged);
        self.dropped.put(row, record.mark.dropped);
        self.truncated.put(row, record.truncated);
        self.tlp_sequence.put(row, record.mark.place.map(|place| (place & 0xfff) as u16));
        let path = record.path.as_ref();
        self.source.put(row, path.map(|path| path.source));
        self.destination.put(row, path.map(|path| path.destination));
        self.source_port.put(row, path.map(|path| path.source_port));
        self.destination_port.put(row, path.map(|path| path.destination_port));
        let nettlp = path.and_then(|path| path.nettlp);
        self.nettlp_sequence.put(row, nettlp.map(|header| header.sequence));
        self.nettlp_timestamp.put(row, nettlp.map(|header| header.timestamp));
    }

    fn tlp(&mut self, tlp: &TlpRecord<'_>) {
        let (row, repr) = (self.rows, &tlp.repr);
        self.r#type.put(row, Some(repr.format().name));
        self.origin.put(row, Some(tlp.origin.name()));
        let (requester, tag) = repr.transaction();
        self.requester.put(row, Some(requester));
        self.tag.put(row, tag.bits());
        self.header_bytes.put(row, tlp.header_bytes() as u8);
        self.tc.put(row, repr.tc.bits());
        self.attr.put(row, repr.attr.bits());
        self.at.put(row, repr.at.bits());
        self.th.put(row, repr.th.is_some());
        self.td.put(row, repr.td);
        self.ep.put(row, repr.ep);
        self.ecrc.put(row, tlp.ecrc.map(|ecrc| ecrc.name()));
        self.pasid.put(row, tlp.prefixes.pasid());
        let has_data = tlp.payload_bytes > 0;
        self.payload_bytes.put(row, has_data.then_some(tlp.payload_bytes as u32));
        self.captured_bytes.put(row, has_data.then_some(tlp.data.len() as u32));
        self.body(&Fields::of(repr));
    }

    fn body(&mut self, fields: &Fields) {
        let row = self.rows;
        self.completer.put(row, fields.completer);
        self.address.put(row, fields.address);
        self.length_dw.put(row, fields.length_dw);
        self.first_be.put(row, fields.first_be);
        self.last_be.put(row, fields.last_be);
        self.request_bytes.put(row, fields.request_bytes);
        self.operand_bytes.put(row, fields.operand_bytes);
        self.register.put(row, fields.register);
        if let Some(completion) = &fields.completion {
            self.status.put(row, Some(status_name(completion.status)));
            self.byte_count.put(row, completion.byte_count);
            self.lower_address.put(row, completion.lower_address);
            self.bcm.put(row, completion.bcm);
        }
        if let Some(message) = &fields.message {
            self.message_code.put(row, message.code);
            self.message_name.put(row, tlp::message::name_of(message));
            self.routing.put(row, message.routing.bits());
            self.message_header.put(row, Some(format!("{:016x}", u64::from_be_bytes(message.header))));
            let [no_snoop, snoop] = message.latencies_ns().unwrap_or_default();
            self.snoop_latency_ns.put(row, snoop);
            self.no_snoop_latency_ns.put(row, no_snoop);
        }
    }
}
