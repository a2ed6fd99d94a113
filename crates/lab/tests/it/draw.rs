// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs in the form in which `riser check` draws them, in the words of the lab file.

use riser_lab::{draw, parse};
use std::path::Path;

fn lines(more: &str) -> Vec<String> {
    let text = format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{more}");
    let lab =
        parse(&devices::models(), Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    draw(&lab).lines().skip(2).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn draws_links_and_faults() {
    for case in testkit::cases(include_str!("../cases/drawn.txt")) {
        assert_eq!(lines(&case.input()), case.expected(), "{}", case.text);
    }
}
