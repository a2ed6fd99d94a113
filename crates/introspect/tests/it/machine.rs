// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine with the parts of a kernel that the crate reads, built from the specifications. It uses only public
//! traits and types of the code under test.

use riser_introspect::{Answer, PhysicalMemory};
use std::collections::BTreeMap;

pub(crate) const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;
const MIB2: u64 = 2 << 20;

/// State of a page of code in its page tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Small,
    /// In memory, but access is forbidden.
    Forbidden,
    Swapped,
    Absent,
    /// Only in the page cache.
    Cached,
    /// Only in the page cache, and not up to date.
    Stale,
}

/// Parameters of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Physical address of the image: a multiple of 2 MiB.
    pub(crate) image: u64,
    /// Virtual address of the image.
    pub(crate) image_address: u64,
    /// Virtual address of the direct map: a multiple of 1 GiB.
    pub(crate) direct: u64,
    pub(crate) five_levels: bool,
    /// If not 0, code starts in a page of 2 MiB, with this many bytes before the small pages.
    pub(crate) huge_bytes: u64,
    pub(crate) pages: Vec<Kind>,
    /// Offset of the code in its first page.
    pub(crate) skew: u64,
    pub(crate) names: Vec<String>,
    /// Number of bytes by which the members of `task_struct` are shifted.
    pub(crate) shift: u64,
}

/// Offsets of members, by structure.
struct Members(Vec<(&'static str, Vec<(&'static str, u64)>)>);

impl Members {
    fn new(shift: u64) -> Members {
        let spread = |first: u64, step: u64, names: &[&'static str]| -> Vec<_> {
            names.iter().copied().zip((0..).map(|n| first + n * step)).collect()
        };
        let task = ["__state", "exit_state", "tasks", "mm", "pid", "real_parent", "group_leader", "comm"];
        Members(vec![
            ("task_struct", spread(shift, 24, &task)),
            ("mm_struct", spread(64 + shift, 16, &["pgd", "start_code", "end_code", "exe_file"])),
            ("file", vec![("f_mapping", 32)]),
            ("address_space", vec![("i_pages", 16)]),
            ("xarray", vec![("xa_head", 8)]),
            ("xa_node", vec![("shift", 1), ("slots", 40)]),
            ("page", vec![("flags", 0)]),
        ])
    }

    fn of(&self, structure: &str, name: &str) -> u64 {
        let (_, members) = self.0.iter().find(|(known, _)| *known == structure).expect("a structure");
        members.iter().find(|(member, _)| *member == name).expect("a member").1
    }

    fn task(&self, name: &str) -> u64 {
        self.of("task_struct", name)
    }

    fn mm(&self, name: &str) -> u64 {
        self.of("mm_struct", name)
    }
}

/// `sizeof(struct page)`. The next constant is the number of the flag that BTF calls `PG_uptodate`.
const PAGE_STRUCT_BYTES: u64 = 64;
const UP_TO_DATE: u64 = 1 << 2;
/// Page number in the file of the code's first page.
const FILE_PAGE: u64 = 61;

/// The machine's memory. Bytes that were never written are zero; reads at or after the end are refused.
#[derive(Clone)]
pub(crate) struct Machine {
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    end: u64,
    /// Number of reads that are still answered.
    pub(crate) reads: u64,
    free: u64,
    /// Cached pages of the file: their frames, and whether they are up to date.
    cached: BTreeMap<u64, (u64, bool)>,
    /// Virtual address and bytes of the code.
    pub(crate) code: (u64, Vec<u8>),
    /// Marks the bytes of the code that are not in memory.
    pub(crate) gaps: Vec<bool>,
    /// Physical addresses of the tasks.
    pub(crate) tasks: Vec<u64>,
}

/// PID of the process with code. It is the same in all plans.
pub(crate) const PID_OF_CODE: i32 = 1;

impl Machine {
    pub(crate) fn new(plan: &Plan) -> Machine {
        let mut machine = Machine {
            pages: BTreeMap::new(),
            end: 3 * GIB + 5 * MIB2,
            reads: 1 << 20,
            free: GIB + 0x12_3000,
            cached: BTreeMap::new(),
            code: (0, Vec::new()),
            gaps: Vec::new(),
            tasks: Vec::new(),
        };
        let members = Members::new(plan.shift);
        machine.write(plan.image, &[0x48, 0x8d, 0x25, 0x51, 0x3f, 0x40, 0x01]);
        machine.write(plan.image + 0x30_0010, &btf(&members));
        machine.write_tasks(plan, &members);
        machine
    }

    /// Returns the contents of a BTF file of this kernel.
    pub(crate) fn btf(shift: u64) -> Vec<u8> {
        btf(&Members::new(shift))
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = *byte;
        }
    }

    fn write_word(&mut self, address: u64, word: u64) {
        self.write(address, &word.to_le_bytes());
    }

    /// Overwrites a word of an existing page, selected by `which`.
    pub(crate) fn spoil(&mut self, which: u64, word: u64) {
        let count = self.pages.len() as u64;
        let page = *self.pages.keys().nth((which % count) as usize).expect("less than there are");
        self.write_word(page * PAGE + (which / count % 512) * 8, word);
    }

    fn allocate(&mut self) -> u64 {
        self.free += PAGE;
        self.free - PAGE
    }

    fn write_tasks(&mut self, plan: &Plan, members: &Members) {
        // No task starts at the start of its page.
        let places: Vec<u64> = std::iter::once(plan.image + 0x40_0000 + 0x40)
            .chain(plan.names.iter().map(|_| self.allocate() + 0x80))
            .collect();
        let address = |n: usize| match n {
            0 => plan.image_address + (places[0] - plan.image),
            n => plan.direct + places[n],
        };
        let count = places.len();
        let names = std::iter::once("swapper/0").chain(plan.names.iter().map(String::as_str));
        for (n, name) in names.enumerate() {
            let link = |n: usize| address(n % count) + members.task("tasks");
            self.write(places[n] + members.task("pid"), &(n as u32).to_le_bytes());
            self.write(places[n] + members.task("comm"), name.as_bytes());
            self.write(places[n] + members.task("__state"), &u32::from(n % 2 == 1).to_le_bytes());
            self.write_word(places[n] + members.task("group_leader"), address(n));
            self.write_word(places[n] + members.task("real_parent"), address(0));
            self.write_word(places[n] + members.task("tasks"), link(n + 1));
            self.write_word(places[n] + members.task("tasks") + 8, link(n + count - 1));
        }
        if count > 1 {
            let mm = self.allocate() + 0x200;
            self.write_word(places[1] + members.task("mm"), plan.direct + mm);
            let root = self.write_code(plan);
            self.write_cache(plan, members, mm, root);
            self.write_word(mm + members.mm("pgd"), plan.direct + root);
            self.write_word(mm + members.mm("start_code"), self.code.0);
            self.write_word(mm + members.mm("end_code"), self.code.0 + self.code.1.len() as u64);
        }
        self.tasks = places;
    }

    /// Writes code into its pages and builds the page tables. Returns the root.
    fn write_code(&mut self, plan: &Plan) -> u64 {
        let root = self.allocate();
        let image = plan.image_address / MIB2 * MIB2;
        for step in 0..4 {
            self.map(plan.five_levels, root, image + step * MIB2, 1, (plan.image + step * MIB2) | 0x81);
        }
        let begin = 0x55_5540_0000;
        let start = begin + if plan.huge_bytes > 0 { MIB2 - plan.huge_bytes } else { plan.skew };
        let mut bytes = Vec::new();
        if plan.huge_bytes > 0 {
            let physical = 2 * GIB + 4 * MIB2;
            self.map(plan.five_levels, root, begin, 1, physical | 0x81);
            bytes.extend((0..plan.huge_bytes).map(|n| (n % 241) as u8));
            self.write(physical + MIB2 - plan.huge_bytes, &bytes);
            self.gaps.resize(bytes.len(), false);
            let pages = (physical + MIB2 - plan.huge_bytes) / PAGE..(physical + MIB2) / PAGE;
            self.cached.extend((0..).zip(pages.map(|frame| (frame, true))));
        }
        let small = if plan.huge_bytes > 0 { begin + MIB2 } else { begin };
        let is_mapped = |kind: &Kind| matches!(kind, Kind::Small | Kind::Forbidden);
        let has_mapped = plan.huge_bytes > 0 || plan.pages.iter().any(is_mapped);
        for (n, kind) in plan.pages.iter().enumerate() {
            let skip = if n == 0 && plan.huge_bytes == 0 { plan.skew } else { 0 };
            let content: Vec<u8> = (0..PAGE).map(|at| (at * 7 + n as u64 * 13) as u8).collect();
            let physical = self.allocate();
            let entry = match kind {
                Kind::Small => physical | 0x25,
                // Only `_PAGE_PROTNONE`, with the frame inverted.
                Kind::Forbidden => !physical & 0x000f_ffff_ffff_f000 | 0x100,
                Kind::Swapped => 0x0012_3400_0000_0400,
                Kind::Absent | Kind::Cached | Kind::Stale => 0,
            };
            let is_cached_alone = matches!(kind, Kind::Cached | Kind::Stale);
            let is_mapped = matches!(kind, Kind::Small | Kind::Forbidden);
            if is_mapped || is_cached_alone {
                self.write(physical, &content);
                let number = small / PAGE + n as u64 - start / PAGE;
                self.cached.insert(number, (physical / PAGE, *kind != Kind::Stale));
            }
            // If nothing is mapped, the file's pages cannot be located.
            let is_there = is_mapped || *kind == Kind::Cached && has_mapped;
            self.map(plan.five_levels, root, small + n as u64 * PAGE, 0, entry);
            bytes.extend(content[skip as usize..].iter().map(|byte| if is_there { *byte } else { 0 }));
            self.gaps.resize(bytes.len(), !is_there);
        }
        self.code = (start, bytes);
        root
    }

    /// Writes the file, the tree of its pages, and the `struct page`s that are read.
    fn write_cache(&mut self, plan: &Plan, members: &Members, mm: u64, root: u64) {
        let [file, mapping, top] = [(); 3].map(|()| self.allocate());
        let link = |physical: u64| plan.direct + physical;
        self.write_word(mm + members.mm("exe_file"), link(file));
        self.write_word(file + members.of("file", "f_mapping"), link(mapping));
        let head = members.of("address_space", "i_pages") + members.of("xarray", "xa_head");
        self.write_word(mapping + head, link(top) | 2);
        self.write(top + members.of("xa_node", "shift"), &[6]);
        let slots = members.of("xa_node", "slots");
        // `vmemmap_base`, at a distance from the direct map that no other part of the machine uses.
        let pages = plan.direct + (1 << 44);
        let (mut leaves, mut tables) = (BTreeMap::new(), BTreeMap::new());
        for (number, (frame, is_whole)) in self.cached.clone() {
            let index = FILE_PAGE + number;
            let leaf = *leaves.entry(index / 64).or_insert_with(|| self.allocate());
            self.write_word(top + slots + index / 64 * 8, link(leaf) | 2);
            let page = pages + frame * PAGE_STRUCT_BYTES;
            self.write_word(leaf + slots + index % 64 * 8, page);
            let table = *tables.entry(page / PAGE).or_insert_with(|| {
                let new = self.allocate();
                self.map(plan.five_levels, root, page, 0, new | 0x163);
                new
            });
            let flags = table + page % PAGE + members.of("page", "flags");
            self.write_word(flags, if is_whole { UP_TO_DATE | 1 } else { 1 });
        }
        // A shadow entry of a dropped page.
        self.write_word(top + slots + 63 * 8, 0x1235);
    }

    /// Writes a page table entry of this level (0: 4 KiB), and the tables above it.
    fn map(&mut self, five_levels: bool, root: u64, address: u64, level: u32, entry: u64) {
        let mut table = root;
        for above in ((level + 1)..(if five_levels { 5 } else { 4 })).rev() {
            let place = table + (address >> (12 + 9 * above) & 511) * 8;
            let mut next = [0; 8];
            assert_eq!(self.answer(place, &mut next), Answer::Read);
            table = match u64::from_le_bytes(next) & !0xfff {
                0 => {
                    let new = self.allocate();
                    self.write_word(place, new | 0x27);
                    new
                }
                next => next,
            };
        }
        self.write_word(table + (address >> (12 + 9 * level) & 511) * 8, entry);
    }

    fn answer(&self, address: u64, data: &mut [u8]) -> Answer {
        if address.checked_add(data.len() as u64).is_none_or(|end| end > self.end) {
            return Answer::Refused;
        }
        let mut at = 0;
        while at < data.len() {
            let here = address + at as u64;
            let len = (PAGE - here % PAGE).min((data.len() - at) as u64) as usize;
            let part = &mut data[at..at + len];
            match self.pages.get(&(here / PAGE)) {
                Some(page) => part.copy_from_slice(&page[(here % PAGE) as usize..][..len]),
                None => part.fill(0),
            }
            at += len;
        }
        Answer::Read
    }
}

/// The limit of reads is used up.
#[derive(Debug)]
pub(crate) struct Exhausted;

impl PhysicalMemory for Machine {
    type Error = Exhausted;

    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<Answer, Exhausted> {
        self.reads = self.reads.checked_sub(1).ok_or(Exhausted)?;
        Ok(self.answer(address, data))
    }
}

/// Builds type information as compilers write it. Half of each structure's members are in an anonymous structure with a qualifier.
fn btf(members: &Members) -> Vec<u8> {
    let mut strings = vec![0];
    let mut types = Vec::new();
    let mut count = 0;
    let mut name = |text: &str| {
        let at = strings.len() as u32;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        if text.is_empty() { 0 } else { at }
    };
    let mut put = |words: &[u32]| {
        types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        count += 1;
        count
    };
    // Types that the parser must skip: an int, an array of it, an enumeration, a function type.
    let int = put(&[name("int"), 1 << 24, 4, 32]);
    put(&[0, 3 << 24, 0, int, int, 16]);
    put(&[name("colour"), 6 << 24 | 1, 4, name("red"), 0]);
    put(&[0, 13 << 24 | 1, int, name("a"), int]);
    put(&[name("task_struct"), 7 << 24, 0]);
    put(&[name("pageflags"), 6 << 24 | 2, 4, name("PG_locked"), 0, name("PG_uptodate"), UP_TO_DATE.ilog2()]);
    for (structure, all) in &members.0 {
        let (inner, outer) = all.split_at(all.len() / 2);
        let base = inner.first().map_or(0, |(_, at)| *at);
        let mut words = vec![0, 4 << 24 | inner.len() as u32, 1000];
        inner.iter().for_each(|(m, at)| words.extend([name(m), int, ((at - base) * 8) as u32]));
        let anonymous = put(&words);
        let constant = put(&[0, 10 << 24, anonymous]);
        let bytes = PAGE_STRUCT_BYTES as u32;
        let mut words = vec![name(structure), 1 << 31 | 4 << 24 | (outer.len() as u32 + 2), bytes];
        words.extend([name("flag"), int, 1 << 24]);
        words.extend([0, constant, (base * 8) as u32]);
        outer.iter().for_each(|(m, at)| words.extend([name(m), int, (at * 8) as u32]));
        put(&words);
    }
    let mut all = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
    for word in [0, types.len() as u32, types.len() as u32, strings.len() as u32] {
        all.extend(word.to_le_bytes());
    }
    [all, types, strings].concat()
}
