// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel in memory. KASLR places the image at one multiple of 2 MiB in physical memory and at another in
//! virtual memory. It places the direct map at a multiple of 1 GiB (Linux, `arch/x86/boot/compressed/kaslr.c`,
//! `arch/x86/mm/kaslr.c`).

use crate::btf::{self, Btf, BtfError};
use crate::kernel::{GIB, IMAGE, Init, Kernel, STEP};
use crate::layout::Layout;
use crate::marks::{MARK_BYTES, Marks, is_entry};
use crate::{Answer, Error, PhysicalMemory};
use std::ops::Range;

/// Bytes per read.
const CHUNK_BYTES: u64 = 1 << 20;
/// Maximum distance of a kernel's data from its entry; Debian's images have 60 MB.
const IMAGE_BYTES: u64 = 256 << 20;
/// Address at which the search starts, because a PC has holes in memory below it.
const FIRST: u64 = STEP;
/// Address from which a PC has the memory that does not fit below the addresses of its devices.
const HIGH: u64 = 4 * GIB;

/// Input of a search.
pub struct Search {
    /// Type information from a file. If `None`, the search looks for the kernel's own type information in memory.
    pub btf: Option<Btf>,
    /// Memory ranges. If empty, the search probes from 2 MiB and from 4 GiB until a read is refused.
    pub memory: Vec<Range<u64>>,
    /// Upper limit of the probing for memory, in bytes; above 2 MiB.
    pub end: u64,
}

/// Current step of a search, with its physical address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Probing for the end of memory.
    Measuring(u64),
    /// Searching a kernel image.
    Image(u64),
    /// Searching all memory, because no image with a kernel was found.
    All(u64),
}

/// Finds the kernel that runs in this memory.
///
/// # Errors
/// [`Error`]
pub fn find<'m, M: PhysicalMemory>(
    memory: &'m mut M,
    search: Search,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kernel<'m, M>, Error<M::Error>> {
    let layout = search.btf.as_ref().map(Layout::new).transpose()?;
    let mut finder = Finder { memory, layout, marks: Marks::default(), tried: 0, unfit: None, progress };
    let (ranges, entries) = finder.measure(search.memory, search.end)?;
    let mut found = None;
    for entry in entries {
        let range = ranges.iter().find(|range| range.contains(&entry)).expect("entries lie in them");
        let image = entry..range.end.min(entry + IMAGE_BYTES);
        found = finder.look_through(image, Progress::Image)?;
        if found.is_some() {
            break;
        }
    }
    for range in &ranges {
        if found.is_none() {
            found = finder.look_through(range.clone(), Progress::All)?;
        }
    }
    match (found, finder.unfit) {
        (Some(init), _) => Kernel::new(
            finder.memory,
            init,
            finder.layout.expect("a task was found with this layout"),
            ranges,
        ),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(Error::NoKernel {
            searched_bytes: ranges.iter().map(|range| range.end - range.start).sum(),
            btfs: finder.marks.btf.len(),
        }),
    }
}

struct Finder<'m, 'p, M> {
    memory: &'m mut M,
    layout: Option<Layout>,
    marks: Marks,
    /// Number of candidates in `marks.swapper` that were tried.
    tried: usize,
    /// Reason why the last BTF that was found was rejected.
    unfit: Option<BtfError>,
    progress: &'p mut dyn FnMut(Progress),
}

/// Memory ranges, and addresses where a kernel image may start.
type Measured = (Vec<Range<u64>>, Vec<u64>);

impl<M: PhysicalMemory> Finder<'_, '_, M> {
    /// Probes memory every 2 MiB.
    fn measure(&mut self, given: Vec<Range<u64>>, end: u64) -> Result<Measured, Error<M::Error>> {
        let asked = if given.is_empty() { vec![FIRST..HIGH.min(end), HIGH..end.max(HIGH)] } else { given };
        let first = asked[0].start;
        let (mut ranges, mut entries) = (Vec::new(), Vec::new());
        for range in asked {
            let mut at = range.start;
            while at < range.end {
                (self.progress)(Progress::Measuring(at));
                let mut begin = [0; MARK_BYTES];
                if self.memory.read(at, &mut begin).map_err(Error::Memory)? == Answer::Refused {
                    break;
                }
                if at % STEP == 0 && is_entry(&begin) {
                    entries.push(at);
                }
                at = (at / STEP + 1) * STEP;
            }
            if at > range.start {
                ranges.push(range.start..at.min(range.end));
            }
        }
        if ranges.is_empty() { Err(Error::NothingReadable(first)) } else { Ok((ranges, entries)) }
    }

    /// Searches a range until it finds a kernel's first task.
    fn look_through(
        &mut self,
        range: Range<u64>,
        place: fn(u64) -> Progress,
    ) -> Result<Option<Init>, Error<M::Error>> {
        let mut chunk = vec![0; CHUNK_BYTES as usize + MARK_BYTES];
        let mut at = range.start;
        while at < range.end {
            (self.progress)(place(at));
            let len = (range.end - at).min(chunk.len() as u64);
            let bytes = &mut chunk[..len as usize];
            if self.memory.read(at, bytes).map_err(Error::Memory)? == Answer::Refused {
                break;
            }
            let known = self.marks.btf.len();
            self.marks.look(at, bytes);
            at += CHUNK_BYTES;
            for place in known..self.marks.btf.len() {
                let end = self.take_layout(self.marks.btf[place])?;
                at = end.map_or(at, |end| at.max(end / STEP * STEP));
            }
            if let Some(init) = self.first_task()? {
                return Ok(Some(init));
            }
        }
        Ok(None)
    }

    /// Takes the layout from the BTF at `start` if this BTF describes a kernel. Returns the end of the BTF.
    fn take_layout(&mut self, start: u64) -> Result<Option<u64>, Error<M::Error>> {
        let mut header = [0; 24];
        if self.layout.is_some()
            || self.memory.read(start, &mut header).map_err(Error::Memory)? == Answer::Refused
        {
            return Ok(None);
        }
        let Ok(len) = btf::len(&header) else { return Ok(None) };
        let mut bytes = vec![0; len];
        if self.memory.read(start, &mut bytes).map_err(Error::Memory)? == Answer::Refused {
            return Ok(None);
        }
        match Btf::parse(&bytes).and_then(|btf| Layout::new(&btf)) {
            Ok(layout) => {
                self.layout = Some(layout);
                self.unfit = None;
                Ok(Some(start + len as u64))
            }
            // BTF of modules lacks these structures.
            Err(error) => {
                self.unfit = Some(error);
                Ok(None)
            }
        }
    }

    /// Tries the remaining candidates, and returns the first one that is the first task of a kernel.
    fn first_task(&mut self) -> Result<Option<Init>, Error<M::Error>> {
        let Some(Layout { task, .. }) = &self.layout else { return Ok(None) };
        while let Some(name) = self.marks.swapper.get(self.tried) {
            self.tried += 1;
            let Some(physical) = name.checked_sub(task.comm) else { continue };
            let mut bytes = vec![0; (task.span.end - task.span.start) as usize];
            let answer = self.memory.read(physical + task.span.start, &mut bytes).map_err(Error::Memory)?;
            let address = task.word(&bytes, task.group_leader);
            // The first task leads its own group and is its own parent: `init/init_task.c`.
            let is_first = answer == Answer::Read
                && task.half(&bytes, task.pid) == 0
                && task.word(&bytes, task.real_parent) == address
                && IMAGE.contains(&address)
                && address.wrapping_sub(physical) % STEP == 0;
            if is_first {
                return Ok(Some(Init { physical, address }));
            }
        }
        Ok(None)
    }
}
