// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that were made without riser: `corpus/tlps.txt` and `corpus/dllps.txt` by `tools/corpus/make_corpus.py`,
//! and `corpus/by_hand.txt` by hand. Parsing must give exactly their fields, and emitting exactly their bytes.

use riser_tlp::rules::tolerated;
use riser_tlp::{
    AtomicRequest, Body, Completion, ConfigRequest, Data, Dllp, DllpError, FlowControl, FlowControlKind,
    Header, IoRequest, MemoryRequest, Message, PayloadPool, Repr, Status, Tlp, crc, message,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const TLPS: &str = include_str!("../corpus/tlps.txt");
const DLLPS: &str = include_str!("../corpus/dllps.txt");
const BY_HAND: &str = include_str!("../corpus/by_hand.txt");

type Fields = BTreeMap<String, String>;

fn lines(corpus: &str) -> impl Iterator<Item = (Vec<u8>, Fields, &str)> {
    corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let mut words = line.split_ascii_whitespace();
        let bytes = bytes_of(words.next().unwrap());
        let fields = words.map(|word| word.split_once('=').unwrap_or_else(|| panic!("{word} in {line}")));
        (bytes, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), line)
    })
}

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a TLP in the format of the corpus. Fields with their default value are left out.
fn fields_of(bytes: &[u8]) -> Fields {
    let parsed = match Repr::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Fields::from([("malformed".into(), format!("{:?}", error.on_a_link().rule))]),
    };
    let repr = &parsed.repr;
    let mut list = common(repr);
    list.push(("data", hex(&bytes[parsed.data.clone()])));
    list.extend(match &repr.body {
        Body::Memory(m) => memory(m),
        Body::Io(io) => io_request(io),
        Body::Atomic(a) => atomic(a),
        Body::Completion(c) => completion(c),
        Body::Config(c) => config(c),
        Body::Message(m) => message_of(m),
    });
    let prefixes: Vec<String> = parsed.prefixes.as_slice().iter().map(|p| format!("{:08x}", p.0)).collect();
    list.push(("prefixes", prefixes.join(",")));
    let mut rules: Vec<String> =
        tolerated(&Header::new(bytes).unwrap()).map(|broken| format!("{:?}", broken.rule)).collect();
    rules.sort();
    list.push(("tolerated", rules.join(",")));
    if let Some(fits) = crc::check_ecrc(bytes) {
        list.push(("ecrc", if fits { "right" } else { "wrong" }.into()));
    }
    if let Some(hint) = repr.th {
        list.extend([("ph", format!("{}.", hint.ph.bits())), ("st", format!("{:02x}.", hint.st))]);
    }
    shown(list)
}

/// Leaves out fields that are empty or 0. A dot after a number marks a field to be shown even if it is 0.
fn shown(list: Vec<(&str, String)>) -> Fields {
    let is_shown = |value: &str| !value.is_empty() && value != "0";
    let shown = list.into_iter().filter(|(_, value)| is_shown(value));
    shown.map(|(name, value)| (name.to_owned(), value.trim_end_matches('.').to_owned())).collect()
}

fn common(repr: &Repr) -> Vec<(&'static str, String)> {
    vec![
        ("type", repr.name().into()),
        ("tc", repr.tc.bits().to_string()),
        ("attr", repr.attr.bits().to_string()),
        ("at", repr.at.bits().to_string()),
        ("ln", u8::from(repr.ln).to_string()),
        ("td", u8::from(repr.td).to_string()),
        ("ep", u8::from(repr.ep).to_string()),
        ("tag", repr.transaction().1.bits().to_string()),
        ("requester", format!("{:04x}", repr.transaction().0.bits())),
    ]
}

fn memory(m: &MemoryRequest) -> Vec<(&'static str, String)> {
    vec![
        ("address", format!("{:x}.", m.span.address())),
        ("length", m.span.length_dw().to_string()),
        ("first_be", format!("{:x}.", m.span.first_be())),
        ("last_be", format!("{:x}.", m.span.last_be())),
    ]
}

fn io_request(io: &IoRequest) -> Vec<(&'static str, String)> {
    vec![("address", format!("{:x}.", io.address)), ("first_be", format!("{:x}.", io.first_be))]
}

fn atomic(a: &AtomicRequest) -> Vec<(&'static str, String)> {
    vec![
        ("address", format!("{:x}.", a.address)),
        ("length", a.length_dw().to_string()),
        ("operand", a.operand.bytes().to_string()),
    ]
}

fn config(c: &ConfigRequest) -> Vec<(&'static str, String)> {
    vec![
        ("completer", format!("{:04x}", c.completer.bits())),
        ("register", format!("{:03x}", c.register_dw * 4)),
        ("first_be", format!("{:x}.", c.first_be)),
    ]
}

fn completion(c: &Completion) -> Vec<(&'static str, String)> {
    let status = match c.status {
        Status::Success => "SC",
        Status::UnsupportedRequest => "UR",
        Status::ConfigRetry => "CRS",
        Status::CompleterAbort => "CA",
    };
    vec![
        ("completer", format!("{:04x}", c.completer.bits())),
        ("status", status.into()),
        ("bcm", u8::from(c.bcm).to_string()),
        ("byte_count", c.byte_count.to_string()),
        ("lower_address", c.lower_address.to_string()),
        ("length", c.length_dw.unwrap_or(0).to_string()),
    ]
}

fn message_of(m: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("code", format!("{:02x}", m.code)),
        ("message", message::name_of(m).unwrap_or("-").into()),
        ("routing", format!("{}.", m.routing.bits())),
        ("header", hex(&m.header)),
        ("length", m.length_dw.unwrap_or(0).to_string()),
    ]
}

/// Compares the parser with a corpus. Returns the number of valid packets and the number of malformed ones.
fn check(corpus: &str) -> (usize, usize) {
    let pool = PayloadPool::new();
    let (mut whole, mut malformed) = (0, 0);
    for (bytes, mut expected, line) in lines(corpus) {
        let emits = expected.remove("emits").map_or(bytes.clone(), |hex| bytes_of(&hex));
        assert_eq!(fields_of(&bytes), expected, "{line}");
        let Ok(tlp) = Tlp::parse(&bytes, &pool) else {
            malformed += 1;
            continue;
        };
        whole += 1;
        let mut out = vec![0xee; tlp.wire_len()];
        tlp.emit(&mut out);
        assert_eq!(hex(&out), hex(&emits), "{line}");
        assert!(tlp.is_whole(), "{line}");
        // With counted data, the TLP has the same length, and its data is written as zeros.
        let counted = Tlp { data: Data::Counted(tlp.data.len() as u32), ..tlp.clone() };
        assert_eq!(counted.emit(&mut out), emits.len(), "{line}");
    }
    (whole, malformed)
}

#[test]
fn parses_and_emits_tlps_of_script() {
    let (whole, malformed) = check(TLPS);
    assert!(whole >= 750 && malformed >= 250 && whole + malformed >= 1_000, "{whole} {malformed}");
}

#[test]
fn parses_and_emits_tlps_made_by_hand() {
    let (whole, malformed) = check(BY_HAND);
    assert!(whole >= 48 && malformed >= 12, "{whole} {malformed}");
    for (at, line) in BY_HAND.lines().enumerate().skip(1) {
        let origin = BY_HAND.lines().nth(at - 1).unwrap_or_default();
        assert!(
            line.starts_with('#') || line.is_empty() || origin.starts_with("# "),
            "line {} has no origin",
            at + 1
        );
    }
}

fn fields_of_dllp(bytes: &[u8]) -> Fields {
    let list = match Dllp::parse(bytes) {
        Ok(Dllp::Ack { sequence }) => vec![("type", "Ack".into()), ("sequence", sequence.to_string())],
        Ok(Dllp::Nak { sequence }) => vec![("type", "Nak".into()), ("sequence", sequence.to_string())],
        Ok(Dllp::FlowControl(fc)) => flow_control(&fc),
        Ok(Dllp::Feature(feature)) => vec![
            ("type", "Feature".into()),
            ("ack", u8::from(feature.ack).to_string()),
            ("supported", format!("{:x}", feature.supported)),
        ],
        Ok(Dllp::Pm(pm)) => vec![("type", pm.name().into())],
        Ok(Dllp::Vendor { bits }) => vec![("type", "Vendor".into()), ("bits", format!("{bits:x}"))],
        Ok(Dllp::Nop) => vec![("type", "NOP".into())],
        Err(DllpError::UnknownType(_)) => vec![("error", "type".into())],
        Err(DllpError::Crc { .. }) => vec![("error", "crc".into())],
        Err(DllpError::Length(_)) => vec![("error", "length".into())],
    };
    list.into_iter().map(|(name, value): (&str, String)| (name.to_owned(), value)).collect()
}

fn flow_control(fc: &FlowControl) -> Vec<(&'static str, String)> {
    let kind = match fc.kind {
        FlowControlKind::InitFc1 => "InitFC1",
        FlowControlKind::InitFc2 => "InitFC2",
        FlowControlKind::UpdateFc => "UpdateFC",
    };
    let class = ["P", "NP", "Cpl"][fc.class.index()];
    vec![
        ("type", kind.into()),
        ("class", class.into()),
        ("vc", fc.vc.id().to_string()),
        ("hdr_scale", fc.header_scale.bits().to_string()),
        ("hdr", fc.header.to_string()),
        ("data_scale", fc.data_scale.bits().to_string()),
        ("data", fc.data.to_string()),
    ]
}

#[test]
fn parses_and_emits_dllps_of_script() {
    let mut count = 0;
    for (bytes, mut expected, line) in lines(DLLPS) {
        let emits = expected.remove("emits").map_or(bytes.clone(), |hex| bytes_of(&hex));
        assert_eq!(fields_of_dllp(&bytes), expected, "{line}");
        if let Ok(dllp) = Dllp::parse(&bytes) {
            assert_eq!(hex(&dllp.emit()), hex(&emits), "{line}");
        }
        count += 1;
    }
    assert!(count >= 140, "{count}");
}

/// The corpus has each type, each message and each rule of the parser.
#[test]
fn corpus_has_every_type_message_and_rule() {
    let all: Vec<Fields> = lines(TLPS).map(|(_, fields, _)| fields).collect();
    let has = |name: &str, value: &str| {
        all.iter()
            .any(|fields| fields.get(name).is_some_and(|found| found.split(',').any(|one| one == value)))
    };
    for row in &riser_tlp::FORMATS {
        assert!(has("type", row.name), "{}", row.name);
    }
    for row in &message::MESSAGES {
        assert!(has("message", row.name), "{}", row.name);
    }
    for rule in riser_tlp::rules::RULES.iter().filter(|rule| !rule.is_of_receiver() && !rule.is_of_several())
    {
        let name = format!("{:?}", rule.id);
        let place = if rule.is_tolerated() { "tolerated" } else { "malformed" };
        assert!(has(place, &name), "{name}");
    }
}

/// The files equal the output of the script. Without python3, the test is skipped and reports this.
#[test]
fn corpus_files_equal_output_of_script() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/corpus/make_corpus.py");
    for (name, file) in [("tlps", TLPS), ("dllps", DLLPS)] {
        let Ok(run) = Command::new("python3").arg(&script).arg(name).output() else {
            println!("skipped: no python3 to run {} with", script.display());
            return;
        };
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert!(
            run.stdout == file.as_bytes(),
            "{name}.txt differs from the output of the script; write it again"
        );
    }
}
