// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library of `crates/libtlp`, and C programs linked with it, under the sanitizers if the compiler has them.
//! Prints a line if there is no C compiler, so that no test is skipped silently.

use crate::{once, root};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Returns `name` if the command runs. Otherwise prints that the test is skipped.
pub fn compiler(name: &'static str) -> Option<&'static str> {
    let works = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    if !works {
        eprintln!("skipped: no {name}");
    }
    works.then_some(name)
}

/// Returns flags of the sanitizers. If the compiler has no libraries for the sanitizers, prints a line on standard
/// error and returns no flags.
fn sanitizers(cc: &str) -> &'static [&'static str] {
    let works = once(&format!("sanitizers-{}", file_name(cc)), |folder| {
        let (source, program) = (folder.join("empty.c"), folder.join("empty"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let built = Command::new(cc).args(SANITIZERS).arg(&source).arg("-o").arg(&program).output().unwrap();
        let works = built.status.success() && Command::new(&program).status().is_ok_and(|s| s.success());
        if works {
            Ok(())
        } else {
            Err(format!("skipped: {cc} has no sanitizers; the programs run without them"))
        }
    });
    match works {
        Ok(_) => &SANITIZERS,
        Err(why) => {
            eprintln!("{why}");
            &[]
        }
    }
}

/// Returns a compiler's name in a form that fits into a file name.
fn file_name(cc: &str) -> String {
    cc.replace('+', "x")
}

/// Returns the path of the static library. Cargo has built the library as a dependency of this crate.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    test.with_file_name("libtlp.a")
}

/// Compiles one C file with the library, once per run. Warnings are errors.
pub fn program(cc: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let mut hasher = DefaultHasher::new();
    (source, flags).hash(&mut hasher);
    let key = format!("c-{name}-{}-{:x}", file_name(cc), hasher.finish());
    let sanitizers = sanitizers(cc);
    let library = library();
    let build = |folder: &Path| {
        let output = Command::new(cc)
            .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"])
            .args(flags)
            .args(sanitizers)
            .arg("-I")
            .arg(root().join("crates/libtlp/include"))
            .args(["-o".as_ref(), folder.join(name).as_os_str(), source.as_os_str()])
            // The library is not in the source's language.
            .args(["-x", "none"])
            .arg(&library)
            .args(["-lpthread", "-ldl", "-lm"])
            // Without it, each program has all 30 MB of the library.
            .arg("-Wl,--gc-sections")
            .output()
            .unwrap();
        assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    once(&key, build).expect("it builds or panics").join(name)
}
