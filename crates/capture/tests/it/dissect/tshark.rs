// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs stock `tshark` with the dissector, and returns the fields of each frame as a row.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum run time of `tshark` in seconds.
const TIMEOUT_S: &str = "120";

/// All fields that the tests use.
const FIELDS: &[&str] = &[
    "frame.number",
    "nettlp.sequence",
    "nettlp.timestamp",
    "nettlp.origin",
    "nettlp.what",
    "nettlp.session.number",
    "nettlp.session.kind",
    "nettlp.session.id",
    "nettlp.session.nonce",
    "nettlp.session.version",
    "nettlp.session.features",
    "nettlp.session.window",
    "nettlp.session.longest",
    "nettlp.session.noise",
    "nettlp.session.next",
    "nettlp.session.limit",
    "nettlp.session.bitmap",
    "nettlp.session.reason",
    "nettlp.expert.truncated",
    "tlp.type_name",
    "tlp.tc",
    "tlp.attr",
    "tlp.at",
    "tlp.th",
    "tlp.td",
    "tlp.ep",
    "tlp.requester",
    "tlp.completer",
    "tlp.tag",
    "tlp.address",
    "tlp.length_dw",
    "tlp.first_be",
    "tlp.last_be",
    "tlp.request_bytes",
    "tlp.operand_bytes",
    "tlp.status",
    "tlp.bcm",
    "tlp.byte_count",
    "tlp.lower_address",
    "tlp.register",
    "tlp.message_code",
    "tlp.message_name",
    "tlp.message_target",
    "tlp.message_header",
    "tlp.vendor_id",
    "tlp.routing",
    "tlp.payload_bytes",
    "tlp.captured_bytes",
    "tlp.data",
    "tlp.ph",
    "tlp.st",
    "tlp.prefix",
    "tlp.prefix.name",
    "tlp.prefix.pasid",
    "tlp.prefix.pasid.execute",
    "tlp.prefix.pasid.privileged",
    "tlp.prefix.st_high",
    "tlp.ecrc_status",
    "tlp.malformed_rule",
    "tlp.completion_rule",
    "tlp.tolerated_rule",
    "tlp.request_in",
    "tlp.response_in",
    "tlp.completion_in",
    "tlp.completions",
    "tlp.lost",
    "tlp.time_since_request",
    "tlp.response_time",
    "tlp.expert.malformed",
    "tlp.expert.unknown_type",
    "tlp.expert.truncated",
    "tlp.expert.length",
    "tlp.expert.tolerated",
    "tlp.expert.not_captured",
    "tlp.expert.poisoned",
    "tlp.expert.status",
    "tlp.expert.retry",
    "tlp.expert.ecrc",
    "tlp.expert.no_digest",
    "tlp.expert.unexpected",
    "tlp.expert.completion",
    "tlp.expert.tag_reuse",
    "tlp.expert.repeat",
    "tlp.expert.lost",
    "tlp.expert.out_of_order",
    "tlp.expert.unanswered",
    "dllp.type",
    "dllp.name",
    "dllp.sequence",
    "dllp.class",
    "dllp.vc",
    "dllp.hdr_scale",
    "dllp.hdr_fc",
    "dllp.data_scale",
    "dllp.data_fc",
    "dllp.header_credits",
    "dllp.data_credits",
    "dllp.feature_ack",
    "dllp.features",
    "dllp.features.scaled_fc",
    "dllp.crc_status",
    "dllp.expert.length",
    "dllp.expert.crc",
    "dllp.expert.unknown_type",
    "_ws.expert.message",
    "_ws.col.Info",
];

/// The fields that `tshark` shows of a frame, by name. Several values of a field are joined by commas.
#[derive(Clone)]
pub(crate) struct Values(BTreeMap<&'static str, String>);

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().filter(|(_, value)| !value.is_empty())).finish()
    }
}

impl Values {
    /// The value of a field as `tshark` prints it; `None` if the frame does not have the field.
    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        let value = self.0.get(field).unwrap_or_else(|| panic!("{field} was not asked for"));
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns true if the frame has the field.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// The value of an integer or boolean field. Versions of `tshark` print them differently.
    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.get(field).and_then(parse_number)
    }

    /// The value in decimal if it is a number, otherwise the text.
    pub(crate) fn number_or_text(&self, field: &str) -> Option<String> {
        let text = self.get(field)?;
        Some(parse_number(text).map_or_else(|| text.to_owned(), |number| number.to_string()))
    }

    /// The value of a duration in nanoseconds.
    pub(crate) fn nanoseconds(&self, field: &str) -> Option<u128> {
        self.get(field).map(parse_nanoseconds)
    }

    /// The values of a field, for a frame with several TLPs.
    pub(crate) fn all(&self, field: &str) -> impl Iterator<Item = &str> {
        self.get(field).into_iter().flat_map(|values| values.split(','))
    }

    /// The values of an integer or boolean field, for a frame with several TLPs.
    pub(crate) fn numbers(&self, field: &str) -> Vec<u64> {
        self.all(field)
            .map(|value| parse_number(value).unwrap_or_else(|| panic!("{field}: {value}")))
            .collect()
    }
}

pub(crate) fn parse_nanoseconds(text: &str) -> u128 {
    let (seconds, rest) = text.split_once('.').unwrap();
    seconds.parse::<u128>().unwrap() * 1_000_000_000 + format!("{rest:0<9}").parse::<u128>().unwrap()
}

fn parse_number(text: &str) -> Option<u64> {
    match text {
        "True" => Some(1),
        "False" => Some(0),
        _ => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    }
}

/// `tshark` with the dissector.
pub(crate) struct Tshark {
    folder: PathBuf,
}

impl Tshark {
    /// Finds `tshark`; `None` if it is not installed.
    pub(crate) fn find() -> Option<Tshark> {
        let found = Command::new("timeout").args([TIMEOUT_S, "tshark", "--version"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: tshark is not installed");
            return None;
        }
        Some(Tshark { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark") })
    }

    /// The folder of the dissector.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The dissector's files, relative to its folder.
    pub(crate) fn lua_files(&self) -> Vec<PathBuf> {
        let modules = std::fs::read_dir(self.folder.join("riser")).unwrap();
        let modules = modules.map(|module| Path::new("riser").join(module.unwrap().file_name()));
        modules.chain([PathBuf::from("riser.lua")]).collect()
    }

    /// The lines of a capture, printed by a `tshark` that has only the plugins of the user with this home folder.
    pub(crate) fn read_installed(&self, home: &Path, path: &Path) -> String {
        let mut command = Command::new("timeout");
        command.env("HOME", home).args([TIMEOUT_S, "tshark", "-n", "-r"]).arg(path);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Reads a capture in two passes, so that requests know their completions. A filter that matches all frames
    /// makes `tshark` give the marks of frames to the dissector in the first pass too.
    pub(crate) fn read(&self, path: &Path) -> Vec<Values> {
        self.read_with(path, &["-2", "-Y", "frame"])
    }

    /// Like [`read`](Self::read), with these options for the passes.
    pub(crate) fn read_with(&self, path: &Path, passes: &[&str]) -> Vec<Values> {
        let mut command = self.command(passes);
        command.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"]);
        for field in FIELDS {
            command.args(["-e", field]);
        }
        output_of(command, path).lines().map(values).collect()
    }

    /// The details of all frames of a capture, as text.
    pub(crate) fn details(&self, path: &Path) -> String {
        let mut command = self.command(&[]);
        command.arg("-V");
        output_of(command, path)
    }

    fn command(&self, passes: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args([TIMEOUT_S, "tshark", "-n"]).args(passes).arg("-X");
        command.arg(format!("lua_script:{}", self.folder.join("riser.lua").display()));
        command
    }
}

fn output_of(mut command: Command, path: &Path) -> String {
    let output = command.arg("-r").arg(path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("ua:"), "{}: {errors}", path.display());
    String::from_utf8(output.stdout).unwrap()
}

fn values(line: &str) -> Values {
    let row = Values(FIELDS.iter().copied().zip(line.split('\t').map(str::to_owned)).collect());
    let messages = row.get("_ws.expert.message").unwrap_or_default();
    assert!(!messages.contains("Lua Error") && !messages.contains("Exception"), "{row:?}");
    row
}
