// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the layout of every structure is equal in C, in Rust and on the wire. Without a C
//! compiler, the tests are skipped and print a message.

use super::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Returns the lines that `tests/c/layout.c` prints, but for the structures in Rust.
fn of_rust() -> String {
    let mut out = String::new();
    macro_rules! layout {
        ($type:ty, $name:literal, $($field:ident = $member:literal),*) => {
            writeln!(out, "{} {}", $name, size_of::<$type>()).unwrap();
            $(writeln!(out, "{}.{} {}", $name, $member, offset_of!($type, $field)).unwrap();)*
        };
    }
    layout!(
        Nettlp,
        "nettlp",
        remote_addr = "remote_addr",
        local_addr = "local_addr",
        requester = "requester",
        tag = "tag",
        dir = "dir",
        sockfd = "sockfd",
        port = "port"
    );
    layout!(Msix, "nettlp_msix", address = "addr", data = "data");
    layout!(
        PcieCfg,
        "nettlp_pcie_cfg",
        remote_addr = "remote_addr",
        local_addr = "local_addr",
        sockfd = "sockfd",
        port = "port"
    );
    layout!(
        Callbacks,
        "nettlp_cb",
        start = "start",
        end = "end",
        mrd = "mrd",
        mwr = "mwr",
        cpl = "cpl",
        cpld = "cpld",
        other = "other"
    );
    out
}

/// Headers have the same layout in datagrams and in memory (`PCIe 5.0 §2.2`, NSDI'20 §4.1).
const OF_THE_WIRE: &str = "\
nettlp_hdr 6
nettlp_hdr.seq 0
nettlp_hdr.tstamp 2
tlp_hdr 4
tlp_hdr.fmt_type 0
tlp_hdr.tclass 1
tlp_hdr.falen 2
tlp_mr_hdr 8
tlp_mr_hdr.tlp 0
tlp_mr_hdr.requester 4
tlp_mr_hdr.tag 6
tlp_cpl_hdr 12
tlp_cpl_hdr.tlp 0
tlp_cpl_hdr.completer 4
tlp_cpl_hdr.stcnt 6
tlp_cpl_hdr.requester 8
tlp_cpl_hdr.tag 10
tlp_cpl_hdr.lowaddr 11
";

#[test]
fn structures_have_same_layout_in_header_and_library() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("riser-libtlp-layout-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([&here.join("include"), Path::new("-o"), &out, &here.join("tests/c/layout.c")])
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("skipped: no cc");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = Command::new(&out).output();
    std::fs::remove_file(&out).unwrap();
    // fstdw 0xc, lstdw 0x3. In the byte, Last DW BE comes first, then First DW BE.
    let rest = format!(
        "byte_enables 60\nconstants {} {} 1000 {ISSUED_BY_LIBTLP} {ISSUED_BY_ADAPTER}\n",
        crate::dma::TIMEOUT.as_millis(),
        crate::dma::DRAIN.as_millis()
    );
    let expected = format!("{OF_THE_WIRE}{}{rest}", of_rust());
    assert_eq!(String::from_utf8(printed.unwrap().stdout).unwrap(), expected);
}
