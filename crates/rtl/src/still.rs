// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds clocks of a design that never have an edge: blocks that wait for them never run. Independent of Verilog.

use crate::netlist::{Driver, Netlist, SourceLocation};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Signals that change: the clocks and the reset of riser's top module.
const SOURCES: [&str; 2] = ["riser_clock", "riser_reset_n"];
/// File of the vendor's primitives, and output and parameter of its module for a clock with a frequency.
const PRIMITIVES: &str = "riser_primitives.v";
const CLOCK_OF: [&str; 2] = [".O", ".KHZ"];

/// A clock without edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UndrivenClock {
    /// Its name, from the design's top.
    pub name: String,
    /// Location of its declaration.
    place: SourceLocation,
    /// Number of blocks of the design that wait for the clock, and location of the first one.
    blocks: usize,
    first: SourceLocation,
    why: Why,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    /// The clock has no driver.
    Undriven,
    /// Its driver is constant, or is a register with such a clock.
    Constant(SourceLocation),
    /// The clock is an output of a clock manager with this frequency in Hz.
    NoClock(String, u64),
}

impl fmt::Display for UndrivenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndrivenClock { name, place, blocks, first, why } = self;
        write!(f, "{}:{}: the clock `{name}` never has an edge: ", place.file, place.line)?;
        match why {
            Why::Undriven => write!(f, "it has no driver"),
            Why::Constant(place) => write!(f, "its driver never changes ({}:{})", place.file, place.line),
            Why::NoClock(output, hz) => write!(
                f,
                "`{output}` needs {hz} Hz, but the design's file has no such clock ([[clock]], frequency_hz)"
            ),
        }?;
        write!(f, "; {blocks} blocks of the design wait for it, the first at {}:{}", first.file, first.line)
    }
}

/// Returns all clocks without edges, by name.
pub(crate) fn still_clocks(netlist: &Netlist) -> Vec<UndrivenClock> {
    let moves = moving(netlist);
    let mut still: BTreeMap<usize, Vec<&Driver>> = BTreeMap::new();
    for block in &netlist.drivers {
        if !block.clocks.is_empty() && block.clocks.iter().all(|clock| !moves[*clock]) {
            still.entry(block.clocks[0]).or_default().push(block);
        }
    }
    let clock = |(signal, blocks): (usize, Vec<&Driver>)| UndrivenClock {
        name: name(netlist, signal),
        place: netlist.place(netlist.highest(signal)).cloned().unwrap_or_default(),
        blocks: blocks
            .iter()
            .map(|block| (&block.place.file, block.place.line))
            .collect::<BTreeSet<_>>()
            .len(),
        first: blocks[0].place.clone(),
        why: why(netlist, signal),
    };
    let mut all: Vec<UndrivenClock> = still.into_iter().map(clock).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn name(netlist: &Netlist, signal: usize) -> String {
    let name = netlist.highest(signal);
    name.strip_prefix("riser_design.").unwrap_or(name).to_owned()
}

/// Returns which signals can change: those with a driver that reads, or waits for, a signal that can change.
fn moving(netlist: &Netlist) -> Vec<bool> {
    let mut moves = vec![false; netlist.signals().len()];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); moves.len()];
    for (at, driver) in netlist.drivers.iter().enumerate() {
        let heard = if driver.clocks.is_empty() { &driver.reads } else { &driver.clocks };
        heard.iter().for_each(|signal| followers[*signal].push(at));
    }
    let mut waiting: Vec<usize> = SOURCES.iter().filter_map(|name| netlist.signal(name)).collect();
    while let Some(signal) = waiting.pop() {
        if !std::mem::replace(&mut moves[signal], true) {
            let driven = followers[signal].iter().flat_map(|at| &netlist.drivers[*at].writes);
            waiting.extend(driven.filter(|signal| !moves[**signal]));
        }
    }
    moves
}

/// Returns the reason why a signal does not change: follows its drivers to the last driver.
fn why(netlist: &Netlist, signal: usize) -> Why {
    let mut at = signal;
    let mut last = None;
    // A cycle of such drivers has no end.
    for _ in 0..netlist.drivers.len() {
        if let Some(no_clock) = no_clock(netlist, at) {
            return no_clock;
        }
        let Some(driver) = netlist.drivers.iter().find(|driver| driver.writes.contains(&at)) else { break };
        last = Some(driver.place.clone());
        match driver.clocks.first().or(driver.reads.first()) {
            Some(next) => at = *next,
            None => break,
        }
    }
    last.map_or(Why::Undriven, Why::Constant)
}

/// Returns the reason if the signal is an output of a clock manager.
fn no_clock(netlist: &Netlist, signal: usize) -> Option<Why> {
    let names = netlist.names(signal);
    let [output, khz] = CLOCK_OF;
    let stem = names.iter().find_map(|name| {
        let is_here = netlist.place(name).is_some_and(|place| place.file.ends_with(PRIMITIVES));
        name.strip_suffix(output)
            .filter(|stem| is_here || netlist.parameter(&format!("{stem}{khz}")).is_some())
    })?;
    let khz: f64 = netlist.parameter(&format!("{stem}{khz}"))?.parse().ok()?;
    // The output of the instance that contains the module.
    let manager = stem.rsplit_once('.')?.0;
    let port = names.iter().find(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == manager));
    let shown = port.copied().unwrap_or(stem);
    let shown = shown.strip_prefix("riser_design.").unwrap_or(shown);
    Some(Why::NoClock(shown.to_owned(), (khz * 1000.0).round() as u64))
}
