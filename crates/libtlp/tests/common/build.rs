// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the C library and programs with it, for the tests of this crate and of the command line. Never skips silently: says
//! so where there is no C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The C compiler; `None`, and a line on standard error, where there is none.
pub(crate) fn compiler(name: &'static str) -> Option<&'static str> {
    let works = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    if !works {
        eprintln!("skipped: no {name}");
    }
    works.then_some(name)
}

/// Whether the compiler has the sanitizers' libraries.
fn sanitizers(cc: &str) -> &'static [&'static str] {
    static FLAGS: OnceLock<&'static [&'static str]> = OnceLock::new();
    FLAGS.get_or_init(|| {
        const ALL: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let source = tmp("sanitized.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let built = Command::new(cc).args(ALL).arg(&source).arg("-o").arg(tmp("sanitized")).output().unwrap();
        let works =
            built.status.success() && Command::new(tmp("sanitized")).status().is_ok_and(|s| s.success());
        if !works {
            eprintln!("skipped: {cc} has no sanitizers here; the programs run without");
        }
        if works { ALL } else { &[] }
    })
}

pub(crate) fn tmp(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("c-", env!("CARGO_CRATE_NAME")));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
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

/// The static library, built as `cargo build` does.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let built = cargo()
            .args(["build", "--quiet", "--package", "riser-libtlp", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
        target.join("debug/libtlp.a")
    })
}

/// Compiles one C file with the library, all warnings being errors, under the sanitizers.
pub(crate) fn program(cc: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let out = tmp(&format!("{name}-{}", cc.replace('+', "x")));
    let output = Command::new(cc)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .args(sanitizers(cc))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("libtlp").join("include"))
        .args(["-o".as_ref(), out.as_os_str(), source.as_os_str()])
        // What comes behind is no longer C++.
        .args(["-x", "none"])
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    out
}
