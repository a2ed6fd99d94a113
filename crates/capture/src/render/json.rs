// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON object of a record.
//!
//! # The JSON object
//!
//! One line per record. A field is missing if the record does not have it. Numbers are integers.
//!
//! | field | unit, form | present |
//! |---|---|---|
//! | `type` | `MRd`, `MRdLk`, `MWr`, `DMWr`, `IORd`, `IOWr`, `FetchAdd`, `Swap`, `CAS`, `CfgRd0`, `CfgWr0`, `CfgRd1`, `CfgWr1`, `Msg`, `MsgD`, `Cpl`, `CplD`, `CplLk`, `CplDLk`; `dllp`; `other`; `error` | all |
//! | `number` | number of the frame in the file, from 1 | all except faults of the file |
//! | `timestamp_ps` | picoseconds since 1970; in riser's captures since the start of the run | all except faults of the file, and lines of text without a time |
//! | `line` | the line of the file, from 1 | records of text |
//! | `undefined` | 8 hexadecimal digits: the fourth DW of a header log whose header has three; not a part of the TLP | records of text that have it |
//! | `note` | text about the TLP, such as the errors that a kernel logged with it | records of text that have it |
//! | `interface`, `direction` | name; `downstream` or `upstream` | if the capture names interfaces |
//! | `slot`, `end` | the slot or switch at the end of the link; `root` or `device`: the end of the link at which the record was captured | captures of riser |
//! | `damaged`, `dropped` | true: bits were flipped on the link; the frame was lost on the link | if the capture shows it |
//! | `truncated` | true: the frame on the wire was shorter than the length in its IP header | TLPs |
//! | `tlp_sequence` | 0 to 4095: the TLP's sequence number | TLPs in riser's captures with DLLPs |
//! | `vlan` | list of 802.1Q identifiers, outermost first | tagged frames |
//! | `source`, `destination` | IPv4 or IPv6 address | UDP |
//! | `source_port`, `destination_port` | | UDP |
//! | `nettlp_sequence`, `nettlp_timestamp` | the NetTLP header; ticks of 6.4 ns | TLPs, DLLPs |
//! | `origin` | `device` or `host`: the side that issued the request, by the port; always `device` in the older port scheme | TLPs |
//! | `header_bytes` | 12 or 16, without prefixes | TLPs |
//! | `tc`, `attr`, `at` | 0 to 7; bits IDO, RO, NS; 0 to 3 | TLPs |
//! | `th`, `td`, `ep` | true, false | TLPs |
//! | `ecrc` | `good` or `bad`: result of the ECRC check | TLPs with TD that were captured completely |
//! | `prefixes` | list of `name` and `value`, the whole DW | TLPs with prefixes |
//! | `pasid` | 0 to 1048575 | TLPs with a PASID prefix |
//! | `requester`, `completer` | `bus:device.function` in hexadecimal | TLPs; completions, configuration |
//! | `tag` | 0 to 1023 | TLPs |
//! | `address` | address of the first DW | memory, I/O and atomic requests |
//! | `length_dw` | Length in DW, 1 to 1024 | all except Cpl and Msg |
//! | `first_be`, `last_be` | 0 to 15 | memory requests; `first_be` also I/O, configuration |
//! | `request_bytes` | number of bytes from the first to the last enabled one | memory requests |
//! | `operand_bytes` | 4, 8 or 16: size of an operand | atomic requests |
//! | `status` | `SC`, `UR`, `CRS`, `CA` | completions |
//! | `byte_count` | bytes that remain, including this completion's, 1 to 4096 | completions |
//! | `lower_address` | 0 to 127 | completions |
//! | `bcm` | true, false | completions |
//! | `register` | byte offset in configuration space | configuration |
//! | `message_name` | its name in the specification, such as `Assert_INTA` | Msg and MsgD with a defined code |
//! | `message_code`, `routing`, `message_header` | 0 to 255; 0 to 7; 16 hexadecimal digits | Msg, MsgD |
//! | `snoop_latency_ns`, `no_snoop_latency_ns` | nanoseconds; null if the sender has no requirement | LTR |
//! | `payload_bytes` | bytes of data according to Length | types with data |
//! | `captured_bytes` | how many of these bytes were captured | types with data |
//! | `data` | the captured bytes in hexadecimal | types with data, if requested |
//! | `means` | the meaning, as in the text after a line: configuration registers and fields, interrupts, registers of devices | TLPs, if the capture shows it |
//! | `interrupt`, `function`, `vector` | `MSI` or `MSI-X`; the function that sends it; the vector, null if several vectors have the same address and data | MWr that are interrupts |
//! | `dllp` | `Ack`, `Nak`, `InitFC1`, `InitFC2`, `UpdateFC`, `Data_Link_Feature`, `PM_...`, `Vendor-specific`, `NOP` | DLLPs |
//! | `ack_sequence` | 0 to 4095 | Ack, Nak |
//! | `class`, `vc`, `header_credits`, `data_credits` | `P`, `NP` or `Cpl`; 0 to 7; header credits; data credits in units of 16 B; both multiplied by the scale | flow control |
//! | `what` | content of the record | `other` |
//! | `layer` | `file`, `link`, `ethernet`, `vlan`, `ipv4`, `ipv6`, `udp`, `nettlp`, `tlp`, `dllp` | `error` |
//! | `error`, `reason` | kind of error; error as a sentence | `error` |
//! | `header` | type and fields of the header in one line | `error` of a TLP whose header breaks a rule, or whose length is wrong |
//! | `offset` | bytes from the start of the file | faults of the file |

use super::object::{Object, Text, append};
use super::{append_hex, class_name, dllp_name, prefix_name, status_name};
use crate::decode::{Bad, Kind, Path, Record, TlpRecord};
use crate::explain::append_broken_header;
use crate::names::{Interrupt, Meaning};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tlp::{Body, Completion, Dllp, Message, Prefix, Repr};

/// Appends the JSON object of `record`, without a line end.
pub fn json(record: &Record<'_>, out: &mut String) {
    append(&JsonRecord::new(record), out);
}

/// The JSON object of a record. The documentation of this module lists its fields.
#[derive(Clone, Copy)]
pub struct JsonRecord<'a> {
    record: &'a Record<'a>,
    meaning: Option<&'a Meaning>,
    has_data: bool,
}

impl<'a> JsonRecord<'a> {
    /// The object of `record`.
    pub const fn new(record: &'a Record<'a>) -> JsonRecord<'a> {
        JsonRecord { record, meaning: None, has_data: false }
    }

    /// The same object with the meaning of the record.
    #[must_use]
    pub const fn with_meaning(self, meaning: Option<&'a Meaning>) -> JsonRecord<'a> {
        JsonRecord { meaning, ..self }
    }

    /// The same object with the captured data of a TLP.
    #[must_use]
    pub const fn with_data(self) -> JsonRecord<'a> {
        JsonRecord { has_data: true, ..self }
    }
}

impl Serialize for JsonRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.record;
        let in_file = record.number > 0;
        let named = record.interface.filter(|interface| !interface.name.is_empty());
        let mut o = Object(serializer.serialize_map(None)?);
        o.put("type", record.kind.type_name())?;
        o.some("number", in_file.then_some(record.number))?;
        o.some("timestamp_ps", record.time())?;
        o.some("interface", named.map(|interface| &interface.name))?;
        o.some("line", record.text.map(|text| text.line))?;
        o.some("undefined", record.text.and_then(|text| text.undefined).map(|dw| format!("{dw:08x}")))?;
        o.some("note", record.text.map(|text| text.note).filter(|note| !note.is_empty()))?;
        o.some("direction", record.direction)?;
        o.some("slot", named.map(|interface| &*interface.slot).filter(|slot| !slot.is_empty()))?;
        o.some("end", named.and_then(|interface| interface.end))?;
        o.flag("damaged", record.mark.damaged)?;
        o.flag("dropped", record.mark.dropped)?;
        o.flag("truncated", record.truncated)?;
        o.some("tlp_sequence", record.mark.place.map(|place| place & 0xfff))?;
        record.path.as_ref().map_or(Ok(()), |path| o.path(path))?;
        match &record.kind {
            Kind::Tlp(tlp) => o.tlp(tlp)?,
            Kind::Dllp(dllp) => o.dllp(dllp)?,
            Kind::Other(other) => o.put("what", Text(other))?,
            Kind::Bad(bad) => {
                o.bad(bad)?;
                let mut header = String::new();
                append_broken_header(record, &mut header);
                o.some("header", Some(header).filter(|header| !header.is_empty()))?;
            }
        }
        let tlp = record.tlp().filter(|tlp| self.has_data && tlp.payload_bytes > 0);
        o.some("data", tlp.map(|tlp| hex(tlp.data)))?;
        o.some("means", self.meaning.map(Text))?;
        if let Some(Meaning::Interrupt(Interrupt { kind, function, vector })) = self.meaning {
            o.put("interrupt", Text(kind))?;
            o.put("function", Text(function))?;
            o.put("vector", vector)?;
        }
        o.0.end()
    }
}

fn hex(data: &[u8]) -> String {
    let mut text = String::with_capacity(2 * data.len());
    data.iter().for_each(|byte| append_hex(u64::from(*byte), 2, &mut text));
    text
}

#[derive(serde::Serialize)]
struct JsonPrefix {
    name: &'static str,
    value: u32,
}

impl<M: SerializeMap> Object<M> {
    fn path(&mut self, path: &Path) -> Result<(), M::Error> {
        self.some("vlan", Some(path.vlans.ids()).filter(|ids| !ids.is_empty()))?;
        self.put("source", path.source)?;
        self.put("destination", path.destination)?;
        self.put("source_port", path.source_port)?;
        self.put("destination_port", path.destination_port)?;
        self.some("nettlp_sequence", path.nettlp.map(|header| header.sequence))?;
        self.some("nettlp_timestamp", path.nettlp.map(|header| header.timestamp))
    }

    fn tlp(&mut self, tlp: &TlpRecord<'_>) -> Result<(), M::Error> {
        let repr = &tlp.repr;
        self.put("origin", tlp.origin)?;
        self.put("header_bytes", tlp.header_bytes())?;
        self.put("tc", repr.tc.bits())?;
        self.put("attr", repr.attr.bits())?;
        self.put("at", repr.at.bits())?;
        self.put("th", repr.th.is_some())?;
        self.put("td", repr.td)?;
        self.put("ep", repr.ep)?;
        self.some("ecrc", tlp.ecrc)?;
        let prefix = |prefix: &Prefix| JsonPrefix { name: prefix_name(*prefix), value: prefix.0 };
        let prefixes: Vec<JsonPrefix> = tlp.prefixes.as_slice().iter().map(prefix).collect();
        self.some("prefixes", Some(prefixes).filter(|prefixes| !prefixes.is_empty()))?;
        self.some("pasid", tlp.prefixes.pasid())?;
        self.body(repr)?;
        let has_data = tlp.payload_bytes > 0;
        self.some("payload_bytes", has_data.then_some(tlp.payload_bytes))?;
        self.some("captured_bytes", has_data.then_some(tlp.data.len()))
    }

    fn body(&mut self, repr: &Repr) -> Result<(), M::Error> {
        let (requester, tag) = repr.transaction();
        if let Body::Completion(c) = &repr.body {
            self.put("completer", Text(c.completer))?;
        }
        self.put("requester", Text(requester))?;
        if let Body::Config(c) = &repr.body {
            self.put("completer", Text(c.completer))?;
        }
        self.put("tag", tag.bits())?;
        match &repr.body {
            Body::Memory(m) => {
                self.put("address", m.span.address())?;
                self.put("length_dw", m.span.length_dw())?;
                self.put("first_be", m.span.first_be())?;
                self.put("last_be", m.span.last_be())?;
                self.put("request_bytes", m.span.byte_count())
            }
            Body::Io(io) => {
                self.put("address", io.address)?;
                self.put("length_dw", 1)?;
                self.put("first_be", io.first_be)
            }
            Body::Atomic(a) => {
                self.put("address", a.address)?;
                self.put("length_dw", a.length_dw())?;
                self.put("operand_bytes", a.operand.bytes())
            }
            Body::Completion(c) => self.completion(c),
            Body::Config(c) => {
                self.put("register", c.register_dw * 4)?;
                self.put("length_dw", 1)?;
                self.put("first_be", c.first_be)
            }
            Body::Message(m) => self.message(m),
        }
    }

    fn completion(&mut self, c: &Completion) -> Result<(), M::Error> {
        self.put("status", status_name(c.status))?;
        self.put("bcm", c.bcm)?;
        self.put("byte_count", c.byte_count)?;
        self.put("lower_address", c.lower_address)?;
        self.some("length_dw", c.length_dw)
    }

    fn message(&mut self, m: &Message) -> Result<(), M::Error> {
        self.put("message_code", m.code)?;
        self.some("message_name", tlp::message::name_of(m))?;
        self.put("routing", m.routing.bits())?;
        self.put("message_header", format!("{:016x}", u64::from_be_bytes(m.header)))?;
        if let Some([no_snoop, snoop]) = m.latencies_ns() {
            self.put("snoop_latency_ns", snoop)?;
            self.put("no_snoop_latency_ns", no_snoop)?;
        }
        self.some("length_dw", m.length_dw)
    }

    fn dllp(&mut self, dllp: &Dllp) -> Result<(), M::Error> {
        self.put("dllp", dllp_name(dllp))?;
        match dllp {
            Dllp::Ack { sequence } | Dllp::Nak { sequence } => self.put("ack_sequence", sequence),
            Dllp::FlowControl(fc) => {
                self.put("class", class_name(fc.class))?;
                self.put("vc", fc.vc.id())?;
                self.put("header_credits", fc.header_credits())?;
                self.put("data_credits", fc.data_credits())
            }
            Dllp::Feature(_) | Dllp::Pm(_) | Dllp::Vendor { .. } | Dllp::Nop => Ok(()),
        }
    }

    fn bad(&mut self, bad: &Bad) -> Result<(), M::Error> {
        self.put("layer", bad.layer())?;
        self.put("error", bad.kind())?;
        self.put("reason", Text(bad))?;
        match bad {
            Bad::File(fault) => self.put("offset", fault.offset()),
            _ => Ok(()),
        }
    }
}
