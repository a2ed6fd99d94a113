// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees, traffic and faults made from bytes, and the conditions that must hold for every run. Called by the fuzz
//! target, and by tests on random bytes and on the seeds. Broken conditions are returned as text.

use super::node::{Book, Kind, Node, NodePlan, Op, SUM_ADDRESS, SharedBook};
use super::watch::Watch;
use super::{LinkPlan, Place, RunPlan, TreePlan};
use endpoint::TlpPort;
use host::memory::HostMemory;
use riser_fabric::{
    Above, Alteration, Direction, Fabric, FaultAction, FaultRule, Forwarding, FrameKind, HostId, HostProfile,
    Limits, LinkChange, LinkEvent, LinkId, Stop,
};
use std::rc::Rc;
use tlp::{Bdf, Duration, PayloadPool, Rate, Status, Tag, Time};

/// Maximum number of leaves and switches of a tree.
const MAX_LEAVES: usize = 16;
const MAX_SWITCHES: usize = 8;
const MAX_DEPTH: usize = 5;
/// Maximum number of requests of a run.
const MAX_OPS: usize = 600;
/// Time at which traffic and link faults begin. All links are up by then, even if many frames were lost.
const START: Duration = Duration::from_us(200);
/// Maximum number of events of a run: some hundred times the number of the longest run.
const MAX_EVENTS: u64 = 20_000_000;

/// The trouble of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// No trouble.
    Nothing,
    /// Frames are damaged, lost, doubled or late. The data link layer repairs this.
    Frames,
    /// Links are cut and restored, devices pulled and put back.
    Links,
    /// Frames are altered before their CRC is made.
    Altered,
}

impl Trouble {
    pub(crate) const ALL: [Trouble; 4] =
        [Trouble::Nothing, Trouble::Frames, Trouble::Links, Trouble::Altered];
}

/// Choices made from bytes; once these are used up, every choice is the first.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A tree with its traffic and trouble.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) tree: TreePlan,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) faults: Vec<FaultRule>,
    pub(crate) events: Vec<LinkEvent>,
    pub(crate) trouble: Trouble,
    host: [u64; 3],
    root_functions: bool,
}

impl Case {
    /// Returns the case described by `bytes`.
    pub(crate) fn new(trouble: Trouble, bytes: &[u8]) -> Case {
        let mut c = Choices(bytes.iter());
        let mut tree = tree(&mut c);
        let host = [c.byte(), c.byte(), c.byte()].map(u64::from);
        // Bare root ports do not handle links that go down, and have no peers.
        let root_functions = trouble == Trouble::Links || c.below(4) > 0;
        let (faults, events) = troubles(&mut c, trouble, &tree);
        let nodes = traffic(&mut c, &tree, root_functions);
        // If DLLPs are damaged for ever, error messages about them are sent for ever.
        tree.report_errors &= faults.iter().all(|fault| fault.every == 0);
        Case { tree, nodes, faults, events, trouble, host, root_functions }
    }

    /// A case by hand, with a host without latency.
    pub(crate) fn by_hand(
        tree: TreePlan,
        nodes: Vec<NodePlan>,
        faults: Vec<FaultRule>,
        events: Vec<LinkEvent>,
        trouble: Trouble,
    ) -> Case {
        Case { tree, nodes, faults, events, trouble, host: [0, 0, 2], root_functions: true }
    }

    /// Returns the case of an input of the fuzz target, whose first byte selects the trouble.
    pub(crate) fn from_input(input: &[u8]) -> Case {
        let (first, bytes) = input.split_first().unwrap_or((&0, &[]));
        Case::new(Trouble::ALL[usize::from(*first) % Trouble::ALL.len()], bytes)
    }

    fn host(&self) -> HostProfile {
        let [root, memory, reads] = self.host;
        HostProfile {
            root_complex_latency: Duration::from_ns(root),
            memory_read_latency: Duration::from_ns(memory),
            read_request_service: Duration::from_ns(memory / 64),
            write_line_service: Duration::from_ns(root / 32),
            max_reads_per_port: [1, 2, 64][reads as usize % 3],
            ..HostProfile::ideal()
        }
    }

    /// Links that are down at the end of the run.
    fn dead_links(&self) -> Vec<bool> {
        // A cut cable and an empty slot are two separate reasons.
        let down = |link: usize| {
            let last = |down: LinkChange, up: LinkChange| {
                let of = self.events.iter().filter(|e| e.link.0 as usize == link);
                let of = of.filter(|e| e.change == down || e.change == up);
                of.max_by_key(|event| event.at).is_some_and(|event| event.change == down)
            };
            last(LinkChange::Cut, LinkChange::Restore) || last(LinkChange::Remove, LinkChange::Insert)
        };
        let dead = |mut link: usize| loop {
            if down(link) {
                return true;
            }
            match self.tree.above(link) {
                Above::RootPort(_) => return false,
                Above::Switch { switch, .. } => link = self.tree.leaves.len() + switch,
            }
        };
        (0..self.tree.links()).map(dead).collect()
    }
}

fn tree(c: &mut Choices<'_>) -> TreePlan {
    let mut tree = TreePlan::new();
    tree.mps = c.below(2) as u8;
    tree.two_channels = c.below(4) == 1;
    tree.report_errors = c.below(2) == 1;
    for _ in 0..=c.below(2) {
        grow(c, &mut tree, Above::RootPort(HostId::FIRST), MAX_DEPTH);
    }
    // Switches with only empty ports are allowed, but not interesting.
    if tree.leaves.is_empty() {
        grow(c, &mut tree, Above::RootPort(HostId::FIRST), 0);
    }
    tree
}

fn grow(c: &mut Choices<'_>, tree: &mut TreePlan, above: Above, depth: usize) {
    let link = link(c);
    let full = tree.leaves.len() >= MAX_LEAVES || tree.switches.len() >= MAX_SWITCHES;
    if depth == 0 || full || c.below(3) == 0 {
        tree.leaf(above, link);
        return;
    }
    let mode = c.of(&[Forwarding::StoreAndForward, Forwarding::CutThrough]);
    let switch = tree.switch(above, link, mode, 1000 * u64::from(c.byte()));
    let ports = 1 + c.below(8);
    for _ in 0..ports {
        let port = tree.port(switch);
        // Some ports are empty.
        if tree.leaves.len() < MAX_LEAVES && c.below(16) != 15 {
            grow(c, tree, port, depth - 1);
        }
    }
    if c.below(3) == 2 {
        tree.switches[switch].weights = (0..=ports).map(|_| 1 + c.below(4) as u16).collect();
    }
}

fn link(c: &mut Choices<'_>) -> LinkPlan {
    LinkPlan {
        rate: Rate::from_generation(1 + c.below(5) as u8).unwrap(),
        lanes: c.of(&[1, 2, 4, 8, 16]),
        propagation_ps: 37 * u64::from(c.byte()),
        headers: c.of(&[1, 2, 5, 32, 0]),
        payloads: c.of(&[1, 2, 7]),
        queue: c.of(&[1, 2, 8]),
        replay: c.of(&[1, 2, 8, 64]),
    }
}

fn troubles(c: &mut Choices<'_>, trouble: Trouble, tree: &TreePlan) -> (Vec<FaultRule>, Vec<LinkEvent>) {
    match trouble {
        Trouble::Nothing => (Vec::new(), Vec::new()),
        Trouble::Frames => ((0..=c.below(4)).map(|_| fault(c, tree, harmless)).collect(), Vec::new()),
        Trouble::Altered => ((0..=c.below(3)).map(|_| fault(c, tree, altering)).collect(), Vec::new()),
        Trouble::Links => {
            let cuts = (0..c.below(3)).map(|_| fault(c, tree, cutting)).collect();
            (cuts, (0..=c.below(3)).flat_map(|_| outage(c, tree)).collect())
        }
    }
}

fn fault(
    c: &mut Choices<'_>,
    tree: &TreePlan,
    action: fn(&mut Choices<'_>) -> (FrameKind, FaultAction),
) -> FaultRule {
    let (kind, action) = action(c);
    // The rule uses a probability. Otherwise replays in the same order could hit a counting rule at the same place for
    // ever.
    let chance = c.of(&[None, Some(u64::MAX / 3), Some(u64::MAX / 20), Some(u64::MAX / 100)]);
    let link = LinkId(c.below(tree.links()) as u32);
    let direction = c.of(&[Direction::Upstream, Direction::Downstream]);
    let nth = 1 + c.below(30) as u64;
    let every = u64::from(chance.is_some());
    FaultRule { every, chance, ..FaultRule::new(link, direction, kind, nth, action) }
}

/// Faults that the Data Link Layer repairs.
fn harmless(c: &mut Choices<'_>) -> (FrameKind, FaultAction) {
    let kinds = [FrameKind::Tlp, FrameKind::Any, FrameKind::Dllp, FrameKind::Ack, FrameKind::UpdateFc];
    let delay = FaultAction::Delay(Duration::from_ns(700));
    let actions =
        [FaultAction::Corrupt, FaultAction::Drop, FaultAction::BreakFraming, FaultAction::Double, delay];
    (c.of(&kinds), c.of(&actions))
}

fn cutting(c: &mut Choices<'_>) -> (FrameKind, FaultAction) {
    let restore_after = Some(Duration::from_us(1 + u64::from(c.byte())));
    (FrameKind::Tlp, FaultAction::Cut { restore_after })
}

fn altering(c: &mut Choices<'_>) -> (FrameKind, FaultAction) {
    let alterations = [
        Alteration::Poison,
        Alteration::Status(Status::CompleterAbort),
        Alteration::Tag(Tag::from_bits(3)),
        Alteration::Requester(Bdf::from_bits(0x0200)),
        Alteration::ByteCount(12),
        Alteration::Length(5),
        Alteration::HeaderBits { dw: 0, bits: 1 << c.below(32) },
        Alteration::HeaderBits { dw: c.below(4) as u8, bits: u32::from(c.byte()) << 8 },
        Alteration::Sequence(2),
        Alteration::Credits { header: -1, data: 3 },
    ];
    (FrameKind::Any, FaultAction::Alter(c.of(&alterations)))
}

/// A link goes down, and mostly up again.
fn outage(c: &mut Choices<'_>, tree: &TreePlan) -> Vec<LinkEvent> {
    let link = LinkId(c.below(tree.links()) as u32);
    let at = Time::ZERO + START + Duration::from_ns(1 + 150 * u64::from(c.byte()));
    let (down, up) =
        c.of(&[(LinkChange::Cut, LinkChange::Restore), (LinkChange::Remove, LinkChange::Insert)]);
    let event = |at, change| LinkEvent { at, link, change };
    let lasts = c.byte();
    let again = event(at + Duration::from_us(1 + u64::from(lasts)), up);
    if lasts > 200 { vec![event(at, down)] } else { vec![event(at, down), again] }
}

fn traffic(c: &mut Choices<'_>, tree: &TreePlan, across: bool) -> Vec<NodePlan> {
    let leaves = tree.leaves.len();
    let node = |c: &mut Choices<'_>| NodePlan {
        ops: Vec::new(),
        tags: c.of(&[32, 1, 4]),
        slow: Duration::from_ns(c.of(&[0, 0, 40, 900])),
        holds: c.below(2) == 1,
    };
    let mut nodes: Vec<NodePlan> = (0..leaves).map(|_| node(c)).collect();
    let mut left = MAX_OPS;
    while c.0.len() > 0 && left > 0 {
        let (leaf, times) = (c.below(leaves), (1 + c.below(24)).min(left));
        let kind = kind(c, tree, leaf, across);
        let at = Time::ZERO + START + Duration::from_ns(100 * u64::from(c.byte()));
        let (size, tc) = (c.of(&[8, 64, 128, 256, 512]), c.below(2) as u8);
        nodes[leaf].ops.extend(std::iter::repeat_n(Op { at, kind, size, tc }, times));
        left -= times;
    }
    nodes
}

/// Returns the traffic of `leaf`; `across`: also to peers below other root ports.
fn kind(c: &mut Choices<'_>, tree: &TreePlan, leaf: usize, across: bool) -> Kind {
    let which = c.below(16);
    let other = (leaf + 1 + c.below(tree.leaves.len())) % tree.leaves.len();
    let is_near = other != leaf && tree.root_of(other) == tree.root_of(leaf);
    let is_peer = is_near || across && other != leaf;
    match which {
        0..=3 if is_peer => Kind::WritePeer(other),
        4..=7 if is_peer => Kind::ReadPeer(other),
        // The root complex passes on requests to memory, no messages.
        8 if is_near => Kind::MessagePeer(other),
        9 | 10 | 0..=3 => Kind::WriteHost,
        11 | 4..=7 => Kind::ReadHost,
        12 => Kind::AddHost,
        13 => Kind::MessageRoot,
        14 => Kind::WriteNowhere,
        _ => Kind::ReadNowhere,
    }
}

/// The result of a run, to compare with another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) digest: (u64, u64),
    pub(crate) events: u64,
    pub(crate) answered: u64,
    pub(crate) posted_received: u64,
    pub(crate) lost: u64,
}

/// Runs the case; returns the broken conditions.
pub(crate) fn run(case: &Case) -> Result<Outcome, String> {
    let book: SharedBook = SharedBook::default();
    book.borrow_mut().lossy = matches!(case.trouble, Trouble::Links | Trouble::Altered);
    book.borrow_mut().altered = case.trouble == Trouble::Altered;
    let places: Rc<Vec<Place>> = Rc::new(case.tree.places());
    let pool = PayloadPool::new();
    let device = |(n, plan): (usize, &NodePlan)| -> Box<dyn TlpPort> {
        let (places, pool) = (Rc::clone(&places), pool.clone());
        Box::new(Node::new(n, case.tree.mps(), places, plan.clone(), pool, Rc::clone(&book)))
    };
    let devices = case.nodes.iter().enumerate().map(device).collect();
    let memory = HostMemory::new(1 << 20, super::HIGH_BYTES).unwrap();
    let run = RunPlan {
        host: case.host(),
        memory: memory.clone(),
        root_functions: case.root_functions,
        program: None,
        faults: case.faults.clone(),
        events: case.events.clone(),
        seed: 7,
    };
    let mut fabric = case.tree.build(devices, run);
    let watch = Watch::new(case.tree.two_channels);
    fabric.set_tap(Box::new(watch.clone()));
    let stop = fabric.run(Limits { events: MAX_EVENTS, ..Limits::default() });
    let mut wrong = ended(case, &stop);
    wrong.extend(book.borrow().wrong.iter().cloned());
    if case.trouble != Trouble::Altered {
        let dead = case.dead_links();
        wrong.extend(watch.missing_credits(|link| !dead[link as usize]));
        let sum = memory.read_u64(SUM_ADDRESS).unwrap();
        wrong.extend(conserved(case, &fabric, &book.borrow(), sum));
    }
    let book = book.borrow();
    let outcome = Outcome {
        digest: watch.digest(),
        events: fabric.totals().events,
        answered: book.answered,
        posted_received: book.posted_received,
        lost: fabric.account_totals().dropped,
    };
    if wrong.is_empty() { Ok(outcome) } else { Err(wrong.join("\n")) }
}

/// The run must end; if a part waits, it must be below a link that is down.
fn ended(case: &Case, stop: &Stop) -> Vec<String> {
    let lines = match stop {
        Stop::Finished => return Vec::new(),
        Stop::NoProgress(lines) if lines[0].starts_with("time stands still") => return lines.clone(),
        Stop::NoProgress(lines) => lines,
        _ => return vec![format!("the run ends: {stop}")],
    };
    let dead = case.dead_links();
    let is_dead = |line: &str, what: &str, first: usize| {
        let number =
            line.strip_prefix(what).and_then(|rest| rest.split([':', ' ']).next()?.parse::<usize>().ok());
        number.is_some_and(|n| dead[first + n])
    };
    // A link may stop for good because of wrong values in an altered frame.
    let excused = |line: &&String| {
        case.trouble == Trouble::Altered
            || is_dead(line, "slot ", 0)
            || is_dead(line, "link ", 0)
            // This line comes with the waiting parts, but is not one of them.
            || line.starts_with("errors, ")
    };
    lines.iter().filter(|line| !excused(line)).cloned().collect()
}

/// Every request has ended exactly once.
fn conserved(case: &Case, fabric: &Fabric, book: &Book, sum: u64) -> Vec<String> {
    let accounts = fabric.account_totals();
    let root = fabric.root().counters();
    let lossy = case.trouble == Trouble::Links;
    let closed = book.posted_received + root.memory_writes + root.vendor_messages + book.answers_received;
    let rows = [
        (accounts.opened == book.posted + book.non_posted, "each request has an account"),
        (accounts.closed == closed, "closed transactions have arrived"),
        (accounts.given_up == 0, "no transaction is given up"),
        (accounts.open <= book.timed_out, "open transactions have timed out"),
        (book.unexpected == 0, "no unexpected answer"),
        (lossy || accounts.dropped == book.posted_nowhere, "dropped transactions had no target"),
        (lossy || book.timed_out + book.late == 0, "all is answered in time"),
        (sum >= book.added && sum <= book.adds_sent, "memory has added the answered operands"),
        (lossy || sum == book.adds_sent, "memory has added all"),
    ];
    let wrong = rows.iter().filter(|(holds, _)| !holds);
    wrong.map(|(_, what)| format!("failed: {what}: {accounts:?}, {book:?}, {root:?}, sum {sum}")).collect()
}
