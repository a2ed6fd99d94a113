// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds an `X` that matters: a lab is run with several initial values of the registers without a reset, and the outputs of its designs are compared.
//! If two runs differ, names the first port, and the registers that differ from the beginning and reach it. The caller runs the lab.

use crate::build::{self, BuildError};
use crate::design::{self, Design};
use crate::design_record::{DesignRecord, DesignRecorder, Left, RecordSettings, What};
use crate::netlist::Netlist;
use crate::vcd::{self, Compared};
use plug::file::FileErrors;
use plug::{RunContext, Shared};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use thiserror::Error;
use tlp::{Duration, Repr, Time};

/// Maximum number of registers and ports in the report.
const MOST_NAMED: usize = 8;

/// First difference between two runs of a lab.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Divergence {
    /// Index of the design among the designs of the lab.
    #[serde(skip)]
    pub design: usize,
    /// Seeds of both runs.
    pub seeds: [u64; 2],
    /// The output of the design that differs, or how a run ends.
    pub what: String,
    /// The first ports of the block that the design drives differently, with location, cycle and values.
    pub ports: Vec<String>,
    /// Registers that differ from the beginning and reach those ports, nearest first, each with its location.
    pub registers: Vec<String>,
    /// The reason why there are no registers, if they were not searched for.
    pub note: Option<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.seeds;
        write!(f, "runs with seeds {a} and {b} differ: {}", self.what)?;
        for port in &self.ports {
            write!(f, "\n  first port driven differently: {port}")?;
        }
        for register in &self.registers {
            write!(f, "\n  register that differs from the beginning: {register}")?;
        }
        self.note.iter().try_for_each(|note| write!(f, "\n  {note}"))
    }
}

/// Reason why runs of a lab cannot be compared. `E` is the error of the caller's runs.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DivergenceError<E> {
    /// The lab cannot be run.
    #[error("{0}")]
    Run(E),
    /// The lab has no design that runs.
    #[error("the lab runs no design in RTL; expected one, such as a slot with `device = \"rtl\"`")]
    NoDesign,
    /// The run is too long.
    #[error("the design sends more TLPs than riser records; use a lab with less work, or limit_us")]
    TooManyTlps,
    /// The description of the design cannot be read again.
    #[error("{0}")]
    Design(FileErrors),
    /// The block is not found in the sources.
    #[error("{0}")]
    Block(BuildError),
}

/// Reason why the registers that differ are unknown.
#[derive(Debug, Error)]
enum NoRegisters {
    /// The library of this design was built without waves.
    #[error("run `riser rtl build {} --waves` to find registers too", .0.display())]
    NoWaves(PathBuf),
    /// The netlist cannot be read.
    #[error("no netlist: {0}")]
    Netlist(io::Error),
    /// The waves cannot be read.
    #[error("waves: {0}")]
    Waves(io::Error),
    /// The program that converts waves does not run.
    #[error(
        "fst2vcd, which is needed to find registers, cannot be run: {0} (Debian: apt-get install gtkwave)"
    )]
    Program(io::Error),
}

/// Record of a run.
struct RunRecord {
    seed: u64,
    design_records: Vec<Shared<DesignRecord>>,
    outcome: String,
}

/// Compares runs of a lab with these seeds of initial values, at least two. `run` runs the lab in a context, and
/// returns the end of the run. Returns `None` if all runs are equal.
///
/// # Errors
/// Errors of `run`, if the lab has no running design, and if the outputs exceed the record.
pub fn compare_seeds<E>(
    seeds: &[u64],
    mut run: impl FnMut(RunContext) -> Result<String, E>,
) -> Result<Option<Divergence>, DivergenceError<E>> {
    let mut one = |look: RecordSettings| {
        let (seed, watch) = (look.seed, DesignRecorder::new(look));
        let outcome = run(RunContext::with(watch.clone()));
        let outcome = outcome.map_err(DivergenceError::Run)?;
        Ok(RunRecord { seed, design_records: watch.end(), outcome })
    };
    let mut first: Option<RunRecord> = None;
    for seed in seeds {
        let next = one(RecordSettings { seed: *seed, ..RecordSettings::default() })?;
        if next.design_records.is_empty() {
            return Err(DivergenceError::NoDesign);
        }
        if next.design_records.iter().any(|design_record| !design_record.get().is_whole()) {
            return Err(DivergenceError::TooManyTlps);
        }
        let Some(first) = &first else {
            first = Some(next);
            continue;
        };
        if let Some((design, what)) = difference(first, &next) {
            return look_closely([first, &next], design, what, &mut one).map(Some);
        }
    }
    Ok(None)
}

/// Returns the first design whose outputs differ, and the difference.
fn difference(a: &RunRecord, b: &RunRecord) -> Option<(usize, String)> {
    let pairs = a.design_records.iter().zip(&b.design_records).enumerate();
    let parts = pairs.filter_map(|(n, (of_a, of_b))| {
        let (of_a, of_b) = (of_a.get(), of_b.get());
        let at =
            (0..of_a.left.len().max(of_b.left.len())).find(|at| of_a.left.get(*at) != of_b.left.get(*at))?;
        let [now_a, now_b] = [of_a.left.get(at), of_b.left.get(at)];
        let when = [now_a, now_b].into_iter().flatten().map(|left| left.at).min()?;
        let said = |seed: u64, left: Option<&Left>| match left {
            Some(left) => format!("with seed {seed} {left}"),
            None => format!("with seed {seed} none"),
        };
        Some((when, n, format!("output {}: {}; {}", at + 1, said(a.seed, now_a), said(b.seed, now_b))))
    });
    if let Some((_, design, what)) = parts.min_by_key(|(when, design, _)| (*when, *design)) {
        return Some((design, what));
    }
    let ends = |run: &RunRecord| {
        let failures =
            run.design_records.iter().map(|design_record| design_record.get().status.get().failure.clone());
        (run.outcome.clone(), failures.collect::<Vec<_>>())
    };
    (ends(a) != ends(b)).then(|| {
        let [a, b] = [a, b].map(|run| format!("with seed {} {}", run.seed, run.outcome));
        (0, format!("end of the run: {a}; {b}"))
    })
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Tlp { head, len, .. } => {
                let shown: String = head.iter().take(len).map(|byte| format!("{byte:02x}")).collect();
                match Repr::parse_header(&head[..len.min(head.len())]) {
                    Ok(parsed) => write!(f, "{}, {shown}", parsed.repr)?,
                    Err(_) => write!(f, "a malformed TLP, {shown}")?,
                }
                f.write_str(if len > head.len() { ".." } else { "" })?;
            }
            What::Interrupt { function, vector } => write!(f, "interrupt {vector} of function {function}")?,
            What::Intx { function, asserted } => {
                write!(
                    f,
                    "INTx of function {function} {}",
                    if asserted { "asserted" } else { "deasserted" }
                )?;
            }
            What::Other => f.write_str("a PM_PME")?,
        }
        write!(f, ", in cycle {} ({} ns)", self.cycle, self.at.as_ps() / 1000)
    }
}

/// Runs both seeds again, to record more around the difference.
fn look_closely<E>(
    runs: [&RunRecord; 2],
    design: usize,
    what: String,
    one: &mut impl FnMut(RecordSettings) -> Result<RunRecord, DivergenceError<E>>,
) -> Result<Divergence, DivergenceError<E>> {
    let [a, b] = runs.map(|run| run.design_records[design].clone());
    let seeds = runs.map(|run| run.seed);
    let mut divergence =
        Divergence { design, seeds, what, ports: Vec::new(), registers: Vec::new(), note: None };
    let Some((cycle, time)) = first_driven(&a.get(), &b.get()) else {
        divergence.note = Some("the design drives equal values".to_owned());
        return Ok(divergence);
    };
    let path = a.get().path.clone();
    let folder = design::folder(&path);
    let has_waves = build::library(&folder, true).is_file();
    let waves = seeds.map(|seed| folder.join(format!("seed-{seed}.fst")));
    let mut kept = Vec::new();
    for (seed, waves) in seeds.iter().zip(&waves) {
        let waves = has_waves.then(|| (waves.clone(), time + Duration::from_ps(1)));
        let run = one(RecordSettings { seed: *seed, at: Some((design, cycle)), waves })?;
        kept.push(run.design_records[design].get().kept().to_vec());
    }
    let source = Source::of(&path)?;
    let names = source.ports(&a.get(), [&kept[0], &kept[1]], cycle, &mut divergence.ports);
    let registers = match has_waves {
        false => Err(NoRegisters::NoWaves(path)),
        true => source.registers(&folder, &names, [&waves[0], &waves[1]], time),
    };
    waves.iter().for_each(|waves| _ = std::fs::remove_file(waves));
    match registers {
        Ok(registers) if registers.is_empty() => {
            divergence.note = Some("no register that reaches the port differs from the beginning".to_owned());
        }
        Ok(registers) => divergence.registers = registers,
        Err(why) => divergence.note = Some(why.to_string()),
    }
    Ok(divergence)
}

/// Returns the first cycle in which the two runs drive different values, and its time.
fn first_driven(a: &DesignRecord, b: &DesignRecord) -> Option<(u64, Time)> {
    let at = (0..a.driven.len().max(b.driven.len())).find(|at| a.driven.get(*at) != b.driven.get(*at))?;
    let of =
        |design_record: &DesignRecord| Some((design_record.driven.get(at)?.0, *design_record.times.get(at)?));
    [of(a), of(b)].into_iter().flatten().min()
}

/// The block's instance in a design's sources.
struct Source {
    path: PathBuf,
    instance: crate::source::Instance,
}

impl Source {
    fn of<E>(file: &Path) -> Result<Source, DivergenceError<E>> {
        let design = Design::read(file).map_err(DivergenceError::Design)?;
        let base = file.parent().unwrap_or(Path::new(""));
        let (path, instance) = build::block_of(&design, base).map_err(DivergenceError::Block)?;
        Ok(Source { path, instance })
    }

    /// Returns the names of the ports that differ, and adds descriptions of some ports to `named`.
    fn ports(
        &self,
        design_record: &DesignRecord,
        kept: [&[u32]; 2],
        cycle: u64,
        named: &mut Vec<String>,
    ) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (name, at, bits) in &design_record.masks.ports {
            let [a, b] = kept.map(|words| value(words, *at, *bits));
            if a == b {
                continue;
            }
            names.push(*name);
            if named.len() < MOST_NAMED {
                let connection = self.instance.connections.iter().find(|connection| connection.port == *name);
                let line = connection.map_or(self.instance.line, |connection| connection.line);
                let place = format!("{}:{line}", self.path.display());
                let block = &self.instance.name;
                named.push(format!("{place}: {name} of `{block}` in cycle {cycle}: 0x{a} and 0x{b}"));
            }
        }
        names
    }

    /// Returns the registers that differ from the beginning and reach these ports, from the waves of both runs.
    fn registers(
        &self,
        folder: &Path,
        ports: &[&str],
        waves: [&Path; 2],
        before: Time,
    ) -> Result<Vec<String>, NoRegisters> {
        let xml = std::fs::read(build::netlist(folder, true)).map_err(NoRegisters::Netlist)?;
        let netlist = Netlist::read(&String::from_utf8_lossy(&xml));
        let [a, b] = waves.map(dump);
        let (mut a, mut b) = (a?, b?);
        let compared = vcd::compare([a.1, b.1], before.as_ps()).map_err(NoRegisters::Waves);
        // Their remaining output is not needed.
        for child in [&mut a.0, &mut b.0] {
            _ = child.kill();
            _ = child.wait();
        }
        let mut by_signal = BTreeMap::<usize, Compared>::new();
        for (name, compared) in compared? {
            let name = name.strip_prefix("riser_top.").unwrap_or(&name);
            let Some(signal) = netlist.signal(name) else { continue };
            // Elements of a memory count as one signal.
            let all = by_signal.entry(signal).or_insert(Compared { ever: false, always: false });
            (all.ever, all.always) = (all.ever | compared.ever, all.always | compared.always);
        }
        let ends: Vec<String> = ports.iter().map(|port| format!(".{}.{port}", self.instance.name)).collect();
        Ok(reaching(&netlist, &ends, &by_signal))
    }
}

/// Returns the registers that drive the signals whose names end like this, nearest first, along paths of signals that differ.
fn reaching(netlist: &Netlist, ends: &[String], compared: &BTreeMap<usize, Compared>) -> Vec<String> {
    let mut drivers = vec![Vec::new(); netlist.signals().len()];
    for driver in &netlist.drivers {
        driver.writes.iter().for_each(|signal| drivers[*signal].push(driver));
    }
    let is_end = |signal: &usize| {
        netlist.names(*signal).iter().any(|name| ends.iter().any(|end| name.ends_with(end.as_str())))
    };
    let known: BTreeSet<usize> = compared.keys().copied().collect();
    let mut waiting: VecDeque<usize> = known.iter().copied().filter(is_end).collect();
    let mut seen: BTreeSet<usize> = waiting.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(signal) = waiting.pop_front() {
        let name = netlist.highest(signal);
        let is_ours = name.rsplit('.').next().is_some_and(|last| last.starts_with("riser_"));
        if found.len() == MOST_NAMED || is_ours {
            continue;
        }
        let is_register = drivers[signal].iter().any(|driver| !driver.clocks.is_empty());
        if is_register && compared.get(&signal).is_some_and(|c| c.always) {
            let place = netlist.place(name).cloned().unwrap_or_default();
            let name = name.strip_prefix("riser_design.").unwrap_or(name);
            found.push(format!("{}:{}: {name}", place.file, place.line));
            continue;
        }
        let reads = drivers[signal].iter().flat_map(|driver| &driver.reads);
        let ways = reads.filter(|read| compared.get(read).is_none_or(|c| c.ever));
        waiting.extend(ways.filter(|read| seen.insert(**read)));
    }
    found
}

/// Converts a waveform file to a value change dump.
fn dump(waves: &Path) -> Result<(Child, BufReader<ChildStdout>), NoRegisters> {
    let mut command = Command::new("fst2vcd");
    command.arg("-f").arg(waves).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(NoRegisters::Program)?;
    let out = child.stdout.take();
    let out = out.ok_or_else(|| NoRegisters::Program(io::Error::other("no output")))?;
    Ok((child, BufReader::new(out)))
}

/// Formats bits in hexadecimal.
fn value(words: &[u32], at: u16, bits: u16) -> String {
    let bit = |n: u16| words.get(usize::from(n / 32)).copied().unwrap_or(0) >> (n % 32) & 1;
    let digit = |first: u16| (first..(first + 4).min(bits)).rev().fold(0, |all, n| all << 1 | bit(at + n));
    (0..bits).step_by(4).rev().map(|first| char::from_digit(digit(first), 16).unwrap_or('?')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_bits_as_a_number() {
        let words = [0x8000_0001, 0x0000_00f3];
        assert_eq!([value(&words, 31, 9), value(&words, 0, 1), value(&words, 32, 8)], ["1e7", "1", "f3"]);
    }
}
