// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser's own memory: zero at first, in pages that are created at the first write.

use super::allocator::Allocator;
use super::{HIGH_START, LOW_END, MAX_HIGH_BYTES, MemoryArea, MemoryContents, MemoryError};
use std::cell::RefCell;
use std::ops::Range;

pub(super) const PAGE_BYTES: usize = 4096;
/// Number of pages of a directory entry, which covers 2 MiB.
const TABLE_PAGES: usize = 512;

type Page = Box<[u8; PAGE_BYTES]>;
type Table = Box<[Option<Page>; TABLE_PAGES]>;

/// A range of memory with pages that are created at the first write.
#[derive(Default)]
struct Region {
    start: u64,
    end: u64,
    allocator: Allocator,
    tables: Vec<Option<Table>>,
}

impl Region {
    fn new(start: u64, len: u64, next: u64) -> Region {
        let end = start + len;
        Region { start, end, allocator: Allocator::new(next, end), tables: Vec::new() }
    }

    fn page(&self, address: u64) -> Option<&[u8; PAGE_BYTES]> {
        let page = ((address - self.start) as usize) / PAGE_BYTES;
        self.tables.get(page / TABLE_PAGES)?.as_ref()?[page % TABLE_PAGES].as_deref()
    }

    fn page_mut(&mut self, address: u64) -> &mut [u8; PAGE_BYTES] {
        let page = ((address - self.start) as usize) / PAGE_BYTES;
        let table = page / TABLE_PAGES;
        if table >= self.tables.len() {
            self.tables.resize_with(table + 1, || None);
        }
        let table = self.tables[table].get_or_insert_with(|| Box::new([const { None }; TABLE_PAGES]));
        table[page % TABLE_PAGES].get_or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }

    fn read(&self, address: u64, to: &mut [u8]) {
        for (at, range) in pieces(address, to.len()) {
            let to = &mut to[range];
            match self.page(at) {
                Some(page) => to.copy_from_slice(&page[in_page(at)..][..to.len()]),
                None => to.fill(0),
            }
        }
    }

    fn write(&mut self, address: u64, from: &[u8]) {
        for (at, range) in pieces(address, from.len()) {
            let from = &from[range];
            self.page_mut(at)[in_page(at)..][..from.len()].copy_from_slice(from);
        }
    }

    fn alloc(&mut self, len: u64, align: u64) -> Result<u64, MemoryError> {
        self.allocator.take(len, align).ok_or(MemoryError::Exhausted(len, self.allocator.left()))
    }
}

fn in_page(address: u64) -> usize {
    address as usize % PAGE_BYTES
}

/// Splits `len` bytes from `address` into pages: address, and range of the bytes, of each part.
fn pieces(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address + done as u64;
        let n = (len - done).min(PAGE_BYTES - in_page(at));
        let range = done..done + n;
        done += n;
        (n > 0).then_some((at, range))
    })
}

/// Low and high memory.
pub(super) struct Pages {
    low: RefCell<Region>,
    high: RefCell<Region>,
    /// The ends (exclusive) of low and high memory.
    ends: [u64; 2],
}

impl Pages {
    pub(super) fn new(low_bytes: u64, high_bytes: u64) -> Result<Pages, MemoryError> {
        let whole_pages = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES as u64);
        if low_bytes > LOW_END || !whole_pages(low_bytes) {
            return Err(MemoryError::LowSize(low_bytes));
        }
        if high_bytes > MAX_HIGH_BYTES || !whole_pages(high_bytes) {
            return Err(MemoryError::HighSize(high_bytes));
        }
        // The first page is never allocated, so that address zero can mean "none".
        let low = Region::new(0, low_bytes, PAGE_BYTES as u64);
        let high = Region::new(HIGH_START, high_bytes, HIGH_START);
        let ends = [low.end, high.end];
        Ok(Pages { low: RefCell::new(low), high: RefCell::new(high), ends })
    }

    /// The region that contains all of these bytes.
    fn find(&self, address: u64, len: usize) -> Option<&RefCell<Region>> {
        let [low_end, high_end] = self.ends;
        let end = address.checked_add(len as u64)?;
        if end <= low_end {
            Some(&self.low)
        } else if address >= HIGH_START && end <= high_end {
            Some(&self.high)
        } else {
            None
        }
    }
}

impl MemoryContents for Pages {
    fn ranges(&self) -> Vec<Range<u64>> {
        let [low_end, high_end] = self.ends;
        vec![0..low_end, HIGH_START..high_end]
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.find(address, len).is_some()
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let region = self.find(address, to.len());
        region.inspect(|region| region.borrow().read(address, to)).is_some()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        let region = self.find(address, from.len());
        region.inspect(|region| region.borrow_mut().write(address, from)).is_some()
    }

    fn alloc(&self, place: MemoryArea, len: u64, align: u64) -> Result<u64, MemoryError> {
        let region = match place {
            MemoryArea::Low => &self.low,
            MemoryArea::High => &self.high,
        };
        region.borrow_mut().alloc(len, align)
    }

    fn free(&self, address: u64) -> bool {
        [&self.low, &self.high].into_iter().any(|region| region.borrow_mut().allocator.give_back(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_pages_take_memory() {
        let pages = Pages::new(LOW_END, MAX_HIGH_BYTES).unwrap();
        let mut bytes = [1; 8];
        assert!(pages.read(HIGH_START + MAX_HIGH_BYTES - 8, &mut bytes) && bytes == [0; 8]);
        assert!(pages.high.borrow().tables.is_empty());
        assert!(pages.write(HIGH_START + (1 << 30), &[5]));
        assert_eq!(pages.high.borrow().tables.iter().flatten().count(), 1);
    }
}
