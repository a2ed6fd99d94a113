// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares credits in waves with those calculated from the DLLPs and TLPs in the capture of the same run.

use super::*;
use capture::{Direction, Kind};
use std::collections::BTreeMap;
use tlp::{Class, Dllp, FlowControl, FlowControlKind};

/// Waves are checked only if the next frame is at least `CALM_PS` later, at `BEHIND_PS` after a frame. A frame takes its credits before
/// its end, which is its time in the capture.
const CALM_PS: u64 = 60_000;
const BEHIND_PS: u64 = 25_000;

/// Credits of one class in one direction: limit and consumed, of headers and of data. The limit is `None` if credits are infinite.
#[derive(Clone, Copy, Default)]
struct Ledger {
    limit: [Option<u16>; 2],
    consumed: [u16; 2],
    is_known: bool,
}

impl Ledger {
    fn hear(&mut self, fc: &FlowControl) {
        let is_first = fc.kind != FlowControlKind::UpdateFc;
        let told = [fc.header_credits(), fc.data_credits()];
        for (limit, told) in self.limit.iter_mut().zip(told) {
            if is_first {
                *limit = (told != 0).then_some(told);
            } else if limit.is_some() {
                *limit = Some(told);
            }
        }
        self.is_known = true;
    }

    /// Values of the signals: unused credits of headers and data, and true if they are infinite.
    fn unused(&self) -> [(u16, bool); 2] {
        let left = |n: usize, mask: u16| {
            self.limit[n].map_or((0, true), |limit| (limit.wrapping_sub(self.consumed[n]) & mask, false))
        };
        if self.is_known { [left(0, 0xff), left(1, 0xfff)] } else { [(0, false); 2] }
    }
}

/// Ledgers after each frame of a capture, with its time: for TLPs to the design, and for TLPs from it.
fn ledgers(path: &str) -> Vec<(u64, [[Ledger; 3]; 2])> {
    let mut reader = capture::open(path).unwrap();
    let (mut now, mut all) = ([[Ledger::default(); 3]; 2], Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        let Some(direction) = record.interface.and_then(|interface| interface.direction) else { continue };
        let way = usize::from(direction == Direction::Upstream);
        match &record.kind {
            Kind::Tlp(tlp) => {
                let ledger = &mut now[way][tlp.repr.class().index()];
                let data = tlp.payload_bytes.div_ceil(16) as u16;
                ledger.consumed = [ledger.consumed[0].wrapping_add(1), ledger.consumed[1].wrapping_add(data)];
            }
            Kind::Dllp(Dllp::FlowControl(fc)) if fc.vc.id() == 0 => now[1 - way][fc.class.index()].hear(fc),
            _ => continue,
        }
        all.push((record.timestamp.split().1, now));
    }
    all
}

/// Values of signals in a dump at these times, which are in order.
fn sampled(text: &str, names: &[String], times: &[u64]) -> Vec<Vec<u16>> {
    let mut ids = BTreeMap::new();
    for (n, name) in names.iter().enumerate() {
        let is_it = |line: &&str| line.starts_with("$var") && line.contains(&format!(" {name} "));
        let line = text.lines().find(is_it).unwrap_or_else(|| panic!("no {name}"));
        ids.insert(line.split(' ').nth(3).unwrap(), n);
    }
    let (mut now, mut all, mut at) = (vec![0; names.len()], Vec::new(), 0);
    for line in text.lines().skip_while(|line| !line.starts_with('#')).chain(["#999999999999"]) {
        if let Some(time) = line.strip_prefix('#') {
            let time: u64 = time.parse().unwrap();
            while times.get(at).is_some_and(|sample| *sample < time) {
                all.push(now.clone());
                at += 1;
            }
        } else if let Some((value, id)) = line.strip_prefix('b').and_then(|line| line.split_once(' ')) {
            if let Some(n) = ids.get(id) {
                now[*n] = u16::from_str_radix(value, 2).unwrap();
            }
        } else if let Some((value, id)) = line.split_at_checked(1)
            && let Some(n) = ids.get(id)
        {
            now[*n] = value.parse().unwrap();
        }
    }
    all
}

/// Names of the signals, in the order of a ledger's classes.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for way in ["in", "out"] {
        for credit in ["ph", "pd", "nph", "npd", "cplh", "cpld"] {
            names.extend(["", "_infinite"].map(|end| format!("riser_{way}_credits_{credit}{end}")));
        }
    }
    names
}

/// When the link has been idle for a while, the waves show the credits calculated from the capture's InitFCs, UpdateFCs and TLPs.
#[test]
#[ignore = "of .ci/long rtl"]
fn waves_show_credits_of_link() {
    if !has_verilator() {
        return;
    }
    let folder = copy_behind_ultrascale();
    assert_eq!(riser(&["rtl", "build", &path(&folder, "design.toml"), "--waves"]).code, 0);
    let few = "root_credits = { posted_header = 40, posted_data = 200, non_posted_header = 20 }";
    // Copies of increasing length, each followed by a pause.
    let copies: String = (1..=8)
        .map(|n| {
            let write = |offset: u32, value: u32| {
                format!("{{ do = \"write\", offset = {offset}, value = {value} }}, ")
            };
            write(24, 128 * n)
                + &write(28, 1)
                + "{ do = \"interrupt\", vector = 0 }, { do = \"sleep\", value = 300 },\n"
        })
        .collect();
    let addresses =
        "{ do = \"write\", offset = 8, of = \"a\" }, { do = \"write\", offset = 16, of = \"b\" },\n";
    let steps = format!("{BUFFERS}{addresses}{copies}");
    let lab = LAB.replace("gen = 2, lanes = 1", &format!("gen = 3, lanes = 8, {few}"));
    fs::write(
        folder.path().join("lab.toml"),
        format!("{lab}rtl.waves = \"w.fst\"\nrtl.step = [\n{steps}]\n"),
    )
    .unwrap();
    let capture = path(&folder, "c.pcapng");
    let run = riser(&["run", &path(&folder, "lab.toml"), "--allow-native", "--capture", &capture, "--dllps"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let Some(text) = dump(&folder, "w.fst") else { return };
    let ledgers = ledgers(&capture);
    let calm: Vec<&(u64, [[Ledger; 3]; 2])> =
        ledgers.windows(2).filter(|pair| pair[0].0 + CALM_PS < pair[1].0).map(|pair| &pair[0]).collect();
    let times: Vec<u64> = calm.iter().map(|(time, _)| time + BEHIND_PS).collect();
    let shown = sampled(&text, &names(), &times);
    let mut seen = std::collections::BTreeSet::new();
    for ((time, ledgers), shown) in calm.iter().zip(&shown) {
        let due: Vec<u16> = ledgers
            .as_flattened()
            .iter()
            .flat_map(Ledger::unused)
            .flat_map(|(left, infinite)| [left, infinite.into()])
            .collect();
        assert_eq!(*shown, due, "at {time} ps: {:?}", names());
        seen.insert(due);
    }
    let reads: std::collections::BTreeSet<u16> =
        calm.iter().map(|(_, all)| all[1][Class::NonPosted.index()].unused()[0].0).collect();
    assert!(shown.len() > 8 && seen.len() > 8, "{} times, {} states", shown.len(), seen.len());
    assert!(reads.len() > 4, "{reads:?}");
    let infinite = shown[0].iter().skip(1).step_by(2).copied().collect::<Vec<_>>();
    assert_eq!(infinite, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1], "of completions alone");
}
