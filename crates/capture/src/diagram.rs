// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sequence diagrams: the TLPs of a few transactions as arrows between the components that they pass. [`Diagram`] keeps the TLPs of
//! each transaction until it ends, and arranges those of the wanted ones.
//!
//! A capture names the component at the lower end of each link: a slot or a switch. The component at the upper end is known if a
//! transaction passed from one link to another; otherwise it is taken for the root complex.

use crate::decode::{Kind, Record};
use crate::filter::Filter;
use crate::matcher::{Requester, Target, Transaction, answered_bytes, named_bytes};
use crate::reader::{Direction, End, Interface};
use crate::render::{append_when, status_name};
use crate::time::{Timestamp, append_decimal};
use crate::transactions::{Outcome, Tracker, append_line, append_target};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tlp::{Body, Format, Repr};

/// Most transactions of a diagram.
pub const MAX_TRANSACTIONS: usize = 20;
/// Most TLPs of a diagram.
pub const MAX_ARROWS: usize = 800;
/// Most transactions whose TLPs are kept until they end.
const MAX_KEPT: usize = 2 * crate::matcher::MAX_OUTSTANDING;
/// Least width of a column of the text, in characters.
const MIN_COLUMN: usize = 14;

/// A TLP of a transaction, on one link.
#[derive(Clone, Debug)]
struct Step {
    /// Number of its record.
    number: u64,
    time: Option<Timestamp>,
    /// Its line in a text.
    line: Option<u64>,
    link: u16,
    direction: Option<Direction>,
    repr: Repr,
}

/// TLPs of transactions that have not ended, and the links that were seen to follow each other.
#[derive(Clone, Debug, Default)]
struct Steps {
    /// By number of the request's record on the link of the TLP.
    kept: BTreeMap<u64, Vec<Step>>,
    /// By link: the link above the component at its upper end.
    above: BTreeMap<u16, u16>,
    /// By link: the slot or switch that it leads to; empty if the capture does not name it.
    slots: BTreeMap<u16, Arc<str>>,
    /// End of the links at which the capture was taken.
    end: Option<End>,
}

impl Steps {
    /// Keeps a record if it is a TLP that its receiver took: `outcome` comes from [`Tracker::see`].
    fn see(&mut self, record: &Record<'_>, outcome: &Outcome) {
        let Kind::Tlp(tlp) = &record.kind else { return };
        if !outcome.taken {
            return;
        }
        let link = record.interface.map_or(0, |interface| {
            self.end = self.end.or(interface.end);
            self.slots.entry(interface.link).or_insert_with(|| Arc::clone(&interface.slot));
            interface.link
        });
        let step = Step {
            number: record.number,
            time: record.time(),
            line: record.text.map(|text| text.line),
            link,
            direction: record.direction,
            repr: tlp.repr,
        };
        self.kept.entry(outcome.request.unwrap_or(record.number)).or_default().push(step);
        if self.kept.len() > MAX_KEPT {
            self.kept.pop_first();
        }
    }

    /// Takes the TLPs of a transaction that has ended, and learns from its way which links follow each other.
    fn take(&mut self, t: &Transaction) -> Vec<Step> {
        use Direction::{Downstream, Upstream};
        let legs = t.legs();
        for pair in legs.windows(2) {
            let (one, next) = (&pair[0].hop, &pair[1].hop);
            match (one.direction, next.direction) {
                (Some(Upstream), Some(Upstream)) => _ = self.above.insert(one.link, next.link),
                (Some(Downstream), Some(Downstream)) => _ = self.above.insert(next.link, one.link),
                _ => {}
            }
        }
        let steps = legs.iter().filter_map(|leg| self.kept.remove(&leg.hop.request_number));
        steps.flatten().collect()
    }
}

/// A component that TLPs pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Component {
    /// The slot or switch that a link leads to.
    Below(u16),
    /// The component at the upper end of a link.
    Above(u16),
    /// The root complex.
    Root,
    /// The requester, in a capture without directions.
    Requester(Requester),
    /// The completer, in a capture without directions.
    Completer,
}

/// A TLP from one component to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrow {
    /// Sender, an index of the components.
    pub from: usize,
    /// Receiver, an index of the components.
    pub to: usize,
    /// Nanoseconds since the first TLP of the diagram; without times, the line of a text or the number of the record.
    pub when: String,
    /// Type, tag, target or status, and bytes of the TLP.
    pub label: String,
    /// Index of its transaction in the diagram.
    pub transaction: usize,
}

/// A sequence diagram of the first transactions of a capture that a filter selects.
#[derive(Debug, Default)]
pub struct Diagram {
    filter: Option<Filter>,
    tracker: Tracker,
    kept: Steps,
    transactions: Vec<Transaction>,
    steps: Vec<(usize, Step)>,
    /// Number of selected transactions, those without room included.
    wanted: usize,
}

impl Diagram {
    /// Creates an empty diagram; `None` selects all transactions.
    pub fn new(filter: Option<Filter>) -> Diagram {
        Diagram { filter, ..Diagram::default() }
    }

    /// Processes the next record.
    pub fn see(&mut self, record: &Record<'_>) {
        let terms = self.filter.as_ref().map_or(0, |filter| filter.terms(record));
        let outcome = self.tracker.see(record, terms);
        self.kept.see(record, &outcome);
        self.take_ended();
    }

    /// Returns the arranged diagram, and the number of selected transactions without room. `None` if no transaction is selected.
    pub fn finish(mut self) -> Option<(Arranged, usize)> {
        self.tracker.finish();
        self.take_ended();
        let left_out = self.wanted - self.transactions.len();
        (self.wanted > 0).then(|| (self.arrange(), left_out))
    }

    fn take_ended(&mut self) {
        while let Some(transaction) = self.tracker.next_ended() {
            let taken = self.kept.take(&transaction);
            if self.filter.as_ref().is_some_and(|filter| !filter.holds_for(&transaction)) {
                continue;
            }
            self.wanted += 1;
            let has_room = self.steps.len() + taken.len() <= MAX_ARROWS;
            if self.transactions.len() < MAX_TRANSACTIONS && has_room {
                let n = self.transactions.len();
                self.steps.extend(taken.into_iter().map(|step| (n, step)));
                self.transactions.push(transaction);
            }
        }
    }

    fn arrange(mut self) -> Arranged {
        let steps = self.kept;
        self.steps.sort_by_key(|(_, step)| step.number);
        let start = self.steps.first().and_then(|(_, step)| step.time);
        let mut components: Vec<(Component, String)> = Vec::new();
        let mut arrows = Vec::new();
        for (transaction, step) in &self.steps {
            let [from, to] = ends(step, &self.transactions[*transaction]).map(|component| {
                let component = steps.resolved(component);
                index_of(&mut components, component, || steps.name(component))
            });
            let label = label(&step.repr);
            arrows.push(Arrow { from, to, when: when(step, start), label, transaction: *transaction });
        }
        Arranged {
            transactions: self.transactions.iter().map(title).collect(),
            start,
            end: steps.end,
            components: components.into_iter().map(|(_, name)| name).collect(),
            arrows,
        }
    }
}

impl Steps {
    /// Returns the component under its one identity: by the link that leads to it, if that is known.
    fn resolved(&self, component: Component) -> Component {
        match component {
            Component::Above(link) => {
                self.above.get(&link).map_or(Component::Root, |above| Component::Below(*above))
            }
            other => other,
        }
    }

    fn name(&self, component: Component) -> String {
        match component {
            Component::Below(link) => {
                let mut name = String::new();
                Interface::append_link(link, self.slots.get(&link).map_or("", |slot| slot), &mut name);
                name
            }
            Component::Above(_) | Component::Root => "root complex".to_owned(),
            Component::Requester(requester) => format!("requester {}", requester.id),
            Component::Completer => "completer".to_owned(),
        }
    }
}

fn index_of(
    components: &mut Vec<(Component, String)>,
    wanted: Component,
    name: impl FnOnce() -> String,
) -> usize {
    components.iter().position(|(component, _)| *component == wanted).unwrap_or_else(|| {
        components.push((wanted, name()));
        components.len() - 1
    })
}

/// Returns sender and receiver of a TLP.
fn ends(step: &Step, of: &Transaction) -> [Component; 2] {
    let (below, above) = (Component::Below(step.link), Component::Above(step.link));
    let (requester, completer) = (Component::Requester(of.requester), Component::Completer);
    match (step.direction, &step.repr.body) {
        (Some(Direction::Upstream), _) => [below, above],
        (Some(Direction::Downstream), _) => [above, below],
        (None, Body::Completion(_)) => [completer, requester],
        (None, _) => [requester, completer],
    }
}

/// Returns the line of a transaction, with picoseconds.
fn title(t: &Transaction) -> String {
    let mut line = String::new();
    append_line(t, 12, &mut line);
    line
}

fn when(step: &Step, start: Option<Timestamp>) -> String {
    let mut text = String::new();
    match (step.time, start) {
        (Some(time), Some(start)) => {
            let ps = u64::try_from(time.since_ps(start)).unwrap_or(u64::MAX);
            append_decimal(&mut text, ps / 1000, 1);
            text.push('.');
            append_decimal(&mut text, ps % 1000, 3);
        }
        _ => append_when(None, 1, step.line, step.number, &mut text),
    }
    text
}

fn label(repr: &Repr) -> String {
    let mut text = format!("{}, tag {}", Format::get(repr.format().id).name, repr.transaction().1);
    let bytes = match &repr.body {
        Body::Completion(completion) => {
            text += ", ";
            text += status_name(completion.status);
            completion.length_dw.map_or(0, |length| answered_bytes(completion, length))
        }
        _ => {
            append_target(Target::of(repr), &mut text);
            named_bytes(repr)
        }
    };
    if bytes > 0 {
        text += &format!(", {bytes} bytes");
    }
    text
}

/// A sequence diagram, arranged. Its text has a line for each TLP, with the components as columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arranged {
    /// One line for each transaction.
    pub transactions: Vec<String>,
    /// Time of the first TLP, from which the others count; `None` without times.
    pub start: Option<Timestamp>,
    /// End of each link at which the TLPs were seen, if the capture names it.
    pub end: Option<End>,
    /// Names of the components, in the order in which TLPs pass them.
    pub components: Vec<String>,
    /// The TLPs, in order of time.
    pub arrows: Vec<Arrow>,
}

impl Arranged {
    /// Returns the label of an arrow, with the number of its transaction if there are several.
    pub fn label(&self, arrow: &Arrow) -> String {
        let number = arrow.transaction + 1;
        if self.transactions.len() > 1 { format!("{number}: {}", arrow.label) } else { arrow.label.clone() }
    }

    /// Describes the times in one line.
    pub fn times(&self) -> String {
        let Some(start) = self.start else { return "without times".to_owned() };
        let mut text = "time in ns since ".to_owned();
        start.append_to(&mut text, 12);
        if let Some(end) = self.end {
            text += &format!(", at the {} end of each link", end.name());
        }
        text
    }

    /// Writes one line: `left` in the first column, and a line for each component with `arrow` between two of them.
    fn row(&self, left: &str, widths: (usize, usize), arrow: Option<(usize, usize)>) -> String {
        let place = |n: usize| widths.0 + 2 + n * widths.1;
        let mut row: Vec<char> = format!("{left:>width$}", width = widths.0).chars().collect();
        row.resize(self.components.len().checked_sub(1).map_or(0, place) + 1, ' ');
        (0..self.components.len()).for_each(|n| row[place(n)] = '|');
        if let Some((from, to)) = arrow.filter(|(from, to)| from != to) {
            let (low, high) = (place(from.min(to)), place(from.max(to)));
            row[low + 1..high].fill('-');
            let (tip, head) = if to > from { (high - 1, '>') } else { (low + 1, '<') };
            row[tip] = head;
        }
        row.into_iter().collect()
    }

    fn names(&self, widths: (usize, usize)) -> String {
        let mut line = format!("{:>width$}  ", "ns", width = widths.0);
        for name in &self.components {
            line += &format!("{name:<width$}", width = widths.1);
        }
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Arranged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, transaction) in self.transactions.iter().enumerate() {
            match self.transactions.len() {
                1 => writeln!(f, "{transaction}")?,
                _ => writeln!(f, "{}: {transaction}", n + 1)?,
            }
        }
        writeln!(f, "{}\n", self.times())?;
        let longest = |all: &mut dyn Iterator<Item = &String>| all.map(|text| text.chars().count()).max();
        let widths = (
            longest(&mut self.arrows.iter().map(|arrow| &arrow.when)).unwrap_or(0).max(2),
            (longest(&mut self.components.iter()).unwrap_or(0) + 2).max(MIN_COLUMN),
        );
        write!(f, "{}", self.names(widths))?;
        for arrow in &self.arrows {
            let row = self.row(&arrow.when, widths, Some((arrow.from, arrow.to)));
            write!(f, "\n{row}  {}", self.label(arrow))?;
        }
        Ok(())
    }
}
