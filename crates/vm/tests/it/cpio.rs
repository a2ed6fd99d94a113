// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Archives that the system's cpio reads (scripts/setup.sh installs it), and their bytes according to the kernel's
//! documentation.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use vm::cpio::Archive;

/// Returns the output of `cpio` for an archive.
fn cpio(arguments: &[&str], archive: &[u8]) -> String {
    let mut command = Command::new("cpio");
    command.args(arguments).env("TZ", "UTC").env("LC_ALL", "C");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cpio, by scripts/setup.sh");
    let mut stdin = child.stdin.take().unwrap();
    let archive = archive.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&archive).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn system_cpio_lists_all_entries() {
    let mut archive = Archive::new();
    archive.file("usr/bin/program", 0o104_755, b"12345".to_vec());
    archive.link("/bin", "usr/bin");
    archive.directory("usr/bin");
    archive.character_device("dev/console", 5, 1);
    archive.file("empty", 0o644, Vec::new());
    let listed = cpio(&["-itv", "--quiet", "--numeric-uid-gid"], &archive.bytes());
    let expected = [
        "lrwxrwxrwx   1 0        0               7 Jan  1  1970 bin -> usr/bin",
        "drwxr-xr-x   2 0        0               0 Jan  1  1970 dev",
        "crw-------   1 0        0          5,   1 Jan  1  1970 dev/console",
        "-rw-r--r--   1 0        0               0 Jan  1  1970 empty",
        "drwxr-xr-x   2 0        0               0 Jan  1  1970 usr",
        "drwxr-xr-x   2 0        0               0 Jan  1  1970 usr/bin",
        "-rwsr-xr-x   1 0        0               5 Jan  1  1970 usr/bin/program",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

/// `buffer-format.rst` of the kernel's documentation: magic, 13 fields of eight digits, name with a zero byte, padded to four bytes;
/// data, padded to four bytes; the entry TRAILER!!!.
#[test]
fn archive_has_documented_bytes() {
    let mut archive = Archive::new();
    archive.file("a", 0o600, b"xy".to_vec());
    let mut expected = b"070701".to_vec();
    expected.extend(
        b"00000001 00008180 00000000 00000000 00000001 00000000 00000002".iter().filter(|b| **b != b' '),
    );
    expected.extend(b"00000000 00000000 00000000 00000000 00000002 00000000".iter().filter(|b| **b != b' '));
    expected.extend(b"a\0xy\0\0");
    expected.extend(b"070701");
    expected.extend(
        b"00000000 00000000 00000000 00000000 00000001 00000000 00000000".iter().filter(|b| **b != b' '),
    );
    expected.extend(b"00000000 00000000 00000000 00000000 0000000B 00000000".iter().filter(|b| **b != b' '));
    expected.extend(b"TRAILER!!!\0\0\0\0");
    assert_eq!(String::from_utf8(archive.bytes()), String::from_utf8(expected));
}

#[test]
fn later_entry_wins_except_a_folder() {
    let mut archive = Archive::new();
    archive.file("a", 0o644, b"old".to_vec());
    archive.file("a", 0o644, b"new".to_vec());
    archive.link("lib", "usr/lib");
    archive.directory("lib");
    archive.file("usr/bin/b", 0o755, Vec::new());
    archive.link("usr/bin", "usr/bin");
    let mut other = Archive::new();
    other.link("lib", "usr/lib");
    other.file("a", 0o644, b"new".to_vec());
    other.file("usr/bin/b", 0o755, Vec::new());
    assert_eq!(archive.bytes(), other.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Files with random names and contents are unpacked unchanged.
    #[test]
    fn unpacked_files_are_unchanged(files in proptest::collection::btree_map("[a-z]{1,9}", proptest::collection::vec(any::<u8>(), 0..50), 1..6)) {
        let files: BTreeMap<String, Vec<u8>> = files;
        let mut archive = Archive::new();
        for (name, bytes) in &files {
            archive.file(&format!("d/{name}"), 0o640, bytes.clone());
        }
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().to_str().unwrap();
        cpio(&["-id", "--quiet", "-D", target], &archive.bytes());
        for (name, bytes) in &files {
            prop_assert_eq!(&std::fs::read(folder.path().join("d").join(name)).unwrap(), bytes);
        }
        prop_assert_eq!(std::fs::read_dir(folder.path().join("d")).unwrap().count(), files.len());
    }
}
