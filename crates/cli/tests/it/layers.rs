// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that the compiler does not check: dependencies between crates point downward (docs/architecture.md), each crate states what it
//! never does, and files stay short. Reads the sources of the workspace, never runs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Levels of the crates. A crate may use only crates with a lower number. Add each new crate here.
const LEVELS: [(&str, u32); 29] = [
    ("riser-tlp", 0),
    ("riser-vm", 0),
    ("riser-introspect", 0),
    ("riser-files", 0),
    ("riser-config", 1),
    ("riser-link", 1),
    ("riser-exec", 1),
    ("riser-model", 1),
    ("riser-device", 2),
    ("riser-capture", 2),
    ("riser-endpoint", 3),
    ("riser-host", 3),
    ("riser-plug", 4),
    ("riser-devices", 5),
    ("riser-native", 5),
    ("riser-fabric", 6),
    ("riser-nettlp", 6),
    ("riser-guest", 6),
    ("riser-lab", 7),
    ("riser-rtl", 7),
    ("riser-view", 9),
    ("riser-session", 8),
    ("riser-worlds", 9),
    ("riser-bench", 10),
    ("riser-sweep", 10),
    ("riser-cli", 11),
    ("riser-libtlp", 11),
    (TESTKIT, 12),
    ("riser-python", 12),
];

/// Maximum length of a source file, in lines before its tests.
const MAX_LINES: usize = 800;

/// Test rigs that tests share. Tests of every crate may use it, and its rigs may use every crate except the interfaces.
const TESTKIT: &str = "riser-testkit";

const SPDX: &str = "// SPDX-License-Identifier: Apache-2.0 OR MIT";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn manifest(path: &Path) -> toml::Table {
    read(path).parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Folders of the crates, sorted by name.
fn crates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Adds all Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["crates", "examples", "fuzz"] {
        sources(&root().join(folder), &mut found);
    }
    found
}

/// Names of the packages that a manifest depends on, in any table: normal, build, dev, and target-specific. The testkit is left out of
/// dev-dependencies. `workspace` maps the names of shared dependencies to their packages.
fn dependencies(table: &toml::Table, workspace: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            let packages = inner.iter().map(|(name, how)| package(name, how, workspace));
            found.extend(packages.filter(|package| key != "dev-dependencies" || package != TESTKIT));
        } else if key == "target" {
            for target in inner.values().filter_map(toml::Value::as_table) {
                found.extend(dependencies(target, workspace));
            }
        }
    }
    found
}

/// Returns the package of a dependency.
fn package(name: &str, how: &toml::Value, workspace: &BTreeMap<String, String>) -> String {
    let renamed = how.get("package").and_then(toml::Value::as_str);
    let inherited = how.get("workspace").and_then(|_| workspace.get(name)).map(String::as_str);
    renamed.or(inherited).unwrap_or(name).to_owned()
}

fn workspace_packages() -> BTreeMap<String, String> {
    let root = manifest(&root().join("Cargo.toml"));
    let shared = root["workspace"]["dependencies"].as_table().unwrap();
    shared.iter().map(|(name, how)| (name.clone(), package(name, how, &BTreeMap::new()))).collect()
}

/// Returns the wrong dependencies of one manifest.
fn wrong_arrows(manifest: &toml::Table, workspace: &BTreeMap<String, String>) -> Vec<String> {
    let levels = BTreeMap::from(LEVELS);
    let name = manifest["package"]["name"].as_str().unwrap();
    let Some(own) = levels.get(name) else {
        return vec![format!("{name} has no level: give it one in this test and in docs/architecture.md")];
    };
    let ours = dependencies(manifest, workspace).into_iter().filter(|d| d.starts_with("riser-"));
    ours.filter(|d| levels.get(d.as_str()).is_none_or(|level| level >= own))
        .map(|d| {
            format!(
                "{name} (level {own}) uses {d} (level {:?}), which is not below it",
                levels.get(d.as_str())
            )
        })
        .collect()
}

#[test]
fn crates_depend_only_on_lower_levels() {
    let workspace = workspace_packages();
    let wrong: Vec<String> =
        crates().iter().flat_map(|c| wrong_arrows(&manifest(&c.join("Cargo.toml")), &workspace)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Models and outside worlds register with a lab.
#[test]
fn lab_depends_on_no_model_or_world() {
    let lab = manifest(&root().join("crates/lab/Cargo.toml"));
    let lab = toml::Table::from_iter([("dependencies".to_owned(), lab["dependencies"].clone())]);
    let found = dependencies(&lab, &workspace_packages());
    let worlds = ["devices", "guest", "native", "nettlp", "rtl", "vm"].map(|name| format!("riser-{name}"));
    assert!(worlds.iter().all(|world| !found.contains(world)), "{found:?}");
}

/// Tests the check itself: it finds dependencies on the same or a higher level in every table, under any name.
#[test]
fn finds_wrong_dependencies() {
    let workspace = BTreeMap::from([("fabric".to_owned(), "riser-fabric".to_owned())]);
    for (tables, count) in [
        ("[dependencies]\nriser-tlp = { path = \"../tlp\" }\nserde = \"1\"", 0),
        ("[dependencies]\nriser-config = { path = \"../config\" }", 1),
        ("[dev-dependencies]\nfabric = { workspace = true }", 1),
        ("[build-dependencies]\nx = { package = \"riser-device\", path = \"../device\" }", 1),
        ("[target.'cfg(unix)'.dependencies]\nfabric.workspace = true", 1),
        ("[dependencies]\nriser-unheard-of = \"1\"", 1),
        ("[dependencies]\nriser-testkit = { path = \"../testkit\" }", 1),
        ("[dev-dependencies]\nriser-testkit = { path = \"../testkit\" }", 0),
    ] {
        let text = format!("[package]\nname = \"riser-link\"\n{tables}");
        assert_eq!(wrong_arrows(&text.parse().unwrap(), &workspace).len(), count, "{tables}");
    }
    let stranger = "[package]\nname = \"riser-stranger\"".parse().unwrap();
    assert_eq!(wrong_arrows(&stranger, &workspace).len(), 1);
}

/// `use fabric::*;` imports the public modules of a crate. A module with the name of a crate would make that name ambiguous.
#[test]
fn public_modules_have_other_names_than_crates() {
    let workspace = workspace_packages();
    let ours: Vec<String> = workspace
        .iter()
        .filter(|(_, p)| p.starts_with("riser-"))
        .map(|(n, _)| format!("pub mod {n};"))
        .collect();
    assert!(ours.contains(&"pub mod fabric;".to_owned()));
    for folder in crates() {
        let file = folder.join("src/lib.rs");
        let wrong = file.is_file().then(|| read(&file)).into_iter().flat_map(|text| {
            text.lines().filter(|l| ours.iter().any(|o| o == l)).map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new(), "{}", file.display());
    }
}

/// The module documentation of a crate states what it never does.
#[test]
fn each_crate_states_what_it_never_does() {
    for folder in crates() {
        let file = ["src/lib.rs", "src/main.rs"].map(|f| folder.join(f)).into_iter().find(|f| f.is_file());
        let file = file.unwrap_or_else(|| panic!("{} has neither lib.rs nor main.rs", folder.display()));
        let text = read(&file);
        let head: String = text.lines().skip(1).take_while(|line| line.starts_with("//!")).collect();
        assert!(head.to_lowercase().contains("never"), "{}: the head lacks `never`", file.display());
    }
}

#[test]
fn each_file_starts_with_licence_and_module_doc() {
    let bad: Vec<String> = all_sources()
        .iter()
        .filter(|path| {
            let text = read(path);
            let mut lines = text.lines();
            lines.next() != Some(SPDX)
                || !lines.next().is_some_and(|l| l.trim_end().len() > 3 && l.starts_with("//!"))
        })
        .map(|path| path.display().to_string())
        .collect();
    assert!(bad.is_empty(), "first {SPDX:?}, then a head of `//!`, in:\n{}", bad.join("\n"));
}

/// Number of lines before the tests of a file.
fn lines_without_tests(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[test]
fn files_stay_short() {
    assert_eq!(lines_without_tests("a\nb\n#[cfg(test)]\nmod tests {}\n"), 2);
    let in_src = |path: &&PathBuf| path.components().any(|c| c.as_os_str() == "src");
    for path in all_sources().iter().filter(in_src) {
        let lines = lines_without_tests(&read(path));
        assert!(lines <= MAX_LINES, "{}: {lines} lines, at most {MAX_LINES}", path.display());
    }
}

/// Files that may contain `unsafe`, by crate: the C library, the loaders of C and RTL devices, and mapped guest memory.
const UNSAFE: [(&str, &[&str]); 4] = [
    ("guest", &["memory.rs"]),
    ("libtlp", &["fd.rs", "ffi.rs", "header.rs", "header/tests.rs"]),
    ("native", &["loader.rs"]),
    ("rtl", &["loader.rs"]),
];

/// True if a text contains unsafe code. The type of an unsafe function pointer does not count.
fn is_unsafe(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words =
        ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe trait ", "#[unsafe(", "unsafe extern \"C\" {"];
    code.into_iter().any(|line| words.iter().any(|word| line.contains(word)))
}

#[test]
fn unsafe_code_is_only_in_listed_files() {
    for (text, is) in [
        ("let x = unsafe { y() };", true),
        ("pub unsafe fn f() {}", true),
        ("// unsafe { is only spoken of }", false),
        ("type F = unsafe extern \"C\" fn(u32);", false),
        ("unsafe_code = \"forbid\"", false),
    ] {
        assert_eq!(is_unsafe(text), is, "{text}");
    }
    for folder in crates() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let places = UNSAFE.iter().find(|(place, _)| *place == name).map_or(&[][..], |(_, files)| files);
        let lints = manifest(&folder.join("Cargo.toml"))["lints"].as_table().unwrap().clone();
        assert_eq!(
            lints.contains_key("workspace"),
            places.is_empty(),
            "{name}: the workspace's lints forbid `unsafe`"
        );
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        let mut found: Vec<&Path> = files
            .iter()
            .filter(|file| is_unsafe(&read(file)))
            .map(|file| file.strip_prefix(folder.join("src")).unwrap())
            .collect();
        let mut named: Vec<&Path> = places.iter().map(Path::new).collect();
        named.sort();
        found.sort();
        assert_eq!(found, named, "{name}: `unsafe`");
    }
}

/// Files that may have a `thread_local!`. State of a run belongs in `plug::RunContext`; these files keep state of a thread.
const THREAD_LOCALS: [&str; 4] = [
    // Executor of this thread. Its wakers need no lock there.
    "exec/src/lib.rs",
    // Buffers for batches of datagrams, allocated once per thread.
    "nettlp/src/net/batch.rs",
    // The current task, because Python calls `__next__` of an operation without a context. Also the number of labs on the stack.
    "python/src/current.rs",
    // Python objects may move between threads, but the values that belong to them may not, so the thread keeps these.
    "python/src/held.rs",
];

#[test]
fn thread_locals_hold_no_run_state() {
    for folder in crates() {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files.iter().filter(|file| read(file).contains("thread_local!")) {
            let is_listed = THREAD_LOCALS.iter().any(|listed| file.ends_with(listed));
            assert!(is_listed, "{}: a thread_local! holds state; use plug::RunContext", file.display());
        }
    }
}

/// Files of `session` that run a fabric: the loop, the driver for outside worlds, and enumeration, which ends before devices run.
const RUNS: [&str; 3] = ["session/src/run.rs", "session/src/external/driver.rs", "session/src/enumerated.rs"];

/// Every run uses the run loop of `session`, so the crates above it do not need the limits of [`Fabric::run`](fabric::Fabric::run).
#[test]
fn only_session_has_a_run_loop() {
    let words = ["Limits {", "Limits::default", "fabric.run(", "fabric::Limits"];
    for name in ["session", "bench", "sweep", "worlds", "cli", "python"] {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "{name}");
        for file in files.iter().filter(|file| RUNS.iter().all(|runs| !file.ends_with(runs))) {
            let text = read(file);
            let found = words.iter().find(|word| text.contains(*word));
            assert_eq!(found, None, "{}: runs a fabric; use session::Session", file.display());
        }
    }
}

/// The package of Python has the whole command, and uses nothing else of the crate.
#[test]
fn python_uses_only_the_command_of_cli() {
    let mut files = Vec::new();
    sources(&root().join("crates/python/src"), &mut files);
    files.retain(|file| read(file).contains("riser_cli"));
    assert!(matches!(&files[..], [file] if file.ends_with("python/src/command.rs")), "{files:?}");
    assert_eq!(read(&files[0]).matches("riser_cli").count(), 1);
}

/// The generated reference groups models by the headings of its pages. All other code of `lab` gets their names from `plug::Models`.
#[test]
fn only_the_reference_of_lab_names_models() {
    let names =
        ["\"nettlp-adapter\"", "\"rtl\"", "\"rtl-", "\"native\"", "\"nvme\"", "\"traffic\"", "\"memory\""];
    let mut files = Vec::new();
    sources(&root().join("crates/lab/src"), &mut files);
    assert!(files.len() > 10);
    for file in files.iter().filter(|file| !file.ends_with("lab/src/reference.rs")) {
        let text = read(file);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found: Vec<&str> = code.filter(|line| names.iter().any(|name| line.contains(name))).collect();
        assert_eq!(found, Vec::<&str>::new(), "{}: names a model", file.display());
    }
}
