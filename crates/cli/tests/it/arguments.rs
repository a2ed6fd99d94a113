// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of arguments that commands parse themselves. Runs no command.

use std::net::IpAddr;
use tlp::{Mps, Rcb};

/// Returns the value of the argument `id` of `riser nettlp`, or `None` if its text is refused.
fn value<T: Clone + Send + Sync + 'static>(words: &[&str], id: &str) -> Option<T> {
    let line = ["riser", "nettlp"].iter().chain(words);
    let matches = riser_cli::command().try_get_matches_from(line).ok()?;
    let (_, nettlp) = matches.subcommand()?;
    let (_, tool) = nettlp.subcommand()?;
    tool.get_one::<T>(id).cloned()
}

#[test]
fn parses_ip_addresses_but_no_names() {
    for (text, expected) in [
        ("127.0.0.1", Some("127.0.0.1")),
        ("::ffff:127.0.0.1", Some("127.0.0.1")),
        ("fd00::1", Some("fd00::1")),
        ("fe80::1", None),
        ("fe80::1%eth0", None),
        ("localhost", None),
    ] {
        let found = value::<IpAddr>(&["read", "0", "4", "-r", text], "remote").map(|a| a.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}

#[test]
fn parses_mps_and_rcb() {
    for (text, is_mps, is_rcb) in [
        ("128", true, true),
        ("64", false, true),
        ("4096", true, false),
        ("256B", false, false),
        ("-1", false, false),
        ("", false, false),
    ] {
        let of = |option| ["adapter", "--allow", "127.0.0.2,all,rw", option, text];
        let read = (value::<Mps>(&of("--mps"), "mps").is_some(), value::<Rcb>(&of("--rcb"), "rcb").is_some());
        assert_eq!(read, (is_mps, is_rcb), "{text}");
    }
}

#[test]
fn parses_hexadecimal_bytes() {
    for (text, expected) in [
        ("00ff", Some(&[0, 0xff][..])),
        ("0A 0b\n0c", Some(&[10, 11, 12])),
        ("", None),
        ("0", None),
        ("0g", None),
        ("+1", None),
        ("é", None),
    ] {
        let found = value::<Vec<u8>>(&["write", "0", "--data", text, "-r", "127.0.0.1"], "hex");
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}
