// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in C and C++ in a lab, under the sanitizers; and faulty libraries, whose errors are reported.

use crate::common::{command, riser};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags for a sanitized library that is loaded into a program without sanitizers.
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"];

fn native() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native").canonicalize().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a library. Returns `None`, and prints so, if there is no compiler.
fn library(source: &str, flags: &[&str], out: &Path) -> Option<()> {
    let (compiler, standard) =
        if source.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let compiled = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I"])
        .arg(native().join("include"))
        .args(flags)
        .arg(native().join(source))
        .arg("-o")
        .arg(out)
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("no {compiler}: skipped");
        return None;
    };
    assert!(compiled.status.success(), "{source}: {}", String::from_utf8_lossy(&compiled.stderr));
    Some(())
}

/// Runtime libraries of the sanitizers, which must be loaded first.
fn preloads() -> String {
    let path = |name: &str| {
        let found = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    };
    format!("{}:{}", path("libasan.so"), path("libubsan.so"))
}

/// Runs riser with the sanitizers. Returns the exit status, and both outputs.
fn sanitized(args: &[&str]) -> (Option<i32>, String) {
    let output = command(args)
        .env("LD_PRELOAD", preloads())
        .env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0:exitcode=99")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn examples_run_in_their_labs_under_the_sanitizers() {
    for (name, source) in [("scrambler", "examples/scrambler.c"), ("histogram", "examples/histogram.cpp")] {
        let folder = folder(name);
        let lab = folder.join("lab.toml");
        fs::copy(native().join(format!("examples/{name}.toml")), &lab).unwrap();
        let lab = lab.to_str().unwrap();
        let Some(()) = library(source, SANITIZERS, &folder.join(format!("{name}.so"))) else { return };
        let (status, said) = sanitized(&["run", lab, "--allow-native"]);
        assert!(status == Some(0) && said.contains("finished after"), "{name}: {said}");
        assert!(said.contains("card (native): ") && said.contains("dma_writes"), "{said}");
        // The device is reset each time it is inserted.
        let hot = [
            "--set",
            "slot.card.hot_plug=true",
            "--set",
            "outage.0={slot=\"card\",kind=\"removal\",at_us=1,until_us=50}",
        ];
        let (status, said) = sanitized(&[&["run", lab, "--allow-native"][..], &hot].concat());
        assert!(status == Some(0) && said.contains("its driver has ended"), "{name}: {said}");
        // Two runs give the same result.
        let json = || {
            let mut report: serde_json::Value =
                serde_json::from_str(&riser_json(lab, folder.as_path())).unwrap();
            report["cpu_seconds"] = serde_json::Value::Null;
            report
        };
        assert_eq!(json(), json());
    }
}

/// Runs without the sanitizers.
fn riser_json(lab: &str, folder: &Path) -> String {
    let source = if lab.contains("scrambler") { "examples/scrambler.c" } else { "examples/histogram.cpp" };
    library(source, &[], &folder.join(Path::new(source).with_extension("so").file_name().unwrap()));
    let run = riser(&["run", lab, "--allow-native", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

const BROKEN: &str = r#"
version = 1
[[slot]]
name = "card"
device = "native"
[slot.native]
library = "broken.so"
step = [{ do = "expect", value = 0 }, { do = "sleep", value = 2000 }]
"#;

/// Returns a lab with the faulty library, compiled with these flags.
fn broken(name: &str, flags: &[&str]) -> Option<String> {
    let folder = folder(name);
    library("tests/c/broken.c", flags, &folder.join("broken.so"))?;
    let lab = folder.join("lab.toml");
    fs::write(&lab, BROKEN).unwrap();
    Some(lab.to_str().unwrap().to_owned())
}

#[test]
fn reports_library_errors_without_crash() {
    let Some(lab) = broken("wrong", SANITIZERS) else { return };
    for (wrong, says) in [
        ("twice", "completion of request 0, expected the token of a request that is not completed"),
        ("token", "completion of request 7, expected the token of"),
        ("length", "completion of request 0 with 3 B, expected 4"),
        ("status", "completion of request 0 with status 9, expected 0 to 3"),
        ("retry", "completion of request 0 with RISER_RETRY, expected only for deferrable writes"),
        ("taken", "poll_taken: no request 100"),
        ("id", "with id 0, which is in use"),
        ("huge", "a read of 1073741824 B, expected at most 1048576"),
        ("class", "output RISER_READ polled in class RISER_POSTED"),
        ("kind", "an output of kind 77, expected 1 to 9"),
        ("vector", "interrupt vector 9, expected one of the function's 1, counted from 0"),
        ("intx", "output RISER_INTX, expected only with `intx = true` in the lab's settings of the device"),
        ("pme", "output RISER_PME, expected only with `pme = true` in the lab's settings of the device"),
        ("null", "a message of 4 B with data of NULL, expected a pointer to them"),
        ("long", "a message of 8192 B, expected a multiple of 4 up to 4096"),
        ("route", "a message with routing 255, expected 0 to 5"),
        ("end", "a write of 8 B at 0xfffffffffffffffc, expected an end below 2^64"),
        ("endless", "completion of request 0, expected the token of a request that is not completed"),
        ("timer", "next_timer: 65536 calls of timer at"),
    ] {
        let set = format!("slot.card.native.settings={wrong}");
        // Also with a limit, which is reached before the host would give up.
        for limit in [&[][..], &["--set", "limit_us=5000"]] {
            let args = [&["run", &lab, "--allow-native", "--set", &set], limit].concat();
            let (status, said) = sanitized(&args);
            assert!(
                status == Some(1)
                    && said.contains(says)
                    && said.contains("card")
                    && said.contains("broken.so: "),
                "{wrong} {limit:?}: {status:?} {said}"
            );
            // Only the request that the library never answers stays unanswered.
            let is_answered = !said.contains("completion_timeouts") || wrong == "endless";
            assert!(is_answered, "{wrong}: {said}");
        }
    }
    // A correct device passes, and a real memory error shows that the sanitizers are active.
    let (status, said) = sanitized(&["run", &lab, "--allow-native"]);
    assert_eq!(status, Some(0), "{said}");
    let (status, said) =
        sanitized(&["run", &lab, "--allow-native", "--set", "slot.card.native.settings=overflow"]);
    assert!(status != Some(0) && said.contains("AddressSanitizer: heap-buffer-overflow"), "{said}");
}

#[test]
fn rejects_invalid_devices_with_location() {
    let Some(lab) = broken("good", &[]) else { return };
    let Some(no_entry) = broken("no-entry", &["-DNO_ENTRY", "-Wno-unused-function"]) else { return };
    let Some(no_ops) = broken("no-ops", &["-DNO_OPS"]) else { return };
    let Some(no_write) = broken("no-write", &["-DNO_WRITE"]) else { return };
    let Some(version) = broken("version", &["-DABI=2"]) else { return };
    let Some(missing) = broken("missing", &["-DMISSING"]) else { return };
    let Some(cut) = broken("cut", &[]) else { return };
    let library = Path::new(&cut).with_file_name("broken.so");
    fs::write(&library, &fs::read(&library).unwrap()[..8192]).unwrap();
    let folder_of_a_name = folder("is-a-folder").join("lab.toml");
    fs::write(&folder_of_a_name, BROKEN).unwrap();
    fs::create_dir_all(folder_of_a_name.with_file_name("broken.so")).unwrap();
    let no_library = folder("no-library").join("lab.toml");
    fs::write(&no_library, BROKEN).unwrap();
    let text = folder("text").join("lab.toml");
    fs::write(&text, BROKEN).unwrap();
    fs::write(text.with_file_name("broken.so"), "no library at all ".repeat(64)).unwrap();
    let (no_library, text) = (no_library.to_str().unwrap(), text.to_str().unwrap());
    for (lab, set, says) in [
        (no_library, "", "lab.toml:7:11: slot `card`: library "),
        (no_library, "", "broken.so: no such file"),
        (folder_of_a_name.to_str().unwrap(), "", "broken.so: not a regular file"),
        (text, "", "broken.so: not a complete shared library: "),
        (&cut, "", "broken.so: not a complete shared library: "),
        (&missing, "", "undefined symbol: missing"),
        (&no_entry, "", "broken.so: no symbol riser_device_entry"),
        (&no_ops, "", "riser_device_entry returned NULL: the library does not support version 1 of the ABI"),
        (&no_write, "", "broken.so: no function write: create, destroy, "),
        (
            &version,
            "",
            "broken.so: version 2 of the ABI with 112 B of functions, expected version 1 with 112 B",
        ),
        (&lab, "settings=refuse", "broken.so: create: no such device today"),
        (&lab, "settings=silent", "broken.so: create: no reason given"),
        (&lab, "vectors=3", "vectors of 3, expected a power of two up to 32 for msi"),
        (&lab, "step.0.bar=2", "step 0: bar of 2, expected one of [0]"),
        (&lab, "step.0.bytes=3", "step 0: bytes of 3, expected 4 or 8"),
        (&lab, "step.0={do=\"write\",of=\"x\"}", "step 0: of of `x`, expected a buffer of an earlier step"),
        (
            &lab,
            "step.0={do=\"compare\",name=\"x\"}",
            "step 0: name of `x`, expected a buffer of an earlier step: there are none",
        ),
        (
            &lab,
            "step.0={do=\"interrupt\",vector=7}",
            "step 0: vector of 7, expected one of the device's 1, counted from 0",
        ),
        (&lab, "step.0.offset=4094", "step 0: 4 B at offset 4094, but BAR 0 has 4096 B"),
        (
            &lab,
            "step.1.value=1000000000001",
            "step 1: value of 1000000000001, expected 0 to 1000000000000 ns",
        ),
        (
            &lab,
            "step.0={do=\"store\",name=\"x\"}",
            "step 0: name of `x`, expected a buffer of an earlier step",
        ),
        (&lab, "step.1.offset=8", "step 1: offset has no effect here, expected only value"),
        (&lab, "settings=\"a\\u0000b\"", "settings contain a zero byte"),
        (&lab, "libary=\"x\"", "unknown field `libary`"),
    ] {
        let set = format!("slot.card.native.{set}");
        let set: &[&str] = if set.ends_with('.') { &[] } else { &["--set", &set] };
        let run = riser(&[&["run", lab, "--allow-native"], set].concat());
        assert!([1, 2].contains(&run.code) && run.stderr.contains(says), "{says}: {}", run.stderr);
        assert!(run.stderr.contains("card") || run.stderr.contains("libary"), "{}", run.stderr);
    }
}

/// Code of a library runs only with permission. This library ends the process as soon as it is loaded.
/// A lab fills a ring of descriptors, and enumeration finds the pin and PME that the lab declares.
#[test]
fn steps_store_values_and_addresses_in_buffers() {
    let Some(lab) = broken("store", &[]) else { return };
    let steps = "slot.card.native.step=[\
        {do='buffer',name='ring',bytes=16},{do='buffer',name='data',bytes=16},\
        {do='store',name='ring',of='data',bytes=8},{do='store',name='ring',offset=8,value=5},\
        {do='memory',name='ring',offset=8,value=5},{do='compare',name='data',of='ring'}]";
    let run = riser(&["run", &lab, "--allow-native", "--set", steps]);
    let wrong = "step 5: byte 1 of `data` is 0x00, expected 0x";
    assert!(run.code == 1 && run.stderr.contains(wrong), "{}", run.stderr);
    let declared = ["--set", "slot.card.native.intx=true", "--set", "slot.card.native.pme=true"];
    let listed = riser(&[&["lspci", &lab, "--allow-native", "-vv"][..], &declared].concat());
    let parts = ["Interrupt: pin A", "PME(D0+,D1-,D2-,D3hot+,D3cold-)"];
    assert!(parts.iter().all(|part| listed.stdout.contains(part)), "{}", listed.stdout);
}

#[test]
fn native_code_runs_only_with_permission() {
    let folder = folder("allowed");
    let source = folder.join("fatal.c");
    fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) static void loaded(void) { _Exit(77); }\n",
    )
    .unwrap();
    let Some(()) = library(source.to_str().unwrap(), &[], &folder.join("broken.so")) else { return };
    let lab = folder.join("lab.toml");
    fs::write(&lab, BROKEN).unwrap();
    let lab = lab.to_str().unwrap();
    assert_eq!(riser(&["run", lab, "--allow-native"]).code, 77);
    for args in [&["check", lab][..], &["lspci", lab], &["lspci", lab, "-vv"]] {
        let run = riser(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }
    assert!(riser(&["lspci", lab]).stdout.contains("card (native)"));
    for args in [&["run", lab][..], &["nettlp", "adapter", lab, "--allow", "127.0.0.1,all,rw"]] {
        let run = riser(args);
        let says = "native code runs only with --allow-native";
        assert!(
            run.code == 1 && run.stderr.contains(says) && run.stderr.contains("slot `card`"),
            "{args:?}: {}",
            run.stderr
        );
    }
}

/// A library needs only the files that `make device-header` installs.
#[test]
fn installed_header_is_sufficient() {
    let folder = folder("installed");
    let run = |program: &str, args: &[&str]| {
        let path = folder.join("lib/pkgconfig");
        Command::new(program).args(args).env("PKG_CONFIG_PATH", path).output()
    };
    let install = native().join("install.sh");
    let installed = run(install.to_str().unwrap(), &[folder.to_str().unwrap()]).unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    assert_eq!(run(install.to_str().unwrap(), &["relative"]).unwrap().status.code(), Some(2));
    let (Ok(flags), source) =
        (run("pkg-config", &["--cflags", "riser-device"]), native().join("examples/scrambler.c"))
    else {
        eprintln!("no pkg-config: skipped");
        return;
    };
    let flags = String::from_utf8(flags.stdout).unwrap();
    assert!(flags.contains("include"), "{flags}");
    let out = folder.join("scrambler.so");
    let args = ["-shared", "-fPIC", flags.trim(), source.to_str().unwrap(), "-o", out.to_str().unwrap()];
    let Ok(compiled) = run("cc", &args) else { return };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
