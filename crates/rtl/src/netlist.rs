// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design as Verilator has elaborated and flattened it (`--xml-only --flatten`): who drives what, and whose edges it waits for. Reads an
//! expression only for the signals in it.

use std::collections::HashMap;
use std::ops::Range;

/// A place in a source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// What drives signals: an assignment, with what it depends on in its block, if it is in one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Driver {
    /// Signals whose edges it waits for; none where it follows what it reads.
    pub(crate) clocks: Vec<usize>,
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<usize>,
    /// Where the block is, or the assignment by itself.
    pub(crate) place: Place,
}

/// A netlist. Signals are numbers; those that are one net have one number.
#[derive(Default)]
pub(crate) struct Netlist {
    pub(crate) drivers: Vec<Driver>,
    names: HashMap<String, usize>,
    /// Of each number the one that it is the same as, or itself.
    same: Vec<usize>,
    /// Places of declarations.
    places: HashMap<usize, Place>,
    /// Constants of instances, by name.
    parameters: HashMap<String, String>,
}

impl Netlist {
    /// The netlist of what Verilator has written.
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

    /// How many numbers there are.
    pub(crate) fn signals(&self) -> Range<usize> {
        0..self.same.len()
    }

    /// The signal of this name, below the top that riser writes.
    pub(crate) fn signal(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|signal| self.root(*signal))
    }

    /// All names of a signal, shortest first.
    pub(crate) fn names(&self, signal: usize) -> Vec<&str> {
        let all = self.names.iter().filter(|(_, other)| self.root(**other) == signal);
        let mut all: Vec<&str> = all.map(|(name, _)| name.as_str()).collect();
        all.sort_by_key(|name| (name.len(), *name));
        all
    }

    /// The name of a signal that is nearest to the top.
    pub(crate) fn highest(&self, signal: usize) -> &str {
        self.names(signal).into_iter().min_by_key(|name| name.matches('.').count()).unwrap_or_default()
    }

    /// Where a name is declared.
    pub(crate) fn place(&self, name: &str) -> Option<&Place> {
        self.places.get(self.names.get(name)?)
    }

    /// The value of an instance's parameter.
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

/// An element that is open and matters.
enum Open {
    /// A block of the design's: what it waits for, and reads and writes beside its assignments; and those, each with what it reads and
    /// writes.
    Block(Driver, Vec<[Vec<usize>; 2]>),
    /// An assignment: the signals in each of its parts, the last of which is written; and how deep it is.
    Assignment {
        parts: Vec<Vec<usize>>,
        depth: usize,
        place: Place,
        is_alias: bool,
    },
    /// An edge that a block waits for.
    Edge,
    /// Arguments of a call, which may be written.
    Call,
    /// What runs once.
    Once,
    /// A parameter, whose value follows.
    Parameter(String),
    Other,
}

/// Reads tags in turn.
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

    fn place(&self, text: &str) -> Place {
        let mut parts = attribute(text, "loc").unwrap_or_default().split(',');
        let file = parts.next().and_then(|id| self.files.get(id)).cloned().unwrap_or_default();
        Place { file, line: parts.next().and_then(|line| line.parse().ok()).unwrap_or(0) }
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

    /// A signal is named within what is open.
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

    /// A block is over: each of its assignments depends on all that it reads beside them.
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

/// An attribute of a tag, as it stands.
fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(&format!(" {name}=\""))? + name.len() + 3;
    text[at..].split('"').next()
}
