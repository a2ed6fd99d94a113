// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser schema`: independent validators accept all files of the repository with its schemas, and refuse the files that riser refuses.

mod bad;

use crate::common::{finish, riser_ok};
use devices::pcie_bench::card;
use lab::{FileErrors, Folder, Overrides, Reader};
use plug::site::NativeCode;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::root;

/// Exit status of scripts/python.sh if the packages are not available.
const NO_PACKAGES: i32 = 77;
const REQUIREMENTS: &str = "crates/cli/tests/schema/requirements.txt";
/// Folders with files of the four kinds.
const FOLDERS: [&str; 9] = [
    "labs",
    "gallery",
    "crates/lab/profiles",
    "crates/devices/profiles",
    "crates/native/examples",
    "crates/rtl/examples",
    "rtl",
    "examples",
    "fuzz/seeds",
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Lab,
    Profile,
    Design,
    Sweep,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Lab, Kind::Profile, Kind::Design, Kind::Sweep];

    const fn name(self) -> &'static str {
        match self {
            Kind::Lab => "lab",
            Kind::Profile => "profile",
            Kind::Design => "design",
            Kind::Sweep => "sweep",
        }
    }

    /// Returns the kind of a file of the repository, from its keys.
    fn of(file: &Value) -> Option<Kind> {
        let has = |key: &str| file.get(key).is_some();
        match () {
            () if has("lab") => Some(Kind::Sweep),
            () if has("top") => Some(Kind::Design),
            () if file["kind"].is_string() => Some(Kind::Profile),
            () if has("slot") || has("switch") => Some(Kind::Lab),
            () => None,
        }
    }

    fn schema(self) -> Value {
        serde_json::from_str(&riser_ok(&["schema", self.name()])).unwrap()
    }
}

/// A file of the repository that is TOML.
struct File {
    kind: Kind,
    path: PathBuf,
    contents: Value,
}

impl File {
    fn toml(&self) -> String {
        toml::to_string(&self.contents).unwrap_or_else(|e| panic!("{}: {e}", self.path.display()))
    }
}

fn toml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("riser-rtl") {
            toml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found.sort();
}

/// Returns the files of the four kinds.
fn files() -> Vec<File> {
    let mut paths = Vec::new();
    FOLDERS.iter().for_each(|folder| toml_files(&root().join(folder), &mut paths));
    let file = |path: PathBuf| {
        // Seeds of fuzzers are not always TOML.
        let contents: Value = toml::from_str(&String::from_utf8(fs::read(&path).ok()?).ok()?).ok()?;
        Some(File { kind: Kind::of(&contents)?, path, contents })
    };
    paths.into_iter().filter_map(file).collect()
}

/// riser's own readers of the four kinds.
struct Riser {
    labs: Reader,
    scratch: tempfile::TempDir,
}

impl Riser {
    fn new() -> Riser {
        Riser { labs: Reader::new(&riser_cli::models()), scratch: tempfile::tempdir().unwrap() }
    }

    /// Reads `text` in place of the file at `path`.
    fn read(&self, kind: Kind, path: &Path, text: &str) -> Result<(), String> {
        let copy = || {
            let copy = self.scratch.path().join("copy.toml");
            fs::write(&copy, text).unwrap();
            copy
        };
        let folder = Folder::from(self.scratch.path());
        match kind {
            Kind::Lab => {
                let read = self.labs.parse(path, text, Folder::of(path), &Overrides::default());
                read.map(|_| ()).map_err(messages)
            }
            Kind::Profile if text.contains("kind = \"device\"") => {
                copy();
                card("copy.toml", &folder).map(|_| ()).map_err(|e| e.to_string())
            }
            Kind::Profile => {
                copy();
                lab::profile::host("copy.toml", self.scratch.path()).map(|_| ()).map_err(|e| e.to_string())
            }
            Kind::Design => ::rtl::Design::read(&copy()).map(|_| ()).map_err(messages),
            Kind::Sweep => {
                let file = ::sweep::TextFile { path: path.to_owned(), text: text.to_owned() };
                let read = ::sweep::Sweep::parse(&riser_cli::models(), file, None, NativeCode::NotLoaded);
                read.map(|_| ()).map_err(messages)
            }
        }
    }
}

/// Returns the errors without their places, which move with every key.
fn messages(errors: FileErrors) -> String {
    errors.all().iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the error of each file by the validator, `None` for a valid one. Returns `None` as a whole if the validator cannot be installed.
fn validated(files: &[(Kind, String)]) -> Option<Vec<Option<String>>> {
    let schemas: Value = Kind::ALL.iter().map(|kind| (kind.name().to_owned(), kind.schema())).collect();
    let list: Vec<Value> =
        files.iter().map(|(kind, toml)| json!({ "kind": kind.name(), "toml": toml })).collect();
    let mut python = Command::new(root().join("scripts/python.sh"))
        .args(["--with", REQUIREMENTS, "crates/cli/tests/schema/validate.py"])
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let task = json!({ "schemas": schemas, "files": list }).to_string();
    // If the packages are not available, the script ends without reading.
    let _ = python.stdin.take().unwrap().write_all(task.as_bytes());
    let output = python.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_PACKAGES) {
        eprintln!("skipped: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn schemas_have_title_descriptions_and_no_foreign_keywords() {
    for kind in Kind::ALL {
        let text = riser_ok(&["schema", kind.name()]);
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_eq!(schema["title"], format!("riser {}", kind.name()));
        for foreign in
            ["\"$defs\"", "powerOfTwo", "scaledMaximum", "\"null\"", "\"format\"", "#/$defs", "\"allOf\""]
        {
            assert!(!text.contains(foreign), "{}: {foreign}", kind.name());
        }
        assert!(
            text.matches("\"description\"").count() > 20 && text.contains("\"additionalProperties\": false")
        );
    }
}

/// Returns the places of integers that have neither legal values nor both limits.
fn unlimited(of: &Value, place: &str) -> Vec<String> {
    let is_unlimited = of["type"] == "integer"
        && of.get("enum").is_none()
        && (of.get("minimum").is_none() || of.get("maximum").is_none());
    let parts: Vec<(String, &Value)> = match of {
        Value::Object(keys) => keys.iter().map(|(key, of)| (key.clone(), of)).collect(),
        Value::Array(all) => all.iter().enumerate().map(|(n, of)| (n.to_string(), of)).collect(),
        _ => Vec::new(),
    };
    let below = parts.iter().flat_map(|(key, of)| unlimited(of, &format!("{place}/{key}")));
    is_unlimited.then(|| place.to_owned()).into_iter().chain(below).collect()
}

#[test]
fn every_integer_of_a_schema_has_limits() {
    for kind in Kind::ALL {
        assert_eq!(unlimited(&kind.schema(), ""), Vec::<String>::new(), "{}", kind.name());
    }
}

#[test]
fn validator_accepts_all_files_of_the_repository_that_riser_accepts() {
    let riser = Riser::new();
    let texts = files().into_iter().map(|file| {
        let text = fs::read_to_string(&file.path).unwrap();
        (riser.read(file.kind, &file.path, &text).is_ok(), file, text)
    });
    let good: Vec<_> = texts.filter(|(is_good, ..)| *is_good).collect();
    let count = |kind: Kind| good.iter().filter(|(_, file, _)| file.kind == kind).count();
    let counts = Kind::ALL.map(count);
    assert!(counts.iter().zip([50, 15, 6, 2]).all(|(count, least)| *count >= least), "{counts:?}");
    let list: Vec<_> = good.iter().map(|(_, file, text)| (file.kind, text.clone())).collect();
    for ((_, file, _), error) in good.iter().zip(validated(&list).into_iter().flatten()) {
        assert_eq!(error, None, "{}", file.path.display());
    }
}

/// Settings of all models that a slot names. riser also looks for the design.
#[test]
fn validator_accepts_settings_of_driver_and_data_link() {
    let slot = "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"nettlp-adapter\"\ndriver = \"dma-engine\"\ndata_link = \"rtl-link\"\n\
        dma-engine = { vfs = 0 }\nnettlp-adapter = {}\nrtl-link = { design = \"x.toml\" }\n";
    assert_eq!(
        validated(&[(Kind::Lab, slot.to_owned())]).unwrap_or_default().into_iter().flatten().next(),
        None
    );
}

/// Rows of every key of the four kinds, and of every table: see [`bad`].
#[test]
fn validator_refuses_what_riser_refuses() {
    let riser = Riser::new();
    let cases = bad::cases(&files(), &riser);
    let list: Vec<_> = cases.iter().map(|case| (case.kind, case.toml())).collect();
    let accepted = cases.iter().filter(|case| !case.is_refused(&riser)).map(bad::Case::to_string);
    let accepted: Vec<_> = accepted.collect();
    assert!(
        accepted.is_empty(),
        "riser accepts {} of {}:\n{}",
        accepted.len(),
        cases.len(),
        accepted.join("\n")
    );
    let Some(errors) = validated(&list) else { return };
    let accepted =
        cases.iter().zip(errors).filter(|(_, error)| error.is_none()).map(|(case, _)| case.to_string());
    let accepted: Vec<_> = accepted.collect();
    assert!(
        accepted.is_empty(),
        "the schema accepts {} of {}:\n{}",
        accepted.len(),
        cases.len(),
        accepted.join("\n")
    );
}

/// Errors that involve the device of a slot, and lists that are too long or too short.
#[test]
fn validator_refuses_errors_between_neighbouring_keys() {
    let slot = |more: &str| format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{more}");
    let sweep = |more: &str| format!("version = 1\nlab = \"../ping.toml\"\n{more}");
    let rows = [
        (Kind::Lab, slot("[slot.nvme]\n")),
        (Kind::Lab, slot("").replace("\"a\"", "\"\"")),
        (Kind::Lab, slot("").replace("\"a\"", &format!("\"{}\"", "x".repeat(65)))),
        (Kind::Lab, slot("driver = \"nmve\"\n")),
        (Kind::Lab, slot("").replace("memory", "native")),
        (Kind::Lab, slot("[slot.native]\n").replace("memory", "native")),
        (Kind::Lab, slot("").replace("memory", "rtl")),
        (Kind::Lab, slot("driver = \"replay\"\n")),
        (Kind::Lab, slot("data_link = \"rtl-link\"\n")),
        (Kind::Lab, slot("data_link = \"rtl-link\"\n[slot.rtl-link]\n")),
        (Kind::Lab, slot("data_link = \"rtl-lnik\"\n")),
        (Kind::Lab, slot("[slot.rtl-link]\ndesign = \"x.toml\"\n")),
        (Kind::Sweep, sweep("[metrics]\na = \"tlp_hops\"\n")),
        (Kind::Sweep, sweep("[over]\nseed = [1]\n")),
        (Kind::Sweep, sweep("[over]\nseed = []\n[metrics]\na = \"tlp_hops\"\n")),
        (Kind::Sweep, sweep("[over]\nseed = { from = 1, to = 2, by = 1 }\n[metrics]\na = \"tlp_hops\"\n")),
        (Kind::Sweep, sweep("[over]\nseed = [1]\n[metrics]\npoint = \"tlp_hops\"\n")),
        (Kind::Profile, "version = 1\nkind = \"cable\"\ndescription = \"x\"\n".to_owned()),
    ];
    let riser = Riser::new();
    let path = root().join("labs/sweeps/x.toml");
    for (kind, text) in &rows {
        assert!(riser.read(*kind, &path, text).is_err(), "riser accepts\n{text}");
    }
    for ((_, text), error) in rows.iter().zip(validated(&rows).into_iter().flatten()) {
        assert!(error.is_some(), "the schema accepts\n{text}");
    }
}

/// The crate that `riser new` writes: its labs name the schema next to them, which knows the crate's own device.
#[test]
fn taplo_checks_labs_of_a_new_crate() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("copier");
    riser_ok(&["new", "copier", "--path", path.to_str().unwrap()]);
    let lab = path.join("labs/copier.toml");
    let text = fs::read_to_string(&lab).unwrap();
    assert!(text.starts_with("#:schema lab.schema.json\n"), "{text}");
    let rows = [
        ("copies = 4", "copies = 4", None),
        ("copies = 4", "copies = 0", Some("0 is less than the minimum of 1")),
        ("copies = 4", "copy = 4", Some("Additional properties are not allowed")),
        ("gen = 3", "gen = \"3\"", Some("\"3\" is not one of [1,2,3,4,5]")),
        ("device = \"copier\"", "device = \"copyer\"", Some("\"copyer\" is not one of")),
    ];
    for (from, to, error) in rows {
        fs::write(&lab, text.replace(from, to)).unwrap();
        let mut taplo = Command::new(root().join("scripts/python.sh"));
        // The package is a program in the folder of Python's own.
        let program = "import os, sys; os.execv(os.path.join(os.path.dirname(sys.executable), 'taplo'), ['taplo', 'check', sys.argv[1]])";
        taplo.args(["--with", REQUIREMENTS, "-c", program]).arg(&lab).env("RUST_LOG", "error");
        let checked = finish(&mut taplo);
        if checked.code == NO_PACKAGES {
            eprintln!("skipped: {}", checked.stderr);
            return;
        }
        assert_eq!(checked.code != 0, error.is_some(), "{to}: {}", checked.stderr);
        assert!(checked.stderr.contains(error.unwrap_or_default()), "{to}: {}", checked.stderr);
    }
}
