// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks of a design that never have an edge: what waits for them never does anything. Knows no Verilog.

use crate::netlist::{Driver, Netlist, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What moves: the clocks and the reset of the top that riser writes.
const SOURCES: [&str; 2] = ["riser_clock", "riser_reset_n"];
/// The file of the vendor's primitives, and the module in it that is a clock of a frequency, by its output and parameter.
const PRIMITIVES: &str = "riser_primitives.v";
const CLOCK_OF: [&str; 2] = [".O", ".KHZ"];

/// A clock that stands still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StillClock {
    /// Its name, from the design's top on.
    pub name: String,
    /// Where it is declared.
    place: Place,
    /// Blocks of the design that wait for it, and where the first is.
    blocks: usize,
    first: Place,
    why: Why,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    /// Nothing drives it.
    Nobody,
    /// A constant does, or registers that wait for such a clock.
    Constant(Place),
    /// It is an output of a clock manager, of this frequency in Hz.
    NoClock(String, u64),
}

impl fmt::Display for StillClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StillClock { name, place, blocks, first, why } = self;
        write!(f, "{}:{}: the clock `{name}` stands still: ", place.file, place.line)?;
        match why {
            Why::Nobody => write!(f, "nothing drives it"),
            Why::Constant(place) => write!(f, "what drives it never changes ({}:{})", place.file, place.line),
            Why::NoClock(output, hz) => write!(
                f,
                "`{output}` would be {hz} Hz, and no clock of the design's file is ([[clock]], frequency_hz)"
            ),
        }?;
        write!(f, "; {blocks} of the design's blocks wait for it, the first at {}:{}", first.file, first.line)
    }
}

/// All clocks that stand still, by name.
pub(crate) fn still_clocks(netlist: &Netlist) -> Vec<StillClock> {
    let moves = moving(netlist);
    let mut still: BTreeMap<usize, Vec<&Driver>> = BTreeMap::new();
    for block in &netlist.drivers {
        if !block.clocks.is_empty() && block.clocks.iter().all(|clock| !moves[*clock]) {
            still.entry(block.clocks[0]).or_default().push(block);
        }
    }
    let clock = |(signal, blocks): (usize, Vec<&Driver>)| StillClock {
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
    let mut all: Vec<StillClock> = still.into_iter().map(clock).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn name(netlist: &Netlist, signal: usize) -> String {
    let name = netlist.highest(signal);
    name.strip_prefix("riser_design.").unwrap_or(name).to_owned()
}

/// Which signals may change: those that something drives which follows what may change, or waits for it.
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

/// Why a signal does not change: what is at the end of those that drive it.
fn why(netlist: &Netlist, signal: usize) -> Why {
    let mut at = signal;
    let mut last = None;
    // A ring of such drivers has no end.
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
    last.map_or(Why::Nobody, Why::Constant)
}

/// Whether it is an output of a clock manager.
fn no_clock(netlist: &Netlist, signal: usize) -> Option<Why> {
    let names = netlist.names(signal);
    let [output, khz] = CLOCK_OF;
    let stem = names.iter().find_map(|name| {
        let is_here = netlist.place(name).is_some_and(|place| place.file.ends_with(PRIMITIVES));
        name.strip_suffix(output)
            .filter(|stem| is_here || netlist.parameter(&format!("{stem}{khz}")).is_some())
    })?;
    let khz: f64 = netlist.parameter(&format!("{stem}{khz}"))?.parse().ok()?;
    // The output of the instance that the module is in.
    let manager = stem.rsplit_once('.')?.0;
    let port = names.iter().find(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == manager));
    let shown = port.copied().unwrap_or(stem);
    let shown = shown.strip_prefix("riser_design.").unwrap_or(shown);
    Some(Why::NoClock(shown.to_owned(), (khz * 1000.0).round() as u64))
}
