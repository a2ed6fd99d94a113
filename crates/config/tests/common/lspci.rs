// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real `lspci` (package pciutils, 3.9.0 when this was written), run on a dump. Never knows what was built, nor judges what
//! is printed.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells the dumps of one process apart.
static DUMPS: AtomicU32 = AtomicU32::new(0);

/// What `lspci -F` prints of a dump with these arguments; `None`, saying so, where there is no `lspci`.
pub(crate) fn lspci(dump: &str, args: &[&str]) -> Option<String> {
    // It wants a file that it can open by name.
    let number = DUMPS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("riser-lspci-{}-{number}", std::process::id()));
    std::fs::write(&path, dump).unwrap();
    let out = Command::new("lspci").arg("-F").arg(&path).args(args).stdin(Stdio::null()).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(out) = out else {
        eprintln!("skipped: no lspci (scripts/setup.sh installs it)");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}
