// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference pages are generated, and the reader enforces the limits and defaults that they state.

use devices::pcie_bench::{CARDS, DeviceFile};
use endpoint::EndpointLimits;
use lab::{links, parse, reference, schema};
use plug::file::Schema;
use riser_worlds::models;
use std::path::Path;

#[test]
fn lab_pages_are_current() {
    for (path, text) in reference::lab(&models()) {
        testkit::generated(path, &text);
    }
}

/// Each page begins with an example.
#[test]
fn examples_of_the_lab_pages_are_valid_labs() {
    for (path, text) in reference::lab(&models()) {
        let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        parse(&models(), Path::new(&path), example.unwrap()).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

/// Text of all lab pages.
fn lab_pages() -> String {
    reference::lab(&models()).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn profile_page_is_current() {
    testkit::generated(
        "docs/reference/profiles.md",
        &reference::profiles(&Schema::of::<DeviceFile>(), &CARDS),
    );
}

#[test]
fn register_page_is_current() {
    testkit::generated("docs/reference/registers.md", &reference::registers());
}

/// A table row of a lab page.
#[derive(Debug)]
struct Row {
    /// The heading above it, such as `[link]`; empty for the keys of the file.
    section: String,
    key: String,
    kind: String,
    default: String,
    legal: String,
}

fn rows() -> Vec<Row> {
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in lab_pages().lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section =
                heading.strip_prefix('`').map(|h| h.trim_end_matches('`').to_owned()).unwrap_or_default();
        } else if line.starts_with("| `") {
            let cells: Vec<&str> = line.split(" | ").map(|c| c.trim_matches(['|', ' ', '`'])).collect();
            let [key, kind, default, legal, _] = cells[..] else { panic!("{line}") };
            let [key, kind, default, legal] = [key, kind, default, legal].map(str::to_owned);
            rows.push(Row { section: section.clone(), key, kind, default, legal });
        }
    }
    rows
}

/// Returns a lab with `line` in `section`, and the other keys that it needs.
fn lab_with(section: &str, key: &str, line: &str) -> String {
    let device = section.trim_start_matches('[').strip_prefix("slot.").unwrap_or("memory");
    let device = device.split(['.', ']']).next().unwrap_or("memory");
    let slot = format!("[[slot]]\nname = \"a\"\ndevice = \"{device}\"\n");
    // The smallest Max_Payload_Size, which needs the smallest replay buffer and the fewest credits.
    let mps = if key == "mps_bytes" { "" } else { "mps_bytes = 128\n" };
    let (before, after) = match section {
        "" => (format!("{line}\n"), String::new()),
        // As many ports as a switch may have.
        "[[slot]]" if key == "port" => (
            String::new(),
            format!("parent = \"s\"\n{line}\n[[switch]]\nname = \"s\"\ndownstream_ports = 31\n"),
        ),
        "[[slot]]" => (String::new(), format!("{line}\n")),
        "[[switch]]" if key == "port" => {
            let above = "[[switch]]\nname = \"s\"\ndownstream_ports = 31\n";
            (String::new(), format!("{above}[[switch]]\nname = \"t\"\nparent = \"s\"\n{line}\n"))
        }
        "[[switch]]" => (String::new(), format!("[[switch]]\nname = \"s\"\n{line}\n")),
        "[[fault]]" => {
            let other = if key == "nth" { "" } else { "nth = 1\n" };
            // Other keys that an action needs.
            let action = match key {
                "delay_ns" => "delay\"",
                "restore_after_us" => "cut\"",
                "new_tag" => "set-tag\"",
                "byte_count" => "set-byte-count\"",
                "length_dw" => "set-length\"",
                "header_dw" => "flip-header\"\nheader_bits = 1",
                "header_bits" => "flip-header\"\nheader_dw = 1",
                "sequence_ahead" => "shift-sequence\"",
                "header_credits" | "data_credits" => "shift-credits\"",
                "last_address" => "drop\"\nfirst_address = 0",
                _ => "drop\"",
            };
            let frames = if action.starts_with("shift-") { "dllp" } else { "tlp" };
            let fault = "[[fault]]\nslot = \"a\"\ndirection = \"upstream\"\n";
            (String::new(), format!("{fault}frames = \"{frames}\"\naction = \"{action}\n{other}{line}\n"))
        }
        "[[outage]]" => {
            let at = if key == "at_us" { "" } else { "at_us = 0\n" };
            (String::new(), format!("[[outage]]\nslot = \"a\"\n{at}{line}\n"))
        }
        // The table has 32, 64 or 128 phases: VC1 has the rest.
        "[[link.vc]]" if key == "phases" => {
            let phases = line.rsplit(' ').next().and_then(|n| n.parse::<i64>().ok()).unwrap_or(0);
            let rest =
                [32, 64, 128].into_iter().map(|size| size - phases).find(|rest| *rest >= 0).unwrap_or(0);
            let other =
                if rest > 0 { format!("[[link.vc]]\nid = 1\nphases = {rest}\n") } else { String::new() };
            let weighted = "[link]\nvc_arbitration = \"weighted\"\n";
            (String::new(), format!("{weighted}[[link.vc]]\nid = 0\n{line}\n{other}"))
        }
        "[[link.vc]]" => {
            let id = if key == "id" { "" } else { "id = 0\n" };
            (String::new(), format!("[[link.vc]]\n{id}{line}\n"))
        }
        "[[link_event]]" => {
            let at = if key == "at_us" { "" } else { "at_us = 1\n" };
            // As fast and as wide as a link can be, because it never trains above that.
            (
                String::new(),
                format!("[link]\ngen = 5\nlanes = 32\n[[link_event]]\nslot = \"a\"\n{at}{line}\n"),
            )
        }
        "[slot.replay]" => {
            let capture = "capture = \"captures/recorded.pcapng\"\nmemory = \"high\"\n";
            (String::new(), format!("[slot.replay]\n{capture}{line}\n"))
        }
        // Any file can stand for a library, because a check does not load it.
        "[slot.native]" => {
            let way = if key == "vectors" { "interrupts = \"msix\"\n" } else { "" };
            (String::new(), format!("{section}\nlibrary = \"../Cargo.toml\"\n{way}{line}\n"))
        }
        "[[slot.native.bars]]" => {
            (String::new(), format!("[slot.native]\nlibrary = \"../Cargo.toml\"\n{section}\n{line}\n"))
        }
        "[[slot.native.step]]" => {
            let act = if key == "bytes" { "do = \"buffer\"\nname = \"b\"\n" } else { "do = \"sleep\"\n" };
            (String::new(), format!("[slot.native]\nlibrary = \"../Cargo.toml\"\n{section}\n{act}{line}\n"))
        }
        "[[slot.traffic.flow]]" => {
            let size = if key == "size_bytes" { "" } else { "size_bytes = 64\n" };
            (String::new(), format!("{section}\nname = \"a\"\nkind = \"read\"\n{size}{line}\n"))
        }
        "[slot.traffic]" => {
            let flow = "[[slot.traffic.flow]]\nname = \"a\"\nkind = \"read\"\nsize_bytes = 64\n";
            (String::new(), format!("{section}\n{line}\n{flow}"))
        }
        // With strict priority, the group is VC0 alone.
        "[link]" if key == "low_priority_vc" => {
            (String::new(), format!("[link]\nvc_arbitration = \"round-robin\"\n{line}\n"))
        }
        // A host with two sockets and an enabled IOMMU.
        "[host]" if key.ends_with("_socket") => {
            (String::new(), format!("[host]\nprofile = \"xeon-e5-2630v4\"\n{line}\n"))
        }
        "[[host.iommu_window]]" => {
            let host = "[host]\nprofile = \"xeon-e5-2637v3\"\niommu = \"4k\"\n";
            (String::new(), format!("{host}{section}\nfunction = \"01:00.0\"\naddress = 0\n{line}\n"))
        }
        "[link]" if key == "port_buffer_tlps" => {
            (String::new(), format!("[link]\nflow_control = \"none\"\n{line}\n"))
        }
        "[link]" => (String::new(), format!("[link]\n{mps}{line}\n")),
        // As much as the BAR has, at the maximum size of the BAR.
        "[slot.nettlp-adapter]" if key == "exercise_bytes" => {
            (String::new(), format!("{section}\nbar_bytes = 134217728\n{line}\n"))
        }
        table if key == "exercise_bytes" => {
            (String::new(), format!("{table}\nsize_bytes = 268435456\n{line}\n"))
        }
        table => (String::new(), format!("{table}\n{line}\n")),
    };
    let version = if key == "version" { "" } else { "version = 1\n" };
    format!("{version}{before}{slot}{after}")
}

fn is_legal(row: &Row, value: i128) -> bool {
    let text = lab_with(&row.section, &row.key, &format!("{} = {value}", row.key));
    // In the folder of the shipped labs, which has captures.
    parse(&models(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/a.toml"), &text).is_ok()
}

/// `2^63 - 1`, or digits.
fn number(text: &str) -> i128 {
    match text.strip_prefix("2^").and_then(|t| t.strip_suffix(" - 1")) {
        Some(power) => (1 << power.parse::<u32>().unwrap()) - 1,
        None => text.parse().unwrap_or_else(|_| panic!("{text}")),
    }
}

#[test]
fn reader_enforces_limits_of_the_page() {
    let mut checked = 0;
    // Some limits depend on other keys. The limits of an address depend on its slot, of a flow's request size on the
    // kind, of a step's keys on the step and the device. Tests of riser-cli check these. A slot or host with a design
    // needs the design's file: see the tests of designs in riser-cli, and `rtl_root`.
    let elsewhere = |row: &Row| {
        row.key == "address"
            || row.section.contains("flow") && row.key == "size_bytes"
            || row.section.ends_with(".step]]")
            || row.section == "[slot.rtl]"
            || row.section == "[host.rtl-root-complex]"
    };
    for row in rows().iter().filter(|r| r.kind == "integer" && !elsewhere(r)) {
        // As "powers of two, 4 to 128", or "multiples of 8, 8 to 1024".
        let which = row.legal.split_once(", ").filter(|(which, _)| which.contains(" of "));
        let values: Vec<i128> = match which.map_or(row.legal.as_str(), |(_, range)| range).split_once(" to ")
        {
            Some((min, max)) => vec![number(min), number(max)],
            None => row.legal.split(", ").map(number).collect(),
        };
        if let Some((which, _)) = which {
            let between = if which.starts_with("powers") { 3 * values[0] } else { values[0] + 1 };
            assert!(!is_legal(row, between), "{row:?}: {between} is accepted");
        }
        for value in &values {
            assert!(is_legal(row, *value), "{row:?}: {value} is refused");
        }
        let beyond = [values.iter().min().unwrap() - 1, values.iter().max().unwrap() + 1];
        for value in beyond {
            assert!(!is_legal(row, value), "{row:?}: {value} is accepted");
        }
        checked += 1;
    }
    assert!(checked > 30, "{checked} rows");
}

/// A lab without keys and a lab with every default of the page have the same link.
#[test]
fn defaults_of_links_match_the_page() {
    let link = |text: &str| {
        let text = format!("version = 1\n{text}\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n");
        let lab = parse(&models(), Path::new("a.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
        format!("{:?}", links::config(&lab.link, &schema::Link::default()))
    };
    let stated = |section: &str| -> String {
        let rows = rows().into_iter().filter(|r| r.section == section);
        // Keys for links without flow control are tested separately below.
        rows.filter(|r| r.default.parse::<u64>().is_ok() && r.key != "port_buffer_tlps")
            .map(|r| format!("{} = {}\n", r.key, r.default))
            .collect()
    };
    let credits = stated("[link.device_credits]");
    let all =
        format!("[link]\n{}[link.device_credits]\n{credits}[link.root_credits]\n{credits}", stated("[link]"));
    assert!(all.lines().count() > 15, "{all}");
    assert_eq!(link(&all), link(""));
    let none = |more: &str| link(&format!("[link]\nflow_control = \"none\"\n{more}"));
    let buffer = rows().into_iter().find(|r| r.key == "port_buffer_tlps").unwrap().default;
    assert_eq!(none(&format!("port_buffer_tlps = {buffer}")), none(""));
}

/// The reader accepts as many credits with scaled flow control as the page states.
#[test]
fn limits_of_scaled_credits_match_the_page() {
    let mut checked = 0;
    for line in lab_pages()
        .lines()
        .filter(|l| l.starts_with("| `") && (l.contains("_header` |") || l.contains("_data` |")))
    {
        let key = line.split('`').nth(1).unwrap();
        let after = line.to_lowercase().split("with `scaled_flow_control` up to ").nth(1).map(str::to_owned);
        let limit = after.unwrap_or_else(|| panic!("{line}"));
        let limit: u32 = limit.split('.').next().unwrap().parse().unwrap();
        let taken = |n: u32| {
            let credits = format!("[link]\nscaled_flow_control = true\n[link.root_credits]\n{key} = {n}\n");
            let text = format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{credits}");
            parse(&models(), Path::new("a.toml"), &text).is_ok()
        };
        assert!(taken(limit) && !taken(limit + 1), "{line}");
        checked += 1;
    }
    assert!(checked >= 6, "{checked} keys");
}

#[test]
fn defaults_of_slots_match_the_endpoint() {
    let default = |key: &str| {
        let row = rows().into_iter().find(|r| r.section == "[[slot]]" && r.key == key).unwrap();
        row.default.parse::<u64>().unwrap()
    };
    let limits = EndpointLimits::default();
    assert_eq!(default("tags"), u64::from(limits.max_outstanding_reads));
    assert_eq!(default("completion_timeout_us") * 1_000_000, limits.completion_timeout.as_ps());
}
