// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON object of a record. Never decodes.
//!
//! # The JSON object
//!
//! One line a record. A field is there where the record has it; numbers are integers.
//!
//! | field | unit, form | where |
//! |---|---|---|
//! | `type` | `MRd`, `MRdLk`, `MWr`, `DMWr`, `IORd`, `IOWr`, `FetchAdd`, `Swap`, `CAS`, `CfgRd0`, `CfgWr0`, `CfgRd1`, `CfgWr1`, `Msg`, `MsgD`, `Cpl`, `CplD`, `CplLk`, `CplDLk`; `dllp`; `other`; `error` | all |
//! | `number` | place among the frames of the file, from 1 | all but faults of the file |
//! | `timestamp_ps` | picoseconds since 1970, in riser's captures since the start of the run | as `number` |
//! | `interface`, `direction` | name; `downstream`, `upstream` | where the capture names interfaces |
//! | `damaged`, `dropped` | true: bits were flipped on the way; it vanished on the way | where the capture says so |
//! | `truncated` | true: the wire had fewer bytes than IP says | TLPs |
//! | `tlp_sequence` | 0 to 4095: the TLP's sequence number | TLPs of captures of riser with DLLPs |
//! | `vlan` | list of 802.1Q identifiers, outermost first | tagged frames |
//! | `source`, `destination` | IPv4 or IPv6 address | UDP |
//! | `source_port`, `destination_port` | | UDP |
//! | `nettlp_sequence`, `nettlp_timestamp` | the NetTLP header; ticks of 6.4 ns | TLPs, DLLPs |
//! | `origin` | `device`, `host`: who issued the request, by its port; in the older port scheme all ports are the device's | TLPs |
//! | `tc`, `attr`, `at` | 0 to 7; bits IDO, RO, NS; 0 to 3 | TLPs |
//! | `th`, `td`, `ep` | true, false | TLPs |
//! | `ecrc` | `good`, `bad`: what its digest says | TLPs with TD of which all was captured |
//! | `prefixes` | list of `name` and `value`, the whole DW | TLPs with prefixes |
//! | `pasid` | 0 to 1048575 | TLPs with a PASID prefix |
//! | `requester`, `completer` | `bus:device.function` in hexadecimal | TLPs; completions, configuration |
//! | `tag` | 0 to 1023 | TLPs |
//! | `address` | of the first DW, bytes | memory, I/O and atomic requests |
//! | `length_dw` | Length, DW, 1 to 1024 | all but Cpl, Msg |
//! | `first_be`, `last_be` | 0 to 15 | memory requests; `first_be` also I/O, configuration |
//! | `request_bytes` | from the first to the last enabled byte | memory requests |
//! | `operand_bytes` | 4, 8 or 16: one operand | atomic requests |
//! | `status` | `SC`, `UR`, `CRS`, `CA` | completions |
//! | `byte_count` | bytes that remain, 1 to 4096 | completions |
//! | `lower_address` | 0 to 127 | completions |
//! | `bcm` | true, false | completions |
//! | `register` | byte offset in configuration space | configuration |
//! | `message_name` | its name in the specification, such as `Assert_INTA` | Msg, MsgD of a known code |
//! | `message_code`, `routing`, `message_header` | 0 to 255; 0 to 7; 16 hexadecimal digits | Msg, MsgD |
//! | `payload_bytes` | data by Length, bytes | types that carry data |
//! | `captured_bytes` | of them, those that the capture holds | as `payload_bytes` |
//! | `data` | those bytes, in hexadecimal | types that carry data, where asked for |
//! | `means` | what the text shows behind the line: configuration registers by name and field, interrupts, registers of devices | TLPs, where the capture tells |
//! | `interrupt`, `function`, `vector` | `MSI`, `MSI-X`; whose; which, null where several vectors send the same | MWr that are interrupts |
//! | `dllp` | `Ack`, `Nak`, `InitFC1`, `InitFC2`, `UpdateFC`, `Data_Link_Feature`, `PM_...`, `Vendor-specific`, `NOP` | DLLPs |
//! | `ack_sequence` | 0 to 4095 | Ack, Nak |
//! | `class`, `vc`, `header_credits`, `data_credits` | `P`, `NP`, `Cpl`; 0 to 7; header credits; data credits, units of 16 B: both times the scale | flow control |
//! | `what` | what it is instead | `other` |
//! | `layer` | `file`, `link`, `ethernet`, `vlan`, `ipv4`, `ipv6`, `udp`, `nettlp`, `tlp`, `dllp` | `error` |
//! | `error`, `reason` | short name, sentence | `error` |
//! | `offset` | bytes from the start of the file | faults of the file |

use super::{append_hex, class_name, dllp_name, status_name};
use crate::decode::{Bad, Ecrc, Kind, Other, Path, Record, TlpRecord};
use crate::encap::{Layer, Origin};
use crate::names::{Interrupt, InterruptKind, Meaning};
use crate::reader::Direction;
use crate::time::Timestamp;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use tlp::{
    AtomicRequest, Bdf, Body, Completion, ConfigRequest, Dllp, IoRequest, MemoryRequest, Message, Prefix,
    PrefixKind,
};

/// Appends the JSON object of `record`, without a line end.
pub fn json(record: &Record<'_>, out: &mut String) {
    append(&JsonRecord::new(record), out);
}

fn append(value: &impl Serialize, out: &mut String) {
    // Strings, integers and lists of them: nothing here fails to serialize.
    if let Ok(text) = serde_json::to_string(value) {
        out.push_str(&text);
    }
}

/// The JSON object of a record; its fields are in the head of this module.
#[derive(Serialize)]
pub struct JsonRecord<'a> {
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_ps: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    #[serde(skip_serializing_if = "is_false")]
    damaged: bool,
    #[serde(skip_serializing_if = "is_false")]
    dropped: bool,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tlp_sequence: Option<u16>,
    #[serde(flatten)]
    path: Option<JsonPath<'a>>,
    #[serde(flatten)]
    body: JsonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<String>,
    #[serde(flatten)]
    interrupt: Option<JsonInterrupt>,
}

#[derive(Serialize)]
struct JsonInterrupt {
    interrupt: Text<InterruptKind>,
    function: Text<Bdf>,
    vector: Option<u16>,
}

impl JsonInterrupt {
    fn new(interrupt: &Interrupt) -> JsonInterrupt {
        let Interrupt { kind, function, vector } = *interrupt;
        JsonInterrupt { interrupt: Text(kind), function: Text(function), vector }
    }
}

#[derive(Serialize)]
struct JsonPath<'a> {
    #[serde(skip_serializing_if = "<[u16]>::is_empty")]
    vlan: &'a [u16],
    source: IpAddr,
    destination: IpAddr,
    source_port: u16,
    destination_port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    nettlp_sequence: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nettlp_timestamp: Option<u32>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonKind {
    Tlp(JsonTlp),
    Dllp(JsonDllp),
    Other { what: Text<Other> },
    Bad(JsonBad),
}

#[derive(Serialize)]
struct JsonTlp {
    origin: Origin,
    tc: u8,
    attr: u8,
    at: u8,
    th: bool,
    td: bool,
    ep: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecrc: Option<Ecrc>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prefixes: Vec<JsonPrefix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pasid: Option<u32>,
    #[serde(flatten)]
    body: JsonBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured_bytes: Option<usize>,
}

#[derive(Serialize)]
struct JsonPrefix {
    name: &'static str,
    value: u32,
}

impl JsonPrefix {
    fn new(prefix: &Prefix) -> JsonPrefix {
        JsonPrefix { name: prefix_name(*prefix), value: prefix.0 }
    }
}

/// The name of a prefix's type.
#[must_use]
pub const fn prefix_name(prefix: Prefix) -> &'static str {
    match prefix.kind() {
        PrefixKind::MrIov => "MR-IOV",
        PrefixKind::VendorLocal(0) => "VendPrefixL0",
        PrefixKind::VendorLocal(_) => "VendPrefixL1",
        PrefixKind::ExtendedTph => "Extended TPH",
        PrefixKind::Pasid => "PASID",
        PrefixKind::VendorEndToEnd(0) => "VendPrefixE0",
        PrefixKind::VendorEndToEnd(_) => "VendPrefixE1",
        PrefixKind::Reserved => "reserved",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonBody {
    Memory(JsonMemory),
    Io(JsonIo),
    Atomic(JsonAtomic),
    Completion(JsonCompletion),
    Config(JsonConfig),
    Message(JsonMessage),
}

#[derive(Serialize)]
struct JsonMemory {
    requester: Text<Bdf>,
    tag: u16,
    address: u64,
    length_dw: u32,
    first_be: u8,
    last_be: u8,
    request_bytes: u32,
}

#[derive(Serialize)]
struct JsonIo {
    requester: Text<Bdf>,
    tag: u16,
    address: u32,
    length_dw: u32,
    first_be: u8,
}

#[derive(Serialize)]
struct JsonAtomic {
    requester: Text<Bdf>,
    tag: u16,
    address: u64,
    length_dw: u32,
    operand_bytes: u32,
}

#[derive(Serialize)]
struct JsonCompletion {
    completer: Text<Bdf>,
    requester: Text<Bdf>,
    tag: u16,
    status: &'static str,
    bcm: bool,
    byte_count: u16,
    lower_address: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_dw: Option<u16>,
}

#[derive(Serialize)]
struct JsonConfig {
    requester: Text<Bdf>,
    completer: Text<Bdf>,
    tag: u16,
    register: u16,
    length_dw: u32,
    first_be: u8,
}

#[derive(Serialize)]
struct JsonMessage {
    requester: Text<Bdf>,
    tag: u16,
    message_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_name: Option<&'static str>,
    routing: u8,
    message_header: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_dw: Option<u16>,
}

#[derive(Serialize)]
struct JsonDllp {
    dllp: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_sequence: Option<u16>,
    #[serde(flatten)]
    credits: Option<JsonCredits>,
}

#[derive(Serialize)]
struct JsonCredits {
    class: &'static str,
    vc: u8,
    header_credits: u16,
    data_credits: u16,
}

#[derive(Serialize)]
struct JsonBad {
    layer: Layer,
    error: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

/// Serializes as what its `Display` prints.
struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'a> JsonRecord<'a> {
    /// The object of `record`.
    #[must_use]
    pub fn new(record: &'a Record<'_>) -> JsonRecord<'a> {
        let in_file = record.number > 0;
        let named = record.interface.filter(|interface| !interface.name.is_empty());
        JsonRecord {
            r#type: record.kind.type_name(),
            number: in_file.then_some(record.number),
            timestamp_ps: in_file.then_some(record.timestamp),
            interface: named.map(|interface| interface.name.as_str()),
            direction: named.and_then(|interface| interface.direction),
            damaged: record.mark.damaged,
            dropped: record.mark.dropped,
            truncated: record.truncated,
            tlp_sequence: record.mark.place.map(|place| (place & 0xfff) as u16),
            path: record.path.as_ref().map(JsonPath::new),
            body: JsonKind::new(&record.kind),
            data: None,
            means: None,
            interrupt: None,
        }
    }

    /// The same, with what the record means.
    #[must_use]
    pub fn with_meaning(mut self, meaning: Option<&Meaning>) -> JsonRecord<'a> {
        self.means = meaning.map(ToString::to_string);
        self.interrupt = match meaning {
            Some(Meaning::Interrupt(interrupt)) => Some(JsonInterrupt::new(interrupt)),
            _ => None,
        };
        self
    }

    /// The same, with the data of the TLP that it is, as far as it was captured.
    #[must_use]
    pub fn with_data(mut self, record: &Record<'_>) -> JsonRecord<'a> {
        self.data = record.tlp().filter(|tlp| tlp.payload_bytes > 0).map(|tlp| {
            let mut text = String::with_capacity(2 * tlp.data.len());
            tlp.data.iter().for_each(|byte| append_hex(u64::from(*byte), 2, &mut text));
            text
        });
        self
    }
}

impl<'a> JsonPath<'a> {
    fn new(path: &'a Path) -> JsonPath<'a> {
        JsonPath {
            vlan: path.vlans.ids(),
            source: path.source,
            destination: path.destination,
            source_port: path.source_port,
            destination_port: path.destination_port,
            nettlp_sequence: path.nettlp.map(|header| header.sequence),
            nettlp_timestamp: path.nettlp.map(|header| header.timestamp),
        }
    }
}

impl JsonKind {
    fn new(kind: &Kind<'_>) -> JsonKind {
        match kind {
            Kind::Tlp(tlp) => JsonKind::Tlp(JsonTlp::new(tlp)),
            Kind::Dllp(dllp) => JsonKind::Dllp(JsonDllp::new(dllp)),
            Kind::Other(other) => JsonKind::Other { what: Text(*other) },
            Kind::Bad(bad) => JsonKind::Bad(JsonBad::new(bad)),
        }
    }
}

impl JsonTlp {
    fn new(tlp: &TlpRecord<'_>) -> JsonTlp {
        let repr = &tlp.repr;
        let has_data = tlp.payload_bytes > 0;
        JsonTlp {
            origin: tlp.origin,
            tc: repr.tc.bits(),
            attr: repr.attr.bits(),
            at: repr.at.bits(),
            th: repr.th.is_some(),
            td: repr.td,
            ep: repr.ep,
            ecrc: tlp.ecrc,
            prefixes: tlp.prefixes.as_slice().iter().map(JsonPrefix::new).collect(),
            pasid: tlp.prefixes.pasid(),
            body: match &repr.body {
                Body::Memory(m) => JsonBody::Memory(m.into()),
                Body::Io(io) => JsonBody::Io(io.into()),
                Body::Atomic(a) => JsonBody::Atomic(a.into()),
                Body::Completion(c) => JsonBody::Completion(c.into()),
                Body::Config(c) => JsonBody::Config(c.into()),
                Body::Message(m) => JsonBody::Message(m.into()),
            },
            payload_bytes: has_data.then_some(tlp.payload_bytes),
            captured_bytes: has_data.then_some(tlp.data.len()),
        }
    }
}

impl From<&MemoryRequest> for JsonMemory {
    fn from(m: &MemoryRequest) -> JsonMemory {
        JsonMemory {
            requester: Text(m.requester),
            tag: m.tag.bits(),
            address: m.span.address(),
            length_dw: m.span.length_dw(),
            first_be: m.span.first_be(),
            last_be: m.span.last_be(),
            request_bytes: m.span.byte_count(),
        }
    }
}

impl From<&IoRequest> for JsonIo {
    fn from(io: &IoRequest) -> JsonIo {
        JsonIo {
            requester: Text(io.requester),
            tag: io.tag.bits(),
            address: io.address,
            length_dw: 1,
            first_be: io.first_be,
        }
    }
}

impl From<&AtomicRequest> for JsonAtomic {
    fn from(a: &AtomicRequest) -> JsonAtomic {
        JsonAtomic {
            requester: Text(a.requester),
            tag: a.tag.bits(),
            address: a.address,
            length_dw: a.length_dw(),
            operand_bytes: a.operand.bytes(),
        }
    }
}

impl From<&Completion> for JsonCompletion {
    fn from(c: &Completion) -> JsonCompletion {
        JsonCompletion {
            completer: Text(c.completer),
            requester: Text(c.requester),
            tag: c.tag.bits(),
            status: status_name(c.status),
            bcm: c.bcm,
            byte_count: c.byte_count,
            lower_address: c.lower_address,
            length_dw: c.length_dw,
        }
    }
}

impl From<&ConfigRequest> for JsonConfig {
    fn from(c: &ConfigRequest) -> JsonConfig {
        JsonConfig {
            requester: Text(c.requester),
            completer: Text(c.completer),
            tag: c.tag.bits(),
            register: c.register_dw * 4,
            length_dw: 1,
            first_be: c.first_be,
        }
    }
}

impl From<&Message> for JsonMessage {
    fn from(m: &Message) -> JsonMessage {
        JsonMessage {
            requester: Text(m.requester),
            tag: m.tag.bits(),
            message_code: m.code,
            message_name: tlp::message::name_of(m),
            routing: m.routing.bits(),
            message_header: format!("{:016x}", u64::from_be_bytes(m.header)),
            length_dw: m.length_dw,
        }
    }
}

impl JsonDllp {
    fn new(dllp: &Dllp) -> JsonDllp {
        let (ack_sequence, credits) = match dllp {
            Dllp::Ack { sequence } | Dllp::Nak { sequence } => (Some(*sequence), None),
            Dllp::FlowControl(fc) => {
                let class = class_name(fc.class);
                (
                    None,
                    Some(JsonCredits {
                        class,
                        vc: fc.vc.id(),
                        header_credits: fc.header_credits(),
                        data_credits: fc.data_credits(),
                    }),
                )
            }
            Dllp::Feature(_) | Dllp::Pm(_) | Dllp::Vendor { .. } | Dllp::Nop => (None, None),
        };
        JsonDllp { dllp: dllp_name(dllp), ack_sequence, credits }
    }
}

impl JsonBad {
    fn new(bad: &Bad) -> JsonBad {
        let offset = match bad {
            Bad::File(fault) => Some(fault.offset()),
            _ => None,
        };
        JsonBad { layer: bad.layer(), error: bad.kind(), reason: bad.to_string(), offset }
    }
}
