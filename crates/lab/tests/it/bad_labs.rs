// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invalid labs: each is rejected before anything runs, at its line and column, with the legal values.

use devices::models;
use devices::pcie_bench::CARDS;
use proptest::prelude::*;
use riser_lab::profile::HOSTS;
use riser_lab::{BuildOptions, FileErrors, LabFile, build, parse, read};
use std::fs;
use std::path::{Path, PathBuf};

/// A valid lab of one slot, followed by the text of a row. Its slot `a` is line 2.
fn lab(device: &str, more: &str) -> String {
    format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"{device}\"\n{more}")
}

fn refused(text: &str) -> FileErrors {
    match parse(&models(), Path::new("bad.toml"), text) {
        Ok(_) => panic!("taken:\n{text}"),
        Err(error) => error,
    }
}

#[test]
fn reports_errors_with_place_and_valid_values() {
    let memory = |more: &str| lab("memory", more);
    let nic = |more: &str| lab("simple-nic", more);
    let bench = |more: &str| lab("pcie-bench", more);
    let fault = |slot: &str, nth: u64| {
        let text = format!(
            "slot = \"{slot}\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = {nth}\naction = \"drop\"\n"
        );
        memory(&format!("[[fault]]\n{text}"))
    };
    let paired = |frames: &str, action: &str, more: &str| {
        let text = fault("a", 1).replace("\"tlp\"", &format!("\"{frames}\""));
        text.replace("\"drop\"", &format!("\"{action}\"")) + more + "\n"
    };
    let slot = |n: u32| format!("[[slot]]\nname = \"s{n}\"\ndevice = \"memory\"\n");
    let many = format!("version = 1\n{}", (0..32).map(slot).collect::<String>());
    let long = "x".repeat(65);
    let nested = format!("a = {}", "[".repeat(50_000));
    // The text; line and column ((0, 0) for errors of the file as a whole); parts of the message.
    let rows: Vec<(String, (usize, usize), &[&str])> = vec![
        // The file.
        ("".into(), (0, 0), &["empty file", "`version = 1`", "[[slot]]"]),
        ("# A comment.\n".into(), (1, 1), &["missing field `version`, expected 1"]),
        ("[[slot]]\nname = \"a\"\ndevice = \"memory\"\n".into(), (1, 1), &["missing field `version`, expected 1"]),
        ("version = 1\n[[slot]]\nname = \"a\"\n".into(), (2, 1), &["missing field `device`, expected `clock`, `counter`, `disk`"]),
        ("version = 1\n[[slot]]\ndevice = \"memory\"\n".into(), (2, 1), &["missing field `name`, expected strings"]),
        ("version = 1\n".into(), (0, 0), &["0 slots", "up to 248 [[slot]]", "at least one [[slot]] or [[switch]]"]),
        ("version = 1\nslot = []\n".into(), (0, 0), &["0 slots", "up to 248 [[slot]]"]),
        (many, (0, 0), &["32 slots and switches on the root complex", "1 to 31 root ports"]),
        ("version = 2\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n".into(), (1, 11), &["version of 2", "expected 1"]),
        ("version = 1\n[[slot]\n".into(), (2, 8), &["unclosed array table", "`]`"]),
        ("version = 1\nversion = 1\n".into(), (2, 1), &["duplicate key"]),
        ("version = \"1\"\n".into(), (1, 11), &["version is string \"1\", expected 1"]),
        ("version = 1\nspeed = 3\n".into(), (2, 1), &["unknown field `speed`", "`seed`", "`slot`"]),
        (memory("").replace("version = 1", "version = 1\nlimit_us = -5"), (2, 12), &["limit_us is integer `-5`", "2^64 - 1"]),
        (nested, (1, 85), &["max recursion depth"]),
        // Slots.
        (memory("colour = 3\n"), (5, 1), &["unknown field `colour`", "`tags`"]),
        (lab("gpu", ""), (4, 10), &["unknown device `gpu`", "`memory`", "`simple-nic`", "`pcie-bench`"]),
        (lab("python", ""), (4, 10), &["unknown device `python`", "Python package", "python3 -m riser"]),
        (memory("[slot.python]\n"), (5, 7), &["unknown field `python`", "Python package"]),
        (memory("[[slot]]\nname = \"a\"\ndevice = \"memory\"\n"), (6, 8), &["second slot named `a`", "unique"]),
        ("version = 1\n[[slot]]\nname = \"\"\ndevice = \"memory\"\n".into(), (3, 8), &["name \"\"", "1 to 64 characters"]),
        (format!("version = 1\n[[slot]]\nname = \"{long}\"\ndevice = \"memory\"\n"), (3, 8), &["1 to 64 characters"]),
        ("version = 1\n[[slot]]\nname = \"a\\nb\"\ndevice = \"memory\"\n".into(), (3, 8), &["\"a\\nb\"", "control"]),
        (memory("tags = 0\n"), (5, 8), &["tags of 0", "1 to 768"]),
        (memory("tags = 769\n"), (5, 8), &["tags of 769", "1 to 768"]),
        (memory("tags_per = \"slot\"\n"), (5, 12), &["unknown variant `slot`", "`function`", "`endpoint`"]),
        (memory("completion_timeout_us = 49\n"), (5, 25), &["49", "50 to 50000"]),
        (memory("[slot.simple-nic]\npings = 1\n"), (5, 1), &["settings of `simple-nic`", "its device is `memory`"]),
        (nic("[slot.pcie-bench]\nsize_bytes = 1\n"), (5, 1), &["settings of `pcie-bench`", "its device is `simple-nic`"]),
        // A wrong type, reported once.
        (lab("simple-nic", "[slot.simple-nic]\npings = -1\n"), (6, 9), &["pings is integer"]),
        (lab("dma-engine", "[slot.dma-engine]\ndirections = 3\n"), (6, 14), &["directions is neither", "`both`"]),
        // Lists in place of tables.
        (format!("version = 1\nlink = []\n{}", slot(0)), (2, 8), &["link is a list, expected tables"]),
        (format!("version = 1\nhost = [\"gem5\"]\n{}", slot(0)), (2, 8), &["host is a list, expected tables"]),
        (format!("version = 1\nhost = []\n{}", slot(0)), (2, 8), &["host is a list, expected tables"]),
        (
            lab("traffic", "[slot.traffic]\nflow = [[\"w\", \"read\", 64]]\n"),
            (6, 9),
            &["flow has a list for an element, expected tables"],
        ),
        // Links.
        (memory("[link]\nlanes = 3\n"), (6, 9), &["3 lanes", "1, 2, 4, 8, 12, 16, 32"]),
        (memory("[slot.link]\ngen = 6\n"), (6, 7), &["generation 6", "1, 2, 3, 4, 5"]),
        (memory("[slot.link]\ngen = 2.5\n"), (6, 7), &["gen is floating point `2.5`, expected 1, 2, 3, 4, 5"]),
        (memory("[link]\nmps_bytes = 100\n"), (6, 13), &["Max_Payload_Size of 100", "128, 256, 512"]),
        (memory("[link]\nmrrs_bytes = 64\n"), (6, 14), &["Max_Read_Request_Size of 64", "128, 256"]),
        (memory("[link]\nrcb_bytes = 32\n"), (6, 13), &["Read Completion Boundary of 32", "64, 128"]),
        (memory("[link]\nbit_error_rate = 0.5\n"), (6, 18), &["bit error rate 0.5", "0 to 0.001"]),
        (memory("[link]\nbit_error_rate = nan\n"), (6, 18), &["NaN", "0 to 0.001"]),
        (memory("[link]\npropagation_ps = 1_000_001\n"), (6, 18), &["propagation_ps of 1000001", "0 to 1000000"]),
        (memory("[link]\nwidth = 8\n"), (6, 1), &["unknown field `width`", "`lanes`"]),
        (memory("[link.root_credits]\nposted_header = 128\n"), (6, 17), &["root side", "Posted header credits 128", "1 to 127"]),
        (
            memory("[link]\nmps_bytes = 512\n[link.device_credits]\nposted_data = 31\n"),
            (8, 15),
            &["link of slot `a`, device side", "Posted data credits 31", "32 to 2047"],
        ),
        (memory("[slot.link.device_credits]\ncompletion_data = 2048\n"), (6, 19), &["Completion data credits 2048", "16 to 2047"]),
        (memory("[link]\nreplay_buffer_tlps = 0\n"), (6, 22), &["replay buffer of 0 TLPs", "1 to 2047"]),
        (memory("[link]\nreplay_buffer_bytes = 281\n"), (6, 23), &["281 bytes", "at least 282"]),
        (memory("[link]\nack_latency_symbols = 24000\n"), (6, 23), &["Ack latency of 24000", "1 to 23999"]),
        (memory("[link]\nvc_arbitration = \"fair\"\n"), (6, 18), &["unknown variant `fair`", "`strict`", "`round-robin`", "`weighted`"]),
        (memory("[[link.vc]]\nid = 8\n"), (5, 1), &["link of slot `a`, virtual channel 8", "0 to 7"]),
        (memory("[[link.vc]]\nid = 1\n[[link.vc]]\nid = 1\n"), (5, 1), &["second table of VC1", "each has one"]),
        (memory("[[link.vc]]\nid = 1\ntcs = [8]\n"), (5, 1), &["traffic classes of VC1", "0 to 7"]),
        (memory("[[link.vc]]\nid = 1\ntcs = []\n"), (5, 1), &["VC1 without traffic classes", "leave its table out"]),
        (memory("[[link.vc]]\nid = 1\ntcs = [0, 1]\n[[link.vc]]\nid = 0\ntcs = [2]\n"), (5, 1), &["TC0 on VC1", "expected on VC0"]),
        (
            memory("[[link.vc]]\nid = 1\ntcs = [1, 2]\n[[link.vc]]\nid = 2\ntcs = [2]\n"),
            (5, 1),
            &["TC2 on VC1 and VC2", "at most one channel"],
        ),
        (memory("[[slot.link.vc]]\nid = 1\nphases = 129\n"), (5, 1), &["129 phases of VC1", "1 to 128"]),
        (
            memory("[link]\nvc_arbitration = \"weighted\"\n[[link.vc]]\nid = 0\nphases = 20\n[[link.vc]]\nid = 1\nphases = 10\n"),
            (7, 1),
            &["a VC arbitration table of 30 phases", "32, 64 or 128"],
        ),
        (
            memory("[link]\nvc_arbitration = \"weighted\"\n[[link.vc]]\nid = 0\nphases = 32\n[[link.vc]]\nid = 1\n"),
            (7, 1),
            &["VC1 has no phase", "never send"],
        ),
        (memory("[link]\nlow_priority_vc = 3\n"), (6, 19), &["low_priority_vc 3", "`strict` arbitration, only 0"]),
        (
            memory("[[link.vc]]\nid = 3\nroot_credits = { posted_data = 2048 }\n"),
            (7, 32),
            &["root side: VC3 Posted data credits 2048", "16 to 2047"],
        ),
        (
            memory("[link]\nscaled_flow_control = true\nroot_credits = { posted_header = 2033 }\n"),
            (7, 34),
            &["Posted header credits 2033", "1 to 2032"],
        ),
        (memory("[link]\nflow_control = \"none\"\nport_buffer_tlps = 0\n"), (7, 20), &["receive buffer of 0 TLPs", "at least 1"]),
        (
            memory("[link]\nflow_control = \"none\"\n[[link.vc]]\nid = 1\n"),
            (6, 16),
            &["2 channels without flow control", "expected only VC0"],
        ),
        (memory("[link]\nreplay_timer_symbols = 23999\n"), (6, 24), &["REPLAY_TIMER of 23999", "24000 to 31000"]),
        (
            memory("[link]\ngen = 4\nreplay_timer = \"rev3\"\n"),
            (7, 16),
            &["link of slot `a`, root side", "REPLAY_TIMER of revision 3 at 16 GT/s", "2.5, 5 or 8 GT/s"],
        ),
        (memory("[link]\nreplay_buffer_tlps = 2048\n"), (6, 22), &["replay buffer of 2048 TLPs", "1 to 2047"]),
        (memory("[link]\nretrain_ns = 24_000_001\n"), (6, 14), &["retrain_ns of 24000001", "0 to 24000000"]),
        // Keys that have no effect because of other keys.
        (memory("[[slot.link.vc]]\nid = 1\nphases = 8\n"), (5, 1), &["link of slot `a`, 8 phases of VC1", "only with vc_arbitration = \"weighted\""]),
        (memory("[[link.vc]]\nid = 0\nphases = 32\n"), (5, 1), &["link of every slot, 32 phases of VC0", "legal only with vc_arbitration = \"weighted\""]),
        (
            memory("[link]\nvc_arbitration = \"weighted\"\nlow_priority_vc = 0\nvc = [{ id = 0, phases = 32 }, { id = 2, phases = 8 }]\n"),
            (8, 6),
            &["8 phases of VC2", "above low_priority_vc 0", "legal up to VC0"],
        ),
        (memory("[link]\nport_buffer_tlps = 4\n"), (6, 20), &["port_buffer_tlps of 4", "only with flow_control = \"none\""]),
        (memory("[slot.link]\nport_buffer_tlps = 4\nflow_control = \"credits\"\n"), (6, 20), &["link of slot `a`, port_buffer_tlps of 4"]),
        (
            memory("[link]\nreplay_cursor = \"position\"\n"),
            (6, 17),
            &["replay_cursor = \"position\"", "legal only with flow_control = \"none\"", "\"sequence\" is legal"],
        ),
        (memory("[link]\nreplay_cursor = \"number\"\n"), (6, 17), &["unknown variant `number`", "`sequence`", "`position`"]),
        (memory("[link]\nack_line_bytes = 0\n"), (6, 18), &["ack_line_bytes of 0, expected 1 to 4096"]),
        (memory("[link]\nack_line_bytes = 128\nack_factor = 0.0\n"), (7, 14), &["ack_factor of 0, expected 0.1 to 100"]),
        (memory("[link]\nlanes = 1\nack_line_bytes = 4096\nack_factor = 9.0\n"), (7, 18), &["Ack latency of 37044", "1 to 23999"]),
        (memory("[link]\nack_factor = 1.4\n"), (6, 14), &["ack_factor of 1.4: legal only with ack_line_bytes"]),
        (
            memory("[link]\nack_line_bytes = 64\nack_latency_symbols = 9\n"),
            (6, 18),
            &["ack_line_bytes of 64: legal only without ack_latency_symbols, which is 9"],
        ),
        (
            memory("[slot.link]\nreplay_timer = \"rev3\"\n[link]\nreplay_timer_symbols = 25000\n"),
            (8, 24),
            &["replay_timer_symbols of 25000", "only with replay_timer = \"rev4\""],
        ),
        (
            memory("[link]\nflow_control = \"none\"\n[slot.link.root_credits]\nposted_header = 8\n"),
            (7, 1),
            &["link of slot `a`, root_credits", "only with flow_control = \"credits\""],
        ),
        (
            memory("[link]\nflow_control = \"none\"\nvc = [{ id = 0, device_credits = { posted_header = 8 } }]\n"),
            (3, 8),
            &["device_credits", "only with flow_control = \"credits\""],
        ),
        (memory("[link]\nflow_control = \"none\"\nscaled_flow_control = true\n"), (7, 23), &["scaled_flow_control: legal only with"]),
        (memory("[link]\nflow_control = \"none\"\nupdate_fc_symbols = 100\n"), (7, 21), &["update_fc_symbols: legal only with"]),
        (memory("[link]\nflow_control = \"none\"\nreplay_timer = \"rev3\"\n"), (7, 16), &["replay_timer: legal only with"]),
        (memory("[link]\nflow_control = \"none\"\nreplay_timer_symbols = 24000\n"), (7, 24), &["replay_timer_symbols: legal only with"]),
        (memory("[[link_event]]\nat_us = 1\nslot = \"a\"\ngen = 4\n"), (8, 7), &["gen of 4", "1 to 3", "link of slot `a`"]),
        (
            memory("[slot.link]\nlanes = 4\n[[link_event]]\nat_us = 1\nslot = \"a\"\nlanes = 8\n"),
            (10, 9),
            &["8 lanes", "1 to 4", "link of slot `a`"],
        ),
        (memory("[[link_event]]\nat_us = 1\nslot = \"b\"\nlanes = 4\n"), (7, 8), &["no slot `b`", "there are a"]),
        (memory("[[link_event]]\nat_us = 1\nslot = \"a\"\nlanes = 5\n"), (8, 9), &["5 lanes", "1, 2, 4, 8"]),
        // Less room than the longest non-posted request needs.
        (
            memory("[link]\nroot_credits.non_posted_data = 1\n"),
            (6, 32),
            &["link of slot `a`, root side: NonPosted data credits 1", "2 to 2047"],
        ),
        (
            memory("[[switch]]\nname = \"s\"\n[switch.link.device_credits]\nnon_posted_data = 1\n"),
            (8, 19),
            &["link of switch `s`, device side: NonPosted data credits 1", "2 to 2047"],
        ),
        (
            lab("packet-nic", "[link.device_credits]\nnon_posted_data = 0\n[slot.link]\nroot_credits = { non_posted_data = 1 }\n"),
            (8, 36),
            &["root side: NonPosted data credits 1"],
        ),
        // Requests that can never be sent with the credits of their path.
        (
            lab("disk", "[slot.link]\nroot_credits = { non_posted_data = 2 }\n"),
            (6, 36),
            &["link of slot `a`, root side: NonPosted data credits 2, expected 4 or more", "deferrable writes of 64 B of slot `a`"],
        ),
        (
            lab("disk", "parent = \"s\"\n[slot.disk]\nrequest_bytes = 128\n[[switch]]\nname = \"s\"\n[switch.link.root_credits]\nnon_posted_data = 7\n"),
            (11, 19),
            &["link of switch `s`, root side: NonPosted data credits 7, expected 8 or more", "of 128 B of slot `a`"],
        ),
        // The host.
        (memory("[host]\nlow_memory_mib = 0\n"), (6, 18), &["low_memory_mib of 0", "1 to 2048"]),
        (memory("[host]\nhigh_memory_mib = 131073\n"), (6, 19), &["131073", "0 to 131072"]),
        (memory("[host]\nprofile = \"cray-1\"\n"), (6, 11), &["no host profile `cray-1`", "ideal"]),
        // Devices.
        (memory("[slot.memory]\nsize_bytes = 48\n"), (6, 14), &["size_bytes of 48", "powers of two, 16 to 268435456"]),
        (memory("[slot.memory]\naddress = 0x8000_1000\n"), (6, 11), &["0x80001000", "not aligned to its 65536 bytes"]),
        (memory("[slot.memory]\nsize_bytes = 16\naddress = 0x8000_0010\n"), (7, 11), &["not aligned to its 128 bytes"]),
        (
            memory("[slot.memory]\naddress = 0xf800_0000\n"),
            (6, 11),
            &["BAR of 65536 bytes at 0xf8000000 of slot `a`", "0x80000000 to 0xf7ffffff"],
        ),
        (memory("[slot.memory]\nsize_bytes = 0x1000_0000\naddress = 0xf000_0000\n"), (7, 11), &["of slot `a`: legal addresses are 0x80000000"]),
        (memory("[slot.memory]\nsize_bytes = 64\nexercise_bytes = 65\n"), (7, 18), &["exercise_bytes of 65", "at most size_bytes, 64"]),
        (
            memory("[slot.memory]\naddress = 0x9000_0000\n[[slot]]\nname = \"b\"\ndevice = \"memory\"\n[slot.memory]\naddress = 0x9000_0000\n")
                .replacen("0x9000_0000", "0x8000_0000", 1)
                .replace("0x9000_0000", "0x8000_0000"),
            (11, 11),
            &["0x80000000 of slot `b` overlaps the BAR of slot `a`"],
        ),
        (nic("[slot.simple-nic]\nbar = 6\n"), (6, 7), &["bar of 6", "0 to 5"]),
        (nic("[slot.simple-nic]\nping_bytes = 1473\n"), (6, 14), &["ping_bytes of 1473", "0 to 1472"]),
        (nic("[slot.simple-nic]\naddress = 0x8000_0001\n"), (6, 11), &["not aligned"]),
        (bench("[slot.pcie-bench]\nsize_bytes = 0\n"), (6, 14), &["size_bytes of 0", "1 to 4096"]),
        (bench("[slot.pcie-bench]\nsize_bytes = 4096\nhost_offset_bytes = 1\n"), (6, 14), &["4096", "4096 together"]),
        (bench("[slot.pcie-bench]\nhost_offset_bytes = 64\n"), (6, 21), &["0 to 63"]),
        (bench("[slot.pcie-bench]\noutstanding = 1025\n"), (6, 15), &["1 to 1024"]),
        (bench("[slot.pcie-bench]\nwindow_bytes = 63\n"), (6, 16), &["64 to 1073741824"]),
        (bench("[slot.pcie-bench]\ntransfers = 0\n"), (6, 13), &["transfers of 0", "expected 1 to"]),
        (bench("[slot.pcie-bench]\ntest = \"LAT_RD\"\ntransfers = 20_000_000\n"), (3, 8), &["1 to 16777216 in a latency test"]),
        (bench("[slot.pcie-bench]\ntest = \"lat_rd\"\n"), (6, 8), &["unknown variant `lat_rd`", "LAT_RD", "BW_RDWR"]),
        (bench("[slot.pcie-bench]\nprofile = \"abacus\"\n"), (6, 11), &["no device profile `abacus`", "ideal"]),
        (
            bench("[slot.pcie-bench]\nwindow_bytes = 0x20_0000\n[host]\nhigh_memory_mib = 1\n"),
            (6, 16),
            &["window_bytes of 2097152", "host.high_memory_mib has 1048576 bytes left"],
        ),
        (
            bench("[slot.pcie-bench]\nwindow_bytes = 0x10_0000\nmemory = \"low\"\n[host]\nlow_memory_mib = 1\n"),
            (6, 16),
            &["host.low_memory_mib has 1044480 bytes left"],
        ),
        (
            bench("[[slot]]\nname = \"b\"\ndevice = \"pcie-bench\"\n[host]\nhigh_memory_mib = 0\n"),
            (3, 8),
            &["host.high_memory_mib has 0 bytes left"],
        ),
        (
            lab("traffic", "[[slot.traffic.flow]]\nname = \"f\"\nkind = \"read\"\n[[slot.traffic.flow]]\nname = \"f\"\nkind = \"write\"\n"),
            (9, 8),
            &["slot `a`: a second flow named `f`", "expected unique names in a slot"],
        ),
        (
            lab("traffic", "[[slot.link.vc]]\nid = 0\ntcs = [0]\n[[slot.link.vc]]\nid = 1\n[[slot.traffic.flow]]\nname = \"f\"\nkind = \"write\"\ntc = 2\n"),
            (13, 6),
            &["slot `a`: flow `f`: tc of 2, expected one that each link of its path maps to a virtual channel: 0, 1 (PCIe", "§2.5.2"],
        ),
        (
            "version = 1\n[[switch]]\nname = \"s\"\n[[switch.link.vc]]\nid = 0\ntcs = [0]\n[[slot]]\nname = \"a\"\n\
             device = \"traffic\"\nparent = \"s\"\n[[slot.traffic.flow]]\nname = \"f\"\nkind = \"read\"\ntc = 1\n"
                .into(),
            (14, 6),
            &["slot `a`: flow `f`: tc of 1, expected one that each link of its path maps to a virtual channel: 0 (PCIe"],
        ),
        (lab("replay", "[slot.replay]\ncapture = \"gone.pcap\"\n"), (6, 11), &["slot `a`", "gone.pcap", "No such file"]),
        (lab("replay", "[slot.replay]\ncapture = \"Cargo.toml\"\n"), (6, 11), &["slot `a`", "Cargo.toml"]),
        (
            lab("replay", "[slot.replay]\ncapture = \"gone.pcap\"\nwindow_bytes = 0x1000_0000\n[host]\nlow_memory_mib = 1\n"),
            (7, 16),
            &["slot `a`: window_bytes"],
        ),
        // Faults.
        (fault("b", 1), (6, 8), &["no slot `b`", "there are a"]),
        (fault("a", 0), (9, 7), &["nth of 0", "counted from 1"]),
        (fault("a", 1).replace("\"tlp\"", "\"frame\""), (8, 10), &["unknown variant `frame`", "`update-fc`"]),
        (fault("a", 1).replace("nth = 1\n", ""), (5, 1), &["missing field `nth`"]),
        (fault("a", 1) + "delay_ns = 5\n", (10, 10), &["delay_ns: legal only with action = \"delay\""]),
        (fault("a", 1).replace("\"drop\"", "\"delay\""), (10, 10), &["action \"delay\" needs delay_ns"]),
        (fault("a", 1).replace("\"drop\"", "\"delay\"") + "delay_ns = 0\n", (11, 12), &["delay_ns of 0", "1 to 1000000000"]),
        (fault("a", 1).replace("\"drop\"", "\"shift-credits\""), (10, 10), &["needs header_credits or data_credits"]),
        (fault("a", 1).replace("\"drop\"", "\"set-tag\"") + "new_tag = 1024\n", (11, 11), &["new_tag of 1024", "0 to 1023"]),
        (fault("a", 1).replace("\"tlp\"", "\"ack\"") + "tag = 3\n", (8, 10), &["tag: legal only with frames = \"tlp\""]),
        (fault("a", 1) + "last_address = 3\n", (11, 16), &["last_address: needs first_address"]),
        (fault("a", 1) + "first_address = 8\nlast_address = 3\n", (12, 16), &["last_address of 0x3", "0x8 and more"]),
        (fault("a", 1) + "probability = 1.5\n", (11, 15), &["probability 1.5", "0 to 1"]),
        (fault("a", 1) + "requester = \"x\"\n", (11, 13), &["`x`", "00:00.0 to ff:1f.7"]),
        (fault("a", 1) + "until_us = 3\n", (11, 1), &["unknown field `until_us`", "`delay_ns`"]),
        (paired("posted", "set-status", "status = \"success\""), (10, 10), &["action of \"set-status\": no frame of frames = \"posted\" has a Completion Status", "expected frames = \"any\" or \"tlp\" or \"completion\""]),
        (paired("dllp", "poison", ""), (10, 10), &["no frame of frames = \"dllp\" has data, expected frames = \"any\" or \"tlp\""]),
        (paired("nak", "shift-credits", "data_credits = 1"), (10, 10), &["credits of an UpdateFC, expected frames = \"any\" or \"dllp\" or \"update-fc\""]),
        (paired("tlp", "shift-sequence", "sequence_ahead = 1"), (10, 10), &["an AckNak_Seq_Num, expected frames = \"any\" or \"dllp\" or \"ack\" or \"nak\""]),
        (paired("posted", "drop", "tlp_type = \"memory-read\""), (8, 10), &["frames of \"posted\": none has tlp_type = \"memory-read\", expected frames = \"tlp\" or \"non-posted\""]),
        (paired("completion", "drop", "first_address = 8"), (8, 10), &["frames of \"completion\": none has an address, expected frames = \"tlp\" or \"posted\" or \"non-posted\""]),
        (paired("tlp", "poison", "tlp_type = \"memory-read\""), (10, 10), &["no frame of tlp_type = \"memory-read\" has data, expected tlp_type = \"memory-write\" or "]),
        // Outages.
        (memory("[[outage]]\nslot = \"b\"\nat_us = 1\n"), (6, 8), &["no slot `b`", "there are a"]),
        (memory("[[outage]]\nslot = \"a\"\n"), (5, 1), &["missing field `at_us`"]),
        (memory("[[outage]]\nslot = \"a\"\nat_us = 5\nuntil_us = 5\n"), (8, 12), &["until_us of 5", "after at_us, 5"]),
        (memory("[[outage]]\nslot = \"a\"\nat_us = 5\nkind = \"x\"\n"), (8, 8), &["unknown variant `x`", "`removal`"]),
    ];
    let mut wrong = Vec::new();
    for (text, place, parts) in rows {
        let error = refused(&text);
        let shown = error.to_string();
        let missing: Vec<_> = parts.iter().filter(|part| !shown.contains(**part)).collect();
        let found = error.all()[0].place.unwrap_or((0, 0));
        if found != place || !missing.is_empty() || !shown.starts_with("bad.toml:") {
            wrong.push(format!("{shown}\nexpected at {place:?}, with {missing:?}, of:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

/// Credits for one deferrable write are sufficient, and posted writes need no such credits.
#[test]
fn credits_for_one_deferrable_write_are_enough() {
    for (writes, credits) in [("non-posted", 4), ("non-posted", 0), ("posted", 2)] {
        let text = lab(
            "disk",
            &format!(
                "[slot.disk]\nwrites = \"{writes}\"\n[slot.link.root_credits]\nnon_posted_data = {credits}\n"
            ),
        );
        assert!(parse(&models(), Path::new("disk.toml"), &text).is_ok(), "{text}");
    }
}

/// Place and part of the message for each error of a file.
fn told(text: &str) -> Vec<((usize, usize), String)> {
    refused(text).all().iter().map(|e| (e.place.unwrap_or((0, 0)), e.message.clone())).collect()
}

fn assert_told(text: &str, expected: &[((usize, usize), &str)]) {
    let told = told(text);
    let fits = told.len() == expected.len()
        && expected.iter().zip(&told).all(|(e, t)| e.0 == t.0 && t.1.contains(e.1));
    assert!(fits, "{told:#?}\nof:\n{text}");
}

/// All errors of a kind are reported together, in the order of places: first TOML syntax, then types and single keys.
#[test]
fn reports_all_errors_of_file_together() {
    assert_told(
        "version = 1 1\nseed = = 2\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n",
        &[((1, 11), "must be quoted"), ((2, 8), "extra `=`"), ((2, 10), "unexpected key or value")],
    );
    assert_told(
        "version = 1\nspeed = 3\nseed = \"x\"\n[host]\nprofile = 3\n[link]\ngen = \"3\"\nlanes = 3\n\
         scaled_flow_control = 1\n[[slot]]\nname = \"a\"\ndevice = \"gpu\"\ntags = [1]\n[[slot]]\ndevice = \"memory\"\n\
         [slot.memory]\nsize_bytes = true\n[[fault]]\nslot = \"a\"\n[[link.vc]]\nid = 1\ntcs = [1, \"2\"]\n",
        &[
            ((2, 1), "unknown field `speed`"),
            ((3, 8), "seed is string \"x\", expected 0 to 2^64 - 1"),
            ((5, 11), "profile is integer `3`, expected strings"),
            ((7, 7), "gen is string \"3\", expected 1, 2, 3, 4, 5"),
            ((8, 9), "3 lanes, expected 1, 2, 4, 8, 12, 16, 32"),
            ((9, 23), "scaled_flow_control is integer `1`, expected true, false"),
            ((12, 10), "unknown device `gpu`, expected one of `clock`, `counter`"),
            ((13, 8), "tags is sequence, expected 1 to 768"),
            ((14, 1), "missing field `name`"),
            ((17, 14), "size_bytes is boolean `true`, expected"),
            ((18, 1), "missing field `direction`"),
            ((22, 11), "tcs is string \"2\", expected"),
        ],
    );
    let errors = [
        ((1, 1), "unknown field `a`"),
        ((1, 1), "missing field `version`, expected 1"),
        ((5, 8), "tags of 0"),
    ];
    assert_told("a = 3\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\ntags = 0\n", &errors);
    // A wrong type does not hide a wrong key elsewhere. Errors that depend on unreadable values are not reported.
    assert_told(
        "[[slot]]\nname = \"a\"\ndevice = \"memory\"\ntags = 0\n[slot.memory]\nsize_bytes = 3\n[host]\nlow_memory_mib = 0\n\
         high_memory_mib = \"x\"\n[[slot]]\nname = \"b\"\n[[link_event]]\nslot = \"b\"\nat_us = 2_000_000_000_000\n\
         [[slot]]\nname = \"t\"\ndevice = \"traffic\"\n[[slot.traffic.flow]]\nname = \"f\"\n",
        &[
            ((1, 1), "missing field `version`, expected 1"),
            ((4, 8), "tags of 0, expected 1 to 768"),
            ((6, 14), "size_bytes of 3"),
            ((8, 18), "low_memory_mib of 0"),
            ((9, 19), "high_memory_mib is string \"x\", expected 0 to 131072"),
            ((10, 1), "missing field `device`"),
            ((14, 9), "at_us of 2000000000000"),
            ((18, 1), "missing field `kind`, expected"),
        ],
    );
    assert_told(
        &lab(
            "memory",
            "tags = 0\n[slot.link]\nretrain_ns = 24_000_001\nroot_credits = { posted_header = 128 }\n\
             device_credits = { completion_data = 3 }\n[slot.memory]\nsize_bytes = 3\n[[fault]]\nslot = \"b\"\n\
             direction = \"upstream\"\nframes = \"tlp\"\nnth = 0\naction = \"drop\"\ntag = 1024\n[host]\nlow_memory_mib = 0\n",
        ),
        &[
            ((5, 8), "tags of 0, expected 1 to 768"),
            ((7, 14), "retrain_ns of 24000001"),
            ((8, 34), "Posted header credits 128; expected 1 to 127, or infinite; infinite is written 0"),
            ((9, 38), "Completion data credits 3; expected 16 to 2047"),
            ((11, 14), "size_bytes of 3"),
            ((13, 8), "no slot `b`"),
            ((16, 7), "nth of 0"),
            ((18, 7), "tag of 1024"),
            ((20, 18), "low_memory_mib of 0"),
        ],
    );
}

/// An error in a common key is reported once, however many links use it.
#[test]
fn reports_error_in_common_key_once() {
    let second = "[[slot]]\nname = \"b\"\ndevice = \"memory\"\n";
    let text = lab("memory", &format!("{second}[link]\npropagation_ps = 1_000_001\n"));
    assert_told(&text, &[((9, 18), "propagation_ps of 1000001, expected 0 to 1000000")]);
}

/// A common setting may be valid for only some of the links.
#[test]
fn accepts_common_key_that_one_slot_uses() {
    let second = "[[slot]]\nname = \"b\"\ndevice = \"memory\"\n";
    let rows = [
        ("port_buffer_tlps = 4", "flow_control = \"none\""),
        ("root_credits = { posted_header = 8 }", "flow_control = \"none\""),
        ("replay_timer_symbols = 25000", "replay_timer = \"rev3\""),
        ("vc = [{ id = 0, phases = 32 }]", "vc_arbitration = \"weighted\""),
        // Overridden: the common key is not used.
        ("port_buffer_tlps = 4\nflow_control = \"none\"", "port_buffer_tlps = 8"),
    ];
    for (common, own) in rows {
        let text = format!("{}{second}[slot.link]\n{own}\n", lab("memory", &format!("[link]\n{common}\n")));
        parse(&models(), Path::new("good.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}

/// A folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Paths of profiles are relative to the lab. An error in a profile has its own place.
#[test]
fn reads_profiles_by_path() {
    let folder = folder("own-profiles");
    let (host, card) = (HOSTS.get("ideal").unwrap().text, CARDS.get("ideal").unwrap().text);
    let path = folder.join("lab.toml");
    fs::write(
        &path,
        lab("pcie-bench", "[slot.pcie-bench]\nprofile = \"card.toml\"\n[host]\nprofile = \"host.toml\"\n"),
    )
    .unwrap();
    let rows: [(String, String, &[&str]); 10] = [
        (host.into(), card.into(), &[]),
        (
            host.replace("version = 1", "version = 2"),
            card.into(),
            &["lab.toml:8:11", "host.toml:2:11: version of 2, expected 1"],
        ),
        (
            host.replace("kind = \"host\"", "kind = \"device\""),
            card.into(),
            &["lab.toml:8:11", "host.toml:3:8", "`host`"],
        ),
        (
            host.replace("memory_read_latency_ps", "memory_latency_ps"),
            card.into(),
            &["host.toml:", "unknown field `memory_latency_ps`"],
        ),
        (
            host.replace("value = 10000", "value = 0"),
            card.into(),
            &["completion_timeout_us of 0", "50 to 64000000"],
        ),
        (host.replace("value = 1024", "value = 0"), card.into(), &["max_reads_per_port of 0", "1 to 65536"]),
        (
            host.replace("value = 32", "value = 257"),
            card.into(),
            &["max_host_requests_per_port of 257", "1 to 256"],
        ),
        (
            host.replace("value = 64", "value = 32"),
            card.into(),
            &["host.toml:", "Read Completion Boundary of 32"],
        ),
        (
            host.into(),
            card.replace("value = 256", "value = 0"),
            &["lab.toml:6:11", "outstanding of 0", "1 to 1024"],
        ),
        (
            host.into(),
            card.replace(", source = \"8-bit tags\"", ""),
            &["lab.toml:6:11", "card.toml:", "missing field `source`"],
        ),
    ];
    for (host, card, parts) in rows {
        fs::write(folder.join("host.toml"), host).unwrap();
        fs::write(folder.join("card.toml"), card).unwrap();
        let shown = read(&models(), &path).map(|_| ()).map_err(|e| e.to_string());
        assert_eq!(shown.is_ok(), parts.is_empty(), "{shown:?}");
        let shown = shown.err().unwrap_or_default();
        for part in parts {
            assert!(shown.contains(part), "`{part}` in:\n{shown}");
        }
    }
    fs::remove_file(folder.join("card.toml")).unwrap();
    fs::write(folder.join("host.toml"), host).unwrap();
    let shown = read(&models(), &path).unwrap_err().to_string();
    assert!(shown.contains("no device profile `card.toml`") && shown.contains("lab.toml:6:11"), "{shown}");
    // An endless file, and a folder.
    for name in ["/dev/zero", "."] {
        let shown = refused(&lab("memory", &format!("[host]\nprofile = \"{name}\"\n"))).to_string();
        assert!(shown.contains("not a file of at most 1048576 bytes"), "{shown}");
    }
}

#[test]
fn reports_missing_file() {
    let shown = read(&models(), Path::new("/nonexistent/lab.toml")).unwrap_err().to_string();
    assert!(shown.starts_with("/nonexistent/lab.toml: No such file"), "{shown}");
    let folder = folder("not-text");
    fs::write(folder.join("lab.toml"), b"version = 1 # \xff\n").unwrap();
    let shown = read(&models(), &folder.join("lab.toml")).unwrap_err().to_string();
    assert!(shown.contains("lab.toml") && shown.contains("UTF-8"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn reads_or_rejects_any_text(text in "\\PC{0,200}") {
        if let Err(error) = parse(&models(), Path::new("any.toml"), &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn hot_plug_needs_interrupts_of_the_root_port() {
    let lab = |keys: &str| {
        format!("version = 1\n{keys}\n[[slot]]\nname = \"a\"\ndevice = \"mmio\"\nhot_plug = true\n")
    };
    let error = refused(&lab("[host]\nroot_port_interrupts = false")).to_string();
    let words = "`a` is hot-plug capable (hot_plug = true), but its root port has no interrupts (root_port_interrupts = false)";
    assert!(error.contains(words), "{error}");
    let of_switch =
        lab("[host]\nroot_port_interrupts = false\n[[switch]]\nname = \"s\"") + "parent = \"s\"\n";
    parse(&models(), Path::new("lab.toml"), &of_switch).unwrap();
}

/// Rows: text after a lab with a hot-plug capable slot `a`, another slot `b`, and a switch `s`; the error message.
#[test]
fn rejects_impossible_outages() {
    let base = "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"mmio\"\nhot_plug = true\n[[slot]]\nname = \"b\"\ndevice = \"mmio\"\nparent = \"s\"\n[[switch]]\nname = \"s\"\n";
    let outage = |slot: &str, kind: &str, from: u64, until: &str| {
        format!("[[outage]]\nslot = \"{slot}\"\nkind = \"{kind}\"\nat_us = {from}\n{until}\n")
    };
    let rows = [
        (
            outage("b", "removal", 1, ""),
            "`b` is not hot-plug capable, expected slots and switches with hot_plug = true",
        ),
        (
            outage("s", "removal", 1, ""),
            "`s` is not hot-plug capable, expected slots and switches with hot_plug = true",
        ),
        (
            outage("a", "cut", 1, "until_us = 9") + &outage("a", "removal", 8, "until_us = 20"),
            "at_us of 8: `a` has an outage from 1 us to 9 us",
        ),
        (
            outage("b", "cut", 5, "") + &outage("b", "cut", 8, "until_us = 9"),
            "at_us of 8: `b` has an outage from 5 us to the end",
        ),
    ];
    for (outages, words) in rows {
        let error = refused(&format!("{base}{outages}")).to_string();
        assert!(error.contains(words), "{error}");
    }
    let after = outage("a", "cut", 1, "until_us = 9") + &outage("a", "removal", 9, "until_us = 20");
    let beside = outage("a", "removal", 1, "until_us = 9") + &outage("b", "cut", 2, "until_us = 9");
    for good in [after, beside] {
        parse(&models(), Path::new("good.toml"), &format!("{base}{good}")).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Non-posted data credits: the minimum depends on the receiver (`PCIe 5.0 Table 2-45`; ECN "Deferrable Memory Write"). Rows:
/// the device, keys of its link, the error message.
#[test]
fn non_posted_credits_match_the_receiver() {
    let rows = [
        ("memory", "device_credits = { non_posted_data = 1 }", None),
        ("memory", "root_credits = { non_posted_data = 2 }", None),
        (
            "memory",
            "root_credits = { non_posted_data = 1 }",
            Some("link of slot `a`, root side: NonPosted data credits 1; expected 2 to 2047"),
        ),
        ("memory", "flow_control = \"none\"", None),
    ];
    for (device, keys, refused) in rows {
        let text = lab(device, &format!("[slot.link]\n{keys}\n"));
        let lab = match (parse(&models(), Path::new("credits.toml"), &text), refused) {
            (Ok(lab), None) => lab,
            (Err(error), Some(words)) => {
                let error = error.to_string();
                assert!(error.contains(words) && error.contains("credits.toml:6:"), "{keys}: {error}");
                continue;
            }
            (read, _) => panic!("{keys}: {read:?}"),
        };
        assert_eq!(
            build(&LabFile { lab, base: ".".into() }, BuildOptions::default(), &mut |_, _| unreachable!())
                .err()
                .map(|e| e.to_string()),
            None,
            "{keys}"
        );
    }
}

/// Eight switches of 31 ports need 8 x 33 buses, more than 8 bits can number. The error names the first switch without
/// a bus number.
#[test]
fn rejects_tree_beyond_255_buses() {
    let switches = |n: u32| -> String {
        (0..n).map(|n| format!("[[switch]]\nname = \"s{n}\"\ndownstream_ports = 31\n")).collect()
    };
    let text = |n: u32| format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{}", switches(n));
    parse(&models(), Path::new("good.toml"), &text(7)).unwrap_or_else(|e| panic!("{e}"));
    let error = refused(&text(8)).to_string();
    assert!(error.contains("`s7` needs bus numbers beyond 255: the tree has 265 buses"), "{error}");
    // Line 1, three of the four lines of the slot, and three of each switch before: the name of the eighth.
    assert!(error.contains(":27:8"), "{error}");
}

#[test]
fn rejects_stage_of_places_that_are_not_kept() {
    let text = |keep: bool| {
        format!(
            "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\nparent = \"s\"\n[[switch]]\nname = \"s\"\nkeep_places = {keep}\nkeep_places_until = \"sent\"\n"
        )
    };
    let error = refused(&text(false)).to_string();
    assert!(
        error.contains("bad.toml:9:21: keep_places_until of switch `s`: legal only with keep_places = true"),
        "{error}"
    );
    parse(&models(), Path::new("good.toml"), &text(true)).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn rejects_weights_at_their_place() {
    let text = |weights: &str| {
        format!(
            "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\nparent = \"s\"\n[[switch]]\nname = \"s\"\narbitration = \"weighted\"\nweights = {weights}\n"
        )
    };
    parse(&models(), Path::new("good.toml"), &text("[1, 2]")).unwrap_or_else(|e| panic!("{e}"));
    let rows = [
        ("[1]", "1 weights of switch `s`: it has 2 ports"),
        ("[1, 2, 3]", "3 weights of switch `s`"),
        ("[1, 0]", "weight 0 of port 1 of switch `s`, expected 1 to 65535"),
    ];
    for (weights, words) in rows {
        let error = refused(&text(weights)).to_string();
        assert!(error.contains(words) && error.contains(":9:11"), "{error}");
    }
}
