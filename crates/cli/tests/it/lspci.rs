// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser lspci` on complete labs. Its output agrees with the output of the real `lspci` for its dump, and with the
//! lab.

use testkit::lspci as oracle;

use crate::common::riser_ok;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Lab of a switch with four slots, one of them empty.
const SWITCH: &str = r#"
version = 1
[link]
gen = 4
lanes = 4
mps_bytes = 256
mrrs_bytes = 1024
[[switch]]
name = "sw"
downstream_ports = 4
[[slot]]
name = "nic"
device = "simple-nic"
parent = "sw"
[[slot]]
name = "ram"
device = "memory"
parent = "sw"
port = 3
link = { gen = 1, lanes = 1 }
[[slot]]
name = "disk"
device = "disk"
parent = "sw"
port = 4
"#;

/// Lab of switches below switches, next to a slot of the root complex.
const DEEP: &str = r#"
version = 1
[[switch]]
name = "one"
[[switch]]
name = "two"
parent = "one"
[[switch]]
name = "three"
parent = "two"
downstream_ports = 2
[[slot]]
name = "deepest"
device = "pcie-bench"
parent = "three"
port = 2
[[slot]]
name = "beside"
device = "counter"
parent = "two"
[[slot]]
name = "near"
device = "mmio"
"#;

/// Lab with virtual channels above and below a switch.
const CHANNELS: &str = r#"
version = 1
[[switch]]
name = "sw"
downstream_ports = 2
[switch.link]
vc_arbitration = "weighted"
vc = [{ id = 0, phases = 48 }, { id = 3, tcs = [2, 3], phases = 16 }]
[[slot]]
name = "ram"
device = "memory"
parent = "sw"
[slot.link]
vc_arbitration = "round-robin"
vc = [{ id = 0 }, { id = 3, tcs = [2, 3] }]
[[slot]]
name = "plain"
device = "memory"
parent = "sw"
"#;

/// Writes a lab to its own file.
fn lab(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lspci-{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name)
}

fn labs(test: &str) -> [PathBuf; 6] {
    let [seven, tree, sriov] = ["seven.toml", "tree.toml", "sriov.toml"].map(shipped);
    let own = |name: &str, text| lab(&format!("{test}-{name}"), text);
    [own("switch", SWITCH), own("deep", DEEP), own("channels", CHANNELS), seven, tree, sriov]
}

fn run(lab: &Path, args: &[&str]) -> String {
    let all: Vec<&str> = ["lspci", lab.to_str().unwrap()].iter().chain(args).copied().collect();
    riser_ok(&all)
}

#[test]
fn real_lspci_reads_same_values_from_dump() {
    for lab in labs("dump") {
        let dump = run(&lab, &["--hexdump"]);
        let Some(theirs) = oracle::lspci(&dump, &["-vvv", "-n"]) else { return };
        oracle::assert_clean(&theirs);
        let ours = run(&lab, &["-v"]);
        let (ours, theirs) = (oracle::functions(&ours), oracle::functions(&theirs));
        assert_eq!(ours.len(), theirs.len(), "{}", lab.display());
        for ((head, ours), (their_head, theirs)) in ours.into_iter().zip(theirs) {
            assert_eq!(head.split(' ').next(), their_head.split(' ').next());
            oracle::assert_same(ours, theirs);
        }
    }
}

/// Lines of the Virtual Channel capability of a function; empty without it.
fn channel_lines(lab: &Path, function: &str) -> Vec<String> {
    let text = run(lab, &["-v", "-s", function]);
    let lines = text.lines().skip_while(|line| !line.contains("Virtual Channel")).skip(1);
    lines.take_while(|line| line.starts_with("\t\t")).map(|line| line.trim().to_owned()).collect()
}

/// Both ends of a link have the lab's settings as reset values.
#[test]
fn lab_sets_reset_values_of_channels() {
    let lab = lab("channels-values", CHANNELS);
    let (table, in_turn) = ("Ctrl:\tArbSelect=WRR64", "Ctrl:\tArbSelect=Fixed");
    for (function, arbitration) in
        [("00:01.0", table), ("01:00.0", table), ("02:00.0", in_turn), ("03:00.0", in_turn)]
    {
        let lines = channel_lines(&lab, function);
        for line in [
            arbitration,
            "Ctrl:\tEnable+ ID=0 ArbSelect=Fixed TC/VC=f3",
            "Ctrl:\tEnable+ ID=3 ArbSelect=Fixed TC/VC=0c",
        ] {
            assert!(lines.iter().any(|have| have == line), "{function}, {line}: {lines:#?}");
        }
        assert!(lines.iter().all(|line| !line.contains("NegoPending+")), "{function}: {lines:#?}");
    }
    // The other slot has one channel.
    for function in ["02:01.0", "04:00.0"] {
        assert_eq!(channel_lines(&lab, function), Vec::<String>::new(), "{function}");
    }
}

#[test]
fn tree_matches_real_lspci() {
    for lab in labs("tree") {
        let Some(theirs) = oracle::lspci(&run(&lab, &["--hexdump"]), &["-t"]) else { return };
        assert_eq!(run(&lab, &["--tree"]).trim_end(), theirs.trim_end(), "{}", lab.display());
    }
}

#[test]
fn function_list_shows_names_of_lab() {
    assert_eq!(
        run(&lab("names", SWITCH), &[]),
        "\
00:01.0 PCI bridge: Riser Root Port, to sw (rev 00)
01:00.0 PCI bridge: Riser Upstream Port of sw (rev 00)
02:00.0 PCI bridge: Riser Downstream Port 1 of sw, to nic (rev 00)
02:01.0 PCI bridge: Riser Downstream Port 2 of sw (rev 00)
02:02.0 PCI bridge: Riser Downstream Port 3 of sw, to ram (rev 00)
02:03.0 PCI bridge: Riser Downstream Port 4 of sw, to disk (rev 00)
03:00.0 Ethernet controller: nic (simple-nic) (rev 01)
05:00.0 RAM memory: ram (memory) (rev 01)
06:00.0 Mass storage controller: disk (disk) (rev 01)
"
    );
}

#[test]
fn tree_shows_names_of_lab() {
    let tree = run(&lab("named-tree", DEEP), &["--tree", "-v"]);
    for name in ["  deepest (pcie-bench)\n", "  beside (counter)\n", "  near (mmio)\n"] {
        assert!(tree.contains(name), "{name} in\n{tree}");
    }
    let plain: Vec<&str> = tree.lines().map(|l| l.split("  ").next().unwrap_or(l)).collect();
    assert!(plain[0].starts_with("-[0000:00]-+-01.0-["), "{tree}");
}

/// Registers whose values come from the lab and from enumeration's policy.
#[test]
fn registers_match_lab() {
    let lab = lab("registers", SWITCH);
    for (function, line) in [
        // From [link]: gen, lanes.
        ("00:01.0", "LnkSta: Speed 16GT/s, Width x4"),
        ("00:01.0", "Bus: primary=00, secondary=01,"),
        ("01:00.0", "Express (v2) Upstream Port, MSI 00"),
        ("01:00.0", "Bus: primary=01, secondary=02,"),
        // Slots of root ports are numbered first.
        ("02:02.0", "Slot #4, PowerLimit"),
        ("02:02.0", "LnkSta: Speed 2.5GT/s, Width x1"),
        ("05:00.0", "LnkSta: Speed 2.5GT/s, Width x1"),
        // From [link]: mps_bytes, the least below the root port (Policy, MpsPolicy::Path), and mrrs_bytes.
        ("03:00.0", "MaxPayload 256 bytes, MaxReadReq 1024 bytes"),
        ("03:00.0", "Control: I/O- Mem+ BusMaster+"),
        ("06:00.0", "MSI: Enable+"),
    ] {
        let text = run(&lab, &["-v", "-s", function]);
        let lines: Vec<String> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.iter().any(|l| l.contains(line)), "{function}: {line} in\n{text}");
    }
}

#[test]
fn vv_lists_every_field_by_name() {
    let text = run(&shipped("ping.toml"), &["-vv", "-s", "00:01.0"]);
    for line in ["[018] ", "Secondary Bus Number = 1 (RW)", "Max_Payload_Size = "] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn json_agrees_with_text() {
    let all: Value = serde_json::from_str(&run(&lab("json", SWITCH), &["--json"])).unwrap();
    assert!(all["config_requests"].as_u64().unwrap() > 100, "{all}");
    assert!(all["enumeration_ns"].as_f64().unwrap() > 1_000.0, "{all}");
    let functions = all["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 9);
    let of = |bdf: &str| functions.iter().find(|f| f["bdf"] == bdf).unwrap();
    let ram = of("05:00.0");
    for (key, value) in [
        ("path", "01.0/00.0/02.0/00.0".into()),
        ("slot", "ram".into()),
        ("model", "memory".into()),
        ("parent", "02:02.0".into()),
        ("class_name", "RAM memory".into()),
        ("switch", Value::Null),
        ("bridge", Value::Null),
        ("vf_of", Value::Null),
        ("mrrs_bytes", 1024.into()),
    ] {
        assert_eq!(ram[key], value, "{key}");
    }
    assert_eq!((&ram["link"]["gen"], &ram["link"]["lanes"]), (&1.into(), &1.into()));
    let bar = &ram["bars"][0];
    let (address, size) = (bar["address"].as_u64().unwrap(), bar["size_bytes"].as_u64().unwrap());
    // A BAR lies within the windows of every bridge above it.
    for bridge in ["00:01.0", "01:00.0", "02:02.0"] {
        let windows = &of(bridge)["bridge"];
        let holds = |w: &Value| {
            let (base, len) = (w["base"].as_u64()?, w["size_bytes"].as_u64()?);
            (base <= address && address + size <= base + len).then_some(())
        };
        assert!(
            holds(&windows["memory"]).or(holds(&windows["prefetchable"])).is_some(),
            "{bridge}: {windows}"
        );
    }
    assert_eq!((&of("02:02.0")["switch"], &of("02:02.0")["port"]), (&"sw".into(), &3.into()));
    let names: Vec<&str> =
        ram["capabilities"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Express"), "{names:?}");
}

/// Reserved registers of a virtual function have the values of the physical function.
#[test]
fn virtual_functions_use_registers_of_physical_function() {
    let all: Value = serde_json::from_str(&run(&shipped("sriov.toml"), &["--json"])).unwrap();
    let functions = all["functions"].as_array().unwrap();
    let (physical, virtuals): (Vec<&Value>, Vec<&Value>) =
        functions.iter().filter(|f| f["slot"] == "card").partition(|f| f["vf_of"].is_null());
    // The lab has vfs = 4, gen = 3, lanes = 8, mrrs_bytes = 512.
    assert_eq!((physical.len(), virtuals.len()), (1, 4));
    assert_eq!(physical[0]["sriov"]["num_vfs"], 4);
    for (n, vf) in (1..).zip(virtuals) {
        assert_eq!(vf["bdf"], format!("01:00.{n}"));
        assert_eq!(vf["vf_of"], "01:00.0");
        assert_eq!((&vf["link"]["gen"], &vf["link"]["lanes"]), (&3.into(), &8.into()));
        assert_eq!(vf["mrrs_bytes"], 512);
        assert_eq!(vf["bars"][0]["kind"], "memory64");
    }
}

/// The same lab gives the same bytes.
#[test]
fn two_runs_print_same_bytes() {
    let lab = lab("twice", DEEP);
    assert_eq!(run(&lab, &["--hexdump"]), run(&lab, &["--hexdump"]));
}

#[test]
fn dump_has_only_registers() {
    let dump = run(&shipped("ping.toml"), &["--hexdump", "-s", "01:00.0"]);
    let mut lines = dump.lines();
    assert_eq!(lines.next(), Some("01:00.0 Ethernet controller: nic (simple-nic) (rev 01)"));
    for at in (0..4096).step_by(16) {
        let line = lines.next().unwrap();
        let (offset, bytes) = line.split_once(": ").unwrap();
        assert_eq!(u16::from_str_radix(offset, 16), Ok(at), "{line}");
        let bytes: Vec<&str> = bytes.split(' ').collect();
        assert!(bytes.len() == 16 && bytes.iter().all(|b| u8::from_str_radix(b, 16).is_ok()), "{line}");
    }
    assert!(lines.all(str::is_empty));
}
