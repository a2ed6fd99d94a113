// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design as elaborated and flattened by Verilator (`--xml-only --flatten`): which assignments drive which signals, and on which edges.
//! Records which signals an expression uses, not its operators.

use std::collections::HashMap;
use std::ops::Range;

/// A location in a source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SourceLocation {
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// A driver of signals: an assignment. If it is in a block, it also has its dependencies in this block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Driver {
    /// Signals whose edges the assignment waits for; empty for combinational logic.
    pub(crate) clocks: Vec<usize>,
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<usize>,
    /// Location of the block, or of a separate assignment.
    pub(crate) place: SourceLocation,
}

/// A netlist. Signals are numbers. Aliases of one net resolve to one number.
#[derive(Default)]
pub(crate) struct Netlist {
    pub(crate) drivers: Vec<Driver>,
    names: HashMap<String, usize>,
    /// For each number: the number that it is an alias of, or the number itself.
    same: Vec<usize>,
    /// Locations of declarations.
    places: HashMap<usize, SourceLocation>,
    /// Constants of instances, by name.
    parameters: HashMap<String, String>,
}

impl Netlist {
    /// Parses Verilator's netlist.
    pub(crate) fn read(xml: &str) -> Netlist {
        let mut reader = Reader::default();
        for tag in xml.split('<').skip(1).filter_map(|text| text.split_once('>')) {
            reader.tag(tag.0);
        }
        let mut netlist = reader.netlist;
        for at in 0..netlist.drivers.len() {
            let mut driver = std::mem::take(&mut netlist.drivers[at]);
            for signal in driver.clocks.iter_mut().chain(&mut driver.reads).chain(&mut driver.writes) {
                *signal = netlist.root(*signal);
            }
            netlist.drivers[at] = driver;
        }
        netlist
    }

    /// Returns the range of signal numbers.
    pub(crate) fn signals(&self) -> Range<usize> {
        0..self.same.len()
    }

    /// Returns the signal with this name, below the top module that riser writes.
    pub(crate) fn signal(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|signal| self.root(*signal))
    }

    /// Returns all names of a signal, shortest first.
    pub(crate) fn names(&self, signal: usize) -> Vec<&str> {
        let all = self.names.iter().filter(|(_, other)| self.root(**other) == signal);
        let mut all: Vec<&str> = all.map(|(name, _)| name.as_str()).collect();
        all.sort_by_key(|name| (name.len(), *name));
        all
    }

    /// Returns the name of a signal that is nearest to the top.
    pub(crate) fn highest(&self, signal: usize) -> &str {
        self.names(signal).into_iter().min_by_key(|name| name.matches('.').count()).unwrap_or_default()
    }

    /// Returns the location of a name's declaration.
    pub(crate) fn place(&self, name: &str) -> Option<&SourceLocation> {
        self.places.get(self.names.get(name)?)
    }

    /// Returns the value of an instance's parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn root(&self, mut signal: usize) -> usize {
        while self.same[signal] != signal {
            signal = self.same[signal];
        }
        signal
    }

    fn number(&mut self, name: &str) -> usize {
        let name = name.strip_prefix("riser_top.").unwrap_or(name);
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.same.len();
        self.same.push(number);
        self.names.insert(name.to_owned(), number);
        number
    }
}

/// An open element that is relevant.
enum Open {
    /// A block of the design: the edges that it waits for, its assignments with the signals that each reads and writes,
    /// and the signals that the block reads and writes outside its assignments.
    Block(Driver, Vec<[Vec<usize>; 2]>),
    /// An assignment: the signals in each of its parts, the last of which is written, and its depth.
    Assignment {
        parts: Vec<Vec<usize>>,
        depth: usize,
        place: SourceLocation,
        is_alias: bool,
    },
    /// An edge that a block waits for.
    Edge,
    /// Arguments of a call, which may be written.
    Call,
    /// Code that runs once.
    Once,
    /// A parameter; its value follows.
    Parameter(String),
    Other,
}

/// Parser of the tags.
#[derive(Default)]
struct Reader {
    netlist: Netlist,
    files: HashMap<String, String>,
    open: Vec<Open>,
}

impl Reader {
    fn tag(&mut self, text: &str) {
        if text.starts_with(['?', '!']) {
            return;
        }
        if text.starts_with('/') {
            return self.close();
        }
        let name = text.split([' ', '/']).next().unwrap_or_default();
        let depth = self.open.len();
        if let Some(Open::Assignment { parts, depth: at, .. }) =
            self.open.iter_mut().rev().find(is_assignment)
            && *at + 1 == depth
        {
            parts.push(Vec::new());
        }
        let opened = self.opened(name, text, depth);
        self.open.push(opened);
        if text.ends_with('/') {
            self.close();
        }
    }

    fn opened(&mut self, name: &str, text: &str, depth: usize) -> Open {
        let place = || self.place(text);
        match name {
            "file" => {
                if let (Some(id), Some(file)) = (attribute(text, "id"), attribute(text, "filename")) {
                    self.files.insert(id.to_owned(), file.to_owned());
                }
            }
            "var" => return self.declared(text),
            "const" => {
                if let (Some(Open::Parameter(of)), Some(value)) = (self.open.last(), attribute(text, "name"))
                {
                    self.netlist.parameters.insert(of.clone(), value.to_owned());
                }
            }
            "varref" => self.refers(attribute(text, "name").unwrap_or_default()),
            "initial" | "initialstatic" | "initialautomatic" | "final" => return Open::Once,
            "senitem"
                if ["POS", "NEG", "BOTH"].iter().any(|edge| attribute(text, "edgeType") == Some(edge)) =>
            {
                return Open::Edge;
            }
            "ccall" | "funcref" | "taskref" => return Open::Call,
            _ if name.starts_with("always") => {
                return Open::Block(Driver { place: place(), ..Driver::default() }, Vec::new());
            }
            _ if name.starts_with("assign") || name == "contassign" => {
                let (place, is_alias) = (place(), name == "assignalias");
                return Open::Assignment { parts: Vec::new(), depth, place, is_alias };
            }
            _ => {}
        }
        Open::Other
    }

    fn place(&self, text: &str) -> SourceLocation {
        let mut parts = attribute(text, "loc").unwrap_or_default().split(',');
        let file = parts.next().and_then(|id| self.files.get(id)).cloned().unwrap_or_default();
        SourceLocation { file, line: parts.next().and_then(|line| line.parse().ok()).unwrap_or(0) }
    }

    fn declared(&mut self, text: &str) -> Open {
        let Some(name) = attribute(text, "name") else { return Open::Other };
        if attribute(text, "param") == Some("true") {
            return Open::Parameter(name.strip_prefix("riser_top.").unwrap_or(name).to_owned());
        }
        let (number, place) = (self.netlist.number(name), self.place(text));
        self.netlist.places.entry(number).or_insert(place);
        Open::Other
    }

    /// Handles a signal name in the open elements.
    fn refers(&mut self, name: &str) {
        let signal = self.netlist.number(name);
        let has = |is: fn(&Open) -> bool| self.open.iter().any(is);
        let (is_edge, is_call) = (has(|o| matches!(o, Open::Edge)), has(|o| matches!(o, Open::Call)));
        if let Some(Open::Assignment { parts, .. }) = self.open.iter_mut().rev().find(is_assignment) {
            parts.last_mut().into_iter().for_each(|part| part.push(signal));
            return;
        }
        if let Some(Open::Block(block, _)) = self.open.iter_mut().rev().find(is_block) {
            match is_edge {
                true => block.clocks.push(signal),
                false => block.reads.push(signal),
            }
            if is_call {
                block.writes.push(signal);
            }
        }
    }

    /// Ends a block: each of its assignments depends on all signals that the block reads outside of assignments.
    fn block(&mut self, block: Driver, assignments: Vec<[Vec<usize>; 2]>) {
        for [mut reads, writes] in assignments {
            reads.extend(&block.reads);
            self.netlist.drivers.push(Driver { reads, writes, ..block.clone() });
        }
        self.netlist.drivers.push(block);
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Open::Block(block, assignments)) => self.block(block, assignments),
            Some(Open::Assignment { mut parts, place, is_alias, .. }) => {
                let writes = parts.pop().unwrap_or_default();
                let reads: Vec<usize> = parts.into_iter().flatten().collect();
                match self.open.iter_mut().rev().find(|open| is_block(open) || matches!(open, Open::Once)) {
                    Some(Open::Block(_, assignments)) => assignments.push([reads, writes]),
                    Some(_) => {}
                    None if is_alias => {
                        for (a, b) in reads.iter().zip(&writes) {
                            let (a, b) = (self.netlist.root(*a), self.netlist.root(*b));
                            self.netlist.same[a.max(b)] = a.min(b);
                        }
                    }
                    None => self.netlist.drivers.push(Driver { clocks: Vec::new(), reads, writes, place }),
                }
            }
            _ => {}
        }
    }
}

fn is_block(open: &&mut Open) -> bool {
    matches!(open, Open::Block(..))
}

fn is_assignment(open: &&mut Open) -> bool {
    matches!(open, Open::Assignment { .. })
}

/// Returns the raw value of a tag's attribute.
fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(&format!(" {name}=\""))? + name.len() + 3;
    text[at..].split('"').next()
}
