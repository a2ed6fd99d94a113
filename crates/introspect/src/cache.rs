// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page cache of a program's file: code in memory that the process has not touched.
//! Sources: Linux, `include/linux/xarray.h` for the entries of the tree, `include/asm-generic/memory_model.h` for the array of
//! `struct page`s.

use crate::code::{Code, CodeRun, Gap};
use crate::kernel::{GIB, Kernel};
use crate::layout::CacheLayout;
use crate::pages::{Missing, PAGE_BYTES, Tables};
use crate::{Error, PhysicalMemory, word};

/// `XA_CHUNK_SIZE`.
const SLOTS: usize = 64;
/// Maximum number of tree nodes to read: enough for 4 GiB in pages of 4 KiB.
const MAX_NODES: usize = 1 << 15;
const MAX_SPANS: usize = 1 << 20;
/// Maximum number of mapped pages used to locate the file.
const SAMPLES: usize = 64;

/// Consecutive pages of a file, in one folio.
struct Span {
    /// Page number in the file.
    index: u64,
    pages: u64,
    /// Kernel address of the first page's `struct page`.
    page: u64,
    /// Kernel address of the folio's `struct page`, which has the flags.
    folio: u64,
}

/// A mapped page of code: its page number relative to the start of the area, and its frame number.
struct Sample {
    number: u64,
    frame: u64,
}

/// Location of the code in its file, and of the kernel's `struct page`s.
struct CodeLocation {
    /// Page number in the file of the area's first page.
    first: u64,
    /// Kernel address of the `struct page` of frame 0: `vmemmap_base`.
    pages: u64,
}

struct Cache {
    spans: Vec<Span>,
    layout: CacheLayout,
}

/// Replaces gaps in the code by pages of the page cache. Leaves gaps if the cache is inconsistent.
pub(crate) fn fill<M: PhysicalMemory>(
    code: &mut Code,
    kernel: &mut Kernel<'_, M>,
    tables: &mut Tables,
    mm: u64,
) -> Result<(), Error<M::Error>> {
    let Some(layout) = kernel.layout.cache.clone() else { return Ok(()) };
    let spans = match spans(kernel, &layout, mm) {
        Err(Error::Memory(error)) => return Err(Error::Memory(error)),
        spans => spans.unwrap_or_default(),
    };
    let cache = Cache { spans, layout };
    let Some(place) = cache.place(&samples(code)) else { return Ok(()) };
    let begin = code.area.start / PAGE_BYTES;
    for gap in std::mem::take(&mut code.gaps) {
        let (mut address, end) = (gap.address, gap.address + gap.bytes);
        while address < end {
            let bytes = (PAGE_BYTES - address % PAGE_BYTES).min(end - address);
            let number = address / PAGE_BYTES - begin;
            let start = match gap.why {
                Missing::NotMapped => cache.start_of(kernel, tables, &place, number)?,
                _ => None,
            };
            match start {
                Some(start) => code.add_run(CodeRun {
                    address,
                    physical: start + address % PAGE_BYTES,
                    bytes,
                    is_mapped: false,
                }),
                None => code.add_gap(Gap { address, bytes, why: gap.why }),
            }
            address += bytes;
        }
    }
    code.runs.sort_by_key(|run| run.address);
    Ok(())
}

fn samples(code: &Code) -> Vec<Sample> {
    let begin = code.area.start / PAGE_BYTES;
    let pages = code.runs.iter().flat_map(|run| {
        let frames = run.physical / PAGE_BYTES..=(run.physical + run.bytes - 1) / PAGE_BYTES;
        (run.address / PAGE_BYTES - begin..).zip(frames)
    });
    pages.map(|(number, frame)| Sample { number, frame }).take(SAMPLES).collect()
}

impl Cache {
    /// Finds the place that more than half of the samples confirm. Each candidate is computed from one sample and
    /// one cached page. The address of the `struct page` of this page, minus frame number times size, gives
    /// `vmemmap_base`. KASLR aligns `vmemmap_base` to 1 GiB.
    fn place(&self, samples: &[Sample]) -> Option<CodeLocation> {
        for sample in samples {
            for span in &self.spans {
                for k in 0..span.pages {
                    let page = span.page.wrapping_add(k * self.layout.page_bytes);
                    let pages = page.wrapping_sub(sample.frame.wrapping_mul(self.layout.page_bytes));
                    let Some(first) = (span.index + k).checked_sub(sample.number) else { continue };
                    if pages % GIB != 0 || pages < 1 << 63 {
                        continue;
                    }
                    let place = CodeLocation { first, pages };
                    let agree =
                        samples.iter().filter(|other| self.frame(&place, other.number) == Some(other.frame));
                    if agree.count() * 2 > samples.len() {
                        return Some(place);
                    }
                }
            }
        }
        None
    }

    /// Returns the span with this page of the code, and the address of its `struct page`.
    fn find(&self, place: &CodeLocation, number: u64) -> Option<(&Span, u64)> {
        let index = place.first.checked_add(number)?;
        let behind = self.spans.partition_point(|span| span.index <= index);
        let span = self.spans[..behind].last().filter(|span| index - span.index < span.pages)?;
        Some((span, span.page.wrapping_add((index - span.index) * self.layout.page_bytes)))
    }

    fn frame(&self, place: &CodeLocation, number: u64) -> Option<u64> {
        let (_, page) = self.find(place, number)?;
        let offset = page.checked_sub(place.pages)?;
        (offset % self.layout.page_bytes == 0).then_some(offset / self.layout.page_bytes)
    }

    /// Returns the physical address of this page of the code if it is cached and up to date.
    fn start_of<M: PhysicalMemory>(
        &self,
        kernel: &mut Kernel<'_, M>,
        tables: &mut Tables,
        place: &CodeLocation,
        number: u64,
    ) -> Result<Option<u64>, Error<M::Error>> {
        let (Some((span, _)), Some(frame)) = (self.find(place, number), self.frame(place, number)) else {
            return Ok(None);
        };
        let flags = span.folio.wrapping_add(self.layout.flags);
        let page = tables.page(kernel, flags)?;
        let Ok(start) = page.start else { return Ok(None) };
        let flags = match kernel.word_at(start + flags % page.bytes) {
            Err(Error::Refused(_)) => return Ok(None),
            flags => flags?,
        };
        let is_there = flags >> self.layout.up_to_date & 1 == 1 && frame < 1 << 40;
        Ok(is_there.then_some(frame * PAGE_BYTES))
    }
}

/// Returns all cached pages of the program's file, in order.
fn spans<M: PhysicalMemory>(
    kernel: &mut Kernel<'_, M>,
    layout: &CacheLayout,
    mm: u64,
) -> Result<Vec<Span>, Error<M::Error>> {
    let file = kernel.word_at(mm.saturating_add(layout.exe_file))?;
    let file = kernel.physical("a file", file)?;
    let mapping = kernel.word_at(file.saturating_add(layout.f_mapping))?;
    let mapping = kernel.physical("an address_space", mapping)?;
    let head = kernel.word_at(mapping.saturating_add(layout.xa_head))?;
    let mut spans = Vec::new();
    if head & 3 == 0 && head != 0 {
        spans.push(Span { index: 0, pages: 1, page: head, folio: head });
    }
    let mut nodes: Vec<(u64, u64, u32)> =
        node_of(head).map(|node| (node, 0, u64::BITS)).into_iter().collect();
    let mut seen = 0;
    while let Some((node, index, above)) = nodes.pop() {
        let node = kernel.physical("a node of the page cache", node)?;
        let (mut shift, mut slots) = ([0], [0; SLOTS * 8]);
        kernel.read(node.saturating_add(layout.shift), &mut shift)?;
        kernel.read(node.saturating_add(layout.slots), &mut slots)?;
        let shift = u32::from(shift[0]);
        seen += 1;
        if shift >= above || seen > MAX_NODES || spans.len() > MAX_SPANS {
            break;
        }
        for slot in 0..SLOTS {
            let entry = word(&slots, slot * 8);
            let index = index.wrapping_add((slot as u64) << shift);
            if let Some(node) = node_of(entry) {
                nodes.push((node, index, shift));
                continue;
            }
            // A sibling entry refers to an earlier slot, which has the folio.
            let of = if entry & 3 == 2 { (entry >> 2) as usize } else { slot };
            let folio = if of <= slot { word(&slots, of * 8) } else { 0 };
            if folio != 0 && folio & 3 == 0 && shift < 20 {
                let page = folio.wrapping_add((((slot - of) as u64) << shift) * layout.page_bytes);
                spans.push(Span { index, pages: 1 << shift, page, folio });
            }
        }
    }
    spans.sort_by_key(|span| span.index);
    Ok(spans)
}

/// Returns the node to which an entry points, if the entry is a node entry.
fn node_of(entry: u64) -> Option<u64> {
    (entry & 3 == 2 && entry > 4096).then(|| entry - 2)
}
