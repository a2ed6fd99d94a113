// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the release scripts with the binaries of the tests: contents of the packages, their metadata, and the same bytes twice. Builds no
//! release and installs nothing; `.ci/long release` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{once, root};

const VERSION: &str = "0.9.0+test";

/// Runs a program and returns its standard output. It must succeed.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packs the binaries of the tests into `folder`.
///
/// # Errors
/// A program that the scripts need is missing.
fn pack(folder: &Path) -> Result<(), String> {
    for needed in ["python3", "git", "dpkg-deb", "strip", "readelf"] {
        let found = Command::new(needed).arg("--version").output();
        found.map_err(|_| format!("{needed} is not installed"))?;
    }
    let built = folder.join("built");
    fs::create_dir(&built).unwrap();
    let binaries = [
        PathBuf::from(env!("CARGO_BIN_EXE_riser")),
        testkit::c::library(),
        testkit::c::library().with_extension("so"),
    ];
    for binary in &binaries {
        let to = built.join(binary.file_name().unwrap());
        run("strip", &["--strip-debug", "-o", to.to_str().unwrap(), binary.to_str().unwrap()]);
    }
    let mut script = Command::new(root().join("scripts/release/package.py"));
    script.arg("--built").arg(&built).arg("--out").arg(folder.join("out"));
    let output = script.args(["--version", VERSION, "--quick"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("expected a toolchain of rustup") {
        return Err(errors.into_owned());
    }
    assert!(output.status.success(), "{errors}");
    fs::remove_dir_all(&built).unwrap();
    Ok(())
}

/// Folder with the packages, made once per run. Prints why if the test has to be skipped.
fn packages() -> Option<PathBuf> {
    match once("release", pack) {
        Ok(folder) => Some(folder.join("out")),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Path of a file in the folder, whose name starts and ends with these texts.
fn find(folder: &Path, start: &str, end: &str) -> String {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: Vec<String> = names.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{start}...{end}: {found:?}");
    folder.join(&found[0]).to_str().unwrap().to_owned()
}

fn assert_has(listing: &str, files: &[&str]) {
    let found: BTreeSet<&str> = listing.lines().flat_map(str::split_whitespace).collect();
    let missing: Vec<&&str> = files.iter().filter(|file| !found.contains(**file)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in:\n{listing}");
}

#[test]
fn debian_packages_have_files_and_dependencies() {
    let Some(folder) = packages() else { return };
    for (package, files, depends) in [
        (
            "riser",
            &[
                "./usr/bin/riser",
                "./usr/share/man/man1/riser.1.gz",
                "./usr/share/man/man1/riser-run.1.gz",
                "./usr/share/man/man1/riser-model-bw.1.gz",
                "./usr/share/bash-completion/completions/riser",
                "./usr/share/zsh/vendor-completions/_riser",
                "./usr/share/fish/vendor_completions.d/riser.fish",
                "./usr/include/riser_device.h",
                "./usr/share/pkgconfig/riser-device.pc",
                "./usr/share/doc/riser/copyright",
                "./usr/share/doc/riser/changelog.gz",
                "./usr/share/doc/riser/examples/labs/ping.toml",
                "./usr/share/doc/riser/examples/native/scrambler.c",
                "./usr/share/doc/riser/examples/rtl/scratch-lab.toml",
                "./usr/share/doc/riser/examples/drivers/linux/Kbuild",
            ][..],
            "libc6 (>= 2.",
        ),
        ("libtlp0", &["./usr/lib/libtlp.so.0", "./usr/share/doc/libtlp0/copyright"], "libc6 (>= 2."),
        (
            "libtlp-dev",
            &["./usr/lib/libtlp.a", "./usr/lib/libtlp.so", "./usr/include/libtlp.h", "./usr/include/tlp.h"],
            "libtlp0 (= 0.9.0+test), libc6-dev",
        ),
    ] {
        let deb = find(&folder, &format!("{package}_{VERSION}_"), ".deb");
        assert_has(&run("dpkg-deb", &["--contents", &deb]), files);
        let field = |name| run("dpkg-deb", &["--field", &deb, name]).trim().to_owned();
        assert_eq!((field("Package"), field("Version")), (package.to_owned(), VERSION.to_owned()));
        assert!(field("Depends").starts_with(depends), "{package}: {}", field("Depends"));
    }
}

#[test]
fn tarball_has_command_documents_and_relocatable_pkg_config() {
    let Some(folder) = packages() else { return };
    let tarball = find(&folder, "riser-", ".tar.gz");
    let top = Path::new(&tarball).file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz");
    let doc = |name: &str| format!("{top}/share/doc/riser/{name}");
    let listing = run("tar", &["--list", "--file", &tarball]);
    let documents =
        ["LICENSE-MIT", "LICENSE-APACHE", "third-party-licences.txt", "rust-library.html", "riser.cdx.json"];
    let files = ["bin/riser", "share/man/man1/riser.1", "lib/libtlp.a", "include/riser_device.h"];
    let files = files.map(|file| format!("{top}/{file}")).into_iter().chain(documents.map(doc));
    assert_has(&listing, &files.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    let pc = run(
        "tar",
        &["--extract", "--to-stdout", "--file", &tarball, &format!("{top}/lib/pkgconfig/libtlp.pc")],
    );
    assert!(pc.starts_with("prefix=${pcfiledir}/../..\n"), "{pc}");
}

#[test]
#[ignore = "of .ci/long release"]
fn bill_of_materials_names_all_components_and_licences() {
    let Some(folder) = packages() else { return };
    let text = fs::read_to_string(find(&folder, "riser-", ".cdx.json")).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&text).unwrap();
    let components = bill["components"].as_array().unwrap();
    let names: BTreeSet<&str> = components.iter().map(|c| c["name"].as_str().unwrap()).collect();
    for name in ["riser-cli", "riser-libtlp", "riser-python", "serde", "plotly.js", "rust-std"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    // Only tests use these.
    assert!(!names.contains("proptest") && !names.contains("riser-testkit"), "{names:?}");
    let refs: BTreeSet<&str> = components.iter().map(|c| c["bom-ref"].as_str().unwrap()).collect();
    for dependency in bill["dependencies"].as_array().unwrap() {
        for on in dependency["dependsOn"].as_array().unwrap() {
            assert!(refs.contains(on.as_str().unwrap()), "no component {on}");
        }
    }
    let licences = fs::read_to_string(find(&folder, "riser-", ".licences.txt")).unwrap();
    for component in components.iter().filter(|c| !c["name"].as_str().unwrap().starts_with("riser-")) {
        let [name, version] = ["name", "version"].map(|key| component[key].as_str().unwrap());
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(licences.contains(&format!("{name} {version}: {licence}\n")), "{name}");
    }
}

#[test]
#[ignore = "of .ci/long release"]
fn same_binaries_give_same_packages() {
    let Some(first) = packages() else { return };
    let again = tempfile::tempdir().unwrap();
    pack(again.path()).unwrap();
    let second = again.path().join("out");
    let read = |folder: &Path| -> BTreeMap<_, _> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
    };
    let (first, second) = (read(&first), read(&second));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    let different: Vec<_> =
        first.iter().filter(|(name, bytes)| second[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(different.is_empty(), "{different:?}");
}

/// The page of installation shows commands that `scripts/release/test.sh` runs.
#[test]
fn release_test_runs_commands_of_installation_page() {
    let page = fs::read_to_string(root().join("docs/start/install.md")).unwrap();
    let script = fs::read_to_string(root().join("scripts/release/test.sh")).unwrap();
    for command in [
        "python3 -m venv ~/venv",
        "pip install riser-*.whl",
        "$VIRTUAL_ENV/share/doc/riser/examples",
        "apt install ./riser_*.deb",
        "tar xzf riser-*-linux.tar.gz -C ~/.local --strip-components=1",
    ] {
        assert!(page.contains(command) && script.contains(command), "{command}");
    }
}

/// Packages of the workspace that are published, as `cargo metadata` describes them.
fn published() -> Vec<serde_json::Value> {
    let text = run("cargo", &["metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"]);
    let mut metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut packages = std::mem::take(metadata["packages"].as_array_mut().unwrap());
    packages.retain(|package| package["publish"].is_null());
    packages
}

/// A published crate depends only on published crates, at the version of the release. Tests are not in the packages.
#[test]
fn published_crates_use_only_published_crates() {
    let published = published();
    let names: BTreeSet<_> = published.iter().map(|package| package["name"].as_str().unwrap()).collect();
    for needed in ["riser-tlp", "riser-config", "riser-device", "riser-capture", "riser-cli"] {
        assert!(names.contains(needed), "{needed} is not published");
    }
    for package in &published {
        let ours = package["dependencies"].as_array().unwrap().iter().filter(|d| d["path"].is_string());
        for dependency in ours.filter(|d| d["kind"] != "dev") {
            let name = dependency["name"].as_str().unwrap();
            assert!(names.contains(name), "{} uses {name}, which is not published", package["name"]);
            let version = format!("^{}", package["version"].as_str().unwrap());
            assert_eq!(
                dependency["req"], version,
                "{} uses {name}; run scripts/set-version.sh",
                package["name"]
            );
        }
    }
}

#[test]
fn citation_names_version() {
    let citation = fs::read_to_string(root().join("CITATION.cff")).unwrap();
    let line = format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(citation.contains(&line), "CITATION.cff lacks {line:?}; run scripts/set-version.sh");
}

/// Adds the Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Paths in `include_str!` and `include_bytes!` before the tests of a file, each up to the end of its first literal.
fn included(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let calls = ["include_str!(", "include_bytes!("].into_iter().flat_map(|call| code.split(call).skip(1));
    calls.filter_map(|rest| rest.split('"').nth(1)).collect()
}

/// The package of a crate has only files below its folder, so its code includes no others. Links lead to those of the repository.
#[test]
fn published_crates_include_only_own_files() {
    assert_eq!(included("a!(include_str!(\n  \"../x\"), include_str!(concat!(\"y/\", $z)))"), ["../x", "y/"]);
    assert_eq!(included("#[cfg(test)]\ninclude_str!(\"../x\")"), [""; 0]);
    let mut count = 0;
    for package in published() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files {
            let depth = file.strip_prefix(folder).unwrap().components().count() - 1;
            for path in included(&fs::read_to_string(&file).unwrap()) {
                count += 1;
                let up = path.split('/').take_while(|part| *part == "..").count();
                assert!(
                    up <= depth,
                    "{}: includes {path}, which is not below {}",
                    file.display(),
                    folder.display()
                );
            }
        }
    }
    assert!(count > 50, "{count}");
}
