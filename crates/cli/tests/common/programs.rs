// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs, compiled with the library of `crates/capi` and under the sanitizers where the compiler has them. Never skips
//! silently: says so where there is no C compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

fn built(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream-c");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn has_compiler() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let works = Command::new("cc").arg("--version").output().is_ok_and(|o| o.status.success());
        if !works {
            eprintln!("skipped: no C compiler");
        }
        works
    })
}

/// The flags of the sanitizers, where a program with them runs here.
fn sanitizers() -> &'static [&'static str] {
    static FLAGS: OnceLock<&'static [&'static str]> = OnceLock::new();
    FLAGS.get_or_init(|| {
        const ALL: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let (source, program) = (built("probe.c"), built("probe"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let made = Command::new("cc").args(ALL).arg(&source).arg("-o").arg(&program).output().unwrap();
        let works = made.status.success() && Command::new(program).status().is_ok_and(|s| s.success());
        if works { ALL } else { &[] }
    })
}

/// Cargo, without what it has told this test of its package: build scripts ask for that, and would run again.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let told = std::env::vars_os().map(|(name, _)| name);
    let own = |name: &std::ffi::OsString| {
        name.to_string_lossy().starts_with("CARGO_PKG_")
            || name.to_string_lossy().starts_with("CARGO_MANIFEST_")
    };
    told.filter(own).for_each(|name| _ = cargo.env_remove(name));
    cargo
}

/// `libtlp.a`, built as `cargo build` does.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let made = cargo()
            .args(["build", "--quiet", "--package", "riser-capi", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(made.success());
        target.join("debug/libtlp.a")
    })
}

/// The program of one C file below `crates/`; tests side by side compile it once.
pub(crate) fn program(source: &'static str) -> Option<PathBuf> {
    static ALL: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    has_compiler().then(|| all.entry(source).or_insert_with(|| compiled(source)).clone())
}

fn compiled(source: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let out = built(Path::new(source).file_stem().unwrap().to_str().unwrap());
    let output = Command::new("cc")
        .args(["-std=gnu99", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(sanitizers())
        .arg("-I")
        .arg(crates.join("capi/include"))
        .args(["-o".as_ref(), out.as_os_str(), crates.join(source).as_os_str(), library().as_os_str()])
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    out
}
